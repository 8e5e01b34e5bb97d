"""Exercises of the page that reads one matrix in five ways. Every function takes an
answer and returns a sentence.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT, _compare


def rank(answer: float | int | None) -> str:
    """Exercise 19.1: the proved distance, in row sums, of rank n - 1 from a matrix with
    0.8 in each row and column.
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        0.8: "That is the entry itself: the rest of the row, 0.2, may work against it.",
        0.2: "That is the rest of the row: it is taken from the large entry.",
        1.6: "That is twice the entry; one is still to be taken off.",
        0.0: "Rank n - 1 is less than n, so B has a kernel: look at P on a vector of it.",
    }

    def close(v):
        return abs(answer - v) < 1e-9

    named = [sentence for value, sentence in mistakes.items() if close(value)]
    return (
        RIGHT
        if close(0.6)
        else named[0]
        if named
        else "Not yet: large entry minus the rest of the row."
    )


def layers(answer: int | None) -> str:
    """Exercise 19.2: after how many layers is the diameter below a thousandth for sure,
    for logits in [-1, 1]?
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        25: "Close: tanh(1)^25 is still above a thousandth. Round up.",
        7: "You took a factor 1/e a layer; it is tanh(1), about 0.76.",
        189: "You took the length of the interval for the radius: the radius of [-1, 1] is 1.",
        9: "You took tanh(1/2): the radius of [-1, 1] is 1.",
    }
    return (
        RIGHT
        if answer == 26
        else mistakes.get(answer, "Not yet: solve tanh(1)^L <= 1/1000.")
    )


def hops(answer: int | None) -> str:
    """Exercise 19.3: the fewest layers of a contextual mapping with a window of five
    tokens on 64 tokens.
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        3: "That is log_5 64, rounded up: the windows of neighbours overlap, so they reach much less.",
        16: "You moved by four tokens a layer: a window of five reaches two on each side.",
        13: "You moved by five tokens a layer: a window of five reaches two on each side.",
        31: "Token 0 must hear of token 63, which is 63 places away. Round up.",
        64: "A layer moves news by two places, not by one.",
        63: "A layer moves news by two places, not by one.",
        1: "One layer is enough only if every token reads all.",
    }
    return (
        RIGHT
        if answer == 32
        else mistakes.get(
            answer, "Not yet: the two ends are 63 apart; how far does a layer reach?"
        )
    )


def coefficient(answer: Callable | None) -> str:
    """Exercise 19.4: a function (p) that returns the coefficient of Dobrushin of a
    row-stochastic matrix.
    """
    if answer is None:
        return NOT_TRIED
    g = torch.Generator().manual_seed(19)
    even, left, middle, right = (
        [0.2] * 5,
        [0.6, 0.3, 0.1, 0, 0],
        [0, 0.2, 0.3, 0.2, 0.3],
        [0, 0, 0.1, 0.3, 0.6],
    )
    spread = torch.tensor(
        [even, left, middle, right, even], dtype=torch.float64
    )  # rows 1 and 3 are furthest apart
    said = ""
    for p in (
        *(
            torch.softmax(2 * torch.randn(n, n, generator=g, dtype=torch.float64), -1)
            for n in (3, 6)
        ),
        spread,
    ):
        gaps, columns = (
            (p[:, None] - p[None]).abs(),
            (p.T[:, None] - p.T[None]).abs().sum(-1) / 2,
        )
        tv = gaps.sum(-1) / 2
        mistakes = {
            "You left out the factor 1/2: two rows of probabilities are at most 2 apart.": 2
            * tv.max(),
            "That is the largest difference of two entries: add up the differences of two rows.": gaps.max(),
            "That is one minus the answer: the overlap of two rows.": 1 - tv.max(),
            "You compared columns: the rows of P are the probabilities.": columns.max(),
            "That is the mean over pairs: the coefficient is the largest.": tv.mean(),
            "You compared all rows with row 0 only: every pair counts.": tv[0].max(),
            "You compared neighbouring rows only: every pair counts.": tv.diagonal(
                1
            ).max(),
        }
        got = answer(p.clone())
        if isinstance(got, (int, float)) or torch.is_tensor(got) and got.numel() == 1:
            got = torch.as_tensor(got, dtype=torch.float64).reshape(1)
        said = _compare(
            got, tv.max().reshape(1), {k: v.reshape(1) for k, v in mistakes.items()}
        )
        if said != RIGHT:
            return said
    return said
