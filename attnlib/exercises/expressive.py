"""Exercises of the page on patterns in logarithmic dimension. Every function takes an
answer and returns a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT, _compare


def share(answer: float | int | None) -> str:
    """Exercise 9.1: one entry a row, 1001 tokens, every zero at most 1/100 of the
    entry: the largest share on the zeros.
    """
    if answer is None:
        return NOT_TRIED

    def close(v):
        return abs(answer - v) < 2e-5

    mistakes = {
        0.01: "That is one zero against the entry: a row has a thousand of them.",
        10.0: "Those are the odds, zeros against the entry: a share is at most one.",
        10.01
        / 11.01: "The row has 1001 tokens, but one of them is the wanted entry: count the zeros again.",
        1 / 11: "That is the share of the entry: the question is about the zeros.",
    }
    if close(10 / 11):
        return RIGHT
    named = [sentence for value, sentence in mistakes.items() if close(value)]
    return (
        named[0]
        if named
        else "Not yet: give the entry weight 1 and each of the 1000 zeros weight 1/100; a fraction or four digits will do."
    )


def query(answer: Callable | None) -> str:
    """Exercise 9.2: a function (keys, y) that returns the shortest q with keys @ q =
    y.
    """
    if answer is None:
        return NOT_TRIED
    g = torch.Generator().manual_seed(4)
    keys, y = (
        torch.randn(2, 5, generator=g, dtype=torch.float64),
        torch.tensor([3.0, 1.0], dtype=torch.float64),
    )
    wanted = keys.T @ torch.linalg.solve(keys @ keys.T, y)
    got = answer(keys, y)
    if (
        torch.is_tensor(got)
        and got.shape == (5,)
        and (keys @ got - y).abs().max() < 1e-9 < (got - wanted).norm()
    ):
        return "It has the right logits, but a part of it is orthogonal to the keys: that only makes it longer."
    mistakes = {
        "That is the plain projection: the keys are not orthogonal, so the Gram matrix must be undone.": keys.T
        @ y,
        "You multiplied by the Gram matrix: solve with it.": keys.T
        @ (keys @ keys.T @ y),
        "You divided by the squared lengths only: the keys also meet each other.": keys.T
        @ (y / (keys**2).sum(1)),
    }
    return _compare(got, wanted, mistakes)


def merge(answer: Callable | None) -> str:
    """Exercise 9.3: a function (m1, z1, m2, z2) that merges two tiles of a row; z = sum
    of exp(logit - m), m the maximum.
    """
    if answer is None:
        return NOT_TRIED

    def close(a, b):
        return abs(a - b) < 1e-9

    try:
        (m, z), turned = (
            [float(v) for v in answer(*tiles)]
            for tiles in ((3.0, 1.5, 5.0, 1.25), (5.0, 1.25, 3.0, 1.5))
        )
    except (TypeError, ValueError):
        return "Return two numbers, the maximum and the sum."
    right = math.exp(-2) * 1.5 + 1.25
    if not close(m, 5.0):
        return "The maximum of both tiles is the larger of the two."
    if close(z, 2.75):
        return "The first sum was taken against another maximum: multiply it by exp(m1 - m)."
    if close(z, math.exp(2) * 1.5 + 1.25):
        return "The sign is turned: m1 is below m, so its sum must shrink."
    if not close(z, right):
        return "Not yet: write each sum as exp(-m) times a sum of exp(logit)."
    if not (close(turned[0], 5.0) and close(turned[1], right)):
        return "Right here, but not if the first tile has the maximum."
    try:
        far = [
            float(v)
            for tiles in ((1000.0, 1.0, 0.0, 1.0), (0.0, 1.0, 1000.0, 1.0))
            for v in answer(*tiles)
        ]
    except OverflowError:
        far = [math.inf]
    good = len(far) == 4 and all(map(close, far, [1000.0, 1.0] * 2))
    return (
        RIGHT
        if good
        else "Right for near maxima, but far ones overflow: give exp only what is not positive."
    )


def dimension(answer: int | None) -> str:
    """Exercise 9.4: the dimension that the theorem gives for one entry a row, a million
    tokens and chance 1/2.
    """
    if answer is None:
        return NOT_TRIED
    n = 10**6
    mistakes = {
        math.ceil(8 * math.log(2 * n)): "There are n^2 pairs that may go wrong, not n.",
        math.ceil(8 * math.log(n * n)): "The chance 1/2 is missing.",
        math.ceil(8 * math.log10(2 * n * n)): "The logarithm is the natural one.",
        math.ceil(8 * math.log(2 * n * n))
        - 1: "Round up: d is an integer and must not fall short.",
        n: "That is the trivial dimension: it always works, and it is what the theorem saves.",
    }
    right = math.ceil(8 * math.log(2 * n * n))
    return (
        RIGHT
        if answer == right
        else mistakes.get(
            answer, "Not yet: put k = 1 into the last line of the theorem."
        )
    )
