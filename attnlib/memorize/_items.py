"""What there is to memorize: distinct tokens, distinct multisets, their pairs and
labels.

Page: notebooks/one_layer_memorization/memorization
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Items:
    """The pairs (token, multiset of its sequence) of a data set, each once.

    Args:
        vocabulary: (K, d).
        tokens: (N, n), places in the vocabulary, -1 where no token is.
        sets: (S,), a sequence for each multiset.
        place: (D, 2), the first (sequence, position) of each item.
        row: (D,), its multiset.
        labels: (D, c).
    """

    vocabulary: Tensor
    tokens: Tensor
    sets: Tensor
    place: Tensor
    row: Tensor
    labels: Tensor


def find_items(sequences: Tensor, labels: Tensor, token_mask: Tensor) -> Items:
    """Groups tokens and sequences exactly; raises ValueError if one item has two
    labels, and names both positions.
    """
    rows = sequences[token_mask] + 0.0  # -0 and 0 are one number
    found, first = _group(rows)
    tokens = torch.full_like(token_mask, -1, dtype=torch.long)
    tokens = tokens.masked_scatter(token_mask, found)
    which_set, sets = _group(tokens.sort(1).values)
    # One number for each pair (multiset, token).
    pairs = which_set[:, None].expand_as(tokens)[token_mask] * len(first) + found
    item, start = _group(pairs[:, None])
    flat = labels[token_mask]
    place = token_mask.nonzero()
    wrong = (flat != flat[start[item]]).any(-1)
    if wrong.any():
        b = int(wrong.int().argmax())
        a = int(start[item[b]])
        raise ValueError(
            "contradicting labels: (sequence, position) "
            f"{tuple(place[a].tolist())} and {tuple(place[b].tolist())} "
            "hold the same token in the same multiset of tokens, "
            f"with labels {flat[a].tolist()} and {flat[b].tolist()}; "
            "attention without positions gives both the same output"
        )
    place = place[start]
    row = which_set[place[:, 0]]
    return Items(rows[first], tokens, sets, place, row, flat[start])


def _group(rows: Tensor) -> tuple[Tensor, Tensor]:
    """(place of each row among the distinct rows, first row of each)."""
    different, found = torch.unique(rows, dim=0, return_inverse=True)
    places = torch.arange(len(rows), device=rows.device)
    first = places.new_full((len(different),), len(rows))
    return found, first.scatter_reduce(0, found, places, "amin")


def largest_logit(z: Tensor, beta: float) -> float:
    """|beta| times the largest z squared; infinite where no float holds it."""
    largest = float(z.detach().abs().max())
    return abs(beta) * largest * largest


def least(gaps: Tensor) -> float:
    """The least of the gaps; infinity if there are none."""
    return float(gaps.min()) if len(gaps) else math.inf


def finer(dtype: torch.dtype) -> list[torch.dtype]:
    """float32 and float64, as far as they round less than this dtype."""
    wide = (torch.float32, torch.float64)
    eps = torch.finfo(dtype).eps
    return [t for t in wide if torch.finfo(t).eps < eps]
