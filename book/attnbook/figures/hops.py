"""Figures of the page on layers and steps."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, new

FAINT = "#D3D3D3"
INK = "#444444"


def _arc(ax, start: tuple, end: tuple, colour: str, *, bend=-0.5, lw=1.6, style="-"):
    """A bent arrow from one spot to another."""
    arrow = FancyArrowPatch(
        start,
        end,
        connectionstyle=f"arc3,rad={bend}",
        arrowstyle="-|>",
        mutation_scale=12,
        shrinkA=2,
        shrinkB=2,
    )
    arrow.set(lw=lw, color=colour, linestyle=style)
    ax.add_patch(arrow)


def _card(ax, x: int, name: str, pointer: str, *, face="white", edge=INK) -> None:
    """A token: its own name above, the name that it points to below."""
    ax.add_patch(Rectangle((x - 0.38, -0.55), 0.76, 1.1, fc=face, ec=edge, lw=1.4))
    ax.plot([x - 0.38, x + 0.38], [0, 0], color=edge, lw=0.8)
    ax.text(x, 0.27, name, ha="center", va="center", fontsize=12, weight="bold")
    ax.text(x, -0.28, pointer, ha="center", va="center", fontsize=11, color=INK)


def chain_of_cards(names: Sequence[str], pointers: Sequence[int], hops: int) -> Figure:
    """Tokens as cards with a name and a pointer, and the hops from the first card."""
    fig, ax = new(size=(6.0, 3.3))
    visited = [0]
    for _ in range(hops):
        visited.append(pointers[visited[-1]])
    for i, name in enumerate(names):
        face = {visited[0]: "#FFF1D6", visited[-1]: "#D8EFE6"}.get(i, "white")
        _card(ax, i, name, names[pointers[i]], face=face)
    for number, (here, there) in enumerate(zip(visited, visited[1:]), 1):
        above = number % 2 == 1
        y = 0.58 if above else -0.58
        bend = -0.45 if (there > here) == above else 0.45
        colour = BLUE if above else VERMILLION
        _arc(ax, (here, y), (there, y), colour, bend=bend, style="-" if above else "--")
        middle = (here + there) / 2
        height = 0.225 * abs(there - here) + 0.16
        spot = y + height if above else y - height
        ax.text(middle, spot, f"hop {number}", ha="center", va="center", fontsize=9)
    last = len(names) - 1
    ax.text(-0.55, 0.27, "name", ha="right", va="center", color=INK, fontsize=9)
    ax.text(-0.55, -0.28, "points to", ha="right", va="center", color=INK, fontsize=9)
    ax.set(xlim=(-1.75, last + 0.6), ylim=(-2.3, 2.35), aspect="equal")
    ax.axis("off")
    return fig


def doubling(k: int, layers: int) -> tuple[list[Figure], list[str]]:
    """Arrows of all tokens along their chain, twice as long after each layer; and the
    result of one token.

    Args:
        k: the hops of the result.
        layers: the last frame.

    Returns:
        (frames, labels) of a slider.
    """
    frames = []
    labels = []
    result = 1
    for done in range(layers + 1):
        before = result
        if done and (k - 1) >> (done - 1) & 1:
            result += 2 ** (done - 1)
        frames.append(_one_rung(k, done, before, result))
        word = {0: "at the start", 1: "after 1 layer"}.get(done, f"after {done} layers")
        labels.append(f"{word}: pointer {2**done}, result {result} ahead")
    return frames, labels


def _one_rung(k: int, done: int, before: int, result: int) -> Figure:
    fig, ax = new(size=(6.0, 3.5))
    reach = 2**done
    last = 9
    for i in range(last + 1):
        ax.plot(i, 0, "o", ms=15, mfc="white", mec=INK, zorder=3)
        ax.text(i, 0, str(i), ha="center", va="center", fontsize=9, zorder=4)
    for i in range(1, last + 1 - reach):
        _arc(ax, (i, 0.22), (i + reach, 0.22), FAINT, bend=-0.45, lw=1.2)
    _arc(ax, (0, 0.22), (reach, 0.22), BLUE, bend=-0.45, lw=2.6)
    top = 0.22 + 0.225 * reach
    words = f"pointer of token 0:\n{reach} ahead"
    ax.text(reach / 2, top + 0.12, words, ha="center", va="bottom", color=BLUE)
    _arc(ax, (0, -0.22), (result, -0.22), VERMILLION, bend=0.45, lw=2.6, style="--")
    if result > before:
        words = f"result of token 0: {before} + {result - before} = {result} ahead"
    elif done:
        words = f"result of token 0: stays at {result} ahead"
    else:
        words = f"result of token 0: {result} ahead"
    low = -0.22 - 0.225 * result
    ax.text(0.2, low - 0.45, words, ha="left", va="top", color=VERMILLION)
    goal = f"wanted:\n{k} ahead"
    ax.text(k + 0.4, -0.42, goal, ha="left", va="top", fontsize=9, color=GREEN)
    ax.plot(k, 0, "s", ms=20, mfc="none", mec=GREEN, mew=2, zorder=2)
    ax.set(xlim=(-0.6, last + 0.6), ylim=(-2.5, 3.0), aspect="equal")
    ax.axis("off")
    return fig


def ladder_or_walk(k: int = 6, tokens: int = 8) -> Figure:
    """Two ways to make k hops: few layers in which all tokens work, many steps in which
    one token works.
    """
    fig, (left, right) = new(1, 2, size=(6.0, 3.6))
    layers = (k - 1).bit_length()
    for ax, rows in ((left, layers), (right, k)):
        for row in range(rows):
            for i in range(tokens):
                busy = ax is left or i == row + 1
                face = (BLUE if ax is left else VERMILLION) if busy else "white"
                mark = "s" if ax is left else "o"
                edge = INK if busy else FAINT
                ax.plot(i, -row, mark, ms=10, mfc=face, mec=edge, mew=0.8)
        word = "layer" if ax is left else "step"
        for row in range(rows):
            place = (-0.75, -row)
            ax.text(*place, f"{word} {row + 1}", ha="right", va="center", fontsize=9)
        ax.set(xlim=(-3.1, tokens - 0.4), ylim=(-k - 0.9, 1.0))
        ax.axis("off")
    for row in range(k - 1):
        _arc(right, (row + 1.2, -row - 0.15), (row + 1.9, -row - 0.85), INK, bend=0)
    left.set_title(f"layers: {layers}, all tokens at once", fontsize=10)
    right.set_title(f"steps: {k}, one token each", fontsize=10)
    right.text(
        -0.4, -k + 0.25, "one pass a step,\nalways the same layer", ha="left", va="top"
    )
    left.text(
        2.3,
        -layers - 0.4,
        "one pass\nthrough the network",
        ha="center",
        va="top",
    )
    return fig


def third_hop() -> Figure:
    """One layer: the query knows what it asks first; which token of the tile counts is
    known outside the tile alone.
    """
    fig, ax = new(size=(6.0, 3.5))
    ax.add_patch(Rectangle((-0.2, 0.0), 3.0, 3.0, fc="#EAF4FA", ec=BLUE, lw=1.6))
    ax.text(1.3, 3.12, "the tile", ha="center", va="bottom", color=BLUE)
    rows = [("s", "?"), ("t", "?"), ("u", "?"), ("v", "?")]
    for row, (name, pointer) in enumerate(rows):
        y = 2.45 - 0.65 * row
        words = f"{name}  points to  {pointer}"
        box = {"boxstyle": "round,pad=0.3", "fc": "white", "ec": INK}
        ax.text(1.3, y, words, ha="center", va="center", fontsize=10, bbox=box)
    for word, y in (("q  points to  r", 2.45), ("r  points to  t", 1.15)):
        box = {"boxstyle": "round,pad=0.3", "fc": "#FFF1D6", "ec": ORANGE}
        ax.text(6.1, y, word, ha="center", va="center", fontsize=10, bbox=box)
    ax.text(6.1, 3.12, "the rest", ha="center", va="bottom", color=ORANGE)
    ax.text(
        6.35, 1.92, "hop 1:\nq holds it", ha="center", va="top", color=INK, fontsize=9
    )
    _arc(ax, (5.5, 2.15), (5.5, 1.45), ORANGE, bend=0)
    _arc(ax, (5.15, 1.15), (2.1, 1.78), ORANGE, bend=0.0, style="--")
    ax.text(
        3.95, 1.2, "hop 2:\nq reads r", ha="center", va="top", color=INK, fontsize=9
    )
    _arc(ax, (2.85, 2.62), (5.1, 2.62), BLUE, bend=0, lw=3)
    message = "all that q hears of it:\na few numbers"
    ax.text(3.97, 2.72, message, ha="center", va="bottom", color=BLUE, fontsize=9)
    ax.text(
        3.6,
        -0.2,
        "They are sent before q knows which token of the tile matters.\n"
        "So they must hold what all of its tokens say.",
        ha="center",
        va="top",
        color=VERMILLION,
    )
    ax.set(xlim=(-0.4, 7.6), ylim=(-1.2, 3.6))
    ax.axis("off")
    return fig


def from_both_sides() -> Figure:
    """Two look-ups, by a token's own name and by the name behind it."""
    fig, (top, low) = new(2, 1, size=(6.0, 4.2))
    for ax, found, title in (
        (top, 2, "by its own name: found 2 ahead, it points 2 further"),
        (low, 3, "by the name behind it: found 3 ahead, it points 2 further"),
    ):
        end = found + 2
        for i in range(7):
            ax.plot(i, 0, "o", ms=15, mfc="white", mec=INK, zorder=3)
            ax.text(i, 0, str(i), ha="center", va="center", fontsize=9, zorder=4)
        _arc(ax, (0, 0.2), (2, 0.2), BLUE, lw=2.2)
        _arc(ax, (found, 0.2), (end, 0.2), VERMILLION, lw=2.2, style="--")
        if found == 3:
            _arc(ax, (3, -0.2), (2, -0.2), PURPLE, bend=-0.5, lw=2.2, style=":")
            ax.text(
                2.5,
                -0.6,
                "3 also holds the name of 2",
                ha="center",
                va="top",
                color=PURPLE,
            )
        ax.plot(end, 0, "s", ms=21, mfc="none", mec=GREEN, mew=2, zorder=2)
        ax.text(end, -0.42, f"{end} ahead", ha="center", va="top", color=GREEN)
        ax.text(3, 1.05, title, ha="center", va="bottom", fontsize=10)
        ax.set(xlim=(-0.6, 6.6), ylim=(-1.15, 1.45), aspect="equal")
        ax.axis("off")
    return fig


def sharpness(
    beta: Sequence[float],
    ladder: Sequence[float],
    bound: Sequence[float],
    *,
    enough: float,
    harmless: float,
) -> Figure:
    """The largest error of a result against the inverse temperature, beside its bound.

    Args:
        beta: inverse temperatures.
        ladder: largest distance of a result from the right name.
        bound: what the theorem allows.
        enough: the beta that the theorem asks for.
        harmless: an error below this leaves the right name nearest.
    """
    fig, ax = new()
    ax.plot(beta, bound, "k--", label="bound of the theorem")
    ax.plot(beta, ladder, "o", color=BLUE, ms=5, label="measured, worst token")
    ax.axvline(enough, color=VERMILLION, ls="-.", lw=1.2, label="enough by the theorem")
    ax.axhline(harmless, color=GREY, ls=":", lw=1.2, label="the right name is nearest")
    ax.set(
        yscale="log",
        ylim=(1e-9, 30),
        xlabel=r"inverse temperature $\beta$",
        ylabel="largest error of a result",
    )
    ax.legend(fontsize=8, loc="lower left")
    return fig
