"""Records as tables in Markdown: the goals, the cases of a job, and where stored files
come from.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from attnlib.bench.goals import Judged
from attnlib.bench.record import Record, parts, peers, share
from attnlib.bench.timing import ratio

SHARES = {"flop": "the rate of a matrix product", "bytes": "the rate of a copy"}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
        for line in lines
    )


def number(x: float | int) -> str:
    """Three digits, without an exponent where none is needed."""
    if x != 0 and (abs(x) >= 1e5 or abs(x) < 1e-3):
        mantissa, exponent = f"{x:.1e}".split("e")
        return f"${mantissa} \\cdot 10^{{{int(exponent)}}}$"
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def spread(figure: tuple[float | int, float | int, float | int]) -> str:
    """Median, quartiles in brackets; a number that does not vary stands alone."""
    low, middle, high = figure
    return (
        number(middle)
        if low == high
        else f"{number(middle)} ({number(low)} to {number(high)})"
    )


def goal_table(judged: Sequence[Judged]) -> str:
    """Every goal beside what was measured."""
    rows = []
    for one in judged:
        target = (
            f"{'at least' if one.goal.least else 'at most'} {number(one.goal.target)}"
        )
        found = f"{spread(one.figure)}: " if one.figure else ""
        device = " (GPU)" if one.goal.device == "cuda" else ""
        rows.append(
            [
                f"{one.goal.number}. {one.goal.words}{device}",
                target,
                found + (f"**{one.word}**" if one.word == "missed" else one.word),
            ]
        )
    return table(["Goal", "Target", "Median (quartiles)"], rows)


def job_table(records: Sequence[Record]) -> str:
    """Every case of a job: peers as times ours, floors as ours over them, and the
    shares of the machine's rates.
    """
    return "\n\n".join(
        f"**{r['case'][0].upper()}{r['case'][1:]}**\n\n{_case(r)}\n\n{_beside(r)}".rstrip()
        for r in records
    )


def _case(record: Record) -> str:
    """Ours and its peers, run or not."""
    seconds, ours = record["seconds"], record["seconds"]["ours"]
    mb = {name: f"{size / 2**20:.3g}" for name, size in record["peak bytes"].items()}
    error = {name: number(e) for name, e in record["worst error"].items()}
    rows = [
        [
            "ours",
            f"{1000 * statistics.median(ours):.3g} ms",
            mb.get("ours", ""),
            error.get("ours", ""),
        ]
    ]
    rows += [
        [
            name,
            f"× {spread(ratio(seconds[name], ours))}",
            mb.get(name, ""),
            error.get(name, ""),
        ]
        for name in peers(record)
    ]
    rows += [
        [name, "not run: " + why.removeprefix("not run: "), "", ""]
        for name, why in record["not run"].items()
    ]
    return table(["", "Time", "MB", "Error"], rows)


def _beside(record: Record) -> str:
    """A sentence on floors, parts and the rates of the machine."""
    seconds, ours = record["seconds"], record["seconds"]["ours"]
    said = [
        f"{name.removeprefix('floor ')} {spread(ratio(ours, seconds[name]))}"
        for name in seconds
        if name.startswith("floor")
    ]
    if together := parts(record):
        said.append(f"the sum of its parts {spread(ratio(ours, together))}")
    rates = [
        f"{100 * share(record, what)[1]:.0f}% of {words}"
        for what, words in SHARES.items()
        if record[what]
    ]
    lines = [f"Ours over: {'; '.join(said)}."] if said else []
    lines += [f"Useful work at {' and '.join(rates)}."] if rates else []
    return " ".join(lines)


def origin_table(results: dict[str, dict]) -> str:
    """Where each stored file comes from."""
    rows = []
    for name, result in results.items():
        about = result["about"]
        load = " to ".join(
            str(about["settings"][key])
            for key in ("load before", "load after")
            if key in about["settings"]
        )
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
