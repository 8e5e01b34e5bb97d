"""The claims of the page `Low rank: spectra of attention, and Linformer`.

Tensors are float64, finite and not empty; anything else is refused.

Page: notebooks/jl_low_rank/spectra_and_linformer
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Rational

import mpmath
import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib import certify
from attnlib._require import (
    finite,
    is_floating,
    is_list,
    matches,
    numbers,
    require,
    sizes,
)
from attnlib.attention import hardmax
from attnlib.certify import Verdict, at_most
from attnlib.lowrank import (
    effective_rank,
    linformer_attention,
    sampled_product,
    svd_surrogate,
)

# An identity between numbers near one, after some hundred operations: 4,500 eps.
ROUNDING = 1e-12


# --- what the theorems accept


def _check(dims: int, /, **tensors: Tensor) -> None:
    """The tensors are finite, float64, of so many dimensions, and not empty."""
    for name, tensor in tensors.items():
        is_floating(name, tensor)
        got = tuple(tensor.shape)
        require(
            len(got) == dims and 0 not in got,
            f"{name} must have {dims} dimensions, none of them empty, got {got}",
        )
        require(
            tensor.dtype == torch.float64,
            f"{name} must be float64, got {tensor.dtype}: what is allowed is rounding "
            "of float64. Cast it first",
        )
    finite(**tensors)


def _check_probabilities(p: Tensor) -> None:
    """The rows of P are probability vectors."""
    require((p >= 0).all(), f"p must not be negative, got {float(p.min()):.3g}")
    off = float((p.sum(-1) - 1).abs().max())
    require(off <= 1e-9, f"p must have rows that sum to one, they are off by {off:.3g}")


def _check_eps(eps: float) -> None:
    """An eps between 0 and 1."""
    numbers(eps=eps)
    require(0 < eps < 1, f"eps must lie strictly between 0 and 1, got {eps}")


def _check_draws(r: Tensor) -> None:
    """Many draws, with entries whose variance can be 1/k."""
    _check(3, r=r)
    draws, k, _ = r.shape
    require(draws >= 100, f"r must hold at least 100 draws, got {draws}")
    variance = k * float(r.square().mean())
    allowed = 6 * math.sqrt(2 / r.numel())
    require(
        abs(variance - 1) <= allowed,
        f"r must have entries of variance 1/k = 1/{k}: k times their mean square is "
        f"{variance:.3g}, more than six standard errors from 1",
    )


def _check_kinds(p: Tensor, k: Tensor, v: Tensor) -> None:
    """Kinds come equally often, with one value each, and look at themselves alone."""
    _, kind, counts = k.unique(dim=0, return_inverse=True, return_counts=True)
    fewest = int(counts.min())
    most = int(counts.max())
    require(
        fewest == most,
        f"k must have each kind (equal rows) equally often, got {fewest} to {most}",
    )
    alike = kind[:, None] == kind
    first_of_kind = alike.int().argmax(1)
    require(
        torch.equal(v, v[first_of_kind]), "v must be equal for tokens with equal keys"
    )
    own = float((p * alike).sum(-1).min())
    require(
        own > 1 - 1e-9,
        "q must make each row look at its own kind, up to 1e-9: some row gives it "
        f"{own:.3g}",
    )


# --- objects: what the tests run the theorems on


def drawn(*sizes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    """Gaussian tensors of these sizes."""
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=g, dtype=torch.float64) for size in sizes]


def stochastic(n: int, seed: int = 0, spread: float = 1.0) -> Tensor:
    """A softmax matrix with independent Gaussian logits."""
    (logits,) = drawn((n, n), seed=seed)
    return torch.softmax(spread * logits, -1)


def dense(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax attention, all pairs of tokens."""
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v


def random_rows(n=24, seed=0, k=5) -> dict:
    """A softmax matrix and a rank."""
    return {"p": stochastic(n, seed), "k": k}


def mixed_rows(n=20, share=0.5) -> dict:
    """The matrix that keeps a share and spreads the rest over all tokens."""
    eye = torch.eye(n, dtype=torch.float64)
    return {"p": share * eye + (1 - share) / n}


def gaussian_rows(spread=1.0) -> dict:
    """A softmax matrix of 20 tokens."""
    return {"p": stochastic(20, spread=spread)}


def tenths(values=(10, 1, 1, 1, 1, 1, 1, 1, 1, 1), share=Fraction(9, 10)) -> dict:
    """Singular values in tenths."""
    return {"values": values, "share": share}


def one_feature(keys=(0, 1, 3, 4, 9), queries=(0, 1, 2, 3, 4)) -> dict:
    """Weights 2^(q k): softmax with whole keys and queries in units of ln 2."""
    return {"weights": [[2 ** (q * k) for k in keys] for q in queries]}


def causal_weights(n=6) -> dict:
    """Positive whole numbers on and below the diagonal."""
    return {"weights": [[(i * j + 1) * (j <= i) for j in range(n)] for i in range(n)]}


def unit_vectors(n=64, d=2, draws=200, seed=0, queries="drawn", keys="one set") -> dict:
    """Keys on the sphere, one set or a set a draw; queries drawn without them, or the
    keys themselves.
    """
    size = (n, d) if keys == "one set" else (draws, n, d)
    (keys,) = drawn(size, seed=seed)
    (others,) = drawn((draws, n, d), seed=seed + 1)
    keys = keys / keys.norm(dim=-1, keepdim=True)
    if queries == "keys":
        others = keys.expand(draws, n, d)
    return {"queries": others, "keys": keys}


def small_head(n=80, d=2, size=1.0, seed=0) -> dict:
    """Queries and keys whose largest logit has this size."""
    q, k = drawn((n, d), (n, d), seed=seed)
    q = q * size / (q @ k.mT).abs().max()
    return {"q": q, "k": k, "B": 1.0, "degree": 4}


def small_product(n=4, seed=0) -> dict:
    """A softmax matrix of four tokens and values of width two."""
    (v,) = drawn((n, 2), seed=seed + 1)
    return {"p": stochastic(n, seed), "v": v}


def random_pairs(n=9, pairs=4, rank=3, seed=0) -> dict:
    """Queries, keys of some rank, values, and the pairs that are wanted."""
    sizes = ((n, 3), (n, 3), (n, 2), (pairs, 3), (pairs, 2))
    q, k, v, s, t = drawn(*sizes, seed=seed)
    k = torch.where(torch.arange(3) < rank, k, 0.0)
    return {"q": q, "k": k, "v": v, "s": s, "t": t}


def fixed_mixtures(mixtures=3, n=6, seed=5) -> dict:
    """Queries and keys with one feature, and E, F that know nothing of them."""
    q, k, e, f = drawn((n, 1), (n, 1), (mixtures, n), (mixtures, n), seed=seed)
    return {"q": q, "k": k, "e": e, "f": f}


def random_mixtures(mixtures=3, n=6, i=0, alike=False) -> dict:
    """E, drawn, or with all rows alike; F, drawn, with columns that sum to zero."""
    e, f = drawn((mixtures, n), (mixtures, n))
    if alike:
        e = torch.ones(mixtures, n, dtype=torch.float64)
    return {"e": e, "f": f - f.mean(0), "i": i}


def peaked_rows(n=400, seed=0, spread=6.0, values="drawn") -> dict:
    """A softmax matrix, with long logits or others, and values of width three, drawn or
    all alike.
    """
    (v,) = drawn((n, 3), seed=seed)
    if values == "alike":
        v = torch.ones_like(v)
    return {"p": stochastic(n, seed, spread), "v": v, "eps": 0.5}


def gaussian_draws(n=4, k=8, draws=4000, seed=0) -> dict:
    """Many matrices R with independent N(0, 1/k) entries."""
    (r,) = drawn((draws, k, n), seed=seed)
    return {"r": r / math.sqrt(k), "eps": 0.5, "delta": 0.0}


def one_hot_head(
    d=8, copies=2, k=4, group=1, gap=30.0, values="distinct", eps=0.5
) -> dict:
    """Some copies of d kinds of tokens; E and F make k pairs, each of a group of kinds.

    The logit of a row's own kind is the gap, all others are 0. Values are "distinct",
    one direction a kind, or "equal".
    """
    eye = torch.eye(d, dtype=torch.float64)
    kinds = eye.repeat(copies, 1)
    groups = torch.zeros(k, d, dtype=torch.float64)
    for a in range(k):
        groups[a, a * group : (a + 1) * group] = 1
    e = groups.repeat(1, copies) / copies
    return {
        "q": gap * math.sqrt(d) * kinds,
        "k": kinds,
        "v": torch.ones_like(kinds) if values == "equal" else kinds,
        "e": e,
        "f": e / group,
        "eps": eps,
    }


def enough_pairs(q: Tensor, outputs: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """1 + rank pairs (S, T) that give these outputs exactly, by the proof of
    Proposition 7.12 (a).

    Args:
        q: (n, d), n linearly independent queries.
        outputs: (n, d_v), in an affine space of dimension `rank`, at least 1.

    Claim: lowrank.covering
    """
    centre = outputs.mean(0)
    basis = torch.linalg.svd(outputs - centre).Vh[:rank]
    places = (outputs - centre) @ basis.mT
    # A regular simplex, twice as large as the outputs need.
    simplex = torch.eye(rank + 1, dtype=q.dtype) - 1 / (rank + 1)
    simplex = simplex @ torch.linalg.svd(simplex).Vh[:rank].mT
    reach = math.sqrt(rank * (rank + 1)) * places.norm(dim=1).max()
    corners = 2 * reach * simplex
    ones = torch.ones(len(q), 1, dtype=q.dtype)
    raised = torch.cat([corners, ones[:1].expand(rank + 1, 1)], 1)
    weights = torch.cat([places, ones], 1) @ torch.linalg.inv(raised)
    s = math.sqrt(q.shape[-1]) * (torch.linalg.pinv(q) @ weights.log()).mT
    return s, centre + corners @ basis


def six_pairs(eps=0.5001) -> dict:
    """Eight kinds and six pairs that serve all of them: outputs projected to an affine
    space that is equally far from all, by the proof of Proposition 7.12 (b).
    """
    head = one_hot_head(k=6, copies=1, eps=eps)
    turns = 2 * math.pi * torch.arange(8, dtype=torch.float64) / 8
    waves = [(turns * 4).cos() / math.sqrt(2)]
    for frequency in (1, 2):
        waves += [(turns * frequency).cos(), (turns * frequency).sin()]
    waves = torch.stack(waves) / 2  # five orthonormal rows, orthogonal to 1
    outputs = dense(head["q"], head["k"], head["v"])
    centre = outputs.mean(0)
    near = centre + waves.mT @ waves @ (outputs - centre)
    s, t = enough_pairs(head["q"], near, rank=5)
    return head | {"e": s, "f": t}  # as K = V = I


# --- the best of rank k


def _rival(p: Tensor, k: int) -> Tensor:
    """A matrix of rank k, from a random one by rounds of least squares."""
    (left,) = drawn((len(p), k), seed=1)
    for _ in range(30):
        right = torch.linalg.lstsq(left, p).solution
        left = torch.linalg.lstsq(right.mT, p.mT).solution.mT
    return left @ right


ROWS = Case(random_rows)


@claim(
    "lowrank.svd",
    cases=[ROWS, ROWS.but(k=1), ROWS.but(k=23), ROWS.but(seed=3)],
    broken={
        "smallest pieces": {"_smallest": True},
        "rival of rank k + 1": {"_more": 1},
    },
)
def best_rank(p: Tensor, k: int, *, _smallest=False, _more=0) -> Verdict:
    """No matrix of rank k is nearer to P than the sum of its first k singular terms.

    Measured: how far the errors of P_k are from sigma_{k+1} in the 2-norm and from the
    tail in the Frobenius norm, and by how much a rival found by least squares is
    nearer; the largest, in units of sigma_1. p is (m, n), and k < min(m, n).

    Claim: lowrank.svd
    """
    _check(2, p=p)
    sizes(1, k=k)
    most = min(p.shape)
    require(k < most, f"k must be below {most} for p {tuple(p.shape)}, got {k}")
    u, sigma, vh = torch.linalg.svd(p, full_matrices=False)
    best = svd_surrogate(p, k)
    if _smallest:
        best = (u[:, -k:] * sigma[-k:]) @ vh[-k:]
    in_2_norm = abs(torch.linalg.matrix_norm(p - best, 2) - sigma[k])
    in_frobenius = abs((p - best).norm() - sigma[k:].norm())
    nearer = (p - best).norm() - (p - _rival(p, k + _more)).norm()
    worst = torch.stack([in_2_norm, in_frobenius, nearer]).max()
    if sigma[0] > 0:
        worst = worst / sigma[0]
    return at_most(worst, ROUNDING)


# --- rank and entropy


MIXED = Case(mixed_rows)
GAUSSIAN = Case(gaussian_rows)


@claim(
    "lowrank.entropy",
    cases=[MIXED, GAUSSIAN, GAUSSIAN.but(spread=0.3), GAUSSIAN.but(spread=5.0)],
    broken={"entropy of order 1/2": {"_order": 0.5}},
    without_kernel="singular values, by torch, against the entropies of rows",
)
def diffuse_heads(p: Tensor, *, _order: float = 2) -> Verdict:
    """sigma_{k+1} is at most |P|_F / sqrt(k + 1), and |P|_F^2 = sum_i exp(-H_2(P_i)).

    Measured: the largest sigma_{k+1} sqrt(k + 1) over the root of the sum, all k. p is
    (m, n).

    Claim: lowrank.entropy
    """
    _check(2, p=p)
    _check_probabilities(p)
    entropy = p.pow(_order).sum(-1).log() / (1 - _order)
    size = entropy.neg().exp().sum().sqrt()
    sigma = torch.linalg.svdvals(p)
    counts = torch.arange(1, len(sigma) + 1, dtype=p.dtype)
    return at_most((sigma * counts.sqrt()).max() / size, 1 + ROUNDING)


# --- two counts of rank


def _held(values: Sequence[int], share: Fraction, power: int) -> int:
    """How many values, in the order given, hold a share of their powers."""
    powers = [value**power for value in values]
    sums = itertools.accumulate(powers)
    return next(j for j, held in enumerate(sums, 1) if held >= share * sum(powers))


def increases(values: Sequence[int]) -> bool:
    """No value is below the one before it."""
    return list(values) == sorted(values)


TENTHS = Case(tenths, {"share": Fraction(9, 20)})


@claim(
    "lowrank.metric",
    cases=[
        TENTHS,
        TENTHS.but(share=Fraction(9, 10)),
        TENTHS.but(values=(59, 31, 31, 8, 5, 2, 1, 1)),
    ],
    controls=[TENTHS.but(values=(1, 1, 1, 1, 1, 1, 1, 1, 1, 10))],
)
def two_counts(values: Sequence[int], share: Fraction) -> Verdict:
    """The rank that holds a share of the squares is at most the one by sums.

    Measured, in whole numbers: the first rank minus the second; and if the values
    decrease, how far `effective_rank` is from both, n times.

    Args:
        values: n singular values in any unit, whole numbers.
        share: above 0 and at most 1, a Fraction.

    Claim: lowrank.metric
    """
    is_list(values=values)
    for value in values:
        sizes(0, values=value)
    require(
        isinstance(share, Rational) and 0 < share <= 1,
        f"share must be a Fraction above 0 and at most 1, got {share!r}",
    )
    by_energy = _held(values, share, 2)
    by_sums = _held(values, share, 1)
    off = 0
    if values[0] > 0 and increases(values[::-1]):
        sigma = torch.tensor(values, dtype=torch.float64)
        off += abs(int(effective_rank(sigma, float(share), power=2)) - by_energy)
        off += abs(int(effective_rank(sigma, float(share), power=1)) - by_sums)
    return at_most(by_energy - by_sums + len(values) * off, 0)


# --- full rank


FEATURE = Case(one_feature)


@claim(
    "lowrank.full-rank",
    cases=[FEATURE, FEATURE.but(keys=(9, 0, 4, 1, 3)), Case(causal_weights)],
    controls=[FEATURE.but(keys=(0, 1, 1, 4, 9))],
)
def full_rank(weights: Sequence[Sequence[Fraction | int]]) -> Verdict:
    """A causal softmax matrix is invertible, and so is one with a single feature.

    Measured, in exact arithmetic: n minus the rank, plus n if the determinant is not
    positive although queries and keys increase.

    Args:
        weights: n x n, the exponentials of the logits, 0 where masked. Queries and keys
            of a single feature should not be negative.

    Claim: lowrank.full-rank
    """
    from sympy import Matrix

    p = certify.row_stochastic(weights)
    n = len(p)
    require(len(p[0]) == n, f"weights must be {n} x {n}, got rows of {len(p[0])}")
    defect = n - certify.rank(p)
    last_column = [row[-1] for row in weights]
    if increases(weights[-1]) and increases(last_column) and Matrix(p).det() <= 0:
        defect += n
    return at_most(defect, 0)


# --- queries that do not know their keys


def share_of_the_circle(n: int) -> Fraction:
    """The mean share of winners among n random keys on the circle, n random queries.

    A key wins (G + G') / 2, for its gaps G and G' to both sides, and G + G' is
    Beta(2, n - 2): the mean of 1 - (1 - (G + G') / 2)^n, multiplied out.

    Claim: lowrank.winners
    """
    missed = Fraction(1)
    term = Fraction(1)
    for m in range(n):
        term = term * Fraction(-(n - m) * (2 + m), 2 * (m + 1) * (n + m))
        missed += term
    return 1 - missed


UNIT = Case(unit_vectors)
CIRCLE = Case(unit_vectors, {"keys": "a set a draw", "draws": 400}, {"circle": True})


@claim(
    "lowrank.winners",
    cases=[
        UNIT,
        UNIT.but(d=8),
        UNIT.but(d=64),
        UNIT.but(n=7),
        UNIT.but(n=1),
        CIRCLE,
    ],
    controls=[UNIT.but(queries="keys")],
)
def winners(queries: Tensor, keys: Tensor, *, circle=False) -> Verdict:
    """Hardmax with queries drawn without the keys has mean rank at most
    n (1 - (1 - 1/n)^n), which is about 0.63 n for many tokens, in any width.

    Measured: the mean rank over the draws, in units of the bound; four standard errors
    more are allowed for a mean above 1. On the circle: its distance from the exact
    mean, at most four standard errors.

    Args:
        queries: (draws, n, d), at least 20 draws.
        keys: (n, d), or (draws, n, d).
        circle: queries and keys are uniform on the circle, keys anew in each draw.

    Claim: lowrank.winners
    """
    _check(3, queries=queries)
    draws, n, d = queries.shape
    require(draws >= 20, f"queries must hold at least 20 draws, got {draws}")
    if circle:
        _check(3, keys=keys)
        matches("keys", keys, (draws, n, 2), queries, "queries")
    else:
        _check(2, keys=keys)
        matches("keys", keys, (n, d), queries, "queries")
    p = hardmax(queries @ keys.mT)
    require(p.max(-1).values.min() == 1, "queries and keys must leave no ties")
    ranks = (p > 0).any(-2).sum(-1).double()  # of a matrix with a single 1 in each row
    bound = n * (1 - (1 - 1 / n) ** n)
    mean = float(ranks.mean()) / bound
    spare = 4 * float(ranks.std()) / math.sqrt(draws) / bound
    if circle:
        return at_most(abs(mean - n * share_of_the_circle(n) / bound), spare)
    return at_most(mean, 1 if mean <= 1 else 1 + spare)


# --- small logits


def _taylor(logits: Tensor, degree: int) -> Tensor:
    """softmax, with the Taylor polynomial in place of the exponential."""
    term = torch.ones_like(logits)
    total = term
    for m in range(1, degree + 1):
        term = term * logits / m
        total = total + term
    return total / total.sum(-1, keepdim=True)


HEAD = Case(small_head)


@claim(
    "lowrank.bounded",
    cases=[HEAD, HEAD.but(seed=1), HEAD.but(n=300), HEAD.but(size=0.5), HEAD.but(d=5)],
    controls=[HEAD.but(size=4.0)],
    without_kernel="Taylor's polynomial against torch's softmax",
)
def small_logits(q: Tensor, k: Tensor, B: float, degree: int) -> Verdict:
    """With logits of size at most B, Taylor's polynomial of degree g gives a matrix of
    rank at most binom(d + g, g) whose rows are 2 eta / (1 - eta) from those of P.

    Measured: the largest sum of a row of |taylor - P|, also if a logit is larger
    than B.

    Args:
        q, k: (m, d) and (n, d); logits are their products, without a scale.
        B: the size that the statement allows, above 0.
        degree: g of the polynomial, high enough for eta < 1.

    Claim: lowrank.bounded
    """
    _check(2, q=q, k=k)
    matches("k", k, (len(k), q.shape[1]), q, "q")
    numbers(B=B)
    require(B > 0, f"B must be above 0, got {B}")
    sizes(0, degree=degree)
    log_eta = B + (degree + 1) * math.log(B) - math.lgamma(degree + 2)
    require(
        log_eta < 0,
        f"degree {degree} is too low for B = {B}: eta = e^{log_eta:.2g} >= 1",
    )
    eta = math.exp(log_eta)
    logits = q @ k.mT
    distance = (_taylor(logits, degree) - torch.softmax(logits, -1)).abs().sum(-1)
    return at_most(distance.max(), 2 * eta / (1 - eta) + ROUNDING)


# --- products by chance


# (value, chance) of an entry: the first five moments of a normal variable, and signs.
THREE_POINTS = ((-math.sqrt(3), 1 / 6), (0.0, 2 / 3), (math.sqrt(3), 1 / 6))
SIGNS = ((-1.0, 1 / 2), (1.0, 1 / 2))


def _every(choices: Tensor, length: int) -> Tensor:
    """All rows of so many of the choices."""
    return torch.cartesian_prod(*[choices] * length).reshape(-1, length)


def _error_of_projections(p: Tensor, v: Tensor, points) -> float:
    """The mean squared error of P r r' V over all rows r with entries from points."""
    values, chances = torch.tensor(points, dtype=p.dtype).mT
    r = _every(values, len(v))
    products = (r @ p.mT)[:, :, None] * (r @ v)[:, None]
    errors = (products - p @ v).square().sum((-2, -1))
    return float(_every(chances, len(v)).prod(-1) @ errors)


def _all_draws(p: Tensor, v: Tensor, chances: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The averages of k terms over all n^k draws, and the chance of each."""
    terms = p.mT[:, :, None] * v[:, None] / (k * chances)[:, None, None]
    draws = _every(chances.nonzero()[:, 0], k)
    return terms[draws].sum(1), chances[draws].prod(-1)


PRODUCT = Case(small_product)


@claim(
    "lowrank.products",
    cases=[PRODUCT, PRODUCT.but(k=3), PRODUCT.but(seed=1)],
    broken={
        "uniform chances": {"_uniform": True},
        "signs in R": {"_points": SIGNS},
    },
)
def random_products(
    p: Tensor, v: Tensor, *, k: int = 1, _uniform=False, _points=THREE_POINTS
) -> Verdict:
    """The mean squared errors of two random products, and that the draws win.

        projection:  (|P|^2 |V|^2 + |P V|^2) / k
        k draws:     ((sum c)^2 - |P V|^2) / k,   c_j = |P_{:j}| |V_{j:}|

    Measured: the relative distances from both laws, by listing all patterns of a row of
    R (with three-point entries, which have the moments of Gaussian ones) and all draws;
    how far twenty products by `sampled_product` are from the nearest of the list, in
    units of sum c; 1 if the draws do not win. A law below (sum c)^2 / 100 k counts as
    that.

    Args:
        p: (m, n), at most ten columns, all patterns of which are listed.
        v: (n, d).
        k: draws, n^k at most 100,000.

    Claim: lowrank.products
    """
    _check(2, p=p, v=v)
    n = p.shape[1]
    matches("v", v, (n, v.shape[1]), p, "p")
    sizes(1, k=k)
    require(n <= 10, f"p must have at most 10 columns to list all R, got {n}")
    require(n**k <= 10**5, f"k must leave 100,000 draws at most, got {n}^{k}")
    c = p.norm(dim=0) * v.norm(dim=1)
    whole = float(c.sum())
    require(whole > 0, "p and v must have some |P_{:j}| |V_{j:}| that is not zero")
    size = float((p @ v).square().sum())
    law_projections = float(p.square().sum() * v.square().sum()) + size
    off = abs(_error_of_projections(p, v, _points) / law_projections - 1)

    shares = torch.ones_like(c) if _uniform else c
    products, chances = _all_draws(p, v, shares / shares.sum(), k)
    error = float(chances @ (products - p @ v).square().sum((-2, -1)))
    law_draws = (whole**2 - size) / k
    least = whole**2 / k / 100  # the law may be zero
    off = max(off, abs(error - law_draws) / max(law_draws, least))

    g = torch.Generator().manual_seed(0)
    for _ in range(20):
        distances = (products - sampled_product(p, v, k, generator=g)).abs()
        off = max(off, float(distances.amax((-2, -1)).min()) / whole)
    loses = float(law_draws > law_projections / k * (1 + ROUNDING))
    return at_most(max(off, loses), ROUNDING)


# --- Linformer: what its projections can do


def _unit(tensor: Tensor) -> float:
    """The power of ten at or below the largest entry; one if all are zero."""
    largest = float(tensor.abs().max())
    if largest == 0:
        return 1.0
    return 10.0 ** math.floor(math.log10(largest))


PAIRS = Case(random_pairs)


@claim(
    "lowrank.pairs",
    cases=[PAIRS, PAIRS.but(n=3, pairs=3), PAIRS.but(pairs=9), PAIRS.but(seed=1)],
    controls=[PAIRS.but(rank=2)],
)
def any_pairs(q: Tensor, k: Tensor, v: Tensor, s: Tensor, t: Tensor) -> Verdict:
    """If K and V have full column rank, E = S K^+ and F = T V^+ give any pairs (S, T).

    Measured: the largest entry of E K - S, of F V - T, and of Linformer minus attention
    to the pairs, each in units of the power of ten at or below the largest entry of S,
    T and T; in the last also of the logits, if they are above 1.

    Args:
        q, k, v: (m, d), (n, d) and (n, d_v).
        s, t: (r, d) and (r, d_v), the wanted keys and values.

    Claim: lowrank.pairs
    """
    _check(2, q=q, k=k, v=v, s=s, t=t)
    d = q.shape[1]
    matches("k", k, (len(k), d), q, "q")
    matches("v", v, (len(k), v.shape[1]), k, "k")
    matches("s", s, (len(s), d), q, "q")
    matches("t", t, (len(s), v.shape[1]), s, "s")
    e = s @ torch.linalg.pinv(k)
    f = t @ torch.linalg.pinv(v)
    keys = (e @ k - s).abs().max() / _unit(s)
    values = (f @ v - t).abs().max() / _unit(t)
    outputs = (linformer_attention(q, k, v, e, f) - dense(q, s, t)).abs().max()
    outputs = outputs / _unit(t) / max(1.0, _unit(q @ s.mT))
    return at_most(torch.stack([keys, values, outputs]).max(), 1e-10)


MIXTURES = Case(fixed_mixtures)


@claim(
    "lowrank.kernel",
    cases=[MIXTURES, MIXTURES.but(mixtures=1), MIXTURES.but(mixtures=5)],
    controls=[MIXTURES.but(mixtures=6)],
)
def lost_values(q: Tensor, k: Tensor, e: Tensor, f: Tensor) -> Verdict:
    """For fixed E, F some values are lost: Linformer returns zero, attention does not.

    Measured: |1 - relative error| for the values that F stretches least.

    Args:
        q, k: (n, 1), in each no number twice.
        e, f: (r, n); the size of f does not count.

    Claim: lowrank.kernel
    """
    _check(2, q=q, k=k, e=e, f=f)
    n = len(q)
    matches("q", q, (n, 1), q, "q")
    matches("k", k, (n, 1), q, "q")
    matches("e", e, (len(e), n), q, "q")
    matches("f", f, (len(e), n), e, "e")
    for name, column in (("q", q), ("k", k)):
        distinct = len(column.unique())
        require(distinct == n, f"{name} must hold {n} distinct numbers, got {distinct}")
    f = f / _unit(f)
    lost = torch.linalg.svd(f).Vh[-1][:, None]
    wanted = dense(q, k, lost)
    require(
        wanted.norm() > 1e-5,
        f"q and k: attention returns {float(wanted.norm()):.1g} for the lost values, "
        "too near to zero to be told from it",
    )
    got = linformer_attention(q, k, lost, e, f)
    return at_most(abs((got - wanted).norm() / wanted.norm() - 1), 1e-9)


FUTURE = Case(random_mixtures)


@claim(
    "lowrank.causal",
    cases=[FUTURE, FUTURE.but(i=4), FUTURE.but(mixtures=5)],
    controls=[FUTURE.but(alike=True)],
)
def future_is_seen(e: Tensor, f: Tensor, i: int = 0) -> Verdict:
    """What row i never sees of a later value V_j is nothing but column j of F, so that
    a causal Linformer has zeros there.

    Measured: column j of F, solved for from what row i sees of V_j under as many
    queries as there are mixtures; its largest distance from F over all j > i, in units
    of the power of ten at or below the largest entry of F.

    Args:
        e, f: (r, n), r <= n.
        i: a row, from 0, not the last.

    Claim: lowrank.causal
    """
    _check(2, e=e, f=f)
    matches("f", f, e.shape, e, "e")
    mixtures, n = e.shape
    require(mixtures <= n, f"e must have at most {n} rows, got {mixtures}")
    sizes(0, i=i)
    require(i < n - 1, f"i must be at most {n - 2}, a row with later ones, got {i}")
    keys = torch.linalg.pinv(e)  # E K = I, if the rows of E are independent
    queries = 3 * torch.eye(mixtures, dtype=e.dtype)
    weights = torch.softmax(queries @ (e @ keys).mT, -1)
    values = torch.eye(n, dtype=e.dtype)  # in column j the token V_j alone is not zero
    seen = []
    for query in queries:
        q = query.expand(n, mixtures)
        seen.append(linformer_attention(q, keys, values, e, f, scale=1.0)[i])
    columns = torch.linalg.pinv(weights) @ torch.stack(seen)
    off = float((columns - f)[:, i + 1 :].abs().max())
    return at_most(off / _unit(f), 1e-10)


# --- a bound that zero meets


PEAKED = Case(peaked_rows)
ALIKE = PEAKED.but(values="alike")


@claim(
    "lowrank.vacuous",
    cases=[ALIKE, PEAKED, PEAKED.but(seed=1), PEAKED.but(seed=2), PEAKED.but(n=800)],
    controls=[ALIKE.but(spread=0.0)],
    without_kernel="lengths of rows and values: the output is zero",
)
def zero_output(p: Tensor, v: Tensor, eps: float) -> Verdict:
    """The output 0 meets the bound of Linformer's Theorem 2 on rows that look at few of
    many tokens: those with n |P_i|^2 >= s^2 d / eps^2.

    Measured: the largest |P_i V| / (|P_i| |V|) over these rows, |V| the 2-norm. If
    there are none, the statement is about no row: then it is the largest over all,
    which may be above eps. p is (m, n), v (n, d).

    Claim: lowrank.vacuous
    """
    _check(2, p=p, v=v)
    _check_probabilities(p)
    _check_eps(eps)
    matches("v", v, (p.shape[1], v.shape[1]), p, "p")
    require(v.any(), "v must not be zero: nothing is relative to it")
    n, d = v.shape
    lengths = v.square().sum(-1)
    s_squared = lengths.max() / lengths.mean()
    peaked = n * p.square().sum(-1) >= s_squared * d / eps**2
    ratios = (p @ v).norm(dim=-1) / p.norm(dim=-1) / torch.linalg.matrix_norm(v, 2)
    if peaked.any():
        ratios = ratios[peaked]
    return at_most(ratios.max(), eps * (1 + ROUNDING))


# --- where the proof breaks


def chance(n: int, eps: float, delta: float, *, target: int | None = None) -> float:
    """Pr(|e^-delta 1'R1 - t| <= eps t), exactly: 1'R1 is normal of variance n.

    The target t is n for (9) of the paper, and the number of mixtures in Theorem 2.

    Claim: lowrank.theorem-2
    """
    target = n if target is None else target
    unit = target * math.exp(delta) / math.sqrt(n)
    return float(mpmath.ncdf(-(1 - eps) * unit) - mpmath.ncdf(-(1 + eps) * unit))


def promised(k: int, eps: float) -> float:
    """What (9) of the paper promises for k mixtures: a chance above
    1 - 2 exp(-(eps^2 - eps^3) k / 4).

    Claim: lowrank.theorem-2
    """
    return 1 - 2 * math.exp(-(eps**2 - eps**3) * k / 4)


DRAWS = Case(gaussian_draws)


@claim(
    "lowrank.theorem-2",
    cases=[
        DRAWS,
        DRAWS.but(n=1),
        DRAWS.but(delta=1.0),
        DRAWS.but(k=2),
        DRAWS.but(n=16),
        DRAWS.but(k=2, normalised=True),
    ],
    broken={"behind the exponential": {"_behind": True}},
)
def zero_logits(
    r: Tensor, eps: float, delta: float, *, normalised=False, _behind=False
) -> Verdict:
    """With E = delta R and F = e^-delta R, at zero logits and values 1, the inequality
    inside (9) fails at least half of the time, and so does that of the theorem.

    Measured: the distance of the share of draws that pass from its exact law, or 1 if
    the law exceeds a half; four standard errors are allowed, at least 0.001.

    Args:
        r: (draws, k, n), entries N(0, 1/k), at least 100 draws.
        eps: of the inequality, in (0, 1).
        delta: of E and F, from -100 to 100.
        normalised: the inequality of the theorem, by `linformer_attention`.

    Claim: lowrank.theorem-2
    """
    _check_draws(r)
    _check_eps(eps)
    numbers(delta=delta)
    require(abs(delta) <= 100, f"delta must lie between -100 and 100, got {delta}")
    draws, k, n = r.shape
    x = torch.zeros(1, n, dtype=r.dtype)
    y = torch.ones(n, 1, dtype=r.dtype)
    e = delta * r
    f = math.exp(-delta) * r
    target = n
    if _behind:
        got = torch.exp(x) @ r.mT @ (r @ y)
    elif normalised:
        # One head a draw, with x = q k' = 0; what is wanted is 1.
        zero = torch.zeros(draws, n, 1, dtype=r.dtype)
        target = k
        got = linformer_attention(zero, zero, y.expand_as(zero), e, f)[:, :1] * k
    else:
        got = torch.exp(x @ e.mT) @ (f @ y)
    passed = (got - target).abs() <= eps * target
    law = chance(n, eps, delta, target=target)
    off = abs(float(passed.double().mean()) - law)
    allowed = 4 * math.sqrt(max(law * (1 - law), 1 / draws) / draws)
    return at_most(off if law <= 0.5 else 1.0, max(0.001, round(allowed, 3)))


# --- how many pairs


ONE_HOT = Case(one_hot_head)


@claim(
    "lowrank.covering",
    cases=[
        ONE_HOT,
        ONE_HOT.but(copies=1),
        ONE_HOT.but(k=2, group=2, eps=0.71),
        ONE_HOT.but(k=1, group=4, eps=0.87),
        ONE_HOT.but(k=3, group=2),
        Case(six_pairs),
    ],
    controls=[ONE_HOT.but(values="equal")],
)
def covering(
    q: Tensor, k: Tensor, v: Tensor, e: Tensor, f: Tensor, eps: float
) -> Verdict:
    """Whatever E and F are, k pairs meet the bound (7.2) for at most k / (1 - eps^2) of
    the d kinds of tokens in a head where each kind looks at itself.

    Measured: how many kinds meet (7.2), in units of the bound rounded down, also if
    values are not orthonormal.

    Args:
        q, k, v: (n, d); tokens with equal keys are of one kind, and have equal values.
        e, f: (r, n), r pairs.
        eps: of (7.2), in (0, 1).

    Claim: lowrank.covering
    """
    _check(2, q=q, k=k, v=v, e=e, f=f)
    n = len(q)
    matches("k", k, q.shape, q, "q")
    matches("v", v, (n, v.shape[1]), q, "q")
    matches("e", e, (len(e), n), q, "q")
    matches("f", f, e.shape, e, "e")
    _check_eps(eps)
    p = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)
    _check_kinds(p, k, v)
    miss = (linformer_attention(q, k, v, e, f) - p @ v).norm(dim=-1)
    allowed = eps * p.norm(dim=-1) * torch.linalg.matrix_norm(v, 2)
    passed = k[miss <= allowed]
    kinds = len(passed.unique(dim=0))
    most = math.floor(len(e) / (1 - eps**2) * (1 + ROUNDING))
    return at_most(kinds / most, 1)
