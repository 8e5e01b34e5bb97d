"""Figures of the page on the reviewers' questions."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from matplotlib.figure import Figure

from attnlib.figures import BLUE, GREEN, ORANGE, VERMILLION, new


def accuracies(runs: dict[str, Sequence[float]]) -> Figure:
    """Training accuracy of each model, a mark a seed, and the line of the exact
    network.
    """
    fig, ax = new(size=(6.0, 3.4))
    for row, (name, values) in enumerate(reversed(runs.items())):
        if name.startswith("frozen"):
            look = {"marker": "o", "color": BLUE}
        elif name.startswith("trained"):
            look = {"marker": "s", "color": VERMILLION}
        else:
            look = {"marker": "^", "color": GREEN}
        places = [row] * len(values)
        ax.plot(values, places, ls="none", ms=6, alpha=0.8, **look)
    ax.axvline(1, color="black", ls="--", label="exact network on a frozen head")
    ax.set(
        xlabel="training accuracy",
        ylabel="model",
        yticks=range(len(runs)),
        yticklabels=list(reversed(runs)),
        xlim=(0.2, 1.03),
    )
    ax.legend(loc="lower left", bbox_to_anchor=(0.25, 1.0), fontsize=9)
    return fig


def widths(
    sizes: Sequence[int],
    curves: dict[str, Sequence[Sequence[float]]],
    ids: dict[str, int],
) -> Figure:
    """Training accuracy over the width, a mark a seed, with the width at which the
    exact network exists.
    """
    fig, ax = new(size=(6.0, 3.2))
    colors = (BLUE, VERMILLION, ORANGE, GREEN)
    styles = ("o-", "s-", "o--", "s--")
    for label, color, style in zip(curves, colors, styles):
        means = [fmean(seeds) for seeds in curves[label]]
        ax.plot(sizes, means, style, color=color, label=label, mfc="none")
        mark = style[0]
        for size, seeds in zip(sizes, curves[label]):
            places = [size] * len(seeds)
            ax.plot(places, seeds, mark, color=color, ms=3)
    for label, style in zip(ids, (":", "-.")):
        ax.axvline(ids[label], color="black", ls=style, lw=1, label=label)
    ax.set(
        xlabel="hidden units",
        ylabel="training accuracy",
        xscale="log",
        xticks=list(sizes),
        ylim=(0.3, 1.02),
    )
    ax.xaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def rate(
    cells: Sequence[int],
    mean: Sequence[float],
    worst: Sequence[float],
    bound: Sequence[float],
) -> Figure:
    """Error of the construction over the number of cells, and the proved bound."""
    fig, ax = new(size=(6.0, 3.0))
    ax.plot(cells, mean, "o", color=BLUE, label="mean error")
    ax.plot(cells, worst, "s", color=VERMILLION, label="largest error found")
    ax.plot(cells, bound, "k--", label="proved: $L / (2 g)$")
    ax.set(
        xlabel="cells $g$ a coordinate",
        ylabel="error",
        xscale="log",
        yscale="log",
        xticks=list(cells),
    )
    ax.xaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    ax.legend(fontsize=9)
    return fig
