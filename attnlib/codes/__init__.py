"""Spherical codes and moment curves: how large logits must be when keys have few
dimensions.

    T <= min_{j in S_i} q_i . k_j - max_{l not in S_i} q_i . k_l,   |k_j| <= 1
    price(n, d) = the least possible max |q_i| / T, for rows S_i = {i}

Page: notebooks/sparse_patterns/price_of_dimension
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mpmath
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from attnlib._require import (
    finite,
    is_floating,
    matches,
    numbers,
    own_precision,
    require,
    sizes,
)
from attnlib.expressive.dimensions import cap
from attnlib.expressive.verification import _columns

# Logits that are looked at together: larger tiles cost fresh pages each time.
TILE = 1 << 17
GOLDEN = (3 - 5**0.5) / 2  # of a circle


@own_precision
def coherence(keys: Float[Tensor, "n d"]) -> float:
    """The largest inner product of two different rows.

    mu = max_{j != l} k_j . k_l
    """
    _rows("keys", keys, least=2)
    finite(keys=keys)
    keys = keys.detach()
    worst = -math.inf
    parts = keys.split(256)
    for i, some in enumerate(parts):
        for others in parts[i:]:
            products = some @ others.T
            if others is some:
                products.fill_diagonal_(-math.inf)
            worst = max(worst, float(products.max()))
    return worst


def _rows(name: str, rows: Tensor, least: int = 1) -> None:
    """A floating tensor (n, d) with as many rows at least."""
    is_floating(name, rows)
    got = tuple(rows.shape)
    require(
        len(got) == 2 and got[0] >= least and got[1] >= 1,
        f"{name} must be (n, d) with n >= {least} and d >= 1, got {got}",
    )


@own_precision
def margins(
    q: Float[Tensor, "m d"], k: Float[Tensor, "n d"], columns: Int[Tensor, "m k"]
) -> Float[Tensor, " m"]:
    """By how much each row of logits prefers its columns to all others.

        min_{j in S_i} q_i . k_j - max_{l not in S_i} q_i . k_l

    Where this is at least T, no other column has more than e^-T times the weight of one
    of S_i.

    Args:
        columns: S_i in row i, without repetition, not all columns.

    Source: the definition of a gap on the page; only the abstract of Likhosherstov et
        al. 2021 was seen.
    """
    _rows("q", q)
    _rows("k", k)
    n = len(k)
    matches("k", k, (n, q.shape[1]), q, "q")
    finite(q=q, k=k)
    _chosen(columns, n)
    require(
        len(columns) == len(q),
        f"columns must have a row for each of the {len(q)} queries, got {len(columns)}",
    )
    rows = max(1, TILE // n)
    parts = zip(q.split(rows), columns.split(rows))
    found = []
    for some, own in parts:
        logits = some @ k.T
        least = logits.gather(1, own).amin(1)
        others = logits.scatter(1, own, -math.inf)
        found.append(least - others.amax(1))
    return torch.cat(found)


def _chosen(columns: Tensor, n: int) -> None:
    """Each row names some of n columns, not all of them, and none twice."""
    _columns(columns, n, padded=False)
    require(
        columns.shape[1] < n,
        f"columns must leave one of {n} out in each row, got {columns.shape[1]}",
    )


def moment_keys(n: int, k: int = 1) -> Float[Tensor, "n width"]:
    """Unit keys on the trigonometric moment curve, float64, on the CPU; for k = 1 the
    circle.

        k_j = (cos m t_j, sin m t_j)_{m = 1..k} / sqrt(k),   t_j = 2 pi j / n

    Returns:
        (n, 2 k), the cosine and the sine of m side by side.

    Source: the curve is classical (neighbourly polytopes).
    Claim: codes.moment
    """
    sizes(2, n=n)
    sizes(1, k=k)
    j = torch.arange(n, device="cpu")
    m = torch.arange(1, k + 1, device="cpu")
    turns = torch.outer(j, m) % n  # whole turns are taken off exactly, as integers
    angle = turns.double() * (2 * math.pi / n)
    pairs = torch.stack([angle.cos(), angle.sin()], -1)
    return pairs.flatten(1) / math.sqrt(k)


def moment_queries(
    columns: Int[Tensor, "m k"],
    log_weights: Float[Tensor, "m k"] | None = None,
    *,
    n: int,
    gap: float,
) -> Float[Tensor, "m width"]:
    """Queries for moment_keys(n, k) that meet any k columns a row, with any weights, by
    a gap.

        f_i(t) = r_i(t) - C_i prod_{j in S_i} (1 - cos(t - t_j))

    with r_i a trigonometric polynomial of degree at most k / 2 through the log weights,
    and C_i as small as it can be; q_i is sqrt(k) times the coefficients of f_i but the
    constant.

    Args:
        columns: S_i in row i.
        log_weights: of the columns; None for equal ones.
        gap: how far other logits stay below the least of S_i.

    Returns:
        (m, 2 k); the logits on S_i are the log weights plus a number of the row.

    Source: derived on the page.
    Claim: codes.moment
    """
    sizes(2, n=n)
    n = int(n)
    _chosen(columns, n)
    numbers(gap=gap)
    require(gap > 0, f"gap must be positive, got {gap}")
    w = log_weights
    if w is None:
        w = columns.new_zeros(columns.shape, dtype=torch.float64)
    is_floating("log_weights", w)
    require(
        w.shape == columns.shape,
        f"log_weights must have shape {tuple(columns.shape)}, got {tuple(w.shape)}",
    )
    finite(log_weights=w)
    wide = w.dtype in (torch.float32, torch.float64)
    require(wide, f"log_weights must be float32 or float64, got {w.dtype}")
    w = w - w.amin(1, keepdim=True)  # so that a factor of all weights changes nothing
    k = columns.shape[1]
    half = k // 2
    j = torch.arange(n, dtype=w.dtype, device=w.device)
    t = 2 * math.pi * j / n
    degrees = j[: 2 * half + 1] - half
    waves = torch.exp(1j * torch.outer(t, degrees))
    rows = max(1, TILE // (n * k))
    parts = zip(columns.split(rows), w.split(rows))
    found = [_moment_queries(c, own, t, waves, gap) for c, own in parts]
    return torch.cat(found)


def _moment_queries(
    columns: Tensor, w: Tensor, t: Tensor, waves: Tensor, gap: float
) -> Tensor:
    """The queries of some rows, from waves: e^(i m t_j) in row j, |m| <= k / 2.

    A trigonometric polynomial is the row of its coefficients, c_{-m} = conj c_m.
    """
    k = columns.shape[1]
    n, odd = waves.shape
    half = odd // 2
    inverse = torch.linalg.pinv(waves[columns])
    values = w[..., None].to(waves.dtype)
    r = (inverse @ values).squeeze(-1)

    # C_i is the least number with r_i - C_i product <= -gap at every t_l off S_i.
    every = torch.arange(n, device=w.device)
    turns = (every - columns[..., None]) % n
    angles = math.pi / n * turns.to(w.dtype)
    factors = 2 * torch.sin(angles).square()
    products = factors.prod(1).scatter(1, columns, 1.0)
    need = (r @ waves.T).real + gap
    ratios = (need / products).scatter(1, columns, -math.inf)
    c = ratios.amax(1).clamp_min(0)

    # The coefficients of the product: 1 - cos(t - a) is
    # 1 - e^(ia) e^(-it) / 2 - e^(-ia) e^(it) / 2, and e^(it) moves them by one place.
    product = torch.ones_like(r[:, :1])
    for wave in torch.exp(1j * t[columns]).unbind(1):
        down = wave[:, None] / 2
        up = wave.conj()[:, None] / 2
        wide = pad(product, (2, 2))
        product = wide[:, 1:-1] - down * wide[:, 2:]
        product = product - up * wide[:, :-2]
    r = pad(r, (k - half, k - half))
    f = r - c[:, None] * product
    f = f[:, k + 1 :]  # c_1, ..., c_k
    pairs = torch.stack([f.real, -f.imag], -1)
    return math.sqrt(k) * 2 * pairs.flatten(1)


def code_from(q: Float[Tensor, "n d"], k: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """The spherical code hidden in keys and queries: the proof of the exact price, as
    code.

        u_j = q_j / |q_j|,   y_j = k_j + u_j + t_j u_j  with t_j >= 0 and |y_j| = 2

    Args:
        q: query j prefers key j to all others.
        k: norms at most 1.

    Returns:
        (n, d), the y_j / 2: unit vectors with inner products at most 1 - T / s, s the
        largest |q_j|, T the smallest margin.

    Source: derived on the page.
    Claim: codes.law
    """
    _rows("k", k, least=2)
    matches("q", q, tuple(k.shape), k, "k")
    finite(q=q, k=k)
    longest = k.detach().norm(dim=1).max()
    require(longest <= 1 + 1e-6, f"keys must have norm at most 1, got {longest:.4g}")
    own = torch.arange(len(k), device=k.device)
    least = margins(q, k, own[:, None]).detach().min()
    require(least > 0, f"query j must prefer key j: a margin is {least:.3g}")
    u = q / q.norm(dim=1, keepdim=True)
    x = k + u
    # |x + t u| = 2 is a quadratic equation in t, and t the larger of its two roots.
    along = (x * u).sum(1)
    discriminant = along.square() + 4 - x.square().sum(1)
    t = discriminant.clamp_min(0).sqrt() - along
    return (x + t[:, None] * u) / 2


class Price(NamedTuple):
    """Between which numbers the largest query norm lies, in units of T; equal where it
    is known exactly.

    Args:
        low: proved lower bound.
        high: proved upper bound.
    """

    low: float
    high: float


def price(n: int, d: int) -> Price:
    """Bounds of what a permutation of n tokens costs in d dimensions: the largest query
    norm over T, keys in the ball.

        1 / (1 - mu*) = (n - 1) / n               for n = 2, ..., d + 1
                      = 1                         for n = d + 2, ..., 2 d
                      = 1 / (1 - cos(2 pi / n))   for d = 2
                      = inf                       for d = 1 and n > 2

    and else it lies between the larger of 1 and 1 / (1 - cos 2 theta), and
    1 / (1 - cos theta), with sigma_d(theta) = 1 / n, the share of a cap.

    Source: derived on the page.
    Claim: codes.factor-four
    """
    sizes(2, n=n)
    sizes(1, d=d)
    exact = None
    if n <= d + 1:
        exact = (n - 1) / n
    elif n <= 2 * d:
        exact = 1.0
    elif d == 1:
        exact = math.inf
    elif d == 2:
        exact = 0.5 / math.sin(math.pi / n) ** 2
    if exact is not None:
        return Price(exact, exact)
    theta = _radius(1 / n, d)
    # 1 - cos x = 2 sin^2(x / 2)
    low = 0.5 / math.sin(theta) ** 2
    high = 0.5 / math.sin(theta / 2) ** 2
    return Price(max(1.0, low), high)


def _radius(share: float, d: int) -> float:
    """The angle theta < pi / 2 with sigma_d(theta) = share, d >= 3.

    log sigma_d is nearly linear in log sin theta, so that secants meet it soon; it is
    at most log(share) where sin^(d - 1) theta / 2 is the share.
    """

    def excess(log_sine: mpmath.mpf) -> float:
        theta = math.asin(math.exp(log_sine))
        return math.log(cap(theta, d) / share)

    low = math.log(2 * share) / (d - 1)
    root = mpmath.findroot(excess, (low, 0.0), solver="illinois", verify=False)
    return math.asin(math.exp(root))


def counting_dimension(n: int, k: int) -> int:
    """The least d that a count of signs allows if all patterns of n tokens with k ones
    in each row and column are met, where k divides n or is far below it.

        (2 d + 1) ln(8 e n / (2 d + 1)) >= k ln(n / (e k)),   or 2 d + 1 > n

    Source: Warren 1968, recalled; derived on the page.
    Claim: codes.counting
    """
    sizes(1, n=n, k=k)
    require(k <= n, f"k must lie in 1..n = {n}, got {k}")
    patterns = k * (math.log(n) - 1 - math.log(k))
    d = 1
    while 2 * d + 1 <= n:
        m = 2 * d + 1
        sign_patterns = m * (math.log(8 * n) + 1 - math.log(m))
        if sign_patterns >= patterns:
            break
        d += 1
    return d


def spiral_keys(n: int, turn: float = GOLDEN) -> Float[Tensor, "n 3"]:
    """Unit keys in three dimensions, float64: equal steps down, and the same turn from
    each to the next, a share of a circle; on the CPU.

        z_j = 1 - (2 j + 1) / n,   angle 2 pi j turn

    Source: the golden spiral is folklore.
    Claim: codes.spiral
    """
    sizes(1, n=n)
    numbers(turn=turn)
    j = torch.arange(n, dtype=torch.float64, device="cpu")
    z = 1 - (2 * j + 1) / n
    angle = 2 * math.pi * turn * j
    r = (1 - z * z).sqrt()
    x = r * angle.cos()
    y = r * angle.sin()
    return torch.stack([x, y, z], 1)
