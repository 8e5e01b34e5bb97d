"""Figures of the page on the copying task."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from matplotlib.figure import Figure

from attnbook.data.mixers import plan, reads
from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new
from attnlib.copying import causal_pattern

STYLES = {  # colour and mark of a pattern, the same in all figures
    "dense": ("black", "o"),
    "strided": (BLUE, "s"),
    "half strided": (SKY, "p"),
    "fixed": (ORANGE, "^"),
    "star": (PURPLE, "*"),
    "window": (GREEN, "D"),
    "random": (VERMILLION, "X"),
}
BOUND = {"ls": "--", "color": "black", "lw": 1.3}  # the look of a proved bound
FAINT = "#D3D3D3"
INK = "#444444"

# --- the idea: what has to be copied, who hears of it, and how much can cross


def task() -> Figure:
    """A sequence twice, and how far back the third query has to reach."""
    fig, ax = new(size=(6.0, 2.3))
    letters = "DGACB"
    tokens = ["0", *letters, "0", *letters]
    half = len(tokens) // 2
    query = half + 2
    source = 3
    for k, word in enumerate(tokens):
        edge = GREY
        if k == query:
            edge = VERMILLION
        if k == source:
            edge = BLUE
        box = {"boxstyle": "square,pad=0.4", "fc": "white", "ec": edge, "lw": 1.6}
        shade = "#AAAAAA" if k > query else "black"
        ax.text(k, 0, word, ha="center", va="center", color=shade, bbox=box)
    arc = {"arrowstyle": "-|>", "color": BLUE, "lw": 1.8}
    arc["connectionstyle"] = "arc3,rad=0.35"
    ax.annotate("", (source, 0.45), (query, 0.45), arrowprops=arc)
    ax.text(
        (source + query) / 2, 1.75, "must hear of this token", ha="center", color=BLUE
    )
    ax.text(
        query,
        -0.75,
        "asked here:\nwhat comes next?",
        ha="center",
        va="top",
        color=VERMILLION,
    )
    ax.text(query + 2.4, 0.75, "not seen yet", ha="center", color="#777777")
    ax.text(source, -0.75, "the answer", ha="center", va="top", color=BLUE)
    ax.set(xlim=(-0.7, len(tokens) - 0.3), ylim=(-1.9, 2.2))
    ax.axis("off")
    return fig


def hearing(m: int = 7, w: int = 4) -> tuple[list[Figure], list[str]]:
    """What the last query hears of, a layer more in each frame: a window, then
    strided.
    """
    frames = []
    labels = []
    for name, most in (("window", 3), ("strided", 2)):
        for depth in range(1, most + 1):
            frames.append(_heard(name, m, w, depth, most))
            word = "layer" if depth == 1 else "layers"
            labels.append(f"{name}, {depth} {word}")
    return frames, labels


def _heard(name: str, m: int, w: int, depth: int, rows: int) -> Figure:
    """Layers as rows of tokens, the input below; lines say who reads whom."""
    fig, ax = new(size=(6.0, 2.9))
    n = 2 * (m + 1)
    query = 2 * m
    source = m
    mask = reads(plan(causal_pattern(name, n, w), 1, 1, "union")[0])[0]
    heard = {query}
    levels = [heard]
    for level in range(depth, 0, -1):
        below = {j for k in heard for j in mask[k].nonzero().flatten().tolist()}
        for k in heard:
            for j in mask[k].nonzero().flatten().tolist():
                ax.plot([k, j], [level, level - 1], color=SKY, lw=1, zorder=1)
        heard = heard | below
        levels.append(heard)
    for level, lit in enumerate(reversed(levels)):
        for k in range(n):
            face = BLUE if k in lit else "white"
            edge = BLUE if k in lit else FAINT
            ax.plot(k, level, "o", ms=8, mfc=face, mec=edge, zorder=2)
    ax.plot(query, depth, "s", ms=11, mfc="white", mec=VERMILLION, mew=2, zorder=3)
    ax.plot(source, 0, "s", ms=13, mfc="none", mec=VERMILLION, mew=2, zorder=3)
    reached = source in heard
    verdict = "the answer is heard" if reached else "the answer is not heard: guess"
    ax.text(query - 0.6, depth + 0.45, "the query", ha="right", color=VERMILLION)
    ax.text(source, -0.5, verdict, ha="center", va="top", color=VERMILLION)
    for level in range(depth + 1):
        word = "input" if level == 0 else f"after layer {level}"
        ax.text(-0.8, level, word, ha="right", va="center", color=INK, fontsize=9)
    ax.set(xlim=(-4.4, n - 0.4), ylim=(-1.1, rows + 0.8))
    ax.axis("off")
    return fig


def narrow(m: int = 7, w: int = 4) -> Figure:
    """Two ways from the first half to the second: all through a few block ends, or
    each symbol through a token of its own.
    """
    fig, axes = new(2, 1, size=(6.0, 4.2))
    for ax, name in zip(axes, ("fixed", "strided")):
        _second_layer(ax, name, m, w)
    return fig


def _second_layer(ax, name: str, m: int, w: int) -> None:
    """Inputs, states after layer 1, and queries; of the states those that carry."""
    n = 2 * (m + 1)
    mask = reads(plan(causal_pattern(name, n, w), 1, 1, "union")[0])[0]
    colour, mark = STYLES[name]
    carriers = set()
    for source in range(1, m + 1):
        query = source + m
        ways = (mask[query] & mask[:, source]).nonzero().flatten().tolist()
        via = min(ways, key=lambda k: abs(k - source))
        if via >= n // 2:
            via = ways[0]
        carriers.add(via)
        ax.plot([source, via], [0, 1], color=colour, lw=1.2, zorder=1)
        ax.plot([via, query], [1, 2], color=colour, lw=1.2, zorder=1)
    half = n // 2
    for k in range(n):
        ax.plot(k, 0 if k < half else 2, "o", ms=6, mfc="white", mec=FAINT, zorder=2)
        ax.plot(k, 1, "o", ms=6, mfc="white", mec=FAINT, zorder=2)
    for k in carriers:
        ax.plot(k, 1, mark, ms=11, mfc="white", mec=colour, mew=2.2, zorder=3)
    for source in range(1, m + 1):
        ax.plot(source, 0, "o", ms=6, color=BLUE, zorder=3)
        ax.plot(source + m, 2, "o", ms=6, color=VERMILLION, zorder=3)
    words = ("first round:\nto be copied", "carried by", "second round:\nasked for")
    for level, word in enumerate(words):
        ax.text(-0.9, level, word, ha="right", va="center", color=INK, fontsize=9)
    few = f"{name}: {m} symbols\nthrough {len(carriers)} states"
    ax.text(n - 0.5, 0.1, few, ha="right", va="center", color=INK)
    ax.set(xlim=(-4.2, n - 0.3), ylim=(-0.5, 2.4))
    ax.axis("off")


# --- measurements


def label(variant: dict) -> str:
    """The name of a stored variant: pattern, w, layers, and U, M or S for its
    scheme.
    """
    size = f" {variant['w']}" if variant["w"] else ""
    scheme = variant["scheme"][0].upper()
    return f"{variant['pattern']}{size}, L={variant['layers']}, {scheme}"


def ladder(variants: Sequence[dict]) -> Figure:
    """Accuracy of trained runs beside the bound of their receptive fields, a row for
    each variant.
    """
    fig, ax = new(size=(6.0, 0.6 + 0.2 * len(variants)))
    for y, variant in enumerate(variants):
        colour, mark = STYLES[variant["pattern"]]
        for b in sorted({run["bound"] for run in variant["runs"]}):
            dash = [y - 0.42, y + 0.42]
            ax.plot([b, b], dash, **BOUND)
        accuracies = [run["accuracy"] for run in variant["runs"]]
        ax.plot(
            accuracies,
            [y] * len(accuracies),
            mark,
            color=colour,
            ms=5,
            mfc="none",
            mew=1.2,
            ls="none",
        )
    ax.plot([], [], **BOUND, label="bound")
    ax.plot(
        [],
        [],
        "o",
        color=GREY,
        mfc="none",
        ls="none",
        label="run, one of three seeds",
    )
    ax.set(
        xlabel="accuracy of copying",
        ylabel="variant",
        xlim=(-0.02, 1.04),
        yticks=range(len(variants)),
        yticklabels=[label(variant) for variant in variants],
    )
    ax.tick_params(axis="y", labelsize=8, length=0)
    ax.grid(axis="x", color="#dddddd", lw=0.6)
    ax.set_axisbelow(True)
    ax.invert_yaxis()
    fig.legend(loc="outside upper right", ncols=2, fontsize=9)
    return fig


def by_sparsity(panels: Sequence[tuple[str, Sequence[dict]]]) -> Figure:
    """Accuracy against sparsity with bounds, a mark for each pattern and size: mean,
    least and most of the seeds.
    """
    fig, axes = new(
        1,
        len(panels),
        size=(6.0, 3.4),
        squeeze=False,
        sharey=True,
    )
    for ax, (title, variants) in zip(axes[0], panels, strict=True):
        everywhere = [variant["runs"][0]["sparsity"] for variant in variants]
        width = max(everywhere) - min(everywhere)
        half = 0.04 * width or 0.01  # of the dash of a bound
        for name, (colour, mark) in STYLES.items():
            own = [v["runs"] for v in variants if v["pattern"] == name]
            if not own:
                continue
            places = []
            means = []
            for runs in own:
                x = runs[0]["sparsity"]
                scores = [run["accuracy"] for run in runs]
                ends = [min(scores), max(scores)]
                ax.plot([x, x], ends, "-", color=colour, lw=1)
                bound = fmean(run["bound"] for run in runs)
                ax.plot([x - half, x + half], [bound, bound], **BOUND)
                places.append(x)
                means.append(fmean(scores))
            ax.plot(
                places,
                means,
                mark,
                ls="none",
                color=colour,
                ms=6,
                mfc="white",
                mew=1.3,
                label=name,
            )
        ax.set(title=title)
        ax.set(xlabel="sparsity, share not read", ylabel="accuracy of copying")
        ax.locator_params(axis="x", nbins=5)
    handles = {}
    for ax in axes[0]:
        for handle, name in zip(*ax.get_legend_handles_labels()):
            handles[name] = handle
    fig.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=4,
        fontsize=9,
    )
    return fig


def curves(
    runs: dict[str, Sequence[Sequence[float]]],
    every: int,
    chance: float,
) -> Figure:
    """Loss curves of several runs, and the loss of guessing."""
    fig, ax = new(size=(6.0, 3.0))
    colours = (BLUE, ORANGE, VERMILLION, GREEN, PURPLE)
    for (label, seeds), colour, mark in zip(runs.items(), colours, "s^XD*"):
        for number, curve in enumerate(seeds):
            last = every * len(curve)
            ax.plot(
                range(every, last + 1, every),
                curve,
                mark + "-",
                color=colour,
                lw=1,
                ms=4,
                markevery=4,
                mfc="white",
                label=label if number == 0 else None,
            )
    ax.axhline(chance, color="black", ls="--", label="guessing, $\\ln V$")
    ax.set(
        xlabel="step", ylabel="loss in nats, mean of 20 steps", ylim=(0, 1.15 * chance)
    )
    ax.legend(fontsize=9, loc="center right", bbox_to_anchor=(1.0, 0.7))
    return fig
