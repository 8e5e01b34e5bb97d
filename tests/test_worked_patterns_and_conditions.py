"""Page sparse_universality/patterns_and_conditions: what was worked out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from attnbook.theorems import patterns_and_conditions as page
from attnlib import patterns
from attnlib.patterns import check, crossing, exact, hops, is_path, reach
from attnlib.patterns._bits import closure

double = torch.float64


def test_three_tokens_by_hand():
    """After two layers token 0 holds 1, 1/4 and 1 times the inputs of 0, 1 and 2; one
    and two layers tell 12 and 24 pairs of a token and an input apart.
    """
    ring = patterns.from_sets([[2], [0], [1]])
    factors = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=object)
    for t in range(2):
        factors = page.layer_in_integers(factors, ring.mask(t), page.HALF)
    assert factors[:, 0].tolist() == [4, 1, 4]
    apart = [page.told_apart(page.states(ring, layers)) for layers in range(3)]
    assert apart == [6, 12, 24]


def test_ramps_are_narrow():
    """Ramps of width e h in place of 7 jumps differ from them on 7 e h of the line, for
    h = 1/8 and e = 1/10, on a fine grid.
    """
    x = (torch.arange(80_000, dtype=double) + 0.5) / 80_000
    jumps = (8 * x).floor()
    steep = (8 * x[:, None] - torch.arange(1, 8, dtype=double)) / 0.1 + 1
    ramps = steep.clamp(0, 1).sum(1)
    share = (ramps - jumps).abs().gt(1e-9).double().mean()
    assert float(share) == pytest.approx(7 / 80, abs=1e-4)


def test_a_star_needs_64_layers():
    """Half of 16,384 tokens of 256 symbols are 65,536 bits; two states of 512 bits
    cross in a layer, whatever the number of tokens.
    """
    for n in (9, 64, 1024):
        assert crossing(patterns.star(n), range(n // 2)) == [2]
    assert 8192 * 8 == 64 * 2 * 512
    back = range(32, 64)
    assert crossing(patterns.window(64, 9), back) == [4]
    assert sum(crossing(patterns.strided(64, 8), back)) == 2 * 18


@pytest.mark.parametrize("n", [2, 3, 4])
def test_of_all_patterns_of_one_step_the_first_has_2n(n):
    """All with self-loops, in the order of their connections."""
    places = [(k, j) for k in range(n) for j in range(n) if j != k]

    def hears_all(edges):
        mask = torch.eye(n, dtype=torch.bool)
        for k, j in edges:
            mask[k, j] = True
        return bool(closure(mask).all())

    for count in range(n):
        assert not any(map(hears_all, itertools.combinations(places, count)))
    assert any(map(hears_all, itertools.combinations(places, n)))


BY_HAND = {  # hops and connections
    "cycle of 2": (lambda: patterns.directed_cycle(2), 1, 4),
    "cycle of 10": (lambda: patterns.directed_cycle(10), 9, 20),
    "its edges, one a step": (lambda: page.one_by_one(9), 16, 10),
    "2^5": (lambda: page.digits(2, 5), 5, 64),
    "3^3": (lambda: page.digits(3, 3), 3, 81),
    "5^2": (lambda: page.digits(5, 2), 2, 125),
    "4^3": (lambda: page.digits(4, 3), 3, 256),
    "window": (lambda: patterns.window(5, 3), 4, 13),
    "dense": (lambda: patterns.dense(9), 1, 81),
    "dilations": (lambda: patterns.dilation_cycle(16), 4, 46),
    "star": (lambda: patterns.star(4), 2, 14),
    "Longformer": (lambda: patterns.longformer(20, 5, 3), 2, 94 + 102 - 6),
    "strided": (lambda: patterns.strided(16, 4), 3, 74),
    "shifted": (lambda: patterns.shifted_blocks(16), 7, 64),
    "blockwise": (lambda: patterns.blockwise(16), 3, 80),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_hops_and_connections_by_hand(name):
    make, s, connections = BY_HAND[name]
    found = check(make())
    assert (found.hops, found.connections, found.all_met) == (s, connections, True)


FAILING = {  # connections, and the conditions that fail
    "blocks": (lambda: patterns.block_diagonal(8, 3), 22, {"hamiltonian_path", "hops"}),
    "LogSparse": (lambda: patterns.logsparse(16), 65, {"hops"}),
    "a bare star": (
        lambda: patterns.star(6, local=False),
        16,
        {"hamiltonian_path"},
    ),
    "of three": (lambda: patterns.star(3, local=False), 7, set()),
}


@pytest.mark.parametrize("name", FAILING)
def test_conditions_that_fail_by_hand(name):
    make, connections, fails = FAILING[name]
    found = check(make())
    assert (found.connections, set(found.reasons)) == (connections, fails)


def test_two_unread_tokens():
    """A draw of eight among 2,048 tokens leaves two unread: (2) and (3) fail."""
    pattern = patterns.random(2048, 8, generator=page.generator(1))
    assert int((pattern.mask().sum(0) == 1).sum()) == 2
    assert set(check(pattern).reasons) == {"hamiltonian_path", "hops"}


def test_half_a_window_lacks_the_end():
    """16 tokens, w = 4: token 12 has not heard of 15 after two layers."""
    heard = reach(patterns.strided(16, 4), 2)[12]
    assert heard.nonzero().flatten().tolist() == list(range(15))


@pytest.mark.parametrize("n", [5, 9, 12, 16])
def test_fixed_fails_without_an_end(n):
    """Where w does not divide n, (3) alone fails; the formula knows both."""
    for w in range(2, min(n, 12)):
        pattern = patterns.fixed(n, w)
        found = check(pattern)
        wanted = exact("fixed", n, w)
        assert (found.hops, found.connections) == (wanted.hops, wanted.connections)
        assert set(found.reasons) == ({"hops"} if n % w else set())


def test_the_slowest():
    """A ring has n - 1 hops; with a chord and without the skip (n - 1)^2 + 1."""
    for n in (3, 4, 6, 9, 17):
        assert hops(page.ring_with_a_chord(n), skip=False) == (n - 1) ** 2 + 1
        assert hops(patterns.directed_cycle(n)) == n - 1
    assert hops(patterns.window(2048, 3)) == 2047


def test_a_path_is_found_where_there_is_one():
    """A search through all orders agrees, on 25 patterns."""
    for pattern in page.drawn_patterns(25, most=7)["made"]:
        found = check(pattern)
        path = found.hamiltonian_path
        assert (path is not None) == (page.paths_among(pattern) > 0)
        assert path is None or is_path(pattern, path)
        assert not found.unknown


def test_a_row_without_a_list():
    """Row 0 of a window with lists has no list: its softmax is that of the window."""
    objects = page.attended("strided", 31)
    window = patterns.Window(0, 1)
    objects["pattern"] = patterns.build(31, [window, page.some_lists(31)])
    assert objects["pattern"].mask()[0].nonzero().flatten().tolist() == [0, 1]
    assert page.merge(**objects).ok


def test_one_part_is_its_own_union():
    """For a single window lambda of the first part is that of the union."""
    objects = page.attended() | {"pattern": patterns.window(31, 5)}
    assert page.gradient.broken("lambda of one part", **objects).ok


def test_the_union_of_all_parts_is_neither_empty_nor_full():
    assert 0.2 < page.attended("all", 131)["pattern"].connections / 131**2 < 0.7
