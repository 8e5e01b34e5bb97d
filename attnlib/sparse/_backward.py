"""Backward: logits are computed again, tile by tile; only out and lse are kept."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnlib.sparse import _tiles
from attnlib.sparse._plan import Plan, Run
from attnlib.sparse._shapes import Layout

SCORES = 1 << 18  # logits together: they stay in the cache
ON_DEVICE = 1 << 24


class SparseAttention(torch.autograd.Function):
    """(q, k, v) of (b, n, d) -> out, lse. Saves out and lse, and no logits."""

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float) -> tuple[Tensor, Tensor]:
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
        with torch.autocast(g.device.type, enabled=False):  # backward may be called under it, too
            return *gradients(*ctx.saved_tensors, g, g_lse, ctx.plan, ctx.scale), None, None


def gradients(q, k, v, out, lse, g, g_lse, plan: Plan, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """With P = exp(S - lse):  dV = P' G,  dS = P * (G V' - rowsum(G * out) + g_lse),  dQ = scale dS K,  dK = scale dS' Q."""
    dq, dk, dv = (torch.zeros_like(t) for t in (q, k, v))
    g = g.contiguous()
    drift = torch.stack([_dots(*pair) for pair in zip(g, out)]) - g_lse
    other = lse if plan.taken is None else lse.index_fill(1, plan.taken, math.inf)  # P = 0 in rows that Rows decides
    for family in plan.families:
        layout, kept = family.layout, lse if family.takes else other
        size = max(1, (SCORES if q.device.type == "cpu" else ON_DEVICE) // (layout.c * layout.width))
        size = min(size, max(run.stop - run.start for run in family.runs))
        scratch = q.new_empty(2, size, layout.c, layout.width)  # fresh pages cost more than the arithmetic on them
        for run in family.runs:
            for start in range(run.start, run.stop, size):
                _one((q, k, v, g), (dq, dk, dv), kept, drift, layout, run, start, min(run.stop, start + size), scale, scratch)
    return dq, dk, dv


def _dots(g: Tensor, out: Tensor, rows: int = 512) -> Tensor:
    """The inner product of each row, a few rows at a time."""
    return torch.cat([(a * b).sum(-1) for a, b in zip(g.split(rows), out.split(rows))])


def _one(given, wanted, lse, drift, layout: Layout, run: Run, start: int, stop: int, scale: float, scratch: Tensor) -> None:
    """What the tiles start..stop - 1 add to the three gradients."""
    (q, k, v, g), (dq, dk, dv) = given, wanted
    count, c, order = stop - start, layout.c, layout.q_order
    bias, _ = _tiles.mask_of(run, start, stop)
    rows = [_tiles.fetch(t, order, start * c, stop * c).unflatten(1, (count, c)) for t in (q, g, lse, drift)]
    keys = [_tiles.keys_of(t, layout, start, stop) for t in (k, v)]
    add_q, put_q = _target(dq, order, start * c, stop * c)
    first = start * layout.hop - layout.left
    (add_k, put_k), (add_v, put_v) = (_target(t, layout.k_order, first, first + keys[0].shape[1]) for t in (dk, dv))
    tiles = [_tiles.key_tiles(t, layout, count) for t in keys]
    p, ds = scratch[:, :count]
    for b in range(len(q)):
        (q_b, g_b, l_b, d_b), (k_b, v_b) = (t[b] for t in rows), (t[b] for t in tiles)
        if bias is None:
            p.copy_(l_b.neg().unsqueeze(-1).expand_as(p))
        else:
            torch.sub(bias, l_b.unsqueeze(-1), out=p)
        p.baddbmm_(q_b, k_b.mT, alpha=scale).exp_()
        torch.bmm(g_b, v_b.mT, out=ds)
        ds.sub_(d_b.unsqueeze(-1)).mul_(p)
        add_q[b].unflatten(0, (count, c)).baddbmm_(ds, k_b, alpha=scale)
        _spread(add_k[b], ds, q_b, layout, scale)
        _spread(add_v[b], p, g_b, layout, 1.0)
    put_q(), put_k(), put_v()


def _target(x: Tensor, order: Tensor | None, a: int, b: int):
    """Where positions a..b - 1 are added up, (b, b - a, d), and a function that brings them to x, if they are not x."""
    n = x.shape[1]
    if order is None and a >= 0 and b <= n:
        return x[:, a:b], lambda: None
    held = x.new_zeros(len(x), b - a, x.shape[-1])
    if order is not None:  # holes add zeros to some row
        return held, lambda: x.index_add_(1, order[a:b].clamp_min(0), held)
    low, high = max(a, 0), min(b, n)
    return held, lambda: x[:, low:high].add_(held[:, low - a : high - a])


def _spread(target: Tensor, weights: Tensor, rows: Tensor, layout: Layout, scale: float) -> None:
    """target += scale weights' rows, each tile at its place; overlapping tiles go a stretch of `hop` keys at a time."""
    count, hop, width = len(weights), layout.hop, layout.width
    if hop == 0:
        target.addmm_(weights.flatten(0, 1).T, rows.flatten(0, 1), alpha=scale)
        return
    for a in range(0, width, hop):
        size = min(hop, width - a)
        at = target.as_strided((count, size, target.shape[-1]), (hop * target.stride(0), target.stride(0), 1), target.storage_offset() + a * target.stride(0))
        at.baddbmm_(weights[..., a : a + size].mT, rows, alpha=scale)
