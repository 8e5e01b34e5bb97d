"""Every exercise: nothing tried, the right answer, and each listed wrong answer, which must be named."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch

from attnlib import exercises
from attnlib.exercises import collapse, paths

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


def leading(r, s, w_qk, w):
    centred = r - s @ r
    return r @ w_qk @ centred.T @ (s[:, None] * centred) @ w


ANSWERS = {
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

ANSWERS_COLLAPSE = {
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

MODULES = {paths: ANSWERS, collapse: ANSWERS_COLLAPSE}
FED = [(module, name) for module, answers in MODULES.items() for name in answers]
CASES = [(module, name, i) for module, name in FED for i in range(len(MODULES[module][name]))]


def tree(module):
    return ast.parse(Path(module.__file__).read_text(encoding="utf-8"))


def test_every_exercise_is_fed():
    assert exercises.__all__ == sorted(module.__name__.rpartition(".")[2] for module in MODULES)
    for module, answers in MODULES.items():
        body = tree(module).body
        public = {node.name for node in body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")}
        assert public == set(answers)


@pytest.mark.parametrize(("module", "name"), FED)
def test_nothing_tried(module, name):
    assert getattr(module, name)(None).startswith("Not tried yet")


@pytest.mark.parametrize(("module", "name", "number"), CASES)
def test_answers(module, name, number):
    answer, words = MODULES[module][name][number]
    said = getattr(module, name)(answer)
    assert re.search(words, said), said
    assert (said == "Right.") == (number == 0)


@pytest.mark.parametrize("module", MODULES)
def test_every_named_mistake_is_fed(module):
    """A sentence that no wrong answer reaches would be a sentence that nobody has tried."""
    answers = MODULES[module]
    said = {getattr(module, name)(answer) for name, cases in answers.items() for answer, _ in cases}
    bodies = [n.body[1:] for n in tree(module).body if isinstance(n, ast.FunctionDef) and n.name in answers]
    words = [c.value for body in bodies for part in body for c in ast.walk(part) if isinstance(c, ast.Constant)]
    sentences = [w for w in words if isinstance(w, str) and w.endswith(".") and len(w) > 20]
    assert len(sentences) >= 10
    assert [s for s in sentences if s not in said] == []
