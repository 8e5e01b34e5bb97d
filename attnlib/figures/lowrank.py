"""Figures of the page on spectra and Linformer."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new

WAYS = (
    (BLUE, "o-"),
    (ORANGE, "s--"),
    (GREEN, "^-."),
    (PURPLE, "D:"),
    (VERMILLION, "v-"),
    (SKY, "P--"),
)


def spectra(curves: dict[str, Tensor]) -> Figure:
    """Singular values over their number, each curve a mean over heads."""
    fig, ax = new(size=(6.0, 3.2))
    for (label, sigma), (color, way) in zip(curves.items(), WAYS):
        numbers = range(1, len(sigma) + 1)
        ax.plot(
            numbers,
            sigma.clamp_min(1e-6).tolist(),
            way,
            color=color,
            label=label,
            markevery=16,
            ms=4,
        )
    ax.set(
        xlabel="number $j$",
        ylabel=r"singular value $\sigma_j$",
        yscale="log",
        ylim=(1e-5, 20),
    )
    ax.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def products(
    ranks: Sequence[int], errors: dict[str, Sequence[float]], law: Sequence[float]
) -> Figure:
    """Relative error of P V by several surrogates of one rank, and the law of random
    projections.
    """
    fig, ax = new(size=(6.0, 3.2))
    ax.plot(ranks, law, "k--", lw=1.1, label="law (7.6)", zorder=3)
    for (label, values), (color, way) in zip(errors.items(), WAYS):
        if label.startswith("projection"):
            way = way[0]  # the mark alone: the line is the law's
        ax.plot(ranks, values, way, color=color, label=label)
    ax.axhline(1, color=GREY, ls=(0, (1, 1)), label="zero matrix")
    ax.set(
        xlabel="rank $k$",
        ylabel="relative error of $PV$",
        xscale="log",
        yscale="log",
        xticks=ranks,
        yticks=[0.3, 0.5, 1, 2, 4],
    )
    ax.xaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    ax.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def losses(
    sizes: Sequence[int],
    compressed: Sequence[Sequence[float]],
    dense: Sequence[float],
    none: Sequence[float],
) -> Figure:
    """The loss after training over the size of the projections, one mark a seed, with
    dense and with no attention.
    """
    fig, ax = new(size=(6.0, 3.2))
    means = [fmean(seeds) for seeds in compressed]
    places = []
    values = []
    for k, seeds in zip(sizes, compressed):
        places += [k] * len(seeds)
        values += seeds
    ax.plot(sizes, means, "-", color=BLUE, label="Linformer, mean")
    ax.plot(places, values, "o", color=BLUE, label="each seed")
    right = sizes[-1] * 2
    ax.axhline(fmean(dense), color=VERMILLION, ls="--")
    ax.plot(
        [right] * len(dense),
        dense,
        "s",
        color=VERMILLION,
        label="dense, $n = 128$",
    )
    ax.axhline(fmean(none), color=GREY, ls=":")
    ax.plot([right] * len(none), none, "^", color=GREY, label="no attention")
    ax.set(
        xlabel="size $k$ of the projections",
        ylabel="loss, nats a character",
        xscale="log",
        xticks=sizes,
    )
    ax.xaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    ax.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig
