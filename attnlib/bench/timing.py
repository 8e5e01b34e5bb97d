"""What all jobs share: runs in alternation, ratios round by round, memory, and files that are whole or not there."""

from __future__ import annotations

import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


def alternate(
    runs: dict[str, Callable], rounds: int, device: str, *, least: float = 0.05, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds a call of each run, in turn A B C A B C ..., after a warm-up that is not counted.

    Args:    runs: functions by name.   rounds: how often each has its turn.   device: "cuda" waits for the GPU.
             least: seconds that a turn lasts at the least; short runs are called several times, and averaged.
             clock: time.process_time counts only the work of this process, which is what matters on a busy machine.
    Returns: seconds a call, one entry a round, by name.
    Cost:    rounds + 2 turns of each.
    Source:  machines drift; alternating runs drift together.
    Page:    notebooks/path_decomposition/paths
    """
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None

    def seconds(run: Callable, calls: int) -> float:
        wait()
        began = clock()
        for _ in range(calls):
            run()
        wait()
        return (clock() - began) / calls

    warm = {name: min(seconds(run, 1), seconds(run, 1)) for name, run in runs.items()}
    calls = {name: max(1, math.ceil(least / max(once, 1e-7))) for name, once in warm.items()}
    taken = [{name: seconds(run, calls[name]) for name, run in runs.items()} for _ in range(rounds)]
    return {name: [turn[name] for turn in taken] for name in runs}


def ratio(over: list[float], under: list[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile of over / under, taken round by round, so that drift cancels.

    Args:    over, under: seconds, an entry a round.
    Returns: three numbers.
    Cost:    O(rounds log rounds).
    Source:  none.
    Page:    notebooks/path_decomposition/paths
    """
    ratios = sorted(a / b for a, b in zip(over, under))
    return ratios[len(ratios) // 4], statistics.median(ratios), ratios[-1 - len(ratios) // 4]


class Alive(TorchDispatchMode):
    """Bytes of the tensors made inside, at their peak.

    A buffer inside a fused kernel is not seen.

    Page:    notebooks/path_decomposition/paths
    """

    def __init__(self):
        super().__init__()
        self.made, self.peak = {}, 0

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        result = f(*args, **(kwargs or {}))
        given = {t.untyped_storage()._cdata for t in args if torch.is_tensor(t)}
        for t in result if isinstance(result, tuple | list) else [result]:
            if torch.is_tensor(t) and (storage := t.untyped_storage())._cdata not in given | set(self.made):
                self.made[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self.made = {key: (ref, size) for key, (ref, size) in self.made.items() if not ref.expired()}
        self.peak = max(self.peak, sum(size for _, size in self.made.values()))
        return result


def store(content: dict, file: Path) -> None:
    """Write JSON whole or not at all.

    Args:    content: plain numbers, strings, lists and dictionaries.   file: where.
    Returns: None.
    Page:    notebooks/path_decomposition/paths
    """
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as held:
        json.dump(content, held, indent=1)
    os.replace(held.name, file)
