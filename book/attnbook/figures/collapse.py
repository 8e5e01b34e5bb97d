"""Figures of the page on rank collapse."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, SKY, VERMILLION, new

INK = "#444444"
FAINT = "#BBBBBB"

# --- tokens in the plane


def hull(points: Tensor) -> list[tuple[float, float]]:
    """Corners of the smallest convex shape around points of the plane, in order."""
    ordered = sorted(set(map(tuple, points.tolist())))
    if len(ordered) < 3:
        return ordered
    return _half(ordered)[:-1] + _half(ordered[::-1])[:-1]


def _half(points: list[tuple]) -> list[tuple]:
    """One side of the hull: it turns left at each corner."""
    side = []
    for point in points:
        while len(side) > 1 and _turn(side[-2], side[-1], point) <= 0:
            side.pop()
        side.append(point)
    return side


def _turn(a: tuple, b: tuple, c: tuple) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def together(
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    distances: Sequence[float],
    allowed: Sequence[float],
) -> tuple[list[Figure], list[str]]:
    """Tokens in the plane, layer by layer: the shape that they span, whom one of them
    listens to, and the two singular values of X.

    Args:
        states: (n, 2) before each layer and after the last.
        weights: (n,) for each state, the row of P of token 0 in the next layer.
        distances: the diameter of each state.
        allowed: what the theorem allows it to be.

    Returns:
        (frames, labels) of a slider, one a state.
    """
    frames = []
    labels = []
    for l, x in enumerate(states):
        fig, (plane, bars) = new(1, 2, size=(6.0, 3.5), width_ratios=[2.3, 1])
        _plane(plane, states[0], x, weights[l])
        words = f"largest distance: {_digits(distances[l])}\nthe theorem allows "
        if l == 0:
            words += f"{_digits(allowed[1])} after layer 1"
        else:
            words += _digits(allowed[l])
        plane.text(0.02, -0.02, words, transform=plane.transAxes, va="top", color=INK)
        if distances[l] < 0.1:
            _enlarged(plane, x, distances[l])
        _singular_values(bars, x)
        frames.append(fig)
        labels.append("the input" if l == 0 else f"after layer {l}")
    return frames, labels


def _digits(value: float) -> str:
    if value >= 0.001:
        return f"{value:.2g}"
    power = math.floor(math.log10(value))
    return rf"${value / 10**power:.1f} \cdot 10^{{{power}}}$"


def _plane(ax, start: Tensor, x: Tensor, weights: Tensor) -> None:
    ax.add_patch(Polygon(hull(start), fill=False, ec=FAINT, ls=":", lw=1.4))
    ax.add_patch(Polygon(hull(x), fc=SKY, alpha=0.25, ec=BLUE, lw=1.2))
    mine = x[0].tolist()
    for (a, b), weight in zip(x.tolist(), weights.tolist()):
        ax.plot([mine[0], a], [mine[1], b], color=ORANGE, lw=14 * weight, alpha=0.55)
    aim = weights @ x
    ax.plot(*x[1:].T.tolist(), "o", color=BLUE, ms=6)
    ax.plot(*mine, "s", color=VERMILLION, ms=8)
    ax.plot(*aim.tolist(), "x", color="black", ms=8, mew=2, zorder=4)
    how = {"textcoords": "offset points", "ha": "right", "color": INK, "fontsize": 9}
    if (x[0] - aim).norm() > 0.15:
        ax.annotate("its average", aim.tolist(), (-3, 9), **how)
    ax.plot(0, 0, "+", color=GREY, ms=9)
    ax.annotate("origin", (0, 0), (5, -11), textcoords="offset points", color=GREY)
    room = 0.25
    low = start.amin(0) - room
    high = start.amax(0) + room
    ax.set(
        xlim=(float(low[0]), float(high[0])),
        ylim=(float(low[1]), float(high[1])),
        aspect="equal",
    )
    ax.axis("off")


def _enlarged(ax, x: Tensor, distance: float) -> None:
    """A small frame with the shape, enlarged by a round number."""
    power = math.floor(math.log10(2 / distance))
    lead = math.floor(2 / distance / 10**power)
    middle = (x.amin(0) + x.amax(0)) / 2
    seen = (x - middle) * lead * 10**power
    small = ax.inset_axes([0.1, 0.47, 0.36, 0.4])
    small.add_patch(Polygon(hull(seen), fc=SKY, alpha=0.25, ec=BLUE, lw=1.2))
    small.plot(*seen[1:].T.tolist(), "o", color=BLUE, ms=4)
    small.plot(*seen[0].tolist(), "s", color=VERMILLION, ms=6)
    small.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), xticks=[], yticks=[], aspect="equal")
    times = f"{lead * 10**power}" if power < 4 else rf"${lead} \cdot 10^{power}$"
    small.set_title(f"enlarged {times} times", fontsize=9, color=INK)
    for spine in small.spines.values():
        spine.set(visible=True, color=FAINT)


def _singular_values(ax, x: Tensor) -> None:
    """Both singular values of X as bars, on a logarithmic scale."""
    first, second = torch.linalg.svdvals(x).tolist()
    floor = 1e-9
    for place, value, colour in ((0, first, BLUE), (1, second, GREEN)):
        if value > 1e-14:
            height = max(value, 1.4 * floor)
            ax.bar(place, height, 0.6, bottom=floor, color=colour, alpha=0.8)
    ax.set(
        yscale="log",
        ylim=(floor, 30),
        xlim=(-0.6, 1.6),
        xticks=[0, 1],
        xticklabels=["first", "second"],
        yticks=[1, 1e-2, 1e-4, 1e-6, 1e-8],
        xlabel="singular value of $X$",
        ylabel="size",
    )


def fates(
    ways: dict[str, Sequence[Tensor]], shown: Sequence[int]
) -> tuple[list[Figure], list[str]]:
    """The same tokens in several kinds of network, layer by layer, with the diameter.

    Args:
        ways: name -> the (n, 2) states of the network, input first.
        shown: the layers that get a frame.

    Returns:
        (frames, labels) of a slider, one a layer.
    """
    frames = []
    labels = []
    for l in shown:
        fig, axes = new(2, math.ceil(len(ways) / 2), size=(6.0, 4.4))
        for ax, (name, states) in zip(axes.flat, ways.items()):
            _fate(ax, name, states[0], states[l])
        frames.append(fig)
        labels.append("the input" if l == 0 else f"after layer {l}")
    return frames, labels


def _fate(ax, name: str, start: Tensor, x: Tensor) -> None:
    ax.add_patch(Polygon(hull(start), fill=False, ec=FAINT, ls=":", lw=1.4))
    ax.add_patch(Polygon(hull(x), fc=SKY, alpha=0.25, ec=BLUE, lw=1.2))
    ax.plot(*x.T.tolist(), "o", color=BLUE, ms=5)
    ax.plot(0, 0, "+", color=GREY, ms=9)
    reach = 2.9
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.set(xticks=[], yticks=[])
    ax.set_title(name, fontsize=11)
    size = float(torch.cdist(x, x).max())
    words = f"diameter {_digits(size)}" if size > 1e-12 else r"diameter < $10^{-12}$"
    ax.text(0.04, 0.04, words, transform=ax.transAxes, color=INK, fontsize=9)
    for spine in ax.spines.values():
        spine.set(visible=True, color=FAINT)


# --- two rows of weights share almost everything


def shared_weights(p: Tensor, q: Tensor) -> Figure:
    """Two rows of P as bars: what they share, and the weight on which they differ.

    Args:
        p, q: (n,), two rows of weights.
    """
    fig, ax = new(size=(6.0, 3.0))
    places = range(1, len(p) + 1)
    common = torch.minimum(p, q)
    for row, shift, colour, hatch in (
        (p, -0.2, VERMILLION, "//"),
        (q, 0.2, BLUE, ".."),
    ):
        at = [place + shift for place in places]
        ax.bar(at, common.tolist(), 0.36, color="#D3D3D3")
        extra = (row - common).tolist()
        ax.bar(
            at,
            extra,
            0.36,
            bottom=common.tolist(),
            color=colour,
            alpha=0.8,
            hatch=hatch,
            ec="white",
        )
    moved = float((p - q).abs().sum()) / 2
    handles = [
        Rectangle((0, 0), 1, 1, fc="#D3D3D3", label=f"shared: {1 - moved:.2f}"),
        Rectangle(
            (0, 0),
            1,
            1,
            fc=VERMILLION,
            hatch="//",
            ec="white",
            label=f"vermillion token alone: {moved:.2f}",
        ),
        Rectangle(
            (0, 0),
            1,
            1,
            fc=BLUE,
            hatch="..",
            ec="white",
            label=f"blue token alone: {moved:.2f}",
        ),
    ]
    ax.legend(handles=handles, fontsize=9, loc="upper right")
    ax.set(
        xticks=list(places),
        xlabel="the token that is listened to",
        ylabel="weight",
        ylim=(0, 1.3 * float(torch.maximum(p, q).max())),
    )
    return fig


def two_on_a_line(halves: Sequence[float], fixed: Sequence[float]) -> Figure:
    """The two tokens of the toy by layer, on a logarithmic scale of their distance:
    attention that is computed anew, and attention that stays as in layer 1.
    """
    fig, ax = new(size=(6.0, 3.0))
    above = {"xytext": (0, 8), "ha": "center"}
    left = {"xytext": (-9, -5), "ha": "right"}
    for values, style, colour, words, place in (
        (halves, "o-", BLUE, "attention computed anew in each layer", left),
        (fixed, "s--", ORANGE, "attention of layer 1 in all layers", above),
    ):
        ax.plot(values, style, color=colour, label=words)
        first = 1 if place is above else 2  # the curves part after layer 1
        for l in range(first, len(values)):
            words = _digits(values[l])
            ax.annotate(words, (l, values[l]), textcoords="offset points", **place)
    ax.set(
        yscale="log",
        xticks=range(len(halves)),
        xlabel="layer $l$",
        ylabel="half distance $a$",
        xlim=(-0.15, len(halves) - 0.7),
        ylim=(min(halves) / 200, 100),
    )
    ax.legend(fontsize=9, loc="lower left")
    return fig


# --- measurements


def digits(measured: Tensor, bound: Tensor) -> Figure:
    """How many digits two tokens share at least, by layer, on a logarithmic scale:
    measured, and as the theorem certifies.

    Args:
        measured, bound: (L + 1,), ln of the diameter.
    """
    fig, ax = new(size=(6.0, 3.0))
    for values, style, colour, label in (
        (measured, "o-", BLUE, "measured"),
        (bound, "--", "black", "certified by (2.5)"),
    ):
        decades = (-values / math.log(10)).tolist()
        places = [l for l, v in enumerate(decades) if v > 0]
        kept = [v for v in decades if v > 0]
        ax.plot(places, kept, style, color=colour, label=label)
    ax.set(
        xlabel="layer $l$",
        ylabel=r"$-\log_{10}$ of the diameter",
        yscale="log",
        xticks=range(len(measured)),
    )
    ax.yaxis.set_major_formatter("{x:g}")
    ax.legend()
    return fig


def published(theirs: dict[str, dict], ours: dict[str, dict]) -> Figure:
    """The relative residual through the layers of three models, in four variants: as
    Dong et al. show it, initialised and pretrained, with random networks of ours.

    Args:
        theirs: model -> state ("initial", "pretrained") -> variant -> values.
        ours: model -> variant -> values of each seed.
    """
    looks = {
        "SAN": (VERMILLION, "o-"),
        "SAN + MLP": (ORANGE, "s--"),
        "SAN + skip": (SKY, "^-"),
        "transformer": (BLUE, "D--"),
    }
    fig, axes = new(2, 3, size=(6.0, 4.6), sharex=True, sharey=True)
    for row, (state, title) in zip(
        axes, {"initial": "initialised", "pretrained": "pretrained"}.items()
    ):
        for ax, (model, curves) in zip(row, theirs.items()):
            for variant, values in curves[state].items():
                color, style = looks[variant]
                ax.plot(values, style, color=color, ms=3.5, lw=1.2, label=variant)
            for seeds in ours[model].values() if state == "initial" else ():
                mean = torch.tensor(seeds).mean(0).tolist()
                ax.plot(mean, "k+", ms=6, label="ours, random")
            ax.set_title(f"{model}, {title}")
            ax.set(ylim=(-0.04, 1.08), xticks=(0, 4, 8, 12))
    for ax in axes.flat:
        ax.set(xlabel="layer", ylabel="relative residual")
    for ax in axes[0]:
        ax.xaxis.label.set_visible(False)
    for ax in axes[:, 1:].flat:
        ax.yaxis.label.set_visible(False)
    named = dict(zip(*axes[0, 0].get_legend_handles_labels()[::-1]))
    fig.legend(named.values(), named, loc="outside lower center", ncols=5, fontsize=8.5)
    return fig
