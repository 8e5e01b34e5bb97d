"""Distinct numbers to labels: a ReLU network with one unit a number, as written and by
sorted search, and its parameters.

    f(t) = sum_j a_j relu(t - b_j)

Page: notebooks/one_layer_memorization/memorization
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib import _require
from attnlib._require import finite, require

TILE = 1 << 17  # units at points that are worked on at once


class Line(NamedTuple):
    """A ReLU network on the line, f(t) = sum_j coefficients_j relu(t - knots_j).

    Args:
        knots: (D,), increasing.
        coefficients: (D, c).
        slopes: (D, c), the slope right of each knot.
    """

    knots: Tensor
    coefficients: Tensor
    slopes: Tensor


def fit_line(
    ids: Float[Tensor, "D"], labels: Float[Tensor, "D c"], *, theta: float = 1.0
) -> Line:
    """The one ReLU network with a unit an id and these knots that takes every id to its
    label.

        b_j = t_j - theta (t_j - t_{j-1})
        theta s_j + (1 - theta) s_{j-1} = (y_j - y_{j-1}) / (t_j - t_{j-1})

    with y_0 = 0, s_0 = 0 and t_0 one median gap left of t_1 (one, if there is a single
    id); the coefficients are s_j - s_{j-1}.

    Args:
        ids: strictly increasing.
        theta: in (0, 1]; 1 puts each knot on the id before.

    Cost: O(D c) for theta = 1, D steps of O(c) otherwise.
    Source: the network of Zhang et al. 2017, Theorem 1 (recalled), which leaves the
        place of the knots open.
    Claim: memorize.knots
    """
    _check_line(ids, labels)
    _require.numbers(theta=theta)
    require(0 < theta <= 1, f"theta must be in (0, 1], got {theta}")
    steps = _gaps(ids)
    secants = _jumps(labels) / steps[:, None]
    slopes = secants
    if theta < 1:
        slopes = torch.empty_like(secants)
        slope = torch.zeros_like(secants[0])
        for j, secant in enumerate(secants):
            slope = (secant - (1 - theta) * slope) / theta
            slopes[j] = slope
    knots = ids - theta * steps
    return Line(knots, _jumps(slopes), slopes)


@_require.own_precision
def relu_layer(t: Float[Tensor, "*batch"], line: Line) -> Float[Tensor, "*batch c"]:
    """The network at t as written, every unit at every point: the literal twin of
    interpolate. The sum is long and cancels, with an error of about D eps range / gap.

    Args:
        line: from fit_line.

    Claim: memorize.exact-labels
    """
    _require.is_a(Line, line=line)
    _check_line(line.knots, line.coefficients, "line.knots", "line.coefficients")
    _check_points(t, line.knots, "line.knots")
    values = []
    some = max(1, TILE // len(line.knots))
    for part in t.reshape(-1, 1).split(some):
        values.append((part - line.knots).relu() @ line.coefficients)
    return torch.cat(values).view(*t.shape, line.coefficients.shape[1])


def interpolate(
    t: Float[Tensor, "*batch"], ids: Float[Tensor, "D"], labels: Float[Tensor, "D c"]
) -> Float[Tensor, "*batch c"]:
    """The same network for theta = 1 by sorted search: a straight line from the nearer
    of the two ids around t, so that nothing cancels.

        f(t) = y_j + (t - t_j) (y_j - y_{j-1}) / (t_j - t_{j-1})

    Args:
        ids: strictly increasing.

    Returns:
        zero left of the first knot, the last slope goes on to the right; exactly y_j at
        t_j.

    Cost: O(points (log D + c)).
    Claim: memorize.exact-labels
    """
    _check_line(ids, labels)
    _check_points(t, ids, "ids")
    first = (ids - _gaps(ids))[:1]
    knots = torch.cat([first, ids])
    token = torch.zeros_like(knots)
    return _search(torch.zeros_like(t), t, token, knots, 1.0, labels)


def _search(
    z: Tensor, f: Tensor, token: Tensor, context: Tensor, w: float, labels: Tensor
) -> Tensor:
    """The network on the line t = z + w f, from differences only: t is never formed.

    Args:
        token, context: (D + 1,), in order: the first knot, and the ids.
        labels: (D, c), of the ids.
    """
    labels = torch.cat([torch.zeros_like(labels[:1]), labels])
    count = len(labels)

    def ahead(i: Tensor) -> Tensor:
        """t minus the id i, exact in sign where z is a token."""
        return (z - token[i]) + w * (f - context[i])

    # How many ids are at most t, by bisection.
    low = torch.zeros_like(z, dtype=torch.long)
    high = torch.full_like(low, count)
    for _ in range(count.bit_length()):
        middle = ((low + high) // 2).clamp(max=count - 1)
        right_of = ahead(middle) >= 0
        low = torch.where(right_of, middle + 1, low)
        high = torch.where(right_of, high, middle)
    right = low.clamp(1, count - 1)
    left = right - 1
    width = w * (context[right] - context[left])
    width = (token[right] - token[left]) + width
    near = torch.where(ahead(left) <= -ahead(right), left, right)
    # A slope may overflow, a share of the width does not.
    share = ahead(near) / torch.where(width > 0, width, 1)
    share = share.unsqueeze(-1)
    y = labels[near] + (share * labels[right] - share * labels[left])
    return y.masked_fill((low == 0).unsqueeze(-1), 0)


def count_parameters(
    width: int, d: int, *, labels: int | None = None, shared: bool = False
) -> int:
    """The parameters of a block with rank-one attention and a ReLU network of `width`
    units; each of the four rank-one matrices is a product of two vectors.

        dense:   4 (1 + d)  +  2 width d       +  (width + d)  +  d^2
        shared:  4 (1 + d)  +  d + width c     +  width        +  d

    Args:
        d: features.
        labels: c, by default d.
        shared: False: the units read and write all d features, and a d x d matrix takes
            the skip away. True: all units read along one direction, write c label
            features, and only those lose their skip.

    Source: Kajitsuka and Sato 2024, Corollary 1 (recalled), counts 4(s + d) + d(2 n N +
        d); which part is which is ours.
    Claim: memorize.block
    """
    c = d if labels is None else labels
    _require.sizes(1, width=width, d=d, labels=c)
    _require.is_a(bool, shared=shared)
    require(c <= d, f"labels must be at most d, got {c} > {d}")
    attention = 4 * (1 + d)
    if shared:
        return attention + d + width * c + width + d
    return attention + 2 * width * d + width + d + d**2


def _gaps(ids: Tensor) -> Tensor:
    """t_j - t_{j-1}, with the median for the first, and one for a single id."""
    if len(ids) == 1:
        return torch.ones_like(ids)
    gaps = torch.diff(ids)
    return torch.cat([gaps.median()[None], gaps])


def _jumps(rows: Tensor) -> Tensor:
    """Each row minus the one before it, with zeros before the first."""
    return torch.diff(rows, dim=0, prepend=torch.zeros_like(rows[:1]))


def _check_line(ids, labels, ids_name: str = "ids", name: str = "labels") -> None:
    """Distinct numbers on the line, in order, and a row of labels for each."""
    _require.is_floating(ids_name, ids)
    _require.is_tensor(name, labels)
    require(
        ids.dim() == 1 and len(ids) and labels.dim() == 2,
        f"{ids_name} must be (D,) with D >= 1 and {name} (D, c), got "
        f"{tuple(ids.shape)} and {tuple(labels.shape)}",
    )
    _require.matches(name, labels, (len(ids), labels.shape[1]), ids, ids_name)
    finite(**{ids_name: ids, name: labels})
    require((ids[1:] > ids[:-1]).all(), f"{ids_name} must be strictly increasing")


def _check_points(t, like: Tensor, like_name: str) -> None:
    """Points in the dtype and on the device of the line."""
    _require.is_tensor("t", t)
    _require.matches("t", t, t.shape, like, like_name)
    finite(t=t)
