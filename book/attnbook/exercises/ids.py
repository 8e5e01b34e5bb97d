"""Exercises of the page on contextual mapping."""

from __future__ import annotations

import math
from fractions import Fraction

import torch

from attnbook.exercises import Case, Objection, described, exercise, fit


@exercise("Not yet: which are n, g and c for these tokens and these sets?")
def factor(answer):
    """Exercise 17.1: the least beta of the theorem for tokens 1, 3/2, 3 and sets of
    two.
    """
    need = 2 * math.log(2) + 3
    mistakes = {
        "You left out g, the smallest distance of two tokens.": need,
        "c is the smallest size and g the smallest distance: you took others.": (
            need / 1.5
        ),
        "That is the constant for multisets: these sets repeat no token.": (
            (3 * math.log(2) + 3) / 0.5
        ),
        "n is the number of tokens in a set, not in the vocabulary.": (
            (2 * math.log(3) + 3) / 0.5
        ),
        "Twice too much: look again at g and c.": 2 * need / 0.5,
    }
    yield Case(answer, need / 0.5, mistakes)


@exercise(function_of="v, vocabulary")
def passes(answer):
    """Exercise 17.2: does v pass the test of the projection on a vocabulary?"""
    axis = torch.tensor([1.0, 0.0], dtype=torch.float64)
    level = math.sqrt(8 / (2 * math.pi)) / 9
    plane = [
        ([(1, 0), (2, 0)], True, "Tokens along v pass."),
        ([(1, 0), (1, 3)], False, "Two tokens with the same v.x cannot pass."),
        (
            [(0.001, 1), (3, 0)],
            False,
            "Compare with zero too: a token almost orthogonal to v must fail.",
        ),
        ([(-0.5, 1), (0.5, -1)], True, "Take absolute values: v.x may be negative."),
        ([(0.01, 0), (0.02, 0)], True, "The test is relative: divide by |x - y|."),
        (
            [(10, 0), (10.5, 9)],
            False,
            "The test is relative: 1/2 is too little for tokens at distance 9.",
        ),
        (
            [(1, 0), (1 + 9 * level, 8)],
            True,
            "The level is the one of (17.3): yours is too high.",
        ),
        (
            [(1, 0), (1 + 7 * level, 8)],
            False,
            "The level is the one of (17.3): yours is too low.",
        ),
    ]
    for tokens, passing, sentence in plane:
        vocabulary = torch.tensor(tokens, dtype=torch.float64)
        yield Case(answer(axis, vocabulary), passing, otherwise=sentence)
    v = torch.tensor([0.0, 0.6, 0.8, 0.0, 0.0], dtype=torch.float64)
    for vocabulary, passing, sentence in (
        (
            torch.outer(torch.arange(1.0, 4.0), v),
            True,
            "Project on v, whatever v is: here it is no axis.",
        ),
        (
            _three(v, 1.05),
            True,
            "Right for K = d = 2, too high for K = 3 and d = 5: d is the width, K the "
            "number of tokens.",
        ),
        (
            _three(v, 0.95),
            False,
            "Right for K = d = 2, too low for K = 3 and d = 5: d is the width, K the "
            "number of tokens.",
        ),
    ):
        yield Case(answer(v, vocabulary), passing, otherwise=sentence)


def _three(v: torch.Tensor, share: float) -> torch.Tensor:
    """Three tokens of width 5, two of them at a share of the level from each other."""
    level = math.sqrt(8 / (5 * math.pi)) / 16
    aside = torch.zeros_like(v)
    aside[0] = 8
    return torch.stack([v, v * (1 + 8 * share * level) + aside, -20 * v])


@exercise(
    "Not yet: try w = 0 and then beta = 0, where the company is the plain mean.",
    function_of="x, v, c, beta, w",
)
def token_id(answer):
    """Exercise 17.3: the id of a token in its company, z + w f."""
    for tokens, c, beta, w in (
        ([(1.0, 3.0), (2.0, 0.0), (5.0, -1.0)], 1, 0.4, 0.5),
        ([(-1.5, 1.0), (0.5, 1.0), (2.0, -2.0), (3.0, 0.5)], 0, 0.7, 0.2),
    ):
        x = torch.tensor(tokens, dtype=torch.float64)
        v = torch.tensor([0.8, 0.6], dtype=torch.float64)
        z = x @ v
        place = float(z[c])
        f = _average(z, beta * z[c] * z)
        right = place + w * f
        mistakes = {
            "The query is missing in the logits.": place + w * _average(z, beta * z),
            "The factor beta is missing.": place + w * _average(z, z[c] * z),
            "The sign of the logits is wrong.": (
                place + w * _average(z, -beta * z[c] * z)
            ),
            "That is the company f alone: the id is z + w f.": f,
            "The weight w is missing.": place + f,
            "That is the Boltzmann operator of the logits, not of the places.": (
                place + w * beta * place * f
            ),
            "The company is the plain mean here: where are the weights?": (
                place + w * float(z.mean())
            ),
            "That is the place alone.": place,
        }
        yield Case(answer(x, v, c, beta, w), right, mistakes)


def _average(z: torch.Tensor, logits: torch.Tensor) -> float:
    return float(torch.softmax(logits, 0) @ z)


@exercise()
def collision(answer):
    """Exercise 17.4: two sets of three tokens of 1, 2, 3, 4, 5, 6, 7 that hold 4 and
    that a mean confuses.
    """
    first, second = fit(answer, (set(), set()))
    for tokens in (first, second):
        if len(tokens) != 3 or not tokens <= set(range(1, 8)):
            yield "Each set has three different tokens, from 1 to 7."
        if 4 not in tokens:
            yield "Both sets must hold the token 4: only then is one query in both."
    if first == second:
        yield "The two sets are the same: then every id agrees, and rightly."
    if sum(first) != sum(second):
        means = f"{Fraction(sum(first), 3)} and {Fraction(sum(second), 3)}"
        yield f"Mean pooling tells them apart: their means are {means}."


@exercise(function_of="sequences")
def numbers(answer):
    """Exercise 17.5: integers for some tokens, whose sums tell sequences apart."""
    for sequences in SEQUENCES:
        given = answer([list(sequence) for sequence in sequences])
        found = _integers(given)
        words = {tuple(sorted(sequence)) for sequence in sequences}
        if len(found) >= len(words):
            yield (
                f"Fewer tokens than sequences are enough: yours are {len(found)}, for "
                f"{len(words)} different multisets."
            )
        sums = {}
        for word in sorted(words):
            total = sum(found.get(token, 0) for token in word)
            other = sums.setdefault(total, word)
            if other != word:
                yield (
                    f"Here {list(other)} and {list(word)} both have the sum {total}: "
                    "are there enough integers to draw from, and the right tokens?"
                )


SEQUENCES = (
    [[3, 1, 2], [2, 1, 3], [1, 1, 2], [4, 4, 1]],
    [[k, 0, 0, 0] for k in range(1, 13)],
    [[i, j] for i in range(9) for j in range(i, 9)],
    [[5], [7]],
)


def _integers(given) -> dict:
    if not isinstance(given, dict):
        raise Objection(f"A dictionary was wanted; yours is {described(given)}.")
    for token, integer in given.items():
        for value in (token, integer):
            if not isinstance(value, int) or isinstance(value, bool):
                raise Objection(
                    "The dictionary takes an integer to an integer; yours holds one "
                    f"that is {described(value)}."
                )
    return given
