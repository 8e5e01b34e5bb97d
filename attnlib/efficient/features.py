"""Attention as products of features: sums over keys in place of an n x n matrix."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from attnlib._require import matches, require, tokens
from attnlib.sparse import _at_least_one, _check, _scale


def linear_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    *,
    causal: bool = False,
    chunk: int = 64,
    padding: Bool[Tensor, "*batch n"] | None = None,
    check: bool = True,
) -> Float[Tensor, "*batch n d_v"]:
    """Attention whose weights are products of features: it sums the keys once, and
    never forms an n x n matrix.

        y_i = phi(q_i)' sum_j phi(k_j) v_j' / (phi(q_i)' sum_j phi(k_j)),   phi(x) = elu(x) + 1;   causal: j <= i

    Args:
        q, k: (*batch, n, d), not scaled.
        v: (*batch, n, d_v).
        causal: only the past.
        chunk: tokens that attend densely, causal only.
        padding: True for a token; padding gets no weight, and its rows are zero.
        check: look for NaN and infinity.

    Returns:
        (*batch, n, d_v), for any n.

    Raises:
        ValueError: for chunk below 1, shapes that do not fit, NaN, infinity, and
            weights that underflow to zero.

    Cost:
        4 n d (d_v + 1) FLOPs; causal 2 n chunk (d + d_v + 1) more.

    Source:
        Katharopoulos et al. 2020, recalled; the chunks are those of its successors.

    Claim:
        efficient.flops

    Page:
        notebooks/jl_low_rank/complexity_table
    """
    _check(q, k, v, padding, check)
    return _features(F.elu(q) + 1, F.elu(k) + 1, v, causal, chunk, padding, check)


def positive_features(
    x: Float[Tensor, "*batch n d"], w: Float[Tensor, "m d"]
) -> Float[Tensor, "*batch n m"]:
    """Features whose products estimate exp(x'y) without bias, and are never negative.

        phi(x)_f = exp(w_f'x - |x|^2 / 2) / sqrt(m)

    Args:
        x: (*batch, n, d).
        w: (m, d), rows drawn from N(0, I).

    Returns:
        (*batch, n, m).

    Raises:
        ValueError: for integer x or a w that does not fit.

    Cost:
        2 n d m FLOPs.

    Source:
        Choromanski et al. 2021 (Performer), recalled; differs: independent rows, not
        orthogonal ones.

    Claim:
        efficient.performer

    Page:
        notebooks/jl_low_rank/complexity_table
    """
    tokens(x)
    require(torch.is_tensor(w) and w.dim() == 2, "w must be a torch tensor (m, d)")
    matches("w", w, (len(w), x.shape[-1]), x)
    return _log_features(x, w).exp() / math.sqrt(len(w))


def performer_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    *,
    features: int,
    causal: bool = False,
    chunk: int = 64,
    padding: Bool[Tensor, "*batch n"] | None = None,
    scale: float | None = None,
    generator: torch.Generator,
    check: bool = True,
) -> Float[Tensor, "*batch n d_v"]:
    """Softmax attention estimated by positive random features.

        linear attention with phi of positive_features, on q sqrt(scale) and k sqrt(scale)

    Args:
        q, k: (*batch, n, d).
        v: (*batch, n, d_v).
        features: m >= 1.
        causal: only the past.
        chunk: as in linear_attention.
        padding: as there.
        scale: None for 1/sqrt(d).
        generator: draws the m x d matrix.
        check: look for NaN and infinity.

    Returns:
        (*batch, n, d_v); a ratio of two unbiased estimates is not unbiased.

    Raises:
        ValueError: for features or chunk below 1, a negative scale, shapes that do not
            fit, NaN, and features that underflow to zero.

    Cost:
        4 n m (d + d_v + 1) FLOPs; causal 2 n chunk (m + d_v + 1) more.

    Source:
        Choromanski et al. 2021, recalled; differs: independent rows; no constant
        depends on the keys, so that causal rows do not see later keys.

    Claim:
        efficient.performer

    Page:
        notebooks/jl_low_rank/complexity_table
    """
    _check(q, k, v, padding, check)
    _at_least_one(features=features)
    root = _scale(q, scale)
    require(
        root >= 0,
        f"scale must not be negative: its square root goes to both sides, got {scale}",
    )
    w = torch.randn(
        features, q.shape[-1], generator=generator, dtype=q.dtype, device=q.device
    )
    f, g = (_log_features(t * math.sqrt(root), w) for t in (q, k))
    shift = (w.square().sum(-1) / 2 - math.log(torch.finfo(q.dtype).max) / 2).clamp_min(
        0
    )  # bounds g, whatever the key
    f = f + shift
    return _features(
        (f - f.amax(-1, keepdim=True).detach()).exp(),
        (g - shift).exp(),
        v,
        causal,
        chunk,
        padding,
        check,
    )


def _log_features(x: Tensor, w: Tensor) -> Tensor:
    return x @ w.mT - x.square().sum(-1, keepdim=True) / 2


def _features(
    f: Tensor,
    g: Tensor,
    v: Tensor,
    causal: bool,
    chunk: int,
    padding: Tensor | None,
    check: bool,
) -> Tensor:
    """Rows f_i' sum_j g_j v_j' / f_i' sum_j g_j; a column of ones beside v carries the
    denominator.
    """
    _at_least_one(chunk=chunk)
    n, v = v.shape[-2], F.pad(v, (0, 1), value=1.0)
    g = g if padding is None else g * padding.unsqueeze(-1)
    if causal:
        f, g, v = (
            F.pad(t, (0, 0, 0, -n % chunk)).unflatten(-2, (-1, chunk))
            for t in (f, g, v)
        )
        sums = g.mT @ v
        past = torch.cat(
            [torch.zeros_like(sums[..., :1, :, :]), sums.cumsum(-3)[..., :-1, :, :]], -3
        )
        y = (f @ past + (f @ g.mT).tril() @ v).flatten(-3, -2)[..., :n, :]
    else:
        y = f @ (g.mT @ v)
    below, real = y[..., -1:], True if padding is None else padding.unsqueeze(-1)
    require(
        not check or bool(((below > 0) | ~torch.as_tensor(real)).all()),
        f"all weights of a row underflow to zero in {v.dtype}",
    )
    return (
        y[..., :-1] / below
        if padding is None
        else torch.where(real, y[..., :-1] / below.where(real, 1), 0)
    )
