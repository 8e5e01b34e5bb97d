"""Exercises of the page on the copying task."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnbook.exercises import Case, exercise


@exercise("Not yet: which of the tokens 1..23 are read by later blocks?")
def count(answer):
    """Exercise 15.1: how many of m = 23 symbols reach their query in one layer of
    causal fixed with w = 6.
    """
    mistakes = {
        "Token 23 counts as well: tokens are counted from 0.": 3,
        "You counted the ends of blocks in both halves: a source lies in the first.": 8,
        "That is the block step alone: the union also reads the ends of blocks.": 0,
        "That is w: count the sources that are read from afar.": 6,
        "That takes two layers. In one layer only the ends of blocks are read from "
        "afar.": 23,
    }
    yield Case(answer, 4, mistakes)


@exercise(function_of="m, w")
def depth(answer):
    """Exercise 15.2: a function that returns the least number of layers with which a
    causal window of w copies.
    """
    instances = (
        (15, 8),
        (14, 8),
        (16, 5),
        (127, 16),
        (3, 9),
        (9, 4),
        (10, 4),
        (7, 2),
    )
    right = [math.ceil(m / (w - 1)) for m, w in instances]
    mistakes = {
        "The token itself is one of the w: a window reaches less far back.": (
            [math.ceil(m / w) for m, w in instances]
        ),
        "Round up: a layer that is not needed whole is still a layer.": (
            [m // (w - 1) for m, w in instances]
        ),
        "One layer too many when w - 1 divides m: the source stands m tokens back, not "
        "m + 1.": [m // (w - 1) + 1 for m, w in instances],
    }
    hints = [f"Not yet: try m = {m} and w = {w} by hand." for m, w in instances]
    given = [answer(m, w) for m, w in instances]
    yield Case(given, right, mistakes, otherwise=hints)


@exercise(
    "Not yet: try two layers by hand, a window and then one skip.",
    function_of="masks",
)
def field(answer):
    """Exercise 15.3: a function that returns the receptive field after all layers with
    skips, (n, n) boolean.
    """
    g = torch.Generator().manual_seed(3)
    masks = list(torch.rand(3, 7, 7, generator=g) < 0.25)
    turned = [mask.T for mask in masks]
    own = torch.eye(7, dtype=torch.bool)
    mistakes = {
        "The layers are in the wrong order: the last layer reads what the others have "
        "gathered.": _through(masks[::-1], own),
        "The skip is missing: a token keeps what it had, also where it does not read "
        "itself.": _through(masks, torch.zeros_like(own)),
        "Rows and columns are exchanged: row k of the field says what reaches token "
        "k.": _through(turned, own),
        "That is what one layer reads: put the layers behind one another.": (
            masks[0] | masks[1] | masks[2] | own
        ),
    }
    yield Case(answer(masks), _through(masks, own), mistakes)


def _through(masks: list[Tensor], skip: Tensor) -> Tensor:
    """The field of layers that read their masks, and by the skip what `skip` says."""
    out = torch.eye(len(skip), dtype=torch.bool)
    for mask in masks:
        out = (mask | skip).float() @ out.float() > 0
    return out


@exercise(
    "Not yet: try four symbols of which none is reached, and V = 7.",
    function_of="hit, symbols",
)
def bound(answer):
    """Exercise 15.4: a function that returns the best expected accuracy as a Fraction
    or a float.
    """
    instances = (
        ([True, False, False, False, False], 3),
        ([False] * 4, 7),
        ([True, True, False], 2),
    )
    for hit, symbols in instances:
        share = sum(hit) / len(hit)
        mistakes = {
            "You gave the unreached symbols no chance: they can still be guessed.": (
                share
            ),
            "The separator 0 is no candidate for a guess.": (
                share + (1 - share) / (symbols + 1)
            ),
            "You let every symbol guess: only those that are not reached must.": (
                share + 1 / symbols
            ),
            "That is the larger of the two: reached and guessed symbols add up.": (
                max(share, 1 / symbols)
            ),
        }
        yield Case(answer(hit, symbols), share + (1 - share) / symbols, mistakes)


@exercise(
    "Not yet: first take off what crosses before layer 1, then share out the rest."
)
def carried(answer):
    """Exercise 15.5: bits that each state must carry for two layers of fixed with w = 6
    to copy all of m = 23 symbols of 16.
    """
    mistakes = {
        "Four symbols need no state: the ends of blocks are read as they are.": 23,
        "That is what all four states carry together.": 76,
        "That counts symbols: one of 16 symbols is worth four bits.": 4.75,
        "Before layer 1 a token holds its own symbol and no more: the rest is carried "
        "by the states after it.": 11.5,
        "That is the largest block's share: the bound counts what crosses in all.": 20,
    }
    yield Case(answer, 19, mistakes)
