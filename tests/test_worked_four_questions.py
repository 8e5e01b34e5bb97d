"""Worked examples of the page notebooks/path_decomposition/four_questions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from attnbook.theorems import four_questions
from attnlib import certify
from attnlib.attention import Layer, attention_matrix, forward
from attnlib.collapse import composite_norm, residual

double = torch.float64
ROUNDING = four_questions.ROUNDING


def floats(matrix: certify.Matrix) -> torch.Tensor:
    return torch.tensor([[float(entry) for entry in row] for row in matrix]).to(double)


def test_the_number_of_the_lemma():
    """e^1.256 < 1 + 2 * 1.256: the series to degree 12, and twice its last term, as
    each later one is less than half of the one before.
    """
    x = Fraction(1256, 1000)
    terms = [x**k / math.factorial(k) for k in range(13)]
    assert sum(terms) + 2 * terms[-1] < 1 + 2 * x


@pytest.mark.parametrize("c", [0.1, 0.25, math.log(2) / 2, 0.6])
def test_two_tokens_are_scaled(c):
    """One layer takes a to v tanh(w a^2) a and leaves the second coordinates alone."""
    x, layer = four_questions.two_tokens(a=2.0, w=c / 4, v=1.5)
    y = forward(x, [layer])
    wanted = x * torch.tensor([1.5 * math.tanh(c), 1.0], dtype=double)
    assert (y - wanted).abs().max() <= ROUNDING


@pytest.mark.parametrize(
    ("n", "d", "root"), [(1, 1, 1), (2, 2, 1), (8, 2, 2), (2, 8, Fraction(1, 2))]
)
def test_the_worst_pair_reaches_k(n, d, root):
    """In fractions, for sizes whose n/d has a rational root."""
    a, b = four_questions.worst_pair(n, d).values()
    assert four_questions.square(a) == four_questions.square(b) == n
    nd = d * Fraction(root)  # the root of n d
    k_squared = (nd + 2 + 1 / nd) / 4
    assert four_questions.square(a + b) == k_squared * 4 * n


def test_both_ends_of_the_spectral_norm_occur():
    """A single entry has |A| = |A|_2, a Hadamard matrix |A| = (nd)^(1/4) |A|_2."""
    unit = torch.zeros(4, 9, dtype=double)
    unit[0, 0] = 1
    hadamard = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=double)
    assert composite_norm(unit) == torch.linalg.matrix_norm(unit, 2)
    most = 4**0.25 * torch.linalg.matrix_norm(hadamard, 2)
    assert abs(composite_norm(hadamard) - most) <= ROUNDING


@pytest.mark.parametrize("n", [3, 6])
def test_two_is_approached(n):
    """By fans of growing width."""
    short = []
    for width in (10, 100):
        y = four_questions.fan(n, width * n + 1)["y"]
        ratio = float(composite_norm(residual(y)) / composite_norm(y))
        short.append(1 - ratio / (2 - 2 / n))
    assert short[0] > 5 * short[1] > 0


def test_the_right_side_from_a_half():
    """With c = 9: 9/8, then 6561/512."""
    assert four_questions.right_side(9, "1/2", 1) == Fraction(9, 8)
    assert four_questions.right_side(9, "1/2", 2) == Fraction(6561, 512)


def test_a_residual_of_any_size():
    x = four_questions.network_with_query_biases()["x"]
    size = composite_norm(residual(x))
    assert composite_norm(residual(1024 * x)) == 1024 * size


@pytest.mark.parametrize(
    ("a", "q", "v", "wanted"),
    [
        (Fraction(10), Fraction(6, 5), 1, Fraction(10, 11)),
        (Fraction(1, 10), Fraction(3), 3, Fraction(3, 20)),
    ],
)
def test_a_large_residual_falls_and_a_small_one_grows(a, q, v, wanted):
    """One layer of the two networks of Figure 3.1, in fractions."""
    P = certify.row_stochastic([[q, 1], [1, q]])
    x = certify.exact([[a, 1], [-a, 1]])
    W = certify.exact([[v, 0], [0, 1]])
    first, _ = certify.network(x, [[P]], [[W]])
    assert list(first) == [wanted, 1]


@pytest.mark.parametrize("n", [2, 5, 17, 65])
def test_a_star_reaches_a_quarter(n):
    """Moving its hub moves each leaf by 1/2 + ln(n - 1)/4 times as much."""
    objects = four_questions.star(n, length=1.5)
    by_hub = four_questions.derivative(**objects)[1:, 0, 0, 0]
    formula = 1 / 2 + math.log(n - 1) / 4
    assert (by_hub - formula).abs().max() <= ROUNDING
    unit = math.sqrt(n - 1) * four_questions.kappa(**objects)[0]
    assert by_hub.norm() >= 0.25 * unit


def test_softmax_makes_the_corners():
    """Six layers, in floats."""
    n, L = 4, 6
    _, wanted = four_questions.corners(n, L, base=n + 1)
    eye = torch.eye(n, dtype=double)
    layers = []
    for l in range(L):
        strength = 4**l * math.log(n + 1) * math.sqrt(n)  # the root of d_qk
        layers.append(Layer(strength * eye[None], eye[None], eye[None], eye[None]))
    _, attention = forward(eye, layers, return_attention=True)
    for found, exact in zip(attention, wanted):
        assert (found[0] - floats(exact)).abs().max() <= 1e-11


def test_softmax_makes_the_clusters():
    X, P = four_questions.clusters(2)
    first = torch.tensor([[1.0], [0.0]], dtype=double)
    found = attention_matrix(floats(X), math.log(3) / 2 * first, first)
    assert (found - floats(P)).abs().max() <= 1e-11


def test_softmax_divides_rows():
    """A = diag(0, 2 ln 3) and d_qk = 4: the rows (1, 1)/2 and (1, 3)/4."""
    a = torch.tensor([[0.0, 0.0], [0.0, 2 * math.log(3)]], dtype=double)
    wanted = torch.tensor([[0.5, 0.5], [0.25, 0.75]], dtype=double)
    assert ((a / 2).softmax(-1) - wanted).abs().max() <= ROUNDING
