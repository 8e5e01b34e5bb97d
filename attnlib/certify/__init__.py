"""A second, independent evaluation in exact arithmetic. Imports no other room: matrices
are nested lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from attnlib.certify.boltzmann import (
    Gap,
    boltzmann_gap,
    context_gap,
    context_terms,
    hardmax_layer,
    smallest_gap,
)
from attnlib.certify.collapse import family_residual, log_residuals

Matrix = list[list[Fraction]]


class Verdict(NamedTuple):
    """What a check measured, what it was held against, and whether it held.

    Args:
        value: the measured number.
        bound: what it may be at most.
        ok: value <= bound.

    Page:
        notebooks/path_decomposition/paths
    """

    value: float
    bound: float
    ok: bool

    def __str__(self) -> str:
        """Below the bound the digits are rounding noise, so only the bound is shown."""
        return (
            f"at most {self.bound:g}"
            if self.ok
            else f"{self.value:.2g}, above {self.bound:g}"
        )


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

    Page:
        notebooks/path_decomposition/paths
    """
    return Verdict(float(value), float(bound), bool(value <= bound))


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

    Page:
        notebooks/path_decomposition/paths
    """
    return float((got - wanted).norm() / wanted.norm())


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

    Page:
        notebooks/path_decomposition/paths
    """
    rows = matrix.tolist() if hasattr(matrix, "tolist") else matrix
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("a matrix needs at least one entry, and rows of one length")
    try:
        return [[Fraction(entry) for entry in row] for row in rows]
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

    Page:
        notebooks/path_decomposition/paths
    """
    rows = exact(weights)
    if any(min(row) < 0 or sum(row) == 0 for row in rows):
        raise ValueError(
            "rows must be nonnegative and not all zero, to be divided by their sum"
        )
    return [[entry / sum(row) for entry in row] for row in rows]


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

    Page:
        notebooks/path_decomposition/paths
    """
    left = matrices[0]
    for right in matrices[1:]:
        if len(left[0]) != len(right):
            raise ValueError(
                f"cannot multiply {len(left)} x {len(left[0])} with {len(right)} x {len(right[0])}"
            )
        columns = list(zip(*right))
        left = [
            [sum(map(Fraction.__mul__, row, column), Fraction()) for column in columns]
            for row in left
        ]
    return left


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

    Page:
        notebooks/path_decomposition/paths
    """
    if [len(p) for p in attention] != [len(w) for w in weights] or not weights:
        raise ValueError(
            "attention and weights must have the same layers, at least one, and the same heads"
        )
    none = [Fraction()] * len(weights[0][0][0])
    for layer, (heads, maps) in enumerate(zip(attention, weights)):
        rows = value_biases[layer] if value_biases else [none] * len(heads)
        terms = [
            product(p, _add_row(product(x, w), u)) for p, w, u in zip(heads, maps, rows)
        ]
        y = [[z * sum(entries) for entries in zip(*lines)] for lines in zip(*terms)]
        y = _add_row(y, biases[layer] if biases else none)
        x = [[u + v for u, v in zip(old, new)] for old, new in zip(x, y)] if skip else y
    return x


def _add_row(matrix: Matrix, row: Sequence[Fraction]) -> Matrix:
    return [[entry + b for entry, b in zip(line, row)] for line in matrix]


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

    Page:
        notebooks/path_decomposition/paths
    """
    whole = network(
        x, attention, weights, value_biases=value_biases, biases=biases, skip=skip
    )
    b = [Fraction()] * len(x[0])
    for layer, maps in enumerate(weights):
        carried = [product([b], w)[0] for w in maps]
        own = [biases[layer]] if biases else []
        b = [
            sum(entries)
            for entries in zip(
                *carried, *value_biases[layer], *own, *([b] if skip else [])
            )
        ]
    sums = path_sum(x, attention, weights, skip=skip)
    paths = [[sum(s[i][j] for s in sums) for j in range(len(b))] for i in range(len(x))]
    return max(
        abs(u - v - c)
        for line, rest in zip(whole, paths)
        for u, v, c in zip(line, rest, b)
    )


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

    Page:
        notebooks/path_decomposition/paths
    """
    nodes = range(len(weights) + 1)
    values = [network(x, attention, weights, skip=skip, z=z) for z in nodes]
    basis = [_lagrange(node, nodes) for node in nodes]
    rows, columns = range(len(values[0])), range(len(values[0][0]))
    return [
        [
            [sum(basis[z][k] * values[z][i][j] for z in nodes) for j in columns]
            for i in rows
        ]
        for k in nodes
    ]


def _lagrange(node: int, nodes: Sequence[int]) -> list[Fraction]:
    """Coefficients, constant term first, of the polynomial that is 1 at the node and 0
    at the others.
    """
    coefficients = [Fraction(1)]
    for other in nodes:
        if other != node:
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
    sizes = [[abs(entry) for entry in row] for row in matrix]
    return max(map(sum, zip(*sizes))), max(map(sum, sizes))


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
    rows, found = [list(row) for row in matrix], 0
    for column in range(len(matrix[0])):
        pivot = next((i for i in range(found, len(rows)) if rows[i][column]), None)
        if pivot is not None:
            rows[found], rows[pivot] = rows[pivot], rows[found]
            for i in range(found + 1, len(rows)):
                factor = rows[i][column] / rows[found][column]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[found])]
            found += 1
    return found
