"""The FLOPs of every row of the table, as formulas.

Page: notebooks/jl_low_rank/complexity_table
"""

from __future__ import annotations

from attnlib import _require
from attnlib._require import require

# The sizes that a row has beside n and d.
SIZES = {
    "dense": (),
    "linformer": ("k",),
    "nystrom": ("k",),
    "strided": ("l", "tile"),
    "fixed": ("l", "c"),
    "window": ("w", "tile"),
    "lsh": ("r", "m", "b"),
    "linear": (),
    "linear causal": ("m",),
    "performer": ("f",),
    "gru": (),
}
DEFAULTS = {"c": 1, "tile": 32, "r": 1, "m": 64}
NOT_ASKED = {"k": 0, "l": 1, "w": 1, "b": 0, "f": 0}  # rows that nobody asked for


def flops(row: str, n: int, d: int, **sizes: int) -> int:
    """Floating-point operations of one head of a kernel, products only: a
    multiplication and an addition count two.

        dense      4 n^2 d
        linformer  8 n k d
        strided    4 n (tile + l + n / l) d
        fixed      4 n (l + c n / l) d

    and so on, as the body has them.

    Args:
        row: dense, linformer (k), nystrom (k), strided (l, tile = 32), fixed (l,
            c = 1), window (w, tile = 32), lsh (b: the sum of the factors, r = 1, m =
            64), linear, linear causal (m = 64), performer (f), gru (weights d x d).
        n, d: tokens, width of a head, values included.
        sizes: as named in brackets. No mask unless named.

    Returns:
        an integer, exact where n is a multiple of block sizes.

    Raises:
        ValueError: for an unknown row, a size that its row does not have, or one that
            is missing.

    Cost: O(1).
    Source: counted on the page; differs from printed tables: nothing is left out.
        Softmax, sort and masks are no products.
    Claim: efficient.flops
    """
    _require.one_of(list(SIZES), row=row)
    allowed = set(SIZES[row])
    needed = allowed - set(DEFAULTS)
    require(
        needed <= set(sizes) <= allowed,
        f"sizes of {row} must be {' '.join(SIZES[row]) or 'none'} "
        f"({DEFAULTS} may be left out), got {sizes}",
    )
    _require.sizes(1, n=n, d=d, **sizes)
    given = NOT_ASKED | DEFAULTS | sizes
    k = given["k"]
    l = given["l"]
    c = given["c"]
    w = given["w"]
    tile = given["tile"]
    r = given["r"]
    b = given["b"]
    m = given["m"]
    f = given["f"]
    linear = 4 * n * d * (d + 1)
    own_chunk = 2 * n * m * (2 * d + 1)
    hashes = n * d * b
    chunks = 8 * n * m * d
    counts = {
        "dense": 4 * n * n * d,
        "linformer": 8 * n * k * d,
        "nystrom": 8 * n * k * d + 4 * k * k * d,
        "strided": 4 * n * (tile + l + n // l) * d,
        "fixed": 4 * n * (l + c * (n // l)) * d,
        "window": 4 * n * (tile + w - 1) * d,
        "lsh": r * (hashes + chunks),
        "linear": linear,
        "linear causal": linear + own_chunk,
        "performer": 4 * n * f * (2 * d + 1),
        "gru": 12 * n * d * d,
    }
    return counts[row]
