"""The claims of the page `Low rank: spectra of attention, and Linformer`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Rational
from typing import Literal

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
    one_of,
    require,
    sizes,
)
from attnlib.certify import Verdict, at_least, at_most
from attnlib.lowrank import (
    effective_rank,
    linformer_attention,
    sampled_product,
    svd_surrogate,
)

# An identity between numbers near one, after some hundred operations: 4,500 eps.
ROUNDING = 1e-12


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


def _unit(tensor: Tensor) -> float:
    """The power of ten at or below the largest entry; one if all are zero."""
    largest = float(tensor.abs().max())
    if largest == 0:
        return 1.0
    return 10.0 ** math.floor(math.log10(largest))


def drawn(*sizes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    """Gaussian tensors of these sizes."""
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=g, dtype=torch.float64) for size in sizes]


def stochastic(n: int, seed: int = 0, spread: float = 1.0) -> Tensor:
    """A softmax matrix with independent Gaussian logits."""
    (logits,) = drawn((n, n), seed=seed)
    return torch.softmax(spread * logits, -1)


def dense(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> Tensor:
    """Softmax attention, all pairs of tokens."""
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])
    return torch.softmax(scale * q @ k.mT, -1) @ v


# --- the best of rank k


def random_rows(n=24, seed=0, k=5) -> dict:
    """A softmax matrix and a rank."""
    return {"p": stochastic(n, seed), "k": k}


def _rival(p: Tensor, k: int) -> Tensor:
    """A matrix of rank k, from a random one by rounds of least squares."""
    (left,) = drawn((len(p), k), seed=1)
    for _ in range(30):
        right = torch.linalg.lstsq(left, p).solution
        left = torch.linalg.lstsq(right.mT, p.mT).solution.mT
    return left @ right


def the_best_is_not_exact() -> Verdict:
    """Rank 5 leaves a tenth of a random softmax matrix or more.

    Measured: |P - P_5|_F / |P|_F.
    """
    p, k = random_rows().values()
    return at_least((p - svd_surrogate(p, k)).norm() / p.norm(), 0.1)


ROWS = Case(random_rows)


@claim(
    "lowrank.svd",
    cases=[ROWS, ROWS.but(k=1), ROWS.but(k=23), ROWS.but(seed=3)],
    controls=[ROWS.but(kept="smallest"), ROWS.but(more=1)],
    witness=the_best_is_not_exact,
)
def best_rank(
    p: Tensor, k: int, *, kept: Literal["largest", "smallest"] = "largest", more=0
) -> Verdict:
    """No matrix of rank k is nearer to P than the sum of its first k singular terms.

    Hypotheses: the rival has rank at most k.
    Measured: how far the errors of P_k are from sigma_{k+1} in the 2-norm and from the
    tail in the Frobenius norm, and by how much a rival found by least squares is
    nearer; the largest, in units of sigma_1.

    Args:
        p: (m, n), float64.
        k: rank, 1 <= k < min(m, n).
        kept: "smallest" keeps the last k terms, which is false.
        more: the rival may have this much more rank, k + more <= min(m, n).

    Returns:
        Verdict.

    Raises:
        ValueError: for another dtype, NaN or infinity, or ranks out of range.

    Claim: lowrank.svd
    Page: notebooks/jl_low_rank/spectra_and_linformer
    """
    one_of(("largest", "smallest"), kept=kept)
    _check(2, p=p)
    sizes(1, k=k)
    sizes(0, more=more)
    most = min(p.shape)
    require(k < most, f"k must be below {most} for p {tuple(p.shape)}, got {k}")
    require(k + more <= most, f"more must be at most {most - k}, got {more}")
    u, sigma, vh = torch.linalg.svd(p, full_matrices=False)
    best = svd_surrogate(p, k)
    if kept == "smallest":
        best = (u[:, -k:] * sigma[-k:]) @ vh[-k:]
    in_2_norm = abs(torch.linalg.matrix_norm(p - best, 2) - sigma[k])
    in_frobenius = abs((p - best).norm() - sigma[k:].norm())
    rival = _rival(p, k + more)
    nearer = (p - best).norm() - (p - rival).norm()
    worst = torch.stack([in_2_norm, in_frobenius, nearer]).max()
    if sigma[0] > 0:
        worst = worst / sigma[0]
    return at_most(worst, ROUNDING)


# --- rank and entropy


def mixed_rows(n=20, share=0.5) -> dict:
    """The matrix that keeps a share and spreads the rest over all tokens."""
    eye = torch.eye(n, dtype=torch.float64)
    return {"p": share * eye + (1 - share) / n}


def gaussian_rows(spread=1.0) -> dict:
    """A softmax matrix of 20 tokens."""
    return {"p": stochastic(20, spread=spread)}


def _blocks(n: int, m: int) -> Tensor:
    """m uniform blocks on n tokens."""
    block = torch.full((n // m, n // m), m / n, dtype=torch.float64)
    return torch.block_diag(*[block] * m)


def blocks_reach_the_bound() -> Verdict:
    """m uniform blocks have sigma_m = |P|_F / sqrt(m).

    Measured: the largest difference over m = 1, 2, 5, 10.
    """
    worst = 0.0
    for m in (1, 2, 5, 10):
        p = _blocks(10, m)
        last = torch.linalg.svdvals(p)[m - 1]
        worst = max(worst, abs(float(last - p.norm() / math.sqrt(m))))
    return at_most(worst, ROUNDING)


MIXED = Case(mixed_rows)
GAUSSIAN = Case(gaussian_rows)


@claim(
    "lowrank.entropy",
    cases=[MIXED, GAUSSIAN, GAUSSIAN.but(spread=0.3), GAUSSIAN.but(spread=5.0)],
    controls=[MIXED.but(order=0.5)],
    witness=blocks_reach_the_bound,
)
def diffuse_heads(p: Tensor, *, order: float = 2) -> Verdict:
    """sigma_{k+1} is at most |P|_F / sqrt(k + 1), and |P|_F^2 = sum_i exp(-H_2(P_i)).

    Hypotheses: the rows of P are probability vectors, and the entropy is that of order
    2.
    Measured: the largest sigma_{k+1} sqrt(k + 1) over the root of sum_i exp(-H(P_i)),
    all k.

    Args:
        p: (m, n), float64, rows that sum to one.
        order: of the entropy, above 0; not 1.

    Returns:
        Verdict; its bound is 1, up to rounding.

    Raises:
        ValueError: for rows that are no probabilities, another dtype, or such an order.

    Claim: lowrank.entropy
    Page: notebooks/jl_low_rank/spectra_and_linformer
    """
    _check(2, p=p)
    _check_probabilities(p)
    numbers(order=order)
    require(order > 0 and order != 1, f"order must be above 0, not 1, got {order}")
    entropy = p.pow(order).sum(-1).log() / (1 - order)
    size = entropy.neg().exp().sum().sqrt()
    sigma = torch.linalg.svdvals(p)
    counts = torch.arange(1, len(sigma) + 1, dtype=p.dtype)
    return at_most((sigma * counts.sqrt()).max() / size, 1 + ROUNDING)


# --- two counts of rank


def tenths(values=(10, 1, 1, 1, 1, 1, 1, 1, 1, 1), share=Fraction(9, 10)) -> dict:
    """Singular values in tenths."""
    return {"values": values, "share": share}


def _held(values: Sequence[int], share: Fraction, power: int) -> int:
    """How many values, in the order given, hold a share of their powers."""
    powers = [value**power for value in values]
    sums = itertools.accumulate(powers)
    return next(j for j, held in enumerate(sums, 1) if held >= share * sum(powers))


def the_orders_disagree() -> Verdict:
    """Ten mixed tokens count 1 and 9, five blocks of two count 5 and 5.

    Measured: by how much the four counts are off.
    """
    mixed = torch.eye(10, dtype=torch.float64) / 10 + 0.09
    off = 0
    for p, wanted in ((mixed, (1, 9)), (_blocks(10, 5), (5, 5))):
        sigma = torch.linalg.svdvals(p)
        off += abs(int(effective_rank(sigma, power=2)) - wanted[0])
        off += abs(int(effective_rank(sigma, power=1)) - wanted[1])
    return at_most(off, 0)


TENTHS = Case(tenths, {"share": Fraction(9, 20)})


@claim(
    "lowrank.metric",
    cases=[
        TENTHS,
        TENTHS.but(share=Fraction(9, 10)),
        TENTHS.but(values=(59, 31, 31, 8, 5, 2, 1, 1)),
    ],
    controls=[TENTHS.but(values=(1, 1, 1, 1, 1, 1, 1, 1, 1, 10))],
    witness=the_orders_disagree,
)
def two_counts(values: Sequence[int], share: Fraction) -> Verdict:
    """The rank that holds a share of the squares is at most the one by sums.

    Hypotheses: the values decrease.
    Measured, in whole numbers: the first rank minus the second.

    Args:
        values: singular values in any unit, whole numbers.
        share: above 0 and at most 1, a Fraction.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for no values, values that are not whole, or such a share.

    Claim: lowrank.metric
    Page: notebooks/jl_low_rank/spectra_and_linformer
    """
    is_list(values=values)
    for value in values:
        sizes(0, values=value)
    require(
        isinstance(share, Rational) and 0 < share <= 1,
        f"share must be a Fraction above 0 and at most 1, got {share!r}",
    )
    return at_most(_held(values, share, 2) - _held(values, share, 1), 0)


# --- full rank


def one_feature(keys=(0, 1, 3, 4, 9), queries=(0, 1, 2, 3, 4)) -> dict:
    """Weights 2^(q k): softmax with whole keys and queries in units of ln 2."""
    return {"weights": [[2 ** (q * k) for k in keys] for q in queries]}


def causal_weights(n=6) -> dict:
    """Positive whole numbers on and below the diagonal."""
    return {"weights": [[(i * j + 1) * (j <= i) for j in range(n)] for i in range(n)]}


def a_tiny_determinant() -> Verdict:
    """Twelve points of [-1, 1]: det of exp(q_i q_j) is positive, and 5.4e-63.

    Measured: the distance of the determinant from that number, relative to it.
    """
    with mpmath.workdps(120):
        q = [mpmath.mpf(2 * i - 11) / 11 for i in range(12)]
        det = mpmath.det(mpmath.matrix([[mpmath.exp(a * b) for b in q] for a in q]))
        return at_most(float(abs(det / mpmath.mpf("5.4e-63") - 1)), 0.01)


def increases(values: Sequence[int]) -> bool:
    """No value is below the one before it."""
    return list(values) == sorted(values)


def _check_weights(weights: Sequence[Sequence[int]]) -> None:
    """A square matrix of whole numbers, none negative, no row of zeros."""
    is_list(weights=weights)
    n = len(weights)
    for row in weights:
        is_list(weights=row)
        require(len(row) == n, f"weights must be {n} x {n}, got a row of {len(row)}")
        for weight in row:
            sizes(0, weights=weight)
        require(any(row), "weights must have no row of zeros: it has no softmax")


FEATURE = Case(one_feature)


@claim(
    "lowrank.full-rank",
    cases=[FEATURE, FEATURE.but(keys=(9, 0, 4, 1, 3)), Case(causal_weights)],
    controls=[FEATURE.but(keys=(0, 1, 1, 4, 9))],
    witness=a_tiny_determinant,
)
def full_rank(weights: Sequence[Sequence[int]]) -> Verdict:
    """A causal softmax matrix is invertible, and so is one with a single feature.

    Hypotheses: with one feature, queries are distinct and keys are distinct.
    Measured, in exact arithmetic: n minus the rank, plus n if the determinant is not
    positive although queries and keys increase.

    Args:
        weights: n x n, the exponentials of the logits, whole numbers; 0 where masked.
            Queries and keys of a single feature should not be negative.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for weights that are not square, not whole or negative, or a row of
            zeros.

    Claim: lowrank.full-rank
    Page: notebooks/jl_low_rank/spectra_and_linformer
    """
    from sympy import ZZ
    from sympy.polys.matrices import DomainMatrix

    _check_weights(weights)
    p = certify.row_stochastic(weights)
    n = len(p)
    defect = n - certify.rank(p)
    last_column = [row[-1] for row in weights]
    if increases(weights[-1]) and increases(last_column):
        rows = [[ZZ(weight) for weight in row] for row in weights]
        if DomainMatrix(rows, (n, n), ZZ).det() <= 0:
            defect += n
    return at_most(defect, 0)


# --- queries that do not know their keys


def unit_vectors(n=64, d=2, draws=200, seed=0, queries="drawn") -> dict:
    """Keys on the sphere; queries drawn without them, or the keys themselves."""
    (keys,) = drawn((n, d), seed=seed)
    (others,) = drawn((draws, n, d), seed=seed + 1)
    keys = keys / keys.norm(dim=-1, keepdim=True)
    if queries == "keys":
        others = keys.expand(draws, n, d)
    return {"queries": others, "keys": keys}


def share_of_the_circle(n: int) -> Fraction:
    """The mean share of winners among n random keys on the circle, n random queries.

    A key wins (G + G') / 2, for its gaps G and G' to both sides, and G + G' is
    Beta(2, n - 2): the mean of 1 - (1 - (G + G') / 2)^n, multiplied out.
    """
    missed = Fraction(1)
    term = Fraction(1)
    for m in range(n):
        term = term * Fraction(-(n - m) * (2 + m), 2 * (m + 1) * (n + m))
        missed += term
    return 1 - missed


def five_ninths() -> Verdict:
    """On the circle the mean share tends to 5/9; at n = 64 it is what is drawn.

    Measured: |share - 5/9| at n = 1000, or a tenth of the distance from 400 draws at
    n = 64, if that is larger.
    """
    limit = abs(share_of_the_circle(1000) - Fraction(5, 9))
    won = 0
    for seed in range(400):
        queries, keys = unit_vectors(draws=1, seed=2 * seed).values()
        won += sum(_ranks(queries, keys))
    off = abs(Fraction(won, 400 * 64) - share_of_the_circle(64))
    return at_most(max(float(limit), float(off) / 10), 5e-4)


def _ranks(queries: Tensor, keys: Tensor) -> list[int]:
    """The ranks of the hardmax matrices: how many keys win a query at all."""
    winners = (queries @ keys.mT).argmax(-1)
    return [len(set(row)) for row in winners.tolist()]


UNIT = Case(unit_vectors)


@claim(
    "lowrank.winners",
    cases=[UNIT, UNIT.but(d=8), UNIT.but(d=64), UNIT.but(n=7), UNIT.but(n=1)],
    controls=[UNIT.but(queries="keys")],
    witness=five_ninths,
)
def winners(queries: Tensor, keys: Tensor) -> Verdict:
    """Hardmax with queries drawn without the keys has mean rank at most
    n (1 - (1 - 1/n)^n), which is about 0.63 n for many tokens, in any width.

    Hypotheses: given the keys, the n queries are independent and of one law, without
    ties.
    Measured: the mean rank over the draws, in units of the bound.

    Args:
        queries: (draws, n, d), float64, at least 20 draws.
        keys: (n, d), float64.

    Returns:
        Verdict; its bound is 1, and four standard errors more for a mean above 1.

    Raises:
        ValueError: for too few draws, sizes that do not fit, another dtype, NaN or
            infinity.

    Claim: lowrank.winners
    Page: notebooks/jl_low_rank/spectra_and_linformer
    """
    _check(3, queries=queries)
    _check(2, keys=keys)
    draws, n, d = queries.shape
    require(draws >= 20, f"queries must hold at least 20 draws, got {draws}")
    matches("keys", keys, (n, d), queries, "queries")
    ranks = torch.tensor(_ranks(queries, keys), dtype=torch.float64)
    bound = n * (1 - (1 - 1 / n) ** n)
    mean = float(ranks.mean()) / bound
    spare = 4 * float(ranks.std()) / math.sqrt(draws) / bound
    return at_most(mean, 1 if mean <= 1 else 1 + spare)


# --- small logits


def small_head(n=80, d=2, size=1.0, seed=0) -> dict:
    """Queries and keys whose largest logit has this size."""
    q, k = drawn((n, d), (n, d), seed=seed)
    q = q * size / (q @ k.mT).abs().max()
    return {"q": q, "k": k, "B": 1.0, "degree": 4}


def _taylor(logits: Tensor, degree: int) -> Tensor:
    """softmax, with the Taylor polynomial in place of the exponential."""
    term = torch.ones_like(logits)
    total = term
    for m in range(1, degree + 1):
        term = term * logits / m
        total = total + term
    return total / total.sum(-1, keepdim=True)


def the_rank_is_the_binomial() -> Verdict:
    """Degree 4 in two features has rank 15, in one 5; degree 2 in three has 10.

    Measured: the largest difference of the rank from its binomial.
    """
    worst = 0
    for d, degree in ((1, 4), (2, 4), (3, 2)):
        q, k, _, _ = small_head(n=60, d=d).values()
        rank = torch.linalg.matrix_rank(_taylor(q @ k.mT, degree), rtol=1e-13)
        worst = max(worst, abs(int(rank) - math.comb(d + degree, degree)))
    return at_most(worst, 0)


HEAD = Case(small_head)


@claim(
    "lowrank.bounded",
    cases=[HEAD, HEAD.but(seed=1), HEAD.but(n=300), HEAD.but(size=0.5), HEAD.but(d=5)],
    controls=[HEAD.but(size=4.0)],
    witness=the_rank_is_the_binomial,
)
def small_logits(q: Tensor, k: Tensor, B: float, degree: int) -> Verdict:
    """With logits of size at most B, Taylor's polynomial of degree g gives a matrix of
    rank at most binom(d + g, g) whose rows are 2 eta / (1 - eta) from those of P.

    Hypotheses: no logit q_i k_j is larger than B, and
    eta = e^B B^(g+1) / (g+1)! is below 1.
    Measured: the largest sum of a row of |taylor - P|, also if a logit is larger
    than B.

    Args:
        q, k: (m, d) and (n, d), float64; logits are their products, without a scale.
        B: the size that the statement allows, above 0.
        degree: g of the polynomial.

    Returns:
        Verdict; its bound is 2 eta / (1 - eta), up to rounding.

    Raises:
        ValueError: if eta is not below 1 or B not above 0; for sizes that do not fit,
            another dtype, NaN or infinity.

    Claim: lowrank.bounded
    Page: notebooks/jl_low_rank/spectra_and_linformer
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


def small_product(n=4, seed=0) -> dict:
    """A softmax matrix of four tokens and values of width two."""
    (v,) = drawn((n, 2), seed=seed + 1)
    return {"p": stochastic(n, seed), "v": v}


# The first five moments of a normal variable.
THREE_POINTS = ((-math.sqrt(3), 1 / 6), (0.0, 2 / 3), (math.sqrt(3), 1 / 6))


def _all_projections(p: Tensor, v: Tensor) -> float:
    """The mean squared error of P r r' V over all three-point rows r."""
    exact = p @ v
    mean = 0.0
    for pattern in itertools.product(THREE_POINTS, repeat=len(v)):
        r = torch.tensor([value for value, _ in pattern], dtype=p.dtype)
        chance = math.prod(chance for _, chance in pattern)
        mean += chance * float((torch.outer(p @ r, r @ v) - exact).square().sum())
    return mean


def _all_draws(p: Tensor, v: Tensor, chances: Tensor, k: int) -> float:
    """The mean squared error of the average of k terms over all n^k draws."""
    exact = p @ v
    mean = 0.0
    possible = [j for j in range(len(v)) if chances[j] > 0]
    for tokens in itertools.product(possible, repeat=k):
        total = torch.zeros_like(exact)
        for j in tokens:
            total = total + torch.outer(p[:, j], v[j]) / (k * chances[j])
        chance = math.prod(float(chances[j]) for j in tokens)
        mean += chance * float((total - exact).square().sum())
    return mean


def the_sampler_obeys() -> Verdict:
    """sampled_product has the error of the law: 2,000 products, a long value among
    short ones.

    Measured: the relative distance of the mean squared error from the law.
    """
    p, v = small_product(n=6, seed=1).values()
    v[0] = 8 * v[0]
    g = torch.Generator().manual_seed(0)
    total = 0.0
    for _ in range(2000):
        product = sampled_product(p, v, 3, generator=g, check=False)
        total += float((product - p @ v).square().sum())
    c = p.norm(dim=0) * v.norm(dim=1)
    law = float(c.sum() ** 2 - (p @ v).square().sum()) / 3
    return at_most(abs(total / 2000 / law - 1), 0.1)


PRODUCT = Case(small_product)


@claim(
    "lowrank.products",
    cases=[PRODUCT, PRODUCT.but(k=3), PRODUCT.but(seed=1)],
    controls=[PRODUCT.but(chances="uniform")],
    witness=the_sampler_obeys,
)
def random_products(
    p: Tensor,
    v: Tensor,
    *,
    k: int = 1,
    chances: Literal["best", "uniform"] = "best",
) -> Verdict:
    """The mean squared errors of two random products, and that the draws win.

        projection:  (|P|^2 |V|^2 + |P V|^2) / k
        k draws:     ((sum c)^2 - |P V|^2) / k,   c_j = |P_{:j}| |V_{j:}|

    Hypotheses: P and V are fixed before the draw; tokens are drawn with chances
    proportional to c_j.
    Measured: the relative distances from both laws, by listing all patterns of a row of
    R (with three-point entries, which have the moments of Gaussian ones) and all draws;
    1 if the draws do not win. A law below (sum c)^2 / 100 k counts as that.

    Args:
        p: (m, n), float64, with 3^n patterns and n^k draws, a million at most.
        v: (n, d), float64.
        k: draws.
        chances: "uniform" draws all tokens alike, with a larger error.

    Returns:
        Verdict.

    Raises:
        ValueError: if all c_j are zero or there is too much to list; for sizes that do
            not fit, another dtype, NaN or infinity.

    Claim: lowrank.products
    Page: notebooks/jl_low_rank/spectra_and_linformer
    """
    one_of(("best", "uniform"), chances=chances)
    _check(2, p=p, v=v)
    n = p.shape[1]
    matches("v", v, (n, v.shape[1]), p, "p")
    sizes(1, k=k)
    require(3**n <= 10**6, f"p must have at most 12 columns to list all R, got {n}")
    require(n**k <= 10**6, f"k must leave a million draws at most, got {n}^{k}")
    c = p.norm(dim=0) * v.norm(dim=1)
    require(c.sum() > 0, "p and v must have some |P_{:j}| |V_{j:}| that is not zero")
    shares = c if chances == "best" else torch.ones_like(c)
    drawn_with = shares / shares.sum()
    size = float((p @ v).square().sum())
    law_projections = float(p.square().sum() * v.square().sum()) + size
    law_draws = (float(c.sum()) ** 2 - size) / k
    off_projections = abs(_all_projections(p, v) / law_projections - 1)
    least = float(c.sum()) ** 2 / k / 100  # the law may be zero
    off_draws = abs(_all_draws(p, v, drawn_with, k) - law_draws)
    off_draws = off_draws / max(law_draws, least)
    loses = float(law_draws > law_projections / k * (1 + ROUNDING))
    return at_most(max(off_projections, off_draws, loses), ROUNDING)


# --- Linformer: what its projections can do


def random_pairs(n=9, pairs=4, rank=3, seed=0) -> dict:
    """Queries, keys of some rank, values, and the pairs that are wanted."""
    sizes = ((n, 3), (n, 3), (n, 2), (pairs, 3), (pairs, 2))
    q, k, v, s, t = drawn(*sizes, seed=seed)
    k = torch.where(torch.arange(3) < rank, k, 0.0)
    return {"q": q, "k": k, "v": v, "s": s, "t": t}


def the_identity_is_dense() -> Verdict:
    """With E = F = I, Linformer is dense attention.

    Measured: the largest difference.
    """
    q, k, v = drawn((6, 3), (6, 3), (6, 2))
    eye = torch.eye(6, dtype=torch.float64)
    off = linformer_attention(q, k, v, eye, eye) - dense(q, k, v)
    return at_most(off.abs().max(), ROUNDING)


PAIRS = Case(random_pairs)


@claim(
    "lowrank.pairs",
    cases=[PAIRS, PAIRS.but(n=3, pairs=3), PAIRS.but(pairs=9), PAIRS.but(seed=1)],
    controls=[PAIRS.but(rank=2)],
    witness=the_identity_is_dense,
)
def any_pairs(q: Tensor, k: Tensor, v: Tensor, s: Tensor, t: Tensor) -> Verdict:
    """If K and V have full column rank, E = S K^+ and F = T V^+ give any pairs (S, T).

    Hypotheses: K and V have full column rank; E and F may depend on them.
    Measured: the largest entry of E K - S, of F V - T, and of Linformer minus attention
    to the pairs, each in units of the power of ten at or below the largest entry of S,
    T and T; in the last also of the logits, if they are above 1.

    Args:
        q: (m, d), all in float64.
        k: (n, d).
        v: (n, d_v).
        s: (r, d), the wanted keys.
        t: (r, d_v), the wanted values.

    Returns:
        Verdict.

    Raises:
        ValueError: for sizes that do not fit, another dtype, NaN or infinity.

    Claim: lowrank.pairs
    Page: notebooks/jl_low_rank/spectra_and_linformer
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


def fixed_mixtures(mixtures=3, n=6, seed=5) -> dict:
    """Queries and keys with one feature, and E, F that know nothing of them."""
    q, k, e, f = drawn((n, 1), (n, 1), (mixtures, n), (mixtures, n), seed=seed)
    return {"q": q, "k": k, "e": e, "f": f}


def the_lost_output_is_not_zero() -> Verdict:
    """Six equispaced points as queries and keys: P is far from singular.

    Measured: its smallest singular value.
    """
    q = torch.linspace(-1, 1, 6, dtype=torch.float64)[:, None]
    return at_least(torch.linalg.svdvals(torch.softmax(3 * q @ q.mT, -1))[-1], 1e-6)


MIXTURES = Case(fixed_mixtures)


@claim(
    "lowrank.kernel",
    cases=[MIXTURES, MIXTURES.but(mixtures=1), MIXTURES.but(mixtures=5)],
    controls=[MIXTURES.but(mixtures=6)],
    witness=the_lost_output_is_not_zero,
)
def lost_values(q: Tensor, k: Tensor, e: Tensor, f: Tensor) -> Verdict:
    """For fixed E, F some values are lost: Linformer returns zero, attention does not.

    Hypotheses: fewer mixtures than tokens; one feature, distinct queries and keys.
    Measured: |1 - relative error| for the values that F stretches least.

    Args:
        q, k: (n, 1), float64, in each no number twice.
        e, f: (r, n), float64; the size of f does not count.

    Returns:
        Verdict.

    Raises:
        ValueError: for equal queries or keys, or attention whose output rounding
            hides; for sizes that do not fit, another dtype, NaN or infinity.

    Claim: lowrank.kernel
    Page: notebooks/jl_low_rank/spectra_and_linformer
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


def random_mixtures(mixtures=3, n=6, i=0, alike=False) -> dict:
    """E and F, drawn; or mixtures of keys all alike, with values that cancel."""
    e, f = drawn((mixtures, n), (mixtures, n))
    if alike:
        e = torch.ones(mixtures, n, dtype=torch.float64)
        f = f - f.mean(0)
    return {"e": e, "f": f, "i": i}


def an_edit_of_the_future() -> Verdict:
    """Two tokens, one pair, E = F = (1/2, 1/2): raise the second value by one, and the
    first row moves by 1/2.

    Measured: the distance of that move from 1/2.
    """
    zero = torch.zeros(2, 1, dtype=torch.float64)
    half = torch.full((1, 2), 0.5, dtype=torch.float64)
    raised = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    before = linformer_attention(zero, zero, zero, half, half)
    after = linformer_attention(zero, zero, raised, half, half)
    return at_most(abs(after[0] - before[0] - 0.5), 0)


FUTURE = Case(random_mixtures)


@claim(
    "lowrank.causal",
    cases=[FUTURE, FUTURE.but(i=4), FUTURE.but(mixtures=5)],
    controls=[FUTURE.but(alike=True)],
    witness=an_edit_of_the_future,
)
def future_is_seen(e: Tensor, f: Tensor, i: int = 0) -> Verdict:
    """What row i never sees of a later value V_j is nothing but column j of F, so that
    a causal Linformer has zeros there.

    Hypotheses: the rows of E are linearly independent.
    Measured: column j of F, solved for from what row i sees of V_j under as many
    queries as there are mixtures; its largest distance from F over all j > i, in units
    of the power of ten at or below the largest entry of F.

    Args:
        e, f: (r, n), float64, r <= n.
        i: a row, from 0, not the last.

    Returns:
        Verdict.

    Raises:
        ValueError: for such a row or r; for sizes that do not fit, another dtype, NaN
            or infinity.

    Claim: lowrank.causal
    Page: notebooks/jl_low_rank/spectra_and_linformer
    """
    _check(2, e=e, f=f)
    matches("f", f, e.shape, e, "e")
    mixtures, n = e.shape
    require(mixtures <= n, f"e must have at most {n} rows, got {mixtures}")
    sizes(0, i=i)
    require(i < n - 1, f"i must be at most {n - 2}, a row with later ones, got {i}")
    eye = torch.eye(mixtures, dtype=e.dtype)
    keys = torch.linalg.pinv(e)  # E K = I, if the rows of E are independent
    queries = 3 * eye
    weights = torch.softmax(queries @ (e @ keys).mT, -1)
    worst = 0.0
    for j in range(i + 1, n):
        raised = torch.zeros(n, 1, dtype=e.dtype)
        raised[j] = 1
        seen = []
        for query in queries:
            q = query.expand(n, mixtures)
            seen.append(linformer_attention(q, keys, raised, e, f, scale=1.0)[i])
        column = torch.linalg.pinv(weights) @ torch.cat(seen)
        worst = max(worst, float((column - f[:, j]).abs().max()))
    return at_most(worst / _unit(f), 1e-10)


# --- a bound that zero meets


def peaked_rows(n=400, seed=0, rows="peaked") -> dict:
    """A softmax matrix with long logits and values of width three; or a uniform one
    with values all alike.
    """
    p = stochastic(n, seed, spread=6.0)
    (v,) = drawn((n, 3), seed=seed)
    if rows == "uniform":
        p = torch.full((n, n), 1 / n, dtype=torch.float64)
        v = torch.ones(n, 3, dtype=torch.float64)
    return {"p": p, "v": v, "eps": 0.5}


def a_permutation_passes() -> Verdict:
    """256 tokens that each look at one other, values of one length and width 64: every
    row meets (7.8) at eps = 1/2, as 256 = 64 / (1/2)^2.

    Measured: the largest |P_i V| / (|P_i| |V|).
    """
    p = torch.eye(256, dtype=torch.float64).roll(3, 0)
    (v,) = drawn((256, 64))
    v = v / v.norm(dim=1, keepdim=True)
    return at_most(_ratios(p, v).max(), 0.5)


def _ratios(p: Tensor, v: Tensor) -> Tensor:
    """|P_i V| / (|P_i| |V|) for each row, |V| the 2-norm."""
    size = torch.linalg.matrix_norm(v, 2)
    return (p @ v).norm(dim=-1) / (p.norm(dim=-1) * size)


PEAKED = Case(peaked_rows)


@claim(
    "lowrank.vacuous",
    cases=[PEAKED, PEAKED.but(seed=1), PEAKED.but(seed=2), PEAKED.but(n=800)],
    controls=[PEAKED.but(rows="uniform")],
    witness=a_permutation_passes,
)
def zero_output(p: Tensor, v: Tensor, eps: float) -> Verdict:
    """The output 0 meets the bound of Linformer's Theorem 2 on rows that look at few of
    many tokens: those with n |P_i|^2 >= s^2 d / eps^2.

    Hypotheses: |V| is the 2-norm, and no value is longer than s times the root mean
    square.
    Measured: the largest |P_i V| / (|P_i| |V|) over these rows. If there are none, the
    statement is about no row: then it is the largest over all, which may be above eps.

    Args:
        p: (m, n), float64, rows that sum to one.
        v: (n, d), float64, not zero.
        eps: of the bound, in (0, 1).

    Returns:
        Verdict.

    Raises:
        ValueError: for rows that are no probabilities, values that are all zero, such
            an eps, sizes that do not fit, another dtype, NaN or infinity.

    Claim: lowrank.vacuous
    Page: notebooks/jl_low_rank/spectra_and_linformer
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
    ratios = _ratios(p, v)
    if peaked.any():
        ratios = ratios[peaked]
    return at_most(ratios.max(), eps * (1 + ROUNDING))


# --- where the proof breaks


def chance(n: int, eps: float, delta: float, *, target: int | None = None) -> float:
    """Pr(|e^-delta 1'R1 - t| <= eps t), exactly: 1'R1 is normal of variance n.

    Args:
        n: tokens.
        eps: of the inequality, in (0, 1).
        delta: of E = delta R, F = e^-delta R.
        target: t; n for (9) of the paper, and the number of mixtures for its Theorem 2.

    Returns:
        a probability.

    Claim: lowrank.theorem-2
    Page: notebooks/jl_low_rank/spectra_and_linformer
    """
    target = n if target is None else target
    unit = target * math.exp(delta) / math.sqrt(n)
    return float(mpmath.ncdf(-(1 - eps) * unit) - mpmath.ncdf(-(1 + eps) * unit))


def promised(k: int, eps: float) -> float:
    """What (9) of the paper promises: a chance above 1 - 2 exp(-(eps^2 - eps^3) k / 4).

    Args:
        k: mixtures.
        eps: of the inequality.

    Returns:
        a lower bound of a probability, as printed.

    Claim: lowrank.theorem-2
    Page: notebooks/jl_low_rank/spectra_and_linformer
    """
    return 1 - 2 * math.exp(-(eps**2 - eps**3) * k / 4)


def gaussian_draws(n=4, k=8, draws=4000, seed=0) -> dict:
    """Many matrices R with independent N(0, 1/k) entries."""
    (r,) = drawn((draws, k, n), seed=seed)
    return {"r": r / math.sqrt(k), "eps": 0.5, "delta": 0.0}


def signs_fail_half_of_the_time() -> Verdict:
    """Signs in place of Gaussian entries, n = 3, k = 4: of all 4096 matrices R, those
    for which 1'R1 / sqrt(k) lies within n / 2 of n.

    Measured: their share, exactly; at most a half.
    """
    passed = 0
    for signs in itertools.product((1, -1), repeat=12):
        total = Fraction(sum(signs), 2)  # divided by sqrt(k)
        passed += abs(total - 3) <= Fraction(3, 2)
    return at_most(Fraction(passed, 2**12), 0.5)


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
    controls=[DRAWS.but(place="behind")],
    witness=signs_fail_half_of_the_time,
)
def zero_logits(
    r: Tensor,
    eps: float,
    delta: float,
    *,
    place: Literal["in front", "behind"] = "in front",
    normalised: bool = False,
) -> Verdict:
    """With E = delta R and F = e^-delta R, at zero logits and values 1, the inequality
    inside (9) fails at least half of the time, and so does that of the theorem.

    Hypotheses: R has independent Gaussian entries and stands in front of the
    exponential.
    Measured: the distance of the share of draws that pass from its exact law, or 1 if
    the law exceeds a half.

    Args:
        r: (draws, k, n), float64, entries N(0, 1/k), at least 100 draws.
        eps: of the inequality, in (0, 1).
        delta: of E and F, from -100 to 100.
        place: "behind" takes exp(x) R'R y, which is close.
        normalised: the inequality of the theorem, by `linformer_attention`.

    Returns:
        Verdict; its bound is four standard errors, at least 0.001.

    Raises:
        ValueError: for entries of another variance, too few draws, such an eps or
            delta, another dtype, NaN or infinity.

    Claim: lowrank.theorem-2
    Page: notebooks/jl_low_rank/spectra_and_linformer
    """
    one_of(("in front", "behind"), place=place)
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
    if place == "behind":
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


def one_hot_head(
    d=8, copies=2, k=4, group=1, gap=30.0, values="distinct", eps=0.5
) -> dict:
    """Every token is one of d kinds, each row looks at its own kind; E and F make k
    pairs, each of a group of kinds.

    Args:
        d: kinds, and the width.
        copies: tokens of each kind.
        k: pairs.
        group: kinds that a pair stands for.
        gap: logit of the own kind, all others 0.
        values: "distinct", one direction a kind, or "equal".
        eps: of the bound (7.7).
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
    """1 + rank pairs that give these outputs exactly, if the queries are independent.

    Args:
        q: (n, d), n linearly independent queries.
        outputs: (n, d_v), in an affine space of dimension `rank`, at least 1.
        rank: r of the proof of Proposition 7.14.

    Returns:
        (S, T), of sizes (1 + rank, d) and (1 + rank, d_v).

    Claim: lowrank.covering
    Page: notebooks/jl_low_rank/spectra_and_linformer
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


def as_many_as_dimensions() -> Verdict:
    """Six independent queries of width six, outputs on a plane: three pairs give them.

    Measured: the largest difference.
    """
    q, k, v = drawn((6, 6), (6, 6), (6, 2))
    outputs = dense(q, k, v)
    s, t = enough_pairs(q, outputs, rank=2)
    return at_most((dense(q, s, t) - outputs).abs().max(), 1e-10)


def three_quarters_are_enough() -> Verdict:
    """Six pairs serve eight kinds at eps = 1/2: outputs projected to a space that is
    equally far from all of them.

    Measured: the largest |error| / (|P_i| |V|); it would be more with five.
    """
    head = one_hot_head(k=6, copies=1)
    q, k, v = head["q"], head["k"], head["v"]
    turns = 2 * math.pi * torch.arange(8, dtype=q.dtype) / 8
    waves = [(turns * 4).cos() / math.sqrt(2)]
    for f in (1, 2):
        waves += [(turns * f).cos(), (turns * f).sin()]
    waves = torch.stack(waves) / 2  # five orthonormal rows, orthogonal to 1
    p = torch.softmax(q @ k.mT / math.sqrt(8), -1)
    outputs = p @ v
    centre = outputs.mean(0)
    near = centre + waves.mT @ waves @ (outputs - centre)
    s, t = enough_pairs(q, near, rank=5)
    miss = (dense(q, s, t) - outputs).norm(dim=-1)
    return at_most((miss / p.norm(dim=-1)).max(), 0.5 + 1e-9)


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


ONE_HOT = Case(one_hot_head)


@claim(
    "lowrank.covering",
    cases=[
        ONE_HOT,
        ONE_HOT.but(copies=1),
        ONE_HOT.but(k=2, group=2, eps=0.71),
        ONE_HOT.but(k=1, group=4, eps=0.87),
        ONE_HOT.but(k=3, group=2),
    ],
    controls=[ONE_HOT.but(values="equal")],
    witness=three_quarters_are_enough,
)
def covering(
    q: Tensor, k: Tensor, v: Tensor, e: Tensor, f: Tensor, eps: float
) -> Verdict:
    """Whatever E and F are, k pairs meet the bound (7.7) for at most k / (1 - eps^2) of
    the d kinds of tokens in a head where each kind looks at itself.

    Hypotheses: each kind comes equally often; the values of the d kinds are
    orthonormal, up to one factor; attention is sharp: each row looks at its own kind
    alone, up to rounding; E and F are the same for all rows; |V| is the 2-norm.
    Measured: how many kinds meet (7.7), in units of the bound rounded down, also if
    values are not orthonormal.

    Args:
        q, k, v: (n, d), float64; tokens with equal keys are of one kind, and have
            equal values.
        e, f: (r, n), float64, r pairs.
        eps: of (7.7), in (0, 1).

    Returns:
        Verdict; its bound is 1.

    Raises:
        ValueError: if kinds do not come equally often, have several values or do not
            look at themselves; for such an eps, sizes that do not fit, another dtype,
            NaN or infinity.

    Claim: lowrank.covering
    Page: notebooks/jl_low_rank/spectra_and_linformer
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
