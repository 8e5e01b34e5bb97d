"""The job `ids`: the smallest gap of many ids, and Boltzmann averages, beside the ways
that come to mind.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from attnlib.bench import _peers
from attnlib.bench.record import Record, compare
from attnlib.memorize import boltzmann, boltzmann_literal, smallest_gap

ROUNDS, TWICE, BLOCK = 7, 1000, 2**16  # ids that stand there twice; of a difference


def torch_sort(ids: Tensor) -> Tensor:
    """Peer: sort by torch, all differences at once."""
    steps = torch.sort(ids).values.diff()
    apart = steps[steps > 0]
    return torch.stack(
        [
            apart.min(),
            torch.tensor(len(apart) + 1.0, dtype=ids.dtype, device=ids.device),
        ]
    )


def numpy_sort(ids: np.ndarray) -> Tensor:
    """Peer: sort by numpy, differences of a block at a time."""
    ends, least, distinct = np.sort(ids), np.inf, 1
    for i in range(0, len(ends) - 1, BLOCK):
        steps = np.diff(ends[i : i + BLOCK + 1])
        apart = steps[steps > 0]
        least, distinct = min(least, apart.min(initial=np.inf)), distinct + len(apart)
    return torch.tensor([least, distinct], dtype=torch.float64)


def gaps(name: str, n: int, device: str, rounds: int) -> Record:
    """smallest_gap of n random ids, some of them twice, beside sorting by torch and, on
    the CPU, by numpy.
    """
    ids = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ids[-min(TWICE, n // 4) :] = ids[: min(TWICE, n // 4)]
    there, held = ids.to(device), ids.numpy()
    truth = numpy_sort(held).to(device)

    def ours() -> Tensor:
        found = smallest_gap(there)
        return torch.tensor(
            [found.smallest, found.distinct], dtype=torch.float64, device=device
        )

    runs: dict[str, Callable] = {
        "ours": ours,
        "torch.sort + difference": lambda: torch_sort(there),
    }
    if device == "cpu":
        runs |= {
            "np.sort + difference": lambda: numpy_sort(held),
            "floor numpy's sort alone": lambda: np.sort(held),
        }
    else:
        runs["floor torch's sort alone"] = lambda: torch.sort(there)
    moved = (
        136 * n if device == "cuda" else 0
    )  # a radix sort: eight passes read and write a key, and one reads it
    return compare(
        "ids",
        name,
        runs,
        device=device,
        rounds=rounds,
        sizes={"ids": n, "dtype": "float64"},
        moved=moved,
        truth=(truth,),
        unseen=("ours", "np.sort"),
    )  # on the CPU both work in numpy


def averages(
    name: str, rows: int, width: int, device: str, rounds: int, quick: bool
) -> Record:
    """boltzmann beside the formula as it is written, eager and compiled, and beside
    copies of its input.
    """
    a = torch.randn(
        rows, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    ).to(device)
    into = torch.empty_like(
        a
    )  # a clone asks for fresh memory each time, which costs more than the copy
    kernel = _peers.compiled(boltzmann_literal, device, quick)
    runs = {
        "ours": lambda: boltzmann(a, check=False),
        "eager": lambda: boltzmann_literal(a),
        "compiled": (lambda: kernel(a)) if callable(kernel) else kernel,
        "floor copy": a.clone,
        "floor copy into memory at hand": lambda: into.copy_(a),
    }
    truth = torch.cat([(t * torch.softmax(t, -1)).sum(-1) for t in a.split(2**14)])
    sizes = {"rows": rows, "width": width, "dtype": "float64"}
    return compare(
        "ids",
        name,
        runs,
        device=device,
        rounds=rounds,
        sizes=sizes,
        moved=a.nbytes,
        truth=(truth,),
    )


def cases(device: str, quick: bool) -> dict[str, Callable[[], Record]]:
    """What is measured: names, and how."""
    n, rows, width, rounds = 10**8 if device == "cuda" else 10**7, 500_000, 32, ROUNDS
    if quick:
        n, rows, rounds = 10**5, 5000, 2
    first, second = (
        f"smallest gap of {n:.0e} ids",
        f"Boltzmann averages, {rows} x {width}",
    )
    return {
        first: lambda: gaps(first, n, device, rounds),
        second: lambda: averages(second, rows, width, device, rounds, quick),
    }
