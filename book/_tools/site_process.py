"""Run Jupyter Book in a process of its own, for build.py.

    python book/_tools/site_process.py JOBS FOLDER build ...

It begins early: while the pages are executed, this process loads Sphinx, and then waits
for a line on its standard input. No line means that the pages were broken off, and
there is nothing to build. Then it does what `jupyter-book build ...` does, but reads
and writes JOBS pages at a time, for which Jupyter Book has no option.

What was read and written stays in FOLDER, so that the next time only what changed is
done again. After a build that was broken off or that complained it is not to be
trusted: a page may be half written, and Sphinx warns of a page only when it reads it.
Then all is done again.
"""

from __future__ import annotations

import functools
import gc
import shutil
import sys
from pathlib import Path

import jupyter_book.sphinx
import myst_nb.sphinx_  # noqa: F401  (loaded while there is time)
import pydata_sphinx_theme  # noqa: F401
import sphinx_multitoc_numbering
from build import GO
from filelock import FileLock
from jupyter_book.cli.main import main


def allow_jobs(jobs: int) -> None:
    """Make Jupyter Book hand `jobs` on to Sphinx."""
    jupyter_book.sphinx.build_sphinx = functools.partial(
        jupyter_book.sphinx.build_sphinx, jobs=jobs
    )
    begin = sphinx_multitoc_numbering.setup

    def setup(app):
        """It numbers sections once all pages are read, so it does not mind how; but it
        does not say so.
        """
        return {
            **(begin(app) or {}),
            "parallel_read_safe": True,
            "parallel_write_safe": True,
        }

    sphinx_multitoc_numbering.setup = setup


def build(folder: Path) -> None:
    """Build the site; nobody else does so meanwhile."""
    unfinished = folder / "unfinished"
    with FileLock(folder / "site.lock"):
        if unfinished.exists():
            for name in ("html", ".doctrees", "jupyter_execute"):
                if (folder / name).exists():
                    shutil.rmtree(folder / name)
        unfinished.touch()
        main(standalone_mode=False)  # raises if there was anything to complain of
        unfinished.unlink()


if __name__ == "__main__":
    # Half of the time would go into looking for garbage, of which there is little, and
    # into copying for each piece what was looked through. It costs 140 MB of memory.
    gc.disable()
    allow_jobs(int(sys.argv.pop(1)))
    folder = Path(sys.argv.pop(1))
    sys.path[:0] = ["", "book"]  # the API pages describe the packages that lie here
    if sys.stdin.readline() == GO:
        build(folder)
