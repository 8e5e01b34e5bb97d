"""Exercises of the page on Boltzmann averages and hardmax. Every function takes an answer and returns a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT, _compare


def slope(answer: Callable | None) -> str:
    """Exercise 14.1: a function (a, i) that returns the derivative of boltz in entry i.

    Args:    answer: a is a tensor (n,), i an index; or None.
    Returns: a sentence that says what is right or what went wrong.
    Cost:    O(1).
    Page:    notebooks/one_layer_memorization/boltzmann_and_hardmax
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
        "The summand 1 is missing: a_i also stands outside the weights.": p[i] * (a[i] - mean),
        "The sign is turned: an entry far below the mean has a negative slope.": p[i] * (1 - a[i] + mean),
        "The factor p_i is missing.": 1 + a[i] - mean,
    }
    return _compare(torch.as_tensor(answer(a.clone(), i)).double(), p[i] * (1 + a[i] - mean), mistakes)


def twins(answer: Sequence | None) -> str:
    """Exercise 14.2: two different sets of five whole numbers that no hardmax layer tells apart at their ends.

    Args:    answer: a pair of sequences of integers, or None.
    Returns: a sentence that says what is right or what went wrong.
    Cost:    O(1).
    Page:    notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    if answer is None:
        return NOT_TRIED
    if len(answer) != 2 or any(len(s) != 5 or len(set(s)) != 5 for s in answer):
        return "Two sets of five different whole numbers were wanted."
    a, b = map(set, answer)
    if any(Fraction(v).denominator != 1 for v in a | b):
        return "Whole numbers were wanted."
    if a == b:
        return "These are the same set: nothing is to be told apart."
    if (min(a), max(a)) != (min(b), max(b)):
        return "The ends differ: a hardmax that points outwards sees that."
    if sum(a) != sum(b):
        return "The sums differ: a hardmax that ties everywhere sees the mean."
    return RIGHT


def temperature(answer: float | None) -> str:
    """Exercise 14.3: the positive beta at which {1, 2, 5, 6} and {1, 3, 4, 6} have equal softmax averages.

    Args:    answer: a number, or None.
    Returns: a sentence that says what is right or what went wrong.
    Cost:    O(1).
    Page:    notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    if answer is None:
        return NOT_TRIED
    y = 2 + math.sqrt(2)
    mistakes = {
        y: "That is y = x + 1/x: it is 2 cosh(beta).",
        y / 2: "That is cosh(beta): take arcosh of it.",
        math.exp(math.acosh(y / 2)): "That is x = exp(beta): take its logarithm.",
        math.acosh(y): "You forgot the 2: x + 1/x = 2 cosh(beta).",
        0.0: "At beta = 0 both are the mean 3.5; there is one more, which is positive.",
        -math.acosh(y / 2): "That is the negative one: the equation is even in beta.",
    }
    close = lambda v: abs(answer - v) < 1e-6
    if close(math.acosh(y / 2)):
        return RIGHT
    named = [sentence for value, sentence in mistakes.items() if close(value)]
    return named[0] if named else "Not yet, to six digits: divide the quartic by x^2 and write y = x + 1/x."


def base(answer: int | None) -> str:
    """Exercise 14.4: the smallest whole base b for which uniform attention over b^k tells all multisets of five apart.

    Args:    answer: an integer, or None.
    Returns: a sentence that says what is right or what went wrong.
    Cost:    O(1).
    Page:    notebooks/one_layer_memorization/boltzmann_and_hardmax
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
    return RIGHT if answer == 5 else mistakes.get(answer, "Not yet: look for two multisets of five with one sum.")
