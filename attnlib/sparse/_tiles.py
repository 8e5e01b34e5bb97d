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

PIECE = (
    1 << 21
)  # numbers of queries and output together: fresh pages cost more than the arithmetic
GATHERED = 1 << 19  # keys and values that are copied together: they stay in the cache
SCORES = 1 << 24  # logits together, where no fused kernel keeps them in the cache


def forward(
    q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float
) -> tuple[Tensor, Tensor]:
    """(b, n, d) each -> out (b, n, d_v) and lse (b, n), both in float32 at least."""
    b, n, _ = q.shape
    wide = torch.promote_types(q.dtype, torch.float32)
    if plan.entries is not None:
        out, lse = _entries.forward(q, k, v, plan.entries, scale)
    else:
        out, lse = (
            v.new_empty(b, n, v.shape[-1], dtype=wide),
            q.new_empty(b, n, dtype=wide),
        )
        if not plan.filled:
            out.zero_(), lse.fill_(-math.inf)
    for family, run, start, stop in pieces(q, v, plan):
        bias, dead = mask_of(run, start, stop)
        o, l = attend(*tiles_of(q, k, v, family.layout, start, stop), bias, scale)
        if (
            dead is not None
        ):  # the fused kernel says 0 where nothing is read, and 0 is a number like others
            l = l.masked_fill(dead, -math.inf)
        put(
            out,
            lse,
            o,
            l,
            family.layout.q,
            start,
            alone=family.takes or (family.fresh and plan.entries is None),
        )
    return out, lse


def pieces(q: Tensor, v: Tensor, plan: Plan) -> Iterator[tuple[Family, Run, int, int]]:
    """All tiles of a plan, so many at a time as one call takes: tiles start..stop - 1
    of a run of a family.
    """
    b, d = len(q), q.shape[-1] + v.shape[-1]
    for family in plan.families:
        for run in family.runs:
            for start, stop in chunks(
                family.layout, run, b, d, q.device.type == "cpu", fused(q, v)
            ):
                yield family, run, start, stop


def chunks(
    layout: Layout, run: Run, b: int, d: int, on_cpu: bool, is_fused: bool
) -> list[tuple[int, int]]:
    """Pieces of a run: small ones for a cache; elsewhere only what is written out is
    bounded.
    """
    piece, gathered = (PIECE, GATHERED) if on_cpu else (16 * SCORES, 16 * SCORES)
    size = piece // (b * layout.q.size * d)
    if layout.k.order is not None and layout.k.hop:
        size = min(size, gathered // (b * layout.k.hop * d))
    if not is_fused:
        size = min(size, SCORES // (b * layout.pairs))
    size = min(max(1, size), run.stop - run.start)
    return [(a, min(run.stop, a + size)) for a in range(run.start, run.stop, size)]


def mask_of(run: Run, start: int, stop: int) -> tuple[Tensor | None, Tensor | None]:
    """The masks, and the rows that read nothing, of these tiles."""

    def cut(t):
        return (
            t if t is None or len(t) == 1 else t[start - run.start : stop - run.start]
        )

    return cut(run.bias), cut(run.dead)


def tiles_of(
    q: Tensor, k: Tensor, v: Tensor, layout: Layout, start: int, stop: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (b, t, c, d), keys and values (b, t, width, d) of tiles start..stop -
    1.
    """
    return tuple(
        tiled(t, side, start, stop)
        for t, side in ((q, layout.q), (k, layout.k), (v, layout.k))
    )


def tiled(x: Tensor, side: Side, start: int, stop: int) -> Tensor:
    """Tiles start..stop - 1 of (b, n, ...), as a view where it can be one; a hole holds
    some finite row.
    """
    return strips(fetch(x, side.order, *side.ends(start, stop)), side, stop - start)


def fetch(x: Tensor, order: Tensor | None, a: int, b: int) -> Tensor:
    """Positions a..b - 1 of an order, (b, b - a, ...)."""
    if order is not None:
        return x.index_select(1, order[a:b])
    n = x.shape[1]
    inside = x[:, max(a, 0) : max(min(b, n), 0)]
    if a >= 0 and b <= n:
        return inside
    around = (max(-a, 0), max(b - n, 0))
    return F.pad(inside, (0, 0, *around) if x.dim() == 3 else around)


def strips(x: Tensor, side: Side, count: int) -> Tensor:
    """All positions of these tiles, (b, positions, ...), as tiles that may overlap, (b,
    count, size, ...): a view.
    """
    batch, row, *rest = x.stride()
    return x.as_strided(
        (len(x), count, side.size, *x.shape[2:]),
        (batch, side.hop * row, side.step * row, *rest),
    )


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
    """Add the part (o, l) of some tiles of queries to (out, lse); alone: it is all that
    these rows have.
    """
    a, b = side.ends(start, start + o.shape[1])
    if side.order is None and b <= out.shape[1]:
        write(
            *(strips(t[:, a:b], side, o.shape[1]) for t in (out, lse)),
            o,
            l,
            alone=alone,
        )
        return
    o, l = o.flatten(1, 2), l.flatten(1, 2)
    if side.order is None:  # the last tile is not full
        rows = slice(a, out.shape[1])
        write(
            out[:, rows],
            lse[:, rows],
            o[:, : out.shape[1] - a],
            l[:, : out.shape[1] - a],
            alone=alone,
        )
        return
    rows = side.order[a:b]
    if side.real is not None:
        real = side.real[a:b]
        rows, o, l = rows[real], o[:, real], l[:, real]
    if not alone:
        held = out.index_select(1, rows), lse.index_select(1, rows)
        write(*held, o, l, alone=False)
        o, l = held
    out.index_copy_(1, rows, o)
    lse.index_copy_(1, rows, l)


def write(out: Tensor, lse: Tensor, o: Tensor, l: Tensor, *, alone: bool) -> None:
    """The part (o, l) in place of these rows, or merged with them."""
    if alone:
        out.copy_(o), lse.copy_(l)
    else:
        merge_(out, lse, o, l)


def merge_(out: Tensor, lse: Tensor, o: Tensor, l: Tensor) -> None:
    """Two parts of one softmax as one, in place, with weights exp(lse - L) and exp(l -
    L), L = log(exp(lse) + exp(l)).

    A part without keys has lse = -inf and weight 0; its output is finite.
    """
    total = torch.logaddexp(lse, l)
    weight = (l - total.masked_fill(total.isneginf(), 0)).exp()
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
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """Softmax attention of tiles, (b, t, c, d) on (b, t, width, d), and its log-sum-exp
    (b, t, c).
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
    return product(e.to(v.dtype), v) / total.masked_fill(total == 0, 1), (
        top + total.log()
    ).squeeze(-1)


# The only kernel of torch on the CPU that returns lse has a private name: it stands
# here once, with a way round it.
_flash = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
