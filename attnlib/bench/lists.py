"""The job `lists`: sparse_attention on random sets of keys, where no tile is full, beside gathering row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attnlib import patterns
from attnlib.bench import _peers, sparse
from attnlib.bench.record import Record
from attnlib.patterns import Pattern

W, ROUNDS = 64, 7


def places(pattern: Pattern) -> tuple[Tensor, Tensor]:
    """The keys of all rows in one rectangle, for gathering.

    Args:    pattern: its first step is taken.
    Returns: index (n, w) and kept (n, w); w is the longest row, kept is False beyond the end of a shorter one.
    Cost:    O(n^2) time.
    Source:  none.
    Page:    book/benchmarks
    """
    crow, col = pattern.rows()
    at, width = torch.arange(int(crow.diff().max())), crow.diff()[:, None]
    kept = at < width
    return col[(crow[:-1, None] + at).clamp_max(len(col) - 1)] * kept, kept


def cases(device: str, quick: bool) -> list[sparse.Case]:
    """What is measured: each token reads itself and 63 random tokens, so at most 64 keys.

    Args:    device: "cpu" or "cuda".   quick: one small size, and no compiler.
    Returns: cases for sparse.measure; no pattern is made yet.
    Cost:    none.
    Source:  random sets are what block-sparse kernels are not made for.
    Page:    book/benchmarks
    """
    def peers(pattern: Pattern) -> dict[str, Callable]:
        rectangle = [t.to(device) for t in places(pattern)]
        eager = _peers.gather(*rectangle)
        return {"SDPA + mask": lambda: _peers.masked(pattern.mask().to(device)), "gather": lambda: eager,
                "compiled gather": lambda: _peers.compiled(eager, device, quick)}

    w, sizes = (8, (256,)) if quick else (W, (2048, 4096))
    made = lambda n: lambda: patterns.random(n, w - 1, generator=torch.Generator().manual_seed(0))
    return [sparse.Case(f"random sets of {w}, n = {n}, forward", made(n), peers) for n in sizes]


def names(device: str) -> list[str]:
    """The names of all cases of a full run; nothing is measured.

    Args:    device: "cpu" or "cuda".
    Returns: names.
    Cost:    none.
    Source:  none.
    Page:    book/benchmarks
    """
    return [case.name for case in cases(device, False)]


def run(device: str, quick: bool) -> Iterator[Record]:
    """The records of all cases, one after another.

    Args:    device: "cpu" or "cuda".   quick: one small size, and no compiler.
    Yields:  what sparse.measure returns.
    Cost:    about two minutes; quick a second.
    Source:  see each peer.
    Page:    book/benchmarks
    """
    for case in cases(device, quick):
        yield sparse.measure(case, device, 2 if quick else ROUNDS, "lists")
