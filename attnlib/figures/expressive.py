"""Figures of the page on patterns in logarithmic dimension."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlib.attention import attention_matrix
from attnlib.expressive import Exhausted, fit, verify
from attnlib.figures import BLUE, GREEN, ORANGE, PURPLE, VERMILLION, new

# From tokens n and sparsity k to a dimension that is enough.
Theorem = Callable[[int, int], int]


def _map(ax, p: Tensor, title: str) -> None:
    """An attention matrix in colours, by the logarithm."""
    ax.imshow(
        p.clamp_min(1e-3).log10().tolist(),
        cmap="cividis",
        vmin=-3,
        vmax=0,
        interpolation="nearest",
    )
    ax.set(
        title=title,
        xlabel="key $j$",
        ylabel="query $i$",
        xticks=[],
        yticks=[],
    )


def real_maps(maps: Sequence[Tensor], shares: Tensor) -> Figure:
    """Two attention maps of one head on two texts, and what share of a row its largest
    entries hold.
    """
    fig, axes = new(1, 3, size=(6.0, 2.5))
    for ax, p, title in zip(axes, maps, ("on one text", "on another")):
        _map(ax, p, title)
    n = len(maps[0])
    most = shares.shape[1]
    entries = range(1, most + 1)
    for row in shares.tolist():
        axes[2].plot(entries, row, "-", color=BLUE, alpha=0.6)
    axes[2].plot([1, most], [1 / n, most / n], "k--")
    axes[2].set(
        xlabel="entries of a row",
        ylabel="share of the row",
        title="largest entries",
        ylim=(0, 1.02),
    )
    return fig


def same_weights(maps: dict[str, Tensor]) -> Figure:
    """Attention matrices that one pair of weights makes from different inputs."""
    fig, axes = new(1, len(maps), size=(6.0, 2.4))
    for ax, (label, p) in zip(axes, maps.items()):
        _map(ax, p, label)
    return fig


def growing(
    columns: Tensor,
    sizes: Sequence[int],
    *,
    eps1: float,
    generator: torch.Generator,
) -> tuple[list[Figure], list[str]]:
    """Frames of a slider: the attention matrix for growing d beside the wanted one,
    best of three draws.
    """
    n, k = columns.shape
    wanted = torch.zeros(n, n).scatter(1, columns, 1 / k)
    frames = []
    for d in sizes:
        try:
            code = fit(
                columns,
                d=d,
                eps1=eps1,
                eps2=0.5,
                s=-4 * math.log(eps1),
                restarts=3,
                generator=generator,
            )
        except Exhausted as failure:
            code = failure.code
        fig, (left, right) = new(1, 2, size=(6.0, 3.3))
        p = attention_matrix(code.x, code.w_q, code.w_k)
        worst = verify(code, columns).margin
        _map(left, p, f"$d = {d}$, worst gap {worst:.1f}")
        _map(right, wanted, "wanted")
        frames.append(fig)
    return frames, [f"d = {d}" for d in sizes]


def dimensions(table: Sequence[dict], theorem: Theorem) -> Figure:
    """The smallest dimension that worked over the number of tokens, its predictor, the
    theorem, and the trivial d = n.
    """
    fig, ax = new(size=(6.0, 3.4))
    n = table[0]["n"]
    colors = (BLUE, GREEN, ORANGE, VERMILLION)
    for row, color, mark in zip(table, colors, "os^D"):
        ax.plot(
            row["n"],
            row["measured"],
            mark,
            color=color,
            label=f"$k = {row['k']}$, $s = {row['level']}T$",
        )
        ax.plot(row["n"], row["predicted"], ":", color=color)
    ax.plot([], [], ":", color="black", label="predicted")
    asked = [theorem(size, 1) for size in n]
    ax.plot(n, asked, "k--", label="theorem, $k = 1$")
    ax.plot([64, 256], [64, 256], "-.", color=PURPLE, label="trivial, $d = n$")
    ax.set(
        xlabel="tokens $n$",
        ylabel="smallest dimension $d$",
        xscale="log",
        ylim=(0, 260),
    )
    powers = [round(math.log2(size)) for size in n]
    ax.set_xticks(n, [f"$2^{{{power}}}$" for power in powers])
    ax.minorticks_off()
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def plain(table: Sequence[dict], theorem: Theorem) -> Figure:
    """The plain projection: what it needs, what its theorem asks for, and the trivial d
    = n.
    """
    fig, ax = new(size=(6.0, 3.0))
    for row, color, mark in zip(table, (BLUE, GREEN, VERMILLION), "osD"):
        n = row["n"]
        k = row["k"]
        ax.plot(n, row["measured"], mark, color=color, label=f"measured, $k = {k}$")
        asked = [theorem(size, k) for size in n]
        ax.plot(n, asked, "k--", lw=1.2)
        ax.annotate(
            f"$k = {k}$",
            (n[-1], asked[-1]),
            xytext=(4, -3),
            textcoords="offset points",
            fontsize=8,
        )
    sizes = table[0]["n"]
    ax.plot([], [], "k--", label="theorem")
    ax.plot(sizes, sizes, "-.", color=PURPLE, label="trivial, $d = n$")
    ax.set(xlabel="tokens $n$", ylabel="dimension $d$", xscale="log", yscale="log")
    ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.minorticks_off()
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.06, 1.0))
    return fig
