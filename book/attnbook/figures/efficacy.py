"""Figures of the page `Which paths do the work`."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, SKY, VERMILLION, new
from attnbook.figures.paths import FAINT, INK
from attnlib.paths import path_counts

# --- all paths of one length, on the map of roads


def paths_by_length(
    L: int, h: int, word: str, said: Sequence[str]
) -> tuple[list[Figure], list[str]]:
    """The roads through L layers that the paths of each length take, and what they
    answer alone about the letters of a word.

    Args:
        L, h: layers and heads.
        word: letters to be sorted.
        said: what the paths of length 0, ..., L answer.

    Returns:
        (frames, labels) of a slider, one a length.
    """
    counts = path_counts([h] * L, skip=True)
    frames = []
    labels = []
    for k, answer in enumerate(said):
        number = "1 path" if counts[k] == 1 else f"{counts[k]} paths"
        go = "goes" if counts[k] == 1 else "go"
        heads = {0: "no head", 1: "1 head"}.get(k, f"{k} heads")
        fig, axes = new(2, 1, size=(6.0, 4.4), height_ratios=[1.5, 1])
        _lit_roads(axes[0], L, h, k)
        title = f"{number} of {sum(counts)} {go} through {heads}"
        axes[0].set_title(title, fontsize=12)
        _letters(axes[1], word, answer)
        frames.append(fig)
        labels.append(f"length {k}: {number}")
    return frames, labels


def _lit_roads(ax, L: int, h: int, k: int) -> None:
    """The map of roads; the wider a road, the more paths of length k take it."""
    ways = [*range(h), None]
    taken = Counter()
    number = 0
    for path in itertools.product(ways, repeat=L):
        if L - path.count(None) == k:
            number += 1
            taken.update(itertools.pairwise(_stops_of(path, h)))
    columns = [[(0, h / 2)]]
    for l in range(1, L + 1):
        columns.append([_stop(l, way, h) for way in ways])
    columns.append([(L + 1, h / 2)])
    for here, there in itertools.pairwise(columns):
        for road in itertools.product(here, there):
            xs, ys = zip(*road)
            ax.plot(xs, ys, color=FAINT, lw=1, zorder=1)
            if taken[road]:
                width = 1 + 11 * taken[road] / number
                ax.plot(xs, ys, color=VERMILLION, lw=width, alpha=0.75, zorder=2)
    busy = set(itertools.chain.from_iterable(taken))
    _box(ax, columns[0][0], "in", VERMILLION)
    _box(ax, columns[-1][0], "out", VERMILLION)
    for column in columns[1:-1]:
        for row, spot in enumerate(column, 1):
            name = "skip" if row > h else f"head {row}"
            _box(ax, spot, name, VERMILLION if spot in busy else GREY)
    for l in range(1, L + 1):
        ax.text(l, h + 0.62, f"layer {l}", ha="center", fontsize=9, color=INK)
    ax.set(xlim=(-0.4, L + 1.4), ylim=(-0.45, h + 0.9))
    ax.axis("off")


def _stop(l: int, way: int | None, h: int) -> tuple:
    """Where a head or the skip of layer l stands; the skip is below."""
    return (l, 0 if way is None else h - way)


def _stops_of(path: Sequence[int | None], h: int) -> list[tuple]:
    between = [_stop(l, way, h) for l, way in enumerate(path, 1)]
    return [(0, h / 2), *between, (len(path) + 1, h / 2)]


def _box(ax, spot, word: str, edge: str, **how) -> None:
    box = {"boxstyle": "round,pad=0.3", "fc": "white", "ec": edge, "lw": 1.3}
    how = {"fontsize": 8.5, "bbox": box} | how
    ax.text(*spot, word, ha="center", va="center", zorder=3, **how)


def _letters(ax, word: str, answer: str) -> None:
    """A word, what is answered, and the letters in order; wrong ones are struck out."""
    wanted = "".join(sorted(word))
    hits = sum(a == w for a, w in zip(answer, wanted))
    rows = {
        "the word": word,
        "these paths alone": answer,
        "in order": wanted,
    }
    for y, (name, letters) in zip((2, 1, 0), rows.items()):
        ax.text(-0.6, y, name, ha="right", va="center", fontsize=11, color=INK)
        for place, letter in enumerate(letters):
            if letters is not answer:
                ax.text(place, y, letter, ha="center", va="center", fontsize=12)
            elif letter == wanted[place]:
                face = {"boxstyle": "round,pad=0.25", "fc": "#CDEBDD", "ec": GREEN}
                _box(ax, (place, y), letter, GREEN, fontsize=12, bbox=face)
            else:
                face = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": GREY}
                _box(ax, (place, y), letter, GREY, fontsize=12, bbox=face)
                across = [place - 0.36, place + 0.36]
                rising = [y - 0.42, y + 0.42]
                ax.plot(across, rising, color=VERMILLION, lw=1, alpha=0.6, zorder=4)
    right = f"{hits} of {len(word)} right"
    ax.text(len(word) - 0.3, 1, right, va="center", fontsize=11, color=INK)
    ax.set(xlim=(-4.2, len(word) + 2.2), ylim=(-0.6, 2.6))
    ax.axis("off")


# --- wrong alone, right together


def wrong_alone(first: Sequence[int], second: Sequence[int]) -> Figure:
    """The scores of two lengths for three classes, each alone and piled up; class A is
    the right one.
    """
    fig, axes = new(1, 3, size=(6.0, 2.9), sharey=True)
    names = list("ABC")
    nothing = [0] * len(first)
    alone = [
        ("length 0 alone", first, nothing),
        ("length 1 alone", nothing, second),
        ("both together", first, second),
    ]
    for ax, (title, below, above) in zip(axes, alone):
        total = [a + b for a, b in zip(below, above)]
        best = total.index(max(total))
        ax.bar(names, below, color="#9CC7E2", ec=BLUE, hatch="//", width=0.6)
        ax.bar(names, above, bottom=below, color="#F7D998", ec=ORANGE, width=0.6)
        for place, score in enumerate(total):
            ax.text(place, score + 0.1, f"{score}", ha="center", fontsize=11)
        verdict = "right" if best == 0 else "wrong"
        colour = GREEN if best == 0 else VERMILLION
        ax.set_title(title, fontsize=11)
        ax.set_xlabel(f"says {names[best]}: {verdict}", color=colour, fontsize=12)
        ax.set(ylim=(0, 5), yticks=[])
        ax.spines["left"].set_visible(False)
    axes[0].set_ylabel("score")
    return fig


# --- the volume of all heads


def volume(
    frozen: Callable[[Tensor], Tensor],
    recomputed: Callable[[Tensor], Tensor],
    parts: Sequence[float],
    slope: float,
) -> Figure:
    """A token while all heads are turned up from silent to full volume; at full volume,
    what each length brings.

    Args:
        frozen, recomputed: volumes z -> where the token is.
        parts: what the lengths 0, 1 and 2 bring at z = 1.
        slope: with which the recomputed curve starts.
    """
    fig, ax = new(size=(6.0, 3.6))
    z = torch.linspace(0, 1, 61, dtype=torch.float64)
    straight = parts[0] + parts[1] * z
    dotted = parts[0] + slope * z
    ax.plot(z, frozen(z), color=BLUE, lw=2.6, label="frozen: kept from full volume")
    ax.plot(z, straight, color=BLUE, lw=1, ls=(0, (6, 3)))
    how = {"color": VERMILLION, "ls": ":", "lw": 2.6}
    ax.plot(z, recomputed(z), label="recomputed at each volume", **how)
    ax.plot(z, dotted, color=VERMILLION, lw=1, ls=(0, (1, 3)))
    ax.plot([1], [sum(parts)], "*", color=INK, ms=13, zorder=4)
    ax.plot([0], [parts[0]], "o", color=INK, zorder=4)
    bottom = parts[0]
    for k, colour in ((1, BLUE), (2, ORANGE)):
        top = bottom + parts[k]
        ax.plot([1.06, 1.06], [bottom, top], color=colour, lw=7, solid_capstyle="butt")
        middle = (bottom + top) / 2
        ax.text(1.1, middle, f"length {k}", va="center", fontsize=10.5, color=INK)
        bottom = top
    ax.text(0.97, sum(parts) + 0.03, "the network", ha="right", fontsize=10.5)
    ax.text(0.03, parts[0] - 0.07, "all heads silent: length 0", fontsize=10.5)
    ax.text(0.4, 1.16, "thin: straight on from the start", fontsize=10.5)
    ax.set(
        xlim=(-0.04, 1.32),
        ylim=(0.88, 2.5),
        xticks=[0, 0.5, 1],
        xlabel="volume $z$ of all heads",
        ylabel="the first token",
    )
    ax.legend(loc="upper left", fontsize=10)
    return fig


# --- measurements


def by_length(tasks: dict[str, dict]) -> Figure:
    """Accuracy of the paths of each length alone, a panel a task, with the whole
    network and a blind guess.
    """
    fig, axes = new(1, len(tasks), size=(6.0, 2.7), sharey=True)
    for ax, (title, found) in zip(axes, tasks.items()):
        alone = torch.as_tensor(found["length"])
        mean = alone.mean(0).tolist()
        whole = float(torch.as_tensor(found["whole"]).mean())
        k = range(len(mean))
        for row in alone.tolist():
            ax.plot(k, row, "o", color=BLUE, ms=3, alpha=0.6)
        ax.plot(k, mean, "-", color=BLUE, label="one length alone")
        ax.axhline(whole, color="black", ls="--", label="whole network")
        ax.axhline(found["guess"], color=VERMILLION, ls=":", label="blind guess")
        ax.set(
            title=title,
            xlabel="length $k$",
            ylim=(0, 1.05),
            xticks=k,
        )
    axes[0].set_ylabel("accuracy")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
    return fig


def weights(counts: Sequence[int], measured: Tensor, bound: Tensor) -> Figure:
    """How many paths each length has, how much they weigh together, and the bound."""
    fig, ax = new(size=(6.0, 3.2))
    k = range(len(counts))
    ax.bar(k, counts, color="#DDDDDD", width=0.62, label="number of paths")
    ax.plot(k, bound.tolist(), "--", color="black", label="bound (5.6)")
    ax.plot(k, measured.tolist(), "o-", color=VERMILLION, label="size of their sum")
    ax.set(xlabel="length $k$", ylabel=r"$\|S_k\| \,/\, \|X\|$, or number")
    ax.set(yscale="log", ylim=(0.005, 100000), xticks=list(k))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.legend(fontsize=9.5, loc="upper left", ncols=3)
    return fig


def circle(loops: dict[str, dict], radius: float = 0.3) -> Figure:
    """The ways of two tokens that one layer moves in a loop, a column a variant, a row
    a start.
    """
    starts = list(next(iter(loops.values())))
    rows = len(starts)
    height = 2.3 * rows
    fig, axes = new(rows, len(loops), size=(6.0, height), squeeze=False)
    turn = torch.linspace(0, 6.3, 90)
    across = (radius * turn.cos()).tolist()
    up = (radius * turn.sin()).tolist()
    for column, (variant, found) in enumerate(loops.items()):
        for row, start in enumerate(starts):
            ax = axes[row, column]
            ax.plot(across, up, "--", color="black", lw=0.8)
            # The second way is thinner, so that the first one shows below it.
            first, second = torch.tensor(found[start]).split(2, dim=1)
            _way(ax, first, "o", color=BLUE, lw=2.4, ms=8)
            _way(ax, second, "s", color=ORANGE, lw=1.0, ms=4)
            ax.set(
                xlim=(-0.42, 0.42),
                ylim=(-0.42, 0.42),
                aspect="equal",
                xticks=[],
                yticks=[],
            )
            away = (first - second).norm(dim=1)
            ax.set_xlabel(f"{100 * away[-1] / away[0]:.0f}% left")
            if row == 0:
                ax.set_title(variant)
            if column == 0:
                ax.set_ylabel(f"start: {start}")
    return fig


def _way(
    ax,
    way: Tensor,
    mark: str,
    *,
    color: str,
    lw: float,
    ms: float,
) -> None:
    """The way of a token: a white mark at its start, a full one at its end."""
    x, y = way.mT.tolist()
    ax.plot(x, y, "-", color=color, lw=lw)
    x, y = way[0].tolist()
    ax.plot(x, y, mark, color=color, ms=7, mfc="white")
    x, y = way[-1].tolist()
    ax.plot(x, y, mark, color=color, ms=ms)


def published(theirs: dict[str, dict], ours: dict[str, dict]) -> Figure:
    """Accuracy of paths of one length, a panel a task: 20 random ones in the networks
    of Dong et al., 20 random ones and all of them in ours.

    Args:
        theirs: task -> whole, chance, "20 paths".
        ours: task -> "20 paths", "all paths".
    """
    fig, axes = new(1, len(theirs), size=(6.0, 2.9), sharey=True)
    for ax, (title, found) in zip(axes, theirs.items()):
        k = range(len(found["20 paths"]))
        ax.plot(k, found["20 paths"], "s-", color=VERMILLION, label="theirs, 20 paths")
        mine = ours[title]
        ax.plot(k, mine["20 paths"], "^--", color=SKY, label="ours, 20 paths, rerun")
        ax.plot(k, mine["all paths"], "o-", color=BLUE, label="ours, all, frozen")
        ax.axhline(found["whole"], color=VERMILLION, ls="--", lw=1)
        ax.axhline(found["chance"], color=GREY, ls=":", lw=1)
        ax.set(title=title, xlabel="length $k$", ylim=(0, 1.05), xticks=k)
    axes[0].set_ylabel("accuracy")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8.5)
    return fig
