"""Ids of sequences by counting: a random integer for some of the tokens, a plain mean,
and no softmax.

    s(X) = sum_k a(x_k),   a(x) uniform in {0, ..., M - 1} for telling tokens, else 0

Page: notebooks/one_layer_memorization/contextual_mapping
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import SupportsIndex

import torch
from jaxtyping import Int
from torch import Tensor

from attnlib import _require
from attnlib._require import require
from attnlib.memorize.deep import Deep, _integers, fit_deep

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
DRAWS = 64  # before it gives up


@dataclass(frozen=True, eq=False)
class CountIds:
    """The tokens (c,) that count, increasing, and their integers; ids (N,), equal for
    equal multisets only.
    """

    tokens: Tensor
    integers: Tensor
    ids: Tensor


@dataclass(frozen=True)
class CountNetwork:
    """Two ReLU networks around a uniform average: the first takes each of n tokens to
    its integer, the second n times the mean of these to the label.
    """

    token_network: Deep
    label_network: Deep
    n: int

    @property
    def parameters(self) -> int:
        """Of both networks, those that are not zero, and the factor n."""
        return self.token_network.parameters + self.label_network.parameters + 1

    def __call__(self, sequence: Sequence[SupportsIndex]) -> int:
        """The label of a sequence of n tokens, every unit as written."""
        tokens = _integers("sequence", sequence)
        got = len(tokens)
        require(got == self.n, f"sequence must have n = {self.n} tokens, got {got}")
        known = {token: self.token_network(token) for token in set(tokens)}
        total = sum(known[token] for token in tokens)  # n times the mean
        return self.label_network(total)


def telling_tokens(sequences: Int[Tensor, "N n"]) -> Int[Tensor, " c"]:
    """Tokens whose counts tell all different multisets apart, fewer than there are
    multisets.

    Each sequence, its tokens in order, is a word. The words are sorted as in a
    dictionary, and where a word differs first from the next one, its letter is taken.

    Source: derived on the page.
    Claim: ids.counts
    """
    _check("sequences", sequences, 2)
    words = torch.unique(sequences.sort(-1).values, dim=0)
    differ = words[1:] != words[:-1]
    first = differ.int().argmax(-1, keepdim=True)
    return words[:-1].gather(-1, first).unique()


def count_ids(sequences: Int[Tensor, "N n"], *, generator: torch.Generator) -> CountIds:
    """Ids of sequences by a random integer below N^2 for each telling token, drawn
    until all N different multisets have different sums.

    Returns:
        CountIds, after fewer than two draws in expectation.

    Source: derived on the page, after ids by random numbers as they are usual for
        hashing.
    Claim: ids.counts
    """
    tokens = telling_tokens(sequences)
    _require.random(generator)
    multisets = len(torch.unique(sequences.sort(-1).values, dim=0))
    size = multisets**2
    for _ in range(DRAWS):
        drawn = torch.randint(
            size, tokens.shape, generator=generator, device=generator.device
        )
        drawn = drawn.to(sequences.device)
        ids = sum_of_integers(sequences, tokens, drawn)
        if len(ids.unique()) == multisets:
            return CountIds(tokens, drawn, ids)
    raise ValueError(
        f"no draw of {DRAWS} from generator tells {multisets} multisets apart"
    )


def sum_of_integers(
    sequences: Int[Tensor, "N n"],
    tokens: Int[Tensor, " c"],
    integers: Int[Tensor, " c"],
) -> Int[Tensor, " N"]:
    """The sum of the integers of the tokens of each sequence: n times what uniform
    attention gives.

    Args:
        tokens: those that have an integer, increasing; all others have 0.

    Claim: ids.counts
    """
    _check("sequences", sequences, 2)
    for name, vector in (("tokens", tokens), ("integers", integers)):
        _check(name, vector, 1)
        _require.same_device(name, vector, sequences.device, "sequences")
    # Differences of unsigned or of large integers would wrap.
    increase = bool((tokens[1:] > tokens[:-1]).all())
    require(
        increase and len(tokens) == len(integers),
        "tokens must increase, and integers be as many",
    )
    if not len(tokens):
        return sequences.new_zeros(len(sequences), dtype=torch.int64)
    n = sequences.shape[1]
    largest = max(int(integers.max()), -int(integers.min()))
    require(n * largest < 2**63, f"integers reach {largest}: sums of {n} leave int64")
    tokens = tokens.long()
    place = torch.searchsorted(tokens, sequences.long().contiguous())
    place = place.clamp(max=len(tokens) - 1)
    found = tokens[place] == sequences
    return (integers.long()[place] * found).sum(-1)


def fit_counts(
    sequences: Int[Tensor, "N n"],
    labels: Int[Tensor, " N"],
    *,
    generator: torch.Generator,
) -> CountNetwork:
    """A network that gives each sequence its label, with parameters that grow like the
    square root of the number of sequences, whatever their length.

        token -> integer (fit_deep),   mean,   n mean -> label (fit_deep)

    Args:
        sequences: tokens from 0 on.
        labels: from 0 on; equal multisets must have equal labels.

    Returns:
        CountNetwork, exact in integers.

    Source: after Kajitsuka and Sato 2025 (abstract seen), whose construction was not
        before us; ours counts at most N - 1 tokens.
    Claim: ids.root
    """
    found = count_ids(sequences, generator=generator)
    require(int(sequences.min()) >= 0, "sequences must hold tokens from 0 on")
    _check("labels", labels, 1)
    count = len(sequences)
    require(len(labels) == count, f"labels must be ({count},), one a sequence")
    label_of = {}
    for t, label in zip(found.ids.tolist(), labels.tolist()):
        require(
            label_of.setdefault(t, label) == label,
            f"labels contradict: one multiset has {label_of[t]} and {label}",
        )
    counted = zip(found.tokens.tolist(), found.integers.tolist())
    integer_of = dict(counted) or {0: 0}
    # With two tokens at distance one the network compares all bits, and knows a token
    # that does not count from one that does.
    first = min(integer_of)
    integer_of.setdefault(first + 1, 0)
    return CountNetwork(_fit(integer_of), _fit(label_of), sequences.shape[1])


def _fit(table: dict[int, int]) -> Deep:
    """The network of a table."""
    keys = sorted(table)
    return fit_deep(keys, [table[key] for key in keys])


def _check(name: str, tensor: Tensor, dim: int) -> None:
    """Integers with values, a row of them or a table."""
    _require.is_tensor(name, tensor)
    got = f"{tensor.dtype} {tuple(tensor.shape)}"
    require(
        tensor.dtype in INTEGERS and tensor.dim() == dim,
        f"{name} must be integers (int64 to int8, uint8) in {dim} dimensions, got "
        f"{got}",
    )
    require(dim == 1 or tensor.numel(), f"{name} must hold at least one token")
    _require.finite(**{name: tensor})
