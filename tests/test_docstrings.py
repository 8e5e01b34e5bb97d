"""The style of attnlib, read without importing it: docstrings by the template, imports
that point upwards.
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
import tomllib
from pathlib import Path
from typing import NamedTuple

import griffe
import pytest

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "attnlib"
BOOK = ROOT / "book" / "attnbook"
# The order of the house: a room imports only rooms before it. First those of attnlib,
# which never import attnbook; then the parts of attnbook.
ROOMS = [
    "attention",
    "patterns",
    "sparse",
    "paths",
    "collapse",
    "efficacy",
    "lowrank",
    "efficient",
    "expressive",
    "codes",
    "universal",
    "copying",
    "memorize",
    "bridges",
    "certify",
    "audit",
    "data",
    "theorems",
    "exercises",
    "figures",
]
KERNELS = ROOMS[: ROOMS.index("audit")]
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
MODULES = sorted([*LIBRARY.rglob("*.py"), *BOOK.rglob("*.py")])


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
    owed = name.room in KERNELS and not name.module_page
    return ["neither Claim nor Page"] * (owed and not {"Claim", "Page"} & set(parts))


@pytest.mark.parametrize(
    "name",
    [*public_names(LIBRARY), *public_names(BOOK)],
    ids=lambda name: name.path.partition(".")[2],
)
def test_docstrings_follow_the_template(name):
    assert faults(name, known_claims(), page_exists) == []


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


@pytest.mark.parametrize("room", ROOMS)
def test_a_kernel_says_where_it_stands_in_the_book(room):
    name = SKETCH._replace(path=f"attnlib.{room}.sketch", docstring="A good sketch.")
    missing = ["neither Claim nor Page"] if room in KERNELS else []
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


def package_of(path: Path) -> Path:
    """The folder of attnlib or attnbook."""
    return next(p for p in path.parents if p.name in (LIBRARY.name, BOOK.name))


def room_of(path: Path) -> str:
    """The room that a file belongs to; '' for the package itself; helpers begin with an
    underscore.
    """
    first = path.relative_to(package_of(path)).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports(path: Path) -> set[str]:
    """Dotted names of all modules that a file imports, anywhere in it; names taken from
    a package count as modules.
    """
    library = package_of(path)
    found, package = set(), [library.name, *path.relative_to(library).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            found |= {start} | {f"{start}.{alias.name}" for alias in node.names}
    return found


def import_faults(path: Path) -> list[str]:
    """What a file must not import."""
    library, room, names = package_of(path).name, room_of(path), imports(path)
    packages = {name.split(".")[0] for name in names}
    ours = (f"{LIBRARY.name}.", f"{library}.")  # attnbook imports attnlib, never back
    inner = {name.split(".")[1] for name in names if name.startswith(ours)} - {room}
    if room.startswith("_"):
        allowed = set()
    elif room == "certify":
        allowed = {name for name in inner if name not in ROOMS and name[0] != "_"}
    else:
        allowed = set(ROOMS[: ROOMS.index(room)] if room else KERNELS)
    if room != "certify":  # a second opinion must not rest on the first
        allowed |= {name for name in inner if name not in ROOMS}
    where = room or "the package"
    wrong = [f"{where} imports {name}" for name in sorted(inner - allowed)]
    if library == LIBRARY.name and BOOK.name in packages:
        wrong.append(f"{LIBRARY.name} imports {BOOK.name}")
    if "bench" in packages:
        wrong.append(f"{room} imports bench, which is not installed")
    draws = room == "figures" or path.name == "pictures.py" and room == "audit"
    if "matplotlib" in packages and not draws:
        wrong.append(f"{room} imports matplotlib")
    return wrong


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: path.relative_to(package_of(path)).as_posix()
)
def test_imports_point_upwards(path):
    assert import_faults(path) == []


def test_every_room_has_its_place():
    assert {room_of(path) for path in MODULES if not room_of(path).startswith("_")} <= {
        "",
        *ROOMS,
    }


@pytest.mark.parametrize(
    ("name", "source", "fault"),
    [
        (
            "attention.py",
            "from attnlib.paths import path_sums",
            "attention imports paths",
        ),
        (
            "attention.py",
            "def f():\n    from . import paths",
            "attention imports paths",
        ),
        ("paths.py", "import matplotlib.pyplot as plt", "paths imports matplotlib"),
        ("certify.py", "import attnlib.attention", "certify imports attention"),
        ("certify.py", "from ._require import finite", "certify imports _require"),
        (
            "audit/tiny.py",
            "import attnbook.data",
            "attnlib imports attnbook",
        ),
        ("audit/tiny.py", "def f():\n    import attnbook", "attnlib imports attnbook"),
        ("audit/tiny.py", "import matplotlib", "audit imports matplotlib"),
        ("audit/pictures.py", "import matplotlib", None),
        (
            "../attnbook/data/a.py",
            "from ..exercises import x",
            "data imports exercises",
        ),
        ("../attnbook/data/a.py", "from attnlib import audit, paths", None),
        (
            "_helper.py",
            "from attnlib.attention import Layer",
            "_helper imports attention",
        ),
        ("__init__.py", "from .audit import audit", "the package imports audit"),
        ("paths.py", "from attnlib.attention import Layer\nimport torch", None),
        (
            "../attnbook/figures/paths.py",
            "import matplotlib\nfrom attnlib import paths\nimport bench",
            "figures imports bench, which is not installed",
        ),
        (
            "../attnbook/figures/paths.py",
            "import matplotlib\nfrom attnlib import paths\nfrom . import style",
            None,
        ),
    ],
)
def test_a_wrong_import_is_found(tmp_path, name, source, fault):
    path = (tmp_path / "attnlib" / name).resolve()
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert import_faults(path) == ([fault] if fault else [])
