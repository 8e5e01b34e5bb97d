"""Exercises of the page on contextual mapping. Every function takes an answer and
returns a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT


def factor(answer: float | None) -> str:
    """Exercise 15.1: the least beta of the theorem for tokens 1, 3/2, 3 and sets of
    two.
    """
    if answer is None:
        return NOT_TRIED
    need = 2 * math.log(2) + 3

    def close(v):
        return abs(answer - v) < 2e-2

    if close(need / 0.5):
        return RIGHT
    mistakes = {
        need: "Divide by g: the nearest two tokens are 1/2 apart.",
        need
        / 1.5: "c is the smallest size and g the smallest distance: you took others.",
        (3 * math.log(2) + 3)
        / 0.5: "That is the constant for multisets: these sets repeat no token.",
        (2 * math.log(3) + 3)
        / 0.5: "n is the number of tokens in a set, not in the vocabulary: n = 2.",
        2 * need / 0.5: "Twice too much: g = 1/2 and c = 1.",
    }
    named = [sentence for value, sentence in mistakes.items() if close(value)]
    return (
        named[0]
        if named
        else "Not yet: beta = (2 ln n + 3) / (g c) with n = 2, g = 1/2, c = 1."
    )


def passes(answer: Callable | None) -> str:
    """Exercise 15.2: does v pass the test of the projection on a vocabulary?"""
    if answer is None:
        return NOT_TRIED

    def t(*rows):
        return torch.tensor(rows, dtype=torch.float64)

    level, low = math.sqrt(8 / (2 * math.pi)) / 9, math.sqrt(8 / (5 * math.pi)) / 16
    v, wide = t(1.0, 0.0), t(0.0, 0.6, 0.8, 0.0, 0.0)

    def three(share):
        return torch.stack(
            [
                wide,
                wide * (1 + 8 * share * low) + 8 * torch.eye(5).double()[0],
                -20 * wide,
            ]
        )

    flat = [
        (
            t((1.0, 0.0), (2.0, 0.0)),
            True,
            "Tokens along v pass: |v.(x - y)| = |x - y|.",
        ),
        (t((1.0, 0.0), (1.0, 3.0)), False, "Two tokens with the same v.x cannot pass."),
        (
            t((0.001, 1.0), (3.0, 0.0)),
            False,
            "Compare with zero too: a token almost orthogonal to v must fail.",
        ),
        (
            t((-0.5, 1.0), (0.5, -1.0)),
            True,
            "Take absolute values: v.x may be negative.",
        ),
        (t((0.01, 0.0), (0.02, 0.0)), True, "The test is relative: divide by |x - y|."),
        (
            t((10.0, 0.0), (10.5, 9.0)),
            False,
            "The test is relative: a gap of 1/2 is too little for tokens at distance 9.",
        ),
        (
            t((1.0, 0.0), (1 + 9 * level, 8.0)),
            True,
            "The level is sqrt(8 / (pi d)) / (K + 1)^2: yours is too high.",
        ),
        (
            t((1.0, 0.0), (1 + 7 * level, 8.0)),
            False,
            "The level is sqrt(8 / (pi d)) / (K + 1)^2: yours is too low.",
        ),
    ]
    cases = [(v, *case) for case in flat] + [
        (
            wide,
            torch.outer(t(1.0, 2.0, 3.0), wide),
            True,
            "Project on v, whatever v is: here it is no axis.",
        ),
        (
            wide,
            three(1.05),
            True,
            "Right for K = d = 2, too high for K = 3 and d = 5: d is the width, K the number of tokens.",
        ),
        (
            wide,
            three(0.95),
            False,
            "Right for K = d = 2, too low for K = 3 and d = 5: d is the width, K the number of tokens.",
        ),
    ]
    for direction, vocabulary, truth, sentence in cases:
        if bool(answer(direction, vocabulary)) != truth:
            return sentence
    return RIGHT


def context(answer: Callable | None) -> str:
    """Exercise 15.3: the context id of a token in a set, in one dimension."""
    if answer is None:
        return NOT_TRIED
    for z, c, beta in (([1.0, 2.0, 5.0], 1, 0.4), ([-1.5, 0.5, 2.0, 3.0], 0, 0.7)):
        z = torch.tensor(z, dtype=torch.float64)

        def average(logits):
            return float(torch.softmax(logits, 0) @ z)

        got, right = float(answer(z, c, beta)), average(beta * z[c] * z)
        if abs(got - right) < 1e-9:
            continue
        mistakes = {
            average(beta * z): "The query is missing: the logits are beta z_c z_j.",
            average(z[c] * z): "The factor beta is missing.",
            average(-beta * z[c] * z): "The sign of the logits is wrong.",
            beta
            * float(z[c])
            * right: "That is the Boltzmann operator of the logits: divide by beta z_c.",
            float(z[c]) + right: "You added the token: that is h, the id is f alone.",
            float(z.mean()): "That is the plain mean, beta = 0.",
            float(z.max()): "That is the maximum, hardmax.",
        }
        named = [
            sentence for value, sentence in mistakes.items() if abs(got - value) < 1e-9
        ]
        return (
            named[0]
            if named
            else "Not yet: average z with weights softmax(beta z_c z)."
        )
    return RIGHT


def collision(answer: tuple | None) -> str:
    """Exercise 15.4: two sets of three tokens of 1, 2, 3, 4, 5, 6, 7 that hold 4 and
    that mean pooling confuses.
    """
    if answer is None:
        return NOT_TRIED
    first, second = (sorted(s) for s in answer)
    for s in (first, second):
        if len(s) != 3 or len(set(s)) != 3 or not set(s) <= set(range(1, 8)):
            return "Each set has three different tokens, from 1 to 7."
        if 4 not in s:
            return "Both sets must hold the token 4: only then is one query in both."
    if first == second:
        return "The two sets are the same: then every id agrees, and rightly."
    if sum(first) != sum(second):
        return f"Mean pooling tells them apart: their means are {Fraction(sum(first), 3)} and {Fraction(sum(second), 3)}."
    return RIGHT
