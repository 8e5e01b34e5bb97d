"""Differences of softmax averages, enclosed with free exponents: a gap of 10^-77513
needs no more bits than one of 1.

    t = z_c + w sum_k z_k e^(beta z_c z_k) / Z
    (t - t') Z Z' = sum_E c_E e^(beta E),   the c_E and E rational

`context_terms` is this formula; an interval around it that holds zero gets more bits.

Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

import mpmath
from mpmath import iv

from attnlib.certify.matrices import _exact, _is_list, _rationals, product

# A query and the tokens, the query among them or not.
Context = tuple[Fraction | int | float, Sequence[Fraction | int | float]]


@dataclass(frozen=True)
class Enclosure:
    """An interval that holds a difference for certain.

    Args:
        lower, upper: ends, numbers of mpmath, whose exponents are unbounded; both 0 if
            the difference is exactly 0.
    """

    lower: Any
    upper: Any

    @property
    def sign(self) -> int:
        """-1, 0 or 1: certain, as no interval returned here holds zero beside other
        numbers.
        """
        return int(self.lower > 0) - int(self.upper < 0)

    @property
    def log10(self) -> float:
        """Of the least absolute value that is possible; -inf for zero."""
        least = min(abs(self.lower), abs(self.upper))
        return float(mpmath.log10(least)) if least else -float("inf")


def context_terms(
    first: Context, second: Context, *, weight: Fraction | int | float = 1
) -> dict[Fraction, Fraction]:
    """The difference of two scalar ids over a common denominator, as a sum of
    exponentials in beta.

    Args:
        first, second: (z_c, [z_1, ..., z_n]), rationals or finite floats, values may
            repeat.
        weight: w.

    Returns:
        {E: c_E} with c_E nonzero. Empty if and only if the ids agree at every beta;
        otherwise they differ at every nonzero algebraic beta (Lindemann and
        Weierstrass).

    Source: derived on the page; shares no code with attnlib.memorize.
    Claim: boltzmann.ids
    """
    c, a = _context("first", first)
    d, b = _context("second", second)
    w = _rational("weight", weight)
    pairs = []
    for x in a:
        for y in b:
            power = c * x + d * y
            pairs.append((power, c - d + w * (x - y)))
    return {power: c_E for power, c_E in _terms(pairs).items() if c_E}


def context_gap(
    first: Context, second: Context, *, beta, weight=1, bits: int = 128
) -> Enclosure:
    """An enclosure of the difference t - t' of two scalar ids, never wide enough to
    hold zero; exactly zero if they are equal, which is decided in Fractions.

    Args:
        first, second: (z_c, [z_1, ..., z_n]).
        beta, weight: rationals or finite floats.
        bits: of the mantissa; doubled until the interval excludes zero, which ends: see
            context_terms.

    Source: derived on the page: the numerator by exponents, so that nothing close is
        subtracted.
    Claim: boltzmann.ids
    """
    if not isinstance(bits, int) or isinstance(bits, bool) or bits < 16:
        raise ValueError(f"bits must be an integer, at least 16, got {bits!r}")
    terms = context_terms(first, second, weight=weight)
    s = _rational("beta", beta)
    if not terms or (s == 0 and sum(terms.values()) == 0):
        return Enclosure(mpmath.mpf(0), mpmath.mpf(0))
    c, a = _context("first", first)
    d, b = _context("second", second)
    numerator = _terms((s * power, c_E) for power, c_E in terms.items())
    mass = _terms((s * c * x, 1) for x in a)
    other_mass = _terms((s * d * y, 1) for y in b)
    saved = iv.prec
    try:
        while True:
            iv.prec = bits
            top, total = _sum(numerator)
            low, z = _sum(mass)
            high, other_z = _sum(other_mass)
            scale = iv.exp(_ball(top - low - high))
            gap = total / z / other_z * scale
            if 0 not in gap:
                return Enclosure(_end(gap.a), _end(gap.b))
            bits *= 2
    finally:
        iv.prec = saved


def boltzmann_gap(a: Sequence, b: Sequence, *, scale=1, bits: int = 128) -> Enclosure:
    """An enclosure of the difference of two softmax averages, as context_gap.

        f_a(s) - f_b(s),   f_a(s) = sum_k a_k e^(s a_k) / sum_k e^(s a_k);
        boltz(s a) = s f_a(s)

    Args:
        a, b: rationals or finite floats, each taken as the exact number; multisets, of
            any sizes.
        scale: s, likewise.
        bits: as in context_gap.

    Source: derived on the page; shares no code with attnlib.memorize.
    Claim: boltzmann.exact
    """
    for name, values in (("a", a), ("b", b)):
        _tokens(name, values)
    scale = _rational("scale", scale)
    return context_gap((1, a), (1, b), beta=scale, bits=bits)


def smallest_gap(
    contexts: Sequence[Context], *, beta, weight=1, bits: int = 128
) -> tuple[Enclosure, int, int]:
    """The smallest difference among many scalar ids, certified, and between which two
    it lies: (enclosure, i, j) with t_i <= t_j.

    Args:
        contexts: at least two (z_c, [z_1, ..., z_n]); to compare sets at one query,
            give all of them that query.
        beta, weight, bits: as in context_gap.

    Cost: O(N log N) gaps: the ids are sorted by certified signs, and neighbours
        compared.
    Source: the smallest difference lies between neighbours in the order.
    """
    if not _is_list(contexts) or len(contexts) < 2:
        got = len(contexts) if _is_list(contexts) else type(contexts).__name__
        raise ValueError(f"contexts must be a list of at least two, got {got}")
    for context in contexts:
        _context("each of contexts", context)

    def gap(i, j):
        return context_gap(
            contexts[i], contexts[j], beta=beta, weight=weight, bits=bits
        )

    def compare(i, j):
        return gap(i, j).sign

    order = sorted(range(len(contexts)), key=cmp_to_key(compare))
    found = []
    for i, j in pairwise(order):
        found.append((gap(j, i), i, j))
    return min(found, key=lambda neighbours: neighbours[0].lower)


def _rational(name: str, number) -> Fraction:
    """A finite real number as a Fraction."""
    [found] = _rationals(name, [number])
    return found


def _tokens(name: str, values) -> list[Fraction]:
    """The tokens of a context, at least one."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if not _is_list(values) or not values:
        raise ValueError(f"{name} must be a list of at least one token")
    return _rationals(name, values)


def _context(name: str, context: Context) -> tuple[Fraction, list[Fraction]]:
    if not _is_list(context) or len(context) != 2:
        raise ValueError(f"{name} must be a pair of a query and its tokens")
    query, tokens = context
    return _rational(name, query), _tokens(name, tokens)


def _terms(pairs) -> dict[Fraction, Fraction]:
    """Coefficients of equal exponents added up."""
    found: dict[Fraction, Fraction] = {}
    for power, c in pairs:
        found[power] = found.get(power, Fraction()) + c
    return found


def _ball(number: Fraction):
    """An interval around a rational."""
    return iv.mpf(number.numerator) / iv.mpf(number.denominator)


def _end(point) -> mpmath.mpf:
    """The end of an interval as a number with all its bits."""
    return mpmath.mp.make_mpf(point._mpi_[0])


def _sum(terms: dict[Fraction, Fraction]):
    """(top, enclosure of sum_E c_E e^(E - top)) with top the largest exponent."""
    top = max(terms)
    total = iv.mpf(0)
    for power, c in terms.items():
        total += _ball(c) * iv.exp(_ball(power - top))
    return top, total


def hardmax_layer(x, heads) -> list[list[Fraction]]:
    """One attention layer with skip and hardmax, ties averaged.

        X + sum_h hardmax(X W_Q (X W_K)') X W_V W_O

    Args:
        x: n rows of d, rationals.
        heads: (W_Q, W_K, W_V, W_O) for each head, nested rows of rationals.

    Source: the definition; shares no code with attnlib.attention.
    Claim: boltzmann.hardmax
    """
    x = _exact("x", x)
    out = list(x)
    if not _is_list(heads) or not all(_is_list(h) and len(h) == 4 for h in heads):
        raise ValueError("heads must be a list of (W_Q, W_K, W_V, W_O)")
    for head in heads:
        w_q, w_k, w_v, w_o = [_exact("a matrix of heads", w) for w in head]
        scores = product(x, w_q, list(zip(*product(x, w_k))))
        values = product(x, w_v, w_o)
        if len(values[0]) != len(x[0]):
            raise ValueError(
                f"W_O of heads must have {len(x[0])} columns, got {len(values[0])}"
            )
        for i, score in enumerate(scores):
            top = max(score)
            best = [v for v, s in zip(values, score) if s == top]
            count = len(best)
            mean = [Fraction(sum(column), count) for column in zip(*best)]
            out[i] = [u + v for u, v in zip(out[i], mean)]
    return out
