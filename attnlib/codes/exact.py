"""What is exact about codes: Radon partitions in fractions, two lattices in integers,
and keys on a line.

    sum_j c_j p_j = 0 = sum_j c_j;   e_i . e_j <= |e|^2 / 2;   R_1 in R_2 in ...

Page: notebooks/sparse_patterns/price_of_dimension
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations, pairwise, product

import torch
from jaxtyping import Int
from torch import Tensor

from attnlib._require import fractions, is_a, is_list, require, sizes


def radon(points: Sequence[Sequence[Fraction | float]]) -> list[Fraction] | None:
    """Numbers c that split points into two sets whose convex hulls meet.

        sum_j c_j p_j = 0,   sum_j c_j = 0

    The points with c_j > 0 are one set, those with c_j < 0 the other.

    Args:
        points: floats are taken as the fractions they are.

    Returns:
        the c_j, exact and not all zero; None if the points are affinely independent.

    Source: Radon 1921, recalled.
    Claim: codes.radon
    """
    is_list(points=points)
    n = len(points)
    require(n >= 1, "points must hold at least one point, got none")
    for point in points:
        is_list(**{"each of points": point})
    lengths = {len(p) for p in points}
    require(len(lengths) == 1, f"points must have one length, got {sorted(lengths)}")
    rows = []
    for i, coordinates in enumerate(zip(*points)):
        given = {f"points[{j}][{i}]": value for j, value in enumerate(coordinates)}
        rows.append(fractions(**given))
    rows.append([Fraction(1)] * n)
    # Gauss and Jordan: after j steps the first j columns are those of the identity.
    for j in range(n):
        candidates = [i for i in range(j, len(rows)) if rows[i][j]]
        if not candidates:  # column j is a combination of those before it
            c = [Fraction(0)] * n
            c[j] = Fraction(1)
            for i in range(j):
                c[i] = -rows[i][j]
            return c
        at = candidates[0]
        rows[j], rows[at] = rows[at], rows[j]
        _clear(rows, j)
    return None


def _clear(rows: list[list[Fraction]], j: int) -> None:
    """Make column j 1 in row j and 0 in all other rows, in place."""
    pivot = rows[j][j]
    rows[j] = [v / pivot for v in rows[j]]
    for i, row in enumerate(rows):
        if i != j:
            factor = row[j]
            pairs = zip(row, rows[j])
            rows[i] = [a - factor * b for a, b in pairs]


def e8() -> Int[Tensor, "240 8"]:
    """The 240 shortest vectors of the lattice E8, times two: integers of squared length
    8. Inner products of two of them are at most 4.

    Source: the coordinates are classical.
    Claim: codes.kissing
    """
    return torch.cat([_signed_pairs(8, 2), _even_signs(1)])


def _signed_pairs(n: int, size: int) -> Tensor:
    """All vectors with two entries +-size and zeros else, (2 n (n - 1), n)."""
    rows = []
    for i, j in combinations(range(n), 2):
        for a, b in product((size, -size), repeat=2):
            row = [0] * n
            row[i] = a
            row[j] = b
            rows.append(row)
    return torch.tensor(rows)


def _even_signs(size: int) -> Tensor:
    """All vectors of 8 entries +-size, an even number of them negative, (128, 8)."""
    signs = product((size, -size), repeat=8)
    even = [v for v in signs if math.prod(v) > 0]
    return torch.tensor(even)


def golay() -> Int[Tensor, "4096 24"]:
    """The 4096 words of the extended binary Golay code.

        m g mod x^23 - 1  and a bit of parity,  for all m of 12 bits,
        g = x^11 + x^10 + x^6 + x^5 + x^4 + x^2 + 1

    They are a linear space, of weights 0, 8, 12, 16 and 24.

    Source: the generator polynomial is classical.
    Claim: codes.kissing
    """
    g = torch.zeros(23, dtype=torch.int64)
    g[[0, 2, 4, 5, 6, 10, 11]] = 1
    rows = torch.stack([g.roll(i) for i in range(12)])
    numbers = torch.arange(4096)[:, None]
    messages = (numbers >> torch.arange(12)) % 2
    words = (messages @ rows) % 2
    parity = words.sum(1, keepdim=True) % 2
    return torch.cat([words, parity], 1)


def leech() -> Int[Tensor, "196560 24"]:
    """The 196560 shortest vectors of the Leech lattice, times sqrt(8): integers of
    squared length 32.

        1104 of shape (+-4^2, 0^22),  97152 of (+-2^8, 0^16) on the words of weight 8,
        98304 of (-+3, +-1^23)

    Inner products of two of them are at most 16.

    Source: the coordinates are classical, recalled; that they are right is proved and
        run on the page.
    Claim: codes.kissing
    """
    words = golay()
    # Eight entries +-2, on the places of an octad.
    octads = words[words.sum(1) == 8]
    _, places = octads.nonzero(as_tuple=True)
    places = places.view(-1, 1, 8)
    signs = _even_signs(2)
    size = (len(octads), len(signs), 8)
    twos = torch.zeros(*size[:2], 24, dtype=torch.int64)
    twos.scatter_(2, places.expand(size), signs.expand(size))
    # One entry -3 and else 1, with the signs of a word.
    threes = 1 - 4 * torch.eye(24, dtype=torch.int64)
    ones = (1 - 2 * words)[:, None] * threes
    fours = _signed_pairs(24, 4)
    return torch.cat([fours, *twos, *ones])


def line_order(rows: Iterable[Iterable[int]], n: int) -> list[int] | None:
    """Keys on a line that serve every row of a pattern, or None if no keys in one
    dimension do.

        for some x the sets  R_i = S_i if x is in S_i, else its complement  form a chain
        k_j = how many R_i lack j

    Each S_i is then all keys up to a number or all from a number on.

    Args:
        rows: S_i each, of the columns 0..n-1.

    Source: derived on the page; the 2023 paper of Likhosherstov et al. has an algorithm
        too (recalled).
    Claim: codes.line
    """
    sizes(1, n=n)
    is_a(Iterable, rows=rows)
    sets = []
    for row in rows:
        is_a(Iterable, **{"each of rows": row})
        sets.append(frozenset(row))
    everything = frozenset(range(n))
    require(
        all(s <= everything for s in sets),
        f"columns of rows must be numbers from 0 to {n - 1}, got {sets}",
    )
    for x in range(n):
        with_x = []
        for s in sets:
            with_x.append(s if x in s else everything - s)
        with_x.sort(key=len)
        if all(small <= large for small, large in pairwise(with_x)):
            keys = []
            for j in range(n):
                keys.append(sum(j not in r for r in with_x))
            return keys
    return None
