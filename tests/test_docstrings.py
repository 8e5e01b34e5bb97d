"""The style of attnlib: docstrings by the template, read without importing it; imports
that point upwards, by the contracts of pyproject.toml.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import NamedTuple

import griffe
import pytest

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "attnlib"
BOOK = ROOT / "book" / "attnbook"
ELSEWHERE = ("audit", "data", "theorems", "exercises", "figures")  # no kernels
SECTIONS = [
    "Args",
    "Returns",
    "Yields",
    "Raises",
    "Cost",
    "Source",
    "Claim",
    "Page",
    "Note",
]
HEADER = re.compile(r"^([A-Z]\w+):\n(?= )", re.M)
# The last lines, one a section: `Cost: O(n).`; what goes on is indented.
FOOT = re.compile(r"^(Cost|Source|Claim|Page|Note): (\S.*(?:\n    .*)*)", re.M)


@functools.cache
def known_claims() -> set[str]:
    """The ids of the registry."""
    registry = (ROOT / "book" / "claims.toml").read_text(encoding="utf-8")
    return {claim["id"] for claim in tomllib.loads(registry)["claim"]}


def page_exists(page: str) -> bool:
    return any((ROOT / f"{page}{ending}").exists() for ending in (".ipynb", ".md"))


# --- docstrings ---


class Public(NamedTuple):
    """A public name, its docstring, and the page that its module says."""

    path: str
    docstring: str
    module_page: str = ""

    @property
    def room(self) -> str:
        return self.path.split(".")[1]


def public_names(package: Path) -> list[Public]:
    """All public functions and classes of a package; what stands in a private module
    is public where a package lists it in `__all__`.
    """
    top = griffe.load(
        package.name,
        search_paths=[package.parent],
        allow_inspection=False,
        resolve_aliases=False,
    )
    found, queue = [], [top]
    while queue:
        module = queue.pop()
        for member in module.members.values():
            if member.name.startswith("_"):
                continue
            if member.is_alias:
                within = member.target_path.startswith(f"{module.path}._")
                if not (within and member.name in (module.exports or [])):
                    continue
            if member.is_module:
                queue.append(member)
            elif member.is_function or member.is_class:
                found.append(public(member))
    return found


def public(member) -> Public:
    docstring = member.docstring.value if member.docstring else ""
    return Public(member.path, docstring, page_of(member.module))


def page_of(module) -> str:
    """The page that a module says it belongs to, or nothing."""
    docstring = module.docstring.value if module.docstring else ""
    return dict(sections(docstring)).get("Page", "")


def sections(docstring: str) -> list[tuple[str, str]]:
    """(name, body) of each section, in order: a header alone on its line over an
    indented body, and at the end lines that begin with their names.
    """
    above, feet = split(docstring)
    pieces = HEADER.split(above)[1:]
    bodies = [textwrap.dedent(body).strip() for body in pieces[1::2]]
    last = [(name, " ".join(body.split())) for name, body in FOOT.findall(feet)]
    return list(zip(pieces[::2], bodies)) + last


def split(docstring: str) -> tuple[str, str]:
    """What stands above the last lines, and these."""
    found = FOOT.search(docstring)
    end = found.start() if found else len(docstring)
    return docstring[:end], docstring[end:]


def listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def faults(name: Public, claims: set[str], page_exists) -> list[str]:
    """What the docstring lacks, a line for each."""
    if not name.docstring:
        return ["no docstring"]
    parts = dict(sections(name.docstring))
    return [
        *form_faults(name),
        *place_faults(name, parts),
        *(
            f"unknown claim {claim}"
            for claim in listed(parts.get("Claim", ""))
            if claim not in claims
        ),
        *(
            f"no such page {page}"
            for page in listed(parts.get("Page", name.module_page))
            if not page_exists(page)
        ),
    ]


def form_faults(name: Public) -> list[str]:
    """A sentence of one line or two; then the sections of the template in its order,
    each once, with a blank line before it and nothing but its indented body below it.
    """
    found = []
    first = name.docstring.split("\n\n")[0]
    if not re.fullmatch(r"\S.*(\n\S.*)?[.?]", first):
        found.append("the first paragraph is no sentence")
    names = [section for section, _ in sections(name.docstring)]
    known = [section for section in names if section in SECTIONS]
    if known != sorted(set(known), key=SECTIONS.index):
        found.append("sections twice or out of order")
    if name.room != "theorems":
        found += [f"unknown section {n}" for n in names if n not in SECTIONS]
    top, feet = split(name.docstring)
    if FOOT.sub("", feet).strip():
        found.append("the last lines are no Cost, Source, Claim, Page or Note")
    any_section = "|".join(SECTIONS)
    cramped = re.findall(rf"^({any_section}):(?!\n )", top, re.M)
    found += [f"{section} is no header over an indented body" for section in cramped]
    start, *pieces = HEADER.split(top)
    above = [start, *pieces[1:-1:2]]
    for section, text, body in zip(pieces[::2], above, pieces[1::2]):
        if not text.endswith("\n\n"):
            found.append(f"no blank line before {section}")
        if re.search(r"^\S", body, re.M):
            found.append(f"{section} has lines that are not indented")
    return found


def place_faults(name: Public, parts: dict[str, str]) -> list[str]:
    """A kernel says where it stands in the book, if its module does not."""
    owed = name.room not in ELSEWHERE and not name.module_page
    return ["neither Claim nor Page"] * (owed and not {"Claim", "Page"} & set(parts))


def test_docstrings_follow_the_template():
    names = [*public_names(LIBRARY), *public_names(BOOK)]
    found = {name.path: faults(name, known_claims(), page_exists) for name in names}
    assert len(found) > 500
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


GOOD = """Sketch of x, which is as good as x
itself.

    R x

Args:
    x, y: (*batch, n, d), tokens and
        more tokens: as many.
    r: size,
        1 <= r <= n.

Returns:
    (*batch, r, d).

Raises:
    ValueError: if r > n.

Cost: O(n r d), and if r is
    small less.
Source: Author 2020, Thm 3.
Claim: sketch.jl
Page: notebooks/a/b
"""
BROKEN = {
    "the first paragraph is no sentence": ("itself.", "itself"),
    "Args is no header over an indented body": ("Args:\n   ", "Args:"),
    "Returns has lines that are not indented": ("(*batch, r, d).", "(*batch,\nr, d)."),
    "no blank line before Returns": ("\n\nReturns", "\nReturns"),
    "the last lines are no Cost, Source, Claim, Page or Note": ("Source:", "Sauce:"),
    "unknown section Sauce": ("Returns:", "Sauce:"),
    "sections twice or out of order": ("Source:", "Cost:"),
    "neither Claim nor Page": (GOOD[GOOD.index("Claim") :], ""),
    "unknown claim sketch.js": ("sketch.jl", "sketch.js"),
    "no such page notebooks/a/c": ("notebooks/a/b", "notebooks/a/c"),
}
SKETCH = Public("attnlib.lowrank.sketch", GOOD)


def test_a_good_docstring_has_no_faults():
    assert faults(SKETCH, {"sketch.jl"}, "notebooks/a/b".__eq__) == []
    shorter = GOOD[: GOOD.index("Claim")]
    of_a_page = SKETCH._replace(docstring=shorter, module_page="notebooks/a/b")
    assert faults(of_a_page, set(), "notebooks/a/b".__eq__) == []
    assert faults(of_a_page, set(), "notebooks/a/c".__eq__) == [
        "no such page notebooks/a/b"
    ]
    assert faults(SKETCH._replace(docstring=""), set(), page_exists) == ["no docstring"]


@pytest.mark.parametrize("fault", BROKEN)
def test_each_fault_is_found(fault):
    before, after = BROKEN[fault]
    assert before in GOOD
    assert fault in faults(
        SKETCH._replace(docstring=GOOD.replace(before, after, 1)),
        {"sketch.jl"},
        "notebooks/a/b".__eq__,
    )


@pytest.mark.parametrize("room", ["paths", *ELSEWHERE])
def test_a_kernel_says_where_it_stands_in_the_book(room):
    name = SKETCH._replace(path=f"attnlib.{room}.sketch", docstring="A good sketch.")
    missing = ["neither Claim nor Page"] if room == "paths" else []
    assert faults(name, set(), page_exists) == missing


def test_public_names_are_read_from_the_source(tmp_path):
    package = tmp_path / "roomy"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_hidden.py").write_text("def not_seen(): pass\n")
    (package / "lowrank").mkdir()
    (package / "lowrank" / "__init__.py").write_text(
        "'''Sketches.\n\nPage: notebooks/a/b\n'''\n"
        "import os\nfrom typing import NamedTuple\n"
        "from roomy.lowrank._inner import listed, unlisted\n"
        "__all__ = ['Pair', 'f', 'g', 'listed']\n"
        "class Pair(NamedTuple):\n    '''Two.'''\n    a: int\n    b: int\n"
        "def f(x, *, r) -> int:\n    '''One.'''\n    require(r, 'r')\n    return x\n"
        "def g() -> None:\n    raise KeyError('k')\n"
        "def _h(): pass\n"
    )
    (package / "lowrank" / "_inner.py").write_text(
        "def listed(y): pass\n\ndef unlisted(): pass\n"
    )
    names = {name.path: name[1:] for name in public_names(package)}
    assert names == {
        "roomy.lowrank.Pair": ("Two.", "notebooks/a/b"),
        "roomy.lowrank.f": ("One.", "notebooks/a/b"),
        "roomy.lowrank.g": ("", "notebooks/a/b"),
        "roomy.lowrank.listed": ("", ""),
    }


# --- imports ---


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


def test_imports_point_upwards():
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
