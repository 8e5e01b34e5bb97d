"""Figures of the page `Four questions to a proof`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, VERMILLION, new

INK = "#444444"
FAINT = "#D3D3D3"


def two_fates(
    falls: Tensor, grows: Tensor, weights: Sequence[tuple[float, float]]
) -> Figure:
    """First coordinates of two tokens by layer, in two networks: they meet in one and
    part in the other.

    Args:
        falls, grows: (L + 1,), the coordinate of the upper token by layer.
        weights: (w, v) of either network.
    """
    fig, axes = new(1, 2, size=(6.0, 3.2))
    words = (
        ("14, far above 1:", "the tokens meet"),
        ("0.14, far below 1:", "the tokens part"),
    )
    for ax, upper, (w, v), (start, end) in zip(axes, (falls, grows), weights, words):
        layers = range(len(upper))
        ax.plot(layers, upper.tolist(), "o-", color=BLUE)
        ax.plot(layers, (-upper).tolist(), "s--", color=VERMILLION)
        given = f"$w$ = {w:.2g}, $v$ = {v:g}"
        ax.set_title(f"residual {start}\n{end}\n{given}", color=INK)
        ax.set(xlabel="layer", xticks=list(layers))
    axes[0].set_ylabel("where the two tokens are")
    axes[1].set_ylabel(" ")
    return fig


# --- question 1


def turned_round(weights: Sequence[Fraction], allowed: float) -> Figure:
    """A sum with one negative summand as arrows tip to tail: with the true weights, and
    with larger ones, which lead further ahead and further back.

    Args:
        weights: of the tokens at 1 and at -1, which sum to one.
        allowed: what each weight is at most.
    """
    fig, ax = new(size=(6.0, 2.9))
    ahead, back = weights
    end = float(ahead - back)
    _there_and_back(ax, 1.0, (float(ahead), end), (ahead, back), BLUE, "-")
    larger = f"{allowed:.2f}"
    _there_and_back(ax, 0.0, (allowed, 0.0), (larger, larger), VERMILLION, "--")
    ax.text(-0.08, 1.0, "true weights", ha="right", va="center", color=BLUE)
    ax.text(-0.08, 0.0, "larger weights", ha="right", va="center", color=VERMILLION)
    ax.text(end, 0.62, f"ends at {ahead - back}", ha="center", color=BLUE)
    ax.text(0.02, -0.5, "ends at 0: further left", ha="left", color=VERMILLION)
    ax.plot([0, 0], [-0.55, 1.3], color=FAINT, lw=1, zorder=0)
    ax.plot([end, end], [-0.55, 0.56], color=FAINT, lw=1, ls=":", zorder=0)
    ax.set(xlim=(-0.52, 1.75), ylim=(-0.62, 1.4))
    ax.axis("off")
    return fig


def _there_and_back(ax, y: float, turns, words, colour: str, style: str) -> None:
    """An arrow from zero to the first turn, and below it one back to the second."""
    ahead, end = turns
    _arrow(ax, (0, y + 0.12), (ahead, y + 0.12), colour, style)
    _arrow(ax, (ahead, y - 0.12), (end, y - 0.12), colour, style)
    ax.plot([end], [y - 0.12], "D", color=colour, ms=7)
    ax.text(ahead + 0.04, y + 0.12, f"{words[0]} ahead", va="center", color=INK)
    ax.text(ahead + 0.04, y - 0.14, f"{words[1]} back", va="center", color=INK)


def _arrow(ax, start, end, colour: str, style: str = "-") -> None:
    arrow = FancyArrowPatch(
        start,
        end,
        arrowstyle="-|>",
        mutation_scale=13,
        lw=2.2,
        ls=style,
        color=colour,
        shrinkA=0,
        shrinkB=0,
    )
    ax.add_patch(arrow)


# --- question 2


def dented(t: Tensor, size: Tensor, detour: float, direct: float) -> Figure:
    """The detour over A is shorter than the way to A + B; the ball of the composite
    norm in the plane of A and B, whose border bends inwards between the two.

    Args:
        t: (m,), angles in that plane.
        size: (m,), the composite norm of cos(t) A + sin(t) B, in units of that of A.
        detour, direct: |A| + |B| and |A + B|.
    """
    fig, (left, right) = new(1, 2, size=(6.0, 3.1))
    _arrow(left, (0, 0), (1, 0), BLUE)
    _arrow(left, (1, 0), (1, 1), BLUE)
    _arrow(left, (0, 0), (1, 1), VERMILLION, "--")
    left.text(0.5, -0.16, "$A$: column of ones", ha="center", color=BLUE)
    left.text(1.06, 0.5, "$B$:\nrow of\nones", va="center", color=BLUE)
    left.text(0.4, 0.52, "$A + B$", ha="right", color=VERMILLION)
    left.set_title(f"straight: {direct:.2f}\nby the detour: {detour:.2f}", color=INK)
    left.set(xlim=(-0.2, 1.55), ylim=(-0.35, 1.2), aspect="equal")
    left.axis("off")

    x = (torch.cos(t) / size).tolist()
    y = (torch.sin(t) / size).tolist()
    right.fill(x, y, color=GREEN, alpha=0.2, lw=0)
    right.plot(x, y, color=GREEN)
    right.plot([1, 0], [0, 1], "--", color=VERMILLION)
    right.plot([1, 0], [0, 1], "o", color=INK)
    right.plot([0.5], [0.5], "X", color=VERMILLION, ms=9)
    right.text(1.06, 0.02, "$A$", color=INK)
    right.text(-0.02, 1.08, "$B$", ha="center", color=INK)
    right.annotate("longer", (0.5, 0.5), (8, 4), textcoords="offset points")
    right.text(0, 0, "no longer\nthan $A$", ha="center", va="center", fontsize=8)
    right.set_title("halfway from $A$ to $B$\nlies a longer matrix", color=INK)
    right.set(xlim=(-1.15, 1.35), ylim=(-1.15, 1.25), aspect="equal")
    right.axis("off")
    return fig


# --- question 3


def toy_map(values: Sequence[float], top: float, starts: Sequence[float]) -> Figure:
    """The map y -> v tanh(y^2) y of two tokens for several v, and the way down or up
    from some starts.
    """
    fig, ax = new(size=(6.0, 3.4))
    y = torch.linspace(0, top, 200, dtype=torch.float64)
    ax.plot(y.numpy(), y.numpy(), "--", color="black", lw=1, label="no change")
    for v, style, color in zip(values, ("-", "-."), (BLUE, VERMILLION)):
        after = v * torch.tanh(y**2) * y
        ax.plot(y.numpy(), after.numpy(), style, color=color, label=f"$v = {v:g}$")
    for start in starts:
        way = _staircase(start, values[-1])
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


def _staircase(start: float, v: float) -> list[tuple[float, float]]:
    """The corners of six steps of the map y -> v tanh(y^2) y."""
    way = [(start, 0.0)]
    here = start
    for _ in range(6):
        there = v * math.tanh(here**2) * here
        way += [(here, there), (there, there)]
        here = there
    return way


# --- question 4


def ranks_and_fates(L: int) -> tuple[list[Figure], list[str]]:
    """Three tokens at the corners of a triangle, which halves in every layer, beside
    two clusters of four that stay where they are.

    Returns:
        (frames, labels) of a slider, one a layer from the input to layer L.
    """
    frames = [_fate_frame(l) for l in range(L + 1)]
    labels = ["the input"]
    labels += [f"after layer {l}" for l in range(1, L + 1)]
    return frames, labels


def _fate_frame(l: int) -> Figure:
    fig, (left, right) = new(1, 2, size=(6.0, 3.0))
    angles = [math.pi / 2 + k * 2 * math.pi / 3 for k in range(3)]
    for scale, colour, style in ((1.0, FAINT, ":"), (0.5**l, BLUE, "-")):
        x = [scale * math.cos(angle) for angle in angles]
        y = [scale * math.sin(angle) for angle in angles]
        left.plot([*x, x[0]], [*y, y[0]], style, color=colour)
    left.plot(x, y, "o", color=BLUE, ms=8)
    left.set_title("attention of full rank: 3 of 3", color=INK)
    size = "1" if l == 0 else f"1/{2**l}"
    left.text(0, -0.85, f"distances: {size}", ha="center", color=INK)
    left.set(xlim=(-1.2, 1.2), ylim=(-1.0, 1.15), aspect="equal")

    for centre, mark in ((-0.75, "s"), (0.75, "D")):
        xs = [centre - 0.12, centre + 0.12, centre - 0.12, centre + 0.12]
        right.plot(xs, [0.12, 0.12, -0.12, -0.12], mark, color=VERMILLION, ms=7)
    right.text(-0.75, 0.35, "4 tokens", ha="center", color=INK)
    right.text(0.75, 0.35, "4 tokens", ha="center", color=INK)
    right.set_title("attention of low rank: 2 of 8", color=INK)
    right.text(0, -0.85, "distances: 1", ha="center", color=INK)
    right.set(xlim=(-1.2, 1.2), ylim=(-1.0, 1.15), aspect="equal")
    for ax in (left, right):
        ax.axis("off")
    return fig


# --- what a small change does


def star(leaves: int) -> Figure:
    """A hub that is pushed a little, and the leaves that all attend to it: each of them
    moves.
    """
    fig, ax = new(size=(6.0, 3.2))
    push = 0.28
    for k in range(leaves):
        angle = 2 * math.pi * (k + 0.5) / leaves
        x, y = 2.4 * math.cos(angle), math.sin(angle)
        ax.plot([0, x], [0, y], ":", color=GREY, lw=1.2, zorder=1)
        ax.plot([x], [y], "s", color=BLUE, ms=8, zorder=2)
        _arrow(ax, (x, y), (x + push, y), BLUE)
    ax.plot([0], [0], "o", color=ORANGE, ms=13, zorder=3)
    _arrow(ax, (0, 0), (0.62, 0), VERMILLION)
    box = {"fc": "white", "ec": "none", "pad": 1.5}
    word = "one token is pushed"
    ax.text(0, -0.34, word, ha="center", color=VERMILLION, bbox=box)
    ax.text(0, 1.3, "all others attend to it, so all of them move", ha="center")
    ax.set(xlim=(-2.8, 3.0), ylim=(-1.25, 1.5))
    ax.axis("off")
    return fig
