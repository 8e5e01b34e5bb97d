"""The job `scaling`: time and memory of every kernel against n, L, H, N and d, and the
slopes in double logarithms.
"""

from __future__ import annotations

import math
import statistics
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial

import torch

from attnbook.data.timings import Record
from bench.record import Cases, digits, versions
from bench.scaling._attention import KERNELS as FIRST
from bench.scaling._kernel import UPPER, Axis, Kernel  # noqa: F401 (public here)
from bench.scaling._others import APART  # noqa: F401 (public here)
from bench.scaling._others import KERNELS as SECOND
from bench.timing import Alive, alternate, own_clock, peak_bytes

KERNELS: list[Kernel] = [*FIRST, *SECOND]
ROUNDS = 3  # turns of each size
LEAST = 0.005  # seconds of a turn
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
            "a slope needs two points or more and a value at each, "
            f"got {len(at)} and {len(values)}"
        )
    x = [_logarithm(size) for size in at[-UPPER:]]
    y = [_logarithm(value) for value in values[-UPPER:]]
    return statistics.linear_regression(x, y).slope


def _logarithm(value: float | int) -> float:
    """The natural logarithm; nothing counts as one byte, or as a picosecond."""
    least = 1e-12 if isinstance(value, float) else 1
    return math.log(max(value, least))


def measure(kernel: Kernel, name: str, device: str, *, quick: bool = False) -> Record:
    """One kernel along one axis: seconds and bytes at each size, the sizes in turn."""
    # Freed at once: now glibc keeps blocks up to this size, and their pages.
    torch.empty(31 * 2**20, dtype=torch.uint8)
    axis = kernel.axes[name]
    at = axis.small() if quick else axis.at
    runs = {str(size): kernel.at(name, size, device) for size in at}
    # The first call: what is made once is seen here.
    numbers = [largest(run) for run in runs.values()]
    rounds = 2 if quick else ROUNDS
    least = 0.0 if quick else LEAST
    seconds = alternate(runs, rounds, device, clock=own_clock(), least=least)
    turns = []
    for turn in zip(*seconds.values()):
        turns.append([digits(t, 4) for t in turn])
    still = {**kernel.sizes, **axis.sizes}
    still.pop(name, None)
    return {
        "job": "scaling",
        "case": f"{kernel.name}: {name}",
        "kernel": kernel.name,
        "axis": name,
        "device": device,
        "sizes": still,
        "at": list(at),
        "rounds": rounds,
        "dense": kernel.dense,
        "versions": versions(("torch", "numpy")),
        "seconds": {"ours": turns},
        "peak bytes": [bytes_of(kernel, run, device) for run in runs.values()],
        "largest": numbers,
        "predicted": {"time": axis.time, "memory": axis.memory, "why": axis.why},
    }


def slopes(record: Record) -> dict[str, tuple[float, float, float]]:
    """The slopes of a record: least, median and largest over the rounds for time; one
    number, thrice, for memory.
    """
    at = record["at"]
    turns = record["seconds"]["ours"]
    times = [slope(at, list(map(float, turn))) for turn in turns]
    medians = [statistics.median(ts) for ts in zip(*turns)]
    memory = slope(at, record["peak bytes"])
    return {
        "time": (min(times), slope(at, medians), max(times)),
        "memory": (memory, memory, memory),
    }


def report(record: Record) -> str:
    """One line of Markdown: the slopes, with what was predicted, and the largest
    size.
    """
    at = record["at"]
    predicted = record["predicted"]
    found = slopes(record)
    low, middle, high = found["time"]
    _, memory, _ = found["memory"]
    last = statistics.median(turn[-1] for turn in record["seconds"]["ours"])
    return (
        f"- {record['case']} = {at[0]} to {at[-1]}: "
        f"time slope {middle:.2f} ({low:.2f} to {high:.2f}), "
        f"predicted {_marked(middle, predicted['time'])}; "
        f"memory slope {memory:.2f}, predicted {_marked(memory, predicted['memory'])}; "
        f"at the end {1000 * last:.3g} ms, {record['peak bytes'][-1] / 2**20:.3g} MB, "
        f"largest tensor {record['largest'][-1]:,} numbers"
    )


def _marked(found: float, predicted: float | int) -> str:
    """What was predicted, with a mark where it was missed."""
    off = found - predicted
    if abs(off) <= OFF:
        return f"{predicted:g}"
    side = "above" if off > 0 else "below"
    return f"{predicted:g} ({side})"


def rows(records: Sequence[Record]) -> list[str]:
    """A table in Markdown, a row for each kernel and axis: slopes of time and memory
    beside the predicted ones.
    """
    lines = [
        "| kernel | axis | time (predicted) | memory (predicted) |",
        "| --- | --- | --- | --- |",
    ]
    for record in records:
        if record["job"] != "scaling":
            continue
        cells = [record["kernel"], record["axis"]]
        for what, (_, middle, _) in slopes(record).items():
            cells.append(f"{middle:.2f} ({record['predicted'][what]:g})")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def cases(device: str, quick: bool) -> Cases:
    """What is measured, some minutes of it, quick 15 seconds: every axis of every
    kernel.
    """
    found = {}
    for kernel in KERNELS:
        axes = list(kernel.axes)
        for name in axes[:2] if quick else axes:
            case = f"{kernel.name}: {name}"
            found[case] = partial(measure, kernel, name, device, quick=quick)
    return found
