"""The guide to a page, as far as a program can check it. Each rule stands beside cells
that break it.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections import Counter
from pathlib import Path

import folds
import minutes
import pages
import pytest
from minibook import code, markdown
from test_concordance import anchors

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
TITLE_LINE = re.compile(
    r"\*[A-Z][a-z]+ page · story \d+ minutes?(?: \(\d+ if this is new\))?"
    r"(?:, with folded proofs \d+)?(?:, everything \d+)? · runs in [\w ]+\.\*"
)
CHECKED, SOLUTION = notebooks.CHECKED, notebooks.SOLUTION


def words(cells, kind="markdown"):
    return [
        (cell["id"], notebooks.source(cell))
        for cell in cells
        if cell["cell_type"] == kind
    ]


def text(cells):
    return "\n\n".join(source for _, source in words(cells))


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


# ---------------------------------------------------------------- rules: what is wrong


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
            yield f"{cell['id']}: a bare truth value; print numbers beside the verdict"


def checked_theorems(cells):
    """At least one checked cell a theorem."""
    theorems = re.findall(r"^> \*\*(?:Theorem) [\d.]*\d", text(cells), re.M)
    checks = [c for c in cells if CHECKED in notebooks.tags(c)]
    if len(checks) < len(theorems):
        yield f"{len(theorems)} theorems, {len(checks)} checked cells"


def widths(cells):
    """What a checked cell prints fits a phone."""
    for cell in own_code(cells):
        for line in notebooks.printed(cell).splitlines():
            if len(line) > 52:
                yield (
                    f"{cell['id']}: prints {len(line)} characters, more than 52: "
                    f"{line[:40]}"
                )


def opening(cells):
    """Title and thesis in one cell; below them the kind of the page, the minutes to
    read and the time to run, as `notebooks.py clean` writes them.
    """
    source = notebooks.source(cells[0])
    paragraphs = [p for p in source.split("\n\n") if p.strip()]
    if not re.match(r"# \S", source) or len(re.findall(r"^# ", text(cells), re.M)) != 1:
        yield "the first cell needs the page's only title"
    thesis = paragraphs[1] if len(paragraphs) > 1 else ""
    if len(thesis.split()) < 8 or minutes.KIND.match(thesis):
        yield "no thesis below the title"
    line = minutes.KIND.search(source)
    if not line:
        yield "the kind of the page is not said (theorem, survey or experiment page)"
    elif not TITLE_LINE.fullmatch(line[0]):
        yield f"minutes to read and time to run are not said: {line[0]}"
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


def nodes(cell):
    """All of the syntax of a code cell, outer parts before inner ones."""
    return list(ast.walk(ast.Module(statements(cell), [])))


def figure_calls(cell, names=("figures.show", "figures.slider")):
    return [
        node
        for node in nodes(cell)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names
    ]


def figures(cells):
    """Each figure has a text for those who do not see it, and a caption that begins
    with its number.
    """
    for cell, after in zip(cells, [*cells[1:], None]):
        if cell["cell_type"] != "code":
            continue
        calls = figure_calls(cell)
        for call in calls:
            alt = {k.arg: k.value for k in call.keywords}.get("alt")
            if alt is None or (
                isinstance(alt, ast.Constant) and len(str(alt.value)) < 20
            ):
                yield f"{cell['id']}: no alt text says what the figure shows"
        if calls and not (
            after
            and re.match(r"\*\*Figure \d+(\.\d+)*\.\*\* \S", notebooks.source(after))
        ):
            yield f"{cell['id']}: the cell after it is no caption, **Figure 1.2.** ..."


TASK = re.compile(r"^> \*\*Exercise [^*]*\*\*|^\*\*★ For the board\.\*\*", re.M)
EFFORT = re.compile(r" \*\((?:easy|medium|hard), \d*[05] minutes\)\* ")


def exercises(cells):
    """Three to five, each followed by a folded solution, and one for the board; all say
    how hard they are, and how long they take.
    """
    for task in TASK.finditer(text(cells)):
        if not EFFORT.match(text(cells), task.end()):
            yield f"{task[0]}: no *(easy, 5 minutes)* after it"
    if text(cells).count("★") != 1:
        yield "not one task for the board"
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


# ---------------------------------------------------------------- in three depths


STATEMENT = re.compile(r"> \*\*(?:Theorem|Proposition|Corollary|Lemma) [\d.]*\d")
ANY_BOX = re.compile(rf"> \*\*(?:{NUMBERED}|Exercise) [\d.]*\d")


def code_cells(cells, tag=None):
    return [
        cell
        for cell in cells
        if cell["cell_type"] == "code" and (tag is None or tag in notebooks.tags(cell))
    ]


def well_folded(cells):
    """Each fold stands in one cell, between blank lines, has words and no heading."""
    for name, source in words(cells):
        for fault in folds.faults(source):
            yield f"{name}: {fault}"


def three_depths(cells):
    """Below the story stands what goes deeper."""
    count = len(re.findall(r"^## In depth *$", text(cells), re.M))
    if count != 1:
        yield f"{count} sections `## In depth`, not 1"


def in_words(cells):
    """The story makes at most three main statements, and says each in plain words."""
    found, waiting = 0, ""
    for line in story(cells).splitlines():
        if line.startswith("**In words.**"):
            waiting = ""
        if ANY_BOX.match(line) or line.startswith("#"):
            if waiting:
                yield f"no paragraph **In words.** after {waiting}"
            waiting = ""
        if STATEMENT.match(line):
            waiting = line.removeprefix("> ")[:40]
            found += 1
    if waiting:
        yield f"no paragraph **In words.** after {waiting}"
    if found > 3:
        yield f"{found} main statements in the story, more than 3"


def story(cells):
    """The Markdown of the story, without its proofs and folds."""
    return "\n\n".join(
        passage.text
        for passage in minutes.passages(cells)
        if passage.part == minutes.STORY
        and not passage.slow
        and passage.cell["cell_type"] == "markdown"
    )


def pictures(cells):
    """At least three figures explain an idea, one of them before the first displayed
    formula; one figure moves.
    """
    ideas = code_cells(cells, notebooks.IDEA)
    moving = code_cells(cells, notebooks.MOVING)
    for cell in ideas:
        if not figure_calls(cell):
            yield f"{cell['id']}: tagged idea, and shows no figure"
    for cell in moving:
        if not figure_calls(cell, ["figures.slider"]):
            yield f"{cell['id']}: tagged moving, and calls no figures.slider"
    if len(ideas) < 3:
        yield f"{len(ideas)} figures tagged idea, fewer than 3"
    if not moving:
        yield "no figure tagged moving"
    first = next((c for c in cells if c in ideas or "$$" in prose_of(c)), None)
    if first not in ideas:
        yield "no figure tagged idea before the first displayed formula"


def prose_of(cell):
    return notebooks.source(cell) if cell["cell_type"] == "markdown" else ""


def formula_as_code(cells):
    """A cell tagged literal shows the formula as plain code of its own."""
    literal = code_cells(cells, notebooks.LITERAL)
    if not literal:
        yield "no cell tagged literal: the formula as code"
    library = library_names(cells)
    for cell in literal:
        if not minutes.shows(cell):
            yield f"{cell['id']}: tagged literal, and hidden"
        if not any(isinstance(n, (ast.FunctionDef, ast.Assign)) for n in nodes(cell)):
            yield f"{cell['id']}: tagged literal, and computes nothing"
        for call in (n for n in nodes(cell) if isinstance(n, ast.Call)):
            if root_name(call.func) in library:
                name = ast.unparse(call.func)
                yield f"{cell['id']}: tagged literal, and calls {name} of attnlib"


def library_names(cells):
    """The names by which a page knows attnlib and what it imports from it."""
    names = set()
    for node in itertools.chain.from_iterable(map(nodes, code_cells(cells))):
        if isinstance(node, ast.ImportFrom):
            ours = (node.module or "").split(".")[0] in PACKAGES
            names |= {a.asname or a.name for a in node.names if ours}
        elif isinstance(node, ast.Import):
            ours = [a for a in node.names if a.name.split(".")[0] in PACKAGES]
            names |= {a.asname or a.name.split(".")[0] for a in ours}
    return names


def root_name(node):
    """The `a` of `a.b[0].c`."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def try_it(cells):
    """One cell to play with: a form in Colab, plain numbers elsewhere."""
    found = code_cells(cells, notebooks.TRY_IT)
    if len(found) != 1:
        yield f"{len(found)} cells tagged try-it, not 1"
    for cell in found:
        source = notebooks.source(cell)
        if source.splitlines()[:1] != ["# @title Try it"]:
            yield f"{cell['id']}: does not begin with # @title Try it"
        count = len(re.findall(r"^\w+ = .*# @param\b", source, re.M))
        if count < 2:
            yield f"{cell['id']}: {count} lines with # @param, fewer than 2"


RULES = (
    portable,
    checked_cells,
    checked_theorems,
    widths,
    opening,
    goals,
    folded,
    figures,
    exercises,
    controls,
    endings,
    well_folded,
    three_depths,
    in_words,
    pictures,
    formula_as_code,
    try_it,
)


# ---------------------------------------------------------------- pages keep the rules


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
THESIS = "*A thesis that says in one sentence what comes.*"
KIND = (
    "*Theorem page · story 15 minutes (25 if this is new), with folded proofs 45 "
    "· runs in half a minute.*"
)
TITLE = f"# T\n\n{THESIS}\n\n{KIND}"
GOALS = """\
## After this page you can

- a ([E](#exercise-1.1));
- b ([E](#exercise-1.2));
- c ([E](#exercise-1.3)).

You need x."""
HEAD = [markdown("links", "x"), code("setup", "import attnlib", "hide-cell")]
EXERCISES = [
    markdown(f"e{i}", f"> **Exercise 1.{i} (A).** *(easy, 5 minutes)* Do.")
    for i in (1, 2, 3)
]
BOARD = markdown("board", "**★ For the board.** *(hard, 30 minutes)* Prove.")
SOLUTIONS = [code(f"s{i}", "# @title Solution\n1", SOLUTION) for i in (1, 2, 3)]
ENDS = [
    markdown(
        "z", "## The claims of this page\n\n## References\n\n## How to cite this page"
    )
]
PROOF_LINE = "<details><summary>Proof of Lemma 1.2</summary>\n\n"
FOLD = f"{PROOF_LINE}Clear.\n\n</details>"
DEPTH = markdown("depth", "## In depth")
MAIN = "> **Theorem 1.1 (Main).** For all $x$."
PLAIN = "**In words.** Always."
FORMULA = markdown("formula", "$$ x $$")
IDEAS = [code(f"f{i}", SHOW, "idea", "hide-input") for i in (1, 2, 3)]
MOVES = code("f4", SHOW.replace("show", "slider"), "moving")
PACKAGES = ("attnlib", "attnbook")
LIBRARY = code(
    "i", "import attnlib\nfrom attnlib import kernels\nfrom attnlib.a import softmax"
)
TRY = """\
# @title Try it
n = 8  # @param {type: "slider", min: 2, max: 64}
gap = 1.0  # @param {type: "number"}
print(n * gap)"""

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
        widths,
        [checked("1" * 52)],
        [[checked("1" * 53)]],
    ),
    (
        opening,
        [markdown("t", TITLE), *HEAD],
        [
            [markdown("t", TITLE.replace("# T", "## T")), *HEAD],
            [markdown("t", TITLE), markdown("m", "# Again"), *HEAD],
            [markdown("t", TITLE.replace(f"{THESIS}\n\n", "")), *HEAD],
            [markdown("t", TITLE), *HEAD[::-1]],
            [markdown("t", TITLE.replace("Theorem page · ", "")), *HEAD],
            [
                markdown(
                    "t", TITLE.replace("story 15 minutes (25 if this is new), ", "")
                ),
                *HEAD,
            ],
            [markdown("t", TITLE.replace(" · runs in half a minute", "")), *HEAD],
            [markdown("t", TITLE), *HEAD[1:]],
        ],
    ),
    (
        goals,
        [markdown("g", GOALS)],
        [
            [markdown("g", "## Other")],
            [markdown("g", GOALS.replace("- c (", "c ("))],
            [markdown("g", GOALS.replace("#exercise-1.2", "#theorem-1.2"))],
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
        [*EXERCISES, *SOLUTIONS, BOARD],
        [
            [*EXERCISES, BOARD],
            [*EXERCISES[:2], *SOLUTIONS[:2], BOARD],
            [*EXERCISES * 2, *SOLUTIONS * 2, BOARD],
            [*EXERCISES, *SOLUTIONS[:2], code("s3", "1", SOLUTION), BOARD],
            [*EXERCISES, *SOLUTIONS],
            [*EXERCISES, *SOLUTIONS, markdown("board", "**★ For the board.** Prove.")],
            [markdown("e", "> **Exercise 1.1.** *(easy, 7 minutes)* Do."), BOARD],
        ],
    ),
    (
        controls,
        [checked("control: fails")],
        [[checked("check: holds")], [markdown("m", "control")]],
    ),
    (endings, ENDS, [[markdown("z", "## References")]]),
    (
        well_folded,
        [markdown("m", FOLD), markdown("n", "- `<details>` in a line of code")],
        [
            [markdown("m", FOLD.replace("\n\n</details>", ""))],
            [
                markdown("m", FOLD.replace("</details>", "")),
                markdown("n", "</details>"),
            ],
            [markdown("m", FOLD.replace(PROOF_LINE, ""))],
            [markdown("m", FOLD.replace("Proof of Lemma 1.2", ""))],
            [markdown("m", FOLD.replace("Lemma 1.2", "$x$"))],
            [markdown("m", FOLD.replace("Clear.", "### Clear"))],
            [markdown("m", FOLD.replace("Clear.", "Clear\n-----"))],
            [markdown("m", FOLD.replace("</summary>\n", "</summary>"))],
            [markdown("m", FOLD.replace("Clear.\n", "Clear."))],
            [markdown("m", f"Words.\n{FOLD}")],
            [markdown("m", f"{FOLD}\nWords.")],
            [markdown("m", FOLD.replace("<summary>", "\n<summary>"))],
            [markdown("m", FOLD.replace("<details>", "  <details>"))],
            [markdown("m", FOLD.replace("<details>", "<details open>"))],
        ],
    ),
    (
        three_depths,
        [markdown("m", "## In depth")],
        [[markdown("m", "### In depth")], [markdown("m", "## In depth")] * 2],
    ),
    (
        in_words,
        [markdown("m", f"{MAIN}\n\nWhy?"), code("c", "1"), markdown("n", PLAIN)]
        + [markdown("f", FOLD.replace("Clear.", MAIN)), DEPTH, markdown("d", MAIN)],
        [
            [markdown("m", MAIN)],
            [markdown("m", f"{MAIN}\n\n## Next\n\n{PLAIN}")],
            [markdown("m", f"{MAIN}\n\n> **Remark 1.3.** y\n\n{PLAIN}")],
            [markdown("m", f"{MAIN}\n\n{FOLD.replace('Clear.', PLAIN)}"), DEPTH],
            [markdown(f"m{i}", f"{MAIN}\n\n{PLAIN}") for i in range(4)],
        ],
    ),
    (
        pictures,
        [*IDEAS, FORMULA, MOVES],
        [
            [*IDEAS, FORMULA],
            [*IDEAS[:2], FORMULA, MOVES],
            [FORMULA, *IDEAS, MOVES],
            [*IDEAS[:2], code("f3", "draw()", "idea"), FORMULA, MOVES],
            [*IDEAS, FORMULA, MOVES, code("f5", SHOW, "moving")],
        ],
    ),
    (
        formula_as_code,
        [LIBRARY, code("c", "def f(x):\n    return torch.exp(x)", "literal")],
        [
            [LIBRARY, code("c", "P = torch.exp(x)")],
            [LIBRARY, code("c", "P = torch.exp(x)", "literal", "hide-input")],
            [LIBRARY, code("c", "torch.exp(x)", "literal")],
            [LIBRARY, code("c", "P = softmax(x)", "literal")],
            [LIBRARY, code("c", "P = 1 + kernels.softmax(x).sum()", "literal")],
            [LIBRARY, code("c", "P = attnlib.attention.softmax(x)", "literal")],
        ],
    ),
    (
        try_it,
        [code("c", TRY, "try-it")],
        [
            [code("c", TRY)],
            [code(f"c{i}", TRY, "try-it") for i in range(2)],
            [code("c", f"x = 1\n{TRY}", "try-it")],
            [code("c", TRY.replace("n = 8  # @param", "n = 8  # size"), "try-it")],
        ],
    ),
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
    """Also the minutes below each title and in the table of chapters are true."""
    assert notebooks.main(["check"]) == 0


def test_the_table_of_chapters_has_every_page_in_its_order():
    intro = (ROOT / "book" / "intro.md").read_text(encoding="utf-8")
    shown = re.findall(r"/notebooks/([\w/]+)\.ipynb\) \((\d+) min\)", intro)
    assert [name for name, _ in shown] == [pages.page_name(path) for path in PAGES]


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


SERIES = {
    "boxes": rf"^> \*\*(?:{NUMBERED}) (\d+\.\d+)",
    "exercises": r"^> \*\*Exercise (\d+\.\d+)",
    "equations": r"\\tag\{(\d+\.\d+)\}",
    "figures": r"^\*\*Figure (\d+\.\d+)",
}


def out_of_order(number, source):
    """What does not count 1, 2, 3 behind the number of its page, as one reads:
    theorems, lemmas and so on in one series; exercises, equations, figures in theirs.
    """
    for name, pattern in SERIES.items():
        found = re.findall(pattern, source, re.M)
        if found != [f"{number}.{k + 1}" for k in range(len(found))]:
            yield f"{name}: {' '.join(found)}"


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


def test_numbers_are_in_the_order_of_reading():
    good = "> **Theorem 2.1.** x\n\n> **Lemma 2.2.** y\n\n**Figure 2.1.** z"
    assert list(out_of_order(2, good)) == []
    assert list(out_of_order(3, good)) == ["boxes: 2.1 2.2", "figures: 2.1"]
    for wrong in (good.replace("2.2", "2.3"), good.replace("Lemma 2.2", "Lemma 2.1")):
        assert len(list(out_of_order(2, wrong))) == 1
    listed = [path for path in pages.listed(ROOT) if path.suffix == ".ipynb"]
    for number, path in enumerate(listed, 1):
        assert list(out_of_order(number, text(pages.read(path)["cells"]))) == []


def test_old_anchors_lead_to_what_is_there():
    old = json.loads((ROOT / "book/old_anchors.json").read_text(encoding="utf-8"))
    assert sum(map(len, old.values())) > 800
    for page, ids in old.items():
        assert {i for i in ids if i[:6] != "proof-"} <= anchors(page), page
        assert len(set(ids.values())) == len(ids)
    assert "theorem-1.99" not in anchors("path_decomposition/paths")  # the control


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


CLOCK = re.compile(r"perf_counter|process_time|time\.time\(|%time")


def reads_a_clock(cells):
    return any(
        CLOCK.search("".join(cell["source"]))
        for cell in cells
        if cell["cell_type"] == "code"
    )


def test_no_page_prints_how_long_it_took():
    """Else two builds would differ. Readers put %%time above a cell."""
    assert reads_a_clock([code("c", "x = 1\nbegan = time.perf_counter()")])
    assert not reads_a_clock([markdown("m", "Put `%%time` above the cell.")])
    for path in PAGES:
        assert not reads_a_clock(pages.read(path)["cells"]), path


def test_every_chapter_folder_has_a_page():
    folders = {
        p
        for p in (ROOT / "notebooks").iterdir()
        if p.is_dir() and not p.name.startswith((".", "_"))
    }
    assert PAGES and folders == {Path(p).parent for p in PAGES}
