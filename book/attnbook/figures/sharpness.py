"""Figures of the page `How sharp must a row be?`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, new

FAINT = "#D3D3D3"
INK = "#444444"
LINES = [
    (BLUE, "o-"),
    (VERMILLION, "s-"),
    (GREEN, "^-"),
    (ORANGE, "D-"),
    (PURPLE, "v-"),
]

# --- who drowns the leader


def two_rows(beta: float) -> Figure:
    """A leader with one near rival, and the same with a crowd far behind: where the
    tokens are, and what share each gets.
    """
    fig, axes = new(2, 1, size=(6.0, 3.7))
    for ax, crowd in zip(axes, (0, 14)):
        weights = [1.0, math.exp(-beta), crowd * math.exp(-2 * beta)]
        _runners(ax, crowd)
        _shares(ax, [weight / sum(weights) for weight in weights])
        ax.set(xlim=(-0.5, 6.6), ylim=(-0.75, 1.75))
        ax.axis("off")
    axes[0].set_title("one rival, near", loc="left", fontsize=10)
    axes[1].set_title("the same rival, and a crowd far behind", loc="left", fontsize=10)
    return fig


def _runners(ax, crowd: int) -> None:
    """Tokens by their distance to the leader, who is on the right."""
    ax.annotate(
        "", (3.0, 0), (-0.4, 0), arrowprops={"arrowstyle": "->", "color": FAINT}
    )
    ax.plot(2.6, 0.14, "o", ms=10, color=BLUE)
    ax.plot(1.4, 0.14, "s", ms=8, color=ORANGE)
    for k in range(crowd):
        ax.plot(0.02 + 0.16 * (k % 4), 0.14 + 0.28 * (k // 4), "^", ms=6, color=GREY)
    ax.text(2.6, -0.12, "leader", ha="center", va="top", color=INK, fontsize=9)
    ax.text(1.4, -0.12, "1 behind", ha="center", va="top", color=INK, fontsize=9)
    if crowd:
        words = f"{crowd} tokens,\n2 behind"
        ax.text(0.26, -0.12, words, ha="center", va="top", color=INK, fontsize=9)


def _shares(ax, shares: Sequence[float]) -> None:
    """The shares as parts of one bar."""
    left = 3.5
    ax.text(left, 1.1, "who gets how much attention", color=INK, fontsize=9)
    looks = (("leader", BLUE, ""), ("rival", ORANGE, "//"), ("crowd", GREY, ".."))
    for share, (name, colour, hatch) in zip(shares, looks):
        width = 3 * share
        if width == 0:
            continue
        box = Rectangle((left, 0.3), width, 0.65, fc=colour, alpha=0.35, hatch=hatch)
        ax.add_patch(box)
        ax.add_patch(Rectangle((left, 0.3), width, 0.65, fill=False, ec=colour, lw=1.5))
        middle = left + width / 2
        words = f"{name}\n{share:.0%}"
        ax.text(middle, 0.2, words, ha="center", va="top", color=INK, fontsize=9)
        left += width


# --- a line that turns


def turning_line(row: Tensor, betas: Sequence[float]) -> tuple[list[Figure], list[str]]:
    """The gaps of a row over how many tokens are so near, and the line of what so many
    tokens ask for; it turns as beta grows.

    Args:
        row: (n,), logits with one leader.
        betas: a frame each.

    Returns:
        (frames, labels) of a slider.
    """
    frames = []
    labels = []
    for beta in betas:
        short = _line_frame(frames, row, beta)
        word = "all far enough" if short == 0 else f"{short} too near"
        labels.append(f"beta = {beta:.2f}: {word}")
    return frames, labels


def _line_frame(frames: list[Figure], row: Tensor, beta: float) -> int:
    """Append one frame; how many tokens lie below the line."""
    fig, ax = new(size=(6.0, 3.6))
    gaps = (row.max() - row).sort().values.tolist()
    n = len(gaps)
    short = 0
    for j, gap in enumerate(gaps, 1):
        needed = math.log(j) / beta
        near = gap < needed - 1e-9
        short += near
        colour, mark = (VERMILLION, "X") if near else (BLUE, "o")
        ax.plot(j, gap, mark, color=colour, ms=8, zorder=3)
    ax.plot([1, 1.3 * n], [0, math.log(1.3 * n) / beta], "k--", lw=1.4)
    ax.set(xscale="log", xlim=(0.9, 1.35 * n), ylim=(-0.3, 2.9))
    ax.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    ax.minorticks_off()
    ax.set_xlabel("counted from the leader: 1st, 2nd, ... token (log scale)")
    ax.set_ylabel("distance behind the leader")
    ax.text(1.08, -0.15, "leader", color=INK, fontsize=9, va="center")
    words = "dashed line:\nhow far so many\nmust be"
    ax.text(0.94, 2.8, words, color=INK, va="top")
    if short:
        said = "too near for\ntheir number"
    elif abs(gaps[-1] - math.log(n) / beta) < 1e-3:
        said = "the line touches\nthe last token"
    else:
        said = "room to spare"
    ax.text(
        7,
        min(1.0, 0.9 * math.log(7) / beta),
        said,
        color=VERMILLION if short else BLUE,
        va="top",
    )
    frames.append(fig)
    return short


# --- squeezed between two curves


def squeezed(row: Tensor, beta: float, t: float, at: int) -> Figure:
    """The weights of a row, relative to the leader, from the nearest on: below the
    curve j^-t, and as high at least as a box up to j*.
    """
    fig, ax = new(size=(6.0, 3.5))
    weights = torch.softmax(beta * row, -1).sort(descending=True).values
    heights = (weights / weights[0]).tolist()
    n = len(heights)
    j = torch.arange(1, n + 1)
    for i, height in enumerate(heights, 1):
        face = BLUE if i == 1 else ORANGE
        box = Rectangle((i - 0.5, 0), 1, height, fc=face, alpha=0.35)
        ax.add_patch(box)
        ax.add_patch(Rectangle((i - 0.5, 0), 1, height, fill=False, ec=face, lw=1.2))
    ax.plot(j, j.double() ** -t, "kv--", lw=1.2, ms=5)
    level = at**-t
    ax.plot([1.5, at + 0.5], [level, level], color=GREEN, lw=2.6, ls="-.")
    ax.text(1.65, 0.93, "the leader", color=INK, va="center")
    ax.text(
        4.4,
        0.3,
        "no token is higher\nthan this curve",
        color=INK,
        va="bottom",
    )
    ax.text(
        at + 0.5,
        level + 0.06,
        "up to the token that decides,\nnone is lower than this line",
        color=GREEN,
        ha="right",
        va="bottom",
    )
    ax.set(xlim=(0.3, n + 0.8), ylim=(0, 1.05))
    ax.set_xticks([1, 2, 4, 8, 16])
    ax.set_xlabel("token, the nearest to the leader first")
    ax.set_ylabel("weight over the leader's")
    return fig


# --- the switch


def switch(lengths: Sequence[int]) -> Figure:
    """The share of the leader over t: equal rivals, which are the most that a row can
    have if its last token decides, and Zipf's row, which is the least.
    """
    fig, axes = new(1, len(lengths), size=(6.0, 2.9), sharey=True)
    t = torch.linspace(0, 3, 121, dtype=torch.float64)
    for ax, n in zip(axes, lengths):
        j = torch.arange(1, n + 1, dtype=torch.float64)
        equal = 1 / (1 + (n - 1) * n**-t)
        zipf = torch.stack([1 / (j**-power).sum() for power in t])
        ax.fill_between(t, zipf, equal, color=FAINT, alpha=0.5)
        ax.plot(t, equal, "-", color=BLUE)
        ax.plot(t, zipf, "--", color=VERMILLION)
        ax.axvline(1, color=INK, lw=0.8, ls=":")
        ax.set_title(f"{n:,} tokens", fontsize=10)
        ax.set(xlim=(0, 3), ylim=(0, 1.02), xticks=[0, 1, 2, 3])
    axes[0].set_ylabel("share of the leader")
    axes[1].set_xlabel(r"sharpness $t = \beta / \beta^*$")
    axes[0].text(0.08, 0.72, "equal\nrivals", color=BLUE, fontsize=9)
    axes[0].text(1.9, 0.36, "Zipf's row", color=VERMILLION, fontsize=9)
    return fig


# --- measurements


def lengths(
    n: Sequence[int], measured: dict[str, Sequence[float]], laws: dict[str, Sequence]
) -> Figure:
    """beta* over the number of tokens, a family of rows each; dashed: the law, through
    the last mark.
    """
    fig, ax = new(size=(6.0, 3.7))
    for (name, values), (colour, style) in zip(measured.items(), LINES):
        ax.plot(n, values, style[0], color=colour, label=name)
        law = [values[-1] * value / laws[name][-1] for value in laws[name]]
        ax.plot(n, law, "k--", lw=1)
    ax.plot([], [], "k--", lw=1, label="the law")
    ax.set(xscale="log", yscale="log", xlabel="tokens $n$")
    ax.set_ylabel(r"critical $\beta^*$")
    ax.legend(fontsize=9)
    return fig


def rows_of_heads(t: dict[str, Tensor], share: dict[str, Tensor], n: int) -> Figure:
    """The largest weight of single rows over their sharpness t, between the least and
    the most that any row of n tokens can have.
    """
    fig, ax = new(size=(6.0, 3.6))
    grid = torch.logspace(-2, 1.4, 200, dtype=torch.float64)
    j = torch.arange(1, n + 1, dtype=torch.float64)
    least = 1 / (j ** -grid[:, None]).sum(-1)
    worst = torch.minimum(2**-grid, (n - 1) * n**-grid)
    ax.plot(grid, least, "k--", lw=1.2)
    ax.plot(grid, 1 / (1 + worst), "k--", lw=1.2)
    for (name, x), (colour, style) in zip(t.items(), LINES):
        ax.plot(x, share[name], style[0], color=colour, ms=3.5, alpha=0.7, label=name)
    ax.axvline(1, color=INK, lw=0.8, ls=":")
    ax.set(xscale="log", xlim=(0.015, 20), ylim=(0, 1.02))
    ax.set_xticks([0.02, 0.1, 0.5, 1, 2, 10], ["0.02", "0.1", "0.5", "1", "2", "10"])
    ax.minorticks_off()
    ax.set_xlabel(r"sharpness of the row, $t = 1 / \beta^*$")
    ax.set_ylabel("its largest weight")
    ax.text(0.017, 0.58, "the most that a row can have", color=INK, fontsize=9)
    ax.text(2.05, 0.3, "the least", color=INK, fontsize=9)
    ax.legend(loc="upper left", fontsize=9)
    return fig


def heads_by_length(ratios: dict[str, Tensor]) -> Figure:
    """The sharpness of the heads of each layer over that of whole passages, a mark a
    head, for several kinds of text.

    Args:
        ratios: kind -> (layers, heads).
    """
    fig, ax = new(size=(6.0, 3.4))
    places = len(ratios)
    for k, (kind, by_head) in enumerate(ratios.items()):
        colour, style = LINES[k]
        layers, heads = by_head.shape
        shift = (k - (places - 1) / 2) * 0.16
        x = torch.arange(1, layers + 1)[:, None].expand(layers, heads) + shift
        x, y = x.flatten(), by_head.flatten()
        ax.plot(x, y, style[0], color=colour, ms=6, label=kind)
    ax.axhline(1, color=INK, lw=0.8, ls=":")
    ax.text(layers + 0.45, 1.01, "as sharp", color=INK, fontsize=9, ha="right")
    ax.set(xlabel="layer", xlim=(0.5, layers + 0.5), ylim=(0.6, 1.55))
    ax.set_xticks(range(1, layers + 1))
    ax.set_ylabel("sharpness, over that\nof whole passages")
    ax.legend(fontsize=9, ncols=places, loc="upper center", title="characters")
    return fig
