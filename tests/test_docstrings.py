"""What docstrings point to exists, and imports point downwards, by the contracts
of pyproject.toml. That each public name has a docstring, ruff asks.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import claims
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (ROOT / "attnlib", ROOT / "book" / "attnbook")
# The last lines, one a section: `Claim: paths.order`; what goes on is indented.
FOOT = re.compile(r"^(Claim|Page): (\S.*(?:\n    .*)*)", re.M)


def dead_ends(source: str, known: set[str]) -> list[str]:
    """Claims and pages that docstrings name and that are not there."""
    found = []
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for node in ast.walk(ast.parse(source)):
        text = isinstance(node, documented) and ast.get_docstring(node)
        for kind, said in FOOT.findall(text or ""):
            for name in re.split(r"[,\s]+", said.strip(", \n")):
                endings = (ROOT / f"{name}.ipynb", ROOT / f"{name}.md")
                page = any(path.exists() for path in endings)
                if not (name in known if kind == "Claim" else page):
                    found.append(f"{kind}: {name}")
    return found


def test_docstrings_name_claims_and_pages_that_exist():
    known = {claim.id for claim in claims.load()}
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            assert dead_ends(path.read_text(encoding="utf-8"), known) == [], path


def test_a_dead_end_is_found():
    source = (
        'def f():\n    """One.\n\n    Source: Author 2020.\n'
        "    Claim: paths.order, paths.gone\n    Page: book/intro, notebooks/gone\n"
        '    """\n'
    )
    found = ["Claim: paths.gone", "Page: notebooks/gone"]
    assert dead_ends(source, {"paths.order"}) == found


@pytest.mark.parametrize("path", sorted((ROOT / "attnlib").rglob("[!_]*.py")), ids=str)
def test_a_kernel_says_where_it_stands_in_the_book(path):
    """In the docstring of its module."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert re.search(r"^Page: ", said, re.M)


def contracts(root: Path) -> str:
    """What import-linter says of pyproject.toml's contracts, in a tree."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    places = f"{root}{os.pathsep}{root / 'book'}"
    done = subprocess.run(
        command,
        cwd=root,
        env=os.environ | {"PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_imports_point_downwards():
    assert "6 kept, 0 broken" in contracts(ROOT)


WRONG = {
    "attnlib/attention.py": "def f():\n    from . import paths",
    "attnlib/certify/__init__.py": "from attnlib._require import finite",
    "attnlib/audit/tiny.py": "def f():\n    import attnbook.data",
    "attnlib/paths.py": "import matplotlib.pyplot as plt",
    "book/attnbook/data/store.py": "from ..exercises import paths",
    "book/attnbook/figures/paths.py": "import bench",
}


def test_wrong_imports_are_found(tmp_path):
    for name in ("attnlib", "book/attnbook"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, line in WRONG.items():
        with (tmp_path / name).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    assert "0 kept, 6 broken" in contracts(tmp_path)
