"""The claims of notebooks/sparse_patterns/logarithmic_dimension: each check, and its
control, on which the same function fails.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from attnlib.attention import attention_matrix
from attnlib.certify import at_most
from attnlib.data import load_result
from attnlib.expressive import Code, fit, interpolate, verify
from attnlib.expressive.dimensions import (
    cap,
    expected_leak,
    interpolated_dimension,
    plain_dimension,
    predicted_dimension,
)
from attnlib.expressive.search import successes

EPS = torch.finfo(torch.float64).eps
DOUBLE = torch.float64
T = math.log(10)


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def pattern(n, k, g, causal=False):
    score = torch.rand(n, n, generator=g)
    if causal:
        score = score.tril() + torch.eye(n)  # the token itself, and others before it
    columns = score.topk(k).indices
    return columns.masked_fill(score.gather(1, columns) == 0, -1)


def unit(n, d, g):
    return torch.nn.functional.normalize(
        torch.randn(n, d, generator=g, dtype=DOUBLE), dim=1
    )


def on(columns):
    """The pattern as a boolean matrix."""
    n = len(columns)
    return (
        torch.zeros(n, n + 1)
        .scatter(1, columns.masked_fill(columns < 0, n), 1)[:, :n]
        .bool()
    )


def weights(columns, log_weights=None):
    """A, rows sum to one."""
    w = torch.zeros(columns.shape, dtype=DOUBLE) if log_weights is None else log_weights
    a = torch.zeros(len(columns), len(columns) + 1, dtype=DOUBLE).scatter(
        1, columns.masked_fill(columns < 0, len(columns)), w.exp()
    )
    return torch.nn.functional.normalize(a[:, :-1], p=1, dim=1)


def dense_gap(logits, columns):
    """The smallest gap, from the full matrix: the literal twin of the tiles."""
    support = on(columns)
    return logits.masked_fill(~support, math.inf).amin(1) - logits.masked_fill(
        support, -math.inf
    ).amax(1)


# --- ratios and rows


def check_criteria(eps1=0.05, eps2=0.3, *, zeros=1.0):
    """Worst excess of (9.3) for matrices at the edge of both criteria, zeros multiplied
    by `zeros`; tolerance 64 eps.
    """
    g, n, k, worst = gen(1), 40, 3, -math.inf
    for _ in range(20):
        S = pattern(n, k, g)
        w = torch.rand(n, k, generator=g, dtype=DOUBLE)
        A, support = weights(S, w), on(S)
        stretch = (
            torch.rand(n, n, generator=g, dtype=DOUBLE).round() * math.log1p(eps2)
        ).exp()
        M = torch.where(support, A * stretch, 0)
        least = M.masked_fill(~support, math.inf).amin(1, keepdim=True)
        M = torch.where(
            support,
            M,
            zeros
            * eps1
            * least
            * torch.rand(n, n, generator=g, dtype=DOUBLE).sqrt().ceil(),
        )
        M = M / M.sum(1, keepdim=True)
        share = M.masked_fill(support, 0).sum(1, keepdim=True)
        ratio = (M / A)[support].view(n, k)
        excess = torch.cat(
            [
                ratio - 1 - eps2,
                (1 - share) / (1 + eps2) - ratio,
                share / (1 - share) - (n - k) * eps1 / k,
            ],
            1,
        )
        worst = max(worst, float(excess.max()))
    return at_most(worst, 64 * EPS)


@pytest.mark.claim("expressive.criteria", role="check")
@pytest.mark.parametrize(("eps1", "eps2"), [(0.05, 0.3), (0.9, 0.9), (1e-4, 0.01)])
def test_criteria(eps1, eps2):
    assert check_criteria(eps1, eps2).ok


@pytest.mark.claim("expressive.criteria", role="control")
def test_criteria_with_larger_zeros():
    assert check_criteria(zeros=2.0).ok is False


@pytest.mark.claim("expressive.criteria", role="witness")
def test_criteria_are_attained():
    """Equal weights, all zeros at the edge: equality in the odds."""
    row = torch.tensor([1.0, 1.0, 0.1, 0.1, 0.1], dtype=DOUBLE)
    assert float(row[2:].sum() / row[:2].sum()) == pytest.approx(
        (5 - 2) * 0.1 / 2, abs=4 * EPS
    )


# --- layout and masks


def check_layout(seed=0, *, scale=None):
    """softmax(QK') against attention_matrix(x, w_q, w_k) with weights of another code;
    tolerance 100 eps.
    """
    g = gen(seed)
    q, k, other = (torch.randn(9, 4, generator=g, dtype=DOUBLE) for _ in range(3))
    code, fixed = Code(q, k, 0.1, 0.5), Code(other, other, 0.1, 0.5)
    got = attention_matrix(code.x, fixed.w_q, fixed.w_k, scale=scale)
    return at_most((got - torch.softmax(q @ k.T, 1)).abs().max(), 100 * EPS)


@pytest.mark.claim("expressive.layout", role="check")
def test_layout():
    assert all(check_layout(seed).ok for seed in range(5))


@pytest.mark.claim("expressive.layout", role="control")
def test_layout_without_the_root():
    assert check_layout(scale=1.0).ok is False


@pytest.mark.claim("expressive.layout", role="witness")
def test_three_patterns_from_the_same_weights():
    g, n = gen(3), 64
    i = torch.arange(n)
    patterns = [
        torch.stack([(i + 1) % n, (i + 2) % n], 1),
        torch.stack([i // 2 * 2, i // 2 * 2 + 1], 1),
        pattern(n, 2, g),
    ]
    codes = [
        fit(S, d=60, eps1=0.1, eps2=0.5, s=4 * T, dtype=DOUBLE, generator=g)
        for S in patterns
    ]
    for code, S in zip(codes, patterns):
        assert torch.equal(code.w_q, codes[0].w_q) and torch.equal(
            code.w_k, codes[0].w_k
        )
        assert (
            float(torch.linalg.matrix_norm(code.w_q, 2))
            == float(torch.linalg.matrix_norm(code.w_k, 2))
            == 1
        )
        P = attention_matrix(code.x, codes[0].w_q, codes[0].w_k)
        assert (dense_gap(P.log(), S) >= T).all()


def check_masks(n=96, *, causal=True):
    """How far the worst gap under a causal mask falls below T, for a pattern that is
    causal or not.
    """
    g = gen(5)
    S = pattern(n, 2, g, causal=causal)
    code = fit(S, eps1=0.1, eps2=0.5, s=4 * T, dtype=DOUBLE, generator=g)
    mask = torch.ones(n, n).tril().bool()
    P = attention_matrix(code.x, code.w_q, code.w_k, mask=mask)
    return at_most(T - dense_gap(P.log(), S).min(), 1e-12)


@pytest.mark.claim("expressive.masks", role="check")
def test_masks():
    assert check_masks().ok


@pytest.mark.claim("expressive.masks", role="control")
def test_a_pattern_that_the_mask_forbids():
    assert check_masks(causal=False).ok is False


@pytest.mark.claim("expressive.masks", role="witness")
def test_a_causal_pattern_has_ragged_rows():
    S = pattern(96, 2, gen(5), causal=True)
    assert (S[0] == torch.tensor([0, -1])).all() and (
        torch.arange(96)[:, None] >= S
    ).all()


# --- lengths, plain projection, noise


def check_lengths(*, copies=1):
    """The exact tail for signs and w = (1, 1) / sqrt(2), binomial, over the bound, at
    most 1; each coordinate `copies` times.
    """
    worst = 0.0
    for d, tenths in itertools.product((20, 100, 400), (1, 2, 3, 5)):
        eta = tenths / 10
        free = d // copies  # independent ones among the d coordinates
        hits = sum(
            math.comb(free, m)
            for m in range(free + 1)
            if 10 * abs(2 * m - free) > tenths * free
        )
        bound = 2 * math.exp(-d * (eta**2 / 4 - eta**3 / 6))
        worst = max(worst, float(Fraction(hits, 2**free)) / bound)
    return at_most(worst, 1)


@pytest.mark.claim("expressive.lengths", role="check")
def test_lengths():
    assert check_lengths().ok


@pytest.mark.claim("expressive.lengths", role="control")
def test_lengths_with_each_coordinate_four_times():
    assert check_lengths(copies=4).ok is False


@pytest.mark.claim("expressive.lengths", role="witness")
def test_lengths_of_normal_keys():
    """A thousand draws at d = 100, eta = 0.5: the bound is 0.06; sampled."""
    z = torch.randn(1000, 100, generator=gen(2), dtype=DOUBLE)
    off = ((z**2).mean(1) - 1).abs() > 0.5
    assert float(off.double().mean()) <= 2 * math.exp(-100 * (0.25 / 4 - 0.125 / 6))


def check_plain(k=1, *, share=1.0, keys="gaussian", draws=20):
    """Failures in `draws` draws at `share` of the theorem's dimension for delta = 1/2;
    at most half of them.
    """
    g = gen(6)
    S = torch.randperm(64, generator=g)[:, None] if k == 1 else pattern(64, k, g)
    d = round(share * plain_dimension(64, k, eps1=0.5, eps2=0.999))
    passed = successes(
        S,
        d=d,
        draws=draws,
        eps1=0.5,
        eps2=0.999,
        method="plain",
        keys=keys,
        generator=g,
    )
    return at_most(draws - passed, draws / 2)


@pytest.mark.claim("expressive.plain", role="check")
@pytest.mark.parametrize("keys", ["gaussian", "signs"])
def test_plain(keys):
    assert check_plain(keys=keys).value == 0
    assert check_plain(2, keys=keys, draws=6).ok


@pytest.mark.claim("expressive.plain", role="control")
def test_plain_at_a_twentieth():
    assert check_plain(share=0.05).ok is False


@pytest.mark.claim("expressive.plain", role="witness")
def test_plain_is_vacuous_at_small_sizes():
    assert plain_dimension(64, 1, gamma=4, eps1=0.1, eps2=0.5) == 17542
    small, large = 16000, 17000
    assert (
        plain_dimension(small, 1, eps1=0.1, eps2=0.5) > small
        and plain_dimension(large, 1, eps1=0.1, eps2=0.5) < large
    )


def check_noise(*, equal=False):
    """Exact, over all 2^8 sign matrices of 4 keys in 2 dimensions: mean and variance of
    the logits of a row B = (2, 0, 3, 0).

    The worst deviation from B and, on zeros, from |B|^2 / d; zero means zero. `equal`:
    the last two keys are the same.
    """
    B, d, logits = [2, 0, 3, 0], 2, []
    for signs in itertools.product((-1, 1), repeat=4 * d):
        rows = [signs[d * j : d * j + d] for j in ((0, 1, 2, 2) if equal else range(4))]
        gram = [
            [Fraction(sum(a * b for a, b in zip(r, t)), d) for t in rows] for r in rows
        ]
        logits.append([sum(b * gram[l][j] for l, b in enumerate(B)) for j in range(4)])
    mean = [sum(row[j] for row in logits) / len(logits) for j in range(4)]
    spread = [
        sum((row[j] - mean[j]) ** 2 for row in logits) / len(logits) for j in range(4)
    ]
    wanted = Fraction(sum(b * b for b in B), d)
    return at_most(
        max(
            *(abs(m - b) for m, b in zip(mean, B)),
            *(abs(spread[j] - wanted) for j in (1, 3)),
        ),
        0,
    )


@pytest.mark.claim("expressive.noise", role="check")
def test_noise():
    assert check_noise().ok


@pytest.mark.claim("expressive.noise", role="control")
def test_noise_of_two_equal_keys():
    assert check_noise(equal=True).ok is False


@pytest.mark.claim("expressive.noise", role="witness")
def test_noise_of_normal_keys():
    """20000 draws of a zero's logit, B = (2, 3), d = 4: variance 13 / 4 for normal keys
    as for signs, within 5%; sampled.
    """
    r = torch.randn(20000, 3, 4, generator=gen(3), dtype=DOUBLE) / 2
    logits = ((2 * r[:, 0] + 3 * r[:, 1]) * r[:, 2]).sum(1)
    assert float(logits.var()) == pytest.approx(13 / 4, rel=0.05)


@pytest.mark.claim("expressive.noise", role="witness")
def test_the_library_draws_unbiased_logits():
    """The mean of 200 draws stays within 5.7 standard errors of B in all 576
    entries.
    """
    g, S = gen(7), pattern(24, 2, gen(7))
    logits = []
    for _ in range(200):
        try:
            code = fit(
                S,
                d=32,
                eps1=0.1,
                eps2=0.5,
                method="plain",
                restarts=1,
                dtype=DOUBLE,
                generator=g,
            )
        except ValueError as failure:
            code = failure.code
        logits.append(code.q @ code.k.T)
    logits, B = torch.stack(logits), on(S) * math.log(15)
    off = (logits.mean(0) - B).abs() / (logits.std(0) / math.sqrt(200))
    assert float(off.max()) < 5.7


# --- interpolation


def check_interpolated(k=1, *, n=256, share=1.0, keys="signs", draws=10):
    """Failures in `draws` draws at `share` of the theorem's dimension for delta = 1/2,
    gamma = 4; at most half of them.

    n must exceed that dimension: from d = n on fit takes the identity for keys, and
    nothing random would be tested.
    """
    g = gen(8)
    S, w = pattern(n, k, g), torch.rand(n, k, generator=g) * math.log(4)
    d = max(k, round(share * interpolated_dimension(n, k, keys=keys)))
    assert d < n
    how = {"d": d, "keys": keys, "eps1": 0.1, "eps2": 0.5, "generator": g}
    return at_most(draws - successes(S, w, draws=draws, **how), draws / 2)


def check_ratios(seed=0, *, method="interpolated"):
    """The ratio error of logits on the pattern in float64; at most 1e-10."""
    g = gen(seed)
    S, w = pattern(80, 4, g), torch.rand(80, 4, generator=g, dtype=DOUBLE) * 3
    keys, y = unit(80, 40, g), w - w.amin(1, keepdim=True) + 6
    q = (
        interpolate(keys, S, y)
        if method == "interpolated"
        else (y[:, None] @ keys[S]).squeeze(1)
    )
    return at_most(verify(Code(q, keys, 0.1, 0.5), S, w).ratio_error, 1e-10)


@pytest.mark.claim("expressive.interpolated", role="check")
@pytest.mark.parametrize(
    ("k", "n", "keys"),
    [
        (1, 256, "signs"),
        (1, 256, "sphere"),
        (2, 1200, "signs"),
        (4, 1600, "signs"),
        (2, 2500, "sphere"),
    ],
)
def test_interpolated(k, n, keys):
    assert check_interpolated(k, n=n, keys=keys, draws=6 if k == 1 else 3).value == 0
    assert all(check_ratios(seed).ok for seed in range(5))


@pytest.mark.claim("expressive.interpolated", role="control")
def test_interpolated_at_a_sixteenth():
    for k, n in ((1, 256), (2, 1200), (4, 1600)):
        assert check_interpolated(k, n=n, share=1 / 16, draws=3).ok is False
    assert (
        check_interpolated(2, n=2500, keys="sphere", share=1 / 24, draws=3).ok is False
    )
    assert check_ratios(method="plain").ok is False


def solve(a, b):
    """Fractions: x with a x = b, by elimination."""
    m = [list(row) + [value] for row, value in zip(a, b)]
    for i in range(len(m)):
        p = next(r for r in range(i, len(m)) if m[r][i])
        m[i], m[p] = m[p], m[i]
        m[i] = [v / m[i][i] for v in m[i]]
        m = [
            row if r == i else [v - row[i] * w for v, w in zip(row, m[i])]
            for r, row in enumerate(m)
        ]
    return [row[-1] for row in m]


@pytest.mark.claim("expressive.interpolated", role="witness")
def test_a_certified_instance():
    """Signs, n = 24, k = 2, d = 40, weights e^0 and e^1, T = 1, s = 3: in fractions the
    ratios are exact and every gap is at least T; the floats of the library agree to
    1e-12.
    """
    g, n, d = gen(11), 24, 40
    S, log_w = (
        pattern(n, 2, g),
        torch.tensor([[0.0, 1.0]], dtype=DOUBLE).expand(n, 2).contiguous(),
    )
    signs = torch.randint(0, 2, (n, d), generator=g) * 2 - 1
    keys, gaps = signs.tolist(), []

    def dot(a, b):
        return sum(x * y for x, y in zip(a, b))

    for row in S.tolist():
        gram = [[Fraction(dot(keys[a], keys[b]), d) for b in row] for a in row]
        a = solve(gram, [Fraction(3), Fraction(4)])
        logits = [
            sum(c * Fraction(dot(keys[j], keys[l]), d) for c, l in zip(a, row))
            for j in range(n)
        ]
        assert (logits[row[0]], logits[row[1]]) == (3, 4)  # ratios: zero error
        gaps.append(
            min(logits[row[0]] - v for j, v in enumerate(logits) if j not in row)
        )
    assert min(gaps) >= 1
    k = signs.double() / math.sqrt(d)
    report = verify(Code(interpolate(k, S, 3 + log_w), k, math.exp(-1), 0.5), S, log_w)
    assert report.passed and torch.allclose(
        report.rows[:, 1],
        torch.tensor([float(v) for v in gaps], dtype=DOUBLE),
        atol=1e-12,
    )


# --- how many pairs fail, and what that predicts


def check_expected(d=16, *, t=0.5, stretch=1.0):
    """Pairs of keys above t in 400 draws of 128 keys, off their expected number, in
    standard errors; at most 5.

    `stretch` of the first coordinate before the keys are made unit: another number than
    1 is not uniform.
    """
    k = torch.randn(400, 128, d, generator=gen(12), dtype=DOUBLE)
    k = torch.nn.functional.normalize(
        torch.cat([stretch * k[..., :1], k[..., 1:]], -1), dim=-1
    )
    counts = (torch.triu(k @ k.mT, 1) > t).sum((1, 2)).double()
    expected = 128 * 127 / 2 * cap(math.acos(t), d)
    return at_most((counts.mean() - expected).abs() / (counts.std() / 20), 5)


@pytest.mark.claim("expressive.expected", role="check")
@pytest.mark.parametrize("d", [3, 8, 16, 32])
def test_expected(d):
    assert check_expected(d).ok


@pytest.mark.claim("expressive.expected", role="control")
def test_expected_of_keys_that_are_not_uniform():
    assert check_expected(stretch=2.0).ok is False


@pytest.mark.claim("expressive.expected", role="witness")
def test_a_pair_breaks_both_of_its_rows():
    """The rows that fail are those whose wanted key is too close to another: literally,
    by verify.
    """
    g, S = gen(13), torch.randperm(100, generator=gen(13))[:, None]
    k = unit(100, 24, g)
    rows = verify(Code(2 * T * k[S[:, 0]], k, 0.1, 0.5), S).rows[:, 1]
    close = ((k @ k.T).fill_diagonal_(0) > 0.5).any(1)[S[:, 0]]
    assert torch.equal(rows < T, close) and 0 < int(close.sum()) < 100


def check_smallest(part="interpolated"):
    """Stored run: the worst relative distance of the smallest d from the predictor, or
    n, and of its slope over ln n from -4 / ln(1 - t^2 / k), without trivial d = n, at
    most 1/4; R^2 at most 0.95 counts as twice that. `part`: "plain" holds the
    projections, measured at the same eps1.
    """
    worst = 0.0
    for row in load_result("expressive")["result"][part]:
        n, y = torch.tensor(row["n"]).double(), torch.tensor(row["measured"]).double()
        wanted = [
            predicted_dimension(m, row["k"], eps1=0.1, s=row.get("level", 2) * T)
            for m in row["n"]
        ]
        wanted = torch.tensor([min(w, m) for w, m in zip(wanted, row["n"])])
        kept = (y < n) | (part == "plain")  # all of these are trivial
        x, line = n[kept].log(), y[kept]
        r = torch.corrcoef(torch.stack([x, line]))[0, 1]
        slope, t = r * line.std() / x.std(), 1 - 1 / row.get("level", 2)
        worst = max(worst, abs(float(slope) * math.log(1 - t * t / row["k"]) / -4 - 1))
        worst = max(
            worst, float((y / wanted - 1).abs().max()), 0.25 * (1 + float(r**2 <= 0.95))
        )
    return at_most(worst, 0.25)


@pytest.mark.claim("expressive.smallest", role="check")
def test_smallest():
    assert check_smallest().ok
    for row in load_result("expressive")["result"]["interpolated"]:
        assert row["n"] == [2**i for i in range(6, 13)]
        assert row["predicted"] == [
            predicted_dimension(n, row["k"], eps1=0.1, s=row["level"] * T)
            for n in row["n"]
        ]


@pytest.mark.claim("expressive.smallest", role="control")
def test_smallest_of_plain_projections():
    assert check_smallest("plain").ok is False


@pytest.mark.claim("expressive.smallest", role="witness")
def test_smallest_at_2_to_16():
    large = load_result("expressive")["result"]["large"]
    assert large["n"] == 2**16 and large["predicted"] == 132 == predicted_dimension(
        2**16, 1, eps1=0.1, s=2 * T
    )
    assert (
        any(large["passed"].values())
        and not all(large["passed"].values())
        and large["integer"]["passed"]
    )


# --- mass on the zeros


def check_leak(d=34, s=4 * T, *, normal=False):
    """Mean odds of 4096 rows over the formula, or over that of normal inner products;
    off by at most 2%.
    """
    g, n = gen(14), 4096
    k, S = unit(n, d, g).float(), torch.randperm(n, generator=g)[:, None]
    odds = verify(Code(s * k[S[:, 0]], k, 0.1, 0.5), S).rows[:, 2].double().mean()
    wanted = (
        (n - 1) * math.exp(s * s / (2 * d) - s) if normal else expected_leak(n, d, s)
    )
    return at_most((odds / wanted - 1).abs(), 0.02)


@pytest.mark.claim("expressive.leak", role="check")
@pytest.mark.parametrize(("d", "s"), [(34, 4 * T), (96, 2 * T), (34, 2 * T)])
def test_leak(d, s):
    assert check_leak(d, s).ok


@pytest.mark.claim("expressive.leak", role="control")
def test_leak_of_normal_products():
    assert check_leak(34, 4 * T, normal=True).ok is False


@pytest.mark.claim("expressive.leak", role="witness")
def test_the_series_is_the_bessel_function():
    import mpmath

    for d, s in ((2, 1.0), (34, 9.2), (34, 20.0), (96, 4.6)):
        bessel = (
            mpmath.gamma(d / 2)
            * (2 / mpmath.mpf(s)) ** (d / 2 - 1)
            * mpmath.besseli(d / 2 - 1, s)
        )
        assert expected_leak(1001, d, s) == pytest.approx(
            float(1000 * mpmath.exp(-s) * bessel), rel=1e-12
        )


# --- precision, rank, tiles


def check_rounding(*, bits=8, claimed=8):
    """The largest move of a logit when coordinates keep `bits` significant bits, over
    the bound for `claimed` bits.
    """
    g = gen(15)
    q, k = 9 * unit(60, 20, g), unit(60, 20, g)

    def keep(x):
        return torch.ldexp(
            torch.round(torch.ldexp(torch.frexp(x).mantissa, torch.tensor(bits))),
            torch.frexp(x).exponent - bits,
        )

    u = 2.0**-claimed
    move = (keep(q) @ keep(k).T - q @ k.T).abs() / (
        q.norm(dim=1)[:, None] * k.norm(dim=1)
    )
    return at_most(move.max() / (2 * u + u * u), 1 + 1e-9)


@pytest.mark.claim("expressive.rounding", role="check")
def test_rounding():
    assert all(check_rounding(bits=bits, claimed=bits).ok for bits in (2, 4, 8, 11, 24))


@pytest.mark.claim("expressive.rounding", role="control")
def test_rounding_to_fewer_bits():
    assert check_rounding(bits=4).ok is False


@pytest.mark.claim("expressive.rounding", role="witness")
def test_sixteen_bits_hold_random_keys_and_not_a_circle():
    g, n = gen(16), 256
    S = ((torch.arange(n) + 1) % n)[:, None]
    random = fit(S, d=83, eps1=0.1, eps2=0.5, s=4 * T, dtype=DOUBLE, generator=g)
    angle = 2 * math.pi * torch.arange(n, dtype=DOUBLE) / n
    circle = torch.stack([angle.cos(), angle.sin()], 1)
    around = Code(
        T / (1 - math.cos(2 * math.pi / n)) * circle.roll(-1, 0), circle, 0.1, 0.5
    )
    assert verify(around, S).margin == pytest.approx(T, abs=1e-9)
    short = [
        replace(c, q=c.q.bfloat16().double(), k=c.k.bfloat16().double())
        for c in (random, around)
    ]
    assert verify(short[0], S).passed and verify(short[1], S).margin < 0


def check_rank(eps1=1e-6, *, s=40.0):
    """1 - sigma_min of the attention with logits of rank 48 at level s, n = 256; at
    most 2 (n - 1) eps1 (1 + 1e-9).
    """
    g, n = gen(17), 256
    S = torch.randperm(n, generator=g)[:, None]
    code = fit(S, d=48, eps1=eps1, eps2=0.5, s=40.0, dtype=DOUBLE, generator=g)
    assert torch.linalg.matrix_rank(code.q @ code.k.T) == 48
    M = torch.softmax(code.q @ code.k.T * s / 40, 1)
    return at_most(1 - torch.linalg.svdvals(M)[-1], 2 * (n - 1) * eps1 * (1 + 1e-9))


@pytest.mark.claim("expressive.rank", role="check")
def test_rank():
    assert check_rank().ok


@pytest.mark.claim("expressive.rank", role="control")
def test_rank_at_a_low_level():
    assert check_rank(s=2.0).ok is False


@pytest.mark.claim("expressive.rank", role="witness")
def test_rank_of_two_by_two():
    """M = (1, e; e, 1) / (1 + e), e = eps1: sigma_min = (1 - e) / (1 + e) >= 1 - 2 e,
    exactly.
    """
    e = Fraction(1, 10)
    assert (1 - e) / (1 + e) >= 1 - 2 * e


def check_tiles(tile=(64, 100), *, shift=0, seed=0):
    """Gaps and log odds by tiles against the full matrix, with the pattern moved by
    `shift` rows; tolerance 1e-12.
    """
    g, n = gen(seed), 333
    S = pattern(n, 3, g)
    S[5, 1:], S[6, 0] = -1, -1
    q, k = 5 * torch.randn(n, 7, generator=g, dtype=DOUBLE), unit(n, 7, g)
    rows, logits, support = (
        verify(Code(q, k, 0.1, 0.5), S.roll(shift, 0), tile=tile).rows,
        q @ k.T,
        on(S),
    )
    odds = logits.masked_fill(support, -math.inf).logsumexp(1) - logits.masked_fill(
        ~support, -math.inf
    ).logsumexp(1)
    return at_most(
        torch.maximum(
            (rows[:, 1] - dense_gap(logits, S)).abs().max(),
            (rows[:, 2].log() - odds).abs().max(),
        ),
        1e-12,
    )


def check_integers(k=3, d=257, *, scale=1.0):
    """Gaps of integer codes against Python integers; `scale` multiplies keys and
    divides the logits back. Zero means zero.
    """
    g, n = gen(18), 70
    S = pattern(n, k, g)
    signs = torch.randint(0, 2, (n, d), generator=g, dtype=torch.int8) * 2 - 1
    q = sum(signs[c] for c in S.T)
    code = (
        Code(q, signs, 0.1, 0.5)
        if scale == 1
        else Code(q * scale, signs.float(), 0.1, 0.5, 1 / scale)
    )
    got = verify(code, S, tile=(16, 30)).rows[:, 1].double().tolist()
    keys, queries = signs.tolist(), q.tolist()
    exact = []
    for row, wanted in zip(queries, S.tolist()):
        logits = [sum(a * b for a, b in zip(row, key)) for key in keys]
        exact.append(
            min(logits[j] for j in wanted)
            - max(v for j, v in enumerate(logits) if j not in wanted)
        )
    return at_most(max(abs(a - b) for a, b in zip(got, exact)), 0)


def check_allowance(size=1014.0):
    """How far the exact gap of a code that passes lies below ln 10: 2.29 is, and 32-bit
    sums may round it up above ln 10.
    """
    eye, first = torch.eye(4), torch.full((4, 1), size)
    code, S = (
        Code(torch.cat([first, 2.29 * eye], 1), torch.cat([first, eye], 1), 0.1, 0.5),
        torch.arange(4)[:, None],
    )
    exact = verify(replace(code, q=code.q.double(), k=code.k.double()), S)
    assert exact.margin < T < verify(code, S).margin
    return at_most(T - exact.margin if verify(code, S).passed else 0.0, 0)


def test_no_code_passes_by_rounding():
    assert check_allowance().ok


@pytest.mark.claim("expressive.tiles", role="check")
@pytest.mark.parametrize("tile", [(64, 100), (1, 333), (400, 7), (333, 333)])
def test_tiles(tile):
    assert check_tiles(tile).ok
    assert check_integers().ok and check_integers(1, 64).ok


@pytest.mark.claim("expressive.tiles", role="control")
def test_tiles_of_another_pattern():
    assert check_tiles(shift=1).ok is False
    assert check_integers(scale=1 / 9).ok is False


@pytest.mark.claim("expressive.tiles", role="witness")
def test_integer_codes_pass():
    g = gen(19)
    for k in (1, 2):
        S = torch.randperm(64, generator=g)[:, None] if k == 1 else pattern(64, k, g)
        code = fit(S, eps1=0.5, eps2=0.9, method="integer", generator=g)
        assert code.q.dtype == torch.int8 and verify(code, S).passed
