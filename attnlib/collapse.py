"""Rank collapse: how far the tokens are apart, layer by layer, and bounds of it.

    res(X) = X - 1 x',   x = X' 1 / n          what is not the same for all tokens
    delta = max_ik |x_i - x_k|                 their diameter, which a layer makes
    sum_h v_h tanh(omega_h delta^2 / 4) delta  at most

Sizes fall by the cube from layer to layer, soon below the smallest float: measured and
bounded are their logarithms, by `log_residuals`, `log_diameter_bound` and `log_bound`.

Page: notebooks/path_decomposition/rank_collapse
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib import _require
from attnlib._require import finite, own_precision, require, tokens
from attnlib.attention import Layer, check_network

Size = Literal["composite", "diameter"]
_State = tuple[Tensor, Tensor, Tensor]  # x, R and ln r with X = 1 x' + r R


def residual(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
    """What is left of the tokens after their mean is taken away.

        res(X) = X - 1 x',   x = X' 1 / n

    Zero if and only if all tokens are equal.

    Source: Xie 2021, Definition 2.1; the token mean minimises |X - 1 x'| in the 2-norm
        and the Frobenius norm.
    """
    tokens(x)
    finite(x=x)
    return x - x.mean(-2, keepdim=True)


def composite_norm(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch"]:
    """The geometric mean of the largest absolute column sum and the largest absolute
    row sum.

        |X|_{1,inf} = sqrt( |X|_1 |X|_inf )

    Not a norm: the triangle inequality fails.

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
    """The largest distance of two tokens, zero if and only if all are equal.

        delta = max_ik |x_i - x_k|,   Euclidean

    Cost: O(n^2 d).
    """
    tokens(x)
    finite(x=x)
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
    entries = differences.detach().flatten(-3)
    unit = entries.abs().amax(-1)
    unit = torch.where((unit > 0) & unit.isfinite(), unit, 1)
    differences = differences / unit[..., None, None, None]
    distances = differences.norm(dim=-1)
    return distances.amax((-2, -1)), unit


def log_residuals(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    size: Size = "composite",
) -> Float[Tensor, "layers *batch"]:
    """How large the residual is after each layer, as a logarithm, also where every
    float would be zero.

        ln |res(X_l)|_{1,inf}   for l = 0..L,   X_0 = X, no skips
        or ln delta_l, the diameter of the tokens

    The state is x, R and ln r with X = 1 x' + r R: what tokens share, and what differs,
    at size one. A layer turns it into 1 (..)' + r sum_h (P_h - 1 s_h') R W_h with s_h'
    the first row of P_h, whose difference is computed from that of the logits.

    Args:
        x: float64 recommended.
        size: "composite" for the composite norm of the residual, or "diameter".

    Returns:
        (L + 1, *batch), input first; -inf where all tokens are equal, as for n = 1.
        Error below 1e-8 unless logits reach hundreds; then tokens can fall into
        clusters closer than R can hold: digits are lost, and tokens that still differ
        may read -inf.

    Cost: O(n^2) a head as forward, with about ten times its exponentials.
    Claim: collapse.recursion
    """
    _require.one_of(get_args(Size), size=size)
    check_network(x, layers)
    shared = torch.zeros_like(x[..., 0, :])
    log_r = torch.zeros_like(x[..., 0, 0])
    states = [_recentre(shared, x, log_r)]
    for number, layer in enumerate(layers, 1):
        moved = _layer(states[-1], layer, number)
        states.append(_recentre(*moved))
    found = []
    for _, r, log_r in states:
        found.append(log_r if size == "composite" else log_r + _log_diameter(r))
    return torch.stack(found)


def _recentre(x: Tensor, r: Tensor, size: Tensor) -> _State:
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


def _layer(state: _State, layer: Layer, number: int) -> _State:
    """One layer on the state 1 x' + e^size r: the new shared row, the new rest and the
    logarithm of its scale.
    """
    x, r, size = state
    # Row i of a head has the logits l + e^(2 size) e_i. What a row adds to all of its
    # logits alike is left out.
    x = x[..., None, None, :]  # heads before rows
    r = r.unsqueeze(-3)
    root = math.sqrt(layer.w_q.shape[-1])
    q = x @ layer.w_q
    if layer.b_q is not None:
        q = q + layer.b_q.unsqueeze(-2)
    keys = r @ layer.w_k / root
    logits = _scaled(q @ keys.mT, size)  # (*batch, h, 1, n)
    e = (r @ layer.w_q) @ keys.mT
    top = e.abs().amax((-3, -2, -1))
    known = top.isfinite().all() & logits.isfinite().all()
    require(
        bool(known),
        f"layer {number}: logits overflow; W_QK has an infinite norm, "
        f"or one too large for {x.dtype}",
    )

    # The rows of P are compared with its first row: they may agree far better than
    # with softmax(l).
    first = e[..., :1, :]
    logits = logits + _scaled(first, 2 * size)
    log_s = torch.log_softmax(logits, -1)
    s = log_s.exp()
    e = e - first

    # A row of logits may be shifted freely: zero in the column where s is largest.
    pivot = log_s.argmax(-1, keepdim=True)
    column = pivot.expand(*e.shape[:-1], 1)
    e = e - e.gather(-1, column)

    # Where logits move less than one can tell from one, the first order without its
    # factor e^(2 size).
    negligible = math.log(torch.finfo(x.dtype).eps / 20)
    linear = 2 * size + top.log() < negligible
    first_order = s * (e - e @ s.mT)
    in_full = _difference(_scaled(e, 2 * size), s, log_s)
    d = torch.where(linear[..., None, None, None], first_order, in_full)

    # The rows of d sum to zero: from all values that of the pivot may be subtracted,
    # and then the pivot's entries of d are not needed.
    values = r @ layer.w_v
    row = pivot.expand(*pivot.shape[:-1], values.shape[-1])
    apart = values - values.gather(-2, row)
    heads = d.scatter(-1, column, 0) @ apart @ layer.w_o

    alike = x @ layer.w_v + _scaled(s @ values, size)
    if layer.b_v is not None:
        alike = alike + layer.b_v.unsqueeze(-2)
    moved = (alike @ layer.w_o).sum((-3, -2))
    if layer.b_o is not None:
        moved = moved + layer.b_o
    size = torch.where(linear, 3 * size, size)
    return moved, heads.sum(-3), size


def _difference(v: Tensor, s: Tensor, log_s: Tensor) -> Tensor:
    """softmax(log_s + v) - s, without cancellation, for v with a zero in the column
    where s is largest.
    """
    most = v.amax(-1, keepdim=True).clamp_min(0)
    near = torch.log1p(v.clamp_max(1).expm1() @ s.mT)
    far = torch.logsumexp(log_s + v, -1, keepdim=True)  # s itself may have underflowed
    log_ratio = v - torch.where(most < 1, near, far)  # of P / s
    small = s * log_ratio.clamp_max(1).expm1()
    large = (log_s + log_ratio).exp() - s
    return torch.where(log_ratio < 1, small, large)


@own_precision
def log_bound(
    x: Float[Tensor, "*batch n d"], layers: Sequence[Layer]
) -> Float[Tensor, "layers *batch"]:
    """Upper bounds of log_residuals, layer by layer, in logarithms; no skips.

        u_0 = |res X|_{1,inf},   u_l = c_l u_{l-1}^3
        c_l = sqrt(g(2 D_l) b_1 b_inf / d_qk),   g(y) = (e^y - 1) / y,
        b_p = sum_h |W_QK,h|_1 |W_h|_p,
        D_l = max_h |W_QK,h|_1 u_{l-1}^2 / sqrt(d_qk)

    Returns:
        (L + 1, *batch), input first. +inf: true but beyond the range of floats. -inf:
        the residual is exactly zero.

    Source: derived on the page, (2.17).
    Claim: collapse.multi-head
    """
    check_network(x, layers)
    u = _composite_norm(residual(x)).log()
    bounds = [u]
    for number, layer in enumerate(layers, 1):
        log_spread, log_c = _log_norms(layer, number)
        log_g = _log_g(math.log(2) + log_spread + 2 * u)  # ln g(2 D_l)
        c = log_c + log_g / 2
        zero = c.isneginf() | u.isneginf()
        u = torch.where(zero, -math.inf, c + 3 * u)
        bounds.append(u)
    return torch.stack(bounds)


def _log_norms(layer: Layer, number: int) -> tuple[Tensor, Tensor]:
    """ln of max_h |W_QK,h|_1 and of sqrt(b_1 b_inf), both over sqrt(d_qk)."""
    root = math.sqrt(layer.w_q.shape[-1])
    w_qk = _norm_1(layer.w_q @ layer.w_k.mT).double() / root
    w_v = layer.w_v
    w = (w_v @ layer.w_o).double()
    one = _norm_1(w)
    inf = _norm_inf(w)
    require(
        bool(torch.isfinite(w_qk * one * inf).all()),
        f"layer {number}: W_QK = W_Q W_K' or W_V W_O has an infinite norm",
    )
    b_1 = (w_qk * one).sum()
    b_inf = (w_qk * inf).sum()
    spread = w_qk.max()
    safe = (b_1 * b_inf).sqrt()
    return spread.to(w_v).log(), safe.to(w_v).log()


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


@own_precision
def log_diameter_bound(
    x: Float[Tensor, "*batch n d"], layers: Sequence[Layer]
) -> Float[Tensor, "layers *batch"]:
    """Upper bounds of the diameter of the tokens, layer by layer, in logarithms; no
    skips, no mask.

        u_0 = delta,   u_l = sum_h v_h tanh(omega_h u_{l-1}^2 / 4) u_{l-1}
        v_h = |W_h|_2,   omega_h = |W_QK,h|_2 / sqrt(d_qk)

    Returns:
        (L + 1, *batch), input first; -inf where all tokens are equal. Gradients are
        finite where no v_h and no omega_h is zero.

    Source: derived on the page, (2.5).
    Claim: collapse.cube
    """
    check_network(x, layers)
    _require.two_norms(x)
    u = _log_diameter(x)
    bounds = [u]
    for layer in layers:
        root = math.sqrt(layer.w_q.shape[-1])
        v = torch.linalg.matrix_norm(layer.w_v @ layer.w_o, 2)
        w_qk = layer.w_q @ layer.w_k.mT
        omega = torch.linalg.matrix_norm(w_qk, 2) / root
        u = u + _log_factor(v.log(), omega.log(), u)
        bounds.append(u)
    return torch.stack(bounds)


def _log_factor(log_v: Tensor, log_omega: Tensor, u: Tensor) -> Tensor:
    """ln sum_h v_h tanh(omega_h e^(2 u) / 4), also where e^(2 u) is no float."""
    log_z = log_omega - math.log(4) + 2 * u.unsqueeze(-1)
    small = log_z < math.log(1e-8)
    z = torch.where(small, 0, log_z.clamp_max(5)).exp()  # tanh(e^5) = 1
    log_tanh = torch.where(small, log_z, torch.tanh(z).log())
    return torch.logsumexp(log_v + log_tanh, -1)
