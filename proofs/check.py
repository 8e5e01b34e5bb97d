"""Check the proofs in this folder with Coq.

    python proofs/check.py

Each file is compiled anew in a folder of its own; no file may assume anything
(Admitted, Axiom, Parameter and the like), and Coq is asked what each theorem that
map.toml names rests on: nothing but definitions is accepted. Coq 8.16 with Mathematical
Components 1.15, as in Debian 12: apt-get install coq libcoq-mathcomp
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

PROOFS = Path(__file__).resolve().parent
NEEDS = re.compile(r"^(?:From \w+ )?Require (?:Import |Export )?([\w ]+)\.", re.M)
COMMENT = re.compile(r"\(\*.*?\*\)", re.S)
ASSUMES = re.compile(
    r"\b(Axiom|Axioms|Parameter|Parameters|Conjecture|Admitted|admit"
    r"|give_up|bypass_check|Declare ML|Unset (?:Guard|Positivity|Universe) Checking)\b"
)
WANTED = "Closed under the global context"
SECONDS = 300


class Problem(Exception):
    """What is wrong with a proof, in a line."""


def entries(folder: Path = PROOFS) -> dict[str, dict]:
    """claim -> {file, theorems, covers, remark}, from map.toml."""
    return tomllib.loads((folder / "map.toml").read_text(encoding="utf-8"))


def files(folder: Path = PROOFS) -> list[Path]:
    """All proofs, each after those that it needs."""
    found = {path.stem: path for path in sorted(folder.glob("*.v"))}
    needs = {}
    for name, path in found.items():
        required = " ".join(NEEDS.findall(path.read_text(encoding="utf-8"))).split()
        needs[name] = [other for other in required if other in found]
    return [found[name] for name in TopologicalSorter(needs).static_order()]


def check_words(path: Path) -> None:
    """Refuse a file that assumes what it should prove."""
    text = COMMENT.sub("", path.read_text(encoding="utf-8"))
    if found := ASSUMES.search(text):
        raise Problem(f"{path.name}: it assumes something: {found[0]}")


def coqc(path: Path) -> str:
    """What Coq prints about a file; Problem if it does not accept it."""
    command = ["coqc", "-w", "none", path.name]
    done = subprocess.run(
        command,
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise Problem(f"{path.name}: Coq refuses it: {done.stderr.strip()[:500]}")
    return done.stdout


def check_file(path: Path, theorems: list[str]) -> None:
    """Compile a file, then ask what its theorems rest on: all at once, and one by one
    only if one of them rests on something.
    """
    check_words(path)
    coqc(path)
    if answers(path, theorems) == [WANTED] * len(theorems):
        return
    for theorem in theorems:
        answer = " ".join(answers(path, [theorem]))
        if answer != WANTED:
            raise Problem(f"{path.name}: {theorem} rests on {answer[:300]}")


def answers(path: Path, theorems: list[str]) -> list[str]:
    """The lines that Coq prints when asked what theorems rest on."""
    question = path.with_name(f"ask_{path.stem}.v")
    lines = [f"Require {path.stem}."]
    lines += [f"Print Assumptions {path.stem}.{theorem}." for theorem in theorems]
    question.write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        return coqc(question).strip().splitlines()
    finally:
        question.unlink()


def theorems_of(name: str, mapped: dict[str, dict]) -> list[str]:
    """The theorems of a file that the map names, each once."""
    found = []
    for entry in mapped.values():
        if entry["file"] == name:
            found += [t for t in entry["theorems"] if t not in found]
    return found


def main(folder: Path = PROOFS) -> int:
    if not shutil.which("coqc"):
        print("proofs: there is no coqc; apt-get install coq libcoq-mathcomp")
        return 2
    mapped = entries(folder)
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        for path in files(folder):
            copy = Path(shutil.copy(path, scratch))
            theorems = theorems_of(path.name, mapped)
            try:
                check_file(copy, theorems)
            except Problem as problem:
                failures += 1
                print(f"proofs: {problem}", file=sys.stderr)
            else:
                print(f"proofs: {path.name}, {len(theorems)} theorems checked")
    whole = sum(entry["covers"] == "whole" for entry in mapped.values())
    print(f"proofs: {len(mapped)} claims, {whole} of them whole; {failures} files fail")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
