"""Steps, hops and connections of the families as formulas, proved on the page; nothing
here looks at a pattern.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnlib._require import one_of, require, sizes


@dataclass(frozen=True, slots=True)
class Exact:
    """What a formula says of a pattern: p steps, s hops or None, and the connections of
    the largest step.
    """

    p: int
    hops: int | None
    connections: int


def exact(family: str, n: int, w: int = 3, g: int = 1) -> Exact:
    """Steps, hops and connections of a pattern of n tokens, by its formula, where that
    is proved.

    Args:
        family: a name of the tables below.
        w: width, stride or block length, where the family has one.
        g: global tokens.
    """
    sizes(2, n=n)
    sizes(1, w=w, g=g)
    n = int(n)
    h = w // 2
    log = (n - 1).bit_length()  # ceil(log2 n)
    ends = n // w
    near = _window(n, math.ceil(w / 2), h)
    classes = n % w * (ends + 1) ** 2 + (w - n % w) * ends**2
    blocks = ends * w**2 + (n % w) ** 2
    summaries = n * ends + n - ends
    symmetric = _window(n, h, h)
    beyond_the_window = 2 * g * (n - 1 - h) - g * (g - 1)
    formulas = {
        "dense": (1, 1, n * n),
        "window": (1, math.ceil((n - 1) / max(1, h)), symmetric),
        "dilation cycle": (log, log, 3 * n - 2),
        "directed cycle": (1, n - 1, 2 * n),
        "star": (1, 2 if n > 3 else 1, 5 * n - 6),
        "longformer": (1, 2, symmetric + beyond_the_window),
        "strided": (2, 3, max(near, classes)),
        "strided, union": (1, 3, near + classes - n),  # each token itself twice
        "fixed": (2, None if n % w else 2, max(blocks, summaries)),
        "block diagonal": (1, None if w < n else 1, blocks),
        "shifted blocks": (2, 2 * n // w - 1, n * w),
        "blockwise": (ends, _turns(ends), n * (w + 1)),
        "logsparse": (1, None, n + n * log - 2**log + 1),
    }
    one_of(formulas, family=family)
    odd = w % 2 == 1 and 3 <= w <= n
    wide = odd and n >= g + h + 2
    divides = n % w == 0
    needs = {
        "window": (odd, "an odd w in 3..n"),
        "longformer": (wide, "an odd w in 3..n, g >= 1 and n >= g + (w - 1) / 2 + 2"),
        "star": (n >= 3, "n >= 3"),
        "strided": (3 <= w < n, "3 <= w < n"),
        "strided, union": (divides and 3 <= w < n, "w >= 3 that divides n"),
        "fixed": (1 < w < n, "1 < w < n"),
        "block diagonal": (w <= n, "b in 1..n"),
        "shifted blocks": (divides and w >= 2, "b >= 2 that divides n"),
        "blockwise": (divides and w < n, "b < n that divides n"),
    }
    proved, words = needs.get(family, (True, ""))
    require(
        proved,
        f"{family}: the formula needs {words}, got n = {n}, w = b = {w}, g = {g}",
    )
    return Exact(*formulas[family])


def _turns(m: int) -> int:
    """The least t >= 2 with t (t - 1) / 2 >= m - 1."""
    t = 2
    while t * (t - 1) // 2 < m - 1:
        t += 1
    return t


def _window(n: int, left: int, right: int) -> int:
    """Connections of a window cut at both ends; left, right < n."""
    cut_at_the_front = left * (left + 1) // 2
    cut_at_the_end = right * (right + 1) // 2
    return n * (left + right + 1) - cut_at_the_front - cut_at_the_end
