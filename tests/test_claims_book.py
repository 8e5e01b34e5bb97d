"""The claims in a built book: a small one, built by Sphinx with the extensions of the
real one.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import boxes
import claims
import claims_ext
import formal
import page_cache
import pytest
from test_claims_registry import SAMPLE

pytestmark = pytest.mark.wide  # Sphinx builds a book for each
ROOT = Path(__file__).resolve().parents[1]
SETTINGS = """
import sys
sys.path.insert(0, "book/_ext")
extensions = ["myst_nb", "sphinxcontrib.bibtex", "portable", "claims_ext"]
bibtex_bibfiles = ["book/references.bib"]
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "attnlib", "tests"]
root_doc = "book/intro"
html_theme = "basic"
"""
INTRO = """# Book

As [the bound](#claim-sample-bound) says.

```{{toctree}}
{}
```

```{{bibliography}}
```
"""
PAGES = {
    "chapter/one": [
        "# Page *one*",
        "> **Theorem 1.1 (Base).** All is well.\n\n*Proof of Theorem 1.1.* Clear.",
        "> **Theorem 1.2 (Instances).** It is so.\n\nSee [above](#claim-sample-base).",
    ],
    "chapter/two": [
        "# Page two",
        "> **Theorem 2.1 (Bound).** It is at most so much.\n\n"
        "*Proof of Theorem 2.1.* Clear.",
        "> **Example 2.2 (Two).** Two.\n\n> **Theorem 2.3 (Wrong).** It is always so.",
        "> **Example 2.4 (Three).** Three.",
        "> **Theorem 2.5 (Guess).** Perhaps, by "
        "[the base](one.ipynb#claim-sample-base).",
    ],
}


def notebook(cells: list[str]) -> str:
    made = [
        {"cell_type": "markdown", "id": f"cell{i}", "metadata": {}, "source": [text]}
        for i, text in enumerate(cells)
    ]
    kernel = {
        "kernelspec": {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
    }
    return json.dumps(
        {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    )


@pytest.fixture
def tree(tmp_path) -> Path:
    for name in ("book/_tools", "book/_ext"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in (
        "book/claims.schema.json",
        "book/status.md",
        "book/proofs.md",
        "_config.yml",
        "pyproject.toml",
    ):
        shutil.copy(ROOT / name, tmp_path / name)
    errata = (ROOT / "book/errata.md").read_text(encoding="utf-8")
    listed = errata.split("## Beside the list")[0]  # the rest links to real pages
    listed = listed.replace("[Beside the list](#beside-the-list)", "Beside the list")
    (tmp_path / "book/errata.md").write_text(listed, encoding="utf-8")
    (tmp_path / "conf.py").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "book/claims.toml").write_text(SAMPLE, encoding="utf-8")
    (tmp_path / "book/references.bib").write_text(
        "@misc{someone2020, author={Some One}, title={T}, year={2020}}\n",
        encoding="utf-8",
    )
    contents = "\n".join(
        ["status", "errata", "proofs", *(f"/notebooks/{page}" for page in PAGES)]
    )
    (tmp_path / "book/intro.md").write_text(INTRO.format(contents), encoding="utf-8")
    registry = claims.load(tmp_path / "book/claims.toml")
    for page, cells in PAGES.items():
        path = tmp_path / "notebooks" / f"{page}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            notebook(
                [
                    *cells,
                    "## The claims of this page\n\n"
                    + claims.page_table(registry, page),
                ]
            ),
            encoding="utf-8",
        )
    accept_all(tmp_path)
    return tmp_path


def accept_all(tree: Path) -> None:
    texts = boxes.read(tree)
    registry = claims.load(tree / "book/claims.toml")
    claims.accept([claim.id for claim in registry if claim.place in texts], tree)


def build(tree: Path) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-b",
        "html",
        "-W",
        "-n",
        "--keep-going",
        ".",
        "_build/html",
    ]
    return subprocess.run(
        command, cwd=tree, capture_output=True, text=True, check=False
    )


def built(tree: Path) -> str:
    """Build without a warning; what Sphinx said."""
    done = build(tree)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def page(tree: Path, name: str) -> str:
    return (tree / "_build/html" / f"{name}.html").read_text(encoding="utf-8")


def read_again(output: str) -> set[str]:
    return set(
        re.findall(
            r"^reading sources\.\.\. \[ *\d+%\] (\S+)",
            re.sub(r"\x1b\[[\d;]*m", "", output).replace("\r", "\n"),
            re.M,
        )
    )


def badges(text: str) -> list[tuple[str, str]]:
    return re.findall(
        r'<(?:a|span) class="claim-badge claim-([\w-]+)[^>]*>([^<]*)<', text
    )


def pass_all(tree: Path) -> dict:
    registry = claims.load(tree / "book/claims.toml")
    results = {
        c.id: {role: {f"tests/test_{role}.py::test_it": "passed"} for role in c.roles}
        for c in registry
    }
    claims.write_verdicts(tree / claims.VERDICTS, claims.keys(tree), results)
    return results


def test_a_bare_build_passes_and_shows_every_claim_unchecked(tree):
    built(tree)
    assert (
        badges(page(tree, "notebooks/chapter/two")) == [("unchecked", "unchecked")] * 6
    )  # three boxes, three rows
    assert {entry["shown"] for entry in json.loads(page_json(tree))["claims"]} == {
        "unchecked"
    }


def page_json(tree: Path) -> str:
    return (tree / "_build/html/claims.json").read_text(encoding="utf-8")


def test_with_verdicts_the_book_shows_them_everywhere(tree):
    built(tree)
    results = pass_all(tree)
    assert read_again(built(tree)) == {
        "book/status",
        "book/errata",
        "notebooks/chapter/one",
        "notebooks/chapter/two",
    }
    two = page(tree, "notebooks/chapter/two")
    shown = [
        ("repaired", "repaired"),
        ("proved", "proved"),
        ("false", "false as printed"),
        ("open", "open"),
        ("sampled", "sampled"),
    ]
    in_boxes = [badge for badge in shown if badge[0] != "proved"]
    assert badges(two) == in_boxes + shown  # and in the table

    # every badge has its words, and leads to an entry that exists
    for link in re.findall(r'<a class="claim-badge[^>]*>', two):
        title, target = (
            re.search(r'title="([^"]+)"', link),
            re.search(r'href="../../book/status.html#([^"]+)"', link),
        )
        assert title[1].startswith("sample.") and f'id="{target[1]}"' in page(
            tree, "book/status"
        )

    # the citable anchors, from this page, from another one and from a page that does
    # not know where the claim is
    assert (
        'id="claim-sample-bound"' in two and 'href="one.html#claim-sample-base"' in two
    )
    assert 'href="#claim-sample-base"' in page(tree, "notebooks/chapter/one")
    assert 'href="../notebooks/chapter/two.html#claim-sample-bound"' in page(
        tree, "book/intro"
    )

    texts = boxes.read(tree)
    drawn = re.search(r"<svg class=.claim-graph.*?</svg>", page(tree, "book/status"))[0]
    registry = claims.load(tree / "book/claims.toml")
    assert drawn.count("<circle") == len(registry)
    [lines] = re.findall(r'<path d="([^"]*)"', drawn)
    assert lines.count("M") == sum(len(claim.uses) for claim in registry)
    assert "Used by" in page(tree, "book/status")
    status = html.unescape(re.sub(r"<[^>]+>", "", page(tree, "book/status")))
    for claim in claims.load(tree / "book/claims.toml"):
        assert claim.title in status
        assert f'-{claim.id.replace(".", "-")}"><title>{claim.id}<' in drawn
        assert texts[claim.place].split("$")[0].split("[")[0] in status
    assert "certificate: 1 passed" in status and "<!-- claims" not in page(
        tree, "book/status"
    )
    assert (
        "Page one" in status
        and "This book makes 5 claims" in status
        and "check: 1 passed; control: 1 passed" in status
    )
    assert "recalled from" in status and "derived in this book" in status

    errata = html.unescape(re.sub(r"<[^>]+>", "", page(tree, "book/errata")))
    for words in (
        "It is at most half of that.",
        "Take two.",
        "It is at most so much.",
        "The order of growth.",
        "Take three.",
        "It is often so.",
    ):
        assert words in errata
    assert "Guess" not in errata.split("Errata", 1)[1].split("Take", 1)[1]
    assert "two.html#example-2.2" in page(
        tree, "book/errata"
    ) and "two.html#proof-2.1" in page(tree, "book/errata")

    public = json.loads(page_json(tree))
    assert [entry["tests"] for entry in public["claims"]] == list(results.values())


def test_only_pages_whose_claims_changed_are_read_again(tree):
    pass_all(tree)
    built(tree)
    assert read_again(built(tree)) == set()
    verdicts = claims.read_verdicts(tree / claims.VERDICTS)
    verdicts["results"]["sample.guess"]["control"] = {
        "tests/test_control.py::test_it": "failed"
    }
    claims.write_verdicts(tree / claims.VERDICTS, **verdicts)
    assert read_again(built(tree)) == {"book/status", "notebooks/chapter/two"}
    assert badges(page(tree, "notebooks/chapter/two"))[2:3] == [
        ("broken", "check failed")
    ]
    assert "failed: tests/test_control.py::test_it" in re.sub(
        r"<[^>]+>", "", page(tree, "book/status")
    )


def test_a_page_that_failed_has_no_badge_left(tree):
    pass_all(tree)
    path = tree / "notebooks/chapter/two.ipynb"
    page_cache.Shelf(tree).fail("cell 'bad' failed: KeyError: 1", path)
    built(tree)
    two = page(tree, "notebooks/chapter/two")
    assert set(badges(two)) == {("unchecked", "unchecked")}
    assert "its page did not run here: cell 'bad' failed: KeyError: 1" in html.unescape(
        two
    )
    one = badges(page(tree, "notebooks/chapter/one"))
    assert ("unchecked", "unchecked") not in one


FORMAL = """[claim.formal]
file = "base.v"
theorems = ["base"]
covers = "whole"
remark = "For any number"
"""
PROOF = """(* Nothing is added. *)
Definition same (n : nat) := n.
(* Theorem 1.1 (Base). *)
Theorem base n : same n = n.
Proof. reflexivity. Qed.
"""


def formalise(tree: Path, covers: str = "whole") -> None:
    """Give the first claim a formal proof, and a verdict on it."""
    text = re.sub(
        r'\[\[claim\]\]\nid = "sample.instances"', rf"{FORMAL}\n\g<0>", SAMPLE
    ).replace('covers = "whole"', f'covers = "{covers}"')
    (tree / "book/claims.toml").write_text(text, encoding="utf-8")
    accept_all(tree)
    (tree / "proofs").mkdir(exist_ok=True)
    path = tree / "proofs/base.v"
    path.write_text(PROOF, encoding="utf-8")
    theorem = {
        "statement": "forall n, same n = n",
        "full": "f",
        "uses": ["base.same"],
        "assumptions": [],
    }
    verdict = {
        "sources": formal.sources(path),
        "theorems": {"base": theorem},
        "definitions": {
            "same": {"print": "base.same = fun n => n", "full": "f", "uses": []}
        },
    }
    stored = {
        "versions": {"coq": "8", "mathcomp": "1"},
        "claims": {"sample.base": {"file": "base.v", "theorems": ["base"]}},
        "files": {"base.v": verdict},
    }
    (tree / "proofs/verdicts.json").write_text(json.dumps(stored), encoding="utf-8")


def fold_of(text: str) -> str:
    """The words of the first fold with a formal statement."""
    found = re.search(r'<details class="formal fold">.*?</details>', text, re.S)
    return html.unescape(re.sub(r"<[^>]+>", "", found[0])).strip() if found else ""


def test_a_machine_checked_claim_shows_badge_and_statement(tree):
    formalise(tree)
    pass_all(tree)
    built(tree)
    one = page(tree, "notebooks/chapter/one")
    assert badges(one) == [  # in its box a proof has none
        ("certified", "certified"),  # by its own evidence
        ("machine-checked", "machine-checked"),
        ("certified", "certified"),
    ]
    read = fold_of(one)
    assert read.startswith("Formal statement, checked by Coq")
    assert "Definition same (n : nat) := n." in read and "reflexivity" not in read
    assert read.index("base.same = fun n => n") < read.index("Definition same")
    assert "Remark: For any number." in read and "proofs/base.v, line 4" in read
    assert one.index("Theorem 1.1") < one.index('class="formal fold"')
    assert 'href="../../book/proofs.html"' in one
    assert fold_of(page(tree, "notebooks/chapter/two")) == ""
    status = html.unescape(re.sub(r"<[^>]+>", "", page(tree, "book/status")))
    assert "Formal proof: of the whole claim; proofs/base.v, line 4" in status
    first = json.loads(page_json(tree))["claims"][0]
    assert first["shown"] == "machine-checked"
    assert first["formal"]["statements"] == {"base": "forall n, same n = n"}


def test_a_changed_proof_turns_the_badge_back_without_coq(tree):
    formalise(tree)
    pass_all(tree)
    built(tree)
    path = tree / "proofs/base.v"
    path.write_text(PROOF.replace("same n = n", "n = same n"), encoding="utf-8")
    assert "notebooks/chapter/one" in read_again(built(tree))
    one = page(tree, "notebooks/chapter/one")
    assert badges(one)[1] == ("proved", "proved")
    assert fold_of(one).startswith("Formal statement, not checked as it stands")
    assert "Coq has checked" not in fold_of(one)
    status = page(tree, "book/status")
    assert "base.v was not checked as it stands" in status
    first = json.loads(page_json(tree))["claims"][0]
    assert (first["shown"], first["formal"]["checked"]) == ("proved", False)
    assert first["formal"]["statements"] == {}


def test_a_part_stays_proved_and_says_which(tree):
    formalise(tree, covers="for n = 2")
    pass_all(tree)
    built(tree)
    one = page(tree, "notebooks/chapter/one")
    assert badges(one)[1] == ("proved", "proved")
    assert "Formalised in part: for n = 2." in fold_of(one)
    assert "for n = 2" in page(tree, "book/proofs")


@pytest.mark.parametrize(
    "old, new, said",
    [
        (
            'anchor = "theorem-1.2"',
            'anchor = "theorem-1.9"',
            "claim sample.instances: no box has the id theorem-1.9",
        ),
        ('proof = "proof-1.1"', 'proof = "proof-1.9"', "proof-1.9"),
        ('at = "example-2.2"', 'at = "example-2.9"', "example-2.9"),
        ('work = "someone2020", version', 'work = "noone2020", version', "noone2020"),
    ],
)
def test_the_build_fails_when_registry_and_pages_disagree(tree, old, new, said):
    text = (tree / "book/claims.toml").read_text(encoding="utf-8")
    assert old in text
    (tree / "book/claims.toml").write_text(text.replace(old, new, 1), encoding="utf-8")
    done = build(tree)
    assert done.returncode != 0 and said in done.stderr


def test_a_book_without_faults_has_no_errata_and_a_book_without_claims_says_so(tree):
    sound = claims.load(tree / "book/claims.toml")[:1]
    texts = claims_ext.render(tree, sound, claims.resolve(sound, {}), {}, set())
    assert (
        "No erratum is registered" in texts["errata"]
        and "No claim" not in texts["counts"]
    )
    assert (
        "No claim is registered" in claims_ext.render(tree, [], {}, {}, set())["counts"]
    )


def test_a_source_is_told_as_it_is_known_and_slips_of_a_note_come_last(tree):
    base, _, bound, wrong, guess = claims.load(tree / "book/claims.toml")
    assert claims_ext.source_words(base) == "{cite}`someone2020`, Theorem 1 (v1)"
    through = {**guess.source, "seen": "restated", "through": "Another (2021)"}
    known = claims_ext.source_words(guess._replace(source=through))
    assert known == "{cite}`someone2020`, as Another (2021) restates it"

    def errata(*found):
        text = claims_ext.render(tree, found, claims.resolve(found, {}), {}, set())
        return text["errata"]

    found = (base, bound, wrong)
    assert "## In published papers" in errata(*found)
    assert "## Notes to a source" not in errata(*found)
    (tree / "book/references.bib").write_text("@unpublished{someone2020, }\n", "utf-8")
    assert "## In published papers" not in errata(*found)
    also = {**wrong.source, "also": {"work": "other2021", "number": "(1)"}}
    text = errata(base, bound, wrong._replace(source=also))
    first, notes = text.split("## Notes to a source")
    assert "### Wrong" in first and "also {cite}`other2021`, (1):" in first
    assert "### Bound" in notes and "### Wrong" not in notes
