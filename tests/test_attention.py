"""The room attention: against torch's own layers, against the formula, and on bad
input.
"""

from __future__ import annotations

import math

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import attention, paths
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
)

EPS = torch.finfo(torch.float64).eps
NORMALIZERS = ["softmax", "hardmax", "sparsemax"]


def draw(*size, seed=0, dtype=torch.float64):
    return torch.randn(
        *size, generator=torch.Generator().manual_seed(seed), dtype=dtype
    )


def literal_layer(x, layer, *, mask=None, scale=None):
    """Formulas (1.4) and (1.5) with loops over heads, on one sequence."""
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
        1,
        3,
        6,
        4,
        d_v=5,
        bias=True,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(1),
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
        3,
        2,
        6,
        4,
        bias=True,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(2),
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
    p = attention.NORMALIZERS["sparsemax"](a)
    for row, gap in zip(p, a - p):
        level = gap[row > 0]
        assert level.max() - level.min() < 64 * EPS
        assert (gap[row == 0] <= level.max() + 64 * EPS).all()


@pytest.mark.parametrize(
    ("row", "weights"),
    [
        ([2.0**50 + 0.25, 2.0**50], [0.625, 0.375]),
        ([1e308, 1e308, 0.0], [0.5, 0.5, 0.0]),
    ],
    ids=["digits", "range"],
)
def test_sparsemax_of_large_logits_by_hand(row, weights):
    """The gap alone counts; twice the largest logit has fewer digits, or overflows."""
    a = torch.tensor(row, dtype=torch.float64)
    assert attention.NORMALIZERS["sparsemax"](a).tolist() == weights


def test_hardmax_averages_ties_and_is_a_limit():
    a = torch.tensor([[1.0, 3.0, 3.0, -1.0], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    assert torch.equal(
        hardmax(a), torch.tensor([[0, 0.5, 0.5, 0], [0.25] * 4], dtype=torch.float64)
    )
    assert (torch.softmax(200 * a, -1) - hardmax(a)).abs().max() < 1e-12


def test_masks_of_each_shape():
    layer = random_layers(
        1, 3, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )[0]
    x = draw(2, 5, 4)
    shared = torch.rand(5, 5, generator=torch.Generator().manual_seed(0)) < 0.5
    shared |= torch.eye(5, dtype=torch.bool)
    for size in ((5, 5), (3, 5, 5), (1, 1, 5, 5), (2, 1, 5, 5), (2, 3, 5, 5)):
        mask = shared.expand(size)
        p = attention_matrix(x, layer.w_q, layer.w_k, mask=mask)
        assert (p[..., ~shared] == 0).all() and (p[..., shared] > 0).all()
        q = forward(x, [layer], mask=mask, return_attention=True)[1][0]
        assert torch.equal(p, q)
    keys = torch.tensor([True, True, True, False, False])
    for mask in (keys, keys.expand(2, 1, 1, 5), keys.expand(1, 5)):
        p = attention_matrix(x, layer.w_q, layer.w_k, mask=mask)
        assert (p[..., ~keys] == 0).all() and (p[..., keys] > 0).all()
    mine = shared.expand(2, 5, 5)  # without heads
    p = attention_matrix(x, layer.w_q[0], layer.w_k[0], mask=mine)
    assert (p[..., ~shared] == 0).all()


def test_a_scale_may_be_learnt():
    layer = random_layers(
        1, 2, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )[0]
    scale = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    y = forward(draw(5, 4), [layer], scale=scale)
    assert torch.equal(y, forward(draw(5, 4), [layer], scale=0.3))
    assert torch.autograd.grad(y.square().sum(), scale)[0].abs() > 0


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
        1,
        3,
        6,
        4,
        bias=True,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(3),
    )[0]
    x = draw(5, 6)
    y, (p,) = forward(x, [layer], return_attention=True)
    w, b = merged(layer)
    assert ((p @ x @ w).sum(0) + b - y).abs().max() < 64 * EPS


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_devices_and_dtypes_agree(device, dtype):
    def make(dtype=torch.float64, device="cpu"):
        g = torch.Generator().manual_seed(0)
        kind = {"dtype": dtype, "device": device}
        return random_layers(2, 3, 8, 4, bias=True, generator=g, **kind)

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
        2,
        2,
        3,
        2,
        bias=True,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(0),
    )
    weights = [w.requires_grad_() for layer in layers for w in layer]
    x = draw(4, 3).requires_grad_()

    def run(x, *w):
        return forward(x, [Layer(*w[:8]), Layer(*w[8:])], skip=True)

    assert torch.autograd.gradcheck(run, (x, *weights))


def test_random_layers_have_the_stated_spread():
    layer = random_layers(
        1,
        40,
        64,
        16,
        gain=2.0,
        bias=True,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(0),
    )[0]
    for w, fan_in in (
        (layer.w_q, 64),
        (layer.w_v, 64),
        (layer.w_o, 40 * 16),
        (layer.b_k, 64),
    ):
        assert abs(float(w.std()) * math.sqrt(fan_in) / 2 - 1) < 0.1


def test_random_layers_go_with_torchs_own_draws():
    """Without a word the dtype is torch's default; the numbers are the same."""
    g = torch.Generator().manual_seed(0)
    (drawn,) = random_layers(1, 2, 3, 2, generator=g)
    assert forward(torch.randn(4, 3), [drawn]).dtype == torch.float32
    g = torch.Generator().manual_seed(0)
    (wanted,) = random_layers(1, 2, 3, 2, dtype=torch.float64, generator=g)
    assert torch.equal(drawn.w_q, wanted.w_q.float())


# --- transformations of torch


def networks():
    """Two networks on tokens of width 12, read anew at each call: attention alone, and
    an encoder of torch.
    """
    g = torch.Generator().manual_seed(0)
    layers = random_layers(2, 3, 12, 4, bias=True, dtype=torch.float64, generator=g)
    module = torch_encoder(depth=2, final=True, activation="gelu")
    return {"layers": lambda: layers, "encoder": lambda: from_torch(module)}


@pytest.mark.parametrize("name", ["layers", "encoder"])
def test_vmap_is_the_batch(name):
    """Over tokens, with derivatives, over masks; values are not looked at there."""
    network = networks()[name]()
    x = draw(6, 5, 12)
    mask = torch.rand(6, 5, 5, generator=torch.Generator().manual_seed(0)) < 0.5
    mask |= torch.eye(5, dtype=torch.bool)

    def run(x, m):
        return forward(x, network, mask=m)

    wanted = forward(x, network, mask=mask[:, None])
    assert (torch.func.vmap(run)(x, mask) - wanted).abs().max() < 1e-12
    slopes = torch.func.vmap(torch.func.grad(lambda x, m: run(x, m).square().sum()))
    x.requires_grad_()
    y = forward(x, network, mask=mask[:, None])
    (wanted,) = torch.autograd.grad(y.square().sum(), x)
    assert (slopes(x, mask) - wanted).abs().max() < 1e-10
    assert torch.func.vmap(run)(x * math.nan, mask).isnan().all()


def test_vmap_over_networks():
    layers = networks()["layers"]()
    x = draw(5, 12)
    both = [Layer(*(torch.stack([w, 2 * w]) for w in layer)) for layer in layers]
    y = torch.func.vmap(lambda stack: forward(x, stack))(both)
    assert (y[0] - forward(x, layers)).abs().max() < 1e-12


@pytest.mark.skipif(
    tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 13),
    reason="older compilers do not take every line of Python",
)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", ["layers", "encoder"])
def test_a_compiled_forward_is_the_eager_one(name, dynamic, monkeypatch):
    """The compiler does not trace the checks of shapes that only tests have."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    network = networks()[name]
    mask = torch.ones(5, 5, dtype=torch.bool).tril()

    def run(x):
        return forward(x, network(), mask=mask, return_attention=True)

    torch._dynamo.reset()
    how = {"fullgraph": True, "backend": "aot_eager", "dynamic": dynamic}
    compiled = torch.compile(run, **how)
    x = draw(2, 5, 12).requires_grad_()
    y, maps = compiled(x)
    wanted, wanted_maps = run(x)
    assert (y - wanted).abs().max() < 1e-12
    assert (maps[1] - wanted_maps[1]).abs().max() < 1e-12
    (slope,) = torch.autograd.grad(y.square().sum(), x)
    (wanted,) = torch.autograd.grad(wanted.square().sum(), x)
    assert (slope - wanted).abs().max() < 1e-10


# --- feed-forward parts and LayerNorm


def torch_encoder(seed=0, d=12, h=3, m=20, depth=1, final=False, **how):
    """torch's encoder with random weights, norms and biases too."""
    torch.manual_seed(seed)
    how = {"dropout": 0, "batch_first": True, "dtype": torch.float64} | how
    layer = torch.nn.TransformerEncoderLayer(d, h, m, **how)
    norm = torch.nn.LayerNorm(d, dtype=torch.float64) if final else None
    module = torch.nn.TransformerEncoder(
        layer, depth, norm=norm, enable_nested_tensor=False
    )
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return module


def parts(seed=0, **how):
    """A Layer, an Mlp and a pair of Norms."""
    encoder = from_torch(torch_encoder(seed, **how))
    return encoder.layers[0], encoder.mlps[0], encoder.norms[0]


@pytest.mark.parametrize("activation", ["relu", "gelu", torch.nn.SiLU()])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize(
    "how", [{}, {"layer_norm_eps": 0.3}, {"bias": False}, {"final": True}], ids=str
)
def test_the_forward_pass_is_torchs_encoder(activation, norm_first, how):
    """In training mode torch takes its plain path; two layers, output and gradients of
    every weight.
    """
    how = {"activation": activation, "norm_first": norm_first, "depth": 2} | how
    module = torch_encoder(**how)
    x = draw(2, 5, 12, seed=3).requires_grad_()
    got = forward(x, from_torch(module))
    wanted = module(x)
    assert (got - wanted).abs().max() < 1e-12
    weights = [x, *module.parameters()]
    for a, b in zip(
        torch.autograd.grad(got.square().sum(), weights),
        torch.autograd.grad(wanted.square().sum(), weights),
    ):
        assert (a - b).abs().max() < 1e-10 * max(1, float(b.abs().max()))


@pytest.mark.parametrize("norm_first", [False, True])
def test_masks_of_torchs_encoder_mean_the_opposite(norm_first):
    """One call in evaluation mode; the tokens that torch hides are not compared."""
    module = torch_encoder(depth=2, final=True, norm_first=norm_first, dropout=0.1)
    module.eval()
    x = draw(2, 5, 12)
    later = torch.ones(5, 5).triu(1).bool()
    padding = torch.zeros(2, 5).bool()
    padding[0, 3:] = True
    mask = ~later & ~padding[:, None, None, :]
    wanted = module(x, mask=later, src_key_padding_mask=padding)
    got = forward(x, from_torch(module), mask=mask)
    assert (got - wanted)[~padding].abs().max() < 1e-12
    layer = module.layers[0]
    got = forward(x, from_torch(layer), mask=mask)
    wanted = layer(x, src_mask=later, src_key_padding_mask=padding)
    assert (got - wanted)[~padding].abs().max() < 1e-12
    assert (forward(x, from_torch(layer)) - got)[~padding].abs().max() > 0.01


def small(kind: str, **how):
    """A small model of transformers, none of whose weights is zero, in float64."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(
        getattr(transformers, f"{kind}Config")(attn_implementation="eager", **how)
    )
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model.double().eval()


def test_the_attention_of_gpt2_is_read_and_taken_apart_into_paths():
    """Its maps are those of the whole model; control: without them they are others."""
    model = small("GPT2", n_embd=24, n_layer=2, n_head=3, vocab_size=30)
    x = draw(2, 5, 24)
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    layers = [from_torch(block.attn) for block in model.h]
    later = torch.full((5, 5), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)
    wanted, _ = model.h[0].attn(x, attention_mask=later[None, None])
    got = forward(x, layers[:1], mask=causal)
    assert (got - wanted).abs().max() < 1e-12
    assert (forward(x, layers[:1]) - wanted).abs().max() > 0.01
    out = model(torch.arange(10).view(2, 5), output_attentions=True)
    x = out.attentions[0].new_tensor(draw(2, 5, 24).tolist())
    sums, bias = paths.path_sums(x, layers, skip=True, attention=out.attentions)
    y = x
    for layer, p in zip(layers, out.attentions):
        heads = p @ (y.unsqueeze(-3) @ layer.w_v + layer.b_v.unsqueeze(-2))
        y = y + (heads @ layer.w_o).sum(-3) + layer.b_o
    assert (sums.sum(0) + bias - y).abs().max() < 1e-12
    other, b = paths.path_sums(x, layers, skip=True, mask=causal)
    assert (other.sum(0) + b - y).abs().max() > 0.01


def test_the_attention_of_bert_is_read():
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3}
    model = small("Bert", **sizes, intermediate_size=8, vocab_size=30)
    block = model.encoder.layer[0].attention
    x = draw(2, 5, 24)
    got = forward(x, [from_torch(block)])
    wanted = block.output.dense(block.self(x)[0])
    assert (got - wanted).abs().max() < 1e-12


@pytest.mark.parametrize("how", ["scale_attn_by_inverse_layer_idx", "cross"])
def test_another_attention_of_gpt2_is_refused(how):
    model = small("GPT2", n_embd=24, n_layer=1, n_head=3, vocab_size=30)
    attention = model.h[0].attn
    if how == "cross":
        attention.is_cross_attention = True
    else:
        setattr(attention, how, True)
    with pytest.raises(ValueError, match="only self-attention whose logits"):
        from_torch(attention)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("mlp_skip", [False, True, None])
@pytest.mark.parametrize("norm_first", [False, True])
def test_each_skip_has_its_own_switch(skip, mlp_skip, norm_first):
    layer, mlp, (first, second) = parts(2)
    x = draw(5, 12)
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
    layer, mlp, (first, second) = parts(3)
    x = draw(2, 5, 12)
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
    layer, mlp, pair = parts(4)

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
    layer, mlp, pair = parts(5, d=4, h=2, m=3, activation="gelu")
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


@pytest.mark.bad_input
def test_other_bad_input():
    layer = random_layers(
        1, 2, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )[0]
    batch = draw(5, 4, 3)
    one_a_sequence = torch.ones(5, 4, 4).bool()
    with pytest.raises(ValueError, match=r"one mask a sequence.* is \(b, 1, n, n\)"):
        forward(batch, [layer], mask=one_a_sequence)
    for scale in (torch.tensor(math.nan), torch.ones(2)):
        with pytest.raises(ValueError, match="scale"):
            attention_matrix(batch, layer.w_q, layer.w_k, scale=scale)
        with pytest.raises(ValueError, match="scale"):
            forward(batch, [layer], scale=scale)
    encoder = from_torch(torch_encoder())
    with pytest.raises(ValueError, match="an Encoder brings .* out skip, norms"):
        forward(draw(5, 12), encoder, skip=True, norms=encoder.norms)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gain": 10**400}, "gain must be in the range of floats, got 1000"),
        ({"gain": -(10**5000)}, "floats, got int of over 4300 digits"),
    ],
)
def test_bad_sizes(given, message):
    good = {"L": 1, "h": 2, "d": 3, "d_qk": 2, "generator": torch.Generator()}
    with pytest.raises(ValueError, match=message):
        random_layers(**(good | given))


class Other(torch.nn.TransformerEncoderLayer):
    """A layer that may compute something else."""


@pytest.mark.bad_input
def test_modules_that_are_not_read():
    def attend(**how):
        return torch.nn.MultiheadAttention(4, 2, batch_first=True, **how)

    def layer(kind=torch.nn.TransformerEncoderLayer, **how):
        return kind(4, 2, **({"batch_first": True, "dropout": 0} | how))

    mixed = torch.nn.TransformerEncoder(layer(), 2, enable_nested_tensor=False)
    mixed.layers[1] = layer(norm_first=True)
    other = torch.nn.TransformerEncoder(layer(), 2, enable_nested_tensor=False)
    other.layers[1] = layer(Other)
    odd = layer()
    odd.norm2 = torch.nn.Identity()
    for module, message in [
        (torch.nn.Linear(2, 2), "must be one of .*'TransformerEncoder'.* got Linear"),
        (layer(Other), "got Other"),
        (other, "each layer must be a TransformerEncoderLayer, got Other"),
        (mixed, "agree on norm_first"),
        (odd, "a norm must be a LayerNorm"),
        (torch.nn.MultiheadAttention(4, 2), "batch_first is False.* batch comes first"),
        (layer(batch_first=False), "batch_first is False"),
        (attend(kdim=3), "share one width"),
        (attend(add_zero_attn=True), "add tokens"),
        (attend(dropout=0.1), "dropout is active"),
        (layer(dropout=0.1), "dropout is active"),
    ]:
        with pytest.raises(ValueError, match=message):
            from_torch(module)
    from_torch(attend(dropout=0.1).eval())


def test_finite_values_are_looked_for_only_when_asked():
    layer = random_layers(
        1, 2, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )[0]
    assert forward(draw(4, 3) / 0, [layer], check=False).isnan().any()


@pytest.mark.bad_input
def test_parts_that_do_not_fit():
    layer, mlp, (first, second) = parts()
    steep = mlp._replace(activation=torch.sum)
    for bad, message in [
        ({"norms": [(first, second)]}, "norms hold one for a feed-forward part"),
        ({"mlps": [steep]}, "activation must act on each entry"),
        ({"norms": [(first._replace(eps=-1.0), None)]}, "eps must be at least zero"),
    ]:
        with pytest.raises(ValueError, match=message):
            forward(draw(5, 12), [layer], **bad)


def test_a_part_alone_looks_for_nan_unless_told_otherwise():
    _, mlp, (norm, _) = parts()
    assert feed_forward(draw(5, 12) / 0, mlp, check=False).isnan().any()
    with pytest.raises(ValueError, match="NaN"):
        layer_norm(draw(5, 12) / 0, norm)
