"""Sparse attention: softmax over the tokens that a pattern lets each token read.

    out_i = sum_{j in A_i} exp(scale q_i k_j - lse_i) v_j
    lse_i = log sum_{j in A_i} exp(scale q_i k_j)

`masked_attention` is the literal form, with all logits. `sparse_attention` cuts the
pattern into dense tiles, attends in each, and merges what it finds for a row:

    lse = log(exp(lse_1) + exp(lse_2)),   out = sum_r exp(lse_r - lse) out_r

Going back it keeps q, k, v, out and lse alone, and makes the logits anew, tile by tile.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlib import _require
from attnlib._require import require
from attnlib.patterns import Pattern
from attnlib.patterns.parts import _is_pattern
from attnlib.sparse import _torch

__all__ = ["masked_attention", "sparse_attention"]


def masked_attention(
    q: Float[Tensor, "*batch m d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | Float[Tensor, ""] | None = None,
) -> Float[Tensor, "*batch m d_v"]:
    """Dense attention with all its logits, as the definition says.

        softmax_row(scale Q K', -inf where the mask is False) V

    Args:
        mask: True = may attend, broadcast to (*batch, m, n), None for all.
        scale: None for 1/sqrt(d).
    """
    _require.heads(q, k, v)
    _require.scale(scale)
    logits = (q * _factor(scale, q)) @ k.mT
    if mask is not None:
        _require.pair_mask(mask, logits.shape, q.device)
        logits = logits.masked_fill(~mask, -math.inf)
    return torch.softmax(logits, -1) @ v


def sparse_attention(
    q: Float[Tensor, "*batch n_q d"],
    k: Float[Tensor, "*batch_k n d"],
    v: Float[Tensor, "*batch_k n d_v"],
    pattern: Pattern,
    *,
    step: int | Sequence[int] | None = None,
    scale: float | Float[Tensor, ""] | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    check: bool = True,
) -> (
    Float[Tensor, "*batch n_q d_v"]
    | tuple[Float[Tensor, "*batch n_q d_v"], Float[Tensor, "*batch n_q"]]
):
    """Attention in which each token reads what a pattern lets it; never n x n numbers.

    It has first and second derivatives, and works under torch.compile with
    fullgraph=True (from torch 2.13 on) and under vmap and grad of torch.func; not under
    both at once.

    Args:
        q: its n_q <= n tokens are the last ones: one to decode with cached keys.
        step: an integer, modulo p; or a list with one for each head of q, the last
            batch dimension. None only where p = 1.
        scale: None for 1/sqrt(d); a tensor has gradients, too.
        enable_gqa: k and v have fewer heads than q, by a factor: each serves as many
            heads of q that follow each other.
        return_lse: also lse.
        check: look for NaN and infinity.

    Returns:
        out, and with return_lse also lse. Of float16 and bfloat16 all is computed in
        float32, lse is float32, and out is rounded once at the end, also under
        autocast.

    Cost: 4 d times the connections, rounded up to tiles; memory O(n + connections). The
        first call with a step and a number of tokens makes its tiles, on the device of
        q, and later calls find them; the last 128 are kept. Second derivatives keep the
        logits.
    Source: Milakov and Gimelshein 2018 (running softmax), Dao et al. 2022 (recomputed
        backward); tiles are ours.
    Claim: sparse.merge
    """
    _is_pattern("pattern", pattern)
    _require.is_a(bool, enable_gqa=enable_gqa, return_lse=return_lse, check=check)
    for name, t in (("q", q), ("k", k), ("v", v)):
        _require.is_tensor(name, t)
    if enable_gqa:
        k = _for_each_head("k", k, q)
        v = _for_each_head("v", v, q)
    if not torch.compiler.is_compiling():  # there the operator asks
        _torch.fit(q, k, v, pattern.n)
    _require.scale(scale, check=False)
    learned = torch.is_tensor(scale)
    if learned:
        _require.same_device("scale", scale, q.device, "q")
    called = "q * scale" if learned else "q"
    checked = called if check else ""
    dtype = q.dtype
    wide = torch.promote_types(dtype, torch.float32)
    q = q.to(wide) * _factor(scale, q)
    k = k.to(wide)
    v = v.to(wide)
    heads = q.shape[-3] if q.dim() > 2 else 0
    steps = _steps(step, pattern, heads)
    if isinstance(steps, int):
        out, lse = _torch.one_step(q, k, v, pattern, steps, checked)
    else:
        out, lse = _by_heads(q, k, v, pattern, steps, checked)
    out = out.to(dtype)
    return (out, lse) if return_lse else out


def _factor(scale, q: Tensor):
    return 1 / math.sqrt(q.shape[-1]) if scale is None else scale


def _for_each_head(name: str, t: Tensor, q: Tensor) -> Tensor:
    """Keys or values with as many heads as q."""
    for label, x in (("q", q), (name, t)):
        if x.dim() < 3:
            got = tuple(x.shape)
            raise ValueError(
                f"enable_gqa: {label} must be (*batch, h, n, d), got {got}"
            )
    heads, shared = q.shape[-3], max(1, t.shape[-3])
    if heads % shared:
        raise ValueError(
            f"enable_gqa: the {heads} heads of q must be a multiple of the {shared} "
            f"heads of {name}"
        )
    return t.repeat_interleave(heads // shared, -3)


def _is_integer(s) -> bool:
    return isinstance(s, Integral) and not isinstance(s, bool)


def _steps(step, pattern: Pattern, heads: int) -> int | list[int]:
    """The step of all heads, or one for each, each in 0..p - 1."""
    p = len(pattern.steps)
    if step is None:
        require(
            p == 1,
            f"step must be given, as the pattern has p = {p} steps: an integer, or one "
            "for each head; patterns.one_step makes one step of all",
        )
        return 0
    if _is_integer(step):
        return int(step) % p
    require(
        isinstance(step, Sequence) and all(_is_integer(s) for s in step),
        f"step must be an integer, or a sequence of one for each head, got {step!r}",
    )
    if len(step) != heads or heads == 0:
        raise ValueError(
            f"step must be an integer or one for each of {heads} heads, got {len(step)}"
        )
    return [int(s) % p for s in step]


def _by_heads(q, k, v, pattern: Pattern, steps: list[int], checked: str):
    """Each head by its step; heads that use the same step together."""
    order = sorted(range(len(steps)), key=steps.__getitem__)
    found = []
    for step in sorted(set(steps)):
        own = [head for head in order if steps[head] == step]
        heads = [t[..., own, :, :] for t in (q, k, v)]
        found.append(_torch.one_step(*heads, pattern, step, checked))
    outs, lses = zip(*found)
    place = [order.index(head) for head in range(len(steps))]
    out = torch.cat(outs, -3)[..., place, :, :]
    lse = torch.cat(lses, -2)[..., place, :]
    return out, lse
