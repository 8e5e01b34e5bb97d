"""What a layer is made of: the weights of self-attention, feed-forward parts and
LayerNorm, and their checks; public under attnlib.attention.

Page: notebooks/path_decomposition/escaping_collapse
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attnlib._require import finite, is_tensor, matches, numbers, require, tokens


def _sizes(part: tuple) -> str:
    """The repr of a part: the dtypes and sizes of its weights, not their numbers."""
    shown = []
    for name, value in part._asdict().items():
        if torch.is_tensor(value):
            value = f"{value.dtype}{list(value.shape)}".removeprefix("torch.")
        if value is not None:
            shown.append(f"{name}={getattr(value, '__name__', value)}")
    return f"{type(part).__name__}({', '.join(shown)})"


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

    Source: Vaswani et al. 2017, multi-head attention; differs: W_O is kept in h blocks,
        one a head.
    """

    w_q: Tensor
    w_k: Tensor
    w_v: Tensor
    w_o: Tensor
    b_q: Tensor | None = None
    b_k: Tensor | None = None
    b_v: Tensor | None = None
    b_o: Tensor | None = None

    __repr__ = _sizes


class Mlp(NamedTuple):
    """The weights of one feed-forward part, the same for each token; a bias that is
    None is zero.

        mlp(X) = phi(X W_1 + 1 b_1') W_2 + 1 b_2'

    Args:
        w_1: (d, m).
        w_2: (m, d).
        b_1: (m,).
        b_2: (d,).
        activation: phi, a function of tensors that acts on each entry.

    Source: Vaswani et al. 2017, position-wise feed-forward networks.
    """

    w_1: Tensor
    w_2: Tensor
    b_1: Tensor | None = None
    b_2: Tensor | None = None
    activation: Callable[[Tensor], Tensor] = torch.relu

    __repr__ = _sizes


class Norm(NamedTuple):
    """The weights of one LayerNorm; a gain that is None is one, a bias that is None is
    zero.

        norm(x) = gain (x - mean(x)) / sqrt(var(x) + eps) + bias      for each token x

    Args:
        gain, bias: (d,).
        eps: at least zero; with zero, a token whose entries are equal becomes NaN.

    Source: Ba, Kiros and Hinton 2016, as torch.nn.LayerNorm has it: var divides by d.
    """

    gain: Tensor | None = None
    bias: Tensor | None = None
    eps: float = 1e-5

    __repr__ = _sizes


class Encoder(NamedTuple):
    """The weights of an encoder as torch has it: in each layer self-attention, a
    feed-forward part and two norms, a skip around each part.

    It stands for the arguments of forward that have the same names, with skip=True.

    Args:
        layers: list of Layers.
        mlps: an Mlp for each layer.
        norms: a pair of Norms for each layer.
        norm_first: pre-LN, else post-LN.
        final_norm: the Norm after the last layer, or None.

    Source: torch.nn.TransformerEncoder.
    """

    layers: list[Layer]
    mlps: list[Mlp]
    norms: list[tuple[Norm, Norm]]
    norm_first: bool = False
    final_norm: Norm | None = None


def feed_forward(
    x: Float[Tensor, "*batch n d"], mlp: Mlp, *, check: bool = True
) -> Float[Tensor, "*batch n d"]:
    """The feed-forward part of a layer, without its skip.

        phi(X W_1 + 1 b_1') W_2 + 1 b_2'

    Source: Vaswani et al. 2017.
    Claim: escaping.mlp
    """
    tokens(x)
    check_mlp(x, mlp, check)
    if check:
        finite(x=x)
    return feed(x, mlp)


def feed(x: Tensor, mlp: Mlp) -> Tensor:
    """feed_forward of checked input."""
    hidden = x @ mlp.w_1
    if mlp.b_1 is not None:
        hidden = hidden + mlp.b_1
    y = mlp.activation(hidden)
    require(
        torch.is_tensor(y) and y.shape == hidden.shape,
        "activation must act on each entry and keep the shape",
    )
    y = y @ mlp.w_2
    if mlp.b_2 is not None:
        y = y + mlp.b_2
    return y


def layer_norm(
    x: Float[Tensor, "*batch n d"], norm: Norm
) -> Float[Tensor, "*batch n d"]:
    """LayerNorm of each token.

        D^-1 X (I - 1 1'/d) diag(gain) + 1 bias',   D_ii = sqrt(var(x_i) + eps)

    Source: Ba, Kiros and Hinton 2016.
    Claim: escaping.norm-side
    """
    tokens(x)
    check_norm(x, norm, check=True)
    finite(x=x)
    return normed(x, norm)


def normed(x: Tensor, norm: Norm | None) -> Tensor:
    """layer_norm of checked input; x itself where there is no norm."""
    if norm is None:
        return x
    return F.layer_norm(x, x.shape[-1:], norm.gain, norm.bias, norm.eps)


def around(
    part: Callable[[Tensor], Tensor],
    x: Tensor,
    norm: Norm | None,
    *,
    skip: bool,
    norm_first: bool,
) -> Tensor:
    """A part of a layer with its skip and its norm, in one of the two orders."""
    y = part(normed(x, norm) if norm_first else x)
    y = x + y if skip else y
    return y if norm_first else normed(y, norm)


def check_layers(layers, x: Tensor | None = None, *, check: bool = False) -> None:
    """A list of Layers whose weights fit each other, and the tokens x where given; with
    check, the weights are finite.
    """
    refuse_encoder(layers)
    hint = ": for a single one write [layer]" if isinstance(layers, Layer) else ""
    require(
        isinstance(layers, list | tuple) and not hint,
        f"layers must be a list of Layers, got {type(layers).__name__}{hint}",
    )
    require(len(layers) >= 1, "a network needs at least one layer, got none")
    for number, layer in enumerate(layers, 1):
        try:
            _check_layer(layer, x, check)
        except ValueError as error:
            raise ValueError(f"layer {number}: {error}") from None


def refuse_encoder(layers) -> None:
    """Refuse an Encoder where only attention and skips have a meaning."""
    require(
        not isinstance(layers, Encoder),
        "layers must be a list of Layers, got an Encoder: its field layers is its "
        "attention alone (a feed-forward part or a norm has no paths)",
    )


def _check_layer(layer: Layer, x: Tensor | None, check: bool) -> None:
    hint = ""
    if isinstance(layer, torch.nn.Module):
        hint = ": attention.from_torch reads it"
    got = type(layer).__name__
    require(
        isinstance(layer, Layer), f"must be an attnlib.attention.Layer, got {got}{hint}"
    )
    for name in ("w_q", "w_v"):
        w = getattr(layer, name)
        is_tensor(name, w)
        require(
            w.dim() == 3 and 0 not in w.shape,
            f"{name} must be (h, d, width) with h >= 1, got {tuple(w.shape)}",
        )
    like = layer.w_v if x is None else x
    d = layer.w_v.shape[-2] if x is None else x.shape[-1]
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
    like_name = "w_v" if x is None else "x"
    check_weights(layer._asdict(), sizes, like, like_name, check=check)


def check_weights(
    weights: dict[str, Tensor | None],
    sizes: dict[str, tuple],
    like: Tensor,
    like_name: str = "x",
    *,
    check: bool,
) -> None:
    """Each weight has its size, and with check, is finite; a bias may be missing."""
    for name, size in sizes.items():
        if weights[name] is not None or name.startswith("w"):
            matches(name, weights[name], size, like, like_name)
    if check:
        finite(**{name: weights[name] for name in sizes})


def check_blocks(
    x: Tensor, depth: int, mlps, norms, check: bool
) -> list[tuple[Mlp | None, Norm | None, Norm | None]]:
    """For each layer its feed-forward part and its two norms, None where there is
    none.
    """
    mlps = [None] * depth if mlps is None else mlps
    norms = [(None, None)] * depth if norms is None else norms
    for name, given in {"mlps": mlps, "norms": norms}.items():
        require(
            _is_list(given),
            f"{name} must be a list with an entry for each layer, "
            f"got {type(given).__name__}",
        )
        require(
            len(given) == depth,
            f"{name} must have an entry for each of {depth} layers, got {len(given)}",
        )
    for number, (mlp, pair) in enumerate(zip(mlps, norms), 1):
        try:
            _check_block(x, mlp, pair, check)
        except ValueError as error:
            raise ValueError(f"layer {number}: {error}") from None
    return [(mlp, *pair) for mlp, pair in zip(mlps, norms)]


def _is_list(given) -> bool:
    """A plain list or tuple; the weights of one part are a tuple, too."""
    return isinstance(given, list | tuple) and not isinstance(given, Mlp | Norm)


def _check_block(
    x: Tensor, mlp: Mlp | None, pair: Sequence[Norm | None], check: bool
) -> None:
    require(
        _is_list(pair) and len(pair) == 2,
        "norms must hold a pair: of attention, of the feed-forward part "
        "(None for no norm)",
    )
    require(
        pair[1] is None or mlp is not None,
        "norms hold one for a feed-forward part that mlps do not hold",
    )
    if mlp is not None:
        check_mlp(x, mlp, check)
    for norm in pair:
        if norm is not None:
            check_norm(x, norm, check)


def check_mlp(x: Tensor, mlp: Mlp, check: bool) -> None:
    """The feed-forward part is an Mlp that fits x; with check, its weights are
    finite.
    """
    require(
        isinstance(mlp, Mlp),
        f"mlp must be an attnlib.attention.Mlp, got {type(mlp).__name__}",
    )
    require(
        torch.is_tensor(mlp.w_1) and mlp.w_1.dim() == 2 and 0 not in mlp.w_1.shape,
        "w_1 must be a tensor (d, m) with m >= 1",
    )
    require(
        callable(mlp.activation),
        "activation must be a function of tensors, "
        f"got {type(mlp.activation).__name__}",
    )
    d = x.shape[-1]
    m = mlp.w_1.shape[1]
    sizes = {"w_1": (d, m), "w_2": (m, d), "b_1": (m,), "b_2": (d,)}
    check_weights(mlp._asdict(), sizes, x, check=check)


def check_norm(x: Tensor, norm: Norm, check: bool) -> None:
    """The norm is a Norm that fits x; with check, its weights are finite."""
    require(
        isinstance(norm, Norm),
        f"norm must be an attnlib.attention.Norm, got {type(norm).__name__}",
    )
    row = (x.shape[-1],)
    check_weights(norm._asdict(), {"gain": row, "bias": row}, x, check=check)
    numbers(eps=norm.eps)
    if norm.eps < 0:
        raise ValueError(f"eps must be at least zero, got {norm.eps}")


def read_layer(weights, biases, w_o: Tensor, b_o: Tensor | None, h: int) -> Layer:
    """Three matrices (d, h width) of queries, keys and values, their biases, and the
    matrix (h width, d) of the output as a Layer of views.
    """
    # By number: views of an unpacked tensor fail after an optimiser's step.
    w = [weights[i].unflatten(-1, (h, -1)).transpose(0, 1) for i in range(3)]
    layer = Layer(*w, w_o.unflatten(0, (h, -1)), b_o=b_o)
    if biases[0] is None:
        return layer
    b_q, b_k, b_v = (biases[i].view(h, -1) for i in range(3))
    return layer._replace(b_q=b_q, b_k=b_k, b_v=b_v)


def read_linears(query, key, value, out, h: int) -> Layer:
    """Four torch.nn.Linear as a Layer of views."""
    maps = (query, key, value)
    weights = [linear.weight.T for linear in maps]
    biases = [linear.bias for linear in maps]
    return read_layer(weights, biases, out.weight.T, out.bias, h)


def read_mlp(into, out, activation: Callable[[Tensor], Tensor]) -> Mlp:
    """Two torch.nn.Linear as an Mlp of views."""
    return Mlp(into.weight.T, out.weight.T, into.bias, out.bias, activation)


def read_norm(module) -> Norm:
    """A torch.nn.LayerNorm as a Norm of views."""
    require(
        isinstance(module, torch.nn.LayerNorm) and len(module.normalized_shape) == 1,
        f"a norm must be a LayerNorm over the features, got {module}",
    )
    return Norm(module.weight, module.bias, module.eps)
