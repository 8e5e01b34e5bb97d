"""Page jl_low_rank/spectra_and_linformer: worked examples and attained bounds."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
import torch

from attnbook.theorems import spectra_and_linformer as page
from attnlib.lowrank import (
    effective_rank,
    linformer_attention,
    sampled_product,
    svd_surrogate,
)

double = torch.float64


def blocks(n, m):
    """m uniform blocks on n tokens."""
    block = torch.full((n // m, n // m), m / n, dtype=double)
    return torch.block_diag(*[block] * m)


def test_rank_five_leaves_a_tenth_of_a_random_matrix():
    p = page.stochastic(24)
    assert (p - svd_surrogate(p, 5)).norm() >= 0.1 * p.norm()


@pytest.mark.parametrize("m", [1, 2, 5, 10])
def test_uniform_blocks_attain_the_bound_of_diffuse_heads(m):
    p = blocks(10, m)
    last = torch.linalg.svdvals(p)[m - 1]
    assert last == pytest.approx(float(p.norm()) / math.sqrt(m), abs=page.ROUNDING)
    assert page.diffuse_heads(p).value == pytest.approx(1, abs=page.ROUNDING)


def test_the_two_counts_put_two_matrices_in_opposite_orders():
    """Ten mixed tokens count 1 and 9, five blocks of two count 5 and 5."""
    mixed = torch.eye(10, dtype=double) / 10 + 0.09
    for p, by_energy, by_sums in ((mixed, 1, 9), (blocks(10, 5), 5, 5)):
        sigma = torch.linalg.svdvals(p)
        assert effective_rank(sigma, power=2) == by_energy
        assert effective_rank(sigma, power=1) == by_sums


def test_a_determinant_is_tiny_and_positive():
    """Twelve equispaced points of [-1, 1]: det of exp(q_i q_j) is 5.4e-63."""
    with mpmath.workdps(120):
        q = [mpmath.mpf(2 * i - 11) / 11 for i in range(12)]
        det = mpmath.det(mpmath.matrix([[mpmath.exp(a * b) for b in q] for a in q]))
        assert float(det / mpmath.mpf("5.4e-63")) == pytest.approx(1, abs=0.01)


def test_the_share_of_the_circle_tends_to_five_ninths():
    assert abs(page.share_of_the_circle(1000) - Fraction(5, 9)) <= 5e-4


@pytest.mark.parametrize(("d", "degree", "rank"), [(1, 4, 5), (2, 4, 15), (3, 2, 10)])
def test_the_rank_of_a_taylor_matrix_is_the_binomial(d, degree, rank):
    q, k, _, _ = page.small_head(n=60, d=d).values()
    found = torch.linalg.matrix_rank(page._taylor(q @ k.mT, degree), rtol=1e-13)
    assert found == rank == math.comb(d + degree, degree)


def test_the_sampler_obeys_the_law():
    """2,000 products, a long value among short ones."""
    p, v = page.small_product(n=6, seed=1).values()
    v[0] = 8 * v[0]
    g = torch.Generator().manual_seed(0)
    total = 0.0
    for _ in range(2000):
        product = sampled_product(p, v, 3, generator=g)
        total += float((product - p @ v).square().sum())
    c = p.norm(dim=0) * v.norm(dim=1)
    law = float(c.sum() ** 2 - (p @ v).square().sum()) / 3
    assert total / 2000 == pytest.approx(law, rel=0.1)


def test_the_identity_as_both_projections_is_dense_attention():
    q, k, v = page.drawn((6, 3), (6, 3), (6, 2))
    eye = torch.eye(6, dtype=double)
    off = linformer_attention(q, k, v, eye, eye) - page.dense(q, k, v)
    assert off.abs().max() <= page.ROUNDING


def test_attention_between_six_points_is_far_from_singular():
    q = torch.linspace(-1, 1, 6, dtype=double)[:, None]
    assert torch.linalg.svdvals(torch.softmax(3 * q @ q.mT, -1))[-1] >= 1e-6


def test_an_edit_of_the_future_is_seen():
    """Two tokens, one pair, E = F = (1/2, 1/2): raise the second value by one, and the
    first row moves by 1/2.
    """
    zero = torch.zeros(2, 1, dtype=double)
    half = torch.full((1, 2), 0.5, dtype=double)
    raised = torch.tensor([[0.0], [1.0]], dtype=double)
    before = linformer_attention(zero, zero, zero, half, half)
    after = linformer_attention(zero, zero, raised, half, half)
    assert after[0] - before[0] == 0.5


def test_a_permutation_accepts_the_output_zero():
    """256 tokens that each look at one other, values of one length and width 64: every
    row meets (7.11) at eps = 1/2, as 256 = 64 / (1/2)^2.
    """
    p = torch.eye(256, dtype=double).roll(3, 0)
    (v,) = page.drawn((256, 64))
    v = v / v.norm(dim=1, keepdim=True)
    assert page.zero_output(p, v, 0.5).ok


def test_signs_fail_half_of_the_time():
    """Signs in place of Gaussian entries, n = 3, k = 4: of all 4096 matrices R, those
    for which 1'R1 / sqrt(k) lies within n / 2 of n.
    """
    passed = 0
    for signs in itertools.product((1, -1), repeat=12):
        total = Fraction(sum(signs), 2)  # divided by sqrt(k)
        passed += abs(total - 3) <= Fraction(3, 2)
    assert passed <= 2**11


def test_as_many_pairs_as_dimensions_and_one():
    """Six independent queries of width six, outputs on a plane: three pairs."""
    q, k, v = page.drawn((6, 6), (6, 6), (6, 2))
    outputs = page.dense(q, k, v)
    s, t = page.enough_pairs(q, outputs, rank=2)
    assert len(s) == len(t) == 3
    assert (page.dense(q, s, t) - outputs).abs().max() <= 1e-10


@pytest.mark.parametrize(("eps", "share"), [(0.5001, 1), (0.4999, 0)])
def test_six_pairs_serve_all_of_eight_kinds_at_a_half(eps, share):
    """All are off by sqrt(1 - 6/8); at less eight kinds would need seven pairs."""
    assert page.covering(**page.six_pairs(eps=eps)).value == share
