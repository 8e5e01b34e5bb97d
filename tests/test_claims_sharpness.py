"""What attnbook.theorems.sharpness cannot say: the same numbers by other routes,
refusals, and the trained heads of notebooks/what_came_after/sharpness.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
import torch

from attnbook import data
from attnbook.theorems import sharpness as page
from attnlib.bridges import critical_beta, needed_radius

DOUBLE = torch.float64


def test_the_example_in_fractions():
    """At beta* = 2 ln 2 a gap g weighs 4^-g; at twice that 16^-g."""
    for base, share in ((4, Fraction(8, 17)), (16, Fraction(128, 143))):
        rivals = Fraction(1, base) + 14 * Fraction(1, base**2)
        assert 1 / (1 + rivals) == share
    assert page.critical(page.hand_row()[0]) == (2 * math.log(2), 16)


def test_two_thirds_is_where_zeta_is_three_halves():
    root = mpmath.findroot(lambda t: mpmath.zeta(t) - mpmath.mpf(3) / 2, 2.2)
    assert 0 < page.TWO_THIRDS - float(root) < 2e-5
    ninth = mpmath.findroot(lambda t: mpmath.zeta(t) - mpmath.mpf(10) / 9, 3.6)
    assert float(ninth) == pytest.approx(3.65, abs=0.005)


def test_equal_rivals_are_proposition_19_4():
    """The radius that 19.4 asks for is that of t = ln((1 - e)(n - 1)/e) / ln n."""
    n, leak = 1000, 0.01
    row = 2 * needed_radius(n, leak) * page.equal_row(n)
    t = 1 / float(critical_beta(row))
    assert 1 / (1 + (n - 1) * n**-t) == pytest.approx(1 - leak, rel=1e-12)
    assert float(torch.softmax(row, -1).max()) == pytest.approx(1 - leak, rel=1e-12)


def test_the_envelope_holds_whichever_token_decides():
    """(j - 1) j^-t is least at an end: 1 / (1 + min(2^-t, (n - 1) n^-t))."""
    n = 256
    j = torch.arange(2, n + 1, dtype=DOUBLE)
    for t in (0.1, 0.9, 1.0, 1.1, 1.7, 3.0):
        least = ((j - 1) * j**-t).min()
        assert float(least) == pytest.approx(min(2**-t, (n - 1) * n**-t))


def test_the_bounds_of_tau():
    """tau <= n^(t - 1) and 1 - tau <= n^(1 - t)."""
    for n in (2, 17, 10**6):
        for t in (0.01, 0.5, 0.99, 1.0, 1.3, 4.0):
            tau = page.contraction(n, 0.2, t * math.log(n) / 0.8)
            assert tau <= n ** (t - 1) * (1 + 1e-12)
            assert 1 - tau <= n ** (1 - t) + 1e-12


def test_training_moves_rows_past_one():
    """Half of the rows of the tiny model, and none of the one that it began as."""
    shares = {}
    for trained in (True, False):
        model = data.load_tiny_model(trained=trained)
        q, k, _ = data.attention_heads(model, model.sample[0])
        logits = q @ k.mT / math.sqrt(q.shape[-1])
        shares[trained] = float((critical_beta(logits) < 1).double().mean())
    assert shares[True] == pytest.approx(0.47, abs=0.03)
    assert shares[False] == 0


ROW = page.hand_row()
UNIT = torch.eye(3, dtype=DOUBLE)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: page.two_sides(0 * ROW, 1.0), "tied top in 1 rows"),
        (lambda: page.two_sides(ROW[:, :1], 1.0), "row with two entries"),
        (lambda: page.critical(ROW), "row must be"),
        (lambda: page.two_sides(ROW, 0.0), "beta must be positive"),
        (lambda: page.equal_angles(UNIT[:1], 1.0), "with n >= 2"),
        (lambda: page.equal_angles(2 * UNIT, 1.0), "equal inner products"),
        (lambda: page.equal_angles(UNIT, -1.0), "beta must be positive"),
        (lambda: page.contraction(3, 1.0, 1.0), "rho must be from -0.5"),
        (lambda: page.spheres(1), "d must be an integer of at least 2"),
        (lambda: page.spheres(3, lengths=(8, 8)), "lengths must rise"),
        (lambda: page.spheres(3, draws=40), "draws must be more"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
