"""Figures of the page on what attention costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure

from attnlib.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new

MARKS = {  # row -> (name in the legend, colour, style)
    "dense (naive)": ("dense, naive", GREY, "s--"),
    "dense (SDPA)": ("dense, fused", "black", "o-"),
    "GRU": ("GRU", ORANGE, "v-"),
    "strided": ("strided", VERMILLION, "^-"),
    "fixed": ("fixed", VERMILLION, "x:"),
    "LSH, 1 round": ("LSH, 1 round", PURPLE, "D-"),
    "LSH, 4 rounds": ("LSH, 4 rounds", PURPLE, "D--"),
    "Linformer, 128": ("Linformer, 128", BLUE, "P-"),
    "Nystrom, 64": ("Nyström, 64", BLUE, "*:"),
    "window, 129": ("window, 129", SKY, "<-"),
    "linear": ("linear", GREEN, ">-"),
    "Performer, 128": ("Performer, 128", GREEN, "h--"),
}


def growth(n: Sequence[int], rows: dict[str, dict[str, Any]]) -> Figure:
    """Time and memory of every row over n, doubly logarithmic; a ring where a row
    becomes faster than fused dense.
    """
    fig, (left, right) = new(1, 2, size=(6.0, 4.3))
    fused = _middles(rows["dense (SDPA)"])
    for row, (name, color, style) in MARKS.items():
        found = rows[row]
        mebibytes = [b / 2**20 for b in found["bytes"]]
        look = {"color": color, "ms": 4.5, "lw": 1.2}
        left.plot(n, _middles(found), style, label=name, **look)
        right.plot(n, mebibytes, style, **look)
        cross = found["crossover"]
        if cross and cross > n[0]:
            height = _between(n, fused, cross)
            left.plot(cross, height, "o", mfc="none", mec=color, ms=11, mew=1.4)
    left.set_ylabel("time, ms")
    right.set_ylabel("most memory at once, MiB")
    for ax in (left, right):
        ax.set(xscale="log", yscale="log", xlabel="tokens $n$")
        ax.set_xticks(n, [str(v) for v in n], fontsize=8)
        ax.minorticks_off()
    fig.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return fig


def _middles(row: dict[str, Any]) -> list[float]:
    """The medians of the times, which stand between their quartiles."""
    return [middle for _, middle, _ in row["ms"]]


def _between(n: Sequence[int], y: Sequence[float], at: float | int) -> float:
    """The curve at one more place, straight between its points in the logarithms."""
    points = zip(n, y)
    for (a, u), (b, v) in pairwise(points):
        if a <= at <= b:
            share = math.log(at / a) / math.log(b / a)
            return u * (v / u) ** share
    return y[-1]


def errors(rows: dict[str, dict[str, Any]]) -> Figure:
    """Error against dense attention over the share of its FLOPs: medians, bars from
    quartile to quartile.
    """
    looks = {
        "window": (SKY, "<-"),
        "strided": (VERMILLION, "^-"),
        "fixed": (VERMILLION, "x:"),
        "LSH": (PURPLE, "D-"),
        "Linformer, means": (BLUE, "P-"),
        "Linformer, random": (BLUE, "P:"),
        "Nystrom": (ORANGE, "*:"),
        "Performer": (GREEN, "h--"),
        "linear": (GREEN, ">"),
    }
    fig, ax = new(size=(6.0, 3.6))
    for place, (row, (color, style)) in enumerate(looks.items()):
        points = sorted(rows[row]["points"])
        shares, low, middle, high = zip(*points)
        below = [m - a for m, a in zip(middle, low)]
        above = [b - m for m, b in zip(middle, high)]
        aside = 1.012 ** (place - 4)  # so that bars do not cover each other
        ax.errorbar(
            [share * aside for share in shares],
            middle,
            [below, above],
            fmt=style,
            color=color,
            ms=5,
            lw=1.2,
            elinewidth=0.7,
            label=row.replace("Nystrom", "Nyström"),
        )
    ax.axhline(1, color="black", ls="--", lw=1)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="FLOPs, as a share of dense attention",
        ylabel="relative error",
    )
    ax.set_xticks([0.125, 0.25, 0.5, 1], ["1/8", "1/4", "1/2", "1"])
    ax.minorticks_off()
    fig.legend(loc="outside right center", fontsize=8, frameon=False)
    return fig


def rounds(
    r: Sequence[int],
    with_it: Sequence[float],
    without: Sequence[float],
    missed: Sequence[float],
) -> Figure:
    """Distance of hashed attention to dense attention over the number of rounds."""
    fig, ax = new(size=(6.0, 2.8))
    ax.plot(r, without, "s-", color=VERMILLION, label="duplicates not corrected")
    ax.plot(r, with_it, "o", color=BLUE, label="duplicates corrected")
    ax.plot(r, missed, "k--", label="proved: the mass that no round saw")
    ax.set(xscale="log", yscale="log", xlabel="rounds $r$", ylabel="total variation")
    ax.set_xticks(r, [str(v) for v in r])
    ax.minorticks_off()
    ax.legend(fontsize=9)
    return fig
