"""Rank collapse with many digits, and its family in Fractions: a second evaluation of
attnlib.collapse.
"""

from __future__ import annotations

from fractions import Fraction

import mpmath


def log_residuals(x, layers, *, digits: int) -> list[float]:
    """ln of the composite norm of the mean-centred residual after each layer, with many
    digits.

    Args:
        x: nested rows.
        layers: tuples in the order of attention.Layer, as nested lists or None.
        digits: decimal digits; the residual must stay far above 10^-digits.

    Returns:
        L + 1 floats, input first; -inf for a residual of zero.

    Cost:
        O(L h n^2 d) operations on numbers of that many digits.

    Source:
        the forward pass as it is written, twin of attnlib.collapse.log_residuals.

    Page:
        notebooks/path_decomposition/rank_collapse
    """
    with mpmath.workdps(digits):
        x, found = mpmath.matrix(x), []
        for layer in [None, *layers]:
            x = x if layer is None else _attend(x, *layer)
            columns = [
                [x[i, j] - mpmath.fsum(x[:, j]) / x.rows for i in range(x.rows)]
                for j in range(x.cols)
            ]
            one = max(mpmath.fsum(map(abs, column)) for column in columns)
            inf = max(mpmath.fsum(map(abs, row)) for row in zip(*columns))
            found.append(float(mpmath.log(one * inf) / 2) if one else -mpmath.inf)
    return [float(v) for v in found]


def _attend(x, w_q, w_k, w_v, w_o, b_q=None, b_k=None, b_v=None, b_o=None):
    """One layer in mpmath: sum_h softmax(Q K' / sqrt(d_qk)) V W_O + 1 b_O'."""
    ones = mpmath.ones(x.rows, 1)
    total = (
        mpmath.zeros(x.rows, len(w_o[0][0]))
        if b_o is None
        else ones * mpmath.matrix([b_o])
    )
    for h in range(len(w_q)):
        pairs = (w_q, b_q), (w_k, b_k), (w_v, b_v)
        q, k, v = (
            x * mpmath.matrix(w[h]) + (0 if b is None else ones * mpmath.matrix([b[h]]))
            for w, b in pairs
        )
        p = (q * k.T / mpmath.sqrt(q.cols)).apply(mpmath.exp)
        for i in range(p.rows):
            p[i, :] = p[i, :] / mpmath.fsum(p[i, :])
        total += p * v * mpmath.matrix(w_o[h])
    return total


def family_residual(
    m: int, e: int | Fraction, tiny: Fraction = Fraction(0)
) -> Fraction:
    """The squared composite norm of the mean-centred PR, for the tokens of the family
    without an absolute constant.

        R = (I; -I), m columns;  logits 1 r' + w R R', e = exp(w);  exp(r) = (m - 1, 1, .., 1) and tiny over these

    Args:
        m: number of columns, at least 3; n = 2 m tokens.
        e: exp(w) > 1, rational.
        tiny: exp(-2 K), the weight of -j before normalising; 0 is the limit.

    Returns:
        an exact Fraction.

    Cost:
        O(1) operations.

    Source:
        derived on the page: the tokens +j behave alike for all j >= 2, and so do the
        -j.

    Claim:
        collapse.family

    Page:
        notebooks/path_decomposition/rank_collapse
    """
    big, one, e = Fraction(m - 1), Fraction(1), Fraction(e)
    weights = {+1: big, -1: tiny / big}, {+1: one, -1: tiny}  # of +-1, and of +-j
    rows = []  # entries of PR in column 1, in the own column, in another column j
    for kind, sign in ((0, 1), (0, -1), (1, 1), (1, -1)):
        own = {t: weights[kind][t] * (e if t == sign else 1 / e) for t in (1, -1)}
        first = own if kind == 0 else weights[0]
        others = m - 1 - kind
        total = (
            sum(own.values())
            + others * (one + tiny)
            + (sum(first.values()) if kind else 0)
        )
        rows.append([(v[1] - v[-1]) / total for v in (first, own, weights[1])])
    (a, b, c, f), n = rows, 2 * m
    mean_1 = (a[0] + b[0] + (m - 1) * (c[0] + f[0])) / n
    mean_j = (a[2] + b[2] + c[1] + f[1] + (m - 2) * (c[2] + f[2])) / n
    off = [(abs(r[0] - mean_1), abs(r[1] - mean_j), abs(r[2] - mean_j)) for r in rows]
    column_1 = off[0][0] + off[1][0] + (m - 1) * (off[2][0] + off[3][0])
    column_j = (
        off[0][2]
        + off[1][2]
        + off[2][1]
        + off[3][1]
        + (m - 2) * (off[2][2] + off[3][2])
    )
    row = max(
        *(r[0] + (m - 1) * r[2] for r in off[:2]),
        *(r[0] + r[1] + (m - 2) * r[2] for r in off[2:]),
    )
    return max(column_1, column_j) * row
