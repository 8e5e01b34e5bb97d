"""The graph of claims as one drawing: a dot a claim, a column a page, a line from each
claim to what it rests on. An SVG whose dots are links; it needs no script.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from html import escape

LEFT, TOP, COLUMN, ROW, RADIUS = 12, 132, 38, 20, 6
LETTERS = {
    "machine-checked": "M",
    "proved": "P",
    "certified": "C",
    "sampled": "S",
    "unchecked": "?",
    "broken": "!",
}  # what a badge says, for those who see no colours


def draw(claims: list, words: Mapping[str, str], titles: Mapping[str, str]) -> str:
    """The drawing.

    Args:
        claims: in the order of the registry.
        words: what is shown of each, by its id.
        titles: of the pages, in their order, by name.
    """
    pages = list(titles)
    at, filled = {}, dict.fromkeys(pages, 0)
    for claim in claims:
        place = LEFT + COLUMN * pages.index(claim.page), TOP + ROW * filled[claim.page]
        at[claim.id] = place
        filled[claim.page] += 1
    width = 2 * LEFT + COLUMN * len(pages) + 60  # the last title leans to the right
    height = TOP + ROW * max(filled.values())
    parts = [
        _column(title, LEFT + COLUMN * k) for k, title in enumerate(titles.values())
    ]
    lines = [_line(at[used], at[c.id]) for c in claims for used in c.uses]
    parts.append(f'<path d="{"".join(lines)}"/>')
    parts += [_dot(claim, at[claim.id], words[claim.id]) for claim in claims]
    return (
        f'<svg class="claim-graph" viewBox="0 0 {width} {height}" width="{width}" '
        'role="group" xmlns="http://www.w3.org/2000/svg" '
        'aria-label="Which claim rests on which; the list below says the same">'
        f"{''.join(parts)}</svg>"
    )


def _column(title: str, x: int) -> str:
    place = f'x="{x}" y="{TOP - 12}" transform="rotate(-40 {x} {TOP - 12})"'
    shown = textwrap.shorten(title.replace("$", ""), 30, placeholder=" …")
    return f"<text {place}>{escape(shown)}</text>"


def _line(start: tuple[int, int], end: tuple[int, int]) -> str:
    """A curve; within a column it bulges to the right."""
    (x, y), (u, v) = start, end
    out, back = (14, -14) if x == u else 2 * ((u - x) // 2,)
    return f"M{x} {y}C{x + out} {y} {u - back} {v} {u} {v}"


def _dot(claim, place: tuple[int, int], word: str) -> str:
    x, y = place
    name = claim.id.replace(".", "-")
    return (
        f'<a class="claim-{word}" href="#status-{name}"><title>{claim.id}</title>'
        f'<circle cx="{x}" cy="{y}" r="{RADIUS}"/>'
        f'<text x="{x}" y="{y + 3}">{LETTERS[word]}</text></a>'
    )
