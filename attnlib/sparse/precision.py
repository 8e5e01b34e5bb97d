"""In which precision tiles are multiplied: halves where the device multiplies them and
sums in float32.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import torch
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
# the first capability with tensor cores for it
LEAST = {
    torch.float16: (7, 0),
    torch.bfloat16: (8, 0),
}


def compute_dtype(
    dtype: torch.dtype,
    device: torch.device,
    capability: tuple[int, int] | None = None,
) -> torch.dtype:
    """The dtype in which the tiles of these numbers are multiplied.

    Logits, lse, sums and merges are float32 at least.

    CPU: float32 for halves, as no product of torch there gives float32 for halves.
    CUDA: float16 from capability 7.0, bfloat16 from 8.0. A T4 (7.5) has tensor cores
    for float16 alone, so bfloat16 would only lose digits there.

    With u = 2^-8 for bfloat16 and 2^-11 for float16, and P the attention matrix, tiles
    of halves give, entry by entry,

        |out - exact| <= 2 u P|V|,
        |dV - exact|  <= 2 u P'|G|,
        |dQ - exact|  <= 3 u scale A|K|,   dK likewise,

    A = P * (|G||V|' + rowsum(|G| * P|V|)), up to the error of float32; float16 adds
    2^-25 a key, its smallest step.

    Args:
        dtype, device: of q, k and v.
        capability: of the device, None to ask it.

    Returns:
        dtype itself, or float32.

    Cost: O(1).
    Source: the bounds are ours.
    """
    if dtype not in HALVES:
        return dtype
    if capability is None and _multiplies_halves(device):
        capability = torch.cuda.get_device_capability(device)
    fits = (
        torch.device(device).type == "cuda"
        and capability is not None
        and capability >= LEAST[dtype]
    )
    return dtype if fits else torch.float32


def _multiplies_halves(device: torch.device) -> bool:
    """Whether torch has a product here that takes halves and gives float32."""
    if torch.device(device).type != "cuda" or torch.version.cuda is None:
        return False
    return "dtype" in torch.ops.aten.bmm.overloads()


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b; of halves summed and given in float32.

    Args:
        a, b: batches of matrices of one dtype.

    Returns:
        the product, in float32 at least.

    Cost: that of @; float32 copies where the device has no such product.
    Source: none.
    """
    if a.dtype not in HALVES:
        return a @ b
    if _multiplies_halves(a.device):
        left = a.reshape(-1, *a.shape[-2:])
        right = b.reshape(-1, *b.shape[-2:])
        made = torch.bmm(left, right, out_dtype=torch.float32)
        return made.view(*a.shape[:-1], b.shape[-1])
    return a.float() @ b.float()


def add_product_(out: Tensor, a: Tensor, b: Tensor, scale: float = 1.0) -> Tensor:
    """Add scale a @ b to out in place.

    Args:
        out: (batch, m, p), float32 at least.
        a, b: (batch, m, k) and (batch, k, p).
        scale: a number.

    Returns:
        out.

    Cost: as product.
    Source: none.
    """
    if a.dtype not in HALVES:
        return out.baddbmm_(a, b, alpha=scale)
    return out.add_(product(a, b), alpha=scale)
