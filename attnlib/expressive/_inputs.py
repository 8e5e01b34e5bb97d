"""What fit and verify accept: patterns, words, and codes whose logits the arithmetic at
hand can hold.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnlib._require import require

SOLVED = ("interpolated", "redraw")  # the methods whose queries solve for given logits
HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32, torch.float64)


def pattern(columns: Tensor, log_weights: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The pattern is one, or a ValueError says where not; log weights above the
    smallest of each row, 0 at the padding.
    """
    _columns(columns)
    if log_weights is None:
        return torch.zeros(columns.shape, dtype=dtype, device=columns.device)
    padding = columns < 0
    floating = torch.is_tensor(log_weights) and log_weights.is_floating_point()
    require(
        floating, "log_weights must be a floating tensor: logarithms of the weights"
    )
    require(
        log_weights.shape == columns.shape,
        f"log_weights must have the shape of columns, {tuple(columns.shape)}, "
        f"got {tuple(log_weights.shape)}",
    )
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


def _columns(columns: Tensor) -> None:
    """Each row names at least one token, and none twice; -1 pads."""
    require(
        torch.is_tensor(columns) and columns.dtype == torch.int64,
        "columns must be an int64 tensor of token numbers",
    )
    require(
        columns.dim() == 2 and columns.shape[1] >= 1,
        f"columns must be (n, k) with k >= 1, got {tuple(columns.shape)}",
    )
    n = len(columns)
    require(n >= 1, "columns needs at least one row")
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


def words(generator, d, dtype, s, redraws) -> None:
    """A generator is one, a dimension is an integer, a dtype a floating one, and a
    level finite; None stands for the default.
    """
    require(
        isinstance(generator, torch.Generator),
        f"generator must be a torch.Generator, got {type(generator).__name__}",
    )
    require(d is None or type(d) is int, f"d must be an integer, got {d!r}")
    require(
        dtype is None or dtype in FLOATS,
        f"dtype must be one of {list(FLOATS)}, got {dtype!r}",
    )
    require(
        type(redraws) is int and redraws >= 1,
        f"redraws must be at least 1, an integer, got {redraws}",
    )
    require(s is None or math.isfinite(s), f"s must be finite, got {s}")


def dimension(d: int, longest: int, method: str) -> None:
    """Enough dimensions for the values of the longest row, and not so many that an
    integer logit may reach 2^24.
    """
    need = 1
    why = ""
    if method in SOLVED:
        need = longest
        why = ", the longest row: as many values are interpolated"
    require(d >= need, f"d must be at least {need}{why}, got d = {d}")
    size = longest * d
    require(
        method != "integer" or size < 2**24,
        f"integer logits must stay below 2^24 to be exact, and k d = {size}: "
        "loosen eps1 or eps2, or give d",
    )


def crowded(columns: Tensor) -> str:
    """A sentence if a column is in more rows than the longest row has entries, which
    the theorem on redrawing does not allow.
    """
    kept = columns >= 0
    longest = int(kept.sum(1).max())
    counts = columns[kept].bincount()
    worst = int(counts.argmax())
    rows = int(counts[worst])
    if rows <= longest:
        return ""
    return (
        f"Column {worst} is in {rows} rows, and the theorem on redrawing asks for "
        f"at most {longest}, the longest row. "
    )


def code(q, k, scale, tile) -> None:
    """A code and a tile are what they should be, and nothing in them is NaN or
    infinite.
    """
    pair = isinstance(tile, (tuple, list)) and len(tile) == 2
    sizes = pair and all(type(size) is int and size >= 1 for size in tile)
    require(
        tile is None or sizes,
        f"tile must be two positive sizes, rows and keys, got {tile}",
    )
    require(
        torch.is_tensor(q) and torch.is_tensor(k),
        "the q and k of a code must be tensors",
    )
    require(
        q.dtype in (torch.int8, *FLOATS),
        f"a code must be floating or int8, got {q.dtype}",
    )
    if q.dtype != torch.int8:
        finite = bool(torch.isfinite(q).all() and torch.isfinite(k).all())
        require(finite, "code holds NaN or infinity")
    require(
        math.isfinite(scale) and scale > 0,
        f"scale must be positive and finite, got {scale}",
    )


def fits(q: Tensor, k: Tensor, columns: Tensor) -> None:
    """Queries, keys and pattern have sizes, types and devices that go together."""
    sizes = q.dim() == 2 and q.shape == k.shape and q.shape[1] >= 1
    sizes = sizes and len(q) == len(columns)
    kinds = q.dtype == k.dtype and q.device == k.device == columns.device
    require(
        sizes and kinds,
        f"code and columns must fit: q {tuple(q.shape)}, k {tuple(k.shape)}, "
        f"columns {tuple(columns.shape)}",
    )


def logits(q: Tensor, k: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys in the type of the products, and how far rounding may move a gap
    of each row, (n,).

    Sixteen bits are read into thirty-two, which is exact. A sum of d products is off by
    at most d u |q| |k|, u half an eps; (d + 16) eps |q| |k| covers two logits and all
    that is done to them, and the last term what underflows. Integers are refused where
    a sum might reach 2^24, floats where one might overflow. NaN, a failed draw, is let
    through.
    """
    d = q.shape[1]
    q = q.detach()
    k = k.detach()
    if q.dtype == torch.int8:
        size = _largest(q) * _largest(k) * d
        require(
            size < 2**24,
            "integer logits must stay below 2^24 to be exact, "
            f"got max |q| max |k| d = {size}",
        )
        return q, k, torch.zeros(len(q), dtype=torch.float64, device=q.device)
    if q.dtype in HALVES:
        q = q.float()
        k = k.float()
    most = torch.finfo(q.dtype)
    lengths = _lengths(q)
    longest = float(lengths.nan_to_num(0).max())
    reach = float(_lengths(k).nan_to_num(0).max())
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


def _largest(t: Tensor) -> int:
    """The largest absolute value of an integer tensor, where abs(-128) is no int8."""
    return max(int(t.amax()), -int(t.amin()))


def _lengths(t: Tensor) -> Tensor:
    """The norm of each row in float64, which is a copy: so few rows at a time."""
    parts = []
    for rows in t.split(1024):
        parts.append(torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64))
    return torch.cat(parts)
