"""The block of memorize as it is trained: attention layers and a ReLU network of chosen
width.

    h = x + sum_h softmax(x W_Q W_K' x') x W_V W_O      in each layer
    scores = W_2 relu(W_1 h + b_1) + b_2
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


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
        directions: (layers heads, d) for "frozen", layer by layer.
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

        def draw(*size, scale):
            return torch.randn(*size, generator=generator) * scale

        narrow = 1 / math.sqrt(d)
        maps = [draw(heads, d, rank, scale=narrow) for _ in range(4 * layers)]
        if kind == "frozen":
            maps = []
            for rows in directions.float().split(heads):
                v = rows[:, :, None]
                w_q = math.sqrt(beta) * v
                maps += [w_q, w_q.clone(), v, v / v.norm(dim=1, keepdim=True)]
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
        self.b_2 = nn.Parameter(torch.zeros(labels))

    def attend(self, x: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """The tokens x (*batch, n, d) behind the attention layers; token_mask
        (*batch, n) is True where a token is.
        """
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
        """Scores (*batch, n, labels) of the tokens x (*batch, n, d)."""
        h = self.attend(x, token_mask)
        return torch.relu(h @ self.w_1 + self.b_1) @ self.w_2 + self.b_2
