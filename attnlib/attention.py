"""Attention matrices, multi-head layers, the forward pass. Tokens are rows.

Page:
    notebooks/path_decomposition/paths
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlib._blocks import (
    Mlp,
    Norm,
    around,
    check_blocks,
    feed_forward,
    layer_norm,
)
from attnlib._normalizers import NORMALIZERS, Normalizer, hardmax, sparsemax
from attnlib._require import attends, finite, matches, require, tokens

__all__ = [
    "NORMALIZERS",
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
    "sparsemax",
]


class Layer(NamedTuple):
    """The weights of one multi-head self-attention layer; a bias that is None is zero.

        layer(X) = sum_h P_h (X W_V,h + 1 b_V,h') W_O,h + 1 b_O'

    Args:
        w_q, w_k: (h, d, d_qk).
        w_v: (h, d, d_v).
        w_o: (h, d_v, d).
        b_q, b_k: (h, d_qk).
        b_v: (h, d_v).
        b_o: (d,).

    Source:
        Vaswani et al. 2017, multi-head attention; differs: W_O is kept in h blocks, one
        a head.
    """

    w_q: Tensor
    w_k: Tensor
    w_v: Tensor
    w_o: Tensor
    b_q: Tensor | None = None
    b_k: Tensor | None = None
    b_v: Tensor | None = None
    b_o: Tensor | None = None


def attention_matrix(
    x: Float[Tensor, "*batch n d"],
    w_q: Float[Tensor, "*heads d d_qk"],
    w_k: Float[Tensor, "*heads d d_qk"],
    *,
    b_q: Float[Tensor, "*heads d_qk"] | None = None,
    b_k: Float[Tensor, "*heads d_qk"] | None = None,
    scale: float | None = None,
    mask: Bool[Tensor, "..."] | None = None,
    normalizer: Normalizer = "softmax",
    check: bool = True,
) -> Float[Tensor, "*rest n n"]:
    """The attention matrix of each head: nonnegative, every row sums to one.

        P = softmax_row( scale (X W_Q + 1 b_Q') (X W_K + 1 b_K')' )

    Args:
        x: (*batch, n, d), tokens are rows.
        w_q, w_k: (d, d_qk), or (h, d, d_qk) for h heads.
        b_q, b_k: (d_qk,) or (h, d_qk).
        scale: factor of the logits, None for 1/sqrt(d_qk).
        mask: boolean (n, n), (*batch, n, n) or the shape of the result; True = may
            attend.
        normalizer: "softmax", "hardmax" or "sparsemax".
        check: look for NaN and infinity.

    Returns:
        (*batch, n, n), or (*batch, h, n, n) for h heads; dtype and device of x.

    Raises:
        ValueError: for shapes that do not fit, integer or mixed dtypes, mixed devices,
            NaN or infinity, a mask that hides a whole row (P 1 = 1 would fail), an
            unknown normalizer.

    Cost:
        O(h n d d_qk + h n^2 d_qk) time, O(h n^2) memory.

    Source:
        Vaswani et al. 2017, scaled dot-product attention.
    """
    _check_projections(x, w_q, w_k, b_q, b_k, check)
    require(
        normalizer in NORMALIZERS,
        f"normalizer must be one of {list(NORMALIZERS)}, got {normalizer!r}",
    )
    heads = w_q.dim() == 3
    source = x.unsqueeze(-3) if heads else x
    q = _project(source, w_q, b_q)
    k = _project(source, w_k, b_k)
    if scale is None:
        scale = 1 / math.sqrt(w_q.shape[-1])
    a = (q * scale) @ k.mT
    if mask is not None:
        a = _masked(a, mask, x, heads, check)
    return NORMALIZERS[normalizer](a)


def _masked(a: Tensor, mask: Tensor, x: Tensor, heads: bool, check: bool) -> Tensor:
    """The logits with minus infinity where the mask forbids to attend."""
    *batch, n, _ = x.shape
    attends(mask, {(n, n), (*batch, n, n), tuple(a.shape)}, check)
    if heads and batch and mask.dim() == len(batch) + 2:
        mask = mask.unsqueeze(-3)  # one mask a sequence, the same for all its heads
    return a.masked_fill(~mask, -math.inf)


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
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> list[Layer]:
    """Layers with independent Gaussian weights.

        W_Q, W_K, W_V, biases ~ N(0, gain^2 / d),   W_O ~ N(0, gain^2 / (h d_v))

    Args:
        L, h, d, d_qk: layers, heads a layer, width, width of queries and keys.
        d_v: width of values, None for d_qk.
        gain: factor of every weight.
        bias: draw all four biases, else None.
        generator: source of randomness; the same draws serve every dtype and device.
        dtype, device: of the weights.

    Returns:
        list of L Layers of the given dtype and device.

    Raises:
        ValueError: if a size is below one.

    Cost:
        O(L h d (d_qk + d_v)).

    Source:
        the usual fan-in scaling; not taken from a paper.
    """
    if d_v is None:
        d_v = d_qk
    sizes = {"L": L, "h": h, "d": d, "d_qk": d_qk, "d_v": d_v}
    require(min(sizes.values()) >= 1, f"every size must be at least one, got {sizes}")

    def draw(fan_in, *size):
        z = torch.randn(
            *size, generator=generator, dtype=torch.float64, device=generator.device
        )
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


def from_torch(module: torch.nn.MultiheadAttention) -> Layer:
    """The weights of torch's multi-head attention as a Layer.

        forward(x, [from_torch(m)]) = m(x, x, x)[0]   (batch first, no dropout)

    Args:
        module: torch.nn.MultiheadAttention with one width d for queries, keys and
            values.

    Returns:
        Layer of views of the weights, h = module.num_heads, d_qk = d_v = d / h. They
        follow the module through training; gradients reach it if made outside
        torch.no_grad.

    Raises:
        ValueError: for another type, separate widths, added key-value biases, active
            dropout.

    Cost:
        O(1): nothing is copied.

    Source:
        torch.nn.MultiheadAttention; differs: in the book's layout, x @ w, heads first.
    """
    require(
        isinstance(module, torch.nn.MultiheadAttention),
        f"module must be a MultiheadAttention, got {type(module).__name__} "
        "(.self_attn of an encoder layer is its attention; its MLP and norms are not)",
    )
    require(
        module.in_proj_weight is not None,
        "queries, keys and values must share one width (kdim, vdim unset)",
    )
    require(
        module.bias_k is None and not module.add_zero_attn,
        "add_bias_kv and add_zero_attn add tokens: unset them",
    )
    require(
        not (module.training and module.dropout),
        "dropout is active: call .eval() first",
    )
    h = module.num_heads
    d = module.embed_dim
    width = d // h
    # One view at a time: those of an unpacked tensor fail after an optimiser's step.
    weights = module.in_proj_weight.view(3, h, width, d).mT
    w_q = weights[0]
    w_k = weights[1]
    w_v = weights[2]
    w_o = module.out_proj.weight.T.view(h, width, d)
    if module.in_proj_bias is None:
        return Layer(w_q, w_k, w_v, w_o)
    rows = module.in_proj_bias.view(3, h, width)
    biases = {"b_q": rows[0], "b_k": rows[1], "b_v": rows[2]}
    return Layer(w_q, w_k, w_v, w_o, **biases, b_o=module.out_proj.bias)


def merged(layer: Layer) -> tuple[Float[Tensor, "h d d"], Float[Tensor, "d"]]:
    """Value and output weights as one matrix a head, and all biases as one row.

        W_h = W_V,h W_O,h,    b = b_O + sum_h W_O,h' b_V,h

    so that layer(X) = sum_h P_h X W_h + 1 b'.

    Args:
        layer: a Layer with h heads of width d.

    Returns:
        (h, d, d) and (d,).

    Cost:
        O(h d^2 d_v).

    Source:
        Xie 2021, section 2.1; rests on P_h 1 = 1.

    Claim:
        paths.decomposition
    """
    d = layer.w_o.shape[-1]
    b = layer.w_o.new_zeros(d) if layer.b_o is None else layer.b_o
    if layer.b_v is not None:
        rows = layer.b_v.unsqueeze(-2) @ layer.w_o  # (h, 1, d)
        b = b + rows.sum((0, 1))
    return layer.w_v @ layer.w_o, b


def forward(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    skip: bool = False,
    mlps: Sequence[Mlp | None] | None = None,
    mlp_skip: bool | None = None,
    norms: Sequence[tuple[Norm | None, Norm | None]] | None = None,
    norm_first: bool = False,
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
    normalizer: Normalizer = "softmax",
    return_attention: bool = False,
    check: bool = True,
):
    """The output of a stack of layers: self-attention, then a feed-forward part M and
    norms N where given.

        SA(X) = sum_h P_h (X W_V,h + 1 b_V,h') W_O,h + 1 b_O'

        plain:     X <- [X +] SA(X)
        post-LN:   X <- N_1([X +] SA(X)),   then X <- N_2([X +] M(X))
        pre-LN:    X <- [X +] SA(N_1(X)),   then X <- [X +] M(N_2(X))

    Args:
        x: (*batch, n, d), tokens are rows.
        layers: at least one Layer; heads may differ by layer.
        skip: add the input of the attention of each layer to its output.
        mlps: an Mlp or None for each layer.
        mlp_skip: the same around the feed-forward parts, None for as skip.
        norms: a pair (N_1, N_2) for each layer, each a Norm or None.
        norm_first: pre-LN, else post-LN.
        mask, scale, normalizer: as in attention_matrix, the same for all layers.
        return_attention: also return every P.
        check: look for NaN and infinity.

    Returns:
        y (*batch, n, d), or (y, [P (*batch, h, n, n), one a layer]); dtype and device
        of x.

    Raises:
        ValueError: for no layers, shapes or numbers of parts that do not fit, integer
            or mixed dtypes, mixed devices, NaN or infinity, a mask that hides a whole
            row, a norm of a part that is not there.

    Cost:
        O(L h (n d d_qk + n d d_v + n^2 (d_qk + d_v)) + L n d m) time, O(h n^2) memory a
        layer.

    Source:
        Vaswani et al. 2017; Dong et al. 2021 study it without mlps and norms. Differs
        from torch's encoder layer for norm_first: no norm after the last layer; apply
        layer_norm.
    """
    check_network(x, layers, check=check)
    parts = check_blocks(x, len(layers), mlps, norms, check)
    maps = []
    how = {"scale": scale, "mask": mask, "normalizer": normalizer}
    if mlp_skip is None:
        mlp_skip = skip
    for layer, (mlp, first, second) in zip(layers, parts):
        attend = partial(
            _attend,
            layer=layer,
            maps=maps if return_attention else None,
            check=check and layer is layers[0],
            **how,
        )
        x = around(attend, x, first, skip=skip, norm_first=norm_first)
        if mlp is not None:
            plain = partial(feed_forward, mlp=mlp, check=False)
            x = around(plain, x, second, skip=mlp_skip, norm_first=norm_first)
    return (x, maps) if return_attention else x


def _attend(x: Tensor, layer: Layer, maps: list[Tensor] | None, **how) -> Tensor:
    """The attention part of a layer; its P is added to maps, and else let go."""
    biases = {"b_q": layer.b_q, "b_k": layer.b_k}
    p = attention_matrix(x, layer.w_q, layer.w_k, **biases, **how)
    if maps is not None:
        maps.append(p)
    heads = p @ _project(x.unsqueeze(-3), layer.w_v, layer.b_v)
    side_by_side = heads.transpose(-3, -2).flatten(-2)
    y = side_by_side @ layer.w_o.flatten(0, 1)
    return y if layer.b_o is None else y + layer.b_o


def check_network(
    x: Float[Tensor, "*batch n d"], layers: Sequence[Layer], *, check: bool = True
) -> None:
    """Refuse what no layer of the stack could run on.

    Args:
        x: (*batch, n, d).
        layers: the stack.
        check: also look for NaN and infinity.

    Raises:
        ValueError: that names the layer, the argument, what it got and what was needed.

    Cost:
        O(size of x and of the weights) with check, else O(L).

    Source:
        the hypotheses of the path decomposition.
    """
    require(
        isinstance(layers, (list, tuple)),
        f"layers must be a list of Layers, got {type(layers).__name__}",
    )
    require(len(layers) >= 1, "a network needs at least one layer, got none")
    tokens(x)
    for number, layer in enumerate(layers, 1):
        try:
            _check_layer(x, layer, check)
        except ValueError as error:
            raise ValueError(f"layer {number}: {error}") from None
    if check:
        finite(x=x)


def _check_layer(x: Tensor, layer: Layer, check: bool) -> None:
    require(
        isinstance(layer, Layer),
        f"must be an attnlib.attention.Layer, got {type(layer).__name__}",
    )
    for name in ("w_q", "w_v"):
        w = getattr(layer, name)
        require(
            torch.is_tensor(w), f"{name} must be a torch tensor, got {type(w).__name__}"
        )
        require(
            w.dim() == 3 and 0 not in w.shape,
            f"{name} must be (h, d, width) with h >= 1, got {tuple(w.shape)}",
        )
    d = x.shape[-1]
    h, _, d_qk = layer.w_q.shape
    d_v = layer.w_v.shape[-1]
    sizes = {
        "w_q": (h, d, d_qk),
        "w_k": (h, d, d_qk),
        "w_v": (h, d, d_v),
        "w_o": (h, d_v, d),
        "b_q": (h, d_qk),
        "b_k": (h, d_qk),
        "b_v": (h, d_v),
        "b_o": (d,),
    }
    _check_weights(layer._asdict(), sizes, x)
    if check:
        finite(**layer._asdict())


def _check_weights(
    weights: dict[str, Tensor | None], sizes: dict[str, tuple], x: Tensor
) -> None:
    """Each weight has its size; a bias may be missing."""
    for name, w in weights.items():
        if w is not None or name.startswith("w"):
            matches(name, w, sizes[name], x)


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
    _check_weights(weights, sizes, x)
    if check:
        finite(x=x, **weights)


def _project(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    return x @ w if b is None else x @ w + b.unsqueeze(-2)
