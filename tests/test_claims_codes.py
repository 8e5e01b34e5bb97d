"""The claims of notebooks/sparse_patterns/price_of_dimension: each check, and its
control, on which the same function fails.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import (
    combinations,
    combinations_with_replacement,
    count,
    permutations,
    product,
)

import flint
import pytest
import torch
from torch.nn.functional import normalize

from attnlib.certify import at_most
from attnlib.codes import (
    code_from,
    coherence,
    counting_dimension,
    margins,
    moment_keys,
    moment_queries,
    price,
    spiral_keys,
)
from attnlib.codes.exact import e8, golay, leech, line_order, radon
from attnlib.expressive import Exhausted, fit, interpolate, redraw
from attnlib.expressive.dimensions import cap

EPS = torch.finfo(torch.float64).eps
T = math.log(10)


def itself(n):
    return torch.arange(n)[:, None]


def some_rows(n, k, seed=0):
    return torch.rand(n, n, generator=torch.Generator().manual_seed(seed)).argsort(1)[
        :, :k
    ]


# --- the moment curve


def check_moment(n, k, *, keys_of=None, seed=0, weights=True):
    """How far random patterns with weights in 1..4 stay from ratio error 0 and gap T;
    tolerance 64 eps of the largest query.
    """
    columns = some_rows(n, k, seed)
    g = torch.Generator().manual_seed(seed)
    logs = weights * torch.rand(n, k, generator=g, dtype=torch.float64) * math.log(4)
    q, keys = moment_queries(columns, logs, n=n, gap=T), moment_keys(n, k)
    if keys_of:  # keys of fewer harmonics, at zero beyond
        keys = torch.nn.functional.pad(keys[:, : 2 * keys_of], (0, 2 * (k - keys_of)))
    own = (q @ keys.T).gather(1, columns) - logs
    off = torch.maximum(
        (own.amax(1) - own.amin(1)).max(), T - margins(q, keys, columns).min()
    )
    return at_most(off, 64 * EPS * float(q.norm(dim=1).max()))


def check_cost(k, n):
    """The costs of the theorem, relative error; k = 1: S = {i}, k = 2: S = {i - 1, i +
    1}.
    """
    columns = (
        itself(n)
        if k == 1
        else torch.stack([(torch.arange(n) - 1) % n, (torch.arange(n) + 1) % n], 1)
    )
    cos = math.cos(2 * math.pi / n)
    wanted = 1 / (1 - cos) if k == 1 else math.sqrt(8 * cos**2 + 0.5) / (1 - cos) ** 2
    got = moment_queries(columns, n=n, gap=1.0).norm(dim=1)
    return at_most((got / wanted - 1).abs().max(), 1e-9)


def check_power(k, power):
    """The exponent of n in the cost from 128 to 256 keys, for patterns that straddle a
    key; off by at most .05.
    """
    shifts = torch.tensor({1: [0], 2: [-1, 1], 3: [-1, 1, 2]}[k])
    costs = [
        float(moment_queries((itself(n) + shifts) % n, n=n, gap=1.0).norm(dim=1).max())
        for n in (128, 256)
    ]
    return at_most(abs(math.log2(costs[1] / costs[0]) - power), 0.05)


@pytest.mark.claim("codes.moment", role="check")
@pytest.mark.parametrize(
    ("n", "k"), [(5, 1), (5, 4), (64, 1), (64, 2), (64, 3), (256, 2), (12, 6)]
)
def test_moment(n, k):
    assert check_moment(n, k).ok and check_moment(n, k, weights=False).ok
    assert check_power(min(k, 3), 2 * min(k, 3)).ok


@pytest.mark.claim("codes.moment", role="check")
@pytest.mark.parametrize("n", [5, 6, 7, 64, 256, 1024])
def test_moment_costs(n):
    assert check_cost(1, n).ok and check_cost(2, n).ok


@pytest.mark.claim("codes.moment", role="check")
def test_moment_in_fractions():
    """The floats as they are, in exact arithmetic: d = 4, 64 keys, 64 patterns of two
    columns, gap T - 1e-6.
    """
    columns = some_rows(64, 2, 3)
    q, keys = moment_queries(columns, n=64, gap=T), moment_keys(64, 2)
    rows, cols = ([[Fraction(x) for x in row] for row in m.tolist()] for m in (q, keys))
    for row, own in zip(rows, columns.tolist()):
        logits = [sum(a * b for a, b in zip(row, col)) for col in cols]
        least = min(logits[j] for j in own)
        assert all(
            least - v >= Fraction(T) - Fraction(1, 10**6)
            for l, v in enumerate(logits)
            if l not in own
        )


@pytest.mark.claim("codes.moment", role="control")
def test_a_harmonic_fewer_does_not_do():
    assert check_moment(64, 3, keys_of=2).ok is False
    assert check_power(2, 3).ok is False


@pytest.mark.claim("codes.moment", role="witness")
def test_moment_by_hand():
    q = moment_queries(itself(4), n=4, gap=1.0)
    assert torch.allclose(
        q @ moment_keys(4).T,
        torch.tensor(
            [[1, 0, -1, 0], [0, 1, 0, -1], [-1, 0, 1, 0], [0, -1, 0, 1.0]]
        ).double(),
        atol=1e-15,
    )


# --- the converse


def check_radon(k, d, *, seed=0, draws=50):
    """Draws of 2 k + 1 integer keys in R^d without an exact split whose smaller part
    has at most k keys: none.
    """
    g, missed = torch.Generator().manual_seed(seed), 0
    for _ in range(draws):
        points = torch.randint(-99, 100, (2 * k + 1, d), generator=g).tolist()
        c = radon(points)
        missed += (
            c is None
            or not splits(points, c)
            or min(sum(v > 0 for v in c), sum(v < 0 for v in c)) > k
        )
    return at_most(missed, 0)


def splits(points, c):
    """Whether the positive and the negative part are averages of one point, in
    fractions.
    """
    sides = [
        [(abs(v), p) for v, p in zip(c, points) if sign * v > 0] for sign in (1, -1)
    ]
    means = [
        [
            sum(v * p[x] for v, p in side) / sum(v for v, _ in side)
            for x in range(len(points[0]))
        ]
        for side in sides
        if side
    ]
    return len(means) == 2 and means[0] == means[1]


@pytest.mark.claim("codes.radon", role="check")
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_radon(k):
    assert check_radon(k, 2 * k - 1).ok
    assert sum(math.comb(2 * k + 1, i) for i in range(1, k + 1)) == 4**k - 1


@pytest.mark.claim("codes.radon", role="control")
@pytest.mark.parametrize("k", [1, 2, 3])
def test_one_dimension_more_has_no_split(k):
    verdict = check_radon(k, 2 * k)
    assert verdict.ok is False and verdict.value == 50


@pytest.mark.claim("codes.radon", role="witness")
@pytest.mark.parametrize("k", [1, 2, 3])
def test_on_the_moment_curve_every_small_set_is_preferred(k):
    for size in range(1, k + 1):
        sets = torch.tensor(list(combinations(range(2 * k + 1), size)))
        q = moment_queries(sets, n=2 * k + 1, gap=1.0)
        keys = moment_keys(2 * k + 1, size)
        assert margins(q, keys, sets).min() > 1 - 1e-9


# --- the exact price


def loose(n, d, seed, longest=1.0):
    """Keys with norms up to longest and queries that prefer them: noise on the key
    minus the mean, kept where it works.
    """
    g, found = torch.Generator().manual_seed(seed), []
    while len(found) < 40:
        k = torch.randn(n, d, dtype=torch.float64, generator=g)
        k = longest * k / k.norm(dim=1).max()
        q = k - k.mean(0) + 0.1 * torch.randn(n, d, dtype=torch.float64, generator=g)
        if margins(q, k, itself(n)).min() > 0:
            found.append((q, k))
    return found


def cost(q, k):
    """s / T of keys and queries that meet the permutation without moves."""
    return float(q.norm(dim=1).max() / margins(q, k, itself(len(k))).min())


def check_law(n, d, *, seed=0):
    """mu - (1 - T/s) of the code from the proof, and how far its norms are from 1, the
    largest over draws of keys and queries: at most 64 eps.
    """
    worst = -math.inf
    for q, k in loose(n, d, seed):
        code = code_from(q, k)
        length = float((code.norm(dim=1) - 1).abs().max())
        worst = max(worst, length, coherence(code) - 1 + 1 / cost(q, k))
    return at_most(worst, 64 * EPS)


def check_price(n, d, *, longest=1.0, seed=0):
    """The price less s / T, the largest over draws with keys up to a norm: at most 64
    eps of the price.
    """
    low = price(n, d).low
    return at_most(
        max(low - cost(q, k) for q, k in loose(n, d, seed, longest)), 64 * EPS * low
    )


def descended(n, d, seed, steps=600):
    """s / T after gradient descent on free keys and queries, from a random start; the
    keys in the ball.
    """
    g = torch.Generator().manual_seed(seed)
    x, y = (
        torch.randn(n, d, dtype=torch.float64, generator=g).requires_grad_()
        for _ in "qk"
    )
    optimiser, best = torch.optim.Adam([x, y], lr=0.05), math.inf
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = 0.05 * (1 - step / steps) + 1e-4
        k, q = x / x.norm(dim=1, keepdim=True).clamp_min(1), normalize(y, dim=1)
        logits = q @ k.T
        gaps = (logits.diagonal()[:, None] - logits + 9 * torch.eye(n)).flatten()
        least = float(gaps.detach().min())
        best = min(best, 1 / least if least > 0 else math.inf)
        optimiser.zero_grad()
        (torch.logsumexp(-gaps * (10 + step / 2), 0) / (10 + step / 2)).backward()
        optimiser.step()
    return best


@pytest.mark.claim("codes.law", role="check")
@pytest.mark.parametrize(("n", "d"), [(3, 2), (5, 2), (5, 4), (7, 6), (12, 12), (9, 5)])
def test_law(n, d):
    assert check_law(n, d).ok and check_price(n, d).ok


@pytest.mark.claim("codes.law", role="check")
@pytest.mark.parametrize(
    ("n", "d", "mu"),
    [
        (5, 2, math.cos(2 * math.pi / 5)),
        (7, 2, math.cos(2 * math.pi / 7)),
        (6, 3, 0.0),
        (12, 3, 5**-0.5),
    ],
)
def test_descent_never_beats_a_known_optimal_code(n, d, mu):
    """Attained to 5 per cent from some of three starts; passed by none. The
    icosahedron's optimality is recalled.
    """
    found = [descended(n, d, seed) for seed in range(3)]
    assert all(f >= (1 - 1e-9) / (1 - mu) for f in found) and min(found) < 1.05 / (
        1 - mu
    )


@pytest.mark.claim("codes.law", role="control")
def test_long_keys_are_cheaper():
    assert (
        check_price(5, 4, longest=9.0).ok is False
        and check_price(5, 2, longest=9.0).ok is False
    )


@pytest.mark.claim("codes.law", role="witness")
def test_an_optimal_code_comes_back():
    for k in (moment_keys(7), e8().double() / 8**0.5):
        assert torch.allclose(code_from(3 * k, k), k, atol=1e-14)


# --- known codes


def simplex(n):
    """n unit vectors in R^(n - 1) with products -1 / (n - 1), by the eigenvectors of
    the centring matrix.
    """
    centred = torch.eye(n, dtype=torch.float64) - 1 / n
    return normalize(torch.linalg.eigh(centred)[1][:, 1:], dim=1)


def check_circle(n, *, short=1.0):
    """How far the circle misses the gap 1 at the cost of the corollary, times short: at
    most 1e-9.
    """
    k = moment_keys(n)
    cost = short / (1 - math.cos(2 * math.pi / n))
    return at_most(1 - margins(cost * k, k, itself(n)).min(), 1e-9)


@pytest.mark.claim("codes.circle", role="check")
@pytest.mark.parametrize("n", [3, 4, 5, 64, 256, 1024])
def test_circle(n):
    assert check_circle(n).ok
    assert price(n, 2).low == pytest.approx(
        1 / (1 - math.cos(2 * math.pi / n)), rel=1e-9
    )


@pytest.mark.claim("codes.circle", role="check")
def test_circle_in_balls():
    """At 1024 keys, by interval arithmetic: the gap of neighbours at the cost is 1, to
    1e-60, and others are larger.
    """
    flint.ctx.prec = 256
    step = 2 * flint.arb.pi() / 1024
    cost = 1 / (1 - step.cos())
    gaps = [cost * (1 - (l * step).cos()) for l in range(1, 1024)]
    assert abs(gaps[0] - 1) < flint.arb("1e-60") and all(v > 1.5 for v in gaps[1:-1])
    assert abs(float(cost) / price(1024, 2).low - 1) < 1e-9


@pytest.mark.claim("codes.circle", role="check")
def test_simplex_and_cross_polytope():
    for d in (2, 3, 8):
        cross = torch.cat([torch.eye(d), -torch.eye(d)]).double()
        assert (
            price(d + 2, d) == price(2 * d, d) == (1.0, 1.0) and coherence(cross) == 0
        )
    for n in (2, 3, 9):
        assert (
            price(n, n + 2).low
            == pytest.approx(1 / (1 - coherence(simplex(n))), rel=1e-12)
            and price(n, n - 1) == ((n - 1) / n,) * 2
        )
    assert price(3, 1).low == math.inf


@pytest.mark.claim("codes.circle", role="control")
def test_one_per_cent_less_does_not_do():
    assert check_circle(64, short=0.99).ok is False


@pytest.mark.claim("codes.circle", role="witness")
def test_three_on_a_circle():
    assert coherence(moment_keys(3)) == pytest.approx(-0.5, abs=1e-15)


# --- kissing numbers


def check_kissing(vectors, *, product=0.5):
    """The largest inner product over the squared length, less product: at most 0, in
    integers.
    """
    squares = vectors.square().sum(1)
    assert (squares == squares[0]).all() and len(vectors.unique(dim=0)) == len(vectors)
    return at_most(coherence(vectors.double()) - product * float(squares[0]), 0)


@pytest.mark.claim("codes.kissing", role="check")
def test_e8():
    vectors = e8()
    assert check_kissing(vectors).ok and len(vectors) == 240
    k = vectors.double() / 8**0.5
    assert abs(float(margins(2 * T * k, k, itself(240)).min()) - T) < 1e-12


@pytest.mark.claim("codes.kissing", role="check")
def test_golay():
    words = golay()
    assert [int((words.sum(1) == w).sum()) for w in (0, 8, 12, 16, 24)] == [
        1,
        759,
        2576,
        759,
        1,
    ]
    numbers = (words << torch.arange(24)).sum(1)
    assert (
        set((numbers[:64, None] ^ numbers).flatten().tolist()) == set(numbers.tolist())
        and len(set(numbers.tolist())) == 4096
    )


def number(vectors):
    """A number for each vector of 24 entries from -4..4, modulo 2^64; that no two share
    one is tested where it matters.
    """
    powers = 9 ** torch.arange(12)
    return (vectors[:, :12] + 4) @ powers + (
        (vectors[:, 12:] + 4) @ powers
    ) * 282429536483


@cache
def largest_leech_product():
    """The largest product of two different Leech vectors, all 19 billion pairs, in
    integers.

    Changing signs on a word of the Golay code and turning the first 23 places are
    isometries that map the set to itself (tested), so it is enough to compare one
    vector of each orbit with all.
    """
    vectors = leech()
    assert vectors.shape == (196560, 24) and vectors.square().sum(
        1
    ).unique().tolist() == [32]
    numbers, order = number(vectors).sort()
    vectors = vectors[order]
    assert (numbers.diff() > 0).all()  # different vectors, different numbers
    words = golay()
    moves = [vectors * (1 - 2 * words[1 << i]) for i in range(12)]
    moves.append(torch.cat([vectors[:, :23].roll(1, 1), vectors[:, 23:]], 1))
    places = [
        torch.searchsorted(numbers, number(moved)).clamp_max(len(numbers) - 1)
        for moved in moves
    ]
    assert all(
        torch.equal(vectors[place], moved) for place, moved in zip(places, moves)
    )
    label, before = torch.arange(len(vectors)), None
    while before is None or not torch.equal(label, before):
        before = label
        for move in places:
            label = torch.minimum(label, label[move])
            label = label.scatter_reduce(0, move, label, "amin")
    ones = label.unique()
    assert len(ones) < 60
    products = vectors[ones] @ vectors.T
    assert (products == 32).sum() == len(ones)  # each with itself
    return int(products[products < 32].max())


def check_leech(*, more=()):
    """The largest product of two different vectors, Leech's and more of the same
    length, less 16: at most 0.
    """
    largest = largest_leech_product()
    for v in map(torch.tensor, more):
        assert v.square().sum() == 32 and not (leech() == v).all(1).any()
        largest = max(largest, int((leech() @ v).max()))
    return at_most(largest - 16, 0)


@pytest.mark.claim("codes.kissing", role="check")
def test_leech():
    assert check_leech().ok


@pytest.mark.claim("codes.kissing", role="control")
@pytest.mark.parametrize(
    "vector", [[2] * 8 + [0] * 16, [3] + [1] * 23, [4, 2, 2, 2, 2] + [0] * 19]
)
def test_a_vector_outside_the_lattice_comes_too_near(vector):
    """One of each kind: not a word of the Golay code, a sum that is wrong modulo 8, and
    neither.
    """
    assert check_leech(more=[vector]).ok is False


@pytest.mark.claim("codes.kissing", role="control")
def test_a_241st_vector_comes_too_near():
    assert (
        check_kissing(torch.cat([e8(), torch.tensor([[2, 1, 1, 1, 1, 0, 0, 0]])])).ok
        is False
    )


@pytest.mark.claim("codes.kissing", role="witness")
def test_six_coins_around_a_coin():
    assert (
        coherence(moment_keys(6)) == pytest.approx(0.5, abs=1e-15)
        and coherence(moment_keys(7)) > 0.62
    )


# --- a factor of four


def check_four(*, fewer=0):
    """Bounds against codes: proved lower bound over the price of a code, and price over
    upper bound; at most 1 + 1e-12.
    """
    codes = [
        (240, 8, 2.0),
        (196560, 24, 2.0),
        (12, 3, 1 / (1 - 5**-0.5)),
        (126, 7, 2.0),
        (56, 7, 1.5),
    ]
    worst = max(
        max(price(n, d - fewer).low / value, value / price(n, d).high)
        for n, d, value in codes
    )
    ratio = max(
        price(n, d).high / price(n, d).low
        for n in (7, 100, 10**6)
        for d in (2, 3, 9, 40)
    )
    return at_most(max(worst, ratio / 4), 1 + 1e-12)


@pytest.mark.claim("codes.factor-four", role="check")
def test_four():
    assert check_four().ok
    for n in (
        5,
        64,
        10**4,
    ):  # in the plane the lower bound of the theorem is exact: sigma_2(pi / n) = 1 / n
        assert cap(math.pi / n, 2) == pytest.approx(1 / n, rel=1e-12)
    for d in (3, 4, 6, 12):
        for side in ("low", "high"):
            slope = math.log(
                getattr(price(10**12, d), side) / getattr(price(10**9, d), side), 1000
            )
            assert slope == pytest.approx(2 / (d - 1), rel=0.05)


@pytest.mark.claim("codes.factor-four", role="check")
@pytest.mark.parametrize("d", [3, 4])
def test_a_maximal_set_is_as_large_as_promised(d):
    """Greedy in random order: a code with angle theta_n, grown until 20000 more draws
    find no room, has n points.
    """
    g, n = torch.Generator().manual_seed(d), 40
    cosine = 1 - 1 / price(n, d).high
    points = normalize(torch.randn(20000, d, dtype=torch.float64, generator=g), dim=1)
    kept = points[:1]
    for p in points:
        if (kept @ p).max() <= cosine:
            kept = torch.cat([kept, p[None]])
    assert len(kept) >= n


@pytest.mark.claim("codes.factor-four", role="control")
def test_bounds_of_one_dimension_less_fail():
    assert check_four(fewer=1).ok is False


@pytest.mark.claim("codes.factor-four", role="witness")
def test_caps_by_hand():
    assert cap(math.pi / 3, 3) == pytest.approx(0.25, rel=1e-14) and cap(
        math.pi / 2, 9
    ) == pytest.approx(0.5, rel=1e-14)


# --- bounded logits


def check_log(n, d, c):
    """n over (1 + sqrt(2 c))^d, for n tokens in d dimensions at the cost c T: at most
    1.
    """
    return at_most(n / (1 + math.sqrt(2 * c)) ** d, 1)


def check_half_sine(top=math.pi / 2):
    """sigma_d(theta) over sin^(d - 1) theta / 2, the largest on a grid up to the top:
    at most 1 + 1e-12.
    """
    angles = [j * top / 200 for j in range(1, 201)]
    return at_most(
        max(
            2 * cap(a, d) / math.sin(a) ** (d - 1)
            for d in (2, 3, 8, 24, 60)
            for a in angles
        ),
        1 + 1e-12,
    )


@pytest.mark.claim("codes.log", role="check")
def test_log():
    assert (
        check_log(240, 8, 2).ok and check_log(196560, 24, 2).ok and check_half_sine().ok
    )
    assert all(
        check_log(n, 2, cost(moment_keys(n), moment_keys(n))).ok for n in (5, 64, 1024)
    )
    for n, c in ((100, 1.5), (10**4, 2.0), (10**6, 4.0)):
        d = 1 + math.ceil(math.log(n / 2) / -math.log(math.sin(math.acos(1 - 1 / c))))
        assert (
            price(n, d).high <= c * (1 + 1e-12)
            and math.log(n) / math.log(1 + math.sqrt(2 * c)) <= d
        )


@pytest.mark.claim("codes.log", role="control")
def test_long_keys_or_wide_caps_fail():
    """Keys of norm 100 cost a hundredth and need no logarithm; a cap beyond the equator
    outgrows the sine.
    """
    assert check_log(64, 2, cost(moment_keys(64), 100 * moment_keys(64))).ok is False
    assert check_half_sine(0.6 * math.pi).ok is False


@pytest.mark.claim("codes.log", role="witness")
def test_random_signs_need_logarithmically_many():
    """300 random unit keys in 1 + ceil(6.95 ln n^2 / 2) dimensions cost at most 2 T:
    the union bound, with room.
    """
    g = torch.Generator().manual_seed(0)
    d = 1 + math.ceil(math.log(300**2) / -math.log(math.sin(math.pi / 3)))
    assert (
        coherence(
            normalize(torch.randn(300, d, dtype=torch.float64, generator=g), dim=1)
        )
        <= 0.5
    )


# --- bits


def rounded(x, p):
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp((mantissa * 2**p).round() / 2**p, exponent)


def check_bits(n, *, fewer=0):
    """What is missing to two fifths of the gap when the circle is rounded to 3 +
    log2(s/T) bits: at most 0.
    """
    k, s = moment_keys(n), price(n, 2).low
    p = 3 + math.ceil(math.log2(s)) - fewer
    return at_most(0.4 - margins(rounded(s * k, p), rounded(k, p), itself(n)).min(), 0)


def check_counting(n, levels, *, dims=range(1, 5), every=True):
    """log2 n less d p for the least d in which keys and queries on a grid serve all
    patterns of one column: at most 0.

    A grid of levels values is p = log2 levels bits. A pattern has n rows, each with any
    column, so all patterns are served if some keys let every column win. With every
    False, one pattern is enough: it may ask for the same column in each row.
    """
    for d in dims:
        grid = torch.tensor(
            list(product(torch.linspace(-1, 1, levels).tolist(), repeat=d)),
            dtype=torch.float64,
        )
        for k in combinations_with_replacement(range(len(grid)), n):
            best = (grid @ grid[list(k)].T).topk(2, dim=1)
            wins = best.indices[
                best.values[:, 0] > best.values[:, 1] + 1e-9, 0
            ].unique()
            if len(wins) >= (n if every else 1):
                return at_most(math.log2(n) - d * math.log2(levels), 1e-12)
    raise AssertionError(f"no d in {dims} serves")


@pytest.mark.claim("codes.bits", role="check")
@pytest.mark.parametrize("n", [4, 64, 256, 1024])
def test_bits(n):
    assert check_bits(n).ok


@pytest.mark.claim("codes.bits", role="check")
def test_counting():
    """Two levels are one bit; for two and four tokens, the corners of a cube, the bound
    is attained.
    """
    verdicts = [
        check_counting(n, levels)
        for n, levels in ((2, 2), (3, 2), (4, 2), (5, 2), (3, 3), (5, 3))
    ]
    assert all(v.ok for v in verdicts) and verdicts[0].value == verdicts[2].value == 0
    assert all(
        k / 2 * math.log2(n / k) <= math.log2(math.comb(n, k)) / 2 + 1e-12
        for n in range(2, 40)
        for k in range(1, n)
    )


@pytest.mark.claim("codes.bits", role="control")
def test_bfloat16_loses_the_circle():
    assert (
        check_counting(5, 2, every=False).ok is False
    )  # one pattern alone may need a single bit
    assert check_bits(256, fewer=7).ok is False  # 15 - 7 = 8 bits
    k = moment_keys(256)
    s = price(256, 2).low
    assert (
        margins((s * k).bfloat16().double(), k.bfloat16().double(), itself(256)).min()
        < 0
    )


@pytest.mark.claim("codes.bits", role="witness")
def test_bfloat16_keeps_random_keys():
    g = torch.Generator().manual_seed(0)
    k = normalize(torch.randn(256, 90, dtype=torch.float64, generator=g), dim=1)
    q = k / (1 - coherence(k))
    assert (
        margins(q.bfloat16().double(), k.bfloat16().double(), itself(256)).min() > 0.95
    )


# --- redrawing


def circulant(n, k, seed):
    g = torch.Generator().manual_seed(seed)
    return (
        torch.randperm(n, generator=g)[:, None] + torch.randperm(n, generator=g)[:k]
    ) % n


def chances(d, k, t):
    """Bounds of the chance that S_i is bad, and that it is not but (i, l) is in
    conflict.
    """
    return math.comb(k, 2) * math.exp(-(d - 1) / (8 * k * k)), math.exp(
        -(d - 1) * t * t / (4 * k)
    ) / 2


def lemma_dimension(n, k, t):
    """The least d that the two lines of (10.7) allow."""

    def allowed(d):
        bad, conflict = chances(d, k, t)
        return math.e**2 * (k + 1) ** 2 * max(bad, n * conflict) <= 1

    return next(filter(allowed, count(k + 1)))


def union_dimension(n, k, t):
    """The least d at which the chances of n bad rows and n^2 conflicts sum to less than
    1.
    """

    def allowed(d):
        bad, conflict = chances(d, k, t)
        return n * bad + n * n * conflict < 1

    return next(filter(allowed, count(k + 1)))


def check_lemma(n, k, *, sparse=True):
    """Worst log of a weight times what its neighbours leave, over what (10.7) allows,
    by a count of neighbours: at most 0.

    The neighbours of each event are counted in a pattern: the circulant, or one whose
    first column is in every row.
    """
    columns = (
        circulant(n, k, k)
        if sparse
        else torch.cat(
            [0 * itself(n), 1 + circulant(n - 1, k - 1, 0)[torch.arange(n) % (n - 1)]],
            1,
        )
    )
    rows = [frozenset(r) for r in columns.tolist()]
    bad, conflict = (
        [(r, True) for r in rows],
        [(r | {l}, False) for r in rows for l in range(n) if l not in r],
    )
    keys = [(sum(1 << j for j in e), is_bad) for e, is_bad in bad + conflict]
    chance, worst = (
        {True: 1 / (math.e * (k + 1)) ** 2, False: 1 / ((math.e * (k + 1)) ** 2 * n)},
        -math.inf,
    )
    weight = {True: 1 / (k + 1) ** 2, False: 1 / ((k + 1) ** 2 * n)}
    for own, is_bad in keys[:: max(1, len(keys) // 40)] + keys[:3]:
        near = [other for mask, other in keys if mask & own]
        b, c = near.count(True) - is_bad, near.count(False) - (not is_bad)
        left = (
            math.log(weight[is_bad])
            + b * math.log1p(-weight[True])
            + c * math.log1p(-weight[False])
        )
        worst = max(worst, math.log(chance[is_bad]) - left)
    return at_most(worst, 0)


def redrawn(columns, d, level, whole, limit, g):
    """Queries and keys of gap 1 after redrawing: by fit, or whole, as in the proof;
    rows left, and rounds where they are known.
    """
    if not whole:
        how = {
            "eps1": 1 / math.e,
            "eps2": 0.5,
            "s": float(level),
            "restarts": 1,
            "redraws": limit,
            "dtype": torch.float64,
        }
        try:
            code = fit(columns, d=d, method="redraw", generator=g, **how)
            left = 0
        except Exhausted as short:
            code = short.code
            left = int((short.report.rows[:, 1] < 1).sum())
        return code.q, code.k, left, None

    def draw(m):
        return normalize(torch.randn(m, d, dtype=torch.float64, generator=g), dim=1)

    y = torch.full(columns.shape, float(level), dtype=torch.float64)
    words = {
        "solve": interpolate,
        "draw": draw,
        "gap": 1.0,
        "limit": limit,
        "whole": True,
    }
    found = redraw.settle(draw(len(columns)), columns, y, **words)
    return found.q, found.k, found.left, found.rounds


def check_redraw(n, k, ratio, d=None, *, whole=True, limit=400):
    """Rows left, what is missing to the gap, to the logits that were asked for and to
    unit keys and, with whole, what |q| has above sqrt(2 k) level: at most 1e-9.

    With d None it is that of the theorem.
    """
    columns, g = circulant(n, k, k), torch.Generator().manual_seed(7)
    d = d or lemma_dimension(n, k, 1 - 1 / ratio)
    q, keys, left, _ = redrawn(columns, d, ratio, whole, limit, g)
    own = (q @ keys.T).gather(1, columns)
    faults = [
        left,
        1 - margins(q, keys, columns).min(),
        (own - ratio).abs().max(),
        (keys.norm(dim=1) - 1).abs().max(),
    ]
    if whole:
        faults.append(q.norm(dim=1).max() - math.sqrt(2 * k) * ratio)
    return at_most(max(map(float, faults)), 1e-9)


@pytest.mark.claim("codes.redraw", role="check")
@pytest.mark.parametrize(("n", "k", "ratio"), [(64, 1, 2), (64, 2, 4), (128, 3, 2)])
def test_redraw_at_the_dimension_of_the_theorem(n, k, ratio):
    assert check_redraw(n, k, ratio).ok and check_redraw(16, 2, 4, 14).ok


@pytest.mark.claim("codes.redraw", role="check")
def test_at_most_half_the_logarithm():
    """Multiples of ln n from 10^60 to 10^90, against a union bound that counts a bad
    row once, not once for each column.
    """

    def multiple(of, k, t):
        return (of(1e90, k, t) - of(1e60, k, t)) / (30 * math.log(10))

    for k, t in ((1, 0.5), (2, 0.5), (2, 0.75), (2, 0.95), (4, 0.4), (4, 0.75)):
        lemma = 4 * k / t**2
        union = max(8 * k / t**2, 8 * k * k * (k > 1))
        assert multiple(lemma_dimension, k, t) == pytest.approx(lemma, rel=0.01)
        assert multiple(union_dimension, k, t) == pytest.approx(union, rel=0.01)
    assert [
        f(1e90, k, 0.75) for k in (2, 4) for f in (lemma_dimension, union_dimension)
    ] == [2999, 6633, 6025, 26757]


@pytest.mark.claim("codes.redraw", role="check")
@pytest.mark.parametrize(("n", "k"), [(12, 1), (12, 2), (24, 3), (40, 4)])
def test_the_weights_of_the_lemma(n, k):
    assert check_lemma(n, k).ok


@pytest.mark.claim("codes.redraw", role="control")
def test_a_full_column_breaks_the_weights():
    assert check_lemma(40, 2, sparse=False).ok is False


@pytest.mark.claim("codes.redraw", role="check")
@pytest.mark.parametrize(
    ("n", "k", "ratio", "d", "alone"),
    [(64, 1, 2, 16, 40), (256, 1, 2, 24, 58), (64, 2, 4, 24, 39), (256, 2, 4, 34, 55)],
)
def test_redrawing_reaches_two_thirds_of_what_random_keys_need(n, k, ratio, d, alone):
    pairs, t = (n * (n - 1) / 2 if k == 1 else n * (n - k)), 1 - 1 / ratio
    expected = next(
        e for e in range(2, 999) if pairs * cap(math.acos(t / k**0.5), e) <= 1
    )
    assert abs(expected - alone) <= 1 and d <= 0.65 * expected
    assert check_redraw(n, k, ratio, d, whole=False).ok


@pytest.mark.claim("codes.redraw", role="control")
def test_too_few_dimensions_leave_conflicts():
    assert check_redraw(64, 1, 2, 4, whole=False, limit=60).ok is False
    assert check_redraw(64, 2, 4, 4, limit=60).ok is False


@pytest.mark.claim("codes.redraw", role="witness")
def test_keys_are_drawn_anew():
    columns = circulant(64, 2, 0)
    _, _, left, rounds = redrawn(
        columns, 26, 4, True, 400, torch.Generator().manual_seed(1)
    )
    assert left == 0 and rounds > 0


@pytest.mark.claim("codes.redraw", role="witness")
def test_whole_redraws_bad_rows():
    """Keys that serve, but two of a row have a product above 1 / (2 k): only whole
    draws them anew.
    """
    columns, g = (
        torch.tensor([[0, 1], [2, 3], [0, 2], [1, 3]]),
        torch.Generator().manual_seed(2),
    )

    def draw(m):
        return normalize(torch.randn(m, 12, dtype=torch.float64, generator=g), dim=1)

    k = torch.eye(4, 12, dtype=torch.float64)
    k[1, :2] = torch.tensor([0.3, 0.91**0.5])
    words = {"solve": interpolate, "draw": draw, "gap": 0.1, "limit": 50}
    plain, whole = (
        redraw.settle(
            k, columns, torch.ones(4, 2, dtype=torch.float64), whole=w, **words
        )
        for w in (False, True)
    )
    leans = (whole.k[columns[:, 0]] * whole.k[columns[:, 1]]).sum(1).abs().max()
    assert (
        plain.left == plain.rounds == whole.left == 0 < whole.rounds and leans <= 0.25
    )


# --- full rank


def check_rank(n, gap, assumed=None):
    """1 - 2 (n - 1) e^-assumed less the least singular value of the softmax of logits
    of rank 2 with that gap: at most 1e-12.
    """
    k = moment_keys(n)
    logits = price(n, 2).low * gap * k @ k.T
    assert torch.linalg.matrix_rank(logits) == 2
    bound = 1 - 2 * (n - 1) * math.exp(-(assumed or gap))
    return at_most(bound - torch.linalg.svdvals(torch.softmax(logits, -1))[-1], 1e-12)


@pytest.mark.claim("codes.rank", role="check")
@pytest.mark.parametrize(("n", "gap"), [(8, 4.0), (64, 6.0), (64, 14.0), (256, 12.0)])
def test_full_rank(n, gap):
    assert check_rank(n, gap).ok
    k = moment_keys(n)
    p = torch.softmax(price(n, 2).low * gap * k @ k.T, -1)
    low = torch.linalg.svdvals(p)
    u, s, v = torch.linalg.svd(p)
    nearest = (u[:, : n // 2] * s[: n // 2]) @ v[: n // 2]
    assert torch.linalg.matrix_norm(p - nearest, 2) >= low[-1] - 1e-12


@pytest.mark.claim("codes.rank", role="control")
def test_a_smaller_gap_is_not_full_rank_as_promised():
    assert check_rank(64, 3.0, 14.0).ok is False


@pytest.mark.claim("codes.rank", role="witness")
def test_the_bound_says_something():
    assert 1 - 2 * 63 * math.exp(-14) > 0.999


# --- sign-rank


def check_sign_rank(rows, columns, d, *, flip=True, seed=0):
    """Signs that the recipe loses when vectors in Z^(d + 1) become affine keys and
    queries, in fractions: none.
    """
    g = torch.Generator().manual_seed(seed)

    def draw(m):
        return torch.randint(-30, 31, (m, d + 1), generator=g).tolist()

    v, w, first = draw(rows), draw(columns), draw(1)[0]

    def dot(a, b):
        return sum(Fraction(x) * y for x, y in zip(a, b))

    w = [
        [-x for x in b] if flip and dot(first, b) < 0 else b for b in w if dot(first, b)
    ]
    v = [a for a in v if all(dot(a, b) for b in w)]  # signs, no zeros
    assert len(v) > 1 and len(w) > 1 + d
    at = next(
        i for i, x in enumerate(first) if x
    )  # the last coordinate becomes first . w; v changes by the inverse
    affine = [[x / dot(first, b) for i, x in enumerate(b) if i != at] for b in w]
    queries = [
        (
            [
                a[i] - Fraction(a[at] * first[i], first[at])
                for i in range(d + 1)
                if i != at
            ],
            Fraction(a[at], first[at]),
        )
        for a in v
    ]
    lost = sum(
        (dot(a, b) > 0) != (dot(q, k) + c > 0)
        for a, (q, c) in zip(v, queries)
        for b, k in zip(w, affine)
    )
    return at_most(lost, 0)


@pytest.mark.claim("codes.sign-rank", role="check")
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_sign_rank(d):
    assert all(check_sign_rank(5, 8, d, seed=seed).ok for seed in range(10))


def check_lift(d, *, positive=True, seed=0):
    """Part (b), in integers and fractions: signs lost on the way from d dimensions to d
    + 1, and back from an affine image: none.

    positive False: the keys are divided as if the row of all but a were another one.
    """
    g = torch.Generator().manual_seed(seed)

    def draw(*size):
        return torch.randint(-20, 21, size, generator=g).tolist()

    def dot(a, b):
        return sum(Fraction(x) * y for x, y in zip(a, b))

    keys, rows = (
        draw(7, d),
        [(q, Fraction(2 * c + 1, 2)) for q, c in zip(draw(5, d), draw(5))],
    )
    signs = [[dot(q, k) > c for k in keys] for q, c in rows]
    up, eps = [[*k, 1] for k in keys] + [[0] * (d + 1)], Fraction(1, 4)  # a is last
    affine = [([*q, -c], e) for q, c in rows for e in (eps, -eps)] + [
        ([0] * d + [1], Fraction(-1, 2))
    ]
    wanted = [[*s, e] for s in signs for e in (True, False)] + [[True] * 7 + [False]]
    lost = sum(
        (dot(w, k) + c > 0) != s
        for (w, c), row in zip(affine, wanted)
        for k, s in zip(up, row)
    )
    shift = draw(d + 1)  # an image of keys and functions, with a at the shift
    moved, functions = (
        [[x + t for x, t in zip(k, shift)] for k in up],
        [(w, c - dot(w, shift)) for w, c in affine],
    )

    def at(f, x):
        return dot(f[0], x) + f[1]

    centred = [[x - t for x, t in zip(k, moved[-1])] for k in moved[:-1]]
    u = functions[-1][0] if positive else functions[0][0]
    flat = [[x / dot(u, k) for x in k] for k in centred]
    for i, row in enumerate(signs):
        above, below = functions[2 * i], functions[2 * i + 1]
        a, b = at(above, moved[-1]), -at(below, moved[-1])
        h = [b * x + a * y for x, y in zip(above[0], below[0])]
        lost += sum((dot(h, k) > 0) != s for k, s in zip(flat, row))
    return at_most(lost, 0)


@pytest.mark.claim("codes.sign-rank", role="check")
@pytest.mark.parametrize("d", [1, 2, 4])
def test_a_column_more_is_a_dimension_more(d):
    assert all(check_lift(d, seed=seed).ok for seed in range(10))


@pytest.mark.claim("codes.sign-rank", role="control")
def test_keys_on_both_sides_lose_signs():
    assert check_lift(2, positive=False).ok is False


@pytest.mark.claim("codes.sign-rank", role="check")
@pytest.mark.parametrize("k", [1, 2, 3])
def test_patterns_give_signs_of_low_rank(k):
    """The other way: (q, -c) . (k_j, 1) has the signs of a pattern that is met, and
    rank at most d + 1.
    """
    n, columns = 16, some_rows(16, k, k)
    q, keys = moment_queries(columns, n=n, gap=1.0), moment_keys(n, k)
    c = (q @ keys.T).gather(1, columns).amin(1) - 0.5
    real = (
        torch.cat([q, -c[:, None]], 1)
        @ torch.cat([keys, torch.ones(n, 1).double()], 1).T
    )
    assert torch.equal(
        real > 0, torch.zeros(n, n, dtype=torch.bool).scatter(1, columns, True)
    )
    assert (
        torch.linalg.matrix_rank(torch.cat([real, torch.ones(1, n).double()]))
        <= 2 * k + 1
    )


@pytest.mark.claim("codes.sign-rank", role="control")
def test_columns_that_are_not_flipped_lose_signs():
    assert check_sign_rank(5, 8, 2, flip=False).ok is False


@pytest.mark.claim("codes.sign-rank", role="witness")
def test_identity_of_three_has_sign_rank_three():
    """d = 1 cannot serve three single keys, d = 2 can; so the signs of 2 I - 1 have
    rank 3, and rank 2 is not enough.
    """
    assert line_order([{0}, {1}, {2}], 3) is None
    assert margins(moment_keys(3), moment_keys(3), itself(3)).min() > 1


# --- one dimension


def brute(rows, n):
    def ends(p):
        return {frozenset(p[:c]) for c in range(n + 1)} | {
            frozenset(p[c:]) for c in range(n + 1)
        }

    return any(all(r in ends(p) for r in rows) for p in permutations(range(n)))


def check_line(*, patterns=400, complements=True):
    """Disagreements with all orders of the keys, and keys returned that do not serve,
    in random patterns: none.
    """
    g, wrong = torch.Generator().manual_seed(0), 0

    def draw(low, high):
        return int(torch.randint(low, high, (), generator=g))

    for trial in range(patterns):
        n, m = draw(3, 6), draw(2, 5)
        order = torch.randperm(n, generator=g).tolist()
        rows = []
        for _ in range(m):
            if trial % 2:
                order = torch.randperm(n, generator=g).tolist()
            cut = draw(1, n)
            rows.append(frozenset(order[:cut] if draw(0, 2) else order[cut:]))
        keys = line_order(rows, n)
        if not complements and keys is not None:
            keys = (
                keys
                if all(
                    max(keys[j] for j in r)
                    < min(keys[j] for j in range(n) if j not in r)
                    for r in rows
                )
                else None
            )
        wrong += (keys is not None) != brute(rows, n)
        if keys is not None:
            for r in rows:
                inside, outside = (
                    [keys[j] for j in r],
                    [keys[j] for j in range(n) if j not in r],
                )
                wrong += not (max(inside) < min(outside) or min(inside) > max(outside))
    return at_most(wrong, 0)


@pytest.mark.claim("codes.line", role="check")
def test_line():
    assert check_line().ok


@pytest.mark.claim("codes.line", role="control")
def test_without_negative_queries_it_disagrees():
    assert check_line(patterns=100, complements=False).ok is False


@pytest.mark.claim("codes.line", role="witness")
def test_line_by_hand():
    assert line_order([{0}, {0, 1}, {2}], 3) == [0, 1, 3]
    assert line_order([{0}, {1}, {2}], 3) is None


# --- counting signs, and a spiral


def check_warren(n, k, d):
    """ln of the patterns of permutations in blocks over ln of what Warren's bound
    leaves to d dimensions: at most 1.
    """
    patterns = k * k * math.lgamma(n / k + 1)
    variables = n * (2 * d + 1)
    return at_most(patterns / (variables * math.log(8 * math.e * n / (2 * d + 1))), 1)


@pytest.mark.claim("codes.counting", role="check")
def test_enough_dimensions_are_not_excluded():
    """d = 2 k does by the moment curve, so it may not be excluded."""
    assert all(
        check_warren(k * m, k, 2 * k).ok
        for k in (1, 2, 5, 20)
        for m in (4 * k + 1, 10**3, 10**9)
    )


@pytest.mark.claim("codes.counting", role="check")
@pytest.mark.parametrize(
    ("n", "k", "exact"), [(2, 1, 2), (3, 1, 6), (4, 2, 90), (4, 1, 24), (5, 1, 120)]
)
def test_blocks_are_some_of_the_patterns(n, k, exact):
    """Blocks of permutations, listed: all different, all regular, no more than there
    are regular patterns, found by brute force.
    """
    rows = list(combinations(range(n), k))
    regular = {
        p
        for p in product(rows, repeat=n)
        if all(sum(j in r for r in p) == k for j in range(n))
    }
    m, blocks = n // k, set()
    for chosen in product(permutations(range(n // k)), repeat=k * k):
        blocks.add(
            tuple(
                tuple(j * m + chosen[i // m * k + j][i % m] for j in range(k))
                for i in range(n)
            )
        )
    assert (
        len(regular) == exact
        and blocks <= regular
        and len(blocks) == math.factorial(m) ** (k * k)
    )
    assert math.log(len(blocks)) >= k * n * math.log(n / (math.e * k))


@pytest.mark.claim("codes.counting", role="check")
def test_warren_for_signs_on_a_line():
    """All patterns of n rows met in d = 1, by brute force, are fewer than Warren's
    bound.
    """
    for n in (3, 4):
        sides = {
            frozenset(
                map(
                    frozenset,
                    [p[:c] for c in range(1, n)] + [p[c:] for c in range(1, n)],
                )
            )
            for p in permutations(range(n))
        }
        met = {rows for side in sides for rows in product(side, repeat=n)}
        assert math.log(len(met)) <= 3 * n * math.log(8 * math.e * n / 3)


@pytest.mark.claim("codes.counting", role="check")
def test_the_least_dimension_of_the_count():
    assert [counting_dimension(10**e, 16) for e in (6, 60, 300)] == [6, 8, 8]
    assert counting_dimension(4, 4) == 1

    def ratio(n, k, d):
        available = (2 * d + 1) * math.log(8 * math.e * n / (2 * d + 1))
        return k * math.log(n / math.e / k) / available

    # within what blocks and ln m! >= m ln m - m leave
    for n, k in ((10**6, 16), (10**30, 9), (10**300, 8)):
        d = counting_dimension(n, k)
        assert ratio(n, k, d) <= 1 < ratio(n, k, d - 1)


@pytest.mark.claim("codes.counting", role="control")
def test_few_dimensions_are_excluded():
    assert check_warren(16 * 10**6, 16, 3).ok is False
    assert check_warren(9 * 10**30, 9, 3).ok is False  # below (k - 1) / 2 = 4


@pytest.mark.claim("codes.counting", role="witness")
def test_half_of_k_for_many_tokens():
    assert all(check_warren(k * 10**200, k, k // 2 - 1).ok is False for k in (4, 8, 12))


def check_spiral(turn=(3 - 5**0.5) / 2):
    """|s / (n T) - 0.2093| of spirals on the sphere at n = 64, 256, 1024, 4096: at most
    0.0003.
    """
    costs = {
        n: 1 / (1 - coherence(spiral_keys(n, turn))) for n in (64, 256, 1024, 4096)
    }
    assert all(price(n, 3).low <= c for n, c in costs.items())
    return at_most(max(abs(c / n - 0.2093) for n, c in costs.items()), 0.0003)


@pytest.mark.claim("codes.spiral", role="check")
def test_spiral():
    assert check_spiral().ok


@pytest.mark.claim("codes.spiral", role="control")
def test_a_rational_turn():
    assert check_spiral(0.38).ok is False


@pytest.mark.claim("codes.spiral", role="witness")
def test_the_spiral_is_on_the_sphere_and_between_the_bounds():
    assert all(
        price(n, 3).low <= 0.2093 * n <= price(n, 3).high for n in (64, 256, 1024, 4096)
    )
    assert (spiral_keys(50).norm(dim=1) - 1).abs().max() < 1e-15
