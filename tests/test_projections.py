"""Random projections and the JL surrogate of attnlib.lowrank: fast against literal,
exact tails against many digits, and bad input.
"""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib.lowrank import _hadamard as hadamard
from attnlib.lowrank import (
    failure_bound,
    failure_probability,
    jl_surrogate,
    projection,
    required_dimension,
    srht,
)

FAMILIES = ["gaussian", "rademacher", "achlioptas", "sparse", "srht"]


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*size, seed=0):
    return torch.randn(*size, dtype=torch.float64, generator=gen(seed))


def sylvester(n):
    """H_2n = [[H, H], [H, -H]], literally."""
    h = torch.ones(1, 1, dtype=torch.float64)
    while len(h) < n:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    return h


@pytest.mark.parametrize("n", [1, 2, 8, 64])
def test_the_fast_transform_is_the_matrix(n):
    x = randn(3, 2, n).requires_grad_()
    assert (hadamard(x) - x @ sylvester(n)).abs().max() < 1e-10
    weight = randn(3, 2, n, seed=1)
    (fast,) = torch.autograd.grad((hadamard(x) * weight).sum(), x)
    (slow,) = torch.autograd.grad(((x @ sylvester(n)) * weight).sum(), x)
    assert (fast - slow).abs().max() < 1e-10


@given(st.integers(1, 70), st.integers(1, 70), st.integers(0, 10**6))
def test_srht_is_its_literal_twin(k, n, seed):
    k = min(k, n)
    x = randn(2, n, seed=seed).requires_grad_()
    r = projection(k, n, "srht", generator=gen(seed))
    fast = srht(x, k, generator=gen(seed))
    assert (fast - x @ r.T).abs().max() < 1e-10
    (got,) = torch.autograd.grad((fast**2).sum(), x)
    (wanted,) = torch.autograd.grad(((x @ r.T) ** 2).sum(), x)
    assert (got - wanted).abs().max() < 1e-10 * n


@pytest.mark.parametrize("lead", [(), (1,), (2, 1), (2, 3)])
def test_srht_takes_rows_in_batches_of_any_shape(lead):
    x = randn(*lead, 16)
    r = projection(1, 16, "srht", generator=gen())
    fast = srht(x, 1, generator=gen())
    assert fast.shape == (*lead, 1)
    assert (fast - x @ r.T).abs().max() < 1e-10


def test_the_entries_of_each_family():
    k, n = 12, 40
    r = {f: projection(k, n, f, generator=gen()) for f in FAMILIES}
    assert torch.allclose(
        r["rademacher"].abs(), torch.full((k, n), 1 / math.sqrt(k), dtype=torch.float64)
    )
    values = (r["achlioptas"] * math.sqrt(k / 3)).unique()
    assert torch.allclose(values, torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64))
    share = float(
        (projection(50, 400, "achlioptas", generator=gen()) != 0).double().mean()
    )
    assert abs(share - 1 / 3) < 4 * math.sqrt(2 / 9 / 20000)
    for s in (1, 3, k):
        sparse = projection(k, n, "sparse", s=s, generator=gen())
        assert ((sparse != 0).sum(0) == s).all()
        assert torch.allclose(
            sparse.square().sum(0), torch.ones(n, dtype=torch.float64)
        )
    full = projection(64, 64, "srht", generator=gen())
    assert (
        full @ full.T - torch.eye(64)
    ).abs().max() < 1e-12  # all rows kept: an orthogonal matrix
    padded = projection(5, 40, "srht", generator=gen())
    assert torch.allclose(
        padded.abs(), torch.full((5, 40), 1 / math.sqrt(5), dtype=torch.float64)
    )


def test_the_same_draws_for_every_dtype_and_device(device):
    for family in FAMILIES:
        wanted = projection(6, 20, family, generator=gen())
        for dtype, tolerance in ((torch.float64, 0), (torch.float32, 1e-6)):
            got = projection(6, 20, family, generator=gen()).to(device, dtype)
            assert (got.cpu().double() - wanted).abs().max() <= tolerance
    x, p, v = randn(3, 20), torch.softmax(randn(2, 9, 20), -1), randn(2, 20, 4)
    assert (
        srht(x.to(device), 6, generator=gen()).cpu() - srht(x, 6, generator=gen())
    ).abs().max() < 1e-10
    there = jl_surrogate(p.to(device), 5, v.to(device), generator=gen()).cpu()
    assert (there - jl_surrogate(p, 5, v, generator=gen())).abs().max() < 1e-10


@pytest.mark.parametrize("family", FAMILIES)
def test_the_surrogate_is_its_literal_twin(family):
    p, v = (
        torch.softmax(randn(2, 7, 12), -1).requires_grad_(),
        randn(2, 12, 3, seed=1).requires_grad_(),
    )
    r = projection(4, 12, family, generator=gen(2))
    literal = p @ r.T @ r
    assert (
        jl_surrogate(p, 4, family=family, generator=gen(2)) - literal
    ).abs().max() < 1e-10
    fast = jl_surrogate(p, 4, v, family=family, generator=gen(2))
    assert (fast - literal @ v).abs().max() < 1e-10
    for got, wanted in zip(
        torch.autograd.grad(fast.square().sum(), (p, v)),
        torch.autograd.grad((literal @ v).square().sum(), (p, v)),
    ):
        assert (got - wanted).abs().max() < 1e-10


# --- tails


def tail(k, eps):
    """The chance in 60 digits."""
    with mpmath.workdps(60):
        a, e = mpmath.mpf(k) / 2, mpmath.mpf(eps)
        upper = mpmath.gammainc(a, a * (1 + e), mpmath.inf, regularized=True)
        return upper + (
            mpmath.gammainc(a, 0, a * (1 - e), regularized=True) if e < 1 else 0
        )


@pytest.mark.parametrize("k", [1, 2, 3, 20, 250, 1024, 5000])
@pytest.mark.parametrize("eps", [0.01, 0.1, 0.25, 0.5, 0.9, 1.0, 2.5])
def test_the_tail_against_60_digits(k, eps):
    """To 2e-9 relative: the large-degree expansion of torch's incomplete gamma gives no
    more.
    """
    wanted = tail(k, eps)
    if wanted > 1e-280:
        assert abs(failure_probability(k, eps) / float(wanted) - 1) < 2e-9


def test_two_degrees_of_freedom_by_hand():
    for eps in (0.1, 0.5, 0.99):
        assert failure_probability(2, eps) == pytest.approx(
            1 - math.exp(eps - 1) + math.exp(-1 - eps), abs=1e-14
        )
    assert failure_probability(2, 3.0) == pytest.approx(math.exp(-4), rel=1e-14)


def test_far_below_the_smallest_float():
    assert failure_probability(20000, 0.9) == 0.0


@pytest.mark.parametrize(
    ("eps", "delta", "union"),
    [(0.5, 0.01, 1), (0.25, 0.01, 1), (0.5, 0.05, 512), (0.9, 0.6, 1)],
)
def test_the_required_dimension_is_the_least(eps, delta, union):
    k = required_dimension(eps, delta, union=union)
    bound = required_dimension(eps, delta, union=union, exact=False)
    assert 1 <= k <= bound
    assert all(
        union * failure_probability(j, eps) <= delta for j in range(k, bound + 1)
    )
    assert k == 1 or union * failure_probability(k - 1, eps) > delta
    assert union * failure_bound(bound, eps) <= delta * (1 + 1e-12)
    assert (
        union * failure_bound(max(bound - 1, 1), eps) > delta * (1 - 1e-12)
        or bound == 1
    )


def test_required_dimensions_known():
    assert [required_dimension(e, 0.01) for e in (0.1, 0.25, 0.5)] == [1330, 215, 56]
    assert [required_dimension(e, 0.01, exact=False) for e in (0.1, 0.25, 0.5)] == [
        2355,
        453,
        170,
    ]
    assert required_dimension(0.01, 0.01) == 132700  # more than one block


# --- bad input


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("k", "n", "how", "message"),
    [
        (9, 8, {}, "k must be at most n = 8, got 9"),
        (
            2,
            8,
            {"family": "sparse", "s": 3},
            "s must be at most k = 2, got 3: a column has k entries",
        ),
    ],
)
def test_bad_projections(k, n, how, message):
    with pytest.raises(ValueError, match=message):
        projection(k, n, **{"generator": gen(), **how})


def test_one_row_by_hand():
    """Also one of a single number."""
    assert hadamard(torch.tensor([1.0, 2.0])).tolist() == [3.0, -1.0]
    assert hadamard(torch.tensor([[5.0]])).tolist() == [[5.0]]


@pytest.mark.bad_input
def test_a_sketch_is_no_longer_than_the_row():
    with pytest.raises(ValueError, match="k must be at most n = 6"):
        srht(torch.ones(2, 6), 7, generator=gen())
    p = torch.eye(4, dtype=torch.float64)
    with pytest.raises(ValueError, match="k must be at most n = 4"):
        jl_surrogate(p, 5, generator=gen())
    with pytest.raises(ValueError, match=r"v must have shape \(2, 4, 4\) to fit p"):
        jl_surrogate(p.expand(2, 4, 4), 2, p, generator=gen())


@pytest.mark.bad_input
def test_no_bound_from_one_on():
    with pytest.raises(ValueError, match="below 1"):
        failure_bound(3, 1.0)
    with pytest.raises(ValueError, match="eps must be"):
        required_dimension(1.0, 0.1)
    with pytest.raises(ValueError, match="delta must be"):
        required_dimension(0.5, 1.0)
