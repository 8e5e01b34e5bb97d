"""Worked examples of the page notebooks/path_decomposition/escaping_collapse, and
bounds that are attained.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from attnbook.theorems import escaping_collapse as claims
from attnbook.theorems.escaping_collapse import draws, line_head, rows
from attnbook.theorems.rank_collapse import causal_mask
from attnlib.attention import Layer, Mlp, Norm, feed_forward, forward, random_layers
from attnlib.collapse import log_diameter_bound

double = torch.float64
EPS = torch.finfo(double).eps


def test_silent_heads_still_speak():
    """They attend, and move every token by one row."""
    x, layers, _ = claims.silent_network(L=1).values()
    moved = forward(x, layers, skip=True) - x
    assert moved.norm() >= 1
    assert (moved - moved[0]).abs().max() <= 1e-14


@pytest.mark.parametrize(("a", "w"), [(1.0, 1.0), (0.3, 2.0), (2.0, 0.4)])
@pytest.mark.parametrize("v", [0.7, -0.7])
def test_two_tokens_attain_both_sides_of_4_2(a, w, v):
    x, layer = claims.two_tokens(a, w, v).values()
    delta, change = log_diameter_bound(x, [layer]).exp().tolist()
    got = claims.diameter(forward(x, [layer], skip=True))
    assert got == pytest.approx(delta + math.copysign(change, v), rel=16 * EPS)


@pytest.mark.parametrize(("s", "w"), [(0.1, 1.0), (0.5, 3.0), (0.9, 0.2)])
def test_two_tokens_fall_like_the_root(s, w):
    """With v = -s, a_L sqrt(2 s w L) is near 1 after 20,000 layers."""
    a = 1.0
    for layer in range(1, 20001):
        a *= 1 - s * math.tanh(w * a * a)
        if layer == 50:
            x, head = claims.two_tokens(1.0, w, -s).values()
            y = float(forward(x, [head] * 50, skip=True)[0])
            assert y == pytest.approx(a, rel=1e-10)
    assert a * math.sqrt(2 * s * w * 20000) == pytest.approx(1, abs=0.01)


def test_lambda_is_attained():
    """A feed-forward layer that multiplies by 3 attains (4.8)."""
    _, draw = draws(0)
    x = draw(6, 4)
    eye = torch.eye(4, dtype=double)
    mlp = Mlp(3 * eye, eye, activation=torch.nn.Identity())
    row = x.mean(0, keepdim=True)
    moved = feed_forward(x, mlp) - feed_forward(row, mlp)
    factors = claims.sum_norms(moved) / (3 * claims.sum_norms(x - row))
    assert (factors - 1).abs().max() <= 16 * EPS


def test_at_the_threshold_fractions_stay():
    """At e^2w = 3 the weights are 3/4 and 1/4, and a slope of 2 brings 1 back to 1."""
    state = Fraction(1)
    for _ in range(40):
        near = Fraction(3, 4) * state - Fraction(1, 4) * state
        state = min(Fraction(1), 2 * near)
    assert state == 1


def test_below_the_threshold_the_cube_sets_in():
    w = claims.HALF_LOG_3
    a = 1.0
    for _ in range(6):
        after = 1.9 * a * math.tanh(w * a * a)
        assert after <= 1.9 * w * a**3 * (1 + EPS)
        a = after
    mlps = [claims.clip_layer(1.9)] * 6
    network = forward(rows([1], [-1]), [line_head(w, 1.0)] * 6, mlps=mlps)
    assert max(a, float(network.abs().max())) <= 1e-6


def test_equal_deviations_need_no_left_factor():
    """Then one affine map on the right is enough."""
    x = rows([1, -1, 0], [0, 1, -1], [-1, 0, 1], [2, 0, 1])
    on_the_right = "the best map on the right"
    assert claims.norm_side.broken(on_the_right, x, Norm(eps=0.0)).ok


@pytest.mark.parametrize("eps", [0.0, 0.5])
def test_tokens_of_equal_length_attain_4_6(eps):
    verdict = claims.norm_distances(**claims.equal_lengths(eps))
    assert verdict.value == pytest.approx(1, abs=16 * EPS)


@pytest.mark.parametrize(("w", "eps"), [(1.0, 1e-5), (3.0, 1e-12), (0.2, 0.1)])
def test_below_the_threshold_of_eps_they_collapse(w, eps):
    """Just below w a^2 = sqrt(eps), mu = 0.99 falls by the cube at least."""
    a = math.sqrt(0.99 * math.sqrt(eps) / w)
    assert claims.around_zero(a, w, eps).ok


def test_one_head_halves_the_first_two_tokens():
    """With W = I they come closer by a factor that tends to a half, and by no more than
    sigma(-Q) a layer.
    """
    g, draw = draws(2)
    x = 0.5 * draw(6, 4)
    g, _ = draws(2)
    (head,) = random_layers(1, 1, 4, 4, bias=True, dtype=double, generator=g)
    eye = torch.eye(4, dtype=double)[None]
    head = head._replace(w_v=eye, w_o=eye, b_v=None, b_o=None)
    z = least = float((x[1] - x[0]).norm())
    root = math.sqrt(4)  # of d_qk
    omega = float(torch.linalg.matrix_norm(head.w_q @ head.w_k.mT, 2)) / root
    b_qk = float((head.w_k[0] @ head.b_q[0]).norm()) / root
    most = (omega * (float(x[0].norm()) + z) + b_qk) * z  # Q
    for _ in range(30):
        before = z
        x = forward(x, [head], mask=causal_mask(x))
        z = float((x[1] - x[0]).norm())
        least /= 1 + math.exp(most)
        assert z >= least
        assert claims.diameter(x) >= z * (1 - 1e-12)
    assert z / before == pytest.approx(0.5, abs=1e-3)


def test_tokens_line_up_behind_the_first():
    """A head whose logits are all zero, under a causal mask, for thirty layers."""
    zero = torch.zeros(1, 3, 3, dtype=double)
    eye = torch.eye(3, dtype=double)[None]
    _, draw = draws(0)
    x = draw(7, 3)
    y = forward(x, [Layer(zero, zero, eye, eye)] * 30, mask=causal_mask(x))
    steps = torch.arange(7, dtype=double)[:, None]
    line = x[:1] + 2.0**-30 * steps * (x[1] - x[0])
    assert (y - line).abs().max() * 3.0**30 <= 500


@pytest.mark.parametrize(("skip", "wanted"), [(False, 2 / 7), (True, 2 / 3)])
def test_three_and_one(skip, wanted):
    """Example 4.1: what is reached is the bound (4.5)."""
    (part,) = claims.certificate(**claims.three_and_one(v=1.0, h=1, skip=skip))
    assert part.after == pytest.approx(wanted, rel=64 * EPS)
    assert part.bound == pytest.approx(wanted, rel=64 * EPS)


def test_a_softmax_head_rests_by_a_start_token():
    """Without one it cannot. Features: start, content, query; the query looks at the
    start with logit 6.
    """
    layer = Layer(
        w_q=rows([0], [0], [6])[None],
        w_k=rows([1], [0], [0])[None],
        w_v=rows([0], [1], [0])[None],
        w_o=rows([0, 1, 0])[None],
    )
    tokens = rows([1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1])
    others = torch.ones(4, 4, dtype=torch.bool)
    others[:, 3] = False  # nobody looks at the query
    y, (attention,) = forward(tokens, [layer], mask=others, return_attention=True)
    eta = float(y[3].norm())
    assert eta <= 0.01
    assert float(attention[0, 3, 0]) == pytest.approx(1 - eta, abs=1e-14)
    alone = forward(tokens[1:], [layer], mask=others[1:, 1:])
    assert alone[2].norm() >= 1 - 1e-12
