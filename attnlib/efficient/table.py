"""The FLOPs of every row of the table, as formulas."""

from __future__ import annotations

from attnlib._require import require

SIZES = {  # the sizes that a row has
    "dense": "",
    "linformer": "k",
    "nystrom": "k",
    "strided": "l",
    "fixed": "lc",
    "window": ("w", "tile"),
    "lsh": "rmb",
    "linear": "",
    "linear causal": "m",
    "performer": "f",
    "gru": "",
}
DEFAULTS = {"c": 1, "tile": 32, "r": 1, "m": 64}


def flops(row: str, n: int, d: int, **sizes: int) -> int:
    """Floating-point operations of one head of a kernel, products only: a
    multiplication and an addition count two.

        dense 4 n^2 d;   linformer 8 n k d;   strided 4 n (2 l + n / l) d;   fixed 4 n (l + c n / l) d; ...

    Args:
        row: dense, linformer (k), nystrom (k), strided (l), fixed (l, c = 1), window
            (w, tile = 32), lsh (b: the sum of the factors, r = 1, m = 64), linear,
            linear causal (m = 64), performer (f), gru (weights d x d).
        n, d: tokens, width of a head, values included.
        sizes: as named in brackets. No mask unless named.

    Returns:
        an integer, exact where n is a multiple of block sizes.

    Raises:
        ValueError: for an unknown row, a size that its row does not have, or one that
            is missing.

    Cost:
        O(1).

    Source:
        counted on the page; differs from printed tables: nothing is left out. Softmax,
        sort and masks are no products.

    Claim:
        efficient.flops

    Page:
        notebooks/jl_low_rank/complexity_table
    """
    require(row in SIZES, f"row must be one of {list(SIZES)}, got {row!r}")
    s = {"k": 0, "l": 1, "w": 1, "b": 0, "f": 0} | DEFAULTS | sizes
    fits = set(sizes) <= set(SIZES[row]) and set(SIZES[row]) - set(DEFAULTS) <= set(
        sizes
    )
    require(
        fits,
        f"sizes of {row} must be {' '.join(SIZES[row]) or 'none'} ({DEFAULTS} may be left out), got {sizes}",
    )
    k, l, c, m = s["k"], s["l"], s["c"], s["m"]
    counts = {
        "dense": 4 * n * n * d,
        "linformer": 8 * n * k * d,
        "nystrom": 8 * n * k * d + 4 * k * k * d,
        "strided": 4 * n * (2 * l + n // l) * d,
        "fixed": 4 * n * (l + c * (n // l)) * d,
        "window": 4 * n * (s["tile"] + s["w"] - 1) * d,
        "lsh": s["r"] * (n * d * s["b"] + 8 * n * m * d),
        "linear": 4 * n * d * (d + 1),
        "linear causal": 4 * n * d * (d + 1) + 2 * n * m * (2 * d + 1),
        "performer": 4 * n * s["f"] * (2 * d + 1),
        "gru": 12 * n * d * d,
    }
    return counts[row]
