"""Low-rank stand-ins for an attention matrix."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib._require import finite, require
from attnlib.projections import Family, projection


def jl_surrogate(
    p: Float[Tensor, "*batch m n"],
    k: int,
    v: Float[Tensor, "*batch n d"] | None = None,
    *,
    family: Family = "gaussian",
    generator: torch.Generator,
    check: bool = True,
) -> Float[Tensor, "*batch m c"]:
    """The surrogate P R'R of a matrix, or its product with values, which never forms R'R.

        P R' R   or   P (R' (R V)),   R = projection(k, n)

    Args:    p: (*batch, m, n), attention matrices; one R serves the batch.   k: rank, 1 <= k <= n.
             v: (*batch, n, d), or batches that broadcast, or None.   family: of R.   generator: draws R.   check: look for NaN and infinity.
    Returns: (*batch, m, n), or (*batch, m, d) with v; dtype and device of p.
    Raises:  ValueError for k out of range, shapes, dtypes or devices that do not fit, NaN or infinity.
    Cost:    O(m n k); with v O((m + k) n d). Both need P itself.
    Source:  Wang et al. 2020, proof of Theorem 1; Xie 2021, proof of Theorem 2.3.
    Claim:   jl.mean-square      Page: notebooks/jl_low_rank/random_projections
    """
    for name, t in (("p", p),) if v is None else (("p", p), ("v", v)):
        require(torch.is_tensor(t) and t.dim() >= 2, f"{name} must be a tensor with at least two dimensions")
        require(t.is_floating_point(), f"{name} must be floating point, got {t.dtype}: cast it first")
    if v is not None:
        require(v.dtype == p.dtype and v.device == p.device, "p and v must share dtype and device")
        require(v.shape[-2] == p.shape[-1], f"v needs {p.shape[-1]} rows to fit p {tuple(p.shape)}, got {tuple(v.shape)}")
        batches = tuple(p.shape[:-2]), tuple(v.shape[:-2])
        fit = all(a == b or 1 in (a, b) for a, b in zip(batches[0][::-1], batches[1][::-1]))
        require(fit, f"the batches of p and v must broadcast, got {batches[0]} and {batches[1]}")
    if check:
        finite(p=p, v=v)
    r = projection(k, p.shape[-1], family, generator=generator, dtype=p.dtype, device=p.device)
    return (p @ r.mT) @ r if v is None else p @ (r.mT @ (r @ v))
