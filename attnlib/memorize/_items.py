"""What there is to memorize: distinct tokens, distinct multisets, their pairs and
labels; refuses what cannot be.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attnlib import _require
from attnlib._require import require

# The integers that hold the bits of a float of so many bytes.
INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, eq=False)
class Items:
    """The pairs (token, multiset of its sequence) of a data set, each once.

    Args:
        vocabulary: (K, d).
        mask: (N, n), where a token is.
        tokens: (N, n), places in the vocabulary, -1 where no token is.
        sets: (S,), a sequence for each multiset.
        place: (D, 2), the first (sequence, position) of each item.
        labels: (D, c).
    """

    vocabulary: Tensor
    mask: Tensor
    tokens: Tensor
    sets: Tensor
    place: Tensor
    labels: Tensor


def checked(sequences, labels, token_mask, generator) -> tuple[Tensor, Tensor]:
    """The token mask, and labels as (N, n, c); raises ValueError before anything is
    built.
    """
    _check_sequences(sequences)
    size = tuple(sequences.shape[:2])
    _require.is_tensor("labels", labels)
    shape = tuple(labels.shape)
    require(
        len(shape) in (2, 3) and shape[:2] == size and 0 not in shape,
        f"labels must be (N, n) or (N, n, c) with (N, n) = {size} to fit sequences, "
        f"got {shape}",
    )
    require(not labels.is_complex(), f"labels must be real, got {labels.dtype}")
    _require.same_device("labels", labels, sequences.device, "sequences")
    require(not sequences.is_meta, "sequences are on the device meta: no values")
    _require.random(generator)
    labels = labels.view(*shape, 1) if len(shape) == 2 else labels
    _check_memory(sequences, labels)
    if token_mask is None:
        token_mask = torch.ones(size, dtype=torch.bool, device=sequences.device)
    _require.token_mask(token_mask, size, sequences.device)
    for name, tensor in (("sequences", sequences), ("labels", labels)):
        bad = ~torch.isfinite(tensor).all(-1) & token_mask
        _nowhere(bad, f"{name} holds NaN or infinity, first")
    zero = (sequences == 0).all(-1) & token_mask
    _nowhere(zero, "zero tokens have no logits and would see only the mean; one is")
    return token_mask, labels


def _check_sequences(sequences) -> None:
    ragged = isinstance(sequences, list | tuple)
    require(not ragged, "sequences must be a torch tensor: pad and give a token_mask")
    _require.is_tensor("sequences", sequences)
    require(
        sequences.is_floating_point(),
        f"sequences must be floating point, got {sequences.dtype}: "
        "embed integer tokens first, for example as rows of a random matrix",
    )
    shape = tuple(sequences.shape)
    require(len(shape) == 3, f"sequences must be (N, n, d), got {shape}")
    require(
        0 not in shape,
        "sequences must hold at least one sequence, token and feature, "
        f"got (N, n, d) = {shape}",
    )


def _nowhere(bad: Tensor, what: str) -> None:
    if bad.any():
        at = tuple(bad.nonzero()[0].tolist())
        raise ValueError(f"{what} at (sequence, position) {at}")


def _check_memory(sequences: Tensor, labels: Tensor) -> None:
    """Copies of the tokens, of the labels and about twenty numbers a token must fit
    beside the data.
    """
    count, n, d = sequences.shape
    bytes_a_token = d * sequences.element_size() + 24 * labels.shape[-1] + 160
    needed = count * n * bytes_a_token
    free = _available(sequences.device)
    require(
        needed <= free,
        f"memory would not suffice: {count} x {n} tokens of {d} features "
        f"need about {needed / 2**30:.3g} GiB beside the data, "
        f"and {free / 2**30:.3g} GiB are free; "
        "memorize fewer sequences, or on another device",
    )


def _available(device: torch.device) -> int | float:
    """Free bytes; infinity where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        told = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return math.inf
    found = re.search(r"MemAvailable: *(\d+) kB", told)
    return int(found[1]) * 1024 if found else math.inf


def find_items(sequences: Tensor, labels: Tensor, token_mask: Tensor) -> Items:
    """Groups tokens and sequences exactly; raises ValueError if one item has two
    labels, and names both positions.
    """
    rows = sequences[token_mask] + 0.0  # -0 and 0 are one number
    found, first = group(rows)
    tokens = torch.full_like(token_mask, -1, dtype=torch.long)
    tokens = tokens.masked_scatter(token_mask, found)
    which_set, sets = group(tokens.sort(1).values)
    # One number for each pair (multiset, token).
    pairs = which_set[:, None].expand_as(tokens)[token_mask] * len(first) + found
    item, start = _unique(pairs)
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
    return Items(rows[first], token_mask, tokens, sets, place[start], flat[start])


def group(rows: Tensor) -> tuple[Tensor, Tensor]:
    """(place of each row among the distinct rows, first row of each), exact: hashed,
    which is ten times faster than to sort the rows, then compared.
    """
    bits = rows
    if rows.is_floating_point():
        bits = rows.view(INTEGERS[rows.element_size()])
    size = (2, rows.shape[1])
    generator = torch.Generator("cpu").manual_seed(len(rows))
    drawn = torch.randint(
        -(2**62), 2**62, size, generator=generator, device=generator.device
    )
    odd = (drawn * 2 + 1).to(rows.device)
    mixed = bits.long() * odd[0]
    mixed = (mixed ^ (mixed >> 32)) * odd[1]
    found, first = _unique((mixed ^ (mixed >> 29)).sum(1))
    if torch.equal(rows, rows[first[found]]):
        return found, first
    found = torch.unique(rows, dim=0, return_inverse=True)[1]
    return found, _first(found)


def _unique(keys: Tensor) -> tuple[Tensor, Tensor]:
    """(place of each key among the distinct keys, first place of each)."""
    found = torch.unique(keys, return_inverse=True)[1]
    return found, _first(found)


def _first(found: Tensor) -> Tensor:
    """The first place of each value 0..max."""
    places = torch.arange(len(found), device=found.device)
    start = places.new_full((int(found.max()) + 1,), len(found))
    return start.scatter_reduce(0, found, places, "amin")


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
