"""The proofs for Coq: what the map says of them, and that a wrong one is noticed.

That Coq accepts them all is tested by `make proofs`, which CI runs.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path

import claims
import pytest

ROOT = Path(__file__).resolve().parents[1]
PROOFS = ROOT / "proofs"
DEFINED = re.compile(
    r"^\s*(?:Theorem|Lemma|Corollary|Proposition|Fact|Example|Remark)\s+(\w+)", re.M
)
WITHOUT_CLAIM = {
    "identities.v",  # a tactic
    "random_projections.v",  # means, on which random_projections_3.v builds
    "reachability.v",  # a theorem that version 0.2 will claim
}

spec = importlib.util.spec_from_file_location("proofs_check", PROOFS / "check.py")
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)

MAP = check.entries()
needs_coq = pytest.mark.skipif(
    not shutil.which("coqc"), reason="no coqc here: apt-get install coq libcoq-mathcomp"
)


@pytest.mark.parametrize("name", MAP)
def test_the_map_names_claims_files_and_theorems_that_exist(name):
    entry = MAP[name]
    assert set(entry) == {"file", "theorems", "covers", "remark"}
    assert name in {claim.id for claim in claims.load()}
    text = (PROOFS / entry["file"]).read_text(encoding="utf-8")
    assert entry["theorems"] and entry["covers"].strip()
    names = {theorem.rpartition(".")[2] for theorem in entry["theorems"]}
    assert names <= set(DEFINED.findall(text))


@pytest.mark.parametrize("path", check.files(), ids=lambda path: path.name)
def test_no_file_assumes_what_it_should_prove(path):
    check.check_words(path)


def test_every_file_stands_for_a_claim():
    named = {entry["file"] for entry in MAP.values()}
    assert {path.name for path in check.files()} == named | WITHOUT_CLAIM


GOOD = """From mathcomp Require Import all_ssreflect.
(* Axiom is a word that a comment may hold. *)
Theorem twice n : n + n = n.*2.
Proof. by rewrite addnn. Qed.
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "sample.v"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "assumption",
    ["Axiom a : 1 = 2.", "Parameter p : nat.", "Lemma l : 1 = 2. Admitted."],
)
def test_an_assumption_is_noticed(tmp_path, assumption):
    check.check_words(written(tmp_path, GOOD))
    with pytest.raises(check.Problem, match="sample.v: it assumes something"):
        check.check_words(written(tmp_path, GOOD + assumption))


@needs_coq
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "", None),
        ("by rewrite addnn.", "by [].", "Coq refuses it"),  # a broken proof
        ("n.*2.\n", "n.*2.+1.\n", "Coq refuses it"),  # another statement
        ("Theorem twice", "Theorem double", "Coq refuses it"),  # another name
        (
            "From mathcomp",
            "From Coq Require Import Classical.\nFrom mathcomp",
            None,  # an axiom that is at hand, and not used
        ),
        (
            "twice n : n + n = n.*2.\nProof. by rewrite addnn. Qed.",
            "twice (n : nat) : n = n \\/ n <> n.\n"
            "Proof. exact: Classical_Prop.classic. Qed.",
            "twice rests on",
        ),
    ],
)
def test_coq_notices_a_wrong_proof(tmp_path, old, new, words):
    text = GOOD.replace(old, new, 1) if old else GOOD
    if "Classical_Prop" in new:
        text = "From Coq Require Import Classical.\n" + text
    path = written(tmp_path, text)
    if words is None:
        check.check_file(path, ["twice"])
        return
    with pytest.raises(check.Problem, match=words):
        check.check_file(path, ["twice"])
