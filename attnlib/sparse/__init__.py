"""Sparse attention by dense tiles: any pattern, its parts merged by log-sum-exp.

Beside it stand older kernels that take padding.

Page:
    notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib._require import require
from attnlib.patterns import Pattern
from attnlib.sparse._backward import SparseAttention
from attnlib.sparse._bare import bare_calls  # noqa: F401 (public here)
from attnlib.sparse._plan import make_plan
from attnlib.sparse._precision import compute_dtype
from attnlib.sparse.padded import (  # noqa: F401 (public here)
    _at_least_one,
    _check,
    _scale,
    fixed_attention,
    fixed_mask,
    masked_attention,
    strided_attention,
    strided_mask,
    window_attention,
    window_mask,
)


def sparse_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    pattern: Pattern,
    *,
    step: int | Sequence[int] = 0,
    scale: float | None = None,
    return_lse: bool = False,
    check: bool = True,
) -> (
    Float[Tensor, "*batch n d_v"]
    | tuple[Float[Tensor, "*batch n d_v"], Float[Tensor, "*batch n"]]
):
    """Attention in which each token reads what a pattern lets it, by dense tiles.

        out_i = sum_{j in A_i} exp(scale q_i k_j - lse_i) v_j,
        lse_i = log sum_{j in A_i} exp(scale q_i k_j)

    There is never an n x n matrix. Each part of the step becomes dense tiles: windows
    as overlapping tiles, residue classes, blocks, global rows and columns. Lists are
    taken entry by entry, as compressed sparse rows. A key that two parts hold is
    counted once.

    Args:
        q, k: (*batch, n, d).
        v: (*batch, n, d_v).
        pattern: attnlib.patterns.Pattern of n tokens.
        step: an integer, modulo p; or a list with one for each head, the last batch
            dimension.
        scale: None for 1/sqrt(d).
        return_lse: also lse.
        check: look for NaN and infinity.

    Returns:
        out (*batch, n, d_v), and with return_lse also lse (*batch, n). Both have first
        derivatives, not second. Of float16 and bfloat16 lse, logits and merges are
        float32 and out is rounded once at the end, under autocast too. Products of
        tiles are float32 on the CPU; CUDA multiplies halves from capability 7.0
        (float16) and 8.0 (bfloat16) on, with an error of at most 2 u P|V|, u = 2^-11
        and 2^-8.

    Raises:
        ValueError: for shapes, dtypes or devices that do not fit, an empty batch, a
            pattern of another length, a row that reads nothing, NaN or infinity.
            RuntimeError for a second derivative.

    Cost:
        4 d times the connections, rounded up to tiles; O(connections) memory for masks
        that differ from tile to tile, O(n) otherwise. The first call with a step makes
        its tiles; later calls find them.

    Source:
        Milakov and Gimelshein 2018 (running softmax), Dao et al. 2022 (recomputed
        backward); tiles are ours.

    Claim:
        sparse.merge
    """
    if torch.is_tensor(q):
        shape = tuple(q.shape)
        require(
            0 not in shape,
            f"q must not be empty, got {shape}: "
            "a batch, a token and a feature are needed",
        )
    _check(q, k, v, None, check)
    require(
        isinstance(pattern, Pattern),
        f"pattern must be an attnlib.patterns.Pattern, got {type(pattern).__name__}",
    )
    require(
        pattern.n == q.shape[-2],
        f"the pattern has n = {pattern.n} tokens, q has {q.shape[-2]}",
    )
    if scale is not None:
        number = isinstance(scale, Real) and not isinstance(scale, bool)
        require(
            number and math.isfinite(scale),
            f"scale must be a finite number, or None for 1/sqrt(d), got {scale!r}",
        )
        scale = float(scale)
    scale = _scale(q, scale)
    one_for_all = _is_integer(step)
    one_for_each = isinstance(step, Sequence) and all(map(_is_integer, step))
    require(
        one_for_all or one_for_each,
        f"step must be an integer, or a sequence of one for each head, got {step!r}",
    )
    if one_for_all:
        out, lse = _one_step(q, k, v, pattern, int(step), scale)
    else:
        out, lse = _by_heads(q, k, v, pattern, [int(s) for s in step], scale)
    return (out, lse) if return_lse else out


def _is_integer(s) -> bool:
    return isinstance(s, Integral) and not isinstance(s, bool)


def _one_step(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    step: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """All heads by one step: out in the dtype of q, and lse."""
    batch = q.shape[:-2]
    dtype = compute_dtype(q.dtype, q.device)
    # half precision would round the logits
    wide = torch.promote_types(dtype, torch.float32)
    own = pattern.steps[step % pattern.p]
    plan = make_plan(own, pattern.n, wide, q.device)

    def flat(t: Tensor) -> Tensor:
        heads = t.to(dtype).reshape(math.prod(batch), *t.shape[-2:])
        return heads.contiguous()

    # under autocast, too, the products are those of compute_dtype
    with torch.autocast(q.device.type, enabled=False):
        out, lse = SparseAttention.apply(flat(q), flat(k), flat(v), plan, scale)
    out = out.to(q.dtype)
    return out.reshape(*batch, *out.shape[-2:]), lse.reshape(*batch, -1)


def _by_heads(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    steps: list[int],
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Each head by its step; heads that use the same step together."""
    heads = q.shape[-3] if q.dim() > 2 else 0
    require(
        len(steps) == heads and heads > 0,
        f"step must be an integer or one for each of {heads} heads, got {len(steps)}",
    )
    groups: dict[int, list[int]] = {}
    for head, step in enumerate(steps):
        groups.setdefault(step % pattern.p, []).append(head)
    outs = []
    lses = []
    for step, group in groups.items():
        own = [t[..., group, :, :] for t in (q, k, v)]
        out, lse = _one_step(*own, pattern, step, scale)
        outs.append(out)
        lses.append(lse)
    order = [head for group in groups.values() for head in group]
    place = torch.tensor(order).argsort().to(q.device)
    out = torch.cat(outs, -3).index_select(-3, place)
    lse = torch.cat(lses, -2).index_select(-2, place)
    return out, lse
