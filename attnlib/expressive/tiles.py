"""Rows of a product Q K' against a sparse pattern, tile by tile: no matrix of all pairs
exists at any time.

Page: notebooks/sparse_patterns/logarithmic_dimension
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from attnlib._require import require

HALVES = (torch.float16, torch.bfloat16)


class _Scan(NamedTuple):
    """What each row shows of a pattern."""

    # max - min over the support of logit - log weight
    spread: Tensor
    # the smallest logit on the support minus the largest off it; inf without zeros
    gap: Tensor
    # sum of exp over the zeros / sum of exp over the support
    odds: Tensor
    # of the code, the pattern, the buffers and the result together
    bytes: int


def _scan(
    q: Tensor,
    k: Tensor,
    columns: Tensor,
    log_weights: Tensor,
    *,
    scale: float,
    whole: bool,
    tile: tuple[int, int],
    stop: float = -math.inf,
    spread: float = math.inf,
    progress: bool = False,
) -> _Scan:
    """Every row of scale * Q K', which is a matrix of integers if `whole`; ends after
    the first tile of rows with a gap below `stop` or a spread above `spread`.
    """
    n, d = q.shape
    high, wide = tile
    largest = min(high, n) * min(wide, n)
    buffer = torch.empty(largest, dtype=q.dtype, device=q.device)
    spreads = []
    gaps = []
    odds = []
    most = 0  # bytes of what a tile of rows holds
    starts = range(0, n, high)
    if progress:
        starts = tqdm(starts, "tiles of rows", leave=False)
    for i in starts:
        some = q[i : i + high]
        c = columns[i : i + high]
        padding = c < 0
        on = _supports(some, k, c)
        if whole:
            on = on.double()
        on = on * scale
        constant = on - log_weights[i : i + high]
        above = constant.masked_fill(padding, -math.inf).amax(1)
        below = constant.masked_fill(padding, math.inf).amin(1)
        least = on.masked_fill(padding, math.inf).amin(1)
        zeros = _whole_zeros if whole else _zeros
        top, mass = zeros(some, k, c, least, scale, buffer, wide)
        weights = (on - least[:, None]).exp().masked_fill(padding, 0)
        spreads.append(above - below)
        gaps.append(least - top)
        odds.append(mass / weights.sum(1))
        held = on.nbytes + padding.nbytes + 3 * c.nbytes + 8 * len(c) * d
        most = max(most, held)
        failed = (gaps[-1] < stop) | (spreads[-1] > spread)
        if failed.any():
            break
    rows = [torch.cat(spreads), torch.cat(gaps), torch.cat(odds)]
    inputs = (q, k, columns, log_weights)
    size = sum(t.nbytes for t in (*inputs, buffer, *rows, *rows)) + most
    return _Scan(*rows, size)


def _supports(q: Tensor, k: Tensor, columns: Tensor) -> Tensor:
    """The logits on the support, (rows, k); the padding reads the last key."""
    found = []
    for c in columns.T:
        found.append((q * k[c]).sum(-1))
    return torch.stack(found, -1)


def _logits(q: Tensor, k: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys in the type of the products, and how far rounding may move a gap
    of each row, (n,).

    Eight and sixteen bits are read into thirty-two, which is exact: float32 holds every
    integer below 2^24, and its products are fast on every processor, those of bytes
    only on some. A sum of d products of floats is off by
    at most d u |q| |k|, u half an eps; (d + 16) eps |q| |k| covers two logits and all
    that is done to them, and the last term what underflows. Integers are refused where
    a sum might reach 2^24, floats where one might overflow. NaN, a failed draw, is let
    through.
    """
    d = q.shape[1]
    q = q.detach()
    k = k.detach()
    if q.dtype == torch.int8:
        size = _largest(q) * _largest(k) * d
        require(
            size < 2**24,
            "integer logits must stay below 2^24 to be exact, "
            f"got max |q| max |k| d = {size}",
        )
        exact = torch.zeros(len(q), dtype=torch.float64, device=q.device)
        return q.float(), k.float(), exact
    if q.dtype in HALVES:
        q = q.float()
        k = k.float()
    most = torch.finfo(q.dtype)
    lengths = _lengths(q)
    longest = float(lengths.nan_to_num(0).max())
    reach = float(_lengths(k).nan_to_num(0).max())
    size = longest * scale * max(1, reach, reach / scale)
    require(
        size < most.max / 4,
        f"logits of size {size:.3g} could overflow {q.dtype}: lower the level, "
        "or take float64",
    )
    share = (d + 16) * most.eps
    share = share / (1 - share) if share < 1 else math.inf
    rounded = share * scale * reach * lengths
    underflow = d * most.tiny * (1 + reach) * (1 + scale)
    return q, k, rounded + underflow


def _zeros(
    q: Tensor,
    k: Tensor,
    c: Tensor,
    least: Tensor,
    scale: float,
    buffer: Tensor,
    wide: int,
) -> tuple[Tensor, Tensor]:
    """Over the zeros of some rows: the largest logit, and the sum of exp(logit -
    least).
    """
    # Logits in units of ln 2: exp2 is faster than exp.
    q = q * (scale * math.log2(math.e))
    shift = (least * math.log2(math.e))[:, None]
    top = torch.full_like(least, -math.inf)
    mass = torch.zeros_like(least)
    for logits in _off_support(q, k, c, buffer, wide):
        logits.sub_(shift)
        top = torch.maximum(top, logits.amax(1))
        mass += logits.exp2_().sum(1)
    return top * math.log(2) + least, mass


def _whole_zeros(
    q: Tensor,
    k: Tensor,
    c: Tensor,
    least: Tensor,
    scale: float,
    buffer: Tensor,
    wide: int,
) -> tuple[Tensor, Tensor]:
    """The same for integers, whose sum is bounded by the largest of them."""
    top = q.new_full((len(q),), -math.inf)
    for logits in _off_support(q, k, c, buffer, wide):
        top = torch.maximum(top, logits.amax(1))
    top = top.double() * scale
    zeros = len(k) - (c >= 0).sum(1)
    return top, zeros * (top - least).exp()


def _off_support(
    q: Tensor, k: Tensor, c: Tensor, buffer: Tensor, wide: int
) -> Iterator[Tensor]:
    """Q K' of some rows, tile of keys by tile of keys, -inf on the support; each tile
    takes the place of the one before.
    """
    n = len(k)
    targets, edges = _targets(c, n, wide)
    for j, first, last in zip(range(0, n, wide), edges, edges[1:]):
        keys = k[j : j + wide]
        logits = buffer[: len(q) * len(keys)].view(len(q), len(keys))
        torch.mm(q, keys.T, out=logits)
        logits.view(-1).index_fill_(0, targets[first:last], -math.inf)
        yield logits


def _targets(c: Tensor, n: int, wide: int) -> tuple[Tensor, list[int]]:
    """The pattern of some rows, tile of keys by tile of keys: places in the flattened
    tile, and where those of each tile begin and end.
    """
    columns, order = c.flatten().sort()
    tiles = torch.arange(0, n + wide, wide, device=c.device)
    edges = torch.searchsorted(columns, tiles).tolist()
    starts = columns // wide * wide
    widths = (n - starts).clamp(max=wide)
    rows = order // c.shape[1]
    return rows * widths + columns - starts, edges


def _largest(t: Tensor) -> int:
    """The largest absolute value of an integer tensor, where abs(-128) is no int8."""
    return max(int(t.amax()), -int(t.amin()))


def _lengths(t: Tensor) -> Tensor:
    """The norm of each row in float64, which is a copy: so few rows at a time."""
    parts = []
    for rows in t.split(1024):
        parts.append(torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64))
    return torch.cat(parts)
