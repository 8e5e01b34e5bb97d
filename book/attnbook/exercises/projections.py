"""Exercises of the page on random projections."""

from __future__ import annotations

import math

import torch

from attnbook.exercises import Case, exercise, fit


@exercise("Not yet: count the inner products, and let them share delta.")
def dimension(answer):
    """Exercise 6.1: k by formula (6.10) for the inner products of 1000 rows with 64
    columns, eps = 0.2, delta = 0.01.
    """
    mistakes = {
        "That keeps one inner product: put the number of all pairs beside delta.": (
            _rows(1)
        ),
        "You counted the rows only: each row meets each of the 64 columns.": (
            _rows(1000)
        ),
        "You added rows and columns: the pairs are their product.": _rows(1064),
        "You left out the cube in the denominator.": _rows(64000, gap=0.04),
        "You used the constant 4 of the polarisation identity: the theorem has "
        "another.": _rows(64000, factor=4),
        "You lost the factor 2 in front of the exponential.": _rows(64000, factor=1),
        "The right formula, but round up: k is the least whole number that is not "
        "below it.": _rows(64000),
    }
    yield Case(answer, math.ceil(_rows(64000)), mistakes)


def _rows(pairs: int, gap: float = 0.032, factor: int = 2) -> float:
    return 4 * math.log(factor * pairs / 0.01) / gap


@exercise(
    "Not yet: try k = 1 and kappa = 3, with x and y of one entry.",
    function_of="x, y, k, kappa",
)
def variance(answer):
    """Exercise 6.2: a function that returns the variance of x'R'Ry by the mean-square
    law.
    """
    x = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    y = torch.tensor([2.5, 1.0, 3.0], dtype=torch.float64)
    norms = float((x @ x) * (y @ y))
    dot = float(x @ y)
    for k, kappa in ((4, 1.0), (7, 3.0), (5, 9.0)):
        fourth = (kappa - 3) * float(x**2 @ y**2)
        right = (norms + dot**2 + fourth) / k
        mistakes = {
            "The term with kappa is missing: it drops out for kappa = 3 only.": (
                (norms + dot**2) / k
            ),
            "The square of the inner product is missing.": (norms + fourth) / k,
            "The inner product stands squared in the law.": (norms + dot + fourth) / k,
            "Divide by k: the rows are averaged.": right * k,
            "That is the standard deviation; the variance was asked.": right**0.5,
        }
        yield Case(answer(x, y, k, kappa), right, mistakes)


@exercise(
    "Not yet: its rank is 1, but it does not map w to P w.",
    function_of="p, w",
)
def surrogate(answer):
    """Exercise 6.3: a function that returns a matrix of rank one which maps w to P w
    exactly.
    """
    g = torch.Generator().manual_seed(6)
    logits = torch.randn(4, 4, generator=g, dtype=torch.float64)
    p = torch.softmax(logits, -1)
    w = torch.randn(4, generator=g, dtype=torch.float64)
    got = fit(answer(p, w), p)
    rank = int(torch.linalg.matrix_rank(got))
    if rank != 1:
        yield f"Its rank is {rank}, not 1."
    target = p @ w
    mistakes = {
        "Almost: it maps w to a multiple of P w; how long is w?": (w @ w) * target,
        "It is transposed: the columns must be multiples of P w.": (
            w * (w @ target) / (w @ w)
        ),
    }
    yield Case(got @ w, target, mistakes)


@exercise("Not yet: the mean square error is quadratic in c; where is it least?")
def shrink(answer):
    """Exercise 6.4: the number c for which c P R'R is nearest to P on average, n = 511,
    k = 128.
    """
    mistakes = {
        "c = 1 is no shrinkage: the mean square error is then 4, in units of "
        "|P|_F^2.": 1.0,
        "That is what is left of the squared error; c itself was asked.": 0.8,
        "That is k / n: it is near the answer for large n / k only.": 128 / 511,
        "You forgot that the mean square of P R'R contains P itself.": 0.25,
    }
    yield Case(answer, 0.2, mistakes)


@exercise(
    "Not yet: for which y does the printed line allow no error at all?",
    function_of="x",
)
def counterexample(answer):
    """Exercise 6.5: a function that returns a nonzero y at a right angle to x."""
    for entries in ((1.0, 2.0, -3.0), (0.0, 0.0, 5.0, 0.0), (1.0, 1.0, 1.0, 1.0)):
        x = torch.tensor(entries, dtype=torch.float64)
        y = fit(answer(x.clone()), x)
        if not y.any():
            yield "For y = 0 both sides are 0, and the line holds."
        cosine = x @ y / (x.norm() * y.norm())
        mistakes = {
            "y points the same way as x: there both yardsticks agree.": 1.0,
            "y points the opposite way: there both yardsticks agree.": -1.0,
        }
        yield Case(float(cosine), 0.0, mistakes)
