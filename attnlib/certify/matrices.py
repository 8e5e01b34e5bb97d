"""Matrices in exact arithmetic: nested lists of Fractions, so that nothing is rounded.

    exact(A)   product(A, B)   row_stochastic(W)   norms(A)   rank(A)

A matrix comes as nested rows of int, float or Fraction, or as a two-dimensional tensor:
a finite float is an integer times a power of two.

Page: notebooks/path_decomposition/paths
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from operator import mul

Matrix = list[list[Fraction]]


def exact(matrix) -> Matrix:
    """The same numbers as Fractions."""
    return _exact("matrix", matrix)


def _exact(name: str, matrix) -> Matrix:
    """The matrix that the caller knows by this name, in Fractions."""
    rows = matrix.tolist() if hasattr(matrix, "tolist") else matrix
    if not _is_list(rows) or not all(map(_is_list, rows)):
        raise ValueError(f"{name} must be a list of rows, each a list of numbers")
    lengths = {len(row) for row in rows}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"{name} must have at least one entry, and rows of one length")
    return [_rationals(name, row) for row in rows]


def _fitting(name: str, matrix, rows: int, columns: int) -> Matrix:
    """The matrix in Fractions, if it has this shape."""
    matrix = _exact(name, matrix)
    got = f"{len(matrix)} x {len(matrix[0])}"
    if got != f"{rows} x {columns}":
        raise ValueError(f"{name} must be {rows} x {columns} here, got {got}")
    return matrix


def _is_list(value) -> bool:
    return isinstance(value, list | tuple)


def _rationals(name: str, values: Sequence) -> list[Fraction]:
    """Finite numbers as Fractions. NumPy's integers would wrap in them."""
    for kind in set(map(type, values)):
        if not issubclass(kind, int | float | Fraction) or kind is bool:
            raise ValueError(
                f"{name} must hold numbers of type int, float or Fraction, "
                f"got a {kind.__name__}"
            )
    try:
        return list(map(Fraction, values))
    except (OverflowError, ValueError):
        raise ValueError(
            f"{name} must hold finite floats: no NaN and no infinity"
        ) from None


def row_stochastic(weights) -> Matrix:
    """Each row divided by its sum, exactly, so that P 1 = 1 holds without rounding."""
    stochastic = []
    for row in _exact("weights", weights):
        total = sum(row)
        if min(row) < 0 or total == 0:
            raise ValueError(
                "rows of weights must be nonnegative and not all zero, to be divided "
                "by their sum"
            )
        stochastic.append([entry / total for entry in row])
    return stochastic


def product(*matrices) -> Matrix:
    """The product of matrices, first to last."""
    if not matrices:
        raise ValueError("matrices must be at least one, got none")
    left, *others = [_exact("each of matrices", matrix) for matrix in matrices]
    for right in others:
        if len(left[0]) != len(right):
            raise ValueError(
                f"matrices must fit: cannot multiply {len(left)} x {len(left[0])} "
                f"with {len(right)} x {len(right[0])}"
            )
        columns = list(zip(*right))
        left = [_row_times(row, columns) for row in left]
    return left


def _row_times(row: Sequence[Fraction], columns) -> list[Fraction]:
    """A row times the matrix that has these columns."""
    return [sum(map(mul, row, column), Fraction()) for column in columns]


def norms(matrix) -> tuple[Fraction, Fraction]:
    """The largest absolute column sum |A|_1 and the largest absolute row sum |A|_inf;
    the square of the composite norm is their product.

    Source: Xie 2021, Definition 2.1.
    Claim: questions.quasi-norm
    Page: notebooks/path_decomposition/four_questions
    """
    sizes = [list(map(abs, row)) for row in exact(matrix)]
    one = max(map(sum, zip(*sizes)))
    inf = max(map(sum, sizes))
    return one, inf


def rank(matrix) -> int:
    """The rank, exactly: no tolerance is needed in rational numbers.

    Cost: an elimination of sympy, which comes with torch: O(n^2 m) exact operations.
    Claim: questions.low-rank
    Page: notebooks/path_decomposition/four_questions
    """
    from sympy import QQ
    from sympy.polys.matrices import DomainMatrix

    rows = []
    for row in exact(matrix):
        rows.append([QQ(entry.numerator, entry.denominator) for entry in row])
    return DomainMatrix(rows, (len(rows), len(rows[0])), QQ).rank()
