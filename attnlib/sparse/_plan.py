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
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib._require import require
from attnlib.patterns import Lists, Rows, Step, Window
from attnlib.patterns.parts import _reads
from attnlib.sparse._entries import Entries, entries_of
from attnlib.sparse._shapes import Layout, layouts, ordered

PAIRS = 1 << 21  # pairs looked at together while a plan is made
NARROW = 16  # a window of so many neighbours stands with the lists, where there are any
SHARED = 4  # so many equal masks in a row share one


class Run(NamedTuple):
    """Tiles start..stop - 1 of a family: one mask for all (1, c, width), one each, or
    None where nothing is hidden.

    bias is 0 where a key is read and -inf where not; dead marks queries without a key,
    (stop - start, c) or None.
    """

    start: int
    stop: int
    bias: Tensor | None
    dead: Tensor | None


class Family(NamedTuple):
    """Tiles of one layout. takes: these rows read all, so that this family alone
    decides them. fresh: no family before this one has touched its rows.
    """

    layout: Layout
    runs: list[Run]
    takes: bool
    fresh: bool


class Plan(NamedTuple):
    """All families of a step, and the entries that no tile holds; taken: the rows that
    read all, None if there are none; filled: fresh families write all rows.
    """

    families: list[Family]
    taken: Tensor | None
    filled: bool = False
    entries: Entries | None = None


@functools.lru_cache(maxsize=128)  # a cycle may have many steps
def make_plan(step: Step, n: int, dtype: torch.dtype, device: torch.device) -> Plan:
    """The families of a step, in an order in which each part hides what an earlier part
    holds.
    """
    families, seen, touched = [], [], torch.zeros(n, dtype=torch.bool)
    fed, filled = torch.zeros(n, dtype=torch.bool), torch.zeros(n, dtype=torch.bool)
    listed: list[tuple[Tensor, Tensor]] = []
    has_lists = any(isinstance(part, Lists) for part, _ in ordered(step, n))
    for part, parts in ordered(step, n):
        if isinstance(part, Lists) or (
            has_lists and isinstance(part, Window) and part.left + part.right <= NARROW
        ):
            rows, columns = _listed(part, n, tuple(seen), step.causal)
            fed[rows] = touched[rows] = True
            listed.append((rows, columns))
            seen += parts
            continue
        takes, touching = isinstance(part, Rows), touched.clone()
        for layout in layouts(part, n, step.causal):
            runs, alive = _runs(
                layout, n, parts, () if takes else tuple(seen), step.causal
            )
            if runs:
                rows = layout.q.tokens(torch.arange(layout.count), n)
                rows = rows[rows >= 0]
                families.append(
                    Family(layout, runs, takes, not bool(touched[rows].any()))
                )
                touching[rows], fed = True, fed | alive
                filled |= alive & families[-1].fresh
        touched = touching
        seen += [] if takes else parts
    empty = (~fed).nonzero().flatten().tolist()
    require(
        not empty,
        f"row {(empty or [0])[0]} of the pattern attends to nothing, so its softmax is empty ({len(empty)} such rows)",
    )
    taken = [p.tokens for p in step.parts if isinstance(p, Rows)]
    taken = (
        torch.tensor(sorted({t for tokens in taken for t in tokens}), device=device)
        if taken
        else None
    )
    listed = [torch.cat(t) for t in zip(*listed)]
    entries = entries_of(*listed, n, device) if listed and len(listed[0]) else None
    return Plan(
        [_ready(family, dtype, device) for family in families],
        taken,
        bool(filled.all()),
        entries,
    )


def _listed(
    part: Lists | Window, n: int, seen: tuple, causal: bool
) -> tuple[Tensor, Tensor]:
    """Rows and columns of the entries of a list, or of a window, that no earlier part
    has read.
    """
    if isinstance(part, Lists):
        col, rows = (
            part.col.cpu(),
            torch.arange(n).repeat_interleave(part.crow.cpu().diff()),
        )
    else:
        rows, col = (
            torch.arange(n)[:, None],
            torch.arange(n)[:, None]
            + part.dilation * torch.arange(-part.left, part.right + 1),
        )
        pairs = torch.where(
            (col >= 0) & (col < n) | part.wrap, rows * n + col % n, -1
        ).unique()
        rows, col = pairs[pairs >= 0] // n, pairs[pairs >= 0] % n
    kept = torch.ones(len(col), dtype=torch.bool) if not causal else col <= rows
    for other in seen:
        kept &= ~_reads(other, n, rows, col)
    return rows[kept], col[kept]


def _runs(
    layout: Layout, n: int, parts: tuple, seen: tuple, causal: bool
) -> tuple[list[Run], Tensor]:
    """The runs of tiles that read something, masks still boolean; and which of the n
    rows they feed.
    """
    fed = torch.zeros(n + 1, dtype=torch.bool)
    runs, size = [], layout.pairs
    for start in range(0, layout.count, max(1, PAIRS // size)):
        tiles = torch.arange(start, min(layout.count, start + max(1, PAIRS // size)))
        i, j = layout.q.tokens(tiles, n), layout.k.tokens(tiles, n)
        mask = _mask(i, j, n, parts, seen, causal)
        alive = mask.any(-1)
        fed[torch.where(alive, i, n)] = True
        runs += _pieces(int(tiles[0]), mask, alive)
    return _glued(runs), fed[:n]


def _mask(
    i: Tensor, j: Tensor, n: int, parts: tuple, seen: tuple, causal: bool
) -> Tensor:
    """(tiles, c, width): what these parts read and no earlier part has read. A negative
    index is a hole.
    """
    k, l = i.clamp_min(0).unsqueeze(-1), j.clamp_min(0).unsqueeze(-2)
    mask = ((i >= 0).unsqueeze(-1) & (j >= 0).unsqueeze(-2)).clone()
    found = functools.reduce(
        torch.logical_or, (_reads(part, n, k, l) for part in parts)
    )
    mask &= found
    for part in seen:
        mask &= ~_reads(part, n, k, l)
    return mask & (l <= k) if causal else mask


def _pieces(first: int, mask: Tensor, alive: Tensor) -> list[Run]:
    """Runs of one chunk: maximal stretches of equal masks; what reads nothing is left
    out.
    """
    change = (mask[1:] != mask[:-1]).flatten(1).any(1)
    cuts = [0, *((change.nonzero().flatten() + 1).tolist()), len(mask)]
    found = []
    for a, b in zip(cuts[:-1], cuts[1:]):
        if bool(alive[a].any()):
            whole = bool(mask[a].all())
            found.append(
                Run(
                    first + a,
                    first + b,
                    None if whole else mask[a : a + 1],
                    None if bool(alive[a].all()) else ~alive[a : a + 1],
                )
            )
    return found


def _glued(runs: list[Run]) -> list[Run]:
    """Neighbouring short runs become one with a mask for each tile; equal neighbours
    are one.
    """
    made: list[Run] = []
    short: list[Run] = []

    def close() -> None:
        if short:
            made.append(short[0] if len(short) == 1 else _stacked(short))
            short.clear()

    for run in runs:
        if short and short[-1].stop != run.start:
            close()
        same = (
            made
            and not short
            and made[-1].stop == run.start
            and _equal(made[-1].bias, run.bias)
        )
        if same:
            made[-1] = made[-1]._replace(stop=run.stop)
        elif run.bias is None or run.stop - run.start >= SHARED:
            close()
            made.append(run)
        else:
            short.append(run)
    close()
    return made


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool((one == other).all())


def _stacked(runs: list[Run]) -> Run:
    masks = torch.cat([r.bias.expand(r.stop - r.start, -1, -1) for r in runs])
    dead = ~masks.any(-1)
    return Run(runs[0].start, runs[-1].stop, masks, dead if bool(dead.any()) else None)


def _ready(family: Family, dtype: torch.dtype, device: torch.device) -> Family:
    """Masks as numbers to add, all on the device."""

    def bias(mask):
        return (
            None
            if mask is None
            else torch.zeros(mask.shape, dtype=dtype, device=device).masked_fill_(
                ~mask.to(device), -math.inf
            )
        )

    runs = [
        Run(
            r.start, r.stop, bias(r.bias), None if r.dead is None else r.dead.to(device)
        )
        for r in family.runs
    ]
    return family._replace(layout=family.layout.to(device), runs=runs)
