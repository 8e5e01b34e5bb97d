"""The same block as it is trained: attention layers and a ReLU network of chosen width.

    h = x + sum_h softmax(x W_Q W_K' x') x W_V W_O      in each layer
    scores = W_2 relu(W_1 h + b_1) + b_2

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
            require(not tied, "tied is for drawn weights, not for 'frozen'")
            maps = _given_maps(directions, (layers * heads, d), heads, beta)
        self.kind = kind
        self.maps = nn.ParameterList()
        for weights in maps:
            weights = nn.Parameter(weights, requires_grad=kind == "trained")
            self.maps.append(weights)
        if tied:
            for first in range(0, len(maps), 4):
                self.maps[first + 1] = self.maps[first]
                self.maps[first + 2] = self.maps[first]
        self.w_1 = nn.Parameter(draw(d, width, scale=narrow))
        self.b_1 = nn.Parameter(draw(width, scale=narrow))
        self.w_2 = nn.Parameter(draw(width, labels, scale=1 / math.sqrt(width)))
        self.b_2 = nn.Parameter(torch.zeros(labels, device=device))

    def attend(self, x: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """The tokens x (*batch, n, d) behind the attention layers; token_mask
        (*batch, n) is True where a token is.
        """
        _require.tokens(x)
        size = (*x.shape[:-1], len(self.w_1))
        _require.matches("x", x, size, self.w_1, "the block")
        finite(x=x)
        if token_mask is not None:
            _require.token_mask(token_mask, x.shape[:-1], x.device)
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
            heads = torch.softmax(logits, -1) @ (y @ v) @ o.mT
            x = x + heads.sum(-3)
        return x

    def forward(self, x: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """Scores (*batch, n, labels) of the tokens x (*batch, n, d); token_mask
        (*batch, n) is True where a token is.
        """
        h = self.attend(x, token_mask)
        return torch.relu(h @ self.w_1 + self.b_1) @ self.w_2 + self.b_2


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
