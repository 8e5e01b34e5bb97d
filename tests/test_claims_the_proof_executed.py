"""What attnbook.theorems.the_proof_executed cannot say: a second evaluation, exact
certificates, and what is refused. Page: sparse_universality/the_proof_executed.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from attnbook.theorems import the_proof_executed as proof
from attnlib import patterns
from attnlib.attention import Layer
from attnlib.universal import (
    approximate_equivariant,
    context_ids,
    contextual_map,
    equivariant_ids,
    equivariant_map,
    grid_ids,
    run,
    run_standard,
    standard,
)

ROUND = 1e-12


def plain_context(pattern, n, d, K, s, C):
    """The map in plain Python, one input at a time, from the sets alone: (ids after,
    layers) of each input.
    """
    N = K**d
    B = sum(K**i for i in range(1, d + 1))
    reads = []
    for t in range(pattern.p):
        rows = pattern.mask(t).tolist()
        reads.append([[j for j in range(n) if row[j]] for row in rows])
    for number in range(N**n):
        a = []
        for j in range(n):
            code = j - 1 if j else n - 1
            a.append(number // N ** (n - 1 - j) % N + code * B)
        layers = 0
        for i in range(1, n):
            for v in range((i - 1) * B, (i - 1) * B + N):
                for step in reads:
                    layers += 1
                    if i - 1 in step[i]:
                        near = [[a[q] for q in row] for row in step]
                        moves = [N * (max(r) - min(r)) for r in near]
                        a = [x + m if x == v else x for x, m in zip(a, moves)]
        for t in range(s):
            layers += 1
            heard = [max(a[q] for q in row) for row in reads[t % pattern.p]]
            a = [x + C * h for x, h in zip(a, heard)]
        yield a, layers


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
    pattern = proof.named(name, size[0])
    mapping = contextual_map(pattern, *size)
    rows = list(plain_context(pattern, *size, mapping.hops, mapping.constant))
    assert context_ids(pattern, *size).tolist() == [after for after, _ in rows]
    assert {layers for _, layers in rows} == {mapping.layers}


@pytest.mark.claim("universal.context", role="counterexample")
@pytest.mark.parametrize(
    ("name", "size", "worst"),
    [("dense", (3, 1, 4), 137), ("window", (3, 1, 4), 29), ("star", (4, 1, 3), 13)],
)
def test_the_largest_constant_with_which_ids_collide(name, size, worst):
    pattern = proof.named(name, size[0])
    for C, collide in ((worst, True), (worst + 1, False)):
        ids = context_ids(pattern, *size, constant=C)
        assert (len(set(ids.ravel())) < ids.size) == collide


@pytest.mark.claim("universal.equivariant", role="counterexample")
@pytest.mark.parametrize(
    ("size", "constant", "largest"),
    [((2, 1, 8), 146, 399), ((2, 1, 6), 74, 155), ((3, 1, 6), 584, 1025)],
)
def test_a_constant_above_m_but_not_above_every_id(size, constant, largest):
    """This sweep climbs higher than m, the top of the sweep with positions."""
    with_positions = contextual_map(patterns.dense(size[0]), *size)
    assert with_positions.top < constant <= largest
    assert equivariant_map(*size).top == largest
    ids = equivariant_ids(*size, constant=10**9) % 10**9
    assert ids.max() == largest < size[2] ** (size[1] * (size[0] + 1))
    assert proof.without_positions(*size, constant=constant).ok is False
    assert proof.without_positions(*size, constant=largest + 1).ok


def test_equal_rows_are_seen_and_not_counted():
    """The inputs 0, 0, 1 and 0, 1, 1 get the same two ids; a head that counts gives
    them different ones: (5 + 5 + 1) 5^2 + 1 and so on, in base M = 5.
    """
    ids = equivariant_ids(3, 1, 2)
    first = ids[0b001]
    second = ids[0b011]
    assert set(first) == set(second) and len(set(first)) == 2
    assert proof.counting(3, 1, 2, base=5).ok


@pytest.mark.claim("universal.counting", role="counterexample")
def test_look_ups_in_the_wrong_order_and_a_base_too_small():
    """In increasing order 8 of 30 ids are left. In base 3 two tokens in two cells have
    the id 19: a row 9.5, that is 19 halves, would be taken for it, so M must be larger.
    """
    rows = grid_ids(equivariant_map(4, 1, 3))
    left = {}
    for increasing in (True, False):
        ids = proof.counted_ids(rows, 3, 5, increasing=increasing)
        left[increasing] = len(set(ids.round().ravel().tolist()))
    assert left == {True: 8, False: 30}
    two = grid_ids(equivariant_map(2, 1, 2))
    ids = proof.counted_ids(two, 2, 3).round()
    ids = set(ids.ravel().tolist())
    assert ids == {19.0, 37.0, 39.0, 57.0} and 2 * 9.5 in ids
    larger = proof.counted_ids(two, 2, 5)
    assert larger.min() > 2 * 9.5 + 0.5


def test_layers_and_shares_without_positions():
    """n = 3, K = 8: 8 layers to round, 9 of attention, 3 binom(8, 3) = 168 to look up,
    a clamp; 1 - 7/8 6/8 = 22/64 is given up.
    """
    net = approximate_equivariant(proof.symmetric, 3, 1, 8)
    counts = {"quantise": 8, "attention": 9, "value": 168, "clamp": 1}
    assert net.layers == counts and equivariant_map(3, 1, 8).layers == 9
    assert proof.share_of_repeats(3, 8) == pytest.approx(22 / 64, abs=ROUND)
    seen = dict.fromkeys(counts, 0)
    for kind, _ in run(net, proof.points(3, 1, 1)):
        seen[kind] += 1
    assert seen == counts


def test_every_layer_without_positions_in_fractions():
    """Also where two rows share a cell: ids that no entry knows are clamped."""
    net = approximate_equivariant(proof.symmetric, 3, 1, 4)
    x = proof.points(3, 1, 30)
    x[0] = x[0, 0]
    *_, (kind, z) = run(net, x)
    assert kind == "clamp"
    assert torch.equal(torch.from_numpy((z / 4).astype(float)), net(x))
    largest = float(net.values.abs().max())
    assert net(x).abs().max() <= largest
    sublayers = standard(net, clamp=largest)
    soft = run_standard(x, sublayers, net.mapping, scale=80.0)
    assert soft.abs().max() <= largest * (1 + ROUND)
    order = torch.tensor([2, 0, 1])
    assert torch.equal(net(x[:, order]), net(x)[:, order])


@pytest.mark.claim("universal.hears-lp", role="certificate")
@pytest.mark.parametrize("q", [1, 2, 4])
def test_the_least_mean_in_fractions(q):
    """int |x - c|^q is (c^(q+1) + (1 - c)^(q+1)) / (q + 1), least at c = 1/2."""

    def integral(c):
        return (c ** (q + 1) + (1 - c) ** (q + 1)) / (q + 1)

    half = integral(Fraction(1, 2))
    assert half == Fraction(1, 2**q * (q + 1))
    assert all(integral(Fraction(i, 40)) > half for i in range(41) if i != 20)
    assert proof.least_mean(q) ** q == pytest.approx(float(half), rel=ROUND)


def test_a_row_that_is_an_id_is_taken_for_it_in_two_dimensions():
    """Also there the control must fail: a second value layer replaces the row."""
    assert not proof.value_map.broken("a row that is an id", patterns.dense(2), 2, 2).ok


# --- a theorem is for objects of one's own


def test_single_precision_and_batches():
    x = proof.points(3, 1, 6)
    window = patterns.window(3, 3)
    assert proof.network(proof.mixing, x.float(), window, 4).ok
    assert proof.network(proof.mixing, x.view(2, 3, 3, 1), window, 4).ok
    assert proof.network(torch.zeros_like, x, window, 2).ok
    assert proof.equivariant_lp(torch.zeros_like, x, 8).ok
    assert proof.equivariant_lp(proof.symmetric, x.float(), 8).ok
    assert proof.equivariant_lp(lambda x: 3 * proof.symmetric(x), x, 8).ok


def test_wrong_verdicts_that_were_mended():
    """Large exponents, a token that hears late, orders of rows, ids of many bits."""
    late = [[{0}, {0, 1}, {1, 2}]] * 9 + [[{0, 2}, {0, 1}, {1, 2}]]
    fixed = patterns.fixed(3, 2)
    assert proof.misses_in_the_mean(fixed, 1, 4, j=0, k=2, q=1e5).ok
    late = patterns.from_sets(*late)
    assert not proof.misses_in_the_mean(late, 1, 4, j=0, k=2).ok
    increasing = torch.tensor([[0.05], [0.3], [0.6]], dtype=torch.float64)
    assert not proof.equivariant_lp(proof.mixing, increasing, 8).ok
    assert proof.network(proof.mixing, X.clone().requires_grad_(), WINDOW, 3).ok
    many = np.array([10**30, 2, 3, 1], dtype=object)
    assert proof.selective_shift(many, patterns.star(4), 2).ok
    assert proof.linear(**BOX | {"x": BELOW}).ok


def test_points_on_the_edges_of_cells_belong_to_the_cells_above():
    """Quarters in four cells: the network and its target agree there as elsewhere."""
    edges = torch.tensor([[0.25], [0.5], [0.75]], dtype=torch.float64)
    assert proof.network(proof.mixing, edges, patterns.window(3, 3), 4).ok
    assert proof.equivariant_lp(proof.symmetric, edges, 4).ok


@pytest.mark.parametrize(
    ("order", "asked"),
    [((0, 1, 2), True), ((2, 1, 0), True), ((2, 0, 1), True), ((1, 0, 2), False)],
)
def test_three_orders_of_the_rows_are_asked(order, asked):
    """A target is 1 if its rows are in one order and 1/2 in all others. From rows that
    increase, the theorem asks for them, turned round, and moved on by one.
    """
    increasing = torch.tensor([[0.1], [0.4], [0.8]], dtype=torch.float64)

    def target(x):
        ranks = x.argsort(-2).argsort(-2)[..., 0]
        alone = (ranks == torch.tensor(order)).all(-1)
        return torch.where(alone, 1.0, 0.5)[:, None, None].to(x).expand_as(x)

    assert proof.equivariant_lp(target, increasing, 8).ok is not asked


def test_a_row_that_counts_only_where_it_is_zero_is_noticed():
    """Token 0 holds a one in its first entry, token 1 a one in its second, t times it
    after a change. Two heads with logits 200 (2 t - 1) and 200 (-2 t - 1) of token 1
    against token 0: for t = 1, 3 and -1 exactly one of them reads the one of token 0,
    for t = 0 both do.
    """
    x = torch.eye(2, 3, dtype=torch.float64)
    read = torch.zeros(2, 3, 1, dtype=torch.float64)
    write = torch.zeros(2, 1, 3, dtype=torch.float64)
    query, keys = read.clone(), read.clone()
    query[:, 0] = 200
    keys[:, 0] = 1
    keys[:, 1, 0] = torch.tensor([2.0, -2.0])
    read[:, 0] = 1
    write[:, 0, 2] = 1
    layer = Layer(w_q=query, w_k=keys, w_v=read, w_o=write)
    pattern = patterns.from_sets([[0, 1], [1]])
    verdict = proof.hears(x, [layer], pattern, j=0, k=1)
    assert not verdict.ok and verdict.value == pytest.approx(1.0)


@pytest.mark.parametrize(("largest", "beyond"), [(2**10 - 1, 0.0), (2**10, 1.0)])
def test_bits_beyond_the_bound_are_counted(monkeypatch, largest, beyond):
    """Two tokens in two cells, s = 1: 2 log2(2 2 2^2) + log2(2) + 1 = 10 bits. The ids
    are made up.
    """
    ids = np.array([[1, largest]], dtype=object)
    monkeypatch.setattr(proof, "context_ids", lambda *_: ids)
    assert proof.layers_and_bits(patterns.dense(2), 1, 2).value == beyond


def test_layers_grow_with_a_power_of_the_cells():
    """Two tokens of two features in three cells: 3^2 rounds, and not 3 times 2."""
    assert proof.layers_and_bits(patterns.dense(2), 2, 3).ok


X = proof.points(3, 1, 4)
WINDOW = patterns.window(3, 3)
NET = {"f": proof.mixing, "x": X, "pattern": WINDOW, "cells": 4}
BOX = proof.in_a_box()
BELOW = torch.full((4, 1), math.nextafter(3.0, 0.0), dtype=torch.float64)
HEARS = proof.random_network()


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: proof.network(**NET | {"x": X + 1}), r"x must lie in \[0, 1\)"),
        (lambda: proof.network(**NET | {"x": X[:0]}), "x needs at least one token"),
        (lambda: proof.network(**NET | {"x": X[:, :2]}), r"x must be \(\*batch, 3, d"),
        (
            lambda: proof.network(**NET | {"pattern": patterns.fixed(3, 2)}),
            "condition 3 fails",
        ),
        (lambda: proof.network(**NET | {"cells": 1}), "cells must be an integer of at"),
        (lambda: proof.network(**NET | {"f": lambda x: x[:, 0]}), "f must return a te"),
        (
            lambda: proof.network(**NET | {"f": lambda x: x / 0}),
            "f at some centre hold",
        ),
        (
            lambda: proof.network(**NET | {"f": lambda x: 1e308 + 0 * x}),
            "f must stay below 1e200",
        ),
        (
            lambda: proof.selective_shift(np.array([None] * 4), patterns.star(4), 1),
            r"ids must be integers, got \[None, None, None\]$",
        ),
        (lambda: proof.sweep(patterns.dense(2), 1, 2000), "too many to be run"),
        (lambda: proof.value_map(patterns.dense(3), 1, 10), "too many to be run"),
        (lambda: proof.hears(**HEARS | {"x": 0 * HEARS["x"]}), "row k must not vanish"),
        (lambda: proof.read_set(5, 1), "size must be an integer of at least 2"),
        (
            lambda: proof.selective_shift(np.ones(4), patterns.star(4), 1),
            "ids must be integers, got float64",
        ),
        (
            lambda: proof.selective_shift(np.arange(3), patterns.star(4), 1),
            r"ids must be \(\*batch, 4\)",
        ),
        (lambda: proof.hears(**HEARS | {"k": 3}), "k must be a token of 0..2, got 3"),
        (lambda: proof.hears(**HEARS | {"k": 0}), "j and k must differ"),
        (
            lambda: proof.network(**NET | {"f": lambda x: x.float()}),
            "f must return float64, as it is given",
        ),
        (
            lambda: proof.equivariant_lp(torch.zeros_like, X, 8, scale=80.0),
            "f is zero at every centre",
        ),
        (lambda: proof.hears(**HEARS | {"x": X}), r"x must be \(3, d\)"),
        (
            lambda: proof.misses_in_the_mean(WINDOW, 1, 4, j=0, k=1, q=0.5),
            "q must be at least 1, got 0.5",
        ),
        (lambda: proof.without_positions(30, 1, 4), "ids are more than"),
        (
            lambda: proof.equivariant_lp(proof.symmetric, X, 2),
            "cells gives 2 cells for n = 3 rows",
        ),
        (
            lambda: proof.equivariant_lp(proof.symmetric, 0 * X, 4),
            "none of these inputs has its rows in different cells",
        ),
        (
            lambda: proof.equivariant_lp(proof.symmetric, 0 * X.float() + 1.3, 4),
            r"x must lie in \[0, 1\), got entries from 1.3 to 1.3$",
        ),
        (lambda: proof.counting(4, 1, 20), "take fewer cells or tokens"),
        (lambda: proof.linear(**BOX | {"low": 0.0}), r"x must lie in \[0, 3\)"),
        (lambda: proof.linear(**BOX | {"low": 4.0}), "low must be below high"),
        (  # the last point below an edge of the box is in its last cell
            lambda: proof.linear(**BOX | {"x": BELOW, "f": lambda x: x.float()}),
            "f must return float64",
        ),
        (lambda: proof.linear(**BOX | {"slope": 0.0}), "slope must be positive"),
        (
            lambda: proof.linear(**BOX | {"family": lambda n: patterns.star(9)}),
            r"family\(4\) must be a Pattern of 4 tokens",
        ),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
