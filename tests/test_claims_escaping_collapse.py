"""What attnbook.theorems.escaping_collapse cannot say: an exact counterexample, and
that the certificate refuses what it cannot vouch for.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from attnbook.theorems import escaping_collapse as claims
from attnlib.attention import Encoder, Layer, Mlp, Norm, forward, random_layers

double = torch.float64


@pytest.mark.claim("escaping.norm-side", role="counterexample")
def test_three_tokens_in_fractions():
    """Standard deviations 1, 2, 1; an affine map that sends x and 2 x to one image
    sends everything on their line there.
    """
    rows = [(1, -1), (2, -2), (-1, 1)]
    normed = []
    for row in rows:
        mean = Fraction(sum(row), 2)
        variance = sum((e - mean) ** 2 for e in row) / 2
        root = math.isqrt(int(variance))
        assert root**2 == variance
        normed.append(tuple((e - mean) / root for e in row))
    assert normed == [(1, -1), (1, -1), (-1, 1)]
    # 3 x_1 - 2 x_2 = x_3, an affine combination: weights sum to one, so every affine
    # map keeps it
    assert all(3 * a - 2 * b == c for a, b, c in zip(*rows))
    assert not all(3 * a - 2 * b == c for a, b, c in zip(*normed))


def test_the_longest_token_is_a_row():
    assert claims.longest(torch.tensor([[3.0, 4.0], [0.0, 1.0]])) == 5


def network(L=2):
    g = torch.Generator().manual_seed(0)
    layers = random_layers(L, 2, 6, 3, bias=True, dtype=torch.float64, generator=g)
    x = torch.randn(5, 6, dtype=double, generator=g) + 2
    mlp = Mlp(torch.eye(6, dtype=double), torch.eye(6, dtype=double))
    return x, layers, mlp


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_certificate_follows_the_network(norm_first):
    """Its last relative diameter is that of what forward returns, also for an
    Encoder.
    """
    x, layers, mlp = network()
    norms = [(Norm(), Norm())] * 2
    how = {"mlps": [mlp] * 2, "norms": norms, "norm_first": norm_first}
    parts = claims.certificate(x, layers, skip=True, **how)
    y = forward(x, layers, skip=True, **how)
    wanted = claims.relative_diameter(y)
    assert parts[-1].after == pytest.approx(wanted, rel=1e-12)
    assert len(parts) == (4 if norm_first else 8)
    encoder = Encoder(layers, [mlp] * 2, norms, norm_first)
    assert claims.certificate(x, encoder) == parts


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_final_norm_of_an_encoder_is_the_last_part(norm_first):
    x, layers, mlp = network()
    last = Norm(torch.arange(1.0, 7.0, dtype=double), torch.ones(6, dtype=double))
    norms = [(Norm(), Norm())] * 2
    encoder = Encoder(layers, [mlp] * 2, norms, norm_first, last)
    part = claims.certificate(x, encoder)[-1]
    wanted = claims.relative_diameter(forward(x, encoder))
    assert part.after == pytest.approx(wanted, rel=1e-12)
    assert (part.name, part.layer) == ("LayerNorm", None)
    assert claims.relative(x, encoder).ok


def test_a_part_says_where_it_is_and_what_it_promises():
    x, layers, _ = network()
    part = claims.certificate(x, layers, skip=True)[1]
    assert str(part).startswith(f"layer 2, attention: {part.before:.3g} -> ")
    assert f"bound {part.bound:.3g}" in str(part)


def test_a_void_bound_is_infinite_and_a_floor_needs_a_skip():
    x, layers, _ = network(1)
    (far,) = claims.certificate(x - x.mean(0) + 0.01, layers, skip=True)
    assert far.bound == math.inf and far.after < math.inf
    (bare,) = claims.certificate(x, layers)
    assert bare.floor == 0.0


def test_where_the_new_mean_is_zero_the_relative_diameter_is_infinite():
    """With W = -1, a skip and equal weights the mean is taken off."""
    head = claims.line_head(w=0.0, v=-1.0)
    x = torch.tensor([[3.0], [1.0]], dtype=double)
    (part,) = claims.certificate(x, [head], skip=True)
    assert part.growth == 0.0 and part.after == part.bound == math.inf
    (equal,) = claims.certificate(torch.ones_like(x), [head], skip=True)
    assert equal.floor == 0.0
    with pytest.raises(ValueError, match="none of 1 bounds is finite and no floor"):
        claims.relative(x, [head], skip=True)


def test_stacked_heads_have_the_norm_of_the_stack():
    _, (layer,), _ = network(1)
    weights = layer.w_v @ layer.w_o
    stack = torch.linalg.matrix_norm(weights.flatten(0, 1), 2)
    each = torch.linalg.matrix_norm(weights, 2)
    assert claims.stacked_norm(layer) == pytest.approx(float(stack), rel=1e-12)
    assert torch.allclose(claims.value_norms(layer), each, rtol=1e-12)


@pytest.mark.parametrize(
    ("tokens", "allowed"), [([[0], [5]], 1e-12), ([[99], [100]], 1e-11)]
)
def test_more_is_allowed_for_tokens_longer_than_ten_diameters(tokens, allowed):
    x = torch.tensor(tokens, dtype=double)
    nothing = torch.zeros(1, 1, 1, dtype=double)
    verdict = claims.skip_keeps(x, Layer(*[nothing] * 4))
    assert verdict.bound == pytest.approx(allowed, abs=0)


@pytest.mark.bad_input
def test_a_tenth_of_the_diameter_may_be_rounding_and_no_more():
    """One diameter apart and 1e12 diameters long: a tenth of 1e12 times 1e-12."""
    nothing = torch.zeros(1, 1, 1, dtype=double)
    layer = Layer(*[nothing] * 4)
    near = torch.tensor([[99e10], [99e10 - 1]], dtype=double)
    assert claims.skip_keeps(near, layer).bound == pytest.approx(0.099)
    far = torch.tensor([[101e10], [101e10 - 1]], dtype=double)
    with pytest.raises(ValueError, match="x: its diameter is within the rounding"):
        claims.skip_keeps(far, layer)


@pytest.mark.bad_input
def test_depth_asks_for_values_that_add_up_to_less_than_one():
    """At one the bound would divide by zero, and that is not what is said."""
    x, layer = claims.two_tokens(v=1.0).values()
    with pytest.raises((ValueError, ArithmeticError), match="up to 1, not below 1"):
        claims.depth(x, [layer])


def test_the_sum_norms_by_hand():
    """Columns add up to 4 and 6, rows to 3 and 7; 5 and 1 in the second matrix, where
    rows add up to 1 and 5.
    """
    matrices = torch.tensor([[[1.0, -2], [3, 4]], [[-1.0, 0], [4, -1]]])
    assert claims.sum_norms(matrices).tolist() == [[6, 5], [7, 5]]
    assert claims.sum_norms(matrices[0]).tolist() == [6, 7]


@pytest.mark.parametrize("dtype", [double, torch.float32])
def test_a_large_shared_row_costs_digits_and_not_the_truth(dtype):
    x, layers, _ = network(1)
    near = (x[:1] + (1e-8 if dtype == double else 1e-2) * x).to(dtype)
    layer = Layer(*(None if w is None else w.to(dtype) for w in layers[0]))
    assert claims.skip_keeps(near, layer).ok
    assert not claims.skip_keeps.broken("no skip", near, layer).ok
    g = torch.Generator().manual_seed(1)
    far = torch.randn(12, 6, dtype=double, generator=g)
    far = (far + (1e4 if dtype == double else 10)).to(dtype)
    assert claims.norm_side(far, Norm()).ok
    assert not claims.norm_side.broken("the best map on the right", far, Norm()).ok
    with pytest.raises(ValueError, match="x: its diameter is within the rounding"):
        claims.skip_keeps(x[:1] + 100 * torch.finfo(double).eps * x, layers[0])
    with pytest.raises(ValueError, match="is within its rounding"):
        claims.norm_side(1e13 + x, Norm())


def test_the_slope_of_gelu_holds_in_float32():
    t = torch.linspace(1.3, 1.5, 200001)[:, None]  # where gelu is steepest
    one = torch.ones(1, 1)
    gelu = torch.nn.functional.gelu
    claims.feed_forward_stretch(t, Mlp(one, one, activation=gelu), 1.13)
    with pytest.raises(ValueError, match="slope is 1.1, but"):
        claims.feed_forward_stretch(t[::20000], Mlp(one, one, activation=gelu), 1.1)


def test_the_slope_is_that_of_the_hidden_values_with_their_bias():
    """Up to h = 6 the square has a slope of at most 12; without the bias 5 it has 2."""
    t = torch.linspace(0, 1, 11, dtype=double)[:, None]
    one = torch.ones(1, 1, dtype=double)
    mlp = Mlp(one, 3 * one, 5 * one[0], activation=torch.square)
    assert claims.feed_forward_stretch(t, mlp, 12.0) == 36
    with pytest.raises(ValueError, match="slope is 11.5, but"):
        claims.feed_forward_stretch(t, mlp, 11.5)


def statements(x):
    """The theorems about the tokens x of one sequence, as calls."""
    _, layers, mlp = network(1)
    weak = [layers[0]._replace(w_v=0.01 * layers[0].w_v)]
    return {
        "skip": lambda: claims.skip_keeps(x, layers[0]),
        "depth": lambda: claims.depth(x, weak),
        "mlp": lambda: claims.feed_forward_factor(x, mlp),
        "norm": lambda: claims.norm_distances(x, Norm()),
        "causal": lambda: claims.causal(x, layers),
        "side": lambda: claims.norm_side(x, Norm()),
        "relative": lambda: claims.relative_diameter(x),
        "certificate": lambda: claims.certificate(x, layers),
        "diameter": lambda: claims.diameter(x),
        "part": lambda: claims.token_part("f", x, torch.relu, 1.0, skip=True),
    }


NAMES = sorted(statements(None))


@pytest.mark.bad_input
@pytest.mark.parametrize("name", NAMES)
def test_no_statement_takes_a_batch_no_token_or_few_digits(name):
    x, _, _ = network(1)
    statements(x)[name]()
    refused = {
        "x must be one sequence": torch.stack([x, 2 * x]),
        "x needs at least one token": x[:0],
        "Cast x and the layers to float64": x.half(),
    }
    for message, given in refused.items():
        with pytest.raises(ValueError, match=message):
            statements(given)[name]()


@pytest.mark.bad_input
@pytest.mark.parametrize("name", ["skip", "depth", "mlp", "norm", "causal"])
def test_equal_tokens_are_refused_by_name(name):
    x, _, _ = network(1)
    for equal in (x[:1], x[:1].expand(5, -1)):
        with pytest.raises(ValueError, match="x.* must (have .*two tokens|differ)"):
            statements(equal)[name]()


def test_what_is_attained_holds_in_float32():
    """Both sides are equal here, so that rounding decides."""
    x = torch.tensor([[1.0, -1, 0], [0, 1, -1], [-1, 0, 1]]) / 3
    eye = torch.eye(3)
    for factor in range(1, 30):
        mlp = Mlp(eye / factor, eye, activation=torch.nn.Identity())
        assert claims.feed_forward_factor(x, mlp).ok
        assert claims.norm_distances(x * factor, Norm(eps=0.0)).ok
    tokens, layers, _ = network(1)
    layer = Layer(*(None if w is None else w.float() for w in layers[0]))
    with pytest.raises(ValueError, match="x must be float64, got torch.float32"):
        claims.causal(tokens.float(), [layer])


@pytest.mark.bad_input
def test_silent_needs_tokens_that_differ():
    case = claims.silent_network(L=1)
    x = case["x"]
    for equal in (x[:1], torch.stack([x, x[:1].expand(6, -1)])):
        with pytest.raises(ValueError, match="two tokens that differ in each"):
            claims.silent(equal, case["layers"])


@pytest.mark.bad_input
def test_a_mean_that_is_rounding_is_zero_and_lengths_stay_in_range():
    x, layers, _ = network(1)
    centred = x - x.mean(0)
    assert centred.mean(0).any()  # zero up to rounding alone
    with pytest.raises(ValueError, match="mean token is zero"):
        claims.relative_diameter(centred)
    for factor in (1e160, 1e-170):
        with pytest.raises(ValueError, match="over- or underflow"):
            claims.relative_diameter(factor * x)


@pytest.mark.bad_input
def test_the_certificate_says_where_the_mean_is_lost():
    head = claims.line_head(w=0.0, v=-1.0)
    x = torch.tensor([[3.0], [1.0]], dtype=double)
    with pytest.raises(ValueError, match="layer 2, attention: x: the mean token is"):
        claims.certificate(x, [head] * 2, skip=True)


@pytest.mark.bad_input
def test_an_encoder_brings_its_own_parts():
    x, layers, mlp = network(1)
    encoder = Encoder(layers, [mlp], [(Norm(), Norm())])
    for part in ({"skip": True}, {"norm_first": True}, {"mlps": [mlp]}):
        with pytest.raises(ValueError, match="an Encoder brings its own parts"):
            claims.certificate(x, encoder, **part)


@pytest.mark.bad_input
def test_what_the_certificate_refuses():
    x, layers, mlp = network(1)
    with pytest.raises(ValueError, match="slope must be a finite number"):
        claims.certificate(x, layers, mlps=[mlp], slope="relu")
    flat = torch.cat([x, torch.ones(1, 6, dtype=double)])
    pair = (Norm(eps=0.0), None)
    with pytest.raises(ValueError, match="layer 1, attention: norms: eps is 0"):
        claims.certificate(flat, layers, norms=[pair], norm_first=True)
    with pytest.raises(ValueError, match="one sequence"):
        claims.certificate(x[None], layers)
    with pytest.raises(ValueError, match="mean token is zero"):
        claims.certificate(torch.stack([x[0], -x[0]]), layers)
    lost = Norm(gain=torch.full((6,), torch.nan, dtype=double))
    with pytest.raises(ValueError, match="^final_norm: "):
        claims.certificate(x, Encoder(layers, [mlp], [(Norm(), Norm())], False, lost))
    steep = mlp._replace(activation=lambda t: 3 * t)
    with pytest.raises(ValueError, match="slope is 1, but the activation"):
        claims.certificate(x, layers, mlps=[steep])
    constant_mean = torch.tensor([[3.0, 1.0], [1.0, 3.0]], dtype=double)
    (head,) = random_layers(
        1, 1, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    with pytest.raises(ValueError, match="eps is 0, and a token or the mean"):
        claims.certificate(
            constant_mean, [head], norms=[(Norm(eps=0.0), None)], norm_first=True
        )
    with pytest.raises(ValueError, match="both must occur"):
        claims.sink(torch.ones(1, 2), torch.ones(1, 2, 1), torch.ones(1))


@pytest.mark.bad_input
def test_a_bad_final_norm_is_refused_before_any_layer_is_run():
    """The activation is too steep for the slope as well, which is found in layer 1."""
    x, layers, mlp = network(1)
    steep = mlp._replace(activation=lambda t: 3 * t)
    last = Norm(torch.full((6,), math.nan, dtype=double))
    encoder = Encoder(layers, [steep], [(Norm(), Norm())], final_norm=last)
    with pytest.raises(ValueError, match="gain holds NaN"):
        claims.certificate(x, encoder)
    with pytest.raises(ValueError, match="layer 1, feed-forward: slope is 1, but"):
        claims.certificate(x, encoder._replace(final_norm=None))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_start_token_may_lie_near_zero_on_its_side(sign):
    """The head puts 3/4 on a start token of 1/2 where the content is 1, and 1/4 where
    it is -1: outputs 5/8 and -5/8. The first content is on the side of the start.
    """
    weights = torch.tensor([[3.0, 1.0], [1.0, 3.0]], dtype=double) / 4
    values = sign * torch.tensor([[[0.5], [1.0]], [[0.5], [-1.0]]], dtype=double)
    direction = torch.ones(1, dtype=double)
    verdict = claims.sink(weights, values, direction)
    assert verdict.value == 1 - 5 / 8 - 3 / 4
    other = claims.sink.broken("the other side", weights, values, direction)
    assert other.value == 1 - 5 / 8 - 1 / 4


def test_a_layer_that_adds_nothing_attains_the_bound_of_depth():
    x = torch.tensor([[1.0, 2.0], [1.0, 2.5]], dtype=double)
    nothing = torch.zeros(1, 2, 2, dtype=double)
    assert claims.depth(x, [Layer(*[nothing] * 4)]).value == 1


def test_the_numbers_of_a_part_by_hand():
    """Four tokens and c = 2: (1 - 1/4) 2 for the mean, 1 + 2 with the skip."""
    x = torch.tensor([[1.0, 2.0], [1.0, 2.5], [3.0, 1.0], [0.0, 0.0]], dtype=double)
    part, _ = claims.token_part("f", x, torch.relu, 2.0, skip=True)
    assert (part.slip, part.stretch) == (1.5, 3.0)
    far = replace(part, before=0.4, growth=1.5)
    assert far.bound == pytest.approx(3.0 * 0.4 / (1.5 - 1.5 * 0.4), rel=1e-15)


def test_the_rounding_is_added_to_a_bound():
    """Weights of zero under a skip change nothing: after and bound agree, and lie only
    three times above the rounding that is allowed.
    """
    spare = claims.rounding(torch.ones(1, dtype=double))
    x = torch.tensor([[1.0, 1.0 + 3 * spare]], dtype=double).T
    nothing = torch.zeros(1, 1, 1, dtype=double)
    assert claims.relative(x, [Layer(*[nothing] * 4)], skip=True).ok
