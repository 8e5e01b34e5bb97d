"""The pages that lead a reader: what they print is true, and their links into pages
exist.
"""

from __future__ import annotations

import re
from pathlib import Path

import claims
import concordance
import pytest
from test_concordance import missing
from test_use_it import BLOCK, run

import notebooks

ROOT = Path(__file__).resolve().parents[1]
LEADING = (
    "errata",
    "intro",
    "notation",
    "open_problems",
    "prerequisites",
    "routes",
    "with_the_paper",
)
INTO = re.compile(r"\]\(\.\./notebooks/([\w/]+)\.ipynb(#[\w.-]+)\)")
CODE = re.compile(r"```python\n(.*?)```", re.S)
TIMED = re.compile(r"\]\(\.\./notebooks/([\w/]+)\.ipynb\) \((\d+) min\)")
ROUTE = re.compile(r"^## (.+)\n((?:(?!## ).*\n)*)", re.M)


def text(name: str) -> str:
    return (ROOT / "book" / f"{name}.md").read_text(encoding="utf-8")


def lost(source: str) -> list[str]:
    """Links into a page that name what it does not have."""
    own = {f"{c.page}#{claims.slug(c.id)}" for c in claims.load()}
    return missing({page + anchor for page, anchor in INTO.findall(source)} - own)


@pytest.mark.parametrize("name", LEADING)
def test_links_into_pages_lead_to_something(name):
    assert lost(text(name)) == []


def test_a_link_to_nothing_is_noticed():
    page = "../notebooks/path_decomposition/paths.ipynb"
    assert lost(f"[a]({page}#theorem-1.3) [b]({page}#claim-paths-order)") == []
    assert lost(f"[a]({page}#theorem-1.99)") == [
        "path_decomposition/paths#theorem-1.99"
    ]


def test_the_warm_ups_print_what_the_page_says():
    blocks = BLOCK.findall(text("prerequisites"))
    assert len(blocks) == text("prerequisites").count("```python") == 2
    assert run([code for code, _ in blocks]) == [said for _, said in blocks]


def test_the_code_of_open_problems_runs():
    """Each problem has three lines, and the theorem that they run holds."""
    page = text("open_problems")
    blocks = CODE.findall(page)
    assert len(blocks) == len(re.findall(r"^## \d+\. ", page, re.M)) == 9
    assert all(code.count("\n") == 3 for code in blocks)
    first = "from attnbook import theorems\n"
    said = run([first + code for code in blocks])
    assert not any("fails" in words for words in said)


def told_and_summed(routes: str) -> dict[str, tuple[int, int]]:
    """Of each route that tells its minutes: these, and the sum over its pages."""
    found = {}
    for name, route in ROUTE.findall(routes):
        if told := re.search(r"The stories take (\d+) minutes", route):
            summed = sum(int(number) for _, number in TIMED.findall(route))
            found[name] = (int(told[1]), summed)
    return found


def test_routes_tell_the_minutes_of_their_stories():
    routes = told_and_summed(text("routes"))
    assert len(routes) == 2 and all(told == summed for told, summed in routes.values())
    wrong = told_and_summed(text("routes").replace("(25 min)", "(26 min)", 1))
    assert any(told != summed for told, summed in wrong.values())
    for page, number in TIMED.findall(text("routes")):
        found = notebooks.page_minutes(ROOT / "notebooks" / f"{page}.ipynb")
        assert int(number) == found.rounded().story


def test_every_source_of_the_list_is_offered_at_the_top():
    sources = concordance.load(ROOT, claims.load())
    head = text("with_the_paper").split("##")[0]
    assert all(f"(#{source.anchor})" in head for source in sources)
    assert len({source.anchor for source in sources}) == len(sources) >= 5
