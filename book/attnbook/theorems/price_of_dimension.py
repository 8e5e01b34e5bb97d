"""The claims of the page `What it costs to be sharp`.

What is no object of a theorem, such as a tensor that is not finite float64, is refused.

Page: notebooks/sparse_patterns/price_of_dimension
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor
from torch.nn.functional import normalize

from attnbook.theorems import Case, claim
from attnlib._require import (
    finite,
    fractions,
    is_list,
    is_tensor,
    matches,
    numbers,
    require,
    sizes,
)
from attnlib.certify import Verdict, at_most
from attnlib.codes import (
    code_from,
    coherence,
    margins,
    moment_keys,
    moment_queries,
    price,
    spiral_keys,
)
from attnlib.codes.exact import e8, golay, leech, radon

# What rounding leaves of an identity between unit vectors: 4,500 eps.
ROUNDING = 1e-12
GOLDEN = (3 - 5**0.5) / 2


def itself(n: int) -> Tensor:
    """The pattern in which row i has column i, (n, 1)."""
    return torch.arange(n)[:, None]


def cost(q: Tensor, k: Tensor) -> float:
    """s / T: the longest query over the smallest margin, infinite if a query j does not
    prefer key j.
    """
    check_rows(q=q, k=k)
    matches("q", q, tuple(k.shape), k, "k")
    q = moderate(q)
    gap = float(margins(q, k, itself(len(k))).min())
    if gap <= 0:
        return math.inf
    return float(q.norm(dim=1).max()) / gap


# --- what the theorems accept


def check_rows(**given: Tensor) -> None:
    """Refuse what is no finite float64 tensor (n, d) with two rows or more."""
    for name, rows in given.items():
        is_tensor(name, rows)
        require(
            rows.dtype == torch.float64,
            f"{name} must be float64, got {rows.dtype}: in other digits the bounds of "
            "this page cannot be held. Cast it first",
        )
        got = tuple(rows.shape)
        require(
            len(got) == 2 and got[0] >= 2 and got[1] >= 1,
            f"{name} must be (n, d) with n >= 2 and d >= 1, got {got}",
        )
        finite(**{name: rows})


def moderate(x: Tensor) -> Tensor:
    """x over a power of two, which is exact: its largest entry lies in [1, 2)."""
    _, exponent = math.frexp(float(x.abs().max()))
    return x / 2.0 ** (exponent - 1)


def paid_by(q: Tensor, k: Tensor) -> float:
    """s / T of queries that prefer their keys; others are refused."""
    paid = cost(q, k)
    require(
        paid < math.inf,
        "q must prefer its keys, got a query j whose logit on row j of k is not the "
        "largest: no gap is met",
    )
    return paid


def exact_rows(name: str, rows: Sequence[Sequence]) -> list[list[Fraction]]:
    """Lists of finite numbers, all of one length, as fractions."""
    is_list(**{name: rows})
    found = []
    for i, row in enumerate(rows):
        is_list(**{f"{name}[{i}]": row})
        entries = {f"{name}[{i}][{j}]": value for j, value in enumerate(row)}
        found.append(fractions(**entries))
    lengths = sorted({len(row) for row in found})
    require(len(lengths) == 1, f"rows of {name} must have one length, got {lengths}")
    return found


def _check_logits(logits: Tensor) -> float:
    """The gap of logits; refuse them unless the largest form a permutation."""
    check_rows(logits=logits)
    got = tuple(logits.shape)
    require(got[0] == got[1], f"logits must be (n, n), got {got}")
    best = logits.topk(2, dim=1)
    gap = float((best.values[:, 0] - best.values[:, 1]).min())
    require(
        gap > 0,
        f"each row of logits must have one largest entry, the least gap is {gap}",
    )
    require(
        len(best.indices[:, 0].unique()) == got[0],
        "the largest logits of the rows must form a permutation",
    )
    return gap


def _check_code(keys: Tensor) -> None:
    """Refuse keys that are none of the three codes, up to rotation and order."""
    check_rows(keys=keys)
    n, d = keys.shape
    off = float((keys.norm(dim=1) - 1).abs().max())
    if n <= 2 * d:
        products = (keys @ keys.T)[~torch.eye(n, dtype=torch.bool)]
        if n <= d + 1:
            errors = products + 1 / (n - 1)
        else:
            errors = torch.minimum(products.abs(), (products + 1).abs())
    else:
        require(d == 2, f"keys are {n} in {d} dimensions: no closed form is known here")
        angles = torch.atan2(keys[:, 1], keys[:, 0]).sort().values
        errors = angles.diff() * n / (2 * math.pi) - 1
    off = max(off, float(errors.abs().max()))
    require(
        off <= 1e-6,
        "keys must be a circle, a simplex or a cross-polytope of unit vectors, got "
        f"{n} keys in {d} dimensions that are off by {off:.3g}",
    )


def _check_vectors(vectors: Tensor, rows: Sequence[int]) -> int:
    """The squared length that all of the integer vectors have; others are refused."""
    is_tensor("vectors", vectors)
    got = tuple(vectors.shape)
    require(
        vectors.dtype == torch.int64 and len(got) == 2 and got[0] >= 2 and got[1] >= 1,
        f"vectors must be int64 (n, d) with n >= 2, got {vectors.dtype} {got}",
    )
    lengths = vectors.double().square().sum(1)
    square = float(lengths[0])
    require(bool((lengths == square).all()), "vectors must all have one length")
    require(
        0 < square < 2**53,
        f"vectors must have a squared length from 1 to 2^53, got {square:g}: "
        "larger products are not exact",
    )
    for row in rows:
        sizes(0, **{"each of some": row})
        require(row < got[0], f"some must name rows from 0 to {got[0] - 1}, got {row}")
    return int(square)


# --- objects: what the tests run the theorems on


def random_pattern(n=64, k=3, seed=0) -> dict:
    """Rows of k random columns, with random weights between 1 and 4."""
    g = torch.Generator().manual_seed(seed)
    columns = torch.rand(n, n, generator=g).argsort(dim=1, stable=True)[:, :k]
    weights = 1 + 3 * torch.rand(n, k, generator=g, dtype=torch.float64)
    return {"columns": columns, "log_weights": weights.log(), "n": n}


def integer_keys(k=2, d=3, seed=0) -> dict:
    """2 k + 1 keys of d integers."""
    g = torch.Generator().manual_seed(seed)
    keys = torch.randint(-99, 100, (2 * k + 1, d), generator=g)
    return {"keys": keys.tolist(), "k": k}


def loose(n=5, d=4, seed=0, longest=1.0) -> dict:
    """Random keys up to a norm, and noisy queries that prefer them all the same."""
    g = torch.Generator().manual_seed(seed)
    while True:
        keys = torch.randn(n, d, dtype=torch.float64, generator=g)
        keys = longest * keys / keys.norm(dim=1).max()
        noise = torch.randn(n, d, dtype=torch.float64, generator=g)
        queries = keys - keys.mean(0) + 0.1 * noise
        if cost(queries, keys) < math.inf:
            return {"q": queries, "k": keys}


def simplex(n: int) -> Tensor:
    """n unit vectors in n - 1 dimensions with products -1 / (n - 1)."""
    centred = torch.eye(n, dtype=torch.float64) - 1 / n
    return normalize(torch.linalg.eigh(centred)[1][:, 1:], dim=1)


def cross_polytope(d: int) -> Tensor:
    """The 2 d vectors with one entry 1 or -1 and zeros else."""
    return torch.cat([torch.eye(d), -torch.eye(d)]).double()


def random_code(n: int, d: int, seed: int = 0) -> Tensor:
    """n random unit vectors."""
    g = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(n, d, dtype=torch.float64, generator=g), dim=1)


def unit_keys(name: str, n: int) -> Tensor:
    """A spherical code by its name."""
    if name == "circle":
        return moment_keys(n)
    if name == "simplex":
        return simplex(n)
    if name == "cross":
        return cross_polytope(n // 2)
    if name == "E8":
        return e8().double() / 8**0.5
    return random_code(n, 40)


def code(name="circle", n=64) -> dict:
    """A spherical code by its name."""
    return {"keys": unit_keys(name, n)}


def meeting(name="circle", n=64, longest=1.0) -> dict:
    """A code as keys, times a length, and as queries."""
    keys = unit_keys(name, n)
    return {"q": keys, "k": longest * keys}


def vectors(name="E8", more=()) -> dict:
    """Integer vectors of a lattice, and further ones."""
    found = e8() if name == "E8" else leech()
    extra = torch.tensor(more, dtype=torch.int64).reshape(-1, found.shape[1])
    return {"vectors": torch.cat([found, extra])}


def circle_logits(n=64, gap=14.0) -> dict:
    """Logits of rank two, of keys on a circle, that meet the identity with a gap."""
    keys = moment_keys(n)
    return {"logits": price(n, 2).low * gap * keys @ keys.T}


def code_logits(name="circle", n=64, diagonal=0.0) -> dict:
    """Logits of a code with itself, plus a multiple of the identity."""
    keys = unit_keys(name, n)
    logits = keys @ keys.T + diagonal * torch.eye(n, dtype=torch.float64)
    return {"logits": logits, "d": keys.shape[1]}


# --- 2 k dimensions, and no fewer


MOMENT = Case(random_pattern)


@claim(
    "codes.moment",
    cases=[
        MOMENT,
        MOMENT.but(k=1),
        MOMENT.but(k=2),
        MOMENT.but(n=5, k=4),
        MOMENT.but(n=12, k=6),
        MOMENT.but(n=200, k=2),
    ],
    broken={"two harmonics": {"_harmonics": 2}},
)
def moment_curve(
    columns: Tensor,
    log_weights: Tensor | None = None,
    *,
    n: int,
    gap: float = 1.0,
    _harmonics: int | None = None,
) -> Verdict:
    """Keys on the moment curve in 2 k dimensions meet every pattern with at most k
    columns a row, with any weights and any gap.

    Measured: what is missing to the gap, or the spread of q_i . k_j - ln a_ij within a
    row, whichever is larger, over the longest query. columns are (m, k), S_i in row i,
    of n keys; log_weights ln a_ij.

    Claim: codes.moment
    """
    q = moment_queries(columns, log_weights, n=n, gap=gap)
    require(
        q.dtype == torch.float64,
        f"log_weights must be float64, got {q.dtype}: the bound is one of float64",
    )
    longest = float(q.norm(dim=1).max())
    require(
        longest < math.inf,
        f"gap or log_weights are too large, gap = {gap}: the queries overflow",
    )
    k = columns.shape[1]
    keys = moment_keys(n, k)
    if _harmonics is not None:
        keys[:, 2 * _harmonics :] = 0.0
    own = (q @ keys.T).gather(1, columns)
    if log_weights is not None:
        own = own - log_weights
    spread = float((own.amax(1) - own.amin(1)).max())
    short = gap - float(margins(q, keys, columns).min())
    return at_most(max(spread, short) / longest, ROUNDING)


RADON = Case(integer_keys)


@claim(
    "codes.radon",
    cases=[RADON, RADON.but(seed=1), RADON.but(k=1, d=1), RADON.but(k=4, d=7)],
    controls=[RADON.but(d=4)],
)
def small_set_lost(keys: Sequence[Sequence[Fraction | float]], k: int) -> Verdict:
    """Among 2 k + 1 keys in 2 k - 1 dimensions some set of at most k cannot be
    preferred to the rest: its hull meets the hull of the others.

    Measured, in fractions: the keys in the smaller part of Radon's split, at most k; or
    2 k + 1 if there is no split, or if the two averages differ.

    Claim: codes.radon
    """
    sizes(1, k=k)
    keys = exact_rows("keys", keys)
    require(len(keys) == 2 * k + 1, f"keys must be {2 * k + 1} rows, got {len(keys)}")
    c = radon(keys)
    if c is None:
        return at_most(2 * k + 1, k)
    left = [j for j, weight in enumerate(c) if weight > 0]
    right = [j for j, weight in enumerate(c) if weight < 0]
    total = sum(c[j] for j in left)
    apart = total == 0 or total != -sum(c[j] for j in right)
    for coordinate in zip(*keys):
        one = sum(c[j] * coordinate[j] for j in left)
        other = sum(-c[j] * coordinate[j] for j in right)
        apart = apart or one != other
    smaller = min(len(left), len(right))
    return at_most(2 * k + 1 if apart else smaller, k)


# --- the exact price


LOOSE = Case(loose)
CODE = Case(meeting)


@claim(
    "codes.law",
    cases=[
        CODE,
        LOOSE,
        LOOSE.but(seed=1),
        LOOSE.but(n=3, d=2),
        LOOSE.but(n=5, d=2, seed=2),
        LOOSE.but(n=7, d=6),
        LOOSE.but(n=12, d=12),
        LOOSE.but(n=9, d=5, seed=4),
        CODE.but(name="E8", n=240),
    ],
    controls=[CODE.but(longest=3.0)],
)
def exact_price(q: Tensor, k: Tensor) -> Verdict:
    """Keys of norm at most 1 and queries that meet a permutation hide a spherical code
    with mu <= 1 - T/s; so the least cost is T / (1 - mu*).

    Measured: mu - (1 - T/s) and the errors of lengths and directions of the code that
    the proof makes, and by which share s / T is below the proved lower bound of the
    price. For keys longer than 1 there is no such code, and only the last is measured.

    Claim: codes.law
    """
    paid = paid_by(q, k)
    low = price(*k.shape).low
    q = moderate(q)
    faults = [low / paid - 1]
    if k.norm(dim=1).max() <= 1 + ROUNDING:
        hidden = code_from(q, k)
        faults.append(coherence(hidden) - (1 - 1 / paid))
        faults.append(float((hidden.norm(dim=1) - 1).abs().max()))
        u = normalize(q, dim=1)
        push = 2 * hidden - k  # along the query
        aside = push - (push * u).sum(1, keepdim=True) * u
        faults.append(float(aside.abs().max()))
    return at_most(max(faults), ROUNDING)


def closed_form(n: int, d: int) -> float:
    """s* / T where it is known: circle, simplex, cross-polytope."""
    sizes(2, n=n)
    sizes(1, d=d)
    if n <= d + 1:
        return 1 - 1 / n
    if n <= 2 * d:
        return 1.0
    require(d == 2, f"n = {n}, d = {d}: no closed form is known here")
    return 1 / (1 - math.cos(2 * math.pi / n))


CIRCLE = Case(code)


@claim(
    "codes.circle",
    cases=[
        CIRCLE,
        CIRCLE.but(n=5),
        CIRCLE.but(n=1024),
        CIRCLE.but(name="simplex", n=9),
        CIRCLE.but(name="cross", n=16),
    ],
    broken={"a hundredth less": {"_share": 0.99}},
)
def known_codes(keys: Tensor, *, _share: float = 1.0) -> Verdict:
    """The prices of circle, simplex and cross-polytope are 1 / (1 - cos(2 pi/n)),
    1 - 1/n, and 1.

    Measured: how far the gap at that cost is from T = 1, and the relative error of
    `price`, which should know it.

    Claim: codes.circle
    """
    _check_code(keys)
    n, d = keys.shape
    known = closed_form(n, d)
    gap = float(margins(_share * known * keys, keys, itself(n)).min())
    bounds = price(n, d)
    off = max(abs(bounds.low / known - 1), abs(bounds.high / known - 1))
    return at_most(max(abs(1 - gap), off), 1e-9)


def leech_is_in_the_lattice() -> Verdict:
    """The 196560 Leech vectors are different, of squared length 32, and lie in Lambda.

    Measured: how many of them are missing, or in excess, or violate a condition.
    """
    words = golay()
    bits = 2 ** torch.arange(24)
    found = leech()
    odd = found[:, :1] % 2
    halves = ((found - odd) // 2) % 2
    same_parity = ((found - odd) % 2 == 0).all(1)
    right_sum = found.sum(1) % 8 == 4 * odd[:, 0]
    is_word = torch.isin(halves @ bits, words @ bits)
    right_length = found.square().sum(1) == 32
    good = found[same_parity & right_sum & is_word & right_length]
    # Entries are -4..4: as digits of base 11, modulo 2^64, they make a number each.
    # Vectors with different numbers are different.
    digits = 11 ** torch.arange(24)
    different = len((good @ digits).unique())
    return at_most(abs(len(found) - 196560) + abs(different - 196560), 0)


LATTICE = Case(vectors)


@claim(
    "codes.kissing",
    cases=[
        LATTICE,
        LATTICE.but(name="Leech", some=[0, 1104, 5000]),
    ],
    controls=[LATTICE.but(more=[[2, 1, 1, 1, 1, 0, 0, 0]])],
    without_kernel="products of integers; its vectors are e8() and leech() of attnlib",
)
def kissing(vectors: Tensor, *, some: Sequence[int] | None = None) -> Verdict:
    """240 keys in 8 dimensions and 196560 in 24 serve all permutations at the cost 2 T:
    no two of them are nearer than 60 degrees.

    Measured, in integers of one length: the largest product of two different vectors,
    less half of their squared length. `some` are the rows to compare with all others,
    by default all.

    Claim: codes.kissing
    """
    if some is not None:
        is_list(some=some)
    else:
        is_tensor("vectors", vectors)
        some = range(len(vectors))
    square = _check_vectors(vectors, some)
    exact = vectors.double()
    products = exact[list(some)] @ exact.T
    for place, row in enumerate(some):
        products[place, row] = -math.inf
    return at_most(float(products.max()) - square / 2, 0)


# --- any n and d


def known_code(n=12, d=3, paid=1 / (1 - 5**-0.5)) -> dict:
    """The icosahedron, or another code whose cost is known."""
    return {"n": n, "d": d, "paid": paid}


ICOSAHEDRON = Case(known_code)


@claim(
    "codes.factor-four",
    cases=[
        ICOSAHEDRON,
        ICOSAHEDRON.but(n=240, d=8, paid=2.0),
        ICOSAHEDRON.but(n=196560, d=24, paid=2.0),
        ICOSAHEDRON.but(n=126, d=7, paid=2.0),
        ICOSAHEDRON.but(n=56, d=7, paid=1.5),
    ],
    controls=[ICOSAHEDRON.but(d=2)],
)
def factor_four(n: int, d: int, paid: float) -> Verdict:
    """The price s* / T lies between 1 / (1 - cos 2 theta) and 1 / (1 - cos theta), if
    a cap of angle theta is 1/n of the sphere; they differ by at most a factor of four.

    Measured: the lower bound over a price, the price over the upper bound, and a
    quarter of the upper bound over the lower; the largest of the three, or more than 1
    if for d = 3 the cap of theta is not 1/n. `paid` is s / T of a code near the best.

    Claim: codes.factor-four
    """
    sizes(2, n=n)
    require(
        n <= 10**100,
        f"n must be at most 10^100, got one of {len(str(n))} digits: floats overflow",
    )
    require(paid > 0, f"paid must be positive, got {paid}: it is a length over a gap")
    low, high = price(n, d)
    require(
        low < math.inf,
        f"d must be at least 2 for n = {n} tokens, got {d}: on a "
        "line no norm is enough",
    )
    ratios = [low / paid, paid / high, high / low / 4]
    if d == 3 and low < high:  # a cap is (1 - cos theta) / 2 of the sphere
        off = abs(n / (2 * high) - 1)
        ratios.append(1 + off if off > 1e-9 else 0)
    return at_most(max(ratios), 1 + ROUNDING)


# --- where the logarithm comes from


def enough_dimensions(n: int, c: float) -> int:
    """The right side of (10.6): so many dimensions do for a cost of c T."""
    sizes(2, n=n)
    numbers(c=c)
    require(c > 1, f"c must be above 1, got {c}: the bound is for a cost above T")
    # 1 / sin^2 phi - 1, the squared cotangent of the angle whose cosine is 1 - 1/c
    cotangent = (c - 1) / (2 - 1 / c) * (1 - 1 / c)
    return 1 + math.ceil(2 * math.log(n / 2) / math.log1p(cotangent))


@claim(
    "codes.log",
    cases=[
        CODE,
        CODE.but(n=5),
        CODE.but(n=1024),
        CODE.but(name="E8", n=240),
        CODE.but(name="random", n=100),
    ],
    controls=[CODE.but(longest=100.0)],
)
def bounded_norms(q: Tensor, k: Tensor) -> Verdict:
    """At the cost c T, permutations of n tokens need ln n / ln(1 + sqrt(2 c))
    dimensions, and 1 + ceil(ln(n/2) / ln(1/sin phi)) do, cos phi = 1 - 1/c.

    It is about norms; `packed_logits` is about logits.

    Measured: the dimensions that are needed at the cost of q and k, over those that
    they have; and, for c > 1, the proved price in the dimensions that do, over c.

    Claim: codes.log
    """
    c = paid_by(q, k)
    n, d = k.shape
    needed = math.log(n) / math.log1p(math.sqrt(2 * c))
    ratios = [needed / d]
    if c > 1:
        ratios.append(price(n, enough_dimensions(n, c)).high / c)
    return at_most(max(ratios), 1 + ROUNDING)


PACKED = Case(code_logits)


@claim(
    "synthesis.packing",
    cases=[
        PACKED,
        PACKED.but(n=5),
        PACKED.but(name="simplex", n=9),
        PACKED.but(name="cross", n=16),
        PACKED.but(name="E8", n=240),
        PACKED.but(name="random", n=300),
    ],
    controls=[PACKED.but(diagonal=1e6)],
    without_kernel="a count of tokens against the range of their logits",
)
def packed_logits(logits: Tensor, d: int) -> Verdict:
    """Logits of radius R in d dimensions that meet a permutation of n tokens with gap T
    have n <= (1 + 2 R/T)^d.

    The rank is not looked at: logits of a higher one, up to a number added to each row,
    fail only where n is above the bound for d.

    Measured: ln n over d ln(1 + 2 R/T).

    Claim: synthesis.packing
    """
    sizes(1, d=d)
    check_rows(logits=logits)
    logits = moderate(logits)
    gap = _check_logits(logits)
    n = len(logits)
    radius = float((logits.amax(1) - logits.amin(1)).max()) / 2
    return at_most(math.log(n) / (d * math.log1p(2 * radius / gap)), 1 + ROUNDING)


# --- side results


LOGITS = Case(circle_logits, {"gap": 6.0})


@claim(
    "codes.rank",
    cases=[LOGITS, LOGITS.but(n=8, gap=4.0), LOGITS.but(gap=14.0)],
    broken={"gap 14": {"_gap": 14.0}},
    without_kernel="the singular values of a softmax, by torch",
)
def full_rank(logits: Tensor, *, _gap: float | None = None) -> Verdict:
    """If a permutation is met with gap T, the least singular value of the softmax is at
    least 1 - 2 (n - 1) e^-T, whatever the rank of the logits.

    Measured: what is missing to that number.

    Claim: codes.rank
    """
    gap = _check_logits(logits)
    gap = _gap or gap
    n = len(logits)
    least = float(torch.linalg.svdvals(torch.softmax(logits, -1))[-1])
    return at_most(1 - 2 * (n - 1) * math.exp(-gap) - least, 1e-12)


def number_of_keys(n=4096) -> dict:
    """A number of keys."""
    return {"n": n}


SPIRAL = Case(number_of_keys)
MEASURED = (64, 256, 1024, 4096)


@claim(
    "codes.spiral",
    cases=[SPIRAL, SPIRAL.but(n=64), SPIRAL.but(n=256), SPIRAL.but(n=1024)],
    broken={"a rational turn": {"_turn": 0.38}},
)
def golden_spiral(n: int, *, _turn: float = GOLDEN) -> Verdict:
    """A spiral of golden angles in three dimensions costs 0.2093 n T, up to 0.0003 n T,
    for n = 64, 256, 1024 and 4096.

    Measured: |s / (n T) - 0.2093|.

    Claim: codes.spiral
    """
    sizes(1, n=n)
    require(
        n in MEASURED, f"n must be one of {MEASURED}, got {n}: the claim names these"
    )
    paid = 1 / (1 - coherence(spiral_keys(n, _turn)))
    return at_most(abs(paid / n - 0.2093), 0.0003)
