"""Figures of the page on sparse patterns and their conditions."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from attnlib.figures import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, new
from attnlib.patterns import Pattern

COLOURS = ["white", BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION]
STYLES = [
    (BLUE, "o"),
    (ORANGE, "s"),
    (GREEN, "^"),
    (VERMILLION, "D"),
    (PURPLE, "v"),
    (SKY, "P"),
]


def masks(patterns: dict[str, Pattern], columns: int = 4) -> Figure:
    """Small pictures of patterns: row k, column j; the colour says in which step k
    reads j first.
    """
    rows = -(-len(patterns) // columns)
    height = 1.75 * rows
    fig, axes = new(rows, columns, size=(6.0, height), squeeze=False)
    for ax in axes.flat[len(patterns) :]:
        ax.axis("off")
    last = len(COLOURS) - 1
    for ax, (title, pattern) in zip(axes.flat, patterns.items()):
        first = pattern.mask(0).int()
        for step in range(1, pattern.p):
            read_now = (first == 0) & pattern.mask(step)
            first[read_now] = step + 1
        ax.imshow(
            first.clamp_max(last).numpy(),
            cmap=ListedColormap(COLOURS),
            vmin=0,
            vmax=last,
        )
        edges = [i - 0.5 for i in range(pattern.n)]
        ax.set_xticks(edges, minor=True)
        ax.set_yticks(edges, minor=True)
        ax.grid(which="minor", color="0.8", lw=0.3)
        ax.tick_params(which="both", length=0, labelleft=False, labelbottom=False)
        ax.set_title(title, fontsize=9)
    axes[0, 0].set(ylabel="reader $k$", xlabel="read token $j$")
    return fig


def growth(
    n: Sequence[int],
    measured: dict[str, list],
    formulas: dict[str, list],
) -> Figure:
    """Hops and connections over the number of tokens, measured as marks, formulas as
    dashed lines.
    """
    fig, axes = new(1, 2, size=(6.0, 3.6))
    for name, (colour, mark) in zip(measured, STYLES):
        counted = zip(*measured[name])
        by_formula = zip(*formulas[name])
        for ax, got, wanted in zip(axes, counted, by_formula):
            ax.plot(n, wanted, "k--", lw=1)
            ax.plot(n, got, mark, color=colour, label=name, ms=5)
    axes[0].set(ylabel="hops $s$", title="layers until all hear all")
    axes[1].set(ylabel="connections", title="connections of a layer")
    for ax in axes:
        ax.set(xlabel="tokens $n$", xscale="log", yscale="log")
        ax.set_xticks(list(n), [str(size) for size in n])
        ax.minorticks_off()
        ax.yaxis.set_major_formatter("{x:g}")
    axes[1].plot([], [], "k--", lw=1, label="formulas")
    fig.legend(
        *axes[1].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3,
        fontsize=9,
        frameon=False,
    )
    return fig
