"""A second, independent evaluation in exact arithmetic. Imports no other room: matrices are nested lists."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import mpmath

Matrix = list[list[Fraction]]


class Verdict(NamedTuple):
    """What a check measured, what it was held against, and whether it held.

    Args:    value: the measured number.   bound: what it may be at most.   ok: value <= bound.
    Page:    notebooks/path_decomposition/paths
    """

    value: float
    bound: float
    ok: bool

    def __str__(self) -> str:
        """Below the bound the digits are rounding noise, so only the bound is shown."""
        return f"at most {self.bound:g}" if self.ok else f"{self.value:.2g}, above {self.bound:g}"


def at_most(value, bound: float | int) -> Verdict:
    """The verdict value <= bound; NaN fails.

    Args:    value: a number or a tensor with one entry.   bound: the tolerance or the claimed bound.
    Returns: Verdict.
    Cost:    O(1).
    Source:  every check of the book and its control return one.
    Page:    notebooks/path_decomposition/paths
    """
    return Verdict(float(value), float(bound), bool(value <= bound))


def relative_error(got, wanted) -> float:
    """How far a tensor is from another, in units of the other: |got - wanted|_F / |wanted|_F.

    Args:    got, wanted: tensors of one shape.
    Returns: a float; NaN if both are zero.
    Cost:    O(entries).
    Source:  the definition.
    Page:    notebooks/path_decomposition/paths
    """
    return float((got - wanted).norm() / wanted.norm())


def exact(matrix) -> Matrix:
    """The same numbers as Fractions: every float is a dyadic rational, so nothing is rounded.

    Args:    matrix: nested rows of int, float or Fraction, or a two-dimensional tensor.
    Returns: list of rows of Fractions.
    Raises:  ValueError if the rows are empty or of different lengths, or an entry is not finite.
    Cost:    O(entries).
    Source:  IEEE 754: a finite float is an integer times a power of two.
    Page:    notebooks/path_decomposition/paths
    """
    rows = matrix.tolist() if hasattr(matrix, "tolist") else matrix
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("a matrix needs at least one entry, and rows of one length")
    try:
        return [[Fraction(entry) for entry in row] for row in rows]
    except (OverflowError, ValueError):
        raise ValueError("a matrix in exact arithmetic holds no NaN and no infinity") from None


def row_stochastic(weights) -> Matrix:
    """Divide each row by its sum, exactly, so that P 1 = 1 holds without rounding.

    Args:    weights: nested rows or a tensor, nonnegative, no row zero.
    Returns: Matrix with rows that sum to one.
    Raises:  ValueError for a negative entry or a row that sums to zero.
    Cost:    O(entries).
    Source:  the hypothesis P 1 = 1 of the path decomposition.
    Page:    notebooks/path_decomposition/paths
    """
    rows = exact(weights)
    if any(min(row) < 0 or sum(row) == 0 for row in rows):
        raise ValueError("rows must be nonnegative and not all zero, to be divided by their sum")
    return [[entry / sum(row) for entry in row] for row in rows]


def product(*matrices: Matrix) -> Matrix:
    """The product of matrices, first to last, in Fractions.

    Args:    matrices: at least one, of fitting shapes.
    Returns: Matrix.
    Raises:  ValueError if the shapes do not fit.
    Cost:    O(p q r) exact operations for each pair (p, q) (q, r).
    Source:  the definition.
    Page:    notebooks/path_decomposition/paths
    """
    left = matrices[0]
    for right in matrices[1:]:
        if len(left[0]) != len(right):
            raise ValueError(f"cannot multiply {len(left)} x {len(left[0])} with {len(right)} x {len(right[0])}")
        columns = list(zip(*right))
        left = [[sum(map(Fraction.__mul__, row, column), Fraction()) for column in columns] for row in left]
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
    """The forward pass with given attention, in Fractions; z multiplies the output of every head.

        X <- [X +] z sum_h P_h (X W_h + 1 u_h') + 1 b'

    Args:    x: n rows of d.   attention: P_h (n x n), a list of heads a layer.   weights: W_h (d x d), likewise.
             value_biases: u_h = W_O,h' b_V,h, a row of d a head.   biases: b_O, a row of d a layer; None for zero.
             skip: add the input of each layer.   z: any number.
    Returns: n rows of d. Nothing is assumed of P: its rows need not sum to one.
    Raises:  ValueError if attention and weights do not have the same layers and heads.
    Cost:    O(L H (n^2 d + n d^2)) exact operations.
    Source:  the definition of the network; shares no code with attnlib.attention.
    Claim:   paths.decomposition      Page: notebooks/path_decomposition/paths
    """
    if [len(p) for p in attention] != [len(w) for w in weights] or not weights:
        raise ValueError("attention and weights must have the same layers, at least one, and the same heads")
    none = [Fraction()] * len(weights[0][0][0])
    for layer, (heads, maps) in enumerate(zip(attention, weights)):
        rows = value_biases[layer] if value_biases else [none] * len(heads)
        terms = [product(p, _add_row(product(x, w), u)) for p, w, u in zip(heads, maps, rows)]
        y = [[z * sum(entries) for entries in zip(*lines)] for lines in zip(*terms)]
        y = _add_row(y, biases[layer] if biases else none)
        x = [[u + v for u, v in zip(old, new)] for old, new in zip(x, y)] if skip else y
    return x


def _add_row(matrix: Matrix, row: Sequence[Fraction]) -> Matrix:
    return [[entry + b for entry, b in zip(line, row)] for line in matrix]


def decomposition_gap(x: Matrix, attention, weights, *, value_biases, biases=None, skip: bool = False) -> Fraction:
    """The largest entry of network - sum of all paths - 1 b', exactly; zero when the decomposition holds.

        b <- [skip] b + b_O + sum_h (u_h + W_h' b)      layer by layer, from b = 0

    Args:    x, attention, weights, value_biases, biases, skip: as in network.
    Returns: a Fraction; zero for every choice of biases if P 1 = 1.
    Raises:  ValueError as network.
    Cost:    L + 2 networks.
    Source:  Xie 2021, Theorem 2.1; differs: the row b is spelled out, and nothing is assumed of P.
    Claim:   paths.row-sums      Page: notebooks/path_decomposition/paths
    """
    whole = network(x, attention, weights, value_biases=value_biases, biases=biases, skip=skip)
    b = [Fraction()] * len(x[0])
    for layer, maps in enumerate(weights):
        carried = [product([b], w)[0] for w in maps]
        own = [biases[layer]] if biases else []
        b = [sum(entries) for entries in zip(*carried, *value_biases[layer], *own, *([b] if skip else []))]
    sums = path_sum(x, attention, weights, skip=skip)
    paths = [[sum(s[i][j] for s in sums) for j in range(len(b))] for i in range(len(x))]
    return max(abs(u - v - c) for line, rest in zip(whole, paths) for u, v, c in zip(line, rest, b))


def path_sum(x: Matrix, attention, weights, *, skip: bool = False) -> list[Matrix]:
    """The exact sum of all paths of each length, read off as coefficients of a polynomial in z.

        network(z) = sum_k z^k S_k,    from its values at z = 0, ..., L by interpolation

    Args:    x, attention, weights, skip: as in network, without biases.
    Returns: L + 1 matrices S_0, ..., S_L in Fractions.
    Raises:  ValueError as network.
    Cost:    L + 1 networks; neither lists a path nor runs the recursion of attnlib.paths.
    Source:  Lagrange interpolation.
    Claim:   paths.sums      Page: notebooks/path_decomposition/paths
    """
    nodes = range(len(weights) + 1)
    values = [network(x, attention, weights, skip=skip, z=z) for z in nodes]
    basis = [_lagrange(node, nodes) for node in nodes]
    rows, columns = range(len(values[0])), range(len(values[0][0]))
    return [
        [[sum(basis[z][k] * values[z][i][j] for z in nodes) for j in columns] for i in rows]
        for k in nodes
    ]


def _lagrange(node: int, nodes: Sequence[int]) -> list[Fraction]:
    """Coefficients, constant term first, of the polynomial that is 1 at the node and 0 at the others."""
    coefficients = [Fraction(1)]
    for other in nodes:
        if other != node:
            shifted = [Fraction(), *coefficients]
            scaled = [*(other * c for c in coefficients), Fraction()]
            coefficients = [(a - b) / (node - other) for a, b in zip(shifted, scaled)]
    return coefficients


def log_residuals(x, layers, *, digits: int) -> list[float]:
    """ln of the composite norm of the mean-centred residual after each layer, with many digits.

    Args:    x: nested rows.   layers: tuples in the order of attention.Layer, as nested lists or None.
             digits: decimal digits; the residual must stay far above 10^-digits.
    Returns: L + 1 floats, input first; -inf for a residual of zero.
    Cost:    O(L h n^2 d) operations on numbers of that many digits.
    Source:  the forward pass as it is written, twin of attnlib.collapse.log_residuals.
    Page:    notebooks/path_decomposition/rank_collapse
    """
    with mpmath.workdps(digits):
        x, found = mpmath.matrix(x), []
        for layer in [None, *layers]:
            x = x if layer is None else _attend(x, *layer)
            columns = [[x[i, j] - mpmath.fsum(x[:, j]) / x.rows for i in range(x.rows)] for j in range(x.cols)]
            one = max(mpmath.fsum(map(abs, column)) for column in columns)
            inf = max(mpmath.fsum(map(abs, row)) for row in zip(*columns))
            found.append(float(mpmath.log(one * inf) / 2) if one else -mpmath.inf)
    return [float(v) for v in found]


def _attend(x, w_q, w_k, w_v, w_o, b_q=None, b_k=None, b_v=None, b_o=None):
    """One layer in mpmath: sum_h softmax(Q K' / sqrt(d_qk)) V W_O + 1 b_O'."""
    ones = mpmath.ones(x.rows, 1)
    total = mpmath.zeros(x.rows, len(w_o[0][0])) if b_o is None else ones * mpmath.matrix([b_o])
    for h in range(len(w_q)):
        pairs = (w_q, b_q), (w_k, b_k), (w_v, b_v)
        q, k, v = (x * mpmath.matrix(w[h]) + (0 if b is None else ones * mpmath.matrix([b[h]])) for w, b in pairs)
        p = (q * k.T / mpmath.sqrt(q.cols)).apply(mpmath.exp)
        for i in range(p.rows):
            p[i, :] = p[i, :] / mpmath.fsum(p[i, :])
        total += p * v * mpmath.matrix(w_o[h])
    return total


def family_residual(m: int, e: int | Fraction, tiny: Fraction = Fraction(0)) -> Fraction:
    """The squared composite norm of the mean-centred PR, for the tokens of the family without an absolute constant.

        R = (I; -I), m columns;  logits 1 r' + w R R', e = exp(w);  exp(r) = (m - 1, 1, .., 1) and tiny over these

    Args:    m: number of columns, at least 3; n = 2 m tokens.   e: exp(w) > 1, rational.   tiny: exp(-2 K), the
             weight of -j before normalising; 0 is the limit.
    Returns: an exact Fraction.
    Cost:    O(1) operations.
    Source:  derived on the page: the tokens +j behave alike for all j >= 2, and so do the -j.
    Claim:   collapse.family      Page: notebooks/path_decomposition/rank_collapse
    """
    big, one, e = Fraction(m - 1), Fraction(1), Fraction(e)
    weights = {+1: big, -1: tiny / big}, {+1: one, -1: tiny}  # of +-1, and of +-j
    rows = []  # entries of PR in column 1, in the own column, in another column j
    for kind, sign in ((0, 1), (0, -1), (1, 1), (1, -1)):
        own = {t: weights[kind][t] * (e if t == sign else 1 / e) for t in (1, -1)}
        first = own if kind == 0 else weights[0]
        others = m - 1 - kind
        total = sum(own.values()) + others * (one + tiny) + (sum(first.values()) if kind else 0)
        rows.append([(v[1] - v[-1]) / total for v in (first, own, weights[1])])
    (a, b, c, f), n = rows, 2 * m
    mean_1 = (a[0] + b[0] + (m - 1) * (c[0] + f[0])) / n
    mean_j = (a[2] + b[2] + c[1] + f[1] + (m - 2) * (c[2] + f[2])) / n
    off = [(abs(r[0] - mean_1), abs(r[1] - mean_j), abs(r[2] - mean_j)) for r in rows]
    column_1 = off[0][0] + off[1][0] + (m - 1) * (off[2][0] + off[3][0])
    column_j = off[0][2] + off[1][2] + off[2][1] + off[3][1] + (m - 2) * (off[2][2] + off[3][2])
    row = max(*(r[0] + (m - 1) * r[2] for r in off[:2]), *(r[0] + r[1] + (m - 2) * r[2] for r in off[2:]))
    return max(column_1, column_j) * row


def norms(matrix: Matrix) -> tuple[Fraction, Fraction]:
    """The largest absolute column sum |A|_1 and the largest absolute row sum |A|_inf, exactly.

    Args:    matrix: a Matrix.
    Returns: (|A|_1, |A|_inf); the square of the composite norm is their product.
    Cost:    O(entries).
    Source:  Xie 2021, Definition 2.1.
    Claim:   questions.quasi-norm      Page: notebooks/path_decomposition/four_questions
    """
    sizes = [[abs(entry) for entry in row] for row in matrix]
    return max(map(sum, zip(*sizes))), max(map(sum, sizes))


def rank(matrix: Matrix) -> int:
    """The rank, exactly, by Gaussian elimination.

    Args:    matrix: a Matrix.
    Returns: an integer.
    Cost:    O(n^2 m) exact operations.
    Source:  the definition; no tolerance is needed in Fractions.
    Claim:   questions.low-rank      Page: notebooks/path_decomposition/four_questions
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
