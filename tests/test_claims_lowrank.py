"""The claims of notebooks/jl_low_rank/spectra_and_linformer: each check, and its
control, on which the same function fails.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate, product

import mpmath
import pytest
import torch

from attnlib import certify
from attnlib.certify import at_most
from attnlib.lowrank import (
    effective_rank,
    linformer_attention,
    sampled_product,
    svd_surrogate,
)

EPS = torch.finfo(torch.float64).eps


def drawn(*sizes, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=g, dtype=torch.float64) for size in sizes]


def stochastic(n, seed=0, s=1.0):
    return torch.softmax(s * drawn((n, n), seed=seed)[0], -1)


# --- best rank k


def check_svd(k, *, seed=0, ranked=True):
    """The error of P_k against sigma_{k+1} in the 2-norm and the tail in the Frobenius
    norm: 100 eps each.

    ranked=False keeps the k smallest singular values in place of the largest.
    """
    p = stochastic(24, seed)
    s = torch.linalg.svdvals(p)
    near = svd_surrogate(p, k)
    if not ranked:
        u, _, vh = torch.linalg.svd(p)
        near = (u[:, -k:] * s[-k:]) @ vh[-k:]
    two = (torch.linalg.matrix_norm(p - near, 2) - s[k]).abs()
    tail = ((p - near).norm() - s[k:].norm()).abs()
    return at_most(max(two, tail), 100 * EPS * float(s[0]))


def beaten(k, seed):
    """By how much a random matrix of rank k, improved by 50 rounds of least squares,
    beats P_k; at most rounding.
    """
    p, (left,) = stochastic(12, seed), drawn((12, k), seed=seed + 1)
    for _ in range(50):
        right = torch.linalg.lstsq(left, p).solution
        left = torch.linalg.lstsq(right.T, p.T).solution.T
    return at_most(
        (p - svd_surrogate(p, k)).norm() - (p - left @ right).norm(), 100 * EPS
    )


@pytest.mark.claim("lowrank.svd", role="check")
@pytest.mark.parametrize("k", [1, 5, 23])
def test_best_rank_k(k):
    assert check_svd(k).ok and check_svd(k, seed=3).ok
    assert beaten(min(k, 8), seed=k).ok


@pytest.mark.claim("lowrank.svd", role="control")
def test_the_smallest_singular_values_are_not_the_best_ones():
    assert check_svd(5, ranked=False).ok is False


@pytest.mark.claim("lowrank.svd", role="witness")
def test_ranks_and_errors_are_not_zero():
    p = stochastic(24)
    assert (
        torch.linalg.matrix_rank(svd_surrogate(p, 5)) == 5
        and (p - svd_surrogate(p, 5)).norm() > 0.1
    )


# --- rank and entropy


def blocks(n, m):
    """m uniform blocks on n tokens, in float64."""
    return torch.block_diag(
        *[torch.full((n // m, n // m), m / n, dtype=torch.float64)] * m
    )


def check_entropy(p, k, *, order=2):
    """sigma_{k+1} against sqrt(sum_i exp(-H_order(P_i)) / (k + 1)): at most it, up to
    10 eps.
    """
    sums = p.pow(order).sum(-1)
    h = -sums.log() / (order - 1)
    bound = (-h).exp().sum().div(k + 1).sqrt()
    return at_most(torch.linalg.svdvals(p)[k], float(bound) * (1 + 10 * EPS * len(p)))


@pytest.mark.claim("lowrank.entropy", role="check")
@pytest.mark.parametrize("s", [0.3, 1.0, 5.0])
def test_entropy(s):
    p = stochastic(20, s=s)
    assert all(check_entropy(p, k).ok for k in range(20))
    assert (p.square().sum() - torch.linalg.svdvals(p).square().sum()).abs() < 1e-12


@pytest.mark.claim("lowrank.entropy", role="control")
def test_entropy_of_another_order():
    p = torch.eye(20, dtype=torch.float64) * 0.5 + 0.5 / 20
    assert check_entropy(p, 18).ok and check_entropy(p, 18, order=0.5).ok is False


@pytest.mark.claim("lowrank.entropy", role="witness")
@pytest.mark.parametrize("m", [1, 2, 5, 10])
def test_the_bound_is_reached_for_every_k(m):
    p = blocks(10, m)
    assert float(torch.linalg.svdvals(p)[m - 1]) == pytest.approx(
        float(p.norm()) / math.sqrt(m), rel=1e-12
    )


# --- two counts of rank


def share_rank(values, share, power):
    """The rank that holds a share, in Fractions."""
    held = list(accumulate(v**power for v in values))
    return next(j for j, h in enumerate(held, start=1) if h >= share * held[-1])


def check_metric(values, share):
    """The energy rank against the rank by sums, exactly, and the same by the room."""
    energy, sums = (share_rank(values, share, power) for power in (2, 1))
    if sorted(values, reverse=True) == list(values):
        s = torch.tensor([float(v) for v in values], dtype=torch.float64)
        assert (
            effective_rank(s, float(share)),
            effective_rank(s, float(share), power=1),
        ) == (energy, sums)
    return at_most(energy, sums)


MIXED = [Fraction(1)] + [Fraction(1, 10)] * 9  # of I/10 + (9/10) J/10
HALVES = [Fraction(1)] * 5 + [Fraction(0)] * 5  # of five uniform blocks of two


@pytest.mark.claim("lowrank.metric", role="check")
def test_energy_never_needs_more():
    g = torch.Generator().manual_seed(0)
    for _ in range(200):
        values = sorted(
            (Fraction(int(v), 7) for v in torch.randint(1, 60, (9,), generator=g)),
            reverse=True,
        )
        assert all(check_metric(values, Fraction(s, 23)).ok for s in range(1, 23))


@pytest.mark.claim("lowrank.metric", role="control")
def test_unless_the_values_are_out_of_order():
    assert check_metric(MIXED[::-1], Fraction(9, 20)).ok is False


@pytest.mark.claim("lowrank.metric", role="witness")
def test_the_two_orders_disagree():
    nine = Fraction(9, 10)
    assert [share_rank(v, nine, p) for v in (MIXED, HALVES) for p in (2, 1)] == [
        1,
        9,
        5,
        5,
    ]
    mixed = torch.eye(10, dtype=torch.float64) / 10 + 0.09
    for p, values in ((mixed, MIXED), (blocks(10, 5), HALVES)):
        assert (
            torch.linalg.svdvals(p)
            - torch.tensor([float(v) for v in values], dtype=torch.float64)
        ).abs().max() < 1e-12
        assert (p.sum(-1) - 1).abs().max() < 1e-12


# --- full rank


def powers(keys, n):
    """Rows 2^(i k_j) / sum: softmax for queries i ln 2 and integer keys, in
    Fractions.
    """
    return certify.row_stochastic([[2 ** (i * k) for k in keys] for i in range(n)])


def check_full_rank(p):
    """The defect n - rank, exactly: at most 0."""
    return at_most(len(p) - certify.rank(p), 0)


@pytest.mark.claim("lowrank.full-rank", role="check")
def test_one_feature_gives_every_rank():
    assert (
        check_full_rank(powers(range(8), 8)).ok
        and check_full_rank(powers([0, 3, 4, 9, 11], 5)).ok
    )
    causal = [[Fraction((i * j + 1) * (j <= i)) for j in range(6)] for i in range(6)]
    assert check_full_rank(certify.row_stochastic(causal)).ok


@pytest.mark.claim("lowrank.full-rank", role="control")
def test_two_equal_keys():
    assert check_full_rank(powers([0, 1, 1, 4], 4)).ok is False


@pytest.mark.claim("lowrank.full-rank", role="witness")
def test_the_determinant_of_twelve_points():
    """det [exp(q_i q_j)] on 12 equispaced points of [-1, 1], by 120 digits: positive
    and tiny.
    """
    with mpmath.workdps(120):
        q = [mpmath.mpf(2 * i - 11) / 11 for i in range(12)]
        det = mpmath.det(mpmath.matrix([[mpmath.exp(a * b) for b in q] for a in q]))
        assert 5.3e-63 < det < 5.5e-63
        sums = mpmath.diag([1 / mpmath.fsum(mpmath.exp(a * b) for b in q) for a in q])
        p = sums * mpmath.matrix([[mpmath.exp(a * b) for b in q] for a in q])
        assert 2.3e-16 < min(mpmath.svd_r(p, compute_uv=False)) < 2.5e-16
    p = torch.tensor(
        [[float(v) for v in row] for row in powers(range(8), 8)], dtype=torch.float64
    )
    assert torch.linalg.svdvals(p)[-1] < 1e-5


# --- bounded logits


def taylor(a, g):
    """softmax with the exponential replaced by its Taylor polynomial of degree g."""
    t = sum(a**m / math.factorial(m) for m in range(g + 1))
    return t / t.sum(-1, keepdim=True)


def check_bounded(B, g, *, reach=None, n=80, d=2, seed=0):
    """The largest row sum of |taylor - P| over 2 eta / (1 - eta), for logits of size at
    most `reach` (B unless given).
    """
    q, k = drawn((n, d), (n, d), seed=seed)
    a = q @ k.T
    a = a * (B if reach is None else reach) / a.abs().max()
    eta = math.exp(B) * B ** (g + 1) / math.factorial(g + 1)
    off = (taylor(a, g) - torch.softmax(a, -1)).abs().sum(-1).max()
    return at_most(off, 2 * eta / (1 - eta) * (1 + 1e-9))


@pytest.mark.claim("lowrank.bounded", role="check")
@pytest.mark.parametrize(("B", "g"), [(0.5, 2), (1.0, 3), (1.0, 4), (2.0, 8)])
def test_bounded(B, g):
    assert all(check_bounded(B, g, seed=seed).ok for seed in range(5))


@pytest.mark.claim("lowrank.bounded", role="control")
def test_logits_beyond_the_bound():
    assert check_bounded(1.0, 4, reach=4.0).ok is False


@pytest.mark.claim("lowrank.bounded", role="witness")
@pytest.mark.parametrize(("d", "g", "rank"), [(1, 4, 5), (2, 4, 15), (3, 2, 10)])
def test_the_rank_of_the_polynomial(d, g, rank):
    q, k = drawn((60, d), (60, d))
    a = q @ k.T
    t = taylor(a / a.abs().max(), g)
    assert math.comb(d + g, g) == rank == int(torch.linalg.matrix_rank(t, rtol=1e-13))


# --- products


THREE = [
    (-math.sqrt(3), 1 / 6),
    (0.0, 2 / 3),
    (math.sqrt(3), 1 / 6),
]  # the first five moments of a normal variable


def mean_square(p, v, draws):
    """sum of chance * |estimate - P V|_F^2 over (chance, estimate)."""
    wanted = p @ v
    return sum(w * (x - wanted).square().sum() for w, x in draws)


def projections(p, v):
    """One row of R with three-point entries: all 3^n of them, with their chances."""
    for choice in product(THREE, repeat=p.shape[1]):
        r = torch.tensor([x for x, _ in choice], dtype=p.dtype)
        yield math.prod(w for _, w in choice), torch.outer(p @ r, r @ v)


def samples(p, v, chances, k):
    """All n^k ways to draw k tokens, with their chances."""
    for drawn_ in product(range(p.shape[1]), repeat=k):
        total = sum(torch.outer(p[:, j], v[j]) / (k * chances[j]) for j in drawn_)
        yield float(torch.stack([chances[j] for j in drawn_]).prod()), total


def check_products(kind, *, uniform=False, k=1, seed=0):
    """The exact mean square error against its law: relative, at most 1e-12."""
    p, (v,) = stochastic(4, seed), drawn((4, 2), seed=seed + 1)
    wanted = (p @ v).square().sum()
    if kind == "projection":
        law = p.square().sum() * v.square().sum() + wanted
        seen = mean_square(p, v, projections(p, v))
    else:
        c = p.norm(dim=0) * v.norm(dim=1)
        law = (c.sum() ** 2 - wanted) / k
        seen = mean_square(
            p,
            v,
            samples(
                p, v, torch.full((4,), 0.25).double() if uniform else c / c.sum(), k
            ),
        )
    return at_most(abs(seen / law - 1), 1e-12)


def check_sampler(*, draws=6000, k=3):
    """The mean square error of sampled_product against the law: relative, at most
    6%.
    """
    p, (v,) = stochastic(6, 1), drawn((6, 2), seed=2)
    g = torch.Generator().manual_seed(0)
    off = (
        sum(
            (sampled_product(p, v, k, generator=g, check=False) - p @ v).square().sum()
            for _ in range(draws)
        )
        / draws
    )
    c = p.norm(dim=0) * v.norm(dim=1)
    return at_most(abs(off * k / (c.sum() ** 2 - (p @ v).square().sum()) - 1), 0.06)


@pytest.mark.claim("lowrank.products", role="check")
def test_both_laws_exactly():
    for seed in range(3):
        assert check_products("projection", seed=seed).ok
        assert (
            check_products("samples", seed=seed).ok
            and check_products("samples", k=3, seed=seed).ok
        )


@pytest.mark.claim("lowrank.products", role="check")
def test_no_other_positive_chances_give_less():
    """200 positive chances, by enumeration for k = 1: never below the law."""
    p, (v,) = stochastic(4, 5), drawn((4, 2), seed=6)
    c = p.norm(dim=0) * v.norm(dim=1)
    law = float(c.sum() ** 2 - (p @ v).square().sum())
    assert check_products("samples", seed=5).ok
    for w in drawn((200, 4), seed=7)[0].mul(1.5).softmax(-1):
        assert float(mean_square(p, v, samples(p, v, w, 1))) >= law * (1 - 1e-12)


@pytest.mark.claim("lowrank.products", role="witness")
def test_a_chance_of_zero_may_give_less_but_biases():
    """P = V = I_2, k = 1: the law gives 2; chances (1, 0) draw the first token always,
    with error 1 and a wrong mean.
    """
    eye, chances = (
        torch.eye(2, dtype=torch.float64),
        torch.tensor([0.5, 0.5], dtype=torch.float64),
    )
    assert float(mean_square(eye, eye, samples(eye, eye, chances, 1))) == 2
    always = torch.outer(eye[:, 0], eye[0])
    assert float(mean_square(eye, eye, [(1.0, always)])) == 1 and not torch.equal(
        always, eye
    )


@pytest.mark.claim("lowrank.products", role="control")
def test_other_chances_have_a_larger_error():
    assert check_products("samples", uniform=True).ok is False


@pytest.mark.claim("lowrank.products", role="witness")
def test_the_sampler_obeys_the_law_and_beats_projections():
    assert check_sampler().ok
    for seed in range(50):
        p, (v,) = stochastic(7, seed), drawn((7, 3), seed=seed)
        c = float((p.norm(dim=0) * v.norm(dim=1)).sum())
        assert c**2 - float((p @ v).square().sum()) < float(
            p.square().sum() * v.square().sum() + (p @ v).square().sum()
        )


# --- any pairs


def check_pairs(*, rank=3, n=9, r=4):
    """E K - S and F V - T for E = S K^+, F = T V^+: at most 1e-10."""
    k, v, s, t, q = drawn((n, 3), (n, 2), (r, 3), (r, 2), (5, 3))
    k = torch.where(torch.arange(3) < rank, k, 0.0)
    e, f = s @ torch.linalg.pinv(k), t @ torch.linalg.pinv(v)
    got = linformer_attention(q, k, v, e, f)
    wanted = torch.softmax(q @ s.T / math.sqrt(3), -1) @ t
    return at_most(
        max(
            (e @ k - s).abs().max(), (f @ v - t).abs().max(), (got - wanted).abs().max()
        ),
        1e-10,
    )


@pytest.mark.claim("lowrank.pairs", role="check")
def test_any_pairs():
    assert check_pairs().ok and check_pairs(n=3, r=3).ok


@pytest.mark.claim("lowrank.pairs", role="control")
def test_not_without_full_column_rank():
    assert check_pairs(rank=2).ok is False


@pytest.mark.claim("lowrank.pairs", role="witness")
def test_the_identity_is_dense():
    q, k, v = drawn((6, 3), (6, 3), (6, 2))
    eye = torch.eye(6, dtype=torch.float64)
    dense = torch.softmax(q @ k.T / math.sqrt(3), -1) @ v
    assert (linformer_attention(q, k, v, eye, eye) - dense).abs().max() < 1e-12


# --- a bound that zero meets


def check_vacuous(p, v, eps, *, all_rows=False):
    """The worst of |P_i V| / (|P_i| |V|_2) over rows with n |P_i|^2 >= s^2 d / eps^2,
    or over all: at most eps.
    """
    n, d = v.shape
    s2 = n * v.square().sum(-1).max() / v.square().sum()
    chosen = n * p.square().sum(-1) >= s2 * d / eps**2 * (1 - 1e-12)
    assert all_rows or chosen.any(), "no row meets the condition"
    return at_most(_ratio(p, v)[chosen | all_rows].max(), eps * (1 + 1e-9))


def _ratio(p, v):
    return (p @ v).norm(dim=-1) / (p.norm(dim=-1) * torch.linalg.matrix_norm(v, 2))


@pytest.mark.claim("lowrank.vacuous", role="check")
def test_zero_passes():
    for seed in range(20):
        p, (v,) = stochastic(400, seed, s=6.0), drawn((400, 3), seed=seed)
        assert check_vacuous(p, v, 0.5).ok
    sparse = torch.eye(64, dtype=torch.float64)
    assert check_vacuous(sparse, torch.ones(64, 4, dtype=torch.float64), 0.5).ok


@pytest.mark.claim("lowrank.vacuous", role="control")
def test_zero_does_not_pass_on_diffuse_rows():
    p, one = (
        torch.full((64, 64), 1 / 64, dtype=torch.float64),
        torch.ones(64, 1, dtype=torch.float64),
    )
    verdict = check_vacuous(p, one, 0.5, all_rows=True)
    assert verdict.ok is False and float(_ratio(p, one).max()) == pytest.approx(1)


@pytest.mark.claim("lowrank.vacuous", role="witness")
def test_the_condition_is_met_by_a_permutation():
    p, (v,) = torch.eye(256, dtype=torch.float64).roll(3, 0), drawn((256, 64))
    v = v / v.norm(dim=1, keepdim=True)
    assert check_vacuous(p, v, 0.5).ok and (_ratio(p, v) < 0.51).all()


# --- where the proof breaks


def success(n, k, delta, eps):
    """P( |e^-delta 1' R 1 - n| <= eps n ) for R with i.i.d. N(0, 1/k): 1' R 1 is N(0,
    n).
    """

    def phi(x):
        return float(mpmath.ncdf(x))

    def edge(sign):
        return -(1 + sign * eps) * math.exp(delta) * math.sqrt(n)

    return phi(edge(-1)) - phi(edge(1))


def printed(k, eps):
    """The chance that equation (9) of the paper promises at least."""
    return 1 - 2 * math.exp(-(eps**2 - eps**3) * k / 4)


def check_after(k=64, eps=0.5, *, before=False):
    """What (9) promises against the chance there is, at x = 0, y = 1; or with the
    projection behind the exponential.

    before=True: E = delta R inside the exponential, as printed. Else exp(x) R' R y,
    whose relative error at x = 0, y = 1 is that of |R 1|^2 / n, a chi-square over k.
    """
    if before:
        return at_most(printed(k, eps), success(4, k, 2.0**-20, eps))
    inside = mpmath.gammainc(
        k / 2, k * (1 - eps) / 2, k * (1 + eps) / 2, regularized=True
    )
    return at_most(printed(k, eps), float(inside))


def signs_that_pass(n, k, eps):
    """The share of sign matrices R with |e^-delta 1' R 1 - n| <= eps n at delta = 0, by
    counting: exact.
    """
    passed = sum(abs(sum(s) - n) <= eps * n for s in product((1, -1), repeat=n * k))
    return Fraction(passed, 2 ** (n * k))


def spread(delta, n=64, k=32, seed=0):
    """How far the rows of the construction of the proof differ, over their size."""
    q, key, v, r = drawn((n, 8), (n, 8), (n, 4), (k, n), seed=seed)
    r = r / math.sqrt(k)
    out = linformer_attention(q, key, v, delta * r, math.exp(-delta) * r)
    return float((out - out.mean(0)).norm() / out.norm())


@pytest.mark.claim("lowrank.theorem-2", role="check")
@pytest.mark.parametrize("k", [8, 64, 500])
def test_behind_the_softmax_it_is_true(k):
    assert check_after(k).ok
    assert check_products("projection").ok


@pytest.mark.claim("lowrank.theorem-2", role="control")
def test_in_front_of_the_softmax_it_is_not():
    assert check_after(before=True).ok is False


@pytest.mark.claim("lowrank.theorem-2", role="witness")
def test_the_step_at_zero_logits():
    """R and -R are equally likely, and e^-delta 1' R 1 cannot lie near n for both; 1 -
    2 e^-2 > 1/2 since e^2 > 4.
    """
    assert (
        Fraction(27, 10) ** 2 > 4
        and Fraction(1, 2) ** 2 * (1 - Fraction(1, 2)) * 64 / 4 == 2
    )
    assert all(
        success(n, 64, d, 0.5) <= 0.5
        for n in (1, 2, 16, 4096)
        for d in (0.0, 1e-6, 0.1, 3.0)
    )
    assert printed(64, 0.5) > 0.72
    for eps in (0.1, 0.5, 2 / 3, 0.9):
        enough = 4 * math.log(4) / (eps**2 - eps**3)
        assert printed(enough, eps) == pytest.approx(0.5) and printed(
            math.ceil(enough), eps
        ) >= 0.5 > printed(enough - 1, eps)
        assert all(
            success(n, math.ceil(enough), d, eps) <= 0.5
            for n in (1, 2, 16, 4096)
            for d in (0.0, 0.1, 3.0)
        )
    assert signs_that_pass(3, 4, Fraction(1, 2)) < Fraction(1, 2)


@pytest.mark.claim("lowrank.theorem-2", role="witness")
def test_the_output_forgets_the_query():
    assert spread(2.0**-20) < 1e-4 < 1e-2 < spread(1.0)
    n, k, eps = 4096, 64, 0.5
    g = torch.Generator().manual_seed(0)
    r = torch.randn(400, k, n, generator=g).sum((-2, -1)) / math.sqrt(k)
    assert (
        abs(float(((r - n).abs() <= eps * n).double().mean()) - success(n, k, 0.0, eps))
        < 0.05
    )


# --- no projection serves all inputs


def check_kernel(r, n=6):
    """|1 - relative error| for values in the kernel of F, or for its smallest singular
    vector: at most 1e-9.
    """
    e, f, q, k = drawn((r, n), (r, n), (n, 1), (n, 1), seed=5)
    v = torch.linalg.svd(f).Vh[-1][:, None]
    if r == n:
        e = f = torch.eye(n, dtype=torch.float64)
    p = torch.softmax(q @ k.T, -1)
    return at_most(
        abs((linformer_attention(q, k, v, e, f) - p @ v).norm() / (p @ v).norm() - 1),
        1e-9,
    )


@pytest.mark.claim("lowrank.kernel", role="check")
@pytest.mark.parametrize("r", [1, 3, 5])
def test_some_values_are_lost(r):
    assert check_kernel(r).ok


@pytest.mark.claim("lowrank.kernel", role="control")
def test_not_with_as_many_rows_as_tokens():
    assert check_kernel(6).ok is False


@pytest.mark.claim("lowrank.kernel", role="witness")
def test_the_lost_output_is_not_zero():
    q = torch.linspace(-1, 1, 6, dtype=torch.float64)[:, None]
    assert torch.linalg.svdvals(torch.softmax(3 * q @ q.T, -1))[-1] > 1e-6


# --- no causal form


def leaks(e, f, i, j):
    """How far row i moves when value j is raised by one, for r queries that turn to one
    mixture each.
    """
    r, n = e.shape
    q = 3 * torch.eye(r, dtype=torch.float64)
    k, zero = (
        torch.linalg.pinv(e) @ torch.eye(r, dtype=torch.float64),
        torch.zeros(n, 1, dtype=torch.float64),
    )
    one = zero.clone()
    one[j] = 1

    def run(v):
        return torch.stack(
            [linformer_attention(x.expand(n, r), k, v, e, f, scale=1.0)[i] for x in q]
        )

    return (run(one) - run(zero)).squeeze(-1), torch.softmax(q @ (e @ k).T, -1)


def check_causal(e, f, i=0):
    """The size of the columns j > i of F against what row i sees of value j, solved
    for: equal, so at most it.
    """
    worst = 0.0
    for j in range(i + 1, e.shape[1]):
        seen, weights = leaks(e, f, i, j)
        worst = max(
            worst,
            float(f[:, j].norm() - torch.linalg.pinv(weights).norm() * seen.norm()),
        )
    return at_most(worst, 1e-10)


@pytest.mark.claim("lowrank.causal", role="check")
def test_what_row_0_may_not_see_is_not_in_f():
    for seed in range(5):
        e, f = drawn((3, 6), (3, 6), seed=seed)
        assert check_causal(e, f).ok and check_causal(e, f, i=4).ok
    e, f = drawn((3, 6), (3, 6))
    f[:, 1:] = 0
    assert (
        check_causal(e, f).ok
        and max(float(leaks(e, f, 0, j)[0].norm()) for j in range(1, 6)) < 1e-12
    )


@pytest.mark.claim("lowrank.causal", role="control")
def test_unless_the_rows_of_e_are_dependent():
    """All mixtures of keys alike, and values that cancel: row 0 sees nothing of the
    future, yet F is not zero.
    """
    e, f = (
        torch.ones(2, 4, dtype=torch.float64),
        torch.tensor([[1.0], [-1.0]], dtype=torch.float64).expand(2, 4),
    )
    assert check_causal(e, f).ok is False


@pytest.mark.claim("lowrank.causal", role="witness")
def test_an_edit_of_the_future_moves_row_0():
    q = k = torch.zeros(2, 1, dtype=torch.float64)
    half = torch.full((1, 2), 0.5, dtype=torch.float64)
    rows = [
        linformer_attention(
            q, k, torch.tensor([[0.0], [x]], dtype=q.dtype), half, half
        )[0]
        for x in (0.0, 1.0)
    ]
    assert rows[0] == 0 and rows[1] == 0.5
