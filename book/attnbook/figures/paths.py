"""Figures of the page `Every path through self-attention`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, new

FAINT = "#D3D3D3"
INK = "#444444"

# --- the network as a map of roads


def network(L: int, h: int, path: Sequence[int | None]) -> Figure:
    """A stack of layers as columns of heads and a skip, every way through it, and one
    path on top.
    """
    fig, ax = new(size=(6.0, 2.9))
    columns = _columns(L, h)
    _roads(ax, columns)
    way = _way(columns, path)
    xs, ys = zip(*way)
    ax.plot(xs, ys, color=VERMILLION, lw=2.6, zorder=2)
    _stops(ax, columns, lit=set(way))
    for l in range(1, L + 1):
        ax.text(2 * l, h + 0.75, f"layer {l}", ha="center", color=INK)
    ax.set(xlim=(-0.6, 2 * L + 2.8), ylim=(-0.6, h + 1.1))
    ax.axis("off")
    return fig


def _columns(L: int, h: int) -> list[list[tuple]]:
    """Where the stops are: the input, a column a layer (the skip below), the output."""
    columns = [[(0, h / 2)]]
    for l in range(1, L + 1):
        columns.append([(2 * l, y) for y in range(h, -1, -1)])
    columns.append([(2 * L + 2, h / 2)])
    return columns


def _way(columns, path: Sequence[int | None]) -> list[tuple]:
    """The stops of one path; the skip is the last stop of its column."""
    way = [columns[0][0]]
    for column, h in zip(columns[1:-1], path):
        way.append(column[-1] if h is None else column[h])
    return [*way, columns[-1][0]]


def _roads(ax, columns) -> None:
    for here, there in pairwise(columns):
        for x0, y0 in here:
            for x1, y1 in there:
                ax.plot([x0, x1], [y0, y1], color=FAINT, lw=1, zorder=1)


def _stops(ax, columns, lit: set) -> None:
    last = len(columns) - 1
    for l, column in enumerate(columns):
        for i, spot in enumerate(column):
            if l == 0:
                word = "$X$"
            elif l == last:
                word = f"$X_{last - 1}$"
            elif i == len(column) - 1:
                word = "skip"
            elif len(column) == 2:
                word = "head"
            else:
                word = f"head {i + 1}"
            _stop(ax, spot, word, VERMILLION if spot in lit else GREY)


def _stop(ax, spot, word: str, edge: str) -> None:
    box = {"boxstyle": "round,pad=0.35", "fc": "white", "ec": edge, "lw": 1.3}
    ax.text(*spot, word, ha="center", va="center", fontsize=9, bbox=box, zorder=3)


# --- one head acts from two sides


def two_sides() -> Figure:
    """P2 P1 X W1 W2 as blocks: what layer 1 adds lies next to X, layer 2 outside."""
    fig, ax = new(size=(6.0, 3.0))
    blocks = [
        ("$P^2$", 2.0, ORANGE),
        ("$P^1$", 2.0, BLUE),
        ("$X$", 1.3, GREY),
        ("$W^1$", 1.3, BLUE),
        ("$W^2$", 1.3, ORANGE),
    ]
    left = 0.0
    spans = []
    for word, width, colour in blocks:
        height = 2.0 if word.startswith(("$P", "$X")) else 1.3
        bottom = 1 - height / 2
        face = Rectangle((left, bottom), width, height, fc=colour, alpha=0.22)
        edge = Rectangle((left, bottom), width, height, fill=False, ec=colour, lw=1.6)
        ax.add_patch(face)
        ax.add_patch(edge)
        ax.text(left + width / 2, 1, word, ha="center", va="center", fontsize=13)
        spans.append((left, left + width))
        left += width + 0.22
    _bracket(ax, spans[1][0], spans[3][1], 2.3, "after layer 1", BLUE)
    _bracket(ax, spans[0][0], spans[4][1], 2.85, "after layer 2", ORANGE)
    _below(ax, spans[0][0], spans[1][1], "who listens to whom:\nmixes the tokens")
    _below(ax, spans[3][0], spans[4][1], "what is passed on:\nmixes the features")
    ax.set(xlim=(-0.2, left), ylim=(-1.1, 3.4), aspect="equal")
    ax.axis("off")
    return fig


def _bracket(ax, left: float, right: float, y: float, word: str, colour: str) -> None:
    xs = [left, left, right, right]
    ys = [y - 0.12, y, y, y - 0.12]
    ax.plot(xs, ys, color=colour, lw=1.4)
    ax.text((left + right) / 2, y + 0.06, word, ha="center", va="bottom", color=INK)


def _below(ax, left: float, right: float, words: str) -> None:
    ax.text((left + right) / 2, -0.15, words, ha="center", va="top", color=INK)


# --- paths that light up and add up

PATH_COLOURS = (GREY, BLUE, ORANGE, VERMILLION)


def adding_up(first: Fraction, second: Fraction) -> tuple[list[Figure], list[str]]:
    """Paths through two layers of one head and a skip, lit one after the other; what
    they contribute lies tip to tail.

    Args:
        first, second: the factor of the head of layer 1 and of layer 2.

    Returns:
        (frames, labels) of a slider, one a path that joins.
    """
    after_one = [((None,), Fraction(1)), ((0,), first)]
    after_two = [
        ((None, None), Fraction(1)),
        ((0, None), first),
        ((None, 0), second),
        ((0, 0), first * second),
    ]
    frames = []
    labels = []
    for layer, paths in ((1, after_one), (2, after_two)):
        for count in range(1, len(paths) + 1):
            frames.append(_adding_frame(paths[:count], layer))
            word = "path" if count == 1 else "paths"
            labels.append(f"after layer {layer}: {count} {word} of {len(paths)}")
    return frames, labels


def _adding_frame(lit: Sequence[tuple], layer: int) -> Figure:
    fig, (roads, line) = new(2, 1, size=(6.0, 3.6), height_ratios=[1.5, 1])
    columns = _columns(layer, 1)
    _roads(roads, columns)
    for (path, _), colour in zip(lit, PATH_COLOURS):
        xs, ys = zip(*_way(columns, path))
        newest = path == lit[-1][0]
        roads.plot(xs, ys, color=colour, lw=4.2 if newest else 2.0, zorder=2)
    _stops(roads, columns, lit=set(_way(columns, lit[-1][0])))
    roads.set(xlim=(-0.7, 6.7), ylim=(-0.5, 1.5))
    roads.axis("off")

    reached = Fraction(0)
    for (path, factor), colour in zip(lit, PATH_COLOURS):
        tip = reached + factor
        _arrow(line, (float(reached), 0), (float(tip), 0), colour)
        middle = float(reached + tip) / 2
        line.text(middle, 0.32, f"{factor}", ha="center", color=INK)
        name = ", ".join("skip" if h is None else "head" for h in path)
        line.text(middle, -0.62, name, ha="center", fontsize=7.5, color=INK)
        reached = tip
    line.axhline(0, color=FAINT, lw=1, zorder=0)
    line.set(xlim=(-0.1, 2.1), ylim=(-0.9, 0.8), yticks=[], xticks=[0, 0.5, 1, 1.5, 2])
    line.spines["left"].set_visible(False)
    line.set_xlabel(f"the first token, in units of its start: so far {reached}")
    line.set_ylabel(" ")
    return fig


def _arrow(ax, start, end, colour: str) -> None:
    arrow = FancyArrowPatch(
        start,
        end,
        arrowstyle="-|>",
        mutation_scale=12,
        lw=2.4,
        color=colour,
        shrinkA=0,
        shrinkB=0,
    )
    ax.add_patch(arrow)


def tip_to_tail(by_length: Tensor, token: int) -> Figure:
    """One token of width two: the sums of all paths of each length as arrows, tip to
    tail, from the origin to where the network puts the token.

    Args:
        by_length: (L + 1, n, 2).
        token: which of the n.
    """
    fig, ax = new(size=(6.0, 3.4))
    steps = by_length[:, token].tolist()
    longest = max(math.hypot(*step) for step in steps)
    position = (0.0, 0.0)
    corners = [position]
    colours = [GREY, BLUE, ORANGE, GREEN, VERMILLION, PURPLE, INK]
    for k, (dx, dy) in enumerate(steps):
        tip = (position[0] + dx, position[1] + dy)
        _arrow(ax, position, tip, colours[k % len(colours)])
        middle = ((position[0] + tip[0]) / 2, (position[1] + tip[1]) / 2)
        if math.hypot(dx, dy) > longest / 4:  # else the label would hide the arrow
            ax.annotate(f"$S_{k}$", middle, (5, 5), textcoords="offset points")
        position = tip
        corners.append(tip)
    ax.plot(0, 0, "o", color=INK)
    ax.plot(*position, "*", color=INK, markersize=13)
    ax.annotate("the network", position, (9, -4), textcoords="offset points")
    xs, ys = zip(*corners)
    room = 0.15 * max(max(xs) - min(xs), max(ys) - min(ys))
    ax.set(
        xlim=(min(xs) - room, max(xs) + 2.5 * room),
        ylim=(min(ys) - room, max(ys) + room),
        aspect="equal",
        xlabel="first feature of the token",
        ylabel="second feature",
    )
    return fig


# --- measurements


def _plain_log(axis) -> None:
    """A logarithmic axis whose ticks read 0.05, not 5 x 10^-2."""
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(_twos_and_fives)


def _twos_and_fives(x: float, _position) -> str:
    leading = f"{x:.0e}"[0]
    return f"{x:g}" if leading in "25" else ""


def estimators(
    single: Sequence[Sequence[float]],
    by_signs: Tensor,
    *,
    work: int,
    generator: torch.Generator,
) -> Figure:
    """Relative error of two estimates of the path norms, for the same number of head
    applications.

    Args:
        single: entry k holds the squared norm of every path of length k.
        by_signs: (repetitions, L + 1), estimates by random signs.
        work: head applications behind each of them, split evenly over k = 1..L and
            spent on single paths (k each) for comparison.
        generator: draws those paths.
    """
    lengths = range(1, len(single))
    truth = torch.tensor([sum(norms) for norms in single])[1:]
    drawn = []
    for k in lengths:
        norms = torch.tensor(single[k])
        size = (len(by_signs), work // len(lengths) // k)
        picks = torch.randint(len(norms), size, generator=generator)
        drawn.append(norms[picks].mean(1) * len(norms))
    by_paths = torch.stack(drawn, 1)

    fig, ax = new(size=(6.0, 2.8))
    for estimate, mark, colour, label in (
        (by_signs[:, 1:], "o-", GREEN, "random signs, all paths at once"),
        (by_paths, "s--", ORANGE, "single paths, drawn at random"),
    ):
        error = estimate / truth - 1
        rms = error.square().mean(0).sqrt()
        ax.plot(lengths, rms.numpy(), mark, color=colour, label=label)
    ax.set(xlabel="length $k$ of the path", ylabel="relative error (rms)")
    ax.set(yscale="log", xticks=list(lengths))
    _plain_log(ax.yaxis)
    ax.legend()
    return fig
