"""Figures of the page on random projections."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, new

MARKS = ("o", "s", "^", "D", "v")
COLORS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE)


def errors(k: Sequence[int], cases: dict[str, tuple[Tensor, Tensor]], eps: float) -> Figure:
    """The relative error of P R'R w over k, measured and by the law, and the error that was promised.

    Args:    k: sizes.   cases: label -> (measured, law), each (len(k),), root mean squares.   eps: promised.
    Returns: a Figure.
    Cost:    about 100 ms.
    Page:    notebooks/jl_low_rank/random_projections
    """
    fig, ax = new(size=(6.0, 3.2))
    for (label, (seen, law)), color, mark in zip(cases.items(), COLORS, MARKS):
        ax.plot(k, law, "-", color=color, lw=1)
        ax.plot(k, seen, mark, color=color, label=label)
    ax.axhline(eps, color="black", ls="--", lw=1)
    ax.text(k[0], eps * 0.93, rf"wanted: $\varepsilon = {eps:g}$", va="top", fontsize=9)
    ax.set(xlabel="rows $k$ of the projection", ylabel=r"$\|PR^\top Rw - Pw\| \; / \; \|Pw\|$", xscale="log", yscale="log")
    _plain(ax, k)
    ax.legend(fontsize=9)
    return fig


def _plain(ax, k: Sequence[int]) -> None:
    ax.set_xticks(list(k))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("")


def tails(k: Sequence[int], curves: dict[float, tuple[Sequence[float], Sequence[float]]], marks: dict[float, list]) -> Figure:
    """The chance of a failure over k: exact, by the bound, and counted.

    Args:    k: sizes.   curves: eps -> (exact, bound) at each k.   marks: eps -> list of (k, counted frequency).
    Returns: a Figure.
    Cost:    about 100 ms.
    Page:    notebooks/jl_low_rank/random_projections
    """
    fig, ax = new(size=(6.0, 3.2))
    for (eps, (exact, bound)), color, mark in zip(curves.items(), COLORS, MARKS):
        ax.plot(k, exact, "-", color=color, label=rf"exact, $\varepsilon = {eps:g}$")
        ax.plot(k, bound, "--", color="black", lw=1)
        ax.plot(*zip(*marks[eps]), mark, color=color)
        end = next((i for i, b in enumerate(bound) if b < 2e-5), len(k)) - 1
        ax.text(k[end], bound[end] * 1.6, "bound", fontsize=9, ha="right")
    ax.axhline(1, color=GREY, lw=0.8)
    ax.set(xlabel="rows $k$ of the projection", ylabel="chance of a failure", yscale="log", ylim=(1e-5, 3))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.legend(fontsize=9, loc="lower right")
    return fig


def families(vectors: Sequence[str], failures: dict[str, Sequence[float]], exact: float) -> Figure:
    """How often each family fails, for a few vectors, and the Gaussian chance.

    Args:    vectors: their names.   failures: family -> frequency for each vector.   exact: chance of Gaussian entries.
    Returns: a Figure.
    Cost:    about 100 ms.
    Page:    notebooks/jl_low_rank/random_projections
    """
    fig, ax = new(size=(6.0, 3.0))
    width = 0.8 / len(failures)
    hatches = ("", "//", "..", "xx", "\\\\", "")
    for i, (name, values) in enumerate(failures.items()):
        at = [j + (i - (len(failures) - 1) / 2) * width for j in range(len(vectors))]
        ax.bar(at, values, width * 0.9, label=name, color=(*COLORS, "#C9C9C9")[i], hatch=hatches[i], edgecolor="white", lw=0)
    ax.axhline(exact, color="black", ls="--", lw=1)
    ax.set(ylabel="share of failures", xlabel="the vector that is projected", ylim=(0, 0.1))
    ax.set_xticks(range(len(vectors)), vectors)
    ax.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def row(p: Tensor, k: Sequence[int], surrogates: Sequence[Tensor]) -> tuple[list[Figure], list[str]]:
    """Frames of the slider: one row of P, and the same row of P R'R, as k grows.

    Args:    p: (n,), a row of attention.   k: sizes.   surrogates: one (n,) a size.
    Returns: (frames, labels), one a size.
    Cost:    about 100 ms a frame.
    Page:    notebooks/jl_low_rank/random_projections
    """
    top = float(max(p.max(), *(s.abs().max() for s in surrogates)))
    frames, labels = [], []
    for size, s in zip(k, surrogates):
        off = float((s - p).norm() / p.norm())
        fig, ax = new(size=(6.0, 2.8))
        x = torch.arange(len(p)).tolist()
        ax.bar(x, s.tolist(), 1.0, color=[VERMILLION if v < 0 else "#9CC3DF" for v in s.tolist()], label=r"of $PR^\top R$")
        ax.step(x, p.tolist(), where="mid", color="black", lw=1.2, label="of $P$")
        ax.axhline(0, color=GREY, lw=0.6)
        law = ((len(p) + 1) / size) ** 0.5
        ax.set(xlabel="column $j$", ylabel=f"row, $k = {size}$", ylim=(-top * 1.05, top * 1.05),
               title=rf"$k = {size}$: distance {off:.2f} of the row's norm; law of the mean square: {law:.2f}")
        ax.legend(fontsize=9, loc="lower right")
        frames.append(fig)
        labels.append(f"k = {size}")
    return frames, labels
