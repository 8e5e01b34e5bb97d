"""The claims that attnbook.theorems codes: each on its cases, on its controls, and its
witness. And the mechanism: nothing enters it without all three.

What each run measures is stored too, in theorems.json: a number that changes shows in a
diff, though the claim may hold as before; no badge depends on it. If it was meant,
store the new ones:

    python tests/test_theorems.py
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re
from pathlib import Path

import pytest
import torch

from attnbook import theorems
from attnbook.theorems import THEOREMS, Case, Theorem
from attnlib.attention import Layer
from attnlib.certify import Verdict, at_most

NO_MORE = 1e-9  # than that is taken for a rounding, which differs from run to run
NUMBERS = Path(__file__).with_name("theorems.json")
# The controls of these count roundings, which depend on the processor; all other
# numbers agree to four digits on every one.
COUNTS_ROUNDINGS = {"ids.kept", "expressive.tiles"}
ROLES = ("check", "control", "witness")
STORED = json.loads(NUMBERS.read_text(encoding="utf-8"))


def runs(role):
    """Every check, control or witness of every claim, as a test that speaks for it, and
    what is stored of it.
    """
    found = []
    for name, theorem in THEOREMS.items():
        stored = STORED.get(name, {}).get(role, [])
        for number, (words, run) in enumerate(theorem.runs(role)):
            marks = [pytest.mark.claim(name, role=role)]
            if number or role == "control":
                marks.append(pytest.mark.again)
            rough = name in COUNTS_ROUNDINGS and role == "control"
            share = 0.5 if rough else 1e-4
            known = (*stored[number][1:], share) if number < len(stored) else None
            found.append(pytest.param(run, known, marks=marks, id=f"{name}: {words}"))
    return found


@pytest.fixture
def compared(request) -> bool:
    """Whether numbers are compared: not where tests give verdicts to claims, as a claim
    holds or not whatever its numbers were elsewhere.
    """
    return not request.config.getoption("verdicts")


def as_stored(verdict: Verdict, known: tuple[float, float, float] | None) -> bool:
    """Value and bound are the stored ones, the value up to a share."""
    if known is None:
        return False
    value, bound, share = known
    near = verdict.value == pytest.approx(value, rel=share, abs=NO_MORE)
    return near and verdict.bound == pytest.approx(bound, rel=1e-4, abs=0)


@pytest.mark.parametrize(("run", "known"), runs("check"))
def test_the_claim_holds_on_its_cases(run, known, compared):
    verdict = run()
    assert verdict.ok, verdict
    assert not compared or as_stored(verdict, known), (
        f"{verdict}, and stored are {known}"
    )


@pytest.mark.parametrize(("run", "known"), runs("control"))
def test_the_claim_fails_on_its_controls(run, known, compared):
    """By its verdict, on a number: neither NaN nor an exception counts."""
    verdict = run()
    assert isinstance(verdict, Verdict) and math.isfinite(verdict.value)
    assert verdict.ok is False, verdict
    assert not compared or as_stored(verdict, known), (
        f"{verdict}, and stored are {known}"
    )


@pytest.mark.parametrize(("run", "known"), runs("witness"))
def test_the_hypotheses_can_hold(run, known, compared):
    verdict = run()
    assert verdict.ok, verdict
    assert not compared or as_stored(verdict, known), (
        f"{verdict}, and stored are {known}"
    )


def test_what_is_stored_is_of_this_library():
    """And in its order."""
    of_library = {
        name: {role: [words for words, _ in theorem.runs(role)] for role in ROLES}
        for name, theorem in THEOREMS.items()
    }
    stored = {
        name: {role: [words for words, *_ in told] for role, told in roles.items()}
        for name, roles in STORED.items()
    }
    assert stored == of_library


def test_another_number_is_noticed():
    known = (1.0, 2.0, 1e-4)
    assert as_stored(Verdict(1.00001, 2.0, True), known)
    assert not as_stored(Verdict(1.001, 2.0, True), known)
    assert not as_stored(Verdict(1.0, 2.001, True), known)
    assert not as_stored(Verdict(1.0, 2.0, True), None)


# --- what nothing could be measured of


def switches() -> list[tuple[str, str]]:
    """(claim, argument) of what is true or false."""
    found = []
    for name, theorem in THEOREMS.items():
        for argument in inspect.signature(theorem.function).parameters.values():
            by_default = isinstance(argument.default, bool)
            if by_default or "bool" in str(argument.annotation):
                found.append((name, argument.name))
    return found


def objects(name: str) -> dict:
    """The arguments of the first case of a claim."""
    first = THEOREMS[name].cases[0]
    return first.make(**first.made_with) | first.called_with


@pytest.mark.bad_input
@pytest.mark.parametrize(("name", "switch"), switches())
@pytest.mark.parametrize("value", ["no", 1, math.nan])
def test_a_switch_is_a_boolean(name, switch, value):
    """One that is misspelt would be taken for True."""
    with pytest.raises(ValueError, match=f"{switch} must be of type bool, got"):
        THEOREMS[name].function(**objects(name) | {switch: value})


@pytest.mark.bad_input
def test_unasked_a_theorem_takes_anything_for_a_switch():
    assert len(switches()) > 70
    unasked = theorems.five_theorems_one_matrix.depth.__wrapped__
    assert not unasked(**objects("synthesis.depth"), norm="no").ok


def spoiled(value):
    """An argument in which nothing is, or something that is no number."""
    if isinstance(value, float):
        yield from (math.nan, math.inf)
    if isinstance(value, list | tuple):
        yield []
        for number, part in enumerate(value):
            yield from ([*value[:number], bad] for bad in spoiled(part))
    if torch.is_tensor(value) and value.is_floating_point():
        for bad in (math.nan, math.inf):
            broken = value.clone()
            broken[(-1,) * value.dim()] = bad
            yield broken


@pytest.mark.bad_input
@pytest.mark.parametrize("name", THEOREMS)
def test_nothing_holds_of_nothing_and_of_no_number(name):
    given = objects(name)
    for argument, value in given.items():
        for number, bad in enumerate(spoiled(value)):
            with pytest.raises(ValueError, match=argument):
                THEOREMS[name].function(**given | {argument: bad})
            if number > 10:
                break


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("theorem", "given"),
    [
        (theorems.four_questions.right_side_falls, {"pairs": []}),
        (theorems.four_questions.fates, {"toys": []}),
        (theorems.patterns_and_conditions.checker, {"made": []}),
    ],
)
def test_unasked_a_theorem_holds_of_nothing(theorem, given):
    assert theorem.__wrapped__(**given).ok
    with pytest.raises(ValueError, match="must hold at least one entry"):
        theorem(**given)


# --- where nothing is left to measure

# Arguments that no tokens are, or of which an equal or empty one is a control; then
# the theorem computes with what it is given.
BROKEN = {
    "after.reached": "tiles",
    "boltzmann.any-temperature": "values all",
    "boltzmann.typical": "z",
    "expressive.criteria": "a m",
    "expressive.masks": "columns mask",
    "escaping.sink": "weights",
    "expressive.expected": "keys",
    "expressive.leak": "keys pi all",
    "codes.kissing": "vectors",
    "ids.birthday": "points",
    "jl.existence": "tried_on",
    "jl.root": "x",
    "lowrank.causal": "e",
    "lowrank.covering": "v",
    "lowrank.pairs": "k v all",
    "lowrank.theorem-2": "r",
    "memorize.trained": "labels wanted",
    "synthesis.many": "sets",
}


def same(t):
    """Each row is the first one."""
    first = t[..., :1, :] if t.dim() > 1 else t[:1]
    return first.expand_as(t).clone()


def one(t):
    """The first row alone."""
    return t[..., :1, :] if t.dim() > 1 else t[:1]


def silent(layer, names):
    weights = {n: getattr(layer, n) for n in names}
    return layer._replace(**{n: 0 * w for n, w in weights.items() if w is not None})


def degenerate(given: dict):
    """(name, arguments): tensors of zeros, of equal rows, of one row, one at a time and
    all at once; layers without queries, keys, values, outputs, or all of them.
    """
    tensors = {k: v for k, v in given.items() if torch.is_tensor(v) and v.dim()}
    groups = {k: {k: v} for k, v in tensors.items()}
    if len(tensors) > 1:
        groups["all"] = tensors
    for name, group in groups.items():
        for spoil in (torch.zeros_like, same, one):
            yield name, {k: spoil(v) for k, v in group.items()}
    for name, value in given.items():
        layers = [value] if isinstance(value, Layer) else value
        if not isinstance(layers, list) or not isinstance(layers[0], Layer):
            continue
        for names in (["w_q"], ["w_k"], ["w_v"], ["w_o"], Layer._fields):
            mute = [silent(layer, names) for layer in layers]
            muted = {name: mute[0] if isinstance(value, Layer) else mute}
            yield name, muted
        if "x" in tensors:
            yield name, muted | {"x": 0 * one(given["x"])}


@pytest.mark.bad_input
@pytest.mark.parametrize("name", THEOREMS)
def test_where_nothing_is_left_no_theorem_is_refuted(name):
    """It holds, as 0 = 0, or refuses by name."""
    given = objects(name)
    for argument, changed in degenerate(given):
        if argument in BROKEN.get(name, "").split():
            continue
        try:
            verdict = THEOREMS[name].function(**given | changed)
        except ValueError:
            continue
        assert verdict.ok and not math.isnan(verdict.value), (argument, verdict)


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
    assert THEOREMS["paths.decomposition"].function.__name__ == "decomposition"


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


def store() -> None:
    """Write theorems.json anew, a run a line; roundings as zero."""

    def digits(number: float) -> float:
        return float(f"{number:.6g}")

    told = {name: {} for name in THEOREMS}
    for name, theorem in THEOREMS.items():
        for role in ROLES:
            measured = [(words, run()) for words, run in theorem.runs(role)]
            told[name][role] = [
                (words, digits(m.value) * (abs(m.value) > NO_MORE), digits(m.bound))
                for words, m in measured
            ]
    text = json.dumps(told, indent=1, ensure_ascii=False)
    lines = re.sub(r'\[\s+(".*"),\s+(\S+),\s+(\S+)\s+\]', r"[\1, \2, \3]", text)
    NUMBERS.write_text(lines + "\n", encoding="utf-8")


if __name__ == "__main__":
    store()
