"""Exercises of the page on what attention costs. Every function takes an answer and
returns a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT, _compare


def tie(answer: object) -> str:
    """Exercise 8.1: from which n on does Linformer with k = 128 need no more FLOPs than
    dense attention?
    """
    if answer is None:
        return NOT_TRIED
    if _number(answer) is None:
        return f"A number was wanted, yours is {type(answer).__name__}."
    mistakes = {
        257: "Nearly: at n = 256 both need the same, and the same is no more.",
        128: "You left out the projections E K and F V: they cost as much as the attention itself.",
        512: "You counted the projections twice: E K and F V together cost 4 n k d.",
        64: "The k is on the other side: solve 8 n k d = 4 n^2 d for n.",
    }
    return (
        RIGHT
        if _number(answer) == 256
        else mistakes.get(_number(answer), "Not yet: set 8 n k d equal to 4 n^2 d.")
    )


def stride(answer: object) -> str:
    """Exercise 8.2: the stride l at which our strided kernel is cheapest for n =
    8192.
    """
    if answer is None:
        return NOT_TRIED
    if _number(answer) is None:
        return f"A number was wanted, yours is {type(answer).__name__}."

    def close(value):
        return abs(_number(answer) - value) < 0.6

    if close(64):
        return RIGHT
    if close(math.sqrt(8192)):
        return "That is the root of n: it would be right if the near tile were as wide as the stride; it is twice as wide."
    if close(128):
        return (
            "The 2 is on the wrong side: the derivative of 2 l + n / l is 2 - n / l^2."
        )
    return "Not yet: minimise 2 l + n / l."


def hop(answer: Callable | None) -> str:
    """Exercise 8.3: a function (i, j, l) that names a token k with j -> k -> i in the
    strided pattern.
    """
    if answer is None:
        return NOT_TRIED

    def reads(i, j, l):
        return 0 <= j <= i and (i - j <= l or (i - j) % l == 0)

    for l in (1, 4, 7):
        for i in range(40):
            for j in range(i + 1):
                k = answer(i, j, l)
                if not isinstance(k, int):
                    return f"A token is an integer, yours is {type(k).__name__}."
                if not j <= k <= i:
                    return f"Nobody reads the future: k must lie between j and i, for i = {i}, j = {j}, l = {l} not at {k}."
                if not reads(i, k, l):
                    return f"For i = {i}, j = {j}, l = {l} token i does not read your k = {k}."
                if not reads(k, j, l):
                    return (
                        f"For i = {i}, j = {j}, l = {l} your k = {k} does not read j."
                    )
    return RIGHT


def merge(answer: Callable | None) -> str:
    """Exercise 8.4: a function (a, N) that returns the weights of one query after
    duplicates are corrected.
    """
    if answer is None:
        return NOT_TRIED
    # one key unseen, the largest; then two, not the largest; then none
    for a, N in (
        ([0.3, -1.0, 2.0, 0.5], [3, 1, 0, 2]),
        ([0.3, 2.0, -1.0, 0.5], [1, 3, 0, 0]),
        ([0.3, 2.0, -1.0], [2, 1, 3]),
    ):
        a, N = torch.tensor(a, dtype=torch.float64), torch.tensor(N)
        got = answer(a.clone(), N.clone())
        if torch.is_tensor(got) and got.dtype != a.dtype:
            return f"Keep the dtype of a, float64: yours is {got.dtype}."
        mistakes = {
            "A key that was seen in three rounds counts three times: the correction is missing.": torch.softmax(
                a + N.log(), -1
            ),
            "A key that was never seen has weight zero: mask it.": torch.softmax(a, -1),
            "You corrected twice: after the rounds are added up, every key of the union has weight exp(a).": torch.softmax(
                (a - N.clamp_min(1).log()).masked_fill(N == 0, -math.inf), -1
            ),
            "The weights must sum to one: divide by the sum over the union.": a.exp()
            * (N > 0),
        }
        said = _compare(
            got, torch.softmax(a.masked_fill(N == 0, -math.inf), -1), mistakes
        )
        if said != RIGHT:
            return said
    return RIGHT


def _number(answer: object) -> float | None:
    try:
        return float(answer)
    except (TypeError, ValueError, RuntimeError):
        return None
