"""sparse_attention as torch sees it: one function and its gradient.

Compiled graphs call a step by its number, through two operators whose inside the
compiler does not see.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from attnlib._require import finite, heads, require, tokens
from attnlib.patterns import Pattern, Step
from attnlib.sparse._kernel import attend, gradients
from attnlib.sparse._tiles import tiles_of

_numbered: list[tuple[Step, int]] = []


def one_step(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, step: int, checked: str
) -> tuple[Tensor, Tensor]:
    """out and lse (*batch, n_q) of one step, in the dtype of q, float32 at least; scale
    is in q. checked: what q is called when NaN and infinity are refused, empty for no.
    """
    opaque = torch.compiler.is_compiling() or q.is_meta
    if opaque or type(q).__name__ == "FakeTensor":
        key = _number(pattern, step)
    else:
        key = pattern.steps[step]
    return _Attention.apply(q, k, v, key, checked)


def _number(pattern: Pattern, step: int) -> int:
    """What stands for a step in a compiled graph."""
    own = pattern.steps[step], pattern.n
    if own not in _numbered:
        _numbered.append(own)
    return _numbered.index(own)


# torch.compiler.assume_constant_result(_number), which would import the compiler here
_number._dynamo_marked_constant = True


def fit(q: Tensor, k: Tensor, v: Tensor, n: int) -> None:
    """Queries, keys and values fit each other, and n tokens."""
    for name, t in (("q", q), ("k", k), ("v", v)):
        tokens(t, name)
    n_q = q.shape[-2]
    require(k.shape[-2] == n, f"the pattern has n = {n} tokens, k has {k.shape[-2]}")
    require(n_q <= n, f"q has {n_q} tokens, k only {n}: queries are the last ones")
    heads(q, k, v, check=False)


def _forward(q, k, v, step: Step, checked: str) -> tuple[Tensor, Tensor]:
    if checked:
        finite(**{checked: q, "k": k, "v": v})
    made = _made(q, k, step)
    batch = q.shape[:-1]
    with torch.autocast(q.device.type, enabled=False):
        out, lse = attend(*_flat(q, k, v), *made)
    return out.view(*batch, -1), lse.view(batch)


def _backward(q, k, v, out, lse, g, g_lse, step: Step) -> tuple[Tensor, ...]:
    made = _made(q, k, step)
    flat = _flat(q, k, v, out)
    rows = lse.reshape(-1, lse.shape[-1])
    g_rows = g_lse.reshape(-1, g_lse.shape[-1])
    # backward may be called under autocast, too
    with torch.autocast(q.device.type, enabled=False):
        found = gradients(*flat, rows, *_flat(g), g_rows, *made)
    return tuple(d.view(t.shape) for d, t in zip(found, (q, k, v)))


def _made(q: Tensor, k: Tensor, step: Step) -> tuple:
    """The tiles for these queries and keys."""
    n_q, n = q.shape[-2], k.shape[-2]
    return tiles_of(step, n, n_q, q.dtype, q.device)


def _flat(*given: Tensor) -> list[Tensor]:
    """(b, n, d) of (*batch, n, d)."""
    return [t.reshape(-1, *t.shape[-2:]).contiguous() for t in given]


def _in_front(info, in_dims: tuple, given: tuple) -> list[Tensor]:
    """Tensors with what vmap maps over as their first dimension."""
    moved = []
    for t, dim in zip(given, in_dims):
        if dim is None:
            moved.append(t.expand(info.batch_size, *t.shape))
        else:
            moved.append(t.movedim(dim, 0))
    return moved


class _Attention(torch.autograd.Function):
    """(q, k, v) -> (out, lse) of a step; it keeps both, and no logits."""

    @staticmethod
    def forward(q, k, v, key, checked):
        run = torch.ops.attnlib.attention if isinstance(key, int) else _forward
        return run(q, k, v, key, checked)

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, ctx.key, _ = inputs
        ctx.save_for_backward(q, k, v, *output)

    @staticmethod
    def backward(ctx, g, g_lse):
        found = _Gradients.apply(*ctx.saved_tensors, g, g_lse, ctx.key)
        return *found, None, None

    @staticmethod
    def vmap(info, in_dims, q, k, v, *how):
        given = _in_front(info, in_dims, (q, k, v))
        return _Attention.apply(*given, *how), (0, 0)


class _Gradients(torch.autograd.Function):
    """(q, k, v, out, lse, g, g_lse) -> (dq, dk, dv); its own gradient is that of the
    same tiles, with all their logits.
    """

    @staticmethod
    def forward(q, k, v, out, lse, g, g_lse, key):
        is_number = isinstance(key, int)
        run = torch.ops.attnlib.attention_backward if is_number else _backward
        return run(q, k, v, out, lse, g, g_lse, key)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.key = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, *up):
        key = ctx.key
        step = _numbered[key][0] if isinstance(key, int) else key
        again = functools.partial(_backward, step=step)
        _, pull = torch.func.vjp(again, *ctx.saved_tensors)
        return *pull(up), None

    @staticmethod
    def vmap(info, in_dims, *given):
        tensors = _in_front(info, in_dims, given[:7])
        return _Gradients.apply(*tensors, given[7]), (0, 0, 0)


# The schemas are written out: annotations are wrapped where shapes are checked.
@torch.library.custom_op(
    "attnlib::attention",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, int step, str checked) -> (Tensor, Tensor)",
)
def _operator(q, k, v, number, checked):
    step, n = _numbered[number]
    fit(q, k, v, n)
    return _forward(q, k, v, step, checked)


@_operator.register_fake
def _shapes(q, k, v, number, checked):
    batch = q.shape[:-1]
    return q.new_empty(*batch, v.shape[-1]), q.new_empty(batch)


@torch.library.custom_op(
    "attnlib::attention_backward",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor g,"
    " Tensor g_lse, int step) -> (Tensor, Tensor, Tensor)",
)
def _operator_backward(*given):
    *tensors, number = given
    return _backward(*tensors, _numbered[number][0])


@_operator_backward.register_fake
def _shapes_of_gradients(q, k, v, *_):
    return tuple(t.new_empty(t.shape) for t in (q, k, v))
