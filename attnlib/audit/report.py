"""What an audit found: rows, a table, a verdict in words, a figure, and files.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import html
import json
import os
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from attnlib._require import require, sizes
from attnlib.audit import pictures, verdict
from attnlib.audit.ablation import Verification, verify
from attnlib.audit.heads import LABELS
from attnlib.audit.measures import UNIT, Row

# Where each claim stands in the book; a test compares this with the registry.
PLACES = {
    "after.sharpness": "what_came_after/sharpness",
    "collapse.relative": "path_decomposition/escaping_collapse",
    "efficient.state": "jl_low_rank/complexity_table",
    "escaping.sink": "path_decomposition/escaping_collapse",
    "lowrank.svd": "jl_low_rank/spectra_and_linformer",
    "paths.sums": "path_decomposition/paths",
    "patterns.causal": "sparse_universality/patterns_and_conditions",
    "patterns.universal": "sparse_universality/patterns_and_conditions",
    "synthesis.depth": "synthesis/five_theorems_one_matrix",
    "synthesis.logits": "synthesis/five_theorems_one_matrix",
    "synthesis.rank": "synthesis/five_theorems_one_matrix",
}
HEADS = {  # heading of a column -> quantity; bounds, which often say little, come last
    "looks at": "looks at",
    "top key": "top key",
    "tau": "tau",
    "beta*": "beta*",
    "rank 90%": "energy rank, 90%",
    "pairs 90%": "connections, 90%",
    "floor n/4": "floor, rank n/4",
    "R": "R",
    "at most": "largest tau",
}
LAYERS = {
    "differ": f"relative residual after{UNIT}",
    "heaviest": "heaviest token after",
    "after": "relative residual after",
    "growth": "growth of the diameter",
    "heard 90%": "pairs heard, 90%",
    "last hears": "heard by the last token, 90%",
    "layer <=": "factor of the layer",
    "heads <=": "factor of the heads",
}
WIDEST = 88  # columns
NARROWEST = 30
TOP = 20  # heads in a table
LEGEND = """\
Each number is the worst of the batch; report.rows has the means and all claims.
top key: the token with the most weight in the mean row. looks at, by the first rule
that holds: {labels}. tau: what
the two most different rows do not share. beta*: the logits of a typical row times beta*
are just sharp. rank 90%: singular values that hold 90% of the energy. pairs 90%: share
of pairs that hold 90% of each row. floor n/4: each matrix of rank n/4 is so far off in
some row, by the sum of absolute errors. R: half of the widest span of logits in a row;
at most: what it allows tau to be (Theorem 24.4). differ: what is not common to all
tokens, each at unit length, after the layer; after: the same as they are. heaviest: the
token with the largest share of all squares. growth: of the largest distance of two
tokens, measured. heard 90%, last hears: share of pairs, or of tokens for the last one,
that are heard of by now along these pairs. heads <=, layer <=: by what the heads alone,
or the layer, multiply the largest distance at most. -: not covered, see below. ~: no
constraint, the theorem allows everything here."""


@dataclass(frozen=True, eq=False)
class Report:
    """What the theorems of the book say of a model on some inputs.

    Args:
        rows: one number each, as plain dicts, which pandas.DataFrame takes: layer,
            head, quantity, value, word, mean, bound, claim, covered, why, unit, over,
            dtype, measured_in, url.
        model: the name of the model.
        read: what was read of it.
        subject: the model, its inputs and tokenizer, if it can run again.
    """

    rows: list[Row] = field(repr=False)
    model: str = "model"
    read: str = ""
    subject: tuple | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = WIDEST, top: int | None = TOP) -> str:
        """What print shows, for a page of another width.

        Args:
            width: columns, at least 30; a table that is wider stands in parts.
            top: how many heads, those with the least tau first; None for all in order.

        Returns:
            text, its lines at most so wide.

        Raises:
            ValueError: for a smaller width.
        """
        sizes(NARROWEST, width=width)
        heads, layers = self.grids(top)
        said = [self.model, self.read, *self.notes(top)]
        head = [textwrap.fill(line, width) for line in said[:2] if line]
        parts = ["\n".join(head), _listed(self.verdict(), width)]
        parts += [_table(heads, 2, width), _table(layers, 1, width)]
        legend = [*said[2:], self.legend(), self.claims()]
        parts.append("\n".join(textwrap.fill(line, width) for line in legend))
        left = self.not_covered()
        if left:
            parts.append("Not covered\n" + _listed(left, width))
        return "\n\n".join(parts)

    def grids(self, top: int | None = None) -> list[list[list[str]]]:
        """The numbers by head and by layer, as rows of cells, the heading first.

        Args:
            top: how many heads, those with the least tau first; None for all in order.
        """
        shown = self.rows
        tau = {}
        for row in self.rows:
            if row["quantity"] == "tau":
                tau[row["layer"], row["head"]] = row["value"]
        if top is not None and len(tau) > top:
            sizes(1, top=top)
            least = sorted(tau, key=tau.__getitem__)[:top]
            order = {place: i for i, place in enumerate(least)}
            shown = [r for r in self.rows if (r["layer"], r["head"]) in order]
            shown.sort(key=lambda row: order[row["layer"], row["head"]])
        columns = dict(HEADS)
        if self.idle("at most") or not _known(self.rows, columns["at most"]):
            del columns["R"]  # of which nothing follows then
        heads = _grid(shown, ["layer", "head"], columns)
        return [heads, _grid(self.rows, ["layer"], LAYERS)]

    def notes(self, top: int | None = None) -> list[str]:
        """What the tables leave out: heads, and columns without a constraint.

        Args:
            top: as grids takes it.
        """
        places = {(r["layer"], r["head"]) for r in self.rows if r["head"] is not None}
        said = []
        if top is not None and len(places) > top:
            said.append(
                f"{top} of {len(places)} heads, the least tau first; "
                "print(report.text(top=None)) shows all."
            )
        bounds = ("floor n/4", "at most", "heads <=")
        idle = [name for name in bounds if self.idle(name)]
        if idle:
            said.append(f"No constraint on this model: {', '.join(idle)}.")
        return said

    def idle(self, heading: str) -> bool:
        """Whether a column has numbers, and none of them constrains anything."""
        quantity = {**HEADS, **LAYERS}[heading]
        found = _known(self.rows, quantity)
        return bool(found) and all(_vacuous(row) for row in found)

    def legend(self) -> str:
        """What the columns mean."""
        labels = "; ".join(f"{name}, {rule}" for name, (rule, _) in LABELS.items())
        return LEGEND.format(labels=labels)

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

    def verify(
        self, other: Any = None, *, most: int = 5, seed: int = 0
    ) -> Verification:
        """Do what the report advises: replace heads that it names, one at a time and
        all together, and say what that changes, beside as many random heads.

        A constant head or a sink gives way to its mean output on another text, a head
        of low rank to the nearest map of that rank.

        Args:
            other: inputs to take means of, as run takes them; None for a text of ours.
            most: heads of each kind.
            seed: of the random heads.

        Returns:
            Verification: print it; its rows are plain dicts.

        Raises:
            ValueError: if the model cannot run again, or names no head.
        """
        return verify(self.rows, self.subject, other, most=most, seed=seed)

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
            "read": self.read,
            "verdict": self.verdict(),
            "not_covered": self.not_covered(),
            "rows": self.rows,
        }
        _write(path, json.dumps(found, indent=1, allow_nan=False) + "\n")

    def to_html(self, path) -> None:
        """Write the report as one page that needs no network, light and dark, whole or
        not at all; all numbers with their claims are in to_json.

        Args:
            path: of the file; its folder must exist.

        Raises:
            ValueError: if there is no such folder.
        """
        heads, layers = self.grids()
        legend = " ".join([*self.notes(), self.legend(), self.claims()])
        alt = html.escape(self.alt, quote=True)
        figure = pictures.svg(self.rows)
        page = Template(files(__package__).joinpath("page.html").read_text("utf-8"))
        text = page.substitute(
            title=html.escape(f"Five theorems on {self.model}"),
            read=html.escape(self.read),
            verdict=_items(self.verdict()),
            figure=figure.replace("<svg", f'<svg role="img" aria-label="{alt}"', 1),
            heads=_html("Heads", heads, 2),
            layers=_html("Layers", layers, 1),
            legend=html.escape(legend),
            left=_items(self.not_covered()),
        )
        _write(path, text)


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
        page = PLACES.get(row["claim"])
        url = None
        if page is not None:
            anchor = "claim-" + row["claim"].replace(".", "-")
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
    """A table: a line for each place, a column for each quantity that some row has and
    that says something there.
    """
    found: dict[tuple, dict[str, Row]] = {}
    for row in rows:
        if (row["layer"] is None) or (row["head"] is None) == ("head" in places):
            continue
        place = tuple(row[name] for name in places)
        found.setdefault(place, {})[row["quantity"]] = row
    asked = []
    for heading, quantity in columns.items():
        cells = [each[quantity] for each in found.values() if quantity in each]
        if any(row["value"] is not None and not _vacuous(row) for row in cells):
            asked.append((heading, quantity))
    lines = [[*places, *(heading for heading, _ in asked)]]
    for place, cells in found.items():
        shown = [_cell(cells.get(quantity)) for _, quantity in asked]
        lines.append([*map(str, place), *shown])
    return lines


def _known(rows: list[Row], quantity: str) -> list[Row]:
    """The rows of a quantity that have a value."""
    return [r for r in rows if r["quantity"] == quantity and r["value"] is not None]


def _vacuous(row: Row) -> bool:
    """Whether a bound allows everything that could be, or nearly."""
    value = row["value"]
    if value is None:
        return False
    if row["quantity"] == "largest tau":
        return value > 0.99
    if row["quantity"] == "factor of the heads":
        return value >= 1
    return row["quantity"] == "floor, rank n/4" and value < 0.01


def _cell(row: Row | None) -> str:
    """A number in three digits, or why there is none in a sign."""
    if row is None or row["value"] is None:
        return "-"
    if _vacuous(row):
        return "~"
    if row["quantity"] == "looks at":
        return row["word"]
    said = verdict.number(row)
    return f"{row['word']} {said}" if row["word"] else said


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


def _items(sentences: list[str]) -> str:
    """Sentences as a list of HTML."""
    items = [f"<li>{html.escape(sentence)}</li>" for sentence in sentences]
    return "<ul>\n" + "\n".join(items or ["<li>Nothing.</li>"]) + "\n</ul>"


def _html(caption: str, grid: list[list[str]], names: int) -> str:
    """A table of HTML that scrolls by itself, whose first cells name the row."""
    heading, *lines = grid
    top = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in heading)
    body = []
    for line in lines:
        said = [html.escape(cell) for cell in line]
        cells = [f'<th scope="row">{cell}</th>' for cell in said[:names]]
        cells += [f"<td>{cell}</td>" for cell in said[names:]]
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="wide" role="region" aria-label="{caption}" tabindex="0"><table>'
        f"<caption>{caption}</caption>\n<thead><tr>{top}</tr></thead>\n<tbody>\n"
        + "\n".join(body)
        + "\n</tbody></table></div>"
    )


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
