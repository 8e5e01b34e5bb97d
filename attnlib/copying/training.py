"""Training of the networks: what they are to name, the loop, and how they did.

Page: notebooks/sparse_universality/copying_task
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Int, Integer
from torch import Tensor
from torch.nn import functional as F

from attnlib._require import (
    finite,
    is_a,
    is_tensor,
    matches,
    numbers,
    require,
    sizes,
)
from attnlib.copying.networks import MixingNetwork

IGNORED = -100  # a target that does not count
EVERY = 20  # steps whose mean loss is one entry of the curve


def copy_targets(x: Integer[Tensor, "batch n"]) -> Int[Tensor, "batch n"]:
    """The next token where a query of the copying task stands, IGNORED elsewhere, for
    sequences 0 s 0 s.

    Source: Yun et al. 2020b, experiments, recalled.
    """
    is_tensor("x", x)
    got = tuple(x.shape)
    whole = not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)
    require(whole, f"x must hold integers, got {x.dtype}")
    require(
        len(got) == 2 and got[1] % 2 == 0,
        f"x must be (batch, 2 (m + 1)), sequences 0 s 0 s, got {got}",
    )
    finite(x=x)
    require(bool((x >= 0).all()), "x must hold integers from 0 on, got negative ones")
    targets = torch.full_like(x, IGNORED, dtype=torch.int64)
    half = x.shape[1] // 2
    targets[:, half:-1] = x[:, half + 1 :]
    return targets


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
