"""The job `scaling`: time and memory of every kernel against n, L, H, N and d, and the
slopes in double logarithms.
"""

from __future__ import annotations

import math
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial

import torch

from attnlib.bench.record import Record, versions
from attnlib.bench.scaling._attention import KERNELS as FIRST
from attnlib.bench.scaling._kernel import UPPER, Axis, Kernel  # noqa: F401 (public here)
from attnlib.bench.scaling._others import APART  # noqa: F401 (public here)
from attnlib.bench.scaling._others import KERNELS as SECOND
from attnlib.bench.timing import Alive, alternate, peak_bytes

KERNELS: list[Kernel] = [*FIRST, *SECOND]
ROUNDS, LEAST = 3, 0.005  # turns of each size; seconds of a turn
OFF = 0.3  # a slope farther than this above or below its prediction is marked
DENSE = 4  # a tensor of n^2 / 4 numbers or more counts as n x n


def largest(run: Callable) -> int:
    """How many numbers the largest tensor holds that a run makes; what a fused kernel
    keeps inside is not seen.
    """
    with Alive() as alive:
        run()
    return alive.largest


def bytes_of(kernel: Kernel, run: Callable, device: str) -> int:
    """Bytes that a run of a kernel holds at its peak: of tensors, or of arrays for a
    kernel that works in numpy.
    """
    if not kernel.numpy:
        return peak_bytes(run, device)
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def makes_dense(kernel: Kernel, n: int, device: str = "cpu") -> tuple[bool, int]:
    """Whether a kernel makes a tensor of n^2 / 4 numbers or more, as one that forms an
    n x n matrix does.
    """
    most = largest(kernel.at("n", n, device))
    return most * DENSE >= n * n, most


def slope(at: Sequence[int], values: Sequence[float | int]) -> float:
    """The exponent of growth over the upper points: least squares in double
    logarithms.
    """
    if len(at) != len(values) or len(at) < 2:
        raise ValueError(
            f"a slope needs two points or more and a value at each, got {len(at)} and {len(values)}"
        )
    x, y = (
        [math.log(max(v, 1e-12 if isinstance(v, float) else 1)) for v in t[-UPPER:]]
        for t in (at, values)
    )
    return statistics.linear_regression(x, y).slope


def measure(kernel: Kernel, name: str, device: str, *, quick: bool = False) -> Record:
    """One kernel along one axis: seconds and bytes at each size, the sizes in turn."""
    torch.empty(
        31 * 2**20, dtype=torch.uint8
    )  # freed at once: now glibc keeps blocks up to this size, and their pages
    axis = kernel.axes[name]
    at = axis.small() if quick else axis.at
    runs = {str(size): kernel.at(name, size, device) for size in at}
    numbers = [
        largest(run) for run in runs.values()
    ]  # the first call: what is made once is seen here
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    rounds, least = (2, 0.0) if quick else (ROUNDS, LEAST)
    seconds = alternate(runs, rounds, device, clock=clock, least=least)
    return {
        "job": "scaling",
        "case": f"{kernel.name}: {name}",
        "kernel": kernel.name,
        "axis": name,
        "device": device,
        "sizes": {
            size: v
            for size, v in {**kernel.sizes, **axis.sizes}.items()
            if size != name
        },
        "at": list(at),
        "rounds": rounds,
        "dense": kernel.dense,
        "versions": versions(("torch", "numpy")),
        "seconds": {
            "ours": [
                [float(f"{t:.4g}") for t in turn] for turn in zip(*seconds.values())
            ]
        },
        "peak bytes": [bytes_of(kernel, run, device) for run in runs.values()],
        "largest": numbers,
        "predicted": {"time": axis.time, "memory": axis.memory, "why": axis.why},
    }


def slopes(record: Record) -> dict[str, tuple[float, float, float]]:
    """The slopes of a record: least, median and largest over the rounds for time; one
    number, thrice, for memory.
    """
    times = [
        slope(record["at"], [float(t) for t in turn])
        for turn in record["seconds"]["ours"]
    ]
    middle = slope(
        record["at"], [statistics.median(ts) for ts in zip(*record["seconds"]["ours"])]
    )
    return {
        "time": (min(times), middle, max(times)),
        "memory": (slope(record["at"], record["peak bytes"]),) * 3,
    }


def report(record: Record) -> str:
    """One line of Markdown: the slopes, with what was predicted, and the largest
    size.
    """
    found, at = slopes(record), record["at"]
    (low, middle, high), memory = found["time"], found["memory"][1]
    wanted = [record["predicted"][what] for what in ("time", "memory")]
    last = statistics.median(turn[-1] for turn in record["seconds"]["ours"])

    def mark(off):
        return f" ({'above' if off > 0 else 'below'})" if abs(off) > OFF else ""

    return (
        f"- {record['case']} = {at[0]} to {at[-1]}: time slope {middle:.2f} ({low:.2f} to {high:.2f}), "
        f"predicted {wanted[0]:g}{mark(middle - wanted[0])}; "
        f"memory slope {memory:.2f}, predicted {wanted[1]:g}{mark(memory - wanted[1])}; "
        f"at the end {1000 * last:.3g} ms, {record['peak bytes'][-1] / 2**20:.3g} MB, "
        f"largest tensor {record['largest'][-1]:,} numbers"
    )


def rows(records: Sequence[Record]) -> list[str]:
    """A table in Markdown, a row for each kernel and axis: slopes of time and memory
    beside the predicted ones.
    """
    lines = [
        "| kernel | axis | time (predicted) | memory (predicted) |",
        "| --- | --- | --- | --- |",
    ]
    for record in (r for r in records if r["job"] == "scaling"):
        found, predicted = slopes(record), record["predicted"]
        cells = (
            f"{found[what][1]:.2f} ({predicted[what]:g})" for what in ("time", "memory")
        )
        lines.append(f"| {record['kernel']} | {record['axis']} | {' | '.join(cells)} |")
    return lines


def cases(device: str, quick: bool) -> dict[str, Callable[[], Record]]:
    """What is measured, some minutes of it, quick 15 seconds: every axis of every
    kernel.
    """
    axes = [
        (kernel, name)
        for kernel in KERNELS
        for name in list(kernel.axes)[: 2 if quick else None]
    ]
    return {
        f"{kernel.name}: {name}": partial(measure, kernel, name, device, quick=quick)
        for kernel, name in axes
    }
