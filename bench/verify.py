"""The job `verify`: all rows of a code checked without an n x n matrix, beside the bare
product and other ways.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from attnbook.data.timings import Record
from attnlib import expressive
from attnlib.expressive import Code
from bench import _peers
from bench.record import Cases, Runs, compare

D = 128
K = 4  # entries of a row
ROUNDS = 3
SAMPLE = 512  # rows that are compared with float64
TILE = {"cpu": (256, 2048), "cuda": (4096, 16384)}  # of a product alone
WHOLE = (1024, 256)  # of verify on the CPU
Tile = Callable[[slice, slice], Tensor]  # works on these rows and columns


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
        kind = "sign code" if self.signs else "float code, log-sum-exp"
        return f"{kind}, n = {self.n}, d = {D}, k = {K}"


def cases(device: str, quick: bool) -> Cases:
    """What is measured, six minutes of it. KeOps has cases of its own at fewer tokens:
    128 features are many for it.
    """
    if quick:
        chosen = [
            Case(2048, signs=False, keops=True),
            Case(2048, signs=True, keops=True),
        ]
    elif device == "cuda":
        chosen = [
            Case(2**17, signs=False, keops=True),
            Case(2**20, signs=True),
            Case(2**17, signs=True, keops=True),
        ]
    else:
        chosen = [
            Case(2**15, signs=False),
            Case(2**15, signs=True),
            Case(2**11, signs=False, keops=True),
            Case(2**11, signs=True, keops=True),
        ]
    rounds = 2 if quick else ROUNDS
    found = {}
    for case in chosen:
        measure = measure_signs if case.signs else measure_float
        found[case.name] = partial(measure, case, device, rounds, quick)
    return found


def row_chunks(q: Tensor, k: Tensor, high: int) -> Tensor:
    """Peer: log-sum-exp of the logits, some rows at a time."""
    found = [torch.logsumexp(rows @ k.T, 1) for rows in q.split(high)]
    return torch.cat(found)


def keops_log_sum_exp(lazy) -> Tensor:
    """Peer: the same by KeOps."""
    return lazy.logsumexp(dim=1).flatten()


def chunk_gaps(
    q: Tensor, k: Tensor, columns: Tensor, scale: float, high: int
) -> Tensor:
    """Peer: the gap between the least logit on the support and the largest off it, some
    rows at a time.
    """
    # Half precision is summed, and kept, in float32.
    multiply = _wide_product if q.dtype == torch.bfloat16 else torch.mm
    found = []
    for rows, c in zip(q.split(high), columns.split(high)):
        logits = multiply(rows, k.T)
        least = logits.gather(1, c).amin(1)
        logits.scatter_(1, c, -torch.inf)
        largest = logits.amax(1)
        found.append(least.double() * scale - largest.double() * scale)
    return torch.cat(found)


def _wide_product(a: Tensor, b: Tensor) -> Tensor:
    return torch.mm(a, b, out_dtype=torch.float32)


def keops_gaps(lazy, q: Tensor, k: Tensor, columns: Tensor, scale: float) -> Tensor:
    """Peer: the same gap by KeOps, from the k + 1 largest logits of a row: the largest
    off the support is one of them.
    """
    count = columns.shape[1] + 1
    negative, places = (-lazy).Kmin_argKmin(count, dim=1)
    on_support = (places[:, :, None] == columns[:, None]).any(2)
    largest = (-negative).masked_fill(on_support, -torch.inf)
    top = largest.amax(1)
    lowest = torch.stack(_on_support(q, k, columns)).amin(0)
    return lowest.double() * scale - top.double() * scale


def _on_support(q: Tensor, k: Tensor, columns: Tensor) -> list[Tensor]:
    """The logits of all rows at the first entry of their supports, the second, ..."""
    return [(q * k[c]).sum(1) for c in columns.T]


def tiles(n: int, tile: tuple[int, int], one: Tile) -> None:
    """Call a function on every tile of an n x n matrix."""
    height, width = tile
    for i in range(0, n, height):
        for j in range(0, n, width):
            one(slice(i, i + height), slice(j, j + width))


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


def measure_float(case: Case, device: str, rounds: int, quick: bool) -> Record:
    """verify of a float code, as the log-sum-exp of every row, beside others that
    return it.
    """
    code, columns = drawn(case, device)
    q = code.q
    k = code.k
    at = _sample(case, device)
    logits = _on_support(q.double(), k.double(), columns)
    supports = torch.stack(logits, 1).logsumexp(1).float()

    def ours() -> Tensor:
        found = expressive.verify(code, columns)
        off_support = found.rows[:, 2]
        return supports + off_support.log1p()

    multiply = _float_tile(q, k, TILE[device])
    runs = {
        "ours": ours,
        "row chunks": partial(row_chunks, q, k, 256),
        "row chunks of 64": partial(row_chunks, q, k, 64),
        "floor bare product": partial(tiles, case.n, TILE[device], multiply),
    }
    if case.keops:
        lazy = _peers.keops(q, k, device, quick)
        away = isinstance(lazy, str)
        runs["KeOps"] = lazy if away else partial(keops_log_sum_exp, lazy)
    exact_q = q[at].double()
    truth = row_chunks(exact_q, k.double(), 64)
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
    at = _sample(case, device)
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    q = code.q.to(kind)
    k = code.k.to(kind)

    def ours() -> Tensor:
        return expressive.verify(code, columns).rows[:, 1]

    runs = {
        "ours": ours,
        "row chunks": partial(chunk_gaps, q, k, columns, code.scale, 256),
        "row chunks of 64": partial(chunk_gaps, q, k, columns, code.scale, 64),
    }
    if case.keops:
        wide = code.q.float(), code.k.float()
        lazy = _peers.keops(*wide, device, quick)
        away = isinstance(lazy, str)
        gaps = partial(keops_gaps, lazy, *wide, columns, code.scale)
        runs["KeOps"] = lazy if away else gaps
    on_cpu = device == "cpu"
    floors = _floors_cpu(code, q, k) if on_cpu else _floors_cuda(q, k)
    for name, floor in floors.items():
        runs[f"floor {name}"] = floor
    exact_q = code.q[at].double()
    exact_k = code.k.double()
    truth = chunk_gaps(exact_q, exact_k, columns[at], code.scale, 64)
    return compare(
        "verify",
        case.name,
        runs,
        device=device,
        rounds=rounds,
        sizes=_sizes(case),
        flop=2 * case.n**2 * D,
        dtype=kind,
        truth=(truth,),
        shown=lambda found: found[at],
    )


def _sample(case: Case, device: str) -> Tensor:
    """The rows that are compared with float64."""
    step = max(1, case.n // SAMPLE)
    return torch.arange(0, case.n, step, device=device)


def _sizes(case: Case) -> dict:
    return {
        "n": case.n,
        "d": D,
        "k": K,
        "signs": case.signs,
        "rows compared": min(SAMPLE, case.n),
    }


def _floors_cpu(code: Code, q: Tensor, k: Tensor) -> Runs:
    """Products alone, in floats and in 8 bits; one maximum over every tile; the other
    public way to 8-bit products.
    """
    n = len(q)
    broad = torch.empty(WHOLE, dtype=torch.int32)

    def multiply_bytes(rows: slice, columns: slice) -> Tensor:
        return torch._int_mm(code.q[rows], code.k[columns].T, out=broad)

    def one_pass(rows: slice, columns: slice) -> Tensor:
        return broad.amax(1)

    quantised = _quantised(code)
    away = isinstance(quantised, str)
    multiply = _float_tile(q, k, TILE["cpu"])
    return {
        "bare product": partial(tiles, n, TILE["cpu"], multiply),
        "int8 product alone": partial(tiles, n, WHOLE, multiply_bytes),
        "one pass": partial(tiles, n, WHOLE, one_pass),
        "quantised": quantised if away else partial(tiles, n, WHOLE, quantised),
    }


def _float_tile(q: Tensor, k: Tensor, tile: tuple[int, int]) -> Tile:
    """The product of some rows and columns, always into the same memory."""
    flat = torch.empty(tile, device=q.device)

    def multiply(rows: slice, columns: slice) -> Tensor:
        return torch.mm(q[rows], k[columns].T, out=flat)

    return multiply


def _floors_cuda(q: Tensor, k: Tensor) -> Runs:
    """The product alone, in the tiles of verify there."""

    def multiply(rows: slice, columns: slice) -> Tensor:
        return _wide_product(q[rows], k[columns].T)

    bare = partial(tiles, len(q), TILE["cuda"], multiply)
    return {"bare product": bare}


def _quantised(code: Code) -> Tile | str:
    """One tile by the 8-bit linear layer of oneDNN, whose keys are packed
    beforehand.
    """
    rows_at_once, columns_at_once = WHOLE
    shifted = (code.q.to(torch.int16) + 128).to(torch.uint8)
    one = torch.ones(1)
    zero = torch.zeros(1, dtype=torch.int64)
    packed = {}
    try:
        pack = torch.ops.onednn.qlinear_prepack
        for j in range(0, len(code.k), columns_at_once):
            keys = code.k[j : j + columns_at_once]
            packed[j] = pack(keys, [rows_at_once, D])
    except (AttributeError, RuntimeError) as missing:
        return f"not run: {type(missing).__name__}"
    multiply = torch.ops.onednn.qlinear_pointwise
    how = (one, zero, None, 1.0, 0, torch.float32, "none", [], "")

    def tile(rows: slice, columns: slice) -> Tensor:
        return multiply(shifted[rows], 1.0, 128, packed[columns.start], *how)

    return tile
