"""Records as tables in Markdown: the goals, the cases of a job, how cost grows, and
where stored files come from.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from attnbook.data.timings import Record, parts, peers, ratio, share
from bench.goals import Judged

UPPER = 3  # points that a slope is fitted to
SHARES = {"flop": "the rate of a matrix product", "bytes": "the rate of a copy"}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = []
    for row in [head, ["---"] * len(head), *rows]:
        cells = [cell.replace("|", "\\|") for cell in row]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def number(x: float) -> str:
    """Three digits, without an exponent where none is needed."""
    if x != 0 and (abs(x) >= 1e5 or abs(x) < 1e-3):
        mantissa, exponent = f"{x:.1e}".split("e")
        return f"${mantissa} \\cdot 10^{{{int(exponent)}}}$"
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def spread(figure: tuple[float, float, float]) -> str:
    """Median, quartiles in brackets; a number that does not vary stands alone."""
    low, middle, high = figure
    if low == high:
        return number(middle)
    return f"{number(middle)} ({number(low)} to {number(high)})"


def goal_table(judged: Sequence[Judged]) -> str:
    """Every goal beside what was measured."""
    rows = []
    for one in judged:
        goal = one.goal
        side = "at least" if goal.least else "at most"
        found = f"{spread(one.figure)}: " if one.figure else ""
        word = f"**{one.word}**" if one.word == "missed" else one.word
        rows.append(
            [
                f"{goal.number}. {goal.words}",
                f"{side} {number(goal.target)}",
                found + word,
            ]
        )
    return table(["Goal", "Target", "Median (quartiles)"], rows)


def job_table(records: Sequence[Record]) -> str:
    """Every case of a job: peers as times ours, floors as ours over them, and the
    shares of the machine's rates; of the job `scaling` the slopes.
    """
    if records and records[0]["job"] == "scaling":
        return _slope_table(records)
    texts = []
    for record in records:
        case = record["case"]
        head = f"**{case[0].upper()}{case[1:]}**"
        text = f"{head}\n\n{_case(record)}\n\n{_beside(record)}"
        texts.append(text.rstrip())
    return "\n\n".join(texts)


def _case(record: Record) -> str:
    """Ours and its peers, run or not."""
    seconds = record["seconds"]
    ours = seconds["ours"]
    rows = [
        ["ours", f"{1000 * statistics.median(ours):.3g} ms", *_cost(record, "ours")]
    ]
    for name in peers(record):
        times = spread(ratio(seconds[name], ours))
        rows.append([name, f"× {times}", *_cost(record, name)])
    for name, why in record["not run"].items():
        reason = why.removeprefix("not run: ")
        rows.append([name, f"not run: {reason}", "", ""])
    return table(["", "Time", "MB", "Error"], rows)


def _cost(record: Record, name: str) -> list[str]:
    """Memory and error of a run, where they are known."""
    peak = record["peak bytes"].get(name)
    error = record["worst error"].get(name)
    return [
        "" if peak is None else f"{peak / 2**20:.3g}",
        "" if error is None else number(error),
    ]


def _beside(record: Record) -> str:
    """A sentence on floors, parts and the rates of the machine."""
    seconds = record["seconds"]
    ours = seconds["ours"]
    said = []
    for name in seconds:
        if name.startswith("floor"):
            floor = name.removeprefix("floor ")
            said.append(f"{floor} {spread(ratio(ours, seconds[name]))}")
    if together := parts(record):
        said.append(f"the sum of its parts {spread(ratio(ours, together))}")
    rates = []
    for what, words in SHARES.items():
        if record[what]:
            _, middle, _ = share(record, what)
            rates.append(f"{100 * middle:.0f}% of {words}")
    lines = []
    if said:
        lines.append(f"Ours over: {'; '.join(said)}.")
    if rates:
        lines.append(f"Useful work at {' and '.join(rates)}.")
    return " ".join(lines)


def slope(at: Sequence[int], values: Sequence[float]) -> float:
    """The exponent of growth over the upper points: least squares in double
    logarithms.
    """
    if len(at) != len(values) or len(at) < 2:
        raise ValueError(
            "a slope needs two points or more and a value at each, "
            f"got {len(at)} and {len(values)}"
        )
    x = [math.log(size) for size in at[-UPPER:]]
    # Nothing counts as one byte, or as a picosecond.
    least = 1e-12 if isinstance(values[0], float) else 1
    y = [math.log(max(value, least)) for value in values[-UPPER:]]
    return statistics.linear_regression(x, y).slope


def slopes(record: Record) -> dict[str, float]:
    """The slopes of a record, of time and of memory."""
    turns = record["seconds"]["ours"]
    medians = [statistics.median(ts) for ts in zip(*turns)]
    return {
        "time": slope(record["at"], medians),
        "memory": slope(record["at"], record["peak bytes"]),
    }


def _slope_table(records: Sequence[Record]) -> str:
    """A row for each kernel and axis: slopes of time and memory beside the predicted
    ones.
    """
    rows = []
    for record in records:
        cells = [record["kernel"], record["axis"]]
        for what, found in slopes(record).items():
            cells.append(f"{found:.2f} ({record['predicted'][what]:g})")
        rows.append(cells)
    return table(["kernel", "axis", "time (predicted)", "memory (predicted)"], rows)


def origin_table(results: dict[str, dict]) -> str:
    """Where each stored file comes from."""
    rows = []
    for name, result in results.items():
        about = result["about"]
        settings = about["settings"]
        known = [key for key in ("load before", "load after") if key in settings]
        load = " to ".join(str(settings[key]) for key in known)
        rows.append(
            [
                f"`{name}.json`",
                about["hardware"],
                f"torch {about['versions']['torch']}",
                f"`{about['commit']}`",
                load,
                about["date"],
            ]
        )
    return table(["File", "Hardware", "Version", "Commit", "Load", "Date"], rows)
