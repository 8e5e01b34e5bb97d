"""The contextual map in integers. A token's id a is u . z; with K cells to an edge,
N = K^d and B = K + .. + K^d.

    start:            a_k = u . z_k + B e_k,   u = (1, K, .., K^(d-1)),   e its position
    head(v):          the largest id that a token reads if its own is >= v, else the
                      smallest:  sum_k hardmax_k(a_k (a_j - v + 1/2)) a_k
    selective shift:  a + N (head(v) - head(v + 1)), at the tokens with id v;
                      along the path, for each of the N ids a token can have: the sweep
    all-max shift:    a + C head(0), s times

Page: notebooks/sparse_universality/the_proof_executed
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from numbers import Integral

import numpy as np

from attnlib._require import is_a, require, sizes, told
from attnlib.patterns import Pattern, check
from attnlib.patterns import hops as count_hops

LIMIT = 10**7  # ids that are held at a time
BITS = 10**6  # of an integer of the map
TOKENS = 10**4  # of a mask of all pairs


@dataclass(frozen=True, eq=False)
class ContextualMap:
    """The integers of the construction, in units of one cell.

    Args:
        n, d, cells: tokens, features, K cells to an edge of [0, 1).
        period, hops: p and s of the pattern.
        path: tokens, each of which reads the one before it; () for the map without
            positions.
        masks: p boolean matrices (n, n).
        size, base: N, how many ids a token can have, and B, the id of one unit of
            position.
        codes: e, the position of each token.
        top: m, the largest id after the sweep.
        constant: C of the all-max shift.

    Source: Yun et al. 2020b, recalled; differs: C is the least integer that (13.5)
        allows.
    """

    n: int
    d: int
    cells: int
    period: int
    hops: int
    path: tuple[int, ...]
    masks: tuple[np.ndarray, ...]
    size: int
    base: int
    codes: tuple[int, ...]
    top: int
    constant: int

    @property
    def bits(self) -> int:
        """Bits that hold every id: none exceeds (C + 1)^s m."""
        return ((self.constant + 1) ** self.hops * self.top).bit_length()

    @property
    def layers(self) -> int:
        """Attention layers: p (n - 1) N + s; without positions N + 1."""
        runs = len(self.path) - 1 if self.path else 1
        return self.period * runs * self.size + self.hops

    @property
    def levels(self) -> int:
        """Integers that an entry can be after the quantiser: K for each code."""
        return (max(self.codes) + 1) * self.cells


@dataclass(frozen=True, slots=True)
class Shift:
    """One attention layer of the map.

        ids + factor (head(value) - head(value + 1)),   or   ids + factor head(value)

    Args:
        step: the step of the pattern that masks it.
        value: the id that moves; its query bias is value - 1/2.
        factor: N, C, or 0 for a layer that waits.
        every: no second head, all ids move.

    Source: Yun et al. 2020a, 2020b, recalled.
    """

    step: int
    value: int
    factor: int
    every: bool = False


def contextual_map(
    pattern: Pattern,
    n: int,
    d: int,
    cells: int,
    *,
    path: tuple[int, ...] | None = None,
    hops: int | None = None,
    constant: int | None = None,
) -> ContextualMap:
    """The integers of the construction for a pattern, a size and a grid. A pattern that
    misses a condition is refused by the name of the condition.

        m: y = N y - (N - 1) x along the path,
           from x_1 = (n - 1) B + N - 1 and x_i = (i - 2) B
        C: the least integer with ((C + 1)^s - C^s) m < C^s

    Args:
        n, d, cells: n >= 2 tokens, d >= 1 features, K >= 2.
        path: each token reads the one before it at some step; None for 0, .., n - 1,
            then as patterns.check finds.
        hops: s, not questioned if given; None for that of the pattern.
        constant: C >= 1; None for the least. Smaller ones are your own experiment.

    Source: Yun et al. 2020b, recalled; the least C is derived on the page.
    Claim: universal.context
    """
    n, d, cells = _grid_sizes(n, d, cells)
    require(
        isinstance(pattern, Pattern),
        f"pattern must be an attnlib.patterns.Pattern, got {type(pattern).__name__}",
    )
    require(
        pattern.n == n, f"pattern has {pattern.n} tokens and n is {n}: they must agree"
    )
    masks = tuple(pattern.mask(t).cpu().numpy() for t in range(pattern.p))
    require(
        all(m.diagonal().all() for m in masks),
        "condition 1 fails: at some step a token does not read itself",
    )
    path = _checked_path(path, pattern, np.logical_or.reduce(masks))
    if hops is None:
        hops = count_hops(pattern)
        require(
            hops is not None,
            "condition 3 fails: some token never hears from all, "
            "however many layers there are",
        )
    sizes(1, hops=hops)
    hops = int(hops)
    size = cells**d
    base = _unit(d, cells)
    codes = [0] * n
    for i, token in enumerate(path):
        codes[token] = i - 1 if i else n - 1
    top = (n - 1) * base + size - 1
    for i in range(n - 1):
        top = size * top - (size - 1) * i * base
    if constant is None:
        constant = _least_constant(top, hops)
    sizes(1, constant=constant)
    constant = int(constant)
    _check_bits(hops, constant)
    return ContextualMap(
        n,
        d,
        cells,
        pattern.p,
        hops,
        path,
        masks,
        size=size,
        base=base,
        codes=tuple(codes),
        top=top,
        constant=constant,
    )


def equivariant_map(
    n: int, d: int, cells: int, *, constant: int | None = None
) -> ContextualMap:
    """The integers of the dense map without positions: one sweep over the values
    0, .., N - 1, then one all-max layer.

        y_1 = x_1 + N (x_r - x_1),   y_j = x_j + N (y_(j-1) - x_j),   id_j = y_j + C y_r

    for the distinct rows x_1 < .. < x_r of an input.

    Args:
        n, d, cells: n >= 2 tokens, d >= 1 features, K >= 2.
        constant: C >= 1, above every y_r; None for one more than the largest. Smaller
            ones are your own experiment.

    Source: Yun et al. 2020a, recalled; the constant is ours: N^(n+1) is always enough.
    Claim: universal.equivariant
    """
    n, d, cells = _grid_sizes(n, d, cells)
    size = cells**d
    rows = [*range(min(n, size) - 1), size - 1]  # of all sets, these climb highest
    top = size - 1
    for x in rows:
        top = x + size * (top - x)
    if constant is None:
        constant = top + 1
    sizes(1, constant=constant)
    return ContextualMap(
        n,
        d,
        cells,
        period=1,
        hops=1,
        path=(),
        masks=(np.ones((n, n), dtype=bool),),
        size=size,
        base=_unit(d, cells),
        codes=(0,) * n,
        top=top,
        constant=int(constant),
    )


def _grid_sizes(n: int, d: int, cells: int) -> tuple[int, int, int]:
    """Sizes that are large enough, as Python's integers: NumPy's would wrap."""
    sizes(2, n=n, cells=cells)
    sizes(1, d=d)
    require(
        n <= TOKENS and int(n) * int(d) * int(cells).bit_length() <= BITS,
        f"n, d and cells must keep ids within {BITS:,} bits, and n within {TOKENS:,}",
    )
    return int(n), int(d), int(cells)


def _unit(d: int, cells: int) -> int:
    """B = K + .. + K^d, the id of one unit of position."""
    return sum(cells**i for i in range(1, d + 1))


def _checked_path(path, pattern: Pattern, union: np.ndarray) -> tuple[int, ...]:
    """The path that was given, or 0, .., n - 1 if each token reads the one before it,
    else what a search finds.
    """
    n = pattern.n
    if path is None and union.diagonal(-1).all():
        path = range(n)
    elif path is None:
        found = check(pattern)
        gave_up = "the search gave up, give a path yourself"
        why = found.reasons.get("hamiltonian_path", gave_up)
        path = found.hamiltonian_path
        require(path is not None, f"condition 2 fails or is not known: {why}")
    is_a(Sequence, path=path)
    for token in path:
        sizes(0, **{"each token of path": token})
    path = tuple(int(token) for token in path)
    visits_all = sorted(path) == list(range(n))
    require(
        visits_all and all(union[k, j] for j, k in pairwise(path)),
        f"condition 2 fails: path must visit each of {n} tokens once, "
        "and each must read the one before it",
    )
    return path


def _least_constant(top: int, hops: int) -> int:
    """The least integer C with ((C + 1)^s - C^s) m < C^s; for s = 1 it is m + 1."""
    _check_bits(hops, hops * top)

    def enough(above: int) -> bool:
        c = hops * top + above
        return ((c + 1) ** hops - c**hops) * top < c**hops

    # By Bernoulli C lies above s m, and not above s m + s.
    return hops * top + bisect_left(range(hops), True, lo=1, key=enough)


def _check_bits(hops: int, constant: int) -> None:
    """C^s can be written."""
    bits = hops * constant.bit_length()
    require(
        bits <= BITS,
        f"hops = {told(hops)} makes ids of {bits:,} bits or more, at most {BITS:,} are "
        "written: take fewer",
    )


def grid_ids(mapping: ContextualMap) -> np.ndarray:
    """The ids (K^(n d), n) of all grid inputs before the first attention layer.

    First token slowest, of a token the last feature slowest; int64 if mapping.bits <=
    62, else Python integers.
    """
    is_a(ContextualMap, mapping=mapping)
    count = mapping.n * mapping.size**mapping.n
    require(
        count <= LIMIT,
        f"{Decimal(count):.3g} ids are more than {LIMIT}: "
        "take fewer tokens, features or cells",
    )
    ids = _all_rows(mapping.n, mapping.size) + _positions(mapping)
    return ids if mapping.bits <= 62 else ids.astype(object)


def _positions(mapping: ContextualMap) -> np.ndarray:
    """What its position adds to the id of each token: B e."""
    return np.array(mapping.codes) * mapping.base


def _all_rows(n: int, size: int) -> np.ndarray:
    """(size^n, n): all rows of n integers below size, the first slowest."""
    return np.indices((size,) * n).reshape(n, -1).T


def schedule(mapping: ContextualMap) -> Iterator[Shift]:
    """The attention layers in order: for each token along the path, each of its N ids,
    each step of the pattern.

    Without positions, one run over N ids for all tokens. Then s Shifts of all ids.

    Source: Yun et al. 2020b, recalled; layers whose step lacks the edge wait.
    Claim: universal.layers
    """
    is_a(ContextualMap, mapping=mapping)
    for low, steps_that_move in _runs(mapping):
        for value in range(low, low + mapping.size):
            for step, moves in enumerate(steps_that_move):
                yield Shift(step, value, mapping.size if moves else 0)
    for t in range(mapping.hops):
        yield Shift(t % mapping.period, 0, mapping.constant, every=True)


def _runs(mapping: ContextualMap) -> Iterator[tuple[int, list[bool]]]:
    """The runs over N ids: the first id of each, and which steps move a token."""
    if not mapping.path:
        yield 0, [True]
    for i, (before, token) in enumerate(pairwise(mapping.path)):
        yield i * mapping.base, [bool(mask[token, before]) for mask in mapping.masks]


def _head(ids: np.ndarray, mask: np.ndarray, value: int) -> np.ndarray:
    """The largest id that a token reads if its own is at least value, else the
    smallest: equal keys have equal values, so ties of hardmax change nothing.
    """
    out = np.empty_like(ids)
    for j in range(ids.shape[-1]):
        own = ids[..., j, None]  # of one axis at least, or NumPy takes it for a C long
        read = ids[..., mask[j]]
        high = read.max(-1, keepdims=True)
        low = read.min(-1, keepdims=True)
        out[..., j, None] = np.where(own >= value, high, low)
    return out


def apply(shift: Shift, ids: np.ndarray, mapping: ContextualMap) -> np.ndarray:
    """The ids (*batch, n) after one attention layer. The first form moves the tokens
    with id v, by N (max - min) of what they read; the second moves all, by C max.

        a + N (head(v) - head(v + 1))
        a + C head(0)

    Source: Yun et al. 2020a, 2020b, recalled.
    Claim: universal.shift
    """
    is_a(np.ndarray, ids=ids)
    is_a(Shift, shift=shift)
    is_a(ContextualMap, mapping=mapping)
    sizes(0, **{"shift.step": shift.step, "shift.value": shift.value})
    require(
        shift.step < mapping.period,
        f"shift.step must be one of {mapping.period} steps, got {told(shift.step)}",
    )
    n = mapping.n
    require(ids.shape[-1:] == (n,), f"ids must be (*batch, {n}), got {ids.shape}")
    python = ids.dtype == object
    require(python or ids.dtype.kind == "i", f"ids must be integers, got {ids.dtype}")
    room = 8 * ids.dtype.itemsize - 1
    require(
        python or mapping.bits <= room,
        f"ids need {mapping.bits} bits, {ids.dtype} holds {room}: "
        "use ids.astype(object)",
    )
    if not shift.factor:
        return ids
    mask = mapping.masks[shift.step]
    move = _head(ids, mask, shift.value)
    if not shift.every:
        move = move - _head(ids, mask, shift.value + 1)
    return ids + shift.factor * move


def _last_ids(ids: np.ndarray, mapping: ContextualMap) -> np.ndarray:
    """The ids after all attention layers."""
    for shift in schedule(mapping):
        ids = apply(shift, ids, mapping)
    return ids


def context_ids(pattern: Pattern, n: int, d: int, cells: int, **options) -> np.ndarray:
    """The ids (K^(n d), n), Python integers, that the attention layers give to every
    token of every grid input; all distinct under the three conditions.

    Rows are in the order of grid_ids, options are those of contextual_map.

    Source: Yun et al. 2020b, recalled: the contextual map.
    Claim: universal.context
    """
    mapping = contextual_map(pattern, n, d, cells, **options)
    return _last_ids(grid_ids(mapping), mapping).astype(object)


def equivariant_ids(
    n: int, d: int, cells: int, *, constant: int | None = None
) -> np.ndarray:
    """The ids (K^(n d), n) of the map without positions, as context_ids. Two agree only
    if their inputs have the same set of rows and their tokens the same row.

    Claim: universal.equivariant
    """
    mapping = equivariant_map(n, d, cells, constant=constant)
    return _last_ids(grid_ids(mapping), mapping).astype(object)


def decode(ident: int, mapping: ContextualMap) -> tuple[int, list[int]]:
    """The token and the whole input behind one id, as the ids of all tokens before the
    first layer, by residues.

        y_n = floor(id / C^s),   x_i = y_i mod N in its interval
        y_(i-1) = x_i + (y_i - x_i) / N

    The all-max layers are run again, so that what is no id of the map is refused.

    Source: derived on the page.
    Claim: universal.residues
    """
    is_a(Integral, ident=ident)
    is_a(ContextualMap, mapping=mapping)
    require(
        mapping.path,
        "mapping has no positions: its ids tell the set of the rows, not the tokens",
    )
    wanted = int(ident)
    x = [0] * mapping.n  # before the first layer
    swept = [0] * mapping.n  # after the sweep
    y = wanted // mapping.constant**mapping.hops
    for token in reversed(mapping.path):
        low = mapping.codes[token] * mapping.base
        swept[token] = y
        x[token] = low + (y - low) % mapping.size
        y = x[token] + (y - x[token]) // mapping.size
    ids = np.array(swept, dtype=object)
    for t in range(mapping.hops):
        mask = mapping.masks[t % mapping.period]
        ids = ids + mapping.constant * _head(ids, mask, 0)
    first = mapping.path[0]  # the sweep leaves it as it was
    require(
        swept[first] == x[first] and wanted in ids,
        f"ident {told(ident)} is no id of this map",
    )
    return ids.tolist().index(wanted), x
