"""Figures of the page on what stops the collapse."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, ORANGE, VERMILLION, new

MARKS = (
    (BLUE, "o-"),
    (ORANGE, "s--"),
    (GREEN, "^-."),
    (VERMILLION, "D:"),
)


def speeds(curves: dict[str, Tensor], lowest: float = -12.0) -> Figure:
    """The residual by layer of one set of weights, used in several ways."""
    fig, ax = new(size=(6.0, 3.2))
    for label, (color, style) in zip(curves, MARKS):
        shown = []
        for v in curves[label].tolist():
            shown.append(v)
            if v < lowest:  # the line leaves the picture here
                break
        ax.plot(shown, style, color=color, label=label)
    ax.set(
        xlabel="layer $l$", ylabel=r"$\log_{10} r_l$, the residual", ylim=(lowest, 3)
    )
    ax.legend(loc="lower right")
    return fig


def depth(
    path: Sequence[float], bound: Sequence[float], pure: Sequence[float]
) -> Figure:
    """Two tokens with a skip over the depth, the lower bound, and the same without the
    skip; both axes logarithmic.
    """
    fig, ax = new(size=(6.0, 3.0))
    deepest = len(path) - 1
    evenly = {round(10 ** (i / 8)) for i in range(60)}  # on the logarithmic axis
    depths = sorted(l for l in evenly if l <= deepest)
    with_skip = [path[l] for l in depths]
    ax.plot(depths, with_skip, "o", color=BLUE, ms=4, label="with a skip")
    l = range(1, len(bound))
    ax.plot(l, bound[1:], "k--", label="proved: at least this")
    l = range(1, len(pure))
    ax.plot(l, pure[1:], "s", color=VERMILLION, label="without")
    ax.set(
        xlabel="depth $L$, layers",
        ylabel="half distance $a_L$",
        xscale="log",
        yscale="log",
        ylim=(1e-3, 1.5),
    )
    ax.legend(loc="lower right")
    return fig


def variants(relative: dict[str, Tensor], floor: float) -> Figure:
    """Relative residual by layer for the variants of a network, and where floats
    end.
    """
    fig, ax = new(size=(6.0, 3.2))
    # Curves in pairs may cover each other: every other one has open marks.
    large = {"ms": 9, "mfc": "none"}
    small = {"ms": 4}
    sizes = cycle([large, small])
    for label, (color, style), size in zip(relative, MARKS, sizes):
        values = relative[label].tolist()
        ax.plot(values, style, color=color, label=label, **size)
    ax.axhline(floor, color="black", ls="--", lw=1, label="rounding of floats")
    ax.set(
        xlabel="layer $l$",
        ylabel="relative residual",
        yscale="log",
        xticks=range(0, 13, 2),
    )
    ax.legend(loc="center right")
    return fig
