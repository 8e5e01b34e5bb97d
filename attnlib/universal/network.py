"""The assembled network for a target f that the caller gives, in exact integers.

    quantise:   Z <- Z - e_r (z_r - k) where 0 <= z_r - k < 1
    attention:  the contextual map, of context: id = u . z tells the input and the token
    value:      Z <- Z + (K A - z) where -1/2 <= u . Z - id < 1/2,   A of f at a centre
    clamp:      without positions, z_r into [-K max|f|, K max|f|]

`run` visits layer after layer; calling the network looks its ids up.

Page: notebooks/sparse_universality/the_proof_executed
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import chain, combinations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnlib._require import finite, is_a, is_floating, is_tensor, one_of, require
from attnlib.patterns import Pattern
from attnlib.universal.context import (
    ContextualMap,
    _all_rows,
    _last_ids,
    _positions,
    contextual_map,
    equivariant_map,
    schedule,
)

LAYERS = 10**6  # value layers that are built
ORDERS = ("grid", "increasing", "decreasing")  # of the value layers


@dataclass(frozen=True, eq=False)
class UniversalNetwork:
    """A universality network: callable on (*batch, n, d) in [0, 1).

    Args:
        mapping: integers of the contextual map.
        start: (M, n) ids of the M = K^(n d) grid inputs before the first attention
            layer; without positions one input for each set of n distinct rows.
        ids: (M, n) after the last.
        values: (M, n, d), the target at the centres of the cells.

    Source: Yun et al. 2020b, recalled; hardmax and jumps, no softmax.
    """

    mapping: ContextualMap
    start: np.ndarray
    ids: np.ndarray
    values: Tensor

    @property
    def layers(self) -> dict[str, int]:
        """How many layers there are of each kind."""
        p = self.mapping
        counts = {
            "quantise": p.d * p.levels,
            "attention": p.layers,
            "value": self.ids.size,
        }
        if not p.path:
            counts["clamp"] = p.d
        return counts

    @property
    def bits(self) -> int:
        """Bits of the largest id that occurs."""
        return int(self.ids.max()).bit_length()

    def __call__(self, x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
        """The output, of the dtype of the values; the same as the last state of run.

        Claim: universal.network
        """
        p = self.mapping
        _inside(x, p)
        rows = _cells(x, p.cells).cpu().numpy().reshape(-1, p.n, p.d)
        start = (rows @ _powers(p) + _positions(p)).astype(self.start.dtype)
        ids = _last_ids(start, p).ravel()
        known = self.ids.ravel().tolist()
        place = dict(zip(reversed(known), reversed(range(len(known)))))
        at = np.array([place.get(ident, -1) for ident in ids.tolist()], dtype=int)
        values = self.values.flatten(0, 1)
        out = values[torch.from_numpy(at).to(values.device)]
        missed = at < 0
        if missed.any():
            assert not p.path, "an id that no grid input has"
            left = rows.reshape(-1, p.d)[missed].astype(object)
            left[:, 0] += (ids - start.ravel())[missed]
            largest = float(values.detach().abs().max())
            left = np.clip(left / p.cells, -largest, largest).astype(float)
            out[torch.from_numpy(missed)] = torch.from_numpy(left).to(out)
        return out.reshape(x.shape).to(x.device)


def approximate(
    f: Callable[[Tensor], Tensor],
    n: int,
    d: int,
    cells: int,
    pattern: Pattern,
    **options,
) -> UniversalNetwork:
    """A network whose output on [0, 1)^(n x d) is f at the centre of the cell that x
    lies in.

        sup |network - f| <= omega_f(1 / (2 K))

    with the modulus of continuity in the largest entry.

    Args:
        f: (M, n, d) float64 -> (M, n, d), continuous for the bound to say something.
            Where it is so large that it would meet an id, C is raised.
        n, d, cells: n >= 2 tokens, d features, K cells to an edge.
        options: path, hops, constant of contextual_map, for experiments.

    Source: Yun et al. 2020b, recalled.
    Claim: universal.network
    """
    is_a(Callable, f=f)
    mapping = contextual_map(pattern, n, d, cells, **options)
    _check_count(mapping, mapping.n * mapping.size**mapping.n)
    return _assembled(f, mapping, _all_rows(mapping.n, mapping.size))


def approximate_equivariant(
    f: Callable[[Tensor], Tensor], n: int, d: int, cells: int
) -> UniversalNetwork:
    """A dense network without positions: on inputs whose n rows lie in n different
    cells its output is f at the centre of the cell that x lies in.

        |network - f| <= omega_f(1 / (2 K))   but for 1 - prod_(i<n) (1 - i / K^d)
        of the cube, where |network| <= max |f|

    Args:
        f: (M, n, d) float64 -> (M, n, d), permutation-equivariant: it is asked for one
            order of each set of rows.
        n, d, cells: n >= 2 tokens, d features, K cells to an edge, K^d >= n. Inputs
            with two rows in one cell get other outputs of f, or what is left of their
            ids after clamps at the largest output.

    Source: Yun et al. 2020a, recalled; differs: the clamps are ours.
    Claim: universal.equivariant-lp
    """
    is_a(Callable, f=f)
    mapping = equivariant_map(n, d, cells)
    n = mapping.n
    size = mapping.size
    require(
        size >= n,
        f"cells gives {size} cells for n = {n} rows: without positions the rows of an "
        "input must lie in different cells; take cells^d >= n",
    )
    count = n * math.comb(size, n)
    _check_count(mapping, count)
    sets = chain.from_iterable(combinations(range(size), n))
    return _assembled(f, mapping, np.fromiter(sets, int, count).reshape(-1, n))


def _check_count(mapping: ContextualMap, count: int) -> None:
    """So many value layers can be built."""
    require(
        count <= LAYERS,
        f"this network has {mapping.d * mapping.levels} quantising, {mapping.layers} "
        f"attention and {Decimal(count):.3g} value layers: more than {LAYERS} cannot "
        "be built",
    )


def _assembled(
    f: Callable[[Tensor], Tensor], mapping: ContextualMap, own: np.ndarray
) -> UniversalNetwork:
    """The network that knows these inputs: (M, n) cells of the rows, as u . z."""
    start = own + _positions(mapping)
    centres = torch.from_numpy((_digits(own, mapping) + 0.5) / mapping.cells)
    values = f(centres)
    shape = (*own.shape, mapping.d)
    got = tuple(values.shape) if torch.is_tensor(values) else type(values).__name__
    require(got == shape, f"f must return a tensor of shape {shape}, got {got}")
    is_floating("f at some centre", values)
    finite(**{"f at some centre": values})
    largest = float(values.detach().abs().max())
    require(largest <= 1e200, f"f must stay below 1e200, got {largest:.3g}")
    above = int(largest * mapping.base) + 2  # above |u . A| + 1/2
    constant = mapping.constant
    while constant**mapping.hops < above:
        constant *= 2
    mapping = replace(mapping, constant=constant)
    start = start.astype(np.int64 if mapping.bits <= 62 else object)
    return UniversalNetwork(mapping, start, _last_ids(start, mapping), values)


def _digits(own: np.ndarray, mapping: ContextualMap) -> np.ndarray:
    """The rows (*batch, n, d) with these ids u . z, without codes."""
    return own[..., None] // _powers(mapping) % mapping.cells


def value_layers(
    network: UniversalNetwork, order: str = "grid"
) -> Iterator[tuple[int, list[int], Tensor]]:
    """The value layers one after another: the id each waits for, the token's row there,
    and the row it writes.

        Z <- Z + (K A - z) psi(u . Z - id),   psi = 1 on [-1/2, 1/2), else 0

    Args:
        order: "grid", "increasing" or "decreasing" (of the ids).

    Source: Yun et al. 2020b, recalled; the order does not matter in exact arithmetic.
    Claim: universal.network
    """
    is_a(UniversalNetwork, network=network)
    one_of(ORDERS, order=order)
    p = network.mapping
    ids = network.ids.ravel()
    moved = ids - network.start.ravel()
    codes = np.array(p.codes)
    own = (network.start - _positions(p)).astype(int)
    rows = (_digits(own, p) + p.cells * codes[:, None]).reshape(-1, p.d)
    targets = network.values.flatten(0, 1)
    places = np.arange(ids.size) if order == "grid" else np.argsort(ids, kind="stable")
    if order == "decreasing":
        places = places[::-1]
    for i in places:
        row = [int(v) for v in rows[i]]
        row[0] += int(moved[i])  # the attention layers write the first feature
        yield int(ids[i]), row, targets[i]


def run(
    network: UniversalNetwork, x: Float[Tensor, "*batch n d"], order: str = "grid"
) -> Iterator[tuple[str, np.ndarray]]:
    """The literal network: every layer on every token in fractions, hardmax by its
    scores, jumps as they stand.

    Yields (kind, Z) after each layer, Z (*batch, n, d) of Fractions in units of a cell;
    the output is the last / K.

    Args:
        x: entries in [0, 1); fractions are made on the CPU.
        order: of the value layers, as there.

    Source: Yun et al. 2020b, recalled.
    Claim: universal.network
    """
    is_a(UniversalNetwork, network=network)
    one_of(ORDERS, order=order)
    p = network.mapping
    _inside(x, p)
    codes = np.array(p.codes, dtype=object)
    z = p.cells * (_fractions(x) + codes[:, None])
    u = np.array([p.cells**i for i in range(p.d)], dtype=object)
    for r in range(p.d):
        for k in range(p.levels):
            z = z.copy()
            t = z[..., r] - k
            inside = (t >= 0) & (t < 1)
            z[..., r] -= np.where(inside, t, 0)
            yield "quantise", z
    for shift in schedule(p):
        z = z.copy()
        if shift.factor:
            a = z @ u
            mask = p.masks[shift.step]
            move = _literal_head(a, mask, shift.value)
            if not shift.every:
                move = move - _literal_head(a, mask, shift.value + 1)
            z[..., 0] += shift.factor * move
        yield "attention", z
    half = Fraction(1, 2)
    for ident, row, target in value_layers(network, order):
        t = z @ u - ident
        hit = (t >= -half) & (t < half)
        step = p.cells * _fractions(target) - np.array(row, dtype=object)
        z = np.where(hit[..., None], z + step, z)
        yield "value", z
    if not p.path:
        bound = p.cells * Fraction(float(network.values.detach().abs().max()))
        for r in range(p.d):
            z = z.copy()
            z[..., r] = np.clip(z[..., r], -bound, bound)
            yield "clamp", z


def _fractions(x: Tensor) -> np.ndarray:
    """The entries as Fractions, exactly."""
    exact = np.vectorize(Fraction, otypes=[object])
    return exact(x.detach().cpu().double().numpy())


def _literal_head(a: np.ndarray, mask: np.ndarray, value: int) -> np.ndarray:
    """sum_k hardmax_k(a_k (a_j - b)) a_k over the tokens that j reads, b = value - 1/2,
    uniform over ties.
    """
    b = Fraction(2 * value - 1, 2)
    out = np.empty_like(a)
    for j in range(a.shape[-1]):
        keys = a[..., mask[j]]
        query = a[..., j : j + 1] - b
        scores = keys * query
        best = scores == scores.max(-1, keepdims=True)
        total = (best * keys).sum(-1)
        ties = best.sum(-1) * Fraction(1)  # a Fraction, so that nothing is rounded
        out[..., j] = total / ties
    return out


def _powers(mapping: ContextualMap) -> np.ndarray:
    """u = (1, K, .., K^(d-1))."""
    return mapping.cells ** np.arange(mapping.d)


def _cells(x: Tensor, cells: int) -> Tensor:
    """floor(K x) exactly: K x rounds, so x is compared with the smallest floats that
    are at least k / K.
    """
    edges = []
    for k in range(cells):
        edge = k / cells
        if Fraction(edge) < Fraction(k, cells):
            edge = math.nextafter(edge, 1)
        edges.append(edge)
    edges = torch.tensor(edges, dtype=torch.float64, device=x.device)
    return torch.searchsorted(edges, x.double().contiguous(), right=True) - 1


def _inside(x: Tensor, mapping: ContextualMap, *, anywhere: bool = False) -> None:
    is_tensor("x", x)
    size = (mapping.n, mapping.d)
    got = tuple(x.shape)
    require(
        got[-2:] == size,
        f"x must be (*batch, {mapping.n}, {mapping.d}), got {got}",
    )
    require(
        x.is_floating_point(), f"x must be floating point, got {x.dtype}: cast it first"
    )
    finite(x=x)
    if not (anywhere or ((x >= 0) & (x < 1)).all()):
        raise ValueError(
            f"x must lie in [0, 1), got entries from {x.min()} to {x.max()}"
        )
