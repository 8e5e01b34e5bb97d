"""The claims of the page `Random projections of attention`.

Page: notebooks/jl_low_rank/random_projections
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

import mpmath
import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnbook.theorems.paths import error
from attnlib import certify
from attnlib._require import finite, is_tensor, numbers, one_of, require
from attnlib._require import sizes as integers
from attnlib.certify import Verdict, at_least, at_most
from attnlib.certify.matrices import _exact
from attnlib.lowrank import (
    Family,
    failure_bound,
    failure_probability,
    jl_surrogate,
    projection,
    required_dimension,
    srht,
)

Allowed = Literal["norms", "inner product"]
# Shares of draws are held against their chances in binomial deviations, means against
# laws in standard errors. Neither comes this far off by accident once in a million.
FAR = 5
DRAWS = 200  # for a mean whose law is skewed, and five times as many for a maximum
EPS = torch.finfo(torch.float64).eps
KAPPA = {"gaussian": 3, "achlioptas": 3, "rademacher": 1}
GRID = [i / 12 for i in range(1, 12)]  # values of eps; 8/12 is where the floor is


def drawn(k: int, n: int, draws: int, family: Family = "gaussian", **how) -> Tensor:
    """(draws, k, n): independent projections."""
    g = torch.Generator().manual_seed(how.pop("seed", 0))
    return torch.stack(
        [projection(k, n, family, generator=g, **how) for _ in range(draws)]
    )


def randn(*size: int, seed: int = 0) -> Tensor:
    """Gaussian numbers with seeds of their own: no projection repeats them."""
    g = torch.Generator().manual_seed(1000 + seed)
    return torch.randn(*size, dtype=torch.float64, generator=g)


def deviations(share: float, chance: float, draws: int) -> float:
    """How far a share of draws is above its chance, in binomial deviations."""
    return (share - chance) / math.sqrt(chance * (1 - chance) / draws)


def standard_errors(seen: Tensor, wanted: float, unit: float) -> float:
    """How far the mean of draws is from a number, in standard errors; where all draws
    agree, in 1e-12 of the unit.
    """
    error = seen.std() / math.sqrt(len(seen))
    return float((seen.mean() - wanted).abs() / error.clamp_min(1e-12 * unit))


def failed_draws(p: Tensor, w: Tensor, k: int, draws: int) -> Tensor:
    """(draws, n): P R'R w - P w for one R after the other."""
    g = torch.Generator().manual_seed(0)
    column = w[:, None]
    exact = p @ column
    off = [jl_surrogate(p, k, column, generator=g) - exact for _ in range(draws)]
    return torch.stack(off)[..., 0]


# --- what the objects must be


def _check_tensor(name: str, t: Tensor, size: str) -> None:
    """A tensor of this many letters in size, in float64, on the CPU, not zero."""
    is_tensor(name, t)
    got = tuple(t.shape)
    require(
        t.dim() == len(size.split()) and t.numel() > 0,
        f"{name} must be ({', '.join(size.split())}), one head and no batch, got {got}",
    )
    require(
        t.dtype == torch.float64 and t.device.type == "cpu",
        f"{name} must be float64 on the CPU, as R is, got {t.dtype} on {t.device}: "
        f"use {name}.double().cpu()",
    )
    finite(**{name: t})
    largest = float(t.abs().max())
    require(largest > 0, f"{name} must not be zero: both sides would be 0")
    require(
        1e-70 < largest < 1e70,
        f"{name} must have its largest entry between 1e-70 and 1e70, got {largest:.3g}:"
        " its square would leave the range of floats. Scale it",
    )


def _check_vectors(**given) -> None:
    """Vectors (n,) of one length."""
    lengths = {}
    for name, x in given.items():
        _check_tensor(name, x, "n")
        lengths[name] = len(x)
    require(
        len(set(lengths.values())) == 1,
        f"{' and '.join(given)} must have one length, got {lengths}",
    )


def _check_product(p: Tensor, **columns) -> None:
    """A matrix p (m, n), and what it is multiplied with: (n,) or (n, d)."""
    _check_tensor("p", p, "m n")
    for name, t in columns.items():
        _check_tensor(name, t, "n" if name == "w" else "n d")
        require(
            len(t) == p.shape[1],
            f"{name} must have n = {p.shape[1]} rows to fit p {tuple(p.shape)}, "
            f"got {tuple(t.shape)}",
        )


def _check_rows(k: int, n: int, least: int = 1) -> None:
    """R is (k, n)."""
    integers(least, k=k)
    require(k <= n, f"k must be at most n = {n}, got {k}")


def _check_share(eps: float) -> None:
    """An allowed share: positive, and its square no zero."""
    numbers(eps=eps)
    require(1e-100 < eps < 1e100, f"eps must be positive (1e-100 to 1e100), got {eps}")


def _check_draws(draws: int, chance: float) -> None:
    """So many draws that their share is nearly normal around this chance."""
    integers(1, draws=draws)
    require(
        draws * chance * (1 - chance) >= 25,
        f"draws must be at least 25 / (q (1 - q)) where the chance q is {chance:.3g}, "
        f"got {draws}: too few of them would differ",
    )


# --- objects: what the tests run the theorems on


def vector(n=40, flat=False) -> dict:
    """The first unit vector, or the vector whose entries are all one."""
    x = torch.zeros(n, dtype=torch.float64)
    x[0] = 1
    return {"x": torch.ones_like(x) if flat else x}


def two_vectors(cosine=0.3, n=40) -> dict:
    """Two vectors of length 1 and 3 with this cosine of their angle."""
    x, y = torch.zeros(2, n, dtype=torch.float64)
    x[0] = 1
    y[0] = 3 * cosine
    y[1] = 3 * math.sqrt(1 - cosine**2)
    return {"x": x, "y": y}


def sizes(k=6, n=10) -> dict:
    """Rows and columns of a projection."""
    return {"k": k, "n": n}


def sharp_attention(n=100, beta=math.inf) -> dict:
    """softmax(beta I), the identity for an infinite beta, and a column of noise."""
    eye = torch.eye(n, dtype=torch.float64)
    p = eye if beta == math.inf else torch.softmax(beta * eye, -1)
    return {"p": p, "w": randn(n, seed=1)}


def matrix(n=4, seed=0) -> dict:
    """An attention matrix: the softmax of Gaussian logits."""
    return {"p": torch.softmax(randn(n, n, seed=seed), -1)}


def attention(n=4, seed=0, w="noise") -> dict:
    """An attention matrix, and a column of noise, of ones, or one spike."""
    spike = vector(n)["x"]
    columns = {"noise": randn(n, seed=1), "ones": torch.ones_like(spike)}
    columns["spike"] = spike
    return {**matrix(n, seed), "w": columns[w]}


def attention_and_values(n=40, d=6, tried_on="v") -> dict:
    """An attention matrix, d columns of values, and what is multiplied: v or others."""
    v = randn(n, d, seed=2)
    other = randn(n, d, seed=6)
    return {**matrix(n), "v": v, "tried_on": v if tried_on == "v" else other}


def scores(a=((0, 2), (0, 0)), d_qk=4) -> dict:
    """Logits as whole multiples of ln 2, and the width of queries and keys."""
    return {"a": [list(row) for row in a], "d_qk": d_qk}


def integer_matrix(n=8, rank=8, k=3) -> dict:
    """A matrix of small integers of this rank, and a projection with few digits."""
    g = torch.Generator().manual_seed(k)
    left = torch.randint(1, 9, (n, rank), generator=g)
    right = torch.randint(1, 9, (rank, n), generator=g)
    r = (projection(k, n, generator=g) * 2**20).round()
    return {"p": certify.exact(left @ right), "r": certify.exact(r)}


# --- the lemma


def two_rows_by_hand() -> Verdict:
    """k = 2: X/2 is exponential, and both tails are elementary.

    Measured: failure_probability(2, 1/2) against 1 - e^(-1/2) + e^(-3/2).
    """
    by_hand = 1 - math.exp(-0.5) + math.exp(-1.5)
    return at_most(abs(failure_probability(2, 0.5) - by_hand), 1e-14)


NORM = Case(vector, {"n": 40}, {"k": 16, "eps": 0.25})


@claim(
    "jl.norm-law",
    cases=[NORM, NORM.but(flat=True), NORM.but(k=1, eps=0.5)],
    controls=[NORM.but(family="rademacher")],
    witness=two_rows_by_hand,
)
def norm_law(
    x: Tensor, k: int, eps: float, *, family: Family = "gaussian", draws: int = 2000
) -> Verdict:
    """The squared norm of a projected vector is chi-square, k degrees of freedom.

        k |Rx|^2 / |x|^2  ~  chi^2_k

    Hypotheses: R is Gaussian, and x is fixed before R.
    Measured: how often |Rx|^2 leaves (1 +- eps) |x|^2, in binomial deviations from the
    chance by that law.

    Args:
        x: (n,), float64, not zero.
        k: rows, at most n.
        eps: positive.
        family: another one than gaussian has another law.
        draws: of R, so many that about 25 or more leave and as many stay.

    Returns:
        Verdict; its bound is 5 deviations.

    Raises:
        ValueError: for x, k, eps or draws that are not so.

    Claim: jl.norm-law
    """
    _check_vectors(x=x)
    _check_rows(k, len(x))
    _check_share(eps)
    chance = failure_probability(k, eps)
    _check_draws(draws, chance)
    images = drawn(k, len(x), draws, family) @ x
    changed = images.square().sum(1) / x.square().sum() - 1
    share = float((changed.abs() > eps).double().mean())
    return at_most(abs(deviations(share, chance, draws)), FAR)


def inner_product_chance(k: int, eps: float, cosine: float) -> float:
    """Pr(|x'R'Ry - x'y| > eps) for unit vectors: (a X - b Y) / k with independent
    chi-squares, by the trapezoidal rule in Y.
    """
    a = (1 + cosine) / 2
    b = (1 - cosine) / 2
    if min(a, b) < 1e-12:
        return failure_probability(k, eps)
    half = k / 2
    last = k + 60 * math.sqrt(k) + 200
    y = torch.linspace(0, last, 40001, dtype=torch.float64)[1:]
    density = torch.exp((half - 1) * (y / 2).log() - y / 2 - math.lgamma(half)) / 2
    above = _upper_tail(half, (k * (cosine + eps) + b * y) / (2 * a))
    below = _lower_tail(half, (k * (cosine - eps) + b * y) / (2 * a))
    return float((density * (above + below)).sum() * (y[1] - y[0]))


def _upper_tail(half: float, z: Tensor) -> Tensor:
    """Pr(X > 2 z) for a chi-square X; one where z is not positive."""
    tail = torch.special.gammaincc(torch.full_like(z, half), z.clamp_min(1e-300))
    return torch.where(z > 0, tail, 1.0)


def _lower_tail(half: float, z: Tensor) -> Tensor:
    """Pr(X < 2 z), to all digits where one less the upper tail has none."""
    return torch.special.gammainc(torch.full_like(z, half), z.clamp_min(0.0))


def rates_by_hand() -> Verdict:
    """k = 40, eps = 1/2: the two bounds are 2 (3/2)^20 e^(-10) and 2 e^(-5/4).

    Measured: the larger of the two relative errors of failure_bound.
    """
    sharp = 2 * mpmath.mpf(1.5) ** 20 * mpmath.exp(-10)
    usual = 2 * mpmath.exp(-1.25)
    off_sharp = abs(failure_bound(40, 0.5, sharp=True) / sharp - 1)
    off_usual = abs(failure_bound(40, 0.5) / usual - 1)
    return at_most(float(max(off_sharp, off_usual)), 1e-12)


TAIL = Case(two_vectors, {"cosine": 0.3}, {"k": 200, "eps": 0.5})
ANGLES = [TAIL.but(cosine=c, k=40, eps=e) for c in (1, 0, -0.6) for e in (0.1, 0.9)]


@claim(
    "jl.tail",
    cases=[TAIL, TAIL.but(k=3), *ANGLES, TAIL.but(cosine=1.0, k=200)],
    controls=[TAIL.but(allowed="inner product")],
    witness=rates_by_hand,
)
def tail(
    x: Tensor, y: Tensor, k: int, eps: float, *, allowed: Allowed = "norms"
) -> Verdict:
    """A projection keeps an inner product up to eps |x| |y|, but for a small chance.

        Pr(|x'R'Ry - x'y| > eps |x| |y|)  <=  2 e^(-k (eps - ln(1 + eps)) / 2)
                                          <=  2 e^(-k (eps^2 - eps^3) / 4)

    Hypotheses: R is Gaussian, x and y are fixed before R, the second line for eps < 1.
    Measured: the chance over the first bound, or that over the second, the larger. The
    chance is computed as an integral over two chi-squares.

    Args:
        x, y: (n,), float64, not zero.
        k: rows of R, 3 or more: below, the integral is not exact enough.
        eps: positive; the first bound must not be below 1e-250.
        allowed: "inner product" allows an error of eps |x'y| only, which is false.

    Returns:
        Verdict; its bound is 1, and 1e-9 for rounding.

    Raises:
        ValueError: for x, y, k or eps that are not so, or an unknown word.

    Claim: jl.tail
    """
    one_of(("norms", "inner product"), allowed=allowed)
    _check_vectors(x=x, y=y)
    integers(1, k=k)
    require(k >= 3, f"k must be 3 or more for the integral, got {k}")
    _check_share(eps)
    sharp = failure_bound(k, eps, sharp=True)
    require(
        sharp > 1e-250,
        f"k = {k} and eps = {eps} must leave a bound above 1e-250, got {sharp:.3g}: "
        "floats cannot hold a smaller chance",
    )
    cosine = float(x @ y / (x.norm() * y.norm()))
    room = eps if allowed == "norms" else eps * abs(cosine)
    worst = inner_product_chance(k, room, cosine) / sharp
    if eps < 1:
        worst = max(worst, sharp / failure_bound(k, eps))
    return at_most(worst, 1 + 1e-9)


def two_tokens_by_hand() -> Verdict:
    """x = (1/2, 1/2), y = (1, -1), R = (a b): x'y = 0 and x'R'Ry = (a^2 - b^2) / 2.

    Measured, in fractions: the least |x'R'Ry| over whole a, b with |a| < |b| < 9.
    """
    left = certify.row_stochastic([[1, 1]])
    right = certify.exact([[1], [-1]])
    least = Fraction(100)
    for a, b in itertools.combinations(range(9), 2):
        gram = certify.exact([[a * a, a * b], [a * b, b * b]])
        [[kept]] = certify.product(left, gram, right)
        least = min(least, abs(kept))
    return at_least(least, 0.5)


RIGHT_ANGLE = Case(two_vectors, {"cosine": 0.0}, {"k": 32, "eps": 0.5})


@claim(
    "jl.root",
    cases=[RIGHT_ANGLE, RIGHT_ANGLE.but(k=1), RIGHT_ANGLE.but(k=40, eps=100.0)],
    controls=[RIGHT_ANGLE.but(cosine=0.5), RIGHT_ANGLE.but(allowed="norms")],
    witness=two_tokens_by_hand,
)
def root(
    x: Tensor,
    y: Tensor,
    k: int,
    eps: float,
    *,
    allowed: Allowed = "inner product",
    draws: int = 400,
) -> Verdict:
    """At a right angle no projection keeps x'y up to eps |x'y|: the chance is 0.

        Pr(|x'R'Ry - x'y| <= eps |x'y|)  =  0

    Hypotheses: x'y = 0, neither is zero, both are fixed before the Gaussian R.
    Measured: the share of draws in which it is kept.

    Args:
        x, y: (n,), float64, not zero.
        k: rows of R, at most n.
        eps: positive, however large.
        allowed: "norms" allows an error of eps |x| |y|, as the lemma does.
        draws: of R.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for an unknown word, or x, y, k, eps or draws that are not so.

    Claim: jl.root
    """
    one_of(("norms", "inner product"), allowed=allowed)
    _check_vectors(x=x, y=y)
    _check_rows(k, len(x))
    _check_share(eps)
    integers(1, draws=draws)
    R = drawn(k, len(x), draws)
    off = ((R @ x) * (R @ y)).sum(1) - x @ y
    room = x.norm() * y.norm() if allowed == "norms" else (x @ y).abs()
    return at_most((off.abs() <= eps * room).double().mean(), 0)


def exact_law_asks_for_less() -> Verdict:
    """By the law of norms, 512 of them at delta = 1/20 and eps = 1/2: fewer rows.

    Measured: what its k leaves over delta, or 2 if k - 1 rows would have done, or if
    the bound asks for no more than that.
    """
    k = required_dimension(0.5, 0.05, union=512)
    left = 512 * failure_probability(k, 0.5) / 0.05
    one_less = 512 * failure_probability(k - 1, 0.5) / 0.05
    by_bound = required_dimension(0.5, 0.05, union=512, exact=False)
    return at_most(left if one_less > 1 and k < by_bound == 318 else 2, 1)


def asked(n=174, pairs=512, eps=0.5, delta=0.05) -> dict:
    """Tokens, inner products to keep, the error and the chance allowed."""
    return {"n": n, "pairs": pairs, "eps": eps, "delta": delta}


ASKED = Case(asked)


@claim(
    "jl.floor",
    cases=[ASKED, ASKED.but(n=2), ASKED.but(n=16, pairs=1), ASKED.but(pairs=512 * 64)],
    controls=[ASKED.but(law="exact"), ASKED.but(n=175)],
    witness=exact_law_asks_for_less,
)
def rows_needed(
    n: int,
    pairs: int,
    eps: float,
    delta: float,
    *,
    law: Literal["bound", "exact"] = "bound",
) -> Verdict:
    """What the usual formula asks for: enough rows, and often more than there are.

        k >= 4 ln(2 N / delta) / (eps^2 - eps^3)  leaves a failure of at most delta
        5 ln n / (eps^2 - eps^3)  >=  33.75 ln n,  and for 2 <= n <= 174 it exceeds n

    Measured: the largest of three: the failure that is left over delta, less 1; 33.75
    ln n less the rows asked for; and n less the rows asked for, at the best of eleven
    values of eps.

    Args:
        n: tokens, 2 to 174; above 174 the second line fails.
        pairs: N, inner products to keep.
        eps, delta: between 0 and 1.
        law: "exact" asks by the chi-square law of norms, at the same failure of
            2 n^(-1/4), below 1 for n > 16; it has no such floor.

    Returns:
        Verdict; its bound is 0, and 1e-9 for rounding.

    Raises:
        ValueError: for an unknown law, or n, pairs, eps or delta that are not so.

    Claim: jl.floor
    """
    one_of(("bound", "exact"), law=law)
    integers(2, n=n)
    integers(1, pairs=pairs)
    _check_share(eps)
    exact = law == "exact"
    require(not exact or n > 16, f"n must be above 16 for law='exact', got {n}")
    k = required_dimension(eps, delta, union=pairs, exact=exact)
    chance = failure_probability(k, eps) if exact else failure_bound(k, eps)
    rows = [5 * math.log(n) / (e**2 - e**3) for e in GRID]
    if exact:
        rows = [required_dimension(e, 2 * n**-0.25, union=n) for e in GRID]
    too_few = max(33.75 * math.log(n), n) - min(rows)
    return at_most(max(pairs * chance / delta - 1, too_few), 1e-9)


# --- families


def fast_transform_is_the_matrix() -> Verdict:
    """srht without the matrix, on the unit vectors, against the matrix.

    Measured: the largest difference of two entries.
    """
    eye = torch.eye(20, dtype=torch.float64)
    fast = srht(eye, 6, generator=torch.Generator().manual_seed(1))
    matrix = projection(6, 20, "srht", generator=torch.Generator().manual_seed(1))
    return at_most((fast.T - matrix).abs().max(), 1e-12)


GAUSSIAN = Case(sizes, {}, {"family": "gaussian"})


@claim(
    "jl.families",
    cases=[
        GAUSSIAN,
        GAUSSIAN.but(family="rademacher"),
        GAUSSIAN.but(family="achlioptas"),
        GAUSSIAN.but(family="sparse"),
        GAUSSIAN.but(family="sparse", s=3),
        GAUSSIAN.but(family="srht"),
    ],
    controls=[GAUSSIAN.but(centred=False)],
    witness=fast_transform_is_the_matrix,
)
def families(
    k: int,
    n: int,
    family: Family,
    *,
    s: int = 1,
    centred: bool = True,
    draws: int = 2000,
) -> Verdict:
    """E[R'R] = I for all five families.

    Measured: the entry of the mean of R'R that is farthest from I, in standard errors.

    Args:
        k, n: rows and columns of R.
        family: one of the five.
        s: entries in a column of a sparse R.
        centred: False takes |R|, whose entries have a mean.
        draws: of R, 1000 or more.

    Returns:
        Verdict; its bound is 5 standard errors, or more if one of n^2 normal numbers
        would be above 5 more than once in ten thousand times.

    Raises:
        ValueError: for draws below 1000, and as projection.

    Claim: jl.families
    """
    integers(5 * DRAWS, draws=draws)
    R = drawn(k, n, draws, family, s=s)
    if not centred:
        R = R.abs()
    eye = torch.eye(n, dtype=R.dtype)
    total = torch.zeros_like(eye)
    square = torch.zeros_like(eye)
    for r in R:  # one at a time: all of them would fill the memory
        off = r.mT @ r - eye
        total += off
        square += off.square()
    mean = total / draws
    variance = (square / draws - mean.square()).clamp_min(0)
    standard_error = (variance / (draws - 1)).sqrt().clamp_min(1e-12)
    one_side = torch.tensor(1e-4 / (n * (n + 1)), dtype=R.dtype)
    far = max(FAR, -float(torch.special.ndtri(one_side)))
    return at_most((mean.abs() / standard_error).max(), far)


def three_rows_by_hand() -> Verdict:
    """CountSketch with k = 3: all 36 draws of two columns, in fractions.

    Measured: the share of squared norms other than 1, against 1/3; or 1 if one of them
    is neither 0 nor 2.
    """
    others = []
    for i, j, a, b in itertools.product(range(3), range(3), (1, -1), (1, -1)):
        column = [a * (row == i) + b * (row == j) for row in range(3)]
        norm = Fraction(sum(entry**2 for entry in column), 2)
        if norm != 1:
            others.append(norm)
    off = abs(Fraction(len(others), 36) - Fraction(1, 3))
    return at_most(off if set(others) == {0, 2} else 1, 0)


EIGHT_ROWS = Case(sizes, {"k": 8, "n": 8})


@claim(
    "jl.countsketch",
    cases=[EIGHT_ROWS, EIGHT_ROWS.but(k=2, n=2), EIGHT_ROWS.but(k=16, n=20)],
    controls=[EIGHT_ROWS.but(s=4)],
    witness=three_rows_by_hand,
)
def collision(k: int, n: int, *, s: int = 1, draws: int = 3000) -> Verdict:
    """CountSketch changes |(e_1 + e_2) / sqrt 2|^2 to 0 or 2 with chance 1/k.

    Measured: how often the squared norm is off by more than 1/2, in binomial deviations
    from 1/k.

    Args:
        k, n: rows and columns of R, two or more of each.
        s: entries in a column; CountSketch has one.
        draws: of R, about 25 k or more.

    Returns:
        Verdict; its bound is 5 deviations.

    Raises:
        ValueError: for k, n or draws that are not so, and as projection.

    Claim: jl.countsketch
    """
    integers(2, n=n)
    _check_rows(k, n, 2)
    _check_draws(draws, 1 / k)
    R = drawn(k, n, draws, "sparse", s=s)
    norms = (R[:, :, 0] + R[:, :, 1]).square().sum(1) / 2
    share = float(((norms - 1).abs() > 0.5).double().mean())
    return at_most(abs(deviations(share, 1 / k, draws)), FAR)


# --- what P R'R w is


def law_of_the_error(p: Tensor, w: Tensor, k: int, kappa: float | int = 3) -> float:
    """E |P R'R w - P w|^2, formula (6.5) as it stands."""
    norms = p.square().sum() * w.square().sum()
    fourth = (w.square() * p.square().sum(0)).sum()
    return float(norms + (p @ w).square().sum() + (kappa - 3) * fourth) / k


THREE_POINT = ((Fraction(1, 6), 1), (Fraction(2, 3), 0), (Fraction(1, 6), -1))
SIGNS = ((Fraction(1, 2), 1), (Fraction(1, 2), -1))
ROWS = certify.row_stochastic([[3, 2, 1], [0, 1, 3]])


def exact_mean(k: int, faces: Sequence, unit: int, value: Callable) -> Fraction:
    """E value(R'R) over every k x 3 matrix of these faces, as fractions.

    Entries are sqrt(unit / k) times a face; only products of two of them occur.
    """
    total = Fraction(0)
    for entries in itertools.product(faces, repeat=3 * k):
        chance = math.prod(chance for chance, _ in entries)
        flat = [face for _, face in entries]
        rows = [flat[3 * a : 3 * a + 3] for a in range(k)]
        columns = list(zip(*rows))
        gram = certify.product(columns, rows)
        total += chance * value([[Fraction(unit, k) * v for v in row] for row in gram])
    return total


def squares(matrix: Sequence[Sequence[Fraction]]) -> Fraction:
    """The squared Frobenius norm."""
    return sum(entry**2 for row in matrix for entry in row)


def minus(a: Sequence, b: Sequence) -> list[list[Fraction]]:
    """Entry by entry."""
    return [[x - y for x, y in zip(*rows)] for rows in zip(a, b)]


def all_sign_matrices() -> Verdict:
    """k = 2, n = 3: the mean over all 64 sign matrices is the law with kappa = 1, and
    over the 27 of three points with k = 1 that with kappa = 3.

    Measured, in fractions: the larger of the two differences.
    """
    w = certify.exact([[1], [-2], [3]])
    wanted = certify.product(ROWS, w)

    def off(gram):
        return squares(minus(certify.product(ROWS, gram, w), wanted))

    norms = squares(ROWS) * squares(w)
    fourth = sum(w[j][0] ** 2 * sum(row[j] ** 2 for row in ROWS) for j in range(3))
    signs = (norms + squares(wanted) - 2 * fourth) / 2
    points = norms + squares(wanted)
    off_signs = abs(exact_mean(2, SIGNS, 1, off) - signs)
    off_points = abs(exact_mean(1, THREE_POINT, 3, off) - points)
    return at_most(max(off_signs, off_points), 0)


SPIKE = Case(attention, {"w": "spike"}, {"k": 2, "family": "rademacher"})


@claim(
    "jl.mean-square",
    cases=[
        SPIKE,
        SPIKE.but(family="gaussian"),
        SPIKE.but(family="achlioptas", w="noise"),
        SPIKE.but(family="gaussian", w="ones", k=1),
    ],
    controls=[SPIKE.but(kappa=3)],
    witness=all_sign_matrices,
)
def mean_square(
    p: Tensor,
    w: Tensor,
    k: int,
    *,
    family: Literal["gaussian", "achlioptas", "rademacher"] = "gaussian",
    kappa: float | int | None = None,
    draws: int = 1200,
) -> Verdict:
    """The mean square error of P R'R w has a formula.

        E |P R'R w - P w|^2 = (|P|_F^2 |w|^2 + |P w|^2
                               + (kappa - 3) sum_j w_j^2 |P e_j|^2) / k

    Hypotheses: P and w are fixed before R, whose entries are independent, with mean 0,
    variance 1/k and fourth moment kappa / k^2.
    Measured: how far the mean over draws is from the formula, in standard errors.

    Args:
        p: (m, n), float64, one head, not zero.
        w: (n,), float64, not zero.
        k: rows of R, at most n.
        family: of R.
        kappa: 3 for gaussian and achlioptas, 1 for rademacher if not given.
        draws: of R, 200 or more.

    Returns:
        Verdict; its bound is 5 standard errors.

    Raises:
        ValueError: for a family whose entries are not independent, or p, w, k, kappa
            or draws that are not so.

    Claim: jl.mean-square
    """
    one_of(list(KAPPA), family=family)
    _check_product(p, w=w)
    _check_rows(k, len(w))
    integers(DRAWS, draws=draws)
    kappa = KAPPA[family] if kappa is None else kappa
    numbers(kappa=kappa)
    g = torch.Generator().manual_seed(0)
    seen = []
    for _ in range(draws):
        got = jl_surrogate(p, k, w[:, None], family=family, generator=g)
        seen.append((got[:, 0] - p @ w).square().sum())
    law = law_of_the_error(p, w, k, kappa)
    unit = float(p.square().sum() * w.square().sum()) / k
    return at_most(standard_errors(torch.stack(seen), law, unit), FAR)


def nearest_to_fixed(r: Tensor) -> Tensor:
    """The right singular vector of R that R'R changes least: a w that looks at R."""
    _, values, vectors = torch.linalg.svd(r, full_matrices=False)
    return vectors[(values - 1).abs().argmin()]


def softmax_comes_near_the_identity() -> Verdict:
    """Logits beta I: the condition number is 1 + n / (e^beta - 1).

    Measured: its relative error for n = 60, beta = 12.
    """
    values = torch.linalg.svdvals(sharp_attention(60, beta=12.0)["p"])
    condition = float(values[0] / values[-1])
    return at_most(abs(condition / (1 + 60 / math.expm1(12)) - 1), 1e-9)


IDENTITY = Case(sharp_attention, {"n": 100}, {"k": 60, "eps": 0.5})


@claim(
    "jl.relative",
    cases=[IDENTITY, IDENTITY.but(k=99), IDENTITY.but(beta=12.0)],
    controls=[IDENTITY.but(w_sees_R=True), IDENTITY.but(allowed="norms")],
    witness=softmax_comes_near_the_identity,
)
def relative_form_fails(
    p: Tensor,
    w: Tensor,
    k: int,
    eps: float,
    *,
    allowed: Literal["P w", "norms"] = "P w",
    w_sees_R: bool = False,
    draws: int = 40,
) -> Verdict:
    """|P R'R w - P w| <= eps |P w| is unlikely for sharp attention, at every k < n.

        chance  <=  e^(-(n - 1) (gamma - 1 - ln gamma) / 2)
        gamma   =   2 k (1 - sqrt(1 - (eps cond(P))^2)) / (n - 1)

    Hypotheses: P is invertible, R is Gaussian and knows neither P nor w, w is not zero,
    eps cond(P) <= 1, gamma < 1.
    Measured: the share of draws that satisfy it.

    Args:
        p: (n, n), float64, one head.
        w: (n,), float64.
        k: rows of R, below n.
        eps: positive.
        allowed: "norms" allows an error of eps |P|_F |w|.
        w_sees_R: True takes for w, each time, the vector that R'R changes least.
        draws: of R, so many that the bound is below 1.

    Returns:
        Verdict; its bound is the chance and 5 binomial deviations, or half a draw if
        that is more.

    Raises:
        ValueError: for an unknown word, or where the hypotheses fail.

    Claim: jl.relative
    """
    one_of(("P w", "norms"), allowed=allowed)
    _check_product(p, w=w)
    n = len(w)
    require(len(p) == n, f"p must be square, got {tuple(p.shape)}")
    integers(1, k=k, draws=draws)
    require(k < n, f"k must be below n = {n}, got {k}: R would keep everything")
    _check_share(eps)
    log_gamma = _log_gamma(eps * float(torch.linalg.cond(p)), k, n)
    chance = math.exp(-(n - 1) * (math.exp(log_gamma) - 1 - log_gamma) / 2)
    bound = chance + FAR * math.sqrt(chance * (1 - chance) / draws)
    require(
        bound < 1,
        f"draws must be more for the chance {chance:.3g} of these k and eps, got "
        f"{draws}: no share of them is 5 deviations above it",
    )
    kept = 0
    for seed in range(draws):
        g = torch.Generator().manual_seed(seed)
        column = nearest_to_fixed(projection(k, n, generator=g)) if w_sees_R else w
        g.manual_seed(seed)  # the same R once more
        got = jl_surrogate(p, k, column[:, None], generator=g)[:, 0]
        wanted = p @ column
        room = p.norm() * column.norm() if allowed == "norms" else wanted.norm()
        kept += bool((got - wanted).norm() <= eps * room)
    return at_most(kept / draws, max(bound, 1 / (2 * draws)))


def _log_gamma(wide: float, k: int, n: int) -> float:
    """ln gamma of the theorem for wide = eps cond(P), below 0; no wide is too small."""
    log_gamma = math.inf
    if wide <= 1:
        # 1 - sqrt(1 - t^2) is t^2 / (1 + sqrt(1 - t^2)), and keeps its digits.
        root = math.sqrt(1 - wide**2)
        log_gamma = 2 * math.log(wide) + math.log(2 * k / (n - 1) / (1 + root))
    require(
        log_gamma < 0,
        f"eps cond(P) is {wide:.3g} and ln(gamma) {log_gamma:.3g}: the theorem needs "
        "the first at most 1 and the second below 0",
    )
    return log_gamma


def arctan_bound(k: int, n: int, eps: float) -> float:
    """Formula (6.9) as it stands."""
    return 2 / math.pi * math.atan(eps * math.sqrt(k**2 / ((k - 2) * (n - 3))))


def chi_square(z: Tensor, m: int) -> Tensor:
    """The density of chi-square with m degrees of freedom."""
    return z ** (m / 2 - 1) * torch.exp(-z / 2) / (2 ** (m / 2) * math.gamma(m / 2))


def double_integral() -> Verdict:
    """k = 4, n = 5, eps = 1/2: the chance as an integral over both chi-squares.

    Measured: that chance over the bound.
    """
    z = torch.arange(1, 400, dtype=torch.float64) * 0.1 - 0.05
    x, y = torch.meshgrid(z, z, indexing="ij")
    t = x / 4
    h = (x * y).sqrt() / 4
    given_R = (torch.atan((1.5 - t) / h) + torch.atan((t - 0.5) / h)) / math.pi
    chance = 0.01 * (given_R * chi_square(x, 4) * chi_square(y, 4)).sum()
    return at_most(float(chance) / arctan_bound(4, 5, 0.5), 1)


RANK_ONE = Case(sizes, {"k": 16, "n": 64}, {"eps": 0.5})


@claim(
    "jl.rank-one",
    cases=[RANK_ONE, RANK_ONE.but(k=3, n=8)],
    controls=[RANK_ONE.but(mean=2.0)],
    witness=double_integral,
)
def rank_one(
    k: int, n: int, eps: float, *, mean: float = 0.0, draws: int = 1500
) -> Verdict:
    """Uniform attention on noise: the relative form is unlikely here too.

        chance  <=  2/pi arctan(eps sqrt(k^2 / ((k - 2) (n - 3))))

    Hypotheses: P = 1 1' / n, w has independent standard Gaussian entries, R is Gaussian
    and independent of w, k >= 3, n >= 4.
    Measured: how far the share of draws that satisfy it is above the bound, in binomial
    deviations.

    Args:
        k, n: rows and columns of R.
        eps: positive.
        mean: of the entries of w; the statement has 0.
        draws: of R and w, so many that the bound lets about 25 or more satisfy it.

    Returns:
        Verdict; its bound is 5 deviations.

    Raises:
        ValueError: for k, n, eps, mean or draws that are not so.

    Claim: jl.rank-one
    """
    integers(4, n=n)
    _check_rows(k, n, 3)
    _check_share(eps)
    numbers(mean=mean)
    chance = arctan_bound(k, n, eps)
    _check_draws(draws, chance)
    R = drawn(k, n, draws)
    w = randn(draws, n, seed=3) + mean
    kept = R.mT @ (R @ w[..., None])
    off = kept[..., 0].mean(1) - w.mean(1)
    share = float((off.abs() <= eps * w.mean(1).abs()).double().mean())
    return at_most(deviations(share, chance, draws), FAR)


# --- what is true


def markov_needs_no_n() -> Verdict:
    """k = 2 / (eps^2 delta) rows, whatever n: 80 rows for eps = 1/2, delta = 1/10.

    Measured: how often |P R'R w - P w| exceeds eps |P|_F |w|, for n = 100 and 300.
    """
    worst = 0.0
    for n in (100, 300):
        p, w = attention(n).values()
        off = failed_draws(p, w, 80, 50).norm(dim=1)
        failed = off > 0.5 * p.norm() * w.norm()
        worst = max(worst, float(failed.double().mean()))
    return at_most(worst, 0.1)


ONES = Case(attention, {"n": 512, "w": "ones"}, {"eps": 0.5, "delta": 0.05})


@claim(
    "jl.normalised",
    cases=[ONES, ONES.but(w="noise"), ONES.but(w="spike", seed=1)],
    controls=[ONES.but(w_sees_R=True), ONES.but(surrogate="zero")],
    witness=markov_needs_no_n,
)
def normalised(
    p: Tensor,
    w: Tensor,
    eps: float,
    delta: float,
    *,
    surrogate: Literal["P R'R", "zero"] = "P R'R",
    w_sees_R: bool = False,
    draws: int = 20,
) -> Verdict:
    """Every row of P R'R w is right up to eps times the norms of its row and of w.

        |(P R'R w - P w)_i|  <=  eps |P_i| |w|    for all i, with chance 1 - delta
        k  >=  4 ln(2 n / delta) / (eps^2 - eps^3)

    Hypotheses: R is Gaussian, P and w are fixed before R, 0 < eps, delta < 1.
    Measured: the largest left side over its right side, over rows and draws.

    Args:
        p: (m, n), float64, one head, no row zero, with n at least k.
        w: (n,), float64, not zero.
        eps, delta: they give k.
        surrogate: "zero" puts the zero matrix in place of P R'R.
        w_sees_R: True takes w = R'R p_1 - p_1, each time anew.
        draws: of R; each may fail with chance delta.

    Returns:
        Verdict; its bound is 1.

    Raises:
        ValueError: for an unknown word, p, w, eps, delta or draws that are not so, or
            if k is above n.

    Claim: jl.normalised
    """
    one_of(("P R'R", "zero"), surrogate=surrogate)
    _check_product(p, w=w)
    lengths = p.norm(dim=1)
    require(
        lengths.all(),
        f"p must have no row of norm zero, got one in row {int(lengths.argmin())}: "
        "nothing is relative to it",
    )
    _check_share(eps)
    integers(1, draws=draws)
    n = len(w)
    k = required_dimension(eps, delta, union=len(p), exact=False)
    require(k <= n, f"eps and delta ask for k = {k} rows, more than n = {n} of p")
    worst = 0.0
    for seed in range(draws):
        g = torch.Generator().manual_seed(seed)
        column = w
        if w_sees_R:
            R = projection(k, n, generator=g)
            column = R.mT @ (R @ p[0]) - p[0]
        g.manual_seed(seed)  # the same R once more
        got = jl_surrogate(p, k, column[:, None], generator=g)[:, 0]
        if surrogate == "zero":
            got = torch.zeros_like(got)
        off = (got - p @ column).abs() / (lengths * column.norm())
        worst = max(worst, float(off.max()) / eps)
    return at_most(worst, 1)


def every_rank() -> Verdict:
    """P w w' / |w|^2 plus a matrix of rank k - 1 that maps w to zero, n = 12.

    Measured: how far the rank is from k, or the largest |S w - P w|, for k = 1, 4, 12.
    """
    p, w = attention(12).values()
    column = w[:, None]
    basis = torch.linalg.qr(torch.cat([column, randn(12, 11, seed=4)], 1))[0]
    images = randn(12, 12, seed=5)
    worst = 0.0
    for k in (1, 4, 12):
        s = p @ column @ column.T / (w @ w) + images[:, 1:k] @ basis[:, 1:k].T
        worst = max(worst, float((s @ w - p @ w).abs().max()))
        worst = max(worst, abs(int(torch.linalg.matrix_rank(s)) - k))
    return at_most(worst, 1e-12)


VALUES = Case(attention_and_values)


@claim(
    "jl.existence",
    cases=[VALUES, VALUES.but(d=1)],
    controls=[VALUES.but(tried_on="others")],
    witness=every_rank,
)
def existence(p: Tensor, v: Tensor, *, tried_on: Tensor | None = None) -> Verdict:
    """A matrix that knows V maps it to P V, and its rank is at most its width.

        S = P V V^+,   S V = P V,   rank S <= d

    Measured: the relative error of S V, or how much its rank is above d.

    Args:
        p: (m, n), float64, one head.
        v: (n, d), float64, of full column rank; d = 1 is a single column w.
        tried_on: (n, d), other values than those that S was built for.

    Returns:
        Verdict; its bound is 1e-12 for rounding, more if V is ill-conditioned.

    Raises:
        ValueError: for tensors that are not so.

    Claim: jl.existence
    """
    _check_product(p, v=v)
    rank = int(torch.linalg.matrix_rank(v))
    require(
        rank == v.shape[1],
        f"v must have full column rank {v.shape[1]}, got rank {rank}",
    )
    if tried_on is not None:
        _check_product(p, tried_on=tried_on)
    digits = max(1e-12, 64 * EPS * float(torch.linalg.cond(v)))
    s = p @ v @ torch.linalg.pinv(v)
    values = v if tried_on is None else tried_on
    surplus = int(torch.linalg.matrix_rank(s, rtol=digits)) - v.shape[1]
    return at_most(max(error(s @ values, p @ values), surplus), digits)


def truncation_attains_it() -> Verdict:
    """The best matrix of rank k is off by sigma_(k+1), exactly.

    Measured: the largest difference for an attention matrix of 30 tokens.
    """
    p = matrix(30, seed=2)["p"]
    u, s, vh = torch.linalg.svd(p)
    worst = 0.0
    for k in (1, 5, 29):
        off = torch.linalg.matrix_norm(p - (u[:, :k] * s[:k]) @ vh[:k], 2)
        worst = max(worst, abs(float(off - s[k])))
    return at_most(worst, 1e-12)


def logits(n=24, k=7, beta=8.0) -> dict:
    """Tokens, a rank, and the strength of the logits beta I."""
    return {"n": n, "k": k, "beta": beta}


SHARP = Case(logits)


@claim(
    "jl.uniform",
    cases=[SHARP, SHARP.but(k=1), SHARP.but(k=23), SHARP.but(beta=0.0)],
    controls=[SHARP.but(rank=24), SHARP.but(beta=-2.0)],
    witness=truncation_attains_it,
)
def nothing_uniform(n: int, k: int, beta: float, *, rank: int | None = None) -> Verdict:
    """No matrix of rank k < n is near softmax(beta I) for all columns at once.

        |S - P|_2 >= sigma_(k+1),  |S - P|_F^2 >= sum over j > k of sigma_j^2
        sigma_2 = ... = sigma_n = (e^beta - 1) / (e^beta + n - 1)

    Hypotheses: rank S <= k < n, beta >= 0.
    Measured: by how much one of the two is missed, for three matrices S: truncation,
    P V V^+ and P R'R; or how far a singular value is from the formula.

    Args:
        n: tokens.
        k: of the statement, 1 to n - 1.
        beta: strength of the logits.
        rank: of the three matrices, at most n; k if not given.

    Returns:
        Verdict; its bound is 64 eps of float64, and 2 n eps for n above 32.

    Raises:
        ValueError: for n, k, beta or rank that are not so.

    Claim: jl.uniform
    """
    rank = k if rank is None else rank
    integers(2, n=n)
    integers(1, k=k, rank=rank)
    require(k < n, f"k must be below n = {n}, got {k}")
    require(rank <= n, f"rank must be at most n = {n}, got {rank}")
    numbers(beta=beta)
    p = torch.softmax(beta * torch.eye(n, dtype=torch.float64), -1)
    u, s, vh = torch.linalg.svd(p)
    v = randn(n, rank, seed=4)
    surrogates = [
        (u[:, :rank] * s[:rank]) @ vh[:rank],
        p @ v @ torch.linalg.pinv(v),
        jl_surrogate(p, rank, generator=torch.Generator().manual_seed(0)),
    ]
    capped = min(beta, 700.0)  # exp of 710 overflows, and sigma is 1 long before
    sigma = math.expm1(capped) / (math.exp(capped) + n - 1)
    off = float((s[1:] - sigma).abs().max())
    for surrogate in surrogates:
        distance = p - surrogate
        spectral = float(torch.linalg.matrix_norm(distance, 2))
        rest = float(s[k:].square().sum() - distance.square().sum())
        off = max(off, sigma - spectral, rest)
    return at_most(off, max(64, 2 * n) * EPS)


def shrinkage_by_hand() -> Verdict:
    """n = 3, k = 1, c = k / (n + k + 1) = 1/5: the mean over all 27 matrices.

    Measured, in fractions: E |c P R'R - P|_F^2 / |P|_F^2 against 1 - c = 4/5.
    """

    def off(gram):
        shrunk = [[v / 5 for v in row] for row in certify.product(ROWS, gram)]
        return squares(minus(shrunk, ROWS))

    left = exact_mean(1, THREE_POINT, 3, off) / squares(ROWS)
    return at_most(abs(left - Fraction(4, 5)), 0)


FOUR = Case(matrix, {"n": 4}, {"k": 2})


@claim(
    "jl.worse-than-zero",
    cases=[FOUR, FOUR.but(c=2 / 7), FOUR.but(n=64, k=16, draws=200)],
    controls=[FOUR.but(family="rademacher")],
    witness=shrinkage_by_hand,
)
def worse_than_zero(
    p: Tensor,
    k: int,
    *,
    c: float = 1.0,
    family: Family = "gaussian",
    draws: int = 2000,
) -> Verdict:
    """As a matrix, P R'R is farther from P than the zero matrix is.

        E |c P R'R - P|_F^2 = (c^2 (1 + (n + 1) / k) - 2 c + 1) |P|_F^2

    For c = 1 this is (n + 1) / k |P|_F^2; it is least, 1 - c, at c = k / (n + k + 1).
    Hypotheses: R is Gaussian and knows nothing of P.
    Measured: how far the mean over draws is from it, in standard errors.

    Args:
        p: (m, n), float64, one head, not zero.
        k: rows of R, at most n.
        c: the multiple.
        family: of R; the statement has gaussian.
        draws: of R, 200 or more.

    Returns:
        Verdict; its bound is 5 standard errors.

    Raises:
        ValueError: for p, k, c or draws that are not so, or an unknown family.

    Claim: jl.worse-than-zero
    """
    _check_product(p)
    _check_rows(k, p.shape[1])
    numbers(c=c)
    require(abs(c) < 1e70, f"c must be below 1e70, got {c}: its square is to be finite")
    integers(DRAWS, draws=draws)
    g = torch.Generator().manual_seed(0)
    seen = []
    for _ in range(draws):
        surrogate = jl_surrogate(p, k, family=family, generator=g)
        seen.append((c * surrogate - p).square().sum())
    law = c**2 * (1 + (p.shape[1] + 1) / k) - 2 * c + 1
    unit = float(p.square().sum())
    return at_most(standard_errors(torch.stack(seen), law * unit, unit), FAR)


# --- two slips


def softmax_itself() -> Verdict:
    """softmax of ln 2 (0 1; 0 0) has the rows (1/3, 2/3) and (1/2, 1/2).

    Measured: the largest difference from torch.
    """
    a = math.log(2) * torch.tensor([[0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    wanted = torch.tensor([[1 / 3, 2 / 3], [1 / 2, 1 / 2]], dtype=torch.float64)
    return at_most((torch.softmax(a, -1) - wanted).abs().max(), 1e-15)


SCORES = Case(scores)


@claim(
    "jl.normaliser",
    cases=[SCORES, SCORES.but(a=((2, 4, -2), (0, 6, 2), (4, 4, 0)))],
    controls=[SCORES.but(side="right"), SCORES.but(scale="multiply")],
    witness=softmax_itself,
)
def normaliser(
    a: Sequence[Sequence[int]],
    d_qk: int,
    *,
    side: Literal["left", "right"] = "left",
    scale: Literal["divide", "multiply"] = "divide",
) -> Verdict:
    """softmax(A / sqrt d_qk) = D^-1 exp(A / sqrt d_qk), D the diagonal of row sums.

    Measured, in fractions: on the left, how far an entry of D^-1 exp is from softmax;
    on the right, how much the factors differ that a column would need, whatever D is.

    Args:
        a: logits, as whole multiples of ln 2, so that exp gives powers of two.
        d_qk: a square; its root must divide the logits.
        side: of the diagonal matrix.
        scale: "multiply" takes exp(sqrt(d_qk) A).

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for an unknown word, logits that are no matrix of whole numbers, or
            that the root does not divide.

    Claim: jl.normaliser
    """
    one_of(("left", "right"), side=side)
    one_of(("divide", "multiply"), scale=scale)
    integers(1, d_qk=d_qk)
    a = _exact("a", a)
    whole = all(v.denominator == 1 for row in a for v in row)
    require(whole, "a must hold whole numbers, the multiples of ln 2")
    width = math.isqrt(d_qk)
    if width**2 != d_qk or any(v % width for row in a for v in row):
        raise ValueError(
            f"a and d_qk = {d_qk}: d_qk must be a square whose root divides all of a"
        )
    powers = [[Fraction(2) ** (v // width) for v in row] for row in a]
    softmax = certify.row_stochastic(powers)
    if scale == "multiply":
        powers = [[Fraction(2) ** (v * width) for v in row] for row in a]
    if side == "left":
        return at_most(squares(minus(certify.row_stochastic(powers), softmax)), 0)
    spreads = []
    for wanted, have in zip(zip(*softmax), zip(*powers)):
        factors = [w / h for w, h in zip(wanted, have)]
        spreads.append(max(factors) - min(factors))
    return at_most(max(spreads), 0)


def the_kernel_has_that_rank() -> Verdict:
    """jl_surrogate of softmax(5 I) with k = 7, n = 40.

    Measured: how far its rank is from 7.
    """
    p = sharp_attention(40, beta=5.0)["p"]
    s = jl_surrogate(p, 7, generator=torch.Generator().manual_seed(0))
    return at_most(abs(int(torch.linalg.matrix_rank(s)) - 7), 0)


FULL = Case(integer_matrix)


@claim(
    "jl.rank",
    cases=[FULL, FULL.but(rank=2, k=6), FULL.but(rank=1, k=5), FULL.but(k=8)],
    controls=[FULL.but(rows="repeated")],
    witness=the_kernel_has_that_rank,
)
def rank_of_the_surrogate(
    p: Sequence,
    r: Sequence,
    *,
    rows: Literal["independent", "repeated"] = "independent",
) -> Verdict:
    """rank(P R'R) = min(k, rank P), almost surely.

    Hypotheses: R is Gaussian and knows nothing of P.
    Measured, in fractions: by how much the rank is off.

    Args:
        p: (m, n), a nested list of fractions.
        r: (k, n), likewise, k >= 2.
        rows: "repeated" puts the first row of R in place of the last.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for an unknown word, or p and r that are no such matrices.

    Claim: jl.rank
    """
    one_of(("independent", "repeated"), rows=rows)
    p = _exact("p", p)
    r = _exact("r", r)
    integers(2, k=len(r))
    require(
        len(p[0]) == len(r[0]),
        f"r must have n = {len(p[0])} columns to fit p, got {len(r[0])}",
    )
    if rows == "repeated":
        r = [*r[:-1], r[0]]
    columns = [list(column) for column in zip(*r)]
    got = certify.rank(certify.product(p, columns, r))
    return at_most(abs(got - min(len(r), certify.rank(p))), 0)
