"""Patterns from rules: the parts that are found, and that the index sets are those of
the rule whatever is found.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import patterns
from attnlib.patterns import (
    Blocks,
    Columns,
    Lists,
    Pattern,
    Rows,
    Step,
    Strided,
    Window,
    build,
    from_rule,
    rules,
)


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def rule_of(pattern, step=0):
    def rule(k, j):
        return pattern.reads(step, k, j)

    return rule


def literal(n, rule):
    """The mask of a rule, pair by pair."""
    pairs = torch.cartesian_prod(torch.arange(n), torch.arange(n))
    answers = [bool(rule(k, j)) for k, j in pairs]
    return torch.tensor(answers).view(n, n)


N = 16  # blocks and strides of 4

# what a reader would write -> the pattern it is
WRITTEN = {
    "window": (lambda k, j: (k - j).abs() <= 2, patterns.window(N, 5)),
    "dilated window": (
        lambda k, j: ((k - j).abs() <= 4) & ((k - j) % 2 == 0),
        patterns.window(N, 5, dilation=2),
    ),
    "the past of a window": (
        lambda k, j: (j <= k) & (k - j < 4),
        build(N, Window(3, 0)),
    ),
    "round a circle": (lambda k, j: (k - j) % N <= 1, patterns.directed_cycle(N)),
    "round a circle, both ways": (
        lambda k, j: (k - j + 2) % N <= 5,
        build(N, Window(3, 2, wrap=True)),
    ),
    "every fourth": (lambda k, j: (k - j) % 4 == 0, build(N, Strided(4))),
    "all": (lambda k, j: (k >= 0) & (j >= 0), patterns.dense(N)),
    "by the read token alone": (
        lambda k, j: j % 4 == 3,
        build(N, Columns((3, 7, 11, 15))),
    ),
    "star": (
        lambda k, j: ((k - j).abs() <= 1) | (j == N - 1) | (k == N - 1),
        patterns.star(N),
    ),
    "bare star": (
        lambda k, j: (k == j) | (j == N - 1) | (k == N - 1),
        patterns.star(N, local=False),
    ),
    "Longformer": (
        lambda k, j: ((k - j).abs() <= 2) | (j < 2) | (k < 2),
        patterns.longformer(N, 5, 2),
    ),
    "documents": (lambda k, j: k // 4 == j // 4, patterns.block_diagonal(N)),
    "documents, shifted": (
        lambda k, j: (k + 2) // 4 == (j + 2) // 4,
        build(N, Blocks(4, 2)),
    ),
    "documents of unlike length": (
        lambda k, j: (k < 3) == (j < 3),
        build(N, Blocks(13, 10)),
    ),
    "the next token, round the circle": (
        lambda k, j: j == (k + 1) % N,
        build(N, Blocks(1, turn=1)),
    ),
    "the next document": (
        lambda k, j: (k == j) | ((k // 4 + 1) % 4 == j // 4),
        build(N, [Window(0, 0), Blocks(4, turn=1)]),
    ),
    "the document after the next, shifted": (
        lambda k, j: (k == j) | (((k + 1) // 4 + 2) % 5 == (j + 1) // 4),
        build(N, [Window(0, 0), Blocks(4, 1, turn=2)]),
    ),
    "the next document, after one of two tokens": (  # which the second reads beside it
        lambda k, j: (k == j) | (((k + 1) // 3 + 1) % 6 == (j + 1) // 3),
        build(N, [Window(0, 0), Blocks(3, 1, turn=1)]),
    ),
    "the past of documents": (
        lambda k, j: (k // 4 == j // 4) & (j <= k),
        patterns.causal(patterns.block_diagonal(N)),
    ),
    "the past of documents and of chapters": (
        lambda k, j: ((k // 3 == j // 3) | (k // 8 == j // 8)) & (j <= k),
        patterns.causal(build(N, [Blocks(3), Blocks(8)])),
    ),
    "blocks and their ends": (
        lambda k, j: (k // 4 == j // 4) | (j % 4 == 3),
        build(N, [Blocks(4), Columns((3, 7, 11, 15))]),
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_rule_is_the_pattern_that_it_describes(name):
    rule, wanted = WRITTEN[name]
    assert torch.equal(wanted.mask(), literal(N, rule))
    assert from_rule(N, rule) == wanted


def test_one_pair_more_is_listed():
    def rule(k, j):
        return ((k - j).abs() <= 2) | ((k == 3) & (j == 12))

    found = from_rule(N, rule)
    assert found != patterns.window(N, 5)
    near, one = found.steps[0].parts
    assert near == Window(2, 2)
    assert one.col.tolist() == [12]


def test_one_pair_less_is_no_window():
    def rule(k, j):
        return ((k - j).abs() <= 2) & ~((k == 3) & (j == 4))

    parts = from_rule(N, rule).steps[0].parts
    assert Window(2, 2) not in parts
    assert any(isinstance(part, Lists) for part in parts)


def test_causal_is_that_of_the_pattern():
    def rule(k, j):
        return (k - j).abs() <= 2

    wanted = patterns.causal(patterns.window(N, 5))
    assert from_rule(N, rule, causal=True) == wanted
    assert from_rule(N, rule) != wanted


FAMILIES = {
    "dense": patterns.dense,
    "window": lambda n: patterns.window(n, 3),
    "dilated window": lambda n: patterns.window(n, 3, dilation=2),
    "dilation cycle": patterns.dilation_cycle,
    "directed cycle": patterns.directed_cycle,
    "star": patterns.star,
    "strided": patterns.strided,
    "fixed": patterns.fixed,
    "fixed, closed": lambda n: patterns.fixed(n, closed=True),
    "Longformer": lambda n: patterns.longformer(n, 5, 2),
    "block diagonal": patterns.block_diagonal,
    "shifted blocks": patterns.shifted_blocks,
    "blockwise": patterns.blockwise,
    "LogSparse": patterns.logsparse,
    "LogSparse, both": lambda n: patterns.logsparse(n, both=True),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("n", [9, 16, 23, 65])
def test_families_have_few_parts(name, n):
    pattern = FAMILIES[name](n)
    merged = patterns.one_step(pattern)
    for made in (pattern, merged, patterns.causal(pattern), patterns.causal(merged)):
        for number, step in enumerate(made.steps):
            found = from_rule(n, rule_of(made, number))
            assert torch.equal(found.mask(), made.mask(number))
            parts = found.steps[0].parts
            assert len(parts) <= len(step.parts)
            assert not any(isinstance(part, Lists) for part in parts)


def test_a_random_pattern_is_listed():
    """The control: few parts are not found where there are none."""
    drawn = patterns.random(40, 6, generator=gen())
    itself, rest = from_rule(40, rule_of(drawn)).steps[0].parts
    assert itself == Window(0, 0)
    assert len(rest.col) > 40 * 5


@pytest.mark.parametrize("causal", [False, True])
def test_bigbird_lists_what_no_part_holds(causal):
    n = 64
    certain = patterns.longformer(n, 3, 1)
    pattern = patterns.bigbird(n, 3, 1, 2, generator=gen())
    if causal:
        certain = patterns.causal(certain)
        pattern = patterns.causal(pattern)
    found = from_rule(n, rule_of(pattern))
    *parts, rest = found.steps[0].parts
    assert set(parts) == set(from_rule(n, rule_of(certain)).steps[0].parts)
    assert len(rest.col) == pattern.connections - certain.connections


@st.composite
def parts(draw, n):
    tokens = st.sets(st.integers(0, n - 1), min_size=1, max_size=4)
    some = tuple(sorted(draw(tokens)))
    size = draw(st.integers(1, n + 1))
    small = st.integers(0, n // 2)
    pairs = torch.rand(n, n, generator=gen(size)) < draw(st.sampled_from([0.02, 0.3]))
    crow = torch.tensor([0, *pairs.sum(1).cumsum(0).tolist()])
    made = (
        Window(draw(small), draw(small), size, draw(st.booleans())),
        Window(draw(small), draw(small)),
        Strided(size),
        Blocks(size, draw(st.integers(0, size - 1)), draw(st.integers(0, 3))),
        Columns(some),
        Rows(some),
        Lists(crow, pairs.nonzero()[:, 1]),
    )
    return draw(st.sampled_from(made))


@st.composite
def unions(draw):
    n = draw(st.integers(2, 40))
    chosen = draw(st.lists(parts(n), min_size=1, max_size=4))
    if draw(st.booleans()):
        chosen.append(Window(0, 0))
    return n, Step(tuple(chosen), draw(st.booleans()))


@pytest.mark.again
@settings(max_examples=40)
@given(unions(), st.sampled_from([1, 97, 1 << 22]), st.booleans())
def test_any_union_of_parts_is_found_again(given_step, together, causal):
    n, step = given_step
    try:
        pattern = Pattern(n, (step,))
        wanted = patterns.causal(pattern) if causal else pattern
    except ValueError:  # some token reads nothing
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "CHUNK", together)
        found = from_rule(n, rule_of(pattern), causal=causal)
    assert torch.equal(found.mask(), wanted.mask())


@pytest.mark.again
@given(st.integers(2, 30), st.integers(0, 10**6))
def test_any_mask_is_found_again(n, seed):
    mask = torch.rand(n, n, generator=gen(seed)) < 0.5
    mask[:, seed % n] = True
    found = from_rule(n, lambda k, j: mask[k, j])
    assert torch.equal(found.mask(), mask)


def test_what_is_found_is_compared_with_the_rule(monkeypatch):
    """The control: a search that loses the last row of a star is noticed. Of its 14
    pairs that no other part holds, the first is named.
    """
    rule = rule_of(patterns.star(N))
    whole = rules.recognised(N, rule)
    monkeypatch.setattr(rules, "recognised", lambda n, rule: Step(whole.parts[:2]))
    with pytest.raises(ValueError, match="the pair k = 15, j = 0 in two ways"):
        from_rule(N, rule)


def test_intervals_are_counted_round_the_circle():
    start = np.array([3, -1, 0, 12])
    length = np.array([4, 2, -2, 9])
    counted = [0] * 5
    for first, many in zip(start, length):
        for place in range(first, first + min(many, 5)):
            counted[place % 5] += 1
    assert counted == [3, 2, 1, 2, 3]
    assert rules._covered(5, start, length).tolist() == counted


def pair_by_pair(k, j):
    return abs(k - j) <= 2 and j <= k


def by_the_chunk(k, j):
    return (k == j) | (k == k.max())


BAD = {
    "no function": (None, "rule must be a function of k and j, got None"),
    "pair by pair": (pair_by_pair, "answer for all pairs at once"),
    "one index": (lambda k: k > 0, "answer for all pairs at once"),
    "a table too small": (lambda k, j: torch.ones(3).bool()[j], "IndexError"),
    "numbers": (lambda k, j: k - j, "must return a boolean tensor, got torch.int64"),
    "no tensor": (lambda k, j: True, "must return a boolean tensor, got bool"),
    "another shape": (
        lambda k, j: torch.ones(3, 5).bool(),
        "broadcasts to (rows, n) = (8, 8), got (3, 5)",
    ),
    "too many dimensions": (lambda k, j: (k <= j)[None], "got (1, 8, 8)"),
    "nobody": (lambda k, j: k < j, "tokens [7] read nothing"),
    "nothing": (lambda k, j: k < j - 8, "tokens [0, 1, 2, 3, 4] read nothing"),
    # of 8 rows at once the largest is 7; the half of them that is asked again ends at 3
    "the largest of a chunk": (by_the_chunk, "it answered the pair k = 3, j = 0 in"),
    "at random": (lambda k, j: (k == j) | (torch.rand(len(k), 8) < 0.5), "in two ways"),
}


@pytest.mark.bad_input
@pytest.mark.parametrize("name", BAD)
def test_bad_rules(name):
    rule, message = BAD[name]
    with pytest.raises(ValueError) as told:
        from_rule(8, rule)
    assert message in str(told.value)


@pytest.mark.bad_input
def test_bad_sizes_and_flags():
    def rule(k, j):
        return k < j

    with pytest.raises(ValueError, match="n must be an integer of at least 2, got 2.5"):
        from_rule(2.5, rule)
    with pytest.raises(ValueError, match="causal must be a bool, got 'yes'"):
        from_rule(8, rule, causal="yes")
    with pytest.raises(ValueError, match="tokens .0. read nothing"):
        from_rule(8, lambda k, j: j == 1, causal=True)
