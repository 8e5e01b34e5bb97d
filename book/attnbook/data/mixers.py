"""Small networks whose layers mix tokens by sparse attention, by a learned matrix or by
a convolution, and how they are trained.

    x = E(token) + B(position)
    x <- x + W mix(LN(x)),   x <- x + W_2 relu(W_1 LN(x))   in each layer
    logits = x R

    mix(x)_k:  softmax over what k reads   |   (W_P x)_k   |   sum_t filter_t x_{k - t}

Page: notebooks/sparse_universality/copying_task
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib._require import (
    finite,
    is_a,
    is_list,
    is_tensor,
    matches,
    numbers,
    one_of,
    require,
    sizes,
)
from attnlib.copying import IGNORED, receptive_fields
from attnlib.patterns import Pattern, one_step
from attnlib.sparse import masked_attention, sparse_attention

Scheme = Literal["union", "multihead", "sequential"]
EVERY = 20  # steps whose mean loss is one entry of the curve


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


def train_network(
    network: MixingNetwork,
    draw: Callable,
    *,
    steps: int,
    rate: float = 5e-3,
) -> list[float]:
    """Trains a network in place by AdamW: 50 steps of warm-up, the last two fifths
    falling to zero. Returns the curve: mean cross-entropy in nats of each 20 steps.

    Args:
        network: a MixingNetwork.
        draw: a function of no argument that returns tokens and targets, (batch, n)
            each; targets that are IGNORED do not count.
        steps: of the optimiser, a multiple of 20.
        rate: the highest learning rate.

    Source: Loshchilov and Hutter 2019 for AdamW, as in torch; the schedule is ours.
    """
    is_a(MixingNetwork, network=network)
    is_a(Callable, draw=draw)
    sizes(1, steps=steps)
    numbers(rate=rate)
    require(rate > 0, f"rate must be positive, got {rate}")
    require(steps % EVERY == 0, f"steps must be a multiple of {EVERY}, got {steps}")
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, betas=(0.9, 0.98))
    curve = []
    total = 0.0
    for step in range(steps):
        rising = (step + 1) / 50
        falling = 2.5 * (1 - step / steps)
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, rising, falling)
        tokens, targets = draw()
        logits = network(tokens).flatten(0, 1)
        loss = F.cross_entropy(logits, targets.flatten(), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += float(loss.detach())
        if (step + 1) % EVERY == 0:
            curve.append(round(total / EVERY, 4))
            total = 0.0
    return curve


@torch.no_grad()
def evaluate(
    network: MixingNetwork,
    tokens: Int[Tensor, "batch n"],
    targets: Int[Tensor, "batch n"],
    *,
    size: int = 256,
) -> tuple[float, float]:
    """The share of right answers and the mean cross-entropy in nats, over the targets
    that are not IGNORED; `size` rows at a time.
    """
    is_a(MixingNetwork, network=network)
    sizes(1, size=size)
    is_tensor("tokens", tokens)
    got = tokens.dtype
    require(got == torch.int64, f"tokens must be int64, got {got}")
    matches("targets", targets, tuple(tokens.shape), tokens, "tokens")
    finite(tokens=tokens)
    counted = targets[targets != IGNORED]
    count = counted.numel()
    require(count > 0, "no target counts: all targets are IGNORED")
    vocabulary = network.embed.num_embeddings
    for name, values in (("tokens", tokens), ("targets", counted)):
        require(
            int(values.min()) >= 0 and int(values.max()) < vocabulary,
            f"{name} must be numbers below {vocabulary}, the vocabulary of the network",
        )
    right = 0
    loss = 0.0
    for x, y in zip(tokens.split(int(size)), targets.split(int(size)), strict=True):
        counts = y != IGNORED
        logits = network(x)[counts]
        y = y[counts]
        right += int((logits.argmax(-1) == y).sum())
        loss += float(F.cross_entropy(logits, y, reduction="sum"))
    return right / count, loss / count
