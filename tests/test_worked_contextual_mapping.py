"""Page one_layer_memorization/contextual_mapping: what was worked out by hand."""

import math
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from statistics import median

import mpmath
import pytest
import torch

from attnbook.data import load_result
from attnbook.theorems import contextual_mapping as claims
from attnlib import certify
from attnlib.memorize import (
    choose_projection,
    context_ids,
    data_scale,
    paper_scale,
    rank_one_layer,
    threshold,
)
from attnlib.memorize.counts import fit_counts, telling_tokens

double = torch.float64


@pytest.mark.parametrize("d", [2, 3, 4, 16, 768])
def test_slabs(d):
    """The chance that |v . e| < t is at most t sqrt(2 d / pi), by the incomplete beta
    function.
    """
    for t in (1e-6, 1e-3, 0.1, 0.5, 0.9):
        b = mpmath.mpf(d - 1) / 2
        chance = mpmath.betainc(0.5, b, 0, t * t, regularized=True)
        assert chance <= t * mpmath.sqrt(2 * d / mpmath.pi)


def test_the_level_of_one_token_in_the_plane():
    assert threshold(1, 2) == pytest.approx(1 / (2 * math.sqrt(math.pi)), abs=1e-15)


def test_draws_until_one_passes():
    g = claims.seeded(0)
    draws = 0
    for seed in range(60):
        vocabulary = claims.normal(64, 16, seed=seed)
        draws += choose_projection(vocabulary, generator=g).draws
    assert 1 < draws / 60 < 2.76


def test_three_tokens():
    """With e^beta = 2 the token 1 finds 5/3 beside 2 and 13/5 beside 3; tokens 1/2, 1,
    3 in pairs ask for beta = 4 (2 ln 2 + 3).
    """
    pairs = torch.tensor([[1.0, 2], [1, 3]], dtype=double)[..., None]
    found = context_ids(pairs, claims.ONE, math.log(2)).context[:, 0]
    assert found.tolist() == pytest.approx([5 / 3, 13 / 5], rel=1e-12)
    asked = data_scale(claims.floats([0.5, 1.0, 3.0]), 2).beta
    assert asked == pytest.approx(4 * 4.386294361119891, rel=1e-12)


def test_the_layer_has_rank_one():
    layer = rank_one_layer(claims.normal(4, seed=3), 0.3, 0.2)
    assert [int(torch.linalg.matrix_rank(w[0])) for w in layer[:4]] == [1] * 4


@pytest.mark.parametrize("beta", [Fraction(1, 10), 1, Fraction(7, 2)])
def test_one_length_is_needed(beta):
    """{1, 2} and {1, 1, 2, 2} give equal companies at every beta; {1, 2, 2} and
    {1, 1, 2} do not.
    """
    twice = certify.context_gap((1, [1, 2]), (1, [1, 1, 2, 2]), beta=beta)
    one_length = certify.context_gap((1, [1, 2, 2]), (1, [1, 1, 2]), beta=beta)
    assert twice.sign == 0 != one_length.sign


@pytest.mark.parametrize(
    ("count", "n", "d"), [(4, 3, 1), (32, 16, 16), (30522, 128, 768)]
)
def test_the_scale_at_the_sizes_of_the_page(count, n, d):
    eps = mpmath.mpf(1) / (count - 1)
    size = mpmath.mpf(count + 1) ** 4 * mpmath.pi * d
    beta = size * (2 * mpmath.log(n) + 3) / (8 * eps)
    delta = mpmath.log10(eps / 8 * mpmath.log(n) ** 2 / (2 * beta))
    wanted = delta - 8 * beta / mpmath.log(10)
    scale = paper_scale(count, n, d, r_min=1.0, r_max=2.0, eps=1 / (count - 1))
    assert scale.log10_gap == pytest.approx(float(wanted), rel=1e-9)
    assert scale.beta == pytest.approx(float(beta), rel=1e-9)


def test_two_sets_meet():
    """{1, 2, 5} and {1, 3, 5} give the token 1 the company 5 with hardmax; the mean of
    {1, 2, 5} is that of {1, 3, 4}, and at beta = 1/10 they differ.
    """
    x = torch.tensor([[1.0, 2, 5], [1, 3, 5]], dtype=double)[..., None]
    hard = context_ids(x, claims.ONE, 1.0, normalizer="hardmax").context[:, 0]
    assert hard.tolist() == [5.0, 5.0]
    one, two = (1, [1, 2, 5]), (1, [1, 3, 4])
    assert certify.context_gap(one, two, beta=0).sign == 0
    assert certify.context_gap(one, two, beta=Fraction(1, 10)).sign != 0


def test_the_stored_run_keeps_all_and_means_do_not():
    """18 rows of float64 at beta = 0.3, none with a loss; of exact means of 1.6 million
    on the grid 98% are lost.
    """
    rows = load_result("context_ids")["result"]["lost"]
    softmax = [t for t in rows if (t["beta"], t["dtype"]) == (0.3, "float64")]
    assert len(softmax) == 18
    assert not any(t["lost"] or t["lost_single"] for t in softmax)
    means = [t for t in rows if t["dtype"] == "exact" and t["N"] == 100_000]
    assert len(means) == 3
    assert all(0.98 <= t["lost"] / 1.6e6 <= 0.985 for t in means)


def spacing(N: int, t: Fraction) -> Fraction:
    """The chance that two of N uniform points of one number are closer than t."""
    return 1 - (1 - (N - 1) * t) ** N


def test_spacings():
    assert spacing(2, Fraction(1, 10)) == Fraction(19, 100)
    for N, t in ((2, 10), (3, 100), (20, 2000), (50, 100_000)):
        assert spacing(N, Fraction(1, t)) <= Fraction(N * N, t)


@pytest.mark.parametrize("how", ["2 layers", "2 heads", "rank 2"])
def test_a_second_number_widens_the_gap(how):
    several = load_result("context_ids")["result"]["several"]
    assert median(several[how]["3000"]) >= 100 * median(several["1 heads"]["3000"])


def test_sequences_that_differ():
    """Four tokens at four positions: 1024 pairs of a token and its company with softmax
    and the encoding, 320 with a mean and the encoding, 80 with softmax alone.
    """
    vocabulary, u, n = claims.words().values()
    encoded, _, _ = claims.encode(vocabulary, u, n)
    assert claims.distinct_ids(encoded, 0.1) == 1024
    assert claims.distinct_ids(encoded, 0.0) == 320
    assert claims.distinct_ids(vocabulary.expand(n, 4, 8), 0.1) == 80


def test_fewest_tokens():
    """For five sequences {i, 0, 0} no three tokens tell, by trying all; and for all
    families of three multisets of two of three tokens, two tokens do.
    """
    singles = claims.sequences_of(N=5, n=3)["sequences"]
    for tokens in combinations(range(6), 3):
        assert claims.untold(singles, torch.tensor(tokens)) > 0
    assert claims.untold(singles, telling_tokens(singles)) == 0
    pairs = list(combinations_with_replacement(range(3), 2))
    for family in map(torch.tensor, combinations(pairs, 3)):
        told = telling_tokens(family)
        assert len(told) <= 2 and claims.untold(family, told) == 0


def test_like_the_root():
    """Four times the sequences take about twice the parameters, and eight times the
    length takes at most a tenth more.
    """

    def size(N, n):
        made = claims.labelled(N=N, n=n, tokens=100_000)
        return fit_counts(**made, generator=claims.seeded(0)).parameters

    one = size(1600, 8)
    assert size(6400, 8) <= 2.4 * one and size(1600, 64) <= 1.1 * one


def test_two_uniform_places():
    """u, w uniform in [-1, 1] and sets {c, u}, {c, w} at beta = 0: the means are closer
    than e with chance 1 - (1 - e)^2, exactly; (17.5) allows 2 e.
    """
    room = claims.room_for(0.02, n=2, comparisons=1, sigma=0.0)
    assert room == pytest.approx(0.01, abs=1e-15)
    for e in (0.001, 0.1, 0.9):
        assert 1 - (1 - e) ** 2 <= 2 * e
