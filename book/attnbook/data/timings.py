"""Stored measurements of time, read: how many times as long the peers take.

A record is what `python -m bench` stores of one comparison: a dict with the seconds of
each run, round by round. "ours" is the book's kernel; "floor ..." does a part of the
work that nothing can leave out; "part ..." are runs that "ours" does together;
"limit ..." are rates of the machine; whatever else there is, is a peer.

Page: book/benchmarks
"""

from __future__ import annotations

import statistics
from typing import Any

Record = dict[str, Any]
Quartiles = tuple[float, float, float]  # lower quartile, median, upper quartile
PIECES = ("part", "floor")  # runs that do less than "ours" does
RATES = {
    "flop": "FLOPs at {:.0f}% of the rate of a matrix product",
    "bytes": "bytes at {:.0f}% of the rate of a copy",
}


def ratio(over: list[float], under: list[float]) -> Quartiles:
    """Lower quartile, median and upper quartile of over / under, taken round by round,
    so that drift cancels.

    Args:
        over, under: seconds, an entry a round.

    Returns:
        three numbers.
    """
    ratios = sorted(a / b for a, b in zip(over, under))
    quarter = len(ratios) // 4
    return ratios[quarter], statistics.median(ratios), ratios[-1 - quarter]


def peers(record: Record) -> list[str]:
    """The names of the peers that ran.

    Args:
        record: a stored comparison.

    Returns:
        names, in the order of the run.
    """
    beside = [name for name in record["seconds"] if name != "ours"]
    return [name for name in beside if not name.startswith(("limit", *PIECES))]


def share(record: Record, what: str) -> Quartiles:
    """Which share of the machine's rate our run reaches: operations or bytes a second
    over those of the limit.

    Args:
        record: a stored comparison.
        what: "flop" or "bytes".

    Returns:
        quartiles and median.
    """
    limit = {"flop": "limit matmul", "bytes": "limit copy"}[what]
    seconds = record["seconds"]
    alike = record[what] / record["limits"][limit][what]
    return tuple(alike * q for q in ratio(seconds[limit], seconds["ours"]))


def parts(record: Record) -> list[float]:
    """The seconds of all parts together.

    Args:
        record: a stored comparison.

    Returns:
        an entry a round; none if there were no parts.
    """
    seconds = record["seconds"]
    each = [seconds[name] for name in seconds if name.startswith("part")]
    return [sum(turn) for turn in zip(*each)]


def report(record: Record) -> str:
    """A few lines of Markdown: how many times as long each peer takes, medians,
    quartiles in brackets.

    Args:
        record: a stored comparison.

    Returns:
        lines, the first of them the name of the case with our time, memory and error.
    """
    seconds = record["seconds"]
    ours = seconds["ours"]
    lines = [_headline(record)]
    for name in peers(record):
        lines.append(_peer_line(record, name))
    for name in seconds:
        if name.startswith("floor"):
            under = name.removeprefix("floor ")
            lines.append(f"- ours / {under}: {_spread(ratio(ours, seconds[name]))}")
    if together := parts(record):
        _, middle, _ = ratio(ours, together)
        lines.append(f"- ours / sum of its parts: {middle:.3g}")
    for what, words in RATES.items():
        if record[what]:
            _, middle, _ = share(record, what)
            lines.append(f"- useful {words.format(100 * middle)}")
    for name, why in record["not run"].items():
        lines.append(f"- {name}: {why}")
    return "\n".join(lines)


def _headline(record: Record) -> str:
    """The case, with our time, memory and error."""
    middle = statistics.median(record["seconds"]["ours"])
    own = [f"{1000 * middle:.3g} ms"]
    if "ours" in record["peak bytes"]:
        own.append(f"{_mb(record, 'ours')} MB")
    if record["worst error"]:
        own.append(f"worst error {record['worst error']['ours']:.1e}")
    return f"### {record['case']}: {', '.join(own)}"


def _peer_line(record: Record, name: str) -> str:
    """How many times our time a peer takes, with its memory and error."""
    seconds = record["seconds"]
    times = ratio(seconds[name], seconds["ours"])
    said = [f"- {name} / ours: {_spread(times)}"]
    if name in record["peak bytes"]:
        said.append(f"memory {_mb(record, name)} MB")
    if name in record["worst error"]:
        said.append(f"error {record['worst error'][name]:.1e}")
    return "; ".join(said)


def _spread(quartiles: Quartiles) -> str:
    low, middle, high = quartiles
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def _mb(record: Record, name: str) -> str:
    size = record["peak bytes"][name] / 2**20
    return f"{size:.3g}"
