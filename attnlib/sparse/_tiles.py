"""Forward: every family by one tile kernel, parts merged by log-sum-exp."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.sparse import _entries
from attnlib.sparse._plan import Family, Plan, Run
from attnlib.sparse._precision import HALVES, product
from attnlib.sparse._shapes import Layout, Side

# numbers of queries and output together: fresh pages cost more than the arithmetic
PIECE = 1 << 21
GATHERED = 1 << 19  # keys and values that are copied together: they stay in the cache
SCORES = 1 << 24  # logits together, where no fused kernel keeps them in the cache

# (family, run, start, stop): the tiles start..stop - 1 of a run of a family
Piece = tuple[Family, Run, int, int]


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    plan: Plan,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """(b, n, d) each -> out (b, n, d_v) and lse (b, n), both in float32 at least."""
    if plan.entries is not None:
        out, lse = _entries.forward(q, k, v, plan.entries, scale)
    else:
        out, lse = _empty(q, v, plan)
    for family, run, start, stop in pieces(q, v, plan):
        layout = family.layout
        bias, dead = mask_of(run, start, stop)
        tiles = tiles_of(q, k, v, layout, start, stop)
        o, l = attend(*tiles, bias, scale)
        if dead is not None:
            # where nothing is read the fused kernel says 0, a number like others
            l = l.masked_fill(dead, -math.inf)
        alone = family.takes or (family.fresh and plan.entries is None)
        put(out, lse, o, l, layout.q, start, alone=alone)
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


def pieces(q: Tensor, v: Tensor, plan: Plan) -> Iterator[Piece]:
    """All tiles of a plan, so many at a time as one call takes."""
    b = len(q)
    d = q.shape[-1] + v.shape[-1]
    on_cpu = q.device.type == "cpu"
    is_fused = fused(q, v)
    for family in plan.families:
        for run in family.runs:
            for start, stop in chunks(family.layout, run, b, d, on_cpu, is_fused):
                yield family, run, start, stop


def chunks(
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
    piece = PIECE if on_cpu else 16 * SCORES
    gathered = GATHERED if on_cpu else 16 * SCORES
    size = piece // (b * layout.q.size * d)
    if layout.k.order is not None and layout.k.hop:
        size = min(size, gathered // (b * layout.k.hop * d))
    if not is_fused:
        size = min(size, SCORES // (b * layout.pairs))
    size = max(1, min(size, run.stop - run.start))
    starts = range(run.start, run.stop, size)
    return [(a, min(run.stop, a + size)) for a in starts]


def mask_of(run: Run, start: int, stop: int) -> tuple[Tensor | None, Tensor | None]:
    """The masks, and the rows that read nothing, of these tiles."""

    def cut(t: Tensor | None) -> Tensor | None:
        if t is None or len(t) == 1:
            return t
        return t[start - run.start : stop - run.start]

    return cut(run.bias), cut(run.dead)


def tiles_of(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: Layout,
    start: int,
    stop: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (b, t, c, d), keys and values (b, t, width, d) of these tiles."""
    return (
        tiled(q, layout.q, start, stop),
        tiled(k, layout.k, start, stop),
        tiled(v, layout.k, start, stop),
    )


def tiled(x: Tensor, side: Side, start: int, stop: int) -> Tensor:
    """Tiles start..stop - 1 of (b, n, ...), as a view where it can be one.

    A hole holds some finite row.
    """
    a, b = side.ends(start, stop)
    return strips(fetch(x, side.order, a, b), side, stop - start)


def fetch(x: Tensor, order: Tensor | None, a: int, b: int) -> Tensor:
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


def strips(x: Tensor, side: Side, count: int) -> Tensor:
    """The positions of these tiles as tiles: a view, where the tiles may overlap.

    x: (b, positions, ...), the result (b, count, size, ...).
    """
    batch, row, *rest = x.stride()
    shape = (len(x), count, side.size, *x.shape[2:])
    strides = (batch, side.hop * row, side.step * row, *rest)
    return x.as_strided(shape, strides)


def put(
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
        tiles_of_out = strips(out[:, a:b], side, count)
        tiles_of_lse = strips(lse[:, a:b], side, count)
        write(tiles_of_out, tiles_of_lse, o, l, alone=alone)
        return
    o = o.flatten(1, 2)
    l = l.flatten(1, 2)
    if side.order is None:  # the last tile is not full
        o = o[:, : n - a]
        l = l[:, : n - a]
        write(out[:, a:], lse[:, a:], o, l, alone=alone)
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
        merge_(held_o, held_l, o, l)
        o = held_o
        l = held_l
    out.index_copy_(1, rows, o)
    lse.index_copy_(1, rows, l)


def write(
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
        merge_(out, lse, o, l)


def merge_(out: Tensor, lse: Tensor, o: Tensor, l: Tensor) -> None:
    """Two parts of one softmax as one, in place of the first.

    The weights are exp(lse - L) and exp(l - L), L = log(exp(lse) + exp(l)). A part
    without keys has lse = -inf and weight 0; its output is finite.
    """
    total = torch.logaddexp(lse, l)
    finite = total.masked_fill(total.isneginf(), 0)
    weight = (l - finite).exp()
    out.lerp_(o, weight.unsqueeze(-1))
    lse.copy_(total)


def fused(q: Tensor, v: Tensor) -> bool:
    """Whether torch has a kernel that keeps the logits in cache and gives lse."""
    return (
        q.device.type == "cpu"
        and q.dtype not in HALVES
        and q.shape[-1] == v.shape[-1]
        and _flash is not None
    )


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Softmax attention of tiles, (b, t, c, d) on (b, t, width, d).

    With it comes its log-sum-exp, (b, t, c).
    """
    if fused(q, v):
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
