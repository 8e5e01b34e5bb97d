"""Attention as products of features: sums over keys in place of an n x n matrix.

    y_i = phi(q_i)' sum_j phi(k_j) v_j' / (phi(q_i)' sum_j phi(k_j))

with j <= i if causal. Linear attention has phi(x) = elu(x) + 1; Performer estimates
softmax by phi(x)_f = exp(w_f'x - |x|^2 / 2) / sqrt(m), w_f drawn from N(0, I).

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
    """Attention whose weights are products of the features elu(x) + 1; q is not scaled.

    Args:
        chunk: tokens that attend densely, causal only.
        token_mask: True = a token, (*batch, n) or (b, 1, n) for all heads; what is none
            gets no weight, and its rows are zero.
        check: look for NaN, infinity, and weights that underflow to zero.

    Source: Katharopoulos et al. 2020, recalled; the chunks are those of its successors.
    Claim: efficient.flops
    """
    _check(q, k, v, causal, chunk, token_mask, check)
    phi_q = F.elu(q) + 1
    phi_k = F.elu(k) + 1
    return _average(phi_q, phi_k, v, causal, chunk, token_mask, check)


def linear_step(
    q: Float[Tensor, "*batch d"],
    k: Float[Tensor, "*batch d"],
    v: Float[Tensor, "*batch d_v"],
    state: Float[Tensor, "*batch d d_v_1"] | None = None,
) -> tuple[Float[Tensor, "*batch d_v"], Float[Tensor, "*batch d d_v_1"]]:
    """One token of causal linear_attention: (y, S), from S before it or None for zeros.

        S = S + phi(k) (v, 1)',   (above, below) = S' phi(q),   y = above / below

    Source: Katharopoulos et al. 2020, recalled.
    Claim: efficient.state
    """
    _fits(q, k, v)
    v = F.pad(v, (0, 1), value=1.0)
    state = _begun(state, q, v)
    state = state + _outer(F.elu(k) + 1, v)
    return _ratio(_read(state, F.elu(q) + 1), True), state


def positive_features(
    x: Float[Tensor, "*batch n d"], w: Float[Tensor, "m d"]
) -> Float[Tensor, "*batch n m"]:
    """Features whose products estimate exp(x'y) without bias, and are never negative.

        phi(x)_f = exp(w_f'x - |x|^2 / 2) / sqrt(m)

    Args:
        w: rows drawn from N(0, I).

    Source: Choromanski et al. 2021 (Performer), recalled; differs: independent rows,
        not orthogonal ones.
    Claim: efficient.performer
    """
    tokens(x)
    m, *_ = _shape("w", w)
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
    generator: torch.Generator,
    check: bool = True,
) -> Float[Tensor, "*batch n d_v"]:
    """Softmax attention estimated by positive features of q / d^(1/4) and k / d^(1/4).
    A ratio of two unbiased estimates is not unbiased.

    Args:
        features: m.
        causal, chunk, token_mask, check: as in linear_attention.
        generator: draws the m x d matrix.

    Source: Choromanski et al. 2021, recalled; differs: independent rows; no constant
        depends on the keys, so that causal rows do not see later keys.
    Claim: efficient.performer
    """
    _check(q, k, v, causal, chunk, token_mask, check)
    _require.sizes(1, features=features)
    _require.random(generator)
    d = q.shape[-1]
    source = {"generator": generator, "device": generator.device}
    w = torch.randn(features, d, dtype=q.dtype, **source)
    w = w.to(q.device)
    log_q = _log_features(q / d**0.25, w)
    log_k = _log_features(k / d**0.25, w)

    # A log feature of a key is at most |w_f|^2 / 2, whatever the key. Where that passes
    # half of the range, the rest goes to the queries: no sum over keys overflows.
    half_of_range = math.log(torch.finfo(q.dtype).max) / 2
    most = w.square().sum(-1) / 2
    shift = (most - half_of_range).clamp_min(0)
    log_q = log_q + shift
    phi_k = (log_k - shift).exp()
    # A factor common to all features of a query cancels in the ratio.
    largest = log_q.amax(-1, keepdim=True).detach()
    phi_q = (log_q - largest).exp()
    return _average(phi_q, phi_k, v, causal, chunk, token_mask, check)


def _check(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    chunk: int,
    token_mask: Tensor | None,
    check: bool,
) -> None:
    _require.is_a(bool, causal=causal)
    _require.sizes(1, chunk=chunk)
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
    """Averages of values whose weights are products of features; a column of ones
    beside v carries the denominator.
    """
    v = F.pad(v, (0, 1), value=1.0)
    if token_mask is None:
        return _ratio(_sums(phi_q, phi_k, v, causal, chunk), check)
    real = token_mask.unsqueeze(-1)
    sums = _sums(phi_q, phi_k * real, v, causal, chunk)
    # Rows that hold no token become zero in the end; until then, one over one.
    return _ratio(sums.where(real, 1), check) * real


def _ratio(sums: Tensor, check: bool) -> Tensor:
    """Sums of weighted values over sums of weights, which stand in the last column."""
    above, below = sums.tensor_split([-1], -1)
    require(
        not check or bool((below > 0).all()),
        f"all weights of a row underflow to zero in {sums.dtype}",
    )
    return above / below


def _sums(phi_q: Tensor, phi_k: Tensor, v: Tensor, causal: bool, chunk: int) -> Tensor:
    """Rows phi(q_i)' sum_j phi(k_j) v_j', over j <= i if causal: then earlier chunks by
    their sums, the own chunk densely.
    """
    if not causal:
        return phi_q @ (phi_k.mT @ v)
    n = v.shape[-2]
    chunk = min(chunk, n)
    phi_q = _blocks(phi_q, chunk)
    phi_k = _blocks(phi_k, chunk)
    v = _blocks(v, chunk)
    sums = (phi_k.mT @ v).cumsum(-3)
    past = _before(sums)
    own = (phi_q @ phi_k.mT).tril() @ v
    return _joined(phi_q @ past + own, n)


def _before(t: Tensor, first: int = 0) -> Tensor:
    """Blocks moved on by one; `first` fills the first block."""
    ahead = F.pad(t, (0, 0, 0, 0, 1, 0), value=first)
    return ahead[..., :-1, :, :]


def _blocks(t: Tensor, l: int, fill: int = 0) -> Tensor:
    """Blocks of l tokens, (.., m, l, d), the last filled up."""
    rest = -t.shape[-2] % l
    if rest:
        t = F.pad(t, (0, 0, 0, rest), value=fill)
    return t.unflatten(-2, (-1, l))


def _joined(t: Tensor, n: int) -> Tensor:
    """The first n tokens of all blocks."""
    return t.flatten(-3, -2)[..., :n, :]


def _outer(k: Tensor, v: Tensor) -> Tensor:
    """k v'."""
    return k.unsqueeze(-1) @ v.unsqueeze(-2)


def _read(state: Tensor, q: Tensor) -> Tensor:
    """What the state holds at q, S' q."""
    return (q.unsqueeze(-2) @ state).squeeze(-2)


def _fits(
    q: Tensor, k: Tensor, v: Tensor, *, check: bool = True, **numbers: Tensor
) -> None:
    """A key, a value and each of the numbers for every query, of one token or many."""
    *tokens, _ = _shape("q", q)
    *_, d_v = _shape("v", v)
    matches("k", k, q.shape, q, "q")
    matches("v", v, (*tokens, d_v), q, "q")
    for name, t in numbers.items():
        matches(name, t, tuple(tokens), q, "q")
    if check:
        _require.finite(q=q, k=k, v=v, **numbers)


def _shape(name: str, t: Tensor) -> tuple[int, ...]:
    """The shape of a floating tensor, (*batch, width)."""
    _require.is_floating(name, t)
    got = tuple(t.shape)
    require(
        t.dim() >= 1 and 0 not in got,
        f"{name} must be (*batch, width), not empty, got {got}",
    )
    return got


def _begun(state: Tensor | None, q: Tensor, v: Tensor, name: str = "q") -> Tensor:
    """The state before a token, (*batch, d, d_v); None for zeros. The caller knows q by
    this name.
    """
    size = (*q.shape, v.shape[-1])
    if state is None:
        return q.new_zeros(size)
    matches("state", state, size, q, name)
    _require.finite(state=state)
    return state
