"""The claims of the page `Random projections of attention`.

Tensors are float64, on the CPU as R is, and not zero; anything else is refused.

Page: notebooks/jl_low_rank/random_projections
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnbook.theorems.paths import error
from attnlib import certify
from attnlib._require import finite, is_tensor, matches, numbers, one_of, require
from attnlib._require import sizes as integers
from attnlib.attention import attention_matrix
from attnlib.certify import Verdict, at_most
from attnlib.certify.matrices import _exact
from attnlib.lowrank import (
    Family,
    failure_bound,
    failure_probability,
    jl_surrogate,
    projection,
    required_dimension,
    srht,
    svd_surrogate,
)

# Shares of draws are held against their chances in binomial deviations, means against
# laws in standard errors. Neither comes this far off by accident once in a million.
FAR = 5
DRAWS = 200  # for a mean whose law is skewed, and five times as many for a maximum
EPS = torch.finfo(torch.float64).eps
ROUNDING = 1e-12
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
    return float((seen.mean() - wanted).abs() / error.clamp_min(ROUNDING * unit))


# --- what the theorems accept


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


def asked(n=174, pairs=512, eps=0.5, delta=0.05) -> dict:
    """Tokens, inner products to keep, the error and the chance allowed."""
    return {"n": n, "pairs": pairs, "eps": eps, "delta": delta}


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


def attention_and_values(n=40, d=6) -> dict:
    """An attention matrix, and d columns of values."""
    return {**matrix(n), "v": randn(n, d, seed=2)}


def logits(n=24, k=7, beta=8.0) -> dict:
    """Tokens, a rank, and the strength of the logits beta I."""
    return {"n": n, "k": k, "beta": beta}


def scores(a=((0, 2), (0, 0)), d_qk=4) -> dict:
    """Queries and keys of this width whose products are a, in units of ln 2."""
    a = math.log(2) * torch.tensor(a, dtype=torch.float64)
    n = len(a)
    q, k = torch.zeros(2, n, d_qk, dtype=torch.float64)
    q[:, :n] = a
    k[:, :n] = torch.eye(n)
    return {"q": q, "k": k}


def integer_matrix(n=8, rank=8, k=3) -> dict:
    """A matrix of small integers of this rank, and a projection with few digits."""
    g = torch.Generator().manual_seed(k)
    left = torch.randint(1, 9, (n, rank), generator=g)
    right = torch.randint(1, 9, (rank, n), generator=g)
    r = (projection(k, n, generator=g) * 2**20).round()
    return {"p": certify.exact(left @ right), "r": certify.exact(r)}


# --- the lemma


NORM = Case(vector, {"n": 40}, {"k": 16, "eps": 0.5})


@claim(
    "jl.norm-law",
    cases=[NORM, NORM.but(eps=0.25), NORM.but(eps=0.25, flat=True), NORM.but(k=1)],
    broken={"signs": {"_family": "rademacher"}},
)
def norm_law(
    x: Tensor, k: int, eps: float, *, draws: int = 2000, _family="gaussian"
) -> Verdict:
    """The squared norm of a projected vector is chi-square, k degrees of freedom.

        k |Rx|^2 / |x|^2  ~  chi^2_k

    Measured: how often |Rx|^2 leaves (1 +- eps) |x|^2, in binomial deviations from the
    chance by that law; so many draws that about 25 or more leave and as many stay.

    Claim: jl.norm-law
    """
    _check_vectors(x=x)
    _check_rows(k, len(x))
    _check_share(eps)
    chance = failure_probability(k, eps)
    _check_draws(draws, chance)
    images = drawn(k, len(x), draws, _family) @ x
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


TAIL = Case(two_vectors, {"cosine": 0.3}, {"k": 200, "eps": 0.5})
ANGLES = [TAIL.but(cosine=c, k=40, eps=e) for c in (1, 0, -0.6) for e in (0.1, 0.9)]


@claim(
    "jl.tail",
    cases=[
        TAIL,
        TAIL.but(k=3),
        *ANGLES,
        TAIL.but(cosine=1.0, k=200),
        TAIL.but(k=40, eps=0.01),
    ],
    broken={"eps |x'y|": {"_printed": True}},
)
def tail(x: Tensor, y: Tensor, k: int, eps: float, *, _printed=False) -> Verdict:
    """A projection keeps an inner product up to eps |x| |y|, but for a small chance.

        Pr(|x'R'Ry - x'y| > eps |x| |y|)  <=  2 e^(-k (eps - ln(1 + eps)) / 2)
                                          <=  2 e^(-k (eps^2 - eps^3) / 4)

    Measured: the chance over the first bound, or that over the second, the larger. The
    chance is computed as an integral over two chi-squares.

    Args:
        k: 3 or more: below, the integral is not exact enough.
        eps: the first bound must not be below 1e-250; the second needs eps < 1.

    Claim: jl.tail
    """
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
    room = eps * abs(cosine) if _printed else eps
    worst = inner_product_chance(k, room, cosine) / sharp
    if eps < 1:
        worst = max(worst, sharp / failure_bound(k, eps))
    return at_most(worst, 1 + 1e-9)


RIGHT_ANGLE = Case(two_vectors, {"cosine": 0.0}, {"k": 32, "eps": 0.5})


@claim(
    "jl.root",
    cases=[RIGHT_ANGLE, RIGHT_ANGLE.but(k=1), RIGHT_ANGLE.but(k=40, eps=100.0)],
    controls=[RIGHT_ANGLE.but(cosine=0.5)],
    broken={"eps |x| |y|": {"_norms": True}},
)
def root(
    x: Tensor, y: Tensor, k: int, eps: float, *, draws: int = 400, _norms=False
) -> Verdict:
    """At a right angle no projection keeps x'y up to eps |x'y|: the chance is 0.

        Pr(|x'R'Ry - x'y| <= eps |x'y|)  =  0

    Measured: the share of draws in which it is kept.

    Claim: jl.root
    """
    _check_vectors(x=x, y=y)
    _check_rows(k, len(x))
    _check_share(eps)
    integers(1, draws=draws)
    R = drawn(k, len(x), draws)
    off = ((R @ x) * (R @ y)).sum(1) - x @ y
    room = x.norm() * y.norm() if _norms else (x @ y).abs()
    return at_most((off.abs() <= eps * room).double().mean(), 0)


ASKED = Case(asked)


@claim(
    "jl.floor",
    cases=[ASKED, ASKED.but(n=2), ASKED.but(n=16, pairs=1), ASKED.but(pairs=512 * 64)],
    controls=[ASKED.but(n=175)],
    broken={"exact law": {"_exact": True}},
)
def rows_needed(
    n: int, pairs: int, eps: float, delta: float, *, _exact=False
) -> Verdict:
    """What the usual formula asks for: enough rows, and often more than there are.

        k >= 4 ln(2 N / delta) / (eps^2 - eps^3)  leaves a failure of at most delta
        5 ln n / (eps^2 - eps^3)  >=  33.75 ln n,  and for 2 <= n <= 174 it exceeds n

    Measured: the largest of three: the failure that is left over delta, less 1, by the
    formula and by the exact law of norms; 33.75 ln n less the rows asked for; and n
    less the rows asked for, at the best of eleven values of eps.

    Args:
        n: tokens, 2 to 174; above 174 the second line fails.
        pairs: N, inner products to keep.

    Claim: jl.floor
    """
    integers(2, n=n)
    integers(1, pairs=pairs)
    _check_share(eps)
    by_formula = required_dimension(eps, delta, union=pairs, exact=False)
    by_law = required_dimension(eps, delta, union=pairs)
    failure = max(failure_bound(by_formula, eps), failure_probability(by_law, eps))
    rows = [5 * math.log(n) / (e**2 - e**3) for e in GRID]
    if _exact:  # at the same failure of 2 n^(-1/4): this has no such floor
        rows = [required_dimension(e, 2 * n**-0.25, union=n) for e in GRID]
    too_few = max(33.75 * math.log(n), n) - min(rows)
    return at_most(max(pairs * failure / delta - 1, too_few), 1e-9)


# --- families


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
    broken={"entries with a mean": {"_centred": False}},
)
def families(
    k: int, n: int, family: str, *, s: int = 1, draws: int = 2000, _centred=True
) -> Verdict:
    """E[R'R] = I for all five families.

    Measured: the entry of the mean of R'R that is farthest from I, in standard errors;
    at most 5, or more if one of n^2 normal numbers would be above 5 more than once in
    ten thousand times. For srht also how far the fast transform is from the matrix, in
    units of 1e-12.

    Args:
        s: entries in a column of a sparse R.
        draws: of R, 1000 or more.

    Claim: jl.families
    """
    integers(5 * DRAWS, draws=draws)
    R = drawn(k, n, draws, family, s=s)
    if not _centred:
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
    standard_error = (variance / (draws - 1)).sqrt().clamp_min(ROUNDING)
    worst = float((mean.abs() / standard_error).max())
    if family == "srht":
        fast = srht(eye, k, generator=torch.Generator().manual_seed(0)).mT
        worst = max(worst, float((fast - R[0]).abs().max()) / ROUNDING)
    one_side = torch.tensor(1e-4 / (n * (n + 1)), dtype=R.dtype)
    return at_most(worst, max(FAR, -float(torch.special.ndtri(one_side))))


EIGHT_ROWS = Case(sizes, {"k": 8, "n": 8})


@claim(
    "jl.countsketch",
    cases=[EIGHT_ROWS, EIGHT_ROWS.but(k=2, n=2), EIGHT_ROWS.but(k=16, n=20)],
    broken={"four entries a column": {"_s": 4}},
)
def collision(k: int, n: int, *, draws: int = 3000, _s=1) -> Verdict:
    """CountSketch changes |(e_1 + e_2) / sqrt 2|^2 to 0 or 2 with chance 1/k.

    Measured: how often the squared norm is off by more than 1/2, in binomial deviations
    from 1/k; about 25 k draws or more.

    Claim: jl.countsketch
    """
    integers(2, n=n)
    _check_rows(k, n, 2)
    _check_draws(draws, 1 / k)
    R = drawn(k, n, draws, "sparse", s=_s)
    norms = (R[:, :, 0] + R[:, :, 1]).square().sum(1) / 2
    share = float(((norms - 1).abs() > 0.5).double().mean())
    return at_most(abs(deviations(share, 1 / k, draws)), FAR)


# --- what P R'R w is


SPIKE = Case(attention, {"w": "spike"}, {"k": 2, "family": "rademacher"})


@claim(
    "jl.mean-square",
    cases=[
        SPIKE,
        SPIKE.but(family="gaussian"),
        SPIKE.but(family="achlioptas", w="noise"),
        SPIKE.but(family="gaussian", w="ones", k=1),
    ],
    broken={"kappa = 3": {"_kappa": 3}},
)
def mean_square(
    p: Tensor,
    w: Tensor,
    k: int,
    *,
    family: Literal["gaussian", "achlioptas", "rademacher"] = "gaussian",
    draws: int = 1200,
    _kappa=None,
) -> Verdict:
    """The mean square error of P R'R w has a formula.

        E |P R'R w - P w|^2 = (|P|_F^2 |w|^2 + |P w|^2
                               + (kappa - 3) sum_j w_j^2 |P e_j|^2) / k

    Measured: how far the mean over draws is from the formula, in standard errors.

    Args:
        p: (m, n), one head, and w: (n,).
        family: of R, with independent entries; kappa is 1 for signs, and else 3.
        draws: of R, 200 or more.

    Claim: jl.mean-square
    """
    one_of(list(KAPPA), family=family)
    _check_product(p, w=w)
    _check_rows(k, len(w))
    integers(DRAWS, draws=draws)
    g = torch.Generator().manual_seed(0)
    seen = []
    for _ in range(draws):
        got = jl_surrogate(p, k, w[:, None], family=family, generator=g)
        seen.append((got[:, 0] - p @ w).square().sum())
    kappa = KAPPA[family] if _kappa is None else _kappa
    norms = float(p.square().sum() * w.square().sum())
    output = float((p @ w).square().sum())
    fourth = float((w.square() * p.square().sum(0)).sum())
    law = (norms + output + (kappa - 3) * fourth) / k
    return at_most(standard_errors(torch.stack(seen), law, norms / k), FAR)


def _with_a_column(p, w, k: int, seed: int, spy=None) -> tuple[Tensor, ...]:
    """(P R'R w, P w, w) for the Gaussian R of this seed; w is spy(R) if there is one:
    a column that has looked at R.
    """
    g = torch.Generator().manual_seed(seed)
    if spy is not None:
        w = spy(projection(k, len(w), generator=g))
        g.manual_seed(seed)  # the same R once more
    return jl_surrogate(p, k, w[:, None], generator=g)[:, 0], p @ w, w


def nearest_to_fixed(r: Tensor) -> Tensor:
    """The right singular vector of R that R'R changes least."""
    _, values, vectors = torch.linalg.svd(r, full_matrices=False)
    return vectors[(values - 1).abs().argmin()]


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


IDENTITY = Case(sharp_attention, {"n": 100}, {"k": 60, "eps": 0.5})


@claim(
    "jl.relative",
    cases=[IDENTITY, IDENTITY.but(k=99), IDENTITY.but(beta=12.0)],
    broken={
        "w looks at R": {"_spy": nearest_to_fixed},
        "eps |P| |w|": {"_norms": True},
    },
)
def relative_form_fails(
    p: Tensor,
    w: Tensor,
    k: int,
    eps: float,
    *,
    draws: int = 40,
    _spy=None,
    _norms=False,
) -> Verdict:
    """|P R'R w - P w| <= eps |P w| is unlikely for sharp attention, at every k < n.

        chance  <=  e^(-(n - 1) (gamma - 1 - ln gamma) / 2)
        gamma   =   2 k (1 - sqrt(1 - (eps cond(P))^2)) / (n - 1)

    Measured: the share of draws that satisfy it; at most the chance and 5 binomial
    deviations, or half a draw if that is more.

    Args:
        p: (n, n), one head, with eps cond(P) <= 1 and gamma < 1; w: (n,).
        draws: of R, so many that the bound is below 1.

    Claim: jl.relative
    """
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
        got, wanted, column = _with_a_column(p, w, k, seed, _spy)
        room = p.norm() * column.norm() if _norms else wanted.norm()
        kept += bool((got - wanted).norm() <= eps * room)
    return at_most(kept / draws, max(bound, 1 / (2 * draws)))


def arctan_bound(k: int, n: int, eps: float) -> float:
    """Formula (6.12) as it stands."""
    return 2 / math.pi * math.atan(eps * math.sqrt(k**2 / ((k - 2) * (n - 3))))


RANK_ONE = Case(sizes, {"k": 16, "n": 64}, {"eps": 0.5})


@claim(
    "jl.rank-one",
    cases=[RANK_ONE, RANK_ONE.but(k=3, n=8)],
    broken={"w of mean 2": {"_mean": 2.0}},
)
def rank_one(
    k: int, n: int, eps: float, *, draws: int = 1500, _mean: float = 0.0
) -> Verdict:
    """Uniform attention on noise: the relative form is unlikely here too.

        chance  <=  2/pi arctan(eps sqrt(k^2 / ((k - 2) (n - 3))))

    Measured: how far the share of draws that satisfy it is above the bound, in binomial
    deviations; so many draws that the bound lets about 25 or more satisfy it.

    Claim: jl.rank-one
    """
    integers(4, n=n)
    _check_rows(k, n, 3)
    _check_share(eps)
    chance = arctan_bound(k, n, eps)
    _check_draws(draws, chance)
    row = torch.full((1, n), 1 / n, dtype=torch.float64)  # all rows of P are alike
    g = torch.Generator().manual_seed(0)
    kept = 0
    for w in randn(draws, n, seed=3) + _mean:
        got = jl_surrogate(row, k, w[:, None], generator=g)
        kept += bool((got - w.mean()).abs() <= eps * w.mean().abs())
    return at_most(deviations(kept / draws, chance, draws), FAR)


# --- what is true


ONES = Case(attention, {"n": 512, "w": "ones"}, {"eps": 0.5, "delta": 0.05})


@claim(
    "jl.normalised",
    cases=[ONES, ONES.but(w="noise"), ONES.but(w="spike", seed=1)],
    broken={"w looks at R": {"_spying": True}, "zero matrix": {"_factor": 0}},
)
def normalised(
    p: Tensor,
    w: Tensor,
    eps: float,
    delta: float,
    *,
    draws: int = 20,
    _spying=False,
    _factor=1,
) -> Verdict:
    """Every row of P R'R w is right up to eps times the norms of its row and of w.

        |(P R'R w - P w)_i|  <=  eps |P_i| |w|    for all i, with chance 1 - delta
        k  >=  4 ln(2 n / delta) / (eps^2 - eps^3)

    Measured: the largest left side over its right side, over rows and draws; each draw
    may fail with chance delta.

    Args:
        p: (m, n), one head, no row zero, with n at least the k that eps and delta give;
            w: (n,).

    Claim: jl.normalised
    """
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

    def mistaken(r: Tensor) -> Tensor:
        return r.mT @ (r @ p[0]) - p[0]

    worst = 0.0
    for seed in range(draws):
        spy = mistaken if _spying else None
        got, wanted, column = _with_a_column(p, w, k, seed, spy)
        off = (_factor * got - wanted).abs() / (lengths * column.norm())
        worst = max(worst, float(off.max()) / eps)
    return at_most(worst, 1)


VALUES = Case(attention_and_values)


@claim(
    "jl.existence",
    cases=[VALUES, VALUES.but(d=1)],
    broken={"other values": {"_others": True}},
    without_kernel="a pseudo-inverse, by torch",
)
def existence(p: Tensor, v: Tensor, *, _others=False) -> Verdict:
    """A matrix that knows V maps it to P V, and its rank is at most its width.

        S = P V V^+,   S V = P V,   rank S <= d

    Measured: the relative error of S V, or how much its rank is above d; 1e-12 is
    allowed for rounding, more if V is ill-conditioned.

    Args:
        p: (m, n), one head.
        v: (n, d), of full column rank; d = 1 is a single column w.

    Claim: jl.existence
    """
    _check_product(p, v=v)
    rank = int(torch.linalg.matrix_rank(v))
    require(
        rank == v.shape[1],
        f"v must have full column rank {v.shape[1]}, got rank {rank}",
    )
    digits = max(ROUNDING, 64 * EPS * float(torch.linalg.cond(v)))
    s = p @ v @ torch.linalg.pinv(v)
    tried = randn(*v.shape, seed=6) if _others else v
    surplus = int(torch.linalg.matrix_rank(s, rtol=digits)) - v.shape[1]
    return at_most(max(error(s @ tried, p @ tried), surplus), digits)


SHARP = Case(logits)


@claim(
    "jl.uniform",
    cases=[SHARP, SHARP.but(k=1), SHARP.but(k=23), SHARP.but(beta=0.0)],
    controls=[SHARP.but(beta=-2.0)],
    broken={"rank n": {"_full": True}},
)
def nothing_uniform(n: int, k: int, beta: float, *, _full=False) -> Verdict:
    """No matrix of rank k < n is near softmax(beta I) for all columns at once.

        |S - P|_2 >= sigma_(k+1),  |S - P|_F^2 >= sum over j > k of sigma_j^2
        sigma_2 = ... = sigma_n = (e^beta - 1) / (e^beta + n - 1)

    Measured: by how much one of the two is missed, for three matrices S of rank k:
    truncation, P V V^+ and P R'R; or how far a singular value is from the formula.

    Claim: jl.uniform
    """
    integers(2, n=n)
    integers(1, k=k)
    require(k < n, f"k must be below n = {n}, got {k}")
    numbers(beta=beta)
    p = torch.softmax(beta * torch.eye(n, dtype=torch.float64), -1)
    rank = n if _full else k
    v = randn(n, rank, seed=4)
    surrogates = [
        svd_surrogate(p, rank),
        p @ v @ torch.linalg.pinv(v),
        jl_surrogate(p, rank, generator=torch.Generator().manual_seed(0)),
    ]
    capped = min(beta, 700.0)  # exp of 710 overflows, and sigma is 1 long before
    sigma = math.expm1(capped) / (math.exp(capped) + n - 1)
    values = torch.linalg.svdvals(p)
    off = float((values[1:] - sigma).abs().max())
    for surrogate in surrogates:
        distance = p - surrogate
        spectral = float(torch.linalg.matrix_norm(distance, 2))
        rest = float(values[k:].square().sum() - distance.square().sum())
        off = max(off, sigma - spectral, rest)
    return at_most(off, max(64, 2 * n) * EPS)


FOUR = Case(matrix, {"n": 4}, {"k": 2})


@claim(
    "jl.worse-than-zero",
    cases=[FOUR, FOUR.but(c=2 / 7), FOUR.but(n=64, k=16, draws=200)],
    broken={"signs": {"_family": "rademacher"}},
)
def worse_than_zero(
    p: Tensor, k: int, *, c: float = 1.0, draws: int = 2000, _family="gaussian"
) -> Verdict:
    """As a matrix, P R'R is farther from P than the zero matrix is.

        E |c P R'R - P|_F^2 = (c^2 (1 + (n + 1) / k) - 2 c + 1) |P|_F^2

    For c = 1 this is (n + 1) / k |P|_F^2; it is least, 1 - c, at c = k / (n + k + 1).
    Measured: how far the mean over draws, 200 or more, is from it, in standard errors.

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
        surrogate = jl_surrogate(p, k, family=_family, generator=g)
        seen.append((c * surrogate - p).square().sum())
    law = c**2 * (1 + (p.shape[1] + 1) / k) - 2 * c + 1
    unit = float(p.square().sum())
    return at_most(standard_errors(torch.stack(seen), law * unit, unit), FAR)


# --- two slips


SCORES = Case(scores)


@claim(
    "jl.normaliser",
    cases=[SCORES, SCORES.but(a=((2, 4, -2), (0, 6, 2), (4, 4, 0)))],
    broken={
        "on the right": {"_right": True},
        "exp(sqrt(d) A)": {"_multiply": True},
        "as printed": {"_right": True, "_multiply": True},
    },
)
def normaliser(q: Tensor, k: Tensor, *, _right=False, _multiply=False) -> Verdict:
    """softmax(A / sqrt d_qk) = D^-1 exp(A / sqrt d_qk), D the diagonal of row sums.

    Measured: how far an entry of D^-1 exp is from `attention_matrix`; on the right, how
    much the factors differ that a column would need, whatever D is. q and k are
    (n, d_qk), and A = Q K'.

    Claim: jl.normaliser
    """
    _check_tensor("k", k, "n d")
    matches("q", q, tuple(k.shape), k, "k")
    n, d_qk = q.shape
    softmax = attention_matrix(torch.eye(n, dtype=q.dtype), q, k)
    scale = math.sqrt(d_qk) if _multiply else 1 / math.sqrt(d_qk)
    logits = scale * q @ k.mT
    require(
        logits.abs().max() < 700, "q and k must have logits below 700: exp overflows"
    )
    powers = logits.exp()
    if _right:
        factors = softmax / powers
        return at_most((factors.amax(0) - factors.amin(0)).max(), ROUNDING)
    found = powers / powers.sum(-1, keepdim=True)
    return at_most((found - softmax).abs().max(), ROUNDING)


FULL = Case(integer_matrix)


@claim(
    "jl.rank",
    cases=[FULL, FULL.but(rank=2, k=6), FULL.but(rank=1, k=5), FULL.but(k=8)],
    broken={"two equal rows": {"_repeated": True}},
)
def rank_of_the_surrogate(p: Sequence, r: Sequence, *, _repeated=False) -> Verdict:
    """rank(P R'R) = min(k, rank P), almost surely.

    Measured, in fractions: by how much the rank is off. p is (m, n) and r (k, n), k at
    least 2, as nested lists.

    Claim: jl.rank
    """
    p = _exact("p", p)
    r = _exact("r", r)
    integers(2, k=len(r))
    require(
        len(p[0]) == len(r[0]),
        f"r must have n = {len(p[0])} columns to fit p, got {len(r[0])}",
    )
    if _repeated:
        r = [*r[:-1], r[0]]
    columns = [list(column) for column in zip(*r)]
    got = certify.rank(certify.product(p, columns, r))
    return at_most(abs(got - min(len(r), certify.rank(p))), 0)


def cloud(count=10, n=200) -> Tensor:
    """(count, n): Gaussian points."""
    return randn(count, n, seed=12)


def rows_for(count: int, eps: float) -> int:
    """The k of (6.15), at least 1."""
    return max(1, math.ceil(4 * math.log(count) / (eps**2 / 2 - eps**3 / 3)))


def clouds(count=10, n=200, eps=0.5, k=None) -> dict:
    """Points, the error allowed, and how many rows if not those of the formula."""
    return {"points": cloud(count, n), "eps": eps, "k": k}


CLOUD = Case(clouds)


@claim(
    "jl.signs",
    cases=[CLOUD, CLOUD.but(count=4, n=40, eps=1.0), CLOUD.but(count=2, n=300)],
    controls=[CLOUD.but(k=4)],
    broken={"not divided": {"_divided": False}},
)
def all_distances(
    points: Tensor, eps: float, k: int | None = None, *, _divided=True
) -> Verdict:
    """Some matrix of signs over sqrt(k) keeps all distances of N points up to 1 +- eps.

        k >= 4 ln N / (eps^2 / 2 - eps^3 / 3)

    Measured: the largest change of a squared distance, relative to it and to eps, by
    the best of 20 draws.

    Args:
        points: (N, n), all different, with n at least k.
        k: None for the least that the formula allows.

    Claim: jl.signs
    """
    _check_tensor("points", points, "N n")
    require(0 < eps <= 1, f"eps must lie in (0, 1], got {eps}")
    count, n = points.shape
    if count == 1:
        return at_most(0, 0)  # there are no distances
    one, two = torch.triu_indices(count, count, 1)
    apart = points[one] - points[two]
    before = apart.square().sum(-1)
    require(bool((before > 0).all()), "points: two of them are equal")
    if k is None:
        k = rows_for(count, eps)
    r = drawn(k, n, 20, "rademacher")
    after = (apart @ r.mT).square().sum(-1) * (1 if _divided else k)
    worst = (after / before - 1).abs().amax(-1)
    return at_most(float(worst.min()) / eps, 1)
