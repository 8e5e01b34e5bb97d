"""The layout of each kind of part: in which order its tokens stand, and how its tiles
lie over that order.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.patterns import Blocks, Columns, Lists, Part, Rows, Step, Strided, Window

LARGE = 512  # queries a tile at the most; above, tiles share their keys
SHARING = 128  # queries of a tile that shares its keys
FEW = 32  # queries of a tile, where only the last rows are wanted
# in which order parts are laid out: the later, the more is hidden in its tiles
RANK = {
    Blocks: 0,
    Strided: 1,
    Window: 2,
    Columns: 3,
    Lists: 4,
    Rows: 5,
}


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The queries, or the keys, of tiles.

    Tile t holds the positions first + t hop + a step, a < size, of an order. An order
    that is None is 0, 1, 2, ...: such tiles are views. Negative entries are holes; so
    is what lies outside. Once the side is ready, real says what is no hole; it is None
    if nothing is one.
    """

    size: int
    hop: int
    first: int = 0
    step: int = 1
    order: Tensor | None = None
    real: Tensor | None = None

    def tokens(self, tiles: Tensor, n: int) -> Tensor:
        """(tiles, size): which token stands where, -1 for a hole."""
        a = torch.arange(self.size, device="cpu")
        at = self.first + self.hop * tiles[:, None] + self.step * a
        if self.order is None:
            inside = (at >= 0) & (at < n)
            return torch.where(inside, at, -1)
        last = len(self.order) - 1
        inside = (at >= 0) & (at <= last)
        return torch.where(inside, self.order[at.clamp(0, last)], -1)

    def apart(self, count: int) -> int:
        """Tiles so many numbers apart share no position; not for hop = 0."""
        if self.hop * (count - 1) < self.step:  # all lie between the steps of the first
            return 1
        width = (self.size - 1) * self.step + 1
        return math.ceil(width / self.hop)

    def ends(self, start: int, stop: int) -> tuple[int, int]:
        """All positions of tiles start..stop - 1 lie in a..b - 1."""
        a = self.first + start * self.hop
        last_tile = self.first + (stop - 1) * self.hop
        b = last_tile + (self.size - 1) * self.step + 1
        return a, b


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """`count` tiles: their queries and their keys."""

    count: int
    q: Side
    k: Side

    @property
    def pairs(self) -> int:
        """The logits of a tile."""
        return self.q.size * self.k.size

    def to(self, device: torch.device) -> Layout:
        """Ready: on a device, as views where the tokens of the tiles are evenly spaced.

        A hole then holds token 0.
        """
        q = _ready(_evenly(self.q, self.count), device)
        k = _ready(_evenly(self.k, self.count), device)
        return Layout(self.count, q, k)


def _ready(side: Side, device: torch.device) -> Side:
    if side.order is None:
        return side
    is_real = side.order >= 0
    real = None if bool(is_real.all()) else is_real.to(device)
    order = side.order.clamp_min(0).to(device)
    return replace(side, order=order, real=real)


def _evenly(side: Side, count: int) -> Side:
    """The same side without an order, if it needs none."""
    if side.order is None:
        return side
    tiles = torch.arange(count, device="cpu")
    at = side.tokens(tiles, 0)
    first = int(at[0, 0])
    hop = int(at[1, 0]) - first if count > 1 else side.size
    step = int(at[0, 1]) - first if side.size > 1 else 1
    has_holes = bool((at < 0).any())
    if has_holes or hop < 0 or step < 1:
        return side
    plain = Side(side.size, hop, first, step)
    n = int(at.max()) + 1
    return plain if torch.equal(plain.tokens(tiles, n), at) else side


@dataclass(frozen=True, slots=True)
class BlockSets:
    """Parts that consist of whole blocks: block a reads the blocks `sets[a]`.

    Only the plan makes these.
    """

    size: int
    sets: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Classes:
    """A strided part and global columns: each class with the columns behind it.

    Only the plan makes these.
    """

    stride: int
    tokens: tuple[int, ...]


def ordered(
    step: Step, n: int
) -> list[tuple[Part | BlockSets | Classes, tuple[Part, ...]]]:
    """The parts of a step, those whose tiles are best left unmasked first.

    Parts that consist of whole blocks of one size are taken together, and so are a
    strided part and a few columns.

    Args:
        step: of a pattern.
        n: tokens.

    Returns:
        pairs: what is to be laid out, and the parts that define it.

    Cost: O(n) times the parts, and the entries of lists.
    Source: none.
    """
    first = []
    rest = _each_once(step)
    size = _block_size(rest, n)
    whole = tuple(part for part in rest if size and _is_whole(part, size, n))
    blocks_alone = len(whole) == 1 and isinstance(whole[0], Blocks)
    if whole and not blocks_alone:
        sets = _block_sets(whole, size, n)
        first.append((BlockSets(size, sets), whole))
        rest = _without(rest, whole)
    pair = _stride_and_columns(rest, n)
    if pair:
        strided, columns = pair
        first.append((Classes(strided.stride, columns.tokens), pair))
        rest = _without(rest, pair)
    return first + [(part, (part,)) for part in sorted(rest, key=_rank)]


def _rank(part: Part) -> tuple[int, int]:
    """By kind; wide windows before narrow ones, which they may hold."""
    width = part.left + part.right if isinstance(part, Window) else 0
    return RANK[type(part)], -width


def _each_once(step: Step) -> list[Part]:
    """The parts of a step, all Columns as one and all Rows as one.

    Two Rows that share a row would count it twice.
    """
    parts = list(dict.fromkeys(step.parts))
    kept = [part for part in parts if not isinstance(part, Columns | Rows)]
    for kind in (Columns, Rows):
        tokens = set()
        for part in parts:
            if isinstance(part, kind):
                tokens.update(part.tokens)
        if tokens:
            kept.append(kind(tuple(sorted(tokens))))
    return kept


def _without(parts: list[Part], taken: tuple[Part, ...]) -> list[Part]:
    """The parts that are not taken: by identity, as lists have tensors in them."""
    taken_ids = {id(part) for part in taken}
    return [part for part in parts if id(part) not in taken_ids]


def _stride_and_columns(parts: list[Part], n: int) -> tuple[Strided, Columns] | None:
    """A strided part, and columns so few that they fit behind each of its classes."""
    for strided in parts:
        if not isinstance(strided, Strided):
            continue
        stride = strided.stride
        for columns in parts:
            if not isinstance(columns, Columns):
                continue
            if stride < n <= stride * LARGE and len(columns.tokens) <= n // stride:
                return strided, columns
    return None


def layouts(part: Part | BlockSets | Classes, n: int, causal: bool) -> Iterator[Layout]:
    """The layouts that together hold every connection of a part.

    Args:
        part: of `ordered`, no lists.
        n: tokens.
        causal: only j <= i is wanted.

    Yields:
        layouts; their tiles may hold more than the part does.

    Cost: O(n), and the size of each table of tokens.
    Source: overlapping tiles as in Beltagy et al. 2020, recalled; the others are ours.
    """
    match part:
        case Window():
            yield from _window(n, part, causal)
        case Strided():
            yield from _residues(n, min(part.stride, n))
        case Classes():
            yield from _residues(
                n, part.stride, torch.tensor(part.tokens, device="cpu")
            )
        case Blocks():
            places = torch.arange(part.count(n) * part.size, device="cpu") - part.shift
            tokens = torch.where(places < n, places, -1)
            blocks = tokens.view(-1, part.size)
            yield from _tables(blocks, blocks.roll(-part.turn, 0))
        case BlockSets():
            yield from _block_lists(n, part.size, part.sets)
        case Columns():
            c = min(SHARING, n)
            count = math.ceil(n / c)
            keys = Side(
                len(part.tokens), 0, order=torch.tensor(part.tokens, device="cpu")
            )
            yield Layout(count, Side(c, c), keys)
        case Rows():
            c = min(SHARING, len(part.tokens))
            count = math.ceil(len(part.tokens) / c)
            order = _filled(torch.tensor(part.tokens, device="cpu"), c)
            yield Layout(count, Side(c, c, order=order), Side(n, 0))


def _window(n: int, part: Window, causal: bool) -> Iterator[Layout]:
    """Tokens a multiple of the dilation apart stand side by side.

    Then it is a plain window of overlapping tiles.
    """
    left = part.left
    dilation = part.dilation
    wrap = part.wrap
    right = 0 if causal and not wrap else part.right
    classes = math.gcd(n, dilation) if wrap else min(dilation, n)
    length = math.ceil(n / classes)
    c = 32 if left + right >= 32 else 16
    width = c + left + right
    if width >= length:  # as many keys as there are
        if wrap:
            yield from _tables(_cycles(n, classes, dilation))
        else:
            yield from _residues(n, classes)
    elif wrap:
        yield _window_round_circles(_cycles(n, classes, dilation), left, right, c)
    elif classes == 1:
        count = math.ceil(n / c)
        yield Layout(count, Side(c, c), Side(width, c, -left))
    else:
        count = math.ceil(n / c)
        order = _classes(n, classes).flatten()
        order = order[order >= 0]
        queries = _filled(order, c)
        keys = F.pad(order, (left, width), value=-1)
        yield Layout(
            count,
            q=Side(c, c, order=queries),
            k=Side(width, c, order=keys),
        )


def _window_round_circles(cycles: Tensor, left: int, right: int, c: int) -> Layout:
    """A window in which each row of `cycles` is a circle of tokens side by side."""
    width = c + left + right
    length = cycles.shape[1]
    before = cycles[:, length - left :]
    after = cycles[:, :right]
    around = torch.cat([before, cycles, after], 1)
    # tiles of one cycle never reach into the next one's queries
    needed = around.shape[1]
    room = math.ceil(needed / c) * c
    queries = F.pad(cycles, (0, room - length), value=-1)
    keys = F.pad(around, (0, room - needed), value=-1)
    keys = F.pad(keys.flatten(), (0, width), value=-1)
    return Layout(
        count=queries.numel() // c,
        q=Side(c, c, order=queries.flatten()),
        k=Side(width, c, order=keys),
    )


def _residues(n: int, count: int, behind: Tensor | None = None) -> Iterator[Layout]:
    """Residue classes modulo `count`, and some keys behind each class.

    The first classes may hold one token more than the others.
    """
    table = _classes(n, count)
    keys = table
    if behind is not None:  # what the class holds already is a hole
        held = behind % count == torch.arange(count, device="cpu")[:, None]
        new = torch.where(held, -1, behind)
        keys = torch.cat([table, new], 1)
    longer = n % count
    if not longer:
        yield from _tables(table, keys)
        return
    yield from _tables(table[:longer], keys[:longer])
    last = table.shape[1] - 1
    kept = torch.arange(keys.shape[1], device="cpu") != last
    yield from _tables(table[longer:, :last], keys[longer:, kept])


def _classes(n: int, count: int) -> Tensor:
    """Residue classes modulo `count`, one a row."""
    length = math.ceil(n / count)
    table = torch.arange(length * count, device="cpu").view(-1, count).T
    return torch.where(table < n, table, -1)


def _cycles(n: int, count: int, dilation: int) -> Tensor:
    """The orbits of i -> i + dilation modulo n, one a row."""
    starts = torch.arange(count, device="cpu")[:, None]
    return (starts + dilation * torch.arange(n // count, device="cpu")) % n


def _tables(queries: Tensor, keys: Tensor | None = None) -> Iterator[Layout]:
    """Row a of `queries` reads row a of `keys`, None for the same rows.

    That is a tile each, or, where they are large, many tiles that share keys.
    """
    if keys is None:
        keys = queries
    count, c = queries.shape
    width = keys.shape[1]
    if c <= LARGE:
        own_queries = Side(c, c, order=queries.flatten())
        own_keys = Side(width, width, order=keys.flatten())
        yield Layout(count, own_queries, own_keys)
        return
    for q, k in zip(queries, keys):
        q = q[q >= 0]
        k = k[k >= 0]
        own_queries = Side(SHARING, SHARING, order=_filled(q, SHARING))
        shared_keys = Side(len(k), 0, order=k)
        yield Layout(math.ceil(len(q) / SHARING), own_queries, shared_keys)


def _filled(order: Tensor, c: int) -> Tensor:
    """The order with holes behind it, up to a multiple of c."""
    missing = -len(order) % c
    return F.pad(order, (0, missing), value=-1)


def layout_of_rows(reads: Callable[..., Tensor], first: int, n: int) -> Layout:
    """Tiles of the rows from `first` on, each with the keys that some row of it reads.

    Args:
        reads: which of the keys 0..n - 1 the rows i, (c, 1), read: boolean (c, n).
        first: the first of the rows.
        n: tokens.

    Returns:
        one layout; tiles with fewer keys than others have holes.

    Cost: O(n (n - first)) time, O(n) memory a tile.
    Source: none.
    """
    c = min(FEW, n - first)
    keys = []
    for i in torch.arange(first, n, device="cpu").split(c):
        keys.append(reads(i[:, None]).any(0).nonzero().flatten())
    width = max(1, *(len(own) for own in keys))
    order = [F.pad(own, (0, width - len(own)), value=-1) for own in keys]
    queries = Side(c, c, first)
    return Layout(len(keys), queries, Side(width, width, order=torch.cat(order)))


# --- whole blocks ---


def _block_size(parts: list[Part], n: int) -> int:
    """The size of the blocks that some part consists of, 0 if none does.

    Such a part is blocks that stand side by side, or lists.
    """
    for part in parts:
        if isinstance(part, Blocks) and part.shift == 0 and part.size <= LARGE:
            return part.size
    for part in parts:
        if isinstance(part, Lists):
            for size in (256, 128, 64, 32, 16, 8):
                if _lists_are_whole(part, size, n):
                    return size
    return 0


def _is_whole(part: Part, size: int, n: int) -> bool:
    """Whether the part consists of whole blocks of this size."""
    match part:
        case Blocks():
            return part.size == size and part.shift == 0
        case Columns():
            everything = set()
            for block in {t // size for t in part.tokens}:
                start = block * size
                everything.update(range(start, min(n, start + size)))
            return set(part.tokens) == everything
        case Lists():
            return _lists_are_whole(part, size, n)
    return False


def _lists_are_whole(part: Lists, size: int, n: int) -> bool:
    """Whether the tokens of a block all read the same whole blocks."""
    crow = part.crow
    col = part.col
    if n % size or len(col) % (size * size):
        return False
    counts = crow.diff().view(-1, size)  # a row for each block of readers
    runs = col.view(-1, size)  # a row for each block that some token reads
    facts = (
        (counts == counts[:, :1]).all(),
        (counts % size == 0).all(),
        (runs[:, 0] % size == 0).all(),
        (runs == runs[:, :1] + torch.arange(size, device="cpu")).all(),
    )
    if not all(bool(fact) for fact in facts):
        return False
    for start in range(0, n, size):
        read = col[crow[start] : crow[start + size]]
        rows = read.view(size, -1)
        if not bool((rows == rows[:1]).all()):
            return False
    return True


def _block_sets(
    parts: tuple[Part, ...], size: int, n: int
) -> tuple[tuple[int, ...], ...]:
    """For each block the blocks that it reads."""
    count = math.ceil(n / size)
    sets: list[set[int]] = [set() for _ in range(count)]
    for part in parts:
        for a, own in enumerate(sets):
            match part:
                case Blocks():
                    own.add((a + part.turn) % count)
                case Columns():
                    own.update(t // size for t in part.tokens)
                case Lists():
                    first = a * size  # its tokens all read the same
                    read = part.col[part.crow[first] : part.crow[first + 1]]
                    own.update((read[::size] // size).tolist())
    return tuple(tuple(sorted(own)) for own in sets)


def _block_lists(
    n: int, size: int, sets: tuple[tuple[int, ...], ...]
) -> Iterator[Layout]:
    """Blocks that read equally many blocks together: nothing is filled up."""
    place = torch.arange(size, device="cpu")

    def tokens_of(blocks: Tensor) -> Tensor:
        tokens = blocks[..., None] * size + place
        return torch.where(tokens < n, tokens, -1)

    lengths = {len(own) for own in sets}
    for length in sorted(lengths - {0}):
        blocks = [a for a, own in enumerate(sets) if len(own) == length]
        read = [sets[a] for a in blocks]
        queries = tokens_of(torch.tensor(blocks, device="cpu"))
        keys = tokens_of(torch.tensor(read, device="cpu")).flatten(1)
        width = keys.shape[1]
        yield Layout(
            count=len(blocks),
            q=Side(size, size, order=queries.flatten()),
            k=Side(width, width, order=keys.flatten()),
        )
