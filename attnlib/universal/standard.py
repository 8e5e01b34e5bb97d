"""The network in standard layers: softmax at an inverse temperature, four ReLUs for a
jump, clamps at the end, in floats.

    Z <- K X + K e 1';   Z <- Z + sublayer(Z);   Z / K
    attention:  two heads of size one that read a = u . z:  N (h_v - h_(v+1)),
                h_v = sum_k softmax_k(beta a_k (a_j - v + 1/2)) a_k
    a jump:     four ReLUs: slope x + offset between two cuts and 0 outside
    clamp:      two ReLUs take off what lies beyond the bound
    support:    four ReLUs send an entry outside the cube to a constant; in the end two
                lift rows that no value layer met, and four send them to 0

Page: notebooks/sparse_universality/from_integers_to_softmax
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib._require import (
    finite,
    floating,
    is_a,
    is_list,
    is_tensor,
    matches,
    numbers,
    own_precision,
    place,
    require,
)
from attnlib.attention import Layer, Mlp, feed_forward, forward
from attnlib.universal.context import ContextualMap, Shift, schedule
from attnlib.universal.network import UniversalNetwork, _inside, value_layers


@dataclass(frozen=True, eq=False)
class Sublayer:
    """Attention under a mask, or a feed-forward part, with its skip.

    Args:
        kind: "quantise", "attention", "value" or "clamp"; with a support, also
            "outside" and "lift".
        layer: a Layer or None.
        mlp: an Mlp or None.
        mask: (n, n), for attention.

    Source: Yun et al. 2020a, 2020b, recalled: blocks of two heads of size one and of
        four hidden units.
    """

    kind: str
    layer: Layer | None = None
    mlp: Mlp | None = None
    mask: Tensor | None = None


def ramp_mlp(
    read: Float[Tensor, " d"],
    write: Float[Tensor, " d"],
    cuts: tuple[float, float],
    slope: float,
    offset: float,
    ramp: float,
) -> Mlp:
    """Four ReLUs that are slope x + offset between two cuts and 0 outside, up to two
    ramps.

        x = read . z;   write times

        s_1 R(x - c_1 + e) + (a - s_1) R(x - c_1)
            + (s_2 - a) R(x - c_2 + e) - s_2 R(x - c_2)

        s_1 = (a c_1 + b) / e,   s_2 = -(a (c_2 - e) + b) / e

    so the ramps are [c_1 - e, c_1) and (c_2 - e, c_2).

    Args:
        cuts: c_1 < c_2.
        slope, offset, ramp: a, b, and e, 0 < e <= c_2 - c_1.

    Source: Yun et al. 2020a, recalled; the formula is derived on the page.
    Claim: universal.ramps
    """
    is_tensor("read", read)
    require(read.dim() == 1, f"read must be (d,), got {tuple(read.shape)}")
    matches("write", write, tuple(read.shape), read, "read")
    floating(read.dtype)
    finite(read=read, write=write)
    is_list(cuts=cuts)
    require(len(cuts) == 2, f"cuts must be two numbers, got {len(cuts)}")
    low, high = cuts
    numbers(**{"cuts[0]": low, "cuts[1]": high})
    numbers(slope=slope, offset=offset, ramp=ramp)
    require(
        0 < ramp <= high - low,
        f"ramp must be positive and at most {high - low}, got {ramp}",
    )
    s_1 = (slope * low + offset) / ramp
    s_2 = -(slope * (high - ramp) + offset) / ramp
    rises = read.new_tensor([s_1, slope - s_1, s_2 - slope, -s_2])
    knots = read.new_tensor([low - ramp, low, high - ramp, high])
    return Mlp(
        w_1=read[:, None].expand(-1, 4),
        w_2=rises[:, None] * write,
        b_1=-knots,
    )


def standard(
    network: UniversalNetwork,
    *,
    ramp: float = 1e-3,
    value_ramp: float = 0.25,
    order: str = "decreasing",
    clamp: float | None = None,
    support: bool = False,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> list[Sublayer]:
    """The layers of the network as weights: Layers of two heads of size one, Mlps of
    four ReLUs, in units of a cell.

    Outputs are right to 3 2^(bits - digits) cells, as a row is written as a difference
    from its id; dtype must have two digits more than the ids have bits (the knots are
    quarters).

    Args:
        ramp, value_ramp: e of the quantiser and of the value layers, in cells.
        order: of the value layers, as in value_layers.
        clamp: F, bound of |f|; None for no clamps.
        support: let the output be 0 if an entry of x lies outside [0, 1), off the
            ramps; for a network without positions, and with clamps.
        dtype, device: of the weights.

    Source: Yun et al. 2020b, recalled; differs: the order of the value layers and the
        clamps are ours.
    Claim: universal.lp
    """
    is_a(UniversalNetwork, network=network)
    numbers(value_ramp=value_ramp)
    require(
        0 < value_ramp <= 1,
        f"value_ramp must be positive and at most 1, got {value_ramp}",
    )
    p = network.mapping
    floating(dtype)
    eps = torch.finfo(dtype).eps
    digits = 1 - round(math.log2(eps))
    require(
        network.bits + 2 <= digits,
        f"ids of {network.bits} bits and quarters of them: {dtype} holds {digits} bits",
    )
    place(device)
    u = torch.tensor([p.cells**i for i in range(p.d)], dtype=dtype, device=device)
    axes = torch.eye(p.d, dtype=dtype, device=device)
    sublayers = []
    is_a(bool, support=support)
    require(
        not support or (clamp is not None and not p.path),
        "support: only with clamp, and for a network without positions",
    )
    if support:
        for axis in axes:
            mlp = _outside_mlp(axis, p.cells, p.top + 3, ramp)
            sublayers.append(Sublayer("outside", mlp=mlp))
    for axis in axes:
        for k in range(p.levels):
            mlp = ramp_mlp(axis, axis, (k, k + 1), -1.0, k, ramp)
            sublayers.append(Sublayer("quantise", mlp=mlp))
    masks = [torch.from_numpy(m).to(device) for m in p.masks]
    for shift in schedule(p):
        layer = _shift_layer(shift, u, axes[0])
        sublayers.append(Sublayer("attention", layer, mask=masks[shift.step]))
    for ident, row, target in value_layers(network, order):
        write = p.cells * target.to(u) - u.new_tensor(row)
        cuts = (ident - 0.5, ident + 0.5)
        mlp = ramp_mlp(u, write, cuts, 0.0, 1.0, value_ramp)
        sublayers.append(Sublayer("value", mlp=mlp))
    if clamp is not None:
        numbers(clamp=clamp)
        require(clamp > 0, f"clamp must be positive, got {clamp}")
        bound = clamp * p.cells
        if support:
            mlp = _lift_mlp(u, p.constant * (p.top + 1), bound + 2)
            sublayers.append(Sublayer("lift", mlp=mlp))
        for axis in axes:
            mlp = _cut_mlp(axis, bound) if support else _clamp_mlp(axis, bound)
            sublayers.append(Sublayer("clamp", mlp=mlp))
    return sublayers


def _shift_layer(shift: Shift, u: Tensor, write: Tensor) -> Layer:
    """The shift as two heads of size one that read u . z and write along one axis."""
    w = u[:, None].expand(2, -1, 1)
    low = shift.value - 0.5
    high = shift.value + 0.5
    signs = (1.0, 0.0) if shift.every else (1.0, -1.0)
    factors = shift.factor * u.new_tensor(signs)
    return Layer(
        w_q=w,
        w_k=w,
        w_v=w,
        w_o=factors[:, None, None] * write,
        b_q=u.new_tensor([[-low], [-high]]),
    )


def _clamp_mlp(axis: Tensor, bound: float) -> Mlp:
    """Takes off what lies beyond the bound along the axis, on both sides."""
    both = torch.stack([axis, -axis], 1)
    bias = axis.new_tensor([-bound, -bound])
    return Mlp(w_1=both, w_2=-both.T, b_1=bias)


def _outside_mlp(axis: Tensor, cells: int, constant: float, ramp: float) -> Mlp:
    """Takes an entry outside [0, K) to the constant; the ramps are [-e, 0) and
    [K - e, K).
    """
    left = (constant + ramp) / ramp
    right = (constant - cells) / ramp
    signs = axis.new_tensor([-1.0, -1.0, 1.0, 1.0])
    knots = axis.new_tensor([0.0, -ramp, ramp - cells, -cells])
    rises = axis.new_tensor([left, 1 - left, right, -1 - right])
    return Mlp(w_1=axis[:, None] * signs, w_2=rises[:, None] * axis, b_1=knots)


def _lift_mlp(u: Tensor, ident: float, height: float) -> Mlp:
    """Adds the height to all entries of a row whose u . z is more than the id by 1."""
    rises = u.new_tensor([height, -height])
    return Mlp(
        w_1=u[:, None].expand(-1, 2),
        w_2=rises[:, None].expand(-1, len(u)),
        b_1=u.new_tensor([-ident, -ident - 1]),
    )


def _cut_mlp(axis: Tensor, bound: float) -> Mlp:
    """Clamps to the bound on both sides, and takes what is above it by 2 to 0."""
    signs = axis.new_tensor([-1.0, 1.0, 1.0, 1.0])
    rises = axis.new_tensor([1.0, -1.0, -bound, bound])
    knots = axis.new_tensor([-bound, -bound, -bound - 1, -bound - 2])
    return Mlp(w_1=axis[:, None] * signs, w_2=rises[:, None] * axis, b_1=knots)


@own_precision
def run_standard(
    x: Float[Tensor, "*batch n d"],
    sublayers: Sequence[Sublayer],
    mapping: ContextualMap,
    *,
    scale: float | None,
) -> Float[Tensor, "*batch n d"]:
    """The output of the standard layers, by attention.forward and
    attention.feed_forward.

        Z <- K X + K e 1';   every layer with its skip, logits times beta;   Z / K

    It gives ids instead of outputs if the sublayers end before the value layers.

    Args:
        x: entries in [0, 1), or any if the sublayers have a support.
        sublayers, mapping: of standard, and network.mapping.
        scale: beta, the inverse temperature, factor of the logits; None for hardmax.

    Source: Yun et al. 2020b, recalled.
    Claim: universal.temperature
    """
    is_a(ContextualMap, mapping=mapping)
    is_list(sublayers=sublayers)
    for sublayer in sublayers:
        is_a(Sublayer, **{"each of sublayers": sublayer})
    anywhere = len(sublayers) > 0 and sublayers[0].kind == "outside"
    _inside(x, mapping, anywhere=anywhere)
    how = {"normalizer": "hardmax"}
    if scale is not None:
        numbers(scale=scale)
        require(scale > 0, f"scale must be positive, got {scale}")
        require(scale <= 1e200, "scale must be at most 1e200")
        how = {"scale": scale}
    codes = torch.tensor(mapping.codes, dtype=x.dtype, device=x.device)
    z = mapping.cells * (x + codes[:, None])
    for sublayer in sublayers:
        layer = sublayer.layer
        if layer is None:
            z = z + feed_forward(z, sublayer.mlp, check=False)
        elif layer.w_o.any():  # a layer that waits changes nothing
            z = forward(z, [layer], skip=True, mask=sublayer.mask, check=False, **how)
    return z / mapping.cells


def enough_scale(mapping: ContextualMap) -> float:
    """An inverse temperature at which, off the ramps, every id of the softmax network
    is within 1/8 of its integer.

        (32 / 9) ln( 104 n^2 p N^(n+1) (C + 1)^(2 s) (m + 1) )

    Source: derived on the page.
    Claim: universal.temperature
    """
    is_a(ContextualMap, mapping=mapping)
    n = mapping.n
    N = mapping.size
    growth = (mapping.constant + 1) ** (2 * mapping.hops)
    inside = 104 * n**2 * mapping.period * N ** (n + 1) * growth * (mapping.top + 1)
    return 32 / 9 * math.log(inside)
