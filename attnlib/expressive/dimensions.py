"""How many dimensions a pattern needs: two theorems, the expected number of failures,
and the mass on the zeros.

Page:
    notebooks/sparse_patterns/logarithmic_dimension
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib._require import require
from attnlib.expressive import _caps


def tolerances(eps1: float, eps2: float, restarts: int = 1) -> None:
    """Refuse what no pattern can be held against.

    Args:
        eps1, eps2: both strictly between 0 and 1.
        restarts: at least 1.

    Raises:
        ValueError: that names what it got.

    Cost:
        O(1).

    Source:
        the ranges in which the criteria mean something.
    """
    require(
        0 < eps1 < 1,
        f"eps1 must lie strictly between 0 and 1, got {eps1}: "
        "at 1 a zero may weigh as much as an entry",
    )
    require(0 < eps2 < 1, f"eps2 must lie strictly between 0 and 1, got {eps2}")
    require(
        type(restarts) is int and restarts >= 1,
        f"restarts must be at least 1, an integer, got {restarts}",
    )


def cap(t: Float[Tensor, "*batch"], d: int) -> Float[Tensor, "*batch"]:
    """The chance that two independent uniform unit vectors have an inner product above
    t.

        F_d(t) = I_{1 - t^2}((d - 1) / 2, 1 / 2) / 2   for t >= 0

    with I the regularised incomplete beta function.

    Args:
        t: any shape, |t| <= 1.
        d: dimension, at least 1.

    Returns:
        the shape of t, float64, relative error below 1e-8.

    Raises:
        ValueError: for |t| > 1 or d < 1.

    Cost:
        1601 evaluations an entry.

    Source:
        Simpson's rule for the integral of sin^(d - 2), scaled to where it is not
        negligible.

    Claim:
        expressive.expected
    """
    inside = bool((t.abs() <= 1).all())
    require(d >= 1 and inside, f"cap needs d >= 1 and |t| <= 1, got d = {d}")
    return _caps.tail(t, d)


def predicted_dimension(n: int, k: int, *, eps1: float, s: float) -> int:
    """The smallest d at which at most one wanted zero is expected to be too large, for
    equal weights.

        N P(u . v > t / sqrt(k)) <= 1,   t = 1 - log(1 / eps1) / s,
        N = n (n - k), or n (n - 1) / 2 for k = 1

    Args:
        n: tokens.
        k: entries a row.
        eps1: a zero against an entry.
        s: level of the logits, above log(1 / eps1).

    Returns:
        d, with u, v uniform unit vectors of R^d.

    Raises:
        ValueError: for sizes or a level out of range.

    Cost:
        some ten integrals.

    Source:
        derived on the page; exact for k = 1, and for k > 1 it takes |q_i| = s sqrt(k).

    Claim:
        expressive.expected
    """
    require(1 <= k <= n, f"k must lie in 1..n = {n}, got {k}")
    wanted = -math.log(eps1)
    require(
        s > wanted > 0,
        f"s must exceed log(1 / eps1) = {wanted:.4g}, and eps1 be below 1, got s = {s}",
    )
    t = (1 - wanted / s) / math.sqrt(k)
    t = torch.tensor(t, dtype=torch.float64)
    pairs = n * (n - k)
    if k == 1:
        pairs = pairs / 2  # a query is its key, so logits are symmetric

    def expected(d: int) -> float:
        """How many zeros are too large in d dimensions, on average."""
        return pairs * float(_caps.tail(t, d))

    return _caps.smallest(expected, 1.0)


def plain_dimension(
    n: int,
    k: int,
    *,
    gamma: float | int = 1.0,
    eps1: float,
    eps2: float,
    delta: float = 0.5,
) -> int:
    """The dimension of the theorem on plain projections.

        d >= (2 ln n + ln(4 / delta)) / (eta^2 / 4 - eta^3 / 6),
        eta = ln(1 + eps2) / (2 sqrt(k) ln(gamma (1 + eps2) / eps1))

    Args:
        n: tokens.
        k: entries a row.
        gamma: largest ratio of weights in a row.
        eps1, eps2: tolerances.
        delta: chance of failure.

    Returns:
        d.

    Raises:
        ValueError: for a tolerance out of range.

    Cost:
        O(1).

    Source:
        derived on the page, after the first step of Likhosherstov et al. 2021.

    Claim:
        expressive.plain
    """
    tolerances(eps1, eps2)
    b = math.log(gamma * (1 + eps2) / eps1)  # the largest logit that is asked for
    eta = math.log1p(eps2) / (2 * math.sqrt(k) * b)
    events = 2 * math.log(n) + math.log(4 / delta)
    rate = eta**2 / 4 - eta**3 / 6
    return math.ceil(events / rate)


def interpolated_dimension(
    n: int, k: int, *, delta: float = 0.5, keys: str = "sphere"
) -> int:
    """The dimension of the theorem on interpolated projections: no eps1, no eps2, no
    gamma.

        d >= c (k ln 9 + ln(4 n / delta))  and  d >= 16 k ln(2 n^2 / delta),
        for k = 1:  d >= 8 ln(n^2 / delta)

    Args:
        n: tokens.
        k: entries a row.
        delta: chance of failure.
        keys: "signs", c = 76.8, or "sphere", c = 162.

    Returns:
        d.

    Raises:
        ValueError: for keys without a theorem.

    Cost:
        O(1).

    Source:
        derived on the page.

    Claim:
        expressive.interpolated
    """
    require(
        keys in ("sphere", "signs"),
        f"the theorem is for keys 'sphere' and 'signs', got {keys!r}",
    )
    if k == 1:
        return math.ceil(8 * math.log(n**2 / delta))
    c = 162 if keys == "sphere" else 76.8
    # The keys of each row are nearly orthogonal, and no key off a row leans on it.
    within = c * (k * math.log(9) + math.log(4 * n / delta))
    off = 16 * k * math.log(2 * n**2 / delta)
    return math.ceil(max(within, off))


def expected_leak(n: int, d: int, s: float) -> float:
    """The mean odds of the zeros of a row with one entry, for uniform unit keys.

        E l = (n - 1) e^-s E e^(s u)
            = (n - 1) e^-s Gamma(d / 2) (2 / s)^(d / 2 - 1) I_(d / 2 - 1)(s)

    Args:
        n: tokens.
        d: dimension.
        s: level of the logits.

    Returns:
        the mean of (mass on zeros) / (mass on the entry).

    Cost:
        O(s) terms of a series.

    Source:
        derived on the page; u is a coordinate of a uniform unit vector, I a Bessel
        function.

    Claim:
        expressive.leak
    """
    mean = _caps.mean_exponential(s, d)
    return (n - 1) * math.exp(-s) * mean
