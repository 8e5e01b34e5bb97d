"""The built book: it builds without a warning, its links lead somewhere, and what it
adds to the theme works in a browser. Its pages on the screen: test_site_pages.
"""

from __future__ import annotations

import functools
import html.parser
import io
import json
import re
import shutil
import urllib.parse
from pathlib import Path

import address as addresses
import minibook
import pages
import pdf
import pytest
from minibook import markdown
from pdf import serving
from pypdf import PdfReader
from test_site_pages import (
    FORMULAS,
    KINDS,
    NAMES,
    accessibility,
    opened,
    tab,
    visited,
)

ROOT = pages.ROOT
pytestmark = pytest.mark.wide


# ---------------------------------------------------------------- the book itself


@pytest.mark.slow
def test_the_book_builds_without_a_warning(built, site):
    log = (built[1] / "_build/build.log").read_text(encoding="utf-8")
    assert "build succeeded." in log and "WARNING" not in log
    for name in [*NAMES, "index", "search"]:
        assert (site / f"{name}.html").is_file()


def test_the_last_line_says_where_the_book_is(built, site):
    last = built[0].strip().splitlines()[-1]
    assert (
        str(site / "index.html") in last
        and "http.server" in last
        and "make serve" in last
    )


def test_no_page_shows_a_path_of_the_machine_or_a_warning(site):
    """What a cell writes to stderr, and folders of this machine, are not for
    readers.
    """
    unwanted = ("site-packages", str(ROOT), 'class="output stderr')
    found = [
        (name, words)
        for name in NAMES
        for text in [(site / f"{name}.html").read_text(encoding="utf-8")]
        for words in unwanted
        if words in text
    ]
    assert found == []


# ------------------------------------------------------- a small book, whole and broken


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A small book that builds: the control of all that follow."""
    root = minibook.make(tmp_path_factory.mktemp("whole"))
    done = minibook.build(root)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 to run" in done.stdout
    return root


def test_plain_markdown_becomes_boxes_with_ids(whole):
    page = minibook.html(whole)
    for ident in (
        "theorem-1.1",
        "lemma-1.2",
        "exercise-1.1",
        "eq-1.1",
        "proof-1.1",
        "proof-1.2",
        "figure-1.1",
    ):
        assert len(re.findall(rf'id="{ident}"', page)) == 1, ident
    for link in (
        'href="#eq-1.1"',
        'href="#theorem-1.1"',
        'href="#proof-1.1"',
        'href="#figure-1.1"',
    ):
        assert link in page, link
    assert 'href="../notebooks/one/page.html#theorem-1.1"' in minibook.html(
        whole, "book/intro.html"
    )


def test_boxes_keep_formulas_names_and_other_quotes(whole):
    page = minibook.html(whole)
    title = re.search(
        r'<div class="proof theorem admonition" id="theorem-1.1">\s*'
        r'<p class="admonition-title">(.*?)</p>',
        page,
        re.S,
    )[1]
    assert (
        "x^2" in title
        and "Theorem 1.1" in title
        and "A title with" in title
        and ")." not in title
    )
    assert re.search(
        r'<div class="proof lemma admonition"[^>]*>\s*<p class="admonition-title">'
        r'<span class="box-label">Lemma 1.2</span><a',
        page,
    )
    assert '<div class="note admonition">' in page
    assert re.search(
        r"<blockquote>\s*<div><p>An ordinary quote, <strong>bold</strong>", page
    )
    kept = (
        r'<span class="nobreak"><span class="math notranslate nohighlight">\(n\)</span>'
        ",</span> which holds"
    )
    assert kept in page
    assert "<em>One</em>. The <em>two</em>" in page  # two equal texts in a paragraph
    assert r"\(m\)</span>.</span> The <em>three</em>" in page
    assert r"\begin{split}" not in page and r"\tag{1.1}" in page


def test_the_build_says_everything_that_is_wrong(tmp_path):
    root = minibook.make(tmp_path)
    box = "> **Theorem 1.1 (Again).** x\n\n"
    bad = (
        f"# Bad\n\n{box}{box}> **Lemma.** no number\n\n"
        "[dead](page.ipynb#theorem-9.9) [gone](#nowhere) [no page](lost.ipynb)\n\n"
        "$$ a \\tag{2.1} $$\n\n$$ b \\tag{2.1} $$"
    )
    minibook.write_page(root, markdown("bad", bad), name="notebooks/one/bad.ipynb")
    minibook.write_page(
        root,
        markdown("proof", "# Proof\n\n*Proof.* Of nothing."),
        name="notebooks/one/proof.ipynb",
    )
    minibook.write_toc(
        root, "notebooks/one/page", "notebooks/one/bad", "notebooks/one/proof"
    )
    done = minibook.build(root)
    assert done.returncode == 1
    for complaint in (
        "'theorem-1.1' stands twice on this page",
        "'eq-2.1' stands twice on this page",
        "'Lemma.' has no number",
        "theorem-9.9",
        "nowhere",
        "lost.ipynb",
        "a proof of what?",
        "'theorem-1.1' stands on several pages: notebooks/one/bad, notebooks/one/page",
        "Traceback",
    ):
        told = complaint in done.stderr
        assert told == (complaint != "Traceback"), f"{complaint}\n{done.stderr[-3000:]}"


def test_missing_mathjax_stops_the_build(tmp_path):
    root = minibook.make(tmp_path)
    (root / "book/_static/mathjax/input/tex.js").unlink()
    done = minibook.build(root)
    assert done.returncode == 1 and "MathJax is missing" in done.stderr


def test_editing_the_library_runs_the_pages_again(tmp_path):
    root = minibook.make(tmp_path)
    assert minibook.build(root).returncode == 0 and "the value is 41" in minibook.html(
        root
    )
    minibook.set_value(root, 42)
    done = minibook.build(root)
    assert "1 to run" in done.stdout and "the value is 42" in minibook.html(root)
    minibook.set_value(root, 41)  # going back finds what was kept
    assert "0 to run" in minibook.build(
        root
    ).stdout and "the value is 41" in minibook.html(root)


# ---------------------------------------------------------------- search


CLAIM = """[[claim]]
id = "roads.sum"
page = "one/page"
anchor = "theorem-1.2"
title = "Roads add up"
source = { seen = "derived" }
kind = "identity"
status = "true"
evidence = { statement = "proof" }
proof = "proof-1.2"
since = "0.1.0"
"""
STATED = """# A page

> **Theorem 1.2 (Roads add up).** All is well.

*Proof of Theorem 1.2.* Clear.

> **Theorem 2.1 (Roads part).** Not used.

*Proof of Theorem 2.1.* Clear.
"""
# What else is named as a reader may ask.
RIVALS = "# Roads sum\n\n## Roads add up\n\nRoads sum.\n\n## Theorem 1.2\n\nSum."
ASKED = ("roads.sum", "Theorem 1.2", "roads add up", "Theorem 1.2 (Roads add up)")


def first_found(browser, folder: Path, asked: str) -> str:
    """The address of the first thing that the search finds."""
    query = urllib.parse.urlencode({"q": asked})
    page = tab(browser, 1280, "light")
    with serving(folder) as base, visited(page, f"{base}search.html?{query}"):
        page.wait_for_selector("#search-results li")
        link = page.query_selector("#search-results li a")
        return link.get_attribute("href").split("?")[0]


@pytest.mark.browser
def test_a_statement_is_found_first_by_number_name_and_claim(browser, tmp_path):
    root = minibook.make(tmp_path)
    (root / "book/claims.toml").write_text(CLAIM, encoding="utf-8")
    minibook.write_page(root, markdown("title", STATED))
    (root / "book/intro.md").write_text(RIVALS, encoding="utf-8")
    done = minibook.build(root)
    folder = root / "_build/html"
    assert (folder / "search.html").is_file(), done.stderr
    wanted = "notebooks/one/page.html#theorem-1.2"
    assert [first_found(browser, folder, asked) for asked in ASKED] == [wanted] * 4

    # the control: Sphinx' own scores find a claim first, and no number and no name
    scorer = folder / "_static/language_data.js"
    text = scorer.read_text(encoding="utf-8")
    assert "score + 1000" in text
    scorer.write_text(text.replace("score + 1000", "score"), encoding="utf-8")
    assert wanted not in [first_found(browser, folder, asked) for asked in ASKED[1:]]


@pytest.mark.browser
@pytest.mark.parametrize("asked", ["KV cache", "GQA", "oversmoothing"])
def test_pages_are_found_before_what_one_looks_up(browser, site, asked):
    assert first_found(browser, site, asked).startswith("notebooks/")


# ---------------------------------------------------------------- the front page


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    """The front page in a small book; its links all lead to that book's one page."""
    root = minibook.make(tmp_path_factory.mktemp("front"))
    text = (ROOT / "book/intro.md").read_text(encoding="utf-8")
    text = re.sub(r"\]\((?!_static|http)[^)]*\)", f"](../{minibook.PAGE})", text)
    (root / "book/intro.md").write_text(text, encoding="utf-8")
    done = minibook.build(root)
    assert done.returncode == 0, done.stderr
    return root / "_build/html"


IN_VIEW = """() => [...document.querySelectorAll("img[src$='rows.svg'], .doors a")].map(
  (shown) => shown.getBoundingClientRect().bottom <= window.innerHeight)"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_first_screen_shows_a_picture_and_three_doors(browser, front, width):
    with serving(front) as base, opened(browser, base + "book/intro.html") as (page, _):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(IN_VIEW) == [True] * 4
        page.set_viewport_size({"width": width, "height": 300})  # the control
        assert page.evaluate(IN_VIEW) == [False] * 4


# ---------------------------------------------------------------- previews


FAR = """# Far

By [it](page.ipynb#theorem-1.1), [this](#lemma-9.1), [(9.1)](#eq-9.1), [there](#there).

WORDS

> **Lemma 9.1.** Let $y = y$.

$$ y = z \\tag{9.1} $$

*Proof of Lemma 9.1.* Clear.

## There
"""
PREVIEW = ".preview:not([hidden])"
SHOWN_THERE = {"it": "Theorem 1.1", "this": "Lemma 9.1", "(9.1)": ""}


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    """A page with links to a statement of another page, and to what is far below."""
    root = minibook.make(tmp_path_factory.mktemp("far"))
    text = FAR.replace("WORDS", "Words.\n\n" * 60)
    minibook.write_page(root, markdown("far", text), name="notebooks/one/far.ipynb")
    minibook.write_toc(root, "notebooks/one/page", "notebooks/one/far")
    done = minibook.build(root)
    assert done.returncode == 0, done.stderr
    return root / "_build/html"


@pytest.mark.browser
def test_a_link_to_a_statement_shows_it(browser, far):
    """By pointer and by keyboard, typeset, with no id twice; Escape closes it."""
    url = "notebooks/one/far.html"
    with serving(far) as base, opened(browser, base + url) as (page, heard):
        for words, title in SHOWN_THERE.items():
            link = page.get_by_role("link", name=words, exact=True)
            for reach in (link.hover, link.focus):
                reach()
                page.wait_for_selector(f"{PREVIEW} mjx-container")
                assert title in page.inner_text(PREVIEW)
                assert page.evaluate(FORMULAS) == [] and repeated(page) == []
                page.keyboard.press("Escape")
                assert page.query_selector(PREVIEW) is None
        page.keyboard.press("Tab")  # the keyboard goes on in the text
        assert page.evaluate("document.activeElement.hash") == "#there"
        page.wait_for_timeout(600)  # the control: a heading is no statement
        assert page.query_selector(PREVIEW) is None and heard == []
        link.focus()
        page.wait_for_selector(PREVIEW)
        assert accessibility(page, colours=True) == []


def repeated(page) -> list[str]:
    """The ids that stand twice on a page."""
    return page.evaluate("""() => {
      const ids = [...document.querySelectorAll('[id]')].map((part) => part.id);
      return ids.filter((id, k) => ids.indexOf(id) < k);
    }""")


@pytest.mark.browser
def test_from_a_disk_only_the_same_page_is_shown(browser, far):
    address = (far / "notebooks/one/far.html").as_uri()
    with opened(browser, address, offline=True) as (page, heard):
        page.get_by_role("link", name="it", exact=True).hover()
        page.wait_for_timeout(600)
        assert page.query_selector(PREVIEW) is None
        page.get_by_role("link", name="this", exact=True).hover()
        page.wait_for_selector(PREVIEW)
        assert heard == []


@pytest.mark.browser
@pytest.mark.parametrize("touch", [True, False])
def test_a_touch_screen_has_no_previews(browser, far, touch):
    context = browser.new_context(has_touch=touch, is_mobile=touch)
    page = context.new_page()
    with serving(far) as base:
        page.goto(base + "notebooks/one/far.html")
        found = page.query_selector(".preview")
    context.close()
    assert (found is None) == touch


# ---------------------------------------------------------------- on paper


@pytest.mark.browser
def test_a_page_of_theorems_on_paper(browser, site, tmp_path):
    """All its theorems are there, no formula is raw, links lead somewhere (or it is not
    written), and its figures are lines. tests/test_pdf.py has the controls.
    """
    book = [{"caption": "A part", "pages": [KINDS[0]]}]
    assert len(pdf.statements(ROOT, [KINDS[0]])) > 5
    out = tmp_path / "page.pdf"
    pdf.make(browser, site, out, ROOT, book)
    assert [page for page in PdfReader(out).pages if page.images] == []


# -------------------------------------------------------------- links, downloads, Colab


class Page(html.parser.HTMLParser):
    """The links, the pictures and the ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes) -> None:
        found = dict(attributes)
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag == "img" and found.get("src"):
            self.links.append(found["src"])
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}


def dead_links(folder: Path) -> list[str]:
    """Links of a site that lead to no file of it, or to no place in the file, and
    pictures that are not there.
    """
    read = functools.cache(lambda path: Page(path.read_text(encoding="utf-8")))
    dead = []
    for path in sorted(folder.rglob("*.html")):
        for link in read(path).links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (
                (path.parent / urllib.parse.unquote(parts.path)).resolve()
                if parts.path
                else path
            )
            target = target / "index.html" if target.is_dir() else target
            fragment = urllib.parse.unquote(parts.fragment)
            if not target.is_file() or (
                fragment
                and target.suffix == ".html"
                and fragment not in read(target).ids
            ):
                dead.append(f"{path.relative_to(folder)}: {link}")
    return dead


def test_every_link_of_the_site_leads_somewhere(site):
    assert dead_links(site) == []


def test_a_dead_link_is_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here"></a><a href="#gone"></a><a href="b.html"></a>'
        '<a href="https://example.invalid/"></a></p><img src="c.png">',
        encoding="utf-8",
    )
    assert dead_links(tmp_path) == ["a.html: #gone", "a.html: b.html", "a.html: c.png"]


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name.startswith("notebooks/")]
)
def test_each_page_can_be_downloaded_and_opened_in_colab(site, name):
    links = Page((site / f"{name}.html").read_text(encoding="utf-8")).links
    colab = [link for link in links if link.startswith("https://colab.research.")]
    assert len(colab) >= 2 and set(colab) == {
        addresses.colab_url(f"{name}.ipynb")
    }  # the theme's button, and ours for phones
    [download] = {
        link
        for link in links
        if link.endswith(f"{Path(name).name}.ipynb")
        and not urllib.parse.urlsplit(link).scheme
    }
    copy = ((site / f"{name}.html").parent / download).resolve()
    assert json.loads(copy.read_text(encoding="utf-8")) == json.loads(
        (ROOT / f"{name}.ipynb").read_text(encoding="utf-8")
    )


@pytest.mark.browser
def test_the_story_of_a_page_prints_alone(browser, address):
    """By the second button of the menu; what is printed next is the whole again."""
    with opened(browser, f"{address}{KINDS[0]}.html") as (page, _):
        whole = len(PdfReader(io.BytesIO(page.pdf())).pages)
        page.evaluate("""() => {
          window.print = () => {};
          document.querySelectorAll('.btn-download-pdf-button')[1].click();
        }""")
        story = len(PdfReader(io.BytesIO(page.pdf())).pages)
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        again = len(PdfReader(io.BytesIO(page.pdf())).pages)
    assert 5 <= story < whole / 2 and again == whole


@pytest.mark.browser
@pytest.mark.slow
def test_a_copy_reads_and_searches_offline_from_the_disk(browser, site, tmp_path):
    copy = shutil.copytree(site, tmp_path / "a folder")
    for name in NAMES[-1:] + [n for n in NAMES if n.startswith("notebooks/")][:1]:
        with opened(browser, (copy / f"{name}.html").as_uri(), offline=True) as (
            page,
            heard,
        ):
            assert heard + page.evaluate(FORMULAS) == []
    search = (copy / "search.html").as_uri()
    with opened(browser, search + "?q=attention", offline=True) as (page, heard):
        page.wait_for_selector("#search-results li")
        assert heard == []
    with opened(browser, search + "?q=qqqqqqq", offline=True) as (page, heard):
        page.wait_for_function(
            "document.querySelector('#search-results')"
            ".textContent.includes('did not match')"
        )
        assert page.query_selector("#search-results li") is None
