"""What an audit found: rows, a table, a verdict in words, a figure, and files.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from attnlib._require import require, sizes
from attnlib.audit import pictures, sheet, verdict
from attnlib.audit.measures import Row

# Where each claim stands in the book; a test compares this with the registry.
PLACES = {
    "after.sharpness": "what_came_after/sharpness#theorem-21-2",
    "collapse.relative": "path_decomposition/escaping_collapse#theorem-4-11",
    "efficient.state": "jl_low_rank/complexity_table#proposition-8-11",
    "lowrank.svd": "jl_low_rank/spectra_and_linformer#theorem-7-1",
    "paths.sums": "path_decomposition/paths#theorem-1-7",
    "patterns.causal": "sparse_universality/patterns_and_conditions#proposition-11-5",
    "patterns.universal": "sparse_universality/patterns_and_conditions#theorem-11-24",
    "synthesis.depth": "synthesis/five_theorems_one_matrix#corollary-19-3",
    "synthesis.logits": "synthesis/five_theorems_one_matrix#theorem-19-2",
    "synthesis.rank": "synthesis/five_theorems_one_matrix#theorem-19-1",
}
HEADS = {  # heading of a column -> quantity
    "R": "R",
    "tau": "tau",
    "at most": "largest tau",
    "beta*": "beta*",
    "rank 90%": "energy rank, 90%",
    "floor n/4": "floor, rank n/4",
    "pairs 90%": "connections, 90%",
    "hops 90%": "hops, 90%",
}
LAYERS = {
    "residual": "relative residual before",
    "after": "relative residual after",
    "growth": "growth of the diameter",
    "heads <=": "factor of the heads",
    "layer <=": "factor of the layer",
    "heard 90%": "pairs heard, 90%",
    "last hears": "heard by the last token, 90%",
    "equal": "equal tokens not told apart",
}
WIDEST = 88  # columns
NARROWEST = 30
LEGEND = """\
Each number is the worst of the batch; report.rows has the means and all claims.
R: half of the widest span of logits in a row. tau: what the two most different rows do
not share; at most: what R allows (Theorem 19.2). beta*: the logits of a typical row
times beta* are just sharp. rank 90%: singular values that hold 90% of the energy.
floor n/4: each matrix of rank n/4 is so far off in some row, by the sum of absolute
errors. pairs 90%: share of pairs that hold 90% of each row. hops 90%: layers of these
pairs until all tokens have heard of all; heard 90%: share of pairs that have by this
layer. residual, after: what differs between tokens, before and after the layer.
growth: of the largest distance of two tokens, measured. heads <=, layer <=: by what
the heads alone, or the layer, multiply it at most. equal: pairs of equal tokens, at
two places or in two texts, that leave as one vector. -: not covered, see below."""


@dataclass(frozen=True, eq=False)
class Report:
    """What the theorems of the book say of a model on some inputs.

    Args:
        rows: one number each, as plain dicts, which pandas.DataFrame takes: layer,
            head, quantity, value, mean, bound, claim, covered, why, unit, over, dtype,
            measured_in, url.
        model: the name of the model.
    """

    rows: list[Row] = field(repr=False)
    model: str = "model"

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = WIDEST) -> str:
        """What print shows, for a page of another width.

        Args:
            width: columns, at least 30; a table that is wider stands in parts.

        Returns:
            text, its lines at most so wide.

        Raises:
            ValueError: for a smaller width.
        """
        sizes(NARROWEST, width=width)
        heads, layers = self.grids()
        parts = [self.model, _table(heads, 2, width), _table(layers, 1, width)]
        legend = [textwrap.fill(said, width) for said in (LEGEND, self.claims())]
        parts.append("\n".join(legend))
        parts.append(_listed(self.verdict(), width))
        left = self.not_covered()
        if left:
            parts.append("Not covered\n" + _listed(left, width))
        return "\n\n".join(parts)

    def grids(self) -> list[list[list[str]]]:
        """The numbers by head and by layer, as rows of cells, the heading first."""
        return [
            _grid(self.rows, ["layer", "head"], HEADS),
            _grid(self.rows, ["layer"], LAYERS),
        ]

    def claims(self) -> str:
        """Which claim stands behind each column, as one sentence."""
        ids = {row["quantity"]: row["claim"] for row in self.rows}
        columns: dict[str, list[str]] = {}
        for heading, quantity in {**HEADS, **LAYERS}.items():
            if ids.get(quantity):
                columns.setdefault(ids[quantity], []).append(heading)
        said = [f"{', '.join(names)}: {name}" for name, names in columns.items()]
        return "Claims: " + "; ".join(said) + ". The rest is measured."

    def verdict(self) -> list[str]:
        """What the numbers mean, in plain sentences."""
        return verdict.sentences(self.rows)

    def not_covered(self) -> list[str]:
        """What no theorem says here, and why, a line each."""
        return verdict.not_covered(self.rows)

    @property
    def alt(self) -> str:
        """The figure in words, for those who do not see it."""
        return pictures.alt(self.rows)

    def figure(self):
        """The numbers by layer as a matplotlib Figure; `report.alt` says it in words.

        Returns:
            matplotlib.figure.Figure.
        """
        return pictures.draw(self.rows)

    def to_json(self, path) -> None:
        """Write the rows, the verdict and what is not covered as one JSON file, whole
        or not at all.

        Args:
            path: of the file; its folder must exist.

        Raises:
            ValueError: if there is no such folder, or a number is NaN or infinite.
        """
        found = {
            "model": self.model,
            "verdict": self.verdict(),
            "not_covered": self.not_covered(),
            "rows": self.rows,
        }
        _write(path, json.dumps(found, indent=1, allow_nan=False) + "\n")

    def to_html(self, path) -> None:
        """Write the report as one page that needs no network, light and dark, whole or
        not at all.

        Args:
            path: of the file; its folder must exist.

        Raises:
            ValueError: if there is no such folder.
        """
        _write(path, sheet.page(self))


def with_links(rows: Iterable[Row]) -> list[Row]:
    """Rows with the address of their claim in the book, as far as it is known.

    Args:
        rows: as Collector.finish returns them.

    Returns:
        the same dicts, each with a url or None.
    """
    base = _address()
    linked = []
    for row in rows:
        place = PLACES.get(row["claim"])
        url = None
        if place is not None:
            page, anchor = place.split("#")
            url = f"{base}notebooks/{page}.html#{anchor}"
        linked.append({**row, "url": url})
    return linked


def _address() -> str:
    """Where the book stands, by what the package was installed with; else nothing, and
    names of pages are relative.
    """
    try:
        addresses = metadata.metadata("attnlib").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    for line in addresses:
        name, _, address = line.partition(", ")
        if name == "Book" and "owner.github.io" not in address.lower():
            return address.rstrip("/") + "/"
    return ""


def _grid(
    rows: list[Row], places: list[str], columns: dict[str, str]
) -> list[list[str]]:
    """A table: a line for each place, a column for each quantity that some row has."""
    found: dict[tuple, dict[str, Row]] = {}
    for row in rows:
        if (row["layer"] is None) or (row["head"] is None) == ("head" in places):
            continue
        place = tuple(row[name] for name in places)
        found.setdefault(place, {})[row["quantity"]] = row
    asked = []
    for heading, quantity in columns.items():
        if any(quantity in cells for cells in found.values()):
            asked.append((heading, quantity))
    lines = [[*places, *(heading for heading, _ in asked)]]
    for place, cells in found.items():
        shown = [_cell(cells.get(quantity)) for _, quantity in asked]
        lines.append([*map(str, place), *shown])
    return lines


def _cell(row: Row | None) -> str:
    """A number in three digits, or why there is none in a word."""
    if row is None or not row["covered"]:
        return "-"
    if row["value"] is None:
        return "never" if row["why"] == "never" else "none yet"
    return verdict.number(row)


def _table(grid: list[list[str]], names: int, width: int) -> str:
    """A table in as many parts as fit the width; the first columns, which name the
    lines, stand in each.
    """
    columns = []
    for cells in zip(*grid):
        widest = max(map(len, cells)) + 2
        columns.append([f"{cell:>{widest}}" for cell in cells])
    parts = [columns[:names]]
    for column in columns[names:]:
        taken = sum(len(other[0]) for other in parts[-1])
        if taken + len(column[0]) > width:
            parts.append(columns[:names])
        parts[-1].append(column)
    return "\n\n".join("\n".join(map("".join, zip(*part))) for part in parts)


def _listed(sentences: list[str], width: int) -> str:
    """Sentences as the items of a list."""
    items = []
    for sentence in sentences:
        indents = {"initial_indent": "- ", "subsequent_indent": "  "}
        items.append(textwrap.fill(sentence, width, **indents))
    return "\n".join(items)


def _write(path, text: str) -> None:
    """A file whole or not at all: it takes its name when it is complete."""
    target = Path(path)
    require(
        target.parent.is_dir(),
        f"path must lie in a folder that exists, got {str(path)!r}",
    )
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
