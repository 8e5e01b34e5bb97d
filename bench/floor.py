"""The floor of sparse_attention: nothing but the calls of torch's attention on its
tiles.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib._require import require
from attnlib.patterns import Pattern
from attnlib.sparse._kernel import ROOM
from attnlib.sparse._tiles import tiles_of


def bare_calls(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    *,
    backward: bool = False,
) -> Callable[[], list[tuple[Tensor, ...]]]:
    """A function that attends on the tiles of sparse_attention, and nothing else: it
    gives (out,), or (out, dq, dk, dv), for each call.

    What sparse_attention takes beyond that goes into fetching tiles, putting rows back,
    and merging parts.
    """
    families, entries = tiles_of(
        pattern.steps[0], pattern.n, pattern.n, q.dtype, q.device
    )
    require(
        entries is None,
        "a pattern with lists has entries that lie in no tile: "
        "bare_calls knows tiles only",
    )

    def flat(t: Tensor) -> Tensor:
        return t.detach().reshape(-1, *t.shape[-2:])

    q, k, v = map(flat, (q, k, v))
    calls = []
    for family in families:
        sides = (family.queries, family.keys, family.keys)
        for here in family.pieces(ROOM):
            tiles = [side.of(t, here) for t, side in zip((q, k, v), sides)]
            for t in tiles:
                t.requires_grad_(backward)
            mask = family.hidden(here)
            if mask is not None:  # of three dimensions it would not be fused
                mask = mask.unsqueeze(0)
            calls.append((tiles, mask))

    def call(tiles: tuple[Tensor, ...], mask: Tensor | None) -> tuple[Tensor, ...]:
        with torch.set_grad_enabled(backward):
            y = F.scaled_dot_product_attention(*tiles, attn_mask=mask)
        if not backward:
            return (y,)
        gradients = torch.autograd.grad(y, tiles, torch.ones_like(y))
        return y.detach(), *gradients

    def run_all() -> list[tuple[Tensor, ...]]:
        return [call(tiles, mask) for tiles, mask in calls]

    return run_all
