"""What attnbook.theorems.paths cannot say: exact counterexamples and certificates of
the page notebooks/path_decomposition/paths.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from attnbook.theorems import paths
from attnlib import certify
from attnlib.attention import Layer, forward, from_torch, merged
from attnlib.certify import Verdict, at_most
from attnlib.paths import path_sums, path_terms, restrict

EPS = torch.finfo(torch.float64).eps


@pytest.mark.claim("paths.decomposition", role="certificate")
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("seed", [3, 4])
def test_the_decomposition_is_exact_in_fractions(seed, skip):
    assert paths.row_sums(**paths.integer_network(seed), skip=skip).value == 0


@pytest.mark.claim("paths.row-sums", role="counterexample")
@pytest.mark.parametrize("skip", [False, True])
def test_shift_invariance_is_not_enough(skip):
    """powers: shifts change nothing, and network and paths differ."""
    row, shifted = certify.exact([[1, 2], [2, 3]])
    assert paths.powers(row) == paths.powers(shifted)
    assert sum(paths.powers(row)) != 1
    objects = paths.integer_network()
    assert paths.row_sums(**objects, normaliser=paths.powers, skip=skip).value > 1


def test_the_misfit_that_the_page_and_the_erratum_print():
    misfit = paths.row_sums(
        x=[[1], [-2]],
        logits=[[[[1, 2], [3, 1]]]] * 2,
        weights=[[[[1]]]] * 2,
        value_biases=[[[1]]] * 2,
        biases=[[0]] * 2,
        normaliser=paths.powers,
    )
    assert misfit == Verdict(1.5, 0.0, False)


@pytest.mark.claim("paths.order", role="counterexample")
def test_the_printed_order():
    """Two tokens, two layers of one head: the network and the printed sum, by hand."""
    first = certify.row_stochastic([[3, 1], [1, 3]])
    second = certify.row_stochastic([[2, 2], [1, 3]])
    x = certify.exact([[1], [0]])
    one = certify.exact([[1]])
    network = certify.network(x, [[first], [second]], [[one], [one]])
    printed = certify.product(first, second, x, one, one)
    assert network == [[Fraction(1, 2)], [Fraction(3, 8)]]
    assert printed == [[Fraction(7, 16)], [Fraction(5, 16)]]


def test_softmax_takes_part_in_the_counterexample():
    """The same numbers from layers of one head with W = 1, to the last digits."""
    x = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    log3 = math.log(3)
    first = Layer(2 * log3 * one, one, one, one, b_q=-log3 * one[0])
    second = Layer(4 * log3 * one, one, one, one, b_q=-3 * log3 * one[0])
    layers = [first, second]
    _, (p1, p2) = forward(x, layers, return_attention=True)
    assert (p1[0] - torch.tensor([[3, 1], [1, 3]]) / 4).abs().max() <= 1e-15
    assert (p2[0] - torch.tensor([[2, 2], [1, 3]]) / 4).abs().max() <= 1e-15
    wanted = torch.tensor([[1 / 2], [3 / 8]], dtype=x.dtype)
    assert (forward(x, layers) - wanted).abs().max() < 4 * EPS
    assert paths.two_layers(x, layers).ok
    assert not paths.two_layers.broken("same order", x, layers).ok


@pytest.mark.claim("paths.sums", role="certificate")
@pytest.mark.parametrize("skip", [False, True])
def test_sums_against_fractions(skip):
    """The float recursion against exact interpolation on the same numbers: error at
    most 64 eps of the largest sum.
    """
    x, layers = paths.random_network(5, L=3, h=2, n=3, d=3, bias=False).values()
    _, attention = forward(x, layers, skip=skip, return_attention=True)
    # W_h is rounded once, before both evaluations, so that they see the same numbers.
    eye = torch.eye(3, dtype=x.dtype).expand(2, 3, 3)
    layers = [layer._replace(w_v=merged(layer)[0], w_o=eye) for layer in layers]
    got = path_sums(x, layers, skip=skip, attention=attention).by_length
    exact = certify.path_sum(
        certify.exact(x),
        [[certify.exact(p) for p in heads] for heads in attention],
        [[certify.exact(w) for w in layer.w_v] for layer in layers],
        skip=skip,
    )
    largest = 0
    gap = 0
    for k, matrix in enumerate(exact):
        for i, row in enumerate(matrix):
            for j, entry in enumerate(row):
                largest = max(largest, abs(entry))
                gap = max(gap, abs(Fraction(float(got[k, i, j])) - entry))
    assert at_most(gap, 64 * EPS * float(largest)).ok


@pytest.mark.claim("paths.recomputed", role="counterexample")
@pytest.mark.parametrize("c", [0.2, 0.7, 1.5])
def test_two_tokens_in_closed_form(c):
    """Example 1.2, heads of strengths c and 1/2 and weights 1 and -1/2: the terms and
    the subnetworks of two paths, both against tanh.
    """
    strength = torch.tensor([[[c]], [[0.5]]], dtype=torch.float64)
    weight = torch.tensor([[[1.0]], [[-0.5]]], dtype=torch.float64)
    ones = torch.ones(2, 1, 4, dtype=torch.float64)
    layers = [Layer(strength / 2 * ones, ones, weight, torch.ones_like(weight))] * 2
    x = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    terms = dict(path_terms(x, layers, skip=True))
    t = math.tanh(c)
    seen = 1 + t - 0.5 * math.tanh(0.5)  # what layer 2 sees in the full pass
    for path, in_full, alone in [
        ((None, 1), -0.5 * math.tanh(0.5 * seen**2), -0.5 * math.tanh(0.5)),
        ((0, 0), t * math.tanh(c * seen**2), t * math.tanh(c * t**2)),
    ]:
        assert abs(in_full - alone) > 0.01  # the two readings differ
        assert abs(float(terms[path][0]) - in_full) <= 1e-14
        subnetwork = forward(x, restrict(layers, path))
        assert abs(float(subnetwork[0]) - alone) <= 1e-14
    assert math.tanh(c * (1 + t) ** 2) > t > t * math.tanh(c * t * t)


# --- a theorem is for networks of one's own


def test_batches_and_single_precision():
    x, layers = paths.random_network().values()
    batch = torch.stack([x, x.flip(0)])
    assert paths.decomposition(batch, layers, skip=True).ok
    assert paths.decomposition(batch, layers, mask=torch.ones(6, 6).tril().bool()).ok
    single = [type(layer)(*(w.float() for w in layer)) for layer in layers]
    verdict = paths.decomposition(x.float(), single)
    assert verdict.ok and verdict.bound == 1e-4
    assert not paths.decomposition.broken("same order", x.float(), single).ok


def test_networks_in_training_are_welcome():
    """No warning about gradients, and weights that want them are left alone."""
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    layers = [from_torch(module)] * 2
    x, _ = paths.random_network().values()
    assert paths.decomposition(x, layers, skip=True).ok
    assert paths.sums_by_length(x, layers).ok
    assert module.in_proj_weight.requires_grad


def test_the_worst_of_a_batch_counts():
    """A large sequence must not hide that a small one fails."""
    x, layers = paths.random_network().values()
    batch = torch.stack([x, 1e14 * x])
    assert paths.decomposition(batch, layers, skip=True).ok
    assert not paths.decomposition.broken("without b", batch, layers, skip=True).ok


def test_batches_of_two_layers_and_of_signs():
    x, layers = paths.random_network(L=2, h=2, bias=False).values()
    batch = torch.stack([x, x.flip(0)])
    assert paths.two_layers(batch, layers).ok
    assert not paths.two_layers.broken("same order", batch, layers).ok
    assert paths.random_signs(batch, layers).ok
    assert paths.decomposition(0 * x, layers).value == 0


def test_a_verdict_is_true_as_the_theorem_is():
    x, layers = paths.random_network().values()
    assert paths.decomposition(x, layers)
    assert not paths.decomposition.broken("without b", x, layers)
    x, plain = paths.random_network(bias=False).values()
    assert str(paths.subnetworks(x, plain)).endswith(">= 0.1")
    assert str(paths.subnetworks(x, plain[:1])).endswith("< 0.1")


def test_what_a_user_prints():
    assert repr(paths.lengths([2, 2])) == "Verdict(value=0.0, bound=0.0, ok=True)"
    assert str(paths.lengths([2, 3])).endswith("> 0")


@pytest.mark.bad_input
def test_half_precision_wrong_depth_and_too_many_signs_are_refused():
    x, layers = paths.random_network().values()
    half = [type(layer)(*(w.bfloat16() for w in layer)) for layer in layers]
    with pytest.raises(ValueError, match="x is torch.bfloat16.*float64 or float32"):
        paths.decomposition(x.bfloat16(), half)
    with pytest.raises(ValueError, match="of two layers, got 3"):
        paths.two_layers(x, layers)
    with pytest.raises(ValueError, match="24 heads: at most 16"):
        paths.random_signs(x, layers * 2)
    with pytest.raises(ValueError, match="1,953,125 paths, more than 1,000,000"):
        paths.skip_connections(x, layers * 3)


@pytest.mark.bad_input
def test_hypotheses_are_asked_for():
    x, layers = paths.random_network(L=2).values()
    for run in (paths.two_layers, paths.cost, paths.subnetworks):
        with pytest.raises(ValueError, match="layer 1 has biases of values or outputs"):
            run(x, layers)
    with pytest.raises(ValueError, match="heads must hold at least one"):
        paths.lengths([])
    with pytest.raises(ValueError, match="whole numbers"):
        paths.lengths([2.0, 2.0])
    with pytest.raises(ValueError, match="a row of zeros"):
        paths.squares([0, 0])


def test_lengths_of_unequal_layers_by_hand():
    """(1 + 2 t)(1 + 3 t)(1 + 4 t) = 1 + 9 t + 26 t^2 + 24 t^3, not (1 + 3 t)^3."""
    assert paths.lengths((2, 3, 4)).value == 27 - 24
