"""Figures of the page on path decomposition."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, GREY, ORANGE, VERMILLION, new


def network(L: int, h: int, path: Sequence[int | None]) -> Figure:
    """A stack of layers as columns of heads and a skip, every way through it, and one
    path on top.
    """
    fig, ax = new(size=(6.0, 2.9))
    levels = list(range(h, -1, -1))  # heads on top, the skip at the bottom
    spots = [
        [(0, h / 2)],
        *([(2 * l, y) for y in levels] for l in range(1, L + 1)),
        [(2 * L + 2, h / 2)],
    ]
    for here, there in zip(spots, spots[1:]):
        for x0, y0 in here:
            for x1, y1 in there:
                ax.plot([x0, x1], [y0, y1], color="#D3D3D3", lw=1, zorder=1)
    way = [
        spots[0][0],
        *(spots[l + 1][h if c is None else c] for l, c in enumerate(path)),
        spots[-1][0],
    ]
    ax.plot(*zip(*way), color=VERMILLION, lw=2.6, zorder=2)
    names = [
        ["$X$"],
        *(
            [*(f"$P^{l}_{{{i + 1}}}$" for i in range(h)), "skip"]
            for l in range(1, L + 1)
        ),
        [r"$X_L$"],
    ]
    for column, words in zip(spots, names):
        for (x, y), word in zip(column, words):
            edge = VERMILLION if (x, y) in way else GREY
            box = {"boxstyle": "round,pad=0.35", "fc": "white", "ec": edge, "lw": 1.3}
            ax.text(x, y, word, ha="center", va="center", bbox=box, zorder=3)
    for l in range(1, L + 1):
        ax.text(2 * l, h + 0.75, f"layer {l}", ha="center", color="#444444")
    ax.set(xlim=(-0.6, 2 * L + 2.8), ylim=(-0.6, h + 1.1))
    ax.axis("off")
    return fig


def profile(
    counts: Sequence[int], sums: Tensor, single: Sequence[Sequence[float]]
) -> Figure:
    """Where the paths are, and where the output is: shares by length, of paths and of
    norm.
    """
    fig, (left, right) = new(1, 2, size=(6.0, 2.9))
    k = range(len(counts))
    share = [c / sum(counts) for c in counts]
    left.bar(k, share, color="#C9DDEB", edgecolor=BLUE)
    left.set(
        xlabel="length $k$ of the path",
        ylabel="share of all paths",
        title="where the paths are",
    )
    right.plot(
        k, sums.numpy(), "o-", color=VERMILLION, label=r"$\|S_k\|_F$, all together"
    )
    right.plot(
        k,
        [math.sqrt(sum(squares)) for squares in single],
        "s--",
        color=BLUE,
        label="each by itself",
    )
    right.set(
        xlabel="length $k$ of the path",
        ylabel="size of the contribution",
        yscale="log",
        title="where the output is",
    )
    _plain_log(right.yaxis)
    right.legend(fontsize=9)
    return fig


def partial_sums(by_length: Tensor, total: Tensor) -> tuple[list[Figure], list[str]]:
    """Frames of the slider: the sum of all paths up to length K beside the output of
    the network.
    """
    top = float(total.abs().max())
    norms = by_length.flatten(1).norm(dim=1).tolist()
    frames, labels = [], []
    for K in range(len(by_length)):
        part = by_length[: K + 1].sum(0)
        miss = float((part - total).norm() / total.norm())
        fig, (bars, here, there) = new(1, 3, size=(6.0, 2.7), width_ratios=[1.25, 1, 1])
        lit = [BLUE if k <= K else "#E4E4E4" for k in range(len(by_length))]
        bars.bar(range(len(by_length)), norms, color=lit, edgecolor=GREY, linewidth=0.6)
        bars.set(
            xlabel="length $k$",
            ylabel=r"$\|S_k\|_F$",
            xticks=range(0, len(by_length), 2),
        )
        for ax, values, title in (
            (here, part, rf"$k \leq {K}$: {miss:.1%} off"),
            (there, total, "the network"),
        ):
            ax.imshow(
                values.numpy(),
                cmap="PuOr",
                vmin=-top,
                vmax=top,
                aspect="auto",
                interpolation="nearest",
            )
            ax.set(title=title, xlabel="feature", xticks=[], yticks=[])
        here.set_ylabel("token")
        frames.append(fig)
        labels.append(f"paths of length up to {K}")
    return frames, labels


def _plain_log(axis) -> None:
    """A logarithmic axis whose ticks read 0.05, not 5 x 10^-2."""
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(lambda x, _: f"{x:g}" if f"{x:.0e}"[0] in "25" else "")


def estimators(
    single: Sequence[Sequence[float]],
    by_signs: Tensor,
    *,
    work: int,
    generator: torch.Generator,
) -> Figure:
    """Relative error of two estimates of the path norms, for the same number of head
    applications.
    """
    lengths = range(1, len(single))
    truth = torch.tensor([sum(norms) for norms in single])
    errors = {
        "random signs, all paths at once": by_signs[:, 1:] / truth[1:] - 1,
        "single paths, drawn at random": [],
    }
    for k in lengths:
        norms, size = (
            torch.tensor(single[k]),
            (len(by_signs), work // len(lengths) // k),
        )
        drawn = norms[torch.randint(len(norms), size, generator=generator)].mean(
            1
        ) * len(norms)
        errors["single paths, drawn at random"].append(drawn / truth[k] - 1)
    errors["single paths, drawn at random"] = torch.stack(
        errors["single paths, drawn at random"], 1
    )
    fig, ax = new(size=(6.0, 2.8))
    for (label, error), mark, color in zip(
        errors.items(), ("o-", "s--"), (GREEN, ORANGE)
    ):
        ax.plot(
            lengths,
            error.square().mean(0).sqrt().numpy(),
            mark,
            color=color,
            label=label,
        )
    ax.set(
        xlabel="length $k$ of the path",
        ylabel="relative error (rms)",
        yscale="log",
        xticks=list(lengths),
    )
    _plain_log(ax.yaxis)
    ax.legend()
    return fig


def recomputed(c: Tensor, term: Tensor, alone: Tensor) -> Figure:
    """The toy of two tokens: the term of a path against the same head run by itself."""
    fig, ax = new(size=(6.0, 2.8))
    ax.plot(
        c.numpy(),
        term.numpy(),
        "-",
        color=BLUE,
        label="term of the theorem: $P^2$ from the full pass",
    )
    ax.plot(
        c.numpy(),
        alone.numpy(),
        "--",
        color=VERMILLION,
        label="same head alone: $P^2$ recomputed from $X$",
    )
    ax.set(xlabel="strength $c$ of the attention", ylabel="coefficient of $X$")
    ax.legend()
    return fig
