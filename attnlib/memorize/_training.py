"""The same block, trained: one attention layer and a ReLU network of chosen width, by
full-batch Adam.
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

        h = x + sum_h softmax(x W_Q W_K' x') x W_V W_O,   scores = W_2 relu(W_1 h + b_1) + b_2

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

    Page:
        notebooks/one_layer_memorization/reviewers_questions
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

        maps = [draw(heads, d, rank, scale=1 / math.sqrt(d)) for _ in range(4)]
        if kind == "frozen":
            v = directions.float()[:, :, None]
            maps = [
                math.sqrt(0.3) * v,
                math.sqrt(0.3) * v,
                v,
                v / v.norm(dim=1, keepdim=True),
            ]
        self.kind = kind
        self.maps = nn.ParameterList(
            [nn.Parameter(m, requires_grad=kind == "trained") for m in maps]
        )
        self.w_1 = nn.Parameter(draw(d, width, scale=1 / math.sqrt(d)))
        self.b_1 = nn.Parameter(draw(width, scale=1 / math.sqrt(d)))
        self.w_2 = nn.Parameter(draw(width, labels, scale=1 / math.sqrt(width)))
        self.b_2 = nn.Parameter(torch.zeros(labels))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Scores (*batch, n, labels) of the tokens x (*batch, n, d); mask (*batch, n)
        is True where a token is.
        """
        if self.kind != "none":
            q, k, v, o = self.maps
            y = x.unsqueeze(-3)
            logits = (y @ q) @ (y @ k).mT
            hidden = None if mask is None else ~mask[..., None, None, :]
            p = torch.softmax(
                logits if mask is None else logits.masked_fill(hidden, -math.inf), -1
            )
            x = x + (p @ (y @ v) @ o.mT).sum(-3)
        return torch.relu(x @ self.w_1 + self.b_1) @ self.w_2 + self.b_2


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

    Page:
        notebooks/one_layer_memorization/reviewers_questions
    """
    require(steps >= 1, f"steps must be at least 1, got {steps}")
    kept = torch.ones_like(labels, dtype=torch.bool) if mask is None else mask
    optimizer = torch.optim.Adam(
        [p for p in block.parameters() if p.requires_grad], lr=rate
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    for _ in range(steps):
        loss = nn.functional.cross_entropy(block(x, mask)[kept], labels[kept])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return float((block(x, mask).argmax(-1) == labels)[kept].double().mean())
