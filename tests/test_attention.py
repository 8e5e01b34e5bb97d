"""The room attention: against torch's own layers, against the formula, and on bad
input.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import attention
from attnlib.attention import (
    Layer,
    Mlp,
    Norm,
    attention_matrix,
    feed_forward,
    forward,
    from_torch,
    hardmax,
    layer_norm,
    merged,
    random_layers,
    sparsemax,
)

EPS = torch.finfo(torch.float64).eps
NORMALIZERS = ["softmax", "hardmax", "sparsemax"]


def draw(*size, seed=0, dtype=torch.float64):
    return torch.randn(
        *size, generator=torch.Generator().manual_seed(seed), dtype=dtype
    )


def literal_layer(x, layer, *, mask=None, scale=None):
    """Formulas (1.1) and (1.2) with loops over heads, on one sequence."""
    y = torch.zeros_like(x)
    ones = torch.ones(len(x), 1, dtype=x.dtype)
    for h in range(len(layer.w_q)):
        q = x @ layer.w_q[h] + ones @ layer.b_q[h][None]
        k = x @ layer.w_k[h] + ones @ layer.b_k[h][None]
        logits = (
            q @ k.T * (1 / math.sqrt(layer.w_q.shape[-1]) if scale is None else scale)
        )
        weights = logits.exp() if mask is None else logits.exp() * mask
        p = weights / weights.sum(1, keepdim=True)
        y = y + p @ (x @ layer.w_v[h] + ones @ layer.b_v[h][None]) @ layer.w_o[h]
    return y + ones @ layer.b_o[None]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_a_layer_is_its_formula(masked, scale):
    layer = random_layers(
        1, 3, 6, 4, d_v=5, bias=True, generator=torch.Generator().manual_seed(1)
    )[0]
    x, mask = draw(7, 6), torch.ones(7, 7).tril().bool() if masked else None
    got = forward(x, [layer], mask=mask, scale=scale)
    assert (
        got - literal_layer(x, layer, mask=mask, scale=scale)
    ).abs().max() < 64 * EPS


@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_is_torchs_layer(bias):
    module = torch.nn.MultiheadAttention(
        12, 3, bias=bias, batch_first=True, dtype=torch.float64
    )
    if bias:
        torch.nn.init.normal_(module.in_proj_bias)
        torch.nn.init.normal_(module.out_proj.bias)
    x = draw(2, 5, 12)
    wanted = module(x, x, x, need_weights=False)[0]
    assert (forward(x, [from_torch(module)]) - wanted).abs().max() < 64 * EPS


def test_skip_and_depth_compose():
    layers = random_layers(
        3, 2, 6, 4, bias=True, generator=torch.Generator().manual_seed(2)
    )
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
    p = attention_matrix(
        3 * draw(n, 3, seed=seed), w[0], w[1], mask=mask, normalizer=normalizer
    )
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
    assert torch.equal(
        hardmax(a), torch.tensor([[0, 0.5, 0.5, 0], [0.25] * 4], dtype=torch.float64)
    )
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
        assert torch.allclose(
            every[i, j, h],
            attention_matrix(x[i, j], w[0, h], w[1, h]),
            rtol=0,
            atol=16 * EPS,
        )


def test_merged_is_the_layer():
    layer = random_layers(
        1, 3, 6, 4, bias=True, generator=torch.Generator().manual_seed(3)
    )[0]
    x = draw(5, 6)
    y, (p,) = forward(x, [layer], return_attention=True)
    w, b = merged(layer)
    assert ((p @ x @ w).sum(0) + b - y).abs().max() < 64 * EPS


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_devices_and_dtypes_agree(device, dtype):
    def make(**kind):
        return random_layers(
            2, 3, 8, 4, bias=True, generator=torch.Generator().manual_seed(0), **kind
        )

    wanted = forward(draw(2, 6, 8), make(), skip=True)
    got = forward(
        draw(2, 6, 8).to(device, dtype), make(dtype=dtype, device=device), skip=True
    )
    assert got.dtype == dtype and got.device.type == device.type
    assert (got.cpu().double() - wanted).abs().max() < 200 * torch.finfo(
        dtype
    ).eps * wanted.abs().max()


def test_gradients():
    layers = random_layers(
        2, 2, 3, 2, bias=True, generator=torch.Generator().manual_seed(0)
    )
    weights = [w.requires_grad_() for layer in layers for w in layer]
    x = draw(4, 3).requires_grad_()

    def run(x, *w):
        return forward(x, [Layer(*w[:8]), Layer(*w[8:])], skip=True)

    assert torch.autograd.gradcheck(run, (x, *weights))


def test_random_layers_have_the_stated_spread():
    layer = random_layers(
        1, 40, 64, 16, gain=2.0, bias=True, generator=torch.Generator().manual_seed(0)
    )[0]
    for w, fan_in in (
        (layer.w_q, 64),
        (layer.w_v, 64),
        (layer.w_o, 40 * 16),
        (layer.b_k, 64),
    ):
        assert abs(float(w.std()) * math.sqrt(fan_in) / 2 - 1) < 0.1


# --- feed-forward parts and LayerNorm


def encoder(seed=0, d=12, h=3, m=20, activation="relu", norm_first=False, **how):
    """torch's encoder layer with random norms and biases, and the same weights as
    (Layer, Mlp, (Norm, Norm)).
    """
    torch.manual_seed(seed)
    phi = {"relu": torch.relu, "gelu": torch.nn.functional.gelu}[activation]
    block = torch.nn.TransformerEncoderLayer(
        d,
        h,
        m,
        dropout=0,
        activation=phi,
        norm_first=norm_first,
        batch_first=True,
        dtype=torch.float64,
        **how,
    )
    for weight in block.parameters():
        torch.nn.init.normal_(weight, std=0.5)

    def norm(n):
        return Norm(n.weight, n.bias, n.eps)

    mlp = Mlp(
        block.linear1.weight.T,
        block.linear2.weight.T,
        block.linear1.bias,
        block.linear2.bias,
        phi,
    )
    return block, (
        from_torch(block.self_attn),
        mlp,
        (norm(block.norm1), norm(block.norm2)),
    )


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_the_forward_pass_is_torchs_encoder(activation, norm_first, eps):
    """In training mode torch takes its plain path; two blocks, output and gradients of
    every weight.
    """
    how = {"activation": activation, "norm_first": norm_first, "layer_norm_eps": eps}
    blocks, parts = zip(*(encoder(seed, **how) for seed in (0, 1)))
    x = draw(2, 5, 12, seed=3).requires_grad_()
    layers, mlps, norms = (list(part) for part in zip(*parts))
    got = forward(x, layers, skip=True, mlps=mlps, norms=norms, norm_first=norm_first)
    wanted = blocks[1](blocks[0](x))
    assert (got - wanted).abs().max() < 1e-12
    weights = [x, *(w for block in blocks for w in block.parameters())]
    for a, b in zip(
        torch.autograd.grad(got.square().sum(), weights),
        torch.autograd.grad(wanted.square().sum(), weights),
    ):
        assert (a - b).abs().max() < 1e-10 * max(1, float(b.abs().max()))


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("mlp_skip", [False, True, None])
@pytest.mark.parametrize("norm_first", [False, True])
def test_each_skip_has_its_own_switch(skip, mlp_skip, norm_first):
    (layer, mlp, (first, second)), x = encoder(2)[1], draw(5, 12)
    f = torch.nn.functional
    n_1, n_2 = (
        lambda z, n=n: f.layer_norm(z, (12,), n.gain, n.bias, n.eps)
        for n in (first, second)
    )

    def attend(z):
        return literal_layer(z, layer)

    def feed(z):
        return torch.relu(z @ mlp.w_1 + mlp.b_1) @ mlp.w_2 + mlp.b_2

    again = skip if mlp_skip is None else mlp_skip
    if norm_first:
        y = skip * x + attend(n_1(x))
        wanted = again * y + feed(n_2(y))
    else:
        y = n_1(skip * x + attend(x))
        wanted = n_2(again * y + feed(y))
    got = forward(
        x,
        [layer],
        skip=skip,
        mlps=[mlp],
        mlp_skip=mlp_skip,
        norms=[(first, second)],
        norm_first=norm_first,
    )
    assert (got - wanted).abs().max() < 1e-11


def test_parts_may_be_left_out():
    (layer, mlp, (first, second)), x = encoder(3)[1], draw(2, 5, 12)
    plain = forward(x, [layer])
    assert torch.equal(forward(x, [layer], mlps=[None], norms=[(None, None)]), plain)
    assert torch.equal(
        forward(x, [layer], norms=[(first, None)]), layer_norm(plain, first)
    )
    assert torch.equal(forward(x, [layer], mlps=[mlp]), feed_forward(plain, mlp))
    y, maps = forward(
        x,
        [layer] * 2,
        mlps=[mlp, None],
        norms=[(None, second), (None, None)],
        return_attention=True,
    )
    assert len(maps) == 2 and torch.equal(
        y, forward(forward(x, [layer], mlps=[mlp], norms=[(None, second)]), [layer])
    )
    bare = Mlp(mlp.w_1, mlp.w_2)
    assert (feed_forward(x, bare) - (x @ mlp.w_1).relu() @ mlp.w_2).abs().max() == 0
    assert (
        layer_norm(x, Norm()) - torch.nn.functional.layer_norm(x, (12,))
    ).abs().max() < 1e-14
    assert (
        layer_norm(3 * x, Norm(eps=0)) - layer_norm(x, Norm(eps=0))
    ).abs().max() < 1e-14


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_devices_and_dtypes_agree_with_all_parts(device, dtype):
    layer, mlp, pair = encoder(4)[1]

    def to(t):
        return t.detach().to(device, dtype) if torch.is_tensor(t) else t

    moved = (
        Layer(*map(to, layer)),
        Mlp(*map(to, mlp)),
        tuple(Norm(*map(to, n)) for n in pair),
    )

    def run(x, l, m, n):
        return forward(x, [l], skip=True, mlps=[m], norms=[n])

    wanted, got = run(draw(2, 6, 12), layer, mlp, pair), run(to(draw(2, 6, 12)), *moved)
    assert got.dtype == dtype and got.device.type == device.type
    assert (got.cpu().double() - wanted).abs().max() < 500 * torch.finfo(
        dtype
    ).eps * wanted.abs().max()


def test_gradients_of_all_parts():
    layer, mlp, pair = encoder(5, d=4, h=2, m=3, activation="gelu")[1]
    x, tensors = draw(3, 4).requires_grad_(), [*mlp[:4], *pair[0][:2], *pair[1][:2]]

    def run(x, *w):
        norms = [(Norm(w[4], w[5]), Norm(w[6], w[7]))]
        return forward(
            x, [layer], skip=True, mlps=[Mlp(*w[:4], mlp.activation)], norms=norms
        )

    assert torch.autograd.gradcheck(
        run, (x, *(t.detach().clone().requires_grad_() for t in tensors))
    )


# --- bad input: our own errors, so these run without the shape checks of the tests


def bad_networks():
    x, layer = (
        draw(4, 3),
        random_layers(
            1, 2, 3, 2, bias=True, generator=torch.Generator().manual_seed(0)
        )[0],
    )
    nan = layer.w_v.clone()
    nan[0, 0, 0] = math.nan
    inf = layer.b_o.clone()
    inf[0] = math.inf
    return {
        "no layers": (x, [], "at least one layer"),
        "no heads": (
            x,
            [Layer(*(w[:0] for w in layer[:7]), layer.b_o)],
            "layer 1: w_q must be .*h >= 1",
        ),
        "no tokens": (x[:0], [layer], "at least one token"),
        "no features": (x[:, :0], [layer], "one feature"),
        "one axis": (x[0], [layer], r"\(\*batch, n, d\)"),
        "integers": (x.long(), [layer], "floating point"),
        "not a tensor": (x.tolist(), [layer], "torch tensor"),
        "width": (x[:, :2], [layer], "layer 1: w_q must have shape"),
        "second layer": (
            x,
            [layer, layer._replace(w_o=layer.w_o[..., :2])],
            "layer 2: w_o must have shape",
        ),
        "keys": (x, [layer._replace(w_k=layer.w_k[:1])], "w_k must have shape"),
        "values": (x, [layer._replace(w_v=layer.w_v[:, :2])], "w_v must have shape"),
        "bias": (x, [layer._replace(b_v=layer.b_v[:, :1])], "b_v must have shape"),
        "output bias": (x, [layer._replace(b_o=layer.b_o[:2])], "b_o must have shape"),
        "no width of queries": (
            x,
            [layer._replace(w_q=layer.w_q[..., :0], w_k=layer.w_k[..., :0])],
            "w_q must be",
        ),
        "dtype of a weight": (
            x,
            [layer._replace(w_o=layer.w_o.float())],
            "share one dtype: w_o",
        ),
        "dtype of x": (x.float(), [layer], "share one dtype"),
        "device": (
            x,
            [layer._replace(w_v=layer.w_v.to("meta"))],
            "share one device: w_v",
        ),
        "not a list of layers": (
            x,
            layer,
            "layer 1: must be an attnlib.attention.Layer, got Tensor",
        ),
        "a generator": (x, (layer for _ in range(2)), "list of Layers, got generator"),
        "a plain tuple": (x, [tuple(layer)], "Layer, got tuple"),
        "no keys": (
            x,
            [layer._replace(w_k=None)],
            "w_k must be a torch tensor, got NoneType",
        ),
        "a list for a weight": (
            x,
            [layer._replace(w_v=layer.w_v.tolist())],
            "w_v must be a torch tensor, got list",
        ),
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
        (
            torch.ones(4, 4).triu(1).bool(),
            "hides a whole row.*P 1 = 1.*mean the opposite",
        ),
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
    with pytest.raises(ValueError, match="its MLP and norms are not"):
        from_torch(torch.nn.TransformerEncoderLayer(4, 2))
    with pytest.raises(ValueError, match="w_q must be .d, d_qk."):
        attention_matrix(draw(4, 3), 7, layer.w_k)
    with pytest.raises(ValueError, match="dropout"):
        from_torch(torch.nn.MultiheadAttention(4, 2, dropout=0.1))


def test_finite_values_are_looked_for_only_when_asked():
    layer = random_layers(1, 2, 3, 2, generator=torch.Generator().manual_seed(0))[0]
    assert forward(draw(4, 3) / 0, [layer], check=False).isnan().any()


def bad_parts():
    layer, mlp, (first, second) = encoder()[1]
    short = mlp._replace(w_2=mlp.w_2[:, :3])
    return {
        "one mlp for two": (
            {"mlps": [mlp]},
            "mlps must have an entry for each of 2 layers, got 1",
        ),
        "a bare mlp": (
            {"mlps": mlp},
            "mlps must be a list with an entry for each layer, got Mlp",
        ),
        "a generator": (
            {"norms": (p for p in [])},
            "norms must be a list .* got generator",
        ),
        "a single norm": (
            {"norms": [first, second]},
            "layer 1: norms must hold a pair",
        ),
        "three norms": (
            {"norms": [(first,) * 3] * 2},
            "layer 1: norms must hold a pair",
        ),
        "no part": (
            {"norms": [(first, second)] * 2},
            "layer 1: a norm for a feed-forward part that is not there",
        ),
        "a plain tuple": (
            {"mlps": [mlp, tuple(mlp)]},
            "layer 2: mlp must be an attnlib.attention.Mlp, got tuple",
        ),
        "width": ({"mlps": [mlp, short]}, "layer 2: w_2 must have shape"),
        "no width": (
            {"mlps": [mlp._replace(w_1=mlp.w_1[:, :0])] * 2},
            "w_1 must be a tensor .d, m. with m >= 1",
        ),
        "dtype": (
            {"mlps": [mlp._replace(b_1=mlp.b_1.float())] * 2},
            "share one dtype: b_1",
        ),
        "no function": (
            {"mlps": [mlp._replace(activation="relu")] * 2},
            "activation must be a function of tensors, got str",
        ),
        "a sum": (
            {"mlps": [mlp._replace(activation=torch.sum)] * 2},
            "activation must act on each entry",
        ),
        "nan": (
            {"mlps": [mlp._replace(b_2=mlp.b_2 / 0)] * 2},
            "b_2 holds NaN or infinity",
        ),
        "gain": (
            {"norms": [(first._replace(gain=first.gain[:2]), None)] * 2},
            "gain must have shape",
        ),
        "eps": (
            {"norms": [(first._replace(eps=-1.0), None)] * 2},
            "eps must be a finite number of at least zero, got -1",
        ),
        "norm": (
            {"norms": [(torch.nn.LayerNorm(12), None)] * 2},
            "norm must be an attnlib.attention.Norm, got LayerNorm",
        ),
    }


@pytest.mark.bad_input
@pytest.mark.parametrize("name", bad_parts())
def test_bad_parts(name):
    given, message = bad_parts()[name]
    with pytest.raises(ValueError, match=message):
        forward(draw(5, 12), [encoder()[1][0]] * 2, **given)


@pytest.mark.bad_input
def test_bad_input_of_a_single_part():
    mlp, (norm, _) = encoder()[1][1:]
    with pytest.raises(ValueError, match="b_1 must have shape"):
        feed_forward(draw(5, 12), mlp._replace(b_1=mlp.b_2))
    with pytest.raises(ValueError, match="floating point"):
        layer_norm(draw(5, 12).long(), norm)
    assert layer_norm(draw(5, 12) / 0, norm, check=False).isnan().any()
