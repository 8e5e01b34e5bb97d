"""Drills: what may befall a build, done to a small book; by hand, some minutes.

    python tests/drills.py [--seed N]

Each drill does its harm and builds again. The site must then be, byte for byte, that of
an undisturbed build. A full disk is a small one of its own, in memory, for which Linux
wants the right to mount.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import minibook

KILLS = 12
DISKS = (200, 400, 800, 1600, 3200, 6400, 12800)  # KB


FIGURE = """\
import matplotlib.pyplot as plt
plt.plot([{0}, 2, 1]);"""


def small_book(root: Path) -> Path:
    """Four pages, each with printed text or a figure."""
    minibook.make(root)
    names = [f"notebooks/one/page{n}" for n in range(3)]
    for n, name in enumerate(names):
        title = minibook.markdown("title", f"# Page {n}\n\nWords.")
        figure = minibook.code("figure", FIGURE.format(n))
        minibook.write_page(root, title, figure, name=f"{name}.ipynb")
    minibook.write_toc(root, "notebooks/one/page", *names)
    return root


def start(root: Path) -> subprocess.Popen:
    """A build in a group of processes of its own."""
    return subprocess.Popen(
        [sys.executable, "book/_tools/build.py", "--no-verdicts"],
        cwd=root,
        env=minibook.environment(root),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def end(build: subprocess.Popen, kill=os.killpg) -> None:
    """Kill a build, by default its children too."""
    kill(build.pid, signal.SIGKILL)
    build.stdout.close()
    build.wait()


def rebuilt(root: Path, site: dict[str, bytes]) -> str:
    """Whether the next build gives the site; if not, what differs."""
    done = minibook.build(root)
    if done.returncode:
        return f"FAILED: {done.stderr.strip()}"
    found = minibook.site(root)
    names = sorted(found.keys() | site.keys())
    differ = [name for name in names if found.get(name) != site.get(name)]
    return f"FAILED: other than before: {differ}" if differ else "the same site"


def kill(root: Path, site: dict[str, bytes], after: float, group: bool) -> str:
    """Kill a build of an empty folder after some seconds, its children too or not."""
    shutil.rmtree(root / "_build", ignore_errors=True)
    build = start(root)
    time.sleep(after)
    end(build, os.killpg if group else os.kill)
    return rebuilt(root, site)


def interrupt(root: Path, site: dict[str, bytes]) -> str:
    """Ctrl-C while pages are run."""
    shutil.rmtree(root / "_build", ignore_errors=True)
    build = start(root)
    build.stdout.readline()
    time.sleep(1)
    began = time.perf_counter()
    os.killpg(build.pid, signal.SIGINT)
    text = build.communicate()[0]
    took = time.perf_counter() - began
    ended = "Traceback" not in text and "broken off" in text
    line = f"it ended in {took:.1f} s" if ended else f"FAILED: {text}"
    return f"{line}; {rebuilt(root, site)}"


def two_at_once(root: Path, site: dict[str, bytes]) -> str:
    """Two builds of an empty folder."""
    shutil.rmtree(root / "_build", ignore_errors=True)
    builds = [start(root), start(root)]
    texts = [build.communicate()[0] for build in builds]
    if any(build.returncode for build in builds):
        return f"FAILED: {texts}"
    waited = sum("this one waits" in text for text in texts)
    return f"{waited} waited; {rebuilt(root, site)}"


@contextlib.contextmanager
def disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """A small disk at an empty folder."""
    folder.mkdir()
    size = f"size={kilobytes}k"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()


def full_disk(root: Path, site: dict[str, bytes], kilobytes: int) -> str:
    """Build on a disk that is too small, then make it larger."""
    shutil.rmtree(root / "_build", ignore_errors=True)
    with disk(root / "_build", kilobytes):
        first = minibook.build(root)
        grow = f"remount,size={2**20}k"
        subprocess.run(["mount", "-o", grow, root / "_build"], check=True)
        again = rebuilt(root, site)
    if first.returncode == 0:
        return f"there was room; {again}"
    lines = first.stderr.strip().splitlines()
    clear = len(lines) == 1 and "the disk is full" in lines[0]
    return f"{lines[0]}; {again}" if clear else f"FAILED: {first.stderr}"


HARMS = {
    "a page in the cache empty": ("pages/**/*.ipynb", 0),
    "a page in the cache cut in half": ("pages/**/*.ipynb", 0.5),
    "Sphinx's memory cut in half": (".doctrees/environment.pickle", 0.5),
}


def broken_cache(root: Path, site: dict[str, bytes], name: str) -> str:
    """Cut a file short, and forget the site that was made from it."""
    pattern, share = HARMS[name]
    shutil.rmtree(root / "_build/html")
    if ".doctrees" not in pattern:
        shutil.rmtree(root / "_build/.doctrees")
    for path in (root / "_build").glob(pattern):
        os.truncate(path, int(path.stat().st_size * share))
    return rebuilt(root, site)


def drills(root: Path, site: dict[str, bytes], seconds: float, seed: int):
    """Each drill: its name, and what came of it."""
    random.seed(seed)
    for _ in range(KILLS):
        after = random.uniform(0, seconds)
        yield f"killed after {after:.1f} s", kill(root, site, after, group=True)
    for share in (0.5, 0.7, 0.9):
        words = f"killed after {share * seconds:.1f} s, its children live on"
        yield words, kill(root, site, share * seconds, group=False)
    yield "Ctrl-C", interrupt(root, site)
    yield "two at once", two_at_once(root, site)
    for name in HARMS:
        yield name, broken_cache(root, site, name)
    for kilobytes in DISKS:
        words = f"a disk of {kilobytes} KB"
        yield words, full_disk(root, site, kilobytes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    # a shell lets what it runs in the background ignore Ctrl-C, and its children too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        root = small_book(Path(folder).resolve())
        began = time.perf_counter()
        done = minibook.build(root)
        seconds = time.perf_counter() - began
        assert done.returncode == 0, done.stderr
        site = minibook.site(root)
        print(f"undisturbed: {seconds:.1f} s, {len(site)} files", flush=True)
        bad = 0
        for name, result in drills(root, site, seconds, options.seed):
            bad += "FAILED" in result
            print(f"{name}: {result}", flush=True)
    print(f"{bad} failed")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
