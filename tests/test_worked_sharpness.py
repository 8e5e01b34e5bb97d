"""Worked examples and attained bounds of the page `How sharp must a row be?`."""

from __future__ import annotations

import math

import pytest
import torch

from attnbook.theorems import sharpness as page
from attnlib.bridges import critical_beta

DOUBLE = torch.float64


@pytest.mark.parametrize("n", [2, 7, 1000])
@pytest.mark.parametrize("t", [0.5, 1.0, 3.0])
def test_both_sides_are_attained(n, t):
    """By Zipf's row the lower one, by equal gaps the upper one."""
    j = torch.arange(1, n + 1, dtype=DOUBLE)
    zipf = torch.softmax(t * critical_beta(page.zipf_row(n)) * page.zipf_row(n), -1)
    assert float(zipf.max()) == pytest.approx(float(1 / (j**-t).sum()), abs=1e-12)
    equal = torch.softmax(t * critical_beta(page.equal_row(n)) * page.equal_row(n), -1)
    assert float(equal.max()) == pytest.approx(1 / (1 + (n - 1) * n**-t), abs=1e-12)


def test_sixteen_tokens_by_hand():
    row = page.hand_row()
    assert float(critical_beta(row)) == pytest.approx(2 * math.log(2), abs=1e-12)
    for times, share in ((2, 8 / 17), (4, 128 / 143)):
        found = float(torch.softmax(times * math.log(2) * row, -1).max())
        assert found == pytest.approx(share, abs=1e-12)


def test_both_constants_of_two_thirds_are_the_best():
    """Two tokens need beta* exactly, long Zipf's rows nearly 2.18529 of it."""
    pair = torch.tensor([[0.0, -3.0]], dtype=DOUBLE)
    assert float(page.beta_for(pair, 2 / 3)) == pytest.approx(1, abs=1e-5)
    long = page.beta_for(page.zipf_row(100_000), 2 / 3)
    assert float(long) == pytest.approx(2.18528, abs=1e-5)


def test_the_switch_of_equal_angles():
    """At beta = ln n / (1 - rho) tau is (n - 1) / (2 n - 1), a fifth below and above
    nearly nothing and nearly all.
    """
    for n, rho in ((2, 0.0), (10, -0.1), (10**6, 0.5)):
        at = page.contraction(n, rho, math.log(n) / (1 - rho))
        assert at == pytest.approx((n - 1) / (2 * n - 1), abs=1e-12)
    scale = math.log(10**6) / (1 - 0.5)
    assert page.contraction(10**6, 0.5, 0.8 * scale) < 0.07
    assert page.contraction(10**6, 0.5, 1.2 * scale) > 0.94


@pytest.mark.parametrize("n", [1000, 8000])
def test_an_even_circle(n):
    """The query at one of n keys: beta* / n^2 is ln 3 / (2 pi^2) in the limit."""
    angles = 2 * math.pi * torch.arange(n, dtype=DOUBLE) / n
    beta = float(critical_beta(angles.cos()[None]))
    assert beta / n**2 == pytest.approx(math.log(3) / (2 * math.pi**2), rel=1e-4)
