"""Figures of the page on Boltzmann averages and hardmax; one opens the chapter."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import Tensor

from attnbook.figures import BLUE, GREEN, GREY, ORANGE, VERMILLION, new

Number = int | float
FAINT = "#D3D3D3"
INK = "#444444"
LOOKS = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (VERMILLION, "D"))

# --- the chapter in one picture

STAGES = (
    "1 of 6: tokens, each with the label it wants",
    "2 of 6: places on a line",
    "3 of 6: what the company adds",
    "4 of 6: ids",
    "5 of 6: a broken line through them",
    "6 of 6: labels",
)
WORDS = (
    "A word in two sequences\nwants two different labels.",
    "Each word has its place on a line. The place alone\n"
    "cannot say which label is wanted.",
    "Each token hears an average of its sequence: its\n"
    "company. Wider lines weigh more.",
    "Place and a share of the company, added up:\nids, no two of them alike.",
)


def whole(
    sequences: Sequence[Sequence[str]],
    places: dict[str, Number],
    labels: Sequence[Sequence[str]],
    heights: Sequence[str],
    *,
    beta: Number,
    w: Number,
) -> tuple[list[Figure], list[str]]:
    """From tokens to labels: places on a line, company, ids, and a broken line through
    ids and labels; all numbers are computed.

    Args:
        sequences: the words of each, no word twice in one.
        places: of each word, the number z.
        labels: the label that each token wants, in the same order.
        heights: all labels, from the lowest to the highest in the picture.
        beta: inverse temperature of the head.
        w: how much of its company a token adds to its place.

    Returns:
        (frames, labels) of a slider.
    """
    tokens = []
    for lane, (words, wanted) in enumerate(zip(sequences, labels)):
        z = torch.tensor([places[word] for word in words], dtype=torch.float64)
        for word, place, label in zip(words, z.tolist(), wanted):
            weights = torch.softmax(beta * place * z, 0)
            company = float(weights @ z)
            tokens.append(
                {
                    "lane": lane,
                    "word": word,
                    "place": place,
                    "others": list(zip(z.tolist(), weights.tolist())),
                    "company": company,
                    "id": place + w * company,
                    "label": label,
                }
            )
    for token in tokens:
        token["height"] = _height(heights.index(token["label"]))
    frames = [_whole_frame(stage, tokens, heights) for stage in range(len(STAGES))]
    return frames, list(STAGES)


LANE = 1.5  # from one sequence to the next
IDS = 0.4  # height of the line of ids, above all sequences
STEP = 0.75  # from one label to the next


def _whole_frame(stage: int, tokens: list[dict], names: Sequence[str]) -> Figure:
    fig, ax = new(size=(6.0, 4.6))
    left = min(token["place"] for token in tokens) - 1.1
    right = max(token["id"] for token in tokens) + 0.6
    for lane in sorted({token["lane"] for token in tokens}):
        colour, _ = LOOKS[lane]
        y = _lane(lane)
        ax.text(
            left - 1.3,
            y,
            f"sequence {lane + 1}",
            va="center",
            color=colour,
            fontsize=12,
        )
        if stage > 0:
            ax.plot([left + 0.2, right], [y, y], color=FAINT, lw=1.2, zorder=0)
    draw = (_tokens, _places, _company, _ids, _broken_line, _labels)
    if stage == 0:
        _tokens(ax, tokens)
    for layer in draw[1 : stage + 1]:
        layer(ax, tokens)
    if stage == 2:
        _company_names(ax, tokens)
    if stage < 4:
        ax.text(
            left + 0.2,
            _height(0) + 0.5,
            WORDS[stage],
            color=INK,
            va="center",
            fontsize=12,
        )
    if stage >= 3:
        ax.plot([left + 0.2, right], [IDS, IDS], color=INK, lw=1.4, zorder=0)
        ax.text(left - 1.3, IDS, "ids", va="center", color=INK, fontsize=12)
    if stage >= 4:
        for k, name in enumerate(names):
            ax.text(left - 1.3, _height(k), name, va="center", color=INK, fontsize=12)
    ax.set(
        xlim=(left - 1.4, right),
        ylim=(_lane(1) - 0.75, _height(len(names) - 1) + 0.55),
    )
    ax.axis("off")
    return fig


def _lane(lane: int) -> float:
    return -LANE * (lane + 1) + 0.35


def _height(label: int) -> float:
    return IDS + 0.9 + STEP * label


def _mark(ax, token: dict, x: float, y: float) -> None:
    colour, mark = LOOKS[token["lane"]]
    ax.plot([x], [y], mark, color=colour, ms=9, zorder=3)


def _tokens(ax, tokens: list[dict]) -> None:
    """Words in boxes, with the labels they want below."""
    counts = {}
    for token in tokens:
        lane = token["lane"]
        colour, _ = LOOKS[lane]
        x = 1.3 + 2.3 * counts.setdefault(lane, 0)
        counts[lane] += 1
        box = {"boxstyle": "round,pad=0.4", "fc": "white", "ec": colour, "lw": 1.5}
        ax.text(
            x, _lane(lane) + 0.15, token["word"], ha="center", bbox=box, fontsize=12
        )
        ax.text(
            x,
            _lane(lane) - 0.5,
            f"wants: {token['label']}",
            ha="center",
            color=INK,
            fontsize=11,
        )


def _places(ax, tokens: list[dict]) -> None:
    """Each token a mark on its line; equal words share a place."""
    seen = {}
    for token in tokens:
        y = _lane(token["lane"])
        _mark(ax, token, token["place"], y)
        white = {"fc": "white", "ec": "none", "pad": 1}
        low = y - 0.42
        ax.text(
            token["place"], low, token["word"], ha="center", bbox=white, fontsize=12
        )
        seen.setdefault(token["word"], []).append(y)
    for token in tokens:
        heights = seen[token["word"]]
        if len(heights) > 1:
            ends = [min(heights), max(heights)]
            ax.plot([token["place"]] * 2, ends, ":", color=GREY, lw=1.4, zorder=1)


def _company(ax, tokens: list[dict]) -> None:
    """A diamond at the average that the shared word sees; wider lines weigh more."""
    for token in _shared(tokens):
        y = _lane(token["lane"])
        colour, _ = LOOKS[token["lane"]]
        top = y + 0.52
        for place, weight in token["others"]:
            xs = [place, token["company"]]
            ax.plot(xs, [y, top], color=colour, lw=6 * weight, alpha=0.35, zorder=1)
        ax.plot([token["company"]], [top], "D", color="black", ms=6, zorder=4)


def _shared(tokens: list[dict]) -> list[dict]:
    """The tokens whose word stands in two sequences."""
    words = [token["word"] for token in tokens]
    return [token for token in tokens if words.count(token["word"]) > 1]


def _company_names(ax, tokens: list[dict]) -> None:
    for token in _shared(tokens):
        words = f"company of “{token['word']}”"
        spot = (token["company"], _lane(token["lane"]) + 0.52)
        ax.annotate(words, spot, (9, 1), textcoords="offset points", fontsize=12)


def _ids(ax, tokens: list[dict]) -> None:
    """Every token moves to place + w times company."""
    for token in tokens:
        start = (token["place"], _lane(token["lane"]))
        end = (token["id"], IDS)
        colour, _ = LOOKS[token["lane"]]
        arrow = FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=10,
            lw=1.2,
            ls="--",
            color=colour,
            shrinkA=6,
            shrinkB=5,
        )
        ax.add_patch(arrow)
        _mark(ax, token, token["id"], IDS)


def _broken_line(ax, tokens: list[dict]) -> None:
    points = sorted((token["id"], token["height"]) for token in tokens)
    xs, ys = zip(*points)
    ax.plot(xs, ys, color=INK, lw=2, zorder=2)
    for token in tokens:
        x = token["id"]
        ax.plot([x, x], [IDS, token["height"]], ":", color=GREY, lw=1.2, zorder=1)
        _mark(ax, token, x, token["height"])


def _labels(ax, tokens: list[dict]) -> None:
    left = ax.get_xlim()[0]
    for token in tokens:
        colour, _ = LOOKS[token["lane"]]
        spot = (token["id"], token["height"])
        reach = [left + 1.25, spot[0]]
        ax.plot(reach, [spot[1]] * 2, "--", color=colour, lw=1.3, zorder=1)
        ax.annotate(
            token["word"], spot, (7, 5), textcoords="offset points", fontsize=12
        )


# --- two sequences in the balance


def balance(
    first: Sequence[Number], second: Sequence[Number], betas: Sequence[Number]
) -> tuple[list[Figure], list[str]]:
    """Two sequences of tokens on two beams; each token weighs as much as softmax gives
    it, seen from the token at 1, and a wedge stands where the beam is in balance.

    Args:
        first, second: places.
        betas: inverse temperatures; math.inf is hardmax.

    Returns:
        (frames, labels) of a slider, a frame a temperature.
    """
    frames = []
    labels = []
    for beta in betas:
        frames.append(_beams([first, second], beta))
        hot = {0: "0: the plain mean", math.inf: "infinite: hardmax"}
        labels.append(f"β = {hot.get(beta, f'{beta:g}')}")
    return frames, labels


def weights(places: Sequence[Number], beta: Number) -> list[float]:
    """Softmax of beta z, seen from the token at 1; hardmax at infinity."""
    if beta == math.inf:
        return [float(place == max(places)) for place in places]
    logits = beta * torch.tensor(places, dtype=torch.float64)
    return torch.softmax(logits, 0).tolist()


def _beams(sequences: Sequence[Sequence[Number]], beta: Number) -> Figure:
    fig, axes = new(2, 1, size=(6.0, 3.6), sharex=True)
    for name, ax, places, look in zip(("1", "2"), axes, sequences, LOOKS):
        colour, mark = look
        share = weights(places, beta)
        average = sum(p * z for p, z in zip(share, places))
        ax.plot([0.5, 6.5], [0, 0], color=INK, lw=2, zorder=1)
        for place, weight in zip(places, share):
            height = 1.5 * weight
            bar = Rectangle((place - 0.22, 0), 0.44, height, color=colour, alpha=0.35)
            ax.add_patch(bar)
            ax.plot([place], [0], mark, color=colour, ms=8, zorder=3)
            if weight > 0.045:
                ax.text(place, height + 0.05, f"{weight:.2f}", ha="center")
        ax.plot([average], [-0.2], "^", color="black", ms=11, zorder=4)
        ax.annotate(
            f"in balance at {average:.2f}",
            (average, -0.2),
            (-10, -5),
            ha="right",
            textcoords="offset points",
        )
        ax.set(xlim=(0.4, 6.7), ylim=(-0.5, 1.85), yticks=[], xticks=range(1, 7))
        ax.set_ylabel(f"sequence {name}", color=colour)
        ax.spines["left"].set_visible(False)
        ax.spines["bottom"].set_visible(False)
        ax.tick_params(length=0)
    axes[0].set_xlabel(" ")
    axes[1].set_xlabel("place on the line; bar: its weight for the token at 1")
    return fig


# --- the difference of two averages as a sum


def powers(terms: dict) -> Figure:
    """What is left of the difference of two averages: a bar at each power of e^beta."""
    fig, ax = new(size=(6.0, 2.9))
    for power, count in sorted(terms.items()):
        power = float(power)
        count = float(count)
        colour = BLUE if count > 0 else VERMILLION
        hatch = "" if count > 0 else "///"
        ax.bar(power, count, 0.6, fc="white", ec=colour, hatch=hatch, lw=1.6)
        up = 0.25 if count > 0 else -0.25
        align = "bottom" if count > 0 else "top"
        ax.text(power, count + up, f"{count:+g}", ha="center", va=align, color=INK)
    ax.axhline(0, color=INK, lw=1.2)
    first = min(terms)
    ticks = range(int(first), int(max(terms)) + 1)
    ax.set(xticks=ticks, yticks=[], ylim=(-5.6, 6.6))
    ax.set_xlabel("power of x = exp(β)")
    ax.set_ylabel("coefficient")
    ax.text(
        float(first) - 0.4,
        5.95,
        "for a fraction β ≠ 0, bars at different powers cannot cancel",
        color=INK,
    )
    ax.spines["left"].set_visible(False)
    return fig


# --- how near two averages come when one token is placed at random


def one_token(places: Tensor, moving: Tensor, still: float, eps: float) -> Figure:
    """The average of a sequence while one of its tokens moves, and that of another
    sequence, which stays; they are close only while the token is in the shaded part.

    Args:
        places: of the token that moves.
        moving: the average there.
        still: the other average.
        eps: what counts as close.
    """
    fig, ax = new(size=(6.0, 3.3))
    xs = places.tolist()
    ys = moving.tolist()
    near = [abs(y - still) <= eps for y in ys]
    ax.axhspan(still - eps, still + eps, color=FAINT, alpha=0.6, lw=0)
    ax.fill_between(
        xs,
        0,
        1,
        where=near,
        transform=ax.get_xaxis_transform(),
        color=ORANGE,
        alpha=0.3,
    )
    ax.axhline(still, color=VERMILLION, ls="--", label="average of sequence 2")
    ax.plot(xs, ys, color=BLUE, label="average of sequence 1")
    ax.set(xlabel="place of the token that only sequence 1 has", ylabel="average")
    words = "too close\nonly if the\ntoken falls here"
    middle = [x for x, close in zip(xs, near) if close]
    centre = (min(middle) + max(middle)) / 2
    low, high = ax.get_ylim()
    ax.annotate(
        words,
        (centre, low + 0.05 * (high - low)),
        (18, 4),
        textcoords="offset points",
        color=INK,
    )
    ax.legend(fontsize=9, loc="upper left")
    return fig
