"""What a pattern is made of: steps that are unions of simple parts, and the index sets,
masks and counts they give.

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

from attnlib._require import is_tensor, require, sizes

CHUNK = 1 << 22  # pairs (k, j) looked at together where no n x n matrix is wanted


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
        _flag(wrap=self.wrap)


@dataclass(frozen=True, slots=True)
class Strided:
    """Token k reads every j with stride dividing j - k; always itself.

    Args:
        stride: at least 1.
    """

    stride: int

    def __post_init__(self):
        sizes(1, stride=self.stride)


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
        """The number of blocks.

        Args:
            n: tokens.

        Returns:
            ceil((n + shift) / size).

        Cost: O(1).
        Source: the definition.
        """
        return math.ceil((n + self.shift) / self.size)


@dataclass(frozen=True, slots=True)
class Columns:
    """Every token reads these.

    Args:
        tokens: their indices, a tuple of integers, rising.
    """

    tokens: tuple

    def __post_init__(self):
        _rising("Columns", self.tokens)


@dataclass(frozen=True, slots=True)
class Rows:
    """These tokens read all.

    Args:
        tokens: their indices, a tuple of integers, rising.
    """

    tokens: tuple

    def __post_init__(self):
        _rising("Rows", self.tokens)


@dataclass(frozen=True, eq=False)
class Lists:
    """Any index sets, as compressed sparse rows.

        token k reads col[crow[k] : crow[k + 1]]

    Lists are equal if their entries are.

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
        if not isinstance(other, Lists):
            return NotImplemented
        return torch.equal(self.crow, other.crow) and torch.equal(self.col, other.col)

    def __hash__(self) -> int:
        return self._digest

    @cached_property
    def _digest(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[bytes, bytes]:
        return self.crow.numpy().tobytes(), self.col.numpy().tobytes()


Part = Window | Strided | Blocks | Columns | Rows | Lists
KINDS = (Window, Strided, Blocks, Columns, Rows, Lists)


@dataclass(frozen=True, slots=True)
class Step:
    """One layer of a pattern: the union of its parts.

    Parts may overlap; a token is then still read once. They are kept in one order, none
    twice, so that steps of the same parts are equal.

    Args:
        parts: at least one.
        causal: only j <= k is kept.
    """

    parts: tuple
    causal: bool = False

    def __post_init__(self):
        _flag(causal=self.causal)
        require(
            isinstance(self.parts, tuple) and len(self.parts) > 0,
            f"parts must be a tuple of at least one part, got {self.parts!r}",
        )
        for part in self.parts:
            require(
                isinstance(part, Part),
                "parts must be Windows, Strided, Blocks, Columns, Rows or Lists, "
                f"got {part!r}",
            )
        ordered = sorted(set(self.parts), key=_place)
        object.__setattr__(self, "parts", tuple(ordered))


@dataclass(frozen=True, slots=True)
class Pattern:
    """Who reads whom, step by step: layer t uses step (t - 1) mod p.

        j in A_k  means  token k reads token j   (True in row k, column j of the mask)

    Patterns are equal if they have the same parts. Other parts can give the same index
    sets, as Strided(1) and Window(n - 1, n - 1) do; such patterns are not equal.

    Args:
        n: tokens, at least 2.
        steps: p of them, a tuple of Steps.
        p: their number.
        connections: sum_k |A_k| of the largest.
    """

    n: int
    steps: tuple

    def __post_init__(self):
        sizes(2, n=self.n)
        are_steps = isinstance(self.steps, tuple) and all(
            isinstance(step, Step) for step in self.steps
        )
        require(are_steps, f"steps must be a tuple of Steps, got {self.steps!r}")
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
        """Whether token k reads token j: the definition of the pattern, elementwise.

        All else here comes from it.

        Args:
            step: modulo p.
            k, j: int64, indices in 0..n-1 that broadcast, as in a mask_mod of flex
                attention.

        Returns:
            boolean, of their common shape.

        Raises:
            ValueError: for a step that is not an integer, and for indices that are not
                int64 or not in 0..n-1.

        Cost: O(n + pairs * parts); with Lists O(log connections) each.
        Source: Yun et al. 2020b, recalled: the sets A_k of step l.
        """
        integer = isinstance(step, Integral) and not isinstance(step, bool)
        require(integer, f"step must be an integer, got {step!r}")
        for name, index in (("k", k), ("j", j)):
            is_tensor(name, index)
            require(index.dtype == torch.int64, f"{name} must be int64")
            inside = bool(((index >= 0) & (index < self.n)).all())
            require(inside, f"{name} must hold indices in 0..{self.n - 1}")
        own = self.steps[step % self.p]
        return _step_reads(own.parts, own.causal, self.n, k, j)

    def mask(self, step: int = 0, *, device=None) -> Bool[Tensor, "n n"]:
        """The step as a mask, True in row k and column j if k reads j.

        Args:
            step: modulo p.
            device: None for the CPU.

        Returns:
            (n, n), boolean.

        Cost: O(n^2) time and memory.
        Source: the definition.
        """
        device = "cpu" if device is None else device
        i = torch.arange(self.n, device=device)
        return self.reads(step, i[:, None], i)

    def rows(self, step: int = 0) -> tuple[Int[Tensor, "n_1"], Int[Tensor, "entries"]]:
        """The index sets of a step as compressed sparse rows, without an n x n matrix.

        Args:
            step: modulo p.

        Returns:
            crow (n + 1,) and col, int64 on the CPU: token k reads
            col[crow[k] : crow[k + 1]], rising.

        Cost: O(n^2) time, O(connections) memory.
        Source: the definition.
        """
        return _compressed(self._masks(step))

    def degrees(self, step: int = 0) -> Int[Tensor, "n"]:
        """How many tokens each token reads in a step.

        Args:
            step: modulo p.

        Returns:
            (n,) int64, |A_k|.

        Cost: O(n^2) time, O(n) memory.
        Source: the definition.
        """
        return torch.cat([found.sum(1) for found in self._masks(step)])

    def _masks(self, step: int) -> Iterator[Tensor]:
        """The rows of the mask, some together."""
        j = torch.arange(self.n, device="cpu")
        for k in _chunks(self.n, CHUNK):
            yield self.reads(step, k[:, None], j)


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

    Cost: O(p), or O(p n^2) for steps without a part that holds self-loops.
    Source: the framework of Yun et al. 2020b, recalled; parts are ours.
    """
    made = []
    for given in steps:
        if isinstance(given, Part):
            given = (given,)
        if not isinstance(given, Step):
            require(
                isinstance(given, list | tuple),
                f"steps must be Steps, parts, or lists of parts, got {given!r}",
            )
            given = Step(tuple(given))
        made.append(given)
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
    cols = []
    for mask in masks:
        counts.append(mask.sum(1).cpu())
        cols.append(mask.nonzero()[:, 1].cpu())
    return _starts(torch.cat(counts)), torch.cat(cols)


def _chunks(n: int, pairs: int) -> tuple[Tensor, ...]:
    """The tokens 0..n-1, as many together as make so many pairs with all n."""
    size = max(1, pairs // n)
    return torch.arange(n, device="cpu").split(size)


def _flag(**given) -> None:
    for name, value in given.items():
        require(isinstance(value, bool), f"{name} must be a bool, got {value!r}")


def _rising(name: str, tokens) -> None:
    """At least one token, different ones in their order."""
    require(isinstance(tokens, tuple), f"{name}: tokens must be a tuple, got {tokens}")
    require(len(tokens) > 0, f"{name} needs at least one token, got none")
    for token in tokens:
        sizes(0, tokens=token)
    require(
        sorted(set(tokens)) == list(tokens),
        f"{name}: tokens must rise, none twice, got {tokens[:5]}",
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
    never_falls = n >= 0 and int(crow[0]) == 0 and bool((crow.diff() >= 0).all())
    require(never_falls, "Lists: crow must start at 0 and never fall")
    end = int(crow[-1])
    require(
        end == len(col),
        f"Lists: crow ends at {end}, but col has {len(col)} entries",
    )
    bad = col[(col < 0) | (col >= n)].tolist()
    require(not bad, f"Lists: indices must be in 0..{n - 1}, got {bad[:5]}")
    rising = bool((_keys(crow, col).diff() > 0).all())
    require(rising, "Lists: the indices of a row must rise, none twice")


def _place(part: Part) -> tuple:
    """Where a part stands among the parts of a step."""
    content = part._content() if isinstance(part, Lists) else astuple(part)
    return KINDS.index(type(part)), content


def _fits(step: Step, n: int, number: int) -> None:
    """All tokens that the step names are among n."""
    for part in step.parts:
        if isinstance(part, Columns | Rows):
            bad = [token for token in part.tokens if token >= n]
            require(
                not bad,
                f"step {number}: {type(part).__name__}: "
                f"indices must be in 0..{n - 1}, got {bad[:5]}",
            )
        if isinstance(part, Lists):
            rows = len(part.crow) - 1
            require(
                rows == n,
                f"step {number}: Lists must hold {n} rows, got {rows}: "
                "one set for each token",
            )


def _holds_self_loops(part: Part) -> bool:
    """Whether this part alone lets every token read itself."""
    if isinstance(part, Blocks):
        return part.turn == 0
    return isinstance(part, Window | Strided)


def _starts(counts: Tensor) -> Tensor:
    """Where each row of so many entries starts, and where the last one ends: crow."""
    return F.pad(counts.cumsum(0), (1, 0))


def _keys(crow: Tensor, col: Tensor) -> Tensor:
    """Each connection as one number n k + j: rising, if the lists are."""
    n = len(crow) - 1
    k = torch.arange(n, device="cpu").repeat_interleave(crow.diff())
    return n * k + col


def _step_reads(
    parts: Iterable[Part], causal: bool, n: int, k: Tensor, j: Tensor
) -> Tensor:
    """Whether k reads j by some of the parts, elementwise."""
    shape = torch.broadcast_shapes(k.shape, j.shape)
    found = torch.zeros(shape, dtype=torch.bool, device=k.device)
    near = [part for part in parts if isinstance(part, Window | Strided)]
    if near:  # they know the distance alone: 2 n - 1 answers serve all pairs
        distances = torch.arange(1 - n, n, device=k.device)
        answers = [_by_distance(part, n, distances) for part in near]
        at_distance = torch.stack(answers).any(0)
        found |= at_distance[j - k + n - 1]
    for part in parts:
        if not isinstance(part, Window | Strided):
            found |= _reads(part, n, k, j)
    if causal:
        found &= j <= k
    return found


def _by_distance(part: Window | Strided, n: int, d: Tensor) -> Tensor:
    """Whether a token reads the one d places on: no more than d is needed."""
    match part:
        case Strided(stride):
            return d % stride == 0
        case Window(left, right, dilation, wrap=True):
            read = torch.arange(-left, right + 1, device=d.device) * dilation
            ring = torch.zeros(n, dtype=torch.bool, device=d.device)
            ring[read % n] = True
            return ring[d % n]
        case Window(left, right, dilation):
            near = (d >= -left * dilation) & (d <= right * dilation)
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
        case Lists(crow, col):
            asked = k * n + j
            keys = _keys(crow, col).to(asked.device)
            if len(keys) == 0:
                return torch.zeros_like(asked, dtype=torch.bool)
            place = torch.searchsorted(keys, asked).clamp_max(len(keys) - 1)
            return keys[place] == asked


def _among(tokens: tuple[int, ...], n: int, i: Tensor) -> Tensor:
    """Whether i is one of these tokens, elementwise."""
    chosen = torch.zeros(n, dtype=torch.bool, device=i.device)
    chosen[list(tokens)] = True
    return chosen[i]
