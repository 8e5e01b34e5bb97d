"""Sets the docstrings of attnlib for the API page.

A docstring is plain text in Google style that reads well in a terminal: a sentence, an
indented formula, then sections, each a header such as `Args:` over an indented body,
and last lines that begin with Cost, Source, Claim, Page or Note.
Here it becomes reStructuredText: nothing in it is taken for markup but ``code``, and
the page is a link.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap

HEADER = re.compile(r"^([A-Z]\w+):\n(?= )", re.M)
FOOT = re.compile(r"^(Cost|Source|Claim|Page|Note): (\S.*(?:\n    .*)*)", re.M)
ENTRY = re.compile(r"^(\w+(?:, \w+)*):\s", re.M)
CODE = re.compile(r"(``.+?``)", re.S)


def escape(text: str) -> str:
    """Plain text on one line as reStructuredText, ``code`` kept."""
    parts = CODE.split(" ".join(text.split()))
    parts[::2] = [re.sub(r"([\\*`_|:<>])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def paragraphs(text: str) -> str:
    """Paragraphs; indented ones become literal blocks."""
    out = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if block.startswith("    "):
            out.append(f".. code-block:: text\n\n{block}\n")
        else:
            out.append(f"{escape(block)}\n")
    return "\n".join(out)


def entries(body: str) -> str:
    """`name: text` with a hanging indent becomes a line for each name."""
    before, *pieces = ENTRY.split(textwrap.dedent(body))
    lines = [f"| {escape(before)}"] if before.strip() else []
    for name, text in zip(pieces[::2], pieces[1::2]):
        lines.append(f"| **{escape(name)}**: {escape(text)}")
    return "\n".join(lines)


def field(name: str, body: str) -> str:
    """One section as a field of a field list."""
    if name in ("Args", "Raises"):
        text = entries(body)
    elif name == "Page":
        text = ", ".join(f":doc:`/{page.strip()}`" for page in body.split(","))
    else:
        text = "\\ " + escape(body)  # without the escaped space `d.` would begin a list
    return f":{name}:\n" + textwrap.indent(text, "    ")


def to_rst(docstring: str) -> str:
    """A docstring of the house as reStructuredText."""
    last = FOOT.search(docstring)
    end = last.start() if last else len(docstring)
    start, *pieces = HEADER.split(docstring[:end])
    fields = [field(name, body) for name, body in zip(pieces[::2], pieces[1::2])]
    fields += [field(name, body) for name, body in FOOT.findall(docstring[end:])]
    return "\n".join([paragraphs(start), *fields]) + "\n"


def page_of(obj) -> str:
    """The section `Page` of the module that a function or class stands in, if it has
    one.
    """
    module = sys.modules.get(getattr(obj, "__module__", None))
    found = re.search(r"^Page: .*", inspect.getdoc(module) or "", re.M)
    return f"\n{found[0]}\n" if found else ""


def process(app, what, name, obj, options, lines) -> None:
    text = "\n".join(lines)
    if what in ("function", "class") and "\nPage: " not in text:
        text = text.rstrip() + page_of(obj)
    lines[:] = to_rst(text).split("\n")


def skip(app, what, name, obj, skipped, options) -> bool | None:
    """Leave out Python's words on fields of a NamedTuple: its signature has them. Of a
    page's theorems show the claims, and not what makes their cases.
    """
    words = str(getattr(obj, "__doc__", ""))
    if words.startswith("Alias for field number"):
        return True
    if inspect.isfunction(obj) and obj.__module__.startswith("attnbook.theorems."):
        theorems = sys.modules["attnbook.theorems"].THEOREMS.values()
        return True if all(obj is not t.function for t in theorems) else None
    return None


def setup(app):
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", process)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
