"""A book that is built again, of which some pages alone are read and written, is byte
for byte the book that is built from nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

from myst_nb.sphinx_ext import add_global_html_resources
from sphinx.search import js_index
from sphinx.util.index_entries import split_index_msg

SHOWN = re.compile(rb"_images/([\w.-]+)")


def bring_styles(app):
    """MyST-NB brings its style sheet once all pages are written, and pages name the
    version of a sheet that is there; so it comes first.
    """
    if app.builder.format == "html":
        Path(app.outdir, "_static").mkdir(parents=True, exist_ok=True)
        add_global_html_resources(app, None)


def keep_index_entries(app, env) -> None:
    """Sphinx gives the search the index entries of those pages alone that it builds
    anew (its issue 12599): names of functions were found no more. Here it gets all.
    """
    for_search = env._search_index_index_entries
    for_search.clear()
    for page, entries in sorted(env.domains["index"].entries.items()):
        for_search[page] = sorted(
            {
                (words, target or "", main)
                for kind, value, target, main, _ in entries
                for words in split_index_msg(kind, value)
            }
        )


def write_what_others_changed(app, env) -> list[str]:
    """All pages, if one of them has another title, place or statement: these stand in
    the sidebar, the links and the previews of others.
    """
    titles = {page: title.astext() for page, title in env.titles.items()}
    targets = {name: sorted(d.get_objects()) for name, d in env.domains.items()}
    parts = (titles, env.toctree_includes, targets)
    shown = repr([sorted(part.items()) for part in parts])
    before, env.shown_by_others = getattr(env, "shown_by_others", None), shown
    return [] if shown == before else sorted(env.all_docs)


def drop_leftovers(app, error) -> None:
    """A book that is built again keeps no page that it has lost, no picture that none
    of its pages shows, and no word that none of them has.
    """
    if error is not None or app.builder.format != "html":
        return
    out, shown = Path(app.outdir), set()
    for page in app.env.all_docs:
        html = Path(app.builder.get_outfilename(page))
        shown.update(SHOWN.findall(html.read_bytes()))
    for picture in (out / "_images").glob("*"):
        if picture.name.encode() not in shown:
            picture.unlink()
    for source in (out / "_sources").rglob("*.*"):
        page = source.relative_to(out / "_sources").with_suffix("").as_posix()
        if page not in app.env.all_docs:
            source.unlink()
            for suffix in (".html", ".md"):
                (out / page).with_suffix(suffix).unlink(missing_ok=True)
    search = out / "searchindex.js"
    index = js_index.loads(search.read_text(encoding="utf-8"))
    for terms in (index["terms"], index["titleterms"]):
        for word in [word for word, found in terms.items() if found == []]:
            del terms[word]
    search.write_text(js_index.dumps(index), encoding="utf-8")


def setup(app):
    app.connect("builder-inited", bring_styles)
    app.connect("env-updated", keep_index_entries)
    app.connect("env-updated", write_what_others_changed)
    app.connect("build-finished", drop_leftovers)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
