"""Exercises of the page on path efficacy."""

from __future__ import annotations

import itertools

import torch

from attnbook.exercises import Case, exercise, items, number


@exercise("Not yet: divide N_k by N_(k-1); where does the quotient fall below 1?")
def largest(answer):
    """Exercise 5.1: which length has the most paths in a network of 20 layers with 7
    heads and skips?
    """
    mistakes = {
        "Full length is the largest class only if H >= L, and 7 < 20.": 20,
        "That is the mean length without its fraction, and the mean is not the "
        "largest class.": 17,
        "That is the middle of binom(20, k): a path also chooses among 7 heads in "
        "every layer that it passes.": 10,
    }
    yield Case(answer, 18, mistakes)


@exercise(
    "Not yet: take two layers of one head; which paths pass at most one head?",
    function_of="x, attention, weights",
    errors={
        IndexError: "An index is too large: attention[l][h] names the layer first, "
        "then the head; here are 3 layers of 2 heads."
    },
)
def first_order(answer):
    """Exercise 5.2: a function that returns the paths of lengths 0 and 1, added up."""
    g = torch.Generator().manual_seed(5)
    x = torch.randn(5, 4, generator=g, dtype=torch.float64)
    logits = torch.randn(3, 2, 5, 5, generator=g, dtype=torch.float64)
    p = torch.softmax(logits, -1)
    w = torch.randn(3, 2, 4, 4, generator=g, dtype=torch.float64)

    def heads(y, l):
        return (p[l] @ y @ w[l]).sum(0)

    low = x + heads(x, 0)
    middle = low + heads(low, 1)
    both = low + heads(x, 1) + heads(x, 2)
    mistakes = {
        "The path of length 0 is missing: it is X itself.": both - x,
        "That is the whole network: later layers must read X, not what the layers "
        "before them wrote.": middle + heads(middle, 2),
        "You let only one layer speak: sum over the layers as well as over the "
        "heads.": low,
        "You let the first and the last layer speak only: there may be more between "
        "them.": low + heads(x, 2),
        "X is counted once for each layer.": both + 2 * x,
        "The weights W_h are missing.": x + p.sum((0, 1)) @ x,
    }
    yield Case(answer(x, p, w), both, mistakes)


@exercise(
    "Not yet: try [1, 2]; which sets of layers are there, and what do they weigh?",
    function_of="s",
)
def bounds(answer):
    """Exercise 5.3: a function that returns the list e_0, ..., e_L."""
    mistakes = {
        "That is binom(L, k) mean^k: a bound, and equal only if all s_l are the "
        "same.": [1.0, 6.0, 12.0, 8.0],
        "That is (sum of s)^k / k!: it also counts paths that pass one layer twice.": [
            1.0,
            6.0,
            18.0,
            36.0,
        ],
        "You add up in place: the new e_k must use the old e_(k-1).": (
            [1.0, 6.0, 25.0, 90.0]
        ),
        "e_0 is missing: the empty path.": [6.0, 11.0, 6.0],
        "Those are power sums: the layers of a path are distinct.": (
            [3.0, 6.0, 14.0, 36.0]
        ),
    }
    right = [1.0, 6.0, 11.0, 6.0]
    yield Case(answer([1, 2, 3]), right, mistakes)
    others = (
        "Right for [1, 2, 3], but not for [2, 0, 5, 1]: any L and any numbers, with "
        "L + 1 entries, also those that are 0."
    )
    right = [1.0, 8.0, 17.0, 10.0, 0.0]
    yield Case(answer([2, 0, 5, 1]), right, otherwise=others)


@exercise()
def scores(answer):
    """Exercise 5.4: logits of three lengths, label 0: each alone is wrong, each two
    together are wrong, all three are right.
    """
    lengths = []
    for logits in items(answer, 3):
        lengths.append([number(v) for v in items(logits)])
    classes = len(lengths[0])
    if any(len(logits) != classes for logits in lengths):
        yield "All lengths need one score for each class."
    if classes < 3:
        yield "With two classes it cannot be: negative margins add up to another."
    alone = [_margin(logits) for logits in lengths]
    pairs = [_margin(*pair) for pair in itertools.combinations(lengths, 2)]
    if any(margin > 0 for margin in alone):
        yield "One length is right by itself: another class must score more there."
    if any(margin > 0 for margin in pairs):
        yield "Two of the lengths are right without the third: let each err more."
    if 0 in alone + pairs:
        yield (
            "One or two of the lengths have class 0 level with the largest score: make "
            "it wrong, another class must score more."
        )
    if not _margin(*lengths) > 0:
        yield "The sum is not right yet: towards which class does each length err?"


def _margin(*lengths):
    """By how much class 0 leads in the sum of these lengths."""
    first, *others = map(sum, zip(*lengths))
    return first - max(others)
