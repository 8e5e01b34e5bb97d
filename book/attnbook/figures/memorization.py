"""Figures of the page on exact memorization."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, new

FAINT = "#D3D3D3"
INK = "#444444"

# --- ideas


def bends(ids: Sequence[float], labels: Sequence[float]) -> tuple[list[Figure], list]:
    """A line that is bent once more in each frame, until it meets every label; figures
    and their names.
    """
    frames = []
    names = []
    for j in range(len(ids) + 1):
        frames.append(_bent(ids, labels, j))
        names.append(f"{j} units" if j != 1 else "1 unit")
    return frames, names


def _bent(ids: Sequence[float], labels: Sequence[float], j: int) -> Figure:
    """The network after j units; it goes straight on behind the last of them."""
    fig, ax = new(size=(6.0, 2.7))
    xs = [0.0, *ids]
    ys = [0.0, *labels]
    end = ids[-1] + 1
    line = [(-0.6, 0.0), *zip(xs, ys)][: j + 2]
    slope = (ys[j] - ys[j - 1]) / (xs[j] - xs[j - 1]) if j else 0.0
    # It leaves the picture at its upper or lower edge.
    edge = 4.6 if slope > 0 else -0.9
    if slope:
        end = min(end, xs[j] + (edge - ys[j]) / slope)
    line.append((end, ys[j] + slope * (end - xs[j])))
    ax.plot(*zip(*line), color=BLUE, zorder=2)
    for i, (x, y) in enumerate(zip(ids, labels)):
        ax.plot(x, y, "o", ms=8, mec="black", mfc="black" if i < j else "white")
    if j:
        ax.plot(xs[j - 1], ys[j - 1], "^", ms=11, color=ORANGE, zorder=4)
        word = f"unit {j} bends the line here"
        ax.text(0.02, 0.97, word, transform=ax.transAxes, color="#9C6B00", va="top")
        ax.plot([], [], "^", color=ORANGE)
    else:
        word = "no unit yet: the line is flat"
        ax.text(0.02, 0.97, word, transform=ax.transAxes, color=BLUE, va="top")
    if j:
        beside = {"textcoords": "offset points", "color": INK}
        ax.annotate("label met", (xs[j], ys[j]), (12, -12), **beside)
    ax.set(xlim=(-0.6, ids[-1] + 1), ylim=(-0.9, 4.9), xlabel="id, a number a token")
    ax.set(ylabel="label", xticks=[], yticks=[])
    return fig


def strip() -> Figure:
    """Points of four tokens in the plane, and a strip around the line through two of
    them.
    """
    fig, ax = new(size=(6.0, 3.5))
    along = (0.95, 0.31)  # the direction v
    tokens = {(0.2, 0.2): (0, 1.3, 3.5), (0.0, 1.5): (0.3, 1.8, 2.6)}
    tokens |= {(0.4, 2.6): (0.2, 0.9, 2.9), (0.2, 3.9): (1.1, 1.9, 2.8)}
    chosen = []
    for (x, y), places in tokens.items():
        far = 4.1
        ax.plot([x, x + far * along[0]], [y, y + far * along[1]], color=FAINT, zorder=1)
        for t in places:
            ax.plot(x + t * along[0], y + t * along[1], "o", color=GREY, ms=7, zorder=3)
    ax.text(4.2, 1.35, "points of one token", color=GREY, fontsize=9)
    for start, t in (((0.0, 1.5), 1.8), ((0.4, 2.6), 0.9)):
        chosen.append((start[0] + t * along[0], start[1] + t * along[1]))
    (x0, y0), (x1, y1) = chosen
    dx = (x1 - x0) / (y1 - y0)
    low = (x0 + (-0.3 - y0) * dx, -0.3)
    high = (x0 + (5.1 - y0) * dx, 5.1)
    ax.plot(*zip(low, high), color=VERMILLION, lw=1.2, ls="--", zorder=2)
    half = 0.3
    corners = [(low[0] - half, low[1]), (low[0] + half, low[1])]
    corners += [(high[0] + half, high[1]), (high[0] - half, high[1])]
    ax.fill(*zip(*corners), color=ORANGE, alpha=0.25, lw=0)
    for (x, y), word in zip(chosen, ("label 3", "label 7")):
        ax.plot(x, y, "s", color=VERMILLION, ms=10, zorder=4)
        ax.text(x + 0.42, y - 0.02, word, color="#A84300", va="center")
    ax.text(3.3, 0.0, "in the strip: four units speak", color="#9C6B00", fontsize=10)
    ax.text(4.35, 2.75, "outside: they are silent", color=INK, fontsize=10)
    ax.set(xlim=(-0.3, 6.2), ylim=(-0.3, 5.1))
    ax.axis("off")
    return fig


def ridge(labels: Sequence[float], e: float, delta: float) -> Figure:
    """What four units add up to, across the strip: a flat top as high as the label."""
    fig, ax = new(size=(6.0, 2.9))
    for label, color, style in zip(labels, (BLUE, GREEN), ("-", "--")):
        corners = [(-2 * e, 0), (-e - delta * label, 0), (-e, label)]
        corners += [(e - delta * label, label), (e, 0), (2 * e, 0)]
        ax.plot(*zip(*corners), color=color, ls=style)
        word = f"flat top: the label {label:g}"
        ax.text(0, label + 0.04 * max(labels), word, ha="center", color=color)
    for x in (-1.6 * e, 1.6 * e):
        ax.text(x, 0.04 * max(labels), "silent", ha="center", color=INK)
    ax.set(xlabel="how far a point is from the line in the strip", xticks=[0])
    ax.set(ylabel="four units together", yticks=[0], ylim=(-0.2, 1.2 * max(labels)))
    return fig


# --- measurements


def against_gaps(
    accuracy: dict[str, Sequence[float]],
    gaps: dict[str, Sequence[Sequence[float]]],
) -> Figure:
    """Training accuracy over the smallest gap, and over the typical one."""
    fig, axes = new(1, 2, size=(6.4, 3.2), sharey=True)
    kinds = {
        "trained": (BLUE, "o"),
        "trained, tied": (GREEN, "^"),
        "frozen": (VERMILLION, "s"),
        "frozen, another beta": (PURPLE, "D"),
    }
    for which, ax in enumerate(axes):
        for kind, (color, mark) in kinds.items():
            found = [name for name in accuracy if _kind(name) == kind]
            xs = [pair[which] for name in found for pair in gaps[name]]
            ys = [value for name in found for value in accuracy[name]]
            ax.plot(xs, ys, mark, color=color, ms=4, alpha=0.8, label=kind)
        ax.set(xscale="log", ylabel="training accuracy")
    axes[0].set(xlabel="smallest gap", xlim=(1e-7, 1))
    axes[1].set(xlabel="median distance to a rival", xlim=(3e-3, 1))
    axes[0].legend(fontsize=8, loc="upper left")
    return fig


def _kind(name: str) -> str:
    """Trained or not, tied or not; empty where there is no gap."""
    if name == "no attention" or "theory" in name:
        return ""
    if "beta" in name:
        return "frozen, another beta"
    if name.startswith("frozen"):
        return "frozen"
    return "trained, tied" if "tied" in name else "trained"


def networks(
    t: Tensor,
    y: Tensor,
    points: Tensor,
    curves: dict[str, Tensor],
) -> Figure:
    """Several networks through the same labels."""
    fig, ax = new(size=(6.0, 3.0))
    looks = ((BLUE, "-"), (VERMILLION, "--"))
    places = points.tolist()
    for label, (color, style) in zip(curves, looks):
        values = curves[label].tolist()
        ax.plot(places, values, style, color=color, label=label)
    ax.plot(
        t.tolist(),
        y.tolist(),
        "ko",
        ms=5,
        label="labels",
        zorder=3,
    )
    ax.set(xlabel="id $t$", ylabel="network $F(t)$", ylim=(-6, 12))
    ax.legend(fontsize=9, ncols=3, loc="upper center")
    return fig
