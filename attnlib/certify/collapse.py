"""Rank collapse with many digits, and its family in Fractions: a second evaluation of
attnlib.collapse.

    res(X) = X - 1 mean(X)';   ln |res(X)| after each layer, X <- sum_h P_h X W_h

Page: notebooks/path_decomposition/rank_collapse
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath

from attnlib.certify.matrices import _exact, _fitting, _is_list, _rationals


def log_residuals(x, layers, *, digits: int) -> list[float]:
    """ln of the composite norm of the mean-centred residual of the input and after each
    layer, with many digits; -inf for a residual of zero.

    Args:
        x: nested rows.
        layers: tuples in the order of attention.Layer, as nested lists or None.
        digits: decimal digits; the residual must stay far above 10^-digits.

    Source: the forward pass as it is written, twin of attnlib.collapse.log_residuals.
    """
    if not isinstance(digits, int) or isinstance(digits, bool) or digits < 1:
        raise ValueError(f"digits must be an integer of at least 1, got {digits!r}")
    _exact("x", x)
    if not _is_list(layers):
        raise ValueError(f"layers must be a list, got {type(layers).__name__}")
    with mpmath.workdps(digits):
        x = mpmath.matrix(x)
        found = [_log_residual(x)]
        for layer in layers:
            x = _attend(x, layer)
            found.append(_log_residual(x))
    return found


def _log_residual(x) -> float:
    """ln of the composite norm of what is left of x without its mean."""
    mean = mpmath.ones(1, x.rows) * x / x.rows
    left = x - mpmath.ones(x.rows, 1) * mean
    one = mpmath.mnorm(left, 1)
    if not one:
        return -math.inf
    if one < mpmath.mnorm(x, 1) * mpmath.mpf(10) ** (1 - mpmath.mp.dps):
        raise ValueError(
            f"{mpmath.mp.dps} digits leave nothing of a residual: take more"
        )
    return float(mpmath.log(one * mpmath.mnorm(left, mpmath.inf)) / 2)


def _attend(x, layer):
    """One layer in mpmath: sum_h softmax(Q K' / sqrt(d_qk)) V W_O + 1 b_O'."""
    if not _is_list(layer) or not 4 <= len(layer) <= 8:
        raise ValueError("layers must hold (w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o)")
    *weights, b_q, b_k, b_v, b_o = [*layer, None, None, None, None][:8]
    heads = len(layer[0]) if _is_list(layer[0]) else 0
    if not heads or not all(_is_list(w) and len(w) == heads for w in weights):
        raise ValueError("the weights of layers must be lists of as many heads each")
    d = x.cols
    ones = mpmath.ones(x.rows, 1)

    def mapped(w, b, h, width):
        y = x * mpmath.matrix(_fitting("a weight of layers", w, d, width))
        if b is None:
            return y
        b = _fitting("a bias of layers", b, heads, width)
        return y + ones * mpmath.matrix([b[h]])

    total = mpmath.zeros(x.rows, d)
    if b_o is not None:
        total = ones * mpmath.matrix(_fitting("b_o of layers", [b_o], 1, d))
    for h, (w_q, w_k, w_v, w_o) in enumerate(zip(*weights)):
        d_qk = len(_exact("w_q of layers", w_q)[0])
        d_v = len(_exact("w_v of layers", w_v)[0])
        q = mapped(w_q, b_q, h, d_qk)
        k = mapped(w_k, b_k, h, d_qk)
        v = mapped(w_v, b_v, h, d_v)
        p = (q * k.T / mpmath.sqrt(q.cols)).apply(mpmath.exp)
        for i in range(p.rows):
            p[i, :] /= mpmath.fsum(p[i, :])
        total += p * v * mpmath.matrix(_fitting("w_o of layers", w_o, d_v, d))
    return total


def family_residual(
    m: int, e: int | Fraction, tiny: Fraction = Fraction(0)
) -> Fraction:
    """The squared composite norm of the mean-centred PR, for the tokens of the family
    without an absolute constant.

        R = (I; -I), m columns;  logits 1 r' + w R R', e = exp(w);
        exp(r) = (m - 1, 1, .., 1) and tiny over these

    Args:
        m: columns, at least 3; n = 2 m tokens.
        e: exp(w) > 1, rational.
        tiny: exp(-2 K) in [0, 1], the weight of -j before normalising; 0 is the limit.

    Source: derived on the page: the tokens +j behave alike for all j >= 2, and so do
        the -j.
    Claim: collapse.family
    """
    rows_1, rows_j = _family_rows(m, e, tiny)
    sum_1, sum_j = _column_sums(rows_1, rows_j, m)
    means = [sum_1 / (2 * m), *[sum_j / (2 * m)] * 2]
    off_1 = [_distances(row, means) for row in rows_1]
    off_j = [_distances(row, means) for row in rows_j]
    row_sums = [in_1 + (m - 1) * in_other for in_1, in_other in off_1]
    row_sums += [in_1 + own + (m - 2) * in_other for in_1, own, in_other in off_j]
    return max(_column_sums(off_1, off_j, m)) * max(row_sums)


def family_residual_any(
    m: int, e: int | Fraction, tiny: Fraction = Fraction(0)
) -> Fraction:
    """What the squared composite norm of PR - 1 c' is at least, for every row c.

    Pair by pair |a - c| + |b - c| >= |a - b|: the rows +j and -j in column 1, and half
    the distance of the rows +1 and -1. The arguments are those of `family_residual`.

    Source: derived on the page.
    Claim: collapse.family
    """
    rows_1, rows_j = _family_rows(m, e, tiny)
    in_1, in_other = _distances(*rows_1)
    column = in_1 + (m - 1) * _distances(*rows_j)[0]
    return column * (in_1 + (m - 1) * in_other) / 2


def _family_rows(m: int, e: int | Fraction, tiny: Fraction):
    """The rows of PR of the tokens +1 and -1, then of +j and -j."""
    if not isinstance(m, int) or m < 3:
        raise ValueError(f"m must be an integer of at least 3, got {m!r}")
    [e] = _rationals("e", [e])
    [tiny] = _rationals("tiny", [tiny])
    if not (e > 1 and 0 <= tiny <= 1):
        raise ValueError(
            f"e = exp(w) must be above 1, and tiny = exp(-2 K) in [0, 1], got {e} and "
            f"{tiny}"
        )
    weights_1 = (Fraction(m - 1), tiny / (m - 1))  # of the tokens +1 and -1
    weights_j = (Fraction(1), tiny)  # of +j and -j, for m - 1 values of j
    total_1 = sum(weights_1)
    total_j = sum(weights_j)
    rows_1 = []  # of PR: the entry in column 1, and in another column
    rows_j = []  # the entry in column 1, in the own column, and in another one
    for liked in (e, 1 / e):  # the tokens +1 and +j, then -1 and -j
        own = _favoured(weights_1, liked)
        total = sum(own) + (m - 1) * total_j
        rows_1.append(_averages(total, own, weights_j))
        own = _favoured(weights_j, liked)
        total = sum(own) + total_1 + (m - 2) * total_j
        rows_j.append(_averages(total, weights_1, own, weights_j))
    return rows_1, rows_j


def _favoured(weights, liked: Fraction) -> tuple[Fraction, Fraction]:
    """The weights of + and - in a column as one of the two has them there."""
    plus, minus = weights
    return plus * liked, minus / liked


def _averages(total: Fraction, *columns) -> list[Fraction]:
    """What +1 and -1 average to in each column, by their weights there."""
    return [(plus - minus) / total for plus, minus in columns]


def _distances(row: list[Fraction], other: list[Fraction]) -> list[Fraction]:
    return [abs(entry - there) for entry, there in zip(row, other)]


def _column_sums(rows_1, rows_j, m: int) -> tuple[Fraction, Fraction]:
    """The sum of column 1 and of a column j over all 2 m tokens, from the rows of +1
    and -1, and of +j and -j.
    """
    column_1 = column_j = Fraction()
    for in_1, in_other in rows_1:
        column_1 += in_1
        column_j += in_other
    for in_1, own, in_other in rows_j:
        column_1 += (m - 1) * in_1
        column_j += own + (m - 2) * in_other
    return column_1, column_j
