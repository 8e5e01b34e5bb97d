"""Figures of the page on random projections."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new
from attnlib.lowrank import failure_probability, projection

FAINT = "#D3D3D3"
INK = "#444444"
MARKS = ("o", "s", "^", "D", "v")
COLORS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE)

# --- a drawing that survives

HOUSE = [(0, 0), (4, 0), (4, 3), (2, 5), (0, 3), (0, 0)]
DOOR = [(1.4, 0), (1.4, 1.8), (2.6, 1.8), (2.6, 0)]


def house(n: int, k: Sequence[int], *, generator: torch.Generator) -> Figure:
    """A house drawn in a plane of n dimensions, before and after projections to k.

    Its image lies in a plane again, and is drawn there with its true distances.
    """
    fig, axes = new(1, len(k) + 1, size=(6.0, 1.9))
    normal = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    plane = torch.linalg.qr(normal)[0]
    _house(axes[0], torch.eye(2, dtype=torch.float64), "-", BLUE)
    axes[0].set_title(f"{n:,} dimensions", fontsize=9)
    for ax, size in zip(axes[1:], k):
        image = projection(size, n, generator=generator) @ plane
        # The symmetric root of image' image has the same lengths and angles.
        values, vectors = torch.linalg.eigh(image.mT @ image)
        flat = vectors * values.sqrt() @ vectors.mT
        _house(ax, torch.eye(2, dtype=torch.float64), "--", GREY)
        _house(ax, flat, "-", VERMILLION)
        ax.set_title(f"{size} dimensions", fontsize=9)
    for ax in axes:
        ax.set(xlim=(-3.4, 3.4), ylim=(-3.6, 3.6), aspect="equal")
        ax.axis("off")
    return fig


def _house(ax, shape: Tensor, dash: str, colour: str) -> None:
    """The house around its middle, every point times the matrix `shape`."""
    for line in (HOUSE, DOOR):
        points = torch.tensor(line, dtype=torch.float64)
        points = points - torch.tensor([2.0, 2.5], dtype=torch.float64)
        x, y = (points @ shape).T.tolist()
        ax.plot(x, y, dash, color=colour, lw=1.8 if dash == "-" else 1.2)


# --- a right angle


def right_angle(
    k: int, n: int, eps: float, *, draws: int, generator: torch.Generator
) -> Figure:
    """Two unit vectors at a right angle, before and after projection; what the lemma
    allows, and what the printed line allows.
    """
    fig, (before, after) = new(
        1, 2, size=(6.0, 3.0), width_ratios=[1, 1.5], sharey=True
    )
    _arrow(before, (1, 0), BLUE)
    _arrow(before, (0, 1), VERMILLION)
    before.text(1.0, -0.17, "$x$", ha="center", color=BLUE)
    before.text(-0.12, 1.03, "$y$", ha="center", color=VERMILLION)
    before.plot([0, 0.12, 0.12], [0.12, 0.12, 0], color=INK, lw=1)
    before.text(0.2, 0.17, "right angle:\n$x^\\top y = 0$", color=INK, fontsize=9)
    before.set_title("before")

    R = torch.stack([projection(k, n, generator=generator) for _ in range(draws)])
    x = R[:, :, 0]
    y = R[:, :, 1]
    inner = (x * y).sum(1)
    across = (y.square().sum(1) - inner.square() / x.square().sum(1)).sqrt()
    after.axvspan(-eps, eps, color=GREEN, alpha=0.18, lw=0)
    after.axvline(0, color="black", ls="--", lw=1.4)
    _arrow(after, (1, 0), BLUE)
    for side, height in zip(inner.tolist(), across.tolist()):
        after.plot([0, side], [0, height], color=VERMILLION, lw=0.6, alpha=0.6)
    after.plot(inner.tolist(), across.tolist(), "o", color=VERMILLION, ms=4)
    after.text(1.0, -0.17, "$Rx$", ha="center", color=BLUE)
    after.text(0.55, 1.12, f"$Ry$, {draws} draws", color=VERMILLION, fontsize=9)
    after.text(0.55, 0.72, "the lemma allows\nthe green strip", color=GREEN, fontsize=9)
    after.text(0.55, 0.3, "the printed line allows\nthe dashed line only", fontsize=9)
    after.set_title(f"after, $k = {k}$")
    for ax in (before, after):
        ax.set(ylim=(-0.25, 1.6), aspect="equal")
        ax.axis("off")
    before.set_xlim(-0.25, 1.2)
    after.set_xlim(-0.65, 1.85)
    return fig


def _arrow(ax, tip: tuple, colour: str) -> None:
    """From the origin."""
    look = {"arrowstyle": "-|>", "color": colour, "lw": 2.2, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", tip, (0, 0), arrowprops=look)


# --- many small errors


def sphere(
    n: int, k: Sequence[int], eps: float, *, draws: int, generator: torch.Generator
) -> tuple[list[Figure], list[str]]:
    """Frames of the slider: R'R w for a unit vector w, many draws, as k grows.

    Across: how far along w. Up: how far across it, all n - 1 directions in one.
    """
    frames = []
    labels = []
    for size in k:
        images = []
        for _ in range(draws):
            r = projection(size, n, generator=generator)
            images.append(r.mT @ r[:, 0])
        images = torch.stack(images)
        along = images[:, 0].tolist()
        across = images[:, 1:].norm(dim=1).tolist()
        radius = ((n + 1) / size) ** 0.5
        frames.append(_sphere_frame(along, across, radius, eps))
        words = rf"$k = {size}$: together off by about {radius:.2f} $\|w\|$"
        frames[-1].axes[0].set_title(words)
        labels.append(f"k = {size}")
    return frames, labels


def _sphere_frame(
    along: list[float], across: list[float], radius: float, eps: float
) -> Figure:
    fig, ax = new(size=(6.0, 3.3))
    angle = torch.linspace(0, torch.pi, 200)
    x, y = torch.cos(angle), torch.sin(angle)
    ax.plot(1 + radius * x, radius * y, "--", color="black", lw=1.2)
    ax.fill(1 + eps * x, eps * y, color=GREEN, alpha=0.5, lw=0)
    ax.plot(along[1:], across[1:], "o", color=VERMILLION, ms=3, alpha=0.55)
    _arrow(ax, (1, 0), "black")
    _arrow(ax, (along[0], across[0]), VERMILLION)
    ax.text(-0.15, 0.12, "$w$", ha="right")
    words = ax.text(1.7, 0.1, "promised: in here", color=GREEN, fontsize=9)
    words.set_bbox({"fc": "white", "ec": "none", "pad": 1})
    ax.text(max(along) + 0.2, max(across), r"$R^{\top}R\,w$", color=VERMILLION)
    ax.set(xlim=(-6.2, 8.2), ylim=(-0.3, 6.8), aspect="equal")
    ax.set(xlabel="along $w$", ylabel="across $w$")
    return fig


# --- measurements


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
        rf"promised: $\varepsilon = {eps:g}$",
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
