"""Keys redrawn where they hurt. A row remembers one key, the worst; no matrix of all
pairs exists at any time.

Page: notebooks/sparse_patterns/what_is_enough
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from attnlib.expressive.tiles import HALVES, _logits, _supports


class Settled(NamedTuple):
    """Keys, and the queries that belong to them.

    Args:
        q, k: (n, d).
        rounds: of redrawing.
        left: rows that are still in conflict.
    """

    q: Tensor
    k: Tensor
    rounds: int
    left: int


def settle(
    k: Tensor,
    columns: Tensor,
    y: Tensor,
    *,
    solve: Callable,
    draw: Callable,
    gap: float,
    limit: int,
    whole: bool = False,
    tile: tuple[int, int] = (1024, 2048),
    progress: bool = False,
) -> Settled:
    """Redraw until all logits off the pattern are `gap` below those on it, whatever
    rounding did, or for `limit` rounds.

    After the keys R are redrawn, a row is computed anew if one of R is in S_i or was
    its worst key; all other rows are compared with R alone.

    Args:
        k: (n, d), the first keys.
        columns: the pattern, -1 pads.
        y: logits on the pattern, 0 at the padding.
        solve: a function of k, columns and y that gives queries; NaN for dependent
            keys.
        draw: a function of m that gives m keys.
        gap: that is asked for.
        limit: rounds at most.
        whole: redraw all keys of an event, as in the theorem, where two keys of S_i
            that lean on each other by more than 1 / (2 k) are an event of their own.
            Else, which is quicker, the worst key alone, and those of S_i where they
            make a query in conflict more than twice as long as orthonormal keys would.
        tile: queries and keys at a time.
        progress: show a bar.

    Returns:
        Settled.

    Cost: O(n^2 d), and O(r k n d) for each round that redraws r keys.
    Source: Moser and Tardos 2010, recalled, with the worst key of each row remembered.
    Claim: codes.redraw
    """
    every = torch.arange(len(k), device=k.device)
    kept = columns >= 0
    k = k.clone()
    q = torch.empty_like(k)
    least = k.new_empty(len(k), dtype=torch.float64)
    top = torch.empty_like(least)
    worst = every.clone()
    stale = every
    redrawn = every[:0]
    rounds = range(limit + 1)
    if progress:
        rounds = tqdm(rounds, "rounds of redrawing", leave=False)
    for done in rounds:
        if len(stale):
            sets = columns[stale]
            q[stale] = solve(k, sets, y[stale])
            least[stale] = _least(q[stale], sets, k)
            top[stale], worst[stale] = _highest(q[stale], sets, k, every, tile)
        found, which = _highest(q, columns, k, redrawn, tile)
        worst = torch.where(found > top, which, worst)
        top = torch.maximum(top, found)
        _, _, rounding = _logits(q, k, 1.0)
        hurt = ~(least - top >= gap + 3 * rounding)  # so is a row with NaN
        if whole:
            bad = _leaning(k, columns)
        else:
            too_long = _squares(q) > 4 * _squares(y)
            bad = hurt & too_long
        bad |= q.isnan().any(1)
        hurt |= bad
        if done == limit or not hurt.any():
            break
        rows = hurt.nonzero().flatten()
        chosen = _chosen(columns[rows], worst[rows], bad[rows], whole)
        redrawn = torch.tensor(chosen, device=k.device)
        k[redrawn] = draw(len(redrawn))
        new = torch.zeros_like(hurt).index_fill_(0, redrawn, True)
        new_worst = new[worst]
        new_on_row = (new[columns] & kept).any(1)
        stale = (new_worst | new_on_row).nonzero().flatten()
    return Settled(q, k, done, int(hurt.sum()))


def _highest(
    q: Tensor, columns: Tensor, k: Tensor, among: Tensor, tile: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """For each query the largest logit on the keys `among` that are off its row of
    columns, float64, and the number of that key.
    """
    kind = torch.float32 if q.dtype in HALVES else q.dtype
    place = columns.new_full((len(k) + 1,), -1)  # the last entry is for the padding
    place[among] = torch.arange(len(among), device=k.device)
    high, wide = tile
    tops = []
    keys = []
    for some, own in zip(q.split(high), place[columns].split(high)):
        top = some.new_full((len(some),), -torch.inf, dtype=torch.float64)
        key = own.new_zeros(len(some))
        for j in range(0, len(among), wide):
            here = among[j : j + wide]
            logits = some.to(kind) @ k[here].to(kind).T
            inside = (own >= j) & (own < j + len(here))
            row, column = inside.nonzero(as_tuple=True)
            logits[row, own[row, column] - j] = -torch.inf
            best = logits.amax(1).double()
            rise = (best > top).nonzero().flatten()  # amax is quick, argmax is not
            key[rise] = here[logits[rise].argmax(1)]
            top = torch.maximum(top, best)
        tops.append(top)
        keys.append(key)
    return torch.cat(tops), torch.cat(keys)


def _least(q: Tensor, columns: Tensor, k: Tensor) -> Tensor:
    """The least logit on each row of columns, float64."""
    if q.dtype in HALVES:
        q = q.float()
        k = k.float()
    on = _supports(q, k, columns)
    return on.double().masked_fill(columns < 0, torch.inf).amin(1)


def _squares(rows: Tensor) -> Tensor:
    """The squared norm of each row, float64."""
    return torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64).square()


def _leaning(k: Tensor, columns: Tensor) -> Tensor:
    """Rows with two keys whose product is above 1 / (2 k)."""
    allowed = 1 / (2 * columns.shape[1])
    bad = columns.new_zeros(len(columns), dtype=torch.bool)
    for a, b in combinations(columns.T, 2):
        products = (k[a] * k[b]).sum(1)
        both = (a >= 0) & (b >= 0)
        bad |= both & (products.abs() > allowed)
    return bad


def _chosen(columns: Tensor, worst: Tensor, bad: Tensor, whole: bool) -> list[int]:
    """The keys to redraw: of events that share a key only the first counts."""
    touched: set[int] = set()
    for own, l, alone in zip(columns.tolist(), worst.tolist(), bad.tolist()):
        keys = {c for c in own if c >= 0}
        if not alone:
            keys.add(l)
        if keys & touched:
            continue
        if whole or alone:
            touched |= keys
        else:
            touched.add(l)
    return sorted(touched)
