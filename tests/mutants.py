"""Break attnlib at random, one place at a time, and see whether a test notices.

    python tests/mutants.py [--count 400] [--seed 0] [--only paths lowrank]

The tests of the library, and the pages without their figures, run once while coverage
notes which of them reach which line. Then each mutant (an operator, a comparison, a
number, a flag or a sign) runs the tests that reach its line; if it runs at import, up
to 60 of those that reach its file; and then up to three pages that reach it. It is

- killed if an assertion fails, a checked cell prints something else, or one no longer
  ends;
- refused if attnlib raises an error where a test or a page was due a result: whoever
  uses it gets no number, and none that is wrong;
- an accident if the one notice is another exception: a control or a test of refusals
  met an error that it does not speak of, or the test itself broke;
- else a survivor. tests/mutants.toml says of some why no test should notice them. An
  entry speaks for every such change in its line.

Results are stored one by one, so that a run that was broken off goes on; after a commit
that changes tests alone it judges anew what was not killed or refused. At its end all
is written to tests/mutants.json.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import inspect
import io
import json
import math
import multiprocessing
import os
import pkgutil
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import coverage
import pytest
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "_build" / "mutants"
AWAY = {"data", "exercises", "figures"}  # what pages show, not what they claim
NOT_OF_THE_LIBRARY = """
    site colab teeth book bench repo tools use figures exercises docstrings folds fuzz
    minutes notebook proofs claims_book claims_verdicts
"""
LANES = "not slow"  # nor wide: those run only where they are named
SECONDS = 100  # of the processor for a test, so that a busy machine changes no verdict
SAMPLE = 60  # tests for a line that runs at import
PAGES = 3  # at most so many for a mutant
KINDS = ("killed", "refused", "accident", "survived")  # the better notice comes first
PAIRS = "Add Sub, Mult Div, Lt LtE, Gt GtE, Eq NotEq, And Or, BitAnd BitOr, Pow Mult"
SWAPS = {}
for pair in PAIRS.split(", "):
    one, other = (getattr(ast, name) for name in pair.split())
    SWAPS |= {one: other, **({other: one} if other not in SWAPS else {})}


def change(node: ast.AST, really: bool) -> str:
    """What can be changed in a node, in words, or nothing; with `really` it is done."""
    if isinstance(node, ast.Compare):
        old, put = node.ops[0], lambda new: node.ops.__setitem__(0, new)
    elif isinstance(node, ast.BinOp | ast.BoolOp):
        old, put = node.op, lambda new: setattr(node, "op", new)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node.op = ast.UAdd() if really else node.op
        return "no minus"
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        before = node.value
        after = not before if isinstance(before, bool) else before + 1
        after = 2 * before if after == before else after  # so large is a float
        node.value = after if really else before
        return f"{before} -> {after}"
    else:
        return ""
    if type(old) not in SWAPS:
        return ""
    if really:
        put(SWAPS[type(old)]())
    return f"{type(old).__name__} -> {SWAPS[type(old)].__name__}"


def nodes(path: Path) -> tuple[ast.Module, list[ast.AST]]:
    """A file's tree, and those of its nodes that run: annotations do not."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent = set()
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                silent |= {id(inner) for inner in ast.walk(getattr(node, name))}
    return tree, [node for node in ast.walk(tree) if id(node) not in silent]


def of_statements(tree: ast.Module) -> set[ast.AST]:
    """The nodes of a module of theorems that the claims' functions reach by name. The
    rest are cases, controls and witnesses: tests, which nothing tests.
    """
    defined = {node.name: node for node in tree.body if hasattr(node, "name")}
    waiting = [node for node in defined.values() if getattr(node, "decorator_list", 0)]
    found = set()
    while waiting:
        parts = [part for top in waiting.pop().body for part in ast.walk(top)]
        named = {part.id for part in parts if isinstance(part, ast.Name)}
        waiting += [defined.pop(name) for name in named & defined.keys()]
        found |= set(parts)
    return found


def places(only: list[str]) -> list[tuple[str, int, int, str]]:
    """All changes that could be made: file, line, number of the node, words."""
    found = []
    for path in sorted((ROOT / "attnlib").rglob("*.py")):
        room = path.relative_to(ROOT / "attnlib").parts[0].removesuffix(".py")
        if room in AWAY or (only and room not in only):
            continue
        tree, running = nodes(path)
        meant = of_statements(tree) if room == "theorems" else running
        for number, node in enumerate(running):
            if node in meant and (words := change(node, really=False)):
                name = path.relative_to(ROOT).as_posix()
                found.append((name, node.lineno, number, words))
    return found


class Contexts:
    """A plugin of pytest: coverage notes which test it is in. (By itself it looks for
    functions named test, and hypothesis has one inside.)
    """

    def __init__(self, measure: coverage.Coverage) -> None:
        self.measure = measure

    def pytest_runtest_logstart(self, nodeid, location):
        self.measure.switch_context(nodeid)


def reach_by_tests(measure: coverage.Coverage) -> bool:
    """Run the tests of the library; whether all pass."""
    sys.path.insert(0, str(ROOT / "tests"))
    named = sorted((ROOT / "tests").glob("test_*.py"))
    away = tuple(f"test_{word}" for word in NOT_OF_THE_LIBRARY.split())
    tests = [str(path) for path in named if not path.stem.startswith(away)]
    options = ["-q", "-p", "no:cacheprovider", "-m", LANES]
    code = pytest.main([*options, *tests], plugins=[Contexts(measure)])
    return code == pytest.ExitCode.OK


def reach_by_pages(measure: coverage.Coverage) -> bool:
    """Run the pages; whether all print what they should. What runs at import is of no
    page.
    """
    attnlib = importlib.import_module("attnlib")
    for module in pkgutil.walk_packages(attnlib.__path__, "attnlib."):
        importlib.import_module(module.name)
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        name = path.relative_to(ROOT).as_posix()
        measure.switch_context(name)
        if run_page(name) != "survived":
            return False
    return True


def run_page(name: str) -> str:
    """What a page says of the attnlib that is imported."""
    sys.path.insert(0, str(ROOT / "book" / "_tools"))
    from pages import Problem

    import notebooks

    path = ROOT / name
    cells = [
        cell
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if "figures." not in "".join(cell["source"])
    ]
    try:
        notebooks.run_plain({"cells": cells}, path)
    except Problem as error:
        cause = error.__cause__
        said = cause is None or isinstance(cause, AssertionError)
        return f"{'killed' if said else 'refused'}: {name}"
    return "survived"


def note_contexts(data: Path, run) -> None:
    """Run something under coverage; in a process of its own."""
    os.chdir(ROOT)
    part = data.with_suffix(".part")
    part.unlink(missing_ok=True)
    measure = coverage.Coverage(data_file=part, source=[str(ROOT / "attnlib")])
    measure.start()
    passed = run(measure)
    measure.stop()
    measure.save()
    if passed:
        part.rename(data)


def reached(work: Path, commit: str) -> coverage.CoverageData:
    """Which test and which page reaches which line."""
    both = coverage.CoverageData(no_disk=True)
    for run in (reach_by_tests, reach_by_pages):
        data = work / f"{run.__name__}-{commit}"
        if not data.exists():
            process = CONTEXT.Process(target=note_contexts, args=(data, run))
            process.start()
            process.join()
        if not data.exists():
            sys.exit("a test or a page fails on attnlib as it is: see above")
        found = coverage.CoverageData(str(data))
        found.read()
        both.update(found)
    return both


def kind_of(said: str) -> str:
    """The first word of a verdict."""
    return said.partition(":")[0]


def rank(said: str) -> int:
    """How good a notice is, the best first."""
    return KINDS.index(kind_of(said))


def worth(test: pytest.Item | pytest.Collector, raised: pytest.ExceptionInfo) -> str:
    """The kind of notice that an exception in a test is."""
    if isinstance(raised.value, AssertionError | pytest.fail.Exception):
        return "killed"
    source = inspect.getsource(test.function) if hasattr(test, "function") else ""
    is_refusal = "pytest.raises" in source or test.get_closest_marker("bad_input")
    claims = test.iter_markers("claim")
    is_control = any(mark.kwargs.get("role") == "control" for mark in claims)
    inside = any("attnlib" in Path(step.path).parts for step in raised.traceback)
    only_warned = isinstance(raised.value, Warning)
    if is_refusal or is_control or only_warned or not inside:
        return "accident"
    return "refused"


def start_the_clock() -> None:
    """From now on this process has so many seconds of the processor."""
    end = math.ceil(time.process_time()) + SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))


class Verdict:
    """A plugin of pytest: runs the tests that reach a place, and those whose names are
    new because a mutant changed them; stops at the first assertion that fails.
    """

    said = "survived"

    def __init__(self, tests: list[str], known: set[str]) -> None:
        self.tests = set(tests)
        self.known = known

    def pytest_collection_modifyitems(self, items):
        functions = {test.partition("[")[0] for test in self.tests}
        kept = []
        for item in items:
            new = item.nodeid not in self.known
            if item.nodeid in self.tests or (
                new and item.nodeid.partition("[")[0] in functions
            ):
                kept.append(item)
        items[:] = kept

    def pytest_runtest_logstart(self, nodeid, location):
        start_the_clock()

    def pytest_exception_interact(self, node, call, report):
        kind = worth(node, call.excinfo)
        self.said = min(self.said, f"{kind}: {node.nodeid}", key=rank)
        if kind == "killed":
            node.session.shouldstop = "noticed"


def import_broken(folder: str) -> None:
    """Import the broken copy, whatever a test or a page puts before it."""
    start_the_clock()
    sys.path[:0] = [folder, str(ROOT / "tests")]
    importlib.import_module("attnlib")
    os.chdir(ROOT)


def ask_tests(folder: str, pipe, tests: list[str], known: set[str]) -> None:
    """Run tests on the broken copy; forked, so that torch is here already."""
    try:
        import_broken(folder)
    except Exception as error:
        pipe.send(f"refused: at import, {error!r}")
        return
    verdict = Verdict(tests, known)
    files = sorted({test.partition("::")[0] for test in tests})
    with contextlib.redirect_stdout(io.StringIO()):
        options = ["-q", "-p", "no:cacheprovider", "-m", LANES]
        options.append("--continue-on-collection-errors")
        code = pytest.main([*options, *files], plugins=[verdict])
    if code != pytest.ExitCode.OK and verdict.said == "survived":
        verdict.said = f"accident: pytest ends with {code!r}"
    pipe.send(verdict.said)


def ask_page(folder: str, pipe, name: str) -> None:
    """Run a page on the broken copy."""
    import_broken(folder)
    pipe.send(run_page(name))


def in_a_fork(target, *args) -> str:
    """What a process of its own says of a mutant."""
    here, there = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=target, args=(args[0], there, *args[1:]))
    process.start()
    there.close()
    try:
        return here.recv() if here.poll(100 * SECONDS) else "killed: it hangs"
    except EOFError:
        process.join()
        overtime = process.exitcode == -signal.SIGXCPU
        return "killed: by the clock" if overtime else "accident: it died"
    finally:
        process.kill()
        process.join()


def line_of(place: tuple[str, int, int, str]) -> int:
    """The line of a place; for a default argument, the first line that may use it."""
    file, line, number, _ = place
    tree, found = nodes(ROOT / file)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            defaults = (*function.args.defaults, *function.args.kw_defaults)
            within = {part for one in defaults if one for part in ast.walk(one)}
            if found[number] in within:
                has_docstring = ast.get_docstring(function) is not None
                return function.body[has_docstring].lineno
    return line


def who_reaches(
    place: tuple[str, int, int, str], data: coverage.CoverageData
) -> tuple[list[str], list[str]]:
    """The tests and the pages that reach a place; if it runs at import, some of those
    that reach its file.
    """
    lines = data.contexts_by_lineno(str(ROOT / place[0]))
    contexts = set(lines.get(line_of(place), []))
    at_import = contexts == {""}
    if at_import:
        contexts = set().union(*lines.values())
    tests = sorted(name for name in contexts if "::" in name)
    pages = sorted(name for name in contexts if name.endswith(".ipynb"))
    draw = random.Random(repr(place))
    if at_import:
        tests = draw.sample(tests, min(SAMPLE, len(tests)))
    return tests, draw.sample(pages, min(PAGES, len(pages)))


def judge(place: tuple[str, int, int, str], data: coverage.CoverageData) -> str:
    """What the tests and pages that reach a place say when it is broken."""
    file, _, number, _ = place
    tests, pages = who_reaches(place, data)
    if not tests and not pages:
        return "survived: nothing reaches the line"
    with tempfile.TemporaryDirectory() as folder:
        away = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "attnlib", Path(folder, "attnlib"), ignore=away)
        tree, found = nodes(ROOT / file)
        change(found[number], really=True)
        Path(folder, file).write_text(ast.unparse(tree), encoding="utf-8")
        said = "survived"
        if tests:
            said = in_a_fork(ask_tests, folder, tests, data.measured_contexts())
        for name in pages:
            if kind_of(said) in ("killed", "refused"):
                return said
            said = min(said, in_a_fork(ask_page, folder, name), key=rank)
    return said


def text_of(place: tuple[str, int, int, str]) -> tuple[str, str, str]:
    """What stays the same of a place when lines move: file, the line's text, change."""
    file, line, _, words = place
    return file, (ROOT / file).read_text().splitlines()[line - 1].strip(), words


def excuses() -> dict[tuple[str, str, str], str]:
    """Why no test should notice some changes, by what `text_of` says of them."""
    told = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text())["mutant"]
    found = {(it["file"], it["line"], it["change"]): it["reason"] for it in told}
    gone = found.keys() - set(map(text_of, places([])))
    if gone:
        sys.exit(f"tests/mutants.toml excuses what is not in attnlib: {sorted(gone)}")
    return found


def summary(verdicts: dict[tuple[str, int, int, str], str]) -> dict:
    """What was found: counts, what no assertion noticed and why, and every verdict."""
    reasons = excuses()
    kinds = list(map(kind_of, verdicts.values()))
    told = {kind: kinds.count(kind) for kind in KINDS}
    told |= {"excused": 0, "unnoticed": [], "verdicts": {}}
    for place, verdict in verdicts.items():
        file, line, number, words = place
        told["verdicts"][f"{file}:{line}, node {number}: {words}"] = verdict
        if kind_of(verdict) in ("accident", "survived"):
            text = text_of(place)
            named = dict(zip(("file", "line", "change"), text))
            named |= {"verdict": verdict, "reason": reasons.get(text, "")}
            told["unnoticed"].append(named)
            told["excused"] += text in reasons
    return told


def revision(name: str) -> str:
    """The short hash by which git knows something."""
    call = ["git", "rev-parse", "--short", name]
    return subprocess.check_output(call, cwd=ROOT, text=True).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="rooms of attnlib")
    options = parser.parse_args()
    excuses()
    commit = revision("HEAD")
    work = WORK / revision("HEAD:attnlib")  # another one has other lines
    work.mkdir(parents=True, exist_ok=True)
    data = reached(work, commit)
    everything = places(options.only)
    count = min(options.count, len(everything))
    drawn = random.Random(options.seed).sample(everything, count)
    store = work / f"seed-{options.seed}.jsonl"
    with store.open("a+") as out, ThreadPoolExecutor(os.cpu_count()) as pool:
        out.seek(0)
        found = {}
        for record in map(json.loads, out):
            noticed = kind_of(record["verdict"]) in ("killed", "refused")
            if noticed or record["commit"] == commit:
                found[tuple(record["place"])] = record["verdict"]
        left = [place for place in drawn if place not in found]
        said = pool.map(lambda place: judge(place, data), left)
        for place, verdict in tqdm(zip(left, said), total=len(left)):
            found[place] = verdict
            record = {"place": place, "verdict": verdict, "commit": commit}
            print(json.dumps(record), file=out, flush=True)
    told = summary({place: found[place] for place in drawn})
    for kind in (*KINDS, "excused"):
        print(kind, told[kind])
    if not options.only:
        stored = {"seed": options.seed, "commit": commit} | told
        lines = json.dumps(stored, indent=1, ensure_ascii=False)
        (ROOT / "tests" / "mutants.json").write_text(lines + "\n")


os.environ |= {"ATTNLIB_SHAPES": "0", "OMP_NUM_THREADS": "1"}
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch", "mpmath", "matplotlib"])
if __name__ == "__main__":
    main()
