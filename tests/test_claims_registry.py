"""The registry of claims and `resolve`, tested by breaking them: each test breaks one
thing and names what follows.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import boxes
import claims
import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[1]

# --- a sample registry

SAMPLE = """
[[claim]]
id = "sample.base"
page = "chapter/one"
anchor = "theorem-1.1"
title = "Base"
source = { work = "someone2020", version = "v1", number = "Theorem 1", seen = "seen" }
kind = "identity"
status = "true"
evidence = { printed = "proof" }
proof = "proof-1.1"
uses = []
since = "0.1.0"

[[claim]]
id = "sample.instances"
page = "chapter/one"
anchor = "theorem-1.2"
title = "Instances"
source = { seen = "derived" }
kind = "existence"
status = "true"
evidence = { statement = "certified" }
uses = ["sample.base"]
since = "0.1.0"

[[claim]]
id = "sample.bound"
page = "chapter/two"
anchor = "theorem-2.1"
title = "Bound"
source = { work = "someone2020", seen = "seen" }
as_printed = "It is at most half of that."
as_repaired = "It is at most so much."
kind = "upper"
status = "repaired"
evidence = { printed = "counterexample", repaired = "proof" }
proof = "proof-2.1"
uses = ["sample.base"]
since = "0.1.0"
[claim.erratum]
counterexample = "Take two."
at = "example-2.2"
survives = "The order of growth."

[[claim]]
id = "sample.wrong"
page = "chapter/two"
anchor = "theorem-2.3"
title = "Wrong"
source = { work = "someone2020", seen = "seen" }
as_printed = "It is always so."
kind = "tight"
status = "false"
evidence = { printed = "counterexample" }
uses = []
since = "0.1.0"
[claim.erratum]
counterexample = "Take three."
at = "example-2.4"
survives = "It is often so."

[[claim]]
id = "sample.guess"
page = "chapter/two"
anchor = "theorem-2.5"
title = "Guess"
source = { work = "someone2020", seen = "recalled" }
kind = "lower"
status = "open"
evidence = { statement = "sampled" }
uses = ["sample.wrong"]
since = "0.1.0"
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "claims.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def registry(write):
    return claims.load(write(SAMPLE))


def verdicts_of(registry) -> dict:
    """Verdicts in which every test that is needed has passed."""
    results = {
        c.id: {role: {f"tests/test_{role}.py::test": "passed"} for role in c.roles}
        for c in registry
    }
    return {"keys": dict.fromkeys(results, "now"), "results": results}


@pytest.fixture
def verdicts(registry):
    return verdicts_of(registry)


OTHER = dict.fromkeys(re.findall(r'^id = "(.*)"', SAMPLE, re.M), "other code")


def words(registry, verdicts, now=None) -> dict[str, str]:
    return {
        name: claims.word(found)
        for name, found in claims.resolve(registry, verdicts, now).items()
    }


# --- the registry refuses what makes no sense

BREAKS = {
    "two ids": (
        'id = "sample.instances"',
        'id = "sample.base"',
        "sample.base: id claim-sample-base is taken twice",
    ),
    "two anchors": (
        'anchor = "theorem-1.2"',
        'anchor = "theorem-1.1"',
        "anchor chapter/one#theorem-1.1 is taken twice",
    ),
    "printed but recalled": (
        'seen = "recalled" }',
        'seen = "recalled" }\nas_printed = "So."',
        "sample.guess: as_printed is refused",
    ),
    "restated by nobody": (
        'seen = "recalled" }',
        'seen = "restated" }',
        "sample.guess: .*says through whom",
    ),
    "also, of what was not seen": (
        'seen = "recalled" }',
        'seen = "recalled", also = { work = "another2021", number = "(1)" } }',
        "sample.guess: also names a second print",
    ),
    "evidence for what was not seen": (
        'evidence = { statement = "certified" }',
        'evidence = { printed = "certified" }',
        "sample.instances: evidence.printed is refused",
    ),
    "no work": (
        'source = { work = "someone2020", seen = "recalled" }',
        'source = { seen = "recalled" }',
        "sample.guess: .*names its work",
    ),
    "proof without anchor": (
        'proof = "proof-1.1"\n',
        "",
        "sample.base: evidence 'proof' goes with the anchor",
    ),
    "repaired, nothing printed": (
        'as_printed = "It is at most half of that."\n',
        "",
        "sample.bound: status repaired needs as_printed",
    ),
    "repaired, no repair": (
        'as_repaired = "It is at most so much."\n',
        "",
        "sample.bound: as_repaired goes with",
    ),
    "repaired, repair without evidence": (
        '{ printed = "counterexample", repaired = "proof" }\nproof = "proof-2.1"',
        '{ printed = "counterexample" }',
        "sample.bound: evidence.repaired goes with",
    ),
    "false by samples": (
        'evidence = { printed = "counterexample" }',
        'evidence = { printed = "sampled" }',
        "sample.wrong: status false needs evidence.printed = 'counterexample'",
    ),
    "false, no erratum": (
        '[claim.erratum]\ncounterexample = "Take three."\nat = "example-2.4"\n'
        'survives = "It is often so."\n',
        "",
        "sample.wrong: status false needs an erratum",
    ),
    "true with a counterexample": (
        'evidence = { printed = "proof" }\nproof = "proof-1.1"',
        'evidence = { printed = "counterexample" }',
        "sample.base: status true has no counterexample",
    ),
    "open with a proof": (
        'evidence = { statement = "sampled" }',
        'evidence = { statement = "proof" }\nproof = "proof-2.5"',
        "sample.guess: status open has no proof",
    ),
    "two parts": (
        'evidence = { printed = "proof" }',
        'evidence = { printed = "proof", statement = "proof" }',
        "sample.base: evidence is for",
    ),
    "unknown use": (
        'uses = ["sample.wrong"]',
        'uses = ["sample.nowhere"]',
        "sample.guess: uses sample.nowhere, which does not exist",
    ),
    "true on false": (
        'uses = ["sample.base"]\nsince = "0.1.0"\n\n',
        'uses = ["sample.wrong"]\nsince = "0.1.0"\n\n',
        "sample.instances: is true but uses sample.wrong, which is false",
    ),
    "repaired on open": (
        'uses = ["sample.base"]\nsince = "0.1.0"\n[claim',
        'uses = ["sample.guess"]\nsince = "0.1.0"\n[claim',
        "sample.bound: is repaired but uses sample.guess, which is open",
    ),
    "cycle": (
        'proof = "proof-1.1"\nuses = []',
        'proof = "proof-1.1"\nuses = ["sample.instances"]',
        "uses runs in a cycle: .*sample.base.*sample.instances",
    ),
    "formal, whole, not proved": (
        'since = "0.1.0"\n\n[[claim]]\nid = "sample.bound"',
        'since = "0.1.0"\n[claim.formal]\nfile = "a.v"\ntheorems = ["a"]\n'
        'covers = "whole"\n[[claim]]\nid = "sample.bound"',
        "sample.instances: formal.covers = 'whole' goes with evidence 'proof'",
    ),
    "formal, and a reason why not": (
        'since = "0.1.0"\n\n[[claim]]\nid = "sample.bound"',
        'since = "0.1.0"\nnot_formal = "analysis"\n[claim.formal]\nfile = "a.v"\n'
        'theorems = ["a"]\ncovers = "half"\n[[claim]]\nid = "sample.bound"',
        "sample.instances: not_formal says why",
    ),
    "formal without theorems": (
        'since = "0.1.0"\n\n[[claim]]\nid = "sample.bound"',
        'since = "0.1.0"\n[claim.formal]\nfile = "a.v"\ntheorems = []\n'
        'covers = "half"\n[[claim]]\nid = "sample.bound"',
        "sample.instances: formal.theorems",
    ),
    "formal, TeX in words": (
        'since = "0.1.0"\n\n[[claim]]\nid = "sample.bound"',
        'since = "0.1.0"\n[claim.formal]\nfile = "a.v"\ntheorems = ["a"]\n'
        'covers = "only $x$"\n[[claim]]\nid = "sample.bound"',
        "sample.instances: formal.covers",
    ),
    "unknown field": (
        'title = "Guess"',
        'title = "Guess"\ntilte = "Guess"',
        "sample.guess: entry: .*'tilte' was unexpected",
    ),
    "missing field": (
        'title = "Guess"\n',
        "",
        "sample.guess: entry: 'title' is a required property",
    ),
    "bad id": ('id = "sample.guess"', 'id = "Guess"', "claim Guess: id"),
    "no id": (
        'id = "sample.guess"\n',
        "",
        "claim number 5: entry: 'id' is a required property",
    ),
    "not a table": ("[[claim]]", "[[clam]]", "registry of claims: .*clam"),
}


def test_the_sample_is_valid(registry):
    assert [claim.id for claim in registry] == [
        "sample.base",
        "sample.instances",
        "sample.bound",
        "sample.wrong",
        "sample.guess",
    ]


@pytest.mark.parametrize("name", list(BREAKS))
def test_load_names_the_claim_and_the_broken_rule(name, write):
    old, new, rule = BREAKS[name]
    assert old in SAMPLE
    with pytest.raises(ValueError, match=rule):
        claims.load(write(SAMPLE.replace(old, new, 1)))


def test_ids_that_share_an_anchor_are_refused(write):
    text = SAMPLE.replace('id = "sample.wrong"', 'id = "sample.gu.ess"').replace(
        "sample.wrong", "sample.gu.ess"
    )
    with pytest.raises(ValueError, match="claim-sample-gu-ess is taken twice"):
        claims.load(write(text.replace('id = "sample.guess"', 'id = "sample.gu-ess"')))


def test_the_registry_of_the_book_is_valid():
    registry = claims.load()
    assert registry
    assert all(
        (ROOT / "notebooks" / f"{claim.page}.ipynb").is_file() for claim in registry
    )


def test_works_named_in_the_registry_stand_in_the_bibliography():
    known = set(
        re.findall(
            r"^@\w+\{([^,\s]+),",
            (ROOT / "book/references.bib").read_text(encoding="utf-8"),
            re.M,
        )
    )
    named = {claim.source["work"] for claim in claims.load() if "work" in claim.source}
    assert named <= known, named - known


# --- resolve, unbroken and broken


def test_all_tests_passed(registry, verdicts):
    assert words(registry, verdicts) == {
        "sample.base": "proved",
        "sample.instances": "certified",
        "sample.bound": "proved",
        "sample.wrong": "certified",
        "sample.guess": "sampled",
    }
    assert not any(
        found.reasons for found in claims.resolve(registry, verdicts).values()
    )


def test_badges_say_it_in_words(registry, verdicts):
    resolved = claims.resolve(registry, verdicts)
    said = {
        claim.id: [badge.text for badge in claims.badges(claim, resolved[claim.id])]
        for claim in registry
    }
    assert said == {
        "sample.base": ["proved"],
        "sample.instances": ["certified"],
        "sample.bound": ["repaired", "proved"],
        "sample.wrong": ["false as printed"],
        "sample.guess": ["open", "sampled"],
    }
    kinds = {
        badge.kind
        for claim in registry
        for badge in claims.badges(claim, resolved[claim.id])
    }
    assert kinds == {"proved", "certified", "repaired", "false", "open", "sampled"}


@pytest.mark.parametrize("role", ["check", "control"])
def test_a_missing_role_leaves_the_claim_and_what_rests_on_it_unchecked(
    registry, verdicts, role
):
    del verdicts["results"]["sample.base"][role]
    assert words(registry, verdicts) == {
        "sample.base": "unchecked",
        "sample.instances": "unchecked",
        "sample.bound": "unchecked",
        "sample.wrong": "certified",
        "sample.guess": "sampled",
    }
    resolved = claims.resolve(registry, verdicts)
    assert resolved["sample.base"].reasons == (f"no {role} has run",)
    assert resolved["sample.instances"].reasons == (
        "rests on sample.base, which is unchecked",
    )
    assert resolved["sample.instances"].own == 2


@pytest.mark.parametrize(
    "claim, role",
    [
        ("sample.instances", "certificate"),
        ("sample.bound", "counterexample"),
        ("sample.wrong", "counterexample"),
    ],
)
def test_a_missing_certificate_or_counterexample_leaves_the_claim_unchecked(
    registry, verdicts, claim, role
):
    del verdicts["results"][claim][role]
    resolved = claims.resolve(registry, verdicts)
    assert claims.word(resolved[claim]) == "unchecked"
    assert resolved[claim].reasons == (f"no {role} has run",)


@pytest.mark.parametrize("role", ["check", "control", "counterexample", "certificate"])
def test_a_failed_test_breaks_the_claim(registry, verdicts, role):
    verdicts["results"]["sample.instances"][role] = {"one": "passed", "two": "failed"}
    found = claims.resolve(registry, verdicts)["sample.instances"]
    assert found.broken and found.own == found.shown == 0
    assert found.reasons == (f"{role} failed: two",)
    (badge,) = claims.badges(registry[1], found)
    assert badge.text == "check failed" and "two" in badge.title


def test_what_rests_on_a_broken_claim_is_unchecked_not_broken(registry, verdicts):
    verdicts["results"]["sample.base"]["check"] = {"one": "failed"}
    shown = words(registry, verdicts)
    assert (shown["sample.base"], shown["sample.instances"], shown["sample.bound"]) == (
        "broken",
        "unchecked",
        "unchecked",
    )
    assert claims.resolve(registry, verdicts)["sample.bound"].reasons == (
        "rests on sample.base, which is broken",
    )


@pytest.mark.parametrize("outcome", ["skipped", "xfailed", "xpassed"])
def test_a_test_that_did_not_pass_plainly_counts_as_not_run(
    registry, verdicts, outcome
):
    verdicts["results"]["sample.base"]["control"] = {"one": "passed", "two": outcome}
    found = claims.resolve(registry, verdicts)["sample.base"]
    assert claims.word(found) == "unchecked" and found.reasons == (
        f"control {outcome}: two",
    )


def test_a_role_without_any_test_in_it_counts_as_missing(registry, verdicts):
    verdicts["results"]["sample.base"]["control"] = {}
    assert claims.resolve(registry, verdicts)["sample.base"].reasons == (
        "no control has run",
    )


def test_verdicts_of_other_code_count_for_nothing(registry, verdicts):
    resolved = claims.resolve(registry, verdicts, OTHER)
    assert {claims.word(found) for found in resolved.values()} == {"unchecked"}
    assert not any(found.tests for found in resolved.values())
    assert [
        badge.text
        for claim in registry
        for badge in claims.badges(claim, resolved[claim.id])
    ] == ["unchecked"] * 5


def test_failures_of_other_code_break_nothing(registry, verdicts):
    verdicts["results"]["sample.base"]["check"] = {"one": "failed"}
    assert words(registry, verdicts, OTHER)["sample.base"] == "unchecked"


def test_only_the_claim_whose_code_changed_loses_its_verdict(registry, verdicts):
    now = verdicts["keys"] | {"sample.guess": "other code"}
    before, after = words(registry, verdicts), words(registry, verdicts, now)
    assert after == before | {"sample.guess": "unchecked"} != before


def test_claims_of_a_page_that_did_not_run_are_unchecked_and_say_why(
    registry, verdicts
):
    page = registry[0].page
    failed = {page: "its page did not run here: cell 'bad' failed: KeyError: 1"}
    found = claims.resolve(registry, verdicts, failed=failed)
    for claim in registry:
        mine = claim.page == page
        assert (failed[page] in found[claim.id].reasons) == mine
        assert not mine or claims.word(found[claim.id]) == "unchecked"
    assert "KeyError" in claims.badges(registry[0], found[registry[0].id])[0].title


def test_a_claim_whose_box_was_changed_is_unchecked_and_says_so(registry, verdicts):
    found = claims.resolve(registry, verdicts, changed=["sample.base"])
    assert found["sample.base"].reasons[0].startswith("its box was changed")
    assert claims.word(found["sample.base"]) == "unchecked"
    assert claims.word(found["sample.bound"]) == "unchecked"  # it rests on the other


def test_a_badge_names_the_sentences_that_coq_has_checked(registry, verdicts):
    base = registry[0]._replace(formal={"file": "a.v", "covers": "(a), (c)"})
    others = registry[1:]
    for held, more in ((), []), (("sample.base",), ["machine-checked (a), (c)"]):
        found = claims.resolve([base, *others], verdicts, held=held)["sample.base"]
        assert [b.text for b in claims.badges(base, found)] == ["proved", *more]
    for covers in ("(a) and more", "the first half"):
        vague = base._replace(formal={"file": "a.v", "covers": covers})
        found = claims.resolve([vague, *others], verdicts, held=held)["sample.base"]
        assert [b.text for b in claims.badges(vague, found)] == ["proved"]


def test_a_badge_says_what_its_formal_proof_takes_as_given(registry, verdicts):
    for covers, text in (("whole", ""), ("(a)", " (a)")):
        for taken, more in (({}, ""), ({"given": "an SVD"}, " given an SVD")):
            part = {"file": "a.v", "covers": covers} | taken
            base = registry[0]._replace(formal=part)
            all_claims, held = [base, *registry[1:]], {"sample.base"}
            found = claims.resolve(all_claims, verdicts, held=held)["sample.base"]
            shown = [b.text for b in claims.badges(base, found)]
            assert shown[-1] == f"machine-checked{text}{more}"
            found = claims.resolve(all_claims, verdicts)["sample.base"]
            assert [b.text for b in claims.badges(base, found)] == ["proved"]


def test_evidence_is_told_sentence_by_sentence(registry):
    base = registry[0]._replace(evidence={"statement": "proof", "c": "sampled"})
    said = "proof on the page; (c): sampled, not proved"
    assert claims.evidence_words(base) == said


def test_since_names_the_first_version_that_had_the_claim():
    listed = claims.released()
    for claim in claims.load():
        first = next((v for v, names in listed.items() if claim.id in names), None)
        assert claim.since == first or (first is None and claim.since not in listed), (
            f"{claim.id} says since {claim.since}, and the first that had it is {first}"
        )


# --- the boxes


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return boxes.read(ROOT)


def test_each_box_says_what_its_evidence_is_for(texts):
    """It was changed? Then look whether proof, check and formal part still are of what
    it says, mend them, and accept it: python book/_tools/claims.py accept ID.
    """
    registry = claims.load()
    assert claims.changed(registry, texts) == []
    for claim in registry:
        marks = set(boxes.SENTENCE.findall(texts[claim.place]))
        named = re.findall(r"\(([a-z])\)", claim.formal_sentences)
        named += [part for part in claim.evidence if len(part) == 1]
        assert set(named) <= marks, f"{claim.id}: its box marks {sorted(marks)}"


SLIPS = {  # an exponent, a hypothesis, a quantifier
    "paths.lengths": ("H^k", "H^{k+1}"),
    "jl.root": ("neither of them zero, ", ""),
    "universal.network": ("For every", "For some"),
}


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_in_a_box_is_noticed(texts, name):
    """The claim of the box, and no other."""
    old, new = SLIPS[name]
    registry = claims.load()
    [claim] = [c for c in registry if c.id == name]
    said = texts[claim.place]
    assert old in said
    slipped = texts | {claim.place: said.replace(old, new, 1)}
    before = claims.changed(registry, texts)
    assert set(claims.changed(registry, slipped)) == {name, *before}


def test_line_breaks_and_numbers_of_equations_may_change():
    [(anchor, text)] = boxes.of_text(
        "> **Theorem 1.2 (Name).** All $x$\n> are\n>\n> $$x. \\tag{1.3}$$\n\nNo more.\n"
    )
    assert anchor == "theorem-1.2" and text == "All $x$\nare\n\n$$x. \\tag{1.3}$$"
    assert boxes.digest(text) == boxes.digest("All $x$ are\n\n$$x. \\tag{2.7}$$")
    assert boxes.digest(text) != boxes.digest("All $y$ are\n\n$$x. \\tag{1.3}$$")
    assert boxes.of_text("> **Note.** Not a box of a claim.") == []


def test_links_of_a_box_lead_to_its_page_from_elsewhere():
    text = "[1](#eq-1.2), [2](other.ipynb#lemma-2), [3](../b/c.ipynb#d), [4](d.ipynb)"
    assert boxes.elsewhere(text, "a/page") == (
        "[1](/notebooks/a/page.ipynb#eq-1.2), "
        "[2](/notebooks/a/other.ipynb#lemma-2), "
        "[3](/notebooks/b/c.ipynb#d), [4](/notebooks/a/d.ipynb)"
    )


def test_accepting_a_box_changes_one_line(tmp_path, registry):
    path = tmp_path / "notebooks" / "chapter" / "one.ipynb"
    path.parent.mkdir(parents=True)
    words = "> **Theorem 1.1 (Base).** All is well."
    cell = {"cell_type": "markdown", "source": [words]}
    path.write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    (tmp_path / "book").mkdir()
    listed = tmp_path / claims.REGISTRY
    listed.write_text(SAMPLE, encoding="utf-8")
    assert claims.changed(registry, boxes.read(tmp_path)) == ["sample.base"]
    for _ in range(2):  # the second time it is there already
        claims.accept(["sample.base"], tmp_path)
        text = listed.read_text(encoding="utf-8")
        more = set(text.splitlines()) - set(SAMPLE.splitlines())
        assert more == {f'box = "{boxes.digest("All is well.")}"'}
        assert len(text.splitlines()) == len(SAMPLE.splitlines()) + 1
    assert claims.changed(claims.load(listed), boxes.read(tmp_path)) == []
    with pytest.raises(ValueError, match="no box of a claim sample.bound"):
        claims.accept(["sample.bound"], tmp_path)


def test_without_verdicts_all_is_unchecked(registry):
    assert set(words(registry, {}).values()) == {"unchecked"}


def test_a_proof_that_rests_on_samples_shows_as_sampled(registry):
    base = registry[0]._replace(evidence={"printed": "sampled"}, proof="")
    changed = [base, *registry[1:]]
    resolved = claims.resolve(changed, verdicts_of(changed))
    assert (resolved["sample.bound"].own, claims.word(resolved["sample.bound"])) == (
        3,
        "sampled",
    )
    assert resolved["sample.bound"].reasons == (
        "rests on sample.base, which is sampled",
    )


def test_a_repaired_claim_stands_on_the_evidence_for_its_repair(registry):
    changed = [
        registry[0],
        registry[2]._replace(
            evidence={"printed": "counterexample", "repaired": "sampled"}, proof=""
        ),
    ]
    assert words(changed, verdicts_of(changed))["sample.bound"] == "sampled"


WHOLE = {"file": "sample.v", "theorems": ["sample"], "covers": "whole"}


def test_a_whole_formal_proof_that_coq_accepted_is_shown(registry, verdicts):
    base = registry[0]._replace(formal=WHOLE)
    changed = [base, *registry[1:]]
    unheld = claims.resolve(changed, verdicts)["sample.base"]
    assert claims.word(unheld) == "proved"
    assert unheld.reasons == ("sample.v was not checked as it stands",)
    held = claims.resolve(changed, verdicts, held={"sample.base"})
    assert claims.word(held["sample.base"]) == "machine-checked"
    assert held["sample.base"].reasons == ()
    assert claims.word(held["sample.bound"]) == "proved"  # by its own proof
    (badge,) = claims.badges(base, held["sample.base"])
    assert badge.text == "machine-checked" and "Coq accepts" in badge.title


def test_a_formal_proof_of_a_part_stays_proved(registry, verdicts):
    base = registry[0]._replace(formal=WHOLE | {"covers": "for n = 2"})
    found = claims.resolve([base], verdicts, held={"sample.base"})["sample.base"]
    assert (claims.word(found), found.reasons) == ("proved", ())


def test_a_formal_proof_may_use_what_is_only_proved_but_nothing_less(
    registry, verdicts
):
    bound = registry[2]._replace(formal=WHOLE)
    changed = [registry[0], bound]
    found = claims.resolve(changed, verdicts, held={bound.id})[bound.id]
    assert (claims.word(found), found.reasons) == ("machine-checked", ())
    sampled = registry[0]._replace(evidence={"printed": "sampled"}, proof="")
    changed = [sampled, bound]
    found = claims.resolve(changed, verdicts_of(changed), held={bound.id})[bound.id]
    assert claims.word(found) == "sampled"
    assert found.reasons == ("rests on sample.base, which is sampled",)


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_a_formal_proof_does_not_hide_a_test(registry, verdicts, outcome):
    base = registry[0]._replace(formal=WHOLE)
    verdicts["results"]["sample.base"]["check"] = {"one": outcome}
    found = claims.resolve([base], verdicts, held={"sample.base"})["sample.base"]
    assert found.shown == 0 and found.broken == (outcome == "failed")


# --- resolve, on any registry

OUTCOMES = st.sampled_from(["passed", "passed", "passed", "failed", "skipped"])
VALUES = st.sampled_from(["proof", "certified", "sampled"])


@st.composite
def situations(draw):
    """Some claims, each using earlier ones, with verdicts of which any part may be
    missing or bad.
    """
    made, results = [], {}
    for number in range(draw(st.integers(1, 7))):
        value = draw(VALUES)
        made.append(
            claims.Claim(
                id=f"any.c{number}",
                page="p",
                anchor=f"theorem-{number}",
                title="t",
                source={"seen": "derived"},
                kind="identity",
                status="true",
                evidence={"statement": value},
                since="0.1.0",
                proof="proof" if value == "proof" else "",
                uses=[
                    f"any.c{earlier}"
                    for earlier in range(number)
                    if draw(st.booleans())
                ],
            )
        )
        roles = draw(st.sets(st.sampled_from(claims.ROLES), min_size=2))
        full = draw(st.booleans())
        results[f"any.c{number}"] = {
            role: {"tests::one": "passed" if full else draw(OUTCOMES)}
            for role in (claims.ROLES if full else sorted(roles))
        }
    return made, {"keys": dict.fromkeys(results, "now"), "results": results}


@given(situations())
def test_nothing_shows_more_than_its_own_evidence_or_than_what_it_uses(situation):
    made, verdicts = situation
    resolved = claims.resolve(made, verdicts)
    for claim in made:
        found = resolved[claim.id]
        assert found.shown <= found.own <= claims.STRENGTH[claim.evidence["statement"]]
        assert all(found.shown <= resolved[used].shown for used in claim.uses)
        assert found.shown == min(
            [found.own, *(resolved[used].shown for used in claim.uses)]
        )
        assert bool(found.reasons) == (
            found.shown < claims.STRENGTH[claim.evidence["statement"]]
        )


@given(situations(), st.randoms(use_true_random=False))
def test_the_order_of_the_registry_does_not_matter(situation, random):
    made, verdicts = situation
    mixed = random.sample(made, len(made))
    assert claims.resolve(mixed, verdicts) == claims.resolve(made, verdicts)


@given(situations(), st.data())
def test_losing_a_test_never_makes_anything_look_better(situation, data):
    made, verdicts = situation
    worse = copy.deepcopy(verdicts)
    name = data.draw(st.sampled_from(sorted(worse["results"])))
    role = data.draw(st.sampled_from(sorted(worse["results"][name])))
    if data.draw(st.booleans()):
        worse["results"][name][role]["tests::one"] = "failed"
    else:
        del worse["results"][name][role]
    before, after = (
        claims.resolve(made, verdicts),
        claims.resolve(made, worse),
    )
    assert all(after[claim.id].shown <= before[claim.id].shown for claim in made)


# --- what is published


def test_counts_add_up(registry, verdicts):
    verdicts["results"]["sample.guess"]["check"] = {"one": "failed"}
    grid = claims.counts(registry, claims.resolve(registry, verdicts))
    assert {shown: sum(row.values()) for shown, row in grid.items()} == {
        "machine-checked": 0,
        "proved": 2,
        "certified": 2,
        "sampled": 0,
        "unchecked": 0,
        "broken": 1,
    }
    assert {
        status: sum(row[status] for row in grid.values()) for status in grid["proved"]
    } == {
        "true": 2,
        "repaired": 1,
        "false": 1,
        "open": 1,
    }


def test_chapters_add_up(registry, verdicts):
    base = registry[0]._replace(formal=WHOLE)
    bound = registry[2]._replace(formal=WHOLE | {"covers": "half"}, page="other/page")
    changed = [base, registry[1], bound, *registry[3:]]
    resolved = claims.resolve(changed, verdicts, held={base.id, bound.id})
    rows = claims.by_chapter(changed, resolved)
    zeros = dict.fromkeys(("machine-checked", "proved", "sampled", "unchecked"), 0)
    assert rows == {
        "chapter": zeros
        | {"machine-checked": 1, "certified": 2, "sampled": 1, "broken": 0}
        | {"in part": 0},
        "other": zeros | {"proved": 1, "certified": 0, "broken": 0, "in part": 1},
    }
    kinds = claims.by_kind(changed, resolved)
    assert {
        kind: sum(row.values()) - row["in part"] for kind, row in kinds.items()
    } == {
        kind: sum(c.kind == kind for c in changed) for kind in {c.kind for c in changed}
    }
    assert kinds.keys() <= claims.KINDS.keys()


def test_each_claim_without_a_formal_proof_has_a_reason(registry):
    assert claims.not_formal(registry[0]) == "not yet"
    assert claims.not_formal(registry[4]) == "measured"
    assert claims.not_formal(registry[0]._replace(formal=WHOLE)) is None
    assert claims.not_formal(registry[0]._replace(not_formal="analysis")) == "analysis"
    for claim in claims.load():
        assert claims.not_formal(claim) in {None, *claims.NOT_FORMAL}


def test_public_claims_say_what_the_page_says(registry, verdicts):
    resolved = claims.resolve(registry, verdicts)
    made = json.loads(
        json.dumps(
            claims.public(
                registry,
                resolved,
                texts={"chapter/two#theorem-2.1": "It is *so*."},
                site="https://somewhere/",
                version="1.2.3",
            )
        )
    )
    assert made["version"] == "1.2.3" and len(made["claims"]) == 5
    bound = next(entry for entry in made["claims"] if entry["id"] == "sample.bound")
    assert (
        bound["url"]
        == "https://somewhere/notebooks/chapter/two.html#claim-sample-bound"
    )
    assert (bound["status"], bound["shown"], bound["uses"]) == (
        "repaired",
        "proved",
        ["sample.base"],
    )
    assert bound["statement"] == "It is *so*."
    assert bound["tests"] == verdicts["results"]["sample.bound"]
    assert bound["erratum"]["survives"] == "The order of growth."


def test_the_table_of_a_page_links_to_its_boxes(registry):
    table = claims.page_table(
        [
            *registry,
            registry[0]._replace(
                id="sample.norm", title="Here $|x| \\le \\|y\\|$,\nalways."
            ),
        ],
        "chapter/one",
    )
    rows = table.splitlines()
    assert rows[2] == "| [sample.base](#claim-sample-base) | Base | proof on the page |"
    assert len(rows) == 5 and all(row.count("|") == 4 for row in rows)
    assert "sample.bound" not in table
    assert "no" in claims.page_table(
        registry, "chapter/three"
    ).lower() and "|" not in claims.page_table(registry, "chapter/three")


# --- the tests that speak for the claims of the book

MARK = re.compile(r'^@pytest\.mark\.claim\(\s*"([^"]+)",\s*role="(\w+)"', re.M)


def complaints(registry, coded, marked) -> list[str]:
    """What is wrong, a line each. Each claim has a function among the theorems, with
    check and control; what else its evidence needs is a marked test, (id, role).
    """
    known = {claim.id for claim in registry}
    found = [f"{name} is not in the registry" for name in coded if name not in known]
    found += [
        f"{claim.id} has no function" for claim in registry if claim.id not in coded
    ]
    for name, role in marked:
        if name not in known:
            found.append(f"{name}, of a marked test, is not in the registry")
        if role in ("check", "control"):
            found.append(f"{name}: its {role} stands among the theorems")
    for claim in registry:
        for role in claim.roles[2:]:
            if (claim.id, role) not in marked:
                found.append(f"{claim.id} has no {role}")
    return found


def test_every_claim_of_the_book_has_its_tests_and_every_test_its_claim():
    files = set(ROOT.glob("tests/test_claims_*.py"))
    files -= {
        ROOT / f"tests/test_claims_{name}.py" for name in ("registry", "verdicts")
    }
    marked = {mark for p in files for mark in MARK.findall(p.read_text("utf-8"))}
    assert len(marked) > 20
    assert complaints(claims.load(), claims.functions(), marked) == []


def test_the_functions_read_from_the_source_are_those_that_run():
    from attnbook.theorems import THEOREMS

    named = {}
    for name, theorem in THEOREMS.items():
        function = theorem.function
        room = function.__module__.removeprefix("attnbook.")
        named[name] = f"{room}.{function.__name__}"
    assert claims.functions() == named


def test_what_is_missing_is_named(registry):
    coded = {claim.id for claim in registry}
    marked = {("sample.instances", "certificate")}
    marked |= {(name, "counterexample") for name in ("sample.bound", "sample.wrong")}
    assert complaints(registry, coded, marked) == []
    assert complaints(registry, coded - {"sample.guess"}, marked) == [
        "sample.guess has no function"
    ]
    assert complaints(registry, coded | {"sample.gone"}, marked) == [
        "sample.gone is not in the registry"
    ]
    assert complaints(
        registry, coded, marked - {("sample.wrong", "counterexample")}
    ) == ["sample.wrong has no counterexample"]
    twice = marked | {("sample.base", "check"), ("sample.bsae", "certificate")}
    assert len(complaints(registry, coded, twice)) == 2
