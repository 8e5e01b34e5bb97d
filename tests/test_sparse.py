"""The room sparse: every kernel against its masked dense form, gradients too, any
length, padding, and bad input.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib.sparse import (
    fixed_attention,
    fixed_mask,
    masked_attention,
    strided_attention,
    strided_mask,
    window_attention,
    window_mask,
)

KERNELS = {  # name -> (kernel of q, k, v and l, mask of n and l)
    "strided": (
        lambda q, k, v, l, **how: strided_attention(q, k, v, stride=l, **how),
        strided_mask,
    ),
    "fixed, c = 1": (
        lambda q, k, v, l, **how: fixed_attention(q, k, v, stride=l, **how),
        fixed_mask,
    ),
    "fixed, c = l": (
        lambda q, k, v, l, **how: fixed_attention(q, k, v, stride=l, summary=l, **how),
        lambda n, l: fixed_mask(n, l, l),
    ),
    "window": (
        lambda q, k, v, l, **how: window_attention(
            q, k, v, width=2 * l - 1, tile=l + 1, **how
        ),
        lambda n, l: window_mask(n, 2 * l - 1),
    ),
    "window, causal": (
        lambda q, k, v, l, **how: window_attention(
            q, k, v, width=l, causal=True, tile=5, **how
        ),
        lambda n, l: window_mask(n, l, causal=True),
    ),
}


def instance(n, batch=(), d=4, d_v=3, seed=0, dtype=torch.float64, device="cpu"):
    g = torch.Generator().manual_seed(seed)
    q, k = (
        torch.randn(*batch, n, d, generator=g, dtype=torch.float64)
        .to(device, dtype)
        .requires_grad_()
        for _ in "qk"
    )
    return (
        q,
        k,
        torch.randn(*batch, n, d_v, generator=g, dtype=torch.float64)
        .to(device, dtype)
        .requires_grad_(),
    )


def same(y, wanted, inputs, within=1e-10):
    """Values and gradients agree."""
    grads = [torch.autograd.grad(t.square().sum(), inputs) for t in (y, wanted)]
    off = [(y - wanted).abs().max(), *((a - b).abs().max() for a, b in zip(*grads))]
    assert max(float(o.detach()) for o in off) < within


@pytest.mark.parametrize("name", KERNELS)
@given(
    st.integers(1, 60),
    st.integers(1, 20),
    st.sampled_from([(), (2,), (2, 3)]),
    st.integers(0, 10**6),
)
def test_kernels_are_their_masked_dense_form(name, n, l, batch, seed):
    kernel, mask = KERNELS[name]
    inputs = instance(n, batch, seed=seed)
    same(kernel(*inputs, l), masked_attention(*inputs, mask(n, l)), inputs)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n", [5, 24, 33])
def test_padding_gets_no_weight_and_its_rows_are_zero(name, n):
    kernel, mask = KERNELS[name]
    inputs = instance(n, (2,))
    real = torch.rand(2, n, generator=torch.Generator().manual_seed(n)) < 0.6
    real[:, 1] = True
    seen = mask(n, 4) & real.unsqueeze(-2) | torch.eye(n, dtype=torch.bool)
    same(
        kernel(*inputs, 4, padding=real),
        masked_attention(*inputs, seen) * real.unsqueeze(-1),
        inputs,
    )


@pytest.mark.parametrize("name", KERNELS)
def test_scale_and_single_precision(name):
    kernel, mask = KERNELS[name]
    inputs = instance(50, dtype=torch.float32)
    y = kernel(*inputs, 7, scale=0.3)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, masked_attention(*inputs, mask(50, 7), scale=0.3))


def test_large_logits_stay_finite():
    inputs = [1e3 * t for t in instance(40)]
    for kernel, _ in KERNELS.values():
        assert torch.isfinite(kernel(*inputs, 6)).all()


def test_masks_by_hand():
    assert strided_mask(8, 3)[7].nonzero().flatten().tolist() == [1, 4, 5, 6, 7]
    assert fixed_mask(8, 3)[7].nonzero().flatten().tolist() == [2, 5, 6, 7]
    assert fixed_mask(8, 3, 2)[7].nonzero().flatten().tolist() == [1, 2, 4, 5, 6, 7]
    assert window_mask(8, 3)[4].nonzero().flatten().tolist() == [3, 4, 5]
    assert window_mask(8, 3, causal=True)[4].nonzero().flatten().tolist() == [2, 3, 4]
    assert (
        int(strided_mask(64, 8).sum(-1).max()) == 8 + 1 + 6
    )  # l + 1 near keys and those 2 l, 3 l, .. back


@pytest.mark.cuda
@pytest.mark.parametrize("name", KERNELS)
def test_on_a_gpu(name):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    kernel, mask = KERNELS[name]
    inputs = instance(50, (2,), device="cuda")
    same(kernel(*inputs, 7), masked_attention(*inputs, mask(50, 7).cuda()), inputs)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda q, k, v: strided_attention(q, k, v, stride=0),
            "stride must be an integer of at least 1, got 0",
        ),
        (
            lambda q, k, v: strided_attention(q, k, v, stride=2.0),
            "stride must be an integer",
        ),
        (
            lambda q, k, v: fixed_attention(q, k, v, stride=4, summary=5),
            r"summary must lie in 1..stride = 4, got 5",
        ),
        (lambda q, k, v: window_attention(q, k, v, width=4), "width must be odd"),
        (
            lambda q, k, v: window_attention(q, k, v, width=3, tile=0),
            "tile must be an integer",
        ),
        (
            lambda q, k, v: strided_attention(q, k[:-1], v, stride=2),
            r"k must have shape \(6, 4\)",
        ),
        (
            lambda q, k, v: strided_attention(q, k, v[:-1], stride=2),
            r"v must have shape \(6, 3\)",
        ),
        (
            lambda q, k, v: strided_attention(q, k[:, :-1], v, stride=2),
            r"k must have shape \(6, 4\)",
        ),  # heads that do not divide d
        (lambda q, k, v: strided_attention(q.long(), k, v, stride=2), "floating point"),
        (
            lambda q, k, v: strided_attention(q, k.float(), v, stride=2),
            "share one dtype",
        ),
        (
            lambda q, k, v: strided_attention(q * float("nan"), k, v, stride=2),
            "q holds NaN",
        ),
        (
            lambda q, k, v: strided_attention(
                q, k, v, stride=2, padding=torch.ones(5).bool()
            ),
            r"padding must be boolean \(6,\)",
        ),
        (
            lambda q, k, v: strided_attention(
                q, k, v, stride=2, padding=torch.zeros(6).bool()
            ),
            "all padding",
        ),
        (
            lambda q, k, v: masked_attention(q, k, v, torch.zeros(6, 6).bool()),
            "hides a whole row",
        ),
        (lambda q, k, v: strided_mask(0, 2), "n must be an integer of at least 1"),
    ],
)
def test_bad_input(call, words):
    with torch.no_grad(), pytest.raises(ValueError, match=words):
        call(*instance(6))
