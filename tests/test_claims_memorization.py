"""The claims of notebooks/one_layer_memorization/memorization: each check, and its
control, on which it fails.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import pairwise, product

import pytest
import torch

from attnlib import certify
from attnlib.certify import Verdict, at_most
from attnlib.memorize import (
    context_ids,
    count_parameters,
    dense_block,
    fit_deep,
    fit_line,
    interpolate,
    memorize,
    relu_layer,
)

F64 = torch.float64


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# --- exact labels


def exact_data(count, seed, least):
    """Fractions: ids, labels, and knots at random shares theta >= least of each gap; a
    share of 0 puts the knot on its own id.
    """
    rng = random.Random(seed)
    t = sorted(Fraction(v, 997) for v in rng.sample(range(997), count))
    y = [Fraction(rng.randrange(-5, 6), rng.randrange(1, 4)) for _ in t]
    shares = [
        least + (1 - least) * Fraction(rng.randrange(1, 9), 8) if least else Fraction(0)
        for _ in t
    ]
    return t, y, [v - share * (v - u) for share, u, v in zip(shares, [t[0] - 1, *t], t)]


def misfits(count, seed=0, *, least=Fraction(1, 20)):
    """Coefficients one after the other, in Fractions; ids that miss their label. A unit
    with its knot on its own id is silent there.
    """
    t, y, b = exact_data(count, seed, least)
    a = []
    for j, v in enumerate(t):
        rest = y[j] - sum(c * max(v - k, 0) for c, k in zip(a, b))
        a.append(rest / (v - b[j]) if v > b[j] else Fraction(0))

    def f(v):
        return sum(c * max(v - k, 0) for c, k in zip(a, b))

    return sum(f(v) != w for v, w in zip(t, y))


def check_exact(count, seed=0, *, least=Fraction(1, 20)):
    """How many ids miss their label; knots strictly left of their ids."""
    return at_most(misfits(count, seed, least=least), 0)


@pytest.mark.claim("memorize.exact-labels", role="check")
@pytest.mark.parametrize(("count", "seed"), [(1, 0), (2, 1), (5, 2), (40, 3)])
def test_every_id_gets_its_label(count, seed):
    assert check_exact(count, seed).ok


@pytest.mark.claim("memorize.exact-labels", role="control")
def test_a_knot_on_its_own_id_is_too_late():
    verdict = check_exact(12, least=0)
    assert verdict.ok is False and verdict.value >= 6


def check_unique(count, seed=0, *, least=Fraction(1, 20)):
    """How many coefficients are free: D minus the rank of the table relu(t_i - b_j)."""
    t, _, b = exact_data(count, seed, least)
    table = [[max(v - k, Fraction(0)) for k in b] for v in t]
    return at_most(count - certify.rank(table), 0)


@pytest.mark.claim("memorize.exact-labels", role="check")
@pytest.mark.parametrize(("count", "seed"), [(1, 0), (5, 2), (12, 3)])
def test_no_coefficient_is_free(count, seed):
    assert check_unique(count, seed).ok


@pytest.mark.claim("memorize.exact-labels", role="control")
def test_knots_on_their_ids_leave_one_free():
    verdict = check_unique(12, least=0)
    assert verdict.ok is False and verdict.value == 1


def line_data(count, seed=0):
    t = torch.rand(count, generator=generator(seed), dtype=F64).sort().values
    return t, torch.randint(10, (count, 2), generator=generator(seed + 1)).double()


def check_kernels(count=200, seed=0):
    """Dense network at the ids and, between them, against the sorted search: 1e-6 is
    2e5 D range eps / gap here.
    """
    t, y = line_data(count, seed)
    points, line = (
        torch.cat([t, t[:-1] + t.diff() / 3, t[-1:] + 0.1, t[:1] - 1]),
        fit_line(t, y),
    )
    off = (relu_layer(points, line, chunk=7000) - interpolate(points, t, y)).abs() / (
        1 + interpolate(points, t, y).abs()
    )
    return at_most(
        max(
            float((relu_layer(t, line) - y).abs().max()),
            float((interpolate(t, t, y) - y).abs().max()),
            float(off.max()),
        ),
        1e-6,
    )


@pytest.mark.claim("memorize.exact-labels", role="check")
def test_the_kernels_are_that_network():
    assert all(check_kernels(seed=s).ok for s in range(3))


@pytest.mark.claim("memorize.exact-labels", role="witness")
def test_three_ids_by_hand():
    """Ids 1, 2, 4 with labels 3, 1, 5 and t_0 = 0: slopes 3, -2, 2, coefficients 3, -5,
    4.
    """
    t, y = (
        torch.tensor([1.0, 2, 4], dtype=F64),
        torch.tensor([[3.0], [1], [5]], dtype=F64),
    )
    line = fit_line(t, y)
    assert line.knots[1:].tolist() == [1, 2] and line.slopes[1:, 0].tolist() == [-2, 2]
    assert torch.equal(relu_layer(t, line), y)


# --- the place of the knots


def slopes(theta, labels, steps):
    """Exact slopes by the recursion of the theorem, and the largest |rise|."""
    s, found, rises = Fraction(0), [], []
    for y, x, h in zip(labels, [0, *labels], steps):
        rises.append((Fraction(y) - x) / h)
        s = (rises[-1] - (1 - theta) * s) / theta
        found.append(s)
    return found, max(map(abs, rises))


def check_bounded(theta, bound, *, count=60, seed=None):
    """The largest slope over the largest rise, the one from (t_0, 0) included; zigzag
    labels, or random ones on random steps.
    """
    rng = random.Random(seed)
    steps = (
        [Fraction(1)] * count
        if seed is None
        else [Fraction(rng.randrange(1, 50)) for _ in range(count)]
    )
    labels = (
        [(i + 1) % 2 for i in range(count)]
        if seed is None
        else [rng.randrange(10) for _ in range(count)]
    )
    found, rise = slopes(theta, labels, steps)
    worst = max(map(abs, found)) / rise
    return Verdict(float(worst), float(bound), worst <= bound)  # compared as fractions


@pytest.mark.claim("memorize.knots", role="check")
@pytest.mark.parametrize(
    "theta", [Fraction(11, 20), Fraction(3, 5), Fraction(4, 5), Fraction(1)]
)
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_slopes_stay_bounded(theta, seed):
    assert check_bounded(theta, 1 / (2 * theta - 1), seed=seed).ok


@pytest.mark.claim("memorize.knots", role="control")
@pytest.mark.parametrize("theta", [Fraction(9, 20), Fraction(1, 2)])
def test_at_half_or_less_they_do_not(theta):
    verdict = check_bounded(theta, 10)
    assert verdict.ok is False and verdict.value > 100


@pytest.mark.claim("memorize.knots", role="witness")
def test_zigzag_in_closed_form():
    """|s_j| = (r^j - 1) / (1 - 2 theta) with r = (1 - theta) / theta; 2j at one half
    (first rise 1: labels 1, 0, 1, ...).
    """
    for theta in (Fraction(2, 5), Fraction(3, 5), Fraction(1, 3)):
        found, _ = slopes(theta, [(i + 1) % 2 for i in range(12)], [Fraction(1)] * 12)
        r = (1 - theta) / theta
        assert [abs(s) for s in found] == [
            (r**j - 1) / (1 - 2 * theta) for j in range(1, 13)
        ]
    assert [
        abs(s) for s in slopes(Fraction(1, 2), [1, 0] * 4, [Fraction(1)] * 8)[0]
    ] == [2 * j for j in range(1, 9)]


def check_slopes(theta, count=30):
    """The slopes that fit_line returns, against the recursion in Fractions of the same
    floats; 1e-9 relative.
    """
    t, y = line_data(count)
    steps = [Fraction(b) - Fraction(a) for a, b in zip(t.tolist(), t.tolist()[1:])]
    steps = [Fraction(float(t.diff().median())), *steps]
    found, _ = slopes(Fraction(theta), [int(v) for v in y[:, 0]], steps)
    wanted = torch.tensor([float(s) for s in found], dtype=F64)
    return at_most(
        ((fit_line(t, y, theta=theta).slopes[:, 0] - wanted) / wanted.abs().max())
        .abs()
        .max(),
        1e-9,
    )


@pytest.mark.claim("memorize.knots", role="check")
@pytest.mark.parametrize("theta", [1.0, 0.75, 0.4])
def test_the_kernel_follows_the_recursion(theta):
    assert check_slopes(theta).ok


# --- the width


def tent(x, times):
    """The tent map, `times` layers of two units: relu(2 x) - relu(4 x - 2)."""
    for _ in range(times):
        x = torch.relu(2 * x) - torch.relu(4 * x - 2)
    return x


# -relu(t) + 2.5 relu(1 - t) - 3 relu(2 - t), as (coefficient, direction, knot).
THREE_UNITS = [(-1, 1, 0), (Fraction(5, 2), -1, 1), (-3, -1, 2)]


def sharpest(units):
    """Units, from three on, each of which crosses the level -3.51 as often as it can:
    each further unit turns the network round once more.
    """
    turns = [(2 * (-1) ** j, 1, 5 + 3 * j) for j in range(units - 3)]
    return THREE_UNITS + turns


def crossings(network, layers=1):
    """How often a network crosses a level, the level where it does most often; exact,
    by the values at the knots and far out. Several layers: the tent map and 1/2.
    """
    if layers > 1:
        f = tent(torch.linspace(0, 1, 40001, dtype=F64), layers) - 0.5
        return int((torch.sign(f[f != 0]).diff() != 0).sum())
    knots = sorted(knot for _, _, knot in network)
    values = []
    for t in (knots[0] - 10**6, *knots, knots[-1] + 10**6):
        values.append(sum(a * max(s * (t - b), 0) for a, s, b in network))
    levels = {Fraction(-351, 100)}
    for low, high in pairwise(sorted(values)):
        levels.add(Fraction(low + high) / 2)
    found = []
    for level in levels:
        found.append(sum((u > level) != (v > level) for u, v in pairwise(values)))
    return max(found)


def check_crossings(units, *, layers=1, draws=100):
    """The most crossings among random networks and the sharpest, against units + 1."""
    rng = random.Random(units)
    networks = [sharpest(units)]
    for _ in range(draws):
        coefficients = [rng.choice((-1, 1)) * rng.randint(1, 9) for _ in range(units)]
        directions = rng.choices((-1, 1), k=units)
        knots = rng.sample(range(3 * units), units)
        networks.append(list(zip(coefficients, directions, knots)))
    return at_most(max(crossings(net, layers) for net in networks), units + 1)


@pytest.mark.claim("memorize.width", role="check")
@pytest.mark.parametrize("units", [3, 4, 10, 25])
def test_one_hidden_layer_crosses_once_more_than_it_has_units(units):
    verdict = check_crossings(units)
    assert verdict.ok and verdict.value == units + 1


@pytest.mark.claim("memorize.width", role="control")
def test_several_layers_cross_often():
    verdict = check_crossings(20, layers=10, draws=0)
    assert verdict.ok is False and verdict.value == 2**10


@pytest.mark.claim("memorize.width", role="witness")
def test_three_units_tell_five_ids_apart():
    """Labels 0, 1, 0, 1, 0 by the level -3.51: D = 5 and m = D - 2."""
    t = torch.tensor([-1.0, 0, 1, 2, 4], dtype=F64)
    f = -torch.relu(t) + 2.5 * torch.relu(1 - t) - 3 * torch.relu(2 - t)
    assert (f > -3.51).tolist() == [False, True, False, True, False]


@pytest.mark.claim("memorize.width", role="witness")
def test_a_zigzag_is_met_with_a_unit_an_id():
    t, y = torch.arange(1.0, 31, dtype=F64), (torch.arange(30) % 2).double()[:, None]
    f = interpolate(torch.linspace(1, 30, 5001, dtype=F64), t, y)[:, 0] - 0.5
    assert int((f.sign().diff() != 0).sum()) >= 29


# --- the block


def sets(count=20, n=4, tokens=12, d=6, seed=0):
    g, chosen = generator(seed), {}
    vocabulary = torch.randn(tokens, d, generator=g, dtype=F64)
    while len(chosen) < count:
        chosen[tuple(sorted(torch.randperm(tokens, generator=g)[:n].tolist()))] = 1
    return vocabulary[torch.tensor(list(chosen))], torch.randint(
        10, (count, n), generator=g
    )


def missed_tokens(seed, normalizer):
    """Tokens that miss their label by more than 1e-6 in the memorizer, in the dense
    block, and in a network on ids by this normaliser; and ids too many.
    """
    x, y = sets(seed=seed)
    again = [t[:5].flip(1) for t in (x, y)]
    net = memorize(
        torch.cat([x, again[0]]), torch.cat([y, again[1]]), generator=generator(seed)
    )
    ids = context_ids(x, net.v, net.report.beta, normalizer=normalizer)
    t = ids.token + net.report.w * ids.context
    kept, where = torch.unique(t, return_inverse=True)
    first = torch.zeros(len(kept), dtype=torch.long)
    first.scatter_(0, where.flatten(), torch.arange(y.numel()))
    labels = y.flatten()[first].double()[:, None]
    read = relu_layer(t, fit_line(kept, labels))[..., 0]
    missed = (net(x) != y).sum() + ((read - y).abs() > 1e-6).sum()
    if normalizer == "softmax":
        missed += ((dense_block(net)(x)[..., 0] - y).abs() > 1e-6).sum()
    return int(missed) + abs(net.report.ids - y.numel())


def check_block(seed=0, *, normalizer="softmax"):
    """How many tokens are missed; infinite if the library refuses to memorize them."""
    try:
        missed = missed_tokens(seed, normalizer)
    except ValueError:
        missed = math.inf
    return at_most(missed, 0)


@pytest.mark.claim("memorize.block", role="check")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_block_memorizes(seed):
    assert check_block(seed).ok


@pytest.mark.claim("memorize.block", role="control")
def test_hardmax_ids_cannot():
    verdict = check_block(normalizer="hardmax")
    assert verdict.ok is False and 20 < verdict.value < math.inf


def check_count(count=20, n=4, d=6, *, biases=True):
    """Numbers in the dense block, against 4(s + d) + d(2 n N + d) + n N + d with s =
    1.
    """
    x, y = sets(count, n, d=d)
    got = dense_block(memorize(x, y, generator=generator())).parameters
    wanted = 4 * (1 + d) + d * (2 * n * count + d) + (n * count + d if biases else 0)
    return Verdict(
        got,
        wanted,
        got
        == wanted
        == count_parameters(n * count, d).total - (0 if biases else n * count + d),
    )


@pytest.mark.claim("memorize.block", role="check")
@pytest.mark.parametrize(("count", "n", "d"), [(20, 4, 6), (7, 5, 3), (1, 2, 1)])
def test_the_counter_is_the_formula(count, n, d):
    assert check_count(count, n, d).ok


@pytest.mark.claim("memorize.block", role="control")
def test_the_formula_leaves_the_biases_out():
    assert check_count(biases=False).ok is False


@pytest.mark.claim("memorize.block", role="witness")
def test_the_report_counts_ids():
    x, y = sets(30)
    report = memorize(
        torch.cat([x, x]), torch.cat([y, y]), generator=generator()
    ).report
    assert report.ids == 120 and report.pairs == 240 and report.error == 0


# --- depth


def random_ids(count, bits, seed=0):
    rng = random.Random(seed)
    return sorted(rng.sample(range(2**bits), count)), [
        rng.randrange(10) for _ in range(count)
    ]


def check_deep(ids, labels, *, bits, tried=40):
    """Parameters over 2 sqrt(6 D K) + K + 10, K = 18 (bits + label bits) + 40; infinite
    if a tried id misses its label.
    """
    net, K = fit_deep(ids, labels), 18 * (bits + max(labels).bit_length()) + 40
    some = random.Random(1).sample(range(len(ids)), min(tried, len(ids)))
    right = all(net(ids[i]) == labels[i] for i in some)
    return at_most(
        net.parameters / (2 * math.sqrt(6 * len(ids) * K) + K + 10)
        if right
        else math.inf,
        1,
    )


@pytest.mark.claim("memorize.deep", role="check")
@pytest.mark.parametrize(("count", "bits"), [(3, 4), (100, 20), (1000, 12), (5000, 32)])
def test_depth_needs_the_root(count, bits):
    assert check_deep(*random_ids(count, bits), bits=bits).ok


@pytest.mark.claim("memorize.deep", role="control")
def test_ids_of_many_bits_break_the_bound():
    """Ids 2^0 .. 2^599 need 600 bits, not 32."""
    verdict = check_deep(
        [2**i for i in range(600)], random_ids(600, 12)[1], bits=32, tried=3
    )
    assert verdict.ok is False and 1.5 < verdict.value < math.inf


@pytest.mark.claim("memorize.deep", role="witness")
def test_depth_wins_from_some_size_on():
    ids, labels = random_ids(5000, 32)
    assert fit_deep(ids, labels).parameters < 2 * 5000


# --- bits


def check_labelings(bits, claimed, *, count=4):
    """Binary labelings of `count` ids by networks a relu(t - b) mod 2 with two weights
    of `bits` bits, against 4^claimed.
    """
    ids = range(1, count + 1)
    found = {
        tuple(a * max(t - b, 0) % 2 for t in ids)
        for a, b in product(range(2**bits), repeat=2)
    }
    return at_most(len(found), 2 ** (2 * claimed))


@pytest.mark.claim("memorize.bits", role="check")
@pytest.mark.parametrize("bits", [0, 1, 2, 3])
def test_labelings_are_no_more_than_networks(bits):
    assert check_labelings(bits, bits, count=6).ok


@pytest.mark.claim("memorize.bits", role="control")
def test_longer_weights_give_more():
    assert check_labelings(3, 1, count=6).ok is False


@pytest.mark.claim("memorize.bits", role="witness")
def test_a_table_attains_it():
    """One weight of D bits: label j is its bit j. All 2^D labelings."""
    assert len({tuple(w >> j & 1 for j in range(5)) for w in range(2**5)}) == 2**5
