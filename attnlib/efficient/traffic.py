"""What attention moves between slow and fast memory: stored logits against tiles, by
formula, and counted in literal passes.

    naive: reads 3 n d + 2 n^2 numbers, writes 2 n^2 + n d
    fused: reads n d + 2 n d ceil(n / rows), writes n d + n

Page: notebooks/jl_low_rank/complexity_table
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib import _require
from attnlib._require import require, sizes


class Traffic(NamedTuple):
    """Bytes that one pass reads from slow memory, and writes to it."""

    read: int
    written: int

    @property
    def moved(self) -> int:
        """Both together."""
        return self.read + self.written


def traffic(
    row: str,
    n: int,
    d: int,
    *,
    rows: int | None = None,
    columns: int | None = None,
    bytes_each: int = 2,
) -> Traffic:
    """Bytes that one head of dense attention moves, forward, without a mask.

    Naive stores the logits, reads them for softmax, stores the weights and reads them
    for the values. Fused holds `rows` queries in fast memory while all keys and values
    pass by; beside its answers it writes the logarithm of each sum, for the backward
    pass.

    Args:
        row: naive or fused.
        d: width of a head, values included.
        rows, columns: queries and keys of a tile, for fused alone; columns does not
            change what is moved.
        bytes_each: bytes of a number.

    Source: the loops of Dao 2024 (FlashAttention-2), recalled, counted here. In the
        order of Dao et al. 2022 the keys stay and queries and answers pass by.
    Claim: efficient.io
    """
    _require.one_of(["naive", "fused"], row=row)
    sizes(1, n=n, d=d, bytes_each=bytes_each)
    if row == "naive":
        require(
            rows is None and columns is None,
            f"naive has no tiles: rows and columns must be None, got {rows}, {columns}",
        )
        read = 3 * n * d + 2 * n * n
        written = 2 * n * n + n * d
    else:
        sizes(1, rows=rows, columns=columns)
        read = n * d + 2 * n * d * math.ceil(n / rows)
        written = n * d + n
    return Traffic(read * bytes_each, written * bytes_each)


class _Slow:
    """Slow memory: what is loaded and stored is counted, in bytes."""

    def __init__(self):
        self.read = 0
        self.written = 0

    def load(self, t: Tensor) -> Tensor:
        self.read += t.numel() * t.element_size()
        return t

    def store(self, t: Tensor) -> Tensor:
        self.written += t.numel() * t.element_size()
        return t


def naive_attention(
    q: Float[Tensor, "n d"], k: Float[Tensor, "n d"], v: Float[Tensor, "n d_v"]
) -> tuple[Float[Tensor, "n d_v"], Traffic]:
    """Dense attention of one head in three passes, and what they moved: each load and
    store is counted where it happens.

    Source: the definition.
    Claim: efficient.io
    """
    _one_head(q, k, v)
    slow = _Slow()
    a = slow.load(q) @ slow.load(k).mT
    a = slow.store(a / math.sqrt(q.shape[-1]))
    p = torch.softmax(slow.load(a), -1)
    slow.store(p)
    y = slow.store(slow.load(p) @ slow.load(v))
    return y, Traffic(slow.read, slow.written)


def tiled_attention(
    q: Float[Tensor, "n d"],
    k: Float[Tensor, "n d"],
    v: Float[Tensor, "n d_v"],
    *,
    rows: int,
    columns: int,
) -> tuple[Float[Tensor, "n d_v"], Traffic]:
    """Dense attention tile by tile, and what it moved: no n x n matrix is ever stored.

    Some queries stay, all keys and values pass by. For each query a largest logit m, a
    sum s of exponentials and a sum of values are kept, all relative to m:

        m' = max(m, a),   s = e^{m - m'} s + sum e^{a - m'}

    Args:
        rows, columns: queries and keys of a tile.

    Source: Dao et al. 2022 and Dao 2024 (FlashAttention), recalled.
    Claim: efficient.io
    """
    _one_head(q, k, v)
    sizes(1, rows=rows, columns=columns)
    slow = _Slow()
    scale = 1 / math.sqrt(q.shape[-1])
    columns = min(int(columns), len(k))
    keys = k.split(columns)
    values = v.split(columns)
    answers = []
    rows = min(int(rows), len(q))
    for some in q.split(rows):
        queries = slow.load(some) * scale
        top = q.new_full((len(some), 1), -math.inf)
        mass = q.new_zeros(len(some), 1)
        sums = q.new_zeros(len(some), v.shape[-1])
        for some_keys, some_values in zip(keys, values):
            a = queries @ slow.load(some_keys).mT
            new_top = torch.maximum(top, a.amax(-1, keepdim=True))
            shrink = (top - new_top).exp()
            p = (a - new_top).exp()
            mass = shrink * mass + p.sum(-1, keepdim=True)
            sums = shrink * sums + p @ slow.load(some_values)
            top = new_top
        answers.append(slow.store(sums / mass))
        slow.store(top + mass.log())
    return torch.cat(answers), Traffic(slow.read, slow.written)


def _one_head(q: Tensor, k: Tensor, v: Tensor) -> None:
    _require.heads(q, k, v, one_length=True)
    require(q.dim() == 2, f"q must be (n, d), one head alone, got {tuple(q.shape)}")
