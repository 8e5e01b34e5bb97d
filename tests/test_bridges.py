"""The room between the chapters: twins, gradients, batches, and what it refuses."""

from __future__ import annotations

import math

import pytest
import torch

from attnlib import bridges
from attnlib.bridges import (
    critical_beta,
    dobrushin,
    dobrushin_between,
    largest_dobrushin,
    needed_bits,
    needed_radius,
    radius,
    rank_floor,
)

EPS = torch.finfo(torch.float64).eps


def stochastic(*size, seed=0, sharp=2.0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    return torch.softmax(
        sharp * torch.randn(*size, generator=g, dtype=torch.float64), -1
    ).to(dtype)


def dobrushin_literal(p):
    """1 - min_{i,j} sum_k min(P_ik, P_jk), pair by pair."""
    overlaps = [torch.minimum(one, other).sum() for one in p for other in p]
    return 1 - torch.stack(overlaps).min()


@pytest.mark.parametrize("m, n", [(1, 3), (2, 2), (5, 7), (9, 4)])
def test_dobrushin_is_its_literal_twin(m, n):
    p = stochastic(m, n, seed=n)
    assert float(dobrushin(p)) == pytest.approx(
        float(dobrushin_literal(p)), abs=8 * n * EPS
    )


@pytest.mark.parametrize("sharp", [0.1, 1.0, 4.0])
def test_the_coefficient_lies_between(sharp, monkeypatch):
    for seed in range(20):
        p = stochastic(9, 7, seed=seed, sharp=sharp)
        tau = float(dobrushin(p))
        with monkeypatch.context() as patch:
            patch.setattr(bridges, "FEW", 0)  # no pair but by the bounds
            low, high = dobrushin_between(p)
        assert low - 8 * EPS <= tau <= high + 8 * EPS <= 1 + 16 * EPS
        low, high = dobrushin_between(p)
        assert high - low < 0.01 and low - 8 * EPS <= tau <= high + 8 * EPS
        assert low > 0.99 or low == high == pytest.approx(tau, abs=8 * EPS)


def test_a_row_on_one_token_decides_alone(monkeypatch):
    """As the first row under a causal mask; control: a row that is nearly so."""
    for seed in range(20):
        p = stochastic(9, 7, seed=seed)
        p[3] = torch.eye(7, dtype=p.dtype)[5]
        low, high = dobrushin_between(p)
        assert low == high == pytest.approx(float(dobrushin(p)), abs=8 * EPS)
    p[3] = 0.99 * p[3] + 0.01 / 7
    monkeypatch.setattr(bridges, "FEW", 0)
    low, high = dobrushin_between(p)
    assert low < high


def test_one_floor_is_that_of_all():
    p = stochastic(2, 6, 5)
    for rank in range(5):
        assert torch.equal(rank_floor(p, rank=rank)[:, 0], rank_floor(p)[:, rank])
    with pytest.raises(ValueError, match="rank must be below n = 5"):
        rank_floor(p, rank=5)


def test_dobrushin_has_the_gradient_of_its_twin():
    a = torch.randn(
        6,
        6,
        generator=torch.Generator().manual_seed(3),
        dtype=torch.float64,
        requires_grad=True,
    )
    (fast,) = torch.autograd.grad(dobrushin(a.softmax(-1)), a)
    (slow,) = torch.autograd.grad(dobrushin_literal(a.softmax(-1)), a)
    assert float(fast.abs().max()) > 0.01
    assert torch.allclose(fast, slow, rtol=0, atol=100 * EPS)


def test_batches_are_taken_one_by_one():
    p = stochastic(2, 3, 4, 5)
    for f in (dobrushin, rank_floor, lambda q: radius(q.log())):
        assert torch.equal(
            f(p).flatten(0, 1), torch.stack([f(q) for q in p.flatten(0, 1)])
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrow_floats_stay_narrow(dtype):
    p = torch.eye(4).to(dtype)
    assert dobrushin(p).dtype == rank_floor(p).dtype == dtype
    assert dobrushin(p) == 1 and rank_floor(p).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_floor_in_half_precision_stays_below(dtype):
    n = 1000
    p = torch.full((n, n), 0.6 / (n - 1), dtype=dtype).fill_diagonal_(0.4)
    b = p[0, 1].double()  # a constant matrix has rank one
    assert 0.39 < float(rank_floor(p)[1]) <= float((p.double() - b).abs().sum(-1).max())
    assert (
        rank_floor(p).double() <= rank_floor(p.double(), check=False)
    ).all()  # rounded down
    assert float(rank_floor(p)[1]) > 0.99 * float(
        rank_floor(p.double(), check=False)[1]
    )


def test_by_hand():
    p = torch.tensor([[0.75, 0.25], [0.5, 0.5]], dtype=torch.float64)
    assert float(dobrushin(p)) == 0.25
    assert rank_floor(p).tolist() == [
        0.75,
        pytest.approx(1 / 12),
    ]  # (e_1 + e_2 - 1) / 3 = 1 / 12, and 2 e_2 - 1 = 0
    assert float(radius(torch.tensor([[0.0, 3.0, -1.0], [1.0, 1.0, 2.0]]))) == 2.0
    assert needed_radius(2, 0.5) == 0 and needed_radius(10, 0.1) == pytest.approx(
        math.log(81) / 2
    )


def test_equal_rows_have_no_diameter_and_no_floor_beyond_rank_one():
    p = torch.tensor([0.5, 0.25, 0.25]).expand(3, 3)
    assert dobrushin(p) == 0 and rank_floor(p)[1:].tolist() == [0, 0]


def test_critical_beta_by_hand():
    by_hand = torch.tensor([[0.0, -math.log(4), -1.0, -9.0]], dtype=torch.float64)
    # Gaps 1, ln 4, 9: ln 2 / 1 = 0.693, ln 3 / ln 4 = 0.792, ln 4 / 9 = 0.154.
    assert float(critical_beta(by_hand)) == pytest.approx(math.log(3) / math.log(4))
    assert critical_beta(torch.zeros(3, 1)).tolist() == [0, 0, 0]
    assert critical_beta(torch.tensor([[1.0, 1.0, 0.0]])).tolist() == [math.inf]


def test_critical_beta_is_the_definition_read_aloud():
    g = torch.Generator().manual_seed(4)
    logits = torch.randn(2, 3, 7, generator=g, dtype=torch.float64)
    fast = critical_beta(logits).flatten().tolist()
    for value, row in zip(fast, logits.flatten(0, 1).tolist(), strict=True):
        gaps = sorted(max(row) - logit for logit in row)
        needed = [math.log(j) / gaps[j - 1] for j in range(2, 8)]
        assert value == pytest.approx(max(needed), rel=8 * EPS)


def test_critical_beta_leaves_out_what_is_masked():
    g = torch.Generator().manual_seed(5)
    logits = torch.randn(2, 4, 5, generator=g, dtype=torch.float64)
    causal = torch.ones(4, 5).tril().bool()
    masked = critical_beta(logits, mask=causal)
    assert torch.equal(masked, critical_beta(logits.masked_fill(~causal, -math.inf)))
    assert masked[:, 0].tolist() == [0, 0]  # the first row sees one token
    assert torch.equal(masked[:, 2], critical_beta(logits[..., :3])[:, 2])


def test_critical_beta_has_finite_gradients_where_entries_are_left_out():
    logits = torch.tensor([[0.0, -1.0, -3.0]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([True, True, False])
    (gradient,) = torch.autograd.grad(critical_beta(logits, mask=mask).sum(), logits)
    # ln 2 / (a_1 - a_2): the derivative by a_1 is -ln 2, by a_2 it is ln 2.
    assert gradient.tolist() == [[-math.log(2), math.log(2), 0]]


def test_critical_beta_in_half_precision_is_computed_in_single():
    row = torch.tensor([[0.0, -1e-5]], dtype=torch.float16)
    assert critical_beta(row).dtype == torch.float32
    assert 6e4 < float(critical_beta(row)) < 8e4  # above all finite numbers of float16


def test_needed_bits_holds_integers_of_any_size():
    assert [needed_bits(n) for n in (2, 3, 5)] == [0, 1, 2]
    assert needed_bits(10**30, 3) == pytest.approx(math.log2(10**10 - 1))
    assert needed_bits(10**30 + 1, 3) == math.log2(10**10)
    assert needed_bits(2**4000) == 4000


def test_a_huge_radius_does_not_overflow():
    assert largest_dobrushin(5, 1e4) == 1 and largest_dobrushin(5, 0) == 0


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_cuda():
    p = stochastic(3, 6, 6)
    for f in (dobrushin, rank_floor):
        assert torch.allclose(f(p.cuda()).cpu(), f(p), atol=1e-12)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: dobrushin(torch.tensor([[2.0, -1.0]])), "must not be negative"),
        (
            lambda: critical_beta(torch.full((2, 2), -math.inf)),
            r"not all left out by -inf and mask",
        ),
        (lambda: largest_dobrushin(1, 1.0), "n must be an integer of at least 2"),
        (lambda: needed_radius(1, 0.5), "n must be an integer of at least 2"),
        (lambda: needed_radius(4, 1.0), r"leak must lie in \(0, 1\)"),
        (lambda: needed_bits(1), "points must be an integer of at least 2"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
