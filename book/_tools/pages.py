"""Where the pages are, and how they are read and written.

Shared by the tools and by the Sphinx extensions.  Needs only the standard
library and, for the table of contents, PyYAML.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Problem(Exception):
    """Something the caller can mend; shown as one line, without a traceback."""


def listed(root: Path = ROOT) -> list[Path]:
    """The files named in _toc.yml, in reading order."""
    import yaml

    try:
        toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
        names = [
            toc["root"],
            *(entry["file"] for entry in entries_below(toc) if "file" in entry),
        ]
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        words = " ".join(str(error).split())
        raise Problem(
            f"_toc.yml cannot be read: {type(error).__name__}: {words}"
        ) from None
    return [find(root, name) for name in names]


def entries_below(node: dict):
    """All entries of a table of contents below `node`, depth first."""
    for part in ("parts", "subtrees", "chapters", "entries", "sections"):
        for child in node.get(part, []):
            yield child
            yield from entries_below(child)


def find(root: Path, name: str) -> Path:
    for suffix in ("", ".ipynb", ".md"):
        if (path := root / (name + suffix)).is_file():
            return path
    raise Problem(f"_toc.yml names {name}, which is not there")


def notebooks(root: Path = ROOT) -> list[Path]:
    """Every notebook, in reading order. They must be exactly those of _toc.yml."""
    on_disk = {
        p
        for p in (root / "notebooks").rglob("*.ipynb")
        if ".ipynb_checkpoints" not in p.parts
    }
    in_toc = [p for p in listed(root) if p.suffix == ".ipynb"]
    for path in sorted(on_disk - set(in_toc)):
        raise Problem(f"{path.relative_to(root).as_posix()} is not listed in _toc.yml")
    for path in in_toc:
        if path not in on_disk:
            raise Problem(
                f"{path.relative_to(root).as_posix()} is listed in _toc.yml "
                "but is not below notebooks/"
            )
    return in_toc


def page_name(path: Path, root: Path = ROOT) -> str:
    """How the registry calls a notebook: path_decomposition/paths."""
    return path.relative_to(root / "notebooks").with_suffix("").as_posix()


def longest_first(paths: list[Path], root: Path = ROOT) -> list[Path]:
    """Notebooks by the CPU seconds in book/ledger.json, most first: then two processes
    end together. New ones lead.
    """
    ledger = root / "book" / "ledger.json"
    costs = json.loads(ledger.read_text(encoding="utf-8")) if ledger.exists() else {}
    return sorted(
        paths,
        key=lambda path: (
            -costs.get(page_name(path, root), {}).get("cpu_seconds", float("inf"))
        ),
    )


def title(cells: list[dict]) -> str:
    """The first heading of a notebook, without Markdown's marks."""
    for cell in cells:
        for line in "".join(cell["source"]).splitlines():
            if cell["cell_type"] == "markdown" and line.startswith("# "):
                return line[2:].strip().replace("*", "").replace("`", "")
    return ""


def read(path: Path) -> dict:
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        assert isinstance(notebook["cells"], list)
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
        raise Problem(
            f"{path} is not a notebook: {type(error).__name__}: {error}"
        ) from None
    return notebook


def write_atomically(path: Path | str, text: str) -> None:
    """Write the whole text or leave the old file as it was."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(scratch, 0o644)  # mkstemp makes it private; the site must be readable
        os.replace(scratch, path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def without_magics(text: str) -> str:
    """Code as plain Python: lines such as %pip do nothing."""
    return re.sub(r"^([ \t]*)[%!].*$", r"\1pass", text, flags=re.M)
