"""The job `scaling`: time and memory of the kernels whose cost a page speaks of, as n,
L, N or d grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from attnbook.data.timings import Record
from attnlib import codes, efficient, expressive, lowrank, memorize, patterns
from attnlib.attention import attention_matrix, forward, random_layers
from attnlib.paths import path_sums
from attnlib.patterns import Pattern, Strided, Window, build
from attnlib.sparse import masked_attention, sparse_attention
from bench.record import Cases, digits
from bench.sparse import big_bird
from bench.timing import alternate, clock_of, peak_bytes

ROUNDS = 3  # turns of each size
LEAST = 0.005  # seconds of a turn


class Axis(NamedTuple):
    """Four sizes along one axis, a factor apart, and the exponents that are expected.

    Args:
        first: the smallest size.
        time, memory: exponents.
        still: other sizes, chosen so that the term of this axis is the large one.
        factor: between one size and the next.
    """

    first: int
    time: float
    memory: float
    still: dict[str, int] = {}
    factor: int = 2

    def sizes(self, quick: bool) -> list[int]:
        """All sizes, or three small ones."""
        sizes = [self.first * self.factor**i for i in range(4)]
        if not quick:
            return sizes
        if self.first < 256:
            return sizes[:3]
        return [size // 4 for size in sizes[:3]]


class Kernel(NamedTuple):
    """A kernel, how it is made at some sizes, and the axes n, L, N or d that it has."""

    name: str
    make: Callable[..., Callable]
    axes: dict[str, Axis]


# --- how kernels are made


def _drawn(device: str, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Gaussian tensors, the same for every device."""
    g = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=g).to(device) for shape in shapes]


def _source(device: str | torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(0)


def _matrix(device: str, n: int = 512, d: int = 32) -> Callable:
    weights = (1, d, 16)
    x, w_q, w_k = _drawn(device, (n, d), weights, weights)
    return partial(attention_matrix, x, w_q / d**0.5, w_k, check=False)


def _stack(kernel: Callable, given: bool = False) -> Callable:
    """kernel(x, layers) on L layers of two heads of width 16; given: P is computed
    beforehand.
    """

    def make(
        device: str, N: int = 1, L: int = 2, n: int = 128, d: int = 32
    ) -> Callable:
        g = torch.Generator().manual_seed(0)
        layers = random_layers(
            L, 2, d, 16, generator=g, gain=0.5, dtype=torch.float32, device=device
        )
        (x,) = _drawn(device, (N, n, d))
        run = partial(kernel, x, layers, skip=True, check=False)
        if not given:
            return run
        _, attention = forward(x, layers, skip=True, return_attention=True, check=False)
        return partial(run, attention=attention)

    return make


def _qkv(kernel: Callable, **how) -> Callable:
    def make(device: str, N: int = 1, n: int = 512, d: int = 32) -> Callable:
        shape = (N, 1, n, d)
        q, k, v = _drawn(device, shape, shape, shape)
        return partial(kernel, q, k, v, **how)

    return make


def _linformer(device: str, N: int = 1, n: int = 512, d: int = 32) -> Callable:
    shape = (N, 1, n, d)
    mixtures = (64, n)
    q, k, v, e, f = _drawn(device, shape, shape, shape, mixtures, mixtures)
    return partial(lowrank.linformer_attention, q, k, v, e, f, check=False)


def _performer(q, k, v, check: bool) -> Tensor:
    g = _source(q.device)
    return efficient.performer_attention(q, k, v, features=64, generator=g, check=check)


def _hashed(q, k, v, check: bool) -> Tensor:
    g = _source(q.device)
    return efficient.lsh_attention(
        q, v, buckets=16, rounds=2, chunk=32, generator=g, check=check
    )


def _gated(q, k, v, check: bool) -> tuple[Tensor, Tensor]:
    gates = torch.sigmoid(q[..., 0])
    return efficient.gated_linear_attention(q, k, v, gates, check=check)


def _delta(q, k, v, check: bool) -> tuple[Tensor, Tensor]:
    rates = torch.sigmoid(q[..., 0])
    return efficient.delta_attention(q, k / k.shape[-1], v, rates, check=check)


def _scan(device: str, n: int = 512, d: int = 32) -> Callable:
    states = (1, n, 16)
    x, a, b, c = _drawn(device, (1, n, d), (1, n, d, 16), states, states)
    return partial(efficient.selective_scan, x, torch.sigmoid(a), b, c, check=False)


def _sparse(pattern: Callable[[int], Pattern]) -> Callable:
    def make(device: str, n: int = 1024, **sizes: int) -> Callable:
        return _qkv(partial(sparse_attention, pattern=pattern(n)), check=False)(
            device, n=n, **sizes
        )

    return make


def _window(n: int) -> Pattern:
    return patterns.window(n, 33)


def _strided(n: int) -> Pattern:
    l = 2 ** round(math.log2(n) / 2)
    return build(n, [Window(l // 2, l // 2), Strided(l)])


def _random(n: int) -> Pattern:
    return patterns.random(n, 8, generator=_source("cpu"))


def _blocks(n: int) -> Pattern:
    return big_bird(n, 32, generator=_source("cpu"))


def _code(device: str, n: int, d: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys of length one, and a pattern of four columns a row."""
    (k,) = _drawn(device, (n, d))
    k = k / k.norm(dim=1, keepdim=True)
    rows = torch.arange(n)[:, None]
    # Columns of a row differ, and each column is in four rows.
    columns = (rows + torch.arange(4) * (n // 8)) % n
    columns = columns.to(device)
    return k[columns].sum(1), k, columns


def _verify(device: str, n: int = 512, d: int = 32) -> Callable:
    q, k, columns = _code(device, n, d)
    code = expressive.Code(20 * q, k, 0.1, 0.1)
    return partial(expressive.verify, code, columns)


def _margins(device: str, n: int = 512, d: int = 32) -> Callable:
    return partial(codes.margins, *_code(device, n, d))


def _context_ids(device: str, N: int = 1, n: int = 32, d: int = 16) -> Callable:
    x, v = _drawn(device, (N, n, d), (d,))
    v = v.double() / d**0.5
    return partial(memorize.context_ids, x.double(), v, 0.3, check=False)


# --- the table


def _beside(
    first: int,
    *,
    d: Axis,
    time: float = 1,
    memory: float = 1,
    factor: int = 2,
) -> dict[str, Axis]:
    """Tokens, widths, and sequences that lie side by side."""
    return {
        "n": Axis(first, time, memory, factor=factor),
        "d": d,
        "N": Axis(4, 1, 1),
    }


def _layers(time: float, memory: float) -> dict[str, Axis]:
    """Of a stack, which forms P of each head; layers as given."""
    return {
        "n": Axis(128, 2, 2),
        "L": Axis(4, time, memory),
        "N": Axis(4, 1, 1),
        "d": Axis(512, 1, 1, {"n": 32}),
    }


def _linear(first: int) -> dict[str, Axis]:
    return {"n": Axis(first, 1, 1)}


CAUSAL = partial(efficient.linear_attention, causal=True)
NYSTROM = partial(lowrank.nystrom_attention, landmarks=32)
WIDE = Axis(256, 1, 1)
KERNELS = [
    Kernel(
        "attention_matrix",
        _matrix,
        {"n": Axis(128, 2, 2), "d": Axis(2048, 1, 0, {"n": 64})},
    ),
    Kernel("forward", _stack(forward), _layers(1, 0)),
    Kernel("path_sums", _stack(path_sums), _layers(2, 1)),
    Kernel(
        "path_sums, P given",
        _stack(path_sums, given=True),
        {"n": Axis(256, 2, 1, {"d": 64}), "L": Axis(4, 2, 1)},
    ),
    Kernel("linformer_attention", _linformer, _beside(1024, d=WIDE)),
    Kernel("nystrom_attention", _qkv(NYSTROM, check=False), _linear(4096)),
    Kernel(
        "linear_attention",
        _qkv(efficient.linear_attention, check=False),
        _beside(2048, d=Axis(128, 2, 1)),
    ),
    Kernel("linear_attention, causal", _qkv(CAUSAL, check=False), _linear(1024)),
    Kernel("performer_attention", _qkv(_performer, check=False), _linear(1024)),
    Kernel("gated_linear_attention", _qkv(_gated, check=False), _linear(1024)),
    Kernel("delta_attention", _qkv(_delta, check=False), _linear(1024)),
    Kernel("selective_scan", _scan, _linear(1024)),
    Kernel("lsh_attention", _qkv(_hashed, check=False), _beside(1024, d=WIDE)),
    Kernel("sparse_attention, window", _sparse(_window), _beside(4096, d=WIDE)),
    Kernel(
        "sparse_attention, strided",
        _sparse(_strided),
        _beside(256, d=WIDE, time=1.5, factor=4),
    ),
    Kernel("sparse_attention, BigBird by blocks", _sparse(_blocks), _linear(1024)),
    Kernel("sparse_attention, random sets", _sparse(_random), _beside(1024, d=WIDE)),
    Kernel("masked_attention", _qkv(masked_attention), {"n": Axis(128, 2, 2)}),
    Kernel("verify", _verify, {"n": Axis(1024, 2, 0), "d": Axis(256, 1, 1)}),
    Kernel("margins", _margins, {"n": Axis(512, 2, 0)}),
    Kernel(
        "context_ids",
        _context_ids,
        {
            "n": Axis(512, 2, 0),
            "N": Axis(256, 1, 0),
            "d": Axis(1024, 1, 1, {"N": 8}),
        },
    ),
]


# --- how they are measured


def cases(device: str, quick: bool) -> Cases:
    """What is measured, a minute of it: every axis of every kernel."""
    found = {}
    for kernel in KERNELS:
        for name in kernel.axes:
            case = f"{kernel.name}: {name}"
            found[case] = partial(measure, kernel, name, device, quick)
    return found


def runs_of(kernel: Kernel, name: str, device: str, quick: bool = False) -> dict:
    """A run for each size of an axis."""
    axis = kernel.axes[name]
    runs = {}
    for size in axis.sizes(quick):
        runs[size] = kernel.make(device, **{**axis.still, name: size})
    return runs


def measure(kernel: Kernel, name: str, device: str, quick: bool) -> Record:
    """One kernel along one axis: seconds and bytes at each size, the sizes in turn."""
    # Freed at once: now glibc keeps blocks up to this size, and their pages.
    torch.empty(31 * 2**20, dtype=torch.uint8)
    axis = kernel.axes[name]
    runs = runs_of(kernel, name, device, quick)
    # The first call makes what is made once; its memory is not that of a call.
    for run in runs.values():
        run()
    rounds = 2 if quick else ROUNDS
    least = 0.0 if quick else LEAST
    seconds = alternate(runs, rounds, clock_of(device), least=least)
    turns = []
    for turn in zip(*seconds.values()):
        turns.append([digits(t, 4) for t in turn])
    return {
        "job": "scaling",
        "case": f"{kernel.name}: {name}",
        "kernel": kernel.name,
        "axis": name,
        "device": device,
        "sizes": axis.still,
        "at": list(runs),
        "rounds": rounds,
        "seconds": {"ours": turns},
        "peak bytes": [peak_bytes(run, device) for run in runs.values()],
        "predicted": {"time": axis.time, "memory": axis.memory},
    }
