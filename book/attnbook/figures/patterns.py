"""Figures of the page on sparse patterns and their conditions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle, Wedge

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new
from attnlib.patterns import Pattern, reach

COLOURS = ["white", BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION]

FAINT = "#D3D3D3"
INK = "#444444"

# --- tokens on a circle


def _spots(n: int, radius: float = 1.0) -> list[tuple[float, float]]:
    """Places on a circle, the first on top, then clockwise."""
    angles = [math.pi / 2 - 2 * math.pi * k / n for k in range(n)]
    return [(radius * math.cos(a), radius * math.sin(a)) for a in angles]


def _arrow(ax, start, end, colour: str, *, lw: float = 1.6, dashed: bool = False):
    """An arrow that leaves room for the tokens at both ends."""
    ax.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=11,
            shrinkA=14,
            shrinkB=14,
            lw=lw,
            color=colour,
            linestyle="--" if dashed else "-",
        )
    )


def _token(ax, spot, word: str, face: str = "white", edge: str = INK) -> None:
    ax.add_patch(Circle(spot, 0.2, fc=face, ec=edge, lw=1.4, zorder=3))
    ax.text(*spot, word, ha="center", va="center", fontsize=10, zorder=4)


def two_rings() -> Figure:
    """A ring in which every token can hear every other, and the same with one arrow
    turned round: then one token hears nobody else's news.
    """
    fig, (left, right) = new(1, 2, size=(6.0, 3.5))
    n = 6
    spots = _spots(n)
    for ax in (left, right):
        for k in range(n):
            turned = ax is right and k == 3
            ends = (
                (spots[(k + 1) % n], spots[k])
                if turned
                else (
                    spots[k],
                    spots[(k + 1) % n],
                )
            )
            _arrow(ax, *ends, VERMILLION if turned else GREY, lw=2.4 if turned else 1.6)
        ax.set(xlim=(-1.65, 1.65), ylim=(-1.75, 1.45), aspect="equal")
        ax.axis("off")
    for k in range(n):
        _token(left, spots[k], str(k))
        deaf = k == 4
        _token(right, spots[k], str(k), ORANGE if deaf else "white")
    left.set_title("every token can hear\nevery other: nothing is lost", fontsize=10)
    right.set_title("one arrow turned round:\nnews cannot reach token 4", fontsize=10)
    left.text(0, 0, "news goes\nround", ha="center", va="center", color=INK)
    right.text(
        0, 0, "4 tells,\nand hears\nnothing", ha="center", va="center", color=INK
    )
    left.text(0, -1.6, "an arrow: who tells whom", ha="center", color=INK, fontsize=9)
    return fig


def messages(pattern: Pattern, layers: int) -> tuple[list[Figure], list[str]]:
    """Each token as a cake of n slices, one for each token whose news it has; a frame a
    layer.

    Args:
        pattern: of one step, few tokens.
        layers: the last frame.

    Returns:
        (frames, labels) of a slider.
    """
    frames = []
    labels = []
    n = pattern.n
    for t in range(layers + 1):
        now = reach(pattern, t)
        before = reach(pattern, max(0, t - 1))
        frames.append(_cakes(pattern, now, now & ~before))
        heard = int(now.sum())
        word = "layer" if t == 1 else "layers"
        labels.append(f"after {t} {word}: {heard} of {n * n} slices")
    return frames, labels


def _cakes(pattern: Pattern, now, fresh) -> Figure:
    fig, ax = new(size=(6.0, 4.4))
    n = pattern.n
    spots = _spots(n, 1.5)
    for k, j in pattern.mask().nonzero().tolist():
        if k != j:
            start, end = spots[j], spots[k]
            patch = FancyArrowPatch(
                start, end, arrowstyle="-|>", mutation_scale=13, shrinkA=29, shrinkB=29
            )
            patch.set(lw=1.6, color=GREY)
            ax.add_patch(patch)
    for k, (x, y) in enumerate(spots):
        for j in range(n):
            top = 90 - 360 * j / n
            slice_ = (top - 180 / n, top + 180 / n)
            face = "white"
            if now[k, j]:
                face = ORANGE if fresh[k, j] else SKY
            hatch = "////" if fresh[k, j] else None
            ax.add_patch(
                Wedge((x, y), 0.45, *slice_, fc=face, ec="white", lw=1.0, hatch=hatch)
            )
            angle = math.radians(top)
            spot = (x + 0.3 * math.cos(angle), y + 0.3 * math.sin(angle))
            colour = "black" if now[k, j] else FAINT
            ax.text(*spot, str(j), ha="center", va="center", fontsize=8, color=colour)
        ax.add_patch(Circle((x, y), 0.45, fill=False, ec=INK, lw=1.2))
        place = (1.62 * x, 1.45 * y)
        ax.text(*place, f"token {k}", ha="center", va="center", fontsize=9, color=INK)
    old = Rectangle((0, 0), 1, 1, fc=SKY)
    new_ = Rectangle((0, 0), 1, 1, fc=ORANGE, hatch="////", ec="white")
    ax.legend(
        [old, new_],
        ["has this news", "new in this layer"],
        loc="center",
        frameon=False,
        fontsize=9,
    )
    ax.set(xlim=(-2.9, 2.9), ylim=(-2.35, 2.35), aspect="equal")
    ax.axis("off")
    return fig


def slots(factors: Sequence[Sequence[Sequence[float]]]) -> Figure:
    """What stands in the slots of three tokens after 0, 1, 2 layers: the factor of each
    input, or nothing.
    """
    wide = [1.45] + [1] * (len(factors) - 1)  # the first has the names of the tokens
    fig, axes = new(1, len(factors), size=(6.0, 2.2), width_ratios=wide)
    for t, (ax, table) in enumerate(zip(axes, factors)):
        n = len(table)
        for k, row in enumerate(table):
            for i, factor in enumerate(row):
                spot = (i, n - 1 - k)
                own = i == k
                face = SKY if factor else "white"
                box = Rectangle(
                    spot, 0.92, 0.86, fc=face, ec=INK, lw=1.6 if own else 0.8
                )
                ax.add_patch(box)
                if factor:
                    word = f"$x_{i}$" if factor == 1 else f"{Fraction(factor)} $x_{i}$"
                    middle = (spot[0] + 0.46, spot[1] + 0.43)
                    ax.text(*middle, word, ha="center", va="center", fontsize=10)
            if t == 0:
                y = n - 1 - k + 0.43
                ax.text(-0.12, y, f"token {k}", ha="right", va="center", color=INK)
        for i in range(n):
            ax.text(i + 0.46, -0.1, f"slot {i}", ha="center", va="top", fontsize=7.5)
        word = {0: "at the start", 1: "after 1 layer"}.get(t, f"after {t} layers")
        ax.set_title(word, fontsize=10)
        ax.set(xlim=(-0.05, n), ylim=(-0.4, n), aspect="equal")
        ax.axis("off")
    axes[0].set_xlim(-1.35, len(factors[0]))
    return fig


def narrow_cut() -> Figure:
    """A star, cut in two halves: whatever one half learns of the other comes through
    two tokens.
    """
    fig, ax = new(size=(6.0, 3.3))
    learns = [(-2.6 + 0.75 * k, 0.0) for k in range(4)]
    tells = [(0.9 + 0.75 * k, 0.0) for k in range(3)]
    relay = (2.4, 1.6)
    for spot in learns:
        _arrow(ax, relay, spot, FAINT, lw=1.2)
    for spot in tells:
        _arrow(ax, spot, relay, FAINT, lw=1.2)
    _arrow(ax, relay, learns[-1], VERMILLION, lw=3.0)
    _arrow(ax, tells[0], learns[-1], VERMILLION, lw=3.0)
    for spot in learns:
        _token(ax, spot, "")
    _token(ax, tells[0], "", ORANGE)
    for spot in tells[1:]:
        _token(ax, spot, "")
    _token(ax, relay, "relay", ORANGE)
    ax.plot([0.28, 0.28], [-0.55, 2.2], "k--", lw=1.4)
    ax.text(-1.5, 2.0, "this half is to learn ...", ha="center", color=INK)
    ax.text(2.0, 2.2, "... what stands in this half", ha="center", color=INK)
    ax.text(
        0.35,
        -0.85,
        "a layer reads two states across the cut,\nand a state has only so many bits",
        ha="center",
        va="center",
        color=VERMILLION,
    )
    ax.set(xlim=(-3.1, 3.6), ylim=(-1.2, 2.5), aspect="equal")
    ax.axis("off")
    return fig


# --- patterns as squares


def masks(patterns: dict[str, Pattern], columns: int = 4) -> Figure:
    """Small pictures of patterns: row k, column j; the colour says in which step k
    reads j first.
    """
    rows = -(-len(patterns) // columns)
    height = 1.75 * rows
    fig, axes = new(rows, columns, size=(6.0, height), squeeze=False)
    for ax in axes.flat[len(patterns) :]:
        ax.axis("off")
    last = len(COLOURS) - 1
    for ax, (title, pattern) in zip(axes.flat, patterns.items()):
        first = pattern.mask(0).int()
        for step in range(1, pattern.p):
            read_now = (first == 0) & pattern.mask(step)
            first[read_now] = step + 1
        ax.imshow(
            first.clamp_max(last).numpy(),
            cmap=ListedColormap(COLOURS),
            vmin=0,
            vmax=last,
        )
        edges = [i - 0.5 for i in range(1, pattern.n)]
        ends = (-0.5, pattern.n - 0.5)
        ax.hlines(edges, *ends, color="0.8", lw=0.3)
        ax.vlines(edges, *ends, color="0.8", lw=0.3)
        ax.set(xticks=[], yticks=[], xlim=ends, ylim=ends[::-1])
        ax.set_title(title, fontsize=9)
    axes[0, 0].set(ylabel="reader $k$", xlabel="read token $j$")
    return fig
