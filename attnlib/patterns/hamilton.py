"""Hamiltonian paths of a pattern: certificates, reasons why there is none, and a search
that may give up.

    every token once,   path[i] in the union of the A^l_{path[i+1]} over the steps l

`is_path` is this line.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor

from attnlib._require import is_a, require
from attnlib.patterns._bits import closure
from attnlib.patterns.parts import CPU, Pattern, _eye, _is_pattern

SMALL = 12  # up to so many tokens all subsets are tried, and the search never gives up
# how many tokens of largest degree are taken out in search of too many pieces
REMOVED = 16


def is_path(pattern: Pattern, path: Sequence[int]) -> bool:
    """Whether a path is a certificate of condition (2): each token once, each reads the
    one before it in some step.

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
    read = torch.tensor(path[:-1], device=CPU)
    reader = torch.tensor(path[1:], device=CPU)
    steps = [pattern.reads(step, reader, read) for step in range(pattern.p)]
    in_some_step = torch.stack(steps).any(0)
    return bool(in_some_step.all())


def _search(pattern: Pattern, moves: int) -> tuple[tuple[int, ...] | None, str, bool]:
    """(path or None, reason against one or "", whether that is the truth).

    In this order: 0, 1, 2, ... and back; reasons; all subsets, for few tokens;
    rotations after Pósa 1976, recalled.
    """
    n = pattern.n
    forward = tuple(range(n))
    for path in (forward, forward[::-1]):
        if is_path(pattern, path):
            return path, "", True
    masks = [pattern.mask(step) for step in range(pattern.p)]
    reads = torch.stack(masks).any(0)
    reads &= ~_eye(n)
    if why := _two_ends(reads) or _many_pieces(reads) or _broken_chain(reads):
        return None, why, True
    if n <= SMALL:
        path = _by_subsets(reads)
        why = "" if path else "no order of the tokens is a path: all were tried"
        return path, why, True
    path = _by_rotations(reads, moves)
    if path and is_path(pattern, path):
        return path, "", True
    return None, "", False


def _indices(chosen: Tensor) -> list[int]:
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
    n = len(reads)
    either = reads | reads.T
    by_degree = either.sum(1).argsort(descending=True, stable=True).tolist()
    for r in range(min(REMOVED, n - 2) + 1):
        gone = by_degree[:r]
        kept = sorted(set(range(n)) - set(gone))
        hears = closure(either[kept][:, kept])
        pieces = len(hears.unique(dim=0))
        if pieces > r + 1:
            named = "any token removed"
            if gone:
                named = f"token{'s' * (r > 1)} {', '.join(map(str, gone))}"
            return (
                f"without {named} there are {pieces} pieces, "
                f"and a path falls into at most {r + 1}"
            )
    return ""


def _broken_chain(reads: Tensor) -> str:
    """Classes of tokens that hear of each other must be joined one after the other."""
    hears = closure(reads)
    classes = (hears & hears.T).int().argmax(1)  # each named by its smallest token
    heard = hears.sum(1).tolist()  # the later in a path, the more
    order = sorted(classes.unique().tolist(), key=heard.__getitem__)
    for a, b in zip(order, order[1:]):
        joined = reads[classes == b][:, classes == a]
        if not joined.any():
            return (
                f"the classes of tokens {a} and {b} would follow each other, "
                "and none of the one reads any of the other"
            )
    return ""


def _by_subsets(reads: Tensor) -> tuple[int, ...] | None:
    """The path by dynamic programming: ends[S] are the tokens that can be the last of a
    path through all of S. A set of tokens is an integer whose bit j stands for token j.
    """
    n = len(reads)
    readers = [_indices(column) for column in reads.T]
    everybody = (1 << n) - 1
    ends = [set() for _ in range(1 << n)]
    for j in range(n):
        ends[1 << j].add(j)
    for chosen in range(1, 1 << n):
        for j in ends[chosen]:
            for k in readers[j]:
                if not chosen >> k & 1:
                    ends[chosen | 1 << k].add(k)
    path = []
    chosen = everybody
    while chosen:
        last = [j for j in ends[chosen] if not path or path[-1] in readers[j]]
        if not last:
            return None
        path.append(min(last))
        chosen ^= 1 << path[-1]
    return tuple(reversed(path))


def _by_rotations(reads: Tensor, moves: int, seed: int = 0) -> tuple[int, ...] | None:
    """A path that grows at its end, and where it cannot, exchanges two segments: A B C
    becomes A C B where the first token of B reads the end of C, and the first of C the
    end of A. The draws are its own, so that a pattern has one answer.
    """
    n = len(reads)
    draw = random.Random(seed)
    readers = [_indices(column) for column in reads.T]
    deaf = _indices(~reads.any(1))
    unread = _indices(~reads.any(0))
    # who reads nobody comes at the front, whom nobody reads at the end
    path = list(deaf) or [0 if unread != [0] else 1]
    for _ in range(moves):
        _grow(path, readers, unread)
        if len(path) == n:
            return tuple(path)
        if _exchange(path, readers, draw):
            continue
        if _both_ways(path, reads):
            path.reverse()
        else:  # stuck: it begins anew, elsewhere if it may, and grows in other ways
            path = list(deaf) or [draw.randrange(n)]
            for tokens in readers:
                draw.shuffle(tokens)
    return None


def _grow(path: list[int], readers: list[list[int]], unread: list[int]) -> None:
    """Token after token at the end, while one fits; first who has few ways to go on."""
    free = set(range(len(readers))) - set(path)

    def ways_on(k: int) -> int:
        return sum(i in free for i in readers[k])

    while True:
        fits = [k for k in readers[path[-1]] if k in free]
        if len(free) > 1:
            fits = [k for k in fits if k not in unread]
        if not fits:
            return
        best = min(fits, key=ways_on)
        free.remove(best)
        path.append(best)


def _exchange(path: list[int], readers: list[list[int]], draw: random.Random) -> bool:
    """One move, drawn among those there are."""
    place = {token: i for i, token in enumerate(path)}
    starts = [place[k] for k in readers[path[-1]] if k in place]
    draw.shuffle(starts)
    for b in starts:  # B begins here
        if b == 0:  # a circle: any rotation of it is a path
            cuts = range(1, len(path))
        else:
            cuts = [place[k] for k in readers[path[b - 1]] if place.get(k, -1) > b]
        if cuts:
            c = draw.choice(cuts)
            path[b:] = path[c:] + path[b:c]
            return True
    return False


def _both_ways(path: list[int], reads: Tensor) -> bool:
    """Whether each token also reads the one after it: then the path can be turned."""
    return len(path) > 1 and bool(reads[path[:-1], path[1:]].all())
