"""What attnlib.theorems.spectra_and_linformer cannot say: literal numbers of the page
notebooks/jl_low_rank/spectra_and_linformer, worked out by another route.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from attnlib.theorems import spectra_and_linformer as claims


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
