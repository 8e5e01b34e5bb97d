"""Book-only upgrades of plain Markdown, so that one source reads well everywhere.

A notebook holds no MyST directive.  What is plain text in Colab and on GitHub
becomes more in the book:

    > **Theorem 1.2 (Name).** For all ...      a theorem box, id theorem-1.2
    > **Exercise 1.2 (Name).** Show ...        an exercise box, id exercise-1.2
    > **Note.** ...                            a note (also Warning, Tip)
    $$ ... \\tag{1.3} $$                        an equation, id eq-1.3
    *Proof of Theorem 1.2.* ...                a paragraph, id proof-1.2
    **Figure 1.2.** The caption ...            a caption, id figure-1.2
    <details><summary>Proof of Theorem 1.2</summary>
                                               a fold, id proof-1.2

A fold ends with </details>; book/_tools/folds.py says how it is written, and a notebook
that writes it otherwise is warned of.  If the words of a fold name a proof, a paragraph
in it that begins with *Proof of Theorem 1.2.* needs no id of its own.

Every id is a target for plain links, `[Theorem 1.2](paths.ipynb#theorem-1.2)`,
which the build checks; an id that stands twice in the book is a warning.  Numbers once
were names and not an order; book/old_anchors.json leads from the ids of then to those
of now.
"""

from __future__ import annotations

import html
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "_tools"))
import folds  # noqa: E402  (both stand in the folder just named)
from boxes import KINDS, NUMBER, slug  # noqa: E402

log = logging.getLogger(__name__)

OLD_ANCHORS = "book/old_anchors.json"  # page -> id -> the id that it had
NOTES = {"Note": "note", "Warning": "warning", "Tip": "tip"}
BOX = re.compile(rf"({KINDS}) {NUMBER}(?=[\s.(]|$)")
PROOF = re.compile(rf"Proof(?: of (?:the )?(?:{KINDS}) {NUMBER})?(?:, [^.]*)?\.?$")
CAPTION = re.compile(rf"(Figure|Table) {NUMBER}\.?$")
PUNCTUATION = re.compile(r"[.,;:!?)\]’”-]+")
TAG = re.compile(r"\\tag\*?\{([^}]+)\}")


def complain(node: nodes.Node, message: str) -> None:
    log.warning(message, location=node, type="portable")


def first_inline(node: nodes.Node, kind: type) -> nodes.Element | None:
    """The first inline child if it is of this kind (text before it excludes it)."""
    first = next((n for n in node.children if n.astext().strip()), None)
    return first if isinstance(first, kind) else None


def replace_text(node: nodes.Text, text: str) -> None:
    """By identity: two texts of a paragraph may be equal."""
    siblings = node.parent.children
    at = next(k for k, sibling in enumerate(siblings) if sibling is node)
    node.parent[at] = nodes.Text(text)


def trim_end(node: nodes.Element) -> None:
    """Drop the full stop that ends a label such as `Theorem 1.2 (Name).`"""
    if node.children and isinstance(node[-1], nodes.Text):
        replace_text(node[-1], node[-1].astext().rstrip().removesuffix("."))


def trim_start(node: nodes.Element) -> None:
    if node.children and isinstance(node[0], nodes.Text):
        replace_text(node[0], node[0].astext().lstrip())


class fold(nodes.General, nodes.Element):
    """A passage that a reader opens; its first child says what is in it."""


class fold_summary(nodes.Part, nodes.TextElement):
    pass


def visit_fold(writer, node: fold) -> None:
    writer.body.append(writer.starttag(node, "details", CLASS="fold"))


def depart_fold(writer, node: fold) -> None:
    writer.body.append("</details>\n")


def visit_fold_summary(writer, node: fold_summary) -> None:
    writer.body.append(writer.starttag(node, "summary", ""))


def depart_fold_summary(writer, node: fold_summary) -> None:
    writer.body.append("</summary>\n")


class Upgrade(SphinxTransform):
    """All upgrades, in one walk each.  MyST resolves `#anchors` at 879, after us."""

    default_priority = 870

    def apply(self, **kwargs) -> None:
        # the last first: then what a fold holds is folded before the fold itself
        for tag in reversed(list(self.document.findall(nodes.raw))):
            self.fold(tag)
        for quote in list(self.document.findall(nodes.block_quote)):
            self.quote(quote)
        for block in list(self.document.findall(nodes.math_block)):
            self.equation(block)
        for formula in list(self.document.findall(nodes.math)):
            self.hold_punctuation(formula)
        statement = None
        for node in list(self.document.findall(nodes.Element)):
            if isinstance(node, nodes.admonition) and node.get("number"):
                statement = node["number"]
            elif isinstance(node, fold):
                self.folded_proof(node, statement)
            elif isinstance(node, nodes.paragraph):
                self.caption(node)
                self.proof(node, statement)

    def target(self, node: nodes.Element, ident: str, label: str) -> None:
        """Make `node` the target of links to `#ident` on this and other pages."""
        mine = self.env.metadata[self.env.docname].setdefault("portable_ids", {})
        if ident in mine or ident in self.document.ids:
            complain(node, f"the id {ident!r} stands twice on this page")
            return
        mine[ident] = node.line or 0
        node["ids"].append(ident)
        node["names"].append(ident)
        if old := self.env.old_anchors.get(self.env.docname, {}).get(ident):
            place = nodes.raw("", f'<span id="{old}"></span>', format="html")
            if isinstance(node, fold):  # inside, so that a link to it opens the fold
                node.insert(1, place)
            else:  # in a formula it would take room
                node.parent.insert(node.parent.index(node), place)
        self.document.note_explicit_target(node, node)
        # MyST looks here for links from other pages
        slugs = self.env.metadata[self.env.docname].setdefault("myst_slugs", {})
        slugs[ident] = (node.line or 0, ident, label)

    def fold(self, tag: nodes.raw) -> None:
        """Put what stands between the two tags of a fold into one node.

        A tag without its partner stays as it is: `warn_of_folds` has said so.
        """
        opening = folds.OPEN.fullmatch(tag.astext().strip())
        if not opening:
            return
        siblings = tag.parent.children
        start = siblings.index(tag)
        for end in range(start + 1, len(siblings)):
            if is_closing(siblings[end]):
                words = html.unescape(opening[1]).strip()
                made = fold("", fold_summary(words, words))
                made.source, made.line = tag.source, tag.line
                made += siblings[start + 1 : end]
                tag.parent.children[start : end + 1] = []
                tag.parent.insert(start, made)
                return

    def quote(self, quote: nodes.block_quote) -> None:
        head = quote.children[0] if quote.children else None
        lead = (
            first_inline(head, nodes.strong)
            if isinstance(head, nodes.paragraph)
            else None
        )
        if lead is None:
            return
        label = lead.astext()
        match = BOX.match(label)
        if match:
            box = nodes.admonition(classes=["proof", match[1].lower()], number=match[2])
        elif label.rstrip(".") in NOTES:
            box = nodes.admonition(classes=[NOTES[label.rstrip(".")]])
        else:
            if re.match(rf"({KINDS})\b", label):
                complain(
                    quote, f"{label!r} has no number: write **Theorem 1.2 (Name).**"
                )
            return
        box.source, box.line = quote.source, quote.line or head.line
        title = self.title(lead, match[0] if match else "")
        head.children = head.children[head.index(lead) + 1 :]
        trim_start(head)
        body = quote.children if head.children else quote.children[1:]
        box += [title, *body]
        quote.replace_self(box)
        if match:
            self.target(box, slug(match[1], match[2]), match[0])

    def title(self, lead: nodes.strong, label: str) -> nodes.title:
        """The title, its number apart from its name, formulas in it kept."""
        trim_end(lead)
        title = nodes.title()
        children = list(lead.children)
        if label and isinstance(children[0], nodes.Text):
            rest = children[0].astext()[len(label) :]
            title += nodes.inline("", label, classes=["box-label"])
            name = nodes.inline(
                "", "", nodes.Text(rest), *children[1:], classes=["box-name"]
            )
            children = [name] if name.astext().strip() else []
        title += children
        return title

    def equation(self, block: nodes.math_block) -> None:
        tags = TAG.findall(block.astext())
        if not tags:
            return
        if not block.get("nowrap"):
            # Sphinx would wrap the formula in `split`, where \tag breaks it
            tex = block.astext().strip()
            block.children = []
            block += nodes.Text(f"\\[{tex}\\]")
            block["nowrap"] = True
        for tag in tags:
            self.target(block, slug("eq", tag), f"({tag})")

    def hold_punctuation(self, formula: nodes.math) -> None:
        """Keep a formula and the punctuation behind it on one line; a browser would
        part them.
        """
        after = formula.next_node(siblings=True, descend=False)
        mark = (
            PUNCTUATION.match(after.astext()) if isinstance(after, nodes.Text) else None
        )
        if mark:
            replace_text(after, after.astext()[mark.end() :])
            held = nodes.inline("", "", classes=["nobreak"])
            formula.replace_self(held)
            held += [formula, nodes.Text(mark[0])]

    def proof(self, paragraph: nodes.paragraph, statement: str | None) -> None:
        lead = first_inline(paragraph, nodes.emphasis) or first_inline(
            paragraph, nodes.strong
        )
        match = PROOF.match(lead.astext()) if lead is not None else None
        if not match:
            return
        number = match[1] or statement
        if number is None:
            complain(paragraph, "a proof of what? write *Proof of Theorem 1.2.*")
            return
        paragraph["classes"].append("proof-begin")
        ident = slug("proof", number)
        if not any(ident in outer["ids"] for outer in folds_around(paragraph)):
            self.target(paragraph, ident, f"Proof of {number}")

    def folded_proof(self, node: fold, statement: str | None) -> None:
        """A fold whose words name a proof is the target of links to that proof."""
        match = PROOF.match(node[0].astext())
        if not match:
            return
        number = match[1] or statement
        if number is None:
            complain(node, "a proof of what? write Proof of Theorem 1.2")
            return
        self.target(node, slug("proof", number), f"Proof of {number}")

    def caption(self, paragraph: nodes.paragraph) -> None:
        lead = first_inline(paragraph, nodes.strong)
        match = CAPTION.match(lead.astext()) if lead is not None else None
        if match:
            paragraph["classes"].append("book-caption")
            self.target(paragraph, slug(match[1], match[2]), match[0].rstrip("."))


def is_closing(node: nodes.Node) -> bool:
    return isinstance(node, nodes.raw) and node.astext().strip() == folds.CLOSE


def folds_around(node: nodes.Node) -> Iterator[fold]:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, fold):
            yield node


def warn_of_folds(app, docname: str, source: list[str]) -> None:
    """Say what is wrong with the folds of a notebook, cell by cell."""
    if not app.env.doc2path(docname).endswith(".ipynb"):
        return
    for place, cell in enumerate(json.loads(source[0])["cells"]):
        if cell["cell_type"] != "markdown":
            continue
        for fault in folds.faults("".join(cell["source"])):
            name = cell.get("id", place)
            log.warning("cell %s: %s", name, fault, location=docname, type="portable")


def check_ids(app, env) -> None:
    """A number that stands on two pages makes every reference to it ambiguous."""
    places = defaultdict(list)
    for page, metadata in sorted(env.metadata.items()):
        for ident in metadata.get("portable_ids", {}):
            places[ident].append(page)
    for ident, pages in places.items():
        if len(pages) > 1:
            log.warning(
                "the id %r stands on several pages: %s",
                ident,
                ", ".join(pages),
                type="portable",
            )


def permalinks(app, doctree, page) -> None:
    """A link to itself behind the title of each box, as headings have."""
    if app.builder.format != "html":
        return
    for box in doctree.findall(nodes.admonition):
        if box["ids"] and box.get("number") and isinstance(box[0], nodes.title):
            link = nodes.reference(
                "",
                "#",
                refid=box["ids"][0],
                internal=True,
                classes=["headerlink"],
                reftitle="Link to this statement",
            )
            box[0] += link


def read_old_anchors(app) -> None:
    path = Path(app.srcdir, OLD_ANCHORS)
    pages = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    app.env.old_anchors = {f"notebooks/{page}": ids for page, ids in pages.items()}


def setup(app):
    app.add_node(fold, html=(visit_fold, depart_fold))
    app.add_node(fold_summary, html=(visit_fold_summary, depart_fold_summary))
    app.connect("builder-inited", read_old_anchors)
    app.connect("source-read", warn_of_folds)
    app.add_transform(Upgrade)
    app.connect("env-check-consistency", check_ids)
    app.connect("doctree-resolved", permalinks)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
