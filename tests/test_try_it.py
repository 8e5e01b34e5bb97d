"""*Try it* of each page, at the ends and in the middle of every slider, with every
choice of a list: a reader gets an answer, or a sentence that says why there is none.
"""

from __future__ import annotations

import html
import itertools
import json
import math
import random
import re
import symtable

import minibook
import page_cache
import pages
import pytest
import tried
from minibook import code

import notebooks
from attnlib.audit import named

NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
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
    limit = {"step": 1.0} | {
        key: float(said) for key, said in tried.LIMIT.findall(form)
    }
    least, most, step = limit["min"], limit["max"], limit["step"]
    middle = least + step * round((most - least) / 2 / step)
    return [f"{number:.9g}" for number in (least, most, middle)]  # as Colab: 3, not 3.0


def settings(source: str) -> list[dict[str, str]]:
    """Each parameter at each of its values, the others as they stand; then all corners:
    each slider at an end, with every choice of the others.
    """
    found = {}
    ends = []
    for name, default, form in tried.PARAMETER.findall(source):
        found[name] = values(default, form)
        ends.append(found[name][:2] if "slider" in form else found[name])
    assert len(found) == source.count("# @param")
    alone = [{name: value} for name, some in found.items() for value in some]
    corners = [dict(zip(found, corner)) for corner in itertools.product(*ends)]
    return [*alone, *corners]


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


def form_of(cells: list[dict], path) -> tuple[str, dict]:
    """The source of a page's form, and the names that it finds when it is run."""
    cells = [cell for cell in cells if cell["cell_type"] == "code"]
    [last] = [k for k, c in enumerate(cells) if notebooks.TRY_IT in notebooks.tags(c)]
    *before, cell = with_what_it_needs(cells[: last + 1])
    names = {"__name__": "__main__"}
    notebooks.run_plain({"cells": before}, path, names)
    return notebooks.source(cell), names


def troubles(cells: list[dict], path) -> list[str]:
    """Settings of a page's form for which a reader gets no answer, and what he gets."""
    source, names = form_of(cells, path)
    found = []
    for setting in settings(source):
        text = tried.filled_in(source, setting)
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


# --- the answers that the book shows


def test_a_grid_has_the_default_the_ends_and_few_points():
    chosen = tried.grid(FORM)
    assert chosen == {
        "n": ["0", "2", "3", "6", "9"],
        "by": ["0.5", "1.0", "1.5", "2"],
        "name": ['"a"', '"b"'],
    }
    assert len(tried.points(FORM)) == 40
    slider = 'v{} = 3  # @param {{type: "slider", min: 0, max: 9}}\n'
    assert len(tried.points("".join(map(slider.format, range(3))))) == 5 * 5 * 3
    assert len(tried.points("".join(map(slider.format, range(4))))) == 3**4
    assert tried.grid('x = "a"  # @param ["a", "b"] {allow-input: true}') == {
        "x": ['"a"']
    }


def test_a_cell_says_where_its_sliders_stop():
    said = FORM + "# In the book: by = 2, 1.5\n"
    assert tried.grid(said) == tried.grid(FORM) | {"by": ["1.0", "1.5", "2"]}
    said += "# In the book: n = 8\n"  # the default need not be named
    assert tried.grid(said)["n"] == ["3", "8"]
    assert tried.grid(FORM + '# In the book: name = "b"')["name"] == ['"a"', '"b"']
    number = 'far = 0  # @param {type: "number"}\n# In the book: far = -2.5, 9'
    assert tried.grid(number) == {"far": ["-2.5", "0", "9"]}
    slider = 'v{} = 3  # @param {{type: "slider", min: 0, max: 9}}\n'
    three = "".join(map(slider.format, range(3)))
    chosen = tried.grid(three + "# In the book: v2 = 0, 1, 2, 4\n")
    assert [len(some) for some in chosen.values()] == [5, 3, 5]  # not thinned itself


@pytest.mark.parametrize(
    "line, why",
    [
        ("n = 10", "n cannot be 10, by its line '# @param .*max: 9}'"),
        ("n = -1, 4", "n cannot be -1,"),
        ("by = 1.5, 1.7, 1.8", "by cannot be 1.7, 1.8,"),
        ("by = two", "by cannot be two,"),
        ('name = "c"', 'name cannot be "c",'),
        ("m = 3", "'# In the book: m = 3' should name a parameter of the cell"),
        ("n: 3", "'# In the book: n: 3' should name a parameter of the cell"),
        ("n = 3\n# In the book: n = 4", "n = 4' should name a parameter of the cell"),
        ("n = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9", "90 answers, 81 at most"),
    ],
)
def test_a_stop_that_no_reader_can_set_stops_the_build(line, why, tmp_path):
    source = FORM.replace('["a", "b"]', '["a", "b", "d", "e"]')
    path = tmp_path / "page.ipynb"
    notebook = {"cells": [code("form", source, notebooks.TRY_IT)]}
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert len(tried.with_questions(path)["cells"]) == 2
    notebook["cells"][0]["source"] += f"# In the book: {line}\n"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    with pytest.raises(pages.Problem, match=f"page.ipynb: Try it: .*{why}"):
        tried.with_questions(path)


@pytest.mark.parametrize("path", pages.notebooks(), ids=pages.page_name)
def test_the_grid_of_a_page_is_small_and_has_its_default(path):
    source = notebooks.source(
        pages.read(path)["cells"][tried.cell_of(pages.read(path))]
    )
    points = tried.points(source)
    assert len(points) <= tried.MOST
    default = {name: value for name, value, _ in tried.PARAMETER.findall(source)}
    same = [p for p in points if all(eval(p[n]) == eval(default[n]) for n in p)]
    assert len(same) == 1


def told(executed: dict) -> dict | None:
    """Grid and answers that stand with *Try it* of a page that was run for the book."""
    cell = executed["cells"][tried.cell_of(executed)]
    for output in cell["outputs"]:
        shown = "".join(output.get("data", {}).get("text/html", ""))
        if found := re.search(r'data-tried="([^"]*)"', shown):
            return json.loads(html.unescape(found[1]))
    return None


def alike(one: str, other: str) -> bool:
    """The same words, and numbers that differ by roundings alone: another processor may
    have run the page.
    """
    if NUMBER.sub("", one).split() != NUMBER.sub("", other).split():
        return False
    mine, theirs = (
        [float(number.replace(",", "")) for number in NUMBER.findall(text)]
        for text in (one, other)
    )
    return len(mine) == len(theirs) and all(
        math.isclose(a, b, rel_tol=0.02, abs_tol=1e-12) for a, b in zip(mine, theirs)
    )


def test_roundings_are_alike_and_nothing_else_is():
    assert alike("r 2.5e-16, 14.3, -0.0", "r 2.7e-16, 14.4, 0.0")
    for other in ("r 2.5e-16, 14.3, 1", "r 2.5e-16, 14.9, 0", "s 2.5e-16, 14.3, 0"):
        assert not alike("r 2.5e-16, 14.3, -0.0", other)


@pytest.mark.wide
@pytest.mark.parametrize("path", pages.notebooks(), ids=pages.page_name)
def test_three_answers_of_the_book_are_those_of_the_page(path, built):
    executed = page_cache.Shelf(pages.ROOT).executed(path)
    source, names = form_of(pages.read(path)["cells"], path)
    points = tried.points(source)
    if len(points) == 1:
        assert told(executed) is None
        return
    answers = told(executed)["answers"]
    assert len(answers) == len(points)
    draw = random.Random(pages.page_name(path))
    for k in draw.sample(range(len(points)), 3):
        text = tried.filled_in(source, points[k])
        said = notebooks.run_cell_plain(code("try-it", text), path, dict(names))
        assert alike(answers[k], said), points[k]


@pytest.mark.wide
def test_sliders_of_the_book_answer(browser, tmp_path):
    """By keyboard, without a kernel; the answer is hidden until it is asked for, unless
    the reader does not want to guess. Without scripts it stands in the page.
    """
    root = minibook.make(tmp_path)
    minibook.write_page(
        root,
        minibook.markdown("title", minibook.WORDS),
        code("form", FORM + "print(n, by, name)", notebooks.TRY_IT),
    )
    done = minibook.build(root)
    assert done.returncode == 0, done.stderr
    where = (root / "_build/html/notebooks/one/page.html").as_uri()
    plain = browser.new_page(java_script_enabled=False)
    try:
        plain.goto(where)
        assert plain.locator(".output.stream").inner_text().strip() == "3 1.0 a"
    finally:
        plain.close()
    page = browser.new_page()
    try:
        page.goto(where)
        answer = page.locator(".tried pre")
        assert not answer.is_visible()
        assert not page.locator(".output.stream").is_visible()
        reveal = page.get_by_role("button", name="Show the answer")
        reveal.click()
        assert answer.inner_text() == "3 1.0 a"
        page.locator(".tried input[type=range]").first.press("ArrowRight")
        assert not answer.is_visible()
        page.locator(".tried input[type=range]").first.press("ArrowLeft")
        page.get_by_label("Guess first").uncheck()
        assert answer.inner_text() == "3 1.0 a"
        page.locator(".tried input[type=range]").first.press("ArrowRight")
        assert answer.inner_text() == "6 1.0 a"
        page.locator(".tried select").select_option("1")
        assert answer.inner_text() == "6 1.0 b"
        page.get_by_label("Guess first").check()
        assert not answer.is_visible()
        reveal.click()
        assert answer.inner_text() == "6 1.0 b"
    finally:
        page.close()
