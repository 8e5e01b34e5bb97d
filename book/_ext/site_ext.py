"""What the site needs and _config.yml cannot say.

- Pages show what build.py kept of their run, and are read again when that is another.
- MathJax is vendored; without it formulas would fail in silence, so its absence raises.
- Theme options (setting them in _config.yml would replace those Jupyter Book makes).
- No page asks the network for anything, and none runs a script that it does not use.
- Pictures lie in files of their own, and are fetched when a reader comes near.
- A link into a fold opens it, and in print all folds stand open.
- A link to a statement shows it while a pointer rests on it.
- *Try it* answers, from a grid that was computed when the page was run.
- LEDGER-TABLE, alone on a line of a Markdown page, becomes the table of running times.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import struct
import sys
from pathlib import Path

from docutils import nodes
from sphinx.errors import ExtensionError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "_tools"))
import page_cache  # noqa: E402  (they stand in the folder just named)
import pages  # noqa: E402

LEDGER_MARK = "LEDGER-TABLE"
# Parts of names of files or of inline scripts, and of none of ours: "toggle" is not.
UNUSED_SCRIPTS = ("thebe", "togglebutton", "toggleHint", "toggleOpen")
# What formulas need; its whole bundle has a menu and more, at twice the weight.
MATHJAX = ("core", "input/tex", "output/chtml", "a11y/assistive-mml")
SVG_SIZE = re.compile(rb'<svg[^>]*? width="([\d.]+)pt" height="([\d.]+)pt"')
PICTURE = re.compile(r'(src|srcset)="data:image/(png|svg)(?:\+xml)?;base64,([\w+/=]+)"')


def take_pages(app) -> None:
    """Where each page is kept, and where it failed if it did."""
    root = Path(app.srcdir)
    app.book_pages = shelf = page_cache.Shelf(root)
    app.pages_shown = {
        path.relative_to(root).with_suffix("").as_posix(): (
            str(shelf.place(path).relative_to(root)),
            shelf.executed(path) is not None,
            shelf.failure(path),
        )
        for path in pages.notebooks(root)
    }


def outdated(app, env, added, changed, removed) -> set[str]:
    old, env.pages_shown = getattr(env, "pages_shown", {}), app.pages_shown
    return {
        page for page, shown in app.pages_shown.items() if old.get(page) != shown
    } & env.found_docs


def put_outputs(app, docname: str, source: list[str]) -> None:
    """Put what its cells gave into a page."""
    if docname in app.pages_shown:
        shelf, path = app.book_pages, Path(app.srcdir, f"{docname}.ipynb")
        page, why = json.loads(source[0]), app.pages_shown[docname][2]
        source[0] = json.dumps(page_cache.shown(page, shelf.executed(path), why))


def need_mathjax(app, config) -> None:
    """Raise if a file that typesetting needs is not in a static folder."""
    script = Path(config.mathjax_path)
    parts = [script.parent / f"{part}.js" for part in MATHJAX]
    font = script.parent / "output/chtml/fonts/woff-v2/MathJax_Main-Regular.woff"
    for name in (script, *parts, font):
        if not any(
            (Path(app.srcdir) / folder / name).is_file()
            for folder in config.html_static_path
        ):
            folders = ", ".join(config.html_static_path)
            raise ExtensionError(
                f"MathJax is missing: no {name.as_posix()} in {folders}"
            )


def set_theme(app, config) -> None:
    options = config.html_theme_options
    options["navbar_persistent"] = []  # else a second, empty bar with a search box
    options["show_toc_level"] = 2
    options["pygments_light_style"] = "a11y-high-contrast-light"
    options["pygments_dark_style"] = "a11y-high-contrast-dark"


def drop_unused_scripts(app, pagename, templatename, context, doctree) -> None:
    """Live-code scripts are not used here, and their loader runs twice."""

    def used(file) -> bool:
        text = f"{getattr(file, 'filename', '')} {file.attributes.get('body', '')}"
        return not any(name in text for name in UNUSED_SCRIPTS)

    context["script_files"] = [file for file in context["script_files"] if used(file)]
    context["css_files"] = [file for file in context["css_files"] if used(file)]


def set_pictures_apart(app, pagename, templatename, context, doctree) -> None:
    """Write the pictures that cells have made into files, named after what is in them:
    inline they are all sent before the first word is read.
    """

    def apart(match: re.Match) -> str:
        content = base64.b64decode(match[3])
        digest = hashlib.sha256(content).hexdigest()[:16]
        name = f"_images/{digest}.{match[2]}"
        path = Path(app.outdir, name)
        if not path.is_file():
            path.parent.mkdir(exist_ok=True)
            scratch = path.with_suffix(f".{os.getpid()}")  # pages are written in two
            scratch.write_bytes(content)
            os.replace(scratch, path)
        link = context["pathto"](name, 1)
        lazy = 'loading="lazy" ' if match[1] == "src" else ""
        return f'{lazy}{room_for(content)} {match[1]}="{link}"'

    if "body" in context:
        context["body"] = PICTURE.sub(apart, context["body"])


def room_for(content: bytes) -> str:
    """Width and height of a picture, so that nothing moves when it arrives."""
    if content.startswith(b"\x89PNG"):
        width, height = struct.unpack(">II", content[16:24])
    else:
        found = SVG_SIZE.search(content[:2000])
        if found is None:
            return ""
        width, height = (round(float(size) * 4 / 3) for size in found.groups())
    return f'width="{width}" height="{height}"'


# the search fetches each page that it finds for an excerpt; a browser refuses that on a
# disk
SEARCH_ON_DISK = (
    "if (location.protocol === 'file:') "
    "DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;"
)


def mend_roles(app, pagename, templatename, context, doctree) -> None:
    """docutils calls a bibliography a list of things that are no list items; screen
    readers stumble.
    """
    for role in (' role="list"', ' role="doc-biblioentry"'):
        context["body"] = context.get("body", "").replace(
            f'{role} class="citation', ' class="citation'
        )
        context["body"] = re.sub(
            rf'(<div class="citation"[^>]*){role}', r"\1", context["body"]
        )


CITED = re.compile(r'(href="bibliography\.html#[^"]*") title="[^"]*"')


def cite_once(app, pagename, templatename, context, doctree) -> None:
    """The status page cites a work hundreds of times: not whole each time."""
    if pagename == "book/status" and "body" in context:
        context["body"] = CITED.sub(r"\1", context["body"])


def ledger_path(root: Path) -> Path:
    return root / "book" / "ledger.json"


def ledger_table(root: Path) -> str:
    """The measured cost of every page as a Markdown table."""
    try:
        ledger = json.loads(ledger_path(root).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "*Not measured yet.*"
    rows, total = [], 0.0
    for path in pages.notebooks(root):
        name = pages.page_name(path, root)
        cost = ledger.get(name)
        if cost is None:
            continue
        total += cost["cpu_seconds"]
        title = pages.title(pages.read(path)["cells"]) or name
        rows.append(
            f"| [{title}](/notebooks/{name}.ipynb) | {cost['cpu_seconds']:.0f} "
            f"| {cost['peak_mb']} | {cost['cells']} |"
        )
    head = [
        "| Page | CPU seconds | Peak memory (MB) | Code cells |",
        "| --- | ---: | ---: | ---: |",
    ]
    foot = [f"| All pages | {total:.0f} | | |"] if len(rows) > 1 else []
    words = ledger.get("machine", "")
    return "\n".join(
        [
            *head,
            *rows,
            *foot,
            "",
            f"Measured with one thread on: {words}." if words else "",
        ]
    )


def fill_ledger(app, docname, source) -> None:
    lines = source[0].split("\n")
    if LEDGER_MARK not in (line.strip() for line in lines) or docname.startswith(
        "notebooks/"
    ):
        return
    table = ledger_table(Path(app.srcdir))
    source[0] = "\n".join(
        table if line.strip() == LEDGER_MARK else line for line in lines
    )
    app.env.note_dependency(str(ledger_path(Path(app.srcdir))))


PRINTS = "What it prints"  # stays folded while the code stands open


def fold(app, doctree) -> None:
    """Name what is folded, and fold a solution whole: its output would give the answer
    away.
    """
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") == "cell_code" and cell.get("hide_mode"):
            name = fold_name(cell)
            if name not in ("Code", PRINTS):
                cell["hide_mode"] = "all"
            cell["prompt_show"], cell["prompt_hide"] = name, name


def fold_name(cell: nodes.Element) -> str:
    """What the line says behind which a cell is folded."""
    if "tag_solution" in cell["classes"]:
        return "Solution"
    if cell["hide_mode"] == "output":
        return PRINTS
    if "tag_hide-cell" not in cell["classes"]:
        return "Code"
    if "%pip" in cell.astext():
        return "Set-up: the library"
    if "tag_nbval-check-output" not in cell["classes"]:
        return "Set-up"
    said = [part.astext() for part in cell.findall(is_output)]
    return check_name(" ".join(said))


def is_output(node: nodes.Node) -> bool:
    wanted = ("cell_code_output", "output")
    return isinstance(node, nodes.container) and node.get("nb_element") in wanted


def check_name(said: str) -> str:
    """What a check found: "Check: holds, 2 controls fail"."""
    holds, fails = (
        len(re.findall(rf"\b{word}\b", said)) for word in ("holds", "fails")
    )
    parts = ["holds"] if holds else []
    if fails:
        parts.append("1 control fails" if fails == 1 else f"{fails} controls fail")
    return f"Check: {', '.join(parts)}" if parts else "Check"


# MathJax fits formulas to the height of an x of the text around them. In a closed fold
# some browsers cannot measure it; exFactor says what it is in our font, in em.
# A centred formula with a number needs room for the number on both sides: too much on a
# phone. Formulas are typeset some at a time, so that one can read and scroll meanwhile;
# all at once if the address names a place, which would move. Where there are very many
# folds (the status page), what is folded waits until it is opened.
FORMULAS = """
if (document.querySelector('script[src*="mathjax/"]')) {
  const left = {displayAlign: "left", displayIndent: "0"};
  const ours = {exFactor: 0.475, ...(window.innerWidth < 576 ? left : {})};
  const typeset = async () => {
    const folds = [...document.querySelectorAll("details.fold")];
    const waits = folds.length > 100 ? folds.filter((fold) => !fold.open) : [];
    for (const fold of waits) {
      const now = () => MathJax.typesetPromise([fold]);
      fold.addEventListener("toggle", now, {once: true});
    }
    const all = [...document.querySelectorAll(".math")];
    const shown = (formula) => !formula.closest("details:not([open])");
    const formulas = waits.length ? all.filter(shown) : all;
    const some = location.hash ? formulas.length : 40;
    for (let k = 0; k < formulas.length; k += some) {
      await MathJax.typesetPromise(formulas.slice(k, k + some));
      await new Promise((next) => setTimeout(next));
    }
    // what is cut off scrolls by keyboard; tables may have grown by their formulas
    for (const formula of document.querySelectorAll('mjx-container[display="true"]')) {
      formula.tabIndex = 0;
    }
    for (const table of document.querySelectorAll(".pst-scrollable-table-container")) {
      if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
    }
  };
  window.MathJax = window.MathJax || {};
  window.MathJax.loader = {load: PARTS};
  window.MathJax.startup = {pageReady: typeset};
  window.MathJax.chtml = {...window.MathJax.chtml, ...ours};
}
""".replace("PARTS", json.dumps(MATHJAX))


def setup(app):
    app.connect("builder-inited", take_pages)
    app.connect("env-get-outdated", outdated)
    app.connect("source-read", put_outputs)
    app.connect("config-inited", need_mathjax)
    app.connect("config-inited", set_theme)
    app.connect("source-read", fill_ledger)
    app.connect("doctree-read", fold)
    app.connect("html-page-context", drop_unused_scripts, priority=900)
    app.connect("html-page-context", mend_roles)
    app.connect("html-page-context", cite_once)
    app.connect("html-page-context", set_pictures_apart)
    app.add_js_file(None, body=SEARCH_ON_DISK, priority=300)
    # after Sphinx has written window.MathJax
    app.add_js_file(None, body=FORMULAS, priority=900)
    app.add_js_file("folds.js", loading_method="defer")
    app.add_js_file("previews.js", loading_method="defer")
    app.add_js_file("try.js", loading_method="defer")
    app.add_css_file("custom.css")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
