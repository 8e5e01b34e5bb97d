"""What every row of the table costs, as formulas: operations, the largest tensor, and
steps that must follow one another.

Page: notebooks/jl_low_rank/complexity_table
"""

from __future__ import annotations

from types import SimpleNamespace

from attnlib import _require
from attnlib._require import require

# The sizes that a row has beside n and d.
SIZES = {
    "dense": (),
    "fused": (),
    "linformer": ("k",),
    "nystrom": ("k", "iterations"),
    "strided": ("l", "tile"),
    "fixed": ("l", "c"),
    "window": ("w", "tile"),
    "longformer": ("w", "g", "tile"),
    "bigbird": ("block", "drawn"),
    "lsh": ("r", "m", "b"),
    "lsh causal": ("r", "m", "b", "buckets"),
    "linear": (),
    "linear causal": ("m",),
    "performer": ("f",),
    "performer causal": ("f", "m"),
    "gated": ("m",),
    "delta": ("m",),
    "scan": ("s", "m"),
    "gru": (),
    "gru recurrence": (),
}
DEFAULTS = {"c": 1, "tile": 32, "r": 1, "m": 64, "iterations": 0, "drawn": 2}
NOT_ASKED = dict.fromkeys({size for row in SIZES.values() for size in row}, 1)


def flops(row: str, n: int, d: int, **sizes: int) -> int:
    """Floating-point operations of one head of a kernel, products only: a
    multiplication and an addition count two.

        dense      4 n^2 d
        linformer  8 n k d
        strided    4 n (tile + l + n / l) d
        gated      4 n (m + d) d

    and so on, as the body has them. Maps that make queries, keys and values are in
    none of them, but for gru, which has its input products in; gru recurrence has not.

    Args:
        row: dense, fused, linformer (k), nystrom (k, iterations = 0 for the exact
            inverse, which is no product), strided (l, tile = 32), fixed (l, c = 1),
            window (w, tile = 32), longformer (w, g, tile = 32), bigbird (block, drawn =
            2: three blocks near, the first, so many drawn or all that are left, and the
            first reads all), lsh (b: the sum of the factors, r = 1, m = 64), lsh causal
            (also buckets: their product), linear, linear causal (m = 64), performer
            (f), performer causal (f, m = 64), gated (m = 64), delta (m = 64, its solve
            included), scan (s states a channel, m = 64), gru, gru recurrence (weights
            d x d).
        n, d: tokens, width of a head, values included.
        sizes: as named in brackets; m is cut at n. No mask unless named.

    Returns:
        an integer, exact where n is a multiple of block sizes; for lsh causal the most
        that it can be: a bucket may leave m - 1 of its last seats empty.

    Raises:
        ValueError: for an unknown row, a size that its row does not have, one that is
            missing, or c above l.

    Cost: O(1).
    Source: counted on the page; differs from printed tables: nothing is left out.
        Softmax, sort, masks and gates are no products.
    Claim: efficient.flops
    """
    at = _given(row, n, d, sizes)
    require(at.c <= at.l, f"c must be at most l = {at.l}, got {at.c}")
    linear = 4 * n * d * (d + 1)
    own_chunk = 2 * n * at.m * (2 * d + 1)
    performer = 4 * n * at.f * (2 * d + 1)
    own_chunk_of_features = 2 * n * at.m * (at.f + d + 1)
    iterations = 8 * at.iterations * at.k**3
    near = 4 * n * (at.tile + at.w - 1) * d
    blocks = -(-n // at.block)
    # The first block reads all, the second and the last see one neighbour less.
    at_the_ends = min(blocks - 1, 2) * min(3 + at.drawn, blocks)
    between = max(blocks - 3, 0) * min(4 + at.drawn, blocks)
    pairs_of_blocks = blocks + at_the_ends + between
    seats = n + min(at.buckets, n) * (at.m - 1)
    seats = seats // at.m * at.m
    counts = {
        "dense": 4 * n * n * d,
        "fused": 4 * n * n * d,
        "linformer": 8 * n * at.k * d,
        "nystrom": 8 * n * at.k * d + 4 * at.k * at.k * d + iterations,
        "strided": 4 * n * (at.tile + at.l + n // at.l) * d,
        "fixed": 4 * n * (at.l + at.c * (n // at.l)) * d,
        "window": near,
        "longformer": near + 8 * n * at.g * d,
        "bigbird": 4 * at.block**2 * pairs_of_blocks * d,
        "lsh": at.r * (n * d * at.b + 8 * n * at.m * d),
        "lsh causal": at.r * (n * d * at.b + 8 * seats * at.m * d),
        "linear": linear,
        "linear causal": linear + own_chunk,
        "performer": performer,
        "performer causal": performer + own_chunk_of_features,
        "gated": 4 * n * (at.m + d) * d,
        "delta": 8 * n * at.m * d + 6 * n * d * d,
        "scan": 4 * n * d * at.s,
        "gru": 12 * n * d * d,
        "gru recurrence": 6 * n * d * d,
    }
    return counts[row]


def largest(row: str, n: int, d: int, **sizes: int) -> int:
    """How many numbers the largest tensor holds that one head of a kernel makes: what
    it needs beside its inputs, up to a few tensors of that size.

        dense      n max(n, d)
        fused      n d
        linformer  n max(k, d)
        gated      n max(m, d, d^2 / m)

    and so on, as the body has them.

    Args:
        row, n, d, sizes: as for flops. Tiles of logits that stay in the cache are left
            out (fused, strided, fixed, window, longformer, bigbird), and so are the
            keys that bigbird copies, at most 2^19 numbers at once.

    Returns:
        an integer, exact where n is a multiple of block sizes; for lsh causal the most
        that it can be.

    Raises:
        ValueError: as flops.

    Cost: O(1).
    Source: counted by running the kernels.
    Claim: efficient.newer
    """
    at = _given(row, n, d, sizes)
    seats = n + min(at.buckets, n) * (at.m - 1)
    seats = seats // at.m * at.m
    blocks = -(-n // at.m)
    counts = {
        "dense": n * max(n, d),
        "linformer": n * max(at.k, d),
        "nystrom": n * max(at.k, d),
        "lsh": 2 * at.r * n * max(at.m, d),
        "lsh causal": 2 * at.r * seats * max(at.m, d),
        "linear": n * (d + 1),
        "linear causal": max(n * at.m, blocks * d * (d + 1)),
        "performer": n * max(at.f, d + 1),
        "performer causal": max(
            n * max(at.f, d + 1), n * at.m, blocks * at.f * (d + 1)
        ),
        "gated": max(n * at.m, blocks * d * d),
        "delta": max(2 * n * d, n * at.m, blocks * d * d),
        "scan": n * d * at.s,
        "gru": 3 * n * d,
        "gru recurrence": 3 * n * d,
    }
    return counts.get(row, n * d)


def depth(row: str, n: int, **sizes: int) -> int:
    """How many steps of a kernel must follow one another, as n grows: a product or a
    sum counts as one, and what does not grow with n as one together.

        most rows    1
        lsh          ceil(log2 n), its sort
        gated, delta ceil(n / m)
        scan         m + ceil(n / m)
        gru          n

    Args:
        row, n, sizes: as for flops; all sizes may be left out but m.

    Returns:
        an integer.

    Raises:
        ValueError: for an unknown row, or a size that its row does not have.

    Cost: O(1).
    Source: the loops of the kernels; a linear recurrence can do with ceil(log2 n)
        rounds, which gated and scan do not use.
    Claim: efficient.depth
    """
    _require.one_of(list(SIZES), row=row)
    given = NOT_ASKED | DEFAULTS
    own = {name: given[name] for name in SIZES[row]}
    at = _given(row, n, 1, own | sizes)
    chunks = -(-n // at.m)
    sort = max(1, int(n - 1).bit_length())
    steps = {
        "lsh": sort,
        "lsh causal": sort,
        "gated": chunks,
        "delta": chunks,
        "scan": at.m + chunks,
        "gru": n,
        "gru recurrence": n,
    }
    return steps.get(row, 1)


def _given(row: str, n: int, d: int, sizes: dict[str, int]) -> SimpleNamespace:
    """The sizes of a row; those that it does not have stand there as 1 or 0."""
    _require.one_of(list(SIZES), row=row)
    allowed = set(SIZES[row])
    needed = allowed - set(DEFAULTS)
    require(
        needed <= set(sizes) <= allowed,
        f"sizes of {row} must be {' '.join(SIZES[row]) or 'none'} "
        f"({DEFAULTS} may be left out), got {sizes}",
    )
    may_be_zero = {"iterations", "drawn"}
    _require.sizes(0, **{name: sizes[name] for name in may_be_zero & set(sizes)})
    rest = {name: size for name, size in sizes.items() if name not in may_be_zero}
    _require.sizes(1, n=n, d=d, **rest)
    at = SimpleNamespace(**(NOT_ASKED | DEFAULTS | sizes))
    at.m = min(at.m, n)  # as the kernels cut their chunks
    return at
