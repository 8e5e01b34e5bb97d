"""What attnbook.theorems.copying_task cannot say: a bound worked out by another route,
stored runs against their ceilings, and refusals. Page:
notebooks/sparse_universality/copying_task.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product

import mpmath
import pytest
import torch

from attnbook.data import load_result
from attnbook.theorems import copying_task as task
from attnlib import copying, patterns
from attnlib.copying import causal_pattern

SETS = [[0], [1], [2], [1, 3], [3, 4], [5]]
DENSE = patterns.causal(patterns.dense(10))


def by_vote(inside, sequences):
    """The best accuracy when each of the listed s is as likely as the others: for each
    query, what it sees, then a vote.
    """
    m = len(sequences[0])
    total = 0
    for i in range(1, m + 1):
        sees = inside[m + i].nonzero().flatten().tolist()
        votes = {}
        for s in sequences:
            x = (-1, *s, -1, *s)
            shown = tuple(x[j] for j in sees)
            votes.setdefault(shown, Counter())[s[i - 1]] += 1
        total += sum(max(counts.values()) for counts in votes.values())
    return Fraction(total, m * len(sequences))


@pytest.mark.claim("copying.reach", role="certificate")
@pytest.mark.parametrize("symbols", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_best_predictor_by_another_count(symbols, seed):
    masks = task.small_sets(seed, m=2 + seed)["masks"]
    field = copying.receptive_fields(masks)[-1]
    every = list(product(range(symbols), repeat=2 + seed))
    voted = by_vote(field, every)
    assert voted == copying.bound(copying.reached(field), symbols)
    assert voted == copying.best_accuracy(field, symbols)


def test_equal_symbols_by_listing():
    """The control of the theorem: what it computes is the vote over equal symbols."""
    field = copying.receptive_fields([patterns.from_sets(SETS).mask(0)])[-1]
    alike = [s for s in product(range(2), repeat=2) if len(set(s)) == 1]
    bound = copying.bound(copying.reached(field), 2)
    masks = [patterns.from_sets(SETS).mask(0)]
    verdict = task.reach.broken("all symbols the same", masks, 2)
    assert by_vote(field, alike) - bound == Fraction(verdict.value) == Fraction(1, 4)


def above_the_ceiling(part, *, one_layer=False):
    """How far the most successful stored run is above the ceiling of its pattern."""
    m, symbols, samples = (127, 127, 2048) if part == "full" else (15, 16, 8192)
    above = []
    for v in load_result("copying")["result"][part]:
        for run in v["runs"]:
            g = torch.Generator().manual_seed(1000 + run["seed"])
            made = causal_pattern(v["pattern"], 2 * m + 2, v["w"], generator=g)
            layers = 1 if one_layer else v["layers"]
            hit = copying.reached(task.fields_of(made, layers, v["scheme"]))
            top = copying.ceiling(hit, symbols, samples=samples, failure=1e-6)
            above.append(run["accuracy"] - top)
    return max(above)


@pytest.mark.again
@pytest.mark.parametrize("part", ["copying", "full"])
def test_no_stored_run_is_above_the_ceiling_of_its_pattern(part):
    assert above_the_ceiling(part) <= 0
    assert above_the_ceiling(part, one_layer=True) > 0


@pytest.mark.claim("copying.cut", role="certificate")
@pytest.mark.parametrize("bits", [0.5, 3, 18.41, 25])
def test_the_cut_bound_solves_its_equation(bits):
    """Fixed with w = 8 on 32 tokens, by mpmath's root of (15.5)."""

    def lacking(e):
        left = -e * mpmath.log(e, 2) - (1 - e) * mpmath.log(1 - e, 2)
        return left + e * mpmath.log(15, 2) - (4 - (8 + 2 * bits) / 15)

    e = mpmath.findroot(lacking, (1e-9, 0.93), solver="anderson", tol=1e-20)
    got = copying.cut_bound([2, 2], m=15, symbols=16, bits=bits)
    assert abs(got - (1 - e)) < 1e-7


def test_a_bit_that_crosses_after_layer_one():
    """Three symbols of four, and whether the last one is odd: it is guessed with chance
    1/2 then, the two before it with 1/4.
    """
    assert task.crossed_in(ONE_BIT["pattern"], 2) == [0, 1]
    found = task.cut(**ONE_BIT)
    assert found.value == float((Fraction(1, 4) * 2 + Fraction(1, 2)) / 3)
    assert found.bound == copying.cut_bound([0, 1], m=3, symbols=4, bits=1)
    assert task.cut(**ONE_BIT | {"bits": 1 - 1e-9}).value == found.value  # rounding


def test_the_ends_of_the_cut_bound():
    assert copying.cut_bound([2, 2], m=15, symbols=16, bits=26) == 1
    nothing = copying.cut_bound([0, 0], m=15, symbols=16, bits=26)
    assert 1 / 16 <= nothing < 1 / 16 + 1e-7
    assert copying._missing_bits(15 / 16, 16) == pytest.approx(4)
    assert copying._missing_bits(0, 16) == 0
    # all m + 1 that lie before the middle may cross; one more is no pattern
    assert copying.cut_bound([0, 16], m=15, symbols=16, bits=0) == nothing
    with pytest.raises(ValueError, match=r"crossed\[1\] must be in 0..m \+ 1 = 16"):
        copying.cut_bound([0, 17], m=15, symbols=16, bits=0)


def test_what_a_star_of_dense_attention_hears_too_much():
    """Ten tokens, m = 4: after L layers (8 - L) (9 - L) / 2 pairs are more than L apart
    and not with token 0; and all four symbols are reached for L = 1, 2, 3.
    """
    assert task.relay({}, DENSE).value == 28 + 21 + 15 + 10 + 3 * 4


HONEST = task.mixing_network()
ODD = task.relay_code("odd or even")
# Nothing crosses the middle of 8 tokens before layer 1, and one state before layer 2.
ONE_BIT = {
    "pattern": causal_pattern("fixed", 8, 4),
    "layers": 2,
    "code": [k % 2 for k in range(4**3)],
    "symbols": 4,
    "bits": 1,
}
REFUSED = {
    "a network that says nothing": (
        lambda: task.fields(
            lambda x: torch.zeros(len(x), 10, 2), HONEST["masks"], HONEST["tokens"]
        ),
        "nothing moves",
    ),
    "a network that overflows": (
        lambda: task.fields(
            lambda x: torch.full((len(x), 10, 2), torch.inf),
            HONEST["masks"],
            HONEST["tokens"],
        ),
        "not finite",
    ),
    "too few digits": (
        lambda: task.fields(
            lambda x: x[..., None].half(), HONEST["masks"], HONEST["tokens"]
        ),
        "float64 or float32",
    ),
    "one output for all tokens": (
        lambda: task.fields(
            lambda x: x.sum(1)[:, None, None].double(),
            HONEST["masks"],
            HONEST["tokens"],
        ),
        r"must return \(batch, 10, v\) .* got torch.float64 \(1, 1, 1\)",
    ),
    "one kind of symbol": (lambda: task.sample(9, 1, 0.1), "symbols must be"),
    "a certain failure": (lambda: task.sample(9, 2, 1.0), "failure must lie"),
    "no zero": (lambda: task.distances(DENSE, [1, 2], 2), "must hold 0"),
    "a star of other size": (
        lambda: task.relay({3: patterns.fixed(12, 3)}, patterns.star(10)),
        r"blocks\[3\] must be of 10",
    ),
    "both sides": (
        lambda: task.cut(patterns.fixed(8, 4), 2, ODD["code"], 2, 1.0),
        "causal",
    ),
    "too many values": (lambda: task.cut(**ODD | {"bits": 0.5}), "code has 4 values"),
    "more than one bit": (
        lambda: task.cut(**ONE_BIT | {"code": [k % 3 for k in range(4**3)]}),
        "code has 3 values, more than the 1 bits",
    ),
    "less than a bit": (
        lambda: task.cut(**ONE_BIT | {"bits": 1 - 2e-9}),
        "code has 2 values, more than the 1 bits",
    ),
    "a short code": (lambda: task.cut(**ODD | {"code": [0]}), "8 sequences, got 1"),
    "bits of nothing": (lambda: task.cut(**ODD | {"bits": -1}), "bits must not"),
}


@pytest.mark.bad_input
@pytest.mark.parametrize("name", REFUSED)
def test_bad_objects_are_refused(name):
    call, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        call()
