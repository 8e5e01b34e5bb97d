"""From one step of a pattern to families of dense tiles: who lies in which tile, and
what is masked in it.

A family is one size of tile. Its tokens stand in an order; tile t holds the positions
first + t hop + a step of it, once for its queries and once for its keys.

    hop = c       windows: the tiles of keys overlap
    hop = width   each tile has keys of its own: blocks
    hop = 1       residue classes: step apart
    hop = 0       all tiles share their keys: global columns and rows

Masks are evaluated from the definition of the pattern, so an order that is wrong can
cost time, but no connection: the plan counts them.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnlib._require import require
from attnlib.patterns import Lists, Part, Rows, Step, Window
from attnlib.patterns.parts import _reads
from attnlib.sparse.entries import Entries, entries_of
from attnlib.sparse.layouts import (
    BlockSets,
    Classes,
    Layout,
    layout_of_rows,
    layouts,
    ordered,
)

PAIRS = 1 << 21  # pairs looked at together while a plan is made
SHARED = 4  # so many equal masks in a row share one
# What tiles cost, in entries. Measured on one thread of a CPU with AVX-512, torch 2.13,
# n = 2048, 4 heads of 64, forward and backward, windows of 3 to 129 tokens as tiles and
# as lists: .2 ms an entry a row, 3 ms more for tiles of no width, 2.5 ms for 100 keys.
QUERY = 15  # a query of a tile
PAIR = 1 / 8  # a logit of a tile


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Tiles start..stop - 1 of a family.

    bias is 0 where a key is read and -inf where not: one mask (1, c, width) for all of
    them, or one each; None where nothing is hidden. dead marks queries without a key,
    of the shape of bias but for its last dimension; None where there are none.
    """

    start: int
    stop: int
    bias: Tensor | None
    dead: Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Tiles of one layout.

    takes: these rows read all, so that this family alone decides them. fresh: no family
    before this one has touched its rows.
    """

    layout: Layout
    runs: list[Run]
    takes: bool
    fresh: bool


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """All families of a step, and the entries that no tile holds.

    taken: the rows that read all, None if there are none. filled: fresh families write
    all rows.
    """

    families: list[Family]
    taken: Tensor | None
    filled: bool = False
    entries: Entries | None = None


@functools.lru_cache(maxsize=128)  # a cycle may have many steps
def plan_of(
    step: Step,
    n: int,
    rows: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Plan:
    """The plan of a step, made once: equal steps share it, whoever made them.

    Args:
        step: of a pattern.
        n: tokens.
        rows: how many of them, the last ones, are queries.
        dtype: of logits, float32 at least.
        device: where masks and orders lie.

    Returns:
        Plan.

    Raises:
        ValueError: for a row that reads nothing.

    Cost: O(n) times the parts and tiles of one mask; O(pairs of tiles) where masks
        differ; O(n rows) where only some rows are queries. The last 128 plans are kept.
    Source: none.
    """
    plan, fed = _whole(step, n) if rows == n else _last_rows(step, n, rows)
    empty = (~fed[n - rows :]).nonzero().flatten() + n - rows
    require(
        len(empty) == 0,
        f"row {int(empty[:1].sum())} of the pattern attends to nothing, "
        f"so its softmax is empty ({len(empty)} such rows)",
    )
    families = [_ready(family, dtype, device) for family in plan.families]
    entries = None if plan.entries is None else plan.entries.to(device)
    taken = None if plan.taken is None else plan.taken.to(device)
    return replace(plan, families=families, entries=entries, taken=taken)


def _whole(step: Step, n: int) -> tuple[Plan, Tensor]:
    """All rows of a step: each part hides what an earlier part holds.

    With the plan come the rows that read something.
    """
    parts = ordered(step, n)
    families: list[Family] = []
    listed: list[tuple[Tensor, Tensor]] = []
    seen: tuple[Part, ...] = ()
    fed = torch.zeros(n, dtype=torch.bool, device="cpu")  # rows that read something
    touched = torch.zeros(n, dtype=torch.bool, device="cpu")  # rows of an earlier part
    # rows that a fresh family feeds
    filled = torch.zeros(n, dtype=torch.bool, device="cpu")
    for part, own in parts:
        if _goes_by_entries(part, n, step.causal):
            rows, columns = _listed(part, n, seen, step.causal)
            listed.append((rows, columns))
            touched[rows] = True
            fed[rows] = True
            seen += own
            continue
        takes = isinstance(part, Rows)
        hidden = () if takes else seen
        made = _families(part, own, hidden, n, step.causal, touched)
        for family, rows, alive in made:
            families.append(family)
            touched[rows] = True
            fed |= alive
            if family.fresh:
                filled |= alive
        if not takes:
            seen += own
    plan = Plan(
        families=families,
        taken=_taken(step),
        filled=bool(filled.all()),
        entries=_all_entries(listed, n),
    )
    return plan, fed


def _last_rows(step: Step, n: int, rows: int) -> tuple[Plan, Tensor]:
    """Some rows at the end, in tiles with the keys that they read."""
    j = torch.arange(n, device="cpu")
    first = n - rows

    def reads(i: Tensor) -> Tensor:
        mask = torch.zeros(len(i), n, dtype=torch.bool, device="cpu")
        for part in step.parts:
            mask |= _reads(part, n, i, j)
        return mask & (j <= i) if step.causal else mask

    layout = layout_of_rows(reads, first, n)
    runs, fed = _runs(layout, n, step.parts, (), step.causal)
    queries = replace(layout.q, first=0)
    family = Family(replace(layout, q=queries), runs, takes=False, fresh=True)
    return Plan([family], taken=None, filled=True), fed


def _goes_by_entries(part: Part | BlockSets | Classes, n: int, causal: bool) -> bool:
    """Whether a part becomes entries, and not tiles.

    Lists do, and windows so thin that their tiles would cost more.
    """
    if not isinstance(part, Window):
        return isinstance(part, Lists)
    width = part.left + 1 + (0 if causal and not part.wrap else part.right)
    made = layouts(part, n, causal)
    tiles = sum(l.count * l.q.size * (QUERY + PAIR * l.k.size) for l in made)
    return n * width < tiles


def _families(
    part: Part | BlockSets | Classes,
    own: tuple[Part, ...],
    hidden: tuple[Part, ...],
    n: int,
    causal: bool,
    touched: Tensor,
) -> list[tuple[Family, Tensor, Tensor]]:
    """The families of a part, each with the rows of its tiles and those it feeds."""
    made = []
    for layout in layouts(part, n, causal):
        runs, alive = _runs(layout, n, own, hidden, causal)
        if not runs:
            continue
        rows = layout.q.tokens(torch.arange(layout.count, device="cpu"), n)
        rows = rows[rows >= 0]
        fresh = not bool(touched[rows].any())
        family = Family(layout, runs, takes=isinstance(part, Rows), fresh=fresh)
        made.append((family, rows, alive))
    return made


def _taken(step: Step) -> Tensor | None:
    """The rows that read all, None if there are none."""
    tokens = set()
    for part in step.parts:
        if isinstance(part, Rows):
            tokens.update(part.tokens)
    return torch.tensor(sorted(tokens), device="cpu") if tokens else None


def _all_entries(listed: list[tuple[Tensor, Tensor]], n: int) -> Entries | None:
    """The rows and columns of all lists together, None if there are none."""
    if not listed:
        return None
    rows, columns = (torch.cat(t) for t in zip(*listed))
    return entries_of(rows, columns, n) if len(rows) else None


def _listed(
    part: Lists | Window, n: int, seen: tuple[Part, ...], causal: bool
) -> tuple[Tensor, Tensor]:
    """Rows and columns of the entries of a part that no earlier part has read."""
    if isinstance(part, Lists):
        counts = part.crow.cpu().diff()
        rows = torch.arange(n, device="cpu").repeat_interleave(counts)
        columns = part.col.cpu()
    else:
        rows, columns = _window_entries(part, n)
    kept = torch.ones(len(rows), dtype=torch.bool, device="cpu")
    if causal:
        kept &= columns <= rows
    for other in seen:
        kept &= ~_reads(other, n, rows, columns)
    return rows[kept], columns[kept]


def _window_entries(part: Window, n: int) -> tuple[Tensor, Tensor]:
    """Rows and columns of the entries of a window, each once.

    Round a circle a window may meet a token twice.
    """
    k = torch.arange(n, device="cpu")[:, None]
    j = k + part.dilation * torch.arange(-part.left, part.right + 1, device="cpu")
    inside = (j >= 0) & (j < n) | part.wrap
    pairs = torch.where(inside, k * n + j % n, -1).unique()
    pairs = pairs[pairs >= 0]
    return pairs // n, pairs % n


def _runs(
    layout: Layout,
    n: int,
    parts: tuple[Part, ...],
    seen: tuple[Part, ...],
    causal: bool,
) -> tuple[list[Run], Tensor]:
    """The runs of tiles that read something, and which of the n rows they feed.

    Masks are still boolean.
    """
    # the last for queries that read nothing
    fed = torch.zeros(n + 1, dtype=torch.bool, device="cpu")
    runs = []
    together = max(1, PAIRS // layout.pairs)
    for start in range(0, layout.count, together):
        tiles = torch.arange(start, min(layout.count, start + together), device="cpu")
        i = layout.q.tokens(tiles, n)
        j = layout.k.tokens(tiles, n)
        mask = _mask(i, j, n, parts, seen, causal)
        alive = mask.any(-1)
        fed[torch.where(alive, i, n)] = True
        runs += _pieces(start, mask, alive)
    return _glued(runs), fed[:n]


def _mask(
    i: Tensor,
    j: Tensor,
    n: int,
    parts: tuple[Part, ...],
    seen: tuple[Part, ...],
    causal: bool,
) -> Tensor:
    """(tiles, c, width): what these parts read and no earlier part has read.

    A negative index is a hole.
    """
    k = i.clamp_min(0).unsqueeze(-1)
    l = j.clamp_min(0).unsqueeze(-2)
    no_holes = (i >= 0).unsqueeze(-1) & (j >= 0).unsqueeze(-2)
    mask = torch.zeros_like(no_holes)
    for part in parts:
        mask |= _reads(part, n, k, l)
    mask &= no_holes
    for part in seen:
        mask &= ~_reads(part, n, k, l)
    if causal:
        mask &= l <= k
    return mask


def _pieces(first: int, mask: Tensor, alive: Tensor) -> list[Run]:
    """Runs of one chunk: maximal stretches of equal masks that read something."""
    change = (mask[1:] != mask[:-1]).flatten(1).any(1)
    starts = [0, *(change.nonzero().flatten() + 1).tolist()]
    stops = [*starts[1:], len(mask)]
    found = []
    for start, stop in zip(starts, stops):
        reads = mask[start : start + 1]
        dead = ~alive[start : start + 1]
        if bool(dead.all()):
            continue
        found.append(
            Run(
                start=first + start,
                stop=first + stop,
                bias=None if bool(reads.all()) else reads,
                dead=dead if bool(dead.any()) else None,
            )
        )
    return found


def _glued(runs: list[Run]) -> list[Run]:
    """Neighbouring short runs become one with a mask for each tile.

    Neighbours with equal masks are one.
    """
    made: list[Run] = []
    short: list[Run] = []  # neighbours that wait to become one

    def close() -> None:
        if short:
            made.append(_stacked(short))
            short.clear()

    for run in runs:
        if short and short[-1].stop != run.start:
            close()
        if made and not short and _continues(made[-1], run):
            made[-1] = replace(made[-1], stop=run.stop)
        elif run.bias is None or run.stop - run.start >= SHARED:
            close()
            made.append(run)
        else:
            short.append(run)
    close()
    return made


def _continues(one: Run, other: Run) -> bool:
    """Whether the second run follows the first and hides the same."""
    if one.stop != other.start:
        return False
    if one.bias is None or other.bias is None:
        return one.bias is other.bias
    return torch.equal(one.bias, other.bias)


def _stacked(runs: list[Run]) -> Run:
    """Runs side by side as one."""
    if len(runs) == 1:
        return runs[0]
    masks = [run.bias.expand(run.stop - run.start, -1, -1) for run in runs]
    mask = torch.cat(masks)
    dead = ~mask.any(-1)
    return Run(
        start=runs[0].start,
        stop=runs[-1].stop,
        bias=mask,
        dead=dead if bool(dead.any()) else None,
    )


def _ready(family: Family, dtype: torch.dtype, device: torch.device) -> Family:
    """Masks as numbers to add, all on the device."""
    runs = []
    for run in family.runs:
        if run.bias is not None:
            bias = torch.zeros(run.bias.shape, dtype=dtype, device=device)
            bias.masked_fill_(~run.bias.to(device), -math.inf)
            run = replace(run, bias=bias)
        if run.dead is not None:
            run = replace(run, dead=run.dead.to(device))
        runs.append(run)
    return replace(family, layout=family.layout.to(device), runs=runs)
