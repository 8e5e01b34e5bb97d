"""Figures of the page `The universality proof, executed`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new
from attnlib.universal import UniversalNetwork, run, schedule

INK = "#444444"
ARROW = {"arrowstyle": "-|>", "color": INK, "lw": 1.4}
FAINT_ARROW = {"arrowstyle": "->", "color": GREY, "lw": 0.8}
LOOKS = (
    (BLUE, "o"),
    (VERMILLION, "s"),
    (GREEN, "^"),
    (PURPLE, "D"),
    (ORANGE, "v"),
    (SKY, "P"),
)


# --- the plan, the shift, the smallest example


def plan() -> Figure:
    """Three tokens that know themselves, then everything, then their output rows."""
    fig, ax = new(size=(6.0, 3.3))
    words = ("a token knows\nonly itself", "every token knows\nall, in one number")
    for x, word in zip((0.0, 2.6), words):
        ax.text(x + 0.55, 3.35, word, ha="center", va="center", color=INK)
    ax.text(5.65, 3.35, "its row\nof the output", ha="center", va="center", color=INK)
    for j, (colour, mark) in enumerate(LOOKS[:3]):
        y = 2.3 - 0.95 * j
        ax.text(
            -0.35, y, f"token {j + 1}", ha="right", va="center", fontsize=9, color=INK
        )
        _box(ax, 0.0, y, 1.1)
        ax.plot([0.55], [y], mark, color=colour, ms=10)
        _box(ax, 2.6, y, 1.1)
        for i, (other, its_mark) in enumerate(LOOKS[:3]):
            size = 11 if i == j else 6
            ax.plot([2.85 + 0.3 * i], [y], its_mark, color=other, ms=size)
        _box(ax, 5.1, y, 1.1)
        ax.text(5.65, y, f"$f(X)_{j + 1}$", ha="center", va="center")
        ax.annotate("", (5.05, y), (3.75, y), arrowprops=ARROW)
        for i in range(3):
            ax.annotate("", (2.55, y), (1.15, 2.3 - 0.95 * i), arrowprops=FAINT_ARROW)
    ax.text(1.85, -0.25, "attention\ncollects", ha="center", va="center", color=INK)
    ax.text(4.4, -0.25, "feed-forward\nlooks up", ha="center", va="center", color=INK)
    ax.set(xlim=(-1.45, 6.3), ylim=(-0.6, 3.7))
    ax.axis("off")
    return fig


def _box(ax, left: float, y: float, width: float) -> None:
    box = Rectangle((left, y - 0.32), width, 0.64, fc="white", ec=GREY, lw=1.2)
    ax.add_patch(box)


def two_heads(ids: Sequence[int], value: int, size: int) -> Figure:
    """A line of ids under two heads that disagree about one id alone; an arrow shows
    where its token goes.
    """
    fig, ax = new(size=(6.0, 2.9))
    right = value + size * (max(ids) - min(ids))
    zones = (
        (-2.0, value - 0.5, "both heads say:\nsmallest"),
        (value + 0.5, right + 2.0, "both heads say:\nlargest"),
    )
    for low, high, word in zones:
        ax.axvspan(low, high, color=GREY, alpha=0.15, lw=0)
        ax.text((low + high) / 2, 2.5, word, ha="center", va="center", fontsize=9)
    ax.text(value, 3.3, "here they disagree", ha="center", va="center", fontsize=9)
    for edge in (value - 0.5, value + 0.5):
        ax.plot([edge, edge], [-0.6, 3.0], "k--", lw=1.1)
    ax.plot([-2, right + 2], [0, 0], color=GREY, lw=1, zorder=1)
    for (colour, mark), ident in zip(LOOKS, ids):
        ax.plot([ident], [0], mark, color=colour, ms=10, zorder=3)
        ax.text(ident, -0.75, f"{ident}", ha="center", fontsize=9)
        if ident == value:
            bent = {**ARROW, "color": colour, "connectionstyle": "arc3,rad=-0.25"}
            ax.annotate("", (right, 0.12), (ident, 0.2), arrowprops=bent)
            ax.plot([right], [0], mark, mfc="white", mec=colour, ms=10, zorder=3)
            ax.text(right, -0.75, f"{right}", ha="center", fontsize=9)
    step = f"moves by {size} times (largest - smallest)"
    ax.text((value + right) / 2 + 1, 1.45, step, ha="center", fontsize=9, color=INK)
    ax.set(xlim=(-2, right + 2), ylim=(-1.2, 3.6))
    ax.axis("off")
    return fig


def mirrored() -> Figure:
    """All four inputs of two tokens in two cells: the second is mirrored at the first,
    and lands in four places.
    """
    fig, ax = new(size=(6.0, 3.3))
    first, second = LOOKS[:2]
    for i, (one, two) in enumerate(((2, 0), (2, 1), (3, 0), (3, 1))):
        y = 3 - i
        end = 2 * one - two
        ax.plot([-0.3, 6.6], [y, y], color=GREY, lw=0.8, zorder=1)
        ax.plot([one], [y], first[1], color=first[0], ms=11, zorder=3)
        ax.plot([two], [y], second[1], color=second[0], ms=10, zorder=3)
        ax.plot([end], [y], second[1], mfc="white", mec=second[0], ms=10, zorder=3)
        bent = {**ARROW, "color": second[0], "connectionstyle": "arc3,rad=-0.22"}
        ax.annotate("", (end, y + 0.14), (two, y + 0.14), arrowprops=bent)
        ax.text(6.9, y, f"lands on {end}", va="center", fontsize=9.5)
        ax.text(-0.6, y, f"{one}, {two}", va="center", ha="right", fontsize=9.5)
    ax.text(-0.6, 3.75, "ids", ha="right", fontsize=9, color=INK)
    for place in range(7):
        ax.text(place, -0.6, f"{place}", ha="center", fontsize=9, color=INK)
    ax.plot([0.2], [4.3], first[1], color=first[0], ms=9)
    ax.text(0.5, 4.3, "token 1, the mirror", va="center", fontsize=9)
    ax.plot([4.0], [4.3], second[1], color=second[0], ms=9)
    ax.text(4.3, 4.3, "token 2", va="center", fontsize=9)
    ax.set(xlim=(-1.6, 8.9), ylim=(-0.9, 4.6))
    ax.axis("off")
    return fig


# --- the sweep, layer by layer


def sweep_frames(network: UniversalNetwork, point: Tensor) -> tuple[list, list[str]]:
    """Frames and names of a slider: the ids of an input of one feature, a row a token,
    layer by layer.
    """
    frames = []
    names = []
    home = network.mapping.cells * np.array(network.mapping.codes)
    before = network.mapping.cells * point[0, :, 0].numpy() + home
    moments = list(_moments(network, point, before))
    near = max(max(state) for *_, value, state in moments if value is not None)
    for name, title, value, state in moments:
        fig, ax = new(size=(6.0, 2.7))
        for j, low in enumerate(home):
            width = network.mapping.cells + 0.4
            ax.add_patch(
                Rectangle((low + 0.6, j - 0.3), width, 0.6, fc=GREY, alpha=0.25)
            )
            _id_with_trace(ax, j, before[j], state[j])
        if value is not None:
            ax.axvline(value + 1, color="black", ls="--", lw=1.2)
            largest = int(np.argmax(before))
            ring = {"mfc": "none", "mec": "black", "mew": 1.2, "ms": 17}
            ax.plot([before[largest] + 1], [largest], "o", **ring)
        right = max(near, *before, *state) if value is None else near
        ax.set(xscale="log", xlim=(0.7, 2.5 * right), ylim=(len(home) - 0.4, -0.75))
        ax.set(xlabel="id + 1 (logarithmic)", yticks=range(len(home)), title=title)
        ax.set_yticklabels([f"{j + 1}" for j in range(len(home))])
        ax.set_ylabel("tokens")
        ax.minorticks_off()
        frames.append(fig)
        names.append(name)
        before = state
    return frames, names


def _moments(network: UniversalNetwork, point: Tensor, start: np.ndarray):
    """(name, title, the id looked for, the ids) of each layer that is worth a frame."""
    yield "input", "the input, each token in its interval", None, start
    shifts = list(schedule(network.mapping))
    layer = 0
    before = None
    kinds = {}
    for kind, z in run(network, point):
        ids = z[0, :, 0].astype(float)
        if kind == "attention":
            if layer == 0:
                title = "rounded to integers"
                yield "rounded", title, None, before
            shift = shifts[layer]
            layer += 1
            name = f"after layer {layer}"
            if shift.every:
                yield name, "all add the largest id they read, many times", None, ids
            elif layer <= network.mapping.size or (ids != before).any():
                yield name, f"this layer looks for id {shift.value}", shift.value, ids
        before = ids
        kinds[kind] = ids
    yield "output", "each id is replaced by a row of the output", None, kinds["value"]


def _id_with_trace(ax, j: int, old, now) -> None:
    """A token's mark at its id, the number, and an arrow from where it was."""
    colour, mark = LOOKS[j % len(LOOKS)]
    if old != now:
        arrow = {"arrowstyle": "->", "color": colour, "lw": 1.6}
        ax.annotate("", (now + 1, j), (old + 1, j), arrowprops=arrow)
    ax.plot([now + 1], [j], mark, color=colour, ms=9)
    digits = 0 if now % 1 == 0 else 1
    above = {"xytext": (0, 9), "textcoords": "offset points", "ha": "center"}
    ax.annotate(f"{now:,.{digits}f}", (now + 1, j), fontsize=8, **above)


# --- without positions


def same_cell(cells: Sequence[int]) -> Figure:
    """The square of all inputs of two tokens with one feature, the cells where both lie
    together shaded, for several numbers of cells.
    """
    fig, axes = new(1, len(cells), size=(6.0, 2.9))
    for ax, K in zip(axes, cells):
        for k in range(K):
            spot = (k / K, k / K)
            bad = Rectangle(spot, 1 / K, 1 / K, fc=VERMILLION, ec=VERMILLION, lw=0.5)
            ax.add_patch(bad)
        for k in range(1, K):
            ax.plot([0, 1], [k / K, k / K], color=GREY, lw=0.3)
            ax.plot([k / K, k / K], [0, 1], color=GREY, lw=0.3)
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[0, 1], yticks=[0, 1])
        ax.set(title=f"given up: 1/{K}", xlabel="token 1", ylabel="token 2")
    return fig
