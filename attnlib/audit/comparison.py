"""Two reports beside each other: what changed, by layer and head, largest first.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

from dataclasses import dataclass

from attnlib._require import is_a, require, sizes
from attnlib.audit import verdict
from attnlib.audit.measures import Row
from attnlib.audit.report import HEADS, LAYERS, TOP, Report


@dataclass(frozen=True, eq=False)
class Comparison:
    """What differs between two reports.

    Args:
        rows: plain dicts, the largest change first: layer, head, column, before, after
            (rows of the two reports) and change, in shares of the range of the column
            over both reports; a label that changed has the change 1.
        names: of the two models.
    """

    rows: list[Row]
    names: tuple[str, str]

    def __str__(self) -> str:
        return self.text()

    def text(self, top: int | None = TOP) -> str:
        """What print shows.

        Args:
            top: how many changes; None for all.
        """
        if top is not None:
            sizes(1, top=top)
        changed = [row for row in self.rows if row["change"] > 0]
        labels = [row for row in changed if row["column"] == "looks at"]
        said = [
            f"{self.names[0]} -> {self.names[1]}",
            f"{len(changed)} of {len(self.rows)} numbers differ; {len(labels)} heads "
            "changed where they look.",
        ]
        if changed:
            said.append(
                f"{'layer':>7}{'head':>6}{'column':>12}{'before':>14}{'after':>14}"
                f"{'change':>9}"
            )
        for row in changed[:top]:
            head = "" if row["head"] is None else row["head"]
            cells = [_said(row["column"], row[when]) for when in ("before", "after")]
            said.append(
                f"{row['layer']:>7}{head:>6}{row['column']:>12}{cells[0]:>14}"
                f"{cells[1]:>14}{row['change']:>9.1%}"
            )
        if changed:
            said.append(
                "change: as a share of the range of the column in both reports."
            )
        return "\n".join(said)


def compare(before: Report, after: Report) -> Comparison:
    """What changed from one report to another: quantised and original, two steps of a
    training, base and tuned.

    Args:
        before, after: reports of models of one architecture on the same inputs.

    Returns:
        Comparison: print it; its rows are plain dicts.

    Raises:
        ValueError: if the reports have different layers or heads, or inputs of
            different sizes.
    """
    is_a(Report, before=before, after=after)
    require(
        before.read == after.read,
        "the reports must be of one architecture on the same inputs, got "
        f"{before.read!r} and {after.read!r}",
    )
    columns = {quantity: name for name, quantity in {**HEADS, **LAYERS}.items()}
    ours = _numbers(before, columns)
    theirs = _numbers(after, columns)
    heads = {place[:2] for place in ours} == {place[:2] for place in theirs}
    require(heads, "the reports must have the same layers and heads")
    ranges = {}
    for (_, _, column), row in [*ours.items(), *theirs.items()]:
        ranges.setdefault(column, []).append(row["value"])
    rows = []
    for place, old in ours.items():
        new = theirs.get(place)
        if new is None:
            continue
        layer, head, column = place
        spread = max(ranges[column]) - min(ranges[column])
        change = abs(new["value"] - old["value"]) / spread if spread else 0.0
        if column == "looks at":
            change = float(old["word"] != new["word"])
        found = {"layer": layer, "head": head, "column": column}
        rows.append({**found, "before": old, "after": new, "change": change})
    rows.sort(key=_change, reverse=True)
    return Comparison(rows, (before.model, after.model))


def _change(row: Row) -> float:
    return row["change"]


def _numbers(report: Report, columns: dict[str, str]) -> dict[tuple, Row]:
    """The rows that tables show, by layer, head and column."""
    found = {}
    for row in report.rows:
        column = columns.get(row["quantity"])
        if column and row["value"] is not None and row["layer"] is not None:
            found[row["layer"], row["head"], column] = row
    return found


def _said(column: str, row: Row) -> str:
    return row["word"] if column == "looks at" else verdict.number(row)
