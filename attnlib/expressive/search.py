"""How often a dimension does, and the smallest that does.

Page: notebooks/sparse_patterns/logarithmic_dimension
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlib._require import numbers, random, require, sizes
from attnlib.expressive.dimensions import _tolerances
from attnlib.expressive.fitting import Exhausted, fit
from attnlib.expressive.verification import _columns


def successes(
    columns: Int[Tensor, "n k"],
    log_weights: Float[Tensor, "n k"] | None = None,
    *,
    d: int,
    draws: int,
    **how,
) -> int:
    """How many of some independent draws of the keys pass.

    Args:
        columns, log_weights, d: as in fit.
        draws: how many.
        how: further words to fit, generator among them.

    Returns:
        a number from 0 to draws.

    Raises:
        ValueError: as fit, and for draws < 1.

    Cost: draws times fit.
    Source: counting.
    """
    sizes(1, draws=draws)
    found = 0
    for _ in range(draws):
        try:
            fit(columns, log_weights, d=d, restarts=1, **how)
            found += 1
        except Exhausted:
            pass
    return found


def smallest_dimension(
    columns: Int[Tensor, "n k"],
    log_weights: Float[Tensor, "n k"] | None = None,
    *,
    eps1: float,
    eps2: float,
    generator: torch.Generator,
    restarts: int = 10,
    most: int | None = None,
    precision: float = 0.01,
    **how,
) -> int:
    """The smallest dimension at which one of a few draws passes, by bisection; success
    is random and not monotone.

    Args:
        columns, log_weights, eps1, eps2, generator, restarts: as in fit.
        most: the bisection ends there.
        precision: width at which it stops, as a share of d.
        how: further words to fit: method, s, keys, dtype.

    Returns:
        the dimension; `most` if nothing below passed. most=None: n, the trivial one.

    Raises:
        ValueError: as fit, for most < 1, and for a precision that is not positive.

    Cost: log2(n) times restarts times fit at the most.
    Source: the protocol of the papers' simulation in words, with bisection in place of
        a grid.
    """
    _columns(columns)
    _tolerances(eps1, eps2)
    random(generator)
    sizes(1, restarts=restarts)
    numbers(precision=precision)
    require(precision > 0, f"precision must be positive, got {precision}")
    if most is None:
        most = len(columns)
    sizes(1, most=most)
    how = {"eps1": eps1, "eps2": eps2, "generator": generator, **how}

    def passes(d: int) -> bool:
        """Whether one of a few draws in d dimensions does."""
        for _ in range(restarts):
            if successes(columns, log_weights, d=d, draws=1, **how):
                return True
        return False

    longest = int((columns >= 0).sum(1).max())
    low = longest - 1
    high = most
    while high - low > max(1, precision * high):
        if high > 2 * low + 2:  # far apart: halve the ratio, not the difference
            d = round(math.sqrt(max(low, 1) * high))
        else:
            d = (low + high) // 2
        if passes(d):
            high = d
        else:
            low = d
    return high
