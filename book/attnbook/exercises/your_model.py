"""Exercises of the page on an audit of a model."""

from __future__ import annotations

import torch

from attnbook.exercises import Case, exercise


@exercise("Not yet: each head multiplies by its tau and its norm, and heads add up.")
def layers(answer):
    """Exercise 25.1: by what factors two layers can at most multiply the diameter,
    without skips and with them.
    """
    mistakes = {
        "That is one layer; there are two of them.": [0.5, 1.5],
        "The order is: first without skips, then with them.": [2.25, 0.25],
        "A skip adds 1 to the factor of its layer, not to that of both.": [0.25, 1.25],
        "The factors of the layers multiply; you added them.": [1.0, 3.0],
        "Within a layer the heads add up; you multiplied them.": [0.0016, 1.0816],
    }
    yield Case(answer, [0.25, 2.25], mistakes)


@exercise(
    "Not yet: sort a row, add up from the largest weight on, and count until the "
    "share is reached.",
    function_of="p, share",
)
def pairs(answer):
    """Exercise 25.2: a function that returns the share of the entries of a map that
    hold a share of each row.
    """
    g = torch.Generator().manual_seed(24)
    for n, share in ((5, 0.9), (12, 0.5), (9, 0.99)):
        p = torch.softmax(2 * torch.randn(n, n, generator=g, dtype=torch.float64), -1)
        yield _held(answer, p, share)
    yield _held(answer, torch.eye(6, dtype=torch.float64).roll(1, 0), 0.9)


def _held(answer, p: torch.Tensor, share: float) -> Case:
    """What an answer says of one map."""
    n = len(p)
    needed = [_needed(row, share) for row in p.tolist()]
    whole = _needed(p.flatten().tolist(), share * n)
    mistakes = {
        "That is the number of pairs; divide by all n^2 of them.": float(sum(needed)),
        "That is the mean of a row; divide by n once more.": sum(needed) / n,
        "One too few in each row: what reaches the share counts, too.": (
            sum(needed) / n**2 - 1 / n
        ),
        "Each row has to hold its share; you took the largest of the whole map.": (
            whole / n**2
        ),
        "That many can be left out; the others hold the share.": (
            1 - sum(needed) / n**2
        ),
    }
    return Case(answer(p, share), sum(needed) / n**2, mistakes)


def _needed(weights: list[float], share: float) -> int:
    """How many of the largest weights reach the share."""
    held = 0.0
    for count, weight in enumerate(sorted(weights, reverse=True), 1):
        held += weight
        if held >= share - 1e-12:
            return count
    return len(weights)


@exercise()
def misread(answer):
    """Exercise 25.3: which four sentences follow from a report."""
    hints = [
        "The first: tau is the largest difference of two rows. What do the others do?",
        "The second: the floor speaks of every matrix of that rank.",
        "The third: the column is a bound. What was measured stands beside it.",
        "The fourth: what does a report say where no theorem speaks?",
    ]
    yield Case(answer, [False, True, False, False], otherwise=hints)


@exercise("Not yet: write down the first row and the last one, and compare them.")
def causal(answer):
    """Exercise 25.4: tau of a causal head of 50 tokens whose logits are all equal."""
    mistakes = {
        "All logits are equal, but the first token may read itself alone.": 0.0,
        "Nearly; but both rows give something to the first token.": 1.0,
        "That is what the two rows have in common.": 0.02,
        "That is the sum of the differences; tau is half of it.": 1.96,
    }
    yield Case(answer, 0.98, mistakes)
