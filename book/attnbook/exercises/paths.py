"""Exercises of the page on path decomposition."""

from __future__ import annotations

import torch
from torch import Tensor

from attnbook.exercises import Case, exercise


@exercise("Not yet: choose the layers first, then a head in each.")
def count(answer):
    """Exercise 1.1: how many paths go through exactly 2 heads, in 5 layers of 3 heads
    with skips?
    """
    mistakes = {
        "You chose the heads, 3 * 3, but not yet the 2 of 5 layers in which they "
        "sit.": 9,
        "You chose the layers, 2 of 5, but not yet a head in each of them.": 10,
        "You counted each pair of layers twice: (l, m) and (m, l) are one choice.": 180,
        "That is 3^5, the paths without a skip: all of them have length 5.": 243,
        "That is 4^5, the paths of all lengths together.": 1024,
    }
    yield Case(answer, 90, mistakes)


@exercise(
    "Not yet: try a path through one layer of one head, then a path that skips it.",
    function_of="x, attention, weights, path",
)
def term(answer):
    """Exercise 1.2: a function that returns the contribution of one path."""
    x, attention, weights = _instance()
    given = answer(x, attention, weights, (1, None, 0))
    p = attention[0][1]
    q = attention[2][0]
    w = weights[0][1]
    v = weights[2][0]
    mistakes = {
        "Head 0 was taken for a skip: `if h` is False for 0 as well as for None; ask "
        "whether h is None.": p @ x @ w,
        "The attention matrices are in the wrong order: the first layer acts on X "
        "first, so it stands rightmost.": p @ q @ x @ w @ v,
        "The weights are in the wrong order: the first layer acts first, so W of "
        "layer 1 stands next to X.": q @ p @ x @ v @ w,
        "Both products are reversed: your function composes the layers from the last "
        "to the first.": p @ q @ x @ v @ w,
        "None is a skip: the layer multiplies by the identity, it does not make the "
        "term zero.": torch.zeros_like(x),
        "None is a skip: you used the last head of that layer.": (
            q @ attention[1][-1] @ p @ x @ w @ weights[1][-1] @ v
        ),
        "The attention is right, but the weights W_h are missing.": q @ p @ x,
    }
    yield Case(given, q @ p @ x @ w @ v, mistakes)
    one = attention[1][1] @ x @ weights[1][1]
    yield Case(answer(x, attention, weights, (None, 1, None)), one)
    yield Case(answer(x, attention, weights, (None, None, None)), x)


@exercise(
    "Not yet: try one head and the list [S_0]: which two sums come out?",
    function_of="sums, attention, weights",
)
def step(answer):
    """Exercise 1.3: a function that takes the list S_0..S_m through one layer with
    skip.
    """
    x, attention, weights = _instance()
    old = x
    new = 2 * x.roll(1, 0)
    heads = list(zip(attention[0], weights[0]))
    old_moved = sum(p @ old @ w for p, w in heads)
    new_moved = sum(p @ new @ w for p, w in heads)
    middle = new + old_moved
    zero = torch.zeros_like(x)
    mistakes = {
        "You used the new S_(k-1): go through the lengths from the longest down, or "
        "keep the old list.": [old, middle, sum(p @ middle @ w for p, w in heads)],
        "The skip is missing: S_k also keeps its old value.": (
            [zero, old_moved, new_moved]
        ),
        "The lengths do not shift: a path that passes a head becomes one longer.": (
            [old + old_moved, new + new_moved, zero]
        ),
    }
    yield Case(
        answer([old, new], attention[0], weights[0]),
        [old, middle, new_moved],
        mistakes,
    )


@exercise(
    "Not yet: try one layer, then two layers of one head each.",
    function_of="weights, biases",
)
def bias(answer):
    """Exercise 1.4: a function that returns the row b that all biases add, without
    skips.
    """
    x, _, weights = _instance()
    rows = list(x[:3])
    turned = [list(torch.stack(maps).mT) for maps in weights]
    one_head = [maps[:1] for maps in weights]
    mistakes = {
        "You added the rows of all layers, but each later layer also multiplies what "
        "comes from below by its W_h.": sum(rows),
        "You carried the row through one head only: every head of the layer acts on "
        "it.": _carried(one_head, rows),
        "You used W_h' on the row from the left: b' W_h is b @ W_h for a row b.": (
            _carried(turned, rows)
        ),
        "You kept the row of each layer below as well: that is the formula with "
        "skips.": _carried(weights, rows, skip=True),
    }
    yield Case(answer(weights, rows), _carried(weights, rows), mistakes)


def _carried(weights: list, rows: list[Tensor], *, skip: bool = False) -> Tensor:
    """The row of the first layer carried to the top, with the rows above it added."""
    b = rows[0]
    for maps, row in zip(weights[1:], rows[1:]):
        moved = sum(b @ w for w in maps)
        b = moved + row + (b if skip else 0)
    return b


def _instance() -> tuple[Tensor, list, list]:
    """Three layers of two heads on four tokens of width three; without symmetry."""
    g = torch.Generator().manual_seed(1)
    x = torch.randn(4, 3, generator=g, dtype=torch.float64)
    logits = torch.randn(3, 2, 4, 4, generator=g, dtype=torch.float64)
    p = torch.softmax(logits, -1)
    w = torch.randn(3, 2, 3, 3, generator=g, dtype=torch.float64)
    return x, [list(layer) for layer in p], [list(layer) for layer in w]
