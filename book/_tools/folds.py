"""Folded passages of a page: how they are written, and what can be wrong with them.

A fold stands inside one Markdown cell, in plain Markdown that the book, Colab and
GitHub all read:

    <details><summary>Proof of Proposition 1.5</summary>

    Paragraphs, displayed formulas, boxes, lists, tables, further folds; no headings.

    </details>

The two lines with tags stand alone, at the left margin, between blank lines: without
a blank line the Markdown behind a tag is shown as it was typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

OPEN = re.compile(r"<details><summary>(.*)</summary>")
CLOSE = "</details>"
FORM = "<details><summary>Words</summary>"

HEADING = re.compile(r"#{1,6}\s")
UNDERLINE = re.compile(r"(=+|-+)\s*")  # below a line of text it makes a heading, too
FENCE = re.compile(r"\s*(```|~~~)")
INLINE_CODE = re.compile(r"`[^`]*`")
TAG = re.compile(r"</?(details|summary)\b")
MARKUP = re.compile(r"[$*`\[\]<>]")  # GitHub and Colab show it as it was typed


def fenced(lines: list[str]) -> list[bool]:
    """For each line, whether it belongs to a fenced block of code."""
    found, inside = [], False
    for line in lines:
        fence = bool(FENCE.match(line))
        found.append(inside or fence)
        inside ^= fence
    return found


def with_folds(source: str) -> Iterator[tuple[str, str | None]]:
    """Each line of a cell with the summary of the outermost fold it stands in, if any.

    The lines that open and close folds are left out.
    """
    open_folds: list[str] = []
    lines = source.splitlines()
    for line, code in zip(lines, fenced(lines)):
        opening = None if code else OPEN.fullmatch(line.rstrip())
        if opening:
            open_folds.append(opening[1].strip())
        elif not code and line.rstrip() == CLOSE:
            del open_folds[-1:]
        else:
            yield line, open_folds[0] if open_folds else None


def faults(source: str) -> Iterator[str]:
    """What is wrong with the folds of a Markdown cell, in words."""
    open_folds: list[str] = []
    lines = source.splitlines()
    for place, (line, code) in enumerate(zip(lines, fenced(lines))):
        if code:
            continue
        before = lines[place - 1].strip() if place > 0 else ""
        after = lines[place + 1].strip() if place + 1 < len(lines) else ""
        opening = OPEN.fullmatch(line.rstrip())
        closing = line.rstrip() == CLOSE
        if opening:
            open_folds.append(opening[1].strip())
            yield from summary_faults(open_folds[-1])
        elif closing and open_folds:
            open_folds.pop()
        elif closing:
            yield f"{CLOSE} closes no fold of this cell"
        elif TAG.search(INLINE_CODE.sub("", line)):
            yield f"a fold is written {FORM} or {CLOSE}, alone on a line: {line}"
        elif open_folds and is_heading(line, before):
            yield f"a heading in the fold {open_folds[-1]!r}: {line}"
        if (opening or closing) and (before or after):
            yield f"no blank line before and after {line}"
    for summary in open_folds:
        yield f"the fold {summary!r} is not closed in its cell"


def summary_faults(summary: str) -> Iterator[str]:
    if not summary:
        yield "a fold without words: what would a reader open?"
    if MARKUP.search(summary):
        yield f"the words of a fold are plain, without formulas or marks: {summary}"


def is_heading(line: str, before: str) -> bool:
    underlined = before and not before.startswith("|") and UNDERLINE.fullmatch(line)
    return bool(HEADING.match(line) or underlined)
