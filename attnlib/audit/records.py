"""What one layer of a model did with one batch, and its sequences without padding: the
things that the audit measures.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

from collections.abc import Iterator
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
        name: path of the attention within the model.
        weights: P (b, h, n, n), rows sum to one; those of tokens that token_mask hides
            say nothing.
        layer: number of the layer, from 0.
        layers: how many layers there are, None if nobody knows.
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
        values: (b, kv_heads, n, d_v), what the heads average.
        kv_heads: heads of keys and values, at most h.
        head_width: width of a key and of a value together.
        dtype: in which the model computes; what the maps were cast from.
        missing: for each field that could not be had, one sentence that says why.
    """

    name: str
    weights: Float[Tensor, "b h n n"]
    layer: int = 0
    layers: int | None = None
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
    values: Float[Tensor, "b kv n d_v"] | None = None
    kv_heads: int | None = None
    head_width: int | None = None
    dtype: torch.dtype | None = None
    missing: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Head:
    """One head on one sequence.

    Args:
        p: (n, n), in float32 or float64.
        logits: (n, n) or None.
        allowed: boolean (n, n), or None if all pairs are.
        values: (n, d_v), or None.
    """

    p: Tensor
    logits: Tensor | None
    allowed: Tensor | None
    values: Tensor | None


@dataclass(frozen=True, eq=False)
class Passage:
    """One sequence of a batch in one layer, its padding taken out.

    Args:
        p: (h, n, n), in float32 or float64.
        logits: (h, n, n) or None.
        allowed: boolean (h, n, n), or None if all pairs are.
        before, after: (n, d) or None.
        ids: (n,) or None.
        values: (kv_heads, n, d_v) or None.
    """

    p: Tensor
    logits: Tensor | None
    allowed: Tensor | None
    before: Tensor | None
    after: Tensor | None
    ids: Tensor | None
    values: Tensor | None

    @property
    def n(self) -> int:
        """Tokens."""
        return self.p.shape[-1]

    @property
    def causal(self) -> bool:
        """Whether no token may read a later one, and there is a later one."""
        if self.allowed is None or self.n == 1:
            return False
        return not bool(self.allowed.triu(1).any())

    def heads(self) -> Iterator[Head]:
        """The heads one by one.

        Yields:
            a Head each.
        """
        for i, p in enumerate(self.p):
            logits = None if self.logits is None else self.logits[i]
            allowed = None if self.allowed is None else self.allowed[i]
            values = None
            if self.values is not None:
                values = self.values[i * len(self.values) // len(self.p)]
            yield Head(p, logits, allowed, values)


def passages(record: LayerRecord) -> Iterator[Passage]:
    """The sequences of a batch, without their padding.

    Args:
        record: of one layer.

    Yields:
        a Passage each.
    """
    mask = record.mask
    if mask is not None:
        mask = mask.expand(record.weights.shape)
    for i in range(len(record.weights)):
        kept = slice(None)
        if record.token_mask is not None and not bool(record.token_mask[i].all()):
            kept = record.token_mask[i].nonzero().flatten()
        allowed = _pairs(mask, i, kept)
        if allowed is not None and bool(allowed.all()):
            allowed = None
        yield Passage(
            p=_pairs(record.weights, i, kept),
            logits=_pairs(record.logits, i, kept),
            allowed=allowed,
            before=_tokens(record.before, i, kept),
            after=_tokens(record.after, i, kept),
            ids=_tokens(record.ids, i, kept),
            values=None if record.values is None else record.values[i][:, kept],
        )


def _pairs(maps: Tensor | None, i: int, kept: Tensor | slice) -> Tensor | None:
    """(h, n, n) of sequence i, without padding."""
    return None if maps is None else maps[i][:, kept][:, :, kept]


def _tokens(of_tokens: Tensor | None, i: int, kept: Tensor | slice) -> Tensor | None:
    """What belongs to the tokens of sequence i, without padding."""
    return None if of_tokens is None else of_tokens[i][kept]


def wide(t: Tensor | None) -> Tensor | None:
    """A tensor in float32 at least, without gradients.

    Args:
        t: a floating tensor of any shape, or None.

    Returns:
        the same numbers; None for None.
    """
    if t is None:
        return None
    half = t.dtype in (torch.float16, torch.bfloat16)
    return t.detach().float() if half else t.detach()


def both(mask: Tensor | None, token_mask: Tensor | None) -> Tensor | None:
    """The pairs that a mask of pairs and one of tokens allow.

    Args:
        mask: boolean, broadcastable to (b, h, n, n), or None.
        token_mask: boolean (b, n), or None.

    Returns:
        boolean, broadcastable to (b, h, n, n); None if there is no mask.
    """
    if token_mask is None:
        return mask
    keys = token_mask[:, None, None, :]
    return keys if mask is None else mask & keys
