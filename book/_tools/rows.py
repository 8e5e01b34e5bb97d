"""Draws the moving picture of the title page: the rows of an attention matrix, one
after the other, and where the token of each row looks.

    python book/_tools/rows.py [FILE]

writes book/_static/rows.svg, or FILE. It moves for five seconds and then rests; where a
reader wants no motion, and on paper, it rests from the start.
"""

import sys
from pathlib import Path

import numpy as np
from cover import BLUE, INK, VERMILLION, attention, tint

TARGET = Path(__file__).parents[1] / "_static" / "rows.svg"
WIDTH, HEIGHT = 600, 236  # everything below is placed in these units
CELL, LEFT, TOP = 19, 4, 34  # of the matrix
FIRST, STEP = 262, 36  # of the tokens
ABOVE, BELOW = 66, 192
SECONDS, AT_REST = 0.48, 3  # a row; the row that looks far
FAINT = 0.02  # weights below are not drawn
STYLE = f"""
text {{ font: 19px system-ui, sans-serif; fill: {INK}; }}
.row {{ visibility: hidden; animation: look {SECONDS}s step-end; }}
.rest {{ animation: wait {{wait}}s step-end; }}
@keyframes look {{ from {{ visibility: visible; }} }}
@keyframes wait {{ from {{ visibility: hidden; }} }}
@media print, (prefers-reduced-motion: reduce) {{
  .row, .rest {{ animation: none; }}
}}
"""


def colour(value: float) -> str:
    """From the palest blue to the full one."""
    red, green, blue = (round(255 * part) for part in tint(BLUE)(value))
    return f"#{red:02x}{green:02x}{blue:02x}"


def matrix(p: np.ndarray) -> list[str]:
    return [
        f'<rect x="{LEFT + CELL * j}" y="{TOP + CELL * i}" width="{CELL - 1}" '
        f'height="{CELL - 1}" fill="{colour(np.sqrt(weight / p.max()))}"/>'
        for (i, j), weight in np.ndenumerate(p)
    ]


def token(j: int, height: int, colour: str = "#9aa3ab", radius: int = 6) -> str:
    x = FIRST + STEP * j
    return f'<circle cx="{x}" cy="{height}" r="{radius}" fill="{colour}"/>'


def look(p: np.ndarray, i: int) -> list[str]:
    """A row in its frame, and a line from its token to each that it looks at."""
    frame = (
        f'<rect x="{LEFT - 2}" y="{TOP + CELL * i - 2}" width="{CELL * len(p) + 3}" '
        f'height="{CELL + 3}" fill="none" stroke="{VERMILLION}" stroke-width="3"/>'
    )
    lines = [
        f'<line x1="{FIRST + STEP * i}" y1="{ABOVE}" x2="{FIRST + STEP * j}" '
        f'y2="{BELOW}" stroke="{VERMILLION}" stroke-width="{14 * weight:.1f}"/>'
        for j, weight in enumerate(p[i])
        if weight > FAINT
    ]
    return [frame, *lines, token(i, ABOVE, VERMILLION, 9)]


def group(kind: str, content: list[str], start: float = 0) -> str:
    style = f' style="animation-delay: {start:.2f}s"' if start else ""
    return f'<g class="{kind}"{style}>{"".join(content)}</g>'


def draw() -> str:
    p = attention()
    n = len(p)
    rows = [group("row", look(p, i), SECONDS * i) for i in range(n)]
    tokens = [token(j, height) for height in (ABOVE, BELOW) for j in range(n)]
    middle = FIRST + STEP * (n - 1) // 2
    words = [
        f'<text x="{LEFT}" y="20">the attention matrix</text>',
        f'<text x="{middle}" y="40" text-anchor="middle">a token looks</text>',
        f'<text x="{middle}" y="226" text-anchor="middle">at the tokens below</text>',
    ]
    style = STYLE.replace("{wait}", f"{SECONDS * n:.2f}")
    parts = [*words, *matrix(p), *tokens, *rows, group("rest", look(p, AT_REST))]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}">\n<style>{style}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    Path(*sys.argv[1:2] or [TARGET]).write_text(draw(), encoding="utf-8")
