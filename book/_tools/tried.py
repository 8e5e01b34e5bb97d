"""Answers of *Try it*, computed in advance, so that its sliders work in the built book.

A cell tagged `try-it` has parameters, as Colab reads them:

    n = 18  # @param {type: "slider", min: 4, max: 40}
    name = "star"  # @param ["dense", "star", "window"]

When a page is run for the book, the cell is asked at each point of a small grid, in the
state that the page has there. The answers stay with the cell, as an output; without
scripts the default answer stands in the page. A line of the cell may say where a
parameter stops, besides its default:

    # In the book: n = 6, 12, 40
"""

from __future__ import annotations

import html
import itertools
import json
import math
import re
from pathlib import Path

import pages
from pages import Problem

TAG, ID = "try-it", "tried"
MOST, VALUES = 81, 5  # points of a page, values of a parameter
PARAMETER = re.compile(r"^(\w+) = (.+?)  # @param (.+)$", re.M)
STOPS = re.compile(r"^# In the book: *(\w*)(.*)$", re.M)
LIMIT = re.compile(r"\b(min|max|step): ?([\d.]+)")


def values(default: str, form: str, most: int = VALUES) -> list[str]:
    """Some values of a parameter, as source, the default among them: all choices of a
    list; of a slider its ends, and what is halfway to the default.
    """
    if "allow-input" in form:  # anything, a network perhaps
        return [default]
    if form.startswith("["):
        choices = form[1 : form.index("]")].split(", ")
        return [c for c in choices if c == default or c in choices[:most]]
    if "boolean" in form:
        return ["False", "True"]
    if "slider" not in form:
        return [default]
    limit = {"step": 1.0} | {key: float(said) for key, said in LIMIT.findall(form)}
    least, step, now = limit["min"], limit["step"], float(default)

    def on_slider(number: float) -> float:
        return min(least + step * round((number - least) / step), limit["max"])

    ends = [least, on_slider(limit["max"])]
    wanted = {now, *ends}
    if most > 3:
        wanted |= {on_slider((now + end) / 2) for end in ends}
    return [default if v == now else f"{v:.9g}" for v in sorted(wanted)]


def named(source: str) -> dict[str, list[str]]:
    """The values of those parameters for which the cell says where they stop, the
    default among them. Raises Problem for a line that no parameter can follow.
    """
    found = {name: (default, form) for name, default, form in PARAMETER.findall(source)}
    chosen = {}
    for line in STOPS.finditer(source):
        name, said = line[1], line[2]
        if name not in found or name in chosen or not said.startswith(" = "):
            raise Problem(
                f"Try it: {line[0]!r} should name a parameter of the cell, once, and "
                "its values, as in '# In the book: n = 6, 12'"
            )
        default, form = found[name]
        stops = said[3:].split(", ")
        if wrong := [stop for stop in stops if not allowed(stop, form)]:
            raise Problem(
                f"Try it: {line[0]!r}: {name} cannot be {', '.join(wrong)}, "
                f"by its line '# @param {form}'"
            )
        chosen[name] = in_order(default, form, stops)
    return chosen


def is_number(text: str) -> bool:
    return re.fullmatch(r"-?(\d+\.?\d*|\.\d+)", text) is not None


def choices_of(form: str) -> list[str]:
    return form[1 : form.index("]")].split(", ") if form.startswith("[") else []


def allowed(stop: str, form: str) -> bool:
    """Can a reader set a parameter to this value?"""
    if "slider" not in form:
        return stop in choices_of(form) or "number" in form and is_number(stop)
    if not is_number(stop):
        return False
    limit = {"step": 1.0} | {key: float(said) for key, said in LIMIT.findall(form)}
    steps = (float(stop) - limit["min"]) / limit["step"]
    inside = limit["min"] <= float(stop) <= limit["max"]
    return inside and abs(steps - round(steps)) < 1e-6


def in_order(default: str, form: str, stops: list[str]) -> list[str]:
    """Values and default, each once: numbers by size, words as in their list."""
    if choices := choices_of(form):
        return [c for c in choices if c == default or c in stops]
    sizes = {float(stop): stop for stop in [*stops, default]}
    return [sizes[size] for size in sorted(sizes)]


def grid(source: str) -> dict[str, list[str]]:
    """Parameters of a cell and their values: at most MOST points, the sliders thinned
    from the last one on, but for those whose values the cell names.
    """
    found = PARAMETER.findall(source)
    stops = named(source)
    chosen = {name: values(default, form) for name, default, form in found} | stops
    for name, default, form in reversed(found):
        if math.prod(map(len, chosen.values())) > MOST and name not in stops:
            chosen[name] = values(default, form, most=3)
    if stops and (many := math.prod(map(len, chosen.values()))) > MOST:
        raise Problem(
            f"Try it: {many} answers, {MOST} at most; name fewer values after "
            f"'# In the book:', or two of another parameter"
        )
    return chosen


def filled_in(source: str, setting: dict[str, str]) -> str:
    """The cell with other values in place of the defaults."""

    def value(line: re.Match) -> str:
        return f"{line[1]} = {setting.get(line[1], line[2])}"

    return PARAMETER.sub(value, source)


def points(source: str) -> list[dict[str, str]]:
    """The settings of a grid, the last parameter changing fastest."""
    chosen = grid(source)
    return [dict(zip(chosen, point)) for point in itertools.product(*chosen.values())]


ASK = """\
def _ask(texts):
    import contextlib
    import io
    import json

    answers = []
    for text in texts:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            try:
                exec(text, dict(globals()))
            except Exception as error:
                print(f"{{type(error).__name__}}: {{error}}")
        answers.append(said.getvalue())
    print(json.dumps(answers))


_ask({texts!r})"""


def cell_of(notebook: dict) -> int | None:
    """The place of the cell to play with."""
    for place, cell in enumerate(notebook["cells"]):
        if TAG in cell["metadata"].get("tags", []):
            return place
    return None


def with_questions(path: Path) -> dict:
    """The page with a cell behind *Try it* that asks at each point of the grid."""
    notebook = pages.read(path)
    place = cell_of(notebook)
    if place is None:
        return notebook
    source = "".join(notebook["cells"][place]["source"])
    try:
        texts = [filled_in(source, setting) for setting in points(source)]
    except Problem as problem:
        raise Problem(f"{path.name}: {problem}") from None
    if len(texts) < 2:
        return notebook
    asking = {
        "cell_type": "code",
        "id": ID,
        "metadata": {},
        "source": ASK.format(texts=texts),
        "outputs": [],
        "execution_count": None,
    }
    cells = list(notebook["cells"])
    cells.insert(place + 1, asking)
    return notebook | {"cells": cells}


def with_answers(executed: dict) -> dict:
    """The page without that cell; what it said is an output of *Try it*."""
    place = cell_of(executed)
    cells = list(executed["cells"])
    if place is None or cells[place + 1].get("id") != ID:
        return executed
    asked = cells.pop(place + 1)
    answers = json.loads("".join(asked["outputs"][0]["text"]))
    shown = {
        "output_type": "display_data",
        "metadata": {},
        "data": {"text/html": form("".join(cells[place]["source"]), answers)},
    }
    outputs = [*cells[place]["outputs"], shown]
    cells[place] = {**cells[place], "outputs": outputs}
    return executed | {"cells": cells}


def form(source: str, answers: list[str]) -> str:
    """Grid and answers as try.js reads them."""
    defaults = {name: default for name, default, _ in PARAMETER.findall(source)}
    told = {"grid": grid(source), "now": defaults, "answers": answers}
    text = html.escape(json.dumps(told, ensure_ascii=False))
    return f'<div class="tried" data-tried="{text}"></div>'
