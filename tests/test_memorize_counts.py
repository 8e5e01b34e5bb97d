"""Ids by counting: the kernels against literal twins, and bad input. Claims:
attnbook.theorems.contextual_mapping.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from attnlib.memorize.counts import (
    count_ids,
    fit_counts,
    sum_of_integers,
    telling_tokens,
)
from attnlib.memorize.dense import fit_groups


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


PAIR = torch.tensor([1, 1])


def drawn(N=50, n=4, tokens=9, seed=0):
    return torch.randint(tokens, (N, n), generator=seeded(seed))


def ringed(sequences):
    """The letters where a word of the dictionary first differs from the next."""
    words = sorted({tuple(sorted(sequence)) for sequence in sequences})
    letters = set()
    for word, following in pairwise(words):
        differ = [a for a, b in zip(word, following) if a != b]
        letters.add(differ[0])
    return sorted(letters)


@pytest.mark.parametrize("seed", range(5))
def test_telling_tokens_are_the_ringed_letters(seed):
    sequences = drawn(seed=seed, n=1 + seed)
    assert telling_tokens(sequences).tolist() == ringed(sequences.tolist())


def test_by_hand():
    """The picture of the page: aab, aac, abb, bcd, bdd; a, b and c are ringed."""
    words = torch.tensor([[0, 0, 1], [0, 0, 2], [0, 1, 1], [1, 2, 3], [1, 3, 3]])
    assert telling_tokens(words).tolist() == [0, 1, 2]
    integers = torch.tensor([7, 19, 2])
    sums = sum_of_integers(words, torch.tensor([0, 1, 2]), integers)
    assert sums.tolist() == [33, 16, 45, 21, 19]
    assert telling_tokens(words[:1, :1]).tolist() == []


def test_sums_are_those_of_a_dictionary():
    sequences = drawn(tokens=30)
    tokens = torch.tensor([2, 5, 29])
    integers = torch.tensor([10**15, 3, 7])
    given = dict(zip(tokens.tolist(), integers.tolist()))
    wanted = []
    for sequence in sequences.tolist():
        wanted.append(sum(given.get(token, 0) for token in sequence))
    assert sum_of_integers(sequences, tokens, integers).tolist() == wanted


def test_ids_are_those_of_multisets():
    sequences = drawn(N=200)
    found = count_ids(sequences, generator=seeded())
    turned = count_ids(sequences.flip(1), generator=seeded())
    assert torch.equal(found.ids, turned.ids)
    multisets = len(torch.unique(sequences.sort(-1).values, dim=0))
    assert len(found.ids.unique()) == multisets
    assert int(found.integers.max()) < multisets**2


def test_one_sequence_needs_no_token():
    same = torch.tensor([[3, 1], [1, 3]])
    found = count_ids(same, generator=seeded())
    assert found.tokens.tolist() == [] and found.ids.tolist() == [0, 0]
    assert fit_counts(same, torch.tensor([4, 4]), generator=seeded())([1, 3]) == 4


def test_the_network_knows_all_labels_and_other_tokens_count_as_nothing():
    sequences = drawn(N=80, n=5, tokens=400)
    labels = torch.randint(7, (80,), generator=seeded(1))
    net = fit_counts(sequences, labels, generator=seeded())
    given = [net(sequence) for sequence in sequences.tolist()]
    assert given == labels.tolist()
    tokens = set(telling_tokens(sequences).tolist())
    for token in range(420):
        assert (net.token_network(token) != 0) <= (token in tokens)
    both = net.token_network.parameters + net.label_network.parameters
    assert net.parameters == both + 1


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: fit_counts(
                torch.tensor([[1, 2], [3, 4], [2, 1]]),
                torch.tensor([0, 1, 5]),
                generator=seeded(),
            ),
            "labels contradict: one multiset has 0 and 5",
        ),
        (
            lambda: sum_of_integers(drawn(), torch.tensor([3, 3]), PAIR),
            "tokens must increase",
        ),
        (
            lambda: sum_of_integers(drawn(), torch.tensor([2**63 - 1, -(2**63)]), PAIR),
            "tokens must increase",
        ),
        (
            lambda: sum_of_integers(drawn(), PAIR.cumsum(0), PAIR * -(2**63)),
            "integers reach 9223372036854775808",
        ),
        (
            lambda: fit_groups(
                torch.ones(4, 2), torch.ones(4), tokens=None, generator=seeded()
            ),
            "points must differ, and 1 do",
        ),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.bad_input
@pytest.mark.parametrize("h", [None, torch.ones(2, 3), torch.ones(2, 2).double()])
def test_groups_refuse_other_points(h):
    net = fit_groups(torch.eye(2), torch.ones(2), generator=seeded())
    with pytest.raises(ValueError, match="h "):
        net(h)


def test_narrow_integers_serve():
    sequences = drawn().to(torch.int8)
    found = count_ids(sequences, generator=seeded())
    assert torch.equal(found.ids, count_ids(drawn(), generator=seeded()).ids)


@pytest.mark.bad_input
def test_a_network_refuses_another_length():
    net = fit_counts(drawn(), torch.zeros(50).long(), generator=seeded())
    with pytest.raises(ValueError, match="n = 4 tokens, got 2"):
        net([1, 2])


@pytest.mark.bad_input
def test_a_generator_that_tells_nothing_apart_is_given_up(monkeypatch):
    def zeros(size, shape, **where):
        return torch.zeros(shape, dtype=torch.int64)

    monkeypatch.setattr(torch, "randint", zeros)
    with pytest.raises(ValueError, match="no draw of 64"):
        count_ids(torch.tensor([[1, 2], [1, 3]]), generator=seeded())
