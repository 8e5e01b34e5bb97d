"""Exercises of the page on exact memorization. Every function takes an answer and
returns a sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT

NUMBER = "One number was wanted."
FUNCTION = "A function was wanted: give its name, without a call."


def coefficients(answer: object) -> str:
    """Exercise 16.1: a function (ids, labels, start) that returns the coefficients of
    the network with knots on the ids before.
    """
    if answer is None:
        return NOT_TRIED
    if not callable(answer):
        return FUNCTION
    said = (
        _coefficients(answer, *case)
        for case in (
            ([1.0, 2, 4], [3.0, 1, 5], 0.0),
            ([0.5, 3, 4, 8], [-2.0, 1, 1, 7], -1.0),
        )
    )
    return next((sentence for sentence in said if sentence != RIGHT), RIGHT)


def _coefficients(answer: Callable, ids: list, labels: list, start: float) -> str:
    t, y = (torch.tensor(v, dtype=torch.float64) for v in (ids, labels))
    got = _tensor(answer(t.clone(), y.clone(), start))
    if got is None:
        return "Your function returned no tensor: one coefficient an id was wanted."
    if got.shape != t.shape:
        return f"One coefficient an id was wanted, shape {tuple(t.shape)}; yours is {tuple(got.shape)}."
    s = torch.diff(y, prepend=y.new_zeros(1)) / torch.diff(
        t, prepend=t.new_tensor([start])
    )

    def close(v):
        return bool(torch.allclose(got, v, atol=1e-6))

    if close(torch.diff(s, prepend=s.new_zeros(1))):
        return RIGHT
    if close(s):
        return "Those are the slopes: a coefficient is what the slope changes by at its knot."
    if close(-torch.diff(s, prepend=s.new_zeros(1))):
        return "The sign is turned: the slope after a knot is the slope before plus the coefficient."
    if close(y / torch.diff(t, prepend=t.new_tensor([start]))):
        return "You used the labels themselves: a slope is the difference of two labels over the difference of their ids."
    return "Not yet: find the slopes between neighbours, beginning at (start, 0), and then their differences."


def growth(answer: object) -> str:
    """Exercise 16.2: with theta = 0.4, after how many further knots has an error of
    1e-16 in a slope grown to 1?
    """
    if answer is None:
        return NOT_TRIED
    if not isinstance(answer, Real):
        return NUMBER
    mistakes = {
        90: "Round up: after 90 knots it is still 0.71.",
        16: "You multiplied by ten at each knot; the factor is (1 - theta) / theta.",
        41: "You took the factor 1 / theta; it is (1 - theta) / theta.",
        73: "You took the factor 1 / (1 - theta); it is (1 - theta) / theta.",
    }
    return (
        RIGHT
        if answer == 91
        else mistakes.get(
            answer, "Not yet: 1e-16 times ((1 - theta) / theta)^k >= 1 was asked for."
        )
    )


def parameters(answer: object) -> str:
    """Exercise 16.3: parameters without biases of the dense block for N = 100, n = 10,
    d = 8, s = 1.
    """
    if answer is None:
        return NOT_TRIED
    if not isinstance(answer, Real):
        return NUMBER
    mistakes = {
        8100: "You counted the weights into the units or those out of them, not both.",
        16064: "You left out the attention: four matrices of s + d numbers each.",
        16036: "You left out the d x d matrix that takes the skip away.",
        17108: "You counted the biases; the formula leaves them out.",
        1700: "A unit stands for a token in its sequence, so there are n N of them, not N.",
    }
    return (
        RIGHT
        if answer == 16100
        else mistakes.get(answer, "Not yet: 4 (s + d) + d (2 n N + d).")
    )


def contradictions(answer: object) -> str:
    """Exercise 16.4: a function (words, tags) that says whether one layer without
    positions can memorize the sentences.
    """
    if answer is None:
        return NOT_TRIED
    if not callable(answer):
        return FUNCTION
    for words, tags, wanted, sentence in CASES:
        got = answer([list(w) for w in words], [list(t) for t in tags])
        if got is None:
            return "Your function returned nothing: True or False was wanted."
        if bool(got) != wanted:
            return sentence
    return RIGHT


CASES = (
    (
        ["ab", "cd"],
        ["xy", "yx"],
        True,
        "Nothing contradicts here: different words in different sentences.",
    ),
    (
        ["ab", "ac"],
        ["xy", "yy"],
        True,
        "The word a has two tags, but in different company; that is what context is for.",
    ),
    (
        ["ab", "ba"],
        ["xy", "xy"],
        False,
        "The same words in another order: without positions a gets one tag, and x and y were asked for.",
    ),
    (
        ["ab", "ba"],
        ["xy", "yx"],
        True,
        "The order differs, but each word keeps its tag: that can be memorized.",
    ),
    (
        ["aab", "abb"],
        ["xxy", "yxx"],
        True,
        "Repeated words count: a a b and a b b are different multisets.",
    ),
    (
        ["ab", "aabb"],
        ["xy", "yyxx"],
        False,
        "a b and a a b b hold the same shares of each word, and a softmax sees only shares.",
    ),
    (
        ["abbc", "abcc"],
        ["xppp", "yqqq"],
        True,
        "In a b b c and a b c c the word a has the same share, but its company differs.",
    ),
    (["aa"], ["xy"], False, "A word twice in one sentence gets the same output twice."),
)


def _tensor(got) -> torch.Tensor | None:
    """What a function returned, in double precision; None if it is nothing of that
    kind.
    """
    try:
        return torch.as_tensor(got).double()
    except (TypeError, ValueError, RuntimeError):
        return None
