"""What is exact about codes: Radon partitions in fractions, two lattices in integers,
and keys on a line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations, product

import torch
from jaxtyping import Int
from torch import Tensor

from attnlib._require import require


def radon(points: Sequence[Sequence[Fraction | float | int]]) -> list[Fraction] | None:
    """Numbers c that split points into two sets whose convex hulls meet.

        sum_j c_j p_j = 0,   sum_j c_j = 0;   the points with c_j > 0 are one set, those with c_j < 0 the other

    Args:
        points: rows of integers or Fractions, d each; floats are taken as the fractions
            they are.

    Returns:
        the c_j, exact and not all zero; None if the points are affinely independent.

    Cost:
        O(n d^2) operations on Fractions.

    Source:
        Radon 1921, recalled.

    Claim:
        codes.radon

    Page:
        notebooks/sparse_patterns/price_of_dimension
    """
    rows = [[Fraction(p[i]) for p in points] for i in range(len(points[0]))] + [
        [Fraction(1)] * len(points)
    ]
    pivots: list[int] = []
    for j in range(len(points)):
        at = next((i for i in range(len(pivots), len(rows)) if rows[i][j]), None)
        if at is None:  # column j hangs on the pivots before it
            c = [Fraction(int(i == j)) for i in range(len(points))]
            for row, pivot in zip(rows, pivots):
                c[pivot] = -row[j]
            return c
        top = len(pivots)
        rows[top], rows[at] = rows[at], rows[top]
        rows[top] = [v / rows[top][j] for v in rows[top]]
        rows = [
            row if i == top else [a - row[j] * b for a, b in zip(row, rows[top])]
            for i, row in enumerate(rows)
        ]
        pivots.append(j)
    return None


def e8() -> Int[Tensor, "240 8"]:
    """The 240 shortest vectors of the lattice E8, times two: integers of squared length
    8.

    Args:
        none.

    Returns:
        (240, 8) int64; inner products of two of them are at most 4.

    Cost:
        milliseconds.

    Source:
        the coordinates are classical.

    Claim:
        codes.kissing

    Page:
        notebooks/sparse_patterns/price_of_dimension
    """
    halves = [v for v in product((1, -1), repeat=8) if math.prod(v) > 0]
    return torch.cat([_signed_pairs(8, 2), torch.tensor(halves)])


def _signed_pairs(n: int, size: int) -> Tensor:
    """All vectors with two entries +-size and zeros else, (2 n (n - 1), n)."""
    rows = []
    for (i, j), (a, b) in product(
        combinations(range(n), 2), product((size, -size), repeat=2)
    ):
        rows.append([a if x == i else b if x == j else 0 for x in range(n)])
    return torch.tensor(rows)


def golay() -> Int[Tensor, "4096 24"]:
    """The 4096 words of the extended binary Golay code.

        (m, m g mod x^23 - 1) for all m of 12 bits, g = x^11 + x^10 + x^6 + x^5 + x^4 + x^2 + 1, and a bit of parity

    Args:
        none.

    Returns:
        (4096, 24) int64 of 0 and 1; linear, weights 0, 8, 12, 16, 24.

    Cost:
        milliseconds.

    Source:
        the generator polynomial is classical.

    Claim:
        codes.kissing

    Page:
        notebooks/sparse_patterns/price_of_dimension
    """
    g = torch.zeros(24, dtype=torch.int64)
    g[[0, 2, 4, 5, 6, 10, 11]] = 1
    rows = torch.stack([g[:23].roll(i) for i in range(12)])
    messages = (torch.arange(4096)[:, None] >> torch.arange(12)) % 2
    words = (messages @ rows) % 2
    return torch.cat([words, words.sum(1, keepdim=True) % 2], 1)


def leech() -> Int[Tensor, "196560 24"]:
    """The 196560 shortest vectors of the Leech lattice, times sqrt(8): integers of
    squared length 32.

        1104 of shape (+-4^2, 0^22), 97152 of (+-2^8, 0^16) on the words of weight 8, 98304 of (-+3, +-1^23)

    Args:
        none.

    Returns:
        (196560, 24) int64; inner products of two of them are at most 16.

    Cost:
        0.3 s and 100 MB.

    Source:
        the coordinates are classical, recalled; that they are right is proved and run
        on the page.

    Claim:
        codes.kissing

    Page:
        notebooks/sparse_patterns/price_of_dimension
    """
    words = golay()
    octads = words[words.sum(1) == 8]
    signs = torch.tensor(
        [v for v in product((2, -2), repeat=8) if math.prod(v) > 0]
    )  # an even number of minus
    twos = torch.zeros(len(octads), len(signs), 24, dtype=torch.int64)
    places = octads.nonzero()[:, 1].view(-1, 1, 8).expand(-1, len(signs), -1)
    twos.scatter_(2, places, signs.expand(len(octads), -1, -1))
    ones = (1 - 2 * words)[:, None] * (
        1 - 4 * torch.eye(24, dtype=torch.int64)
    )  # -3 at one place, signs from a word
    return torch.cat([_signed_pairs(24, 4), twos.flatten(0, 1), ones.flatten(0, 1)])


def line_order(rows: Iterable[Iterable[int]], n: int) -> list[int] | None:
    """Keys on a line that serve every row of a pattern, or None if no keys in one
    dimension do.

        for some x the sets R_i = S_i if x is in S_i, else its complement, form a chain;   k_j = how many R_i lack j

    Args:
        rows: sets of columns 0..n-1, S_i each.
        n: number of columns.

    Returns:
        n integers k_j, such that each S_i is all keys up to a number or all from a
        number on; or None.

    Raises:
        ValueError: if a column is not one of 0..n-1.

    Cost:
        O(n m (n + log m)) for m rows.

    Source:
        derived on the page; the 2023 paper of Likhosherstov et al. has an algorithm too
        (recalled).

    Claim:
        codes.line

    Page:
        notebooks/sparse_patterns/price_of_dimension
    """
    sets, everything = [frozenset(row) for row in rows], frozenset(range(n))
    require(
        all(s <= everything for s in sets),
        f"columns must be numbers from 0 to {n - 1}, got {sets}",
    )
    for x in range(n):
        chain = sorted((s if x in s else everything - s for s in sets), key=len)
        if all(a <= b for a, b in zip(chain, chain[1:])):
            return [sum(j not in s for s in chain) for j in range(n)]
    return None
