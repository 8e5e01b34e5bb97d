"""Figures of the page on what stops the collapse."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, ORANGE, VERMILLION, new

MARKS = ((BLUE, "o-"), (ORANGE, "s--"), (GREEN, "^-."), (VERMILLION, "D:"))


def speeds(curves: dict[str, Tensor], lowest: float = -12.0) -> Figure:
    """The residual by layer of one set of weights, used in several ways."""
    fig, ax = new(size=(6.0, 3.2))
    for (label, logs), (color, style) in zip(curves.items(), MARKS):
        inside = logs.tolist()
        below = next((i for i, v in enumerate(inside) if v < lowest), len(inside) - 1)
        ax.plot(inside[: below + 1], style, color=color, label=label)
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
    shown = sorted({round(10 ** (i / 8)) for i in range(60)} & set(range(1, len(path))))
    ax.plot(shown, [path[l] for l in shown], "o", color=BLUE, ms=4, label="with a skip")
    ax.plot(range(1, len(bound)), bound[1:], "k--", label="proved: at least this")
    ax.plot(range(1, len(pure)), pure[1:], "s", color=VERMILLION, label="without")
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
    for i, ((label, values), (color, style)) in enumerate(zip(relative.items(), MARKS)):
        open_mark = (
            {"ms": 9, "mfc": "none"} if i % 2 == 0 else {"ms": 4}
        )  # curves in pairs may cover each other
        ax.plot(values.tolist(), style, color=color, label=label, **open_mark)
    ax.axhline(floor, color="black", ls="--", lw=1, label="rounding of floats")
    ax.set(
        xlabel="layer $l$",
        ylabel="relative residual",
        yscale="log",
        xticks=range(0, 13, 2),
    )
    ax.legend(loc="center right")
    return fig
