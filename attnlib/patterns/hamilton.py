"""Hamiltonian paths of a pattern: certificates, reasons why there is none, and a search
that may give up.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from attnlib.patterns.bits import closure
from attnlib.patterns.parts import Pattern

SMALL = 12  # up to so many tokens all subsets are tried, and the search never gives up
REMOVED = (
    16  # how many tokens of largest degree are taken out in search of too many pieces
)


def is_path(pattern: Pattern, path: Sequence[int]) -> bool:
    """Whether a path is a certificate of condition (2).

        every token once, and path[i] in the union of the A^l_{path[i+1]} over the steps l

    Args:
        pattern: n tokens.
        path: n indices.

    Returns:
        bool.

    Cost:
        O(n p parts).

    Source:
        Yun et al. 2020b, Assumption 1, recalled.

    Claim:
        patterns.checker

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """
    if sorted(path) != list(range(pattern.n)):
        return False
    read, reader = torch.tensor(path[:-1]), torch.tensor(path[1:])
    return bool(
        torch.stack([pattern.reads(step, reader, read) for step in range(pattern.p)])
        .any(0)
        .all()
    )


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

    Cost:
        O(p n^2), and O(n) a move; O(2^n) words for n <= 12.

    Source:
        not taken from a paper; rotations after Pósa 1976, recalled.

    Claim:
        patterns.checker

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """
    forward = tuple(range(pattern.n))
    for path in (forward, forward[::-1]):
        if is_path(pattern, path):
            return path, "", True
    reads = pattern.mask(0)
    for step in range(1, pattern.p):
        reads = reads | pattern.mask(step)
    reads = reads & ~torch.eye(pattern.n, dtype=torch.bool)
    if why := impossible(reads):
        return None, why, True
    if pattern.n <= SMALL:
        path = _by_subsets(reads)
        return (
            path,
            "" if path else "no order of the tokens is a path: all were tried",
            True,
        )
    path = _by_rotations(reads, moves)
    return (path, "", True) if path and is_path(pattern, path) else (None, "", False)


def impossible(reads: Tensor) -> str:
    """A reason why there is no Hamiltonian path, or nothing: three tests that a path
    passes.

    Args:
        reads: (n, n), boolean, the union of the steps, without self-loops.

    Returns:
        the reason, or "".

    Cost:
        O(n^2 * components).

    Source:
        not taken from a paper.

    Claim:
        patterns.bare-star

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """
    for side, words, place in (
        (reads, "read no other token", "first"),
        (reads.T, "are read by no other token", "last"),
    ):
        lonely = (~side.any(1)).nonzero().flatten().tolist()
        if len(lonely) > 1:
            return f"tokens {lonely[0]} and {lonely[1]} {words}, and only the {place} of a path may be so"
    either = reads | reads.T
    hubs = either.sum(1).argsort(descending=True, stable=True)[
        : min(REMOVED, len(reads) - 2)
    ]
    for removed in range(len(hubs) + 1):
        gone = hubs[:removed]
        found = _pieces(either, gone)
        if found > removed + 1:
            return f"without {_named(gone.tolist())} there are {found} pieces, and a path falls into at most {removed + 1}"
    return _broken_chain(reads)


def _named(tokens: list[int]) -> str:
    if not tokens:
        return "any token removed"
    return ("token " if len(tokens) == 1 else "tokens ") + ", ".join(map(str, tokens))


def _pieces(either: Tensor, gone: Tensor) -> int:
    """Connected components after some tokens are taken out."""
    left, found = torch.ones(len(either), dtype=torch.bool), 0
    left[gone] = False
    while left.any():
        found += 1
        fresh = left.nonzero()[:1, 0]
        while len(fresh):
            left[fresh] = False
            fresh = (either[fresh].any(0) & left).nonzero().flatten()
    return found


def _broken_chain(reads: Tensor) -> str:
    """Classes of tokens that hear of each other must be joined one after the other."""
    hears = closure(reads)
    classes = (hears & hears.T).int().argmax(1)  # each named by its smallest token
    order = sorted(
        classes.unique().tolist(), key=lambda k: int(hears[k].sum())
    )  # the later in a path, the more it hears of
    for a, b in zip(order, order[1:]):
        if not reads[classes == b][:, classes == a].any():
            return f"the classes of tokens {a} and {b} would follow each other, and none of the one reads any of the other"
    return ""


def _by_subsets(reads: Tensor) -> tuple[int, ...] | None:
    """The path by dynamic programming over subsets: which tokens can be the last of a
    path through a subset.
    """
    n = len(reads)
    readers = [
        sum(1 << k for k in reads[:, j].nonzero().flatten().tolist()) for j in range(n)
    ]
    last = [0] * (1 << n)
    for j in range(n):
        last[1 << j] = 1 << j
    for chosen in range(1, 1 << n):
        ends = last[chosen]
        for j in range(n):
            if ends >> j & 1:
                free = readers[j] & ~chosen
                while free:
                    bit = free & -free
                    last[chosen | bit] |= bit
                    free ^= bit
    chosen, path = (1 << n) - 1, []
    while chosen:
        allowed = (
            last[chosen]
            if not path
            else last[chosen]
            & sum(1 << j for j in range(n) if readers[j] >> path[-1] & 1)
        )
        if not allowed:
            return None
        path.append((allowed & -allowed).bit_length() - 1)
        chosen ^= 1 << path[-1]
    return tuple(reversed(path))


def _by_rotations(reads: Tensor, moves: int, seed: int = 0) -> tuple[int, ...] | None:
    """A path that grows at its end, and where it cannot, changes its end by exchanging
    two of its segments.

    A B C becomes A C B where the first token of B reads the end of C, and the first of
    C reads the end of A. The draws come from a generator of its own, so that the same
    pattern gives the same answer.
    """
    n, draw = len(reads), random.Random(seed)
    readers = [row.nonzero().flatten().tolist() for row in reads.T]
    deaf, unread = (
        (~reads.any(1)).nonzero().flatten().tolist(),
        (~reads.any(0)).nonzero().flatten().tolist(),
    )
    path = deaf or [
        0 if unread != [0] else 1
    ]  # who reads nobody comes at the front, whom nobody reads at the end
    place = [-1] * n
    place[path[0]] = 0
    for _ in range(moves):
        while free := [
            k
            for k in readers[path[-1]]
            if place[k] < 0 and (len(path) == n - 1 or k not in unread)
        ]:
            best = min(free, key=lambda k: sum(place[i] < 0 for i in readers[k]))
            place[best] = len(path)
            path.append(best)
        if len(path) == n:
            return tuple(path)
        if not _exchange(path, place, readers, draw):
            if _both_ways(path, reads):
                path.reverse()
            else:  # stuck: half of it is given up
                for token in path[len(path) // 2 + 1 :]:
                    place[token] = -1
                del path[len(path) // 2 + 1 :]
            for i, token in enumerate(path):
                place[token] = i
    return None


def _exchange(
    path: list[int], place: list[int], readers: list[list[int]], draw: random.Random
) -> bool:
    """One move, drawn among those there are."""
    starts = [place[k] for k in readers[path[-1]] if place[k] >= 0]
    draw.shuffle(starts)
    for b in (
        starts
    ):  # B begins here; b = 0 closes a circle, and any rotation of it is a path
        if b == 0:
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
    tokens = torch.tensor(path)
    return bool(reads[tokens[:-1], tokens[1:]].all())
