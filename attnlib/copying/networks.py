"""Small networks whose layers mix tokens by sparse attention, by a learned matrix or by
a convolution; training trains them.

    x = E(token) + B(position)
    x <- x + W mix(LN(x)),   x <- x + W_2 relu(W_1 LN(x))   in each layer
    logits = x R

    mix(x)_k:  softmax over what k reads   |   (W_P x)_k   |   sum_t filter_t x_{k - t}

Page: notebooks/sparse_universality/copying_task
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib._require import is_a, is_list, one_of, require, sizes
from attnlib.copying import receptive_fields
from attnlib.patterns import Pattern, one_step
from attnlib.sparse import masked_attention, sparse_attention

Scheme = Literal["union", "multihead", "sequential"]


@dataclass(frozen=True)
class Attend:
    """Heads that attend along a pattern.

    Args:
        pattern: of n tokens.
        steps: the step of each head.
        sparse: use the sparse kernel, not masks.
    """

    pattern: Pattern
    steps: tuple[int, ...]
    sparse: bool = False


@dataclass(frozen=True)
class Project:
    """A bilinear projection in place of attention: token k gets row k of W_P X W_O, W_P
    learned and n x n, lower triangular if causal.
    """

    n: int
    causal: bool = True


@dataclass(frozen=True)
class Convolve:
    """A separable convolution in place of attention: one filter a feature along the
    tokens, then a linear map.

    Args:
        n: tokens.
        width: tokens under the filter, odd unless causal.
        causal: the token and those before it.
    """

    n: int
    width: int
    causal: bool = True


Mixing = Attend | Project | Convolve


def plan(
    pattern: Pattern, layers: int, heads: int, scheme: Scheme, *, sparse: bool = False
) -> list[Mixing]:
    """Layers that use the p steps of a pattern by one of three schemes; `sparse` uses
    the sparse kernel, not masks.

        union:       all steps at once
        multihead:   head h uses step h mod p
        sequential:  layer l uses step l mod p

    Source: Yun et al. 2020b, experiments, recalled.
    """
    is_a(bool, sparse=sparse)
    got = type(pattern).__name__
    require(isinstance(pattern, Pattern), f"pattern must be a Pattern, got {got}")
    sizes(1, layers=layers, heads=heads)
    one_of(get_args(Scheme), scheme=scheme)
    p = pattern.p
    if scheme == "union":
        return [Attend(one_step(pattern), (0,) * heads, sparse)] * layers
    if scheme == "multihead":
        steps = tuple(h % p for h in range(heads))
        return [Attend(pattern, steps, sparse)] * layers
    return [Attend(pattern, (l % p,) * heads, sparse) for l in range(layers)]


def reads(mixing: Mixing) -> Bool[Tensor, "..."]:
    """What each token reads in a layer, as a mask: (heads, n, n) for Attend, else
    (n, n).

    Claim: copying.fields
    """
    require(
        isinstance(mixing, Mixing),
        f"mixing must be an Attend, Project or Convolve, got {type(mixing).__name__}",
    )
    if isinstance(mixing, Attend):
        return torch.stack([mixing.pattern.mask(step) for step in mixing.steps])
    n = mixing.n
    sizes(1, n=n)
    i = torch.arange(n, device="cpu")
    back = i[:, None] - i
    if isinstance(mixing, Project):
        return back >= (0 if mixing.causal else -n)
    left, right = _sides(mixing)
    return (back <= left) & (back >= -right)


def last_field(mixings: Sequence[Mixing]) -> Bool[Tensor, "n n"]:
    """The receptive fields after all layers, lowest in front: True in row k and column
    j if j is in S^L_k.

    Claim: copying.fields
    """
    _some_layers(mixings)
    return receptive_fields([reads(mixing) for mixing in mixings])[-1]


class MixingNetwork(nn.Module):
    """Layers of token mixing and a feed-forward part, each behind a LayerNorm and added
    to its input.

    Args:
        vocabulary: tokens it knows.
        mixings: one a layer.
        width: d; heads divide it.
        seed: of the weights.
    """

    def __init__(
        self,
        vocabulary: int,
        mixings: Sequence[Mixing],
        *,
        width: int = 32,
        seed: int = 0,
    ):
        super().__init__()
        _some_layers(mixings)
        sizes(1, vocabulary=vocabulary, width=width)
        sizes(0, seed=seed)
        n = reads(mixings[0]).shape[-1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embed = nn.Embedding(vocabulary, width)
            self.position = nn.Parameter(0.3 * torch.randn(n, width))
            layers = [_MixingLayer(mixing, width, n) for mixing in mixings]
            self.layers = nn.ModuleList(layers)
            self.readout = nn.Linear(width, vocabulary)

    def forward(self, tokens: Int[Tensor, "batch n"]) -> Float[Tensor, "batch n v"]:
        """Logits at each token."""
        n = len(self.position)
        require(
            tokens.dim() == 2 and tokens.shape[1] == n,
            f"tokens must be (batch, {n}), got {tuple(tokens.shape)}",
        )
        x = self.embed(tokens) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.readout(x)


def _some_layers(mixings) -> None:
    is_list(mixings=mixings)
    require(len(mixings) > 0, "mixings must hold at least one layer, got none")


class _MixingLayer(nn.Module):
    """One layer: mixing and a feed-forward part."""

    def __init__(self, mixing: Mixing, width: int, n: int):
        super().__init__()
        mask = reads(mixing)
        require(
            mask.shape[-1] == n,
            f"all layers need the same tokens: {n} in the first, {mask.shape[-1]} here",
        )
        self.mixing = mixing
        self.norm_1 = nn.LayerNorm(width)
        self.norm_2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.out = nn.Linear(width, width)
        mask = mask.to(self.up.weight.device)
        self.register_buffer("mask", mask, persistent=False)
        if isinstance(mixing, Attend):
            heads = len(mixing.steps)
            require(
                width % heads == 0, f"heads must divide the width {width}, got {heads}"
            )
            self.qkv = nn.Linear(width, 3 * width)
        elif isinstance(mixing, Project):
            self.between = nn.Parameter(torch.randn(n, n) / n**0.5)
        else:
            start = torch.randn(width, 1, mixing.width)
            self.filter = nn.Parameter(start / mixing.width**0.5)

    def forward(self, x: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        x = x + self.out(self.mix(self.norm_1(x)))
        hidden = torch.relu(self.up(self.norm_2(x)))
        return x + self.down(hidden)

    def mix(self, x: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        """What each token gathers from those that it reads, before the last map."""
        if isinstance(self.mixing, Project):
            return (self.between * self.mask) @ x
        if isinstance(self.mixing, Convolve):
            features = F.pad(x.mT, _sides(self.mixing))
            return F.conv1d(features, self.filter, groups=x.shape[-1]).mT
        steps = self.mixing.steps
        qkv = self.qkv(x).unflatten(-1, (3, len(steps), -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if self.mixing.sparse:
            step = steps[0] if len(set(steps)) == 1 else steps
            out = sparse_attention(q, k, v, self.mixing.pattern, step=step, check=False)
        else:
            out = masked_attention(q, k, v, self.mask)
        return out.transpose(1, 2).flatten(-2)


def _sides(mixing: Convolve) -> tuple[int, int]:
    """How many tokens the filter covers before and after."""
    sizes(1, width=mixing.width)
    require(
        mixing.causal or mixing.width % 2,
        f"width must be odd unless causal, got {mixing.width}",
    )
    if mixing.causal:
        return mixing.width - 1, 0
    half = mixing.width // 2
    return half, half
