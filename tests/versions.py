"""The library at the two ends of what it says it works with.

    python tests/versions.py lowest|newest [arguments of pytest]

pyproject.toml says from which version on each package will do. `lowest` installs those
versions, or the next that this Python can have; `newest` all that there is today. uv
finds them. The environment is a temporary one, some GB: the library gets there as a
wheel, which is built from the sdist, and stands alone at first, with nothing but what
it needs itself: the README must run, and every module of attnlib be imported. Then come
the tests of the library, in a folder without its source.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
# what the tests read, and no attnlib
CARRIED = ("book", "notebooks", "tests", "bench", "proofs", "pyproject.toml")
# tests of the book, of its tools, and of the text of the library
NOT_OF_THE_LIBRARY = """
bench bench_jobs bench_page bench_scaling book_build claims_book claims_registry
claims_verdicts colab concordance docstrings figures_bench folds fuzz kernels minutes
notebook_form pdf proofs reading_pages release repo site site_pages teeth teeth_pages
tools use_it
"""


EVERY_MODULE = """
import importlib, pkgutil, attnlib
for module in pkgutil.walk_packages(attnlib.__path__, "attnlib."):
    importlib.import_module(module.name)
"""


def run(*command, **options) -> None:
    """A command that must succeed."""
    words = [str(word) for word in command]
    print("$", " ".join(words), flush=True)
    subprocess.run(words, check=True, **options)


def built(python: Path, folder: Path) -> Path:
    """The wheel of the library, made from its sdist."""
    source, target = folder / "source", folder / "dist"
    shutil.copytree(
        ROOT, source, ignore=shutil.ignore_patterns(".*", "_build", "build")
    )
    run(python, "-m", "uv", "build", source, "-o", target)
    [wheel] = target.glob("*.whl")
    return wheel


def environment(folder: Path) -> Path:
    """The Python of a new environment that has uv."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(python, "-m", "pip", "install", "-q", "uv")
    return python


def install(python: Path, end: str, *wanted) -> None:
    """Install packages, as wheels only, from one end of what is allowed."""
    uv = [python, "-m", "uv", "pip", "install", "--python", python]
    run(*uv, "--only-binary", ":all:", "--resolution", RESOLUTIONS[end], *wanted)


def readme() -> str:
    """The Python of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))


def check(end: str, folder: Path, arguments: list[str]) -> int:
    """Install, use, and test the library; the exit code of pytest."""
    python = environment(folder / "environment")
    wheel = built(python, folder)
    install(python, end, "-r", ROOT / "pyproject.toml")
    run(python, "-m", "uv", "pip", "install", "--python", python, "--no-deps", wheel)
    run(python, "-W", "error", "-c", readme(), cwd=folder)
    run(python, "-c", EVERY_MODULE, cwd=folder)
    extras = ("--extra", "book", "--extra", "test")
    install(python, end, "-r", ROOT / "pyproject.toml", *extras)
    (folder / "work").mkdir()
    for name in CARRIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / "work" / name)
    left_out = [f"--ignore=tests/test_{name}.py" for name in NOT_OF_THE_LIBRARY.split()]
    # what old versions warn of today is their own affair
    command = [python, "-m", "pytest", "-q", "-n", "2", "-W", "default", "tests"]
    command += left_out + arguments
    return subprocess.run(command, cwd=folder / "work", check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("end", choices=RESOLUTIONS)
    options, arguments = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        return check(options.end, Path(folder), arguments)


if __name__ == "__main__":
    sys.exit(main())
