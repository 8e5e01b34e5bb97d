"""The claims of notebooks/path_decomposition/four_questions: each check, and its
control, on which it fails.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch

from attnlib import certify
from attnlib.attention import Layer, attention_matrix, forward, merged, random_layers
from attnlib.certify import at_most
from attnlib.collapse import composite_norm, residual

EPS = torch.finfo(torch.float64).eps


def normal(g, *size):
    return torch.randn(*size, dtype=torch.float64, generator=g)


def spread(rows):
    return rows.amax(-1) - rows.amin(-1)


def two_tokens(odds) -> certify.Matrix:
    """Example 3.1: the attention matrix of the tokens a, -a, where odds = exp(2 w
    a^2).
    """
    return certify.row_stochastic([[odds, 1], [1, odds]])


TOKENS = certify.exact([[1], [-1]])

# --- question 1: the lemma and step (9)


def check_ratio(largest):
    """(I - D) P~ <= P <= (I + 2D) P~ where every row of E has the given spread;
    tolerance 8 eps.
    """
    g = torch.Generator().manual_seed(0)
    spike = torch.full((1, 1000), math.log(0.999 / 999), dtype=torch.float64)
    spike[0, 0] = math.log(
        1e-3
    )  # P~_1 = 1/1000, and E is the spread there and zero elsewhere
    cases = [(spike, largest * torch.eye(1000, dtype=torch.float64)[:1])]
    for _ in range(200):
        e = normal(g, 5, 4)
        cases.append((3 * normal(g, 5, 4), e * (largest / spread(e))[:, None]))
    excess = 0.0
    for a, e in cases:
        before, after, d = a.softmax(-1), (a + e).softmax(-1), spread(e)[:, None]
        excess = max(
            excess,
            float((after - (1 + 2 * d) * before).max()),
            float(((1 - d) * before - after).max()),
        )
    return at_most(excess, 8 * EPS)


@pytest.mark.claim("questions.lemma", role="check")
@pytest.mark.parametrize("largest", [1e-3, 0.5, 1.256])
def test_lemma(largest):
    assert check_ratio(largest).ok


@pytest.mark.claim("questions.lemma", role="control")
def test_lemma_needs_a_small_spread():
    assert not check_ratio(1.3).ok


@pytest.mark.claim("questions.lemma", role="witness")
def test_the_number_of_the_lemma():
    """e^1.256 < 3.512 in fractions: the series to degree 12, plus a bound on its
    tail.
    """
    x = Fraction(1256, 1000)
    terms = [x**k / math.factorial(k) for k in range(13)]
    assert (
        sum(terms) + 2 * terms[-1] < 1 + 2 * x
    )  # each later term is less than half of the one before
    assert math.exp(1.26) > 1 + 2 * 1.26


def chain(seed, *, positive=False):
    """P R - 1 s'R, s'R, s'|R| and the spread, for tokens 1 x' + R whose logits obey the
    lemma's condition.
    """
    g = torch.Generator().manual_seed(seed)
    n, d, x = 2 + seed % 6, 1 + seed % 4, None
    r, w, x = normal(g, n, d), normal(g, d, d), normal(g, d)
    r = r.abs() if positive else residual(r)
    e = r @ w @ r.T
    scale = torch.rand((), dtype=torch.float64, generator=g) * 1.256 / spread(e).max()
    logits = r @ (scale * w).T @ x
    p, s = (logits + scale * e).softmax(-1), logits.softmax(-1)
    return p @ r - s @ r, s @ r, s @ r.abs(), spread(scale * e)[:, None]


def check_chain(*, absolute, positive=False):
    """The largest excess over 2 D 1 s'R and below -D 1 s'R, or over 2 D 1 s'|R|, on 300
    draws; 64 eps.
    """
    excess = 0.0
    for seed in range(300):
        f, signed, sizes, d = chain(seed, positive=positive)
        upper, lower = (
            (2 * d * sizes, -2 * d * sizes)
            if absolute
            else (2 * d * signed, -d * signed)
        )
        excess = max(excess, float((f - upper).max()), float((lower - f).max()))
    return at_most(excess, 64 * EPS)


@pytest.mark.claim("questions.chain", role="check")
def test_chain_with_absolute_values():
    assert check_chain(absolute=True).ok
    assert check_chain(
        absolute=False, positive=True
    ).ok  # and as printed, where no entry of R is negative


def check_chain_norm(*, largest=True, factor=2.0, widest=1.256):
    """|F|_{1,inf} over factor sqrt(sum D_i max D_i) |R|_{1,inf} on 1000 draws, or over
    factor min D_i |R|_{1,inf}; at most 1.
    """
    worst = 0.0
    for seed in range(1000):
        g = torch.Generator().manual_seed(seed)
        n, d = 2 + seed % 6, 1 + seed % 4
        r, w, x = residual(normal(g, n, d)), normal(g, d, d), normal(g, d)
        e = r @ w @ r.T
        scale = (
            widest * torch.rand((), dtype=torch.float64, generator=g) / spread(e).max()
        )
        logits, deltas = r @ (scale * w).T @ x, spread(scale * e)
        f = (logits + scale * e).softmax(-1) @ r - logits.softmax(-1) @ r
        size = (deltas.sum() * deltas.max()).sqrt() if largest else deltas.min()
        worst = max(
            worst, float(composite_norm(f) / (factor * size * composite_norm(r)))
        )
    return at_most(worst, 1)


@pytest.mark.claim("questions.chain", role="check")
def test_chain_in_norms():
    verdict = check_chain_norm()
    assert verdict.ok and verdict.value < 0.2
    assert check_chain_norm(
        factor=8**-0.5, widest=20
    ).ok  # the remark below it: for all spreads, with 1/(2 sqrt 2)


@pytest.mark.claim("questions.chain", role="control")
def test_chain_in_norms_with_the_smallest_spread():
    assert check_chain_norm(largest=False).ok is False


@pytest.mark.claim("questions.chain", role="control")
def test_chain_as_printed():
    verdict = check_chain(absolute=False)
    assert not verdict.ok and verdict.value > 0.01


@pytest.mark.claim("questions.chain", role="counterexample")
def test_chain_in_fractions():
    """exp(2c) = 2: both printed bounds are 0 for every D, and P X = (1/3, -1/3)."""
    assert certify.product([[Fraction(1, 2)] * 2], TOKENS) == [[0]]
    assert certify.product(two_tokens(2), TOKENS) == [
        [Fraction(1, 3)],
        [Fraction(-1, 3)],
    ]
    assert 2 ** Fraction(1) < sum(
        Fraction(1256, 1000) ** k / math.factorial(k) for k in range(4)
    )  # ln 2 < 1.256


@pytest.mark.claim("questions.chain", role="witness")
@pytest.mark.parametrize("c", [0.1, 0.25, 0.5 * math.log(2), 0.6])
def test_chain_in_closed_form(c):
    x = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64)
    assert spread(c * x @ x.T).max() <= 1.256
    assert torch.allclose(
        attention_matrix(x, c * one, one) @ x, math.tanh(c) * x, rtol=0, atol=4 * EPS
    )


# --- question 2: the composite norm


def square(matrix):
    return math.prod(certify.norms(matrix))


def plus(a, b):
    return [[u + v for u, v in zip(*rows)] for rows in zip(a, b)]


def pair(n, d, root, scale=1):
    """1 e_1' and root e_1 1', with root^2 = n / d."""
    a = [[Fraction(j == 0) for j in range(d)] for _ in range(n)]
    return a, [
        [scale * Fraction(root) if i == 0 else Fraction() for _ in range(d)]
        for i in range(n)
    ]


def check_attained(n, d, root, *, scale=1):
    """| |A + B|^2 - K^2 (|A| + |B|)^2 | for the pair, in fractions: exactly zero."""
    a, b = pair(n, d, root, scale)
    nd = Fraction(d) * Fraction(root)  # the square root of n d
    constant = (nd + 2 + 1 / nd) / 4
    assert (
        square(a) == n and square(b) == n * scale**2
    )  # so |A| + |B| = (1 + scale) sqrt(n)
    return at_most(abs(square(plus(a, b)) - constant * n * (1 + scale) ** 2), 0)


def check_quasi(constant=None):
    """|A + B| / (constant (|A| + |B|)) on 2000 draws and on the pair; constant None: K.
    At most 1 + 8 eps.
    """
    g, worst = torch.Generator().manual_seed(0), 0.0
    for n, d in ((2, 2), (3, 5), (8, 2), (6, 6)):
        k = constant or ((n * d) ** 0.25 + (n * d) ** -0.25) / 2
        a, b = normal(g, 500, n, d) ** 3, normal(g, 500, n, d) ** 3
        a[0], b[0] = 0, 0
        a[0, :, 0], b[0, 0] = 1, math.sqrt(n / d)
        worst = max(
            worst,
            float(
                (composite_norm(a + b) / (composite_norm(a) + composite_norm(b))).max()
            )
            / k,
        )
    return at_most(worst, 1 + 8 * EPS)


@pytest.mark.claim("questions.quasi-norm", role="check")
@pytest.mark.parametrize(
    ("n", "d", "root"), [(1, 1, 1), (2, 2, 1), (8, 2, 2), (2, 8, "1/2"), (12, 12, 1)]
)
def test_quasi_norm(n, d, root):
    assert check_attained(n, d, root).ok and check_quasi().ok


@pytest.mark.claim("questions.quasi-norm", role="control")
def test_the_pair_must_be_balanced():
    assert not check_attained(2, 2, 1, scale=2).ok


@pytest.mark.claim("questions.quasi-norm", role="control")
def test_constant_one_is_the_triangle_inequality():
    assert not check_quasi(1.0).ok


@pytest.mark.claim("questions.quasi-norm", role="witness")
def test_two_by_two_by_hand():
    a, b = pair(2, 2, 1)
    assert (square(a), square(b), square(plus(a, b))) == (
        2,
        2,
        9,
    )  # 3 > 2 sqrt 2, since 9 > 8


def largest_entry(x):
    return x.abs().amax((-2, -1))


def check_product(norm=composite_norm):
    """|A B| / (|A| |B|) on 500 draws and on matrices of ones: at most 1 + 8 eps."""
    g, worst = torch.Generator().manual_seed(0), 0.0
    for n, m, d in ((2, 2, 2), (4, 3, 5), (1, 7, 2)):
        a, b = normal(g, 500, n, m) ** 3, normal(g, 500, m, d) ** 3
        a[0], b[0] = 1, 1
        worst = max(worst, float((norm(a @ b) / (norm(a) * norm(b))).max()))
    return at_most(worst, 1 + 8 * EPS)


@pytest.mark.claim("questions.keeps", role="check")
def test_products_and_the_spectral_norm():
    assert check_product().ok
    a = normal(torch.Generator().manual_seed(1), 500, 4, 6) ** 3
    two = torch.linalg.matrix_norm(a, 2)
    assert (two <= composite_norm(a) * (1 + 64 * EPS)).all()
    assert (composite_norm(a) <= 24**0.25 * two * (1 + 64 * EPS)).all()


@pytest.mark.claim("questions.keeps", role="control")
def test_the_largest_entry_is_not_submultiplicative():
    assert not check_product(largest_entry).ok


@pytest.mark.claim("questions.keeps", role="witness")
def test_both_ends_of_the_sandwich_occur():
    ones, unit = (
        torch.ones(4, 9, dtype=torch.float64),
        torch.zeros(4, 9, dtype=torch.float64),
    )
    unit[0, 0] = 1
    assert composite_norm(unit) == torch.linalg.matrix_norm(unit, 2) == 1
    assert abs(composite_norm(ones) - torch.linalg.matrix_norm(ones, 2)) < 64 * EPS
    hadamard = torch.tensor([[1.0, 1], [1, -1]], dtype=torch.float64)
    assert (
        abs(composite_norm(hadamard) - 4**0.25 * torch.linalg.matrix_norm(hadamard, 2))
        < 64 * EPS
    )


def centred(matrix):
    mean = [sum(column) / len(matrix) for column in zip(*matrix)]
    return [[entry - m for entry, m in zip(row, mean)] for row in matrix]


def fan(n, d):
    """A spike in the first column, (1, -1, ..., -1)/n in the others: its mean is a bad
    centre, zero a good one.
    """

    def rest(i):
        return Fraction(1 if i == 0 else -1, n)

    return [
        [Fraction(i == 0) if j == 0 else rest(i) for j in range(d)] for i in range(n)
    ]


def check_centre(factor):
    """max |CY|^2 / (factor^2 |Y|^2) in fractions, Y = X - 1 x' for any centre x: at
    most one.
    """
    g, worst = torch.Generator().manual_seed(0), Fraction()
    drawn = [
        torch.randint(-9, 10, (n, d), generator=g).tolist()
        for n in (1, 2, 3, 6)
        for d in (1, 2, 5)
        for _ in range(20)
    ]
    for y in [*map(certify.exact, drawn), fan(20, 1), fan(4, 300)]:
        if square(y):
            worst = max(
                worst, square(centred(y)) / (factor(Fraction(len(y))) ** 2 * square(y))
            )
    return at_most(worst, 1)


@pytest.mark.claim("questions.centre", role="check")
def test_centre():
    assert check_centre(
        lambda n: max(2 * (1 - 1 / n), Fraction(1, 100))
    ).ok  # n = 1: CY = 0


@pytest.mark.claim("questions.centre", role="control")
def test_the_mean_is_not_the_best_centre():
    assert not check_centre(lambda n: Fraction(1)).ok


@pytest.mark.claim("questions.centre", role="witness")
@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_the_constant_cannot_be_lowered(n):
    y, d = fan(n, 100 * n + 1), 100 * n + 1
    grow = Fraction(d - 1, n)
    assert (
        square(centred(y)) == 2 * (1 - Fraction(1, n)) ** 2 * (1 + 2 * grow)
        and square(y) == 1 + grow
    )
    assert (
        square(centred(y)) / square(y)
        > Fraction(99, 100) * 4 * (1 - Fraction(1, n)) ** 2
    )


@pytest.mark.claim("questions.centre", role="check")
def test_the_mean_is_best_in_both_euclidean_norms():
    g = torch.Generator().manual_seed(2)
    x, shift = normal(g, 200, 5, 3), normal(g, 200, 1, 3)
    for norm in (2, "fro"):
        best = torch.linalg.matrix_norm(residual(x), norm)
        assert (
            best <= torch.linalg.matrix_norm(x - shift, norm) * (1 + 64 * EPS)
        ).all()


# --- question 3: a residual below one


def right_side(c, rho, L):
    return Fraction(c) ** ((3**L - 1) // 2) * Fraction(rho) ** 3**L


def check_right_side(c, rho):
    """Does the right side of the bound fall? Its value at L = 5 over that at L = 1, in
    fractions: at most 1/2.
    """
    return at_most(right_side(c, rho, 5) / right_side(c, rho, 1), 0.5)


@pytest.mark.claim("questions.right-side", role="check")
@pytest.mark.parametrize(("c", "rho"), [("1/9", 2), ("1/1000", 30), (3, "1/2")])
def test_right_side_falls_when_the_product_is_below_one(c, rho):
    assert Fraction(c) * Fraction(rho) ** 2 < 1 and check_right_side(c, rho).ok


@pytest.mark.claim("questions.right-side", role="control")
@pytest.mark.claim("questions.right-side", role="counterexample")
def test_right_side_grows_from_a_residual_of_one_half():
    assert not check_right_side(9, "1/2").ok
    assert right_side(9, "1/2", 1) == Fraction(9, 8) and right_side(
        9, "1/2", 2
    ) == Fraction(9**4, 2**9)
    assert (
        right_side(4, "1/2", 1) == right_side(4, "1/2", 4) == Fraction(1, 2)
    )  # and at the edge nothing moves


def toy(a, w, v, L):
    """The residuals a_0, ..., a_L of the toy, by the network itself."""
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    x, found = torch.tensor([[a], [-a]], dtype=torch.float64), [a]
    for _ in range(L):
        x = forward(x, [Layer(w * one, one, v * one, one)])
        found.append(float(x[0, 0]))
    return found


@pytest.mark.claim("questions.right-side", role="witness")
def test_the_toy_has_these_numbers():
    a, w, v = 2 / math.sqrt(2), 1 / 36, 1.0  # residual 2, C = 4 w v = 1/9
    x = torch.tensor([[a], [-a]], dtype=torch.float64)
    assert abs(composite_norm(residual(x)) - 2) < 8 * EPS
    assert all(
        math.sqrt(2) * r <= right_side(Fraction(1, 9), 2, L)
        for L, r in enumerate(toy(a, w, v, 4))
    )


def exact_criterion(a, w, v):
    return v <= 1 or w * a * a < math.atanh(1 / v)


def residual_below_one(a, w, v):
    return math.sqrt(2) * a < 1


def check_criterion(criterion):
    """On how many of 60 toys does the criterion miss what 40 layers do? None."""
    missed = 0
    for a, y, v in itertools.product(
        (0.01, 0.1, 1, 10, 100), (0.05, 0.3, 1, 3), (0.5, 1, 1.3)
    ):
        collapses = toy(a, y / a**2, v, 40)[-1] < 1e-3 * a
        missed += collapses != criterion(a, y / a**2, v)
    return at_most(missed, 0)


@pytest.mark.claim("questions.residual", role="check")
def test_threshold_of_the_toy():
    assert check_criterion(exact_criterion).ok


@pytest.mark.claim("questions.residual", role="control")
def test_residual_below_one_does_not_decide():
    assert not check_criterion(residual_below_one).ok


@pytest.mark.claim("questions.residual", role="witness")
def test_neither_necessary_nor_sufficient_in_fractions():
    def step(a, odds, v):
        return certify.network(
            [[Fraction(a)], [-Fraction(a)]], [[two_tokens(odds)]], [[[[Fraction(v)]]]]
        )[0][0]

    assert step("1/10", 3, 3) == Fraction(
        3, 20
    )  # residual 0.14: grows by 3/2, and by monotony ever more
    assert step(10, Fraction(6, 5), 1) == Fraction(10, 11)  # residual 14: collapses


def check_scale(power):
    """P of 2^k X with W_QK 2^(power k), query biases included, against P: powers of two
    round nothing, so zero.
    """
    g, gap = torch.Generator().manual_seed(0), 0.0
    x, (layer,) = normal(g, 6, 4), random_layers(1, 2, 4, 3, bias=True, generator=g)

    def p(x, f):
        return attention_matrix(
            x, f * layer.w_q, f * layer.w_k, b_q=layer.b_q, b_k=layer.b_k
        )

    for k in (-6, 3, 10):
        gap = max(
            gap, float((p(2.0**k * x, 2.0 ** (power * k // 2)) - p(x, 1.0)).abs().max())
        )
    return at_most(gap, 0)


@pytest.mark.claim("questions.scale", role="check")
def test_scale():
    assert check_scale(-2).ok


@pytest.mark.claim("questions.scale", role="control")
def test_another_power_changes_attention():
    assert not check_scale(0).ok


@pytest.mark.claim("questions.scale", role="witness")
def test_the_residual_takes_any_size():
    x = normal(torch.Generator().manual_seed(0), 6, 4)
    assert (
        composite_norm(residual(1024 * x)) == 1024 * composite_norm(residual(x)) > 1000
    )


# --- question 4: rank


def check_factor(p, v, factor, L=20):
    """X_L = factor^L X for L layers with attention p and value weight v, in fractions:
    exactly zero.
    """
    half = len(p) // 2
    x = certify.exact([[1]] * half + [[-1]] * half)
    y = certify.network(x, [[p]] * L, [[[[Fraction(v)]]]] * L)
    return at_most(
        max(abs(u[0] - Fraction(factor) ** L * t[0]) for u, t in zip(y, x)), 0
    )


def clusters(odds, m) -> certify.Matrix:
    """2m tokens, m at a and m at -a."""
    return certify.row_stochastic(
        [[odds] * m + [1] * m] * m + [[1] * m + [odds] * m] * m
    )


@pytest.mark.claim("questions.low-rank", role="check")
@pytest.mark.claim("questions.low-rank", role="counterexample")
@pytest.mark.parametrize("m", [2, 4])
def test_low_rank_keeps_and_full_rank_loses(m):
    assert (
        certify.rank(clusters(3, m)) == 2 < 2 * m
        and check_factor(clusters(3, m), 2, 1).ok
    )
    assert (
        certify.rank(two_tokens(2)) == 2
        and check_factor(two_tokens(2), 1, Fraction(1, 3)).ok
    )


@pytest.mark.claim("questions.low-rank", role="control")
def test_rank_one_loses_at_once():
    assert (
        certify.rank(clusters(1, 2)) == 1 and not check_factor(clusters(1, 2), 2, 1).ok
    )


@pytest.mark.claim("questions.low-rank", role="witness")
def test_these_are_softmax_matrices():
    """And X is a fixed point: the network computes the same attention in every
    layer.
    """
    x = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]], dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64)
    wanted = torch.tensor(
        [[float(v) for v in row] for row in clusters(3, 2)], dtype=torch.float64
    )
    p = attention_matrix(x, 0.5 * math.log(3) * one, one)
    assert (p - wanted).abs().max() <= 4 * EPS and (
        2 * p @ x - x
    ).abs().max() <= 16 * EPS
    collapsed = toy(
        1.0, 0.5 * math.log(2), 1.0, 3
    )  # later layers fall below the rounding of their logits
    assert all(
        0 < b <= 0.5 * math.log(2) * a**3 * (1 + 1e-8)
        for a, b in zip(collapsed, collapsed[1:])
    )


def diameter(x):
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").amax((-2, -1))


def check_contraction(*, mask=False, seeds=200):
    """osc(P y) - tanh(spread / 4) osc(y), where spread is the largest of A_i - A_k, on
    random heads; 32 eps.
    """
    excess = -math.inf
    for seed in range(seeds):
        g = torch.Generator().manual_seed(seed)
        n, d = 2 + seed % 7, 1 + seed % 5
        x, scale = normal(g, n, d), 10 ** float(torch.rand((), generator=g) * 3 - 2)
        w_q, w_k, b_q = scale * normal(g, d, 3), normal(g, d, 3), normal(g, 3)
        keep = torch.ones(n, n, dtype=torch.bool).tril() if mask else None
        p = attention_matrix(x, w_q, w_k, b_q=b_q, mask=keep)
        logits = (x @ w_q + b_q) @ (x @ w_k).T / math.sqrt(3)
        largest = spread(logits[:, None] - logits[None]).max()
        excess = max(
            excess,
            float((spread((p @ x).T) - torch.tanh(largest / 4) * spread(x.T)).max()),
        )
    return at_most(excess, 32 * EPS)


@pytest.mark.claim("questions.contraction", role="check")
def test_contraction():
    assert check_contraction().ok


@pytest.mark.claim("questions.contraction", role="control")
def test_a_mask_breaks_it():
    verdict = check_contraction(mask=True)
    assert not verdict.ok and verdict.value > 0.1


@pytest.mark.claim("questions.contraction", role="witness")
@pytest.mark.parametrize("y", [1e-3, 0.3, 2.0])
def test_two_tokens_attain_it(y):
    """Example 3.1: A_1 - A_2 = (2y, -2y) has spread 4y, and tanh(4y / 4) is the
    factor.
    """
    assert abs(toy(1.0, y, 1.0, 1)[1] - math.tanh(y)) <= 4 * EPS


@pytest.mark.claim("questions.contraction", role="check")
def test_diameters_of_networks():
    for seed in range(40):
        g = torch.Generator().manual_seed(seed)
        layers = random_layers(3, 2, 5, 4, gain=2.0, bias=True, generator=g)
        x = normal(g, 7, 5)
        for layer in layers:
            v = torch.linalg.matrix_norm(merged(layer)[0], 2)
            omega = torch.linalg.matrix_norm(layer.w_q @ layer.w_k.mT, 2) / 2
            bound = (v * torch.tanh(omega * diameter(x) ** 2 / 4)).sum() * diameter(x)
            x = forward(x, [layer])
            assert diameter(x) <= bound * (1 + 64 * EPS) + 64 * EPS * x.abs().max()


# --- smaller slips


def check_row_sums(m, *, left):
    """M divided by its row sums from the left, or from the right: how far the rows are
    from one, in fractions.
    """
    sums = [sum(row) for row in m]
    scaled = [
        [entry / (sums[i] if left else sums[j]) for j, entry in enumerate(row)]
        for i, row in enumerate(m)
    ]
    return at_most(max(abs(sum(row) - 1) for row in scaled), 0)


EXPONENTIALS = certify.exact([[1, 1], [1, 3]])


@pytest.mark.claim("questions.normalise", role="check")
def test_rows_are_divided_from_the_left():
    assert check_row_sums(EXPONENTIALS, left=True).ok
    logits = torch.tensor([[0, 0], [0, 2 * math.log(3)]], dtype=torch.float64)
    wanted = torch.tensor(
        [[0.5, 0.5], [0.25, 0.75]], dtype=torch.float64
    )  # rows of the above, d_qk = 4
    assert ((logits / math.sqrt(4)).softmax(-1) - wanted).abs().max() <= 4 * EPS


@pytest.mark.claim("questions.normalise", role="control")
def test_from_the_right_the_rows_are_not_one():
    assert not check_row_sums(EXPONENTIALS, left=False).ok


@pytest.mark.claim("questions.normalise", role="counterexample")
@pytest.mark.parametrize("entry", [3, 81])
def test_no_diagonal_from_the_right_will_do(entry):
    """M y = 1 has the one solution y = (1, 0), and no invertible diagonal has D^{-1} 1
    = y. 81 is as printed.
    """
    m = certify.exact([[1, 1], [1, entry]])
    assert certify.rank(m) == 2 and certify.product(
        m, certify.exact([[1], [0]])
    ) == certify.exact([[1], [1]])


@pytest.mark.claim("questions.normalise", role="witness")
def test_uniform_attention_hides_the_side():
    assert check_row_sums(certify.exact([[2, 2], [2, 2]]), left=False).ok


def check_reordering(*, left):
    """Logits of exchanged tokens minus exchanged logits, in fractions; left: W X in
    place of X W.
    """
    x, swap = certify.exact([[1, 2], [3, 5]]), certify.exact([[0, 1], [1, 0]])
    w_q, w_k = certify.exact([[1, 2], [0, 1]]), certify.exact([[1, 0], [1, 1]])

    def turn(m):
        return [list(row) for row in zip(*m)]

    def side(x, w):
        return certify.product(w, x) if left else certify.product(x, w)

    def logits(x):
        return certify.product(side(x, w_q), turn(side(x, w_k)))

    moved, wanted = (
        logits(certify.product(swap, x)),
        certify.product(swap, logits(x), swap),
    )
    return at_most(
        max(abs(a - b) for rows in zip(moved, wanted) for a, b in zip(*rows)), 0
    )


@pytest.mark.claim("questions.sides", role="check")
def test_weights_on_the_right_follow_the_tokens():
    assert check_reordering(left=False).ok


@pytest.mark.claim("questions.sides", role="control")
@pytest.mark.claim("questions.sides", role="counterexample")
def test_weights_on_the_left_do_not():
    assert not check_reordering(left=True).ok


@pytest.mark.claim("questions.sides", role="witness")
def test_the_tokens_are_told_apart():
    x = certify.exact([[1, 2], [3, 5]])
    assert certify.rank(x) == 2


def check_order_of_rank(power):
    """log(n)^power / log(n) at n = 2^m, m up to 1000: Theta(log n) keeps it at most
    100.
    """
    return at_most(max(Fraction(m) ** power / m for m in range(1, 1001)), 100)


@pytest.mark.claim("questions.rank-order", role="check")
def test_one_logarithm():
    assert check_order_of_rank(1).ok


@pytest.mark.claim("questions.rank-order", role="control")
@pytest.mark.claim("questions.rank-order", role="counterexample")
def test_two_logarithms():
    assert not check_order_of_rank(2).ok


@pytest.mark.claim("questions.rank-order", role="witness")
def test_the_ratio_is_the_exponent():
    assert all(Fraction(m * m, m) == m for m in (1, 10, 1000))
