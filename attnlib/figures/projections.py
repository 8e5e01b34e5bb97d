"""Figures of the page on random projections."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new
from attnlib.projections import failure_bound, failure_probability, projection

MARKS = ("o", "s", "^", "D", "v")
COLORS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE)


def errors(
    k: Sequence[int], cases: dict[str, tuple[Tensor, Tensor]], eps: float
) -> Figure:
    """The relative error of P R'R w over k, measured and by the law, and the error that
    was promised.
    """
    fig, ax = new(size=(6.0, 3.2))
    for label, color, mark in zip(cases, COLORS, MARKS):
        seen, law = cases[label]
        ax.plot(k, law, "-", color=color, lw=1)
        ax.plot(k, seen, mark, color=color, label=label)
    ax.axhline(eps, color="black", ls="--", lw=1)
    ax.text(
        k[-1],
        eps * 1.06,
        rf"wanted: $\varepsilon = {eps:g}$",
        ha="right",
        va="bottom",
        fontsize=9,
    )
    ax.set(
        xlabel="rows $k$ of the projection",
        ylabel=r"$\|PR^\top Rw - Pw\| \; / \; \|Pw\|$",
        xscale="log",
        yscale="log",
    )
    _plain(ax, k)
    ax.legend(fontsize=9)
    return fig


def _plain(ax, k: Sequence[int]) -> None:
    """Ticks at k, and numbers without powers of ten."""
    ax.set_xticks(list(k))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("")


def tails(eps: Sequence[float], *, draws: int, generator: torch.Generator) -> Figure:
    """The chance that a squared norm fails over k: exact, by the bound, and counted."""
    fig, ax = new(size=(6.0, 3.2))
    k = range(4, 401, 4)
    norms = {}
    for m in (16, 32, 64, 128, 256):
        z = torch.randn(draws, m, generator=generator, dtype=torch.float64)
        norms[m] = z.square().mean(1)
    for e, color, mark, dash in zip(eps, COLORS, MARKS, ("-", "-.", ":")):
        exact = [failure_probability(m, e) for m in k]
        bound = [failure_bound(m, e) for m in k]
        ax.plot(k, exact, dash, color=color, label=rf"exact, $\varepsilon = {e:g}$")
        ax.plot(k, bound, "--", color="black", lw=1)
        shares = {}
        for m, squares in norms.items():
            failed = (squares - 1).abs() > e
            if failed.any():
                shares[m] = float(failed.double().mean())
        ax.plot(list(shares), list(shares.values()), mark, color=color)
        at = max(i for i in range(68) if bound[i] > 5e-4)  # where the words fit
        ax.text(
            k[at] + 6,
            bound[at],
            rf"bound, $\varepsilon = {e:g}$",
            fontsize=9,
            va="bottom",
        )
    ax.axhline(1, color=GREY, lw=0.8)
    ax.set(
        xlabel="rows $k$ of the projection",
        ylabel="chance of a failure",
        yscale="log",
        ylim=(1e-5, 3),
    )
    ax.yaxis.set_major_formatter("{x:g}")
    ax.legend(fontsize=9, loc="upper right")
    return fig


FAMILIES = {
    "Gaussian": ("gaussian", 1),
    "Achlioptas": ("achlioptas", 1),
    "signs": ("rademacher", 1),
    "CountSketch": ("sparse", 1),
    "sparse, s = 8": ("sparse", 8),
    "SRHT": ("srht", 1),
}


def families(
    n: int, k: int, eps: float, *, draws: int, generator: torch.Generator
) -> Figure:
    """How often each family changes the squared norm of three unit vectors too much,
    and the exact Gaussian chance.
    """
    x = torch.zeros(n, 3, dtype=torch.float64)
    x[0, 0] = 1
    x[:2, 1] = 0.5**0.5
    x[:, 2] = n**-0.5
    fig, ax = new(size=(6.0, 3.0))
    width = 0.8 / len(FAMILIES)
    middle = (len(FAMILIES) - 1) / 2
    colors = (*COLORS, SKY)
    hatches = ("", "//", "..", "xx", "--", "++")
    for i, (label, (family, s)) in enumerate(FAMILIES.items()):
        images = []
        for _ in range(draws):
            r = projection(k, n, family, s=s, generator=generator)
            images.append(r @ x)
        squares = torch.stack(images).square().sum(1)
        failed = (squares - 1).abs() > eps
        aside = (i - middle) * width
        ax.bar(
            [j + aside for j in range(3)],
            failed.double().mean(0).tolist(),
            width * 0.9,
            label=label,
            color=colors[i],
            hatch=hatches[i],
            edgecolor="white",
            lw=0,
        )
    ax.axhline(failure_probability(k, eps), color="black", ls="--", lw=1)
    ax.set(
        ylabel="share of failures",
        xlabel="the vector that is projected",
        ylim=(0, 0.09),
    )
    ax.set_xticks(range(3), ["$e_1$", r"$(e_1 + e_2)/\sqrt{2}$", "flat"])
    ax.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def row(
    p: Tensor, k: Sequence[int], surrogates: Sequence[Tensor]
) -> tuple[list[Figure], list[str]]:
    """Frames of the slider: one row of P, and the same row of P R'R, as k grows."""
    largest = [float(s.abs().max()) for s in surrogates]
    top = 1.05 * max(float(p.max()), *largest)
    n = len(p)
    columns = list(range(n))
    frames = []
    labels = []
    for size, s in zip(k, surrogates):
        off = float((s - p).norm() / p.norm())
        law = ((n + 1) / size) ** 0.5
        entries = s.tolist()
        colors = ["#9CC3DF"] * n
        for j, entry in enumerate(entries):
            if entry < 0:
                colors[j] = VERMILLION
        fig, ax = new(size=(6.0, 2.8))
        ax.bar(columns, entries, 1.0, color=colors, label=r"of $PR^\top R$")
        ax.step(
            columns,
            p.tolist(),
            where="mid",
            color="black",
            lw=1.2,
            label="of $P$",
        )
        ax.axhline(0, color=GREY, lw=0.6)
        ax.set(
            xlabel="column $j$",
            ylabel=f"row, $k = {size}$",
            ylim=(-top, top),
            title=rf"distance / norm of the row: {off:.2f}, by the law {law:.2f}",
        )
        ax.legend(fontsize=9, loc="lower right")
        frames.append(fig)
        labels.append(f"k = {size}")
    return frames, labels
