"""Figures of the page on Boltzmann averages and hardmax."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, ORANGE, VERMILLION, new


def near_miss(beta: Tensor, difference: Tensor, root: float) -> Figure:
    """Two sets of tokens on a line; what softmax makes of them over beta, and what
    hardmax makes of them.
    """
    widths = (2, 3)
    fig, (left, right) = new(1, 2, size=(6.0, 3.0), width_ratios=widths)
    upper = [1] * 4
    lower = [0] * 4
    mean = 3.5  # of both
    left.plot([1, 2, 5, 6], upper, "o", color=BLUE, ms=9, label="$X_1$")
    left.plot([mean], [1], "k|", ms=16)
    left.plot([1, 3, 4, 6], lower, "s", color=ORANGE, ms=9, label="$X_2$")
    left.plot([mean], [0], "k|", ms=16)
    left.set(
        xlabel=r"place $\lambda$ on the line",
        ylabel="sequence",
        yticks=[0, 1],
        yticklabels=["$X_2$", "$X_1$"],
        ylim=(-0.6, 1.6),
        xticks=range(1, 7),
    )
    left.set_title("bar: the mean")
    betas = beta.tolist()
    softmax = difference.tolist()
    zero = [0.0] * len(betas)
    right.plot(betas, softmax, "-", color=BLUE, label="softmax")
    right.plot(betas, zero, "--", color=VERMILLION, label="hardmax")
    right.plot([root], [0], "kD", ms=6, label=r"$\beta^*$")
    right.set(xlabel=r"inverse temperature $\beta$", ylabel="$f_1 - f_2$ at token 1")
    right.legend(fontsize=9)
    return fig


def slices(
    x: Tensor,
    curves: dict[str, Tensor],
    lows: Sequence[float],
) -> Figure:
    """The Boltzmann operator as a function of one entry, all others zero, with the
    place where its slope vanishes.
    """
    fig, ax = new(size=(6.0, 3.0))
    places = x.tolist()
    looks = ((BLUE, "-"), (GREEN, "--"), (ORANGE, "-."))
    for label, low, look in zip(curves, lows, looks, strict=True):
        color, style = look
        values = curves[label].tolist()
        ax.plot(places, values, style, color=color, label=label)
        nearest = int((x - low).abs().argmin())
        lowest = values[nearest]
        ax.plot([low], [lowest], "o", color=color)
    ax.set(xlabel="the entry $x$ that moves", ylabel="boltz")
    ax.legend(fontsize=9)
    return fig


def tightness(
    seen: dict[str, tuple[Sequence[float], Sequence[float]]],
) -> Figure:
    """Measured distance over the proved bound, for random and for special pairs; the
    bound is the line at 1.
    """
    fig, ax = new(size=(6.0, 3.0))
    colors = (BLUE, ORANGE, GREEN)
    for label, color, mark in zip(seen, colors, "os^"):
        spread, ratio = seen[label]
        decades = [math.log10(r) for r in ratio]
        ax.plot(
            spread,
            decades,
            mark,
            color=color,
            ms=5,
            label=label,
            alpha=0.8,
        )
    ax.axhline(0, color="black", ls="--", label="proved: at least 0")
    ax.set(
        xlabel=r"spread $\rho$ of the values", ylabel=r"$\log_{10}$(distance / bound)"
    )
    ax.legend(fontsize=9, loc="upper left")
    return fig
