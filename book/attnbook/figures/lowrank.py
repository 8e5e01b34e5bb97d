"""Figures of the page on spectra and Linformer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new

WAYS = (
    (BLUE, "o-"),
    (ORANGE, "s--"),
    (GREEN, "^-."),
    (PURPLE, "D:"),
    (VERMILLION, "v-"),
    (SKY, "P--"),
)

INK = "#444444"
FAINT = "#D3D3D3"

# --- ideas


def mixing(n: int = 8, k: int = 2) -> Figure:
    """Left every query meets every key; right the keys are mixed into k first."""
    fig, (left, right) = new(1, 2, size=(6.0, 3.9))
    places = [j + 0.5 for j in range(n)]
    mixed = [n * (a + 0.5) / k for a in range(k)]
    _squares(left, places, n + 0.7, BLUE)
    _columns(left, places, n)
    left.text(n / 2, n + 1.4, f"{n} keys", ha="center", color=INK)
    left.set_title("attention", color=INK)

    for a, place in enumerate(mixed):
        for j, key in enumerate(places):
            thick = 2.2 if j * k // n == a else 0.5
            right.plot([key, place], [n + 3.4, n + 0.7], color=GREEN, lw=thick)
    _squares(right, places, n + 3.4, BLUE)
    _squares(right, mixed, n + 0.7, GREEN)
    _columns(right, mixed, n)
    right.text(n / 2, n + 4.1, f"{n} keys", ha="center", color=INK)
    right.text(n / 2, n + 0.7, f"{k} mixed", ha="center", va="center", color=INK)
    right.set_title("Linformer", color=INK)
    for ax, columns in ((left, n), (right, k)):
        ax.plot([-0.8] * n, places, "o", color=ORANGE, ms=6)
        ax.text(-1.6, n / 2, f"{n} queries", rotation=90, va="center", color=INK)
        ax.text(n / 2, -0.4, f"{n * columns} products", ha="center", va="top")
        ax.set(xlim=(-2.2, n + 0.5), ylim=(-1.6, n + 5), aspect="equal")
        ax.axis("off")
    return fig


def _squares(ax, places: Sequence[float], height: float, colour: str) -> None:
    for place in places:
        corner = (place - 0.35, height - 0.35)
        ax.add_patch(Rectangle(corner, 0.7, 0.7, fc=colour, ec="white", zorder=3))


def _columns(ax, places: Sequence[float], rows: int) -> None:
    """A column of cells below each place, one for each query."""
    for place in places:
        for i in range(rows):
            cell = Rectangle((place - 0.5, i), 1, 1, fc=ORANGE, ec="white", alpha=0.5)
            ax.add_patch(cell)


def copies(p: Tensor, ranks: Sequence[int]) -> tuple[list[Figure], list[str]]:
    """An attention matrix and its best copy of each rank, with what the copy keeps.

    Args:
        p: (n, n).
        ranks: a frame each.

    Returns:
        (frames, labels) of a slider.
    """
    u, sigma, vh = torch.linalg.svd(p)
    frames = []
    labels = []
    for k in ranks:
        copy = (u[:, :k] * sigma[:k]) @ vh[:k]
        frames.append(_copy_frame(p, copy, sigma, k))
        labels.append(f"rank {k} of {len(p)}")
    return frames, labels


def _copy_frame(p: Tensor, copy: Tensor, sigma: Tensor, k: int) -> Figure:
    fig, (head, best, bars) = new(1, 3, size=(6.0, 2.5), width_ratios=[1, 1, 1.15])
    most = float(p.max())
    for ax, matrix, word in ((head, p, "the head"), (best, copy, f"rank {k}")):
        shade = matrix.clamp_min(0).sqrt().tolist()
        ax.imshow(shade, cmap="Blues", vmin=0, vmax=most**0.5)
        ax.set(xticks=[], yticks=[], title=word)
        ax.set(xlabel="keys", ylabel="queries")
    numbers = range(1, len(sigma) + 1)
    colours = [BLUE if j <= k else FAINT for j in numbers]
    bars.bar(numbers, sigma.tolist(), color=colours, width=1.0)
    bars.set(xlabel="number $j$", ylabel=r"singular value $\sigma_j$")
    lost = float(sigma[k:].norm() / sigma.norm())
    bars.set_title(f"{k} kept, error {lost:.0%}")
    return fig


def landing(n: int, k: int, eps: float) -> Figure:
    """Where the approximation of n lands with the projection in front of the
    exponential and behind it: two bells, and the interval that was promised.
    """
    fig, (front, behind) = new(2, 1, size=(6.0, 3.5), sharex=True)
    x = torch.linspace(-1.2 * n, 2.2 * n, 400)
    spread = math.sqrt(2 / k) * n
    for ax, centre, width, colour, word in (
        (front, 0, math.sqrt(n), VERMILLION, "projection in front of exp"),
        (behind, n, spread, GREEN, "projection behind exp"),
    ):
        bell = torch.exp(-((x - centre) ** 2) / (2 * width**2))
        ax.axvspan((1 - eps) * n, (1 + eps) * n, color=SKY, alpha=0.3, lw=0)
        ax.fill_between(x.tolist(), bell.tolist(), color=colour, alpha=0.45)
        ax.plot(x.tolist(), bell.tolist(), color=colour)
        ax.axvline(n, color="black", ls="--", lw=1.1)
        ax.set(yticks=[], ylim=(0, 1.45), xlabel=" ", ylabel="how often")
        ax.spines["left"].set_visible(False)
        ax.text(-1.2 * n, 1.2, word, color=INK)
    front.text(n, 1.2, " the truth", color=INK)
    front.text(1.75 * n, 0.5, "promised", color=INK, ha="center", va="center")
    front.annotate("", (1.4 * n, 0.5), (1.52 * n, 0.5), arrowprops={"arrowstyle": "->"})
    behind.set(
        xticks=[-n, 0, n, 2 * n],
        xticklabels=["$-n$", "0", "$n$", "$2n$"],
        xlabel="where the approximation lands",
    )
    return fig


def triangle() -> Figure:
    """Three values, and the line that holds whatever two pairs can return."""
    fig, ax = new(size=(6.0, 3.2))
    corners = torch.tensor([[0.0, 0.0], [4.0, 0.0], [2.0, 3.464]])
    ax.add_patch(Polygon(corners.tolist(), fill=False, ec=FAINT, lw=1.2))
    start = torch.tensor([-0.4, 1.732])
    end = torch.tensor([4.4, 1.732])
    ax.plot(*zip(start.tolist(), end.tolist()), color=ORANGE, lw=2.4)
    ends = torch.stack([start, end])
    ax.plot(*ends.T.tolist(), "D", color=ORANGE, ms=8)
    ax.text(
        4.7, 1.73, "two pairs: all that\nthey return lies\non this line", va="center"
    )
    along = (end - start) / (end - start).norm()
    for j, corner in enumerate(corners):
        foot = start + ((corner - start) @ along) * along
        ax.plot(*torch.stack([corner, foot]).T.tolist(), color=INK, ls=":", lw=1.4)
        ax.plot(*corner.tolist(), "o", color=BLUE, ms=11)
        below = j < 2
        place = (float(corner[0]), float(corner[1]) + (-0.25 if below else 0.25))
        ax.text(
            *place,
            f"wanted by kind {j + 1}",
            ha="center",
            va="top" if below else "bottom",
        )
    ax.set(xlim=(-1.6, 7.6), ylim=(-0.8, 4.2), aspect="equal")
    ax.axis("off")
    return fig


def circle(n: int = 9, seed: int = 3) -> Figure:
    """Keys and queries on the circle, drawn apart: each query is bound to its nearest
    key, and some keys stay without one.
    """
    g = torch.Generator().manual_seed(seed)
    keys = 2 * math.pi * torch.rand(n, generator=g)
    queries = 2 * math.pi * torch.rand(n, generator=g)
    chosen = torch.cos(queries[:, None] - keys).argmax(-1)
    fig, ax = new(size=(6.0, 3.4))
    around = torch.linspace(0, 2 * math.pi, 200)
    ax.plot(around.cos().tolist(), around.sin().tolist(), color=FAINT, lw=1)
    for angle, winner in zip(queries, chosen):
        key = keys[winner]
        xs = [0.78 * float(angle.cos()), float(key.cos())]
        ys = [0.78 * float(angle.sin()), float(key.sin())]
        ax.plot(xs, ys, color=ORANGE, lw=1.4)
    inner = [(0.78 * queries.cos()).tolist(), (0.78 * queries.sin()).tolist()]
    ax.plot(*inner, "o", color=ORANGE, ms=7, label="query")
    won = torch.isin(torch.arange(n), chosen)
    for mask, face, word in (
        (won, BLUE, "key that some query chose"),
        (~won, "white", "key that none chose"),
    ):
        places = [keys[mask].cos().tolist(), keys[mask].sin().tolist()]
        ax.plot(*places, "s", color=BLUE, mfc=face, ms=9, label=word)
    ax.set(xlim=(-1.1, 3.2), ylim=(-1.1, 1.1), aspect="equal")
    ax.axis("off")
    ax.legend(loc="center right")
    return fig


# --- measurements


def spectra(curves: dict[str, Tensor]) -> Figure:
    """Singular values over their number, each curve a mean over heads."""
    fig, ax = new(size=(6.0, 3.2))
    for (label, sigma), (color, way) in zip(curves.items(), WAYS):
        numbers = range(1, len(sigma) + 1)
        ax.plot(
            numbers,
            sigma.clamp_min(1e-6).tolist(),
            way,
            color=color,
            label=label,
            markevery=16,
            ms=4,
        )
    ax.set(
        xlabel="number $j$",
        ylabel=r"singular value $\sigma_j$",
        yscale="log",
        ylim=(1e-5, 20),
    )
    ax.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def losses(
    sizes: Sequence[int],
    compressed: Sequence[Sequence[float]],
    dense: Sequence[float],
    none: Sequence[float],
) -> Figure:
    """The loss after training over the size of the projections, one mark a seed, with
    dense and with no attention.
    """
    fig, ax = new(size=(6.0, 3.2))
    means = [fmean(seeds) for seeds in compressed]
    places = []
    values = []
    for k, seeds in zip(sizes, compressed):
        places += [k] * len(seeds)
        values += seeds
    ax.plot(sizes, means, "-", color=BLUE, label="Linformer, mean")
    ax.plot(places, values, "o", color=BLUE, label="each seed")
    right = sizes[-1] * 2
    ax.axhline(fmean(dense), color=VERMILLION, ls="--")
    ax.plot(
        [right] * len(dense),
        dense,
        "s",
        color=VERMILLION,
        label="dense, $n = 128$",
    )
    ax.axhline(fmean(none), color=GREY, ls=":")
    ax.plot([right] * len(none), none, "^", color=GREY, label="no attention")
    ax.set(
        xlabel="size $k$ of the projections",
        ylabel="loss, nats a character",
        xscale="log",
        xticks=sizes,
    )
    ax.xaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    ax.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig
