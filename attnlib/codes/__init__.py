"""Spherical codes and moment curves: how large logits must be when keys have few
dimensions.

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
    floating,
    is_tensor,
    matches,
    numbers,
    own_precision,
    place,
    require,
    sizes,
)
from attnlib.expressive.dimensions import cap

# Logits that are looked at together: larger tiles cost fresh pages each time.
TILE = 1 << 17


@own_precision
def coherence(keys: Float[Tensor, "n d"], *, tile: int = 2048) -> float:
    """The largest inner product of two different rows.

        mu = max_{j != l} k_j . k_l

    Args:
        keys: (n, d), n >= 2; small integers in floats are exact.
        tile: rows at a time.

    Returns:
        a float.

    Raises:
        ValueError: for fewer than two rows, entries that are not floating, NaN or
            infinity, and for tile < 1.

    Cost: O(n^2 d) time, O(tile^2) memory.
    Source: the definition of a spherical code, if the rows are unit vectors.
    """
    _rows("keys", keys, least=2)
    finite(keys=keys)
    sizes(1, tile=tile)
    keys = keys.detach()
    worst = -math.inf
    for i in range(0, len(keys), tile):
        some = keys[i : i + tile]
        for j in range(i, len(keys), tile):
            others = keys[j : j + tile]
            products = some @ others.T
            if i == j:
                products.fill_diagonal_(-math.inf)
            worst = max(worst, float(products.max()))
    return worst


def _rows(name: str, rows: Tensor, least: int = 1) -> None:
    """A floating tensor (n, d) with as many rows at least."""
    is_tensor(name, rows)
    got = tuple(rows.shape)
    require(rows.is_floating_point(), f"{name} must be floating, got {rows.dtype}")
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

    Args:
        q: queries.
        k: keys.
        columns: (m, k), S_i in row i, without repetition.

    Returns:
        (m,); where this is at least T, no other column has more than e^-T times the
        weight of one of S_i.

    Raises:
        ValueError: if a column repeats, is not one of 0..n-1, or there is no other
            column, and for tensors that do not fit or hold NaN or infinity.

    Cost: O(m n d) time, O(m) memory and a tile of logits.
    Source: the definition of a gap on the page; only the abstract of Likhosherstov et
        al. 2021 was seen.
    """
    _rows("q", q)
    _rows("k", k)
    matches("k", k, (len(k), q.shape[1]), q, "q")
    finite(q=q, k=k)
    _columns(columns, len(k))
    require(
        len(columns) == len(q),
        f"columns must have a row for each of the {len(q)} queries, got {len(columns)}",
    )
    return _tiled_margins(q, k, columns)


def _tiled_margins(q: Tensor, k: Tensor, columns: Tensor) -> Tensor:
    """The margins, so few rows at a time that memory stays small."""
    rows = max(1, TILE // len(k))
    found = []
    for some, own in zip(q.split(rows), columns.split(rows)):
        found.append(_margins(some, k, own))
    return torch.cat(found)


def _margins(q: Tensor, k: Tensor, columns: Tensor) -> Tensor:
    """The margins of a few rows; their logits are freed before the next rows come."""
    logits = q @ k.T
    least = logits.gather(1, columns).amin(1)
    others = logits.scatter(1, columns, -math.inf)
    return least - others.amax(1)


def _columns(columns: Tensor, n: int) -> None:
    """Each row names some of n columns, not all of them, and none twice."""
    is_tensor("columns", columns)
    finite(columns=columns)
    got = tuple(columns.shape)
    require(
        columns.dtype == torch.int64 and len(got) == 2 and 0 not in got,
        f"columns must be an int64 tensor (m, k), got {columns.dtype} {got}",
    )
    inside = (columns >= 0) & (columns < n)
    require(
        bool(inside.all()),
        f"columns must be numbers from 0 to {n - 1}, "
        f"got {columns.min()} to {columns.max()}",
    )
    require(
        columns.shape[1] < n,
        f"a row needs a column that is not its own: {columns.shape[1]} of {n} are",
    )
    steps = columns.sort(1).values.diff(dim=1)
    require(bool((steps > 0).all()), "columns must not repeat within a row")


def moment_keys(
    n: int, k: int = 1, *, dtype=torch.float64, device=None
) -> Float[Tensor, "n width"]:
    """Unit keys on the trigonometric moment curve; for k = 1 the circle.

        k_j = (cos m t_j, sin m t_j)_{m = 1..k} / sqrt(k),   t_j = 2 pi j / n

    Args:
        n: keys.
        k: harmonics.
        dtype, device: of the result.

    Returns:
        (n, 2 k), the cosine and the sine of m side by side.

    Raises:
        ValueError: for n < 2 or k < 1, a dtype that is not floating, and a device that
            is not there.

    Cost: O(n k).
    Source: the curve is classical (neighbourly polytopes).
    Claim: codes.moment
    """
    sizes(2, n=n)
    sizes(1, k=k)
    floating(dtype)
    place(device)
    j = torch.arange(n, device=device)
    m = torch.arange(1, k + 1, device=device)
    turns = torch.outer(j, m) % n  # whole turns are taken off exactly, as integers
    angle = turns.to(dtype) * (2 * math.pi / n)
    pairs = torch.stack([angle.cos(), angle.sin()], -1)
    return pairs.flatten(1) / math.sqrt(k)


def moment_queries(
    columns: Int[Tensor, "m k"],
    log_weights: Float[Tensor, "m k"] | None = None,
    *,
    n: int,
    gap: float | int,
) -> Float[Tensor, "m width"]:
    """Queries for moment_keys(n, k) that meet any k columns a row, with any weights, by
    a gap.

        f_i(t) = r_i(t) - C_i prod_{j in S_i} (1 - cos(t - t_j))

    with r_i a trigonometric polynomial of degree at most k / 2 through the log weights,
    and C_i as small as it can be; q_i is sqrt(k) times the coefficients of f_i but the
    constant.

    Args:
        columns: (m, k), S_i in row i.
        log_weights: (m, k), logarithms of weights; None for equal ones.
        n: number of keys.
        gap: T > 0, how far other logits stay below the least of S_i.

    Returns:
        (m, 2 k); the logits on S_i are the log weights plus a number of the row.

    Raises:
        ValueError: if a column repeats or is out of range, for gap <= 0, and for
            log_weights of another shape or with NaN or infinity.

    Cost: O(m n k) time, O((m + n) k) memory and a tile.
    Source: derived on the page.
    Claim: codes.moment
    """
    sizes(2, n=n)
    n = int(n)
    _columns(columns, n)
    numbers(gap=gap)
    require(gap > 0, f"gap must be positive, got {gap}")
    w = log_weights
    if w is None:
        w = columns.new_zeros(columns.shape, dtype=torch.float64)
    _rows("log_weights", w)
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
    degrees = range(-half, half + 1)
    waves = torch.stack([torch.exp(1j * m * t) for m in degrees], -1)
    rows = max(1, TILE // (n * k))
    found = []
    for own, weights in zip(columns.split(rows), w.split(rows)):
        found.append(_moment_queries(own, weights, t, waves, gap))
    return torch.cat(found)


def _moment_queries(
    columns: Tensor, w: Tensor, t: Tensor, waves: Tensor, gap: float | int
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

    The code is y_j / 2.

    Args:
        q: (n, d), query j prefers key j to all others.
        k: (n, d), norms at most 1.

    Returns:
        (n, d), unit vectors with inner products at most 1 - T / s, s the largest |q_j|,
        T the smallest margin.

    Raises:
        ValueError: for a key longer than 1 (by more than rounding), a query that does
            not prefer its key, q and k of different shapes, NaN and infinity.

    Cost: O(n^2 d) time, O(n d) memory and a tile.
    Source: derived on the page.
    Claim: codes.law
    """
    _rows("k", k, least=2)
    matches("q", q, tuple(k.shape), k, "k")
    finite(q=q, k=k)
    longest = float(k.detach().norm(dim=1).max())
    require(longest <= 1 + 1e-6, f"keys must have norm at most 1, got {longest:.4g}")
    own = torch.arange(len(k), device=k.device)[:, None]
    least = float(_tiled_margins(q.detach(), k.detach(), own).min())
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

    and else it lies between the larger of 1 and 1 / (1 - cos 2 theta), and
    1 / (1 - cos theta), with sigma_d(theta) = 1 / n.

    Args:
        n: tokens, at least 2.
        d: dimension of keys and queries.

    Returns:
        Price(low, high); high is infinite for d = 1 and n > 2.

    Raises:
        ValueError: for n < 2 or d < 1.

    Cost: some ten values of cap.
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
    """The least d that a count of signs allows if all patterns with k ones in each row
    and column are met.

        (2 d + 1) ln(8 e n / (2 d + 1)) >= k ln(n / (e k)),   or 2 d + 1 > n

    Args:
        n: tokens, k divides n or is far below it.
        k: entries of each row and column.

    Returns:
        d, at least 1.

    Raises:
        ValueError: unless 1 <= k <= n, integers.

    Cost: O(k).
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


def spiral_keys(
    n: int, turn: float = (3 - 5**0.5) / 2, *, dtype=torch.float64, device=None
) -> Float[Tensor, "n 3"]:
    """Unit keys in three dimensions: equal steps down, and the same turn from each to
    the next.

        z_j = 1 - (2 j + 1) / n,   angle 2 pi j turn

    Args:
        n: keys.
        turn: share of a circle, golden unless given.
        dtype, device: of the result.

    Returns:
        (n, 3).

    Raises:
        ValueError: for n < 1, a turn that is not finite, a dtype that is not
            floating, and a device that is not there.

    Cost: O(n).
    Source: the golden spiral is folklore.
    Claim: codes.spiral
    """
    sizes(1, n=n)
    numbers(turn=turn)
    floating(dtype)
    place(device)
    j = torch.arange(n, dtype=dtype, device=device)
    z = 1 - (2 * j + 1) / n
    angle = 2 * math.pi * turn * j
    r = (1 - z * z).sqrt()
    x = r * angle.cos()
    y = r * angle.sin()
    return torch.stack([x, y, z], 1)
