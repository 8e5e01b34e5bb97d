"""Exercises of the pages `What it costs to be sharp` and `What is enough`."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import permutations

import torch

from attnbook.exercises import CLOSE, Case, exercise, tensor


@exercise("Not yet: put the keys on a regular hexagon; how near do neighbours come?")
def circle(answer):
    """Exercise 10.1: the price s / T of six tokens in the plane."""
    mistakes = {
        "That is 1 - mu, and not yet the price.": 0.5,
        "That is the simplex: six points have one only from d = 5 on.": 5 / 6,
        "That is the cross-polytope: it has six points only from d = 3 on.": 1.0,
        "That holds for large n only, and six tokens are few.": 18 / math.pi**2,
        "You halved the angle: two neighbours are 60 degrees apart.": (
            1 / (1 - math.cos(math.pi / 6))
        ),
    }
    yield Case(answer, 2.0, mistakes)


@exercise(function_of="n, gap")
def edges(answer):
    """Exercise 10.2: queries in the plane for the pairs {i, i + 1} of a cycle, keys on
    the circle.
    """
    for n, gap in ((12, 2.0), (7, 0.5)):
        queries = tensor(answer(n, gap), (n, 2))
        angles = torch.arange(n, dtype=torch.float64) * (2 * math.pi / n)
        keys = torch.stack([angles.cos(), angles.sin()], 1)
        logits = queries @ keys.T
        # Row i begins at its own key: its pair stands in front, both neighbours of the
        # pair in columns 2 and n - 1.
        rows = torch.stack([logits[i].roll(-i) for i in range(n)])
        difference = (rows[:, 0] - rows[:, 1]).abs()
        if difference.max() > CLOSE * logits.abs().max():
            yield (
                "The two logits of a pair differ: a query must not prefer one of its "
                "two keys."
            )
        others = torch.maximum(rows[:, 2], rows[:, -1])
        margins = rows[:, 0] - others
        if margins.min() <= 0:
            yield "Other keys have larger logits: does each query point to its pair?"
        hint = "The gap is met, but some queries are longer than they need to be."
        if margins.min() < gap:
            hint = "The gap is too small: the queries must be longer."
        yield Case(margins, torch.full_like(margins, gap), otherwise=hint)


@exercise("Not yet: put s = 2T into the bound; how many tokens does d = 1 allow?")
def dimension(answer):
    """Exercise 10.3: the least d that the ball bound allows for a million (2^20) tokens
    with s = 2T.
    """
    mistakes = {
        "Twelve dimensions allow 531441 tokens, which is not enough: round up.": 12,
        "That is log2 n: the base is another.": 20,
        "That is ln n, rounded up: the base is another.": 14,
        "That is how many dimensions suffice: the lower bound was asked.": 93,
    }
    yield Case(answer, 13, mistakes)


@exercise(function_of="rows, n")
def line(answer):
    """Exercise 11.1: a function that says whether keys on a line serve all rows."""
    known = {
        "A chain of sets is served: order the keys along it.": (
            [{0}, {0, 1}, {0, 1, 2}],
            4,
        ),
        "Queries may be negative: a row may also be all keys from a number on.": (
            [{0, 1}, {2, 3}],
            4,
        ),
        "Three single keys on a line: the middle one can never be alone.": (
            [{0}, {1}, {2}],
            3,
        ),
        "Two overlapping pairs of four keys cannot both stand at an end.": (
            [{1, 2}, {2, 3}],
            4,
        ),
        "The end key is not always key 0.": ([{1}, {0, 1}, {3}], 4),
    }
    for sentence, (rows, n) in known.items():
        served = _served(rows, n)
        yield Case(answer(rows, n), served, otherwise=sentence)
    for rows, n in _patterns():
        served = _served(rows, n)
        verb = "can" if served else "cannot"
        other = f"Not yet: {n} columns and the rows {rows} {verb} be met on a line."
        yield Case(answer(rows, n), served, otherwise=other)


@exercise("Not yet: put k = 1 and t = 2/3 into the second line of (11.2).")
def redrawn(answer):
    """Exercise 11.2: the least d of the local lemma for 2^20 tokens, k = 1, l = 3 T."""
    mistakes = {
        "That is d - 1: a sphere in d dimensions has one less.": 75,
        "That is for the level 2 T: here t is 2/3.": 134,
        "That is t = 1/3: t is 1 - T / l.": 300,
        "That is the union bound over all conflicts.": 123,
        "That has 2 k in place of kappa: one key alone makes no query longer.": 151,
    }
    yield Case(answer, 76, mistakes)


@exercise("Not yet: the cost first, then its logarithm to the base 2, then three more.")
def bits(answer):
    """Exercise 11.3: significant bits for 4096 keys on a circle."""
    mistakes = {
        "Three more: (b) grants 3 bits beside the logarithm of the cost.": 20,
        "Bits are whole: round up.": 22,
        "That is log2 n, which tells keys apart; the cost asks for more.": 12,
        "That is the natural logarithm: bits count in powers of two.": 17,
    }
    yield Case(answer, 23, mistakes)


def _patterns(count: int = 60) -> Iterator[tuple[list, int]]:
    """Random rows of four or five columns; those of every second pattern are ends of
    one order, or come near it.
    """
    dice = random.Random(0)
    for trial in range(count):
        n = dice.choice((4, 5))
        order = dice.sample(range(n), n)
        rows = []
        for _ in range(dice.choice((2, 3, 4))):
            if trial % 2 == 0 or dice.random() < 0.3:
                order = dice.sample(range(n), n)
            cut = dice.randrange(1, n)
            end = dice.choice((order[:cut], order[cut:]))
            rows.append(set(end))
        yield rows, n


def _served(rows: list[set[int]], n: int) -> bool:
    """Whether some order of the keys has every row at one of its two ends."""
    for order in permutations(range(n)):
        ends = []
        for i in range(n + 1):
            ends.append(set(order[:i]))
            ends.append(set(order[i:]))
        if all(row in ends for row in rows):
            return True
    return False
