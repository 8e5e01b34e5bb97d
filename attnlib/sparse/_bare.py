"""The floor of sparse_attention: nothing but the calls of torch's attention on its
tiles.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attnlib._require import require
from attnlib.patterns import Pattern
from attnlib.sparse import _tiles
from attnlib.sparse._plan import make_plan


def bare_calls(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    pattern: Pattern,
    *,
    step: int = 0,
    scale: float | None = None,
    backward: bool = False,
) -> Callable[[], list[tuple[Tensor, ...]]]:
    """A function that runs scaled_dot_product_attention on the tiles of
    sparse_attention, and nothing else.

        softmax(scale Q_t K_t' + mask_t) V_t  for each tile t

    What sparse_attention takes beyond that goes into fetching tiles, putting rows back,
    and merging parts.

    Args:
        q, k, v, pattern, step, scale: as in sparse_attention, float32 or float64.
        backward: gradients, too, of the sum of each output, by the backward of torch.

    Returns:
        a function without arguments; it gives for each call (out,), or (out, dq, dk,
        dv), as tiles (batch, tiles, tokens of a tile, d).

    Raises:
        ValueError: for a pattern with lists, which have no tiles; and as the plan of
            the pattern does.

    Cost:
        the tiles are fetched here, once; those that overlap are views.

    Source:
        none.

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """
    flat = [t.detach().reshape(-1, *t.shape[-2:]) for t in (q, k, v)]
    plan = make_plan(pattern.steps[step % pattern.p], pattern.n, q.dtype, q.device)
    require(
        plan.entries is None,
        "a pattern with lists has entries that lie in no tile: bare_calls knows tiles only",
    )
    calls = []
    for family, run, start, stop in _tiles.pieces(flat[0], flat[2], plan):
        tiles = [
            t.requires_grad_(backward)
            for t in _tiles.tiles_of(*flat, family.layout, start, stop)
        ]
        mask = _tiles.mask_of(run, start, stop)[0]
        calls.append(
            (tiles, None if mask is None else mask.unsqueeze(0))
        )  # of three dimensions it would not be fused

    def call(tiles: list[Tensor], mask: Tensor | None) -> tuple[Tensor, ...]:
        with torch.set_grad_enabled(backward):
            y = F.scaled_dot_product_attention(*tiles, attn_mask=mask, scale=scale)
        return (
            (y.detach(), *torch.autograd.grad(y, tiles, torch.ones_like(y)))
            if backward
            else (y,)
        )

    return lambda: [call(*each) for each in calls]
