"""What is special about the claims of the page on softmax averages and hardmax: gaps
against balls of another library, and objects that are refused. The claims themselves
are functions of attnbook.theorems.boltzmann_and_hardmax, run by test_theorems.py.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

import flint
import mpmath
import numpy as np
import pytest
import torch

from attnbook import theorems
from attnlib import certify
from attnlib.memorize import boltzmann, needed_gap

claims = theorems.boltzmann_and_hardmax
ENDS, NEAR = claims.ENDS, claims.NEAR


def exact_ball(number):
    number = Fraction(number)
    return flint.arb(flint.fmpq(number.numerator, number.denominator))


def ball_mean(values, s):
    weights = [(exact_ball(s) * exact_ball(v)).exp() for v in values]
    products = [exact_ball(v) * w for v, w in zip(values, weights)]
    return sum(products, flint.arb(0)) / sum(weights, flint.arb(0))


def ball_gap(a, b, s, bits):
    """The plain difference of two averages, in balls of another library."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        return ball_mean(a, s) - ball_mean(b, s)
    finally:
        flint.ctx.prec = before


@pytest.mark.parametrize(("K", "n"), [(4, 3), (6, 4), (8, 4)])
def test_a_tiny_gap_is_that_of_another_library(K, n):
    """128 bits here, more than a quarter of a million there."""
    a, b, s = claims.deep_pair(K, n).values()
    gap = certify.boltzmann_gap(a, b, scale=s)
    bits = 2000 + int(abs(gap.log10) * 3.33) + 8 * K**5
    wanted = ball_gap(a, b, s, bits)
    with mpmath.workprec(400):
        wanted = mpmath.mpf(wanted.str(60, radius=False, more=True))
        assert abs(gap.lower / wanted - 1) < 2.0**-60
        assert abs(gap.upper / wanted - 1) < 2.0**-60
        assert (gap.upper - gap.lower) / abs(gap.lower) < 1e-30


@pytest.mark.parametrize(
    ("K", "n", "wanted"), [(4, 3, -2217.48), (6, 4, -18912), (8, 4, -77513)]
)
def test_the_smallest_gap_of_ids_is_so_small(K, n, wanted):
    """With the weight 1 / (8 (K - 1)), over all pairs of sets at one query."""
    z = [1 + Fraction(k, K - 1) for k in range(K)]
    beta = claims.deep_pair(K, n)["s"] / z[-1]
    weight = Fraction(1, 8 * (K - 1))
    found = []
    for c in z[-2:]:
        contexts = [(c, bag) for bag in combinations(z, n) if c in bag]
        gap, _, _ = certify.smallest_gap(contexts, beta=beta, weight=weight, bits=64)
        found.append(gap.log10)
    assert min(found) == found[-1]
    assert found[-1] == pytest.approx(wanted, abs=0.7 if K > 4 else 0.05)


@pytest.mark.parametrize("s", [Fraction(7, 5), Fraction(-1, 50), 0])
def test_equal_averages_are_those_of_another_library(s):
    for a, b in claims.all_pairs()["pairs"]:
        ball = ball_gap(a, b, s, 300)
        assert ball.contains(0) == (certify.boltzmann_gap(a, b, scale=s).sign == 0)


def test_an_average_by_hand():
    """Weights 1/4 and 3/4; and 1, 2, 5, 6 with weights that double at each step."""
    a = torch.tensor([0.0, math.log(3)], dtype=torch.float64)
    assert float(boltzmann(a)) == pytest.approx(0.75 * math.log(3), rel=1e-14)
    s = math.log(2)
    for places, wanted in ((ENDS, 554 / 102), (NEAR, 474 / 90)):
        z = torch.tensor(places, dtype=torch.float64)
        assert float(boltzmann(s * z)) / s == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_base_n_is_the_smallest_for_multisets_of_one_size(n):
    """Exercise 16.4: base n does, and n - 1 does not (from n = 3 on)."""
    bags = list(combinations_with_replacement(range(5), n))
    for base in (n, n - 1):
        sums = {sum(base**k for k in bag) for bag in bags}
        enough = base == n
        assert (len(sums) == len(bags)) is enough


def test_a_network_before_hardmax_undoes_the_theorem():
    """Tokens (k, 5^k), zero keys, values in the second coordinate."""
    head = ([[0], [0]], [[0], [0]], [[0], [1]], [[0, 1]])
    rows = []
    for places in (ENDS, NEAR):
        tokens = [[k, 5**k] for k in places]
        rows.append(certify.hardmax_layer(tokens, [head])[0])
    assert rows[0] != rows[1]


def test_a_skip_and_two_queries_can_fail():
    """{0, 2} and {1, 1} in base 3: token 0 there and token 1 here both give 6."""
    head = ([[1]], [[0]], [[1]], [[1]])
    first = certify.hardmax_layer([[1], [9]], [head])
    second = certify.hardmax_layer([[3], [3]], [head])
    assert first[0] == second[0] == [6]


def test_the_bound_of_a_typical_gap_by_hand():
    """Uniform on [-1, 1], beta = 1/8, n = 16: 27.39 eps; with repeats e^(1/2) more."""
    bound = claims.typical_bound(16, 0.25, 0.5, 1e-3)
    assert bound == pytest.approx(16e-3 * math.exp(0.25) / 0.75, rel=1e-14)
    more = claims.typical_bound(16, 0.25, 0.5, 1e-3, repeats=True)
    assert more / bound == pytest.approx(math.exp(0.5), rel=1e-14)
    plain_means = claims.typical_bound(16, 0.0, 0.5, 1e-3)
    assert plain_means == pytest.approx(16e-3, rel=1e-14)


def test_the_curvature_of_a_batch_by_hand():
    """0, -1, -5: (1 - 2 p)(1 - 5 - boltz) + 1 in the last entry, by mpmath."""
    row = torch.tensor([0.0, -1.0, -5.0], dtype=torch.float64)
    found = claims.regions(row.expand(1, 2, 3))
    assert found.value == pytest.approx(-2.67151876472806, abs=1e-13)


def test_rows_may_lie_in_any_batch():
    """Three rows of three numbers, so that rows and columns could be confused."""
    a = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0))
    assert claims.operator(a.double()).ok
    assert claims.operator(a.double()[0, 0]).ok


PLACES = claims.vocabularies(draws=1000, V=4)
PAIR = {"first": (0, 1), "second": (0, 2), "beta": 0.1, "eps": 0.1}
KEYS = claims.keys_and_values(draws=1000, V=4)
LINE = claims.line_and_layer()
FAR_AWAY = LINE | {"x0": 1e13 * LINE["x0"]}
LARGE = LINE | {"layer": LINE["layer"]._replace(w_o=1e308 * LINE["layer"].w_o)}
PAIR_OF_SETS = {"first": (0, 1), "second": (0, 2)}


@pytest.mark.parametrize(("share", "below"), [(0.999, True), (1.001, False)])
def test_weights_closer_than_proved_are_infinitely_wrong(monkeypatch, share, below):
    """Two tokens each, and beta = 1: |p - p'| is at least e^(-2 |z_0| rho) / 2, rho the
    range of z_0, z_1 and z_2.
    """
    query, *others = KEYS["keys"][:3].tolist()
    seen = [query, *others]
    least = math.exp(-2 * abs(query) * (max(seen) - min(seen))) / 2
    near = torch.tensor([share * least, 0.0, 0.0, 0.0], dtype=torch.float64)
    monkeypatch.setattr(claims, "weight_difference", lambda *_: near)
    found = claims.any_temperature(**KEYS, **PAIR_OF_SETS, beta=1.0)
    assert (found.value == math.inf) is below


@pytest.mark.parametrize("beta", [100.0, 1e3, 1e300])
def test_a_tiny_distance_at_a_large_beta_is_no_near_miss(beta):
    assert not claims.near_miss(ENDS, NEAR, beta).ok


@pytest.mark.parametrize(
    "asked",
    [
        ([0, 1], [Fraction(1, 2)] * 2, Fraction(1, 10**30)),
        ([10**100, 10**100 + 1], [10**100, 10**100 + 2], 1),
    ],
)
def test_a_gap_that_cancels_much_is_still_certified(asked):
    """128 bits enclose the first with 8 digits; the second cancels 100 digits."""
    assert claims.gap(*asked).ok


def test_a_thousand_draws_of_two_places_are_enough():
    pair = PAIR | {"first": (0, 0, 1), "second": (0, 1, 1)}
    assert claims.typical(**claims.vocabularies(draws=1000, V=2), **pair).ok


def test_values_may_be_just_as_far_apart_as_the_lemma_asks():
    gap = Fraction(needed_gap(2, kind="distinct"))
    assert claims.lemma([0, 2 * gap], [gap, 3 * gap]).ok


def test_floats_of_large_tokens_are_off_by_what_floats_are():
    """The same shares, each token three times; the ids are 1e30 and off by 1e15."""
    tokens = 3 * (10**30,)
    first, second = (1, tokens), (1, 3 * tokens)
    ids = [claims._float_id(*context, 2, -2.7) for context in (first, second)]
    assert 1e13 < abs(ids[0] - ids[1]) < 1e16
    assert claims.repeated(first, second, 2).ok


@pytest.mark.bad_input
def test_other_numbers_serve_as_floats():
    found = claims.typical(**PLACES, **PAIR)
    wide = {name: np.float64(PAIR[name]) for name in ("beta", "eps")}
    assert claims.typical(**PLACES, **PAIR | wide) == found
    assert claims.before(2, 50, np.int64(3)) == claims.before(2, 50, 3)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: claims.regions(torch.zeros(3).double()),
            "no entry deep enough .* more than 1.4631, the curvature for 4.0986",
        ),
        (lambda: claims.lemma([0, 1], [0, 9]), "must be at least 4.3863 apart"),
        (lambda: claims.lemma([0, 0], [0, 9]), "a must hold no value twice"),
        (lambda: claims.lemma([0, 9], [0, 9, 18]), "of one size"),
        (lambda: claims.lemma([0, 9], [9, 0]), "are the same multiset"),
        (lambda: claims.gap([1, 2], [1, 1, 2, 2], 3), "equal averages at s"),
        (lambda: claims.gap(**claims.deep_pair(9, 4)), "too many digits"),
        (lambda: claims.hardmax(**LINE, second=(1, 3, 4, 7)), "share both ends"),
        (lambda: claims.hardmax(**LINE, first=(6, 5, 2, 1)), "ascending"),
        (lambda: claims.hardmax(**LINE | {"step": 0 * LINE["step"]}), "not zero"),
        (lambda: claims.before(30, 30, 31), "too many multisets to list"),
        (lambda: claims.exact([[1, 2]], 1), "a must be a list"),
        (lambda: claims.ids([(1, (1, 2))], 1), "two or more"),
        (lambda: claims.ids([(3, (1, 2)), (1, (1, 2))], 1), "hold its query"),
        (lambda: claims.ids([(1, (1, 2)), (2, (1, 2))], 0), "weight must not be zero"),
        (lambda: claims.near_miss(ENDS, ENDS, 1.0), "equal averages at beta"),
        (lambda: claims.near_miss(ENDS, NEAR, 0), "beta must be positive"),
        (
            lambda: claims.typical(**PLACES, **PAIR | {"beta": 0.5}),
            "sigma must be at least 0 and below 1, got 1.0",
        ),
        (
            lambda: claims.typical(**PLACES | {"z": PLACES["z"][:999]}, **PAIR),
            r"1000 draws or more of two tokens or more, got \(999, 4\)",
        ),
        (
            lambda: claims.typical(**PLACES | {"z": PLACES["z"][:, :1]}, **PAIR),
            r"1000 draws or more of two tokens or more, got \(1000, 1\)",
        ),
        (lambda: claims.typical(**PLACES, **PAIR, query=1), "query must be a token"),
        (
            lambda: claims.typical(**PLACES, **PAIR | {"second": (1, 0)}),
            "different multisets of one size",
        ),
        (lambda: claims.typical(**PLACES, **PAIR | {"first": (0, 9)}), "holds token 9"),
        (
            lambda: claims.typical(**PLACES | {"interval": (0, 1)}, **PAIR),
            "interval must hold all of z",
        ),
        (lambda: claims.typical(**PLACES, **PAIR | {"eps": 0}), "must be positive"),
        (
            lambda: claims.typical(**PLACES | {"density": 0.1}, **PAIR),
            "density must be at least 1 / rho = 0.5",
        ),
        (lambda: claims.lemma([0, 10**400], [0, 9]), "values beyond 1e300"),
        (lambda: claims.lemma([0, 10**300], [0, 9]), "values beyond 1e300"),
        (lambda: claims.ids([(1, (1, 2)), (1, (2, 1))], 1), "1 stand there twice"),
        (lambda: claims.repeated((0, (0, 1)), (1, (1, 2)), 2), "must not be zero"),
        (
            lambda: claims.any_temperature(
                **KEYS, first=(0, 1), second=(0, 2), beta=1e6
            ),
            "no float tells the weights",
        ),
        (lambda: claims.operator(torch.eye(2).double().to_sparse()), "a must be dense"),
        (lambda: claims.operator(torch.ones(2).double() * 1e12), "subtract the maxi"),
        (lambda: claims.regions(torch.zeros(1, 3000).double()), "at most 2000 columns"),
        (lambda: claims.largest_drop(1), "n must be an integer of at least 2"),
        (lambda: claims.gap([1, 2], [1, 3], 0), "s must not be zero"),
        (lambda: claims.hardmax(**FAR_AWAY), "rounding would hide"),
        (lambda: claims.hardmax(**LARGE), "the output of layer holds NaN"),
        (lambda: claims.before(999, 2, 1000), "too many multisets to list"),
        (lambda: claims._check_rows(torch.ones(3, 1).double()), "with n >= 2"),
        (lambda: claims._check_rows(torch.ones(0, 2).double()), "at least one row"),
        (lambda: claims._check_rows(torch.tensor(1.0).double()), "with n >= 2"),
        (lambda: claims.before(10**9, 10**9, 3), "too many multisets to list"),
        (lambda: claims.ids([(1, (1, 2)), (1.0, (1.0, 2))], 2), "1 stand there twice"),
        (
            lambda: claims.typical(**PLACES | {"interval": (-(10**400), 1)}, **PAIR),
            "low must be in the range of floats",
        ),
        (
            lambda: claims.typical(**PLACES | {"z": 0 * PLACES["z"]}, **PAIR),
            "z must be random, and all draws are the same",
        ),
        (
            lambda: claims.any_temperature(
                KEYS["keys"], 0 * KEYS["values"], (0, 1), (0, 2), 1
            ),
            "values must be random, and all draws are the same",
        ),
        (lambda: claims.any_temperature(**KEYS, **PAIR_OF_SETS, beta=200), "no float"),
        (
            lambda: claims.any_temperature(**KEYS, first=(0, 1), second=(1, 0), beta=1),
            "first and second must be different multisets of one size",
        ),
        (
            lambda: claims.any_temperature(
                **KEYS, first=(0, 1), second=(0, 1, 2), beta=1
            ),
            "first and second must be different multisets of one size",
        ),
    ],
)
def test_what_a_theorem_does_not_speak_of_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
