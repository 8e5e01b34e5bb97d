"""Draws the figure of the title page: one attention matrix, and the five theorems that
look at it.

    python book/_tools/cover.py [FILE]

writes book/_static/cover.svg, or FILE in any format that matplotlib knows. The README
shows book/_static/cover.png, in few colours so that it stays small.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

BLUE, ORANGE, GREEN, VERMILLION, PURPLE = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
)
INK, FAINT = "#222222", "#C9CED3"
WIDTH, HEIGHT, TOKENS = 6.4, 6.7, 10  # inches; everything below is placed in inches
TARGET = Path(__file__).parents[1] / "_static" / "cover.svg"


def attention(n=TOKENS):
    """A softmax matrix with what heads show: a band, a column that all rows look at,
    one far look.
    """
    i, j = np.mgrid[:n, :n]
    logits = (
        -0.9 * np.abs(i - j)
        + 1.9 * (j == 1)
        + 3.4 * ((i == 3) & (j == 8))
        + 2.6 * ((i == 8) & (j == 4))
    )
    logits = logits + 0.35 * np.random.default_rng(3).standard_normal((n, n))
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def cells(ax, values, x, y, width, height, colour):
    """A matrix as a picture with its lower left corner at (x, y); colour maps a value
    in [0, 1].
    """
    rows, cols = values.shape
    w, h = width / cols, height / rows
    for (i, j), value in np.ndenumerate(values):
        corner = (x + j * w, y + height - (i + 1) * h)
        ax.add_patch(
            Rectangle(
                corner, w, h, facecolor=colour(value), edgecolor="white", linewidth=0.7
            )
        )


def tint(colour):
    """White to the colour: zero stays visible as the palest cell."""
    rgb = np.array(matplotlib.colors.to_rgb(colour))
    return lambda value: tuple(1 - (0.10 + 0.90 * value) * (1 - rgb))


def label(ax, x, y, title, formula):
    ax.text(
        x, y, title, color=INK, fontsize=14, fontweight="bold", ha="center", va="top"
    )
    ax.text(x, y - 0.28, formula, color=INK, fontsize=13, ha="center", va="top")


def paths(ax, x, y):
    """Four layers with three heads and a skip; one path stands out."""
    across = x + np.array([0.0, 0.55, 1.1, 1.65, 2.2, 2.75])
    up = y + np.array([0.0, 0.30, 0.60, 0.90])
    middle, chosen = y + 0.45, (3, 1, 0, 2)
    ends = [[middle], *([list(up)] * 4), [middle]]
    for k in range(5):
        for a in ends[k]:
            for b in ends[k + 1]:
                ax.plot(across[k : k + 2], [a, b], color=FAINT, lw=0.7, zorder=1)
    ax.plot(across, [middle, *up[list(chosen)], middle], color=BLUE, lw=2.6, zorder=2)
    for k, head in enumerate(chosen, 1):
        size = [80 if h == head else 34 for h in range(4)]
        face = [BLUE if h == head else "white" for h in range(4)]
        ax.scatter(
            [across[k]] * 4,
            up,
            s=size,
            c=face,
            edgecolors=BLUE,
            linewidths=1.1,
            zorder=3,
        )
    ax.scatter(across[[0, -1]], [middle] * 2, s=80, c=INK, marker="s", zorder=3)


def low_rank(ax, p, x, y):
    """The two largest singular parts of the matrix: a thin factor times a flat one."""
    u, _, v = np.linalg.svd(p)
    u, v = np.abs(u[:, :2]), np.abs(v[:2])
    cells(ax, u / u.max(), x, y, 0.3, 1.3, tint(ORANGE))
    cells(ax, v / v.max(), x + 0.46, y + 1.0, 1.3, 0.3, tint(ORANGE))
    ax.text(
        x + 1.11,
        y + 0.42,
        r"$\approx P\,?$",
        color=INK,
        fontsize=16,
        ha="center",
        va="center",
    )


def sparse(ax, x, y, n=TOKENS, size=1.3):
    """Two entries in each row and in each column."""
    order = np.random.default_rng(8).permutation(n)
    pattern = np.zeros((n, n))
    pattern[np.arange(n), order] = pattern[np.arange(n), (order + 3) % n] = 1
    cells(ax, pattern, x, y, size, size, tint(GREEN))


def connections(ax, x, y, n=7, step=0.34):
    """Two layers of a sparse pattern: each token looks at a few others, the middle one
    hears from all.
    """
    heights, tokens = y + np.array([0.0, 0.6, 1.2]), x + step * np.arange(n)
    heard = [set(range(n)), {1, 3, 5}, {3}]
    for layer, jump in enumerate((1, 2), 1):
        for i in range(n):
            for j in {i - jump, i, i + jump} & set(range(n)):
                on = i in heard[layer]
                ax.plot(
                    [tokens[j], tokens[i]],
                    heights[layer - 1 : layer + 1],
                    color=VERMILLION if on else FAINT,
                    lw=2.2 if on else 0.7,
                    zorder=2 if on else 1,
                )
    for height, ids in zip(heights, heard):
        face = [VERMILLION if i in ids else "white" for i in range(n)]
        size = [60 if i in ids else 34 for i in range(n)]
        ax.scatter(
            tokens,
            [height] * n,
            s=size,
            c=face,
            edgecolors=VERMILLION,
            linewidths=1.1,
            zorder=3,
        )


def memory(ax, x, y):
    """Distinct ids on a line, and the exact function that gives each its label."""
    ids = x + np.array([0.1, 0.42, 0.63, 1.02, 1.28, 1.72, 2.0])
    labels = y + np.array([0.35, 0.95, 0.65, 1.15, 0.4, 0.8, 0.3])
    ax.plot([x - 0.05, x + 2.15], [y, y], color=INK, lw=1.0, zorder=1)
    ax.vlines(ids, y, labels, color=FAINT, lw=0.9, zorder=1)
    ax.plot(ids, labels, color=PURPLE, lw=2.2, zorder=2)
    ax.scatter(
        ids, labels, s=52, c=PURPLE, edgecolors="white", linewidths=0.8, zorder=3
    )
    ax.scatter(ids, [y] * len(ids), s=24, c=INK, zorder=3)


def rays(ax, x, y, half):
    """From the matrix to the five views of it."""
    for (x0, y0), (x1, y1), colour in [
        ((0, half), (0, half + 0.34), BLUE),
        ((-half, 0.1), (-half - 0.34, 0.1), ORANGE),
        ((half, 0.1), (half + 0.34, 0.1), GREEN),
        ((-half + 0.1, -half), (-half - 0.16, -half - 0.62), VERMILLION),
        ((half - 0.1, -half), (half + 0.16, -half - 0.62), PURPLE),
    ]:
        ax.plot([x + x0, x + x1], [y + y0, y + y1], color=colour, lw=2.2, zorder=0)
        ax.scatter([x + x1], [y + y1], s=22, c=colour, zorder=0)


def draw():
    """The whole figure, on an opaque white face so that it also reads in dark mode."""
    fig = plt.figure(figsize=(WIDTH, HEIGHT), facecolor="white")
    ax = fig.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, HEIGHT))
    ax.axis("off")
    p, x, y, half = attention(), 3.2, 3.68, 0.86
    rays(ax, x, y, half)
    cells(
        ax,
        np.sqrt(p / p.max()),
        x - half,
        y - half,
        2 * half,
        2 * half,
        plt.get_cmap("cividis"),
    )
    ax.text(
        x,
        y - half - 0.12,
        "attention $P$",
        color=INK,
        fontsize=13,
        ha="center",
        va="top",
    )
    label(ax, x, 6.60, "paths", r"$(H+1)^L$ of them")
    paths(ax, x - 1.375, 5.06)
    low_rank(ax, p, 0.22, 3.30)
    label(ax, 1.1, 3.12, "low rank", r"rank $\ll n$")
    sparse(ax, 4.75, 3.30)
    label(ax, 5.4, 3.12, "sparsity", r"$d=O(\log n)$")
    connections(ax, 0.42, 0.84)
    label(ax, 1.44, 0.66, "universality", r"$O(n)$ connections")
    memory(ax, 3.92, 0.84)
    label(ax, 4.97, 0.66, "memory", "one layer")
    return fig


def main(target=TARGET):
    matplotlib.rcParams.update(
        {
            "svg.hashsalt": "cover",
            "svg.fonttype": "path",
            "mathtext.fontset": "dejavusans",
        }
    )
    fig = draw()
    fig.savefig(
        target,
        metadata={"Date": None} if str(target).endswith(".svg") else None,
        dpi=150,
    )
    plt.close(fig)
    if str(target).endswith(".png"):
        with Image.open(target) as picture:
            few = picture.convert("RGB").quantize(200)
        few.save(target, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:2])
