"""What every row of the table costs, as formulas: one pass, one more token, and how
many steps must follow one another.

They stand in `_passes`, `_steps` and `depth`, one a row, as the page has them.

Page: notebooks/jl_low_rank/complexity_table
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import NamedTuple

from attnlib import _require
from attnlib._require import require

# Sizes that may be left out.
DEFAULTS = {"c": 1, "tile": 32, "r": 1, "m": 64, "iterations": 0, "drawn": 2}


def _passes(n: int, d: int) -> dict[str, Callable]:
    """FLOPs of one head, by the row, from the row's own sizes."""
    each = 4 * n * d  # for each query a key and its value: two products of width d
    written = d + 1  # a value, and the one that counts it
    return {
        "dense": lambda: each * n,
        "fused": lambda: each * n,
        "linformer": lambda k: 2 * each * k,
        "nystrom": lambda k, iterations: (
            2 * each * k + 4 * k * k * d + 8 * iterations * k**3
        ),
        "strided": lambda l, tile: each * (tile + l + n // l),
        "fixed": lambda l, c: each * (l + c * (n // l)),
        "window": lambda w, tile: each * (tile + w - 1),
        "longformer": lambda w, g, tile: each * (tile + w - 1 + 2 * g),
        "bigbird": lambda block, drawn: (
            4 * block**2 * _pairs(math.ceil(n / block), drawn) * d
        ),
        "lsh": lambda b, r, m: r * (n * d * b + 2 * each * m),
        "lsh causal": lambda b, buckets, r, m: (
            r * (n * d * b + 8 * _seats(n, buckets, m) * m * d)
        ),
        "linear": lambda: each * written,
        "linear causal": lambda m: each * written + 2 * n * m * (d + written),
        "performer": lambda f: 4 * n * f * (d + written),
        "performer causal": lambda f, m: (
            4 * n * f * (d + written) + 2 * n * m * (f + written)
        ),
        "gated": lambda m: each * (m + d),
        "delta": lambda m: 2 * each * m + 6 * n * d * d,
        "scan": lambda s, m: each * s,
        "gru": lambda: 12 * n * d * d,
        "gru recurrence": lambda: 6 * n * d * d,
    }


def _pairs(blocks: int, drawn: int) -> int:
    """Pairs of blocks in BigBird: the first reads all, the second and the last have one
    neighbour less than those between.
    """
    at_the_ends = min(blocks - 1, 2) * min(3 + drawn, blocks)
    between = max(blocks - 3, 0) * min(4 + drawn, blocks)
    return blocks + at_the_ends + between


def _seats(n: int, buckets: int, m: int) -> int:
    """Each bucket may leave m - 1 of its last seats empty."""
    return (n + min(buckets, n) * (m - 1)) // m * m


def flops(row: str, n: int, d: int, **sizes: int) -> int:
    """Floating-point operations of one head, products only: a multiplication and an
    addition count two. Softmax, sort, masks and gates are no products.

    Maps that make queries, keys and values are in no row but gru; gru recurrence leaves
    them out. Exact where n is a multiple of the block sizes; lsh causal is the most
    that it can be.

    Args:
        row: of `_passes`, which stands above.
        d: width of a head, values included.
        sizes: as named there. tile: queries of a tile; c: summaries of a block of l;
            block: of BigBird, that reads three blocks near, the first, and `drawn`; b:
            the sum of the factors, buckets: their product; m: tokens of a chunk, cut at
            n; s: states a channel; iterations: 0 for the exact inverse, no product.

    Source: counted on the page; differs from printed tables: nothing is left out.
    Claim: efficient.flops
    """
    _require.sizes(1, n=n, d=d)
    return _of(_passes(n, d), row, n, sizes)


class Decoding(NamedTuple):
    """Numbers that a layer keeps between two tokens, and FLOPs of the next token."""

    state: int
    flops: int


def _steps(n: int, d: int, H: int) -> dict[str, Callable]:
    """What H heads keep after n tokens, and FLOPs of the n-th, by the row."""
    width = H * d
    each = 4 * width  # FLOPs for a key and its value, in all heads
    written = d + 1  # a value, and the one that counts it

    def cached(reads: int, kept: int) -> Decoding:
        return Decoding(2 * kept * width, each * reads)

    def recent(w: int) -> Decoding:
        reads = min(w, n)
        return cached(reads, reads)

    def strided(l: int) -> Decoding:
        near = min(n, l + 1)
        far = max((n - 1) // l - 1, 0)
        return cached(near + far, n)

    def lsh(b: int, r: int, m: int) -> Decoding:
        kept = 2 * n * width + r * n * H
        return Decoding(kept, r * (width * b + each * min(2 * m, n)))

    return {
        "cache": lambda: cached(n, n),
        "gqa": lambda groups: Decoding(2 * n * groups * d, each * n),
        "mla": lambda latent: Decoding(n * latent, 4 * H * latent * (n + d)),
        "window": recent,
        "strided": strided,
        "fixed": lambda l, c: recent((n - 1) % l + 1 + c * ((n - 1) // l)),
        "longformer": lambda w, g: recent(w + g),
        "bigbird": lambda w, g, drawn: cached(min(w + g + drawn, n), n),
        "lsh": lsh,
        "linear": lambda: Decoding(width * written, each * written),
        "performer": lambda f: Decoding(H * f * written, 4 * H * f * (d + written)),
        "gated": lambda: Decoding(width * d, each * d),
        "delta": lambda: Decoding(width * d, 6 * width * d),
        "scan": lambda s: Decoding(width * s, each * s),
        "gru": lambda: Decoding(width, 6 * width * width),
    }


def decoding(row: str, n: int, d: int, *, heads: int = 1, **sizes: int) -> Decoding:
    """Numbers kept after n tokens, and FLOPs of the n-th token, in all heads.

    Every row is causal, and maps that make queries, keys and values are done before.
    Linformer and Nystrom have no step: their mixtures hold tokens not written yet.

    Args:
        row: of `_steps`, which stands above.
        sizes: as named there. groups: heads of keys; latent: numbers a token; w, l, c,
            g, drawn: tokens read; b, r, m: as in flops, at most 2 m keys a round; f:
            features; s: states a channel.

    Source: counted; each formula is tested on a step that runs.
    Claim: efficient.state
    """
    _require.sizes(1, n=n, d=d, heads=heads)
    groups = sizes.get("groups", 1)
    _require.sizes(1, groups=groups)
    require(heads % groups == 0, f"groups must divide heads = {heads}, got {groups}")
    return _of(_steps(n, d, heads), row, n, sizes)


def depth(row: str, n: int, *, m: int = 64) -> int:
    """How many steps must follow one another, as n grows: a product or a sum counts as
    one, and what does not grow with n as one together.

    Args:
        row: as for flops.
        m: tokens of a chunk, for gated, delta and scan.

    Source: the loops of the kernels; a linear recurrence can do with ceil(log2 n)
        rounds, which gated and scan do not use.
    Claim: efficient.depth
    """
    _require.sizes(1, n=n, m=m)
    _require.one_of(list(_passes(n, 1)), row=row)
    chunks = math.ceil(n / m)
    sort = max(1, int(n - 1).bit_length())
    grows = {
        "lsh": sort,
        "lsh causal": sort,
        "gated": chunks,
        "delta": chunks,
        "scan": min(m, n) + chunks,
        "gru": n,
        "gru recurrence": n,
    }
    return grows.get(row, 1)


def _of(
    formulas: dict[str, Callable], row: str, n: int, sizes: dict[str, int]
) -> int | Decoding:
    """The formula of a row at these sizes, if they are its own."""
    _require.one_of(list(formulas), row=row)
    own = list(inspect.signature(formulas[row]).parameters)
    at = {name: DEFAULTS[name] for name in own if name in DEFAULTS} | sizes
    require(
        set(at) == set(own),
        f"sizes of {row} must be {' '.join(own) or 'none'} "
        f"({DEFAULTS} may be left out), got {sizes}",
    )
    for name, size in at.items():
        least = 0 if name in ("iterations", "drawn") else 1
        _require.sizes(least, **{name: size})
    if "m" in at:
        at["m"] = min(at["m"], n)  # as the kernels cut their chunks
    if "c" in at:
        require(at["c"] <= at["l"], f"c must be at most l = {at['l']}, got {at['c']}")
    return formulas[row](**at)
