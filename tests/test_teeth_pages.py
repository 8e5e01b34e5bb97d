"""Pages notice a broken kernel: with the first fault of each function (faults.py) a
checked cell of its page must print something else.

A page, without its figures, runs once as it is, until all that is to be broken has been
called; before each cell a process waits, and what that cell is the first to call is
broken there.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
from pathlib import Path

import pytest
from faults import (
    MET,
    MUTATIONS,
    PAGES,
    ROOT,
    Fault,
    answers,
    fault,
    in_a_process,
    load,
    module_of,
    settle,
    watch,
)

pytestmark = [
    pytest.mark.wide,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked"),
]


def watched(cell: dict, path: Path, names: dict, away: dict[str, Fault]) -> list[str]:
    """Run a cell; the faults that it is the first to meet, of those still away."""
    import notebooks

    notebooks.run_plain({"cells": [cell]}, path, names)
    return [
        key
        for key, one in away.items()
        if any((one.file, name) in MET for name in one.codes)
    ]


def page_driver(page: str, pipe) -> None:
    """Run a page, and from each cell on with the faults that this cell meets first.
    Into the pipe goes a pair for each fault: its name, and what the page says.
    """
    load()
    import pages

    path = Path(ROOT, "notebooks", f"{page}.ipynb")
    cells = [
        c
        for c in pages.read(path)["cells"]
        if c["cell_type"] == "code" and "figures." not in "".join(c["source"])
    ]
    away = {name: fault(MUTATIONS[name]) for name in on_page(page)}
    for name in away:
        importlib.import_module(module_of(MUTATIONS[name].kernel))
    settle()
    watch(away.values())
    names = {"__name__": "__main__"}
    os.setpgrp()
    for number, cell in enumerate(cells):
        if not away:  # what follows, unbroken, nbval has run
            break
        here, there = multiprocessing.Pipe()
        settle()
        forward = os.fork()
        if not forward:  # the next cell, with nothing broken; then wait for the faults
            try:
                met = watched(cell, path, names, away)
            except pages.Problem as error:
                pipe.send(("", str(error)))
                os._exit(1)
            there.send(met)
            there.recv()
            away = {name: away[name] for name in away if name not in met}
            continue
        there.close()
        try:
            for name in here.recv():
                ask = functools.partial(said_by, cells[number:], path, names)
                in_a_process(away[name], name, ask, pipe)
            here.send("go on")
        except EOFError:  # it has said why
            pass
        os.waitpid(forward, 0)
        os._exit(0)
    pipe.send(("", ""))
    os._exit(0)


def said_by(cells: list[dict], path: Path, names: dict) -> object:
    """What a page prints other than it should from here on, as words."""
    import pages

    import notebooks

    try:
        return notebooks.run_plain({"cells": cells}, path, names)
    except pages.Problem as error:
        return str(error)


def on_page(page: str) -> list[str]:
    """For each function of a page the first fault that the page depends on."""
    first = {}
    for name, mutation in MUTATIONS.items():
        if mutation.page and PAGES[mutation.module] == page:
            first.setdefault((mutation.module, name.split(":")[0]), name)
    return list(first.values())


def test_each_function_has_a_fault_on_its_page():
    faults = [name for page in set(PAGES.values()) for name in on_page(page)]
    assert len(faults) > 80 and set(faults) < set(MUTATIONS)


@pytest.mark.parametrize("page", dict.fromkeys(PAGES.values()))
def test_a_page_notices_each_broken_kernel_and_nothing_else(page):
    said = dict(answers(page_driver, page))
    assert said.pop("", "it did not come to its end") == ""
    found = {name: said.get(name) for name in on_page(page)}
    wrong = {name: what for name, what in found.items() if not isinstance(what, str)}
    assert wrong == {}, "the page still prints the same, or never calls it"
