"""Attention on the tiles of a plan, and its gradients.

Forward: every family by one kernel, parts merged by log-sum-exp. Backward: logits are
computed again, tile by tile; only out and lse are kept.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.sparse import entries
from attnlib.sparse.layouts import Layout, Side
from attnlib.sparse.plans import Family, Plan, Run
from attnlib.sparse.precision import HALVES, add_product_, product

# numbers of queries and output together: fresh pages cost more than the arithmetic
PIECE = 1 << 21
GATHERED = 1 << 19  # keys and values that are copied together: they stay in the cache
LOGITS = 1 << 24  # logits together, where no fused kernel keeps them in the cache
# the same of the backward pass
SCORES = 1 << 18  # logits together: they stay in the cache
ON_DEVICE = 1 << 24
LOG2E = math.log2(math.e)

# (family, run, start, stop): the tiles start..stop - 1 of a run of a family
Piece = tuple[Family, Run, int, int]


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    plan: Plan,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Attention by a plan.

    Args:
        q: (b, n_q, d).
        k, v: (b, n, d) and (b, n, d_v).
        plan: of n tokens and n_q queries, on their device.
        scale: of the logits.

    Returns:
        out (b, n_q, d_v) and lse (b, n_q), both in float32 at least.

    Cost: 2 (d + d_v) FLOPs for each pair of a tile and each entry.
    Source: Milakov and Gimelshein 2018 (running softmax).
    Claim: sparse.merge
    """
    if plan.entries is not None:
        out, lse = entries.forward(q, k, v, plan.entries, scale)
    else:
        out, lse = _empty(q, v, plan)
    for family, run, start, stop in _pieces(q, v, plan):
        layout = family.layout
        bias, dead = _mask_of(run, start, stop)
        tiles = _tiles_of(q, k, v, layout, start, stop)
        o, l = _attend(*tiles, bias, scale)
        if dead is not None:
            # where nothing is read the fused kernel says 0, a number like others
            l = l.masked_fill(dead, -math.inf)
        alone = family.takes or (family.fresh and plan.entries is None)
        _put(out, lse, o, l, layout.q, start, alone=alone)
    return out, lse


def _empty(q: Tensor, v: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """out and lse before any part: nothing, where a part is not to be written first."""
    b, n, _ = q.shape
    wide = torch.promote_types(q.dtype, torch.float32)
    out = v.new_empty(b, n, v.shape[-1], dtype=wide)
    lse = q.new_empty(b, n, dtype=wide)
    if not plan.filled:
        out.zero_()
        lse.fill_(-math.inf)
    return out, lse


def _pieces(q: Tensor, v: Tensor, plan: Plan) -> Iterator[Piece]:
    """All tiles of a plan, so many at a time as one call takes."""
    b = len(q)
    d = q.shape[-1] + v.shape[-1]
    on_cpu = q.device.type == "cpu"
    is_fused = _fused(q, v)
    for family in plan.families:
        for run in family.runs:
            for start, stop in _chunks(family.layout, run, b, d, on_cpu, is_fused):
                yield family, run, start, stop


def _chunks(
    layout: Layout,
    run: Run,
    b: int,
    d: int,
    on_cpu: bool,
    is_fused: bool,
) -> list[tuple[int, int]]:
    """Pieces of a run, small ones for a cache.

    Where there is none, only what is written out is bounded.
    """
    piece = PIECE if on_cpu else 16 * LOGITS
    gathered = GATHERED if on_cpu else 16 * LOGITS
    size = piece // (b * layout.q.size * d)
    if layout.k.order is not None and layout.k.hop:
        size = min(size, gathered // (b * layout.k.hop * d))
    if not is_fused:
        size = min(size, LOGITS // (b * layout.pairs))
    size = max(1, min(size, run.stop - run.start))
    starts = range(run.start, run.stop, size)
    return [(a, min(run.stop, a + size)) for a in starts]


def _mask_of(run: Run, start: int, stop: int) -> tuple[Tensor | None, Tensor | None]:
    """The masks, and the rows that read nothing, of these tiles."""

    def cut(t: Tensor | None) -> Tensor | None:
        if t is None or len(t) == 1:
            return t
        return t[start - run.start : stop - run.start]

    return cut(run.bias), cut(run.dead)


def _tiles_of(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: Layout,
    start: int,
    stop: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (b, t, c, d), keys and values (b, t, width, d) of these tiles."""
    return (
        _tiled(q, layout.q, start, stop),
        _tiled(k, layout.k, start, stop),
        _tiled(v, layout.k, start, stop),
    )


def _tiled(x: Tensor, side: Side, start: int, stop: int) -> Tensor:
    """Tiles start..stop - 1 of (b, n, ...), as a view where it can be one.

    A hole holds some finite row.
    """
    a, b = side.ends(start, stop)
    return _strips(_fetch(x, side.order, a, b), side, stop - start)


def _fetch(x: Tensor, order: Tensor | None, a: int, b: int) -> Tensor:
    """Positions a..b - 1 of an order, (b, b - a, ...)."""
    if order is not None:
        return x.index_select(1, order[a:b])
    n = x.shape[1]
    low = max(a, 0)
    high = max(min(b, n), 0)
    inside = x[:, low:high]
    if a >= 0 and b <= n:
        return inside
    around = (max(-a, 0), max(b - n, 0))
    if x.dim() == 3:
        around = (0, 0, *around)
    return F.pad(inside, around)


def _strips(x: Tensor, side: Side, count: int) -> Tensor:
    """The positions of these tiles as tiles: a view, where the tiles may overlap.

    x: (b, positions, ...), the result (b, count, size, ...).
    """
    batch, row, *rest = x.stride()
    shape = (len(x), count, side.size, *x.shape[2:])
    strides = (batch, side.hop * row, side.step * row, *rest)
    return x.as_strided(shape, strides)


def _put(
    out: Tensor,
    lse: Tensor,
    o: Tensor,
    l: Tensor,
    side: Side,
    start: int,
    *,
    alone: bool,
) -> None:
    """Add the part (o, l) of some tiles of queries to (out, lse).

    alone: it is all that these rows have.
    """
    n = out.shape[1]
    count = o.shape[1]
    a, b = side.ends(start, start + count)
    if side.order is None and b <= n:
        tiles_of_out = _strips(out[:, a:b], side, count)
        tiles_of_lse = _strips(lse[:, a:b], side, count)
        _write(tiles_of_out, tiles_of_lse, o, l, alone=alone)
        return
    o = o.flatten(1, 2)
    l = l.flatten(1, 2)
    if side.order is None:  # the last tile is not full
        o = o[:, : n - a]
        l = l[:, : n - a]
        _write(out[:, a:], lse[:, a:], o, l, alone=alone)
        return
    rows = side.order[a:b]
    if side.real is not None:
        real = side.real[a:b]
        rows = rows[real]
        o = o[:, real]
        l = l[:, real]
    if not alone:
        held_o = out.index_select(1, rows)
        held_l = lse.index_select(1, rows)
        _merge_(held_o, held_l, o, l)
        o = held_o
        l = held_l
    out.index_copy_(1, rows, o)
    lse.index_copy_(1, rows, l)


def _write(
    out: Tensor,
    lse: Tensor,
    o: Tensor,
    l: Tensor,
    *,
    alone: bool,
) -> None:
    """The part (o, l) in place of these rows, or merged with them."""
    if alone:
        out.copy_(o)
        lse.copy_(l)
    else:
        _merge_(out, lse, o, l)


def _merge_(out: Tensor, lse: Tensor, o: Tensor, l: Tensor) -> None:
    """Two parts of one softmax as one, in place of the first.

    The weights are exp(lse - L) and exp(l - L), L = log(exp(lse) + exp(l)). A part
    without keys has lse = -inf and weight 0; its output is finite.
    """
    total = torch.logaddexp(lse, l)
    finite = total.masked_fill(total.isneginf(), 0)
    weight = (l - finite).exp()
    out.lerp_(o, weight.unsqueeze(-1))
    lse.copy_(total)


def _fused(q: Tensor, v: Tensor) -> bool:
    """Whether torch has a kernel that keeps the logits in cache and gives lse."""
    return (
        q.device.type == "cpu"
        and q.dtype not in HALVES
        and q.shape[-1] == v.shape[-1]
        and _flash is not None
    )


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Softmax attention of tiles, (b, t, c, d) on (b, t, width, d).

    With it comes its log-sum-exp, (b, t, c).
    """
    if _fused(q, v):
        mask = None if bias is None else bias.unsqueeze(0)
        return _flash(q, k, v, attn_mask=mask, scale=scale)[:2]
    logits = product(q, k.mT).mul_(scale)
    if bias is not None:
        logits = logits.add_(bias)
    top = logits.amax(-1, keepdim=True)
    top = top.masked_fill(top.isneginf(), 0)
    e = logits.sub_(top).exp_()
    total = e.sum(-1, keepdim=True)
    sums = product(e.to(v.dtype), v)
    out = sums / total.masked_fill(total == 0, 1)
    lse = top + total.log()
    return out, lse.squeeze(-1)


# The only kernel of torch on the CPU that returns lse has a private name: it stands
# here once, with a way round it.
_flash = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)


# --- backward ---


def gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    g: Tensor,
    g_lse: Tensor,
    plan: Plan,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of attention by a plan, from out and lse alone.

        S = scale Q K',   P = exp(S - lse),
        dV = P' G,   dS = P * (G V' - rowsum(G * out) + g_lse),
        dQ = scale dS K,   dK = scale dS' Q

    Args:
        q, k, v, plan, scale: as in forward.
        out, lse: what it gave.
        g, g_lse: their gradients, float32 at least.

    Returns:
        dQ, dK, dV, in float32 at least.

    Cost: 2 (3 d + 2 d_v) FLOPs for each pair of a tile and each entry; no logits are
        kept.
    Source: Dao et al. 2022, recalled.
    Claim: sparse.gradient
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
        entries.add_gradients(wanted, given, other, drift, plan.entries, scale)
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
    tile_q = _tiled(q, layout.q, start, stop)
    tile_g = _tiled(g, layout.q, start, stop)
    tile_lse = _tiled(lse, layout.q, start, stop)
    tile_drift = _tiled(drift, layout.q, start, stop)
    tile_k = _tiled(k, layout.k, start, stop)
    tile_v = _tiled(v, layout.k, start, stop)
    dq, dk, dv = wanted
    room_q = _room(dq, layout.q, start, stop)
    room_k = _room(dk, layout.k, start, stop)
    room_v = _room(dv, layout.k, start, stop)
    tile_dq = _strips(room_q, layout.q, stop - start)
    tile_dk = _strips(room_k, layout.k, stop - start)
    tile_dv = _strips(room_v, layout.k, stop - start)
    bias, _ = _mask_of(run, start, stop)
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
