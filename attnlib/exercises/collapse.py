"""Exercises of the page on rank collapse."""

from __future__ import annotations

import math

import torch

from attnlib.exercises import Case, exercise


@exercise("Not yet: take the mean of the three tokens away, then sum sizes both ways.")
def norm(answer):
    """Exercise 2.1: the composite norm of the mean-centred residual of the rows (3, 0),
    (1, 2), (2, 4).
    """
    mistakes = {
        "That is the norm of X itself: take the mean of the tokens away first.": 6.0,
        "You forgot the square root: the norm of 2 X is twice the norm of X.": 12.0,
        "That is the arithmetic mean of both norms: another mean was asked.": 3.5,
        "That is the largest column sum alone: the rows count as well.": 4.0,
        "That is the largest row sum alone: the columns count as well.": 3.0,
    }
    yield Case(answer, math.sqrt(12), mistakes)


@exercise("Not yet: write q = c u^2; what does one layer make of q?")
def layers(answer):
    """Exercise 2.2: after how many layers does u -> c u^3 with c u^2 = 1/10 at the
    start have c u^2 <= 10^-100?
    """
    mistakes = {
        "You took one decade a layer, and a layer does more than that.": 100,
        "You took one decade a layer after the first, and a layer does more.": 99,
        "You doubled the decades in every layer; c u^2 becomes its own cube.": 7,
        "Nearly: after four layers it is 81 decades, which is not yet 100.": 4,
    }
    yield Case(answer, 5, mistakes)


@exercise(
    "Not yet: try two tokens of one feature, where C_s is the variance under s.",
    function_of="r, s, w_qk, w",
)
def leading(answer):
    """Exercise 2.3: a function that returns R W_QK C_s W, the leading term without
    1/sqrt(d_qk).
    """
    g = torch.Generator().manual_seed(3)
    r, w_qk, w = torch.randn(3, 3, 3, generator=g, dtype=torch.float64)
    r = r - r.mean(0)
    s = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    mean = r.T @ s
    second = r.T @ (s[:, None] * r)
    c = second - torch.outer(mean, mean)
    uniform = r.T @ r / 3
    mistakes = {
        "You took the second moment: take the mean under s away, or equal tokens "
        "would count.": r @ w_qk @ second @ w,
        "W_QK is transposed: row i of the logits is R_i W_QK R'.": r @ w_qk.T @ c @ w,
        "You used weights 1/n instead of s: the reference attention is not uniform.": r
        @ w_qk
        @ uniform
        @ w,
        "The value weights W are missing.": r @ w_qk @ c,
    }
    yield Case(answer(r, s, w_qk, w), r @ w_qk @ c @ w, mistakes)
