"""Attention on tiles and pairs, and its gradients.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.sparse._tiles import Entries, Side, Tiles

# Numbers of a piece of work: what fits into a cache, or what fills a GPU. Fresh pages
# cost more than the arithmetic.
ROOM = {"cpu": 1 << 21, "cuda": 1 << 28}
SCORES = {"cpu": 1 << 18, "cuda": 1 << 24}  # the same of logits, going back
LOG2E = math.log2(math.e)

# The only kernel of torch on the CPU that returns lse has a private name.
_flash = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)


def attend(
    q: Tensor, k: Tensor, v: Tensor, tiles: list[Tiles], entries: Entries | None
) -> tuple[Tensor, Tensor]:
    """out (b, n_q, d_v) and lse (b, n_q) of q, k, v (b, n, d); scale is in q.

    Claim: sparse.merge
    """
    b, n_q, d = q.shape
    d_v = v.shape[-1]
    if entries:
        out, lse = attend_pairs(q, k, v, entries)
    else:
        out = q.new_zeros(b, n_q, d_v)
        lse = q.new_full((b, n_q, 1), -math.inf)
    for own in tiles:
        fresh = own.fresh and not entries
        c = own.queries.width
        w = own.keys.width
        numbers = b * (c + w) * max(d, d_v) + c * w
        for here in own.pieces(ROOM, numbers):
            tile_q = own.queries.of(q, here)
            tile_k = own.keys.of(k, here)
            tile_v = own.keys.of(v, here)
            bias = _cut(own.bias, here)
            o, l = _softmax(tile_q, tile_k, tile_v, bias)
            if own.dead is not None:
                # of nothing the fused kernel says 0, a number like others
                l = l.masked_fill(_cut(own.dead, here), -math.inf)
            _put(out, lse, o, l, own.queries, here, fresh)
    return out, lse[..., 0]


def _cut(mask: Tensor | None, here: slice) -> Tensor | None:
    """The masks of these tiles, or the one that they share."""
    if mask is None or len(mask) == 1:
        return mask
    return mask[here]


def _softmax(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Attention in tiles (b, t, c, d), and its lse (b, t, c, 1)."""
    fused = q.device.type == "cpu" and q.shape[-1] == v.shape[-1]
    if fused and _flash is not None:
        mask = None if bias is None else bias[None]
        out, lse, *_ = _flash(q, k, v, attn_mask=mask, scale=1.0)
        return out, lse[..., None]
    logits = q @ k.mT
    if bias is not None:
        logits = logits + bias
    top = _finite(logits.amax(-1, keepdim=True))
    e = (logits - top).exp()
    total = e.sum(-1, keepdim=True)
    out = e @ v / total.masked_fill(total == 0, 1)
    return out, top + total.log()


def _finite(top: Tensor) -> Tensor:
    """Zero for the largest logit of nothing."""
    return top.masked_fill(top.isneginf(), 0)


def _put(out, lse, o, l, side: Side, here: slice, fresh: bool) -> None:
    """Add the part (o, l) of these tiles of queries to (out, lse)."""
    if side.even:
        low, high = side.ends(here)
        if low >= 0 and high <= out.shape[1]:
            held_o = side.spread(out[:, low:high], here)
            held_l = side.spread(lse[:, low:high], here)
            _merge_(held_o, held_l, o, l, fresh)
            return
    rows = side.table[here].flatten()
    o = o.flatten(1, 2)
    l = l.flatten(1, 2)
    if side.real is not None:
        real = side.real[here].flatten()
        rows = rows[real]
        o = o[:, real]
        l = l[:, real]
    held_o = out.index_select(1, rows)
    held_l = lse.index_select(1, rows)
    _merge_(held_o, held_l, o, l, fresh)
    out.index_copy_(1, rows, held_o)
    lse.index_copy_(1, rows, held_l)


def _merge_(out: Tensor, lse: Tensor, o: Tensor, l: Tensor, fresh: bool) -> None:
    """Two parts of one softmax as one, in place of the first, which is nothing where
    the rows are fresh. A part without keys has lse = -inf and weight 0.
    """
    if fresh:
        out.copy_(o)
        lse.copy_(l)
        return
    total = torch.logaddexp(lse, l)
    weight = (l - _finite(total)).exp()
    out.lerp_(o, weight)
    lse.copy_(total)


# --- pair by pair


def _dots(entries: Entries, x: Tensor, y: Tensor) -> Tensor:
    """<x_i, y_j> at each entry (i, j) of one head."""
    learned = x.requires_grad or y.requires_grad
    if learned and torch.is_grad_enabled():  # for second derivatives
        x_i = x.index_select(0, entries.row)
        y_j = y.index_select(0, entries.col)
        return (x_i * y_j).sum(-1)
    size = (len(x), len(y))
    zeros = x.new_zeros(len(entries.col))
    with warnings.catch_warnings():  # that compressed rows are in beta
        warnings.simplefilter("ignore")
        zero = torch.sparse_csr_tensor(
            entries.crow, entries.col, zeros, size=size, device=x.device
        )
        made = torch.sparse.sampled_addmm(zero, x, y.mT, beta=0.0)
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


def attend_pairs(
    q: Tensor, k: Tensor, v: Tensor, entries: Entries
) -> tuple[Tensor, Tensor]:
    """out and lse (b, n, 1) of the entries alone."""
    crow = entries.crow
    outs = []
    lses = []
    for q_1, k_1, v_1 in zip(q, k, v):
        logits = _dots(entries, q_1, k_1)
        top = torch.segment_reduce(logits, "max", offsets=crow, initial=-math.inf)
        top = _finite(top)
        e = (logits - top.index_select(0, entries.row)).exp()
        total = torch.segment_reduce(e, "sum", offsets=crow, initial=0)
        sums = _sums(entries.col, crow, e, v_1)
        divisor = total.masked_fill(total == 0, 1)
        outs.append(sums / divisor[:, None])
        lses.append((top + total.log())[:, None])
    return torch.stack(outs), torch.stack(lses)


# --- the gradients


def gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    g: Tensor,
    g_lse: Tensor,
    tiles: list[Tiles],
    entries: Entries | None,
) -> tuple[Tensor, ...]:
    """dQ, dK and dV from out and lse alone, where g and g_lse are the gradients of
    these.

        S = Q K',   P = exp(S - lse),   dV = P' G,
        dS = P * (G V' - rowsum(G * out) + g_lse),   dQ = dS K,   dK = dS' Q

    Source: Dao et al. 2022, recalled.
    Claim: sparse.gradient
    """
    lse = lse[..., None]
    dots = (g * out).sum(-1, keepdim=True)
    drift = dots - g_lse[..., None]
    given = (q, k, v, g, lse, drift)
    found = [torch.zeros_like(t) for t in (q, k, v)]
    for i in range(len(q)):
        head = [t[i] for t in (*given, *found)]
        if entries:
            _add_pairs(*head, entries)
        for own in tiles:
            pairs = own.queries.width * own.keys.width
            for here in own.pieces(SCORES, pairs):
                _add_tiles(*head, own, here)
    return tuple(found)


def _add_tiles(q, k, v, g, lse, drift, dq, dk, dv, tiles: Tiles, here: slice) -> None:
    """What these tiles add to the gradients of one head."""
    own = tiles.queries
    q, g, lse, drift = (own.of(t[None], here)[0] for t in (q, g, lse, drift))
    own = tiles.keys
    k, v = (own.of(t[None], here)[0] for t in (k, v))
    bias = _cut(tiles.bias, here)
    minus_lse = -lse if bias is None else bias - lse
    s = torch.baddbmm(minus_lse, q, k.mT)
    p = (s * LOG2E).exp2()  # exp is many times slower at -inf
    ds = p * torch.baddbmm(-drift, g, v.mT)
    _add(dq, tiles.queries, here, ds, k)
    _add(dk, tiles.keys, here, ds.mT, q)
    _add(dv, tiles.keys, here, p.mT, g)


def _add_pairs(q, k, v, g, lse, drift, dq, dk, dv, entries: Entries) -> None:
    """What the entries add to the gradients of one head."""
    crow, row, col, crow_t, row_t, turn = entries
    lse_i = lse[:, 0].index_select(0, row)
    drift_i = drift[:, 0].index_select(0, row)
    p = (_dots(entries, q, k) - lse_i).exp()
    ds = p * (_dots(entries, g, v) - drift_i)
    dq.add_(_sums(col, crow, ds, k))
    ds = ds.index_select(0, turn)
    p = p.index_select(0, turn)
    dk.add_(_sums(row_t, crow_t, ds, q))
    dv.add_(_sums(row_t, crow_t, p, g))


def _add(x: Tensor, side: Side, here: slice, a: Tensor, b: Tensor) -> None:
    """Add the products a b of these tiles to x (n, d), each row at its place."""
    if side.even is None:
        rows = (a @ b).flatten(0, 1)
        x.index_add_(0, side.table[here].flatten(), rows)
        return
    n, d = x.shape
    if side.even[1] == 0:  # all tiles share their rows
        a = a.transpose(0, 1).flatten(1)[None]
        b = b.flatten(0, 1)[None]
        here = slice(here.start, here.start + 1)
    low, high = side.ends(here)
    inside = low >= 0 and high <= n
    room = x[low:high] if inside else x.new_zeros(high - low, d)
    place = side.spread(room[None], here)[0]
    # tiles that overlap are added one after another, those far apart together
    apart = _apart(side, len(a))
    for start in range(apart):
        every = slice(start, None, apart)
        place[every].baddbmm_(a[every], b[every])
    if not inside:
        held = x[max(low, 0) : max(high, 0)]
        held.add_(room[max(-low, 0) : n - low])


def _apart(side: Side, t: int) -> int:
    """Of t tiles those so many numbers apart share no row."""
    _, hop, step = side.even
    if hop * (t - 1) < step:  # all lie between the steps of the first
        return 1
    width = (side.width - 1) * step + 1
    return min(t, math.ceil(width / hop))
