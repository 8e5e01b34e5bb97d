"""Queries that are solved for, and keys redrawn where they hurt.

    q_i = K_S' (K_S K_S')^-1 y_i,   K_S = the keys of S_i as rows
    until  min_{j in S_i} q_i . k_j - max_{l not in S_i} q_i . k_l >= gap:
        draw anew the l of a row that fails, or the keys of S_i

A row remembers one key, its worst; no matrix of all pairs exists at any time.

Page: notebooks/sparse_patterns/what_is_enough
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlib._require import finite, is_floating, matches, require, same_device
from attnlib.expressive.verification import _columns, _logits, _supports, _wide

TILE = 1 << 21  # numbers that are looked at together


def interpolate(
    k: Float[Tensor, "n d"], columns: Int[Tensor, "rows k"], y: Float[Tensor, "rows k"]
) -> Float[Tensor, "rows d"]:
    """The shortest queries with given logits on given keys, solved in float64.

    Args:
        columns: S_i in row i; -1 pads.
        y: the logits; what stands at the padding is ignored.

    Returns:
        (rows, d), NaN where the keys of a row are linearly dependent.

    Source: the least-norm solution of a linear system.
    Claim: expressive.interpolated
    """
    is_floating("k", k)
    require(k.dim() == 2, f"k must be (n, d), got {tuple(k.shape)}")
    _columns(columns, len(k))
    same_device("columns", columns, k.device, "k")
    matches("y", y, columns.shape, k, "k")
    finite(k=k, y=y.masked_fill(columns < 0, 0))
    return _queries(k, columns, y)


def _queries(k: Tensor, columns: Tensor, y: Tensor) -> Tensor:
    """What interpolate returns, so few rows at a time that memory stays small."""
    each = columns.shape[1] * k.shape[1]
    step = max(1, TILE // each)
    parts = zip(columns.split(step), y.split(step))
    return torch.cat([_solve(k, c, values) for c, values in parts])


def _solve(k: Tensor, columns: Tensor, y: Tensor) -> Tensor:
    kept = columns >= 0
    some = _read(k, columns).double()
    # Ones on the diagonal at the padding, so that the Gram matrix has an inverse.
    ones = torch.diag_embed((~kept).double())
    factor, failed = torch.linalg.cholesky_ex(some @ some.mT + ones)
    values = (y * kept).double()[..., None]
    combination = torch.cholesky_solve(values, factor)
    q = (some.mT @ combination).squeeze(-1)
    dependent = (failed != 0)[:, None]
    return q.masked_fill(dependent, math.nan).to(k.dtype)


def _read(k: Tensor, columns: Tensor) -> Tensor:
    """The keys of each row, (rows, k, d), zeros at the padding."""
    kept = (columns >= 0)[..., None]
    return k[columns.clamp_min(0)] * kept


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
    draw: Callable[[int], Tensor],
    gap: float,
    limit: int,
    whole: bool = False,
) -> Settled:
    """Redraw until all logits off the pattern are `gap` below those on it, whatever
    rounding did, or for `limit` rounds.

    After the keys R are redrawn, a row is computed anew if one of R is in S_i or was
    its worst key; all other rows are compared with R alone.

    Args:
        k: (n, d), the first keys.
        columns: the pattern, -1 pads.
        y: logits on the pattern, 0 at the padding.
        draw: a function of m that gives m keys.
        whole: redraw all keys of an event, as in the theorem, where two keys of S_i
            that lean on each other by more than 1 / (2 k) are an event of their own.
            Else, which is quicker, the worst key alone, and those of S_i where they
            make a query in conflict more than twice as long as orthonormal keys would.

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
    longest = 2 * y.double().norm(dim=1)
    for done in range(limit + 1):
        sets = columns[stale]
        q[stale] = _queries(k, sets, y[stale])
        some = q[stale]
        on = _supports(_wide(some), _wide(k), sets).double()
        on = on.masked_fill(sets < 0, math.inf)
        least[stale] = on.amin(1)
        top[stale], worst[stale] = _highest(some, sets, k, every)
        _, _, rounding = _logits(q.nan_to_num(), k, 1.0)
        hurt = ~(least - top >= gap + 3 * rounding)  # so is a row with NaN
        too_long = q.double().norm(dim=1) > longest
        bad = _leaning(k, columns) if whole else hurt & too_long
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
        found, which = _highest(q, columns, k, redrawn)
        worst = torch.where(found > top, which, worst)
        top = torch.maximum(top, found)
    return Settled(q, k, done, int(hurt.sum()))


def _highest(
    q: Tensor, columns: Tensor, k: Tensor, among: Tensor
) -> tuple[Tensor, Tensor]:
    """For each query the largest logit on the keys `among` that are off its row of
    columns, float64, and the number of that key.
    """
    place = columns.new_full((len(k) + 1,), -1)  # the last entry is for the padding
    place[among] = torch.arange(len(among), device=k.device)
    keys = _wide(k[among]).T
    step = max(1, TILE // len(among))
    parts = zip(_wide(q).split(step), place[columns].split(step))
    tops = []
    numbers = []
    for some, own in parts:
        logits = some @ keys
        row, column = (own >= 0).nonzero(as_tuple=True)
        logits[row, own[row, column]] = -math.inf
        top, number = logits.max(1)
        tops.append(top.double())
        numbers.append(among[number])
    return torch.cat(tops), torch.cat(numbers)


def _leaning(k: Tensor, columns: Tensor) -> Tensor:
    """Rows with two keys whose product is above 1 / (2 k)."""
    allowed = 1 / (2 * columns.shape[1])
    some = _read(k, columns)
    products = (some @ some.mT).triu(1)
    return (products.abs() > allowed).flatten(1).any(1)


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
