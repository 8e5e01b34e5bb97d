"""The claims of notebooks/one_layer_memorization/boltzmann_and_hardmax: each check, and
its control.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

import flint
import mpmath
import pytest
import torch

from attnlib import certify
from attnlib.attention import Layer, forward, hardmax
from attnlib.certify import at_most
from attnlib.memorize import (
    boltzmann,
    boltzmann_literal,
    derivatives,
    log_separation_bound,
    needed_gap,
    separation,
)

EPS = torch.finfo(torch.float64).eps
ENDS, NEAR = (1, 2, 5, 6), (1, 3, 4, 6)
BETA = math.acosh(1 + 1 / math.sqrt(2))


def drop(n):
    return float(mpmath.lambertw((n - 1) / math.e).real)


def arb_gap(a, b, s, bits=2000):
    """The plain difference of two averages of floats and fractions in balls of another
    library.
    """

    def exact(q):
        return flint.arb(flint.fmpq(Fraction(q).numerator, Fraction(q).denominator))

    before, flint.ctx.prec = flint.ctx.prec, bits
    try:

        def mean(values):
            weights = [(exact(s) * exact(v)).exp() for v in values]
            return sum(
                (exact(v) * w for v, w in zip(values, weights)), flint.arb(0)
            ) / sum(weights, flint.arb(0))

        return mean(a) - mean(b)
    finally:
        flint.ctx.prec = before


# --- the operator


def check_operator(n=6, *, heat=1.0):
    """|boltz - (LSE - S)|, and by how much the drop below the maximum misses its law
    W((n - 1) / e); 64 eps of the size.

    heat other than 1: the weights are the softmax of other logits than those they
    average.
    """
    a = 4 * torch.randn(
        500, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64
    )
    a[0] = torch.tensor([0.0] + [-1 - drop(n)] * (n - 1), dtype=a.dtype)
    p = torch.softmax(a / heat, -1)
    mean = boltzmann(a) if heat == 1 else (p * a).sum(-1)
    entropy = -(p * p.log()).nansum(-1)
    low = a.amax(-1) - mean
    wrong = (mean - (torch.logsumexp(a, -1) - entropy)).abs().max()
    beyond = (
        (low - drop(n)).max().abs()
    )  # attained by the row that was put there, and by no other exceeded
    return at_most(max(wrong, beyond), 64 * EPS * 20)


@pytest.mark.claim("boltzmann.operator", role="check")
@pytest.mark.parametrize("n", [2, 6, 40])
def test_log_sum_exp_minus_entropy(n):
    assert check_operator(n).ok


@pytest.mark.claim("boltzmann.operator", role="control")
def test_weights_of_other_logits():
    assert check_operator(heat=1.5).ok is False


@pytest.mark.claim("boltzmann.operator", role="witness")
def test_by_hand():
    a = torch.tensor([0.0, math.log(3)], dtype=torch.float64)
    assert (
        float(boltzmann(a))
        == pytest.approx(0.75 * math.log(3))
        == float(boltzmann_literal(a))
    )


def check_regions(shift=0.0, *, which=0, literal=boltzmann_literal):
    """The largest slope (which = 0) or curvature, over p_i, of entries below the
    maximum by more than the law plus shift.

    Formulas are held against automatic differentiation as well.
    """
    g, worst = torch.Generator().manual_seed(3), -math.inf
    for n in (2, 3, 8, 30):
        need = (1 + drop(n) if which == 0 else math.log(n) + 3) + shift
        a = 6 * torch.rand(200, n, generator=g, dtype=torch.float64)
        a[:, 0] = (
            a[:, 1:].amax(-1)
            - need
            - 1e-9
            - torch.rand(200, generator=g, dtype=torch.float64)
        )
        a[0] = torch.tensor(
            [-need - 1e-9] * (n - 1) + [0.0], dtype=a.dtype
        )  # where the slope law is attained
        first, second = derivatives(a)
        x = a.clone().requires_grad_()
        slope = torch.autograd.grad(literal(x).sum(), x, create_graph=True)[0]
        bend = torch.autograd.grad(slope[:, 0].sum(), x)[0][:, 0]
        off = max((slope - first).abs().max(), (bend - second[:, 0]).abs().max())
        p = torch.softmax(a, -1)[:, 0]
        worst = max(
            worst,
            float(((first, second)[which][:, 0] / p).max()),
            math.inf if off > 1e-12 else -math.inf,
        )
    return at_most(worst, 0)


@pytest.mark.claim("boltzmann.regions", role="check")
@pytest.mark.parametrize("which", [0, 1])
def test_slope_and_curvature_are_negative_far_below(which):
    assert check_regions(which=which).ok


@pytest.mark.claim("boltzmann.regions", role="control")
def test_a_little_nearer_the_slope_is_positive():
    assert check_regions(-0.05).ok is False and check_regions(-3.0, which=1).ok is False


@pytest.mark.claim("boltzmann.regions", role="witness")
def test_there_are_entries_on_both_sides():
    first, _ = derivatives(torch.tensor([0.0, -1.0, -5.0], dtype=torch.float64))
    assert first[1] > 0 > first[2]


# --- the separation lemmas


def instances(kind, seed=0, count=60):
    """Pairs of vectors on grids that are as fine as the lemma allows, exactly, among
    them those that differ at the bottom.
    """
    g = random.Random(seed)
    for trial in range(count):
        n = g.randint(2, 6)
        delta = Fraction(math.ceil(1024 * needed_gap(n, kind=kind)), 1024)
        places, level = [], Fraction(0)
        for _ in range(n + g.randint(1, 3)):
            places.append(level)
            level -= delta * (1 if trial % 2 else Fraction(g.randint(8, 12), 8))
        draw = g.sample if kind == "distinct" else g.choices
        a, b = draw(places, k=n), draw(places, k=n)
        if trial % 3 == 0:
            a, b = [*places[: n - 1], places[n - 1]], [*places[: n - 1], places[n]]
        if sorted(a) != sorted(b):
            yield a, b


def nearest_multisets(n):
    """n equal values, and one of them one step of the lemma lower, as exactly as
    floats hold it.
    """
    delta = Fraction(math.ceil(1024 * needed_gap(n, kind="multiset")), 1024)
    return [delta] * n, [delta] * (n - 1) + [Fraction(0)]


def check_lemma(kind="distinct", pairs=None):
    """How far bound / distance goes above 1 in logarithms, the distance certified; the
    library's bound is the formula.
    """
    worst, off = -math.inf, 0.0
    for a, b in pairs or instances(kind):
        values = sorted({*a, *b})
        delta, rho = (
            float(min(y - x for x, y in zip(values, values[1:]))),
            float(values[-1] - values[0]),
        )
        many = math.log(len(a) - 1)
        formula = (
            math.log(0.9 * delta)
            - rho
            + (delta + many if kind == "distinct" else -many)
        )
        gap = certify.boltzmann_gap(a, b)
        worst = max(worst, formula - gap.log10 * math.log(10) if gap.sign else math.inf)
        if pairs is None:
            off = max(
                off, abs(log_separation_bound(len(a), delta, rho, kind=kind) - formula)
            )
            paper = log_separation_bound(len(a), delta, rho, kind="paper")
            off = max(
                off, paper - formula if kind == "distinct" else 0.0
            )  # the paper's is the smaller one
    return at_most(max(worst, math.inf if off > 1e-9 else -math.inf), 0)


@pytest.mark.claim("boltzmann.lemma", role="check")
def test_distinct_values_stay_apart():
    assert check_lemma().ok


@pytest.mark.claim("boltzmann.lemma", role="control")
def test_values_too_close():
    at = Fraction(BETA)
    assert (
        check_lemma(pairs=[([at * v for v in ENDS], [at * v for v in NEAR])]).ok
        is False
    )


@pytest.mark.claim("boltzmann.lemma", role="control")
def test_values_that_repeat():
    assert (
        check_lemma(pairs=[([Fraction(0)] * 2, [Fraction(0), Fraction(-5)])]).ok
        is False
    )


@pytest.mark.claim("boltzmann.lemma", role="witness")
def test_the_bound_is_nearly_attained():
    delta = Fraction(math.ceil(1024 * needed_gap(2)), 1024)
    a, b = [0, -delta], [0, -2 * delta]
    bound = separation(
        *(torch.tensor([float(v) for v in s], dtype=torch.float64) for s in (a, b))
    )
    ratio = 10 ** (certify.boltzmann_gap(a, b).log10) / math.exp(bound.log_bound)
    assert bound.kind == "distinct" and ratio == pytest.approx(1.0698, abs=2e-4)


@pytest.mark.claim("boltzmann.multisets", role="check")
def test_multisets_stay_apart():
    pairs = [nearest_multisets(n) for n in range(2, 9)]
    assert check_lemma("multiset").ok and check_lemma("multiset", pairs).ok


@pytest.mark.claim("boltzmann.multisets", role="control")
def test_sizes_that_differ():
    assert (
        check_lemma(
            "multiset",
            pairs=[([Fraction(0), Fraction(-9)], [Fraction(0), Fraction(-9)] * 2)],
        ).ok
        is False
    )


@pytest.mark.claim("boltzmann.multisets", role="witness")
@pytest.mark.parametrize(
    ("n", "ratio"), [(2, 1.1042), (3, 1.1099), (4, 1.1108), (8, 1.1111)]
)
def test_the_multiset_bound_is_nearly_attained(n, ratio):
    a, b = nearest_multisets(n)
    bound = log_separation_bound(n, float(a[0]), float(a[0]), kind="multiset")
    log_ratio = certify.boltzmann_gap(a, b).log10 * math.log(10) - bound
    assert math.exp(log_ratio) == pytest.approx(ratio, abs=2e-4)


# --- certified gaps


def deep_pair(K=8, n=4):
    """The pair, the query and beta of the construction with the smallest gap: tokens 1
    + k / (K - 1).
    """
    z = [1 + Fraction(k, K - 1) for k in range(K)]
    beta = Fraction((K + 1) ** 4 * math.pi * (2 * math.log(n) + 3) * (K - 1) / 8)
    top = z[K - n + 1 :]
    return [z[0], *top], [z[1], *top], beta * z[-1], beta


def check_gap(K=8, n=4, *, subtract=False):
    """Relative error of a gap from 128 bits against balls of another library that can
    afford the plain difference; 2^-60.
    """
    a, b, s, _ = deep_pair(K, n)
    if subtract:
        with mpmath.workprec(128):

            def of(v):
                return mpmath.fsum(
                    x * mpmath.exp(t * (x - 2)) for x, t in v
                ) / mpmath.fsum(mpmath.exp(t * (x - 2)) for x, t in v)

            def number(q):
                return mpmath.mpf(q.numerator) / q.denominator

            got = of([(number(x), number(s)) for x in a]) - of(
                [(number(x), number(s)) for x in b]
            )
            lower = upper = got
    else:
        gap = certify.boltzmann_gap(a, b, scale=s)
        lower, upper = gap.lower, gap.upper
    digits = abs(certify.boltzmann_gap(a, b, scale=s).log10)
    wanted = arb_gap(a, b, s, bits=2_000 + int(digits * 3.33) + 8 * K**5)
    with mpmath.workprec(400):
        wanted = mpmath.mpf(wanted.str(60, radius=False, more=True))
        return at_most(max(abs(lower / wanted - 1), abs(upper / wanted - 1)), 2.0**-60)


@pytest.mark.claim("boltzmann.gap", role="check")
@pytest.mark.parametrize(("K", "n"), [(4, 3), (6, 4), (8, 4)])
def test_few_bits_certify_a_tiny_gap(K, n):
    assert check_gap(K, n).ok


@pytest.mark.claim("boltzmann.gap", role="control")
def test_subtracting_loses_everything():
    assert check_gap(4, 3, subtract=True).ok is False


@pytest.mark.claim("boltzmann.gap", role="witness")
@pytest.mark.parametrize(
    ("K", "n", "wanted"), [(4, 3, -2217.48), (6, 4, -18912), (8, 4, -77513)]
)
def test_the_smallest_gap_is_so_small(K, n, wanted):
    """With the skip weight 1 / (8 (K - 1)), and over all pairs of sets at one query."""
    z = [1 + Fraction(k, K - 1) for k in range(K)]
    *_, beta = deep_pair(K, n)
    found = [
        certify.smallest_gap(
            [(c, s) for s in combinations(z, n) if c in s],
            beta=beta,
            weight=Fraction(1, 8 * (K - 1)),
            bits=64,
        )[0].log10
        for c in z[-2:]
    ]
    assert min(found) == found[-1] == pytest.approx(wanted, abs=0.7 if K > 4 else 0.05)


@pytest.mark.claim("boltzmann.gap", role="witness")
def test_the_statement_names_the_gap_of_the_averages():
    a, b, s, _ = deep_pair()
    gap = certify.boltzmann_gap(a, b, scale=s, bits=128)
    assert (
        -77512 < gap.log10 < -77511 and (gap.upper - gap.lower) / abs(gap.lower) < 1e-30
    )


# --- hardmax


def draw_heads(g, d=3):
    """One to three heads of integer weights and any rank; in one of four all scores
    tie.
    """
    for _ in range(g.randint(1, 3)):
        s = g.randint(1, 3)

        def make(rows, columns):
            return [[g.randint(-3, 3) for _ in range(columns)] for _ in range(rows)]

        keys = make(d, s) if g.random() < 0.75 else [[0] * s] * d
        yield make(d, s), keys, make(d, s), make(s, d)


def check_hardmax(first=ENDS, second=NEAR, *, nets=150):
    """Nets of 150, in Fractions, that give the shared end tokens different outputs in
    the two sequences; none may.
    """
    g, apart = random.Random(0), 0
    for _ in range(nets):
        base, step = ([g.randint(-3, 3) for _ in range(3)] for _ in range(2))
        step[0] = step[0] or 1
        x, y = (
            [[b + t * s for b, s in zip(base, step)] for t in ts]
            for ts in (first, second)
        )
        heads = list(draw_heads(g))
        u, v = certify.hardmax_layer(x, heads), certify.hardmax_layer(y, heads)
        apart += u[0] != v[0] or u[-1] != v[-1]
    return at_most(apart, 0)


def check_float_nets(normalizer="hardmax", nets=200, weights=hardmax):
    """The largest relative difference at the shared tokens over random float networks;
    1e-12.
    """
    g, worst = torch.Generator().manual_seed(5), 0.0

    def normal(*size):
        return torch.randn(*size, generator=g, dtype=torch.float64)

    assert torch.equal(weights(torch.ones(2)), torch.full((2,), 0.5))
    for net in range(nets):
        base, step = normal(8), normal(8)
        x, y = (
            base + torch.tensor(t, dtype=torch.float64)[:, None] * step
            for t in (ENDS, NEAR)
        )
        q, k, v, o = normal(4, 8, 3), normal(4, 8, 3), normal(4, 8, 3), normal(4, 3, 8)
        layer = Layer(q, k * (net % 10 > 0), v, o)
        u, w = (
            forward(t, [layer], skip=True, normalizer=normalizer)[[0, 3]]
            for t in (x, y)
        )
        worst = max(worst, float((u - w).abs().max() / u.abs().max()))
    return at_most(worst, 1e-12)


@pytest.mark.claim("boltzmann.hardmax", role="check")
def test_hardmax_gives_shared_tokens_one_output():
    assert check_hardmax().ok and check_float_nets().ok


@pytest.mark.claim("boltzmann.hardmax", role="control")
def test_sums_that_differ_or_softmax():
    assert check_hardmax((1, 2, 4), (1, 3, 4)).ok is False
    assert check_float_nets("softmax").ok is False


@pytest.mark.claim("boltzmann.hardmax", role="witness")
def test_softmax_tells_them_apart():
    x, y = (torch.tensor(t, dtype=torch.float64) for t in (ENDS, NEAR))
    found = [
        float((boltzmann(s * x) - boltzmann(s * y)) / s) for s in (0.1, 0.3, 1.0, 3.0)
    ]
    assert found == pytest.approx([0.097, 0.224, 0.040, -0.042], abs=6e-4)


def check_base(n, base, tokens=5):
    """Pairs of multisets of n tokens lost when uniform attention averages base^k;
    none.
    """
    bags = list(combinations_with_replacement(range(tokens), n))
    return at_most(len(bags) - len({sum(base**k for k in bag) for bag in bags}), 0)


def check_layer(n, *, value=1, skip=False, one_query=True, tokens=4):
    """Pairs of different multisets with one output of a hardmax layer with W_K = 0 and
    W_V W_O = value, in Fractions; none.

    Token k is the number (n + 1)^k. one_query: only outputs at one and the same query
    token are compared.
    """
    seen = []
    for bag in combinations_with_replacement(range(tokens), n):
        out = certify.hardmax_layer(
            [[(n + 1) ** k] for k in bag], [([[1]], [[0]], [[value]], [[1]])]
        )
        seen.extend(
            {
                (k, row[0] - (0 if skip else (n + 1) ** k), bag)
                for k, row in zip(bag, out)
            }
        )
    return at_most(
        sum(
            u == v and a != b and (k == l or not one_query)
            for (k, u, a), (l, v, b) in combinations(seen, 2)
        ),
        0,
    )


@pytest.mark.claim("boltzmann.before", role="check")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_layer_tells_multisets_apart(n):
    assert check_layer(n, one_query=False).ok and check_layer(n, skip=True).ok


@pytest.mark.claim("boltzmann.before", role="control")
def test_no_value_or_two_queries_with_a_skip():
    """{0, 2} and {1, 1}: with a skip, token 0 there and token 1 here both give 6."""
    assert check_layer(2, value=0).ok is False
    assert check_layer(2, skip=True, one_query=False).ok is False


@pytest.mark.claim("boltzmann.before", role="check")
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_digits_tell_multisets_apart(n):
    assert check_base(n, n + 1).ok and check_base(n, n).ok


@pytest.mark.claim("boltzmann.before", role="control")
@pytest.mark.parametrize("n", [3, 4, 5])
def test_a_base_too_small(n):
    assert check_base(n, n - 1).ok is False


@pytest.mark.claim("boltzmann.before", role="witness")
def test_a_hardmax_layer_reads_them():
    """Tokens (k, 5^k) of four, zero keys, values in the second coordinate: the ends of
    the theorem are told apart.
    """
    head = ([[0], [0]], [[0], [0]], [[0], [1]], [[0, 1]])
    rows = [
        certify.hardmax_layer([[k, 5**k] for k in ts], [head])[0] for ts in (ENDS, NEAR)
    ]
    assert rows[0] != rows[1]


# --- exactness


def check_exact(sizes=(3, 3), s=Fraction(7, 5), values=(-1, Fraction(1, 2), 1, 2, 3)):
    """Pairs of different multisets whose averages balls do not tell apart, and where
    context_gap disagrees; none.
    """
    left, right = (list(combinations_with_replacement(values, n)) for n in sizes)

    def same(a, b):
        return sorted(a) == sorted(b)

    wrong = 0
    for i, a in enumerate(left):
        for b in right[i + 1 :] if sizes[0] == sizes[1] else right:
            ball = arb_gap(a, b, s, 300)
            wrong += (ball.contains(0) and not same(a, b)) + (
                ball.contains(0) != (certify.boltzmann_gap(a, b, scale=s).sign == 0)
            )
    return at_most(wrong, 0)


@pytest.mark.claim("boltzmann.exact", role="check")
@pytest.mark.parametrize("s", [Fraction(7, 5), Fraction(-1, 50)])
def test_every_rational_beta_separates(s):
    assert check_exact(s=s).ok


@pytest.mark.claim("boltzmann.exact", role="control")
def test_unlike_sizes_or_the_plain_mean():
    assert check_exact((2, 4)).ok is False
    assert check_exact(s=0).ok is False


@pytest.mark.claim("boltzmann.exact", role="witness")
def test_a_coincidence_of_sums_that_does_not_matter():
    """1 + 6 = 2 + 5 = 3 + 4: exponents meet in groups, and no group cancels as a
    whole.
    """
    assert (
        certify.boltzmann_gap(ENDS, NEAR, scale=1).sign == 1
        and certify.boltzmann_gap(ENDS, NEAR, scale=3).sign == -1
    )


def contexts(values, sizes, repeats):
    pick = combinations_with_replacement if repeats else combinations
    return [
        (c, bag) for n in sizes for bag in pick(values, n) for c in sorted(set(bag))
    ]


def check_ids(
    values=(Fraction(1, 2), 1, 2, Fraction(7, 2), 4),
    sizes=(2, 3, 4),
    *,
    repeats=False,
    weight=2,
    queries=None,
):
    """Pairs of a token and its set that have one id at every beta; none."""
    found = [
        (c, bag)
        for c, bag in contexts(values, sizes, repeats)
        if queries is None or c in queries
    ]
    return at_most(
        sum(
            not certify.context_terms(a, b, weight=weight)
            for a, b in combinations(found, 2)
        ),
        0,
    )


@pytest.mark.claim("boltzmann.ids", role="check")
def test_all_ids_of_sets_differ():
    assert (
        check_ids().ok
        and check_ids(sizes=(4,), queries=(1, 2)).ok
        and check_ids((-3, -1, 1, 2, 3), weight=-1).ok
    )


@pytest.mark.claim("boltzmann.ids", role="control")
def test_repeated_tokens_collide():
    assert check_ids(sizes=(4,), queries=(1, 2), repeats=True).ok is False


@pytest.mark.claim("boltzmann.ids", role="witness")
def test_the_smallest_of_these_gaps():
    gap, _, _ = certify.smallest_gap(
        contexts((Fraction(1, 2), 1, 2, 4), (2, 3), False),
        beta=Fraction(1, 3),
        weight=2,
    )
    assert gap.sign == 1


ONE, TWO = (1, (1, 1, 4, 4)), (2, (Fraction(1, 2), 2, 2, Fraction(7, 2)))


def check_repeated(weight=2):
    """Exponents left in the difference of the two ids; none. At four beta floats say
    the same to 1e-12.
    """

    def ids(c, bag, beta):
        return c + weight * float(
            boltzmann(beta * c * torch.tensor([float(v) for v in bag]).double())
        ) / (beta * c)

    seen = max(abs(ids(*ONE, beta) - ids(*TWO, beta)) for beta in (-2.7, 0.1, 1.0, 3.0))
    return at_most(
        max(
            len(certify.context_terms(ONE, TWO, weight=weight)),
            seen if seen > 1e-12 else 0,
        ),
        0,
    )


def check_cure(weight, found):
    """Pairs of a token and its multiset, all of one size, whose ids are equal at beta =
    1/3, certified; none.
    """
    gaps = (
        certify.context_gap(a, b, beta=Fraction(1, 3), weight=weight, bits=64)
        for a, b in combinations(found, 2)
    )
    return at_most(sum(gap.sign == 0 for gap in gaps), 0)


@pytest.mark.claim("boltzmann.repeated", role="check")
def test_two_ids_agree_at_every_beta():
    assert check_repeated().ok


@pytest.mark.claim("boltzmann.repeated", role="check")
@pytest.mark.parametrize(
    ("weight", "found"),
    [
        (Fraction(3, 10), contexts((1, 2, 4), (3,), True)),
        (Fraction(-3, 10), contexts((1, 2, 4), (3,), True)),
        (
            Fraction(1, 8),
            [ONE, TWO],
        ),  # 1/8 times 7/2 is below 1/2; with w = 2, the control, these two collide
    ],
)
def test_a_small_weight_keeps_ids_apart(weight, found):
    values = sorted({v for _, bag in found for v in bag})
    assert abs(weight) * (values[-1] - values[0]) < min(
        y - x for x, y in zip(values, values[1:])
    )
    assert check_cure(weight, found).ok


@pytest.mark.claim("boltzmann.repeated", role="control")
def test_another_weight():
    assert check_repeated(Fraction(3, 2)).ok is False


@pytest.mark.claim("boltzmann.repeated", role="control")
def test_a_weight_that_is_not_small():
    assert check_cure(2, [ONE, TWO]).ok is False


@pytest.mark.claim("boltzmann.repeated", role="witness")
def test_the_tokens_are_two_different_ones():
    assert ONE[0] != TWO[0] and len(ONE[1]) == len(TWO[1])


def times(*polynomials):
    out = [1]
    for p in polynomials:
        new = [0] * (len(out) + len(p) - 1)
        for i, a in enumerate(out):
            for j, b in enumerate(p):
                new[i + j] += a * b
        out = new
    return out


def check_near_miss(a=ENDS, b=NEAR):
    """The difference at the float next to beta*, certified; at most 1e-16, though never
    zero.
    """
    gap = certify.boltzmann_gap(a, b, scale=BETA)
    return at_most(10**gap.log10 if gap.sign else math.inf, 1e-16)


@pytest.mark.claim("boltzmann.near-miss", role="check")
def test_the_numerator_and_its_root():
    wanted = times([0, 0, 0, -1], [-1, 1], *[[1, 1]] * 3, [1, -4, 4, -4, 1])
    terms = certify.context_terms((1, ENDS), (1, NEAR))
    assert {k: c for k, c in enumerate(wanted) if c} == terms
    assert check_near_miss().ok


@pytest.mark.claim("boltzmann.near-miss", role="control")
def test_another_set():
    assert check_near_miss(b=(1, 3, 4, 7)).ok is False


@pytest.mark.claim("boltzmann.near-miss", role="witness")
def test_floats_see_nothing_there_and_much_beside():
    def f(s):
        return float(
            (
                boltzmann(s * torch.tensor(ENDS).double())
                - boltzmann(s * torch.tensor(NEAR).double())
            )
            / s
        )

    assert abs(f(BETA)) < 4e-15 and abs(f(1.0)) > 0.03 and abs(f(3.0)) > 0.03
