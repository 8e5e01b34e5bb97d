"""How long a page takes to read: the rule of minutes.py, part by part, and the lines
that show it, each beside an input for which the answer is another one.
"""

from __future__ import annotations

import json

import minibook
import minutes
import pages
import pytest
from minibook import code, markdown

import notebooks

FOLD = "<details><summary>{}</summary>\n\n{}\n\n</details>"
LONG = "word " * 900  # five minutes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 0),
        ("one two three", 1),
        ("[one](two.ipynb#three-four) <b>two</b>, three: - |", 1),
        ("| it's | 3.14 |\n| --- | --- |\n| three |", 1),
        ("one $x + y = z$", 1),
        ("$$ a + b $$", 15),
        ("> $$\n> \\begin{aligned}\n> a &= b \\\\ &= c\n> \\end{aligned}\n> $$", 30),
        ("$$ \\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix} $$", 15),
        ("> **Theorem 1.2 (A).**", 30 + 1),
        ("> **Theorem 1.2.** *(a)* One.\n>\n> *(b)* Two.", 60 + 2),
        ("> **Example 1.2 (A).**", 1),
        ("**Figure 1.2.** One.", 40 + 1),
        ("```\nfive words of no account\n```", 0),
    ],
)
def test_what_a_text_takes(text, seconds):
    assert minutes.text_seconds(text) == pytest.approx(seconds)


def test_in_proofs_words_and_formulas_take_twice_as_long_and_nothing_else_does():
    text = "one two three $$ x $$\n\n> **Theorem 1.2 (A).**\n\n**Figure 1.2.** One."
    assert minutes.text_seconds(text) == 1 + 15 + 31 + 41
    assert minutes.text_seconds(text, minutes.SLOWER) == 2 + 30 + 32 + 42


def parts(*cells):
    """The words of a page that are read, by part and speed."""
    found = {}
    for passage in minutes.passages(list(cells)):
        key = (passage.part, "slow" if passage.slow else "fast")
        found.setdefault(key, []).extend(passage.text.split())
    return {key: " ".join(text) for key, text in found.items() if text}


def test_folds_are_proofs_or_in_depth():
    text = f"a\n\n{FOLD.format('Proof of it', 'b')}\n\n{FOLD.format('More', 'c')}\n\nd"
    assert parts(markdown("m", text)) == {
        ("story", "fast"): "a d",
        ("proofs", "slow"): "b",
        ("in depth", "slow"): "c",
    }


def test_below_in_depth_all_is_in_depth_up_to_the_next_section():
    text = f"## In depth\n\na\n\n### b\n\n{FOLD.format('Proof of it', 'c')}"
    found = parts(markdown("m", text), code("c", "d"), markdown("n", "## Then\n\ne"))
    assert found == {
        ("in depth", "slow"): "## In depth a ### b c d",
        ("story", "fast"): "## Then e",
    }


OPEN = "a\n\n*Proof of Theorem 1.2.* b\n\nc $\\square$ d\n\ne"


def test_a_proof_is_a_proof_also_where_it_stands_open():
    proof = "*Proof of Theorem 1.2.* b c $\\square$ d"
    found = parts(markdown("m", OPEN))
    assert found == {("story", "fast"): "a e", ("story", "slow"): proof}


@pytest.mark.parametrize(
    "end", ["b $\\square$\n\nc", "b\n\n> **Lemma 1.3.** c", "b\n\n### c"]
)
def test_an_open_proof_runs_over_cells_up_to_its_square_a_box_or_a_heading(end):
    start = [markdown("m", "*Proof.* a"), code("x", "y")]
    found = parts(*start, markdown("n", end))
    assert found["story", "slow"].startswith("*Proof.* a y b")
    assert found["story", "fast"].endswith("c")
    # the control: without such an end it goes on
    assert parts(*start, markdown("n", "b\n\nc")) == {
        ("story", "slow"): "*Proof.* a y b c"
    }


def test_what_is_not_read():
    hidden = [
        code("i", "a", "hide-cell"),
        code("h", "a", "hide-input"),
        code("s", "a", "solution"),
        code("exercise-1", "a"),
        markdown("links", "a"),
        markdown("e", "## Exercises\n\na"),
        code("w", "a"),
        markdown("claims", "## The claims of this page\n\na"),
        markdown("r", "## References\n\na"),
        markdown("cite", "## How to cite this page\n\na"),
    ]
    line = markdown("t", "*Theorem page · story 3 minutes · runs in ten seconds.*")
    assert parts(line, *hidden) == {}
    assert parts(code("c", "a", "idea"), markdown("m", "## Other\n\na")) == {
        ("story", "fast"): "a ## Other a"
    }
    shown = minutes.of_page([code("c", "a = 1\n\nb = 2\n" * 15)])
    assert shown == minutes.Minutes(2.0, 2.0, 2.0)


def test_minutes_add_up_and_are_rounded_up():
    cells = [
        markdown("a", LONG),
        markdown("b", FOLD.format("Proof of it", LONG)),
        markdown("c", FOLD.format("Why", LONG)),
    ]
    assert minutes.of_page(cells) == pytest.approx((5, 15, 25))
    assert [minutes.round_up(x) for x in (0.1, 8.2, 9.5, 10.1, 15, 15.1)] == [
        *(1, 9, 10, 15, 15, 20)
    ]


@pytest.mark.parametrize(
    ("found", "seconds", "line"),
    [
        ((1, 1, 1), None, "*Survey page · story 1 minute (2 if this is new).*"),
        (
            (14.0, 41.0, 66.0),
            30,
            "*Survey page · story 15 minutes (25 if this is new), with folded "
            "proofs 45, everything 70 "
            "· runs in a minute.*",
        ),
    ],
)
def test_the_line_below_the_thesis(found, seconds, line):
    assert minutes.title_line("Survey page", minutes.Minutes(*found), seconds) == line


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (5, "ten seconds"),
        (5.1, "twenty seconds"),
        (15, "half a minute"),
        (15.1, "a minute"),
        (60, "two minutes"),
        (80, "3 minutes"),
    ],
)
def test_a_reader_has_twice_the_time_that_was_measured(seconds, words):
    assert minutes.run_words(seconds) == words


# ---------------------------------------------------------------- the tool writes them


@pytest.fixture
def book(tmp_path):
    for name in ("_config.yml", "pyproject.toml"):
        text = (minibook.ROOT / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "book").mkdir()
    (tmp_path / "book/ledger.json").write_text(
        json.dumps({"one/page": {"cpu_seconds": 4.0}}), encoding="utf-8"
    )
    (tmp_path / "book/intro.md").write_text(
        "Read [it](../notebooks/one/page.ipynb).\n\n"
        "| [It](../notebooks/one/page.ipynb), [gone](../notebooks/one/gone.ipynb) |\n",
        encoding="utf-8",
    )
    minibook.write_toc(tmp_path, "notebooks/one/page")
    minibook.write_page(
        tmp_path,
        markdown("title", "# A page\n\n*Its thesis.*\n\nTheorem page"),
        markdown("words", LONG),
        code("sum", "print(1 + 1)", "literal", "try-it", "moving", "idea", "mine"),
    )
    return tmp_path


def tool(book, *arguments):
    return notebooks.main(list(arguments), root=book)


def title(book):
    return notebooks.source(pages.read(book / minibook.PAGE)["cells"][0])


def test_clean_writes_true_minutes_and_check_knows_false_ones(book):
    tool(book, "clean")
    line = "*Theorem page · story 8 minutes (15 if this is new) · runs in ten seconds.*"
    assert title(book) == f"# A page\n\n*Its thesis.*\n\n{line}"
    assert tool(book, "check") == 0
    path = book / minibook.PAGE
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("story 8", "story 5"), encoding="utf-8")
    assert tool(book, "check") == 1
    assert tool(book, "clean") == 0 and path.read_text(encoding="utf-8") == text


def test_the_table_of_chapters_gets_the_minutes_and_nothing_else_does(book):
    intro = book / "book/intro.md"
    before = intro.read_text(encoding="utf-8")
    tool(book, "clean")
    after = intro.read_text(encoding="utf-8")
    assert after == before.replace("page.ipynb),", "page.ipynb) (8 min),")
    assert tool(book, "check") == 0
    intro.write_text(after.replace("8 min", "7 min"), encoding="utf-8")
    assert tool(book, "check") == 1
    tool(book, "clean")
    assert intro.read_text(encoding="utf-8") == after


def test_a_new_measurement_changes_the_line(book):
    tool(book, "clean")
    (book / "book/ledger.json").write_text("{}", encoding="utf-8")
    assert tool(book, "check") == 1
    tool(book, "run", "--ledger")
    assert "runs in ten seconds" in title(book)
    assert tool(book, "check") == 0
