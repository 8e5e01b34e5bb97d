"""Keep the notebooks deterministic, and run them.

    python book/_tools/notebooks.py COMMAND [pages]

    clean      write the canonical form, and the minutes into tables of pages
    check      exit 1 where `clean` would change a file
    minutes    print how long the pages take to read
    run        execute, refresh the checked outputs, clean
               --ledger   also measure CPU seconds and memory into book/ledger.json
               --plain    execute as plain Python, without Jupyter, and compare the
                          checked outputs

Canonical: fixed ids and metadata, text output in the cells tagged
nbval-check-output and nowhere else.  The cells `links`, `setup`, `claims` and
`cite` are written from _config.yml and book/claims.toml, and are added where missing.
The line below a page's thesis says how long the page takes: to read, by the rule of
minutes.py, and to run, by book/ledger.json.  Tables of book/intro.md and book/routes.md
show the minutes of each story.
"""

from __future__ import annotations

import argparse
import atexit
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
import minutes
import pages
from pages import Problem, without_magics

CHECKED = "nbval-check-output"
SOLUTION = "solution"
# What a tag does, to a run or on the page ...
TAGS = {CHECKED, SOLUTION, "raises-exception"}
TAGS |= {"hide-input", "hide-output", "hide-cell"}
# ... and what an author says by one: a figure of an idea, a figure that moves, the
# formula as code, the cell to play with.
IDEA, MOVING, LITERAL, TRY_IT = "idea", "moving", "literal", "try-it"
MARKS = {IDEA, MOVING, LITERAL, TRY_IT}
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
PATIENCE = 900  # seconds that a cell may take on the clock: only what hangs takes more
# CPU seconds; what takes more is told, and passes
PAGE_BUDGET = 30
CELL_BUDGET = 15
MEMORY_BUDGET = 2048  # MB
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")

SETUP = """\
# On Colab this installs the book's small library; elsewhere it is already there.
library = "attnlib[book] @ {url}/archive/{branch}.zip"
try:
    import attnbook  # noqa: F401
except ModuleNotFoundError:{unset}
    %pip install -q "{{library}}"
    try:
        import attnbook  # noqa: F401
    except ModuleNotFoundError:
        why = "attnlib is not here, and pip could not fetch it: is there a network?"
        raise ModuleNotFoundError(why) from None"""

# Stands there until the book has an address; then pip could only fail.
UNSET = """
    if "/OWNER/" in library:
        why = "this copy of the book has no address yet: replace OWNER/REPO above"
        raise ModuleNotFoundError(why) from None"""

LINKS = (
    "[This page in the book]({page}) · [Open in Colab]({colab}) · "
    "[How to cite this page](#how-to-cite-this-page)"
)

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

    is_set = address.current(root) != ("OWNER", "REPO")
    return SETUP.format(
        unset="" if is_set else UNSET,
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
    table = claims.page_table(known, pages.page_name(path, root))
    return f"## The claims of this page\n\n{table}"


def cite_cell(root: Path, path: Path, cells: list[dict]) -> str:
    book = book_facts(root)
    short_name = re.sub(r"[^a-z0-9]", "", path.stem)
    return CITE.format(
        key=f"attnlib{book['year']}{short_name}",
        title=pages.title(cells) or path.stem,
        version=library_version(root),
        page=kept_address(root, path),
        **book,
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


def kept_address(root: Path, path: Path) -> str:
    """Where the site keeps this version of a page: below x.y/ for x.y.0 and x.y.1."""
    import address

    site, page = address.site_url(root), page_address(root, path)
    short = library_version(root).rpartition(".")[0]
    return f"{site}{short}/{page.removeprefix(site)}"


def book_facts(root: Path) -> dict[str, str]:
    import yaml

    config = yaml.safe_load(text_at(root / "_config.yml"))
    return {
        "book": config["title"],
        "author": config["author"],
        "year": str(config["copyright"]),
    }


def library_version(root: Path) -> str:
    return tomllib.loads(text_at(root / "pyproject.toml"))["project"]["version"]


def text_at(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# ---------------------------------------------------------------- minutes


def read_ledger(root: Path) -> dict:
    """What the pages cost when they were measured, by name; empty if none was."""
    path = root / "book" / "ledger.json"
    return json.loads(text_at(path)) if path.exists() else {}


def with_minutes(text: str, cells: list[dict], root: Path, path: Path) -> str:
    """The first cell of a page; the line that says its kind gets the true minutes."""
    found = minutes.KIND.search(text)
    if not found:
        return text
    measured = read_ledger(root).get(pages.page_name(path, root), {})
    line = minutes.title_line(
        found[1], minutes.of_page(cells), measured.get("cpu_seconds")
    )
    return text[: found.start()] + line + text[found.end() :]


# The pages whose tables show minutes, and a page in such a table, with its minutes if
# they are there already.
WITH_MINUTES = ("book/intro.md", "book/routes.md")
IN_TABLE = re.compile(
    r"(\[[^\]]*\]\(\.\./notebooks/([\w/-]+)\.ipynb\))(?: \(\d+ min\))?"
)


def tables_with_minutes(page: Path, root: Path) -> str:
    """The text of a page with the minutes of each story in its tables."""
    stories = {
        pages.page_name(path, root): page_minutes(path).rounded().story
        for path in pages.notebooks(root)
    }

    def entry(found: re.Match) -> str:
        link, name = found.groups()
        return f"{link} ({stories[name]} min)" if name in stories else found[0]

    lines = text_at(page).splitlines(keepends=True)
    return "".join(
        IN_TABLE.sub(entry, line) if line.startswith("|") else line for line in lines
    )


def page_minutes(path: Path) -> minutes.Minutes:
    return minutes.of_page(with_ids(pages.read(path)["cells"], path))


def pages_with_minutes(root: Path) -> list[Path]:
    return [root / name for name in WITH_MINUTES if (root / name).is_file()]


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
    found = set(tags(cell)) & (TAGS | MARKS)
    if cell["id"] == "setup":
        found = {"hide-cell"}
    if SOLUTION in found:
        return {"cellView": "form", "tags": sorted(found | {"hide-input"})}
    return {"tags": sorted(found)} if found else {}


def clean_cell(cell: dict) -> dict:
    new = {
        "cell_type": cell["cell_type"],
        "id": cell["id"],
        "metadata": metadata(cell),
        "source": as_lines(source(cell).strip("\n").rstrip()),
    }
    if cell["cell_type"] == "markdown":
        return new
    said = printed(cell) if CHECKED in tags(cell) else ""
    if said:
        stream = {
            "name": "stdout",
            "output_type": "stream",
            "text": as_lines(said),
        }
        # nbval takes a count of null for "never run"
        return new | {"outputs": [stream], "execution_count": 1}
    return new | {"outputs": [], "execution_count": None}


def with_generated(cells: list[dict]) -> list[dict]:
    """The cells, with an empty one wherever a generated cell is missing."""
    present = {cell["id"] for cell in cells}
    missing = [name for name in GENERATED if name not in present]
    cells = list(cells)
    if "links" in missing:
        cells.insert(1, empty_cell("links"))
    if "setup" in missing:
        code = (n for n, cell in enumerate(cells) if cell["cell_type"] == "code")
        cells.insert(next(code, len(cells)), empty_cell("setup"))
    last = [name for name in ("claims", "cite") if name in missing]
    return cells + [empty_cell(name) for name in last]


def empty_cell(name: str) -> dict:
    """A cell that is about to be generated."""
    cell = {"cell_type": "markdown", "id": name, "metadata": {}, "source": []}
    return cell | {"cell_type": "code", "outputs": []} if name == "setup" else cell


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
    cells = [clean_cell(cell) for cell in cells]  # minutes go by the tags
    title = with_minutes(source(cells[0]), cells, root, path)
    cells[0]["source"] = as_lines(title)
    return {
        "cells": cells,
        "metadata": NOTEBOOK_METADATA,
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def text_of(notebook: dict) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def store(path: Path, notebook: dict) -> bool:
    """Write a notebook; True if the file changed."""
    after = text_of(notebook)
    if text_at(path) == after:
        return False
    pages.write_atomically(path, after)
    return True


# ---------------------------------------------------------------- running


class Cost(NamedTuple):
    """What a page took: CPU seconds (user and system) of its kernel, peak memory, each
    cell's CPU seconds.
    """

    cpu_seconds: float
    peak_mb: int
    cells: dict[str, float]


class Failed(Problem):
    """A page that did not run to its end: `where` says it in a line, the text at
    length.
    """

    def __init__(self, path: Path, cell: str, why: str, more: str = "") -> None:
        self.where = f"cell {cell!r} failed: {why}"
        super().__init__(f"{path.name}: {self.where}\n{plain_text(more)}".rstrip())


class Meter:
    """Reads CPU time and memory of a kernel's process; hooks of nbclient call it."""

    def __init__(self) -> None:
        self.cell = ""
        self.client = None
        self.process = None
        self.before = 0.0
        self.total = 0.0
        self.peak = 0
        self.cells: dict[str, float] = {}

    def start_cell(self, cell, cell_index) -> None:
        import psutil

        self.cell = cell["id"]
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
        text = status.read_text() if status.exists() else ""
        if peak := re.search(r"VmHWM:\s+(\d+)", text):
            return int(peak[1]) // 1024
        info = self.process.memory_info()
        return int(getattr(info, "peak_wset", info.rss)) // 2**20

    def cost(self) -> Cost:
        return Cost(self.total, self.peak, self.cells)


# Kernels inherit this: times compare, and two pages at once share two cores fairly.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
)


def execute(notebook: dict, path: Path, timeout: int = PATIENCE) -> tuple[dict, Cost]:
    """Run every cell in a fresh kernel, in the notebook's folder. Raises Problem with
    the traceback of a failing cell.
    """
    import nbformat
    import psutil
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import (
        CellExecutionError,
        CellTimeoutError,
        DeadKernelError,
    )

    os.environ.update(ONE_THREAD)
    os.environ["TQDM_DISABLE"] = "1"  # a bar that moves is many lines on a page
    meter = Meter()
    node = nbformat.reads(text_of(notebook), as_version=4)
    # timings in the metadata would change the key under which the cache files a page
    client = NotebookClient(
        node,
        timeout=timeout,
        startup_timeout=PATIENCE,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,  # merged later, a line would break where a print ended
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_execute=meter.start_cell,
        on_cell_executed=meter.end_cell,
    )
    meter.client = client
    try:
        started(client)
    except CellExecutionError as error:
        why = plain_text(f"{error.ename}: {error.evalue}")
        raise Failed(path, meter.cell, why, str(error)) from None
    except CellTimeoutError:
        why = f"it timed out after {timeout} seconds"
        raise Failed(path, meter.cell, why) from None
    except (DeadKernelError, psutil.NoSuchProcess):
        why = "the kernel died; perhaps the memory was full"
        raise Failed(path, meter.cell, why) from None
    except NoSuchKernel:
        raise Problem(
            "no Jupyter kernel python3 here: install ipykernel, or use run --plain"
        ) from None
    return node, meter.cost()


def started(client, times: int = 3) -> None:
    """Execute; once more where the kernel ended before a cell began, as it does if
    another program took its port meanwhile.
    """
    for left in reversed(range(times)):
        try:
            client.execute()
            return
        except RuntimeError as error:
            if "before replying" not in str(error) or not left:
                raise
            atexit.unregister(client._cleanup_kernel)  # nothing is left to clean


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
        named = f"{path.name}: the checked cell {cell['id']!r}"
        for output in cell["outputs"]:
            if output.get("name") != "stdout":
                kind = output["output_type"]
                raise Problem(f"{named} gives {kind} besides printed text")
        if not printed(cell):
            raise Problem(f"{named} prints nothing")


def over_budget(name: str, cost: Cost) -> list[str]:
    """What of a page's cost is over the budget, in words."""
    words = []
    if cost.cpu_seconds > PAGE_BUDGET:
        took = f"{cost.cpu_seconds:.0f} CPU seconds"
        words.append(f"{name}: {took}, over the budget of {PAGE_BUDGET}")
    for ident, seconds in cost.cells.items():
        if seconds > CELL_BUDGET:
            words.append(
                f"{name}: cell {ident!r} took {seconds:.0f} CPU seconds, "
                f"over the budget of {CELL_BUDGET}"
            )
    if cost.peak_mb > MEMORY_BUDGET:
        words.append(f"{name}: {cost.peak_mb} MB, over the budget of {MEMORY_BUDGET}")
    return words


def write_ledger(root: Path, costs: dict[str, Cost]) -> None:
    """Add what was measured to book/ledger.json; pages that are gone leave it."""
    known = read_ledger(root)
    for name, cost in costs.items():
        known[name] = {
            "cpu_seconds": round(cost.cpu_seconds, 1),
            "peak_mb": cost.peak_mb,
            "cells": len(cost.cells),
        }
    names = [pages.page_name(path, root) for path in pages.notebooks(root)]
    ledger = {name: known[name] for name in names if name in known}
    ledger["machine"] = machine()
    text = json.dumps(ledger, indent=1) + "\n"
    pages.write_atomically(root / "book" / "ledger.json", text)


def machine() -> str:
    """This machine in words: processor, Python, torch; no name of it."""
    import platform
    from importlib.metadata import version

    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
        model = found[1] if found else model
    torch = version("torch").split("+")[0]
    return f"{model}, Python {platform.python_version()}, torch {torch}"


# ---------------------------------------------------------------- without Jupyter


def run_plain(notebook: dict, path: Path, names: dict | None = None) -> int:
    """Execute a page by `exec`, or go on with it among its names; the number of checked
    cells that printed what they should. Raises Problem otherwise.
    """
    names = {"__name__": "__main__"} if names is None else names
    compared = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        said = run_cell_plain(cell, path, names)
        if CHECKED in tags(cell):
            compared += 1
            if said != printed(cell):
                raise Problem(
                    f"{path.name}: cell {cell['id']!r} printed\n{said}"
                    f"instead of\n{printed(cell)}"
                )
    return compared


def run_cell_plain(cell: dict, path: Path, names: dict) -> str:
    """Execute a cell among the names of its page; what it printed."""
    said = io.StringIO()
    place = f"{path.name}[{cell['id']}]"
    try:
        with contextlib.redirect_stdout(said), contextlib.chdir(path.parent):
            exec(compile(without_magics(source(cell)), place, "exec"), names)
    except Exception as error:
        if "raises-exception" not in tags(cell):
            what = f"{type(error).__name__}: {error}"
            raise Problem(f"{path.name}: cell {cell['id']!r}: {what}") from error
    return said.getvalue()


# ---------------------------------------------------------------- commands


def chosen(names: list[str], root: Path, plain: bool = False) -> list[Path]:
    """The notebooks named on the command line, or all of them."""
    if plain:  # a machine without Jupyter may also lack what reads _toc.yml
        known = sorted((root / "notebooks").rglob("*.ipynb"))
    else:
        known = pages.notebooks(root)
    if not names:
        return known
    paths = [Path(name).resolve() for name in names]
    for name, path in zip(names, paths):
        if path not in known:
            raise Problem(
                f"{name} is not a notebook of this book "
                "(a file below notebooks/ that _toc.yml lists)"
            )
    return paths


def command_clean(paths: list[Path], root: Path, options) -> int:
    changed = 0
    for path in paths:
        if store(path, clean(pages.read(path), path, root)):
            print(f"{pages.page_name(path, root)}: rewritten")
            changed += 1
    if not changed:
        print("all pages are in their usual form")
    for page in pages_with_minutes(root):
        after = tables_with_minutes(page, root)
        if after != text_at(page):
            pages.write_atomically(page, after)
            print(f"{page.relative_to(root).as_posix()}: minutes rewritten")
    return 0


def command_check(paths: list[Path], root: Path, options) -> int:
    bad = []
    for path in paths:
        if text_of(clean(pages.read(path), path, root)) != text_at(path):
            bad.append(f"{pages.page_name(path, root)}: not canonical")
    for page in pages_with_minutes(root):
        if tables_with_minutes(page, root) != text_at(page):
            name = page.relative_to(root).as_posix()
            bad.append(f"{name}: not the minutes of the pages")
    for words in bad:
        print(f"{words}; run `python book/_tools/notebooks.py clean`")
    return int(bool(bad))


def command_minutes(paths: list[Path], root: Path, options) -> int:
    print("story / with its proofs / everything, in minutes; before rounding")
    for path in paths:
        exact = page_minutes(path)
        shown = " / ".join(str(value) for value in exact.rounded())
        parts = " / ".join(f"{value:.1f}" for value in exact)
        print(f"{pages.page_name(path, root)}: {shown}   ({parts})")
    return 0


def command_run(paths: list[Path], root: Path, options) -> int:
    costs = {}
    for path in paths:
        if options.plain:
            report_plain_run(path, root)
        else:
            costs[pages.page_name(path, root)] = run_and_store(path, root)
    if options.ledger and costs:
        write_ledger(root, costs)
        print("written: book/ledger.json")
        for path in paths:  # below the title stands how long a page runs
            store(path, clean(pages.read(path), path, root))
    return 0


def report_plain_run(path: Path, root: Path) -> None:
    os.environ.update(ONE_THREAD)
    os.environ.setdefault("MPLBACKEND", "agg")
    start = time.perf_counter()
    compared = run_plain(pages.read(path), path)
    print(
        f"{pages.page_name(path, root)}: {time.perf_counter() - start:.1f} s "
        f"as plain Python, {compared} checked cells agree",
        flush=True,
    )


def run_and_store(path: Path, root: Path) -> Cost:
    """Execute a page and keep what its checked cells print; say what it took."""
    name = pages.page_name(path, root)
    done, cost = execute(clean(pages.read(path), path, root), path)
    refuse_untestable(done, path)
    changed = store(path, clean(done, path, root))
    print(
        f"{name}: {cost.cpu_seconds:.1f} CPU s, {cost.peak_mb} MB, "
        f"{len(cost.cells)} cells{', outputs refreshed' if changed else ''}",
        flush=True,
    )
    for words in over_budget(name, cost):
        print(f"over budget: {words}")
    return cost


COMMANDS = {
    "run": (command_run, "execute and refresh"),
    "clean": (command_clean, "write the canonical form"),
    "check": (command_check, "exit 1 if not canonical"),
    "minutes": (command_minutes, "print how long the pages take to read"),
}


def main(argv: list[str] | None = None, root: Path = pages.ROOT) -> int:
    parser = argparse.ArgumentParser(
        description="Run the notebooks and keep them in canonical form."
    )
    parser.set_defaults(plain=False, ledger=False)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (act, words) in COMMANDS.items():
        command = commands.add_parser(name, help=words)
        command.set_defaults(act=act)
        command.add_argument("paths", nargs="*", help="notebooks; all if none is named")
        if name == "run":
            add_run_options(command)
    options = parser.parse_args(argv)
    if options.plain and options.ledger:
        parser.error("--ledger measures kernels: not together with --plain")
    try:
        paths = chosen(options.paths, root, options.plain)
        return options.act(paths, root, options)
    except Problem as problem:
        print(f"notebooks: {problem}", file=sys.stderr)
        return 1


def add_run_options(command: argparse.ArgumentParser) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
