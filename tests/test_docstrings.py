"""The style of attnlib, read without importing it: docstrings by the template, small
rooms, imports that point upwards.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
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
    "exercises",
    "figures",
    "bench",
]
KERNELS = ROOMS[: ROOMS.index("data")]
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
MODULES = sorted(path for path in LIBRARY.rglob("*.py"))
ROOM_LINES, FUNCTION_LINES = 300, 30


def known_claims() -> set[str]:
    registry = ROOT / "book" / "claims.toml"
    return {
        claim["id"]
        for claim in tomllib.loads(registry.read_text(encoding="utf-8")).get(
            "claim", []
        )
    }


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
    kernel: bool  # a function that computes: it owes its cost and its source


def public_names(package: Path) -> list[Public]:
    """All public functions and classes of a package, its private modules left out."""
    top = griffe.load(
        package.name,
        search_paths=[package.parent],
        allow_inspection=False,
        resolve_aliases=False,
    )
    found, queue = [], [top]
    while queue:
        for member in queue.pop().members.values():
            if member.is_alias or member.name.startswith("_"):
                continue
            if member.is_module:
                queue.append(member)
            elif member.is_function or member.is_class:
                found.append(public(member))
    return found


def public(member) -> Public:
    docstring = member.docstring.value if member.docstring else ""
    room = member.path.split(".")[1]
    if member.is_class:
        fields = [
            name
            for name, inner in member.members.items()
            if inner.is_attribute and not name.startswith("_")
        ]
        bases = {str(base).split(".")[-1] for base in member.bases}
        return Public(
            member.path,
            docstring,
            fields if "NamedTuple" in bases else [],
            False,
            set(),
            False,
        )
    parameters = [
        parameter.name for parameter in member.parameters if parameter.name != "self"
    ]
    returns = member.returns is None or str(member.returns) != "None"
    return Public(
        member.path,
        docstring,
        parameters,
        returns,
        refusals(member.source),
        room in KERNELS,
    )


def refusals(source: str) -> set[str]:
    """The exceptions that a function raises by itself; the checks of attnlib._require
    raise ValueError.
    """
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
    """(name, text) of each section below the first line, in order; `Claim: a Page:
    b` may share a line.
    """
    split = re.sub(r"[ \t]{2,}(?=Page:)", "\n", docstring.partition("\n")[2])
    pieces = re.split(r"^([A-Z]\w+):(?=\s)", split, flags=re.M)
    return [(name, text.strip()) for name, text in zip(pieces[1::2], pieces[2::2])]


def faults(name: Public, claims: set[str], page_exists) -> list[str]:
    """What the docstring lacks, a line for each."""
    if not name.docstring:
        return ["no docstring"]
    parts = dict(sections(name.docstring))
    return [
        *form_faults(name.docstring),
        *(f"no section {section}" for section in owed(name) if section not in parts),
        *(
            f"Args does not name {p}"
            for p in name.parameters
            if "Args" in parts and not names_argument(parts["Args"], p)
        ),
        *(
            f"Raises does not name {e}"
            for e in sorted(name.raises)
            if "Raises" in parts and e not in parts["Raises"]
        ),
        *([] if {"Claim", "Page"} & set(parts) else ["neither Claim nor Page"]),
        *(
            f"unknown claim {claim}"
            for claim in listed(parts.get("Claim", ""))
            if claim not in claims
        ),
        *(
            f"no such page {page}"
            for page in listed(parts.get("Page", ""))
            if not page_exists(page)
        ),
    ]


def names_argument(text: str, argument: str) -> bool:
    """Whether the text has `argument: ...`, or `argument, another: ...`."""
    return bool(re.search(rf"(?<!\w){argument}(?:, \w+)*:", " ".join(text.split())))


def owed(name: Public) -> list[str]:
    """The sections that a name must have."""
    wanted = {
        "Args": name.parameters,
        "Returns": name.returns,
        "Raises": name.raises,
        "Cost": name.kernel,
        "Source": name.kernel,
    }
    sections_here = dict(sections(name.docstring))
    return [
        s
        for s, needed in wanted.items()
        if needed and not (s == "Returns" and "Yields" in sections_here)
    ]


def form_faults(docstring: str) -> list[str]:
    """One sentence, a blank line, the sections of the template in its order, each
    once.
    """
    first, *rest = docstring.splitlines()
    names = [name for name, _ in sections(docstring)]
    known = [name for name in names if name in SECTIONS]
    return [
        *(
            []
            if re.fullmatch(r"\S.*[.?]", first)
            else ["the first line is no sentence"]
        ),
        *(["no blank line after the first"] if rest and rest[0] else []),
        *(f"unknown section {name}" for name in names if name not in SECTIONS),
        *(
            ["sections twice or out of order"]
            if known != sorted(set(known), key=SECTIONS.index)
            else []
        ),
    ]


def listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


@pytest.mark.parametrize(
    "name", public_names(LIBRARY), ids=lambda name: name.path.removeprefix("attnlib.")
)
def test_docstrings_follow_the_template(name):
    assert faults(name, known_claims(), page_exists) == []


GOOD = """Sketch of x.

    R x

Args:    x: (*batch, n, d), tokens.   r: size,
         1 <= r <= n.
Returns: (*batch, r, d).
Raises:  ValueError if r > n.
Cost:    O(n r d).
Source:  Author 2020, Thm 3.
Claim:   sketch.jl      Page: notebooks/a/b
"""
BROKEN = {
    "the first line is no sentence": ("Sketch of x.", "Sketch of x"),
    "no blank line after the first": ("of x.\n\n", "of x.\n"),
    "no section Args": ("Args:    x", "         x"),
    "Args does not name r": ("r: size", "size"),
    "no section Returns": ("Returns:", "        "),
    "no section Raises": ("Raises:", "       "),
    "Raises does not name ValueError": ("ValueError", "an error"),
    "no section Cost": ("Cost:", "     "),
    "no section Source": ("Source:", "       "),
    "unknown section Sauce": ("Source:", "Sauce:"),
    "sections twice or out of order": ("Source:", "Args:"),
    "neither Claim nor Page": ("Claim:   sketch.jl      Page: notebooks/a/b", ""),
    "unknown claim sketch.js": ("sketch.jl", "sketch.js"),
    "no such page notebooks/a/c": ("notebooks/a/b", "notebooks/a/c"),
}
SKETCH = Public("attnlib.lowrank.sketch", GOOD, ["x", "r"], True, {"ValueError"}, True)


def test_a_good_docstring_has_no_faults():
    assert faults(SKETCH, {"sketch.jl"}, "notebooks/a/b".__eq__) == []
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


def test_public_names_are_read_from_the_source(tmp_path):
    package = tmp_path / "roomy"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_hidden.py").write_text("def not_seen(): pass\n")
    (package / "lowrank.py").write_text(
        "import os\nfrom typing import NamedTuple\n"
        "class Pair(NamedTuple):\n    '''Two.'''\n    a: int\n    b: int\n"
        "def f(x, *, r) -> int:\n    '''One.'''\n    require(r, 'r')\n    return x\n"
        "def g() -> None:\n    raise KeyError('k')\n"
        "def _h(): pass\n"
    )
    names = {name.path: name[2:] for name in public_names(package)}
    assert names == {
        "roomy.lowrank.Pair": (["a", "b"], False, set(), False),
        "roomy.lowrank.f": (["x", "r"], True, {"ValueError"}, True),
        "roomy.lowrank.g": ([], False, {"KeyError"}, True),
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
        allowed = set(ROOMS[: ROOMS.index(room)] if room else KERNELS) - {"figures"}
    wrong = [
        f"{room or 'the package'} imports {name}" for name in sorted(rooms - allowed)
    ]
    if room == "certify":
        wrong += [
            f"certify imports {name}"
            for name in sorted(inner - rooms)
            if name.startswith("_")
        ]
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
        ("bench.py", "from attnlib import figures", "bench imports figures"),
        ("exercises/paths.py", "from ..bench import run", "exercises imports bench"),
        (
            "_helper.py",
            "from attnlib.attention import Layer",
            "_helper imports attention",
        ),
        ("__init__.py", "from .figures import show", "the package imports figures"),
        ("paths.py", "from attnlib.attention import Layer\nimport torch", None),
        (
            "figures/paths.py",
            "import matplotlib\nfrom attnlib import paths, bench",
            "figures imports bench",
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


# --- sizes ---


def code_lines(source: str) -> set[int]:
    """The lines that hold code: no blank ones, no comments, no docstrings."""
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in silent:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module
        ) and ast.get_docstring(node):
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines


def long_functions(source: str, limit: int = FUNCTION_LINES) -> dict[str, int]:
    """Functions with more lines of code than the limit, with their number."""
    lines = code_lines(source)
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    sizes = {
        node.name: len(lines & set(range(node.lineno, node.end_lineno + 1)))
        for node in functions
    }
    return {name: size for name, size in sizes.items() if size > limit}


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: path.relative_to(LIBRARY).as_posix()
)
def test_rooms_and_functions_are_small(path):
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= ROOM_LINES
    assert long_functions(source) == {}


def test_code_lines_are_counted():
    source = 'def f(x):\n    """Two\n    lines."""\n    # why\n\n    y = [x,\n         x]\n    return y\n'
    assert long_functions(source, limit=3) == {"f": 4}
    assert long_functions(source, limit=4) == {}
    padded = "def g():\n" + "    x = 1\n" * FUNCTION_LINES
    assert long_functions(padded) == {"g": FUNCTION_LINES + 1}
