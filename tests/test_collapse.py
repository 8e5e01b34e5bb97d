"""The room collapse: the recursion against arbitrary precision, the bounds, and bad
input. Claims: test_claims_rank_collapse.py.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook.theorems.rank_collapse import log_printed
from attnlib import certify
from attnlib.attention import Layer, forward, random_layers
from attnlib.collapse import (
    composite_norm,
    diameter,
    log_bound,
    log_diameter_bound,
    log_residuals,
    residual,
)

EPS = torch.finfo(torch.float64).eps
SIZES = st.tuples(
    st.integers(1, 6), st.integers(1, 5), st.integers(1, 3), st.integers(1, 4)
)


def instance(
    n=5,
    d=4,
    h=2,
    L=4,
    gain=0.7,
    batch=(),
    bias=True,
    seed=0,
    dtype=torch.float64,
    device="cpu",
):
    g = torch.Generator().manual_seed(seed)
    layers = random_layers(
        L, h, d, 3, d_v=2, gain=gain, bias=bias, generator=g, dtype=dtype, device=device
    )
    return torch.randn(*batch, n, d, generator=g, dtype=torch.float64).to(
        device, dtype
    ), layers


def nested(layers):
    return [tuple(None if w is None else w.tolist() for w in layer) for layer in layers]


def test_the_norm_by_hand():
    x = torch.tensor([[3.0, 1.0], [1.0, -1.0]])
    assert torch.equal(residual(x), torch.tensor([[1.0, 1.0], [-1.0, -1.0]]))
    assert float(composite_norm(x)) == pytest.approx(
        4.0
    )  # columns 4 and 2, rows 4 and 2
    assert composite_norm(torch.stack([x, 3 * x])).tolist() == pytest.approx(
        [4.0, 12.0]
    )


@pytest.mark.parametrize(
    ("dtype", "sizes"),
    [(torch.float64, (1e-200, 1e-300, 1e160)), (torch.float32, (1e-24, 1e-30, 1e20))],
)
def test_sizes_whose_square_is_no_float(dtype, sizes):
    """|cX| = c |X|, and a residual that is not zero is not called zero."""
    x, layers = instance(dtype=dtype)
    before = float(log_residuals(x, layers)[0])
    for c in sizes:
        norm = composite_norm(c * x)
        assert float(norm / c) == pytest.approx(float(composite_norm(x)), rel=1e-5)
        if c < 1:
            first = log_residuals(c * x, layers)[0]
            assert float(first) == pytest.approx(before + math.log(c), rel=1e-5)
            assert torch.equal(log_bound(c * x, layers)[0], first)
            assert log_bound(c * x, layers).isfinite().all()


@pytest.mark.parametrize(
    ("dtype", "sizes"),
    [(torch.float64, (1e-170, 1e-300, 1e160)), (torch.float32, (1e-25, 1e-36, 1e20))],
)
def test_diameters_whose_square_is_no_float(dtype, sizes):
    """Tokens that differ are not called equal, nor infinitely far apart."""
    x, layers = instance(dtype=dtype, batch=(2,))
    wanted = diameter(x)
    for c in sizes:
        assert torch.allclose(diameter(c * x) / c, wanted, rtol=1e-5)
        bound = log_diameter_bound(c * x, layers)
        assert torch.allclose(bound[0], wanted.log() + math.log(c), rtol=1e-5)
        assert bound.isfinite().all()


@pytest.mark.parametrize("size", [0.0, 1e-200, 1e-9, 1.0, 1e9, 1e160])
@pytest.mark.parametrize("bound", [log_bound, log_diameter_bound])
def test_gradients_of_the_bounds_are_finite(bound, size):
    """Also where a layer's own numbers are no floats, and for equal tokens."""
    x, layers = instance(L=6)
    if bound is log_bound and size == 0.0:
        size = 1e-250  # the composite norm has no gradient at zero
    x = (size * x).requires_grad_()
    w_v = layers[0].w_v.clone().requires_grad_()
    found = bound(x, [layers[0]._replace(w_v=w_v), *layers[1:]])
    found[-1].backward()
    assert x.grad.isfinite().all()
    if found[-1].isfinite():
        assert w_v.grad.isfinite().all() and w_v.grad.any()


@pytest.mark.parametrize("bound", [log_bound, log_diameter_bound])
def test_gradients_of_the_bounds_are_right(bound):
    x, layers = instance(L=2)

    def of(x, w_q, w_v):
        return bound(x, [layers[0]._replace(w_q=w_q, w_v=w_v), layers[1]])

    given = (x, layers[0].w_q, layers[0].w_v)
    given = tuple(t.clone().requires_grad_() for t in given)
    assert torch.autograd.gradcheck(of, given)


@pytest.mark.again
@given(SIZES, st.floats(0.1, 1.5), st.booleans(), st.integers(0, 10**6))
def test_the_recursion_is_the_forward_pass_where_that_can_be_seen(
    sizes, gain, bias, seed
):
    n, d, h, L = sizes
    x, layers = instance(n, d, h, L, gain, bias=bias, seed=seed)
    got = log_residuals(x, layers)
    for l in range(L + 1):
        y = forward(x, layers[:l]) if l else x
        seen = composite_norm(residual(y))
        size = max(1, float(y.abs().max()), float(x.abs().max()))
        assert abs(float(got[l].exp() - seen)) <= 1e4 * EPS * size + 1e-8 * float(seen)


@pytest.mark.parametrize("gain", [0.3, 0.7, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("bias", [False, True])
def test_the_recursion_against_900_digits(gain, bias):
    x, layers = instance(L=5, gain=gain, bias=bias, seed=round(10 * gain))
    wanted = torch.tensor(
        certify.log_residuals(x.tolist(), nested(layers), digits=900),
        dtype=torch.float64,
    )
    got = log_residuals(x, layers)
    deep = wanted > -math.inf
    assert (
        torch.equal(got > -math.inf, deep) and (got - wanted)[deep].abs().max() < 1e-8
    )


def test_large_weights_make_small_differences_count():
    """Tokens 2^-27 apart, along which W_QK is 2^48: logits differ by a hundredth."""
    rest = torch.tensor([[0, 1.0], [0, -1.0], [0, 0.3]], dtype=torch.float64)
    x = torch.tensor([1.0, 0.0], dtype=torch.float64) + 2.0**-27 * rest
    key = torch.zeros(1, 2, 2, dtype=torch.float64)
    key[0, 1, 1] = 2.0**24
    eye = torch.eye(2, dtype=torch.float64)[None]
    layers = [Layer(key, key, eye, eye)]
    wanted = certify.log_residuals(x.tolist(), nested(layers), digits=60)
    assert log_residuals(x, layers).tolist() == pytest.approx(wanted, abs=1e-12)


def test_it_follows_the_residual_below_the_smallest_float():
    x, layers = instance(n=4, d=3, h=1, L=6, gain=0.5)
    wanted = certify.log_residuals(x.tolist(), nested(layers), digits=2000)
    assert wanted[-1] / math.log(10) < -600
    assert (
        log_residuals(x, layers) - torch.tensor(wanted, dtype=torch.float64)
    ).abs().max() < 1e-8


def test_batches_and_heads_that_differ_by_layer():
    x, layers = instance(batch=(2, 3), L=5)
    layers[1] = instance(h=3, L=1, seed=9)[1][0]
    x[0] *= 1e-9  # some of the batch is in the linear regime, some is not
    got = log_residuals(x, layers)
    assert got.shape == (6, 2, 3)
    for i in range(2):
        for j in range(3):
            one = log_residuals(x[i, j], layers)
            assert (got[:, i, j] - one).abs().max() < 1e-9
            for bound in (log_printed, log_bound):
                whole = bound(x, layers)
                alone = bound(x[i, j], layers)
                assert torch.allclose(whole[:, i, j], alone, rtol=1e-12)


def test_devices_and_dtypes_agree(device):
    wanted = log_residuals(*instance())
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 2e-2)):
        x, layers = instance(dtype=dtype, device=device)
        got = log_residuals(x, layers)
        assert got.dtype == dtype and got.device.type == device.type
        assert (got.cpu().double() - wanted).abs().max() < tolerance
        assert log_bound(x, layers).device.type == device.type


@pytest.mark.again
@given(SIZES, st.floats(0.05, 1.0), st.integers(0, 10**6))
def test_the_bound_holds(sizes, gain, seed):
    n, d, h, L = sizes
    x, layers = instance(n, d, h, L, gain, seed=seed)
    got, bound = log_residuals(x, layers), log_bound(x, layers)
    assert ((got <= bound) | (got - bound <= 1e-9 * bound.abs().clamp_min(1))).all()
    assert not bound.isnan().any()


def test_the_state_may_be_shifted_and_permuted():
    x, layers = instance(bias=False)
    got = log_residuals(x, layers)
    assert (
        log_residuals(x[torch.tensor([3, 1, 0, 4, 2])], layers) - got
    ).abs().max() < 1e-9
    shifted = [
        layer._replace(b_o=torch.full((4,), 0.3, dtype=x.dtype))
        for layer in layers[-1:]
    ]
    assert (
        log_residuals(x, [*layers[:-1], *shifted]) - got
    ).abs().max() < 1e-9  # the last bias moves no residual


def test_equal_tokens_have_no_residual():
    x, layers = instance(n=1, batch=(2,))
    assert torch.equal(
        log_residuals(x, layers), torch.full((5, 2), -math.inf, dtype=x.dtype)
    )
    assert torch.equal(
        log_bound(x, layers), torch.full((5, 2), -math.inf, dtype=x.dtype)
    )
    x, layers = instance()
    silent = [layers[0], layers[1]._replace(w_o=0 * layers[1].w_o), layers[2]]
    for run in (log_residuals, log_bound):
        got = run(x, silent)
        assert got[:2].isfinite().all() and got[2:].isneginf().all()
    uniform = [layers[0]._replace(w_q=0 * layers[0].w_q, b_q=None)]
    assert log_residuals(x, uniform)[1] == log_bound(x, uniform)[1] == -math.inf


def test_the_printed_bound_and_one_beyond_the_floats():
    x, layers = instance(h=1, L=1, gain=0.3)
    w = (layers[0].w_q[0] @ layers[0].w_k[0].T).abs().sum(0).max() * composite_norm(
        layers[0].w_v[0] @ layers[0].w_o[0]
    )
    printed = math.log(4 * w / math.sqrt(3)) + 3 * float(
        composite_norm(residual(x)).log()
    )
    assert float(log_printed(x, layers)[1]) == pytest.approx(printed, abs=1e-12)
    x, layers = instance(gain=9.0)
    assert log_bound(x, layers)[-1] == math.inf
    assert log_printed(x, layers).isfinite().all()


# --- bad input


@pytest.mark.bad_input
@pytest.mark.parametrize("run", [log_residuals, log_bound])
def test_an_infinite_norm_is_refused(run):
    x, layers = instance()
    huge = layers[1]._replace(w_q=1e200 * layers[1].w_q, w_k=1e200 * layers[1].w_k)
    with pytest.raises(ValueError, match="layer 2: .*W_QK.*infinite norm"):
        run(x, [layers[0], huge])
