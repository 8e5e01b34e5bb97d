"""Exercises of the page on path decomposition. Every function takes an answer and
returns a sentence.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

NOT_TRIED = "Not tried yet: put your answer in place of None."
RIGHT = "Right."


def count(answer: int | None) -> str:
    """Exercise 1.1: how many paths go through exactly 2 heads, in 5 layers of 3 heads
    with skips?
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        9: "You chose the heads, 3 * 3, but not yet the 2 of 5 layers in which they sit.",
        10: "You chose the layers, 2 of 5, but not yet a head in each of them.",
        180: "You counted every pair of layers twice: (l, m) and (m, l) are one choice.",
        243: "That is 3^5, the paths without a skip: all of them have length 5.",
        1024: "That is 4^5, the paths of all lengths together.",
    }
    return (
        RIGHT
        if answer == 90
        else mistakes.get(
            answer, "Not yet: choose the layers first, then a head in each."
        )
    )


def term(answer: Callable | None) -> str:
    """Exercise 1.2: a function (x, attention, weights, path) that returns the
    contribution of one path.
    """
    if answer is None:
        return NOT_TRIED
    x, p, w = _instance()
    path = (1, None, 0)
    left, right = (p[2][0], p[0][1]), (w[0][1], w[2][0])
    mistakes = {
        "The attention matrices are in the wrong order: the first layer acts on X first, so it stands rightmost.": left[
            1
        ]
        @ left[0]
        @ x
        @ right[0]
        @ right[1],
        "The weights are in the wrong order: the first layer acts first, so W of layer 1 stands next to X.": left[
            0
        ]
        @ left[1]
        @ x
        @ right[1]
        @ right[0],
        "Both products are reversed: your function composes the layers from the last to the first.": left[
            1
        ]
        @ left[0]
        @ x
        @ right[1]
        @ right[0],
        "None is a skip: the layer multiplies by the identity, it does not make the term zero.": torch.zeros_like(
            x
        ),
        "None is a skip: you used the last head of that layer (index -1 or None picks something).": left[
            0
        ]
        @ p[1][-1]
        @ left[1]
        @ x
        @ right[0]
        @ w[1][-1]
        @ right[1],
        "The attention is right, but the weights W_h are missing.": left[0]
        @ left[1]
        @ x,
    }
    return _compare(
        answer(x, p, w, path), left[0] @ left[1] @ x @ right[0] @ right[1], mistakes
    )


def step(answer: Callable | None) -> str:
    """Exercise 1.3: a function (sums, attention, weights) that takes the list S_0..S_m
    through one layer with skip.
    """
    if answer is None:
        return NOT_TRIED
    x, p, w = _instance()
    sums = [x, 2 * x.roll(1, 0)]

    def mix(s):
        return sum(a @ s @ b for a, b in zip(p[0], w[0]))

    moved = [mix(s) for s in sums]
    wanted = torch.stack([sums[0], sums[1] + moved[0], moved[1]])
    in_place = sums[1] + moved[0]
    mistakes = {
        "You used the new S_(k-1): go through the lengths from the longest down, or keep the old list.": torch.stack(
            [sums[0], in_place, mix(in_place)]
        ),
        "The skip is missing: S_k also keeps its old value.": torch.stack(
            [torch.zeros_like(x), *moved]
        ),
        "The lengths do not shift: a path that passes a head becomes one longer.": torch.stack(
            [sums[0] + moved[0], sums[1] + moved[1], torch.zeros_like(x)]
        ),
    }
    got = answer(list(sums), p[0], w[0])
    if len(got) != 3:
        return f"One layer more means one length more: 3 sums were wanted, your list has {len(got)}."
    return _compare(torch.stack(list(got)), wanted, mistakes)


def bias(answer: Callable | None) -> str:
    """Exercise 1.4: a function (weights, biases) that returns the row b that all biases
    add, without skips.
    """
    if answer is None:
        return NOT_TRIED
    x, _, w = _instance()
    rows = [x[0], x[1], x[2]]
    carried = rows[0]
    for maps, row in zip(w[1:], rows[1:]):
        carried = sum(carried @ m for m in maps) + row
    mistakes = {
        "You added the rows of all layers, but each later layer also multiplies what comes from below by its W_h.": rows[
            0
        ]
        + rows[1]
        + rows[2],
        "You carried the row through one head only: every head of the layer acts on it.": (
            rows[0] @ w[1][0] + rows[1]
        )
        @ w[2][0]
        + rows[2],
        "You used W_h' on the row from the left: b' W_h is b @ W_h for a row b.": sum(
            m @ (sum(n @ rows[0] for n in w[1]) + rows[1]) for m in w[2]
        )
        + rows[2],
        "You kept the row of each layer below as well: that is the formula with skips.": _with_skip(
            rows, w
        ),
    }
    return _compare(answer(w, rows), carried, mistakes)


def _with_skip(rows: list[Tensor], w: list) -> Tensor:
    b = rows[0]
    for maps, row in zip(w[1:], rows[1:]):
        b = b + sum(b @ m for m in maps) + row
    return b


def _compare(got, wanted: Tensor, mistakes: dict[str, Tensor]) -> str:
    if not torch.is_tensor(got) or got.shape != wanted.shape:
        shape = tuple(got.shape) if torch.is_tensor(got) else type(got).__name__
        return f"A tensor of shape {tuple(wanted.shape)} was wanted, yours is {shape}."
    for sentence, value in itertools.chain([(RIGHT, wanted)], mistakes.items()):
        if torch.allclose(got, value, rtol=1e-9, atol=1e-12):
            return sentence
    return "Not yet, and not a mistake that is known here: compare with the formula on one layer and one head."


def _instance() -> tuple[Tensor, list, list]:
    """Three layers of two heads on three tokens; small, fixed, and without symmetry."""
    g = torch.Generator().manual_seed(1)
    x = torch.randn(3, 3, generator=g, dtype=torch.float64)
    p = torch.softmax(torch.randn(3, 2, 3, 3, generator=g, dtype=torch.float64), -1)
    w = torch.randn(3, 2, 3, 3, generator=g, dtype=torch.float64)
    return x, [list(layer) for layer in p], [list(layer) for layer in w]
