"""Exercises of the page on the note's four questions."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from attnbook.exercises import CLOSE, Case, exercise, items, tensor, truth


@exercise("Not yet: try n = d = 1, where the constant must be 1.")
def constant(answer):
    """Exercise 3.1: the sharp constant K of the composite norm on 3 x 27 matrices."""
    mistakes = {
        "Twice too much: for n = d = 1 your formula gives 2.": 10 / 3,
        "A term is missing: for n = d = 1 your formula gives 1/2.": 3 / 2,
        "You took the square root of nd: in K it is another root.": 41 / 9,
        "That is the triangle inequality, which fails here.": 1.0,
    }
    yield Case(answer, 5 / 3, mistakes)


@exercise(function_of="n, d")
def pair(answer):
    """Exercise 3.2: a function that returns two matrices, the composite norm of whose
    sum is K times too large.
    """
    for n, d in ((3, 3), (2, 8), (5, 3)):
        a, b = items(answer(n, d), 2)
        a = tensor(a, (n, d))
        b = tensor(b, (n, d))
        if not (a.any() and b.any()):
            yield "Zero matrices make every inequality an equality: give others."
        factor = _norm(a + b) / (_norm(a) + _norm(b))
        root = (n * d) ** 0.25
        constant = (root + 1 / root) / 2
        yield Case(factor, constant, otherwise=_why(a, b))


def _why(a: Tensor, b: Tensor) -> str:
    """Why two matrices fall short of the constant."""
    if math.isclose(_ratio(a), _ratio(b), rel_tol=CLOSE):
        return (
            "Your two matrices have the same ratio of column sum to row sum: then the "
            "triangle inequality holds."
        )
    if not math.isclose(_norm(a), _norm(b), rel_tol=CLOSE):
        return (
            "Your matrices differ in norm: scale one of them until the norms are "
            "equal, also for n unlike d."
        )
    largest = _norm(a.abs() + b.abs())
    if _norm(a + b) < (1 - CLOSE) * largest:
        return "In the sum your entries cancel: look at the signs where both overlap."
    return (
        "Not yet: in which entries do the largest column of one matrix and the largest "
        "row of the other meet?"
    )


def _norm(x: Tensor) -> float:
    column, row = _largest_sums(x)
    return math.sqrt(column * row)


def _ratio(x: Tensor) -> float:
    column, row = _largest_sums(x)
    return column / row


def _largest_sums(x: Tensor) -> tuple[float, float]:
    """The largest column sum and the largest row sum."""
    column = x.abs().sum(0).max()
    row = x.abs().sum(1).max()
    return float(column), float(row)


@exercise(
    function_of="a, w, v",
    errors={
        (ValueError, ZeroDivisionError): "Your function stops with an error: for "
        "v <= 1 there is no artanh(1/v), and none is needed.",
    },
)
def collapses(answer):
    """Exercise 3.3: a function that says whether the two tokens a, -a collapse as the
    depth grows.
    """
    sizes = (0.1, 1.0, 10.0)
    products = (0.05, 0.3, 1.0, 3.0)  # w a^2
    values = (0.5, 1.0, 1.3, 3.0)
    grid = list(itertools.product(sizes, products, values))
    given = [truth(answer(a, p / a**2, v)) for a, p, v in grid]
    right = [v * math.tanh(p) < 1 for a, p, v in grid]
    mistakes = {
        "You asked whether the residual is below 1; that changes with the unit in "
        "which X is measured.": [math.sqrt(2) * a < 1 for a, p, v in grid],
        "You asked whether the note's bound (3.2) is useful; the tokens collapse in "
        "more cases.": [8 * p * max(v, 1) < 1 for a, p, v in grid],
        "You looked at v alone; with v > 1 the tokens still collapse if they start "
        "close enough.": [v <= 1 for a, p, v in grid],
        "You have the two cases the wrong way round.": [not r for r in right],
    }
    hints = [f"Not yet: try a = {a}, w = {p / a**2:g}, v = {v}." for a, p, v in grid]
    yield Case(given, right, mistakes, otherwise=hints)


@exercise(
    "Not yet: try two rows that differ by a constant, where the factor is 0.",
    function_of="logits",
)
def factor(answer):
    """Exercise 3.4: a function that returns the factor tanh(Delta / 4) of Theorem
    2.3.
    """
    rows = [
        [0.3, 0.1, -0.2],
        [0.9, 0.5, 0.6],
        [0.2, 0.7, 0.4],
    ]
    logits = torch.tensor(rows, dtype=torch.float64)
    differences = logits[:, None] - logits
    delta = float(_spread(differences).max())
    of_rows = float(_spread(logits).max())
    mistakes = {
        "You took the spread of the rows; what counts is the spread of a difference "
        "of two rows.": math.tanh(of_rows / 4),
        "You took the largest entry of a difference; what counts is its largest minus "
        "its smallest entry.": math.tanh(float(differences.max()) / 4),
        "You returned the spread itself; the factor is the tanh of a quarter of "
        "it.": delta,
        "The quarter is missing.": math.tanh(delta),
        "That is Delta / 4, an upper bound of the factor.": delta / 4,
    }
    yield Case(answer(logits), math.tanh(delta / 4), mistakes)


@exercise(
    "Not yet: for one layer, which odds of a token on itself leave a third of the "
    "differences?",
    function_of="n, L",
)
def strengths(answer):
    """Exercise 3.5: a function that returns the strengths w of L layers that divide the
    differences of n unit vectors by three.
    """
    for n, L in ((4, 3), (10, 5)):
        start = math.log(1 + n / 2)
        mistakes = {
            "Your strengths stay the same, but the tokens come closer: then the logits "
            "get too small.": [start] * L,
            "Your strengths triple; but logits are inner products.": [
                start * 3**l for l in range(L)
            ],
            "Those halve the differences; divide them by three.": [
                math.log(n + 1) * 4**l for l in range(L)
            ],
            "You are a layer too late: the first strength is w_0.": [
                start * 9 ** (l + 1) for l in range(L)
            ],
            "You returned odds; a strength is their logarithm.": [
                (1 + n / 2) * 9**l for l in range(L)
            ],
        }
        right = [start * 9**l for l in range(L)]
        yield Case(answer(n, L), right, mistakes)


def _spread(x: Tensor) -> Tensor:
    return x.amax(-1) - x.amin(-1)
