"""The layout of each kind of part: in which order its tokens stand, and how its tiles lie over that order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.patterns import Blocks, Columns, Lists, Part, Rows, Step, Strided, Window

LARGE = 512  # queries a tile at the most; above, tiles share their keys


class Layout(NamedTuple):
    """Tile t: queries at t c, ..., t c + c - 1 of q_order; keys at t hop - left, ... of k_order, `width` of them.

    An order that is None is 0, 1, 2, ...; negative entries are holes, and so is what lies outside.
    """

    count: int
    c: int
    width: int
    hop: int
    left: int = 0
    q_order: Tensor | None = None
    k_order: Tensor | None = None

    def queries(self, tiles: Tensor, n: int) -> Tensor:
        return _looked_up(self.q_order, tiles[:, None] * self.c + torch.arange(self.c), n)

    def keys(self, tiles: Tensor, n: int) -> Tensor:
        return _looked_up(self.k_order, tiles[:, None] * self.hop - self.left + torch.arange(self.width), n)

    def to(self, device: torch.device) -> Layout:
        moved = [None if order is None else order.to(device) for order in (self.q_order, self.k_order)]
        return self._replace(q_order=moved[0], k_order=moved[1])


class BlockSets(NamedTuple):
    """Parts that consist of whole blocks: block a reads the blocks `sets[a]`. Only the plan makes these."""

    size: int
    sets: tuple[tuple[int, ...], ...]


def _looked_up(order: Tensor | None, position: Tensor, n: int) -> Tensor:
    if order is None:
        return torch.where((position >= 0) & (position < n), position, -1)
    inside = (position >= 0) & (position < len(order))
    return torch.where(inside, order[position.clamp(0, len(order) - 1)], -1)


def ordered(step: Step, n: int) -> list[tuple[Part | BlockSets, tuple[Part, ...]]]:
    """The parts of a step, those whose tiles are best left unmasked first, each with the parts that define it.

    Parts that consist of whole blocks of one size are taken together.
    """
    parts = [p for p in dict.fromkeys(step.parts) if not isinstance(p, Columns | Rows)]
    for kind in (Columns, Rows):  # one of each: two that share a row would count it twice
        tokens = {t for p in step.parts if isinstance(p, kind) for t in p.tokens}
        parts += [kind(tuple(sorted(tokens)))] if tokens else []
    size = _block_size(parts, n)
    whole = [p for p in parts if size and _is_whole(p, size, n)]
    if len(whole) == 1 and isinstance(whole[0], Blocks):
        whole = []
    rank = {Blocks: 0, Strided: 2, Columns: 3, Lists: 4, Rows: 5}
    rest = sorted((p for p in parts if not any(p is w for w in whole)), key=lambda p: rank.get(type(p), 1))
    first = [(BlockSets(size, _block_sets(whole, size, n)), tuple(whole))] if whole else []
    return first + [(p, (p,)) for p in rest]


def layouts(part: Part | BlockSets, n: int, causal: bool) -> Iterator[Layout]:
    """The layouts that together hold every connection of a part."""
    match part:
        case Window(left, right, dilation, wrap):
            yield from _window(n, left, 0 if causal and not wrap else right, dilation, wrap)
        case Strided(stride):
            yield from _tables(_classes(n, min(stride, n)))
        case Blocks(size, shift, turn):
            table = torch.arange(part.count(n) * size).view(-1, size) - shift
            table = torch.where(table < n, table, -1)
            yield from _tables(table, table.roll(-turn, 0))
        case BlockSets(size, sets):
            yield from _block_lists(n, size, sets)
        case Columns(tokens):
            c = min(128, n)
            yield Layout(-(-n // c), c, len(tokens), 0, k_order=torch.tensor(tokens))
        case Rows(tokens):
            c = min(128, len(tokens))
            yield Layout(-(-len(tokens) // c), c, n, 0, q_order=_filled(torch.tensor(tokens), c))
        case Lists(crow, col):
            yield from _lists(n, crow.cpu(), col.cpu())


def _window(n: int, left: int, right: int, dilation: int, wrap: bool) -> Iterator[Layout]:
    """Tokens a multiple of `dilation` apart stand side by side; then it is a plain window of overlapping tiles."""
    classes = math.gcd(n, dilation) if wrap else min(dilation, n)
    length = -(-n // classes)
    c = 32 if left + right >= 32 else 16
    width = c + left + right
    if width >= length:  # as many keys as there are
        yield from _tables(_cycles(n, classes, dilation) if wrap else _classes(n, classes))
    elif not wrap:
        order = None if classes == 1 else (table := _classes(n, classes).flatten())[table >= 0]
        k_order = None if order is None else F.pad(order, (left, width), value=-1)
        yield Layout(-(-n // c), c, width, c, left if order is None else 0, order if order is None else _filled(order, c), k_order)
    else:
        cycles = _cycles(n, classes, dilation)
        keys = torch.cat([cycles[:, length - left :], cycles, cycles[:, :right]], 1)
        room = -(-keys.shape[1] // c) * c  # tiles of one cycle never reach into the next one's queries
        q_order, k_order = (F.pad(t, (0, room - t.shape[1]), value=-1).flatten() for t in (cycles, keys))
        yield Layout(len(q_order) // c, c, width, c, 0, q_order, F.pad(k_order, (0, width), value=-1))


def _classes(n: int, count: int) -> Tensor:
    """Residue classes modulo `count`, one a row."""
    table = torch.arange(-(-n // count) * count).view(-1, count).T
    return torch.where(table < n, table, -1)


def _cycles(n: int, count: int, dilation: int) -> Tensor:
    """The orbits of i -> i + dilation modulo n, one a row."""
    return (torch.arange(count)[:, None] + dilation * torch.arange(n // count)) % n


def _tables(queries: Tensor, keys: Tensor | None = None) -> Iterator[Layout]:
    """Row a of `queries` reads row a of `keys`: a tile each, or, where they are large, many tiles that share keys."""
    keys = queries if keys is None else keys
    (count, c), width = queries.shape, keys.shape[1]
    if c <= LARGE:
        yield Layout(count, c, width, width, 0, queries.flatten(), keys.flatten())
        return
    for q, k in zip(queries, keys):
        q, k = q[q >= 0], k[k >= 0]
        yield Layout(-(-len(q) // 128), 128, len(k), 0, 0, _filled(q, 128), k)


def _filled(order: Tensor, c: int) -> Tensor:
    return F.pad(order, (0, -len(order) % c), value=-1)


def _lists(n: int, crow: Tensor, col: Tensor) -> Iterator[Layout]:
    """A tile for each row, with the rows of about one length together: every key is gathered."""
    counts = crow.diff()
    for low in [2**e for e in range(int(counts.max()).bit_length())]:
        rows = ((counts >= low) & (counts < 2 * low)).nonzero().flatten()
        if len(rows):
            width = int(counts[rows].max())
            place = torch.arange(width)
            at = (crow[rows, None] + place).clamp_max(len(col) - 1)
            keys = torch.where(place < counts[rows, None], col[at], -1)
            yield Layout(len(rows), 1, width, width, 0, rows, keys.flatten())


# --- whole blocks ---


def _block_size(parts: list[Part], n: int) -> int:
    """The size of the blocks that some part consists of, 0 if none does: blocks that stand side by side, or lists."""
    for part in parts:
        if isinstance(part, Blocks) and part.shift == 0 and part.size <= LARGE:
            return part.size
    for part in parts:
        for size in (256, 128, 64, 32, 16, 8):
            if isinstance(part, Lists) and _is_whole(part, size, n):
                return size
    return 0


def _is_whole(part: Part, size: int, n: int) -> bool:
    """Whether the part consists of whole blocks of this size."""
    match part:
        case Blocks():
            return part.size == size and part.shift == 0
        case Columns(tokens):
            blocks = sorted({t // size for t in tokens})
            return list(tokens) == [t for b in blocks for t in range(b * size, min(n, b * size + size))]
        case Lists(crow, col):
            if n % size or len(col) % (size * size):
                return False
            counts, runs = crow.diff().view(-1, size), col.view(-1, size)
            if not (bool((counts == counts[:, :1]).all() & (counts % size == 0).all() & (runs[:, 0] % size == 0).all())):
                return False
            alike = bool((runs == runs[:, :1] + torch.arange(size)).all())
            return alike and all(
                bool((rows == rows[:1]).all())
                for rows in (col[crow[b] : crow[b + size]].view(size, -1) for b in range(0, n, size))
                if rows.numel()
            )
    return False


def _block_sets(parts: list[Part], size: int, n: int) -> tuple[tuple[int, ...], ...]:
    """For each block the blocks that it reads."""
    count = -(-n // size)
    sets: list[set[int]] = [set() for _ in range(count)]
    for part in parts:
        for a, own in enumerate(sets):
            match part:
                case Blocks(_, _, turn):
                    own.add((a + turn) % count)
                case Columns(tokens):
                    own.update(t // size for t in tokens)
                case Lists(crow, col):
                    own.update((col[crow[a * size] : crow[a * size + 1] : size] // size).tolist())
    return tuple(tuple(sorted(own)) for own in sets)


def _block_lists(n: int, size: int, sets: tuple[tuple[int, ...], ...]) -> Iterator[Layout]:
    """Blocks that read equally many blocks together: nothing is filled up."""
    place = torch.arange(size)
    token = lambda blocks: torch.where((t := blocks[..., None] * size + place) < n, t, -1)
    for length in sorted({len(own) for own in sets} - {0}):
        blocks = torch.tensor([a for a, own in enumerate(sets) if len(own) == length])
        keys = token(torch.tensor([sets[a] for a in blocks.tolist()])).flatten(1)
        yield Layout(len(blocks), size, keys.shape[1], keys.shape[1], 0, token(blocks).flatten(), keys.flatten())
