"""How long the book takes to run and to build, as ratios; writes book_build.json.

    python book/_experiments/book_build.py [--pages NAME ...]

In a copy of the files that git knows, so that nothing built here is touched; wall time
on a machine with two cores:

- cold: book/_tools/build.py with an empty cache, two pages at a time; over the same one
  at a time;
- warm: the same after one page changed, by a line of text or by a line of code, which
  runs the page again; the page is the one in the middle of book/ledger.json;
- import: user CPU time of `import torch` with and without attnlib, in turn.

The claim tests belong to none of these. --pages leaves code in these pages only and
stores nothing: a try.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import store

sys.path.insert(0, str(store.ROOT / "book" / "_tools"))
import pages
from build import AT_ONCE

import notebooks

ROUNDS_WARM, ROUNDS_IMPORT = 2, 5
BUILD = ["book/_tools/build.py", "--no-verdicts"]
IMPORTS = {
    "torch": "import torch",
    "torch and attnlib": "import torch, attnlib",
    "torch and attnlib.attention": "import torch, attnlib.attention",
}
RATIOS = {
    "cold over serial cold": ("cold", "cold serial"),
    "warm, text, over serial cold": ("warm, text", "cold serial"),
    "warm, code, over serial cold": ("warm, code", "cold serial"),
    "import attnlib over import torch": ("import torch and attnlib", "import torch"),
    "import attnlib.attention over import torch": (
        "import torch and attnlib.attention",
        "import torch",
    ),
}


class Runs:
    """Runs commands in a copy of the project; keeps the seconds of each and the load
    average when it began.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.seconds, self.load = root, defaultdict(list), defaultdict(list)
        self.env = {
            **os.environ,
            "PYTHONPATH": str(root),
            "PYTHONUTF8": "1",
            "OMP_NUM_THREADS": "1",
        }

    def run(self, name: str, command: list[str], clock=time.perf_counter) -> str:
        """What Python printed with these arguments; if it fails everything ends, since
        its time says nothing.
        """
        self.load[name].append(round(os.getloadavg()[0], 2))
        began = clock()
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.root,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        self.seconds[name].append(round(clock() - began, 3))
        if done.returncode:
            sys.exit(
                f"{name} failed; nothing is stored\n"
                f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
            )
        print(
            f"{name}: {self.seconds[name][-1]:.1f} s, load {self.load[name][-1]}",
            flush=True,
        )
        return done.stdout


def copy(target: Path) -> Path:
    """The files that git knows."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"],
        cwd=store.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(store.ROOT / name, target / name)
    return target


def keep_code_of(root: Path, names: list[str]) -> None:
    """Empty the code cells of all other pages; their text stays, as links lead
    there.
    """
    for path in pages.notebooks(root):
        if pages.page_name(path, root) not in names:
            book = pages.read(path)
            book["cells"] = [
                cell for cell in book["cells"] if cell["cell_type"] == "markdown"
            ]
            path.write_text(notebooks.text_of(book), encoding="utf-8")


def change(path: Path, kind: str, line: str) -> None:
    """Add a line to the last cell of this kind."""
    book = pages.read(path)
    cell = [c for c in book["cells"] if c["cell_type"] == kind][-1]
    cell["source"] = [*cell["source"], "\n", line]
    path.write_text(notebooks.text_of(book), encoding="utf-8")


def middle(root: Path, names: list[str]) -> Path:
    """The page in the middle by the CPU seconds of the ledger."""
    found = [
        path
        for path in pages.longest_first(pages.notebooks(root), root)
        if pages.page_name(path, root) in names
    ]
    return found[len(found) // 2]


def user_seconds() -> float:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def measure(runs: Runs, page: Path) -> None:
    """All commands, the long ones in turn with the short ones."""
    for _ in range(ROUNDS_IMPORT + 1):
        for name, text in IMPORTS.items():
            runs.run(f"import {name}", ["-c", text], user_seconds)
    for name in IMPORTS:
        (
            runs.seconds[f"import {name}"].pop(0),
            runs.load[f"import {name}"].pop(0),
        )  # the first ones read the disk
    long = [
        ("cold serial", [*BUILD, "--fresh", "--at-once", "1"]),
        ("cold", [*BUILD, "--fresh"]),
    ]
    for name, command in long:
        shutil.rmtree(runs.root / "_build", ignore_errors=True)
        runs.run(name, command)
    for turn in range(ROUNDS_WARM):
        change(page, "markdown", f"A line more, the {turn}th.")
        runs.run("warm, text", BUILD)
        change(page, "code", f"# a line more, the {turn}th")
        runs.run("warm, code", BUILD)


def ratio(over: list[float], under: list[float]) -> dict[str, float]:
    """Least, middle and most: in turn where both were run as often, else over the
    middle of `under`.
    """
    below = under if len(over) == len(under) else [statistics.median(under)] * len(over)
    found = [a / b for a, b in zip(over, below)]
    return {
        "low": round(min(found), 4),
        "median": round(statistics.median(found), 4),
        "high": round(max(found), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measure how long the book takes to run and to build."
    )
    parser.add_argument(
        "--pages",
        nargs="+",
        help="a try: only these keep their code, as path_decomposition/paths",
    )
    options, began = parser.parse_args(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        root = copy(Path(folder) / "book")
        names = options.pages or [
            pages.page_name(path, root) for path in pages.notebooks(root)
        ]
        keep_code_of(root, names)
        page, runs = middle(root, names), Runs(root)
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", "attnlib", "book/attnbook"],
            cwd=root,
            check=True,
        )
        measure(runs, page)
    result = {
        "ratios": {
            name: ratio(runs.seconds[a], runs.seconds[b])
            for name, (a, b) in RATIOS.items()
        },
        "seconds": dict(runs.seconds),
        "load": dict(runs.load),
    }
    print(json.dumps(result["ratios"], indent=1))
    settings = {
        "pages": len(names),
        "changed page": pages.page_name(page, root),
        "cores": os.cpu_count(),
        "at once": AT_ONCE,
        "clock": "wall; for imports user CPU time",
    }
    if not options.pages:
        print(
            store.write(
                "book_build",
                result,
                settings=settings,
                seconds=time.perf_counter() - began,
            )
        )


if __name__ == "__main__":
    main()
