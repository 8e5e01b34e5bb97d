"""Rank collapse with many digits, and its family in Fractions: a second evaluation of
attnlib.collapse.

Page: notebooks/path_decomposition/rank_collapse
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath

from attnlib.certify.matrices import _exact, _is_list, _rationals

_Pair = dict[int, Fraction]  # a number for +j and one for -j


def log_residuals(x, layers, *, digits: int) -> list[float]:
    """ln of the composite norm of the mean-centred residual after each layer, with many
    digits.

    Args:
        x: nested rows.
        layers: tuples in the order of attention.Layer, as nested lists or None.
        digits: decimal digits, at least 1; the residual must stay far above 10^-digits.

    Returns:
        L + 1 floats, input first; -inf for a residual of zero.

    Raises:
        ValueError: for ragged rows, weights that do not fit, NaN or infinity, digits
            below 1, a residual without a digit left.

    Cost: O(L h n^2 d) operations on numbers of that many digits.
    Source: the forward pass as it is written, twin of attnlib.collapse.log_residuals.
    """
    if not isinstance(digits, int) or isinstance(digits, bool) or digits < 1:
        raise ValueError(f"digits must be an integer of at least 1, got {digits!r}")
    d = len(_exact("x", x)[0])
    if not _is_list(layers):
        raise ValueError(f"layers must be a list, got {type(layers).__name__}")
    for layer in layers:
        _fits(layer, d)
    with mpmath.workdps(digits):
        x = mpmath.matrix(x)
        found = [_log_residual(x)]
        for layer in layers:
            x = _attend(x, *layer)
            found.append(_log_residual(x))
    return found


def _fits(layer, d: int) -> None:
    """The weights of a layer fit each other and tokens of width d."""
    if not _is_list(layer) or not 4 <= len(layer) <= 8:
        raise ValueError("layers must hold (w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o)")
    if not all(_is_list(w) and len(w) == len(layer[0]) > 0 for w in layer[:4]):
        raise ValueError("the weights of layers must be lists of as many heads each")
    for w_q, w_k, w_v, w_o in zip(*layer[:4]):
        shapes = []
        for w in (w_q, w_k, w_v, w_o):
            w = _exact("a weight of layers", w)
            shapes.append((len(w), len(w[0])))
        d_qk, d_v = shapes[0][1], shapes[2][1]
        wanted = [(d, d_qk), (d, d_qk), (d, d_v), (d_v, d)]
        if shapes != wanted:
            raise ValueError(f"weights of layers must be {wanted}, got {shapes}")
    *of_heads, b_o = [*layer[4:], None, None, None, None][:4]
    for b, w in zip(of_heads, layer):
        if b is not None:
            b = _exact("a bias of layers", b)
            if (len(b), len(b[0])) != (len(w), len(w[0][0])):
                raise ValueError("biases of layers must have a row a head")
    if b_o is not None and len(_exact("b_o of layers", [b_o])[0]) != d:
        raise ValueError(f"b_o of layers must have {d} entries, got {len(b_o)}")


def _log_residual(x) -> float:
    """ln of the composite norm of what is left of x without its mean."""
    columns = []
    for j in range(x.cols):
        mean = mpmath.fsum(x[:, j]) / x.rows
        columns.append([x[i, j] - mean for i in range(x.rows)])
    rows = list(zip(*columns))
    one = max(mpmath.fsum(column, absolute=True) for column in columns)
    inf = max(mpmath.fsum(row, absolute=True) for row in rows)
    if not one:
        return -math.inf
    if one < mpmath.mnorm(x, 1) * mpmath.mpf(10) ** (1 - mpmath.mp.dps):
        raise ValueError(
            f"{mpmath.mp.dps} digits leave nothing of a residual: take more"
        )
    return float(mpmath.log(one * inf) / 2)


def _attend(x, w_q, w_k, w_v, w_o, b_q=None, b_k=None, b_v=None, b_o=None):
    """One layer in mpmath: sum_h softmax(Q K' / sqrt(d_qk)) V W_O + 1 b_O'."""
    ones = mpmath.ones(x.rows, 1)

    def head(w, b, h):
        y = x * mpmath.matrix(w[h])
        if b is not None:
            y += ones * mpmath.matrix([b[h]])
        return y

    d = len(w_o[0][0])
    total = mpmath.zeros(x.rows, d)
    if b_o is not None:
        total = ones * mpmath.matrix([b_o])
    for h in range(len(w_q)):
        q = head(w_q, b_q, h)
        k = head(w_k, b_k, h)
        v = head(w_v, b_v, h)
        logits = q * k.T / mpmath.sqrt(q.cols)
        p = logits.apply(mpmath.exp)
        for i in range(p.rows):
            p[i, :] /= mpmath.fsum(p[i, :])
        total += p * v * mpmath.matrix(w_o[h])
    return total


def family_residual(
    m: int, e: int | Fraction, tiny: Fraction = Fraction(0)
) -> Fraction:
    """The squared composite norm of the mean-centred PR, for the tokens of the family
    without an absolute constant.

        R = (I; -I), m columns;  logits 1 r' + w R R', e = exp(w);
        exp(r) = (m - 1, 1, .., 1) and tiny over these

    Args:
        m: number of columns, at least 3; n = 2 m tokens.
        e: exp(w) > 1, rational.
        tiny: exp(-2 K) in [0, 1], the weight of -j before normalising; 0 is the limit.

    Returns:
        an exact Fraction.

    Raises:
        ValueError: for m below 3, e of at most 1, and tiny outside [0, 1].

    Cost: O(1) operations.
    Source: derived on the page: the tokens +j behave alike for all j >= 2, and so do
        the -j.
    Claim: collapse.family
    """
    if not isinstance(m, int) or m < 3:
        raise ValueError(f"m must be an integer of at least 3, got {m!r}")
    [e] = _rationals("e", [e])
    [tiny] = _rationals("tiny", [tiny])
    if not (e > 1 and 0 <= tiny <= 1):
        raise ValueError(
            f"e = exp(w) must be above 1, and tiny = exp(-2 K) in [0, 1], got {e} and "
            f"{tiny}"
        )
    big = Fraction(m - 1)
    weights_1 = {1: big, -1: tiny / big}  # of the tokens +1 and -1
    weights_j = {1: Fraction(1), -1: tiny}  # of +j and -j, for m - 1 values of j
    total_1 = sum(weights_1.values())
    total_j = sum(weights_j.values())

    rows_1 = []  # of PR: the entry in column 1, and in another column
    for sign in (1, -1):  # the tokens +1 and -1
        own = _favour(weights_1, sign, e)
        total = sum(own.values()) + (m - 1) * total_j
        rows_1.append(_averages(total, own, weights_j))
    rows_j = []  # the entry in column 1, in the own column, and in another one
    for sign in (1, -1):  # the tokens +j and -j
        own = _favour(weights_j, sign, e)
        total = sum(own.values()) + total_1 + (m - 2) * total_j
        rows_j.append(_averages(total, weights_1, own, weights_j))

    sum_1, sum_j = _column_sums(rows_1, rows_j, m)
    mean_1 = sum_1 / (2 * m)
    mean_j = sum_j / (2 * m)
    off_1 = [_distances(row, (mean_1, mean_j)) for row in rows_1]
    off_j = [_distances(row, (mean_1, mean_j, mean_j)) for row in rows_j]
    row_sums = []
    for in_1, in_other in off_1:
        row_sums.append(in_1 + (m - 1) * in_other)
    for in_1, in_own, in_other in off_j:
        row_sums.append(in_1 + in_own + (m - 2) * in_other)
    return max(_column_sums(off_1, off_j, m)) * max(row_sums)


def _favour(weights: _Pair, sign: int, e: Fraction) -> _Pair:
    """The weights of +-j as a token of this sign and column has them: e times for
    itself, 1 / e times for its opposite.
    """
    return {sign: weights[sign] * e, -sign: weights[-sign] / e}


def _averages(total: Fraction, *columns: _Pair) -> list[Fraction]:
    """What +1 and -1 average to in each column, by their weights there."""
    return [(v[1] - v[-1]) / total for v in columns]


def _distances(row: list[Fraction], means: tuple[Fraction, ...]) -> list[Fraction]:
    return [abs(entry - mean) for entry, mean in zip(row, means)]


def _column_sums(rows_1, rows_j, m: int) -> tuple[Fraction, Fraction]:
    """The sum of column 1 and of a column j over all 2 m tokens, from the rows of +1
    and -1, and of +j and -j.
    """
    column_1 = column_j = Fraction()
    for in_1, in_other in rows_1:
        column_1 += in_1
        column_j += in_other
    for in_1, in_own, in_other in rows_j:
        column_1 += (m - 1) * in_1
        column_j += in_own + (m - 2) * in_other
    return column_1, column_j
