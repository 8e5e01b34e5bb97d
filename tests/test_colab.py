"""A page runs as a reader in Colab runs it: the notebook alone, and its first cell
installs the library.

The environment has Colab's versions of what pages touch (its list of packages, August
2026), is made once, and is kept under _build/. Not emulated: Python 3.13 (this one is
used), torch 2.11 built for CUDA (the book's own version, so that a CPU build will do),
the several hundred other packages, Colab's way of showing a page, and its GPU.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import address
import nbformat
import pages
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
TORCH = re.search(
    r"^torch==[\w.]+", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.M
)[0]
COLAB = [
    "numpy==2.1.3",
    "matplotlib==3.10.0",
    "ipython==7.34.0",
    "ipykernel==6.17.1",
    TORCH,
]
NOT_COPIED = shutil.ignore_patterns(
    ".git",
    ".venv",
    "_build",
    "build",
    "__pycache__",
    "*.egg-info",
    ".*_cache",
    ".hypothesis",
)
SECONDS_A_CELL = 900  # the first cell installs packages
CHECKED = "nbval-check-output"

pytestmark = [pytest.mark.colab, pytest.mark.wide]


def run(*command, **options) -> subprocess.CompletedProcess:
    """A command that must succeed; if not, the test says what it wrote."""
    done = tried(*command, **options)
    if done.returncode:
        pytest.fail(f"{command[0]} failed:\n{done.stdout}{done.stderr}", pytrace=False)
    return done


def tried(*command, **options) -> subprocess.CompletedProcess:
    """A command with its output."""
    words = [str(word) for word in command]
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        **options,
    )


def needs_network(*command) -> None:
    """A command that asks the package index: if it cannot, its tests are skipped, but
    never in CI.
    """
    done = tried(*command)
    if done.returncode:
        stop = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        why = done.stderr.strip().splitlines()[-1]
        stop(f"no environment like Colab's (no network?): {why}")


# --- the environment, and the repository that pages install from ---


@pytest.fixture(scope="session")
def python() -> Path:
    """The Python of the environment, made if it is not there yet."""
    key = hashlib.sha256(
        repr((COLAB, sys.version_info[:2], str(ROOT))).encode()
    ).hexdigest()[:12]
    folder = ROOT / "_build" / f"colab-{key}"
    interpreter = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / "complete").exists():
        run(sys.executable, "-m", "venv", "--clear", "--without-pip", folder)
        lend("pip", interpreter)
        lend("torch", interpreter)
        # pages compile what they import
        quiet = ["install", "-q", "--no-compile"]
        needs_network(interpreter, "-m", "pip", *quiet, *COLAB)
        (folder / "complete").touch()
    # What the first cell of each page needs from the index: something to build the
    # library with.
    needs_network(
        interpreter,
        "-m",
        "pip",
        "install",
        "-q",
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
        "setuptools>=77",
    )
    return interpreter


def lend(package: str, interpreter: Path) -> None:
    """Give another environment a package of this one: it need not be unpacked again."""
    found = importlib.metadata.distribution(package)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    target = Path(run(interpreter, "-c", code).stdout.strip())
    for name in {file.parts[0] for file in found.files} - {".."}:  # no commands
        source = Path(found.locate_file(name))
        if source.is_dir():
            shutil.copytree(source, target / name, copy_function=link)
        else:
            link(source, target / name)


def link(source, target) -> None:
    """A second name of a file, or a copy on another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture
def fresh_python(python) -> Path:
    """The same, without the library."""
    run(python, "-m", "pip", "uninstall", "-q", "-y", "attnlib")
    return python


@pytest.fixture(scope="session")
def repository(tmp_path_factory) -> str:
    """The working tree as an archive, at an address from which pip can take it."""
    folder = tmp_path_factory.mktemp("repository")
    shutil.copytree(ROOT, folder / "book", ignore=NOT_COPIED, symlinks=True)
    archive = shutil.make_archive(str(folder / "main"), "zip", folder, "book")
    return Path(archive).as_uri()


# --- running a page ---


def redirected(notebook, repository: str):
    """The notebook with the address in its setup cell replaced."""
    [setup] = [cell for cell in notebook.cells if cell.id == "setup"]
    branch = address.config()["branch"]
    public = f"{address.repository_url()}/archive/{branch}.zip"
    assert setup.source.count(public) == 1
    setup.source = setup.source.replace(public, repository)
    return notebook


def execute(path: Path, python: Path, folder: Path, repository: str):
    """Run a page, alone in an empty folder, on the kernel of another environment."""
    kernels = folder.parent / "kernels"
    (kernels / "colab").mkdir(parents=True)
    kernel = {
        "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Colab",
        "language": "python",
    }
    (kernels / "colab" / "kernel.json").write_text(json.dumps(kernel))
    specs = KernelSpecManager(kernel_dirs=[str(kernels)])
    client = NotebookClient(
        redirected(nbformat.read(path, 4), repository),
        timeout=SECONDS_A_CELL,
        kernel_name="colab",
        resources={"metadata": {"path": str(folder)}},
    )
    client.create_kernel_manager().kernel_spec_manager = specs
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV", "ATTNLIB_SHAPES")
    }
    return client.execute(env=kept)


def printed(cell) -> str:
    return "".join(
        out.text
        for out in cell.outputs
        if out.output_type == "stream" and out.name == "stdout"
    )


def differences(stored, executed) -> list[str]:
    """Checked cells that printed something else than the text that the page stores."""
    pairs = [
        (a, b)
        for a, b in zip(stored.cells, executed.cells, strict=True)
        if CHECKED in a.metadata.get("tags", [])
    ]
    assert pairs, "the page has no checked cell"
    return [
        f"{a.id}: stored {printed(a)!r}, got {printed(b)!r}"
        for a, b in pairs
        if not printed(a) or printed(a) != printed(b)
    ]


def versions(python: Path) -> list[str]:
    """What is installed of the list above, in its form."""
    names = [wanted.split("==")[0] for wanted in COLAB]
    code = (
        "import sys, importlib.metadata as m; "
        "print(*(n + '==' + m.version(n).split('+')[0] for n in sys.argv[1:]))"
    )
    return run(python, "-c", code, *names).stdout.split()


def run_page(path: Path, python: Path, repository: str, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    executed = execute(path, python, folder, repository)
    assert differences(nbformat.read(path, 4), executed) == []
    assert versions(python) == COLAB, "installing the library changed what Colab brings"
    assert list(folder.iterdir()) == [], "the page leaves files behind"


def setup_of_the_pages() -> str:
    """The set-up cell that all pages share."""
    [shared] = {
        c.source
        for path in pages.notebooks()
        for c in nbformat.read(path, 4).cells
        if c.id == "setup"
    }
    return shared


def test_a_page_runs_as_in_colab(fresh_python, repository, tmp_path):
    """All pages share one set-up cell, and nbval runs what follows it."""
    page = ROOT / "notebooks" / "path_decomposition" / "paths.ipynb"
    run_page(page, fresh_python, repository, tmp_path)


# --- controls: the tests above can fail ---


@pytest.fixture
def sample(tmp_path) -> Path:
    """A page of three cells: set up, a checked cell, a figure."""
    stored = nbformat.v4.new_output("stream", name="stdout", text="3\n")
    checked = nbformat.v4.new_code_cell(
        "print(1 + 2)",
        id="sum",
        metadata={"tags": [CHECKED]},
        outputs=[stored],
        execution_count=1,
    )
    last = nbformat.v4.new_code_cell(
        "import attnlib\nprint(attnlib.__version__, attnlib.__file__)", id="where"
    )
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(setup_of_the_pages(), id="setup"),
            checked,
            last,
        ]
    )
    path = tmp_path / "sample.ipynb"
    nbformat.write(notebook, path)
    return path


def test_the_library_comes_from_the_setup_cell(
    sample, fresh_python, repository, tmp_path
):
    assert tried(fresh_python, "-c", "import attnlib", cwd=tmp_path).returncode == 1
    folder = tmp_path / "page"
    folder.mkdir()
    executed = execute(sample, fresh_python, folder, repository)
    version, place = printed(executed.cells[-1]).split()
    assert (
        version
        == re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)[
            1
        ]
    )
    assert Path(place).is_relative_to(fresh_python.parents[1])
    assert differences(nbformat.read(sample, 4), executed) == []


def test_the_set_up_cell_survives_a_second_run(
    sample, fresh_python, repository, tmp_path
):
    notebook = nbformat.read(sample, 4)
    notebook.cells.insert(
        1,
        nbformat.v4.new_code_cell(
            redirected(nbformat.read(sample, 4), repository).cells[0].source, id="again"
        ),
    )
    nbformat.write(notebook, sample)
    folder = tmp_path / "page"
    folder.mkdir()
    executed = execute(sample, fresh_python, folder, repository)
    assert (
        differences(notebook, executed) == [] and executed.cells[1].outputs == []
    )  # the second run has nothing to do


def test_without_a_network_the_set_up_cell_says_what_is_wrong(
    sample, fresh_python, tmp_path
):
    folder = tmp_path / "page"
    folder.mkdir()
    notebook = nbformat.read(sample, 4)
    notebook.cells[0].metadata["tags"] = ["raises-exception"]
    notebook.cells = notebook.cells[:1]
    nbformat.write(notebook, sample)
    executed = execute(sample, fresh_python, folder, "file:///nowhere.zip")
    [error] = [out for out in executed.cells[0].outputs if out.output_type == "error"]
    assert (
        error.ename == "ModuleNotFoundError" and "is there a network?" in error.evalue
    )


def test_without_an_address_the_set_up_cell_says_what_to_set(
    sample, fresh_python, tmp_path
):
    owner = "/".join(address.current())
    notebook = nbformat.read(sample, 4)
    if owner != "OWNER/REPO":
        pytest.skip(f"this book has the address {owner}")
    notebook.cells = notebook.cells[:1]
    notebook.cells[0].metadata["tags"] = ["raises-exception"]
    nbformat.write(notebook, sample)
    folder = tmp_path / "page"
    folder.mkdir()
    executed = execute(sample, fresh_python, folder, "https://localhost/OWNER/none.zip")
    [error] = executed.cells[0].outputs  # pip would have written a word, too
    assert "has no address yet: replace OWNER/REPO" in error.evalue


def test_a_checked_cell_that_prints_something_else_is_found(sample):
    stored, executed = nbformat.read(sample, 4), nbformat.read(sample, 4)
    executed.cells[1].outputs[0].text = "4\n"
    assert differences(stored, executed) == ["sum: stored '3\\n', got '4\\n'"]
    stored.cells[1].outputs, executed.cells[1].outputs = (
        [],
        [],
    )  # never run: silence is no agreement
    assert differences(stored, executed) == ["sum: stored '', got ''"]


def test_all_pages_share_their_set_up():
    assert "attnlib" in setup_of_the_pages()
