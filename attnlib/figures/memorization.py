"""Figures of the page on exact memorization."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, ORANGE, VERMILLION, new


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


def growth(slopes: dict[str, Tensor], bounds: dict[str, float]) -> Figure:
    """How the slopes of a network grow from knot to knot, in units of the largest rise,
    and their bounds.
    """
    fig, ax = new(size=(6.0, 3.0))
    colors = (VERMILLION, ORANGE, GREEN, BLUE)
    for (label, s), color, mark in zip(slopes.items(), colors, "vs^o"):
        knots = range(1, len(s) + 1)
        ax.plot(
            knots,
            s.abs().tolist(),
            mark,
            color=color,
            ms=4,
            markevery=3,
            label=label,
        )
        if label in bounds:
            ax.axhline(bounds[label], color="black", ls="--", lw=1)
    ax.set(xlabel="knot $j$", ylabel="slope $|s_j|$ over largest rise", yscale="log")
    ax.legend(fontsize=9, title="dashed: proved bounds")
    return fig


def parameters(
    counts: Sequence[int],
    shallow: Sequence[int],
    deep: Sequence[int],
    bound: Sequence[float],
) -> Figure:
    """Parameters of a shallow and a deep network over the number of ids."""
    fig, ax = new(size=(6.0, 3.0))
    ax.plot(counts, shallow, "s-", color=BLUE, label="one hidden layer, $2D$")
    ax.plot(counts, deep, "o", color=VERMILLION, label="deep, counted")
    ax.plot(counts, bound, "k--", label="deep, proved")
    ax.set(xlabel="number of ids $D$", ylabel="parameters", xscale="log", yscale="log")
    ax.legend(fontsize=9)
    return fig
