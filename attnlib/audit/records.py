"""What one layer of a model did with one batch: the thing that the audit measures.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class LayerRecord:
    """One layer and one batch, while they are in memory.

    Tensors are float32, or float64 if the model is. What the source could not give is
    None, and `missing` says why.

    Args:
        layer: number of the layer, from 0.
        layers: how many layers there are, None if nobody knows.
        name: path of the attention within the model.
        weights: P (b, h, n, n), rows sum to one; those of tokens that token_mask hides
            say nothing.
        logits: (b, h, n, n), as softmax saw them: scaled, the mask not yet applied.
        mask: boolean, True = may attend, broadcastable to (b, h, n, n); None if all
            pairs may.
        token_mask: boolean (b, n), True = a token; None if all are.
        before, after: (b, n, d), the states that enter and leave the layer.
        w_v: (h, d, d_v), value weights by query head: heads that share values repeat
            them.
        w_o: (h, d_v, d).
        biases: whether values or outputs have a bias; None with w_v.
        skip: whether the input is added to the output of the attention.
        norm: "pre", "post", or None for no norm (or an unknown one: see missing).
        feed_forward: whether a feed-forward part follows the attention.
        ids: (b, n), the tokens as numbers.
        kv_heads: heads of keys and values, at most h.
        head_width: width of a key or a value.
        dtype: in which the model computes; what the maps were cast from.
        missing: for each field that could not be had, one sentence that says why.
    """

    layer: int
    layers: int | None
    name: str
    weights: Float[Tensor, "b h n n"]
    logits: Float[Tensor, "b h n n"] | None = None
    mask: Bool[Tensor, "..."] | None = None
    token_mask: Bool[Tensor, "b n"] | None = None
    before: Float[Tensor, "b n d"] | None = None
    after: Float[Tensor, "b n d"] | None = None
    w_v: Float[Tensor, "h d d_v"] | None = None
    w_o: Float[Tensor, "h d_v d"] | None = None
    biases: bool | None = None
    skip: bool | None = None
    norm: str | None = None
    feed_forward: bool | None = None
    ids: Int[Tensor, "b n"] | None = None
    kv_heads: int | None = None
    head_width: int | None = None
    dtype: torch.dtype | None = None
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def values(self) -> Float[Tensor, "h d d"] | None:
        """The merged map W_V,h W_O,h of each head, or None. It is built anew at each
        look: norms are had cheaper from w_v and w_o.
        """
        return None if self.w_v is None else self.w_v @ self.w_o
