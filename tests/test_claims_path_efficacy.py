"""What attnbook.theorems.path_efficacy cannot say: exact examples of the page
notebooks/path_decomposition/path_efficacy, and its theorems on networks of one's own.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from attnbook.theorems import path_efficacy as theorems
from attnlib.attention import Layer, forward
from attnlib.efficacy import Reader, length_bounds, logit_parts, logits
from attnlib.paths import path_counts, path_sums, restrict

EPS = torch.finfo(torch.float64).eps


@pytest.mark.parametrize("further", [0, 2])
def test_three_classes_or_more_all_lengths_wrong(further):
    """(2, 3, 0) and (2, 0, 3) are wrong for the class 0, their sum (4, 3, 3) is
    right.
    """
    eye = torch.eye(3, 3 + further, dtype=torch.float64)
    w_q = torch.zeros(1, 3, 1, dtype=torch.float64)
    w_v = torch.tensor([[[1, 0, 0], [0, 0, 1], [0, 0, 0]]], dtype=torch.float64)
    layer = Layer(w_q=w_q, w_k=w_q, w_v=w_v, w_o=eye[None, :, :3])
    reader = Reader(
        embed=eye[:, :3],
        position=0 * eye[:1, :3],
        layers=[layer],
        readout=eye,
        bias=0 * eye[0],
    )
    token = torch.tensor([[2.0, 3.0, 0.0]], dtype=torch.float64)
    alone = logit_parts(reader, token).by_length[:, 0]
    more = [0] * further
    assert alone.tolist() == [[2, 3, 0, *more], [2, 0, 3, *more]]
    assert logits(reader, token).tolist() == [[4, 3, 3, *more]]
    assert alone.argmax(dim=-1).tolist() == [1, 2]


def test_a_constant_that_takes_sides():
    """Margins -1 and -1, and a constant 3/2: right by 1/2 alone, wrong by 1/2
    together.
    """
    label = torch.tensor([0])
    alone = torch.tensor([[-1.0, 0.0]])
    constant = torch.tensor([1.5, 0.0])
    assert theorems.right(alone + constant, label).all()
    assert not theorems.right(2 * alone + constant, label).any()


def test_right_is_more_than_every_other():
    scores = torch.tensor([[2.0, 1.0, 1.0], [2.0, 2.0, 1.0], [1.0, 2.0, 3.0]])
    found = theorems.right(scores, torch.tensor([0, 0, 2]))
    assert found.tolist() == [True, False, True]


def test_the_lengths_have_something_to_agree_on():
    """The first case is not empty: all lengths are right for many tokens, and wrong for
    many others.
    """
    made = theorems.readers()
    alone = logit_parts(made["reader"], made["u"]).by_length
    each = torch.stack([theorems.right(z, made["labels"]) for z in alone])
    assert each.all(0).sum() > 50
    assert (~each.any(0)).sum() > 20


def test_shares_by_hand():
    """Two layers of one head: 1, 2, 1 paths. Three quarters have length 1 or 2."""
    counts = path_counts([1, 1], skip=True)
    assert counts == [1, 2, 1]
    assert Fraction(sum(counts[1:]), 4) == Fraction(1 * (1 + 2), 2**2)
    assert theorems.most_are_long([1, 1])
    assert theorems.most_are_long([1, 5]).value == 1  # the longest are not the most


@pytest.mark.parametrize(("a", "w"), [(1.0, 0.5), (0.7, 1.3)])
def test_second_order_of_two_tokens(a, w):
    """The formula of the proof against a second difference, step 1e-3, error of order
    1e-5; and the rerun path is less.
    """
    ones = torch.ones(1, 1, 1, dtype=torch.float64)
    x = a * torch.tensor([[1.0], [-1.0]], dtype=torch.float64)

    def network(z):
        layers = [Layer(w * ones, ones, z * ones, ones)] * 2
        return float(forward(x, layers, skip=True)[0])

    half = (network(1e-3) - 2 * network(0.0) + network(-1e-3)) / 2e-6
    strength = w * a * a
    t = math.tanh(strength)
    taylor = a * (t * t + 2 * strength * t * (1 - t * t))
    assert half == pytest.approx(taylor, abs=1e-4)
    both = [Layer(w * ones, ones, ones, ones)] * 2
    rerun = forward(x, restrict(both, (0, 0)))
    assert float(rerun[0]) == pytest.approx(a * t * math.tanh(strength * t * t))
    assert taylor > 1.5 * float(rerun[0])


def test_equality_with_one_token_of_width_one():
    """As in the box: heads that multiply one number by 1, 2 and by 1/2, 3."""
    one = torch.ones(2, 1, 1, dtype=torch.float64)
    layers = []
    for row in ([1.0, 2.0], [0.5, 3.0]):
        numbers = torch.tensor(row, dtype=torch.float64).view(2, 1, 1)
        layers.append(Layer(one, one, numbers, one))
    sums = path_sums(2 * one[0], layers, skip=True).by_length.flatten()
    assert sums.tolist() == pytest.approx([2, 13, 21], abs=64 * EPS)
    assert length_bounds(2 * one[0], layers).tolist() == pytest.approx(sums.tolist())
    assert theorems.weight(2 * one[0], layers, attained=True)


def test_heads_that_do_nothing():
    """Their bound is 0 and so is the sum: 0 is at most 0, and attained."""
    made = theorems.multiples([[0, 0], [0.5, 3]])
    found = theorems.weight(**made, attained=True)
    assert found
    assert found.value == 0
    assert theorems.weight(**theorems.multiples([[0], [0]])).value == 1


# --- a theorem is for networks of one's own


def test_networks_with_batches_and_single_precision():
    made = theorems.queries_and_keys_with_biases()
    x, layers = made["x"], made["layers"]
    batch = torch.stack([x, x.flip(0)])
    single = [Layer(*(w if w is None else w.float() for w in l)) for l in layers]
    for recomputed in (False, True):
        how = {"recomputed": recomputed}
        assert theorems.first_order(batch, layers, **how)
        assert theorems.first_order(x.float(), single, **how).bound == 1e-4
        assert theorems.first_order(x.float(), single, **how)
    mixed = theorems.first_order.broken
    assert not mixed("network frozen", x.float(), single, recomputed=True)
    assert theorems.weight(x, layers)


def test_labels_other_than_the_first():
    made = theorems.readers(classes=4)
    g = torch.Generator().manual_seed(0)
    labels = torch.randint(4, made["labels"].shape, generator=g)
    assert theorems.logits_add(made["reader"], made["u"], labels)
    assert not theorems.logits_add(made["reader"], made["u"], labels, wrong_too=True)


@pytest.mark.bad_input
def test_hypotheses_are_asked_for():
    made = theorems.queries_and_keys_with_biases()
    x, layers = made["x"], made["layers"]
    biased = [layer._replace(b_o=x[0]) for layer in layers]
    with pytest.raises(ValueError, match="layer 1 has biases of values or outputs"):
        theorems.first_order(x, biased)
    with pytest.raises(ValueError, match=r"order must be one of \[1, 2, 3\], got 4"):
        theorems.first_order(x, layers, order=4)
    with pytest.raises(ValueError, match="heads must hold at least one"):
        theorems.most_are_long([])
    with pytest.raises(ValueError, match="x is torch.float16"):
        half = [Layer(*(w if w is None else w.half() for w in l)) for l in layers]
        theorems.weight(x.half(), half)
