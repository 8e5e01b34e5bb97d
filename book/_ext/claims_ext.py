"""Claims in the book: badges on the boxes, formal statements folded below them, the
pages made from the registry, claims.json.

The registry and the verdicts are read once a build.  All that they change on a
page has a digest, kept with Sphinx's environment: a page is read again when its
digest differs, although its source did not change.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import jinja2
import yaml
from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "_tools"))

import address  # noqa: E402  (these stand in the folder just named)
import boxes  # noqa: E402
import claims  # noqa: E402
import concordance  # noqa: E402
import formal  # noqa: E402
import graph  # noqa: E402
import page_cache  # noqa: E402
import pages  # noqa: E402
from portable import fold, fold_summary  # noqa: E402

STATUS, PROOFS = "book/status", "book/proofs"
GENERATED = {
    STATUS: ("counts", "graph", "status"),
    "book/errata": ("errata",),
    "book/with_the_paper": ("concordance",),
    PROOFS: ("example", "formal", "informal", "formal_uses"),
}  # what stands on each page, by template
PLACE = "<!-- claims: {} -->"  # the line of the page where it stands
HEADING = "The claims of this page"
FOLDED = {
    HEADING: "Each with its source, its evidence, and its badge",
    "How to cite this page": "An entry for BibTeX",
}
# Of nearly all claims, so that in a box they would say nothing; they stand in the table
# of the page and on the status page.
QUIET = ("proved", "machine-checked")
WHOLE_WORDS = (
    "Coq has checked a proof of the whole claim. It rests on no axiom. What follows is "
    "what to read: the definitions, and the statement."
)
GIVEN_WORDS = "{} is a hypothesis of the theorem: the proof takes it as given."
PRINTED = "As Coq prints it:"
WRITTEN = "As it is written, with comments:"
NOT_CHECKED = (
    "This text was changed, and Coq has not been asked since: it does not count as "
    "checked."
)
log = logging.getLogger(__name__)


class State(NamedTuple):
    """What one build shows: the claims, what came of them, and the text of the
    generated pages.
    """

    claims: list
    resolved: dict
    texts: dict  # template -> Markdown
    formal: dict  # id -> Formal
    held: set  # ids whose formal proofs Coq has accepted as they stand


class Formal(NamedTuple):
    """What the fold below a claim's box says."""

    summary: str
    words: list[str]  # a paragraph each
    printed: str  # by Coq; nothing if it was not checked as it stands
    code: str
    place: str  # the file and the line, as they are named
    url: str


def read_state(app) -> None:
    """Load registry and verdicts, or stop with one clear line."""
    root = Path(app.srcdir)
    if not (root / claims.REGISTRY).exists():
        log.warning("%s is missing: no claim is shown", claims.REGISTRY, type="claims")
        app.book_claims = State([], {}, render(root, [], {}, {}, set()), {}, set())
        return
    try:
        registry = claims.load(root / claims.REGISTRY)
    except ValueError as error:
        raise ExtensionError(f"{claims.REGISTRY}: {error}") from error
    held = formal.held(registry)
    texts = boxes.read(root)
    resolved = claims.resolve(
        registry,
        claims.read_verdicts(root / claims.VERDICTS),
        claims.keys(root),
        held,
        page_cache.failures(root, (claim.page for claim in registry)),
        claims.changed(registry, texts),
    )
    repository = address.repository_url(root).rstrip("/")
    folds = {
        claim.id: read_formal(claim, claim.id in held, repository)
        for claim in registry
        if claim.formal
    }
    try:
        texts = render(root, registry, resolved, folds, held)
    except ValueError as error:
        raise ExtensionError(f"{concordance.LIST}: {error}") from error
    app.book_claims = State(registry, resolved, texts, folds, held)


def read_formal(claim, checked: bool, repository: str) -> Formal:
    """The formal statement of a claim, with the definitions that it needs."""
    stated = "Formal statement" if claim.whole else "Formal statement of a part"
    covers = sentence(claim.formal["covers"])
    words = [] if claim.whole else [f"Formalised in part: {covers}"]
    if not checked:
        words.append(NOT_CHECKED)
    elif claim.whole:
        words.append(WHOLE_WORDS)
    if given := claim.formal.get("given"):
        words.append(GIVEN_WORDS.format(given))
    if remark := claim.formal.get("remark"):
        words.append(f"Remark: {sentence(remark)}")
    code, line = formal.reading(claim.formal, checked)
    place = f"proofs/{claim.formal['file']}"
    return Formal(
        f"{stated}, {'checked by Coq' if checked else 'not checked as it stands'}",
        words,
        formal.printed(claim.formal) if checked else "",
        code,
        f"{place}, line {line}",
        f"{repository}/blob/main/{place}#L{line}",
    )


def sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def render(
    root: Path, registry: list, resolved: dict, folds: dict, held: set
) -> dict[str, str]:
    """The Markdown of each generated part."""
    loader = jinja2.FileSystemLoader(HERE / "templates")
    environment = jinja2.Environment(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "quote": quote,
        "source": source_words,
        "escape": escape,
        "tally": tally,
        "breakable": breakable,
    }
    notes = unpublished(root)
    environment.tests["published"] = lambda claim: (
        "also" in claim.source or claim.source.get("work") not in notes
    )
    titles = {claim.page: page_title(root, claim.page) for claim in registry}
    words = {claim.id: claims.word(resolved[claim.id]) for claim in registry}
    context = {
        "claims": registry,
        "resolved": resolved,
        "tool": claims,
        "pages": titles,
        "users_of": {
            claim.id: [user for user in registry if claim.id in user.uses]
            for claim in registry
        },
        "graph": graph.draw(registry, words, titles) if registry else "",
        "repository": address.repository_url(root).rstrip("/"),
        "formal": folds,
        "held": held,
        "rests": formal.rests(registry),
        "said": said(root, registry),
        "chapters": chapters(root),
        "concordance": concordance.load(root, registry),
        "index": concordance,
    }
    parts = [part for page in GENERATED.values() for part in page]
    return {
        part: environment.get_template(f"{part}.md.j2").render(context)
        for part in parts
    }


def unpublished(root: Path) -> set[str]:
    """The works that the bibliography calls unpublished: slips there are notes to a
    source, and correct no paper.
    """
    path = root / "book/references.bib"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return set(re.findall(r"^@unpublished\{([^,]+),", text, re.M))


def said(root: Path, registry: list) -> dict[str, str]:
    """What each claim says, for pages that are not its own."""
    texts = boxes.read(root)
    return {c.id: boxes.elsewhere(texts.get(c.place, ""), c.page) for c in registry}


def page_title(root: Path, page: str) -> str:
    """The title of a notebook; its name while the notebook is not there."""
    path = root / "notebooks" / f"{page}.ipynb"
    return path.exists() and pages.title(pages.read(path)["cells"]) or page


def chapters(root: Path) -> dict[str, str]:
    """The folder of each chapter, and its name in the table of contents."""
    path = root / "_toc.yml"
    parts = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {
        entry["file"].split("/")[1]: part["caption"]
        for part in parts.get("parts", [])
        for entry in part["chapters"]
        if entry["file"].startswith("notebooks/")
    }


def quote(text: str) -> str:
    """Markdown block quote."""
    return "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())


def escape(text: str) -> str:
    """Plain text inside Markdown or an HTML attribute: nothing in it may start markup
    or end the attribute.
    """
    return "".join(
        char if char.isalnum() or char in " .,:;()/-" else f"&#{ord(char)};"
        for char in text
    )


def breakable(text: str) -> str:
    """Plain text that a narrow screen may break inside the name of a test."""
    return re.sub(r"(/|::|&#95;)", r"\1<wbr>", escape(text))


def tally(role: dict) -> str:
    """How many tests of a role had which outcome; which one failed stands among the
    reasons.
    """
    found = Counter(role.values())
    return ", ".join(f"{number} {outcome}" for outcome, number in sorted(found.items()))


def cited(source: dict) -> str:
    """Work, number and version of a source, in Markdown."""
    work = f"{{cite}}`{source['work']}`" if "work" in source else ""
    version = f"({source['version']})" if "version" in source else ""
    number = ", ".join(filter(None, [work, source.get("number")]))
    return f"{number} {version}".strip()


def source_words(claim) -> str:
    """Where a claim comes from, with its citation, in Markdown."""
    source = claim.source
    place = cited(source)
    if "also" in source:
        place += f"; also {cited(source['also'])}"
    return {
        "seen": place,
        "restated": f"{place}, as {source.get('through')} restates it",
        "recalled": (
            f"recalled from {place}; the wording was not compared with the text"
        ),
        "derived": f"derived in this book{', after ' + place if place else ''}",
    }[source["seen"]]


# ---------------------------------------- pages are read again when their claims change


def digests(state: State) -> dict[str, str]:
    """What each page takes from registry and verdicts, as a hash."""
    shown = {f"notebooks/{claim.page}": [] for claim in state.claims}
    for claim in state.claims:
        shown[f"notebooks/{claim.page}"].append(
            [
                claim.id,
                claim.anchor,
                claims.badges(claim, state.resolved[claim.id]),
                state.formal.get(claim.id),
            ]
        )
    texts = {name: json.dumps(value) for name, value in shown.items()}
    texts |= {
        name: "".join(state.texts[part] for part in parts)
        for name, parts in GENERATED.items()
    }
    return {
        name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()
    }


def outdated(app, env, added, changed, removed) -> set[str]:
    old, new = getattr(env, "claims_digests", {}), digests(app.book_claims)
    env.claims_digests = new
    return {
        name for name in old.keys() | new.keys() if old.get(name) != new.get(name)
    } & env.found_docs


def fill(app, docname: str, source: list[str]) -> None:
    """Put the generated parts into their pages."""
    for part in GENERATED.get(docname, ()):
        if PLACE.format(part) not in source[0]:
            log.warning(
                "the line %s is missing",
                PLACE.format(part),
                location=docname,
                type="claims",
            )
        source[0] = source[0].replace(PLACE.format(part), app.book_claims.texts[part])


# ---------------------------------------------------------------- badges


class PlaceClaims(SphinxTransform):
    """Give each claim's box its citable anchor and its badges, and the claims of the
    page theirs.
    """

    default_priority = (
        872  # after the boxes exist (870), before MyST resolves #anchors (879)
    )

    def apply(self, **kwargs):
        state = self.app.book_claims
        page = self.env.docname.removeprefix("notebooks/")
        for claim in claims.of_page(state.claims, page):
            box = self.box(claim.anchor)
            if box is None:
                log.warning(
                    "claim %s: no box has the id %s",
                    claim.id,
                    claim.anchor,
                    location=self.env.docname,
                    type="claims",
                )
                continue
            self.anchor(box, claim)
            title = box.next_node(nodes.title)
            title += badge_nodes(claim, state.resolved[claim.id], QUIET)
            if link := report_link(Path(self.app.srcdir), claim):
                title += link
            if claim.id in state.formal:
                below = formal_fold(state.formal[claim.id])
                box.parent.insert(box.parent.index(box) + 1, below)
        self.fill_table(
            {f"#{claims.slug(claim.id)}": claim for claim in state.claims},
            state.resolved,
        )

    def box(self, anchor: str):
        boxes = self.document.findall(
            lambda node: isinstance(node, nodes.Admonition) and anchor in node["ids"]
        )
        return next(boxes, None)

    def anchor(self, box, claim) -> None:
        """Make claim-... a target: of this page, of a page that names this one, and of
        any page by itself.
        """
        slug = claims.slug(claim.id)
        box["ids"].append(slug)
        box["names"].append(slug)
        self.document.ids[slug] = box
        self.document.nameids[slug] = slug
        self.document.nametypes[slug] = True
        slugs = self.env.metadata[self.env.docname].setdefault("myst_slugs", {})
        slugs[slug] = (box.line or 0, slug, claim.title)
        self.env.get_domain("std").note_hyperlink_target(
            slug, self.env.docname, slug, claim.title
        )

    def fill_table(self, by_link: dict, resolved: dict) -> None:
        for section in self.document.findall(nodes.section):
            if section.next_node(nodes.title).astext() != HEADING:
                continue
            for table in section.findall(nodes.table):
                table["classes"].append("claims-table")
                for code in list(table.findall(nodes.literal)):  # no break in mid-word
                    text = re.sub(r"([._])", r"\1<wbr>", html.escape(code.astext()))
                    shown = f'<code class="literal">{text}</code>'
                    code.replace_self(nodes.raw("", shown, format="html"))
            for link in list(section.findall(nodes.reference)):
                claim = by_link.get(link.get("refuri"))
                if claim and isinstance(link.parent.parent, nodes.entry):
                    link.parent += badge_nodes(claim, resolved[claim.id])


class FoldFurniture(SphinxTransform):
    """What each page repeats at its end is a line there, to be opened."""

    default_priority = 873  # after the table of claims is filled

    def apply(self, **kwargs):
        for section in self.document.findall(nodes.section):
            words = FOLDED.get(section.next_node(nodes.title).astext())
            if words and not section.next_node(fold):
                inside = section.children[1:]
                section.children = section.children[:1]
                made = fold("", fold_summary("", words))
                made += inside
                section += made


def report_link(root: Path, claim) -> nodes.reference | None:
    """An issue that knows what it is about; none where the book has no address."""
    if address.current(root) == ("OWNER", "REPO"):
        return None
    asked = {
        "title": f"{claim.id}: ",
        "body": f"Claim `{claim.id}` ({claim.title}), version {version(root)}.\n\n"
        "What is wrong or unclear, and where:\n",
    }
    url = f"{address.repository_url(root)}/issues/new?{urlencode(asked)}"
    words = "Say that this is wrong or unclear"
    return nodes.reference("", "?", refuri=url, classes=["headerlink"], reftitle=words)


def version(root: Path) -> str:
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"]["version"]


def badge_nodes(claim, resolution, left_out=()) -> list[nodes.Node]:
    """A space and a link for each badge; where it leads is filled in once all pages are
    known.
    """
    made = []
    for badge in claims.badges(claim, resolution):
        if badge.kind in left_out:
            continue
        link = nodes.reference(
            badge.text, badge.text, internal=True, reftitle=badge.title, claim=claim.id
        )
        link["classes"] = ["claim-badge", f"claim-{badge.kind}"]
        made += [nodes.Text(" "), link]
    return made


def formal_fold(found: Formal) -> fold:
    """What is folded below the box of a claim."""
    made = fold("", fold_summary("", found.summary), classes=["formal"])
    made += [nodes.paragraph("", words) for words in found.words]
    for name, code in ((PRINTED, found.printed), (WRITTEN, found.code)):
        if code:
            made += nodes.paragraph("", name)
            made += nodes.literal_block(code, code, language="none")
    file = nodes.reference("", found.place, refuri=found.url)
    how = nodes.reference("", "How to read it", internal=True, page=PROOFS)
    made += nodes.paragraph("", "", file, nodes.Text(". "), how, nodes.Text("."))
    return made


def lead(app, doctree, docname: str) -> None:
    """Lead every badge to the claim's entry on the status page, and every formal
    statement to the page that says how to read it.
    """
    for link in doctree.findall(
        lambda node: isinstance(node, nodes.reference) and "page" in node
    ):
        link["refuri"] = app.builder.get_relative_uri(docname, link["page"])
    for link in doctree.findall(
        lambda node: isinstance(node, nodes.reference) and "claim" in node
    ):
        target = link["claim"].replace(".", "-")
        link["refuri"] = (
            f"{app.builder.get_relative_uri(docname, STATUS)}#status-{target}"
        )


# ---------------------------------------------------------------- search


def name_boxes(app, doctree) -> None:
    """Let the search know each box by its number, its name and its claims."""
    page = app.env.docname.removeprefix("notebooks/")
    on_page = claims.of_page(app.book_claims.claims, page)
    for box in doctree.findall(nodes.admonition):
        if not box.get("number") or not box["ids"]:
            continue  # without an id, which stands twice: a warning has said so
        anchor = box["ids"][0]
        names = [claim.id for claim in on_page if claim.anchor == anchor]
        known = " · ".join([*box_names(box), *names])
        app.env.get_domain("std").note_object("statement", known, anchor, box)


def box_names(box) -> list[str]:
    """The number of a box, and its name if it has one."""
    parts = {
        kind: part.astext().strip()
        for part in box.next_node(nodes.title).findall(nodes.inline)
        for kind in part["classes"]
    }
    name = parts.get("box-name", "").removeprefix("(").removesuffix(")")
    return [words for words in (parts.get("box-label"), name) if words]


# ---------------------------------------------------------------- claims.json


def publish(app, exception) -> None:
    if exception is None and app.builder.format == "html":
        write_public(Path(app.srcdir), Path(app.outdir), app.book_claims)


def write_public(root: Path, folder: Path, state: State) -> None:
    """Write claims.json beside the pages."""
    made = claims.public(
        state.claims,
        state.resolved,
        texts=boxes.read(root),
        site=address.site_url(root),
        version=version(root),
        held=state.held,
    )
    pages.write_atomically(
        folder / "claims.json", json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    )


def setup(app):
    app.connect("builder-inited", read_state)
    app.connect("env-get-outdated", outdated)
    app.connect("source-read", fill)
    app.add_transform(PlaceClaims)
    app.add_transform(FoldFurniture)
    app.add_object_type("statement", "statement", objname="statement")
    app.connect("doctree-read", name_boxes)
    app.connect("doctree-resolved", lead)
    app.connect("build-finished", publish)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
