"""A second, independent evaluation in exact arithmetic. Imports no other room: matrices
are nested lists.

Page:
    notebooks/path_decomposition/paths
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from operator import mul
from typing import NamedTuple

from attnlib.certify.boltzmann import (  # noqa: F401 (public here)
    Gap,
    boltzmann_gap,
    context_gap,
    context_terms,
    hardmax_layer,
    smallest_gap,
)
from attnlib.certify.collapse import (  # noqa: F401 (public here)
    family_residual,
    log_residuals,
)

Matrix = list[list[Fraction]]


class Verdict(NamedTuple):
    """What a check measured, what it was held against, and whether it held.

    Args:
        value: the measured number.
        bound: what it may be at most.
        ok: value <= bound.
    """

    value: float
    bound: float
    ok: bool

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        """Below the bound the digits are rounding noise, so only the bound is shown."""
        if self.ok:
            return f"at most {self.bound:g}"
        return f"{self.value:.2g}, above {self.bound:g}"


class AtLeast(Verdict):
    """A Verdict whose value should be at least its bound."""

    __slots__ = ()

    def __str__(self) -> str:
        word = "at least" if self.ok else "below"
        return f"{self.value:.2g}, {word} {self.bound:g}"


def at_most(value, bound: float | int) -> Verdict:
    """The verdict value <= bound; NaN fails.

    Args:
        value: a number or a tensor with one entry.
        bound: the tolerance or the claimed bound.

    Returns:
        Verdict.

    Cost:
        O(1).

    Source:
        every check of the book and its control return one.
    """
    return Verdict(float(value), float(bound), bool(value <= bound))


def at_least(value, bound: float | int) -> AtLeast:
    """The verdict value >= bound; NaN fails.

    Args:
        value: a number or a tensor with one entry.
        bound: what it should reach.

    Returns:
        AtLeast, a Verdict that prints the other way round.

    Cost:
        O(1).

    Source:
        statements that two things differ.
    """
    return AtLeast(float(value), float(bound), bool(value >= bound))


def relative_error(got, wanted) -> float:
    """How far a tensor is from another, in units of the other: |got - wanted|_F /
    |wanted|_F.

    Args:
        got, wanted: tensors of one shape.

    Returns:
        a float; NaN if both are zero.

    Cost:
        O(entries).

    Source:
        the definition.
    """
    distance = (got - wanted).detach().norm()  # networks in training ask for gradients
    return float(distance / wanted.detach().norm())


def exact(matrix) -> Matrix:
    """The same numbers as Fractions: every float is a dyadic rational, so nothing is
    rounded.

    Args:
        matrix: nested rows of int, float or Fraction, or a two-dimensional tensor.

    Returns:
        list of rows of Fractions.

    Raises:
        ValueError: if the rows are empty or of different lengths, or an entry is not
            finite.

    Cost:
        O(entries).

    Source:
        IEEE 754: a finite float is an integer times a power of two.
    """
    rows = matrix.tolist() if hasattr(matrix, "tolist") else matrix
    if not all(isinstance(row, list | tuple) for row in rows):
        raise ValueError("a matrix is a list of rows, each a list of numbers")
    lengths = {len(row) for row in rows}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError("a matrix needs at least one entry, and rows of one length")
    try:
        return [list(map(Fraction, row)) for row in rows]
    except (OverflowError, ValueError):
        raise ValueError(
            "a matrix in exact arithmetic holds no NaN and no infinity"
        ) from None


def row_stochastic(weights) -> Matrix:
    """Divide each row by its sum, exactly, so that P 1 = 1 holds without rounding.

    Args:
        weights: nested rows or a tensor, nonnegative, no row zero.

    Returns:
        Matrix with rows that sum to one.

    Raises:
        ValueError: for a negative entry or a row that sums to zero.

    Cost:
        O(entries).

    Source:
        the hypothesis P 1 = 1 of the path decomposition.
    """
    stochastic = []
    for row in exact(weights):
        total = sum(row)
        if min(row) < 0 or total == 0:
            raise ValueError(
                "rows must be nonnegative and not all zero, to be divided by their sum"
            )
        stochastic.append([entry / total for entry in row])
    return stochastic


def product(*matrices: Matrix) -> Matrix:
    """The product of matrices, first to last, in Fractions.

    Args:
        matrices: at least one, of fitting shapes.

    Returns:
        Matrix.

    Raises:
        ValueError: if the shapes do not fit.

    Cost:
        O(p q r) exact operations for each pair (p, q) (q, r).

    Source:
        the definition.
    """
    left = matrices[0]
    for right in matrices[1:]:
        if len(left[0]) != len(right):
            raise ValueError(
                f"cannot multiply {len(left)} x {len(left[0])} "
                f"with {len(right)} x {len(right[0])}"
            )
        columns = list(zip(*right))
        left = [_row_times(row, columns) for row in left]
    return left


def _row_times(row: Sequence[Fraction], columns) -> list[Fraction]:
    """A row times the matrix that has these columns."""
    return [sum(map(mul, row, column), Fraction()) for column in columns]


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
    """The forward pass with given attention, in Fractions; z multiplies the output of
    every head.

        X <- [X +] z sum_h P_h (X W_h + 1 u_h') + 1 b'

    Args:
        x: n rows of d.
        attention: P_h (n x n), a list of heads a layer.
        weights: W_h (d x d), likewise.
        value_biases: u_h = W_O,h' b_V,h, a row of d a head.
        biases: b_O, a row of d a layer; None for zero.
        skip: add the input of each layer.
        z: any number.

    Returns:
        n rows of d. Nothing is assumed of P: its rows need not sum to one.

    Raises:
        ValueError: if attention and weights do not have the same layers and heads.

    Cost:
        O(L H (n^2 d + n d^2)) exact operations.

    Source:
        the definition of the network; shares no code with attnlib.attention.

    Claim:
        paths.decomposition
    """
    if [len(p) for p in attention] != [len(w) for w in weights] or not weights:
        raise ValueError(
            "attention and weights must have the same layers, at least one, "
            "and the same heads"
        )
    n = len(x)
    none = [Fraction()] * len(weights[0][0][0])
    for layer, (heads, maps) in enumerate(zip(attention, weights)):
        value_rows = value_biases[layer] if value_biases else [none] * len(heads)
        b = biases[layer] if biases else none
        terms = []
        for p, w, u in zip(heads, maps, value_rows):
            values = _add(product(x, w), [u] * n)  # X W_h + 1 u_h'
            terms.append(product(p, values))
        y = _scaled(z, _add(*terms))
        y = _add(y, [b] * n)
        x = _add(x, y) if skip else y
    return x


def decomposition_gap(
    x: Matrix, attention, weights, *, value_biases, biases=None, skip: bool = False
) -> Fraction:
    """The largest entry of network - sum of all paths - 1 b', exactly; zero when the
    decomposition holds.

        b <- [skip] b + b_O + sum_h (u_h + W_h' b)      layer by layer, from b = 0

    Args:
        x, attention, weights, value_biases, biases, skip: as in network.

    Returns:
        a Fraction; zero for every choice of biases if P 1 = 1.

    Raises:
        ValueError: as network.

    Cost:
        L + 2 networks.

    Source:
        Xie 2021, Theorem 2.1; differs: the row b is spelled out, and nothing is assumed
        of P.

    Claim:
        paths.row-sums
    """
    whole = network(
        x, attention, weights, value_biases=value_biases, biases=biases, skip=skip
    )
    b = [Fraction()] * len(x[0])
    for layer, maps in enumerate(weights):
        carried = [product([b], w)[0] for w in maps]
        rows = [*carried, *value_biases[layer]]
        if biases:
            rows.append(biases[layer])
        if skip:
            rows.append(b)
        b = [sum(entries) for entries in zip(*rows)]
    paths = _add(*path_sum(x, attention, weights, skip=skip))
    parts = _add(paths, [b] * len(x))
    gap = _add(whole, _scaled(-1, parts))
    return max(max(map(abs, row)) for row in gap)


def path_sum(x: Matrix, attention, weights, *, skip: bool = False) -> list[Matrix]:
    """The exact sum of all paths of each length, read off as coefficients of a
    polynomial in z.

        network(z) = sum_k z^k S_k,    from its values at z = 0, ..., L by interpolation

    Args:
        x, attention, weights, skip: as in network, without biases.

    Returns:
        L + 1 matrices S_0, ..., S_L in Fractions.

    Raises:
        ValueError: as network.

    Cost:
        L + 1 networks; neither lists a path nor runs the recursion of attnlib.paths.

    Source:
        Lagrange interpolation.

    Claim:
        paths.sums
    """
    nodes = range(len(weights) + 1)
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


def norms(matrix: Matrix) -> tuple[Fraction, Fraction]:
    """The largest absolute column sum |A|_1 and the largest absolute row sum |A|_inf,
    exactly.

    Args:
        matrix: a Matrix.

    Returns:
        (|A|_1, |A|_inf); the square of the composite norm is their product.

    Cost:
        O(entries).

    Source:
        Xie 2021, Definition 2.1.

    Claim:
        questions.quasi-norm

    Page:
        notebooks/path_decomposition/four_questions
    """
    sizes = [list(map(abs, row)) for row in matrix]
    one = max(map(sum, zip(*sizes)))
    inf = max(map(sum, sizes))
    return one, inf


def rank(matrix: Matrix) -> int:
    """The rank, exactly, by Gaussian elimination.

    Args:
        matrix: a Matrix.

    Returns:
        an integer.

    Cost:
        O(n^2 m) exact operations.

    Source:
        the definition; no tolerance is needed in Fractions.

    Claim:
        questions.low-rank

    Page:
        notebooks/path_decomposition/four_questions
    """
    rows = list(matrix)
    found = 0
    for column in range(len(matrix[0])):
        pivot = next((row for row in rows if row[column]), None)
        if pivot is None:
            continue
        found += 1
        rows.remove(pivot)
        for i, row in enumerate(rows):
            factor = row[column] / pivot[column]
            rows[i] = [a - factor * b for a, b in zip(row, pivot)]
    return found
