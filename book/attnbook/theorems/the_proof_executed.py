"""The claims of the page `The universality proof, executed`. Everywhere d is the number
of features and `cells` is K, cells to an edge; a pattern meets the conditions of its
claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
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

exactly = np.vectorize(Fraction, otypes=[object])

# --- objects: patterns by name, targets, points


def named(name: str, n: int) -> Pattern:
    """A pattern of the page by its name."""
    if name == "window":
        return patterns.window(n, 3)
    if name == "closed":
        return patterns.fixed(n, 2, closed=True)
    if name == "cycle":
        return patterns.directed_cycle(n)
    one_of(("dense", "star", "strided", "fixed"), name=name)
    return getattr(patterns, name)(n)


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


def inputs(n=2, d=1, cells=2) -> dict:
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


def with_symmetric_target(
    n=3, d=1, cells=4, count=60, f=symmetric, far: float | None = None
) -> dict:
    """A target, inputs and a number of cells, without positions; far: also inputs whose
    last entry lies there, with all others as they were, and on a ramp.
    """
    x = points(n, d, count)
    objects = {"f": f, "x": x, "cells": cells}
    if far is None:
        return objects
    outside = torch.cat([x, torch.full_like(x, -1e-4 / cells)])
    outside[:, -1, -1] = far
    return objects | {"outside": outside}


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


def _check_points(x: Tensor, n: int | None, low: float, high: float) -> Tensor:
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


QUANTISE = Case(inputs)


@claim(
    "universal.quantise",
    cases=[QUANTISE, QUANTISE.but(n=3), QUANTISE.but(d=2, cells=3)],
    broken={"a layer missing": {"_missing": 2}},
)
def quantise(x: Tensor, cells: int, *, _missing=None) -> Verdict:
    """Layers that each take z - k off the entries in [k, k + 1) round all of them down.

    Measured, in fractions: the largest distance from the integer part, after the layers
    of the network and after the same layers written once more.

    Args:
        x: (*batch, n, d) in [0, 1); K x and codes of 0 to n - 1 make the entries.

    Claim: universal.quantise
    Page: notebooks/sparse_universality/the_proof_executed
    """
    sizes(2, cells=cells)
    x = _check_points(x, None, 0, 1)
    _, n, d = x.shape
    net = approximate(torch.zeros_like, n, d, cells, patterns.dense(n))
    codes = np.array(net.mapping.codes, dtype=object)
    start = cells * (exactly(x.numpy()) + codes[:, None])
    wanted = np.vectorize(math.floor, otypes=[object])(start)
    z = start
    for k in range(n * cells):
        inside = (z >= k) & (z < k + 1)
        if k != _missing:
            z = np.where(inside, k, z)
    built = start
    for kind, state in run(net, x):
        if kind != "quantise":
            break
        built = state
    off = [abs(z - wanted).max(), abs(built - wanted).max()]
    return at_most(float(max(off)), 0)


SHIFT = Case(four_ids)


@claim(
    "universal.shift",
    cases=[
        SHIFT,
        SHIFT.but(value=0),
        SHIFT.but(value=10),
        SHIFT.but(ids=(11, 5, 5, 0), value=5),
    ],
    broken={"it looks for the next id": {"_further": 1}},
)
def selective_shift(
    ids: np.ndarray, pattern: Pattern, value: int, *, cells: int = 3, _further=0
) -> Verdict:
    """Two heads with the biases v - 1/2 and v + 1/2 move exactly the tokens with id v.

    Measured: the largest difference, token by token, from N times the largest less the
    smallest id that it reads in step 1, or 0.

    Args:
        ids: (*batch, n) integers.
        value: v >= 0.
        cells: N = K, for one feature.

    Claim: universal.shift
    Page: notebooks/sparse_universality/the_proof_executed
    """
    is_a(np.ndarray, ids=ids)
    is_a(Pattern, pattern=pattern)
    sizes(0, value=value)
    require(ids.size, f"ids must not be empty, got {ids.shape}")
    if ids.dtype == object:
        strange = [a for a in ids.flat if not isinstance(a, Integral)]
        require(not strange, f"ids must be integers, got {strange[:3]}")
    mapping = contextual_map(pattern, pattern.n, 1, cells)
    layer = Shift(0, value + _further, mapping.size)
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
    broken={"factor 2": {"_factor": 2}},
)
def sweep(pattern: Pattern, d: int, cells: int, *, _factor=None) -> Verdict:
    """The sweep gives y_i = N y_(i-1) - (N - 1) x_i along the path, and they increase.

    Measured over all grid inputs: the largest difference from the recursion, by how
    much a y_i does not exceed the one before, m from the largest y_n, and m + 1 beyond
    2 n N^n; the largest of these.

    Claim: universal.sweep
    Page: notebooks/sparse_universality/the_proof_executed
    """
    _check_grid(pattern, d, cells)
    mapping = contextual_map(pattern, pattern.n, d, cells)
    x, ids = swept(mapping, _factor)
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


@claim("universal.residues", cases=GRIDS, broken={"modulo 4": {"_modulus": 4}})
def residues(pattern: Pattern, d: int, cells: int, *, _modulus=None) -> Verdict:
    """The last y_n of the sweep determines the whole grid input.

        x_i = y_i mod N, in its interval;   y_(i-1) = x_i + (y_i - x_i) / N

    Measured: how many inputs are not read back from y_n alone, or by decode from the id
    of each of their tokens.

    Claim: universal.residues
    Page: notebooks/sparse_universality/the_proof_executed
    """
    _check_grid(pattern, d, cells)
    n = pattern.n
    mapping = contextual_map(pattern, n, d, cells)
    N = _modulus or mapping.size
    x, y = swept(mapping)
    ids = context_ids(pattern, n, d, cells)
    wrong = 0
    for row, after, told in zip(x.tolist(), y.tolist(), ids.tolist()):
        last = after[mapping.path[-1]]
        back = {}
        for token in reversed(mapping.path):
            low = mapping.codes[token] * mapping.base
            back[token] = low + (last - low) % N
            last = back[token] + (last - back[token]) // N
        right = [back[j] for j in range(n)] == row
        wrong += not (right and all(_reads(told, j, row, mapping) for j in range(n)))
    return at_most(wrong, 0)


def _reads(told: list[int], j: int, row: list[int], mapping: ContextualMap) -> bool:
    """Whether decode finds token and input behind an id."""
    try:
        return decode(told[j], mapping) == (j, row)
    except ValueError:  # it takes the id for none
        return False


@claim(
    "universal.context",
    cases=[WINDOW, *GRIDS, WINDOW.but(constant=5000)],
    controls=[WINDOW.but(constant=29)],
    broken={"one hop too few": {"_hops": 1}},
)
def contextual(
    pattern: Pattern, d: int, cells: int, *, constant: int | None = None, _hops=None
) -> Verdict:
    """If C is large enough, all ids of all grid inputs are distinct, and tell y_n.

    Measured: how many ids repeat, plus how many have another quotient by C^s than y_n.

    Args:
        constant: C; None for the least that (13.5) allows.

    Claim: universal.context
    Page: notebooks/sparse_universality/the_proof_executed
    """
    _check_grid(pattern, d, cells)
    n = pattern.n
    how = {"constant": constant, "hops": _hops}
    mapping = contextual_map(pattern, n, d, cells, **how)
    _check_work(mapping)
    ids = context_ids(pattern, n, d, cells, **how)
    _, y = swept(mapping)
    repeats = ids.size - len(set(ids.ravel()))
    others = ids // mapping.constant**mapping.hops != y[:, mapping.path[-1:]]
    return at_most(repeats + int(others.sum()), 0)


STRIDED = Case(grid, {"name": "strided", "n": 4, "cells": 3})


@claim("universal.layers", cases=[STRIDED, *GRIDS], broken={"p = 1": {"_period": 1}})
def layers_and_bits(pattern: Pattern, d: int, cells: int, *, _period=None) -> Verdict:
    """The contextual map takes p (n - 1) K^d + s attention layers, and few bits.

    Measured: layers counted one by one less the formula, plus bits of the largest id
    beyond (s + 1) log2(2 n N^n) + s log2(2 s) + 1.

    Claim: universal.layers
    Page: notebooks/sparse_universality/the_proof_executed
    """
    _check_grid(pattern, d, cells)
    n = pattern.n
    mapping = contextual_map(pattern, n, d, cells)
    _check_work(mapping)
    s = mapping.hops
    p = _period or mapping.period
    counted = sum(1 for _ in schedule(mapping))
    off = abs(counted - (p * (n - 1) * cells**d + s))
    bits = int(context_ids(pattern, n, d, cells).max()).bit_length()
    bound = (s + 1) * math.log2(2 * n * cells ** (n * d)) + s * math.log2(2 * s) + 1
    return at_most(off + max(0.0, bits - bound), 0)


VALUES = Case(grid, {"name": "dense", "n": 2, "cells": 2})


@claim(
    "universal.values",
    cases=[
        VALUES,
        VALUES.but(order="increasing"),
        VALUES.but(order="decreasing"),
        VALUES.but(d=2),
    ],
    broken={"a row that is an id": {"_gap": False}},
)
def value_map(
    pattern: Pattern, d: int, cells: int, *, order: str = "grid", _gap=True
) -> Verdict:
    """If no row that is wanted comes near an id, n K^(nd) layers in any order write it.

    Measured, in fractions: the largest difference from the wanted rows, in cells, over
    all grid inputs.

    Args:
        order: "grid", "increasing" or "decreasing" in the ids.

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
    if not _gap:
        values[0, 0] = 0
        values[0, 0, 0] = int(net.ids[-1, 0]) / cells
    net = replace(net, values=values)
    x = (_grid_points(net.start, net.mapping) + 0.5) / cells
    *_, (_, last) = run(net, x, order)
    return at_most(float(abs(last - exactly(values.numpy()) * cells).max()), 0)


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


NETWORK = Case(with_target)


@claim(
    "universal.network",
    cases=[
        NETWORK,
        NETWORK.but(name="star", n=4, cells=3),
        NETWORK.but(name="fixed", n=4, cells=3),
        NETWORK.but(name="strided", d=2, cells=2),
    ],
    broken={"one hop too few": {"_hops": 1}, "C too small": {"_constant": 29}},
)
def network(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    pattern: Pattern,
    cells: int,
    *,
    _hops=None,
    _constant=None,
) -> Verdict:
    """The network gives f at the centre of the cell that x lies in; so it is within
    omega_f(1 / 2K) of f.

    Measured: the largest difference from f at the centres, as a share of the largest
    value there.

    Args:
        f: (M, n, d) -> (M, n, d), float64.
        x: (*batch, n, d) in [0, 1).

    Claim: universal.network
    Page: notebooks/sparse_universality/the_proof_executed
    """
    is_a(Pattern, pattern=pattern)
    sizes(2, cells=cells)
    x = _check_points(x, pattern.n, 0, 1)
    how = {"hops": _hops, "constant": _constant}
    net = approximate(f, pattern.n, x.shape[-1], cells, pattern, **how)
    wanted = _answers(f, _centres(x, cells))
    return at_most(_share(net(x) - wanted, wanted), ROUNDING)


def _centres(x: Tensor, cells: int) -> Tensor:
    """The centres of the cells that these points lie in, exactly."""
    cell = np.zeros(x.shape)
    exact = exactly(x.numpy())
    for k in range(1, cells):
        cell += (exact >= Fraction(k, cells)).astype(float)
    return torch.from_numpy((cell + 0.5) / cells)


# --- who must hear


HEARS = Case(random_network)


@claim(
    "universal.hears",
    cases=[HEARS, HEARS.but(j=1), HEARS.but(n=5, j=1, k=4)],
    controls=[HEARS.but(name="closed")],
)
def hears(
    x: Tensor, layers: Sequence[Layer], pattern: Pattern, *, j: int, k: int
) -> Verdict:
    """If token j never hears from token k, its output never depends on row k.

    Measured: by how much the output of j changes when row k alone does, from its
    values to three times them, to zero and to its negative.

    Args:
        x: (n, d).
        layers: Layers, with a skip each; any weights and biases. Layer t is masked by
            step t of the pattern, from the first.

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


def least_mean(q: float) -> float:
    """The smallest (int_0^1 |x - c|^q dx)^(1/q) over all c: half of (q + 1)^(-1/q)."""
    numbers(q=q)
    require(q >= 1, f"q must be at least 1, got {q}")
    require(q <= 1e200, "q must be at most 1e200")
    return (q + 1) ** (-1 / q) / 2


MEAN = Case(grid, {"name": "fixed", "n": 3, "cells": 4}, {"j": 0, "k": 2, "q": 1.0})


@claim(
    "universal.hears-lp",
    cases=[MEAN, MEAN.but(q=2.0), MEAN.but(q=4.0), MEAN.but(j=1)],
    controls=[MEAN.but(name="closed")],
)
def misses_in_the_mean(
    pattern: Pattern, d: int, cells: int, *, j: int, k: int, q: float = 1.0
) -> Verdict:
    """If token j never hears from token k, every network with the pattern misses
    f(X)_j = X_k in L^q.

    Measured, for the network of the page with n all-max layers for each step, and 2 n
    or more: the L^q distance in the first entry of row j, integrated over row k
    exactly, the least over 20 choices of the other rows; at least (q + 1)^(-1/q) / 2.

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


def confused(
    rows: np.ndarray, ids: np.ndarray | Tensor, known: Callable[[list], Collection]
) -> int:
    """Ids that stand for two pairs (what is known of the rows, own row), plus pairs
    with two ids.
    """
    pairs = {}
    for row, out in zip(rows.tolist(), ids.tolist()):
        company = tuple(sorted(known(row)))
        for x, ident in zip(row, out):
            pairs.setdefault((company, x), set()).add(ident)
    twice = sum(len(found) - 1 for found in pairs.values())
    shared = len(pairs) - len(set().union(*pairs.values()))
    return twice + shared


UNORDERED = Case(unordered)


@claim(
    "universal.equivariant",
    cases=[
        UNORDERED,
        UNORDERED.but(cells=4, constant=4**4),
        UNORDERED.but(n=2, d=2, cells=3),
        UNORDERED.but(n=4, cells=3),
    ],
    controls=[UNORDERED.but(constant=584)],
    broken={"how often a row occurs": {"_known": list}},
)
def without_positions(
    n: int, d: int, cells: int, *, constant: int | None = None, _known=set
) -> Verdict:
    """Without positions an id tells the set of the rows and the row of its token.

    Measured, over all grid inputs: ids that stand for two such pairs, plus pairs with
    two ids, plus how far the largest id after the sweep is from the one that the
    library takes for the least C.

    Args:
        constant: C; None for the least.

    Claim: universal.equivariant
    Page: notebooks/sparse_universality/the_proof_executed
    """
    mapping = equivariant_map(n, d, cells, constant=constant)
    _check_work(mapping)
    ids = equivariant_ids(n, d, cells, constant=constant)
    rows, y = swept(mapping)
    off = abs(int(y.max()) - mapping.top)
    return at_most(confused(rows, ids, _known) + off, 0)


def share_of_repeats(n: int, size: int) -> float:
    """The share of the cube where two of n rows lie in one of so many cells."""
    sizes(1, n=n, size=size)
    return 1 - math.prod(1 - i / size for i in range(n))


ALIKE = Case(with_symmetric_target)


@claim(
    "universal.equivariant-lp",
    cases=[
        ALIKE,
        ALIKE.but(n=2, d=2, cells=3),
        ALIKE.but(scale=80.0),
        ALIKE.but(far=1.0),
        ALIKE.but(far=-0.001, scale=80.0),
        ALIKE.but(n=2, d=2, cells=3, far=1e6),
    ],
    controls=[ALIKE.but(f=mixing), ALIKE.but(far=0.4)],
    broken={"all inputs": {"_repeats": True}},
)
def equivariant_lp(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    cells: int,
    *,
    outside: Tensor | None = None,
    scale: float | None = None,
    ramp: float = 1e-3,
    _repeats=False,
) -> Verdict:
    """A dense network without positions gives an equivariant f at the centre of a cell,
    if the rows of x lie in different cells; elsewhere it stays within max |f|.

    Measured, on x and two other orders of its rows: the largest difference from f at
    the centres, where it applies, by how much an output exceeds max |f|, and the
    largest output outside the cube, all as shares of max |f|.

    Args:
        f: (M, n, d) -> (M, n, d), float64.
        x: (*batch, n, d) in [0, 1).
        cells: K, with K^d >= n.
        outside: (M, n, d) with an entry below -ramp / K or not below 1; then the
            network has the layers that make it 0 there.
        scale: None for hardmax and jumps; else the inverse temperature of softmax, with
            four ReLUs for a jump: then inputs on a ramp are left out, and an error of
            1 / 8K is allowed.
        ramp: of the quantiser, in cells.

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
    if not _repeats:
        apart &= far.sum((1, 2)) == n * (n - 1)
    y = net(x)
    beyond = 0.0
    allowed = ROUNDING
    if scale is not None or outside is not None:
        require(largest > 0, "f is zero at every centre: there is nothing to measure")
        everywhere = outside is not None
        sublayers = standard(net, ramp=ramp, clamp=largest, support=everywhere)
        y = run_standard(x, sublayers, net.mapping, scale=scale)
        apart &= ((cells * x) % 1 < 1 - ramp).all(-1).all(-1)
        if everywhere:
            zero = run_standard(outside, sublayers, net.mapping, scale=scale)
            beyond = float(zero.abs().max()) / largest
            # Zero as a difference of numbers as large as the ids that arise there.
            p = net.mapping
            grown = p.constant * (p.top + 3) * p.base * p.size**n
            allowed += 4 * torch.finfo(torch.float64).eps * grown
        if scale is not None:
            allowed += 1 / (8 * cells * largest)
    require(
        bool(apart.any()), "x: none of these inputs has its rows in different cells"
    )
    off = _share((y - wanted)[apart], wanted)
    above = max(0.0, float(y.abs().max()) / largest - 1) if largest else 0.0
    return at_most(max(off, above, beyond), allowed)


def counted_ids(rows: np.ndarray, size: int, base: int, *, increasing=False) -> Tensor:
    """Ids of inputs (M, n) after one look-up for each of the ids x, from the largest
    on, which writes M^x, and one head with all logits zero.
    """
    ids = torch.from_numpy(rows.astype(float))
    for x in sorted(range(size), reverse=not increasing):
        ids = ids.masked_fill(ids == x, float(base) ** x)
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    scale = rows.shape[-1] * float(base) ** size
    head = Layer(w_q=0 * one, w_k=0 * one, w_v=one, w_o=scale * one)
    return forward(ids[..., None], [head], skip=True)[..., 0]


COUNTS = Case(unordered, {"n": 4, "d": 1, "cells": 3})


@claim(
    "universal.counting",
    cases=[COUNTS, COUNTS.but(n=2, cells=4), COUNTS.but(n=3, d=2, cells=2)],
    controls=[COUNTS.but(base=2)],
    broken={"in increasing order": {"_increasing": True}},
)
def counting(
    n: int, d: int, cells: int, *, base: int | None = None, _increasing=False
) -> Verdict:
    """One head with all logits zero tells every token its row and how often each row
    occurs.

        a_j = M^(x_j) + M^N sum_k M^(x_k)

    Measured, in float64: how far ids are from integers beyond 10^-3, ids that stand for
    two such pairs, and pairs with two ids.

    Args:
        base: M; None for n + 1.

    Claim: universal.counting
    Page: notebooks/sparse_universality/the_proof_executed
    """
    rows = grid_ids(equivariant_map(n, d, cells))
    size = cells**d
    M = n + 1 if base is None else base
    sizes(2, base=M)
    bits = math.log2(M) * (2 * size - 1) + math.log2(n + 1)
    require(bits <= 48, f"ids of {bits:.0f} bits: take fewer cells or tokens")
    ids = counted_ids(rows, size, M, increasing=_increasing)
    off = float((ids - ids.round()).abs().max())
    return at_most(max(0.0, off - 1e-3) + confused(rows, ids.round(), list), 0)


# --- O(n) connections


LINEAR = Case(in_a_box, {}, {"per_token": 2})


@claim(
    "universal.linear",
    cases=[
        LINEAR,
        LINEAR.but(family=patterns.star, per_token=5),
        LINEAR.but(n=3, cells=5, low=0.0, high=10.0),
    ],
    controls=[LINEAR.but(family=patterns.dense)],
    broken={"one hop": {"_hops": 1}},
)
def linear(
    family: Callable[[int], Pattern],
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    cells: int,
    low: float,
    high: float,
    slope: float,
    per_token: int = 5,
    _hops=None,
) -> Verdict:
    """With O(n) connections a layer, a network comes near every continuous f on a
    compact set.

    Measured: the larger of the error over slope (high - low) / 2K and of the
    connections over c n, the latter for the n of x, for 64 and for 1024 tokens.

    Args:
        family: n -> Pattern.
        f: (M, n, d) -> (M, n, d), float64, on a box around the set.
        x: (*batch, n, d) in [low, high), the box.
        slope: of f, in the largest entry.
        per_token: c.

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
    net = approximate(moved, n, d, cells, family(n), hops=_hops)
    error = float((net(unit) - _answers(f, x)).abs().max())
    return at_most(max(*shares, error * 2 * cells / (slope * width)), 1)
