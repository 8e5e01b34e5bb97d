"""Worked examples of the page notebooks/sparse_patterns/logarithmic_dimension."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch

from attnbook.theorems import logarithmic_dimension as page
from attnlib.attention import attention_matrix
from attnlib.expressive import Code, fit, verify
from attnlib.expressive.dimensions import (
    expected_leak,
    interpolated_dimension,
    interpolated_lines,
    plain_dimension,
)

T = math.log(10)
double = torch.float64


def test_the_odds_of_a_row_are_attained():
    """Two equal entries and three zeros of a tenth: 3/10 against 2."""
    logits = torch.eye(5, dtype=double) * T
    logits[0, 1] = T
    code = Code(logits, torch.eye(5, dtype=double), 0.1, 0.5)
    columns = torch.tensor([[0, 1], [1, -1], [2, -1], [3, -1], [4, -1]])
    odds = verify(code, columns).rows[:, 2]
    assert odds.tolist() == pytest.approx([0.15, 0.4, 0.4, 0.4, 0.4], rel=1e-12)


def test_one_pair_of_weights_follows_three_patterns():
    """A shift, blocks of two and a random pattern of 48 tokens, by the weights that
    belong to the first.
    """
    g = page.seeded(3)
    i = torch.arange(48)
    shift = torch.stack([(i + 1) % 48, (i + 2) % 48], 1)
    blocks = torch.stack([i // 2 * 2, i // 2 * 2 + 1], 1)
    how = {"d": 40, "eps1": 0.1, "eps2": 0.5, "s": 4 * T, "dtype": double}
    first = fit(shift, generator=g, **how)
    for columns in (shift, blocks, page.random_columns(48, 2, g)):
        x = fit(columns, generator=g, **how).x
        logs = attention_matrix(x, first.w_q, first.w_k).log()
        on = page.on_pattern(columns)
        zeros = logs.masked_fill(on, -math.inf).amax(1, keepdim=True)
        assert (page.least_on(logs, on) - zeros).min() >= T


def test_rows_of_a_causal_pattern_are_of_unlike_length():
    """Token 1 may attend to itself alone."""
    columns = page.causal_code()["columns"]
    assert columns[0].tolist() == [0, -1]
    assert (columns <= torch.arange(len(columns))[:, None]).all()


@pytest.mark.parametrize("d", [20, 100, 400])
@pytest.mark.parametrize("eta", [0.2, 0.5])
def test_the_tail_of_normal_entries(d, eta):
    """d |R' w|^2 is chi-squared, and its tail is a gamma function."""
    above = mpmath.gammainc(d / 2, d * (1 + eta) / 2, regularized=True)
    below = mpmath.gammainc(d / 2, 0, d * (1 - eta) / 2, regularized=True)
    assert above + below <= 2 * math.exp(-d * (eta**2 / 4 - eta**3 / 6))


@pytest.mark.parametrize(
    ("n", "empty"), [(64, True), (16000, True), (17000, False), (10**6, False)]
)
def test_the_plain_theorem_is_empty_up_to_16000_tokens(n, empty):
    assert (plain_dimension(n, 1, eps1=0.1, eps2=0.5) >= n) == empty


def test_the_plain_theorem_for_64_tokens():
    assert plain_dimension(64, 1, gamma=4, eps1=0.1, eps2=0.5) == 17542


def test_the_noise_of_normal_keys():
    """A zero's logit beside B = (2, 3) in four dimensions: 13 / 4, of 20,000 draws."""
    r = torch.randn(20000, 3, 4, generator=page.seeded(3), dtype=double) / 2
    logits = ((2 * r[:, 0] + 3 * r[:, 1]) * r[:, 2]).sum(1)
    assert float(logits.var()) == pytest.approx(13 / 4, rel=0.05)


@pytest.mark.parametrize(
    ("n", "k", "keys", "d", "line"),
    [
        (1200, 2, "sphere", 499, "others"),
        (4096, 8, "signs", 2307, "others"),
        (64, 6, "sphere", 1790, "pairs"),
        (4096, 8, "sphere", 4532, "net"),
    ],
)
def test_the_line_that_binds(n, k, keys, d, line):
    assert interpolated_dimension(n, k, keys=keys) == d
    assert interpolated_lines(n, k, keys=keys).binding == line
    assert page.chances(n, k, keys) == pytest.approx([1, 1, 1], rel=1e-9)


def test_rows_fail_whose_key_is_too_close_to_another():
    g = page.seeded(13)
    pi = torch.randperm(100, generator=g)
    k = page.unit_vectors(100, 24, g)
    rows = verify(Code(2 * T * k[pi], k, 0.1, 0.5), pi[:, None]).rows
    fails = rows[:, 1] < T
    close = ((k @ k.T).fill_diagonal_(0) > 0.5).any(1)[pi]
    assert fails.any() and torch.equal(fails, close)


@pytest.mark.parametrize(("d", "s"), [(2, 1.0), (34, 9.2), (34, 20.0), (96, 4.6)])
def test_the_mass_on_the_zeros_is_a_bessel_function(d, s):
    order = mpmath.mpf(d) / 2 - 1
    mean = mpmath.gamma(order + 1) * (2 / mpmath.mpf(s)) ** order
    mean *= mpmath.besseli(order, s)
    wanted = float(1000 * mpmath.exp(-s) * mean)
    assert expected_leak(1001, d, s) == pytest.approx(wanted, rel=1e-12)


def test_sixteen_bits_move_a_circle():
    """Keys on a circle, just separated in exact arithmetic: rounded to bfloat16 the gap
    turns negative; 83 random dimensions keep theirs.
    """

    def rounded(code):
        q = code.q.bfloat16().double()
        return Code(q, code.k.bfloat16().double(), 0.1, 0.5)

    angle = 2 * math.pi * torch.arange(256, dtype=double) / 256
    circle = torch.stack([angle.cos(), angle.sin()], 1)
    following = ((torch.arange(256) + 1) % 256)[:, None]
    level = T / (1 - math.cos(2 * math.pi / 256))
    around = Code(level * circle.roll(-1, 0), circle, 0.1, 0.5)
    how = {"d": 83, "eps1": 0.1, "eps2": 0.5, "s": 4 * T, "dtype": double}
    random = fit(following, generator=page.seeded(16), **how)
    assert verify(around, following).margin == pytest.approx(T, abs=1e-9)
    assert verify(rounded(around), following).margin < 0
    assert verify(rounded(random), following).passed


@pytest.mark.parametrize("k", [1, 2])
def test_integer_codes_pass(k):
    columns = page.pattern(19, k=k)["columns"]
    how = {"eps1": 0.5, "eps2": 0.9, "method": "integer"}
    code = fit(columns, generator=page.seeded(19), **how)
    assert code.q.dtype == torch.int8 and verify(code, columns).passed
