"""The floor of sparse_attention: nothing but the calls of torch's attention on its
tiles.

Page:
    notebooks/sparse_universality/patterns_and_conditions
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
    """A function that attends on the tiles of sparse_attention, and nothing else.

        softmax(scale Q_t K_t' + mask_t) V_t  for each tile t

    The function calls torch's scaled_dot_product_attention. What sparse_attention takes
    beyond that goes into fetching tiles, putting rows back, and merging parts.

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
    """
    own = pattern.steps[step % pattern.p]
    plan = make_plan(own, pattern.n, q.dtype, q.device)
    require(
        plan.entries is None,
        "a pattern with lists has entries that lie in no tile: "
        "bare_calls knows tiles only",
    )

    def flat(t: Tensor) -> Tensor:
        return t.detach().reshape(-1, *t.shape[-2:])

    q, k, v = map(flat, (q, k, v))
    calls = []
    for family, run, start, stop in _tiles.pieces(q, v, plan):
        tiles = _tiles.tiles_of(q, k, v, family.layout, start, stop)
        for t in tiles:
            t.requires_grad_(backward)
        mask, _ = _tiles.mask_of(run, start, stop)
        if mask is not None:  # of three dimensions it would not be fused
            mask = mask.unsqueeze(0)
        calls.append((tiles, mask))

    def call(tiles: tuple[Tensor, ...], mask: Tensor | None) -> tuple[Tensor, ...]:
        with torch.set_grad_enabled(backward):
            y = F.scaled_dot_product_attention(*tiles, attn_mask=mask, scale=scale)
        if not backward:
            return (y,)
        gradients = torch.autograd.grad(y, tiles, torch.ones_like(y))
        return y.detach(), *gradients

    def run_all() -> list[tuple[Tensor, ...]]:
        return [call(tiles, mask) for tiles, mask in calls]

    return run_all
