"""Exercises of the page on the reviewers' questions. Every function takes an answer and
returns a sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

import torch

from attnlib.exercises.memorization import FUNCTION, NUMBER, _tensor
from attnlib.exercises.paths import NOT_TRIED, RIGHT


def ids(answer: object) -> str:
    """Exercise 18.1: how many ids have all sequences of 4 tokens out of 2, without and
    with positions?
    """
    if answer is None:
        return NOT_TRIED
    if (
        not isinstance(answer, (tuple, list))
        or len(answer) != 2
        or not all(isinstance(v, Real) for v in answer)
    ):
        return "A pair of numbers was wanted: without positions, and with them."
    without, positions = answer
    mistakes = {
        5: "Five is the number of multisets: an id is a token and its multiset, so count the different tokens in each.",
        16: "That is the number of sequences: without positions, sequences of one multiset are not told apart.",
        20: "Equal tokens in one sequence have equal ids: count the different tokens of each multiset.",
        2: "Those are the tokens: the same token in another multiset has another id.",
    }
    if without != 8:
        return mistakes.get(
            without,
            "Not yet: list the multisets aaaa, aaab, ..., and count the different tokens of each.",
        )
    if positions == 16:
        return "With positions each place of each sequence has an id of its own, not each sequence."
    return (
        RIGHT
        if positions == 64
        else "The first number is right; for the second, count sequences times places."
    )


def cells(answer: object) -> str:
    """Exercise 18.2: the least g for which the bound L / (2 g) is at most 0.01, for L =
    6.
    """
    if answer is None:
        return NOT_TRIED
    if not isinstance(answer, Real):
        return NUMBER
    mistakes = {
        600: "That is L / 0.01: a point is at most half a cell from its centre.",
        301: "Equality is enough: 300 cells do.",
        299: "Slightly too few: 6 / 598 is above 0.01.",
        3: "That is L / 2: divide by the error as well.",
    }
    return (
        RIGHT
        if answer == 300
        else mistakes.get(answer, "Not yet: solve L / (2 g) <= 0.01 for g.")
    )


def centre(answer: object) -> str:
    """Exercise 18.3: a function (x, g) that moves each entry of x in [0, 1] to the
    centre of its cell, one of g.
    """
    if answer is None:
        return NOT_TRIED
    if not callable(answer):
        return FUNCTION
    said = (_centre(answer, g, shape) for g, shape in ((4, (9,)), (7, (3, 5))))
    return next((sentence for sentence in said if sentence != RIGHT), RIGHT)


def _centre(answer: Callable, g: int, shape: tuple[int, ...]) -> str:
    x = torch.rand(
        shape, generator=torch.Generator().manual_seed(g), dtype=torch.float64
    )
    x.view(-1)[:2] = torch.tensor([0.0, 1.0], dtype=torch.float64)
    got = _tensor(answer(x.clone(), g))
    if got is None:
        return f"Your function returned no tensor: one of shape {tuple(x.shape)} was wanted."
    if got.shape != x.shape:
        return f"A tensor of shape {tuple(x.shape)} was wanted; yours is {tuple(got.shape)}."
    cell = (x * g).floor()

    def close(v):
        return bool(torch.allclose(got, v / g, atol=1e-9))

    if close(cell.clamp(max=g - 1) + 0.5):
        return RIGHT
    if close(cell + 0.5):
        return "Only x = 1 is wrong: it belongs to the last cell, not to one beyond."
    if close(cell) or close(cell.clamp(max=g - 1)):
        return (
            "Those are the left ends of the cells: the centre is half a cell further."
        )
    if close((x * g).round()):
        return "You rounded to the borders of the cells; their centres lie half-way between."
    return "Not yet: number the cells 0 to g - 1; cell i has the centre (i + 1/2) / g."
