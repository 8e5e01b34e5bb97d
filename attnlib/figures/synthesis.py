"""Figures of the page that reads one matrix in five ways."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, ORANGE, VERMILLION, new

FLOATS = {  # bits of the significand, and to which side the name stands
    "bf16": (8, "right"),
    "fp32": (24, "center"),
    "fp64": (53, "left"),
}


def five(
    p: Tensor,
    shares: Tensor,
    errors: Tensor,
    floor: Tensor,
    pattern: Tensor,
    heard: Sequence[float],
    ids: Tensor,
) -> Figure:
    """One attention matrix, and what five theorems see of it."""
    fig, axes = new(2, 3, size=(6.0, 4.2))
    matrix, paths, ranks = axes[0]
    where, hops, contexts = axes[1]

    matrix.imshow(p.numpy(), cmap="cividis", vmin=0, vmax=1)
    matrix.set(title="the matrix $P$", xlabel="token read", ylabel="token")

    lengths = range(len(shares))
    paths.bar(lengths, shares.tolist(), color=BLUE)
    paths.set(
        title="1  paths",
        xlabel="length",
        ylabel="size / output",
        xticks=lengths,
    )

    zero = float(errors[0])
    ranks.plot(errors.tolist(), "o", color=ORANGE, ms=3, label="SVD")
    ranks.plot(floor.tolist(), "k--", label="floor")
    ranks.axhline(zero, color=GREEN, ls=":", label="zero")
    ranks.set(
        title="2  rank",
        xlabel="rank $r$",
        ylabel="error",
        ylim=(0, 2 * float(errors.max())),
    )
    ranks.legend(fontsize=8)

    where.imshow(pattern.double().numpy(), cmap="cividis", vmin=0, vmax=1)
    where.set(title="3  its pattern", xlabel="token read", ylabel="token")

    layers = range(1, len(heard) + 1)
    hops.plot(layers, heard, "s-", color=GREEN, ms=3)
    hops.set(
        title="4  hops",
        xlabel="layer",
        ylabel="pairs reached",
        ylim=(0, 1.05),
    )

    places = range(1, len(ids) + 1)
    ordered = ids.sort().values.tolist()
    contexts.plot(places, ordered, ".", color=VERMILLION, ms=4)
    contexts.set(title="5  ids", xlabel="context", ylabel="context id")
    return fig


def scale(
    r: Tensor,
    left: Tensor,
    groups: dict[str, tuple[Sequence[float], Sequence[float]]],
    needed: float,
) -> Figure:
    """What a layer must leave of the overlap of two rows, over the logit radius."""
    fig, ax = new(size=(6.0, 3.2))
    for label, color, mark in zip(groups, (BLUE, ORANGE), "os"):
        x, y = groups[label]
        ax.plot(x, y, mark, color=color, ms=5, label=label)
    ax.plot(r.tolist(), left.tolist(), "k--", label=r"at least $1 - \tanh R$")
    ax.axvline(needed, color=GREEN, ls=":", label="a row can be sharp")
    ax.set(
        xlabel="logit radius $R$",
        ylabel=r"overlap $1 - \tau(P)$",
        yscale="log",
        ylim=(1e-9, 2),
    )
    ax.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def bits(
    rows: dict[str, Sequence[float]],
    floors: dict[str, Sequence[float]],
    sizes: Sequence[int],
) -> Figure:
    """How many bits each theorem asks for, beside what counting shows to be needed and
    what floats have.
    """
    fig, ax = new(size=(6.0, 3.4))
    place = {label: -i for i, label in enumerate(rows)}
    looks = ((BLUE, "o", 0.15), (VERMILLION, "D", -0.15))  # one above, one below
    for number, (n, look) in enumerate(zip(sizes, looks)):
        color, mark, shift = look
        asked = [row[number] for row in rows.values()]
        places = [y + shift for y in place.values()]
        ax.plot(asked, places, mark, color=color, ms=6, label=f"asked, n = {n}")
        counted = [floor[number] for floor in floors.values()]
        places = [place[label] + shift for label in floors]
        ax.plot(
            counted,
            places,
            "|",
            color="black",
            ms=9,
            label="counting" if number == 0 else None,
        )
    for name, (digits, side) in FLOATS.items():
        ax.axvline(digits, color="black", ls=":", lw=0.8)
        ax.text(digits, 0.6, name, fontsize=8, ha=side, va="bottom")
    ax.set(
        xlabel="bits",
        ylabel="what is asked",
        xscale="log",
        yticks=list(place.values()),
        yticklabels=list(rows),
        ylim=(min(place.values()) - 0.6, 0.6),
    )
    ax.xaxis.set_major_formatter(_words)
    ax.legend(fontsize=8, loc="lower center", ncols=3, bbox_to_anchor=(0.4, 1.08))
    return fig


def _words(bits: float, _) -> str:
    """A number of bits, in powers of ten from ten thousand on."""
    if bits < 1e4:
        return f"{bits:,.0f}"
    return f"$10^{{{round(math.log10(bits))}}}$"
