"""Steps, hops and connections of the families as formulas, proved on the page; nothing
here looks at a pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from attnlib._require import require


class Exact(NamedTuple):
    """What a formula says of a pattern.

    Args:
        p: steps.
        hops: s, None where there is none.
        connections: of the largest step.

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """

    p: int
    hops: int | None
    connections: int


def exact(family: str, n: int, w: int = 3, g: int = 1) -> Exact:
    """Steps, hops and connections of a pattern of n tokens, by its formula.

    Args:
        family: one of FAMILIES.
        n: tokens.
        w: width, stride or block length, where the family has one.
        g: global tokens.

    Returns:
        Exact(p, hops, connections).

    Raises:
        ValueError: for an unknown family, and where the formula is not proved for these
            sizes.

    Cost:
        O(sqrt(n)).

    Source:
        not taken from a paper.

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """
    require(
        family in FAMILIES, f"family must be one of {list(FAMILIES)}, got {family!r}"
    )
    require(n >= 2, f"{family}: n must be at least 2, got {n}")
    return FAMILIES[family](n, w, g)


def _window(n: int, left: int, right: int) -> int:
    """Connections of a window cut at both ends; left, right < n."""
    return n * (left + right + 1) - left * (left + 1) // 2 - right * (right + 1) // 2


def _classes(n: int, w: int) -> int:
    """Squares of the sizes of n // w or n // w + 1 that w classes have."""
    return n % w * (n // w + 1) ** 2 + (w - n % w) * (n // w) ** 2


def _blocks(n: int, b: int) -> int:
    return n // b * b**2 + (n % b) ** 2


def _symmetric(n: int, w: int, g: int) -> Exact:
    h = w // 2
    require(
        w % 2 == 1 and 3 <= w <= n,
        f"window: the formula needs an odd w in 3..n, got w = {w}, n = {n}",
    )
    return Exact(1, -(-(n - 1) // h), _window(n, h, h))


def _longformer(n: int, w: int, g: int) -> Exact:
    h = w // 2
    fits = (
        w % 2 == 1 and 3 <= w <= n and g >= 1 and n >= g + h + 2
    )  # w = 1: the bare star, which has no path
    require(
        fits,
        f"longformer: needs an odd w in 3..n, g >= 1 and n >= g + (w - 1) / 2 + 2, got n = {n}, w = {w}, g = {g}",
    )
    return Exact(1, 2, _window(n, h, h) + 2 * g * (n - 1 - h) - g * (g - 1))


def _star(n: int, w: int, g: int) -> Exact:
    require(n >= 3, f"star: the formula needs n >= 3, got {n}")
    return Exact(1, 2 if n > 3 else 1, 5 * n - 6)


def _strided(n: int, w: int, g: int) -> Exact:
    require(3 <= w < n, f"strided: the formula needs 3 <= w < n, got w = {w}, n = {n}")
    return Exact(2, 3, max(_window(n, -(-w // 2), w // 2), _classes(n, w)))


def _strided_union(n: int, w: int, g: int) -> Exact:
    require(
        3 <= w < n and n % w == 0,
        f"strided, union: the formula needs w >= 3 that divides n, got w = {w}, n = {n}",
    )
    return Exact(1, 3, _window(n, -(-w // 2), w // 2) + _classes(n, w) - n)


def _fixed(n: int, w: int, g: int) -> Exact:
    require(1 < w < n, f"fixed: the formula needs 1 < w < n, got w = {w}, n = {n}")
    return Exact(2, None if n % w else 2, max(_blocks(n, w), n * (n // w) + n - n // w))


def _diagonal(n: int, b: int, g: int) -> Exact:
    require(
        1 <= b <= n,
        f"block diagonal: the formula needs b in 1..n, got b = {b}, n = {n}",
    )
    return Exact(1, None if b < n else 1, _blocks(n, b))


def _shifted(n: int, b: int, g: int) -> Exact:
    require(
        b >= 2 and n % b == 0,
        f"shifted blocks: the formula needs b >= 2 that divides n, got b = {b}, n = {n}",
    )
    return Exact(2, 2 * n // b - 1, n * b)


def _blockwise(n: int, b: int, g: int) -> Exact:
    m = n // max(b, 1)
    require(
        1 <= b < n and n % b == 0,
        f"blockwise: the formula needs b < n that divides n, got b = {b}, n = {n}",
    )
    return Exact(
        m, next(t for t in range(m + 1) if t * (t - 1) // 2 >= m - 1), n * (b + 1)
    )


def _logsparse(n: int, w: int, g: int) -> Exact:
    length = (n - 1).bit_length()
    return Exact(1, None, n + n * length - 2**length + 1)


FAMILIES: dict[str, Callable[[int, int, int], Exact]] = {
    "dense": lambda n, w, g: Exact(1, 1, n * n),
    "window": _symmetric,
    "dilation cycle": lambda n, w, g: Exact(
        (n - 1).bit_length(), (n - 1).bit_length(), 3 * n - 2
    ),
    "directed cycle": lambda n, w, g: Exact(1, n - 1, 2 * n),
    "star": _star,
    "longformer": _longformer,
    "strided": _strided,
    "strided, union": _strided_union,
    "fixed": _fixed,
    "block diagonal": _diagonal,
    "shifted blocks": _shifted,
    "blockwise": _blockwise,
    "logsparse": _logsparse,
}
