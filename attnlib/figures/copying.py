"""Figures of the page on the copying task."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new

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


def fields(
    fields: Sequence[Tensor], titles: Sequence[str], hits: Sequence[Tensor]
) -> Figure:
    """Receptive fields as grids, with the source of every query ringed: filled where it
    is reached.
    """
    fig, axes = new(1, len(fields), size=(6.0, 2.5), squeeze=False)
    for ax, field, title, hit in zip(axes[0], fields, titles, hits, strict=True):
        half = len(field) // 2
        ax.imshow(
            (1 - 0.25 * field.float()).numpy(),
            cmap="gray",
            vmin=0,
            vmax=1,
            interpolation="nearest",
        )
        for i, h in enumerate(hit.tolist(), 1):
            ax.plot(
                i,
                half - 1 + i,
                "o",
                ms=4,
                mec=BLUE if h else VERMILLION,
                mfc=BLUE if h else "white",
                mew=1.0,
            )
        ax.set(
            title=title,
            xlabel="token $j$",
            ylabel="token $k$",
            xticks=[0, half],
            yticks=[0, half],
        )
    return fig


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


def by_sparsity(
    panels: Sequence[tuple[str, str, str, Sequence[dict]]],
    bounds: bool = False,
) -> Figure:
    """A score against sparsity, a mark for each pattern and size: mean, least and most
    of the seeds.
    """
    fig, axes = new(
        1,
        len(panels),
        size=(6.0, 3.4),
        squeeze=False,
        sharey=bounds,
    )
    for ax, (title, words, score, variants) in zip(axes[0], panels, strict=True):
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
                scores = [run[score] for run in runs]
                ends = [min(scores), max(scores)]
                ax.plot([x, x], ends, "-", color=colour, lw=1)
                if bounds:
                    bound = fmean(run["bound"] for run in runs)
                    dash = [x - half, x + half]
                    ax.plot(dash, [bound, bound], **BOUND)
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
        ax.set(title=title, xlabel="sparsity, share not read", ylabel=words)
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


def mixers(
    panels: Sequence[tuple[str, str, dict[str, Sequence[float]], dict[str, float]]],
) -> Figure:
    """Scores of networks whose layers mix tokens in different ways, one mark a seed."""
    fig, axes = new(1, len(panels), size=(6.0, 2.9), squeeze=False)
    one_kind = {"marker": "s", "color": BLUE}
    mixed = {"marker": "o", "color": ORANGE}
    for ax, (title, label, scores, bounds) in zip(axes[0], panels, strict=True):
        for x, (letters, values) in enumerate(scores.items()):
            look = one_kind if len(set(letters)) == 1 else mixed
            places = [x] * len(values)
            ax.plot(places, values, ls="none", mfc="none", mew=1.3, **look)
            if letters in bounds:
                dash = [x - 0.35, x + 0.35]
                bound = [bounds[letters]] * 2
                ax.plot(dash, bound, **BOUND)
        ax.set(
            title=title,
            ylabel=label,
            xticks=range(len(scores)),
            xticklabels=list(scores),
            xlabel="layers, lower one named before",
        )
    first = axes[0, 0]
    first.plot([], [], ls="none", mfc="none", label="one kind", **one_kind)
    first.plot([], [], ls="none", mfc="none", label="mixed", **mixed)
    if any(panel[3] for panel in panels):
        first.plot([], [], "--", color="black", label="bound")
    fig.legend(loc="outside lower center", ncols=3, fontsize=9)
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
