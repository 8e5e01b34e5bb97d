"""What every row of the table costs, as formulas: one pass, one more token, and how
many steps must follow one another.

Page: notebooks/jl_low_rank/complexity_table
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import NamedTuple

from attnlib import _require
from attnlib._require import require


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


# FLOPs of one head. What stands behind the star are a row's own sizes.
FLOPS = {
    "dense": lambda n, d: 4 * n**2 * d,
    "fused": lambda n, d: 4 * n**2 * d,
    "linformer": lambda n, d, *, k: 8 * n * k * d,
    "nystrom": lambda n, d, *, k, iterations=0: (
        8 * n * k * d + 4 * k**2 * d + 8 * iterations * k**3
    ),
    "strided": lambda n, d, *, l, tile=32: 4 * n * (tile + l + n // l) * d,
    "fixed": lambda n, d, *, l, c=1: 4 * n * (l + c * (n // l)) * d,
    "window": lambda n, d, *, w, tile=32: 4 * n * (tile + w - 1) * d,
    "longformer": lambda n, d, *, w, g, tile=32: (
        4 * n * (tile + w - 1) * d + 8 * n * g * d
    ),
    "bigbird": lambda n, d, *, block, drawn=2: (
        4 * block**2 * _pairs(math.ceil(n / block), drawn) * d
    ),
    "lsh": lambda n, d, *, b, r=1, m=64: r * (n * d * b + 8 * n * m * d),
    "lsh causal": lambda n, d, *, b, buckets, r=1, m=64: (
        r * (n * d * b + 8 * _seats(n, buckets, m) * m * d)
    ),
    "linear": lambda n, d: 4 * n * d * (d + 1),
    "linear causal": lambda n, d, *, m=64: (
        4 * n * d * (d + 1) + 2 * n * m * (2 * d + 1)
    ),
    "performer": lambda n, d, *, f: 4 * n * f * (2 * d + 1),
    "performer causal": lambda n, d, *, f, m=64: (
        4 * n * f * (2 * d + 1) + 2 * n * m * (f + d + 1)
    ),
    "gated": lambda n, d, *, m=64: 4 * n * (m + d) * d,
    "delta": lambda n, d, *, m=64: 8 * n * m * d + 6 * n * d**2,
    "scan": lambda n, d, *, s, m=64: 4 * n * d * s,
    "gru": lambda n, d: 12 * n * d**2,
    "gru recurrence": lambda n, d: 6 * n * d**2,
}


def flops(row: str, n: int, d: int, **sizes: int) -> int:
    """Floating-point operations of one head, products only: a multiplication and an
    addition count two. Softmax, sort, masks and gates are no products.

    Maps that make queries, keys and values are in no row but gru, which has its input
    products in; gru recurrence has not.

    Args:
        row: of FLOPS, which stands above.
        d: width of a head, values included.
        sizes: as named there. tile: queries of a tile; c: summaries of a block of l;
            block: of BigBird, that reads three blocks near, the first, and `drawn`; b:
            the sum of the factors, buckets: their product; m: tokens of a chunk, cut at
            n; s: states a channel; iterations: 0 for the exact inverse, no product.

    Returns:
        an integer, exact where n is a multiple of block sizes; for lsh causal the most
        that it can be.

    Source: counted on the page; differs from printed tables: nothing is left out.
    Claim: efficient.flops
    """
    return _of(FLOPS, row, (n, d), sizes)


class Decoding(NamedTuple):
    """Numbers that a layer keeps between two tokens, and FLOPs of the next token."""

    state: int
    flops: int


def _cached(reads: int, width: int, kept: int | None = None) -> Decoding:
    """A step that reads some tokens of a cache, of which any other may be asked for
    later if more are kept.
    """
    return Decoding(2 * (kept or reads) * width, 4 * reads * width)


# What H heads of width d keep after n tokens, and FLOPs of the n-th token.
STEPS = {
    "cache": lambda n, d, H: _cached(n, H * d),
    "gqa": lambda n, d, H, *, groups: Decoding(2 * n * groups * d, 4 * n * H * d),
    "mla": lambda n, d, H, *, latent: Decoding(n * latent, 4 * H * latent * (n + d)),
    "window": lambda n, d, H, *, w: _cached(min(w, n), H * d),
    "strided": lambda n, d, H, *, l: _cached(
        min(n, l + 1) + max((n - 1) // l - 1, 0), H * d, n
    ),
    "fixed": lambda n, d, H, *, l, c=1: _cached(
        (n - 1) % l + 1 + c * ((n - 1) // l), H * d
    ),
    "longformer": lambda n, d, H, *, w, g: _cached(min(w + g, n), H * d),
    "bigbird": lambda n, d, H, *, w, g, drawn: _cached(min(w + g + drawn, n), H * d, n),
    "lsh": lambda n, d, H, *, b, r=1, m=64: Decoding(
        2 * n * H * d + r * n * H, r * H * d * (b + 4 * min(2 * m, n))
    ),
    "linear": lambda n, d, H: Decoding(H * d * (d + 1), 4 * H * d * (d + 1)),
    "performer": lambda n, d, H, *, f: Decoding(
        H * f * (d + 1), 4 * H * f * (2 * d + 1)
    ),
    "gated": lambda n, d, H: Decoding(H * d**2, 4 * H * d**2),
    "delta": lambda n, d, H: Decoding(H * d**2, 6 * H * d**2),
    "scan": lambda n, d, H, *, s: Decoding(H * d * s, 4 * H * d * s),
    "gru": lambda n, d, H: Decoding(H * d, 6 * (H * d) ** 2),
}


def decoding(row: str, n: int, d: int, *, heads: int = 1, **sizes: int) -> Decoding:
    """Numbers kept after n tokens, and FLOPs of the n-th token, by the row: all heads.

    Every row is causal, and maps that make queries, keys and values are done before.
    Linformer and Nystrom have no step: their mixtures hold tokens not written yet.

    Args:
        row: of STEPS, which stands above.
        n: tokens so far, the new one among them.
        d: width of a head, values included.
        sizes: as named there. groups: heads of keys; latent: numbers a token; w, l, c,
            g, drawn: tokens read; b, r, m: as in flops, at most 2 m keys a round; f:
            features; s: states a channel.

    Source: counted; each formula is tested on a step that runs.
    Claim: efficient.state
    """
    _require.sizes(1, heads=heads)
    groups = sizes.get("groups", 1)
    _require.sizes(1, groups=groups)
    require(heads % groups == 0, f"groups must divide heads = {heads}, got {groups}")
    return _of(STEPS, row, (n, d, heads), sizes)


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
    _require.one_of(list(FLOPS), row=row)
    _require.sizes(1, n=n, m=m)
    chunks = math.ceil(n / m)
    sort = max(1, int(n - 1).bit_length())
    grows = {"lsh": sort, "lsh causal": sort, "gru": n, "gru recurrence": n}
    grows |= {"gated": chunks, "delta": chunks, "scan": min(m, n) + chunks}
    return grows.get(row, 1)


def _of(formulas: dict[str, Callable], row: str, common: tuple, sizes: dict):
    """The formula of a row at these sizes, if it has them all."""
    _require.one_of(list(formulas), row=row)
    own = inspect.getfullargspec(formulas[row])
    defaults = own.kwonlydefaults or {}
    require(
        set(own.kwonlyargs) - set(defaults) <= set(sizes) <= set(own.kwonlyargs),
        f"sizes of {row} must be {' '.join(own.kwonlyargs) or 'none'} "
        f"({defaults} may be left out), got {sizes}",
    )
    _require.sizes(1, **dict(zip("nd", common)))
    for name, size in sizes.items():
        _require.sizes(int(name not in ("iterations", "drawn")), **{name: size})
    sizes = defaults | sizes
    if "m" in sizes:
        sizes["m"] = min(sizes["m"], common[0])  # as the kernels cut their chunks
    if "c" in sizes:
        c, l = sizes["c"], sizes["l"]
        require(c <= l, f"c must be at most l = {l}, got {c}")
    return formulas[row](*common, **sizes)
