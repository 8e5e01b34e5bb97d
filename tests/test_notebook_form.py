"""The guide to a page, as far as a program can check it. Each rule stands beside cells
that break it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pages
import pytest
from minibook import code, markdown

import notebooks

ROOT = pages.ROOT
PAGES = pages.notebooks()
NUMBERED = r"Theorem|Lemma|Proposition|Corollary|Definition|Example|Remark|Algorithm"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MYST_ONLY = re.compile(
    r"```\{|^:::|\{[a-z][a-z:]*\}`|^\([\w-]+\)=|\$\$ *\([\w-]+\)", re.M
)
MACROS = re.compile(r"\\(?:newcommand|renewcommand|DeclareMathOperator|def)\b")
SELF_NUMBERED = re.compile(r"\\begin\{(?:align|equation|gather|multline)\*?\}")
UNKNOWN_TEX = re.compile(r"\\(?:bm|llbracket|rrbracket|mathbbm|coloneqq)\b")
CHECKED, SOLUTION = notebooks.CHECKED, notebooks.SOLUTION


def words(cells, kind="markdown"):
    return [
        (cell["id"], notebooks.source(cell))
        for cell in cells
        if cell["cell_type"] == kind
    ]


def text(cells):
    return "\n\n".join(source for _, source in words(cells))


def lines(source):
    return [line for line in source.splitlines() if line.strip()]


def own_code(cells):
    """Code cells that a reader reads: neither folded set-up nor solutions nor the cells
    where answers go.
    """
    return [
        c
        for c in cells
        if c["cell_type"] == "code"
        and not {SOLUTION, "hide-cell"} & set(notebooks.tags(c))
        and not c["id"].startswith("exercise")
    ]


# ---------------------------------------------------------------- rules: cells -> what is wrong


def portable(cells):
    """It reads well in Colab and on GitHub: no MyST, no macros, no numbers that count
    themselves.
    """
    for name, source in words(cells):
        for rule, what in (
            (MYST_ONLY, "MyST markup"),
            (MACROS, "a macro of its own"),
            (UNKNOWN_TEX, "TeX that MathJax lacks"),
            (
                SELF_NUMBERED,
                "an equation that numbers itself; write $$ with aligned and \\tag",
            ),
        ):
            if found := rule.search(source):
                yield f"{name}: {what}: {found[0]!r}"


def checked_cells(cells):
    """nbval compares them: they were run, they print, and say more than True."""
    found = [c for c in cells if CHECKED in notebooks.tags(c)]
    if not found:
        yield "no checked cell"
    for cell in found:
        printed = notebooks.printed(cell)
        if not cell["execution_count"] or not printed:
            yield f"{cell['id']}: never run; nbval would pass over it"
        if notebooks.source(cell).rstrip().endswith(";"):
            yield f"{cell['id']}: ends in a semicolon, which nbval does not heed"
        if printed and set(printed.split()) <= {"True", "False", "None"}:
            yield f"{cell['id']}: a bare truth value; print the numbers beside the verdict"


def checked_theorems(cells):
    """At least one checked cell a theorem."""
    theorems = re.findall(r"^> \*\*(?:Theorem) [\d.]*\d", text(cells), re.M)
    checks = [c for c in cells if CHECKED in notebooks.tags(c)]
    if len(checks) < len(theorems):
        yield f"{len(theorems)} theorems, {len(checks)} checked cells"


def sizes(cells):
    """At most 25 code cells and 150 lines of code besides exercises, 25 lines a
    cell.
    """
    own = own_code(cells)
    count = sum(len(lines(notebooks.source(c))) for c in own)
    if len(own) > 25:
        yield f"{len(own)} code cells, more than 25"
    if count > 150:
        yield f"{count} lines of code, more than 150"
    for name, source in words(cells, "code"):
        if len(source.splitlines()) > 25:
            yield f"{name}: {len(source.splitlines())} lines, more than 25"


def widths(cells):
    """Code that shows stays within the column; what a checked cell prints fits a
    phone.
    """
    for cell in own_code(cells):
        if "hide-input" not in notebooks.tags(cell):
            for line in notebooks.source(cell).splitlines():
                if len(line) > 88:
                    yield f"{cell['id']}: a line of {len(line)} characters, more than 88: {line.strip()[:40]}"
        for line in notebooks.printed(cell).splitlines():
            if len(line) > 52:
                yield f"{cell['id']}: prints {len(line)} characters, more than 52: {line[:40]}"


def opening(cells):
    """Title, thesis in one cell; its kind, and the minutes to read and to run."""
    source = notebooks.source(cells[0])
    paragraphs = [p for p in source.split("\n\n") if p.strip()]
    if not re.match(r"# \S", source) or len(re.findall(r"^# ", text(cells), re.M)) != 1:
        yield "the first cell needs the page's only title"
    if len(paragraphs) < 2 or len(paragraphs[1].split()) < 8:
        yield "no thesis below the title"
    if not re.search(r"\b(?:theorem|survey|experiment) page\b", source, re.I):
        yield "the kind of the page is not said (theorem, survey or experiment page)"
    if not re.search(r"minutes? to read.*to run", source, re.I | re.S):
        yield "minutes to read and to run are not said"
    if [c["id"] for c in cells[1:3]] != ["links", "setup"]:
        yield "after the title come the cells `links` and `setup`"


def goals(cells):
    """Three things that a reader can do afterwards, each with an exercise."""
    found = re.search(
        r"^## After this page you can\b.*?\n(.*?)(?=^## |\Z)", text(cells), re.M | re.S
    )
    items = (
        re.findall(
            r"^(?:[-*]|\d+\.) .*?(?=^(?:[-*]|\d+\.) |^\S|\Z)", found[1], re.M | re.S
        )
        if found
        else []
    )
    if len(items) != 3:
        yield f"'After this page you can' lists {len(items)} things, not 3"
    for item in items:
        if "#exercise-" not in item:
            yield f"no exercise for: {item.strip()[:60]}"


def folded(cells):
    """The first screen shows no set-up: cells that only import are folded, as are
    solutions.
    """
    for cell in (c for c in cells if c["cell_type"] == "code"):
        tags, body = notebooks.tags(cell), statements(cell)
        if (
            body
            and all(isinstance(s, (ast.Import, ast.ImportFrom)) for s in body)
            and "hide-cell" not in tags
        ):
            yield f"{cell['id']}: only imports, so it is tagged hide-cell"
        if cell["id"] == "setup" and "hide-cell" not in tags:
            yield "setup: not folded"


def statements(cell):
    return ast.parse(notebooks.without_magics(notebooks.source(cell))).body


def figures(cells):
    """Each figure has a text for those who do not see it, and a caption that begins
    with its number.
    """
    for cell, after in zip(cells, [*cells[1:], None]):
        if cell["cell_type"] != "code":
            continue
        calls = [
            n
            for s in statements(cell)
            for n in ast.walk(s)
            if isinstance(n, ast.Call)
            and ast.unparse(n.func) in ("figures.show", "figures.slider")
        ]
        for call in calls:
            alt = {k.arg: k.value for k in call.keywords}.get("alt")
            if alt is None or (
                isinstance(alt, ast.Constant) and len(str(alt.value)) < 20
            ):
                yield f"{cell['id']}: the figure has no alt text that says what it shows"
        if calls and not (
            after
            and re.match(r"\*\*Figure \d+(\.\d+)*\.\*\* \S", notebooks.source(after))
        ):
            yield f"{cell['id']}: the cell after it is no caption, **Figure 1.2.** ..."


def exercises(cells):
    """Three to five, each followed by a folded solution."""
    named = re.findall(r"^> \*\*Exercise ([\d.]*\d)", text(cells), re.M)
    solutions = [c for c in cells if SOLUTION in notebooks.tags(c)]
    if not 3 <= len(named) <= 5:
        yield f"{len(named)} exercises, not 3 to 5"
    if len(solutions) != len(named):
        yield f"{len(named)} exercises, {len(solutions)} solutions"
    for cell in solutions:
        if cell["cell_type"] == "code" and not notebooks.source(cell).startswith(
            "# @title Solution"
        ):
            yield f"{cell['id']}: does not begin with # @title Solution"


def controls(cells):
    """A check is worth what its control is worth: both are printed."""
    if not any(
        "control" in notebooks.printed(c).lower()
        or "control" in notebooks.source(c).lower()
        for c in cells
        if CHECKED in notebooks.tags(c)
    ):
        yield "no checked cell shows a control"


def endings(cells):
    """The claims of the page, its references, and how to cite it."""
    headings = re.findall(r"^## (.+)$", text(cells), re.M)
    for heading in ("The claims of this page", "References", "How to cite this page"):
        if heading not in headings:
            yield f"no section: {heading}"


RULES = (
    portable,
    checked_cells,
    checked_theorems,
    sizes,
    widths,
    opening,
    goals,
    folded,
    figures,
    exercises,
    controls,
    endings,
)


# ---------------------------------------------------------------- the pages follow the rules


@pytest.mark.parametrize("path", PAGES, ids=pages.page_name)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_page(path, rule):
    assert list(rule(pages.read(path)["cells"])) == []


def ran(cell, output):
    return cell | {
        "outputs": [{"output_type": "stream", "name": "stdout", "text": [output]}],
        "execution_count": 1,
    }


def checked(output, source="print(1)"):
    return ran(code("c", source, CHECKED), output)


SHOW = 'figures.show(draw(), alt="What the figure shows, in words.")'
CAPTION = markdown("cap", "**Figure 1.1.** Words.")
TITLE = "# T\n\n*A thesis that says in one sentence what comes.*\n\nA theorem page. 9 minutes to read, 9 seconds to run."
GOALS = "## After this page you can\n\n- a ([E](#exercise-1-1));\n- b ([E](#exercise-1-2));\n- c ([E](#exercise-1-3)).\n\nYou need x."
HEAD = [markdown("links", "x"), code("setup", "import attnlib", "hide-cell")]
EXERCISES = [markdown(f"e{i}", f"> **Exercise 1.{i} (A).** Do.") for i in (1, 2, 3)]
SOLUTIONS = [code(f"s{i}", "# @title Solution\n1", SOLUTION) for i in (1, 2, 3)]
ENDS = [
    markdown(
        "z", "## The claims of this page\n\n## References\n\n## How to cite this page"
    )
]

KEEPS_AND_BREAKS = [
    (
        portable,
        [markdown("m", "$$ x \\tag{1.1} $$")],
        [
            [markdown("m", "```{note}\nx\n```")],
            [markdown("m", "See {cite}`xie2021`.")],
            [markdown("m", ":::{note}\n:::")],
            [markdown("m", "(label)=\n# T")],
            [markdown("m", "$$ x $$ (eq)")],
            [markdown("m", "$\\newcommand{\\R}{x}$")],
            [markdown("m", "\\begin{align} x \\end{align}")],
            [markdown("m", "$\\bm{x}$")],
        ],
    ),
    (
        checked_cells,
        [checked("error 1e-15 <= 1e-12")],
        [
            [],
            [code("c", "print(1)", CHECKED)],
            [checked("1", "print(1);")],
            [checked("True\n")],
        ],
    ),
    (
        checked_theorems,
        [markdown("m", "> **Theorem 1.1.** x"), checked("1")],
        [[markdown("m", "> **Theorem 1.1.** x")]],
    ),
    (
        sizes,
        [code("c", "x = 1\n" * 25)],
        [
            [code("c", "x = 1\n" * 26)],
            [code(f"c{i}", "x = 1") for i in range(26)],
            [code(f"c{i}", "x = 1\n" * 25) for i in range(7)],
        ],
    ),
    (
        widths,
        [checked("1" * 52, "x" * 88), code("f", "x" * 200, "hide-input")],
        [[checked("1" * 53)], [code("c", "x" * 89)], [code("c", "x\n" + "y" * 90)]],
    ),
    (
        opening,
        [markdown("t", TITLE), *HEAD],
        [
            [markdown("t", TITLE.replace("# T", "## T")), *HEAD],
            [markdown("t", TITLE), markdown("m", "# Again"), *HEAD],
            [
                markdown(
                    "t",
                    TITLE.replace(
                        "*A thesis that says in one sentence what comes.*\n\n", ""
                    ),
                ),
                *HEAD,
            ][:1]
            + HEAD[::-1],
            [markdown("t", TITLE.replace("A theorem page. ", "")), *HEAD],
            [markdown("t", TITLE.replace("9 minutes to read, ", "")), *HEAD],
            [markdown("t", TITLE), *HEAD[1:]],
        ],
    ),
    (
        goals,
        [markdown("g", GOALS)],
        [
            [markdown("g", "## Other")],
            [markdown("g", GOALS.replace("- c (", "c ("))],
            [markdown("g", GOALS.replace("#exercise-1-2", "#theorem-1-2"))],
        ],
    ),
    (
        folded,
        [code("i", "import torch", "hide-cell"), *HEAD],
        [
            [code("i", "import torch\nfrom x import y")],
            [code("setup", "try:\n    x\nfinally:\n    y")],
        ],
    ),
    (
        figures,
        [code("f", SHOW), CAPTION],
        [
            [code("f", SHOW)],
            [code("f", SHOW), markdown("m", "A caption.")],
            [code("f", "figures.show(draw())"), CAPTION],
            [code("f", 'figures.slider(frames, labels, alt="x")'), CAPTION],
        ],
    ),
    (
        exercises,
        EXERCISES + SOLUTIONS,
        [
            EXERCISES,
            EXERCISES[:2] + SOLUTIONS[:2],
            EXERCISES * 2 + SOLUTIONS * 2,
            EXERCISES + SOLUTIONS[:2] + [code("s3", "1", SOLUTION)],
        ],
    ),
    (
        controls,
        [checked("control: fails")],
        [[checked("check: holds")], [markdown("m", "control")]],
    ),
    (endings, ENDS, [[markdown("z", "## References")]]),
]


@pytest.mark.parametrize(
    "rule, keeps, breaks",
    KEEPS_AND_BREAKS,
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_rules_can_fail(rule, keeps, breaks):
    assert list(rule(keeps)) == []
    for cells in breaks:
        assert list(rule(cells)), notebooks.source(cells[0])


def test_every_rule_has_its_control():
    assert [rule for rule, _, _ in KEEPS_AND_BREAKS] == list(RULES)


def test_canonical_form():
    assert notebooks.main(["check"]) == 0


# ---------------------------------------------------------------- across pages


def numbers(source):
    """Labels that a text gives out: Theorem 1.2, Exercise 1.1, Figure 1.1, (1.3)."""
    boxes = re.findall(rf"^> \*\*((?:{NUMBERED}|Exercise) [\d.]*\d)", source, re.M)
    captions = re.findall(r"^\*\*((?:Figure|Table) [\d.]*\d)\.\*\*", source, re.M)
    return (
        boxes
        + captions
        + [f"({tag})" for tag in re.findall(r"\\tag\{([^}]+)\}", source)]
    )


def shared(sources):
    """Labels that are given out twice."""
    return [
        label
        for label, count in Counter(n for s in sources for n in numbers(s)).items()
        if count > 1
    ]


def unlike_counters(source):
    """Theorems, lemmas and so on of a page share one counter: no number stands for two
    of them.
    """
    found = re.findall(rf"^> \*\*(?:{NUMBERED}) ([\d.]*\d)", source, re.M)
    return [number for number, count in Counter(found).items() if count > 1]


def book_texts():
    return [text(pages.read(p)["cells"]) for p in PAGES] + [
        p.read_text(encoding="utf-8") for p in sorted((ROOT / "book").glob("*.md"))
    ]


def test_numbers_are_unique_in_the_book():
    assert (
        shared(["> **Theorem 1.1 (A).** x\n\n**Figure 1.1.** y $$\\tag{1.1}$$"]) == []
    )
    for twice in (
        "> **Theorem 1.1 (A).** x",
        "**Figure 1.1.** y",
        "$$ x \\tag{1.1} $$",
        "> **Exercise 1.1.** z",
    ):
        assert shared([twice, twice])
    assert shared(book_texts()) == []


def test_boxes_share_one_counter():
    assert unlike_counters("> **Theorem 1.1.** x\n\n> **Lemma 1.1.** y") == ["1.1"]
    for path in PAGES:
        assert unlike_counters(text(pages.read(path)["cells"])) == []


def dead_links(source, folder):
    """Relative links whose file is not there. Their anchors are checked by the
    build.
    """
    for target in LINK.findall(source):
        if (
            not re.match(r"[a-z]+:|#", target)
            and not (folder / target.split("#")[0]).exists()
        ):
            yield target


def test_relative_links_lead_to_files(tmp_path):
    (tmp_path / "there.ipynb").touch()
    assert (
        list(dead_links("[a](there.ipynb#x) [b](https://x.org) [c](#d)", tmp_path))
        == []
    )
    assert list(dead_links("[a](gone.ipynb#x)", tmp_path)) == ["gone.ipynb#x"]
    for path in PAGES:
        assert list(dead_links(text(pages.read(path)["cells"]), path.parent)) == []


def test_every_chapter_folder_has_a_page():
    folders = {
        p
        for p in (ROOT / "notebooks").iterdir()
        if p.is_dir() and not p.name.startswith((".", "_"))
    }
    assert PAGES and folders == {Path(p).parent for p in PAGES}
