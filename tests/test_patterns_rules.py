"""Patterns from rules: the index sets are those of the rule."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import patterns
from attnlib.patterns import (
    Blocks,
    Columns,
    Strided,
    Window,
    build,
    from_rule,
)


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


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
    found = from_rule(N, rule).mask()
    assert torch.equal(found, literal(N, rule))
    assert torch.equal(found, wanted.mask())


def test_a_rule_is_asked_for_some_rows_at_a_time(monkeypatch):
    rule, wanted = WRITTEN["star"]
    monkeypatch.setattr(patterns.families, "CHUNK", 3 * N)
    assert torch.equal(from_rule(N, rule).mask(), wanted.mask())


def test_causal_is_that_of_the_pattern():
    def rule(k, j):
        return (k - j).abs() <= 2

    wanted = patterns.causal(patterns.window(N, 5))
    found = from_rule(N, rule, causal=True)
    assert torch.equal(found.mask(), wanted.mask())
    assert not torch.equal(from_rule(N, rule).mask(), wanted.mask())


@pytest.mark.again
@given(st.integers(2, 30), st.integers(0, 10**6))
def test_any_mask_is_found_again(n, seed):
    mask = torch.rand(n, n, generator=gen(seed)) < 0.5
    mask[:, seed % n] = True
    found = from_rule(n, lambda k, j: mask[k, j])
    assert torch.equal(found.mask(), mask)


def pair_by_pair(k, j):
    return abs(k - j) <= 2 and j <= k


BAD = {
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
}


@pytest.mark.bad_input
@pytest.mark.parametrize("name", BAD)
def test_bad_rules(name):
    rule, message = BAD[name]
    with pytest.raises(ValueError) as told:
        from_rule(8, rule)
    assert message in str(told.value)


@pytest.mark.bad_input
def test_a_causal_rule_lets_each_token_read():
    with pytest.raises(ValueError, match="tokens .0. read nothing"):
        from_rule(8, lambda k, j: j == 1, causal=True)
