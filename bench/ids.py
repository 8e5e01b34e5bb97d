"""The job `ids`: the smallest gap of many ids, and Boltzmann averages, beside the ways
that come to mind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from attnbook.data.timings import Record
from attnlib.memorize import boltzmann, smallest_gap
from bench import _peers
from bench.record import Cases, Runs, compare

ROUNDS = 7
TWICE = 1000  # ids that stand there twice
BLOCK = 2**16  # differences that are taken at once


def torch_sort(ids: Tensor) -> Tensor:
    """Peer: sort by torch, all differences at once."""
    steps = torch.sort(ids).values.diff()
    apart = steps[steps > 0]
    distinct = torch.tensor(len(apart) + 1.0, dtype=ids.dtype, device=ids.device)
    return torch.stack([apart.min(), distinct])


def numpy_sort(ids: np.ndarray) -> Tensor:
    """Peer: sort by numpy, differences of a block at a time."""
    ends = np.sort(ids)
    least = np.inf
    distinct = 1
    for i in range(0, len(ends) - 1, BLOCK):
        steps = np.diff(ends[i : i + BLOCK + 1])
        apart = steps[steps > 0]
        least = min(least, apart.min(initial=np.inf))
        distinct += len(apart)
    return torch.tensor([least, distinct], dtype=torch.float64)


def gaps(name: str, n: int, device: str, rounds: int) -> Record:
    """smallest_gap of n random ids, some of them twice, beside sorting by torch and, on
    the CPU, by numpy.
    """
    g = torch.Generator().manual_seed(0)
    ids = torch.rand(n, dtype=torch.float64, generator=g)
    twice = min(TWICE, n // 4)
    ids[-twice:] = ids[:twice]
    there = ids.to(device)
    held = ids.numpy()
    truth = numpy_sort(held).to(device)

    def ours() -> Tensor:
        gap = smallest_gap(there)
        found = [gap.smallest, gap.distinct]
        return torch.tensor(found, dtype=torch.float64, device=device)

    runs: Runs = {
        "ours": ours,
        "torch.sort + difference": partial(torch_sort, there),
    }
    if device == "cpu":
        runs["np.sort + difference"] = partial(numpy_sort, held)
        runs["floor numpy's sort alone"] = partial(np.sort, held)
    else:
        runs["floor torch's sort alone"] = partial(torch.sort, there)
    return compare(
        "ids",
        name,
        runs,
        {},
        device=device,
        rounds=rounds,
        sizes={"ids": n, "dtype": "float64"},
        truth=(truth,),
        # On the CPU these work in numpy, whose arrays are not counted.
        unseen=("ours", "np.sort"),
    )


def averages(
    name: str, rows: int, width: int, device: str, rounds: int, quick: bool
) -> Record:
    """boltzmann beside the formula as it is written, eager and compiled, and beside
    copies of its input.
    """
    g = torch.Generator().manual_seed(0)
    a = torch.randn(rows, width, dtype=torch.float64, generator=g).to(device)
    # A clone asks for fresh memory each time, which costs more than the copy.
    into = torch.empty_like(a)
    runs = {
        "ours": partial(boltzmann, a, check=False),
        "eager": partial(_average, a),
        "floor copy": a.clone,
        "floor copy into memory at hand": partial(into.copy_, a),
    }

    def compiled() -> Callable[[], Tensor]:
        return partial(_peers.compiled(_average, quick), a)

    truth = torch.cat([_average(some) for some in a.split(2**14)])
    sizes = {"rows": rows, "width": width, "dtype": "float64"}
    return compare(
        "ids",
        name,
        runs,
        {"compiled": compiled},
        device=device,
        rounds=rounds,
        sizes=sizes,
        moved=a.nbytes,
        truth=(truth,),
    )


def _average(a: Tensor) -> Tensor:
    """The formula once more, so that the truth is nobody's code."""
    return (a * torch.softmax(a, -1)).sum(-1)


def cases(device: str, quick: bool) -> Cases:
    """What is measured: names, and how."""
    n = 10**7
    rows = 500_000
    width = 32
    rounds = ROUNDS
    if quick:
        n = 10**5
        rows = 5000
        rounds = 2
    of_gaps = f"smallest gap of {n:.0e} ids"
    of_averages = f"Boltzmann averages, {rows} x {width}"
    return {
        of_gaps: partial(gaps, of_gaps, n, device, rounds),
        of_averages: partial(averages, of_averages, rows, width, device, rounds, quick),
    }
