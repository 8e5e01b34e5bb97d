"""Sparse attention by dense tiles: any pattern, its parts merged by log-sum-exp.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib import _require
from attnlib._require import require
from attnlib.patterns import Pattern
from attnlib.sparse.operation import attend, fits
from attnlib.sparse.plans import plan_of


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
    """Attention in which each token reads what a pattern lets it, by dense tiles.

        out_i = sum_{j in A_i} exp(scale q_i k_j - lse_i) v_j,
        lse_i = log sum_{j in A_i} exp(scale q_i k_j)

    There is never an n x n matrix. Each part of the step becomes dense tiles: windows
    as overlapping tiles, residue classes, blocks, global rows and columns. Lists and
    thin windows are taken entry by entry, as compressed sparse rows. A key that two
    parts hold is counted once.

    It works under torch.compile with fullgraph=True (from torch 2.13 on), and under
    vmap, grad and jacrev of torch.func; not under both at once, where torch raises.

    Args:
        q: (*batch, n_q, d), n_q <= n: the last n_q tokens, so that query i is token
            n - n_q + i. With n_q = 1 that is a step of decoding with cached keys.
        k: (*batch, n, d).
        v: (*batch, n, d_v).
        pattern: attnlib.patterns.Pattern of n tokens.
        step: an integer, modulo p; or a list with one for each head of q, the last
            batch dimension. None only where p = 1.
        scale: None for 1/sqrt(d), a number, or a tensor of one entry, which has
            gradients, too.
        enable_gqa: k and v have fewer heads than q, by a factor: each serves as many
            heads of q that follow each other.
        return_lse: also lse.
        check: look for NaN and infinity.

    Returns:
        out (*batch, n_q, d_v), and with return_lse also lse (*batch, n_q). Both have
        first derivatives, not second. Of float16 and bfloat16 lse, logits and merges
        are float32 and out is rounded once at the end. Autocast changes nothing, other
        than for torch's scaled_dot_product_attention, which it rounds. Products of
        tiles are float32 on the CPU; CUDA multiplies halves from capability 7.0
        (float16) and 8.0 (bfloat16) on, with an error of at most 2 u P|V|, u = 2^-11
        and 2^-8.

    Raises:
        ValueError: for shapes, dtypes or devices that do not fit, an empty batch, a
            pattern of another length, one of several steps without step, a row that
            reads nothing, NaN or infinity. RuntimeError for a second derivative.

    Cost: 4 d times the connections, rounded up to tiles; O(connections) memory for
        masks that differ from tile to tile, O(n) otherwise. The first call with a step
        makes its tiles, as `prepare` does; later calls find them. Where n_q < n, tiles
        of 32 queries with all keys that one of them reads. With enable_gqa k and v are
        copied.
    Source: Milakov and Gimelshein 2018 (running softmax), Dao et al. 2022 (recomputed
        backward); tiles are ours.
    Claim: sparse.merge
    """
    _require.is_a(bool, enable_gqa=enable_gqa, return_lse=return_lse)
    _is_pattern(pattern)
    for name, t in (("q", q), ("k", k), ("v", v)):
        _require.is_tensor(name, t)
    if enable_gqa:
        k, v = _for_each_head(q, k, v)
    if not torch.compiler.is_compiling():  # there the operator asks
        fits(q, k, v, pattern.n)
    _require.scale(scale, check=False)
    checked = "q" if check else ""
    given = q
    if torch.is_tensor(scale):
        _require.same_device("scale", scale, q.device, "q")
        wide = torch.promote_types(q.dtype, torch.float32)
        given = q.to(wide) * scale.reshape(())
        scale = 1.0
        checked = "q * scale" if check else ""
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    heads = q.shape[-3] if q.dim() > 2 else 0
    steps = _steps(step, pattern, heads)
    if isinstance(steps, int):
        out, lse = attend(given, k, v, pattern, steps, factor, checked)
    else:
        out, lse = _by_heads(given, k, v, pattern, steps, factor, checked)
    out = out.to(q.dtype)
    return (out, lse) if return_lse else out


def prepare(
    pattern: Pattern,
    *,
    n_q: int | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> None:
    """Make the tiles of all steps of a pattern now, and not in the first call.

    Equal patterns share them. The tiles of the last 128 steps are kept.

    Args:
        pattern: attnlib.patterns.Pattern.
        n_q: queries, None for n.
        dtype, device: of q, k and v.

    Raises:
        ValueError: for what is no pattern, an n_q outside 1..n, a dtype that is not
            floating, a device that is not there, and a row that reads nothing.

    Cost: O(n) times the parts and tiles of one mask; O(pairs of tiles) where masks
        differ.
    Source: none.
    """
    _require.floating(dtype)
    require(device is not None, "device must be given, got None")
    _require.place(device)
    _is_pattern(pattern)
    rows = pattern.n if n_q is None else n_q
    _require.sizes(1, n_q=rows)
    require(rows <= pattern.n, f"n_q must be in 1..n = 1..{pattern.n}, got {rows}")
    wide = torch.promote_types(dtype, torch.float32)
    for step in pattern.steps:
        plan_of(step, pattern.n, rows, wide, torch.device(device))


def _is_pattern(pattern) -> None:
    got = type(pattern).__name__
    hint = ": patterns.from_masks makes one of a mask" if got == "Tensor" else ""
    require(
        isinstance(pattern, Pattern),
        f"pattern must be an attnlib.patterns.Pattern, got {got}{hint}",
    )


def _for_each_head(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values with as many heads as q."""
    for name, t in (("q", q), ("k", k), ("v", v)):
        if t.dim() < 3:
            got = tuple(t.shape)
            raise ValueError(f"enable_gqa: {name} must be (*batch, h, n, d), got {got}")
    heads = q.shape[-3]
    made = []
    for name, t in (("k", k), ("v", v)):
        shared = t.shape[-3]
        if heads % max(1, shared):
            raise ValueError(
                f"enable_gqa: the {heads} heads of q must be a multiple of the {shared}"
                f" heads of {name}"
            )
        made.append(t.repeat_interleave(heads // max(1, shared), -3))
    k, v = made
    return k, v


def _is_integer(s) -> bool:
    return isinstance(s, Integral) and not isinstance(s, bool)


def _steps(
    step: int | Sequence[int] | None, pattern: Pattern, heads: int
) -> int | list[int]:
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


def _by_heads(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    steps: list[int],
    scale: float,
    check: str,
) -> tuple[Tensor, Tensor]:
    """Each head by its step; heads that use the same step together."""
    groups: dict[int, list[int]] = {}
    for head, step in enumerate(steps):
        groups.setdefault(step, []).append(head)
    outs = []
    lses = []
    for step, group in groups.items():
        own = [t[..., group, :, :] for t in (q, k, v)]
        out, lse = attend(*own, pattern, step, scale, check)
        outs.append(out)
        lses.append(lse)
    order = [head for group in groups.values() for head in group]
    place = [order.index(head) for head in range(len(steps))]
    out = torch.cat(outs, -3)[..., place, :, :]
    lse = torch.cat(lses, -2)[..., place, :]
    return out, lse
