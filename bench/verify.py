"""The job `verify`: all rows of a code checked without an n x n matrix, beside the bare
product and other ways.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from attnbook.data.timings import Record
from attnlib import expressive
from attnlib.expressive import Code
from bench.record import Cases, Runs, compare

D = 128
K = 4  # entries of a row
ROUNDS = 3
SAMPLE = 512  # rows that are compared with float64
TILE = (256, 2048)  # of the bare product


class Case(NamedTuple):
    """A code of n rows and keys: of signs, else of floats."""

    n: int
    signs: bool

    @property
    def name(self) -> str:
        """In words."""
        kind = "sign code" if self.signs else "float code, log-sum-exp"
        return f"{kind}, n = {self.n}, d = {D}, k = {K}"


def cases(device: str, quick: bool) -> Cases:
    """What is measured, six minutes of it."""
    rounds = 2 if quick else ROUNDS
    found = {}
    for signs in (False, True):
        case = Case(2**11 if quick else 2**15, signs)
        found[case.name] = partial(measure, case, device, rounds)
    return found


def row_chunks(q: Tensor, k: Tensor, high: int) -> Tensor:
    """Peer: log-sum-exp of the logits, some rows at a time."""
    found = [torch.logsumexp(rows @ k.T, 1) for rows in q.split(high)]
    return torch.cat(found)


def chunk_gaps(
    q: Tensor, k: Tensor, columns: Tensor, scale: float, high: int
) -> Tensor:
    """Peer: the gap between the least logit on the support and the largest off it, some
    rows at a time.
    """
    found = []
    for rows, c in zip(q.split(high), columns.split(high)):
        logits = rows @ k.T
        least = logits.gather(1, c).amin(1)
        logits.scatter_(1, c, -torch.inf)
        largest = logits.amax(1)
        found.append(least.double() * scale - largest.double() * scale)
    return torch.cat(found)


def tiles(q: Tensor, k: Tensor) -> None:
    """Floor: the bare product, a tile at a time, always into the same memory."""
    height, width = TILE
    flat = torch.empty(TILE, device=q.device)
    for i in range(0, len(q), height):
        for j in range(0, len(k), width):
            torch.mm(q[i : i + height], k[j : j + width].T, out=flat)


def drawn(case: Case, device: str) -> tuple[Code, Tensor]:
    """A code and the pattern that it is checked against."""
    n = case.n
    g = torch.Generator().manual_seed(0)
    # One column in each of K parts, so that those of a row differ.
    part = n // K
    starts = part * torch.arange(K)
    columns = starts + torch.randint(part, (n, K), generator=g)
    if case.signs:
        coins = torch.randint(0, 2, (n, D), generator=g, dtype=torch.int8)
        k = coins * 2 - 1
        q = sum(k[c] for c in columns.T)
        scale = 0.1
    else:
        q = torch.randn(n, D, generator=g) / 16
        k = torch.randn(n, D, generator=g)
        scale = 1.0
    code = Code(q.to(device), k.to(device), 0.1, 0.5, scale)
    return code, columns.to(device)


def measure(case: Case, device: str, rounds: int) -> Record:
    """verify beside others that return what it says of every row."""
    code, columns = drawn(case, device)
    q = code.q.float()
    k = code.k.float()
    step = max(1, case.n // SAMPLE)
    at = torch.arange(0, case.n, step, device=device)
    exact = q[at].double(), k.double()
    if case.signs:
        runs = _gaps(code, q, k, columns)
        truth = chunk_gaps(*exact, columns[at], code.scale, 64)
    else:
        runs = _log_sums(code, columns)
        truth = row_chunks(*exact, 64)
    runs["floor bare product"] = partial(tiles, q, k)
    return compare(
        "verify",
        case.name,
        runs,
        {},
        device=device,
        rounds=rounds,
        sizes={
            "n": case.n,
            "d": D,
            "k": K,
            "signs": case.signs,
            "rows compared": len(at),
        },
        flop=2 * case.n**2 * D,
        truth=(truth,),
        shown=lambda found: found[at],
    )


def _log_sums(code: Code, columns: Tensor) -> Runs:
    """The log-sum-exp of every row: what verify finds off the support, added to the
    support's own.
    """
    q = code.q.double()
    k = code.k.double()
    on_support = [(q * k[c]).sum(1) for c in columns.T]
    supports = torch.stack(on_support, 1).logsumexp(1).float()

    def ours() -> Tensor:
        off_support = expressive.verify(code, columns).rows[:, 2]
        return supports + off_support.log1p()

    return {
        "ours": ours,
        "row chunks": partial(row_chunks, code.q, code.k, 256),
        "row chunks of 64": partial(row_chunks, code.q, code.k, 64),
    }


def _gaps(code: Code, q: Tensor, k: Tensor, columns: Tensor) -> Runs:
    """The gap of every row."""

    def ours() -> Tensor:
        return expressive.verify(code, columns).rows[:, 1]

    return {
        "ours": ours,
        "row chunks": partial(chunk_gaps, q, k, columns, code.scale, 256),
        "row chunks of 64": partial(chunk_gaps, q, k, columns, code.scale, 64),
    }
