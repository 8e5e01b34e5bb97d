"""The claims of notebooks/sparse_universality/the_proof_executed: each check, and its
control, on which the same function fails.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch

from attnlib import patterns
from attnlib.attention import forward, random_layers
from attnlib.certify import at_most
from attnlib.universal import (
    Shift,
    apply,
    approximate,
    context_ids,
    contextual_map,
    decode,
    equivariant_ids,
    grid_ids,
    run,
    schedule,
)

FAMILIES = {
    "dense": patterns.dense,
    "window": lambda n: patterns.window(n, 3) if n > 2 else patterns.dense(n),
    "star": patterns.star,
    "strided": patterns.strided,
    "fixed": patterns.fixed,
}
SIZES = (3, 1, 4), (2, 2, 3), (4, 1, 3), (3, 2, 2), (6, 1, 2), (3, 2, 3), (5, 1, 4)
PAIRS = [(name, size) for name in FAMILIES for size in SIZES]
FAILS = {("fixed", size) for size in SIZES if size[0] % 2 and size[0] > 1}


def target(x):
    return torch.sin(2 * math.pi * x) * x.mean((-2, -1), keepdim=True) + 0.3 * x.roll(
        -1, -2
    )


def repeats(ids):
    """How many ids are missing among as many distinct ones as there are entries."""
    return ids.size - len(set(ids.ravel().tolist()))


def plain_context(pattern, n, d, K, s, C):
    """A second evaluation in plain Python, one input at a time, from the sets alone:
    (ids before, y_n, ids after, layers).
    """
    N, B = K**d, sum(K**i for i in range(1, d + 1))
    reads = [
        [[j for j in range(n) if m[k][j]] for k in range(n)]
        for m in (pattern.mask(t).tolist() for t in range(pattern.p))
    ]
    rows = []
    for number in range(N**n):
        x = [
            number // N ** (n - 1 - j) % N + (j - 1 if j else n - 1) * B
            for j in range(n)
        ]
        a, layers = list(x), 0
        for i in range(1, n):
            for v in range((i - 1) * B, (i - 1) * B + N):
                for step in reads:
                    layers += 1
                    if i - 1 in step[i]:
                        near = [[a[q] for q in step[j]] for j in range(n)]
                        a = [
                            a[j] + N * (max(near[j]) - min(near[j])) * (a[j] == v)
                            for j in range(n)
                        ]
        top = a[-1]
        for t in range(s):
            layers, a = (
                layers + 1,
                [
                    a[j] + C * max(a[q] for q in reads[t % pattern.p][j])
                    for j in range(n)
                ],
            )
        rows.append((x, top, a, layers))
    return rows


# --- the theorem: the network is the target at the centres


def check_network(pattern, n, d, K, *, hops=None, samples=40, at="centres"):
    """The largest entry of |network - f at the centre of the cell|, exactly zero;
    at="points": |network - f| over omega_f(1 / 2K) <= (2 pi + 1.3) / (2K), at most 1.
    hops: s, None for the true one.
    """
    net = approximate(target, n, d, K, pattern, hops=hops)
    x = torch.rand(
        samples, n, d, generator=torch.Generator().manual_seed(n * d)
    ).double()
    wanted = target(((K * x).floor() + 0.5) / K if at == "centres" else x)
    gap = float((net(x) - wanted).abs().max())
    return at_most(
        gap if at == "centres" else gap * 2 * K / (2 * math.pi + 1.3),
        0 if at == "centres" else 1,
    )


@pytest.mark.claim("universal.network", role="check")
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("window", (3, 1, 4)),
        ("star", (4, 1, 3)),
        ("fixed", (4, 1, 3)),
        ("strided", (3, 2, 2)),
    ],
)
def test_network(name, size):
    assert check_network(FAMILIES[name](size[0]), *size).ok
    assert check_network(FAMILIES[name](size[0]), *size, at="points", samples=2000).ok


@pytest.mark.claim("universal.network", role="control")
def test_a_network_with_one_hop_too_few():
    assert check_network(patterns.window(3, 3), 3, 1, 4, hops=1).ok is False


@pytest.mark.claim("universal.network", role="witness")
@pytest.mark.parametrize(
    ("name", "size"),
    [("window", (3, 1, 3)), ("dense", (2, 2, 2)), ("strided", (3, 1, 2))],
)
def test_every_layer_in_fractions_gives_the_same(name, size):
    n, d, K = size
    net = approximate(target, n, d, K, FAMILIES[name](n))
    x = torch.rand(5, n, d, generator=torch.Generator().manual_seed(1)).double()
    counts = dict.fromkeys(net.layers, 0)
    states = list(run(net, x))
    for kind, _ in states:
        counts[kind] += 1
    assert counts == net.layers
    last = states[-1][1]
    assert torch.equal(torch.from_numpy((last / K).astype(float)), net(x))


# --- the steps


def check_quantiser(n, d, K, *, missing=None):
    """The largest distance of the entries after the quantiser from their integer parts,
    at random points and at cell edges k / K; missing: a layer left out of the quantiser
    written once more, -1 for none of them.
    """
    net = approximate(torch.sin, n, d, K, patterns.dense(n))
    edges = torch.arange(K).double().repeat(n * d)[: n * d * K].view(K, n, d) / K
    x = torch.cat(
        [
            torch.rand(4, n, d, generator=torch.Generator().manual_seed(0)).double(),
            edges,
        ]
    )
    z = (
        np.vectorize(Fraction, otypes=[object])(x.numpy()) * K
        + K * np.array(net.mapping.codes, dtype=object)[:, None]
    )
    wanted = np.vectorize(math.floor, otypes=[object])(z)
    if missing is None:
        z = [z for kind, z in run(net, x) if kind == "quantise"][-1]
    else:
        for k in range(n * K):
            z = z - (z - k) * ((z >= k) & (z < k + 1) & (k != missing))
    return at_most(float(abs(z - wanted).max()), 0)


@pytest.mark.claim("universal.quantise", role="check")
@pytest.mark.claim("universal.quantise", role="witness")
@pytest.mark.parametrize(("n", "d", "K"), [(3, 1, 2), (2, 2, 3)])
def test_quantiser(n, d, K):
    assert check_quantiser(n, d, K).ok and check_quantiser(n, d, K, missing=-1).ok


@pytest.mark.claim("universal.quantise", role="control")
def test_a_quantiser_with_a_layer_missing():
    assert check_quantiser(2, 1, 2, missing=-1).ok
    assert check_quantiser(2, 1, 2, missing=2).ok is False


def check_shift(ids, value, *, threshold=0):
    """A layer against N (max - min) for the tokens with that id, on the star of four
    tokens; exact. threshold: what is added to the value that the layer looks for.
    """
    numbers = contextual_map(patterns.star(4), 4, 1, 3)
    got, reads = (
        apply(Shift(0, value + threshold, numbers.size), np.array(ids), numbers),
        numbers.masks[0],
    )
    near = [[ids[q] for q in range(4) if reads[j][q]] for j in range(4)]
    wanted = [a + 3 * (max(r) - min(r)) * (a == value) for a, r in zip(ids, near)]
    return at_most(float(abs(got - np.array(wanted)).max()), 0)


@pytest.mark.claim("universal.shift", role="check")
@pytest.mark.parametrize("value", [0, 1, 5, 6, 11])
def test_shift(value):
    assert check_shift([10, 1, 5, 6], value).ok
    assert check_shift([11, 5, 5, 0], value).ok  # two tokens with one id


@pytest.mark.claim("universal.shift", role="control")
def test_a_shift_that_looks_for_another_id():
    assert check_shift([10, 1, 5, 6], 1, threshold=1).ok is False


@pytest.mark.claim("universal.shift", role="witness")
def test_shift_by_hand():
    numbers = contextual_map(patterns.dense(4), 4, 1, 3)
    assert apply(Shift(0, 1, 3), np.array([10, 1, 5, 6]), numbers).tolist() == [
        10,
        28,
        5,
        6,
    ]


def swept(numbers, *, factor=None):
    x = ids = grid_ids(numbers)
    for shift in (s for s in schedule(numbers) if not s.every):
        ids = apply(
            replace(shift, factor=factor if factor and shift.factor else shift.factor),
            ids,
            numbers,
        )
    return x, ids


def check_sweep(name, size, *, factor=None):
    """The layers of the sweep against the recursion, its order and the bound 2 n N^n;
    exact, over all grid inputs.
    """
    numbers = contextual_map(FAMILIES[name](size[0]), *size)
    x, ids = swept(numbers, factor=factor)
    y, N = [x[:, numbers.path[0]]], numbers.size
    for token in numbers.path[1:]:
        y.append(N * y[-1] - (N - 1) * x[:, token])
    off = abs(ids[:, list(numbers.path)] - np.stack(y, 1)).max()
    not_rising = 1 + max((a - b).max() for a, b in zip(y, y[1:]))
    other_top = abs(y[-1].max() - numbers.top)
    above = numbers.top + 1 - 2 * size[0] * N ** size[0]
    return at_most(float(max(off, not_rising, other_top, above)), 0)


@pytest.mark.claim("universal.sweep", role="check")
@pytest.mark.parametrize(
    ("name", "size"), [pair for pair in PAIRS if pair not in FAILS]
)
def test_sweep(name, size):
    assert check_sweep(name, size).ok


@pytest.mark.claim("universal.sweep", role="control")
def test_a_sweep_with_another_factor():
    assert check_sweep("star", (4, 1, 3), factor=2).ok is False


@pytest.mark.claim("universal.sweep", role="witness")
def test_sweep_by_hand():
    _, ids = swept(contextual_map(patterns.dense(2), 2, 1, 2))
    assert ids[:, 1].tolist() == [4, 3, 6, 5]


def check_residues(name, size, *, modulus=0):
    """How many of the inputs are not read back from y_n; modulus: what is added to N in
    the reading.
    """
    numbers = contextual_map(FAMILIES[name](size[0]), *size)
    x, ids = swept(numbers)
    path, N, wrong = numbers.path, numbers.size + modulus, 0
    for row, y in zip(x.tolist(), ids[:, path[-1]].tolist()):
        back = {}
        for token in reversed(path):
            low = numbers.codes[token] * numbers.base
            back[token] = low + (y - low) % N
            y = back[token] + (y - back[token]) // N
        wrong += [back[j] for j in range(size[0])] != row
    return at_most(wrong, 0)


@pytest.mark.claim("universal.residues", role="check")
@pytest.mark.parametrize("size", SIZES)
def test_residues(size):
    assert check_residues("dense", size).ok and check_residues("star", size).ok


@pytest.mark.claim("universal.residues", role="control")
def test_residues_of_another_modulus():
    assert check_residues("star", (4, 1, 3), modulus=1).ok is False


def check_decode(name, size):
    """How many ids are not read back, token and input."""
    pattern = FAMILIES[name](size[0])
    numbers, wrong = contextual_map(pattern, *size), 0
    for x, out in zip(grid_ids(numbers).tolist(), context_ids(pattern, *size).tolist()):
        for j, i in enumerate(out):
            try:
                wrong += decode(i, numbers) != (j, x)
            except ValueError:
                wrong += 1
    return at_most(wrong, 0)


@pytest.mark.claim("universal.residues", role="witness")
@pytest.mark.parametrize(
    ("name", "size"),
    [("star", (4, 1, 3)), ("strided", (3, 2, 2)), ("window", (6, 1, 2))],
)
def test_every_id_is_read_back(name, size):
    assert check_decode(name, size).ok


# --- the contextual map


def check_context(name, size, **options):
    """Repeated ids among all n K^(n d), and quotients by C^s that are not y_n: none."""
    pattern = FAMILIES[name](size[0])
    numbers, ids = (
        contextual_map(pattern, *size, **options),
        context_ids(pattern, *size, **options),
    )
    _, y = swept(numbers)
    floors = ids // numbers.constant**numbers.hops != y[:, numbers.path[-1:]]
    return at_most(repeats(ids) + int(floors.sum()), 0)


@pytest.mark.claim("universal.context", role="check")
@pytest.mark.parametrize(
    ("name", "size"), [pair for pair in PAIRS if pair not in FAILS]
)
def test_all_ids_are_distinct(name, size):
    """With the least C, and with C = 2 s m."""
    numbers = contextual_map(FAMILIES[name](size[0]), *size)
    assert check_context(name, size).ok
    assert check_context(name, size, constant=2 * numbers.hops * numbers.top).ok


@pytest.mark.claim("universal.context", role="control")
@pytest.mark.parametrize(
    ("name", "size", "worst"),
    [("dense", (3, 1, 4), 137), ("window", (3, 1, 4), 29), ("star", (4, 1, 3), 13)],
)
def test_a_constant_that_is_too_small(name, size, worst):
    assert check_context(name, size, constant=worst).ok is False
    assert repeats(context_ids(FAMILIES[name](size[0]), *size, constant=worst)) > 0
    assert repeats(context_ids(FAMILIES[name](size[0]), *size, constant=worst + 1)) == 0


@pytest.mark.claim("universal.context", role="witness")
def test_the_toy_by_hand():
    assert context_ids(patterns.dense(2), 2, 1, 2).tolist() == [
        [30, 32],
        [23, 24],
        [45, 48],
        [38, 40],
    ]


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("window", (3, 1, 4)),
        ("star", (4, 1, 3)),
        ("strided", (3, 2, 2)),
        ("fixed", (4, 1, 3)),
    ],
)
def test_a_second_evaluation_in_plain_python(name, size):
    pattern = FAMILIES[name](size[0])
    numbers, ids = contextual_map(pattern, *size), context_ids(pattern, *size).tolist()
    rows = plain_context(pattern, *size, numbers.hops, numbers.constant)
    assert ids == [after for _, _, after, _ in rows]
    assert {layers for *_, layers in rows} == {numbers.layers}


def check_layers(name, size, *, period=None):
    """Layers of the map that are counted, against p (n - 1) K^d + s, and bits against
    their bound; period: p as claimed.
    """
    numbers = contextual_map(FAMILIES[name](size[0]), *size)
    n, d, K = size
    counted = sum(1 for _ in schedule(numbers))
    off = counted - ((period or numbers.period) * (n - 1) * K**d + numbers.hops)
    s, most = (
        numbers.hops,
        int(context_ids(FAMILIES[name](n), *size).max()).bit_length(),
    )
    bound = (s + 1) * math.log2(2 * n * K ** (n * d)) + s * math.log2(2 * s) + 1
    return at_most(abs(off) + max(0, most - bound), 0)


@pytest.mark.claim("universal.layers", role="check")
@pytest.mark.claim("universal.layers", role="witness")
@pytest.mark.parametrize(
    ("name", "size"), [pair for pair in PAIRS if pair not in FAILS]
)
def test_layers(name, size):
    assert check_layers(name, size).ok


@pytest.mark.claim("universal.layers", role="control")
def test_layers_of_another_period():
    assert check_layers("strided", (5, 1, 4), period=1).ok is False


# --- values


def check_values(size=(2, 1, 2), order="grid", *, gap=True):
    """How far the value layers of a dense network, run in that order, leave the rows of
    the grid inputs from the wanted ones; gap=False: one target is such that its row has
    the id of another token of another input.
    """
    n, d, K = size
    net = approximate(lambda x: 20 * x.flip(-2) - 3, *size, patterns.dense(n))
    values = net.values.clone()
    if not gap:
        values[0, 0] = 0
        values[0, 0, 0] = int(net.ids[2, 1]) / K
    rows = (
        torch.cartesian_prod(*[torch.arange(K**d)] * n)[..., None]
        // K ** torch.arange(d)
        % K
    )
    states = run(replace(net, values=values), (rows.double() + 0.5) / K, order)
    *_, (_, last) = states
    given = torch.from_numpy((last / K).astype(float))
    return at_most(float((given - values).abs().max()), 0)


@pytest.mark.claim("universal.values", role="check")
@pytest.mark.claim("universal.values", role="witness")
@pytest.mark.parametrize("order", ["grid", "increasing", "decreasing"])
@pytest.mark.parametrize("size", [(2, 1, 2), (2, 2, 2), (3, 1, 2)])
def test_values_in_any_order(size, order):
    assert check_values(size, order).ok


def test_c_is_raised_until_the_gap_is_there():
    def scaled(x, scale):
        return scale * target(x)

    for scale in (1.0, 1e3, 1e6):
        net = approximate(partial(scaled, scale=scale), 3, 1, 2, patterns.dense(3))
        assert 2 * float(net.values.abs().max()) + 0.5 < int(net.ids.min())
        x = torch.rand(20, 3, 1, generator=torch.Generator().manual_seed(0)).double()
        assert torch.equal(net(x), scaled(((2 * x).floor() + 0.5) / 2, scale))


@pytest.mark.claim("universal.values", role="control")
def test_values_that_meet_an_id():
    assert check_values(gap=False).ok is False


# --- condition 3, and no positions


def check_hears(closed):
    """How much token 0 changes with row 2 alone, for the fixed pattern of three tokens,
    w = 2: its ids after up to eight all-max layers, and its row in a random softmax
    network of six layers. closed: the last token is read by all.
    """
    pattern, changes = patterns.fixed(3, 2, closed=closed), 0.0
    for hops in (1, 2, 3, 8):
        ids = context_ids(pattern, 3, 1, 4, hops=hops).reshape(4, 4, 4, 3)
        changes += float((ids[:, :, :1, 0] != ids[..., 0]).sum())
    g = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, 4, generator=g).double()
    x[1, :2] = x[0, :2]
    for t, layer in enumerate(random_layers(6, 2, 4, 3, bias=True, generator=g)):
        x = forward(x, [layer], skip=True, mask=pattern.mask(t % pattern.p))
    return at_most(changes + float((x[0, 0] - x[1, 0]).abs().max()), 0)


@pytest.mark.claim("universal.hears", role="check")
def test_a_token_that_does_not_hear_does_not_change():
    assert check_hears(False).ok


@pytest.mark.claim("universal.hears", role="control")
def test_a_token_that_hears_changes():
    assert check_hears(True).ok is False


@pytest.mark.claim("universal.hears", role="witness")
def test_which_sizes_fail_and_collide():
    assert repeats(context_ids(patterns.fixed(3, 2), 3, 1, 4, hops=8)) == 96
    assert repeats(context_ids(patterns.fixed(3, 2, closed=True), 3, 1, 4)) == 0
    for name, size in PAIRS:
        if (name, size) in FAILS:
            with pytest.raises(ValueError, match="condition 3 fails"):
                contextual_map(FAMILIES[name](size[0]), *size)


def check_equivariant(n, d, K, *, repeated=False, constant=None):
    """Pairs (set of rows, row) minus distinct ids, over inputs without repeats, or over
    all of them; and equal pairs that got unequal ids. constant: C, None for the least
    above every y_n.
    """
    ids, rows = (
        equivariant_ids(n, d, K, constant=constant),
        np.indices((K**d,) * n).reshape(n, -1).T.tolist(),
    )
    pairs = {}
    for row, out in zip(rows, ids.tolist()):
        if repeated or len(set(row)) == n:
            for x, i in zip(row, out):
                pairs.setdefault((tuple(sorted(row)), x), set()).add(i)
    unequal = sum(len(found) - 1 for found in pairs.values())
    return at_most(unequal + len(pairs) - len(set().union(*pairs.values())), 0)


@pytest.mark.claim("universal.equivariant", role="check")
@pytest.mark.claim("universal.equivariant", role="witness")
@pytest.mark.parametrize(
    ("n", "d", "K"),
    [
        (2, 1, 2),
        (2, 1, 4),
        (3, 1, 4),
        (2, 2, 3),
        (3, 2, 2),
        (3, 1, 6),
        (4, 1, 4),
        (3, 2, 3),
    ],
)
def test_equivariant(n, d, K):
    assert (
        check_equivariant(n, d, K).ok
        and check_equivariant(n, d, K, constant=K ** (d * (n + 1))).ok
    )


@pytest.mark.claim("universal.equivariant", role="control")
def test_repeated_rows_collide():
    assert check_equivariant(3, 1, 4, repeated=True).ok is False


@pytest.mark.claim("universal.equivariant", role="control")
@pytest.mark.parametrize(
    ("size", "constant", "largest"),
    [((2, 1, 8), 146, 399), ((2, 1, 6), 74, 155), ((3, 1, 6), 584, 1025)],
)
def test_a_constant_above_m_but_not_above_every_y(size, constant, largest):
    """This sweep climbs higher than m, the top of the sweep with positions."""
    assert contextual_map(patterns.dense(size[0]), *size).top < constant <= largest
    assert (
        int((equivariant_ids(*size, constant=10**9) % 10**9).max())
        == largest
        < size[2] ** (size[1] * (size[0] + 1))
    )
    assert check_equivariant(*size, constant=constant).ok is False
    assert check_equivariant(*size, constant=largest + 1).ok
