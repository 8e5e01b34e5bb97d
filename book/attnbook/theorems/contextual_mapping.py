"""The claims of the page `Contextual mapping by a head of rank one`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, pairwise, product
from statistics import geometric_mean

import mpmath
import torch
from torch import Tensor

from attnbook.data import load_result
from attnbook.theorems import Case, claim
from attnlib import certify
from attnlib._require import (
    floating,
    is_a,
    is_floating,
    is_tensor,
    one_of,
    require,
    sizes,
)
from attnlib.attention import forward
from attnlib.certify import Verdict, at_least, at_most
from attnlib.memorize import (
    choose_projection,
    context_ids,
    data_scale,
    paper_scale,
    rank_one_layer,
    smallest_gap,
    threshold,
)
from attnlib.memorize.counts import (
    count_ids,
    fit_counts,
    sum_of_integers,
    telling_tokens,
)

double = torch.float64
ONE = torch.ones(1, dtype=double)
Number = int | float | Fraction
Line = Sequence[Number] | Tensor
# Sets that are compared with intervals, pair by pair; more take minutes.
MOST_SETS = 300
TRIALS, DRAWS = 300, 40  # of directions, and of integers
ROUNDING = 1e-9


def seeded(seed: int) -> torch.Generator:
    """A generator of its own."""
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Gaussian numbers."""
    return torch.randn(*shape, dtype=double, generator=seeded(seed))


def unit(x: Tensor) -> Tensor:
    """Vectors of length one."""
    return torch.nn.functional.normalize(x, dim=-1)


def grid(count: int) -> list[Fraction]:
    """Equispaced places in [1, 2]."""
    return [1 + Fraction(k, count - 1) for k in range(count)]


def floats(z: Sequence[Number]) -> Tensor:
    """Exact numbers as a tensor."""
    return torch.tensor([float(place) for place in z], dtype=double)


NINE = tuple(grid(9))
UNEVEN = (
    Fraction(3, 4),
    Fraction(-1),
    Fraction(2),
    Fraction(1, 2),
    Fraction(-5, 3),
)


def _check_line(z, n, *, least: int = 2, repeats: bool = False) -> list[Fraction]:
    """Different places, none zero, and sizes of sets that can be gone through."""
    z = z.tolist() if hasattr(z, "tolist") else z
    is_a(Sequence, z=z)
    require(len(z) >= 2, f"z must hold two or more places, got {len(z)}")
    try:
        (places,) = certify.exact([list(z)])
    except ValueError as error:
        raise ValueError(f"z must hold finite numbers: {error}") from None
    require(len(set(places)) == len(places), "z must hold different places")
    require(0 not in places, "z must not hold 0: such a token sees only the mean")
    sizes_met = [abs(place) for place in places]
    sizes_met += [b - a for a, b in pairwise(sorted(places))]
    require(
        min(sizes_met) > 1e-60 and max(sizes_met) < 1e60,
        "z must have sizes and distances from 1e-60 to 1e60: measure in other units",
    )
    sizes(least, n=n)
    fits = repeats or n <= len(places)
    require(fits, f"n must be at most the number of places, {len(places)}, got {n}")
    tokens = len(places) + n - 1 if repeats else len(places)
    count = math.comb(tokens, n)
    require(
        count <= MOST_SETS,
        f"n = {n} of {len(places)} places make {count} sets, more than {MOST_SETS}",
    )
    return list(places)


def _check_vocabulary(vocabulary, least: int = 1) -> Tensor:
    """Finite tokens in float64, without their gradient."""
    is_floating("vocabulary", vocabulary)
    got = tuple(vocabulary.shape)
    require(
        len(got) == 2 and got[0] >= least and got[1] >= 1,
        f"vocabulary must be (tokens, d) with at least {least} tokens, got {got}",
    )
    require(
        vocabulary.dtype == double,
        f"vocabulary must be float64, got {vocabulary.dtype}: verdicts are that fine",
    )
    return vocabulary.detach()


def _check_times(times) -> None:
    """A positive multiple of the least factor that a theorem asks for."""
    require(1e-6 <= times <= 1e6, f"times must be from 1e-6 to 1e6, got {times}")


# --- a direction


def tokens_of(kind="gauss", count=30, d=16, seed=0) -> dict:
    """Gaussian tokens, or the corners of a cube but the origin."""
    one_of(["gauss", "cube"], kind=kind)
    if kind == "gauss":
        return {"vocabulary": normal(count, d, seed=seed)}
    corners = list(product((0.0, 1.0), repeat=d))
    return {"vocabulary": torch.tensor(corners[1:], dtype=double)}


def differences(vocabulary: Tensor) -> Tensor:
    """Unit vectors along all x - y of different tokens and zero."""
    vocabulary = vocabulary / vocabulary.abs().max()
    zero = torch.zeros_like(vocabulary[0])
    apart = [x - y for x, y in combinations([*vocabulary, zero], 2)]
    return unit(torch.stack(apart))


def share_that_pass(vocabulary: Tensor, draw="sphere") -> float:
    """The share of drawn directions that keep the tokens apart as (17.3) asks; of
    coordinate axes, if these are drawn.
    """
    g = seeded(0)
    d = vocabulary.shape[1]
    drawn = torch.randn(TRIALS, d, dtype=double, generator=g)
    if draw == "axes":
        drawn = torch.eye(d, dtype=double)[torch.randint(d, (TRIALS,), generator=g)]
    smallest = (unit(drawn) @ differences(vocabulary).T).abs().amin(-1)
    return float((smallest >= level_of(vocabulary)).double().mean())


def level_of(vocabulary: Tensor) -> float:
    """tau of (17.3)."""
    count, d = vocabulary.shape
    return math.sqrt(8 / (math.pi * d)) / (count + 1) ** 2


CUBE = Case(tokens_of, {"kind": "cube", "d": 4})


@claim(
    "ids.projection",
    cases=[
        CUBE,
        CUBE.but(kind="gauss", count=4, d=2),
        CUBE.but(kind="gauss", count=30, d=16),
        CUBE.but(kind="gauss", count=12, d=3),
        CUBE.but(kind="gauss", count=5, d=1),
    ],
    broken={"axes": {"_draw": "axes"}},
)
def projection(vocabulary: Tensor, *, _draw="sphere") -> Verdict:
    """A uniform unit vector keeps all tokens apart from each other and from zero, as
    (17.3) says, with probability above 1 - 2/pi.

    Measured: the share of draws that do, and three standard deviations of such a share;
    0 if threshold is not the level of (17.3), or a direction that choose_projection
    returns does not reach it.

    Claim: ids.projection
    Page: notebooks/one_layer_memorization/contextual_mapping
    """
    vocabulary = _check_vocabulary(vocabulary)
    along = differences(vocabulary)
    level = level_of(vocabulary)
    share = share_that_pass(vocabulary, _draw)
    least = 1 - 2 / math.pi
    if abs(threshold(*vocabulary.shape) / level - 1) > ROUNDING:
        return at_least(0.0, least)
    for seed in range(40):
        chosen = choose_projection(vocabulary, generator=seeded(seed)).v
        if float((along @ chosen).abs().min()) < level * (1 - ROUNDING):
            return at_least(0.0, least)
    return at_least(share + 1.5 / math.sqrt(TRIALS), least)


# --- a gap from the data


def on_a_line(places=None, n=3, d=1, seed=0) -> dict:
    """Tokens with these places along a direction v, and something else across it."""
    z = floats(grid(4) if places is None else places)
    if d == 1:
        return {"vocabulary": z[:, None], "v": ONE, "n": n}
    v = unit(normal(d, seed=seed))
    across = normal(len(z), d, seed=seed + 1)
    across = across - torch.outer(across @ v, v)
    return {"vocabulary": torch.outer(z, v) + across, "v": v, "n": n}


def log10_gap(z: Sequence[Number], n: int, beta, *, repeats: bool = False) -> float:
    """log10 of the smallest certified gap between companies of one token in all sets
    (multisets) of n.
    """
    choose = combinations_with_replacement if repeats else combinations
    sets = list(choose(z, n))
    least = math.inf
    for place in z:
        held = [(place, company) for company in sets if place in company]
        if len(held) > 1:
            found, _, _ = certify.smallest_gap(held, beta=beta)
            least = min(least, found.log10)
    return least


def promised(
    z: Sequence[Fraction], n: int, times=1.0, *, repeats: bool = False
) -> tuple[float, float]:
    """(beta, log10 of the bound) of Theorem 17.3, or of Corollary 17.5, from exact
    numbers; beta is `times` the least one.
    """
    z = sorted(z)
    g = min(b - a for a, b in pairwise(z))
    c = min(abs(place) for place in z)
    m = max(abs(place) for place in z)
    s = z[-1] - z[0]
    if repeats:
        asked = 3 * math.log(n) + 3
        front = 0.9 * float(g) / (n - 1)
        reach = float(m * s)
    else:
        asked = 2 * math.log(n) + 3
        front = 0.9 * float(g) * (n - 1)
        reach = float(m * (s - g))
    beta = times * asked / float(g * c)
    return beta, math.log10(front) - beta * reach / math.log(10)


def scale_is_off(z: Sequence[Fraction], n: int, *, repeats: bool = False) -> float:
    """How far data_scale is from (beta, log10 of the bound), relative and absolute."""
    beta, bound = promised(z, n, repeats=repeats)
    scale = data_scale(floats(z), n, multisets=repeats)
    return max(abs(scale.beta / beta - 1), abs(scale.log10_gap - bound) / abs(bound))


LINE = Case(on_a_line)


@claim(
    "ids.gap",
    cases=[
        LINE,
        LINE.but(places=grid(6)),
        LINE.but(places=UNEVEN),
        LINE.but(places=UNEVEN, n=4, d=3),
        LINE.but(places=(1.0, 1.5, 2.0), n=2, d=3),
        LINE.but(times=1.7),
    ],
    controls=[LINE.but(times=0.001)],
    broken={"w times 100": {"_weight": 100.0}},
)
def gap(vocabulary: Tensor, v: Tensor, n: int, *, times=1.0, _weight=1.0) -> Verdict:
    """Companies of a token in two different sets are as far apart as (17.2) says; ids
    of different tokens g/2, and outputs eps/2, which stay within r + eps/4.

    times is beta over (2 ln n + 3) / (g c), and w the largest allowed: g / (2 s) for
    the ids, eps / (4 r) for the outputs. Measured, over all sets of n tokens, at most
    300: by how much the worst inequality is missed, the gap in decimal digits, by
    certified intervals, the others relative; also how far data_scale and the layer of
    rank one are off.

    Claim: ids.gap
    Page: notebooks/one_layer_memorization/contextual_mapping
    """
    vocabulary = _check_vocabulary(vocabulary, 2)
    is_floating("v", v)
    d = vocabulary.shape[1]
    fits = v.shape == (d,) and v.dtype == double
    require(fits, f"v must be ({d},) in float64, got {tuple(v.shape)} {v.dtype}")
    length = float(v.norm())
    require(abs(length - 1) < ROUNDING, f"v must have length 1, got {length:.6g}")
    _check_times(times)
    z = _check_line(vocabulary @ v, n)
    beta, bound = promised(z, n, times)
    missed = max(bound - log10_gap(z, n, beta), scale_is_off(z, n))
    missed = max(missed, layer_is_off(vocabulary, v))

    r = float(vocabulary.norm(dim=1).max())
    eps = float(torch.pdist(vocabulary).min())
    sets = torch.tensor(list(combinations(range(len(z)), n)))
    layer = rank_one_layer(v, beta, _weight * eps / (4 * r))
    h = forward(vocabulary[sets], [layer], skip=True).flatten(0, 1)
    other = sets.flatten()[:, None] != sets.flatten()
    near = torch.cdist(h, h, compute_mode="donot_use_mm_for_euclid_dist")[other].min()
    missed = max(missed, float(h.norm(dim=1).max() - r - eps / 4) / r)
    missed = max(missed, (eps / 2 - float(near)) / eps)
    return at_most(max(missed, ids_too_close(z, sets, beta, _weight)), ROUNDING)


def layer_is_off(x: Tensor, v: Tensor) -> float:
    """How far the layer of rank one is from x + w f v, for factors of both signs."""
    worst = 0.0
    for beta in (-0.7, 0.3, 20.0):
        f = context_ids(x, v, beta).context
        found = forward(x, [rank_one_layer(v, beta, 0.2)], skip=True)
        wanted = x + 0.2 * f[..., None] * v
        worst = max(worst, certify.relative_error(found, wanted))
    return worst


def ids_too_close(z: list[Fraction], sets: Tensor, beta: float, weight) -> float:
    """By how much ids z + w f of different tokens are closer than g/2, over g."""
    ordered = sorted(z)
    g = float(min(b - a for a, b in pairwise(ordered)))
    w = weight * g / (2 * float(ordered[-1] - ordered[0]))
    ids = context_ids(floats(z)[sets][..., None], ONE, beta)
    t = (ids.token + w * ids.context).flatten()
    other = sets.flatten()[:, None] != sets.flatten()
    near = (t[:, None] - t).abs()[other].min()
    return (g / 2 - float(near)) / g


# --- repeated tokens


def places_on_a_line(places=None, n=3) -> dict:
    """Equispaced places in [1, 2], or the given ones."""
    return {"z": grid(4) if places is None else list(places), "n": n}


REPEATS = Case(places_on_a_line)


@claim(
    "ids.multisets",
    cases=[
        REPEATS,
        REPEATS.but(places=grid(3), n=2),
        REPEATS.but(places=grid(3)),
        REPEATS.but(places=UNEVEN[:3], n=4),
    ],
    controls=[REPEATS.but(times=0.001)],
)
def multisets(z: Line, n: int, *, times=1.0) -> Verdict:
    """If tokens may repeat, companies of a token in two different multisets of n are at
    least 0.9 g e^(-beta m s) / (n - 1) apart.

    z are the places of all tokens, times is beta over (3 ln n + 3) / (g c). Measured,
    over all multisets, at most 300: decimal digits that are missing, by certified
    intervals; also how far data_scale is off.

    Claim: ids.multisets
    Page: notebooks/one_layer_memorization/contextual_mapping
    """
    _check_times(times)
    z = _check_line(z, n, repeats=True)
    beta, bound = promised(z, n, times, repeats=True)
    missed = bound - log10_gap(z, n, beta, repeats=True)
    return at_most(max(missed, scale_is_off(z, n, repeats=True)), ROUNDING)


# --- the scale known in advance


@claim(
    "ids.recalled",
    cases=[
        REPEATS,
        REPEATS.but(n=2),
        REPEATS.but(places=grid(5), n=3),
        REPEATS.but(places=UNEVEN[:4], n=2),
    ],
    broken={"beta times 20": {"_times": 20.0}},
)
def recalled(z: Line, n: int, *, _times=1.0) -> Verdict:
    """With beta, w and delta of (17.6), outputs of a token in different sets are at
    least delta apart, and those of different tokens at least eps/2.

    z are the tokens, in one dimension. Measured, over all sets of n, at most 300:
    decimal digits that are missing to delta, by certified intervals; the share of eps/2
    that is missing, by the largest w f.

    Claim: ids.recalled
    Page: notebooks/one_layer_memorization/contextual_mapping
    """
    z = _check_line(z, n)
    r_min = float(min(abs(place) for place in z))
    r_max = float(max(abs(place) for place in z))
    eps = float(min(b - a for a, b in pairwise(sorted(z))))
    scale = paper_scale(len(z), n, 1, r_min=r_min, r_max=r_max, eps=eps)
    found = log10_gap(z, n, _times * scale.beta) + math.log10(scale.w)
    missed = scale.log10_gap - found
    # Companies lie between the least and the largest place.
    apart = eps - scale.w * float(max(z) - min(z))
    return at_most(max(missed, (eps / 2 - apart) / eps), ROUNDING)


# --- both ends: sharp attention and means


SHARP = Case(places_on_a_line, {"places": NINE, "n": 4}, {"beta": 30.0})


@claim(
    "ids.sharp",
    cases=[
        SHARP,
        SHARP.but(beta=0.3),
        SHARP.but(places=UNEVEN, n=3),
        SHARP.but(places=UNEVEN, n=3, beta=3.0),
    ],
    broken={
        "softmax": {"_normalizer": "softmax"},
        "twice the rate": {"_rate": 2.0},
    },
)
def sharp(
    z: Line, n: int, *, beta: float = 3.0, _normalizer="hardmax", _rate=1.0
) -> Verdict:
    """Hardmax gives at most |V|^2 pairs of a token and its company; with softmax a
    company is within s (n - 1) e^(-beta |z| g) of an end of its set.

    That end is the largest place, or the smallest if the query is negative. z are the
    places of all tokens, beta is of the softmax. Measured, over all sets of n, at most
    300: the larger of the two, each over its bound.

    Claim: ids.sharp
    Page: notebooks/one_layer_memorization/contextual_mapping
    """
    z = _check_line(z, n)
    require(0 < beta < 1e6, f"beta must be positive and below 1e6, got {beta}")
    sets = torch.tensor(list(combinations(range(len(z)), n)))
    x = floats(z)[sets][..., None]
    hard = context_ids(x, ONE, beta, normalizer=_normalizer).context
    pairs = smallest_gap(hard, sets).distinct
    g = float(min(b - a for a, b in pairwise(sorted(z))))
    s = float(max(z) - min(z))
    worst = pairs / len(z) ** 2
    for tokens in combinations(z, n):
        for query in tokens:
            size = abs(float(query))
            room = s * (n - 1) * mpmath.exp(-_rate * beta * size * g)
            worst = max(worst, float(_from_the_end(query, tokens, beta) / room))
    return at_most(worst, 1 + ROUNDING)


def _from_the_end(query: Fraction, tokens: Sequence[Fraction], beta: float):
    """How far the company of a query is from the end it leans to, without
    cancellation.
    """
    end = max(tokens) if query > 0 else min(tokens)
    mass = mpmath.mpf(0)
    moment = mpmath.mpf(0)
    for place in tokens:
        away = abs(float(end - place))
        weight = mpmath.exp(-beta * abs(float(query)) * away)
        mass += weight
        moment += weight * away
    return moment / mass


def bases(independent=(2, 3, 5, 7, 11, 13), equispaced=NINE, n=4) -> dict:
    """Numbers whose logarithms are places, and equispaced places."""
    return {"independent": independent, "equispaced": equispaced, "n": n}


MEANS = Case(bases)


@claim(
    "ids.mean",
    cases=[MEANS, MEANS.but(n=2), MEANS.but(independent=(2, 3, 35, 77), n=5)],
    controls=[
        MEANS.but(independent=(2, 4, 8, 16, 32, 64)),
        MEANS.but(equispaced=tuple(3**k for k in range(9))),
    ],
    without_kernel="a count of means, as products and sums of integers",
)
def mean(independent: Sequence[int], equispaced: Line, n: int) -> Verdict:
    """At beta = 0, multisets of one size have different companies if the places are
    independent over the rationals; if they are equispaced many coincide.

    Equispaced places give at most |V| (n (|V| - n) + 1) pairs of a token and its
    company. The logarithms of the integers in independent are the other places, and
    sums of logarithms are compared as products. Measured, exactly: multisets that are
    lost, and pairs above the bound.

    Claim: ids.mean
    Page: notebooks/one_layer_memorization/contextual_mapping
    """
    is_a(Sequence, independent=independent)
    for number in independent:
        sizes(2, **{"each of independent": number})
    z = _check_line(equispaced, n, least=1)
    count = math.comb(len(independent) + n - 1, n)
    require(count <= 10**5, f"n = {n} of independent makes {count} multisets: too many")
    products = set()
    for company in combinations_with_replacement(independent, n):
        products.add(math.prod(company))
    lost = count - len(products)
    pairs = set()
    for company in combinations(z, n):
        pairs.update((place, sum(company)) for place in company)
    most = len(z) * (n * (len(z) - n) + 1)
    return at_most(max(lost, len(pairs) - most), 0)


# --- who keeps the ids


def random_sets(kind="gauss", wanted=2000, count=64, n=16, seed=0) -> dict:
    """Places of 64 tokens with unit variance, or equispaced, and random sets of 16."""
    one_of(["gauss", "grid"], kind=kind)
    z = torch.linspace(-1.7, 1.7, count, dtype=double)
    if kind == "gauss":
        tokens = normal(count, 16, seed=5)
        chosen = choose_projection(tokens, generator=seeded(0), best_of=20)
        z = tokens @ chosen.v
        z = z / z.std()
    drawn = torch.rand(wanted, count, generator=seeded(seed))
    return {"z": z, "sets": drawn.argsort(dim=1, stable=True)[:, :n]}


KEPT = Case(random_sets, {"kind": "grid"})


@claim(
    "ids.kept",
    cases=[KEPT, KEPT.but(kind="gauss"), KEPT.but(seed=1, n=8)],
    controls=[
        KEPT.but(beta=0.0),
        KEPT.but(beta=300.0),
        KEPT.but(dtype=torch.bfloat16),
    ],
)
def kept(z: Tensor, sets: Tensor, *, beta=0.3, dtype=torch.float64) -> Verdict:
    """float64 at beta = 0.3 loses no id, neither as a pair (place, company) nor as the
    single number z + f.

    z holds the places, of unit variance or from -1.7 to 1.7, sets (N, n) tokens without
    repetition; the head computes in dtype. Measured: ids that are lost; on a grid at
    beta = 0 more than floats show.

    Claim: ids.kept
    Page: notebooks/one_layer_memorization/contextual_mapping
    """
    is_floating("z", z)
    require(
        z.dim() == 1 and len(z) >= 2 and z.dtype == double,
        f"z must be (tokens,) in float64, got {tuple(z.shape)} {z.dtype}",
    )
    z = z.detach()
    floating(dtype)
    require(
        len(z.unique()) == len(z) and bool((z != 0).all()),
        "z must hold different places, none 0",
    )
    _check_sets(sets, len(z))
    sets = torch.unique(sets.sort(-1).values, dim=0)
    repeated = int((sets.diff(dim=1) == 0).any(1).sum())
    require(not repeated, f"sets must not repeat a token, {repeated} of them do")
    ids = context_ids(z[sets][..., None].to(dtype), ONE.to(dtype), beta)
    pairs = smallest_gap(ids.context, sets).distinct
    single = smallest_gap(ids.token + ids.context).distinct
    return at_most(sets.numel() - min(pairs, single), 0)


def _check_sets(sets, count: int) -> None:
    is_tensor("sets", sets)
    require(
        sets.dtype == torch.int64 and sets.dim() == 2 and sets.numel() > 0,
        f"sets must be (N, n) integers, got {tuple(sets.shape)} {sets.dtype}",
    )
    least, most = int(sets.min()), int(sets.max())
    require(
        least >= 0 and most < count,
        f"sets must hold tokens from 0 to {count - 1}, got {least} to {most}",
    )


# --- several heads


def uniform_points(H=2, N=40, trials=400, diagonal=False, seed=0) -> dict:
    """Uniform points of the unit cube; with diagonal, on a line in it."""
    columns = 1 if diagonal else H
    points = torch.rand(trials, N, columns, dtype=double, generator=seeded(seed))
    return {"points": points.expand(trials, N, H)}


POINTS = Case(uniform_points, {}, {"t": 0.004})


@claim(
    "ids.birthday",
    cases=[
        POINTS,
        POINTS.but(H=1, t=0.0002),
        POINTS.but(H=4, t=0.05),
        POINTS.but(N=5, t=0.05),
    ],
    controls=[POINTS.but(diagonal=True)],
    without_kernel="a count of points that meet",
)
def birthday(points: Tensor, t: float) -> Verdict:
    """Of N independent points in H numbers, with densities at most M, two are closer
    than t in the largest coordinate with probability at most N^2/2 M (2 t)^H.

    points are (draws, N, H) in the unit cube, with M = 1. Measured: the share of draws
    in which two are, less three standard deviations.

    Claim: ids.birthday
    Page: notebooks/one_layer_memorization/contextual_mapping
    """
    is_floating("points", points)
    got = tuple(points.shape)
    require(
        len(got) == 3 and got[0] >= 1 and got[1] >= 2 and got[2] >= 1,
        f"points must be (draws, N, H) with N >= 2, got {got}",
    )
    inside = bool((points >= 0).all() and (points <= 1).all())
    require(inside, "points must lie in the unit cube: the density is taken as 1")
    require(t > 0, f"t must be positive, got {t}")
    trials, N, H = got
    share = float(torch.stack([_nearest(draw) < t for draw in points]).double().mean())
    bound = N**2 / 2 * (2 * t) ** H
    return at_most(share - 1.5 / math.sqrt(trials), bound)


def _nearest(points: Tensor) -> Tensor:
    """The least distance of two points, by the largest coordinate."""
    apart = (points[:, None] - points).abs().amax(-1)
    return apart.fill_diagonal_(math.inf).min()


def measured_gaps(H=1) -> dict:
    """Smallest gaps of H heads in the stored run, by the number of sets."""
    sizes(1, H=H)
    several = load_result("context_ids")["result"]["several"]
    return {"gaps": several[f"{H} heads"], "law": H}


ONE_HEAD = Case(measured_gaps)


@claim(
    "ids.heads",
    cases=[ONE_HEAD, ONE_HEAD.but(H=2)],
    controls=[ONE_HEAD.but(law=2), ONE_HEAD.but(law=3)],
    without_kernel="an exponent of a stored run",
)
def heads(gaps: dict[str, Sequence[float]], law: int) -> Verdict:
    """The smallest gap of one head and of two falls like N^(-2/H) in the stored run.

    gaps: the number of sets -> smallest gaps, one a draw; law is H. Measured: how far
    the exponent between the smallest and the largest N is from -2/H, from geometric
    means.

    Claim: ids.heads
    Page: notebooks/one_layer_memorization/contextual_mapping
    """
    sizes(1, law=law)
    return at_most(abs(exponent(gaps) + 2 / law), 0.3 / law)


def exponent(gaps: dict[str, Sequence[float]]) -> float:
    """The power of N that the smallest gap follows."""
    is_a(dict, gaps=gaps)
    try:
        by_count = {int(N): geometric_mean(values) for N, values in gaps.items()}
    except Exception as error:
        raise ValueError(f"gaps must be N -> positive numbers: {error}") from None
    useful = all(0 < gap < math.inf for gap in by_count.values())
    require(useful, "gaps must be N -> positive numbers: one is 0, NaN or infinite")
    require(len(by_count) >= 2, "gaps must hold two numbers of sets or more")
    least, most = min(by_count), max(by_count)
    require(least >= 1, f"gaps must be for N >= 1, got {least}")
    return math.log(by_count[most] / by_count[least]) / math.log(most / least)


# --- positions


def words(count=4, d=8, n=4, seed=0) -> dict:
    """Gaussian tokens, and the least helpful direction for their places: along the
    difference of two of them.
    """
    vocabulary = normal(count, d, seed=seed)
    return {"vocabulary": vocabulary, "u": unit(vocabulary[0] - vocabulary[1]), "n": n}


def encode(vocabulary: Tensor, u: Tensor, n: int, step: float = 1.0):
    """(n, tokens, d), every token at every position; and r_max, eps."""
    r_max = float(vocabulary.norm(dim=1).max())
    eps = float(torch.pdist(vocabulary).min())
    places = torch.arange(1, n + 1, dtype=double) * step * (2 * r_max + eps)
    return vocabulary + places[:, None, None] * u, r_max, eps


def distinct_ids(x: Tensor, beta: float) -> int:
    """Pairs of encoded token and company, rounded to 1e-9, over all sequences."""
    n, count, _ = x.shape
    tokens, number = torch.unique(x.flatten(0, 1), dim=0, return_inverse=True)
    v = choose_projection(tokens, generator=seeded(1), best_of=50).v
    v = v / (tokens @ v).std()
    sequences = torch.tensor(list(product(range(count), repeat=n)))
    f = context_ids(x[torch.arange(n), sequences], v, beta).context
    groups = number[sequences + count * torch.arange(n)]
    return smallest_gap((f * 1e9).round(), groups).distinct


PLACES = Case(words)


@claim(
    "ids.positions",
    cases=[PLACES, PLACES.but(count=3, d=1, n=3), PLACES.but(count=2, d=3, n=5)],
    broken={
        "short steps": {"_step": 0.4},
        "softmax": {"_beta": 0.1},
        "encoded": {"_encoded": True},
    },
)
def positions(
    vocabulary: Tensor, u: Tensor, n: int, *, _step=1.0, _beta=0.0, _encoded=False
) -> Verdict:
    """The layer (17.1) is permutation-equivariant; with j (2 r_max + eps) u added at
    position j, tokens are eps apart and of bounded norms.

    And at beta = 0 a generic vocabulary gives n |V| binom(|V| + n - 2, n - 1) pairs of
    an encoded token and its company. u has length one; at most 4096 sequences are
    counted. Measured: by how much the worst part is missed, relative.

    Claim: ids.positions
    Page: notebooks/one_layer_memorization/contextual_mapping
    """
    vocabulary = _check_vocabulary(vocabulary, 2)
    count, d = vocabulary.shape
    is_floating("u", u)
    fits = u.shape == (d,) and u.dtype == double and abs(float(u.norm()) - 1) < ROUNDING
    require(fits, f"u must be ({d},), float64, of length 1, got {tuple(u.shape)}")
    sizes(1, n=n)
    most = count**n
    require(most <= 4096, f"n = {n} of {count} tokens make {most} sequences: too many")
    x, r_max, eps = encode(vocabulary, u, n, _step)
    require(eps > 0, "vocabulary must hold different tokens")
    tokens = x.flatten(0, 1)
    norms = tokens.norm(dim=1)
    furthest = n * (2 * r_max + eps) + r_max
    missed = (eps - float(torch.pdist(tokens).min())) / eps
    missed = max(missed, (r_max + eps - float(norms.min())) / r_max)
    missed = max(missed, float(norms.max()) / furthest - 1)
    pairs = n * count * math.comb(count + n - 2, n - 1)
    missed = max(missed, abs(distinct_ids(x, _beta) / pairs - 1))
    return at_most(max(missed, _not_equivariant(vocabulary, x, _encoded)), ROUNDING)


def _not_equivariant(vocabulary: Tensor, x: Tensor, encoded: bool) -> float:
    """How far the layer at turned tokens is from its turned output; encoded: they are
    turned before the encoding is added.
    """
    added = x[: len(vocabulary), 0] - vocabulary[0] if encoded else 0
    tokens = vocabulary[: len(x)]
    layer = rank_one_layer(unit(normal(vocabulary.shape[1], seed=9)), 0.3)
    turned = forward(tokens.flip(0) + added, [layer], skip=True)
    plain = forward(tokens + added, [layer], skip=True)
    return certify.relative_error(turned, plain.flip(0))


# --- counts


def sequences_of(kind="singles", N=40, n=4, tokens=50, seed=0) -> dict:
    """Sequences of n integers: {i, 0, ..., 0} for i = 1, ..., N, or random ones."""
    one_of(["singles", "random"], kind=kind)
    if kind == "random":
        drawn = torch.randint(tokens, (N, n), generator=seeded(seed))
        return {"sequences": drawn}
    sequences = torch.zeros(N, n, dtype=torch.int64)
    sequences[:, 0] = torch.arange(1, N + 1)
    return {"sequences": sequences}


def counts_of(sequences: Tensor, tokens: Tensor) -> Tensor:
    """(N, c): how often each of these tokens stands in each sequence."""
    return (sequences[..., None] == tokens).sum(1)


def untold(sequences: Tensor, tokens: Tensor) -> int:
    """Different multisets less different rows of counts."""
    different = len(torch.unique(sequences.sort(-1).values, dim=0))
    return different - len(torch.unique(counts_of(sequences, tokens), dim=0))


SINGLES = Case(sequences_of)


@claim(
    "ids.counts",
    cases=[
        SINGLES,
        SINGLES.but(kind="random", N=300, n=16),
        SINGLES.but(kind="random", N=500, n=3, tokens=1000, seed=1),
        SINGLES.but(kind="random", N=60, n=5, tokens=3),
        SINGLES.but(N=2, n=1),
        SINGLES.but(kind="random", N=3, n=2, tokens=3, seed=3),
    ],
    broken={"M = N": {"_power": 1}, "a token less": {"_left_out": 1}},
)
def counts(sequences: Tensor, *, _power=2, _left_out=0) -> Verdict:
    """N multisets of n tokens are told apart by the counts of at most N - 1 tokens; and
    sums of random integers below N^2 on these do so with probability above 1/2.

    Measured: the largest of three shares: the tokens over N - 1; the draws in which two
    sums agree, less three standard deviations, over 1/2; and the largest sum, also of
    count_ids, over its bound n N^2. A multiset that counts do not tell apart adds 1.

    Claim: ids.counts
    Page: notebooks/one_layer_memorization/contextual_mapping
    """
    tokens = telling_tokens(sequences)
    multisets = torch.unique(sequences.sort(-1).values, dim=0)
    N, n = multisets.shape
    require(N >= 2, "sequences must hold two different multisets or more")
    tokens = tokens[_left_out:]
    worst = len(tokens) / (N - 1) + untold(multisets, tokens)
    if worst > 1:
        return at_most(worst, 1)  # and no integers on these tokens tell either
    drawn = count_ids(multisets, generator=seeded(1))
    worst = max(worst, float(drawn.ids.max()) / (n * N**2))
    g = seeded(0)
    met = 0
    for _ in range(DRAWS):
        integers = torch.randint(N**_power, tokens.shape, generator=g)
        sums = sum_of_integers(multisets, tokens, integers)
        met += len(sums.unique()) < N
        worst = max(worst, float(sums.max()) / (n * N**_power))
    share = met / DRAWS - 1.5 / math.sqrt(DRAWS)
    return at_most(max(worst, 2 * share), 1)


def labelled(N=60, n=6, tokens=1000, classes=10, seed=0) -> dict:
    """Random sequences of integers, and a label for each."""
    g = seeded(seed)
    sequences = torch.randint(tokens, (N, n), generator=g)
    return {
        "sequences": sequences,
        "labels": torch.randint(classes, (N,), generator=g),
    }


ROOT = Case(labelled)


@claim(
    "ids.root",
    cases=[ROOT, ROOT.but(N=7, n=2), ROOT.but(N=200, tokens=12, seed=1)],
    broken={"five are heard": {"_heard": 5}},
)
def root(sequences: Tensor, labels: Tensor, *, _heard=None) -> Verdict:
    """A network on each token, a uniform average and a network behind it give N
    sequences their labels, with the parameters of (17.8).

    Measured: parameters over the bound; each wrong label adds 1.

    Claim: ids.root
    Page: notebooks/one_layer_memorization/contextual_mapping
    """
    net = fit_counts(sequences, labels, generator=seeded(0))
    n = net.n
    wrong = 0
    values = {t: net.token_network(t) for t in sequences.unique().tolist()}
    for row, label in zip(sequences.tolist(), labels.tolist()):
        total = sum(values[token] for token in row[:_heard])
        wrong += net.label_network(total) != label
    N = len(torch.unique(sequences.sort(-1).values, dim=0))
    size = root_bound(N, n, int(sequences.max()) + 1, int(labels.max()).bit_length())
    return at_most(net.parameters / size + wrong, 1)


def root_bound(N: int, n: int, tokens: int, label_bits: int) -> float:
    """The number of parameters (17.8)."""
    integer_bits = math.ceil(2 * math.log2(N))
    id_bits = math.ceil(2 * math.log2(N) + math.log2(n))
    first = 18 * (max(1, tokens.bit_length()) + max(1, integer_bits)) + 40
    second = 18 * (max(1, id_bits) + max(1, label_bits)) + 40
    size = 1.0
    for K in (first, second):
        size += 2 * math.sqrt(6 * N * K) + K + 10
    return size


# --- a gap for random places


def random_places(places="random", count=8, n=4, seeds=60) -> dict:
    """Draws of the places of a vocabulary, uniform in [-1, 1], or the same equispaced
    ones each time.
    """
    one_of(["random", "equispaced"], places=places)
    if places == "equispaced":
        z = torch.linspace(-1, 1, 2 * count, dtype=double)[::2]
        return {"z": z.expand(seeds, count), "n": n}
    drawn = torch.rand(seeds, count, dtype=double, generator=seeded(0))
    return {"z": 2 * drawn - 1, "n": n}


def room_for(delta: float, *, n: int, comparisons: int, sigma: float) -> float:
    """The distance below which at most delta of so many comparisons lie, on average,
    for sets of n and places with density 1/2.
    """
    return delta * (1 - sigma) * math.exp(-sigma) / (n * comparisons)


VOCABULARIES = Case(random_places, {}, {"beta": 1e-6, "delta": 50.0})


@claim(
    "ids.typical",
    cases=[
        VOCABULARIES,
        VOCABULARIES.but(beta=0.125),
        VOCABULARIES.but(beta=-0.25, n=3),
        VOCABULARIES.but(delta=2.0),
    ],
    controls=[VOCABULARIES.but(places="equispaced")],
)
def typical(z: Tensor, n: int, *, beta: float, delta: float = 2.0) -> Verdict:
    """For random places, at most delta comparisons of two companies of one token are
    closer than (17.5), on average.

    z are (draws, tokens), uniform in [-1, 1], so that the density is 1/2 and sigma =
    2 |beta|; all sets of n tokens are compared, at most 300. Measured: the average
    number of comparisons that are, less three standard errors, over delta.

    Claim: ids.typical
    Page: notebooks/one_layer_memorization/contextual_mapping
    """
    is_floating("z", z)
    got = tuple(z.shape)
    require(
        len(got) == 2 and got[0] >= 2 and got[1] >= 3 and z.dtype == double,
        f"z must be (draws, tokens), float64, two draws of three, got {got} {z.dtype}",
    )
    z = z.detach()
    require(float(z.abs().max()) <= 1, "z must lie in [-1, 1]: the density is 1/2")
    require(delta > 0, f"delta must be positive, got {delta}")
    sigma = 2 * abs(beta)
    require(sigma < 1, f"beta must be below 1/2 in size, so that sigma < 1, got {beta}")
    draws, count = got
    _check_line(z[0], n)
    require(n < count, f"n must be below the number of tokens, {count}, got {n}")
    sets = torch.tensor(list(combinations(range(count), n)))
    f = context_ids(z[:, sets][..., None], ONE, beta).context  # (draws, N, n)
    held = math.comb(count - 1, n - 1)
    near = room_for(delta, n=n, comparisons=count * math.comb(held, 2), sigma=sigma)
    met = torch.zeros(draws)
    for token in range(count):
        companies = f[:, sets == token].sort(-1).values
        for apart in range(1, held):
            gaps = companies[:, apart:] - companies[:, :-apart]
            met += (gaps <= near).sum(-1)
    error = 3 * float(met.std()) / math.sqrt(draws)
    return at_most((float(met.mean()) - error) / delta, 1)
