"""Break attnlib at random, one place at a time, and see whether a test notices.

    python tests/mutants.py [--count 400] [--seed 0] [--only paths lowrank]

The tests of the library run once while coverage notes which of them reach which line.
Then each mutant (an operator, a comparison, a number, a flag or a sign) runs those that
reach its line. It is killed if an assertion fails. Another exception is an accident:
something noticed, but nobody had looked. Results are stored one by one, so that a run
that was broken off goes on.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
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
LANES = "not slow"  # nor wide, nor bench: those run only where they are named
SECONDS = 200  # of the processor, so that a busy machine changes no verdict
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


def note_contexts(data: Path) -> None:
    """Run the tests of the library once, under coverage; in a process of its own."""
    sys.path.insert(0, str(ROOT / "tests"))
    os.chdir(ROOT)
    named = sorted((ROOT / "tests").glob("test_*.py"))
    away = tuple(f"test_{word}" for word in NOT_OF_THE_LIBRARY.split())
    tests = [str(path) for path in named if not path.stem.startswith(away)]
    part = data.with_suffix(".part")
    part.unlink(missing_ok=True)
    measure = coverage.Coverage(data_file=part, source=[str(ROOT / "attnlib")])
    measure.start()
    options = ["-q", "-p", "no:cacheprovider", "-m", LANES]
    code = pytest.main([*options, *tests], plugins=[Contexts(measure)])
    measure.stop()
    measure.save()
    if code == pytest.ExitCode.OK:
        part.rename(data)


def reached() -> coverage.CoverageData:
    """Which test reaches which line."""
    data = WORK / "coverage"
    if not data.exists():
        process = CONTEXT.Process(target=note_contexts, args=(data,))
        process.start()
        process.join()
    if not data.exists():
        sys.exit("a test fails on attnlib as it is: see above")
    found = coverage.CoverageData(str(data))
    found.read()
    return found


class Verdict:
    """A plugin of pytest: runs the tests that reach a place, and those whose names are
    new because a mutant changed them; stops at the first assertion that fails; an
    accident before it is noted.
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

    def pytest_exception_interact(self, node, call, report):
        if isinstance(call.excinfo.value, (AssertionError, pytest.fail.Exception)):
            self.said = f"killed: {node.nodeid}"
            node.session.shouldstop = "noticed"
        elif self.said == "survived":
            self.said = f"accident: {node.nodeid}"


def in_a_fork(folder: str, tests: list[str], known: set[str], pipe) -> None:
    """Run tests on the broken copy; forked, so that torch is here already."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, 2 * SECONDS))
    sys.path[:0] = [folder, str(ROOT / "tests")]
    importlib.import_module("attnlib")  # the broken one, whatever a test puts before it
    os.chdir(ROOT)
    verdict = Verdict(tests, known)
    files = sorted({test.partition("::")[0] for test in tests})
    with contextlib.redirect_stdout(io.StringIO()):
        options = ["-q", "-p", "no:cacheprovider", "-m", LANES]
        options.append("--continue-on-collection-errors")
        pytest.main([*options, *files], plugins=[verdict])
    pipe.send(verdict.said)


def judge(place: tuple[str, int, int, str], data: coverage.CoverageData) -> str:
    """What the tests that reach a place say when it is broken."""
    file, line, number, _ = place
    contexts = data.contexts_by_lineno(str(ROOT / file)).get(line, [])
    tests = sorted(filter(None, contexts))
    if not tests:
        return "survived: no test reaches the line"
    with tempfile.TemporaryDirectory() as folder:
        away = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "attnlib", Path(folder, "attnlib"), ignore=away)
        tree, found = nodes(ROOT / file)
        change(found[number], really=True)
        Path(folder, file).write_text(ast.unparse(tree), encoding="utf-8")
        here, there = CONTEXT.Pipe(duplex=False)
        known = data.measured_contexts()
        told = (folder, tests, known, there)
        process = CONTEXT.Process(target=in_a_fork, args=told)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="rooms of attnlib")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.check_output(head, cwd=ROOT, text=True).strip()
    data = reached()
    everything = places(options.only)
    count = min(options.count, len(everything))
    drawn = random.Random(options.seed).sample(everything, count)
    store = WORK / f"seed-{options.seed}.jsonl"
    lines = store.read_text().splitlines() if store.exists() else []
    done = {tuple(record["place"]) for record in map(json.loads, lines)}
    left = [place for place in drawn if place not in done]
    with ThreadPoolExecutor(os.cpu_count()) as pool, store.open("a") as out:
        said = pool.map(lambda place: judge(place, data), left)
        for place, verdict in tqdm(zip(left, said), total=len(left)):
            record = {"place": place, "verdict": verdict, "commit": commit}
            print(json.dumps(record), file=out, flush=True)
    verdicts = [json.loads(line)["verdict"] for line in store.open()]
    for kind in ("killed", "accident", "survived"):
        print(kind, sum(verdict.startswith(kind) for verdict in verdicts))


os.environ |= {"ATTNLIB_SHAPES": "0", "OMP_NUM_THREADS": "1"}
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch", "mpmath", "matplotlib"])
if __name__ == "__main__":
    main()
