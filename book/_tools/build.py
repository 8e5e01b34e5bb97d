"""Build the book.

    python book/_tools/build.py [--out DIR] [--no-verdicts] [--fresh] [--at-once N]

1. every page is executed, two at a time and the longest first, and kept; it is run
again if its code or a module that it imports has changed; meanwhile the claims get
their verdicts, as far as these are stale; 2. the site is built, and only what changed
is read again; a warning or a broken link fails the build. A page that does not run
fails it too, but the site is built: the page says so, and shows what is stored in it.

It can be broken off at any time: the same command takes it up again. Of two builds at
once the second waits for the first.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import env
import page_cache
import pages
import tried
from filelock import FileLock, Timeout
from pages import Problem

import notebooks

AT_ONCE = 2
PIECES = 7  # of the site; in two, one waits for the other
GO = "build\n"  # what site_process.py waits for
FULL = (
    "the disk is full. Make room and build again: pages that have run are not run again"
)
TRY = "Run it alone: python book/_tools/notebooks.py run {}; then build again"
LEFT = (
    "of the pages did not run here. The book is built all the same (above): these "
    "pages say so, and their claims are unchecked. The next build tries them again"
)
WORTH_SHOWING = re.compile(r"WARNING|ERROR|Error|Exception|Traceback|CRITICAL")


def say(text: str) -> None:
    print(text, flush=True)


# ---------------------------------------------------------------- verdicts


@contextlib.contextmanager
def verdicts(root: Path) -> Iterator[None]:
    """Meanwhile the claim tests run, if needed. A broken claim is shown as broken; it
    does not hide the book.
    """
    program = str(root / "book/_tools/claims.py")
    process = subprocess.Popen(
        [sys.executable, program, "refresh"],
        cwd=root,
        text=True,
        encoding="utf-8",
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with process:
        try:
            yield
        except BaseException:
            process.terminate()
            raise
        say(process.communicate()[0].rstrip())
    if process.returncode:
        say("claims: not all is in order (above); the badges in the book say so")


# ---------------------------------------------------------------- execution


def run_pages(root: Path, at_once: int = AT_ONCE) -> list[str]:
    """Execute what is not kept; what is wrong with each page that failed."""
    import kernels

    shelf, found = page_cache.Shelf(root), pages.notebooks(root)
    missing = [
        path
        for path in pages.longest_first(found, root)
        if shelf.executed(path) is None
    ]
    say(f"pages: {len(found) - len(missing)} from the cache, {len(missing)} to run")
    if len(missing) > 1:
        kernels.share_imports()
    failures = []
    with ThreadPoolExecutor(at_once) as pool:
        jobs = {pool.submit(timed_run, path): path for path in missing}
        try:
            for job in as_completed(jobs):
                failures += finish(job, jobs[job], shelf)
        except BaseException:  # Ctrl-C, a full disk
            give_up(pool)
            raise
    shelf.prune(found)
    return failures


def give_up(pool: ThreadPoolExecutor) -> None:
    """Drop the pages that wait, and end the kernels of those that run."""
    import psutil

    pool.shutdown(wait=False, cancel_futures=True)
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def timed_run(path: Path):
    start = time.perf_counter()
    done, cost = notebooks.execute(tried.with_questions(path), path)
    asking = cost.cells.pop(tried.ID, 0)  # no reader waits for that
    cost = cost._replace(cpu_seconds=cost.cpu_seconds - asking)
    return tried.with_answers(done), cost, time.perf_counter() - start


def finish(job: Future, path: Path, shelf: page_cache.Shelf) -> list[str]:
    """Keep an executed page; if it failed, keep where, and say what to do."""
    name = pages.page_name(path, shelf.root)
    try:
        done, cost, seconds = job.result()
    except notebooks.Failed as failed:
        say(f"pages: {name} failed")
        shelf.fail(failed.where, path)
        place = path.relative_to(shelf.root).as_posix()
        return [f"{failed}\n{TRY.format(place)}"]
    shelf.keep(done, path)
    say(
        f"pages: {name} ran in {seconds:.1f} s "
        f"({cost.cpu_seconds:.1f} CPU s, {cost.peak_mb} MB)"
    )
    for words in notebooks.over_budget(name, cost):
        say(f"over budget: {words}")
    return []


# ---------------------------------------------------------------- the site


def begin_site(root: Path, out: Path, jobs: int) -> subprocess.Popen:
    """Start the process that builds the site. It loads Sphinx at once, and builds when
    build_site tells it to.
    """
    command = [
        sys.executable,
        str(Path(__file__).with_name("site_process.py")),
        str(jobs),
        str(out / "_build"),
        "build",
        str(root),
        "--path-output",
        str(out),
        "-W",
        "-n",
        "--keep-going",
    ]
    return subprocess.Popen(
        command,
        cwd=root,
        text=True,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUTF8": "1"},
    )


def build_site(process: subprocess.Popen, out: Path) -> Path:
    """Let the site be built; the page to open. Raises Problem with what Jupyter Book
    complained of.
    """
    log = out / "_build" / "build.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    text = notebooks.plain_text(process.communicate(GO)[0])
    log.write_text(text, encoding="utf-8")
    if process.returncode:
        raise Problem(
            "\n".join(
                ["the site was not built", *complaints(text), f"the whole log: {log}"]
            )
        )
    return out / "_build" / "html" / "index.html"


def complaints(text: str, most: int = 20) -> list[str]:
    """The lines of a log that say what is wrong, or its end if none does."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = list(dict.fromkeys(line for line in lines if WORTH_SHOWING.search(line)))
    return found[:most] or lines[-most:]


def build(
    root: Path, out: Path, at_once: int, *, with_verdicts: bool
) -> tuple[Path, list[str]]:
    """Execute the pages, then build the site; the page to open, and what failed."""
    meanwhile = verdicts(root) if with_verdicts else contextlib.nullcontext()
    failures = []
    with begin_site(root, out, PIECES if at_once > 1 else 1) as site:
        try:
            with meanwhile:
                failures = run_pages(root, at_once)
            say("site: building")
            return build_site(site, out), failures
        except Problem as problem:
            raise Problem("\n".join([*failures, str(problem)])) from None
        finally:
            site.kill()  # it is done, or waits in vain


@contextlib.contextmanager
def alone(root: Path) -> Iterator[None]:
    """Nobody else builds this book meanwhile."""
    lock = FileLock(root / "_build" / "build.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        say("build: another build of this book is at work; this one waits for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def said(error: Exception) -> str:
    """What to say of an error. Raises it if it is a fault of this tool."""
    if env.NO_SPACE.search("".join(traceback.format_exception(error))):
        return FULL
    if isinstance(error, Problem):
        return str(error)
    raise error


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the book.")
    parser.add_argument(
        "--out", type=Path, help="folder that gets _build/html (default: the project)"
    )
    parser.add_argument(
        "--no-verdicts",
        action="store_true",
        help="leave the verdicts of the claims as they are",
    )
    parser.add_argument("--fresh", action="store_true", help="run every page again")
    parser.add_argument(
        "--at-once",
        type=int,
        default=AT_ONCE,
        help=f"pages at a time (default {AT_ONCE})",
    )
    options = parser.parse_args(argv)
    root, start = pages.ROOT, time.perf_counter()
    out = (options.out or root).resolve()
    try:
        with alone(root):
            if options.fresh:
                shutil.rmtree(root / page_cache.FOLDER, ignore_errors=True)
            page, failures = build(
                root, out, options.at_once, with_verdicts=not options.no_verdicts
            )
    except KeyboardInterrupt:
        print("\nbuild: broken off; the same command takes it up", file=sys.stderr)
        os._exit(1)  # at a usual end nbclient would look for kernels that are gone
    except Exception as error:
        print(f"build: {said(error)}", file=sys.stderr)
        return 1
    say(f"built in {time.perf_counter() - start:.0f} s")
    say(
        f"The book: {page}   (open it, or `make serve`: "
        f"python -m http.server -d {short(page.parent)})"
    )
    for words in failures:
        print(f"build: {words}", file=sys.stderr)
    if failures:
        print(f"build: {len(failures)} {LEFT}", file=sys.stderr)
    return int(bool(failures))


def short(path: Path) -> str:
    """A path as one types it here."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    sys.exit(main())
