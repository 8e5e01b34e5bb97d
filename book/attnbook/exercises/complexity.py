"""Exercises of the page on what attention costs."""

from __future__ import annotations

import itertools
import math

import torch

from attnbook.exercises import Case, exercise, fit


@exercise("Not yet: write down the FLOPs of both; for which n are they equal?")
def tie(answer):
    """Exercise 8.1: from which n on does Linformer with k = 128 need no more FLOPs than
    dense attention?
    """
    mistakes = {
        "Nearly: where both need the same, the same is no more.": 257,
        "You left out the projections E K and F V: they cost as much as the attention "
        "itself.": 128,
        "You counted the projections twice.": 512,
        "The k is on the other side: which of the two costs grows with k?": 64,
    }
    yield Case(answer, 256, mistakes)


@exercise("Not yet: does the cost rise or fall if your l becomes one larger?")
def stride(answer):
    """Exercise 8.2: the stride l at which a strided kernel with tiles of two rows is
    cheapest for n = 8192.
    """
    mistakes = {
        "That is the root of n: it would be right if the near tile were as wide as the "
        "stride; it is twice as wide.": math.sqrt(8192),
        "The 2 is on the wrong side: which of the two summands has it?": 128,
    }
    yield Case(answer, 64, mistakes)


@exercise(function_of="i, j, l")
def hop(answer):
    """Exercise 8.3: a function that names a token k with j -> k -> i in the strided
    pattern.
    """

    for l, i in itertools.product((1, 4, 7), range(40)):
        for j in range(i + 1):
            k = fit(answer(i, j, l), 0)
            place = f"for i = {i}, j = {j}, l = {l}"
            if not j <= k <= i:
                yield f"Nobody reads the future: {place} it cannot be k = {k}."
            if not _reads(i, k, l):
                yield f"Not yet: {place} token i does not read your k = {k}."
            if not _reads(k, j, l):
                yield f"Not yet: {place} your k = {k} does not read j."


def _reads(i: int, j: int, l: int) -> bool:
    return i - j <= l or (i - j) % l == 0


@exercise(
    "Not yet: try two keys of equal logits, one seen once and one seen twice.",
    function_of="a, N",
)
def merge(answer):
    """Exercise 8.4: a function that returns the weights of one query after duplicates
    are corrected.
    """
    instances = (
        ([0.3, -1.0, 2.0, 0.5], [3, 1, 0, 2]),  # one key unseen, the largest
        ([0.3, 2.0, -1.0, 0.5], [1, 3, 0, 0]),  # two, not the largest
        ([0.3, 2.0, -1.0], [2, 1, 3]),  # none
    )
    for logits, rounds in instances:
        a = torch.tensor(logits, dtype=torch.float64)
        N = torch.tensor(rounds)
        seen = a.masked_fill(N == 0, -math.inf)
        right = torch.softmax(seen, -1)
        mistakes = {
            "A key that was seen in three rounds counts three times: the correction is "
            "missing.": torch.softmax(a + N.log(), -1),
            "A key that was never seen has weight zero.": torch.softmax(a, -1),
            "You corrected twice: once the rounds are added up, nothing is left to "
            "correct.": torch.softmax(seen - N.clamp_min(1).log(), -1),
            "The weights must sum to one.": seen.exp(),
        }
        yield Case(answer(a, N), right, mistakes)


@exercise("Not yet: write down both numbers for n tokens; which of them knows n?")
def overtakes(answer):
    """Exercise 8.5: from how many tokens on does the cache of a head of width 64 hold
    more numbers than the state of linear attention?
    """
    mistakes = {
        "A token leaves two rows, a key and a value.": 66,
        "Nearly: do not forget the column of the denominator.": 32,
        "You divided by 2 and not by 2d: a row has d numbers.": 2081,
    }
    yield Case(answer, 33, mistakes)
