"""Figures of the page on path efficacy."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new
from attnlib.paths import path_counts

MARKS = ("o-", "s-", "^-", "D-", "v-", "P-", "X-", "*-", "d-")
COLOURS = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, "black", GREY, BLUE)


def length_laws(architectures: dict[str, tuple[int, int]]) -> Figure:
    """How many layers a path skips, as a share of all paths, for several networks."""
    fig, ax = new(size=(6.0, 3.4))
    for (name, (L, h)), style, color in zip(architectures.items(), MARKS, COLOURS):
        counts = path_counts([h] * L, skip=True)
        shares = [counts[L - t] / (h + 1) ** L for t in range(min(L, 8) + 1)]
        ax.plot(shares, style, color=color, ms=4.5, lw=1.1, label=f"{name} ({L}, {h})")
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
        k = torch.arange(alone.shape[1]).tolist()
        for row in alone.tolist():
            ax.plot(k, row, "o", color=BLUE, ms=3, alpha=0.6)
        ax.plot(k, alone.mean(0).tolist(), "-", color=BLUE, label="one length alone")
        ax.axhline(
            float(torch.as_tensor(found["whole"]).mean()),
            color="black",
            ls="--",
            label="whole network",
        )
        ax.axhline(found["guess"], color=VERMILLION, ls=":", label="blind guess")
        ax.set(title=title, xlabel="length $k$", ylim=(0, 1.05), xticks=k)
    axes[0].set_ylabel("accuracy")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
    return fig


def drawn(modes: dict[str, Tensor], whole: float) -> Figure:
    """Accuracy of a few random paths of each length: the mean of each mode, with its
    range over networks.
    """
    fig, ax = new(size=(6.0, 3.0))
    for i, ((label, values), style, color) in enumerate(
        zip(modes.items(), MARKS, (BLUE, VERMILLION, GREEN, ORANGE))
    ):
        mean = values.mean(0)
        below, above = mean - values.amin(0), values.amax(0) - mean
        k = [v + 0.1 * (i - (len(modes) - 1) / 2) for v in range(values.shape[1])]
        ax.errorbar(
            k,
            mean.tolist(),
            [below.tolist(), above.tolist()],
            fmt=style,
            color=color,
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
    fig, axes = new(
        len(starts), len(loops), size=(6.0, 2.1 * len(starts)), squeeze=False
    )
    turn = torch.linspace(0, 6.3, 90)
    for column, (variant, found) in enumerate(loops.items()):
        for row, start in enumerate(starts):
            ax, way = axes[row, column], torch.tensor(found[start])
            ax.plot(
                (radius * turn.cos()).tolist(),
                (radius * turn.sin()).tolist(),
                "--",
                color="black",
                lw=0.8,
            )
            for i, (color, mark) in enumerate(((BLUE, "o"), (ORANGE, "s"))):
                x, y = way[:, 2 * i].tolist(), way[:, 2 * i + 1].tolist()
                ax.plot(x, y, "-", color=color, lw=2.4 - 1.4 * i)
                ax.plot(x[:1], y[:1], mark, color=color, ms=7, mfc="white")
                ax.plot(x[-1:], y[-1:], mark, color=color, ms=8 - 4 * i)
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
