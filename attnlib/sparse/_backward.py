"""Backward: logits are computed again, tile by tile; only out and lse are kept."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnlib.sparse import _entries, _tiles
from attnlib.sparse._plan import Family, Plan, Run
from attnlib.sparse._precision import add_product_
from attnlib.sparse._shapes import Layout, Side

SCORES = 1 << 18  # logits together: they stay in the cache
ON_DEVICE = 1 << 24
LOG2E = math.log2(math.e)


class SparseAttention(torch.autograd.Function):
    """(q, k, v) of (b, n, d) -> out, lse, float32 at least.

    It saves out and lse, and no logits.
    """

    @staticmethod
    def forward(
        ctx, q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float
    ) -> tuple[Tensor, Tensor]:
        out, lse = _tiles.forward(q, k, v, plan, scale)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.plan = plan
        ctx.scale = scale
        return out, lse

    @staticmethod
    def backward(ctx, g: Tensor, g_lse: Tensor):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "sparse_attention has first derivatives only: "
                "leave out create_graph=True, or take masked_attention"
            )
        saved = ctx.saved_tensors
        # backward may be called under autocast, too
        with torch.autocast(g.device.type, enabled=False):
            wanted = gradients(*saved, g, g_lse, ctx.plan, ctx.scale)
        q = saved[0]
        dq, dk, dv = (t.to(q.dtype) for t in wanted)
        return dq, dk, dv, None, None


def gradients(
    q, k, v, out, lse, g, g_lse, plan: Plan, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """dQ, dK and dV, where S = scale Q K' and P = exp(S - lse).

    dV = P' G,   dS = P * (G V' - rowsum(G * out) + g_lse),
    dQ = scale dS K,   dK = scale dS' Q
    """
    wanted = tuple(torch.zeros_like(t, dtype=out.dtype) for t in (q, k, v))
    g = g.contiguous()
    dots = [_dots(*pair) for pair in zip(g, out)]
    drift = torch.stack(dots) - g_lse
    given = (q, k, v, g.to(q.dtype))
    other = lse
    if plan.taken is not None:  # P = 0 in rows that Rows decides
        other = lse.index_fill(1, plan.taken, math.inf)
    if plan.entries is not None:
        _entries.add_gradients(wanted, given, other, drift, plan.entries, scale)
    for family in plan.families:
        kept = lse if family.takes else other
        _add_family(wanted, given, kept, drift, family, scale)
    return wanted


def _dots(g: Tensor, out: Tensor, rows: int = 512) -> Tensor:
    """The inner product of each row, a few rows at a time."""
    pairs = zip(g.split(rows), out.split(rows))
    return torch.cat([(a * b).sum(-1) for a, b in pairs])


def _add_family(
    wanted: tuple[Tensor, ...],
    given: tuple[Tensor, ...],
    lse: Tensor,
    drift: Tensor,
    family: Family,
    scale: float,
) -> None:
    """What the tiles of a family add to the three gradients, some tiles at a time."""
    layout = family.layout
    scores = SCORES if lse.device.type == "cpu" else ON_DEVICE
    longest = max(run.stop - run.start for run in family.runs)
    size = min(longest, max(1, scores // layout.pairs))
    # taken once: fresh pages cost more than the arithmetic
    scratch = lse.new_empty(2, size, layout.q.size, layout.k.size)
    for run in family.runs:
        for start in range(run.start, run.stop, size):
            stop = min(run.stop, start + size)
            _add_tiles(
                wanted, given, lse, drift, layout, run, start, stop, scale, scratch
            )


def _add_tiles(
    wanted: tuple[Tensor, ...],
    given: tuple[Tensor, ...],
    lse: Tensor,
    drift: Tensor,
    layout: Layout,
    run: Run,
    start: int,
    stop: int,
    scale: float,
    scratch: Tensor,
) -> None:
    """What the tiles start..stop - 1 add to the three gradients."""
    q, k, v, g = given
    tile_q = _tiles.tiled(q, layout.q, start, stop)
    tile_g = _tiles.tiled(g, layout.q, start, stop)
    tile_lse = _tiles.tiled(lse, layout.q, start, stop)
    tile_drift = _tiles.tiled(drift, layout.q, start, stop)
    tile_k = _tiles.tiled(k, layout.k, start, stop)
    tile_v = _tiles.tiled(v, layout.k, start, stop)
    dq, dk, dv = wanted
    room_q = _room(dq, layout.q, start, stop)
    room_k = _room(dk, layout.k, start, stop)
    room_v = _room(dv, layout.k, start, stop)
    tile_dq = _tiles.strips(room_q, layout.q, stop - start)
    tile_dk = _tiles.strips(room_k, layout.k, stop - start)
    tile_dv = _tiles.strips(room_v, layout.k, stop - start)
    bias, _ = _tiles.mask_of(run, start, stop)
    p, ds = scratch[:, : stop - start]
    for b in range(len(q)):
        minus_lse = -tile_lse[b].unsqueeze(-1)
        if bias is None:
            p.copy_(minus_lse)
        else:
            torch.add(bias, minus_lse, out=p)
        add_product_(p, tile_q[b], tile_k[b].mT, scale)
        p.mul_(LOG2E).exp2_()  # exp is many times slower at -inf
        ds.copy_(-tile_drift[b].unsqueeze(-1))
        add_product_(ds, tile_g[b], tile_v[b].mT)
        ds.mul_(p)
        low_p = p.to(q.dtype)  # itself, unless tiles are halves
        low_ds = ds.to(q.dtype)
        add_product_(tile_dq[b], low_ds, tile_k[b], scale)
        _spread(tile_dk[b], low_ds, tile_q[b], layout.k, scale)
        _spread(tile_dv[b], low_p, tile_g[b], layout.k, 1.0)
    _bring(dq, room_q, layout.q, start, stop)
    _bring(dk, room_k, layout.k, start, stop)
    _bring(dv, room_v, layout.k, start, stop)


def _room(x: Tensor, side: Side, start: int, stop: int) -> Tensor:
    """Where the positions of tiles start..stop - 1 are added up.

    These are rows of x itself where they stand there as they are, and zeros where not.
    """
    b, n, d = x.shape
    low, high = side.ends(start, stop)
    if side.order is None and low >= 0 and high <= n:
        return x[:, low:high]
    return x.new_zeros(b, high - low, d)


def _bring(x: Tensor, room: Tensor, side: Side, start: int, stop: int) -> None:
    """Add to x what was added up in a room that is not x itself."""
    n = x.shape[1]
    low, high = side.ends(start, stop)
    if side.order is not None:  # holes add zeros to some row
        x.index_add_(1, side.order[low:high], room)
    elif low < 0 or high > n:
        inside = room[:, max(-low, 0) : n - low]
        x[:, max(low, 0) : high].add_(inside)


def _spread(
    target: Tensor, weights: Tensor, rows: Tensor, side: Side, scale: float
) -> None:
    """target += scale weights' rows, each tile at its place.

    Of tiles that overlap, those far apart go together.
    """
    if side.hop == 0:  # all tiles share their keys
        all_weights = weights.flatten(0, 1).T.unsqueeze(0)
        all_rows = rows.flatten(0, 1).unsqueeze(0)
        add_product_(target[:1], all_weights, all_rows, scale)
        return
    count = len(weights)
    apart = side.apart(count)
    for first in range(min(apart, count)):
        every = slice(first, None, apart)
        add_product_(target[every], weights[every].mT, rows[every], scale)
