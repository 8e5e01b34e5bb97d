"""Figures of the page on path efficacy."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new
from attnlib.paths import path_counts

MARKS = ("o-", "s-", "^-", "D-", "v-", "P-", "X-", "*-", "d-")
COLOURS = (
    BLUE,
    ORANGE,
    GREEN,
    VERMILLION,
    PURPLE,
    SKY,
    "black",
    GREY,
    BLUE,
)


def length_laws(architectures: dict[str, tuple[int, int]]) -> Figure:
    """How many layers a path skips, as a share of all paths, for several networks."""
    fig, ax = new(size=(6.0, 3.4))
    for name, style, color in zip(architectures, MARKS, COLOURS):
        L, h = architectures[name]
        counts = path_counts([h] * L, skip=True)
        paths = (h + 1) ** L
        shares = [count / paths for count in reversed(counts)]
        ax.plot(
            shares[:9],
            style,
            color=color,
            ms=4.5,
            lw=1.1,
            label=f"{name} ({L}, {h})",
        )
    ax.set(xlabel="skipped layers $L - k$", ylabel="share of all paths", ylim=(0, None))
    ax.legend(fontsize=8, loc="upper right")
    return fig


def by_length(tasks: dict[str, dict]) -> Figure:
    """Accuracy of the paths of each length alone, a panel a task, with the whole
    network and a blind guess.
    """
    fig, axes = new(1, len(tasks), size=(6.0, 2.7), sharey=True)
    for ax, (title, found) in zip(axes, tasks.items()):
        alone = torch.as_tensor(found["length"])
        mean = alone.mean(0).tolist()
        whole = float(torch.as_tensor(found["whole"]).mean())
        k = range(len(mean))
        for row in alone.tolist():
            ax.plot(k, row, "o", color=BLUE, ms=3, alpha=0.6)
        ax.plot(k, mean, "-", color=BLUE, label="one length alone")
        ax.axhline(whole, color="black", ls="--", label="whole network")
        ax.axhline(found["guess"], color=VERMILLION, ls=":", label="blind guess")
        ax.set(
            title=title,
            xlabel="length $k$",
            ylim=(0, 1.05),
            xticks=k,
        )
    axes[0].set_ylabel("accuracy")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
    return fig


def drawn(modes: dict[str, Tensor], whole: float) -> Figure:
    """Accuracy of a few random paths of each length: the mean of each mode, with its
    range over networks.
    """
    fig, ax = new(size=(6.0, 3.0))
    colors = (BLUE, VERMILLION, GREEN, ORANGE)
    for i, (label, values) in enumerate(modes.items()):
        mean = values.mean(0)
        below = mean - values.amin(0)
        above = values.amax(0) - mean
        aside = 0.1 * (i - (len(modes) - 1) / 2)
        ax.errorbar(
            [k + aside for k in range(len(mean))],
            mean.tolist(),
            [below.tolist(), above.tolist()],
            fmt=MARKS[i],
            color=colors[i],
            ms=5,
            lw=1.2,
            capsize=2,
            label=label,
        )
    ax.axhline(whole, color="black", ls="--", lw=1, label="whole network")
    ax.set(xlabel="length $k$", ylabel="accuracy", ylim=(0, 1.05))
    ax.legend(fontsize=8.5)
    return fig


def circle(loops: dict[str, dict], radius: float = 0.3) -> Figure:
    """The ways of two tokens that one layer moves in a loop, a column a variant, a row
    a start.
    """
    starts = list(next(iter(loops.values())))
    rows = len(starts)
    height = 2.1 * rows
    fig, axes = new(rows, len(loops), size=(6.0, height), squeeze=False)
    turn = torch.linspace(0, 6.3, 90)
    across = (radius * turn.cos()).tolist()
    up = (radius * turn.sin()).tolist()
    for column, (variant, found) in enumerate(loops.items()):
        for row, start in enumerate(starts):
            ax = axes[row, column]
            ax.plot(across, up, "--", color="black", lw=0.8)
            # The second way is thinner, so that the first one shows below it.
            first, second = torch.tensor(found[start]).split(2, dim=1)
            _way(ax, first, "o", color=BLUE, lw=2.4, ms=8)
            _way(ax, second, "s", color=ORANGE, lw=1.0, ms=4)
            ax.set(
                xlim=(-0.42, 0.42),
                ylim=(-0.42, 0.42),
                aspect="equal",
                xticks=[],
                yticks=[],
            )
            if row == 0:
                ax.set_title(variant)
            if column == 0:
                ax.set_ylabel(f"start: {start}")
    return fig


def _way(
    ax,
    way: Tensor,
    mark: str,
    *,
    color: str,
    lw: float | int,
    ms: float | int,
) -> None:
    """The way of a token: a white mark at its start, a full one at its end."""
    x, y = way.mT.tolist()
    ax.plot(x, y, "-", color=color, lw=lw)
    x, y = way[0].tolist()
    ax.plot(x, y, mark, color=color, ms=7, mfc="white")
    x, y = way[-1].tolist()
    ax.plot(x, y, mark, color=color, ms=ms)
