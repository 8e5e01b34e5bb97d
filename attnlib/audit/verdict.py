"""The numbers of an audit in words.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import math
import statistics

from attnlib.audit.measures import Row


def number(row: Row) -> str:
    """The value of a row, short enough for a table.

    Args:
        row: with a value.

    Returns:
        whole numbers as they are, shares in percent, else three digits.
    """
    value = row["value"]
    if row["unit"].startswith("share"):
        return f"{100 * value:.3g}%"
    if row["unit"] == "yes or no":
        return "yes" if value else "no"
    if row["unit"] in ("layers", "singular values", "pairs", "bits"):
        return f"{value:.0f}"
    return f"{value:.3g}"


def sentences(rows: list[Row]) -> list[str]:
    """What the numbers mean, in five to eight plain sentences.

    Args:
        rows: of a report.

    Returns:
        one sentence a line.
    """
    parts = [
        _forgetting,
        _sharpness,
        _rank,
        _hearing,
        _states,
        _factor,
        _ids,
        _cache,
    ]
    found = [part(rows) for part in parts]
    return [sentence for sentence in found if sentence]


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


def _many(count: float | int, thing: str) -> str:
    """A number of things, in the right number."""
    return f"{count:.0f} {thing}" + ("" if count == 1 else "s")


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


def _where(row: Row) -> str:
    return f"Layer {row['layer']}, head {row['head']}"


def _forgetting(rows: list[Row]) -> str:
    heads = _of(rows, "tau")
    least = min(heads, key=_value)
    kept = sum(row["value"] > 0.99 for row in heads)
    if _of(rows, "heard by the last token, 90%"):
        return (
            "Under the causal mask the first token reads itself alone, so tau is near "
            "1 wherever some row gives it little, even if that row only averages (the "
            f"least is {least['value']:.3g}): it says little here."
        )
    if kept == len(heads):
        return (
            f"None of the {kept} heads has to forget the largest difference of tokens: "
            "every tau is above 0.99."
        )
    return (
        f"{_where(least)} forgets most: its means lie within "
        f"{100 * least['value']:.3g}% of the diameter of what they average (tau). "
        f"{kept} of {len(heads)} heads can keep more than 99% of it."
    )


def _sharpness(rows: list[Row]) -> str:
    heads = _of(rows, "beta*")
    if not heads:
        return ""
    sharp = sum(row["value"] <= 1 for row in heads)
    least = min(heads, key=_value)
    value = least["value"]
    where = f"layer {least['layer']}, head {least['head']}"
    if not sharp:
        return (
            f"No head is sharp in a typical row: even the logits of {where} would have "
            f"to be {value:.3g} times as large."
        )
    sentence = f"{sharp} of {len(heads)} heads are sharp in a typical row"
    if value == 0:
        return f"{sentence}."
    return (
        f"{sentence}, most of all {where}: its logits could be {1 / value:.3g} times "
        f"as small (beta* = {value:.3g})."
    )


def _rank(rows: list[Row]) -> str:
    """The head that is hardest to compress; where no ranks are known, the floors."""
    ranks = _of(rows, "energy rank, 90%")
    if ranks:
        most = max(ranks, key=_value)
        middle = statistics.median(map(_value, ranks))
        if most["value"] == middle:
            return (
                "In no head does 90% of the energy take more than "
                f"{_many(middle, 'singular value')}."
            )
        return (
            f"{_where(most)} is the hardest to compress: 90% of its energy takes "
            f"{_many(most['value'], 'singular value')}; the median head takes "
            f"{middle:g}."
        )
    floors = _of(rows, "floor, rank n/4")
    if not floors:
        return ""
    far = sum(row["value"] >= 0.5 for row in floors)
    return (
        f"{far} of {len(floors)} heads stay at least 0.5 away, in row sums, from every "
        "matrix of a quarter of the rank (Theorem 19.1)."
    )


def _hearing(rows: list[Row]) -> str:
    """Who hears of whom along the pairs that hold 90% of the mass."""
    last = _of(rows, "heard by the last token, 90%")
    if last:
        end = last[-1]
        return (
            "Along the pairs that hold 90% of the mass the last token has heard of "
            f"{100 * end['value']:.3g}% of the tokens after layer {end['layer']}."
        )
    hops = _of(rows, "hops of the network, 90%")
    if hops:
        return (
            "Along the pairs that hold 90% of the mass every token has heard of every "
            f"other after {_many(hops[0]['value'], 'layer')}: networks with skips and "
            "these pairs, held fixed, can compute all that dense ones can (Theorem "
            "11.24)."
        )
    universal = _of(rows, "can hear everything, 90%")
    if not universal:
        return ""
    if not universal[0]["value"]:
        return (
            "Along the pairs that hold 90% of the mass some token never hears of "
            "another, however many such layers there are (Theorem 11.24)."
        )
    return (
        "Along the pairs that hold 90% of the mass some token has not heard of every "
        "other when the last layer ends; more such layers would do."
    )


def _states(rows: list[Row]) -> str:
    before = _of(rows, "relative residual before")
    after = _of(rows, "relative residual after")
    if not before or not after:
        return ""
    least = min(after, key=_value)
    return (
        f"What differs between tokens is {number(before[0])} of them before layer "
        f"{before[0]['layer']} and {number(after[-1])} after layer "
        f"{after[-1]['layer']}; it is least after layer {least['layer']}, "
        f"{number(least)}."
    )


def _factor(rows: list[Row]) -> str:
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
    heads = _of(rows, "factor of the heads")
    if not heads:
        return ""
    least = min(heads, key=_value)
    return (
        f"Layer {least['layer']}: its heads alone multiply distances by at most "
        f"{least['value']:.3g}, the least of all layers; what the rest of the layer "
        "does is not covered."
    )


def _ids(rows: list[Row]) -> str:
    kept = _of(rows, "equal tokens not told apart")
    gaps = _of(rows, "closest equal tokens")
    if not kept or not gaps:
        return ""
    end = kept[-1]
    if end["value"]:
        return (
            f"Layer {end['layer']}: {end['value']:.0f} pairs of equal tokens in "
            "different company leave it as the same vector, so no map of single tokens "
            "can tell them apart."
        )
    gap = gaps[-1]["value"]
    return (
        f"Layer {end['layer']}: all equal tokens in different company leave it as "
        f"different vectors; the closest two are {_floats(gap)} apart."
    )


def _floats(gap: float) -> str:
    if gap < 1:
        return "less than one float"
    return f"{float(f'{gap:.3g}'):,.0f} floats"


def _cache(rows: list[Row]) -> str:
    layers = _of(rows, "cache a token")
    if not layers:
        return ""
    total = sum(map(_value, layers))
    asked = layers[0]["bound"]
    where = _many(len(layers), "layer")
    sentence = f"The cache keeps {total:.0f} bits of each token in {where}"
    if asked is None or not math.isfinite(asked):
        return f"{sentence}."
    return (
        f"{sentence}; to read a token back later takes {asked:.3g} (Proposition 8.11)."
    )
