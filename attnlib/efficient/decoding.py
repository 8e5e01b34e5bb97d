"""What writing one more token costs: the numbers that a row keeps, and the operations
of a step.

Page: notebooks/jl_low_rank/complexity_table
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

from attnlib import _require
from attnlib._require import require, sizes

# The sizes that a row has beside n, d and heads.
SIZES = {
    "cache": (),
    "gqa": ("groups",),
    "mla": ("latent",),
    "window": ("w",),
    "strided": ("l",),
    "fixed": ("l", "c"),
    "longformer": ("w", "g"),
    "bigbird": ("w", "g", "drawn"),
    "lsh": ("r", "m", "b"),
    "linear": (),
    "performer": ("f",),
    "gated": (),
    "delta": (),
    "scan": ("s",),
    "gru": (),
    "linformer": (),
    "nystrom": (),
}
DEFAULTS = {"c": 1, "r": 1, "m": 64}
NOT_ASKED = dict.fromkeys({size for row in SIZES.values() for size in row}, 1)
NO_STEP = {
    "linformer": "its mixtures hold tokens that are not written yet",
    "nystrom": "its segments hold tokens that are not written yet, and move with n",
}


@dataclass(frozen=True, slots=True)
class Decoding:
    """What one layer keeps between two tokens, and what the next token costs.

    Args:
        state: numbers kept, all heads; None if there is no step.
        flops: products of a step, all heads; None if there is no step.
        why: why there is none, else empty.
    """

    state: int | None
    flops: int | None
    why: str = ""


def decoding(row: str, n: int, d: int, *, heads: int = 1, **own: int) -> Decoding:
    """Numbers kept after n tokens, and FLOPs of the n-th token, by the row.

        row     state          FLOPs of a step
        cache   2 n H d        4 n H d
        gqa     2 n g d        4 n H d
        mla     n r            4 H r (n + d)
        window  2 w H d        4 w H d
        linear  H d (d + 1)    4 H d (d + 1)
        gated   H d^2          4 H d^2
        delta   H d^2          6 H d^2
        scan    H d s          4 H d s
        gru     H d            6 (H d)^2

    with H heads; the others as the body has them. Every row is causal, and maps that
    make queries, keys and values are done before, inputs of the gru too.

    Args:
        row: cache, gqa (groups g that divide heads), mla (latent r; its step maps
            queries down and values up), window (w: the last w tokens), strided (l: the
            last l and every l-th), fixed (l, c = 1), longformer (w, g at the front),
            bigbird (w, g, drawn), lsh (b: the sum of the factors, r = 1, m = 64: at
            most 2 m keys a round), linear, performer (f), gated, delta, scan (s states
            a channel, heads d channels), gru (heads d wide), linformer, nystrom.
        n: tokens so far, the new one among them.
        d: width of a head, values included.
        heads: H.
        own: sizes, as named in brackets.

    Returns:
        Decoding. Where a row reads some of a cache, the state is what any later token
        may still ask for: strided, bigbird and lsh keep all tokens.

    Raises:
        ValueError: for an unknown row, a size that its row does not have or that is
            missing, groups that do not divide heads, c above l.

    Cost: O(1).
    Source: counted; each formula is tested on a step that runs.
    Claim: efficient.state
    """
    _require.one_of(list(SIZES), row=row)
    allowed = set(SIZES[row])
    needed = allowed - set(DEFAULTS)
    require(
        needed <= set(own) <= allowed,
        f"sizes of {row} must be {' '.join(SIZES[row]) or 'none'} "
        f"({DEFAULTS} may be left out), got {own}",
    )
    may_be_zero = {"drawn"}
    sizes(0, **{name: own[name] for name in may_be_zero & set(own)})
    rest = {name: size for name, size in own.items() if name not in may_be_zero}
    sizes(1, n=n, d=d, heads=heads, **rest)
    if row in NO_STEP:
        return Decoding(None, None, NO_STEP[row])
    at = SimpleNamespace(**(NOT_ASKED | DEFAULTS | own))
    require(
        heads % at.groups == 0,
        f"groups must divide heads = {heads}, got {at.groups}",
    )
    require(at.c <= at.l, f"c must be at most l = {at.l}, got {at.c}")
    state, products = _one_head(row, n, d, at)
    if row == "gqa":
        return Decoding(at.groups * state, heads * products)
    if row == "mla":
        return Decoding(state, heads * products)
    if row == "gru":
        return Decoding(heads * state, heads * heads * products)
    return Decoding(heads * state, heads * products)


def _one_head(row: str, n: int, d: int, at: SimpleNamespace) -> tuple[int, int]:
    """State and FLOPs of one head."""
    whole = 2 * n * d
    if row in ("linear", "performer", "gated", "delta", "scan", "gru"):
        return {
            "linear": (d * (d + 1), 4 * d * (d + 1)),
            "performer": (at.f * (d + 1), 4 * at.f * (2 * d + 1)),
            "gated": (d * d, 4 * d * d),
            "delta": (d * d, 6 * d * d),
            "scan": (d * at.s, 4 * d * at.s),
            "gru": (d, 6 * d * d),
        }[row]
    if row == "mla":
        return n * at.latent, 4 * at.latent * (n + d)
    if row == "lsh":
        # Queries are keys; each token keeps its bucket of each round.
        hashes = at.r * d * at.b
        return whole + at.r * n, hashes + 4 * at.r * min(2 * at.m, n) * d
    keys = _keys(row, n, at)
    kept = keys if row in ("window", "fixed", "longformer") else n
    return 2 * kept * d, 4 * keys * d


def _keys(row: str, n: int, at: SimpleNamespace) -> int:
    """How many tokens the n-th one reads, itself among them."""
    i = n - 1
    counts = {
        "window": at.w,
        "strided": min(n, at.l + 1) + max(i // at.l - 1, 0),
        "fixed": i % at.l + 1 + at.c * (i // at.l),
        "longformer": at.w + at.g,
        "bigbird": at.w + at.g + at.drawn,
    }
    return min(counts.get(row, n), n)
