"""Dense attention with all its logits: the literal twin of every kernel.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlib import _require


def masked_attention(
    q: Float[Tensor, "*batch m d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | Float[Tensor, ""] | None = None,
    check: bool = True,
) -> Float[Tensor, "*batch m d_v"]:
    """Dense attention with all its logits, as the definition says.

        softmax_row(scale Q K', -inf where the mask is False) V

    Args:
        q: (*batch, m, d).
        k: (*batch, n, d).
        v: (*batch, n, d_v).
        mask: True = may attend, broadcast to (*batch, m, n), None for all.
        scale: None for 1/sqrt(d).
        check: look for NaN, infinity and rows that attend to nothing.

    Returns:
        (*batch, m, d_v).

    Raises:
        ValueError: for shapes that do not fit, NaN or infinity, and a row that may
            attend to nothing.

    Cost: O(m n (d + d_v)) time, O(m n) memory.
    Source: the definition.
    """
    _require.tokens(q, "q")
    for name, t in (("k", k), ("v", v)):
        _require.tokens(t, name)
    *batch, m, d = q.shape
    n = k.shape[-2]
    _require.matches("k", k, (*batch, n, d), q, "q")
    _require.matches("v", v, (*batch, n, v.shape[-1]), q, "q")
    _require.scale(scale, check=check)
    if mask is not None:
        _require.pair_mask(mask, (*batch, m, n), q.device, check=check)
    if check:
        _require.finite(q=q, k=k, v=v)
    factor = 1 / math.sqrt(d) if scale is None else scale
    logits = (q * factor) @ k.mT
    if mask is not None:
        logits = logits.masked_fill(~mask, -math.inf)
    return torch.softmax(logits, -1) @ v
