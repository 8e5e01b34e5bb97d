"""Keep the notebooks deterministic, and run them.

    python book/_tools/notebooks.py clean [paths]   write the canonical form
    python book/_tools/notebooks.py check [paths]   exit 1 where `clean` would change a file
    python book/_tools/notebooks.py run [paths]     execute, refresh the checked outputs, clean
        --ledger     also measure CPU seconds and memory into book/ledger.json
        --plain      execute as plain Python, without Jupyter, and compare the checked outputs

Canonical: fixed ids and metadata, text output in the cells tagged
nbval-check-output and nowhere else.  The cells `links`, `setup`, `claims` and
`cite` are written from _config.yml and book/claims.toml, and are added where missing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
import pages
from pages import Problem

CHECKED, SOLUTION = "nbval-check-output", "solution"
TAGS = {CHECKED, SOLUTION, "hide-input", "hide-cell", "raises-exception"}
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
PAGE_BUDGET, PAGE_LIMIT, CELL_LIMIT = 30, 60, 15  # CPU seconds
MEMORY_BUDGET = 2048  # MB
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")

SETUP = """\
# On Colab this installs the book's small library; elsewhere it is already there.
try:
    import attnlib
except ModuleNotFoundError:
    %pip install -q "attnlib @ git+{url}@{branch}"
    try:
        import attnlib
    except ModuleNotFoundError:
        why = "attnlib is not here, and pip could not fetch it: is there a network?"
        raise ModuleNotFoundError(why) from None"""

LINKS = "[This page in the book]({page}) · [Open in Colab]({colab}) · [How to cite this page](#how-to-cite-this-page)"

CITE = """\
## How to cite this page

```bibtex
@misc{{{key},
  author       = {{{{{author}}}}},
  title        = {{{{{title}}}}},
  howpublished = {{Chapter of \\emph{{{book}}}, version {version}}},
  year         = {{{year}}},
  url          = {{{page}}}
}}
```"""


# ---------------------------------------------------------------- generated cells


def setup_cell(root: Path, path: Path, cells: list[dict]) -> str:
    import address

    return SETUP.format(
        url=address.repository_url(root),
        branch=address.config(root).get("branch", "main"),
    )


def links_cell(root: Path, path: Path, cells: list[dict]) -> str:
    import address

    return LINKS.format(
        page=page_address(root, path),
        colab=address.colab_url(path.relative_to(root).as_posix(), root),
    )


def claims_cell(root: Path, path: Path, cells: list[dict]) -> str:
    import claims

    registry = root / "book" / "claims.toml"
    known = claims.load(registry) if registry.is_file() else []
    return "## The claims of this page\n\n" + claims.page_table(
        known, pages.page_name(path, root)
    )


def cite_cell(root: Path, path: Path, cells: list[dict]) -> str:
    book, version = book_facts(root), library_version(root)
    key = f"attnlib{book['year']}{re.sub(r'[^a-z0-9]', '', path.stem)}"
    title = pages.title(cells) or path.stem
    return CITE.format(
        key=key, title=title, version=version, page=page_address(root, path), **book
    )


GENERATED: dict[str, Callable[[Path, Path, list[dict]], str]] = {
    "links": links_cell,
    "setup": setup_cell,
    "claims": claims_cell,
    "cite": cite_cell,
}


def generated(name: str, root: Path, path: Path, cells: list[dict]) -> str:
    """The text of a generated cell; what its sources lack is one clear line."""
    try:
        return GENERATED[name](root, path, cells)
    except ValueError as error:
        raise Problem(str(error)) from None


def page_address(root: Path, path: Path) -> str:
    import address

    return address.page_url(path.relative_to(root).with_suffix("").as_posix(), root)


def book_facts(root: Path) -> dict[str, str]:
    import yaml

    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    return {
        "book": config["title"],
        "author": config["author"],
        "year": str(config["copyright"]),
    }


def library_version(root: Path) -> str:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]["version"]


# ---------------------------------------------------------------- canonical form


def source(cell: dict) -> str:
    return "".join(cell["source"])


def tags(cell: dict) -> list[str]:
    return cell.get("metadata", {}).get("tags", [])


def as_lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def printed(cell: dict) -> str:
    """What a code cell printed."""
    return "".join(
        "".join(o["text"])
        for o in cell.get("outputs", [])
        if o["output_type"] == "stream" and o["name"] == "stdout"
    )


def metadata(cell: dict) -> dict:
    """The metadata that a canonical cell has: its tags, and Colab's form view for
    solutions.
    """
    found = set(tags(cell)) & TAGS
    if cell["id"] == "setup":
        found = {"hide-cell"}
    if SOLUTION in found:
        return {"cellView": "form", "tags": sorted(found | {"hide-input"})}
    return {"tags": sorted(found)} if found else {}


def clean_cell(cell: dict) -> dict:
    text = source(cell).strip("\n").rstrip()
    new = {
        "cell_type": cell["cell_type"],
        "id": cell["id"],
        "metadata": metadata(cell),
        "source": as_lines(text),
    }
    if cell["cell_type"] == "code":
        text = printed(cell) if CHECKED in tags(cell) else ""
        new["outputs"] = (
            [{"name": "stdout", "output_type": "stream", "text": as_lines(text)}]
            if text
            else []
        )
        new["execution_count"] = 1 if text else None  # nbval takes null for "never run"
    return new


def with_generated(cells: list[dict]) -> list[dict]:
    """The cells, with an empty one wherever a generated cell is missing."""
    present = {cell["id"] for cell in cells}
    new = {
        name: {"cell_type": "markdown", "id": name, "metadata": {}, "source": []}
        for name in GENERATED
        if name not in present
    }
    if "setup" in new:
        new["setup"] = {**new["setup"], "cell_type": "code", "outputs": []}
    head = [new[name] for name in ("links",) if name in new]
    cells = [*cells[:1], *head, *cells[1:]]
    if "setup" in new:
        first = next(
            (i for i, cell in enumerate(cells) if cell["cell_type"] == "code"),
            len(cells),
        )
        cells.insert(first, new["setup"])
    return cells + [new[name] for name in ("claims", "cite") if name in new]


def with_ids(cells: list[dict], path: Path) -> list[dict]:
    """The cells, each with an id of its own."""
    cells = [
        {**cell, "id": cell.get("id") or f"cell-{n}"} for n, cell in enumerate(cells)
    ]
    seen = set()
    for cell in cells:
        if not ID.fullmatch(cell["id"]) or cell["id"] in seen:
            raise Problem(
                f"{path.name}: the cell id {cell['id']!r} is malformed or stands twice"
            )
        seen.add(cell["id"])
    return cells


def clean(notebook: dict, path: Path, root: Path = pages.ROOT) -> dict:
    """The canonical form of a notebook."""
    kinds = {cell.get("cell_type") for cell in notebook["cells"]}
    if not kinds <= {"code", "markdown"}:
        raise Problem(f"{path.name}: a cell is neither code nor markdown")
    cells = with_generated(with_ids(notebook["cells"], path))
    for cell in cells:
        if cell["id"] in GENERATED:
            cell["source"] = as_lines(generated(cell["id"], root, path, cells))
    return {
        "cells": [clean_cell(cell) for cell in cells],
        "metadata": NOTEBOOK_METADATA,
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def text_of(notebook: dict) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def store(path: Path, notebook: dict) -> bool:
    """Write a notebook; True if the file changed."""
    after = text_of(notebook)
    if path.read_text(encoding="utf-8") == after:
        return False
    path.write_text(after, encoding="utf-8", newline="\n")
    return True


# ---------------------------------------------------------------- running


class Cost(NamedTuple):
    """What a page took: CPU seconds (user and system) of its kernel, peak memory, each
    cell's CPU seconds.
    """

    cpu_seconds: float
    peak_mb: int
    cells: dict[str, float]


class Meter:
    """Reads CPU time and memory of a kernel's process; hooks of nbclient call it."""

    def __init__(self) -> None:
        self.process, self.client, self.before, self.total, self.peak, self.cells = (
            None,
            None,
            0.0,
            0.0,
            0,
            {},
        )

    def start_cell(self, cell, cell_index) -> None:
        import psutil

        if self.process is None:
            self.process = psutil.Process(self.client.km.provisioner.pid)
        self.before = self.cpu()

    def end_cell(self, cell, cell_index, **_) -> None:
        self.cells[cell["id"]] = self.cpu() - self.before
        self.peak = max(self.peak, self.memory())
        self.total = self.cpu()

    def cpu(self) -> float:
        times = self.process.cpu_times()
        return times.user + times.system

    def memory(self) -> int:
        """Peak resident memory in MB; where the system keeps no peak, what is in use
        now.
        """
        status = Path(f"/proc/{self.process.pid}/status")
        if status.exists() and (
            peak := re.search(r"VmHWM:\s+(\d+)", status.read_text())
        ):
            return int(peak[1]) // 1024
        info = self.process.memory_info()
        return int(getattr(info, "peak_wset", info.rss)) // 2**20

    def cost(self) -> Cost:
        return Cost(self.total, self.peak, self.cells)


def one_thread() -> None:
    """Kernels inherit this: times compare, and two pages at once share two cores
    fairly.
    """
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"


def execute(notebook: dict, path: Path, timeout: int = 60) -> tuple[dict, Cost]:
    """Run every cell in a fresh kernel, in the notebook's folder. Raises Problem with
    the traceback of a failing cell.
    """
    import nbformat
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import (
        CellExecutionError,
        CellTimeoutError,
        DeadKernelError,
    )

    one_thread()
    os.environ["TQDM_DISABLE"] = "1"  # a bar that moves is many lines on a page
    meter, node = Meter(), nbformat.reads(text_of(notebook), as_version=4)
    # timings in the metadata would change the key under which the cache files a page
    client = NotebookClient(
        node,
        timeout=timeout,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_execute=meter.start_cell,
        on_cell_executed=meter.end_cell,
    )
    meter.client = client
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        raise Problem(f"{path.name}: {plain_text(str(error)).strip()}") from None
    except NoSuchKernel:
        raise Problem(
            "no Jupyter kernel python3 here: install ipykernel, or use run --plain"
        ) from None
    return node, meter.cost()


def plain_text(text: str) -> str:
    """Without the colour codes of a terminal."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def refuse_untestable(notebook: dict, path: Path) -> None:
    """A checked cell may only print: other outputs are dropped, and nbval would then
    fail.
    """
    for cell in notebook["cells"]:
        if CHECKED not in tags(cell):
            continue
        strays = [
            o["output_type"] for o in cell["outputs"] if o.get("name") != "stdout"
        ]
        if strays or not printed(cell):
            what = (
                f"gives {strays[0]} besides printed text"
                if strays
                else "prints nothing"
            )
            raise Problem(f"{path.name}: the checked cell {cell['id']!r} {what}")


def over_budget(name: str, cost: Cost) -> list[str]:
    """What of a page's cost is over the budget, in words."""
    words = []
    if cost.cpu_seconds > PAGE_BUDGET:
        rule = (
            f"the hard limit of {PAGE_LIMIT}"
            if cost.cpu_seconds > PAGE_LIMIT
            else f"the budget of {PAGE_BUDGET}"
        )
        words.append(f"{name}: {cost.cpu_seconds:.0f} CPU seconds, over {rule}")
    words += [
        f"{name}: cell {ident!r} took {seconds:.0f} CPU seconds, over the limit of {CELL_LIMIT}"
        for ident, seconds in cost.cells.items()
        if seconds > CELL_LIMIT
    ]
    if cost.peak_mb > MEMORY_BUDGET:
        words.append(f"{name}: {cost.peak_mb} MB, over the budget of {MEMORY_BUDGET}")
    return words


def write_ledger(root: Path, costs: dict[str, Cost]) -> None:
    """Add what was measured to book/ledger.json; pages that are gone leave it."""
    path = root / "book" / "ledger.json"
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    names = [pages.page_name(p, root) for p in pages.notebooks(root)]
    new = {
        name: {
            "cpu_seconds": round(c.cpu_seconds, 1),
            "peak_mb": c.peak_mb,
            "cells": len(c.cells),
        }
        for name, c in costs.items()
    }
    ledger = {name: entry for name in names if (entry := new.get(name, old.get(name)))}
    ledger["machine"] = machine()
    path.write_text(json.dumps(ledger, indent=1) + "\n", encoding="utf-8", newline="\n")


def machine() -> str:
    """This machine in words: processor, Python, torch; no name of it."""
    import platform
    from importlib.metadata import version

    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
        model = found[1] if found else model
    return f"{model}, Python {platform.python_version()}, torch {version('torch').split('+')[0]}"


# ---------------------------------------------------------------- without Jupyter


def without_magics(text: str) -> str:
    """Code as plain Python: lines such as %pip do nothing."""
    return re.sub(r"^([ \t]*)[%!].*$", r"\1pass", text, flags=re.M)


def run_plain(notebook: dict, path: Path) -> int:
    """Execute a page by `exec`; the number of checked cells that printed what they
    should. Raises Problem otherwise.
    """
    names, compared = {"__name__": "__main__"}, 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said), contextlib.chdir(path.parent):
                exec(
                    compile(
                        without_magics(source(cell)),
                        f"{path.name}[{cell['id']}]",
                        "exec",
                    ),
                    names,
                )
        except Exception as error:
            if "raises-exception" not in tags(cell):
                raise Problem(
                    f"{path.name}: cell {cell['id']!r}: {type(error).__name__}: {error}"
                ) from error
        if CHECKED in tags(cell):
            compared += 1
            if said.getvalue() != printed(cell):
                raise Problem(
                    f"{path.name}: cell {cell['id']!r} printed\n{said.getvalue()}instead of\n{printed(cell)}"
                )
    return compared


# ---------------------------------------------------------------- commands


def chosen(names: list[str], root: Path, plain: bool = False) -> list[Path]:
    """The notebooks named on the command line, or all of them."""
    # a machine without Jupyter may also lack what reads _toc.yml
    known = (
        sorted((root / "notebooks").rglob("*.ipynb"))
        if plain
        else pages.notebooks(root)
    )
    if not names:
        return known
    paths = [Path(name).resolve() for name in names]
    for name, path in zip(names, paths):
        if path not in known:
            raise Problem(
                f"{name} is not a notebook of this book (a file below notebooks/ that _toc.yml lists)"
            )
    return paths


def command_clean(paths: list[Path], root: Path, options) -> int:
    for path in paths:
        if store(path, clean(pages.read(path), path, root)):
            print(f"{pages.page_name(path, root)}: rewritten")
    return 0


def command_check(paths: list[Path], root: Path, options) -> int:
    bad = [
        p
        for p in paths
        if text_of(clean(pages.read(p), p, root)) != p.read_text(encoding="utf-8")
    ]
    for path in bad:
        print(
            f"{pages.page_name(path, root)}: not canonical; run `python book/_tools/notebooks.py clean`"
        )
    return int(bool(bad))


def command_run(paths: list[Path], root: Path, options) -> int:
    costs = {}
    for path in paths:
        name, start = pages.page_name(path, root), time.perf_counter()
        if options.plain:
            one_thread()
            os.environ.setdefault("MPLBACKEND", "agg")
            compared = run_plain(pages.read(path), path)
            print(
                f"{name}: {time.perf_counter() - start:.1f} s as plain Python, {compared} checked cells agree",
                flush=True,
            )
            continue
        done, costs[name] = execute(clean(pages.read(path), path, root), path)
        refuse_untestable(done, path)
        changed = store(path, clean(done, path, root))
        cost = costs[name]
        print(
            f"{name}: {cost.cpu_seconds:.1f} CPU s, {cost.peak_mb} MB, {len(cost.cells)} cells"
            f"{', outputs refreshed' if changed else ''}",
            flush=True,
        )
        for words in over_budget(name, cost):
            print(f"over budget: {words}")
    if options.ledger and costs:
        write_ledger(root, costs)
        print("written: book/ledger.json")
    return 0


def main(argv: list[str] | None = None, root: Path = pages.ROOT) -> int:
    parser = argparse.ArgumentParser(
        description="Run the notebooks and keep them in canonical form."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, words in {
        "run": "execute and refresh",
        "clean": "write the canonical form",
        "check": "exit 1 if not canonical",
    }.items():
        command = commands.add_parser(name, help=words)
        command.add_argument("paths", nargs="*", help="notebooks; all if none is named")
        if name == "run":
            command.add_argument(
                "--ledger",
                action="store_true",
                help="write the cost of each page to book/ledger.json",
            )
            command.add_argument(
                "--plain",
                action="store_true",
                help="as plain Python, for machines without Jupyter",
            )
    options = parser.parse_args(argv)
    if options.command == "run" and options.plain and options.ledger:
        parser.error("--ledger measures kernels: not together with --plain")
    act = {"run": command_run, "clean": command_clean, "check": command_check}[
        options.command
    ]
    try:
        return act(
            chosen(options.paths, root, getattr(options, "plain", False)), root, options
        )
    except Problem as problem:
        print(f"notebooks: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
