"""Codes, and whether they are the pattern that they were made for, by tiles.

Page: notebooks/sparse_patterns/logarithmic_dimension
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlib._require import (
    finite,
    full_products,
    is_tensor,
    numbers,
    own_precision,
    require,
    same_device,
    sizes,
)
from attnlib.expressive.dimensions import _tolerances
from attnlib.expressive.tiles import HALVES, _logits, _scan

FLOATS = (*HALVES, torch.float32, torch.float64)


@dataclass(frozen=True, eq=False)
class Code:
    """Queries and keys of a pattern; as inputs X = (sqrt(d) Q, K) of attention with
    weights that know no pattern.

    Args:
        q, k: (n, d), logits are scale * q k'; int8 if the code is exact.
        eps1, eps2: what was asked for.
        scale: of the logits, 1 unless int8.
        x: (n, 2 d), the inputs.
        w_q, w_k: (2 d, d), the weights.
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
        peak_bytes: of the code, the pattern and all buffers.
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
    progress: bool = False,
) -> Verification:
    """Both criteria for every row, from logits that are computed tile by tile and
    forgotten.

        log M_ij - log M_il <= -log(1 / eps1)    j off, l on the support of row i
        |log M_ij / M_il - log w_ij / w_il| <= log(1 + eps2)     j and l both on it

    Args:
        code: by fit, or any Code.
        columns, log_weights: the pattern, as in fit.
        tile: rows and keys at a time; None for (1024, 256), on CUDA (4096, 16384).
        progress: show a bar.

    Returns:
        Verification; for an int8 code gaps are integers times scale, without rounding,
        and leak is an upper bound. A float code passes only if it would after the worst
        rounding of its logits, products in full precision (no TF32).

    Raises:
        ValueError: for a bad pattern, scale or tolerance, for NaN, infinity or
            overflow, integer logits of 2^24, and sizes that do not fit; for a float32
            code where torch may round products more.

    Cost: 2 n^2 d flops; memory O(n d + n k + tile), no n x n matrix.
    Source: criteria (23), (24) of Likhosherstov et al. 2023 as we read them;
        log-sum-exp by tiles.
    Claim: expressive.tiles
    """
    _code(code)
    full_products(code.q.dtype)
    _tile(tile)
    exact = code.q.dtype in (torch.int8, torch.float64)
    kind = torch.float64 if exact else torch.float32
    log_weights = _above_least(columns, log_weights, kind)
    _fits(code.q, code.k, columns)
    _tolerances(code.eps1, code.eps2)
    return _examine(code, columns, log_weights, tile=tile, progress=progress)


def _examine(
    code: Code,
    columns: Int[Tensor, "n k"],
    log_weights: Float[Tensor, "n k"],
    *,
    tile: tuple[int, int] | None = None,
    progress: bool = False,
    early: bool = False,
) -> Verification:
    """What verify returns, for good input; `early` ends it at the first tile of rows
    that fails.
    """
    wanted = -math.log(code.eps1)
    allowed = math.log1p(code.eps2)
    if tile is None:
        tile = (4096, 16384) if code.q.is_cuda else (1024, 256)
    limits = {"stop": wanted, "spread": allowed} if early else {}
    q, k, rounding = _logits(code.q, code.k, code.scale)
    found = _scan(
        q,
        k,
        columns,
        log_weights,
        scale=code.scale,
        whole=code.q.dtype == torch.int8,
        tile=tile,
        progress=progress,
        **limits,
    )

    seen = len(found.gap)
    gap_off = rounding[:seen]
    ratio_off = gap_off
    if code.q.dtype != torch.int8:
        # Weights are rounded too, and a row with a single entry has no ratio.
        eps = torch.finfo(q.dtype).eps
        several = (columns[:seen] >= 0).sum(1) > 1
        ratio_off = gap_off + 2 * eps * log_weights[:seen].amax(1)
        ratio_off = ratio_off.masked_fill(~several, 0)
    gaps_hold = bool((found.gap - gap_off >= wanted).all())
    ratios_hold = bool((found.spread + ratio_off <= allowed).all())

    odds = float(found.odds.max())
    size = found.bytes
    if q.dtype != code.q.dtype:
        size += code.q.nbytes + code.k.nbytes
    return Verification(
        passed=gaps_hold and ratios_hold,
        ratio_error=float(found.spread.max()),
        margin=float(found.gap.min()),
        leak=odds / (1 + odds) if odds < math.inf else 1.0,
        peak_bytes=size,
        rows=torch.stack([found.spread, found.gap, found.odds], 1),
        rounding=float(torch.maximum(gap_off, ratio_off).max()),
    )


def _above_least(
    columns: Int[Tensor, "n k"],
    log_weights: Float[Tensor, "n k"] | None,
    dtype: torch.dtype,
) -> Float[Tensor, "n k"]:
    """The pattern is one, or a ValueError says where not; log weights above the
    smallest of each row, 0 at the padding.
    """
    _columns(columns)
    if log_weights is None:
        return torch.zeros(columns.shape, dtype=dtype, device=columns.device)
    padding = columns < 0
    is_tensor("log_weights", log_weights)
    require(
        log_weights.is_floating_point(),
        "log_weights must be a floating tensor: logarithms of the weights",
    )
    require(
        log_weights.shape == columns.shape,
        f"log_weights must have the shape of columns, {tuple(columns.shape)}, "
        f"got {tuple(log_weights.shape)}",
    )
    same_device("log_weights", log_weights, columns.device, "columns")
    bad = ~torch.isfinite(log_weights) & ~padding
    require(
        not bad.any(),
        f"log_weights: {_row(bad)} holds NaN or infinity; "
        "weights must be positive and finite",
    )
    log_weights = log_weights.detach().double()
    least = log_weights.masked_fill(padding, math.inf).amin(1, keepdim=True)
    # Subtracted before the cast: large ones keep their difference.
    rise = (log_weights - least).masked_fill(padding, 0).to(dtype)
    far = ~torch.isfinite(rise)
    require(
        not far.any(),
        f"log_weights: {_row(far)} has weights too far apart for {dtype}",
    )
    return rise


def _columns(columns: Tensor, n: int | None = None) -> None:
    """Each row names at least one of n tokens, by default as many as rows, and none
    twice; -1 pads.
    """
    is_tensor("columns", columns)
    require(
        columns.dtype == torch.int64,
        "columns must be an int64 tensor of token numbers",
    )
    require(
        columns.dim() == 2 and columns.shape[1] >= 1,
        f"columns must be (n, k) with k >= 1, got {tuple(columns.shape)}",
    )
    require(len(columns) >= 1, "columns needs at least one row")
    finite(columns=columns)
    n = len(columns) if n is None else n
    outside = (columns < -1) | (columns >= n)
    require(
        not outside.any(),
        f"columns: {_row(outside)} points outside 0..{n - 1} (-1 pads)",
    )
    empty = (columns < 0).all(1, keepdim=True)
    require(
        not empty.any(),
        f"columns: {_row(empty)} is empty; a row of attention sums to one, "
        "so it needs an entry",
    )
    ordered = columns.sort(1).values
    later = ordered[:, 1:]
    twice = (later == ordered[:, :-1]) & (later >= 0)
    require(
        not twice.any(),
        f"columns: {_row(twice)} names a column twice; add its weights up first",
    )


def _row(bad: Tensor) -> str:
    """The name of the first bad row, if there is one."""
    if not bad.any():
        return ""
    first, _ = bad.nonzero()[0].tolist()
    return f"row {first}"


def _code(code: Code) -> None:
    """A code is one, and nothing in it is NaN or infinite."""
    got = type(code).__name__
    require(isinstance(code, Code), f"code must be a Code, got {got}")
    q = code.q
    k = code.k
    require(
        torch.is_tensor(q) and torch.is_tensor(k),
        "the q and k of a code must be tensors",
    )
    require(
        q.dtype in (torch.int8, *FLOATS),
        f"a code must be floating or int8, got {q.dtype}",
    )
    if q.dtype != torch.int8:
        finite(q=q, k=k)
    numbers(scale=code.scale)
    require(code.scale > 0, f"scale must be positive, got {code.scale}")


def _tile(tile) -> None:
    """Two sizes, or None."""
    if tile is None:
        return
    pair = isinstance(tile, (tuple, list)) and len(tile) == 2
    require(pair, f"tile must be two positive sizes, rows and keys, got {tile}")
    for size in tile:
        sizes(1, tile=size)


def _fits(q: Tensor, k: Tensor, columns: Tensor) -> None:
    """Queries, keys and pattern have sizes, types and devices that go together."""
    shapes = q.dim() == 2 and q.shape == k.shape and q.shape[1] >= 1
    shapes = shapes and len(q) == len(columns)
    kinds = q.dtype == k.dtype and q.device == k.device == columns.device
    require(
        shapes and kinds,
        f"code and columns must fit: q {tuple(q.shape)}, k {tuple(k.shape)}, "
        f"columns {tuple(columns.shape)}",
    )
