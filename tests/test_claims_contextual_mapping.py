"""What attnbook.theorems.contextual_mapping cannot say: the certified numbers that the
page prints, what floats show of means, and refusals.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from attnbook.data import load_result
from attnbook.theorems import contextual_mapping as claims
from attnlib.memorize import context_ids, needed_gap, paper_scale, separate
from attnlib.memorize.ids import smallest_gap

double = torch.float64
nan = math.nan


@pytest.mark.parametrize(
    ("count", "n", "theory", "gap"),
    [(4, 3, -13300.75, -2217.48), (6, 4, -94557.24, -18911.94)],
)
def test_table_of_the_recalled_scale(count, n, theory, gap):
    scale = paper_scale(count, n, 1, r_min=1.0, r_max=2.0, eps=1 / (count - 1))
    found = claims.log10_gap(claims.grid(count), n, scale.beta) + math.log10(scale.w)
    assert abs(scale.log10_gap - theory) < 0.05
    assert abs(found - gap) < 0.05


def test_float_counts_flatter_means():
    """On a grid more floats than means: the kept ones in float64 exceed the exact
    number.
    """
    z, sets = claims.random_sets("grid", wanted=10_000).values()
    sets = torch.unique(sets.sort(-1).values, dim=0)
    one = torch.ones(1, dtype=double)
    means = context_ids(z[sets][..., None], one, 0.0).context
    kept = smallest_gap(means, sets).distinct
    exact = len({(token, sum(row)) for row in sets.tolist() for token in row})
    assert exact < kept < 100_000


def test_separate_takes_repeated_tokens():
    bags = torch.combinations(torch.tensor([1.0, 2, 4], dtype=double), 3, True)
    one = torch.ones(1, dtype=double)
    wanted = sum(len(set(bag)) for bag in bags.tolist())
    assert separate(bags[..., None], one, 0.4).distinct == wanted


def test_needed_gap_is_the_one_of_the_page():
    assert needed_gap(4) == 2 * math.log(4) + 3
    assert needed_gap(4, kind="multiset") == 3 * math.log(4) + 3


def test_four_heads_cannot_be_told_from_five():
    """Why the remark stops at two heads."""
    gaps = load_result("context_ids")["result"]["several"]["4 heads"]
    assert claims.heads(gaps, 4).ok and claims.heads(gaps, 5).ok
    assert abs(claims.exponent(gaps) + 0.44) < 0.005


def test_bits_of_the_page():
    """28.5 bits for all sets of 16 of 20, 444 by Theorem 17.3 on equispaced places."""
    N = math.comb(20, 16)
    assert abs(math.log2(16 * N**2) - 28.48) < 0.01
    z = claims.grid(20)
    _, bound = claims.promised(z, 16)
    assert abs(-bound * math.log2(10) - 444) < 1.5


LINE = claims.on_a_line()
LAYER = {"vocabulary": LINE["vocabulary"], "v": LINE["v"]}
WORDS = claims.words()
PLACES = claims.random_sets(wanted=5)
TABLE = torch.tensor([[1, 2], [2, 3], [1, 1]])


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: claims.projection(torch.zeros(2, 3).double()), "zero"),
        (lambda: claims.gap(**LAYER, n=1), "n must be an integer of at least 2"),
        (lambda: claims.gap(**LAYER, n=5), "n must be at most"),
        (lambda: claims.gap(LAYER["vocabulary"], 2 * LAYER["v"], 2), "length 1"),
        (lambda: claims.multisets([1, 1, 2], 2), "different places"),
        (lambda: claims.multisets([0, 1, 2], 2), "must not hold 0"),
        (lambda: claims.multisets(range(1, 40), 9), "sets, more than 300"),
        (lambda: claims.sharp(range(1, 27), 2), "make 325 sets, more than 300"),
        (lambda: claims.sharp(claims.NINE, 3, beta=-1.0), "beta must be positive"),
        (lambda: claims.mean([1, 2], [1, 2], 2), "each of independent"),
        (
            lambda: claims.kept(PLACES["z"], PLACES["sets"] + 60),
            "sets must hold tokens from 0 to 63, got 60 to 122",
        ),
        (lambda: claims.kept(PLACES["z"], PLACES["sets"] * 0), "repeat a token"),
        (lambda: claims.birthday(2 * torch.ones(3, 2, 1), 0.1), "unit cube"),
        (lambda: claims.birthday(torch.rand(3, 2, 1), 0), "t must be positive"),
        (lambda: claims.heads({"300": [0.0]}, 1), "positive numbers"),
        (lambda: claims.positions(**{**WORDS, "n": 9}), "too many"),
        (lambda: claims.positions(**{**WORDS, "u": WORDS["u"] / 2}), "length 1"),
        (lambda: claims.counts(TABLE[:1]), "two different multisets"),
        (lambda: claims.root(TABLE, torch.tensor([0, 1])), "labels must be"),
        (lambda: claims.typical(torch.ones(2, 4).double() * 2, 2, beta=0.1), "lie in"),
        (lambda: claims.typical(torch.rand(2, 4).double(), 2, beta=0.5), "sigma < 1"),
        (lambda: claims.typical(torch.rand(1, 4).double(), 2, beta=0.1), "two draws"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_two_places_are_enough():
    """And their distance may be small."""
    places = torch.tensor([-1.0, 1.0], dtype=double)
    assert claims.kept(places, torch.tensor([[0, 1]])).ok
    near = {**WORDS, "vocabulary": WORDS["vocabulary"] / 100}
    assert claims.positions(**near).ok


def test_ids_of_different_tokens_meet_when_w_is_four_times_too_large():
    """They come as close as a third of g; for w = g / (2 s) a half is promised."""
    z = claims.grid(4)
    beta, _ = claims.promised(z, 3)
    sets = torch.tensor([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])
    assert claims.ids_too_close(z, sets, beta, 1.0) < -0.3
    assert 0.16 < claims.ids_too_close(z, sets, beta, 4.0) < 0.17


def test_three_hundred_sets_are_not_too_many():
    """25 places make 25 * 24 / 2 pairs."""
    assert claims.sharp(range(1, 26), 2).ok


def test_tokens_are_counted_by_hand():
    """A 3 once and a 7 twice, no 3 and three 7, neither."""
    sequences = torch.tensor([[3, 7, 7, 1], [7, 7, 2, 7], [1, 1, 2, 0]])
    found = claims.counts_of(sequences, torch.tensor([3, 7]))
    assert found.tolist() == [[1, 2], [0, 3], [0, 0]]


def test_a_step_that_is_too_long_leaves_the_ball():
    """Tokens 1 and -0.35: r = 1, eps = 1.35, and the last of three places is 3 steps of
    3.35 away. A step one percent longer takes token 1 from 11.05 to 11.1505.
    """
    vocabulary = torch.tensor([[1.0], [-0.35]], dtype=double)
    asked = {"vocabulary": vocabulary, "u": torch.ones(1, dtype=double), "n": 3}
    assert claims.positions(**asked).ok
    found = claims.positions.__wrapped__(**asked, _step=1.01)
    assert not found.ok
    assert found.value == pytest.approx(0.1005 / 11.05, rel=1e-9)


def test_the_bound_of_the_root_by_hand():
    """At N = 4, n = 8 integers have 4 bits, ids 7, a hundred tokens 7, labels 3; no
    number has less than one bit.
    """
    wanted = 479 + 2 * math.sqrt(24 * 238) + 2 * math.sqrt(24 * 220)
    assert claims.root_bound(4, 8, 100, 3) == pytest.approx(wanted, rel=1e-14)
    wanted = 173 + 4 * math.sqrt(6 * 76)
    assert claims.root_bound(1, 1, 1, 0) == pytest.approx(wanted, rel=1e-14)


def test_fractions_floats_and_tensors_are_one_line():
    z = [Fraction(1), Fraction(3, 2), Fraction(2)]
    verdicts = [claims.multisets(places, 2) for places in (z, claims.floats(z))]
    assert verdicts[0] == verdicts[1]
