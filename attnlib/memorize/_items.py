"""What there is to memorize: distinct tokens, distinct multisets, their pairs and
labels; refuses what cannot be.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib._require import require

ROWS = 1 << 16  # rows hashed at once: they stay in the cache


class Items(NamedTuple):
    """The pairs (token, multiset of its sequence) of a data set, each once.

    vocabulary (K, d); tokens (N, n), places in it, -1 where no token is; sets (S,), a
    sequence for each multiset; pair (P,), the item of each token that is there; first
    (D,), a token for each item; labels (D, c).
    """

    vocabulary: Tensor
    tokens: Tensor
    sets: Tensor
    pair: Tensor
    first: Tensor
    labels: Tensor


def checked(sequences, labels, mask, generator) -> tuple[Tensor, Tensor]:
    """The mask, and labels as (N, n, c); raises ValueError before anything is built."""
    require(
        torch.is_tensor(sequences),
        f"sequences must be a torch tensor, got {type(sequences).__name__}; pad and give a mask",
    )
    require(
        sequences.is_floating_point(),
        f"sequences must be floating point, got {sequences.dtype}: embed integer tokens first, "
        "for example as rows of a random matrix",
    )
    require(
        sequences.dim() == 3,
        f"sequences must be (N, n, d), got {tuple(sequences.shape)}",
    )
    require(
        0 not in sequences.shape,
        f"sequences must hold at least one sequence, token and feature, got (N, n, d) = {tuple(sequences.shape)}",
    )
    require(
        torch.is_tensor(labels),
        f"labels must be a torch tensor, got {type(labels).__name__}",
    )
    size = tuple(sequences.shape[:2])
    fits = (
        labels.dim() in (2, 3)
        and tuple(labels.shape[:2]) == size
        and 0 not in labels.shape
    )
    require(
        fits,
        f"labels must be (N, n) or (N, n, c) with (N, n) = {size} to fit sequences, got {tuple(labels.shape)}",
    )
    require(not labels.is_complex(), f"labels must be real, got {labels.dtype}")
    require(
        labels.device == sequences.device,
        f"labels are on {labels.device}, sequences on {sequences.device}",
    )
    require(
        isinstance(generator, torch.Generator),
        f"generator must be a torch.Generator, got {type(generator).__name__}",
    )
    _memory(sequences, labels)
    if mask is None:
        mask = torch.ones(size, dtype=torch.bool, device=sequences.device)
    fits = (
        torch.is_tensor(mask)
        and mask.dtype == torch.bool
        and tuple(mask.shape) == size
        and mask.device == sequences.device
    )
    require(
        fits,
        f"mask must be boolean of shape {size} on {sequences.device}, True where a token is",
    )
    flat = labels if labels.dim() == 3 else labels.unsqueeze(-1)
    empty = (~mask).all(1)
    require(
        not empty.any(),
        f"sequence {int(empty.int().argmax())} is empty: its mask hides every token",
    )
    for name, tensor in (("sequences", sequences), ("labels", flat)):
        bad = ~torch.isfinite(tensor).all(-1) & mask
        _nowhere(bad, f"{name} holds NaN or infinity, first")
    zero = (sequences == 0).all(-1) & mask
    _nowhere(zero, "zero tokens have no logits and would see only the mean; one is")
    return mask, flat


def find_items(sequences: Tensor, labels: Tensor, mask: Tensor) -> Items:
    """Groups tokens and sequences exactly; raises ValueError if one item has two
    labels, and names both places.
    """
    rows = sequences[mask] + 0.0  # -0 and 0 are one number
    found, first = group(rows)
    tokens = torch.full_like(mask, -1, dtype=torch.long).masked_scatter(mask, found)
    sets, some = group(tokens.sort(1).values)
    keys = sets[:, None].expand_as(tokens)[mask] * len(first) + found
    pair, start = _unique(keys)
    flat = labels[mask]
    wrong = (flat != flat[start[pair]]).any(-1)
    if wrong.any():
        places = mask.nonzero()
        b = int(wrong.int().argmax())
        a = int(start[pair[b]])
        raise ValueError(
            f"contradicting labels: (sequence, place) {tuple(places[a].tolist())} and {tuple(places[b].tolist())} hold the same token "
            f"in the same multiset of tokens, with labels {flat[a].tolist()} and {flat[b].tolist()}; attention without positions "
            "gives both the same output"
        )
    return Items(rows[first], tokens, some, pair, start, flat[start])


def group(rows: Tensor) -> tuple[Tensor, Tensor]:
    """(place of each row among the distinct rows, first row of each), exact: hashed,
    then compared.
    """
    bits = (
        rows
        if not rows.is_floating_point()
        else rows.view(
            {2: torch.int16, 4: torch.int32, 8: torch.int64}[rows.element_size()]
        )
    )
    generator = torch.Generator().manual_seed(len(rows))
    odd = (
        torch.randint(-(2**62), 2**62, (2, rows.shape[1]), generator=generator) * 2 + 1
    ).to(rows.device)
    hashes = []
    for part in bits.split(ROWS):
        mixed = part.long() * odd[0]
        mixed = (mixed ^ (mixed >> 32)) * odd[1]
        hashes.append((mixed ^ (mixed >> 29)).sum(1))
    found, first = _unique(torch.cat(hashes))
    if all(
        torch.equal(part, rows[first[at]])
        for part, at in zip(rows.split(ROWS), found.split(ROWS))
    ):
        return found, first
    found = torch.unique(rows, dim=0, return_inverse=True)[1]  # two rows share a hash
    return found, _first(found)


def _unique(keys: Tensor) -> tuple[Tensor, Tensor]:
    found = torch.unique(keys, return_inverse=True)[1]
    return found, _first(found)


def _first(found: Tensor) -> Tensor:
    """The first place of each value 0..max."""
    places = torch.arange(len(found), device=found.device)
    start = torch.full((int(found.max()) + 1,), len(found), device=found.device)
    return start.scatter_reduce(0, found, places, "amin")


def _nowhere(bad: Tensor, what: str) -> None:
    if bad.any():
        raise ValueError(
            f"{what} at (sequence, place) {tuple(bad.nonzero()[0].tolist())}"
        )


def _memory(sequences: Tensor, labels: Tensor) -> None:
    """Copies of the tokens, of the labels and about twenty numbers a token must fit
    beside the data.
    """
    (count, n, d), c = sequences.shape, labels.shape[2] if labels.dim() == 3 else 1
    needed, free = (
        count * n * (d * sequences.element_size() + 24 * c + 160),
        _available(sequences.device),
    )
    require(
        needed <= free,
        f"memory would not suffice: {count} x {n} tokens of {d} features need about {needed / 2**30:.3g} GiB "
        f"beside the data, and {free / 2**30:.3g} GiB are free; memorize fewer sequences, or on another device",
    )


def _available(device: torch.device) -> int | float:
    """Free bytes; infinity where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(
            int(line.split()[1]) * 1024
            for line in lines
            if line.startswith("MemAvailable")
        )
    except (OSError, StopIteration):
        return math.inf
