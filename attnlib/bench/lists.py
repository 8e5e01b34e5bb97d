"""The job `lists`: sparse_attention on random sets of keys, where no tile is full,
beside gathering row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attnlib import patterns
from attnlib.bench import _peers, sparse
from attnlib.bench.record import Record
from attnlib.patterns import Pattern

W, ROUNDS = 64, 7


def places(pattern: Pattern) -> tuple[Tensor, Tensor]:
    """The keys of all rows in one rectangle, for gathering."""
    crow, col = pattern.rows()
    at, width = torch.arange(int(crow.diff().max())), crow.diff()[:, None]
    kept = at < width
    return col[(crow[:-1, None] + at).clamp_max(len(col) - 1)] * kept, kept


def cases(device: str, quick: bool) -> dict[str, Callable[[], Record]]:
    """What is measured, two minutes of it: each token reads itself and 63 random
    tokens, so at most 64 keys.
    """

    def peers(pattern: Pattern) -> dict[str, Callable]:
        rectangle = [t.to(device) for t in places(pattern)]
        eager = _peers.gather(*rectangle)
        return {
            "SDPA + mask": lambda: _peers.masked(pattern.mask().to(device)),
            "gather": lambda: eager,
            "compiled gather": lambda: _peers.compiled(eager, device, quick),
        }

    w, sizes = (8, (256,)) if quick else (W, (2048, 4096))

    def made(n):
        return lambda: patterns.random(
            n, w - 1, generator=torch.Generator().manual_seed(0)
        )

    found = [
        sparse.Case(f"random sets of {w}, n = {n}, forward", made(n), peers)
        for n in sizes
    ]
    return {
        case.name: partial(
            sparse.measure, case, device, 2 if quick else ROUNDS, "lists"
        )
        for case in found
    }
