"""Exercises of the page on Boltzmann averages and hardmax. Every function takes an
answer and returns a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT, _compare


def slope(answer: Callable | None) -> str:
    """Exercise 14.1: a function (a, i) that returns the derivative of boltz in entry
    i.
    """
    if answer is None:
        return NOT_TRIED
    said = [_slope(answer, a, i) for a, i in (([0.3, -1.0, 2.0], 1), ([1.5, -0.5], 0))]
    return next((sentence for sentence in said if sentence != RIGHT), RIGHT)


def _slope(answer: Callable, values: Sequence[float], i: int) -> str:
    a = torch.tensor(values, dtype=torch.float64)
    p = torch.softmax(a, 0)
    mean = (p * a).sum()
    mistakes = {
        "You held the weights fixed: they move too, and add p_i (a_i - boltz).": p[i],
        "The summand 1 is missing: a_i also stands outside the weights.": p[i]
        * (a[i] - mean),
        "The sign is turned: an entry far below the mean has a negative slope.": p[i]
        * (1 - a[i] + mean),
        "The factor p_i is missing.": 1 + a[i] - mean,
    }
    wanted = p[i] * (1 + a[i] - mean)
    got = torch.as_tensor(answer(a.clone(), i)).double()
    known = got.shape != wanted.shape or any(
        torch.allclose(got, v, rtol=1e-9, atol=1e-12)
        for v in (wanted, *mistakes.values())
    )
    return (
        _compare(got, wanted, mistakes)
        if known
        else "Not yet: differentiate a_j p_j, where a_i also stands in each p_j."
    )


def twins(answer: object) -> str:
    """Exercise 14.2: two different sets of five whole numbers that no hardmax layer
    tells apart at their ends.
    """
    if answer is None:
        return NOT_TRIED
    try:
        found = [[Fraction(v) for v in s] for s in answer]
    except (TypeError, ValueError, OverflowError):
        return "Give two tuples of plain numbers; tensors, NaN and infinity are no whole numbers here."
    if len(found) != 2 or any(len(s) != 5 or len(set(s)) != 5 for s in found):
        return "Two sets of five different whole numbers were wanted."
    a, b = map(set, found)
    if any(v.denominator != 1 for v in a | b):
        return "Whole numbers were wanted."
    if a == b:
        return "These are the same set: nothing is to be told apart."
    if (min(a), max(a)) != (min(b), max(b)):
        return "The ends differ: a hardmax that points outwards sees that."
    if sum(a) != sum(b):
        return "The sums differ: a hardmax that ties everywhere sees the mean."
    return RIGHT


def near_miss(answer: object) -> str:
    """Exercise 14.3: rationals (p, q) with cosh(beta*) = p + sqrt(q), where {1, 2, 5,
    6} and {1, 3, 4, 6} have equal averages.
    """
    if answer is None:
        return NOT_TRIED
    try:
        p, q = map(Fraction, answer)
        value = float(p) + math.sqrt(max(q, 0))
    except (TypeError, ValueError, OverflowError):
        return (
            "A pair (p, q) of rational numbers was wanted, such as (3, Fraction(1, 3))."
        )
    if q < 0:
        return "The root of a negative number is not real: q must be at least 0."
    mistakes = {
        (2, 2): "That is y = x + 1/x: it is 2 cosh(beta), so take half.",
        (
            1,
            2,
        ): "You halved the 2, and must halve the root too: half the root of 2 is the root of 2/4.",
        (1, Fraction(1, 4)): "Half the root of 2 is the root of 2/4, not of 1/4.",
        (2, Fraction(1, 2)): "You halved the root, and must halve the 2 too.",
        (
            1,
            0,
        ): "cosh = 1 is beta = 0, the plain mean; there is one more, which is positive.",
    }
    if (p, q) == (1, Fraction(1, 2)):
        return RIGHT
    if abs(value - 1 - math.sqrt(0.5)) < 1e-6:
        return "These are the digits, and no closed form: no pair but one is exact."
    return mistakes.get(
        (p, q), "Not yet: divide the quartic by x^2 and write y = x + 1/x."
    )


def base(answer: int | None) -> str:
    """Exercise 14.4: the smallest positive whole base b for which uniform attention
    over b^k tells all multisets of five apart.
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        6: "That is n + 1, which works. Can a multiset of known size do with less?",
        4: "With b = 4 the multisets {0, 0, 0, 0, 2} and {1, 1, 1, 1, 1} have equal sums.",
        3: "With b = 3 three tokens k and one k + 2 weigh as much as four tokens k + 1; add any fifth token to both.",
        2: "With b = 2 two tokens k and one k + 2 weigh as much as three tokens k + 1; add two tokens to both.",
        1: "With b = 1 all tokens weigh the same.",
    }
    return (
        RIGHT
        if answer == 5
        else mistakes.get(
            answer, "Not yet: look for two multisets of five with one sum."
        )
    )
