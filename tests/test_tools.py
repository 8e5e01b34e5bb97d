"""The tools that keep and run the notebooks, each on a small book, beside an input on
which it must fail.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import types

import minibook
import page_cache
import pages
import pytest
import site_ext
from minibook import code, markdown

import notebooks

CHECKED = "nbval-check-output"


@pytest.fixture
def book(tmp_path):
    """What the notebook tool reads, without the site."""
    for name in ("_config.yml", "pyproject.toml"):
        (tmp_path / name).write_text(
            (minibook.ROOT / name).read_text(encoding="utf-8"), encoding="utf-8"
        )
    (tmp_path / "book").mkdir()
    (tmp_path / "book/intro.md").write_text("# Start\n", encoding="utf-8")
    minibook.write_toc(tmp_path, "notebooks/one/page")
    minibook.write_page(
        tmp_path, markdown("title", "# A page"), code("sum", "print(1 + 1)", CHECKED)
    )
    return tmp_path


def tool(book, *arguments):
    return notebooks.main(list(arguments), root=book)


def cells(book):
    return {cell["id"]: cell for cell in pages.read(book / minibook.PAGE)["cells"]}


# ---------------------------------------------------------------- canonical form


def test_clean_writes_what_check_accepts_and_is_stable(book):
    assert tool(book, "check") == 1  # the control: it is not canonical yet
    assert tool(book, "clean") == 0
    first = (book / minibook.PAGE).read_bytes()
    assert tool(book, "check") == 0
    assert tool(book, "clean") == 0
    assert (book / minibook.PAGE).read_bytes() == first


def test_the_form_is_that_of_jupyter_itself(book):
    import nbformat

    tool(book, "run")
    text = (book / minibook.PAGE).read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert nbformat.writes(notebook).rstrip("\n") + "\n" == text


def test_generated_cells_are_added_in_their_places(book):
    tool(book, "clean")
    assert list(cells(book)) == ["title", "links", "setup", "sum", "claims", "cite"]
    assert "%pip install" in notebooks.source(cells(book)["setup"])
    assert notebooks.tags(cells(book)["setup"]) == ["hide-cell"]


def test_generated_cells_follow_the_address(book):
    tool(book, "clean")
    config = book / "_config.yml"
    old = notebooks.source(cells(book)["links"])
    config.write_text(
        config.read_text(encoding="utf-8").replace("OWNER/REPO", "someone/attn"),
        encoding="utf-8",
    )
    assert tool(book, "check") == 1
    tool(book, "clean")
    for name in ("links", "setup", "cite"):
        text = notebooks.source(cells(book)[name])
        assert "someone" in text and "OWNER" not in text
    assert "OWNER" in old


def test_an_edited_generated_cell_is_not_canonical(book):
    tool(book, "clean")
    path = book / minibook.PAGE
    path.write_text(
        path.read_text(encoding="utf-8").replace("%pip install -q", "%pip install"),
        encoding="utf-8",
    )
    assert tool(book, "check") == 1


def test_claims_of_the_page_come_from_the_registry(book):
    tool(book, "clean")
    assert "This page has no claim" in notebooks.source(cells(book)["claims"])
    (book / "book/claims.toml").write_text(
        """[[claim]]
id = "one.claim"
page = "one/page"
anchor = "theorem-1.1"
title = "One"
source = {seen = "derived"}
kind = "identity"
status = "true"
evidence = {statement = "sampled"}
since = "0.1.0"
""",
        encoding="utf-8",
    )
    assert tool(book, "check") == 1
    tool(book, "clean")
    assert "one.claim" in notebooks.source(cells(book)["claims"])


def test_only_checked_cells_keep_outputs_and_counts(book):
    minibook.write_page(
        book,
        markdown("title", "# A page"),
        code("sum", "print(1 + 1)", CHECKED),
        code("other", "print(3)"),
    )
    tool(book, "run")
    assert (
        notebooks.printed(cells(book)["sum"]) == "2\n"
        and cells(book)["sum"]["execution_count"] == 1
    )
    assert (
        cells(book)["other"]["outputs"] == []
        and cells(book)["other"]["execution_count"] is None
    )


def test_metadata_that_is_meant_stays_and_other_goes(book):
    stray = {
        **code("sum", "print(1)"),
        "metadata": {
            "tags": ["solution", "mine"],
            "jupyter": {"x": 1},
            "scrolled": True,
        },
    }
    minibook.write_page(book, markdown("title", "# A page"), stray)
    tool(book, "clean")
    assert cells(book)["sum"]["metadata"] == {
        "cellView": "form",
        "tags": ["hide-input", "solution"],
    }
    assert pages.read(book / minibook.PAGE)["metadata"] == notebooks.NOTEBOOK_METADATA


# ---------------------------------------------------------- bad input is one clear line


def refused(book, capsys, *arguments):
    """The line with which the tool refuses, which must be one line."""
    assert tool(book, *arguments) == 1
    said = capsys.readouterr().err.strip()
    assert "Traceback" not in said and said.count("\n") == 0
    return said


def test_notebooks_are_those_of_the_table_of_contents(book, capsys):
    assert pages.notebooks(book) == [book / minibook.PAGE]
    extra = minibook.write_page(
        book, markdown("title", "# Lost"), name="notebooks/two/deep/lost.ipynb"
    )
    assert "notebooks/two/deep/lost.ipynb is not listed" in refused(
        book, capsys, "check"
    )
    extra.unlink()
    minibook.write_toc(book, "notebooks/one/page", "notebooks/one/gone")
    assert "notebooks/one/gone, which is not there" in refused(book, capsys, "check")


def test_checkpoints_of_an_editor_are_no_pages(book):
    minibook.write_page(
        book,
        markdown("title", "# Old"),
        name="notebooks/one/.ipynb_checkpoints/page.ipynb",
    )
    assert pages.notebooks(book) == [book / minibook.PAGE]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', "# no json"])
def test_a_file_that_is_no_notebook(book, capsys, text):
    (book / minibook.PAGE).write_text(text, encoding="utf-8")
    assert "is not a notebook" in refused(book, capsys, "check")


def test_a_path_that_is_not_a_page(book, capsys):
    assert "nowhere.ipynb is not a notebook of this book" in refused(
        book, capsys, "run", "nowhere.ipynb"
    )


def test_cell_ids_are_unique(book, capsys):
    minibook.write_page(book, markdown("twice", "# A page"), code("twice", "1"))
    assert "'twice'" in refused(book, capsys, "clean")


def test_a_broken_address(book, capsys):
    (book / "_config.yml").write_text(
        "repository: {url: nowhere, branch: main}", encoding="utf-8"
    )
    assert "nowhere" in refused(book, capsys, "clean")


@pytest.mark.parametrize(
    "text", ["root: [", "", "- a", "chapters: []", "root: book/intro\nchapters: 3"]
)
def test_a_broken_table_of_contents(book, capsys, text):
    (book / "_toc.yml").write_text(text, encoding="utf-8")
    assert "_toc.yml cannot be read" in refused(book, capsys, "check")


# ---------------------------------------------------------------- running


def test_run_reports_a_failing_cell_and_keeps_the_file(book, capsys):
    path = minibook.write_page(
        book,
        markdown("title", "# A page"),
        code("bad", "x = 1\nraise KeyError('lost')"),
    )
    before = path.read_bytes()
    assert tool(book, "run") == 1
    assert "KeyError: 'lost'" in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text, what",
    [
        ("x = 1", "prints nothing"),
        ("print(1)\n2 + 2", "execute_result"),
        ("import sys\nprint(1)\nprint(2, file=sys.stderr)", "stream"),
    ],
)
def test_a_checked_cell_only_prints(book, capsys, text, what):
    minibook.write_page(book, markdown("title", "# A page"), code("sum", text, CHECKED))
    assert what in refused(book, capsys, "run")


def test_run_uses_one_thread(book):
    minibook.write_page(
        book,
        markdown("title", "# A page"),
        code("threads", "import os\nprint(os.environ['OMP_NUM_THREADS'])", CHECKED),
    )
    tool(book, "run")
    assert notebooks.printed(cells(book)["threads"]) == "1\n"


def test_ledger_measures_work_and_memory(book):
    work = (
        "import time\n"
        "end = time.process_time() + 1\n"
        "while time.process_time() < end:\n"
        "    pass\n"
        "block = bytearray(200 * 2**20)"
    )
    minibook.write_page(book, markdown("title", "# A page"), code("work", work))
    assert tool(book, "run", "--ledger") == 0
    ledger = json.loads((book / "book/ledger.json").read_text(encoding="utf-8"))
    cost = ledger["one/page"]
    assert cost["cpu_seconds"] >= 1
    assert 200 < cost["peak_mb"] < 600
    assert cost["cells"] == 1 + 1  # with the set-up cell
    assert "torch" in ledger["machine"]


def test_over_budget_is_said_in_words_and_only_then():
    assert notebooks.over_budget("p", notebooks.Cost(29.0, 2000, {"a": 14.0})) == []
    words = "\n".join(
        notebooks.over_budget("p", notebooks.Cost(31.0, 2100, {"a": 16.0}))
    )
    assert "budget of 30" in words and "cell 'a'" in words and "2100 MB" in words


# ---------------------------------------------------------------- as plain Python


def test_plain_run_compares_checked_outputs(book, capsys):
    tool(book, "run")
    assert tool(book, "run", "--plain") == 0
    assert "1 checked cells agree" in capsys.readouterr().out
    path = book / minibook.PAGE
    path.write_text(
        path.read_text(encoding="utf-8").replace("1 + 1", "1 + 2"), encoding="utf-8"
    )
    assert tool(book, "run", "--plain") == 1
    assert "printed" in capsys.readouterr().err


def test_plain_run_needs_no_jupyter(book, monkeypatch):
    tool(book, "run")
    for name in ("nbformat", "nbclient", "ipykernel", "IPython", "yaml"):
        monkeypatch.setitem(sys.modules, name, None)
    assert tool(book, "run", "--plain") == 0


def test_plain_run_skips_magics_also_in_a_block(book):
    text = (
        "try:\n"
        "    raise ModuleNotFoundError\n"
        "except ModuleNotFoundError:\n"
        "    %pip install -q nothing\n"
        "print(5 % 3)"
    )
    minibook.write_page(book, markdown("title", "# A page"), code("magic", text))
    names = types.SimpleNamespace(**pages.read(book / minibook.PAGE))
    assert notebooks.run_plain({"cells": names.cells}, book / minibook.PAGE) == 0
    assert notebooks.without_magics("a = 5 % 3") == "a = 5 % 3"


# ---------------------------------------------------------------- the cache


LIBRARY = {
    "attnlib/__init__.py": "",
    "attnlib/kernel.py": "def f(): return 1",
    "book/attnbook/data/__init__.py": "",
    "book/attnbook/data/results/one.json": "{}",
    "book/attnbook/figures/__init__.py": "",
    "book/attnbook/figures/one.py": "from attnlib.kernel import f\nGREY = 1",
    "book/attnbook/figures/two.py": "def g():\n    from attnbook import data\n"
    "    data.load()",
    "book/attnbook/__init__.py": "",
    "book/attnbook/theorems.py": "import attnlib.kernel",
    "requirements.txt": "torch",
}
IMPORTS = {
    "one": "import attnlib\nfrom attnbook import figures\n%pip x\nfigures.one.GREY",
    "two": "from attnbook.figures import two as draw\ndraw.g()",
    "three": "from attnbook import theorems as t\nt.f()",
    "none": "from attnbook import figures",
}


@pytest.mark.parametrize(
    "name, runs_again",
    {
        "attnlib/__init__.py": "one three",
        "book/attnbook/__init__.py": "one two three none",
        "attnlib/kernel.py": "one three",
        "book/attnbook/data/__init__.py": "two",
        "book/attnbook/data/results/one.json": "two",
        "book/attnbook/figures/one.py": "one",
        "book/attnbook/figures/two.py": "two",
        "book/attnbook/theorems.py": "three",
        "requirements.txt": "one two three none",
        "attnlib/__pycache__/kernel.pyc": "",
        "attnlib/other.py": "",
    }.items(),
)
def test_a_page_runs_again_if_what_it_imports_has_changed(tmp_path, name, runs_again):
    for file, text in LIBRARY.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    paths = {
        page: minibook.write_page(
            tmp_path,
            markdown("t", "# T"),
            code("c", text),
            name=f"notebooks/{page}.ipynb",
        )
        for page, text in IMPORTS.items()
    }
    before = {page: page_cache.Shelf(tmp_path).place(paths[page]) for page in paths}
    (tmp_path / name).parent.mkdir(exist_ok=True)
    with (tmp_path / name).open("a", encoding="utf-8") as file:
        file.write(" ")
    after = {page: page_cache.Shelf(tmp_path).place(paths[page]) for page in paths}
    changed = {page for page in paths if before[page] != after[page]}
    assert changed == set(runs_again.split())


def test_a_page_runs_again_if_its_code_has_changed_not_its_text(tmp_path):
    def place(*cells):
        path = minibook.write_page(tmp_path, *cells)
        return page_cache.Shelf(tmp_path).place(path)

    first = place(markdown("t", "# T"), code("c", "print(1)"))
    assert place(markdown("t", "# Other"), code("c", "print(1)")) == first
    assert place(markdown("t", "# T"), code("c", "print(2)")) != first
    assert place(code("c", "print(1)", "raises-exception")) != first


def test_the_newest_states_of_a_page_are_kept(tmp_path):
    path = tmp_path / minibook.PAGE
    for number in (*range(page_cache.KEPT + 2), 0):  # the first one was long ago
        minibook.write_page(tmp_path, code("c", f"print({number})"))
        shelf = page_cache.Shelf(tmp_path)
        shelf.keep(pages.read(path), path)
        os.utime(shelf.place(path).with_suffix(".ipynb"), (number, number))
    gone = tmp_path / page_cache.FOLDER / "one/gone/key.ipynb"
    gone.parent.mkdir()
    gone.write_text("")
    shelf.prune([path])
    assert shelf.executed(path) is not None and not gone.parent.exists()
    assert len(list(shelf.place(path).parent.iterdir())) == page_cache.KEPT


# ------------------------------------------------------- pictures beside the page


def test_pictures_lie_beside_the_page(tmp_path):
    """As files named after what is in them, and room is kept for them; code that speaks
    of a picture stays as it is.
    """
    lines = b'<svg xmlns="x" width="432pt" height="216pt"></svg>'
    pixels = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\0\0\0\x07\0\0\0\x05"
    kinds = {"svg+xml": lines, "png": pixels}
    body = '<pre>src="data:image/png;base64,{inside}"</pre>'
    for kind, content in kinds.items():
        inside = base64.b64encode(content).decode()
        body += f'<img alt="a" src="data:image/{kind};base64,{inside}">'
        body += f'<source srcset="data:image/{kind};base64,{inside}">'
    context = {"body": body + body, "pathto": lambda name, _: f"../{name}"}
    site_ext.set_pictures_apart(
        types.SimpleNamespace(outdir=tmp_path), "", "", context, None
    )
    files = sorted(tmp_path.rglob("*.*"))
    assert sorted(path.read_bytes() for path in files) == sorted(kinds.values())
    assert context["body"].count('base64,{inside}"</pre>') == 2
    for path in files:
        assert context["body"].count(f' src="../_images/{path.name}"') == 2
        assert context["body"].count(f' srcset="../_images/{path.name}"') == 2
    assert context["body"].count('loading="lazy" width="576" height="288"') == 2
    assert context["body"].count('loading="lazy" width="7" height="5"') == 2


# ------------------------------------------------------- docstrings on the API page


def test_a_folded_check_says_what_it_found():
    said = "a: holds: 0 = 0, b: fails: 2 > 1, c: fails: 1 > 0"
    assert site_ext.check_name(said) == "Check: holds, 2 controls fail"
    assert site_ext.check_name("holds: 1 <= 2") == "Check: holds"
    assert site_ext.check_name("42") == "Check"


def test_docstrings_become_fields_and_nothing_in_them_is_markup():
    import docstrings
    from docutils.core import publish_doctree

    words = """One sentence on (*batch, n, d) and ``code`` that goes on in a
second line.

    y = x* W_h' |z|

Args:
    x: (*batch, n, d), tokens
        are rows.
    r, s: sketch sizes, 1 <= r <= n: two of them.

Returns:
    d.

Raises:
    ValueError: if r > n.

Cost:
    O(n `r` d)_ time.

Claim:
    sketch.jl
"""
    settings = {"report_level": 1, "warning_stream": False}
    control = publish_doctree(words, settings_overrides=settings)
    assert "system_message" in control.pformat()
    tree = publish_doctree(docstrings.to_rst(words), settings_overrides=settings)
    assert "system_message" not in tree.pformat()
    assert tree[0].astext().endswith("and code that goes on in a second line.")
    assert tree[1].astext() == "y = x* W_h' |z|"
    fields = {
        field[0].astext(): [line.astext() for line in field[1][0] if line.astext()]
        for field in tree.findall(lambda node: node.tagname == "field")
    }
    assert fields == {
        "Args": [
            "x: (*batch, n, d), tokens are rows.",
            "r, s: sketch sizes, 1 <= r <= n: two of them.",
        ],
        "Returns": ["d."],
        "Raises": ["ValueError: if r > n."],
        "Cost": ["O(n `r` d)_ time."],
        "Claim": ["sketch.jl"],
    }


# ---------------------------------------------------------------- inventories


def test_inventories_are_what_the_tool_writes():
    import zlib

    import inventories

    def names(data):
        head, body = data.split(b"using zlib.\n")
        return head, zlib.decompress(body)

    folder = minibook.ROOT / "book/_inv"
    assert {path.stem for path in folder.glob("*.inv")} == set(inventories.NAMES)
    for project, known in inventories.NAMES.items():
        assert names((folder / f"{project}.inv").read_bytes()) == names(
            inventories.inventory(project, known)
        )
