"""The same block, trained: one attention layer and a ReLU network of chosen width, by
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
        _require.sizes(1, d=d, width=width, labels=labels, heads=heads, rank=rank)
        _require.one_of(KINDS, kind=kind)
        _require.random(generator)

        def draw(*size, scale):
            return torch.randn(*size, generator=generator) * scale

        narrow = 1 / math.sqrt(d)
        maps = [draw(heads, d, rank, scale=narrow) for _ in range(4)]
        if kind == "frozen":
            given = torch.is_tensor(directions) and directions.shape == (heads, d)
            require(given, f"kind 'frozen' needs directions (heads, d) = {(heads, d)}")
            _require.is_floating("directions", directions)
            finite(directions=directions)
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

    def forward(self, x: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """Scores (*batch, n, labels) of the tokens x (*batch, n, d); token_mask
        (*batch, n) is True where a token is.
        """
        if self.kind != "none":
            q, k, v, o = self.maps
            y = x.unsqueeze(-3)
            logits = (y @ q) @ (y @ k).mT
            if token_mask is not None:
                hidden = ~token_mask[..., None, None, :]
                logits = logits.masked_fill(hidden, -math.inf)
            p = torch.softmax(logits, -1)
            heads = p @ (y @ v) @ o.mT
            x = x + heads.sum(-3)
        units = torch.relu(x @ self.w_1 + self.b_1)
        return units @ self.w_2 + self.b_2


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
    d, scores = len(block.w_1), len(block.b_2)
    _require.sizes(1, steps=steps)
    _require.numbers(rate=rate)
    require(rate > 0, f"rate must be positive, got {rate}")
    _require.tokens(x)
    _require.matches("x", x, (*x.shape[:-1], d), block.w_1, "the block")
    finite(x=x)
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
    _require.token_mask(kept, labels.shape, x.device)
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
    require(torch.isfinite(loss), f"training diverged: lower the rate, {rate}")
    with torch.no_grad():
        right = block(x, token_mask).argmax(-1) == labels
        return float(right[kept].double().mean())
