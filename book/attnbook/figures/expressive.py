"""Figures of the page on patterns in logarithmic dimension."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse, FancyArrowPatch, Polygon, Rectangle
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, new

# From tokens n and sparsity k to a dimension that is enough.
Theorem = Callable[[int, int], int]


# --- ideas

INK = "#444444"
TILT = 0.3  # how far we look down on the equator


def span(generator: torch.Generator) -> Figure:
    """A query between its two keys, and all other keys near the equator."""
    fig, ax = new(size=(6.0, 3.7))
    ax.add_patch(Ellipse((0, 0), 2, 2, fill=False, ec=GREY, lw=1.2))
    ax.add_patch(Ellipse((0, 0), 2, 2 * TILT, fill=False, ec=GREY, lw=1, ls=":"))
    turn = 2 * math.pi * torch.rand(70, generator=generator)
    height = 0.1 * torch.randn(70, generator=generator)
    ring = (1 - height**2).sqrt()
    across = ring * turn.cos()
    upwards = height + TILT * ring * turn.sin()
    ax.plot(across.tolist(), upwards.tolist(), "o", color=GREY, ms=3.5, alpha=0.8)
    left = (-0.62, 0.72)
    right = (0.62, 0.72)
    ax.add_patch(Polygon([(0, 0), left, right], fc=BLUE, alpha=0.1))
    for key in (left, right):
        _arrow(ax, (0, 0), key, BLUE)
    _arrow(ax, (0, 0), (0, 1.35), VERMILLION)
    words = {"va": "center", "fontsize": 11}
    ax.text(0.08, 1.32, "query", color=VERMILLION, **words)
    ax.text(0.7, 0.8, "its two keys", color=BLUE, **words)
    ax.text(1.12, 0.0, "all other keys:\nnear the equator", color=INK, **words)
    ax.set(xlim=(-1.25, 2.35), ylim=(-1.08, 1.5), aspect="equal")
    ax.axis("off")
    return fig


def _arrow(ax, start, end, colour: str) -> None:
    arrow = FancyArrowPatch(
        start,
        end,
        arrowstyle="-|>",
        mutation_scale=14,
        lw=2.2,
        color=colour,
        shrinkA=0,
        shrinkB=0,
        zorder=3,
    )
    ax.add_patch(arrow)


def one_row(
    settings: Sequence[tuple[int, int, int]], generator: torch.Generator
) -> tuple[list[Figure], list[str]]:
    """Frames of a slider: the logits of one row with one wanted entry, for tokens n,
    dimensions d and a level s of so many gaps; random unit keys.
    """
    most = max(n for n, _, _ in settings)
    widest = max(d for _, d, _ in settings)
    normal = torch.randn(most, widest, generator=generator)
    frames = []
    labels = []
    for n, d, level in settings:
        keys = normal[: n - 1, :d]
        products = keys[:, 0] / keys.norm(dim=1)
        logits = level * products
        high = int((logits > level - 1).sum())
        words = f"n = {n:,}, d = {d}, s = {level} T"
        frames.append(_row_frame(logits, level, high, words))
        labels.append(f"{words}: {high} too large")
    return frames, labels


def _row_frame(logits: Tensor, level: int, high: int, words: str) -> Figure:
    fig, ax = new(size=(6.0, 3.2))
    bins = torch.linspace(-4, 4, 81)
    fine = logits[logits <= level - 1]
    over = logits[logits > level - 1]
    ax.hist(fine.tolist(), bins.tolist(), color=GREY)
    ax.hist(over.tolist(), bins.tolist(), color=VERMILLION, hatch="////")
    ax.axvline(level - 1, color="black", ls="--", lw=1.2)
    ax.plot(level, 1.4, "*", color=BLUE, ms=15)
    ax.text(level + 0.25, 1.05, "the wanted\nentry", color=BLUE)
    ax.text(level - 1.08, 9000, "limit: one gap below", ha="right", color="black")
    ax.text(level - 0.92, 1200, f"too large:\n{high}", color=VERMILLION)
    ax.text(-3.9, 1200, "all other\nentries", color=INK)
    ax.set(
        yscale="log",
        xlim=(-4, 5.6),
        ylim=(0.7, 20000),
        xlabel="logit, in units of the gap $T$",
        ylabel="how many",
        title=words,
    )
    return fig


def halves(n: int, d: int) -> Figure:
    """The input as queries beside keys; fixed weights cut it into its halves."""
    fig, ax = new(size=(6.0, 3.1))
    for left, colour, word in ((0, VERMILLION, "queries"), (2, BLUE, "keys")):
        face = Rectangle((left, 2), 2, 1.5, fc=colour, alpha=0.2)
        edge = Rectangle((left, 2), 2, 1.5, fill=False, ec=colour, lw=1.5)
        ax.add_patch(face)
        ax.add_patch(edge)
        ax.text(left + 1, 2.75, word, ha="center", va="center", color=colour)
    ax.text(2, 3.75, f"input $X$: {n} tokens, width {2 * d}", ha="center")
    ax.text(4.3, 2.75, "chosen for\nthe pattern", va="center", color=INK)
    for left, colour, name, weight in (
        (-0.4, VERMILLION, "$Q$", "$W_Q$ takes the left half"),
        (2.4, BLUE, "$K$", "$W_K$ takes the right half"),
    ):
        _arrow(ax, (left + 1 + 0.25 * (left < 0), 1.9), (left + 1, 1.15), GREY)
        ax.add_patch(Rectangle((left, -0.4), 2, 1.5, fill=False, ec=colour, lw=1.5))
        ax.text(left + 1, 0.35, f"{name}: {n} × {d}", ha="center", va="center")
        ax.text(left + 1, -0.75, weight, ha="center", color=INK, fontsize=9)
    ax.text(4.9, 0.35, "weights: fixed\nbefore any\npattern", va="center", color=INK)
    ax.set(xlim=(-0.9, 6.4), ylim=(-1.0, 4.1))
    ax.axis("off")
    return fig


def trap(others: int, weight: float) -> Figure:
    """A row with one wanted entry and many small ones, which add up."""
    fig, (row, total) = new(1, 2, size=(6.0, 3.0), width_ratios=[2.2, 1])
    row.bar(0, 1, color=BLUE, width=1.6)
    row.bar(range(2, others + 2), weight, color=GREY, width=0.7)
    row.text(1.6, 0.95, "the wanted entry", color=BLUE, va="center")
    row.text(
        others / 2 + 2,
        3 * weight,
        f"{others} others,\nall small",
        ha="center",
        color=INK,
    )
    row.set(xticks=[], xlabel="the entries of one row", ylabel="weight", ylim=(0, 1.1))
    total.bar(0, 1, color=BLUE, width=0.7)
    total.bar(1, others * weight, color=GREY, width=0.7)
    total.set(xticks=[0, 1], xticklabels=["wanted", "all others"], xlabel="together")
    total.set_ylabel("weight")
    return fig


# --- measurements


def _map(ax, p: Tensor, title: str) -> None:
    """An attention matrix in colours, by the logarithm."""
    ax.imshow(
        p.clamp_min(1e-3).log10().tolist(),
        cmap="cividis",
        vmin=-3,
        vmax=0,
        interpolation="nearest",
    )
    ax.set(
        title=title,
        xlabel="key $j$",
        ylabel="query $i$",
        xticks=[],
        yticks=[],
    )


def premise(models: dict[str, dict]) -> Figure:
    """How much of a row each head of the stored models reads, and how much of that two
    inputs share; beside chance and the weights before training.
    """
    fig, axes = new(1, len(models), size=(6.0, 3.8), sharey=True)
    colors = (BLUE, ORANGE, GREEN, VERMILLION)
    for ax, (name, model) in zip(axes, models.items()):
        trained = model["trained"]
        began = model["as it began"]
        ax.plot(
            sum(began["share"], []), sum(began["overlap"], []), "x", color=GREY, ms=5
        )
        for layer, (color, mark) in enumerate(zip(colors, "os^D")):
            if layer == len(trained["share"]):
                break
            share = trained["share"][layer]
            overlap = trained["overlap"][layer]
            chance = trained["overlap of chance"][layer]
            ax.vlines(share, chance, overlap, color=color, lw=0.8)
            ax.plot(share, chance, "_", color=INK, ms=6)
            ax.plot(share, overlap, mark, color=color, ms=6)
        ax.set(xscale="log", xlim=(0.002, 1.6), ylim=(-0.04, 1.08), title=name)
        ax.set_xticks([0.01, 0.1, 1], ["1%", "10%", "all"])
        ax.minorticks_off()
    axes[1].text(0.0025, 1.05, "same places,\nany input", va="top", color=INK)
    axes[1].text(0.0025, 0.0, "places\nchange", color=INK)
    axes[1].set_xlabel("spread: entries that hold 90% of a row")
    axes[0].set_ylabel("overlap between two inputs")
    _premise_legend(fig, colors)
    return fig


def _premise_legend(fig: Figure, colors: Sequence[str]) -> None:
    kinds = [
        (mark, color, f"layer {i}")
        for i, (mark, color) in enumerate(zip("os^D", colors), start=1)
    ]
    kinds += [("_", INK, "chance"), ("x", GREY, "untrained")]
    handles = [
        Line2D([], [], marker=mark, color=color, ls="", label=label)
        for mark, color, label in kinds
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9)


def same_weights(maps: dict[str, Tensor]) -> Figure:
    """Attention matrices that one pair of weights makes from different inputs."""
    fig, axes = new(1, len(maps), size=(6.0, 2.4))
    for ax, (label, p) in zip(axes, maps.items()):
        _map(ax, p, label)
    return fig


def dimensions(table: Sequence[dict], theorem: Theorem) -> Figure:
    """The smallest dimension that worked over the number of tokens, its predictor, the
    theorem, and the trivial d = n.
    """
    fig, ax = new(size=(6.0, 3.4))
    n = table[0]["n"]
    colors = (BLUE, GREEN, ORANGE, VERMILLION)
    for row, color, mark in zip(table, colors, "os^D"):
        ax.plot(
            row["n"],
            row["measured"],
            mark,
            color=color,
            label=f"$k = {row['k']}$, $s = {row['level']}T$",
        )
        ax.plot(row["n"], row["predicted"], ":", color=color)
    ax.plot([], [], ":", color="black", label="predicted")
    asked = [theorem(size, 1) for size in n]
    ax.plot(n, asked, "k--", label="theorem, $k = 1$")
    ax.plot([64, 256], [64, 256], "-.", color=PURPLE, label="trivial, $d = n$")
    ax.set(
        xlabel="tokens $n$",
        ylabel="smallest dimension $d$",
        xscale="log",
        ylim=(0, 260),
    )
    powers = [round(math.log2(size)) for size in n]
    ax.set_xticks(n, [f"$2^{{{power}}}$" for power in powers])
    ax.minorticks_off()
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def plain(table: Sequence[dict], theorem: Theorem) -> Figure:
    """The plain projection: what it needs, what its theorem asks for, and the trivial d
    = n.
    """
    fig, ax = new(size=(6.0, 3.0))
    for row, color, mark in zip(table, (BLUE, GREEN, VERMILLION), "osD"):
        n = row["n"]
        k = row["k"]
        ax.plot(n, row["measured"], mark, color=color, label=f"measured, $k = {k}$")
        asked = [theorem(size, k) for size in n]
        ax.plot(n, asked, "k--", lw=1.2)
        ax.annotate(
            f"$k = {k}$",
            (n[-1], asked[-1]),
            xytext=(4, -3),
            textcoords="offset points",
            fontsize=8,
        )
    sizes = table[0]["n"]
    ax.plot([], [], "k--", label="theorem")
    ax.plot(sizes, sizes, "-.", color=PURPLE, label="trivial, $d = n$")
    ax.set(xlabel="tokens $n$", ylabel="dimension $d$", xscale="log", yscale="log")
    ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.minorticks_off()
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.06, 1.0))
    return fig
