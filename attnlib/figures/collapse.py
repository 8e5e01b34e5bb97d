"""Figures of the page on rank collapse."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, ORANGE, PURPLE, VERMILLION, new


def tail(x: Sequence[int], y: Tensor, bound: Tensor) -> Figure:
    """The residual by layer on a doubly logarithmic scale, and its bound."""
    fig, ax = new(size=(6.0, 3.0))
    for values, style, color, label in (
        (y, "o-", BLUE, "measured"),
        (bound, "--", "black", "proved: at least this many"),
    ):
        decades = (-values / math.log(10)).tolist()
        places = [l for l, v in zip(x, decades) if v > 0]
        kept = [v for v in decades if v > 0]
        ax.plot(places, kept, style, color=color, label=label)
    ax.set(
        xlabel="layer $l$",
        ylabel=r"$-\log_{10} r_l$, zeros after the point",
        yscale="log",
        xticks=list(x),
    )
    ax.yaxis.set_major_formatter("{x:g}")
    ax.legend()
    return fig


def toy_map(a: Tensor, strengths: Sequence[float]) -> Figure:
    """The map of the toy for several strengths, over the diagonal, and the printed
    bound of one of them.
    """
    fig, ax = new(size=(6.0, 3.0))
    sizes = a.tolist()
    for w, color, mark in zip(strengths, (BLUE, GREEN, ORANGE), "os^"):
        after = a * torch.tanh(w * a**2)
        ax.plot(
            sizes,
            after.tolist(),
            f"{mark}-",
            color=color,
            markevery=8,
            label=f"$w = {w:g}$",
        )
    w = strengths[0]
    printed = 8 * w * a**3
    ax.plot(sizes, printed.tolist(), "k--", label=f"printed bound, $w = {w:g}$")
    ax.plot(sizes, sizes, ":", color=PURPLE, label="no change")
    ax.set(
        xlabel="half distance $a$ of the tokens",
        ylabel="after the layer",
        ylim=(0, float(a.max())),
    )
    ax.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def floors(seen: dict[str, Tensor], exact: Tensor) -> Figure:
    """What plain floats see of the residual, against the recursion and many digits."""
    fig, ax = new(size=(6.0, 3.0))
    decades = exact / math.log(10)
    ax.plot(decades.tolist(), "k+", ms=12, label="many digits", zorder=3)
    looks = ((BLUE, "o-"), (VERMILLION, "s--"), (ORANGE, "^--"))
    for label, (color, style) in zip(seen, looks):
        decades = seen[label].double() / math.log(10)
        decades[decades.isneginf()] = math.nan  # zero for the floats: no mark
        ax.plot(decades.tolist(), style, color=color, label=label)
    ax.set(xlabel="layer $l$", ylabel=r"$\log_{10} r_l$", xticks=range(len(exact)))
    ax.legend()
    return fig


def constants(
    m: Sequence[int], needed: Sequence[float], proved: Sequence[float]
) -> Figure:
    """The constant that the family needs, over its size, with the lower bound and the
    printed 4.
    """
    fig, ax = new(size=(6.0, 2.8))
    ax.plot(m, needed, "o-", color=VERMILLION, label="needed, best $w$")
    law = r"$\sqrt{m - 1} / (8 \ln(2m - 1))$"
    ax.plot(m, proved, "k--", label=f"proved: at least {law}")
    ax.axhline(4, color=BLUE, ls=":", label="printed: 4")
    ax.set(
        xlabel="columns $m$, with $n = 2m$ tokens",
        ylabel="constant",
        xscale="log",
        yscale="log",
    )
    ax.yaxis.set_major_formatter("{x:g}")
    ax.legend(fontsize=9)
    return fig
