"""The numbers of an audit in words, and what they advise to try.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import math
import statistics
from collections import Counter

from attnlib.audit.measures import UNIT, Row

FORGETS = 0.5  # a tau below this is worth a try
MASSIVE = 0.5  # a token with this share of all energy hides the others
LOW = 3  # singular values that are few


def number(row: Row) -> str:
    """The value of a row, short enough for a table.

    Args:
        row: with a value.

    Returns:
        whole numbers as they are, shares in percent, else three digits.
    """
    value = row["value"]
    if row["unit"].startswith("share"):
        return share(value)
    if row["unit"] == "yes or no":
        return "yes" if value else "no"
    if row["unit"] in ("layers", "singular values", "pairs", "bits"):
        return f"{value:.0f}"
    return f"{value:.3g}"


def share(value: float) -> str:
    """A share in percent; near one, as many nines as it has.

    Args:
        value: from 0 to 1.

    Returns:
        such as 12.3% or 99.9999%.
    """
    if 0.99 < value < 1:
        rest = f"{100 * (1 - value):.0e}"
        return f"{100 - float(rest):.10g}%"
    return f"{100 * value:.3g}%"


def sentences(rows: list[Row]) -> list[str]:
    """What the numbers mean, in plain sentences.

    Args:
        rows: of a report.

    Returns:
        one sentence a line, or a few that belong together.
    """
    parts = [_constants, _sinks, _sharpness, _rank, _states, _hearing, _factor, _cache]
    found = [part(rows) for part in parts]
    return [sentence for sentence in found if sentence]


def advised(rows: list[Row]) -> dict[str, list[tuple[int, int]]]:
    """The heads that the report names, as (layer, head), the clearest first.

    Args:
        rows: of a report.

    Returns:
        constant: tau below one half. sink: the word of "looks at". low rank: three
        singular values or fewer hold 90% of the energy.
    """
    constant = [row for row in _of(rows, "tau") if _most(row) < FORGETS]
    sinks = [row for row in _of(rows, "looks at") if row["word"] == "sink"]
    low = [row for row in _of(rows, "energy rank, 90%") if row["value"] <= LOW]
    named = {
        "constant": sorted(constant, key=_most),
        "sink": sorted(sinks, key=_value, reverse=True),
        "low rank": sorted(low, key=_value),
    }
    return {name: [_place(row) for row in some] for name, some in named.items()}


def not_covered(rows: list[Row]) -> list[str]:
    """What no theorem says here, and why; what has one reason shares a line.

    Args:
        rows: of a report.

    Returns:
        one line each.
    """
    layers: dict[tuple[str, str], list] = {}
    for row in rows:
        if not row["covered"]:
            key = (row["quantity"], row["why"])
            layers.setdefault(key, []).append(row["layer"])
    quantities: dict[tuple[str, str], list[str]] = {}
    for (quantity, why), where in layers.items():
        quantities.setdefault((_named(where), why), []).append(quantity)
    return [
        f"{'; '.join(names)} ({where}): {why}."
        for (where, why), names in quantities.items()
    ]


def _many(count: float, thing: str) -> str:
    """A number of things, in the right number."""
    return f"{count:.0f} {thing}" + ("" if count == 1 else "s")


def _some(count: int, of: int) -> str:
    """How many of the heads are something."""
    return f"{count} of {_many(of, 'head')} {'is' if count == 1 else 'are'}"


def _named(layers: list[int | None]) -> str:
    """Layers as a reader says them."""
    if None in layers:
        return "the whole network"
    numbers = sorted(set(layers))
    if len(numbers) == 1:
        return f"layer {numbers[0]}"
    whole = numbers == list(range(numbers[0], numbers[-1] + 1))
    if whole:
        return f"layers {numbers[0]} to {numbers[-1]}"
    return "layers " + ", ".join(map(str, numbers))


def _of(rows: list[Row], quantity: str) -> list[Row]:
    """The rows of a quantity that have a value."""
    return [
        row
        for row in rows
        if row["quantity"] == quantity and row["covered"] and row["value"] is not None
    ]


def _value(row: Row) -> float:
    return row["value"]


def _most(row: Row) -> float:
    """What tau is at most: its bound where not all pairs of rows were looked at."""
    searched = row["over"].startswith("largest found")
    return row["bound"] if searched else row["value"]


def _place(row: Row) -> tuple[int, int]:
    return row["layer"], row["head"]


def _at(row: Row) -> str:
    return f"{row['layer']}.{row['head']}"


def _listed(rows: list[Row], say) -> str:
    """Some heads with a number each, and how many more there are."""
    said = [f"{_at(row)} ({say(row)})" for row in rows[:4]]
    more = f" and {len(rows) - 4} more" if len(rows) > 4 else ""
    return ", ".join(said) + more


def _constants(rows: list[Row]) -> str:
    """Heads whose output hardly depends on the query: a small tau is a certificate."""
    heads = _of(rows, "tau")
    small = sorted((row for row in heads if _most(row) < FORGETS), key=_most)
    causal = bool(_of(rows, "heard by the last token, 90%"))
    silent = "a large tau says nothing"
    if causal:
        silent += ": under a causal mask tau is 1 less the least weight on token 0"
    if not small:
        least = min(heads, key=_most)
        return (
            f"No head is certified to be nearly constant: the least tau is "
            f"{_most(least):.3g} (head {_at(least)}), and {silent}."
        )
    verb = "depends" if len(small) == 1 else "depend"
    return (
        f"{len(small)} of {_many(len(heads), 'head')} {verb} little on the query (tau "
        f"below {FORGETS}): {_listed(small, _tau_said)}, as layer.head (tau). Whatever "
        "the values are, what two tokens get there differs by at most tau times the "
        "largest difference of values (Theorem 24.4): try a constant vector in its "
        f"place, which report.verify() does; {silent}."
    )


def _tau_said(row: Row) -> str:
    return f"{_most(row):.3g}"


def _sinks(rows: list[Row]) -> str:
    """Heads that look at one token, by its name, and what they read there."""
    looks = _of(rows, "looks at")
    sinks = {_place(row) for row in looks if row["word"] == "sink"}
    if not sinks:
        return ""
    tops = [row for row in _of(rows, "top key") if _place(row) in sinks]
    tops.sort(key=_value, reverse=True)
    token, count = Counter(row["word"] for row in tops).most_common(1)[0]
    kind = "a sink" if len(sinks) == 1 else "sinks"
    said = (
        f"{_some(len(sinks), len(looks))} {kind}: a mean row gives 30% of its weight "
        f"or more to one token, mostly to token {token} ({count}); most of all "
        f"{_listed(tops[:4], number)}."
    )
    lengths = _of(rows, "value of the top key")
    small = [row for row in lengths if _place(row) in sinks and row["value"] <= 0.5]
    if small:
        said += (
            f" In {len(small)} the value read there is at most half as long as the "
            "median one: a head whose weights must sum to one can fall silent only by "
            "such a sink (Proposition 4.11), and as far as its weight goes there."
        )
    return (
        f"{said} Who shortens the text, or the cache of a decoder, takes away what "
        f"these heads look at unless token {token} stays; report.verify() does not try "
        "that."
    )


def _sharpness(rows: list[Row]) -> str:
    heads = _of(rows, "beta*")
    if not heads:
        return ""
    sharp = {_place(row) for row in heads if row["value"] <= 1}
    least = min(heads, key=_value)
    if not sharp:
        return (
            f"No head is sharp in a typical row: even the logits of head {_at(least)} "
            f"would have to be {least['value']:.3g} times as large."
        )
    labels = Counter(
        row["word"] for row in _of(rows, "looks at") if _place(row) in sharp
    )
    kinds = [f"{count} {name}" for name, count in labels.most_common()]
    promised = [
        row["bound"] for row in _of(rows, "largest weight") if _place(row) in sharp
    ]
    return (
        f"{_some(len(sharp), len(heads))} sharp in a typical row (beta* at most 1: "
        "logits need not grow for the top key to stand out, which then has at least "
        f"{math.floor(100 * min(promised))}% of its row): "
        f"{', '.join(kinds)}, by where they look."
    )


def _rank(rows: list[Row]) -> str:
    """The heads that are easiest and hardest to compress; where no ranks are known, the
    floors.
    """
    ranks = _of(rows, "energy rank, 90%")
    if ranks:
        most = max(ranks, key=_value)
        low = [row for row in ranks if row["value"] <= LOW]
        middle = statistics.median(map(_value, ranks))
        hold = "holds" if len(low) == 1 else "hold"
        few = f"{len(low)} of {_many(len(ranks), 'map')} {hold} 90% of the energy in "
        return (
            f"{few}{_many(LOW, 'singular value')} or fewer, the median head in "
            f"{middle:g}; hardest to compress is {_at(most)}, which takes "
            f"{most['value']:.0f}. (Of the map of weights on this text, not of W_Q or "
            "the cache.)"
        )
    floors = _of(rows, "floor, rank n/4")
    far = sum(row["value"] >= 0.5 for row in floors)
    if not far:
        return ""
    return (
        f"{far} of {_many(len(floors), 'head')} stay at least 0.5 away, in row sums, "
        "from every matrix of a quarter of the rank (Theorem 24.2)."
    )


def _states(rows: list[Row]) -> str:
    """How much the tokens differ, and whether one of them hides the others."""
    before = _of(rows, f"relative residual before{UNIT}")
    after = _of(rows, f"relative residual after{UNIT}")
    if not before or not after:
        return ""
    least = min(after, key=_value)
    first = f"{number(before[0])} of them before layer {before[0]['layer']}"
    last = f"{number(after[-1])} after layer {after[-1]['layer']}"
    said = (
        f"What is not common to all tokens, each at unit length, is {first}, {last}, "
        f"and least after layer {least['layer']}, {number(least)}."
    )
    massive = [
        row for row in _of(rows, "heaviest token after") if _value(row) > MASSIVE
    ]
    if not massive:
        return said
    most = max(massive, key=_value)
    places = [row["layer"] for row in massive]
    return (
        f"{said} Token {most['word']} is massive: after {_named(places)} it carries "
        f"more than half of the energy of all, {number(most)} after layer "
        f"{most['layer']}. It decides the columns after and growth there, and would "
        "decide a scale of quantisation that all tokens share."
    )


def _hearing(rows: list[Row]) -> str:
    """Who hears of whom along the pairs that hold 90% of the mass."""
    last = _of(rows, "heard by the last token, 90%")
    if last:
        whole = [row for row in last if row["value"] == 1]
        end = whole[0] if whole else last[-1]
        return (
            "Along the pairs that hold 90% of the mass the last token has heard of "
            f"{number(end)} of the tokens after layer {end['layer']}."
        )
    hops = _of(rows, "hops of the network, 90%")
    if hops:
        return (
            "Along the pairs that hold 90% of the mass every token has heard of every "
            f"other after {_many(hops[0]['value'], 'layer')}: networks with skips and "
            "these pairs, held fixed, can compute all that dense ones can (Theorem "
            "12.4). That is said of some network, not of this one without the others."
        )
    universal = _of(rows, "can hear everything, 90%")
    if not universal:
        return ""
    if not universal[0]["value"]:
        return (
            "Along the pairs that hold 90% of the mass some token never hears of "
            "another, however many such layers there are (Theorem 12.4)."
        )
    return (
        "Along the pairs that hold 90% of the mass some token has not heard of every "
        "other when the last layer ends; more such layers would do."
    )


def _factor(rows: list[Row]) -> str:
    """What all layers, or the heads of one, do to distances at most, where that says
    something.
    """
    whole = _of(rows, "factor of all layers")
    if whole:
        factor = whole[0]["value"]
        if factor < 1:
            return (
                f"All layers together leave at most {factor:.3g} of every distance "
                "between tokens, whatever the tokens are, as long as the maps stay."
            )
        return (
            f"Nothing forbids that distances between tokens grow: the layers allow a "
            f"factor of {factor:.3g}."
        )
    heads = [row for row in _of(rows, "factor of the heads") if row["value"] < 1]
    if not heads:
        return ""
    least = min(heads, key=_value)
    return (
        f"Layer {least['layer']}: its heads alone multiply distances by at most "
        f"{least['value']:.3g}, the least of all layers; what the rest of the layer "
        "does is not covered."
    )


def _cache(rows: list[Row]) -> str:
    layers = _of(rows, "cache a token")
    partial = any(r["quantity"] == "pairs heard" and r["layer"] is None for r in rows)
    if not layers or partial:  # what was not read may keep something, too
        return ""
    total = sum(map(_value, layers)) / 8 / 1024
    return (
        f"Keys and values, once for heads that share them, take {total:.3g} KiB a "
        "token in "
        f"{layers[0]['dtype']}, {_many(len(layers), 'layer')} together: "
        f"{1000 * total / 1024:.3g} MiB for a thousand tokens."
    )
