"""Figures of the page on contextual mapping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import median

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Wedge
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, new
from attnlib.memorize import context_ids

INK = "#444444"
FAINT = "#D3D3D3"

STYLES = [
    ("o", "-", BLUE),
    ("s", "--", ORANGE),
    ("^", "-.", VERMILLION),
    ("D", ":", PURPLE),
    ("v", "-", GREEN),
]


def kept(betas: Sequence[float], runs: dict[str, Sequence], total: int) -> Figure:
    """Certified smallest gap, and the share of ids that each arithmetic keeps, over the
    factor beta; middle of several runs.
    """
    fig, (left, right) = new(1, 2, size=(6.0, 3.0))
    middle = {}
    for name, rows in runs.items():
        if name != "hardmax":
            middle[name] = [median(column) for column in zip(*rows)]
    exponents = [-v for v in middle.pop("log10_gap")]
    left.plot(betas, exponents, "o-", color=BLUE, ms=5)
    _exponents(left, [7, 10, 30, 100, 300, 1000])
    for (label, values), (mark, dash, color) in zip(middle.items(), STYLES):
        percent = [100 * v / total for v in values]
        right.plot(
            betas,
            percent,
            marker=mark,
            ls=dash,
            color=color,
            ms=5,
            label=label,
        )
    right.set(
        xscale="log",
        xlabel=r"factor $\beta$ of the logits",
        ylabel="ids kept (%)",
        ylim=(-3, 105),
    )
    right.minorticks_off()
    right.legend(fontsize=8)
    return fig


def _exponents(ax, exponents: Sequence[int]) -> None:
    """Gaps 10^-y on an axis that is logarithmic in y, small gaps below."""
    ax.set(
        xscale="log",
        yscale="log",
        xlabel=r"factor $\beta$ of the logits",
        ylabel="smallest gap",
        yticks=list(exponents),
    )
    ax.yaxis.set_major_formatter(lambda y, _: f"$10^{{-{y:g}}}$")
    ax.minorticks_off()
    ax.invert_yaxis()


def ids(
    z: Tensor,
    n: int,
    gaps: dict[float, float],
) -> tuple[list[Figure], list[str]]:
    """Frames for a slider: the context ids of every token in all n-sets, each token on
    its own line, at each factor beta.
    """
    frames = []
    labels = []
    rows = range(len(z))
    sets = torch.tensor(list(combinations(rows, n)))
    tokens = z[sets].unsqueeze(-1)
    direction = torch.ones_like(z[:1])
    low = float(z.min())
    high = float(z.max())
    margin = 0.1 * (high - low)
    count = math.comb(len(z) - 1, n - 1)
    for beta, gap in gaps.items():
        f = context_ids(tokens, direction, beta).context
        fig, ax = new(size=(6.0, 2.9))
        for row, token in enumerate(z.tolist()):
            values = f[sets == row].tolist()
            ax.plot(
                values,
                [row] * len(values),
                "|",
                color=(BLUE, VERMILLION)[row % 2],
                ms=16,
                mew=1.4,
            )
            ax.plot([token], [row], "o", color="black", ms=5, mfc="white")
        ax.set(
            xlim=(low - margin, high + margin),
            ylim=(-0.6, len(z) - 0.4),
            yticks=rows,
            yticklabels=[f"{v:.2g}" for v in z.tolist()],
            ylabel="place of the token",
            xlabel=f"its company, in each of its {count} sets",
        )
        least = f"smallest gap $10^{{{gap:.1f}}}$"
        if gap == -float("inf"):
            least = "gap 0"
        ax.set_title(rf"$\beta = {beta:g}$, {least}")
        frames.append(fig)
        labels.append(f"beta = {beta:g}")
    return frames, labels


def heads(several: dict[str, dict[str, Sequence[float]]]) -> Figure:
    """Median of the smallest gap over the number of sets, log-log, beside dashed lines
    of slope -2/H.
    """
    fig, ax = new(size=(6.0, 3.2))
    colors = (BLUE, ORANGE, VERMILLION, PURPLE, SKY)
    one_head = several["1 heads"]
    counts = [int(n) for n in one_head]
    fewest = counts[0]
    for (label, found), mark, color in zip(several.items(), "os^Dv", colors):
        ax.plot(
            counts,
            [median(v) for v in found.values()],
            mark,
            color=color,
            ms=6,
            label=label.replace("1 heads", "1 head"),
        )
    for h in (1, 2, 4):
        first = median(several[f"{h} heads"][str(fewest)])
        line = [first * (n / fewest) ** (-2 / h) for n in counts]
        ax.plot(counts, line, "k--", lw=1)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="number of sets $N$",
        ylabel="smallest gap (std units)",
        xticks=list(counts),
    )
    ax.xaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    ax.legend(fontsize=8, loc="lower left")
    return fig


# --- ideas: a line, a company, directions that fail, words in a dictionary


def bank() -> Figure:
    """Words in the plane fall onto a line; there the word bank finds another average
    beside river than beside money.
    """
    fig, (plane, line) = new(1, 2, size=(6.4, 3.1), width_ratios=[1, 1.25])
    words = {"river": (-1.1, 0.5), "bank": (0.05, 1.05), "money": (1.25, 0.75)}
    slope = -0.25
    u = torch.tensor([1.0, slope]) / math.hypot(1, slope)
    shift = torch.tensor([0.0, -0.45])
    ends = [shift - 1.75 * u, shift + 1.85 * u]
    plane.annotate(
        "", xy=ends[1], xytext=ends[0], arrowprops={"arrowstyle": "-|>", "color": INK}
    )
    for word, place in words.items():
        x = torch.tensor(place)
        foot = shift + ((x - shift) @ u) * u
        plane.plot(*zip(x, foot), ":", color=GREY, lw=1.2)
        plane.plot(*x, "o", color=BLUE, ms=7)
        plane.plot(*foot, "o", color=BLUE, ms=6, mfc="white")
        plane.text(x[0], x[1] + 0.13, word, ha="center")
    plane.text(0.1, -1.35, "a direction, and the\nplace of each word", ha="center")
    plane.set(xlim=(-1.9, 1.9), ylim=(-1.75, 1.6), aspect="equal")
    plane.axis("off")
    places = {"river": -1.2, "bank": 0.2, "money": 1.3}
    for row, other in ((1.0, "river"), (0.0, "money")):
        line.plot([-1.7, 1.7], [row, row], color=FAINT, lw=1, zorder=0)
        query = places["bank"]
        weights = torch.softmax(torch.tensor([query, places[other]]), 0)
        company = float(weights @ torch.tensor([query, places[other]]))
        for word, weight in zip(("bank", other), weights.tolist()):
            line.plot([places[word]], [row], "o", color=BLUE, ms=6 + 12 * weight)
            line.text(places[word], row + 0.2, word, ha="center")
        line.plot([company], [row], "D", color=VERMILLION, ms=8)
        line.plot([company, company], [row, row - 0.2], color=VERMILLION, lw=1)
        line.text(company, row - 0.35, "company of bank", color=VERMILLION, ha="center")
    line.set(xlim=(-1.8, 2.1), ylim=(-0.75, 1.6))
    line.axis("off")
    return fig


def directions(tokens: dict[str, tuple], level: float) -> Figure:
    """Tokens in the plane; and the circle of directions, with the sectors in which two
    of them, or one and zero, fall together.
    """
    fig, (plane, circle) = new(1, 2, size=(6.4, 3.2))
    both = [*tokens, "0"]
    points = torch.tensor([*tokens.values(), (0.0, 0.0)])
    plane.plot([0], [0], "+", color=INK, ms=10)
    plane.text(0.12, -0.35, "zero", color=INK)
    for name, (x, y) in tokens.items():
        plane.plot([x], [y], "o", color=BLUE, ms=8)
        plane.text(x + 0.14, y + 0.08, name)
    plane.text(0.4, -1.25, "three tokens", ha="center")
    plane.set(xlim=(-1.9, 2.4), ylim=(-1.5, 2.4), aspect="equal")
    plane.axis("off")
    circle.add_patch(Wedge((0, 0), 1, 0, 360, color=GREEN, alpha=0.18, lw=0))
    half = math.degrees(math.asin(level))
    for i, j in combinations(range(len(points)), 2):
        across = points[i] - points[j]
        angle = math.degrees(math.atan2(float(across[1]), float(across[0]))) + 90
        for turn in (0, 180):
            middle = angle + turn
            wedge = Wedge(
                (0, 0), 1, middle - half, middle + half, color=VERMILLION, lw=0
            )
            circle.add_patch(wedge)
        up = angle if 0 <= angle % 360 <= 180 else angle + 180
        place = 1.22 * torch.tensor(
            [math.cos(math.radians(up)), math.sin(math.radians(up))]
        )
        pair = f"{both[i]}, {both[j]}"
        circle.text(
            *place, pair, ha="center", va="center", fontsize=9, color=VERMILLION
        )
    circle.text(
        0,
        -1.45,
        "directions; in a vermillion sector\na pair falls together",
        ha="center",
    )
    circle.set(xlim=(-1.6, 1.6), ylim=(-1.55, 1.5), aspect="equal")
    circle.axis("off")
    return fig


def dictionary(words: Sequence[str], integers: dict[str, int]) -> Figure:
    """Words in the order of a dictionary; ringed are the letters where one differs
    first from the next; beside each word the sum of its integers.
    """
    fig, ax = new(size=(6.4, 3.0))
    for row, word in enumerate(words):
        y = -row
        for column, letter in enumerate(word):
            ax.text(column, y, letter, ha="center", va="center", fontsize=14)
        terms = [str(integers.get(letter, 0)) for letter in word]
        total = sum(integers.get(letter, 0) for letter in word)
        text = " + ".join(terms) + f" = {total}"
        ax.text(8.2, y, text, ha="right", va="center", fontsize=11, color=BLUE)
        if row + 1 < len(words):
            pairs = enumerate(zip(word, words[row + 1]))
            first = next(i for i, (a, b) in pairs if a != b)
            ax.plot([first], [y], "o", ms=21, mfc="none", color=VERMILLION, mew=1.8)
    ax.text(1, 0.85, "words, sorted", ha="center")
    ax.text(6.6, 0.85, "sum of the integers", ha="center", color=BLUE)
    given = ", ".join(f"{letter} = {k}" for letter, k in integers.items())
    ax.text(
        4,
        -len(words) - 0.15,
        f"ringed letters count: {given}",
        ha="center",
        color=VERMILLION,
    )
    ax.set(xlim=(-0.8, 8.8), ylim=(-len(words) - 0.6, 1.3))
    ax.axis("off")
    return fig
