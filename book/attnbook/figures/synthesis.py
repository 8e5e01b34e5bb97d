"""Figures of the page that reads one matrix in five ways."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, new

INK = "#444444"
FAINT = "#D3D3D3"


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


# --- pictures of ideas


def questions() -> Figure:
    """One attention matrix in the middle, and the five questions that are put to it."""
    fig, ax = new(size=(6.0, 3.9))
    _small_matrix(ax, 2.3, 1.35)
    ax.text(2.95, 2.82, "one attention\nmatrix", ha="center", va="bottom", color=INK)
    asked = [
        ("collapse", "Repeat it.\nDo all tokens\nbecome alike?", (0.9, 3.3), BLUE),
        ("projection", "Replace it.\nIs a simpler\none as good?", (5.0, 3.3), ORANGE),
        ("patterns", "Prescribe it.\nCan softmax\nfollow?", (5.2, 1.5), GREEN),
        ("universality", "Thin it out, stack\nit. What is lost?", (4.3, 0.0), PURPLE),
        (
            "memorization",
            "Use it once.\nWhat can one\nlayer know?",
            (0.8, 0.6),
            VERMILLION,
        ),
    ]
    for name, words, (x, y), colour in asked:
        box = {"boxstyle": "round,pad=0.4", "fc": "white", "ec": colour, "lw": 1.6}
        ax.annotate(
            words,
            (2.95, 2.0),
            (x, y),
            ha="center",
            va="center",
            fontsize=10,
            bbox=box,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 1.4, "shrinkB": 42},
        )
        # below the last box, where no line runs
        above = 0.62 if name != "universality" else -0.62
        ax.text(x, y + above, name, ha="center", va="center", fontsize=9, color=INK)
    ax.set(xlim=(-0.3, 6.3), ylim=(-0.6, 4.3))
    ax.axis("off")
    return fig


def _small_matrix(ax, left: float, bottom: float) -> None:
    """Five tokens, each of which looks mostly at the one before it."""
    side = 0.26
    for i in range(5):
        for j in range(5):
            dark = 0.85 if j == max(i - 1, 0) else 0.12
            corner = (left + j * side, bottom + (4 - i) * side)
            ax.add_patch(Rectangle(corner, side, side, fc=INK, alpha=dark, ec="white"))


def kernel_vector(e: float = 0.8) -> Figure:
    """A vector that B cannot see, the row of P that looks at its largest entry, and
    what is left after all others have worked against it.
    """
    fig, axes = new(3, 1, size=(6.0, 4.3), sharex=True)
    columns = range(6)
    colours = [GREY] * 6
    colours[2] = VERMILLION
    vector = [-0.9, 0.6, 1, -0.8, 0, 0]
    rest = (1 - e) / 4
    row = [rest, rest, e, rest, rest, 0]
    axes[0].bar(columns, vector, color=colours, width=0.5)
    axes[0].set_title("B takes this vector to zero; largest entry: 1", loc="left")
    axes[0].set_ylim(-1.1, 1.15)
    axes[1].bar(columns, row, color=colours, width=0.5)
    axes[1].set_title("the row of P that looks at this entry", loc="left")
    axes[1].text(2.35, e / 2, f"weight {e:g}", va="center", fontsize=11)
    axes[1].set_ylim(0, 1)
    axes[2].bar([2, 3], [e, e - 1], color=[VERMILLION, GREY], width=0.5)
    axes[2].set_title("at worst, all other entries work against it", loc="left")
    axes[2].text(
        3.4,
        0.4,
        f"{e:g} - {1 - e:.1g} = {2 * e - 1:.1g} is left;\nB leaves 0",
        va="center",
        fontsize=11,
        color=VERMILLION,
    )
    axes[2].set_ylim(-0.3, 1)
    for ax in axes:
        ax.plot([-0.5, 5.5], [0, 0], color=INK, lw=0.8)
        ax.set_xlim(-0.5, 5.5)
        ax.axis("off")
    return fig


LAYERS = (0, 1, 3, 10, 30, 100, 400)


def two_halves(radii: Sequence[float] = (0.5, 1.5, 3.0)) -> tuple[list, list[str]]:
    """Frames over depth: two groups of tokens under three logit radii."""
    frames = [_halves_after(L, radii) for L in LAYERS]
    labels = [f"{L} layers" if L != 1 else "1 layer" for L in LAYERS]
    return frames, labels


def _halves_after(L: int, radii: Sequence[float]) -> Figure:
    fig, ax = new(size=(6.0, 3.2))
    for row, R in enumerate(radii):
        y = len(radii) - 1 - row
        left = math.tanh(R) ** L
        ax.plot([-1, 1], [y, y], color=FAINT, lw=1, zorder=1)
        for step in (-0.12, 0.0, 0.12):
            ax.plot([-left], [y + step - 0.03], "o", color=BLUE, ms=7, zorder=2)
            ax.plot([left], [y + step + 0.03], "s", color=ORANGE, ms=6, zorder=2)
        lasts = math.exp(2 * R)
        ax.text(
            -1.15, y, f"radius {R:g}\n$e^{{2R}}$ = {lasts:.0f}", ha="right", va="center"
        )
        ax.text(1.15, y, f"{_percent(left)} left", ha="left", va="center", color=INK)
    ax.set(xlim=(-1.85, 1.85), ylim=(-0.5, len(radii) - 0.2))
    ax.set_title(f"two halves of the tokens, after {L} layer{'s' if L != 1 else ''}")
    ax.axis("off")
    return fig


def _percent(share: float) -> str:
    """A share in words: a small one is not called zero, nor a large one everything."""
    if share < 0.005:
        return "under 0.5%"
    return f"{100 * share:.1f}%" if 0.99 < share < 1 else f"{100 * share:.0f}%"


def relay() -> Figure:
    """Three ways to connect six tokens: connections bought, layers paid."""
    fig, axes = new(1, 3, size=(6.0, 2.9))
    n = 6
    around = [math.pi / 2 - 2 * math.pi * i / n for i in range(n)]
    spots = [(math.cos(t), math.sin(t)) for t in around]
    hub = [*spots[1:], (0.0, 0.0)]
    every = [(i, j) for i in range(n) for j in range(i)]
    spokes = [(i, n - 1) for i in range(n - 1)]
    chain = [(i, i + 1) for i in range(n - 1)]
    drawn = (
        ("all read all", "36 connections", "1 layer", spots, every, BLUE),
        ("a star", "16 connections", "2 layers", hub, spokes, VERMILLION),
        ("neighbours", "16 connections", "5 layers", spots, chain, GREEN),
    )
    for ax, (title, cost, layers, places, edges, colour) in zip(axes, drawn):
        for i, j in edges:
            xs = [places[i][0], places[j][0]]
            ys = [places[i][1], places[j][1]]
            ax.plot(xs, ys, color=colour, lw=1.2, zorder=1)
        for x, y in places:
            ax.plot([x], [y], "o", color=INK, ms=9, zorder=2)
        ax.text(0, -1.35, f"{cost}\n{layers}", ha="center", va="top", fontsize=10)
        ax.set_title(title)
        ax.set(xlim=(-1.4, 1.4), ylim=(-2.2, 1.3), aspect="equal")
        ax.axis("off")
    return fig


def clusters(sets: Sequence[Sequence[int]], q: int = 4) -> Figure:
    """Readers, each of which reads some clusters; every cluster reads itself."""
    fig, ax = new(size=(6.0, 3.3))
    colours = (BLUE, ORANGE, GREEN, VERMILLION)
    for a in range(q):
        x = 1.6 * a
        for step in (-0.25, 0.0, 0.25):
            ax.plot([x + step], [0], "s", color=colours[a % 4], ms=9, zorder=3)
        ax.annotate(
            "",
            (x + 0.3, -0.15),
            (x - 0.3, -0.15),
            arrowprops={
                "arrowstyle": "->",
                "color": colours[a % 4],
                "connectionstyle": "arc3,rad=0.9",
                "lw": 1.4,
            },
        )
    for i, chosen in enumerate(sets):
        x = 1.6 * (q - 1) * (i + 0.5) / len(sets)
        for a in chosen:
            ax.plot([x, 1.6 * a], [1.5, 0.15], color=colours[a % 4], lw=1.1, zorder=1)
        ax.plot([x], [1.5], "o", color=INK, ms=10, zorder=3)
    middle = 0.8 * (q - 1)
    ax.text(middle, 1.75, "each reader reads a set of clusters", ha="center", color=INK)
    ax.text(middle, -0.85, "each cluster reads itself", ha="center", color=INK)
    ax.set(xlim=(-0.6, 1.6 * q - 1.0), ylim=(-1.1, 2.1))
    ax.axis("off")
    return fig
