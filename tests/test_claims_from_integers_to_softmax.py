"""What attnbook.theorems.from_integers_to_softmax cannot say: many digits, exact ramps,
and what is refused, of the page
notebooks/sparse_universality/from_integers_to_softmax.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import pytest
import torch

from attnbook.theorems import from_integers_to_softmax as softened
from attnlib import patterns
from attnlib.attention import feed_forward
from attnlib.universal import (
    approximate_equivariant,
    contextual_map,
    enough_scale,
    grid_ids,
    ramp_mlp,
    run_standard,
    schedule,
    standard,
)
from attnlib.universal.context import _head

double = torch.float64
NAN = math.nan


# --- inverse temperature


def soft(ids, own, value, beta):
    """A head at the inverse temperature beta, in mpmath."""
    query = beta * (own - value + mpmath.mpf(1) / 2)
    best = max(query * k for k in ids)
    weights = [mpmath.exp(query * k - best) for k in ids]
    return mpmath.fdot(weights, ids) / mpmath.fsum(weights)


def hard(ids, own, value, _):
    return max(ids) if own >= value else min(ids)


def after(row, mapping, read, beta=None):
    """The ids after all attention layers, for dense attention."""
    ids = list(row)
    for shift in schedule(mapping):
        moves = []
        for own in ids:
            move = read(ids, own, shift.value, beta)
            if not shift.every:
                move -= read(ids, own, shift.value + 1, beta)
            moves.append(shift.factor * move)
        ids = [own + move for own, move in zip(ids, moves)]
    return ids


@pytest.mark.claim("universal.temperature", role="certificate")
@pytest.mark.parametrize("part", [1, mpmath.mpf(10) ** -9])
def test_inverse_temperature_with_many_digits(part):
    """The toy of two tokens in mpmath, 60 digits: all ids within tau / 8."""
    mapping = contextual_map(patterns.dense(2), 2, 1, 2)
    with mpmath.workdps(60):
        beta = mpmath.mpf(enough_scale(mapping))
        beta += mpmath.mpf(32) / 9 * mpmath.log(1 / part)
        for row in grid_ids(mapping).tolist():
            exact = after(row, mapping, hard)
            found = after([mpmath.mpf(v) for v in row], mapping, soft, beta)
            assert max(abs(x - y) for x, y in zip(found, exact)) <= part / 8


@pytest.mark.parametrize(
    ("name", "n", "K", "inside"),
    [
        ("dense", 2, 2, 104 * 4 * 1 * 2**3 * 8**2 * 7),
        ("window", 3, 4, 104 * 9 * 1 * 4**4 * 330**4 * 165),
        ("fixed", 4, 3, 104 * 16 * 2 * 3**5 * 536**4 * 268),
    ],
)
def test_the_formula_in_numbers(name, n, K, inside):
    """n^2, p, N^(n+1), (C + 1)^(2s) and m + 1, each by hand."""
    mapping = contextual_map(softened.PATTERNS[name](n), n, 1, K)
    wanted = float(mpmath.mpf(32) / 9 * mpmath.log(inside))
    assert enough_scale(mapping) == pytest.approx(wanted, abs=1e-9)


def test_the_bound_on_ids_by_hand():
    """Two tokens, two cells: the largest id is m (C + 1) = 6 * 8."""
    verdict = softened.temperature(**softened.network_of("dense", 2, 1, 2))
    assert verdict.bound == 1 / 8 + 48 * 2**-40


def test_hardmax_in_floats_is_the_integer_head():
    """attention.forward with hardmax, for every attention layer of a small network."""
    network = softened.network_of("star", 4, 1, 3)["network"]
    mapping = network.mapping
    parts = [s for s in standard(network) if s.kind in ("quantise", "attention")]
    z = run_standard(softened._centres(mapping), parts, mapping, scale=None)
    ids = (3 * z[..., 0]).round()
    assert torch.equal(ids, torch.tensor(network.ids.astype(float)))
    start = grid_ids(mapping)
    assert _head(start, mapping.masks[0], 0).max() == start.max()


# --- ramps


@pytest.mark.claim("universal.ramps", role="certificate")
@pytest.mark.parametrize("ramp", [0.5, 0.25, 2**-6])
@pytest.mark.parametrize(
    ("cuts", "slope", "offset"),
    [((0.0, 1.0), -1.0, 0.0), ((-0.5, 0.5), 0.0, 1.0), ((-1.0, 1.5), 2.0, -3.0)],
)
def test_ramps_are_exact_at_points_with_few_digits(cuts, slope, offset, ramp):
    one = torch.ones(1, dtype=double)
    mlp = ramp_mlp(one, one, cuts, slope, offset, ramp)
    low, high = map(Fraction, cuts)
    width = Fraction(ramp)
    for i in range(-160, 161):
        x = Fraction(i, 64)
        if low - width <= x < low or high - width < x < high:
            continue
        jump = Fraction(slope) * x + Fraction(offset) if low <= x < high else 0
        y = feed_forward(torch.tensor([[float(x)]], dtype=double), mlp)
        assert Fraction(float(y)) == jump


def test_the_share_on_the_ramps():
    network = softened.network_of("window")["network"]
    g = torch.Generator().manual_seed(0)
    x = torch.rand(20_000, 3, 1, generator=g, dtype=double)
    y = run_standard(x, standard(network, ramp=0.05), network.mapping, scale=160.0)
    wrong = ((y - network(x)).abs().amax((1, 2)) > 0.01).double().mean()
    assert float(wrong) == pytest.approx(1 - 0.95**3, rel=0.05)


# --- universality in the mean


def test_blocks_fill_up_to_a_whole_cycle():
    """Nine blocks of the quantiser and one that is idle, before the sweep of a pattern
    of two steps.
    """
    network = softened.network_of("strided", 3, 1, 3)["network"]
    blocks = softened.blocks_of(standard(network), network.mapping)
    attends = [layer is not None for layer, _ in blocks]
    assert attends.index(True) == 10 and blocks[9] == (None, None)
    assert attends.count(True) == network.layers["attention"]


@pytest.mark.again
def test_the_order_decides_in_float64():
    network = softened.network_of("star", 4, 1, 3)["network"]
    x = softened._centres(network.mapping)

    def wrong(**how):
        y = run_standard(x, standard(network, **how), network.mapping, scale=165.0)
        off = (y - network(x)).abs().amax((1, 2))
        return float((off > 0.01).double().mean())

    assert wrong() == 0
    assert wrong(order="increasing") > 0.5 and wrong(order="grid") > 0.5
    assert wrong(value_ramp=1e-3) > 0.5


# --- a prompt that is a table


def average_distance(x, entries, sharpness):
    """E of the proof, in units of h, by mpmath."""
    places = [mpmath.mpf(2 * j + 1) / 2 for j in range(entries)]
    weights = [mpmath.exp(-sharpness * (x - p) ** 2) for p in places]
    lengths = [abs(x - p) for p in places]
    return mpmath.fdot(weights, lengths) / mpmath.fsum(weights)


@pytest.mark.claim("universal.prompt", role="certificate")
@pytest.mark.parametrize("sharpness", [1, 1.5, 4, 9])
@pytest.mark.parametrize("entries", [1, 2, 3, 7])
def test_the_average_distance_with_many_digits(entries, sharpness):
    """At most 1/2 + exp(-2 beta h^2) everywhere, and more than 1/2 between entries."""
    with mpmath.workdps(40):
        bound = mpmath.mpf(1) / 2 + mpmath.exp(-2 * mpmath.mpf(sharpness))
        points = [mpmath.mpf(i) / 40 for i in range(40 * entries + 1)]
        found = [average_distance(x, entries, sharpness) for x in points]
        assert max(found) <= bound
        if entries > 2:
            middle = average_distance(mpmath.mpf(1), entries, sharpness)
            assert middle > mpmath.mpf(1) / 2


def test_a_blunt_head_misses_by_5_7_times():
    right = softened.prompt(softened.tent, 128, slope=1.0)
    blunt = softened.prompt(softened.tent, 128, slope=1.0, sharpness=0.04)
    assert right.ok and blunt.ok is False
    assert 5.6 < blunt.value / right.value < 5.7


def test_at_the_sharpness_4_half_a_part_is_not_enough():
    """The cone between two entries errs by more than h / 2: the second term counts."""
    verdict = softened.prompt(softened.first_entry, 8, slope=1.0)
    assert 0.5003 < verdict.value < verdict.bound < 0.50034


def test_a_head_may_be_as_sharp_as_is_said():
    """Then half a part is enough, but for the tolerance."""
    verdict = softened.prompt(softened.first_entry, 8, slope=1.0, sharpness=1e6)
    assert verdict.ok and verdict.bound == 0.5 + 1e-9


# --- a theorem is for objects of one's own

WINDOW = softened.network_of("window")["network"]
X = torch.zeros(2, 3, 1, dtype=double)
SCORES = torch.tensor([2.0, 1.0], dtype=double)
FIRST = torch.tensor([True, False])
EQUIVARIANT = approximate_equivariant(lambda x: x, 2, 1, 2)


TWO = softened.network_of("dense", 2, 1, 2)["network"]  # of two cells
FAR = replace(TWO, values=torch.full_like(TWO.values, 12.0))
NAN_VALUES = replace(WINDOW, values=NAN * WINDOW.values)


def steep(x):
    return 3 * x


def mean_of(**changes):
    case = {"network": WINDOW, "f": softened.mixing, "x": X}
    case |= {"slope": 7.6, "largest": 1.3}
    return softened.in_the_mean(**(case | changes))


REFUSED = [
    (lambda: softened.leak(SCORES, ~FIRST, 1.0), "group must lead the others"),
    (lambda: softened.leak(SCORES, FIRST & ~FIRST, 1.0), "group must not be empty"),
    (lambda: softened.leak(SCORES, FIRST, -1.0), "scale must be at least 0"),
    (lambda: softened.leak(SCORES * 1e17, FIRST, 1.0), "for scores up to 2e"),
    (lambda: softened.leak(SCORES, FIRST, 1e308), "at most 1e12"),
    (lambda: softened.order_of_layers(NAN_VALUES), "network.values holds NaN"),
    (lambda: mean_of(x=X[:0]), r"x must be \(\*batch, n, d\), and not empty"),
    (lambda: mean_of(ramp=1e-17), "ramp must be at least 1e-9"),
    (lambda: softened.ramps((1e12, 1e12 + 1), 0.0, 1.0, 0.25), "of the larger cut"),
    (lambda: softened.temperature(EQUIVARIANT), "network has no positions"),
    (lambda: softened.temperature(WINDOW, part=2.0), "part must be at most 1"),
    (lambda: softened.temperature(WINDOW, scale=-3.0), "scale must be positive"),
    (lambda: softened.ramps((0.0, 1.0), 1.0, 0.0, 2.0), "ramp must be positive and"),
    (lambda: softened.ramps((0.0, 1.0), 1e101, 0.0, 0.1), "no number above 1e100"),
    (lambda: softened.ramps((0.0, 1.0), 1.0, 0.0, 1e-12), "a billionth"),
    (lambda: mean_of(x=X + 2), r"x must lie in \[0, 1\)"),
    (lambda: mean_of(f=lambda x: x[..., 0]), r"f\(x\) must have the shape of x"),
    (lambda: mean_of(f=lambda x: x + 9), r"largest must be at least \|f\(x\)\|"),
    (
        lambda: softened.order_of_layers(FAR),
        r"a wanted row has \|u . A\| = 24, and the least id is 23: it must be larger",
    ),
    (  # 512 entries are not too many, and a head so sharp is not too sharp
        lambda: softened.prompt(steep, 512, slope=1.0, sharpness=1e6),
        "slope must be at least that of f",
    ),
    (
        lambda: softened.prompt(steep, 8, slope=3.0, sharpness=1e6 + 1),
        "sharpness must be at most 1e6, got 1000001",
    ),
    (  # 1e-200 is not too small
        lambda: softened.prompt(steep, 2, slope=1e-200),
        "slope must be at least that of f",
    ),
    (
        lambda: softened.prompt(steep, 2, slope=math.nextafter(1e-200, 0)),
        "slope must be positive, 1e-200 or more",
    ),
    (
        lambda: softened.prompt(steep, 513, slope=3.0),
        "entries must be at most 512, got 513",
    ),
    (lambda: softened.prompt(torch.sum, 8, slope=1.0), "have the shape of x, .8,.,"),
    (lambda: softened.prompt(lambda x: x / 0, 8, slope=1.0), r"f\(x\) holds NaN"),
]


def nearly_all_of_the_ramps(share, *jump):
    return softened.ramps.__wrapped__(*jump, _share=share)


def test_narrow_ramps_zero_jumps_and_one_token():
    """Points lie on every ramp; a jump of zero and a group of all hold."""
    assert softened.ramps((-0.5, 0.5), 0.0, 1.0, 1e-6).ok
    half = softened.ramps.broken("half of the ramps", (-0.5, 0.5), 0.0, 1.0, 1e-6)
    assert not half.ok
    assert softened.ramps((0.0, 1.0), 0.0, 0.0, 0.1).ok
    rising, falling = ((0.0, 1.0), -1.0), ((-1.0, 0.0), 1.0)  # no jump at one cut
    for cuts, slope in (rising, falling):
        assert softened.ramps(cuts, slope, 1.0, 0.25).ok
        assert not nearly_all_of_the_ramps(0.996, cuts, slope, 1.0, 0.25).ok
    assert softened.leak(SCORES[:1], FIRST[:1], 1.0, zeta=0.5).ok


def test_points_near_a_cut_lie_a_hundredth_of_a_ramp_apart():
    """Ramps from 0 to 1 are e wide, and 0.015 e at their feet are not left out: 0.01 e
    from a foot the error is 1/100. It is divided by (1/2 + 2 e) / e, the most that a
    unit contributes, and the offset 1.
    """
    e = 2.0**-20
    verdict = nearly_all_of_the_ramps(0.985, (-0.5, 0.5), 0.0, 1.0, e)
    largest = (0.5 + 2 * e) / e + 1
    assert verdict.value == pytest.approx(0.01 / largest, rel=1e-6)


def test_batches_of_several_dimensions_are_judged_input_by_input():
    """The third token of the first input is on a ramp: only there the error may be
    larger than anywhere else.
    """
    network = softened.network_of("window")["network"]
    g = torch.Generator().manual_seed(0)
    x = torch.rand(9, 3, 1, generator=g, dtype=double) * 0.2
    x[0, 2] = (1 - 5e-4) / 4
    one_by_one = mean_of(network=network, x=x)
    together = mean_of(network=network, x=x.view(3, 3, 3, 1))
    assert one_by_one.ok and together.ok
    assert together.value == pytest.approx(one_by_one.value)


@pytest.mark.parametrize("scale", [1.0, 690.0, 720.0])
def test_a_leak_below_every_power_of_ten_of_floats_is_still_compared(scale):
    """Of two tokens one leads by 1; e^-720 is a number, and e^-1440 is none."""
    scores = torch.tensor([1.0, 0.0], dtype=torch.float64)
    group = torch.tensor([True, False])
    found = softened.leak(scores, group, scale)
    assert found.ok and found.value == pytest.approx(1 / (1 + math.exp(-scale)))
    assert not softened.leak(scores, group, scale, zeta=2.0).ok


@pytest.mark.bad_input
@pytest.mark.parametrize(("call", "words"), REFUSED, ids=[w for _, w in REFUSED])
def test_what_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
