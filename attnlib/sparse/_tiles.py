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
SHARED = 4  # a mask is shared if so many tiles, in the mean, have it
FEW = 32  # queries of a tile, where only the last rows are wanted


class Side(NamedTuple):
    """The queries, or the keys, of t tiles: row table[t, c] stands at place c of tile
    t, and 0 in a hole, where `real` is False. Rows first + t hop + c step are views:
    they have `even` = (first, hop, step).
    """

    table: Tensor
    real: Tensor | None
    even: tuple[int, int, int] | None

    def of(self, x: Tensor, here: slice) -> Tensor:
        """These tiles of (b, n, d) as (b, t, c, d), a view where it can be one, whose
        tiles may overlap.
        """
        table = self.table[here]
        if self.even is None:
            return x.index_select(1, table.flatten()).unflatten(1, table.shape)
        first, hop, step = self.even
        batch, row, number = x.stride()
        shape = (len(x), *table.shape, x.shape[2])
        strides = (batch, hop * row, step * row, number)
        return x[:, first + here.start * hop :].as_strided(shape, strides)


class Tiles(NamedTuple):
    """Tiles side by side: bias is 0 where a key is read and -inf where not, a mask
    (1, c, w) for all or one each, None where nothing is hidden.
    """

    queries: Side
    keys: Side
    bias: Tensor | None

    def pieces(self, room: dict[str, int]) -> Iterator[slice]:
        """Some tiles at a time: those whose logits find room."""
        t, c = self.queries.table.shape
        w = self.keys.table.shape[1]
        device = self.queries.table.device.type
        size = max(1, room.get(device, room["cuda"]) // (c * w))
        for start in range(0, t, size):
            yield slice(start, min(t, start + size))

    def hidden(self, here: slice) -> Tensor | None:
        """The bias of some tiles, or the one that all share."""
        shared = self.bias is None or len(self.bias) == 1
        return self.bias if shared else self.bias[here]


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
    tiles = []
    pairs = []
    turns = [(step, ())] if first else _in_turn(step)
    for part, earlier in turns:
        tables = _last_rows(step, n, first) if first else part.tiles(n)
        if not tables:
            pairs.append(_pairs(part, earlier, n, step.causal))
        for queries, keys in tables:
            queries, keys = _no_larger(queries, keys)
            for start, masks in _masks(queries, keys, n, part, earlier, step.causal):
                for here, own in _alike(masks):
                    side_q = _side(queries[start:][here] - first, n_q, device)
                    side_k = _side(keys[start:][here], n, device)
                    bias = None
                    if not own.all():
                        zeros = torch.zeros(own.shape, dtype=dtype, device=CPU)
                        bias = zeros.masked_fill(~own, -math.inf).to(device)
                    tiles.append(Tiles(side_q, side_k, bias))
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


def _alike(masks: Tensor) -> list[tuple[Tensor | slice, Tensor]]:
    """Which of some tiles share a mask, and that mask; all tiles with one each, if
    there are too many kinds. What reads nothing is left out.
    """
    kinds, kind = masks.flatten(1).unique(dim=0, return_inverse=True)
    if SHARED * len(kinds) > len(masks) > 1:
        return [(slice(len(masks)), masks)]
    found = []
    for number, mask in enumerate(kinds.view(-1, 1, *masks.shape[1:])):
        if mask.any():
            found.append(((kind == number).nonzero().flatten(), mask))
    return found


def _side(table: Tensor, n: int, device: torch.device) -> Side:
    t, c = table.shape
    first = int(table[0, 0])
    hop = int(table[1, 0]) - first if t > 1 else c
    step = int(table[0, 1]) - first if c > 1 else 1
    tile = _upto(t)[:, None]
    place = _upto(c)
    spaced = first + hop * tile + step * place
    real = (table >= 0) & (table < n)
    full = bool(real.all())
    even = full and hop >= 0 and step > 0 and torch.equal(table, spaced)
    return Side(
        table=torch.where(real, table, 0).to(device),
        real=None if full else real.to(device),
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
