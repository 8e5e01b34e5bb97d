"""The page of the benchmarks: its tables and figures, made from the stored results when
the book is built.

The page holds a line <!-- bench: part --> for each part. All parts have a digest, kept
with Sphinx's environment: the page is read again when a stored result has changed,
although its source did not.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from sphinx.util import logging

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # bench is not installed
PAGE, PLACE = "book/benchmarks", "<!-- bench: {} -->"
log = logging.getLogger(__name__)


def stored(name: str) -> dict | None:
    """A stored result, None if there is none."""
    from attnbook.data import load_result

    try:
        return load_result(name)
    except ValueError:
        return None


def texts() -> dict[str, str]:
    """All parts of the page, by name."""
    from attnbook.figures import show
    from bench import JOBS, cases
    from bench import figures as draw
    from bench.goals import judge
    from bench.tables import goal_table, job_table, origin_table

    results = {
        f"bench_{job}": found for job in JOBS if (found := stored(f"bench_{job}"))
    }
    # What is no longer measured may still stand in a stored file.
    measured = {job: cases(job) for job in JOBS}
    records = [
        record
        for result in results.values()
        for record in result["result"]
        if record["case"] in measured[record["job"]]
    ]
    build = stored("book_build")
    made = {
        "goals": goal_table(
            judge([r for r in records if r["job"] != "scaling"]) + of_the_book(build)
        )
    }
    made |= {job: job_table([r for r in records if r["job"] == job]) for job in JOBS}
    made["roofline"] = show(
        draw.roofline([r for r in records if r["job"] != "scaling"]), alt=ROOFLINE
    ).data
    made["growth"] = show(draw.scaling(records), alt=GROWTH).data
    made["origin"] = origin_table(
        {**results, **({"book_build": build} if build else {})}
    )
    return made


def of_the_book(build: dict | None) -> list:
    """The goals of the book itself, judged; a book that is measured has no stored
    measurement yet.
    """
    from bench.goals import Goal, Judged

    ratios = build["result"]["ratios"] if build else {}
    found = {
        name: tuple(ratio[q] for q in ("low", "median", "high"))
        for name, ratio in ratios.items()
    }
    return [
        Judged(Goal(12, name, "book", "", None, target, False), found.get(name))
        for name, target in BOOK.items()
    ]


BOOK = {
    "cold over serial cold": 0.55,
    "warm, text, over serial cold": 1 / 15,
    "warm, code, over serial cold": 1 / 15,
    "import attnlib over import torch": 1.03,
}
ROOFLINE = (
    "Useful operations a second over operations a byte, doubly logarithmic: kernels of "
    "this book and their peers below two limits."
)
GROWTH = (
    "Four panels, doubly logarithmic: time over tokens, layers, sequences and width, a "
    "line a kernel, beside slopes one and two."
)


# ---------------------------------------------------------------- Sphinx


def read(app) -> None:
    """A book without the page (those of the tests) needs no benchmarks."""
    app.book_bench = texts() if Path(app.srcdir, f"{PAGE}.md").exists() else {}


def outdated(app, env, added, changed, removed) -> set[str]:
    old, new = (
        getattr(env, "bench_digest", None),
        hashlib.sha256(repr(app.book_bench).encode()).hexdigest(),
    )
    env.bench_digest = new
    return {PAGE} & env.found_docs if old != new else set()


def fill(app, docname: str, source: list[str]) -> None:
    """Put the parts into the page."""
    if docname != PAGE:
        return
    for part, text in app.book_bench.items():
        if PLACE.format(part) not in source[0]:
            log.warning(
                "the line %s is missing",
                PLACE.format(part),
                location=docname,
                type="bench",
            )
        source[0] = source[0].replace(PLACE.format(part), text)


def setup(app):
    app.connect("builder-inited", read)
    app.connect("env-get-outdated", outdated)
    app.connect("source-read", fill)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
