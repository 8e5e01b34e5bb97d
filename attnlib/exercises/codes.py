"""Exercises of the page on the price of dimension. Every function takes an answer and
returns a sentence.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import permutations

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT


def circle(answer: float | int | None) -> str:
    """Exercise 10.1: the price s / T of six tokens in the plane."""
    if answer is None:
        return NOT_TRIED
    mistakes = {
        0.5: "That is 1 - mu: the price is its inverse.",
        5 / 6: "That is the simplex: six points have one only from d = 5 on.",
        1.0: "That is the cross-polytope: it has six points only from d = 3 on.",
        36
        / (
            2 * math.pi**2
        ): "That is n^2 / (2 pi^2), which holds for large n: take the cosine itself.",
        1
        / (
            1 - math.cos(math.pi / 6)
        ): "You halved the angle: two neighbours are 60 degrees apart.",
    }

    def close(v):
        return abs(answer - v) < 5e-3

    if close(2.0):
        return RIGHT
    named = [sentence for value, sentence in mistakes.items() if close(value)]
    return (
        named[0]
        if named
        else "Not yet: put the keys on a regular hexagon; s / T = 1 / (1 - cos of the angle between neighbours)."
    )


def edges(answer: Callable | None) -> str:
    """Exercise 10.2: queries in the plane for the pairs {i, i + 1} of a cycle, keys on
    the circle.
    """
    if answer is None:
        return NOT_TRIED
    said = (_edges(answer, n, gap) for n, gap in ((12, 2.0), (7, 0.5)))
    return next((sentence for sentence in said if sentence != RIGHT), RIGHT)


def _edges(answer: Callable, n: int, gap: float) -> str:
    got = torch.as_tensor(answer(n, gap)).double()
    if got.shape != (n, 2):
        return (
            f"One query a row was wanted, shape ({n}, 2); yours is {tuple(got.shape)}."
        )
    angle = 2 * math.pi / n * torch.arange(n, dtype=torch.float64)
    logits = got @ torch.stack([angle.cos(), angle.sin()])

    def turned(j):
        return logits.gather(1, ((torch.arange(n) + j) % n)[:, None])[:, 0]

    if not (turned(0) - turned(1)).abs().max() <= 1e-5 * logits.abs().max():
        return "The two logits of a pair differ: point the query along the edge normal, half-way between two keys."
    margin = turned(0) - torch.maximum(turned(-1), turned(2))
    if (margin - gap).abs().max() < 1e-5 * gap:
        return RIGHT
    if margin.min() <= 0:
        return "Other keys have larger logits: the normal points outwards."
    if margin.min() < (1 - 1e-5) * gap:
        return "The gap is too small: divide T by cos(pi/n) - cos(3 pi/n)."
    return "The gap is met, but the queries are too long: divide T by cos(pi/n) - cos(3 pi/n)."


def dimension(answer: int | None) -> str:
    """Exercise 10.3: the least d that the ball bound allows for a million (2^20) tokens
    with s = 2T.
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        12: "Twelve dimensions allow 3^12 = 531441 tokens, which is not enough: round up.",
        20: "That is log2 n: the base is 1 + sqrt(2 s/T), here 3.",
        14: "That is ln n rounded up: divide by ln 3.",
        93: "That is how many dimensions suffice: the lower bound was asked.",
    }
    return (
        RIGHT
        if answer == 13
        else mistakes.get(answer, "Not yet: n <= (1 + sqrt(2 s/T))^d with s = 2T.")
    )


def line(answer: Callable | None) -> str:
    """Exercise 10.4: a function (rows, n) that says whether keys on a line serve all
    rows.
    """
    if answer is None:
        return NOT_TRIED
    cases = [
        (
            [{0}, {0, 1}, {0, 1, 2}],
            4,
            "A chain of sets is served: order the keys along it.",
        ),
        (
            [{0, 1}, {2, 3}],
            4,
            "Queries may be negative: a set may also be all keys from a number on; use complements.",
        ),
        (
            [{0}, {1}, {2}],
            3,
            "Three single keys on a line: the middle one can never be alone.",
        ),
        (
            [{1, 2}, {2, 3}],
            4,
            "Two overlapping pairs of four keys cannot both stand at an end.",
        ),
        (
            [{1}, {0, 1}, {3}],
            4,
            "The end key is not always key 0: try every key as the end.",
        ),
    ]
    for rows, n, sentence in cases:
        if bool(answer([set(r) for r in rows], n)) != _served(rows, n):
            return sentence
    for rows, n in _patterns():
        if bool(answer([set(r) for r in rows], n)) != (truth := _served(rows, n)):
            return f"Not for {n} columns and the rows {rows}: they can{'' if truth else 'not'} be met on a line."
    return RIGHT


def _patterns(count: int = 60):
    """Random rows of four or five columns; those of every second pattern are ends of
    one order, or come near it.
    """
    dice = random.Random(0)
    for trial in range(count):
        n, rows = dice.choice((4, 5)), []
        order = dice.sample(range(n), n)
        for _ in range(dice.choice((2, 3, 4))):
            if trial % 2 and dice.random() < 0.3:
                order = dice.sample(range(n), n)
            cut = dice.randrange(1, n)
            rows.append(
                set(
                    dice.choice((order[:cut], order[cut:]))
                    if trial % 2
                    else dice.sample(range(n), cut)
                )
            )
        yield rows, n


def _served(rows, n: int) -> bool:
    orders = (
        {frozenset(part) for i in range(n + 1) for part in (p[:i], p[i:])}
        for p in permutations(range(n))
    )
    return any(all(frozenset(r) in ends for r in rows) for ends in orders)
