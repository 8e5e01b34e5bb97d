"""Worked examples of the page notebooks/sparse_universality/copying_task."""

from fractions import Fraction
from itertools import product

import pytest
import torch

from attnbook.data.mixers import last_field
from attnbook.theorems import copying_task as page
from attnlib import copying, patterns
from attnlib.copying import causal_pattern


def test_two_layers_of_strided_hear_sums_of_two_distances():
    """Of 1, 3, 6 and 9; the field of ten tokens has 30 pairs beside its diagonal."""
    inside = last_field(page.mixings("strided", 10))
    by_hand = torch.zeros(10, 10)
    for back in (0, 1, 2, 3, 4, 6, 7, 9):
        by_hand += torch.ones(10 - back).diag(-back)
    assert torch.equal(inside, by_hand.bool())


def test_a_ceiling():
    """With half of two symbols reached, 16 symbols and a failure of one in a million,
    it is R + (1 - R) 0.0770 on 8,192 sequences; on ten it is 1, and it tends to the
    bound.
    """
    half = torch.tensor([True, False])
    top = copying.ceiling(half, 16, samples=8192, failure=1e-6)
    assert 2 * top - 1 == pytest.approx(0.0770, abs=5e-5)
    assert copying.ceiling(half, 16, samples=2, failure=1e-6) == 1
    many = copying.ceiling(half, 16, samples=10**9, failure=0.5)
    assert many == pytest.approx(float(copying.bound(half, 16)), abs=1e-3)


def test_layers_in_turn_may_reach_less():
    """Fixed with blocks of 4, 32 tokens, one layer: in turn it reads 80 pairs within
    blocks; all steps at once add the ends of the blocks before.
    """
    made = causal_pattern("fixed", 32, 4)
    ends = sum(4 * block for block in range(8))
    assert page.fields_of(made, 1, "sequential").sum() == 80
    assert page.fields_of(made, 1).sum() == 80 + ends


@pytest.mark.parametrize("m", [3, 5, 8])
def test_what_windows_and_strided_reach(m):
    """The closed forms of Proposition 15.7; strided of the page always copies."""
    n = 2 * (m + 1)
    for w in range(2, m + 2):
        for layers in (1, 2, 3):
            window = causal_pattern("window", n, w)
            assert page.share(window, layers) == (layers * (w - 1) >= m)
        for c in range(w):
            made = patterns.causal(patterns.strided(n, w, reach=c))
            assert page.share(made, 2) == (m <= 2 * c or m % w <= c)
        assert page.share(causal_pattern("strided", n, w), 2) == 1


def test_shares_of_the_page():
    """At 32 tokens; a relay that looks ahead reaches all."""
    both_sides = page.relays(15, causal=False)["star"]
    assert page.share(causal_pattern("strided", 32, 4), 2) == 1  # 15 mod 4 = 3
    assert page.share(causal_pattern("half strided", 32, 4), 2) == 0
    assert page.share(causal_pattern("fixed", 32, 4), 1) == Fraction(4, 15)
    assert page.share(causal_pattern("star", 32), 4) == 0
    assert page.share(both_sides, 2) == 1


@pytest.mark.parametrize(
    ("name", "w", "in_turn", "crossed"),
    [
        ("fixed", 8, False, [2, 2]),
        ("fixed", 8, True, [0, 2]),
        ("strided", 4, False, [16, 16]),
        ("star", 0, False, [2, 2]),
    ],
)
def test_states_that_cross_the_middle_of_32_tokens(name, w, in_turn, crossed):
    made = causal_pattern(name, 32, w)
    if not in_turn:
        made = patterns.one_step(made)
    assert page.crossed_in(made, 2) == crossed


def test_one_bit_for_two_symbols():
    """V = 2: h(e) is a half."""
    half = copying.cut_bound([0, 1], m=2, symbols=2, bits=1)
    assert half == pytest.approx(0.8899721355, abs=1e-9)


def test_the_best_code_of_one_bit():
    """Of all 256 for three symbols it gets 3/4, and no more is allowed."""
    rows = page.symbol_rows(3, 2)
    fair = [Fraction(1, 2)] * 2
    codes = product((0, 1), repeat=8)
    best = max(page.accuracy_of_code(code, rows, fair) for code in codes)
    assert best == Fraction(3, 4)
    assert best <= copying.cut_bound([0, 1], m=3, symbols=2, bits=1)
