"""Page jl_low_rank/random_projections: worked examples and attained bounds."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
import torch

from attnbook.theorems import random_projections as page
from attnlib import certify
from attnlib.lowrank import (
    failure_bound,
    failure_probability,
    jl_surrogate,
    required_dimension,
)

double = torch.float64


def test_two_rows_by_hand():
    """k = 2: X/2 is exponential, and both tails are elementary."""
    by_hand = 1 - math.exp(-0.5) + math.exp(-1.5)
    assert failure_probability(2, 0.5) == pytest.approx(by_hand, abs=1e-14)


def test_rates_by_hand():
    """k = 40, eps = 1/2: the two bounds are 2 (3/2)^20 e^(-10) and 2 e^(-5/4)."""
    sharp = 2 * mpmath.mpf(1.5) ** 20 * mpmath.exp(-10)
    assert failure_bound(40, 0.5, sharp=True) == pytest.approx(float(sharp), rel=1e-12)
    usual = 2 * mpmath.exp(-1.25)
    assert failure_bound(40, 0.5) == pytest.approx(float(usual), rel=1e-12)


def test_the_exact_law_asks_for_fewer_rows():
    """512 norms at delta = 1/20 and eps = 1/2, where the bound asks for 318."""
    k = required_dimension(0.5, 0.05, union=512)
    assert 512 * failure_probability(k, 0.5) <= 0.05
    assert 512 * failure_probability(k - 1, 0.5) > 0.05
    assert k < required_dimension(0.5, 0.05, union=512, exact=False) == 318


def test_countsketch_with_three_rows_by_hand():
    """All 36 draws of two columns: a third of the squared norms is 0 or 2."""
    norms = []
    for i, j, a, b in itertools.product(range(3), range(3), (1, -1), (1, -1)):
        column = [a * (row == i) + b * (row == j) for row in range(3)]
        norms.append(Fraction(sum(entry**2 for entry in column), 2))
    assert sorted(norms) == [0] * 6 + [1] * 24 + [2] * 6


# --- means over every matrix R, in fractions

THREE_POINT = ((Fraction(1, 6), 1), (Fraction(2, 3), 0), (Fraction(1, 6), -1))
SIGNS = ((Fraction(1, 2), 1), (Fraction(1, 2), -1))
ROWS = certify.row_stochastic([[3, 2, 1], [0, 1, 3]])


def exact_mean(k, faces, unit, value):
    """E value(R'R) over every k x 3 matrix of sqrt(unit / k) times these faces."""
    total = Fraction(0)
    for entries in itertools.product(faces, repeat=3 * k):
        chance = math.prod(chance for chance, _ in entries)
        flat = [face for _, face in entries]
        rows = [flat[3 * a : 3 * a + 3] for a in range(k)]
        columns = list(zip(*rows))
        gram = certify.product(columns, rows)
        total += chance * value([[Fraction(unit, k) * v for v in row] for row in gram])
    return total


def squares(matrix):
    """The squared Frobenius norm."""
    return sum(entry**2 for row in matrix for entry in row)


def minus(a, b):
    return [[x - y for x, y in zip(*rows)] for rows in zip(a, b)]


def test_all_sign_matrices_obey_the_law():
    """k = 2, n = 3: the mean over all 64 sign matrices is the law with kappa = 1, and
    over the 27 of three points with k = 1 that with kappa = 3.
    """
    w = certify.exact([[1], [-2], [3]])
    wanted = certify.product(ROWS, w)

    def off(gram):
        return squares(minus(certify.product(ROWS, gram, w), wanted))

    norms = squares(ROWS) * squares(w)
    fourth = sum(w[j][0] ** 2 * sum(row[j] ** 2 for row in ROWS) for j in range(3))
    signs = (norms + squares(wanted) - 2 * fourth) / 2
    assert exact_mean(2, SIGNS, 1, off) == signs
    assert exact_mean(1, THREE_POINT, 3, off) == norms + squares(wanted)


def test_the_best_multiple_by_hand():
    """n = 3, k = 1, c = k / (n + k + 1) = 1/5: the mean over all 27 matrices."""

    def off(gram):
        shrunk = [[v / 5 for v in row] for row in certify.product(ROWS, gram)]
        return squares(minus(shrunk, ROWS))

    assert exact_mean(1, THREE_POINT, 3, off) == Fraction(4, 5) * squares(ROWS)


# --- where the relative form fails, and what is true


def test_softmax_comes_near_the_identity():
    """Logits beta I: the condition number is 1 + n / (e^beta - 1)."""
    values = torch.linalg.svdvals(page.sharp_attention(60, beta=12.0)["p"])
    condition = 1 + 60 / math.expm1(12)
    assert float(values[0] / values[-1]) == pytest.approx(condition, rel=1e-9)


def chi_square(z, m):
    """The density of chi-square with m degrees of freedom."""
    return z ** (m / 2 - 1) * torch.exp(-z / 2) / (2 ** (m / 2) * math.gamma(m / 2))


def test_the_chance_of_rank_one_as_a_double_integral():
    """k = 4, n = 5, eps = 1/2: over both chi-squares, below the bound."""
    z = torch.arange(1, 400, dtype=double) * 0.1 - 0.05
    x, y = torch.meshgrid(z, z, indexing="ij")
    t = x / 4
    h = (x * y).sqrt() / 4
    given_R = (torch.atan((1.5 - t) / h) + torch.atan((t - 0.5) / h)) / math.pi
    chance = 0.01 * (given_R * chi_square(x, 4) * chi_square(y, 4)).sum()
    assert chance <= page.arctan_bound(4, 5, 0.5)


@pytest.mark.parametrize("n", [100, 300])
def test_markov_needs_no_n(n):
    """k = 2 / (eps^2 delta) rows, whatever n: 80 rows for eps = 1/2, delta = 1/10."""
    p, w = page.attention(n).values()
    g = torch.Generator().manual_seed(0)
    allowed = 0.5 * p.norm() * w.norm()
    failed = 0
    for _ in range(50):
        got = jl_surrogate(p, 80, w[:, None], generator=g)[:, 0]
        failed += int((got - p @ w).norm() > allowed)
    assert failed <= 5


@pytest.mark.parametrize("k", [1, 4, 12])
def test_for_one_column_every_rank_occurs(k):
    """P w w' / |w|^2 plus a matrix of rank k - 1 that maps w to zero, n = 12."""
    p, w = page.attention(12).values()
    column = w[:, None]
    basis = torch.linalg.qr(torch.cat([column, page.randn(12, 11, seed=4)], 1))[0]
    images = page.randn(12, 12, seed=5)
    s = p @ column @ column.T / (w @ w) + images[:, 1:k] @ basis[:, 1:k].T
    assert (s @ w - p @ w).abs().max() <= page.ROUNDING
    assert torch.linalg.matrix_rank(s) == k


@pytest.mark.parametrize("k", [1, 5, 29])
def test_truncation_attains_the_singular_value(k):
    p = page.matrix(30, seed=2)["p"]
    u, s, vh = torch.linalg.svd(p)
    off = torch.linalg.matrix_norm(p - (u[:, :k] * s[:k]) @ vh[:k], 2)
    assert float(off) == pytest.approx(float(s[k]), abs=page.ROUNDING)


def test_the_surrogate_has_the_rank_of_the_projection():
    p = page.sharp_attention(40, beta=5.0)["p"]
    s = jl_surrogate(p, 7, generator=torch.Generator().manual_seed(0))
    assert torch.linalg.matrix_rank(s) == 7
