"""The concordance: where each statement of the sources stands in this book.

book/concordance.toml    the lines of each source, in its order
book/claims.toml         the claims that answer them, with numbers and evidence

The list stands beside the registry and not in it, because most lines of a source (a
question, a formula on the way, an experiment) have no claim of their own, and because
one claim may answer several lines.  What the registry knows is not said again: a line
takes number, name, badge and wording from its first claim.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import claims as registry

LIST = "book/concordance.toml"
# how a place treats a line that no claim answers
HOW = ("proved", "executed", "measured", "discussed")


@dataclass(frozen=True)
class Line:
    """One line of a source, and where it is treated."""

    place: str
    what: str
    claims: tuple[registry.Claim, ...] = ()
    at: tuple[str, ...] = ()  # pages with an anchor
    how: str = ""
    not_treated: str = ""  # why
    letters: str = ""
    known: str = ""  # "restated" or "recalled" if the source itself was not seen


@dataclass(frozen=True)
class Source:
    """A text that a reader may come with."""

    anchor: str
    title: str
    works: tuple[str, ...]
    seen: str  # what of it lay before us
    letters: str
    lines: tuple[Line, ...]


def load(root: Path, claims: Sequence[registry.Claim]) -> list[Source]:
    """The sources with their lines; none where there is no list or no claim.

    Raises ValueError that names the line and what is wrong with it.
    """
    path = Path(root) / LIST
    if not claims or not path.exists():
        return []
    by_id = {claim.id: claim for claim in claims}
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["source"]
    sources = [read_source(entry, by_id) for entry in entries]
    check_whole(sources, claims)
    return sources


def read_source(entry: dict, by_id: dict) -> Source:
    works = tuple(entry["works"])
    lines = tuple(read_line(line, works, by_id) for line in entry["line"])
    fields = {**entry, "works": works, "lines": lines}
    del fields["line"]
    return Source(**fields)


def read_line(entry: dict, works: tuple[str, ...], by_id: dict) -> Line:
    """A line, with what its first claim knows filled in."""
    name = entry.get("place") or ", ".join(entry.get("claims", [])) or str(entry)
    for unknown in set(entry.get("claims", [])) - by_id.keys():
        raise ValueError(f"{name}: there is no claim {unknown}")
    found = tuple(by_id[name] for name in entry.get("claims", []))
    fields = {"place": "", "what": "", **entry, "claims": found}
    fields["at"] = tuple(entry.get("at", []))
    if found and found[0].source.get("work") in works:
        source = found[0].source
        fields["known"] = "" if fields["place"] else mark(source)
        fields["place"] = fields["place"] or source.get("number", "")
        fields["what"] = fields["what"] or found[0].title
    line = Line(**fields)
    check_line(line, name)
    return line


def mark(source: dict) -> str:
    """What a table says beside a place that was not compared with the source."""
    return source["seen"] if source["seen"] in ("restated", "recalled") else ""


def check_line(line: Line, name: str) -> None:
    """Raise ValueError where a line contradicts itself."""
    need(line.place and line.what, name, "say place and what")
    need(
        line.claims or line.at or line.not_treated,
        name,
        "name a claim or a place, or say why it is not treated",
    )
    need(
        not (line.not_treated and (line.claims or line.how)),
        name,
        "it is treated, or it is not",
    )
    treated_at = bool(line.at) and not line.not_treated
    need(bool(line.how) == treated_at, name, "'how' goes with the place in 'at'")
    need(line.how in ("", *HOW), name, f"'how' is one of {', '.join(HOW)}")
    need(all("#" in place for place in line.at), name, "a place has an anchor")


def check_whole(sources: list[Source], claims: Sequence[registry.Claim]) -> None:
    """Raise ValueError unless no line stands twice, and each claim from a source of
    the list stands in the table of that source and in no other.
    """
    names = [(line.place, line.what) for source in sources for line in source.lines]
    for place, what in names:
        need(names.count((place, what)) == 1, place, f"'{what}' stands twice")
    homes = {work: source for source in sources for work in source.works}
    for claim in claims:
        home = homes.get(claim.source.get("work"))
        if home is None:
            continue
        tables = [s for s in sources if any(claim in line.claims for line in s.lines)]
        where = " and ".join(source.title for source in tables) or "no table"
        need(tables == [home], claim.id, f"it belongs to {home.title}, not to {where}")


def need(condition: object, name: str, rule: str) -> None:
    if not condition:
        raise ValueError(f"{name}: {rule}")


def label(anchor: str) -> str:
    """What a link says that leads to a numbered thing; empty for a heading, whose
    title the build fills in.
    """
    kind, _, number = anchor.partition("-")
    if not re.fullmatch(r"\d+\.\d+", number):
        return ""
    return f"({number})" if kind == "eq" else f"{kind.capitalize()} {number}"


def others(
    sources: list[Source], claims: Sequence[registry.Claim]
) -> dict[str, list[registry.Claim]]:
    """The works that have no table, each with the claims that come from it."""
    ours = {work for source in sources for work in source.works}
    found: dict[str, list[registry.Claim]] = {}
    for claim in claims:
        work = claim.source.get("work")
        if work and work not in ours:
            found.setdefault(work, []).append(claim)
    return found
