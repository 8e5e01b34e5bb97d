"""The job `lists`: sparse_attention on random sets of keys, where no tile is full,
beside gathering row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attnlib import patterns
from attnlib.patterns import Pattern
from bench import _peers, sparse
from bench.record import Cases

W = 64
ROUNDS = 7


def places(pattern: Pattern) -> tuple[Tensor, Tensor]:
    """The keys of all rows in one rectangle, for gathering, and which of them count."""
    crow, col = pattern.rows()
    degrees = crow.diff()
    at = torch.arange(int(degrees.max()))
    kept = at < degrees[:, None]
    entries = crow[:-1, None] + at
    columns = col[entries.clamp_max(len(col) - 1)]
    return columns * kept, kept


def cases(device: str, quick: bool) -> Cases:
    """What is measured, two minutes of it: each token reads itself and 63 random
    tokens, so at most 64 keys.
    """
    w = 8 if quick else W
    sizes = (256,) if quick else (2048, 4096)
    rounds = 2 if quick else ROUNDS
    peers = partial(_gathering, device, quick)
    found = {}
    for n in sizes:
        made = partial(_random_sets, n, w)
        case = sparse.Case(f"random sets of {w}, n = {n}, forward", made, peers)
        found[case.name] = partial(sparse.measure, case, device, rounds, "lists")
    return found


def _random_sets(n: int, w: int) -> Pattern:
    g = torch.Generator().manual_seed(0)
    return patterns.random(n, w - 1, generator=g)


def _gathering(device: str, quick: bool, pattern: Pattern) -> dict[str, Callable]:
    """The peers of a pattern, each to be made in its turn."""
    index, kept = places(pattern)
    eager = _peers.gather(index.to(device), kept.to(device))
    return {
        "gather": lambda: eager,
        "compiled gather": partial(_peers.compiled, eager, quick),
    }
