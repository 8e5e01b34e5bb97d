"""*Try it* of each page, at the ends and in the middle of every slider, with every
choice of a list: a reader gets an answer, or a sentence that says why there is none.
"""

from __future__ import annotations

import itertools
import re
import symtable

import pages
import pytest
from minibook import code

import notebooks
from attnlib.audit import named

PARAMETER = re.compile(r"^(\w+) = (.+?)  # @param (.+)$", re.M)
LIMIT = re.compile(r"\b(min|max|step): ?([\d.]+)")
NO_NUMBER = re.compile(r"\b(?:nan|inf)\b")


def values(default: str, form: str) -> list[str]:
    """What a reader may put in place of a default. Least and largest, or the choices of
    a list, come before the middle of a slider.
    """
    if form.startswith("["):
        return form[1 : form.index("]")].split(", ")
    if "boolean" in form:
        return ["False", "True"]
    if "string" in form:
        return [default, '""']
    if "number" in form:
        return ["0", "100000"]
    limit = {"step": 1.0} | {key: float(said) for key, said in LIMIT.findall(form)}
    least, most, step = limit["min"], limit["max"], limit["step"]
    middle = least + step * round((most - least) / 2 / step)
    return [f"{number:.9g}" for number in (least, most, middle)]  # as Colab: 3, not 3.0


def settings(source: str) -> list[dict[str, str]]:
    """Each parameter at each of its values, the others as they stand; then all corners:
    each slider at an end, with every choice of the others.
    """
    found = {}
    ends = []
    for name, default, form in PARAMETER.findall(source):
        found[name] = values(default, form)
        ends.append(found[name][:2] if "slider" in form else found[name])
    assert len(found) == source.count("# @param")
    alone = [{name: value} for name, some in found.items() for value in some]
    corners = [dict(zip(found, corner)) for corner in itertools.product(*ends)]
    return [*alone, *corners]


def filled_in(source: str, setting: dict[str, str]) -> str:
    def value(line: re.Match) -> str:
        return f"{line[1]} = {setting.get(line[1], line[2])}"

    return PARAMETER.sub(value, source)


def used(table: symtable.SymbolTable) -> set[str]:
    """Global names that a piece of code reads."""
    names = {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    own = {s.get_name() for s in table.get_symbols() if not s.is_global()}
    return (names - own).union(*map(used, table.get_children()))


def bound(table: symtable.SymbolTable) -> set[str]:
    return {
        s.get_name()
        for s in table.get_symbols()
        if s.is_assigned() or s.is_imported() or s.is_namespace()
    }


def with_what_it_needs(cells: list[dict]) -> list[dict]:
    """The last of some cells, after those that give it its names."""
    wanted = set()
    kept = []
    for cell in reversed(cells):
        text = notebooks.without_magics(notebooks.source(cell))
        table = symtable.symtable(text, cell["id"], "exec")
        gives = bound(table)
        if cell is cells[-1] or wanted & gives:
            wanted = wanted - gives | used(table) - gives
            kept.insert(0, cell)
    return kept


def troubles(cells: list[dict], path) -> list[str]:
    """Settings of a page's form for which a reader gets no answer, and what he gets."""
    cells = [cell for cell in cells if cell["cell_type"] == "code"]
    [last] = [k for k, c in enumerate(cells) if notebooks.TRY_IT in notebooks.tags(c)]
    *before, cell = with_what_it_needs(cells[: last + 1])
    names = {"__name__": "__main__"}
    notebooks.run_plain({"cells": before}, path, names)
    source = notebooks.source(cell)
    found = []
    for setting in settings(source):
        text = filled_in(source, setting)
        where = ", ".join(f"{name} = {value}" for name, value in setting.items())
        try:
            said = notebooks.run_cell_plain(code("try-it", text), path, names)
        except pages.Problem as error:
            found.append(f"{where}: {error}")
            continue
        if not said.strip() or NO_NUMBER.search(said):
            found.append(f"{where}: {path.name} printed {said!r}")
    return found


@pytest.mark.again
@pytest.mark.parametrize("path", pages.notebooks(), ids=pages.page_name)
def test_every_end_of_every_slider_has_an_answer(path, monkeypatch):
    def fetch(*args, **how):
        raise OSError("no network")

    monkeypatch.setattr(named, "_fetch", fetch)
    found = troubles(pages.read(path)["cells"], path)
    assert not found, "\n".join(found)


PAGE = [
    code("far", "def root(x):\n    raise ValueError('not the last')"),
    code("maths", "import math\n\n\ndef root(x):\n    return math.sqrt(x)"),
    code("apart", "raise ValueError('nothing of this is used')"),
]
FORM = """\
# @title Try it
n = 3  # @param {type: "slider", min: 0, max: 9}
by = 1.0  # @param {type: "slider", min: 0.5, max: 2, step: 0.5}
name = "a"  # @param ["a", "b"]
"""


@pytest.mark.parametrize(
    "last, wrong",
    [
        ("print(root(n), by, name)", None),
        ("print(root(n - 1))", "n = 0: .*ValueError"),
        ("print(root(8 - n))", "n = 9: .*ValueError"),
        ("print(1 / (n - 4))", "n = 4: .*ZeroDivisionError"),
        ("print(1 / (by - 1.5))", "by = 1.5: .*ZeroDivisionError"),
        ("print({'a': 1}[name])", 'name = "b": .*KeyError'),
        ("print(1 / (n - 9 + (by < 2)))", "n = 9, by = 2, name = .*ZeroDivisionError"),
        ("print(math.inf if n == 9 else 1)", "n = 9: .*printed 'inf"),
        ("print(n * math.nan)", "n = 0: .*printed 'nan"),
        ("if n:\n    print(n)", "n = 0: .*printed ''"),
    ],
)
def test_what_a_reader_meets_is_named_with_its_page_and_value(last, wrong, tmp_path):
    cells = [*PAGE, code("form", FORM + last, notebooks.TRY_IT), PAGE[2]]
    found = troubles(cells, tmp_path / "page.ipynb")
    if wrong is None:
        assert found == []
    else:
        assert any(re.match(wrong, said) and "page.ipynb" in said for said in found)
