"""The formal proofs as the book sees them. Nothing here needs Coq.

proofs/*.v              the proofs
proofs/verdicts.json    what Coq said of them, written whole by proofs/check.py
book/claims.toml        which theorem stands for which claim: the tables [claim.formal]

A verdict counts only for the very files it was given for: a proof and all that it
requires, compared by their hashes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PROOFS = Path(__file__).resolve().parents[2] / "proofs"
VERDICTS = "verdicts.json"
WHOLE = "whole"

REQUIRES = re.compile(r"(?:From\s+\w+\s+)?Require\s+(?:Import\s+|Export\s+)?([\w\s]+)")
STATES = "Theorem Lemma Corollary Proposition Fact Example Remark"
DEFINES = (
    "Definition Fixpoint CoFixpoint Function Inductive CoInductive Variant Record "
    "Structure Class Instance Canonical Coercion"
)
ASSUMES = "Variables? Hypothes[ei]s Context Let Implicit Notation"
COMMAND = re.compile(r"(?:#\[\w+\]\s*)?(?:(?:Local|Global)\s+)?(\w+)\s*(\S*)")
NAME = re.compile(r"[\w']+")


class Item(NamedTuple):
    """A command of a file that a reader of a theorem needs."""

    kind: str  # theorem, definition or context
    name: str  # with the modules around it: "Mean.one_sign"
    text: str  # as it stands in the file, with the comment before it
    line: int
    inside: tuple[int, ...]  # the sections and modules around it

    @property
    def is_instance(self) -> bool:
        """Whether it is a theorem in concrete data, which shows that others apply."""
        bare = without_comments(self.text)
        return self.kind == "theorem" and bool(re.match(r"\s*(Example|Fact)\b", bare))


# ---------------------------------------------------------------- files


def files(folder: Path = PROOFS) -> dict[str, Path]:
    return {path.name: path for path in sorted(folder.glob("*.v"))}


def imports(path: Path) -> list[str]:
    """The files of the folder that a file requires, as it names them."""
    text = without_comments(path.read_text(encoding="utf-8"))
    names = []
    for start, end in sentences(text):
        if found := REQUIRES.fullmatch(text[start : end - 1]):
            names += [f"{name}.v" for name in found[1].split()]
    return [name for name in names if (path.parent / name).is_file()]


def sources(path: Path) -> dict[str, str]:
    """The hash of a file and of each file of the folder that it rests on."""
    found: dict[str, str] = {}
    waiting = [path.name]
    while waiting:
        name = waiting.pop()
        if name not in found:
            content = (path.parent / name).read_bytes()
            found[name] = hashlib.sha256(content).hexdigest()
            waiting += imports(path.parent / name)
    return dict(sorted(found.items()))


# ---------------------------------------------------------------- verdicts


def read_verdicts(folder: Path = PROOFS) -> dict:
    """What Coq said, of which claims, by which versions; or nothing of any."""
    try:
        verdicts = json.loads((folder / VERDICTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        verdicts = None
    empty = {"versions": {}, "claims": {}, "files": {}}
    whole = isinstance(verdicts, dict) and verdicts.keys() == empty.keys()
    return verdicts if whole else empty


def named(formal: dict) -> dict:
    """Which theorems stand for a claim."""
    return {"file": formal["file"], "theorems": formal["theorems"]}


def holds(claim: str, formal: dict, verdicts: dict, folder: Path = PROOFS) -> bool:
    """Whether Coq has accepted these theorems of this very file for this claim, without
    an axiom.
    """
    if verdicts["claims"].get(claim) != named(formal):
        return False
    path = folder / formal["file"]
    verdict = verdicts["files"].get(formal["file"])
    if not verdict or not path.is_file() or verdict["sources"] != sources(path):
        return False
    return all(
        verdict["theorems"].get(name, {}).get("assumptions") == []
        for name in formal["theorems"]
    )


def held(claims: Iterable, folder: Path = PROOFS) -> set[str]:
    """The ids of the claims whose formal theorems Coq has accepted as they stand."""
    verdicts = read_verdicts(folder)
    return {
        claim.id
        for claim in claims
        if claim.formal and holds(claim.id, claim.formal, verdicts, folder)
    }


def rests(claims: Iterable, folder: Path = PROOFS) -> dict[str, set[str]]:
    """Claim -> the claims whose theorems the proofs of its own theorems use, as Coq has
    them; for claims whose verdict holds.
    """
    verdicts, proved = read_verdicts(folder), held(claims, folder)
    owners: dict[str, set[str]] = {}
    used: dict[str, set[str]] = {}
    for name in proved:
        entry = verdicts["claims"][name]
        stem = entry["file"].removesuffix(".v")
        theorems = verdicts["files"][entry["file"]]["theorems"]
        for theorem in entry["theorems"]:
            owners.setdefault(f"{stem}.{theorem}", set()).add(name)
            used.setdefault(name, set()).update(theorems[theorem].get("rests", []))
    return {
        name: set().union(*(owners.get(theorem, set()) for theorem in found)) - {name}
        for name, found in used.items()
    }


# ---------------------------------------------------------------- what a reader reads


def without_comments(text: str) -> str:
    """The text with a space for each character of a comment, so that places stay."""
    depth, kept = 0, []
    for piece in re.split(r'(\(\*|\*\)|"[^"]*")', text):
        depth += piece == "(*"
        kept.append(re.sub(r"\S", " ", piece) if depth else piece)
        depth -= piece == "*)"
    return "".join(kept)


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Where each command begins and ends, in a text without comments."""
    begin = 0
    for stop in re.finditer(r"(?<!\.)\.(?=\s|$)", text):
        yield re.compile(r"\S").search(text, begin).start(), stop.end()
        begin = stop.end()


@cache
def items(whole: str) -> tuple[Item, ...]:
    """The theorems, definitions and assumptions of a file, in its order."""
    bare = without_comments(whole)
    around: list[tuple[int, str, str]] = []  # number, "Module" or "Section", name
    found, before = [], 0
    for number, (start, end) in enumerate(sentences(bare)):
        command = COMMAND.match(bare, start, end - 1)
        word, rest = (command[1], command[2]) if command else ("", "")
        if word in ("Module", "Section") and ":=" not in bare[start:end]:
            around.append((number, word, bare[start : end - 1].split()[-1]))
        elif word == "End":
            around.pop()
        elif kind := kind_of(word):
            name = NAME.match(rest)
            modules = [name for _, opened, name in around if opened == "Module"]
            comment = start - len(comment_before(whole[before:start]))
            found.append(
                Item(
                    kind,
                    ".".join([*modules, name[0] if name else rest]),
                    whole[comment : end + len(comment_after(whole[end:]))].strip(),
                    whole.count("\n", 0, start) + 1,
                    tuple(number for number, _, _ in around),
                )
            )
        before = end
    return tuple(found)


def kind_of(word: str) -> str | None:
    if word in STATES.split():
        return "theorem"
    if word in DEFINES.split():
        return "definition"
    if any(re.fullmatch(pattern, word) for pattern in ASSUMES.split()):
        return "context"
    return None


def comment_before(gap: str) -> str:
    """The comment that stands directly before a command, without an empty line; not
    one behind the command before.
    """
    own = gap[len(comment_after(gap)) :]
    last = re.split(r"\n[ \t]*\n", own)[-1].lstrip()
    return last if last.startswith("(*") else ""


def comment_after(rest: str) -> str:
    """The comment that stands behind a command, on the same line."""
    found = re.match(r"[ \t]*\(\*.*\*\)(?=[ \t]*\n)", rest)
    return found[0] if found else ""


def needed(path: Path, theorems: list[str], uses: Iterable[str] = ()) -> list[Item]:
    """What a reader reads of a file to know what its theorems say: them, the
    definitions `uses`, and the variables and hypotheses around both.
    """
    wanted = {*theorems, *uses}
    all_items = items(path.read_text(encoding="utf-8"))
    chosen = [i for i in all_items if i.kind != "context" and i.name in wanted]
    shown: list[Item] = []
    for item in reversed(all_items):
        around = item.kind == "context" and any(
            item.inside == other.inside[: len(item.inside)] and item.line < other.line
            for other in chosen
        )
        if item in chosen or (around and not idle(item, shown)):
            shown.append(item)
    return shown[::-1]


def idle(item: Item, shown: list[Item]) -> bool:
    """Whether it is an abbreviation (Let) of which nothing that follows speaks."""
    word = re.compile(rf"(?<![\w']){re.escape(item.name.split('.')[-1])}(?![\w'])")
    is_let = re.search(r"^Let\b", item.text, re.M)
    return bool(is_let) and not any(word.search(other.text) for other in shown)


def uses(formal: dict, verdicts: dict) -> dict[str, list[str]]:
    """The definitions with which the theorems of a claim speak, by file; as Coq found
    them.
    """
    files = verdicts["files"]
    verdict = files[formal["file"]]
    direct = [n for t in formal["theorems"] for n in verdict["theorems"][t]["uses"]]
    found: dict[str, list[str]] = {}
    for full in closure(direct, files):
        stem, _, name = full.partition(".")
        found.setdefault(f"{stem}.v", []).append(name)
    return found


def closure(names: Iterable[str], files: dict[str, dict]) -> list[str]:
    """These definitions (file.name) and all of which they speak."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        full = waiting.pop()
        if full not in found:
            found.add(full)
            stem, _, name = full.partition(".")
            known = files.get(f"{stem}.v", {}).get("definitions", {})
            waiting += known.get(name, {}).get("uses", [])
    return sorted(found)


def reading(formal: dict, checked: bool, folder: Path = PROOFS) -> tuple[str, int]:
    """What a reader must trust, as source: the definitions of which the theorems of a
    claim speak, other files first, then the theorems; and the line of the first one.

    The definitions are those that Coq found; without a verdict only the theorems.
    """
    own = folder / formal["file"]
    by_file = uses(formal, read_verdicts(folder)) if checked else {}
    parts = []
    for name in sorted(by_file.keys() - {own.name}):
        shown = needed(folder / name, [], by_file[name])
        parts.append(f"(* From {name} *)\n{joined(shown)}")
    shown = needed(own, formal["theorems"], by_file.get(own.name, []))
    head = f"(* From {own.name} *)\n" if parts else ""
    parts.append(head + joined(shown))
    lines = [item.line for item in shown if item.name in formal["theorems"]]
    return "\n\n".join(parts), min(lines, default=1)


def printed(formal: dict, folder: Path = PROOFS) -> str:
    """The same as Coq prints it: here nothing can be meant by a word that another file
    gave a second sense.
    """
    files = read_verdicts(folder)["files"]
    parts = []
    for name, names in sorted(uses(formal, {"files": files}).items()):
        known = files[name]["definitions"]
        order = [i.name for i in items((folder / name).read_text(encoding="utf-8"))]
        parts += [known[n]["print"] for n in sorted(names, key=order.index)]
    theorems = files[formal["file"]]["theorems"]
    parts += [theorems[name]["statement"] for name in formal["theorems"]]
    return "\n\n".join(parts)


def joined(shown: list[Item]) -> str:
    """Commands below each other, an empty line before theorems and comments."""
    text = ""
    for item in shown:
        apart = item.kind == "theorem" or item.text.startswith("(*")
        gap = "\n\n" if apart else "\n"
        text += gap + item.text
    return text.strip()
