"""Figures of the page `Five theorems on a model of yours`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, VERMILLION, new
from attnlib import bridges

FAINT = "#D3D3D3"
INK = "#444444"

# --- one head's map


def two_rows(p: Tensor, tokens: str) -> Figure:
    """A map, its two rows that differ most, and what they have in common."""
    fig, (ax, bars) = new(1, 2, size=(6.0, 3.0), width_ratios=(1, 1.35))
    _map(ax, p, tokens)
    apart = (p[:, None] - p[None]).abs().sum(-1) / 2
    i, j = divmod(int(apart.argmax()), len(p))
    for row, colour in ((i, BLUE), (j, VERMILLION)):
        ax.add_patch(_frame(-0.5, row - 0.5, len(p), 1, colour))
    both = torch.minimum(p[i], p[j])
    for place in range(len(p)):
        one = float(p[i, place])
        other = float(p[j, place])
        bars.bar(place - 0.2, one, 0.4, color=BLUE, alpha=0.6)
        bars.bar(place + 0.2, other, 0.4, color=VERMILLION, alpha=0.6, hatch="//")
        bars.bar(place, float(both[place]), 0.8, color=INK)
    bars.set_xticks(range(len(p)), _names(tokens))
    bars.set(ylim=(0, 1.4), yticks=[0, 0.5, 1], xlabel="token that is read")
    bars.set_ylabel("weight")
    said = [
        (f"what {_name(tokens[i])} reads", BLUE),
        (f"what {_name(tokens[j])} reads", VERMILLION),
        (f"what both read: {float(both.sum()):.0%}", INK),
    ]
    for line, (words, colour) in enumerate(said):
        bars.text(
            0.02,
            0.97 - 0.1 * line,
            words,
            color=colour,
            va="top",
            transform=bars.transAxes,
        )
    return fig


def multiplied_row(row: Tensor, factors: dict[str, float]) -> Figure:
    """The weights of one row of logits, the leader first, times several factors."""
    fig, axes = new(1, len(factors), size=(6.0, 2.7), sharey=True)
    ranked = row.sort(descending=True).values
    for ax, (name, factor) in zip(axes, factors.items()):
        weights = torch.softmax(factor * ranked, -1).tolist()
        colours = [BLUE] + [GREY] * (len(weights) - 1)
        ax.bar(range(len(weights)), weights, color=colours)
        ax.set_title(f"{name}\ntimes {factor:.2g}", fontsize=10)
        ax.text(0.6, weights[0], f"{weights[0]:.0%}", color=BLUE, va="center")
        ax.set(ylim=(0, 1.05), xticks=[])
    axes[0].set_ylabel("share of attention")
    axes[0].text(1.4, 0.4, "the leader", color=BLUE)
    axes[0].text(1.4, 0.3, "the others", color=GREY)
    axes[1].set_xlabel("tokens, the most read first")
    return fig


def columns(p: Tensor, tokens: str, r: int) -> Figure:
    """The largest entry of each column, and how many of them rank r leaves over."""
    fig, (ax, bars) = new(1, 2, size=(6.0, 3.0), width_ratios=(1, 1.35))
    _map(ax, p, tokens)
    for column, row in enumerate(p.argmax(0).tolist()):
        ax.add_patch(_frame(column - 0.5, row - 0.5, 1, 1, ORANGE))
    largest = p.amax(0).sort(descending=True).values.tolist()
    for k, value in enumerate(largest):
        bars.bar(k, value, color=FAINT if k < r else ORANGE, ec=ORANGE, lw=1.2)
    floor = float(bridges.rank_floor(p)[r])
    bars.axhline(floor, color=INK, ls="--", lw=1.4)
    bars.text(
        len(p) - 0.5,
        floor + 0.02,
        f"no nearer than {floor:.2f}",
        color=INK,
        ha="right",
        va="bottom",
    )
    bars.text(
        len(p) - 0.5,
        1.3,
        f"rank {r} can serve {r} of them (pale),\nnot all the others too",
        color=INK,
        ha="right",
        va="top",
    )
    bars.set(ylim=(0, 1.3), xticks=[], yticks=[0, 0.5, 1])
    bars.set_xlabel("columns, the strongest first")
    bars.set_ylabel("largest weight in it")
    return fig


def gauges(
    logits: Tensor, tokens: str, factors: Sequence[float], r: int
) -> tuple[list[Figure], list[str]]:
    """The same head with its logits multiplied: the map, and the three numbers.

    Args:
        logits: (n, n), of one head.
        tokens: the n characters.
        factors: a frame each.
        r: the rank of the floor.

    Returns:
        (frames, labels) of a slider.
    """
    frames = []
    labels = []
    for factor in factors:
        p = torch.softmax(factor * logits, -1)
        tau = float(bridges.dobrushin(p))
        needed = float(bridges.critical_beta(factor * logits).median())
        floor = float(bridges.rank_floor(p)[r])
        frames.append(_gauges(p, tokens, tau, 1 / needed, floor, r))
        labels.append(f"logits times {factor:g}")
    return frames, labels


def _gauges(p: Tensor, tokens: str, tau: float, t: float, floor: float, r: int):
    """One frame."""
    fig, (ax, side) = new(1, 2, size=(6.0, 3.0), width_ratios=(1, 1.35))
    _map(ax, p, tokens)
    rows = [
        (2, tau, f"tau = {tau:.2f}: may keep {tau:.0%} of a difference", BLUE),
        (1, min(t / 2, 1), _sharp_words(t), GREEN),
        (0, floor, f"floor = {floor:.2f} away from rank {r}", ORANGE),
    ]
    for place, value, words, colour in rows:
        side.add_patch(Rectangle((0, place), 1, 0.34, fc="none", ec=FAINT))
        side.add_patch(Rectangle((0, place), value, 0.34, fc=colour, alpha=0.7))
        side.text(0, place + 0.42, words, color=INK, va="bottom", fontsize=9)
    side.plot([0.5, 0.5], [1, 1.34], color=INK, ls="--", lw=1.2)
    side.set(xlim=(-0.02, 1.3), ylim=(-0.1, 2.8))
    side.axis("off")
    return fig


def _sharp_words(t: float) -> str:
    """What beta* says of a typical row of sharpness t."""
    if t == 0:
        return "beta* = infinite: all logits are equal"
    state = "is sharp" if t >= 1 else "averages"
    return f"beta* = {1 / t:.2g}: a typical row {state}"


# --- heads of models


def sparse_or_low_rank(models: dict[str, tuple[Sequence, Sequence]]) -> Figure:
    """Each head a mark: the share of pairs with 90% of the mass, and the floor."""
    fig, ax = new(size=(6.0, 3.4))
    looks = ((BLUE, "o"), (GREY, "s"), (GREEN, "^"), (VERMILLION, "D"))
    for (name, (pairs, floors)), (colour, marker) in zip(models.items(), looks):
        ax.plot(pairs, floors, marker, color=colour, alpha=0.75, ms=6, label=name)
    ax.set(xscale="log", ylim=(-0.05, 1.1))
    ax.set_xticks([0.01, 0.03, 0.1, 0.3, 1], ["1%", "3%", "10%", "30%", "all"])
    ax.minorticks_off()
    ax.set_xlabel("pairs that hold 90% of each row (log scale)")
    ax.set_ylabel("floor of rank n/4")
    ax.text(0.0095, 0.4, "a pattern,\nnot a low rank", color=INK, va="top")
    ax.text(0.95, 0.13, "low rank may do", color=INK, ha="right")
    ax.legend(loc="upper right")
    return fig


# --- parts


def _map(ax, p: Tensor, tokens: str) -> None:
    """A small map with its tokens."""
    ax.imshow(p.numpy(), cmap="Greys", vmin=0, vmax=1)
    places = range(len(tokens))
    ax.set_xticks(places, _names(tokens))
    ax.set_yticks(places, _names(tokens))
    ax.tick_params(length=0)
    ax.set_xlabel("token that is read")
    ax.set_ylabel("token that reads")


def _names(tokens: str) -> list[str]:
    """Characters as labels; a space is a bracket that lies on its back."""
    return ["␣" if token == " " else token for token in tokens]


def _name(token: str) -> str:
    return "the space" if token == " " else f'"{token}"'


def _frame(x: float, y: float, width: int, height: int, colour: str) -> Rectangle:
    return Rectangle((x, y), width, height, fill=False, ec=colour, lw=2.2)
