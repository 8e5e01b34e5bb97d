"""Ids of sequences by counting: a random integer for some of the tokens, a plain mean,
and no softmax.

    s(X) = sum_k a(x_k),   a(x) uniform in {0, ..., M - 1} for telling tokens, else 0

Page: notebooks/one_layer_memorization/contextual_mapping
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import SupportsIndex

import torch
from jaxtyping import Int
from torch import Tensor

from attnlib import _require
from attnlib._require import require
from attnlib.memorize.deep import Deep, fit_deep

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
DRAWS = 64  # before it gives up


@dataclass(frozen=True, eq=False)
class CountIds:
    """The tokens (c,) that count, increasing, and their integers; ids (N,), equal for
    equal multisets only; how often integers were drawn until that was so.
    """

    tokens: Tensor
    integers: Tensor
    ids: Tensor
    draws: int


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
        try:
            tokens = [operator.index(token) for token in sequence]
        except TypeError as error:
            raise ValueError(f"sequence must hold integers: {error}") from None
        require(
            len(tokens) == self.n,
            f"sequence must have n = {self.n} tokens, got {len(tokens)}",
        )
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
    _check(sequences)
    words = torch.unique(sequences.sort(-1).values, dim=0)
    differ = words[1:] != words[:-1]
    first = differ.int().argmax(-1, keepdim=True)
    return words[:-1].gather(-1, first).unique()


def count_ids(
    sequences: Int[Tensor, "N n"],
    *,
    generator: torch.Generator,
    size: int | None = None,
) -> CountIds:
    """Ids of sequences by a random integer below `size` for each telling token, drawn
    until different multisets have different sums.

    Args:
        size: M; by default N^2, for N different multisets: then a draw does with
            probability above 1/2.

    Returns:
        CountIds; all ids are from 0 to n (size - 1).

    Source: derived on the page, after ids by random numbers as they are usual for
        hashing.
    Claim: ids.counts
    """
    tokens = telling_tokens(sequences)
    _require.random(generator)
    multisets = len(torch.unique(sequences.sort(-1).values, dim=0))
    size = multisets**2 if size is None else size
    _require.sizes(1, size=size)
    size = int(size)
    n = sequences.shape[1]
    require(
        n * size < 2**63,
        f"ids reach n size = {n} x {size}, beyond int64: take a smaller size or fewer "
        "sequences",
    )
    for draws in range(1, DRAWS + 1):
        integers = torch.randint(
            size, tokens.shape, generator=generator, device=generator.device
        ).to(sequences.device)
        ids = sum_of_integers(sequences, tokens, integers)
        if len(ids.unique()) == multisets:
            return CountIds(tokens, integers, ids, draws)
    raise ValueError(
        f"no draw of {DRAWS} tells {multisets} multisets apart by integers below "
        f"{size}: size must be of the order of their number, squared"
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
    _check(sequences)
    for name, vector in (("tokens", tokens), ("integers", integers)):
        _integers(name, vector)
        require(
            vector.dim() == 1 and len(vector) == len(tokens),
            f"{name} must be (c,), as many as tokens, got {tuple(vector.shape)}",
        )
        _require.same_device(name, vector, sequences.device, "sequences")
    # Differences of unsigned or of large integers would wrap.
    require(bool((tokens[1:] > tokens[:-1]).all()), "tokens must increase")
    if not len(tokens):
        return sequences.new_zeros(len(sequences), dtype=torch.int64)
    n = sequences.shape[1]
    largest = max(int(integers.max()), -int(integers.min()))
    require(
        n * largest < 2**63,
        f"integers reach {largest}: sums of n = {n} leave int64",
    )
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
    _check(sequences)
    require(int(sequences.min()) >= 0, "sequences must hold tokens from 0 on")
    _integers("labels", labels)
    count = len(sequences)
    require(
        labels.shape == (count,),
        f"labels must be ({count},), one a sequence, got {tuple(labels.shape)}",
    )
    found = count_ids(sequences, generator=generator)
    label_of = {}
    place_of = {}
    for place, (t, label) in enumerate(zip(found.ids.tolist(), labels.tolist())):
        before = place_of.setdefault(t, place)
        require(
            label_of.setdefault(t, label) == label,
            f"labels contradict: sequences {before} and {place} are one multiset, with "
            f"labels {label_of[t]} and {label}; a mean sees no order",
        )
    integers = dict(zip(found.tokens.tolist(), found.integers.tolist())) or {0: 0}
    # With two tokens at distance one the network compares all bits, and knows a token
    # that does not count from one that does.
    first = min(integers)
    integers.setdefault(first + 1, 0)
    label_network, token_network = _fit(label_of), _fit(integers)
    return CountNetwork(token_network, label_network, sequences.shape[1])


def _fit(table: dict[int, int]) -> Deep:
    """The network of a table."""
    keys = sorted(table)
    return fit_deep(keys, [table[key] for key in keys])


def _check(sequences: Tensor) -> None:
    """A table of integers with at least one token."""
    _integers("sequences", sequences)
    require(
        sequences.dim() == 2 and sequences.numel() > 0,
        "sequences must be (N, n) with at least one token, "
        f"got {tuple(sequences.shape)}",
    )


def _integers(name: str, tensor: Tensor) -> None:
    _require.is_tensor(name, tensor)
    require(
        tensor.dtype in INTEGERS,
        f"{name} must be integers (int64, 32, 16, 8 or uint8), got {tensor.dtype}: "
        "cast it first",
    )
    require(not tensor.is_meta, f"{name} are on the device meta: they hold no values")
