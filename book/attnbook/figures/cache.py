"""Figures of the page `The KV cache`."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, new

FAINT = "#D3D3D3"
INK = "#444444"


# --- a text, what is kept of it, and a question


def state() -> Figure:
    """A text goes into a box, the state; a later question sees only the box."""
    fig, ax = new(size=(6.0, 2.9))
    words = ["the", "cup", "is", "red", "the", "box", "is", "old"]
    for i, word in enumerate(words):
        x = 0.3 + 0.95 * (i % 4)
        y = 2.35 if i < 4 else 1.65
        _card(ax, x, y, 0.85, 0.5, word, GREY)
    ax.text(2.15, 3.1, "the text, once read", ha="center", color=INK)
    _arrow(ax, (4.2, 2.2), (4.95, 2.2), INK)
    ax.add_patch(
        FancyBboxPatch(
            (5.05, 1.5), 1.75, 1.4, boxstyle="round,pad=0.05", fc=BLUE, alpha=0.2
        )
    )
    ax.add_patch(
        FancyBboxPatch(
            (5.05, 1.5), 1.75, 1.4, boxstyle="round,pad=0.05", fill=False, ec=BLUE, lw=2
        )
    )
    ax.text(
        5.92, 2.2, "the state:\nall that\nis kept", ha="center", va="center", fontsize=9
    )
    ax.plot([7.15, 7.15], [0.2, 3.3], ":", color=GREY, lw=1.4)
    ax.text(7.05, 0.35, "earlier", ha="right", color=INK, fontsize=9)
    ax.text(7.25, 0.35, "later", ha="left", color=INK, fontsize=9)
    _card(ax, 7.9, 2.2, 1.9, 0.95, "which\ncolour?", VERMILLION)
    _arrow(ax, (7.8, 2.7), (6.95, 2.5), VERMILLION)
    _arrow(ax, (6.95, 1.85), (7.8, 1.5), GREEN)
    _card(ax, 7.9, 1.15, 1.9, 0.62, "red", GREEN)
    ax.text(8.85, 3.27, "a question", ha="center", color=VERMILLION)
    ax.text(8.85, 0.72, "the answer", ha="center", color=GREEN)
    ax.set(xlim=(0.1, 10.2), ylim=(0.2, 3.6))
    ax.axis("off")
    return fig


def _card(ax, x: float, y: float, wide: float, high: float, word: str, color) -> None:
    ax.add_patch(
        Rectangle((x, y), wide, high, fc="white", ec=color, lw=1.4, joinstyle="round")
    )
    ax.text(x + wide / 2, y + high / 2, word, ha="center", va="center", color=INK)


def _arrow(ax, start: tuple, end: tuple, color: str) -> None:
    how = {"arrowstyle": "-|>", "color": color, "lw": 1.8}
    ax.annotate("", xy=end, xytext=start, arrowprops=how)


# --- lists in drawers


def drawers(bits: Sequence[int]) -> tuple[list[Figure], list[str]]:
    """The 16 lists of four values in fewer and fewer drawers.

    Args:
        bits: of the state, at most 4, a frame each.

    Returns:
        (frames, labels) of a slider.
    """
    frames = []
    labels = []
    for b in bits:
        frames.append(_chest(b))
        number = 2**b
        word = "bit" if b == 1 else "bits"
        labels.append(f"{b} {word}: {number} drawers for 16 lists")
    return frames, labels


def _chest(bits: int) -> Figure:
    """One frame: the drawers of so many bits, and what is in the first of them."""
    fig, ax = new(size=(6.0, 3.4))
    number = 2**bits
    each = 16 // number
    across = {16: 4, 8: 4, 4: 4, 2: 2}[number]
    down = number // across
    wide = 8 / across
    high = 4.4 / down
    for drawer in range(number):
        x = wide * (drawer % across)
        y = 4.4 - high * (drawer // across + 1)
        shared = drawer == 0 and each > 1
        color = VERMILLION if shared else GREY
        ax.add_patch(
            Rectangle(
                (x + 0.06, y + 0.06),
                wide - 0.12,
                high - 0.12,
                fc="white",
                ec=color,
                lw=2.4 if shared else 1.2,
            )
        )
        lists = range(each * drawer, each * (drawer + 1))
        _fill(ax, x, y, wide, high, lists, shared)
    if each == 1:
        said, color = "every list has a drawer of its own", INK
    else:
        said = f"vermillion: {each} lists, one drawer; one answer where they differ"
        color = VERMILLION
    ax.text(4, 4.75, said, ha="center", color=color)
    ax.text(4, -0.45, "a row of four squares is a list:", ha="right", color=INK)
    for x, value, word in ((4.25, 1, "is $+1$"), (5.75, 0, "is $-1$")):
        _square(ax, x, -0.5, 0.26, value)
        ax.text(x + 0.4, -0.45, word, color=INK)
    ax.set(xlim=(-0.05, 8.05), ylim=(-0.7, 5.1))
    ax.axis("off")
    return fig


def _fill(
    ax, x: float, y: float, wide: float, high: float, lists: range, ring: bool
) -> None:
    """The lists of one drawer, one below the other, in one or two columns; with ring,
    the places in which they differ are marked.
    """
    columns = 2 if len(lists) > 4 or (len(lists) == 4 and high < 2) else 1
    rows = -(-len(lists) // columns)
    side = 0.26
    apart = lists[0] ^ lists[-1]  # the places in which lists of the drawer differ
    for number, one in enumerate(lists):
        column = number // rows
        row = number % rows
        centre = x + wide * (2 * column + 1) / (2 * columns)
        top = y + high * (1 - (2 * row + 1) / (2 * rows))
        for place in range(4):
            value = (one >> (3 - place)) % 2
            asked = ring and (apart >> (3 - place)) % 2 == 1
            left = centre + (place - 2) * (side + 0.06)
            _square(ax, left, top - side / 2, side, value, asked)


def _square(
    ax, x: float, y: float, side: float, value: int, asked: bool = False
) -> None:
    face = BLUE if value else "white"
    edge = VERMILLION if asked else BLUE
    wide = 2.6 if asked else 1.2
    ax.add_patch(Rectangle((x, y), side, side, fc=face, ec=edge, lw=wide))


# --- why the others cannot hide a difference


def tug(e: float) -> Figure:
    """The token that is asked about pulls two answers apart; all others pull back, and
    cannot pull as hard.
    """
    fig, ax = new(size=(6.0, 2.9))
    bars = [
        (2.0, 0.0, e, BLUE, "", f"the token asked about\npulls them apart: {e:.2f}"),
        (
            1.0,
            2 * e - 1,
            1 - e,
            ORANGE,
            "///",
            f"all others pull back,\nat most: {1 - e:.2f}",
        ),
        (0.0, 0.0, 2 * e - 1, GREEN, "..", f"left in any case:\n{2 * e - 1:.2f}"),
    ]
    for y, left, wide, color, hatch, words in bars:
        ax.add_patch(
            Rectangle(
                (left, y),
                wide,
                0.6,
                fc=color,
                alpha=0.55,
                ec=color,
                hatch=hatch,
                lw=1.5,
            )
        )
        ax.text(-0.03, y + 0.3, words, ha="right", va="center", color=INK)
    _arrow(ax, (0.05, 2.3), (e, 2.3), INK)
    _arrow(ax, (e, 1.3), (2 * e - 1, 1.3), INK)
    for x, low, top in ((e, 1.0, 2.6), (2 * e - 1, 0.0, 1.6), (0, -0.2, 2.8)):
        ax.plot([x, x], [low, top], ":", color=INK, lw=1)
    ax.text(0.2, 2.95, "two lists, one question: how far apart?", ha="center")
    ax.set(xlim=(-0.62, 1.0), ylim=(-0.25, 3.3))
    ax.axis("off")
    return fig


# --- how often the tokens of a text are read sharply


def reading(
    lengths: Sequence[float],
    shares: dict[str, Sequence[float]],
    promised: float,
    silent: float,
) -> Figure:
    """The share of tokens that some question gives more than half of its weight, over
    the length of the questions, beside what is promised and what is excluded.
    """
    fig, ax = new(size=(6.0, 3.2))
    marks = zip((BLUE, ORANGE, PURPLE), "os^")
    for (label, share), (color, mark) in zip(shares.items(), marks):
        ax.plot(lengths, share, mark + "-", color=color, label=label, ms=5, lw=1)
    ax.axvline(promised, color="black", ls="--", lw=1.2)
    ax.axvline(silent, color="black", ls=":", lw=1.2)
    for x, words in (
        (silent, "none up to here"),
        (promised, "all from here on, $E_8$"),
    ):
        ax.text(x + 0.15, 0.06, words, rotation=90, color=INK, va="bottom")
    ax.set(
        xlabel="length $s$ of the questions",
        ylabel="share of tokens read sharply",
        ylim=(-0.04, 1.06),
    )
    ax.legend(fontsize=9, loc="center right", bbox_to_anchor=(1.0, 0.45))
    return fig


# --- ways to keep less


def ways() -> Figure:
    """What six states keep of eight tokens and four heads: the filled cells."""
    fig, axes = new(2, 3, size=(6.0, 4.3))
    panels = [
        ("the whole cache", "any token, by any head", _whole),
        ("groups (GQA)", "any token, by fewer keys", _groups),
        ("a latent (MLA)", "any token, values tied", _latent),
        ("a window", "the last three tokens", _window),
        ("sums", "as many tokens as numbers", _sum),
        ("the text itself", "any token, read once more", _text),
    ]
    for ax, (name, words, draw) in zip(axes.flat, panels):
        for token in range(8):
            for head in range(4):
                ax.add_patch(Rectangle((token, head), 0.9, 0.9, fc="#F0F0F0"))
        draw(ax)
        ax.set_title(name, fontsize=11)
        ax.text(4, -0.35, words, ha="center", va="top", fontsize=10, color=INK)
        ax.set(xlim=(-0.9, 8.9), ylim=(-1.5, 4.2))
        ax.axis("off")
    return fig


def _whole(ax) -> None:
    for token in range(8):
        for head in range(4):
            ax.add_patch(Rectangle((token, head), 0.9, 0.9, fc=BLUE))


def _groups(ax) -> None:
    for token in range(8):
        for group in range(2):
            ax.add_patch(Rectangle((token, 2 * group + 0.55), 0.9, 0.9, fc=BLUE))


def _latent(ax) -> None:
    for token in range(8):
        ax.add_patch(Rectangle((token, 0.9), 0.9, 2.1, fc=GREEN, hatch="///"))


def _window(ax) -> None:
    for token in range(5, 8):
        for head in range(4):
            ax.add_patch(Rectangle((token, head), 0.9, 0.9, fc=BLUE))


def _sum(ax) -> None:
    for head in range(4):
        ax.add_patch(Rectangle((7, head), 0.9, 0.9, fc=VERMILLION, hatch=".."))
        ax.plot([0.4, 6.6], [head + 0.45] * 2, color=VERMILLION, lw=1.2)


def _text(ax) -> None:
    for token in range(8):
        ax.add_patch(Rectangle((token, 1.8), 0.9, 0.25, fc=INK))
