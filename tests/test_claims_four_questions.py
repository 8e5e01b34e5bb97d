"""What attnbook.theorems.four_questions cannot say: exact counterexamples of the page
notebooks/path_decomposition/four_questions, and input that it refuses.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from attnbook.theorems import four_questions
from attnlib import certify
from attnlib.attention import random_layers
from attnlib.collapse import composite_norm, residual

TOKENS = certify.exact([[1], [-1]])
EPS = torch.finfo(torch.float64).eps


def two_tokens(odds) -> certify.Matrix:
    """The attention matrix of Example 3.1, where odds = exp(2 w a^2)."""
    return certify.row_stochastic([[odds, 1], [1, odds]])


@pytest.mark.claim("questions.chain", role="counterexample")
def test_step_nine_in_fractions():
    """Odds of 2: both printed bounds are 0 for every D, and P X = (1/3, -1/3)."""
    assert certify.product([[Fraction(1, 2)] * 2], TOKENS) == [[0]]
    assert certify.product(two_tokens(2), TOKENS) == [
        [Fraction(1, 3)],
        [Fraction(-1, 3)],
    ]
    terms = [Fraction(1256, 1000) ** k / math.factorial(k) for k in range(4)]
    assert sum(terms) > 2  # so ln 2 < 1.256: the lemma applies


def test_step_nine_as_printed_fails_on_the_two_tokens():
    x, layer = four_questions.two_tokens(a=1.0, w=math.log(2) / 2, v=1.0)
    w_qk = layer.w_q[0] @ layer.w_k[0].mT
    objects = {"x": x.mean(0), "rest": residual(x), "w_qk": w_qk}
    assert four_questions.step_nine(**objects).ok
    printed = four_questions.step_nine.broken("as printed", **objects)
    assert not printed.ok and abs(printed.value - 1 / 3) < 4 * EPS


def test_step_nine_as_printed_holds_without_a_negative_entry():
    g = torch.Generator().manual_seed(0)
    for _ in range(50):
        rest = torch.randn(5, 3, dtype=torch.float64, generator=g).abs()
        w_qk = torch.randn(3, 3, dtype=torch.float64, generator=g)
        w_qk = w_qk / four_questions.spread(rest @ w_qk @ rest.mT).max()
        x = torch.randn(3, dtype=torch.float64, generator=g)
        assert four_questions.step_nine.broken("as printed", x, rest, w_qk).ok


def test_the_remark_below_the_lemma():
    """Without the lemma, for spreads of any size: 1/(2 root 2) in place of 2."""
    for seed in range(100):
        x, rest, w_qk = four_questions.scattered(seed, largest=20.0).values()
        change = rest @ w_qk @ rest.mT
        shared = rest @ w_qk.mT @ x
        left = (shared + change).softmax(-1) @ rest - shared.softmax(-1) @ rest
        eta = four_questions.spread(change)
        size = (eta.sum() * eta.max()).sqrt() * composite_norm(rest)
        assert composite_norm(left) <= size / math.sqrt(8)


def test_the_pair_of_the_page_by_hand():
    """3 > 2 root 2, since 9 > 8."""
    pair = four_questions.worst_pair(2, 2)
    both = certify.exact(pair["a"] + pair["b"])
    squares = [four_questions.square(certify.exact(m)) for m in pair.values()]
    assert squares == [2, 2] and four_questions.square(both) == 9


@pytest.mark.claim("questions.right-side", role="counterexample")
def test_right_side_grows_from_a_residual_of_one_half():
    first = four_questions.right_side(9, "1/2", 1)
    assert first == Fraction(9, 8)
    assert four_questions.right_side(9, "1/2", 2) == Fraction(9**4, 2**9) > first
    for L in (1, 2, 5):
        assert four_questions.right_side(4, "1/2", L) == Fraction(1, 2)


@pytest.mark.claim("questions.low-rank", role="counterexample")
@pytest.mark.parametrize("n", [2, 4, 9])
def test_full_rank_collapses(n):
    """P = (I + 1 1'/n)/2, and X_l keeps rank n while its residual is halved."""
    states, attention = four_questions.corners(n, 6, base=n + 1)
    for P in attention:
        assert P[0][0] == Fraction(n + 1, 2 * n) and P[0][1] == Fraction(1, 2 * n)
        assert certify.rank(P) == n
    for l, X in enumerate(states):
        assert certify.rank(X) == n
        assert X[0][0] - X[0][1] == Fraction(1, 2**l)
        assert all(sum(row) == 1 for row in X)


@pytest.mark.claim("questions.low-rank", role="counterexample")
def test_rank_two_of_four_keeps_its_input():
    X, P = four_questions.clusters(2)
    assert P[0] == [Fraction(3, 8)] * 2 + [Fraction(1, 8)] * 2
    assert P[3] == [Fraction(1, 8)] * 2 + [Fraction(3, 8)] * 2
    assert certify.rank(P) == 2 == certify.rank(X)
    assert certify.product(P, X, certify.exact([[2, 0], [0, 1]])) == X


def test_a_star_in_fractions():
    """n = 5: half the attention of a leaf is for the hub, an eighth for each leaf."""
    objects = four_questions.star(5)
    x, w_q, w_k, _ = objects.values()
    P = torch.softmax((x @ w_q) @ (x @ w_k).mT / 2, -1)
    wanted = torch.tensor([1 / 2] + [1 / 8] * 4, dtype=torch.float64)
    assert (P[1:] - wanted).abs().max() < 4 * EPS
    by_hub = four_questions.derivative(**objects)[1:, 0, 0, 0]
    assert (by_hub - (1 / 2 + math.log(4) / 4)).abs().max() < 8 * EPS


def test_the_derivative_is_that_of_the_theorem():
    """(3.14), term by term, against automatic differentiation."""
    x, w_q, w_k, w = four_questions.in_a_ball(n=5).values()
    M = w_q @ w_k.mT / 2
    P = torch.softmax(x @ M @ x.mT, -1)
    found = four_questions.derivative(x, w_q, w_k, w)
    for i in range(5):
        apart = x - P[i] @ x
        covariance = apart.mT @ (P[i][:, None] * apart)
        for j in range(5):
            block = P[i, j] * (torch.eye(3) + torch.outer(apart[j], x[i] @ M))
            if i == j:
                block = block + covariance @ M.mT
            assert (found[i, :, j] - w.mT @ block).abs().max() < 1e-13


@pytest.mark.claim("questions.normalise", role="counterexample")
@pytest.mark.parametrize("entry", [3, 81])
def test_no_diagonal_from_the_right_will_do(entry):
    """M y = 1 has the one solution y = (1, 0), and no invertible diagonal has D^{-1} 1
    = y. 81 is as printed.
    """
    m = certify.exact([[1, 1], [1, entry]])
    assert certify.rank(m) == 2
    ones = certify.exact([[1], [1]])
    assert certify.product(m, certify.exact([[1], [0]])) == ones


@pytest.mark.claim("questions.sides", role="counterexample")
def test_weights_on_the_left_do_not_follow():
    objects = four_questions.tokens_and_weights()
    left = four_questions.reordering.broken("weights on the left", **objects)
    assert left.value == 99


@pytest.mark.claim("questions.rank-order", role="counterexample")
def test_two_logarithms():
    """At n = 2^m the quotient of the two orders is m, which no number bounds."""
    for m in (1, 10, 1000):
        log = (2**m).bit_length() - 1
        assert Fraction(log * log, log) == m


def test_the_composite_norm_is_far_from_the_spectral_norm_of_signs():
    """2 against sqrt(2), exactly 4^(1/4) times."""
    signs = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    verdict = four_questions.what_it_keeps(signs, signs)
    assert verdict.ok and verdict.value == pytest.approx(1, abs=1e-12)


@pytest.mark.bad_input
def test_options_are_known_and_hypotheses_asked_for():
    for rows in ([[1, 0], [1, 3]], [[1, 1]]):
        with pytest.raises(ValueError, match="rows must be n x n positive numbers"):
            four_questions.divide_rows(rows)
    with pytest.raises(ValueError, match="pairs: c and r_0 must be positive"):
        four_questions.right_side_falls([(0, 1)])
    with pytest.raises(ValueError, match="largest must be at most 1000"):
        four_questions.logarithms(1001)
    with pytest.raises(ValueError, match="norm must be one of .*'max'"):
        four_questions.small_change(**four_questions.star(3), norm="max")
    with pytest.raises(ValueError, match="y has 1 token"):
        four_questions.mean_as_centre(torch.ones(1, 3, dtype=torch.float64))
    g = torch.Generator().manual_seed(0)
    layers = random_layers(2, 1, 3, 2, bias=True, dtype=torch.float64, generator=g)
    with pytest.raises(ValueError, match="layer 1 has biases of values or outputs"):
        four_questions.only_the_product(torch.ones(2, 3).double(), layers)
    zero = torch.zeros(2, 2, dtype=torch.float64)
    with pytest.raises(ValueError, match="b is zero"):
        four_questions.quasi_triangle(zero + 1, zero)
    for toy in [(1.0, -1.0, 1.0), (0.0, 1.0, 1.0)]:
        with pytest.raises(ValueError, match="toys: a, w and v must be positive"):
            four_questions.fates([toy])
    with pytest.raises(ValueError, match="w is zero"):
        four_questions.small_change(**(four_questions.star(3) | {"w": zero[:1, :1]}))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (
            lambda s: {"x": s["x"][None]},
            r"one sequence \(n, d\), not a batch, got \(1,",
        ),
        (lambda s: {"w_q": s["w_q"][None]}, r"w_q must be one head .* got \(1, "),
        (lambda s: {"w_q": s["w_q"][:2]}, "w_q must have shape"),
    ],
)
def test_a_small_change_needs_one_sequence_and_one_head(broken, words):
    objects = four_questions.in_a_ball()
    with pytest.raises(ValueError, match=words):
        four_questions.small_change(**objects | broken(objects))


def test_the_factor_of_the_mean_by_hand():
    """Four tokens, 299 columns of (1, -1, -1, -1)/4: the quotient is 9/4 (301/303)."""
    verdict = four_questions.mean_as_centre(**four_questions.fan(n=4, d=300))
    assert verdict.value**2 == pytest.approx(301 / 303, rel=1e-12)
