"""Rank collapse: the residual, its norm, bounds as printed and as repaired, and a
recursion that never underflows.

Page: notebooks/path_decomposition/rank_collapse
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib._require import (
    finite,
    one_of,
    own_precision,
    require,
    tokens,
    two_norms,
)
from attnlib.attention import Layer, check_network

Version = Literal["printed", "repaired", "safe"]
Size = Literal["composite", "diameter"]


def residual(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
    """What is left of the tokens after their mean is taken away.

        res(X) = X - 1 x',   x = X' 1 / n

    Args:
        x: (*batch, n, d), tokens are rows.

    Returns:
        (*batch, n, d); zero if and only if all tokens are equal.

    Raises:
        ValueError: for integer x, no token, NaN or infinity.

    Cost: O(n d).
    Source: Xie 2021, Definition 2.1; the token mean minimises |X - 1 x'| in the 2-norm
        and the Frobenius norm.
    """
    tokens(x)
    finite(x=x)
    return x - x.mean(-2, keepdim=True)


def relative_residual(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch"]:
    """The share of the tokens that is not the same for all of them.

        |res(X)|_F / |X|_F,   |.|_F the root of the sum of all squared entries

    Args:
        x: (*batch, n, d), tokens are rows.

    Returns:
        (*batch), from 0 (all tokens are equal) to 1 (their mean is zero).

    Raises:
        ValueError: for integer x, no token, NaN or infinity, or x = 0, which is no
            share of anything.

    Cost: O(n d).
    Source: Definition 2.1 of the page.
    """
    tokens(x)
    finite(x=x)
    largest = x.abs().amax((-2, -1), keepdim=True)
    require(
        bool((largest > 0).all()), "x must not be zero: it has no relative residual"
    )
    x = x / largest.detach()  # squares that are floats
    return residual(x).norm(dim=(-2, -1)) / x.norm(dim=(-2, -1))


def composite_norm(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch"]:
    """The geometric mean of the largest absolute column sum and the largest absolute
    row sum.

        |X|_{1,inf} = sqrt( |X|_1 |X|_inf )

    Args:
        x: (*batch, n, d).

    Returns:
        (*batch). Not a norm: the triangle inequality fails.

    Raises:
        ValueError: for integer x, no token, NaN or infinity.

    Cost: O(n d).
    Source: Dong et al. 2021; Xie 2021, Definition 2.1.
    """
    tokens(x)
    finite(x=x)
    return _composite_norm(x)


def _composite_norm(x: Tensor) -> Tensor:
    """composite_norm of checked input. The product of the two norms might be too small
    or too large for a float, that of their roots is not.
    """
    return _norm_1(x).sqrt() * _norm_inf(x).sqrt()


def _norm_1(x: Tensor) -> Tensor:
    """The largest absolute column sum."""
    return x.abs().sum(-2).amax(-1)


def _norm_inf(x: Tensor) -> Tensor:
    """The largest absolute row sum."""
    return x.abs().sum(-1).amax(-1)


def diameter(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch"]:
    """The largest distance of two tokens.

        delta = max_ik |x_i - x_k|,   Euclidean

    Args:
        x: (*batch, n, d), tokens are rows.

    Returns:
        (*batch); zero if and only if all tokens are equal.

    Raises:
        ValueError: for integer x, no token, NaN or infinity.

    Cost: O(n^2 d).
    Source: the usual one; not taken from a paper.
    """
    tokens(x)
    finite(x=x)
    return _diameter(x)


def _diameter(x: Tensor) -> Tensor:
    size, unit = _measured(x)
    return size * unit


def _log_diameter(x: Tensor) -> Tensor:
    """ln of the diameter; -inf, with gradient zero, where all tokens are equal."""
    size, unit = _measured(x)
    equal = size == 0
    log_size = torch.where(equal, 1, size).log() + unit.log()
    return torch.where(equal, -math.inf, log_size)


def _measured(x: Tensor) -> tuple[Tensor, Tensor]:
    """The diameter in a unit, and that unit: the largest difference of two entries,
    so that squares neither vanish nor overflow.
    """
    differences = x.unsqueeze(-2) - x.unsqueeze(-3)
    unit = differences.detach().abs().amax((-3, -2, -1))
    unit = torch.where((unit > 0) & unit.isfinite(), unit, 1)
    differences = differences / unit[..., None, None, None]
    return differences.norm(dim=-1).amax((-2, -1)), unit


def log_residuals(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    size: Size = "composite",
    check: bool = True,
) -> Float[Tensor, "layers *batch"]:
    """How large the residual is after each layer, as a logarithm, also where every
    float would be zero.

        ln |res(X_l)|_{1,inf}   for l = 0..L,   X_0 = X, no skips
        or ln delta_l, the diameter of the tokens

    The state is x, R and ln r with X = 1 x' + r R: what tokens share, and what differs,
    at size one. A layer turns it into 1 (..)' + r sum_h (P_h - 1 s_h') R W_h with s_h'
    the first row of P_h, whose difference is computed from that of the logits.

    Args:
        x: (*batch, n, d), float64 recommended.
        layers: L Layers.
        size: "composite" for the composite norm of the residual, or "diameter".
        check: look for NaN and infinity.

    Returns:
        (L + 1, *batch), input first; -inf where all tokens are equal, as for n = 1.
        Error below 1e-8 unless logits reach hundreds; then tokens can fall into
        clusters closer than R can hold: digits are lost, and tokens that still differ
        may read -inf.

    Raises:
        ValueError: as forward (also for d_qk = 0), for an unknown size, and for logits
            that overflow (W_QK of infinite norm).

    Cost: at most three forward passes.
    Source: not taken from a paper.
    Claim: collapse.recursion
    """
    one_of(get_args(Size), size=size)
    check_network(x, layers, check=check)
    shared = torch.zeros_like(x[..., 0, :])
    log_scale = torch.zeros_like(x[..., 0, 0])
    shared, rest, log_scale = _recentre(shared, x, log_scale)
    found = [_log_size(rest, log_scale, size)]
    for number, layer in enumerate(layers, 1):
        moved, rest, grown = _layer(shared, rest, log_scale, layer, number, check)
        shared, rest, log_scale = _recentre(moved, rest, grown)
        found.append(_log_size(rest, log_scale, size))
    return torch.stack(found)


def _log_size(rest: Tensor, log_scale: Tensor, size: Size) -> Tensor:
    """ln of the size of e^log_scale rest, where rest has composite norm one or zero."""
    if size == "composite":
        return log_scale
    return log_scale + _log_diameter(rest)


def _recentre(x: Tensor, r: Tensor, size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The state 1 x' + e^size r, with the mean of r moved into x and r brought to
    composite norm one.
    """
    mean = r.mean(-2)
    r = r - mean.unsqueeze(-2)
    if r.shape[-2] == 1:  # also where the only token overflows
        r = torch.zeros_like(r)
    norm = _composite_norm(r)
    divisor = torch.where(norm > 0, norm, 1)
    r = r / divisor[..., None, None]
    return x + _scaled(mean, size), r, size + norm.log()


def _scaled(t: Tensor, log_scale: Tensor) -> Tensor:
    """The tensor t times e^log_scale, one scale for each member of the batch."""
    further = (1,) * (t.dim() - log_scale.dim())
    return log_scale.exp().view(log_scale.shape + further) * t


def _logits(x: Tensor, r: Tensor, size: Tensor, layer: Layer) -> tuple[Tensor, Tensor]:
    """The logits of the state 1 x' + e^size r in two parts, e and l: row i of a head
    has l + e^(2 size) e_i. What a row adds to all of its logits alike is left out.
    """
    root = math.sqrt(layer.w_q.shape[-1])
    rows = r.unsqueeze(-3)  # heads before rows
    q = (x[..., None, None, :] @ layer.w_q).squeeze(-2)  # (*batch, h, d_qk)
    if layer.b_q is not None:
        q = q + layer.b_q
    keys = rows @ layer.w_k / root
    by_shared_row = (keys @ q.unsqueeze(-1)).squeeze(-1)
    e = (rows @ layer.w_q) @ keys.mT
    return e, _scaled(by_shared_row, size)


def _layer(
    x: Tensor, r: Tensor, size: Tensor, layer: Layer, number: int, check: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer on the state 1 x' + e^size r: the new shared row, the new rest and the
    logarithm of its scale.
    """
    e, logits = _logits(x, r, size, layer)
    top = e.abs().amax((-3, -2, -1))
    if check:
        finite_logits = torch.isfinite(top).all() and torch.isfinite(logits).all()
        require(
            bool(finite_logits),
            f"layer {number}: logits overflow; W_QK has an infinite norm, "
            f"or one too large for {x.dtype}",
        )
    negligible = math.log(torch.finfo(x.dtype).eps / 20)
    linear = 2 * size + top.log() < negligible

    # The rows of P are compared with its first row: they may agree far better than
    # with softmax(l).
    first = e[..., :1, :]
    logits = logits + _scaled(first.squeeze(-2), 2 * size)
    log_s = torch.log_softmax(logits, -1)
    s = log_s.exp()
    e = e - first

    # A row of logits may be shifted freely: zero in the column where s is largest.
    pivot = log_s.argmax(-1, keepdim=True)
    column = pivot.unsqueeze(-2).expand(*e.shape[:-1], 1)
    e = e - e.gather(-1, column)
    d = _difference(e, s, log_s, size, linear)

    # The rows of d sum to zero: from all values that of the pivot may be subtracted,
    # and then the pivot's entries of d are not needed.
    values = r.unsqueeze(-3) @ layer.w_v
    row = pivot.unsqueeze(-1).expand(*pivot.shape, values.shape[-1])
    apart = values - values.gather(-2, row)
    heads = d.scatter(-1, column, 0) @ apart @ layer.w_o

    mean = _scaled(s.unsqueeze(-2) @ values, size)
    moved = _shared_row(x, mean, layer)
    return moved, heads.sum(-3), torch.where(linear, 3 * size, size)


def _shared_row(x: Tensor, mean: Tensor, layer: Layer) -> Tensor:
    """What all tokens share after a layer: sum_h (x' W_V + mean + b_V') W_O + b_O'."""
    value = x[..., None, None, :] @ layer.w_v + mean
    if layer.b_v is not None:
        value = value + layer.b_v.unsqueeze(-2)
    moved = (value @ layer.w_o).sum((-3, -2))
    if layer.b_o is not None:
        moved = moved + layer.b_o
    return moved


def _difference(
    e: Tensor, s: Tensor, log_s: Tensor, size: Tensor, linear: Tensor
) -> Tensor:
    """softmax(1 log_s' + e^(2 size) e) - 1 s', for e with a zero in the column where s
    is largest.

    Where linear, the part of first order in e without its factor e^(2 size): what is
    left out rounds away.
    """
    s = s.unsqueeze(-2)
    log_s = log_s.unsqueeze(-2)
    first = e
    if linear.any():
        first = s * (e - e @ s.mT)
    if linear.all():
        return first
    v = _scaled(e, 2 * size)
    most = v.amax(-1, keepdim=True).clamp_min(0)
    if most.max() < 1:  # after a layer or two; half the exponentials
        log_ratio = v - torch.log1p(v.expm1() @ s.mT)  # of P / s
        d = s * log_ratio.expm1()
    else:
        near = torch.log1p(v.clamp_max(1).expm1() @ s.mT)
        # s itself may have underflowed
        far = torch.logsumexp(log_s + v, -1, keepdim=True)
        log_ratio = v - torch.where(most < 1, near, far)
        small = s * log_ratio.clamp_max(1).expm1()
        large = (log_s + log_ratio).exp() - s
        d = torch.where(log_ratio < 1, small, large)
    return torch.where(linear[..., None, None, None], first, d)


@own_precision
def log_bound(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    version: Version = "safe",
) -> Float[Tensor, "layers *batch"]:
    """Upper bounds of log_residuals, layer by layer, in logarithms; no skips.

        u_0 = |res X|_{1,inf},   u_l = c_l u_{l-1}^3
        printed:   c = 4 beta H / sqrt(d_qk), one for all layers,
                   beta = max |W_QK|_1 |W_h|_{1,inf}
        repaired:  c_l = sqrt(g(2 D_l)) |W_QK|_1 |W|_{1,inf} / sqrt(d_qk),
                   D_l = |W_QK|_1 u_{l-1}^2 / sqrt(d_qk)
        safe:      c_l = sqrt(g(2 D_l) b_1 b_inf / d_qk),
                   b_p = sum_h |W_QK,h|_1 |W_h|_p,   D_l with max_h

    with g(y) = (e^y - 1) / y. One head: repaired and safe agree, and no further
    hypothesis is needed.

    Args:
        x: (*batch, n, d).
        layers: L Layers.
        version: "printed" has no spread condition and is false without one; "repaired"
            is proved for one head; "safe" is proved for any number of heads.

    Returns:
        (L + 1, *batch), input first. NaN: nothing is proved (repaired, from the first
        layer with two heads on). +inf: true but beyond the range of floats. -inf: the
        residual is exactly zero.

    Raises:
        ValueError: as forward, for W_QK of infinite norm, and for an unknown version.

    Cost: O(L h d^2 (d_qk + d_v)).
    Source: printed: Xie 2021, Theorem 2.2 (H as in Dong et al. 2021, recalled); the
        others are derived on the page.
    Claim: collapse.multi-head
    """
    one_of(get_args(Version), version=version)
    check_network(x, layers)
    norms = [_norms(layer, number) for number, layer in enumerate(layers, 1)]
    widest = max(len(layer.w_q) for layer in layers)
    beta = max(n.beta for n in norms)
    u = _composite_norm(x - x.mean(-2, keepdim=True)).log()
    bounds = [u]
    for layer, n in zip(layers, norms):
        if version == "printed":
            c = (4 * widest * beta).to(u).log()
        else:
            log_spread = n.spread.to(u).log()
            log_g = _log_g(math.log(2) + log_spread + 2 * u)  # ln g(2 D_l)
            c = n.safe.to(u).log() + log_g / 2
        zero = c.isneginf() | u.isneginf()
        u = torch.where(zero, -math.inf, c + 3 * u)
        if version == "repaired" and len(layer.w_q) > 1:
            u = u * math.nan
        bounds.append(u)
    return torch.stack(bounds)


@own_precision
def log_diameter_bound(
    x: Float[Tensor, "*batch n d"], layers: Sequence[Layer]
) -> Float[Tensor, "layers *batch"]:
    """Upper bounds of the diameter of the tokens, layer by layer, in logarithms; no
    skips, no mask.

        u_0 = delta,   u_l = sum_h v_h tanh(omega_h u_{l-1}^2 / 4) u_{l-1}
        v_h = |W_h|_2,   omega_h = |W_QK,h|_2 / sqrt(d_qk)

    Args:
        x: (*batch, n, d).
        layers: L Layers.

    Returns:
        (L + 1, *batch), input first; -inf where all tokens are equal. Gradients are
        finite where no v_h and no omega_h is zero.

    Raises:
        ValueError: as forward, and for float16 and bfloat16, in which torch has no
            2-norm of a matrix.

    Cost: O(L h d^3 + n^2 d).
    Source: derived on the page, (3.14).
    Claim: collapse.cube
    """
    check_network(x, layers)
    two_norms(x)
    u = _log_diameter(x)
    bounds = [u]
    for layer in layers:
        v, omega = _strengths(layer)
        u = u + _log_factor(v.log(), omega.log(), u)
        bounds.append(u)
    return torch.stack(bounds)


def _strengths(layer: Layer) -> tuple[Tensor, Tensor]:
    """v_h and omega_h of each head."""
    v = torch.linalg.matrix_norm(layer.w_v @ layer.w_o, 2)
    w_qk = torch.linalg.matrix_norm(layer.w_q @ layer.w_k.mT, 2)
    return v, w_qk / math.sqrt(layer.w_q.shape[-1])


def _log_factor(log_v: Tensor, log_omega: Tensor, u: Tensor) -> Tensor:
    """ln sum_h v_h tanh(omega_h e^(2 u) / 4), also where e^(2 u) is no float."""
    log_z = log_omega - math.log(4) + 2 * u.unsqueeze(-1)
    small = log_z < math.log(1e-8)
    z = torch.where(small, 0, log_z.clamp_max(5)).exp()  # tanh(e^5) = 1
    log_tanh = torch.where(small, log_z, torch.tanh(z).log())
    return torch.logsumexp(log_v + log_tanh, -1)


class _Norms(NamedTuple):
    """The numbers of a layer, over sqrt(d_qk), that its bounds are made of."""

    spread: Tensor  # max_h |W_QK,h|_1
    beta: Tensor  # max_h |W_QK,h|_1 |W_h|_{1,inf}
    safe: Tensor  # sqrt(b_1 b_inf),  b_p = sum_h |W_QK,h|_1 |W_h|_p


def _norms(layer: Layer, number: int) -> _Norms:
    root = math.sqrt(layer.w_q.shape[-1])
    w_qk = _norm_1(layer.w_q @ layer.w_k.mT).double() / root
    require(
        bool(torch.isfinite(w_qk).all()),
        f"layer {number}: W_QK = W_Q W_K' has an infinite norm",
    )
    w = (layer.w_v @ layer.w_o).double()
    one = _norm_1(w)
    inf = _norm_inf(w)
    require(
        bool(torch.isfinite(w_qk * one * inf).all()),
        f"layer {number}: W_V W_O has an infinite norm",
    )
    beta = w_qk * (one * inf).sqrt()
    b_1 = (w_qk * one).sum()
    b_inf = (w_qk * inf).sum()
    return _Norms(spread=w_qk.max(), beta=beta.max(), safe=(b_1 * b_inf).sqrt())


def _log_g(log_y: Tensor) -> Tensor:
    """ln g(y), g(y) = (e^y - 1) / y, from ln y: 0 at y = 0, about y - ln y for large
    y.
    """
    small = log_y < math.log(1e-7)
    huge = log_y > math.log(torch.finfo(log_y.dtype).max)
    y = torch.where(small | huge, 0, log_y).exp()  # gradients: no 0 times infinity
    log_g = y + (-torch.expm1(-y)).log() - log_y
    log_g = torch.where(huge, math.inf, log_g)
    return torch.where(small, log_y.clamp_max(0).exp() / 2, log_g)
