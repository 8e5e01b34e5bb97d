"""Figures of the page Benchmarks: how near to what the machine can do, and how cost
grows.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from attnlib.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new

WORDS = {
    "n": "tokens $n$",
    "L": "layers $L$",
    "H": "heads $H$",
    "N": "sequences $N$",
    "d": "width $d$",
}
LOOKS = {  # kernel -> (name in the legend, colour, style)
    "attention_matrix": ("attention matrix", "black", "o-"),
    "forward": ("forward", GREY, "s--"),
    "path_sums": ("path sums", ORANGE, "v-"),
    "strided_attention": ("strided", VERMILLION, "^-"),
    "sparse_attention, random sets": ("random sets", VERMILLION, "x:"),
    "lsh_attention": ("hashing", PURPLE, "D-"),
    "linformer_attention": ("Linformer", BLUE, "P-"),
    "window_attention": ("window", SKY, "<-"),
    "linear_attention": ("linear", GREEN, ">-"),
}
VALUES = {  # what is drawn: label, unit
    "time": "time over the first",
    "memory": "memory over the first",
}


def scaling(
    records: Sequence[dict[str, Any]],
    axes: Sequence[str] = ("n", "L", "N", "d"),
    *,
    what: str = "time",
) -> Figure:
    """How cost grows: a panel an axis, each kernel over its own first size, doubly
    logarithmic, slopes 1 and 2 dashed.
    """
    if what not in VALUES:
        raise ValueError(f"what must be one of {list(VALUES)}, got {what!r}")
    fig, grid = new(
        -(-len(axes) // 2), 2, size=(6.0, 2.2 * -(-len(axes) // 2) + 1.1), squeeze=False
    )
    shown: dict[str, Any] = {}
    for ax, axis in zip(grid.flat, axes):
        found = [
            r
            for r in records
            if r["job"] == "scaling" and r["axis"] == axis and r["kernel"] in LOOKS
        ]
        if not found:
            raise ValueError(f"no kernel of the figure was measured along {axis!r}")
        for record in found:
            name, color, style = LOOKS[record["kernel"]]
            x, y = relative(record, what)
            shown.setdefault(
                name, ax.plot(x, y, style, color=color, ms=4.5, lw=1.2, label=name)[0]
            )
        _guides(ax, max(len(record["at"]) for record in found))
        ax.set(xlabel=f"{WORDS[axis]} over the first", ylabel=VALUES[what])
    for ax in grid.flat[len(axes) :]:
        ax.set_axis_off()
    fig.legend(
        shown.values(),
        shown.keys(),
        loc="outside lower center",
        ncols=3,
        fontsize=9,
        frameon=False,
    )
    return fig


def relative(record: dict[str, Any], what: str) -> tuple[list[float], list[float]]:
    """Sizes and costs of a record over those of its first size."""
    cost = (
        [statistics.median(t) for t in zip(*record["seconds"]["ours"])]
        if what == "time"
        else record["peak bytes"]
    )
    return [n / record["at"][0] for n in record["at"]], [
        max(c, 1e-12) / max(cost[0], 1e-12) for c in cost
    ]


def _guides(ax, points: int) -> None:
    """Slopes 1 and 2 from the first point, and ticks at powers of the factor."""
    widest = max(line.get_xdata()[-1] for line in ax.lines)
    for power, word in ((1, "slope 1"), (2, "slope 2")):
        ax.plot([1, widest], [1, widest**power], "k--", lw=1, label=f"_{word}")
        aside = {
            "xytext": (-3, 3),
            "textcoords": "offset points",
            "ha": "right",
            "va": "bottom",
        }
        ax.annotate(word, (widest, widest**power), fontsize=8, **aside)
    ax.set(xscale="log", yscale="log")
    ticks = sorted({x for line in ax.lines for x in line.get_xdata()})
    ticks = [t for t in ticks if widest <= 16 or t in (1, 4, 16, 64)]
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
    top, wide = (
        statistics.median(rate for r in known for rate in _rates(r, *limit))
        for limit in LIMITS
    )
    intensity = [record["flop"] / record["bytes"] for record in known]
    low, high = min([*intensity, top / wide]) / 4, 3 * max([*intensity, top / wide])
    fig, ax = new(size=(6.0, 4.2))
    ax.plot(
        [low, top / wide, high],
        [low * wide / 1e9, top / 1e9, top / 1e9],
        "-",
        color="black",
        label="limit: copy, matrix product",
    )
    for job in dict.fromkeys(record["job"] for record in known):
        color, mark = JOBS.get(job, (GREY, "x"))
        own = [record for record in known if record["job"] == job]
        places = [record["flop"] / record["bytes"] for record in own]
        ax.plot(
            places,
            [_speed(r, "ours") for r in own],
            mark,
            color=color,
            ms=6.5,
            label=job,
        )
        others = [
            (x, _speed(r, name))
            for x, r in zip(places, own)
            for name in r["seconds"]
            if _peer(name)
        ]
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


LIMITS = (("limit matmul", "flop"), ("limit copy", "bytes"))


def _peer(name: str) -> bool:
    return name != "ours" and not name.startswith(("floor", "part", "limit"))


def _rates(record: dict[str, Any], limit: str, what: str) -> list[float]:
    return [
        record["limits"][limit][what] / seconds for seconds in record["seconds"][limit]
    ]


def _speed(record: dict[str, Any], name: str) -> float:
    return record["flop"] / statistics.median(record["seconds"][name]) / 1e9
