"""Queries and keys of a pattern: keys by chance, queries by interpolation, verified
before they are returned.

    k_j random,   q_i with  q_i . k_j = s + log w_ij - min_j log w_ij  for j in S_i

Page: notebooks/sparse_patterns/logarithmic_dimension
"""

from __future__ import annotations

import math
from statistics import fmean
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlib._require import floating, numbers, one_of, random, require, sizes
from attnlib.expressive.dimensions import _smallest, _tolerances, cap, plain_dimension
from attnlib.expressive.redraw import _queries, settle
from attnlib.expressive.verification import (
    Code,
    Verification,
    _above_least,
    _columns,
    verify,
)

Method = Literal["interpolated", "plain", "integer", "redraw"]
Keys = Literal["sphere", "signs", "gaussian"]
SOLVED = ("interpolated", "redraw")  # the methods whose queries solve for given logits
ROUNDS = 200  # of redrawing, for each draw


class Exhausted(ValueError):
    """All restarts are used up; what was reached is kept.

    Args:
        code: of the codes drawn, the one that came nearest.
        report: its Verification.
    """

    def __init__(self, message: str, code: Code, report: Verification):
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
    s: float | None = None,
    keys: Keys | None = None,
    restarts: int = 10,
    dtype: torch.dtype | None = None,
    generator: torch.Generator,
) -> Code:
    """Queries and keys whose attention has the given pattern, up to the two tolerances;
    verified before it returns, or Exhausted is raised with the best code.

    Args:
        columns: where row i attends to; -1 pads short rows.
        log_weights: None: equal weights.
        d: dimension; None: by the predictor, and 5% more after each failure.
        eps1: a zero is at most eps1 times a wanted entry.
        eps2: ratios of wanted entries are right up to 1 + eps2.
        method: "interpolated"; "plain", random projection; "integer", signs, for equal
            weights, verified without rounding; "redraw", interpolated, with keys drawn
            anew where they are in conflict: about half the dimensions. Its theorem asks
            that no column is in more rows than the longest row has entries.
        s: level of the logits; None: 2 log(1 / eps1) + log gamma, or log((1 + eps2) /
            eps1) for projections.
        keys: None: "sphere"; "gaussian" if plain.
        restarts: draws of the keys.
        dtype: None: that of log_weights, else float32.
        generator: on the CPU.

    Cost: O(n k^2 d + n k^3) and one verification, O(n^2 d), a draw; memory
        O(n (d + k)).
    Source: Likhosherstov, Choromanski, Weller 2021, 2023 (Theorem 0.4, known to us in
        words); interpolation is ours.
    Claim: expressive.interpolated, codes.redraw
    """
    random(generator)
    sizes(1, restarts=restarts)
    dtype = dtype or getattr(log_weights, "dtype", torch.float32)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    _columns(columns)
    log_weights = _above_least(columns, log_weights, wide)
    floating(dtype)
    _tolerances(eps1, eps2)
    one_of(get_args(Method), method=method)
    keys = keys or ("gaussian" if method == "plain" else "sphere")
    one_of(get_args(Keys), keys=keys)
    wanted = -math.log(eps1)
    single = method == "integer" and _longest(columns) == 1  # which has no ratio
    if s is None and (method in SOLVED or single):
        s = 2 * wanted + float(log_weights.max())
    elif s is None:  # little, as the ratio errors of sums of keys grow with it
        s = math.log((1 + eps2) / eps1)
    numbers(s=s)
    require(
        s > wanted,
        f"s must exceed log(1 / eps1) = {wanted:.4g}, the gap that is asked for, "
        f"got {s}",
    )
    guess = d
    if d is None:
        guess = _guess(columns, log_weights, method, eps1, eps2, s)
    _dimension(guess, columns, method)
    if method == "integer":
        equal = not log_weights.any()
        require(equal, "method 'integer' needs equal weights: leave out log_weights")
        got = columns.shape[1]
        require(got <= 127, f"an int8 query holds at most 127 signs, got rows of {got}")
    y = (log_weights.to(dtype) + s) * (columns >= 0)

    best = None
    for _ in range(restarts):
        q, k, scale = _draw(columns, y, s, guess, method, keys, generator, wanted)
        # Dependent keys have no query; zeros in its place keep no gap.
        code = Code(q.nan_to_num(), k, eps1, eps2, scale)
        report = verify(code, columns, log_weights)
        if report.passed:
            return code
        if best is None or report.margin > best[1].margin:
            best = (code, report)
        if d is None:
            guess = math.ceil(1.05 * guess)
    code, report = best
    reached = code.q.shape[1]
    more = math.ceil(1.25 * reached)
    if method in SOLVED:
        more = min(more, len(columns))
    needed = _guess(columns, log_weights, method, eps1, eps2, s)
    raise Exhausted(
        f"none of {restarts} draws passed; the best, at d = {reached}, "
        f"keeps zeros {report.margin:.4g} below (needed {wanted:.4g}) "
        f"with ratio error {report.ratio_error:.3g} (allowed {math.log1p(eps2):.3g}), "
        f"rounding up to {report.rounding:.2g}. If that is what fails, take "
        "dtype=torch.float64, raise eps2 or lower s; else random keys of so few "
        "dimensions come too close to each other, and "
        f"d = {needed if needed > reached else more} is expected to do. "
        "The best code is .code",
        code,
        report,
    )


def _dimension(d: int, columns: Tensor, method: str) -> None:
    """Enough dimensions for the values of the longest row, and not so many that an
    integer logit may reach 2^24 or that no memory holds the keys.
    """
    sizes(1, d=d)
    longest = _longest(columns)
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
    n = len(columns)
    require(
        n * d < 2**32,
        f"{n} keys of d = {d:.3g} are more numbers than memory holds: loosen eps1 or "
        "eps2, or give a smaller d",
    )


def _longest(columns: Tensor) -> int:
    return int((columns >= 0).sum(1).max())


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
    longest = _longest(columns)
    if method == "plain" or (method == "integer" and longest > 1):
        log_gamma = float(log_weights.max())
        require(
            log_gamma < 700,
            f"log_weights are too far apart for {method!r}: {log_gamma}",
        )
        gamma = math.exp(log_gamma)
        return plain_dimension(n, longest, gamma=gamma, eps1=eps1, eps2=eps2)
    y = (log_weights + s) * kept
    lengths = y.double().norm(dim=1).sort().values
    sample = lengths[:: max(1, n // 50)]
    cosines = (s + math.log(eps1)) / sample
    angles = cosines.clamp_max(1).acos().tolist()
    pairs = n * n - int(kept.sum())
    if longest == 1:
        pairs = pairs / 2  # a query is its key

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


def _keys(n: int, d: int, kind: str, dtype, generator) -> Tensor:
    """Random keys where the generator is, the CPU: int8 signs as they are; else of
    length one, but for "gaussian" only on average.
    """
    how = {"generator": generator, "device": generator.device}
    if kind == "signs":
        bits = torch.randint(0, 2, (n, d), dtype=torch.int8, **how)
        signs = 2 * bits - 1
        if dtype == torch.int8:
            return signs
        return signs.to(dtype) / math.sqrt(d)
    k = torch.randn(n, d, dtype=dtype, **how)
    if kind == "gaussian":
        return k / math.sqrt(d)
    return k / k.norm(dim=1, keepdim=True)


def _draw(
    columns: Tensor,
    y: Tensor,
    s: float,
    d: int,
    method: str,
    keys: str,
    generator,
    gap: float,
) -> tuple[Tensor, Tensor, float]:
    """One draw of the keys, and the queries that follow from it: q, k and the scale."""
    n = len(columns)
    whole = method == "integer"
    kind = torch.int8 if whole else y.dtype

    def draw(m: int) -> Tensor:
        k = _keys(m, d, "signs" if whole else keys, kind, generator)
        return k.to(y.device)

    if method in SOLVED and d >= n:  # dimensions enough to need no luck
        k = torch.eye(n, d, dtype=kind, device=y.device)
    else:
        k = draw(n)
    if whole:
        return _sums(k, columns, (columns >= 0).to(kind)), k, s / d
    if method == "plain":
        return _sums(k, columns, y), k, 1.0
    if method == "redraw":
        q, k, *_ = settle(k, columns, y, draw=draw, gap=gap, limit=ROUNDS)
        return q, k, 1.0
    return _queries(k, columns, y), k, 1.0


def _sums(k: Tensor, columns: Tensor, factors: Tensor) -> Tensor:
    """Row i: the sum of the keys of S_i times their factors, which are 0 at the
    padding.
    """
    total = 0
    for c, factor in zip(columns.T, factors.T):
        total = total + k[c] * factor[:, None]
    return total
