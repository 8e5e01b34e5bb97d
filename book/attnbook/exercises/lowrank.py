"""Exercises of the page on spectra and Linformer."""

from __future__ import annotations

import torch

from attnbook.exercises import Case, exercise, fit


@exercise("Not yet: by which factor does P stretch the vector of ones, and the others?")
def ranks(answer):
    """Exercise 7.1: the 90% ranks (by energy, by sums) of P = I / 5 + (4 / 5) 1 1' / 5
    on five tokens.
    """
    mistakes = {
        "The order is (energy, sums): energy squares the singular values, so it needs "
        "fewer of them.": (5, 3),
        "By energy two values hold 0.897, which is not yet 0.9.": (2, 5),
        "By sums four values hold 0.889, which is not yet 0.9.": (3, 4),
        "Do not round: 0.897 and 0.889 both stay below 0.9.": (2, 4),
        "That is the number of large singular values; the small ones count too.": (
            1,
            1,
        ),
        "That is the rank; ask how many values hold 90%.": (5, 5),
    }
    yield Case(answer, (3, 5), mistakes)


@exercise(
    "Not yet: try one token of width 1, where K and V are numbers.",
    function_of="k, v, s, t",
)
def projections(answer):
    """Exercise 7.2: a function that returns E, F with E K = S and F V = T."""
    g = torch.Generator().manual_seed(3)
    k, v = torch.randn(2, 3, 2, generator=g, dtype=torch.float64)
    s, t = torch.randn(2, 2, 2, generator=g, dtype=torch.float64)
    k_inverse = torch.linalg.pinv(k)
    v_inverse = torch.linalg.pinv(v)
    both = torch.linalg.pinv(torch.hstack([k, v]))
    e_of_both = s @ both[:2]
    f_of_both = t @ both[2:]
    wanted = [s @ k_inverse, t @ v_inverse]
    e, f = fit(answer(k, v, s, t), wanted)
    mistakes = {
        "The transpose is no inverse: K'K is not the identity.": (
            [s @ k.T @ k, t @ v.T @ v]
        ),
        "F must invert V, not K.": [s, t @ k_inverse @ v],
        "S and T are exchanged.": [t, s],
        "That needs [K V] of full column rank: three tokens are too few for K and V at "
        "once.": [e_of_both @ k, f_of_both @ v],
    }
    yield Case([e @ k, f @ v], [s, t], mistakes)


@exercise("Not yet: how long is a row of P, and how long is a row of P V?")
def zero(answer):
    """Exercise 7.3: from how many tokens on does the zero output pass for a permutation
    P, d = 64, epsilon = 1/2?
    """
    mistakes = {
        "The bound compares squared norms: epsilon enters by another power.": 128,
        "A smaller epsilon is harder to pass: does it multiply or divide?": 16,
        "That would be right for epsilon = 1.": 64,
        "That power of epsilon is too high: the bound compares squared norms.": 1024,
    }
    yield Case(answer, 256, mistakes)


@exercise(
    "Not yet: try values of equal length first, then columns of equal length.",
    function_of="p, v",
)
def chances(answer):
    """Exercise 7.4: a function that returns the best chances for drawing tokens."""
    g = torch.Generator().manual_seed(4)
    p = torch.rand(3, 4, generator=g, dtype=torch.float64)
    v = torch.randn(4, 2, generator=g, dtype=torch.float64)
    columns = p.norm(dim=0)
    rows = v.norm(dim=1)
    mistakes = {
        "Divide by the sum: chances add up to one.": columns * rows,
        "These are chances of equal size: use the norms.": _share(
            torch.ones_like(rows)
        ),
        "The norms of the values are missing.": _share(columns),
        "The norms of the columns of P are missing.": _share(rows),
        "You used squared norms; the best chances use the norms themselves.": (
            _share((columns * rows) ** 2)
        ),
        "The sum of a column of P is not its norm.": _share(p.sum(0) * rows),
    }
    yield Case(answer(p, v), _share(columns * rows), mistakes)


def _share(sizes: torch.Tensor) -> torch.Tensor:
    return sizes / sizes.sum()


@exercise("Not yet: how far are d orthonormal vectors from the best plane of k points?")
def pairs(answer):
    """Exercise 7.5: the least number of pairs for 100 kinds, epsilon = 0.6."""
    mistakes = {
        "A pair for each kind has no error at all; errors up to epsilon are "
        "allowed.": 100,
        "Squared distances are added, so epsilon enters by its square.": 40,
        "That is the share that may be missing; the rest needs pairs.": 36,
        "Divide or multiply? k pairs serve k / (1 - eps^2) kinds.": 157,
    }
    yield Case(answer, 64, mistakes)
