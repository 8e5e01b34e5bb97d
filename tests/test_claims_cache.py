"""Special of the claims of the page `The KV cache`: every state of a small chest, other
types and batches of floors, and what is refused.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from attnbook.theorems import cache as claims
from attnlib.bridges import state_floor

double = torch.float64
KEYS = claims.unit_keys("simplex", 4)


def random_rows(m=5, n=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(m, n, dtype=double, generator=g)
    return torch.softmax(logits, dim=-1)


@pytest.mark.claim("after.cache", role="certificate")
def test_no_chest_of_three_drawers_answers_four_lists():
    """All ways to put the four lists of two signs into three drawers: two lists share
    one, and the best answer to both is off by the floor at least.
    """
    p = torch.tensor([[0.8, 0.2], [0.3, 0.7]], dtype=double)
    right = claims.right_answers(p, 2)
    floor = float(state_floor(p)[1])
    least = math.inf
    for drawers in itertools.product(range(3), repeat=4):
        worst = 0.0
        for one, other in itertools.combinations(range(4), 2):
            if drawers[one] == drawers[other]:
                apart = float((right[one] - right[other]).abs().max())
                worst = max(worst, apart / 2)
        least = min(least, worst)
    assert least >= floor > 0.39
    assert least == pytest.approx(0.6)  # + - and - + in one drawer: 0.8 - 0.2


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n", "f", "bits"), [(4, 4, 1), (4, 2, 3), (3, 3, 2)])
def test_no_two_lists_come_nearer_than_the_floor(seed, n, f, bits):
    p = random_rows(n=n, seed=seed)
    right = claims.right_answers(p, f, bits)
    apart = (right[:, None] - right).abs().amax(-1)
    apart.fill_diagonal_(math.inf)
    assert apart.min() / 2 >= state_floor(p, bits=bits)[f - 1] - 1e-14


def test_lists_count_in_binary():
    assert claims.value_lists(2).tolist() == [[-1, -1], [-1, 1], [1, -1], [1, 1]]
    thirds = claims.value_lists(1, 2).flatten()
    assert torch.allclose(3 * thirds, torch.tensor([-3.0, -1.0, 1.0, 3.0]).double())


def test_floors_of_a_batch_and_of_other_types():
    p = torch.stack([random_rows(seed=s) for s in range(3)])
    together = state_floor(p, bits=2)
    assert together.shape == (3, 4)
    assert (together.diff(dim=-1) <= 0).all() and (together >= 0).all()
    for one, floors in zip(p, together):
        assert torch.equal(state_floor(one, bits=2), floors)
    for dtype in (torch.float16, torch.bfloat16):
        rows = torch.tensor([[0.75, 0.25], [0.25, 0.75]], dtype=dtype)
        floors = state_floor(rows, bits=2)
        assert floors.dtype == dtype
        assert (floors.double() <= 1 / 6).all() and (floors > 0.16).all()


def test_a_heads_floor_has_a_gradient():
    p = random_rows().requires_grad_()
    state_floor(p)[0].backward()
    assert p.grad.count_nonzero() == 1 and p.grad.sum() == 2


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"p": 2 * torch.eye(4, dtype=double)}, "rows of p must sum to one"),
        ({"kept": torch.zeros(15, dtype=torch.int64)}, "each of the 16 lists, got 15"),
        ({"kept": torch.full((16,), 8)}, "kept must hold numbers from 0 to 7"),
        ({"answers": torch.zeros(8, 3, dtype=double)}, r"answers must have shape"),
        ({"bits": 5}, "at most 16 bits"),
        ({"f": 5}, "f must be at most n = 4"),
    ],
)
def test_what_a_chest_refuses(changes, words):
    chest = claims.keeping(n=4, gap=2.0)
    with pytest.raises(ValueError, match=words):
        claims.state(**(chest | changes))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"keys": 2 * KEYS}, "keys must have length one"),
        ({"keys": KEYS[:1]}, "keys must be at least two"),
        ({"length": -1.0}, "length must not be negative"),
        ({"length": 3e12}, "length must be at most 10.6"),
        ({"mu": 1.5}, "mu must be a product of unit keys"),
        ({"bits": 65}, "bits must be at most 64"),
    ],
)
def test_what_questions_refuse(changes, words):
    with pytest.raises(ValueError, match=words):
        claims.questions(**({"keys": KEYS, "length": 3.0} | changes))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"symbols": 1}, "symbols must be an integer of at least 2"),
        ({"symbols": 2}, "written must hold numbers from 0 to 1"),
        ({"symbols": 40}, "at most 2.20, got 40.5"),
        ({"symbols": 10**30}, "symbols must be at most 2.20"),
        ({"kept": torch.zeros(5, dtype=torch.int64)}, "each of the 243 lists"),
    ],
)
def test_what_copying_refuses(changes, words):
    with pytest.raises(ValueError, match=words):
        claims.copying(**(claims.remembering() | changes))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": torch.zeros(1, 3, dtype=double)}, "q and radius must not be zero"),
        ({"v": torch.zeros(200, 1, dtype=double)}, "v must not be all zero"),
        ({"v": torch.ones(3, 1, dtype=double)}, "v must have a row for each"),
        ({"labels": torch.full((200,), 5)}, "labels must hold numbers from 0 to 4"),
        ({"labels": torch.zeros(3, dtype=torch.int64)}, "labels must be one a key"),
        ({"centres": torch.ones(5, 2, dtype=double)}, "centres must have shape"),
        ({"radius": 1e-17}, "radius times the length of q"),
        ({"q": torch.full((1, 3), 1e308, dtype=double), "radius": 1.0}, "q and k"),
    ],
)
def test_what_clusters_refuse(changes, words):
    with pytest.raises(ValueError, match=words):
        claims.clusters(**(claims.grouped() | changes))


def test_verdicts_do_not_hang_on_the_size_of_numbers():
    """More states than lists; a bound that many bits do not hide; keys
    that occur twice; values of any size; and two keys whose error is the bound but for
    a millionth of it.
    """
    chest = claims.keeping()
    chest["answers"] = chest["answers"].repeat(3, 1)
    assert claims.state(**chest).bound == 1
    for bits in (1, 40):
        assert claims.questions(KEYS, 3.0, bits=bits).ok
        assert not claims.questions(KEYS, 3.0, mu=-1, bits=bits).ok
    for seed in range(9):  # products of some keys with themselves round to above one
        keys = claims.unit_keys("random", 6, 5, seed=seed)
        assert claims.questions(torch.cat([keys, keys]), 3.0).ok
    for size in (1e-300, 1e307):
        near = claims.grouped()
        near["v"] = near["v"] * size
        assert claims.clusters(**near).ok
        assert not claims.clusters.broken("counts lost", **near).ok
    one = torch.ones(1, 1, dtype=double)
    for reach in (1e-3, 1e-7, 1e-10):
        k = torch.tensor([[reach], [-reach]], dtype=double)
        found = claims.clusters(one, k, k.sign(), 0 * one, torch.zeros(2).long())
        assert found.ok and found.value == pytest.approx(1, abs=1e-6)
        assert not claims.clusters(
            one, k, k.sign(), 0 * one, torch.zeros(2).long(), radius=0.9 * reach
        ).ok


def test_a_centre_without_keys_says_nothing():
    near = claims.grouped()
    more = torch.cat([near["centres"], 0 * near["centres"][:1]])
    assert claims.clusters(**near | {"centres": more}) == claims.clusters(**near)


def test_objects_that_carry_gradients():
    """Without a warning, which pytest would make an error."""
    chest = claims.keeping()
    chest["p"] = chest["p"].requires_grad_()
    assert claims.state(**chest).ok
    near = claims.grouped()
    near["v"] = near["v"].requires_grad_()
    assert claims.clusters(**near).ok
    assert claims.questions(KEYS.clone().requires_grad_(), 3).ok
