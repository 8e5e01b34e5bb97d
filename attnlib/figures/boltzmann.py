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
    fig, (left, right) = new(1, 2, size=(6.0, 3.0), width_ratios=(2, 3))
    for height, values, color, mark in (
        (1, (1, 2, 5, 6), BLUE, "o"),
        (0, (1, 3, 4, 6), ORANGE, "s"),
    ):
        left.plot(
            values, [height] * 4, mark, color=color, ms=9, label=f"$X_{2 - height}$"
        )
        left.plot([3.5], [height], "k|", ms=16)
    left.set(
        xlabel=r"place $\lambda$ on the line",
        ylabel="sequence",
        yticks=[0, 1],
        yticklabels=["$X_2$", "$X_1$"],
        ylim=(-0.6, 1.6),
        xticks=range(1, 7),
    )
    left.set_title("bar: the mean")
    right.plot(beta.tolist(), difference.tolist(), "-", color=BLUE, label="softmax")
    right.plot(
        beta.tolist(), [0.0] * len(beta), "--", color=VERMILLION, label="hardmax"
    )
    right.plot([root], [0], "kD", ms=6, label=r"$\beta^*$")
    right.set(xlabel=r"inverse temperature $\beta$", ylabel="$f_1 - f_2$ at token 1")
    right.legend(fontsize=9)
    return fig


def slices(x: Tensor, curves: dict[str, Tensor], lows: Sequence[float]) -> Figure:
    """The Boltzmann operator as a function of one entry, all others zero, with the
    place where its slope vanishes.
    """
    fig, ax = new(size=(6.0, 3.0))
    for (label, y), low, color, style in zip(
        curves.items(), lows, (BLUE, GREEN, ORANGE), ("-", "--", "-."), strict=True
    ):
        ax.plot(x.tolist(), y.tolist(), style, color=color, label=label)
        near = min(range(len(x)), key=lambda i: abs(float(x[i]) - low))
        ax.plot([low], [float(y[near])], "o", color=color)
    ax.set(xlabel="the entry $x$ that moves", ylabel="boltz")
    ax.legend(fontsize=9)
    return fig


def tightness(seen: dict[str, tuple[Sequence[float], Sequence[float]]]) -> Figure:
    """Measured distance over the proved bound, for random and for special pairs; the
    bound is the line at 1.
    """
    fig, ax = new(size=(6.0, 3.0))
    for (label, (spread, ratio)), color, mark in zip(
        seen.items(), (BLUE, ORANGE, GREEN), ("o", "s", "^")
    ):
        ax.plot(
            spread,
            [math.log10(r) for r in ratio],
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
