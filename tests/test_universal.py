"""The room universal: literal against fast, dtypes, and bad input. Claims:
test_claims_the_proof_executed.py and test_claims_from_integers_to_softmax.py.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from attnlib import patterns
from attnlib.attention import hardmax
from attnlib.universal import (
    Shift,
    apply,
    approximate,
    approximate_equivariant,
    context_ids,
    contextual_map,
    decode,
    enough_scale,
    equivariant_ids,
    equivariant_map,
    grid_ids,
    network,
    ramp_mlp,
    run,
    run_standard,
    schedule,
    standard,
)
from attnlib.universal.context import _head, _least_constant


def half(x):
    return x / 2


def test_as_many_layers_as_are_allowed_can_be_built(monkeypatch):
    """2 tokens and 2 cells: 2 * 2^2 value layers, or 2 times one pair of cells."""
    monkeypatch.setattr(network, "LAYERS", 8)
    assert approximate(half, 2, 1, 2, patterns.dense(2))
    monkeypatch.setattr(network, "LAYERS", 2)
    assert approximate_equivariant(half, 2, 1, 2)


@pytest.mark.parametrize("value", [0, 3, 4, 20])
def test_head_is_hardmax_of_its_scores(value):
    g = np.random.default_rng(0)
    ids, mask = g.integers(0, 12, (50, 5)), g.random((5, 5)) < 0.5
    mask |= np.eye(5, dtype=bool)
    a = torch.from_numpy(ids).double()
    scores = a[:, None, :] * (a[:, :, None] - (value - 0.5))
    p = hardmax(scores.masked_fill(~torch.from_numpy(mask), -math.inf))
    assert torch.equal(
        (p @ a[..., None])[..., 0], torch.from_numpy(_head(ids, mask, value)).double()
    )


def test_integers_of_both_kinds_agree():
    numbers = contextual_map(patterns.star(4), 4, 1, 3)
    small = grid_ids(numbers)
    large = small.astype(object)
    for shift in schedule(numbers):
        small = apply(shift, small, numbers)
        large = apply(shift, large, numbers)
        assert (small == large).all()
    assert small.dtype == np.int64 and large.dtype == object
    beyond = contextual_map(patterns.window(5, 3), 5, 1, 4)
    assert beyond.bits > 62 and grid_ids(beyond).dtype == object
    assert type(context_ids(patterns.star(4), 4, 1, 3)[0, 0]) is int


def test_least_constant_is_the_least():
    for m in (1, 6, 164, 4540):
        assert _least_constant(m, 1) == m + 1
        for s in (2, 3, 7):
            c = _least_constant(m, s)
            enough = [((b + 1) ** s - b**s) * m < b**s for b in (c - 1, c)]
            assert enough == [False, True] and c <= 2 * s * m


@pytest.mark.parametrize(("largest", "constant"), [(39.5, 9), (40, 18)])
def test_the_constant_is_raised_where_a_target_would_meet_an_id(largest, constant):
    """Two hops: C^2 must be two above the largest row, here of 79 or 80 cells."""

    def target(x):
        return torch.full_like(x, -largest)

    net = approximate(target, 4, 1, 2, patterns.star(4), constant=9)
    assert net.mapping.constant == constant


def test_cells_are_exact_at_their_edges():
    """x = k / K is in cell k; the float below 1/3 is in cell 0, though three times it
    rounds to 1.
    """
    for K in (2, 3, 5, 7):
        net = approximate(lambda x: x, 2, 1, K, patterns.dense(2))
        edges = [np.nextafter(k / K, 0) for k in range(1, K)] + [
            k / K for k in range(K)
        ]
        for v in edges:
            cell = math.floor(Fraction(v) * K)
            x = torch.tensor([[[v], [0.0]]], dtype=torch.float64)
            assert float(net(x)[0, 0, 0]) == (cell + 0.5) / K


def test_a_constant_of_one_is_a_constant():
    """Too small for the shift to do its work, but allowed: that is a control."""
    given = {"n": 3, "d": 1, "cells": 2, "constant": 1}
    assert contextual_map(patterns.star(3), **given).constant == 1
    assert equivariant_map(**given).constant == 1


def test_a_path_that_runs_backwards():
    """Each token reads the next one; on a path each reads the one before it."""
    pattern = patterns.from_sets([[0, 1], [1, 2], [2, 3], [3, 0]])
    assert contextual_map(pattern, 4, 1, 2).path == (3, 2, 1, 0)


def test_a_path_of_ones_own_and_batches():
    back = contextual_map(patterns.window(3, 3), 3, 1, 4, path=(2, 1, 0))
    assert back.codes == (1, 0, 2)
    ids = context_ids(patterns.window(3, 3), 3, 1, 4, path=(2, 1, 0))
    assert len(set(ids.ravel())) == ids.size
    net = approximate(half, 3, 2, 2, patterns.star(3))
    x = torch.rand(2, 5, 3, 2, generator=torch.Generator().manual_seed(0))
    assert net(x).shape == x.shape and net(x).dtype == torch.float64
    assert torch.equal(net(x)[1, 3], net(x[1, 3]))


def test_decode_knows_every_id_and_nothing_else():
    numbers, ids = (
        contextual_map(patterns.star(4), 4, 1, 3),
        set(context_ids(patterns.star(4), 4, 1, 3).ravel()),
    )
    for near in sorted(ids)[::9]:
        for other in {near + k * numbers.constant for k in (-2, -1, 1, 2)} | {
            near - 1,
            near + 1,
        } - ids:
            if other not in ids:
                with pytest.raises(ValueError, match=f"{other} is no id of this map"):
                    decode(other, numbers)


def test_empty_batches_and_gradients():
    net = approximate(half, 2, 1, 2, patterns.dense(2))
    empty = torch.rand(0, 2, 1)
    assert (
        net(empty).shape == empty.shape
        and list(run(net, empty))[-1][1].shape == empty.shape
    )
    w = torch.full((1,), 0.5, dtype=torch.float64, requires_grad=True)
    learnt = approximate(lambda x: w * x, 2, 1, 2, patterns.dense(2))
    x = (
        torch.rand(3, 2, 1, generator=torch.Generator().manual_seed(0))
        .double()
        .requires_grad_()
    )
    assert (
        torch.from_numpy((list(run(learnt, x))[-1][1] / 2).astype(float)) == net(x)
    ).all()
    learnt(x).sum().backward()
    assert float(w.grad) == float((((2 * x.detach()).floor() + 0.5) / 2).sum())


@pytest.mark.parametrize(
    ("dtype", "digits"), [(torch.float64, 53), (torch.float32, 24)], ids=str
)
def test_how_large_ids_may_be(dtype, digits):
    """Two bits below the digits a network still gives its target, to 3 2^(bits -
    digits) cells; then it is refused.
    """
    x = torch.tensor([[a, b] for a in (0.25, 0.75) for b in (0.25, 0.75)], dtype=dtype)[
        ..., None
    ]
    for bits in range(digits - 8, digits - 1):
        net = approximate(
            torch.sin, 2, 1, 2, patterns.dense(2), constant=2 ** (bits - 3)
        )
        assert net.bits == bits
        off = (
            (
                run_standard(x, standard(net, dtype=dtype), net.mapping, scale=None)
                - net(x)
            )
            .abs()
            .max()
        )
        assert 2 * off <= 3 * 2.0 ** (bits - digits)
    with pytest.raises(
        ValueError,
        match=f"ids of {digits - 1} bits and quarters of them: "
        f"{dtype} holds {digits} bits",
    ):
        standard(
            approximate(
                torch.sin, 2, 1, 2, patterns.dense(2), constant=2 ** (digits - 4)
            ),
            dtype=dtype,
        )


def test_the_network_follows_the_device(device):
    net = approximate(half, 3, 1, 2, patterns.star(3))
    x = torch.rand(4, 3, 1, generator=torch.Generator().manual_seed(0))
    assert net(x.to(device)).device.type == device.type
    assert torch.equal(net(x.to(device)).cpu(), net(x))


# --- bad input


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n": 1}, "n must be an integer of at least 2"),
        ({"cells": 1}, "cells must be an integer of at least 2, got 1"),
        ({"pattern": patterns.fixed(4, 3)}, "condition 3 fails"),
        ({"pattern": patterns.from_sets([[1], [0, 1], [2], [3]])}, "condition 1"),
        ({"path": (0, 2, 1, 3)}, "condition 2 fails"),
        ({"path": (0, 1, 1, 3)}, "condition 2 fails"),
        ({"d": 10**6}, "within 1,000,000 bits, and n within 10,000"),
    ],
)
def test_bad_maps(given, message):
    good = {"pattern": patterns.star(4), "n": 4, "d": 1, "cells": 2}
    with pytest.raises(ValueError, match=message):
        contextual_map(**good | given)
    with pytest.raises(ValueError, match=message):
        approximate(half, **good | given)


@pytest.mark.bad_input
def test_bad_ids():
    small = contextual_map(patterns.star(4), 4, 1, 3)
    large = contextual_map(patterns.star(16), 16, 1, 4)
    for call, message in [
        (lambda: grid_ids(large), r"6.87e\+10 ids are more than"),
        (lambda: equivariant_ids(1, 1, 2), "n must be an integer of at least 2, got 1"),
        (lambda: equivariant_ids(12, 1, 4), "ids are more than"),
        (lambda: decode(5, small), "5 is no id"),
        (lambda: decode(5, equivariant_map(2, 1, 2)), "mapping has no positions"),
        (lambda: approximate_equivariant(half, 3, 1, 2), "2 cells for n = 3 rows"),
        (lambda: approximate_equivariant(half, 16, 2, 8), "15 value layers: more than"),
        (
            lambda: apply(Shift(0, 1.5, 3), np.arange(4), small),
            "shift.value must be an integer",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_as_many_ids_as_the_limit_are_listed(monkeypatch):
    """Four tokens in three cells: 3^4 rows of 4."""
    mapping = contextual_map(patterns.star(4), 4, 1, 3)
    monkeypatch.setattr("attnlib.universal.context.LIMIT", 324)
    assert grid_ids(mapping).shape == (81, 4)
    monkeypatch.setattr("attnlib.universal.context.LIMIT", 323)
    with pytest.raises(ValueError, match="324 ids are more than 323"):
        grid_ids(mapping)


def test_ids_may_have_more_digits_than_python_writes():
    huge = 10**5000
    assert _least_constant(huge, 1) == huge + 1
    pattern = patterns.dense(2)
    mapping = contextual_map(pattern, 2, 1, 2, constant=huge)
    ids = context_ids(pattern, 2, 1, 2, constant=huge)
    token, row = decode(ids[2, 1], mapping)
    assert (token, row) == (1, grid_ids(mapping)[2].tolist())
    with pytest.raises(ValueError, match="ident int of over 4300 digits is no id"):
        decode(ids.max() + 1, mapping)


@pytest.mark.bad_input  # the annotations say int
def test_sizes_may_be_integers_of_numpy():
    net = approximate(
        half,
        np.int64(2),
        np.int32(1),
        np.int64(2),
        patterns.dense(2),
        constant=np.int64(9),
    )
    assert {
        type(v) for v in (net.mapping.n, net.mapping.size, net.mapping.constant)
    } == {int}
    with pytest.raises(ValueError, match="6.87e.10 value layers"):
        approximate(half, np.int64(16), 1, np.int8(4), patterns.star(16))


@pytest.mark.bad_input
def test_ids_beyond_their_integers_are_refused():
    numbers = contextual_map(patterns.window(5, 3), 5, 1, 4)
    with pytest.raises(ValueError, match="ids need 69 bits, int64 holds 63"):
        apply(Shift(0, 1, 4), np.arange(5), numbers)
    small = contextual_map(patterns.star(4), 4, 1, 3)
    with pytest.raises(ValueError, match="shift.step must be one of 1 steps, got 1"):
        apply(Shift(1, 1, 3), np.arange(4), small)
    with pytest.raises(ValueError, match="ids must be integers, got float64"):
        apply(Shift(0, 1, 3), np.arange(4.0), small)
    with pytest.raises(ValueError, match="int16 holds 15"):
        apply(Shift(0, 1, 3), np.arange(4, dtype=np.int16), small)


@pytest.mark.bad_input
def test_bad_targets_and_inputs():
    star = patterns.star(3)
    for f, message in [
        (
            lambda x: x[:, :2],
            r"f must return a tensor of shape \(64, 3, 1\), got \(64, 2, 1\)",
        ),
        (lambda x: x * math.nan, "f at some centre holds NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            approximate(f, 3, 1, 4, star)
    with pytest.raises(
        ValueError,
        match="64 quantising, 62 attention and 6.87e.10 value layers: more than",
    ):
        approximate(half, 16, 1, 4, patterns.star(16))
    net, x = approximate(half, 3, 1, 4, star), torch.rand(2, 3, 1)
    for bad, message in [
        (x + 1, r"x must lie in \[0, 1\)"),
        (torch.ones(2, 3, 1), r"x must lie in \[0, 1\)"),
        (-x - 0.1, r"x must lie in \[0, 1\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            net(bad)


@pytest.mark.bad_input
def test_a_ramp_is_no_wider_than_its_interval():
    one = torch.ones(1)
    with pytest.raises(ValueError, match="ramp must be positive and at"):
        ramp_mlp(one, one, (0, 1), 0, 1, 2)
    net = approximate(half, 3, 1, 4, patterns.star(3))
    with pytest.raises(ValueError, match="support: only with clamp"):
        standard(net, support=True)


@pytest.mark.bad_input
def test_the_inverse_temperature_is_at_most_1e200():
    net = approximate(half, 2, 1, 2, patterns.dense(2))
    x = torch.rand(2, 1)
    assert run_standard(x, [], net.mapping, scale=1e200).shape == (2, 1)
    with pytest.raises(ValueError, match="scale must be at most 1e200"):
        run_standard(x, [], net.mapping, scale=math.nextafter(1e200, math.inf))


def test_the_id_of_one_unit_of_position_by_hand():
    """Two features in three cells: B = 3 + 9."""
    assert contextual_map(patterns.dense(2), 2, 2, 3).base == 12
    assert equivariant_map(2, 2, 3).base == 12


def test_enough_scale_by_hand():
    """n = N = 2, p = s = 1, C = 7, m = 6: 416 * 2^3 * 8^2 * 7 = 1490944."""
    numbers = contextual_map(patterns.dense(2), 2, 1, 2)
    assert enough_scale(numbers) == pytest.approx(32 / 9 * math.log(1490944))
