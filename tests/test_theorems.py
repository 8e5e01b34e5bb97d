"""The claims that attnbook.theorems codes: each on its cases, and on what must fail.
And the mechanism: nothing enters it without both.

What each run measures is stored too, a file a page in tests/theorems/: a number that
changes shows in a diff, though the claim may hold as before; no badge depends on it.
`make check` compares them, and so does the first of these; if a change was meant, the
second stores the new ones:

    python tests/test_theorems.py compare [PAGE ...]
    python tests/test_theorems.py store [PAGE ...]
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import math
import re
import sys
from pathlib import Path

import pytest
import torch
from faults import MUTATIONS

from attnbook import theorems
from attnbook.theorems import THEOREMS, Case, Theorem
from attnlib.attention import Layer
from attnlib.certify import Verdict, at_most

NO_MORE = 1e-9  # than that is taken for a rounding, which differs from run to run
TINY = 1e-6  # a bound below that allows roundings and nothing else
NUMBERS = Path(__file__).with_name("theorems")
# What the controls of these measure are roundings, which depend on the processor; all
# other numbers agree to four digits on every one.
MEASURES_ROUNDINGS = {"ids.kept", "expressive.tiles", "collapse.recursion"}
ROLES = ("check", "control")
PAGES = sorted({t.function.__module__.rpartition(".")[2] for t in THEOREMS.values()})


def runs(role):
    """Every check or control of every claim, as a test that speaks for it."""
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


# --- the numbers


def measured(page: str) -> dict[str, dict[str, list]]:
    """What each run of a page's claims measures, and its bound, in few digits;
    roundings as zero, and what a tiny bound allows.
    """
    told = {}
    for name, theorem in sorted(THEOREMS.items()):
        if theorem.function.__module__.endswith(f".{page}"):
            told[name] = {role: [] for role in ROLES}
            for role in ROLES:
                for _, run in theorem.runs(role):
                    verdict = run()
                    bound = abs(verdict.bound)
                    rounding = max(NO_MORE, bound if bound < TINY else 0.0)
                    shown = verdict.value if abs(verdict.value) > rounding else 0.0
                    told[name][role].append([few(shown), few(verdict.bound)])
    return told


def few(number: float) -> float:
    return float(f"{number:.5g}")


def stored(page: str) -> dict[str, dict[str, list]]:
    return json.loads((NUMBERS / f"{page}.json").read_text(encoding="utf-8"))


def other(now: dict, then: dict) -> list[str]:
    """The claims whose numbers are others, to four digits."""
    found = []
    for name in sorted(now.keys() | then.keys()):
        for role in ROLES:
            mine, theirs = (t.get(name, {}).get(role, []) for t in (now, then))
            near = pytest.approx(sum(theirs, []), rel=1e-4, abs=NO_MORE)
            if name in MEASURES_ROUNDINGS and role == "control":
                near = sum(mine, [])
            if len(mine) != len(theirs) or sum(mine, []) != near:
                found.append(f"{name}: {role}: {mine}, and stored are {theirs}")
    return found


@pytest.mark.wide
@pytest.mark.parametrize("page", PAGES)
def test_the_numbers_are_the_stored_ones(page):
    assert other(measured(page), stored(page)) == []


def test_every_page_has_its_numbers():
    assert sorted(path.stem for path in NUMBERS.iterdir()) == PAGES
    names = [name for page in PAGES for name in stored(page)]
    assert sorted(names) == sorted(THEOREMS)


def test_another_number_is_noticed():
    then = {"a.b": {"check": [[1.0, 2.0]], "control": [[3.0, 2.0]]}}
    for value, bound, role in (
        (1.001, 2, "check"),
        (1, 2.001, "check"),
        (3.1, 2, "control"),
    ):
        now = then | {"a.b": then["a.b"] | {role: [[value, bound]]}}
        assert len(other(now, then)) == 1
    near = {"a.b": then["a.b"] | {"check": [[1.00001, 2.0]]}}
    assert other(near, then) == [] and len(other({}, then)) == 2


# --- what it is about


def reached(path: Path) -> dict[str, set[str]]:
    """What of attnlib each claim of a module calls, itself or by a helper beside it;
    verdicts and checks of arguments are no kernels.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kernels = set()
    for node in ast.walk(tree):
        ours = isinstance(node, ast.ImportFrom) and node.module.startswith("attnlib")
        if ours and node.module != "attnlib._require":
            kernels |= {alias.asname or alias.name for alias in node.names}
    kernels -= {"_require", "Verdict", "at_most", "at_least"}
    beside = {
        n.name: n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)
    }

    def calls(node: ast.AST, seen: set[str]) -> set[str]:
        inside = [n for part in node.body for n in ast.walk(part)]
        named = [n for n in inside if isinstance(n, ast.Name)]
        own = {n.id for n in named if isinstance(n.ctx, ast.Store)}
        own |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
        names = {n.id for n in named} - own
        found = names & kernels
        for name in (names & beside.keys()) - seen:
            seen.add(name)
            found |= calls(beside[name], seen)
        return found

    return {
        ast.literal_eval(mark.args[0]): calls(node, {node.name})
        for node in beside.values()
        for mark in node.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "claim"
    }


def test_each_claim_calls_a_kernel_or_says_why_not():
    found = {}
    for path in sorted(Path(theorems.__file__).parent.glob("[!_]*.py")):
        found |= reached(path)
    assert found.keys() == THEOREMS.keys()
    alone = {name for name, kernels in found.items() if not kernels}
    said = {n for n, theorem in THEOREMS.items() if theorem.function.without_kernel}
    assert alone - said == set()
    assert all(found[name] <= {"certify"} for name in said), "these call a kernel"


def untried(mutations: dict) -> set[str]:
    """The claims that no broken kernel is to be noticed by."""
    named = {name for m in mutations.values() for name in m.claims.split()}
    said = {n for n, theorem in THEOREMS.items() if theorem.function.without_kernel}
    return THEOREMS.keys() - named - said


def test_each_claim_notices_a_broken_kernel():
    """That it does, test_teeth runs."""
    missing = "claims without a fault in tests/faults.py (CONTRIBUTING, Add a claim)"
    assert untried(MUTATIONS) == set(), missing
    fewer = {n: m for n, m in MUTATIONS.items() if m.claims != "paths.lengths"}
    assert untried(fewer) == {"paths.lengths"}


def test_a_claim_that_calls_no_kernel_is_found(tmp_path):
    page = tmp_path / "page.py"
    page.write_text(
        "from attnlib.certify import at_most\nfrom attnlib.paths import path_counts\n"
        "def helper(x):\n    return path_counts(x)\n"
        "@claim('a.hollow')\ndef f(x):\n    return at_most(x, 1)\n"
        "@claim('a.local')\ndef h(x, path_counts):\n    helper = x\n"
        "    return at_most(helper + path_counts, 1)\n"
        "@claim('a.sound')\ndef g(x):\n    return at_most(helper(x), 1)\n"
    )
    found = {"a.hollow": set(), "a.local": set(), "a.sound": {"path_counts"}}
    assert reached(page) == found


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


# Numbers and labels that may be negative or fractions, and a mask that broadcasts.
OF_ANY_VALUE = {
    "after.tasks": "tiles others bits",
    "boltzmann.exact": "pairs",
    "boltzmann.ids": "weight",
    "boltzmann.near-miss": "first second",
    "boltzmann.repeated": "first second weight",
    "codes.radon": "keys",
    "codes.sign-rank": "v w plus",
    "collapse.family": "strength",
    "expressive.masks": "mask",
    "expressive.noise": "row",
    "lowrank.full-rank": "weights",
    "memorize.trained": "labels",
    "paths.row-sums": "x logits weights value_biases biases",
    "questions.normalise": "rows",
    "questions.sides": "x w_q w_k",
}
OTHER_SHAPES = {"fewer axes", "float32"}


def unlike(value):
    """(words, what is unlike a good argument); in a list, in its first entry."""
    if isinstance(value, bool) or value is None:
        return
    yield "text", "no such word"
    if torch.is_tensor(value):
        yield "a list", value.tolist()
        if value.dim():
            yield "fewer axes", value[0]
        if value.is_floating_point():
            yield "integers", value.long()
            yield "float32", value.float()
        else:
            yield "floats", value.double() + 0.5
    elif isinstance(value, int):
        yield "negative", -1 - abs(value)
        yield "a fraction", value + 0.5
    elif isinstance(value, list | tuple) and value:
        for words, bad in unlike(value[0]):
            parts = [bad, *value[1:]]
            named = hasattr(value, "_fields")
            yield words, type(value)(*parts) if named else type(value)(parts)


def names_in(given: dict) -> set[str]:
    """Arguments, and the fields of those whose parts have names."""
    fields = [getattr(value, "_fields", ()) for value in given.values()]
    return set(given).union(*fields)


def is_named(names, error: ValueError) -> bool:
    return any(re.search(rf"\b{name.rstrip('s')}s?\b", str(error)) for name in names)


def taken(function, given: dict) -> list[str]:
    """Which arguments it takes though they are broken, and how; where shapes do not fit
    each other, the error may name any of them.
    """
    found = []
    parameters = inspect.signature(function).parameters
    for argument, value in given.items():
        broken = list(unlike(value))
        if parameters[argument].default is not None:
            broken.append(("None", None))
        for words, bad in broken:
            others = given if words in OTHER_SHAPES else {argument: value}
            try:
                verdict = function(**given | {argument: bad})
            except ValueError as error:
                if not is_named(names_in(others), error):
                    found.append(f"{argument}: {words}: {error}")
            else:
                if not (words in OTHER_SHAPES and verdict.ok):
                    found.append(f"{argument}: {words}: {verdict}")
    return found


@pytest.mark.bad_input
@pytest.mark.parametrize("name", THEOREMS)
def test_what_is_no_object_of_a_theorem_is_refused_by_name(name):
    """Or it is another object, and the theorem holds of it."""
    free = OF_ANY_VALUE.get(name, "").split()
    found = taken(THEOREMS[name].function, objects(name))
    assert [line for line in found if line.split(":")[0] not in free] == []
    assert {line.split(":")[0] for line in found} >= set(free), "these are refused"


# --- where nothing is left to measure

# Arguments that no tokens are, or of which an equal or empty one is a control; then
# the theorem computes with what it is given.
BROKEN = {
    "expressive.criteria": "a m",
    "expressive.masks": "columns mask",
    "escaping.sink": "weights",
    "expressive.expected": "keys",
    "expressive.leak": "keys pi all",
    "codes.kissing": "vectors",
    "ids.birthday": "points",
    "jl.root": "x",
    "lowrank.causal": "e",
    "lowrank.covering": "v",
    "lowrank.pairs": "k v all",
    "lowrank.theorem-2": "r",
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


ONE = Case(number)
GOOD = Theorem("sample.small", small, [ONE], [ONE.but(x=3)])


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cases": []}, "no cases"),
        ({"controls": []}, "nothing that must fail"),
        ({"controls": [ONE]}, "changes none"),
        ({"controls": [ONE.but(x=3, limit=1)]}, r"changes \['limit', 'x'\]"),
        ({"controls": [Case(lambda: {"x": 3})]}, "made as the first case is"),
        ({"cases": [ONE.but(limti=3)]}, "small has no argument limti"),
    ],
)
def test_a_claim_without_check_or_control_is_refused(changes, words):
    with pytest.raises(ValueError, match=f"claim sample.small.*{words}"):
        dataclasses.replace(GOOD, **changes)


def test_a_claim_has_one_function():
    enter = theorems.claim("paths.decomposition", cases=[ONE], controls=[ONE.but(x=3)])
    with pytest.raises(ValueError, match="paths.decomposition: it has a function"):
        enter(small)
    assert THEOREMS["paths.decomposition"].function.__name__ == "decomposition"


def test_a_broken_twin_makes_a_mistake_that_no_reader_can_make():
    enter = theorems.claim("sample.twin", cases=[ONE], broken={"thrice": {"_times": 3}})

    def twice(x, *, _times=2):
        return at_most(_times * x, 2)

    twin = enter(twice)
    try:
        theorem = THEOREMS.pop("sample.twin")
        assert twin(1).ok and not twin.broken("thrice", 1).ok
        assert [(words, run().ok) for words, run in theorem.runs("control")] == [
            ("thrice", False)
        ]
        assert list(inspect.signature(twin).parameters) == ["x"]
        with pytest.raises(TypeError, match="_times"):
            twin(1, _times=3)
        with pytest.raises(ValueError, match="words must be one of .*'thrice'"):
            twin.broken("four times", 1)
    finally:
        THEOREMS.pop("sample.twin", None)
    for slips in ({}, {"x": 3}, {"_other": 1}):
        with pytest.raises(ValueError, match="claim sample.twin: 'thrice' sets"):
            theorems.claim("sample.twin", cases=[ONE], broken={"thrice": slips})(twice)


def test_changes_go_to_the_maker_or_to_the_theorem():
    made = {"x": 3}
    assert ONE.but(x=3) == Case(number, made)
    assert Case(lambda x=1: {"x": x}).but(limit=5).called_with == {"limit": 5}
    assert [run() for _, run in GOOD.runs("check")] == [Verdict(1.0, 2.0, True)]
    assert [run() for _, run in GOOD.runs("control")] == [Verdict(3.0, 2.0, False)]


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


def main(what: str, *asked: str) -> int:
    """Compare or store the numbers of pages; of all, if none is named."""
    if what not in {"compare", "store"} or not set(asked) <= set(PAGES):
        print("usage: test_theorems.py compare|store [PAGE ...], a page of", *PAGES)
        return 2
    NUMBERS.mkdir(exist_ok=True)
    differ = []
    for page in asked or PAGES:
        now = measured(page)
        if what == "compare":
            differ += other(now, stored(page))
            continue
        lines = [
            f" {json.dumps(name)}: {json.dumps(told)}" for name, told in now.items()
        ]
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        (NUMBERS / f"{page}.json").write_text(text, encoding="utf-8")
    print("\n".join(differ) or f"{what}: done")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
