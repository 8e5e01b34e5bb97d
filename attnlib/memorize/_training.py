"""The same block, trained: one attention layer and a ReLU network of chosen width, by
full-batch Adam.

Page:
    notebooks/one_layer_memorization/reviewers_questions
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from attnlib._require import require

KINDS = ("none", "frozen", "random", "trained")


class Block(nn.Module):
    """One attention layer with skip and a ReLU network with one hidden layer, whose
    outputs are scores of the labels.

        h = x + sum_h softmax(x W_Q W_K' x') x W_V W_O
        scores = W_2 relu(W_1 h + b_1) + b_2

    Args:
        d: features.
        width: hidden units.
        labels: how many labels.
        kind: "none" (no attention), "frozen" (directions given, not trained), "random"
            (drawn, not trained) or "trained" (drawn, trained).
        heads: number of heads.
        rank: head width.
        directions: (heads, d) for "frozen".
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
        rank: int = 1,
        directions: Tensor | None = None,
        generator: torch.Generator,
    ):
        super().__init__()
        require(kind in KINDS, f"kind must be one of {list(KINDS)}, got {kind!r}")
        require(
            kind != "frozen" or directions is not None,
            "kind 'frozen' needs directions (heads, d)",
        )

        def draw(*size, scale):
            return torch.randn(*size, generator=generator) * scale

        narrow = 1 / math.sqrt(d)
        maps = [draw(heads, d, rank, scale=narrow) for _ in range(4)]
        if kind == "frozen":
            v = directions.float()[:, :, None]
            w_q = math.sqrt(0.3) * v
            w_o = v / v.norm(dim=1, keepdim=True)
            maps = [w_q, w_q.clone(), v, w_o]
        trained = kind == "trained"
        self.kind = kind
        self.maps = nn.ParameterList()
        for weights in maps:
            self.maps.append(nn.Parameter(weights, requires_grad=trained))
        self.w_1 = nn.Parameter(draw(d, width, scale=narrow))
        self.b_1 = nn.Parameter(draw(width, scale=narrow))
        w_2 = draw(width, labels, scale=1 / math.sqrt(width))
        self.w_2 = nn.Parameter(w_2)
        self.b_2 = nn.Parameter(torch.zeros(labels))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Scores (*batch, n, labels) of the tokens x (*batch, n, d); mask (*batch, n)
        is True where a token is.
        """
        if self.kind != "none":
            q, k, v, o = self.maps
            y = x.unsqueeze(-3)
            logits = (y @ q) @ (y @ k).mT
            if mask is not None:
                hidden = ~mask[..., None, None, :]
                logits = logits.masked_fill(hidden, -math.inf)
            p = torch.softmax(logits, -1)
            heads = p @ (y @ v) @ o.mT
            x = x + heads.sum(-3)
        units = torch.relu(x @ self.w_1 + self.b_1)
        return units @ self.w_2 + self.b_2


def train(
    block: Block,
    x: Tensor,
    labels: Tensor,
    *,
    steps: int,
    rate: float = 3e-3,
    mask: Tensor | None = None,
) -> float:
    """Trains the block on all data at once and returns its training accuracy.

    Args:
        block: changed in place.
        x: (N, n, d).
        labels: (N, n) integers.
        steps: of Adam, one cycle of the rate.
        rate: its largest.
        mask: (N, n), True where a token is.

    Returns:
        the share of tokens whose highest score is their label, between 0 and 1.

    Raises:
        ValueError: if steps is below 1.

    Cost:
        steps forward and backward passes.

    Source:
        our protocol. How far a run gets is a fact about the run; that it stops short
        refutes nothing.
    """
    require(steps >= 1, f"steps must be at least 1, got {steps}")
    kept = torch.ones_like(labels, dtype=torch.bool) if mask is None else mask
    trained = [p for p in block.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    for _ in range(steps):
        scores = block(x, mask)
        loss = nn.functional.cross_entropy(scores[kept], labels[kept])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        right = block(x, mask).argmax(-1) == labels
        return float(right[kept].double().mean())
