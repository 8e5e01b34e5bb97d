"""What all jobs share: runs in alternation, ratios round by round, memory, and files
that are whole or not there.
"""

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
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.benchmark import Timer

# seconds, beside which the start of a kernel is nothing; what is not captured cannot be
# captured by half
LONG = 0.01


def alternate(
    runs: dict[str, Callable],
    rounds: int,
    device: str,
    *,
    least: float = 0.05,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds a call of each run, in turn A B C A B C ..., after a turn that is not
    counted.
    """
    if device == "cuda":
        turns = {name: _on_gpu(run, least) for name, run in runs.items()}
    else:
        turns = {name: _on_cpu(run, least, clock) for name, run in runs.items()}
    taken = [{name: turn() for name, turn in turns.items()} for _ in range(rounds + 1)][
        1:
    ]
    return {name: [turn[name] for turn in taken] for name in runs}


def _on_cpu(
    run: Callable, least: float, clock: Callable[[], float]
) -> Callable[[], float]:
    """A turn of a run on the CPU."""
    timer = Timer(
        "run()", globals={"run": run}, timer=clock, num_threads=torch.get_num_threads()
    )

    def seconds() -> float:
        began = clock()
        run()
        once = clock() - began
        return (
            once
            if once >= least
            else timer.blocked_autorange(min_run_time=least).median
        )

    return seconds


def _on_gpu(run: Callable, least: float) -> Callable[[], float]:
    """A turn of a run on the GPU: the calls that fill `least` seconds, between two
    events.
    """

    def seconds(calls: int, play: Callable) -> float:
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        for _ in range(calls):
            play()
        ended.record()
        torch.cuda.synchronize()
        return began.elapsed_time(ended) / 1000 / calls

    run()  # warms up
    play = run if seconds(1, run) > LONG else _captured(run)
    return lambda: seconds(max(1, math.ceil(least / max(seconds(1, play), 1e-7))), play)


def _captured(run: Callable) -> Callable:
    """The run as a CUDA graph; the run itself if it cannot be one (it looks at its
    numbers, or changes its shapes).
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            run()
    except RuntimeError:
        torch.cuda.synchronize()
        return run
    return graph.replay


def ratio(over: list[float], under: list[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile of over / under, taken round by round,
    so that drift cancels.
    """
    ratios = sorted(a / b for a, b in zip(over, under))
    return (
        ratios[len(ratios) // 4],
        statistics.median(ratios),
        ratios[-1 - len(ratios) // 4],
    )


class Alive(TorchDispatchMode):
    """Bytes of the tensors made inside, at their peak, and how many numbers the largest
    of them holds.

    A buffer inside a fused kernel is not seen.

    Page:
        notebooks/path_decomposition/paths
    """

    def __init__(self):
        super().__init__()
        self.made, self.peak, self.largest = {}, 0, 0

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        result = f(*args, **(kwargs or {}))
        given = {t.untyped_storage()._cdata for t in _plain(args)}
        for t in _plain(result if isinstance(result, tuple | list) else [result]):
            if (storage := t.untyped_storage())._cdata not in given | set(self.made):
                self.made[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
                self.largest = max(self.largest, storage.nbytes() // t.element_size())
        self.made = {
            key: (ref, size)
            for key, (ref, size) in self.made.items()
            if not ref.expired()
        }
        self.peak = max(self.peak, sum(size for _, size in self.made.values()))
        return result


def peak_bytes(run: Callable, device: str) -> int:
    """Bytes that a run holds at its peak beside what was there: counted on the CPU, by
    the allocator on a GPU.
    """
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with Alive() as alive:
        run()
    return alive.peak


def _plain(given) -> list[Tensor]:
    """The tensors among these; of compressed rows the values, as index arrays are the
    caller's.
    """
    return [
        t.values() if t.layout is torch.sparse_csr else t
        for t in given
        if torch.is_tensor(t)
    ]


def store(content: dict, file: Path) -> None:
    """Write JSON whole or not at all."""
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as held:
        json.dump(content, held, indent=1)
    os.replace(held.name, file)
