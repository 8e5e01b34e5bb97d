"""What a pattern is made of: steps that are unions of simple parts, and the index sets,
masks and counts they give.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnlib._require import require

CHUNK = 1 << 22  # pairs (k, j) looked at together where no n x n matrix is wanted


def _same(one, other) -> bool:
    """As bare tuples, Columns and Rows of the same tokens would be equal."""
    return type(one) is type(other) and one.tokens == other.tokens


class Window(NamedTuple):
    """Token k reads k - left * dilation, ..., k, ..., k + right * dilation, in steps of
    dilation; always itself.

    Args:
        left, right: how many tokens before and after.
        dilation: the distance from one to the next.
        wrap: count modulo n, as on a circle.

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """

    left: int
    right: int
    dilation: int = 1
    wrap: bool = False


class Strided(NamedTuple):
    """Token k reads every j with stride dividing j - k; always itself.

    Args:
        stride: at least 1.

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """

    stride: int


class Blocks(NamedTuple):
    """Token k reads a block of consecutive tokens: the one `turn` blocks after its own,
    round the circle of blocks.

        block(j) = floor((j + shift) / size);   j is read by k   if   block(j) = block(k) + turn  mod  number of blocks

    Args:
        size: tokens of a block; the first holds size - shift, the last may be shorter.
        shift: 0 <= shift < size.
        turn: 0 for the own block.

    Page:
        notebooks/sparse_universality/patterns_and_conditions
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

        Page:
            notebooks/sparse_universality/patterns_and_conditions
        """
        return -(-(n + self.shift) // self.size)


class Columns(NamedTuple):
    """Every token reads these.

    Args:
        tokens: their indices, rising.

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """

    tokens: tuple[int, ...]

    __eq__, __ne__, __hash__ = (
        _same,
        lambda a, b: not _same(a, b),
        lambda a: hash(("Columns", a.tokens)),
    )


class Rows(NamedTuple):
    """These tokens read all.

    Args:
        tokens: their indices, rising.

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """

    tokens: tuple[int, ...]

    __eq__, __ne__, __hash__ = (
        _same,
        lambda a, b: not _same(a, b),
        lambda a: hash(("Rows", a.tokens)),
    )


class Lists(NamedTuple):
    """Any index sets, as compressed sparse rows: token k reads col[crow[k]:crow[k +
    1]].

    Args:
        crow: (n + 1,) int64.
        col: int64, rising within a row, no index twice in a row. `build` takes copies
            of both.

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """

    crow: Tensor
    col: Tensor


Part = Window | Strided | Blocks | Columns | Rows | Lists


class Step(NamedTuple):
    """One layer of a pattern: the union of its parts. Parts may overlap; a token is
    then still read once.

    Args:
        parts: at least one.
        causal: only j <= k is kept.

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """

    parts: tuple
    causal: bool = False


class Pattern(NamedTuple):
    """Who reads whom, step by step: layer t uses step (t - 1) mod p. Made by `build`
    and the families, which check it.

        j in A_k  means  token k reads token j   (True in row k, column j of the mask)

    Args:
        n: tokens, at least 2.
        steps: p of them.
        p: their number.
        connections: sum_k |A_k| of the largest.

    Page:
        notebooks/sparse_universality/patterns_and_conditions
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
        return max(int(self.degrees(step).sum()) for step in range(self.p))

    def reads(
        self, step: int, k: Int[Tensor, "*a"], j: Int[Tensor, "*b"]
    ) -> Bool[Tensor, "*c"]:
        """Whether token k reads token j: the definition of the pattern, elementwise;
        all else here comes from it.

        Args:
            step: modulo p.
            k, j: indices in 0..n-1 that broadcast, as in a mask_mod of flex attention.

        Returns:
            boolean, of their common shape.

        Cost:
            O(n + pairs * parts); with Lists O(log connections) each.

        Source:
            Yun et al. 2020b, recalled: the sets A_k of step l.

        Page:
            notebooks/sparse_universality/patterns_and_conditions
        """
        n, own, distances = (
            self.n,
            self.steps[step % self.p],
            torch.arange(1 - self.n, self.n, device=k.device),
        )
        found = torch.zeros(
            torch.broadcast_shapes(k.shape, j.shape), dtype=torch.bool, device=k.device
        )
        if near := [
            _by_distance(part, n, distances)
            for part in own.parts
            if isinstance(part, Window | Strided)
        ]:
            found |= torch.stack(near).any(0)[j - k + n - 1]
        for part in own.parts:
            if not isinstance(part, Window | Strided):
                found |= _reads(part, n, k, j)
        return found & (j <= k) if own.causal else found

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

        Page:
            notebooks/sparse_universality/patterns_and_conditions
        """
        i = torch.arange(self.n, device=device)
        return self.reads(step, i[:, None], i)

    def rows(self, step: int = 0) -> tuple[Int[Tensor, "n_1"], Int[Tensor, "entries"]]:
        """The index sets of a step as compressed sparse rows, without an n x n matrix.

        Args:
            step: modulo p.

        Returns:
            crow (n + 1,) and col, int64 on the CPU: token k reads col[crow[k]:crow[k +
            1]], rising.

        Cost:
            O(n^2) time, O(connections) memory.

        Source:
            the definition.

        Page:
            notebooks/sparse_universality/patterns_and_conditions
        """
        counts, cols = [], []
        for k in _chunks(self.n):
            found = self.reads(step, k[:, None], torch.arange(self.n))
            counts.append(found.sum(1))
            cols.append(found.nonzero()[:, 1])
        return torch.cat(
            [torch.zeros(1, dtype=torch.int64), torch.cat(counts).cumsum(0)]
        ), torch.cat(cols)

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

        Page:
            notebooks/sparse_universality/patterns_and_conditions
        """
        j = torch.arange(self.n)
        return torch.cat(
            [self.reads(step, k[:, None], j).sum(1) for k in _chunks(self.n)]
        )


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

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """
    whole = isinstance(n, int) and not isinstance(n, bool) and n >= 2
    require(
        whole,
        f"n must be an integer of at least 2 (one token meets every condition for lack of others), got {n!r}",
    )
    require(len(steps) > 0, "a pattern needs at least one step, got none")
    made = tuple(_step(s, number) for number, s in enumerate(steps))
    pattern = Pattern(n, made)
    for number, step in enumerate(made):
        for part in step.parts:
            _fits(part, n, number)
        if not any(
            isinstance(p, (Window, Strided)) or (isinstance(p, Blocks) and p.turn == 0)
            for p in step.parts
        ):
            empty = (pattern.degrees(number) == 0).nonzero().flatten().tolist()
            require(
                not empty,
                f"step {number}: tokens {empty[:5]} read nothing, not even themselves: their softmax is empty",
            )
    return pattern


def _step(given, number: int) -> Step:
    step = (
        given
        if isinstance(given, Step)
        else Step((given,) if isinstance(given, Part) else tuple(given))
    )
    require(
        len(step.parts) > 0, f"step {number}: a step needs at least one part, got none"
    )
    for part in step.parts:
        require(
            isinstance(part, Part),
            f"step {number}: a part is a Window, Strided, Blocks, Columns, Rows or Lists, got {part!r}",
        )

    def own(part):
        return (
            Lists(*map(torch.clone, part)) if isinstance(part, Lists) else part
        )  # tiles are made once: no later change

    return Step(tuple(map(own, step.parts)), step.causal)


def _fits(part: Part, n: int, number: int) -> None:
    """The part makes sense among n tokens."""
    where = f"step {number}: {type(part).__name__}"
    if isinstance(part, Window):
        require(
            part.left >= 0 and part.right >= 0 and part.dilation >= 1,
            f"{where} needs left, right >= 0 and dilation >= 1, got {part}",
        )
    elif isinstance(part, Strided):
        require(part.stride >= 1, f"{where} needs stride >= 1, got {part.stride}")
    elif isinstance(part, Blocks):
        require(
            part.size >= 1 and 0 <= part.shift < part.size,
            f"{where} needs size >= 1 and 0 <= shift < size, got {part}",
        )
    elif isinstance(part, Lists):
        require(
            part.crow.shape == (n + 1,),
            f"{where} must hold {n} rows, got {len(part.crow) - 1}: one set for each token",
        )
        require(
            int(part.crow[0]) == 0 and bool((part.crow.diff() >= 0).all()),
            f"{where}: crow must start at 0 and never fall",
        )
        require(
            int(part.crow[-1]) == len(part.col),
            f"{where}: crow ends at {int(part.crow[-1])}, but col has {len(part.col)} entries",
        )
    tokens = (
        part.tokens
        if isinstance(part, Columns | Rows)
        else part.col.tolist()
        if isinstance(part, Lists)
        else ()
    )
    bad = [t for t in tokens if not 0 <= t < n]
    require(not bad, f"{where}: indices must be in 0..{n - 1}, got {bad[:5]}")
    require(
        not isinstance(part, Columns | Rows) or len(tokens) > 0,
        f"{where} needs at least one token, got none",
    )
    rising = not isinstance(part, Lists) or bool((_keys(part, n).diff() > 0).all())
    require(rising, f"{where}: the indices of a row must rise, none twice")


def _keys(part: Lists, n: int) -> Tensor:
    """Each connection as one number n k + j: rising, if the lists are."""
    return torch.repeat_interleave(torch.arange(n), part.crow.diff()) * n + part.col


def _by_distance(part: Window | Strided, n: int, d: Tensor) -> Tensor:
    """Whether a token reads the one d places on: these parts know no more than the
    distance.
    """
    if isinstance(part, Strided):
        return d % part.stride == 0
    if part.wrap:
        ring = torch.zeros(n, dtype=torch.bool, device=d.device)
        ring[
            torch.arange(-part.left, part.right + 1, device=d.device)
            * part.dilation
            % n
        ] = True
        return ring[d % n]
    near = (d >= -part.left * part.dilation) & (d <= part.right * part.dilation)
    return near if part.dilation == 1 else near & (d % part.dilation == 0)


def _reads(part: Part, n: int, k: Tensor, j: Tensor) -> Tensor:
    """Whether k reads j by this part alone, elementwise."""
    match part:
        case Window() | Strided():
            return _by_distance(part, n, j - k)
        case Blocks(size, shift, turn):
            return (j + shift) // size == ((k + shift) // size + turn) % part.count(n)
        case Columns(tokens):
            return _among(tokens, n, j)
        case Rows(tokens):
            return _among(tokens, n, k)
        case Lists():
            asked = k * n + j
            keys = _keys(part, n).to(asked.device)
            if len(keys) == 0:
                return torch.zeros_like(asked, dtype=torch.bool)
            return (
                keys[torch.searchsorted(keys, asked).clamp_max(len(keys) - 1)] == asked
            )


def _among(tokens: tuple[int, ...], n: int, i: Tensor) -> Tensor:
    chosen = torch.zeros(n, dtype=torch.bool, device=i.device)
    chosen[list(tokens)] = True
    return chosen[i]


def _chunks(n: int) -> tuple[Tensor, ...]:
    """The tokens 0..n-1, as many together as CHUNK pairs allow."""
    return torch.arange(n).split(max(1, CHUNK // n))
