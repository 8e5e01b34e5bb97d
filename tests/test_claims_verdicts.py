"""From marked tests to the verdicts file: whole or not at all, the same with one
process and with two.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import claims
import pages
import pytest

ROOT = Path(__file__).resolve().parents[1]

REGISTRY = """
[[claim]]
id = "tiny.sum"
page = "chapter/one"
anchor = "theorem-1.1"
title = "Sum"
source = { seen = "derived" }
kind = "identity"
status = "true"
evidence = { statement = "proof" }
proof = "proof-1.1"
since = "0.1.0"
"""

TESTS = """
import pytest

@pytest.mark.claim("tiny.sum", role="check")
@pytest.mark.parametrize("n", [1, 2])
def test_check(n):
    assert n + n == 2 * n

@pytest.mark.claim("tiny.sum", role="control")
def test_control():
    assert 1 + 1 != 3

@pytest.mark.claim("tiny.sum", role="certificate")
def test_certificate():
    assert True

@pytest.mark.wide
def test_wide():
    assert True

@pytest.mark.bad_input
def test_bad_input():
    assert True
"""

PASSED = {
    "check": {
        "tests/test_sum.py::test_check[1]": "passed",
        "tests/test_sum.py::test_check[2]": "passed",
    },
    "control": {"tests/test_sum.py::test_control": "passed"},
    "certificate": {"tests/test_sum.py::test_certificate": "passed"},
}


@pytest.fixture
def tree(tmp_path) -> Path:
    """A small project with the real conftest and the real tool."""
    for name in (
        "tests/conftest.py",
        "book/_tools/boxes.py",
        "book/_tools/claims.py",
        "book/_tools/depends.py",
        "book/_tools/page_cache.py",
        "book/_tools/formal.py",
        "book/_tools/pages.py",
        "book/_tools/tried.py",
        "book/claims.schema.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "attnlib").mkdir()
    (tmp_path / "attnlib/__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "book/claims.toml").write_text(REGISTRY, encoding="utf-8")
    (tmp_path / "tests/test_sum.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\n"
        "addopts = --strict-markers -p no:cacheprovider\n"
        "filterwarnings = error\n",
        encoding="utf-8",
    )
    return tmp_path


def edit(tree: Path, old: str, new: str, name: str = "tests/test_sum.py") -> None:
    text = (tree / name).read_text(encoding="utf-8")
    assert old in text
    (tree / name).write_text(text.replace(old, new, 1), encoding="utf-8")


def pytest_in(
    tree: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        *(["-p", "xdist"] if "-n" in arguments else []),
        *arguments,
    ]
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = (
        "1"  # only what is tested here, so that each run starts fast
    )
    return subprocess.run(
        command,
        cwd=tree,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def verdicts_of(tree: Path, *arguments: str) -> dict:
    """The verdicts of one run; {} where none were written."""
    (tree / "v.json").unlink(missing_ok=True)
    pytest_in(tree, "-m", "claim", "--verdicts", "v.json", *arguments, "tests")
    return claims.read_verdicts(tree / "v.json")


# ---------------------------------------------------------------- what is written


@pytest.mark.wide
def test_one_process_and_two_write_the_same_bytes(tree):
    edit(tree, "def test_certificate():", "def test_certificate(device):")
    one = verdicts_of(tree)
    text = (tree / "v.json").read_bytes()
    assert b"time" not in text and b"duration" not in text
    only_cpu = {
        "tests/test_sum.py::test_certificate[cpu]": "passed"
    }  # a cuda variant carries no verdict
    assert one == {
        "keys": claims.keys(tree),
        "results": {"tiny.sum": PASSED | {"certificate": only_cpu}},
    }
    verdicts_of(tree, "-n", "2", "--dist", "loadfile")
    assert (tree / "v.json").read_bytes() == text


ODD_CONTROLS = """
@pytest.fixture
def late():
    yield
    assert 0

control = pytest.mark.claim("tiny.sum", role="control")

@control
def test_failed():
    assert 0

@control
def test_skipped():
    pytest.skip("not today")

@control
def test_xfailed():
    pytest.xfail("known")

@control
@pytest.mark.xfail
def test_xpassed():
    assert True

@control
def test_setup_failed(no_such_fixture):
    assert True

@control
def test_teardown_failed(late):
    assert True
"""


def test_outcomes_are_told_apart_and_the_worst_phase_counts(tree):
    edit(tree, "@pytest.mark.wide", ODD_CONTROLS + "\n@pytest.mark.wide")
    results = verdicts_of(tree)["results"]["tiny.sum"]
    found = {
        nodeid.split("::test_")[1]: outcome
        for nodeid, outcome in results["control"].items()
    }
    assert found == {
        "control": "passed",
        "failed": "failed",
        "skipped": "skipped",
        "xfailed": "xfailed",
        "xpassed": "xpassed",
        "setup_failed": "failed",
        "teardown_failed": "failed",
    }
    assert {role: results[role] for role in ("check", "certificate")} == {
        role: PASSED[role] for role in ("check", "certificate")
    }


def test_one_test_may_speak_for_two_claims(tree):
    first = '@pytest.mark.claim("tiny.sum", role="certificate")'
    second = '@pytest.mark.claim("tiny.two", role="check")'
    edit(tree, first, f"{first}\n{second}")
    results = verdicts_of(tree)["results"]
    assert (
        results["tiny.two"] == {"check": PASSED["certificate"]}
        and results["tiny.sum"] == PASSED
    )


@pytest.mark.parametrize(
    "mark",
    [
        'claim("tiny.sum")',
        'claim("tiny.sum", role="proof")',
        'claim("tiny.sum", "check")',
    ],
)
def test_a_marker_that_says_too_little_stops_the_run(tree, mark):
    edit(tree, 'claim("tiny.sum", role="control")', mark)
    done = pytest_in(tree, "-m", "claim", "tests")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_control: claim(id, role=...)" in done.stderr


# ---------------------------------------------------------------- whole or not at all


@pytest.mark.parametrize(
    "arguments, old, new, why",
    [
        (["-x"], "assert 1 + 1 != 3", "assert 1 + 1 == 3", "stopped early"),
        (
            [],
            "import pytest",
            "import pytest, no_such_module",
            "did not come to its end",
        ),
        ([], "assert 1 + 1 != 3", "pytest.exit('enough')", "did not come to its end"),
        (["-k", "check"], "import pytest", "import pytest", "leave out -k"),
        (
            ["tests/test_sum.py::test_check"],
            "import pytest",
            "import pytest",
            "names of tests",
        ),
        (["-n", "1"], "assert 1 + 1 != 3", "import os; os._exit(1)", "a process died"),
        (
            [],
            "assert 1 + 1 != 3",
            "open('tests/test_sum.py', 'a').write('# more')",
            "files changed while the tests ran",
        ),
    ],
)
def test_an_incomplete_run_leaves_the_old_verdicts(tree, arguments, old, new, why):
    edit(tree, old, new)
    (tree / "v.json").write_text("old", encoding="utf-8")
    done = pytest_in(tree, "-m", "claim", "--verdicts", "v.json", *arguments, "tests")
    assert (tree / "v.json").read_text(encoding="utf-8") == "old"
    assert why in done.stdout + done.stderr
    assert not list(tree.glob(".v.json*"))


def test_writing_that_fails_leaves_the_old_file_and_no_scratch(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "verdicts.json"
    claims.write_verdicts(path, {"a": "first"}, {})
    before = path.read_bytes()

    def refuse(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        with pytest.raises(OSError, match="no space left"):
            claims.write_verdicts(path, {"a": "second"}, {})
    with pytest.raises(UnicodeEncodeError):  # fails in the middle of the text
        pages.write_atomically(path, "x" * 100_000 + "\ud800")
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    claims.write_verdicts(path, {"a": "second"}, {})
    assert claims.read_verdicts(path) == {"keys": {"a": "second"}, "results": {}}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": "x"}', '"text"'])
def test_a_file_that_is_no_verdicts_reads_as_none(tmp_path, text):
    (tmp_path / "v.json").write_text(text, encoding="utf-8")
    assert claims.read_verdicts(tmp_path / "v.json") == {}
    assert claims.read_verdicts(tmp_path / "absent.json") == {}


# ---------------------------------------------------------------- the keys


PAGE = """
from attnbook.theorems import claim

@claim("tiny.other", cases=[], controls=[])
def other():
    return 1
"""
MARKED = """
import pytest
from attnbook import theorems

@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.claim(n, role="check"))
                               for n in theorems.ALL])
def test_all(n):
    pass
"""


@pytest.fixture
def two(tree) -> Path:
    """tiny.sum has a test of its own that takes a kernel; tiny.other has a function,
    for which a test speaks that runs all functions.
    """
    edit(tree, "import pytest", "import pytest\nfrom attnlib.sums import add")
    files = {
        "attnlib/sums.py": "from attnlib import parts\nadd = parts.add\n",
        "attnlib/parts.py": "add = int.__add__\n",
        "book/attnbook/__init__.py": "",
        "book/attnbook/theorems/__init__.py": "ALL = []\nclaim = 1\n"
        "from attnbook.theorems import page, unused\n",
        "book/attnbook/theorems/page.py": PAGE,
        "book/attnbook/theorems/unused.py": "import attnbook.figures",
        "book/attnbook/figures/__init__.py": "GREY = 1",
        "tests/test_all.py": MARKED,
        "requirements.txt": "torch==1",
    }
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")
    return tree


@pytest.mark.parametrize(
    "name, changed",
    {
        "attnlib/parts.py": "sum",
        "attnlib/sums.py": "sum",
        "attnlib/__init__.py": "sum",
        "book/attnbook/__init__.py": "other",
        "book/attnbook/theorems/page.py": "other",
        "book/attnbook/theorems/__init__.py": "other",
        "book/attnbook/theorems/unused.py": "",
        "book/attnbook/figures/__init__.py": "",
        "tests/test_sum.py": "sum",
        "tests/test_all.py": "other",
        "tests/conftest.py": "sum other",
        "requirements.txt": "sum other",
        "tests/new.py": "",
        "book/claims.toml": "",
        "notebooks/a.ipynb": "",
    }.items(),
)
def test_a_key_changes_with_what_its_verdict_depends_on_and_no_other(
    two, name, changed
):
    before = claims.keys(two)
    assert before.keys() == {"tiny.sum", "tiny.other"}
    (two / name).parent.mkdir(exist_ok=True)
    with (two / name).open("ab") as file:
        file.write(b"# more\n")
    after = claims.keys(two)
    found = {name for name in before if before[name] != after[name]}
    assert found == {f"tiny.{word}" for word in changed.split()}


# ---------------------------------------------------------------- the command


@pytest.mark.wide
def test_refresh_runs_the_tests_only_when_something_changed(tree, capfd):
    path = tree / claims.VERDICTS
    assert claims.refresh(tree) == 0
    assert "1 proved" in capfd.readouterr().out
    os.utime(path, (1, 1))
    assert claims.refresh(tree) == 0 and path.stat().st_mtime == 1
    assert claims.refresh(tree, force=True) == 0 and path.stat().st_mtime > 1
    os.utime(path, (1, 1))
    edit(tree, "assert True", "assert 1")
    assert claims.refresh(tree) == 0 and path.stat().st_mtime > 1


OTHER = """
import pytest

@pytest.mark.claim("tiny.other", role="check")
def test_other():
    assert True
"""


def test_refresh_runs_what_is_stale_and_keeps_the_rest(tree, capfd):
    (tree / "tests/test_other.py").write_text(OTHER, encoding="utf-8")
    assert claims.refresh(tree) == 0 and "5 passed" in capfd.readouterr().out
    before = claims.read_verdicts(tree / claims.VERDICTS)
    assert before["results"].keys() == {"tiny.sum", "tiny.other"}
    edit(tree, "assert True", "assert 1", "tests/test_other.py")
    assert claims.refresh(tree) == 0 and "1 passed" in capfd.readouterr().out
    after = claims.read_verdicts(tree / claims.VERDICTS)
    assert after["results"] == before["results"]
    changed = {n for n in after["keys"] if after["keys"][n] != before["keys"][n]}
    assert changed == {"tiny.other"}
    (tree / "tests/test_other.py").unlink()  # what is gone is forgotten
    assert claims.refresh(tree, force=True) == 0
    assert claims.read_verdicts(tree / claims.VERDICTS)["keys"].keys() == {"tiny.sum"}


def test_refresh_fails_on_a_broken_claim_also_when_it_runs_nothing(tree, capfd):
    edit(tree, "assert 1 + 1 != 3", "assert 1 + 1 == 3")
    for _ in range(2):
        assert claims.refresh(tree) == 1
        assert (
            "tiny.sum is broken: control failed: tests/test_sum.py::test_control"
            in capfd.readouterr().out
        )


def test_refresh_fails_when_no_verdicts_came(tree, capfd):
    edit(tree, "import pytest", "import pytest, no_such_module")
    assert claims.refresh(tree) == 1
    assert "no verdicts came of this run" in capfd.readouterr().out


def test_release_stops_on_anything_that_is_unchecked(tree, capfd):
    assert claims.release(tree) == 1
    assert "tiny.sum: unchecked" in capfd.readouterr().out
    (tree / claims.RELEASED).write_text('"1.0.0" = ["tiny.old"]\n', encoding="utf-8")
    (tree / "pyproject.toml").write_text('[project]\nversion = "1.1.0"\n')
    for _ in range(2):  # the second time it is listed already
        assert claims.refresh(tree) == 0 and claims.release(tree) == 0
        listed = claims.released(tree)
        assert list(listed) == ["1.0.0", "1.1.0"] and listed["1.1.0"] == ["tiny.sum"]
    edit(tree, "n + n", "2 * n")
    assert claims.release(tree) == 1, "verdicts of other code must not carry a release"


def test_the_command_says_what_is_wrong_in_one_line(tree):
    edit(tree, 'kind = "identity"', 'kind = "nice"', "book/claims.toml")
    done = subprocess.run(
        [sys.executable, "book/_tools/claims.py", "show"],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("claims: claim tiny.sum: kind: 'nice'")
    assert done.stderr.count("\n") == 1


def test_show_lists_every_claim(tree):
    done = subprocess.run(
        [sys.executable, "book/_tools/claims.py", "show"],
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    )
    first, last, sources = done.stdout.splitlines()
    assert first.split(maxsplit=3) == [
        "tiny.sum",
        "true",
        "unchecked",
        "the tests have not run on the present code",
    ]
    assert last == "claims: 1 in all, 1 unchecked"
    assert sources.startswith("sources: ") and "1 derived" in sources


# ---------------------------------------------------------------- lanes


@pytest.mark.parametrize(
    "arguments, shapes, passed",
    [
        ([], "1", 5),
        (["-m", "wide"], "1", 1),
        (["-m", "not wide"], "0", 5),
    ],
)
def test_lanes_run_only_when_asked_for(tree, arguments, shapes, passed):
    done = pytest_in(tree, *arguments, "tests", ATTNLIB_SHAPES=shapes)
    assert f"{passed} passed" in done.stdout, done.stdout + done.stderr
