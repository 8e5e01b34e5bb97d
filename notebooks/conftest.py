"""What nbval has run is kept, so that the book is built from it: a page runs once.

A page is kept when all its code cells passed, with the answers of its *Try it*, in the
cache from which build.py makes the site.
"""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "book" / "_tools"))

import kernels  # noqa: E402  (it stands in the folder just named)
import page_cache  # noqa: E402
import pages  # noqa: E402
import tried  # noqa: E402

kernels.share_imports()

PASSED, ASKED = pytest.StashKey[list](), pytest.StashKey[dict]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Note the cells that passed."""
    report = yield
    if report.when == "call" and report.passed:
        item.parent.stash.setdefault(PASSED, []).append(item)
    return report


@pytest.hookimpl(tryfirst=True)  # before nbval starts the kernel of a page
def pytest_runtest_setup(item):
    """A bar that moves would be many lines on a page."""
    os.environ["TQDM_DISABLE"] = "1"


def pytest_runtest_teardown(item, nextitem):
    """After *Try it*, ask at its grid; after the last cell of a page, keep the page."""
    page, passed = item.parent, item.parent.stash.get(PASSED, [])
    if item in passed and tried.TAG in item.cell.metadata.get("tags", []):
        ask(page)
    os.environ.pop("TQDM_DISABLE", None)
    if nextitem is not None and nextitem.parent is page:
        return
    executed = with_outputs(page.nb, passed)
    if executed is not None:
        if ASKED in page.stash:
            place = tried.cell_of(executed) + 1
            executed.cells.insert(place, page.stash[ASKED])
        page_cache.Shelf(pages.ROOT).keep(tried.with_answers(executed), Path(page.path))


def ask(page):
    """Run the cell behind *Try it* that no reader sees, if the page has one."""
    cells = tried.with_questions(Path(page.path))["cells"]
    cell = cells[tried.cell_of(page.nb) + 1]
    if cell.get("id") != tried.ID:
        return
    said = []
    page.kernel.kc.execute_interactive(
        cell["source"],
        store_history=False,
        allow_stdin=False,
        output_hook=lambda told: said.append(told["content"].get("text", "")),
    )
    page.stash[ASKED] = cell | {"outputs": [{"text": "".join(said)}]}


def with_outputs(notebook, cells):
    """The notebook with what its cells printed and showed; None if one is missing."""
    executed = copy.deepcopy(notebook)
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    outputs = {item.cell_num: item.test_outputs for item in cells}
    if sorted(outputs) != list(range(len(code))):
        return None
    for number, cell in enumerate(code):
        cell.outputs = outputs[number]
        cell.execution_count = number + 1
    return executed
