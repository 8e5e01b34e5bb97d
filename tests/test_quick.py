"""make quick runs the pages that there are, longest first, and fails where Jupyter or
nbval would.
"""

from __future__ import annotations

import json
import os
import re

import minibook
import pages
import pytest
import quick
from minibook import code, markdown

import notebooks

CHECKED = "nbval-check-output"
TITLE = markdown("title", "# A page")


def stored(ident, source, text):
    """A checked cell that was run and printed `text`."""
    given = [
        {
            "output_type": "stream",
            "name": "stdout",
            "text": text.splitlines(keepends=True),
        }
    ]
    return code(ident, source, CHECKED) | {"outputs": given, "execution_count": 1}


SOUND = {
    "good": [
        stored(
            "value",
            "import attnlib\nprint('the value is', attnlib.VALUE)",
            "the value is 41\n",
        ),
        stored("after", "from pathlib import Path\nprint(Path.cwd().name)", "pages\n"),
    ],
    "history": [
        code("last", "6 * 7"),
        stored("kept", "print(_, Out[1])", "42 42\n"),
        stored("quiet", "print(3)\n4;", "3\n"),
    ],
    "jupyter": [
        stored("shell", "print(get_ipython().ast_node_interactivity)", "last_expr\n"),
        code("magic", "%matplotlib inline\n%time 1 + 1"),
        code("show", "from IPython.display import HTML\nHTML('<b>x</b>')"),
        stored("pieces", "print(1)\nprint(2)", "1\n2\n"),
    ],
    "expected": [
        code("raises", "1 / 0", "raises-exception"),
        stored("next", "print('on')", "on\n"),
    ],
    "writes": [
        code(
            "set",
            "import attnlib\nattnlib.VALUE = 99\nimport os\nos.environ['MINE'] = 'x'",
        )
    ],
    # a thread of the parent would not be there in a fork, but the locks that it held
    # would
    "threads": [
        stored(
            "parent",
            "import os\nfrom pathlib import Path\n"
            "tasks = Path(f'/proc/{os.getppid()}/task')\n"
            "print(len(os.listdir(tasks)) if tasks.is_dir() else 1)",
            "1\n",
        )
    ],
    "reads": [
        stored(
            "value",
            "import attnlib, os\nprint(attnlib.VALUE, os.environ.get('MINE'))",
            "41 None\n",
        )
    ],
}
BROKEN = {
    "fails": (
        [
            code("sum", "total = 1 + 1"),
            code("claim", "assert total == 3, 'not three'"),
            code("later", "1"),
        ],
        [
            "fails.ipynb, cell 'claim' (2 of 3)",
            "assert total == 3",
            "AssertionError: not three",
        ],
    ),
    "changed": (
        [stored("old", "print(1 + 1)", "3\n"), stored("other", "print('a')", "b\n")],
        [
            "changed.ipynb, cell 'old' (1 of 2): stdout was\n3\nand is\n2",
            "cell 'other' (2 of 2): stdout was\nb\nand is\na",
        ],
    ),
    "noise": (
        [stored("more", "import sys\nprint(1)\nprint('!', file=sys.stderr)\n2", "1\n")],
        ["stderr was\n(nothing)\nand is\n!", "text/plain was\n(nothing)\nand is\n2"],
    ),
    "silent": ([stored("less", "1;", "1\n")], ["stdout was\n1\nand is\n(nothing)"]),
    "grammar": ([code("odd", "for")], ["cell 'odd'", "SyntaxError"]),
    "undefined": ([code("far", "the_name_of_another_page")], ["NameError"]),
    "dies": (
        [code("bang", "import os\nos._exit(3)")],
        ["dies.ipynb: its process died (exit 3)"],
    ),
}


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A book with all these pages."""
    root = minibook.make(tmp_path_factory.mktemp("quick"))
    every = SOUND | {name: cells for name, (cells, _) in BROKEN.items()}
    for name, cells in every.items():
        minibook.write_page(root, TITLE, *cells, name=f"notebooks/pages/{name}.ipynb")
    (root / minibook.PAGE).unlink()
    minibook.write_toc(root, *(f"notebooks/pages/{name}" for name in every))
    return root


@pytest.fixture(scope="module")
def whole_run(book):
    return minibook.python(book, "book/_tools/quick.py")


def ended(name):
    """The line that says how a page ended."""
    return rf"^pages/{name}: [\d.]+ s, \d+ cells, \d+ compared"


def test_pages_that_fail_fail_the_run(whole_run):
    assert whole_run.returncode == 1
    for name, (_, complaints) in BROKEN.items():
        assert re.search(ended(name) + ", FAILED$", whole_run.stdout, re.M), name
        for complaint in complaints:
            assert complaint in whole_run.stderr, (
                f"{name}: {complaint}\n{whole_run.stderr}"
            )
    count = len(SOUND) + len(BROKEN)
    assert re.search(
        rf"^quick: {count} pages, \d+ cells, \d+ compared, {len(BROKEN)} failed",
        whole_run.stdout,
        re.M,
    )


def test_sound_pages_pass_beside_them(whole_run):
    for name in SOUND:
        assert re.search(ended(name) + "$", whole_run.stdout, re.M), (
            whole_run.stdout + whole_run.stderr
        )
        assert f"{name}.ipynb" not in whole_run.stderr
    assert "good: " in whole_run.stdout and re.search(
        r"good: .* 2 cells, 2 compared", whole_run.stdout
    )


def test_sound_pages_alone_pass_and_do_not_meet(book):
    """One at a time and in this order: what a page leaves behind is not there for the
    next.
    """
    names = [f"notebooks/pages/{name}.ipynb" for name in SOUND]
    done = minibook.python(book, "book/_tools/quick.py", "--at-once", "1", *names)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()[:-1]] == [
        f"pages/{name}" for name in SOUND
    ]
    assert f"{len(SOUND)} pages" in done.stdout and "0 failed" in done.stdout
    wall, cells = (
        float(re.search(rf"{words} ([\d.]+)", done.stdout)[1])
        for words in ("failed, in", "the cells took")
    )
    assert (
        0 < cells <= wall + 1
    )  # CPU seconds of one process at a time; the wall is rounded


@pytest.mark.wide  # a kernel has threads, and nbval keeps no history, as Jupyter does
@pytest.mark.parametrize(
    "name", [name for name in [*SOUND, *BROKEN] if name not in ("threads", "history")]
)
def test_nbval_says_the_same(book, name):
    # when a kernel has died, nbval waits until the time of the cell is over; without a
    # limit that is half an hour
    settings = (
        "[pytest]\n"
        "addopts = --nbval-lax --nbval-current-env --nbval-cell-timeout=30 "
        "-p no:cacheprovider\n"
    )
    (book / "pytest.ini").write_text(settings, encoding="utf-8")
    done = minibook.python(book, "-m", "pytest", "-q", f"notebooks/pages/{name}.ipynb")
    assert (done.returncode == 0) == (name in SOUND), done.stdout


def test_a_page_that_is_not_of_the_book_is_refused(capsys):
    assert quick.main(["nowhere.ipynb"]) == 1
    assert capsys.readouterr().err == (
        "quick: nowhere.ipynb is not a notebook of this book "
        "(a file below notebooks/ that _toc.yml lists)\n"
    )


def test_where_nothing_can_fork_one_line_says_so(monkeypatch, capsys):
    monkeypatch.delattr(os, "fork")
    assert quick.main([]) == 1 and "cannot fork" in capsys.readouterr().err


def test_all_pages_of_the_book_are_run(monkeypatch, capsys):
    """None is left out, and those that took longest by the ledger begin."""
    seen = []
    monkeypatch.setattr(quick, "warm_up", lambda: None)
    monkeypatch.setattr(
        quick, "run_all", lambda paths, at_once, done: seen.extend(paths)
    )
    assert quick.main([]) == 0
    assert len(seen) > 10 and set(seen) == {
        p for p in pages.listed() if p.suffix == ".ipynb"
    }
    ledger = json.loads((pages.ROOT / "book/ledger.json").read_text(encoding="utf-8"))
    known = [
        ledger[name]["cpu_seconds"]
        for path in seen
        if (name := pages.page_name(path)) in ledger
    ]
    assert known == sorted(known, reverse=True)


def test_new_pages_lead(tmp_path):
    paths = [tmp_path / f"notebooks/{name}.ipynb" for name in ("short", "long", "new")]
    assert pages.longest_first(paths, tmp_path) == paths  # no ledger yet
    (tmp_path / "book").mkdir()
    ledger = '{"short": {"cpu_seconds": 1}, "long": {"cpu_seconds": 9}}'
    (tmp_path / "book/ledger.json").write_text(ledger, encoding="utf-8")
    assert [p.stem for p in pages.longest_first(paths, tmp_path)] == [
        "new",
        "long",
        "short",
    ]


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ([("stdout", "1\n")], [("stdout", "1"), ("stdout", "\n")], []),
        ([("stdout", "1\n")], [("stdout", "1\n"), ("stderr", "w")], ["stderr"]),
        ([("stdout", "done\n")], [("stdout", "50%\rdone\n")], []),
        ([("stdout", "1\n")], [("stdout", "1")], ["stdout"]),
        (
            [("stdout", "1\n"), ("stderr", "w")],
            [("stderr", "w"), ("stdout", "1\n")],
            [],
        ),
        ([], [], []),
    ],
)
def test_streams_are_compared_as_nbval_does(before, after, kinds):
    def outputs(pairs):
        return [
            {"output_type": "stream", "name": name, "text": text}
            for name, text in pairs
        ]

    assert [
        words.split()[0] for words in quick.differences(outputs(before), outputs(after))
    ] == kinds


def test_pictures_are_not_compared_and_words_are():
    def result(**data):
        return [
            {
                "output_type": "display_data",
                "metadata": {},
                "data": {"text/plain": "x", **data},
            }
        ]

    assert (
        quick.differences(result(**{"image/png": "a"}), result(**{"image/png": "b"}))
        == []
    )
    assert len(quick.differences(result(), result(**{"text/html": "b"}))) == 1


def test_every_tag_that_pages_may_carry_is_known():
    """A new tag in the notebooks' form may ask something of this tool too."""
    assert {
        CHECKED,
        "solution",
        "hide-input",
        "hide-cell",
        "raises-exception",
    } == notebooks.TAGS
