"""A pattern from a rule of query and key index: the simple parts it consists of are
found, and the rest is listed.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib._require import require, sizes
from attnlib.patterns.parts import (
    CHUNK,
    Blocks,
    Columns,
    Lists,
    Part,
    Pattern,
    Rows,
    Step,
    Strided,
    Window,
    _chunks,
    _compressed,
    _flag,
    _step_reads,
)

Rule = Callable[[Tensor, Tensor], Tensor]
BLOCKS = 8  # so many proposals of blocks are tried at a time, the largest first


def from_rule(n: int, rule: Rule, *, causal: bool = False) -> Pattern:
    """The pattern in which token k reads token j if rule(k, j).

        def near(k, j):
            return (k - j).abs() <= 2

        from_rule(n, near) == window(n, 5)

    What the rule consists of is found: windows, strides, blocks, columns and rows, so
    that attention by it is as fast as by the parts themselves. What is left goes into
    Lists. The search is greedy: of several ways to say the same it takes one with large
    parts, not always one with the fewest, and it looks for turned blocks by the first
    and the last token alone. The index sets are those of the rule in any case.

    Args:
        n: tokens.
        rule: of two int64 tensors that broadcast, the indices of the readers (rows, 1)
            and of the tokens they may read (1, n), as a mask_mod of flex attention; it
            returns booleans for all pairs at once. It is called several times, on some
            rows each.
        causal: keep only j <= k, as patterns.causal does.

    Returns:
        Pattern with p = 1.

    Raises:
        ValueError: for a rule that fails on tensors, that returns other than booleans
            of a shape that broadcasts to (rows, n), or that answers the same pair in
            two ways; and if a token reads nothing.

    Cost: O(n^2) for each part that is found, and O(n) memory but for the Lists.
    Source: not taken from a paper.
    """
    sizes(2, n=n)
    require(callable(rule), f"rule must be a function of k and j, got {rule!r}")
    _flag(causal=causal)
    n = int(n)
    step = recognised(n, rule)
    pattern = Pattern(n, (step,))
    _verify(pattern, rule)
    if causal:
        return Pattern(n, (Step(step.parts, causal=True),))
    return pattern


def recognised(n: int, rule: Rule) -> Step:
    """The step whose tokens read what a rule says, see `from_rule`.

    Each round looks at all pairs, and takes the parts that explain most of what no
    earlier part has explained.

    Args:
        n: tokens.
        rule: as for from_rule.

    Returns:
        Step.

    Raises:
        ValueError: as from_rule, but not for a rule that answers in two ways.

    Cost: as from_rule.
    Source: not taken from a paper.
    """
    sizes(2, n=n)
    n = int(n)
    mask = _surveyed(n, rule)
    empty = np.flatnonzero(mask.found.row == 0).tolist()
    require(
        not empty,
        f"rule lets tokens {empty[:5]} read nothing, not even themselves: their "
        "softmax is empty",
    )
    gains: dict[Part, int] = {}
    left = mask.found
    while left.row.any():
        more = _largest(mask, gains, left)
        if not more:
            break
        gains.update(more)
        left = _left(mask, gains)
    if not left.row.any():
        return _step(_cut_down(mask, gains, few=0), mask.past)
    # lists are needed in any case: what explains little goes into them
    parts = _cut_down(mask, gains, few=math.isqrt(n))
    rest = (left for _, _, _, left in _pairs(mask, parts))
    return _step([*parts, Lists(*_compressed(rest))], mask.past)


def _cut_down(mask: _Mask, gains: dict[Part, int], few: int) -> list[Part]:
    """The parts without what others hold as well, or but for a few pairs."""
    parts = [part for part, gain in gains.items() if gain > few]
    for part in sorted(parts, key=gains.get):
        parts.remove(part)
        parts += _needed(part, _left(mask, parts), few)
    return parts


def _needed(part: Part, left: _Counts, few: int) -> list[Part]:
    """The part as far as it reads more than a few pairs that are left."""
    match part:
        case Columns(tokens):
            kept = tuple(t for t in tokens if left.column[t] > few)
            return [Columns(kept)] if kept else []
        case Rows(tokens):
            kept = tuple(t for t in tokens if left.row[t] > few)
            return [Rows(kept)] if kept else []
        case Window(before, after, dilation, wrap=False):
            middle = len(left.row) - 1
            new = left.distance > few
            new_before = new[middle::-dilation][: before + 1]
            new_after = new[middle::dilation][: after + 1]
            if not (new_before.any() or new_after.any()):
                return []
            return [_window(_last(new_before), _last(new_after), dilation)]
    return [part]


def _step(parts: Iterable[Part], past: bool) -> Step:
    """A step of these parts, causal if no token reads a later one and they need it."""
    parts = tuple(parts)
    looks_back = all(isinstance(p, Lists) or getattr(p, "right", 1) == 0 for p in parts)
    return Step(parts, causal=past and not looks_back)


def _verify(pattern: Pattern, rule: Rule) -> None:
    """The pattern reads what the rule says, asked once more and for other rows."""
    j = torch.arange(pattern.n, device="cpu")[None]
    for k in _chunks(pattern.n, min(CHUNK, pattern.n**2) // 2):
        k = k[:, None]
        unlike = (_ask(rule, k, j) != pattern.reads(0, k, j)).nonzero()
        if len(unlike):
            row, token = unlike[0].tolist()
            raise ValueError(
                "rule must depend on k and j alone: it answered the pair "
                f"k = {int(k[row])}, j = {token} in two ways"
            )


def _ask(rule: Rule, k: Tensor, j: Tensor) -> Tensor:
    """What the rule says of the pairs of k (rows, 1) and j (1, n)."""
    try:
        answer = rule(k, j)
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        raise ValueError(
            "rule must take tensors of indices, (rows, 1) and (1, n), and answer for "
            "all pairs at once: with & | ~ in place of and, or, not and a < b < c, "
            "each comparison in brackets; it raised "
            f"{type(error).__name__}: {error}"
        ) from error
    kind = answer.dtype if torch.is_tensor(answer) else type(answer).__name__
    require(kind == torch.bool, f"rule must return a boolean tensor, got {kind}")
    size = (len(k), j.shape[1])
    got = tuple(answer.shape)
    fits = len(got) <= 2 and all(
        a in (1, b) for a, b in zip(reversed(got), reversed(size))
    )
    require(
        fits,
        f"rule must return a shape that broadcasts to (rows, n) = {size}, got {got}",
    )
    return answer.cpu().expand(size)


class _Counts:
    """How many pairs of a mask stand at each distance 1 - n, ..., n - 1 from the
    reader, in each row, and in each column.
    """

    def __init__(self, n: int):
        self.distance = np.zeros(2 * n - 1, np.int64)
        self.row = np.zeros(n, np.int64)
        self.column = np.zeros(n, np.int64)

    def add(self, k: Tensor, mask: Tensor) -> None:
        rows, n = mask.shape
        first = int(k[0])
        self.row[first : first + rows] += mask.sum(1).numpy()
        self.column += mask.sum(0).numpy()
        # each row moves by one more, until pairs of one distance share a column
        moved = F.pad(mask.flip(0), (0, rows)).flatten()[:-rows].view(rows, -1)
        start = n - rows - first
        self.distance[start : start + n + rows - 1] += moved.sum(0).numpy()


@dataclass
class _Mask:
    """A rule, and what one look at all of its pairs shows.

    found: all that is read. Each token reads at least `before` tokens in a row before
    it and `after` tokens after it; n where the row ends first. past: no token reads a
    later one.
    """

    n: int
    rule: Rule
    found: _Counts
    before: np.ndarray
    after: np.ndarray
    past: bool


def _surveyed(n: int, rule: Rule) -> _Mask:
    found = _Counts(n)
    gaps = []
    j = torch.arange(n, device="cpu")[None]
    for k in _chunks(n, CHUNK):
        k = k[:, None]
        read = _ask(rule, k, j)
        found.add(k, read)
        gap_before = torch.where(~read & (j <= k), k - j - 1, n).amin(1)
        gap_after = torch.where(~read & (j >= k), j - k - 1, n).amin(1)
        gaps.append(torch.stack([gap_before, gap_after]))
    before, after = torch.cat(gaps, 1).numpy()
    past = not found.distance[n:].any()
    if past:  # there is no future to be read
        after = np.full(n, n)
    return _Mask(n, rule, found, before, after, past)


def _pairs(
    mask: _Mask, parts: Iterable[Part]
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """All pairs, some rows at a time: k, j, what is read, what no part explains."""
    j = torch.arange(mask.n, device="cpu")[None]
    for k in _chunks(mask.n, CHUNK):
        k = k[:, None]
        found = _ask(mask.rule, k, j)
        explained = _step_reads(tuple(parts), mask.past, mask.n, k, j)
        yield k, j, found, found & ~explained


def _left(mask: _Mask, parts: Iterable[Part]) -> _Counts:
    """What no part explains, counted."""
    counts = _Counts(mask.n)
    for k, _, _, left in _pairs(mask, parts):
        counts.add(k, left)
    return counts


def _largest(mask: _Mask, parts: dict[Part, int], left: _Counts) -> dict[Part, int]:
    """Parts that explain most, with how many pairs; windows and strides together, since
    none of them takes anything from the others.
    """
    n = mask.n
    token = np.arange(n)
    full_column = mask.found.column == (n - token if mask.past else n)
    full_row = mask.found.row == (token + 1 if mask.past else n)
    others: dict[Part, int] = {}
    for kind, full, here in (
        (Columns, full_column, left.column),
        (Rows, full_row, left.row),
    ):
        new = np.flatnonzero(full & (here > 0))
        if len(new):
            others[kind(tuple(new.tolist()))] = int(here[new].sum())
    least = max(others.values(), default=1)
    found = _by_distance(mask, parts, left, least)
    most = max([least, *found.values()])
    blocks = _measured(mask, parts, _blocks(mask, parts, most))
    others |= blocks
    if found and most >= max(blocks.values(), default=0):
        return found
    if not others:
        return {}
    best = max(others, key=others.get)
    return {best: others[best]}


def _by_distance(
    mask: _Mask, parts: Iterable[Part], counts: _Counts, least: int
) -> dict[Part, int]:
    """Windows and strides that explain at least so many pairs, the largest first."""
    n = mask.n
    full = mask.found.distance == n - abs(np.arange(1 - n, n))
    left = counts.distance.copy()
    chosen: dict[Part, int] = {}
    if not full[n - 1]:  # all of them hold the self-loops
        return chosen
    while True:
        gain = 0
        for part, at in _lines(n, full, left, [*parts, *chosen], mask.past):
            if left[at].sum() > gain:
                best = part
                gain = int(left[at].sum())
                where = at
        if gain < least:
            return chosen
        chosen[best] = gain
        left[where] = 0


def _lines(
    n: int, full: np.ndarray, left: np.ndarray, parts: Iterable[Part], past: bool
) -> Iterator[tuple[Part, slice | np.ndarray]]:
    """Windows and strides of all steps, and the places of their distances."""
    for part in parts:
        if isinstance(part, Window) and not past:
            yield from _round_a_circle(n, full, left, part.dilation)
    for step in range(1, n):
        ahead = full[n - 1 :: step]
        behind = full[n - 1 :: -step]
        whole = behind.all() and (past or ahead.all())
        if whole and 1 < step <= (n - 1) // 2:
            yield Strided(step), slice((n - 1) % step, None, step)
            continue
        after = _reach(ahead, left[n - 1 :: step])
        before = _reach(behind, left[n - 1 :: -step])
        if before or after or step == 1:
            at = slice(n - 1 - before * step, n + after * step, step)
            yield _window(before, after, step), at


def _round_a_circle(
    n: int, full: np.ndarray, left: np.ndarray, step: int
) -> Iterator[tuple[Part, np.ndarray]]:
    """The window of this step that counts modulo n, unless it reads a whole circle."""
    full_round = full[n - 1 :].copy()
    full_round[1:] &= full[: n - 1]
    left_round = left[n - 1 :].copy()
    left_round[1:] += left[: n - 1]
    ahead = np.arange(n // math.gcd(n, step)) * step % n
    behind = -ahead % n
    after = _reach(full_round[ahead], left_round[ahead])
    before = _reach(full_round[behind], left_round[behind])
    if before + after < len(ahead) and before + after > 0:
        read = np.arange(-before, after + 1) * step % n
        at = np.concatenate([read + n - 1, read[read > 0] - 1])
        yield Window(before, after, step, wrap=True), at


def _window(before: int, after: int, dilation: int) -> Window:
    return Window(before, after, dilation if before or after else 1)


def _reach(full: np.ndarray, left: np.ndarray) -> int:
    """How far all is full, as far as there is something left."""
    stop = len(full) if full.all() else full.argmin()
    return _last(left[:stop] > 0)


def _last(new: np.ndarray) -> int:
    """The last place where something is new, 0 if there is none."""
    places = np.flatnonzero(new)
    return int(places[-1]) if len(places) else 0


def _blocks(mask: _Mask, parts: Iterable[Part], most: int) -> list[Blocks]:
    """Blocks that may fit and explain more than so many pairs: those side by side fit,
    turned ones are guessed.
    """
    smallest = most // mask.n  # a token has at most so many pairs in its block
    if mask.past:
        smallest = 2 * most // mask.n - 1  # and half of them are in the future
    smallest = max(1, smallest)
    token = np.arange(mask.n)
    proposed = []
    longest = int(np.minimum(mask.before, token).max()) + 1
    for size in range(longest, smallest, -1):
        # where a token may stand in its block: not so early or late that the block
        # reaches over what the token reads around it
        early = _covered(size, -token, size - 1 - mask.after)
        late = _covered(size, mask.before + 1 - token, size - 1 - mask.before)
        shifts = np.flatnonzero(early + late == 0)
        proposed += [Blocks(size, int(shift)) for shift in shifts]
        if len(proposed) >= BLOCKS:
            break
    return proposed[:BLOCKS] + _turned_blocks(mask, parts, smallest)


def _turned_blocks(mask: _Mask, parts: Iterable[Part], smallest: int) -> list[Blocks]:
    """The first token reads the block of the turn, the last token the one before: each
    run of what they read may be it.
    """
    n = mask.n
    j = torch.arange(n, device="cpu")[None]
    proposed = []
    for token, later in ((0, 0), (n - 1, 1)):
        k = torch.tensor([[token]], device="cpu")
        found = _ask(mask.rule, k, j)
        left = found & ~_step_reads(tuple(parts), mask.past, n, k, j)
        for row in (found[0].numpy(), left[0].numpy()):
            for start, stop in _runs(row)[:BLOCKS]:
                size = stop - start
                shift = -start % size
                blocks = Blocks(size, shift, (start + shift) // size + later)
                if size >= smallest and blocks.turn < blocks.count(n):
                    proposed.append(blocks)
    return proposed


def _runs(row: np.ndarray) -> list[tuple[int, int]]:
    """Where something is read in a row, the longest first: start and stop."""
    edges = np.flatnonzero(np.diff(row, prepend=False, append=False))
    runs = zip(edges[::2].tolist(), edges[1::2].tolist())
    return sorted(runs, key=_length)


def _length(run: tuple[int, int]) -> int:
    start, stop = run
    return start - stop


def _covered(size: int, start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """How many intervals, each so long, cover each residue modulo size."""
    length = length.clip(0, size)
    start = start % size
    change = np.bincount(start, minlength=2 * size + 1)
    change = change - np.bincount(start + length, minlength=2 * size + 1)
    covered = change.cumsum()
    return covered[:size] + covered[size : 2 * size]


def _measured(
    mask: _Mask, parts: Iterable[Part], proposed: Iterable[Part]
) -> dict[Part, int]:
    """How many pairs each of the proposed parts explains, without those that do not
    fit.
    """
    gains = dict.fromkeys(proposed, 0)
    if not gains:
        return gains
    for k, j, found, left in _pairs(mask, parts):
        for part in list(gains):
            read = _step_reads([part], mask.past, mask.n, k, j)
            if (read & ~found).any():
                del gains[part]
            else:
                gains[part] += int((read & left).sum())
    return {part: gain for part, gain in gains.items() if gain > 0}
