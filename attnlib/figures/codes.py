"""Figures of the page on the price of dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlib.codes import price
from attnlib.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, new


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


def growth(
    n: Sequence[int],
    norms: dict[str, Sequence[float]],
    powers: dict[str, int],
) -> Figure:
    """Largest query norm over the number of keys, log-log, beside dashed lines of given
    powers.
    """
    fig, ax = new(size=(6.0, 3.0))
    most = n[-1]
    for label, color, mark in zip(norms, (BLUE, VERMILLION, PURPLE), "os^"):
        values = norms[label]
        last = values[-1]
        law = [last * (m / most) ** powers[label] for m in n]
        ax.plot(n, values, mark, color=color, label=label)
        ax.plot(n, law, "k--", lw=1)
    ax.set(
        xlabel="keys $n$",
        ylabel="largest query norm $s / T$",
        xscale="log",
        yscale="log",
        xticks=list(n),
    )
    ax.xaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    ax.legend(fontsize=9)
    return fig


def hidden_code(k: Tensor, q: Tensor, code: Tensor) -> Figure:
    """The proof of the exact price in the plane: keys, the fattened hull, and the code
    on the circle of radius 2.
    """
    fig, ax = new(size=(6.0, 4.0))
    a = torch.linspace(0, 2 * math.pi, 361, dtype=k.dtype)
    circle = torch.stack([a.cos(), a.sin()], 1)
    farthest = (circle @ k.T).argmax(1)
    edge = k[farthest] + circle  # the boundary of conv K + ball, by its normals
    ax.fill(*edge.T.tolist(), color=GREY, alpha=0.25, lw=0)

    def draw(points, style, **look):
        x, y = points.T.tolist()
        ax.plot(x, y, style, **look)

    draw(circle, ":", color=GREY, lw=1)
    draw(2 * circle, "-", color=GREY, lw=1)
    u = q / q.norm(dim=1, keepdim=True)
    x = k + u
    y = 2 * code
    for way in torch.stack([k, x, y], 1):
        draw(way, "-", color=BLUE, lw=1, zorder=2)
    draw(k, "o", color=BLUE, ms=6, label="keys $k_j$")
    draw(x, "s", color=ORANGE, ms=5, label="$x_j = k_j + u_j$")
    draw(y, "D", color=VERMILLION, ms=6, label="$y_j$, twice the code")
    ax.set(
        aspect="equal",
        xlabel="first coordinate",
        ylabel="second coordinate",
        xticks=[-2, -1, 0, 1, 2],
        yticks=[-2, -1, 0, 1, 2],
    )
    ax.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def descent(
    norms: Sequence[float],
    found: dict[str, Sequence[int]],
    constructed: dict[str, Sequence[int]],
) -> Figure:
    """The least dimension reached over the query norm allowed, by descent and by random
    construction, an axes for each k.
    """
    fig, axes = new(1, len(found), size=(6.0, 2.8), sharey=True)
    for ax, k in zip(axes, found):
        ax.plot(norms, constructed[k], "s--", color=ORANGE, label="random keys")
        ax.plot(norms, found[k], "o-", color=BLUE, label="descent")
        law = 2 * int(k)
        ax.axhline(law, color="black", ls=":", lw=1, label="$2k$")
        ax.set(
            title=f"$k = {k}$",
            xlabel="query norm $s$",
            xscale="log",
            yscale="log",
            xticks=list(norms),
            yticks=[2, 4, 8, 16, 32, 64, 256, 1024],
        )
        ax.xaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
    axes[0].set_ylabel("least dimension $d$")
    axes[0].legend(fontsize=8)
    return fig
