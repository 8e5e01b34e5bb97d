"""The claims of the page `Any sparse pattern in logarithmic dimension`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor

from attnbook.data import load_result
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
    DELTA,
    _tolerances,
    cap,
    expected_leak,
    interpolated_dimension,
    interpolated_lines,
    plain_dimension,
    predicted_dimension,
)
from attnlib.expressive.fitting import _sums
from attnlib.expressive.verification import _above_least, _code

ROUNDING = 64 * torch.finfo(torch.float64).eps  # entries of size one, short sums
TILES = 1e-12  # 4,500 eps: gaps up to 30, sums of a few hundred products
T = math.log(10)  # the gap for eps1 = 0.1


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


def least_on(m: Tensor, on: Tensor) -> Tensor:
    """The smallest entry of each row on the pattern, (n, 1)."""
    return m.masked_fill(~on, math.inf).amin(1, keepdim=True)


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


def _check_rows(name: str, a: Tensor) -> None:
    """Rows of probabilities."""
    require(a.min() >= 0, f"{name} must not be negative, got {float(a.min()):.3g}")
    off = float((a.sum(1) - 1).abs().max())
    most = len(a) * ROUNDING
    require(off <= most, f"rows of {name} must sum to one, got one off by {off:.3g}")


def _check_unit(keys, dims: int, what: str) -> None:
    """Finite rows of length one, up to the rounding of float32."""
    is_floating("keys", keys)
    got = tuple(keys.shape)
    require(len(got) == dims and 0 not in got, f"keys must be {what}, got {got}")
    require(got[-2] >= 2, f"keys must be two or more, {what}, got {got}")
    finite(keys=keys)
    off = float((keys.norm(dim=-1) - 1).abs().max())
    require(off <= 1e-5, f"keys must be of length one, got one off by {off:.3g}")


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


EDGE = Case(at_the_edge, {"seed": 1})


@claim(
    "expressive.criteria",
    cases=[EDGE, EDGE.but(eps1=0.9, eps2=0.9), EDGE.but(eps1=1e-4, eps2=0.01)],
    controls=[EDGE.but(zeros=2.0)],
    broken={"one zero counted": {"_zeros": 1}},
)
def criteria(a: Tensor, m: Tensor, *, eps1: float, eps2: float, _zeros=None) -> Verdict:
    """Rows that follow a pattern are right up to 1 + eps2 and the share of their zeros.

    Measured: by how much the worst of (9.7) is broken, with the odds that verify finds.

    Args:
        a: (n, n), the pattern with its weights, float64.
        m: (n, n), positive on the pattern.
        eps1, eps2: the tolerances of the criteria.

    Claim: expressive.criteria
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    _check_double("a", a)
    n = len(a)
    matches("m", m, (n, n), a, "a")
    _check_rows("a", a)
    _check_rows("m", m)
    on = a > 0
    require((m[on] > 0).all(), "m must be positive where a is")
    k = on.sum(1)
    columns = a.topk(int(k.max())).indices
    columns = columns.masked_fill(~on.gather(1, columns), -1)
    logits = m.clamp_min(1e-300).log()
    code = Code(logits, torch.eye(n, dtype=m.dtype), eps1, eps2)
    odds = verify(code, columns).rows[:, 2]
    zeros = n - k if _zeros is None else _zeros
    ratio = m / a.where(on, torch.ones_like(a))
    too_large = (ratio - (1 + eps2))[on]
    too_small = (1 / ((1 + odds) * (1 + eps2))[:, None] - ratio)[on]
    too_many = odds - zeros * eps1 / k
    worst = torch.cat([too_large, too_small, too_many]).max()
    return at_most(worst, ROUNDING)


# --- layout and masks


def queries_and_keys(seed=0, n=9, d=4) -> dict:
    """Any queries and keys."""
    g = seeded(seed)
    q = torch.randn(n, d, dtype=torch.float64, generator=g)
    k = torch.randn(n, d, dtype=torch.float64, generator=g)
    return {"q": q, "k": k}


ANY = Case(queries_and_keys, {"seed": 0})


@claim(
    "expressive.layout",
    cases=[ANY, ANY.but(seed=1), ANY.but(n=5, d=1), ANY.but(n=3, d=8)],
    broken={"no sqrt(d)": {"_root": False}},
)
def layout(q: Tensor, k: Tensor, *, _root=True) -> Verdict:
    """One pair of weights gives all logits Q K': they cut queries and keys out of X.

    Measured: the largest distance of the attention from softmax(Q K').

    Args:
        q, k: (n, d), any; computed in float64.

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
    x = code.x if _root else torch.cat([q, k], 1)
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


CAUSAL = Case(causal_code, {"seed": 5})


@claim(
    "expressive.masks",
    cases=[CAUSAL, CAUSAL.but(seed=6)],
    controls=[CAUSAL.but(causal=False)],
)
def masks(code: Code, columns: Tensor, mask: Tensor) -> Verdict:
    """Attention that follows a pattern follows it under a mask too.

    Measured: how far a zero exceeds eps1 times the smallest entry of its row.

    Args:
        code: queries and keys that follow the pattern without a mask.
        columns: (n, k), the pattern; -1 pads.
        mask: (n, n), True = may attend.

    Claim: expressive.masks
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    _code(code, columns)
    _tolerances(code.eps1, code.eps2)
    n = len(columns)
    pair_mask(mask, (n, n), code.q.device)
    m = attention_matrix(code.x, code.w_q, code.w_k, mask=mask)
    on = on_pattern(columns)
    zeros = m.masked_fill(on, 0.0)
    return at_most((zeros - code.eps1 * least_on(m, on)).max(), ROUNDING)


# --- plain projection: lengths, the theorem, the noise


def tail(d=400, tenths=3) -> dict:
    """A number of coordinates, and a deviation in tenths."""
    return {"d": d, "tenths": tenths}


TAIL = Case(tail)


@claim(
    "expressive.lengths",
    cases=[TAIL, TAIL.but(d=20), TAIL.but(d=100, tenths=5), TAIL.but(tenths=1)],
    broken={"each coordinate four times": {"_copies": 4}},
    without_kernel="a count of signs: the tail is binomial",
)
def lengths(d: int, tenths: int, *, _copies=1) -> Verdict:
    """A random projection changes the length of a fixed vector but little.

    Measured, for signs: the exact tail for w = (1, 1) / sqrt(2), where d |R' w|^2 / 2
    is binomial, over 2 exp(-d rho(eta)).

    Args:
        d: coordinates of the projection.
        tenths: eta = tenths / 10, at most 1/2.

    Claim: expressive.lengths
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    sizes(1, d=d, tenths=tenths)
    require(tenths <= 5, f"tenths must be at most 5 (eta <= 1/2), got {tenths}")
    eta = tenths / 10
    bound = 2 * math.exp(-d * (eta**2 / 4 - eta**3 / 6))
    require(bound > 0, f"d is so large that the bound is below all floats, got {d}")
    free = d // _copies
    outside = 0
    for heads in range(free + 1):
        if 10 * abs(2 * heads - free) > tenths * free:
            outside += math.comb(free, heads)
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


def _check_pattern(columns, log_weights, draws) -> float:
    """A pattern with weights, and a number of draws; the largest log ratio of weights
    in a row.
    """
    is_tensor("log_weights", log_weights)
    sizes(1, draws=draws)
    return float(_above_least(columns, log_weights, torch.float64).max())


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


SMALL = Case(pattern, {"n": 64})


@claim(
    "expressive.plain",
    cases=[SMALL, SMALL.but(keys="signs"), SMALL.but(k=2), SMALL.but(seed=1)],
    broken={"d / 20": {"_share": 0.05}},
)
def plain(
    columns: Tensor,
    log_weights: Tensor,
    *,
    keys: str = "gaussian",
    draws: int = 4,
    eps1: float = 0.5,
    eps2: float = 0.999,
    _share=1.0,
) -> Verdict:
    """Sums of random keys follow the pattern with chance 1/2 at the dimension of (9.9).

    Measured: how many of some draws fail; at most half of them.

    Args:
        columns, log_weights: (n, k), the pattern.
        keys: "gaussian" or "signs".
        draws: of the keys.
        eps1, eps2: tolerances.

    Claim: expressive.plain
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    one_of(("gaussian", "signs"), keys=keys)
    gamma = math.exp(_check_pattern(columns, log_weights, draws))
    n, k = columns.shape
    d = plain_dimension(n, k, gamma=gamma, eps1=eps1, eps2=eps2)
    how = {"method": "plain", "keys": keys, "eps1": eps1, "eps2": eps2}
    failed = failures(columns, log_weights, draws, 6, d=round(_share * d), **how)
    return at_most(failed, draws / 2)


def row_of_logits(row=(2, 0, 3, 0), keys_of=(0, 1, 2, 3)) -> dict:
    """A wanted row of logits, and which of the independent keys each token has."""
    return {"row": row, "keys_of": keys_of}


ROW = Case(row_of_logits, {"row": (2, 0, 3, 0)})


@claim(
    "expressive.noise",
    cases=[ROW, ROW.but(row=(1, 0, 0, 0)), ROW.but(row=(1, -2, 4, 0))],
    controls=[ROW.but(keys_of=(0, 1, 2, 2))],
)
def noise(row: Sequence[int], keys_of: Sequence[int]) -> Verdict:
    """Logits of a random projection are right on average, with variance |B_i|^2 / d.

    Measured, in fractions over all sign matrices in two dimensions: the worst distance
    of a mean from B, and of the variance of a zero from |B_i|^2 / d.

    Args:
        row: B_i, a row of wanted logits.
        keys_of: which key each token has; two tokens with one key are not independent.

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
    draws = 4**n
    bits = torch.arange(draws)[:, None] >> torch.arange(n * d)
    signs = 2 * (bits % 2) - 1
    keys = signs.view(draws, n, d)[:, list(keys_of)]
    own = torch.arange(draws * n).view(draws, n)
    queries = _sums(keys.flatten(0, 1), own, torch.tensor(row).expand(draws, n))
    products = (keys * queries[:, None]).sum(2)  # d times the logits
    wanted = Fraction(sum(b * b for b in row), d)
    off = []
    for b, values in zip(row, products.T):
        mean = Fraction(int(values.sum()), d * draws)
        square = Fraction(int((values**2).sum()), d * d * draws)
        off.append(abs(mean - b))
        if b == 0:
            off.append(abs(square - mean**2 - wanted))
    return at_most(max(off), 0)


# --- interpolation


def chances(n: int, k: int, keys: str) -> list[float]:
    """For each line of (9.4): the chances that it adds up, at its d, over the half of
    delta that it may take. For k = 1 there is one line, and it may take all.
    """
    lines = interpolated_lines(n, k, keys=keys)
    if k == 1:
        return [n * n * math.exp(-lines.others / 8) / DELTA]
    c = 162 if keys == "sphere" else 76.8
    pairs_of_keys = n * math.comb(k, 2)
    added = [
        n * n * math.exp(-lines.others / (16 * k)),  # a key leans on one of n queries
        2 * pairs_of_keys * math.exp(-lines.pairs / (8 * (k - 1) ** 2)),
        2 * n * 9**k * math.exp(-lines.net / c),  # a point of the net
    ]
    return [chance / (DELTA / 2) for chance in added]


PERMUTATION = Case(pattern, {"n": 256})


@claim(
    "expressive.interpolated",
    cases=[
        PERMUTATION,
        PERMUTATION.but(keys="signs"),
        PERMUTATION.but(n=600, k=2, gamma=4.0, draws=2),
        PERMUTATION.but(n=600, k=2, gamma=4.0, draws=2, keys="signs"),
    ],
    broken={"d / 16": {"_share": 1 / 16}},
)
def interpolated(
    columns: Tensor,
    log_weights: Tensor,
    *,
    keys: str = "sphere",
    draws: int = 4,
    eps1: float = 0.1,
    _share=1.0,
) -> Verdict:
    """Interpolated queries follow the pattern with chance 1/2 at the d of (9.4).

    Measured: how many of some draws break (Z), or have ratios off by more than 1e-10;
    at most half of them. All of them, if a line of (9.4) is not the d at which the
    chances in the proof add up to delta.

    Args:
        columns, log_weights: (n, k), the pattern; n above the dimension, for at d >= n
            nothing is left to chance.
        keys: "sphere" or "signs".
        draws: of the keys.
        eps1: a zero against an entry.

    Claim: expressive.interpolated
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    _check_pattern(columns, log_weights, draws)
    n, k = columns.shape
    d = max(k, round(_share * interpolated_dimension(n, k, keys=keys)))
    require(
        d < n,
        f"columns has {n} rows, and the theorem asks for d = {d}: with as many "
        "dimensions as tokens keys are orthogonal and nothing is random",
    )
    if max(abs(chance - 1) for chance in chances(n, k, keys)) > 1e-9:
        return at_most(draws, draws / 2)
    how = {"keys": keys, "eps1": eps1, "eps2": 0.5}
    failed = failures(columns, log_weights, draws, 8, d=d, **how)
    return at_most(failed, draws / 2)


# --- how many pairs fail, and what that predicts


def many_keys(seed=12, draws=200, n=96, d=16, stretch=1.0) -> dict:
    """Draws of n unit keys; with another stretch of the first coordinate than 1 they
    are not uniform.
    """
    keys = torch.randn(draws, n, d, generator=seeded(seed))
    keys[..., 0] *= stretch
    return {"keys": torch.nn.functional.normalize(keys, dim=-1)}


KEYS = Case(many_keys, {"d": 16})


@claim(
    "expressive.expected",
    cases=[KEYS, KEYS.but(d=3), KEYS.but(d=32), KEYS.but(t=0.2)],
    controls=[KEYS.but(stretch=2.0)],
)
def expected_failures(keys: Tensor, *, t: float = 0.5) -> Verdict:
    """The expected number of pairs of keys that break (Z) is binom(n, 2) F_d(t).

    Measured: the mean number of pairs with a product above t, off its expectation, in
    standard errors; at most 5.

    Args:
        keys: (draws, n, d), unit vectors.
        t: 1 - T / s.

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


def stored_runs(queries="interpolated") -> dict:
    """The smallest dimensions of the stored run, interpolated or plain."""
    return {"runs": load_result("expressive")["result"][queries]}


@claim(
    "expressive.smallest",
    cases=[Case(stored_runs)],
    controls=[Case(stored_runs).but(queries="plain")],
)
def smallest(runs: Sequence[dict]) -> Verdict:
    """The smallest dimension stays near the predictor and grows like log n.

    Measured: the worst relative distance of a smallest d from the predictor (or n, if
    that is smaller), and of the slope over ln n from -4 / ln(1 - t^2 / k); twice the
    bound if R^2 of a line is 0.95 or less.

    Args:
        runs: each with n, k, measured and the level s / T, 2 if it is not said.

    Claim: expressive.smallest
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    worst = 0.0
    for i, run in enumerate(runs):
        missing = {"n", "k", "measured"} - run.keys()
        require(not missing, f"runs[{i}] must have n, k and measured, lacks {missing}")
        k = run["k"]
        level = run.get("level", 2)
        n = torch.tensor(run["n"], dtype=torch.float64)
        measured = torch.tensor(run["measured"], dtype=torch.float64)
        for m, found in zip(run["n"], run["measured"], strict=True):
            predicted = min(m, predicted_dimension(m, k, eps1=0.1, s=level * T))
            worst = max(worst, abs(found / predicted - 1))
        slope, quality = line_in_log(n, measured)
        t = 1 - 1 / level
        worst = max(worst, abs(slope * math.log(1 - t * t / k) / -4 - 1))
        if quality <= 0.95:
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


UNIFORM = Case(permutation_keys, {"d": 34})


@claim(
    "expressive.leak",
    cases=[UNIFORM, UNIFORM.but(d=96, s=2 * T), UNIFORM.but(s=2 * T)],
    broken={"normal products": {"_normal": True}},
)
def leak(keys: Tensor, pi: Tensor, s: float, *, _normal=False) -> Verdict:
    """The mean odds of the zeros have a closed form, and it may be far above eps1.

    Measured: the relative distance of the mean over all rows from the formula.

    Args:
        keys: (n, d), unit vectors.
        pi: (n,), which key each row wants.
        s: level of the wanted logits.

    Claim: expressive.leak
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    _check_unit(keys, 2, "(n, d)")
    n, d = keys.shape
    is_tensor("pi", pi)
    inside = tuple(pi.shape) == (n,) and ((pi >= 0) & (pi < n)).all()
    require(
        inside and pi.dtype == torch.int64,
        f"pi must name a key from 0 to {n - 1} for each of the {n} rows, in int64",
    )
    numbers(s=s)
    require(s > 0, f"s must be positive, got {s}")
    odds = verify(Code(s * keys[pi], keys, 0.1, 0.5), pi[:, None]).rows[:, 2]
    formula = expected_leak(n, d, s)
    if _normal:
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


EIGHT = Case(short_numbers, {"bits": 8})


@claim(
    "expressive.rounding",
    cases=[EIGHT, EIGHT.but(bits=2), EIGHT.but(bits=11), EIGHT.but(bits=24)],
    broken={"twelve bits claimed": {"_claimed": 12}},
    without_kernel="products of rounded numbers against those of all their bits",
)
def rounding(q: Tensor, k: Tensor, bits: int, *, _claimed=None) -> Verdict:
    """Rounding queries and keys moves a logit by at most (2 u + u^2) |q_i| |k_j|.

    Measured: the largest move over this bound, u = 2^-bits; at most 1, and 1e-9 for
    what float64 itself rounds.

    Args:
        q, k: (n, d), float64.
        bits: significant bits that are kept.

    Claim: expressive.rounding
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    _check_double("q", q)
    matches("k", k, tuple(q.shape), q, "q")
    sizes(1, bits=bits)
    require(bits <= 53, f"bits must be at most 53, as float64 has, got {bits}")
    u = 2.0 ** -(_claimed or bits)
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
    return {"code": Code(code.q * level / 40, code.k, eps1, 0.5)}


FORTY = Case(permutation_code, {"level": 40.0})


@claim(
    "expressive.rank",
    cases=[FORTY, FORTY.but(seed=18), FORTY.but(d=60, eps1=1e-3)],
    controls=[FORTY.but(level=2.0)],
)
def full_rank(code: Code) -> Verdict:
    """Attention that follows a permutation has a least singular value near one.

    Measured: by how much it is less, at most 2 (n - 1) eps1, and 1e-9 of it for
    rounding; however small the rank of the logits.

    Args:
        code: of a permutation, float64.

    Claim: expressive.rank
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    is_a(Code, code=code)
    _tolerances(code.eps1, code.eps2)
    _check_double("q of the code", code.q)
    n = len(code.q)
    require(n >= 2, "code must be of two tokens or more")
    m = attention_matrix(code.x, code.w_q, code.w_k)
    least = torch.linalg.svdvals(m)[-1]
    return at_most(1 - least, 2 * (n - 1) * code.eps1 * (1 + 1e-9))


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
    controls=[INTEGERS.but(ninths=True)],
    broken={"another pattern": {"_moved": 1}},
)
def tiles(
    code: Code, columns: Tensor, *, tile: tuple[int, int] = (16, 30), _moved=0
) -> Verdict:
    """Gaps and odds from tiles are those of the full matrix; for integers exactly.

    Measured: the largest distance of a gap, and for floats of a log of the odds; at
    most 0 for a code of signs, 1e-12 for floats. The full matrix of integers is that of
    the nearest integers.

    Args:
        code: queries and keys.
        columns: (n, k), the pattern; -1 pads.
        tile: rows and keys at a time.

    Claim: expressive.tiles
    Page: notebooks/sparse_patterns/logarithmic_dimension
    """
    _code(code, columns)
    rows = verify(code, columns.roll(_moved, 0), tile=tile).rows.double()
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
