"""Every exercise: nothing tried, the right answer, and each listed wrong answer, which must be named."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path

import pytest
import torch

from attnlib import exercises
from attnlib.exercises import codes, collapse, paths, questions

mix = lambda s, P, W: sum(p @ s @ w for p, w in zip(P, W))


def term(*, left=False, right=False, weights=True, none=None):
    """A term of a path with the given mistakes."""

    def answer(x, attention, maps, path):
        if none == "zero" and None in path:
            return torch.zeros_like(x)
        way = [(l, -1 if h is None else h) for l, h in enumerate(path) if h is not None or none == "last"]
        for l, h in reversed(way) if left else way:
            x = attention[l][h] @ x
        for l, h in reversed(way) if right else way:
            x = x @ maps[l][h] if weights else x
        return x

    return answer


def step(sums, P, W):
    moved = [mix(s, P, W) for s in sums]
    return [sums[0], *(a + b for a, b in zip(sums[1:], moved)), moved[-1]]


def step_in_place(sums, P, W):
    out = [*sums, torch.zeros_like(sums[0])]
    for k in range(1, len(out)):
        out[k] = out[k] + mix(out[k - 1], P, W)
    return out


def bias(weights, rows, *, skip=False, heads=None):
    b = rows[0]
    for maps, row in zip(weights[1:], rows[1:]):
        b = skip * b + sum(b @ w for w in maps[:heads]) + row
    return b


def bias_from_the_left(weights, rows):
    b = rows[0]
    for maps, row in zip(weights[1:], rows[1:]):
        b = sum(w @ b for w in maps) + row
    return b


PATHS = {
    "count": [
        (90, "Right"), (9, "5 layers"), (10, "a head in each"), (180, "twice"), (243, "without a skip"),
        (1024, "all lengths"), (7, "choose the layers first"),
    ],
    "term": [
        (term(), "Right"),
        (term(left=True), "attention matrices are in the wrong order"),
        (term(right=True), "weights are in the wrong order"),
        (term(left=True, right=True), "Both products are reversed"),
        (term(none="zero"), "does not make the term zero"),
        (term(none="last"), "last head"),
        (term(weights=False), "weights W_h are missing"),
        (lambda x, *_: x, "not a mistake that is known"),
        (lambda *_: 3, "yours is int"),
    ],
    "step": [
        (step, "Right"),
        (step_in_place, "new S_"),
        (lambda s, P, W: [torch.zeros_like(s[0]), *(mix(t, P, W) for t in s)], "skip is missing"),
        (lambda s, P, W: [*(t + mix(t, P, W) for t in s), torch.zeros_like(s[0])], "lengths do not shift"),
        (lambda s, P, W: s, "your list has 2"),
        (lambda s, P, W: [*s, s[0]], "not a mistake that is known"),
    ],
    "bias": [
        (bias, "Right"),
        (lambda w, rows: sum(rows), "added the rows of all layers"),
        (lambda w, rows: bias(w, rows, heads=1), "one head only"),
        (bias_from_the_left, "from the left"),
        (lambda w, rows: bias(w, rows, skip=True), "formula with skips"),
        (lambda w, rows: rows[0][:2], r"shape \(3,\) was wanted, yours is \(2,\)"),
    ],
}


def extremal(n, d, *, scale=None, sign=1, column=0):
    a, b = torch.zeros(n, d), torch.zeros(n, d)
    a[:, column], b[0] = 1, math.sqrt(n / d) if scale is None else scale
    a[0] *= sign
    return a.double(), b.double()


def apart(n, d):
    """Equal norms, other shapes, but no entry in which they meet."""
    a, b = torch.zeros(n, d).double(), torch.zeros(n, d).double()
    a[:-1, 0], b[-1, 1:] = 1, 1
    return a / math.sqrt(n - 1), b / math.sqrt(d - 1)


def exact(a, w, v):
    return v <= 1 or w * a * a < math.atanh(1 / v)


def spread_of_differences(a, quarter=lambda x: math.tanh(x / 4)):
    d = a[:, None] - a[None]
    return quarter(float((d.amax(-1) - d.amin(-1)).max()))


QUESTIONS = {
    "constant": [
        (5 / 3, "Right"), (10 / 3, "their mean"), (1.5, "inverse belongs"), (41 / 9, "fourth root"),
        (1, "triangle inequality"), (7, "nd = 81"),
    ],
    "pair": [
        (extremal, "Right"),
        (lambda n, d: (torch.ones(n, d), torch.ones(n, d)), "same ratio"),
        (lambda n, d: extremal(n, d, scale=1), "differ in norm"),
        (lambda n, d: extremal(n, d, sign=-1), "cancel"),
        (apart, "meet in one entry"),
        (lambda n, d: (torch.ones(d), torch.ones(n)), "were wanted"),
    ],
    "collapses": [
        (exact, "Right"),
        (lambda a, w, v: math.sqrt(2) * a < 1, "unit in which"),
        (lambda a, w, v: 8 * w * v * a * a < 1, "bound of Theorem 2.2"),
        (lambda a, w, v: v <= 1, "v alone"),
        (lambda a, w, v: not exact(a, w, v), "wrong way round"),
        (lambda a, w, v: w * a * a < math.atanh(1 / v), "stops with an error"),
        (lambda a, w, v: True, "look at a ="),
    ],
    "factor": [
        (spread_of_differences, "Right"),
        (lambda a: math.tanh(float((a.amax(-1) - a.amin(-1)).max()) / 4), "spread of the rows"),
        (lambda a: math.tanh(float((a[:, None] - a[None]).max()) / 4), "largest entry"),
        (lambda a: spread_of_differences(a, float), "the spread itself"),
        (lambda a: spread_of_differences(a, math.tanh), "quarter is missing"),
        (lambda a: spread_of_differences(a, lambda x: x / 4), "upper bound of the factor"),
        (lambda a: 0.0, "subtract two rows"),
    ],
}

def leading(r, s, w_qk, w):
    centred = r - s @ r
    return r @ w_qk @ centred.T @ (s[:, None] * centred) @ w


COLLAPSE = {
    "norm": [
        (12**0.5, "Right"), (6, "mean of the tokens away"), (12, "forgot the square root"), (3.5, "geometric mean"),
        (4, "column sum alone"), (3, "row sum alone"), (17, "subtract \\(2, 2\\)"),
    ],
    "layers": [
        (5, "Right"), (100, "decades triples"), (99, "decades triples"), (7, "its own cube"), (4, "81 decades"),
        (6, "sends q to q\\^3"),
    ],
    "leading": [
        (leading, "Right"),
        (lambda r, s, w_qk, w: r @ w_qk @ r.T @ (s[:, None] * r) @ w, "second moment"),
        (lambda r, s, w_qk, w: leading(r, s, w_qk.T, w), "transposed"),
        (lambda r, s, w_qk, w: leading(r, torch.ones_like(s) / len(s), w_qk, w), "1/n instead of s"),
        (lambda r, s, w_qk, w: leading(r, s, w_qk, torch.eye(3, dtype=r.dtype)), "are missing"),
        (lambda r, s, w_qk, w: r, "not a mistake that is known"),
    ],
}



def edge_queries(n, gap, *, turn=0.5, sign=1, factor=None):
    middle = 2 * math.pi / n * (torch.arange(n, dtype=torch.float64) + turn)
    s = gap * (factor or 1 / (math.cos(math.pi / n) - math.cos(3 * math.pi / n)))
    return sign * s * torch.stack([middle.cos(), middle.sin()], 1)


def on_a_line(rows, n, *, ends=None, complements=True):
    for x in range(n) if ends is None else ends:
        chain = sorted((r if x in r or not complements else set(range(n)) - r for r in rows), key=len)
        if all(a <= b for a, b in zip(chain, chain[1:])):
            return True
    return False


CODES = {
    "circle": [
        (2.0, "Right"), (0.5, "is its inverse"), (5 / 6, "simplex"), (1, "cross-polytope"), (1.824, "for large n"),
        (7.464, "halved the angle"), (9, "regular hexagon"),
    ],
    "edges": [
        (edge_queries, "Right"),
        (lambda n, gap: edge_queries(n, gap)[:3], "One query a row"),
        (lambda n, gap: edge_queries(n, gap, turn=0), "half-way between two keys"),
        (lambda n, gap: edge_queries(n, gap, sign=-1), "points outwards"),
        (lambda n, gap: edge_queries(n, gap, factor=1), "too small"),
        (lambda n, gap: edge_queries(n, gap, factor=99), "too long"),
    ],
    "dimension": [
        (13, "Right"), (12, "round up"), (20, "log2 n"), (14, "divide by ln 3"), (93, "lower bound was asked"), (5, r"s = 2T"),
    ],
    "line": [
        (on_a_line, "Right"),
        (lambda rows, n: False, "ordered along|order the keys along"),
        (lambda rows, n: on_a_line(rows, n, complements=False), "use complements"),
        (lambda rows, n: True, "never be alone"),
        (lambda rows, n: max(map(len, rows)) > 1, "overlapping pairs"),
        (lambda rows, n: on_a_line(rows, n, ends=[0]), "every key as the end"),
    ],
}

ANSWERS = {codes: CODES, paths: PATHS, collapse: COLLAPSE, questions: QUESTIONS}  # each module of a chapter has its answers here
EVERY = [(module, name) for module, answers in ANSWERS.items() for name in answers]


def label(value):
    return value.__name__.rpartition(".")[2] if hasattr(value, "__name__") else None


@pytest.mark.parametrize("module", ANSWERS, ids=label)
def test_every_exercise_is_fed(module):
    assert set(exercises.__all__) == {label(m) for m in ANSWERS}
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    public = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")}
    assert public == set(ANSWERS[module])


@pytest.mark.parametrize(("module", "name"), EVERY, ids=label)
def test_nothing_tried(module, name):
    assert getattr(module, name)(None).startswith("Not tried yet")


@pytest.mark.parametrize(
    ("module", "name", "number"), [(m, n, i) for m, n in EVERY for i in range(len(ANSWERS[m][n]))], ids=label
)
def test_answers(module, name, number):
    answer, words = ANSWERS[module][name][number]
    said = getattr(module, name)(answer)
    assert re.search(words, said), said
    assert (said == "Right.") == (number == 0)


@pytest.mark.parametrize(("module", "least"), [(paths, 18), (codes, 15), (collapse, 10), (questions, 15)], ids=label)
def test_every_named_mistake_is_fed(module, least):
    """A sentence that no wrong answer reaches would be a sentence that nobody has tried."""
    found = ANSWERS[module]
    said = {getattr(module, name)(answer) for name, answers in found.items() for answer, _ in answers}
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    bodies = [node.body[1:] for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in found]
    words = [c.value for body in bodies for part in body for c in ast.walk(part) if isinstance(c, ast.Constant)]
    sentences = [w for w in words if isinstance(w, str) and w.endswith(".") and len(w) > 20]
    assert len(sentences) >= least
    assert [s for s in sentences if s not in said] == []
