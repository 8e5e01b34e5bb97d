"""Lists without a structure: no tiles, but their entries alone, as compressed sparse
rows.

Logits are inner products at the entries (sampled_addmm), rows of values are added up
with weights (embedding_bag): what torch has for graphs and for word counts is what a
pattern without blocks asks for, forward and backward.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.patterns.parts import _starts
from attnlib.sparse.precision import HALVES

# entries of several heads in one call, where starting a call is what costs
TOGETHER = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Token i reads col[crow[i] : crow[i + 1]]; there row is i.

    The transposed: key j is read by row_t[crow_t[j] : crow_t[j + 1]], and its entries
    stand at `turn` among the others.
    """

    crow: Tensor
    row: Tensor
    col: Tensor
    crow_t: Tensor
    row_t: Tensor
    turn: Tensor

    def to(self, device: torch.device) -> Entries:
        """The same entries on a device."""
        own = {f.name: getattr(self, f.name).to(device) for f in fields(self)}
        return Entries(**own)

    def repeated(self, heads: int) -> Entries:
        """The same entries in each of some heads, whose tokens follow each other."""
        if heads == 1:
            return self
        n = len(self.crow) - 1
        size = len(self.col)
        head = torch.arange(heads, device=self.col.device)
        head = head.unsqueeze(-1)

        def moved(t: Tensor, by: int) -> Tensor:
            return (t + by * head).flatten()

        def starts(crow: Tensor) -> Tensor:
            ends = moved(crow[1:], size)
            return torch.cat([crow[:1], ends])

        return Entries(
            crow=starts(self.crow),
            row=moved(self.row, n),
            col=moved(self.col, n),
            crow_t=starts(self.crow_t),
            row_t=moved(self.row_t, n),
            turn=moved(self.turn, size),
        )


def entries_of(rows: Tensor, columns: Tensor, n: int) -> Entries:
    """The entries (rows[e], columns[e]) in order.

    Args:
        rows, columns: (entries,) int64, each pair once.
        n: tokens.

    Returns:
        Entries.

    Cost: two sorts of the entries.
    Source: none.
    """
    order = (rows * n + columns).argsort()
    rows = rows[order]
    columns = columns[order]
    turn = columns.argsort(stable=True)
    made = Entries(
        crow=_starts(rows.bincount(minlength=n)),
        row=rows,
        col=columns,
        crow_t=_starts(columns.bincount(minlength=n)),
        row_t=rows[turn],
        turn=turn,
    )
    # that compressed rows are in beta is said once, and is meant for torch's developers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nothing = torch.zeros(n, 1, device="cpu")
        _products(made, nothing, nothing)
    return made


def _products(entries: Entries, x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor:
    """scale <x_i, y_j> at each entry (i, j)."""
    zeros = x.new_zeros(len(entries.col))
    size = (len(x), len(y))
    given = entries.crow, entries.col, zeros
    zero = torch.sparse_csr_tensor(*given, size=size, device=x.device)
    made = torch.sparse.sampled_addmm(zero, x, y.mT, beta=0.0, alpha=scale)
    return made.values()


def _sums(index: Tensor, starts: Tensor, weights: Tensor, y: Tensor) -> Tensor:
    """Row i: the sum of weights[e] y[index[e]] over starts[i] <= e < starts[i + 1]."""
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
    """Attention at the entries alone.

    Args:
        q, k, v: (b, n, d).
        entries: of n tokens.
        scale: of the logits.

    Returns:
        out (b, n, d_v) and lse (b, n), in float32 at least. A row without a key has out
        = 0 and lse = -inf.

    Cost: 2 (d + d_v) FLOPs an entry and head; memory O(entries + n d_v).
    Source: none.
    """
    b, n = q.shape[:2]
    outs = []
    lses = []
    for own, *heads in _heads(entries, q, k, v):
        out, lse = _forward(own, *heads, scale)
        outs.append(out)
        lses.append(lse)
    out = torch.cat(outs)
    lse = torch.cat(lses)
    return out.view(b, n, -1), lse.view(b, n)


def _forward(
    entries: Entries, q: Tensor, k: Tensor, v: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    crow = entries.crow
    logits = _products(entries, q, k, scale)
    top = torch.segment_reduce(logits, "max", offsets=crow, initial=-math.inf)
    top = top.masked_fill(top.isneginf(), 0)
    e = (logits - top.index_select(0, entries.row)).exp_()
    total = torch.segment_reduce(e, "sum", offsets=crow, initial=0)
    sums = _sums(entries.col, crow, e, v)
    divisor = total.masked_fill(total == 0, 1)
    return sums / divisor.unsqueeze(-1), top + total.log()


def add_gradients(
    wanted, given, lse: Tensor, drift: Tensor, entries: Entries, scale: float
) -> None:
    """Add what the entries give to the gradients dQ, dK, dV.

    Args:
        wanted: dQ, dK, dV, (b, n, ...) each, written to.
        given: Q, K, V, G, (b, n, ...) each.
        lse, drift: (b, n), as in `attnlib.sparse.tiles.gradients`.
        entries, scale: as in forward.

    Cost: 2 (3 d + 2 d_v) FLOPs an entry and head.
    Source: none.
    """
    for own, *heads in _heads(entries, *given, lse, drift, *wanted):
        q, k, v, g, lse_here, drift_here, dq, dk, dv = heads
        logits = _products(own, q, k, scale)
        p = (logits - lse_here.index_select(0, own.row)).exp_()
        dp = _products(own, g, v)
        ds = dp - drift_here.index_select(0, own.row)
        ds.mul_(p).mul_(scale)
        dq += _sums(own.col, own.crow, ds, k)
        dk += _sums(own.row_t, own.crow_t, ds[own.turn], q)
        dv += _sums(own.row_t, own.crow_t, p[own.turn], g)


def _heads(entries: Entries, *given: Tensor) -> Iterator[tuple]:
    """A few heads at a time: their entries, and their tensors as (heads n, ...)."""
    b = len(given[0])
    size = 1
    if given[0].device.type != "cpu":
        size = max(1, min(b, TOGETHER // len(entries.col)))
    for start in range(0, b, size):
        stop = min(b, start + size)
        heads = [_flat(t[start:stop]) for t in given]
        yield entries.repeated(stop - start), *heads


def _flat(t: Tensor) -> Tensor:
    """The tokens of one head after another, in float32 at least."""
    tokens = t.flatten(0, 1)
    return tokens.float() if tokens.dtype in HALVES else tokens
