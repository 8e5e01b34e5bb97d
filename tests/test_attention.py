"""The room attention: against torch's own layers, against the formula, and on bad input."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import attention
from attnlib.attention import Layer, attention_matrix, forward, from_torch, hardmax, merged, random_layers, sparsemax

EPS = torch.finfo(torch.float64).eps
NORMALIZERS = ["softmax", "hardmax", "sparsemax"]


def draw(*size, seed=0, dtype=torch.float64):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def literal_layer(x, layer, *, mask=None, scale=None):
    """Formulas (1.1) and (1.2) with loops over heads, on one sequence."""
    y = torch.zeros_like(x)
    ones = torch.ones(len(x), 1, dtype=x.dtype)
    for h in range(len(layer.w_q)):
        q = x @ layer.w_q[h] + ones @ layer.b_q[h][None]
        k = x @ layer.w_k[h] + ones @ layer.b_k[h][None]
        logits = q @ k.T * (1 / math.sqrt(layer.w_q.shape[-1]) if scale is None else scale)
        weights = logits.exp() if mask is None else logits.exp() * mask
        p = weights / weights.sum(1, keepdim=True)
        y = y + p @ (x @ layer.w_v[h] + ones @ layer.b_v[h][None]) @ layer.w_o[h]
    return y + ones @ layer.b_o[None]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_a_layer_is_its_formula(masked, scale):
    layer = random_layers(1, 3, 6, 4, d_v=5, bias=True, generator=torch.Generator().manual_seed(1))[0]
    x, mask = draw(7, 6), torch.ones(7, 7).tril().bool() if masked else None
    got = forward(x, [layer], mask=mask, scale=scale)
    assert (got - literal_layer(x, layer, mask=mask, scale=scale)).abs().max() < 64 * EPS


@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_is_torchs_layer(bias):
    module = torch.nn.MultiheadAttention(12, 3, bias=bias, batch_first=True, dtype=torch.float64)
    if bias:
        torch.nn.init.normal_(module.in_proj_bias)
        torch.nn.init.normal_(module.out_proj.bias)
    x = draw(2, 5, 12)
    wanted = module(x, x, x, need_weights=False)[0]
    assert (forward(x, [from_torch(module)]) - wanted).abs().max() < 64 * EPS


def test_skip_and_depth_compose():
    layers = random_layers(3, 2, 6, 4, bias=True, generator=torch.Generator().manual_seed(2))
    x, y = draw(2, 5, 6), draw(2, 5, 6)
    for layer in layers:
        y = x if layer is layers[0] else y
        y = y + forward(y, [layer])
    assert (forward(x, layers, skip=True) - y).abs().max() < 256 * EPS


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 10**6), st.booleans())
def test_rows_sum_to_one(normalizer, n, heads, seed, causal):
    w = draw(2, heads, 3, 2, seed=seed)
    mask = torch.ones(n, n).tril().bool() if causal else None
    p = attention_matrix(3 * draw(n, 3, seed=seed), w[0], w[1], mask=mask, normalizer=normalizer)
    assert p.shape == (heads, n, n) and (p >= 0).all()
    assert (p.sum(-1) - 1).abs().max() <= 8 * n * EPS
    assert not causal or (p.triu(1) == 0).all()


@given(st.integers(1, 8), st.integers(0, 10**6), st.floats(-50, 50))
def test_normalisers_do_not_see_a_shift(n, seed, shift):
    a = draw(4, n, seed=seed)
    for normalise in attention.NORMALIZERS.values():
        assert (normalise(a + shift) - normalise(a)).abs().max() < 1e-12


@given(st.integers(1, 8), st.integers(0, 10**6))
def test_sparsemax_is_the_projection(n, seed):
    """Optimality: a - p is constant on the support of p and no larger off it."""
    a = 2 * draw(3, n, seed=seed)
    p = sparsemax(a)
    for row, gap in zip(p, a - p):
        level = gap[row > 0]
        assert level.max() - level.min() < 64 * EPS
        assert (gap[row == 0] <= level.max() + 64 * EPS).all()


def test_hardmax_averages_ties_and_is_a_limit():
    a = torch.tensor([[1.0, 3.0, 3.0, -1.0], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    assert torch.equal(hardmax(a), torch.tensor([[0, 0.5, 0.5, 0], [0.25] * 4], dtype=torch.float64))
    assert (torch.softmax(200 * a, -1) - hardmax(a)).abs().max() < 1e-12


def test_masks_of_each_shape():
    layer = random_layers(1, 3, 4, 2, generator=torch.Generator().manual_seed(0))[0]
    x = draw(2, 5, 4)
    shared = torch.rand(5, 5, generator=torch.Generator().manual_seed(0)) < 0.5
    shared |= torch.eye(5, dtype=torch.bool)
    for mask in (shared, shared.expand(2, 5, 5), shared.expand(2, 3, 5, 5)):
        p = attention_matrix(x, layer.w_q, layer.w_k, mask=mask)
        assert (p[..., ~shared] == 0).all() and (p[..., shared] > 0).all()


def test_heads_and_batches_are_independent():
    w, x = draw(2, 3, 4, 2), draw(2, 6, 5, 4)
    every = attention_matrix(x, w[0], w[1])
    assert every.shape == (2, 6, 3, 5, 5)
    for i, j, h in [(0, 0, 0), (1, 5, 2)]:
        assert torch.allclose(every[i, j, h], attention_matrix(x[i, j], w[0, h], w[1, h]), rtol=0, atol=16 * EPS)


def test_merged_is_the_layer():
    layer = random_layers(1, 3, 6, 4, bias=True, generator=torch.Generator().manual_seed(3))[0]
    x = draw(5, 6)
    y, (p,) = forward(x, [layer], return_attention=True)
    w, b = merged(layer)
    assert ((p @ x @ w).sum(0) + b - y).abs().max() < 64 * EPS


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_devices_and_dtypes_agree(device, dtype):
    make = lambda **kind: random_layers(2, 3, 8, 4, bias=True, generator=torch.Generator().manual_seed(0), **kind)
    wanted = forward(draw(2, 6, 8), make(), skip=True)
    got = forward(draw(2, 6, 8).to(device, dtype), make(dtype=dtype, device=device), skip=True)
    assert got.dtype == dtype and got.device.type == device.type
    assert (got.cpu().double() - wanted).abs().max() < 200 * torch.finfo(dtype).eps * wanted.abs().max()


def test_gradients():
    layers = random_layers(2, 2, 3, 2, bias=True, generator=torch.Generator().manual_seed(0))
    weights = [w.requires_grad_() for layer in layers for w in layer]
    x = draw(4, 3).requires_grad_()
    run = lambda x, *w: forward(x, [Layer(*w[:8]), Layer(*w[8:])], skip=True)
    assert torch.autograd.gradcheck(run, (x, *weights))


def test_random_layers_have_the_stated_spread():
    layer = random_layers(1, 40, 64, 16, gain=2.0, bias=True, generator=torch.Generator().manual_seed(0))[0]
    for w, fan_in in ((layer.w_q, 64), (layer.w_v, 64), (layer.w_o, 40 * 16), (layer.b_k, 64)):
        assert abs(float(w.std()) * math.sqrt(fan_in) / 2 - 1) < 0.1


# --- bad input: our own errors, so these run without the shape checks of the tests


def bad_networks():
    x, layer = draw(4, 3), random_layers(1, 2, 3, 2, bias=True, generator=torch.Generator().manual_seed(0))[0]
    nan = layer.w_v.clone()
    nan[0, 0, 0] = math.nan
    inf = layer.b_o.clone()
    inf[0] = math.inf
    return {
        "no layers": (x, [], "at least one layer"),
        "no heads": (x, [Layer(*(w[:0] for w in layer[:7]), layer.b_o)], "layer 1: w_q must be .*h >= 1"),
        "no tokens": (x[:0], [layer], "at least one token"),
        "no features": (x[:, :0], [layer], "one feature"),
        "one axis": (x[0], [layer], r"\(\*batch, n, d\)"),
        "integers": (x.long(), [layer], "floating point"),
        "not a tensor": (x.tolist(), [layer], "torch tensor"),
        "width": (x[:, :2], [layer], "layer 1: w_q must have shape"),
        "second layer": (x, [layer, layer._replace(w_o=layer.w_o[..., :2])], "layer 2: w_o must have shape"),
        "keys": (x, [layer._replace(w_k=layer.w_k[:1])], "w_k must have shape"),
        "values": (x, [layer._replace(w_v=layer.w_v[:, :2])], "w_v must have shape"),
        "bias": (x, [layer._replace(b_v=layer.b_v[:, :1])], "b_v must have shape"),
        "output bias": (x, [layer._replace(b_o=layer.b_o[:2])], "b_o must have shape"),
        "no width of queries": (x, [layer._replace(w_q=layer.w_q[..., :0], w_k=layer.w_k[..., :0])], "w_q must be"),
        "dtype of a weight": (x, [layer._replace(w_o=layer.w_o.float())], "share one dtype: w_o"),
        "dtype of x": (x.float(), [layer], "share one dtype"),
        "device": (x, [layer._replace(w_v=layer.w_v.to("meta"))], "share one device: w_v"),
        "not a list of layers": (x, layer, "layer 1: must be an attnlib.attention.Layer, got Tensor"),
        "a generator": (x, (layer for _ in range(2)), "list of Layers, got generator"),
        "a plain tuple": (x, [tuple(layer)], "Layer, got tuple"),
        "no keys": (x, [layer._replace(w_k=None)], "w_k must be a torch tensor, got NoneType"),
        "a list for a weight": (x, [layer._replace(w_v=layer.w_v.tolist())], "w_v must be a torch tensor, got list"),
        "nan weights": (x, [layer._replace(w_v=nan)], "w_v holds NaN or infinity"),
        "infinite bias": (x, [layer._replace(b_o=inf)], "b_o holds NaN or infinity"),
        "nan input": (x / 0, [layer], "x holds NaN or infinity"),
    }


@pytest.mark.bad_input
@pytest.mark.parametrize("name", bad_networks())
def test_bad_networks(name):
    x, layers, message = bad_networks()[name]
    with pytest.raises(ValueError, match=message):
        forward(x, layers)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(4, 4), "boolean"),
        (torch.ones(4, 5, dtype=torch.bool), "shapes"),
        (torch.ones(4, 4).triu(1).bool(), "hides a whole row.*P 1 = 1.*mean the opposite"),
        ([[True] * 4] * 4, "mask must be a torch tensor, got list"),
    ],
)
def test_bad_masks(mask, message):
    layer = random_layers(1, 2, 3, 2, generator=torch.Generator().manual_seed(0))[0]
    with pytest.raises(ValueError, match=message):
        forward(draw(4, 3), [layer], mask=mask)


@pytest.mark.bad_input
def test_other_bad_input():
    layer = random_layers(1, 2, 3, 2, generator=torch.Generator().manual_seed(0))[0]
    with pytest.raises(ValueError, match="normalizer must be one of"):
        attention_matrix(draw(4, 3), layer.w_q, layer.w_k, normalizer="argmax")
    with pytest.raises(ValueError, match="at least one"):
        random_layers(0, 2, 3, 2, generator=torch.Generator())
    with pytest.raises(ValueError, match="share one width"):
        from_torch(torch.nn.MultiheadAttention(4, 2, kdim=3))
    with pytest.raises(ValueError, match="add tokens"):
        from_torch(torch.nn.MultiheadAttention(4, 2, add_zero_attn=True))
    with pytest.raises(ValueError, match="encoder layers have .self_attn"):
        from_torch(torch.nn.TransformerEncoderLayer(4, 2))
    with pytest.raises(ValueError, match="w_q must be .d, d_qk."):
        attention_matrix(draw(4, 3), 7, layer.w_k)
    with pytest.raises(ValueError, match="dropout"):
        from_torch(torch.nn.MultiheadAttention(4, 2, dropout=0.1))


def test_finite_values_are_looked_for_only_when_asked():
    layer = random_layers(1, 2, 3, 2, generator=torch.Generator().manual_seed(0))[0]
    assert forward(draw(4, 3) / 0, [layer], check=False).isnan().any()
