"""Exercises of the page on path efficacy. Every function takes an answer and returns a
sentence.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT, _compare


def largest(answer: int | None) -> str:
    """Exercise 5.1: which length has the most paths in a network of 24 layers with 16
    heads and skips?
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        24: "Full length is the largest class only if H >= L, and 16 < 24.",
        22: "That is the mean 24 * 16 / 17 without its fraction; the largest class stands above the mean here.",
        12: "That is the middle of binom(24, k): a path also chooses among 16 heads in every layer that it passes.",
    }
    return (
        RIGHT
        if answer == 23
        else mistakes.get(
            answer,
            "Not yet: where does N_k / N_(k-1) = H (L - k + 1) / k fall below 1?",
        )
    )


def first_order(answer: Callable | None) -> str:
    """Exercise 5.2: a function (x, attention, weights) that returns the paths of
    lengths 0 and 1, added up.
    """
    if answer is None:
        return NOT_TRIED
    g = torch.Generator().manual_seed(5)

    def draw(*size):
        return torch.randn(*size, generator=g, dtype=torch.float64)

    x, p, w = draw(5, 4), torch.softmax(draw(3, 2, 5, 5), -1), draw(3, 2, 4, 4)

    def heads(y, l):
        return sum(p[l, h] @ y @ w[l, h] for h in (0, 1))

    both = x + heads(x, 0) + heads(x, 1) + heads(x, 2)
    first = x + heads(x, 0)
    second = first + heads(first, 1)
    mistakes = {
        "The path of length 0 is missing: it is X itself.": both - x,
        "That is the whole network: later layers must read X, not what the layers before them wrote.": second
        + heads(second, 2),
        "You let only one layer speak: sum over the layers as well as over the heads.": first,
        "You let the first and the last layer speak only: there may be more between them.": first
        + heads(x, 2),
        "X is counted once for each layer.": both + 2 * x,
        "The weights W_h are missing.": x + p.sum((0, 1)) @ x,
    }
    try:
        return _compare(answer(x, p, w), both, mistakes)
    except IndexError:
        return "An index is too large: attention[l][h] names the layer first, then the head; here are 3 layers of 2 heads."


def bounds(answer: Callable | None) -> str:
    """Exercise 5.3: a function of a list s_1, ..., s_L that returns the list e_0, ...,
    e_L.
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        "That is binom(L, k) mean^k: a bound, and equal only if all s_l are the same.": (
            1,
            6,
            12,
            8,
        ),
        "That is (sum of s)^k / k!: it also counts paths that pass one layer twice.": (
            1,
            6,
            18,
            36,
        ),
        "You add up in place: the new e_k must use the old e_(k-1).": (1, 6, 25, 90),
        "e_0 = 1 is missing: the empty path.": (6, 11, 6),
        "Those are power sums: the layers of a path are distinct.": (3, 6, 14, 36),
    }
    got = tuple(round(float(v), 9) for v in answer([1, 2, 3]))
    named = {values: sentence for sentence, values in mistakes.items()}
    if got != (1, 6, 11, 6):
        return named.get(
            got, "Not yet: multiply out (1 + s_1 z)(1 + s_2 z)(1 + s_3 z)."
        )
    try:
        again = tuple(round(float(v), 9) for v in answer([2, 0, 5, 1]))
    except (ValueError, IndexError, TypeError, ZeroDivisionError):
        again = None
    other = "Right for [1, 2, 3], but not for [2, 0, 5, 1]: any L and any numbers, with L + 1 entries, also those that are 0."
    return RIGHT if again == (1, 8, 17, 10, 0) else other


def scores(answer: tuple | None) -> str:
    """Exercise 5.4: logits of two lengths, label 0: each alone is wrong, their sum is
    right.
    """
    if answer is None:
        return NOT_TRIED
    first, second = ([float(v) for v in part] for part in answer)
    if len(first) != len(second):
        return "Both lengths need one score for each class."
    if len(first) < 3:
        return (
            "With two classes it cannot be: two negative margins add to a negative one."
        )

    def right(z):
        return all(z[0] > v for v in z[1:])

    if right(first) or right(second):
        return "One of the lengths is right by itself: its largest score must stand at another class."
    if first[0] == max(first) or second[0] == max(second):
        return "One of the lengths has class 0 level with the largest score: make it wrong, another class must score more."
    total = [a + b for a, b in zip(first, second)]
    return (
        RIGHT
        if right(total)
        else "The sum is not right yet: let the two lengths err towards different classes."
    )
