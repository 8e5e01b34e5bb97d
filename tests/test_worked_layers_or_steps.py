"""Worked examples of the page `Layers or steps`, on rings and chains."""

from __future__ import annotations

from attnbook.theorems import layers_or_steps as hops

RING = [1, 2, 3, 4, 5, 6, 7, 0]


def test_five_hops_take_three_layers():
    """And no layer of softmax is so sharp that this is about hardmax."""
    assert hops.follow(RING, 5)[2] == 7 and hops.layers_for(5) == 3
    assert hops.doubling(RING, 5).value > 0


def test_the_third_layer_reads_four_ahead():
    names = hops.sign_names(8)
    third = hops.attention_of_the_ladder(RING, 3, names, 60.0)[2]
    assert third.argmax(dim=1).tolist() == [(i + 4) % 8 for i in range(8)]


def test_three_steps_end_three_ahead():
    """A head that hardly looks does not get there."""
    names = hops.sign_names(8)
    assert hops.walk(RING, 3, [6], names=names, beta=20.0) == [1]
    assert hops.walk(RING, 3, [6], names=names, beta=1e-6) != [1]


def test_every_filling_of_the_tile_has_its_own_answers():
    """Three hops from token 0 read the pointer of whichever token 1 points to."""
    rows = set()
    for filling in hops.all_contents(4).tolist():
        answers = [hops.follow([1, asked, *filling], 3)[0] for asked in (2, 3)]
        rows.add(tuple(answers))
    assert len(rows) == 16


def test_three_layers_that_look_back_reach_fourteen_and_doubling_does_not():
    ring = [(i + 1) % 41 for i in range(41)]
    assert hops.reach_of(3) == 14 and hops.looking_back(ring, 3).ok
    assert not hops.doubling(ring, 14, layers=3).ok


def test_names_reach_as_far_as_is_allowed():
    ring = hops.random_map(101, kind="cycle")["pointers"]
    chain = hops.random_map(40, kind="chain")["pointers"]
    for layers, both, ahead in zip(range(4), (1, 2, 5, 14), (1, 2, 4, 8)):
        assert hops.furthest(ring, layers, causal=False, known=1) == both
        assert hops.furthest(chain, layers, causal=True, known=1) == ahead
