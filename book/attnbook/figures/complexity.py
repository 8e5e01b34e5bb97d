"""Figures of the page on what attention costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new

FAINT = "#D3D3D3"
PALE = "#F1F1F1"
INK = "#444444"
BUCKETS = {"A": BLUE, "B": ORANGE, "C": GREEN}  # the letter doubles the colour

# --- ideas: who reads whom


def masks(rows: dict[str, Tensor]) -> Figure:
    """Masks side by side, a panel each: a square is filled where the token of its row
    reads the token of its column.

    Args:
        rows: name -> (n, n), boolean.
    """
    fig, axes = new(2, 3, size=(6.0, 4.5))
    for ax, (name, mask) in zip(axes.flat, rows.items()):
        n = len(mask)
        pairs = int(mask.sum())
        for i in range(n):
            for j in range(i + 1):
                color = BLUE if mask[i, j] else PALE
                ax.add_patch(Rectangle((j, n - 1 - i), 0.86, 0.86, color=color))
        ax.set(xlim=(-0.3, n), ylim=(-0.3, n), aspect="equal")
        ax.axis("off")
        ax.set_title(f"{name}\n{pairs} of {n * (n + 1) // 2} pairs", fontsize=9.5)
    return fig


def when_it_matters(lengths: Sequence[int], width: int) -> Figure:
    """What a token costs in one layer: its weights, the same at every length, and its
    attention, which grows with the tokens before it.

    Args:
        lengths: numbers of tokens, one bar each.
        width: D, of the model.
    """
    fig, ax = new(size=(6.0, 3.1))
    weights = 24 * width**2 / 1e6
    for y, n in enumerate(reversed(lengths)):
        attention = 4 * n * width / 1e6
        ax.barh(y, weights, color="#C9DDEB", edgecolor=BLUE)
        ax.barh(y, attention, left=weights, color="#F6D9B8", edgecolor=ORANGE)
        share = attention / (attention + weights)
        end = 1.02 * (weights + attention)
        plain = {"fc": "white", "ec": "none", "pad": 1}
        ax.text(end, y, f"attention {share:.0%}", va="center", bbox=plain)
    names = [f"{n:,} tokens" for n in reversed(lengths)]
    ax.set_yticks(range(len(lengths)), names)
    top = len(lengths) - 1
    ax.text(weights / 2, top, "weights", ha="center", va="center", color=INK)
    longest = weights + 4 * max(lengths) * width / 1e6
    ax.text(weights * 1.5, 0, "reading other tokens", va="center", color=INK)
    ax.axvline(2 * weights, color="black", ls="--", lw=1, zorder=0)
    half = "half is attention: $n = 6D$"
    ax.text(2.04 * weights, top + 0.45, half, fontsize=9, va="center")
    ax.set(xlim=(0, longest * 1.28), ylim=(-0.6, top + 0.8))
    ax.set(xlabel=f"million FLOPs a token in one layer, $D = {width:,}$", ylabel=" ")
    return fig


def rows_of_tokens(l: int, rows: int, reader: int) -> Figure:
    """Tokens written in rows of l: the last l of a token lie in its row and the one
    above, those at distance l, 2l, .. in its column.
    """
    fig, ax = new(size=(6.0, 2.9))
    for token in range(l * rows):
        across, down = token % l, token // l
        near = 0 < reader - token <= l
        column = token < reader and (reader - token) % l == 0
        if token == reader:
            face, edge, ink = VERMILLION, VERMILLION, "white"
        elif column and not near:
            face, edge, ink = "#F6D9B8", ORANGE, INK
        elif near:
            face, edge, ink = "#C9DDEB", BLUE, INK
        else:
            face, edge, ink = "white", FAINT, GREY
        ax.add_patch(Rectangle((across, -down), 0.9, 0.8, fc=face, ec=edge, lw=1.4))
        ax.text(
            across + 0.45, 0.4 - down, str(token), ha="center", va="center", color=ink
        )
    side = l + 0.3
    down = reader // l
    ax.text(side, 0.4, "its column:\nevery $l$-th token", va="center", color="#9A5B00")
    ax.text(side, 1.4 - down, "the last $l$ tokens", va="center", color=BLUE)
    ax.text(side, 0.4 - down, f"token {reader} reads", va="center", color=VERMILLION)
    ax.set(xlim=(-0.2, l + 3.4), ylim=(-rows + 0.8, 1.0), aspect="equal")
    ax.axis("off")
    return fig


# --- ideas: sort and chunk


def sort_and_chunk(buckets: str, chunk: int) -> tuple[list[Figure], list[str]]:
    """Hashed attention of a short sequence, step by step: hash, sort, cut, attend, and
    back to the places.

    Args:
        buckets: the bucket of each token, a letter each.
        chunk: tokens a chunk.

    Returns:
        (frames, labels) of a slider.
    """
    order = sorted(range(len(buckets)), key=lambda t: (buckets[t], t))
    places = [order.index(t) for t in range(len(buckets))]
    steps = [
        ("hash: each token gets a bucket", range(len(buckets)), False, False),
        ("sort by bucket, then by place", places, False, False),
        ("cut into chunks", places, True, False),
        ("attend: own chunk and the one before", places, True, True),
        ("back to the places", range(len(buckets)), False, True),
    ]
    frames = []
    for words, seats, cut, attend in steps:
        frames.append(_seated(buckets, order, list(seats), chunk, words, cut, attend))
    return frames, [words for words, *_ in steps]


def _seated(buckets, order, seats, chunk, words, cut, attend) -> Figure:
    """One frame: tokens on their seats, above them who reads whom."""
    fig, ax = new(size=(6.0, 2.9))
    n = len(buckets)
    rank = {token: place for place, token in enumerate(order)}
    for token, letter in enumerate(buckets):
        x = seats[token]
        ax.add_patch(Circle((x, 0), 0.4, fc=BUCKETS[letter], ec="none", alpha=0.9))
        ax.text(x, 0, letter, ha="center", va="center", color="white", weight="bold")
        ax.text(x, -0.75, str(token), ha="center", va="center", color=INK)
    ax.text(-0.9, -0.75, "token", ha="right", va="center", color=INK)
    if attend:
        for i, j in _readings(buckets, rank, chunk):
            _arc(ax, seats[i], seats[j], BUCKETS[buckets[i]])
    if cut:
        for start in range(0, n, chunk):
            width = min(chunk, n - start) - 0.12
            corner = (start - 0.44, -0.52)
            box = Rectangle(corner, width, 1.04, fill=False, ec=INK, lw=1.5)
            ax.add_patch(box)
    ax.set_title(words)
    ax.set(xlim=(-2.4, n), ylim=(-1.1, 2.9), aspect="equal")
    ax.axis("off")
    return fig


def _readings(buckets: str, rank: dict[int, int], chunk: int) -> list[tuple[int, int]]:
    """Pairs j < i of one bucket whose chunks are the same or neighbours."""
    found = []
    for i in range(len(buckets)):
        for j in range(i):
            near = abs(rank[i] // chunk - rank[j] // chunk) <= 1
            if buckets[i] == buckets[j] and near:
                found.append((i, j))
    return found


def _arc(ax, start: int, end: int, color: str) -> None:
    height = 0.5 if start > end else -0.5
    how = {"arrowstyle": "-|>", "mutation_scale": 8, "lw": 1.2, "color": color}
    arc = FancyArrowPatch(
        (start, 0.45), (end, 0.45), connectionstyle=f"arc3,rad={height}", **how
    )
    ax.add_patch(arc)


# --- ideas: the order of two products, and what a decoder keeps


def two_orders() -> Figure:
    """The same three matrices multiplied in two orders: through all pairs of tokens, or
    through a summary of the keys and values.
    """
    fig, (top, bottom) = new(2, 1, size=(6.0, 3.9))
    n, d = 2.0, 0.7
    three = [("$Q$", d, n, BLUE), ("$K^\\top$", n, d, GREEN), ("$V$", d, n, GREY)]
    q, k, v = three
    pairs = ("every pair\nof tokens", n, n, ORANGE)
    summary = ("sum", d, d, ORANGE)
    _factors(top, [q, k, v], [pairs, v], first=(0, 1))
    _factors(bottom, [q, k, v], [q, summary], first=(1, 2))
    top.set_title("pairs first: a square of the size of the sequence", fontsize=10)
    bottom.set_title("keys with values first: a square of the width", fontsize=10)
    return fig


def _factors(ax, before: list, after: list, *, first: tuple[int, int]) -> None:
    """Blocks of a product, a bracket under the two that are multiplied first, and what
    is left then.
    """
    spans = []
    x = 0.0
    for block in before:
        spans.append(_block(ax, x, block))
        x = spans[-1][1] + 0.2
    left = spans[first[0]][0]
    right = spans[first[1]][1]
    ax.plot([left, left, right, right], [-1.1, -1.2, -1.2, -1.1], color=INK, lw=1.2)
    ax.text((left + right) / 2, -1.28, "first", ha="center", va="top", color=INK)
    arrow = FancyArrowPatch((x + 0.1, 0), (x + 0.9, 0), arrowstyle="-|>", color=INK)
    arrow.set_mutation_scale(12)
    ax.add_patch(arrow)
    x += 1.2
    for block in after:
        x = _block(ax, x, block)[1] + 0.2
    ax.set(xlim=(-0.1, 9.6), ylim=(-1.7, 1.1), aspect="equal")
    ax.axis("off")


def _block(ax, x: float, block: tuple) -> tuple[float, float]:
    """One matrix, centred in height; where it begins and ends."""
    word, width, height, color = block
    corner = (x, -height / 2)
    ax.add_patch(Rectangle(corner, width, height, fc=color, alpha=0.22))
    ax.add_patch(Rectangle(corner, width, height, fill=False, ec=color, lw=1.6))
    ax.text(x + width / 2, 0, word, ha="center", va="center", fontsize=9.5)
    return x, x + width


def growing_state(seen: Sequence[int], d: int) -> Figure:
    """What a decoder holds after some tokens: two rows more for each of them, or a
    square that stays.

    Args:
        seen: numbers of tokens, a column each.
        d: width of a head.
    """
    fig, axes = new(2, len(seen), size=(6.0, 4.3), sharex=True)
    for (above, below), n in zip(axes.T, seen):
        for token in range(n):
            for start, color in ((0, GREEN), (d + 1, BLUE)):
                for feature in range(d):
                    corner = (start + feature, -token)
                    box = Rectangle(corner, 0.86, 0.8, color=color, alpha=0.55)
                    above.add_patch(box)
        for row in range(d):
            for column in range(d + 1):
                shade = min(1.0, 0.15 + 0.1 * n)
                corner = (d / 2 + column, -row)
                box = Rectangle(corner, 0.86, 0.8, color=ORANGE, alpha=shade)
                below.add_patch(box)
        above.set_title(f"after {n} tokens", fontsize=10)
        _numbers(above, d, 2 * n * d, max(seen))
        _numbers(below, d, d * (d + 1), d)
    axes[0, 0].text(-0.6, 0.5, "cache", ha="right", va="top", color=INK)
    axes[1, 0].text(-0.6, 0.5, "sum", ha="right", va="top", color=INK)
    return fig


def _numbers(ax, d: int, count: int, depth: int) -> None:
    ax.text(d + 0.4, -depth - 0.1, f"{count} numbers", ha="center", va="top", color=INK)
    ax.set(xlim=(-2.6, 2 * d + 1.2), ylim=(-depth - 1.2, 1.2), aspect="equal")
    ax.axis("off")


# --- measurements

MARKS = {  # row -> (name in the legend, colour, style)
    "dense (naive)": ("dense, naive", GREY, "s--"),
    "dense (SDPA)": ("dense, fused", "black", "o-"),
    "GRU": ("GRU", ORANGE, "v-"),
    "strided": ("strided", VERMILLION, "^-"),
    "fixed": ("fixed", VERMILLION, "x:"),
    "LSH, 1 round": ("LSH, 1 round", PURPLE, "D-"),
    "LSH, 4 rounds": ("LSH, 4 rounds", PURPLE, "D--"),
    "Linformer, 128": ("Linformer, 128", BLUE, "P-"),
    "gated, causal": ("gated, causal", ORANGE, "*:"),
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
        if row not in rows:
            continue
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


def _between(n: Sequence[int], y: Sequence[float], at: float) -> float:
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
        "Nystrom, 6 steps": (ORANGE, "*-"),
        "Performer": (GREEN, "h--"),
        "linear": (GREEN, ">"),
    }
    fig, ax = new(size=(6.0, 3.6))
    for place, (row, (color, style)) in enumerate(looks.items()):
        if row not in rows:
            continue
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
