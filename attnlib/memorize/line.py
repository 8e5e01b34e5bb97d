"""Distinct numbers to labels: a ReLU network with one unit a number, as written and by
sorted search, and its parameters.

    f(t) = sum_j a_j relu(t - b_j)

Page: notebooks/one_layer_memorization/memorization
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib import _require
from attnlib._require import finite, require


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
    _check_ids(ids, labels)
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
def relu_layer(
    t: Float[Tensor, "*batch"], line: Line, *, chunk: int = 2**18
) -> Float[Tensor, "*batch c"]:
    """The network at t as written, every unit at every point: the literal twin of
    interpolate. The sum is long and cancels, with an error of about D eps range / gap.

    Args:
        line: from fit_line.
        chunk: how many entries of the table of units are alive at once.

    Claim: memorize.exact-labels
    """
    _require.is_a(Line, line=line)
    _check_ids(line.knots, line.coefficients, ("knots of line", "coefficients of line"))
    _check_points(t, line.knots, "the knots")
    _require.sizes(1, chunk=chunk)
    values = []
    for part in t.reshape(-1, 1).split(max(1, chunk // len(line.knots))):
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
    _check_ids(ids, labels)
    _check_points(t, ids, "ids")
    first = ids[:1] - _gaps(ids)[:1]
    x = torch.cat([first, ids])
    y = torch.cat([torch.zeros_like(labels[:1]), labels])
    place = t.detach().contiguous()
    right = torch.searchsorted(x, place, right=True).clamp(1, len(ids))
    left = right - 1
    left_is_nearer = place - x[left] <= x[right] - place
    nearer = torch.where(left_is_nearer, left, right)
    width = x[right] - x[left]
    slope = (y[right] - y[left]) / width[..., None]
    away = t - x[nearer]
    f = y[nearer] + away[..., None] * slope
    return f.masked_fill((t <= first)[..., None], 0)


@dataclass(frozen=True, slots=True)
class Parameters:
    """How many numbers a memorizing block holds, part by part.

    Args:
        attention: the four matrices.
        hidden: the units of the feed-forward part, weights in and out.
        biases: of the feed-forward part.
        skip: what undoes its skip.
    """

    attention: int
    hidden: int
    biases: int
    skip: int

    @property
    def total(self) -> int:
        """The sum of the parts."""
        return self.attention + self.hidden + self.biases + self.skip


def count_parameters(
    width: int, d: int, *, s: int = 1, labels: int | None = None, shared: bool = False
) -> Parameters:
    """The parameters of a block with rank-one attention and a ReLU network of `width`
    units.

        dense:   4 (s + d)  +  2 width d       +  (width + d)  +  d^2
        shared:  4 (s + d)  +  d + width c     +  width        +  d

    Each of the four rank-one matrices is a product of two vectors, s + d numbers.
    Dense: the units read and write all d features, and a d x d matrix takes the skip
    away. Shared: all units read along one direction, write c label features, and only
    those lose their skip.

    Args:
        d: features.
        s: head width.
        labels: c, by default d.
        shared: see above.

    Source: Kajitsuka and Sato 2024, Corollary 1 (recalled), counts 4(s + d) + d(2 n N +
        d); which part is which is ours.
    Claim: memorize.block
    """
    c = d if labels is None else labels
    _require.sizes(1, width=width, d=d, s=s, labels=c)
    _require.is_a(bool, shared=shared)
    require(
        c <= d,
        f"labels must be at most d to fit the output of the block, got {c} > {d}",
    )
    attention = 4 * (s + d)
    if shared:
        return Parameters(attention, hidden=d + width * c, biases=width, skip=d)
    return Parameters(attention, hidden=2 * width * d, biases=width + d, skip=d * d)


def _gaps(ids: Tensor) -> Tensor:
    """t_j - t_{j-1}, with the median for the first, and one for a single id."""
    if len(ids) == 1:
        return torch.ones_like(ids)
    gaps = torch.diff(ids)
    return torch.cat([gaps.median()[None], gaps])


def _jumps(rows: Tensor) -> Tensor:
    """Each row minus the one before it, with zeros before the first."""
    return torch.diff(rows, dim=0, prepend=torch.zeros_like(rows[:1]))


def _check_ids(ids, labels, names: tuple[str, str] = ("ids", "labels")) -> None:
    """Distinct numbers on the line, in order, and a row of labels for each."""
    for name, tensor, dim in zip(names, (ids, labels), (1, 2)):
        _require.is_floating(name, tensor)
        require(
            tensor.dim() == dim,
            f"{name} must have {dim} dimensions, got {tuple(tensor.shape)}",
        )
    numbers, rows = names
    require(
        len(ids) == len(labels) and len(ids),
        f"{numbers} and {rows} must be as many and at least one, "
        f"got {len(ids)} and {len(labels)}",
    )
    _require.matches(rows, labels, labels.shape, ids, numbers)
    finite(**{numbers: ids, rows: labels})
    bad = torch.diff(ids) <= 0
    if bad.any():
        j = int(bad.int().argmax())
        raise ValueError(
            f"{numbers} must be strictly increasing, got {float(ids[j])!r} before "
            f"{float(ids[j + 1])!r} (places {j} and {j + 1})"
        )


def _check_points(t, like: Tensor, like_name: str) -> None:
    """Points in the dtype and on the device of the line."""
    _require.is_tensor("t", t)
    _require.matches("t", t, t.shape, like, like_name)
    finite(t=t)
