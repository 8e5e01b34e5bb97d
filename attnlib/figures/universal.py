"""Figures of the pages on the universality proof."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from attnlib.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new

LOOKS = (
    (BLUE, "o"),
    (VERMILLION, "s"),
    (GREEN, "^"),
    (PURPLE, "D"),
    (ORANGE, "v"),
    (SKY, "P"),
)


def ids_moving(
    states: Sequence[np.ndarray],
    labels: Sequence[str],
    moved: Sequence[int | None],
    size: int,
) -> list[Figure]:
    """Frames for a slider: the ids of one input on a logarithmic line, a row a token,
    the trace of the last move.
    """
    n = len(states[0])
    lows = [int(v) // size * size for v in states[0]]
    befores = [states[0], *states]
    tops = [int(max(*before, *now)) for before, now in zip(befores, states)]
    near = max(top for top, value in zip(tops, moved) if value is not None)
    frames = []
    for i, (state, label, value) in enumerate(zip(states, labels, moved)):
        fig, ax = new(size=(6.0, 2.6))
        for j in range(n):
            color, mark = LOOKS[j % len(LOOKS)]
            ax.fill_betweenx(
                [j - 0.3, j + 0.3],
                lows[j] + 0.6,
                lows[j] + size + 1,
                color=GREY,
                alpha=0.25,
                lw=0,
            )
            old = befores[i][j]
            now = state[j]
            if old != now:
                arrow = {"arrowstyle": "->", "color": color, "lw": 1.6}
                ax.annotate("", (now + 1, j), (old + 1, j), arrowprops=arrow)
            ax.plot([now + 1], [j], mark, color=color, ms=9)
            digits = 0 if now % 1 == 0 else 1
            ax.annotate(
                f"{now:,.{digits}f}",
                (now + 1, j),
                (0, 9),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
        if value is not None:
            ax.axvline(value + 1, color="black", ls="--", lw=1.2)
        right = near if tops[i] <= near else max(tops)
        ax.set(
            xscale="log",
            xlim=(0.7, 2.5 * right),
            ylim=(n - 0.4, -0.75),
            yticks=range(n),
            xlabel="id + 1 (logarithmic)",
            ylabel="tokens",
            title=label,
        )
        ax.set_yticklabels([str(j) for j in range(n)])
        frames.append(fig)
    return frames


def errors(
    cells: Sequence[int],
    largest: Sequence[float],
    mean: Sequence[float],
    slope: float,
    layers: Sequence[int],
) -> Figure:
    """The error of the network over the number of cells with its bound, and the layers
    it takes.
    """
    fig, (left, right) = new(1, 2, size=(6.0, 2.8))
    proved = [slope / (2 * k) for k in cells]
    formula = [3 * k**3 for k in cells]
    left.plot(cells, proved, "k--", label="proved")
    left.plot(cells, largest, "s", color=VERMILLION, label="largest seen")
    left.plot(cells, mean, "o", color=BLUE, label="mean")
    left.set(
        xscale="log",
        yscale="log",
        xlabel="cells to an edge $K$",
        ylabel="error of an entry",
    )
    left.legend(fontsize=8)
    right.plot(cells, formula, "k--", label="$n K^{nd}$")
    right.plot(cells, layers, "D", color=GREEN, label="value layers built")
    right.set(
        xscale="log",
        yscale="log",
        xlabel="cells to an edge $K$",
        ylabel="layers",
    )
    right.legend(fontsize=8)
    for ax in (left, right):
        ax.set_xticks(list(cells), [str(k) for k in cells])
        ax.minorticks_off()
    return fig


def line(
    t: np.ndarray,
    curves: dict[str, np.ndarray],
    *,
    clip: float,
) -> Figure:
    """One output along a line through the cube: target, steps of the exact network, the
    network with ramps.
    """
    fig, ax = new(size=(6.0, 2.9))
    looks = (
        {"color": "black", "ls": "--", "lw": 1.6},
        {"color": BLUE, "ls": "-", "lw": 1.6},
        {"color": VERMILLION, "ls": ":", "lw": 2.2},
    )
    for (label, y), look in zip(curves.items(), looks):
        inside = np.clip(y, -clip, clip)
        ax.plot(t, inside, label=label, **look)
    ax.set(
        xlabel="the entry of token 0", ylabel="output of token 0", ylim=(-clip, clip)
    )
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def temperatures(
    scales: Sequence[float | int],
    wrong: dict[str, Sequence[float | int]],
    proved: dict[str, float | int],
) -> Figure:
    """The share of inputs with a wrong output over the inverse temperature, and where
    the proof says that none is left.
    """
    fig, ax = new(size=(6.0, 2.8))
    dashes = ("--", ":", "-.")
    for label, (color, mark), dash in zip(wrong, LOOKS, dashes):
        ax.plot(scales, wrong[label], f"{mark}-", color=color, label=label)
        ax.axvline(
            proved[label],
            color="black",
            ls=dash,
            lw=1.2,
            label=f"proved, {label}",
        )
    ax.set(
        xlabel=r"inverse temperature $\lambda$",
        ylabel="share of wrong outputs",
        ylim=(-0.03, 1.03),
    )
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig
