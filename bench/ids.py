"""The job `ids`: the smallest gap of many ids, beside sorting them by torch."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from attnbook.data.timings import Record
from attnlib.memorize import smallest_gap
from bench.record import Cases, compare

TWICE = 1000  # ids that stand there twice


def torch_sort(ids: Tensor) -> Tensor:
    """Peer: sort by torch, all differences at once."""
    steps = torch.sort(ids).values.diff()
    apart = steps[steps > 0]
    distinct = torch.tensor(len(apart) + 1.0, dtype=ids.dtype, device=ids.device)
    return torch.stack([apart.min(), distinct])


def measure(name: str, n: int, device: str, rounds: int) -> Record:
    """smallest_gap of n random ids, some of them twice."""
    g = torch.Generator().manual_seed(0)
    ids = torch.rand(n, dtype=torch.float64, generator=g)
    twice = min(TWICE, n // 4)
    ids[-twice:] = ids[:twice]
    there = ids.to(device)

    def ours() -> Tensor:
        gap = smallest_gap(there)
        found = [gap.smallest, gap.distinct]
        return torch.tensor(found, dtype=torch.float64, device=device)

    distinct = np.unique(ids.numpy())
    exact = np.array([np.diff(distinct).min(), len(distinct)])
    truth = torch.from_numpy(exact).to(device)
    return compare(
        "ids",
        name,
        {
            "ours": ours,
            "torch.sort + difference": partial(torch_sort, there),
            "floor numpy's sort alone": partial(np.sort, ids.numpy()),
        },
        {},
        device=device,
        rounds=rounds,
        sizes={"ids": n, "dtype": "float64"},
        truth=(truth,),
        # It works in numpy, whose arrays are not counted.
        unseen=("ours",),
    )


def cases(device: str, quick: bool) -> Cases:
    """What is measured: names, and how."""
    n = 10**5 if quick else 10**7
    name = f"smallest gap of {n:.0e} ids"
    return {name: partial(measure, name, n, device, 2 if quick else 7)}
