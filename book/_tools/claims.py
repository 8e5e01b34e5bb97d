"""The registry of claims, and what the tests say about it.

the boxes of the pages   what the book claims (see boxes.py)
book/claims.toml         on what evidence
_build/verdicts.json     what the marked tests did, and on which code, claim by claim
proofs/verdicts.json     what Coq said of the formal proofs (see formal.py)
resolve(claims, ...)     what a reader is shown, from these four alone

python book/_tools/claims.py refresh     run the tests of claims whose code has changed
python book/_tools/claims.py show        every claim and what it shows
python book/_tools/claims.py accept ID   its box says what its evidence is for: somebody
                                         has looked
python book/_tools/claims.py release     fail if anything is unchecked
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Container, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import boxes
import depends
import formal
import page_cache
import pages

ROOT = Path(__file__).resolve().parents[2]
REGISTRY, VERDICTS = "book/claims.toml", "_build/verdicts.json"
RELEASED = "book/released.toml"
THEOREMS = "book/attnbook/theorems"
ROLES = ("check", "control", "counterexample", "certificate")
STRENGTH = {"proof": 3, "certified": 2, "counterexample": 2, "sampled": 1}
# by strength
SENTENCES = re.compile(r"\([a-z]\)(, \([a-z]\))*")
WORDS = ("unchecked", "sampled", "certified", "proved", "machine-checked")
PROVED, CHECKED = 3, 4
SEEN = ("seen", "restated", "recalled", "derived")  # how a source is known, best first
SOUND = ("true", "repaired")  # what a true or repaired claim may rest on
STATUS_WORDS = {
    "true": "true as stated",
    "repaired": "false as printed, true as repaired here",
    "false": "false as printed, by an exact counterexample",
    "open": "neither proved nor refuted here",
}
BADGE_TEXT = {
    "broken": "check failed",
    "false": "false as printed",
}  # where the word alone would mislead
EVIDENCE_WORDS = {
    "proof": "proof on the page",
    "certified": "instances certified in exact arithmetic",
    "counterexample": "exact counterexample",
    "sampled": "sampled, not proved",
}

KINDS = {
    "identity": "identity",
    "upper": "upper bound",
    "lower": "lower bound",
    "tight": "bound that is attained",
    "existence": "existence",
    "separation": "separation",
}  # of claims, as the schema of the registry has them

NOT_FORMAL = {
    "measured": (
        "Measured.",
        "These say what a stored run or a sample showed. There is no proof that could "
        "be formalised.",
    ),
    "probability": (
        "Chance.",
        "These speak of Gaussian or uniform draws. Coq would first need the theory of "
        "such laws, which plain Mathematical Components lacks.",
    ),
    "analysis": (
        "Analysis.",
        "These need integrals, volumes, or long constructions with real numbers, which "
        "plain Mathematical Components lacks, too.",
    ),
    "not yet": ("Not yet.", "Nothing stands in the way but the work."),
}  # why a claim has no formal proof: a name, and what it means


class Claim(NamedTuple):
    """One entry of the registry; the fields are described in
    book/claims.schema.json.
    """

    id: str
    page: str
    anchor: str
    title: str
    source: dict
    kind: str
    status: str
    evidence: dict
    since: str
    as_printed: str = ""
    as_repaired: str = ""
    box: str = ""
    proof: str = ""
    uses: tuple | list = ()
    erratum: dict = {}
    formal: dict = {}
    not_formal: str = ""

    @property
    def place(self) -> str:
        """Where its box stands."""
        return f"{self.page}#{self.anchor}"

    @property
    def whole(self) -> bool:
        """Whether all of the claim is formalised in proofs/."""
        return self.formal.get("covers") == formal.WHOLE

    @property
    def formal_sentences(self) -> str:
        """The sentences of the box that are formalised, as "(a), (b)"; or nothing."""
        covers = self.formal.get("covers", "")
        return covers if SENTENCES.fullmatch(covers) else ""

    @property
    def given(self) -> str:
        """What its formal proof takes as given, for a badge; or nothing."""
        return f" given {self.formal['given']}" if "given" in self.formal else ""

    @property
    def part(self) -> str:
        """The part of the evidence that the claim stands on."""
        return next(
            p for p in ("repaired", "statement", "printed") if p in self.evidence
        )

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that tests must fill before anything is shown."""
        values = self.evidence.values()
        extra = {
            "counterexample": "counterexample" in values,
            "certificate": "certified" in values,
        }
        return ROLES[:2] + tuple(role for role, needed in extra.items() if needed)


class Resolution(NamedTuple):
    """What a reader is shown. own: by the claim's evidence and tests alone; shown: at
    most that of all it uses.
    """

    own: int
    shown: int
    broken: bool
    reasons: tuple[str, ...]  # why less is shown than the registry says
    tests: dict  # role -> {nodeid: outcome}
    sentences: str = ""  # of its box, which Coq has checked where it is not the whole


class Badge(NamedTuple):
    """kind names the CSS class claim-<kind>; text says it without colour; title says
    why.
    """

    kind: str
    text: str
    title: str


# ---------------------------------------------------------------- the registry


def load(path: Path | str = ROOT / REGISTRY) -> list[Claim]:
    """The claims of a registry in its order. Raises ValueError that names the claim and
    the broken rule.
    """
    return list(read(Path(path).read_text(encoding="utf-8")))


@functools.lru_cache(maxsize=4)  # each page asks; reading takes half a second
def read(text: str) -> tuple[Claim, ...]:
    """The claims of a registry, from its text."""
    data = tomllib.loads(text)
    check_form(data)
    claims = [Claim(**entry) for entry in data.get("claim", [])]
    check_sense(claims)
    return tuple(claims)


def check_form(data: dict) -> None:
    """Raise ValueError where `data` does not follow book/claims.schema.json."""
    import jsonschema

    schema = json.loads((ROOT / "book/claims.schema.json").read_text(encoding="utf-8"))
    errors = list(jsonschema.Draft202012Validator(schema).iter_errors(data))
    if not errors:
        return
    error = jsonschema.exceptions.best_match(errors)
    place = list(error.absolute_path)
    if len(place) >= 2:
        name = data["claim"][place[1]].get("id", f"number {place[1] + 1}")
        raise ValueError(
            f"claim {name}: {'.'.join(map(str, place[2:])) or 'entry'}: {error.message}"
        )
    raise ValueError(f"registry of claims: {error.message}")


def check_sense(claims: list[Claim]) -> None:
    """Raise ValueError where entries that are well formed contradict themselves or each
    other.
    """
    for field, values in {
        "id": [slug(c.id) for c in claims],
        "anchor": [c.place for c in claims],
    }.items():
        for claim, value in zip(claims, values, strict=True):
            need(values.count(value) == 1, claim, f"{field} {value} is taken twice")
    by_id = {claim.id: claim for claim in claims}
    for claim in claims:
        check_source(claim)
        check_evidence(claim)
        check_formal(claim)
        check_uses(claim, by_id)
    try:
        order(claims)
    except CycleError as error:
        cycle = error.args[1]
        raise ValueError(
            f"claim {cycle[0]}: uses runs in a cycle: {' -> '.join(cycle)}"
        ) from None


def check_source(claim: Claim) -> None:
    seen = claim.source["seen"]
    need(
        seen == "derived" or claim.source.get("work"),
        claim,
        f"a source that was {seen} names its work",
    )
    need(
        (seen == "restated") == ("through" in claim.source),
        claim,
        "a source that was restated says through whom, and no other does",
    )
    need(
        seen == "seen" or "also" not in claim.source,
        claim,
        "also names a second print that was seen; this source was not",
    )
    need(
        seen == "seen" or not claim.as_printed,
        claim,
        f"as_printed is refused: the source was {seen}, not seen",
    )
    need(
        seen == "seen" or "printed" not in claim.evidence,
        claim,
        f"evidence.printed is refused: the source was {seen}, not seen; "
        "call this part 'statement'",
    )


def check_evidence(claim: Claim) -> None:
    faulty = claim.status in ("repaired", "false")
    parts = set(claim.evidence)
    if faulty:
        need(claim.as_printed, claim, f"status {claim.status} needs as_printed")
        need(
            claim.evidence.get("printed") == "counterexample",
            claim,
            f"status {claim.status} needs evidence.printed = 'counterexample'",
        )
        need(
            claim.erratum,
            claim,
            f"status {claim.status} needs an erratum (counterexample, at, survives)",
        )
        need(
            "statement" not in parts,
            claim,
            f"status {claim.status} has no evidence.statement",
        )
    else:
        need(
            len(parts & {"statement", "printed"}) == 1,
            claim,
            "evidence is for 'statement' or for 'printed', one of them",
        )
        need(
            "counterexample" not in claim.evidence.values(),
            claim,
            f"status {claim.status} has no counterexample",
        )
        need(not claim.erratum, claim, f"status {claim.status} has no erratum")
    need(
        (claim.status == "repaired") == bool(claim.as_repaired),
        claim,
        "as_repaired goes with status repaired",
    )
    need(
        (claim.status == "repaired") == ("repaired" in parts),
        claim,
        "evidence.repaired goes with status repaired",
    )
    need(
        ("proof" in claim.evidence.values()) == bool(claim.proof),
        claim,
        "evidence 'proof' goes with the anchor of a proof",
    )
    need(claim.status != "open" or not claim.proof, claim, "status open has no proof")


def check_formal(claim: Claim) -> None:
    need(
        not claim.whole or claim.evidence[claim.part] == "proof",
        claim,
        "formal.covers = 'whole' goes with evidence 'proof'",
    )
    need(
        not (claim.formal and claim.not_formal),
        claim,
        "not_formal says why there is no formal proof, and here is one",
    )


def check_uses(claim: Claim, by_id: dict[str, Claim]) -> None:
    for used in claim.uses:
        need(used in by_id, claim, f"uses {used}, which does not exist")
        need(
            claim.status not in SOUND or by_id[used].status in SOUND,
            claim,
            f"is {claim.status} but uses {used}, which is {by_id[used].status}",
        )


def need(condition: object, claim: Claim, rule: str) -> None:
    if not condition:
        raise ValueError(f"claim {claim.id}: {rule}")


def order(claims: list[Claim]) -> list[str]:
    """Ids, each after all that it uses; CycleError if there is no such order."""
    return list(
        TopologicalSorter({claim.id: claim.uses for claim in claims}).static_order()
    )


# ---------------------------------------------------------------- what the tests say


def resolve(
    claims: list[Claim],
    verdicts: dict,
    now: Mapping[str, str] | None = None,
    held: Container[str] = (),
    failed: Mapping[str, str] | None = None,
    changed: Container[str] = (),
) -> dict[str, Resolution]:
    """What each claim shows. With `now`, the keys of the present code, verdicts of
    another key count for nothing. `held` are the ids whose formal proofs Coq has
    accepted as they stand (formal.held), `failed` the pages that did not run, and why,
    `changed` the ids whose boxes say something else than the evidence is for.
    """
    old = stale(verdicts, now) if now is not None else ()
    by_id, resolved = {claim.id: claim for claim in claims}, {}
    for name in order(claims):
        claim = by_id[name]
        tests = {} if name in old else verdicts.get("results", {}).get(name, {})
        reasons = [failed[claim.page]] if failed and claim.page in failed else []
        if name in changed:
            reasons.append("its box was changed, and nobody has accepted it since")
        if name in old:
            reasons.append("the tests have not run on the present code")
        else:
            reasons += missing(claim, tests)
        own = 0 if reasons else STRENGTH[claim.evidence[claim.part]]
        broken = any(
            outcome == "failed" for role in tests.values() for outcome in role.values()
        )
        if own and claim.whole and name in held:
            own = CHECKED
        elif own and claim.whole:
            reasons.append(f"{claim.formal['file']} was not checked as it stands")
        shown = min([own, *(carried(resolved[used]) for used in claim.uses)])
        reasons += [
            f"rests on {used}, which is {word(resolved[used])}"
            for used in claim.uses
            if carried(resolved[used]) < own
        ]
        part = claim.formal_sentences if own and name in held else ""
        resolved[name] = Resolution(own, shown, broken, tuple(reasons), tests, part)
    return {claim.id: resolved[claim.id] for claim in claims}


def carried(resolution: Resolution) -> int:
    """What a claim can hold up. A formal proof proves all that it uses, so a proof that
    is only written takes nothing from it.
    """
    return CHECKED if resolution.shown >= PROVED else resolution.shown


def changed(claims: list[Claim], texts: Mapping[str, str]) -> list[str]:
    """The ids of claims whose boxes are not those that their evidence is for."""
    return [c.id for c in claims if boxes.digest(texts.get(c.place)) != c.box]


def missing(claim: Claim, tests: dict) -> list[str]:
    """Why the tests do not carry the claim: a role without a test, a test that failed
    or did not run to its end.
    """
    reasons = [f"no {role} has run" for role in claim.roles if not tests.get(role)]
    for role, outcomes in tests.items():
        reasons += [
            f"{role} {outcome}: {nodeid}"
            for nodeid, outcome in outcomes.items()
            if outcome != "passed"
        ]
    return reasons


def not_formal(claim: Claim) -> str | None:
    """Why a claim has no formal proof; None if it has one, of a part at least."""
    if claim.formal:
        return None
    if claim.evidence[claim.part] == "sampled":
        return "measured"
    return claim.not_formal or "not yet"


def word(resolution: Resolution) -> str:
    return "broken" if resolution.broken else WORDS[resolution.shown]


def badges(claim: Claim, resolution: Resolution) -> list[Badge]:
    """The badges of a claim, in the order in which they are read."""
    name = word(resolution)
    text = BADGE_TEXT.get(name, name)
    if resolution.shown == CHECKED and not resolution.broken:
        text += claim.given
    strength = [Badge(name, text, badge_title(claim, resolution))]
    if resolution.sentences:
        text = f"machine-checked {resolution.sentences}{claim.given}"
        strength.append(
            Badge("machine-checked", text, f"{claim.id}: of its sentences, these")
        )
    if resolution.broken or not resolution.shown or claim.status == "true":
        return strength
    status = Badge(
        claim.status,
        BADGE_TEXT.get(claim.status, claim.status),
        f"{claim.id}: {STATUS_WORDS[claim.status]}",
    )
    return [status] if claim.status == "false" else [status, *strength]


def badge_title(claim: Claim, resolution: Resolution) -> str:
    """One sentence for whoever rests on a badge: what it says, or why it does not say
    more.
    """
    if resolution.reasons:
        more = len(resolution.reasons) - 2
        return f"{claim.id}: {'; '.join(resolution.reasons[:2])}" + (
            f"; and {more} more" if more > 0 else ""
        )
    *others, last = claim.roles
    roles = f"{', '.join(others)} and {last}"
    coq = ", and a proof that Coq accepts" if resolution.shown == CHECKED else ""
    return f"{claim.id}: {evidence_words(claim)}{coq}; {roles} passed"


def counts(
    claims: list[Claim], resolved: dict[str, Resolution]
) -> dict[str, dict[str, int]]:
    """How many claims there are, by what is shown and by the status in the registry."""
    found = Counter((word(resolved[claim.id]), claim.status) for claim in claims)
    return {
        shown: {status: found[shown, status] for status in STATUS_WORDS}
        for shown in (*reversed(WORDS), "broken")
    }


def by_chapter(
    claims: list[Claim], resolved: dict[str, Resolution]
) -> dict[str, dict[str, int]]:
    """chapter -> how many claims it has, by what is shown, and how many of the others
    are formalised in part.
    """
    return grouped(claims, resolved, lambda claim: claim.page.partition("/")[0])


def by_kind(
    claims: list[Claim], resolved: dict[str, Resolution]
) -> dict[str, dict[str, int]]:
    """The same for kinds of claims: identities, bounds and so on."""
    return grouped(claims, resolved, lambda claim: claim.kind)


def grouped(
    claims: list[Claim], resolved: dict[str, Resolution], group: Callable[[Claim], str]
) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for claim in claims:
        name = group(claim)
        row = found.setdefault(name, dict.fromkeys((*reversed(WORDS), "broken"), 0))
        row[word(resolved[claim.id])] += 1
        in_part = bool(claim.formal) and not claim.whole
        row["in part"] = row.get("in part", 0) + in_part
    return found


def stale(verdicts: dict, now: Mapping[str, str]) -> set[str]:
    """The claims whose tests have not run on the code with these keys."""
    then = verdicts.get("keys", {})
    return {name for name, key in now.items() if then.get(name) != key}


def tests_of(root: Path = ROOT) -> dict[str, set[Path]]:
    """The files of tests that speak for each claim: they name it in a mark, or they
    mark whatever a function stands for.
    """
    found = {name: set() for name in functions(root)}
    of_functions = set()
    for path in sorted((root / "tests").rglob("test_*.py")):
        for name in marked_in(path.read_text(encoding="utf-8")):
            (found.setdefault(name, set()) if name else of_functions).add(path)
    for name in functions(root):
        found[name] |= of_functions
    return found


@functools.cache
def marked_in(source: str) -> frozenset[str]:
    """The claims that tests in this text speak for; "" is any that has a function."""
    if "mark.claim(" not in source:
        return frozenset()
    return frozenset(
        node.args[0].value if isinstance(node.args[0], ast.Constant) else ""
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and node.args
        and ast.unparse(node.func).endswith("mark.claim")
    )


def keys(root: Path = ROOT) -> dict[str, str]:
    """Of each claim that is tested or coded, the hash of all that its verdict depends
    on: its tests, its function, and what these import.
    """
    code, coded = depends.Code(root), functions(root)
    shared, found = set((root / "tests").glob("conftest.py")), {}
    for name, files in tests_of(root).items():
        if name in coded:
            module = coded[name].split(".")[1]
            files = files | {root / THEOREMS / f"{module}.py"}
        found[name] = code.key(files | shared)
    return found


def read_verdicts(path: Path | str = ROOT / VERDICTS) -> dict:
    """The verdicts, or {} where there are none or where the file is not one."""
    try:
        verdicts = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return (
        verdicts
        if isinstance(verdicts, dict) and set(verdicts) == {"keys", "results"}
        else {}
    )


def write_verdicts(path: Path | str, keys: dict, results: dict) -> None:
    pages.write_atomically(
        path,
        json.dumps({"keys": keys, "results": results}, indent=1, sort_keys=True) + "\n",
    )


# ---------------------------------------------------------------- words for pages


def slug(name: str) -> str:
    """The citable anchor of a claim."""
    return "claim-" + name.replace(".", "-")


def of_page(claims: list[Claim], page: str) -> list[Claim]:
    return [claim for claim in claims if claim.page == page]


def evidence_words(claim: Claim) -> str:
    """The evidence in words, part by part."""
    label = (
        {"printed": "as printed: ", "repaired": "as repaired: "}
        if claim.status in ("repaired", "false")
        else {}
    )
    label |= {part: f"({part}): " for part in claim.evidence if len(part) == 1}
    return "; ".join(
        label.get(part, "") + EVIDENCE_WORDS[claim.evidence[part]]
        for part in sorted(claim.evidence, key=lambda part: (len(part) == 1, part))
    )


def page_table(claims: list[Claim], page: str) -> str:
    """Markdown table of the claims of a page; its first column links to the claim's
    box, its last names the function that runs it.
    """
    mine = of_page(claims, page)
    if not mine:
        return "This page has no claim of its own."
    coded = functions()
    can_run = any(claim.id in coded for claim in mine)
    titles = ["Claim", "Name", "Evidence"] + ["Run it"] * can_run
    lines = [titles, ["---"] * len(titles)]
    for claim in mine:
        link = f"[{claim.id}](#{slug(claim.id)})"
        line = [link, cell(claim.title), cell(evidence_words(claim))]
        if can_run:
            line.append(f"`{coded[claim.id]}`" if claim.id in coded else "")
        lines.append(line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def functions(root: Path = ROOT) -> dict[str, str]:
    """The function that stands for each claim: id -> theorems.<page>.<function>.

    Read from the source, so that nothing need be installed to ask.
    """
    found = {}
    for path in sorted((root / THEOREMS).glob("[!_]*.py")):
        for name, function in functions_in(path.read_text(encoding="utf-8")):
            found[name] = f"theorems.{path.stem}.{function}"
    return found


@functools.cache
def functions_in(source: str) -> list[tuple[str, str]]:
    """The claims of a module, each with the function that stands for it."""
    return [
        (ast.literal_eval(mark.args[0]), node.name)
        for node in ast.parse(source).body
        for mark in getattr(node, "decorator_list", [])
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "claim"
    ]


def cell(text: str) -> str:
    """Markdown for one cell of a table: on one line, and no bar that would end it."""
    return " ".join(text.split()).replace(r"\|", r"\Vert ").replace("|", r"\vert ")


def public(
    claims: list[Claim],
    resolved: dict[str, Resolution],
    *,
    texts: Mapping[str, str],
    site: str = "",
    version: str = "",
    held: Container[str] = (),
) -> dict:
    """What claims.json publishes; texts are those of the boxes."""
    entries = []
    verdicts = formal.read_verdicts()
    coded = functions()
    for claim in claims:
        found = resolved[claim.id]
        entries.append(
            {
                **{
                    name: value
                    for name, value in claim._asdict().items()
                    if value or name == "uses"
                },
                "statement": texts.get(claim.place, ""),
                "url": f"{site}notebooks/{claim.page}.html#{slug(claim.id)}",
                "shown": word(found),
                "reasons": list(found.reasons),
                "tests": found.tests,
                "function": coded.get(claim.id, ""),
            }
        )
        if claim.formal:
            entries[-1]["formal"] = public_formal(claim, verdicts, claim.id in held)
    return {"version": version, "counts": counts(claims, resolved), "claims": entries}


def public_formal(claim: Claim, verdicts: dict, checked: bool) -> dict:
    """What claims.json says of a formal proof; statements as Coq prints them, if it has
    checked them as they stand.
    """
    found = {"remark": "", **claim.formal, "checked": checked, "statements": {}}
    if checked:
        theorems = verdicts["files"][claim.formal["file"]]["theorems"]
        found["statements"] = {
            name: theorems[name]["statement"] for name in claim.formal["theorems"]
        }
        found["versions"] = verdicts["versions"]
    return found


# ---------------------------------------------------------------- the command


def now_resolved(root: Path = ROOT) -> tuple[list[Claim], dict[str, Resolution]]:
    """The claims, and what they show by all verdicts that are there, and by the pages
    that ran when the book was last built.
    """
    claims = load(root / REGISTRY)
    held = formal.held(claims, root / "proofs")
    verdicts = read_verdicts(root / VERDICTS)
    failed = page_cache.failures(root, (claim.page for claim in claims))
    other = changed(claims, boxes.read(root))
    return claims, resolve(claims, verdicts, keys(root), held, failed, other)


def refresh(
    root: Path = ROOT, *, force: bool = False, extra: tuple[str, ...] = ()
) -> int:
    """Run the tests of those claims whose verdicts are not of the present code; 1 if a
    claim is broken or no verdict came.
    """
    path = root / VERDICTS
    load(root / REGISTRY)  # a registry that is faulty is named before tests run
    tests, now = tests_of(root), keys(root)
    asked = set(now) if force else stale(read_verdicts(path), now)
    if files := sorted(set().union(*(tests[name] for name in asked))):
        command = [sys.executable, "-m", "pytest", "-q", "-m", "claim", *files]
        command += ["--verdicts", str(path), *([] if force else ["--stale"]), *extra]
        # threads would wait for one another; shapes are for `make test` to check
        quick = {"OMP_NUM_THREADS": "1", "ATTNLIB_SHAPES": "0"}
        subprocess.run(command, cwd=root, env=quick | os.environ, check=False)
    claims, resolved = now_resolved(root)
    broken = [name for name, found in resolved.items() if found.broken]
    left = stale(read_verdicts(path), keys(root))
    print(
        f"claims: {summary(claims, resolved)}"
        if not left
        else f"claims: no verdicts came of this run for {len(left)}"
    )
    for name in broken:
        print(f"claims: {name} is broken: {resolved[name].reasons[0]}")
    return int(bool(left or broken))


def release(root: Path = ROOT) -> int:
    """1 if any claim is unchecked or broken, or if the verdicts are of other code."""
    _, resolved = now_resolved(root)
    bad = [name for name, found in resolved.items() if found.broken or not found.shown]
    for name in bad:
        print(f"{name}: {word(resolved[name])}: {'; '.join(resolved[name].reasons)}")
    print(f"claims: {len(bad)} of {len(resolved)} stand in the way of a release")
    if not bad:
        write_released(sorted(resolved), root)
    return int(bool(bad))


def released(root: Path = ROOT) -> dict[str, list[str]]:
    """The ids of the claims of each version that went out, oldest first."""
    return tomllib.loads((root / RELEASED).read_text(encoding="utf-8"))


def write_released(names: list[str], root: Path) -> None:
    """Add the claims of this version to the list, if they are not there."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    version = project["project"]["version"]
    if version not in released(root):
        lines = "".join(f'  "{name}",\n' for name in names)
        text = (root / RELEASED).read_text(encoding="utf-8")
        pages.write_atomically(root / RELEASED, f'{text}"{version}" = [\n{lines}]\n')


def accept(names: list[str], root: Path = ROOT) -> int:
    """Write down that the boxes of these claims say what their evidence is for."""
    path, texts = root / REGISTRY, boxes.read(root)
    by_id = {claim.id: claim for claim in load(path)}
    text = path.read_text(encoding="utf-8")
    for name in names:
        if name not in by_id or by_id[name].place not in texts:
            raise ValueError(f"there is no box of a claim {name}")
        digest = boxes.digest(texts[by_id[name].place])
        entry = re.compile(
            rf'\nid = "{re.escape(name)}"\n(.*?)(?=\n\n\[\[claim|\Z)', re.S
        )
        old = entry.search(text)[1]
        new = _with_box(old, digest)
        print(f"{name}: {'it was accepted' if new == old else 'accepted'}")
        text = text.replace(old, new, 1)
    pages.write_atomically(path, text)
    return 0


def _with_box(entry: str, digest: str) -> str:
    """The lines of an entry, with the digest of its box after those of its place."""
    lines = [line for line in entry.splitlines() if not line.startswith("box = ")]
    after = next(n for n, line in enumerate(lines) if line.startswith("anchor = "))
    return "\n".join([*lines[: after + 1], f'box = "{digest}"', *lines[after + 1 :]])


def show(root: Path = ROOT, names: Container[str] = ()) -> int:
    claims, resolved = now_resolved(root)
    coded = functions(root)
    for claim in claims:
        if names and claim.id not in names:
            continue
        found = resolved[claim.id]
        shown = ", ".join(badge.text for badge in badges(claim, found))
        reasons = "; ".join(found.reasons)
        function = coded.get(claim.id, "")
        line = f"{claim.id:32} {claim.status:9} {shown:20} {function:36} {reasons}"
        print(line.rstrip())
    print(f"claims: {summary(claims, resolved)}")
    known = ", ".join(f"{number} {how}" for how, number in sources(claims).items())
    print(f"sources: {known}")
    return 0


def sources(claims: list[Claim]) -> dict[str, int]:
    """How many claims have a source that was seen, restated, recalled, or none."""
    found = Counter(claim.source["seen"] for claim in claims)
    return {how: found[how] for how in SEEN}


def summary(claims: list[Claim], resolved: dict[str, Resolution]) -> str:
    shown = {name: sum(row.values()) for name, row in counts(claims, resolved).items()}
    return ", ".join(
        [
            f"{len(claims)} in all",
            *(f"{number} {name}" for name, number in shown.items() if number),
        ]
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="The claims of the book and what the tests say about them."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    again = commands.add_parser(
        "refresh", help="run the tests of claims whose code has changed since"
    )
    again.add_argument("--force", action="store_true", help="run all of them")
    shown = commands.add_parser("show", help="what claims show, and why not more")
    shown.add_argument("claim", nargs="*", help="an id; all if none is named")
    looked = commands.add_parser("accept", help="a box says what its evidence is for")
    looked.add_argument("claim", nargs="+", help="its id")
    commands.add_parser("release", help="fail if anything is unchecked")
    options, extra = parser.parse_known_args(argv)
    if extra and options.command != "refresh":
        parser.error(f"unknown: {' '.join(extra)}")
    try:
        if options.command == "refresh":
            return refresh(force=options.force, extra=tuple(extra))
        if options.command == "accept":
            return accept(options.claim)
        if options.command == "show":
            return show(names=options.claim)
        return release()
    except (OSError, ValueError) as error:
        print(f"claims: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
