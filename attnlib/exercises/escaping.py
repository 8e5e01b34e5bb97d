"""Exercises of the page on what stops the collapse. Every function takes an answer and
returns a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT, _compare

HEADS = ([0.3, 0.2], [1.0, 3.0], 1.5)  # values, strengths, diameter


def keeps(answer: Callable | None) -> str:
    """Exercise 4.1: a function (values, strengths, diameter) that returns 1 - c."""
    if answer is None:
        return NOT_TRIED
    (values, strengths, size), th = HEADS, math.tanh
    heads = list(zip(values, strengths))
    got = float(answer(values, strengths, size))
    named = {
        sum(
            v * th(w * size**2 / 4) for v, w in heads
        ): "That is c: the skip keeps 1 - c.",
        1
        - sum(
            values
        ): "That is the bound with a mask: without one, each head carries a tanh.",
        1
        - sum(
            v * th(w * size**2) for v, w in heads
        ): "The quarter in tanh(w diameter^2 / 4) is missing.",
        1
        - sum(
            v * th(w * size / 4) for v, w in heads
        ): "The logits are quadratic in the distances: square the diameter.",
        1
        - sum(
            v * w * size**2 / 4 for v, w in heads
        ): "That is k diameter^2, a bound of c; the theorem has tanh.",
        1
        - max(
            v * th(w * size**2 / 4) for v, w in heads
        ): "You took the strongest head alone: the heads add up.",
        math.prod(
            1 - v * th(w * size**2 / 4) for v, w in heads
        ): "Heads of one layer add up; factors belong to layers.",
    }
    if abs(got - (1 - next(iter(named)))) < 1e-9:
        return RIGHT
    found = [sentence for value, sentence in named.items() if abs(got - value) < 1e-9]
    return (
        found[0]
        if found
        else "Not yet: c is the sum over the heads of v tanh(w diameter^2 / 4)."
    )


def slope(answer: float | int | None) -> str:
    """Exercise 4.2: the smallest slope of a clip that keeps two tokens at 1 and -1, for
    e^2w = 2.
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        1 / 3: "That is tanh(w): the slope must undo it.",
        2.0: "That is the threshold for e^2w = 3, or e^2w itself: find tanh(w).",
        5
        / 3: "That is 1 / tanh(2w): a token has the logit w with itself and -w with the other.",
        0.5: "Half of what is needed and less: the clip must bring tanh(w) back to 1.",
        2 / math.log(2): "That is 1 / w: tanh(w) is less than w.",
    }

    def close(v):
        return abs(answer - v) < 5e-3

    if close(3.0):
        return RIGHT
    named = [sentence for value, sentence in mistakes.items() if close(value)]
    return (
        named[0]
        if named
        else "Not yet: write tanh(w) by e^2w, then solve slope * tanh(w) = 1."
    )


def factors(answer: Callable | None) -> str:
    """Exercise 4.3: a function of x that returns the left and the right factor of
    LayerNorm, gain 1, bias 0, eps 0.
    """
    if answer is None:
        return NOT_TRIED
    x = (
        torch.randn(
            5, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64
        )
        + 1
    )
    left, right = answer(x)
    if tuple(left.shape) != (5, 5) or tuple(right.shape) != (3, 3):
        return f"The factors must be 5 x 5 and 3 x 3 for five tokens of width 3, yours are {tuple(left.shape)}, {tuple(right.shape)}."
    centred = x - x.mean(1, keepdim=True)

    def deviation(y, by):
        return (y.square().sum(1, keepdim=True) / by).sqrt()

    mistakes = {
        "You divide by the variance: take its root.": centred
        / deviation(centred, 3) ** 2,
        "You divide the sum of squares by d - 1: LayerNorm divides by d.": centred
        / deviation(centred, 2),
        "You divide by the length of the token: take the mean of the squares, not their sum.": centred
        / deviation(centred, 1),
        "The tokens are not centred: C = I - 1 1'/d is missing on the right.": x
        / deviation(centred, 3),
        "You multiply by the deviations: the left factor is their inverse.": centred
        * deviation(centred, 3),
    }
    said = _compare(left @ x @ right, centred / deviation(centred, 3), mistakes)
    if said != RIGHT:
        return said
    wanted = (
        torch.diag(1 / deviation(centred, 3)[:, 0]),
        torch.eye(3, dtype=x.dtype) - 1 / 3,
    )
    if not all(
        torch.allclose(mine, theirs, atol=1e-9)
        for mine, theirs in zip((left, right), wanted)
    ):
        return "Their product is right, but the factors are not: on the left a diagonal matrix, on the right C = I - 1 1'/d."
    return RIGHT


def depth(answer: int | None) -> str:
    """Exercise 4.4: layers of uniform causal attention until tokens 1 and 2 are closer
    than 10^-6.
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        19: "2^-19 is about 1.9 in a million, which is not yet below.",
        6: "That is one decade a layer; the distance only halves.",
        13: "That is for 3^-L, the next term: tokens 1 and 2 have the factor 1/2.",
        3: "That is the cube of pure attention: a causal mask stops it.",
        21: "One layer too many: 2^-20 is already below.",
    }
    return (
        RIGHT
        if answer == 20
        else mistakes.get(
            answer, "Not yet: token 2 takes half of itself and half of token 1."
        )
    )
