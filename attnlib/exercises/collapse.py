"""Exercises of the page on rank collapse. Every function takes an answer and returns a
sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT, _compare


def norm(answer: float | int | None) -> str:
    """Exercise 2.1: the composite norm of the mean-centred residual of the rows (3, 0),
    (1, 2), (2, 4).
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        6.0: "That is the norm of X itself: take the mean of the tokens away first.",
        12.0: "You forgot the square root: the norm is the root of the product.",
        3.5: "That is the arithmetic mean of 4 and 3: the composite norm is the geometric mean.",
        4.0: "That is the largest column sum alone: multiply by the largest row sum and take the root.",
        3.0: "That is the largest row sum alone: multiply by the largest column sum and take the root.",
    }

    def close(v):
        return abs(answer - v) < 5e-3

    if close(math.sqrt(12)):
        return RIGHT
    named = [sentence for value, sentence in mistakes.items() if close(value)]
    return (
        named[0]
        if named
        else "Not yet: subtract (2, 2), then take the largest column sum and the largest row sum."
    )


def layers(answer: int | None) -> str:
    """Exercise 2.2: after how many layers does u -> c u^3 with c u^2 = 1/10 at the
    start have c u^2 <= 10^-100?
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        100: "You took one decade a layer; the number of decades triples in every layer.",
        99: "You took one decade a layer; the number of decades triples in every layer.",
        7: "You doubled the decades in every layer; c u^2 becomes its own cube.",
        4: "Four layers give 3^4 = 81 decades, which is not yet 100.",
    }
    return (
        RIGHT
        if answer == 5
        else mistakes.get(answer, "Not yet: write q = c u^2; a layer sends q to q^3.")
    )


def leading(answer: Callable | None) -> str:
    """Exercise 2.3: a function (r, s, w_qk, w) that returns R W_QK C_s W, the leading
    term without 1/sqrt(d_qk).
    """
    if answer is None:
        return NOT_TRIED
    g = torch.Generator().manual_seed(3)
    r, w_qk, w = (torch.randn(3, 3, generator=g, dtype=torch.float64) for _ in range(3))
    r, s = r - r.mean(0), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    second, mean = r.T @ (s[:, None] * r), r.T @ s
    c = second - torch.outer(mean, mean)
    mistakes = {
        "You took the second moment R' diag(s) R: subtract the square of the mean R's, or equal tokens would count.": r
        @ w_qk
        @ second
        @ w,
        "W_QK is transposed: row i of the logits is R_i W_QK R'.": r @ w_qk.T @ c @ w,
        "You used weights 1/n instead of s: the reference attention is not uniform.": r
        @ w_qk
        @ (r.T @ r / 3)
        @ w,
        "The value weights W are missing.": r @ w_qk @ c,
    }
    return _compare(answer(r, s, w_qk, w), r @ w_qk @ c @ w, mistakes)
