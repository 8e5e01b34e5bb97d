"""Exercises of the page on random projections. Every function takes an answer and
returns a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT, _compare

NO_NUMBER = "A number was wanted."


def dimension(answer: object) -> str:
    """Exercise 6.1: k by formula (6.3) for the inner products of 1000 rows with 64
    columns, eps = 0.2, delta = 0.01.
    """
    if answer is None:
        return NOT_TRIED
    if not isinstance(answer, Real):
        return NO_NUMBER

    def size(pairs, gap=0.032, factor=2):
        return 4 * math.log(factor * pairs / 0.01) / gap

    mistakes = {
        size(
            1
        ): "That keeps one inner product: put the number of all pairs beside delta.",
        size(1000): "You counted the rows only: each row meets each of the 64 columns.",
        size(1064): "You added rows and columns: the pairs are their product.",
        size(64000, 0.04): "The denominator is eps^2 - eps^3; you left out the cube.",
        size(
            64000, factor=4
        ): "You used the constant 4 of the polarisation identity: the theorem has 2.",
        size(64000, factor=1): "You lost the factor 2 in front of the exponential.",
    }

    def near(value):
        return abs(answer - value) <= 1

    if answer == math.ceil(size(64000)):
        return RIGHT
    if near(size(64000)) or near(math.ceil(size(64000))):
        return "The right formula, but round up: k is the least whole number that is not below it."
    named = [sentence for value, sentence in mistakes.items() if near(math.ceil(value))]
    return (
        named[0]
        if named
        else "Not yet: solve 2 * 64000 * exp(-k (eps^2 - eps^3) / 4) = 0.01 for k."
    )


def variance(answer: Callable | None) -> str:
    """Exercise 6.2: a function (x, y, k, kappa) that returns the variance of x'R'Ry by
    the mean-square law.
    """
    if answer is None:
        return NOT_TRIED
    x = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    y = torch.tensor([2.5, 1.0, 3.0], dtype=torch.float64)
    cases = [(4, 1.0), (7, 3.0), (5, 9.0)]
    k, kappa = torch.tensor(cases, dtype=torch.float64).T
    norms, dot, fourth = x @ x * (y @ y), x @ y, (x * x) @ (y * y)
    mistakes = {
        "The term with kappa is missing: it drops out for kappa = 3 only.": (
            norms + dot**2
        )
        / k,
        "The square of the inner product is missing.": (norms + (kappa - 3) * fourth)
        / k,
        "The inner product stands squared in the law.": (
            norms + dot + (kappa - 3) * fourth
        )
        / k,
        "Divide by k: the rows are averaged.": norms + dot**2 + (kappa - 3) * fourth,
        "That is the standard deviation; the variance was asked.": (
            (norms + dot**2 + (kappa - 3) * fourth) / k
        ).sqrt(),
    }
    values = [answer(x.clone(), y.clone(), *case) for case in cases]
    if not all(
        isinstance(v, Real) or torch.is_tensor(v) and v.numel() == 1 for v in values
    ):
        return "The function must return one number for each k and kappa."
    return _compare(
        torch.tensor([float(v) for v in values], dtype=torch.float64),
        (norms + dot**2 + (kappa - 3) * fourth) / k,
        mistakes,
    )


def surrogate(answer: Callable | None) -> str:
    """Exercise 6.3: a function (p, w) that returns a matrix of rank one which maps w to
    P w exactly.
    """
    if answer is None:
        return NOT_TRIED
    g = torch.Generator().manual_seed(6)
    p = torch.softmax(torch.randn(4, 4, generator=g, dtype=torch.float64), -1)
    w = torch.randn(4, generator=g, dtype=torch.float64)
    got = answer(p.clone(), w.clone())
    if not torch.is_tensor(got) or got.shape != p.shape:
        return "A matrix of shape (4, 4) was wanted."
    if got.dtype != p.dtype or not got.isfinite().all():
        return "The matrix must be finite, and float64 as p and w are."
    if torch.allclose(got, torch.outer(p @ w, w), rtol=1e-9):
        return "Almost: it maps w to |w|^2 P w. Divide by w'w."
    if torch.allclose(got, torch.outer(w, p @ w) / (w @ w), rtol=1e-9):
        return "It is transposed: the columns are multiples of P w, the rows of w."
    if torch.linalg.matrix_rank(got) != 1:
        return f"Its rank is {int(torch.linalg.matrix_rank(got))}, not 1."
    return (
        RIGHT
        if torch.allclose(got @ w, p @ w, rtol=1e-9)
        else "Its rank is 1, but it does not map w to P w."
    )


def shrink(answer: object) -> str:
    """Exercise 6.4: the number c for which c P R'R is nearest to P on average, n = 511,
    k = 128.
    """
    if answer is None:
        return NOT_TRIED
    if not isinstance(answer, Real):
        return NO_NUMBER
    mistakes = {
        1.0: "c = 1 is no shrinkage: the mean square is then (n + 1) / k = 4.",
        0.8: "That is what is left of the squared error; c itself was asked.",
        128
        / 511: "That is k / n: set the derivative of c^2 (1 + (n + 1) / k) - 2 c to zero.",
        0.25: "You forgot the 1 in 1 + (n + 1) / k: the mean square of c P R'R contains P itself.",
    }

    def close(value):
        return abs(answer - value) < 2e-4

    if close(0.2):
        return RIGHT
    named = [sentence for value, sentence in mistakes.items() if close(value)]
    return (
        named[0]
        if named
        else "Not yet: the mean square is c^2 (1 + (n + 1) / k) - 2 c + 1, in units of |P|_F^2."
    )
