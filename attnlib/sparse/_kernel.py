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

# Logits of a piece of work, forward and going back: what fits into a cache, or what
# fills a GPU. Fresh pages cost more than the arithmetic.
ROOM = {"cpu": 1 << 21, "cuda": 1 << 26}
ROOM_BACK = {"cpu": 1 << 18, "cuda": 1 << 24}
LOG2E = math.log2(math.e)

# The only kernel of torch on the CPU that returns lse has a private name.
_flash = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)


def attend(
    q: Tensor, k: Tensor, v: Tensor, tiles: list[Tiles], entries: Entries | None
) -> tuple[Tensor, Tensor]:
    """out (b, n_q, d_v) and lse (b, n_q) of q, k, v (b, n, d); scale is in q.

    Claim: sparse.merge
    """
    b, n_q, _ = q.shape
    if entries:
        out, lse = attend_pairs(q, k, v, entries)
    else:
        out = q.new_zeros(b, n_q, v.shape[-1])
        lse = q.new_full((b, n_q, 1), -math.inf)
    for own in tiles:
        for here in own.pieces(ROOM):
            tile_q = own.queries.of(q, here)
            tile_k = own.keys.of(k, here)
            tile_v = own.keys.of(v, here)
            o, l = _softmax(tile_q, tile_k, tile_v, own.hidden(here))
            _put(out, lse, o, l, own.queries, here)
    return out, lse[..., 0]


def _softmax(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Attention in tiles (b, t, c, d), and its lse (b, t, c, 1)."""
    fused = q.device.type == "cpu" and q.shape[-1] == v.shape[-1]
    if fused and _flash is not None:
        mask = None if bias is None else bias[None]
        out, lse, *_ = _flash(q, k, v, attn_mask=mask, scale=1.0)
        lse = lse[..., None]
        if bias is not None:  # of nothing the fused kernel says 0, like a number
            nothing = bias.amax(-1, keepdim=True).isneginf()
            lse = lse.masked_fill(nothing, -math.inf)
        return out, lse
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


def _put(out, lse, o, l, side: Side, here: slice) -> None:
    """Add the part (o, l) of these tiles of queries to (out, lse)."""
    if side.even:
        _merge_(side.of(out, here), side.of(lse, here), o, l)
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
    _merge_(held_o, held_l, o, l)
    out.index_copy_(1, rows, held_o)
    lse.index_copy_(1, rows, held_l)


def _merge_(out: Tensor, lse: Tensor, o: Tensor, l: Tensor) -> None:
    """Two parts of one softmax as one, in place of the first. A part without keys has
    lse = -inf and weight 0.
    """
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
            for here in own.pieces(ROOM_BACK):
                _add_tiles(*head, own, here)
    return tuple(found)


def _add_tiles(q, k, v, g, lse, drift, dq, dk, dv, tiles: Tiles, here: slice) -> None:
    """What these tiles add to the gradients of one head."""
    own = tiles.queries
    q, g, lse, drift = (own.of(t[None], here)[0] for t in (q, g, lse, drift))
    own = tiles.keys
    k, v = (own.of(t[None], here)[0] for t in (k, v))
    bias = tiles.hidden(here)
    minus_lse = -lse if bias is None else bias - lse
    s = torch.baddbmm(minus_lse, q, k.mT)
    p = (s * LOG2E).exp2()  # exp is many times slower at -inf
    ds = p * torch.baddbmm(-drift, g, v.mT)
    # a hole stands for row 0, and adds nothing to it
    rows = tiles.queries.table[here].flatten()
    read = tiles.keys.table[here].flatten()
    dq.index_add_(0, rows, (ds @ k).flatten(0, 1))
    dk.index_add_(0, read, (ds.mT @ q).flatten(0, 1))
    dv.index_add_(0, read, (p.mT @ g).flatten(0, 1))


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
