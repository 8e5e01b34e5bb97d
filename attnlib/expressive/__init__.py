"""Sparse patterns with fixed weights and adaptive inputs: keys by chance, queries by
interpolation, checks by tiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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

    Page:
        notebooks/sparse_patterns/logarithmic_dimension
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
        kind = torch.float32 if self.q.dtype == torch.int8 else self.q.dtype
        return torch.cat(
            [
                self.q.to(kind) * (self.scale * math.sqrt(self.q.shape[1])),
                self.k.to(kind),
            ],
            1,
        )

    @property
    def w_q(self) -> Tensor:
        """(2 d, d): the identity over zeros. It depends on d alone."""
        d, kind = (
            self.q.shape[1],
            torch.float32 if self.q.dtype == torch.int8 else self.q.dtype,
        )
        return torch.eye(2 * d, d, dtype=kind, device=self.q.device)

    @property
    def w_k(self) -> Tensor:
        """(2 d, d): zeros over the identity. It depends on d alone."""
        return self.w_q.flip(0).flip(1)


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

    Page:
        notebooks/sparse_patterns/logarithmic_dimension
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

    Page:
        notebooks/sparse_patterns/logarithmic_dimension
    """

    def __init__(
        self, message: str, code: Code | None = None, report: Report | None = None
    ):
        super().__init__(message)
        self.code, self.report = code, report


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

        k_j random,   q_i with  q_i . k_j = s + log w_ij - min_j log w_ij  on the support of row i

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
        ValueError: for a bad pattern or tolerance, and for d below the longest row;
            Exhausted, which holds the best code, if no draw passed.

    Cost:
        O(n k^2 d + n k^3) and one verification, O(n^2 d), a draw; a round that redraws
        r keys O(r k n d) more; memory O(n (d + k)), no n x n matrix.

    Source:
        Likhosherstov, Choromanski, Weller 2021, 2023 (Theorem 0.4, known to us in
        words); interpolation is ours.

    Claim:
        expressive.interpolated, codes.redraw

    Page:
        notebooks/sparse_patterns/logarithmic_dimension
    """
    _inputs.words(generator, d, dtype, s, redraws)
    dtype = dtype or getattr(log_weights, "dtype", torch.float32)
    log_weights = _inputs.pattern(
        columns, log_weights, torch.float64 if dtype == torch.float64 else torch.float32
    )
    tolerances(eps1, eps2, restarts)
    require(
        method in get_args(Method),
        f"method must be one of {list(get_args(Method))}, got {method!r}",
    )
    longest = int((columns >= 0).sum(1).max())
    rise = log_weights.amax(1).clamp_min(0)  # log gamma, row by row
    require(
        method != "integer" or float(rise.max()) == 0,
        "method 'integer' needs equal weights within a row: leave out log_weights",
    )
    if s is None:
        s = _level(
            eps1,
            eps2,
            float(rise.max()),
            "interpolated" if method == "integer" and longest == 1 else method,
        )
    require(
        s > -math.log(eps1),
        f"s must exceed log(1 / eps1) = {-math.log(eps1):.4g}, the gap that is asked for, got {s}",
    )
    guess = _guess(columns, log_weights, method, eps1, eps2, s) if d is None else d
    _inputs.dimension(guess, longest, method)
    best = None
    for _ in range(restarts):
        code = _draw(
            columns, log_weights.to(dtype), guess, s, method, keys, generator
        )._replace(eps1=eps1, eps2=eps2)
        code = (
            _settled(
                code,
                columns,
                log_weights.to(dtype),
                s,
                keys,
                generator,
                redraws,
                progress,
            )
            if method == "redraw"
            else code
        )
        found = _report(code, columns, log_weights, None, progress, early=True)
        if found.passed:
            return code
        best = (
            (code, found)
            if not best or math.isnan(best[1].margin) or found.margin > best[1].margin
            else best
        )
        guess = math.ceil(1.05 * guess) if d is None else d
    code, found = (
        best[0],
        _report(best[0], columns, log_weights, None, progress),
    )  # all rows, not only up to a failure
    raise Exhausted(
        _shortfall(found, restarts, columns, log_weights, method, eps1, eps2, s, code),
        code,
        found,
    )


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

        log M_ij - log M_il <= -log(1 / eps1)  off and on the support;  |log M_ij / M_il - log w_ij / w_il| <= log(1 + eps2)

    Args:
        code: by fit, or any Code.
        columns, log_weights: the pattern, as in fit.
        tile: rows and keys at a time;
        None: (1024, 256), on CUDA (4096, 16384).
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

    Page:
        notebooks/sparse_patterns/logarithmic_dimension
    """
    _inputs.code(code.q, code.k, code.scale, tile)
    kind = (
        torch.float64 if code.q.dtype in (torch.int8, torch.float64) else torch.float32
    )
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
    wanted, allowed = -math.log(code.eps1), math.log1p(code.eps2)
    tile = tile or ((4096, 16384) if code.q.is_cuda else (1024, 256))
    limits = {"stop": wanted, "spread": allowed} if early else {}
    q, k, off = _inputs.logits(code.q, code.k, code.scale)
    found = _tiles.scan(
        q,
        k,
        columns,
        log_weights,
        scale=code.scale,
        tile=tile,
        bar=_bar(progress),
        **limits,
    )
    ratio, margin, odds = (
        float(found.spread.max()),
        float(found.gap.min()),
        float(found.odds.max()),
    )
    leak = odds / (1 + odds) if odds < math.inf else 1.0
    most = off = off[: len(found.gap)]
    if (
        q.dtype != torch.int8
    ):  # a single entry has no ratio, and weights are rounded too
        most = (
            off + 2 * torch.finfo(q.dtype).eps * log_weights[: len(off)].amax(1)
        ) * ((columns[: len(off)] >= 0).sum(1) > 1)
    passed = bool(
        (found.gap - off >= wanted).all() and (found.spread + most <= allowed).all()
    )
    size = found.bytes + (
        0 if q.dtype == code.q.dtype else code.q.nbytes + code.k.nbytes
    )
    return Report(
        passed,
        ratio,
        margin,
        leak,
        size,
        torch.stack(found[:3], 1),
        float(torch.maximum(off, most).max()),
    )


def _bar(progress, steps: str = "tiles of rows") -> Callable:
    if progress is False:
        return lambda rows: rows
    if callable(progress):
        return progress
    from tqdm import tqdm

    return lambda rows: tqdm(rows, desc=steps, delay=3, leave=False)


def _level(eps1: float, eps2: float, rise: float, method: str) -> float:
    """s: twice the margin for interpolation, as little as possible for a projection,
    whose ratio errors grow with it.
    """
    return (
        2 * -math.log(eps1) + rise
        if method in _inputs.SOLVED
        else math.log((1 + eps2) / eps1)
    )


def _guess(
    columns: Tensor,
    log_weights: Tensor,
    method: str,
    eps1: float,
    eps2: float,
    s: float,
) -> int:
    n, counts = len(columns), (columns >= 0).sum(1)
    longest = int(counts.max())
    if method == "plain" or (method == "integer" and longest > 1):
        return plain_dimension(
            n, longest, gamma=math.exp(float(log_weights.max())), eps1=eps1, eps2=eps2
        )
    lengths = ((log_weights + s) * (columns >= 0)).double().norm(dim=1).cpu()
    lengths, zeros = lengths.sort().values, float((n - counts).double().mean())
    sample = lengths[:: max(1, n // 50)]
    t = (s + math.log(eps1)) / sample
    pairs = n * zeros / (2 if longest == 1 else 1)
    goal = (
        n / (8 * longest) if method == "redraw" else 0.1
    )  # conflicts at the start; a redraw must not make more than it mends
    found = _caps.smallest(lambda d: pairs * float(_caps.tail(t, d).mean()), goal)
    return max(longest, min(found, n) if method in _inputs.SOLVED else found)


def _keys(n: int, d: int, kind: str, dtype, generator) -> Tensor:
    """Random keys on the CPU: of length one, but for "gaussian" only on average."""
    if kind == "signs":
        return (
            torch.randint(0, 2, (n, d), generator=generator, dtype=torch.int8) * 2 - 1
        ).to(dtype) / math.sqrt(d)
    k = torch.randn(n, d, generator=generator, dtype=dtype)
    return k / (math.sqrt(d) if kind == "gaussian" else k.norm(dim=1, keepdim=True))


def _draw(
    columns: Tensor, log_weights: Tensor, d: int, s: float, method: str, keys, generator
) -> Code:
    """One draw of the keys, and the queries that follow from it."""
    n, kept, dtype = len(columns), columns >= 0, log_weights.dtype
    keys = keys or ("gaussian" if method == "plain" else "sphere")
    require(
        keys in get_args(Keys),
        f"keys must be one of {list(get_args(Keys))}, got {keys!r}",
    )
    if method == "integer":
        require(
            columns.shape[1] <= 127,
            f"an int8 query holds at most 127 signs, got rows of {columns.shape[1]}",
        )
        k = (
            torch.randint(0, 2, (n, d), generator=generator, dtype=torch.int8) * 2 - 1
        ).to(columns.device)
        return Code(
            sum(k[c] * (c >= 0).to(torch.int8)[:, None] for c in columns.T),
            k,
            0.0,
            0.0,
            s / d,
        )
    easy = (
        method in _inputs.SOLVED and d >= n
    )  # as many dimensions as tokens need no luck
    k = (
        torch.eye(n, d, dtype=dtype) if easy else _keys(n, d, keys, dtype, generator)
    ).to(columns.device)
    y = (log_weights + s) * kept
    if method == "plain":
        return Code(sum(k[c] * w[:, None] for c, w in zip(columns.T, y.T)), k, 0.0, 0.0)
    return Code(_queries(k, columns, y), k, 0.0, 0.0)


def _queries(k: Tensor, columns: Tensor, y: Tensor) -> Tensor:
    step = max(1, 2**21 // (columns.shape[1] * k.shape[1]))
    return torch.cat(
        [interpolate(k, c, v) for c, v in zip(columns.split(step), y.split(step))]
    )


def _settled(
    code: Code,
    columns: Tensor,
    log_weights: Tensor,
    s: float,
    keys,
    generator,
    redraws: int,
    progress,
) -> Code:
    """The code with keys redrawn until none is in conflict, or as far as `redraws`
    rounds lead.
    """
    y, (n, d), kind = (log_weights + s) * (columns >= 0), code.k.shape, code.k.dtype
    found = _redraw.settle(
        code.k,
        columns,
        y,
        solve=_queries,
        gap=-math.log(code.eps1),
        limit=redraws,
        bar=_bar(progress, "rounds of redrawing"),
        draw=lambda m: _keys(m, d, keys or "sphere", kind, generator).to(code.k.device),
    )
    return code._replace(q=found.q, k=found.k)


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

    Page:
        notebooks/sparse_patterns/logarithmic_dimension
    """
    kept = columns >= 0
    some = k[columns.clamp_min(0)].double() * kept[..., None]
    gram = some @ some.mT + torch.diag_embed((~kept).double())
    factor, failed = torch.linalg.cholesky_ex(gram)
    q = (
        some.mT @ torch.cholesky_solve((y * kept).double()[..., None], factor)
    ).squeeze(-1)
    return q.masked_fill((failed != 0)[:, None], math.nan).to(k.dtype)


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
    wanted, allowed, d = -math.log(eps1), math.log1p(eps2), code.q.shape[1]
    told = (
        f"none of {restarts} draws passed; the best, at d = {d}, keeps zeros {report.margin:.4g} below (needed {wanted:.4g}) "
        f"with ratio error {report.ratio_error:.3g} (allowed {allowed:.3g}), rounding up to {report.rounding:.2g}. "
    )
    if report.margin >= wanted and (
        method in _inputs.SOLVED or report.ratio_error <= allowed
    ):
        cure = (
            "raise eps2 or lower s"
            if code.q.dtype == torch.float64
            else "take dtype=torch.float64"
        )
        return f"{told}That is rounding, not the keys: {cure}. The best code is .code"
    needed, more = (
        _guess(columns, log_weights, method, eps1, eps2, s),
        math.ceil(1.25 * d),
    )
    more = min(more, len(columns)) if method in _inputs.SOLVED else more
    advice = f"d = {needed} is expected to do" if needed > d else f"try d = {more}"
    if method == "redraw":
        told += f"{int((~(report.rows[:, 1] >= wanted)).sum())} rows were in conflict still when the redraws were used up. "
        told += _inputs.crowded(columns)
    return f"{told}Random keys of so few dimensions come too close to each other; {advice}. The best code is .code"
