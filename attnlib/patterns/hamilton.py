"""Hamiltonian paths of a pattern: certificates, reasons why there is none, and a search
that may give up.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor

from attnlib._require import is_a, require, sizes
from attnlib.patterns.bits import _is_matrix, closure
from attnlib.patterns.parts import Pattern, _is_pattern

SMALL = 12  # up to so many tokens all subsets are tried, and the search never gives up
# how many tokens of largest degree are taken out in search of too many pieces
REMOVED = 16


def is_path(pattern: Pattern, path: Sequence[int]) -> bool:
    """Whether a path is a certificate of condition (2).

        every token once,
        and path[i] in the union of the A^l_{path[i+1]} over the steps l

    Args:
        pattern: n tokens.
        path: n indices.

    Returns:
        bool.

    Raises:
        ValueError: for a mask in place of a pattern, and a path of other than integers.

    Cost: O(n p parts).
    Source: Yun et al. 2020b, Assumption 1, recalled.
    Claim: patterns.checker
    """
    _is_pattern("pattern", pattern)
    is_a(Sequence, path=path)
    for token in path:
        whole = isinstance(token, Integral) and not isinstance(token, bool)
        require(whole, f"path must hold integers, got {token!r}")
    if sorted(path) != list(range(pattern.n)):
        return False
    read = torch.tensor(path[:-1], device="cpu")
    reader = torch.tensor(path[1:], device="cpu")
    steps = [pattern.reads(step, reader, read) for step in range(pattern.p)]
    in_some_step = torch.stack(steps).any(0)
    return bool(in_some_step.all())


def search(pattern: Pattern, moves: int) -> tuple[tuple[int, ...] | None, str, bool]:
    """A Hamiltonian path, or why there is none, or neither.

    In this order: 0, 1, 2, ... and back; reasons against a path; all subsets, for few
    tokens; rotations.

    Args:
        pattern: n tokens.
        moves: rotations before it gives up.

    Returns:
        (path or None, reason or "", whether that is the truth); a path is verified
        before it is returned.

    Raises:
        ValueError: for no Pattern, and a number of moves that is negative.

    Cost: O(p n^2), and O(n) a move; O(2^n) words for n <= 12.
    Source: not taken from a paper; rotations after Pósa 1976, recalled.
    Claim: patterns.checker
    """
    _is_pattern("pattern", pattern)
    sizes(0, moves=moves)
    forward = tuple(range(pattern.n))
    for path in (forward, forward[::-1]):
        if is_path(pattern, path):
            return path, "", True
    reads = pattern.mask(0)
    for step in range(1, pattern.p):
        reads = reads | pattern.mask(step)
    reads = reads & ~torch.eye(pattern.n, dtype=torch.bool, device="cpu")
    if why := impossible(reads):
        return None, why, True
    if pattern.n <= SMALL:
        path = _by_subsets(reads)
        why = "" if path else "no order of the tokens is a path: all were tried"
        return path, why, True
    path = _by_rotations(reads, moves)
    if path and is_path(pattern, path):
        return path, "", True
    return None, "", False


def impossible(reads: Tensor) -> str:
    """A reason why there is no Hamiltonian path, or nothing.

    There are three tests, and a path passes them all.

    Args:
        reads: (n, n), boolean, the union of the steps, without self-loops.

    Returns:
        the reason, or "".

    Raises:
        ValueError: for reads that are no square boolean matrix on the CPU.

    Cost: O(n^2 * components).
    Source: not taken from a paper.
    Claim: patterns.bare-star
    """
    _is_matrix("reads", reads, torch.bool)
    size = tuple(reads.shape)
    require(size[0] == size[1] >= 1, f"reads must be (n, n), got {size}")
    return _two_ends(reads) or _many_pieces(reads) or _broken_chain(reads)


def _indices(chosen: Tensor) -> list[int]:
    """Where a row of booleans is True."""
    return chosen.nonzero().flatten().tolist()


def _two_ends(reads: Tensor) -> str:
    """A path has one token that need not read, and one that need not be read."""
    for side, words, place in (
        (reads, "read no other token", "first"),
        (reads.T, "are read by no other token", "last"),
    ):
        lonely = _indices(~side.any(1))
        if len(lonely) > 1:
            one, other = lonely[:2]
            return (
                f"tokens {one} and {other} {words}, "
                f"and only the {place} of a path may be so"
            )
    return ""


def _many_pieces(reads: Tensor) -> str:
    """Without r tokens a path falls into at most r + 1 pieces."""
    either = reads | reads.T
    by_degree = either.sum(1).argsort(descending=True, stable=True)
    most = min(REMOVED, len(reads) - 2)
    for removed in range(most + 1):
        gone = by_degree[:removed]
        found = _pieces(either, gone)
        if found > removed + 1:
            return (
                f"without {_named(gone.tolist())} there are {found} pieces, "
                f"and a path falls into at most {removed + 1}"
            )
    return ""


def _named(tokens: list[int]) -> str:
    if not tokens:
        return "any token removed"
    noun = "token" if len(tokens) == 1 else "tokens"
    return f"{noun} {', '.join(map(str, tokens))}"


def _pieces(either: Tensor, gone: Tensor) -> int:
    """Connected components after some tokens are taken out."""
    found = 0
    left = torch.ones(len(either), dtype=torch.bool, device="cpu")
    left[gone] = False
    while left.any():
        found += 1
        fresh = left.nonzero()[:1, 0]
        while len(fresh):
            left[fresh] = False
            beside = either[fresh].any(0)
            fresh = (beside & left).nonzero().flatten()
    return found


def _broken_chain(reads: Tensor) -> str:
    """Classes of tokens that hear of each other must be joined one after the other."""
    hears = closure(reads)
    classes = (hears & hears.T).int().argmax(1)  # each named by its smallest token

    def heard(k: int) -> int:  # the later in a path, the more
        return int(hears[k].sum())

    order = sorted(classes.unique().tolist(), key=heard)
    for a, b in zip(order, order[1:]):
        joined = reads[classes == b][:, classes == a]
        if not joined.any():
            return (
                f"the classes of tokens {a} and {b} would follow each other, "
                "and none of the one reads any of the other"
            )
    return ""


def _by_subsets(reads: Tensor) -> tuple[int, ...] | None:
    """The path by dynamic programming over subsets.

    A set of tokens is an integer whose bit j is 1 if token j belongs to it. last[S] is
    the set of those tokens that can be the last of a path through all of S.
    """
    n = len(reads)
    readers = [_as_bits(_indices(column)) for column in reads.T]
    read = [_as_bits(_indices(row)) for row in reads]
    last = [0] * (1 << n)
    for j in range(n):
        last[1 << j] = 1 << j
    for chosen in range(1, 1 << n):
        ends = last[chosen]
        for j in range(n):
            if ends >> j & 1:
                free = readers[j] & ~chosen
                while free:
                    bit = free & -free  # the lowest
                    last[chosen | bit] |= bit
                    free ^= bit
    chosen = (1 << n) - 1
    path = []
    while chosen:
        allowed = last[chosen]
        if path:
            allowed &= read[path[-1]]
        if not allowed:
            return None
        lowest = allowed & -allowed
        path.append(lowest.bit_length() - 1)
        chosen ^= lowest
    return tuple(reversed(path))


def _as_bits(tokens: list[int]) -> int:
    return sum(1 << k for k in tokens)


def _by_rotations(reads: Tensor, moves: int, seed: int = 0) -> tuple[int, ...] | None:
    """A path that grows at its end, and where it cannot, changes its end.

    It does so by exchanging two of its segments: A B C becomes A C B where the first
    token of B reads the end of C, and the first of C reads the end of A. The draws come
    from a generator of its own, so that the same pattern gives the same answer.
    """
    n = len(reads)
    draw = random.Random(seed)
    readers = [_indices(column) for column in reads.T]
    deaf = _indices(~reads.any(1))
    unread = _indices(~reads.any(0))
    # who reads nobody comes at the front, whom nobody reads at the end
    path = list(deaf) or [0 if unread != [0] else 1]
    place = [-1] * n  # of each token in the path, -1 where it is not in it
    place[path[0]] = 0
    for _ in range(moves):
        _grow(path, place, readers, unread)
        if len(path) == n:
            return tuple(path)
        if _exchange(path, place, readers, draw):
            continue
        if _both_ways(path, reads):
            path.reverse()
        else:  # stuck: it begins anew, elsewhere if it may, and grows in other ways
            path = list(deaf) or [draw.randrange(n)]
            place = [-1] * n
            for tokens in readers:
                draw.shuffle(tokens)
        for i, token in enumerate(path):
            place[token] = i
    return None


def _grow(
    path: list[int],
    place: list[int],
    readers: list[list[int]],
    unread: list[int],
) -> None:
    """Token after token at the end, while one fits; first who has few ways to go on."""

    def ways_on(k: int) -> int:
        return sum(place[i] < 0 for i in readers[k])

    while True:
        free = [k for k in readers[path[-1]] if place[k] < 0]
        if len(path) < len(place) - 1:
            free = [k for k in free if k not in unread]
        if not free:
            return
        best = min(free, key=ways_on)
        place[best] = len(path)
        path.append(best)


def _exchange(
    path: list[int],
    place: list[int],
    readers: list[list[int]],
    draw: random.Random,
) -> bool:
    """One move, drawn among those there are."""
    starts = [place[k] for k in readers[path[-1]] if place[k] >= 0]
    draw.shuffle(starts)
    for b in starts:  # B begins here
        if b == 0:  # a circle: any rotation of it is a path
            cuts = range(1, len(path))
        else:
            cuts = [place[k] for k in readers[path[b - 1]] if place[k] > b]
        if cuts:
            c = draw.choice(cuts)
            path[b:] = path[c:] + path[b:c]
            for i in range(b, len(path)):
                place[path[i]] = i
            return True
    return False


def _both_ways(path: list[int], reads: Tensor) -> bool:
    """Whether each token also reads the one after it: then the path can be turned."""
    return len(path) > 1 and bool(reads[path[:-1], path[1:]].all())
