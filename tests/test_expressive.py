"""The room expressive: kernels against literal twins, gradients, memory,
and bad input.
"""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from dataclasses import replace

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_sparse_patterns import Largest
from torch.nn.functional import normalize

from attnbook import figures
from attnbook.data import load_result
from attnbook.figures import expressive as draw
from attnlib.expressive import (
    Code,
    Exhausted,
    Verification,
    dimensions,
    fit,
    fitting,
    interpolate,
    redraw,
    verification,
    verify,
)
from attnlib.expressive.dimensions import (
    cap,
    expected_leak,
    interpolated_dimension,
    interpolated_lines,
    plain_dimension,
    predicted_dimension,
)

DOUBLE, T = torch.float64, math.log(10)
EASY = {"eps1": 0.1, "eps2": 0.5}


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def ragged(n, k, g):
    """Random rows of 1..k columns, -1 in any place."""
    columns = torch.rand(n, n, generator=g).topk(k).indices
    drop = torch.rand(n, k, generator=g) < 0.4
    drop[torch.arange(n), torch.randint(k, (n,), generator=g)] = False
    return columns.masked_fill(drop, -1), torch.rand(n, k, generator=g, dtype=DOUBLE)


def literal(q, k, columns, log_weights):
    """Row by row from the definition: ratio error, gap and odds, with all logits at
    once.
    """
    rows = []
    for i, row in enumerate(columns.tolist()):
        logits = (k @ q[i]).tolist()
        on = [j for j in row if j >= 0]
        off = [v for j, v in enumerate(logits) if j not in on]
        rest = [logits[j] - float(w) for j, w in zip(row, log_weights[i]) if j >= 0]
        least = min(logits[j] for j in on)
        odds = sum(map(math.exp, off)) / sum(math.exp(logits[j]) for j in on)
        rows.append([max(rest) - min(rest), least - max(off, default=-math.inf), odds])
    return torch.tensor(rows, dtype=DOUBLE)


@given(
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(1, 13),
    st.integers(1, 13),
    st.integers(0, 10**6),
)
def test_tiles_are_the_definition(n, k, d, high, wide, seed):
    g = gen(seed)
    S, w = ragged(n, min(k, n), g)
    q, keys = torch.randn(2, n, d, generator=g, dtype=DOUBLE)
    report = verify(Code(q, keys, 0.1, 0.5), S, w, tile=(high, wide))
    wanted = literal(q, keys, S, w)
    finite = wanted.isfinite()
    assert torch.equal(report.rows.isfinite(), finite)
    assert torch.allclose(report.rows[finite], wanted[finite], rtol=1e-12, atol=1e-12)
    assert (
        report.margin == report.rows[:, 1].min()
        and report.ratio_error == report.rows[:, 0].max()
    )
    assert 0 < report.rounding < 1e-11  # of float64
    if (
        min(abs(report.margin - T), abs(report.ratio_error - math.log(1.5)))
        > report.rounding
    ):
        assert report.passed == (
            report.margin >= T and report.ratio_error <= math.log(1.5)
        )
    odds = float(wanted[:, 2].max())
    assert report.leak == pytest.approx(odds / (1 + odds), rel=1e-12)


def test_interpolate_is_the_pseudoinverse_with_its_gradient():
    g = gen(1)
    S, w = ragged(8, 3, g)
    keys = torch.randn(8, 5, generator=g, dtype=DOUBLE, requires_grad=True)

    def twin(keys):
        rows = []
        for i in range(8):
            kept = S[i] >= 0
            rows.append(torch.linalg.pinv(keys[S[i][kept]]) @ w[i][kept])
        return torch.stack(rows)

    got, wanted = interpolate(keys, S, w), twin(keys)
    assert torch.allclose(got, wanted, atol=1e-12)
    (a,), (b,) = (
        torch.autograd.grad(out.sin().sum(), keys, retain_graph=True)
        for out in (got, wanted)
    )
    assert torch.allclose(a, b, atol=1e-10)


def test_what_is_shortest_lies_in_the_span_of_its_keys():
    g = gen(2)
    keys, S = (
        torch.randn(6, 9, generator=g, dtype=DOUBLE),
        torch.tensor([[0, 3], [1, 2]]),
    )
    q = interpolate(keys, S, torch.tensor([[1.0, 2.0], [3.0, 0.0]], dtype=DOUBLE))
    for row, columns in zip(q, S):
        stacked = torch.cat([keys[columns], row[None]])
        assert torch.linalg.matrix_rank(stacked, atol=1e-9) == 2


def test_dependent_keys_are_a_failed_draw():
    keys = torch.ones(4, 3, dtype=DOUBLE)
    assert (
        interpolate(keys, torch.tensor([[0, 1]]), torch.ones(1, 2, dtype=DOUBLE))
        .isnan()
        .all()
    )
    report = verify(Code(keys, keys, 0.1, 0.5), torch.tensor([[0], [1], [2], [3]]))
    assert not report.passed and report.margin == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fit_in_each_dtype_and_device(dtype, device):
    g = gen(3)
    S, w = ragged(300, 3, g)
    code = fit(S.to(device), w.to(device, dtype), generator=g, **EASY)
    assert code.q.dtype == code.k.dtype == dtype and code.q.device.type == device.type
    report = verify(code, S.to(device), w.to(device, dtype))
    assert report.passed and report.ratio_error < (
        1e-4 if dtype == torch.float32 else 1e-12
    )
    whole = fit(
        S[:, :1].clamp_min(0).to(device),
        method="integer",
        generator=g,
        **EASY,
    )
    assert (
        whole.q.dtype == torch.int8
        and verify(whole, S[:, :1].clamp_min(0).to(device)).passed
    )
    assert whole.x.dtype == torch.float32 and whole.w_q.shape == (
        2 * whole.q.shape[1],
        whole.q.shape[1],
    )


@pytest.mark.cuda
def test_tiles_on_a_gpu(device):
    if device.type != "cuda":
        pytest.skip("the same as above without a GPU")
    g = gen(4)
    S = torch.rand(2000, 2000, generator=g).topk(4).indices
    signs = torch.randint(0, 2, (2000, 256), generator=g, dtype=torch.int8) * 2 - 1
    code = Code(sum(signs[c] for c in S.T), signs, 0.1, 0.5)
    there = verify(
        replace(code, q=code.q.to(device), k=code.k.to(device)),
        S.to(device),
    )
    assert torch.equal(
        there.rows[:, 1].cpu(), verify(code, S).rows[:, 1]
    )  # exact on both


def test_integers_are_exact_in_every_tile():
    g = gen(5)
    S = torch.rand(50, 50, generator=g).topk(2).indices
    signs = torch.randint(0, 2, (50, 33), generator=g, dtype=torch.int8) * 2 - 1
    code = Code(sum(signs[c] for c in S.T), signs, 0.1, 0.5, 0.25)
    rows = verify(code, S).rows
    assert torch.equal(verify(code, S, tile=(7, 11)).rows, rows)
    plain = literal(code.q.double() / 4, code.k.double(), S, torch.zeros(50, 2))
    assert (
        torch.allclose(rows[:, :2], plain[:, :2], atol=1e-12)
        and (rows[:, 2] >= plain[:, 2]).all()
    )


def test_integers_in_one_dimension():
    q = torch.tensor([[3], [-2], [5]], dtype=torch.int8)
    code = Code(q, torch.tensor([[1], [-1], [1]], dtype=torch.int8), 0.1, 0.5)
    rows = verify(code, torch.tensor([[0, 2], [1, -1], [0, 2]])).rows
    assert rows[:, 1].tolist() == [6, 4, 10] and rows[:, 0].tolist() == [0, 0, 0]
    wanted = [math.exp(-6) / 2, 2 * math.exp(-4), math.exp(-10) / 2]
    assert rows[:, 2].tolist() == pytest.approx(wanted)


def test_large_logarithms_keep_their_difference():
    w = torch.tensor([[1e8, 1e8 + 3]], dtype=DOUBLE).expand(2, 2)
    code = Code(torch.tensor([[5.0, 5.0], [5.0, 5.0]]), torch.eye(2), 0.1, 0.5)
    S = torch.tensor([[0, 1], [0, 1]])
    assert verify(code, S, w).ratio_error == 3 and not verify(code, S, w).passed
    fitted = fit(S, w, dtype=torch.float32, generator=gen(), **EASY)
    logits = fitted.q @ fitted.k.T
    assert fitted.q.dtype == torch.float32 and torch.allclose(
        logits[:, 1] - logits[:, 0], torch.tensor(3.0)
    )


def cancelling(size, dtype):
    """q_i . k_j = size^2 + 2.29 if i = j: the gap 2.29 is below ln 10, but floats may
    round it up.
    """
    n, eye = 4, torch.eye(4)
    first = torch.full((n, 1), float(size))
    return Code(
        torch.cat([first, 2.29 * eye], 1).to(dtype),
        torch.cat([first, eye], 1).to(dtype),
        0.1,
        0.5,
    )


@pytest.mark.parametrize(
    ("size", "dtype"),
    [(1014, torch.float32), (64, torch.float16), (64, torch.bfloat16)],
)
def test_a_gap_that_is_rounded_up_does_not_pass(size, dtype):
    code, S = cancelling(size, dtype), torch.arange(4)[:, None]
    exact = verify(replace(code, q=code.q.double(), k=code.k.double()), S)
    report = verify(code, S)
    assert exact.margin < T and not exact.passed and not report.passed
    assert abs(report.margin - exact.margin) <= report.rounding + exact.rounding
    assert dtype == torch.float32 or report.margin == pytest.approx(
        exact.margin, abs=1e-2
    )  # read into 32 bits
    assert (
        dtype != torch.float32 or report.margin > T
    )  # this is what the allowance is for


@given(st.integers(1, 40), st.floats(0.1, 300), st.integers(0, 10**6))
def test_the_allowance_covers_the_rounding(d, size, seed):
    g = gen(seed)
    q, k = size * torch.randn(20, d, generator=g), torch.randn(20, d, generator=g)
    S = torch.rand(20, 20, generator=g).topk(3).indices
    w = torch.rand(20, 3, generator=g, dtype=DOUBLE)
    got, exact = (
        verify(Code(q, k, 0.1, 0.5), S, w),
        verify(Code(q.double(), k.double(), 0.1, 0.5), S, w),
    )
    assert (
        got.rows[:, :2].double() - exact.rows[:, :2]
    ).abs().max() <= got.rounding + exact.rounding


@pytest.mark.parametrize("factor", [0.1, 1.0])
def test_the_allowance_covers_what_underflows(factor):
    """Five times the least number that a float may be, times keys that round it."""
    q = torch.full((2, 3), 7e-45)
    k = factor * torch.tensor([[1.3, 1.7, 4.1], [0.0, 0.0, 0.0]])
    S = torch.zeros(2, 1, dtype=torch.int64)
    report = verify(Code(q, k, 0.1, 0.5), S)
    exact = verify(Code(q.double(), k.double(), 0.1, 0.5), S)
    off = abs(report.margin - exact.margin)
    assert 0 < off <= report.rounding < 1e-35


@pytest.mark.parametrize(
    ("q", "k", "scale"),
    [(3e-23, 1e-23, 1e6), (1e-36, 1e20, 1e-10)],
    ids=["the product is lost, then scaled", "what is scaled is lost, then multiplied"],
)
def test_the_allowance_covers_what_a_scale_makes_of_it(q, k, scale):
    q, k = torch.tensor([[q]] * 2), torch.tensor([[k], [0.0]])
    S = torch.zeros(2, 1, dtype=torch.int64)
    wide = verify(Code(q.double(), k.double(), 0.1, 0.5, scale), S)
    report = verify(Code(q, k, 0.1, 0.5, scale), S)
    assert abs(report.margin - wide.margin) <= report.rounding
    *_, rounding = verification._logits(q, k, scale)
    lost = float(q[0, 0].double() * k[0, 0].double() * scale)
    assert lost <= rounding.min() < 1e-10


@pytest.mark.parametrize("support", [[0, 1], [1, 2]])
def test_ratios_are_held_to_what_rounding_leaves(support):
    """Whichever keys a row reads, the first of all among them."""
    q = torch.ones(3, 1)
    k = torch.full((3, 1), -40.0)
    k[support, 0] = torch.tensor([1.0, 1.1])
    S = torch.tensor([support] * 3)
    found = verify(Code(q, k, 0.1, 0.5), S)
    half = found.ratio_error + found.rounding / 2
    assert not verify(Code(q, k, 0.1, math.expm1(half)), S).passed
    assert verify(Code(q, k, 0.1, math.expm1(half + found.rounding)), S).passed


def test_nothing_is_promised_where_rounding_may_be_as_large_as_the_logits():
    """(d + 16) eps = 1: a sum of so many products may be off by any number."""
    q = torch.ones(1, 2**23 - 16)
    _, _, rounding = verification._logits(q, q, 1.0)
    assert rounding.tolist() == [math.inf]
    found = verify(Code(q, q, 0.1, 0.5), torch.tensor([[0]]))
    assert found.rounding == math.inf and not found.passed


def test_ratios_that_only_rounding_spoils():
    g = gen(12)
    S = torch.rand(64, 64, generator=g).topk(2).indices
    with pytest.raises(
        Exhausted,
        match="rounding up to .*If that is what fails, take dtype=torch.float64",
    ):
        fit(S, eps1=0.1, eps2=1e-9, restarts=2, generator=g)
    assert verify(fit(S, eps1=0.1, eps2=1e-9, dtype=DOUBLE, generator=g), S).passed


@pytest.mark.parametrize(("d", "said"), [(55, 64), (4, 55)])
def test_advice_after_a_failure_asks_for_more(monkeypatch, d, said):
    """A draw may fail at a dimension that is expected to do; then the advice is a
    larger one, up to n.
    """
    S = torch.arange(64)[:, None]
    nothing = torch.zeros(64, d)
    monkeypatch.setattr(fitting, "_draw", lambda *given: (nothing, nothing, 1.0))
    with pytest.raises(Exhausted, match=f"d = {said} is expected"):
        fit(S, d=d, restarts=1, generator=gen(), **EASY)


def test_codes_with_gradients_are_read():
    q = (9 * torch.eye(3)).requires_grad_()
    report = verify(
        Code(q, torch.eye(3).requires_grad_(), 0.1, 0.5), torch.arange(3)[:, None]
    )
    assert report.passed and not report.rows.requires_grad


def test_enough_dimensions_need_no_luck():
    g = gen(6)
    S, w = ragged(30, 5, g)
    for d in (30, 41):
        code = fit(S, w, d=d, restarts=1, generator=g, **EASY)
        assert verify(code, S, w).passed and torch.equal(
            code.k, torch.eye(30, d, dtype=DOUBLE)
        )
    assert fit(S, w, eps1=1e-9, eps2=0.01, generator=g).q.shape[1] <= 30


def test_one_token_and_full_rows():
    code = fit(torch.zeros(1, 1, dtype=torch.int64), generator=gen(), **EASY)
    report = verify(code, torch.zeros(1, 1, dtype=torch.int64))
    assert report.passed and report.margin == math.inf
    assert report.ratio_error == report.leak == 0
    full = torch.arange(4).expand(4, 4).contiguous()
    report = verify(fit(full, generator=gen(), **EASY), full)
    assert report.passed and report.margin == math.inf and report.leak == 0


def test_a_level_that_floats_cannot_exponentiate():
    """Gaps of thousands, as codes in two dimensions have: odds overflow honestly, gaps
    do not.
    """
    k = torch.eye(3, dtype=torch.float32)
    report = verify(
        Code(1e4 * k.roll(1, 0), k, 0.1, 0.5), torch.tensor([[0], [1], [2]])
    )
    assert report.margin == pytest.approx(-1e4) and report.leak == 1.0
    report = verify(Code(1e4 * k, k, 0.1, 0.5), torch.tensor([[0], [1], [2]]))
    assert report.margin == pytest.approx(1e4) and report.leak == 0.0


def test_nothing_is_lost_when_the_restarts_are_used_up():
    g = gen(7)
    S = torch.rand(100, 100, generator=g).topk(2).indices
    with pytest.raises(
        Exhausted,
        match=r"none of 3 draws passed; the best, at d = 4, .*needed 2.303.*"
        r"d = \d+ is expected",
    ) as found:
        fit(S, d=4, restarts=3, generator=g, **EASY)
    assert isinstance(
        found.value.report, Verification
    ) and found.value.code.q.shape == (
        100,
        4,
    )
    assert (
        torch.equal(verify(found.value.code, S).rows, found.value.report.rows)
        and found.value.report.margin < T
    )


def test_the_draw_that_comes_nearest_is_kept(monkeypatch):
    """Row i asks for key 0 and is q_i above all others, by chance the second time more;
    the first draw fails in its last row.
    """
    columns = torch.zeros(1025, 1, dtype=torch.int64)
    k = torch.zeros(1025, 1)
    k[0] = 1
    first = torch.full_like(k, 2.0)
    first[-1] = -5
    second = torch.full_like(k, 1.5)
    draws = iter([first, second, first])
    monkeypatch.setattr(fitting, "_draw", lambda *given: (next(draws), k, 1.0))
    with pytest.raises(Exhausted) as found:
        fit(columns, d=1, restarts=3, generator=gen(), **EASY)
    assert torch.equal(found.value.code.q, second)
    assert found.value.report.margin == 1.5


def test_keys_without_a_query_are_a_failed_draw(monkeypatch):
    """Rows of equal keys have none."""
    equal = torch.eye(1, 2).expand(3, 2)
    monkeypatch.setattr(fitting, "_keys", lambda *given: equal)
    S = torch.tensor([[0, 1], [1, 2], [2, 0]])
    with pytest.raises(Exhausted) as found:
        fit(S, d=2, restarts=1, generator=gen(), **EASY)
    assert (found.value.code.q == 0).all()
    assert found.value.report.margin == 0


def share(theta, d):
    """sigma_d(theta) by I_m = ((m - 1) I_{m-2} - sin^{m-1} cos) / m for the integral of
    sin^m, with digits enough for what cancels.
    """
    with mpmath.workdps(1500):
        sine = mpmath.sin(theta)
        cosine = mpmath.cos(theta)
        part = 1 - cosine if d % 2 else mpmath.mpf(theta)
        whole = 2 if d % 2 else mpmath.pi
        for m in range(2 + d % 2, d - 1, 2):
            part = ((m - 1) * part - sine ** (m - 1) * cosine) / m
            whole = (m - 1) * whole / m
        return float(part / whole)


@pytest.mark.parametrize("theta", [0.01, 0.4, 1.0, 1.5, 2.0, 3.1])
def test_caps_by_their_recurrence(theta):
    for d in (2, 3, 4, 8, 24, 95, 200, 700):
        assert cap(theta, d) == pytest.approx(share(theta, d), rel=1e-12, abs=1e-300)


def test_caps_by_hand():
    assert [cap(theta, 1) for theta in (0.0, 1.0, math.pi)] == [0.5, 0.5, 1.0]
    halves = [cap(theta, 9) for theta in (0.0, math.pi / 2, math.pi)]
    assert halves == pytest.approx([0, 0.5, 1], rel=1e-14)
    # Near the equator a cap grows by Gamma(d / 2) / (sqrt(pi) Gamma((d - 1) / 2)).
    rate = math.exp(math.lgamma(5) - math.lgamma(4.5)) / math.sqrt(math.pi)
    off = 0.5 - cap(math.pi / 2 - 1e-6, 10)
    assert off == pytest.approx(rate * 1e-6, rel=1e-9)


def test_the_leak_by_hand():
    """E e^(s u) is cosh s in one dimension and sinh(s) / s in three."""
    for s in (0.5, 4.0, 30.0, 800.0):
        assert expected_leak(11, 1, s) == pytest.approx(5 + 5 * math.exp(-2 * s))
        mean = -5 * math.expm1(-2 * s) / s
        assert expected_leak(11, 3, s) == pytest.approx(mean, rel=1e-12)


def test_the_guess_for_unequal_weights():
    """All queries have one angle to a level, and there are n (n - 2) zeros: the least d
    with 0.1 conflicts.
    """
    n = 1000
    columns = torch.arange(2).expand(n, 2)
    log_weights = torch.tensor([0.0, 1.0], dtype=DOUBLE).expand(n, 2)
    s = 4 * T
    angle = math.acos((s - T) / math.hypot(s, s + 1))
    d = 1
    while n * (n - 2) * cap(angle, d) > 0.1:
        d += 1
    got = fitting._guess(columns, log_weights, "interpolated", 0.1, 0.5, s)
    assert got == d < n


def test_the_smallest_dimension_may_attain_the_goal():
    """12 / d is at most 3 from d = 4 on, and at most 12 at once."""
    goals = {12.0: 1, 6.0: 2, 3.0: 4, 2.9: 5, 2.0: 6}
    for goal, d in goals.items():
        assert dimensions._smallest(lambda d: 12 / d, goal) == d


def test_dimensions_by_hand():
    for power, d in ((6, 40), (12, 95), (16, 132)):
        assert predicted_dimension(2**power, 1, eps1=0.1, s=2 * T) == d
    for power, d in ((6, 81), (12, 187)):
        assert predicted_dimension(2**power, 4, eps1=0.1, s=4 * T) == d
    assert interpolated_lines(100, 1).others == pytest.approx(8 * math.log(20000))
    for k, d in ((1, 17542), (2, 34737), (4, 68991)):
        assert plain_dimension(64, k, gamma=4, eps1=0.1, eps2=0.5) == d


@pytest.mark.parametrize(
    ("n", "k", "keys", "d", "binding"),
    [
        (256, 1, "signs", 95, "others"),
        (1200, 2, "signs", 499, "others"),
        (1200, 2, "sphere", 499, "others"),
        (4096, 8, "signs", 2307, "others"),
        (4096, 8, "sphere", 4532, "net"),
        (64, 6, "sphere", 1790, "pairs"),
        (64, 9, "signs", 1998, "net"),
    ],
)
def test_the_line_that_binds(n, k, keys, d, binding):
    """Numbers by hand, and by the chances of failure that the lines are to pay for."""
    assert interpolated_dimension(n, k, keys=keys) == d
    assert interpolated_lines(n, k, keys=keys).binding == binding
    if k == 1 or binding == "net":
        return
    rate, events = {
        "others": (1 / (16 * k), n**2),
        "pairs": (1 / (8 * (k - 1) ** 2), 2 * n * math.comb(k, 2)),
    }[binding]
    assert events * math.exp(-rate * d) <= 0.25 < events * math.exp(-rate * (d - 1))


# --- redrawing


def settle_by_all_pairs(k, columns, y, draw, gap, limit, whole):
    """The rule of redraw.settle with an n x n table of logits, all of it anew in each
    round, and loops.
    """
    k = k.clone()
    for rounds in itertools.count():
        q = interpolate(k, columns, y)
        logits, touched, left = (q @ k.T).tolist(), set(), 0
        for i, row in enumerate(columns.tolist()):
            own = {c for c in row if c >= 0}
            worst = max(
                (j for j in range(len(k)) if j not in own), key=lambda j: logits[i][j]
            )
            conflict = not min(logits[i][j] for j in own) - logits[i][worst] >= gap
            if whole:
                alone = any(
                    abs(float(k[a] @ k[b])) > 1 / (2 * len(row))
                    for a, b in itertools.combinations(own, 2)
                )
            else:
                alone = conflict and float(q[i] @ q[i]) > 4 * float(y[i] @ y[i])
            if conflict or alone:
                left += 1
                keys = own if alone else own | {worst}
                if not keys & touched:
                    touched |= keys if whole or alone else {worst}
        if not left or rounds == limit:
            break
        k[sorted(touched)] = draw(len(touched))
    return q, k, rounds, left


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("n", "k", "d", "wide", "seed"),
    [
        (4, 3, 3, 9, 0),
        (7, 1, 3, 2, 1),
        (16, 2, 6, 3, 2),
        (24, 3, 12, 9, 3),
        (24, 2, 20, 7, 4),
    ],
)
def test_redrawing_is_the_rule_with_all_pairs(monkeypatch, n, k, d, wide, whole, seed):
    monkeypatch.setattr(redraw, "TILE", 5 * wide)
    g = gen(seed)
    S, w = ragged(n, k, g)
    y, first = (
        (w + 2) * (S >= 0),
        normalize(torch.randn(n, d, generator=g, dtype=DOUBLE), dim=1),
    )

    def draws():
        """The same keys, whenever one begins anew."""
        own = gen(seed)
        return lambda m: normalize(
            torch.randn(m, d, generator=own, dtype=DOUBLE), dim=1
        )

    rule = {"gap": 1.0, "limit": 6, "whole": whole}
    q, keys, *counts = settle_by_all_pairs(first, S, y, draws(), **rule)
    q2, keys2, *counts2 = redraw.settle(first, S, y, draw=draws(), **rule)
    assert torch.equal(keys, keys2)
    assert torch.allclose(q, q2, atol=1e-9)
    assert counts == counts2


@pytest.mark.parametrize(("product", "left"), [(0.25, 0), (-0.25, 0), (0.26, 2)])
def test_two_keys_of_a_row_may_lean_on_each_other_by_a_quarter(product, left):
    """k = 2, so that 1 / (2 k) is a quarter; nothing else is off the pattern."""
    k = torch.tensor([[1, 0], [product, (1 - product**2) ** 0.5]], dtype=DOUBLE)
    columns = torch.tensor([[0, 1], [1, 0]])
    how = {"draw": lambda m: k[:m], "gap": 1.0, "limit": 0}
    found = redraw.settle(k, columns, torch.ones_like(k), whole=True, **how)
    assert found.left == left


def counted_redraws(n, d, seed=0):
    """Events of a permutation with levels of two gaps that are drawn anew, two keys
    each.
    """
    g = gen(seed)
    S = torch.randperm(n, generator=g)[:, None]
    y = torch.full((n, 1), 2.0, dtype=DOUBLE)
    counts = []

    def draw(m):
        counts.append(m // 2)
        return normalize(torch.randn(m, d, generator=g, dtype=DOUBLE), dim=1)

    rule = {"gap": 1.0, "limit": 100, "whole": True}
    first = normalize(torch.randn(n, d, generator=g, dtype=DOUBLE), dim=1)
    redraw.settle(first, S, y, draw=draw, **rule)
    return sum(counts)


def test_redraws_against_what_the_theorem_expects():
    """(11.3) for k = 1; the theorem holds at d = 118 with 100 tokens, and at 5 not."""
    n = 100
    most = n / 3 + n**2 / (4 * n - 1)
    assert counted_redraws(n, 118) <= 1
    assert 0 < counted_redraws(n, 44) <= most
    assert counted_redraws(n, 5) > most


def test_random_projections_are_unbiased():
    """The mean of 200 draws stays within 5.7 standard errors of B in all 576
    entries.
    """
    g = gen(7)
    S = torch.rand(24, 24, generator=g).topk(2).indices
    how = {"d": 32, "eps1": 0.1, "eps2": 0.5, "method": "plain", "restarts": 1}
    drawn = []
    for _ in range(200):
        try:
            code = fit(S, dtype=DOUBLE, generator=g, **how)
        except Exhausted as failure:
            code = failure.code
        drawn.append(code.q @ code.k.T)
    logits = torch.stack(drawn)
    B = torch.zeros(24, 24, dtype=DOUBLE).scatter(1, S, math.log(15))
    off = (logits.mean(0) - B).abs() / (logits.std(0) / math.sqrt(200))
    assert float(off.max()) < 5.7


def test_redrawing_serves_and_repeats_itself(device):
    for dtype in (torch.float32, DOUBLE):
        g = gen(3)
        S, w = ragged(300, 3, g)
        S, w = S.to(device), w.to(device, dtype)
        codes = [fit(S, w, method="redraw", generator=gen(4), **EASY) for _ in range(2)]
        report = verify(codes[0], S, w)
        assert report.passed and report.ratio_error < (
            1e-4 if dtype == torch.float32 else 1e-12
        )
        assert (
            codes[0].q.dtype == dtype
            and codes[0].q.device.type == device.type
            and torch.equal(codes[0].k, codes[1].k)
        )
        assert codes[0].q.shape[1] < fit(S, w, generator=g, **EASY).q.shape[1]
        assert (codes[0].k.norm(dim=1) - 1).abs().max() < 1e-6


@pytest.mark.parametrize(
    "words",
    [
        {"keys": "signs"},
        {"keys": "gaussian"},
        {"dtype": torch.bfloat16},
        {"dtype": torch.float16},
    ],
)
def test_redrawing_other_keys(words):
    g = gen(5)
    S = (torch.randperm(200, generator=g)[:, None] + torch.tensor([0, 9])) % 200
    code = fit(S, d=90, method="redraw", generator=g, **EASY, **words)
    assert verify(code, S).passed and (
        "signs" not in words.values() or code.k.abs().unique().numel() == 1
    )


def test_keys_that_lie_together_are_redrawn():
    """Two equal keys in a row have no query, and nearly equal ones a long one: both are
    redrawn, or nothing would end.
    """
    g = gen(6)
    S = (torch.arange(40)[:, None] + torch.tensor([0, 1])) % 40

    def draw(m):
        return normalize(torch.randn(m, 40, generator=g, dtype=DOUBLE), dim=1)

    y = torch.tensor([[4.0, 5.0]], dtype=DOUBLE).expand(40, 2)
    for off in (0.0, 0.01):
        k = draw(40)
        k[1] = normalize(k[0] + off * k[1], dim=0)
        found = redraw.settle(k, S, y, draw=draw, gap=1.0, limit=60)
        assert found.left == 0 and found.k[0] @ found.k[1] < 0.9


def test_redrawing_makes_no_table_of_all_pairs():
    """At 2^14 tokens no tensor has more entries than the tile or the keys, of which the
    pairs are a thousand times as many.
    """
    n, d, g = 2**14, 16, gen(7)
    S, y = torch.randperm(n, generator=g)[:, None], torch.full((n, 1), 8 * T)

    def draw(m):
        return normalize(torch.randn(m, d, generator=g), dim=1)

    with Largest() as seen:
        found = redraw.settle(draw(n), S, y, draw=draw, gap=T, limit=2)
    assert seen.most <= 1024 * 2048 < n * n / 100 and found.rounds > 0


def test_redraws_that_are_used_up(monkeypatch):
    """What was reached is kept."""
    monkeypatch.setattr(fitting, "ROUNDS", 4)
    g = gen(8)
    S = torch.stack([torch.zeros(60, dtype=torch.int64), torch.arange(60).roll(1)], 1)
    S[1, 1] = 30
    with pytest.raises(
        Exhausted, match=r"none of 2 draws.*d = \d+ is expected"
    ) as found:
        fit(S, d=3, method="redraw", restarts=2, generator=g, **EASY)
    assert found.value.code.q.shape == (60, 3) and torch.equal(
        verify(found.value.code, S).rows, found.value.report.rows
    )


SCRIPT = """
import resource, torch
from attnlib.expressive import Code, verify
torch.set_num_threads(1)
n, d = 2**15, 32
g = torch.Generator().manual_seed(0)
columns = torch.randint(n, (n, 1), generator=g)
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
small = Code(torch.randn(512, d), torch.randn(512, d), 0.1, 0.5)
verify(small, columns[:512] % 512)
before = peak()
code = Code(torch.randn(n, d), torch.randn(n, d), 0.1, 0.5)
report = verify(code, columns)
print(peak() - before, report.peak_bytes, 4 * n * n)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux", reason="ru_maxrss counts kilobytes on Linux"
)
def test_memory_is_a_fiftieth_of_the_logits():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=900,
        check=True,
    )
    grown, counted, logits = map(int, done.stdout.split())
    assert counted < logits / 50 and grown < logits / 50


# --- figures


def test_every_head_has_a_mark_in_the_layer_s_own_shape():
    models = load_result("premise")["result"]
    fig = draw.premise(models)
    figures.show(fig, alt="A figure for the tests, described in one long sentence.")
    for ax, model in zip(fig.axes, models.values()):
        layers = model["trained"]["overlap"]
        found = {}
        for line in ax.lines:
            found[line.get_marker()] = list(line.get_ydata())
        assert found["x"] == sum(model["as it began"]["overlap"], [])
        for mark, layer in zip("os^D", layers):
            assert found[mark] == layer


# --- bad input


GOOD = torch.tensor([[0, 1], [1, 2], [2, -1]])


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("columns", "weights", "message"),
    [
        (GOOD - 1, None, r"row 2 points outside 0..2"),
        (
            torch.tensor([[0, 1], [-1, -1], [2, 0]]),
            None,
            "row 1 is empty; a row of attention sums to one",
        ),
        (torch.tensor([[0, 1], [1, 2], [2, 2]]), None, "row 2 names a column twice"),
    ],
)
def test_bad_patterns_are_refused(columns, weights, message):
    with pytest.raises(ValueError, match=message):
        fit(columns, weights, generator=gen(), **EASY)
    code = Code(torch.eye(3), torch.eye(3), 0.1, 0.5)
    with pytest.raises(ValueError, match=message):
        verify(code, columns, weights)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"eps1": 1.0}, "eps1 must lie strictly between 0 and 1, got 1"),
        ({"eps2": 1.5}, "eps2 must lie strictly between 0 and 1, got 1.5"),
        ({"d": 1}, "d must be at least 2, the longest row"),
        ({"log_weights": torch.rand(3, 2), "method": "integer"}, "needs equal weights"),
        (
            {"d": 2**23, "method": "integer"},
            r"below 2\^24 to be exact, and k d = 16777216",
        ),
        ({"eps1": 1e-3, "eps2": 0.01, "method": "integer"}, r"below 2\^24 to be exact"),
        (
            {"log_weights": torch.tensor([[-1e308, 1e308]] * 3, dtype=DOUBLE)},
            "row 0 holds NaN or infinity, or weights too far apart",
        ),
        ({"d": 1, "method": "redraw"}, "d must be at least 2, the longest row"),
        ({"eps2": 1e-9, "method": "plain"}, "are more numbers than memory holds"),
        ({"d": 2**34, "method": "plain"}, "are more numbers than memory holds"),
        (
            {"log_weights": torch.tensor([[0.0, 800]] * 3), "method": "plain"},
            "log_weights are too far apart for 'plain': 800",
        ),
    ],
)
def test_bad_words_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        fit(GOOD, **({"generator": gen(), **EASY} | words))


@pytest.mark.bad_input
def test_codes_that_do_not_fit_are_refused():
    eye = torch.eye(3)
    for code, message in (
        (Code(eye[:2], eye[:2], 0.1, 0.5), r"q of the code must be \(3, d\)"),
        (Code(eye, eye.double(), 0.1, 0.5), "k of the code is torch.float64"),
        (Code(eye, eye[:, :2], 0.1, 0.5), r"k of the code must have shape \(3, 3\)"),
        (Code(eye / 0, eye, 0.1, 0.5), "NaN or infinity"),
        (Code(eye.long(), eye.long(), 0.1, 0.5), "a code must be floating or int8"),
        (Code(eye, eye, 0.0, 0.5), "eps1 must lie strictly between 0 and 1, got 0"),
        (Code(eye, eye, 0.1, 0.0), "eps2 must lie strictly between 0 and 1, got 0"),
        (
            Code(eye.to(torch.int8), eye.to(torch.int8), 0.1, 0.5, -1.0),
            "scale must be positive, got -1",
        ),
        (
            Code(eye, eye, 0.1, 0.5, math.inf),
            "scale must be a finite number, got inf",
        ),
        (
            Code(eye * 1e25, -eye * 1e25, 0.1, 0.5),
            r"logits of size 1e\+50 could overflow torch.float32",
        ),
        (Code(eye * 1e38, eye / 1e38, 0.1, 0.5, 10.0), "could overflow torch.float32"),
        (
            Code(*[torch.full((3, 1041), 127, dtype=torch.int8)] * 2, 0.1, 0.5),
            r"stay below 2\^24 to be exact, got .* 16790289",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            verify(code, GOOD)
    for tile in ((0, 4), 64, (64,), (2.5, 4)):
        with pytest.raises(ValueError, match="tile must be"):
            verify(Code(eye, eye, 0.1, 0.5), GOOD, tile=tile)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: predicted_dimension(4, 5, eps1=0.1, s=9), "k must lie in 1..n = 4"),
        (lambda: predicted_dimension(4, 1, eps1=1.0, s=9), "eps1 must lie .*, got 1"),
        (lambda: plain_dimension(4, 1, eps1=0.1, eps2=1e-300), "eps2 = 1e-300"),
        (lambda: cap(4.0, 3), "theta must be an angle in 0..pi"),
    ],
)
def test_bad_sizes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_one_pair_needs_one_dimension():
    """n = 2, k = 1: one pair, and two signs agree half of the time."""
    assert predicted_dimension(2, 1, eps1=0.1, s=10.0) == 1
