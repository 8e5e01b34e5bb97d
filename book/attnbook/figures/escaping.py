"""Figures of the page on what stops the collapse."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Polygon
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, VERMILLION, new

INK = "#444444"
FAINT = "#D3D3D3"

MARKS = (
    (BLUE, "o-"),
    (ORANGE, "s--"),
    (GREEN, "^-."),
    (VERMILLION, "D:"),
)

# --- tokens in the plane


def four_ways(states: dict[str, Tensor], lost: float = 0.02):
    """The same tokens in the plane, layer by layer, in four ways.

    Args:
        states: words to (layers + 1, n, 2); four of them.
        lost: below this diameter the tokens are drawn as one.

    Returns:
        (frames, labels) of a slider, one a layer.
    """
    frames = []
    labels = []
    together = torch.stack(list(states.values()))
    reach = 1.1 * float(together.max())
    depth = together.shape[1]
    for l in range(depth):
        fig, axes = new(2, 2, size=(6.0, 4.7))
        for ax, (words, path), (color, style) in zip(
            axes.flat, states.items(), MARKS, strict=True
        ):
            _plane(ax, path[: l + 1], color, style[0], lost)
            ax.set(xlim=(-0.1 * reach, reach), ylim=(-0.1 * reach, 0.82 * reach))
            ax.axis("off")
            ax.set_title(words, color=INK)
        frames.append(fig)
        labels.append("at the start" if l == 0 else f"after layer {l}")
    return frames, labels


def _plane(ax, path: Tensor, color: str, mark: str, lost: float) -> None:
    now = path[-1]
    mean = now.mean(0)
    ax.plot(*path.mean(1).T.tolist(), color=FAINT, lw=1, zorder=1)
    ax.plot(0, 0, "+", color=INK, ms=9)
    ax.annotate(
        "zero", (0, 0), (7, -3), textcoords="offset points", fontsize=8, color=INK
    )
    arrow = FancyArrowPatch(
        (0, 0),
        tuple(mean.tolist()),
        arrowstyle="-|>",
        mutation_scale=10,
        color=GREY,
        shrinkA=3,
        shrinkB=0,
    )
    ax.add_patch(arrow)
    for i, j in _hull(now):
        ax.plot(*now[[i, j]].T.tolist(), color=color, lw=1.2)
    ax.plot(*now.T.tolist(), mark, color=color, ms=5.5)
    width = float((now[:, None] - now).norm(dim=-1).max())
    length = float(mean.norm())
    words = "one point" if width < lost else f"width {width:.2f}, arrow {length:.2f}"
    ax.text(0.03, 0.93, words, transform=ax.transAxes, color=INK, fontsize=9)
    if width >= lost:
        words = f"width / arrow = {width / length:.2f}"
        ax.text(0.03, 0.82, words, transform=ax.transAxes, color=INK, fontsize=9)
    ax.set(aspect="equal")


def _hull(points: Tensor) -> list[tuple[int, int]]:
    """Pairs of tokens with all others on one side: the edges of the convex hull."""
    edges = []
    for i in range(len(points)):
        for j in range(len(points)):
            along = points[j] - points[i]
            rest = points - points[i]
            side = along[0] * rest[:, 1] - along[1] * rest[:, 0]
            if i != j and bool((side >= 0).all()):
                edges.append((i, j))
    return edges


# --- what all tokens share, and what tells them apart


def seen_from_zero() -> Figure:
    """A cloud of tokens seen from zero, before and after a layer: it grows, and yet it
    fills a smaller angle.
    """
    fig, axes = new(1, 2, size=(6.0, 3.2))
    cloud = [(-0.32, 0.1), (0.1, -0.35), (0.3, 0.22), (-0.1, 0.33), (0.02, 0.0)]
    before = [(1.25 + u, 1.0 + v) for u, v in cloud]
    after = [(2.3 + 1.15 * u, 1.84 + 1.15 * v) for u, v in cloud]
    for ax, points, words in (
        (axes[0], before, "before the layer"),
        (axes[1], after, "after the layer"),
    ):
        _cone(ax, points)
        ax.set(title=words, xlim=(-0.3, 3.1), ylim=(-0.3, 2.7), aspect="equal")
        ax.axis("off")
    axes[0].text(0.45, -0.1, "zero", color=INK, ha="center")
    axes[0].annotate(
        "what tells\nthem apart",
        (1.62, 1.25),
        (2.0, 2.0),
        color=VERMILLION,
        arrowprops={"arrowstyle": "-", "color": VERMILLION, "lw": 0.8},
    )
    axes[0].annotate(
        "what they share",
        (0.8, 0.62),
        (1.2, 0.05),
        color=BLUE,
        arrowprops={"arrowstyle": "-", "color": BLUE, "lw": 0.8},
    )
    axes[1].text(1.3, 0.35, "1.84 times\nas long", color=BLUE)
    axes[1].text(0.15, 2.2, "1.15 times\nas wide", color=VERMILLION)
    return fig


def _cone(ax, points) -> None:
    angles = [math.atan2(y, x) for x, y in points]
    corners = [(0.0, 0.0)]
    for angle in (min(angles), max(angles)):
        corners.append((5 * math.cos(angle), 5 * math.sin(angle)))
    ax.add_patch(Polygon(corners, fc=FAINT, alpha=0.6, ec="none", zorder=0))
    centre = tuple(sum(values) / len(points) for values in zip(*points))
    arrow = FancyArrowPatch(
        (0, 0),
        centre,
        arrowstyle="-|>",
        mutation_scale=13,
        color=BLUE,
        lw=1.8,
        shrinkA=0,
        shrinkB=0,
        zorder=2,
    )
    ax.add_patch(arrow)
    ax.plot(0, 0, "+", color=INK, ms=10)
    ax.plot(*zip(*points), "o", color=VERMILLION, ms=5, zorder=3)


def three_and_one(rows: Sequence[tuple[str, float, float]]) -> Figure:
    """Two tokens on a line from zero, one row a way to go on.

    Args:
        rows: (words, greater token, smaller token).
    """
    fig, axes = new(len(rows), 1, size=(6.0, 1.25 * len(rows)))
    for ax, (words, high, low) in zip(axes, rows):
        mean = (high + low) / 2
        ax.plot([-0.2, 5.4], [0, 0], color=FAINT, lw=1, zorder=0)
        ax.plot(0, 0, "|", color=INK, ms=14)
        ax.text(0, 0.4, "zero", color=INK, ha="center", fontsize=8)
        ax.plot([0, mean], [-0.28, -0.28], color=BLUE, lw=2.5)
        ax.plot(mean, -0.28, ">", color=BLUE, ms=7)
        for token in (high, low):
            ax.text(token, -0.42, f"{token:g}", color=INK, ha="center", va="top")
        ax.plot([low, high], [0.28, 0.28], color=VERMILLION, lw=2.5)
        ax.plot([low, high], [0, 0], "o", color=INK, ms=7)
        ax.text(mean, 0.4, f"{high - low:g} apart", color=VERMILLION, ha="center")
        ax.text(0, -0.42, f"mean {mean:g}", color=BLUE, va="top")
        relative = f"relative\ndiameter {(high - low) / mean:.2f}"
        ax.text(5.6, 0.0, relative, va="center", color=INK)
        ax.set(xlim=(-0.2, 7.3), ylim=(-1.0, 0.85))
        ax.set_title(words, loc="left", color=INK, fontsize=9.5)
        ax.axis("off")
    return fig


# --- rest


def rest(heads: Sequence[tuple[str, Sequence[float | None], float]]) -> Figure:
    """What a query gives to a start token and to contents, a panel a head.

    Args:
        heads: (words, weights, length of the output); the first weight is that of the
            start token, None if there is none.
    """
    fig, axes = new(1, len(heads), size=(6.0, 3.0))
    for ax, (words, weights, output) in zip(axes, heads):
        count = len(weights)
        spots = list(range(count))
        for spot, weight in zip(spots, weights):
            if weight is None:
                continue
            if weight > 0.004:
                xs = [(count - 1) / 2, spot]
                ax.plot(xs, [1.0, 0.1], color=VERMILLION, lw=9 * weight, alpha=0.8)
            ax.text(spot, -0.34, f"{weight:.2f}", ha="center", color=INK, fontsize=9)
        ax.plot((count - 1) / 2, 1.0, "s", color=INK, ms=9)
        ax.text((count - 1) / 2, 1.12, "query at rest", ha="center", color=INK)
        ax.plot(spots[1:], [0] * (count - 1), "o", color=GREY, ms=9)
        if weights[0] is not None:
            ax.plot(spots[0], 0, "D", color=BLUE, ms=10)
            ax.text(0, -0.78, "start\nvalue 0", ha="center", color=BLUE)
        ax.text(count / 2, -0.78, "contents\nvalue 1", ha="center", color=INK)
        ax.text(
            (count - 1) / 2,
            -1.1,
            f"output {output:.2f}",
            ha="center",
            color=INK,
            weight="bold",
        )
        ax.set(xlim=(-0.7, count - 0.3), ylim=(-1.2, 1.4), title=words)
        ax.axis("off")
    return fig
