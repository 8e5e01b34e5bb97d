"""Figures of the page `From integers to softmax`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, VERMILLION, new

INK = "#444444"
FAINT = "#D3D3D3"

# --- steps, and a copy that follows them


def line(t: np.ndarray, target, steps, soft, *, clip: float) -> Figure:
    """One output along a line through the cube: the target, the steps of the exact
    network, and the network of softmax and ReLUs, cut off where it leaves the picture.
    """
    fig, ax = new(size=(6.0, 3.3))
    ax.plot(t, target, "--", color=INK, lw=1.3)
    ax.plot(t, np.clip(soft, -clip, clip), "-", color=VERMILLION, lw=3.4, alpha=0.55)
    ax.plot(t, steps, "-", color=BLUE, lw=1.3)
    notes = (
        ("the target", target, 0.10, (0.02, 0.95), INK),
        ("integers and jumps:\na staircase", steps, 0.62, (0.53, -0.95), BLUE),
        ("softmax and ReLUs\nfollow it,", soft, 0.35, (0.04, -0.65), VERMILLION),
    )
    for words, curve, place, spot, colour in notes:
        arrow = {"arrowstyle": "-", "color": colour, "lw": 0.8}
        height = float(curve[int(place * len(t))])
        ax.annotate(words, (place, height), spot, color=colour, arrowprops=arrow)
    ax.text(0.52, 0.95, "but here a\nhuge id\ncomes out", color=VERMILLION)
    ax.set(
        xlabel="input: the entry of token 0",
        ylabel="output of token 0",
        xlim=(0, 1),
        ylim=(-clip, clip),
    )
    return fig


# --- softmax for hardmax


def sharper(scores: Sequence[float], betas: Sequence[tuple[float, str]]):
    """The weights that softmax gives to five tokens, a frame an inverse temperature.

    Args:
        scores: of the tokens, the largest first.
        betas: pairs (inverse temperature, its words).

    Returns:
        (frames, labels) of a slider.
    """
    frames = []
    labels = []
    values = torch.tensor(scores, dtype=torch.float64)
    for beta, words in betas:
        weights = torch.softmax(beta * values, 0)
        if math.isinf(beta):
            weights = (values == values.max()).double()
        fig, ax = new(size=(6.0, 2.8))
        spots = range(len(scores))
        ax.bar(spots[:1], weights[:1].tolist(), color=BLUE, width=0.6)
        ax.bar(
            spots[1:],
            weights[1:].tolist(),
            color=VERMILLION,
            width=0.6,
            hatch="//",
            edgecolor="white",
        )
        for spot, weight in zip(spots, weights.tolist()):
            ax.text(
                spot, weight + 0.02, f"{weight:.2f}", ha="center", color=INK, fontsize=9
            )
        leaked = float(weights[1:].sum())
        ax.text(
            2.5,
            0.78,
            f"the others get {leaked:.2g} together",
            color=VERMILLION,
            ha="center",
        )
        ax.set_xticks(list(spots), [f"score\n{score:g}" for score in scores])
        ax.set(ylim=(0, 1.12), xlabel="five tokens", ylabel="weight", title=words)
        frames.append(fig)
        labels.append(words)
    return frames, labels


# --- four ReLUs for a jump


def relu_by_relu(ramp: float):
    """A window of height 1 as a sum of four ReLUs, one more in each frame.

    Args:
        ramp: width of the two ramps.

    Returns:
        (frames, labels) of a slider.
    """
    knots = (-0.5 - ramp, -0.5, 0.5 - ramp, 0.5)
    signs = (1, -1, -1, 1)
    does = ("it climbs", "it stops at 1", "it comes down", "it stays at 0")
    x = np.linspace(-1.2, 1.2, 481)
    total = np.zeros_like(x)
    frames = []
    labels = []
    window = (np.abs(x + 1e-9) < 0.5).astype(float)
    for count, (knot, sign, word) in enumerate(zip(knots, signs, does), 1):
        total = total + sign * np.maximum(x - knot, 0) / ramp
        fig, ax = new(size=(6.0, 2.9))
        ax.plot(x, window, color=GREY, ls=":", lw=1.6)
        ax.plot(x, np.clip(total, -1, 2.4), color=BLUE, lw=2.4)
        for place in knots[:count]:
            ax.plot(place, 0, "^", color=VERMILLION, ms=8, clip_on=False)
        ax.set_title(f"ReLU {count}: {word}", color=VERMILLION)
        ax.plot([knot, knot], [0, 1.9], color=VERMILLION, lw=0.8)
        ax.text(-1.17, 0.82, "the jump\nthat we want", color=GREY, fontsize=9)
        ax.set(
            xlim=(-1.2, 1.2),
            ylim=(-0.1, 1.9),
            xlabel="distance from the id",
            ylabel="output",
        )
        ax.set_xticks([-0.5, 0, 0.5])
        ax.set_yticks([0, 1])
        frames.append(fig)
        labels.append(f"{count} of 4 ReLUs")
    return frames, labels


def thin_set(cells: int, ramp: float) -> Figure:
    """A square cut into cells, and the strips of width ramp at the upper ends of the
    cells, where some entry lies on a ramp.
    """
    fig, ax = new(size=(6.0, 3.6))
    for k in range(cells):
        end = (k + 1) / cells
        width = ramp / cells
        for corner, w, h in (
            ((end - width, 0), width, 1),
            ((0, end - width), 1, width),
        ):
            strip = Rectangle(corner, w, h, fc=VERMILLION, alpha=0.75, ec="none")
            ax.add_patch(strip)
    for k in range(cells + 1):
        ax.plot([k / cells] * 2, [0, 1], color=INK, lw=0.8)
        ax.plot([0, 1], [k / cells] * 2, color=INK, lw=0.8)
    step = 1 / cells
    ax.text(0.45 * step, 0.45 * step, "right", ha="center", va="center", color=BLUE)
    ax.annotate(
        "on a strip some entry lies\non a ramp: here anything\nmay come out",
        (1 - ramp / cells / 2, 0.62),
        (1.12, 0.72),
        color=VERMILLION,
        arrowprops={"arrowstyle": "-", "color": VERMILLION, "lw": 0.8},
    )
    share = 1 - (1 - ramp) ** 2
    ax.text(
        1.12,
        0.25,
        f"a ramp of {ramp:.0%} of a cell:\nthe strips fill {share:.0%}",
        color=INK,
    )
    ax.set(xlim=(-0.02, 2.0), ylim=(-0.1, 1.02), aspect="equal")
    ax.text(0.5, -0.09, "one entry of the input", ha="center", color=INK, fontsize=9)
    ax.text(
        -0.06,
        0.5,
        "another entry",
        ha="center",
        va="center",
        rotation=90,
        color=INK,
        fontsize=9,
    )
    ax.axis("off")
    return fig


# --- a prompt that is a table


def turned_round() -> Figure:
    """Three functions: a network for each, or one network that reads a prompt for
    each.
    """
    fig, axes = new(1, 2, size=(6.0, 3.1))
    names = ("sine", "tent", "steps")
    colours = (BLUE, ORANGE, GREEN)
    for ax, title in zip(
        axes, ("one function, one network", "one network, any prompt")
    ):
        ax.set(xlim=(0, 10), ylim=(0, 10), title=title)
        ax.axis("off")
    for row, (name, colour) in enumerate(zip(names, colours)):
        y = 7.4 - 3 * row
        _box(axes[0], (2.6, y), 4.8, colour, f"weights\nfor {name}")
        _arrow(axes[0], (1.0, y + 1), (2.5, y + 1))
        _arrow(axes[0], (7.5, y + 1), (9.2, y + 1))
        _box(axes[1], (0.1, y), 3.1, colour, f"table\nof {name}")
        _arrow(axes[1], (3.3, y + 1), (5.1, 5.4 + 0.45 * (1 - row)))
    axes[0].text(0.7, 4.9, "input", rotation=90, va="center", ha="center", color=INK)
    axes[0].text(9.5, 4.9, "output", rotation=90, va="center", ha="center", color=INK)
    frozen = Rectangle((5.2, 3.4), 3.0, 4.0, fc="#F2F2F2", ec=INK, lw=1.6)
    axes[1].add_patch(frozen)
    axes[1].text(6.7, 5.4, "frozen\nhead", ha="center", va="center", color=INK)
    _arrow(axes[1], (6.7, 1.6), (6.7, 3.3))
    axes[1].text(6.7, 0.9, "input", ha="center", color=INK)
    _arrow(axes[1], (8.3, 5.4), (9.9, 5.4))
    axes[1].text(9.1, 5.8, "output", ha="center", color=INK)
    return fig


def _box(ax, corner, width: float, colour: str, words: str) -> None:
    ax.add_patch(Rectangle(corner, width, 2.0, fc="white", ec=colour, lw=1.8))
    ax.text(
        corner[0] + width / 2,
        corner[1] + 1,
        words,
        ha="center",
        va="center",
        color=INK,
        fontsize=8.5,
    )


def _arrow(ax, start, end) -> None:
    ax.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=10, color=INK)
    )


def reading(
    x: Tensor,
    target: Tensor,
    places: Tensor,
    values: Tensor,
    query: float,
    betas: Sequence[tuple[float, str]],
):
    """A table of a function, the weights that one query gives to its entries, and what
    the head returns everywhere; a frame an inverse temperature.

    Args:
        x, target: (m,), the function.
        places, values: (G,), the table.
        query: one place, whose weights are drawn.
        betas: pairs (inverse temperature, its words).

    Returns:
        (frames, labels) of a slider.
    """
    frames = []
    labels = []
    for beta, words in betas:
        fig, ax = new(size=(6.0, 3.3))
        logits = beta * (2 * x[:, None] * places - places**2)
        got = torch.softmax(logits, 1) @ values
        own = torch.softmax(beta * (2 * query * places - places**2), 0)
        ax.plot(x, target, "--", color=INK, lw=1.3)
        ax.plot(x, got, color=VERMILLION, lw=2.2)
        top = 1.25
        for place, value, weight in zip(places.tolist(), values.tolist(), own.tolist()):
            if weight > 0.01:
                ax.plot([query, place], [top, value], color=BLUE, lw=7 * weight + 0.4)
        ax.plot(places, values, "o", color=BLUE, ms=6)
        ax.plot(query, top, "v", color=INK, ms=9)
        ax.text(
            query + 0.025, top, "a query; lines: its weights", va="center", color=INK
        )
        ax.text(0.985, 0.06, "dots: the prompt", color=BLUE, ha="right")
        ax.text(0.985, 0.2, "dashed: the function", color=INK, ha="right")
        ax.text(0.985, 0.34, "the head's answers", color=VERMILLION, ha="right")
        ax.set(
            xlim=(0, 1),
            ylim=(-0.05, 1.4),
            title=words,
            xlabel="input $x$",
            ylabel="value",
        )
        frames.append(fig)
        labels.append(words)
    return frames, labels
