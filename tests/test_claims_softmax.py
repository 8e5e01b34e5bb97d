"""The claims of notebooks/sparse_universality/from_integers_to_softmax: each check, and
its control, on which it fails.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
import torch
from test_claims_universal import FAMILIES, target

from attnlib import patterns
from attnlib.attention import attention_matrix, feed_forward
from attnlib.certify import at_most
from attnlib.universal import (
    approximate,
    contextual_map,
    enough_scale,
    grid_ids,
    head,
    ramp_mlp,
    run_standard,
    schedule,
    standard,
    value_layers,
)

EPS = torch.finfo(torch.float64).eps


def network(name, size):
    return approximate(target, *size, FAMILIES[name](size[0]))


def centres(net):
    n, d, K = net.mapping.n, net.mapping.d, net.mapping.cells
    rows = torch.cartesian_prod(*[torch.arange(K)] * (n * d)).view(-1, n, d)
    return (rows.double() + 0.5) / K


def ids_by_softmax(net, scale):
    """Ids from floats at the centres, u . Z, and the integers that they should be, in
    the order of centres.
    """
    blocks = [b for b in standard(net) if b.kind in ("quantise", "attention")]
    u = torch.tensor([net.mapping.cells**i for i in range(net.mapping.d)]).double()
    x = centres(net)
    got = (net.mapping.cells * run_standard(x, blocks, net.mapping, scale=scale)) @ u
    return got, torch.tensor(net.ids[indices(net, x)].astype(float))


def indices(net, x):
    digits = (x * net.mapping.cells).floor().long() @ torch.tensor(
        [net.mapping.cells**i for i in range(net.mapping.d)]
    )
    return (
        digits
        @ torch.tensor(
            [net.mapping.size ** (net.mapping.n - 1 - j) for j in range(net.mapping.n)]
        )
    ).numpy()


# --- the leak


def check_leak(n, zeta, scale, *, lead=None):
    """What softmax gives to n - 1 scores that are zeta behind, against (n - 1)
    exp(-scale zeta) (1 + 16 eps); lead: the true lead, if it is another.
    """
    x = torch.ones(n, 1, dtype=torch.float64)
    x[0] = 1 + (zeta if lead is None else lead)
    one = torch.ones(1, 1, dtype=torch.float64)
    leak = attention_matrix(x, one, one, scale=scale)[1, 1:].sum()
    return at_most(leak / (n - 1) / math.exp(-scale * zeta), 1 + 16 * EPS * scale)


@pytest.mark.claim("universal.leak", role="check")
@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0])
@pytest.mark.parametrize("n", [2, 5, 100])
def test_leak(n, scale):
    assert check_leak(n, 0.5, scale).ok


@pytest.mark.claim("universal.leak", role="control")
def test_leak_without_a_lead():
    assert check_leak(5, 0.5, 40.0, lead=0.0).ok is False


@pytest.mark.claim("universal.leak", role="witness")
def test_the_leak_is_sharp():
    """One winner: exactly b / (1 + b) with b = (n - 1) exp(-scale zeta)."""
    verdict = check_leak(5, 0.5, 20.0)
    assert verdict.value == pytest.approx(1 / (1 + 4 * math.exp(-10)), abs=1e-12)


# --- inverse temperature


def check_temperature(name, size, *, lower=0.0, part=1.0):
    """The worst distance of an id from its integer at the proved inverse temperature,
    minus lower, against 1/8 part; floats add at most 2^-40 of the largest id.
    """
    net = network(name, size)
    got, wanted = ids_by_softmax(
        net, enough_scale(net.mapping) - lower + 32 / 9 * math.log(1 / part)
    )
    return at_most((got - wanted).abs().max(), part / 8 + float(wanted.max()) * 2**-40)


@pytest.mark.claim("universal.temperature", role="check")
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("dense", (3, 1, 4)),
        ("window", (3, 1, 4)),
        ("star", (4, 1, 3)),
        ("fixed", (4, 1, 3)),
        ("strided", (3, 2, 2)),
    ],
)
def test_temperature(name, size):
    assert (
        check_temperature(name, size).ok and check_temperature(name, size, part=1e-3).ok
    )


@pytest.mark.claim("universal.temperature", role="control")
def test_an_inverse_temperature_that_is_too_low():
    assert check_temperature("window", (3, 1, 4), lower=125.0).ok is False


@pytest.mark.claim("universal.temperature", role="witness")
def test_inverse_temperature_with_many_digits():
    """The toy of two tokens in mpmath, 60 digits: ids within tau / 8 of 30 32, 23 24,
    45 48, 38 40.
    """
    numbers = contextual_map(patterns.dense(2), 2, 1, 2)
    with mpmath.workdps(60):
        for part in (1, mpmath.mpf(10) ** -9):
            scale = mpmath.mpf(enough_scale(numbers)) + mpmath.mpf(32) / 9 * mpmath.log(
                1 / part
            )
            for row in grid_ids(numbers).tolist():
                a, exact = [mpmath.mpf(v) for v in row], list(row)
                for shift in schedule(numbers):
                    a = [
                        x
                        + shift.factor
                        * (
                            soft(a, x, shift.value, scale)
                            - (0 if shift.every else soft(a, x, shift.value + 1, scale))
                        )
                        for x in a
                    ]
                    exact = [
                        x
                        + shift.factor
                        * (
                            hard(exact, x, shift.value)
                            - (0 if shift.every else hard(exact, x, shift.value + 1))
                        )
                        for x in exact
                    ]
                assert max(abs(x - y) for x, y in zip(a, exact)) <= part / 8


def soft(a, own, value, scale):
    q = scale * (own - value + mpmath.mpf(1) / 2)
    w = [mpmath.exp(q * (k - (max(a) if q > 0 else min(a)))) for k in a]
    return sum(x * k for x, k in zip(w, a)) / sum(w)


def hard(a, own, value):
    return max(a) if own >= value else min(a)


# --- ramps


def check_ramps(cuts, slope, offset, ramp, *, on=False, claimed=None):
    """The largest |four ReLUs - jump| off the ramps, exact in fractions of the grid;
    claimed: a ramp said to be narrower.
    """
    width, unit = Fraction(ramp), torch.ones(1, dtype=torch.float64)
    mlp, worst, low, high = (
        ramp_mlp(unit, unit, cuts, slope, offset, ramp),
        0.0,
        *map(Fraction, cuts),
    )
    width = width if claimed is None else Fraction(claimed)
    for i in range(-160, 161):
        x = Fraction(i, 64)
        if low - width <= x < low or high - width < x < high:
            continue
        y = float(feed_forward(torch.full((1, 1), float(x), dtype=torch.float64), mlp))
        worst = max(
            worst,
            abs(
                y
                - float(
                    Fraction(slope) * x + Fraction(offset) if low <= x < high else 0
                )
            ),
        )
    return at_most(worst, 64 * EPS * 4 / float(ramp))


@pytest.mark.claim("universal.ramps", role="check")
@pytest.mark.parametrize("ramp", [0.5, 0.25, 2**-6])
@pytest.mark.parametrize(
    ("cuts", "slope", "offset"),
    [
        ((0.0, 1.0), -1.0, 0.0),
        ((1.0, 2.0), -1.0, 1.0),
        ((-0.5, 0.5), 0.0, 1.0),
        ((-1.0, 1.5), 2.0, -3.0),
    ],
)
def test_ramps(cuts, slope, offset, ramp):
    assert check_ramps(cuts, slope, offset, ramp).ok


@pytest.mark.claim("universal.ramps", role="control")
def test_on_its_ramp_it_is_no_jump():
    assert check_ramps((-0.5, 0.5), 0.0, 1.0, 0.25, claimed=0.125).ok is False


@pytest.mark.claim("universal.ramps", role="witness")
def test_a_ramp_by_hand():
    unit = torch.ones(1, dtype=torch.float64)
    y = feed_forward(
        torch.tensor([[-0.75], [-0.625], [-0.5], [0.25], [0.375], [0.5]]).double(),
        ramp_mlp(unit, unit, (-0.5, 0.5), 0.0, 1.0, 0.25),
    )
    assert y.flatten().tolist() == [0, 0.5, 1, 1, 0.5, 0]


# --- L^p


def check_lp(name, size, *, clamp=1.3, ramp=1e-2, samples=4000):
    """The sampled L^1 distance of the softmax network from f, against that of the exact
    network, d n / (8 K), and 2 beta d n on the share 1 - (1 - ramp)^(d n) of the cube,
    with three standard errors of that share.
    """
    net = network(name, size)
    n, d, K = size
    x = torch.rand(samples, n, d, generator=torch.Generator().manual_seed(3)).double()
    y = run_standard(
        x,
        standard(net, ramp=ramp, clamp=clamp),
        net.mapping,
        scale=enough_scale(net.mapping),
    )

    def l1(y):
        return float((y - target(x)).abs().sum((-2, -1)).mean())

    share = 1 - (1 - ramp) ** (d * n)
    share += 3 * math.sqrt(share / samples)
    return at_most(l1(y), l1(net(x)) + d * n / (8 * K) + 2 * 1.3 * d * n * share)


@pytest.mark.claim("universal.lp", role="check")
@pytest.mark.claim("universal.lp", role="witness")
@pytest.mark.parametrize(("name", "size"), [("window", (3, 1, 4)), ("star", (4, 1, 3))])
def test_lp(name, size):
    assert check_lp(name, size).ok
    assert check_lp(name, size, ramp=1e-3).value < check_lp(name, size).value


@pytest.mark.claim("universal.lp", role="control")
def test_without_clamps_raw_ids_come_out():
    assert check_lp("window", (3, 1, 4), clamp=None).ok is False


def test_the_share_on_the_ramps():
    net = network("window", (3, 1, 4))
    x = torch.rand(20_000, 3, 1, generator=torch.Generator().manual_seed(0)).double()
    y = run_standard(x, standard(net, ramp=0.05), net.mapping, scale=160.0)
    wrong = float(((y - net(x)).abs().amax((1, 2)) > 0.01).double().mean())
    assert wrong == pytest.approx(1 - 0.95**3, rel=0.05)


# --- order


def check_order(name, size, order="decreasing", *, ramp=0.25):
    """The largest hidden unit at a token that a value layer does not serve, over all
    grid inputs and layers.
    """
    net, worst = network(name, size), 0.0
    z = torch.tensor(net.ids.astype(float))[..., None]  # d = 1: a row is its id
    for block, (ident, _) in zip(
        [b for b in standard(net, order=order, value_ramp=ramp) if b.kind == "value"],
        layer_ids(net, order),
    ):
        hidden = torch.relu(z @ block.mlp.w_1 + block.mlp.b_1)
        served = z[..., 0] == ident
        worst = max(worst, float(hidden[~served].max()))
        z = torch.where(
            served[..., None], z + feed_forward(z, block.mlp, check=False), z
        )
    return at_most(worst, 0)


def layer_ids(net, order):
    return [(ident, row) for ident, row, _ in value_layers(net, order)]


@pytest.mark.claim("universal.order", role="check")
@pytest.mark.parametrize(
    ("name", "size"), [("window", (3, 1, 4)), ("star", (4, 1, 3)), ("dense", (3, 1, 4))]
)
def test_order(name, size):
    assert check_order(name, size).ok


@pytest.mark.claim("universal.order", role="control")
@pytest.mark.parametrize("order", ["increasing", "grid"])
def test_other_orders_have_large_hidden_units(order):
    verdict = check_order("window", (3, 1, 4), order)
    assert verdict.ok is False and verdict.value > 1e6


@pytest.mark.claim("universal.order", role="witness")
@pytest.mark.parametrize(("name", "size"), [("window", (3, 1, 4)), ("star", (4, 1, 3))])
def test_the_order_decides_in_float64(name, size):
    net = network(name, size)
    x = centres(net)

    def wrong(**how):
        return float(
            (
                (
                    run_standard(x, standard(net, **how), net.mapping, scale=165.0)
                    - net(x)
                )
                .abs()
                .amax((1, 2))
                > 0.01
            )
            .double()
            .mean()
        )

    assert wrong() == 0
    assert (
        wrong(order="increasing") > 0.5
        and wrong(order="grid") > 0.5
        and wrong(value_ramp=1e-3) > 0.5
    )


def test_hardmax_in_floats_is_the_integer_head():
    """attention.forward with hardmax against head, for every attention layer of a small
    network.
    """
    net = network("star", (4, 1, 3))
    got, wanted = ids_by_softmax(net, None)
    assert torch.equal(got, wanted)
    assert (
        head(grid_ids(net.mapping), net.mapping.masks[0], 0).max()
        == grid_ids(net.mapping).max()
    )
