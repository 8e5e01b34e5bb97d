"""The checks can bite: each kernel is broken in some ways (faults.py), and a claim must
fail each time.
"""

from __future__ import annotations

import functools
import importlib
import os

import pytest
from faults import (
    MUTATIONS,
    PAGES,
    answers,
    fault,
    in_a_process,
    load,
    module_of,
    settle,
)

pytestmark = [
    pytest.mark.wide,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked"),
]


def holds(claims: str) -> bool:
    """Whether claims of attnbook.theorems hold."""
    theorems = importlib.import_module("attnbook.theorems")
    return all(theorems.check(claim).ok for claim in claims.split())


def claims_driver(module: str, pipe) -> None:
    """Into the pipe goes a pair for each fault of a page: its name, and what its claims
    say.
    """
    load()
    importlib.import_module("attnbook.theorems")
    faults = {name: MUTATIONS[name] for name in by_claims(module)}
    for mutation in faults.values():
        importlib.import_module(module_of(mutation.kernel))
    settle()
    for name, mutation in faults.items():
        ask = functools.partial(holds, mutation.claims)
        in_a_process(fault(mutation), name, ask, pipe)
    os._exit(0)


def by_claims(module: str) -> list[str]:
    """The faults of a page that a claim notices."""
    return [n for n, m in MUTATIONS.items() if m.module == module and m.claims]


@pytest.mark.parametrize("module", PAGES)
def test_a_claim_notices_each_broken_kernel(module):
    """That it holds while nothing is broken, test_theorems asks."""
    said = dict(answers(claims_driver, module))
    broken = {name: said.get(name, "it said nothing") for name in by_claims(module)}
    missed = {name: what for name, what in broken.items() if what is not False}
    assert missed == {}, "the claim still holds, or it is noticed by accident"
