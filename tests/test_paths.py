"""The room paths: the fast sums against their literal twin, and on bad input. The
claims are in test_claims_paths.py.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib.attention import Encoder, Layer, forward, from_torch, random_layers
from attnlib.paths import (
    path_counts,
    path_norms,
    path_sums,
    path_term,
    path_terms,
    restrict,
)

EPS = torch.finfo(torch.float64).eps


def instance(
    heads=(2, 3),
    n=4,
    d=5,
    d_v=3,
    batch=(),
    bias=True,
    seed=0,
    dtype=torch.float64,
    device="cpu",
):
    g = torch.Generator().manual_seed(seed)

    def make(h):
        return random_layers(
            1, h, d, 2, d_v=d_v, bias=bias, generator=g, dtype=dtype, device=device
        )[0]

    layers = [make(h) for h in heads]
    return torch.randn(*batch, n, d, generator=g, dtype=torch.float64).to(
        device, dtype
    ), layers


def listed_sums(x, layers, skip):
    """The literal twin: every path by itself."""
    sums = [torch.zeros_like(x) for _ in range(len(layers) + 1)]
    for path, term in path_terms(x, layers, skip=skip):
        sums[len(path) - path.count(None)] = sums[len(path) - path.count(None)] + term
    return torch.stack(sums)


@pytest.mark.again
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 6),
    st.sampled_from([(), (1,), (3,), (2, 2)]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_sums_are_those_of_the_literal_twin(heads, n, d, d_v, batch, skip, bias, seed):
    x, layers = instance(heads, n, d, d_v, batch, bias, seed)
    got = path_sums(x, layers, skip=skip)
    wanted = listed_sums(x, layers, skip)
    assert got.by_length.shape == (len(heads) + 1, *x.shape) and got.bias.shape == (d,)
    assert (got.by_length - wanted).abs().max() <= 1e3 * EPS * max(
        1, wanted.abs().max()
    )
    y = forward(x, layers, skip=skip)
    assert (got.by_length.sum(0) + got.bias - y).abs().max() <= 1e3 * EPS * max(
        1, y.abs().max()
    )


def test_devices_and_dtypes_agree(device):
    wanted = path_sums(*instance(), skip=True)
    for dtype in (torch.float32, torch.float64):
        got = path_sums(*instance(dtype=dtype, device=device), skip=True)
        assert got.by_length.dtype == dtype and got.by_length.device.type == device.type
        for a, b in zip(got, wanted):
            assert (a.cpu().double() - b).abs().max() < 300 * torch.finfo(
                dtype
            ).eps * b.abs().max()


@pytest.mark.parametrize("d_v", [2, 4])  # narrower than d, and wider
@pytest.mark.parametrize("skip", [False, True])
def test_gradients_are_those_of_the_literal_twin(skip, d_v):
    x, layers = instance(d=3, d_v=d_v, n=3)
    weights = [w.requires_grad_() for layer in layers for w in layer]
    x.requires_grad_()
    probe = torch.randn(
        3, *x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype
    )
    fast = torch.autograd.grad(
        (path_sums(x, layers, skip=skip).by_length * probe).sum(),
        [x, *weights],
        allow_unused=True,
    )
    slow = torch.autograd.grad(
        (listed_sums(x, layers, skip) * probe).sum(), [x, *weights], allow_unused=True
    )
    for a, b in zip(fast, slow):
        assert (a is None) == (b is None)
        assert a is None or (a - b).abs().max() < 1e-11
    assert sum(a is not None for a in fast) > 10


@pytest.mark.parametrize(
    "how",
    [
        {"scale": 0.2},
        {"normalizer": "sparsemax"},
        {"mask": torch.ones(4, 4).tril().bool()},
    ],
    ids=str,
)
def test_the_forward_pass_may_be_masked_scaled_or_normalised_otherwise(how):
    x, layers = instance(batch=(2,))
    y, attention = forward(x, layers, skip=True, return_attention=True, **how)
    given = {"skip": True, "attention": attention}
    sums = path_sums(x, layers, **given)
    assert (sums.by_length.sum(0) + sums.bias - y).abs().max() < 256 * EPS
    if "mask" in how:
        masked = path_sums(x, layers, skip=True, **how)
        assert torch.equal(masked.by_length, sums.by_length)
    total = sum(term for _, term in path_terms(x, layers, **given)) + sums.bias
    assert (total - y).abs().max() < 256 * EPS
    assert (total - forward(x, layers, skip=True)).abs().max() > 0.01


@pytest.mark.parametrize("part", ["mlps", "norms", "norm_first", "mlp_skip"])
@pytest.mark.parametrize("run", [path_sums, path_terms, path_norms])
def test_parts_that_end_the_expansion_are_refused(run, part):
    """A feed-forward part or a norm has no path sum; silence would be a wrong one."""
    x, layers = instance()
    how = {"signs": 2, "generator": torch.Generator()} if run is path_norms else {}
    with pytest.raises(TypeError, match=part):
        run(x, layers, **how, **{part: [None, None]})


def test_a_module_can_be_watched_while_it_trains():
    """Views of a module's weights stay valid when an optimiser changes them in
    place.
    """
    module = torch.nn.MultiheadAttention(6, 2, batch_first=True, dtype=torch.float64)
    layers, x = [from_torch(module)] * 2, instance(d=6)[0]
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for _ in range(4):
        optimiser.zero_grad()
        loss = path_sums(x, layers, skip=True).by_length[2].square().sum()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    inside = x + module(x[None], x[None], x[None])[0][0]
    assert (forward(x, [from_torch(module)], skip=True) - inside).abs().max() < 64 * EPS


def test_half_precision_is_accepted_and_its_rows_are_watched():
    x, layers = instance(n=64, dtype=torch.bfloat16)
    attention = forward(x, layers, return_attention=True)[1]
    assert path_sums(x, layers, attention=attention).by_length.dtype == torch.bfloat16


def test_vmap_over_weights():
    x, layers = instance(bias=False)
    attention = forward(x, layers[:1], return_attention=True)[1]

    def run(w):
        return path_sums(
            x, [layers[0]._replace(w_o=w)], skip=True, attention=attention, check=False
        ).by_length

    w = torch.stack([layers[0].w_o, 2 * layers[0].w_o])
    assert torch.allclose(torch.func.vmap(run)(w)[1], run(w[1]), rtol=1e-12)


def test_frozen_attention_is_linear_in_the_input():
    x, layers = instance(bias=False)
    attention = forward(x, layers, return_attention=True)[1]
    twice = path_sums(2 * x, layers, attention=attention).by_length
    assert torch.allclose(
        twice,
        2 * path_sums(x, layers, attention=attention).by_length,
        rtol=1e-12,
        atol=0,
    )
    assert not torch.allclose(
        twice, path_sums(2 * x, layers).by_length, rtol=1e-3, atol=0
    )


def test_one_path_and_its_network():
    x, layers = instance((2, 3, 2))
    attention = forward(x, layers, skip=True, return_attention=True)[1]
    p, w = (
        attention[2][1] @ attention[0][0],
        [layer.w_v @ layer.w_o for layer in layers],
    )
    got = path_term(x, layers, (0, None, 1), attention)
    assert (got - p @ x @ w[0][0] @ w[2][1]).abs().max() < 64 * EPS
    kept = restrict(layers, (0, None, 1))
    assert [len(layer.w_q) for layer in kept] == [1, 1]
    assert torch.equal(kept[1].w_q[0], layers[2].w_q[1]) and torch.equal(
        kept[1].b_o, layers[2].b_o
    )
    assert restrict(layers, (None, None, None)) == []


@given(st.lists(st.integers(1, 200), min_size=1, max_size=40), st.booleans())
def test_counts_multiply_out(heads, skip):
    counts = path_counts(heads, skip=skip)
    assert len(counts) == len(heads) + 1
    assert sum(counts) == math.prod(h + skip for h in heads)
    assert counts[-1] == math.prod(heads) and counts[0] == (1 if skip else 0)


def test_paths_come_in_order_and_without_skips():
    x, layers = instance((2, 2))
    assert [p for p, _ in path_terms(x, layers)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [p for p, _ in path_terms(x, layers, skip=True)][:3] == [
        (None, None),
        (None, 0),
        (None, 1),
    ]


def test_norms_have_the_shape_of_the_batch_and_come_from_the_generator():
    x, layers = instance(batch=(2, 3))

    def run(seed):
        return path_norms(
            x, layers, signs=8, generator=torch.Generator().manual_seed(seed), skip=True
        )

    first, again, other = run(0), run(0), run(1)
    assert first.total_square.shape == first.standard_error.shape == (3, 2, 3)
    assert torch.equal(first.total_square, again.total_square) and not torch.equal(
        first.total_square, other.total_square
    )
    one = path_norms(
        x[1, 2], layers, signs=8, generator=torch.Generator().manual_seed(0), skip=True
    )
    assert torch.allclose(first.total_square[:, 1, 2], one.total_square, rtol=1e-12)
    assert (
        path_norms(
            x, layers, signs=8, generator=torch.Generator(), skip=False
        ).total_square[:2]
        == 0
    ).all()


# --- bad input


@pytest.mark.bad_input
def test_a_bad_network_is_refused_at_the_call():
    """And not when the first of the terms is asked for."""
    x, layers = instance()
    with pytest.raises(ValueError, match="x holds NaN"):
        path_terms(x / 0, layers)


@pytest.mark.bad_input
def test_bad_attention():
    x, layers = instance()
    good = forward(x, layers, return_attention=True)[1]
    for bad, message in [
        (good[:1], "one P a layer: 2, got 1"),
        ([good[0], 1.01 * good[1]], "P 1 = 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            path_sums(x, layers, attention=bad)
    averaged = [p.mean(0) for p in good]  # as torch returns weights by default
    with pytest.raises(ValueError, match="attention"):
        path_term(x, layers, (0, 0), averaged)
    for factor in (1.03, 2):
        half = [factor * p.bfloat16() for p in good]
        with pytest.raises(ValueError, match="P 1 = 1"):
            path_sums(
                x.bfloat16(),
                [Layer(*(w.bfloat16() for w in layer)) for layer in layers],
                attention=half,
            )
    with pytest.raises(ValueError, match="either attention or mask"):
        path_sums(x, layers, attention=good, mask=torch.ones(4, 4).bool())
    plain = [layer._replace(b_v=None, b_o=None) for layer in layers]
    path_sums(x, plain, attention=[2 * p for p in good])  # without biases any P will do


@pytest.mark.bad_input
def test_too_many_paths_are_counted_and_refused():
    x, layers = instance((12,) * 12)
    with pytest.raises(
        ValueError,
        match="23,298,085,122,481 paths, more than 1,000,000: path_sums",
    ):
        path_terms(x, layers, skip=True)


@pytest.mark.bad_input
def test_bad_paths_and_encoders():
    x, layers = instance()
    attention = forward(x, layers, return_attention=True)[1]
    with pytest.raises(ValueError, match="head 3 of 3"):
        path_term(x, layers, (0, 3), attention)
    with pytest.raises(ValueError, match="head 3 of 3"):
        restrict(layers, (0, 3))
    with pytest.raises(ValueError, match="layer 2 must be an integer of at least 1"):
        path_counts([2, 0])
    with pytest.raises(ValueError, match="signs must be an integer of at least 2"):
        path_norms(x, layers, signs=1, generator=torch.Generator())
    encoder = Encoder(layers, [], [])
    for run in (path_sums, path_terms, restrict):
        with pytest.raises(ValueError, match="Encoder: its field layers is its"):
            run(x, encoder) if run is not restrict else run(encoder, (0, 0))
