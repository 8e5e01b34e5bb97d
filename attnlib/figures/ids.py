"""Figures of the page on contextual mapping."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, new
from attnlib.memorize import context_ids

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
            ylabel="token $z_c$",
            xlabel="context id $f$",
        )
        least = f"smallest gap $10^{{{gap:.1f}}}$"
        if gap == -float("inf"):
            least = "gap 0"
        ax.set_title(rf"$\beta = {beta:g}$, {least}")
        frames.append(fig)
        labels.append(f"beta = {beta:g}")
    return frames, labels


def bound(
    gaps: dict[float, float],
    start: float,
    bounds: dict[float, float],
) -> Figure:
    """Certified smallest gap beside the guaranteed one, which begins at a least factor
    beta.
    """
    fig, ax = new(size=(6.0, 3.0))
    certified = [-v for v in gaps.values()]
    guaranteed = [-v for v in bounds.values()]
    ax.plot(list(gaps), certified, "o", color=BLUE, ms=5, label="certified")
    ax.plot(list(bounds), guaranteed, "k--", lw=1.2, label="guaranteed by (15.4)")
    ax.axvline(
        start, color="black", ls=":", lw=1, label=r"least $\beta$ of the theorem"
    )
    _exponents(ax, [2, 5, 10, 30, 100, 300])
    ax.legend(fontsize=9, loc="lower left")
    return fig


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
