"""Forward: every family by one tile kernel, parts merged by log-sum-exp."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.sparse._plan import Family, Plan, Run
from attnlib.sparse._shapes import Layout

GATHERED = 1 << 19  # numbers of keys gathered together: they stay in the cache
SCORES = 1 << 24  # logits together, where no fused kernel keeps them in registers


def forward(q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float) -> tuple[Tensor, Tensor]:
    """(b, n, d) each -> out (b, n, d_v) and lse (b, n)."""
    b, n, _ = q.shape
    out, lse = v.new_empty(b, n, v.shape[-1]), q.new_full((b, n), -math.inf)
    for family in plan.families:
        for run in family.runs:
            for start, stop in chunks(family.layout, run, b, q.shape[-1] + v.shape[-1], fused(q, v)):
                _one(q, k, v, out, lse, family, run, start, stop, scale)
    return out, lse


def chunks(layout: Layout, run: Run, b: int, d: int, is_fused: bool) -> list[tuple[int, int]]:
    """Pieces of a run: bounded where keys are gathered or logits are written out."""
    size = run.stop - run.start
    if layout.k_order is not None and layout.hop:
        size = min(size, GATHERED // (b * layout.hop * d))
    if not is_fused:
        size = min(size, SCORES // (b * layout.c * layout.width))
    size = max(1, size)
    return [(a, min(run.stop, a + size)) for a in range(run.start, run.stop, size)]


def _one(q, k, v, out, lse, family: Family, run: Run, start: int, stop: int, scale: float) -> None:
    """Tiles start..stop - 1, and what they add to out and lse."""
    layout, c = family.layout, family.layout.c
    bias, dead = mask_of(run, start, stop)
    tile_q = fetch(q, layout.q_order, start * c, stop * c).unflatten(1, (stop - start, c))
    tile_k, tile_v = (key_tiles(keys_of(t, layout, start, stop), layout, stop - start) for t in (k, v))
    o, l = attend(tile_q, tile_k, tile_v, bias, scale)
    if dead is not None:  # the fused kernel says 0 where nothing is read, and 0 is a number like others
        l = l.masked_fill(dead, -math.inf)
    put(out, lse, o.flatten(1, 2), l.flatten(1, 2), layout.q_order, start * c, alone=family.takes or family.fresh)


def mask_of(run: Run, start: int, stop: int) -> tuple[Tensor | None, Tensor | None]:
    cut = lambda t: t if t is None or len(t) == 1 else t[start - run.start : stop - run.start]
    return cut(run.bias), cut(run.dead)


def fetch(x: Tensor, order: Tensor | None, a: int, b: int) -> Tensor:
    """Positions a..b - 1 of an order, (b, b - a, ...); a view where it can be one; a hole holds some finite row."""
    if order is not None:
        return x.index_select(1, order[a:b].clamp_min(0))
    n = x.shape[1]
    inside = x[:, max(a, 0) : max(min(b, n), 0)]
    if a >= 0 and b <= n:
        return inside
    around = (max(-a, 0), max(b - n, 0))
    return F.pad(inside, (0, 0, *around) if x.dim() == 3 else around)


def keys_of(x: Tensor, layout: Layout, start: int, stop: int) -> Tensor:
    """All keys, or values, of these tiles, (b, positions, d)."""
    first = start * layout.hop - layout.left
    return fetch(x, layout.k_order, first, first + (stop - start - 1) * layout.hop + layout.width)


def key_tiles(x: Tensor, layout: Layout, count: int) -> Tensor:
    """The same as tiles that may overlap, (b, count, width, d): a view."""
    x = x if x.stride(-1) == 1 else x.contiguous()
    strides = (x.stride(0), layout.hop * x.stride(1), x.stride(1), 1)
    return x.as_strided((len(x), count, layout.width, x.shape[-1]), strides, x.storage_offset())


def put(out: Tensor, lse: Tensor, o: Tensor, l: Tensor, order: Tensor | None, a: int, *, alone: bool) -> None:
    """Add the part (o, l) of some rows to (out, lse); alone: it is all that these rows have."""
    if order is None:
        rows = slice(a, min(a + o.shape[1], out.shape[1]))
        o, l = o[:, : rows.stop - a], l[:, : rows.stop - a]
        if alone:
            out[:, rows], lse[:, rows] = o, l
        else:
            out[:, rows], lse[:, rows] = merge(out[:, rows], lse[:, rows], o, l)
        return
    rows = order[a : a + o.shape[1]]
    real = rows >= 0
    if not bool(real.all()):
        rows, o, l = rows[real], o[:, real], l[:, real]
    if not alone:
        o, l = merge(out.index_select(1, rows), lse.index_select(1, rows), o, l)
    out.index_copy_(1, rows, o.to(out.dtype))
    lse.index_copy_(1, rows, l)


def merge(out: Tensor, lse: Tensor, o: Tensor, l: Tensor) -> tuple[Tensor, Tensor]:
    """Two parts of one softmax as one: weights exp(lse - L), L = log(exp(lse) + exp(l)).

    A part without keys has lse = -inf and weight 0, whatever its output is.
    """
    total = torch.logaddexp(lse, l)
    safe = total.masked_fill(total.isneginf(), 0)
    first, second = (lse - safe).exp().unsqueeze(-1), (l - safe).exp().unsqueeze(-1)
    return torch.where(first == 0, 0, out * first).addcmul_(o, second), total


def fused(q: Tensor, v: Tensor) -> bool:
    """Whether torch has a kernel that keeps the logits in cache and gives lse."""
    return q.device.type == "cpu" and q.shape[-1] == v.shape[-1] and _flash is not None


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    """Softmax attention of tiles, (b, t, c, d) on (b, t, width, d), and its log-sum-exp (b, t, c)."""
    if fused(q, v):
        mask = None if bias is None else bias.unsqueeze(0)
        return _flash(q, k, v, attn_mask=mask, scale=scale)[:2]
    logits = (q * scale) @ k.mT
    if bias is not None:
        logits = logits.add_(bias)
    top = logits.amax(-1, keepdim=True)
    top = top.masked_fill(top.isneginf(), 0)
    e = logits.sub_(top).exp_()
    total = e.sum(-1, keepdim=True)
    return (e @ v) / total.masked_fill(total == 0, 1), (top + total.log()).squeeze(-1)


# The only kernel of torch on the CPU that returns lse has a private name: it stands here once, with a way round it.
_flash = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
