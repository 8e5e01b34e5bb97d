"""Maps from rows of logits to rows of weights; public under attnlib.attention.

Page: notebooks/path_decomposition/paths
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib._require import finite, is_floating, require


def hardmax(a: Float[Tensor, "*rest m"]) -> Float[Tensor, "*rest m"]:
    """Uniform weights on the largest entries of each row.

        hardmax(a)_j = [a_j = max a] / #{i : a_i = max a}

    Args:
        a: logits; -inf marks what may not be attended to.

    Source: the limit of softmax(t a) as t grows; ties are averaged.
    """
    is_floating("a", a)
    require(
        a.dim() >= 1 and a.shape[-1] >= 1,
        f"a must be (..., m) with m >= 1, got {tuple(a.shape)}",
    )
    finite(a=a.amax(-1))
    return _hardmax(a)


def _hardmax(a: Tensor) -> Tensor:
    largest = a.amax(-1, keepdim=True)
    top = (a == largest).to(a.dtype)
    return top / top.sum(-1, keepdim=True)


def _sparsemax(a: Tensor) -> Tensor:
    """The point of the probability simplex nearest to each row.

        sparsemax(a) = max(a - tau, 0),  tau such that the entries sum to one

    Source: Martins and Astudillo 2016.
    """
    # The projection does not see a shift; the sums below do.
    a = a - a.amax(-1, keepdim=True)
    z = a.sort(-1, descending=True).values
    m = a.shape[-1]
    k = torch.arange(1, m + 1, dtype=a.dtype, device=a.device)
    sums = z.masked_fill(z.isneginf(), 0).cumsum(-1)
    kept = (1 + k * z > sums).sum(-1, keepdim=True)
    kept = kept.clamp_min(1)  # a row of NaN stays one
    sum_kept = sums.gather(-1, kept - 1)
    tau = (sum_kept - 1) / kept.to(a.dtype)
    return (a - tau).clamp_min(0)


def _softmax(a: Tensor) -> Tensor:
    return torch.softmax(a, -1)


NORMALIZERS = {
    "softmax": _softmax,
    "hardmax": _hardmax,
    "sparsemax": _sparsemax,
}
Normalizer = Literal["softmax", "hardmax", "sparsemax"]
