"""Figures of the page Benchmarks: how near to what the machine can do, and how cost
grows.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from attnbook.data.timings import peers
from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new

WORDS = {
    "n": "tokens $n$",
    "L": "layers $L$",
    "N": "sequences $N$",
    "d": "width $d$",
}
LOOKS = {  # kernel -> (name in the legend, colour, style)
    "attention_matrix": ("attention matrix", "black", "o-"),
    "forward": ("forward", GREY, "s--"),
    "path_sums": ("path sums", ORANGE, "v-"),
    "sparse_attention, strided": ("strided", VERMILLION, "^-"),
    "sparse_attention, random sets": ("random sets", VERMILLION, "x:"),
    "lsh_attention": ("hashing", PURPLE, "D-"),
    "linformer_attention": ("Linformer", BLUE, "P-"),
    "sparse_attention, window": ("window", SKY, "<-"),
    "linear_attention": ("linear", GREEN, ">-"),
}


def scaling(records: Sequence[dict[str, Any]]) -> Figure:
    """How time grows: a panel an axis, each kernel over its own first size, doubly
    logarithmic, slopes 1 and 2 dashed.
    """
    fig, grid = new(2, 2, size=(6.0, 5.5))
    known = [r for r in records if r["job"] == "scaling" and r["kernel"] in LOOKS]
    shown: dict[str, Any] = {}
    for ax, axis in zip(grid.flat, WORDS):
        found = [record for record in known if record["axis"] == axis]
        if not found:
            raise ValueError(f"no kernel of the figure was measured along {axis!r}")
        for record in found:
            name, color, style = LOOKS[record["kernel"]]
            look = {"color": color, "ms": 4.5, "lw": 1.2}
            (line,) = ax.plot(*_relative(record), style, label=name, **look)
            shown.setdefault(name, line)
        _guides(ax)
        ax.set(xlabel=f"{WORDS[axis]} over the first", ylabel="time over the first")
    fig.legend(
        shown.values(),
        shown.keys(),
        loc="outside lower center",
        ncols=3,
        fontsize=9,
        frameon=False,
    )
    return fig


def _relative(record: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Sizes and times of a record over those of its first size."""
    times = [statistics.median(runs) for runs in zip(*record["seconds"]["ours"])]
    sizes = record["at"]
    return [n / sizes[0] for n in sizes], [t / times[0] for t in times]


def _guides(ax) -> None:
    """Slopes 1 and 2 from the first point, and ticks at powers of the factor."""
    widest = max(line.get_xdata()[-1] for line in ax.lines)
    for power in (1, 2):
        end = widest**power
        ax.plot([1, widest], [1, end], "k--", lw=1, label=f"_slope {power}")
        ax.annotate(
            f"slope {power}",
            (widest, end),
            xytext=(-3, 3),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=8,
        )
    ax.set(xscale="log", yscale="log")
    ticks = sorted({x for line in ax.lines for x in line.get_xdata()})
    if widest > 16:  # too many to print
        ticks = [t for t in ticks if t in (1, 4, 16, 64)]
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks], fontsize=9)
    ax.minorticks_off()


JOBS = {
    "paths": (BLUE, "o"),
    "sparse": (VERMILLION, "s"),
    "verify": (GREEN, "D"),
    "lowrank": (PURPLE, "^"),
    "lists": (ORANGE, "v"),
    "ids": (SKY, "P"),
}


def roofline(records: Sequence[dict[str, Any]]) -> Figure:
    """Useful operations a second over useful operations a byte, ours full and peers
    hollow, below both limits.
    """
    known = [record for record in records if record["flop"] and record["bytes"]]
    if not known:
        raise ValueError(
            "a roofline needs at least one record with operations and bytes, got none"
        )
    top = _limit(known, "limit matmul", "flop")
    wide = _limit(known, "limit copy", "bytes")
    ridge = top / wide  # the operations a byte from which the product limits
    intensity = [record["flop"] / record["bytes"] for record in known]
    low = min(ridge, *intensity) / 4
    high = 3 * max(ridge, *intensity)
    fig, ax = new(size=(6.0, 4.2))
    ax.plot(
        [low, ridge, high],
        [low * wide / 1e9, top / 1e9, top / 1e9],
        "-",
        color="black",
        label="limit: copy, matrix product",
    )
    for job in dict.fromkeys(record["job"] for record in known):
        color, mark = JOBS.get(job, (GREY, "x"))
        own = [record for record in known if record["job"] == job]
        ours = [_point(record, "ours") for record in own]
        ax.plot(*zip(*ours), mark, color=color, ms=6.5, label=job)
        others = []
        for record in own:
            others += [_point(record, name) for name in peers(record)]
        if others:
            ax.plot(*zip(*others), mark, color=color, mfc="none", ms=4.5, lw=0)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="useful operations a byte of input and output",
        ylabel="useful GFLOP/s",
    )
    fig.legend(loc="outside lower center", ncols=4, fontsize=9)
    return fig


def _limit(records: Sequence[dict[str, Any]], limit: str, what: str) -> float:
    """The median rate of a limit over all runs of all records."""
    rates = []
    for record in records:
        size = record["limits"][limit][what]
        rates += [size / seconds for seconds in record["seconds"][limit]]
    return statistics.median(rates)


def _point(record: dict[str, Any], name: str) -> tuple[float, float]:
    """Operations a byte, and 10^9 operations a second."""
    seconds = statistics.median(record["seconds"][name])
    return record["flop"] / record["bytes"], record["flop"] / seconds / 1e9
