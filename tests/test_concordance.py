"""The page "With the paper in hand": its list is whole, its places exist, and each rule
of it is broken once.
"""

from __future__ import annotations

import re
from pathlib import Path

import claims
import concordance
import pages
import pytest
from myst_parser.mdit_to_docutils.base import default_slugify
from test_claims_book import build, built, page, tree  # noqa: F401  (a fixture)
from test_claims_registry import SAMPLE

ROOT = Path(__file__).resolve().parents[1]
LIST = """
[[source]]
anchor = "with-someone"
title = "Some One, T (2020)"
works = ["someone2020"]
seen = "It lay before us."
letters = "The same."

[[source.line]]
claims = ["sample.base", "sample.instances"]
letters = "$e$ for $1$"

[[source.line]]
place = "section 2"
claims = ["sample.bound", "sample.wrong"]
what = "bounds"

[[source.line]]
place = "section 3"
what = "a guess"
claims = ["sample.guess"]

[[source.line]]
place = "section 4"
what = "an example"
at = ["chapter/two#example-2.2", "chapter/two#page-two"]
how = "executed"

[[source.line]]
place = "Figure 1"
what = "a drawing"
not_treated = "It is lost."
"""


TAGGED = r"\\tag\{(\d+\.\d+)\}"


def numbered(text: str) -> set[str]:
    """Anchors of boxes, figures, proofs and equations."""
    kinds = r"\*\*([A-Z][a-z]+) (\d+\.\d+)[ .]"
    found = {f"{kind.lower()}-{number}" for kind, number in re.findall(kinds, text)}
    return found | {f"eq-{number}" for number in re.findall(TAGGED, text)}


def anchors(page: str) -> set[str]:
    """What a link into a page may name: its numbered things and its headings."""
    path = ROOT / "notebooks" / f"{page}.ipynb"
    cells = [c for c in pages.read(path)["cells"] if c["cell_type"] == "markdown"]
    text = "\n\n".join("".join(cell["source"]) for cell in cells)
    headings = re.findall(r"^#{1,3} ([^$\n]+)$", text, re.M)  # formulas have no slug
    return numbered(text) | {default_slugify(heading) for heading in headings}


def places(sources) -> set[str]:
    return {place for source in sources for line in source.lines for place in line.at}


def missing(found: set[str]) -> list[str]:
    """The places that no page has."""
    known = {}
    lost = []
    for place in sorted(found):
        name, anchor = place.split("#")
        if name not in known:
            known[name] = anchors(name)
        if anchor not in known[name]:
            lost.append(place)
    return lost


def test_every_claim_from_a_source_has_its_line_and_every_place_exists():
    sources = concordance.load(ROOT, claims.load())
    assert len(places(sources)) > 40
    assert missing(places(sources)) == []
    wrong = {"path_decomposition/paths#theorem-1.99"}
    assert missing(wrong) == sorted(wrong)  # the control


def write(root: Path, text: str) -> Path:
    (root / "book").mkdir(exist_ok=True)
    (root / concordance.LIST).write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def registry(tmp_path):
    path = tmp_path / "claims.toml"
    path.write_text(SAMPLE, encoding="utf-8")
    return claims.load(path)


def test_a_line_takes_from_its_first_claim_what_the_list_does_not_say(
    tmp_path, registry
):
    [source] = concordance.load(write(tmp_path, LIST), registry)
    first, second, guess, *_ = source.lines
    assert (first.place, first.what) == ("Theorem 1", "Base")
    assert (second.place, second.what) == ("section 2", "bounds")
    assert first.known == ""  # it was seen
    assert guess.known == ""  # the list says where, and how we know
    number = SAMPLE.replace(
        'seen = "recalled"', 'number = "Lemma 9", seen = "recalled"'
    )
    (tmp_path / "claims.toml").write_text(number, encoding="utf-8")
    bare = LIST.replace('place = "section 3"\nwhat = "a guess"\n', "")
    [source] = concordance.load(
        write(tmp_path, bare), claims.load(tmp_path / "claims.toml")
    )
    assert (source.lines[2].place, source.lines[2].known) == ("Lemma 9", "recalled")
    through = number.replace('"recalled"', '"restated", through = "Another (2021)"')
    (tmp_path / "claims.toml").write_text(through, encoding="utf-8")
    [source] = concordance.load(tmp_path, claims.load(tmp_path / "claims.toml"))
    assert (source.lines[2].place, source.lines[2].known) == ("Lemma 9", "restated")


BROKEN = {
    "a claim is missing": (
        '"sample.bound", "sample.wrong"',
        '"sample.bound"',
        "sample.wrong: it belongs to Some One, T .2020., not to no table",
    ),
    "no such claim": ('"sample.guess"', '"sample.gues"', "no claim sample.gues"),
    "neither": ('not_treated = "It is lost."', "", "Figure 1: name a claim or a place"),
    "both": (
        'not_treated = "It is lost."',
        'not_treated = "It is lost."\nclaims = ["sample.base"]',
        "Figure 1: it is treated, or it is not",
    ),
    "no how": ('how = "executed"', "", "section 4: 'how' goes with"),
    "another how": ('how = "executed"', 'how = "told"', "section 4: 'how' is one of"),
    "how of nothing": ('what = "a guess"', 'what = "a guess"\nhow = "proved"', "goes"),
    "no anchor": ('"chapter/two#page-two"', '"chapter/two"', "a place has an anchor"),
    "no place": ('place = "Figure 1"', "", "say place and what"),
    "twice": (
        'place = "section 4"\nwhat = "an example"',
        'place = "Figure 1"\nwhat = "a drawing"',
        "Figure 1: 'a drawing' stands twice",
    ),
}


@pytest.mark.parametrize(("old", "new", "said"), BROKEN.values(), ids=BROKEN)
def test_each_rule_can_be_broken(tmp_path, registry, old, new, said):
    assert LIST.count(old) == 1
    with pytest.raises(ValueError, match=said):
        concordance.load(write(tmp_path, LIST.replace(old, new)), registry)


def test_a_claim_in_the_table_of_another_source_is_refused(tmp_path):
    guess = 'work = "someone2020", seen = "recalled"'
    text = SAMPLE.replace(guess, guess.replace("someone2020", "other2021"))
    (tmp_path / "claims.toml").write_text(text, encoding="utf-8")
    head = LIST.split("[[source.line]]")[0].replace("someone2020", "other2021")
    both = LIST + head.replace("Some One", "Another") + "line = []\n"
    with pytest.raises(ValueError, match="sample.guess: it belongs to Another"):
        concordance.load(write(tmp_path, both), claims.load(tmp_path / "claims.toml"))


def test_without_a_list_there_is_no_table(tmp_path, registry):
    assert concordance.load(tmp_path, registry) == []


@pytest.mark.wide
def test_the_page_is_made_and_its_links_lead_there(tree):  # noqa: F811
    write(tree, LIST)
    words = "# With the paper\n\n<!-- claims: concordance -->\n"
    (tree / "book/with_the_paper.md").write_text(words, encoding="utf-8")
    intro = tree / "book/intro.md"
    text = intro.read_text(encoding="utf-8")
    intro.write_text(text.replace("status\n", "status\nwith_the_paper\n"), "utf-8")
    built(tree)
    made = page(tree, "book/with_the_paper")
    rows = re.findall(r"<tr.*?</tr>", made, re.S)
    [line] = [row for row in rows if "Theorem 1<" in row]
    assert 'href="../notebooks/chapter/one.html#claim-sample-base"' in line
    assert "Theorem 1.1" in line and "claim-unchecked" in line
    [line] = [row for row in rows if "Section 4" in row]
    assert "executed" in line and "Example 2.2" in line and ">Page two<" in line
    [line] = [row for row in rows if "Figure 1" in row]
    assert "<strong>not treated</strong>: It is lost." in line

    write(tree, LIST.replace("#page-two", "#page-three"))
    done = build(tree)
    assert done.returncode != 0 and "page-three" in done.stderr
    write(tree, LIST.replace('claims = ["sample.guess"]', 'not_treated = "No."'))
    done = build(tree)
    assert done.returncode != 0 and "book/concordance.toml: sample.guess" in done.stderr
