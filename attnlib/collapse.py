"""Rank collapse: the residual, its norm, bounds as printed and as repaired, and a
recursion that never underflows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib._require import finite, require, tokens
from attnlib.attention import Layer, check_network, merged

Version = Literal["printed", "repaired", "safe"]


def residual(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
    """What is left of the tokens after their mean is taken away.

        res(X) = X - 1 x',   x = X' 1 / n

    Args:
        x: (*batch, n, d), tokens are rows.

    Returns:
        (*batch, n, d); zero if and only if all tokens are equal.

    Raises:
        ValueError: for integer x, no token, NaN or infinity.

    Cost:
        O(n d).

    Source:
        Xie 2021, Definition 2.1; the token mean minimises |X - 1 x'| in the 2-norm and
        the Frobenius norm.

    Page:
        notebooks/path_decomposition/rank_collapse
    """
    tokens(x)
    finite(x=x)
    return x - x.mean(-2, keepdim=True)


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

    Cost:
        O(n d).

    Source:
        Dong et al. 2021; Xie 2021, Definition 2.1.

    Page:
        notebooks/path_decomposition/rank_collapse
    """
    tokens(x)
    finite(x=x)
    columns, rows = x.abs().sum(-2).amax(-1), x.abs().sum(-1).amax(-1)
    return (columns * rows).sqrt()


def log_residuals(
    x: Float[Tensor, "*batch n d"], layers: Sequence[Layer], *, check: bool = True
) -> Float[Tensor, "layers *batch"]:
    """How large the residual is after each layer, as a logarithm, also where every
    float would be zero.

        ln |res(X_l)|_{1,inf}   for l = 0..L,   X_0 = X, no skips

    The state is x, R and ln r with X = 1 x' + r R: what tokens share, and what differs,
    at size one. A layer turns it into 1 (..)' + r sum_h (P_h - 1 s_h') R W_h with s_h'
    the first row of P_h, whose difference is computed from that of the logits.

    Args:
        x: (*batch, n, d), float64 recommended.
        layers: L Layers.
        check: look for NaN and infinity.

    Returns:
        (L + 1, *batch), input first; -inf where all tokens are equal, as for n = 1.
        Error below 1e-8 unless logits reach hundreds; then tokens can fall into
        clusters closer than R can hold: digits are lost, and tokens that still differ
        may read -inf.

    Raises:
        ValueError: as forward (also for d_qk = 0), and for logits that overflow (W_QK
            of infinite norm).

    Cost:
        at most three forward passes.

    Source:
        not taken from a paper.

    Claim:
        collapse.recursion

    Page:
        notebooks/path_decomposition/rank_collapse
    """
    check_network(x, layers, check=check)
    shared, rest, size = _recentre(
        x.new_zeros(*x.shape[:-2], x.shape[-1]), x, x.new_zeros(x.shape[:-2])
    )
    sizes = [size]
    for number, layer in enumerate(layers, 1):
        moved, rest, scale = _layer(shared, rest, size, layer, number if check else 0)
        shared, rest, size = _recentre(moved, rest, scale)
        sizes.append(size)
    return torch.stack(sizes)


def _recentre(x: Tensor, r: Tensor, size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The state 1 x' + e^size r, with the mean of r moved into x and r brought to
    composite norm one.
    """
    mean = r.mean(-2)
    r = r - mean.unsqueeze(-2) if r.shape[-2] > 1 else torch.zeros_like(r)
    norm = (r.abs().sum(-2).amax(-1) * r.abs().sum(-1).amax(-1)).sqrt()
    r = r / torch.where(norm > 0, norm, 1)[..., None, None]
    return x + size.exp().unsqueeze(-1) * mean, r, size + norm.log()


def _layer(
    x: Tensor, r: Tensor, size: Tensor, layer: Layer, number: int
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer on the state 1 x' + e^size r: the new shared row, the new rest and the
    logarithm of its scale.
    """
    root, rows = math.sqrt(layer.w_q.shape[-1]), r.unsqueeze(-3)
    q = (x[..., None, None, :] @ layer.w_q).squeeze(-2)  # (*batch, h, d_qk)
    q = q if layer.b_q is None else q + layer.b_q
    keys = rows @ layer.w_k / root
    logits = (keys @ q.unsqueeze(-1)).squeeze(-1) * size.exp()[..., None, None]
    e = (
        rows @ layer.w_q
    ) @ keys.mT  # times e^(2 size): the part of the logits that differs between rows
    top = e.abs().amax((-3, -2, -1))
    finite_logits = not number or bool(
        torch.isfinite(top).all() and torch.isfinite(logits).all()
    )
    require(
        finite_logits,
        f"layer {number}: logits overflow; W_QK has an infinite norm, or one too large for {x.dtype}",
    )
    first = e[
        ..., :1, :
    ]  # the rows are compared with the first row of P: they may agree far better than with softmax(r)
    log_s = torch.log_softmax(
        logits + (2 * size).exp()[..., None, None] * first.squeeze(-2), -1
    )
    e = e - first
    s, pivot = log_s.exp(), log_s.argmax(-1, keepdim=True)
    e = e - e.gather(-1, pivot.unsqueeze(-2).expand(*e.shape[:-1], 1))
    linear = 2 * size + top.log() < math.log(torch.finfo(x.dtype).eps / 20)
    d = _difference(e, s, log_s, size, linear)
    values = rows @ layer.w_v
    own = s.unsqueeze(-2) @ values
    values = values - values.gather(
        -2, pivot.unsqueeze(-1).expand(*pivot.shape, values.shape[-1])
    )
    r = (
        d.scatter(-1, pivot.unsqueeze(-2).expand(*d.shape[:-1], 1), 0)
        @ values
        @ layer.w_o
    ).sum(-3)
    value = x[..., None, None, :] @ layer.w_v + size.exp()[..., None, None, None] * own
    value = value if layer.b_v is None else value + layer.b_v.unsqueeze(-2)
    moved = (value @ layer.w_o).sum((-3, -2))
    return (
        moved if layer.b_o is None else moved + layer.b_o,
        r,
        torch.where(linear, 3 * size, size),
    )


def _difference(
    e: Tensor, s: Tensor, log_s: Tensor, size: Tensor, linear: Tensor
) -> Tensor:
    """softmax(1 log_s' + e^(2 size) e) - 1 s', for e with a zero in the column where s
    is largest.

    Where linear, the part of first order in e without its factor e^(2 size): what is
    left out rounds away.
    """
    s, log_s = s.unsqueeze(-2), log_s.unsqueeze(-2)
    first = s * (e - e @ s.mT) if linear.any() else e
    if linear.all():
        return first
    v = (2 * size).exp()[..., None, None, None] * e
    most = v.amax(-1, keepdim=True).clamp_min(0)
    if most.max() < 1:  # after a layer or two; half the exponentials
        d = s * (v - torch.log1p(v.expm1() @ s.mT)).expm1()
    else:
        near = torch.log1p(v.clamp_max(1).expm1() @ s.mT)
        far = torch.logsumexp(
            log_s + v, -1, keepdim=True
        )  # s itself may have underflowed
        v = v - torch.where(most < 1, near, far)  # the logarithm of P / s
        d = torch.where(v < 1, s * v.clamp_max(1).expm1(), (log_s + v).exp() - s)
    return torch.where(linear[..., None, None, None], first, d)


def log_bound(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    version: Version = "safe",
) -> Float[Tensor, "layers *batch"]:
    """Upper bounds of log_residuals, layer by layer, in logarithms; no skips.

        u_0 = |res X|_{1,inf},   u_l = c_l u_{l-1}^3
        printed:   c = 4 beta H / sqrt(d_qk), one for all layers, beta = max |W_QK|_1 |W_h|_{1,inf}
        repaired:  c_l = sqrt(g(2 D_l)) |W_QK|_1 |W|_{1,inf} / sqrt(d_qk),   D_l = |W_QK|_1 u_{l-1}^2 / sqrt(d_qk)
        safe:      c_l = sqrt(g(2 D_l) b_1 b_inf / d_qk),   b_p = sum_h |W_QK,h|_1 |W_h|_p,   D_l with max_h

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

    Cost:
        O(L h d^2 (d_qk + d_v)).

    Source:
        printed: Xie 2021, Theorem 2.2 (H as in Dong et al. 2021, recalled); the others
        are derived on the page.

    Claim:
        collapse.multi-head

    Page:
        notebooks/path_decomposition/rank_collapse
    """
    require(
        version in get_args(Version),
        f"version must be one of {list(get_args(Version))}, got {version!r}",
    )
    check_network(x, layers)
    u, norms = (
        composite_norm(residual(x)).log(),
        [_norms(layer, number) for number, layer in enumerate(layers, 1)],
    )
    widest, printed = (
        max(len(layer.w_q) for layer in layers),
        max(n.beta for n in norms),
    )
    bounds = [u]
    for layer, n in zip(layers, norms):
        if version == "printed":
            c = u.new_tensor(4 * widest * printed).log()
        else:
            c = (
                u.new_tensor(n.safe).log()
                + _log_g(math.log(2) + u.new_tensor(n.spread).log() + 2 * u) / 2
            )
        u = torch.where(c.isneginf() | u.isneginf(), -math.inf, c + 3 * u)
        if version == "repaired" and len(layer.w_q) > 1:
            u = u * math.nan
        bounds.append(u)
    return torch.stack(bounds)


class _Norms(NamedTuple):
    spread: float  # max_h |W_QK,h|_1 / sqrt(d_qk)
    beta: float  # max_h |W_QK,h|_1 |W_h|_{1,inf} / sqrt(d_qk)
    safe: (
        float  # sqrt(sum_h |W_QK,h|_1 |W_h|_1  sum_h |W_QK,h|_1 |W_h|_inf) / sqrt(d_qk)
    )


def _norms(layer: Layer, number: int) -> _Norms:
    w = (layer.w_q @ layer.w_k.mT).abs().sum(-2).amax(-1).double() / math.sqrt(
        layer.w_q.shape[-1]
    )
    require(
        bool(torch.isfinite(w).all()),
        f"layer {number}: W_QK = W_Q W_K' has an infinite norm",
    )
    values = merged(layer)[0].abs().double()
    one, inf = values.sum(-2).amax(-1), values.sum(-1).amax(-1)
    require(
        bool(torch.isfinite(w * one * inf).all()),
        f"layer {number}: W_V W_O has an infinite norm",
    )
    safe = ((w * one).sum() * (w * inf).sum()).sqrt()
    return _Norms(float(w.max()), float((w * (one * inf).sqrt()).max()), float(safe))


def _log_g(log_y: Tensor) -> Tensor:
    """ln g(y), g(y) = (e^y - 1) / y, from ln y: 0 at y = 0, about y - ln y for large
    y.
    """
    y = log_y.exp()
    return torch.where(
        y < 1e-7,
        y / 2,
        torch.where(y.isinf(), math.inf, y + (-torch.expm1(-y)).log() - log_y),
    )
