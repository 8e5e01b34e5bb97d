"""The same block, trained: attention layers and a ReLU network of chosen width, by
full-batch Adam.

Page: notebooks/one_layer_memorization/reviewers_questions
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from attnlib import _require
from attnlib._require import finite, require

KINDS = ("none", "frozen", "random", "trained")


class TrainedBlock(nn.Module):
    """Attention layers with skips and a ReLU network with one hidden layer, whose
    outputs are scores of the labels.

        h = x + sum_h softmax(x W_Q W_K' x') x W_V W_O      in each layer
        scores = W_2 relu(W_1 h + b_1) + b_2

    Args:
        d: features.
        width: hidden units.
        labels: how many labels.
        kind: "none" (no attention), "frozen" (directions given, not trained), "random"
            (drawn, not trained) or "trained" (drawn, trained).
        heads: number of heads in a layer.
        layers: number of attention layers.
        rank: head width.
        tied: one matrix serves as W_Q, W_K and W_V; not for "frozen".
        directions: (layers heads, d) for "frozen", layer by layer; all weights lie
            where they do.
        beta: factor of the logits for "frozen".
        generator: for every draw.
    """

    def __init__(
        self,
        d: int,
        width: int,
        labels: int,
        *,
        kind: str = "trained",
        heads: int = 1,
        layers: int = 1,
        rank: int = 1,
        tied: bool = False,
        directions: Tensor | None = None,
        beta: float = 0.3,
        generator: torch.Generator,
    ):
        super().__init__()
        sizes = {"heads": heads, "layers": layers, "rank": rank}
        _require.sizes(1, d=d, width=width, labels=labels, **sizes)
        _require.one_of(KINDS, kind=kind)
        _require.is_a(bool, tied=tied)
        _require.random(generator)

        frozen = kind == "frozen" and torch.is_tensor(directions)
        device = directions.device if frozen else generator.device

        def draw(*size, scale):
            drawn = torch.randn(*size, generator=generator, device=generator.device)
            return drawn.to(device) * scale

        narrow = 1 / math.sqrt(d)
        maps = [draw(heads, d, rank, scale=narrow) for _ in range(4 * layers)]
        if kind == "frozen":
            maps = _given_maps(directions, (layers * heads, d), heads, beta)
        trained = kind == "trained"
        self.kind = kind
        self.maps = nn.ParameterList()
        for weights in maps:
            self.maps.append(nn.Parameter(weights, requires_grad=trained))
        if tied:
            require(kind != "frozen", "tied is for drawn weights, not for 'frozen'")
            for first in range(0, len(maps), 4):
                self.maps[first + 1] = self.maps[first]
                self.maps[first + 2] = self.maps[first]
        self.w_1 = nn.Parameter(draw(d, width, scale=narrow))
        self.b_1 = nn.Parameter(draw(width, scale=narrow))
        w_2 = draw(width, labels, scale=1 / math.sqrt(width))
        self.w_2 = nn.Parameter(w_2)
        self.b_2 = nn.Parameter(torch.zeros(labels, device=device))

    def attend(self, x: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """The tokens x (*batch, n, d) behind the attention layers; token_mask
        (*batch, n) is True where a token is. ValueError where they do not fit.
        """
        _check_tokens(self, x, token_mask)
        if self.kind == "none":
            return x
        maps = list(self.maps)
        for first in range(0, len(maps), 4):
            q, k, v, o = maps[first : first + 4]
            y = x.unsqueeze(-3)
            logits = (y @ q) @ (y @ k).mT
            if token_mask is not None:
                hidden = ~token_mask[..., None, None, :]
                logits = logits.masked_fill(hidden, -math.inf)
            p = torch.softmax(logits, -1)
            heads = p @ (y @ v) @ o.mT
            x = x + heads.sum(-3)
        return x

    def forward(self, x: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """Scores (*batch, n, labels) of the tokens x (*batch, n, d); token_mask
        (*batch, n) is True where a token is. ValueError where they do not fit.
        """
        h = self.attend(x, token_mask)
        units = torch.relu(h @ self.w_1 + self.b_1)
        return units @ self.w_2 + self.b_2


def _check_tokens(block: TrainedBlock, x, token_mask) -> None:
    """Finite tokens of the block's width and dtype, and a mask that fits them."""
    _require.tokens(x)
    _require.matches("x", x, (*x.shape[:-1], len(block.w_1)), block.w_1, "the block")
    finite(x=x)
    if token_mask is not None:
        _require.token_mask(token_mask, x.shape[:-1], x.device)


def _given_maps(
    directions: Tensor | None, shape: tuple[int, int], heads: int, beta: float
) -> list[Tensor]:
    """The four maps of each layer from the directions of its heads."""
    given = torch.is_tensor(directions) and directions.shape == shape
    require(given, f"kind 'frozen' needs directions (layers heads, d) = {shape}")
    _require.is_floating("directions", directions)
    finite(directions=directions)
    _require.numbers(beta=beta)
    require(beta >= 0, f"beta must not be negative, got {beta}")
    squares = directions.float().square().sum(1)
    limits = torch.finfo(torch.float32)
    require(
        bool(((squares >= limits.tiny) & (squares <= limits.max)).all()),
        "directions must not be 0, and float32 must hold the squares of their lengths, "
        f"got {squares.tolist()}",
    )
    maps = []
    for rows in directions.float().split(int(heads)):
        v = rows[:, :, None]
        w_q = math.sqrt(beta) * v
        finite(**{"sqrt(beta) * directions": w_q})
        w_o = v / v.norm(dim=1, keepdim=True)
        maps += [w_q, w_q.clone(), v, w_o]
    return maps


def train_block(
    block: TrainedBlock,
    x: Tensor,
    labels: Tensor,
    *,
    steps: int,
    rate: float = 3e-3,
    token_mask: Tensor | None = None,
) -> float:
    """Trains the block on all data at once and returns its training accuracy.

    Args:
        block: changed in place.
        x: (N, n, d), in the dtype of the block; hidden tokens are finite too.
        labels: (N, n) integers from 0 on, int64.
        steps: of Adam, one cycle of the rate.
        rate: its largest.
        token_mask: (N, n), True = a token.

    Returns:
        the share of tokens whose highest score is their label, between 0 and 1.

    Raises:
        ValueError: for shapes or dtypes that do not fit, NaN or infinity, labels that
            the block has no score for, steps below 1, a rate that is not positive, and
            for training that diverges.

    Cost: steps forward and backward passes.
    Source: our protocol. How far a run gets is a fact about the run; that it stops
        short refutes nothing.
    """
    _require.is_a(TrainedBlock, block=block)
    scores = len(block.b_2)
    _require.sizes(1, steps=steps)
    _require.numbers(rate=rate)
    most = torch.finfo(torch.float32).max / 100  # Adam divides it by 1 - 0.95^step
    require(0 < rate <= most, f"rate must be positive, to {most:.2g}, got {rate}")
    _check_tokens(block, x, token_mask)
    _require.is_tensor("labels", labels)
    _require.same_device("labels", labels, x.device)
    fits = labels.shape == x.shape[:-1] and labels.dtype == torch.int64
    require(
        fits and int(labels.min()) >= 0 and int(labels.max()) < scores,
        f"labels must be int64 {tuple(x.shape[:-1])}, from 0 to {scores - 1}, "
        f"got {labels.dtype} {tuple(labels.shape)}",
    )
    kept = token_mask
    if token_mask is None:
        kept = torch.ones_like(labels, dtype=torch.bool)
    trained = [p for p in block.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=int(steps)
    )
    for _ in range(steps):
        out = block(x, token_mask)
        loss = nn.functional.cross_entropy(out[kept], labels[kept])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        scores = block(x, token_mask)[kept]
    require(
        torch.isfinite(scores).all(),
        f"training diverged: lower the rate, {rate}, or bring the tokens x nearer to 0",
    )
    return float((scores.argmax(-1) == labels[kept]).double().mean())
