"""Exercises of the page on the copying task. Every function takes an answer and returns
a sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT


def count(answer: int | None) -> str:
    """Exercise 13.1: how many of m = 23 symbols reach their query in one layer of
    causal fixed with w = 6.
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        3: "Token 23 counts as well: tokens are counted from 0, so the ends of blocks are 5, 11, 17 and 23.",
        8: "You counted the ends of blocks in both halves: a source lies in the first.",
        0: "That is the block step alone: the union also reads the ends of blocks.",
        6: "That is w. Count the sources 1..23 that end a block of 6.",
        23: "That takes two layers. In one layer only the ends of blocks are read from afar.",
    }
    return (
        RIGHT
        if answer == 4
        else mistakes.get(
            answer, "Not yet: which of the tokens 1..23 are read by later blocks?"
        )
    )


def depth(answer: Callable | None) -> str:
    """Exercise 13.2: a function (m, w) that returns the least number of layers with
    which a causal window of w copies.
    """
    if answer is None:
        return NOT_TRIED
    cases = ((15, 8), (14, 8), (16, 5), (127, 16), (3, 9), (9, 4), (10, 4), (7, 2))
    mistakes = {
        "A window of w moves w - 1 tokens back, since the token itself is one of the w.": lambda m, w: (
            -(-m // w)
        ),
        "Round up: a layer that is not needed whole is still a layer.": lambda m, w: (
            m // (w - 1)
        ),
        "One layer too many when w - 1 divides m: the source stands m tokens back, not m + 1.": lambda m, w: (
            m // (w - 1) + 1
        ),
    }
    got = [answer(m, w) for m, w in cases]
    if got == [-(-m // (w - 1)) for m, w in cases]:
        return RIGHT
    named = [
        sentence
        for sentence, wrong in mistakes.items()
        if got == [wrong(m, w) for m, w in cases]
    ]
    (m, w), said = next(
        (case, g) for case, g in zip(cases, got) if g != -(-case[0] // (case[1] - 1))
    )
    return (
        named[0]
        if named
        else f"Not yet: for m = {m} and w = {w} it takes {-(-m // (w - 1))} layers, yours says {said}."
    )


def field(answer: Callable | None) -> str:
    """Exercise 13.3: a function (masks) that returns the receptive field after all
    layers with skips, (n, n) boolean.
    """
    if answer is None:
        return NOT_TRIED
    g = torch.Generator().manual_seed(3)
    masks = [torch.rand(7, 7, generator=g) < 0.25 for _ in range(3)]
    got = answer([mask.clone() for mask in masks])
    if not torch.is_tensor(got) or got.shape != (7, 7) or got.dtype != torch.bool:
        return "A boolean tensor (n, n) was wanted."
    eye = torch.eye(7, dtype=torch.bool)

    def through(order, skip, transposed=False):
        out = eye
        for mask in order:
            read = mask.mT if transposed else mask
            out = ((read.float() @ out.float()) > 0) | (out if skip else False)
        return out

    if torch.equal(got, through(masks, True)):
        return RIGHT
    mistakes = {
        "The layers are in the wrong order: the last layer reads what the others have gathered.": through(
            masks[::-1], True
        ),
        "The skip is missing: a token keeps what it had, also where it does not read itself.": through(
            masks, False
        ),
        "Rows and columns are exchanged: row k of the field says what reaches token k.": through(
            masks, True, True
        ),
        "That is what one layer reads: put the layers behind one another.": masks[0]
        | masks[1]
        | masks[2]
        | eye,
    }
    named = [
        sentence for sentence, wrong in mistakes.items() if torch.equal(got, wrong)
    ]
    return (
        named[0]
        if named
        else "Not yet, and not a mistake that is known here: try two layers of a window by hand."
    )


def bound(answer: Callable | None) -> str:
    """Exercise 13.4: a function (hit, symbols) that returns the best expected accuracy
    as a Fraction or a float.
    """
    if answer is None:
        return NOT_TRIED
    cases = (
        ([True, False, False, False, True], 3),
        ([False] * 4, 7),
        ([True, True, False], 2),
    )

    def close(wrong):
        return all(
            abs(got - wrong(Fraction(sum(h), len(h)), v)) < 1e-9
            for got, (h, v) in zip(values, cases)
        )

    values = [float(answer(list(h), v)) for h, v in cases]
    if close(lambda r, v: r + (1 - r) / v):
        return RIGHT
    mistakes = {
        "You gave the unreached symbols no chance: a guess is right with chance 1/V.": lambda r, v: (
            r
        ),
        "The separator 0 is no candidate: a guess among the V symbols is right with chance 1/V.": lambda r, v: (
            r + (1 - r) / (v + 1)
        ),
        "You added 1/V for every symbol: only the share 1 - R must guess.": lambda r, v: (
            r + Fraction(1, v)
        ),
        "That is the larger of the two: reached and guessed symbols add up.": lambda r, v: (
            max(r, Fraction(1, v))
        ),
    }
    named = [sentence for sentence, wrong in mistakes.items() if close(wrong)]
    return (
        named[0]
        if named
        else f"Not yet: for two of five reached and V = 3 the bound is 3/5, yours is {values[0]:.4f}."
    )
