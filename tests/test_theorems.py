"""The claims that attnlib.theorems codes: each on its cases, on its controls, and its
witness. And the mechanism: nothing enters it without all three.
"""

from __future__ import annotations

import dataclasses
import math

import pytest

from attnlib import theorems
from attnlib.certify import Verdict, at_most
from attnlib.theorems import THEOREMS, Case, Theorem


def runs(role):
    """Every check, control or witness of every claim, as a test that speaks for it."""
    found = []
    for name, theorem in THEOREMS.items():
        for number, (words, run) in enumerate(theorem.runs(role)):
            marks = [pytest.mark.claim(name, role=role)]
            if number or role == "control":
                marks.append(pytest.mark.again)
            found.append(pytest.param(run, marks=marks, id=f"{name}: {words}"))
    return found


@pytest.mark.parametrize("run", runs("check"))
def test_the_claim_holds_on_its_cases(run):
    verdict = run()
    assert verdict.ok, verdict


@pytest.mark.parametrize("run", runs("control"))
def test_the_claim_fails_on_its_controls(run):
    """By its verdict, on a number: neither NaN nor an exception counts."""
    verdict = run()
    assert isinstance(verdict, Verdict) and math.isfinite(verdict.value)
    assert verdict.ok is False, verdict


@pytest.mark.parametrize("run", runs("witness"))
def test_the_hypotheses_can_hold(run):
    verdict = run()
    assert verdict.ok, verdict


# --- the mechanism


def number(x=1, limit=2):
    return {"x": x}


def small(x, *, limit=2):
    """A number is at most two."""
    return at_most(x, limit)


def seen() -> Verdict:
    """One is a number."""
    return at_most(1, 2)


ONE = Case(number)
GOOD = Theorem("sample.small", small, [ONE], [ONE.but(x=3)], seen)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cases": []}, "no cases"),
        ({"controls": []}, "no controls"),
        ({"witness": None}, "no witness"),
        ({"controls": [ONE]}, "changes none"),
        ({"controls": [ONE.but(x=3, limit=1)]}, r"changes \['limit', 'x'\]"),
        ({"controls": [Case(lambda: {"x": 3})]}, "made as the first case is"),
        ({"cases": [ONE.but(limti=3)]}, "small has no argument limti"),
    ],
)
def test_a_claim_without_check_control_or_witness_is_refused(changes, words):
    with pytest.raises(ValueError, match=f"claim sample.small.*{words}"):
        dataclasses.replace(GOOD, **changes)


def test_a_claim_has_one_function():
    enter = theorems.claim(
        "paths.decomposition", cases=[ONE], controls=[ONE.but(x=3)], witness=seen
    )
    with pytest.raises(ValueError, match="paths.decomposition: it has a function"):
        enter(small)
    assert THEOREMS["paths.decomposition"].function is theorems.paths.decomposition


def test_changes_go_to_the_maker_or_to_the_theorem():
    made = {"x": 3}
    assert ONE.but(x=3) == Case(number, made)
    assert Case(lambda x=1: {"x": x}).but(limit=5).called_with == {"limit": 5}
    assert [run() for _, run in GOOD.runs("check")] == [Verdict(1.0, 2.0, True)]
    assert [run() for _, run in GOOD.runs("control")] == [Verdict(3.0, 2.0, False)]


def test_the_table_names_each_function_once():
    lines = theorems.table().splitlines()
    assert len(lines) == len(THEOREMS)
    found = dict(line.split()[:2] for line in lines)
    assert found["paths.decomposition"] == "theorems.paths.decomposition"


def test_a_role_is_one_of_three():
    with pytest.raises(ValueError, match="role must be check, control or witness"):
        list(GOOD.runs("checks"))


def test_check_reports_the_first_failure():
    assert theorems.check("paths.lengths").ok
    failing = dataclasses.replace(GOOD, cases=[ONE.but(x=5), ONE], controls=[ONE])
    THEOREMS["sample.failing"] = failing
    try:
        assert theorems.check("sample.failing") == Verdict(5.0, 2.0, False)
    finally:
        del THEOREMS["sample.failing"]


@pytest.mark.bad_input
def test_an_unknown_claim_is_named():
    with pytest.raises(ValueError, match="no function stands for 'paths.nothing'"):
        theorems.check("paths.nothing")
