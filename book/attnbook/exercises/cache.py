"""Exercises of the page `The KV cache`."""

from __future__ import annotations

import torch

from attnbook.exercises import Case, exercise, items, number
from attnbook.theorems.cache import circle_questions, right_answers


@exercise(function_of="p, bits, error")
def held(answer):
    """Exercise 22.1: how many tokens a state must hold if no answer may be off by more
    than an error.
    """
    for p, bits, error, right, mistakes in _heads():
        other = "Not yet: for which f is the right side of (22.1) above the error?"
        yield Case(answer(p, bits, error), right, mistakes, other)


def _heads():
    """Matrices, with what is right and what classical confusions give."""
    p = torch.tensor(
        [
            [0.90, 0.04, 0.03, 0.03],
            [0.90, 0.04, 0.03, 0.03],
            [0.10, 0.70, 0.10, 0.10],
            [0.20, 0.20, 0.55, 0.05],
            [0.25, 0.25, 0.25, 0.25],
        ],
        dtype=torch.float64,
    )
    rows = "You counted questions; two questions may read the same token."
    half = "You count what is read with more than half; an error is allowed, too."
    digits = "The error counts in steps of the grid: values of b bits lie closer."
    yield p, 1, 0.0, 3, {rows: 4, "You counted tokens that are not read sharply.": 1}
    yield p, 1, 0.3, 2, {half: 3}
    yield p, 3, 0.11, 1, {half: 3, digits: 2}
    even = torch.tensor([[0.75, 0.25], [0.25, 0.75]], dtype=torch.float64)
    level = "At the error itself an answer is still right: (22.1) must be above it."
    yield even, 1, 0.5, 0, {level: 2}


@exercise("Not yet: which gap T is enough for 11 tokens, and what makes it longer?")
def length(answer):
    """Exercise 22.2: how long questions must be for 11 unit keys with products of at
    most 1/3.
    """
    mistakes = {
        "That is the gap T; the question is longer by one over 1 - mu.": 2.3026,
        "You multiplied by 1 - mu: a thin slice needs a longer question.": 1.5351,
        "That is for products of at most 1/2, the kissing codes.": 4.6052,
        "That is with a logarithm to base 2; the exponential of softmax has base e.": (
            4.9829
        ),
        "That is with a logarithm to base 10; the exponential of softmax has base e.": (
            1.5000
        ),
        "The token that is asked for is none of the others.": 3.5968,
        "You divided by mu in place of 1 - mu.": 6.9078,
    }
    yield Case(answer, 3.4539, mistakes)


@exercise(
    "Not yet: compare 3 bits a symbol with 100 bits, and then allow for one in 8."
)
def texts(answer):
    """Exercise 22.3: how long a text over eight symbols may be, if a state of 100 bits
    is to give back one text in eight.
    """
    mistakes = {
        "That many are given back always; one in eight is less to ask.": 33,
        "That is one symbol too many: 3 bits of luck are one symbol, not two.": 35,
        "You counted bits, not symbols.": 103,
        "You counted bits, not symbols, and no luck.": 100,
        "One bit a symbol? Eight symbols are told apart by three bits.": 101,
    }
    yield Case(answer, 34, mistakes)


@exercise(function_of="p, kept")
def confused(answer):
    """Exercise 22.4: two lists that leave the same state, and the question that tells
    them apart best.
    """
    for n, gap, kept in (
        (4, 2.0, [0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10, 11, 12, 13, 14]),
        (3, 1.5, [5, 0, 2, 1, 3, 4, 0, 6]),
    ):
        p = circle_questions(n, gap)
        i, j, row = map(number, items(answer(p, torch.tensor(kept)), 3))
        if not {i, j} <= set(range(len(kept))) or row not in range(n):
            yield f"Lists count from 0 to {len(kept) - 1}, questions from 0 to {n - 1}."
        elif i == j:
            yield "These are not two lists but one."
        elif kept[int(i)] != kept[int(j)]:
            yield "These two lists leave different states: nothing confuses them."
        else:
            right = right_answers(p, n)
            apart = (right[int(i)] - right[int(j)]).abs()
            best = float(apart.max())
            other = "They share a state; but another question tells them apart better."
            yield Case(float(apart[int(row)]), best, otherwise=other)
