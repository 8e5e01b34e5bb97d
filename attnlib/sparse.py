"""Sparse attention: softmax over the tokens that a pattern lets each token read.

    out_i = sum_{j in A_i} exp(scale q_i k_j - lse_i) v_j
    lse_i = log sum_{j in A_i} exp(scale q_i k_j)

`masked_attention` is the literal form, with all logits. `sparse_attention` cuts the
pattern into dense tiles, attends in each, and merges what it finds for a row:

    lse = log(exp(lse_1) + exp(lse_2)),   out = sum_r exp(lse_r - lse) out_r

Going back it keeps q, k, v, out and lse alone, and makes the logits anew, tile by tile.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from attnlib import _require
from attnlib._require import require
from attnlib.patterns import (
    Blocks,
    Columns,
    Lists,
    Part,
    Pattern,
    Rows,
    Step,
    Strided,
    Window,
)
from attnlib.patterns.parts import CPU, LARGE, THIN, _is_pattern

__all__ = ["masked_attention", "sparse_attention"]

ORDER = (Blocks, Strided, Window, Columns, Rows, Lists)
PAIRS = 1 << 21  # pairs looked at together while tiles are made
SHARED = 4  # so many equal masks in a row share one
# Numbers of a piece of work: what fits into a cache, or what fills a GPU. Fresh pages
# cost more than the arithmetic.
ROOM = {"cpu": 1 << 21, "cuda": 1 << 28}
SCORES = {"cpu": 1 << 18, "cuda": 1 << 24}  # the same of logits, going back
LOG2E = math.log2(math.e)

# The only kernel of torch on the CPU that returns lse has a private name.
_flash = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)


def masked_attention(
    q: Float[Tensor, "*batch m d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | Float[Tensor, ""] | None = None,
    check: bool = True,
) -> Float[Tensor, "*batch m d_v"]:
    """Dense attention with all its logits, as the definition says.

        softmax_row(scale Q K', -inf where the mask is False) V

    Args:
        mask: True = may attend, broadcast to (*batch, m, n), None for all.
        scale: None for 1/sqrt(d).
        check: look for NaN, infinity and rows that attend to nothing.
    """
    _require.is_a(bool, check=check)
    _require.tokens(q, "q")
    _require.tokens(k, "k")
    _require.heads(q, k, v, check=check)
    _require.scale(scale, check=check)
    logits = (q * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)) @ k.mT
    if mask is not None:
        _require.pair_mask(mask, tuple(logits.shape), q.device, check=check)
        logits = logits.masked_fill(~mask, -math.inf)
    return torch.softmax(logits, -1) @ v


def sparse_attention(
    q: Float[Tensor, "*batch n_q d"],
    k: Float[Tensor, "*batch_k n d"],
    v: Float[Tensor, "*batch_k n d_v"],
    pattern: Pattern,
    *,
    step: int | Sequence[int] | None = None,
    scale: float | Float[Tensor, ""] | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    check: bool = True,
) -> (
    Float[Tensor, "*batch n_q d_v"]
    | tuple[Float[Tensor, "*batch n_q d_v"], Float[Tensor, "*batch n_q"]]
):
    """Attention in which each token reads what a pattern lets it; never n x n numbers.

    It has first and second derivatives, and works under torch.compile with
    fullgraph=True (from torch 2.13 on) and under vmap and grad of torch.func; not under
    both at once.

    Args:
        q: its n_q <= n tokens are the last ones: one to decode with cached keys.
        step: an integer, modulo p; or a list with one for each head of q, the last
            batch dimension. None only where p = 1.
        scale: None for 1/sqrt(d); a tensor has gradients, too.
        enable_gqa: k and v have fewer heads than q, by a factor: each serves as many
            heads of q that follow each other.
        return_lse: also lse.
        check: look for NaN and infinity.

    Returns:
        out, and with return_lse also lse. Of float16 and bfloat16 all is computed in
        float32, lse is float32, and out is rounded once at the end, also under
        autocast.

    Cost: 4 d times the connections, rounded up to tiles; memory O(n + connections). The
        first call with a step makes its tiles, later calls find them. Second
        derivatives keep the logits.
    Source: Milakov and Gimelshein 2018 (running softmax), Dao et al. 2022 (recomputed
        backward); tiles are ours.
    Claim: sparse.merge
    """
    _is_pattern("pattern", pattern)
    _require.is_a(bool, enable_gqa=enable_gqa, return_lse=return_lse, check=check)
    for name, t in (("q", q), ("k", k), ("v", v)):
        _require.is_tensor(name, t)
    if enable_gqa:
        k = _for_each_head("k", k, q)
        v = _for_each_head("v", v, q)
    if not torch.compiler.is_compiling():  # there the operator asks
        _fit(q, k, v, pattern.n)
    _require.scale(scale, check=False)
    learned = torch.is_tensor(scale)
    if learned:
        _require.same_device("scale", scale, q.device, "q")
    checked = ("q * scale" if learned else "q") if check else ""
    dtype = q.dtype
    wide = torch.promote_types(dtype, torch.float32)
    q = q.to(wide) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    k = k.to(wide)
    v = v.to(wide)
    heads = q.shape[-3] if q.dim() > 2 else 0
    steps = _steps(step, pattern, heads)
    if isinstance(steps, int):
        out, lse = _one_step(q, k, v, pattern, steps, checked)
    else:
        out, lse = _by_heads(q, k, v, pattern, steps, checked)
    out = out.to(dtype)
    return (out, lse) if return_lse else out


def _fit(q: Tensor, k: Tensor, v: Tensor, n: int) -> None:
    """Queries, keys and values fit each other, and n tokens."""
    for name, t in (("q", q), ("k", k), ("v", v)):
        _require.tokens(t, name)
    n_q = q.shape[-2]
    require(k.shape[-2] == n, f"the pattern has n = {n} tokens, k has {k.shape[-2]}")
    require(n_q <= n, f"q has {n_q} tokens, k only {n}: queries are the last ones")
    _require.heads(q, k, v, check=False)


def _for_each_head(name: str, t: Tensor, q: Tensor) -> Tensor:
    """Keys or values with as many heads as q."""
    for label, x in (("q", q), (name, t)):
        if x.dim() < 3:
            got = tuple(x.shape)
            raise ValueError(
                f"enable_gqa: {label} must be (*batch, h, n, d), got {got}"
            )
    heads, shared = q.shape[-3], max(1, t.shape[-3])
    if heads % shared:
        raise ValueError(
            f"enable_gqa: the {heads} heads of q must be a multiple of the {shared} "
            f"heads of {name}"
        )
    return t.repeat_interleave(heads // shared, -3)


def _is_integer(s) -> bool:
    return isinstance(s, Integral) and not isinstance(s, bool)


def _steps(step, pattern: Pattern, heads: int) -> int | list[int]:
    """The step of all heads, or one for each, each in 0..p - 1."""
    p = len(pattern.steps)
    if step is None:
        require(
            p == 1,
            f"step must be given, as the pattern has p = {p} steps: an integer, or one "
            "for each head; patterns.one_step makes one step of all",
        )
        return 0
    if _is_integer(step):
        return int(step) % p
    require(
        isinstance(step, Sequence) and all(_is_integer(s) for s in step),
        f"step must be an integer, or a sequence of one for each head, got {step!r}",
    )
    if len(step) != heads or heads == 0:
        raise ValueError(
            f"step must be an integer or one for each of {heads} heads, got {len(step)}"
        )
    return [int(s) % p for s in step]


def _by_heads(q, k, v, pattern: Pattern, steps: list[int], checked: str):
    """Each head by its step; heads that use the same step together."""
    order = sorted(range(len(steps)), key=steps.__getitem__)
    found = []
    for step in sorted(set(steps)):
        own = [head for head in order if steps[head] == step]
        heads = [t[..., own, :, :] for t in (q, k, v)]
        found.append(_one_step(*heads, pattern, step, checked))
    outs, lses = zip(*found)
    place = [order.index(head) for head in range(len(steps))]
    return torch.cat(outs, -3)[..., place, :, :], torch.cat(lses, -2)[..., place, :]


# --- from a step to its tiles


class _Side(NamedTuple):
    """The queries, or the keys, of t tiles: row table[t, c] stands at place c of tile
    t, 0 in a hole, where `real` is False. Evenly spaced rows first + t hop + c step are
    views: they have `even` = (first, hop, step), and may lie outside.
    """

    table: Tensor
    real: Tensor | None
    even: tuple[int, int, int] | None


class _Tiles(NamedTuple):
    """Tiles side by side: bias is 0 where a key is read and -inf where not, a mask
    (1, c, w) for all or one each, None where nothing is hidden; dead (1 or t, c, 1)
    marks queries without a key. fresh: no part before has touched these rows.
    """

    queries: _Side
    keys: _Side
    bias: Tensor | None
    dead: Tensor | None
    fresh: bool


class _Entries(NamedTuple):
    """Pairs without a tile, as compressed rows: i reads col[crow[i] : crow[i + 1]].

    The same by keys: j is read by row_t[crow_t[j] : crow_t[j + 1]]; these entries stand
    at `turn` among the others.
    """

    crow: Tensor
    row: Tensor
    col: Tensor
    crow_t: Tensor
    row_t: Tensor
    turn: Tensor


@functools.lru_cache(maxsize=128)  # a cycle may have many steps
def _tiles_of(
    step: Step, n: int, n_q: int, dtype: torch.dtype, device: torch.device
) -> tuple[list[_Tiles], _Entries | None]:
    """The tiles of a step for the last n_q of n queries, and the pairs beside them.
    What two parts hold is hidden in the later one.
    """
    first = n - n_q
    fed = torch.zeros(n, dtype=torch.bool, device=CPU)  # rows that read something
    tiles = []
    pairs = []
    for part, earlier in _in_turn(step) if n_q == n else [(step, ())]:
        tables = part.tiles(n) if n_q == n else _last_rows(step, n, first)
        if not tables:
            rows, columns = _pairs(part, earlier, n, step.causal)
            pairs.append((rows, columns))
            fed[rows] = True
        for queries, keys in tables:
            inside = queries[(queries >= 0) & (queries < n)]
            fresh = not bool(fed[inside].any())
            queries, keys = _no_larger(queries, keys)
            for start, mask in _masks(queries, keys, n, part, earlier, step.causal):
                stop = start + len(mask)
                fed[queries[start:stop][mask.any(-1)]] = True
                for here, own in _stretches(mask, start):
                    q_side = _side(queries[here] - first, n_q, device)
                    k_side = _side(keys[here], n, device)
                    bias, dead = _hiding(own, dtype, device)
                    tiles.append(_Tiles(q_side, k_side, bias, dead, fresh))
    empty = (~fed[first:]).nonzero().flatten() + first
    require(
        len(empty) == 0,
        f"row {int(empty[:1].sum())} of the pattern attends to nothing, "
        f"so its softmax is empty ({len(empty)} such rows)",
    )
    return tiles, _entries(pairs, n, device)


def _in_turn(step: Step) -> list[tuple[Part, tuple[Part, ...]]]:
    """The parts, each with those before it: first whose tiles are best left unmasked,
    of windows the wide ones; last what goes pair by pair.
    """

    def rank(part: Part) -> tuple[int, int]:
        width = part.left + part.right if isinstance(part, Window) else 0
        pairs = isinstance(part, Window) and width < THIN
        return ORDER.index(Lists if pairs else type(part)), -width

    parts = sorted(step.parts, key=rank)
    if step.causal:
        past = [isinstance(part, Window) and not part.wrap for part in parts]
        parts = [replace(p, right=0) if cut else p for p, cut in zip(parts, past)]
    return [(part, tuple(parts[:i])) for i, part in enumerate(parts)]


def _last_rows(step: Step, n: int, first: int) -> list[tuple[Tensor, Tensor]]:
    """Tiles of a few rows at the end, with all keys that one of them reads."""
    j = torch.arange(n, device=CPU)
    queries = j[first:].split(32)
    keys = []
    for i in queries:
        read = step.reads(n, i[:, None], j).any(0)
        keys.append(read.nonzero().flatten())
    return [tuple(pad_sequence(t, True, padding_value=n) for t in (queries, keys))]


def _no_larger(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Large tiles in pieces that share their keys."""
    size = queries.shape[1]
    if size <= 4 * LARGE:
        return queries, keys
    queries = F.pad(queries, (0, -size % LARGE), value=-1)
    pieces = queries.shape[1] // LARGE
    return queries.view(-1, LARGE), keys.repeat_interleave(pieces, 0)


def _masks(
    queries: Tensor, keys: Tensor, n: int, part, earlier, causal: bool
) -> Iterator[tuple[int, Tensor]]:
    """(t, c, w), some tiles at a time: what this part reads and no earlier one does."""
    size = max(1, PAIRS // (queries.shape[1] * keys.shape[1]))
    for start in range(0, len(queries), size):
        k = queries[start : start + size, :, None]
        j = keys[start : start + size, None]
        mask = (k >= 0) & (k < n) & (j >= 0) & (j < n)
        k = k.clamp(0, n - 1)
        j = j.clamp(0, n - 1)
        mask &= part.reads(n, k, j)
        for other in earlier:
            mask &= ~other.reads(n, k, j)
        yield start, mask & (j <= k) if causal else mask


def _stretches(masks: Tensor, start: int) -> list[tuple[slice, Tensor]]:
    """Tiles start, start + 1, ... with a mask for all or one each: the longest stretch
    of equal masks, and what is before and behind it. What reads nothing is left out.
    """
    if not masks.any():
        return []
    change = (masks[1:] != masks[:-1]).flatten(1).any(1)
    ends = [0, *(change.nonzero().flatten() + 1).tolist(), len(masks)]
    length, a = max((b - a, a) for a, b in zip(ends, ends[1:]))
    b = a + length
    if length < min(SHARED, len(masks)):
        return [(slice(start, start + len(masks)), masks)]
    own = [(slice(start + a, start + b), masks[a : a + 1])] if masks[a].any() else []
    return _stretches(masks[:a], start) + own + _stretches(masks[b:], start + b)


def _hiding(mask: Tensor, dtype: torch.dtype, device: torch.device):
    """bias and dead of a mask, None where they say nothing."""
    dead = ~mask.any(-1, keepdim=True)
    bias = torch.zeros(mask.shape, dtype=dtype, device=CPU)
    bias.masked_fill_(~mask, -math.inf)
    return (
        None if mask.all() else bias.to(device),
        dead.to(device) if dead.any() else None,
    )


def _side(table: Tensor, n: int, device: torch.device) -> _Side:
    t, c = table.shape
    first = int(table[0, 0])
    hop = int(table[1, 0]) - first if t > 1 else c
    step = int(table[0, 1]) - first if c > 1 else 1
    tile = torch.arange(t, device=CPU)[:, None]
    spaced = first + hop * tile + step * torch.arange(c, device=CPU)
    even = hop >= 0 and step > 0 and torch.equal(table, spaced)
    real = (table >= 0) & (table < n)
    return _Side(
        table=torch.where(real, table, 0).to(device),
        real=None if real.all() else real.to(device),
        even=(first, hop, step) if even else None,
    )


def _pairs(part, earlier, n: int, causal: bool) -> tuple[Tensor, Tensor]:
    """Rows and columns of a part that no earlier part has read."""
    rows, columns = part.pairs(n)
    kept = columns <= rows if causal else columns >= 0
    for other in earlier:
        kept &= ~other.reads(n, rows, columns)
    return rows[kept], columns[kept]


def _entries(pairs: list, n: int, device: torch.device) -> _Entries | None:
    rows, columns = (torch.cat(t) for t in zip(*pairs)) if pairs else ((), ())
    if not len(rows):
        return None
    order = (rows * n + columns).argsort()
    rows = rows[order]
    columns = columns[order]
    turn = columns.argsort(stable=True)
    starts = [F.pad(i.bincount(minlength=n).cumsum(0), (1, 0)) for i in (rows, columns)]
    made = (starts[0], rows, columns, starts[1], rows[turn], turn)
    return _Entries(*(t.to(device) for t in made))


# --- attention in tiles


def _attend(
    q: Tensor, k: Tensor, v: Tensor, tiles: list[_Tiles], entries: _Entries | None
) -> tuple[Tensor, Tensor]:
    """out (b, n_q, d_v) and lse (b, n_q) of q, k, v (b, n, d); scale is in q.

    Claim: sparse.merge
    """
    if entries:
        out, lse = _attend_entries(q, k, v, entries)
    else:
        out = q.new_zeros(*q.shape[:2], v.shape[-1])
        lse = q.new_full((*q.shape[:2], 1), -math.inf)
    numbers = len(q) * max(q.shape[-1], v.shape[-1])
    for own in tiles:
        fresh = own.fresh and not entries
        c, w = own.queries.table.shape[1], own.keys.table.shape[1]
        for here in _pieces(own, ROOM, numbers * (c + w) + c * w):
            tile_q = _at(q, own.queries, here)
            tile_k = _at(k, own.keys, here)
            tile_v = _at(v, own.keys, here)
            o, l = _softmax(tile_q, tile_k, tile_v, _own(own.bias, here))
            if own.dead is not None:
                # of nothing the fused kernel says 0, a number like others
                l = l.masked_fill(_own(own.dead, here), -math.inf)
            _merge(out, lse, o, l, own.queries, here, fresh)
    return out, lse[..., 0]


def _pieces(tiles: _Tiles, room: dict[str, int], numbers: int) -> Iterator[slice]:
    """Some tiles at a time, of so many numbers each."""
    t = len(tiles.queries.table)
    size = max(1, room.get(tiles.queries.table.device.type, room["cuda"]) // numbers)
    return (slice(start, min(t, start + size)) for start in range(0, t, size))


def _own(mask: Tensor | None, here: slice) -> Tensor | None:
    return mask if mask is None or len(mask) == 1 else mask[here]


def _at(x: Tensor, side: _Side, here: slice) -> Tensor:
    """These tiles of (b, n, d) as (b, t, c, d), a view where it can be one. A hole
    holds a finite row.
    """
    if side.even is None:
        table = side.table[here]
        return x.index_select(1, table.flatten()).unflatten(1, table.shape)
    low, high = _ends(side, here)
    inside = x[:, max(low, 0) : max(high, 0)]
    if low < 0 or high > x.shape[1]:
        inside = F.pad(inside, (0, 0, max(-low, 0), max(high - x.shape[1], 0)))
    return _spread(inside, side, here)


def _ends(side: _Side, here: slice) -> tuple[int, int]:
    """All rows of these evenly spaced tiles are in low..high - 1."""
    first, hop, step = side.even
    low = first + here.start * hop
    c = side.table.shape[1]
    return low, first + (here.stop - 1) * hop + (c - 1) * step + 1


def _spread(x: Tensor, side: _Side, here: slice) -> Tensor:
    """Rows low..high - 1 as tiles that may overlap: a view."""
    _, hop, step = side.even
    batch, row, number = x.stride()
    shape = (len(x), here.stop - here.start, side.table.shape[1], x.shape[-1])
    return x.as_strided(shape, (batch, hop * row, step * row, number))


def _softmax(q, k, v, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Attention in tiles (b, t, c, d), and its lse (b, t, c, 1)."""
    if q.device.type == "cpu" and q.shape[-1] == v.shape[-1] and _flash is not None:
        mask = None if bias is None else bias[None]
        out, lse = _flash(q, k, v, attn_mask=mask, scale=1.0)[:2]
        return out, lse[..., None]
    logits = q @ k.mT
    if bias is not None:
        logits = logits + bias
    top = logits.amax(-1, keepdim=True)
    top = top.masked_fill(top.isneginf(), 0)
    e = (logits - top).exp()
    total = e.sum(-1, keepdim=True)
    return e @ v / total.masked_fill(total == 0, 1), top + total.log()


def _merge(out, lse, o, l, side: _Side, here: slice, fresh: bool) -> None:
    """Add the part (o, l) of these tiles of queries to (out, lse)."""
    low, high = _ends(side, here) if side.even else (-1, 0)
    if low >= 0 and high <= out.shape[1]:
        held = [_spread(t[:, low:high], side, here) for t in (out, lse)]
        _merge_(*held, o, l, fresh)
        return
    rows = side.table[here].flatten()
    o = o.flatten(1, 2)
    l = l.flatten(1, 2)
    if side.real is not None:
        real = side.real[here].flatten()
        rows, o, l = rows[real], o[:, real], l[:, real]
    held = [t.index_select(1, rows) for t in (out, lse)]
    _merge_(*held, o, l, fresh)
    out.index_copy_(1, rows, held[0])
    lse.index_copy_(1, rows, held[1])


def _merge_(out, lse, o, l, fresh: bool = False) -> None:
    """Two parts of one softmax as one, in place of the first. A part without keys has
    lse = -inf and weight 0.
    """
    if fresh:
        out.copy_(o)
        lse.copy_(l)
        return
    total = torch.logaddexp(lse, l)
    weight = (l - total.masked_fill(total.isneginf(), 0)).exp()
    out.lerp_(o, weight)
    lse.copy_(total)


# --- attention pair by pair


def _dots(entries: _Entries, x: Tensor, y: Tensor) -> Tensor:
    """<x_i, y_j> at each entry (i, j) of one head."""
    learned = x.requires_grad or y.requires_grad
    if learned and torch.is_grad_enabled():  # for second derivatives
        return (x.index_select(0, entries.row) * y.index_select(0, entries.col)).sum(-1)
    size = len(x), len(y)
    zeros = x.new_zeros(len(entries.col))
    with warnings.catch_warnings():  # that compressed rows are in beta
        warnings.simplefilter("ignore")
        zero = torch.sparse_csr_tensor(entries.crow, entries.col, zeros, size=size)
        return torch.sparse.sampled_addmm(zero, x, y.mT, beta=0.0).values()


def _sums(index: Tensor, starts: Tensor, weights: Tensor, y: Tensor) -> Tensor:
    """Row i: the sum of weights[e] y[index[e]] over starts[i] <= e < starts[i + 1]."""
    how = {"mode": "sum", "per_sample_weights": weights, "include_last_offset": True}
    return F.embedding_bag(index, y, starts, **how)


def _attend_entries(q, k, v, entries: _Entries) -> tuple[Tensor, Tensor]:
    """out and lse (b, n, 1) of the entries alone."""
    outs = []
    lses = []
    crow = entries.crow
    for q_1, k_1, v_1 in zip(q, k, v):
        logits = _dots(entries, q_1, k_1)
        top = torch.segment_reduce(logits, "max", offsets=crow, initial=-math.inf)
        top = top.masked_fill(top.isneginf(), 0)
        e = (logits - top.index_select(0, entries.row)).exp()
        total = torch.segment_reduce(e, "sum", offsets=crow, initial=0)
        sums = _sums(entries.col, crow, e, v_1)
        outs.append(sums / total.masked_fill(total == 0, 1)[:, None])
        lses.append((top + total.log())[:, None])
    return torch.stack(outs), torch.stack(lses)


# --- the gradients


def _gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    g: Tensor,
    g_lse: Tensor,
    tiles: list[_Tiles],
    entries: _Entries | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """dQ, dK and dV from out and lse alone, where g and g_lse are the gradients of
    these.

        S = Q K',   P = exp(S - lse),   dV = P' G,
        dS = P * (G V' - rowsum(G * out) + g_lse),   dQ = dS K,   dK = dS' Q

    Source: Dao et al. 2022, recalled.
    Claim: sparse.gradient
    """
    drift = (g * out).sum(-1, keepdim=True) - g_lse[..., None]
    found = [torch.zeros_like(t) for t in (q, k, v)]
    for i in range(len(q)):
        head = [t[i] for t in (q, k, v, g, lse[..., None], drift, *found)]
        if entries:
            _add_entries(*head, entries)
        for own in tiles:
            pairs = own.queries.table.shape[1] * own.keys.table.shape[1]
            for here in _pieces(own, SCORES, pairs):
                _add_tiles(*head, own, here)
    return tuple(found)


def _add_tiles(q, k, v, g, lse, drift, dq, dk, dv, tiles: _Tiles, here: slice) -> None:
    """What these tiles add to the gradients of one head."""
    rows = [_at(t[None], tiles.queries, here)[0] for t in (q, g, lse, drift)]
    q, g, lse, drift = rows
    k, v = (_at(t[None], tiles.keys, here)[0] for t in (k, v))
    hidden = -lse if tiles.bias is None else _own(tiles.bias, here) - lse
    s = torch.baddbmm(hidden, q, k.mT)
    p = (s * LOG2E).exp2()  # exp is many times slower at -inf
    ds = p * torch.baddbmm(-drift, g, v.mT)
    _add(dq, tiles.queries, here, ds, k)
    _add(dk, tiles.keys, here, ds.mT, q)
    _add(dv, tiles.keys, here, p.mT, g)


def _add_entries(q, k, v, g, lse, drift, dq, dk, dv, e: _Entries) -> None:
    """What the entries add to the gradients of one head."""
    p = (_dots(e, q, k) - lse[:, 0].index_select(0, e.row)).exp()
    ds = p * (_dots(e, g, v) - drift[:, 0].index_select(0, e.row))
    dq.add_(_sums(e.col, e.crow, ds, k))
    dk.add_(_sums(e.row_t, e.crow_t, ds.index_select(0, e.turn), q))
    dv.add_(_sums(e.row_t, e.crow_t, p.index_select(0, e.turn), g))


def _add(x: Tensor, side: _Side, here: slice, a: Tensor, b: Tensor) -> None:
    """Add the products a b of these tiles to x (n, d), each row at its place."""
    if side.even is None:
        x.index_add_(0, side.table[here].flatten(), (a @ b).flatten(0, 1))
        return
    _, hop, step = side.even
    if hop == 0:  # all tiles share their rows
        a = a.transpose(0, 1).flatten(1)[None]
        b = b.flatten(0, 1)[None]
        here = slice(here.start, here.start + 1)
    low, high = _ends(side, here)
    inside = low >= 0 and high <= len(x)
    room = x[low:high] if inside else x.new_zeros(high - low, x.shape[-1])
    place = _spread(room[None], side, here)[0]
    # tiles that overlap are added one after another, those far apart together
    t, c = a.shape[:2]
    apart = 1 if hop * (t - 1) < step else math.ceil(((c - 1) * step + 1) / hop)
    for start in range(min(apart, t)):
        place[start::apart].baddbmm_(a[start::apart], b[start::apart])
    if not inside:
        x[max(low, 0) : max(high, 0)].add_(room[max(-low, 0) : len(x) - low])


# --- what torch sees: one function and its gradient, which compiled graphs call by the
# --- number of the step, as operators whose inside the compiler does not see

_numbered: list[tuple[Step, int]] = []


def _number(pattern: Pattern, step: int) -> int:
    """What stands for a step in a compiled graph."""
    own = pattern.steps[step], pattern.n
    if own not in _numbered:
        _numbered.append(own)
    return _numbered.index(own)


# torch.compiler.assume_constant_result(_number), which would import the compiler here
_number._dynamo_marked_constant = True


def _one_step(q, k, v, pattern: Pattern, step: int, checked: str):
    opaque = torch.compiler.is_compiling() or q.is_meta
    if opaque or type(q).__name__ == "FakeTensor":
        key = _number(pattern, step)
    else:
        key = pattern.steps[step]
    return _Attention.apply(q, k, v, key, checked)


def _in_front(info, in_dims: tuple, given: tuple) -> list[Tensor]:
    """Tensors with what vmap maps over as their first dimension."""
    moved = []
    for t, dim in zip(given, in_dims):
        one = t.expand(info.batch_size, *t.shape) if dim is None else t.movedim(dim, 0)
        moved.append(one)
    return moved


def _flat(*given: Tensor) -> list[Tensor]:
    return [t.reshape(-1, *t.shape[-2:]).contiguous() for t in given]


def _forward(q, k, v, step: Step, checked: str) -> tuple[Tensor, Tensor]:
    if checked:
        _require.finite(**{checked: q, "k": k, "v": v})
    made = _tiles_of(step, k.shape[-2], q.shape[-2], q.dtype, q.device)
    with torch.autocast(q.device.type, enabled=False):
        out, lse = _attend(*_flat(q, k, v), *made)
    return out.view(*q.shape[:-1], -1), lse.view(q.shape[:-1])


def _backward(q, k, v, out, lse, g, g_lse, step: Step) -> tuple[Tensor, ...]:
    made = _tiles_of(step, k.shape[-2], q.shape[-2], q.dtype, q.device)
    rows = [t.reshape(-1, t.shape[-1]) for t in (lse, g_lse)]
    q_1, k_1, v_1, out, g = _flat(q, k, v, out, g)
    # backward may be called under autocast, too
    with torch.autocast(q.device.type, enabled=False):
        found = _gradients(q_1, k_1, v_1, out, rows[0], g, rows[1], *made)
    return tuple(d.view(t.shape) for d, t in zip(found, (q, k, v)))


class _Attention(torch.autograd.Function):
    """(q, k, v) -> (out, lse) of a step; it keeps both, and no logits."""

    @staticmethod
    def forward(q, k, v, key, checked):
        run = torch.ops.attnlib.attention if isinstance(key, int) else _forward
        return run(q, k, v, key, checked)

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, ctx.key, _ = inputs
        ctx.save_for_backward(q, k, v, *output)

    @staticmethod
    def backward(ctx, g, g_lse):
        return *_Gradients.apply(*ctx.saved_tensors, g, g_lse, ctx.key), None, None

    @staticmethod
    def vmap(info, in_dims, q, k, v, *how):
        return _Attention.apply(*_in_front(info, in_dims, (q, k, v)), *how), (0, 0)


class _Gradients(torch.autograd.Function):
    """(q, k, v, out, lse, g, g_lse) -> (dq, dk, dv); its own gradient is that of the
    same tiles, with all their logits.
    """

    @staticmethod
    def forward(q, k, v, out, lse, g, g_lse, key):
        is_number = isinstance(key, int)
        run = torch.ops.attnlib.attention_backward if is_number else _backward
        return run(q, k, v, out, lse, g, g_lse, key)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.key = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, *up):
        key = ctx.key
        step = _numbered[key][0] if isinstance(key, int) else key
        again = functools.partial(_backward, step=step)
        _, pull = torch.func.vjp(again, *ctx.saved_tensors)
        return *pull(up), None

    @staticmethod
    def vmap(info, in_dims, *given):
        tensors = _in_front(info, in_dims, given[:7])
        return _Gradients.apply(*tensors, given[7]), (0, 0, 0)


# The schemas are written out: annotations are wrapped where shapes are checked.
@torch.library.custom_op(
    "attnlib::attention",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, int step, str checked) -> (Tensor, Tensor)",
)
def _operator(q, k, v, number, checked):
    step, n = _numbered[number]
    _fit(q, k, v, n)
    return _forward(q, k, v, step, checked)


@_operator.register_fake
def _shapes(q, k, v, number, checked):
    return q.new_empty(*q.shape[:-1], v.shape[-1]), q.new_empty(q.shape[:-1])


@torch.library.custom_op(
    "attnlib::attention_backward",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor g,"
    " Tensor g_lse, int step) -> (Tensor, Tensor, Tensor)",
)
def _operator_backward(*given):
    *tensors, number = given
    return _backward(*tensors, _numbered[number][0])


@_operator_backward.register_fake
def _shapes_of_gradients(q, k, v, *_):
    return tuple(t.new_empty(t.shape) for t in (q, k, v))
