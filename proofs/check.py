"""Check the proofs in this folder with Coq.

    python proofs/check.py [--accept] [--changed] [--compare] [--kernel] [-j N]

Each file is compiled anew in a folder of its own, after those that it requires. No file
may assume anything (Admitted, Axiom, Parameter and the like), or bring a notation into
another file. Then Coq is asked what each theorem that book/claims.toml names says and
rests on: it must be a statement, and nothing but definitions is accepted. What Coq says
is stored in verdicts.json, whole or not at all; the book's build reads it there. A
claim whose theorems say something else than the stored verdict fails, also under
another name, unless --accept says that this is meant. --compare stores nothing, and
fails if that would change what is stored; --kernel has coqchk, a checker of its own,
read all compiled files. Coq 8.16 with Mathematical Components 1.15, as in Debian 12:
apt-get install coq libcoq-mathcomp{,-algebra-tactics,-zify,-analysis} libcoq-dpdgraph
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import TopologicalSorter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "book/_tools"))
import claims  # noqa: E402  (these stand in the folder just named)
import formal  # noqa: E402
import pages  # noqa: E402

PROOFS = Path(__file__).resolve().parent
ASSUMES = re.compile(
    r"\b(Axiom|Axioms|Parameter|Parameters|Conjecture|Admitted|admit"
    r"|give_up|bypass_check|Declare ML|Unset (?:Guard|Positivity|Universe) Checking)\b"
)
SPREADS = re.compile(r"(?<!Local )\b(?:Notation|Infix)\b")  # into files that require it
TYPES = re.compile(r"\b(Inductive|CoInductive|Variant|Record|Structure|Class)\b")
CLOSED = "Closed under the global context"
SECONDS = 300
MEMORY = "s=4M,o=400"  # some 50 MB more, so that garbage is looked for less often
TOGETHER = (
    10  # files of which Coq is asked at once: to load what they need takes a second
)
EVERY = "every_theorem"
RENAMED = "mathcomp2/renamed.v"  # for Mathematical Components 2
SORT = "Check ltac:(let t := type of @{} in let s := type of t in exact s)"
# dpdgraph writes which constants of these files speak of which, in terms and proofs.
GRAPH = """From dpdgraph Require Import dpdgraph.
Require {stems}.
Set DependGraph File "graph.dpd".
Print FileDependGraph {stems}.
"""
NODE = re.compile(r'N: (\d+) "([^"]+)" .*?path="([^"]*)"')
EDGE = re.compile(r"E: (\d+) (\d+) ")
# Coq prints by these, whatever the file itself has set; then without any notation.
PRINTING = """From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
Require {stems}.
Set Printing Width 100.
Unset Printing Implicit Defensive.
Set Printing Depth 1000000.
Open Scope ring_scope.
"""


class Problem(Exception):
    """What is wrong with a proof, in a line."""


def entries(path: Path = claims.ROOT / claims.REGISTRY) -> dict[str, dict]:
    """claim -> {file, theorems, covers, remark}, from the registry of claims; read
    plainly, so that nothing need be installed to check the proofs.
    """
    registry = tomllib.loads(path.read_text(encoding="utf-8"))
    return {c["id"]: c["formal"] for c in registry["claim"] if "formal" in c}


def theorems_of(name: str, mapped: dict[str, dict]) -> list[str]:
    """The theorems of a file that claims name, each once."""
    found = []
    for entry in mapped.values():
        if entry["file"] == name:
            found += [t for t in entry["theorems"] if t not in found]
    return found


# ---------------------------------------------------------------- one file


def check_words(path: Path) -> None:
    """Refuse a file that assumes what it should prove, or that changes how another file
    is read.
    """
    text = formal.without_comments(path.read_text(encoding="utf-8"))
    words = re.sub(r'\s+|"[^"]*"', " ", text)
    if found := ASSUMES.search(words):
        raise Problem(f"{path.name}: it assumes something: {found[0]}")
    if found := SPREADS.search(words):
        raise Problem(f"{path.name}: a {found[0]} that is not Local")


def coqc(path: Path) -> None:
    """Compile a file; Problem if Coq does not accept it."""
    command = ["coqc", "-w", "none", path.name]
    if path.with_name("renamed.vo").exists():
        command[1:1] = ["-ri", "renamed"]
    try:
        done = subprocess.run(
            command,
            cwd=path.parent,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env={"OCAMLRUNPARAM": MEMORY, **os.environ},
        )
    except subprocess.TimeoutExpired:
        raise Problem(f"{path.name}: Coq has not done in {SECONDS} s") from None
    if done.returncode:
        raise Problem(f"{path.name}: Coq refuses it: {done.stderr.strip()[:500]}")


def compile_file(path: Path) -> None:
    """Problem if a file assumes something, or Coq does not accept it."""
    check_words(path)
    coqc(path)


def known(path: Path) -> tuple[formal.Item, ...]:
    return formal.items(path.read_text(encoding="utf-8"))


def definitions(path: Path) -> list[str]:
    return [item.name for item in known(path) if item.kind == "definition"]


def verdict_on(path: Path, theorems: list[str], said: dict) -> dict:
    """The verdict on a file: what its theorems say, and that they rest on nothing."""
    verdict = {"sources": formal.sources(path), "theorems": {}, "definitions": {}}
    rests_on = said["rests", path.stem, EVERY]
    if rests_on != CLOSED:
        raise Problem(f"{path.name}: of its theorems some rests on {rests_on[:300]}")
    for name in theorems:
        if said["sort", path.stem, name].split()[0] != "Prop":
            raise Problem(f"{path.name}: {name} is no statement")
        verdict["theorems"][name] = {
            "statement": said["says", path.stem, name],
            "full": digest(said["full", path.stem, name]),
            "uses": mentioned(path, said["full", path.stem, name], name),
            "assumptions": [],
        }
    verdict["definitions"] = {
        name: {
            "print": without_type(said["print", path.stem, name]),
            "full": digest(said["full", path.stem, name]),
            "uses": mentioned(path, said["full", path.stem, name], name),
        }
        for name in definitions(path)
    }
    return verdict


def ask(paths: list[Path], theorems: dict[str, list[str]]) -> dict:
    """What Coq prints of each name of some compiled files: what it says, the same in
    full; and what the theorems of a file rest on, all as one, since to follow a proof
    to its ground takes half a second.

    Coq is asked from outside the files, so that no file can bend the answers.
    """
    short, full = {}, {}
    lines = [PRINTING.format(stems=" ".join(path.stem for path in paths))]
    for path in paths:
        stem = path.stem
        named = [f"@{stem}.{name}" for name in theorems[path.name]]
        lines.append(f"Definition {EVERY}_{stem} := ({', '.join(named) or 'tt'}).")
        short["rests", stem, EVERY] = f"Print Assumptions {EVERY}_{stem}"
        for name in theorems[path.name]:
            short["says", stem, name] = f"Check @{stem}.{name}"
            short["sort", stem, name] = SORT.format(f"{stem}.{name}")
            full["full", stem, name] = f"Check @{stem}.{name}"
        for name in definitions(path):
            short["print", stem, name] = f"Print {stem}.{name}"
            full["full", stem, name] = f"Print {stem}.{name}"
    answers = {}
    for questions, setting in ((short, ""), (full, "Set Printing All.")):
        lines.append(setting)
        for key, question in questions.items():
            kind, stem, name = key
            answers[key] = paths[0].with_name(f"{stem}.{kind}.{name}.out")
            lines.append(f'Redirect "{answers[key].stem}" {question}.')
    question = paths[0].with_name(f"ask_{paths[0].stem}.v")
    question.write_text("\n".join(lines) + "\n", encoding="utf-8")
    coqc(question)
    return {
        key: path.read_text(encoding="utf-8").strip() for key, path in answers.items()
    }


def without_type(text: str) -> str:
    """What Coq prints of a definition, less its type and the modes of its arguments."""
    return re.split(r"\n\nArguments |\n {5}: ", text)[0].strip()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def mentioned(path: Path, text: str, itself: str) -> list[str]:
    """The other definitions of this folder of which a printed text speaks, as
    file.name; a field or a constructor stands for its type.
    """
    found = set()
    for name in formal.sources(path):
        stem = name.removesuffix(".v")
        for match in re.finditer(rf"(?<![\w.]){stem}\.([\w.']+)", text):
            found.add(f"{stem}.{definition(path.with_name(name), match[1])}")
    return sorted(found - {f"{path.stem}.{itself}"})


def definition(path: Path, name: str) -> str:
    """The definition of a file to which a name belongs."""
    name = name.rstrip(".")
    modules, _, last = name.rpartition(".")
    word = re.compile(rf"\b{re.escape(last)}\b")
    for item in known(path):
        if item.name == name:
            return name
        same_module = item.name.rpartition(".")[0] == modules
        is_type = TYPES.search(item.text)
        if same_module and is_type and word.search(item.text):
            return item.name
    raise Problem(f"{path.name}: what is {name}? No definition of this name is known")


# ---------------------------------------------------------------- all files


def compile_all(
    folder: Path, wanted: set[str], jobs: int
) -> Iterator[tuple[str, Problem | None, float]]:
    """Compile files in parallel, each after those that it requires: its name, what is
    wrong, and the seconds that it took.
    """
    paths = formal.files(folder)
    sorter = TopologicalSorter({n: formal.imports(paths[n]) for n in wanted})
    sorter.prepare()
    failed: set[str] = set()
    running: dict[Future, str] = {}
    with ThreadPoolExecutor(jobs) as pool:
        while sorter.is_active():
            ready = sorter.get_ready()
            for name in sorted(ready, key=lambda n: -paths[n].stat().st_size):
                bad = [
                    other for other in formal.imports(paths[name]) if other in failed
                ]
                running[pool.submit(timed, paths[name], bad)] = name
            for job in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(job)
                problem, seconds = job.result()
                if problem:
                    failed.add(name)
                sorter.done(name)
                yield name, problem, seconds


def timed(path: Path, bad: list[str]) -> tuple[Problem | None, float]:
    begun, wrong = time.perf_counter(), None
    try:
        if bad:
            raise Problem(f"{path.name}: it requires {bad[0]}, which fails")
        compile_file(path)
    except Problem as problem:
        wrong = problem
    return wrong, time.perf_counter() - begun


def ask_all(
    paths: list[Path], theorems: dict[str, list[str]], jobs: int
) -> Iterator[tuple[str, dict | Problem]]:
    """The verdicts on compiled files, by name, or what is wrong."""
    parts = [paths[k : k + TOGETHER] for k in range(0, len(paths), TOGETHER)]
    with ThreadPoolExecutor(jobs) as pool:
        asked = [pool.submit(ask, part, theorems) for part in parts]
    for part, answer in zip(parts, asked):
        for path in part:
            try:
                found = verdict_on(path, theorems[path.name], answer.result())
            except Problem as problem:
                found = problem
            yield path.name, found


def versions() -> dict[str, str]:
    """The versions of Coq and of Mathematical Components, "unknown" if nobody says."""
    coq = said_by("coqc", "--print-version").split()
    debian = said_by("dpkg-query", "-Wf${Version}", "libcoq-mathcomp-ssreflect")
    opam = said_by("opam", "show", "-fversion", "coq-mathcomp-ssreflect")
    mathcomp = debian.partition("-")[0] or opam
    return {"coq": coq[0] if coq else "unknown", "mathcomp": mathcomp or "unknown"}


def said_by(*command: str) -> str:
    if not shutil.which(command[0]):
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


# ---------------------------------------------------------------- drift


def drift(old: dict, new: dict) -> Iterator[str]:
    """Where claims say something else than the stored verdicts, in words; by claim, so
    that a theorem under another name is noticed.
    """
    for name in sorted(old["claims"]):
        if name not in new["claims"]:
            yield f"{name} has no formal part any more"
            continue
        before, after = stated(old, name), stated(new, name)
        if before["full"] != after["full"]:
            yield from changed(name, before["statement"], after["statement"])
    before, after = spoken(old["files"]), spoken(new["files"])
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            yield f"the definition {name}, of which theorems speak, has changed"


def vain(old: dict, new: dict, unmet: set[str]) -> Iterator[str]:
    """New claims with a theorem whose hypotheses might never hold, in words."""
    for name in sorted(new["claims"].keys() - old["claims"].keys()):
        entry = new["claims"][name]
        for theorem in entry["theorems"]:
            if old["claims"] and f"{Path(entry['file']).stem}.{theorem}" in unmet:
                yield f"{name}: no Example or Fact applies {theorem}"


def stated(verdicts: dict, claim: str) -> dict[str, str]:
    """All that Coq printed of the theorems of a claim."""
    entry = verdicts["claims"][claim]
    theorems = verdicts["files"].get(entry["file"], {}).get("theorems", {})
    found = [theorems.get(name, {}) for name in entry["theorems"]]
    return {
        field: "\n".join(theorem.get(field, "") for theorem in found)
        for field in ("full", "statement")
    }


def changed(name: str, old: str, new: str) -> Iterator[str]:
    if old == new:
        yield f"{name} has changed in what Coq prints only in full (types, instances)"
        return
    yield f"{name} says something else:"
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), "stored", "now", lineterm=""
    )
    yield from (f"    {line}" for line in lines)


def spoken(files: dict[str, dict]) -> dict[str, str]:
    """The definitions of which theorems speak, themselves or by other definitions."""
    found = {}
    for verdict in files.values():
        for theorem in verdict["theorems"].values():
            for name in formal.closure(theorem["uses"], files):
                stem, _, inner = name.partition(".")
                whole = files.get(f"{stem}.v", {}).get("definitions", {}).get(inner)
                found[name] = whole["full"] if whole else ""
    return found


def without_the_unspoken(files: dict[str, dict]) -> dict[str, dict]:
    """The verdicts, less the definitions of which no theorem speaks."""
    names = spoken(files)
    found = {}
    for file, verdict in files.items():
        stem = file.removesuffix(".v")
        kept = {
            name: entry
            for name, entry in verdict["definitions"].items()
            if f"{stem}.{name}" in names
        }
        found[file] = verdict | {"definitions": kept}
    return found


# ---------------------------------------------------------------- the command


def main(argv: list[str] | None = None, folder: Path = PROOFS) -> int:
    parser = argparse.ArgumentParser(description="Check the proofs with Coq.")
    parser.add_argument(
        "--accept", action="store_true", help="store statements that have changed"
    )
    parser.add_argument(
        "--changed", action="store_true", help="only files without a stored verdict"
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="store nothing, and fail if that would change what is stored",
    )
    parser.add_argument(
        "--kernel", action="store_true", help="let coqchk read what was compiled, too"
    )
    parser.add_argument(
        "-j", type=int, default=os.cpu_count(), metavar="N", help="files at a time"
    )
    options = parser.parse_args(argv)
    if not shutil.which("coqc"):
        print("proofs: there is no coqc; book/proofs.md says what to install")
        return 2
    try:
        return check(folder, entries(), options)
    except Problem as problem:
        print(f"proofs: {problem}", file=sys.stderr)
        return 1


def check(folder: Path, mapped: dict[str, dict], options: argparse.Namespace) -> int:
    """Check, compare with what is stored, store; 1 if anything is wrong."""
    begun = time.perf_counter()
    stored, now = formal.read_verdicts(folder), versions()
    same_coq = stored["versions"] in ({}, now)
    wanted = set(formal.files(folder))
    if options.changed and same_coq:
        wanted = stale(folder, mapped, stored["files"])
    made, problems, unmet = compiled(folder, mapped, wanted, options, now["mathcomp"])
    kept = {n: v for n, v in stored["files"].items() if n in formal.files(folder)}
    verdicts = {
        "versions": now,
        "claims": {n: formal.named(entry) for n, entry in mapped.items()},
        "files": without_the_unspoken(kept | made),
    }
    if not problems and same_coq and not options.accept:
        problems = [*drift(stored, verdicts), *vain(stored, verdicts, unmet)]
        if problems:
            problems.append("if that is meant: make proofs ACCEPT=1")
    for problem in problems:
        print(f"proofs: {problem}", file=sys.stderr)
    whole = sum(entry["covers"] == formal.WHOLE for entry in mapped.values())
    print(
        f"proofs: {len(mapped)} claims, {whole} of them whole; {len(made)} files "
        f"accepted in {time.perf_counter() - begun:.0f} s by Coq {now['coq']}, "
        f"Mathematical Components {now['mathcomp']}"
    )
    if problems:
        print("proofs: nothing is stored", file=sys.stderr)
        return 1
    if not same_coq and not options.accept:
        print(
            "proofs: the stored verdicts are of other versions and stay: statements "
            f"printed by {stored['versions']} cannot be compared"
        )
        return 0
    if options.compare:
        if verdicts != stored:
            print("proofs: the stored verdicts are of other files", file=sys.stderr)
        return int(verdicts != stored)
    text = json.dumps(verdicts, indent=1, sort_keys=True, ensure_ascii=False)
    pages.write_atomically(folder / formal.VERDICTS, text + "\n")
    return 0


def compiled(
    folder: Path,
    mapped: dict[str, dict],
    wanted: set[str],
    options: argparse.Namespace,
    mathcomp: str,
) -> tuple[dict[str, dict], list[str], set[str]]:
    """Verdicts and problems of files, checked in a copy of the folder; and the theorems
    whose hypotheses no instance meets.
    """
    made, problems = {}, []
    with tempfile.TemporaryDirectory() as scratch:
        for path in formal.files(folder).values():
            shutil.copy(path, scratch)
        if mathcomp.startswith("2"):
            coqc(Path(shutil.copy(folder / RENAMED, scratch)))
        paths, theorems = [], {}
        for name, problem, seconds in compile_all(Path(scratch), wanted, options.j):
            count = f"{len(paths) + len(problems) + 1} of {len(wanted)}"
            if problem:
                problems.append(str(problem))
                print(f"proofs: {count}: {name} FAILS, {seconds:.1f} s", flush=True)
                continue
            paths.append(Path(scratch, name))
            theorems[name] = theorems_of(name, mapped)
            number = len(theorems[name])
            print(
                f"proofs: {count}: {name}, {number} theorems, {seconds:.1f} s",
                flush=True,
            )
        for name, verdict in ask_all(paths, theorems, options.j):
            if not isinstance(verdict, Problem):
                made[name] = verdict
            elif str(verdict) not in problems:  # one for all that are asked together
                problems.append(str(verdict))
        if options.kernel and not problems and paths:
            problems += kernel(paths)
        unmet = join(made, paths) if paths and not problems else set()
    return made, problems, unmet


def join(made: dict[str, dict], paths: list[Path]) -> set[str]:
    """Add to each verdict the theorems that proofs use; the theorems with hypotheses
    that no instance meets.
    """
    graph = uses_of(paths)
    entries = {
        f"{Path(name).stem}.{theorem}": entry
        for name, verdict in made.items()
        for theorem, entry in verdict["theorems"].items()
    }
    for theorem, entry in entries.items():
        entry["rests"] = reached(theorem, graph, entries.keys())
    supposing = {t for t, e in entries.items() if has_hypotheses(e["statement"])}
    return supposing - applied(paths, graph)


def has_hypotheses(statement: str) -> bool:
    """Whether what Coq prints has an arrow outside of all parentheses."""
    text, inner = statement, None
    while text != inner:
        text, inner = re.sub(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}", "", text), text
    return " -> " in " ".join(text.split())


def uses_of(paths: list[Path]) -> dict[str, list[str]]:
    """Constant -> the constants of these files of which its term or proof speaks."""
    question = paths[0].with_name("graph.v")
    stems = " ".join(path.stem for path in paths)
    question.write_text(GRAPH.format(stems=stems), encoding="utf-8")
    coqc(question)
    text = question.with_suffix(".dpd").read_text(encoding="utf-8")
    name = {number: f"{path}.{last}" for number, last, path in NODE.findall(text)}
    uses: dict[str, list[str]] = {}
    for user, used in EDGE.findall(text):
        uses.setdefault(name[user], []).append(name[used])
    return uses


def applied(paths: list[Path], uses: dict[str, list[str]]) -> set[str]:
    """The constants that an Example or a Fact applies, straight or by others: if they
    have hypotheses, these are seen to hold somewhere.
    """
    found, waiting = set(), []
    for path in paths:
        waiting += [f"{path.stem}.{i.name}" for i in known(path) if i.is_instance]
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting += uses.get(other, ())
    return found


def reached(theorem: str, uses: dict[str, list[str]], named: Set[str]) -> list[str]:
    """The named theorems to which uses lead, without passing another."""
    found, waiting = set(), list(uses.get(theorem, ()))
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting += () if other in named else uses.get(other, ())
    return sorted((found & named) - {theorem})


def kernel(paths: list[Path]) -> Iterator[str]:
    """What is wrong by coqchk, which reads compiled files with a kernel of its own;
    what they take from libraries it believes.
    """
    begun = time.perf_counter()
    modules = [word for path in paths for word in ("-norec", path.stem)]
    done = subprocess.run(
        ["coqchk", "-silent", *modules],
        cwd=paths[0].parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        yield f"coqchk refuses a file: {(done.stderr or done.stdout).strip()[-500:]}"
    else:
        print(f"proofs: coqchk agrees, {time.perf_counter() - begun:.0f} s")


def stale(folder: Path, mapped: dict[str, dict], stored: dict[str, dict]) -> set[str]:
    """Files whose stored verdict is of another text or lacks a theorem, with all that
    they require.
    """
    found = set()
    for name, path in formal.files(folder).items():
        verdict = stored.get(name)
        if (
            not verdict
            or verdict["sources"] != formal.sources(path)
            or set(verdict["theorems"]) != set(theorems_of(name, mapped))
        ):
            found |= set(formal.sources(path))
    return found


if __name__ == "__main__":
    sys.exit(main())
