"""What attnbook.theorems.layers_or_steps cannot say: numbers worked out by another
route, refusals, and what readers bring.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from attnbook.theorems import layers_or_steps as hops
from attnlib.attention import forward

RING = [1, 2, 3, 4, 5, 6, 7, 0]
NAMES = hops.equal_angles(8)
NEAR = hops.equal_angles(8, gamma=1e-7)


def test_numbers_by_hand():
    assert [hops.layers_for(k) for k in (1, 2, 3, 4, 5, 1000, 1024, 1025)] == [
        *(0, 1, 2, 2, 3, 10, 10, 11)
    ]
    assert [hops.reach_of(layers) for layers in range(6)] == [1, 2, 5, 14, 41, 122]
    # 4 ln 327680 and 2 ln 8192 with ln 2 = 0.693147, ln 5 = 1.609438
    assert math.isclose(hops.enough_for_layers(1024, 10, 0.5), 50.79917, abs_tol=1e-4)
    assert math.isclose(hops.enough_for_steps(1024, 0.5), 18.02183, abs_tol=1e-4)
    assert math.isclose(hops.bits_for_third_hop(1024), 10220, abs_tol=1e-9)
    assert math.isclose(hops.margin(NAMES), 0.5, abs_tol=1e-12)
    assert hops.margin(torch.tensor([[1.0], [-1.0]])) == 2  # names of one number
    assert hops.doubling(RING, 5, names=NAMES).bound == pytest.approx(0.5 / 8)


def test_one_layer_in_closed_form():
    """With equal angles every weight is known: the first pointer is off by
    delta |c_2 - mean of the others|.
    """
    beta = 12.0
    wrong = math.exp(-beta / 2)
    delta = 7 * wrong / (1 + 7 * wrong)
    others = NAMES[[0, 1, 3, 4, 5, 6, 7]].mean(0)
    by_hand = delta * float((NAMES[2] - others).norm())
    # the result of k = 2 is read by the pointer of token 0, which is exact: no sum
    verdict = hops.doubling(RING, 2, names=NAMES, beta=beta)
    assert verdict.value == pytest.approx(by_hand, rel=1e-10)


@pytest.mark.parametrize("k", [2, 3, 7, 8, 100])
def test_the_ladder_against_integers(k):
    """Hardmax has no errors: the layers compute f^k exactly."""
    pointers = hops.random_map(20, seed=k)["pointers"]
    names = hops.sign_names(20)
    layers = hops.layers_for(k)
    built = hops.ladder(k, layers, names.shape[1], 1.0)
    x = hops.tokens_of(pointers, names)
    result = forward(x, built, scale=1.0, normalizer="hardmax")[:, 2 * names.shape[1] :]
    assert torch.equal(result, names[hops.follow(pointers, k)])


def test_a_layer_too_few_makes_other_hops():
    """Nine layers of k = 1000 make 1 + 999 mod 512 = 488 hops."""
    order = hops.random_map(30, kind="cycle")["pointers"]
    names = hops.sign_names(30)
    x = hops.tokens_of(order, names)
    built = hops.ladder(1000, 9, names.shape[1], 60.0)
    result = forward(x, built, scale=1.0)[:, 2 * names.shape[1] :]
    places = (result @ names.T).argmax(dim=1).tolist()
    assert places == hops.follow(order, 488) != hops.follow(order, 1000)


def test_the_temperature_of_steps_is_nearly_needed():
    """A crowd of n - 2 points to token 0: below ln(n - 2) / gamma its names win."""
    n = 50
    pointers = [1, 2, *[0] * (n - 2)]
    names = hops.equal_angles(n)
    edge = math.log(n - 2) / 0.5
    how = {"starts": [1], "names": names}
    assert not hops.steps(pointers, 1, beta=edge - 0.1, **how).ok
    assert hops.steps(pointers, 1, beta=edge + 0.1, **how).ok
    assert hops.enough_for_steps(n, 0.5) < edge + math.log(4 / 0.5) / 0.5 + 0.1


def test_messages_that_must_coincide():
    """Of 1296 fillings at most 2^8 messages arrive; so at least 1296 - 256 fillings
    share theirs with another, and each costs an error.
    """
    contents = hops.all_contents(6)
    sent = hops.messages(contents, 6, heads=1, width=1, bits=4, seed=0)
    assert sent.shape == (1296, 2)
    assert len(sent.unique(dim=0)) <= 256
    assert hops.third_hop(6, bits=4).value >= 1296 - 256
    assert hops.third_hop(6, bits=52).value == 0


def test_two_hops_need_one_layer():
    """For every map of three tokens."""
    for pointers in itertools.product(range(3), repeat=3):
        assert hops.doubling(list(pointers), 2, layers=1).ok


def test_by_names_is_attained():
    ring = hops.random_map(200, kind="cycle")["pointers"]
    chain = hops.random_map(200, kind="chain")["pointers"]
    for layers, both, ahead in ((0, 1, 1), (2, 5, 4), (4, 41, 16)):
        assert hops.by_names(ring, layers).value == both
        assert hops.by_names(chain, layers, causal=True).value == ahead


def test_a_side_branch_in_a_decoder():
    """Token 9 joins the chain early and stands late: nine hops, more than 2^3; without
    it eight.
    """
    branch = [0, 0, 1, 2, 3, 4, 5, 6, 7, 2, 8]
    how = {"causal": True, "known": 1}
    assert hops.furthest(branch, 3, **how) == 9
    bare = [0, 0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert hops.furthest(bare, 3, **how) == 8


@pytest.mark.parametrize("seed", range(4))
def test_written_tokens_may_stand_among_the_keys(seed):
    """With zero for their pointers the walk is the same; with their names it is not."""
    objects = hops.random_map(32, seed=seed, kind="cycle", angles="equal")
    pointers, names = objects["pointers"], objects["names"]
    beta = hops.enough_for_steps(32, 0.5)
    ends = []
    for pointer_of_written in (torch.zeros_like(names), names):
        place = 0
        written = []
        for _ in range(40):
            written.append(place)
            keys = torch.cat([names, names[written]])
            values = torch.cat([names[pointers], pointer_of_written[written]])
            read = torch.softmax(beta * keys @ names[place], dim=0) @ values
            place = int((names @ read).argmax())
        ends.append(place)
    assert ends[0] == hops.follow(pointers, 40)[0] != ends[1]


@pytest.mark.parametrize(
    ("call", "errors"),
    [
        (lambda beta: hops.doubling(RING, 3, names=NAMES, beta=beta), 32),
        (lambda beta: hops.powers(RING, 2, names=NAMES, beta=beta), 16),
        (lambda beta: hops.looking_back(RING, 2, names=NAMES, beta=beta), 32),
    ],
    ids=["doubling", "powers", "looking back"],
)
def test_the_bound_falls_with_the_temperature(call, errors):
    """2 L n, or 2 n for a row of weights, times e^(-beta / 4) with a margin of 1/2:
    e^-15 at beta = 60; and never more than 1/16.
    """
    sharp, blunt = call(60.0), call(3.0)
    assert sharp.ok and sharp.bound == pytest.approx(errors * math.exp(-15))
    assert not blunt.ok and blunt.bound == pytest.approx(0.5 / 8)


def test_more_layers_than_needed_stay():
    """The bound is that of the layers which are there."""
    verdict = hops.doubling(RING, 3, names=NAMES, layers=9)
    assert verdict.ok and verdict.bound == pytest.approx(0.5 / 8)
    assert hops.powers(RING, 20, names=NAMES).ok


def test_what_readers_bring():
    as_tensor = torch.tensor(RING)
    assert hops.doubling(as_tensor, 6).ok
    assert hops.doubling(np.array(RING), 6).ok
    assert hops.steps(as_tensor, 6).ok
    g = torch.Generator().manual_seed(1)
    drawn = torch.randn(8, 40, generator=g, dtype=torch.float64, requires_grad=True)
    names = drawn / drawn.norm(dim=1, keepdim=True)
    assert hops.doubling(RING, 6, names=names).ok
    assert hops.doubling([0, 0, 1, 2], 2, causal=True).ok
    assert not hops.doubling(RING, 6, names=names, layers=0).ok


WEAK = {
    "one token": (lambda: hops.doubling([0], 3), "pointers must name 2"),
    "out of range": (lambda: hops.doubling([1, 2], 3), r"pointers\[1\] must be"),
    "negative": (lambda: hops.steps([1, -1], 3), r"pointers\[1\] must be"),
    "halves": (lambda: hops.steps(torch.tensor([1.0, 0.0]), 3), r"pointers\[0\]"),
    "no hop": (lambda: hops.doubling(RING, 0), "k must be an integer"),
    "half a hop": (lambda: hops.steps(RING, 1.5), "k must be an integer"),
    "too many hops": (lambda: hops.doubling(RING, 2**21), "k must be at most"),
    "too much work": (lambda: hops.steps(RING, 10**8), "give fewer starts"),
    "single precision": (
        lambda: hops.doubling(RING, 3, names=NAMES.float()),
        "names must be torch.float64",
    ),
    "no values": (lambda: hops.doubling(torch.ones(3).to("meta"), 3), "device meta"),
    "sparse": (lambda: hops.steps(torch.ones(3).to_sparse(), 3), "pointers must be"),
    "many layers": (lambda: hops.doubling(RING, 3, layers=65), "layers must be at"),
    "many powers": (lambda: hops.powers(RING, 21), "layers must be at most 20"),
    "deep names": (lambda: hops.by_names(RING, 10**9), "layers must be at most"),
    "near names": (lambda: hops.steps(RING, 3, names=NEAR), "names must be further"),
    "wide seed": (lambda: hops.third_hop(4, seed=2**70), "seed must be below"),
    "no row": (lambda: hops.margin(NAMES[:1]), "names must be"),
    "one name": (lambda: hops.sign_names(1), "n must be an integer"),
    "no tokens": (lambda: hops.follow([1, 5], 2), r"pointers\[1\] must be"),
    "no margin": (lambda: hops.enough_for_steps(8, 0.0), "gamma must be positive"),
    "endless": (lambda: hops.bits_for_third_hop(10**400), "n must be at most"),
    "other length": (lambda: hops.doubling(RING, 3, names=2 * NAMES), "length 1"),
    "NaN": (lambda: hops.powers(RING, 3, names=NAMES * math.nan), "names holds NaN"),
    "too few names": (lambda: hops.doubling(RING, 3, names=NAMES[:7]), "names must be"),
    "equal names": (
        lambda: hops.steps(RING, 3, names=NAMES[[0, 0, 2, 3, 4, 5, 6, 7]]),
        "two rows are equal",
    ),
    "cold": (lambda: hops.doubling(RING, 3, beta=-1.0), "beta must be positive"),
    "frozen": (lambda: hops.powers(RING, 2, beta=1e15), "beta must be at most"),
    "no number": (lambda: hops.doubling(RING, 3, beta=math.nan), "beta must be"),
    "later tokens": (lambda: hops.doubling(RING, 3, causal=True), "later token"),
    "no truth value": (lambda: hops.doubling(RING, 3, causal=1), "causal must be"),
    "start": (lambda: hops.steps(RING, 3, starts=[8]), "starts must be tokens"),
    "no start": (lambda: hops.steps(RING, 3, starts=[]), "starts must hold"),
    "no permutation": (lambda: hops.looking_back([0, 0, 1], 2), "permutation"),
    "no layer": (lambda: hops.looking_back(RING, 0), "layers must be an integer"),
    "short cycle": (lambda: hops.by_names(RING, 2), "at least 19 tokens"),
    "two cycles": (lambda: hops.by_names([1, 0, 3, 4, 5, 6, 2], 1), "one cycle"),
    "no way back": (lambda: hops.by_names([1, 2, 1, 0, 3, 4, 5], 1), "one cycle"),
    "no chain": (lambda: hops.by_names(RING, 1, causal=True), "token before"),
    "many tokens": (lambda: hops.third_hop(9), "n must be at most 7"),
    "no bits": (lambda: hops.third_hop(5, bits=0), "bits must be an integer"),
    "too many bits": (lambda: hops.third_hop(5, bits=64), "bits must be at most 52"),
}


@pytest.mark.bad_input
@pytest.mark.parametrize("call, message", WEAK.values(), ids=WEAK)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
