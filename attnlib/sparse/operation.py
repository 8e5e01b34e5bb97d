"""sparse_attention as torch sees it: one operation and its gradient.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnlib._require import finite, matches, require, tokens
from attnlib.patterns import Pattern, Step
from attnlib.sparse import tiles
from attnlib.sparse.plans import Plan, plan_of
from attnlib.sparse.precision import compute_dtype

_traced: list[tuple[Step, int]] = []  # what compiled graphs refer to by a number


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    step: int,
    scale: float,
    check: str,
) -> tuple[Tensor, Tensor]:
    """One step of a pattern, with gradients: eagerly, under torch.func, or compiled.

    Args:
        q: (*batch, n_q, d), the last n_q tokens.
        k, v: (*batch, n, d) and (*batch, n, d_v).
        pattern: of n tokens.
        step: 0..p - 1.
        scale: of the logits.
        check: what q is called when NaN and infinity are refused; empty: do not look.

    Returns:
        out (*batch, n_q, d_v) and lse (*batch, n_q), float32 at least.

    Cost: as sparse_attention.
    Source: none.
    """
    # torch.func wants an autograd.Function, torch.compile an operator: torch 2.13
    # takes neither for both.
    if torch.compiler.is_compiling() or q.is_meta:
        number = _number(pattern, step)
        return torch.ops.attnlib.sparse_attention(q, k, v, number, scale, check)
    return SparseAttention.apply(q, k, v, pattern.steps[step], scale, check)


def fits(q: Tensor, k: Tensor, v: Tensor, n: int) -> None:
    """Refuse queries, keys and values that do not fit each other, or n tokens.

    Args:
        q, k, v: as of attend.
        n: tokens of the pattern.

    Raises:
        ValueError: for shapes, dtypes or devices that do not fit.

    Cost: O(1).
    Source: none.
    """
    tokens(q, "q")
    tokens(k, "k")
    tokens(v, "v")
    *batch, n_q, d = q.shape
    require(k.shape[-2] == n, f"the pattern has n = {n} tokens, k has {k.shape[-2]}")
    require(
        n_q <= n, f"q has {n_q} tokens, k only {n}: queries are the last of the tokens"
    )
    matches("k", k, (*batch, n, d), q, "q")
    matches("v", v, (*batch, n, v.shape[-1]), q, "q")


def _number(pattern: Pattern, step: int) -> int:
    """What stands for a step of n tokens in a compiled graph."""
    own = pattern.steps[step], pattern.n
    if own not in _traced:
        _traced.append(own)
    return _traced.index(own)


# torch.compiler.assume_constant_result(_number), which would import the compiler here
_number._dynamo_marked_constant = True


def _plan(step: Step, q: Tensor, k: Tensor) -> Plan:
    # half precision would round the logits
    wide = torch.promote_types(k.dtype, torch.float32)
    return plan_of(step, k.shape[-2], q.shape[-2], wide, k.device)


def _flat(t: Tensor, dtype: torch.dtype) -> Tensor:
    return t.to(dtype).reshape(-1, *t.shape[-2:]).contiguous()


def _forward(
    q: Tensor, k: Tensor, v: Tensor, step: Step, scale: float, check: str
) -> tuple[Tensor, Tensor]:
    # plans are made here, where no transformation of torch.func sees their tensors
    plan = _plan(step, q, k)
    if check:
        finite(**{check: q, "k": k, "v": v})
    dtype = compute_dtype(k.dtype, k.device)
    given = [_flat(t, dtype) for t in (q, k, v)]
    # under autocast, too, the products are those of compute_dtype
    with torch.autocast(k.device.type, enabled=False):
        out, lse = tiles.forward(*given, plan, scale)
    return out.view(*q.shape[:-1], v.shape[-1]), lse.view(q.shape[:-1])


def _gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    g: Tensor,
    g_lse: Tensor,
    step: Step,
    scale: float,
) -> tuple[Tensor, ...]:
    plan = _plan(step, q, k)
    dtype = compute_dtype(k.dtype, k.device)
    given = [_flat(t, dtype) for t in (q, k, v)]
    made = [_flat(t, out.dtype) for t in (out, g)]
    sums = [t.reshape(-1, t.shape[-1]) for t in (lse, g_lse)]
    # backward may be called under autocast, too
    with torch.autocast(k.device.type, enabled=False):
        wanted = tiles.gradients(
            *given, made[0], sums[0], made[1], sums[1], plan, scale
        )
    return tuple(w.to(t.dtype).view(t.shape) for w, t in zip(wanted, (q, k, v)))


# --- eagerly, and under torch.func ---


def _in_front(size: int, dims: tuple, given: tuple) -> list[Tensor]:
    """Tensors with what vmap maps over as their first dimension."""
    moved = []
    for t, dim in zip(given, dims):
        moved.append(t.expand(size, *t.shape) if dim is None else t.movedim(dim, 0))
    return moved


class SparseAttention(torch.autograd.Function):
    """(q, k, v) -> (out, lse) of a step; it saves both, and no logits."""

    @staticmethod
    def forward(q, k, v, step, scale, check):
        return _forward(q, k, v, step, scale, check)

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, ctx.step, ctx.scale, _ = inputs
        ctx.save_for_backward(q, k, v, *output)

    @staticmethod
    def backward(ctx, g, g_lse):
        saved = ctx.saved_tensors
        wanted = SparseGradients.apply(*saved, g, g_lse, ctx.step, ctx.scale)
        return *wanted, None, None, None

    @staticmethod
    def vmap(info, in_dims, q, k, v, *how):
        given = _in_front(info.batch_size, in_dims, (q, k, v))
        return SparseAttention.apply(*given, *how), (0, 0)


class SparseGradients(torch.autograd.Function):
    """(q, k, v, out, lse, g, g_lse) -> (dq, dk, dv), the end of the derivatives."""

    @staticmethod
    def forward(q, k, v, out, lse, g, g_lse, step, scale):
        return _gradients(q, k, v, out, lse, g, g_lse, step, scale)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *_):
        _no_second_derivative()

    @staticmethod
    def vmap(info, in_dims, *given):
        tensors = _in_front(info.batch_size, in_dims, given[:7])
        return SparseGradients.apply(*tensors, *given[7:]), (0, 0, 0)


def _no_second_derivative():
    raise RuntimeError(
        "sparse_attention has first derivatives only: for second ones take "
        "masked_attention"
    )


# --- compiled: two operators whose inside the compiler does not see ---


@torch.library.custom_op(
    "attnlib::sparse_attention",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, int step, float scale, str check)"
    " -> (Tensor, Tensor)",
)
def _operator(q, k, v, step, scale, check):
    step, n = _traced[step]
    fits(q, k, v, n)
    return _forward(q, k, v, step, scale, check)


@_operator.register_fake
def _shapes(q, k, v, step, scale, check):
    wide = torch.promote_types(k.dtype, torch.float32)
    out = q.new_empty(*q.shape[:-1], v.shape[-1], dtype=wide)
    return out, q.new_empty(q.shape[:-1], dtype=wide)


@torch.library.custom_op(
    "attnlib::sparse_attention_backward",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor g,"
    " Tensor g_lse, int step, float scale) -> (Tensor, Tensor, Tensor)",
)
def _operator_backward(q, k, v, out, lse, g, g_lse, step, scale):
    step, _ = _traced[step]
    return _gradients(q, k, v, out, lse, g, g_lse, step, scale)


@_operator_backward.register_fake
def _shapes_of_gradients(q, k, v, *_):
    return tuple(t.new_empty(t.shape) for t in (q, k, v))


def _save(ctx, inputs, output):
    q, k, v, ctx.step, ctx.scale, _ = inputs
    ctx.save_for_backward(q, k, v, *output)


def _backward(ctx, g, g_lse):
    saved = ctx.saved_tensors
    wanted = _operator_backward(*saved, g, g_lse, ctx.step, ctx.scale)
    return *wanted, None, None, None


def _save_nothing(ctx, inputs, output):
    pass


def _refuse(ctx, *_):
    _no_second_derivative()


def _map(info, in_dims, q, k, v, *how):
    given = _in_front(info.batch_size, in_dims, (q, k, v))
    return _operator(*given, *how), (0, 0)


def _map_gradients(info, in_dims, *given):
    tensors = _in_front(info.batch_size, in_dims, given[:7])
    return _operator_backward(*tensors, *given[7:]), (0, 0, 0)


_operator.register_autograd(_backward, setup_context=_save)
_operator.register_vmap(_map)
_operator_backward.register_autograd(_refuse, setup_context=_save_nothing)
_operator_backward.register_vmap(_map_gradients)
