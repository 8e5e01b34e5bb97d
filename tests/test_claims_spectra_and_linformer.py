"""What attnbook.theorems.spectra_and_linformer cannot say: literal numbers of the page
notebooks/jl_low_rank/spectra_and_linformer, worked out by another route.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from attnbook.theorems import spectra_and_linformer as claims


def test_the_law_at_four_tokens():
    """Phi(-1) - Phi(-3) of the normal table; for Theorem 2 with two pairs Phi(-1/2) -
    Phi(-3/2).
    """
    assert claims.chance(4, 0.5, 0.0) == pytest.approx(0.158655 - 0.001350, abs=1e-6)
    two = claims.chance(4, 0.5, 0.0, target=2)
    assert two == pytest.approx(0.308538 - 0.066807, abs=1e-6)


def test_what_is_promised_begins_to_be_false():
    """1 - 2 e^-2 at k = 64; and a half exactly at k = 4 ln 4 / (eps^2 - eps^3)."""
    assert claims.promised(64, 0.5) == pytest.approx(0.729329, abs=1e-6)
    for eps in (0.1, 0.5, 2 / 3, 0.9):
        enough = 4 * math.log(4) / (eps**2 - eps**3)
        assert claims.promised(math.ceil(enough), eps) >= 0.5
        assert claims.promised(math.floor(enough), eps) < 0.5


@pytest.mark.parametrize(
    ("entry", "unit"), [(250.0, 100.0), (-1.0, 1.0), (0.02, 0.01), (0.0, 1.0)]
)
def test_errors_are_counted_in_powers_of_ten(entry, unit):
    assert claims._unit(torch.tensor([0.0, entry])) == pytest.approx(unit, rel=1e-12)


def test_the_bound_for_logits_of_at_most_one():
    """Degree 2: eta = e / 3!, and 2 eta / (1 - eta) = 2 e / (6 - e)."""
    logit = torch.ones(1, 1, dtype=torch.float64)
    bound = claims.small_logits(logit, logit, 1.0, 2).bound
    assert bound == pytest.approx(2 * math.e / (6 - math.e))


@pytest.mark.parametrize(("n", "share"), [(2, Fraction(3, 4)), (3, Fraction(27, 40))])
def test_the_share_of_the_circle_by_hand(n, share):
    """Two keys win a half each. For three, S has density 2 s: 1 - E (1 - S/2)^3."""
    assert claims.share_of_the_circle(n) == share


def test_groups_of_two_are_at_distance_one_over_root_two():
    """Two kinds on the mean of their values: sqrt(1/2) between 0.70 and 0.71."""
    head = claims.one_hot_head(k=2, group=2, eps=0.71)
    assert claims.covering(**head).value == 1
    assert claims.covering(**head | {"eps": 0.70}).value == 0


def test_zero_meets_no_bound_where_kinds_are_as_many_as_tokens():
    """So that the count of pairs is not empty there: |P_i V| = |P_i| |V|."""
    head = claims.one_hot_head(copies=1)
    nothing = torch.zeros_like(head["f"])
    assert claims.covering(**head | {"f": nothing, "eps": 0.99}).value == 0


def normal(*size):
    """A Gaussian tensor, the same at each call."""
    g = torch.Generator().manual_seed(0)
    return torch.randn(size, generator=g, dtype=torch.float64)


P = normal(17, 17).softmax(-1)
V = normal(17, 3)
MIX = normal(4, 17)
COLUMN = normal(17, 1)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "given", "words"),
    [
        (claims.best_rank, (P, 17), "k must be below 17"),
        (claims.diffuse_heads, (normal(17, 17),), "p must not be negative"),
        (claims.diffuse_heads, (3 * P,), "p must have rows that sum to one"),
        (claims.two_counts, ((5, 3, 1), 1.5), "share must be a Fraction"),
        (claims.full_rank, ([[1, 2]],), "weights must be 1 x 1"),
        (claims.full_rank, ([[1, 2], [-1, 2]],), "weights must be nonnegative"),
        (claims.winners, (normal(1, 17, 64), normal(17, 64)), "at least 20 draws"),
        (claims.small_logits, (V, V, -1, 4), "B must be above 0"),
        (claims.small_logits, (V, V, 0.6, 0), "degree 0 is too low"),  # eta is 1.09
        (claims.random_products, (P, V), "p must have at most 10 columns"),
        (claims.random_products, (P[:4, :4], 0 * V[:4]), "p and v must have some"),
        (claims.lost_values, (COLUMN, 0 * COLUMN, MIX, MIX), "k must hold 17 distinct"),
        (claims.future_is_seen, (MIX, MIX, 16), "i must be at most 15"),
        (claims.zero_output, (P, V, 5.0), "eps must lie strictly between"),
        (claims.zero_output, (P, 0 * V, 0.5), "v must not be zero"),
        (claims.zero_logits, (normal(500, 4, 4), 0.5, 0.0), "r must have entries of"),
        (claims.covering, (V, V, V, MIX, MIX, 0.5), "q must make each row look"),
        (claims.covering, (V, V, V, MIX, MIX, 1.5), "eps must lie strictly between"),
    ],
)
def test_what_is_no_object_of_a_theorem_is_refused(call, given, words):
    with pytest.raises(ValueError, match=words):
        call(*given)


@pytest.mark.parametrize("size", [1e-6, 1.0])
def test_draws_that_are_never_off_are_so_at_any_size(size):
    """One direction a side: the law is zero, and what is left is rounding."""
    p = size * normal(3, 1) @ normal(1, 4).abs()
    v = size * normal(4, 1).abs() @ normal(1, 2)
    assert claims.random_products(p, v, k=2).ok


@pytest.mark.bad_input
@pytest.mark.parametrize(("inside", "outside"), [(1.099, 1.101), (0.901, 0.899)])
def test_draws_of_another_variance_are_refused(inside, outside):
    """7,200 entries: six standard errors of their mean square are 6 / 60."""
    entries = torch.full((100, 8, 9), math.sqrt(1 / 8), dtype=torch.float64)
    assert claims.zero_logits(math.sqrt(inside) * entries, 0.5, 0.0).value >= 0
    with pytest.raises(ValueError, match="more than six standard errors from 1"):
        claims.zero_logits(math.sqrt(outside) * entries, 0.5, 0.0)


ONES = torch.ones(2, 1, dtype=torch.float64)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (claims.best_rank, (0 * P, 3)),
        (claims.small_logits, (COLUMN / 9, COLUMN / 9, 1.0, 18)),
        (claims.small_logits, (COLUMN / 9, COLUMN / 9, 1.0, 500)),
        (claims.random_products, (ONES @ ONES.mT / 2, ONES)),
        (claims.random_products, (ONES[:1], ONES[:1])),
        (claims.random_products, (ONES.mT / 2, ONES * normal(2, 1).sign())),
        (claims.any_pairs, (V, V, V[:, :2], V[:4], 1e6 * V[:4, :2])),
        (claims.lost_values, (COLUMN, COLUMN, MIX, 1e6 * MIX)),
        (claims.future_is_seen, (MIX, 1e6 * MIX)),
        (claims.future_is_seen, (MIX, 0 * MIX)),
    ],
)
def test_a_true_statement_holds_at_any_size(call, given):
    verdict = call(*given)
    assert verdict.ok, verdict


def test_a_small_matrix_does_not_pass_for_zero():
    alike = torch.ones_like(MIX)
    silent = 1e-12 * (MIX - MIX.mean(0))
    assert claims.future_is_seen(alike, silent).ok is False


@pytest.mark.parametrize("seed", range(6))
def test_a_bound_that_is_attained_is_no_matter_of_luck(seed):
    """Two opposite keys of length one: the mean rank is exactly that of the bound."""
    g = torch.Generator().manual_seed(seed)
    queries = torch.randn(200, 2, 8, generator=g, dtype=torch.float64)
    key = torch.eye(8, dtype=torch.float64)[:1]
    assert claims.winners(queries, torch.cat([key, -key])).ok


def test_winners_may_exceed_their_bound_by_four_standard_errors():
    """Two keys, 19 draws of rank 2 and one of rank 1: the mean 1.95 over the bound 1.5,
    and a deviation of sqrt(1 / 20).
    """
    keys = torch.eye(2, dtype=torch.float64)
    queries = keys.repeat(20, 1, 1)
    queries[0, 1] = keys[0]
    verdict = claims.winners(queries, keys)
    assert verdict.value == pytest.approx(1.95 / 1.5)
    assert verdict.bound == pytest.approx(1 + 4 / 20 / 1.5)
