"""Figures of the page on what a tile must tell."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from attnbook.figures import ORANGE, SKY, VERMILLION, new

INK = "#444444"
PALE = "#F1F1F1"


def _cell(ax, x: float, y: float, word: str, face: str = "white", **how) -> None:
    """A square with a word in it; its lower left corner is given."""
    edge = how.pop("edge", INK)
    wide = how.pop("wide", 0.8)
    box = Rectangle((x, y), wide, 0.8, fc=face, ec=edge, lw=how.pop("lw", 1.2), **how)
    ax.add_patch(box)
    ax.text(x + wide / 2, y + 0.38, word, ha="center", va="center", fontsize=12)


def _arrow(ax, start, end, colour: str = INK, *, bend: float = 0.0, lw=1.6) -> None:
    how = {"arrowstyle": "-|>", "mutation_scale": 14, "shrinkA": 2, "shrinkB": 2}
    curve = f"arc3,rad={bend}"
    patch = FancyArrowPatch(start, end, connectionstyle=curve, lw=lw, **how)
    patch.set_color(colour)
    ax.add_patch(patch)


def list_and_mark() -> Figure:
    """A tile that holds a list, a tile that holds a mark, and a query that hears of
    each tile by one short message.
    """
    fig, ax = new(size=(6.0, 3.6))
    for j, bit in enumerate("01101001"):
        wanted = j == 4
        _cell(ax, 0.8 * j, 3.2, bit, ORANGE if wanted else SKY)
        _cell(ax, 0.8 * j, 0.2, "?" if wanted else "", ORANGE if wanted else "white")
    ax.text(0, 4.25, "tile A: a list of bits", fontsize=11, color=INK)
    ax.text(0, -0.45, "tile B: which one is wanted?", fontsize=11, color=INK)
    _cell(ax, 10.2, 1.7, "?", PALE, lw=1.8)
    ax.text(10.6, 1.2, "the query", ha="center", fontsize=11, color=INK)
    for y, bend in ((3.6, -0.15), (0.6, 0.15)):
        end = (10.15, 2.35 if y > 2 else 1.9)
        _arrow(ax, (6.5, y), end, VERMILLION if y > 2 else INK, bend=bend, lw=2.2)
    for y, edge in ((2.95, VERMILLION), (0.75, INK)):
        box = Rectangle((7.05, y), 2.1, 0.75, fc="white", ec=edge, lw=1.6, zorder=3)
        ax.add_patch(box)
        ax.text(8.1, y + 0.36, "a message", ha="center", va="center", zorder=4)
    ax.text(
        3.2,
        2.1,
        "A must write its message\nbefore it can know the place",
        ha="center",
        va="center",
        color=VERMILLION,
        fontsize=11,
    )
    ax.set(xlim=(-0.3, 11.6), ylim=(-0.8, 4.8))
    ax.axis("off")
    return fig


STRINGS = ["000", "100", "010", "001", "110", "101", "011", "111"]


def pigeonholes() -> tuple[list[Figure], list[str]]:
    """Eight strings of three bits, and what an even mean tells of them; then what a
    mean with the values 1, 2 and 4 tells.

    Returns:
        (frames, labels) of a slider.
    """
    labels = [
        "eight lists, four messages",
        "each list is averaged",
        "two lists, one message",
        "the values 1, 2, 4",
    ]
    return [_holes(frame) for frame in range(4)], labels


def _holes(frame: int) -> Figure:
    fig, ax = new(size=(6.0, 3.9))
    weighted = frame == 3
    places = STRINGS if weighted else ["000", "100", "110", "111"]
    words = "01234567" if weighted else ["0", "1/3", "2/3", "1"]
    wide = 1.25 if weighted else 2.5
    filled = dict.fromkeys(range(len(places)), 0)
    for k, word in enumerate(words):
        hole = Rectangle((wide * k, 0), wide * 0.92, 2.7, fc=PALE, ec=INK, lw=1.2)
        ax.add_patch(hole)
        middle = wide * (k + 0.46)
        ax.text(middle, -0.45, word, ha="center", fontsize=12)
    for k, string in enumerate(STRINGS):
        if frame == 0:
            spot = (0.63 + 1.25 * k, 3.9)
        else:
            value = sum(2**i for i in range(3) if string[i] == "1")
            hole = value if weighted else string.count("1")
            spot = (wide * (hole + 0.46), 0.45 + 0.85 * filled[hole])
            filled[hole] += 1
        stands_out = frame == 2 and string in ("100", "010")
        how = {"fc": ORANGE if stands_out else SKY, "ec": INK, "boxstyle": "round"}
        ax.text(*spot, string, ha="center", va="center", fontsize=12, bbox=how)
    above = {
        0: "",
        1: "",
        2: "“What is the first bit?” Of 100 it is 1, of 010 it is 0.\n"
        "The query hears 1/3 from both: one answer must be wrong.",
        3: "Eight lists need eight messages: three bits.\nNow every question "
        "has an answer.",
    }[frame]
    ax.text(5, 3.75, above, ha="center", va="center", color=VERMILLION, fontsize=11)
    what = "the sum of the values" if weighted else "the mean of the bits"
    ax.text(5, -1.15, f"the message: {what}", ha="center", fontsize=11, color=INK)
    ax.set(xlim=(-0.2, 10.2), ylim=(-1.5, 4.5))
    ax.axis("off")
    return fig


def two_steps() -> Figure:
    """Layer 1: each token looks at the one before it. Layer 2: the query looks for the
    bit whose note says that a mark stands before it.
    """
    fig, axes = new(2, 1, size=(6.0, 4.4))
    tokens = ["", "0", "", "1", "?", "1", "", "0", "?"]
    for ax, layer in zip(axes, (1, 2)):
        for i, word in enumerate(tokens):
            is_bit = i % 2 == 1
            face = SKY if is_bit else "white"
            if word == "?":
                face = ORANGE if i == 4 else PALE
            _cell(ax, 1.1 * i, 0.0, word, face, lw=2.4 if i == 5 else 1.2)
        if layer == 1:
            for i in range(1, len(tokens)):
                marked = i == 5
                start = (1.1 * (i - 1) + 0.4, 0.85)
                end = (1.1 * i + 0.4, 0.85)
                colour = VERMILLION if marked else "#B5B5B5"
                _arrow(ax, start, end, colour, bend=-0.55, lw=2.4 if marked else 1.4)
            ax.text(5.9, -0.5, "notes: “a ? before me”", ha="center", color=VERMILLION)
        else:
            start, end = (1.1 * 5 + 0.4, 0.85), (1.1 * 8 + 0.4, 0.85)
            _arrow(ax, start, end, VERMILLION, bend=-0.4, lw=2.4)
            ax.text(5.9, -0.5, "has the note", ha="center", color=VERMILLION)
            ax.text(9.2, -0.5, "the query", ha="center", color=INK)
        title = {
            1: "layer 1: each token looks at the one before it",
            2: "layer 2: the query looks for the bit with the note, and finds 1",
        }[layer]
        ax.text(4.8, 1.95, title, ha="center", fontsize=11, color=INK)
        ax.set(xlim=(-0.2, 9.9), ylim=(-0.7, 2.3))
        ax.axis("off")
    return fig
