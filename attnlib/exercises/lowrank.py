"""Exercises of the page on spectra and Linformer. Every function takes an answer and
returns a sentence.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from attnlib.exercises.paths import NOT_TRIED, RIGHT, _compare


def ranks(answer: tuple[int, int] | None) -> str:
    """Exercise 7.1: the 90% ranks (by energy, by sums) of P = I / 5 + (4 / 5) 1 1' / 5
    on five tokens.
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        (
            5,
            3,
        ): "The order is (energy, sums): energy squares the singular values, so it needs fewer of them.",
        (2, 5): "By energy two values hold 1.04 / 1.16 = 0.897, which is not yet 0.9.",
        (3, 4): "By sums four values hold 1.6 / 1.8 = 0.889, which is not yet 0.9.",
        (2, 4): "Do not round: 0.897 and 0.889 both stay below 0.9.",
        (
            1,
            1,
        ): "That is the number of large singular values; the four small ones count too.",
        (5, 5): "That is the rank; ask how many values hold 90%.",
    }
    pair = tuple(answer)
    return (
        RIGHT
        if pair == (3, 5)
        else mistakes.get(
            pair, "Not yet: the singular values are 1, then 1/5 four times."
        )
    )


def projections(answer: Callable | None) -> str:
    """Exercise 7.2: a function (k, v, s, t) that returns E, F with E K = S and F V =
    T.
    """
    if answer is None:
        return NOT_TRIED
    g = torch.Generator().manual_seed(3)
    k, v, s, t = (
        torch.randn(n, 2, generator=g, dtype=torch.float64) for n in (3, 3, 2, 2)
    )
    e, f = answer(k, v, s, t)
    both = torch.linalg.pinv(torch.cat([k, v], 1))
    for name, got in {"E": e, "F": f}.items():
        if tuple(got.shape) != (2, 3):
            return f"{name} must be 2 x 3, one row a pair and one column a token; yours is {tuple(got.shape)}."
    mistakes = {
        "The transpose is no inverse: K'K is not the identity.": torch.cat(
            [s @ k.T @ k, t @ v.T @ v]
        ),
        "F must invert V, not K.": torch.cat([s, t @ torch.linalg.pinv(k) @ v]),
        "S and T are exchanged.": torch.cat([t, s]),
        "That needs [K V] of full column rank: three tokens are too few for K and V at once.": torch.cat(
            [s @ both[:2] @ k, t @ both[2:] @ v]
        ),
    }
    return _compare(torch.cat([e @ k, f @ v]), torch.cat([s, t]), mistakes)


def zero(answer: int | None) -> str:
    """Exercise 7.3: from how many tokens on does the zero output pass for a permutation
    P, d = 64, epsilon = 1/2?
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        128: "epsilon enters squared: the bound compares squared norms.",
        16: "epsilon^2 divides, it does not multiply: a smaller epsilon is harder to pass.",
        64: "That would be right for epsilon = 1.",
        1024: "epsilon enters by its square, not by its fourth power.",
    }
    return (
        RIGHT
        if answer == 256
        else mistakes.get(
            answer, "Not yet: a row of a permutation has norm 1, and s = 1."
        )
    )


def chances(answer: Callable | None) -> str:
    """Exercise 7.4: a function (p, v) that returns the best chances for drawing
    tokens.
    """
    if answer is None:
        return NOT_TRIED
    g = torch.Generator().manual_seed(4)
    p, v = (
        torch.rand(3, 4, generator=g, dtype=torch.float64),
        torch.randn(4, 2, generator=g, dtype=torch.float64),
    )
    columns, rows = p.norm(dim=0), v.norm(dim=1)

    def share(c):
        return c / c.sum()

    mistakes = {
        "Divide by the sum: chances add up to one.": columns * rows,
        "These are chances of equal size: use the norms.": torch.full(
            (4,), 0.25, dtype=p.dtype
        ),
        "The norms of the values are missing.": share(columns),
        "The norms of the columns of P are missing.": share(rows),
        "You used squared norms; the best chances use the norms themselves.": share(
            (columns * rows).square()
        ),
        "The sum of a column of P is not its norm.": share(p.sum(0) * rows),
    }
    return _compare(answer(p, v), share(columns * rows), mistakes)
