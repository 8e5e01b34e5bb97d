"""What all jobs share: runs in alternation, and the memory of a run."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.benchmark import Timer

Clock = Callable[[], float]


def clock_of(device: str) -> Clock:
    """The clock of a run: on the CPU with one thread its own time is its work, whatever
    else the machine does.
    """
    if device == "cuda":
        return _when_all_is_done
    if torch.get_num_threads() == 1:
        return time.process_time
    return time.perf_counter


def _when_all_is_done() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


def alternate(
    runs: dict[str, Callable], rounds: int, clock: Clock, *, least: float = 0.05
) -> dict[str, list[float]]:
    """Seconds a call of each run, in turn A B C A B C ..., after a turn that is not
    counted.
    """
    turns = {name: _turn(run, clock, least) for name, run in runs.items()}
    taken = {name: [] for name in runs}
    for _ in range(1 + rounds):
        for name, turn in turns.items():
            taken[name].append(turn())
    return {name: seconds[1:] for name, seconds in taken.items()}


def _turn(run: Callable, clock: Clock, least: float) -> Callable[[], float]:
    """One call, or the calls that fill `least` seconds."""
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


class Alive(TorchDispatchMode):
    """Bytes of the tensors made inside, at their peak, and how many numbers the largest
    of them holds.

    A buffer inside a fused kernel is not seen.
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
