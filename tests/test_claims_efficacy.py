"""The claims of notebooks/path_decomposition/path_efficacy: each check, and its
control, on which the same function fails.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from attnlib.attention import Layer, forward, random_layers
from attnlib.certify import at_most, relative_error
from attnlib.efficacy import (
    Reader,
    estimate_length,
    length_bounds,
    logit_parts,
    logits,
    random_reader,
    restricted_forward,
)
from attnlib.paths import path_counts, path_sums, path_terms


def network(seed=0, L=4, h=2, n=5, d=6, gain=1.0, bias=False):
    g = torch.Generator().manual_seed(seed)
    layers = random_layers(L, h, d, 3, gain=gain, bias=bias, generator=g)
    return torch.randn(n, d, dtype=torch.float64, generator=g), layers


# --- where the paths are


def check_lengths(heads, *, h=None):
    """Counts against the three statements for L layers of h heads, in integers; the
    value counts what is false.
    """
    L, h = len(heads), heads[0] if h is None else h
    counts = path_counts(heads, skip=True)
    total = sum(counts)
    false = [counts[-1] + counts[-2] != h ** (L - 1) * (h + L), total != (h + 1) ** L]
    false += [
        (counts[-1] >= max(counts)) != (h >= L),
        (counts[-1] > max(counts[:-1])) != (h > L),
    ]
    for t in range(L + 1):
        false.append(
            Fraction(sum(counts[: L - t + 1]), total)
            > Fraction(math.comb(L, t), (h + 1) ** t)
        )
    return at_most(sum(false), 0)


@pytest.mark.claim("efficacy.lengths", role="check")
@pytest.mark.parametrize(
    ("L", "h"), [(1, 1), (6, 2), (12, 12), (12, 13), (24, 16), (24, 128), (96, 96)]
)
def test_lengths(L, h):
    assert check_lengths([h] * L).ok


@pytest.mark.claim("efficacy.lengths", role="control")
def test_lengths_with_unequal_heads():
    """The mean number of heads does not do in place of one number: 1 and 5 heads are
    not twice 3.
    """
    assert check_lengths([1, 5], h=3).ok is False


@pytest.mark.claim("efficacy.lengths", role="witness")
def test_lengths_by_hand():
    """Two layers, one head: 1, 2, 1. Two layers, two heads: 1, 4, 4, so the longest are
    as many as any.
    """
    assert path_counts([1, 1], skip=True) == [1, 2, 1]
    assert path_counts([2, 2], skip=True) == [1, 4, 4]


# --- margins add, accuracies do not


def check_parts(seed=0, *, drop=0, constant=True, L=4):
    """The parts of the logits against the whole, to 1e-12; `drop` lengths are left out
    from the top.
    """
    g = torch.Generator().manual_seed(seed)
    reader = random_reader(
        3, 4, L=L, h=2, d=6, n=5, gain=1.0, generator=g, dtype=torch.float64
    )
    layers = random_layers(L, 2, 6, 3, bias=True, generator=g)
    reader = reader._replace(
        layers=layers, bias=torch.randn(4, dtype=torch.float64, generator=g)
    )
    u = torch.randn(2, 5, 3, dtype=torch.float64, generator=g)
    parts = logit_parts(reader, u)
    total = parts.by_length[: L + 1 - drop].sum(0) + (parts.constant if constant else 0)
    return at_most(relative_error(total, logits(reader, u)), 1e-12)


def check_votes(scores, *, constant=None):
    """Tokens on which all lengths agree on the label 0, but the network does not.
    scores: (lengths, tokens, classes).
    """
    scores = torch.as_tensor(scores, dtype=torch.float64)
    constant = (
        torch.zeros(scores.shape[-1])
        if constant is None
        else torch.as_tensor(constant, dtype=torch.float64)
    )

    def right(z):
        return (z[..., :1] > z[..., 1:]).all(-1)

    agreed = right(scores + constant).all(0)
    return at_most((agreed & ~right(scores.sum(0) + constant)).sum(), 0)


def check_two_classes(scores):
    """Tokens on which all lengths answer the label 0 wrongly, but the network rightly;
    the constant takes no side.
    """
    scores = torch.as_tensor(scores, dtype=torch.float64)

    def margin(z):
        return z[..., 0] - z[..., 1:].amax(-1)

    wrong = (margin(scores) < 0).all(0)
    return at_most((wrong & (margin(scores.sum(0)) > 0)).sum(), 0)


def one_token(x, w, readout):
    """A network of one layer with one token: S_0 = x, S_1 = x W, integers."""

    def t(m):
        return torch.tensor(m, dtype=torch.float64)

    d = len(x)
    layer = Layer(
        torch.zeros(1, d, 1).double(),
        torch.zeros(1, d, 1).double(),
        t(w)[None],
        torch.eye(d).double()[None],
    )

    def zero(c):
        return torch.zeros(c, dtype=torch.float64)

    return Reader(
        torch.eye(d).double(), zero(d)[None], [layer], t(readout), zero(len(readout[0]))
    ), t([x])


@pytest.mark.claim("efficacy.margins", role="check")
@pytest.mark.parametrize("seed", range(3))
def test_parts_add_up(seed):
    assert check_parts(seed).ok
    g = torch.Generator().manual_seed(seed)
    assert check_votes(torch.randn(3, 5000, 3, generator=g)).ok
    assert check_two_classes(torch.randn(3, 5000, 2, generator=g)).ok


@pytest.mark.claim("efficacy.margins", role="control")
def test_parts_without_a_length_or_the_constant():
    assert check_parts(drop=1).ok is False
    assert check_parts(constant=False).ok is False


@pytest.mark.claim("efficacy.margins", role="control")
def test_votes_with_a_constant_that_takes_sides():
    """Margins -1 and -1 and a constant 3/2: each length is right by 1/2, the network
    wrong by 1/2.
    """
    assert check_votes([[[-1.0, 0.0]], [[-1.0, 0.0]]], constant=[1.5, 0.0]).ok is False


@pytest.mark.claim("efficacy.margins", role="control")
def test_all_lengths_wrong_with_three_classes():
    assert check_two_classes([[[2, 3, 0]], [[2, 0, 3]]]).ok is False


@pytest.mark.claim("efficacy.margins", role="witness")
@pytest.mark.parametrize("further", [0, 2])
def test_three_classes_or_more_all_lengths_wrong(further):
    """S_0 = (2, 3, 0), S_1 = (2, 0, 3): both wrong for the class 0, their sum (4, 3, 3)
    right; further classes score 0. Exact.
    """
    readout = torch.eye(3, 3 + further).tolist()
    reader, x = one_token([2, 3, 0], [[1, 0, 0], [0, 0, 1], [0, 0, 0]], readout)
    parts = logit_parts(reader, x)
    more = [0] * further
    assert parts.by_length[:, 0].tolist() == [[2, 3, 0, *more], [2, 0, 3, *more]]
    assert logits(reader, x).tolist() == [[4, 3, 3, *more]]
    assert [z.argmax().item() for z in parts.by_length[:, 0]] == [1, 2]


# --- what long paths can weigh


def scalars(weights):
    """One token of width one: x = 2 and layers whose heads multiply by the given
    numbers.
    """
    one = torch.ones(1, 1, 1, dtype=torch.float64)

    def copies(row):
        return one.expand(len(row), 1, 1)

    def values(row):
        return torch.tensor(row, dtype=torch.float64).view(-1, 1, 1)

    return 2 * one[0], [
        Layer(copies(row), copies(row), values(row), copies(row)) for row in weights
    ]


def check_weight(x, layers, *, left_out=0):
    """The largest ratio of |S_k| to its bound, at most 1 + 1e-12; `left_out` heads of
    each layer are missing from the bound.
    """
    attention = forward(x, layers, skip=True, return_attention=True)[1]
    sums = path_sums(x, layers, skip=True, attention=attention).by_length
    fewer = [Layer(*(w[left_out:] for w in layer[:4])) for layer in layers]
    bounds = length_bounds(x, fewer, attention=[p[left_out:] for p in attention])
    return at_most((sums.flatten(1).norm(dim=1) / bounds).max(), 1 + 1e-12)


def check_attained(weights):
    """The bound is attained by positive scalars: relative gap to 1e-13."""
    x, layers = scalars(weights)
    sums = path_sums(x, layers, skip=True).by_length.flatten().abs()
    return at_most((1 - sums / length_bounds(x, layers)).abs().max(), 1e-13)


@pytest.mark.claim("efficacy.weight", role="check")
@pytest.mark.parametrize("seed", range(4))
def test_weight(seed):
    assert check_weight(*network(seed)).ok and check_weight(*network(seed, gain=0.2)).ok
    assert check_attained([[1.0, 2.0], [0.5, 3.0], [1.0, 0.25]]).ok


@pytest.mark.claim("efficacy.weight", role="control")
def test_weight_with_a_head_left_out():
    assert check_weight(*scalars([[1.0, 2.0], [0.5, 3.0]]), left_out=1).ok is False


@pytest.mark.claim("efficacy.weight", role="control")
def test_attained_with_signs_that_cancel():
    assert check_attained([[-1.0, 2.0], [-0.5, 3.0]]).ok is False


@pytest.mark.claim("efficacy.weight", role="witness")
def test_weight_by_hand():
    """Layers 1 + 2 = 3 and 4: the lengths weigh 1, 7, 12."""
    one = torch.ones(2, 1, 1, dtype=torch.float64)
    layers = [
        Layer(one, one, torch.tensor([1.0, 2.0]).double().view(2, 1, 1), one),
        Layer(one[:1], one[:1], 4 * one[:1], one[:1]),
    ]
    assert length_bounds(one[0], layers).tolist() == pytest.approx(
        [1, 7, 12], abs=1e-12
    )


# --- the first order


def slope(x, layers, frozen):
    """d/dz at 0 of the network whose head outputs are multiplied by z, exactly, by
    automatic differentiation.
    """
    attention = forward(x, layers, skip=True, return_attention=True)[1]

    def run(z):
        scaled = [layer._replace(w_o=z * layer.w_o) for layer in layers]
        if frozen:
            return path_sums(
                x, scaled, skip=True, attention=attention, check=False
            ).by_length.sum(0)
        return forward(x, scaled, skip=True, check=False)

    at = torch.zeros((), dtype=x.dtype), torch.ones((), dtype=x.dtype)
    return torch.autograd.functional.jvp(run, *at)[1]


def check_first_order(seed=0, *, network_frozen=True, paths_frozen=True, L=4):
    """The derivative of a network against the sum of its paths of length one, both
    frozen or both recomputed, to 1e-12.
    """
    x, layers = network(seed, L=L)
    attention = forward(x, layers, skip=True, return_attention=True)[1]
    ones = [
        p
        for p, _ in path_terms(x, layers, skip=True)
        if sum(h is not None for h in p) == 1
    ]
    paths = estimate_length(
        x, layers, ones, attention=attention if paths_frozen else None
    )
    return at_most(relative_error(slope(x, layers, network_frozen), paths), 1e-12)


def second_order(a, c):
    """Toy of two layers with strength c: half the second derivative of the network that
    recomputes, and its path of length 2.
    """
    t = math.tanh(c * a * a)
    return a * (t * t + 2 * c * a * a * t * (1 - t * t)), a * t * math.tanh(
        c * a * a * t * t
    )


@pytest.mark.claim("efficacy.first-order", role="check")
@pytest.mark.parametrize("seed", range(3))
def test_first_order(seed):
    assert check_first_order(seed).ok
    assert check_first_order(seed, network_frozen=False, paths_frozen=False).ok


@pytest.mark.claim("efficacy.first-order", role="control")
def test_first_order_mixed():
    assert check_first_order(network_frozen=False).ok is False
    assert check_first_order(paths_frozen=False).ok is False
    assert check_first_order(paths_frozen=False, L=1).ok  # one layer sees X in any case


@pytest.mark.claim("efficacy.first-order", role="witness")
@pytest.mark.parametrize(("a", "c"), [(1.0, 0.5), (0.7, 1.3)])
def test_second_order_of_the_toy(a, c):
    """Not so for length two: the formula against a second difference of the network
    (step 1e-3, error of order 1e-5).
    """
    ones = torch.ones(1, 1, 1, dtype=torch.float64)
    x = a * torch.tensor([[1.0], [-1.0]], dtype=torch.float64)

    def run(z):
        return float(
            forward(x, [Layer(c * ones, ones, z * ones, ones)] * 2, skip=True)[0]
        )

    half = (run(1e-3) - 2 * run(0.0) + run(-1e-3)) / 2e-6
    taylor, path = second_order(a, c)
    assert half == pytest.approx(taylor, abs=1e-4)
    rerun = restricted_forward(x, [Layer(c * ones, ones, ones, ones)] * 2, (0, 0))
    assert float(rerun[0]) == pytest.approx(path, rel=1e-12)
    assert taylor > 1.5 * path
