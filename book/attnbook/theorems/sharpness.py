"""The claims of the page `How sharp must a row be?`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from attnbook.theorems import Case, claim
from attnlib._require import (
    finite,
    is_floating,
    is_list,
    numbers,
    one_of,
    pair_mask,
    require,
    sizes,
)
from attnlib.attention import hardmax
from attnlib.bridges import critical_beta, dobrushin
from attnlib.certify import Verdict, at_most

DOUBLE = torch.float64
ROUNDING = 1e-12
# 1 + 2^-t + 3^-t + ... is 3/2 at this t, rounded up.
TWO_THIRDS = 2.1853


def critical(row: Tensor) -> tuple[float, int]:
    """beta* and j* of one row of logits, by the definition.

    Args:
        row: (n,), at least two logits, the largest one alone.

    Returns:
        (beta*, j*); of several j that need the same, the smallest.

    Raises:
        ValueError: for what is no row of two finite logits or more.
    """
    is_floating("row", row)
    got = tuple(row.shape)
    require(len(got) == 1 and len(row) >= 2, f"row must be (n,) with n >= 2, got {got}")
    finite(row=row)
    gaps = (row.max() - row).to(DOUBLE).sort().values
    j = torch.arange(2, len(row) + 1, dtype=DOUBLE, device=row.device)
    needed = j.log() / gaps[1:]
    return float(needed.max()), int(j[needed.argmax()])


def _check_rows(logits: Tensor, mask: Tensor | None) -> Tensor:
    """The rows (rows, n) that have two entries or more, in double precision, with -inf
    for what is left out; refuse a tied top.
    """
    is_floating("logits", logits)
    require(
        logits.dim() >= 2 and 0 not in logits.shape,
        f"logits must be (*batch, m, n), not empty, got {tuple(logits.shape)}",
    )
    logits = logits.detach().to(DOUBLE)
    if mask is not None:
        pair_mask(mask, logits.shape, logits.device)
        logits = torch.where(mask, logits, -math.inf)
    needed = critical_beta(logits)  # refuses NaN, +inf and empty rows
    tied = int(needed.isinf().sum())
    require(
        tied == 0,
        f"logits have a tied top in {tied} rows: the largest logit must stand alone, "
        "for no temperature can part equal logits",
    )
    rows = logits.flatten(0, -2)
    kept = rows[rows.isfinite().sum(-1) > 1]
    require(len(kept) > 0, "logits must have a row with two entries, got none")
    return kept


def _sorted_gaps(rows: Tensor) -> Tensor:
    """Distances to the largest logit of each row, the smallest first; inf at the end
    for entries that are left out.
    """
    return (rows.amax(-1, keepdim=True) - rows).sort(-1).values


# --- the two sides


def drawn_rows(family="Gaussian", m=40, n=200, t=1.5, seed=0, masked=False) -> dict:
    """Random rows of logits of a family, and a beta that is t times their middle
    beta*; masked hides the last entries of each row, more of them in later rows.
    """
    one_of(("Gaussian", "uniform", "Cauchy"), family=family)
    g = torch.Generator().manual_seed(seed)
    u = torch.rand(m, n, generator=g, dtype=DOUBLE)
    if family == "uniform":
        logits = u
    elif family == "Cauchy":
        logits = torch.tan(math.pi * (u - 0.5))
    else:
        logits = torch.randn(m, n, generator=g, dtype=DOUBLE)
    mask = None
    if masked:
        mask = torch.arange(n) < n - torch.arange(m)[:, None] * (n // m)
    beta = t * float(critical_beta(logits, mask=mask).median())
    return {"logits": logits, "beta": beta, "mask": mask}


def zipf_row(n: int) -> Tensor:
    """A row (1, n) whose j-th gap is ln j, so that beta* = 1."""
    return -torch.arange(1, n + 1, dtype=DOUBLE).log()[None]


def equal_row(n: int) -> Tensor:
    """A row (1, n) of one logit 0 and n - 1 rivals at -1, so that beta* = ln n."""
    row = torch.full((1, n), -1.0, dtype=DOUBLE)
    row[0, 0] = 0.0
    return row


def hand_row() -> Tensor:
    """The row of the page's example: a leader, a rival at distance 1, 14 at 2."""
    return torch.tensor([[0.0, -1.0] + [-2.0] * 14], dtype=DOUBLE)


def both_sides_are_attained() -> Verdict:
    """Zipf's row attains the lower side and equal gaps the upper; and the example by
    hand: beta* = 2 ln 2, where the leader has 8/17, at twice that 128/143.

    Measured: the largest distance from these numbers.
    """
    off = 0.0
    for n in (2, 7, 1000):
        j = torch.arange(1, n + 1, dtype=DOUBLE)
        for t in (0.5, 1.0, 3.0):
            zipf = torch.softmax(t * zipf_row(n) * critical_beta(zipf_row(n)), -1)
            off = max(off, abs(float(zipf.max()) - float(1 / (j**-t).sum())))
            strong = t * critical_beta(equal_row(n))
            equal = torch.softmax(strong * equal_row(n), -1)
            off = max(off, abs(float(equal.max()) - 1 / (1 + (n - 1) * n**-t)))
    off = max(off, abs(float(critical_beta(hand_row())) - 1.3862943611198906))
    for beta, share in ((2 * math.log(2), 8 / 17), (4 * math.log(2), 128 / 143)):
        by_hand = torch.softmax(beta * hand_row(), -1).max()
        off = max(off, abs(float(by_hand) - share))
    return at_most(off, ROUNDING)


ROWS = Case(drawn_rows)


@claim(
    "after.sharpness",
    cases=[
        ROWS,
        ROWS.but(t=0.5),
        ROWS.but(t=4.0, seed=1),
        ROWS.but(family="uniform", n=500),
        ROWS.but(family="uniform", t=0.7),
        ROWS.but(family="Cauchy", t=0.5),
        ROWS.but(family="Cauchy", t=2.0, n=1000),
        ROWS.but(masked=True),
        ROWS.but(n=2),
    ],
    controls=[ROWS.but(gaps="first"), ROWS.but(normalizer="hardmax")],
    witness=both_sides_are_attained,
    masked=["logits"],
)
def two_sides(
    logits: Tensor,
    beta: float,
    mask: Tensor | None = None,
    *,
    gaps: str = "all",
    normalizer: str = "softmax",
) -> Verdict:
    """With t = beta / beta*, the largest weight of softmax(beta logits) is at least
    1 / (1 + 2^-t + ... + n^-t) and at most 1 / (1 + (j* - 1) j*^-t).

    Hypotheses: softmax, beta > 0, the largest logit of the row is not tied; beta* =
    max_j ln(j) / g_(j) over all gaps, at j*. What is masked does not count.
    Measured: by how much a row leaves the two sides, the worst of all rows, at most
    1e-12; in double precision, whatever the logits are.

    Args:
        logits: (*batch, m, n); -inf for what is left out. Rows of one entry say
            nothing.
        beta: the inverse temperature; 1 for logits as a model has them.
        mask: boolean, True = may attend, broadcastable to the logits.
        gaps: "all", or "first" for ln 2 over the first gap in place of beta*.
        normalizer: "softmax" or, against the hypothesis, "hardmax".

    Returns:
        Verdict.

    Raises:
        ValueError: for a tied top, a beta that is not positive, NaN, +inf, rows
            without an entry, or no row of two.

    Claim: after.sharpness
    Page: notebooks/what_came_after/sharpness
    """
    numbers(beta=beta)
    require(beta > 0, f"beta must be positive, got {beta}")
    one_of(("all", "first"), gaps=gaps)
    one_of(("softmax", "hardmax"), normalizer=normalizer)
    rows = _check_rows(logits, mask)
    distances = _sorted_gaps(rows)
    n = rows.shape[-1]
    j = torch.arange(1, n + 1, dtype=DOUBLE, device=rows.device)
    needed = j[1:].log() / distances[:, 1:]
    if gaps == "all":
        t = beta / critical_beta(rows)
        at = j[1:][needed.argmax(-1)]
    else:
        t = beta / needed[:, 0]
        at = torch.full_like(t, 2.0)
    entries = rows.isfinite().sum(-1, keepdim=True)
    powers = torch.where(j <= entries, j ** -t[:, None], 0.0)
    least = 1 / powers.sum(-1)
    most = 1 / (1 + (at - 1) * at**-t)
    weights = (
        torch.softmax(-beta * distances, -1)
        if normalizer == "softmax"
        else hardmax(-distances.clamp_max(1e300))
    )
    share = weights.amax(-1)
    outside = torch.maximum(least - share, share - most)
    return at_most(outside.max(), ROUNDING)


# --- two thirds


def two_extremes(n=3000) -> dict:
    """Zipf's row of n tokens, and a row of two tokens beside others that are far."""
    pair = torch.full((1, n), -1000.0, dtype=DOUBLE)
    pair[0, :2] = torch.tensor([0.0, -1.0])
    return {"logits": torch.cat([zipf_row(n), pair])}


def gaussian_rows(m=40, n=300, seed=0) -> dict:
    """Gaussian rows."""
    g = torch.Generator().manual_seed(seed)
    return {"logits": torch.randn(m, n, generator=g, dtype=DOUBLE)}


def _beta_for(rows: Tensor, share: float) -> Tensor:
    """The least beta at which the largest weight reaches a share, over beta*; cut at 4,
    by halving.
    """
    distances = _sorted_gaps(rows) * critical_beta(rows)[:, None]
    low = torch.zeros(len(rows), dtype=DOUBLE, device=rows.device)
    high = torch.full_like(low, 4.0)
    for _ in range(50):
        middle = (low + high) / 2
        weights = torch.softmax(-middle[:, None] * distances, -1)
        short = weights.amax(-1) < share
        low = torch.where(short, middle, low)
        high = torch.where(short, high, middle)
    return high


def both_constants_are_best() -> Verdict:
    """Two tokens need beta* for two thirds, exactly; Zipf's rows need more and more
    of it, towards 2.18529, where zeta is 3/2.

    Measured: the largest distance from 1 and, at 100,000 tokens, from 2.18528.
    """
    pair = torch.tensor([[0.0, -3.0]], dtype=DOUBLE)
    long = zipf_row(100_000)
    off = abs(float(_beta_for(pair, 2 / 3)) - 1)
    return at_most(max(off, abs(float(_beta_for(long, 2 / 3)) - 2.18528)), 1e-5)


EXTREMES = Case(two_extremes)
GAUSSIAN = Case(gaussian_rows)


@claim(
    "after.two-thirds",
    cases=[EXTREMES, EXTREMES.but(n=10), GAUSSIAN, GAUSSIAN.but(n=3, seed=1)],
    controls=[EXTREMES.but(share=0.75), EXTREMES.but(share=0.6)],
    witness=both_constants_are_best,
    masked=["logits"],
)
def two_thirds(
    logits: Tensor, mask: Tensor | None = None, *, share: float = 2 / 3
) -> Verdict:
    """The least beta that gives two thirds to the largest logit is at least beta* and
    at most 2.1853 beta*.

    Hypotheses: softmax, the largest logit of the row is not tied.
    Measured: how far the ratio to beta* leaves [1, 2.1853], the worst of all rows, at
    most 1e-12; ratios are cut at 4.

    Args:
        logits: (*batch, m, n); -inf for what is left out.
        mask: boolean, True = may attend, broadcastable to the logits.
        share: what the largest logit is to get; other shares have other constants.

    Returns:
        Verdict.

    Raises:
        ValueError: as two_sides, and for a share that is not between 1/2 and 1.

    Claim: after.two-thirds
    Page: notebooks/what_came_after/sharpness
    """
    numbers(share=share)
    require(0.5 < share < 1, f"share must lie between 1/2 and 1, got {share}")
    ratio = _beta_for(_check_rows(logits, mask), share)
    outside = torch.maximum(1 - ratio, ratio - TWO_THIRDS)
    return at_most(outside.max(), ROUNDING)


# --- tokens at equal angles


def simplex(n=20, rho=0.5, beta=3.0) -> dict:
    """n unit tokens whose inner products are all rho."""
    gram = torch.full((n, n), rho, dtype=DOUBLE).fill_diagonal_(1.0)
    return {"x": torch.linalg.cholesky(gram), "beta": beta}


def contraction(n: int, rho: float, beta: float) -> float:
    """tau of n tokens at equal angles, 1 / (1 + n / (e^(beta (1 - rho)) - 1)).

    Args:
        n: tokens, at least 2.
        rho: their inner product.
        beta: the inverse temperature, positive.

    Returns:
        a float between 0 and 1.

    Raises:
        ValueError: for fewer than two tokens, a rho that no such tokens have, or a beta
            that is not positive.
    """
    sizes(2, n=n)
    numbers(rho=rho, beta=beta)
    require(
        -1 / (n - 1) <= rho < 1,
        f"rho must be from {-1 / (n - 1):.3g} = -1 / (n - 1) to below 1, got {rho}",
    )
    require(beta > 0, f"beta must be positive, got {beta}")
    exponent = -beta * (1 - rho)
    return -math.expm1(exponent) / (1 + (n - 1) * math.exp(exponent))


def the_switch() -> Verdict:
    """At beta = ln n / (1 - rho) tau is (n - 1) / (2 n - 1); twenty per cent below and
    above, a million tokens keep less than 0.07 and more than 0.94.

    Measured: the largest distance from (n - 1) / (2 n - 1), or 1 if a side fails.
    """
    off = 0.0
    for n, rho in ((2, 0.0), (10, -0.1), (10**6, 0.5)):
        at = contraction(n, rho, math.log(n) / (1 - rho))
        off = max(off, abs(at - (n - 1) / (2 * n - 1)))
    scale = math.log(10**6) / (1 - 0.5)
    below = contraction(10**6, 0.5, 0.8 * scale)
    above = contraction(10**6, 0.5, 1.2 * scale)
    if below > 0.07 or above < 0.94:
        return at_most(1.0, ROUNDING)
    return at_most(off, ROUNDING)


SIMPLEX = Case(simplex)


@claim(
    "after.angles",
    cases=[
        SIMPLEX,
        SIMPLEX.but(n=2),
        SIMPLEX.but(rho=-0.05, beta=0.1),
        SIMPLEX.but(rho=0.9, beta=60.0, n=7),
    ],
    controls=[SIMPLEX.but(causal=True)],
    witness=the_switch,
)
def equal_angles(x: Tensor, beta: float, *, causal: bool = False) -> Verdict:
    """If n unit tokens have the inner product rho in pairs, attention moves each of
    them towards their mean, by the share 1 - tau of the way.

        P X = tau X + (1 - tau) mean,
        tau = tau(P) = 1 / (1 + n / (e^(beta (1 - rho)) - 1))

    Hypotheses: queries, keys and values are the tokens; no mask.
    Measured: the largest distance of tau(P), and of an entry of P X, from these; at
    most 1e-12.

    Args:
        x: (n, d), unit rows with equal inner products, float64.
        beta: the inverse temperature, positive.
        causal: a token reads those up to itself, against the hypothesis.

    Returns:
        Verdict.

    Raises:
        ValueError: for tokens that are not of this kind, or a beta that is not
            positive.

    Claim: after.angles
    Page: notebooks/what_came_after/sharpness
    """
    rho = _check_angles(x)
    x = x.detach()
    tau = contraction(len(x), rho, beta)
    logits = beta * (x @ x.T)
    if causal:
        above = torch.ones_like(logits).triu(1).bool()
        logits = logits.masked_fill(above, -math.inf)
    p = torch.softmax(logits, -1)
    predicted = tau * x + (1 - tau) * x.mean(0)
    off = max(abs(float(dobrushin(p)) - tau), float((p @ x - predicted).abs().max()))
    return at_most(off, ROUNDING)


def _check_angles(x: Tensor) -> float:
    """The common inner product of unit tokens."""
    is_floating("x", x)
    got = tuple(x.shape)
    require(x.dim() == 2 and len(x) >= 2, f"x must be (n, d) with n >= 2, got {got}")
    require(x.dtype == DOUBLE, f"x must be float64, got {x.dtype}: cast it first")
    finite(x=x)
    x = x.detach()
    n = len(x)
    gram = x @ x.T
    rho = float((gram.sum() - gram.trace()) / (n * (n - 1)))
    wanted = torch.full_like(gram, rho).fill_diagonal_(1.0)
    off = float((gram - wanted).abs().max())
    require(
        off <= ROUNDING,
        "x must be unit tokens with equal inner products, got one that is off by "
        f"{off:.2g}",
    )
    return rho


# --- keys on a sphere


def first_coordinates(draws: int, n: int, d: int, keys: str, seed: int) -> Tensor:
    """Logits (draws, n) of one query: the first coordinates of random keys, on the
    sphere or Gaussian.
    """
    sizes(1, draws=draws, n=n, d=d)
    one_of(("sphere", "Gaussian"), keys=keys)
    g = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(draws):
        drawn = torch.randn(n, d, generator=g, dtype=DOUBLE)
        if keys == "sphere":
            drawn = normalize(drawn, dim=1)
        found.append(drawn[:, 0])
    return torch.stack(found)


def sphere(d=3, seed=0) -> dict:
    """The dimension and the seed."""
    return {"d": d, "seed": seed}


def an_even_circle() -> Verdict:
    """n keys in equal steps on a circle, the query at one of them: beta* / n^2 is
    ln 3 / (2 pi^2) = 0.05566 in the limit.

    Measured: the largest relative distance from it, at most 1e-4.
    """
    off = 0.0
    for n in (1000, 8000):
        angles = 2 * math.pi * torch.arange(n, dtype=DOUBLE) / n
        beta = float(critical_beta(angles.cos()[None]))
        off = max(off, abs(beta / n**2 / 0.0556566 - 1))
    return at_most(off, 1e-4)


SPHERE = Case(sphere)


@claim(
    "after.spheres",
    cases=[SPHERE, SPHERE.but(d=2), SPHERE.but(d=5), SPHERE.but(d=9)],
    controls=[SPHERE.but(keys="Gaussian")],
    witness=an_even_circle,
)
def spheres(
    d: int,
    *,
    lengths: Sequence[int] = (2**4, 2**11),
    draws: int = 161,
    keys: str = "sphere",
    seed: int = 0,
) -> Verdict:
    """For n independent uniform keys on the sphere in d dimensions and one unit query,
    beta* grows like n^(2 / (d - 1)).

    Hypotheses: d >= 2; keys are independent of the query.
    Measured: how far the exponent between two lengths, by medians over the draws, is
    from 2 / (d - 1); at most 0.2, for it is a sample.

    Args:
        d: dimensions of a key.
        lengths: two numbers of keys, the smaller one first.
        draws: of keys, for each length; sqrt(draws) ln(long / short) is at least 60,
            so that a sample tells two exponents apart.
        keys: "sphere" or, against the hypothesis, "Gaussian".
        seed: of the draws.

    Returns:
        Verdict.

    Raises:
        ValueError: for d < 2, lengths that do not rise, fewer than 2 keys, few draws.

    Claim: after.spheres
    Page: notebooks/what_came_after/sharpness
    """
    sizes(2, d=d)
    sizes(1, draws=draws)
    sizes(0, seed=seed)
    is_list(lengths=lengths)
    require(len(lengths) == 2, f"lengths must be two numbers, got {len(lengths)}")
    short, long = lengths
    sizes(2, **{"lengths[0]": short, "lengths[1]": long})
    require(short < long, f"lengths must rise, got {short} and {long}")
    told = math.sqrt(draws) * math.log(long / short)
    require(
        told >= 60,
        "draws must be more, or lengths further apart: sqrt(draws) ln(long / short) "
        f"must be at least 60, got {told:.3g}",
    )
    medians = []
    for n in lengths:
        logits = first_coordinates(draws, n, d, keys, seed)
        medians.append(float(critical_beta(logits).median()))
    exponent = math.log(medians[1] / medians[0]) / math.log(long / short)
    return at_most(abs(exponent - 2 / (d - 1)), 0.2)
