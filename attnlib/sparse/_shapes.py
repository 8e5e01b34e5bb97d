"""The layout of each kind of part: in which order its tokens stand, and how its tiles
lie over that order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.patterns import Blocks, Columns, Lists, Part, Rows, Step, Strided, Window

LARGE = 512  # queries a tile at the most; above, tiles share their keys


class Side(NamedTuple):
    """The queries, or the keys, of tiles: tile t holds the positions first + t hop + a
    step, a < size, of an order.

    An order that is None is 0, 1, 2, ...: such tiles are views. Negative entries are
    holes; so is what lies outside.
    """

    size: int
    hop: int
    first: int = 0
    step: int = 1
    order: Tensor | None = None
    real: Tensor | None = (
        None  # once it is ready: what is no hole, None if nothing is one
    )

    def tokens(self, tiles: Tensor, n: int) -> Tensor:
        """(tiles, size): which token stands where, -1 for a hole."""
        at = (
            self.first + self.hop * tiles[:, None] + self.step * torch.arange(self.size)
        )
        inside = (at >= 0) & (at < (n if self.order is None else len(self.order)))
        return torch.where(
            inside,
            at if self.order is None else self.order[at.clamp(0, len(self.order) - 1)],
            -1,
        )

    def apart(self, count: int) -> int:
        """Tiles so many numbers apart share no position; not for hop = 0."""
        return (
            1
            if self.hop * (count - 1) < self.step
            else -(-((self.size - 1) * self.step + 1) // self.hop)
        )

    def ends(self, start: int, stop: int) -> tuple[int, int]:
        """All positions of tiles start..stop - 1 lie in a..b - 1."""
        return self.first + start * self.hop, self.first + (stop - 1) * self.hop + (
            self.size - 1
        ) * self.step + 1


class Layout(NamedTuple):
    """`count` tiles: their queries and their keys."""

    count: int
    q: Side
    k: Side

    @property
    def pairs(self) -> int:
        """The logits of a tile."""
        return self.q.size * self.k.size

    def to(self, device: torch.device) -> Layout:
        """Ready: on a device, as views where the tokens of the tiles are evenly spaced;
        a hole holds token 0.
        """
        return Layout(
            self.count,
            *(_ready(_evenly(side, self.count), device) for side in (self.q, self.k)),
        )


def _ready(side: Side, device: torch.device) -> Side:
    if side.order is None:
        return side
    real = (side.order >= 0).to(device)
    return side._replace(
        order=side.order.clamp_min(0).to(device),
        real=None if bool(real.all()) else real,
    )


def _evenly(side: Side, count: int) -> Side:
    """The same side without an order, if it needs none."""
    if side.order is None:
        return side
    at = side.tokens(torch.arange(count), 0)
    first, hop = int(at[0, 0]), int(at[1, 0] - at[0, 0]) if count > 1 else side.size
    step = int(at[0, 1] - at[0, 0]) if side.size > 1 else 1
    plain = Side(side.size, hop, first, step)
    small = min(first, hop, step - 1) >= 0 and bool((at >= 0).all())
    return (
        plain
        if small
        and torch.equal(plain.tokens(torch.arange(count), int(at.max()) + 1), at)
        else side
    )


class BlockSets(NamedTuple):
    """Parts that consist of whole blocks: block a reads the blocks `sets[a]`. Only the
    plan makes these.
    """

    size: int
    sets: tuple[tuple[int, ...], ...]


class Classes(NamedTuple):
    """A strided part and global columns: each class with the columns behind it. Only
    the plan makes these.
    """

    stride: int
    tokens: tuple[int, ...]


def ordered(
    step: Step, n: int
) -> list[tuple[Part | BlockSets | Classes, tuple[Part, ...]]]:
    """The parts of a step, those whose tiles are best left unmasked first, each with
    the parts that define it.

    Parts that consist of whole blocks of one size are taken together, and so are a
    strided part and a few columns.
    """
    parts = [p for p in dict.fromkeys(step.parts) if not isinstance(p, Columns | Rows)]
    for kind in (
        Columns,
        Rows,
    ):  # one of each: two that share a row would count it twice
        tokens = {t for p in step.parts if isinstance(p, kind) for t in p.tokens}
        parts += [kind(tuple(sorted(tokens)))] if tokens else []
    size = _block_size(parts, n)
    whole = [p for p in parts if size and _is_whole(p, size, n)]
    if len(whole) == 1 and isinstance(whole[0], Blocks):
        whole = []
    first = (
        [(BlockSets(size, _block_sets(whole, size, n)), tuple(whole))] if whole else []
    )
    rest = [p for p in parts if not any(p is w for w in whole)]

    def few(s, c):
        return s.stride < n <= s.stride * LARGE and len(c.tokens) <= n // s.stride

    for pair in (
        (s, c)
        for s in rest
        for c in rest
        if isinstance(s, Strided) and isinstance(c, Columns) and few(s, c)
    ):
        first.append((Classes(pair[0].stride, pair[1].tokens), pair))
        rest = [p for p in rest if not any(p is taken for taken in pair)]
        break
    rank = {Blocks: 0, Strided: 1, Columns: 3, Lists: 4, Rows: 5}
    return first + [(p, (p,)) for p in sorted(rest, key=lambda p: rank.get(type(p), 2))]


def layouts(part: Part | BlockSets | Classes, n: int, causal: bool) -> Iterator[Layout]:
    """The layouts that together hold every connection of a part."""
    match part:
        case Window(left, right, dilation, wrap):
            yield from _window(
                n, left, 0 if causal and not wrap else right, dilation, wrap
            )
        case Strided(stride):
            yield from _residues(n, min(stride, n))
        case Classes(stride, tokens):
            yield from _residues(n, stride, torch.tensor(tokens))
        case Blocks(size, shift, turn):
            table = torch.arange(part.count(n) * size).view(-1, size) - shift
            table = torch.where(table < n, table, -1)
            yield from _tables(table, table.roll(-turn, 0))
        case BlockSets(size, sets):
            yield from _block_lists(n, size, sets)
        case Columns(tokens):
            c = min(128, n)
            yield Layout(
                -(-n // c), Side(c, c), Side(len(tokens), 0, order=torch.tensor(tokens))
            )
        case Rows(tokens):
            c = min(128, len(tokens))
            yield Layout(
                -(-len(tokens) // c),
                Side(c, c, order=_filled(torch.tensor(tokens), c)),
                Side(n, 0),
            )


def _window(
    n: int, left: int, right: int, dilation: int, wrap: bool
) -> Iterator[Layout]:
    """Tokens a multiple of `dilation` apart stand side by side; then it is a plain
    window of overlapping tiles.
    """
    classes = math.gcd(n, dilation) if wrap else min(dilation, n)
    length = -(-n // classes)
    c = 32 if left + right >= 32 else 16
    width = c + left + right
    if width >= length:  # as many keys as there are
        yield from (
            _tables(_cycles(n, classes, dilation)) if wrap else _residues(n, classes)
        )
    elif classes == 1 and not wrap:
        yield Layout(-(-n // c), Side(c, c), Side(width, c, -left))
    elif not wrap:
        order = (table := _classes(n, classes).flatten())[table >= 0]
        keys = Side(width, c, order=F.pad(order, (left, width), value=-1))
        yield Layout(-(-n // c), Side(c, c, order=_filled(order, c)), keys)
    else:
        cycles = _cycles(n, classes, dilation)
        keys = torch.cat([cycles[:, length - left :], cycles, cycles[:, :right]], 1)
        room = (
            -(-keys.shape[1] // c) * c
        )  # tiles of one cycle never reach into the next one's queries
        queries, keys = (
            F.pad(t, (0, room - t.shape[1]), value=-1).flatten() for t in (cycles, keys)
        )
        keys = Side(width, c, order=F.pad(keys, (0, width), value=-1))
        yield Layout(len(queries) // c, Side(c, c, order=queries), keys)


def _residues(n: int, count: int, behind: Tensor | None = None) -> Iterator[Layout]:
    """Residue classes modulo `count`, the first of which may hold one token more, and
    some keys behind each class.
    """
    table, longer = _classes(n, count), n % count
    keys = table
    if behind is not None:  # what the class holds already is a hole
        keys = torch.cat(
            [
                table,
                torch.where(behind % count == torch.arange(count)[:, None], -1, behind),
            ],
            1,
        )
    if longer:
        yield from _tables(table[:longer], keys[:longer])
    last = table.shape[1] - bool(longer)
    kept = torch.arange(keys.shape[1]) != table.shape[1] - 1 if longer else slice(None)
    yield from _tables(table[longer:, :last], keys[longer:, kept])


def _classes(n: int, count: int) -> Tensor:
    """Residue classes modulo `count`, one a row."""
    table = torch.arange(-(-n // count) * count).view(-1, count).T
    return torch.where(table < n, table, -1)


def _cycles(n: int, count: int, dilation: int) -> Tensor:
    """The orbits of i -> i + dilation modulo n, one a row."""
    return (torch.arange(count)[:, None] + dilation * torch.arange(n // count)) % n


def _tables(queries: Tensor, keys: Tensor | None = None) -> Iterator[Layout]:
    """Row a of `queries` reads row a of `keys`: a tile each, or, where they are large,
    many tiles that share keys.
    """
    keys = queries if keys is None else keys
    (count, c), width = queries.shape, keys.shape[1]
    if c <= LARGE:
        yield Layout(
            count,
            Side(c, c, order=queries.flatten()),
            Side(width, width, order=keys.flatten()),
        )
        return
    for q, k in zip(queries, keys):
        q, k = q[q >= 0], k[k >= 0]
        yield Layout(
            -(-len(q) // 128),
            Side(128, 128, order=_filled(q, 128)),
            Side(len(k), 0, order=k),
        )


def _filled(order: Tensor, c: int) -> Tensor:
    return F.pad(order, (0, -len(order) % c), value=-1)


# --- whole blocks ---


def _block_size(parts: list[Part], n: int) -> int:
    """The size of the blocks that some part consists of, 0 if none does: blocks that
    stand side by side, or lists.
    """
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
            return list(tokens) == [
                t for b in blocks for t in range(b * size, min(n, b * size + size))
            ]
        case Lists(crow, col):
            if n % size or len(col) % (size * size):
                return False
            counts, runs = crow.diff().view(-1, size), col.view(-1, size)
            if not (
                bool(
                    (counts == counts[:, :1]).all()
                    & (counts % size == 0).all()
                    & (runs[:, 0] % size == 0).all()
                )
            ):
                return False
            alike = bool((runs == runs[:, :1] + torch.arange(size)).all())
            return alike and all(
                bool((rows == rows[:1]).all())
                for rows in (
                    col[crow[b] : crow[b + size]].view(size, -1)
                    for b in range(0, n, size)
                )
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
                    own.update(
                        (
                            col[crow[a * size] : crow[a * size + 1] : size] // size
                        ).tolist()
                    )
    return tuple(tuple(sorted(own)) for own in sets)


def _block_lists(
    n: int, size: int, sets: tuple[tuple[int, ...], ...]
) -> Iterator[Layout]:
    """Blocks that read equally many blocks together: nothing is filled up."""
    place = torch.arange(size)

    def token(blocks):
        return torch.where((t := blocks[..., None] * size + place) < n, t, -1)

    for length in sorted({len(own) for own in sets} - {0}):
        blocks = torch.tensor([a for a, own in enumerate(sets) if len(own) == length])
        keys = token(torch.tensor([sets[a] for a in blocks.tolist()])).flatten(1)
        queries = Side(size, size, order=token(blocks).flatten())
        yield Layout(
            len(blocks),
            queries,
            Side(keys.shape[1], keys.shape[1], order=keys.flatten()),
        )
