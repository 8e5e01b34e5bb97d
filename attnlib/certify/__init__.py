"""A second, independent evaluation in exact arithmetic, and what a check answers.
Imports no other room: matrices are nested lists.

    X <- [X +] z sum_h P_h (X W_h + 1 u_h') + 1 b'

`network` is this formula in Fractions; `path_sum` and `decomposition_gap` read off it.

Page: notebooks/path_decomposition/paths
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from numbers import Real

import torch

from attnlib.certify.boltzmann import (  # noqa: F401 (public here)
    Enclosure,
    boltzmann_gap,
    context_gap,
    context_terms,
    hardmax_layer,
    smallest_gap,
)
from attnlib.certify.collapse import (  # noqa: F401 (public here)
    family_residual,
    family_residual_any,
    log_residuals,
)
from attnlib.certify.matrices import (  # noqa: F401 (public here)
    Matrix,
    _exact,
    _fitting,
    _is_list,
    _rationals,
    exact,
    norms,
    product,
    rank,
    row_stochastic,
)


@dataclass(frozen=True)
class Verdict:
    """What a check measured, what it was held against, and whether it held."""

    value: float
    bound: float
    ok: bool

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        """Both sides; below a tolerance the digits are noise, and it stands alone."""
        if not self.ok:
            return f"fails: {self.value:.2g} > {self.bound:g}"
        if self.value == self.bound == 0:
            return "holds: 0 = 0"
        if 0 < self.bound < 1e-4:
            return f"holds, to {self.bound:g}"
        shown = self.value if abs(self.value) >= 1e-9 else 0
        return f"holds: {shown:.2g} <= {self.bound:g}"


class AtLeast(Verdict):
    """A Verdict whose value should be at least its bound."""

    def __str__(self) -> str:
        word, sign = ("holds", ">=") if self.ok else ("fails", "<")
        return f"{word}: {self.value:.2g} {sign} {self.bound:g}"


def at_most(value, bound: float) -> Verdict:
    """The verdict value <= bound of two numbers, or tensors with one entry; NaN
    fails.
    """
    _are_numbers(value=value, bound=bound)
    return Verdict(float(value), float(bound), bool(value <= bound))


def at_least(value, bound: float) -> AtLeast:
    """The verdict value >= bound, for statements that two things differ; NaN fails."""
    _are_numbers(value=value, bound=bound)
    return AtLeast(float(value), float(bound), bool(value >= bound))


def _are_numbers(**given) -> None:
    """The arguments, given by name, are real numbers, or tensors with one entry."""
    for name, number in given.items():
        if torch.is_tensor(number):
            real = number.numel() == 1 and not number.is_complex()
        else:
            real = isinstance(number, Real)
        if not real:
            raise ValueError(f"{name} must be a real number, got {number!r}")
        try:
            float(number)
        except OverflowError as error:
            words = f"{name} must be in the range of floats: {error}"
            raise ValueError(words) from None


def relative_error(got, wanted) -> float:
    """How far a tensor is from another, in units of the other: |got - wanted|_F /
    |wanted|_F; NaN if both are zero, and if one holds NaN or infinity.
    """
    for name, tensor in (("got", got), ("wanted", wanted)):
        dense = torch.is_tensor(tensor) and tensor.layout == torch.strided
        if not dense or tensor.is_meta or not tensor.is_floating_point():
            raise ValueError(f"{name} must be a floating tensor that holds values")
    if got.shape != wanted.shape:
        raise ValueError(
            f"got has shape {tuple(got.shape)}, wanted {tuple(wanted.shape)}: "
            "they must agree"
        )
    distance = (got - wanted).detach().norm()  # networks in training ask for gradients
    return float(distance / wanted.detach().norm())


def network(
    x: Matrix,
    attention: Sequence[Sequence[Matrix]],
    weights: Sequence[Sequence[Matrix]],
    *,
    value_biases: Sequence[Sequence[Sequence[Fraction]]] | None = None,
    biases: Sequence[Sequence[Fraction]] | None = None,
    skip: bool = False,
    z: int | Fraction = 1,
) -> Matrix:
    """The forward pass with given attention; z multiplies the output of every head.
    Nothing is assumed of P: its rows need not sum to one.

    Args:
        x: n rows of d.
        attention: P_h (n x n), a list of heads a layer.
        weights: W_h (d x d), likewise.
        value_biases: u_h = W_O,h' b_V,h, a row of d a head; None for zero.
        biases: b_O, a row of d a layer; None for zero.
        skip: add the input of each layer.

    Source: the definition of the network; shares no code with attnlib.attention.
    Claim: paths.decomposition
    """
    if not isinstance(skip, bool):
        raise ValueError(f"skip must be True or False, got {skip!r}")
    heads = _counts("weights", weights)
    if not heads or 0 in heads or heads != _counts("attention", attention):
        raise ValueError(
            "attention and weights must have the same layers, at least one, "
            "and the same heads"
        )
    if value_biases is None:
        value_biases = [[None] * count for count in heads]
    if biases is None:
        biases = [None] * len(heads)
    rows_fit = heads == _counts("value_biases", value_biases)
    if not rows_fit or not _is_list(biases) or len(biases) != len(heads):
        raise ValueError("value_biases must have a row a head, biases a row a layer")
    [z] = _rationals("z", [z])
    x = _exact("x", x)
    for p, w, u, b in zip(attention, weights, value_biases, biases):
        y = _scaled(z, _add(*_heads(x, p, w, u)))
        if b is not None:
            y = _add(y, _fitting("biases", [b], 1, len(y[0])) * len(y))
        x = _add(x, _fitting("the output", y, len(x), len(x[0]))) if skip else y
    return x


def _heads(x: Matrix, attention, weights, value_biases) -> list[Matrix]:
    """P_h (X W_h + 1 u_h') of each head; u_h may be None."""
    n, d = len(x), len(x[0])
    width = len(_exact("weights", weights[0])[0])
    outputs = []
    for p, w, u in zip(attention, weights, value_biases):
        values = product(x, _fitting("weights", w, d, width))
        if u is not None:
            values = _add(values, _fitting("value_biases", [u], 1, width) * n)
        outputs.append(product(_fitting("attention", p, n, n), values))
    return outputs


def _counts(name: str, layers) -> list[int]:
    """How many heads a list of lists has in each layer."""
    if not _is_list(layers) or not all(map(_is_list, layers)):
        raise ValueError(f"{name} must be a list of layers, each a list of its heads")
    return [len(layer) for layer in layers]


def _add(*matrices: Matrix) -> Matrix:
    """The sum of matrices of one shape."""
    total = []
    for rows in zip(*matrices):
        total.append([sum(entries) for entries in zip(*rows)])
    return total


def _scaled(z: int | Fraction, matrix: Matrix) -> Matrix:
    """A matrix times a number."""
    scaled = []
    for row in matrix:
        scaled.append([z * entry for entry in row])
    return scaled


def decomposition_gap(
    x: Matrix, attention, weights, *, value_biases, biases=None, skip: bool = False
) -> Fraction:
    """The largest entry of network - sum of all paths - 1 b', exactly; zero for every
    choice of biases if P 1 = 1.

        b <- [skip] b + b_O + sum_h (u_h + W_h' b)      layer by layer, from b = 0

    and not by network, whose mistakes it would share.

    Args:
        x, attention, weights, value_biases, biases, skip: as in network, no row None.

    Source: Xie 2021, Theorem 2.1; differs: the row b is spelled out, and nothing is
        assumed of P.
    Claim: paths.row-sums
    """
    _counts("value_biases", value_biases)
    whole = network(
        x, attention, weights, value_biases=value_biases, biases=biases, skip=skip
    )
    for name, rows in (("value_biases", chain(*value_biases)), ("biases", biases)):
        if rows is not None and None in rows:
            raise ValueError(f"{name} must have no row None here: spell out the zeros")
    b = [Fraction()] * len(x[0])
    for layer, maps in enumerate(weights):
        carried = [product([b], w)[0] for w in maps]
        rows = _exact("value_biases", [*carried, *value_biases[layer]])
        if biases:
            rows += _exact("biases", [biases[layer]])
        if skip:
            rows.append(b)
        b = [sum(entries) for entries in zip(*rows)]
    paths = _add(*path_sum(x, attention, weights, skip=skip))
    parts = _add(paths, [b] * len(x))
    gap = _add(whole, _scaled(-1, parts))
    return max(max(map(abs, row)) for row in gap)


def path_sum(x: Matrix, attention, weights, *, skip: bool = False) -> list[Matrix]:
    """The exact sums S_0, ..., S_L of all paths of each length, read off as
    coefficients of a polynomial in z.

        network(z) = sum_k z^k S_k,    from its values at z = 0, ..., L by interpolation

    It neither lists a path nor runs the recursion of attnlib.paths.

    Args:
        x, attention, weights, skip: as in network, without biases.

    Source: Lagrange interpolation.
    Claim: paths.sums
    """
    nodes = range(len(_counts("weights", weights)) + 1)
    values = [network(x, attention, weights, skip=skip, z=z) for z in nodes]
    basis = [_lagrange(node, nodes) for node in nodes]
    sums = []
    for k in nodes:
        terms = [_scaled(basis[z][k], values[z]) for z in nodes]
        sums.append(_add(*terms))
    return sums


def _lagrange(node: int, nodes: Sequence[int]) -> list[Fraction]:
    """Coefficients, constant term first, of the polynomial that is 1 at the node and 0
    at the others.
    """
    coefficients = [Fraction(1)]
    for other in nodes:
        if other != node:  # one more factor, zero at the other node
            shifted = [Fraction(), *coefficients]
            scaled = [*(other * c for c in coefficients), Fraction()]
            coefficients = [(a - b) / (node - other) for a, b in zip(shifted, scaled)]
    return coefficients
