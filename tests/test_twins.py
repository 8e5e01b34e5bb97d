"""What the site has for programs: Markdown twins, llms.txt, plain descriptions."""

from __future__ import annotations

import html
import re

import address
import claims
import pages
import pytest
import twins_ext


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r"in $\lceil\log_2 k\rceil$ layers", "in log _2 k layers"),
        (r"about $L/2$ *passes*", "about L/2 passes"),
        (r"a multiple of $\ln n$. [Now](a.md#b)", "a multiple of ln n. Now"),
        (r"$\frac12$ of `n`", "1/2 of n"),
    ],
)
def test_a_description_has_no_tex(text, words):
    assert twins_ext.plain(text) == words


def test_a_description_ends_with_a_sentence():
    text = "One is short. Two is not. " + "x" * 300 + "."
    assert twins_ext.short(text) == "One is short. Two is not."


@pytest.mark.wide
def test_each_page_has_a_twin_with_its_badges(site):
    known = claims.load()
    for path in pages.listed():
        name = path.relative_to(pages.ROOT).with_suffix(".md")
        text = (site / name).read_text(encoding="utf-8")
        assert text.count("<details") == 0 or path.suffix == ".md"
        if path.suffix == ".ipynb":
            for claim in claims.of_page(known, pages.page_name(path)):
                assert re.search(rf"^> \*\*.*\[.*{re.escape(claim.id)}: \w", text, re.M)


@pytest.mark.wide
def test_the_list_of_pages_leads_to_them(site):
    text = (site / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"\]\((?:https://[^/]+/[^/]+/latest/)?([^)]+)\): .{20}", text)
    assert len(links) == len(pages.listed()) - 1  # the front page is its title
    assert all((site / link).is_file() for link in links)


def test_absolute_links_lead_to_where_the_newest_version_is_put():
    text = twins_ext.index(pages.ROOT, twins_ext.newest(pages.ROOT))
    links = re.findall(r"\]\((.+?)\)", text)
    assert len(links) > 25
    assert all(link.startswith(f"{address.site_url()}latest/") for link in links)


@pytest.mark.wide
def test_each_page_describes_itself_in_words(site):
    for path in pages.notebooks():
        name = path.relative_to(pages.ROOT).with_suffix(".html")
        text = (site / name).read_text(encoding="utf-8")
        [said] = re.findall(r'<meta name="description" content="([^"]*)"', text)
        [shared] = re.findall(
            r'<meta property="og:description" content="([^"]*)"', text
        )
        assert html.unescape(said) == html.unescape(shared)
        assert len(said) > 40 and not re.search(r"[$\\{]", said)
