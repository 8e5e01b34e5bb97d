"""Lists without a structure: no tiles, but their entries alone, as compressed sparse
rows.

Logits are inner products at the entries (sampled_addmm), rows of values are added up
with weights (embedding_bag): what torch has for graphs and for word counts is what a
pattern without blocks asks for, forward and backward.
"""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

TOGETHER = (
    1 << 22
)  # entries of several heads in one call, where starting a call is what costs


class Entries(NamedTuple):
    """Token i reads col[crow[i]:crow[i + 1]], where row is i. The transposed: key j is
    read by row_t[crow_t[j]:crow_t[j + 1]], and its entries stand at `turn` among the
    others.
    """

    crow: Tensor
    row: Tensor
    col: Tensor
    crow_t: Tensor
    row_t: Tensor
    turn: Tensor

    def repeated(self, heads: int) -> Entries:
        """The same entries in each of some heads, whose tokens stand one head after
        another.
        """
        if heads == 1:
            return self
        n, size = len(self.crow) - 1, len(self.col)
        place = torch.arange(heads, device=self.col.device)[:, None]

        def on(t, by):
            return (t + by * place).flatten()

        def heads_of(crow):
            return torch.cat([crow[:1], on(crow[1:], size)])

        return Entries(
            heads_of(self.crow),
            on(self.row, n),
            on(self.col, n),
            heads_of(self.crow_t),
            on(self.row_t, n),
            on(self.turn, size),
        )


def entries_of(rows: Tensor, columns: Tensor, n: int, device: torch.device) -> Entries:
    """The entries (rows[e], columns[e]), each given once."""
    order = (rows * n + columns).argsort()
    rows, columns = rows[order], columns[order]

    def starts(t):
        return F.pad(t.bincount(minlength=n).cumsum(0), (1, 0))

    turn = columns.argsort(stable=True)
    made = Entries(starts(rows), rows, columns, starts(columns), rows[turn], turn)
    # that compressed rows are in beta is said once, and is meant for torch's developers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _products(made, *(torch.zeros(n, 1) for _ in range(2)))
    return Entries(*(t.to(device) for t in made))


def _products(entries: Entries, x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor:
    """scale <x_i, y_j> at each entry (i, j)."""
    zero = torch.sparse_csr_tensor(
        entries.crow, entries.col, x.new_zeros(len(entries.col)), size=(len(x), len(y))
    )
    return torch.sparse.sampled_addmm(zero, x, y.mT, beta=0.0, alpha=scale).values()


def _sums(index: Tensor, starts: Tensor, weights: Tensor, y: Tensor) -> Tensor:
    """Row i is the sum of weights[e] y[index[e]] over starts[i] <= e < starts[i +
    1].
    """
    return F.embedding_bag(
        index,
        y,
        starts,
        mode="sum",
        per_sample_weights=weights,
        include_last_offset=True,
    )


def forward(
    q: Tensor, k: Tensor, v: Tensor, entries: Entries, scale: float
) -> tuple[Tensor, Tensor]:
    """(b, n, d) each -> out (b, n, d_v) and lse (b, n), in float32 at least; without a
    key out = 0 and lse = -inf.
    """
    made = [_forward(*heads, scale) for heads in _heads(entries, q, k, v)]
    out, lse = (torch.cat(t) for t in zip(*made))
    return out.view(*q.shape[:2], -1), lse.view(q.shape[:2])


def _forward(
    entries: Entries, q: Tensor, k: Tensor, v: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    logits = _products(entries, q, k, scale)
    top = torch.segment_reduce(logits, "max", offsets=entries.crow, initial=-math.inf)
    held = top.masked_fill(top.isneginf(), 0)
    e = (logits - held.index_select(0, entries.row)).exp_()
    total = torch.segment_reduce(e, "sum", offsets=entries.crow, initial=0)
    out = _sums(entries.col, entries.crow, e, v)
    return out / total.masked_fill(total == 0, 1).unsqueeze(-1), held + total.log()


def add_gradients(
    wanted, given, lse: Tensor, drift: Tensor, entries: Entries, scale: float
) -> None:
    """What the entries add to dQ, dK, dV: `wanted` and `given` are (dQ, dK, dV) and (Q,
    K, V, G), (b, n, ...) each.
    """
    for own, *heads in _heads(entries, *given, lse, drift, *wanted):
        q, k, v, g, lse_, drift_, *targets = heads
        p = (_products(own, q, k, scale) - lse_.index_select(0, own.row)).exp_()
        ds = (
            (_products(own, g, v) - drift_.index_select(0, own.row)).mul_(p).mul_(scale)
        )
        turned = ds[own.turn], p[own.turn]
        targets[0] += _sums(own.col, own.crow, ds, k)
        targets[1] += _sums(own.row_t, own.crow_t, turned[0], q)
        targets[2] += _sums(own.row_t, own.crow_t, turned[1], g)


def _heads(entries: Entries, *given: Tensor):
    """A few heads at a time, their tokens one head after another: (entries of them,
    tensors (heads n, ...)).
    """
    b, n = given[0].shape[:2]
    size = (
        1
        if given[0].device.type == "cpu"
        else max(1, min(b, TOGETHER // len(entries.col)))
    )

    def wide(t):
        return t.float() if t.dtype in (torch.float16, torch.bfloat16) else t

    for a in range(0, b, size):
        some = [t[a : a + size] for t in given]
        yield (
            entries.repeated(len(some[0])),
            *(wide(t.reshape(-1, *t.shape[2:])) for t in some),
        )
