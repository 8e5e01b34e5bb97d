"""Sparse patterns with fixed weights and adaptive inputs: keys by chance, queries by
interpolation, checks by tiles.

Page:
    notebooks/sparse_patterns/logarithmic_dimension
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlib._require import require
from attnlib.expressive import _caps, _inputs, _redraw, _tiles
from attnlib.expressive.dimensions import plain_dimension, tolerances

Method = Literal["interpolated", "plain", "integer", "redraw"]
Keys = Literal["sphere", "signs", "gaussian"]


class Code(NamedTuple):
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


class Report(NamedTuple):
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


class Exhausted(ValueError):
    """All restarts are used up; what was reached is kept.

    Args:
        message: what was missing.
        code: the best code found, or None.
        report: its report, or None.
    """

    def __init__(
        self, message: str, code: Code | None = None, report: Report | None = None
    ):
        super().__init__(message)
        self.code = code
        self.report = report


def fit(
    columns: Int[Tensor, "n k"],
    log_weights: Float[Tensor, "n k"] | None = None,
    *,
    d: int | None = None,
    eps1: float,
    eps2: float,
    method: Method = "interpolated",
    restarts: int = 10,
    generator: torch.Generator,
    progress: Callable | bool | None = None,
    s: float | None = None,
    keys: Keys | None = None,
    dtype: torch.dtype | None = None,
    redraws: int = 200,
) -> Code:
    """Queries and keys whose attention has the given pattern, up to the two tolerances;
    verified before it returns.

        k_j random,   q_i with  q_i . k_j = s + log w_ij - min_j log w_ij
                                            on the support of row i

    Args:
        columns: (n, k), where row i attends to; -1 pads short rows.
        log_weights: the same shape; None: equal.
        d: dimension; None: by the predictor, and 5% more after each failure.
        eps1: a zero is at most eps1 times a wanted entry.
        eps2: ratios of wanted entries are right up to 1 + eps2.
        method: "interpolated"; "plain", random projection; "integer", signs, for equal
            weights, verified without rounding; "redraw", interpolated, with keys drawn
            anew where they are in conflict: about half the dimensions. Its theorem asks
            that no column is in more rows than the longest row has entries; a failure
            says if one is.
        restarts: draws of the keys.
        generator: on the CPU.
        progress: False for none, or a function like tqdm.
        s: level of the logits; None: 2 log(1 / eps1) + log gamma, or beta for
            projections.
        keys: None: "sphere"; "gaussian" if plain.
        dtype: None: that of log_weights, else float32.
        redraws: rounds at most of "redraw", for each draw.

    Returns:
        Code, on the device of columns.

    Raises:
        ValueError: for a bad pattern or tolerance, and for d below the longest row.
        Exhausted: a ValueError that holds the best code, if no draw passed.

    Cost:
        O(n k^2 d + n k^3) and one verification, O(n^2 d), a draw; a round that redraws
        r keys O(r k n d) more; memory O(n (d + k)), no n x n matrix.

    Source:
        Likhosherstov, Choromanski, Weller 2021, 2023 (Theorem 0.4, known to us in
        words); interpolation is ours.

    Claim:
        expressive.interpolated, codes.redraw
    """
    _inputs.words(generator, d, dtype, s, redraws)
    dtype = dtype or getattr(log_weights, "dtype", torch.float32)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    log_weights = _inputs.pattern(columns, log_weights, wide)
    tolerances(eps1, eps2, restarts)
    require(
        method in get_args(Method),
        f"method must be one of {list(get_args(Method))}, got {method!r}",
    )
    longest = int((columns >= 0).sum(1).max())
    log_gamma = float(log_weights.max())
    require(
        method != "integer" or log_gamma == 0,
        "method 'integer' needs equal weights within a row: leave out log_weights",
    )
    wanted = -math.log(eps1)
    if s is None:
        s = _level(method, longest, log_gamma, eps1, eps2)
    require(
        s > wanted,
        f"s must exceed log(1 / eps1) = {wanted:.4g}, the gap that is asked for, "
        f"got {s}",
    )
    guess = d
    if d is None:
        guess = _guess(columns, log_weights, method, eps1, eps2, s)
    _inputs.dimension(guess, longest, method)
    keys = keys or ("gaussian" if method == "plain" else "sphere")
    require(
        keys in get_args(Keys),
        f"keys must be one of {list(get_args(Keys))}, got {keys!r}",
    )
    require(
        method != "integer" or columns.shape[1] <= 127,
        f"an int8 query holds at most 127 signs, got rows of {columns.shape[1]}",
    )
    y = (log_weights.to(dtype) + s) * (columns >= 0)

    best = None
    margin = math.nan
    for _ in range(restarts):
        q, k, scale = _draw(columns, y, s, guess, method, keys, generator)
        if method == "redraw":
            bar = _bar(progress, "rounds of redrawing")
            q, k = _settled(k, columns, y, wanted, keys, generator, redraws, bar)
        code = Code(q, k, eps1, eps2, scale)
        found = _report(code, columns, log_weights, None, progress, early=True)
        if found.passed:
            return code
        if best is None or math.isnan(margin) or found.margin > margin:
            best = code
            margin = found.margin
        if d is None:
            guess = math.ceil(1.05 * guess)
    # So far a report ended at the first failure. This one looks at all rows.
    found = _report(best, columns, log_weights, None, progress)
    message = _shortfall(
        found, restarts, columns, log_weights, method, eps1, eps2, s, best
    )
    raise Exhausted(message, best, found)


def verify(
    code: Code,
    columns: Int[Tensor, "n k"],
    log_weights: Float[Tensor, "n k"] | None = None,
    *,
    tile: tuple[int, int] | None = None,
    progress: Callable | bool | None = None,
) -> Report:
    """Both criteria for every row, from logits that are computed tile by tile and
    forgotten.

        log M_ij - log M_il <= -log(1 / eps1)    j off, l on the support of row i
        |log M_ij / M_il - log w_ij / w_il| <= log(1 + eps2)     j and l both on it

    Args:
        code: by fit, or any Code.
        columns, log_weights: the pattern, as in fit.
        tile: rows and keys at a time; None for (1024, 256), on CUDA (4096, 16384).
        progress: False for none, or a function like tqdm.

    Returns:
        Report; for an int8 code gaps are integers times scale, without rounding, and
        leak is an upper bound. A float code passes only if it would after the worst
        rounding of its logits, products in full precision (no TF32).

    Raises:
        ValueError: for a bad pattern, scale or tolerance, for NaN, infinity or
            overflow, integer logits of 2^24, sizes that do not fit, or a progress that
            does not pass on every tile.

    Cost:
        2 n^2 d flops; memory O(n d + n k + tile), no n x n matrix.

    Source:
        criteria (23), (24) of Likhosherstov et al. 2023 as we read them; log-sum-exp by
        tiles.

    Claim:
        expressive.tiles
    """
    _inputs.code(code.q, code.k, code.scale, tile)
    exact = code.q.dtype in (torch.int8, torch.float64)
    kind = torch.float64 if exact else torch.float32
    log_weights = _inputs.pattern(columns, log_weights, kind)
    _inputs.fits(code.q, code.k, columns)
    tolerances(code.eps1, code.eps2)
    return _report(code, columns, log_weights, tile, progress)


def _report(
    code: Code,
    columns: Tensor,
    log_weights: Tensor,
    tile,
    progress,
    early: bool = False,
) -> Report:
    """The report of verify; `early` ends it at the first tile of rows that fails."""
    wanted = -math.log(code.eps1)
    allowed = math.log1p(code.eps2)
    if tile is None:
        tile = (4096, 16384) if code.q.is_cuda else (1024, 256)
    limits = {"stop": wanted, "spread": allowed} if early else {}
    q, k, rounding = _inputs.logits(code.q, code.k, code.scale)
    bar = _bar(progress)
    found = _tiles.scan(
        q, k, columns, log_weights, scale=code.scale, tile=tile, bar=bar, **limits
    )

    seen = len(found.gap)
    gap_off = rounding[:seen]
    ratio_off = gap_off
    if q.dtype != torch.int8:
        # Weights are rounded too, and a row with a single entry has no ratio.
        eps = torch.finfo(q.dtype).eps
        several = (columns[:seen] >= 0).sum(1) > 1
        ratio_off = (gap_off + 2 * eps * log_weights[:seen].amax(1)) * several
    gaps_hold = bool((found.gap - gap_off >= wanted).all())
    ratios_hold = bool((found.spread + ratio_off <= allowed).all())

    odds = float(found.odds.max())
    size = found.bytes
    if q.dtype != code.q.dtype:
        size += code.q.nbytes + code.k.nbytes
    return Report(
        passed=gaps_hold and ratios_hold,
        ratio_error=float(found.spread.max()),
        margin=float(found.gap.min()),
        leak=odds / (1 + odds) if odds < math.inf else 1.0,
        peak_bytes=size,
        rows=torch.stack([found.spread, found.gap, found.odds], 1),
        rounding=float(torch.maximum(gap_off, ratio_off).max()),
    )


def _bar(progress, steps: str = "tiles of rows") -> Callable:
    """What a loop is wrapped in: nothing, the caller's function, or a bar of tqdm."""
    if progress is False:
        return iter
    if callable(progress):
        return progress
    from tqdm import tqdm

    return partial(tqdm, desc=steps, delay=3, leave=False)


def _level(
    method: str, longest: int, log_gamma: float, eps1: float, eps2: float
) -> float:
    """The s of a method: twice the margin where no ratio can be wrong, as little as
    possible for sums of keys, whose ratio errors grow with it.
    """
    single = method == "integer" and longest == 1  # one entry has no ratio
    if method in _inputs.SOLVED or single:
        return 2 * -math.log(eps1) + log_gamma
    return math.log((1 + eps2) / eps1)


def _guess(
    columns: Tensor,
    log_weights: Tensor,
    method: str,
    eps1: float,
    eps2: float,
    s: float,
) -> int:
    """The dimension to begin with: by a theorem for sums of keys, else by the number of
    conflicts that are expected.
    """
    n = len(columns)
    kept = columns >= 0
    counts = kept.sum(1)
    longest = int(counts.max())
    if method == "plain" or (method == "integer" and longest > 1):
        gamma = math.exp(float(log_weights.max()))
        return plain_dimension(n, longest, gamma=gamma, eps1=eps1, eps2=eps2)
    lengths = ((log_weights + s) * kept).double().norm(dim=1).cpu().sort().values
    sample = lengths[:: max(1, n // 50)]
    t = (s + math.log(eps1)) / sample
    zeros = float((n - counts).double().mean())
    pairs = n * zeros / (2 if longest == 1 else 1)

    def conflicts(d: int) -> float:
        """How many zeros are expected to be too large in d dimensions."""
        return pairs * float(_caps.tail(t, d).mean())

    goal = 0.1
    if method == "redraw":
        goal = n / (8 * longest)  # a redraw must not make more than it mends
    found = _caps.smallest(conflicts, goal)
    if method in _inputs.SOLVED:
        found = min(found, n)
    return max(longest, found)


def _signs(n: int, d: int, generator) -> Tensor:
    """(n, d) random signs as int8, on the CPU."""
    bits = torch.randint(0, 2, (n, d), generator=generator, dtype=torch.int8)
    return bits * 2 - 1


def _keys(n: int, d: int, kind: str, dtype, generator) -> Tensor:
    """Random keys on the CPU: of length one, but for "gaussian" only on average."""
    if kind == "signs":
        return _signs(n, d, generator).to(dtype) / math.sqrt(d)
    k = torch.randn(n, d, generator=generator, dtype=dtype)
    if kind == "gaussian":
        return k / math.sqrt(d)
    return k / k.norm(dim=1, keepdim=True)


def _draw(
    columns: Tensor, y: Tensor, s: float, d: int, method: str, keys: str, generator
) -> tuple[Tensor, Tensor, float]:
    """One draw of the keys, and the queries that follow from it: q, k and the scale."""
    n = len(columns)
    if method == "integer":
        k = _signs(n, d, generator).to(columns.device)
        ones = (columns >= 0).to(torch.int8)
        return _sums(k, columns, ones), k, s / d
    if method in _inputs.SOLVED and d >= n:
        k = torch.eye(n, d, dtype=y.dtype)  # dimensions enough to need no luck
    else:
        k = _keys(n, d, keys, y.dtype, generator)
    k = k.to(columns.device)
    if method == "plain":
        return _sums(k, columns, y), k, 1.0
    return _queries(k, columns, y), k, 1.0


def _sums(k: Tensor, columns: Tensor, factors: Tensor) -> Tensor:
    """Row i: the sum of the keys of S_i times their factors, which are 0 at the
    padding.
    """
    total = 0
    for c, factor in zip(columns.T, factors.T):
        total = total + k[c] * factor[:, None]
    return total


def _queries(k: Tensor, columns: Tensor, y: Tensor) -> Tensor:
    """The queries of interpolate, so few rows at a time that memory stays small."""
    step = max(1, 2**21 // (columns.shape[1] * k.shape[1]))
    parts = zip(columns.split(step), y.split(step))
    return torch.cat([interpolate(k, c, values) for c, values in parts])


def _settled(
    k: Tensor,
    columns: Tensor,
    y: Tensor,
    gap: float,
    keys: str,
    generator,
    redraws: int,
    bar: Callable,
) -> tuple[Tensor, Tensor]:
    """Queries and keys, redrawn until none is in conflict, or as far as `redraws`
    rounds lead.
    """

    def draw(m: int) -> Tensor:
        return _keys(m, k.shape[1], keys, k.dtype, generator).to(k.device)

    found = _redraw.settle(
        k, columns, y, solve=_queries, draw=draw, gap=gap, limit=redraws, bar=bar
    )
    return found.q, found.k


def interpolate(
    k: Float[Tensor, "n d"], columns: Int[Tensor, "rows k"], y: Float[Tensor, "rows k"]
) -> Float[Tensor, "rows d"]:
    """The shortest queries with given logits on given keys.

        q_i = K_S' (K_S K_S')^-1 y_i,   K_S = the keys of S_i as rows

    Args:
        k: (n, d), keys.
        columns: (rows, k), -1 pads.
        y: (rows, k), logits; what stands at the padding is ignored.

    Returns:
        (rows, d), the dtype of k; solved in float64. NaN where the keys of a row are
        linearly dependent.

    Cost:
        O(rows (k^2 d + k^3)).

    Source:
        the least-norm solution of a linear system.

    Claim:
        expressive.interpolated
    """
    kept = columns >= 0
    some = k[columns.clamp_min(0)].double() * kept[..., None]
    # Ones on the diagonal at the padding, so that the Gram matrix has an inverse.
    gram = some @ some.mT + torch.diag_embed((~kept).double())
    factor, failed = torch.linalg.cholesky_ex(gram)
    values = (y * kept).double()[..., None]
    combination = torch.cholesky_solve(values, factor)
    q = (some.mT @ combination).squeeze(-1)
    dependent = (failed != 0)[:, None]
    return q.masked_fill(dependent, math.nan).to(k.dtype)


def _shortfall(
    report: Report,
    restarts: int,
    columns,
    log_weights,
    method,
    eps1,
    eps2,
    s,
    code: Code,
) -> str:
    """What Exhausted says: how far the best code is off, why, and what to do."""
    d = code.q.shape[1]
    wanted = -math.log(eps1)
    allowed = math.log1p(eps2)
    solved = method in _inputs.SOLVED
    told = (
        f"none of {restarts} draws passed; the best, at d = {d}, "
        f"keeps zeros {report.margin:.4g} below (needed {wanted:.4g}) "
        f"with ratio error {report.ratio_error:.3g} (allowed {allowed:.3g}), "
        f"rounding up to {report.rounding:.2g}. "
    )
    if report.margin >= wanted and (solved or report.ratio_error <= allowed):
        cure = "take dtype=torch.float64"
        if code.q.dtype == torch.float64:
            cure = "raise eps2 or lower s"
        return f"{told}That is rounding, not the keys: {cure}. The best code is .code"
    if method == "redraw":
        left = int((~(report.rows[:, 1] >= wanted)).sum())
        told += f"{left} rows were in conflict still when the redraws were used up. "
        told += _inputs.crowded(columns)
    needed = _guess(columns, log_weights, method, eps1, eps2, s)
    if needed > d:
        advice = f"d = {needed} is expected to do"
    else:
        more = math.ceil(1.25 * d)
        if solved:
            more = min(more, len(columns))
        advice = f"try d = {more}"
    return (
        f"{told}Random keys of so few dimensions come too close to each other; "
        f"{advice}. The best code is .code"
    )
