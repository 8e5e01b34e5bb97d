"""A small book in a temporary folder, for tests that break things."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = "notebooks/one/page.ipynb"
COPIED = (
    "_config.yml",
    "pyproject.toml",
    "requirements.txt",
    "book/claims.schema.json",
    "book/references.bib",
    "book/_ext",
    "book/_static",
    "book/_inv",
    "book/_tools",
)


def markdown(ident: str, text: str) -> dict:
    return {
        "cell_type": "markdown",
        "id": ident,
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }


def code(ident: str, text: str, *tags: str) -> dict:
    cell = markdown(ident, text) | {
        "cell_type": "code",
        "outputs": [],
        "execution_count": None,
    }
    return cell | {"metadata": {"tags": list(tags)} if tags else {}}


WORDS = r"""# A page

> **Theorem 1.1 (A title with $x^2$).** For all $x$,
>
> $$\begin{aligned} x &= x \\ &= x \end{aligned} \tag{1.1}$$

*Proof.* By [(1.1)](#eq-1.1). $\square$

> **Lemma 1.2.** As [Theorem 1.1](page.ipynb#theorem-1.1), by its [proof](#proof-1.1).

*Proof of Lemma 1.2.* See [Figure 1.1](#figure-1.1). $\square$

**Figure 1.1.** A caption.

> **Exercise 1.1 (Try).** Do it.

> **Note.** A note on $n$, which holds $n$ tokens. *One*. The *two*, $m$. The *three*.

> An ordinary quote, **bold** inside.
"""

CELLS = (
    markdown("title", WORDS),
    code(
        "value",
        "import attnlib\nprint('the value is', attnlib.VALUE)",
        "nbval-check-output",
    ),
)


def write_page(root: Path, *cells: dict, name: str = PAGE) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    notebook = {
        "cells": list(cells),
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


def write_toc(root: Path, *names: str) -> None:
    lines = [
        "format: jb-book",
        "root: book/intro",
        "chapters:",
        *(f"  - file: {name}" for name in names),
    ]
    (root / "_toc.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def make(root: Path) -> Path:
    """A book of two pages, with the project's own tools and a library of one number."""
    for name in COPIED:
        source, target = ROOT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(
                source, target, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(source, target)
    (root / "book/claims.toml").write_text("", encoding="utf-8")
    (root / "book/intro.md").write_text(
        "# Start\n\nTo [the theorem](../notebooks/one/page.ipynb#theorem-1.1).\n",
        encoding="utf-8",
    )
    write_toc(root, "notebooks/one/page")
    write_page(root, *CELLS)
    set_value(root, 41)
    return root


def set_value(root: Path, value: int) -> None:
    (root / "attnlib").mkdir(exist_ok=True)
    (root / "attnlib/__init__.py").write_text(f"VALUE = {value}\n", encoding="utf-8")


def environment(root: Path) -> dict[str, str]:
    """The book's own library stands before the installed one."""
    return {
        **os.environ,
        "PYTHONPATH": str(root),
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def python(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run Python in the book."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env=environment(root),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def build(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    return python(root, "book/_tools/build.py", "--no-verdicts", *arguments)


def site(root: Path) -> dict[str, bytes]:
    """The files of the built site."""
    folder = root / "_build/html"
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def html(root: Path, name: str = "notebooks/one/page.html") -> str:
    return (root / "_build/html" / name).read_text(encoding="utf-8")
