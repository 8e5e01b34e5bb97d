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
    for (label, (seen, law)), color, mark in zip(cases.items(), COLORS, MARKS):
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
    ax.set_xticks(list(k))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("")


def tails(eps: Sequence[float], *, draws: int, generator: torch.Generator) -> Figure:
    """The chance that a squared norm fails over k: exact, by the bound, and counted."""
    fig, ax = new(size=(6.0, 3.2))
    k = range(4, 401, 4)
    norms = {
        m: torch.randn(draws, m, generator=generator, dtype=torch.float64)
        .square()
        .mean(1)
        for m in (16, 32, 64, 128, 256)
    }
    for e, color, mark, dash in zip(eps, COLORS, MARKS, ("-", "-.", ":")):
        bound = [failure_bound(m, e) for m in k]
        ax.plot(
            k,
            [failure_probability(m, e) for m in k],
            dash,
            color=color,
            label=rf"exact, $\varepsilon = {e:g}$",
        )
        ax.plot(k, bound, "--", color="black", lw=1)
        shares = {
            m: float(((x - 1).abs() > e).double().mean()) for m, x in norms.items()
        }
        ax.plot(*zip(*((m, s) for m, s in shares.items() if s)), mark, color=color)
        at = max(i for i, b in enumerate(bound) if b > 5e-4 and i < 68)
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
    x[0, 0], x[:2, 1], x[:, 2] = 1, 0.5**0.5, n**-0.5
    fig, ax = new(size=(6.0, 3.0))
    width, hatches = 0.8 / len(FAMILIES), ("", "//", "..", "xx", "--", "++")
    for i, (label, (family, s)) in enumerate(FAMILIES.items()):
        images = [
            projection(k, n, family, s=s, generator=generator) @ x for _ in range(draws)
        ]
        share = ((torch.stack(images).square().sum(1) - 1).abs() > eps).double().mean(0)
        at = [j + (i - (len(FAMILIES) - 1) / 2) * width for j in range(3)]
        ax.bar(
            at,
            share.tolist(),
            width * 0.9,
            label=label,
            color=(*COLORS, SKY)[i],
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
    top = float(max(p.max(), *(s.abs().max() for s in surrogates)))
    frames, labels = [], []
    for size, s in zip(k, surrogates):
        off = float((s - p).norm() / p.norm())
        fig, ax = new(size=(6.0, 2.8))
        x = torch.arange(len(p)).tolist()
        ax.bar(
            x,
            s.tolist(),
            1.0,
            color=[VERMILLION if v < 0 else "#9CC3DF" for v in s.tolist()],
            label=r"of $PR^\top R$",
        )
        ax.step(x, p.tolist(), where="mid", color="black", lw=1.2, label="of $P$")
        ax.axhline(0, color=GREY, lw=0.6)
        law = ((len(p) + 1) / size) ** 0.5
        ax.set(
            xlabel="column $j$",
            ylabel=f"row, $k = {size}$",
            ylim=(-top * 1.05, top * 1.05),
            title=rf"distance / norm of the row: {off:.2f}, by the law {law:.2f}",
        )
        ax.legend(fontsize=9, loc="lower right")
        frames.append(fig)
        labels.append(f"k = {size}")
    return frames, labels
