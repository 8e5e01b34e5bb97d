"""The memorizing block with every weight written out, the literal twin of the sorted
search.

Page: notebooks/one_layer_memorization/memorization
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnlib._require import is_a, require
from attnlib.attention import Layer, forward
from attnlib.memorize.line import fit_line
from attnlib.memorize.memorizer import Memorizer

MOST = 1 << 14  # units; beyond, sums that cancel say nothing anyway


class Dense(NamedTuple):
    """One attention layer of rank one and a feed-forward part, as dense weights.

    Args:
        layer: with one head.
        w_1, b_1: (d, D) and (D,), what the units read.
        w_2, b_2: (D, d) and (d,), what they write.
        undo: (d, d), takes the skip away.
        parameters: how many numbers it holds.
    """

    layer: Layer
    w_1: Tensor
    b_1: Tensor
    w_2: Tensor
    b_2: Tensor
    undo: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """h = x + attention(x), then h + relu(h w_1 + b_1) w_2 + b_2 + h undo."""
        h = forward(x, [self.layer], skip=True)
        units = torch.relu(h @ self.w_1 + self.b_1)
        return h + units @ self.w_2 + self.b_2 + h @ self.undo

    @property
    def parameters(self) -> int:
        """Numbers in it; each of the four rank-one matrices is a column times a row, s
        + d numbers.
        """
        layer = self.layer
        matrices = (layer.w_q, layer.w_k, layer.w_v, layer.w_o)
        head = sum(sum(w.shape[-2:]) for w in matrices)
        rest = (self.w_1, self.b_1, self.w_2, self.b_2, self.undo)
        return head + sum(t.numel() for t in rest)


def dense_block(net: Memorizer) -> Dense:
    """The block of a Memorizer, every unit reading and writing all features; the last
    ones stay zero if labels are fewer.

        W_1 = v 1',   b_1 = -knots,   W_2 = the coefficients,   undo = -I

    Args:
        net: from memorize, with at most 16384 ids and at most d label features.

    Returns:
        Dense, in the dtype of net; its floats form z + w f and long sums, so it is
        exact for few ids only.

    Raises:
        ValueError: for more ids, more label features than d, or ids that agree once
            they are added up.

    Cost: O(D d) memory.
    Source: Kajitsuka and Sato 2024, Corollary 1 (recalled).
    Claim: memorize.block
    """
    is_a(Memorizer, net=net)
    d = len(net.v)
    labels = net.values
    count, c = labels.shape
    require(
        count <= MOST and c <= d,
        f"at most {MOST} ids and d = {d} label features fit, got {count} and {c}",
    )
    ids = net.token + net.report.w * net.context
    line = fit_line(ids, labels)
    columns = net.v[:, None].expand(d, count)
    eye = torch.eye(d, dtype=net.v.dtype, device=net.v.device)
    return Dense(
        net.layer,
        w_1=columns.clone(),
        b_1=-line.knots,
        w_2=pad(line.coefficients, (0, d - c)),
        b_2=torch.zeros_like(net.v),
        undo=-eye,
    )
