"""Attention as products of features: sums over keys in place of an n x n matrix.

Page: notebooks/jl_low_rank/complexity_table
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from attnlib import _require
from attnlib._require import matches, require, tokens


def linear_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    *,
    causal: bool = False,
    chunk: int = 64,
    token_mask: Bool[Tensor, "*sequences n"] | None = None,
    check: bool = True,
) -> Float[Tensor, "*batch n d_v"]:
    """Attention whose weights are products of features: it sums the keys once, and
    never forms an n x n matrix.

        y_i = phi(q_i)' sum_j phi(k_j) v_j' / (phi(q_i)' sum_j phi(k_j))

    with phi(x) = elu(x) + 1; causal: sums over j <= i.

    Args:
        q, k: (*batch, n, d), not scaled.
        v: (*batch, n, d_v).
        causal: only the past.
        chunk: tokens that attend densely, causal only.
        token_mask: True = a token, (*batch, n) or (b, 1, n) for all heads; what is none
            gets no weight, and its rows are zero.
        check: look for NaN and infinity.

    Returns:
        (*batch, n, d_v), for any n.

    Raises:
        ValueError: for chunk below 1, shapes that do not fit, NaN, infinity, and
            weights that underflow to zero.

    Cost: 4 n d (d_v + 1) FLOPs; causal 2 n chunk (d + d_v + 1) more.
    Source: Katharopoulos et al. 2020, recalled; the chunks are those of its successors.
    Claim: efficient.flops
    """
    _require.is_a(bool, causal=causal)
    _check(q, k, v, token_mask, check)
    phi_q = F.elu(q) + 1
    phi_k = F.elu(k) + 1
    return _average(phi_q, phi_k, v, causal, chunk, token_mask, check)


def linear_step(
    q: Float[Tensor, "*batch d"],
    k: Float[Tensor, "*batch d"],
    v: Float[Tensor, "*batch d_v"],
    state: Float[Tensor, "*batch d d_v_1"] | None = None,
    *,
    check: bool = True,
) -> tuple[Float[Tensor, "*batch d_v"], Float[Tensor, "*batch d d_v_1"]]:
    """One token of causal linear_attention, with a state of fixed size.

        S = S + phi(k) (v, 1)',   (above, below) = S' phi(q),   y = above / below

    Args:
        q, k: (*batch, d), not scaled.
        v: (*batch, d_v).
        state: S before the token, (*batch, d, d_v + 1), or None for zeros.
        check: look for NaN and infinity.

    Returns:
        (y, S): (*batch, d_v) and (*batch, d, d_v + 1).

    Raises:
        ValueError: for shapes that do not fit, NaN, infinity, and weights that
            underflow to zero.

    Cost: 4 d (d_v + 1) FLOPs, whatever came before.
    Source: Katharopoulos et al. 2020, recalled.
    Claim: efficient.state
    """
    _require.is_floating("q", q)
    _require.is_tensor("v", v)
    require(q.dim() >= 1, "q must be (*batch, d), got a single number")
    require(v.dim() >= 1, "v must be (*batch, d_v), got a single number")
    d_v = v.shape[-1]
    matches("k", k, q.shape, q, "q")
    matches("v", v, (*q.shape[:-1], d_v), q, "q")
    if state is not None:
        matches("state", state, (*q.shape, d_v + 1), q, "q")
    if check:
        _require.finite(q=q, k=k, v=v, state=state)
    phi_q = F.elu(q) + 1
    phi_k = F.elu(k) + 1
    v = F.pad(v, (0, 1), value=1.0)
    written = phi_k.unsqueeze(-1) @ v.unsqueeze(-2)
    state = written if state is None else state + written
    y = (phi_q.unsqueeze(-2) @ state).squeeze(-2)
    return _ratio(y, None, check), state


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
        ValueError: for integer x or a w that does not fit, NaN or infinity.

    Cost: 2 n d m FLOPs.
    Source: Choromanski et al. 2021 (Performer), recalled; differs: independent rows,
        not orthogonal ones.
    Claim: efficient.performer
    """
    tokens(x)
    _require.is_tensor("w", w)
    got = tuple(w.shape)
    require(w.dim() == 2 and len(w) >= 1, f"w must be a torch tensor (m, d), got {got}")
    m = len(w)
    matches("w", w, (m, x.shape[-1]), x)
    _require.finite(x=x, w=w)
    return _log_features(x, w).exp() / math.sqrt(m)


def performer_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    *,
    features: int,
    causal: bool = False,
    chunk: int = 64,
    token_mask: Bool[Tensor, "*sequences n"] | None = None,
    scale: float | None = None,
    generator: torch.Generator,
    check: bool = True,
) -> Float[Tensor, "*batch n d_v"]:
    """Softmax attention estimated by positive random features.

        linear attention with the phi of positive_features,
        on q sqrt(scale) and k sqrt(scale)

    Args:
        q, k: (*batch, n, d).
        v: (*batch, n, d_v).
        features: m >= 1.
        causal: only the past.
        chunk: as in linear_attention.
        token_mask: as there.
        scale: None for 1/sqrt(d).
        generator: draws the m x d matrix.
        check: look for NaN and infinity.

    Returns:
        (*batch, n, d_v); a ratio of two unbiased estimates is not unbiased.

    Raises:
        ValueError: for features or chunk below 1, a negative scale, shapes that do not
            fit, NaN, and features that underflow to zero.

    Cost: 4 n m (d + d_v + 1) FLOPs; causal 2 n chunk (m + d_v + 1) more.
    Source: Choromanski et al. 2021, recalled; differs: independent rows; no constant
        depends on the keys, so that causal rows do not see later keys.
    Claim: efficient.performer
    """
    _require.is_a(bool, causal=causal)
    _check(q, k, v, token_mask, check)
    _require.sizes(1, features=features)
    _require.scale(scale, check=check)
    _require.random(generator)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    require(
        factor >= 0,
        f"scale must not be negative: its square root goes to both sides, got {scale}",
    )
    root = math.sqrt(factor)
    size = features, q.shape[-1]
    source = {"generator": generator, "device": generator.device}
    w = torch.randn(size, dtype=q.dtype, **source).to(q.device)
    log_q = _log_features(q * root, w)
    log_k = _log_features(k * root, w)

    # A log feature of a key is at most |w_f|^2 / 2, whatever the key. Where that passes
    # half of the range, the rest goes over to the queries: no sum over keys overflows.
    largest = w.square().sum(-1) / 2
    half_of_range = math.log(torch.finfo(q.dtype).max) / 2
    shift = (largest - half_of_range).clamp_min(0)
    log_q = log_q + shift
    log_k = log_k - shift

    # A factor common to all features of a query cancels in the ratio.
    top = log_q.amax(-1, keepdim=True).detach()
    phi_q = (log_q - top).exp()
    phi_k = log_k.exp()
    return _average(phi_q, phi_k, v, causal, chunk, token_mask, check)


def _check(q: Tensor, k: Tensor, v: Tensor, token_mask: Tensor | None, check: bool):
    _require.heads(q, k, v, one_length=True, check=check)
    if token_mask is not None:
        size = q.shape[:-1]
        _require.token_mask(token_mask, size, q.device, heads=True, check=check)


def _log_features(x: Tensor, w: Tensor) -> Tensor:
    """The logarithm of positive_features, without its factor 1 / sqrt(m)."""
    half_of_norm = x.square().sum(-1, keepdim=True) / 2
    return x @ w.mT - half_of_norm


def _average(
    phi_q: Tensor,
    phi_k: Tensor,
    v: Tensor,
    causal: bool,
    chunk: int,
    token_mask: Tensor | None,
    check: bool,
) -> Tensor:
    """Averages of values whose weights are products of features, as in
    linear_attention; a column of ones beside v carries the denominator.
    """
    _require.sizes(1, chunk=chunk)
    v = F.pad(v, (0, 1), value=1.0)
    if token_mask is not None:
        phi_k = phi_k * token_mask.unsqueeze(-1)
    if causal:
        y = _causal_sums(phi_q, phi_k, v, chunk)
    else:
        sums = phi_k.mT @ v
        y = phi_q @ sums
    return _ratio(y, token_mask, check)


def _ratio(y: Tensor, token_mask: Tensor | None, check: bool) -> Tensor:
    """Sums of weighted values over sums of weights, which stand in the last column."""
    above = y[..., :-1]
    below = y[..., -1:]
    if token_mask is not None:
        # Rows that hold no token become zero in the end; until then, divided by one.
        real = token_mask.unsqueeze(-1)
        below = below.where(real, 1)
    require(
        not check or bool((below > 0).all()),
        f"all weights of a row underflow to zero in {y.dtype}",
    )
    if token_mask is None:
        return above / below
    return torch.where(real, above / below, 0)


def _causal_sums(phi_q: Tensor, phi_k: Tensor, v: Tensor, chunk: int) -> Tensor:
    """Rows phi(q_i)' sum_{j <= i} phi(k_j) v_j': earlier chunks by their sums, the own
    chunk densely.
    """
    n = v.shape[-2]
    chunk = min(chunk, n)
    phi_q = _blocks(phi_q, chunk)
    phi_k = _blocks(phi_k, chunk)
    v = _blocks(v, chunk)
    sums = phi_k.mT @ v
    past = _before(sums.cumsum(-3))
    own = (phi_q @ phi_k.mT).tril() @ v
    y = phi_q @ past + own
    return y.flatten(-3, -2)[..., :n, :]


def _blocks(t: Tensor, l: int) -> Tensor:
    """Blocks of l tokens, (.., m, l, d), the last filled up with zeros.

    They are a view if nothing is to be filled up.
    """
    rest = -t.shape[-2] % l
    if rest:
        t = F.pad(t, (0, 0, 0, rest))
    return t.unflatten(-2, (-1, l))


def _before(t: Tensor) -> Tensor:
    """Blocks moved on by one, zeros before the first block."""
    nothing = torch.zeros_like(t[..., :1, :, :])
    all_but_last = t[..., :-1, :, :]
    return torch.cat([nothing, all_but_last], -3)
