"""Worked examples of the page notebooks/path_decomposition/rank_collapse."""

from __future__ import annotations

import math

import pytest
import torch

from attnbook.theorems import rank_collapse as page
from attnlib import certify
from attnlib.attention import attention_matrix, forward
from attnlib.collapse import (
    composite_norm,
    diameter,
    log_diameter_bound,
    log_residuals,
    residual,
)

EPS = torch.finfo(torch.float64).eps


@pytest.mark.parametrize("a", [0.1, 0.7, 1.5])
def test_two_tokens_attain_the_contraction(a):
    """The two tokens of the toy, with v = 2: (2.4) and (2.5) are equalities."""
    x = page.two_tokens(a)
    layer = page.toy_layer(1.0, 2.0)
    p = attention_matrix(x, layer.w_q, layer.w_k)[0]
    averaged = float(diameter(p @ x) / diameter(x))
    whole = float(diameter(forward(x, [layer])) / diameter(x))
    allowed = float(log_diameter_bound(x, [layer]).diff().exp())
    factor = math.tanh(a * a)
    assert [averaged, whole, allowed] == pytest.approx(
        [factor, 2 * factor, 2 * factor], abs=1e-14
    )


def test_the_toy_cubes():
    """For two tokens with v = 1 the number of digits triples in the limit."""
    x, layer = page.toy_head(a=1e-6).values()
    c = page.quarter_sum(layer)
    logs = log_residuals(x, [layer], size="diameter")
    before, after = (math.log(c) + 2 * logs).tolist()
    assert after / before == pytest.approx(3, abs=1e-12)


def test_the_toy_by_hand():
    """With e^(2 w) = 2 and a = 1, v = 1 the tokens (1, 1), (-1, 1) become (1/3, 1) and
    (-1/3, 1).
    """
    y = forward(page.two_tokens(1.0), [page.toy_layer(math.log(2) / 2, 1.0)])
    assert (y - page.two_tokens(1 / 3)).abs().max() <= 4 * EPS


@pytest.mark.parametrize("eta", [0.3, 1.256, 6.0])
def test_the_total_variation_is_attained(eta):
    """With weights in the ratio 1 : u, u = e^(eta / 2), (p - s) is tanh(eta / 4)."""
    u = math.exp(eta / 2)
    p = math.exp(eta) / (math.exp(eta) + u)
    assert abs(p - 1 / (1 + u) - math.tanh(eta / 4)) <= 4 * EPS


@pytest.mark.parametrize("seed", range(3))
def test_ascent_finds_bad_heads(seed):
    """They keep the bound of one layer, and use a tenth of it."""
    made = page.ascended_head(seed)
    share = page.constant(**made) / math.sqrt(page.g(2 * page.eta(**made)))
    assert 0.1 < share <= 1 + 1e-9


def test_the_toy_uses_half():
    """Two close tokens: half of the bound in rows, and all of the half of two."""
    assert page.row_share(**page.toy_head(a=0.01)) >= 0.499
    assert page.pair_share(**page.toy_head(a=0.01)) >= 0.499


def test_both_conditions_allow_collapse():
    """A network at the edge of (2.18) collapses, and its bound does not grow."""
    made = page.network_at_the_edge(3)
    logs = log_residuals(**made)
    printed = page.log_printed(**made)
    assert logs[0] - logs[-1] >= 30
    assert printed[-1] <= printed[0] + 1e-9
    assert page.g(4.22) < 16


def test_the_family_is_a_network():
    """400 tokens against the four kinds of rows."""
    dense = page.constant(**page.family_head(200, 2780.0))
    assert dense == pytest.approx(page.family_constant(200, 2780), rel=1e-6)


def test_three_heads_are_led():
    """For three heads of small spread the residual is its leading term."""
    made = page.random_layer(seed=1, h=3, scale=0.01, gain=0.5)
    after = residual(forward(made["x"], [made["layer"]]))
    assert certify.relative_error(page.leading(**made), after) <= 1e-3


@pytest.mark.parametrize("eta", [1e-6, 0.1, 3.0])
def test_the_toy_has_any_spread(eta):
    """Two tokens need the constant tanh(eta / 2) / eta."""
    made = page.toy_head(a=math.sqrt(eta / 2))
    assert page.eta(**made) == pytest.approx(eta, rel=1e-11)
    wanted = math.tanh(eta / 2) / eta
    assert page.constant(**made) == pytest.approx(wanted, rel=1e-11)


def test_half_is_nearly_needed():
    """Gradient ascent finds a head of spread at most 1.256 that needs 0.44."""
    made = page.ascended_head(0, n=2, d=1, spread_up_to=page.LINEAR_UP_TO)
    assert page.eta(**made) < page.LINEAR_UP_TO + 1e-4
    assert page.constant(**made) >= 0.44


def test_below_the_smallest_float():
    """Six layers bring the residual below 10^-300, and it is still a number."""
    logs = log_residuals(**page.random_network(0, L=6, n=4, d=3, gain=0.7))
    assert 300 <= float(-logs[-1]) / math.log(10) < math.inf


def test_frozen_and_causal_stay():
    """Where live attention falls below 1e-8 in five layers, frozen attention and a
    causal mask stay above 1e-4.
    """
    x, layers = page.random_network(0, L=5, h=2, n=8, d=16, gain=1.0).values()
    matrices = forward(x, layers, return_attention=True)[1][0]
    kept = page.frozen_residuals(residual(x), layers, matrices)[-1]
    causal = residual(forward(x, layers, mask=page.causal_mask(x)))
    assert composite_norm(kept) >= 1e-4
    assert composite_norm(causal) >= 1e-4
    assert log_residuals(x, layers)[-1].exp() < 1e-8
