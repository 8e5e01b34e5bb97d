"""Backward: logits are computed again, tile by tile; only out and lse are kept."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnlib.sparse import _entries, _tiles
from attnlib.sparse._plan import Plan, Run
from attnlib.sparse._precision import add_product_
from attnlib.sparse._shapes import Layout, Side

SCORES = 1 << 18  # logits together: they stay in the cache
ON_DEVICE = 1 << 24
LOG2E = math.log2(math.e)


class SparseAttention(torch.autograd.Function):
    """(q, k, v) of (b, n, d) -> out, lse, float32 at least. Saves out and lse, and no
    logits.
    """

    @staticmethod
    def forward(
        ctx, q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float
    ) -> tuple[Tensor, Tensor]:
        out, lse = _tiles.forward(q, k, v, plan, scale)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.plan, ctx.scale = plan, scale
        return out, lse

    @staticmethod
    def backward(ctx, g: Tensor, g_lse: Tensor):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "sparse_attention has first derivatives only: leave out create_graph=True, or take masked_attention"
            )
        with torch.autocast(
            g.device.type, enabled=False
        ):  # backward may be called under it, too
            given = gradients(*ctx.saved_tensors, g, g_lse, ctx.plan, ctx.scale)
        return *(t.to(ctx.saved_tensors[0].dtype) for t in given), None, None


def gradients(
    q, k, v, out, lse, g, g_lse, plan: Plan, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """With P = exp(S - lse): dV = P' G, dS = P * (G V' - rowsum(G * out) + g_lse), dQ =
    scale dS K, dK = scale dS' Q.
    """
    wanted = [torch.zeros_like(t, dtype=out.dtype) for t in (q, k, v)]
    g = g.contiguous()
    drift = torch.stack([_dots(*pair) for pair in zip(g, out)]) - g_lse
    g = g.to(q.dtype)
    other = (
        lse if plan.taken is None else lse.index_fill(1, plan.taken, math.inf)
    )  # P = 0 in rows that Rows decides
    if plan.entries is not None:
        _entries.add_gradients(wanted, (q, k, v, g), other, drift, plan.entries, scale)
    for family in plan.families:
        layout, kept = family.layout, lse if family.takes else other
        size = max(1, (SCORES if q.device.type == "cpu" else ON_DEVICE) // layout.pairs)
        size = min(size, max(run.stop - run.start for run in family.runs))
        scratch = out.new_empty(
            2, size, layout.q.size, layout.k.size
        )  # fresh pages cost more than the arithmetic
        for run in family.runs:
            for start in range(run.start, run.stop, size):
                _one(
                    (q, k, v, g),
                    wanted,
                    kept,
                    drift,
                    layout,
                    run,
                    start,
                    min(run.stop, start + size),
                    scale,
                    scratch,
                )
    return tuple(wanted)


def _dots(g: Tensor, out: Tensor, rows: int = 512) -> Tensor:
    """The inner product of each row, a few rows at a time."""
    return torch.cat([(a * b).sum(-1) for a, b in zip(g.split(rows), out.split(rows))])


def _one(
    given,
    wanted,
    lse,
    drift,
    layout: Layout,
    run: Run,
    start: int,
    stop: int,
    scale: float,
    scratch: Tensor,
) -> None:
    """What the tiles start..stop - 1 add to the three gradients."""
    q, k, v, g = given
    bias, _ = _tiles.mask_of(run, start, stop)
    tile_q, tile_g, tile_l, tile_d = (
        _tiles.tiled(t, layout.q, start, stop) for t in (q, g, lse, drift)
    )
    tile_k, tile_v = (_tiles.tiled(t, layout.k, start, stop) for t in (k, v))
    (add_q, put_q), (add_k, put_k), (add_v, put_v) = (
        _target(t, side, start, stop)
        for t, side in zip(wanted, (layout.q, layout.k, layout.k))
    )
    p, ds = scratch[:, : stop - start]
    for b in range(len(q)):
        l_b = tile_l[b].unsqueeze(-1)
        p.copy_(-l_b) if bias is None else torch.sub(bias, l_b, out=p)
        add_product_(p, tile_q[b], tile_k[b].mT, scale).mul_(
            LOG2E
        ).exp2_()  # exp is many times slower at -inf
        ds.copy_(-tile_d[b].unsqueeze(-1))
        add_product_(ds, tile_g[b], tile_v[b].mT).mul_(p)
        low_p, low_ds = p.to(q.dtype), ds.to(q.dtype)  # itself, unless tiles are halves
        add_product_(add_q[b], low_ds, tile_k[b], scale)
        _spread(add_k[b], low_ds, tile_q[b], layout.k, scale)
        _spread(add_v[b], low_p, tile_g[b], layout.k, 1.0)
    put_q(), put_k(), put_v()


def _target(x: Tensor, side: Side, start: int, stop: int):
    """Where tiles start..stop - 1 are added up, (b, t, size, d), and a function that
    brings them to x if that is not x.
    """
    a, b = side.ends(start, stop)
    n = x.shape[1]
    if side.order is None and a >= 0 and b <= n:
        return _tiles.strips(x[:, a:b], side, stop - start), lambda: None
    held = x.new_zeros(len(x), b - a, x.shape[-1])
    tiles = _tiles.strips(held, side, stop - start)
    if side.order is not None:  # holes add zeros to some row
        return tiles, lambda: x.index_add_(1, side.order[a:b], held)
    low, high = max(a, 0), min(b, n)
    return tiles, lambda: x[:, low:high].add_(held[:, low - a : high - a])


def _spread(
    target: Tensor, weights: Tensor, rows: Tensor, side: Side, scale: float
) -> None:
    """target += scale weights' rows, each tile at its place; of tiles that overlap,
    those far apart go together.
    """
    if side.hop == 0:
        add_product_(
            target[:1],
            weights.flatten(0, 1).T.unsqueeze(0),
            rows.flatten(0, 1).unsqueeze(0),
            scale,
        )
        return
    apart = side.apart(len(weights))
    for first in range(min(apart, len(weights))):
        every = slice(first, None, apart)
        add_product_(target[every], weights[every].mT, rows[every], scale)
