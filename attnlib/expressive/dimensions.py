"""How many dimensions a pattern needs: spherical caps, the expected number of failures,
two theorems, and the mass on the zeros.

    sigma_d(theta) = int_0^theta sin^(d-2) / int_0^pi sin^(d-2)

Here n is a number of tokens and k of entries a row; eps1 bounds a zero against an
entry, 1 + eps2 a ratio of entries.

Page: notebooks/sparse_patterns/logarithmic_dimension
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import mpmath

from attnlib._require import numbers, one_of, require, sizes

DELTA = 0.5  # the chance of failure that the theorems allow


def cap(theta: float, d: int) -> float:
    """The share of the unit sphere of R^d within an angle of one of its points: the
    chance that two uniform unit vectors u, v have u . v >= cos theta.

        sigma_d(theta) = I_{sin^2 theta}((d - 1) / 2, 1 / 2) / 2   for theta <= pi / 2

    with I the regularised incomplete beta function; the relative error is below 1e-12.

    Claim: expressive.expected, codes.factor-four
    """
    sizes(1, d=d)
    numbers(theta=theta)
    require(0 <= theta <= math.pi, f"theta must be an angle in 0..pi, got {theta}")
    if d == 1:  # two points
        return 1.0 if theta == math.pi else 0.5
    if theta > math.pi / 2:
        return 1 - cap(math.pi - theta, d)
    with mpmath.workdps(34):  # digits enough to tell angles near pi / 2 apart
        square_sine = mpmath.sin(theta) ** 2
    share = mpmath.betainc((d - 1) / 2, 0.5, 0, square_sine, regularized=True)
    return float(share) / 2


def _smallest(expected: Callable[[int], float], goal: float) -> int:
    """The smallest d >= 1 with expected(d) <= goal, if expected falls with d."""
    high = 1
    while expected(high) > goal:
        high *= 2

    def enough(d: int) -> bool:
        return expected(d) <= goal

    return bisect_left(range(high), True, lo=high // 2 + 1, key=enough)


def predicted_dimension(n: int, k: int, *, eps1: float, s: float) -> int:
    """The smallest d at which at most one wanted zero is expected to be too large, for
    equal weights and uniform unit vectors u, v.

        N P(u . v > t / sqrt(k)) <= 1,   t = 1 - log(1 / eps1) / s,
        N = n (n - k), or n (n - 1) / 2 for k = 1

    Args:
        s: level of the logits.

    Source: derived on the page; exact for k = 1, and for k > 1 it takes |q_i| = s
        sqrt(k).
    Claim: expressive.expected
    """
    sizes(1, n=n, k=k)
    require(k <= n, f"k must lie in 1..n = {n}, got {k}")
    numbers(eps1=eps1, s=s)
    require(0 < eps1 < 1, f"eps1 must lie strictly between 0 and 1, got {eps1}")
    wanted = -math.log(eps1)
    require(s > wanted, f"s must exceed log(1 / eps1) = {wanted:.4g}, got {s}")
    theta = math.acos((1 - wanted / s) / math.sqrt(k))
    pairs = n * (n - k)
    if k == 1:
        pairs = pairs / 2  # a query is its key, so logits are symmetric

    def expected(d: int) -> float:
        """How many zeros are too large in d dimensions, on average."""
        return pairs * cap(theta, d)

    return _smallest(expected, 1.0)


def plain_dimension(
    n: int,
    k: int,
    *,
    gamma: float = 1.0,
    eps1: float,
    eps2: float,
) -> int:
    """The dimension of the theorem on plain projections.

        d >= (2 ln n + ln(4 / delta)) / (eta^2 / 4 - eta^3 / 6),
        eta = ln(1 + eps2) / (2 sqrt(k) ln(gamma (1 + eps2) / eps1))

    Args:
        gamma: largest ratio of weights in a row.

    Source: derived on the page, after the first step of Likhosherstov et al. 2021.
    Claim: expressive.plain
    """
    sizes(1, n=n, k=k)
    _tolerances(eps1, eps2)
    numbers(gamma=gamma)
    require(gamma >= 1, f"gamma must be at least 1, got {gamma}")
    b = math.log(gamma * (1 + eps2) / eps1)  # the largest logit that is asked for
    eta = math.log1p(eps2) / (2 * math.sqrt(k) * b)
    events = 2 * math.log(n) + math.log(4 / DELTA)
    rate = eta**2 / 4 - eta**3 / 6
    require(rate > 1e-300, f"no number is so large: eps2 = {eps2}, eps1 = {eps1}")
    return math.ceil(events / rate)


def _tolerances(eps1: float, eps2: float) -> None:
    """Refuse what no pattern can be held against."""
    numbers(eps1=eps1, eps2=eps2)
    require(
        0 < eps1 < 1,
        f"eps1 must lie strictly between 0 and 1, got {eps1}: "
        "at 1 a zero may weigh as much as an entry",
    )
    require(0 < eps2 < 1, f"eps2 must lie strictly between 0 and 1, got {eps2}")


@dataclass(frozen=True, slots=True)
class Lines:
    """What each line of the theorem on interpolated projections asks of d.

    Args:
        net: queries are short, by a net of the sphere.
        pairs: queries are short, by pairs of keys; one of these two is enough.
        others: no other key leans on a query.
    """

    net: float
    pairs: float
    others: float

    @property
    def binding(self) -> str:
        """The line that decides: "net", "pairs" or "others"."""
        if self.others >= min(self.net, self.pairs):
            return "others"
        return "pairs" if self.pairs <= self.net else "net"


def interpolated_lines(n: int, k: int, *, keys: str = "sphere") -> Lines:
    """The lines of the theorem on interpolated projections: no eps1, no eps2, no gamma.

        net:     c (k ln 9 + ln(4 n / delta))
        pairs:   8 (k - 1)^2 ln(4 n binom(k, 2) / delta)
        others:  16 k ln(2 n^2 / delta);   for k = 1:  8 ln(n^2 / delta)

    For k = 1 a query is as long as its level, and `net` and `pairs` are 0.

    Args:
        keys: "signs", c = 76.8, or "sphere", c = 162.

    Source: derived on the page.
    Claim: expressive.interpolated
    """
    sizes(1, n=n, k=k)
    one_of(("sphere", "signs"), keys=keys)
    if k == 1:
        return Lines(0.0, 0.0, 8 * math.log(n**2 / DELTA))
    c = 162 if keys == "sphere" else 76.8
    pairs_of_keys = n * math.comb(k, 2)
    return Lines(
        net=c * (k * math.log(9) + math.log(4 * n / DELTA)),
        pairs=8 * (k - 1) ** 2 * math.log(4 * pairs_of_keys / DELTA),
        others=16 * k * math.log(2 * n**2 / DELTA),
    )


def interpolated_dimension(n: int, k: int, *, keys: str = "sphere") -> int:
    """The dimension of the theorem on interpolated projections.

        d >= min(net, pairs)  and  d >= others,   the lines of interpolated_lines

    Source: derived on the page.
    Claim: expressive.interpolated
    """
    lines = interpolated_lines(n, k, keys=keys)
    short_queries = min(lines.net, lines.pairs)
    return math.ceil(max(short_queries, lines.others))


def expected_leak(n: int, d: int, s: float) -> float:
    """The mean of (mass on zeros) / (mass on the entry) of a row with one entry, for
    uniform unit keys and u a coordinate of one.

        (n - 1) e^-s E e^(s u)
            = (n - 1) e^-s Gamma(d / 2) (2 / s)^(d / 2 - 1) I_(d / 2 - 1)(s)

    Args:
        s: level of the logits.

    Source: derived on the page; I is a Bessel function, and E e^(s u) =
        0F1(d / 2, s^2 / 4) by mpmath.
    Claim: expressive.leak
    """
    sizes(1, n=n, d=d)
    numbers(s=s)
    mean = mpmath.hyp0f1(d / 2, s * s / 4)
    return float((n - 1) * mpmath.exp(-s) * mean)
