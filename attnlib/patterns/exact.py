"""Steps, hops and connections of the families as formulas, proved on the page; nothing
here looks at a pattern.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnlib._require import one_of, require, sizes

# Where a formula is proved: in words, for the families that need something.
NEEDS = {
    "window": "an odd w in 3..n",
    "longformer": "an odd w in 3..n, g >= 1 and n >= g + (w - 1) / 2 + 2",
    "star": "n >= 3",
    "strided": "3 <= w < n",
    "strided, union": "w >= 3 that divides n",
    "fixed": "1 < w < n",
    "block diagonal": "b in 1..n",
    "shifted blocks": "b >= 2 that divides n",
    "blockwise": "b < n that divides n",
}
FAMILIES = ("dense", "dilation cycle", "directed cycle", "logsparse", *NEEDS)


@dataclass(frozen=True, slots=True)
class Exact:
    """What a formula says of a pattern: p steps, s hops or None, and the connections of
    the largest step.
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

    Raises:
        ValueError: where the formula is not proved for these sizes.

    Source: not taken from a paper.
    """
    one_of(FAMILIES, family=family)
    sizes(2, n=n)
    sizes(1, w=w, g=g)
    n = int(n)
    h = w // 2
    odd = w % 2 == 1 and 3 <= w <= n
    proved = {
        "window": odd,
        "longformer": odd and n >= g + h + 2,
        "star": n >= 3,
        "strided": 3 <= w < n,
        "strided, union": 3 <= w < n and n % w == 0,
        "fixed": 1 < w < n,
        "block diagonal": w <= n,
        "shifted blocks": w >= 2 and n % w == 0,
        "blockwise": w < n and n % w == 0,
    }
    require(
        proved.get(family, True),
        f"{family}: the formula needs {NEEDS.get(family)}, "
        f"got n = {n}, w = b = {w}, g = {g}",
    )
    log = (n - 1).bit_length()  # ceil(log2 n)
    near = _window(n, math.ceil(w / 2), h)
    classes = n % w * (n // w + 1) ** 2 + (w - n % w) * (n // w) ** 2
    blocks = n // w * w**2 + (n % w) ** 2
    match family:
        case "dense":
            return Exact(1, 1, n * n)
        case "window":
            return Exact(1, math.ceil((n - 1) / h), _window(n, h, h))
        case "dilation cycle":
            return Exact(log, log, 3 * n - 2)
        case "directed cycle":
            return Exact(1, n - 1, 2 * n)
        case "star":
            return Exact(1, 2 if n > 3 else 1, 5 * n - 6)
        case "longformer":
            beyond_the_window = 2 * g * (n - 1 - h) - g * (g - 1)
            return Exact(1, 2, _window(n, h, h) + beyond_the_window)
        case "strided":
            return Exact(2, 3, max(near, classes))
        case "strided, union":
            twice = n  # each token itself
            return Exact(1, 3, near + classes - twice)
        case "fixed":
            ends = n // w
            summaries = n * ends + n - ends
            return Exact(2, None if n % w else 2, max(blocks, summaries))
        case "block diagonal":
            return Exact(1, None if w < n else 1, blocks)
        case "shifted blocks":
            return Exact(2, 2 * n // w - 1, n * w)
        case "logsparse":
            return Exact(1, None, n + n * log - 2**log + 1)
    m = n // w  # blockwise
    t = 2
    while t * (t - 1) // 2 < m - 1:
        t += 1
    return Exact(m, t, n * (w + 1))


def _window(n: int, left: int, right: int) -> int:
    """Connections of a window cut at both ends; left, right < n."""
    cut_at_the_front = left * (left + 1) // 2
    cut_at_the_end = right * (right + 1) // 2
    return n * (left + right + 1) - cut_at_the_front - cut_at_the_end
