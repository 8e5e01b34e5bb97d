"""Exercises of the page on the note's four questions. Every function takes an answer
and returns a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnlib.exercises.paths import NOT_TRIED, RIGHT

Case = tuple[float, float, float]


def constant(answer: float | int | None) -> str:
    """Exercise 3.1: the sharp constant K of the composite norm on 3 x 27 matrices."""
    if answer is None:
        return NOT_TRIED
    mistakes = {
        10 / 3: "You added (nd)^(1/4) and its inverse, but K is their mean.",
        3 / 2: "You halved (nd)^(1/4), but its inverse belongs to the mean as well.",
        41 / 9: "You took the square root of nd; K has its fourth root.",
        1.0: "That is the triangle inequality, which fails here.",
    }
    for value, sentence in [(5 / 3, RIGHT), *mistakes.items()]:
        if math.isclose(answer, value, rel_tol=1e-9):
            return sentence
    return "Not yet: nd = 81, and its fourth root is 3."


def pair(answer: Callable | None) -> str:
    """Exercise 3.2: a function (n, d) that returns two matrices, the composite norm of
    whose sum is K times too large.
    """
    if answer is None:
        return NOT_TRIED
    for n, d in ((3, 3), (2, 8), (5, 3)):
        a, b = (torch.as_tensor(m, dtype=torch.float64) for m in answer(n, d))
        if a.shape != (n, d) or b.shape != (n, d):
            return f"Two tensors of shape {(n, d)} were wanted, yours are {tuple(a.shape)} and {tuple(b.shape)}."
        if not (a.any() and b.any()):
            return "Zero matrices make every inequality an equality: neither tensor may be zero."
        (na, ta), (nb, tb), (both, _) = map(_norm_and_shape, (a, b, a + b))
        if both >= (1 - 1e-9) * _constant(n, d) * (na + nb):
            continue
        if math.isclose(ta, tb, rel_tol=1e-9):
            return "Your two matrices have the same ratio of column sum to row sum: then the triangle inequality holds."
        if not math.isclose(na, nb, rel_tol=1e-9):
            return "Your matrices differ in norm: scale one of them until the norms are equal, also for n unlike d."
        if both < 0.99 * _norm_and_shape(a.abs() + b.abs())[0]:
            return "In the sum your entries cancel: make the signs equal where the two overlap."
        return "Not yet: let the largest column of one matrix and the largest row of the other meet in one entry."
    return RIGHT


def _norm_and_shape(x: Tensor) -> tuple[float, float]:
    columns, rows = float(x.abs().sum(0).max()), float(x.abs().sum(1).max())
    return math.sqrt(columns * rows), columns / rows if rows else 1.0


def _constant(n: int, d: int) -> float:
    return ((n * d) ** 0.25 + (n * d) ** -0.25) / 2


def collapses(answer: Callable | None) -> str:
    """Exercise 3.3: a function (a, w, v) that says whether the two tokens a, -a
    collapse as the depth grows.
    """
    if answer is None:
        return NOT_TRIED
    rules: dict[str, Callable[[Case], bool]] = {
        RIGHT: lambda c: c[2] <= 1 or c[1] * c[0] ** 2 < math.atanh(1 / c[2]),
        "You asked whether the residual is below 1; that changes with the unit in which X is measured.": lambda c: (
            math.sqrt(2) * c[0] < 1
        ),
        "You asked whether the bound of Theorem 2.2 is useful, 8 w v a^2 < 1; the tokens collapse in more cases.": lambda c: (
            8 * c[1] * c[2] * c[0] ** 2 < 1
        ),
        "You looked at v alone; with v > 1 the tokens still collapse if they start close enough.": lambda c: (
            c[2] <= 1
        ),
        "You have the two cases the wrong way round.": lambda c: (
            c[2] > 1 and c[1] * c[0] ** 2 >= math.atanh(1 / c[2])
        ),
    }
    cases = [
        (a, y / a**2, v)
        for a in (0.1, 1.0, 10.0)
        for y in (0.05, 0.3, 1.0, 3.0)
        for v in (0.5, 1.0, 1.3, 3.0)
    ]
    try:
        said = [bool(answer(*case)) for case in cases]
    except (ValueError, ZeroDivisionError):
        return "Your function stops with an error: for v <= 1 there is no artanh(1/v), and none is needed."
    for sentence, rule in rules.items():
        if said == [rule(case) for case in cases]:
            return sentence
    case = next(c for c, s in zip(cases, said) if s != rules[RIGHT](c))
    return f"Not yet: look at a = {case[0]:g}, w = {case[1]:g}, v = {case[2]:g}."


def factor(answer: Callable | None) -> str:
    """Exercise 3.4: a function (logits) that returns the factor tanh(Delta / 4) of
    Theorem 3.11.
    """
    if answer is None:
        return NOT_TRIED
    a = torch.tensor(
        [[0.3, 0.1, -0.2], [0.9, 0.5, 0.6], [0.2, 0.7, 0.4]], dtype=torch.float64
    )
    differences = a[:, None] - a[None]
    delta = float((differences.amax(-1) - differences.amin(-1)).max())
    rows = float((a.amax(-1) - a.amin(-1)).max())
    sentences = {
        RIGHT: math.tanh(delta / 4),
        "You took the spread of the rows; what counts is the spread of a difference of two rows.": math.tanh(
            rows / 4
        ),
        "You took the largest entry of a difference; what counts is its largest minus its smallest entry.": math.tanh(
            float(differences.max()) / 4
        ),
        "You returned the spread itself; the factor is the tanh of a quarter of it.": delta,
        "The quarter is missing: tanh(Delta / 4).": math.tanh(delta),
        "That is Delta / 4, an upper bound of the factor; take its tanh.": delta / 4,
    }
    got = float(answer(a))
    for sentence, value in sentences.items():
        if math.isclose(got, value, rel_tol=1e-9):
            return sentence
    return "Not yet: subtract two rows of logits, take largest minus smallest entry, and the largest over all pairs."
