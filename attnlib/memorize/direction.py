"""A direction that tells all tokens apart, and the factors beta that come with a
guarantee.

    |v.(x - y)| >= sqrt(8 / (pi d)) / (|V| + 1)^2 |x - y|   for all x, y of V u {0}

Page: notebooks/one_layer_memorization/contextual_mapping
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib import _require
from attnlib._require import finite, require
from attnlib.memorize.averages import needed_gap

TILE = 1 << 20  # pairs that are compared at once
DRAWS = 64  # before it gives up


@dataclass(frozen=True, eq=False)
class Projection:
    """A direction v (d,), the vectors that were drawn for it, and a certified lower
    bound of min |v.(x - y)| / |x - y| over all pairs of tokens and zero.
    """

    v: Tensor
    draws: int
    min_ratio: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Factor beta of the logits, weight w of the company, and log10 of the gap that
    they guarantee, which may lie far below every float.
    """

    beta: float
    w: float
    log10_gap: float


def threshold(count: int, d: int) -> float:
    """sqrt(8 / (pi d)) / (|V| + 1)^2, the ratio that a random direction of width d
    reaches on all pairs of |V| = count tokens, with probability above 1 - 2/pi.

    Source: Kajitsuka and Sato 2024, from Park et al. 2021 (recalled); the probability
        is proved on the page.
    Claim: ids.projection
    """
    _require.sizes(1, count=count, d=d)
    return math.sqrt(8 / (math.pi * d)) / (count + 1) ** 2


def choose_projection(
    vocabulary: Float[Tensor, "tokens d"],
    *,
    generator: torch.Generator,
    best_of: int = 1,
) -> Projection:
    """A random direction that keeps all tokens apart from each other and from zero,
    verified on all pairs.

    Args:
        vocabulary: distinct tokens, none zero.
        best_of: draw so many and return the one with the largest ratio.

    Returns:
        Projection; in expectation fewer than 2.76 draws when best_of is 1.

    Raises:
        ValueError: also if none of 64 draws, or of best_of if that is more, is one;
            for reals this has probability below 1e-12.

    Cost: O(|V|^2 d) a draw; memory in tiles.
    Source: Kajitsuka and Sato 2024, the vector of Theorem 2, which exists with positive
        probability; here it is drawn and checked, in float64 with the rounding error
        taken off.
    Claim: ids.projection
    """
    points = _points(vocabulary)
    _require.sizes(1, best_of=best_of)
    _require.random(generator)
    count, d = vocabulary.shape
    least = threshold(count, d)
    best, ratio = None, -math.inf
    for draws in range(1, max(DRAWS, best_of) + 1):
        v = torch.randn(
            d, generator=generator, dtype=torch.float64, device=generator.device
        )
        v = (v / v.norm()).to(vocabulary)
        reached = _min_ratio(points, v.double())
        if best is None or reached > ratio:
            best, ratio = v, reached
        if draws >= best_of and ratio >= least:
            return Projection(best, draws, ratio)
    raise ValueError(
        f"no draw of {draws} keeps the tokens of vocabulary {least:.3g} apart, "
        f"but {ratio:.3g}: are they closer than {vocabulary.dtype} can tell?"
    )


def _points(vocabulary: Tensor) -> Tensor:
    """The tokens and zero in float64; refuses what no direction can separate."""
    _require.is_floating("vocabulary", vocabulary)
    got = tuple(vocabulary.shape)
    require(
        len(got) == 2 and 0 not in got,
        f"vocabulary must be (tokens, d) with at least one of each, got {got}",
    )
    finite(vocabulary=vocabulary)
    points = vocabulary.detach().double()
    points = torch.cat([points, points.new_zeros(1, points.shape[1])])
    different = len(torch.unique(points, dim=0))
    require(
        different == len(points),
        "vocabulary must hold distinct tokens and no zero token, got "
        f"{len(vocabulary)} rows of which {different - 1} are such",
    )
    return points


def _min_ratio(points: Tensor, v: Tensor) -> float:
    """A lower bound of min |v.(x - y)| / |x - y|: what rounding may have added is taken
    off.

    Points are scaled by a power of two, so that the largest entry is near one. Then a
    distance whose square underflows belongs to a |v.(x - y)| below slop, and its ratio
    comes out negative: tiny tokens are measured or refused.
    """
    _, exponent = math.frexp(float(points.abs().max()))
    half = exponent // 2
    # In two steps: 2^1074 is no float.
    points = points * 2.0**-half * 2.0 ** (half - exponent)
    count, d = points.shape
    z = points @ v
    eps = torch.finfo(torch.float64).eps
    longest = float(points.norm(dim=1).max() * v.norm())
    slop = 4 * (d + 2) * eps * longest
    rows = max(1, TILE // count)
    least = math.inf
    for a in range(0, count, rows):
        part = points[a : a + rows]
        apart = torch.cdist(part, points, compute_mode="donot_use_mm_for_euclid_dist")
        along_v = (z[a : a + rows, None] - z).abs()
        ratio = (along_v - slop) / apart
        ratio.diagonal(offset=a).fill_(math.inf)
        least = min(least, float(ratio.min()))
    return least * (1 - 1e-12 - d * eps)


def paper_scale(
    count: int, n: int, d: int, *, r_min: float, r_max: float, eps: float
) -> Scale:
    """Factor, weight and gap of the theorem, from sizes and bounds of the norms.

        beta = (|V|+1)^4 pi d (2 ln n + 3) / (8 eps r_min),   w = eps / (4 r_max)
        gap  = 2 (ln n)^2 eps^2 r_min / (r_max^2 (|V|+1)^4 (2 ln n + 3) pi d)
               e^(-2 beta r_max^2)

    Args:
        count: |V|, at least 2.
        n: tokens a sequence, at least 2.
        eps: tokens are at least so far apart.

    Source: Kajitsuka and Sato 2024, Theorem 2, constants as recalled; that they hold is
        proved on the page.
    Claim: ids.recalled
    """
    _require.sizes(2, count=count, n=n)
    _require.sizes(1, d=d)
    _require.numbers(r_min=r_min, r_max=r_max, eps=eps)
    require(
        0 < r_min <= r_max and eps > 0,
        f"0 < r_min <= r_max and eps > 0 are needed, got {r_min}, {r_max} and {eps}",
    )
    need = needed_gap(n)
    try:
        size = (count + 1) ** 4 * math.pi * d
        beta = size * need / (8 * eps * r_min)
        front = 2 * math.log(n) ** 2 * eps**2 * r_min
        front = front / (r_max**2 * size * need)
        log10_gap = math.log10(front) - 2 * beta * r_max**2 / math.log(10)
    except (ArithmeticError, ValueError):  # a product overflows, or vanishes
        log10_gap = math.nan
    require(
        math.isfinite(log10_gap),
        "no float holds the constants of count, d, r_min, r_max and eps: measure "
        "tokens in other units",
    )
    return Scale(beta, eps / (4 * r_max), log10_gap)


def data_scale(
    z: Float[Tensor, " tokens"], n: int, *, multisets: bool = False
) -> Scale:
    """The least factor for which the lemma applies to these projected tokens, and the
    gap that it then gives between companies of one token in two sets of size n.

        beta = (2 ln n + 3) / (g c),   gap = 0.9 (n - 1) g e^(-beta m (s - g))
        g = min |z_a - z_b|,   c = min |z_a|,   s = max z - min z,   m = max |z_a|

    and for multisets

        beta = (3 ln n + 3) / (g c),   gap = 0.9 g e^(-beta m s) / (n - 1)

    Args:
        z: the tokens along v, two or more.
        n: tokens a sequence, at least 2.
        multisets: tokens may repeat.

    Source: the sharp lemma of the page before, with what the data offer.
    Claim: ids.gap, ids.multisets
    """
    _require.is_floating("z", z)
    got = tuple(z.shape)
    require(
        z.dim() == 1 and len(z) >= 2, f"z must be (tokens,), two or more, got {got}"
    )
    finite(z=z)
    _require.sizes(2, n=n)
    _require.is_a(bool, multisets=multisets)
    z = z.detach().double().sort().values
    g = float(z.diff().min())
    c = float(z.abs().min())
    s = float(z[-1] - z[0])
    m = float(z.abs().max())
    require(
        1e-300 < g * c < 1e300,
        "z must hold different numbers, none 0, and 1 / (g c) must be a float: got g = "
        f"{g:.3g}, c = {c:.3g}",
    )
    beta = needed_gap(n, kind="multiset" if multisets else "distinct") / (g * c)
    front, power = 0.9 * g * (n - 1), beta * m * (s - g)
    if multisets:
        front, power = 0.9 * g * (1 / (n - 1)), beta * m * s
    return Scale(beta, 1.0, math.log10(front) - power / math.log(10))
