"""The whole book as one PDF, printed by Chromium from the built site.

    python book/_tools/pdf.py

All pages are put into one document (pdf.js), because then Chromium itself makes the
links between them and embeds each font once. pypdf adds the outline and the page
numbers of the contents, and pikepdf packs the small objects that describe the text to
a screen reader: a tenth of the size. pdf_check.py reads the result again; only a book
in which nothing is amiss is written, and then the pages that offer it show the link.
"""

from __future__ import annotations

import contextlib
import functools
import html
import http.server
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import address
import pages
import pikepdf
import yaml
from pages import Problem
from pdf_check import faults, statements
from pypdf import PdfReader, PdfWriter
from pypdf.generic import Fit, NameObject

NAME = "expressive-power-of-attention.pdf"
LEFT_OUT = ("book/api", "book/api_theorems", "book/api_pages", "book/status")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 1_200_000  # ms
OFFER = re.compile(r'<p class="book-pdf".*?</p>', re.DOTALL)


# ---------------------------------------------------------------- printing


def parts(root: Path) -> list[dict]:
    """The parts of the book: a caption, and the names of its pages."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    found = [{"caption": "The book", "pages": [toc["root"]]}]
    found += [
        {"caption": part["caption"], "pages": [c["file"] for c in part["chapters"]]}
        for part in toc["parts"]
    ]
    for part in found:
        part["pages"] = [name for name in part["pages"] if name not in LEFT_OUT]
    return [part for part in found if part["pages"]]


def title_page(root: Path) -> str:
    """What stands on the first page: from CITATION.cff."""
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    title, version, day = cited["title"], cited["version"], cited["date-released"]
    authors = ", ".join(author["name"] for author in cited["authors"])
    site = address.site_url(root)
    citation = f"{authors} ({day[:4]}). {title}. Version {version}. {site}"
    return f"""<h1>{html.escape(title)}</h1>
<p>{html.escape(authors)}</p>
<p>Version {version}, {day}</p>
<p class="small">{html.escape(citation)}</p>
<p>Text and figures: CC BY 4.0. Code: MIT.</p>
<p>Proofs stand open, solutions at the end. A slider shows one of its pictures. Left out
are the reference of the library, the status of every claim, the code that draws the
figures, and the statements as Coq reads them; the book on the web has them:
<a href="{site}">{site}</a></p>"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address at which the site is shown to Chromium."""
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def chromium():
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        raise Problem("no Chromium here: the PDF is printed by it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


def printed(browser, site: Path, root: Path, book: list[dict], scratch: Path):
    """Print the book without page numbers in its contents, then those pages again with
    them; the two files and the outline.
    """
    here = Path(__file__)
    whole, contents = scratch / "whole.pdf", scratch / "contents.pdf"
    style = {"prefer_css_page_size": True, "print_background": True}
    told = {"front": title_page(root), "parts": book, "site": address.site_url(root)}
    with serving(site) as base:
        page = browser.new_page(color_scheme="light")
        page.set_default_timeout(PATIENCE)
        page.goto(f"{base}{with_formulas(site, book)}.html")
        page.evaluate("() => MathJax.startup.promise.then(() => true)")
        page.add_style_tag(content=here.with_suffix(".css").read_text(encoding="utf-8"))
        made = page.evaluate(here.with_suffix(".js").read_text("utf-8"), told)
        if made["dead"]:
            raise Problem(f"links to no place: {', '.join(made['dead'])}")
        page.pdf(path=whole, **style)
        numbers = page_numbers(PdfReader(whole))
        page.evaluate(
            """numbers => document.querySelectorAll(".book-contents .line").forEach(
              line => line.lastChild.textContent = numbers[line.hash.slice(1)])""",
            numbers,
        )
        before = numbers[book[0]["pages"][0].replace("/", "-")] - 1
        page.pdf(path=contents, page_ranges=f"1-{before}", **style)
        page.close()
    return whole, contents, made["outline"]


def with_formulas(site: Path, book: list[dict]) -> str:
    """A page that loads what typesets formulas: the book is put together there."""
    for name in (name for part in book for name in part["pages"]):
        if "mathjax/" in (site / f"{name}.html").read_text(encoding="utf-8"):
            return name
    raise Problem("no page has a formula")


def page_numbers(reader: PdfReader) -> dict[str, int]:
    """On which page each place lies that a link leads to, from 1."""
    found = reader.named_destinations.items()
    return {
        name.lstrip("/"): reader.get_destination_page_number(place) + 1
        for name, place in found
    }


# ---------------------------------------------------------------- binding


def bound(whole: Path, contents: Path, outline: list[dict], told: dict) -> PdfWriter:
    """The printed book with the numbered contents, an outline and its title."""
    writer = PdfWriter(clone_from=whole)
    for page, numbered in zip(writer.pages, PdfReader(contents).pages, strict=False):
        for key in ("/Contents", "/Resources"):
            page[NameObject(key)] = numbered.raw_get(key).clone(writer)
    places = PdfReader(whole).named_destinations
    numbers = page_numbers(PdfReader(whole))

    def entry(title: str, ident: str, above=None):
        return writer.add_outline_item(
            title=title,
            page_number=numbers[ident] - 1,
            parent=above,
            fit=Fit.xyz(left=0, top=places[f"/{ident}"].top),
        )

    for part in outline:
        above = entry(part["title"], part["pages"][0]["ident"])
        for page in part["pages"]:
            of_page = entry(page["title"], page["ident"], above)
            for heading in page["headings"]:
                entry(heading["title"], heading["ident"], of_page)
    writer.add_metadata({"/Title": told["title"], "/Author": told["author"]})
    return writer


# ---------------------------------------------------------------- the tool


def make(browser, site: Path, out: Path, root: Path, book: list[dict]) -> int:
    """Write the book, whole or not at all; how many pages it has."""
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    told = {"title": cited["title"], "author": cited["authors"][0]["name"]}
    names = [name for part in book for name in part["pages"]]
    for name in names:
        if not (site / f"{name}.html").is_file():
            raise Problem(f"no page {name} in {site}: build it first, by build.py")
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        scratch = Path(folder)
        whole, contents, outline = printed(browser, site, root, book, scratch)
        loose, made = scratch / "loose.pdf", scratch / out.name
        bound(whole, contents, outline, told).write(loose)
        with pikepdf.open(loose) as book_of_pages:
            packing = pikepdf.ObjectStreamMode.generate
            book_of_pages.save(made, object_stream_mode=packing)
        titles = [page["title"] for part in outline for page in part["pages"]]
        found = faults(made, titles, statements(root, names))
        if found:
            raise Problem("\n".join(["the PDF is not in order:", *found[:20]]))
        os.replace(made, out)
    return len(PdfReader(out).pages)


def offer(site: Path, out: Path, count: int) -> None:
    """Show the link on the pages that have a place for it."""
    size = out.stat().st_size / 1e6
    for path in sorted(site.rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        if OFFER.search(text):
            link = Path(os.path.relpath(out, path.parent)).as_posix()
            words = f"The whole book as a PDF: {count} pages, {size:.0f} MB"
            shown = f'<p class="book-pdf"><a href="{link}">{words}</a></p>'
            pages.write_atomically(path, OFFER.sub(shown, text))


def main() -> int:
    site = pages.ROOT / "_build" / "html"
    out = site / NAME
    try:
        with chromium() as browser:
            count = make(browser, site, out, pages.ROOT, parts(pages.ROOT))
    except Problem as problem:
        print(f"pdf: {problem}", file=sys.stderr)
        return 1
    offer(site, out, count)
    print(f"The book on paper: {out} ({count} pages)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
