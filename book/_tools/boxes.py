"""The boxes of the pages: where the book says what it claims, and nowhere else.

    > **Theorem 1.2 (Path decomposition).** Let ... Then ...

What is said of a claim elsewhere, its evidence, rests on the words in its box. So a
digest of them stands beside the evidence, and when they differ the claim is unchecked
until somebody has looked and said so (claims.py accept ID).
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from posixpath import dirname, join, normpath

import pages

KINDS = (
    "Theorem|Lemma|Proposition|Corollary|Definition|Example|Remark|Algorithm|Exercise"
)
NUMBER = r"(\d+(?:\.\d+)*)"
QUOTE = re.compile(r"(?:^>.*(?:\n|\Z))+", re.M)
TITLE = re.compile(rf"\*\*({KINDS}) {NUMBER}(?: \(([^*]*)\))?\.?\*\*\s*")
TAG = re.compile(r"\s*\\tag\*?\{[^}]+\}")
LINK = re.compile(r"\]\(([\w./-]*\.ipynb)?(#[\w.-]+)?\)")
SENTENCE = re.compile(r"\*\(([a-z])\)\*")  # how a box marks its sentences


def slug(kind: str, number: str) -> str:
    """The id of a numbered thing: ("Theorem", "1.2") -> "theorem-1.2"."""
    return f"{kind.lower()}-{number}"


def read(root: Path) -> dict[str, str]:
    """ "page#anchor" -> what stands in that box, in Markdown and without its title."""
    found = {}
    for path in sorted((root / "notebooks").rglob("*.ipynb")):
        page = path.relative_to(root / "notebooks").with_suffix("").as_posix()
        for cell in pages.read(path)["cells"]:
            if cell["cell_type"] == "markdown":
                for anchor, text in of_text("".join(cell["source"])):
                    found[f"{page}#{anchor}"] = text
    return found


def of_text(text: str) -> list[tuple[str, str]]:
    """(anchor, words) of each box in a piece of Markdown."""
    found = []
    for quote in QUOTE.findall(text):
        lines = [line[1:].removeprefix(" ") for line in quote.splitlines()]
        inside = "\n".join(lines)
        if title := TITLE.match(inside):
            words = inside[title.end() :].strip()
            found.append((slug(title[1], title[2]), words))
    return found


def digest(text: str | None) -> str:
    """A short hash of the words of a box; its line breaks and the numbers of its
    equations may change.
    """
    if text is None:
        return ""
    plain = " ".join(TAG.sub("", text).split())
    return hashlib.sha256(plain.encode()).hexdigest()[:12]


def elsewhere(text: str, page: str) -> str:
    """The words of a box for another page: links lead to the page that they are of,
    and equations lose their numbers, as an id stands once.
    """
    own = f"/notebooks/{page}.ipynb"
    folder = dirname(own)

    def link(match: re.Match) -> str:
        page_of = normpath(join(folder, match[1])) if match[1] else own
        return f"]({page_of}{match[2] or ''})"

    return TAG.sub("", LINK.sub(link, text))
