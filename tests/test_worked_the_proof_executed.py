"""Worked examples of the page notebooks/sparse_universality/the_proof_executed."""

import math

import numpy as np
import pytest
import torch

from attnbook.theorems import the_proof_executed as page
from attnlib import patterns
from attnlib.universal import (
    Shift,
    apply,
    approximate,
    context_ids,
    contextual_map,
    decode,
    equivariant_ids,
    equivariant_map,
    grid_ids,
    run,
)


def test_thirds_are_rounded_down():
    """Both tokens 1/3 in two cells: 2/3 and, one position up, 8/3 become 0 and 2."""
    net = approximate(page.mixing, 2, 1, 2, patterns.dense(2))
    third = torch.full((1, 2, 1), 1 / 3, dtype=torch.float64)
    states = [z for kind, z in run(net, third) if kind == "quantise"]
    assert len(states) == 4
    assert sorted(states[-1].ravel()) == [0, 2]


def test_a_shift():
    """Dense, N = 3: of 10, 1, 5, 6 the id 1 moves by 3 (10 - 1), to 28."""
    mapping = contextual_map(patterns.dense(4), 4, 1, 3)
    moved = apply(Shift(0, 1, 3), np.array([10, 1, 5, 6]), mapping)
    assert moved.tolist() == [10, 28, 5, 6]


def test_two_sweeps():
    """Two tokens, two cells: y_2 = 4, 3, 6, 5. Three tokens with ids 9, 2, 5 and N = 4:
    y_3 = 105.
    """
    _, two = page.swept(contextual_map(patterns.dense(2), 2, 1, 2))
    assert two[:, 1].tolist() == [4, 3, 6, 5]
    x, three = page.swept(contextual_map(patterns.dense(3), 3, 1, 4))
    place = x.tolist().index([9, 2, 5])
    assert three[place, 2] == 105


def test_every_id_of_the_star_is_read():
    mapping = contextual_map(patterns.star(4), 4, 1, 3)
    ids = context_ids(patterns.star(4), 4, 1, 3)
    for row, out in zip(grid_ids(mapping).tolist(), ids.tolist(), strict=True):
        assert [decode(ident, mapping) for ident in out] == [
            (token, row) for token in range(4)
        ]


def test_the_ids_of_two_tokens():
    """In two cells, C = 7."""
    ids = context_ids(patterns.dense(2), 2, 1, 2)
    assert ids.tolist() == [[30, 32], [23, 24], [45, 48], [38, 40]]


@pytest.mark.parametrize(
    ("name", "layers", "bits"),
    [("window", 20, 69), ("star", 18, 39), ("strided", 35, 54)],
)
def test_layers_and_bits_of_five_tokens(name, layers, bits):
    """In four cells."""
    mapping = contextual_map(page.named(name, 5), 5, 1, 4)
    assert (mapping.layers, mapping.bits) == (layers, bits)


def test_no_wanted_row_comes_near_an_id():
    """For large targets `approximate` raises C."""
    net = approximate(lambda x: 1e6 * page.mixing(x), 3, 1, 2, patterns.dense(3))
    assert 2 * float(net.values.abs().max()) + 0.5 < net.ids.min()


@pytest.mark.parametrize(("name", "cells"), [("window", 3), ("strided", 2)])
def test_every_layer_in_fractions(name, cells):
    """It ends where the fast network does."""
    net = approximate(page.mixing, 3, 1, cells, page.named(name, 3))
    x = page.points(3, 1, 3)
    states = list(run(net, x))
    last = torch.from_numpy((states[-1][1] / cells).astype(float))
    assert torch.equal(last, net(x))
    assert len(states) == sum(net.layers.values())


@pytest.mark.parametrize("hops", [2, 8])
def test_which_ids_of_fixed_collide(hops):
    """n = 3, w = 2: 96 of 192 ids, and 16 of token 0, whatever the number of all-max
    layers; once the last token is read by all, 192.
    """
    ids = context_ids(patterns.fixed(3, 2), 3, 1, 4, hops=hops)
    assert len(set(ids.ravel())) == 96
    assert len(set(ids[:, 0])) == 16
    closed = context_ids(patterns.fixed(3, 2, closed=True), 3, 1, 4)
    assert len(set(closed.ravel())) == 192


@pytest.mark.parametrize(("q", "wanted"), [(1, 1 / 4), (2, 12**-0.5), (4, 80**-0.25)])
def test_no_constant_is_nearer(q, wanted):
    """By sums over 1001 points, no constant c comes nearer to x than 1/2 does."""
    x = torch.linspace(0, 1, 1001, dtype=torch.float64)
    means = ((x[:, None] - x) ** q).abs().mean(1) ** (1 / q)
    assert page.least_mean(q) == pytest.approx(wanted, rel=1e-12)
    assert float(means.min()) == pytest.approx(wanted, abs=2e-3)


def test_sets_are_read():
    """Three tokens, four cells: 28 ids, one for each set of at most three rows and each
    row in it; y_r gives the set. Two tokens, eight cells: the largest y_r is 399.
    """
    rows, y = page.swept(equivariant_map(3, 1, 4))
    for row, ids in zip(rows.tolist(), y.tolist(), strict=True):
        assert page.read_set(max(ids), 4) == set(row)
    assert len(set(equivariant_ids(3, 1, 4).ravel())) == 28
    assert equivariant_map(2, 1, 8).top == 399


def test_birthdays():
    """Three rows in four cells: 40 of 64 grid inputs repeat a row; 23 birthdays: 50.7
    per cent. Never more than binom(n, 2) / K^d.
    """
    assert page.share_of_repeats(3, 4) == pytest.approx(40 / 64, abs=1e-15)
    assert round(page.share_of_repeats(23, 365), 3) == 0.507
    for n, size in ((2, 2), (3, 9), (5, 100)):
        assert page.share_of_repeats(n, size) <= math.comb(n, 2) / size + 1e-15


def test_rows_are_counted():
    """Rows 0, 0, 2 in base 4: 1 + 1 + 16 = 18, and ids 18 * 64 plus 1, 1, 16; rows 1,
    1, 1: 12 * 64 + 4.
    """
    ids = page.counted_ids(np.array([[0, 0, 2], [1, 1, 1]]), 3, 4)
    assert ids.round().tolist() == [[1153, 1153, 1168], [772, 772, 772]]


def test_in_increasing_order_all_is_lost():
    """Two tokens in two cells and base 3: 0 becomes 1, then 3, as 1 does, and all ids
    are 6 * 9 + 3.
    """
    pairs = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert (page.counted_ids(pairs, 2, 3, increasing=True).round() == 57).all()


@pytest.mark.parametrize("n", [16, 256])
def test_connections_of_star_and_cycle(n):
    star = patterns.star(n)
    cycle = patterns.directed_cycle(n)
    assert (star.connections, patterns.hops(star)) == (5 * n - 6, 2)
    assert (cycle.connections, patterns.hops(cycle)) == (2 * n, n - 1)
