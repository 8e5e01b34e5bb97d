"""For programs, and for those who quote: a Markdown twin of each page, llms.txt,
descriptions in plain text, canonical links.

A page a/b.html has its twin in a/b.md. There the badges of a claim stand as words in
its box, so that a quote keeps them. llms.txt at the root lists all pages.
"""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "_tools"))
import address  # noqa: E402  (these stand in the folder just named)
import boxes  # noqa: E402
import claims  # noqa: E402
import pages  # noqa: E402

BOX = re.compile(rf"^> \*\*({boxes.KINDS}) {boxes.NUMBER}[^\n]*?\*\*", re.M)
PICTURE = re.compile(r'<img alt="([^"]*)"')
FOLD = re.compile(r"<details[^>]*><summary>(.*?)</summary>|</details>")


# ---------------------------------------------------------------- plain text


def thesis(text: str) -> str:
    """The paragraph below the title of a page, as one line of Markdown."""
    paragraphs = [part.strip() for part in text.split("\n\n")]
    below = [part for part in paragraphs[1:] if re.match(r"[*\w\[]", part)]
    return " ".join(below[0].strip("*").split()) if below else ""


def plain(text: str) -> str:
    """Markdown and TeX as words, for a line in a list of results."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\\(?:mathrm|text|operatorname)\{([^}]*)\}", r"\1", text)
    text = re.sub(r"\\([lr])(ceil|floor)", "", text)
    text = re.sub(r"\\frac\{?([^{}])\}?\{?([^{}])\}?", r"\1/\2", text)
    text = re.sub(r"\\([A-Za-z]+) ?", r"\1 ", text)
    text = re.sub(r"[$*`{}\\]", "", text)
    return " ".join(text.split())


def short(text: str, most: int = 200) -> str:
    """The first sentences, as many as fit."""
    found = re.split(r"(?<=[.?!]) ", text)
    said = found[0]
    for sentence in found[1:]:
        if len(said) + len(sentence) >= most:
            break
        said += f" {sentence}"
    return said


def text_of(root: Path, path: Path) -> str:
    """The first cell of a notebook, or a page of Markdown."""
    if path.suffix != ".ipynb":
        return path.read_text(encoding="utf-8")
    return "".join(pages.read(path)["cells"][0]["source"])


def describe(app, pagename, templatename, context, doctree) -> None:
    """Descriptions by the thesis of the page, without TeX; before opengraph makes its
    own of the first words.
    """
    path = Path(app.srcdir, pagename)
    found = [p for s in (".ipynb", ".md") if (p := path.with_suffix(s)).is_file()]
    if not found or doctree is None:
        return
    said = short(plain(thesis(text_of(Path(app.srcdir), found[0]))))
    if said:
        context["meta"] = {**(context["meta"] or {}), "og:description": said}
        tag = f'<meta name="description" content="{html.escape(said)}" />'
        context["metatags"] = f"{context.get('metatags', '')}\n{tag}"


# ---------------------------------------------------------------- twins


def twin(root: Path, path: Path, state, site: str) -> str:
    """A page as Markdown, with the words of its badges."""
    name = path.relative_to(root).with_suffix("").as_posix()
    head = f"<!-- {site}{name}.html -->\n\n"
    if path.suffix != ".ipynb":
        text = path.read_text(encoding="utf-8")
        for part, made in state.texts.items():
            text = text.replace(f"<!-- claims: {part} -->", made)
        return head + text
    page = name.removeprefix("notebooks/")
    cells = [cell_text(cell) for cell in pages.read(path)["cells"]]
    text = "\n\n".join(filter(None, cells))
    text = FOLD.sub(lambda tag: f"**{tag[1]}**" if tag[1] else "", text)

    def with_badges(box: re.Match) -> str:
        anchor = boxes.slug(box[1], box[2])
        said = [
            f"{claim.id}: {', '.join(b.text for b in shown)}"
            for claim in claims.of_page(state.claims, page)
            if claim.anchor == anchor
            and (shown := claims.badges(claim, state.resolved[claim.id]))
        ]
        return f"{box[0]} [{'; '.join(said)}]" if said else box[0]

    return head + BOX.sub(with_badges, text) + "\n"


def cell_text(cell: dict) -> str:
    """A cell as Markdown: code between fences, what it printed below."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    said = "".join("".join(o.get("text", "")) for o in cell["outputs"])
    code = f"```python\n{source}\n```"
    return f"{code}\n\n```text\n{said.rstrip()}\n```" if said else code


def index(root: Path, site: str) -> str:
    """llms.txt: the pages by chapter, each with its twin and its thesis."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    front = pages.find(root, toc["root"])
    lines = [f"# {config['title']}", "", f"> {plain(thesis(text_of(root, front)))}", ""]
    lines += [
        f"Every claim with its evidence and badge: [claims.json]({site}claims.json). "
        "Cite a claim by its id; its anchor, `#claim-` and the id, is never reused.",
        "",
    ]
    parts = toc.get(
        "parts", [{"caption": "Pages", "chapters": toc.get("chapters", [])}]
    )
    for part in parts:
        lines += [f"## {part['caption']}", ""]
        for entry in part["chapters"]:
            text = text_of(root, pages.find(root, entry["file"]))
            title = plain(text.partition("\n")[0].removeprefix("# "))
            said = short(plain(thesis(text)))
            lines.append(f"- [{title}]({site}{entry['file']}.md): {said}")
        lines.append("")
    return "\n".join(lines)


def write(app, error) -> None:
    if error is not None or app.builder.format != "html":
        return
    root, out = Path(app.srcdir), Path(app.outdir)
    site = newest(root) if has_address(root) else ""
    for path in pages.listed(root):
        name = path.relative_to(root).with_suffix(".md")
        pages.write_atomically(out / name, twin(root, path, app.book_claims, site))
    pages.write_atomically(out / "llms.txt", index(root, site))
    if site:
        names = [p.relative_to(root).with_suffix(".html") for p in pages.listed(root)]
        places = "".join(f"{site}{n.as_posix()}\n" for n in names)
        pages.write_atomically(out / "sitemap.txt", places)


def has_address(root: Path) -> bool:
    return address.current(root) != ("OWNER", "REPO")


def newest(root: Path) -> str:
    """Where publish.py puts the newest version, which absolute links lead to."""
    return f"{address.site_url(root)}latest/"


def set_address(app, config) -> None:
    """Canonical links lead to the newest version, previews have a picture."""
    root = Path(app.srcdir)
    config.ogp_site_url = newest(root)
    config.ogp_image = f"{newest(root)}_static/cover.png"
    if has_address(root):
        config.html_baseurl = newest(root)


def setup(app):
    app.connect("config-inited", set_address)
    app.connect("html-page-context", describe, priority=400)
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
