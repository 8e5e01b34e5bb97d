"""Rows of a product Q K' against a sparse pattern, tile by tile: no matrix of all pairs
exists at any time.

Page: notebooks/sparse_patterns/logarithmic_dimension
"""

from __future__ import annotations

import math
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
    tile: tuple[int, int],
    stop: float = -math.inf,
    spread: float = math.inf,
    progress: bool = False,
) -> _Scan:
    """Every row of scale * Q K'; ends after the first tile of rows with a gap below
    `stop` or a spread above `spread`.
    """
    n, d = q.shape
    high, wide = tile
    kind = torch.int32 if q.dtype == torch.int8 else q.dtype
    largest = min(high, n) * min(wide, n)
    buffer = torch.empty(largest, dtype=kind, device=q.device)
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
        on = _supports(some, k, c) * scale
        constant = on - log_weights[i : i + high]
        above = constant.masked_fill(padding, -math.inf).amax(1)
        below = constant.masked_fill(padding, math.inf).amin(1)
        least = on.masked_fill(padding, math.inf).amin(1)
        top, mass = _zeros(some, k, c, least, scale, buffer, wide)
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
    whole = q.dtype == torch.int8
    kind = torch.float32 if whole else q.dtype  # holds integers below 2^24 exactly
    q = q.to(kind)
    found = []
    for c in columns.T:
        found.append((q * k[c].to(kind)).sum(-1))
    on = torch.stack(found, -1)
    return on.double() if whole else on


def _logits(q: Tensor, k: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys in the type of the products, and how far rounding may move a gap
    of each row, (n,).

    Sixteen bits are read into thirty-two, which is exact. A sum of d products is off by
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
        return q, k, torch.zeros(len(q), dtype=torch.float64, device=q.device)
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


def _product(q: Tensor, k: Tensor, out: Tensor) -> Tensor:
    """Q K' into `out`; exact for int8, whose sums stay below 2^24 in every type used
    here.

    `_int_mm` does not write its result for a single dimension, so that case goes
    through floats.
    """
    if q.dtype != torch.int8:
        return torch.mm(q, k.T, out=out)
    if q.is_cuda:
        q = q.bfloat16()
        k = k.bfloat16()
        return torch.mm(q, k.T, out_dtype=torch.float32)
    if hasattr(torch, "_int_mm") and q.shape[1] > 1:
        return torch._int_mm(q, k.T, out=out)
    logits = torch.mm(q.float(), k.float().T)
    return logits.to(torch.int32)


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
    least), bounded by the largest for int8.
    """
    n = len(k)
    rows = len(q)
    whole = q.dtype == torch.int8
    targets, edges = _targets(c, n, wide)
    lowest = torch.iinfo(torch.int32).min if whole else -math.inf
    if not whole:
        # Logits in units of ln 2: exp2 is faster than exp.
        q = q * (scale * math.log2(math.e))
        shift = (least * math.log2(math.e))[:, None]
    top = None
    mass = torch.zeros_like(least)
    for j, first, last in zip(range(0, n, wide), edges, edges[1:]):
        width = min(wide, n - j)
        out = buffer[: rows * width].view(rows, width)
        logits = _product(q, k[j : j + wide], out)
        logits.view(-1).index_fill_(0, targets[first:last], lowest)
        if not whole:
            logits.sub_(shift)
        most = logits.amax(1)
        top = most if top is None else torch.maximum(top, most, out=top)
        if not whole:
            mass += logits.exp2_().sum(1)
    if not whole:
        return top * math.log(2) + least, mass
    zeros = n - (c >= 0).sum(1)
    top = top.to(least.dtype) * scale
    top = top.masked_fill(zeros == 0, -math.inf)
    return top, zeros * (top - least).exp()


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
