"""Sets the docstrings of attnlib for the API page.

A docstring is plain text that reads well in a terminal: a sentence, an indented
formula, then sections `Args: Returns: Raises: Cost: Source: Claim: Page:`.  Here it
becomes reStructuredText: nothing in it is taken for markup but ``code``, and the
page is a link.
"""

from __future__ import annotations

import re
import textwrap

SECTIONS = "Args|Returns|Yields|Raises|Cost|Source|Claim|Page|Note"
SECTION = re.compile(rf"^({SECTIONS}):[ \t]*", re.M)
INLINE_PAGE = re.compile(r"[ \t]{2,}(?=Page:)")
ARGUMENT = re.compile(r"(?:^|(?<=[.;,])\s{2,}|\n)(\w+(?:, ?\w+)*): ")
CODE = re.compile(r"(``.+?``)", re.S)


def escape(text: str) -> str:
    """Plain text as reStructuredText, ``code`` kept."""
    parts = CODE.split(text)
    return "".join(
        p if i % 2 else re.sub(r"([\\*`_|:<>])", r"\\\1", p)
        for i, p in enumerate(parts)
    )


def blocks(text: str) -> list[str]:
    """Paragraphs; indented ones become literal blocks."""
    out = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if block.startswith("    "):
            out += [
                ".. code-block:: text",
                "",
                textwrap.indent(textwrap.dedent(block), "    "),
                "",
            ]
        elif block.strip():
            out += [escape(textwrap.dedent(block)), ""]
    return out


def arguments(body: str) -> str:
    """`x: tokens.   r: size.` as one line for each argument."""
    flat = textwrap.dedent(body).strip()
    pieces = ARGUMENT.split(flat)
    if len(pieces) < 3:
        return escape(" ".join(flat.split()))
    lines = [
        f"| **{escape(n)}**: {escape(' '.join(t.split()))}"
        for n, t in zip(pieces[1::2], pieces[2::2])
    ]
    return "\n".join(lines)


def field(name: str, body: str) -> str:
    """One section as a field of a field list."""
    if name == "Args":
        text = arguments(body)
    elif name == "Page":
        text = ", ".join(f":doc:`/{page.strip()}`" for page in body.split(","))
    else:
        text = escape(" ".join(body.split()))
    return f":{name}:\n" + textwrap.indent(text, "    ")


def to_rst(docstring: str) -> str:
    """A docstring of the house as reStructuredText."""
    pieces = SECTION.split(INLINE_PAGE.sub("\n", docstring))
    out = blocks(pieces[0])
    out += [field(name, body) for name, body in zip(pieces[1::2], pieces[2::2])]
    return "\n".join(out) + "\n"


def process(app, what, name, obj, options, lines) -> None:
    lines[:] = to_rst("\n".join(lines)).split("\n")


def skip(app, what, name, obj, skipped, options) -> bool | None:
    """Fields of a NamedTuple stand in its signature; Python's own words on them say
    nothing.
    """
    return (
        True
        if str(getattr(obj, "__doc__", "")).startswith("Alias for field number")
        else None
    )


def setup(app):
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", process)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
