"""Rows of a product Q K' against a sparse pattern, tile by tile: no matrix of all pairs
exists at any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib._require import require


class Scan(NamedTuple):
    """For each row: the spread of what should be constant, the smallest gap to a zero,
    and the odds of the zeros.
    """

    spread: Tensor  # max - min over the support of logit - log weight
    # the smallest logit on the support minus the largest off it; inf if the row has no
    # zero
    gap: Tensor
    odds: Tensor  # sum of exp over the zeros / sum of exp over the support
    bytes: int  # of the code, the pattern, the buffers and the result together


def product(q: Tensor, k: Tensor, out: Tensor) -> Tensor:
    """Q K' into `out`; exact for int8, whose sums stay below 2^24 in every type used
    here.

    `_int_mm` does not write its result for a single dimension, so that case goes
    through floats.
    """
    if q.dtype != torch.int8:
        return torch.mm(q, k.T, out=out)
    if q.is_cuda:
        return torch.mm(q.bfloat16(), k.bfloat16().T, out_dtype=torch.float32)
    if hasattr(torch, "_int_mm") and q.shape[1] > 1:
        return torch._int_mm(q, k.T, out=out)
    return torch.mm(q.float(), k.float().T).to(torch.int32)


def supports(q: Tensor, k: Tensor, columns: Tensor) -> Tensor:
    """The logits on the support, (rows, k); the padding reads the last key."""
    whole = q.dtype == torch.int8
    kind = torch.float32 if whole else q.dtype  # holds integers below 2^24 exactly
    found = [(q.to(kind) * k[c].to(kind)).sum(-1) for c in columns.T]
    return torch.stack(found, -1).to(torch.float64 if whole else kind)


def scan(
    q: Tensor,
    k: Tensor,
    columns: Tensor,
    log_weights: Tensor,
    *,
    scale: float,
    tile: tuple[int, int],
    bar: Callable,
    stop: float = -math.inf,
    spread: float = math.inf,
) -> Scan:
    """Every row of scale * Q K'; stops after the first tile of rows with a gap below
    `stop` or a spread above `spread`.
    """
    n, (high, wide) = len(q), tile
    whole = q.dtype == torch.int8
    buffer = torch.empty(
        min(high, n) * min(wide, n),
        dtype=torch.int32 if whole else q.dtype,
        device=q.device,
    )
    parts, most, due = [], 0, 0
    for i in bar(range(0, n, high)):
        require(
            i == due,
            f"progress must pass on every tile of rows in order: row {due} was due, got {i}",
        )
        due = min(i + high, n)
        c = columns[i : i + high]
        on = supports(q[i : i + high], k, c) * scale
        kept = c >= 0
        off = on - log_weights[i : i + high]
        off = off.masked_fill(~kept, -math.inf).amax(1) - off.masked_fill(
            ~kept, math.inf
        ).amin(1)
        least = on.masked_fill(~kept, math.inf).amin(1)
        top, mass = _zeros(q[i : i + high], k, c, least, scale, buffer, wide)
        total = (on - least[:, None]).exp().masked_fill(~kept, 0).sum(1)
        parts.append((off, least - top, mass / total))
        most = max(
            most,
            sum(t.nbytes for t in (on, kept, c, c, c)) + 8 * c.shape[0] * q.shape[1],
        )
        if bool((parts[-1][1] < stop).any() or (parts[-1][0] > spread).any()):
            break
    else:
        require(
            due == n, f"progress must pass on every tile of rows: got {due} of {n} rows"
        )
    rows = [torch.cat(p) for p in zip(*parts)]
    size = (
        sum(t.nbytes for t in (q, k, columns, log_weights, buffer, *rows, *rows)) + most
    )
    return Scan(*rows, size)


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
    n, rows, whole = len(k), len(q), q.dtype == torch.int8
    places, order = (
        c.flatten().sort()
    )  # by column, so that each tile of keys finds its targets side by side
    edges = torch.searchsorted(
        places, torch.arange(0, n + wide, wide, device=c.device)
    ).tolist()
    starts = places // wide * wide
    targets = (
        order // c.shape[1] * (n - starts).clamp(max=wide) + places - starts
    )  # each within its tile, flat
    lowest = torch.iinfo(torch.int32).min if whole else -math.inf
    if not whole:
        q, shift = (
            q * (scale * math.log2(math.e)),
            (least * math.log2(math.e))[:, None],
        )  # exp2 is the faster one
    top, mass = None, torch.zeros_like(least)
    for number, j in enumerate(range(0, n, wide)):
        width = min(wide, n - j)
        out = buffer[: rows * width].view(rows, width)
        logits = product(q, k[j : j + wide], out)
        logits.view(-1).index_fill_(
            0, targets[edges[number] : edges[number + 1]], lowest
        )
        if not whole:
            logits.sub_(shift)
        most = logits.amax(1)
        top = most if top is None else torch.maximum(top, most, out=top)
        if not whole:
            mass += logits.exp2_().sum(1)
    if not whole:
        return top * math.log(2) + least, mass
    zeros = n - (c >= 0).sum(1)
    top = torch.where(zeros > 0, top.to(least.dtype) * scale, -math.inf)
    return top, zeros * (top - least).exp()
