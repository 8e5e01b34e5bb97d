"""Exercises of the two pages on the universality proof. Every function takes an answer
and returns a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT, _compare


def sweep(answer: int | None) -> str:
    """Exercise 12.1: y_3 for n = 3, d = 1, K = 4, dense attention and the ids 9, 2,
    5.
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        30: "That is y_2: go on to token 3.",
        100: "You forgot to add x_3: the skip keeps the old id.",
        21: "Token 3 reads the moved id of token 2, not x_1: its maximum is y_2.",
        120: "N times y_2 alone: subtract (N - 1) x_3.",
    }
    return (
        RIGHT
        if answer == 105
        else mistakes.get(
            answer, "Not yet: y_2 = x_2 + 4 (x_1 - x_2), then the same with y_2."
        )
    )


def read(answer: Callable | None) -> str:
    """Exercise 12.2: a function (y, N, lows) that returns the ids x_1, .., x_n behind
    y_n.
    """
    if answer is None:
        return NOT_TRIED
    for lows, x, n_ids in (
        ([8, 0, 4], [9, 2, 5], 4),
        ([18, 0, 6, 12], [20, 1, 8, 12], 3),
        ([30, 0], [31, 4], 5),
        ([12, 0, 6], [14, 1, 7], 4),
    ):
        y = x[0]
        for one in x[1:]:
            y = n_ids * y - (n_ids - 1) * one
        got = answer(y, n_ids, list(lows))
        if not isinstance(got, list) or len(got) != len(x):
            return f"A list of {len(x)} integers was wanted, yours is {got!r}."
        if got == x[::-1]:
            return "That is the list backwards: x_1 belongs to the front."
        if got[-1] == lows[-1] + y % n_ids != x[-1]:
            return "y mod N is the residue of x_n; above low lie (y - low) mod N more."
        if got[-1] != x[-1] and got[-1] % n_ids == x[-1] % n_ids:
            return "The residue of x_n is right, its interval is not: x_n lies in [low, low + N)."
        if got[-1] == x[-1] and got != x:
            return "x_n is right: then go down by y_(n-1) = x_n + (y_n - x_n) / N."
        if got != x:
            return "Not yet: y_n and x_n have the same residue modulo N, and x_n lies in [low, low + N)."
    return RIGHT


def layers(answer: int | None) -> str:
    """Exercise 12.3: all layers of the network for p = 2, s = 3, n = 5, d = 1, K =
    4.
    """
    if answer is None:
        return NOT_TRIED
    quantise, attention, value = 20, 35, 5120
    mistakes = {
        attention: "Those are the attention layers alone.",
        value: "Those are the value layers alone.",
        quantise
        + attention: "The value layers are missing, and they are by far the most.",
        attention + value: "The quantiser is missing: d n K layers.",
        quantise + value: "The attention layers are missing.",
        quantise
        + 19
        + value: "A pattern of two steps spends two layers on each value: p (n - 1) K^d.",
        quantise + 32 + value: "The s all-max layers are missing.",
        quantise
        + attention
        + 1024: "A value layer serves one token of one input: there are n K^(n d).",
        quantise
        + 43
        + value: "The first token of the path is not moved: n - 1 tokens are.",
    }
    return (
        RIGHT
        if answer == 5175
        else mistakes.get(answer, "Not yet: d n K + p (n - 1) K^d + s + n K^(n d).")
    )


def scale(answer: float | None) -> str:
    """Exercise 17.1: the inverse temperature at which 17 scores with a lead of 1/2 leak
    at most 1e-6.
    """
    if answer is None:
        return NOT_TRIED
    right = 2 * math.log(16e6)
    mistakes = {
        right / 2: "Divide by the gap: the exponent is lambda times 1/2.",
        right / 4: "You multiplied by the gap: divide by it.",
        2 * math.log(17e6): "There are n - 1 others, the winner is not one of them.",
        2 * math.log(1e6): "The n - 1 others leak together: their number is missing.",
        2 * math.log10(16e6): "The logarithm is the natural one.",
    }
    if abs(answer - right) < 6e-3:
        return RIGHT
    named = [
        sentence for value, sentence in mistakes.items() if abs(answer - value) < 6e-3
    ]
    return (
        named[0]
        if named
        else "Not yet: solve (n - 1) exp(-lambda / 2) = 1e-6 for lambda."
    )


def bump(answer: Callable | None) -> str:
    """Exercise 17.2: a function (x, ident, ramp) that is 1 near ident and 0 away from
    it, by four ReLUs.
    """
    if answer is None:
        return NOT_TRIED
    for ident, ramp in ((5, 0.25), (0, 0.1), (12, 0.5)):
        x = ident + torch.linspace(-2, 2, 161, dtype=torch.float64)
        t = x - ident

        def rise(start):
            return ((t - start) / ramp).clamp(0, 1)

        wanted = rise(-0.5 - ramp) - rise(0.5 - ramp)
        mistakes = {
            "Divide by the ramp: the slope is 1 / ramp.": wanted * ramp,
            "The ramps lie the other way round: up before id - 1/2, down before id + 1/2.": rise(
                -0.5
            )
            - rise(0.5),
            "It never comes down: two more ReLUs take it back to 0.": rise(-0.5 - ramp),
            "That jumps: ReLUs give ramps.": ((t >= -0.5) & (t < 0.5)).double(),
        }
        said = _compare(answer(x, ident, ramp), wanted, mistakes)
        if said != RIGHT:
            return said
    return RIGHT


def share(answer: float | None) -> str:
    """Exercise 17.3: the share of the cube with an entry on a ramp of 0.01, for 4
    tokens of 2 features.
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        0.08: "That is the upper bound d n e: entries may meet ramps together.",
        0.99**8: "That is the share without an entry on a ramp.",
        1 - 0.99**4: "Each token has two entries.",
        0.01: "That is the share for one entry.",
        1 - 0.98**8: "A cell of the quantiser has one ramp, at its upper end.",
    }
    if abs(answer - (1 - 0.99**8)) < 6e-5:
        return RIGHT
    named = [
        sentence for value, sentence in mistakes.items() if abs(answer - value) < 6e-5
    ]
    return (
        named[0]
        if named
        else "Not yet: one entry is safe with chance 0.99, and there are eight, independent ones."
    )


def hidden(answer: Callable | None) -> str:
    """Exercise 17.4: the largest hidden unit at a token whose own layer comes later,
    for value layers in the order of a list.
    """
    if answer is None:
        return NOT_TRIED
    for ids in ([5, 9, 2], [40, 11, 30, 7], [5, 7, 9], [7, 3, 9, 11], [9, 5, 2]):
        gaps = [
            (j - i, k < m)
            for k, i in enumerate(ids)
            for m, j in enumerate(ids)
            if k != m
        ]
        right = max([0, *(g + 0.75 for g, waits in gaps if waits)])
        mistakes = {
            "Tokens that are done have left: only those later in the list still wait.": max(
                g for g, _ in gaps
            )
            + 0.75,
            "The first knot lies 3/4 below the id.": max(0, right - 0.75)
            if right
            else None,
            "A hidden unit is a ReLU: it is not negative.": max(
                g + 0.75 for g, waits in gaps if waits
            ),
        }
        got = answer(list(ids))
        if got != right:
            named = [
                sentence
                for sentence, value in mistakes.items()
                if value is not None and got == value
            ]
            return (
                named[0]
                if named
                else f"Not yet: for {ids} it is {right}, the largest R(later id - id + 3/4)"
            )
    return RIGHT
