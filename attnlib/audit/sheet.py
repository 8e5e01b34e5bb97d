"""An audit as one page of HTML that needs no network.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable

STYLE = """\
:root { color-scheme: light dark; --ink: #1d1d1d; --paper: #fff; --line: #ccc; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --paper: #16181c; --line: #444; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .5rem 0; }
th, td { padding: .2rem .7rem; text-align: right;
  border-bottom: 1px solid var(--line); }
figure { margin: 1rem 0; background: #fff; border-radius: .3rem;
  width: fit-content; max-width: 100%; }
svg { max-width: 100%; height: auto; display: block; }
a { color: inherit; }
"""
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<h2>In words</h2>
{verdict}
<figure>{figure}</figure>
<h2>By head and by layer</h2>
{tables}
<p>{legend}</p>
<h2>Not covered</h2>
{left}
<h2>All numbers</h2>
<details><summary>{count} rows, each with its claim</summary>
{rows}
</details>
</main>
</body>
</html>
"""
HIDDEN = {"covered", "dtype", "measured_in", "url"}  # of a row


def page(report) -> str:
    """The whole page.

    Args:
        report: a Report.

    Returns:
        HTML with style and figure inside; nothing is loaded.
    """
    from attnlib.audit.report import LEGEND

    heads, layers = report.grids()
    tables = [_grid("Heads", heads, headers=2), _grid("Layers", layers, headers=1)]
    return PAGE.format(
        title=html.escape(f"Five theorems on {report.model}"),
        style=STYLE,
        verdict=_list(report.verdict()),
        figure=svg(report.figure(), report.alt),
        tables="\n".join(tables),
        legend=html.escape(f"{LEGEND} {report.claims()}"),
        left=_list(report.not_covered()),
        count=len(report.rows),
        rows=_all(report.rows),
    )


def svg(figure, alt: str) -> str:
    """A figure as SVG that stands in a page, with a text for those who do not see it.

    Args:
        figure: of matplotlib.
        alt: what it shows.

    Returns:
        an svg element.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    drawn = buffer.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.S)
    said = html.escape(alt, quote=True)
    return drawn.replace("<svg", f'<svg role="img" aria-label="{said}"', 1)


def _list(sentences: list[str]) -> str:
    items = [f"<li>{html.escape(sentence.strip())}</li>" for sentence in sentences]
    if not items:
        return "<p>Nothing.</p>"
    return "<ul>\n" + "\n".join(items) + "\n</ul>"


def _grid(caption: str, grid: list[list[str]], *, headers: int) -> str:
    """A table whose first cells name the row."""
    heading, *lines = grid
    body = []
    for line in lines:
        said = [html.escape(cell) for cell in line]
        named = [f'<th scope="row">{cell}</th>' for cell in said[:headers]]
        body.append("".join(named + [f"<td>{cell}</td>" for cell in said[headers:]]))
    return _table(caption, heading, body)


def _table(caption: str, heading: list[str], body: Iterable[str]) -> str:
    """A table that scrolls by itself; the body as the cells of each row."""
    top = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in heading)
    rows = "\n".join(f"<tr>{cells}</tr>" for cells in body)
    return (
        f'<div class="wide" role="region" aria-label="{caption}" tabindex="0"><table>'
        f"<caption>{caption}</caption>\n<thead><tr>{top}</tr></thead>\n<tbody>\n"
        f"{rows}\n</tbody></table></div>"
    )


def _all(rows: list[dict]) -> str:
    """Every row, but not all of its fields."""
    names = [name for name in rows[0] if name not in HIDDEN]
    body = []
    for row in rows:
        body.append("".join(f"<td>{_field(row, name)}</td>" for name in names))
    return _table("All numbers", names, body)


def _field(row: dict, name: str) -> str:
    """A value of a row; the claim is a link to its place in the book."""
    value = row[name]
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    said = html.escape(str(value))
    if name == "claim" and row["url"]:
        return f'<a href="{html.escape(row["url"], quote=True)}">{said}</a>'
    return said
