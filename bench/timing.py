"""What all jobs share: runs in alternation, ratios round by round, memory, and files
that are whole or not there.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.benchmark import Timer

# Seconds beside which the start of a kernel is nothing. Longer runs are not captured,
# and so none of them is captured by half.
LONG = 0.01


def own_clock() -> Callable[[], float]:
    """The clock of a run: with one thread its own time is its work, whatever else the
    machine does.
    """
    if torch.get_num_threads() == 1:
        return time.process_time
    return time.perf_counter


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
    taken = {name: [] for name in runs}
    for _ in range(1 + rounds):
        for name, turn in turns.items():
            taken[name].append(turn())
    return {name: seconds[1:] for name, seconds in taken.items()}


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
        if once >= least:
            return once
        return timer.blocked_autorange(min_run_time=least).median

    return seconds


def _on_gpu(run: Callable, least: float) -> Callable[[], float]:
    """A turn of a run on the GPU: the calls that fill `least` seconds, between two
    events.
    """

    def seconds(calls: int, play: Callable) -> float:
        began = torch.cuda.Event(enable_timing=True)
        ended = torch.cuda.Event(enable_timing=True)
        began.record()
        for _ in range(calls):
            play()
        ended.record()
        torch.cuda.synchronize()
        return began.elapsed_time(ended) / 1000 / calls

    run()  # warms up
    play = run if seconds(1, run) > LONG else _captured(run)

    def turn() -> float:
        once = max(seconds(1, play), 1e-7)
        calls = max(1, math.ceil(least / once))
        return seconds(calls, play)

    return turn


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


class Alive(TorchDispatchMode):
    """Bytes of the tensors made inside, at their peak, and how many numbers the largest
    of them holds.

    A buffer inside a fused kernel is not seen.

    Page:
        notebooks/path_decomposition/paths
    """

    def __init__(self):
        super().__init__()
        self.made = {}  # a storage's address to a weak reference and its bytes
        self.peak = 0
        self.largest = 0

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        result = f(*args, **(kwargs or {}))
        results = result if isinstance(result, tuple | list) else [result]
        given = {t.untyped_storage()._cdata for t in _plain(args)}
        for t in _plain(results):
            storage = t.untyped_storage()
            key = storage._cdata
            if key in given or key in self.made:
                continue
            size = storage.nbytes()
            self.made[key] = (StorageWeakRef(storage), size)
            self.largest = max(self.largest, size // t.element_size())
        self._forget_the_dead()
        alive = sum(size for _, size in self.made.values())
        self.peak = max(self.peak, alive)
        return result

    def _forget_the_dead(self) -> None:
        for key, (reference, _) in list(self.made.items()):
            if reference.expired():
                del self.made[key]


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
    tensors = []
    for t in given:
        if torch.is_tensor(t):
            tensors.append(t.values() if t.layout is torch.sparse_csr else t)
    return tensors


def store(content: dict, file: Path) -> None:
    """Write JSON whole or not at all."""
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as held:
        json.dump(content, held, indent=1)
    os.replace(held.name, file)
