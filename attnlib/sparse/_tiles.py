"""From a step of a pattern to dense tiles, and to the pairs that no tile holds.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from attnlib._require import require
from attnlib.patterns import (
    Blocks,
    Columns,
    Lists,
    Part,
    Rows,
    Step,
    Strided,
    Window,
)
from attnlib.patterns.parts import CPU, LARGE, THIN, Tables, _starts, _upto

# First parts whose tiles are best left unmasked, last what goes pair by pair.
ORDER = (Blocks, Strided, Window, Columns, Rows, Lists)
PAIRS = 1 << 21  # pairs looked at together while tiles are made
SHARED = 4  # so many equal masks in a row share one
FEW = 32  # queries of a tile, where only the last rows are wanted


class Side(NamedTuple):
    """The queries, or the keys, of t tiles: row table[t, c] stands at place c of tile
    t, 0 in a hole, where `real` is False. Evenly spaced rows first + t hop + c step are
    views: they have `even` = (first, hop, step), and may lie outside.
    """

    table: Tensor
    real: Tensor | None
    even: tuple[int, int, int] | None

    @property
    def width(self) -> int:
        """Rows of a tile."""
        return self.table.shape[1]

    def ends(self, here: slice) -> tuple[int, int]:
        """All rows of these evenly spaced tiles are in low..high - 1."""
        first, hop, step = self.even
        low = first + here.start * hop
        last_tile = first + (here.stop - 1) * hop
        return low, last_tile + (self.width - 1) * step + 1

    def spread(self, x: Tensor, here: slice) -> Tensor:
        """Rows low..high - 1 as tiles that may overlap: a view."""
        _, hop, step = self.even
        b, _, d = x.shape
        batch, row, number = x.stride()
        shape = (b, here.stop - here.start, self.width, d)
        strides = (batch, hop * row, step * row, number)
        return x.as_strided(shape, strides)

    def of(self, x: Tensor, here: slice) -> Tensor:
        """These tiles of (b, n, d) as (b, t, c, d), a view where it can be one. A hole
        holds a finite row.
        """
        if self.even is None:
            table = self.table[here]
            rows = x.index_select(1, table.flatten())
            return rows.unflatten(1, table.shape)
        n = x.shape[1]
        low, high = self.ends(here)
        inside = x[:, max(low, 0) : max(high, 0)]
        before = max(-low, 0)
        after = max(high - n, 0)
        if before or after:
            inside = F.pad(inside, (0, 0, before, after))
        return self.spread(inside, here)


class Tiles(NamedTuple):
    """Tiles side by side: bias is 0 where a key is read and -inf where not, a mask
    (1, c, w) for all or one each, None where nothing is hidden; dead (1 or t, c, 1)
    marks queries without a key. fresh: no part before has touched these rows.
    """

    queries: Side
    keys: Side
    bias: Tensor | None
    dead: Tensor | None
    fresh: bool

    def pieces(self, room: dict[str, int], numbers: int) -> Iterator[slice]:
        """Some tiles at a time, each of so many numbers."""
        t = len(self.queries.table)
        device = self.queries.table.device.type
        size = max(1, room.get(device, room["cuda"]) // numbers)
        for start in range(0, t, size):
            yield slice(start, min(t, start + size))


class Entries(NamedTuple):
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
def tiles_of(
    step: Step, n: int, n_q: int, dtype: torch.dtype, device: torch.device
) -> tuple[list[Tiles], Entries | None]:
    """The tiles of a step for the last n_q of n queries, and the pairs beside them.
    What two parts hold is hidden in the later one.
    """
    first = n - n_q
    fed = torch.zeros(n, dtype=torch.bool, device=CPU)  # rows that read something
    tiles = []
    pairs = []
    turns = [(step, ())] if first else _in_turn(step)
    for part, earlier in turns:
        tables = _last_rows(step, n, first) if first else part.tiles(n)
        if not tables:
            rows, columns = _pairs(part, earlier, n, step.causal)
            pairs.append((rows, columns))
            fed[rows] = True
        for queries, keys in tables:
            inside = (queries >= 0) & (queries < n)
            fresh = not bool(fed[queries[inside]].any())
            queries, keys = _no_larger(queries, keys)
            for start, mask in _masks(queries, keys, n, part, earlier, step.causal):
                stop = start + len(mask)
                alive = mask.any(-1)
                fed[queries[start:stop][alive]] = True
                for here, own in _stretches(mask, start):
                    side_q = _side(queries[here] - first, n_q, device)
                    side_k = _side(keys[here], n, device)
                    bias, dead = _hiding(own, dtype, device)
                    tiles.append(Tiles(side_q, side_k, bias, dead, fresh))
    empty = (~fed[first:]).nonzero().flatten() + first
    require(
        len(empty) == 0,
        f"row {int(empty[:1].sum())} of the pattern attends to nothing, "
        f"so its softmax is empty ({len(empty)} such rows)",
    )
    return tiles, entries_of(pairs, n, device)


def _in_turn(step: Step) -> list[tuple[Part, tuple[Part, ...]]]:
    """The parts, each with those before it; of windows the wide ones first."""

    def rank(part: Part) -> tuple[int, int]:
        if not isinstance(part, Window):
            return ORDER.index(type(part)), 0
        width = part.left + part.right
        kind = Lists if width < THIN else Window
        return ORDER.index(kind), -width

    parts = []
    for part in sorted(step.parts, key=rank):
        if step.causal and isinstance(part, Window) and not part.wrap:
            part = replace(part, right=0)
        parts.append(part)
    before = [tuple(parts[:i]) for i in range(len(parts))]
    return list(zip(parts, before))


def _last_rows(step: Step, n: int, first: int) -> Tables:
    """Tiles of a few rows at the end, with all keys that one of them reads."""
    j = _upto(n)
    queries = j[first:].split(FEW)
    keys = []
    for i in queries:
        read = step.reads(n, i[:, None], j).any(0)
        keys.append(read.nonzero().flatten())
    fill = functools.partial(pad_sequence, batch_first=True, padding_value=n)
    return [(fill(queries), fill(keys))]


def _no_larger(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Large tiles in pieces that share their keys."""
    size = queries.shape[1]
    if size <= 4 * LARGE:
        return queries, keys
    missing = -size % LARGE
    queries = F.pad(queries, (0, missing), value=-1)
    pieces = queries.shape[1] // LARGE
    return queries.view(-1, LARGE), keys.repeat_interleave(pieces, 0)


def _masks(
    queries: Tensor, keys: Tensor, n: int, part, earlier, causal: bool
) -> Iterator[tuple[int, Tensor]]:
    """(t, c, w), some tiles at a time: what this part reads and no earlier one does."""
    pairs = queries.shape[1] * keys.shape[1]
    size = max(1, PAIRS // pairs)
    for start in range(0, len(queries), size):
        k = queries[start : start + size, :, None]
        j = keys[start : start + size, None]
        mask = (k >= 0) & (k < n)
        mask = mask & (j >= 0) & (j < n)
        k = k.clamp(0, n - 1)
        j = j.clamp(0, n - 1)
        mask &= part.reads(n, k, j)
        for other in earlier:
            mask &= ~other.reads(n, k, j)
        if causal:
            mask &= j <= k
        yield start, mask


def _stretches(masks: Tensor, start: int) -> list[tuple[slice, Tensor]]:
    """Tiles start, start + 1, ... with a mask for all or one each: the longest stretch
    of equal masks, and what is before and behind it. What reads nothing is left out.
    """
    count = len(masks)
    if not masks.any():
        return []
    change = masks[1:] != masks[:-1]
    places = change.flatten(1).any(1).nonzero()
    ends = [0, *(places.flatten() + 1).tolist(), count]
    lengths = [b - a for a, b in zip(ends, ends[1:])]
    length = max(lengths)
    a = ends[lengths.index(length)]
    b = a + length
    if length < min(SHARED, count):
        return [(slice(start, start + count), masks)]
    one = masks[a : a + 1]
    here = slice(start + a, start + b)
    own = [(here, one)] if one.any() else []
    behind = _stretches(masks[b:], start + b)
    return _stretches(masks[:a], start) + own + behind


def _hiding(mask: Tensor, dtype: torch.dtype, device: torch.device):
    """bias and dead of a mask, None where they say nothing."""
    bias = dead = None
    if not mask.all():
        zeros = torch.zeros(mask.shape, dtype=dtype, device=CPU)
        bias = zeros.masked_fill(~mask, -math.inf).to(device)
    alive = mask.any(-1, keepdim=True)
    if not alive.all():
        dead = (~alive).to(device)
    return bias, dead


def _side(table: Tensor, n: int, device: torch.device) -> Side:
    t, c = table.shape
    first = int(table[0, 0])
    hop = int(table[1, 0]) - first if t > 1 else c
    step = int(table[0, 1]) - first if c > 1 else 1
    tile = _upto(t)[:, None]
    place = _upto(c)
    spaced = first + hop * tile + step * place
    even = hop >= 0 and step > 0 and torch.equal(table, spaced)
    real = (table >= 0) & (table < n)
    return Side(
        table=torch.where(real, table, 0).to(device),
        real=None if real.all() else real.to(device),
        even=(first, hop, step) if even else None,
    )


def _pairs(part, earlier, n: int, causal: bool) -> tuple[Tensor, Tensor]:
    """Rows and columns of a part that no earlier part has read."""
    rows, columns = part.pairs(n)
    kept = torch.ones_like(rows, dtype=torch.bool)
    if causal:
        kept &= columns <= rows
    for other in earlier:
        kept &= ~other.reads(n, rows, columns)
    return rows[kept], columns[kept]


def entries_of(
    pairs: list[tuple[Tensor, Tensor]], n: int, device: torch.device
) -> Entries | None:
    """Rows and columns as compressed rows, None if there are none."""
    if sum(len(rows) for rows, _ in pairs) == 0:
        return None
    rows, columns = (torch.cat(t) for t in zip(*pairs))
    order = (rows * n + columns).argsort()
    rows = rows[order]
    columns = columns[order]
    turn = columns.argsort(stable=True)
    crow = _starts(rows.bincount(minlength=n))
    crow_t = _starts(columns.bincount(minlength=n))
    made = Entries(crow, rows, columns, crow_t, rows[turn], turn)
    return Entries(*(t.to(device) for t in made))
