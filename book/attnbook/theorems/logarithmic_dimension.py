"""The claims of the page `Any sparse pattern in logarithmic dimension`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import mpmath
import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib._require import (
    finite,
    is_a,
    is_floating,
    is_list,
    is_tensor,
    matches,
    numbers,
    one_of,
    pair_mask,
    require,
    sizes,
    tokens,
)
from attnlib.attention import attention_matrix
from attnlib.certify import Verdict, at_most
from attnlib.expressive import Code, Exhausted, fit, verify
from attnlib.expressive.dimensions import (
    _tolerances,
    cap,
    expected_leak,
    interpolated_dimension,
    interpolated_lines,
    plain_dimension,
    predicted_dimension,
)
from attnlib.expressive.verification import _above_least, _code

ROUNDING = 64 * torch.finfo(torch.float64).eps  # entries of size one, short sums
TILES = 1e-12  # 4,500 eps: gaps up to 30, sums of a few hundred products
T = math.log(10)  # the gap for eps1 = 0.1


# --- objects: patterns, keys, codes


def seeded(seed: int) -> torch.Generator:
    """A generator of its own for each object."""
    return torch.Generator().manual_seed(seed)


def random_columns(n: int, k: int, g: torch.Generator) -> Tensor:
    """k different columns a row, drawn at random; (n, k)."""
    return torch.rand(n, n, generator=g).topk(k).indices


def on_pattern(columns: Tensor) -> Tensor:
    """The pattern as a boolean matrix, (n, n); -1 pads."""
    n = len(columns)
    marked = torch.zeros(n, n + 1)
    marked.scatter_(1, columns.masked_fill(columns < 0, n), 1)
    return marked[:, :n].bool()


def unit_vectors(n: int, d: int, g: torch.Generator) -> Tensor:
    """(n, d) rows, uniform on the sphere, in float64."""
    rows = torch.randn(n, d, dtype=torch.float64, generator=g)
    return torch.nn.functional.normalize(rows, dim=1)


def _check_double(name: str, a) -> None:
    """One matrix of finite numbers in float64."""
    tokens(a, name)
    require(a.dim() == 2, f"{name} must be one matrix, got {tuple(a.shape)}")
    require(
        a.dtype == torch.float64,
        f"{name} is {a.dtype}, and its rounding exceeds the tolerance: cast to float64",
    )
    finite(**{name: a})


def _check_square(name: str, a) -> None:
    """One such matrix (n, n), of two tokens or more."""
    _check_double(name, a)
    got = tuple(a.shape)
    square = got[0] == got[1] >= 2
    require(square, f"{name} must be (n, n) with n >= 2, got {got}")


def _check_rows(name: str, a: Tensor) -> None:
    """Rows of probabilities."""
    require(a.min() >= 0, f"{name} must not be negative, got {float(a.min()):.3g}")
    off = float((a.sum(1) - 1).abs().max())
    most = len(a) * ROUNDING
    require(off <= most, f"rows of {name} must sum to one, got one off by {off:.3g}")


def _check_code(code, columns) -> None:
    """A code and a pattern that fit."""
    _code(code, columns)
    _tolerances(code.eps1, code.eps2)


def _check_unit(keys, dims: int, what: str) -> None:
    """Finite rows of length one, up to the rounding of float32."""
    is_floating("keys", keys)
    got = tuple(keys.shape)
    require(len(got) == dims and 0 not in got, f"keys must be {what}, got {got}")
    require(got[-2] >= 2, f"keys must be two or more, {what}, got {got}")
    finite(keys=keys)
    off = float((keys.norm(dim=-1) - 1).abs().max())
    require(off <= 1e-5, f"keys must be of length one, got one off by {off:.3g}")


def _check_pattern(columns, log_weights, draws, share) -> Tensor:
    """A pattern with weights, and numbers of draws; the log weights above the least of
    each row.
    """
    is_tensor("log_weights", log_weights)
    above = _above_least(columns, log_weights, torch.float64)
    sizes(1, draws=draws)
    numbers(share=share)
    require(share > 0, f"share must be positive, got {share}")
    return above


def least_on(m: Tensor, on: Tensor) -> Tensor:
    """The smallest entry of each row on the pattern, (n, 1)."""
    return m.masked_fill(~on, math.inf).amin(1, keepdim=True)


# --- ratios and rows


def at_the_edge(seed=1, n=40, k=3, eps1=0.05, eps2=0.3, zeros=1.0) -> dict:
    """A pattern with weights, and a matrix that follows it so badly that both criteria
    hold with equality in places; its zeros are multiplied by `zeros`.
    """
    g = seeded(seed)
    on = on_pattern(random_columns(n, k, g))
    a = torch.rand(n, n, dtype=torch.float64, generator=g) + 0.5
    a = torch.where(on, a, 0.0)
    a = a / a.sum(1, keepdim=True)
    stretched = torch.rand(n, n, generator=g) > 0.5
    entries = torch.where(stretched, a * (1 + eps2), a)
    zero = zeros * eps1 * least_on(entries, on)
    m = torch.where(on, entries, zero)
    return {"a": a, "m": m / m.sum(1, keepdim=True), "eps1": eps1, "eps2": eps2}


def odds_are_attained() -> Verdict:
    """A row of two entries and three zeros at the edge: equality in the odds.

    Measured: |odds - (n - k) eps1 / k| in fractions.
    """
    zeros = 3 * [Fraction(1, 10)]
    odds = sum(zeros) / 2
    return at_most(abs(odds - (5 - 2) * Fraction(1, 10) / 2), 0)


EDGE = Case(at_the_edge, {"seed": 1})


@claim(
    "expressive.criteria",
    cases=[EDGE, EDGE.but(eps1=0.9, eps2=0.9), EDGE.but(eps1=1e-4, eps2=0.01)],
    controls=[EDGE.but(zeros=2.0), EDGE.but(zeros_count="one")],
    witness=odds_are_attained,
)
def criteria(
    a: Tensor,
    m: Tensor,
    *,
    eps1: float,
    eps2: float,
    zeros_count: Literal["all", "one"] = "all",
) -> Verdict:
    """Rows that meet both criteria are right up to 1 + eps2 and the mass on the zeros.

        (1 - share) / (1 + eps2) <= M_ij / A_ij <= 1 + eps2   on the pattern,
        share / (1 - share) <= (n - k_i) eps1 / k_i

    Hypotheses: M follows A, as in Definition 9.1; rows of A and M sum to one.
    Measured: by how much the worst of the three is broken.

    Args:
        a: (n, n), the pattern with its weights, float64.
        m: (n, n), positive on the pattern.
        eps1, eps2: the tolerances of the criteria.
        zeros_count: "one" forgets that a row has n - k_i zeros.

    Returns:
        Verdict.

    Raises:
        ValueError: for other objects than these, NaN and infinity.

    Claim: expressive.criteria
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    _check_square("a", a)
    _check_rows("a", a)
    matches("m", m, tuple(a.shape), a, "a")
    _check_rows("m", m)
    _tolerances(eps1, eps2)
    one_of(("all", "one"), zeros_count=zeros_count)
    on = a > 0
    require((m[on] > 0).all(), "m must be positive where a is")
    k = on.sum(1)
    zeros = len(a) - k if zeros_count == "all" else torch.ones_like(k)
    share = m.masked_fill(on, 0.0).sum(1)
    odds_excess = share / (1 - share) - zeros * eps1 / k
    ratio = m / a.where(on, torch.ones_like(a))
    too_large = (ratio - (1 + eps2))[on]
    too_small = ((1 - share)[:, None] / (1 + eps2) - ratio)[on]
    worst = torch.stack([odds_excess.max(), too_large.max(), too_small.max()])
    return at_most(worst.max(), ROUNDING)


# --- layout and masks


def queries_and_keys(seed=0, n=9, d=4) -> dict:
    """Any queries and keys."""
    g = seeded(seed)
    q = torch.randn(n, d, dtype=torch.float64, generator=g)
    k = torch.randn(n, d, dtype=torch.float64, generator=g)
    return {"q": q, "k": k}


def three_patterns() -> Verdict:
    """A shift, blocks of two and a random pattern of 48 tokens, by the weights that
    belong to the first.

    Measured: by how much the worst gap of the three falls short of log 10.
    """
    g = seeded(3)
    i = torch.arange(48)
    shift = torch.stack([(i + 1) % 48, (i + 2) % 48], 1)
    blocks = torch.stack([i // 2 * 2, i // 2 * 2 + 1], 1)
    how = {"d": 40, "eps1": 0.1, "eps2": 0.5, "s": 4 * T, "dtype": torch.float64}
    first = fit(shift, generator=g, **how)
    gaps = []
    for columns in (shift, blocks, random_columns(48, 2, g)):
        x = fit(columns, generator=g, **how).x
        logs = attention_matrix(x, first.w_q, first.w_k).log()
        on = on_pattern(columns)
        zeros = logs.masked_fill(on, -math.inf).amax(1, keepdim=True)
        gaps.append((least_on(logs, on) - zeros).min())
    return at_most(T - min(gaps), 0)


ANY = Case(queries_and_keys, {"seed": 0})


@claim(
    "expressive.layout",
    cases=[ANY, ANY.but(seed=1), ANY.but(n=5, d=1), ANY.but(n=3, d=8)],
    controls=[ANY.but(root=False)],
    witness=three_patterns,
)
def layout(q: Tensor, k: Tensor, *, root: bool = True) -> Verdict:
    """One pair of weights gives all logits Q K': they cut queries and keys out of X.

        X = (sqrt(d) Q, K),   W_Q = (I; 0),   W_K = (0; I)

    Hypotheses: logits are divided by sqrt(d); d >= 1.
    Measured: the largest distance of the attention from softmax(Q K').

    Args:
        q, k: (n, d), any; computed in float64.
        root: False forgets sqrt(d) in X.

    Returns:
        Verdict.

    Raises:
        ValueError: for other objects than these, NaN and infinity.

    Claim: expressive.layout
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    tokens(q, "q")
    require(q.dim() == 2, f"q must be (n, d), got {tuple(q.shape)}")
    matches("k", k, tuple(q.shape), q, "q")
    q = q.double()
    k = k.double()
    code = Code(q, k, 0.1, 0.5)
    other = Code(torch.ones_like(q), torch.ones_like(k), 0.1, 0.5)
    x = code.x if root else torch.cat([q, k], 1)
    attention = attention_matrix(x, other.w_q, other.w_k)
    wanted = torch.softmax(q @ k.T, 1)
    return at_most((attention - wanted).abs().max(), ROUNDING)


def causal_code(seed=5, n=48, d=44, causal=True) -> dict:
    """A pattern of up to two columns a row, at or before the diagonal if causal, and a
    code of it.
    """
    g = seeded(seed)
    score = torch.rand(n, n, generator=g) + torch.eye(n)
    if causal:
        score = score.tril()
    columns = score.topk(2).indices
    columns = columns.masked_fill(score.gather(1, columns) == 0, -1)
    how = {"d": d, "eps1": 0.1, "eps2": 0.5, "s": 4 * T, "dtype": torch.float64}
    code = fit(columns, generator=g, **how)
    mask = torch.ones(n, n).tril().bool()
    return {"code": code, "columns": columns, "mask": mask}


def the_first_row_is_short() -> Verdict:
    """Token 1 may attend to itself alone: rows may have unlike numbers of entries.

    Measured: 1 unless the first row is (0, padding) and all columns are allowed.
    """
    columns = causal_code()["columns"]
    allowed = bool((columns <= torch.arange(len(columns))[:, None]).all())
    return at_most(int(not allowed or columns[0].tolist() != [0, -1]), 0)


CAUSAL = Case(causal_code, {"seed": 5})


@claim(
    "expressive.masks",
    cases=[CAUSAL, CAUSAL.but(seed=6)],
    controls=[CAUSAL.but(causal=False)],
    witness=the_first_row_is_short,
)
def masks(code: Code, columns: Tensor, mask: Tensor) -> Verdict:
    """Attention that follows a pattern follows it under a mask too.

    Hypotheses: the pattern is zero wherever the mask forbids.
    Measured: how far a zero exceeds eps1 times the smallest entry of its row.

    Args:
        code: queries and keys that follow the pattern without a mask.
        columns: (n, k), the pattern; -1 pads.
        mask: (n, n), True = may attend.

    Returns:
        Verdict.

    Raises:
        ValueError: for other objects than these, NaN and infinity.

    Claim: expressive.masks
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    _check_code(code, columns)
    n = len(columns)
    pair_mask(mask, (n, n), code.q.device)
    m = attention_matrix(code.x, code.w_q, code.w_k, mask=mask)
    on = on_pattern(columns)
    zeros = m.masked_fill(on, 0.0)
    return at_most((zeros - code.eps1 * least_on(m, on)).max(), ROUNDING)


# --- plain projection: lengths, the theorem, the noise


def tail(d=100, tenths=3, copies=1) -> dict:
    """A number of coordinates, and a deviation in tenths."""
    return {"d": d, "tenths": tenths, "copies": copies}


def normal_lengths() -> Verdict:
    """For normal entries d |R' w|^2 is chi-squared; its tail is a gamma function.

    Measured: the exact tail over the bound, the worst of six.
    """
    worst = 0.0
    for d, eta in itertools.product((20, 100, 400), (0.2, 0.5)):
        above = mpmath.gammainc(d / 2, d * (1 + eta) / 2, regularized=True)
        below = mpmath.gammainc(d / 2, 0, d * (1 - eta) / 2, regularized=True)
        bound = 2 * math.exp(-d * (eta**2 / 4 - eta**3 / 6))
        worst = max(worst, float(above + below) / bound)
    return at_most(worst, 1)


TAIL = Case(tail, {"d": 400})


@claim(
    "expressive.lengths",
    cases=[TAIL, TAIL.but(d=20), TAIL.but(d=100, tenths=5), TAIL.but(tenths=1)],
    controls=[TAIL.but(copies=4)],
    witness=normal_lengths,
)
def lengths(d: int, tenths: int, copies: int = 1) -> Verdict:
    """A random projection changes the length of a fixed vector but little.

        P(| |R' w|^2 - 1 | > eta) <= 2 exp(-d (eta^2 / 4 - eta^3 / 6)),   eta <= 1/2

    Hypotheses: independent entries, here signs; a vector that does not depend on them.
    Measured: the exact tail for w = (1, 1) / sqrt(2), where d |R' w|^2 / 2 is binomial,
    over the bound.

    Args:
        d: coordinates of the projection.
        tenths: eta = tenths / 10.
        copies: each coordinate stands so often, and they are not independent.

    Returns:
        Verdict; its bound is 1.

    Raises:
        ValueError: for other objects than these, NaN and infinity.

    Claim: expressive.lengths
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    sizes(1, d=d, tenths=tenths, copies=copies)
    require(tenths <= 5, f"tenths must be at most 5 (eta <= 1/2), got {tenths}")
    require(copies <= d, f"copies must be at most d = {d}, got {copies}")
    eta = tenths / 10
    free = d // copies
    outside = 0
    for heads in range(free + 1):
        if 10 * abs(2 * heads - free) > tenths * free:
            outside += math.comb(free, heads)
    bound = 2 * math.exp(-d * (eta**2 / 4 - eta**3 / 6))
    require(bound > 0, f"d is so large that the bound is below all floats, got {d}")
    return at_most(float(Fraction(outside, 2**free)) / bound, 1)


def pattern(seed=0, n=64, k=1, gamma=1.0) -> dict:
    """A random permutation, or k random columns a row, and weights within a factor
    gamma.
    """
    g = seeded(seed)
    columns = random_columns(n, k, g)
    if k == 1:
        columns = torch.randperm(n, generator=g)[:, None]
    log_weights = math.log(gamma) * torch.rand(n, k, dtype=torch.float64, generator=g)
    return {"columns": columns, "log_weights": log_weights}


def failures(columns: Tensor, log_weights: Tensor, draws: int, seed: int, **how) -> int:
    """How many draws of keys break a criterion; a query that is solved for must have
    its ratios right, whatever eps2 allows.
    """
    g = seeded(seed)
    solved = how.get("method") != "plain"
    failed = 0
    for _ in range(draws):
        try:
            code = fit(columns, log_weights, restarts=1, generator=g, **how)
        except Exhausted:
            failed += 1
            continue
        found = verify(code, columns, log_weights)
        if solved and found.ratio_error > 1e-10:
            failed += 1
    return failed


def empty_below_16000_tokens() -> Verdict:
    """The theorem asks for more than n dimensions up to some 16,000 tokens.

    Measured: how many of four sizes lie on the wrong side, and whether the number for
    64 tokens is 17542.
    """
    wrong = 0
    for n, is_empty in ((64, True), (16000, True), (17000, False), (10**6, False)):
        wrong += (plain_dimension(n, 1, eps1=0.1, eps2=0.5) >= n) != is_empty
    wrong += plain_dimension(64, 1, gamma=4, eps1=0.1, eps2=0.5) != 17542
    return at_most(wrong, 0)


SMALL = Case(pattern, {"n": 64})


@claim(
    "expressive.plain",
    cases=[SMALL, SMALL.but(keys="signs"), SMALL.but(k=2), SMALL.but(seed=1)],
    controls=[SMALL.but(share=0.05)],
    witness=empty_below_16000_tokens,
)
def plain(
    columns: Tensor,
    log_weights: Tensor,
    *,
    keys: Literal["gaussian", "signs"] = "gaussian",
    share: float = 1.0,
    draws: int = 4,
    eps1: float = 0.5,
    eps2: float = 0.999,
) -> Verdict:
    """Sums of random keys follow the pattern with chance 1/2 at the dimension of (9.5).

    Hypotheses: at most k entries a row; independent entries of R.
    Measured: how many of some draws fail; at most half of them.

    Args:
        columns, log_weights: (n, k), the pattern.
        keys: normal or signs.
        share: of the dimension that the theorem asks for.
        draws: of the keys.
        eps1, eps2: tolerances.

    Returns:
        Verdict.

    Raises:
        ValueError: for other objects than these, NaN and infinity.

    Claim: expressive.plain
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    above = _check_pattern(columns, log_weights, draws, share)
    one_of(("gaussian", "signs"), keys=keys)
    n, k = columns.shape
    gamma = float(above.max().exp())
    asked = plain_dimension(n, k, gamma=gamma, eps1=eps1, eps2=eps2)
    how = {"method": "plain", "keys": keys, "eps1": eps1, "eps2": eps2}
    d = round(share * asked)
    failed = failures(columns, log_weights, draws, seed=6, d=d, **how)
    return at_most(failed, draws / 2)


def row_of_logits(row=(2, 0, 3, 0), keys_of=(0, 1, 2, 3)) -> dict:
    """A wanted row of logits, and which of the independent keys each token has."""
    return {"row": row, "keys_of": keys_of}


def normal_noise() -> Verdict:
    """A zero's logit beside B = (2, 3) in four dimensions, 20,000 draws of normal keys.

    Measured: the relative distance of its variance from 13 / 4.
    """
    r = torch.randn(20000, 3, 4, generator=seeded(3), dtype=torch.float64) / 2
    logits = ((2 * r[:, 0] + 3 * r[:, 1]) * r[:, 2]).sum(1)
    return at_most(abs(float(logits.var()) / (13 / 4) - 1), 0.05)


ROW = Case(row_of_logits, {"row": (2, 0, 3, 0)})


@claim(
    "expressive.noise",
    cases=[ROW, ROW.but(row=(1, 0, 0, 0)), ROW.but(row=(1, -2, 4, 0))],
    controls=[ROW.but(keys_of=(0, 1, 2, 2))],
    witness=normal_noise,
)
def noise(row: Sequence[int], keys_of: Sequence[int]) -> Verdict:
    """Logits of a random projection are right on average, with variance |B_i|^2 / d.

    Hypotheses: the keys of different tokens are independent, of mean zero and variance
    1/d.
    Measured, in fractions over all sign matrices in two dimensions: the worst distance
    of a mean from B, and of the variance of a zero from |B_i|^2 / d.

    Args:
        row: B_i, a row of wanted logits.
        keys_of: which key each token has; two tokens with one key are not independent.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for other objects than these, NaN and infinity.

    Claim: expressive.noise
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    is_list(row=row, keys_of=keys_of)
    n = len(row)
    require(1 <= n <= 8, f"row must have 1 to 8 logits, 4^n signs are tried, got {n}")
    require(len(keys_of) == n, f"keys_of must have {n} entries, got {len(keys_of)}")
    for b, key in zip(row, keys_of):
        is_a(int, row=b)
        sizes(0, keys_of=key)
        require(key < n, f"keys_of must be below {n}, got {key}")
    d = 2
    drawn = []
    for signs in itertools.product((-1, 1), repeat=n * d):
        keys = [signs[d * j : d * j + d] for j in keys_of]
        query = [sum(b * key[c] for b, key in zip(row, keys)) for c in range(d)]
        drawn.append([_dot(query, key) for key in keys])  # d times the logits
    wanted = Fraction(sum(b * b for b in row), d)
    off = []
    for b, values in zip(row, zip(*drawn)):
        mean = Fraction(sum(values), d * len(values))
        square = Fraction(_dot(values, values), d * d * len(values))
        off.append(abs(mean - b))
        if b == 0:
            off.append(abs(square - mean**2 - wanted))
    return at_most(max(off), 0)


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(a, b))


# --- interpolation


def the_lines_by_their_chances() -> Verdict:
    """At the theorem's dimension the chance that its deciding line pays for is at most
    1/4, and one dimension below it is not.

    Measured: how many of four patterns fail this, or have another literal dimension or
    another line.
    """
    literal = [
        (1200, 2, "sphere", 499, "others"),
        (4096, 8, "signs", 2307, "others"),
        (64, 6, "sphere", 1790, "pairs"),
        (4096, 8, "sphere", 4532, "net"),
    ]
    wrong = 0
    for n, k, keys, d, line in literal:
        wrong += interpolated_dimension(n, k, keys=keys) != d
        wrong += interpolated_lines(n, k, keys=keys).binding != line
        wrong += chance_of_failure(line, n, k, d) > 0.25
        wrong += chance_of_failure(line, n, k, d - 1) <= 0.25
    return at_most(wrong, 0)


def chance_of_failure(line: str, n: int, k: int, d: int) -> float:
    """What a line of (9.7) adds up, for keys on the sphere: events times the chance of
    each.
    """
    if line == "others":  # a key leans on one of n queries
        return n * n * math.exp(-d / (16 * k))
    if line == "pairs":  # two of the k keys of a row lean on each other
        return n * math.comb(k, 2) * 2 * math.exp(-d / (8 * (k - 1) ** 2))
    return n * 9**k * 2 * math.exp(-d / 162)  # a point of the net


PERMUTATION = Case(pattern, {"n": 256})


@claim(
    "expressive.interpolated",
    cases=[
        PERMUTATION,
        PERMUTATION.but(keys="signs"),
        PERMUTATION.but(n=600, k=2, gamma=4.0, draws=2),
        PERMUTATION.but(n=600, k=2, gamma=4.0, draws=2, keys="signs"),
    ],
    controls=[PERMUTATION.but(share=1 / 16)],
    witness=the_lines_by_their_chances,
)
def interpolated(
    columns: Tensor,
    log_weights: Tensor,
    *,
    keys: Literal["sphere", "signs"] = "sphere",
    share: float = 1.0,
    draws: int = 4,
    eps1: float = 0.1,
) -> Verdict:
    """Interpolated queries follow the pattern with chance 1/2 at the d of (9.7).

    Hypotheses: random unit keys, uniform on the sphere or signs; s = 2 T + ln gamma.
    Measured: how many of some draws break (Z), or have ratios off by more than 1e-10;
    at most half of them.

    Args:
        columns, log_weights: (n, k), the pattern; n above the dimension, for at d >= n
            nothing is left to chance.
        keys: of the sphere or signs.
        share: of the dimension that the theorem asks for.
        draws: of the keys.
        eps1: a zero against an entry.

    Returns:
        Verdict.

    Raises:
        ValueError: for no pattern, and for so few tokens that d >= n.

    Claim: expressive.interpolated
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    _check_pattern(columns, log_weights, draws, share)
    one_of(("sphere", "signs"), keys=keys)
    n, k = columns.shape
    d = max(k, round(share * interpolated_dimension(n, k, keys=keys)))
    if d >= n:
        raise ValueError(
            f"columns has {n} rows, and the theorem asks for d = {d}: with as many "
            "dimensions as tokens keys are orthogonal and nothing is random"
        )
    how = {"keys": keys, "eps1": eps1, "eps2": 0.5}
    failed = failures(columns, log_weights, draws, seed=8, d=d, **how)
    return at_most(failed, draws / 2)


# --- how many pairs fail, and what that predicts


def many_keys(seed=12, draws=200, n=96, d=16, stretch=1.0) -> dict:
    """Draws of n unit keys; with another stretch of the first coordinate than 1 they
    are not uniform.
    """
    keys = torch.randn(draws, n, d, generator=seeded(seed))
    keys[..., 0] *= stretch
    return {"keys": torch.nn.functional.normalize(keys, dim=-1)}


def a_pair_breaks_both_rows() -> Verdict:
    """Rows that fail are those whose wanted key is too close to another key.

    Measured: how many of 100 rows are told wrongly; 100 if none fails.
    """
    g = seeded(13)
    pi = torch.randperm(100, generator=g)
    k = unit_vectors(100, 24, g)
    rows = verify(Code(2 * T * k[pi], k, 0.1, 0.5), pi[:, None]).rows
    fails = rows[:, 1] < T
    close = ((k @ k.T).fill_diagonal_(0) > 0.5).any(1)[pi]
    wrong = int((fails != close).sum())
    return at_most(wrong if fails.any() else 100, 0)


KEYS = Case(many_keys, {"d": 16})


@claim(
    "expressive.expected",
    cases=[KEYS, KEYS.but(d=3), KEYS.but(d=32), KEYS.but(t=0.2)],
    controls=[KEYS.but(stretch=2.0)],
    witness=a_pair_breaks_both_rows,
)
def expected_failures(keys: Tensor, *, t: float = 0.5) -> Verdict:
    """The expected number of pairs of keys that break (Z) is binom(n, 2) F_d(t).

    Hypotheses: a permutation; keys uniform on the sphere; q_i = s k_pi(i), s > T, and
    t = 1 - T / s.
    Measured: the mean number of pairs with a product above t, off its expectation, in
    standard errors; at most 5.

    Args:
        keys: (draws, n, d), unit vectors.
        t: 1 - T / s.

    Returns:
        Verdict.

    Raises:
        ValueError: for other objects than these, NaN and infinity.

    Claim: expressive.expected
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    _check_unit(keys, 3, "(draws, n, d)")
    numbers(t=t)
    require(0 < t < 1, f"t must lie in (0, 1), got {t}")
    draws, n, d = keys.shape
    require(draws >= 2, f"keys must be drawn twice or more, got {tuple(keys.shape)}")
    products = torch.triu(keys @ keys.mT, 1)
    pairs = (products > t).sum((1, 2)).double()
    expected = math.comb(n, 2) * cap(math.acos(t), d)
    # Rare pairs may be missing from all draws: their spread is then the known one.
    spread = max(float(pairs.std()), math.sqrt(expected))
    error = spread / math.sqrt(draws)
    return at_most((pairs.mean() - expected).abs() / error, 5)


def smallest(runs: Sequence[dict]) -> Verdict:
    """The smallest dimension stays near the predictor and grows like log n.

    Sampled, not proved: the tests run it on the stored result.

    Hypotheses: interpolated queries, eps1 = 0.1, gamma = 1, best of four draws; the
    predictor, or n where that is smaller.
    Measured: the worst relative distance of a smallest d from the predictor and of the
    slope over ln n from -4 / ln(1 - t^2 / k), without points at the trivial d = n;
    twice the bound if R^2 of a line is 0.95 or less.

    Args:
        runs: of the stored result, with n, k, measured and the level s / T.

    Returns:
        Verdict; its bound is 1/4.

    Raises:
        ValueError: for other objects than these, NaN and infinity.

    Claim: expressive.smallest
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    is_list(runs=runs)
    require(len(runs) > 0, "runs must hold at least one run, got none")
    worst = 0.0
    for i, run in enumerate(runs):
        is_a(dict, **{f"runs[{i}]": run})
        missing = {"n", "k", "measured"} - run.keys()
        require(not missing, f"runs[{i}] must have n, k and measured, lacks {missing}")
        for part in ("n", "measured"):
            is_list(**{f"runs[{i}]['{part}']": run[part]})
        level = run.get("level", 2)
        n = torch.tensor(run["n"], dtype=torch.float64)
        measured = torch.tensor(run["measured"], dtype=torch.float64)
        finite(**{f"runs[{i}]['measured']": measured})
        predicted = [
            min(m, predicted_dimension(m, run["k"], eps1=0.1, s=level * T))
            for m in run["n"]
        ]
        off = measured / torch.tensor(predicted) - 1
        slope, fit_quality = line_in_log(n, measured)
        t = 1 - 1 / level
        wanted = -4 / math.log(1 - t * t / run["k"])
        worst = max(worst, float(off.abs().max()), abs(slope / wanted - 1))
        if fit_quality <= 0.95:
            worst = max(worst, 0.5)
    return at_most(worst, 0.25)


def line_in_log(n: Tensor, measured: Tensor) -> tuple[float, float]:
    """Slope and R^2 of a line through d over ln n, without trivial d >= n, unless
    that leaves no two points.
    """
    taken = measured < n
    if taken.sum() < 2:
        taken = torch.ones_like(taken)
    x = n[taken].log()
    y = measured[taken]
    r = float(torch.corrcoef(torch.stack([x, y]))[0, 1])
    return r * float(y.std() / x.std()), r * r


# --- the mass on the zeros


def permutation_keys(seed=14, n=2048, d=34, s=4 * T) -> dict:
    """Uniform unit keys, a permutation, and a level."""
    g = seeded(seed)
    pi = torch.randperm(n, generator=g)
    return {"keys": unit_vectors(n, d, g).float(), "pi": pi, "s": s}


def the_series_is_a_bessel_function() -> Verdict:
    """The series against mpmath's I, four sizes.

    Measured: the worst relative distance.
    """
    worst = 0.0
    for d, s in ((2, 1.0), (34, 9.2), (34, 20.0), (96, 4.6)):
        order = mpmath.mpf(d) / 2 - 1
        mean = mpmath.gamma(order + 1) * (2 / mpmath.mpf(s)) ** order
        mean *= mpmath.besseli(order, s)
        wanted = float(1000 * mpmath.exp(-s) * mean)
        worst = max(worst, abs(expected_leak(1001, d, s) / wanted - 1))
    return at_most(worst, 1e-12)


UNIFORM = Case(permutation_keys, {"d": 34})


@claim(
    "expressive.leak",
    cases=[UNIFORM, UNIFORM.but(d=96, s=2 * T), UNIFORM.but(s=2 * T)],
    controls=[UNIFORM.but(products="normal")],
    witness=the_series_is_a_bessel_function,
)
def leak(
    keys: Tensor,
    pi: Tensor,
    s: float,
    *,
    products: Literal["sphere", "normal"] = "sphere",
) -> Verdict:
    """The mean odds of the zeros have a closed form, and it may be far above eps1.

        E odds = (n - 1) e^-s 0F1(d / 2, s^2 / 4)

    Hypotheses: one entry a row; keys uniform on the sphere; q_i = s k_pi(i).
    Measured: the relative distance of the mean over all rows from the formula.

    Args:
        keys: (n, d), unit vectors.
        pi: (n,), which key each row wants.
        s: level of the wanted logits.
        products: "normal" takes inner products to be N(0, 1 / d).

    Returns:
        Verdict; its bound is 0.02.

    Raises:
        ValueError: for other objects than these, NaN and infinity.

    Claim: expressive.leak
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    _check_unit(keys, 2, "(n, d)")
    n, d = keys.shape
    is_tensor("pi", pi)
    got = f"{pi.dtype} {tuple(pi.shape)}"
    whole = pi.dtype == torch.int64 and tuple(pi.shape) == (n,)
    require(whole, f"pi must be int64 of shape ({n},), got {got}")
    inside = bool(((pi >= 0) & (pi < n)).all())
    got = f"{int(pi.min())} to {int(pi.max())}"
    require(inside, f"pi must name keys from 0 to {n - 1}, got {got}")
    numbers(s=s)
    require(s > 0, f"s must be positive, got {s}")
    one_of(("sphere", "normal"), products=products)
    odds = verify(Code(s * keys[pi], keys, 0.1, 0.5), pi[:, None]).rows[:, 2]
    formula = expected_leak(n, d, s)
    if products == "normal":
        formula = (n - 1) * math.exp(s * s / (2 * d) - s)
    return at_most(abs(float(odds.double().mean()) / formula - 1), 0.02)


# --- few bits, full rank, tiles


def short_numbers(seed=15, n=60, d=20, bits=8) -> dict:
    """Queries of length 9, unit keys, and a number of significant bits."""
    g = seeded(seed)
    return {"q": 9 * unit_vectors(n, d, g), "k": unit_vectors(n, d, g), "bits": bits}


def kept(x: Tensor, bits: int) -> Tensor:
    """x with so many significant bits, rounded to nearest."""
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp((mantissa * 2**bits).round(), exponent - bits)


def sixteen_bits_move_a_circle() -> Verdict:
    """Keys on a circle, just separated in exact arithmetic: rounded to bfloat16 the gap
    turns negative; 83 random dimensions keep theirs.

    Measured: how many of the three statements fail.
    """
    angle = 2 * math.pi * torch.arange(256, dtype=torch.float64) / 256
    circle = torch.stack([angle.cos(), angle.sin()], 1)
    following = ((torch.arange(256) + 1) % 256)[:, None]
    level = T / (1 - math.cos(2 * math.pi / 256))
    around = Code(level * circle.roll(-1, 0), circle, 0.1, 0.5)
    how = {"d": 83, "eps1": 0.1, "eps2": 0.5, "s": 4 * T, "dtype": torch.float64}
    random = fit(following, generator=seeded(16), **how)
    wrong = abs(verify(around, following).margin - T) > 1e-9
    wrong += verify(in_bfloat16(around), following).margin >= 0
    wrong += not verify(in_bfloat16(random), following).passed
    return at_most(wrong, 0)


def in_bfloat16(code: Code) -> Code:
    """The same code with coordinates of 16 bits."""
    q = code.q.bfloat16().double()
    k = code.k.bfloat16().double()
    return Code(q, k, code.eps1, code.eps2)


EIGHT = Case(short_numbers, {"bits": 8})


@claim(
    "expressive.rounding",
    cases=[EIGHT, EIGHT.but(bits=2), EIGHT.but(bits=11), EIGHT.but(bits=24)],
    controls=[EIGHT.but(claimed=12)],
    witness=sixteen_bits_move_a_circle,
)
def rounding(q: Tensor, k: Tensor, bits: int, *, claimed: int | None = None) -> Verdict:
    """Rounding queries and keys moves a logit by at most (2 u + u^2) |q_i| |k_j|.

    Hypotheses: a relative error of at most u in each coordinate.
    Measured: the largest move over this bound.

    Args:
        q, k: (n, d), float64.
        bits: significant bits that are kept.
        claimed: bits in the bound, u = 2^-claimed; None: those that are kept.

    Returns:
        Verdict; its bound is 1, and 1e-9 for what float64 itself rounds.

    Raises:
        ValueError: for other objects than these, NaN and infinity.

    Claim: expressive.rounding
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    _check_double("q", q)
    matches("k", k, tuple(q.shape), q, "q")
    sizes(1, bits=bits)
    require(bits <= 53, f"bits must be at most 53, as float64 has, got {bits}")
    if claimed is not None:
        sizes(1, claimed=claimed)
    u = 2.0 ** -(bits if claimed is None else claimed)
    move = (kept(q, bits) @ kept(k, bits).T - q @ k.T).abs()
    lengths_of_both = q.norm(dim=1)[:, None] * k.norm(dim=1)
    relative = torch.where(move == 0, 0, move / lengths_of_both)  # of zeros: 0 <= 0
    return at_most(relative.max() / (2 * u + u * u), 1 + 1e-9)


def permutation_code(seed=17, n=128, d=40, eps1=1e-6, level=40.0) -> dict:
    """A code of a permutation that was made for logits of 40, at a level of our own."""
    g = seeded(seed)
    pi = torch.randperm(n, generator=g)
    how = {"d": d, "eps1": eps1, "eps2": 0.5, "s": 40.0, "dtype": torch.float64}
    code = fit(pi[:, None], generator=g, **how)
    return {"logits": code.q @ code.k.T * level / 40, "eps1": eps1}


def two_tokens_are_nearly_tight() -> Verdict:
    """M = (1, e; e, 1) / (1 + e) follows the identity; sigma_min = (1 - e) / (1 + e).

    Measured: 1 - 2 e - sigma_min at e = 1/10, in fractions.
    """
    e = Fraction(1, 10)
    return at_most(1 - 2 * e - (1 - e) / (1 + e), 0)


FORTY = Case(permutation_code, {"level": 40.0})


@claim(
    "expressive.rank",
    cases=[FORTY, FORTY.but(seed=18), FORTY.but(d=60, eps1=1e-3)],
    controls=[FORTY.but(level=2.0)],
    witness=two_tokens_are_nearly_tight,
)
def full_rank(logits: Tensor, *, eps1: float) -> Verdict:
    """Attention that follows a permutation has sigma_min >= 1 - 2 (n - 1) eps1.

    Hypotheses: the softmax of the logits meets (Z) for a permutation; n >= 2.
    Measured: 1 - sigma_min, however small the rank of the logits.

    Args:
        logits: (n, n), float64.
        eps1: a zero against the entry of its row.

    Returns:
        Verdict; its bound is 2 (n - 1) eps1, and 1e-9 of it for rounding.

    Raises:
        ValueError: for other objects than these, NaN and infinity.

    Claim: expressive.rank
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    _check_square("logits", logits)
    numbers(eps1=eps1)
    require(0 < eps1 < 1, f"eps1 must lie in (0, 1), got {eps1}")
    require((logits != logits[0]).any(), "logits: all rows are equal, no permutation")
    least = torch.linalg.svdvals(logits.softmax(1))[-1]
    return at_most(1 - least, 2 * (len(logits) - 1) * eps1 * (1 + 1e-9))


def two_kinds(seed=18, kind="integers", n=70, k=3, d=257, ninths=False) -> dict:
    """A code of signs and integers, or of floats, and its pattern. In ninths the same
    integers are written as multiples of 1/9, which no float holds.
    """
    g = seeded(seed)
    columns = random_columns(n, k, g)
    if kind == "floats":
        columns[5, 1:] = -1
        q = 5 * torch.randn(n, d, dtype=torch.float64, generator=g)
        return {"code": Code(q, unit_vectors(n, d, g), 0.1, 0.5), "columns": columns}
    keys = torch.randint(0, 2, (n, d), generator=g, dtype=torch.int8) * 2 - 1
    queries = keys[columns].sum(1, dtype=torch.int8)
    code = Code(queries, keys, 0.1, 0.5)
    if ninths:
        code = Code(queries / 9, keys.float(), 0.1, 0.5, 9.0)
    return {"code": code, "columns": columns}


def integer_codes_pass() -> Verdict:
    """`fit` finds integer codes of one and of two entries a row, 64 tokens.

    Measured: how many of the two do not pass, or are no integers.
    """
    wrong = 0
    for k in (1, 2):
        columns = pattern(19, k=k)["columns"]
        how = {"eps1": 0.5, "eps2": 0.9, "method": "integer"}
        try:
            code = fit(columns, generator=seeded(19), **how)
        except Exhausted:
            wrong += 1
            continue
        wrong += code.q.dtype != torch.int8
        wrong += not verify(code, columns).passed
    return at_most(wrong, 0)


INTEGERS = Case(two_kinds, {"kind": "integers"})
FLOATS = INTEGERS.but(kind="floats", n=130, d=7)


@claim(
    "expressive.tiles",
    cases=[
        INTEGERS,
        INTEGERS.but(k=1, d=64),
        FLOATS,
        FLOATS.but(tile=(1, 130)),
        FLOATS.but(tile=(200, 7)),
    ],
    controls=[INTEGERS.but(ninths=True), INTEGERS.but(rows_moved=1)],
    witness=integer_codes_pass,
)
def tiles(
    code: Code,
    columns: Tensor,
    *,
    tile: tuple[int, int] = (16, 30),
    rows_moved: int = 0,
) -> Verdict:
    """Gaps and odds from tiles are those of the full matrix; for integers exactly.

    Hypotheses: for exactness, integers |Q_ic| <= k, K_jc = +-1 and k d < 2^24.
    Measured: the largest distance of a gap, and for floats of a log of the odds. The
    full matrix of integers is that of the nearest integers.

    Args:
        code: queries and keys.
        columns: (n, k), the pattern; -1 pads.
        tile: rows and keys at a time.
        rows_moved: the tiles are asked about the pattern with its rows moved.

    Returns:
        Verdict; its bound is 0 for a code of signs, and 1e-12 for floats.

    Raises:
        ValueError: for other objects than these, NaN and infinity.

    Claim: expressive.tiles
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    _check_code(code, columns)
    sizes(0, rows_moved=rows_moved)
    rows = verify(code, columns.roll(rows_moved, 0), tile=tile).rows.double()
    signs = bool((code.k.abs() == 1).all())
    require(
        signs or code.q.dtype == torch.float64,
        f"code must be of signs or in float64 to agree to {TILES}, got {code.q.dtype}",
    )
    logits = code.q.double() @ code.k.double().T * code.scale
    if signs:
        logits = logits.round()
    on = on_pattern(columns)
    zeros = logits.masked_fill(on, -math.inf)
    gaps = least_on(logits, on)[:, 0] - zeros.amax(1)
    off = (rows[:, 1] - gaps).abs().max()
    if signs:
        return at_most(off, 0)
    entries = logits.masked_fill(~on, -math.inf)
    odds = zeros.logsumexp(1) - entries.logsumexp(1)
    off_odds = (rows[:, 2].log() - odds).abs().max()
    return at_most(torch.maximum(off, off_odds), TILES)
