"""attnlib.memorize.memorize: the head it chooses or is given, data far from zero, and
what its refusals name. Numbers are worked out by hand.
"""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from attnlib.memorize import choose_projection, memorize

F64 = torch.float64


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def numbers(*rows):
    """Sequences of numbers, d = 1, and their mask."""
    longest = max(map(len, rows))
    x = torch.zeros(len(rows), longest, 1, dtype=F64)
    mask = torch.zeros(len(rows), longest, dtype=torch.bool)
    for i, row in enumerate(rows):
        x[i, : len(row), 0] = torch.tensor(row, dtype=F64)
        mask[i, : len(row)] = True
    return x, mask


def names(x):
    """A label of its own for every token."""
    return torch.arange(x[..., 0].numel()).view(x.shape[:2])


def built(*rows, labels=None, **more):
    x, mask = numbers(*rows)
    labels = names(x) if labels is None else labels
    return memorize(x, labels, token_mask=mask, generator=generator(), **more)


# --- the head


def test_ids_of_a_given_head_by_hand():
    """beta = ln 2 and v = 1: weights are powers of two."""
    one = torch.ones(1, dtype=F64)
    net = built((1, 2), (1, 3), v=one, beta=math.log(2))
    assert net.report.beta == math.log(2)
    assert torch.equal(net.v, one) and net.report.w == 1 / 4
    wanted = [10 / 6, 26 / 10, 36 / 20, 1544 / 520]
    assert net.context.tolist() == pytest.approx(wanted, rel=1e-14)
    assert net.report.gap == pytest.approx(14 / 15, rel=1e-13)
    assert net.report.bits == 3  # 1544/520 is between 2 and 4 gaps


def test_the_lead_is_the_middle_step_of_the_ids_by_hand():
    """z + f / 4 of the ids above; the steps are 7/30, 4/5 and 84/65."""
    net = built((1, 2), (1, 3), v=torch.ones(1, dtype=F64), beta=math.log(2))
    ids = [1 + 10 / 24, 1 + 26 / 40, 2 + 36 / 80, 3 + 1544 / 2080]
    steps = [b - a for a, b in pairwise(ids)]
    assert steps == pytest.approx([7 / 30, 4 / 5, 84 / 65], rel=1e-13)
    assert net.lead == pytest.approx(4 / 5, rel=1e-13)


def test_rivals_must_be_further_apart_than_rounding():
    """Rounding may move a context id of numbers up to 1 by 16 eps. At this beta all
    weights are equal, and token 1 has the means of 1 and 1/2, and of 1 and 1/2 + step.
    """
    head = {"v": torch.ones(1, dtype=F64), "beta": 1e-30}
    eps = 2.0**-52

    def gap(step):
        try:
            return built((1, 0.5), (1, 0.5 + step), **head).report.gap
        except ValueError as refusal:
            return str(refusal)

    assert gap(34 * eps) == 17 * eps
    assert "no further apart in their company" in str(gap(32 * eps))


def test_tokens_must_be_more_than_two_slacks_apart():
    """The slack of numbers up to 1 is 4 eps."""
    one = torch.ones(1, dtype=F64)
    eps = 2.0**-52
    net = built((1,), (1 - 9 * eps,), v=one, beta=1.0)
    assert net.tokens.tolist() == [1 - 9 * eps, 1]
    with pytest.raises(ValueError, match="no further apart along the direction than"):
        built((1,), (1 - 8 * eps,), v=one, beta=1.0)


def test_a_given_head_is_kept():
    g = generator(4)
    vocabulary = torch.randn(9, 5, generator=g, dtype=F64)
    x = vocabulary[torch.randint(9, (30, 3), generator=g)]
    v = choose_projection(vocabulary, generator=g).v
    y = (x.sum((1, 2)) > 0).long()[:, None].expand(30, 3)
    net = memorize(x, y, generator=g, v=v)
    again = memorize(x, y, generator=generator(9), v=v)
    assert torch.equal(net.v, v) and torch.equal(net(x), y)
    assert torch.equal(net.context, again.context)


@pytest.mark.parametrize("offset", [1e5, 1e7])
def test_far_from_zero_the_second_scale_serves(offset):
    """Tokens offset -+ 1 have deviation 1, so beta is 1 over the larger one, and the
    logits of a token differ by 2: ids differ by 2 / (1 + e^2). At 0.3 over the
    variance they would differ by 0.6 offset, and the softmax would be a maximum.
    """
    a, b = offset - 1, offset + 1
    net = built((a, b), (a,), (b,))
    assert net.report.beta == pytest.approx(1 / b)
    assert net.report.gap == pytest.approx(2 / (1 + math.exp(2)), rel=1e-4)


def test_of_four_factors_the_best_is_taken():
    rows = ((1, 2, 5), (1, 4, 5), (2, 4, 5), (1, 2, 4))
    best = built(*rows).report
    z = torch.tensor([1.0, 2, 4, 5], dtype=F64)
    variance = float(z.var(correction=0))
    tried = [f / variance for f in (0.3, 0.1, 1.0)]
    tried.append(1 / (math.sqrt(variance) * 5))
    gaps = [built(*rows, beta=beta).report.gap for beta in tried]
    assert len(set(gaps)) == 4
    assert best.gap == pytest.approx(max(gaps), rel=1e-9)


def test_ragged_sequences_far_from_zero():
    rows = ((1, 2, 3), (1, 2, 3, 4), (1, 2, 4, 5, 6), (5, 6))
    for offset in (1e5, 1e7):
        net = built(*[[offset + z for z in row] for row in rows])
        assert net.report.ids == net.report.pairs == 14


# --- what it refuses


def refused(call, *words):
    with pytest.raises(ValueError) as caught:
        call()
    for word in words:
        assert word in str(caught.value), caught.value


@pytest.mark.bad_input
@pytest.mark.parametrize("size", [1e-200, 1e-160, 1e160, 1e300])
def test_sizes_without_a_beta(size):
    refused(lambda: built((size, 2 * size)), "measure tokens in other units")


@pytest.mark.bad_input
def test_the_smallest_beta_is_the_smallest_normal_number():
    """One token z is tried with 1 / z^2, which is 2^-1022 for 2^511."""

    def beta_for(z):
        try:
            return built((z,)).report.beta
        except ValueError as refusal:
            return str(refusal)

    assert beta_for(2.0**511) == 2.0**-1022
    assert "measure tokens in other units" in str(beta_for(2.0**512))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("v", "words"),
    [
        ([0.0, 2.0], ("length one, got 2", "v / v.norm()")),
        ([0.0, 0.0], ("length one, got 0",)),
        ([0.0, 1.0], ("orthogonal to all tokens",)),
    ],
)
def test_directions_that_do_not_fit(v, words):
    x = torch.tensor([[[1.0, 0.0], [2.0, 0.0]]], dtype=F64)
    v = torch.tensor(v, dtype=F64)
    refused(lambda: memorize(x, names(x), generator=generator(), v=v), *words)


@pytest.mark.bad_input
def test_a_direction_that_joins_two_tokens_names_them():
    x = torch.tensor([[[1.0, 5.0], [2.0, 6.0], [1.0, 7.0]]], dtype=F64)
    v = torch.tensor([1.0, 0.0], dtype=F64)
    refused(
        lambda: memorize(x, names(x), generator=generator(), v=v),
        "the tokens at (sequence, position) (0, 0) and (0, 2)",
        "beta was",
    )


@pytest.mark.bad_input
def test_equal_shares_are_named_with_their_places():
    """Row 2 is row 0 twice; only token 2 has two labels."""
    rows = ((1, 2), (1, 3), (2, 1, 1, 2))
    labels = torch.tensor([[1, 2, 0, 0], [3, 4, 0, 0], [5, 1, 1, 5]])
    refused(
        lambda: built(*rows, labels=labels),
        "(0, 1) and (2, 0)",
        "equal shares of tokens are one company",
    )


@pytest.mark.bad_input
def test_a_factor_that_joins_two_companies():
    """At 1e6 tokens 1 and 3 see the 3 alone."""
    one = torch.ones(1, dtype=F64)
    rows = ((1, 2), (1, 2, 1, 2), (1, 2, 3), (1, 3))
    labels = torch.tensor([[1, 2, 0, 0], [1, 2, 1, 2], [3, 4, 5, 0], [6, 7, 0, 0]])
    refused(
        lambda: built(*rows, labels=labels, v=one, beta=1e6),
        "(2, 0) and (3, 0)",
        "no further apart in their company",
        "beta was 1e+06",
    )
    assert built(*rows, labels=labels).report.ids == 9


@pytest.mark.bad_input
def test_tokens_four_steps_of_the_dtype_apart():
    """Rounding may move each by as much."""
    refused(
        lambda: built((1, 1 + 2**-50)),
        "the tokens at (sequence, position) (0, 0) and (0, 1)",
        "along the direction",
    )
