"""Page one_layer_memorization/memorization: what was worked out by hand."""

import math
from fractions import Fraction
from itertools import product

import pytest
import torch

from attnbook.theorems import memorization as claims
from attnlib.memorize import (
    count_parameters,
    dense_block,
    fit_deep,
    fit_groups,
    fit_line,
    interpolate,
    memorize,
    relu_layer,
)

double = torch.float64


def test_three_ids():
    """Ids 1, 2, 4 with labels 3, 1, 5 have slopes 3, -2, 2 and coefficients 3, -5, 4;
    at 3 the network is 3, left of 0 it is 0, at 5 it is 7.
    """
    t = torch.tensor([1.0, 2, 4], dtype=double)
    y = torch.tensor([[3.0], [1], [5]], dtype=double)
    line = fit_line(t, y)
    assert claims.solved([1, 2, 4], [3, 1, 5], [0, 1, 2]) == [3, -5, 4]
    assert line.knots.tolist() == [0, 1, 2]
    assert line.slopes[:, 0].tolist() == [3, -2, 2]
    assert line.coefficients[:, 0].tolist() == [3, -5, 4]
    at = torch.tensor([-1.0, 0, 1, 1.5, 2, 3, 4, 5], dtype=double)
    for read in (relu_layer(at, line), interpolate(at, t, y)):
        assert read[:, 0].tolist() == [0, 0, 3, 2, 1, 3, 5, 7]


@pytest.mark.parametrize("theta", ["2/5", "3/5", "1/3", "3/4"])
def test_zigzag_in_closed_form(theta):
    """|s_j| = (rho^j - 1) / (1 - 2 theta), by (18.7)."""
    zigzag = claims.spaced(12)
    theta = Fraction(theta)
    found, _ = claims.slopes_of(zigzag["ids"], zigzag["labels"], theta)
    rho = (1 - theta) / theta
    for j, slope in enumerate(found, 1):
        assert abs(slope) == (rho**j - 1) / (1 - 2 * theta)


def test_a_zigzag_of_two_halves_has_no_bound():
    zigzag = claims.spaced(12)
    found, _ = claims.slopes_of(zigzag["ids"], zigzag["labels"], Fraction(1, 2))
    assert [abs(slope) for slope in found] == [2 * j for j in range(1, 13)]


def test_no_smaller_bound_holds():
    """At 3/5 the slopes of a zigzag come as near to 1 / (2 theta - 1) as one likes."""
    zigzag = claims.spaced(200)
    found, _ = claims.slopes_of(zigzag["ids"], zigzag["labels"], Fraction(3, 5))
    assert abs(abs(found[-1]) - 5) <= 1e-9


def test_three_units_for_five_ids():
    """-relu(t) + 5/2 relu(1 - t) - 3 relu(2 - t) is below, above, below, above, below
    -3.51 at t = -1, 0, 1, 2, 4: D = 5 and m = D - 2.
    """
    three = claims.many_turns(3)["layers"][0]
    level = Fraction(-351, 100)
    above = [claims.bend(three, Fraction(t)) > level for t in (-1, 0, 1, 2, 4)]
    assert above == [False, True, False, True, False]
    assert claims.crossings(claims.broken_line([three])) == 4


def test_a_unit_an_id_is_enough_for_a_zigzag():
    zigzag = claims.spaced(20)
    ends = torch.tensor([0.0, 21.0], dtype=double)
    places = torch.cat([ends[:1], zigzag["ids"], ends[1:]])
    values = interpolate(places, zigzag["ids"], zigzag["labels"][:, None])[:, 0]
    assert claims.crossings(values.tolist()) >= 19


def test_parameters_of_the_block():
    """100 sequences of 10 tokens with d = 8 and s = 1: 16,100 numbers and 1,008 biases;
    and with as many units as tokens (18.4) is attained.
    """
    assert count_parameters(1000, 8) == 16100 + 1008
    for N, n, d in ((20, 4, 6), (7, 5, 3), (1, 2, 1)):
        made = claims.random_sets(N, n, d=d, again=0)
        net = memorize(**made, generator=claims.seeded(0))
        whole = 4 * (1 + d) + d * (2 * n * N + d) + n * N + d
        assert dense_block(net).parameters == count_parameters(n * N, d) == whole


def test_two_bits_are_enough():
    """Tokens 1, 2, 4 on the line, sets {1, 2} and {1, 4} with labels 0, 1 for token 1
    and beta = 1: its company is 1 + 1/(1 + 1/e) or 1 + 3/(1 + 1/e^3), 1.13 apart, and
    the largest, of token 4, is near 4.
    """
    sets = torch.tensor([[[1.0], [2.0]], [[1.0], [4.0]]], dtype=double)
    labels = torch.tensor([[0, 5], [1, 7]])
    report = memorize(sets, labels, generator=claims.seeded(0), beta=1.0).report
    gap = 3 / (1 + math.exp(-3)) - 1 / (1 + math.exp(-1))
    largest = 4 - 3 / (1 + math.exp(12))
    assert report.gap == pytest.approx(gap, abs=1e-12)
    assert report.bits == 1 + math.ceil(math.log2(largest / gap)) == 2


def test_four_units_for_two_points():
    """Labels 3, 7 at (0, 1), (0, 2), others 0, by u = h_1, p = 4 h_2 - 1, e = 1/2, eta
    = 1/64: 4 h_2 - 1 on the line through them, and 0 at (1, 1), (-1, 2), (2, 0).
    """

    def bump(u, second):
        p = 4 * second - 1
        units = (u + 1 / 2 + p / 64, u + 1 / 2, u - 1 / 2 + p / 64, u - 1 / 2)
        a, b, c, d = [max(unit, 0) for unit in units]
        return 64 * (a - b - c + d)

    wanted = {(0, 1): 3, (0, 2): 7, (0, 0.5): 1, (1, 1): 0, (-1, 2): 0, (2, 0): 0}
    assert {h: bump(*h) for h in wanted} == wanted


def test_units_of_groups():
    """100 sets of 8 tokens in 16 dimensions take 200 units for 800 ids; 5 points of one
    token take 20, though ceil(5/16) = 1.
    """
    task = claims.ids_of_a_head()
    assert len(fit_groups(**task, generator=claims.seeded(0)).b_1) == 200
    five = {"points": task["points"][:5], "labels": task["labels"][:5]}
    alone = torch.zeros(5, dtype=torch.long)
    net = fit_groups(**five, tokens=alone, generator=claims.seeded(0))
    assert len(net.b_1) == 20


def test_labelings_counted():
    """For 800 ids of 16 features two labels need 5 units, and real ones 47; on the
    line, networks of one unit give 6 points 12 labelings or more, and no more than the
    bound.
    """
    assert claims.least_units(800, 16) == 5 and math.ceil(799 / 17) == 47
    found = set()
    for a, s, knot, level in product((-1, 1), (-1, 1), range(7), (-2, -1, 0, 1, 2)):
        values = [a * max(s * (2 * t - 2 * knot - 1), 0) for t in range(6)]
        found.add(tuple(value > level for value in values))
    bound = 2 * claims.dichotomies(6, 2) * claims.dichotomies(6, 3)
    assert 12 <= len(found) <= bound
    assert [claims.dichotomies(4, k) for k in (1, 2, 3, 4)] == [2, 8, 14, 16]


def test_depth_wins():
    """5,000 ids of 32 bits take fewer parameters than a unit an id, 10,000; and three
    of 4 bits with labels of 2 may take 2 sqrt(18 * 148) + 158 = 261.
    """
    assert math.floor(claims.depth_bound(3, 4, 2)) == 261
    made = claims.random_ids(5000, 32)
    assert fit_deep(made["ids"], made["labels"]).parameters < 10_000


def test_a_table_attains_the_bits():
    """One weight of 5 bits, label j its bit j, reaches all 32 labelings of 5 ids."""

    def table(weights, t):
        return weights[0] >> t & 1

    found = claims.bits(table, 1, 32, range(5))
    assert found.ok and found.value == found.bound == 5
