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
