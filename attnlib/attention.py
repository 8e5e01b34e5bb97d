"""Attention matrices, multi-head layers, the forward pass. Tokens are rows.

    P_h = softmax_row(scale (X W_Q,h + 1 b_Q,h') (X W_K,h + 1 b_K,h')')
    SA(X) = sum_h P_h (X W_V,h + 1 b_V,h') W_O,h + 1 b_O'

Page: notebooks/path_decomposition/paths
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlib import _require
from attnlib._blocks import (
    Encoder,
    Layer,
    Mlp,
    Norm,
    around,
    check_blocks,
    check_layers,
    check_norm,
    check_weights,
    feed,
    feed_forward,
    layer_norm,
    normed,
    read_layer,
    read_linears,
    read_mlp,
    read_norm,
)
from attnlib._normalizers import NORMALIZERS, Normalizer, hardmax
from attnlib._require import finite, require, tokens

__all__ = [
    "NORMALIZERS",
    "Encoder",
    "Layer",
    "Mlp",
    "Norm",
    "Normalizer",
    "attention_matrix",
    "check_network",
    "feed_forward",
    "forward",
    "from_torch",
    "hardmax",
    "layer_norm",
    "merged",
    "random_layers",
]


def attention_matrix(
    x: Float[Tensor, "*batch n d"],
    w_q: Float[Tensor, "*heads d d_qk"],
    w_k: Float[Tensor, "*heads d d_qk"],
    *,
    b_q: Float[Tensor, "*heads d_qk"] | None = None,
    b_k: Float[Tensor, "*heads d_qk"] | None = None,
    scale: float | Float[Tensor, ""] | None = None,
    mask: Bool[Tensor, "..."] | None = None,
    normalizer: Normalizer = "softmax",
    check: bool = True,
) -> Float[Tensor, "*rest n n"]:
    """The attention matrix of each head: nonnegative, every row sums to one.

        P = softmax_row( scale (X W_Q + 1 b_Q') (X W_K + 1 b_K')' )

    Args:
        w_q, w_k: with or without a first dimension h, one entry a head.
        scale: of the logits, a tensor () if it is learnt; None for 1/sqrt(d_qk).
        mask: True = may attend; broadcastable to the shape of the result. One mask a
            sequence, the same for all heads: (b, 1, n, n).
        normalizer: "softmax", "hardmax" or "sparsemax".
        check: look for NaN, infinity and rows that attend to nothing, where values can
            be seen: not under torch.compile and vmap.

    Returns:
        (*batch, n, n), or (*batch, h, n, n) for h heads.

    Source: Vaswani et al. 2017, scaled dot-product attention.
    """
    _check_projections(x, w_q, w_k, b_q, b_k, check)
    size = (*x.shape[:-2], *w_q.shape[:-2], x.shape[-2], x.shape[-2])
    _check_weighting(x, size, scale, mask, normalizer, check)
    how = {"scale": scale, "mask": mask, "normalizer": normalizer}
    return _attention_matrix(x, w_q, w_k, b_q, b_k, **how)


def _attention_matrix(x, w_q, w_k, b_q, b_k, *, scale, mask, normalizer) -> Tensor:
    """attention_matrix of checked input."""
    source = x.unsqueeze(-3) if w_q.dim() == 3 else x
    q = _project(source, w_q, b_q)
    k = _project(source, w_k, b_k)
    if x.dtype == torch.float16:  # its logits end at 65,504
        q, k = q.float(), k.float()
    if scale is None:
        scale = 1 / math.sqrt(w_q.shape[-1])
    a = (q * scale) @ k.mT
    if mask is not None:
        a = a.masked_fill(~mask, -math.inf)
    return NORMALIZERS[normalizer](a).to(x.dtype)


def _project(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    return x @ w if b is None else x @ w + b.unsqueeze(-2)


def forward(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer] | Encoder,
    *,
    skip: bool = False,
    mlps: Sequence[Mlp | None] | None = None,
    mlp_skip: bool | None = None,
    norms: Sequence[tuple[Norm | None, Norm | None]] | None = None,
    norm_first: bool = False,
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | Float[Tensor, ""] | None = None,
    normalizer: Normalizer = "softmax",
    return_attention: bool = False,
    check: bool = True,
):
    """The output of a stack of layers: self-attention, then a feed-forward part M and
    norms N where given.

        plain:     X <- [X +] SA(X)
        post-LN:   X <- N_1([X +] SA(X)),   then X <- N_2([X +] M(X))
        pre-LN:    X <- [X +] SA(N_1(X)),   then X <- [X +] M(N_2(X))

    Args:
        layers: at least one Layer; heads may differ by layer. Or an Encoder, which
            brings its own skips, mlps and norms.
        skip: add the input of the attention of each layer to its output.
        mlps: an Mlp or None for each layer.
        mlp_skip: the same around the feed-forward parts, None for as skip.
        norms: a pair (N_1, N_2) for each layer, each a Norm or None.
        norm_first: pre-LN, else post-LN.
        mask, scale, normalizer, check: as in attention_matrix, the same for all layers;
            mask broadcastable to (*batch, h, n, n).
        return_attention: also return every P.

    Returns:
        y (*batch, n, d), or (y, [P (*batch, h, n, n), one a layer]).

    Source: Vaswani et al. 2017; Dong et al. 2021 study it without mlps and norms.
    """
    switches = {"skip": skip, "norm_first": norm_first}
    _require.is_a(bool, **switches, return_attention=return_attention)
    final_norm = None
    if isinstance(layers, Encoder):
        _refuse_parts(**switches, mlps=mlps, mlp_skip=mlp_skip, norms=norms)
        layers, mlps, norms, norm_first, final_norm = layers
        skip = True
    check_network(x, layers, check=check)
    parts = check_blocks(x, len(layers), mlps, norms, check)
    if final_norm is not None:
        check_norm(x, final_norm, check)
    *batch, n, _ = x.shape
    for h in {len(layer.w_q) for layer in layers}:
        _check_weighting(x, (*batch, h, n, n), scale, mask, normalizer, check)
    if mlp_skip is None:
        mlp_skip = skip
    _require.is_a(bool, mlp_skip=mlp_skip)

    how = {"scale": scale, "mask": mask, "normalizer": normalizer}
    maps = [] if return_attention else None
    for layer, (mlp, first, second) in zip(layers, parts):
        attend = partial(_attend, layer=layer, maps=maps, **how)
        x = around(attend, x, first, skip=skip, norm_first=norm_first)
        if mlp is not None:
            feeding = partial(feed, mlp=mlp)
            x = around(feeding, x, second, skip=mlp_skip, norm_first=norm_first)
    x = normed(x, final_norm)
    return (x, maps) if return_attention else x


def _refuse_parts(**parts) -> None:
    """Whoever gives an Encoder gives no parts beside it."""
    given = [name for name, value in parts.items() if value]
    require(not given, f"an Encoder brings its own parts: leave out {', '.join(given)}")


def _attend(x: Tensor, layer: Layer, maps: list[Tensor] | None, **how) -> Tensor:
    """The attention part of a layer; its P is added to maps, and else let go."""
    p = _attention_matrix(x, layer.w_q, layer.w_k, layer.b_q, layer.b_k, **how)
    if maps is not None:
        maps.append(p)
    heads = p @ _project(x.unsqueeze(-3), layer.w_v, layer.b_v)
    side_by_side = heads.transpose(-3, -2).flatten(-2)
    y = side_by_side @ layer.w_o.flatten(0, 1)
    return y if layer.b_o is None else y + layer.b_o


def merged(layer: Layer) -> tuple[Float[Tensor, "h d d"], Float[Tensor, "d"]]:
    """Value and output weights as one matrix a head, and all biases as one row.

        W_h = W_V,h W_O,h,    b = b_O + sum_h W_O,h' b_V,h

    so that layer(X) = sum_h P_h X W_h + 1 b'.

    Source: Xie 2021, section 2.1; rests on P_h 1 = 1.
    Claim: paths.decomposition
    """
    check_layers([layer], check=True)
    d = layer.w_v.shape[-2]
    b = layer.w_o.new_zeros(d) if layer.b_o is None else layer.b_o
    if layer.b_v is not None:
        rows = layer.b_v.unsqueeze(-2) @ layer.w_o  # (h, 1, d)
        b = b + rows.sum((0, 1))
    return layer.w_v @ layer.w_o, b


def random_layers(
    L: int,
    h: int,
    d: int,
    d_qk: int,
    *,
    generator: torch.Generator,
    d_v: int | None = None,
    gain: float = 1.0,
    bias: bool = False,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
) -> list[Layer]:
    """Layers with independent Gaussian weights.

        W_Q, W_K, W_V, biases ~ N(0, gain^2 / d),   W_O ~ N(0, gain^2 / (h d_v))

    Args:
        L, h, d, d_qk: layers, heads a layer, width, width of queries and keys.
        d_v: width of values, None for d_qk.
        bias: draw all four biases, else None.
        generator: the same draws serve every dtype and device.
        dtype: None for torch's default, which torch.randn has, too.
    """
    _require.is_a(bool, bias=bias)
    if d_v is None:
        d_v = d_qk
    if dtype is None:
        dtype = torch.get_default_dtype()
    _require.sizes(1, L=L, h=h, d=d, d_qk=d_qk, d_v=d_v)
    _require.numbers(gain=gain)
    _require.random(generator)
    _require.floating(dtype)
    _require.place(device)
    source = {"generator": generator, "device": generator.device}

    def draw(fan_in, *size):
        z = torch.randn(*size, dtype=torch.float64, **source)
        z = z * gain / math.sqrt(fan_in)
        return z.to(device=device, dtype=dtype)

    layers = []
    for _ in range(L):
        layer = Layer(
            w_q=draw(d, h, d, d_qk),
            w_k=draw(d, h, d, d_qk),
            w_v=draw(d, h, d, d_v),
            w_o=draw(h * d_v, h, d_v, d),
        )
        if bias:
            layer = layer._replace(
                b_q=draw(d, h, d_qk),
                b_k=draw(d, h, d_qk),
                b_v=draw(d, h, d_v),
                b_o=draw(d, d),
            )
        layers.append(layer)
    return layers


def from_torch(module: torch.nn.Module) -> Layer | Encoder:
    """The weights of torch's attention, of its encoder layer or of its whole encoder;
    or of one attention of GPT-2 or BERT in transformers.

        MultiheadAttention:         forward(x, [from_torch(m)]) = m(x, x, x)[0]
        TransformerEncoderLayer:    forward(x, from_torch(m)) = m(x)
        TransformerEncoder:         forward(x, from_torch(m)) = m(x)
        GPT2Attention:              forward(x, [from_torch(m)], mask=causal) = m(x)[0]
        BertSelfAttention and the linear map behind it: from_torch(BertAttention)

    Of GPT-2 and BERT it is the attention alone: what paths are about. LayerNorm and
    feed-forward parts stand outside of it, and the decomposition into paths does not
    cover them; give it the attention matrices of the whole model, by attention=.

    Masks of torch mean the opposite of ours (True = may not attend):

        m(x, mask=a, src_key_padding_mask=b)
        forward(x, from_torch(m), mask=~a & ~b[:, None, None, :])

    agree on every token that b does not hide.

    Args:
        module: one of these and no subclass, those of torch built with
            batch_first=True, without active dropout.

    Returns:
        Layer with h = module.num_heads and d_qk = d_v = d / h, or an Encoder, whose
        field layers is its attention alone. The weights are views: they follow the
        module through training; gradients reach it if made outside torch.no_grad.

    Source: torch.nn; differs: in the book's layout, x @ w, heads first.
    """
    kind = type(module).__name__
    home = type(module).__module__.partition(".")[0]
    require(
        home in ("torch", "transformers") and kind in _READERS,
        f"module must be one of {list(_READERS)}, got {kind}",
    )
    for part in module.modules():
        rate = part.p if isinstance(part, torch.nn.Dropout) else 0
        if isinstance(part, torch.nn.MultiheadAttention):
            rate = part.dropout
        active = part.training and rate > 0
        require(not active, "dropout is active: call .eval() first")
    return _READERS[kind](module)


def _read_attention(module: torch.nn.MultiheadAttention) -> Layer:
    require(
        module.batch_first,
        "batch_first is False: the module takes tokens (n, batch, d), and here the "
        "batch comes first. Its weights serve both: set batch_first = True on the "
        "MultiheadAttention",
    )
    require(
        module.in_proj_weight is not None,
        "queries, keys and values must share one width (kdim, vdim unset)",
    )
    require(
        module.bias_k is None and not module.add_zero_attn,
        "add_bias_kv and add_zero_attn add tokens: unset them",
    )
    d = module.embed_dim
    weights = module.in_proj_weight.view(3, d, d).mT
    biases = [None] * 3
    if module.in_proj_bias is not None:
        biases = module.in_proj_bias.view(3, d)
    out = module.out_proj
    return read_layer(weights, biases, out.weight.T, out.bias, module.num_heads)


def _read_encoder(module) -> Encoder:
    """A TransformerEncoder, or one TransformerEncoderLayer."""
    blocks = getattr(module, "layers", [module])
    for block in blocks:
        require(
            type(block) is torch.nn.TransformerEncoderLayer,
            f"each layer must be a TransformerEncoderLayer, got {type(block).__name__}",
        )
    orders = {block.norm_first for block in blocks}
    require(len(orders) == 1, "the layers must agree on norm_first")
    final = getattr(module, "norm", None)
    return Encoder(
        layers=[_read_attention(block.self_attn) for block in blocks],
        mlps=[read_mlp(b.linear1, b.linear2, b.activation) for b in blocks],
        norms=[(read_norm(b.norm1), read_norm(b.norm2)) for b in blocks],
        norm_first=orders.pop(),
        final_norm=None if final is None else read_norm(final),
    )


def _read_gpt2(module) -> Layer:
    """Its Conv1D keeps weights as (in, out), queries, keys and values side by side."""
    plain = module.scale_attn_weights and not module.is_cross_attention
    require(
        plain and not module.scale_attn_by_inverse_layer_idx,
        "only self-attention whose logits are over sqrt(d_qk) is read",
    )
    d = module.embed_dim
    weights = module.c_attn.weight.view(d, 3, d).movedim(1, 0)
    biases = module.c_attn.bias.view(3, d)
    out = module.c_proj
    return read_layer(weights, biases, out.weight, out.bias, module.num_heads)


def _read_bert(module) -> Layer:
    own = module.self
    maps = (own.query, own.key, own.value, module.output.dense)
    return read_linears(*maps, own.num_attention_heads)


_READERS = {
    "MultiheadAttention": _read_attention,
    "TransformerEncoderLayer": _read_encoder,
    "TransformerEncoder": _read_encoder,
    "GPT2Attention": _read_gpt2,
    "BertAttention": _read_bert,
    "RobertaAttention": _read_bert,
}


def check_network(
    x: Float[Tensor, "*batch n d"], layers: Sequence[Layer], *, check: bool = True
) -> None:
    """Refuse what no layer of the stack could run on; with check, NaN and infinity too.

    Source: the hypotheses of the path decomposition.
    """
    tokens(x)
    check_layers(layers, x, check=check)
    if check:
        finite(x=x)


def _check_projections(x, w_q, w_k, b_q, b_k, check: bool) -> None:
    tokens(x)
    shape = tuple(w_q.shape) if torch.is_tensor(w_q) else ()
    require(
        len(shape) in (2, 3) and 0 not in shape,
        f"w_q must be (d, d_qk) or (h, d, d_qk), got {shape or type(w_q)}",
    )
    *heads, _, d_qk = shape
    weights = {"w_q": w_q, "w_k": w_k, "b_q": b_q, "b_k": b_k}
    sizes = {
        "w_q": (*heads, x.shape[-1], d_qk),
        "w_k": shape,
        "b_q": (*heads, d_qk),
        "b_k": (*heads, d_qk),
    }
    check_weights(weights, sizes, x, check=check)
    if check:
        finite(x=x)


def _check_weighting(
    x: Tensor, size: tuple[int, ...], scale, mask, normalizer, check: bool
) -> None:
    """What makes weights of logits fits the tokens x; size is that of the weights."""
    _require.one_of(NORMALIZERS, normalizer=normalizer)
    _require.scale(scale, check=check)
    if mask is not None:
        _require.pair_mask(mask, size, x.device, check=check)
