"""Figures of the page on the note's four questions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, GREY, VERMILLION, new


def two_fates(falls: Sequence[float], grows: Sequence[float]) -> Figure:
    """Residual by layer of two networks, one that starts above 1 and one that starts
    below.
    """
    fig, ax = new(size=(6.0, 2.9))
    ax.axhline(1, color="black", ls="--", lw=1.1)
    last = len(grows) - 1
    ax.text(last, 1.3, "residual 1", ha="right", va="bottom", fontsize=9)
    ax.plot(falls, "o-", color=BLUE, label=f"starts at {falls[0]:.1f}")
    ax.plot(grows, "s-", color=VERMILLION, label=f"starts at {grows[0]:.2f}")
    ax.set(
        xlabel="layer $l$",
        ylabel="residual (composite norm)",
        yscale="log",
        ylim=(1e-14, 1e6),
    )
    ax.legend(loc="lower right")
    return fig


def chord(t: Tensor, norm: Tensor, ends: tuple[float, float], K: float) -> Figure:
    """The composite norm along the segment between two matrices, above the chord that a
    norm would stay below.
    """
    fig, ax = new(size=(6.0, 2.9))
    line = ends[0] + (ends[1] - ends[0]) * t
    ax.plot(
        t.numpy(),
        (K * line).numpy(),
        "--",
        color="black",
        label=f"$K$ times the chord, $K$ = {K:.3f}",
    )
    ax.plot(
        t.numpy(),
        norm.numpy(),
        "-",
        color=VERMILLION,
        label=r"$\|(1-t)A + tB\|_{1,\infty}$",
    )
    ax.plot(
        t.numpy(),
        line.numpy(),
        ":",
        color=GREY,
        label="the chord: a norm stays below it",
    )
    middle = float(norm[len(norm) // 2])
    ax.plot([0.5], [middle], "o", color=VERMILLION)
    ax.set(
        xlabel="place $t$ between $A$ and $B$",
        ylabel="composite norm",
        ylim=(1.3, 1.53),
    )
    ax.legend(loc="lower center", fontsize=9)
    return fig


def toy_map(values: Sequence[float], top: float, starts: Sequence[float]) -> Figure:
    """The map y -> v tanh(y^2) y of two tokens for several v, and the way down or up
    from some starts.
    """
    fig, ax = new(size=(6.0, 3.4))
    y = torch.linspace(0, top, 200, dtype=torch.float64)
    ax.plot(
        y.numpy(),
        y.numpy(),
        "--",
        color="black",
        lw=1,
        label="no change",
    )
    for v, style, color in zip(values, ("-", "-."), (BLUE, VERMILLION)):
        after = v * torch.tanh(y**2) * y
        ax.plot(y.numpy(), after.numpy(), style, color=color, label=f"$v = {v:g}$")
    for start in starts:
        way = [(start, 0.0)]
        here = start
        for _ in range(6):
            shrink = float(torch.tanh(torch.tensor(here) ** 2))
            there = values[-1] * shrink * here
            way += [(here, there), (there, there)]
            here = there
        ax.plot(*zip(*way), color=GREY, lw=1, ls=":")
        mark = "o" if start < 1 else "^"
        ax.plot([start], [0], mark, color=GREY, clip_on=False)
    ax.set(
        xlabel=r"size of the tokens, $y = a\sqrt{w}$",
        ylabel="size after one layer",
        xlim=(0, top),
        ylim=(0, top),
    )
    ax.legend(loc="upper left", fontsize=9)
    return fig


def contraction(
    spread: Tensor, ratio: Tensor, toy: Tensor, toy_ratio: Tensor
) -> Figure:
    """How much heads shrink the spread of a column, against the bound tanh(Delta /
    4).
    """
    fig, ax = new(size=(6.0, 3.0))
    grid = torch.logspace(-2, 1.5, 100, dtype=torch.float64)
    ax.plot(
        grid.numpy(),
        torch.tanh(grid / 4).numpy(),
        "--",
        color="black",
        label=r"bound, $\tanh(\Delta/4)$",
    )
    ax.plot(
        spread.numpy(),
        ratio.numpy(),
        ".",
        ms=4,
        color=BLUE,
        label="random heads",
    )
    ax.plot(
        toy.numpy(),
        toy_ratio.numpy(),
        "D",
        ms=6,
        color=GREEN,
        mfc="none",
        label="two tokens",
    )
    ax.set(
        xlabel=r"difference of two rows of logits, $\Delta$",
        ylabel="spread after / before",
        xscale="log",
        yscale="log",
    )
    ax.set(xlim=(0.01, 32), ylim=(1e-4, 2))
    ax.legend(loc="lower right", fontsize=9)
    return fig
