"""Exercises of the page on Boltzmann averages and hardmax."""

from __future__ import annotations

import math
from fractions import Fraction

import torch

from attnbook.exercises import CLOSE, Case, exercise, fit, items, members


@exercise(
    "Not yet: use the product rule; a_i stands outside the weights and inside them.",
    function_of="a, i",
)
def slope(answer):
    """Exercise 16.1: a function that returns the first and the second derivative of
    boltz in entry i.
    """
    for values, i in (([0.3, -1.0, 2.0], 1), ([1.5, -0.5], 0)):
        a = torch.tensor(values, dtype=torch.float64)
        weights = torch.softmax(a, 0)
        p = float(weights[i])
        above = float(a[i] - weights @ a)
        given, bend = items(answer(a, i), 2)
        mistakes = {
            "You held the weights fixed: they move with a_i too.": p,
            "You moved the weights only: a_i also stands outside of them.": p * above,
            "The sign is turned: an entry far below the mean has a negative slope.": (
                p * (1 - above)
            ),
            "A factor is missing: an entry of little weight moves the average "
            "little.": 1 + above,
        }
        yield Case(given, p * (1 + above), mistakes)
        yield _bend(bend, p, 1 + above)


def _bend(given, p: float, factor: float) -> Case:
    """The second derivative: p_i times a factor, the product rule once more."""
    right = p * (1 + (1 - 2 * p) * factor)
    mistakes = {
        "The slope is right; in the second derivative p_i moves too.": (
            p * (1 - p * factor)
        ),
        "The slope is right; in the second derivative the bracket moves too.": (
            p * (1 - p) * factor
        ),
        "The slope is right; the second derivative misses the factor p_i.": right / p,
        "The slope is right; in the bracket boltz moves as well as a_i.": (
            p * (1 - p) * factor + p
        ),
    }
    hint = "The slope is right. Differentiate it again: p_i and the bracket both move."
    return Case(given, right, mistakes, hint)


@exercise()
def twins(answer):
    """Exercise 16.2: two different sets of five whole numbers that no hardmax layer
    tells apart at their ends.
    """
    sets = []
    for part in items(answer, 2):
        whole = [int(fit(v, 0)) for v in members(part)]
        if len(whole) != 5 or len(set(whole)) != 5:
            yield "Two sets of five different whole numbers were wanted."
        sets.append(set(whole))
    a, b = sets
    if a == b:
        yield "These are the same set: nothing is to be told apart."
    if (min(a), max(a)) != (min(b), max(b)):
        yield "The ends differ: a hardmax that points outwards sees that."
    if sum(a) != sum(b):
        yield "The sums differ: a hardmax that ties everywhere sees the mean."


@exercise("Not yet: divide the quartic by x^2 and write y = x + 1/x.")
def near_miss(answer):
    """Exercise 16.3: rationals (p, q) with cosh(beta*) = p + sqrt(q), where {1, 2, 5,
    6} and {1, 3, 4, 6} have equal averages.
    """
    right = (Fraction(1), Fraction(1, 2))
    p, q = fit(answer, right)
    if q < 0:
        yield "The root of a negative number is not real: q must be at least 0."
    value = float(p) + math.sqrt(q)
    if (p, q) != right and abs(value - 1 - math.sqrt(0.5)) < CLOSE:
        yield "These are the digits, and no closed form: no pair but one is exact."
    mistakes = {
        "That is y = x + 1/x: it is 2 cosh(beta), so take half.": (2, 2),
        "You halved the 2, and must halve the root too.": (1, 2),
        "Half the root of 2 is not the root of 1/4.": (1, Fraction(1, 4)),
        "You halved the root, and must halve the 2 too.": (2, Fraction(1, 2)),
        "cosh = 1 is beta = 0, the plain mean; there is one more, which is positive.": (
            1,
            0,
        ),
    }
    yield Case((p, q), right, mistakes)


@exercise(
    "Not yet: take the small bases in turn; have two multisets of five one sum there?"
)
def base(answer):
    """Exercise 16.4: the smallest positive whole base b for which uniform attention
    over b^k tells all multisets of five apart.
    """
    mistakes = {
        "That is n + 1, which works. Can a multiset of known size do with less?": 6,
        "Base 7 does tell them apart, and so does every larger one; the smallest "
        "was wanted.": 7,
        "With b = 4 the multisets {0, 0, 0, 0, 2} and {1, 1, 1, 1, 1} have equal "
        "sums.": 4,
        "With b = 3 three tokens k and one k + 2 weigh as much as four tokens k + 1; "
        "add any fifth token to both.": 3,
        "With b = 2 two tokens k and one k + 2 weigh as much as three tokens k + 1; "
        "add two tokens to both.": 2,
        "With b = 1 all tokens weigh the same.": 1,
    }
    yield Case(answer, 5, mistakes)


@exercise("Not yet: add up the chances of all pairs, and ask that the sum be a half.")
def count(answer):
    """Exercise 16.5: for how many sequences of 16 tokens Theorem 16.3 promises gaps of
    2^-24 with probability one half.
    """
    mistakes = {
        "There are N (N - 1) / 2 pairs, not N^2; or did you take M = 1? Numbers that "
        "are uniform on an interval of length 2 have another density.": _most(2.0),
        "You left out n: an average of 16 numbers moves slower than one of them.": (
            _most(1 / 16)
        ),
        "One half is the chance that is left to all pairs; you allowed a whole.": (
            _most(0.5)
        ),
        "No sequence holds a token twice and all differ, so e^sigma is enough.": (
            _most(math.exp(0.5))
        ),
        "That is the number of pairs; of how many sequences?": math.floor(_pairs(1.0)),
    }
    yield Case(answer, _most(1.0), mistakes)


def _pairs(factor: float) -> float:
    """How many pairs may each have `factor` times the chance of (16.2)."""
    one_pair = 16 * 2**-24 * math.exp(0.25) / 0.75
    return 0.5 / (factor * one_pair)


def _most(factor: float) -> int:
    """The largest N with so many pairs at most."""
    return math.floor(0.5 + math.sqrt(0.25 + 2 * _pairs(factor)))
