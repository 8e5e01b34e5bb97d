"""Page synthesis/five_theorems_one_matrix: worked examples and attained bounds."""

import math

import pytest
import torch

from attnbook.theorems import five_theorems_one_matrix as page
from attnlib import patterns
from attnlib.bridges import (
    dobrushin,
    largest_dobrushin,
    needed_bits,
    needed_radius,
    rank_floor,
)
from attnlib.collapse import diameter

double = torch.float64


# --- rank against pattern


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("e", [0.51, 0.75, 1.0])
def test_pairs_attain_the_floor(n, e):
    case = page.blocks_and_surrogate(n=n, e=e, r=n // 2)
    error = page.row_error(case["p"], case["b"])
    assert error == pytest.approx(2 * e - 1, abs=page.ROUNDING)
    floor = float(rank_floor(case["p"])[n // 2])
    assert floor == pytest.approx(2 * e - 1, abs=page.ROUNDING)


def test_the_second_floor_by_hand():
    """A sixth for the lopsided matrix; one block of 1,000 is within 1/1,000 of e."""
    lopsided = page.by_hand("lopsided")
    assert float(rank_floor(lopsided["p"])[1]) == pytest.approx(1 / 6, abs=1e-14)
    wide = page.blocks_and_surrogate(n=1000, m=1000, e=0.6)
    assert float(rank_floor(wide["p"])[1]) == pytest.approx(599 / 1001, abs=1e-12)
    assert page.row_error(wide["p"], wide["b"]) == pytest.approx(599 / 999, abs=1e-12)


def test_blocks_of_three_by_hand():
    """Twelve tokens, with 3/5: constant blocks, of rank 4, are 2/5 away, and singular
    blocks, of rank 8, are 1/3 away.
    """
    case = page.blocks_and_surrogate(n=12, m=3, e=0.6)
    assert page.row_error(case["p"], case["b"]) == pytest.approx(2 / 5, abs=1e-12)
    one = page.nearest_singular(page.block_matrix(3, 3, 0.6))
    b = torch.block_diag(one, one, one, one)
    assert page.row_error(case["p"], b) == pytest.approx(1 / 3, abs=1e-12)
    assert torch.linalg.matrix_rank(b) == 8
    assert page.blocks(case["p"], b, 8).value == pytest.approx(0, abs=1e-12)


# --- logits against collapse, and depth


@pytest.mark.parametrize("n", [2, 3, 7, 8])
@pytest.mark.parametrize("R", [0.1, 1.0, 4.0])
def test_halves_attain_both_bounds(n, R):
    logits, x, _ = page.halves(n, R).values()
    p = logits.softmax(-1)
    tau = float(dobrushin(p))
    assert tau == pytest.approx(largest_dobrushin(n, R), abs=1e-13)
    assert tau == pytest.approx(float(diameter(p @ x)), abs=1e-13)


def test_largest_coefficients_by_hand():
    assert largest_dobrushin(2, math.log(3) / 2) == pytest.approx(1 / 2, abs=1e-14)
    assert largest_dobrushin(3, math.log(2)) == pytest.approx(5 / 9, abs=1e-14)


@pytest.mark.parametrize("L", [1, 5, 10])
@pytest.mark.parametrize(
    ("n", "R", "share"),
    [
        (2, math.log(3) / 2, 1 / 2),
        (6, 1.0, math.tanh(1)),
        (8, 2.0, math.tanh(2)),
        (3, math.log(2), 5 / 9),
    ],
)
def test_two_halves_keep_all_that_depth_allows(n, R, share, L):
    logits, x, _ = page.halves(n, R).values()
    p = logits.softmax(-1)
    kept = float(diameter(torch.linalg.matrix_power(p, L) @ x))
    assert kept == pytest.approx(share**L, rel=1e-12)


@pytest.mark.parametrize(("n", "R", "L"), [(6, 1.0, 3), (2, 0.5, 8), (10, 2.0, 5)])
def test_a_network_attains_the_bound_of_depth(n, R, L):
    assert page.depth(**page.halves_in_depth(n, R, L)).value == pytest.approx(1)


# --- memory


@pytest.mark.parametrize(("n", "leak"), [(2, 0.1), (32, 0.5), (1000, 1e-3)])
def test_the_needed_radius_is_enough(n, leak):
    row = page.permutations(n, leak)["logits"][0][0]
    assert float(row.softmax(-1).max()) == pytest.approx(1 - leak, abs=1e-13)


def test_ten_tokens_and_a_tenth_by_hand():
    assert needed_radius(10, 0.1) == pytest.approx(math.log(81) / 2, abs=1e-14)


@pytest.mark.parametrize(("n", "square", "loss"), [(2, 3, 1 / 2), (10, 81, 1 / 9)])
def test_permutations_forget_exactly_so_much(n, square, loss):
    """Radius ln 3 / 2 and ln 81 / 2: the second gives nine tenths to each itself."""
    logits = page.sharp_rows(n, math.log(square) / 2)["logits"]
    tau = float(dobrushin(logits.softmax(-1)))
    assert tau == pytest.approx(1 - loss, abs=1e-13)


def test_an_eighth_is_left_of_many():
    """With k = 8 ln n bits, a quarter of them apart, n/2 of 256 tokens keep an eighth
    for (e^2R - 1) / 16k layers: 30, at radius 5.
    """
    n, R = 256, 5.0
    k = math.ceil(8 * math.log(n))
    L = int(math.expm1(2 * R) / (16 * k))
    case = page.readers_and_clusters(n, k, R, L, apart=math.ceil(k / 4))
    p = torch.softmax(page.cluster_logits(case["sets"], case["c"], R), -1)
    rows = torch.linalg.matrix_power(p, L)[-len(case["sets"]) :]
    assert L == 30 and len(p) == n and len(rows) >= n // 2
    assert page.least_distance(rows) >= 1 / 8


# --- hops, and counting


def test_a_bare_star_in_two_layers():
    """Six tokens, a star without neighbours: 16 connections, and all 384 ids."""
    star = patterns.star(6, local=False)
    found = page.told_apart(page.ids_after(page.token_codes(6), star, 2).flatten())
    assert (star.connections, found) == (16, 384)


def test_a_window_reaches_no_farther_than_a_power_of_three():
    s = patterns.hops(patterns.window(9, 3))
    assert s == 8 and 3**s >= 9


@pytest.mark.parametrize(("m", "d"), [(2, 1), (5, 1), (3, 2), (4, 3)])
def test_grids_attain_the_bits(m, d):
    """And a point more needs a box of log2 m bits."""
    assert needed_bits(m**d, d) == pytest.approx(math.log2(m - 1), abs=1e-13)
    assert needed_bits(m**d + 1, d) == pytest.approx(math.log2(m), abs=1e-13)


def test_bits_of_a_large_number_of_points():
    assert needed_bits(10**30, 3) == pytest.approx(math.log2(10**10 - 1), abs=1e-13)
