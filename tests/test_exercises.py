"""Every exercise: the solutions of the pages, the known mistakes, and answers of every
wrong kind.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import io
import json
import math
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attnbook import exercises
from attnbook.exercises import NOT_TRIED, RIGHT, Case, exercise
from attnbook.theorems.layers_or_steps import follow
from attnlib import patterns

ROOT = Path(__file__).resolve().parents[1]
MODULES = {
    name: import_module(f"attnbook.exercises.{name}") for name in exercises.__all__
}
CHECKERS = {
    f"{short}.{name}": checker
    for short, module in MODULES.items()
    for name, checker in vars(module).items()
    if inspect.isfunction(checker) and checker.__module__ == module.__name__
    if not name.startswith("_")
}
OUTSIDE = 7777  # no number that an exercise asks for, or knows as a mistake


# --- the solutions of the pages ---


@functools.cache
def solutions() -> dict[str, tuple[object, str]]:
    """What each folded solution gives to its checker, and what its cell prints."""
    found = {}
    for page in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
        cells = [cell for cell in cells if cell["cell_type"] == "code"]
        folded = [c for c in cells if "solution" in c["metadata"].get("tags", [])]
        space = {}
        exec(imports(cells, folded), space)
        for cell in folded:
            given = {}
            space["exercises"] = recorder(given)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec("".join(cell["source"]), space)
            ((name, answer),) = given.items()
            found[name] = answer, printed.getvalue()
    return found


def imports(cells: list[dict], folded: list[dict]) -> str:
    """The imports of a page that bring what its solutions use, as source."""
    used = set(re.findall(r"\w+", " ".join("".join(c["source"]) for c in folded)))
    lines = []
    for cell in cells:
        with contextlib.suppress(SyntaxError):  # the cell that installs is no Python
            for node in ast.parse("".join(cell["source"])).body:
                if isinstance(node, ast.Import | ast.ImportFrom):
                    node.names = [a for a in node.names if (a.asname or a.name) in used]
                    lines += [ast.unparse(node)] if node.names else []
    return "\n".join(lines)


def recorder(given: dict) -> SimpleNamespace:
    """In place of the module exercises: checkers that note what they are given."""

    def noting(name, checker):
        def check(answer):
            given[name] = answer
            return checker(answer)

        return check

    rooms = {short: SimpleNamespace() for short in MODULES}
    for name, checker in CHECKERS.items():
        short, _, last = name.partition(".")
        setattr(rooms[short], last, noting(name, checker))
    return SimpleNamespace(**rooms)


@functools.cache
def cases(name: str) -> list[Case]:
    """All cases of an exercise, met by the solution of its page."""
    answer, _ = solutions()[name]
    return list(CHECKERS[name].__wrapped__(answer))


def mistakes(name: str) -> list[str]:
    return list(dict.fromkeys(s for case in cases(name) for s in case.mistakes))


def said_of(mistake: str, name: str) -> str:
    """What is said of an answer that makes one known mistake wherever it can."""
    for case in cases(name):
        value = case.mistakes.get(mistake, case.right)
        sentence = replace(case, given=value).sentence()
        if sentence != RIGHT:
            return sentence
    return RIGHT


def test_every_checker_has_a_page_and_every_page_a_checker():
    assert set(solutions()) == set(CHECKERS)
    assert all(c.__doc__.startswith("Exercise ") for c in CHECKERS.values())


@pytest.mark.parametrize("name", CHECKERS)
def test_the_solution_of_the_page_is_right(name):
    _, printed = solutions()[name]
    assert printed == "Right.\n"


@pytest.mark.parametrize("name", CHECKERS)
def test_known_mistakes_differ_from_what_is_right_and_from_each_other(name):
    for mistake in mistakes(name):
        assert said_of(mistake, name) == mistake


def as_array(value):
    """A result as somebody gives it who works with numpy."""
    if type(value) in (list, tuple):
        return [as_array(v) for v in value]
    if torch.is_tensor(value):
        return value.numpy()
    return np.array(value) if isinstance(value, float | bool) else value


def as_list(value):
    """A result in plain lists and numbers."""
    if type(value) in (list, tuple):
        return [as_list(v) for v in value]
    return value.tolist() if torch.is_tensor(value) else value


@pytest.mark.parametrize("form", [as_array, as_list])
@pytest.mark.parametrize("name", CHECKERS)
def test_arrays_and_lists_are_right_as_well(name, form):
    answer, _ = solutions()[name]
    if callable(answer):
        assert CHECKERS[name](lambda *given: form(answer(*given))) == RIGHT
    else:
        assert CHECKERS[name](form(answer)) == RIGHT


# --- answers of a wrong kind ---


def returning(value, *_):
    return value


def raising(*_):
    raise RuntimeError("several\nlines")


BAD = {
    "a number": 3.14159,
    "a whole number": OUTSIDE,
    "a large number": 10**5000,
    "NaN": math.nan,
    "infinity": -math.inf,
    "a complex number": 1j,
    "a truth value": True,
    "a text": "90",
    "a list": [1, 2, 3],
    "a pair of texts": ("1", "2"),
    "an empty list": [],
    "a ragged list": [[1.0], [2.0, 3.0]],
    "a list with None": [None, None],
    "a dictionary": {1: 2},
    "a set": {1, 2},
    "an object": object(),
    "a module": math,
    "an array": np.ones((2, 5)),
    "an array of texts": np.array(["a", "b"]),
    "a tensor": torch.ones(7),
    "a tensor of NaN": torch.full((3, 3), math.nan),
    "a scalar tensor": torch.tensor(0.123),
    "a function of nothing": lambda: 1,
    "a function of much": lambda a, b, c, d, e, f: a,
    "a function that raises": raising,
    "a type": int,
}


@pytest.mark.parametrize("name", CHECKERS)
def test_a_bad_answer_gets_one_sentence(name):
    for kind, bad in BAD.items():
        for answer in (bad, partial(returning, bad)):
            said = CHECKERS[name](answer)
            assert re.fullmatch(r"[A-Z].{10,250}[.?]", said), (kind, said)
            assert said not in (RIGHT, NOT_TRIED), kind


@pytest.mark.parametrize("name", CHECKERS)
def test_nothing_is_not_tried_and_nothing_returned_is_said(name):
    answer, _ = solutions()[name]
    assert CHECKERS[name](None) == "Not tried yet: put your answer in place of None."
    if callable(answer):
        assert CHECKERS[name](lambda *_: None).startswith("Your function returned None")


@exercise("Not yet.", function_of="n", errors={KeyError: "No such key."})
def halves(answer):
    """A toy: the numbers 1/2 and 1, and whether two is even."""
    yield Case(answer(2), torch.tensor([0.5, 1.0]), {"Doubled.": torch.ones(2)})


@exercise()
def mixed(answer):
    """A toy: a whole number, a number, a truth value and a set."""
    yield Case(answer, (3, 0.5, True, {1}), otherwise=["First.", "", "Third.", ""])


def lookup(n):
    return {}[n]


@pytest.mark.parametrize(
    ("checker", "answer", "said"),
    [
        (halves, 3, "by its name, without a call, was wanted; yours is 3."),
        (halves, lambda: 1, "A function of (n) was wanted; yours takes ()."),
        (
            halves,
            lambda n: n / 0,
            "stops on 2 with ZeroDivisionError: division by zero.",
        ),
        (halves, lookup, "No such key."),
        (halves, lambda n: n, "A tensor of shape (2,) was wanted; yours is 2."),
        (halves, lambda n: [n], "yours is a tensor of shape (1,)."),
        (halves, lambda n: [[1], [1, 2]], "yours is a list of length 2."),
        (halves, lambda n: "half", "yours is the text 'half'."),
        (halves, lambda n: torch, "yours is of type module."),
        (halves, lambda n: np.ones(3), "yours is an array of shape (3,)."),
        (halves, lambda n: torch.ones(2).int(), "torch.float32 was wanted; yours is"),
        (halves, lambda n: [0.5, math.nan], "Finite numbers were wanted"),
        (halves, lambda n: [1, 1], "Doubled."),
        (halves, lambda n: [1, 2], "Not yet."),
        (halves, lambda n: [0.5004, 0.9996], RIGHT),
        (mixed, 7, "A list of length 4 was wanted; yours is 7."),
        (mixed, (3, 0.5, True), "yours is a tuple of length 3."),
        (mixed, (3.5, 0.5, True, {1}), "A whole number was wanted; yours is 3.5."),
        (mixed, ("3", 0.5, True, {1}), "A number was wanted; yours is the text '3'."),
        (mixed, (True, 0.5, True, {1}), "A number was wanted; yours is True."),
        (mixed, (3, math.inf, True, {1}), "A finite number was wanted; yours is inf."),
        (mixed, (3, lookup, True, {1}), "A number was wanted; yours is a function."),
        (mixed, (3, 0.5, 1, {1}), "True or False was wanted; yours is 1."),
        (mixed, (3, 0.5, True, 1), "A list was wanted; yours is 1."),
        (mixed, (3, 0.5, True, [[]]), "A set was wanted; yours is a list of length 1."),
        (mixed, (4, 0.5, False, {1}), "First."),
        (mixed, (3, 0.5, False, {1}), "Third."),
        (mixed, (np.int64(3), torch.tensor([0.5]), np.bool_(True), [1, 1]), RIGHT),
    ],
)
def test_what_is_said(checker, answer, said):
    assert said in checker(answer)


def test_three_digits_are_enough_and_two_are_not():
    rights = {"questions.constant": "1.67"}
    for name, right in rights.items():
        assert CHECKERS[name](float(right)) == RIGHT
        assert CHECKERS[name](float(right[:3])) != RIGHT
    queries, _ = solutions()["codes.edges"]
    assert CHECKERS["codes.edges"](lambda n, gap: queries(n, gap).float()) == RIGHT


# --- functions with a mistake ---


def mix(s, P, W):
    return sum(p @ s @ w for p, w in zip(P, W))


def term(x, attention, maps, path, *, left=1, right=1, weights=True, none=None):
    if none == "zero" and None in path:
        return torch.zeros_like(x)
    if none == "last":
        path = [-1 if h is None else h for h in path]
    way = [(l, h) for l, h in enumerate(path) if h is not None]
    if none == "falsy":
        way = [(l, h) for l, h in way if h]
    for l, h in way[::left]:
        x = attention[l][h] @ x
    for l, h in way[::right]:
        x = x @ maps[l][h] if weights else x
    return x


def step(sums, P, W, *, in_place=False, skip=True, shift=True):
    moved = [mix(s, P, W) for s in sums]
    zero = torch.zeros_like(sums[0])
    if in_place:
        sums = [*sums, zero]
        for k in range(1, len(sums)):
            sums[k] = sums[k] + mix(sums[k - 1], P, W)
        return sums
    moved = [zero, *moved] if shift else [*moved, zero]
    kept = [*sums, zero] if skip else [zero] * len(moved)
    return [a + b for a, b in zip(kept, moved)]


def bias(weights, rows, *, skip=False, heads=None, turned=False):
    b = rows[0]
    for maps, row in zip(weights[1:], rows[1:]):
        moved = sum(w @ b if turned else b @ w for w in maps[:heads])
        b = skip * b + moved + row
    return b


def leading(r, s, w_qk, w, *, mean=True):
    centred = r - s @ r if mean else r
    return r @ w_qk @ centred.T @ (s[:, None] * centred) @ w


def skip_factors(size, *, power=2, quarter=4, order=1):
    q = 0.8 * math.tanh(4 * size**power / quarter)
    return [q, *(1 - q, 1 + q)[::order]]


def extremal(n, d, *, scale=None, sign=1):
    a, b = torch.zeros(2, n, d, dtype=torch.float64)
    a[:, 0] = 1
    b[0] = scale or math.sqrt(n / d)
    a[0] *= sign
    return a, b


def apart(n, d):
    """Equal norms, other shapes, but no entry in which they meet."""
    a, b = torch.zeros(2, n, d, dtype=torch.float64)
    a[:-1, 0] = 1
    b[-1, 1:] = 1
    return a / math.sqrt(n - 1), b / math.sqrt(d - 1)


def collapsing(a, w, v):
    return v <= 1 or w * a * a < math.atanh(1 / v)


def range_of(x):
    return x.amax(-1) - x.amin(-1)


def factor(a, squash=lambda x: math.tanh(x / 4)):
    return squash(float(range_of(a[:, None] - a[None]).max()))


def strengths(n, L, *, growth=9, start=None, late=0):
    start = math.log(1 + n / 2) if start is None else start
    return [start * growth ** (l + late) for l in range(L)]


def keeps(values, strengths, size, *, quarter=4, power=2, squash=math.tanh, add=sum):
    arguments = [w * size**power / quarter for w in strengths]
    return 1 - add(v * squash(a) for v, a in zip(values, arguments))


def wide(x, attention, weights, *, start=1, layers=slice(None)):
    chosen = zip(attention[layers], weights[layers])
    return start * x + sum(mix(x, P, W) for P, W in chosen)


def deep(x, attention, weights):
    for P, W in zip(attention, weights):
        x = x + mix(x, P, W)
    return x


def heads_first(x, P, W):
    return x + sum(P[h][l] @ x @ W[h][l] for l in range(3) for h in range(2))


def symmetric(s):
    e = [1]
    for v in s:
        e = [a + v * b for a, b in zip([*e, 0], [0, *e])]
    return e


def symmetric_in_place(s):
    e = [1, 0, 0, 0]
    for v in s:
        for k in (1, 2, 3):
            e[k] += v * e[k - 1]
    return e


def for_three(s):
    a, b, c = s
    return [1, a + b + c, a * b + a * c + b * c, a * b * c]


def law(x, y, k, kappa, *, square=2, fourth=1, rows=1, root=1):
    inner = (x @ y) ** square * (square > 0)
    fourth = fourth * (kappa - 3) * (x * x) @ (y * y)
    return (((x @ x) * (y @ y) + inner + fourth) / k**rows) ** root


def nearest_of_rank_one(p, w):
    u, s, v = torch.linalg.svd(p)
    return s[0] * torch.outer(u[:, 0], v[0])


def pinv(*parts):
    return torch.linalg.pinv(torch.cat(parts, 1))


def share(c):
    return c / c.sum()


def union(a, N):
    return torch.softmax(a.masked_fill(N == 0, -math.inf), -1)


def shortest(keys, y):
    return keys.T @ torch.linalg.solve(keys @ keys.T, y)


def tiles(m1, z1, m2, z2):
    m = max(m1, m2)
    return m, z1 * math.exp(m1 - m) + z2 * math.exp(m2 - m)


def tiles_rescaled_twice(m1, z1, m2, z2):
    m = max(m1, m2)
    return m, (z1 + z2 * math.exp(m2 - m1)) * math.exp(m1 - m)


def edge_queries(n, gap, *, turn=0.5, factor=None):
    middle = 2 * math.pi / n * (torch.arange(n, dtype=torch.float64) + turn)
    factor = factor or 1 / (math.cos(math.pi / n) - math.cos(3 * math.pi / n))
    return factor * gap * torch.stack([middle.cos(), middle.sin()], 1)


def one_long(n, gap):
    queries = edge_queries(n, gap)
    queries[1:] *= 100
    return queries


def on_a_line(rows, n, *, ends=None, complements=True):
    for x in range(n) if ends is None else ends:
        outside = set(range(n))
        chain = [r if x in r or not complements else outside - r for r in rows]
        chain.sort(key=len)
        if all(a <= b for a, b in zip(chain, chain[1:])):
            return True
    return False


def two_families(rows, n):
    """Every two rows nested or disjoint, at most two in no other: not the condition."""
    nested = all(a <= b or b <= a or not a & b for a in rows for b in rows)
    largest = {frozenset(a) for a in rows if not any(a < b for b in rows)}
    return nested and len(largest) <= 2


def heard(steps, t, *, order=1, keep=True, in_place=False):
    sets = [{k} for k in range(len(steps[0]))]
    for layer in range(t)[::order]:
        below = sets if in_place else list(sets)
        for k, row in enumerate(steps[layer % len(steps)]):
            own = [below[k]] if keep else []
            sets[k] = set().union(*own, *[below[j] for j in row])
    return sets


def heard_turned(steps, t):
    turned = []
    for step in steps:
        n = len(step)
        turned.append([[k for k in range(n) if j in step[k]] for j in range(n)])
    return heard(turned, t)


def tail_joined():
    """fixed(10, 4) with one connection that meets the conditions, in three hops."""
    sets = [[0, 9], *[[k] for k in range(1, 10)]]
    (extra,) = patterns.from_sets(sets).steps[0].parts
    second = [*patterns.fixed(10, 4).steps[1].parts, extra]
    return patterns.build(10, patterns.Blocks(4), second)


def slope_of_boltz(a, i, *, one=1, sign=1):
    p = torch.softmax(a, 0)
    return p[i] * (one + sign * (a[i] - (p * a).sum()))


def bent(a, i, *, part):
    """The slope, and a second derivative that forgets something."""
    p = torch.softmax(a, 0)[i]
    slope = slope_of_boltz(a, i)
    bends = {
        "weight": (1 - p) * slope,
        "bracket": p - p * slope,
        "entry": (1 - p) * slope + p,
        "unweighted": 1 + (1 - 2 * p) * slope / p,
    }
    return slope, bends[part]


def passes(v, vocabulary, *, zero=True, relative=True, level=lambda count, d: 1.0):
    count, d = vocabulary.shape
    points = [*vocabulary, torch.zeros_like(v)] if zero else list(vocabulary)
    least = level(count, d) * math.sqrt(8 / (math.pi * d)) / (count + 1) ** 2
    for i, x in enumerate(points):
        for y in points[:i]:
            far = (x - y).norm() if relative else 1.0
            if abs(v @ (x - y)) < least * far:
                return False
    return True


def absolute(v, vocabulary):
    points = [*vocabulary, 0 * v]
    gaps = [abs(v @ (x - y)) for i, x in enumerate(points) for y in points[:i]]
    return all(gap >= 0.005 for gap in gaps)


def token_id(x, v, c, beta, w, *, logits=lambda z, c, beta: beta * z[c] * z):
    z = x @ v
    return z[c] + w * (torch.softmax(logits(z, c, beta), 0) @ z)


def coefficient_list(t, y, start, *, first=True, sign=1):
    start = t.new_tensor([start if first else 0.0])
    rise = torch.diff(y, prepend=y.new_zeros(1)) / torch.diff(t, prepend=start)
    return sign * torch.diff(rise, prepend=rise.new_zeros(1))


def company(w, s):
    most = math.gcd(*Counter(s).values())
    return frozenset((u, c // most) for u, c in Counter(s).items())


def memorable(words, tags, *, key=company, within=True):
    known = {}
    for s, t in zip(words, tags):
        marks = zip(s, t) if within else dict(zip(s, t)).items()
        if any(known.setdefault((w, key(w, s)), m) != m for w, m in marks):
            return False
    return True


def one_order(words, tags):
    """Refuses any two orders of one multiset."""
    multisets = {tuple(sorted(s)) for s in words}
    return memorable(words, tags) and len(multisets) == len({tuple(s) for s in words})


def through_layers(masks, *, skip=True, order=1, turned=False):
    out = torch.eye(len(masks[0]), dtype=torch.bool)
    for mask in masks[::order]:
        step = ((mask.mT if turned else mask).float() @ out.float()) > 0
        out = step | out if skip else step
    return out


def halved(p):
    return (p[:, None] - p[None]).abs().sum(-1) / 2


def read(y, N, lows, *, residue=False, carry=True, from_low=True):
    x = []
    for low in reversed(lows):
        x.append(y % N if residue else low + (y - low * from_low) % N)
        y = x[-1] + (y - x[-1]) // N if carry else y // N
    return x[::-1]


def bump(x, ident, ramp, *, late=False, scale=1.0, down=True):
    t = x - ident

    def rise(knot):
        return (torch.relu(t - knot) - torch.relu(t - knot - ramp)) / ramp

    low, high = (-0.5, 0.5) if late else (-0.5 - ramp, 0.5 - ramp)
    return scale * (rise(low) - down * rise(high))


def waiting(ids, *, knot=0.75, least=0.0):
    steps = [j - i + knot for k, i in enumerate(ids) for j in ids[k + 1 :]]
    return max([least, *steps])


# Wrong answers whose sentence is no value of a known mistake, and functions that make
# one: what is said of them holds these words.
WRONG = {
    "paths.term": [
        (partial(term, none="falsy"), "Head 0 was taken for a skip"),
        (partial(term, left=-1), "attention matrices are in the wrong order"),
        (partial(term, right=-1), "weights are in the wrong order"),
        (partial(term, left=-1, right=-1), "Both products are reversed"),
        (partial(term, none="zero"), "does not make the term zero"),
        (partial(term, none="last"), "last head"),
        (partial(term, weights=False), "weights W_h are missing"),
        (lambda x, *_: x, "Not yet"),
    ],
    "paths.step": [
        (partial(step, in_place=True), "new S_"),
        (partial(step, skip=False), "skip is missing"),
        (partial(step, shift=False), "lengths do not shift"),
        (
            lambda s, P, W: s,
            "A list of length 3 was wanted; yours is a list of length 2",
        ),
        (lambda s, P, W: [*s, s[0]], "Not yet"),
    ],
    "paths.bias": [
        (lambda w, rows: sum(rows), "added the rows of all layers"),
        (partial(bias, heads=1), "one head only"),
        (partial(bias, turned=True), "from the left"),
        (partial(bias, skip=True), "formula with skips"),
        (lambda w, rows: rows[0][:2], r"shape \(3,\) was wanted; yours is .* \(2,\)"),
        (lambda w, rows: rows[0], "Not yet"),
    ],
    "questions.pair": [
        (lambda n, d: torch.zeros(2, n, d), "Zero"),
        (lambda n, d: torch.ones(2, n, d), "same ratio"),
        (partial(extremal, scale=1), "differ in norm"),
        (partial(extremal, sign=-1), "cancel"),
        (apart, "meet"),
    ],
    "questions.collapses": [
        (lambda a, w, v: math.sqrt(2) * a < 1, "unit in which"),
        (lambda a, w, v: 8 * w * max(v, 1) * a * a < 1, "the note's bound"),
        (lambda a, w, v: v <= 1, "v alone"),
        (lambda a, w, v: not collapsing(a, w, v), "wrong way round"),
        (lambda a, w, v: w * a * a < math.atanh(1 / v), "stops with an error"),
        (lambda a, w, v: True, "try a ="),
    ],
    "questions.factor": [
        (lambda a: math.tanh(float(range_of(a).max()) / 4), "spread of the rows"),
        (lambda a: math.tanh(float((a[:, None] - a).max()) / 4), "largest entry"),
        (partial(factor, squash=float), "the spread itself"),
        (partial(factor, squash=math.tanh), "quarter is missing"),
        (partial(factor, squash=lambda x: x / 4), "upper bound of the factor"),
        (lambda a: 0.0, "Not yet"),
    ],
    "questions.strengths": [
        (partial(strengths, growth=1), "stay the same"),
        (partial(strengths, growth=3), "inner products"),
        (lambda n, L: strengths(n, L, growth=4, start=math.log(n + 1)), "halve"),
        (partial(strengths, late=1), "layer too late"),
        (lambda n, L: strengths(n, L, start=1 + n / 2), "logarithm"),
        (lambda n, L: strengths(n, L, start=math.log(n)), "Not yet"),
        (lambda n, L: [1.0], "A list of length 3 was wanted"),
    ],
    "collapse.relative": [([0.5, 0.5, 0.5], "Not yet")],
    "collapse.factors": [
        (partial(skip_factors, order=-1), "The least of the two"),
        (lambda s: [s * f for f in skip_factors(s)], "Those are diameters"),
        (lambda s: [skip_factors(s)[0] * f for f in (1, -1, 1)], "The skip adds"),
        (partial(skip_factors, power=1), "Square the diameter"),
        (partial(skip_factors, quarter=1), "quarter"),
        (lambda s: [0.1, 0.2, 0.3], "Not yet"),
    ],
    "collapse.leading": [
        (partial(leading, mean=False), "second moment"),
        (lambda r, s, w_qk, w: leading(r, s, w_qk.T, w), "transposed"),
        (lambda r, s, *w: leading(r, 0 * s + 1 / len(s), *w), "1/n instead of s"),
        (lambda *a: leading(*a[:3], torch.eye(3).double()), "are missing"),
        (lambda r, s, w_qk, w: r, "Not yet"),
    ],
    "escaping.keeps": [
        (lambda *a: 1 - keeps(*a), "That is c"),
        (lambda v, w, s: 1 - sum(v), "bound with a mask"),
        (partial(keeps, quarter=1), "quarter"),
        (partial(keeps, power=1), "square the diameter"),
        (partial(keeps, squash=float), "theorem has tanh"),
        (partial(keeps, add=max), "strongest head alone"),
        (
            lambda v, w, s: math.prod(keeps([a], [b], s) for a, b in zip(v, w)),
            "factors belong to layers",
        ),
        (lambda v, w, s: 7.0, "Not yet"),
    ],
    "efficacy.first_order": [
        (partial(wide, start=0), "length 0 is missing"),
        (deep, "whole network"),
        (partial(wide, layers=slice(0, 1)), "only one layer"),
        (partial(wide, layers=slice(0, 3, 2)), "first and the last layer"),
        (partial(wide, start=3), "once for each layer"),
        (heads_first, "names the layer first"),
        (lambda x, P, W: x + P.sum((0, 1)) @ x, "are missing"),
        (lambda x, P, W: x, "Not yet"),
    ],
    "efficacy.bounds": [
        (lambda s: [math.comb(3, k) * 2**k for k in range(4)], "mean\\^k"),
        (lambda s: [6**k / math.factorial(k) for k in range(4)], "one layer twice"),
        (symmetric_in_place, "in place"),
        (lambda s: symmetric(s)[1:], "e_0 is missing"),
        (lambda s: [sum(v**k for v in s) for k in range(4)], "power sums"),
        (lambda s: [1, 2, 3, 4], "Not yet"),
        (for_three, r"stops on \[2, 0, 5, 1\] with ValueError: too many"),
        (lambda s: [*symmetric([v for v in s if v]), *[7] * s.count(0)], "but not for"),
    ],
    "efficacy.scores": [
        (([1, 1, 0], [0, 1, 0], [0, 0, 1]), "level with the largest"),
        (([0, 3, 0], [0, 0, 3], [2, 1, 3]), "not right yet"),
        (([2, 3, 0], [2, 0, 3], [0, 1, 0]), "without the third"),
        (([1, 2, 0], [1, 0, 2], [0, 1, 1]), "level with the largest"),
        (([1, 2], [1, 2, 3], [1, 2, 3]), "one score for each class"),
        (([0, 1], [0, 1], [0, 1]), "two classes"),
        (([3, 1, 0], [0, 1, 0], [0, 1, 0]), "right by itself"),
        (([2, 3, 0], [2, 0, 3]), "A list of length 3 was wanted"),
        ([[1e308, 1.2e308, 0]] * 3, "not right yet"),
    ],
    "projections.dimension": [(2045, "round up"), (2047, "round up")],
    "projections.variance": [
        (partial(law, fourth=0), "term with kappa"),
        (partial(law, square=0), "square of the inner product is missing"),
        (partial(law, square=1), "stands squared"),
        (partial(law, rows=0), "Divide by k"),
        (partial(law, root=0.5), "standard deviation"),
        (lambda x, y, k, kappa: law(x, y, k, 1.0), "Not yet"),
        (lambda x, y, k, kappa: law(x, y, 4, kappa), "Not yet"),
        (lambda x, y, k, kappa: law(x, y, k, 3 - 2 * kappa), "Not yet"),
        (lambda x, y, *a: x, "A number was wanted"),
    ],
    "projections.surrogate": [
        (lambda p, w: torch.outer(p @ w, w), "how long is w"),
        (lambda p, w: torch.outer(w, p @ w) / (w @ w), "transposed"),
        (lambda p, w: p, "rank is 4"),
        (lambda p, w: torch.ones_like(p), "does not map w"),
        (nearest_of_rank_one, "does not map w"),
        (lambda p, w: torch.outer(p @ w, w.zero_() + 1), "does not map w"),
        (lambda p, w: p.float(), "torch.float64 was wanted; yours is torch.float32"),
    ],
    "projections.counterexample": [
        (lambda x: 0 * x, "both sides are 0"),
        (lambda x: 2 * x, "same way"),
        (lambda x: -x, "opposite way"),
        (lambda x: x.flip(0), "Not yet"),
        (lambda x: x[:2], "shape"),
    ],
    "lowrank.ranks": [((7, 7), "Not yet"), (3, "A pair was wanted; yours is 3")],
    "lowrank.projections": [
        (lambda k, v, s, t: (s @ k.T, t @ v.T), "no inverse"),
        (lambda k, v, s, t: (s @ pinv(k), t @ pinv(k)), "invert V"),
        (lambda k, v, s, t: (t @ pinv(k), s @ pinv(v)), "exchanged"),
        (
            lambda k, v, s, t: (s @ pinv(k, v)[:2], t @ pinv(k, v)[2:]),
            "full column rank",
        ),
        (lambda k, v, s, t: (k @ pinv(s), t @ pinv(v)), r"shape \(2, 3\) was wanted"),
        (lambda k, v, s, t: torch.zeros(2, 2, 3), "Not yet"),
    ],
    "lowrank.chances": [
        (lambda p, v: p.norm(dim=0) * v.norm(dim=1), "Divide by the sum"),
        (lambda p, v: share(torch.ones(4).double()), "equal size"),
        (lambda p, v: share(p.norm(dim=0)), "norms of the values"),
        (lambda p, v: share(v.norm(dim=1)), "columns of P are missing"),
        (lambda p, v: share((p.norm(dim=0) * v.norm(dim=1)) ** 2), "squared norms"),
        (lambda p, v: share(p.sum(0) * v.norm(dim=1)), "not its norm"),
        (lambda p, v: share(torch.arange(4).double()), "Not yet"),
    ],
    "lowrank.pairs": [(50, "Not yet"), (48.5, "A whole number")],
    "complexity.stride": [([64], "A number was wanted; yours is a list")],
    "complexity.hop": [
        (lambda i, j, l: j + (i - j) // l, "does not read your k"),
        (lambda i, j, l: i, "does not read j"),
        (lambda i, j, l: i + 1, "Nobody reads the future"),
        (lambda i, j, l: j + 0.5, "A whole number was wanted; yours is 0.5"),
    ],
    "complexity.merge": [
        (lambda a, N: torch.softmax(a + N.log(), -1), "correction is missing"),
        (lambda a, N: torch.softmax(a, -1), "has weight zero"),
        (lambda a, N: union(a - N.clamp_min(1).log(), N), "corrected twice"),
        (lambda a, N: a.exp() * (N > 0), "sum to one"),
        (lambda a, N: a, "Not yet"),
        (lambda a, N: union(a, (a != a.max()).long()), "Not yet"),
        (lambda a, N: union(a, (N.min() != N).long()), "Not yet"),
        (lambda a, N: union(a.float(), N), "yours is torch.float32"),
    ],
    "expressive.query": [
        (lambda keys, y: keys.T @ y, "orthonormal keys only"),
        (lambda keys, y: keys.T @ (keys @ keys.T @ y), "to be undone"),
        (lambda keys, y: keys.T @ (y / (keys**2).sum(1)), "meet each other"),
        (
            lambda keys, y: (
                shortest(keys, y) + torch.linalg.qr(keys.T, "complete").Q[:, 4]
            ),
            "orthogonal to the keys",
        ),
        (lambda keys, y: keys[0], "Not yet"),
    ],
    "expressive.merge": [
        (lambda m1, z1, m2, z2: (max(m1, m2), z1 + z2), "against another maximum"),
        (
            lambda m1, z1, m2, z2: (max(m1, m2), z1 * math.exp(m2 - m1) + z2),
            "sign is turned",
        ),
        (lambda m1, z1, m2, z2: (m1 + m2, z1 + z2), "larger of the two"),
        (lambda m1, z1, m2, z2: (max(m1, m2), 7.0), "Not yet"),
        (lambda m1, z1, m2, z2: (m2, z1 * math.exp(m1 - m2) + z2), "first tile"),
        (lambda *a: a[:2] if a[0] > a[2] else tiles(*a), "first tile"),
        (tiles_rescaled_twice, "not positive"),
        (lambda *a: tiles(*a) if max(a) < 99 else (1000.0, 2.0), "0 and 1000"),
    ],
    "codes.edges": [
        (lambda n, gap: edge_queries(n, gap)[:3], r"\(12, 2\) was wanted; yours"),
        (partial(edge_queries, turn=0), "prefer one"),
        (lambda n, gap: -edge_queries(n, gap), "point to its pair"),
        (partial(edge_queries, factor=1), "too small"),
        (partial(edge_queries, factor=99), "longer than they need"),
        (one_long, "longer than they need"),
        (lambda n, gap: edge_queries(n, 2.0), "longer than they need"),
        (lambda n, gap: edge_queries(12, gap), r"\(7, 2\) was wanted; yours"),
    ],
    "codes.line": [
        (lambda rows, n: False, "order the keys along"),
        (partial(on_a_line, complements=False), "may also be all keys"),
        (lambda rows, n: True, "never be alone"),
        (lambda rows, n: max(map(len, rows)) > 1, "overlapping pairs"),
        (partial(on_a_line, ends=[0]), "not always key 0"),
        (two_families, "rows .* can be met on a line"),
        (lambda rows, n: on_a_line(rows[:3], n), "cannot be met on a line"),
    ],
    "cache.held": [
        (lambda p, bits, error: (p.amax(1) > 0.5).sum(), "two questions may read"),
        (lambda p, bits, error: (p.amax(0) < 0.5).sum(), "not read sharply"),
        (lambda p, bits, error: (p.amax(0) > 0.5).sum(), "an error is allowed, too"),
        (lambda p, bits, error: (2 * p.amax(0) - 1 > error).sum(), "lie closer"),
        (lambda p, bits, error: 2, "Not yet: for which f"),
    ],
    "cache.confused": [
        (lambda p, kept: (7, 7, 0), "not two lists but one"),
        (lambda p, kept: (7, 9, 0), "leave different states"),
        (lambda p, kept: (7, 8, 0), "another question tells them apart better"),
        (lambda p, kept: (7, 16, 0), "Lists count from 0 to 15"),
        (lambda p, kept: (7, 8), "A list of length 3 was wanted"),
    ],
    "hops.ladder": [
        (lambda p, k: follow(p, k + 1), "One hop too many"),
        (lambda p, k: follow(p, k - 1), "One hop too few"),
        (lambda p, k: follow(p, 1 + int(f"{k - 1:b}"[::-1], 2)), "wrong end"),
        (lambda p, k: follow(p, 1 + (k - 1).bit_count()), "do not change"),
        (lambda p, k: follow(p, 2 ** (k - 1).bit_length()), "the pointer after"),
        (lambda p, k: list(range(len(p))), "Not yet: follow one token"),
        (lambda p, k: p[0], "A list of length 11 was wanted"),
    ],
    "your_model.layers": [([0.7, 3.0], "Not yet: each head multiplies")],
    "your_model.pairs": [(lambda p, share: 0.123, "Not yet: sort a row")],
    "your_model.misread": [
        ([True, True, False, False], "The first: tau is the largest"),
        ([False, False, False, False], "The second: the floor"),
        ([False, True, True, False], "The third: the column"),
        ([False, True, False, True], "The fourth: what does a report"),
    ],
    "your_model.causal": [(0.5, "Not yet: write down the first row")],
    "sharpness.critical": [(1.0, "Not yet: what does the rival ask for")],
    "sharpness.sides": [
        (lambda row, beta: [0.0, 1.0], "Not yet: try a row of two logits"),
        (lambda row, beta: 0.5, "A pair was wanted"),
    ],
    "sharpness.longer": [([0.7, 3], "Not yet: what is beta")],
    "sharpness.promised": [
        ([False, False, True, False], "The first: t = 2.5"),
        ([True, True, True, False], "The second: t = 1.67"),
        ([True, False, False, False], "The third: t < 1"),
        ([True, False, True, True], "The fourth: think of two tokens"),
    ],
    "patterns.heard": [
        (partial(heard, order=-1), "run backwards"),
        (lambda steps, t: heard(steps[:1], t), "Only the first step"),
        (partial(heard, keep=False), "keeps what it has heard"),
        (partial(heard, in_place=True), "while they are still read"),
        (lambda steps, t: heard(steps, min(t, 3 * len(steps))), "goes on"),
        (lambda steps, t: heard(steps, t + 1), "one layer too many"),
        (lambda steps, t: heard(steps, t - 1), "one layer too few"),
        (heard_turned, "turned round"),
        (lambda steps, t: [set()] * len(steps[0]), "Not yet"),
    ],
    "patterns.design": [
        (7, "A Pattern of 20 tokens was wanted; yours is 7"),
        (patterns.star(9), "yours has 9"),
        (patterns.star(20, local=False), "one reads 20"),
        (patterns.dilation_cycle(20), "s = 5"),
        (patterns.causal(patterns.window(20, 3)), "loses something: token 0"),
    ],
    "patterns.repair": [
        (7, "10 tokens and two steps was wanted; yours is 7"),
        (patterns.fixed(10, 4), "never hears"),
        (patterns.dense(10), "two steps was wanted; yours has 10 tokens and p = 1"),
        (patterns.fixed(10, 5), "are gone from step 0"),
        (
            patterns.build(10, patterns.Window(9, 9), patterns.Window(9, 9)),
            "At most 10",
        ),
        (tail_joined(), "now s = "),
    ],
    "boltzmann.slope": [
        (lambda a, i: (torch.softmax(a, 0)[i], 0), "weights fixed"),
        (lambda a, i: (slope_of_boltz(a, i, one=0), 0), "weights only"),
        (lambda a, i: (slope_of_boltz(a, i, sign=-1), 0), "sign is turned"),
        (
            lambda a, i: (slope_of_boltz(a, i) / torch.softmax(a, 0)[i], 0),
            "little weight",
        ),
        (lambda a, i: (slope_of_boltz(a, 1), 0), "Differentiate it again"),
        (lambda a, i: (9.0, 0), "Not yet"),
        (lambda a, i: slope_of_boltz(a, i), "A pair was wanted"),
        (lambda a, i: (a, a), "A number was wanted; yours is a tensor"),
        (partial(bent, part="weight"), "the bracket moves too"),
        (partial(bent, part="bracket"), "p_i moves too"),
        (partial(bent, part="entry"), "boltz moves as well"),
        (partial(bent, part="unweighted"), "misses the factor"),
    ],
    "boltzmann.twins": [
        (((0, 1, 4), (0, 2, 4)), "five different"),
        (((0, 1, 1, 7, 9), (0, 2, 4, 6, 9)), "five different"),
        (((0, 1.5, 4, 7, 9), (0, 2.5, 4, 6, 9)), "A whole number was wanted"),
        (((0, 1, 4, 7, 9), (9, 7, 4, 1, 0)), "same set"),
        (((0, 1, 4, 7, 9), (1, 2, 4, 6, 8)), "ends differ"),
        (((0, 1, 4, 7, 9), (0, 2, 4, 7, 9)), "sums differ"),
        (((0, 1, 2, 3, 1e17), (0, 1, 2, 4, 1e17)), "sums differ"),
        (((0, 1, 4, 7, 9),), "A pair was wanted"),
        (((0, 1, 4, 7, math.inf), (0, 2, 4, 6, math.inf)), "A finite number"),
    ],
    "boltzmann.near_miss": [
        ((1, -1), "at least 0"),
        ((math.cosh(1.1283839649663), 0), "digits"),
        ((1, 0.5001), "digits"),
        (math.acosh(1 + math.sqrt(0.5)), "A pair"),
        ((1, 2, 3), "A pair"),
        ((3, Fraction(1, 3)), "divide the quartic"),
    ],
    "boltzmann.base": [(7, "every larger one"), (8, "Not yet")],
    "boltzmann.count": [
        (553, "did you take M = 1"),
        (782, "Not yet"),
        (306_000, "Not yet"),
        (math.inf, "A finite number"),
    ],
    "ids.passes": [
        (lambda v, V: False, "along v pass"),
        (lambda v, V: True, "same v.x"),
        (partial(passes, zero=False), "zero too"),
        (lambda v, V: V[0] @ v > 0 and passes(v, V), "absolute values"),
        (absolute, "at distance 9"),
        (partial(passes, relative=False), "divide by"),
        (partial(passes, level=lambda K, d: 1.2), "yours is too high"),
        (partial(passes, level=lambda K, d: 0.8), "yours is too low"),
        (lambda v, V: passes(torch.eye(len(v)).to(v)[0], V), "no axis"),
        (
            partial(passes, level=lambda K, d: (K + 1) ** 2 * math.sqrt(d / 2) / 9),
            "too high for K = 3",
        ),
        (partial(passes, level=lambda K, d: math.sqrt(d / K)), "too high for K = 3"),
        (partial(passes, level=lambda K, d: math.sqrt(2 / d)), "too low for K = 3"),
    ],
    "ids.token_id": [
        (partial(token_id, logits=lambda z, c, b: b * z), "query is missing"),
        (partial(token_id, logits=lambda z, c, b: z[c] * z), "beta is missing"),
        (partial(token_id, logits=lambda z, c, b: -b * z[c] * z), "sign of the logits"),
        (lambda x, v, c, b, w: token_id(x, v, c, b, 1.0), "weight w is missing"),
        (
            lambda x, v, c, b, w: token_id(x, v, c, b, w * b * float((x @ v)[c])),
            "not of the places",
        ),
        (
            lambda x, v, c, b, w: token_id(x, v, c, b, 1.0) - (x @ v)[c],
            "company f alone",
        ),
        (lambda x, v, c, b, w: token_id(x, v, c, 0.0, w), "plain mean"),
        (lambda x, v, c, b, w: (x @ v)[c], "place alone"),
        (lambda x, v, c, b, w: 0.0, "Not yet"),
    ],
    "ids.numbers": [
        (lambda sequences: {}, "both have the sum 0"),
        (lambda sequences: {t: t + 1 for s in sequences for t in s}, "Fewer tokens"),
        (lambda sequences: [1, 2], "A dictionary was wanted"),
        (lambda sequences: {1: 0.5}, "integer to an integer"),
        (lambda sequences: {1: 1}, "both have the sum"),
    ],
    "ids.collision": [
        (({4, 1}, {4, 2, 3}), "three different"),
        (({1, 2, 6}, {1, 3, 5}), "hold the token 4"),
        (({1, 4, 7}, {7, 4, 1}), "are the same"),
        (({1, 4, 7}, {2, 4, 7}), "their means are 4 and 13/3"),
        (({0, 4, 8}, {2, 4, 6}), "from 1 to 7"),
        (([1, 4, 4, 7], [4, 5, 7]), "their means are 4 and 16/3"),
        ({1, 4, 7}, "A pair was wanted; yours is a set of length 3"),
    ],
    "memorization.coefficients": [
        (lambda t, y, s: torch.cumsum(coefficient_list(t, y, s), 0), "are the slopes"),
        (partial(coefficient_list, sign=-1), "sign is turned"),
        (
            lambda t, y, s: y / torch.diff(t, prepend=t.new_tensor([s])),
            "labels themselves",
        ),
        (lambda t, y, s: y, "Not yet"),
        (partial(coefficient_list, first=False), "Not yet"),
    ],
    "memorization.groups": [
        (168, "cannot share a group"),
        (1000, "a unit an id"),
        (50, "each takes several units"),
        (42, "can two ids of one token"),
        (368, "the larger one is enough"),
        (4, "Not yet"),
    ],
    "memorization.contradictions": [
        (lambda words, tags: False, "Nothing contradicts"),
        (partial(memorable, key=lambda w, s: None), "what context is for"),
        (partial(memorable, key=lambda w, s: tuple(s)), "in another order"),
        (one_order, "keeps its tag"),
        (partial(memorable, key=lambda w, s: frozenset(s)), "Repeated words count"),
        (partial(memorable, key=lambda w, s: tuple(sorted(s))), "sees only shares"),
        (
            partial(memorable, key=lambda w, s: (frozenset(s), s.count(w) / len(s))),
            "company differs",
        ),
        (partial(memorable, within=False), "same output twice"),
        ([True, False], "A function of"),
    ],
    "reviewers.ids": [
        ((7, 64), "Not yet"),
        ((8, 8), "do two positions"),
        (8, "A pair was wanted; yours is 8"),
        ((8, 64, 1), "A pair was wanted; yours is a tuple of length 3"),
    ],
    "reviewers.sharpness": [
        (244, "Rounded down"),
        (231, "the 2"),
        (12, "Not yet"),
        (244.5, "A whole number"),
    ],
    "reviewers.centre": [
        (lambda x, g: ((x * g).floor() + 0.5) / g, "Only x = 1"),
        (lambda x, g: (x * g).floor() / g, "and x = 1 has none"),
        (lambda x, g: (x * g).floor().clamp(max=g - 1) / g, "further right"),
        (lambda x, g: (x * g).round() / g, "borders"),
        (lambda x, g: x, "Not yet"),
    ],
    "copying.carried": [
        (23, "Four symbols need no state"),
        (76, "all four states carry together"),
        (4.75, "counts symbols"),
        (11.5, "its own symbol and no more"),
        (20, "largest block"),
        (18, "Not yet"),
    ],
    "copying.depth": [
        (lambda m, w: -(-m // w), "itself is one of the w"),
        (lambda m, w: m // (w - 1), "Round up"),
        (lambda m, w: m // (w - 1) + 1, "too many"),
        (lambda m, w: 2, "try m = 15 and w = 8"),
        (lambda m, w: m // (w - 1) + m % 2, "try m = 9 and w = 4"),
    ],
    "copying.field": [
        (partial(through_layers, order=-1), "wrong order"),
        (partial(through_layers, skip=False), "skip is missing"),
        (partial(through_layers, turned=True), "exchanged"),
        (lambda masks: sum(masks).bool() | torch.eye(7).bool(), "one layer reads"),
        (lambda masks: ~through_layers(masks), "Not yet"),
        (lambda masks: through_layers(masks).float(), "torch.bool was wanted"),
    ],
    "copying.bound": [
        (lambda hit, v: np.mean(hit), "no chance"),
        (lambda hit, v: np.mean(hit) + (1 - np.mean(hit)) / (v + 1), "separator"),
        (lambda hit, v: np.mean(hit) + 1 / v, "that are not reached"),
        (lambda hit, v: max(np.mean(hit), 1 / v), "add up"),
        (lambda hit, v: 1.0, "Not yet"),
    ],
    "synthesis.coefficient": [
        (lambda p: 2 * halved(p).max(), "factor 1/2"),
        (lambda p: (p[:, None] - p).abs().max(), "two entries"),
        (lambda p: 1 - halved(p).max(), "overlap of two rows"),
        (lambda p: 1 - p.min(0).values.sum(), "all rows share"),
        (lambda p: torch.linalg.eigvals(p).abs().sort()[0][-2], "second eigenvalue"),
        (lambda p: halved(p.T).max(), "columns"),
        (lambda p: halved(p).mean(), "mean over pairs"),
        (lambda p: halved(p)[0].max(), "row 0 only"),
        (lambda p: halved(p).diagonal(1).max(), "neighbouring rows only"),
        (halved, r"A number was wanted; yours is a tensor of shape \(3, 3\)"),
        (lambda p: 0.5, "Not yet"),
    ],
    "tile.rows": [
        (lambda f, tiles, others: len(tiles), "some have the same row"),
        (lambda f, tiles, others: 1, "Not yet: write the table"),
    ],
    "tile.confused": [
        (([1, 0, 0, 1], [1, 0, 0, 1]), "yours are the same"),
        (([1, 0, 0, 1], [1, 1, 1, 0]), "add up to 5 and to 6"),
        (([2, 0, 0, 1], [1, 1, 1, 0]), "Bits are 0 or 1"),
        (([1, 0, 0], [1, 1, 1, 0]), "A list of length 4 was wanted"),
    ],
    "universal.read": [
        (lambda *a: read(*a)[::-1], "backwards"),
        (partial(read, residue=True), "interval is not"),
        (partial(read, carry=False), "x_n is right"),
        (partial(read, from_low=False), "not its distance"),
        (lambda y, n, lows: [y + 1] * len(lows), "Not yet"),
        (lambda y, n, lows: y, "A list of length 3 was wanted"),
    ],
    "universal.bump": [
        (lambda x, i, r: bump(x, i, r, scale=r), "divide by the ramp"),
        (partial(bump, late=True), "other way round"),
        (partial(bump, down=False), "never comes down"),
        (lambda x, i, r: ((x >= i - 0.5) & (x < i + 0.5)).double(), "ReLUs give ramps"),
        (lambda x, i, r: 0 * x, "Not yet"),
    ],
    "universal.hidden": [
        (lambda ids: max(ids) - min(ids) + 0.75, "still wait"),
        (partial(waiting, knot=0), "first knot"),
        (partial(waiting, least=-1e9), "not negative"),
        (lambda ids: 7, r"try ids = \[5, 9, 2\]"),
        (
            lambda ids: max([0, *[b - a + 0.75 for a, b in zip(ids, ids[1:])]]),
            r"try ids = \[5, 7, 9\]",
        ),
    ],
}


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [(name, *pair) for name, pairs in WRONG.items() for pair in pairs],
    ids=[f"{name}-{i}" for name, pairs in WRONG.items() for i in range(len(pairs))],
)
def test_what_is_said_of_a_wrong_answer(name, answer, words):
    said = CHECKERS[name](answer)
    assert re.search(words, said), said
    assert said != RIGHT


def sentences(module) -> set[str]:
    """The sentences that stand in a module, without docstrings and formatted texts."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    silent = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr | ast.JoinedStr):
            inner = ast.walk(node) if isinstance(node, ast.JoinedStr) else [node.value]
            silent |= set(inner)
    texts = [n for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    texts = [n.value for n in texts if isinstance(n.value, str) and n not in silent]
    return {text for text in texts if len(text) > 15 and text.endswith((".", "?"))}


@pytest.mark.parametrize("short", MODULES)
def test_every_sentence_is_said_of_some_answer(short):
    """A sentence that no wrong answer reaches is one that nobody has tried."""
    names = [name for name in CHECKERS if name.startswith(f"{short}.")]
    said = {CHECKERS[name](OUTSIDE) for name in names}
    for name in names:
        said |= {said_of(mistake, name) for mistake in mistakes(name)}
        said |= {CHECKERS[name](answer) for answer, _ in WRONG.get(name, [])}
    assert len(sentences(MODULES[short])) > 5
    assert sentences(MODULES[short]) - said == set()
