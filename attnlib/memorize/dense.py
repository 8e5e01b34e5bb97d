"""The memorizing block with every weight written out: a unit an id along one direction,
or four units a group of ids,

    relu(u + e + eta p) - relu(u + e) - relu(u - e + eta p) + relu(u - e)

which is eta p where |u| + eta |p| <= e, and 0 where |u| >= e + eta |p|. Both u and p
are linear in the vector that is read; on the group u is 0, and p is the label.

Page: notebooks/one_layer_memorization/memorization
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from attnlib import _require
from attnlib._require import finite, is_a, require
from attnlib.attention import Layer, forward
from attnlib.memorize.line import fit_line
from attnlib.memorize.memorizer import Memorizer

LOOKS = 100  # hyperplanes among which a group chooses


class Dense(NamedTuple):
    """One attention layer of rank one and a feed-forward part, as dense weights.

    Args:
        layer: with one head.
        w_1, b_1: (d, D) and (D,), what the units read.
        w_2, b_2: (D, d) and (d,), what they write.
        undo: (d, d), takes the skip away.
    """

    layer: Layer
    w_1: Tensor
    b_1: Tensor
    w_2: Tensor
    b_2: Tensor
    undo: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """h = x + attention(x), then h + relu(h w_1 + b_1) w_2 + b_2 + h undo."""
        h = forward(x, [self.layer], skip=True)
        units = torch.relu(h @ self.w_1 + self.b_1)
        return h + units @ self.w_2 + self.b_2 + h @ self.undo

    @property
    def parameters(self) -> int:
        """Numbers in it; each of the four rank-one matrices is a column times a row, s
        + d numbers.
        """
        layer, *rest = self
        matrices = (layer.w_q, layer.w_k, layer.w_v, layer.w_o)
        head = sum(sum(w.shape[-2:]) for w in matrices)
        return head + sum(t.numel() for t in rest)


def dense_block(net: Memorizer) -> Dense:
    """The block of a Memorizer, every unit reading and writing all features; the last
    ones stay zero if labels are fewer.

        W_1 = v 1',   b_1 = -knots,   W_2 = the coefficients,   undo = -I

    Args:
        net: with at most d label features.

    Returns:
        Dense, in the dtype of net; its floats form z + w f and long sums, so it is
        exact for few ids only.

    Source: Kajitsuka and Sato 2024, Corollary 1 (recalled).
    Claim: memorize.block
    """
    is_a(Memorizer, net=net)
    d = len(net.v)
    labels = net.values
    count, c = labels.shape
    require(c <= d, f"net must have at most d = {d} label features, got {c}")
    line = fit_line(net.token + net.report.w * net.context, labels)
    columns = net.v[:, None].expand(d, count)
    eye = torch.eye(d, dtype=net.v.dtype, device=net.v.device)
    return Dense(
        net.layer,
        w_1=columns.clone(),
        b_1=-line.knots,
        w_2=pad(line.coefficients, (0, d - c)),
        b_2=torch.zeros_like(net.v),
        undo=-eye,
    )


@dataclass(frozen=True, eq=False)
class Grouped:
    """One hidden layer of ReLU units that reads a vector, four units a group of points.

        F(h) = relu(h w_1 + b_1) w_2

    Args:
        w_1, b_1: (d, 4 G) and (4 G,).
        w_2: (4 G,).
        group: (D,), the group of each point.
        error: proved: at no point is F, in the reals or in floats, in whatever order
            its sums are taken, further from the label.
    """

    w_1: Tensor
    b_1: Tensor
    w_2: Tensor
    group: Tensor
    error: float

    def __call__(self, h: Tensor) -> Tensor:
        """F at the points h (*batch, d)."""
        _require.is_tensor("h", h)
        size = (*h.shape[:-1], len(self.w_1))
        _require.matches("h", h, size, self.w_1, "w_1")
        return torch.relu(h @ self.w_1 + self.b_1) @ self.w_2

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return self.w_1.numel() + self.b_1.numel() + self.w_2.numel()


@_require.own_precision
def fit_groups(
    points: Float[Tensor, "D d"],
    labels: Float[Tensor, " D"],
    *,
    tokens: Int[Tensor, " D"] | None = None,
    generator: torch.Generator,
    draws: int = 8,
    groups: int = 1,
) -> Grouped:
    """A hidden layer that reads the whole vector: four units give a group of at most d
    points any labels, and are silent at all others.

    Args:
        points: float32 or float64, all different.
        tokens: points of one token never share a group, as the ids of one token lie on
            a line; None if no three points do.
        generator: deals the points to groups, and chooses among hyperplanes.
        draws: deals that are tried; the one with the smallest error is kept.
        groups: at least so many. Smaller groups leave hyperplanes to choose from, and
            the weights become smaller.

    Returns:
        Grouped, with 4 max(ceil(D / d), most points of one token, groups) units.

    Raises:
        ValueError: also where no draw has an error below half the distance of two
            labels.

    Cost: O(draws D G d) time for G groups, 100 times that where hyperplanes are to
        choose from; O(D G) memory.
    Source: Bubeck, Eldan, Lee and Mikulincer 2020 say in their abstract that four times
        ceil(D / d) units are enough, after Baum 1988; the proof is the page's.
    Claim: memorize.grouped
    """
    _check_points(points, labels, tokens)
    _require.random(generator)
    _require.sizes(1, draws=draws, groups=groups)
    points, labels = points.detach(), labels.detach()
    best = None
    for _ in range(draws):
        group = _deal(points, tokens, generator, groups)
        net = _four_units(points, labels, group, generator)
        if best is None or net.error < best.error:
            best = net
    apart = labels.unique().diff()
    if not len(apart):
        apart = labels[:1].abs()  # one label: its distance from 0, or 1 for 0 itself
    least = float(apart.min()) or 1.0
    require(
        best.error < least / 2,
        f"no deal of {draws} keeps points apart in {points.dtype}: the error may be "
        f"{best.error:.2g} where labels are {least:.2g} apart. Points of one token lie "
        "on a line: are tokens given?",
    )
    return best


def _check_points(points: Tensor, labels: Tensor, tokens: Tensor | None) -> None:
    """Points (D, d), a label and perhaps a token for each."""
    _require.is_floating("points", points)
    require(
        points.dim() == 2 and 0 not in points.shape and points.element_size() > 2,
        "points must be (D, d) with at least one point, in float32 or float64, got "
        f"{points.dtype} {tuple(points.shape)}",
    )
    _require.matches("labels", labels, points.shape[:1], points, "points")
    finite(points=points, labels=labels)
    different = len(points.detach().unique(dim=0))
    require(different == len(points), f"points must differ, and {different} do")
    if tokens is None:
        return
    _require.is_tensor("tokens", tokens)
    _require.same_device("tokens", tokens, points.device, "points")
    other = tokens.is_floating_point() or tokens.is_complex()
    require(
        not other and tokens.dtype != torch.bool and tokens.shape == labels.shape,
        f"tokens must be ({len(points)},) integers",
    )


def _deal(
    points: Tensor, tokens: Tensor | None, generator: torch.Generator, least: int = 1
) -> Tensor:
    """A group for each point, as one deals cards: the points of a token follow each
    other, so that each goes to another group.
    """
    count, d = points.shape
    order = torch.randperm(count, generator=generator, device=generator.device)
    order = order.to(points.device)
    groups = max(math.ceil(count / d), min(least, count))
    if tokens is not None:
        order = order[tokens[order].argsort(stable=True)]
        most = int(tokens.unique(return_counts=True)[1].max())
        groups = max(groups, most)
    group = torch.empty_like(order)
    group[order] = torch.arange(count, device=points.device) % groups
    return group


def _four_units(
    points: Tensor, labels: Tensor, group: Tensor, generator: torch.Generator
) -> Grouped:
    """The units of these groups, and what they may miss the labels by."""
    groups = int(group.max()) + 1
    raised = pad(points, (0, 1), value=1.0)
    members = _members(group, groups)
    value = torch.linalg.pinv(raised[members]) @ labels[members][..., None]
    value = value[..., 0]
    p = (raised @ value.T).abs()
    own = group[:, None] == torch.arange(groups, device=group.device)
    top = p.where(own, 0).amax(0)
    hyperplane, eta = _hyperplanes(raised, members, own, top + p, generator)
    up = torch.zeros_like(hyperplane)
    up[:, -1] = eta * top  # e
    tilt = eta[:, None] * value
    high, low = hyperplane + up, hyperplane - up
    units = torch.cat([high + tilt, high, low + tilt, low])
    out = torch.cat([1 / eta, -1 / eta, -1 / eta, 1 / eta])
    net = Grouped(units[:, :-1].T, units[:, -1], out, group, math.inf)
    errors = _errors(net, points, labels)
    return replace(net, error=float(errors.max()))


def _members(group: Tensor, groups: int) -> Tensor:
    """(G, g): the points of each group; a smaller one names its first point again."""
    order = group.argsort(stable=True)
    sizes = group.bincount(minlength=groups)
    start = sizes.cumsum(0) - sizes
    place = torch.arange(int(sizes.max()), device=group.device)
    place = torch.where(place < sizes[:, None], place, 0)
    return order[start[:, None] + place]


def _hyperplanes(
    raised: Tensor,
    members: Tensor,
    own: Tensor,
    reach: Tensor,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """(G, d + 1): (a, a_0) with |a| = 1 and a.h + a_0 = 0 on the group; and the largest
    eta with |a.h + a_0| >= eta reach at all other points. Of LOOKS hyperplanes at
    random the one with the largest eta.
    """
    groups, g = members.shape
    across = torch.linalg.svd(raised[members]).Vh[:, g:]
    free = across.shape[1]
    size = (LOOKS if free > 1 else 1, groups, 1, free)
    weights = torch.randn(size, generator=generator, device=generator.device)
    best, etas = across[:, 0], raised.new_full((groups,), -1.0)
    for weight in weights.to(raised):
        hyperplane = (weight @ across)[:, 0]
        hyperplane = hyperplane / hyperplane[:, :-1].norm(dim=1, keepdim=True)
        eta = (raised @ hyperplane.T).abs() / reach
        eta = eta.masked_fill(own, torch.inf).amin(0)
        eta = torch.where(eta.isfinite(), eta, 1)
        better = eta > etas
        best = torch.where(better[:, None], hyperplane, best)
        etas = torch.where(better, eta, etas)
    return best, etas


def _errors(net: Grouped, points: Tensor, labels: Tensor) -> Tensor:
    """What F may miss each label by: what is seen, and twice what rounding may do.

    A sum of k products is within gamma = k u / (1 - k u) of the sum of their absolute
    values, u = eps / 2, in any order; relu moves no two numbers apart.
    """
    d, width = net.w_1.shape
    unit = torch.finfo(points.dtype).eps / 2
    of_unit = (d + 2) * unit / (1 - (d + 2) * unit)
    of_sum = (width + 1) * unit / (1 - (width + 1) * unit)
    weight = net.w_2.abs()
    moved = of_unit * (points.abs() @ net.w_1.abs() + net.b_1.abs())
    active = torch.relu(points @ net.w_1 + net.b_1)
    rounding = moved @ weight + of_sum * ((active + moved) @ weight)
    error = (net(points) - labels).abs() + 2 * rounding
    return torch.where(error.isfinite(), error, torch.inf)
