"""What a pattern is made of: steps that are unions of simple parts, and the index sets,
masks and counts they give.

Page:
    notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from attnlib._require import require

CHUNK = 1 << 22  # pairs (k, j) looked at together where no n x n matrix is wanted


def _same(one, other) -> bool:
    """As bare tuples, Columns and Rows of the same tokens would be equal."""
    return type(one) is type(other) and one.tokens == other.tokens


class Window(NamedTuple):
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


class Strided(NamedTuple):
    """Token k reads every j with stride dividing j - k; always itself.

    Args:
        stride: at least 1.
    """

    stride: int


class Blocks(NamedTuple):
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

    def count(self, n: int) -> int:
        """The number of blocks.

        Args:
            n: tokens.

        Returns:
            ceil((n + shift) / size).

        Cost:
            O(1).

        Source:
            the definition.
        """
        return math.ceil((n + self.shift) / self.size)


class Columns(NamedTuple):
    """Every token reads these.

    Args:
        tokens: their indices, rising.
    """

    tokens: tuple[int, ...]

    def __eq__(self, other) -> bool:
        return _same(self, other)

    def __ne__(self, other) -> bool:
        return not _same(self, other)

    def __hash__(self) -> int:
        return hash(("Columns", self.tokens))


class Rows(NamedTuple):
    """These tokens read all.

    Args:
        tokens: their indices, rising.
    """

    tokens: tuple[int, ...]

    def __eq__(self, other) -> bool:
        return _same(self, other)

    def __ne__(self, other) -> bool:
        return not _same(self, other)

    def __hash__(self) -> int:
        return hash(("Rows", self.tokens))


class Lists(NamedTuple):
    """Any index sets, as compressed sparse rows.

        token k reads col[crow[k] : crow[k + 1]]

    Args:
        crow: (n + 1,) int64.
        col: int64, rising within a row, no index twice in a row. `build` takes copies
            of both.
    """

    crow: Tensor
    col: Tensor


Part = Window | Strided | Blocks | Columns | Rows | Lists


class Step(NamedTuple):
    """One layer of a pattern: the union of its parts.

    Parts may overlap; a token is then still read once.

    Args:
        parts: at least one.
        causal: only j <= k is kept.
    """

    parts: tuple
    causal: bool = False


class Pattern(NamedTuple):
    """Who reads whom, step by step: layer t uses step (t - 1) mod p.

        j in A_k  means  token k reads token j   (True in row k, column j of the mask)

    Patterns are made by `build` and the families, which check them.

    Args:
        n: tokens, at least 2.
        steps: p of them.
        p: their number.
        connections: sum_k |A_k| of the largest.
    """

    n: int
    steps: tuple[Step, ...]

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
        """Whether token k reads token j: the definition of the pattern, elementwise.

        All else here comes from it.

        Args:
            step: modulo p.
            k, j: indices in 0..n-1 that broadcast, as in a mask_mod of flex attention.

        Returns:
            boolean, of their common shape.

        Cost:
            O(n + pairs * parts); with Lists O(log connections) each.

        Source:
            Yun et al. 2020b, recalled: the sets A_k of step l.
        """
        n = self.n
        own = self.steps[step % self.p]
        shape = torch.broadcast_shapes(k.shape, j.shape)
        found = torch.zeros(shape, dtype=torch.bool, device=k.device)
        near = [part for part in own.parts if isinstance(part, Window | Strided)]
        if near:  # they know the distance alone: 2 n - 1 answers serve all pairs
            distances = torch.arange(1 - n, n, device=k.device)
            answers = [_by_distance(part, n, distances) for part in near]
            at_distance = torch.stack(answers).any(0)
            found |= at_distance[j - k + n - 1]
        for part in own.parts:
            if not isinstance(part, Window | Strided):
                found |= _reads(part, n, k, j)
        if own.causal:
            found &= j <= k
        return found

    def mask(self, step: int = 0, *, device=None) -> Bool[Tensor, "n n"]:
        """The step as a mask, True in row k and column j if k reads j.

        Args:
            step: modulo p.
            device: None for the CPU.

        Returns:
            (n, n), boolean.

        Cost:
            O(n^2) time and memory.

        Source:
            the definition.
        """
        i = torch.arange(self.n, device=device)
        return self.reads(step, i[:, None], i)

    def rows(self, step: int = 0) -> tuple[Int[Tensor, "n_1"], Int[Tensor, "entries"]]:
        """The index sets of a step as compressed sparse rows, without an n x n matrix.

        Args:
            step: modulo p.

        Returns:
            crow (n + 1,) and col, int64 on the CPU: token k reads
            col[crow[k] : crow[k + 1]], rising.

        Cost:
            O(n^2) time, O(connections) memory.

        Source:
            the definition.
        """
        counts = []
        cols = []
        j = torch.arange(self.n)
        for k in _chunks(self.n):
            found = self.reads(step, k[:, None], j)
            counts.append(found.sum(1))
            cols.append(found.nonzero()[:, 1])
        return _starts(torch.cat(counts)), torch.cat(cols)

    def degrees(self, step: int = 0) -> Int[Tensor, "n"]:
        """How many tokens each token reads in a step.

        Args:
            step: modulo p.

        Returns:
            (n,) int64, |A_k|.

        Cost:
            O(n^2) time, O(n) memory.

        Source:
            the definition.
        """
        counts = []
        j = torch.arange(self.n)
        for k in _chunks(self.n):
            found = self.reads(step, k[:, None], j)
            counts.append(found.sum(1))
        return torch.cat(counts)


def build(n: int, *steps: Step | Part | list[Part] | tuple[Part, ...]) -> Pattern:
    """A pattern from its steps, checked.

    Args:
        n: tokens.
        steps: each a Step, one part, or a list of parts.

    Returns:
        Pattern.

    Raises:
        ValueError: for n < 2, no step or no part, a part that does not fit n tokens,
            and a step where a token reads nothing: its softmax would be empty. A token
            that does not read itself is allowed; `check` reports it.

    Cost:
        O(p), or O(p n^2) for steps without a part that holds self-loops.

    Source:
        the framework of Yun et al. 2020b, recalled; parts are ours.
    """
    whole = isinstance(n, int) and not isinstance(n, bool) and n >= 2
    require(
        whole,
        "n must be an integer of at least 2 "
        f"(one token meets every condition for lack of others), got {n!r}",
    )
    require(len(steps) > 0, "a pattern needs at least one step, got none")
    made = tuple(_step(s, number) for number, s in enumerate(steps))
    pattern = Pattern(n, made)
    for number, step in enumerate(made):
        for part in step.parts:
            _fits(part, n, number)
        if not any(_holds_self_loops(part) for part in step.parts):
            reads_nothing = pattern.degrees(number) == 0
            empty = reads_nothing.nonzero().flatten().tolist()
            require(
                not empty,
                f"step {number}: tokens {empty[:5]} read nothing, not even themselves: "
                "their softmax is empty",
            )
    return pattern


def _holds_self_loops(part: Part) -> bool:
    """Whether this part alone lets every token read itself."""
    if isinstance(part, Blocks):
        return part.turn == 0
    return isinstance(part, Window | Strided)


def _step(given, number: int) -> Step:
    """The step that one argument of `build` stands for, with lists of its own."""
    if isinstance(given, Step):
        step = given
    elif isinstance(given, Part):
        step = Step((given,))
    else:
        step = Step(tuple(given))
    require(
        len(step.parts) > 0, f"step {number}: a step needs at least one part, got none"
    )
    own = []
    for part in step.parts:
        require(
            isinstance(part, Part),
            f"step {number}: a part is a Window, Strided, Blocks, Columns, Rows "
            f"or Lists, got {part!r}",
        )
        if isinstance(part, Lists):  # tiles are made once: no later change
            part = Lists(part.crow.clone(), part.col.clone())
        own.append(part)
    return Step(tuple(own), step.causal)


def _fits(part: Part, n: int, number: int) -> None:
    """The part makes sense among n tokens."""
    where = f"step {number}: {type(part).__name__}"
    match part:
        case Window(left, right, dilation):
            require(
                left >= 0 and right >= 0 and dilation >= 1,
                f"{where} needs left, right >= 0 and dilation >= 1, got {part}",
            )
        case Strided(stride):
            require(stride >= 1, f"{where} needs stride >= 1, got {stride}")
        case Blocks(size, shift):
            require(
                size >= 1 and 0 <= shift < size,
                f"{where} needs size >= 1 and 0 <= shift < size, got {part}",
            )
        case Columns(tokens) | Rows(tokens):
            _in_range(tokens, n, where)
            require(len(tokens) > 0, f"{where} needs at least one token, got none")
        case Lists():
            _lists_fit(part, n, where)


def _in_range(tokens: Iterable[int], n: int, where: str) -> None:
    bad = [t for t in tokens if not 0 <= t < n]
    require(not bad, f"{where}: indices must be in 0..{n - 1}, got {bad[:5]}")


def _lists_fit(part: Lists, n: int, where: str) -> None:
    """The lists are compressed rows of n tokens, each of them rising."""
    crow, col = part
    require(
        crow.shape == (n + 1,),
        f"{where} must hold {n} rows, got {len(crow) - 1}: one set for each token",
    )
    never_falls = bool((crow.diff() >= 0).all())
    require(
        int(crow[0]) == 0 and never_falls,
        f"{where}: crow must start at 0 and never fall",
    )
    end = int(crow[-1])
    require(
        end == len(col),
        f"{where}: crow ends at {end}, but col has {len(col)} entries",
    )
    _in_range(col.tolist(), n, where)
    rising = bool((_keys(part, n).diff() > 0).all())
    require(rising, f"{where}: the indices of a row must rise, none twice")


def _starts(counts: Tensor) -> Tensor:
    """Where each row of so many entries starts, and where the last one ends: crow."""
    return F.pad(counts.cumsum(0), (1, 0))


def _keys(part: Lists, n: int) -> Tensor:
    """Each connection as one number n k + j: rising, if the lists are."""
    k = torch.arange(n).repeat_interleave(part.crow.diff())
    return n * k + part.col


def _by_distance(part: Window | Strided, n: int, d: Tensor) -> Tensor:
    """Whether a token reads the one d places on: no more than d is needed."""
    if isinstance(part, Strided):
        return d % part.stride == 0
    left, right, dilation, wrap = part
    if wrap:
        read = torch.arange(-left, right + 1, device=d.device) * dilation
        ring = torch.zeros(n, dtype=torch.bool, device=d.device)
        ring[read % n] = True
        return ring[d % n]
    near = (d >= -left * dilation) & (d <= right * dilation)
    if dilation == 1:
        return near
    return near & (d % dilation == 0)


def _reads(part: Part, n: int, k: Tensor, j: Tensor) -> Tensor:
    """Whether k reads j by this part alone, elementwise."""
    match part:
        case Window() | Strided():
            return _by_distance(part, n, j - k)
        case Blocks(size, shift, turn):
            block_of_j = (j + shift) // size
            block_of_k = (k + shift) // size
            return block_of_j == (block_of_k + turn) % part.count(n)
        case Columns(tokens):
            return _among(tokens, n, j)
        case Rows(tokens):
            return _among(tokens, n, k)
        case Lists():
            asked = k * n + j
            keys = _keys(part, n).to(asked.device)
            if len(keys) == 0:
                return torch.zeros_like(asked, dtype=torch.bool)
            place = torch.searchsorted(keys, asked).clamp_max(len(keys) - 1)
            return keys[place] == asked


def _among(tokens: tuple[int, ...], n: int, i: Tensor) -> Tensor:
    """Whether i is one of these tokens, elementwise."""
    chosen = torch.zeros(n, dtype=torch.bool, device=i.device)
    chosen[list(tokens)] = True
    return chosen[i]


def _chunks(n: int) -> tuple[Tensor, ...]:
    """The tokens 0..n-1, as many together as CHUNK pairs allow."""
    size = max(1, CHUNK // n)
    return torch.arange(n).split(size)
