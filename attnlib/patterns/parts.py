"""What a pattern is made of: steps that are unions of simple parts.

    j in A_k  means  token k reads token j   (True in row k and column j of the mask)

`reads(n, k, j)` of a part is that definition, elementwise: all sets, masks and counts
come from it. `tiles(n)` is for speed: which queries (t, c) and which keys (t, w) may
stand side by side in t dense blocks that hold all of the part. Their masks come from
`reads`, so a clumsy tile costs time and no connection. A part without tiles is taken
pair by pair.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from functools import cached_property
from numbers import Integral

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from attnlib._require import is_a, is_tensor, require, sizes

CPU = torch.device("cpu")  # where patterns live, whatever torch's default device is
CHUNK = 1 << 22  # pairs (k, j) looked at together where no n x n matrix is wanted
TILE = 32  # queries of a tile of a window
LARGE = 128  # queries of a tile that shares its keys with others
THIN = 10  # tokens beside its own, below which a window is taken pair by pair

# Queries (t, c) and keys (t, w), as tokens; what is not in 0..n - 1 is a hole.
Tables = list[tuple[Int[Tensor, "t c"], Int[Tensor, "t w"]]]


@dataclass(frozen=True, slots=True)
class Window:
    """Token k reads some tokens before and after it, and always itself.

        k - left D, ..., k - D, k, k + D, ..., k + right D,   D = dilation

    Args:
        left, right: how many tokens before and after.
        dilation: the distance from one to the next.
        wrap: count modulo n, as on a circle.
    """

    left: int
    right: int
    dilation: int = 1
    wrap: bool = False

    def __post_init__(self):
        sizes(0, left=self.left, right=self.right)
        sizes(1, dilation=self.dilation)
        is_a(bool, wrap=self.wrap)

    def reads(self, n: int, k: Tensor, j: Tensor) -> Tensor:
        """Whether k reads j."""
        D = self.dilation
        d = j - k
        if self.wrap:
            around = torch.arange(-self.left, self.right + 1, device=k.device) * D
            return _among(around % n, n, d % n)
        inside = (d >= -self.left * D) & (d <= self.right * D)
        return inside & (d % D == 0)

    def tiles(self, n: int) -> Tables:
        """Tokens a multiple of the dilation apart stand in a line; tiles overlap."""
        if self.left + self.right < THIN:
            return []
        D = self.dilation
        lines = math.gcd(n, D) if self.wrap else min(D, n)
        length = math.ceil(n / lines)
        left = min(self.left, length)
        right = min(self.right, length)
        width = left + TILE + right
        start = _upto(lines).view(-1, 1, 1)
        if width >= length:
            at = _upto(length)
            whole = (start + D * at).flatten(0, 1)
            whole = whole % n if self.wrap else whole
            return [(whole, whole)]
        tile = _upto(math.ceil(length / TILE))[:, None]
        first = TILE * tile
        at = first + _upto(TILE)
        queries = start + D * at
        begin = first - left
        if self.wrap:
            queries = torch.where(at < length, queries % n, n)
        else:  # at both ends keys that are not needed, in place of holes
            begin = begin.clamp(0, length - width)
        keys = (start + D * (begin + _upto(width))).flatten(0, 1)
        return [(queries.flatten(0, 1), keys % n if self.wrap else keys)]

    def pairs(self, n: int) -> tuple[Tensor, Tensor]:
        """All k and j such that k reads j, each pair once."""
        k = _upto(n)[:, None]
        beside = torch.arange(-self.left, self.right + 1, device=CPU)
        j = k + self.dilation * beside
        inside = (j >= 0) & (j < n) | self.wrap
        pairs = (k * n + j % n)[inside].unique()
        return pairs // n, pairs % n


@dataclass(frozen=True, slots=True)
class Strided:
    """Token k reads every j with stride dividing j - k; always itself."""

    stride: int

    def __post_init__(self):
        sizes(1, stride=self.stride)

    def reads(self, n: int, k: Tensor, j: Tensor) -> Tensor:
        """Whether k reads j."""
        return (j - k) % self.stride == 0

    def tiles(self, n: int) -> Tables:
        """A tile a residue class."""
        count = min(self.stride, n)
        place = _upto(math.ceil(n / count))
        classes = _upto(count)[:, None] + count * place
        return [(classes, classes)]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Token k reads a block of consecutive tokens, round the circle of blocks.

        j is read by k  if  block(j) = block(k) + turn  mod  number of blocks,
        block(j) = floor((j + shift) / size)

    Args:
        size: tokens of a block; the first holds size - shift, the last may be shorter.
        shift: 0 <= shift < size.
        turn: how many blocks after its own, 0 for the own block.
    """

    size: int
    shift: int = 0
    turn: int = 0

    def __post_init__(self):
        sizes(1, size=self.size)
        sizes(0, shift=self.shift, turn=self.turn)
        require(
            self.shift < self.size,
            f"shift must satisfy 0 <= shift < size = {self.size}, got {self.shift}",
        )

    def count(self, n: int) -> int:
        """The number of blocks of n tokens."""
        return math.ceil((n + self.shift) / self.size)

    def reads(self, n: int, k: Tensor, j: Tensor) -> Tensor:
        """Whether k reads j."""
        own = (k + self.shift) // self.size
        read = (j + self.shift) // self.size
        return read == (own + self.turn) % self.count(n)

    def tiles(self, n: int) -> Tables:
        """A tile for each block."""
        places = _upto(self.count(n) * self.size)
        blocks = places.view(-1, self.size) - self.shift
        return [(blocks, blocks.roll(-self.turn, 0))]


@dataclass(frozen=True, slots=True)
class Columns:
    """Every token reads these: their indices, a tuple of integers, rising."""

    tokens: tuple

    def __post_init__(self):
        _rising("Columns", self.tokens)

    def reads(self, n: int, k: Tensor, j: Tensor) -> Tensor:
        """Whether k reads j."""
        return _among(self.tokens, n, j)

    def tiles(self, n: int) -> Tables:
        """All tiles share their keys."""
        queries = _in_order(_upto(n), n)
        return [(queries, _table(self.tokens).expand(len(queries), -1))]


@dataclass(frozen=True, slots=True)
class Rows:
    """These tokens read all: their indices, a tuple of integers, rising."""

    tokens: tuple

    def __post_init__(self):
        _rising("Rows", self.tokens)

    def reads(self, n: int, k: Tensor, j: Tensor) -> Tensor:
        """Whether k reads j."""
        return _among(self.tokens, n, k)

    def tiles(self, n: int) -> Tables:
        """All tiles share their keys."""
        queries = _in_order(_table(self.tokens), n)
        keys = _upto(n)
        return [(queries, keys.expand(len(queries), -1))]


@dataclass(frozen=True, eq=False)
class Lists:
    """Any index sets, as compressed sparse rows; equal if their entries are.

        token k reads col[crow[k] : crow[k + 1]]

    Args:
        crow: (n + 1,) int64 on the CPU.
        col: int64 on the CPU, rising within a row, no index twice in a row. Both are
            copied.
    """

    crow: Tensor
    col: Tensor

    def __post_init__(self):
        _are_lists(self.crow, self.col)
        object.__setattr__(self, "crow", self.crow.clone())
        object.__setattr__(self, "col", self.col.clone())

    def __eq__(self, other) -> bool:
        return isinstance(other, Lists) and self._content == other._content

    def __hash__(self) -> int:
        return self._digest

    @cached_property
    def _digest(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[bytes, bytes]:
        return self.crow.numpy().tobytes(), self.col.numpy().tobytes()

    def reads(self, n: int, k: Tensor, j: Tensor) -> Tensor:
        """Whether k reads j."""
        rows, columns = self.pairs(n)
        held = (n * rows + columns).to(k.device)
        asked = n * k + j
        if len(held) == 0:
            return torch.zeros_like(asked, dtype=torch.bool)
        place = torch.searchsorted(held, asked).clamp_max(len(held) - 1)
        return held[place] == asked

    def tiles(self, n: int) -> Tables:
        """Blocks of tokens that read the same tokens; none if not all are in such."""
        rows, columns = self.pairs(n)
        for size in (128, 64, 32, 16, 8):
            read = (rows // size * n + columns).unique()
            if size * len(read) == len(columns):
                break
        else:
            return []
        counts = (read // n).bincount()
        sets = (read % n).split(counts.tolist())
        made = []
        for width in counts[counts > 0].unique().tolist():
            own = (counts == width).nonzero()
            keys = torch.stack([sets[a] for a in own])
            made.append((size * own + _upto(size), keys))
        return made

    def pairs(self, n: int) -> tuple[Tensor, Tensor]:
        """All k and j such that k reads j, in their order."""
        k = _upto(len(self.crow) - 1)
        return k.repeat_interleave(self.crow.diff()), self.col


Part = Window | Strided | Blocks | Columns | Rows | Lists
KINDS = (Window, Strided, Blocks, Columns, Rows, Lists)


@dataclass(frozen=True, slots=True)
class Step:
    """One layer of a pattern: the union of its parts, which may overlap.

    They are kept in one order, none twice, so that steps of the same parts are equal.
    If causal, only j <= k is kept.
    """

    parts: tuple
    causal: bool = False

    def __post_init__(self):
        is_a(bool, causal=self.causal)
        require(
            isinstance(self.parts, tuple) and len(self.parts) > 0,
            f"parts must be a tuple of at least one part, got {self.parts!r}",
        )
        for part in self.parts:
            kinds = "Windows, Strided, Blocks, Columns, Rows or Lists"
            require(isinstance(part, Part), f"parts must be {kinds}, got {part!r}")
        ordered = sorted(set(self.parts), key=_place)
        object.__setattr__(self, "parts", tuple(ordered))

    def reads(self, n: int, k: Tensor, j: Tensor) -> Tensor:
        """Whether k reads j: by some part."""
        shape = torch.broadcast_shapes(k.shape, j.shape)
        found = torch.zeros(shape, dtype=torch.bool, device=k.device)
        for part in self.parts:
            found |= part.reads(n, k, j)
        return found & (j <= k) if self.causal else found


@dataclass(frozen=True, slots=True)
class Pattern:
    """Who reads whom, step by step: layer t uses step (t - 1) mod p.

    Patterns are equal if they have the same parts; other parts can give the same sets.

    Args:
        n: tokens, at least 2.
        steps: p of them, a tuple. One where a token reads nothing is refused: its
            softmax would be empty.
    """

    n: int
    steps: tuple

    def __post_init__(self):
        sizes(2, n=self.n)
        is_tuple = isinstance(self.steps, tuple)
        require(
            is_tuple and all(isinstance(step, Step) for step in self.steps),
            f"steps must be a tuple of Steps, got {self.steps!r}",
        )
        require(len(self.steps) > 0, "steps must hold at least one step, got none")
        for number, step in enumerate(self.steps):
            _fits(step, self.n, number)
            if not any(_holds_self_loops(part) for part in step.parts):
                reads_nothing = self.degrees(number) == 0
                empty = reads_nothing.nonzero().flatten().tolist()
                require(
                    not empty,
                    f"step {number}: tokens {empty[:5]} read nothing, not even "
                    "themselves: their softmax is empty",
                )

    @property
    def p(self) -> int:
        """The number of steps of the cycle."""
        return len(self.steps)

    @property
    def connections(self) -> int:
        """sum_k |A_k| of the step where it is largest; O(p n^2) time, O(n) memory."""
        totals = [int(self.degrees(step).sum()) for step in range(self.p)]
        return max(totals)

    def reads(
        self, step: int, k: Int[Tensor, "*a"], j: Int[Tensor, "*b"]
    ) -> Bool[Tensor, "*c"]:
        """Whether token k reads token j, elementwise for int64 indices that broadcast,
        as in a mask_mod of flex attention; step modulo p.
        """
        integer = isinstance(step, Integral) and not isinstance(step, bool)
        require(integer, f"step must be an integer, got {step!r}")
        for name, index in (("k", k), ("j", j)):
            is_tensor(name, index)
            require(index.dtype == torch.int64, f"{name} must be int64")
            inside = (index >= 0) & (index < self.n)
            require(bool(inside.all()), f"{name} must hold indices in 0..{self.n - 1}")
        return self.steps[step % self.p].reads(self.n, k, j)

    def mask(self, step: int = 0, *, device=None) -> Bool[Tensor, "n n"]:
        """The step as a mask, True in row k and column j if k reads j; device None is
        the CPU.
        """
        i = torch.arange(self.n, device=CPU if device is None else device)
        return self.reads(step, i[:, None], i)

    def rows(self, step: int = 0) -> tuple[Int[Tensor, "n_1"], Int[Tensor, "entries"]]:
        """crow (n + 1,) and col: token k reads col[crow[k] : crow[k + 1]], rising; in
        O(n^2) time, O(connections) memory.
        """
        return _compressed(self._masks(step))

    def degrees(self, step: int = 0) -> Int[Tensor, "n"]:
        """|A_k|, how many tokens each token reads; O(n^2) time, O(n) memory."""
        counts = [found.sum(1) for found in self._masks(step)]
        return torch.cat(counts)

    def _masks(self, step: int) -> Iterator[Tensor]:
        """The rows of the mask, some together."""
        j = _upto(self.n)
        for k in j.split(max(1, CHUNK // self.n)):
            yield self.reads(step, k[:, None], j)


def build(n: int, *steps: Step | Part | list[Part] | tuple[Part, ...]) -> Pattern:
    """A pattern from its steps, each a Step, one part, or a list of parts.

    A token that does not read itself is allowed; `check` reports it.
    """
    made = []
    for given in steps:
        kinds = "Steps, parts, or lists of parts"
        known = isinstance(given, Step | Part | list | tuple)
        require(known, f"steps must be {kinds}, got {given!r}")
        if isinstance(given, Part):
            given = (given,)
        made.append(given if isinstance(given, Step) else Step(tuple(given)))
    return Pattern(n, tuple(made))


def _is_pattern(name: str, pattern) -> None:
    """The argument of this name is a Pattern; a mask, for one, is none."""
    require(
        isinstance(pattern, Pattern),
        f"{name} must be an attnlib.patterns.Pattern, got {type(pattern).__name__}; "
        "patterns.from_masks(mask) makes one of a mask",
    )


def _compressed(masks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """crow and col of a mask whose rows are given in order, some together."""
    counts = []
    columns = []
    for mask in masks:
        counts.append(mask.sum(1).cpu())
        columns.append(mask.nonzero()[:, 1].cpu())
    return _starts(torch.cat(counts)), torch.cat(columns)


def _starts(counts: Tensor) -> Tensor:
    """Where each row of so many entries starts, and where the last one ends: crow."""
    return F.pad(counts.cumsum(0), (1, 0))


def _upto(n: int) -> Tensor:
    """0, 1, ..., n - 1."""
    return torch.arange(n, device=CPU)


def _eye(n: int) -> Tensor:
    """Each token reads itself."""
    return torch.eye(n, dtype=torch.bool, device=CPU)


def _table(tokens) -> Tensor:
    """Tokens as a tensor."""
    return torch.tensor(tokens, dtype=torch.int64, device=CPU)


def _in_order(tokens: Tensor, n: int) -> Tensor:
    """Tokens in rows of LARGE, or one row of fewer; a hole is n."""
    size = min(LARGE, len(tokens))
    missing = -len(tokens) % size
    filled = F.pad(tokens, (0, missing), value=n)
    return filled.view(-1, size)


def _among(tokens, n: int, i: Tensor) -> Tensor:
    """Whether i is one of these tokens, elementwise."""
    chosen = torch.zeros(n, dtype=torch.bool, device=i.device)
    chosen[tokens if torch.is_tensor(tokens) else list(tokens)] = True
    return chosen[i]


def _rising(kind: str, tokens) -> None:
    """At least one token, different ones in their order."""
    require(isinstance(tokens, tuple), f"{kind}: tokens must be a tuple, got {tokens}")
    require(len(tokens) > 0, f"{kind} needs at least one token, got none")
    for token in tokens:
        sizes(0, tokens=token)
    require(
        sorted(set(tokens)) == list(tokens),
        f"{kind}: tokens must rise, none twice, got {tokens[:5]}",
    )


def _are_lists(crow, col) -> None:
    """Compressed rows of as many tokens as there are rows, each of them rising."""
    for name, t in (("crow", crow), ("col", col)):
        is_tensor(name, t)
        require(
            t.dtype == torch.int64 and t.dim() == 1 and t.device.type == "cpu",
            f"Lists: {name} must be an int64 vector on the CPU, "
            f"got {t.dtype} {tuple(t.shape)} on {t.device}",
        )
    n = len(crow) - 1
    starts = n >= 0 and int(crow[0]) == 0
    never_falls = starts and bool((crow.diff() >= 0).all())
    require(never_falls, "Lists: crow must start at 0 and never fall")
    end = int(crow[-1])
    require(
        end == len(col),
        f"Lists: crow ends at {end}, but col has {len(col)} entries",
    )
    bad = col[(col < 0) | (col >= n)].tolist()
    require(not bad, f"Lists: indices must be in 0..{n - 1}, got {bad[:5]}")
    k = _upto(n).repeat_interleave(crow.diff())
    keys = n * k + col
    rising = keys.diff() > 0
    require(bool(rising.all()), "Lists: the indices of a row must rise, none twice")


def _place(part: Part) -> tuple:
    """Where a part stands among the parts of a step."""
    content = part._content if isinstance(part, Lists) else astuple(part)
    return KINDS.index(type(part)), content


def _fits(step: Step, n: int, number: int) -> None:
    """All tokens that the step names are among n."""
    for part in step.parts:
        where = f"step {number}: {type(part).__name__}"
        if isinstance(part, Columns | Rows):
            bad = [token for token in part.tokens if token >= n]
            require(not bad, f"{where}: indices must be in 0..{n - 1}, got {bad[:5]}")
        if isinstance(part, Lists):
            rows = len(part.crow) - 1
            require(rows == n, f"{where} must hold {n} rows, got {rows}")


def _holds_self_loops(part: Part) -> bool:
    """Whether this part alone lets every token read itself."""
    own_block = isinstance(part, Blocks) and part.turn == 0
    return own_block or isinstance(part, Window | Strided)
