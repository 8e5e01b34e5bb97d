"""The claims of notebooks/jl_low_rank/random_projections: each check, and its control,
on which the same function fails.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
import torch

from attnlib import certify
from attnlib.certify import at_most
from attnlib.lowrank import jl_surrogate
from attnlib.projections import (
    failure_bound,
    failure_probability,
    projection,
    required_dimension,
    srht,
)

EPS = torch.finfo(torch.float64).eps
FAMILIES = ["gaussian", "rademacher", "achlioptas", "sparse", "srht"]


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*size, seed=0):
    """With seeds of its own: a projection of the same seed would repeat the numbers."""
    return torch.randn(*size, dtype=torch.float64, generator=gen(1000 + seed))


def softmax_matrix(n, *, seed=0, beta=None):
    """A softmax of random logits; with beta, of beta times the identity."""
    return torch.softmax(
        randn(n, n, seed=seed)
        if beta is None
        else beta * torch.eye(n, dtype=torch.float64),
        -1,
    )


def draws(k, n, count, family="gaussian", seed=0, **how):
    g = gen(seed)
    for _ in range(count):
        yield projection(k, n, family, generator=g, **how)


def exact_mean(k, n, family, value):
    """E value(R'R), exactly: every R of the family, weighted. The entries of sqrt(k) R
    are 1, -1 or sqrt(3), 0, -sqrt(3); only products of two entries occur, and they are
    rational. The three values are the three-point rule of Gauss and Hermite, so up to
    degree five per entry the mean is that of Gaussian entries.
    """
    faces = {
        "rademacher": [(1, Fraction(1, 2)), (-1, Fraction(1, 2))],
        "three-point": [(1, Fraction(1, 6)), (0, Fraction(2, 3)), (-1, Fraction(1, 6))],
    }[family]
    unit = Fraction(3 if family == "three-point" else 1, k)
    total = 0
    for drawn in itertools.product(faces, repeat=k * n):
        rows = [[f for f, _ in drawn[a * n : (a + 1) * n]] for a in range(k)]
        square = [
            [unit * sum(row[i] * row[j] for row in rows) for j in range(n)]
            for i in range(n)
        ]
        total += math.prod(chance for _, chance in drawn) * value(square)
    return total


def times(a, b):
    return [
        [sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a
    ]


def squares(m):
    return sum(v * v for row in m for v in row)


def minus(a, b):
    return [[x - y for x, y in zip(r, s)] for r, s in zip(a, b)]


P3 = [
    [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)],
    [Fraction(0), Fraction(1, 4), Fraction(3, 4)],
]
W3 = [[Fraction(1)], [Fraction(-2)], [Fraction(3)]]


# --- the exact law


def check_norm_law(x, k, eps, family="gaussian", count=4000):
    """How many binomial deviations the frequency of failures is away from
    failure_probability: at most 4.
    """
    n, p = len(x), failure_probability(k, eps)
    norms = (
        torch.stack([(r @ x).square().sum() for r in draws(k, n, count, family)])
        / x.square().sum()
    )
    seen = float(((norms - 1).abs() > eps).double().mean())
    return at_most(abs(seen - p) / math.sqrt(p * (1 - p) / count), 4)


@pytest.mark.claim("jl.norm-law", role="check")
@pytest.mark.parametrize(("k", "eps"), [(1, 0.5), (16, 0.25), (32, 0.5)])
def test_norm_law(k, eps):
    for x in (
        torch.eye(40, dtype=torch.float64)[0],
        torch.ones(40, dtype=torch.float64),
        randn(40, seed=1),
    ):
        assert check_norm_law(x, k, eps).ok


@pytest.mark.claim("jl.norm-law", role="control")
def test_signs_have_another_law():
    assert (
        check_norm_law(torch.eye(40, dtype=torch.float64)[0], 16, 0.25, "rademacher").ok
        is False
    )


@pytest.mark.claim("jl.norm-law", role="witness")
def test_two_rows_by_hand():
    assert failure_probability(2, 0.5) == pytest.approx(
        1 - math.exp(-0.5) + math.exp(-1.5), abs=1e-14
    )


# --- tails


def chance(k, eps, rho):
    """Pr(|x'R'Ry - rho| > eps) for unit vectors with x'y = rho: (a X - b Y) / k with
    independent chi-squares.
    """
    a, b = (1 + rho) / 2, (1 - rho) / 2
    if b == 0 or a == 0:
        return failure_probability(k, eps)
    h = k / 2
    y = torch.linspace(0, k + 60 * math.sqrt(k) + 200, 40001, dtype=torch.float64)[
        1:
    ]  # the trapezoidal rule in Y
    weight = (
        torch.exp((h - 1) * (y / 2).log() - y / 2 - math.lgamma(h)) / 2 * (y[1] - y[0])
    )

    def q(z):
        return torch.where(
            z > 0,
            torch.special.gammaincc(torch.full_like(z, h), z.clamp_min(1e-300)),
            1.0,
        )

    above = q((k * (rho + eps) + b * y) / (2 * a))
    below = 1 - q((k * (rho - eps) + b * y) / (2 * a))
    return float((weight * (above + below)).sum())


def check_tail(k, eps, rho, *, law=chance):
    """The chance over the sharp bound, and the sharp bound over the printed one: the
    larger, at most 1 + 1e-9.
    """
    sharp = failure_bound(k, eps, sharp=True)
    return at_most(
        max(law(k, eps, rho) / sharp, sharp / failure_bound(k, eps)), 1 + 1e-9
    )


@pytest.mark.claim("jl.tail", role="check")
@pytest.mark.parametrize("eps", [0.05, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("k", [3, 8, 40, 200])
def test_tail(k, eps):
    assert all(check_tail(k, eps, rho).ok for rho in (1.0, 0.9, 0.3, 0.0, -0.6, -1.0))


@pytest.mark.claim("jl.tail", role="control")
def test_one_nonzero_a_column_breaks_the_bound():
    assert (
        check_tail(512, 0.5, 1.0, law=lambda k, eps, rho: 1 / k).ok is False
    )  # CountSketch on (e_1 + e_2) / sqrt 2


@pytest.mark.claim("jl.tail", role="witness")
def test_two_exponentials_by_hand():
    """k = 2: a X - b Y is a difference of exponentials, and both tails are elementary;
    the integral agrees to a percent.
    """
    for rho, eps in ((0.0, 0.5), (0.3, 0.5)):
        a, b = (1 + rho) / 2, (1 - rho) / 2
        below = 2 * (rho - eps)
        low = b * math.exp(below / (2 * b)) if below < 0 else None
        exact = a * math.exp(-(rho + eps) / a) + low
        assert chance(2, eps, rho) == pytest.approx(exact, rel=1e-2)
        assert exact <= failure_bound(2, eps, sharp=True)
    assert mpmath.mpf(failure_probability(40, 0.25)) > 0


def test_the_inner_product_is_a_difference_of_chi_squares():
    """Frequencies of failures for correlation 0.3 against the integral: within 4
    deviations.
    """
    x, y = torch.zeros(2, 30, dtype=torch.float64)
    x[0], y[0], y[1] = 1.0, 0.3, math.sqrt(1 - 0.09)
    seen = torch.stack([(r @ x) @ (r @ y) for r in draws(16, 30, 4000)])
    p = chance(16, 0.25, 0.3)
    assert abs(float(((seen - 0.3).abs() > 0.25).double().mean()) - p) < 4 * math.sqrt(
        p * (1 - p) / 4000
    )


# --- the formula and its floor


def check_floor(n, *, exact=False):
    """n minus the least k that 5 ln n / (eps^2 - eps^3) asks for, over a grid of eps
    with its best point 2/3; at most 0.

    exact: what the chi-square law asks for, at the same failure 2 n^(-1/4), union over
    n rows.
    """
    grid = [i / 60 for i in range(1, 60)]
    asked = [5 * math.log(n) / (e * e - e**3) for e in grid]
    if exact:
        asked = [required_dimension(e, 2 * n**-0.25, union=n) for e in grid]
    return at_most(n - min(asked), 0)


def check_formula(union, *, exact=False, eps=0.5, delta=0.05):
    """What the required dimension leaves of failures, summed over the union: at most
    delta, with 1e-12 for rounding up.
    """
    k = required_dimension(eps, delta, union=union, exact=exact)
    return at_most(
        union * (failure_probability if exact else failure_bound)(k, eps),
        delta * (1 + 1e-12),
    )


@pytest.mark.claim("jl.floor", role="check")
@pytest.mark.parametrize("union", [1, 512, 512 * 64])
@pytest.mark.parametrize("exact", [True, False])
def test_formula(union, exact):
    assert check_formula(union, exact=exact).ok


@pytest.mark.claim("jl.floor", role="check")
@pytest.mark.parametrize("n", [2, 16, 100, 174])
def test_floor(n):
    assert check_floor(n).ok
    assert all(
        Fraction(i, 60) ** 2 - Fraction(i, 60) ** 3 <= Fraction(4, 27)
        for i in range(61)
    )


@pytest.mark.claim("jl.floor", role="control")
def test_the_exact_law_has_no_such_floor():
    assert check_floor(174, exact=True).ok is False
    assert check_floor(175).ok is False  # and 174 is the end


@pytest.mark.claim("jl.floor", role="certificate")
def test_the_root():
    """f(n) = 33.75 ln n - n is concave; its signs at 1.04, 2, 174.146 and 174.148 in
    interval arithmetic bracket the roots.
    """
    iv = mpmath.iv

    def f(v):
        return iv.mpf("33.75") * iv.log(iv.mpf(v)) - iv.mpf(v)

    assert f("2").a > 0 and f("174.146").a > 0 and f("174.148").b < 0


@pytest.mark.claim("jl.floor", role="witness")
def test_the_failure_at_the_formula():
    for n in (16, 512, 65536):
        k = 5 * math.log(n) / 0.125  # eps = 1/2: eps^2 - eps^3 = 0.125
        assert 2 * n * math.exp(-0.125 * k / 4) == pytest.approx(
            2 * n**-0.25, rel=1e-12
        )
    assert 2 * 16**-0.25 == 1.0


# --- families


def check_families(family, *, s=1, centred=True, k=6, n=10, count=3000):
    """The largest entry of |mean of R'R - I| in standard errors, at most 5.
    centred=False: |R|, whose entries have a mean.
    """
    drawn = torch.stack(
        [
            r if centred else r.abs()
            for r in draws(
                k, n, count, family, **({"s": s} if family == "sparse" else {})
            )
        ]
    )
    grams = drawn.mT @ drawn - torch.eye(n, dtype=torch.float64)
    error = grams.std(0) / math.sqrt(count)
    return at_most((grams.mean(0).abs() / error.clamp_min(1e-12)).max(), 5)


@pytest.mark.claim("jl.families", role="check")
@pytest.mark.parametrize(("family", "s"), [(f, 1) for f in FAMILIES] + [("sparse", 3)])
def test_families(family, s):
    assert check_families(family, s=s).ok


@pytest.mark.claim("jl.families", role="control")
@pytest.mark.parametrize("family", ["gaussian", "rademacher", "sparse"])
def test_entries_with_a_mean(family):
    assert check_families(family, centred=False).ok is False


@pytest.mark.claim("jl.families", role="witness")
def test_srht_exactly():
    """n = 4, k = 2: all signs and all ordered pairs of rows, in integers."""
    rows = [(1, 1, 1, 1), (1, -1, 1, -1), (1, 1, -1, -1), (1, -1, -1, 1)]
    total, cases = [[0] * 4 for _ in range(4)], 0
    for signs in itertools.product((1, -1), repeat=4):
        for pair in itertools.permutations(rows, 2):
            cases += 1
            for i, j in itertools.product(range(4), repeat=2):
                total[i][j] += signs[i] * signs[j] * sum(r[i] * r[j] for r in pair)
    assert total == [
        [2 * cases if i == j else 0 for j in range(4)] for i in range(4)
    ]  # k E[R'R] = 2 I


def check_srht_twin(k=6, n=20):
    """The fast SRHT of the unit vectors against the matrix; the largest entry of the
    difference, at most 1e-12.
    """
    fast = srht(torch.eye(n, dtype=torch.float64), k, generator=gen(1))
    return at_most(
        (fast.T - projection(k, n, "srht", generator=gen(1))).abs().max(), 1e-12
    )


@pytest.mark.claim("jl.families", role="witness")
def test_srht_twin():
    assert check_srht_twin().ok


def check_collision(k, *, s=1, count=4000):
    """Failures on (e_1 + e_2) / sqrt 2 against the chance 1/k, in binomial deviations,
    at most 4.
    """
    failures = sum(
        abs(float((r[:, 0] + r[:, 1]).square().sum()) / 2 - 1) > 0.5
        for r in draws(k, 2 * k, count, "sparse", s=s)
    )
    return at_most(
        abs(failures / count - 1 / k) / math.sqrt((1 - 1 / k) / k / count), 4
    )


@pytest.mark.claim("jl.countsketch", role="check")
@pytest.mark.parametrize("k", [2, 8, 32])
def test_collision(k):
    assert check_collision(k).ok


@pytest.mark.claim("jl.countsketch", role="control")
def test_four_nonzeros_collide_less():
    assert check_collision(16, s=4).ok is False


@pytest.mark.claim("jl.countsketch", role="witness")
def test_collision_exactly():
    """All rows and signs of two columns, k = 3: the squared norm is 0 or 2 in a third
    of the cases, else 1.
    """
    norms = []
    for i, j, a, b in itertools.product(range(3), range(3), (1, -1), (1, -1)):
        column = [a * (row == i) + b * (row == j) for row in range(3)]
        norms.append(Fraction(sum(v * v for v in column), 2))
    assert Fraction(sum(v != 1 for v in norms), len(norms)) == Fraction(1, 3) and set(
        norms
    ) == {0, 1, 2}


# --- the mean-square law


def law(p, w, k, kappa=3):
    """(|P|_F^2 |w|^2 + |P w|^2 + (kappa - 3) sum_j w_j^2 |P e_j|^2) / k, exactly."""
    columns = sum(w[j][0] ** 2 * sum(row[j] ** 2 for row in p) for j in range(len(w)))
    return (squares(p) * squares(w) + squares(times(p, w)) + (kappa - 3) * columns) / k


def check_mean_square(family, kappa, k=2):
    """|E |P R'R w - P w|^2 - the law|, both in fractions: at most 0."""
    target = times(P3, W3)
    mean = exact_mean(
        k, 3, family, lambda g: squares(minus(times(P3, times(g, W3)), target))
    )
    return at_most(abs(mean - law(P3, W3, k, kappa)), 0)


def check_law_of_the_kernel(family="gaussian", kappa=3, n=48, k=12, count=400):
    """The mean square over draws of jl_surrogate against the law; relative, at most
    0.15.
    """
    p, w, g = softmax_matrix(n), randn(n, 1, seed=1), gen(2)
    error = [
        (jl_surrogate(p, k, w, family=family, generator=g) - p @ w).square().sum()
        for _ in range(count)
    ]
    wanted = law(p.tolist(), w.tolist(), k, kappa)
    return at_most(abs(float(sum(error)) / count / wanted - 1), 0.15)


@pytest.mark.claim("jl.mean-square", role="check")
@pytest.mark.parametrize(("family", "kappa"), [("three-point", 3), ("rademacher", 1)])
def test_mean_square(family, kappa):
    assert (
        check_mean_square(family, kappa).ok and check_mean_square(family, kappa, k=1).ok
    )


@pytest.mark.claim("jl.mean-square", role="control")
def test_signs_with_the_gaussian_law():
    assert check_mean_square("rademacher", 3).ok is False


@pytest.mark.claim("jl.mean-square", role="witness")
@pytest.mark.parametrize("family", ["gaussian", "achlioptas"])
def test_the_kernel_follows_the_law(family):
    assert check_law_of_the_kernel(family).ok


# --- the relative form


def ones(r):
    """The vector 1, whatever R is."""
    return torch.ones(r.shape[1], 1, dtype=torch.float64)


def nearly_fixed(r):
    """A w that looks at R: its right singular vector with the singular value nearest to
    1.
    """
    _, s, vh = torch.linalg.svd(r, full_matrices=False)
    return vh[(s - 1).abs().argmin(), :, None]


def success(p, w, k, eps, *, count, relative=True):
    """How often |P R'R w - P w| <= eps |P w|, or <= eps |P|_F |w|, over draws; w is a
    function of R.
    """
    hits = 0
    for seed in range(count):
        v = w(projection(k, p.shape[1], generator=gen(seed)))  # the R of the next line
        off = (jl_surrogate(p, k, v, generator=gen(seed)) - p @ v).norm()
        hits += bool(off <= eps * ((p @ v).norm() if relative else p.norm() * v.norm()))
    return hits / count


def check_relative(n, k, eps, *, count=60):
    """The printed claim for P = I: a success chance above one half. The verdict on
    failure is one minus the frequency.
    """
    return at_most(
        1 - success(torch.eye(n, dtype=torch.float64), ones, k, eps, count=count), 0.5
    )


def check_relative_fails(n, k, eps, *, p=None, w=ones, count=60):
    """The repaired claim: for P = I the chance of success is at most the bound; the
    frequency may exceed it by 0.
    """
    gamma = 2 * k * (1 - math.sqrt(1 - eps * eps)) / (n - 1)
    bound = math.exp(-(n - 1) * (gamma - 1 - math.log(gamma)) / 2)
    p = torch.eye(n, dtype=torch.float64) if p is None else p
    return at_most(success(p, w, k, eps, count=count), max(bound, 1 / (2 * count)))


@pytest.mark.claim("jl.relative", role="check")
@pytest.mark.parametrize(("n", "k"), [(512, 250), (512, 511), (100, 60)])
def test_relative_fails(n, k):
    assert check_relative_fails(n, k, 0.5).ok


@pytest.mark.claim("jl.relative", role="control")
def test_a_column_that_looks_at_the_projection():
    assert check_relative_fails(100, 60, 0.5, w=nearly_fixed).ok is False


@pytest.mark.claim("jl.relative", role="control")
def test_flat_attention_in_place_of_the_identity():
    assert (
        check_relative_fails(
            100, 60, 0.5, p=torch.full((100, 100), 0.01, dtype=torch.float64)
        ).ok
        is False
    )


@pytest.mark.claim("jl.relative", role="witness")
@pytest.mark.parametrize("beta", [12.0, 20.0])
def test_softmax_comes_near_the_identity(beta):
    """Logits beta I: condition number 1 + n / (e^beta - 1), and the frequency of
    success is 0.
    """
    n = 300
    p, w = softmax_matrix(n, beta=beta), randn(n, 1)
    s = torch.linalg.svdvals(p)
    assert (
        float(s[0] / s[-1]) == pytest.approx(1 + n / math.expm1(beta), rel=1e-9)
        and s[0] / s[-1] < 1.01
    )
    assert success(p, lambda r: w, 200, 0.5, count=40) == 0.0


@pytest.mark.claim("jl.relative", role="counterexample")
def test_the_identity_certified():
    """n = 512, eps = 1/2, k = 250 of the theorem: the exact chance of success is below
    1e-100, in interval arithmetic.

    Success means (t - 1)^2 + t Y / k <= eps^2 with t = X / k, hence Y <= 2 k (1 -
    sqrt(1 - eps^2)); Chernoff for Y.
    """
    iv = mpmath.iv
    n, k = iv.mpf(512), iv.mpf(250)
    assert (k - 1 < 5 * iv.log(n) / iv.mpf("0.125")) and (
        k > 5 * iv.log(n) / iv.mpf("0.125")
    )
    c = 2 * k * (1 - iv.sqrt(iv.mpf(3) / 4)) / (n - 1)
    exponent = -(n - 1) * (c - 1 - iv.log(c)) / 2
    assert c.b < 1 and (exponent + 100 * iv.log(iv.mpf(10))).b < 0
    assert check_relative(512, 250, 0.5).ok is False


def test_the_law_for_the_identity():
    """|R'Rw - w|^2 for unit w against (t - 1)^2 + t Y / k: mean and chance of an event,
    within 4 deviations.
    """
    n, k, count = 12, 8, 4000
    w = randn(n, seed=3)
    w = w / w.norm()
    seen = torch.stack([(r.T @ (r @ w) - w).square().sum() for r in draws(k, n, count)])
    x = randn(count, k, seed=4).square().sum(1) / k
    y = randn(count, n - 1, seed=5).square().sum(1)
    other = (x - 1).square() + x * y / k
    for cut in (0.5, 1.5, 3.0):
        p, q = (seen <= cut).double().mean(), (other <= cut).double().mean()
        assert abs(float(p - q)) < 4 * math.sqrt(0.5 / count)


def check_rank_one(*, mean=0.0, n=64, k=16, eps=0.5, count=2000):
    """Uniform attention, w with Gaussian entries of the given mean: frequency of
    success minus the bound, in deviations, at most 4.
    """
    bound = 2 / math.pi * math.atan(eps * math.sqrt(k * k / ((k - 2) * (n - 3))))
    g, hits = gen(), 0
    for _ in range(count):
        w = torch.randn(n, dtype=torch.float64, generator=g) + mean
        r = projection(k, n, generator=g)
        hits += bool((r.T @ (r @ w) - w).mean().abs() <= eps * w.mean().abs())
    return at_most((hits / count - bound) / math.sqrt(bound * (1 - bound) / count), 4)


@pytest.mark.claim("jl.rank-one", role="check")
def test_rank_one():
    assert check_rank_one().ok


@pytest.mark.claim("jl.rank-one", role="control")
def test_values_with_a_mean_succeed():
    assert check_rank_one(mean=2.0).ok is False


@pytest.mark.claim("jl.rank-one", role="witness")
def test_rank_one_integral():
    """k = 4, n = 5 by the double integral over both chi-squares, and the first step of
    the proof on its grid.
    """
    k, n, eps = 4, 5, 0.5

    def density(x, m):
        return x ** (m / 2 - 1) * math.exp(-x / 2) / (2 ** (m / 2) * math.gamma(m / 2))

    total = 0.0
    for i, j in itertools.product(range(1, 400), repeat=2):
        x, y = i * 0.1 - 0.05, j * 0.1 - 0.05
        t, s = x / k, math.sqrt(x * y) / k
        both = (math.atan((eps + 1 - t) / s) + math.atan((eps - 1 + t) / s)) / math.pi
        assert both <= 2 / math.pi * math.atan(eps / s) + 1e-15
        total += 0.01 * both * density(x, k) * density(y, n - 1)
    assert (
        0.2
        < total
        <= 2 / math.pi * math.atan(eps * math.sqrt(k * k / ((k - 2) * (n - 3))))
    )


# --- what is true


def noise(r):
    return randn(r.shape[1], 1, seed=1)


def check_normalised(w=ones, *, zero=False, n=512, k=318, eps=0.5, count=30):
    """The worst of |error of row i| / (eps |P_i| |w|) over rows and draws, at most 1. w
    is a function of R; zero: the zero matrix in place of the surrogate.
    """
    p, worst = softmax_matrix(n), 0.0
    for seed in range(count):
        v = w(projection(k, n, generator=gen(seed)))  # the R of the next line
        out = jl_surrogate(p, k, v, generator=gen(seed)) * (not zero)
        worst = max(
            worst,
            float(((out - p @ v)[:, 0].abs() / (p.norm(dim=1) * v.norm())).max()) / eps,
        )
    return at_most(worst, 1)


@pytest.mark.claim("jl.normalised", role="check")
def test_normalised():
    assert required_dimension(0.5, 0.05, union=512, exact=False) == 318
    assert check_normalised(ones).ok and check_normalised(noise).ok


@pytest.mark.claim("jl.normalised", role="control")
def test_a_column_that_knows_the_projection():
    row = softmax_matrix(512)[0]
    assert check_normalised(lambda r: (r.T @ (r @ row) - row)[:, None]).ok is False


def test_where_the_normalised_form_says_something():
    """The zero matrix keeps |P w| <= eps |P|_F |w| exactly for rho >= 1 / eps: it
    passes on noise, and fails on w = 1.
    """
    p = softmax_matrix(512)
    for w, passes in ((noise, True), (ones, False)):
        v = w(p)
        rho = float(p.norm() * v.norm() / (p @ v).norm())
        assert (rho >= 2) is passes and bool(
            (p @ v).norm() <= 0.5 * p.norm() * v.norm()
        ) is passes
        assert check_normalised(w, zero=True, count=1).ok is passes
    eye = torch.eye(512, dtype=torch.float64)  # at w = 1, rho is |P|_F
    assert float(eye.norm()) == pytest.approx(22.627, abs=1e-3) and float(
        p.norm()
    ) == pytest.approx(1.6356, abs=1e-4)


@pytest.mark.claim("jl.normalised", role="witness")
def test_markov():
    """k = 2 / (eps^2 delta) rows, whatever n: the frequency of |error| > eps |P|_F |w|
    is at most delta.
    """
    for n in (100, 300):
        k = round(2 / (0.25 * 0.1))
        assert (
            success(softmax_matrix(n), noise, k, 0.5, count=100, relative=False) >= 0.9
        )


def check_existence(p, w, built_for):
    """|(P v) v' w / |v|^2 - P w|^2 in fractions for v = built_for: at most 0."""
    target, unit = times(p, built_for), squares(built_for)
    surrogate = [[t[0] * v[0] / unit for v in built_for] for t in target]
    assert certify.rank(surrogate) == 1
    return at_most(squares(minus(times(surrogate, w), times(p, w))), 0)


@pytest.mark.claim("jl.existence", role="check")
def test_existence():
    assert check_existence(P3, W3, W3).ok


@pytest.mark.claim("jl.existence", role="control")
def test_another_column():
    other = [[Fraction(1)], [Fraction(1)], [Fraction(1)]]
    assert check_existence(P3, other, W3).ok is False


@pytest.mark.claim("jl.existence", role="witness")
def test_all_columns_of_v():
    p, v = softmax_matrix(40), randn(40, 6)
    s = p @ v @ torch.linalg.pinv(v)
    assert torch.linalg.matrix_rank(s) == 6 and (s @ v - p @ v).abs().max() < 1e-12


@pytest.mark.claim("jl.existence", role="witness")
def test_every_rank_for_one_column():
    """P w w' / |w|^2 plus a matrix of rank k - 1 that maps w to zero and whose range
    does not hold P w.
    """
    p, w = softmax_matrix(12), randn(12, 1)
    basis = torch.linalg.qr(torch.cat([w, randn(12, 11, seed=1)], 1))[0]
    images = torch.cat([p @ w, randn(12, 11, seed=2)], 1)
    for k in (1, 4, 12):
        s = p @ w @ w.T / (w.T @ w) + images[:, 1:k] @ basis[:, 1:k].T
        assert torch.linalg.matrix_rank(s) == k and (s @ w - p @ w).abs().max() < 1e-12


def check_uniform(n, k, rank, beta=8.0):
    """sigma_{k+1} minus the spectral error of surrogates of the given rank, at most 64
    eps. P = softmax(beta I).
    """
    p = softmax_matrix(n, beta=beta)
    sigma = math.expm1(beta) / (math.exp(beta) + n - 1)
    u, s, vh = torch.linalg.svd(p)
    v = randn(n, rank, seed=4)
    best = (u[:, :rank] * s[:rank]) @ vh[:rank]
    others = [
        best,
        p @ v @ torch.linalg.pinv(v),
        jl_surrogate(p, rank, generator=gen()),
    ]
    spectral = max(sigma - float(torch.linalg.matrix_norm(p - q, 2)) for q in others)
    frobenius = max(
        float(s[k:].square().sum() - (p - q).square().sum()) for q in others
    )  # n times the mean square
    return at_most(max(spectral, frobenius), 64 * EPS)


@pytest.mark.claim("jl.uniform", role="check")
@pytest.mark.parametrize("k", [1, 7, 23])
def test_uniform(k):
    assert check_uniform(24, k, k).ok


@pytest.mark.claim("jl.uniform", role="control")
def test_full_rank_is_exact():
    assert check_uniform(24, 23, 24).ok is False


@pytest.mark.claim("jl.uniform", role="witness")
def test_truncation_attains_it():
    p = softmax_matrix(30, seed=2)
    u, s, vh = torch.linalg.svd(p)
    for k in (1, 5, 29):
        off = torch.linalg.matrix_norm(p - (u[:, :k] * s[:k]) @ vh[:k], 2)
        assert abs(float(off - s[k])) < 1e-12


@pytest.mark.claim("jl.uniform", role="witness")
def test_most_columns_are_far_from_a_range():
    """P = I: the squared distance of a uniform unit w to a range of dimension k is
    Beta((n - k) / 2, k / 2); mean and spread.
    """
    n, k, count = 60, 20, 4000
    basis = torch.linalg.qr(randn(n, k, seed=1))[0]
    w = randn(n, count, seed=2)
    w = w / w.norm(dim=0)
    far = 1 - (basis.T @ w).square().sum(0)
    spread = math.sqrt(2 * k * (n - k) / (n * n * (n + 2)))
    assert spread < 1 / math.sqrt(2 * n)
    assert abs(float(far.mean()) - (1 - k / n)) < 4 * spread / math.sqrt(count)
    assert float(far.std()) == pytest.approx(spread, rel=0.1)
    surrogate = jl_surrogate(torch.eye(n, dtype=torch.float64), k, generator=gen())
    assert (
        (surrogate @ w - w).square().sum(0)
        >= 1 - (torch.linalg.qr(surrogate[:, :k])[0].T @ w).square().sum(0) - 1e-9
    ).all()


def check_worse(family="three-point", c=Fraction(1), k=2):
    """|E |c P R'R - P|_F^2 / |P|_F^2 - (n + 1) / k| in fractions, at most 0."""

    def scaled(m):
        return [[c * v for v in row] for row in m]

    mean = exact_mean(k, 3, family, lambda g: squares(minus(scaled(times(P3, g)), P3)))
    return at_most(abs(mean / squares(P3) - Fraction(4, k)), 0)


@pytest.mark.claim("jl.worse-than-zero", role="check")
def test_worse_than_zero():
    assert check_worse().ok and check_worse(k=1).ok


@pytest.mark.claim("jl.worse-than-zero", role="control")
def test_signs_lose_two():
    assert check_worse("rademacher").ok is False  # (n - 1) / k


@pytest.mark.claim("jl.worse-than-zero", role="witness")
def test_shrinkage():
    """c = k / (n + k + 1) leaves 1 - c exactly; the kernel has (n + 1) / k to 10%."""
    k, n = 2, 3
    c = Fraction(k, n + k + 1)
    mean = exact_mean(
        k,
        n,
        "three-point",
        lambda g: squares(minus([[c * v for v in row] for row in times(P3, g)], P3)),
    )
    assert mean / squares(P3) == 1 - c
    assert check_surrogate_size().ok


def check_surrogate_size(n=64, k=16, count=100):
    """The mean of |P R'R - P|_F^2 / |P|_F^2 over draws against (n + 1) / k; relative,
    at most 0.1.
    """
    p, g = softmax_matrix(n), gen(1)
    mean = (
        sum(
            float((jl_surrogate(p, k, generator=g) - p).square().sum())
            for _ in range(count)
        )
        / count
    )
    return at_most(abs(mean / float(p.square().sum()) * k / (n + 1) - 1), 0.1)


# --- two slips


def check_normaliser(side="left", half_power=1):
    """Is softmax(A / sqrt(d_qk)) an exponential times a diagonal on that side? d_qk =
    4, A = ln 2 [[0, 2], [0, 0]].

    half_power 1: exp(A / 2) = [[1, 2], [1, 1]]; 4: exp(2 A) = [[1, 16], [1, 1]]. Each
    row (left) or column (right) must need one factor only: the largest spread of the
    factors it needs, whatever the diagonal. On the left, the factor must also be one
    over the row sum. At most 0.
    """
    e = [
        [
            Fraction(2) ** half_power if (i, j) == (0, 1) else Fraction(1)
            for j in range(2)
        ]
        for i in range(2)
    ]
    wanted = [[Fraction(1, 3), Fraction(2, 3)], [Fraction(1, 2), Fraction(1, 2)]]
    need = [[wanted[i][j] / e[i][j] for j in range(2)] for i in range(2)]
    spread = max(
        max(line) - min(line) for line in (need if side == "left" else zip(*need))
    )
    sums = [abs(need[i][0] * sum(e[i]) - 1) for i in range(2)] if side == "left" else []
    return at_most(max([spread, *sums]), 0)


@pytest.mark.claim("jl.normaliser", role="check")
def test_normaliser():
    assert check_normaliser().ok


@pytest.mark.claim("jl.normaliser", role="control")
@pytest.mark.claim("jl.normaliser", role="counterexample")
def test_the_printed_normaliser():
    assert check_normaliser(side="right").ok is False
    assert check_normaliser(half_power=4).ok is False
    assert check_normaliser(side="right", half_power=4).ok is False  # as printed


@pytest.mark.claim("jl.normaliser", role="witness")
def test_softmax_itself():
    a = math.log(2) * torch.tensor([[0.0, 2.0], [0.0, 0.0]], dtype=torch.float64)
    wanted = torch.tensor([[1 / 3, 2 / 3], [1 / 2, 1 / 2]], dtype=torch.float64)
    assert (torch.softmax(a / 2, -1) - wanted).abs().max() < 1e-15


def check_rank(k, rank, *, independent=True, n=8):
    """|rank(P R'R) - min(k, rank P)| in fractions of the drawn floats, at most 0.
    independent=False: R has two equal rows.
    """
    g = gen(k)
    integers = (
        torch.randint(1, 9, (n, rank), generator=g).double()
        @ torch.randint(1, 9, (rank, n), generator=g).double()
    )
    r = projection(k, n, generator=g)
    r = r if independent else torch.cat([r[:-1], r[:1]])
    r = (r * 2**20).round()  # few digits, so that fractions stay short
    p = certify.exact(integers)
    assert certify.rank(p) == rank
    exact = certify.exact(r)
    got = certify.rank(times(times(p, [list(c) for c in zip(*exact)]), exact))
    return at_most(abs(got - min(k, rank)), 0)


@pytest.mark.claim("jl.rank", role="check")
@pytest.mark.parametrize(("k", "rank"), [(3, 8), (5, 5), (6, 2), (8, 8)])
def test_rank(k, rank):
    assert check_rank(k, rank).ok


@pytest.mark.claim("jl.rank", role="control")
def test_equal_rows_lose_rank():
    assert check_rank(3, 8, independent=False).ok is False


@pytest.mark.claim("jl.rank", role="counterexample")
def test_uniform_attention_keeps_rank_one():
    """Exactly, in fractions, for every k up to n: neither log n nor its square."""
    for k in (1, 4, 9):
        r = certify.exact((projection(k, 9, generator=gen(k)) * 2**20).round())
        uniform = [[Fraction(1, 9)] * 9 for _ in range(9)]
        assert certify.rank(times(times(uniform, [list(c) for c in zip(*r)]), r)) == 1


@pytest.mark.claim("jl.rank", role="witness")
def test_the_kernel_has_that_rank():
    assert (
        torch.linalg.matrix_rank(
            jl_surrogate(softmax_matrix(40, beta=5.0), 7, generator=gen())
        )
        == 7
    )
