"""The job `verify`: all rows of a code checked without an n x n matrix, beside the bare
product and other ways.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib import expressive
from attnlib.bench import _peers
from attnlib.bench.record import Record, compare
from attnlib.expressive import Code

D, K, ROUNDS, SAMPLE = (
    128,
    4,
    3,
    512,
)  # width, entries of a row, rounds, rows that are compared with float64
TILE = {"cpu": (256, 2048), "cuda": (4096, 16384)}  # of a product alone
WHOLE = (1024, 256)  # of verify on the CPU


class Case(NamedTuple):
    """One code.

    Args:
        n: rows and keys.
        signs: integer code of signs in place of a float one.
        keops: KeOps is a peer.
        name: in words.

    Page:
        book/benchmarks
    """

    n: int
    signs: bool
    keops: bool = False

    @property
    def name(self) -> str:
        """In words."""
        return f"{'sign code' if self.signs else 'float code, log-sum-exp'}, n = {self.n}, d = {D}, k = {K}"


def cases(device: str, quick: bool) -> dict[str, Callable[[], Record]]:
    """What is measured, six minutes of it. KeOps has cases of its own at fewer tokens:
    128 features are many for it.
    """
    found = [
        Case(2**15, False),
        Case(2**15, True),
        Case(2**11, False, True),
        Case(2**11, True, True),
    ]
    if device == "cuda":
        found = [Case(2**17, False, True), Case(2**20, True), Case(2**17, True, True)]
    if quick:
        found = [Case(2048, False, True), Case(2048, True, True)]
    by_kind = {True: measure_signs, False: measure_float}
    return {
        case.name: partial(
            by_kind[case.signs], case, device, 2 if quick else ROUNDS, quick
        )
        for case in found
    }


def row_chunks(q: Tensor, k: Tensor, high: int) -> Tensor:
    """Peer: log-sum-exp of the logits, some rows at a time."""
    return torch.cat([torch.logsumexp(rows @ k.T, 1) for rows in q.split(high)])


def chunk_gaps(
    q: Tensor, k: Tensor, columns: Tensor, scale: float, high: int
) -> Tensor:
    """Peer: the gap between the least logit on the support and the largest off it, some
    rows at a time.
    """
    found = []
    for rows, c in zip(q.split(high), columns.split(high)):
        half = q.dtype == torch.bfloat16
        logits = torch.mm(rows, k.T, out_dtype=torch.float32) if half else rows @ k.T
        least = logits.gather(1, c).amin(1).double() * scale
        found.append(least - logits.scatter_(1, c, -torch.inf).amax(1).double() * scale)
    return torch.cat(found)


def keops_gaps(lazy, q: Tensor, k: Tensor, columns: Tensor, scale: float) -> Tensor:
    """Peer: the same gap by KeOps, from the k + 1 largest logits of a row: the largest
    off the support is one of them.
    """
    largest, places = (-lazy).Kmin_argKmin(columns.shape[1] + 1, dim=1)
    on = (places[:, :, None] == columns[:, None]).any(2)
    top = (-largest).masked_fill(on, -torch.inf).amax(1)
    lowest = torch.stack([(q * k[c]).sum(1) for c in columns.T]).amin(0)
    return lowest.double() * scale - top.double() * scale


def tiles(n: int, tile: tuple[int, int], one: Callable[[slice, slice], object]) -> None:
    """Call a function on every tile of an n x n matrix."""
    for i in range(0, n, tile[0]):
        for j in range(0, n, tile[1]):
            one(slice(i, i + tile[0]), slice(j, j + tile[1]))


def drawn(case: Case, device: str) -> tuple[Code, Tensor]:
    """A code and the pattern that it is checked against."""
    g, n = torch.Generator().manual_seed(0), case.n
    columns = torch.randint(n // K, (n, K), generator=g) + n // K * torch.arange(K)
    if not case.signs:
        q, k = torch.randn(n, D, generator=g) / 16, torch.randn(n, D, generator=g)
        return Code(q.to(device), k.to(device), 0.1, 0.5), columns.to(device)
    signs = torch.randint(0, 2, (n, D), generator=g, dtype=torch.int8) * 2 - 1
    return Code(
        sum(signs[c] for c in columns.T).to(device), signs.to(device), 0.1, 0.5, 0.1
    ), columns.to(device)


def measure_float(case: Case, device: str, rounds: int, quick: bool) -> Record:
    """verify of a float code, as the log-sum-exp of every row, beside others that
    return it.
    """
    code, columns = drawn(case, device)
    q, k, at = (
        code.q,
        code.k,
        torch.arange(0, case.n, max(1, case.n // SAMPLE), device=device),
    )
    supports = (
        torch.stack([(q.double() * k[c].double()).sum(1) for c in columns.T], 1)
        .logsumexp(1)
        .float()
    )
    tile = TILE[device]
    flat = torch.empty(tile, device=device)
    runs = {
        "ours": lambda: (
            supports
            + expressive.verify(code, columns, progress=False).rows[:, 2].log1p()
        ),
        "row chunks": lambda: row_chunks(q, k, 256),
        "row chunks of 64": lambda: row_chunks(q, k, 64),
        "floor bare product": lambda: tiles(
            case.n, tile, lambda i, j: torch.mm(q[i], k[j].T, out=flat)
        ),
    }
    if case.keops:
        lazy = _peers.keops(q, k, device, quick)
        runs["KeOps"] = (
            lazy if isinstance(lazy, str) else lambda: lazy.logsumexp(dim=1).flatten()
        )
    truth = row_chunks(q[at].double(), k.double(), 64)
    return compare(
        "verify",
        case.name,
        runs,
        device=device,
        rounds=rounds,
        sizes=_sizes(case),
        flop=2 * case.n**2 * D,
        truth=(truth,),
        shown=lambda found: found[at],
    )


def measure_signs(case: Case, device: str, rounds: int, quick: bool) -> Record:
    """verify of a sign code, as the gap of every row, beside others that return it, and
    the floors it stands on.
    """
    code, columns = drawn(case, device)
    n, at = case.n, torch.arange(0, case.n, max(1, case.n // SAMPLE), device=device)
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    q, k = code.q.to(kind), code.k.to(kind)
    runs = {
        "ours": lambda: expressive.verify(code, columns, progress=False).rows[:, 1],
        "row chunks": lambda: chunk_gaps(q, k, columns, code.scale, 256),
        "row chunks of 64": lambda: chunk_gaps(q, k, columns, code.scale, 64),
    }
    if case.keops:
        wide = code.q.float(), code.k.float()
        lazy = _peers.keops(*wide, device, quick)
        runs["KeOps"] = (
            lazy
            if isinstance(lazy, str)
            else lambda: keops_gaps(lazy, *wide, columns, code.scale)
        )
    runs |= {
        "floor " + name: one
        for name, one in (_floors if device == "cpu" else _floors_cuda)(
            code, q, k
        ).items()
    }
    truth = chunk_gaps(
        code.q[at].double(), code.k.double(), columns[at], code.scale, 64
    )
    return compare(
        "verify",
        case.name,
        runs,
        device=device,
        rounds=rounds,
        sizes=_sizes(case),
        flop=2 * n**2 * D,
        dtype=kind,
        truth=(truth,),
        shown=lambda found: found[at],
    )


def _sizes(case: Case) -> dict:
    return {
        "n": case.n,
        "d": D,
        "k": K,
        "signs": case.signs,
        "rows compared": min(SAMPLE, case.n),
    }


def _floors(code: Code, q: Tensor, k: Tensor) -> dict[str, Callable | str]:
    """Products alone, in floats and in 8 bits; one maximum over every tile; the other
    public way to 8-bit products.
    """
    n, tile, flat, broad = (
        len(q),
        TILE["cpu"],
        torch.empty(TILE["cpu"]),
        torch.empty(WHOLE, dtype=torch.int32),
    )
    quantised = _quantised(code)
    return {
        "bare product": lambda: tiles(
            n, tile, lambda i, j: torch.mm(q[i], k[j].T, out=flat)
        ),
        "int8 product alone": lambda: tiles(
            n, WHOLE, lambda i, j: torch._int_mm(code.q[i], code.k[j].T, out=broad)
        ),
        "one pass": lambda: tiles(n, WHOLE, lambda i, j: broad.amax(1)),
        "quantised": quantised
        if isinstance(quantised, str)
        else lambda: tiles(n, WHOLE, quantised),
    }


def _floors_cuda(code: Code, q: Tensor, k: Tensor) -> dict[str, Callable]:
    """The product alone, in the tiles of verify there."""

    def one(i, j):
        return torch.mm(q[i], k[j].T, out_dtype=torch.float32)

    return {"bare product": lambda: tiles(len(q), TILE["cuda"], one)}


def _quantised(code: Code) -> Callable[[slice, slice], Tensor] | str:
    """One tile by the 8-bit linear layer of oneDNN, whose keys are packed
    beforehand.
    """
    shifted = (code.q.to(torch.int16) + 128).to(torch.uint8)
    one, zero = torch.ones(1), torch.zeros(1, dtype=torch.int64)
    try:
        pack = torch.ops.onednn.qlinear_prepack
        packed = {
            j: pack(code.k[j : j + WHOLE[1]], [WHOLE[0], D])
            for j in range(0, len(code.k), WHOLE[1])
        }
    except (AttributeError, RuntimeError) as missing:
        return f"not run: {type(missing).__name__}"
    multiply = torch.ops.onednn.qlinear_pointwise
    how = (one, zero, None, 1.0, 0, torch.float32, "none", [], "")
    return lambda i, j: multiply(shifted[i], 1.0, 128, packed[j.start], *how)
