"""The proofs for Coq: what the registry says of them, that a wrong one is noticed, and
that no badge stands without a verdict on the very file.

That Coq accepts them all is tested by `make proofs`, which CI runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
from argparse import Namespace
from pathlib import Path

import claims
import formal
import pytest

ROOT = Path(__file__).resolve().parents[1]
PROOFS = ROOT / "proofs"
WITHOUT_CLAIM = {
    "definitions.v",  # the words that files share
    "exponential.v",  # the exponential function, for other files
    "identities.v",  # a tactic
    "random_projections.v",  # means, on which random_projections_3.v builds
    "real_numbers.v",  # the theorems at Coq's real numbers; it rests on axioms
}

spec = importlib.util.spec_from_file_location("proofs_check", PROOFS / "check.py")
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)

MAP = check.entries()
needs_coq = pytest.mark.skipif(
    not shutil.which("coqc") and not os.environ.get("CI"),
    reason="no coqc here: book/proofs.md says what to install",
)


# --- the proofs of the book


@pytest.mark.parametrize("name", MAP)
def test_the_registry_names_files_and_theorems_that_exist(name):
    path = PROOFS / MAP[name]["file"]
    stated = {item.name for item in check.known(path) if item.kind == "theorem"}
    assert set(MAP[name]["theorems"]) <= stated


@pytest.mark.parametrize("path", formal.files().values(), ids=lambda path: path.name)
def test_no_file_assumes_what_it_should_prove(path):
    check.check_words(path)


def test_every_file_stands_for_a_claim():
    named = {entry["file"] for entry in MAP.values()}
    assert set(formal.files()) == named | WITHOUT_CLAIM
    assert not named & WITHOUT_CLAIM


def test_the_stored_verdicts_are_those_of_these_files():
    """If this fails, a proof or the registry has changed since `make proofs`."""
    assert formal.held(claims.load()) == set(MAP)


FIELD = re.compile(r"\(\w+ : (?:\w*[fF]ieldType|rcfType|comRingType)\)")
INSIDE = {"the_proof_executed.hears"}  # the field stands within the statement


def test_every_theorem_about_a_field_is_stated_at_the_real_numbers():
    listed = (PROOFS / "real_numbers.v").read_text(encoding="utf-8")
    named = set(re.findall(r"@([\w.]+)", listed))
    about = set()
    for name, verdict in formal.read_verdicts()["files"].items():
        for theorem, said in verdict["theorems"].items():
            statement = " ".join(said["statement"].split())
            if FIELD.search(statement):
                about.add(f"{name.removesuffix('.v')}.{theorem}")
    assert len(about) > 200
    assert about - INSIDE <= named


def test_every_fold_shows_its_theorems():
    for entry in MAP.values():
        code, line = formal.reading(entry, checked=True)
        lines = (PROOFS / entry["file"]).read_text(encoding="utf-8").splitlines()
        assert any(name.split(".")[-1] in lines[line - 1] for name in entry["theorems"])
        for name in entry["theorems"]:
            assert f" {name.split('.')[-1]}" in code
        assert "Proof." not in code and "Qed." not in code


# --- a folder of two files, in which things are broken

BASE = """From mathcomp Require Import all_ssreflect.
(* Twice a number. Axiom is a word that a comment may hold. *)
Definition twice n := n + n. (* once more *)
Module Inner.
Section Sums.
Variable k : nat.
Hypothesis k_gt : 0 < k.
Let idle := k.
(* Not asked for. *)
Lemma helper : k + 0 = k. Proof. by rewrite addn0. Qed.

(* Twice a number is even. *)
Theorem even n : ~~ odd (twice n).
Proof. by rewrite /twice addnn odd_double. Qed.
End Sums.
End Inner.
"""
NEXT = """From mathcomp Require Import all_ssreflect.
Require Import base.
Theorem four n : twice (twice n) = 4 * n.
Proof. by rewrite /twice !addnn -!muln2 -mulnA mulnC. Qed.
Theorem itself : [forall i : 'I_2, i == i].
Proof. by apply/forallP => i. Qed.
"""
ENTRIES = {
    "sample.even": {
        "file": "base.v",
        "theorems": ["Inner.even"],
        "covers": "whole",
    },
    "sample.four": {
        "file": "next.v",
        "theorems": ["four", "itself"],
        "covers": "whole",
    },
}


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "base.v").write_text(BASE, encoding="utf-8")
    (tmp_path / "next.v").write_text(NEXT, encoding="utf-8")
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def run(folder: Path, entries=ENTRIES, accept=False, changed=False, **more) -> int:
    given = {"accept": accept, "changed": changed, "compare": False, "kernel": False}
    options = argparse.Namespace(**given | more, j=2)
    return check.check(folder, entries, options)


def green(folder: Path, entries=ENTRIES) -> set[str]:
    """The claims of the sample whose verdict holds."""
    verdicts = formal.read_verdicts(folder)
    return {n for n, e in entries.items() if formal.holds(n, e, verdicts, folder)}


def pretend(folder: Path) -> None:
    """Store the verdict that Coq gives on this folder, without Coq."""
    theorem = {"statement": "s", "full": "f", "uses": ["base.twice"], "assumptions": []}
    made = {
        name: {
            "sources": formal.sources(folder / name),
            "theorems": dict.fromkeys(theorems, theorem),
            "definitions": {},
        }
        for name, theorems in (
            ("base.v", ["Inner.even"]),
            ("next.v", ["four", "itself"]),
        )
    }
    printed = "base.twice = fun n : nat => (n + n)%N"
    made["base.v"]["definitions"]["twice"] = {"print": printed, "full": "f", "uses": []}
    verdicts = {
        "versions": {"coq": "8", "mathcomp": "1"},
        "claims": {name: formal.named(entry) for name, entry in ENTRIES.items()},
        "files": made,
    }
    (folder / formal.VERDICTS).write_text(json.dumps(verdicts), encoding="utf-8")


# without Coq


@pytest.mark.parametrize(
    "assumption",
    ["Axiom a : 1 = 2.", "Parameter p : nat.", "Lemma l : 1 = 2. Admitted."],
)
def test_an_assumption_is_noticed(folder, assumption):
    path = folder / "base.v"
    check.check_words(path)
    path.write_text(BASE + assumption, encoding="utf-8")
    with pytest.raises(check.Problem, match="base.v: it assumes something"):
        check.check_words(path)


@pytest.mark.parametrize("gap", ["  ", "\n", " (* or *) "])
def test_white_space_hides_no_directive(folder, gap):
    path = folder / "base.v"
    path.write_text(f'{BASE}Declare{gap}ML Module "a".', encoding="utf-8")
    with pytest.raises(check.Problem, match="it assumes something: Declare ML"):
        check.check_words(path)
    path.write_text(f"{BASE}(* Declare{gap}ML Module. *)", encoding="utf-8")
    check.check_words(path)


@pytest.mark.parametrize(
    "command", ["Notation odd := (fun _ => true).", 'Infix "+" := muln.']
)
def test_a_file_gives_no_other_file_its_notations(folder, command):
    path = folder / "base.v"
    path.write_text(BASE + command, encoding="utf-8")
    with pytest.raises(check.Problem, match="that is not Local"):
        check.check_words(path)
    path.write_text(f"{BASE}Local {command}", encoding="utf-8")
    check.check_words(path)


def test_a_verdict_counts_only_for_the_theorems_it_names(folder):
    pretend(folder)
    other = ENTRIES["sample.four"] | {"theorems": ["itself"]}
    assert green(folder, ENTRIES | {"sample.four": other}) == {"sample.even"}


def test_a_verdict_counts_only_for_the_very_files(folder):
    assert green(folder) == set()
    pretend(folder)
    assert green(folder) == {"sample.even", "sample.four"}
    edit(folder / "next.v", "mulnC.", "mulnC .")
    assert green(folder) == {"sample.even"}
    edit(folder / "next.v", "mulnC .", "mulnC.")
    edit(folder / "base.v", "Twice a", "Two times a")  # which next.v requires, too
    assert green(folder) == set()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda verdicts: verdicts["files"].pop("base.v"),
        lambda verdicts: verdicts["files"]["base.v"]["theorems"].clear(),
        lambda verdicts: verdicts["files"]["base.v"]["theorems"]["Inner.even"].update(
            assumptions=["classic"]
        ),
        lambda verdicts: verdicts["claims"].pop("sample.even"),
        lambda verdicts: verdicts.pop("versions"),
    ],
)
def test_a_spoilt_verdict_does_not_count(folder, spoil):
    pretend(folder)
    verdicts = json.loads((folder / formal.VERDICTS).read_text(encoding="utf-8"))
    spoil(verdicts)
    (folder / formal.VERDICTS).write_text(json.dumps(verdicts), encoding="utf-8")
    assert "sample.even" not in green(folder)


def test_a_reader_sees_statement_definitions_and_hypotheses_but_no_proof(folder):
    pretend(folder)
    code, line = formal.reading(ENTRIES["sample.even"], True, folder)
    assert code == (
        "(* Twice a number. Axiom is a word that a comment may hold. *)\n"
        "Definition twice n := n + n. (* once more *)\n"
        "Variable k : nat.\n"
        "Hypothesis k_gt : 0 < k.\n\n"
        "(* Twice a number is even. *)\n"
        "Theorem even n : ~~ odd (twice n)."
    )
    assert BASE.splitlines()[line - 1].startswith("Theorem even")
    assert formal.printed(ENTRIES["sample.even"], folder) == (
        "base.twice = fun n : nat => (n + n)%N\n\ns"
    )
    code, _ = formal.reading(ENTRIES["sample.four"], True, folder)
    assert code.startswith("(* From base.v *)\n(* Twice") and "odd" not in code
    code, _ = formal.reading(ENTRIES["sample.four"], False, folder)
    assert code == (
        "Theorem four n : twice (twice n) = 4 * n.\n\n"
        "Theorem itself : [forall i : 'I_2, i == i]."
    )


def test_comments_may_hold_comments_and_ends_of_sentences():
    text = 'Definition a := 1. (* One. (* Two. *) Three. *) Definition s := "(*".\n'
    bare = formal.without_comments(text)
    assert len(bare) == len(text)
    assert [bare[start:end] for start, end in formal.sentences(bare)] == [
        "Definition a := 1.",
        'Definition s := "(*".',
    ]


def test_claims_rest_on_those_whose_theorems_their_proofs_use(folder):
    claims_of = [Namespace(id=name, formal=entry) for name, entry in ENTRIES.items()]
    pretend(folder)
    assert formal.rests(claims_of, folder) == dict.fromkeys(ENTRIES, set())
    verdicts = json.loads((folder / formal.VERDICTS).read_text(encoding="utf-8"))
    verdicts["files"]["next.v"]["theorems"]["four"]["rests"] = ["base.Inner.even"]
    (folder / formal.VERDICTS).write_text(json.dumps(verdicts), encoding="utf-8")
    assert formal.rests(claims_of, folder)["sample.four"] == {"sample.even"}


@pytest.mark.parametrize(
    "statement, has",
    [
        ("a : forall n : nat, n < n -> n = 7", True),
        ("a : forall (R : T) (f : R -> R), f 0 = 0", False),
        ("a : forall (f : R -> R), (forall x, f x = 0) -> f 0 = 0", True),
        ("a : (forall P, P -> P) /\\ [/\\ A -> A & B]", False),
    ],
)
def test_what_has_hypotheses(statement, has):
    assert check.has_hypotheses(statement) == has


def test_what_a_proof_uses_is_followed_through_lemmas_up_to_the_next_theorem():
    uses = {"a": ["l"], "l": ["l", "b"], "b": ["c"], "c": []}
    assert check.reached("a", uses, {"a", "b", "c"}) == ["b"]
    assert check.reached("b", uses, {"a", "b", "c"}) == ["c"]
    assert check.reached("a", uses, {"a", "c"}) == ["c"]


# with Coq


@pytest.fixture(scope="module")
def accepted(tmp_path_factory) -> Path:
    """The folder after `make proofs`."""
    path = tmp_path_factory.mktemp("accepted")
    (path / "base.v").write_text(BASE, encoding="utf-8")
    (path / "next.v").write_text(NEXT, encoding="utf-8")
    assert run(path) == 0
    return path


@pytest.fixture
def copy(accepted, tmp_path) -> Path:
    return Path(shutil.copytree(accepted, tmp_path / "copy"))


@pytest.mark.wide
@needs_coq
def test_coq_accepts_and_the_verdict_is_stored(copy, capsys):
    assert green(copy) == {"sample.even", "sample.four"}
    stored = formal.read_verdicts(copy)
    assert stored["versions"]["coq"][0].isdigit()
    theorem = stored["files"]["next.v"]["theorems"]["four"]
    assert "base.twice (base.twice n) = (4 * n)%N" in theorem["statement"]
    assert theorem["uses"] == ["base.twice"]
    assert theorem["rests"] == []
    definition = stored["files"]["base.v"]["definitions"]["twice"]
    assert definition["print"] == "base.twice = fun n : nat => (n + n)%N"
    assert "helper" not in json.dumps(stored)
    text = (copy / formal.VERDICTS).read_text(encoding="utf-8")
    assert run(copy, changed=True) == 0
    assert "0 files accepted" in capsys.readouterr().out
    assert (copy / formal.VERDICTS).read_text(encoding="utf-8") == text


CLASSICAL = """From mathcomp Require Import all_ssreflect.
Require Classical.
Theorem four n : n = 0 \\/ n <> 0.
Proof. exact: Classical_Prop.classic. Qed.
Theorem itself : True. Proof. by []. Qed.
"""
BREAKS = {
    "a broken proof": ("base.v", "addnn odd_double", "addnn", "Coq refuses it"),
    "a statement that is false": ("next.v", "= 4 * n", "= 5 * n", "Coq refuses it"),
    "another name": ("next.v", "Theorem four", "Theorem five", "Coq refuses it"),
    "an axiom": ("base.v", "Module Inner.", "Axiom a : 1 = 2.", "assumes something"),
    "an axiom of a library": ("next.v", NEXT, CLASSICAL, "some rests on Axioms"),
    "another statement": (
        "next.v",
        "= 4 * n",
        "= 2 * 2 * n",
        "sample.four says something else",
    ),
    "a type that is not printed": (
        "next.v",
        "'I_2",
        "'I_3",
        "sample.four has changed in what Coq prints only in full",
    ),
    "another definition": (
        "base.v",
        "Definition twice n := n + n.",
        "Definition twice n := n + (n + 0).",
        "Coq refuses it",
    ),
    "a definition that serves as well": (
        "base.v",
        "twice n := n + n.",
        "twice (n : nat) := let m := n in n + m.",
        "the definition base.twice, of which theorems speak, has changed",
    ),
    "an import that is gone": ("next.v", "Require Import base.", "", "Coq refuses it"),
}


@pytest.mark.wide
@needs_coq
@pytest.mark.parametrize("name", BREAKS)
def test_a_change_that_matters_is_noticed(copy, name, capsys):
    file, old, new, said = BREAKS[name]
    before = (copy / formal.VERDICTS).read_text(encoding="utf-8")
    edit(copy / file, old, new)
    assert green(copy) == ({"sample.even"} if file == "next.v" else set())
    assert run(copy) == 1
    assert said in capsys.readouterr().err
    assert (copy / formal.VERDICTS).read_text(encoding="utf-8") == before


@pytest.mark.wide
@needs_coq
def test_a_change_that_is_meant_is_accepted(copy):
    edit(copy / "next.v", "= 4 * n", "= 2 * 2 * n")
    assert run(copy, changed=True) == 1
    assert run(copy, changed=True, accept=True) == 0
    assert green(copy) == {"sample.even", "sample.four"}


def instead(claim: str, theorems: list[str]) -> dict[str, dict]:
    """The sample, with other theorems for one claim."""
    return ENTRIES | {claim: ENTRIES[claim] | {"theorems": theorems}}


@pytest.mark.wide
@needs_coq
def test_a_claim_that_turns_to_a_weaker_theorem_is_noticed(copy, capsys):
    weaker = "Theorem even_four : twice (twice 1) = 4. Proof. by []. Qed."
    with (copy / "next.v").open("a", encoding="utf-8") as file:
        file.write(weaker)
    for changed in (True, False):
        other = instead("sample.four", ["even_four", "itself"])
        assert run(copy, other, changed=changed) == 1
        assert "sample.four says something else" in capsys.readouterr().err
    assert run(copy, {"sample.even": ENTRIES["sample.even"]}, changed=True) == 1
    assert "sample.four has no formal part any more" in capsys.readouterr().err
    assert run(copy, changed=True) == 0  # the claim still stands for what it did


@pytest.mark.wide
@needs_coq
def test_what_is_no_statement_stands_for_no_claim(copy, capsys):
    function = "Lemma thrice : nat -> nat. Proof. exact: (fun n => 3 * n). Defined."
    with (copy / "next.v").open("a", encoding="utf-8") as file:
        file.write(function)
    for name in ("sample.four", "sample.new"):
        new = {name: ENTRIES["sample.four"] | {"theorems": ["thrice"]}}
        assert run(copy, ENTRIES | new, changed=True) == 1
        assert "next.v: thrice is no statement" in capsys.readouterr().err
    new = {"sample.new": ENTRIES["sample.four"] | {"theorems": ["itself"]}}
    assert run(copy, ENTRIES | new, changed=True) == 0


@pytest.mark.wide
@needs_coq
def test_a_new_theorem_shows_that_its_hypotheses_can_hold(copy, capsys):
    vain = "Theorem vain n : n < n -> n = 7. Proof. by rewrite ltnn. Qed.\n"
    held = "Theorem held n : 0 < n -> n != 0. Proof. by rewrite lt0n. Qed.\n"
    with (copy / "next.v").open("a", encoding="utf-8") as file:
        file.write(
            vain + held + "Example held_met : 1 != 0. Proof. exact: held. Qed.\n"
        )
    for theorem, code in (("vain", 1), ("held", 0)):
        new = {"sample.new": ENTRIES["sample.four"] | {"theorems": [theorem]}}
        assert run(copy, ENTRIES | new, changed=True) == code
    assert "no Example or Fact applies vain" in capsys.readouterr().err


@pytest.mark.wide
@needs_coq
def test_the_fold_shows_what_coq_reads(copy):
    """A word with a second sense: the source reads well, Coq's own print does not."""
    edit(
        copy / "base.v",
        "Module Inner.",
        "Definition odd of nat := true.\nModule Inner.",
    )
    edit(copy / "base.v", "~~ odd (twice n).", "odd (twice n).")
    edit(
        copy / "base.v",
        "Proof. by rewrite /twice addnn odd_double. Qed.",
        "Proof. by []. Qed.",
    )
    assert run(copy, changed=True, accept=True) == 0
    printed = formal.printed(ENTRIES["sample.even"], copy)
    assert "base.odd = xpredT" in printed
    assert "forall n : nat, base.odd (base.twice n)" in printed


@pytest.mark.wide
@needs_coq
def test_verdicts_that_would_change_are_noticed_and_not_stored(copy, capsys):
    before = (copy / formal.VERDICTS).read_text(encoding="utf-8")
    assert run(copy, compare=True) == 0
    edit(copy / "base.v", "Twice a number", "Two times a number")
    assert run(copy, compare=True) == 1
    assert "the stored verdicts are of other files" in capsys.readouterr().err
    assert (copy / formal.VERDICTS).read_text(encoding="utf-8") == before


@pytest.mark.wide
@needs_coq
def test_the_second_checker_reads_what_was_compiled(copy, capsys, monkeypatch):
    assert run(copy, kernel=True) == 0
    assert "coqchk agrees" in capsys.readouterr().out
    monkeypatch.setattr(check, "coqc", spoil_after(check.coqc))
    assert run(copy, kernel=True) == 1
    assert "coqchk refuses a file" in capsys.readouterr().err


def spoil_after(coqc):
    """A compiler that stores something else than it has read, in one file."""

    def spoilt(path: Path) -> None:
        coqc(path)
        if path.stem.startswith("ask_"):
            made = path.with_name("next.vo")
            content = bytearray(made.read_bytes())
            content[len(content) // 2] ^= 1
            made.write_bytes(content)

    return spoilt


@pytest.mark.wide
@needs_coq
def test_verdicts_of_other_versions_stay(copy, monkeypatch, capsys):
    text = (copy / formal.VERDICTS).read_text(encoding="utf-8")
    monkeypatch.setattr(check, "versions", lambda: {"coq": "9.9", "mathcomp": "9"})
    assert run(copy, changed=True) == 0
    assert "cannot be compared" in capsys.readouterr().out
    assert (copy / formal.VERDICTS).read_text(encoding="utf-8") == text
