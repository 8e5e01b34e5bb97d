"""Steps, hops and connections of the families as formulas, proved on the page; nothing
here looks at a pattern.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from attnlib._require import one_of, require, sizes


@dataclass(frozen=True, slots=True)
class Exact:
    """What a formula says of a pattern.

    Args:
        p: steps.
        hops: s, None where there is none.
        connections: of the largest step.
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

    Cost: O(sqrt(n)).
    Source: not taken from a paper.
    """
    one_of(FAMILIES, family=family)
    sizes(2, n=n)
    sizes(1, w=w, g=g)
    return FAMILIES[family](n, w, g)


def _window(n: int, left: int, right: int) -> int:
    """Connections of a window cut at both ends; left, right < n."""
    cut_at_the_front = left * (left + 1) // 2
    cut_at_the_end = right * (right + 1) // 2
    return n * (left + right + 1) - cut_at_the_front - cut_at_the_end


def _classes(n: int, w: int) -> int:
    """Connections of w residue classes that are read whole: their sizes, squared."""
    size, longer = divmod(n, w)
    return longer * (size + 1) ** 2 + (w - longer) * size**2


def _blocks(n: int, b: int) -> int:
    """Connections of blocks of b tokens, and of a shorter last one."""
    count, rest = divmod(n, b)
    return count * b**2 + rest**2


def _doublings(n: int) -> int:
    """ceil(log2 n)."""
    return (n - 1).bit_length()


def _dense(n: int, w: int, g: int) -> Exact:
    return Exact(1, 1, n * n)


def _symmetric(n: int, w: int, g: int) -> Exact:
    h = w // 2
    require(
        w % 2 == 1 and 3 <= w <= n,
        f"window: the formula needs an odd w in 3..n, got w = {w}, n = {n}",
    )
    hops = math.ceil((n - 1) / h)
    return Exact(1, hops, _window(n, h, h))


def _dilation_cycle(n: int, w: int, g: int) -> Exact:
    steps = _doublings(n)
    return Exact(steps, steps, 3 * n - 2)


def _directed_cycle(n: int, w: int, g: int) -> Exact:
    return Exact(1, n - 1, 2 * n)


def _longformer(n: int, w: int, g: int) -> Exact:
    h = w // 2
    proper_window = w % 2 == 1 and 3 <= w <= n  # w = 1: the bare star, without a path
    require(
        proper_window and g >= 1 and n >= g + h + 2,
        "longformer: needs an odd w in 3..n, g >= 1 and n >= g + (w - 1) / 2 + 2, "
        f"got n = {n}, w = {w}, g = {g}",
    )
    beyond_the_window = 2 * g * (n - 1 - h) - g * (g - 1)
    return Exact(1, 2, _window(n, h, h) + beyond_the_window)


def _star(n: int, w: int, g: int) -> Exact:
    require(n >= 3, f"star: the formula needs n >= 3, got {n}")
    hops = 2 if n > 3 else 1
    return Exact(1, hops, 5 * n - 6)


def _strided(n: int, w: int, g: int) -> Exact:
    require(3 <= w < n, f"strided: the formula needs 3 <= w < n, got w = {w}, n = {n}")
    near = _window(n, math.ceil(w / 2), w // 2)
    far = _classes(n, w)
    return Exact(2, 3, max(near, far))


def _strided_union(n: int, w: int, g: int) -> Exact:
    require(
        3 <= w < n and n % w == 0,
        "strided, union: the formula needs w >= 3 that divides n, "
        f"got w = {w}, n = {n}",
    )
    near = _window(n, math.ceil(w / 2), w // 2)
    far = _classes(n, w)
    twice = n  # each token itself
    return Exact(1, 3, near + far - twice)


def _fixed(n: int, w: int, g: int) -> Exact:
    require(1 < w < n, f"fixed: the formula needs 1 < w < n, got w = {w}, n = {n}")
    ends = n // w
    summaries = n * ends + n - ends
    hops = None if n % w else 2
    return Exact(2, hops, max(_blocks(n, w), summaries))


def _diagonal(n: int, b: int, g: int) -> Exact:
    require(
        1 <= b <= n,
        f"block diagonal: the formula needs b in 1..n, got b = {b}, n = {n}",
    )
    hops = None if b < n else 1
    return Exact(1, hops, _blocks(n, b))


def _shifted(n: int, b: int, g: int) -> Exact:
    require(
        b >= 2 and n % b == 0,
        "shifted blocks: the formula needs b >= 2 that divides n, "
        f"got b = {b}, n = {n}",
    )
    return Exact(2, 2 * n // b - 1, n * b)


def _blockwise(n: int, b: int, g: int) -> Exact:
    require(
        1 <= b < n and n % b == 0,
        f"blockwise: the formula needs b < n that divides n, got b = {b}, n = {n}",
    )
    m = n // b
    t = 2  # m > 1
    while t * (t - 1) // 2 < m - 1:
        t += 1
    return Exact(m, t, n * (b + 1))


def _logsparse(n: int, w: int, g: int) -> Exact:
    length = _doublings(n)
    return Exact(1, None, n + n * length - 2**length + 1)


FAMILIES: dict[str, Callable[[int, int, int], Exact]] = {
    "dense": _dense,
    "window": _symmetric,
    "dilation cycle": _dilation_cycle,
    "directed cycle": _directed_cycle,
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
