"""Page sparse_patterns/price_of_dimension: what was worked out by hand."""

import math

import pytest
import torch

from attnbook.theorems import price_of_dimension as page
from attnlib.codes import (
    code_from,
    coherence,
    margins,
    moment_keys,
    moment_queries,
    price,
    spiral_keys,
)
from attnlib.codes.exact import e8
from attnlib.expressive.dimensions import cap

double = torch.float64


@pytest.mark.parametrize("n", [5, 6, 7, 64, 256])
def test_costs_in_closed_form(n):
    """Of the circle, and of the pattern {i - 1, i + 1}; for six tokens by hand."""
    cos = math.cos(2 * math.pi / n)
    two = math.sqrt(8 * cos**2 + 0.5) / (1 - cos) ** 2
    for shifts, wanted in (([0], 1 / (1 - cos)), ([-1, 1], two)):
        columns = (page.itself(n) + torch.tensor(shifts)) % n
        norms = moment_queries(columns, n=n, gap=1.0).norm(dim=1)
        assert (norms / wanted - 1).abs().max() <= 1e-9
    if n == 6:
        assert 1 / (1 - cos) == pytest.approx(2)
        assert two == pytest.approx(math.sqrt(40))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_small_set_is_preferred(k):
    """On the moment curve, each of the 4^k - 1 sets of at most k of 2 k + 1 keys."""
    count = 0
    for size in range(1, k + 1):
        sets = torch.combinations(torch.arange(2 * k + 1), size)
        q = moment_queries(sets, n=2 * k + 1, gap=1.0)
        keys = moment_keys(2 * k + 1, size)
        assert margins(q, keys, sets).min() >= 1 - 1e-9
        count += len(sets)
    assert count == 4**k - 1


def test_keys_are_pushed_along_the_query():
    """(1/2, 0) and (1/2, -1/2) with queries up and down hide (1/4, +-sqrt(15)/4);
    optimal codes come back as they are.
    """
    keys = torch.tensor([[0.5, 0.0], [0.5, -0.5]], dtype=double)
    queries = torch.tensor([[0.0, 1.0], [0.0, -3.0]], dtype=double)
    root = math.sqrt(15) / 4
    wanted = torch.tensor([[0.25, root], [0.25, -root]], dtype=double)
    assert (code_from(queries, keys) - wanted).abs().max() <= page.ROUNDING
    for optimal in (moment_keys(7), e8().double() / 8**0.5):
        found = code_from(3 * optimal, optimal)
        assert (found - optimal).abs().max() <= page.ROUNDING


def test_three_on_a_circle_are_the_simplex():
    assert coherence(moment_keys(3)) == pytest.approx(-0.5, abs=1e-15)
    on_a_circle = 1 / (1 - math.cos(2 * math.pi / 3))
    assert page.closed_form(3, 2) == pytest.approx(on_a_circle, abs=1e-15)


def test_leech_vectors_lie_in_the_lattice():
    assert page.leech_is_in_the_lattice().ok


@pytest.mark.parametrize("n", [64, 10**6])
def test_caps_in_closed_form(n):
    """In three dimensions a cap is (1 - cos) / 2 of the sphere, in five it is
    (2 - 3 cos + cos^3) / 4; so c = 2 cos(angle) solves c^3 - 3 c + 2 - 4 / n = 0.
    """
    angle = (2 * math.pi - math.acos(2 / n - 1)) / 3
    for d, c in ((3, 1 - 2 / n), (5, 2 * math.cos(angle))):
        found = price(n, d)
        assert found.high * (1 - c) == pytest.approx(1, abs=1e-9)
        assert found.low * 2 * (1 - c**2) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("d", [3, 4, 9])
def test_bounds_grow_like_a_power(d):
    most, least = price(10**12, d), price(10**9, d)
    for ratio in (most.low / least.low, most.high / least.high):
        assert math.log(ratio, 1000) == pytest.approx(2 / (d - 1), rel=0.01)


@pytest.mark.parametrize("d", [2, 3, 8, 24, 60])
def test_caps_are_below_half_the_sine(d):
    for step in range(1, 41):
        theta = step * math.pi / 80
        half = math.sin(theta) ** (d - 1) / 2
        assert cap(theta, d) <= half * (1 + page.ROUNDING)


def test_two_tokens_attain_the_packing():
    """In one dimension, with logits +-T/2: 2 = (1 + 2 R/T)^1."""
    logits = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=double)
    assert page.packed_logits(logits, 1).value == pytest.approx(1, abs=1e-15)


def test_rank_two_is_enough():
    """A circle's logits have rank 2, and the bound says more than 0.99."""
    logits = page.circle_logits()["logits"]
    assert int(torch.linalg.matrix_rank(logits)) == 2
    assert 1 - 2 * 63 * math.exp(-14) > 0.99


def test_the_spiral_lies_on_the_sphere_and_between_the_bounds():
    assert (spiral_keys(50).norm(dim=1) - 1).abs().max() <= 1e-15
    for n in page.MEASURED:
        low, high = price(n, 3)
        assert low <= 0.2093 * n <= high
