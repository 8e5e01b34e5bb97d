"""The claims of the page `How sharp must a row be?`. Logits are (*batch, m, n), -inf
for what is left out, as is what a boolean mask leaves out; rows of one entry say
nothing.
"""

from __future__ import annotations

import math

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
    """beta* and j* of one row of logits, by the definition; of several j that need the
    same, the smallest.
    """
    is_floating("row", row)
    got = tuple(row.shape)
    require(len(got) == 1 and len(row) >= 2, f"row must be (n,) with n >= 2, got {got}")
    finite(row=row)
    gaps = (row.max() - row).to(DOUBLE).sort().values
    j = torch.arange(2, len(row) + 1, dtype=DOUBLE, device=row.device)
    needed = j.log() / gaps[1:]
    return float(needed.max()), int(j[needed.argmax()])


def _untied(logits: Tensor, mask: Tensor | None) -> Tensor:
    """The rows (rows, n) that have two entries or more, in double precision, with -inf
    for what is left out.
    """
    is_floating("logits", logits)
    logits = logits.detach().to(DOUBLE)
    needed = critical_beta(logits, mask=mask)  # refuses NaN, +inf and empty rows
    tied = int(needed.isinf().sum())
    require(
        tied == 0,
        f"logits have a tied top in {tied} rows: the largest logit must stand alone, "
        "for no temperature can part equal logits",
    )
    if mask is not None:
        logits = torch.where(mask, logits, -math.inf)
    rows = logits.flatten(0, -2)
    kept = rows[rows.isfinite().sum(-1) > 1]
    require(len(kept) > 0, "logits must have a row with two entries, got none")
    return kept


def _sorted_gaps(rows: Tensor) -> Tensor:
    """Distances to the largest logit, the smallest first; inf for what is left out."""
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
    broken={
        "first gap": {"_gaps": "first"},
        "hardmax": {"_normalizer": "hardmax"},
    },
    masked=["logits"],
)
def two_sides(
    logits, beta, mask=None, *, _gaps="all", _normalizer="softmax"
) -> Verdict:
    """The sharpness t of a row bounds its largest weight from both sides.

    Measured: by how much a row leaves the two sides, the worst of all rows, in double
    precision.

    Claim: after.sharpness
    Page: notebooks/what_came_after/sharpness
    """
    numbers(beta=beta)
    require(beta > 0, f"beta must be positive, got {beta}")
    rows = _untied(logits, mask)
    distances = _sorted_gaps(rows)
    j = torch.arange(1, rows.shape[-1] + 1, dtype=DOUBLE, device=rows.device)
    needed = j[1:].log() / distances[:, 1:]
    if _gaps == "all":
        t = beta / critical_beta(rows)
        at = j[1:][needed.argmax(-1)]
    else:
        t = beta / needed[:, 0]
        at = torch.full_like(t, 2.0)
    entries = rows.isfinite().sum(-1, keepdim=True)
    powers = torch.where(j <= entries, j ** -t[:, None], 0.0)
    least = 1 / powers.sum(-1)
    most = 1 / (1 + (at - 1) * at**-t)
    if _normalizer == "softmax":
        weights = torch.softmax(-beta * distances, -1)
    else:
        weights = hardmax(-distances.clamp_max(1e300))
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
    """Rows of independent Gaussian logits."""
    g = torch.Generator().manual_seed(seed)
    return {"logits": torch.randn(m, n, generator=g, dtype=DOUBLE)}


def beta_for(rows: Tensor, share: float) -> Tensor:
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


EXTREMES = Case(two_extremes)
GAUSSIAN = Case(gaussian_rows)


@claim(
    "after.two-thirds",
    cases=[EXTREMES, EXTREMES.but(n=10), GAUSSIAN, GAUSSIAN.but(n=3, seed=1)],
    broken={
        "three quarters": {"_share": 0.75},
        "three fifths": {"_share": 0.6},
    },
    masked=["logits"],
)
def two_thirds(logits, mask=None, *, _share=2 / 3) -> Verdict:
    """The beta that gives two thirds to the leader is beta* but for a constant.

    Measured: how far its ratio to beta* leaves [1, 2.1853], the worst of all rows;
    ratios are cut at 4.

    Claim: after.two-thirds
    Page: notebooks/what_came_after/sharpness
    """
    ratio = beta_for(_untied(logits, mask), _share)
    outside = torch.maximum(1 - ratio, ratio - TWO_THIRDS)
    return at_most(outside.max(), ROUNDING)


# --- tokens at equal angles


def simplex(n=20, rho=0.5, beta=3.0) -> dict:
    """n unit tokens whose inner products are all rho."""
    gram = torch.full((n, n), rho, dtype=DOUBLE).fill_diagonal_(1.0)
    return {"x": torch.linalg.cholesky(gram), "beta": beta}


def contraction(n: int, rho: float, beta: float) -> float:
    """tau of n tokens at equal angles, 1 / (1 + n / (e^(beta (1 - rho)) - 1))."""
    sizes(2, n=n)
    numbers(rho=rho, beta=beta)
    require(
        -1 / (n - 1) <= rho < 1,
        f"rho must be from {-1 / (n - 1):.3g} = -1 / (n - 1) to below 1, got {rho}",
    )
    require(beta > 0, f"beta must be positive, got {beta}")
    exponent = -beta * (1 - rho)
    return -math.expm1(exponent) / (1 + (n - 1) * math.exp(exponent))


def _angle(x: Tensor) -> float:
    """The common inner product of unit tokens."""
    got = tuple(x.shape)
    require(x.dim() == 2 and len(x) >= 2, f"x must be (n, d) with n >= 2, got {got}")
    require(x.dtype == DOUBLE, f"x must be float64, got {x.dtype}: cast it first")
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


SIMPLEX = Case(simplex)


@claim(
    "after.angles",
    cases=[
        SIMPLEX,
        SIMPLEX.but(n=2),
        SIMPLEX.but(rho=-0.05, beta=0.1),
        SIMPLEX.but(rho=0.9, beta=60.0, n=7),
    ],
    broken={"causal mask": {"_causal": True}},
)
def equal_angles(x, beta, *, _causal=False) -> Verdict:
    """Unit tokens at equal angles move towards their mean, by the share 1 - tau.

    Measured: the largest distance of Dobrushin's tau(P), and of an entry of P X, from
    (21.5). x is (n, d) in float64.

    Claim: after.angles
    Page: notebooks/what_came_after/sharpness
    """
    is_floating("x", x)
    x = x.detach()
    tau = contraction(len(x), _angle(x), beta)
    logits = beta * (x @ x.T)
    if _causal:
        above = torch.ones_like(logits).triu(1).bool()
        logits = logits.masked_fill(above, -math.inf)
    p = torch.softmax(logits, -1)
    predicted = tau * x + (1 - tau) * x.mean(0)
    off = max(abs(float(dobrushin(p)) - tau), float((p @ x - predicted).abs().max()))
    return at_most(off, ROUNDING)


# --- keys on a sphere


def first_coordinates(draws: int, n: int, d: int, keys: str, seed: int) -> Tensor:
    """Logits (draws, n) of one query: the first coordinates of random keys, on the
    sphere or Gaussian.
    """
    sizes(1, draws=draws, n=n, d=d)
    sizes(0, seed=seed)
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
    """A dimension, and the seed of the draws."""
    return {"d": d, "seed": seed}


SPHERE = Case(sphere)


@claim(
    "after.spheres",
    cases=[SPHERE, SPHERE.but(d=2), SPHERE.but(d=5), SPHERE.but(d=9)],
    broken={"Gaussian keys": {"_keys": "Gaussian"}},
)
def spheres(d, *, lengths=(2**4, 2**11), draws=161, seed=0, _keys="sphere") -> Verdict:
    """For random keys on a sphere beta* grows like n^(2 / (d - 1)).

    Measured: how far the exponent between two numbers of keys, by medians over the
    draws, is from 2 / (d - 1); 0.2 is allowed, for it is a sample.

    Claim: after.spheres
    Page: notebooks/what_came_after/sharpness
    """
    sizes(2, d=d)
    sizes(1, draws=draws)
    is_list(lengths=lengths)
    require(len(lengths) == 2, f"lengths must be two numbers, got {len(lengths)}")
    short, long = lengths
    sizes(2, **{"lengths[0]": short, "lengths[1]": long})
    require(short < long, f"lengths must rise, got {short} and {long}")
    told = math.sqrt(draws) * math.log(long / short)
    require(
        told >= 60,
        "draws must be more, or lengths further apart: sqrt(draws) ln(long / short) "
        f"must be at least 60 to tell two exponents apart, got {told:.3g}",
    )
    medians = []
    for n in lengths:
        logits = first_coordinates(draws, n, d, _keys, seed)
        medians.append(float(critical_beta(logits).median()))
    exponent = math.log(medians[1] / medians[0]) / math.log(long / short)
    return at_most(abs(exponent - 2 / (d - 1)), 0.2)


# --- Gaussian rows


def _beyond(share_logs: Tensor) -> Tensor:
    """The numbers that a normal variable exceeds with chances of these logarithms, by
    Newton's method: the logarithm of the chance is concave.
    """
    x = (-2 * share_logs).sqrt()
    for _ in range(50):
        tail = torch.special.log_ndtr(-x)
        slope = -(-(x**2) / 2 - math.log(2 * math.pi) / 2 - tail).exp()
        x = x - (tail - share_logs) / slope
    return x


def many_tokens(digits=300, seed=0) -> dict:
    """How many digits the number of tokens has, and the seed of the draws."""
    return {"digits": digits, "seed": seed}


MANY = Case(many_tokens)


@claim(
    "after.gaussian",
    cases=[MANY, MANY.but(seed=1), MANY.but(digits=200)],
    controls=[MANY.but(digits=6)],
    broken={"exponential": {"_normal": False}},
)
def gaussian(digits, *, first=1000, draws=200, seed=0, _normal=True) -> Verdict:
    """For normal logits beta* over sqrt(2 ln n) tends to the supremum of ln j over
    ln(S_j / S_1).

    Measured: how far the ratio of both is from 1, at most, over all draws, with the
    first ranks only and the same S_j on both sides; 0.02 is allowed, for n is finite.

    Args:
        digits: n = 10^digits tokens, at most 300.
        first: ranks that are drawn, at most a tenth of the tokens.

    Claim: after.gaussian
    Page: notebooks/what_came_after/sharpness
    """
    sizes(1, digits=digits, draws=draws)
    sizes(2, first=first)
    sizes(0, seed=seed)
    require(digits <= 300, f"digits must be at most 300, got {digits}")
    require(
        10 * first <= 10**digits,
        f"first must be at most a tenth of the tokens, got {first} of 10^{digits}",
    )
    g = torch.Generator().manual_seed(seed)
    drawn = torch.rand(draws, first, generator=g, dtype=DOUBLE)
    S = -torch.log1p(-drawn).cumsum(-1)
    log_n = digits * math.log(10)
    logs = S.log() - log_n
    logits = _beyond(logs) if _normal else -logs
    j = torch.arange(2, first + 1, dtype=DOUBLE)
    limit = (j.log() / (S[:, 1:] / S[:, :1]).log()).amax(-1)
    found = critical_beta(logits) / math.sqrt(2 * log_n)
    return at_most((found / limit - 1).abs().max(), 0.02)
