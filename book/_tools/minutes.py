"""How long a page takes to read, by a rule and not by a guess.

The rule is meant for a graduate student who reads a page for the first time, pen in
hand for the proofs.

    prose                  180 words a minute
    a formula in a line    as 2 words
    a displayed formula    15 seconds a line
    a statement in a box   30 seconds for each of its parts, besides its words
    a figure               40 seconds, besides its caption
    code that shows        4 seconds a line
    Try it                 2 minutes

In proofs and in depth, words and formulas take twice as long; to whom all of it is new,
half as long again (in a trial).  Figures are counted by
their captions.  Nothing is counted for code that is folded away or hidden, for
exercises with their solutions, or for what is generated or looked up at the end:
claims, references, citation.

A page has three depths.

    in depth   what stands below `## In depth`, and every fold that is not a proof
    proofs     a fold whose words begin with "Proof"
    story      the rest; a proof that stands open in it, from the paragraph that begins
               with *Proof ...* to the one with its square, is read slowly, too

Below `## In depth` a proof belongs to what it proves.

Minutes are rounded up: to full ones below ten, to multiples of five above.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import folds

WORDS_A_MINUTE = 180
WORDS_OF_A_FORMULA = 2
SECONDS_OF_A_FORMULA_LINE = 15
SECONDS_OF_A_BOX = 30
SECONDS_OF_A_FIGURE = 40
SECONDS_OF_A_CODE_LINE = 4
SECONDS_OF_TRY_IT = 120
SLOWER = 2  # proofs, and what stands in depth
NEW = 1.5  # to whom all of it is new

STORY, PROOFS, DEPTH = "story", "proofs", "in depth"
IN_DEPTH = "In depth"
NOT_READ = {
    "Exercises",
    "The claims of this page",
    "References",
    "How to cite this page",
}
NOT_SHOWN = {"hide-cell", "hide-input", "solution"}

KIND = re.compile(r"^\*?((?:Theorem|Survey|Experiment) page)\b.*$", re.M)
SECTION = re.compile(r"## (.+?)\s*$")
BOX = re.compile(
    r"> \*\*(?:Theorem|Lemma|Proposition|Corollary|Definition|Algorithm) \d"
)
FURTHER_PART = re.compile(r"^>.*?\*\([b-z]\)\*", re.M)
PROOF = re.compile(r"(\*{1,2})Proof\b[^*]*\1")
SQUARE = r"\square"
CAPTION = re.compile(r"\*\*Figure \d")
QUOTED = re.compile(r"^> ?", re.M)
FENCED = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
DISPLAYED = re.compile(r"\$\$(.*?)\$\$", re.S)
MATRIX = re.compile(r"\\begin\{(\w*matrix|cases)\}.*?\\end\{\1\}", re.S)
INLINE = re.compile(r"\$[^$]+\$")
NOT_WORDS = re.compile(r"\]\([^)]*\)|<[^>]*>")  # where links lead, and HTML
WORD = re.compile(r"[^\W_][\w'’.-]*")

# What a page costs is measured on one machine; a reader's gets twice the time.
READERS_MACHINE = 2
RUNS = {
    10: "ten seconds",
    20: "twenty seconds",
    30: "half a minute",
    60: "a minute",
    120: "two minutes",
}


class Minutes(NamedTuple):
    """Minutes to read the story, the story with its proofs, and everything."""

    story: float
    proofs: float
    everything: float

    def rounded(self) -> Minutes:
        return Minutes(*(round_up(value) for value in self))


def round_up(value: float) -> int:
    return math.ceil(value) if value < 10 else 5 * math.ceil(value / 5)


def of_page(cells: list[dict]) -> Minutes:
    """The minutes of a page, not yet rounded."""
    seconds = dict.fromkeys((STORY, PROOFS, DEPTH), 0.0)
    for passage in passages(cells):
        seconds[passage.part] += passage.seconds()
    story = seconds[STORY] / 60
    proofs = story + seconds[PROOFS] / 60
    return Minutes(story, proofs, proofs + seconds[DEPTH] / 60)


# ---------------------------------------------------------------- seconds of a passage


class Passage(NamedTuple):
    """A stretch of a page that is read in one way: Markdown, or the code of a cell."""

    cell: dict
    part: str  # STORY, PROOFS or DEPTH
    slow: bool
    text: str

    def seconds(self) -> float:
        if self.cell["cell_type"] == "code":
            if "try-it" in self.cell.get("metadata", {}).get("tags", []):
                return SECONDS_OF_TRY_IT
            return SECONDS_OF_A_CODE_LINE * len(full_lines(self.text))
        return text_seconds(self.text, SLOWER if self.slow else 1)


def full_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def text_seconds(text: str, slower: float = 1) -> float:
    """Seconds to read Markdown; `slower` stretches its words and its formulas."""
    boxes = sum(1 for line in text.splitlines() if BOX.match(line))
    boxes += len(FURTHER_PART.findall(text))
    figures = sum(1 for line in text.splitlines() if CAPTION.match(line))
    text = FENCED.sub("", QUOTED.sub("", text))
    formula_lines = sum(rows(formula) for formula in DISPLAYED.findall(text))
    text = DISPLAYED.sub(" ", text)
    formulas = len(INLINE.findall(text))
    words = len(WORD.findall(NOT_WORDS.sub(" ", INLINE.sub(" ", text))))

    in_lines = (words + WORDS_OF_A_FORMULA * formulas) * 60 / WORDS_A_MINUTE
    displayed = formula_lines * SECONDS_OF_A_FORMULA_LINE
    pauses = boxes * SECONDS_OF_A_BOX + figures * SECONDS_OF_A_FIGURE
    return slower * (in_lines + displayed) + pauses


def rows(formula: str) -> int:
    """The lines of a displayed formula; a matrix or a case distinction counts as
    one.
    """
    return 1 + MATRIX.sub("", formula).count(r"\\")


# ---------------------------------------------------------------- what belongs where


def passages(cells: list[dict]) -> Iterator[Passage]:
    """What there is to read on a page, in order, cut where its depth changes."""
    place = Place()
    for cell in cells:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            if place.is_read and shows(cell):
                yield Passage(cell, *place.part(None), text)
        elif cell["id"] != "links":
            for (part, slow), lines in groupby(place.walk(text), key=itemgetter(0)):
                yield Passage(cell, part, slow, "\n".join(line for _, line in lines))


def shows(cell: dict) -> bool:
    """Whether the code of a cell is there to be read with the page."""
    tags = set(cell.get("metadata", {}).get("tags", []))
    return not tags & NOT_SHOWN and not cell["id"].startswith("exercise")


class Place:
    """Where on a page one is, as its lines go by."""

    def __init__(self) -> None:
        self.section = ""
        self.proving = False  # within a proof that stands open
        self.ending = False  # in the paragraph with its square

    @property
    def is_read(self) -> bool:
        return self.section not in NOT_READ

    def part(self, fold: str | None) -> tuple[str, bool]:
        """The part to which a line belongs, and whether it is read slowly."""
        if self.section == IN_DEPTH:
            return DEPTH, True
        if fold is not None:
            return (PROOFS if fold.startswith("Proof") else DEPTH), True
        return STORY, self.proving

    def walk(self, text: str) -> Iterator[tuple[tuple[str, bool], str]]:
        """The lines of a Markdown cell that are read, each with its part."""
        for line, fold in folds.with_folds(text):
            if fold is None:
                self.step(line)
            if self.is_read and not KIND.match(line):
                yield self.part(fold), line
        self.step("")  # the end of a cell ends its last paragraph

    def step(self, line: str) -> None:
        if heading := SECTION.match(line):
            self.section = heading[1]
        if self.ending and not line.strip():
            self.proving = self.ending = False
        if line.startswith("#") or BOX.match(line):
            self.proving = self.ending = False
        if PROOF.match(line):
            self.proving = True
        if self.proving and SQUARE in line:
            self.ending = True


# ---------------------------------------------------------------- in words


def title_line(kind: str, minutes: Minutes, cpu_seconds: float | None) -> str:
    """The line below a page's thesis: its kind, the minutes to read, the time to
    run.
    """
    story, proofs, everything = minutes.rounded()
    words = [f"story {story} minute{'s' * (story != 1)}"]
    if (new := round_up(NEW * minutes.story)) != story:
        words[0] += f" ({new} if this is new)"
    if proofs != story:
        words.append(f"with folded proofs {proofs}")
    if everything != proofs:
        words.append(f"everything {everything}")
    parts = [kind, ", ".join(words)]
    if cpu_seconds is not None:
        parts.append(f"runs in {run_words(cpu_seconds)}")
    return f"*{' · '.join(parts)}.*"


def run_words(cpu_seconds: float) -> str:
    needed = READERS_MACHINE * cpu_seconds
    fitting = (words for limit, words in RUNS.items() if needed <= limit)
    return next(fitting, f"{math.ceil(needed / 60)} minutes")
