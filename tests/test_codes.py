"""The room codes: kernels against literal twins, gradients, devices, bad input. Claims:
attnbook.theorems.price_of_dimension and .what_is_enough.
"""

from __future__ import annotations

import math
from fractions import Fraction
from inspect import signature

import flint
import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook.data import load_result
from attnbook.theorems import price_of_dimension as price
from attnbook.theorems import what_is_enough as enough
from attnlib import codes
from attnlib.codes import exact

EPS = torch.finfo(torch.float64).eps


def rand(*shape, seed=0):
    return torch.randn(
        *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )


def test_coherence_is_the_largest_product():
    k = rand(13, 4)
    literal = max(float(k[i] @ k[j]) for i in range(13) for j in range(13) if i != j)
    assert codes.coherence(k) == pytest.approx(literal, rel=8 * EPS)


@pytest.mark.parametrize("pair", [(0, 299), (255, 256), (256, 257)])
def test_coherence_sees_pairs_of_any_rows(pair):
    """300 keys are multiplied in two parts."""
    k = torch.eye(300, dtype=torch.float64)
    first, second = pair
    k[first, second] = 0.5
    assert codes.coherence(k) == 0.5


def literal_margins(q, k, columns):
    rows = [[(a * b).sum() for b in k] for a in q]
    return torch.stack(
        [
            min(r[j] for j in own) - max(r[l] for l in range(len(k)) if l not in own)
            for r, own in zip(rows, columns.tolist())
        ]
    )


def test_margins_and_their_gradient():
    q, k, columns = (
        rand(6, 3).requires_grad_(),
        rand(9, 3, seed=1).requires_grad_(),
        torch.tensor([[0, 8], [3, 1], [4, 5], [0, 1], [2, 3], [7, 6]]),
    )
    fast, slow = codes.margins(q, k, columns), literal_margins(q, k, columns)
    assert torch.allclose(fast, slow, atol=1e-14)
    for a, b in zip(
        torch.autograd.grad(fast.sum(), (q, k)), torch.autograd.grad(slow.sum(), (q, k))
    ):
        assert torch.allclose(a, b, atol=1e-14)


def literal_queries(own, logs, n, gap):
    """One row of moment_queries by values of f on a grid and a discrete Fourier
    transform.
    """
    k, half = len(own), len(own) // 2

    def t(j):
        return 2 * math.pi * j / n

    def basis(x):
        return [1.0] + [
            h(m * x)
            for m in range(1, half + 1)
            for h in (
                lambda y: math.sqrt(2) * math.cos(y),
                lambda y: math.sqrt(2) * math.sin(y),
            )
        ]

    c = torch.linalg.pinv(
        torch.tensor([basis(t(j)) for j in own], dtype=torch.float64)
    ) @ torch.tensor(logs, dtype=torch.float64)

    def r(x):
        return float(torch.tensor(basis(x), dtype=torch.float64) @ c)

    def bump(x):
        return math.prod(1 - math.cos(x - t(j)) for j in own)

    most = max(
        0.0,
        max((r(t(l)) - min(logs) + gap) / bump(t(l)) for l in range(n) if l not in own),
    )
    grid = [2 * math.pi * i / (4 * k) for i in range(4 * k)]
    f = [r(x) - most * bump(x) for x in grid]
    return [
        math.sqrt(k) / (2 * k) * sum(v * h(m * x) for v, x in zip(f, grid))
        for m in range(1, k + 1)
        for h in (math.cos, math.sin)
    ]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_moment_queries_against_their_formula(k):
    n = 11
    columns = torch.rand(5, n, generator=torch.Generator().manual_seed(k)).argsort(1)[
        :, :k
    ]
    logs = rand(5, k, seed=k)
    got = codes.moment_queries(columns, logs, n=n, gap=0.7)
    wanted = torch.tensor(
        [
            literal_queries(o, [v - min(l) for v in l], n, 0.7)
            for o, l in zip(columns.tolist(), logs.tolist())
        ],
        dtype=torch.float64,
    )
    assert torch.allclose(got, wanted, rtol=1e-9, atol=1e-9 * float(wanted.abs().max()))
    assert torch.allclose(
        codes.moment_queries(columns, n=n, gap=0.7),
        codes.moment_queries(columns, 0 * logs + 3, n=n, gap=0.7),
        rtol=1e-9,
    )


def test_moment_queries_have_a_gradient():
    columns, logs = torch.tensor([[0, 3], [5, 1]]), rand(2, 2).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda w: codes.moment_queries(columns, w, n=7, gap=1.0), logs
    )


def test_devices_and_dtypes(device):
    columns = torch.tensor([[0, 3], [5, 1]], device=device)
    k = codes.moment_keys(7, 2).float().to(device)
    q = codes.moment_queries(columns, torch.zeros(2, 2, device=device), n=7, gap=1.0)
    assert (
        q.dtype == k.dtype == torch.float32
        and q.device.type == k.device.type == device.type
    )
    assert codes.margins(q, k, columns).min() > 0.999


@given(st.integers(0, 10**6), st.integers(2, 8), st.integers(1, 5))
def test_every_hidden_code_keeps_its_distance(seed, n, d):
    k = rand(n, d, seed=seed)
    k = k / k.norm(dim=1).max()
    q = k - k.mean(0)
    own = torch.arange(n)[:, None]
    least = float(codes.margins(q, k, own).min())
    if least > 1e-6:
        code = codes.code_from(q, k)
        assert codes.coherence(code) <= 1 - least / float(q.norm(dim=1).max()) + 1e-9


def test_price_by_caps_of_three_dimensions():
    """sigma_3(theta) = sin^2(theta / 2), so that the price of n tokens is known."""
    for n in (8, 64, 10**6):
        low, high = codes.price(n, 3)
        assert high == pytest.approx(n / 2, rel=1e-12)
        assert low == pytest.approx(n * n / (8 * (n - 1)), rel=1e-12)


def test_the_circle_in_balls():
    """1024 keys, by interval arithmetic: neighbours have gap 1 at the price, to 1e-60,
    and no other key comes as near.
    """
    flint.ctx.prec = 256
    step = 2 * flint.arb.pi() / 1024
    paid = 1 / (1 - step.cos())
    gaps = [paid * (1 - (j * step).cos()) for j in range(1, 1024)]
    assert abs(gaps[0] - 1) < flint.arb("1e-60")
    assert all(gap > 1.5 for gap in gaps[1:-1])
    assert codes.price(1024, 2).low == pytest.approx(float(paid), rel=1e-9)


@pytest.mark.parametrize("d", [3, 4])
def test_one_more_key_fits(d):
    """Greedy in random order, until 20000 draws find no room for the angle theta_40:
    at least 40 keys are kept.
    """
    cosine = 1 - 1 / codes.price(40, d).high
    drawn = rand(20000, d, seed=d)
    drawn = drawn / drawn.norm(dim=1, keepdim=True)
    kept = drawn[:1]
    for key in drawn:
        if (kept @ key).max() <= cosine:
            kept = torch.cat([kept, key[None]])
    assert len(kept) >= 40


@pytest.mark.again
def test_price_falls_with_the_dimension_and_grows_with_the_tokens():
    for n in (5, 64, 1000):
        bounds = [codes.price(n, d) for d in range(1, 40)]
        assert all(b.low <= b.high for b in bounds)
        assert all(
            a.low >= b.low and a.high >= b.high - 1e-9
            for a, b in zip(bounds, bounds[1:])
        )
    assert all(codes.price(n, 5).low <= codes.price(n + 1, 5).low for n in range(2, 60))


def test_radon_by_hand():
    square = [[0, 0], [2, 0], [2, 2], [0, 2]]
    c = exact.radon(square)
    assert c[0] == c[2] == -c[1] == -c[3] != 0  # the diagonals meet
    assert exact.radon([[0, 0], [1, 0], [0, 1]]) is None
    assert exact.radon([[0.5], [0.5]]) == [-1, 1]


def test_a_row_that_reads_all_keys_may_stand_on_a_line():
    assert exact.line_order([{0}, {0, 1, 2}], 3) == [0, 1, 1]


def test_what_is_stored_does_not_beat_the_bounds():
    """Codes found by descent cost at least the proved lower bound, and at most the
    upper one where descent did well.
    """
    result = load_result("price")["result"]
    for d, found in result["codes"].items():
        low, high = codes.price(64, int(d))
        assert low <= found * (1 + 1e-9) and found <= high
    for d, (_, middle, _) in result["random"].items():
        assert middle >= codes.price(64, int(d)).low
    for s, d in zip(result["norms"], result["descent"]["1"]):
        assert codes.price(64, d).low <= s / math.log(10) * (1 + 1e-9)
    for k in ("1", "2", "4"):
        assert all(
            a < b for a, b in zip(result["descent"][k], result["constructed"][k])
        )


def test_a_code_is_pushed_along_the_query():
    """By hand: from (1/2, 1) straight up to the circle of radius 2, not away from the
    origin.
    """
    keys = torch.tensor([[0.5, 0.0], [0.5, -0.5]], dtype=torch.float64)
    queries = torch.tensor([[0.0, 1.0], [0.0, -3.0]], dtype=torch.float64)
    root = 15**0.5 / 4
    wanted = torch.tensor([[0.25, root], [0.25, -root]], dtype=torch.float64)
    assert (codes.code_from(queries, keys) - wanted).abs().max() < 4 * EPS


def test_moment_queries_in_fractions():
    """The floats as they are, in exact arithmetic: d = 4, 64 keys, 64 patterns of two
    columns, gap 2 - 1e-6.
    """
    g = torch.Generator().manual_seed(3)
    columns = torch.rand(64, 64, generator=g).argsort(1)[:, :2]
    q = codes.moment_queries(columns, n=64, gap=2.0)
    keys = [[Fraction(x) for x in row] for row in codes.moment_keys(64, 2).tolist()]
    for row, own in zip(q.tolist(), columns.tolist()):
        exact_row = [Fraction(x) for x in row]
        logits = [sum(a * b for a, b in zip(exact_row, key)) for key in keys]
        least = min(logits[j] for j in own)
        others = [v for l, v in enumerate(logits) if l not in own]
        assert least - max(others) >= 2 - Fraction(1, 10**6)


def number(vectors):
    """A number for each vector of 24 entries from -4..4, modulo 2^64; that no two share
    one is tested where it matters.
    """
    powers = 9 ** torch.arange(12)
    return (vectors[:, :12] + 4) @ powers + (
        (vectors[:, 12:] + 4) @ powers
    ) * 282429536483


def largest_leech_product():
    """The largest product of two different Leech vectors, all 19 billion pairs, in
    integers.

    Changing signs on a word of the Golay code and turning the first 23 places are
    isometries that map the set to itself (tested), so it is enough to compare one
    vector of each orbit with all.
    """
    vectors = exact.leech()
    assert vectors.shape == (196560, 24) and vectors.square().sum(
        1
    ).unique().tolist() == [32]
    numbers, order = number(vectors).sort()
    vectors = vectors[order]
    assert (numbers.diff() > 0).all()  # different vectors, different numbers
    words = exact.golay()
    moves = [vectors * (1 - 2 * words[1 << i]) for i in range(12)]
    moves.append(torch.cat([vectors[:, :23].roll(1, 1), vectors[:, 23:]], 1))
    places = [
        torch.searchsorted(numbers, number(moved)).clamp_max(len(numbers) - 1)
        for moved in moves
    ]
    assert all(
        torch.equal(vectors[place], moved) for place, moved in zip(places, moves)
    )
    label, before = torch.arange(len(vectors)), None
    while before is None or not torch.equal(label, before):
        before = label
        for move in places:
            label = torch.minimum(label, label[move])
            label = label.scatter_reduce(0, move, label, "amin")
    ones = label.unique()
    assert len(ones) < 60
    products = vectors[ones] @ vectors.T
    assert (products == 32).sum() == len(ones)  # each with itself
    return int(products[products < 32].max())


def test_no_two_leech_vectors_are_nearer_than_60_degrees():
    assert largest_leech_product() == 16
    vectors = exact.leech()
    outside = ([2] * 8 + [0] * 16, [3] + [1] * 23, [4, 2, 2, 2, 2] + [0] * 19)
    for row in outside:  # one of each kind comes too near
        assert int((vectors @ torch.tensor(row)).max()) > 16


def row(*columns):
    return torch.tensor([columns])


ones = torch.ones
eye = torch.eye(3)


@pytest.mark.parametrize(
    ("n", "k", "d"), [(10**4, 100, 21), (10**6, 64, 21), (10**6, 1000, 279)]
)
def test_the_dimension_of_the_count(n, k, d):
    """Literal numbers, by whole powers of (8 e n / m)^m and (n / e k)^k."""
    with mpmath.workdps(30):
        patterns = (mpmath.mpf(n) / (mpmath.e * k)) ** k
        for tried, is_enough in ((d, True), (d - 1, False)):
            m = 2 * tried + 1
            signs = (8 * mpmath.e * n / mpmath.mpf(m)) ** m
            assert (signs >= patterns) == is_enough
    assert codes.counting_dimension(n, k) == d


def test_the_spiral_turns_by_the_golden_angle():
    """137.50776 degrees, from the first key to the second."""
    x, y, _ = codes.spiral_keys(2)[1].tolist()
    assert math.degrees(math.atan2(y, x)) == pytest.approx(137.50776, abs=1e-5)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: codes.coherence(ones(1, 3)), "n >= 2"),
        (
            lambda: codes.margins(ones(1, 2), ones(3, 2), row(1, 1)),
            "names a column twice",
        ),
        (
            lambda: codes.margins(ones(1, 2), ones(2, 2), row(0, 1)),
            "leave one of 2 out",
        ),
        (lambda: codes.moment_keys(1), "n must be an integer of at least 2"),
        (lambda: codes.code_from(2 * eye, 2 * eye), "norm at most 1"),
        (lambda: codes.code_from(-eye, eye), "must prefer"),
        (lambda: codes.price(1, 3), "n must be an integer of at least 2"),
        (lambda: codes.code_from(ones(3), ones(3)), r"k must be \(n, d\)"),
        (lambda: codes.counting_dimension(3, 4), "1..n = 3"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()


E4 = torch.eye(4, dtype=torch.float64)
CIRCLE = codes.moment_keys(64)
SPREAD = enough.circulant()["columns"]
PADDED = SPREAD.clone()
PADDED[0, 0] = -1


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("theorem", "given", "words"),
    [
        (price.packed_logits, (0 * E4, 4), "logits must have one largest"),
        (price.factor_four, (12, 3, -1.0), "paid must be positive"),
        (price.factor_four, (3, 1, 2.0), "d must be at least 2"),
        (price.known_codes, (E4[:3, :3],), "keys must be a circle, a simplex"),
        (price.golden_spiral, (17,), "n must be one of"),
        (price.exact_price, (-CIRCLE, 3 * CIRCLE), "q must prefer"),
        (price.bounded_norms, (-CIRCLE, CIRCLE), "q must prefer"),
        (price.small_set_lost, (CIRCLE, 1), "keys must be a list"),
        (price.small_set_lost, ([[0], [1], [2], [3]], 2), "keys must be 5 rows, got 4"),
        (price.kissing, (0 * exact.e8(),), "vectors must have a squared length"),
        (price.kissing, (exact.e8(), [240]), "some must name rows from 0 to 239"),
        (price.kissing, (exact.e8()[0],), "vectors must be int64"),
        (enough.sign_rank, ([[1]], [[1, 2]], [1, 1]), "each row of v must"),
        (enough.sign_rank, ([[1, 2]], [[1, 2]], [0, 0]), "plus must have no"),
        (enough.redrawing, (PADDED, CIRCLE, 4.0), r"columns: row 0 points outside"),
        (enough.redrawing, (SPREAD % 32, CIRCLE, 4.0), "name each column in k = 2"),
        (enough.redrawing, (SPREAD, CIRCLE, 1.0), "level must be above the gap 1"),
        (enough.bits, (CIRCLE, 0 * CIRCLE), "q must prefer"),
        (enough.bits, (CIRCLE, 3 * CIRCLE), "k must have norms at most 1"),
        (enough.on_a_line, ([{0}, set()], 3), "each of rows must have some"),
        (enough.on_a_line, ([{0, 5}], 3), "must be numbers from 0 to 2"),
    ],
)
def test_theorems_refuse_what_is_no_object_of_theirs(theorem, given, words):
    arguments = dict(zip(signature(theorem).parameters, given))
    with pytest.raises(ValueError, match=words):
        theorem(**arguments)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_the_length_of_all_queries_decides_nothing(scale):
    """s / T does not change, so neither does a verdict, nor one on its control."""
    queries = scale * CIRCLE
    assert price.cost(queries, CIRCLE) == pytest.approx(price.cost(CIRCLE, CIRCLE))
    assert price.exact_price(queries, CIRCLE)
    assert not price.exact_price(queries, 3 * CIRCLE)
    assert price.bounded_norms(queries, CIRCLE)
    assert not price.bounded_norms(queries, 100 * CIRCLE)
    assert price.packed_logits(scale * CIRCLE @ CIRCLE.T, 2)
    assert enough.bits(queries, CIRCLE)
    keys = codes.moment_keys(256)
    assert not enough.bits.broken("the 8 bits of bfloat16", scale * keys, keys)


def test_signs_of_numbers_need_no_dimension():
    """A row of plus signs, and rows of one number each, whose sign is c_i."""
    assert enough.sign_rank([[1], [-2]], [[2], [-3]], [1])
    assert not enough.sign_rank.broken(
        "columns not flipped", [[1], [-2]], [[2], [-3]], [1]
    )


def test_two_vectors_are_enough_for_an_angle():
    """(1, 1) and (1, -1) are at a right angle, 1 less than half of their square; (3, 4)
    and (5, 0) are nearer than 60 degrees, 15 against half of 25.
    """
    assert price.kissing(torch.tensor([[1, 1], [1, -1]])).value == -1
    verdict = price.kissing(torch.tensor([[3, 4], [5, 0]]))
    assert verdict.value == 2.5
    assert not verdict.ok


def test_keys_are_taken_for_unit_vectors_up_to_a_trillionth():
    """Keys x and -x with queries 1 and -1 cost 1 / (2 x), and the hidden code is 1 and
    -1: it is off by 2 (x - 1). Of longer keys only the price 1 / 2 is asked for, which
    is missed by x - 1.
    """
    q = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    verdict = price.exact_price(q, (1 + 1e-12) * q)
    assert verdict.value == pytest.approx(2e-12, rel=1e-3, abs=0)
    verdict = price.exact_price(q, (1 + 4e-12) * q)
    assert verdict.value == pytest.approx(4e-12, rel=1e-3, abs=0)


def test_the_least_singular_value_by_hand():
    """The gap ln 3 of two tokens: P has 3/4 and 1/4, and its values are 1 and 1/2."""
    logits = math.log(3) * torch.eye(2, dtype=torch.float64)
    assert price.full_rank(logits).value == pytest.approx(1 - 2 / 3 - 1 / 2)


def test_two_keys_on_a_line_are_never_redrawn_apart(monkeypatch):
    """All unit keys are 1 or -1: no row of two has a query, and all four are left,
    after three rounds as well as after 400.
    """
    settle = enough.redraw.settle

    def a_few_rounds(*given, limit, **more):
        return settle(*given, limit=3, **more)

    monkeypatch.setattr(enough.redraw, "settle", a_few_rounds)
    verdict = enough.redrawing(**enough.circulant(n=4, k=2, d=1, level=2.0))
    assert (verdict.value, verdict.bound) == (4, 1e-9)
    assert not verdict.ok


def test_keys_that_serve_no_row_are_noticed(monkeypatch):
    """Keys that are all equal lie neither below nor above one another."""
    monkeypatch.setattr(enough, "line_order", lambda rows, n: [0] * n)
    assert enough.on_a_line(**enough.few_rows()).value == 2


def test_a_split_whose_averages_differ_is_noticed(monkeypatch):
    """The first key is not the second: all three are lost, and one may be."""
    monkeypatch.setattr(price, "radon", lambda keys: [Fraction(1), Fraction(-1), 0])
    verdict = price.small_set_lost([[0], [1], [2]], 1)
    assert (verdict.value, verdict.bound) == (3, 1)


def test_rounding_and_scaling_by_hand():
    """1.3 is 0.65 times 2: with three bits 5/8 times 2; and 5 is 5/4 of a power."""
    x = torch.tensor([1.3, -5.0], dtype=torch.float64)
    assert enough.rounded(x, 3).tolist() == [1.25, -5.0]
    assert price.moderate(x).tolist() == [1.3 / 4, -1.25]


def test_true_statements_hold_at_the_edge():
    """A level of 1e9, keys that are floats, codes with a key less, a cost near 1."""
    assert enough.redrawing(**enough.circulant(level=1e9))
    assert price.small_set_lost([[0.1], [0.2], [0.3]], 1)
    assert price.known_codes(price.cross_polytope(4)[:6])
    assert price.price(16, price.enough_dimensions(16, 1 + 1e-9)).high <= 1 + 1e-9
    nearly = CIRCLE.clone()
    nearly[0] = torch.tensor([1.0, 1e-8])
    assert not price.known_codes(nearly)
