"""The book on paper: printed from a small site, read again, and refused if it is not in
order. `make pdf` reads the whole book in the same way.
"""

from __future__ import annotations

import shutil

import minibook
import pages
import pdf
import pdf_check
import pytest
from pypdf import PdfReader, PdfWriter

pytestmark = [pytest.mark.wide, pytest.mark.browser]
BOOK = [
    {"caption": "The book", "pages": ["book/intro"]},
    {"caption": "A part", "pages": ["notebooks/one/page"]},
]
TITLES = ["Start", "A page"]
WANTED = ["Theorem 1.1", "Lemma 1.2"]
PICTURE = """
import base64
from IPython.display import HTML
start = '<svg xmlns="http://www.w3.org/2000/svg" width="432pt" height="216pt">'
lines = start + '<path d="M0 0 L432 216" stroke="black"/></svg>'
inside = base64.b64encode(lines.encode()).decode()
address = 'data:image/svg+xml;base64,' + inside
HTML('<figure><img alt="A line." src="' + address + '"></figure>')
"""
HIDDEN = "a_name_in_a_folded_cell = 1"
SOLUTION = "# @title Solution\nprint('solved by', 6 * 7)"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A small site whose page has a figure, a folded cell and a solution."""
    root = minibook.make(tmp_path_factory.mktemp("paper"))
    figure = minibook.code("figure", PICTURE)
    folded = minibook.code("folded", HIDDEN, "hide-cell")
    solution = minibook.code("solution-1", SOLUTION, "hide-input", "solution")
    minibook.write_page(root, *minibook.CELLS, solution, figure, folded)
    done = minibook.build(root)
    assert done.returncode == 0, done.stdout + done.stderr
    return root / "_build/html"


@pytest.fixture(scope="module")
def paper(browser, site):
    out = site / pdf.NAME
    pdf.make(browser, site, out, pages.ROOT, BOOK)
    return out


def text(reader: PdfReader) -> str:
    return " ".join(" ".join(p.extract_text().split()) for p in reader.pages)


def test_a_book_on_paper_is_in_order(paper):
    assert pdf_check.faults(paper, TITLES, WANTED) == []
    reader = PdfReader(paper)
    words = text(reader)
    assert len(reader.pages) == 6  # title, contents, one page, two, and the solutions
    for words_of in ("Version", "CC BY 4.0", "Contents", "the value is 41", HIDDEN):
        assert words_of in words
    assert "Start 3" in words and "A page 4" in words  # numbers in the contents
    width, height = (float(side) for side in reader.pages[0].mediabox[2:])
    assert (round(width), round(height)) == (595, 842)  # A4, in points


def test_links_lead_to_their_page(paper):
    """From the first page of the book to a theorem on the second."""
    reader = PdfReader(paper)
    links = [note.get_object().get("/Dest") for note in reader.pages[2]["/Annots"]]
    to = "/notebooks-one-page--theorem-1.1"
    assert to in links
    place = reader.named_destinations[to]
    assert reader.get_destination_page_number(place) == 3


def test_solutions_stand_at_the_end(paper):
    *before, last = [" ".join(p.extract_text().split()) for p in PdfReader(paper).pages]
    assert "solved by 42" in last and "Exercise 1.1" in last
    assert not any("solved by" in words for words in before)
    assert "Solution" in before[-1] + before[-2]


def printed(browser, folder, body: str):
    """A page of its own on paper."""
    page = browser.new_page()
    page.set_content(f"<!doctype html><html lang='en'><body>{body}</body></html>")
    path = folder / "page.pdf"
    page.pdf(path=path)
    page.close()
    return path


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (r"<p>Let \(\frac12\) be.</p>", "not typeset"),
        (r"<p>$$ a \tag{1} $$</p>", "not typeset"),
        ('<a href="http://127.0.0.1:1/a.html">here</a>', "link to 'http://127.0.0.1"),
        ('<a href="file:///a.html">here</a>', "link to 'file:"),
        (r"<pre>cost = r'\frac12 $x$'</pre>", None),
    ],
)
def test_what_must_not_be_on_paper_is_found(browser, tmp_path, body, fault):
    found = pdf_check.faults(printed(browser, tmp_path, body * 2), [], [])
    found = [words for words in found if words != "only 1 pages"]
    assert found == [] if fault is None else any(fault in words for words in found)


def test_what_is_missing_on_paper_is_found(paper, tmp_path, monkeypatch):
    assert pdf_check.faults(paper, [*TITLES, "Lost"], [*WANTED, "Theorem 1.3"]) == [
        "missing: Theorem 1.3",
        "not in the outline: Lost",
    ]
    assert "only 6 pages" in pdf_check.faults(paper, TITLES * 3, [])
    writer = PdfWriter(clone_from=paper)
    del writer.root_object["/Dests"]
    writer.write(tmp_path / "dead.pdf")
    found = pdf_check.faults(tmp_path / "dead.pdf", TITLES, WANTED)
    assert any("dead link: /notebooks-one-page" in words for words in found)
    monkeypatch.setattr(pdf_check, "MOST_BYTES", 10_000)
    assert "are more than 10000" in pdf_check.faults(paper, TITLES, WANTED)[0]


def test_a_longer_number_is_another_theorem():
    assert pdf_check.says("By Theorem 1.1. Then", "Theorem 1.1")
    assert not pdf_check.says("By Theorem 1.12, and Theorem 1.1.2", "Theorem 1.1")


def test_every_claim_has_a_name_to_look_for():
    names = [path.relative_to(pages.ROOT).with_suffix("") for path in pages.listed()]
    found = pdf_check.statements(pages.ROOT, [name.as_posix() for name in names])
    assert "Theorem 1.3" in found and len(found) > 200
    assert pdf_check.statements(pages.ROOT, ["book/intro"]) == []


def test_a_book_that_is_not_in_order_is_not_written(browser, site, monkeypatch):
    monkeypatch.setattr(pdf, "statements", lambda *_: ["Theorem 9.9"])
    before = sorted(site.iterdir())
    with pytest.raises(pages.Problem, match=r"missing: Theorem 9\.9"):
        pdf.make(browser, site, site / "other.pdf", pages.ROOT, BOOK)
    lost = [{"caption": "A part", "pages": ["book/lost"]}]
    with pytest.raises(pages.Problem, match="no page book/lost"):
        pdf.make(browser, site, site / "other.pdf", pages.ROOT, lost)
    assert sorted(site.iterdir()) == before


def test_a_link_to_no_place_is_refused(browser, site, tmp_path):
    copy = shutil.copytree(site, tmp_path / "site")
    page = copy / "book/intro.html"
    text = page.read_text(encoding="utf-8")
    link = '<a href="../notebooks/one/page.html#theorem-9.9">lost</a></article>'
    page.write_text(text.replace("</article>", link), encoding="utf-8")
    with pytest.raises(pages.Problem, match="#notebooks-one-page--theorem-9.9"):
        pdf.make(browser, copy, copy / pdf.NAME, pages.ROOT, BOOK)


def test_the_site_offers_the_book_where_there_is_room(paper, tmp_path):
    (tmp_path / "book").mkdir()
    room, other = tmp_path / "book/cite.html", tmp_path / "index.html"
    room.write_text('<p>a</p><p class="book-pdf" hidden></p><p>b</p>', encoding="utf-8")
    other.write_text("<p>a</p>", encoding="utf-8")
    out = tmp_path / pdf.NAME
    out.write_bytes(paper.read_bytes())
    for count in (4, 5):  # made again, it is offered once
        pdf.offer(tmp_path, out, count)
    shown = room.read_text(encoding="utf-8")
    assert shown.count("<a ") == 1 and f'href="../{pdf.NAME}"' in shown
    assert "5 pages" in shown and other.read_text(encoding="utf-8") == "<p>a</p>"


def test_the_book_itself_has_room_for_the_offer():
    for name in ("intro", "cite"):
        text = (pages.ROOT / f"book/{name}.md").read_text(encoding="utf-8")
        assert pdf.OFFER.search(text)


@pytest.mark.parametrize("styled", [True, False])
def test_a_page_alone_prints_what_it_says(browser, site, tmp_path, styled):
    """What is folded is there; not so by the theme's rules alone."""
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    if not styled:
        page.route("**/custom.css*", lambda route: route.abort())
    with pdf.serving(site) as base:
        page.goto(f"{base}notebooks/one/page.html")
        page.wait_for_load_state("networkidle")
        page.evaluate("() => MathJax.startup.promise.then(() => true)")
        page.pdf(path=tmp_path / "page.pdf")
    context.close()
    words = text(PdfReader(tmp_path / "page.pdf"))
    assert "Theorem 1.1" in words
    assert (HIDDEN in words) == styled
