"""Codes, and whether they are the pattern that they were made for, by tiles.

    gap_i  = min_{j in S_i} L_ij - max_{l not in S_i} L_il    at least log(1 / eps1)
    off_i  = max - min over S_i of  L_ij - log w_ij           at most log(1 + eps2)
    odds_i = sum_{l not in S_i} exp L_il / sum_{j in S_i} exp L_ij

with L = scale Q K', of which one tile exists at a time. S_i are the columns of row i.

Page: notebooks/sparse_patterns/logarithmic_dimension
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlib._require import (
    FLOATS,
    finite,
    full_products,
    is_a,
    is_floating,
    is_tensor,
    matches,
    numbers,
    own_precision,
    require,
    same_device,
    sizes,
    widened,
)
from attnlib.expressive.dimensions import _tolerances


@dataclass(frozen=True, eq=False)
class Code:
    """Queries and keys of a pattern; as inputs X = (sqrt(d) Q, K) of attention with
    weights that know no pattern.

    Args:
        q, k: (n, d), logits are scale * q k'; int8 if the code is exact.
        eps1, eps2: what was asked for.
        scale: of the logits, 1 unless int8.
    """

    q: Tensor
    k: Tensor
    eps1: float
    eps2: float
    scale: float = 1.0

    @property
    def x(self) -> Tensor:
        """The inputs, (n, 2 d); attention_matrix(x, w_q, w_k) divides by sqrt(d), so
        the queries carry it.
        """
        d = self.q.shape[1]
        kind = _floating(self.q)
        queries = self.q.to(kind) * (self.scale * math.sqrt(d))
        keys = self.k.to(kind)
        return torch.cat([queries, keys], 1)

    @property
    def w_q(self) -> Tensor:
        """(2 d, d): the identity over zeros. It depends on d alone."""
        d = self.q.shape[1]
        return torch.eye(2 * d, d, dtype=_floating(self.q), device=self.q.device)

    @property
    def w_k(self) -> Tensor:
        """(2 d, d): zeros over the identity. It depends on d alone."""
        return self.w_q.flip(0).flip(1)


def _floating(q: Tensor) -> torch.dtype:
    """The type in which attention reads a code: int8 as float32, all else as it is."""
    return torch.float32 if q.dtype == torch.int8 else q.dtype


@dataclass(frozen=True, eq=False)
class Verification:
    """What verify found.

    Args:
        passed: both criteria hold, whatever rounding did.
        ratio_error: the worst |log ratio - wanted|, at most log(1 + eps2).
        margin: the smallest log ratio of a wanted entry to a zero, at least log(1 /
            eps1); inf without zeros.
        leak: the largest share of a row that lies on zeros; a bound for an int8 code.
        peak_bytes: of the code, as it was given and as it is multiplied, the pattern,
            the rows and a tile.
        rows: (n, 3), ratio error, margin and odds of the zeros, row by row.
        rounding: a bound for what rounding did to gaps and ratios, taken off before a
            code passes; 0 for int8.
    """

    passed: bool
    ratio_error: float
    margin: float
    leak: float
    peak_bytes: int
    rows: Tensor
    rounding: float = 0.0


@own_precision
def verify(
    code: Code,
    columns: Int[Tensor, "n k"],
    log_weights: Float[Tensor, "n k"] | None = None,
    *,
    tile: tuple[int, int] | None = None,
) -> Verification:
    """Both criteria for every row, from logits that are computed tile by tile and
    forgotten.

    Of an int8 code gaps are integers times scale, without rounding. A float code passes
    only if it would after the worst rounding of its logits, products in full precision
    (no TF32).

    Args:
        columns: -1 pads short rows.
        log_weights: None: equal weights.
        tile: rows and keys at a time; None for (1024, 256), on CUDA (4096, 16384).

    Cost: 2 n^2 d flops; memory O(n d + n k + tile).
    Source: criteria (23), (24) of Likhosherstov et al. 2023 as we read them;
        log-sum-exp by tiles.
    Claim: expressive.tiles
    """
    _code(code, columns)
    full_products(code.q.dtype)
    _tolerances(code.eps1, code.eps2)
    if tile is None:
        tile = (4096, 16384) if code.q.is_cuda else (1024, 256)
    pair = isinstance(tile, (tuple, list)) and len(tile) == 2
    require(pair, f"tile must be two positive sizes, rows and keys, got {tile}")
    for size in tile:
        sizes(1, tile=size)
    high, wide = map(int, tile)
    whole = code.q.dtype == torch.int8
    q, k, gap_off = _logits(code.q, code.k, code.scale)
    kind = torch.float64 if whole else q.dtype
    log_weights = _above_least(columns, log_weights, kind)
    parts = [t.split(high) for t in (q, columns, log_weights)]
    rows = [_read(*part, k, code.scale, wide, whole) for part in zip(*parts)]
    rows = torch.cat(rows)
    spread, gap, odds = rows.unbind(1)

    ratio_off = gap_off
    if not whole:
        # Weights are rounded too, and a row with a single entry has no ratio.
        single = (columns >= 0).sum(1) == 1
        ratio_off = gap_off + 2 * torch.finfo(kind).eps * log_weights.amax(1)
        ratio_off = ratio_off.masked_fill(single, 0)
    gaps_hold = gap - gap_off >= -math.log(code.eps1)
    ratios_hold = spread + ratio_off <= math.log1p(code.eps2)

    worst = float(odds.max())
    held = (code.q, code.k, q, k, columns, log_weights, rows)
    tile_bytes = high * wide * q.itemsize
    return Verification(
        passed=bool((gaps_hold & ratios_hold).all()),
        ratio_error=float(spread.max()),
        margin=float(gap.min()),
        leak=worst / (1 + worst) if worst < math.inf else 1.0,
        peak_bytes=sum(t.nbytes for t in held) + tile_bytes,
        rows=rows,
        rounding=float(torch.maximum(gap_off, ratio_off).max()),
    )


def _read(
    q: Tensor,
    c: Tensor,
    log_weights: Tensor,
    k: Tensor,
    scale: float,
    wide: int,
    whole: bool,
) -> Tensor:
    """Ratio error, gap and odds of some rows, (rows, 3), of integers if `whole`."""
    padding = c < 0
    on = _supports(q, k, c)
    if whole:
        on = on.double()
    on = on * scale
    rest = on - log_weights
    above = rest.masked_fill(padding, -math.inf).amax(1)
    below = rest.masked_fill(padding, math.inf).amin(1)
    least = on.masked_fill(padding, math.inf).amin(1)
    if whole:
        # A sum over the zeros is bounded by their number times the largest.
        top = q.new_full((len(q),), -math.inf)
        for products in _off_support(q, k, c, wide):
            top = torch.maximum(top, products.amax(1))
        top = top.double() * scale
        zeros = len(k) - (~padding).sum(1)
        mass = zeros * (top - least).exp()
    else:
        # Logits in units of ln 2: exp2 is faster than exp.
        q = q * (scale * math.log2(math.e))
        shift = (least * math.log2(math.e))[:, None]
        top = torch.full_like(least, -math.inf)
        mass = torch.zeros_like(least)
        for logits in _off_support(q, k, c, wide):
            logits.sub_(shift)
            top = torch.maximum(top, logits.amax(1))
            mass += logits.exp2_().sum(1)
        top = top * math.log(2) + least
    weights = (on - least[:, None]).exp()
    odds = mass / weights.masked_fill(padding, 0).sum(1)
    return torch.stack([above - below, least - top, odds], 1)


def _supports(q: Tensor, k: Tensor, columns: Tensor) -> Tensor:
    """The products on the support, (rows, k); the padding reads the last key."""
    return torch.stack([(q * k[c]).sum(-1) for c in columns.T], -1)


def _off_support(q: Tensor, k: Tensor, c: Tensor, wide: int) -> Iterator[Tensor]:
    """Q K' of some rows, tile of keys by tile of keys, -inf on the support; each tile
    takes the place of the one before.
    """
    buffer = q.new_empty(len(q), min(wide, len(k)))
    for start in range(0, len(k), wide):
        keys = k[start : start + wide]
        logits = torch.mm(q, keys.T, out=buffer[:, : len(keys)])
        here = (c >= start) & (c < start + wide)
        row, at = here.nonzero(as_tuple=True)
        logits[row, c[row, at] - start] = -math.inf
        yield logits


def _wide(t: Tensor) -> Tensor:
    """In the type of the products: eight and sixteen bits are read into thirty-two,
    which is exact, and fast on every processor.
    """
    return widened(t.detach())


def _logits(q: Tensor, k: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys in the type of the products, and how far rounding may move a gap
    of each row, (n,).

    A sum of d products of floats is off by at most d u |q| |k|, u half an eps; (d + 16)
    eps |q| |k| covers two logits and all that is done to them, and the last term what
    underflows. float32 holds every integer below 2^24. Integers are refused where a sum
    might reach that, floats where one might overflow.
    """
    d = q.shape[1]
    whole = q.dtype == torch.int8
    q = _wide(q)
    k = _wide(k)
    if whole:
        size = d * int(q.abs().max()) * int(k.abs().max())
        require(
            size < 2**24,
            "integer logits must stay below 2^24 to be exact, "
            f"got max |q| max |k| d = {size}",
        )
        return q, k, q.new_zeros(len(q), dtype=torch.float64)
    most = torch.finfo(q.dtype)
    norms = partial(torch.linalg.vector_norm, dim=1, dtype=torch.float64)
    lengths = norms(q)
    longest = float(lengths.max())
    reach = float(norms(k).max())
    size = longest * scale * max(1, reach, reach / scale)
    require(
        size < most.max / 4,
        f"logits of size {size:.3g} could overflow {q.dtype}: lower the level, "
        "or take float64",
    )
    share = (d + 16) * most.eps
    share = share / (1 - share) if share < 1 else math.inf
    rounded = share * scale * reach * lengths
    underflow = d * most.tiny * (1 + reach) * (1 + scale)
    return q, k, rounded + underflow


# --- what is refused


def _above_least(
    columns: Tensor, log_weights: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """Log weights above the smallest of each row of checked columns, 0 at the
    padding.
    """
    if log_weights is None:
        return torch.zeros(columns.shape, dtype=dtype, device=columns.device)
    padding = columns < 0
    is_floating("log_weights", log_weights)
    require(
        log_weights.shape == columns.shape,
        f"log_weights must have the shape of columns, {tuple(columns.shape)}, "
        f"got {tuple(log_weights.shape)}",
    )
    same_device("log_weights", log_weights, columns.device, "columns")
    log_weights = log_weights.detach().double().masked_fill(padding, math.inf)
    # Subtracted before the cast: large ones keep their difference.
    rise = log_weights - log_weights.amin(1, keepdim=True)
    rise = rise.masked_fill(padding, 0).to(dtype)
    _nowhere(
        ~torch.isfinite(rise),
        "log_weights: {row} holds NaN or infinity, or weights too far apart for "
        f"{dtype}; weights must be positive and finite",
    )
    return rise


def _columns(columns: Tensor, n: int | None = None, *, padded: bool = True) -> None:
    """Each row names at least one of n tokens, by default as many as rows, and none
    twice; -1 pads where that is allowed.
    """
    is_tensor("columns", columns)
    got = f"{columns.dtype} {tuple(columns.shape)}"
    require(
        columns.dtype == torch.int64,
        f"columns must be an int64 tensor of token numbers, got {got}",
    )
    require(
        columns.dim() == 2 and 0 not in columns.shape,
        f"columns must be (n, k) with at least one row and k >= 1, got {got}",
    )
    finite(columns=columns)
    n = len(columns) if n is None else n
    least = -1 if padded else 0
    hint = " (-1 pads)" if padded else ""
    _nowhere(
        (columns < least) | (columns >= n),
        f"columns: {{row}} points outside 0..{n - 1}{hint}",
    )
    _nowhere(
        (columns < 0).all(1, keepdim=True),
        "columns: {row} is empty; a row of attention sums to one, so it needs an entry",
    )
    ordered = columns.sort(1).values
    later = ordered[:, 1:]
    _nowhere(
        (later == ordered[:, :-1]) & (later >= 0),
        "columns: {row} names a column twice; add its weights up first",
    )


def _nowhere(bad: Tensor, message: str) -> None:
    """No entry is bad, or the message names the first row with one."""
    if bad.any():
        first, _ = bad.nonzero()[0].tolist()
        raise ValueError(message.format(row=f"row {first}"))


def _code(code: Code, columns: Tensor) -> None:
    """A code is one and finite, and goes together with a pattern, which is one."""
    is_a(Code, code=code)
    _columns(columns)
    q = code.q
    is_tensor("q of the code", q)
    require(
        q.dtype in (torch.int8, *FLOATS),
        f"a code must be floating or int8, got {q.dtype}",
    )
    got = tuple(q.shape)
    require(
        len(got) == 2 and got[0] == len(columns) and got[1] >= 1,
        f"q of the code must be ({len(columns)}, d), a row for each of columns, "
        f"got {got}",
    )
    matches("k of the code", code.k, got, q, "q")
    same_device("columns", columns, q.device, "the code")
    finite(q=q, k=code.k)
    numbers(scale=code.scale)
    require(code.scale > 0, f"scale must be positive, got {code.scale}")
