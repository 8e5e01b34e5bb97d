"""What must be true of the book on paper: read from the PDF, after it was made."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from pypdf import PdfReader

MOST_BYTES = 15_000_000
RAW = re.compile(r"\\(?:tag|frac|[()\[\]])|\$|Math input error")


def statements(root: Path, names: list[str]) -> list[str]:
    """The name and number of each claim that stands on one of the pages."""
    text = (root / "book/claims.toml").read_text(encoding="utf-8")
    found = []
    for claim in tomllib.loads(text).get("claim", []):
        if f"notebooks/{claim['page']}" in names:
            kind, number = claim["anchor"].split("-", 1)
            found.append(f"{kind.capitalize()} {number}")
    return sorted(set(found))


def text_and_formulas(page) -> tuple[str, list[str]]:
    """All words of a page, and what is TeX outside code."""
    raw = []

    def visit(text, _matrix, _line, font, _size):
        code = "Mono" in str((font or {}).get("/BaseFont", ""))
        if not code:
            raw.extend(RAW.findall(text))

    return page.extract_text(visitor_text=visit), raw


def faults(path: Path, titles: list[str], wanted: list[str]) -> list[str]:
    """All that is wrong with a book on paper."""
    reader = PdfReader(path)
    found, words = [], ""
    places = set(reader.named_destinations)
    for number, page in enumerate(reader.pages, 1):
        text, raw = text_and_formulas(page)
        words += " ".join(text.split()) + " "
        found += [f"page {number}: formula not typeset: {tex}" for tex in raw]
        for link in page.get("/Annots", []):
            wrong = link_faults(link.get_object(), places)
            found += [f"page {number}: {fault}" for fault in wrong]
    found += [f"missing: {name}" for name in wanted if not says(words, name)]
    in_outline = set(outline_titles(reader.outline))
    found += [f"not in the outline: {t}" for t in titles if t not in in_outline]
    if len(reader.pages) < 2 + len(titles):
        found.append(f"only {len(reader.pages)} pages")
    if path.stat().st_size > MOST_BYTES:
        found.append(f"{path.stat().st_size} bytes are more than {MOST_BYTES}")
    return found


def link_faults(link: dict, places: set[str]) -> list[str]:
    """What is wrong with a link: no such place in the book, or one on this machine."""
    if "/Dest" in link:
        return [] if link["/Dest"] in places else [f"dead link: {link['/Dest']}"]
    to = str(link.get("/A", {}).get("/URI", ""))
    return [] if to.startswith(("https://", "mailto:")) else [f"link to {to!r}"]


def says(words: str, name: str) -> bool:
    """Whether a text has this name, and not only a longer number."""
    return re.search(rf"{re.escape(name)}(?![\d.]*\d)", words) is not None


def outline_titles(entries: list) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, list):
            yield from outline_titles(entry)
        else:
            yield entry["/Title"]
