"""What is special about the claims of
notebooks/sparse_universality/patterns_and_conditions: exact numbers by another route,
and what its theorems refuse. Checks and controls stand in attnbook.theorems.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest
import torch

from attnbook.theorems import patterns_and_conditions as page
from attnlib import certify, patterns
from attnlib.patterns.hamilton import _search as search

DOUBLE = torch.float64


def fractions_after(pattern, layers, weight=Fraction(1, 2)):
    """The factors of the slots, by the product of matrices of fractions."""
    n = pattern.n
    total = [[Fraction(int(i == k)) for i in range(n)] for k in range(n)]
    for t in range(layers):
        layer = []
        for k, row in enumerate(pattern.mask(t).tolist()):
            share = weight / sum(row)
            layer.append([(j == k) + share * read for j, read in enumerate(row)])
        total = certify.product(layer, total)
    return total


@pytest.mark.parametrize("loops", [True, False])
def test_slots_are_filled_by_whom_a_token_has_heard(loops):
    for pattern in page.drawn_patterns(9, loops=loops)["made"]:
        for t in range(4):
            factors = fractions_after(pattern, t)
            heard = patterns.reach(pattern, t).tolist()
            assert [[f > 0 for f in row] for row in factors] == heard


def test_integers_are_the_fractions_times_a_number():
    pattern = patterns.strided(5, 3)
    states = page.states(pattern, 3, 2)
    factors = fractions_after(pattern, 3)
    words = list(product(range(2), repeat=5))
    scale = 1
    for t in range(3):
        scale *= 2 * math.lcm(*pattern.degrees(t).tolist())
    base = int(scale * max(max(row) for row in factors)) + 1
    for word, row in zip(words, states.tolist()):
        for k in range(5):
            wanted = sum(
                f * x * base**i for i, (f, x) in enumerate(zip(factors[k], word))
            )
            assert row[k] == scale * wanted


def test_one_number_a_token_tells_places_apart_unless_the_weight_is_one():
    """The skip as heavy as what is read: two tokens that read only each other meet."""
    swap = patterns.from_sets([[1], [0]])
    for weight, apart in ((Fraction(1, 2), True), (Fraction(1), False)):
        first, second = fractions_after(swap, 3, weight)
        assert (first != second) is apart


def test_an_input_that_is_never_heard_of_is_guessed_to_be_one_half():
    """Token 0 shall give the input of token 1, which is 0.9: it is off by 0.4."""
    pattern = patterns.from_sets([[0], [0, 1]])
    x = torch.tensor([[0.25, 0.9]], dtype=DOUBLE)

    def swapped(x):
        return x.flip(-1)

    verdict = page.continuous(pattern, swapped, 1.0, x, cells=4, numbers_a_token="n")
    assert not verdict.ok and verdict.bound == 1e-9
    assert verdict.value == pytest.approx(0.4)


def test_two_tokens_that_read_only_each_other_lose_nothing():
    found = patterns.check(patterns.from_sets([[1], [0]]))
    assert found.universal and found.hops == 1 and set(found.reasons) == {"self_loops"}
    assert patterns.hops(patterns.from_sets([[1], [0]]), skip=False) is None


def test_the_missing_pair_is_the_reason():
    one_way = patterns.from_sets([[0, 1], [1, 2], [2]])
    found = patterns.check(one_way)
    assert not found.universal
    assert found.reasons["hops"].startswith("token 1 never hears of token 0")
    assert not patterns.reach(one_way, 99)[1, 0]


def test_a_connection_is_missed_among_the_last_queries():
    objects = page.attended("causal", n=13)
    assert page.tiles(**objects, last=4).ok
    assert not page.tiles.broken("a connection less", **objects, last=4).ok


@pytest.mark.parametrize("q", [1, 2, 3.5])
def test_a_constant_stays_this_far_from_a_number(q):
    """The constant of Corollary 12.8 in L^q, by a sum over a fine grid."""
    x = (torch.arange(20_000, dtype=DOUBLE) + 0.5) / 20_000
    guesses = torch.linspace(0, 1, 21, dtype=DOUBLE)
    apart = ((x - guesses[:, None]).abs() ** q).mean(1) ** (1 / q)
    assert float(apart.min()) == pytest.approx(0.5 * (q + 1) ** (-1 / q), rel=1e-6)


def test_the_trial_with_five_tokens():
    """Window 3, four symbols: four layers, 88 bits, or 25 with 5,472 look-ups."""
    window = patterns.window(5, 3)
    assert page.number_bits(window, 4, 4) == 88
    assert page.recoded(window, torch.zeros(1, 5).long(), 4, 4)[1] == 25
    by_hand = 4 * 5 + 2 * 16 + 3 * 64 + 2 * 64 + 2 * 256 + 1024 + 2 * 256 + 3 * 1024
    assert page.lookups_between(window, 4, 4) == by_hand - 4 * 5


def test_sets_run_backwards_differ_where_the_order_counts():
    """Pairs 0-1, 2-3 and then 1-2: all is heard after 3 layers, backwards after 4."""
    made = [page.SMALL["two steps"](), page.SMALL["ring"]()]
    assert page.checker.broken("steps backwards", made).value == 1


def test_a_state_of_three_bits_tells_three_bits():
    """Token 0 reads token 1, whose input is one of 8: the bound of a cut is met."""
    pattern = patterns.from_sets([[0, 1], [1]])
    verdict = page.cut(pattern, [0], 8, layers=1, b=3)
    assert verdict.value == 3 and verdict.ok


def test_the_search_is_not_fooled_by_turned_edges():
    wrong = 0
    for pattern in page.drawn_patterns(12, most=6)["made"]:
        union = patterns.one_step(pattern).mask()
        turned = patterns.from_masks(union.triu().T | torch.eye(pattern.n).bool())
        path, _, _ = search(pattern, 20_000)
        wrong += (path is not None) != (page.paths_among(turned) > 0)
    assert wrong


X = torch.rand(4, 5, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
RING = patterns.from_sets([[4], [0], [1], [2], [3]])
QKV = torch.ones(3, 31, 8, dtype=DOUBLE)
WINDOW = patterns.window(31, 5)
BAD = {
    "a mask": (lambda: page.universal(torch.ones(3, 3).bool()), "pattern must be an"),
    "one symbol": (lambda: page.universal(RING, symbols=1), "symbols must be an int"),
    "too many": (lambda: page.universal(patterns.dense(30)), "more than 50,000"),
    "a float": (lambda: page.universal(RING, weight=0.5), "weight must be an int"),
    "negative": (lambda: page.universal(RING, weight=-1), "not be negative"),
    "too long": (
        lambda: page.universal(patterns.window(9, 3), symbols=3, arithmetic="softmax"),
        "more than 50,000",
    ),
    "outside": (
        lambda: page.continuous(RING, torch.sin, 1.0, 2 + X, cells=4),
        "must lie in \\[0, 1\\]",
    ),
    "another shape": (
        lambda: page.continuous(RING, lambda x: torch.cat([x, x], 1), 1.0, X, cells=4),
        r"f must give a tensor of the shape of x, \(4, 5\)",
    ),
    "no constant": (
        lambda: page.continuous(RING, torch.sin, 0.0, X, cells=4),
        "lipschitz must be positive",
    ),
    "no constant, for slots": (
        lambda: page.continuous(RING, torch.sin, 0.0, X, cells=4, numbers_a_token="n"),
        "lipschitz must be positive",
    ),
    "all inside": (
        lambda: page.cut(RING, [0, 1, 2, 3, 4], 2, layers=1, b=1),
        "inside must name some",
    ),
    "one value": (lambda: page.cut(RING, [0], 1, layers=1, b=1), "values must be an"),
    "deaf": (lambda: page.fewest(patterns.block_diagonal(4, 2)), "never hears"),
    "even": (lambda: page.windows(patterns.window(8, 3), 4), "needs an odd w"),
    "draws": (lambda: page.unread(4, 5), "r must be at most n"),
    "no neighbours": (lambda: page.longformer(RING, 0, 1), "needs an odd w in 3"),
    "other n": (lambda: page.tiles(WINDOW, *QKV[:, :5]), "q must be float64"),
}


@pytest.mark.bad_input
@pytest.mark.parametrize("name", BAD)
def test_what_a_theorem_cannot_take_is_refused(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call()
