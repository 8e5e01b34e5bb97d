"""Exercises of the page on sharp rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnbook.exercises import Case, exercise


@exercise("Not yet: what does the rival ask for, and what the last of the 64 tokens?")
def critical(answer):
    """Exercise 21.1: beta* of a leader, one rival at distance 1/2 and 62 at 2."""
    mistakes = {
        "That is what the near rival asks for. Ask the crowd, too.": math.log(2) / 0.5,
        "You counted the crowd alone: the leader and the rival come before it.": (
            math.log(62) / 2
        ),
        "You counted the rivals; the leader counts as the first token.": (
            math.log(63) / 2
        ),
        "That is the logarithm to base 2; it is the natural one.": 3.0,
        "You divided the wrong way round: ln j is over the distance.": 2 / math.log(64),
        "The largest of them decides; you added them up.": (
            math.log(2) / 0.5 + math.log(64) / 2
        ),
    }
    yield Case(answer, math.log(64) / 2, mistakes)


@exercise(
    "Not yet: try a row of two logits first; then both sides are its share.",
    function_of="row, beta",
)
def sides(answer):
    """Exercise 21.2: a function that returns the two sides of (21.3) for a row."""
    g = torch.Generator().manual_seed(21)
    for n, beta in ((2, 1.0), (7, 0.6), (30, 2.0), (12, 1.3)):
        row = torch.randn(n, generator=g, dtype=torch.float64)
        yield _two_sides(answer, row, beta)
    crowd = torch.tensor([-2.0] * 30 + [0.0, -1.0], dtype=torch.float64)
    yield _two_sides(answer, crowd, 1.0)


def _two_sides(answer: Callable, row: Tensor, beta: float) -> Case:
    """What an answer says of one row."""
    gaps = (row.max() - row).sort().values.tolist()
    needed = [math.log(j) / gaps[j - 1] for j in range(2, len(gaps) + 1)]
    critical = max(needed)
    at = 2 + needed.index(critical)
    t = beta / critical
    share = float(torch.softmax(beta * row, 0).max())
    mistakes = {
        "That is the share itself, twice; the two sides use t and j* alone.": (
            [share, share]
        ),
        "t is beta over beta*, not the other way round.": _sides(len(row), at, 1 / t),
        "t is beta over beta*; you took beta for t.": _sides(len(row), at, beta),
        "beta* is the largest over all gaps, not what the first gap asks for.": (
            _sides(len(row), 2, beta / needed[0])
        ),
        "The sum goes up to n, not to j*.": [
            _sides(at, at, t)[0],
            _sides(len(row), at, t)[1],
        ],
        "In the upper side j* - 1 rivals count; the leader is the 1.": [
            _sides(len(row), at, t)[0],
            1 / (1 + at * at**-t),
        ],
        "The lower side comes first.": _sides(len(row), at, t)[::-1],
    }
    return Case(answer(row, beta), _sides(len(row), at, t), mistakes)


def _sides(n: int, at: int, t: float) -> list[float]:
    """Both sides of (21.3)."""
    zipf = sum(j**-t for j in range(1, n + 1))
    return [1 / zipf, 1 / (1 + (at - 1) * at**-t)]


@exercise("Not yet: what is beta* of such a row at each length?")
def longer(answer):
    """Exercise 21.3: t at a million tokens, and the factor that restores it, if at a
    thousand tokens it is 3/2 and all rivals are equally far.
    """
    mistakes = {
        "beta* grows like ln n, not like n.": [0.0015, 1000],
        "More rivals make the row less sharp, not sharper.": [3.0, 0.5],
        "The t is right; the factor should bring it back to 3/2.": [0.75, 1.5],
        "The factor is right; and what is t without it?": [1.5, 2],
        "Without temperature t does change: beta* depends on n.": [1.5, 1],
        "beta* grows like ln n, not like its root.": [1.5 / 2**0.5, 2**0.5],
    }
    yield Case(answer, [0.75, 2.0], mistakes)


@exercise()
def promised(answer):
    """Exercise 21.4: what beta* says of four leaders at beta = 1."""
    hints = [
        "The first: t = 2.5, and Corollary 21.4 names the t from which on two thirds "
        "are sure.",
        "The second: t = 1.67. Which row has the smallest share, and how large is it?",
        "The third: t < 1; what does the upper side say, whatever j* is?",
        "The fourth: think of two tokens alone, with t a little below 1.",
    ]
    yield Case(answer, [True, False, True, False], otherwise=hints)
