"""The claims of notebooks/one_layer_memorization/contextual_mapping: each check, and
its control, on which the same function fails.

Gaps come from attnlib.certify, which shares no code with attnlib.memorize.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from statistics import median

import mpmath
import pytest
import torch

from attnlib import certify
from attnlib.attention import forward
from attnlib.certify import at_most
from attnlib.data import load_result
from attnlib.memorize import (
    choose_projection,
    context_ids,
    data_scale,
    needed_gap,
    paper_scale,
    rank_one_layer,
    separate,
    smallest_gap,
    threshold,
)

EPS = torch.finfo(torch.float64).eps
ONE = torch.ones(1, dtype=torch.float64)


def grid(count):
    return [1 + Fraction(k, count - 1) for k in range(count)]


def floats(z):
    return torch.tensor([float(v) for v in z], dtype=torch.float64)


def rand(*shape, seed=0):
    return torch.randn(
        *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )


def least_gap(z, sets, beta, w=1):
    """log10 of the certified smallest gap between ids of one token in different
    sets.
    """
    groups = [[(c, s) for s in sets if c in s] for c in z]
    return min(
        certify.smallest_gap(g, beta=beta, weight=w)[0].log10
        for g in groups
        if len(g) > 1
    )


# --- the direction


def sphere(vocabulary, g):
    v = torch.randn(vocabulary.shape[1], dtype=torch.float64, generator=g)
    return v / v.norm()


def axis(vocabulary, g):
    return torch.eye(vocabulary.shape[1], dtype=torch.float64)[
        int(torch.randint(vocabulary.shape[1], (1,), generator=g))
    ]


def check_projection(vocabulary, *, draw=sphere, trials=300):
    """The share of draws that fail, against 2/pi K/(K + 1) and three standard
    deviations.
    """
    g, (count, d) = torch.Generator().manual_seed(0), vocabulary.shape
    pairs = [
        a - b
        for a, b in combinations([*vocabulary, torch.zeros(d, dtype=torch.float64)], 2)
    ]
    units = torch.stack(pairs) / torch.stack(pairs).norm(dim=1, keepdim=True)
    failed = (
        sum(
            float((units @ draw(vocabulary, g)).abs().min()) < threshold(count, d)
            for _ in range(trials)
        )
        / trials
    )
    return at_most(failed, 2 / math.pi * count / (count + 1) + 1.5 / math.sqrt(trials))


def check_slab(d, *, power=1.0):
    """The largest P(|v.e| < t) / (t sqrt(2 d^power / pi)) over t, by the incomplete
    beta function; at most 1.
    """

    def chance(t):
        return mpmath.betainc(0.5, (d - 1) / mpmath.mpf(2), 0, t * t, regularized=True)

    return at_most(
        max(
            chance(t) / (t * mpmath.sqrt(2 * mpmath.mpf(d) ** power / mpmath.pi))
            for t in (1e-6, 1e-3, 0.1, 0.5, 0.9)
        ),
        1,
    )


def cube(d):
    return torch.tensor(
        [p for p in product((0.0, 1.0), repeat=d) if any(p)], dtype=torch.float64
    )


@pytest.mark.claim("ids.projection", role="check")
@pytest.mark.parametrize(
    "vocabulary",
    [rand(4, 2), rand(30, 16), rand(64, 3), cube(4), rand(5, 1)],
    ids=["plane", "wide", "many", "cube", "line"],
)
def test_projection(vocabulary):
    assert check_projection(vocabulary).ok


def check_chosen(count=12, d=3, seeds=40):
    """The threshold over the ratio of chosen directions, by brute force over all pairs
    and zero; at most 1.
    """
    worst = 0.0
    for seed in range(seeds):
        points = rand(count, d, seed=seed)
        v = choose_projection(points, generator=torch.Generator().manual_seed(seed)).v
        pairs = combinations([*points, torch.zeros(d, dtype=torch.float64)], 2)
        worst = max(
            worst,
            max(
                float(threshold(count, d) * (x - y).norm() / (v @ (x - y)).abs())
                for x, y in pairs
            ),
        )
    return at_most(worst, 1)


@pytest.mark.claim("ids.projection", role="check")
def test_chosen():
    assert check_chosen().ok


@pytest.mark.claim("ids.projection", role="check")
@pytest.mark.parametrize("d", [2, 3, 4, 16, 768])
def test_slab(d):
    assert check_slab(d).ok


@pytest.mark.claim("ids.projection", role="control")
def test_a_direction_that_is_not_uniform_fails():
    assert check_projection(cube(4), draw=axis).ok is False
    assert check_slab(16, power=0.5).ok is False


@pytest.mark.claim("ids.projection", role="witness")
def test_draws_until_one_passes():
    g = torch.Generator().manual_seed(0)
    draws = [
        choose_projection(rand(64, 16, seed=s), generator=g).draws for s in range(60)
    ]
    assert sum(draws) / 60 < 2.76 and max(draws) > 1


# --- the gap


def guarantee(z, n, *, beta=None, repeats=False):
    """(beta, log10 of the bound) of Theorem 15.4 or Corollary 15.5, from fractions;
    without beta the least one allowed.
    """
    z = sorted(map(Fraction, z))
    g, c, m, s = (
        min(b - a for a, b in zip(z, z[1:])),
        min(map(abs, z)),
        max(map(abs, z)),
        z[-1] - z[0],
    )
    beta = beta or ((3 if repeats else 2) * mpmath.log(n) + 3) / mpmath.mpmathify(g * c)
    front, reach = (
        (Fraction(9, 10) * g / (n - 1), s)
        if repeats
        else (Fraction(9, 10) * g * (n - 1), s - g)
    )
    return float(beta), float(
        mpmath.log10(mpmath.mpmathify(front))
        - beta * mpmath.mpmathify(m * reach) / mpmath.log(10)
    )


def check_gap(z, n, *, beta=None, repeats=False):
    """Certified smallest gap of all n-sets (multisets) against the guarantee; as
    logarithms, bound minus gap at most 0.
    """
    beta, bound = guarantee(z, n, beta=beta, repeats=repeats)
    choose = combinations_with_replacement if repeats else combinations
    return at_most(bound - least_gap(z, list(choose(z, n)), beta), 0)


def check_scale(z, n, *, repeats=False, w=1.0):
    """data_scale against the guarantee: the larger error, of beta relative and of the
    logarithm absolute, at most 1e-9.
    """
    scale, (beta, bound) = (
        data_scale(floats(z), n, multisets=repeats, w=w),
        guarantee(z, n, repeats=repeats),
    )
    return at_most(
        max(abs(scale.beta / beta - 1), abs(scale.log10_gap - bound - math.log10(w))),
        1e-9,
    )


def check_same_token(z=(1.0, 1.5, 2.0), n=2, w=0.05, *, beta=None):
    """Outputs of the layer for one token in two sets, tokens in three dimensions: bound
    minus least distance, log10, at most 0.
    """
    v, across = torch.tensor([[0.6, 0.8, 0.0], [-0.8, 0.6, 0.0]], dtype=torch.float64)
    x, sets = (
        torch.outer(floats(z), v) + torch.outer(floats([c * c for c in z]), across),
        torch.tensor(list(combinations(range(len(z)), n))),
    )
    beta, bound = guarantee(z, n, beta=beta)
    h = forward(x[sets], [rank_one_layer(v, beta, w)], skip=True)
    near = min(float(torch.pdist(h[sets == c]).min()) for c in range(len(z)))
    return at_most(bound + math.log10(w) - math.log10(near), 0)


def check_mapping(x, v, beta, w, *, second=None):
    """The head as an attention layer: h = x + w f v, rank one; largest difference, in
    64 eps of the largest entry.
    """
    layer = rank_one_layer(v, beta, w)
    layer = (
        layer
        if second is None
        else layer._replace(w_v=layer.w_v + second[None, :, None])
    )
    h = forward(x, [layer], skip=True)
    wanted = x + w * context_ids(x, v, beta).context.unsqueeze(-1) * v
    return at_most((h - wanted).abs().max(), 64 * EPS * float(h.abs().max()))


def check_apart(vocabulary, n, *, w=None):
    """Every |h| <= r_max + eps/4, and outputs of different tokens at least eps/2 apart;
    the larger excess, at most 1e-12.
    """
    r_max, eps = (
        float(vocabulary.norm(dim=1).max()),
        float(torch.pdist(vocabulary).min()),
    )
    v = choose_projection(vocabulary, generator=torch.Generator().manual_seed(0)).v
    sets = torch.tensor(list(combinations(range(len(vocabulary)), n)))
    h = forward(
        vocabulary[sets],
        [rank_one_layer(v, 0.3, eps / (4 * r_max) if w is None else w)],
        skip=True,
    ).flatten(0, 1)
    other = sets.flatten()[:, None] != sets.flatten()
    near = torch.cdist(h, h, compute_mode="donot_use_mm_for_euclid_dist")[other].min()
    return at_most(
        max(float(h.norm(dim=1).max()) - r_max - eps / 4, eps / 2 - float(near)), 1e-12
    )


def check_least_beta(z=(0.5, 1.0, 3.0), n=2):
    """The factor of data_scale against (2 ln n + 3) / (g c), here 1/2 each; relative
    error.
    """
    return at_most(
        abs(data_scale(floats(z), n).beta * 0.25 / (2 * math.log(n) + 3) - 1), 8 * EPS
    )


UNEVEN = [Fraction(3, 4), Fraction(-1), Fraction(2), Fraction(1, 2), Fraction(-5, 3)]


@pytest.mark.claim("ids.gap", role="check")
@pytest.mark.parametrize(
    ("z", "n"),
    [(grid(4), 3), (grid(6), 3), (grid(5), 2), (UNEVEN, 3), (UNEVEN, 4)],
    ids=lambda p: p if isinstance(p, int) else f"{len(p)} tokens",
)
def test_gap(z, n):
    assert check_gap(z, n).ok
    assert check_gap(z, n, beta=1.7 * guarantee(z, n)[0]).ok


@pytest.mark.claim("ids.gap", role="check")
def test_scale():
    assert (
        check_least_beta().ok
        and check_scale(grid(4), 3, w=0.01).ok
        and check_scale(UNEVEN, 4).ok
    )


@pytest.mark.claim("ids.gap", role="check")
def test_same_token():
    assert check_same_token().ok and check_same_token((-1.0, 1.0, 2.0)).ok


@pytest.mark.claim("ids.gap", role="check")
@pytest.mark.parametrize("beta", [-0.7, 0.3, 20.0])
def test_mapping(beta):
    v = rand(4, seed=3)
    assert check_mapping(rand(20, 5, 4), v, beta, 0.2).ok
    layer = rank_one_layer(v, beta, 0.2)
    assert all(
        int(torch.linalg.matrix_rank(m)) == 1
        for m in (layer.w_q[0], layer.w_k[0], layer.w_v[0], (layer.w_v @ layer.w_o)[0])
    )


@pytest.mark.claim("ids.gap", role="check")
def test_apart():
    assert check_apart(rand(8, 4), 3).ok and check_apart(rand(6, 2, seed=1), 2).ok


@pytest.mark.claim("ids.gap", role="control")
def test_too_low_a_factor_and_too_heavy_a_head():
    assert (
        check_gap(grid(6), 3, beta=0.01).ok is False
        and check_same_token(beta=0.01).ok is False
    )
    assert (
        check_mapping(
            rand(20, 5, 4), rand(4, seed=3), 0.3, 0.2, second=rand(4, seed=4)
        ).ok
        is False
    )
    assert check_apart(rand(8, 4), 3, w=20.0).ok is False


@pytest.mark.claim("ids.gap", role="witness")
def test_gap_by_hand():
    """Tokens 1, 2, 3, sets of two, e^beta = 2: the query 1 sees 5/3 beside 2 and 13/5
    beside 3.
    """
    x = torch.tensor([[1.0, 2], [1, 3]], dtype=torch.float64)[..., None]
    assert torch.allclose(
        context_ids(x, ONE, math.log(2)).context[:, 0],
        torch.tensor([5 / 3, 13 / 5], dtype=torch.float64),
    )


# --- repeated tokens


@pytest.mark.claim("ids.multisets", role="check")
@pytest.mark.parametrize(
    ("z", "n"),
    [(grid(3), 2), (grid(3), 3), (grid(4), 3), (UNEVEN[:3], 4)],
    ids=lambda p: p if isinstance(p, int) else f"{len(p)} tokens",
)
def test_multisets(z, n):
    assert check_gap(z, n, repeats=True).ok and check_scale(z, n, repeats=True).ok


def check_lengths(first, second):
    """How often two different multisets have the same id, over several beta; never, if
    they have one length.
    """
    same = [
        certify.context_gap(
            (first[0], first), (first[0], second), beta=Fraction(b, 10)
        ).sign
        == 0
        for b in (1, 10, 35)
    ]
    return at_most(sum(same), 0)


@pytest.mark.claim("ids.multisets", role="check")
def test_one_length():
    assert check_lengths([1, 2, 2], [1, 1, 2]).ok


@pytest.mark.claim("ids.multisets", role="control")
def test_two_lengths_collide():
    assert check_lengths([1, 2], [1, 1, 2, 2]).ok is False
    assert check_gap(grid(4), 3, beta=0.01, repeats=True).ok is False


@pytest.mark.claim("ids.multisets", role="witness")
def test_separate_takes_repeated_tokens():
    x = torch.tensor(
        list(combinations_with_replacement([1.0, 2.0, 4.0], 3)), dtype=torch.float64
    )[..., None]
    assert separate(x, ONE, 0.4).distinct == sum(
        len(set(s)) for s in combinations_with_replacement(range(3), 3)
    )


# --- the recalled constants


def check_recalled(count, n, *, slope=1.0):
    """Tokens equispaced in [1, 2]: the recalled delta against the certified gap; slope
    multiplies beta alone.
    """
    scale = paper_scale(count, n, 1, r_min=1.0, r_max=2.0, eps=1 / (count - 1))
    z = grid(count)
    return at_most(
        scale.log10_gap
        - least_gap(z, list(combinations(z, n)), slope * scale.beta, scale.w),
        0,
    )


@pytest.mark.claim("ids.recalled", role="check")
@pytest.mark.parametrize(("count", "n"), [(4, 2), (4, 3), (5, 3), (6, 3)])
def test_recalled(count, n):
    assert check_recalled(count, n).ok


@pytest.mark.claim("ids.recalled", role="check")
@pytest.mark.parametrize(
    ("count", "n", "theory", "gap"),
    [(4, 3, -13300.75, -2217.48), (6, 4, -94557.24, -18911.94)],
)
def test_table_of_the_recalled_scale(count, n, theory, gap):
    scale, z = (
        paper_scale(count, n, 1, r_min=1.0, r_max=2.0, eps=1 / (count - 1)),
        grid(count),
    )
    assert abs(scale.log10_gap - theory) < 0.05
    assert abs(least_gap(z, list(combinations(z, n)), scale.beta, scale.w) - gap) < 0.05


@pytest.mark.claim("ids.recalled", role="control")
def test_another_factor_breaks_the_recalled_delta():
    assert check_recalled(4, 3, slope=20.0).ok is False


@pytest.mark.claim("ids.recalled", role="witness")
def test_sizes_of_real_models():
    assert paper_scale(
        32, 16, 16, r_min=1.0, r_max=2.0, eps=1 / 31
    ).log10_gap == pytest.approx(-6.9e9, rel=0.02)
    assert paper_scale(
        30522, 128, 768, r_min=1.0, r_max=2.0, eps=1 / 30521
    ).log10_gap == pytest.approx(-3.5e26, rel=0.02)


# --- mean pooling


def pairs_of_means(z, n):
    """How many pairs (token, sum of its set) there are over all n-sets, exactly."""
    return len({(c, sum(s)) for s in combinations(z, n) for c in s})


def check_mean(z, n, add=sum):
    """How many of all multisets of n tokens have no sum of their own; none for tokens
    independent over the rationals.
    """
    return at_most(
        math.comb(len(z) + n - 1, n)
        - len({add(s) for s in combinations_with_replacement(z, n)}),
        0,
    )


def check_grid(z, n):
    """How many pairs (token, mean) all n-sets give, against K (n (K - n) + 1)."""
    count = len(z)
    return at_most(pairs_of_means(z, n), count * (n * (count - n) + 1))


# Different sets have different sums; not so multisets: 1 + 1 + 1 + 9 = 4 * 3.
POWERS = [Fraction(3) ** k for k in range(9)]
# Tokens ln p, independent: sums are compared exactly, as products.
PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23]


@pytest.mark.claim("ids.mean", role="check")
@pytest.mark.parametrize("n", [2, 3, 5])
def test_mean(n):
    assert (
        check_mean(PRIMES, n, math.prod).ok
        and check_mean([(n + 1) ** k for k in range(7)], n).ok
        and check_grid(grid(9), n).ok
    )


@pytest.mark.claim("ids.mean", role="control")
def test_grids_break_mean_pooling():
    assert check_mean(grid(9), 3).ok is False and check_mean(POWERS, 4).ok is False
    assert check_grid(POWERS, 4).ok is False


@pytest.mark.claim("ids.mean", role="witness")
def test_two_sets_with_one_mean():
    one, two = (1, [1, 2, 5]), (1, [1, 3, 4])
    assert (
        certify.context_gap(one, two, beta=0).sign
        == 0
        != certify.context_gap(one, two, beta=Fraction(1, 10)).sign
    )


@pytest.mark.claim("ids.mean", role="witness")
def test_softmax_tells_a_grid_apart():
    x = torch.tensor(
        list(
            combinations(torch.linspace(-1.7, 1.7, 12, dtype=torch.float64).tolist(), 4)
        ),
        dtype=torch.float64,
    )[..., None]
    assert separate(x, ONE, 0.3).distinct == x.numel()


# --- who keeps the ids


def some_sets(wanted, count=64, n=16, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.unique(
        torch.rand(wanted, count, generator=g).argsort(1)[:, :n].sort(1).values, dim=0
    )


def check_kept(kind, *, beta=0.3, dtype=torch.float64, wanted=10_000):
    """How many ids of random sets are lost, as pairs or as single numbers z + f;
    none.
    """
    z = torch.linspace(-1.7, 1.7, 64, dtype=torch.float64)
    if kind == "gauss":
        tokens = rand(64, 16, seed=5)
        z = (
            tokens
            @ choose_projection(
                tokens, generator=torch.Generator().manual_seed(0), best_of=50
            ).v
        )
        z = z / z.std()
    sets = some_sets(wanted)
    ids = context_ids(z[sets][..., None].to(dtype), ONE.to(dtype), beta)
    found = (
        smallest_gap(ids.context, sets).distinct,
        smallest_gap(ids.token + ids.context).distinct,
    )
    return at_most(sets.numel() - min(found), 0)


@pytest.mark.claim("ids.kept", role="check")
@pytest.mark.parametrize("kind", ["gauss", "grid"])
def test_kept(kind):
    assert check_kept(kind).ok


@pytest.mark.claim("ids.kept", role="check")
def test_kept_in_the_stored_run():
    rows = load_result("context_ids")["result"]["lost"]
    softmax = [t for t in rows if (t["beta"], t["dtype"]) == (0.3, "float64")]
    assert len(softmax) == 18 and all(
        t["lost"] == t["lost_single"] == 0 for t in softmax
    )
    assert all(
        0.98 < t["lost"] / 1.6e6 < 0.985
        for t in rows
        if t["dtype"] == "exact" and t["N"] == 100_000
    )


@pytest.mark.claim("ids.kept", role="control")
def test_means_on_a_grid_and_half_precision_lose():
    assert (
        check_kept("grid", beta=0.0).ok is False
        and check_kept("gauss", dtype=torch.bfloat16).ok is False
    )


@pytest.mark.claim("ids.kept", role="witness")
def test_float_counts_flatter_means():
    """On a grid more floats than means: the kept ones in float64 exceed the exact
    number.
    """
    sets = some_sets(10_000)
    z = torch.linspace(-1.7, 1.7, 64, dtype=torch.float64)
    floats_kept = smallest_gap(
        context_ids(z[sets][..., None], ONE, 0.0).context, sets
    ).distinct
    assert (
        len({(c, sum(row)) for row in sets.tolist() for c in row})
        < floats_kept
        < 100_000
    )


# --- sharp attention


def check_sharp(z, n, normalizer="hardmax"):
    """How many pairs (token, id) all n-sets give, against K^2."""
    sets = torch.tensor(list(combinations(range(len(z)), n)))
    ids = context_ids(floats(z)[sets].unsqueeze(-1), ONE, 1.0, normalizer=normalizer)
    return at_most(smallest_gap(ids.context, sets).distinct, len(z) ** 2)


def check_saturation(z, n, beta, *, size=None):
    """How far an id is from the largest (smallest) token of its set, over s (n - 1)
    e^(-beta |z_c| g); at most 1.
    """
    worst = 0
    gap, s = min(b - a for a, b in zip(sorted(z), sorted(z)[1:])), max(z) - min(z)
    for tokens in combinations(z, n):
        for c in tokens:
            top = max(tokens) if c > 0 else min(tokens)
            f = mpmath.fsum(
                x * mpmath.exp(beta * (c * x - c * top))
                for x in map(mpmath.mpmathify, map(float, tokens))
            )
            f /= mpmath.fsum(mpmath.exp(beta * float(c * x - c * top)) for x in tokens)
            fall = mpmath.exp(-beta * (size or abs(float(c))) * float(gap))
            worst = max(worst, abs(f - float(top)) / (float(s) * (n - 1) * fall))
    return at_most(worst, 1)


@pytest.mark.claim("ids.sharp", role="check")
def test_sharp():
    assert check_sharp(grid(9), 4).ok and check_sharp(UNEVEN, 3).ok
    assert all(
        check_saturation(z, 3, b).ok
        for z in (grid(6), UNEVEN)
        for b in (0.3, 3.0, 30.0)
    )


@pytest.mark.claim("ids.sharp", role="control")
def test_softmax_is_not_sharp():
    assert check_sharp(grid(9), 4, "softmax").ok is False
    assert check_saturation(grid(6), 3, 3.0, size=10.0).ok is False


@pytest.mark.claim("ids.sharp", role="witness")
def test_sharp_ids_of_two_sets_agree():
    x = torch.tensor([[1.0, 2, 5], [1, 3, 5]], dtype=torch.float64)[..., None]
    assert context_ids(x, ONE, 1.0, normalizer="hardmax").context[:, 0].tolist() == [
        5.0,
        5.0,
    ]


# --- several heads


def check_birthday(numbers, *, n=40, t=0.004, trials=400, diagonal=False):
    """The share of draws of n uniform points of which two are closer than t, against
    n^2/2 (2 t)^H and three deviations.
    """
    g = torch.Generator().manual_seed(numbers)
    points = torch.rand(
        trials, n, 1 if diagonal else numbers, dtype=torch.float64, generator=g
    ).expand(trials, n, numbers)
    far = (points[:, :, None] - points[:, None]).abs().amax(-1) + torch.eye(
        n, dtype=torch.float64
    )
    share = float((far.amin((1, 2)) < t).double().mean())
    return at_most(
        share, math.comb(n, 2) * (2 * t) ** numbers + 1.5 / math.sqrt(trials)
    )


def check_spacings(n, t):
    """One number: the exact chance 1 - (1 - (n - 1) t)^n minus n (n - 1) t, in
    fractions; at most 0.
    """
    return at_most(
        float(1 - (1 - (n - 1) * Fraction(t)) ** n - n * (n - 1) * Fraction(t)), 0
    )


def slope(gaps):
    """Mean over the draws of the exponent of N between N = 300 and 30,000, from sorted
    lists of gaps.
    """

    def mean(values):
        return sum(map(math.log10, values)) / len(values)

    return (mean(gaps["30000"]) - mean(gaps["300"])) / 2


def check_slope(numbers, *, law=None):
    """The measured exponent against -2/H; off by at most 0.3/H."""
    several = load_result("context_ids")["result"]["several"]
    measured = slope(several[f"{numbers} heads"])
    return at_most(abs(measured + 2 / (law or numbers)), 0.3 / numbers)


@pytest.mark.claim("ids.birthday", role="check")
def test_birthday():
    assert (
        check_birthday(1, t=0.0002).ok
        and check_birthday(2).ok
        and check_birthday(4, t=0.05).ok
    )
    assert check_spacings(20, Fraction(1, 2000)).ok


@pytest.mark.claim("ids.birthday", role="control")
def test_points_on_a_line_meet_sooner():
    assert check_birthday(2, diagonal=True).ok is False


@pytest.mark.claim("ids.birthday", role="witness")
def test_birthday_by_hand():
    assert 1 - (1 - Fraction(1, 10)) ** 2 == Fraction(19, 100) < Fraction(2, 10)


@pytest.mark.claim("ids.heads", role="check")
@pytest.mark.parametrize("numbers", [1, 2, 4])
def test_slopes(numbers):
    assert check_slope(numbers).ok


@pytest.mark.claim("ids.heads", role="control")
def test_one_head_is_not_two():
    for numbers, law in ((1, 2), (2, 1), (2, 3), (4, 3), (4, 6), (4, 8)):
        assert check_slope(numbers, law=law).ok is False


@pytest.mark.claim("ids.heads", role="witness")
@pytest.mark.parametrize("how", ["2 layers", "2 heads", "rank 2"])
def test_a_second_number_widens_the_gap(how):
    several = load_result("context_ids")["result"]["several"]
    assert median(several[how]["3000"]) > 100 * median(several["1 heads"]["3000"])


# --- positions


def encoded(vocabulary, n, *, step=None):
    """(n, K, d): every token at every place, with steps of 2 r_max + eps along a
    direction.
    """
    r_max, eps = (
        float(vocabulary.norm(dim=1).max()),
        float(torch.pdist(vocabulary).min()),
    )
    u = torch.nn.functional.normalize(
        vocabulary[0] - vocabulary[1], dim=0
    )  # the least helpful one
    places = torch.arange(1, n + 1, dtype=torch.float64) * (
        2 * r_max + eps if step is None else step
    )
    return vocabulary + places[:, None, None] * u


def check_positions(vocabulary, n, *, step=None):
    """Encoded tokens: at least eps apart, at least r_max + eps from zero, at most n (2
    r_max + eps) + r_max; excess below 1e-9.
    """
    r_max, eps = (
        float(vocabulary.norm(dim=1).max()),
        float(torch.pdist(vocabulary).min()),
    )
    x = encoded(vocabulary, n, step=step).flatten(0, 1)
    norms = x.norm(dim=1)
    return at_most(
        max(
            eps - float(torch.pdist(x).min()),
            r_max + eps - float(norms.min()),
            float(norms.max()) - n * (2 * r_max + eps) - r_max,
        ),
        1e-9,
    )


def position_ids(n=4, count=4, beta=0.1, *, encode=True):
    """(ids kept, rounded to 1e-12) over all count^n sequences of random tokens."""
    vocabulary = rand(count, 8)
    sequences = torch.tensor(list(product(range(count), repeat=n)))
    x = encoded(vocabulary, n) if encode else vocabulary.expand(n, count, 8)
    g = torch.Generator().manual_seed(1)
    v = choose_projection(
        x.flatten(0, 1) if encode else vocabulary, generator=g, best_of=50
    ).v
    v = v / (x.flatten(0, 1) @ v).std()
    ids = context_ids(x[torch.arange(n), sequences], v, beta).context
    groups = sequences + count * torch.arange(n)
    return smallest_gap((ids * 1e12).round(), groups).distinct


def check_sequences(beta=0.1, *, encode=True):
    """How many of the 1024 (place, token, sequence) have no id of their own."""
    return at_most(1024 - position_ids(beta=beta, encode=encode), 0)


def check_equivariance(*, encode=False):
    """Permuted input against permuted output, in 64 eps."""
    vocabulary, order = rand(6, 4), torch.tensor([3, 1, 0, 2])
    add = encoded(vocabulary, 4)[:, 0] - vocabulary[0] if encode else 0
    layer = [rank_one_layer(rand(4, seed=9), 0.3)]
    x = vocabulary[:4]
    y, z = (
        forward(x + add, layer, skip=True)[order],
        forward(x[order] + add, layer, skip=True),
    )
    return at_most((y - z).abs().max(), 64 * EPS * float(y.abs().max()))


@pytest.mark.claim("ids.positions", role="check")
def test_positions():
    assert check_positions(rand(6, 3), 5).ok and check_positions(rand(4, 1), 7).ok
    assert (
        check_sequences(0.1).ok and check_sequences(0.3).ok and check_equivariance().ok
    )


@pytest.mark.claim("ids.positions", role="control")
def test_shorter_steps_no_steps_and_mean_pooling():
    vocabulary = rand(6, 3)
    assert (
        check_positions(
            vocabulary, 5, step=float((vocabulary[0] - vocabulary[1]).norm())
        ).ok
        is False
    )
    assert (
        check_sequences(encode=False).ok is False
        and check_equivariance(encode=True).ok is False
    )


@pytest.mark.claim("ids.positions", role="witness")
def test_mean_pooling_sees_what_counting_says():
    assert position_ids(beta=0.0) == 16 * math.comb(6, 3) == 320
    assert position_ids(beta=0.1) == 1024


def test_needed_gap_is_the_one_of_the_page():
    assert (
        needed_gap(4) == 2 * math.log(4) + 3
        and needed_gap(4, kind="multiset") == 3 * math.log(4) + 3
    )
