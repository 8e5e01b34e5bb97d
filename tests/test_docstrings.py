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
# The order of the house: a room imports only rooms before it.
ROOMS = [
    "attention",
    "projections",
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
    "data",
    "theorems",
    "exercises",
    "figures",
    "audit",
]
KERNELS = ROOMS[: ROOMS.index("data")]
# What these rooms hold speaks for itself, or by its signature: a sentence is enough,
# and Args says what the signature cannot.
ONE_SENTENCE = {"theorems", "exercises", "figures", "patterns", "sparse"}
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
MODULES = sorted(path for path in LIBRARY.rglob("*.py"))


@functools.cache
def known_claims() -> set[str]:
    """The ids of the registry."""
    registry = (ROOT / "book" / "claims.toml").read_text(encoding="utf-8")
    return {claim["id"] for claim in tomllib.loads(registry)["claim"]}


def page_exists(page: str) -> bool:
    return any((ROOT / f"{page}{ending}").exists() for ending in (".ipynb", ".md"))


# --- docstrings ---


class Public(NamedTuple):
    """A public name, as far as its docstring must speak of it."""

    path: str
    docstring: str
    parameters: list[str]
    returns: bool
    raises: set[str]
    is_function: bool = True
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
    page = page_of(member.module)
    if member.is_class:
        bases = {str(base).split(".")[-1] for base in member.bases}
        fields = [
            name
            for name, inner in member.members.items()
            if inner.is_attribute and not name.startswith("_")
        ]
        parameters = fields if "NamedTuple" in bases else []
        return Public(member.path, docstring, parameters, False, set(), False, page)
    parameters = [
        parameter.name for parameter in member.parameters if parameter.name != "self"
    ]
    returns = member.returns is None or str(member.returns) != "None"
    raises = refusals(member.source)
    return Public(member.path, docstring, parameters, returns, raises, True, page)


def page_of(module) -> str:
    """The page that a module says it belongs to, or nothing."""
    docstring = module.docstring.value if module.docstring else ""
    return dict(sections(docstring)).get("Page", "")


def refusals(source: str) -> set[str]:
    """The exceptions that a function raises by itself; `require` raises ValueError."""
    names = set()
    for node in ast.walk(ast.parse(textwrap.dedent(source))):
        if (
            isinstance(node, ast.Raise)
            and isinstance(node.exc, ast.Call)
            and isinstance(node.exc.func, ast.Name)
        ):
            names.add(node.exc.func.id)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "require"
        ):
            names.add("ValueError")
    return names


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


def entries(body: str) -> set[str]:
    """The names that a body explains, as `name: text` or `name, another: text`; lines
    that go on are indented.
    """
    found = re.findall(r"^(\w+(?:, \w+)*):\s", body, re.M)
    return {name for names in found for name in listed(names)}


def listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def faults(name: Public, claims: set[str], page_exists) -> list[str]:
    """What the docstring lacks, a line for each."""
    if not name.docstring:
        return ["no docstring"]
    parts = dict(sections(name.docstring))
    return [
        *form_faults(name),
        *owed_faults(name, parts),
        *name_faults(name, parts),
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


def owed_faults(name: Public, parts: dict[str, str]) -> list[str]:
    """The sections that a name must have and lacks."""
    if name.room in ONE_SENTENCE:
        return []
    computes = name.is_function and name.room in KERNELS
    owed = {
        "Args": bool(name.parameters),
        "Returns": name.returns and "Yields" not in parts,
        "Raises": bool(name.raises),
        "Cost": computes,
        "Source": computes,
    }
    found = [f"no section {s}" for s, must in owed.items() if must and s not in parts]
    if not name.module_page and not {"Claim", "Page"} & set(parts):
        found.append("neither Claim nor Page")
    return found


def name_faults(name: Public, parts: dict[str, str]) -> list[str]:
    """Arguments and exceptions that their section leaves out."""
    found = []
    if name.room in ("patterns", "sparse"):
        return found
    for section, names in {"Args": name.parameters, "Raises": name.raises}.items():
        if section in parts:
            missing = sorted(set(names) - entries(parts[section]))
            found += [f"{section} does not name {missed}" for missed in missing]
    return found


@pytest.mark.parametrize(
    "name", public_names(LIBRARY), ids=lambda name: name.path.removeprefix("attnlib.")
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
    "no section Args": ("Args:\n", "Arguments are\n"),
    "Args does not name r": ("r: size", "size"),
    "Args does not name y": ("x, y:", "x:"),
    "Args is no header over an indented body": ("Args:\n   ", "Args:"),
    "no section Returns": ("Returns:\n    (*batch, r, d).\n\n", ""),
    "Returns has lines that are not indented": ("(*batch, r, d).", "(*batch,\nr, d)."),
    "no blank line before Returns": ("\n\nReturns", "\nReturns"),
    "no section Raises": ("Raises:\n    ValueError: if r > n.\n\n", ""),
    "Raises does not name ValueError": ("ValueError", "an error"),
    "no section Cost": ("Cost: O(n r d), and if r is\n    small less.\n", ""),
    "no section Source": ("Source:", "Sauce:"),
    "the last lines are no Cost, Source, Claim, Page or Note": ("Source:", "Sauce:"),
    "unknown section Sauce": ("Returns:", "Sauce:"),
    "sections twice or out of order": ("Source:", "Cost:"),
    "neither Claim nor Page": (GOOD[GOOD.index("Claim") :], ""),
    "unknown claim sketch.js": ("sketch.jl", "sketch.js"),
    "no such page notebooks/a/c": ("notebooks/a/b", "notebooks/a/c"),
}
SKETCH = Public("attnlib.lowrank.sketch", GOOD, ["x", "y", "r"], True, {"ValueError"})


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
def test_a_sentence_is_enough_where_nothing_is_computed(room):
    name = SKETCH._replace(path=f"attnlib.{room}.sketch", docstring="A good sketch.")
    enough = room in ONE_SENTENCE
    assert (faults(name, set(), page_exists) == []) == enough
    owed = room in KERNELS and not enough
    assert ("no section Cost" in faults(name, set(), page_exists)) == owed


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
    names = {name.path: name[2:] for name in public_names(package)}
    assert names == {
        "roomy.lowrank.Pair": (["a", "b"], False, set(), False, "notebooks/a/b"),
        "roomy.lowrank.f": (["x", "r"], True, {"ValueError"}, True, "notebooks/a/b"),
        "roomy.lowrank.g": ([], False, {"KeyError"}, True, "notebooks/a/b"),
        "roomy.lowrank.listed": (["y"], True, set(), True, ""),
    }


# --- imports ---


def room_of(path: Path, library: Path = LIBRARY) -> str:
    """The room that a file belongs to; '' for the package itself; helpers begin with an
    underscore.
    """
    first = path.relative_to(library).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports(path: Path, library: Path = LIBRARY) -> set[str]:
    """Dotted names of all modules that a file imports, anywhere in it; names taken from
    a package count as modules.
    """
    found, package = set(), [library.name, *path.relative_to(library).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            found |= {start} | {f"{start}.{alias.name}" for alias in node.names}
    return found


def import_faults(path: Path, library: Path = LIBRARY) -> list[str]:
    """What a file of attnlib must not import."""
    room, names = room_of(path, library), imports(path, library)
    inner = {
        name.split(".")[1] for name in names if name.startswith(library.name + ".")
    } - {room}
    rooms = {name for name in inner if name in ROOMS}
    if room.startswith("_"):
        allowed = set()
    elif room == "certify":
        allowed = set()  # a second opinion must not rest on the first
    else:
        allowed = set(ROOMS[: ROOMS.index(room)] if room else KERNELS)
        if room != "audit":  # a report draws itself when it is asked to
            allowed -= {"figures"}
    wrong = [
        f"{room or 'the package'} imports {name}" for name in sorted(rooms - allowed)
    ]
    if room == "certify":
        wrong += [
            f"certify imports {name}"
            for name in sorted(inner - rooms)
            if name.startswith("_")
        ]
    if "bench" in {name.split(".")[0] for name in names}:
        wrong.append(f"{room} imports bench, which is not installed")
    if room != "figures":
        wrong += [
            f"{room} imports matplotlib"
            for name in names
            if name.split(".")[0] == "matplotlib"
        ]
    return wrong


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: path.relative_to(LIBRARY).as_posix()
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
        ("data/tiny.py", "from attnlib import figures", "data imports figures"),
        ("data/tiny.py", "from ..exercises import run", "data imports exercises"),
        (
            "_helper.py",
            "from attnlib.attention import Layer",
            "_helper imports attention",
        ),
        ("__init__.py", "from .figures import show", "the package imports figures"),
        ("paths.py", "from attnlib.attention import Layer\nimport torch", None),
        (
            "figures/paths.py",
            "import matplotlib\nfrom attnlib import paths\nimport bench",
            "figures imports bench, which is not installed",
        ),
        (
            "figures/paths.py",
            "import matplotlib\nfrom attnlib import paths\nfrom . import style",
            None,
        ),
    ],
)
def test_a_wrong_import_is_found(tmp_path, name, source, fault):
    library = tmp_path / "attnlib"
    path = library / name
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert import_faults(path, library) == ([fault] if fault else [])
