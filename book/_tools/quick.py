"""Run the pages quickly: torch is imported once, and each page runs in a fork of that
process.

    python book/_tools/quick.py [paths] [--at-once N]

Every code cell runs in order in a shell of IPython, as in Jupyter, and what a cell
tagged nbval-check-output prints is compared with what is stored, as nbval does. There
are no kernels to start, so this is for the minutes between two edits; `make test` still
runs all pages by nbval.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import multiprocessing
import os
import signal
import sys
import time
import traceback
from multiprocessing import connection
from pathlib import Path
from typing import NamedTuple

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

sys.path.insert(0, str(Path(__file__).resolve().parent))
import pages
from pages import Problem

import notebooks

AT_ONCE = 2
CELL_TIMEOUT = 60  # CPU seconds: a machine that is busy elsewhere fails no page
WARM = (
    "torch",
    "torch._dynamo",
    "torch.utils.flop_counter",
    "sympy",
    "numpy",
    "mpmath",
    "tqdm",
    "safetensors.torch",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "nbformat",
    "nbval.plugin",
    "attnlib",
)
NOT_COMPARED = (
    "image/png",
    "image/jpeg",
    "application/vnd.jupyter.widget-view+json",
)  # by nbval neither


class Report(NamedTuple):
    """What came of a page: its cells, how many were compared, what went wrong, CPU
    seconds of the cells alone.
    """

    cells: int
    compared: int
    faults: list[str]
    seconds: float = 0.0


# --------------------------------------------------------------- once, before the pages


def warm_up() -> None:
    """Import what pages share. Nothing here may start a thread: a fork would lose it,
    and whatever it holds.
    """
    notebooks.one_thread()
    os.environ |= {"MPLBACKEND": "agg", "TQDM_DISABLE": "1"}
    for name in WARM:
        importlib.import_module(name)
    attnlib = sys.modules["attnlib"]
    for room in getattr(attnlib, "_ROOMS", ()):
        getattr(attnlib, room)
    if "attnlib.figures" in sys.modules:
        draw_once(attnlib.figures)
    gc.collect()
    # what is there stays: no fork need look through it, or copy it, to collect its own
    gc.freeze()


def draw_once(figures) -> None:
    """Draw two figures that are thrown away, as SVG and as PNG: the first one sets up
    fonts, formulas and writers.
    """
    for marks in (2, 3000):
        fig, ax = figures.new()
        ax.plot(range(marks), label="$x^2$")
        ax.set_xlabel("size $n$")
        ax.legend()
        figures.show(fig, alt="A line that nobody sees; it sets up the fonts.")


# ----------------------------------------------------------- a page, in its own process


class Hook(DisplayHook):
    """Keeps the value of a cell's last line."""

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        self.shell.keep("execute_result", data=format_dict)

    def finish_displayhook(self):
        pass


class Publisher(DisplayPublisher):
    """Keeps what a cell displays."""

    def publish(self, data, metadata=None, **_):
        self.shell.keep("display_data", data=data)


class Shell(InteractiveShell):
    """Keeps in `given` what a cell gives, in the form in which a notebook stores it,
    and in `said` its traceback.
    """

    displayhook_class, display_pub_class = Hook, Publisher

    def keep(self, kind, **what):
        self.given.append({"output_type": kind, **what})

    def enable_gui(self, gui=None):
        """No window is opened, so %matplotlib asks for no event loop."""

    def _showtraceback(self, etype, evalue, stb):
        self.said = notebooks.plain_text(self.InteractiveTB.stb2text(stb))


class Stream:
    """stdout or stderr of a page."""

    encoding, errors = "utf-8", "strict"

    def __init__(self, shell, name: str) -> None:
        self.shell, self.name = shell, name

    def write(self, text: str) -> int:
        self.shell.keep("stream", name=self.name, text=text)
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def run_page(path: Path) -> Report:
    """Run the cells of a page in order, in the page's folder; after an error the rest
    does not run.
    """
    # no history on the disk
    shell = Shell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    code = [cell for cell in pages.read(path)["cells"] if cell["cell_type"] == "code"]
    # stdin is empty already: multiprocessing closes it in every process that it starts
    sys.stdout, sys.stderr = Stream(shell, "stdout"), Stream(shell, "stderr")
    sys.path[0] = ""
    os.chdir(path.parent)
    signal.signal(signal.SIGPROF, give_up)
    compared, faults, seconds = 0, [], 0.0
    for number, cell in enumerate(code, start=1):
        shell.given, shell.said = [], ""
        signal.setitimer(signal.ITIMER_PROF, CELL_TIMEOUT)
        begun = time.process_time()
        done = shell.run_cell(notebooks.source(cell), store_history=True)
        seconds += time.process_time() - begun
        signal.setitimer(signal.ITIMER_PROF, 0)
        where = f"{path.name}, cell {cell['id']!r} ({number} of {len(code)})"
        if not done.success and "raises-exception" not in notebooks.tags(cell):
            return Report(
                number, compared, [*faults, f"{where}\n{shell.said}"], seconds
            )
        if notebooks.CHECKED in notebooks.tags(cell):
            compared += 1
            faults += [
                f"{where}: {words}"
                for words in differences(cell.get("outputs", []), shell.given)
            ]
    return Report(len(code), compared, faults, seconds)


def give_up(*_) -> None:
    raise TimeoutError(f"the cell ran for more than {CELL_TIMEOUT} CPU seconds")


def differences(stored: list[dict], given: list[dict]) -> list[str]:
    """Where the outputs of a cell differ, in nbval's sense: streams whole, other kinds
    one after the other.
    """
    before, after = by_kind(stored), by_kind(given)
    return [
        f"{kind} was\n{whole(before, kind)}\nand is\n{whole(after, kind)}"
        for kind in sorted(before.keys() | after.keys())
        if before.get(kind) != after.get(kind)
    ]


def whole(outputs: dict[str, list[str]], kind: str) -> str:
    return "\n".join(outputs.get(kind, ["(nothing)"])).rstrip("\n")


def by_kind(outputs: list[dict]) -> dict[str, list[str]]:
    """The outputs of a cell by stream or MIME type."""
    from nbformat import from_dict
    from nbval.plugin import coalesce_streams

    found: dict[str, list[str]] = {}
    plain = [
        {**o, "text": "".join(o["text"])} if o["output_type"] == "stream" else o
        for o in outputs
    ]
    for output in coalesce_streams([from_dict(o) for o in plain]):
        kinds = (
            {output.name: output.text}
            if output.output_type == "stream"
            else output.get("data", {})
        )
        for kind, text in kinds.items():
            if kind not in NOT_COMPARED:
                found.setdefault(kind, []).append("".join(text))
    return found


# ---------------------------------------------------------------- all pages


def work(path: Path, end: connection.Connection) -> None:
    """What a forked process does: run a page and send its report."""
    try:
        report = run_page(path)
    except BaseException:
        # the fault may be ours; it must be told, or the page would seem to have died
        report = Report(0, 0, [f"{path.name}: {traceback.format_exc()}"])
    # plain: the page has taken the place of __main__, where Report was
    end.send(tuple(report))
    end.close()
    os._exit(0)  # no handler of the parent's is to run twice


def run_all(paths: list[Path], at_once: int, done) -> None:
    """Fork a process a page, `at_once` at a time; `done(path, report, seconds)` hears
    of each.
    """
    fork, waiting, running = multiprocessing.get_context("fork"), list(paths), {}
    while waiting or running:
        while waiting and len(running) < at_once:
            ours, theirs = fork.Pipe(duplex=False)
            process = fork.Process(target=work, args=(waiting[0], theirs))
            process.start()
            theirs.close()
            running[ours] = (waiting.pop(0), process, time.perf_counter())
        for ours in connection.wait(list(running)):
            path, process, start = running.pop(ours)
            try:
                report = Report(*ours.recv())
            except EOFError:
                process.join()
                report = Report(
                    0, 0, [f"{path.name}: its process died (exit {process.exitcode})"]
                )
            process.join()
            done(path, report, time.perf_counter() - start)


def main(argv: list[str] | None = None, root: Path = pages.ROOT) -> int:
    parser = argparse.ArgumentParser(
        description="Run the pages quickly, each in a fork of one process."
    )
    parser.add_argument("paths", nargs="*", help="notebooks; all if none is named")
    parser.add_argument(
        "--at-once",
        type=int,
        default=AT_ONCE,
        help=f"pages at a time (default {AT_ONCE})",
    )
    options, begun, reports = parser.parse_args(argv), time.perf_counter(), []

    def done(path: Path, report: Report, seconds: float) -> None:
        reports.append(report)
        print(
            f"{pages.page_name(path, root)}: {seconds:.1f} s, {report.cells} cells, "
            f"{report.compared} compared{', FAILED' if report.faults else ''}",
            flush=True,
        )
        print(
            "".join(f"quick: {fault}\n" for fault in report.faults),
            end="",
            file=sys.stderr,
            flush=True,
        )

    try:
        if not hasattr(os, "fork"):
            raise Problem("this system cannot fork; run `python -m pytest notebooks`")
        chosen = pages.longest_first(notebooks.chosen(options.paths, root), root)
        warm_up()
        run_all(chosen, options.at_once, done)
    except Problem as problem:
        print(f"quick: {problem}", file=sys.stderr)
        return 1
    failed = sum(bool(report.faults) for report in reports)
    print(
        f"quick: {len(reports)} pages, {sum(r.cells for r in reports)} cells, "
        f"{sum(r.compared for r in reports)} compared, {failed} failed, "
        f"in {time.perf_counter() - begun:.0f} s; "
        f"the cells took {sum(r.seconds for r in reports):.1f} CPU s"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
