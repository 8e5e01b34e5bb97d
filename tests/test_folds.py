"""Folds in the book: what plain Markdown becomes, what the build refuses, and what a
browser opens. Each beside a control.
"""

from __future__ import annotations

import re

import folds
import minibook
import pytest
import test_site_pages as screen
from minibook import markdown

pytestmark = pytest.mark.wide
PAGE = "notebooks/one/folds"
WORDS = r"""# Folds

> **Theorem 1.3 (Main).** For all $x$, $x = x$.

<details><summary>Proof</summary>

By [(1.4)](#eq-1.4), as [Figure 1.5](#figure-1.5) shows.

$$
x = x \tag{1.4}
$$

| a | b |
| --- | --- |
| $x$ | 2 |

**Figure 1.5.** A caption.

> **Lemma 1.6 (Inside).** It is so.

<details><summary>Proof of Lemma 1.6 &amp; more</summary>

*Proof of Lemma 1.6.* Clear. $\square$

</details>

The end of the outer proof. $\square$

</details>

Between: the [proof](#proof-1.3), the [inner one](#proof-1.6).

> **Proposition 1.7.** As [Theorem 1.1](page.ipynb#theorem-1.1), by [proof](#proof-1.7).

<details><summary>Proof of Proposition 1.7, in two lines</summary>

*Proof of Proposition 1.7.* One, two. $\square$

</details>

<details><summary>Sharp constants</summary>

> **Corollary 1.8.** The constant is 1.

*Proof of Corollary 1.8.* Clear. $\square$

</details>

## The next section
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A small book with a page of folds, built without a warning."""
    root = minibook.make(tmp_path_factory.mktemp("folds"))
    filler = "\n\n".join(["A paragraph of many words, to scroll past. " * 20] * 12)
    minibook.write_page(
        root, markdown("words", WORDS), markdown("end", filler), name=f"{PAGE}.ipynb"
    )
    minibook.write_toc(root, "notebooks/one/page", PAGE)
    done = minibook.build(root)
    assert done.returncode == 0, done.stdout + done.stderr
    return root


@pytest.fixture(scope="module")
def page(built):
    return minibook.html(built, f"{PAGE}.html")


def fold(page, summary):
    """The text of a fold up to its end, or to that of a fold in it."""
    found = re.search(
        rf"<details[^>]*>\s*<summary>{summary}</summary>.*?</det", page, re.S
    )
    return found[0]


def test_a_fold_is_one_element_with_its_words_and_its_content(page):
    assert page.count('<details class="fold"') == 4 == page.count("</details>")
    outer = fold(page, "Proof")
    assert outer.startswith('<details class="fold" id="proof-1.3">')
    for part in ('id="eq-1.4"', 'id="figure-1.5"', "<table", 'id="lemma-1.6"'):
        assert part in outer, part
    inner = page.index("Proof of Lemma 1.6 &amp; more")
    assert inner < page.index("The end of the outer proof") < page.index("Between:")
    assert "The next section" in page.split("</details>")[-1]


def test_the_words_of_a_fold_name_its_proof_and_no_id_stands_twice(page):
    ids = re.findall(r'id="([^"]+)"', page)
    for ident in ("proof-1.3", "proof-1.7", "eq-1.4", "figure-1.5", "corollary-1.8"):
        assert ids.count(ident) == 1 and f'href="#{ident}"' in page, ident
    assert 'id="proof-1.7"' in fold(page, "Proof of Proposition 1.7, in two lines")
    # a fold whose words name no proof leaves the id to the paragraph in it
    assert '<details class="fold">' in fold(page, "Sharp constants")
    assert '<p class="proof-begin" id="proof-1.8">' in fold(page, "Sharp constants")
    assert '<p class="proof-begin" id="proof-1.6">' in page


BROKEN = {
    "open": "# Bad\n\n<details><summary>Never closed</summary>\n\nx",
    "what": "<details><summary>Proof</summary>\n\nx\n\n</details>",
    "twice": "<details><summary>Proof of Lemma 1.9</summary>\n\nx\n\n</details>\n\n"
    "*Proof of Lemma 1.9.* Again.",
}
SAID = (
    "cell open: the fold 'Never closed' is not closed in its cell",
    "a proof of what? write Proof of Theorem 1.2",
    "'proof-1.9' stands twice on this page",
)


def test_the_build_says_what_is_wrong_with_folds(tmp_path):
    root = minibook.make(tmp_path)
    cells = [markdown(name, text) for name, text in BROKEN.items()]
    minibook.write_page(root, *cells, name="notebooks/one/bad.ipynb")
    minibook.write_toc(root, "notebooks/one/page", "notebooks/one/bad")
    done = minibook.build(root)
    assert done.returncode == 1
    for complaint in SAID:
        assert complaint in done.stderr, f"{complaint}\n{done.stderr}"
    assert "Traceback" not in done.stderr


def test_code_that_shows_a_fold_is_no_fold():
    shown = "```html\n<details><summary></summary>\n```\n\nand `</details>` in a line"
    assert list(folds.faults(shown)) == []
    assert list(folds.faults(shown.replace("```html\n", "").replace("```", "")))
    assert [fold for _, fold in folds.with_folds(shown)] == [None] * 5


def test_lines_know_the_outermost_fold_they_stand_in():
    lines = dict(folds.with_folds(WORDS))
    assert lines["x = x \\tag{1.4}"] == "Proof"
    assert lines["*Proof of Lemma 1.6.* Clear. $\\square$"] == "Proof"
    assert lines["> **Corollary 1.8.** The constant is 1."] == "Sharp constants"
    assert lines["## The next section"] is None


# ---------------------------------------------------------------- in a browser


CLOSED = """() => [...document.querySelectorAll('.bd-article details:not([open])')].map(
  fold => fold.id || fold.querySelector('summary').textContent.trim())"""
HIDDEN = """() => [...document.querySelectorAll('.bd-article details > :last-child')]
  .filter(part => !part.checkVisibility()).length"""


@pytest.fixture
def look(built, browser):
    """What `act(page, address)` finds, and what the page complained of."""

    def found(act, **options):
        with screen.serving(built / "_build/html") as base:
            address = f"{base}{PAGE}.html"
            with screen.opened(browser, address, **options) as (page, heard):
                return act(page, address), list(heard)

    return found


def follow(page, address):
    """The folds that are closed after each of some steps."""
    seen = {"at first": page.evaluate(CLOSED)}
    for name in ("proof-1.3", "eq-1.4", "proof-1.6"):
        page.goto("about:blank")
        page.goto(f"{address}#{name}")
        page.wait_for_load_state("networkidle")
        seen[name] = page.evaluate(CLOSED)
    page.goto("about:blank")
    page.goto(address)
    for step in ("click", "the same again"):
        page.evaluate(
            "document.querySelectorAll('details').forEach(f => { f.open = false; })"
        )
        page.click('a[href="#proof-1.7"]')
        # behind what the click has set off, however slow that is
        page.evaluate("() => new Promise((done) => setTimeout(done, 100))")
        seen[step] = page.evaluate(CLOSED)
        seen[f"{step}, top"] = page.evaluate(
            "document.getElementById('proof-1.7').getBoundingClientRect().top"
        )
    return seen


@pytest.mark.browser
def test_links_into_folds_open_them(look):
    seen, heard = look(follow)
    assert heard == []
    everything = [
        "proof-1.3",
        "Proof of Lemma 1.6 & more",
        "proof-1.7",
        "Sharp constants",
    ]
    assert seen["at first"] == everything
    assert seen["proof-1.3"] == seen["eq-1.4"] == everything[1:]
    assert seen["proof-1.6"] == everything[2:]
    for step in ("click", "the same again"):
        assert seen[step] == [*everything[:2], everything[3]], step
        assert 0 <= seen[f"{step}, top"] < 900, step


def printed(page, address):
    screen = page.evaluate(HIDDEN)
    page.emulate_media(media="print")
    on_paper = page.evaluate(HIDDEN)
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    before = page.evaluate(CLOSED)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    return screen, on_paper, before, page.evaluate(CLOSED)


@pytest.mark.browser
def test_in_print_all_folds_stand_open(look):
    (screen, on_paper, before, after), _ = look(printed)
    assert screen == 4 == len(after)  # the control: on the screen they are closed
    assert on_paper == 0 and before == []


def looked_at(page, address):
    page.focus("details.fold > summary")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    page.keyboard.press("Enter")
    opened = page.evaluate("document.querySelector('details.fold').open")
    sizes = page.evaluate(
        """() => {
          const all = [...document.querySelectorAll('span.math mjx-container')];
          const size = formula => parseFloat(formula.style.fontSize);
          return [all.filter(f => f.closest('details')).map(size),
                  all.filter(f => !f.closest('details')).map(size)];
        }"""
    )
    page.evaluate(
        "document.querySelectorAll('details').forEach(f => { f.open = true; })"
    )
    wrong = page.evaluate(screen.FORMULAS) + page.evaluate(screen.LAYOUT)
    return outline, opened, sizes, wrong + screen.accessibility(page, colours=True)


@pytest.mark.browser
@pytest.mark.parametrize("width, mode", [(1280, "dark"), (390, "light")])
def test_folds_follow_the_keyboard_and_fit_the_screen(look, width, mode):
    found, _ = look(looked_at, width=width, mode=mode)
    outline, opened, sizes, wrong = found
    assert wrong == []
    assert outline == "solid" and opened
    # formulas are typeset while their fold is closed, and are as large as others
    inside, outside = sizes
    assert inside and outside
    assert all(abs(a - b) < 1 for a in inside for b in outside)
