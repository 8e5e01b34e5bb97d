"""The claims of the page `The universality proof, executed`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib import patterns
from attnlib._require import (
    finite,
    is_a,
    is_list,
    numbers,
    one_of,
    require,
    sizes,
    tokens,
)
from attnlib.attention import Layer, forward, random_layers
from attnlib.certify import Verdict, at_least, at_most
from attnlib.patterns import Pattern
from attnlib.universal import (
    ContextualMap,
    Shift,
    apply,
    approximate,
    approximate_equivariant,
    context_ids,
    contextual_map,
    decode,
    equivariant_ids,
    equivariant_map,
    grid_ids,
    run,
    run_standard,
    schedule,
    standard,
)

# Two evaluations of one target, 4,500 eps: the network looks its values up.
ROUNDING = 1e-12

# Ids times attention layers, some seconds.
WORK = 2 * 10**7

# --- objects: patterns by name, targets, points


def named(name: str, n: int) -> Pattern:
    """A pattern of the page by its name."""
    families = {
        "window": _three_near,
        "closed": _closed,
        "dense": patterns.dense,
        "star": patterns.star,
        "strided": patterns.strided,
        "fixed": patterns.fixed,
        "cycle": patterns.directed_cycle,
    }
    one_of(families, name=name)
    return families[name](n)


def _three_near(n: int) -> Pattern:
    return patterns.window(n, 3)


def _closed(n: int) -> Pattern:
    return patterns.fixed(n, 2, closed=True)


def mixing(x: Tensor) -> Tensor:
    """A target that depends on all tokens and on their order; its slope is at most
    2 pi + 1.3.
    """
    mean = x.mean((-2, -1), keepdim=True)
    return torch.sin(2 * math.pi * x) * mean + 0.3 * x.roll(-1, -2)


def symmetric(x: Tensor) -> Tensor:
    """A target that treats all tokens alike; its slope is at most 2 pi + 1."""
    return torch.sin(2 * math.pi * x) * x.mean((-2, -1), keepdim=True)


def points(n: int, d: int, count: int, seed: int = 0) -> Tensor:
    """Random inputs (count, n, d) in [0, 1)."""
    g = torch.Generator().manual_seed(seed)
    return torch.rand(count, n, d, generator=g, dtype=torch.float64)


def grid(name="window", n=3, d=1, cells=4) -> dict:
    """A pattern, a number of features and of cells."""
    return {"pattern": named(name, n), "d": d, "cells": cells}


def with_target(name="window", n=3, d=1, cells=4, count=400) -> dict:
    """A target, inputs, a pattern and a number of cells."""
    x = points(n, d, count)
    return {"f": mixing, "x": x, "pattern": named(name, n), "cells": cells}


def inputs(n=3, d=1, cells=2) -> dict:
    """Random inputs, and inputs on the edges of cells."""
    edges = torch.arange(cells).repeat(n * d).double()[: n * d] / cells
    x = torch.cat([points(n, d, 3), edges.view(1, n, d)])
    return {"x": x, "cells": cells}


def four_ids(ids=(10, 1, 5, 6), value=1) -> dict:
    """Four ids, the star and an id to look for."""
    return {"ids": np.array(ids), "pattern": patterns.star(4), "value": value}


def random_network(name="fixed", n=3, d=4, j=0, k=2) -> dict:
    """Random layers with biases under a pattern, and a pair of tokens."""
    g = torch.Generator().manual_seed(0)
    layers = random_layers(6, 2, d, 3, bias=True, dtype=torch.float64, generator=g)
    x = torch.randn(n, d, generator=g, dtype=torch.float64)
    pair = {"j": j, "k": k}
    return {"x": x, "layers": layers, "pattern": named(name, n), **pair}


def unordered(n=3, d=1, cells=6) -> dict:
    """Sizes of a grid without positions."""
    return {"n": n, "d": d, "cells": cells}


def with_symmetric_target(n=3, d=1, cells=4, count=60, f=symmetric) -> dict:
    """A target, inputs and a number of cells, without positions."""
    return {"f": f, "x": points(n, d, count), "cells": cells}


def in_a_box(family=patterns.directed_cycle, n=4, cells=3, low=-2.0, high=3.0) -> dict:
    """Inputs from a compact set, and a target of slope at most 1.3."""
    x = low + (high - low) * points(n, 1, 40)

    def f(x: Tensor) -> Tensor:
        return x.flip(-2).sin() + 0.3 * x.roll(-1, -2)

    box = {"low": low, "high": high, "cells": cells}
    return {"family": family, "f": f, "x": x, "slope": 1.3, **box}


# --- what is refused


def _check_grid(pattern: Pattern, d: int, cells: int) -> None:
    """A pattern, at least one feature and two cells."""
    is_a(Pattern, pattern=pattern)
    sizes(1, d=d)
    sizes(2, cells=cells)


def _check_points(
    x: Tensor, n: int | None, low: float | int, high: float | int
) -> Tensor:
    """Finite inputs of n tokens in [low, high), as (M, n, d) in float64."""
    tokens(x, "x")
    finite(x=x)
    x = x.detach()
    got = tuple(x.shape)
    if n is not None:
        require(got[-2] == n, f"x must be (*batch, {n}, d) for this pattern, got {got}")
    inside = bool(((x >= low) & (x < high)).all())
    require(
        inside,
        f"x must lie in [{low:g}, {high:g}), got entries from {float(x.min()):g} to "
        f"{float(x.max()):g}",
    )
    return x.double().reshape(-1, *got[-2:])


def _check_work(mapping: ContextualMap) -> None:
    """Not more ids and layers than can be run."""
    ids = mapping.n * mapping.size**mapping.n
    require(
        mapping.bits > 10**6 or ids > 10**7 or ids * mapping.layers <= WORK,
        f"{ids} ids in {mapping.layers} attention layers are too many to be run: take "
        "fewer tokens, features, cells or hops",
    )


def _check_pair(n: int, **given: int) -> None:
    """Two different tokens of n."""
    sizes(0, **given)
    for name, token in given.items():
        require(token < n, f"{name} must be a token of 0..{n - 1}, got {token}")
    require(len(set(given.values())) == 2, f"j and k must differ, got {given}")


def _answers(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """f at these points; refused unless finite and of their shape."""
    is_a(Callable, f=f)
    y = f(x.clone())
    got = tuple(y.shape) if torch.is_tensor(y) else type(y).__name__
    want = tuple(x.shape)
    require(got == want, f"f must return a tensor of shape {want}, got {got}")
    require(
        y.dtype == torch.float64,
        f"f must return float64, as it is given: it returned {y.dtype}, whose rounding "
        "exceeds the tolerance",
    )
    finite(**{"f(x)": y})
    return y.detach()


def _share(difference: Tensor, like: Tensor) -> float:
    """The largest entry of a difference, as a share of the largest wanted entry."""
    largest = float(difference.abs().max())
    wanted = float(like.abs().max())
    if largest == 0 or wanted == 0:
        return largest
    return largest / wanted


# --- the steps


def halves_and_thirds() -> Verdict:
    """Both tokens 1/3 in two cells: 2/3 and, one position up, 8/3 become 0 and 2.

    Measured: the largest distance.
    """
    net = approximate(mixing, 2, 1, 2, patterns.dense(2))
    third = torch.full((1, 2, 1), 1 / 3, dtype=torch.float64)
    states = [z for kind, z in run(net, third) if kind == "quantise"]
    got = sorted(int(v) for v in states[-1].ravel())
    return at_most(abs(got[0]) + abs(got[1] - 2) + abs(len(states) - 4), 0)


QUANTISE = Case(inputs, {"n": 2, "d": 1, "cells": 2})


@claim(
    "universal.quantise",
    cases=[QUANTISE, QUANTISE.but(n=3), QUANTISE.but(d=2, cells=3)],
    controls=[QUANTISE.but(missing=2)],
    witness=halves_and_thirds,
)
def quantise(x: Tensor, cells: int, *, missing: int | None = None) -> Verdict:
    """d n K layers, each of which takes z - k off the entries in [k, k + 1), turn every
    entry below n K into its integer part.

    Measured, in fractions: the largest distance from the integer part, after the layers
    of the network and after the same layers written once more.

    Args:
        x: (*batch, n, d) in [0, 1); K x and codes of 0 to n - 1 make the entries.
        cells: K.
        missing: k of a layer that is left out.

    Returns:
        Verdict.

    Raises:
        ValueError: for x outside [0, 1) and sizes out of range.

    Claim: universal.quantise
    Page: notebooks/sparse_universality/the_proof_executed
    """
    sizes(2, cells=cells)
    x = _check_points(x, None, 0, 1)
    _, n, d = x.shape
    if missing is not None:
        sizes(0, missing=missing)
        require(
            missing < n * cells,
            f"missing must be a layer of 0..{n * cells - 1}, got {missing}",
        )
    net = approximate(torch.zeros_like, n, d, cells, patterns.dense(n))
    codes = np.array(net.mapping.codes, dtype=object)
    exact = np.vectorize(Fraction, otypes=[object])(x.numpy())
    start = cells * (exact + codes[:, None])
    wanted = np.vectorize(math.floor, otypes=[object])(start)
    z = start
    for k in range(n * cells):
        inside = (z >= k) & (z < k + 1)
        if k != missing:
            z = np.where(inside, k, z)
    built = start
    for kind, state in run(net, x):
        if kind != "quantise":
            break
        built = state
    off = [abs(z - wanted).max(), abs(built - wanted).max()]
    return at_most(float(max(off)), 0)


def shift_by_hand() -> Verdict:
    """Dense, N = 3: of 10, 1, 5, 6 the id 1 moves by 3 (10 - 1), to 28.

    Measured: the largest difference.
    """
    numbers = contextual_map(patterns.dense(4), 4, 1, 3)
    moved = apply(Shift(0, 1, 3), np.array([10, 1, 5, 6]), numbers)
    return at_most(int(abs(moved - [10, 28, 5, 6]).max()), 0)


SHIFT = Case(four_ids)


@claim(
    "universal.shift",
    cases=[
        SHIFT,
        SHIFT.but(value=0),
        SHIFT.but(value=10),
        SHIFT.but(ids=(11, 5, 5, 0), value=5),
    ],
    controls=[SHIFT.but(threshold=1)],
    witness=shift_by_hand,
)
def selective_shift(
    ids: np.ndarray,
    pattern: Pattern,
    value: int,
    *,
    cells: int = 3,
    threshold: int = 0,
) -> Verdict:
    """Two heads with the biases v - 1/2 and v + 1/2 move exactly the tokens with id v,
    by N times the largest less the smallest id that they read.

    Hypotheses: integer ids, integer v; step 1 of the pattern.
    Measured: the largest difference from that, token by token.

    Args:
        ids: (*batch, n) integers.
        pattern: of n tokens, which meets conditions 1 to 3.
        value: v >= 0.
        cells: N = K, for one feature.
        threshold: what is added to the value that the layer looks for.

    Returns:
        Verdict.

    Raises:
        ValueError: for ids that are no integers, and as contextual_map.

    Claim: universal.shift
    Page: notebooks/sparse_universality/the_proof_executed
    """
    is_a(np.ndarray, ids=ids)
    is_a(Pattern, pattern=pattern)
    sizes(0, value=value, threshold=threshold)
    require(ids.size, f"ids must not be empty, got {ids.shape}")
    if ids.dtype == object:
        strange = [a for a in ids.flat if not isinstance(a, Integral)]
        require(not strange, f"ids must be integers, got {strange[:3]}")
    mapping = contextual_map(pattern, pattern.n, 1, cells)
    layer = Shift(0, value + threshold, mapping.size)
    got = apply(layer, ids.astype(object) if ids.dtype.kind == "i" else ids, mapping)
    off = 0
    for row, moved in zip(ids.reshape(-1, pattern.n), got.reshape(-1, pattern.n)):
        for j, own in enumerate(row):
            near = [int(a) for a in row[mapping.masks[0][j]]]
            move = mapping.size * (max(near) - min(near)) if own == value else 0
            off = max(off, abs(int(moved[j]) - int(own) - move))
    return at_most(off, 0)


def swept(
    mapping: ContextualMap, factor: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Ids of all grid inputs before and after the sweep, as Python integers."""
    is_a(ContextualMap, mapping=mapping)
    _check_work(mapping)
    start = grid_ids(mapping).astype(object)
    ids = start
    for shift in schedule(mapping):
        if shift.every:
            break
        if factor is not None and shift.factor:
            shift = replace(shift, factor=factor)
        ids = apply(shift, ids, mapping)
    return start, ids


def sweep_by_hand() -> Verdict:
    """Two tokens, two cells: y_2 = 4, 3, 6, 5. Three tokens with ids 9, 2, 5 and N = 4:
    y_3 = 105.

    Measured: the largest difference.
    """
    _, two = swept(contextual_map(patterns.dense(2), 2, 1, 2))
    _, three = swept(contextual_map(patterns.dense(3), 3, 1, 4))
    place = 16 * (9 - 8) + 4 * 2 + (5 - 4)  # token 1 slowest, less the codes
    off = [abs(a - b) for a, b in zip(two[:, 1], (4, 3, 6, 5))]
    return at_most(max(*off, abs(three[place, 2] - 105)), 0)


STAR = Case(grid, {"name": "star", "n": 4, "cells": 3})
WINDOW = Case(grid)
GRIDS = [
    STAR,
    STAR.but(name="strided", n=3, cells=2, d=2),
    STAR.but(name="fixed"),
]


@claim(
    "universal.sweep",
    cases=[*GRIDS, STAR.but(name="window", n=6, cells=2)],
    controls=[STAR.but(factor=2)],
    witness=sweep_by_hand,
)
def sweep(
    pattern: Pattern, d: int, cells: int, *, factor: int | None = None
) -> Verdict:
    """The sweep gives y_i = N y_(i-1) - (N - 1) x_i along the path, with y_1 = x_1; the
    y_i increase, and y_n <= m < 2 n N^n.

    Hypotheses: conditions 1 and 2, the position codes of the page.
    Measured over all grid inputs: the largest difference from the recursion, by how
    much a y_i does not exceed the one before, and m from the largest y_n.

    Args:
        pattern: of n tokens, which meets the conditions.
        d, cells: features, K.
        factor: of the shifts; None for N.

    Returns:
        Verdict.

    Raises:
        ValueError: as contextual_map, and for more than 10^7 ids.

    Claim: universal.sweep
    Page: notebooks/sparse_universality/the_proof_executed
    """
    _check_grid(pattern, d, cells)
    if factor is not None:
        sizes(1, factor=factor)
        factor = int(factor)
    mapping = contextual_map(pattern, pattern.n, d, cells)
    x, ids = swept(mapping, factor)
    N = mapping.size
    y = x[:, mapping.path[0]]
    faults = [abs(ids[:, mapping.path[0]] - y).max()]
    for token in mapping.path[1:]:
        before = y
        y = N * before - (N - 1) * x[:, token]
        faults.append(abs(ids[:, token] - y).max())
        faults.append(1 + (before - y).max())
    faults.append(abs(y.max() - mapping.top))
    faults.append(mapping.top + 1 - 2 * mapping.n * N**mapping.n)
    return at_most(float(min(max(faults), 10**300)), 0)


def every_id_is_read() -> Verdict:
    """`decode` reads token and input off every id of the star.

    Measured: how many it gets wrong, of 324.
    """
    mapping = contextual_map(patterns.star(4), 4, 1, 3)
    ids = context_ids(patterns.star(4), 4, 1, 3)
    wrong = 0
    for row, out in zip(grid_ids(mapping).tolist(), ids.tolist()):
        for token, ident in enumerate(out):
            try:
                wrong += decode(ident, mapping) != (token, row)
            except ValueError:
                wrong += 1
    return at_most(wrong, 0)


@claim(
    "universal.residues",
    cases=GRIDS,
    controls=[STAR.but(modulus=4)],
    witness=every_id_is_read,
)
def residues(
    pattern: Pattern, d: int, cells: int, *, modulus: int | None = None
) -> Verdict:
    """The last y_n of the sweep determines the whole grid input.

        x_i = y_i mod N, in its interval;   y_(i-1) = x_i + (y_i - x_i) / N

    Hypotheses: conditions 1 and 2.
    Measured: how many inputs are not read back from y_n alone.

    Args:
        pattern: of n tokens, which meets the conditions.
        d, cells: features, K.
        modulus: of the reading; None for N.

    Returns:
        Verdict.

    Raises:
        ValueError: as contextual_map, and for more than 10^7 ids.

    Claim: universal.residues
    Page: notebooks/sparse_universality/the_proof_executed
    """
    _check_grid(pattern, d, cells)
    if modulus is not None:
        sizes(1, modulus=modulus)
    mapping = contextual_map(pattern, pattern.n, d, cells)
    N = mapping.size if modulus is None else modulus
    x, ids = swept(mapping)
    wrong = 0
    for row, y in zip(x.tolist(), ids[:, mapping.path[-1]].tolist()):
        back = {}
        for token in reversed(mapping.path):
            low = mapping.codes[token] * mapping.base
            back[token] = low + (y - low) % N
            y = back[token] + (y - back[token]) // N
        wrong += [back[j] for j in range(mapping.n)] != row
    return at_most(wrong, 0)


def ids_by_hand() -> Verdict:
    """Two tokens, two cells, C = 7: the ids of all four inputs.

    Measured: how many differ.
    """
    wanted = [[30, 32], [23, 24], [45, 48], [38, 40]]
    got = context_ids(patterns.dense(2), 2, 1, 2).tolist()
    return at_most(sum(a != b for a, b in zip(got, wanted)), 0)


@claim(
    "universal.context",
    cases=[WINDOW, *GRIDS, WINDOW.but(constant=5000)],
    controls=[WINDOW.but(constant=29), WINDOW.but(hops=1)],
    witness=ids_by_hand,
)
def contextual(
    pattern: Pattern,
    d: int,
    cells: int,
    *,
    constant: int | None = None,
    hops: int | None = None,
) -> Verdict:
    """If ((C + 1)^s - C^s) m < C^s, the ids of all n tokens of all K^(nd) grid inputs
    are distinct, and y_n = floor(id / C^s).

    Hypotheses: conditions 1 to 3.
    Measured: how many ids repeat, plus how many have another quotient.

    Args:
        pattern: of n tokens, which meets the conditions.
        d, cells: features, K.
        constant: C; None for the least that the condition allows.
        hops: s; None for the true one.

    Returns:
        Verdict.

    Raises:
        ValueError: as contextual_map, and for more than 10^7 ids.

    Claim: universal.context
    Page: notebooks/sparse_universality/the_proof_executed
    """
    _check_grid(pattern, d, cells)
    n = pattern.n
    mapping = contextual_map(pattern, n, d, cells, constant=constant, hops=hops)
    _check_work(mapping)
    ids = context_ids(pattern, n, d, cells, constant=constant, hops=hops)
    _, y = swept(mapping)
    repeats = ids.size - len(set(ids.ravel()))
    others = ids // mapping.constant**mapping.hops != y[:, mapping.path[-1:]]
    return at_most(repeats + int(others.sum()), 0)


def counts_by_hand() -> Verdict:
    """Window 3 on five tokens, four cells: 20 layers and 69 bits; the star: 18 and 39;
    strided: 35 and 54.

    Measured: the largest difference.
    """
    off = [0]
    for name, layers, bits in (
        ("window", 20, 69),
        ("star", 18, 39),
        ("strided", 35, 54),
    ):
        mapping = contextual_map(named(name, 5), 5, 1, 4)
        off.append(abs(mapping.layers - layers))
        off.append(abs(mapping.bits - bits))
    return at_most(max(off), 0)


STRIDED = Case(grid, {"name": "strided", "n": 4, "cells": 3})


@claim(
    "universal.layers",
    cases=[STRIDED, *GRIDS],
    controls=[STRIDED.but(period=1)],
    witness=counts_by_hand,
)
def layers_and_bits(
    pattern: Pattern, d: int, cells: int, *, period: int | None = None
) -> Verdict:
    """The contextual map takes p (n - 1) K^d + s attention layers, and its ids at most
    (s + 1) log2(2 n N^n) + s log2(2 s) + 1 bits.

    Hypotheses: conditions 1 to 3, the least C.
    Measured: layers counted one by one less the formula, plus bits of the largest id
    beyond the bound.

    Args:
        pattern: of n tokens, which meets the conditions.
        d, cells: features, K.
        period: p in the formula; None for that of the pattern.

    Returns:
        Verdict.

    Raises:
        ValueError: as contextual_map, and for more than 10^7 ids.

    Claim: universal.layers
    Page: notebooks/sparse_universality/the_proof_executed
    """
    _check_grid(pattern, d, cells)
    if period is not None:
        sizes(1, period=period)
    n = pattern.n
    mapping = contextual_map(pattern, n, d, cells)
    _check_work(mapping)
    s = mapping.hops
    steps = mapping.period if period is None else period
    counted = sum(1 for _ in schedule(mapping))
    off = abs(counted - (steps * (n - 1) * cells**d + s))
    bits = int(context_ids(pattern, n, d, cells).max()).bit_length()
    bound = (s + 1) * math.log2(2 * n * cells ** (n * d)) + s * math.log2(2 * s) + 1
    return at_most(off + max(0.0, bits - bound), 0)


def a_row_that_meets_an_id() -> Verdict:
    """For large targets `approximate` raises C: no wanted row comes near an id.

    Measured: by how much |u . A| + 1/2 exceeds the least id.
    """
    net = approximate(lambda x: 1e6 * mixing(x), 3, 1, 2, patterns.dense(3))
    reached = 2 * float(net.values.abs().max()) + 0.5
    return at_most(max(0.0, reached - int(net.ids.min())), 0)


VALUES = Case(grid, {"name": "dense", "n": 2, "cells": 2})


@claim(
    "universal.values",
    cases=[
        VALUES,
        VALUES.but(order="increasing"),
        VALUES.but(order="decreasing"),
        VALUES.but(d=2),
    ],
    controls=[VALUES.but(gap=False)],
    witness=a_row_that_meets_an_id,
)
def value_map(
    pattern: Pattern, d: int, cells: int, *, order: str = "grid", gap: bool = True
) -> Verdict:
    """If all ids are distinct integers above |u . A| + 1/2 for every wanted row A, then
    n K^(nd) layers, in any order, replace each row by its A.

    Measured, in fractions: the largest difference from the wanted rows, in cells, over
    all grid inputs.

    Args:
        pattern: of n tokens, which meets conditions 1 to 3.
        d, cells: features, K; small, as every layer is run.
        order: "grid", "increasing" or "decreasing" in the ids.
        gap: False wants one row whose id is that of another token of another input.

    Returns:
        Verdict.

    Raises:
        ValueError: as contextual_map, and for another order.

    Claim: universal.values
    Page: notebooks/sparse_universality/the_proof_executed
    """
    _check_grid(pattern, d, cells)
    one_of(("grid", "increasing", "decreasing"), order=order)
    net = approximate(_far, pattern.n, d, cells, pattern)
    steps = net.ids.size**2
    require(
        steps <= 10**6,
        f"{net.ids.size} value layers on as many rows are too many to be run in "
        "fractions: take fewer tokens, features or cells",
    )
    values = net.values.clone()
    if not gap:
        values[0, 0] = 0
        values[0, 0, 0] = int(net.ids[-1, 0]) / cells
    net = replace(net, values=values)
    x = (_grid_points(net.start, net.mapping) + 0.5) / cells
    *_, (_, last) = run(net, x, order)
    wanted = np.vectorize(Fraction, otypes=[object])(values.numpy()) * cells
    return at_most(float(abs(last - wanted).max()), 0)


def _far(x: Tensor) -> Tensor:
    """A target with values of both signs, far from the cube."""
    return 20 * x.flip(-2) - 3


def _grid_points(start: np.ndarray, mapping: ContextualMap) -> Tensor:
    """The cells (M, n, d) of grid inputs with these ids."""
    own = start - np.array(mapping.codes) * mapping.base
    powers = mapping.cells ** np.arange(mapping.d)
    digits = own[..., None] // powers % mapping.cells
    return torch.from_numpy(digits.astype(float))


# --- the theorem


def every_layer_in_fractions() -> Verdict:
    """Each layer on each token, in fractions, ends where the fast network does.

    Measured: the largest difference, plus that of the numbers of layers.
    """
    off = 0.0
    for name, n, d, K in (("window", 3, 1, 3), ("strided", 3, 1, 2)):
        net = approximate(mixing, n, d, K, named(name, n))
        x = points(n, d, 3)
        states = list(run(net, x))
        last = torch.from_numpy((states[-1][1] / K).astype(float))
        off = max(off, float((last - net(x)).abs().max()))
        off = max(off, abs(len(states) - sum(net.layers.values())))
    return at_most(off, 0)


NETWORK = Case(with_target)


@claim(
    "universal.network",
    cases=[
        NETWORK,
        NETWORK.but(name="star", n=4, cells=3),
        NETWORK.but(name="fixed", n=4, cells=3),
        NETWORK.but(name="strided", d=2, cells=2),
    ],
    controls=[NETWORK.but(hops=1), NETWORK.but(constant=29)],
    witness=every_layer_in_fractions,
)
def network(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    pattern: Pattern,
    cells: int,
    *,
    hops: int | None = None,
    constant: int | None = None,
) -> Verdict:
    """The network gives f at the centre of the cell that x lies in; so it is within
    omega_f(1 / 2K) of f.

    Hypotheses: conditions 1 to 3, f continuous on the closed cube.
    Measured: the largest difference from f at the centres, as a share of the largest
    value there.

    Args:
        f: (M, n, d) -> (M, n, d), float64.
        x: (*batch, n, d) in [0, 1).
        pattern: of n tokens, which meets the conditions.
        cells: K.
        hops, constant: s and C; None for the true one and for the least one.

    Returns:
        Verdict.

    Raises:
        ValueError: for x outside [0, 1), a target with another shape, NaN or infinity,
            and as approximate.

    Claim: universal.network
    Page: notebooks/sparse_universality/the_proof_executed
    """
    is_a(Pattern, pattern=pattern)
    sizes(2, cells=cells)
    x = _check_points(x, pattern.n, 0, 1)
    d = x.shape[-1]
    net = approximate(f, pattern.n, d, cells, pattern, hops=hops, constant=constant)
    wanted = _answers(f, _centres(x, cells))
    return at_most(_share(net(x) - wanted, wanted), ROUNDING)


def _centres(x: Tensor, cells: int) -> Tensor:
    """The centres of the cells that these points lie in, exactly."""
    edges = [Fraction(k, cells) for k in range(1, cells)]
    cell = np.zeros(x.shape)
    exact = np.vectorize(Fraction, otypes=[object])(x.numpy())
    for edge in edges:
        cell += (exact >= edge).astype(float)
    return torch.from_numpy((cell + 0.5) / cells)


# --- who must hear


def which_ids_collide() -> Verdict:
    """Fixed, n = 3, w = 2: 96 of 192 ids, and 16 of token 0, whatever the number of
    all-max layers; once the last token is read by all, 192.

    Measured: the largest difference.
    """
    off = []
    for hops in (2, 8):
        ids = context_ids(patterns.fixed(3, 2), 3, 1, 4, hops=hops)
        off.append(abs(len(set(ids.ravel())) - 96))
        off.append(abs(len(set(ids[:, 0])) - 16))
    closed = context_ids(patterns.fixed(3, 2, closed=True), 3, 1, 4)
    return at_most(max(*off, 192 - len(set(closed.ravel()))), 0)


HEARS = Case(random_network)


@claim(
    "universal.hears",
    cases=[HEARS, HEARS.but(j=1), HEARS.but(n=5, j=1, k=4)],
    controls=[HEARS.but(name="closed")],
    witness=which_ids_collide,
)
def hears(
    x: Tensor, layers: Sequence[Layer], pattern: Pattern, *, j: int, k: int
) -> Verdict:
    """If token j never hears from token k, its output never depends on row k, whatever
    the layers.

    Hypotheses: condition 1; layer t is masked by step t of the pattern, from the first.
    Measured: by how much the output of j changes when row k alone does, from its
    values to three times them, to zero and to its negative.

    Args:
        x: (n, d).
        layers: Layers, with a skip each; any weights and biases.
        pattern: of n tokens.
        j, k: two tokens.

    Returns:
        Verdict.

    Raises:
        ValueError: for tokens that are not there or equal, and as forward.

    Claim: universal.hears
    Page: notebooks/sparse_universality/the_proof_executed
    """
    is_a(Pattern, pattern=pattern)
    tokens(x, "x")
    got = tuple(x.shape)
    n = pattern.n
    require(got[:-1] == (n,), f"x must be ({n}, d) for this pattern, got {got}")
    _check_pair(n, j=j, k=k)
    most = float(x.abs().max())
    require(
        float(x[k].abs().max()) > 1e-6 * most and most < 1e100,
        "x: row k must not vanish beside the others, and x must stay below 1e100: the "
        "row is tripled, zeroed and turned round",
    )
    is_list(layers=layers)
    for layer in layers:
        is_a(Layer, **{"each of layers": layer})
    changed = x.repeat(4, 1, 1)
    changed[:, k] *= x.new_tensor([1.0, 3.0, 0.0, -1.0])[:, None]
    for t, layer in enumerate(layers):
        mask = pattern.mask(t % pattern.p, device=x.device)
        changed = forward(changed, [layer], skip=True, mask=mask)
    outputs = changed[:, j].detach()
    return at_most(float((outputs - outputs[0]).abs().max()), 0)


def least_mean(q: float | int) -> float:
    """The smallest (int_0^1 |x - c|^q dx)^(1/q) over all c: half of (q + 1)^(-1/q)."""
    numbers(q=q)
    require(q >= 1, f"q must be at least 1, got {q}")
    require(q <= 1e200, "q must be at most 1e200")
    return (q + 1) ** (-1 / q) / 2


def no_constant_is_nearer() -> Verdict:
    """By sums over 1001 points, no constant c comes nearer to x than 1/2 does.

    Measured: the largest error of the formula, for q = 1, 2 and 4: 1/4, 1/sqrt(12) and
    80^(-1/4).
    """
    x = torch.linspace(0, 1, 1001, dtype=torch.float64)
    off = 0.0
    for q, wanted in ((1, 0.25), (2, 12**-0.5), (4, 80**-0.25)):
        means = ((x[:, None] - x) ** q).abs().mean(1) ** (1 / q)
        off = max(off, abs(least_mean(q) - wanted))
        off = max(off, abs(float(means.min()) - wanted) - 2e-3)
    return at_most(off, 1e-12)


MEAN = Case(grid, {"name": "fixed", "n": 3, "cells": 4}, {"j": 0, "k": 2, "q": 1.0})


@claim(
    "universal.hears-lp",
    cases=[MEAN, MEAN.but(q=2.0), MEAN.but(q=4.0), MEAN.but(j=1)],
    controls=[MEAN.but(name="closed")],
    witness=no_constant_is_nearer,
)
def misses_in_the_mean(
    pattern: Pattern, d: int, cells: int, *, j: int, k: int, q: float | int = 1.0
) -> Verdict:
    """If token j never hears from token k, every network with the pattern is at least
    (q + 1)^(-1/q) / 2 away from f(X)_j = X_k in L^q.

    Hypotheses: condition 1; layers follow the steps of the pattern from the first.
    Measured, for the network of the page with n all-max layers for each step, and 2 n
    or more: the L^q distance in the first entry of row j, integrated over row k
    exactly, the least over 20 choices of the other rows.

    Args:
        pattern: of n tokens, which meets conditions 1 and 2.
        d, cells: features, K.
        j, k: two tokens.
        q: the exponent, at least 1.

    Returns:
        Verdict, by at_least.

    Raises:
        ValueError: for q < 1, tokens that are not there or equal, and as approximate.

    Claim: universal.hears-lp
    Page: notebooks/sparse_universality/the_proof_executed
    """
    _check_grid(pattern, d, cells)
    n = pattern.n
    _check_pair(n, j=j, k=k)
    wanted = least_mean(q)

    def copied(x: Tensor) -> Tensor:
        return x[:, [k if i == j else i for i in range(n)]]

    net = approximate(copied, n, d, cells, pattern, hops=n * max(2, pattern.p))
    x = points(n, d, 20).repeat_interleave(cells, 0)
    left = torch.arange(cells).repeat(20) / cells
    x[:, k, 0] = left + 0.5 / cells
    c = net(x)[:, j, 0]
    ends = torch.stack([left - c, left + 1 / cells - c])
    far = ends.abs().view(2, 20, cells).amax((0, 2)).clamp(min=1e-300)
    unit = ends.view(2, 20, cells) / far[:, None]  # powers of it do not all vanish
    primitive = unit.sign() * unit.abs() ** (q + 1)
    integrals = (primitive[1] - primitive[0]).sum(1) * far / (q + 1)
    least = float((far * integrals ** (1 / q)).min())
    return at_least(least, wanted * (1 - ROUNDING))


# --- without positions


def read_set(y: int, size: int) -> set[int]:
    """The set of rows behind the largest id of a sweep without positions.

    x_r = y mod N;   y_(r-1) = x_r + (y - x_r) / N;   down to a number below N
    """
    sizes(0, y=y)
    sizes(2, size=size)
    rows = set()
    while y >= size:
        x = y % size
        rows.add(x)
        y = x + (y - x) // size
    return rows | {y}


def sets_are_read() -> Verdict:
    """Three tokens, four cells: 28 ids, one for each set of at most three rows and each
    row in it; y_r gives the set. Two tokens, eight cells: the largest y_r is 399.

    Measured: how many sets are read wrongly, plus the differences of the counts.
    """
    mapping = equivariant_map(3, 1, 4)
    rows, y = swept(mapping)
    wrong = 0
    for row, ids in zip(rows.tolist(), y.tolist()):
        wrong += read_set(max(ids), 4) != set(row)
    wrong += abs(len(set(equivariant_ids(3, 1, 4).ravel())) - 28)
    wrong += abs(equivariant_map(2, 1, 8).top - 399)
    return at_most(wrong, 0)


UNORDERED = Case(unordered)


@claim(
    "universal.equivariant",
    cases=[
        UNORDERED,
        UNORDERED.but(cells=4, constant=4**4),
        UNORDERED.but(n=2, d=2, cells=3),
        UNORDERED.but(n=4, cells=3),
    ],
    controls=[UNORDERED.but(constant=584), UNORDERED.but(known="how often")],
    witness=sets_are_read,
)
def without_positions(
    n: int,
    d: int,
    cells: int,
    *,
    constant: int | None = None,
    known: str = "the set",
) -> Verdict:
    """Dense attention without positions, one sweep and one all-max layer: an id tells
    the set of the rows of its grid input and the row of its token.

    Hypotheses: C is above every id after the sweep.
    Measured, over all grid inputs: ids that stand for two such pairs, plus pairs with
    two ids.

    Args:
        n, d, cells: tokens, features, K.
        constant: C; None for the least.
        known: "how often" asks ids to tell as well how often each row occurs, which
            they do not.

    Returns:
        Verdict.

    Raises:
        ValueError: as equivariant_ids, and for another option.

    Claim: universal.equivariant
    Page: notebooks/sparse_universality/the_proof_executed
    """
    one_of(("the set", "how often"), known=known)
    _check_work(equivariant_map(n, d, cells, constant=constant))
    ids = equivariant_ids(n, d, cells, constant=constant)
    rows = grid_ids(equivariant_map(n, d, cells))
    pairs = {}
    for row, out in zip(rows.tolist(), ids.tolist()):
        company = tuple(sorted(row if known == "how often" else set(row)))
        for x, ident in zip(row, out):
            pairs.setdefault((company, x), set()).add(ident)
    twice = sum(len(found) - 1 for found in pairs.values())
    shared = len(pairs) - len(set().union(*pairs.values()))
    return at_most(twice + shared, 0)


def share_of_repeats(n: int, size: int) -> float:
    """The share of the cube where two of n rows lie in one of so many cells."""
    sizes(1, n=n, size=size)
    return 1 - math.prod(1 - i / size for i in range(n))


def birthdays() -> Verdict:
    """Three rows in four cells: 40 of 64 grid inputs repeat a row; 23 birthdays: 50.7
    per cent. Never more than binom(n, 2) / K^d.

    Measured: the largest difference, or what exceeds that bound.
    """
    off = [abs(share_of_repeats(3, 4) - 40 / 64)]
    off.append(abs(round(share_of_repeats(23, 365), 3) - 0.507))
    for n, size in ((2, 2), (3, 9), (5, 100)):
        off.append(share_of_repeats(n, size) - math.comb(n, 2) / size)
    return at_most(max(off), 1e-15)


ALIKE = Case(with_symmetric_target)


@claim(
    "universal.equivariant-lp",
    cases=[
        ALIKE,
        ALIKE.but(n=2, d=2, cells=3),
        ALIKE.but(scale=80.0),
    ],
    controls=[ALIKE.but(f=mixing), ALIKE.but(repeats=True)],
    witness=birthdays,
)
def equivariant_lp(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    cells: int,
    *,
    scale: float | int | None = None,
    ramp: float = 1e-3,
    repeats: bool = False,
) -> Verdict:
    """A dense network without positions gives an equivariant f at the centre of a cell,
    if the rows of x lie in different cells; elsewhere it stays within max |f|.

    So its L^q distance to f vanishes as K grows: the rest is a share of at most
    binom(n, 2) / K^d of the cube.

    Hypotheses: f is continuous and permutation-equivariant.
    Measured, on x and two other orders of its rows: the largest difference from f at
    the centres, where it applies, and by how much an output exceeds max |f|, both as
    shares of max |f|.

    Args:
        f: (M, n, d) -> (M, n, d), float64.
        x: (*batch, n, d) in [0, 1).
        cells: K, with K^d >= n.
        scale: None for hardmax and jumps; else the inverse temperature of softmax, with
            four ReLUs for a jump: then inputs on a ramp are left out, and an error of
            1 / 8K is allowed.
        ramp: of the quantiser, in cells.
        repeats: True asks for f at the centres on all inputs.

    Returns:
        Verdict.

    Raises:
        ValueError: for x outside [0, 1), K^d < n, if no input is left, and as
            approximate_equivariant.

    Claim: universal.equivariant-lp
    Page: notebooks/sparse_universality/the_proof_executed
    """
    sizes(2, cells=cells)
    numbers(ramp=ramp)
    require(0 < ramp <= 1, f"ramp must be positive and at most 1, got {ramp}")
    if scale is not None:
        numbers(scale=scale)
        require(0 < scale <= 1e200, "scale must be positive and at most 1e200")
    x = _check_points(x, None, 0, 1)
    _, n, d = x.shape
    x = torch.cat([x, x.flip(-2), x.roll(1, -2)])
    require(n >= 2, f"x must have two tokens or more, got {n}")
    net = approximate_equivariant(f, n, d, cells)
    centres = _centres(x, cells)
    wanted = _answers(f, centres)
    largest = float(net.values.abs().max())
    far = (centres[:, :, None] != centres[:, None]).any(-1)
    apart = torch.ones(len(x), dtype=torch.bool)
    if not repeats:
        apart &= far.sum((1, 2)) == n * (n - 1)
    y = net(x)
    allowed = ROUNDING
    if scale is not None:
        require(largest > 0, "f is zero at every centre: there is nothing to measure")
        sublayers = standard(net, ramp=ramp, clamp=largest)
        y = run_standard(x, sublayers, net.mapping, scale=scale)
        apart &= ((cells * x) % 1 < 1 - ramp).all(-1).all(-1)
        allowed += 1 / (8 * cells * largest)
    require(
        bool(apart.any()), "x: none of these inputs has its rows in different cells"
    )
    off = _share((y - wanted)[apart], wanted)
    above = max(0.0, float(y.abs().max()) / largest - 1) if largest else 0.0
    return at_most(max(off, above), allowed)


def counted_ids(rows: np.ndarray, size: int, base: int, order: str) -> Tensor:
    """Ids of inputs (M, n) after one look-up for each of the ids x, which writes M^x,
    in this order, and one head with all logits zero.
    """
    ids = torch.from_numpy(rows.astype(float))
    places = range(size) if order == "increasing" else range(size - 1, -1, -1)
    for x in places:
        ids = ids.masked_fill(ids == x, float(base) ** x)
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    scale = rows.shape[-1] * float(base) ** size
    head = Layer(w_q=0 * one, w_k=0 * one, w_v=one, w_o=scale * one)
    return forward(ids[..., None], [head], skip=True)[..., 0]


def counted_by_hand() -> Verdict:
    """Rows 0, 0, 2 in base 4: 1 + 1 + 16 = 18, and ids 18 * 64 plus 1, 1, 16; rows 1,
    1, 1: 12 * 64 + 4.

    Two tokens in two cells and base 3, in increasing order: 0 becomes 1, then 3, as 1
    does, and all ids are 6 * 9 + 3 = 57.

    Measured: the largest difference.
    """
    rows = np.array([[0, 0, 2], [1, 1, 1]])
    wanted = torch.tensor([[1153.0, 1153.0, 1168.0], [772.0, 772.0, 772.0]])
    off = counted_ids(rows, 3, 4, "decreasing") - wanted
    pairs = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    lost = counted_ids(pairs, 2, 3, "increasing") - 57
    return at_most(max(float(off.abs().max()), float(lost.abs().max())), 1e-9)


COUNTS = Case(unordered, {"n": 4, "d": 1, "cells": 3})


@claim(
    "universal.counting",
    cases=[COUNTS, COUNTS.but(n=2, cells=4), COUNTS.but(n=3, d=2, cells=2)],
    controls=[COUNTS.but(base=2), COUNTS.but(order="increasing")],
    witness=counted_by_hand,
)
def counting(
    n: int, d: int, cells: int, *, base: int | None = None, order: str = "decreasing"
) -> Verdict:
    """After look-ups x = N - 1, .., 0 that write M^x, one head with all logits zero
    tells every token its row and how often each row occurs.

        a_j = M^(x_j) + M^N sum_k M^(x_k)

    Hypotheses: M > n; dense attention, no positions.
    Measured, in float64: how far ids are from integers beyond 10^-3, ids that stand for
    two such pairs, and pairs with two ids.

    Args:
        n, d, cells: tokens, features, K.
        base: M; None for n + 1.
        order: of the look-ups; "increasing" meets rows that are done.

    Returns:
        Verdict.

    Raises:
        ValueError: for sizes out of range, another order, and where ids exceed 2^48.

    Claim: universal.counting
    Page: notebooks/sparse_universality/the_proof_executed
    """
    one_of(("decreasing", "increasing"), order=order)
    rows = grid_ids(equivariant_map(n, d, cells))
    size = cells**d
    M = n + 1 if base is None else base
    sizes(2, base=M)
    bits = math.log2(M) * (2 * size - 1) + math.log2(n + 1)
    require(bits <= 48, f"ids of {bits:.0f} bits: take fewer cells or tokens")
    ids = counted_ids(rows, size, M, order)
    off = float((ids - ids.round()).abs().max())
    pairs = {}
    for row, out in zip(rows.tolist(), ids.round().tolist()):
        for x, ident in zip(row, out):
            pairs.setdefault((tuple(sorted(row)), x), set()).add(ident)
    twice = sum(len(found) - 1 for found in pairs.values())
    shared = len(pairs) - len(set().union(*pairs.values()))
    return at_most(max(0.0, off - 1e-3) + twice + shared, 0)


# --- O(n) connections


def connections_by_hand() -> Verdict:
    """The star has 5 n - 6 connections and two hops; the directed cycle 2 n and n - 1.

    Measured: the largest difference, for n = 16 and 256.
    """
    off = []
    for n in (16, 256):
        off.append(abs(patterns.star(n).connections - (5 * n - 6)))
        off.append(abs(patterns.hops(patterns.star(n)) - 2))
        cycle = patterns.directed_cycle(n)
        off.append(abs(cycle.connections - 2 * n))
        off.append(abs(patterns.hops(cycle) - (n - 1)))
    return at_most(max(off), 0)


LINEAR = Case(in_a_box, {}, {"per_token": 2})


@claim(
    "universal.linear",
    cases=[
        LINEAR,
        LINEAR.but(family=patterns.star, per_token=5),
        LINEAR.but(n=3, cells=5, low=0.0, high=10.0),
    ],
    controls=[LINEAR.but(family=patterns.dense), LINEAR.but(hops=1)],
    witness=connections_by_hand,
)
def linear(
    family: Callable[[int], Pattern],
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    cells: int,
    low: float | int,
    high: float | int,
    slope: float | int,
    per_token: int = 5,
    hops: int | None = None,
) -> Verdict:
    """With O(n) connections a layer, a network comes within omega_f(r) of every
    continuous f on a compact set, where r is half a cell.

    Hypotheses: the set lies in a box [low, high), f is continued to the box, and the
    pattern meets conditions 1 to 3.
    Measured: the larger of the error over slope (high - low) / 2K and of the
    connections over c n, the latter for the n of x, for 64 and for 1024 tokens.

    Args:
        family: n -> Pattern.
        f: (M, n, d) -> (M, n, d), float64.
        x: (*batch, n, d) in [low, high).
        cells: K, cells to an edge of the box.
        low, high: edges of the box.
        slope: of f, in the largest entry.
        per_token: c.
        hops: s; None for the true one.

    Returns:
        Verdict.

    Raises:
        ValueError: for x outside the box, a family that returns no pattern of n tokens,
            and as approximate.

    Claim: universal.linear
    Page: notebooks/sparse_universality/the_proof_executed
    """
    is_a(Callable, family=family, f=f)
    sizes(2, cells=cells)
    sizes(1, per_token=per_token)
    numbers(low=low, high=high, slope=slope)
    reach = max(abs(low), abs(high), slope)
    require(reach <= 1e200, "low, high and slope must be at most 1e200")
    low = float(low)
    high = float(high)
    require(low < high, f"low must be below high, got {low} and {high}")
    require(slope > 0, f"slope must be positive, got {slope}")
    x = _check_points(x, None, low, high)
    _, n, d = x.shape
    shares = []
    for m in (n, 64, 1024):
        pattern = family(m)
        right = isinstance(pattern, Pattern) and pattern.n == m
        require(right, f"family({m}) must be a Pattern of {m} tokens, got {pattern!r}")
        shares.append(pattern.connections / (per_token * m))
    width = high - low

    def moved(u: Tensor) -> Tensor:
        return f(low + width * u)

    unit = ((x - low) / width).clamp(max=1 - 2**-53)
    net = approximate(moved, n, d, cells, family(n), hops=hops)
    error = float((net(unit) - _answers(f, x)).abs().max())
    return at_most(max(*shares, error * 2 * cells / (slope * width)), 1)
