"""What attnlib.theorems.escaping_collapse cannot say: an exact counterexample, and that
the certificate refuses what it cannot vouch for.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from attnlib.attention import Encoder, Mlp, Norm, forward, random_layers
from attnlib.theorems import escaping_collapse as claims

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


def network(L=2):
    g = torch.Generator().manual_seed(0)
    layers = random_layers(L, 2, 6, 3, bias=True, generator=g)
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
    assert claims.relative(x, [head], skip=True).ok


def test_stacked_heads_have_the_norm_of_the_stack():
    _, (layer,), _ = network(1)
    weights = layer.w_v @ layer.w_o
    stack = torch.linalg.matrix_norm(weights.flatten(0, 1), 2)
    each = torch.linalg.matrix_norm(weights, 2)
    assert claims.stacked_norm(layer) == pytest.approx(float(stack), rel=1e-12)
    assert torch.allclose(claims.value_norms(layer), each, rtol=1e-12)


@pytest.mark.bad_input
def test_what_the_certificate_refuses():
    x, layers, mlp = network(1)
    with pytest.raises(ValueError, match="one sequence"):
        claims.certificate(x[None], layers)
    with pytest.raises(ValueError, match="mean token is zero"):
        claims.certificate(torch.stack([x[0], -x[0]]), layers)
    steep = mlp._replace(activation=lambda t: 3 * t)
    with pytest.raises(ValueError, match="slope is 1, but the activation"):
        claims.certificate(x, layers, mlps=[steep])
    constant_mean = torch.tensor([[3.0, 1.0], [1.0, 3.0]], dtype=double)
    (head,) = random_layers(1, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="eps is 0, and a token or the mean"):
        claims.certificate(
            constant_mean, [head], norms=[(Norm(eps=0.0), None)], norm_first=True
        )
    with pytest.raises(ValueError, match="both must occur"):
        claims.sink(torch.ones(1, 2), torch.ones(1, 2, 1), torch.ones(1))
