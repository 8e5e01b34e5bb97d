"""Figures of the page on contextual mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from torch import Tensor

from attnlib.figures import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, new

STYLES = [("o", "-", BLUE), ("s", "--", ORANGE), ("^", "-.", VERMILLION), ("D", ":", PURPLE), ("v", "-", GREEN)]


def temperature(betas: Sequence[float], gaps: Sequence[float], shares: Mapping[str, Sequence[float]]) -> Figure:
    """Certified smallest gap, and the share of ids that each arithmetic keeps, over the temperature.

    Args:    betas: factors of the logits.   gaps: log10 of the gap.   shares: label -> kept share, in percent.
    Returns: a Figure.
    Cost:    about 300 ms.
    Page:    notebooks/one_layer_memorization/contextual_mapping
    """
    fig, (left, right) = new(1, 2, size=(6.0, 3.0))
    left.plot(betas, gaps, "o-", color=BLUE, ms=5)
    left.set(xscale="log", xlabel=r"factor $\beta$ of the logits", ylabel=r"$\log_{10}$ of the smallest gap", yscale="symlog", yticks=[-10, -30, -100, -300, -1000])
    left.yaxis.set_major_formatter("{x:g}")
    left.minorticks_off()
    for (label, values), (mark, dash, color) in zip(shares.items(), STYLES):
        right.plot(betas, values, marker=mark, ls=dash, color=color, ms=5, label=label)
    right.set(xscale="log", xlabel=r"factor $\beta$ of the logits", ylabel="ids kept (%)", ylim=(-3, 105))
    right.minorticks_off()
    right.legend(fontsize=8)
    return fig


def ids(z: Tensor, contexts: Mapping[float, Tensor], gaps: Sequence[float]) -> tuple[list[Figure], list[str]]:
    """Frames for a slider: every context id of every token on its own line, at each temperature.

    Args:    z: (K,), tokens.   contexts: beta -> (K, m), ids of each token in the m sets that hold it.   gaps: log10, by frame.
    Returns: (frames, labels).
    Cost:    about 100 ms a frame.
    Page:    notebooks/one_layer_memorization/contextual_mapping
    """
    frames, labels = [], []
    for (beta, f), gap in zip(contexts.items(), gaps):
        fig, ax = new(size=(6.0, 2.9))
        for row, (token, values) in enumerate(zip(z.tolist(), f.tolist())):
            ax.plot(values, [row] * len(values), "|", color=(BLUE, VERMILLION)[row % 2], ms=16, mew=1.4)
            ax.plot([token], [row], "o", color="black", ms=5, mfc="white")
        low, high = float(z.min()), float(z.max())
        ax.set(yticks=range(len(z)), yticklabels=[f"{v:.2g}" for v in z.tolist()], ylabel="token $z_c$", xlabel="context id $f$")
        ax.set(xlim=(low - 0.1 * (high - low), high + 0.1 * (high - low)), ylim=(-0.6, len(z) - 0.4))
        least = "gap 0" if gap == -float("inf") else f"smallest gap $10^{{{gap:.1f}}}$"
        ax.set_title(rf"$\beta = {beta:g}$, {least}")
        frames.append(fig)
        labels.append(f"beta = {beta:g}")
    return frames, labels


def bound(betas: Sequence[float], gaps: Sequence[float], start: float, bounds: Sequence[float]) -> Figure:
    """Certified smallest gap beside the guaranteed one, which begins at a least temperature.

    Args:    betas: factors of the logits.   gaps: log10, certified.   start: least beta of the theorem.
             bounds: log10 of the guarantee, at those betas that are at least start.
    Returns: a Figure.
    Cost:    about 200 ms.
    Page:    notebooks/one_layer_memorization/contextual_mapping
    """
    fig, ax = new(size=(6.0, 3.0))
    ax.plot(betas, gaps, "o", color=BLUE, ms=5, label="certified")
    ax.plot([b for b in betas if b >= start], bounds, "k--", lw=1.2, label="guaranteed by (15.4)")
    ax.axvline(start, color="black", ls=":", lw=1, label=r"least $\beta$ of the theorem")
    ax.set(xscale="log", yscale="symlog", xlabel=r"factor $\beta$ of the logits", ylabel=r"$\log_{10}$ of the smallest gap", yticks=[0, -3, -10, -30, -100, -300])
    ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    ax.legend(fontsize=9)
    return fig


def heads(counts: Sequence[int], gaps: Mapping[str, Sequence[float]], numbers: Mapping[str, int]) -> Figure:
    """Smallest gap over the number of sets, log-log, beside dashed lines of slope -2/H.

    Args:    counts: numbers of sets N.   gaps: label -> median gap.   numbers: label -> H, how many numbers are read.
    Returns: a Figure.
    Cost:    about 200 ms.
    Page:    notebooks/one_layer_memorization/contextual_mapping
    """
    fig, ax = new(size=(6.0, 3.2))
    marks = [("o", BLUE), ("s", ORANGE), ("^", VERMILLION), ("D", PURPLE), ("v", SKY)]
    for (label, values), (mark, color) in zip(gaps.items(), marks):
        ax.plot(counts, values, mark, color=color, ms=6, label=label)
    for h in sorted(set(numbers.values())):
        first = next(label for label, k in numbers.items() if k == h)
        ax.plot(counts, [gaps[first][0] * (n / counts[0]) ** (-2 / h) for n in counts], "k--", lw=1)
    ax.set(xscale="log", yscale="log", xlabel="number of sets $N$", ylabel="smallest gap (std units)", xticks=list(counts))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    ax.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig
