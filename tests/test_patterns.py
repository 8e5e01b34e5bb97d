"""The room patterns: every family against its sets as a formula, rows against masks,
bad input.
"""

from __future__ import annotations

import math
import pickle
from dataclasses import FrozenInstanceError
from functools import partial
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook.theorems.patterns_and_conditions import by_sets
from attnlib import patterns
from attnlib.patterns import (
    Blocks,
    Columns,
    Lists,
    Rows,
    Step,
    Strided,
    Window,
)
from attnlib.patterns._bits import bit_product, closure, pack, unpack
from attnlib.patterns.hamilton import _both_ways, _by_rotations


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def strided_at_once(n, w):
    return patterns.one_step(patterns.strided(n, w))


def root(n):
    return math.isqrt(n - 1) + 1


# name -> (pattern of n, for each step the set A_k as a formula of n, k, j with w =
# ceil(sqrt(n)))
FAMILIES = {
    "dense": (patterns.dense, [lambda n, w, k, j: True]),
    "window": (lambda n: patterns.window(n, 3), [lambda n, w, k, j: abs(j - k) <= 1]),
    "dilated window": (
        lambda n: patterns.window(n, 5, dilation=2),
        [lambda n, w, k, j: abs(j - k) in (0, 2, 4)],
    ),
    "directed cycle": (
        patterns.directed_cycle,
        [lambda n, w, k, j: j in (k, (k - 1) % n)],
    ),
    "star": (
        patterns.star,
        [lambda n, w, k, j: abs(j - k) <= 1 or j == n - 1 or k == n - 1],
    ),
    "bare star": (
        lambda n: patterns.star(n, local=False),
        [lambda n, w, k, j: j in (k, n - 1) or k == n - 1],
    ),
    "strided": (
        patterns.strided,
        [
            lambda n, w, k, j: -math.ceil(w / 2) <= j - k <= w // 2,
            lambda n, w, k, j: (j - k) % w == 0,
        ],
    ),
    "strided, wide": (
        lambda n: patterns.strided(n, reach=root(n) - 1),
        [lambda n, w, k, j: abs(j - k) < w, lambda n, w, k, j: (j - k) % w == 0],
    ),
    "fixed": (
        patterns.fixed,
        [
            lambda n, w, k, j: j // w == k // w,
            lambda n, w, k, j: j == k or (j + 1) % w == 0,
        ],
    ),
    "fixed, closed": (
        lambda n: patterns.fixed(n, closed=True),
        [
            lambda n, w, k, j: j // w == k // w,
            lambda n, w, k, j: j in (k, n - 1) or (j + 1) % w == 0,
        ],
    ),
    "longformer": (
        lambda n: patterns.longformer(n, 5, 2),
        [lambda n, w, k, j: abs(j - k) <= 2 or j < 2 or k < 2],
    ),
    "block diagonal": (patterns.block_diagonal, [lambda n, w, k, j: j // w == k // w]),
    "shifted blocks": (
        patterns.shifted_blocks,
        [
            lambda n, w, k, j: j // w == k // w,
            lambda n, w, k, j: (j + w // 2) // w == (k + w // 2) // w,
        ],
    ),
    "logsparse": (
        patterns.logsparse,
        [lambda n, w, k, j: k == j or k - j in [2**i for i in range(20)]],
    ),
    "logsparse, both": (
        lambda n: patterns.logsparse(n, both=True),
        [lambda n, w, k, j: abs(k - j) in [0, *(2**i for i in range(20))]],
    ),
}


def literal(n, rule):
    return torch.tensor(
        [[bool(rule(n, root(n), k, j)) for j in range(n)] for k in range(n)]
    )


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("n", [5, 16, 23])
def test_families_are_their_formulas(name, n):
    make, rules = FAMILIES[name]
    pattern = make(n)
    assert pattern.p == len(rules) and pattern.n == n
    for step, rule in enumerate(rules):
        assert torch.equal(pattern.mask(step), literal(n, rule))
    assert pattern.connections == max(int(literal(n, rule).sum()) for rule in rules)


@pytest.mark.parametrize("n", [2, 5, 16, 23])
def test_cycles_are_their_formulas(n):
    m, cycle, blocks = (
        math.ceil(n / root(n)),
        patterns.dilation_cycle(n),
        patterns.blockwise(n),
    )
    assert cycle.p == max(1, math.ceil(math.log2(n))) and blocks.p == m

    def near(n, w, k, j, l):
        return abs(j - k) in (0, 2**l)

    def block(n, w, k, j, q):
        return j == k or j // w == (k // w + q) % m

    for l in range(cycle.p):
        assert torch.equal(cycle.mask(l), literal(n, partial(near, l=l)))
    for q in range(blocks.p):
        assert torch.equal(blocks.mask(q), literal(n, partial(block, q=q)))


@pytest.mark.parametrize("n", [9, 16])
def test_random_rows_hold_what_they_say(n):
    drawn, bird = (
        patterns.random(n, 4, generator=gen()),
        patterns.bigbird(n, 3, 1, 2, generator=gen()),
    )
    assert (
        drawn.mask().diagonal().all()
        and drawn.degrees().min() >= 4
        and drawn.degrees().max() <= 5
    )
    assert (
        bird.mask() | ~patterns.longformer(n, 3, 1).mask()
    ).all() and bird.connections <= patterns.longformer(n, 3, 1).connections + 2 * n
    assert torch.equal(
        bird.mask(), patterns.bigbird(n, 3, 1, 2, generator=gen()).mask()
    )
    assert not torch.equal(
        bird.mask(), patterns.bigbird(n, 3, 1, 2, generator=gen(1)).mask()
    )


def sets_of(pattern, step):
    crow, col = pattern.rows(step)
    return [col[a:b].tolist() for a, b in zip(crow, crow[1:])]


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_masks_and_sets_agree(name, monkeypatch):
    pattern = FAMILIES[name][0](13)
    monkeypatch.setattr(patterns.parts, "CHUNK", 40)  # several chunks
    steps = [sets_of(pattern, s) for s in range(pattern.p)]
    for s, sets in enumerate(steps):
        assert sets == [row.nonzero().flatten().tolist() for row in pattern.mask(s)]
        assert pattern.degrees(s).tolist() == [len(row) for row in sets]
    again = patterns.from_sets(*steps)
    masked = patterns.from_masks(*(pattern.mask(s) for s in range(pattern.p)))
    for other in (again, masked):
        assert other.p == pattern.p and all(
            torch.equal(other.mask(s), pattern.mask(s)) for s in range(pattern.p)
        )
    assert torch.equal(
        pattern.mask(pattern.p), pattern.mask(0)
    )  # the cycle begins again


@given(st.integers(2, 20), st.integers(0, 10**6))
def test_any_sets_survive(n, seed):
    mask = (torch.rand(n, n, generator=gen(seed)) < 0.3) | torch.eye(
        n, dtype=torch.bool
    ).roll(seed % 3, 1)
    pattern = patterns.from_masks(mask)
    assert torch.equal(pattern.mask(), mask) and torch.equal(
        patterns.from_sets(sets_of(pattern, 0)).mask(), mask
    )
    k, j = torch.randint(n, (2, 30), generator=gen(seed))
    assert torch.equal(pattern.reads(0, k, j), mask[k, j])


@pytest.mark.parametrize("name", FAMILIES)
def test_one_step_and_causal(name):
    pattern = FAMILIES[name][0](13)
    merged = patterns.one_step(pattern)
    assert merged.p == 1 and torch.equal(
        merged.mask(), torch.stack([pattern.mask(s) for s in range(pattern.p)]).any(0)
    )
    past = patterns.causal(pattern)
    assert all(
        torch.equal(past.mask(s), pattern.mask(s).tril()) for s in range(pattern.p)
    )


def test_parts_of_one_field_differ():
    assert Columns((0,)) != Rows((0,))
    assert Columns((0,)) == Columns((0,))
    assert len({Columns((0,)), Rows((0,)), Columns((0,))}) == 2
    pattern = patterns.build(4, [Window(0, 0), Columns((0,)), Rows((0,))])
    assert patterns.one_step(pattern) == pattern
    assert pattern.connections == 4 + 3 + 3


def listed(*sets):
    return patterns.from_sets(list(sets))


EQUAL = {
    "windows": (patterns.window(8, 3), patterns.build(8, Window(1, 1))),
    "lists": (listed([0, 1], [1]), listed([1, 0], [1])),
    "the order of parts": (
        patterns.build(4, [Window(0, 0), Rows((0,))]),
        patterns.build(4, [Rows((0,)), Window(0, 0)]),
    ),
    "a part twice": (
        patterns.build(4, [Strided(2), Strided(2)]),
        patterns.build(4, Strided(2)),
    ),
}
UNLIKE = {
    "n": (patterns.window(8, 3), patterns.window(9, 3)),
    "lists": (listed([0, 1], [1]), listed([0], [0, 1])),
    "lists of the same lengths": (listed([0, 1], [1]), listed([0, 1], [0])),
    "the same tokens in a row": (listed([0, 1], [2], [0]), listed([0], [1, 2], [0])),
    "causal": (patterns.dense(4), patterns.causal(patterns.dense(4))),
    "the order of steps": (
        patterns.build(4, Window(1, 1), Strided(2)),
        patterns.build(4, Strided(2), Window(1, 1)),
    ),
    "other parts, the same sets": (
        patterns.dense(4),
        patterns.build(4, Strided(1)),
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_patterns_of_the_same_parts_are_equal(name):
    one, other = EQUAL[name]
    assert one == other
    assert hash(one) == hash(other)
    assert {one: "found"}[other] == "found"


@pytest.mark.parametrize("name", UNLIKE)
def test_other_patterns_are_unlike(name):
    one, other = UNLIKE[name]
    assert one != other
    assert len({one, other}) == 2


def test_patterns_are_values():
    pattern = patterns.random(8, 2, generator=gen())
    assert pickle.loads(pickle.dumps(pattern)) == pattern
    with pytest.raises(FrozenInstanceError):
        pattern.n = 9
    with pytest.raises(TypeError, match="cannot unpack|not iterable"):
        n, steps = pattern


def test_degrees_are_those_of_the_first_step_unless_it_is_named():
    """Five tokens, two before each and itself; then the classes 0, 3 | 1, 4 | 2."""
    pattern = patterns.from_sets(
        [[0], [0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]],
        [[0, 3], [1, 4], [2], [0, 3], [1, 4]],
    )
    assert pattern.degrees().tolist() == [1, 2, 3, 3, 3]
    assert pattern.degrees(1).tolist() == [2, 2, 1, 2, 2]


def by_hand(made):
    """The masks of a union, step by step."""
    p = max(pattern.p for pattern in made)
    return [torch.stack([m.mask(step) for m in made]).any(0) for step in range(p)]


UNIONS = {
    "one step each": lambda n: (patterns.window(n, 3), patterns.star(n)),
    "one step joins two": lambda n: (patterns.longformer(n), patterns.strided(n)),
    "three": lambda n: (
        patterns.fixed(n),
        patterns.window(n, 5),
        patterns.strided(n),
    ),
    "all causal": lambda n: (
        patterns.causal(patterns.star(n)),
        patterns.causal(patterns.fixed(n)),
    ),
    "one causal": lambda n: (
        patterns.causal(patterns.strided(n)),
        patterns.window(n, 3),
    ),
    "one causal, one back": lambda n: (
        patterns.causal(patterns.star(n)),
        patterns.logsparse(n),
    ),
    "lists": lambda n: (
        patterns.random(n, 3, generator=gen()),
        patterns.causal(patterns.random(n, 2, generator=gen(1))),
    ),
}


@pytest.mark.parametrize("name", UNIONS)
@pytest.mark.parametrize("n", [9, 16])
def test_unions_go_step_by_step(name, n):
    made = UNIONS[name](n)
    united = patterns.union(*made)
    wanted = by_hand(made)
    assert united.p == len(wanted)
    for step, mask in enumerate(wanted):
        assert torch.equal(united.mask(step), mask)
    assert patterns.union(*reversed(made)) == united


def test_steps_of_which_some_are_causal_become_one():
    pattern = patterns.build(5, Step((Window(1, 1),), causal=True), Strided(2))
    wanted = pattern.mask(0) | pattern.mask(1)
    assert torch.equal(patterns.one_step(pattern).mask(), wanted)
    # a causal step of both parts, and one that is not, are both wrong
    for causal in (True, False):
        step = Step((Window(1, 1), Strided(2)), causal)
        assert not torch.equal(patterns.build(5, step).mask(), wanted)


def test_lists_may_be_empty_and_are_copied():
    crow, col = torch.zeros(5, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
    assert torch.equal(
        patterns.build(4, [Window(1, 1), Lists(crow, col)]).mask(),
        patterns.window(4, 3).mask(),
    )
    crow, col = torch.arange(5), torch.tensor([1, 2, 3, 0])
    pattern = patterns.build(4, Lists(crow, col))
    col.zero_(), crow.zero_()
    assert sets_of(pattern, 0) == [[1], [2], [3], [0]]


def test_wrapped_windows_go_round():
    pattern = patterns.build(5, Window(1, 2, dilation=2, wrap=True))
    assert sets_of(pattern, 0)[0] == [0, 2, 3, 4] and sets_of(pattern, 0)[4] == [
        1,
        2,
        3,
        4,
    ]


BAD = {
    "one token": (lambda: patterns.dense(1), "n must be an integer of at least 2"),
    "no part": (lambda: patterns.build(3, []), "at least one part"),
    "no pattern": (lambda: patterns.build(3, [7]), "parts must be Windows"),
    "even window": (lambda: patterns.window(8, 4), "it must be odd, got 4"),
    "wide window": (lambda: patterns.window(8, 9), "must be in 1..n = 1..8, got 9"),
    "stride": (lambda: patterns.strided(8, 9), "w must be in 1..n"),
    "global": (lambda: patterns.longformer(8, 3, 9), "g must be in 1..n"),
    "draws": (lambda: patterns.random(8, 9, generator=gen()), "r must be in 1..n"),
    "shift": (lambda: patterns.build(8, Blocks(2, 2)), "0 <= shift < size"),
    "column": (
        lambda: patterns.build(8, Columns((8,))),
        "indices must be in 0..7, got [8]",
    ),
    "ragged steps": (
        lambda: patterns.from_sets([[0], [1]], [[0], [1], [2]]),
        "step 1 has 3 sets, step 0 has 2",
    ),
    "index": (
        lambda: patterns.from_sets([[0], [1, 5]]),
        "indices must be in 0..1, got [5]",
    ),
    "twice": (lambda: patterns.from_sets([[0, 0], [1]]), "holds an index twice"),
    "nobody": (lambda: patterns.from_sets([[0, 1], []]), "tokens [1] read nothing"),
    "hidden row": (
        lambda: patterns.from_masks(torch.tensor([[True, True], [False, False]])),
        "tokens [1] read nothing",
    ),
    "rows alone": (lambda: patterns.build(3, Rows((0,))), "tokens [1, 2] read nothing"),
    "causal column": (
        lambda: patterns.causal(patterns.build(3, Columns((1,)))),
        "tokens [0] read nothing",
    ),
    "one for a union": (
        lambda: patterns.union(patterns.dense(3)),
        "one_step(pattern) merges the steps",
    ),
    "unlike p": (
        lambda: patterns.union(patterns.strided(9), patterns.blockwise(9)),
        "each must have p = 1 or p = 3 steps, got [2, 3]",
    ),
    "falling tokens": (lambda: Rows((2, 1)), "tokens must rise, none twice"),
    "int32 lists": (
        lambda: Lists(torch.arange(4).int(), torch.arange(3)),
        "crow must be an int64 vector on the CPU, got torch.int32",
    ),
    "a negative index": (
        lambda: patterns.dense(4).reads(0, torch.tensor(-1), torch.tensor(0)),
        "k must hold indices in 0..3",
    ),
    "a small index": (
        lambda: patterns.dense(4).reads(0, torch.tensor(1), torch.tensor(0).byte()),
        "j must be int64",
    ),
    "half a step": (lambda: patterns.dense(4).mask(0.5), "step must be an integer"),
    "falling crow": (
        lambda: patterns.build(
            3, Lists(torch.tensor([0, 2, 1, 3]), torch.tensor([0, 1, 2]))
        ),
        "start at 0 and never fall",
    ),
    "unsorted": (
        lambda: patterns.build(
            3, [Window(0, 0), Lists(torch.tensor([0, 2, 2, 2]), torch.tensor([2, 1]))]
        ),
        "must rise, none twice",
    ),
    "short lists": (
        lambda: patterns.build(3, Lists(torch.tensor([0, 1, 2]), torch.tensor([0, 1]))),
        "must hold 3 rows, got 2",
    ),
    "no row": (
        lambda: Lists(torch.arange(0), torch.arange(0)),
        "start at 0 and never fall",
    ),
}


@pytest.mark.bad_input
@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, message = BAD[name]
    with pytest.raises(ValueError) as told:
        call()
    assert message in str(told.value)


# --- the conditions


def test_reach_is_the_product_of_the_steps():
    pattern = patterns.strided(16)
    assert torch.equal(
        patterns.reach(pattern, 0), torch.eye(16, dtype=torch.bool)
    ) and torch.equal(patterns.reach(pattern, 1), pattern.mask(0))
    assert not patterns.reach(pattern, 2)[12, 15] and patterns.reach(pattern, 3).all()


@given(
    st.integers(1, 40), st.integers(1, 200), st.integers(1, 70), st.integers(0, 10**6)
)
def test_products_of_bits_are_products(n, m, l, seed):
    a, b = (
        torch.rand(n, m, generator=gen(seed)) < 0.2,
        torch.rand(m, l, generator=gen(seed + 1)) < 0.2,
    )
    assert torch.equal(
        unpack(bit_product(pack(a), pack(b)), l), a.float() @ b.float() > 0
    )
    assert torch.equal(unpack(pack(a), m), a)


def test_hops_count_the_skip_unless_it_is_left_out():
    """Two tokens that read each other and not themselves: by the skip each has heard
    of both after one layer; without it they only change places.
    """
    swap = patterns.from_sets([[1], [0]])
    everything = torch.ones(2, 2, dtype=torch.bool)
    for count in (patterns.hops, by_sets):
        assert count(swap, skip=True) == 1
        assert count(swap, skip=False) is None
    assert torch.equal(patterns.reach(swap, 1), everything)
    assert torch.equal(patterns.reach(swap, 1, skip=False), swap.mask())


@pytest.mark.parametrize("n", [2, 5, 30])
def test_closure_is_the_limit_of_the_powers(n):
    edges = torch.rand(n, n, generator=gen(n)) < 1.2 / n
    power = torch.linalg.matrix_power(
        edges.double() / n + torch.eye(n, dtype=torch.float64), n
    )
    assert torch.equal(closure(edges), power > 0)


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        ([[0], [1], [0, 1, 2]], "tokens 0 and 1 read no other token"),
        ([[0, 1], [0, 1], [0, 2], [0, 3]], "tokens 2 and 3 are read by no other token"),
        ([[0, 1], [0, 1], [2, 3], [2, 3]], "there are 2 pieces"),
        ([[0, 2], [1, 3], [0, 2], [1, 3]], "there are 2 pieces"),
        (
            [
                [0, 1],
                [0, 1],
                *[[0, 1, 2, 3]] * 2,
                *[[0, 1, 4, 5]] * 2,
                *[[2, 3, 4, 5, 6, 7]] * 2,
            ],
            "would follow each other",
        ),
    ],
)
def test_reasons_against_a_path(sets, reason):
    found = patterns.check(patterns.from_sets(sets))
    assert (
        reason in found.reasons["hamiltonian_path"]
        and found.all_met is False
        and not found.unknown
    )


def test_a_path_that_begins_in_the_middle_is_turned():
    """Tokens 0, 2, 4, ... to the right of 0 and 1, 3, 5, ... to its left: a path that
    grows from 0 ends on one side, and goes on only at its other end.
    """
    n = 41
    sets = [[k, *(j for j in (k - 2, k + 2) if 0 <= j < n)] for k in range(n)]
    sets[0].append(1)
    sets[1].append(0)
    found = patterns.check(patterns.from_sets(sets)).hamiltonian_path
    line = (*range(n - 2, 0, -2), *range(0, n, 2))
    assert found in (line, line[::-1])


def test_a_circle_is_opened_where_the_last_token_goes_on():
    """Tokens 0, ..., 12 in a circle, and one who reads all of them but 12, where the
    path from 0 ends. It goes on from any other end, whatever is drawn.
    """
    reads = torch.zeros(14, 14, dtype=torch.bool)
    circle = torch.arange(13)
    reads[(circle + 1) % 13, circle] = True
    reads[13, :12] = True
    pattern = patterns.from_masks(reads)
    for seed in range(40):
        path = _by_rotations(reads, moves=2, seed=seed)
        assert path is not None and patterns.is_path(pattern, path)
    assert _by_rotations(reads, moves=1) is None


def test_a_search_that_is_stuck_begins_anew():
    """Only the last token reads token 0: a path that starts there cannot grow."""
    order = (*range(1, 12), 0, 12)
    sets = [[k] for k in range(13)]
    for before, token in pairwise(order):
        sets[token].append(before)
    sets[1].append(5)
    assert patterns.check(patterns.from_sets(sets)).hamiltonian_path == order


def test_tried_all_and_gave_up():
    hypercube = patterns.from_sets(
        [[k, *(k ^ 1 << b for b in range(5))] for k in range(32)]
    )
    assert patterns.is_path(hypercube, patterns.check(hypercube).hamiltonian_path)
    lost = patterns.check(hypercube, moves=0)
    assert (
        lost.unknown == ("hamiltonian_path",)
        and lost.all_met is None
        and lost.hamiltonian_path is None
        and not lost.reasons
    )


def test_a_missing_self_loop_is_named():
    found = patterns.check(
        patterns.from_sets([[0, 1], [0], [0, 1, 2]], [[0], [1, 2], [2]])
    )
    assert (
        found.self_loops is False
        and found.reasons["self_loops"] == "token 1 does not read itself in step 0"
    )


def test_a_path_is_turned_if_each_of_its_steps_goes_both_ways():
    reads = patterns.window(4, 3).mask()
    assert _both_ways([0, 1, 2, 3], reads)
    reads[2, 3] = False
    assert not _both_ways([0, 1, 2, 3], reads)
    assert not _both_ways([0], reads)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "make",
    [
        patterns.dense,
        patterns.star,
        patterns.logsparse,
        patterns.strided,
        patterns.directed_cycle,
        lambda n: patterns.window(n, 1),
        lambda n: patterns.fixed(n, 1),
        lambda n: patterns.longformer(n, 1, 1),
    ],
)
def test_two_tokens_are_the_fewest(make):
    pattern = make(2)
    assert pattern.n == 2 and pattern.mask().diagonal().all()
    with pytest.raises(ValueError, match="n must be an integer of at least 2, got 1"):
        make(1)


def test_paths_are_verified():
    pattern = patterns.directed_cycle(5)
    assert patterns.is_path(pattern, [2, 3, 4, 0, 1])
    assert (
        not patterns.is_path(pattern, [1, 0, 4, 3, 2])
        and not patterns.is_path(pattern, [0, 1, 2, 3])
        and not patterns.is_path(pattern, [0, 1, 2, 3, 3])
    )


@pytest.mark.parametrize("n", [64, 256])
def test_random_graphs_have_paths_that_are_found(n):
    for seed in range(4):
        found = patterns.check(patterns.random(n, 8, generator=gen(seed)))
        assert found.all_met is not None or found.unknown


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("family", "sizes", "message"),
    [
        ("strided", (8, 2), "needs 3 <= w < n"),
        ("window", (8, 4), "needs an odd w"),
        ("longformer", (9, 1, 1), "odd w in 3..n, g >= 1"),
        ("longformer", (9, 2, 1), "odd w in 3..n, g >= 1"),
        ("longformer", (9, 5, 6), "odd w in 3..n, g >= 1"),
        ("star", (1,), "n must be an integer of at least 2"),
        ("star", (2,), "n >= 3"),
        ("block diagonal", (8, 9), "b in 1..n"),
        ("blockwise", (8, 8), "b < n"),
        ("strided, union", (10, 3), "w >= 3 that divides n"),
        ("strided, union", (6, 2), "w >= 3 that divides n"),
    ],
)
def test_a_formula_asks_for_its_sizes(family, sizes, message):
    with pytest.raises(ValueError, match=message):
        patterns.exact(family, *sizes)


@pytest.mark.parametrize(
    ("family", "make", "sizes"),
    [
        ("dense", patterns.dense, [2]),
        ("window", patterns.window, [3, 3]),
        ("window", patterns.window, [5, 5]),
        ("window", patterns.window, [7, 3]),
        ("dilation cycle", patterns.dilation_cycle, [2]),
        ("dilation cycle", patterns.dilation_cycle, [5]),
        ("directed cycle", patterns.directed_cycle, [2]),
        ("directed cycle", patterns.directed_cycle, [5]),
        ("star", patterns.star, [3]),
        ("star", patterns.star, [4]),
        ("longformer", patterns.longformer, [4, 3, 1]),
        ("longformer", patterns.longformer, [6, 5, 2]),
        ("longformer", patterns.longformer, [9, 5, 2]),
        ("strided", patterns.strided, [4, 3]),
        ("strided", patterns.strided, [10, 4]),
        ("strided, union", strided_at_once, [6, 3]),
        ("strided, union", strided_at_once, [12, 4]),
        ("fixed", patterns.fixed, [3, 2]),
        ("fixed", patterns.fixed, [9, 3]),
        ("fixed", patterns.fixed, [10, 4]),
        ("block diagonal", patterns.block_diagonal, [4, 1]),
        ("block diagonal", patterns.block_diagonal, [4, 4]),
        ("block diagonal", patterns.block_diagonal, [5, 2]),
        ("shifted blocks", patterns.shifted_blocks, [4, 2]),
        ("shifted blocks", patterns.shifted_blocks, [4, 4]),
        ("blockwise", patterns.blockwise, [4, 1]),
        ("blockwise", patterns.blockwise, [12, 3]),
        ("logsparse", patterns.logsparse, [2]),
        ("logsparse", patterns.logsparse, [5]),
    ],
)
def test_formulas_hold_at_the_smallest_sizes(family, make, sizes):
    """Counted on the pattern; the first size of a family is the least that is taken."""
    pattern = make(*sizes)
    counted = patterns.Exact(pattern.p, patterns.hops(pattern), pattern.connections)
    assert patterns.exact(family, *sizes) == counted
