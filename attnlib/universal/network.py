"""The assembled network: quantiser, contextual map and value map for a target that the
caller gives, in exact integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnlib._require import finite, require
from attnlib.patterns import Pattern
from attnlib.universal.context import Plan, _last_ids, grid_ids, plan, schedule

LAYERS = 10**6  # value layers that are built


class Network(NamedTuple):
    """A universality network: callable on (*batch, n, d) in [0, 1).

    Args:
        plan: integers of the contextual map.
        start: (M, n) ids of the M = K^(n d) grid inputs before the first attention
            layer.
        ids: (M, n) after the last.
        values: (M, n, d), the target at the centres of the cells.
        layers: counts by kind.
        bits: of the largest id.

    Source:
        Yun et al. 2020b, recalled; hardmax and jumps, no softmax.

    Page:
        notebooks/sparse_universality/the_proof_executed
    """

    plan: Plan
    start: numpy.ndarray
    ids: numpy.ndarray
    values: Tensor

    @property
    def layers(self) -> dict[str, int]:
        """Layers by kind: quantise d n K, attention p (n - 1) K^d + s, value n K^(n
        d).
        """
        p = self.plan
        return {
            "quantise": p.d * p.n * p.cells,
            "attention": p.layers,
            "value": self.ids.size,
        }

    @property
    def bits(self) -> int:
        """Bits of the largest id that occurs."""
        return int(self.ids.max()).bit_length()

    def __call__(self, x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
        """The output; the same as the last state of run, without visiting the value
        layers one by one.

        Args:
            x: (*batch, n, d), entries in [0, 1).

        Returns:
            (*batch, n, d), the dtype of the values.

        Raises:
            ValueError: for another shape, integer x, NaN, or entries outside [0, 1).

        Cost:
            the attention layers on the batch, and a search among the ids for every
            token.

        Source:
            derived on the page.

        Claim:
            universal.network

        Page:
            notebooks/sparse_universality/the_proof_executed
        """
        _inside(x, self.plan)
        cells = (
            _cells(x, self.plan.cells)
            .cpu()
            .numpy()
            .reshape(-1, self.plan.n, self.plan.d)
        )
        ids = _last_ids(_row_ids(cells, self.plan).astype(self.start.dtype), self.plan)
        order = np.argsort(self.ids, axis=None)
        place = order[np.searchsorted(self.ids.ravel()[order], ids.ravel())]
        assert (self.ids.ravel()[place] == ids.ravel()).all(), (
            "an id that no grid input has"
        )
        out = self.values.flatten(0, 1)[torch.from_numpy(place).to(self.values.device)]
        return out.reshape(x.shape).to(x.device)


def approximate(
    f: Callable[[Tensor], Tensor],
    n: int,
    d: int,
    cells: int,
    pattern: Pattern,
    **options,
) -> Network:
    """A network whose output on [0, 1)^(n x d) is f at the centre of the cell that x
    lies in.

        sup |network - f| <= omega_f(1 / (2 K)),   the modulus of continuity in the largest entry

    Args:
        f: (M, n, d) float64 -> (M, n, d), continuous on [0, 1]^(n x d) for the bound to
            say something.
        n, d, cells: n >= 2 tokens, d features, K cells to an edge.
        pattern: a Pattern of n tokens.
        options: path, hops, constant of plan, for experiments: with too small ones ids
            collide.

    Returns:
        Network. Where the target is so large that it would meet an id, C is raised.

    Raises:
        ValueError: as plan; for more than 10^6 value layers (it says how many); for a
            target that returns another shape, NaN or infinity.

    Cost:
        O(n K^(n d)) times the attention layers.

    Source:
        Yun et al. 2020b, recalled.

    Claim:
        universal.network

    Page:
        notebooks/sparse_universality/the_proof_executed
    """
    numbers = plan(pattern, n, d, cells, **options)
    n, d, cells = numbers.n, numbers.d, numbers.cells
    count = n * cells ** (n * d)
    words = f"{d * n * cells} quantising, {numbers.layers} attention and {count:.3g} value layers"
    require(
        count <= LAYERS, f"this network has {words}: more than {LAYERS} cannot be built"
    )
    centres = (grid_rows(numbers) + 0.5) / cells
    values = f(centres.clone())
    got = tuple(values.shape) if torch.is_tensor(values) else type(values).__name__
    require(
        got == tuple(centres.shape),
        f"f must return a tensor of shape {tuple(centres.shape)}, got {got}",
    )
    finite(**{"f at some centre": values})
    largest = float(values.detach().abs().max())
    floor = (
        int(cells * largest * sum(cells**i for i in range(d))) + 2
    )  # |u . A| + 1/2 lies below it
    if numbers.constant**numbers.hops < floor:
        constant = numbers.constant
        while constant**numbers.hops < floor:
            constant *= 2
        numbers = numbers._replace(constant=constant)
    start = grid_ids(numbers)
    return Network(numbers, start, _last_ids(start, numbers), values)


def grid_rows(plan: Plan) -> Float[Tensor, "inputs n d"]:
    """All grid inputs as cell numbers 0, .., K - 1, in the order of grid_ids.

    Args:
        plan: of the construction.

    Returns:
        (K^(n d), n, d) float64.

    Cost:
        O(n d K^(n d)).

    Source:
        the grid of the construction.

    Page:
        notebooks/sparse_universality/the_proof_executed
    """
    own = np.indices((plan.size,) * plan.n).reshape(plan.n, -1).T  # u . z of each token
    powers = plan.cells ** np.arange(plan.d)
    return torch.from_numpy((own[..., None] // powers % plan.cells).astype(np.float64))


def value_layers(
    network: Network, order: str = "grid"
) -> Iterator[tuple[int, list[int], Tensor]]:
    """The value layers one after another: the id each waits for, the token's row there,
    and the row it writes.

        Z <- Z + (K A - z) psi(u . Z - id),   psi = 1 on [-1/2, 1/2), else 0

    Args:
        network: of approximate.
        order: "grid", "increasing" or "decreasing" (of the ids).

    Yields:
        n K^(n d) triples (id, z, A): z a list of d integers in units of a cell, A (d,)
        as f returned it.

    Raises:
        ValueError: for another order.

    Cost:
        O(d) a layer, and sorting.

    Source:
        Yun et al. 2020b, recalled; the order does not matter in exact arithmetic.

    Claim:
        universal.network

    Page:
        notebooks/sparse_universality/the_proof_executed
    """
    known = ("grid", "increasing", "decreasing")
    require(order in known, f"order must be one of {list(known)}, got {order!r}")
    p, ids = network.plan, network.ids.ravel()
    places = (
        np.arange(ids.size)
        if order == "grid"
        else np.argsort(ids)[:: 1 if order == "increasing" else -1]
    )
    rows = (
        grid_rows(p).numpy().astype(int) + p.cells * np.array(p.codes)[:, None]
    ).reshape(-1, p.d)
    moved, targets = ids - network.start.ravel(), network.values.flatten(0, 1)
    for i in places:
        row = [int(v) for v in rows[i]]
        yield int(ids[i]), [row[0] + int(moved[i]), *row[1:]], targets[i]


def run(
    network: Network, x: Float[Tensor, "*batch n d"], order: str = "grid"
) -> Iterator[tuple[str, np.ndarray]]:
    """The literal network: every layer on every token in fractions, hardmax by its
    scores, jumps as they stand.

        quantise:  Z <- Z - e_r (z_r - k) where 0 <= z_r - k < 1        attention: a_k (a_j - b), ties averaged
        value:     Z <- Z + (K A - z) where -1/2 <= u . Z - id < 1/2

    Args:
        network: of approximate.
        x: (*batch, n, d), entries in [0, 1).
        order: of the value layers, as there.

    Yields:
        (kind, Z) after each layer, Z (*batch, n, d) of Fractions in units of a cell;
        the output is the last / K.

    Raises:
        ValueError: as the network, and for another order.

    Cost:
        O(n) fractions a layer and an input: for a few inputs of small networks.

    Source:
        Yun et al. 2020b, recalled.

    Claim:
        universal.network

    Page:
        notebooks/sparse_universality/the_proof_executed
    """
    p = network.plan
    _inside(x, p)
    exact = np.vectorize(Fraction, otypes=[object])
    z = p.cells * (
        exact(x.detach().cpu().double().numpy())
        + np.array(p.codes, dtype=object)[:, None]
    )
    u = np.array([p.cells**i for i in range(p.d)], dtype=object)
    for r in range(p.d):
        for k in range(p.n * p.cells):
            t = z[..., r] - k
            z = z.copy()
            z[..., r] = z[..., r] - np.where((t >= 0) & (t < 1), t, 0)
            yield "quantise", z
    for shift in schedule(p):
        z, a = z.copy(), z @ u
        if shift.factor:
            second = (
                0
                if shift.every
                else _literal_head(a, p.masks[shift.step], shift.value + 1)
            )
            z[..., 0] += shift.factor * (
                _literal_head(a, p.masks[shift.step], shift.value) - second
            )
        yield "attention", z
    for ident, row, target in value_layers(network, order):
        t = z @ u - ident
        hit = (t >= Fraction(-1, 2)) & (t < Fraction(1, 2))
        step = p.cells * exact(target.detach().cpu().double().numpy()) - np.array(
            row, dtype=object
        )
        z = np.where(hit[..., None], z + step, z)
        yield "value", z


def _literal_head(a: np.ndarray, mask: np.ndarray, value: int) -> np.ndarray:
    """sum_k hardmax_k(a_k (a_j - b)) a_k over the tokens that j reads, b = value - 1/2,
    uniform over ties.
    """
    out = np.empty_like(a)
    for j in range(a.shape[-1]):
        keys = a[..., mask[j]]
        scores = keys * (a[..., j : j + 1] - Fraction(2 * value - 1, 2))
        top = (scores == scores.max(-1, keepdims=True)).astype(int)
        out[..., j] = (top * keys).sum(-1) / (top.sum(-1) * Fraction(1))
    return out


def _row_ids(cells: np.ndarray, plan: Plan) -> np.ndarray:
    return cells @ (plan.cells ** np.arange(plan.d)) + np.array(plan.codes) * plan.base


def _cells(x: Tensor, cells: int) -> Tensor:
    """floor(K x) exactly: K x rounds, so x is compared with the smallest floats that
    are at least k / K.
    """
    edges = []
    for k in range(cells):
        edge = k / cells
        edges.append(
            edge
            if Fraction(edge) >= Fraction(k, cells)
            else float(np.nextafter(edge, 1))
        )
    edges = torch.tensor(edges, dtype=torch.float64, device=x.device)
    return torch.searchsorted(edges, x.double().contiguous(), right=True) - 1


def _inside(x: Tensor, plan: Plan) -> None:
    size = (plan.n, plan.d)
    got = tuple(x.shape) if torch.is_tensor(x) else type(x).__name__
    require(
        torch.is_tensor(x) and x.dim() >= 2 and tuple(x.shape[-2:]) == size,
        f"x must be (*batch, {size[0]}, {size[1]}), got {got}",
    )
    require(
        x.is_floating_point(), f"x must be floating point, got {x.dtype}: cast it first"
    )
    finite(x=x)
    if not ((x >= 0) & (x < 1)).all():
        raise ValueError(
            f"x must lie in [0, 1), got entries from {x.min()} to {x.max()}"
        )
