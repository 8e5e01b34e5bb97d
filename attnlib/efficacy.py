"""Path efficacy: what the paths of one length answer alone, in a network with skips
between a linear embedding and a linear readout.

    logits(U) = forward(U E + B) R + 1 r' = sum_k S_k R + 1 (R' b + r)'

with the sums S_k over all paths of length k and the row b of `attnlib.paths`.

Page: notebooks/path_decomposition/path_efficacy
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlib import _require
from attnlib._require import finite, is_floating, is_tensor, matches, require, tokens
from attnlib.attention import Layer, forward, random_layers
from attnlib.paths import _frozen, path_sums


class Reader(NamedTuple):
    """A network with skips between a linear embedding and a linear readout, and nothing
    else.

    Args:
        embed: (f, d).
        position: (n, d), or (1, d) when tokens have no order.
        layers: L Layers.
        readout: (d, c).
        bias: (c,).
    """

    embed: Tensor
    position: Tensor
    layers: list[Layer]
    readout: Tensor
    bias: Tensor


class Parts(NamedTuple):
    """The logits of a Reader, by how many heads a path passes; they add up.

    Args:
        by_length: (L + 1, *batch, n, c).
        constant: (c,), what all biases give together.

    Claim: efficacy.margins
    """

    by_length: Tensor
    constant: Tensor


def logits(
    reader: Reader, u: Float[Tensor, "*batch n f"]
) -> Float[Tensor, "*batch n c"]:
    """What the whole network says of tokens with features u.

        forward(U E + B) R + 1 r'

    Source: the networks of Dong et al. 2021 without LayerNorm, so that the
        decomposition is exact.
    """
    y = forward(_embedded(reader, u), reader.layers, skip=True)
    return y @ reader.readout + reader.bias


def logit_parts(reader: Reader, u: Float[Tensor, "*batch n f"]) -> Parts:
    """The logits as a sum over path lengths and a constant, with the attention of the
    full pass.

        by_length[k] = S_k R,   constant = R' b + r

    Claim: efficacy.margins
    """
    sums = path_sums(_embedded(reader, u), reader.layers, skip=True)
    constant = sums.bias @ reader.readout + reader.bias
    return Parts(sums.by_length @ reader.readout, constant)


def _embedded(reader: Reader, u: Tensor) -> Tensor:
    """U E + B, where what stands around the layers fits u and is finite."""
    _require.is_a(Reader, reader=reader)
    tokens(u, "u")
    is_tensor("readout", reader.readout)
    is_tensor("position", reader.position)
    require(
        reader.readout.dim() == 2,
        f"readout must be (d, c), got {tuple(reader.readout.shape)}",
    )
    d, c = reader.readout.shape
    n, f = u.shape[-2:]
    rows = 1 if reader.position.shape == (1, d) else n
    matches("embed", reader.embed, (f, d), u, "u")
    matches("position", reader.position, (rows, d), u, "u")
    matches("readout", reader.readout, (d, c), u, "u")
    matches("bias", reader.bias, (c,), u, "u")
    around = reader._asdict()
    del around["layers"]  # forward looks at them
    finite(u=u, **around)
    return u @ reader.embed + reader.position


@_require.own_precision
def length_bounds(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    attention: Sequence[Tensor] | None = None,
) -> Float[Tensor, "lengths *batch"]:
    """How large the sum of all paths of each length can be at most.

        |S_k|_F <= e_k(s_1, ..., s_L) |X|_F,   s_l = sum_h |P^l_h|_2 |W^l_h|_2,
        e_k elementary symmetric

    Args:
        attention: P of the full forward pass with skips, None: computed.

    Cost: the singular values of every P and W.
    Claim: efficacy.weight
    """
    attention = _frozen(x, layers, attention, skip=True)
    _require.two_norms(x)
    e = [torch.linalg.matrix_norm(x)]
    for layer, p in zip(layers, attention):
        w_norms = torch.linalg.matrix_norm(layer.w_v @ layer.w_o, 2)
        p_norms = torch.linalg.matrix_norm(p, 2)
        s = (p_norms * w_norms).sum(-1)
        skipping = [*e, 0 * s]
        passing = [0 * s, *(s * v for v in e)]
        e = [a + b for a, b in zip(skipping, passing)]
    return torch.stack(e)


def accuracy(
    scores: Float[Tensor, "*more_batch n c"], labels: Int[Tensor, "*batch n"]
) -> Float[Tensor, "*more"]:
    """The share of tokens whose largest score stands at their label.

    Args:
        scores: (*more, *batch, n, c); labels are shared by what `more` counts.
    """
    is_floating("scores", scores)
    is_tensor("labels", labels)
    require(
        scores.dim() >= 2,
        f"scores must be (*more, *batch, n, c), got {tuple(scores.shape)}",
    )
    *size, classes = scores.shape[-1 - labels.dim() :]
    _check_labels(labels, tuple(size), classes, scores, "the scores")
    finite(scores=scores.amax(-1))  # NaN would count as the largest
    right = (scores.argmax(-1) == labels).to(scores.dtype)
    more = right.dim() - labels.dim()
    return right.flatten(more).mean(-1)


def _check_labels(labels, size: tuple, classes: int, like, like_name: str) -> None:
    """Each token of this size has the integer of a class."""
    is_tensor("labels", labels)
    _require.same_device("labels", labels, like.device, like_name)
    whole = not (labels.is_floating_point() or labels.is_complex())
    require(
        whole and labels.dtype != torch.bool,
        f"labels must be integers, got {labels.dtype}",
    )
    got = tuple(labels.shape)
    require(got and got == size, f"labels must be {size} to fit {like_name}, got {got}")
    require(
        bool(((labels >= 0) & (labels < classes)).all()),
        f"labels must be from 0 to {classes - 1}, the classes of the scores",
    )


def random_reader(
    f: int,
    c: int,
    *,
    L: int,
    h: int,
    d: int,
    n: int = 1,
    generator: torch.Generator,
    gain: float = 0.5,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Reader:
    """A Reader before training.

        E, B ~ N(0, 1),   R ~ N(0, 1 / d),   r = 0,
        layers of random_layers with biases set to zero

    Args:
        f, c: features of a token, classes.
        L, h, d: layers, heads, width; d_qk = d_v = d / h.
        n: positions to learn, 1 for none.
        gain: of random_layers.
    """
    _require.sizes(1, f=f, c=c, h=h, d=d, n=n)
    require(
        d % h == 0,
        f"the width must be a multiple of the number of heads, got d = {d}, h = {h}",
    )
    how = {"gain": gain, "generator": generator, "dtype": dtype, "device": device}
    layers = []
    for layer in random_layers(L, h, d, d // h, bias=True, **how):
        weights = layer._asdict()
        for name in ("b_q", "b_k", "b_v", "b_o"):
            weights[name] = torch.zeros_like(weights[name])
        layers.append(Layer(**weights))

    where = {"dtype": torch.float64, "device": generator.device}

    def draw(*size):
        return torch.randn(*size, generator=generator, **where)

    embed = draw(f, d).to(device, dtype)
    position = draw(n, d).to(device, dtype)
    readout = draw(d, c) / math.sqrt(d)
    readout = readout.to(device, dtype)
    bias = torch.zeros(c, dtype=dtype, device=device)
    return Reader(embed, position, layers, readout, bias)


def sorting(
    count: int, *, n: int = 8, letters: int = 10, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Words of n random letters, and the same letters in alphabetical order.

    Args:
        count: words.
        letters: of the alphabet, drawn independently.

    Returns:
        features (count, n, letters), float32, one 1 a token; labels (count, n): the
        letter that belongs there.

    Source: Dong et al. 2021, public code: 8 of 10 letters, repeats allowed.
    """
    _require.sizes(1, count=count, n=n, letters=letters)
    _require.random(generator)
    how = {"generator": generator, "device": generator.device}
    words = torch.randint(letters, (count, n), **how)
    features = torch.nn.functional.one_hot(words, letters).float()
    return features, words.sort(-1).values
