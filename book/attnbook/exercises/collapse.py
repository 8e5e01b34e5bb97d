"""Exercises of the page on rank collapse."""

from __future__ import annotations

import math

import torch

from attnbook.exercises import Case, exercise


@exercise("Not yet: write down both norms for L = 0, 1, 2, and divide.")
def relative(answer):
    """Exercise 2.1: the limits of the relative residual of 3^-L (1, -1)', of the tokens
    (+-3^-L, 1), and of the tokens (+-1, 2^L).
    """
    mistakes = {
        "That is where the residuals tend: divide by the size of X.": [
            0,
            0,
            math.sqrt(2),
        ],
        "The first is not lost: everything shrinks alike, and its mean is zero.": [
            0,
            0,
            0,
        ],
        "In the third the distance stays, but look at what it is a share of.": [
            1,
            0,
            1,
        ],
    }
    yield Case(answer, [1.0, 0.0, 0.0], mistakes)


@exercise("Not yet: write z = c u^2; what does one layer make of z?")
def layers(answer):
    """Exercise 2.2: after how many layers does u -> c u^3 with c u^2 = 1/10 at the
    start have c u^2 <= 10^-100?
    """
    mistakes = {
        "You took one digit a layer, and a layer does more than that.": 100,
        "You took one digit a layer after the first, and a layer does more.": 99,
        "You doubled the digits in every layer; c u^2 becomes its own cube.": 7,
        "Nearly: after four layers the exponent is 81, which is not yet 100.": 4,
    }
    yield Case(answer, 5, mistakes)


@exercise(
    "Not yet: q = v tanh(omega delta^2 / 4) is the only number that you need.",
    function_of="delta",
)
def factors(answer):
    """Exercise 2.3: a function of the diameter that returns what a head with v = 0.8
    and omega = 4 makes of it at most, and between what a layer with skip keeps it.
    """
    for delta in (0.3, 1.7):
        q = 0.8 * math.tanh(delta**2)
        without_square = 0.8 * math.tanh(delta)
        without_quarter = 0.8 * math.tanh(4 * delta**2)
        mistakes = {
            "The least of the two comes first.": [q, 1 + q, 1 - q],
            "Those are diameters: a factor was asked.": [
                q * delta,
                (1 - q) * delta,
                (1 + q) * delta,
            ],
            "The skip adds the token itself: both factors are near one for small q.": [
                q,
                -q,
                q,
            ],
            "Square the diameter: logits are quadratic in distances.": [
                without_square,
                1 - without_square,
                1 + without_square,
            ],
            "The quarter in (2.5) is missing.": [
                without_quarter,
                1 - without_quarter,
                1 + without_quarter,
            ],
        }
        yield Case(answer(delta), [q, 1 - q, 1 + q], mistakes)


@exercise("Not yet: for which delta is v tanh(omega delta^2 / 4) equal to one?")
def threshold(answer):
    """Exercise 2.4: up to which diameter one head with v = 2 and omega = 1/2 in every
    layer must collapse.
    """
    square = 4 * math.atanh(0.5) / 0.5
    mistakes = {
        "That is the square of the diameter: take the root.": square,
        "You took z for tanh z, which promises less than the theorem.": 2.0,
        "The 4 under delta^2 is missing.": math.sqrt(math.atanh(0.5) / 0.5),
        "You divided by v as well: artanh(1/v) has it already.": math.sqrt(
            4 * math.atanh(0.5) / (2 * 0.5)
        ),
    }
    yield Case(answer, math.sqrt(square), mistakes)


@exercise(
    "Not yet: try two tokens of one feature, where C_s is the variance under s.",
    function_of="r, s, w_qk, w",
)
def leading(answer):
    """Exercise 2.5: a function that returns R W_QK C_s W, the leading term without
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
