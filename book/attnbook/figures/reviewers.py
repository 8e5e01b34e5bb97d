"""Figures of the page on the reviewers' questions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, VERMILLION, new

INK = "#444444"
PARTS = ("tokens", "one\nhead", "a number\na token", "broken\nline", "labels")
ASKED = (
    (0, "does order\nmatter?", 1),
    (1, "can it be\ncomputed,\nand kept?", -1),
    (1, "more heads?\nmore layers?", 1),
    (2, "how close\ntogether?", -1),
    (3, "how large?", 1),
    (4, "can training\nfind it?", -1),
)


# --- ideas


def asked() -> Figure:
    """The block as a row of boxes, and at each part what reviewers asked about it."""
    fig, ax = new(size=(6.0, 3.0))
    for i, name in enumerate(PARTS):
        colour = BLUE if name != "labels" else GREEN
        box = FancyBboxPatch(
            (i * 1.5 - 0.48, -0.32), 0.96, 0.64, "round,pad=0.06", ec=colour, fc="white"
        )
        ax.add_patch(box)
        ax.text(i * 1.5, 0, name, ha="center", va="center", color=INK)
        if i:
            _arrow(ax, (i * 1.5 - 0.94, 0), (i * 1.5 - 0.56, 0), INK)
    for i, words, side in ASKED:
        ax.plot([i * 1.5] * 2, [0.42 * side, 0.8 * side], color=ORANGE, ls=":")
        place = "bottom" if side > 0 else "top"
        ax.text(i * 1.5, 0.85 * side, words, ha="center", va=place, color=VERMILLION)
    ax.set(xlim=(-0.85, 6.85), ylim=(-1.5, 1.5))
    ax.axis("off")
    return fig


def follows(
    places: Sequence[float],
    labels: Sequence[float],
    line: tuple[Sequence[float], Sequence[float]],
    title: str,
) -> Figure:
    """Labels over the company of one token, and the line of a network: dots that it
    hits are filled.

    Args:
        places, labels: of the dots.
        line: abscissas and ordinates, at the places too.
        title: says which network.
    """
    fig, ax = new(size=(6.0, 3.0))
    at = dict(zip(*line))
    hit = [abs(at[x] - y) < 0.5 for x, y in zip(places, labels)]
    ax.plot(*line, color=BLUE, lw=1.3, zorder=1)
    for found, mark, colour, face, word in (
        (True, "o", GREEN, GREEN, "right"),
        (False, "s", VERMILLION, "white", "wrong"),
    ):
        xs = [x for x, h in zip(places, hit) if h is found]
        ys = [y for y, h in zip(labels, hit) if h is found]
        ax.plot(xs, ys, mark, color=colour, mfc=face, ms=6, label=word)
    ax.set_title(f"{title}: {sum(hit)} of {len(hit)} right", color=INK)
    ax.set(
        xlabel="company: the number that the head adds to the token",
        ylabel="label",
        yticks=range(5),
        xlim=(min(places) - 0.1, max(places) + 0.1),
        ylim=(-0.9, 4.9),
    )
    ax.legend(loc="upper right", ncols=2, fontsize=9, frameon=True)
    return fig


def two_limits() -> Figure:
    """Left, few edges: the furthest point of a circle is not read. Right, all edges:
    only the loudest token is heard, in two different sets.
    """
    fig, (left, right) = new(1, 2, size=(6.0, 3.1))
    angles = [2 * math.pi * k / 10 for k in range(10)]
    ring = [(math.cos(a), math.sin(a)) for a in angles]
    for k in (1, 2, 8, 9):
        _arrow(left, ring[0], ring[k], BLUE)
    _arrow(left, ring[0], ring[5], VERMILLION, "--")
    left.plot(*zip(*ring), "o", color=GREY, ms=7)
    left.plot(*ring[0], "o", color=BLUE, ms=9)
    left.plot(*ring[5], "D", color=VERMILLION, ms=8)
    left.text(-0.1, 0.08, "not read", ha="center", color=VERMILLION)
    left.text(-1.0, -1.35, "furthest", ha="center", color=VERMILLION)
    left.text(1.0, -1.35, "asks", ha="center", color=BLUE)
    left.plot([-1, -1], [-1.15, -0.15], ":", color=VERMILLION, lw=1)
    left.plot([1, 1], [-1.15, -0.15], ":", color=BLUE, lw=1)
    left.set_title("few edges:\nwho may be asked?", color=INK)
    left.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.3), aspect="equal")
    for y, row in ((1.0, (1, 2, 5, 6)), (-0.4, (1, 3, 4, 6))):
        for z in row[1:3]:
            right.plot([z], [y], "o", color=GREY, mfc="white", ms=12)
        right.plot([1], [y], "o", color=BLUE, ms=12)
        right.plot([6], [y], "D", color=GREEN, ms=11)
        for z in row:
            right.text(z, y - 0.42, str(z), ha="center", color=INK)
        bow = FancyArrowPatch(
            (1, y + 0.12),
            (5.9, y + 0.14),
            connectionstyle="arc3,rad=-0.28",
            arrowstyle="-|>",
            mutation_scale=13,
            lw=2,
            color=BLUE,
        )
        right.add_patch(bow)
    right.text(3.5, -1.3, "two sets, one answer: 6", ha="center", color=VERMILLION)
    right.set_title("all edges, hardmax:\nwho is heard?", color=INK)
    right.set(xlim=(0.3, 6.8), ylim=(-1.5, 2.0))
    for ax in (left, right):
        ax.axis("off")
    return fig


def stairs(
    line: tuple[Sequence[float], Sequence[float]],
    steps: Sequence[tuple[int, Sequence[float]]],
) -> Figure:
    """A function, and the staircases that remember it at the centres of cells.

    Args:
        line: abscissas and values of the function.
        steps: cells of each staircase, and its values at the abscissas.
    """
    fig, axes = new(1, len(steps), size=(6.0, 3.0), sharey=True)
    x, y = line
    for ax, (cells, values) in zip(axes, steps):
        ax.plot(x, y, "--", color="black", lw=1.3, label="the function")
        ax.plot(x, values, color=BLUE, lw=2, label="remembered")
        centres = [(i + 0.5) / cells for i in range(cells)]
        nearest = [min(range(len(x)), key=_distance(x, c)) for c in centres]
        ax.plot(centres, [values[i] for i in nearest], "o", color=VERMILLION, ms=5)
        ax.set_title(f"{cells} cells", color=INK)
        ax.set(xlabel="first number", ylabel=" ", xticks=[0, 0.5, 1])
    axes[0].set_ylabel("value for it")
    axes[0].legend(fontsize=9, loc="upper left")
    return fig


def _distance(x: Sequence[float], c: float):
    """How far the entry of an index is from c."""

    def away(i: int) -> float:
        return abs(x[i] - c)

    return away


def _arrow(ax, start, end, colour: str, style: str = "-") -> None:
    arrow = FancyArrowPatch(
        start, end, arrowstyle="-|>", mutation_scale=12, lw=1.8, ls=style, color=colour
    )
    ax.add_patch(arrow)


# --- measurements


def over_steps(steps: Sequence[int], runs: dict[str, Sequence[Sequence]]) -> Figure:
    """Training accuracy of two models over the number of steps, and the built network.

    Args:
        steps: of each run.
        runs: model -> for each number of steps the accuracy of each seed.
    """
    fig, ax = new(size=(6.0, 2.8))
    for (name, found), color, style in zip(
        runs.items(), (BLUE, VERMILLION), ("o-", "s--")
    ):
        ax.plot(
            steps, [fmean(seeds) for seeds in found], style, color=color, label=name
        )
    ax.axhline(1, color="black", ls=":", label="built")
    ax.set(xscale="log", xlabel="steps of training", ylabel="share of right labels")
    ax.set(xticks=steps, ylim=(0.35, 1.04))
    ax.minorticks_off()
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.legend(fontsize=9)
    return fig


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
