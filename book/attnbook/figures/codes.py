"""Figures of the pages `What it costs to be sharp` and `What is enough`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, VERMILLION, new
from attnlib.codes import price

FAINT = "#D3D3D3"
INK = "#444444"


def prices(
    n: int,
    found: dict[str, float],
    random: dict[str, list[float]],
    top: int = 64,
) -> Figure:
    """The largest query norm over the gap, by dimension: bounds, exact values, codes
    found, random codes.
    """
    fig, ax = new(size=(6.0, 3.6))
    dims = range(2, top + 1)
    bounds = {d: price(n, d) for d in dims}
    most = [b.high for b in bounds.values()]
    least = [b.low for b in bounds.values()]
    ax.plot(dims, most, "--", color="black", lw=1.2, label="proved: at most")
    ax.plot(dims, least, ":", color="black", label="proved: at least")
    exact = {}
    for d, b in bounds.items():
        marked = d == 2 or d % 4 == 0 or d == top - 1  # the marks must not touch
        if marked and b.low == b.high:
            exact[d] = b.low
    ax.plot(
        list(exact),
        list(exact.values()),
        "D",
        color=GREEN,
        ms=5,
        label="exact",
    )
    ax.plot(
        [int(d) for d in found],
        list(found.values()),
        "o",
        color=BLUE,
        ms=5,
        label="best code found",
    )
    low, middle, high = zip(*random.values())
    below = [m - a for m, a in zip(middle, low)]
    above = [b - m for m, b in zip(middle, high)]
    ax.errorbar(
        [int(d) for d in random],
        middle,
        [below, above],
        fmt="s",
        color=ORANGE,
        ms=5,
        label="random keys, quartiles",
    )
    ax.set(
        xlabel="dimension $d$ of keys and queries",
        ylabel="query norm $s / T$",
        xscale="log",
        yscale="log",
        xticks=[2, 3, 4, 6, 8, 12, 16, 24, 32, 64],
    )
    ax.xaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    ax.legend(fontsize=9)
    return fig


# --- what a query can do: it cuts keys off


def line_and_circle() -> Figure:
    """Three keys on a line, whose middle never wins; eight on a circle, where each can
    be cut off.
    """
    fig, (line, circle) = new(1, 2, size=(6.0, 2.9))
    line.plot([-1, 1], [0, 0], color=GREY, lw=1, zorder=1)
    line.plot([-1, 1], [0, 0], "o", color=BLUE, ms=8)
    line.plot([0], [0], "s", color=VERMILLION, ms=9)
    for way in (-1, 1):
        _arrow(line, (0.45 * way, -0.5), (1.15 * way, -0.5))
        line.plot([0.55 * way] * 2, [-0.3, 0.3], "--", color=INK, lw=1)
        line.text(0.85 * way, 0.36, "can win", ha="center", color=BLUE)
    line.text(0, 0.36, "never wins", ha="center", color=VERMILLION)
    line.text(0, -0.86, "a query points left or right", ha="center", color=INK)
    line.text(0, 1.2, "on a line", ha="center")
    line.set(xlim=(-1.5, 1.5), ylim=(-1.3, 1.5), aspect="equal")
    line.axis("off")
    _sliced(circle, 8)
    circle.text(1.24, 0.28, "the query cuts\noff its key", color=INK, fontsize=9)
    circle.text(0, 1.2, "on a circle", ha="center")
    circle.set(xlim=(-1.2, 2.3), ylim=(-1.3, 1.5), aspect="equal")
    circle.axis("off")
    return fig


def _sliced(ax, n: int) -> None:
    """n keys on a circle, and a query that cuts off the one on the right."""
    angles = torch.linspace(0, 2 * math.pi, 361)
    ax.plot(angles.cos(), angles.sin(), color=FAINT, lw=1, zorder=0)
    keys = 2 * math.pi / n * torch.arange(n)
    ax.plot(keys[1:].cos(), keys[1:].sin(), "o", color=BLUE, ms=6)
    ax.plot([1], [0], "D", color=VERMILLION, ms=8)
    step = 2 * math.pi / n
    half = math.acos(math.cos(step))
    cut = torch.linspace(-half, half, 61)
    ax.fill(cut.cos(), cut.sin(), color=VERMILLION, alpha=0.25, lw=0)
    x = math.cos(step)
    y = math.sin(step)
    ax.plot([x, x], [-y - 0.12, y + 0.12], "--", color=INK, lw=1)
    _arrow(ax, (0, 0), (0.78, 0))


def _arrow(ax, start: tuple, end: tuple, color: str = INK) -> None:
    ax.annotate(
        "", xy=end, xytext=start, arrowprops={"arrowstyle": "-|>", "color": color}
    )


def slices(counts: Sequence[int]) -> tuple[list[Figure], list[str]]:
    """More and more keys on a circle: the slice that holds one key gets thin, and the
    query that cuts it off long.

    Args:
        counts: how many keys, a frame each.

    Returns:
        (frames, labels) of a slider.
    """
    lengths = [price(n, 2).low for n in counts]
    frames = []
    labels = []
    for number, n in enumerate(counts):
        fig, (circle, bars) = new(1, 2, size=(6.0, 2.9), width_ratios=[1, 1.2])
        _sliced(circle, n)
        circle.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal")
        circle.set_title(f"{n} keys, and the slice of one")
        circle.axis("off")
        names = [str(m) for m in counts]
        tall = [length if i <= number else 0 for i, length in enumerate(lengths)]
        colors = [VERMILLION if i == number else GREY for i in range(len(counts))]
        bars.bar(names, tall, color=colors)
        bars.text(
            number, lengths[number], f"{lengths[number]:.1f}", ha="center", va="bottom"
        )
        bars.set(ylim=(0, 1.15 * lengths[-1]), xlabel="keys on the circle")
        bars.set_title("length of the query, in gaps")
        frames.append(fig)
        labels.append(f"{n} keys: {lengths[number]:.1f} gaps long")
    return frames, labels


# --- the proof of the exact price


def hidden_code(k: Tensor, q: Tensor, code: Tensor) -> tuple[list[Figure], list[str]]:
    """The proof of the exact price in the plane, a step a frame: keys, the fattened
    hull, the points of its boundary, the code on the circle of radius 2.

    Args:
        k, q: (n, 2).
        code: (n, 2), what `code_from` returns.

    Returns:
        (frames, labels) of a slider.
    """
    labels = [
        "keys, and where their queries point",
        "fatten the hull of the keys by 1",
        "step along the query to its edge",
        "push on to the circle of radius 2",
    ]
    frames = [_proof_frame(k, q, code, step) for step in range(4)]
    return frames, [f"step {i}: {words}" for i, words in enumerate(labels)]


def _proof_frame(k: Tensor, q: Tensor, code: Tensor, step: int) -> Figure:
    fig, ax = new(size=(6.0, 3.8))
    a = torch.linspace(0, 2 * math.pi, 361, dtype=k.dtype)
    circle = torch.stack([a.cos(), a.sin()], 1)
    u = q / q.norm(dim=1, keepdim=True)
    x = k + u
    y = 2 * code
    _dots(ax, circle, ":", color=GREY, lw=1)
    if step >= 1:
        farthest = (circle @ k.T).argmax(1)
        edge = k[farthest] + circle  # the boundary of conv K + ball, by its normals
        ax.fill(*edge.T.tolist(), color=GREY, alpha=0.25, lw=0)
    ends = k + 0.45 * u if step < 2 else x
    for start, end in zip(k.tolist(), ends.tolist()):
        _arrow(ax, tuple(start), tuple(end), BLUE)
    _dots(ax, k, "o", color=BLUE, ms=6)
    if step >= 2:
        _dots(ax, x, "s", color=ORANGE, ms=6)
    if step >= 3:
        _dots(ax, 2 * circle, "-", color=GREY, lw=1)
        for start, end in zip(x.tolist(), y.tolist()):
            _arrow(ax, tuple(start), tuple(end), VERMILLION)
        _dots(ax, y, "D", color=VERMILLION, ms=7)
    # All names in every frame, so that nothing moves from frame to frame.
    ax.plot([], [], "o", color=BLUE, label="keys")
    ax.plot([], [], "s", color=ORANGE, label="one step out")
    ax.plot([], [], "D", color=VERMILLION, label="the code, doubled")
    ax.set(xlim=(-2.2, 2.2), ylim=(-2.2, 2.2), aspect="equal")
    ax.axis("off")
    ax.legend(fontsize=9, loc="upper left", bbox_to_anchor=(0.98, 1.0))
    return fig


def _dots(ax, points: Tensor, style: str, **look) -> None:
    x, y = points.T.tolist()
    ax.plot(x, y, style, **look)


# --- kissing numbers


def from_one_key(
    codes: dict[str, dict[float, int]],
) -> Figure:
    """A globe for each code, with one key at the north pole: how many others stand at
    which height.

    Args:
        codes: words above a globe -> {height between -1 and 1: number of keys}.
    """
    fig, axes = new(1, len(codes), size=(6.0, 2.9))
    for ax, (words, heights) in zip(axes, codes.items()):
        angles = torch.linspace(0, 2 * math.pi, 181)
        ax.plot(angles.cos(), angles.sin(), color=GREY, lw=1)
        cap = torch.linspace(math.pi / 6, 5 * math.pi / 6, 61)
        ax.fill(cap.cos(), cap.sin(), color=ORANGE, alpha=0.3, lw=0)
        for height, count in heights.items():
            half = math.sqrt(max(0.0, 1 - height**2))
            if height == 1:
                ax.plot([0], [1], "D", color=VERMILLION, ms=8, clip_on=False)
            elif height == -1:
                ax.plot([0], [-1], "o", color=BLUE, ms=5, clip_on=False)
                ax.text(0, -1.1, f"{count:,}", ha="center", va="top", fontsize=9)
            else:
                ax.plot([-half, half], [height] * 2, color=BLUE, lw=2)
                ax.text(
                    0, height - 0.04, f"{count:,}", ha="center", va="top", fontsize=9
                )
        ax.text(0, 0.6, "no key", ha="center", color=INK, fontsize=8.5)
        ax.set(xlim=(-1.1, 1.1), ylim=(-1.3, 1.15), aspect="equal", title=words)
        ax.axis("off")
    return fig


# --- what is enough


def conflict() -> Figure:
    """A query, the cap in which no other key may lie, and one key that does."""
    fig, ax = new(size=(6.0, 3.2))
    angles = torch.linspace(0, 2 * math.pi, 361)
    ax.plot(angles.cos(), angles.sin(), color=FAINT, lw=1, zorder=0)
    half = math.pi / 3
    cut = torch.linspace(-half, half, 121)
    ax.fill(cut.cos(), cut.sin(), color=ORANGE, alpha=0.25, lw=0)
    x = math.cos(half)
    y = math.sin(half)
    ax.plot([x, x], [-y, y], "--", color=INK, lw=1)
    _arrow(ax, (0, 0), (0.93, 0))
    free = torch.tensor([80.0, 125.0, 170.0, 205.0, 290.0]).deg2rad()
    ax.plot(free.cos(), free.sin(), "o", color=BLUE, ms=7)
    ax.plot([1], [0], "D", color=GREEN, ms=9)
    wrong = math.radians(-38)
    ax.plot([math.cos(wrong)], [math.sin(wrong)], "X", color=VERMILLION, ms=10)
    ax.text(1.12, 0, "the key it wants", va="center", color=GREEN)
    ax.text(0.92, -0.72, "a key too near: a conflict", color=VERMILLION)
    ax.text(0.68, 0.93, "no other key may lie here", color=INK)
    ax.text(-1.08, 0.5, "keys that\nare fine", ha="right", color=BLUE)
    ax.text(0.3, 0.08, "query", ha="center", color=INK)
    ax.set(xlim=(-2.1, 2.9), ylim=(-1.2, 1.2), aspect="equal")
    ax.axis("off")
    return fig


def redraws(rounds: Sequence[Tensor], least: float) -> tuple[list[Figure], list[str]]:
    """Keys on a circle, and the pairs that are too near, before and after each round of
    redrawing.

    Args:
        rounds: (n,), the angles of the keys, a round each.
        least: the angle that two keys must keep.

    Returns:
        (frames, labels) of a slider.
    """
    frames = []
    labels = []
    before = rounds[0]
    for number, angles in enumerate(rounds):
        fig, ax = new(size=(6.0, 3.0))
        turn = torch.linspace(0, 2 * math.pi, 361)
        ax.plot(turn.cos(), turn.sin(), color=FAINT, lw=1, zorder=0)
        near = too_near(angles, least)
        for i, j in near:
            x = [math.cos(angles[i]), math.cos(angles[j])]
            y = [math.sin(angles[i]), math.sin(angles[j])]
            ax.plot(x, y, color=VERMILLION, lw=4, solid_capstyle="round")
        hurt = sorted({i for pair in near for i in pair})
        fine = [i for i in range(len(angles)) if i not in hurt]
        new_keys = (angles != before).nonzero().flatten()
        ax.plot(angles[fine].cos(), angles[fine].sin(), "o", color=BLUE, ms=8)
        ax.plot(angles[hurt].cos(), angles[hurt].sin(), "X", color=VERMILLION, ms=10)
        at = angles[new_keys]
        ax.plot(at.cos(), at.sin(), "o", mfc="none", mec=INK, ms=16)
        ax.text(1.25, 0.6, "too near: redraw both", color=VERMILLION)
        ax.text(1.25, 0.3, "far enough", color=BLUE)
        ax.text(1.25, 0.0, "ring: just drawn anew", color=INK)
        word = "conflict" if len(near) == 1 else "conflicts"
        ax.text(1.25, -0.6, f"{len(near)} {word}", color=INK, fontsize=12)
        ax.set(xlim=(-1.2, 3.2), ylim=(-1.15, 1.15), aspect="equal")
        ax.axis("off")
        frames.append(fig)
        labels.append(f"round {number}: {len(near)} {word}")
        before = angles
    return frames, labels


def too_near(angles: Tensor, least: float) -> list[tuple[int, int]]:
    """Pairs of keys on a circle that are nearer than an angle."""
    apart = (angles[:, None] - angles).remainder(2 * math.pi)
    apart = torch.minimum(apart, 2 * math.pi - apart)
    close = (apart < least).triu(1)
    return [tuple(pair) for pair in close.nonzero().tolist()]


def neighbours(n: int, i: int, l: int) -> Figure:
    """All n^2 possible conflicts as a grid, and those that share a key with one of
    them: two rows and two columns.
    """
    fig, ax = new(size=(6.0, 3.2))
    for row in range(n):
        for column in range(n):
            color = "#EEEEEE"
            if row in (i, l) or column in (i, l):
                color = ORANGE
            if row == column:
                color = "white"
            if (row, column) == (i, l):
                color = VERMILLION
            ax.add_patch(Rectangle((column, -row), 0.9, 0.9, fc=color))
    ax.text(n + 1, -2, "one conflict: row $i$, column $j$", color=VERMILLION)
    ax.text(
        n + 1,
        -2 - n / 4,
        "conflicts about the key\nof row $i$ or the key $j$",
        va="center",
        color="#9A6A00",
    )
    ax.text(
        n + 1,
        -2 - n / 2,
        "all others: other keys,\nindependent of it",
        va="center",
        color=INK,
    )
    ax.set(xlim=(-0.5, 2.1 * n), ylim=(-n, 1.5), aspect="equal")
    ax.axis("off")
    return fig


def digits(bits: Sequence[int], n: int) -> Figure:
    """Keys on an arc of the circle, and where they fall on a grid of so many bits."""
    fig, axes = new(1, len(bits), size=(6.0, 2.7))
    angles = 2 * math.pi / n * torch.arange(n)
    for ax, p in zip(axes, bits):
        step = 2.0**-p
        lines = torch.arange(-1, 1 + step / 2, step)
        for at in lines.tolist():
            ax.plot([at, at], [-1, 1], color=FAINT, lw=0.6, zorder=0)
            ax.plot([-1, 1], [at, at], color=FAINT, lw=0.6, zorder=0)
        x = (angles.cos() / step).round() * step
        y = (angles.sin() / step).round() * step
        ax.plot(angles.cos(), angles.sin(), "o", mfc="none", mec=GREY, ms=8)
        ax.plot(x, y, "s", color=BLUE, ms=5)
        places = torch.stack([x, y], 1).unique(dim=0)
        word = "digit" if p == 1 else "digits"
        ax.set_title(f"{p} {word}: {len(places)} places")
        ax.set(xlim=(-1.12, 1.12), ylim=(-1.12, 1.12), aspect="equal")
        ax.axis("off")
    return fig


def descent(
    norms: Sequence[float],
    found: dict[str, Sequence[int]],
    constructed: dict[str, Sequence[int]],
) -> Figure:
    """The least dimension reached over the query norm allowed, in units of the gap, by
    descent and by random construction, an axes for each k.
    """
    fig, axes = new(1, len(found), size=(6.0, 2.8), sharey=True)
    for ax, k in zip(axes, found):
        ax.plot(norms, constructed[k], "s--", color=ORANGE, label="random keys")
        ax.plot(norms, found[k], "o-", color=BLUE, label="descent")
        law = 2 * int(k)
        ax.axhline(law, color="black", ls=":", lw=1, label="$2k$")
        ax.set(
            title=f"$k = {k}$",
            xlabel="query norm $s / T$",
            xscale="log",
            yscale="log",
            xticks=list(norms),
            yticks=[2, 4, 8, 16, 32, 64, 256, 1024],
        )
        ax.xaxis.set_major_formatter("{x:.2g}")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
    axes[0].set_ylabel("least dimension $d$")
    axes[0].legend(fontsize=8)
    return fig
