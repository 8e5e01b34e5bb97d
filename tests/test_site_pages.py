"""Each page of the built book in a browser: formulas, layout, sliders, accessibility,
and what a visit weighs.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
from pathlib import Path

import pages
import pytest
from pdf import serving

ROOT = pages.ROOT
NAMES = [path.relative_to(ROOT).with_suffix("").as_posix() for path in pages.listed()]
pytestmark = pytest.mark.wide
LONG = ("book/api", "book/api_pages", "book/status")  # these begin
# One page of each kind: story with figures and folds, prose, long tables.
KINDS = ("notebooks/path_decomposition/paths", "book/intro", "book/with_the_paper")


def screen(browser, width: int, mode: str):
    """A context with a screen of so many pixels, light or dark."""
    return browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=mode
    )


@functools.cache
def tab(browser, width: int, mode: str):
    """One tab for all pages on such a screen: a new one takes as long as most pages."""
    return screen(browser, width, mode).new_page()


@contextlib.contextmanager
def opened(browser, url, width=1280, mode="light", offline=False):
    """A page in its own context, and the list of what it complained of while it
    loaded.
    """
    context = screen(browser, width, mode)
    context.set_offline(offline)
    try:
        with visited(context.new_page(), url) as seen:
            yield seen
    finally:
        context.close()


@contextlib.contextmanager
def visited(page, url):
    """A page in a tab, and the list of what it complained of while it loaded."""
    heard = []
    home = url.split("/")[2]

    def message(m):
        if not theme_note(m):
            heard.append(f"console: {m.text}")

    def response(r):
        if r.status >= 400:
            heard.append(f"{r.status}: {r.url}")

    def request(r):
        if not own(r.url, home):
            heard.append(f"external: {r.url}")

    listeners = {
        "console": message,
        "pageerror": lambda e: heard.append(f"error: {e}"),
        "requestfailed": lambda r: heard.append(f"failed: {r.url}"),
        "response": response,
        "request": request,
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    try:
        page.goto(url)
        page.wait_for_load_state("networkidle")
        page.wait_for_function(
            "!window.MathJax || (MathJax.startup && MathJax.startup.promise)"
        )
        page.evaluate(
            "() => window.MathJax ? MathJax.startup.promise.then(() => true) : true"
        )
        yield page, heard
    finally:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)


def theme_note(message) -> bool:
    """What the theme notes about itself in the console; no warning and no error is
    one.
    """
    return message.type == "log" and message.text.startswith("[PST]: ")


def own(url: str, home: str) -> bool:
    return url.startswith(("data:", "blob:", "about:")) or url.split("/")[2] == home


FORMULAS = """() => {
  const all = (query, from = document) => [...from.querySelectorAll(query)];
  const start = e => e.textContent.slice(0, 60);
  const wrong = all('mjx-merror, mjx-mtext[style*="red"]');
  const waits = e => all('details.fold').length > 100 && e.closest('details');
  const raw = all('.math').filter(e => !e.querySelector('mjx-container') && !waits(e));
  // a formula scrolls in its own container, or that in its column; either way a part is
  // out of sight
  const hidden = e => e.scrollWidth - e.clientWidth;
  const over = e =>
    Math.max(...[e, ...all(':scope > mjx-container', e)].map(hidden));
  const cut = all('div.math').filter(e => over(e) > 1);
  return [
    ...wrong.map(e => 'formula: ' + start(e)),
    ...raw.map(e => 'not typeset: ' + start(e)),
    ...cut.map(e => 'wider than its column: ' + e.id + ' ' + over(e) + ' px'),
  ];
}"""
LAYOUT = """() => {
  const wide = document.documentElement.scrollWidth - window.innerWidth, out = [];
  if (wide > 0) out.push('the page is ' + wide + ' px wider than the screen');
  const shown = [...document.images].filter(i => !i.hidden);
  for (const i of shown)
    if (i.getBoundingClientRect().right > window.innerWidth + 1)
      out.push('image wider than the screen: ' + i.alt);
  for (const i of shown)
    if (i.loading !== 'lazy' && !i.naturalWidth)
      out.push('broken image: ' + i.src.slice(0, 80));
  return out;
}"""
# What the theme itself does, on every page: these are named so that anything else is
# seen.
THEME = {"label-content-name-mismatch"}
# what axe finds depends on colours and on the layout of a phone; between these widths
# nothing changes
AXE = (390, 1280)
# These are of one style sheet and not of a page, and take longer than all other rules.
COLOURS = ("color-contrast", "link-in-text-block")
# MathJax makes ten elements of a letter, and Pygments one of a word: as text they take
# axe a fraction of the time. The colours of code are looked at as they are.
AS_TEXT = """colours => {
  for (const formula of document.querySelectorAll('mjx-container')) {
    formula.replaceChildren(formula.textContent);
    // as text it is no wider than it was
    formula.style.cssText = 'white-space: normal; overflow-wrap: anywhere';
  }
  if (!colours)
    for (const code of document.querySelectorAll('pre'))
      code.replaceChildren(code.textContent);
}"""


def accessibility(page, colours: bool) -> list[str]:
    """Critical and serious findings of axe-core, the theme's own left out."""
    from axe_playwright_python.sync_playwright import Axe

    rules = {name: {"enabled": colours} for name in COLOURS}
    rules["region"] = {"enabled": False}  # never serious, and a third of the time
    options = {"resultTypes": ["violations"], "rules": rules}
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{v['id']}: {v['nodes'][0]['html'][:160]}"
        for v in found
        if v["impact"] in ("critical", "serious") and v["id"] not in THEME
    ]


def problems(
    browser, url, width=1280, mode="light", *, name: str = "", colours: bool = True
) -> list[str]:
    """All that is wrong with a page as a reader has it on the screen; where
    ATTNLIB_PICTURES is set, a screenshot of it is kept under its name.
    """
    with visited(tab(browser, width, mode), url) as (page, heard):
        found = page.evaluate(FORMULAS) + page.evaluate(LAYOUT)
        if name and os.environ.get("ATTNLIB_PICTURES"):
            page.screenshot(path=picture(name, width, mode), full_page=True)
        for figure in page.query_selector_all("figure.attn-slider"):
            figure.scroll_into_view_if_needed()
            found += [f"slider: {fault}" for fault in slider_faults(page, figure)]
        found += heard
        # last: axe reads style sheets again, from wrong places
        if width in AXE:
            page.evaluate(AS_TEXT, colours)
            found += accessibility(page, colours)
        return found


def picture(name: str, width: int, mode: str) -> Path:
    """Where the screenshot of a page is kept for whoever wants to look:
    _build/screenshots.
    """
    folder = ROOT / "_build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name.replace('/', '-')}-{width}-{mode}.png"


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NAMES, key=LONG.__contains__, reverse=True))
def test_page_in_a_browser(browser, address, name):
    """As on a phone, where formulas and tables have least room; its sliders too."""
    url = f"{address}{name}.html"
    assert problems(browser, url, 390, name=name, colours=False) == []


@pytest.mark.browser
@pytest.mark.parametrize(
    "width, mode",
    [(1280, "light"), (1280, "dark"), (768, "light"), (1920, "light")],
)
@pytest.mark.parametrize("name", KINDS)
def test_page_in_every_variant(browser, address, name, width, mode):
    url = f"{address}{name}.html"
    assert problems(browser, url, width, mode, name=name) == []


BAD = """<!doctype html><html lang="en"><head><title>t</title></head><body><main>
<p class="math">\\(\\llbracket x \\rrbracket\\)</p>
<div class="math" style="width: 90px">
$$ a + b + c + d + e + f + g + h + i \\tag{1} $$
</div>
<img src="missing.png"><img src="https://example.invalid/x.png" alt="x">
<div style="width: 3000px">wide</div>
<script>console.error('oops'); setTimeout(() => { throw new Error('thrown') })</script>
<script>window.MathJax = {loader: {load: ["input/tex", "output/chtml"]}}</script>
<script src="_static/mathjax/startup.js"></script></main></body></html>"""


@pytest.mark.browser
def test_the_browser_test_can_fail(browser, tmp_path):
    shutil.copytree(ROOT / "book/_static/mathjax", tmp_path / "_static/mathjax")
    (tmp_path / "bad.html").write_text(BAD, encoding="utf-8")
    with serving(tmp_path) as base:
        found = "\n".join(problems(browser, base + "bad.html", 390))
    for part in (
        "formula:",
        "console: oops",
        "error: thrown",
        "404",
        "external: https://example.invalid",
        "wider than the screen",
        "wider than its column",
        "image-alt",
        "broken image",
    ):
        assert part in found, f"{part}\n{found}"


# ---------------------------------------------------------------- sliders


SHOWN = (
    "figure => [...figure.querySelectorAll('img')].findIndex(image => !image.hidden)"
)


def slider_faults(page, figure) -> list[str]:
    """A slider shows one frame, follows the arrow keys and the mouse, and says what it
    shows.
    """
    handle, said = (
        figure.query_selector("input[type=range]"),
        lambda: figure.query_selector("output").text_content(),
    )
    if handle is None or not handle.is_visible():
        return ["no handle"]
    labels, faults = figure.get_attribute("data-labels").split("|"), []

    def shown():
        return figure.evaluate(SHOWN)

    handle.focus()
    for key, wanted in (
        ("Home", 0),
        ("ArrowRight", 1),
        ("End", len(labels) - 1),
        ("ArrowLeft", len(labels) - 2),
    ):
        page.keyboard.press(key)
        if (shown(), said()) != (wanted, labels[wanted]):
            faults.append(f"{key}: frame {shown()} with {said()!r}, not {wanted}")
    box = handle.bounding_box()
    for share, wanted in ((0.01, 0), (0.99, len(labels) - 1)):
        page.mouse.click(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
        if shown() != wanted:
            faults.append(f"mouse at {share}: frame {shown()}, not {wanted}")
    return faults


def test_a_page_of_each_screen_has_a_slider(site):
    """The browser's tests above move the sliders that they meet."""
    text = (site / f"{KINDS[0]}.html").read_text(encoding="utf-8")
    assert "attn-slider" in text


# ---------------------------------------------------------------- weight


FIRST_VISIT, NEXT_PAGE, HTML = 2_500_000, 700_000, 750_000  # bytes
VISITED = (*KINDS, "book/status", "notebooks/synthesis/five_theorems_one_matrix")
NEXT = "notebooks/path_decomposition/rank_collapse"


def weight(page, url: str) -> int:
    """The bytes that a browser fetches for a page, besides what it has kept."""
    sizes, kept = {}, set()
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on(
        "Network.loadingFinished",
        lambda told: sizes.update({told["requestId"]: told["encodedDataLength"]}),
    )
    session.on("Network.requestServedFromCache", lambda e: kept.add(e["requestId"]))
    page.goto(url)
    page.wait_for_load_state("networkidle")
    page.evaluate(
        "() => window.MathJax ? MathJax.startup.promise.then(() => true) : true"
    )
    session.detach()
    return sum(size for request, size in sizes.items() if request not in kept)


@pytest.mark.browser
@pytest.mark.parametrize("name", VISITED)
def test_a_visit_is_light(browser, address, name):
    context = browser.new_context()
    page = context.new_page()
    assert weight(page, f"{address}{name}.html") <= FIRST_VISIT
    if name == VISITED[0]:  # of the others a browser has kept the same
        assert weight(page, f"{address}{NEXT}.html") <= NEXT_PAGE
    context.close()


def test_no_page_is_heavy_by_itself(site):
    """Pictures lie beside it: a reader who skims fetches few of them."""
    sizes = {name: (site / f"{name}.html").stat().st_size for name in NAMES}
    reference = {name for name in NAMES if name.startswith("book/api")}
    assert {n for n, size in sizes.items() if size > HTML} <= reference
    inline = [n for n in NAMES if "<img" in (site / f"{n}.html").read_text("utf-8")]
    assert inline  # there are pictures
    for name in inline:
        images = re.findall(r"<img[^>]*>", (site / f"{name}.html").read_text("utf-8"))
        assert not any('src="data:' in image for image in images)


@pytest.mark.wide
def test_what_is_folded_on_the_status_page_is_typeset_when_it_is_opened(
    browser, address
):
    page = browser.new_page()
    try:
        page.goto(f"{address}book/status.html#status-paths-decomposition")
        place = page.locator(":has(> #status-paths-decomposition) > details")
        place.locator("mjx-container").first.wait_for()
        other = page.locator(":has(> #status-paths-order) > details")
        assert (
            other.locator(".math").count()
            and not other.locator("mjx-container").count()
        )
        other.locator("summary").click()
        other.locator("mjx-container").first.wait_for()
    finally:
        page.close()


def test_old_anchors_lead_to_the_new_places(site):
    """Each stands once, and no formula is where its anchor takes room."""
    old = json.loads((ROOT / "book/old_anchors.json").read_text(encoding="utf-8"))
    for page, ids in old.items():
        text = (site / f"notebooks/{page}.html").read_text(encoding="utf-8")
        places = {f'id="{new}"': f'id="{before}"' for new, before in ids.items()}
        there = [before for new, before in places.items() if new in text]
        assert len(there) > 0.8 * len(ids)
        assert [before for before in there if text.count(before) != 1] == []
        assert not re.search(r'class="math[^>]*>\s*<span id="eq-', text)
