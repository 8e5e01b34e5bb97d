"""The executed pages, kept for the site: _build/pages has a folder for each page, and
in it a file for each state of its code and of all that it depends on.

A page that did not run to its end leaves a file that says where. What cannot be read is
not there, and its page is run again.
"""

from __future__ import annotations

import ast
import contextlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import depends
import pages
import tried

FOLDER, KEPT = "_build/pages", 3
# a listing has colours by this, also if its page has not run
LANGUAGE = {"name": "python", "pygments_lexer": "ipython3"}


class Shelf:
    """What is kept of each page as it is now, with the code as it is now."""

    def __init__(self, root: Path) -> None:
        self.root, self.code = root, depends.Code(root)

    def place(self, path: Path) -> Path:
        """Where a page is kept, without suffix: named after all that it depends on."""
        cells = code_of(tried.with_questions(path))
        texts = map(pages.without_magics, (source for source, _ in cells))
        # a cell that is no Python names nothing, and must not hide what others name
        whole = "\n".join(text for text in texts if is_python(text))
        key = self.code.key(self.code.files_of(whole), json.dumps(cells))
        name = pages.page_name(path, self.root)
        return self.root / FOLDER / name / key[:16]

    def executed(self, path: Path) -> dict | None:
        """The page with all outputs, if it has run."""
        try:
            kept = pages.read(self.place(path).with_suffix(".ipynb"))
            whole = code_of(kept) == code_of(pages.read(path))
        except (pages.Problem, KeyError, TypeError):  # whatever it is, it is no page
            return None
        return kept if whole else None

    def failure(self, path: Path) -> str | None:
        """Where and why a page failed when it was last run."""
        place = self.place(path).with_suffix(".failed")
        return place.read_text(encoding="utf-8") if place.exists() else None

    def keep(self, executed: dict, path: Path) -> None:
        place = self.place(path)
        text = json.dumps(executed, ensure_ascii=False)
        pages.write_atomically(place.with_suffix(".ipynb"), text)
        place.with_suffix(".failed").unlink(missing_ok=True)

    def fail(self, why: str, path: Path) -> None:
        pages.write_atomically(self.place(path).with_suffix(".failed"), why)

    def prune(self, paths: Iterable[Path]) -> None:
        """Keep the newest states of these pages, so that going back and forth between
        versions is quick.
        """
        used = {self.place(path) for path in paths}
        for place in used:
            with contextlib.suppress(OSError):
                place.with_suffix(".ipynb").touch()
        mine = {place.parent for place in used}
        found = [path for path in (self.root / FOLDER).rglob("*") if path.is_file()]
        for folder in {path.parent for path in found}:
            if folder not in mine:
                shutil.rmtree(folder, ignore_errors=True)
            newest = sorted(folder.glob("*"), key=lambda path: -path.stat().st_mtime)
            for old in newest[KEPT:]:
                old.unlink()


def code_of(notebook: dict) -> list[tuple[str, list[str]]]:
    """What is run of a page: the text and the tags of its code cells."""
    return [
        ("".join(cell["source"]), cell["metadata"].get("tags", []))
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def failures(root: Path, names: Iterable[str]) -> dict[str, str]:
    """Why claims of these pages do not stand: a sentence for each page that failed."""
    shelf, found = Shelf(root), {}
    for name in set(names):
        path = root / "notebooks" / f"{name}.ipynb"
        if path.exists() and (why := shelf.failure(path)):
            found[name] = f"its page did not run here: {why}"
    return found


# ---------------------------------------------------------------- for the site


def shown(notebook: dict, executed: dict | None, why: str | None) -> dict:
    """A page as the site shows it: with what its cells gave; or, if it has not run,
    with what is stored in it and a word at its head that says so.
    """
    cells = notebook["cells"]
    if executed is None:
        notebook["metadata"]["language_info"] = LANGUAGE
        if code_of(notebook):
            warn(cells, why or NOT_RUN)
        return notebook
    ran = iter(cell for cell in executed["cells"] if cell["cell_type"] == "code")
    for cell in cells:
        if cell["cell_type"] == "code":
            done = next(ran)
            cell["outputs"] = done["outputs"]
            cell["execution_count"] = done["execution_count"]
    return notebook | {"metadata": executed["metadata"]}


WARNING = """
:::{{admonition}} This page did not run here
:class: danger

When this copy of the book was built, this happened:

``````text
{}
``````

So figures are missing, what cells print is what was stored with the page, and its
claims are *unchecked*.
:::
"""
NOT_RUN = "it was not run at all; python book/_tools/build.py runs it"


def warn(cells: list[dict], why: str) -> None:
    """Put a warning below the title."""
    first = next(cell for cell in cells if cell["cell_type"] == "markdown")
    title, *text = "".join(first["source"]).split("\n")
    first["source"] = "\n".join([title, WARNING.format(why), *text])
