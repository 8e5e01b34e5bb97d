"""Figures of the page that reads one matrix in five ways."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, ORANGE, VERMILLION, new

FLOATS = {"bf16": (8, "right"), "fp32": (24, "center"), "fp64": (53, "left")}


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
    for ax, image, title in (
        (axes[0, 0], p, "the matrix $P$"),
        (axes[1, 0], pattern.double(), "3  its pattern"),
    ):
        ax.imshow(image.numpy(), cmap="cividis", vmin=0, vmax=1)
        ax.set(title=title, xlabel="token read", ylabel="token")
    axes[0, 1].bar(range(len(shares)), shares.tolist(), color=BLUE)
    axes[0, 1].set(
        title="1  paths",
        xlabel="length",
        ylabel="size / output",
        xticks=range(len(shares)),
    )
    r = range(len(floor))
    axes[0, 2].plot(r, errors.tolist(), "o", color=ORANGE, ms=3, label="SVD")
    axes[0, 2].plot(r, floor.tolist(), "k--", label="floor")
    axes[0, 2].axhline(float(errors[0]), color=GREEN, ls=":", label="zero")
    axes[0, 2].set(
        title="2  rank",
        xlabel="rank $r$",
        ylabel="error",
        ylim=(0, 2 * float(errors.max())),
    )
    axes[0, 2].legend(fontsize=8)
    axes[1, 1].plot(range(1, len(heard) + 1), heard, "s-", color=GREEN, ms=3)
    axes[1, 1].set(
        title="4  hops", xlabel="layer", ylabel="pairs reached", ylim=(0, 1.05)
    )
    axes[1, 2].plot(
        range(1, len(ids) + 1), ids.sort().values.tolist(), ".", color=VERMILLION, ms=4
    )
    axes[1, 2].set(title="5  ids", xlabel="context", ylabel="context id")
    return fig


def scale(
    r: Tensor,
    left: Tensor,
    groups: dict[str, tuple[Sequence[float], Sequence[float]]],
    needed: float,
) -> Figure:
    """What a layer must leave of the overlap of two rows, over the logit radius."""
    fig, ax = new(size=(6.0, 3.2))
    for (label, (x, y)), color, mark in zip(groups.items(), (BLUE, ORANGE), ("o", "s")):
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
    for number, (n, color, mark) in enumerate(
        zip(sizes, (BLUE, VERMILLION), ("o", "D"))
    ):
        shift = 0.15 * (1 - 2 * number)
        ax.plot(
            [v[number] for v in rows.values()],
            [y + shift for y in place.values()],
            mark,
            color=color,
            ms=6,
            label=f"asked, n = {n}",
        )
        kept = [(v[number], place[label] + shift) for label, v in floors.items()]
        ax.plot(
            *zip(*kept),
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
    ax.xaxis.set_major_formatter(
        lambda v, _: f"{v:,.0f}" if v < 1e4 else f"$10^{{{round(math.log10(v))}}}$"
    )
    ax.legend(fontsize=8, loc="lower center", ncols=3, bbox_to_anchor=(0.4, 1.08))
    return fig
