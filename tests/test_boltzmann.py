"""The Boltzmann operator and its certified gaps. Claims:
test_claims_boltzmann_and_hardmax.py.
"""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook.theorems.boltzmann_and_hardmax import derivatives, log_separation_bound
from attnlib import certify
from attnlib.memorize import boltzmann, needed_gap

EPS = torch.finfo(torch.float64).eps
NUMBERS = st.fractions(min_value=-3, max_value=3, max_denominator=8)
BAGS = st.lists(NUMBERS, min_size=1, max_size=4)
ZERO = certify.Enclosure(mpmath.mpf(0), mpmath.mpf(0))


def rows(*size, seed=0, dtype=torch.float64, device="cpu"):
    return 3 * torch.randn(
        *size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).to(device, dtype)


# --- the operator


def boltzmann_literal(a):
    return (a * a.softmax(-1)).sum(-1)


@pytest.mark.parametrize("size", [(1,), (5,), (3, 1), (2, 3, 7), (5000, 32), (0, 4)])
def test_it_is_the_formula(size, device):
    a = rows(*size, device=device)
    wanted = boltzmann_literal(a)
    assert boltzmann(a).shape == size[:-1]
    assert torch.allclose(boltzmann(a), wanted, rtol=0, atol=64 * EPS * 20)


def test_gradients_flow():
    a = rows(3, 4).requires_grad_()
    assert torch.autograd.gradcheck(boltzmann, (a,))
    assert torch.autograd.gradgradcheck(boltzmann, (a,))
    boltzmann(a).sum().backward()
    assert torch.allclose(a.grad, derivatives(a.detach())[0], atol=1e-13)


FORWARD = {
    "jvp": lambda f, a, v: torch.func.jvp(f, (a,), (v,))[1],
    "jacfwd": lambda f, a, v: (torch.func.jacfwd(f)(a) * v).sum((-2, -1)),
    "vmap of jvp": lambda f, a, v: torch.func.vmap(
        lambda x, u: torch.func.jvp(f, (x,), (u,))[1]
    )(a, v),
    "hessian": lambda f, a, v: (torch.func.hessian(lambda x: f(x).sum())(a) * v).sum(
        (-2, -1)
    ),
    "forward over forward": lambda f, a, v: (
        torch.func.jacfwd(torch.func.jacfwd(lambda x: f(x).sum()))(a) * v
    ).sum((-2, -1)),
    "captured": lambda f, a, v: torch.func.jvp(
        lambda x: torch.func.jvp(lambda y: f(x) * y, (v[:, 0],), (v[:, 1],))[1],
        (a,),
        (v,),
    )[1],
    "no_grad": lambda f, a, v: torch.no_grad()(torch.func.jvp)(f, (a,), (v,))[1],
}


# torch's own, at its first forward derivative
FORWARDS = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


@FORWARDS
@pytest.mark.parametrize("way", FORWARD)
def test_forward_mode_is_that_of_the_formula(way):
    a, v = rows(3, 4), rows(3, 4, seed=1)
    derivative = FORWARD[way]
    got = derivative(boltzmann, a, v)
    wanted = derivative(boltzmann_literal, a, v)
    assert wanted.abs().max() > 1e-2 and torch.allclose(got, wanted, rtol=0, atol=1e-12)


@FORWARDS
def test_dual_numbers_and_gradcheck_forwards():
    a, v = rows(3, 4), rows(3, 4, seed=1)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(a, v)
        got = torch.autograd.forward_ad.unpack_dual(boltzmann(dual)).tangent
    assert torch.allclose(got, (derivatives(a)[0] * v).sum(-1), atol=1e-13)
    assert torch.autograd.gradcheck(
        boltzmann, (a.requires_grad_(),), check_forward_ad=True
    )


def test_vmap_is_the_batch():
    a = rows(6, 4)
    assert torch.allclose(torch.func.vmap(boltzmann)(a), boltzmann(a), atol=1e-13)
    slopes = torch.func.vmap(torch.func.grad(boltzmann))(a)
    assert torch.allclose(slopes, derivatives(a)[0], atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("grad", [False, True])
def test_many_entries_in_half_precision(dtype, grad, device):
    """The sum of 4096 weights, and of 2048 of their products with 40, leaves the range
    of a half.
    """
    for n in (2048, 4096, 100_000):
        a = torch.full((2, n), 40.0, dtype=dtype, device=device, requires_grad=grad)
        assert boltzmann(a).dtype == dtype and boltzmann(a).tolist() == [40, 40]


def test_large_logits_and_small_types():
    assert boltzmann(torch.tensor([1e4, 1e4 - 1, -1e4])) == pytest.approx(
        1e4 - 1 / (1 + math.e), rel=1e-6
    )
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        got = boltzmann(rows(8, 16, dtype=dtype))
        assert got.dtype == dtype and torch.allclose(
            got.double(), boltzmann(rows(8, 16)), atol=0.2, rtol=0.05
        )


def test_one_row_by_hand():
    a = torch.tensor([0.0, math.log(3)], dtype=torch.float64)
    assert float(boltzmann(a)) == pytest.approx(0.75 * math.log(3), abs=1e-15)
    assert derivatives(a)[0].tolist() == pytest.approx(
        [0.25 * (1 - 0.75 * math.log(3)), 0.75 * (1 + 0.25 * math.log(3))]
    )


def test_integers_of_other_libraries():
    np = pytest.importorskip("numpy")
    assert needed_gap(np.int64(3)) == needed_gap(3)


# --- certified gaps


def by_arb(a, b, s):
    """The plain difference of the two averages, by another library, with far more
    digits than the gap needs.
    """
    flint.ctx.prec = 3000

    def arb(q):
        return flint.arb(flint.fmpq(Fraction(q).numerator, Fraction(q).denominator))

    def mean(values):
        weights = [(arb(s) * arb(v)).exp() for v in values]
        return sum((arb(v) * w for v, w in zip(values, weights)), flint.arb(0)) / sum(
            weights, flint.arb(0)
        )

    try:
        return mean(a) - mean(b)
    finally:
        flint.ctx.prec = 53


def inside(gap, ball):
    with mpmath.workprec(4000):
        text = ball.str(900, radius=False, more=True)
        return (
            gap.lower
            <= mpmath.mpf(text) * (1 + mpmath.sign(gap.lower) * mpmath.mpf(10) ** -300)
            and mpmath.mpf(text) * (1 - mpmath.sign(gap.lower) * mpmath.mpf(10) ** -300)
            <= gap.upper
        )


@given(BAGS, BAGS, st.fractions(min_value=-9, max_value=9, max_denominator=5))
def test_gaps_against_arb(a, b, s):
    gap, ball = certify.boltzmann_gap(a, b, scale=s), by_arb(a, b, s)
    if gap.sign == 0:
        assert ball.contains(0) and abs(ball).upper() < flint.arb(10) ** -800
    else:
        assert inside(gap, ball) and gap.lower * gap.upper > 0


def test_a_gap_far_below_the_smallest_float():
    z = [1 + Fraction(k, 7) for k in range(8)]
    gap = certify.boltzmann_gap([z[0], *z[5:]], [z[1], *z[5:]], scale=2000)
    ball = by_arb([z[0], *z[5:]], [z[1], *z[5:]], 2000)
    assert gap.log10 < -600 and inside(gap, ball)
    assert (gap.upper - gap.lower) / abs(gap.lower) < mpmath.mpf(2) ** -90


def test_equal_averages_are_found_exactly():
    assert certify.boltzmann_gap([1, 2], [2, 1, 1, 2], scale=3) == ZERO
    assert (
        certify.boltzmann_gap([1, 2, 6], [3], scale=0) == ZERO
        and certify.boltzmann_gap([1, 2, 6], [3], scale=1).sign == 1
    )
    assert (
        certify.context_terms((1, [1, 1, 4, 4]), (2, [0.5, 2, 2, 3.5]), weight=2) == {}
    )
    assert certify.boltzmann_gap([1], [1]).log10 == -math.inf


def test_the_sign_turns_with_the_order_and_the_precision_is_given_back():
    before = mpmath.iv.prec
    there, back = (
        certify.boltzmann_gap(*p, scale=0.3, bits=16)
        for p in (([1, 2], [1, 3]), ([1, 3], [1, 2]))
    )
    assert there.sign == -1 and back.sign == 1 and there.lower == -back.upper
    assert mpmath.iv.prec == before


def test_the_smallest_of_many():
    sets = [[1, 2, 5], [1, 3, 5], [1, 2, 7], [2, 3, 5], [1, 2, 5.0625]]
    gap, i, j = certify.smallest_gap([(1, s) for s in sets], beta=0.25)
    pairs = [
        certify.boltzmann_gap(a, b, scale=0.25)
        for k, a in enumerate(sets)
        for b in sets[:k]
    ]
    assert gap.log10 == pytest.approx(min(p.log10 for p in pairs)) and {i, j} == {0, 4}
    found, i, j = certify.smallest_gap([(1, s) for s in (*sets, [5, 2, 1])], beta=0.25)
    assert found.sign == 0 and {i, j} == {0, 5}


@given(
    st.lists(
        st.lists(st.integers(-2, 2), min_size=2, max_size=2), min_size=2, max_size=4
    ),
    st.integers(0, 10**6),
)
def test_hardmax_in_fractions_is_the_kernel(x, seed):
    from attnlib.attention import Layer, forward

    g = torch.Generator().manual_seed(seed)
    heads = [
        [
            torch.randint(-2, 3, s, generator=g).tolist()
            for s in ((2, 1), (2, 1), (2, 2), (2, 2))
        ]
        for _ in range(2)
    ]
    layer = Layer(*(torch.tensor(w, dtype=torch.float64) for w in zip(*heads)))
    wanted = forward(
        torch.tensor(x, dtype=torch.float64),
        [layer],
        skip=True,
        normalizer="hardmax",
        scale=1.0,
    )
    got = [[float(v) for v in row] for row in certify.hardmax_layer(x, heads)]
    assert torch.allclose(torch.tensor(got, dtype=torch.float64), wanted, atol=1e-12)


# --- bad input


@pytest.mark.bad_input
def test_bad_logits():
    with pytest.raises(ValueError, match="NaN or infinity"):
        boltzmann(torch.full((2, 3), -math.inf))


@pytest.mark.bad_input
def test_rows_without_an_entry_have_no_average():
    """The formula alone would give them 0, an empty sum."""
    with pytest.raises(ValueError, match=r"n >= 1, got \(2, 0\)"):
        boltzmann(rows(2, 0))


@pytest.mark.bad_input
def test_bad_hypotheses():
    for call, message in [
        (lambda: needed_gap(1), "n must be an integer of at least 2"),
        (
            lambda: log_separation_bound(4, 5.0, 20.0, kind="distinct"),
            "delta must be at least 5.77",
        ),
        (lambda: log_separation_bound(4, 6.0, 20.0, kind="multiset"), "at least 7.15"),
        (
            lambda: log_separation_bound(4, 6.0, 5.0, kind="distinct"),
            "spread at least delta, got 6 and 5",
        ),
        (lambda: certify.boltzmann_gap([1], [2], bits=8), "at least 16"),
        (lambda: certify.smallest_gap([(1, [1])], beta=1), "at least two"),
        (
            lambda: certify.hardmax_layer([[1, 2]], [([[1]], [[1]], [[1]], [[1]])]),
            "cannot multiply",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
