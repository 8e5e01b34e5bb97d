"""Exercises of the page on patterns in logarithmic dimension."""

from __future__ import annotations

import math

import torch

from attnbook.exercises import Case, exercise, fit


@exercise("Not yet: how much do all others weigh together, if the entry weighs 1?")
def share(answer):
    """Exercise 9.1: one entry a row, 1001 tokens, every other at most 1/100 of the
    entry: the largest share of the others.
    """
    mistakes = {
        "That is one other against the entry: a row has a thousand of them.": 0.01,
        "Those are the odds, others against the entry: a share is at most one.": 10.0,
        "The row has 1001 tokens, but one of them is the wanted entry: count the "
        "others again.": 10.01 / 11.01,
        "That is the share of the entry: the question is about the others.": 1 / 11,
    }
    yield Case(answer, 10 / 11, mistakes)


@exercise(
    "Not yet: try one key alone, then two orthogonal ones.", function_of="keys, y"
)
def query(answer):
    """Exercise 9.2: a function that returns the shortest q with keys @ q = y."""
    g = torch.Generator().manual_seed(4)
    keys = torch.randn(2, 5, generator=g, dtype=torch.float64)
    y = torch.tensor([3.0, 1.0], dtype=torch.float64)
    gram = keys @ keys.T
    wanted = keys.T @ torch.linalg.solve(gram, y)
    got = fit(answer(keys, y), wanted)
    # The wrong ones are told by their logits.
    mistakes = {
        "That is right for orthonormal keys only, and these are not.": gram @ y,
        "You applied the Gram matrix of the keys, where it is to be undone.": (
            gram @ gram @ y
        ),
        "You divided by the squared lengths only: the keys also meet each other.": (
            gram @ (y / gram.diagonal())
        ),
    }
    yield Case(keys @ got, y, mistakes)
    longer = (
        "It has the right logits, but a part of it is orthogonal to the keys: that "
        "only makes it longer."
    )
    yield Case(got, wanted, otherwise=longer)


@exercise(
    "Not yet: try two tiles of one token each, where both sums are 1.",
    function_of="m1, z1, m2, z2",
    errors={
        OverflowError: "Right for near maxima, but far ones overflow: give exp only "
        "what is not positive."
    },
)
def merge(answer):
    """Exercise 9.3: a function that merges two tiles of a row; z = sum of exp(logit -
    m), m the maximum.
    """
    right = [5.0, 1.5 * math.exp(-2) + 1.25]
    m, z = fit(answer(3.0, 1.5, 5.0, 1.25), right)
    larger = "The maximum of both tiles is the larger of the two."
    yield Case(m, right[0], otherwise=larger)
    mistakes = {
        "The first sum was taken against another maximum: rescale it.": 2.75,
        "The sign is turned: m1 is below m, so its sum must shrink.": (
            1.5 * math.exp(2) + 1.25
        ),
    }
    yield Case(z, right[1], mistakes)
    turned = "Right here, but not if the first tile has the maximum."
    yield Case(answer(5.0, 1.25, 3.0, 1.5), right, otherwise=turned)
    far = "Right for near maxima, but not for 0 and 1000."
    yield Case(answer(1000.0, 1.0, 0.0, 1.0), [1000.0, 1.0], otherwise=far)
    yield Case(answer(0.0, 1.0, 1000.0, 1.0), [1000.0, 1.0], otherwise=far)


@exercise("Not yet: a permutation has one entry a row; put that into the theorem.")
def dimension(answer):
    """Exercise 9.4: the dimension that the theorem gives for one entry a row, a million
    tokens and chance 1/2.
    """
    n = 10**6
    right = math.ceil(8 * math.log(2 * n**2))
    mistakes = {
        "There are more pairs that may go wrong than n.": math.ceil(
            8 * math.log(2 * n)
        ),
        "The chance 1/2 is missing.": math.ceil(8 * math.log(n**2)),
        "The logarithm is the natural one.": math.ceil(8 * math.log10(2 * n**2)),
        "Round up: d is an integer and must not fall short.": right - 1,
        "That is the trivial dimension: it always works, and it is what the theorem "
        "saves.": n,
    }
    yield Case(answer, right, mistakes)
