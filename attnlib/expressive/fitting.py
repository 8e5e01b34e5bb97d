"""Queries and keys of a pattern: keys by chance, queries by interpolation, verified
before they are returned.

Page: notebooks/sparse_patterns/logarithmic_dimension
"""

from __future__ import annotations

import math
import os
from statistics import fmean
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlib._require import (
    finite,
    is_tensor,
    numbers,
    one_of,
    random,
    require,
    same_device,
    sizes,
)
from attnlib.expressive.dimensions import _smallest, _tolerances, cap, plain_dimension
from attnlib.expressive.redraw import settle
from attnlib.expressive.verification import (
    FLOATS,
    Code,
    Verification,
    _above_least,
    _columns,
    _examine,
)

Method = Literal["interpolated", "plain", "integer", "redraw"]
Keys = Literal["sphere", "signs", "gaussian"]
SOLVED = ("interpolated", "redraw")  # the methods whose queries solve for given logits


class Exhausted(ValueError):
    """All restarts are used up; what was reached is kept.

    Args:
        message: what was missing.
        code: of the codes drawn, each read until a row failed, the one that came
            nearest; or None.
        report: its Verification, or None.
    """

    def __init__(
        self, message: str, code: Code | None = None, report: Verification | None = None
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
    progress: bool = False,
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
        progress: show bars.
        s: level of the logits; None: 2 log(1 / eps1) + log gamma, or beta for
            projections.
        keys: None: "sphere"; "gaussian" if plain.
        dtype: None: that of log_weights, else float32.
        redraws: rounds at most of "redraw", for each draw.

    Returns:
        Code, on the device of columns.

    Raises:
        ValueError: for a bad pattern or tolerance, for d below the longest row, and
            for a d whose keys no memory holds.
        Exhausted: a ValueError that holds the best code, if no draw passed.

    Cost: O(n k^2 d + n k^3) and one verification, O(n^2 d), a draw; a round that
        redraws r keys O(r k n d) more; memory O(n (d + k)), no n x n matrix.
    Source: Likhosherstov, Choromanski, Weller 2021, 2023 (Theorem 0.4, known to us in
        words); interpolation is ours.
    Claim: expressive.interpolated, codes.redraw
    """
    random(generator)
    sizes(1, restarts=restarts, redraws=redraws)
    require(
        dtype is None or dtype in FLOATS,
        f"dtype must be one of {list(FLOATS)}, got {dtype!r}",
    )
    dtype = dtype or getattr(log_weights, "dtype", torch.float32)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    log_weights = _above_least(columns, log_weights, wide)
    _tolerances(eps1, eps2)
    one_of(get_args(Method), method=method)
    longest = int((columns >= 0).sum(1).max())
    log_gamma = float(log_weights.max())
    require(
        method != "integer" or log_gamma == 0,
        "method 'integer' needs equal weights within a row: leave out log_weights",
    )
    wanted = -math.log(eps1)
    if s is None:
        s = _level(method, longest, log_gamma, eps1, eps2)
    numbers(s=s)
    require(
        s > wanted,
        f"s must exceed log(1 / eps1) = {wanted:.4g}, the gap that is asked for, "
        f"got {s}",
    )
    guess = d
    if d is None:
        guess = _guess(columns, log_weights, method, eps1, eps2, s)
    _dimension(guess, columns, method, dtype)
    keys = keys or ("gaussian" if method == "plain" else "sphere")
    one_of(get_args(Keys), keys=keys)
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
            q, k = _settled(k, columns, y, wanted, keys, generator, redraws, progress)
        code = Code(q, k, eps1, eps2, scale)
        found = _examine(code, columns, log_weights, progress=progress, early=True)
        if found.passed:
            return code
        if best is None or math.isnan(margin) or found.margin > margin:
            best = code
            margin = found.margin
        if d is None:
            guess = math.ceil(1.05 * guess)
    # So far a report ended at the first failure. This one looks at all rows.
    found = _examine(best, columns, log_weights, progress=progress)
    message = _shortfall(
        found, restarts, columns, log_weights, method, eps1, eps2, s, best
    )
    raise Exhausted(message, best, found)


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

    Raises:
        ValueError: for tensors that are not floating or do not fit, and for columns
            that are no rows of k or repeat, NaN or infinity.

    Cost: O(rows (k^2 d + k^3)).
    Source: the least-norm solution of a linear system.
    Claim: expressive.interpolated
    """
    for name, tensor in {"k": k, "y": y}.items():
        is_tensor(name, tensor)
        got = tensor.dtype
        require(tensor.is_floating_point(), f"{name} must be floating, got {got}")
    require(k.dim() == 2, f"k must be (n, d), got {tuple(k.shape)}")
    _columns(columns, len(k))
    size = tuple(columns.shape)
    got = tuple(y.shape)
    require(got == size, f"y must have the shape of columns, {size}, got {got}")
    same_device("columns", columns, k.device, "k")
    same_device("y", y, k.device, "k")
    finite(k=k, y=y.masked_fill(columns < 0, 0))
    return _solve(k, columns, y)


def _solve(k: Tensor, columns: Tensor, y: Tensor) -> Tensor:
    """What interpolate returns."""
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


def _dimension(d: int, columns: Tensor, method: str, dtype: torch.dtype) -> None:
    """Enough dimensions for the values of the longest row, and not so many that an
    integer logit may reach 2^24 or that no memory holds the keys.
    """
    sizes(1, d=d)
    n = len(columns)
    longest = int((columns >= 0).sum(1).max())
    require(
        method not in SOLVED or d >= longest,
        f"d must be at least {longest}, the longest row: as many values are "
        f"interpolated, got d = {d}",
    )
    size = longest * d
    require(
        method != "integer" or size < 2**24,
        f"integer logits must stay below 2^24 to be exact, and k d = {size}: "
        "loosen eps1 or eps2, or give d",
    )
    kind = torch.int8 if method == "integer" else dtype
    arrays = 2 if method in SOLVED else 4  # queries and keys; and what is summed
    require(
        arrays * n * d * kind.itemsize < _memory(),
        f"{n} keys of d = {d:.3g} are more numbers than memory holds: loosen eps1 or "
        "eps2, or give a smaller d",
    )


def _memory() -> int:
    """Bytes that this machine has; where the system does not say, 512 GB."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return 2**39
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _level(
    method: str, longest: int, log_gamma: float, eps1: float, eps2: float
) -> float:
    """The s of a method: twice the margin where no ratio can be wrong, as little as
    possible for sums of keys, whose ratio errors grow with it.
    """
    single = method == "integer" and longest == 1  # one entry has no ratio
    if method in SOLVED or single:
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
        log_gamma = float(log_weights.max())
        require(
            log_gamma < 700,
            f"log_weights are too far apart for {method!r}: {log_gamma}",
        )
        gamma = math.exp(log_gamma)
        return plain_dimension(n, longest, gamma=gamma, eps1=eps1, eps2=eps2)
    lengths = ((log_weights + s) * kept).double().norm(dim=1).sort().values
    sample = lengths[:: max(1, n // 50)]
    angles = ((s + math.log(eps1)) / sample).clamp_max(1).acos().tolist()
    zeros = float((n - counts).double().mean())
    pairs = n * zeros / (2 if longest == 1 else 1)

    def conflicts(d: int) -> float:
        """How many zeros are expected to be too large in d dimensions."""
        chances = {theta: cap(theta, d) for theta in set(angles)}
        return pairs * fmean(chances[theta] for theta in angles)

    goal = 0.1
    if method == "redraw":
        goal = n / (8 * longest)  # a redraw must not make more than it mends
    found = _smallest(conflicts, goal)
    if method in SOLVED:
        found = min(found, n)
    return max(longest, found)


def _signs(n: int, d: int, generator) -> Tensor:
    """(n, d) random signs as int8, on the CPU."""
    bits = torch.randint(
        0, 2, (n, d), generator=generator, dtype=torch.int8, device=generator.device
    )
    return bits * 2 - 1


def _keys(n: int, d: int, kind: str, dtype, generator) -> Tensor:
    """Random keys on the CPU: of length one, but for "gaussian" only on average."""
    if kind == "signs":
        return _signs(n, d, generator).to(dtype) / math.sqrt(d)
    k = torch.randn(n, d, generator=generator, dtype=dtype, device=generator.device)
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
    if method in SOLVED and d >= n:
        # dimensions enough to need no luck
        k = torch.eye(n, d, dtype=y.dtype, device=y.device)
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
    return torch.cat([_solve(k, c, values) for c, values in parts])


def _settled(
    k: Tensor,
    columns: Tensor,
    y: Tensor,
    gap: float,
    keys: str,
    generator,
    redraws: int,
    progress: bool,
) -> tuple[Tensor, Tensor]:
    """Queries and keys, redrawn until none is in conflict, or as far as `redraws`
    rounds lead.
    """

    def draw(m: int) -> Tensor:
        return _keys(m, k.shape[1], keys, k.dtype, generator).to(k.device)

    found = settle(
        k,
        columns,
        y,
        solve=_queries,
        draw=draw,
        gap=gap,
        limit=redraws,
        progress=progress,
    )
    return found.q, found.k


def _crowded(columns: Tensor) -> str:
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


def _shortfall(
    report: Verification,
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
    solved = method in SOLVED
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
        told += _crowded(columns)
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
