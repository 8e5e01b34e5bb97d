"""One comparison, as all jobs make it: our run, its peers, floors and limits, in turn;
and how it is printed.

Names of runs: "ours"; "floor ..." does a part of the work that nothing can leave out;
"part ..." are runs that "ours" does together; "limit ..." are the rates of this
machine; whatever else there is, is a peer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor

from attnbook.data.timings import PIECES, Record
from bench.timing import alternate, own_clock, peak_bytes

Cases = dict[str, Callable[[], Record]]  # names, and how each is measured
Runs = dict[str, Callable | str]  # names, and each run, or why it is not run
SIDE = {"cpu": 1024, "cuda": 8192}  # of the product of matrices that is the limit
MOVED = {"cpu": 2**25, "cuda": 2**28}  # numbers that are copied
# A kernel that is not torch's own shows no memory to torch's dispatcher.
UNSEEN = ("flex", "compiled", "KeOps")
PACKAGES = (
    "torch",
    "numpy",
    "transformers",
    "local-attention",
    "linformer",
    "reformer-pytorch",
    "pykeops",
)


def compare(
    job: str,
    case: str,
    runs: Runs,
    *,
    device: str,
    rounds: int,
    sizes: dict,
    flop: float | int = 0,
    moved: float | int = 0,
    truth: tuple[Tensor, ...] | None = None,
    unseen: tuple[str, ...] = (),
    least: float | int = 0.05,
    dtype: torch.dtype = torch.float32,
    scale: Tensor | float = 1.0,
    shown: Callable = lambda found: found,
) -> Record:
    """Everything that is stored of one comparison: samples, bytes, errors, and what was
    not run and why.
    """
    absent = {name: why for name, why in runs.items() if isinstance(why, str)}
    there = {name: run for name, run in runs.items() if callable(run)}
    good, failed = called(there)

    rates = limits(device, dtype) if flop or moved else {}
    timed = dict(good)
    amounts = {}
    for name, (run, amount) in rates.items():
        timed[name] = run
        amounts[name] = amount
    seconds = alternate(timed, rounds, device, clock=own_clock(), least=least)
    for name, turns in seconds.items():
        # Four digits are more than a time has.
        seconds[name] = [digits(t, 4) for t in turns]

    unseen = (*UNSEEN, *unseen) if device == "cpu" else ()
    whole = {name: run for name, run in good.items() if not name.startswith(PIECES)}
    peaks = {}
    for name, run in whole.items():
        if not name.startswith(unseen):
            peaks[name] = peak_bytes(run, device)
    errors = {}
    if truth is not None:
        for name, run in whole.items():
            errors[name] = digits(worst(shown(run()), truth, scale), 3)

    return {
        "job": job,
        "case": case,
        "device": device,
        "sizes": sizes,
        "rounds": rounds,
        "flop": flop,
        "bytes": moved,
        "limits": amounts,
        "seconds": seconds,
        "peak bytes": peaks,
        "worst error": errors,
        "not run": absent | failed,
        "versions": versions(),
    }


def called(runs: dict[str, Callable]) -> tuple[dict[str, Callable], dict[str, str]]:
    """Each run called once: those that can be timed, and those that fail, by the name
    of their error.
    """
    good = {}
    away = {}
    for name, run in runs.items():
        try:
            run()
            good[name] = run
        except Exception as error:
            if name == "ours":
                raise
            away[name] = f"not run: {type(error).__name__}"
    return good, away


def limits(
    device: str, dtype: torch.dtype = torch.float32
) -> dict[str, tuple[Callable, dict[str, float]]]:
    """What this machine can do, to be measured in the same turns: a product of
    matrices, a copy of 128 MB (GPU: 1 GB).
    """
    side = SIDE[device]
    moved = MOVED[device]
    square = torch.ones(side, side, dtype=dtype, device=device)
    product = torch.empty_like(square)
    long = torch.zeros(moved, device=device)
    into = torch.empty_like(long)
    multiply = partial(torch.mm, square, square, out=product)
    copy = partial(into.copy_, long)
    return {
        "limit matmul": (multiply, {"flop": 2.0 * side**3}),
        "limit copy": (copy, {"bytes": 8.0 * moved}),
    }


def digits(x: float, count: int) -> float:
    """A number to so many digits."""
    return float(f"{x:.{count}g}")


def worst(
    found: Tensor | tuple[Tensor, ...],
    truth: tuple[Tensor, ...],
    scale: Tensor | float = 1.0,
) -> float:
    """The largest difference between what a run returned and the truth."""
    if not isinstance(found, tuple):
        found = (found,)
    largest = []
    for a, b in zip(found, truth, strict=True):
        differences = (a.detach().double() - b).abs() / scale
        largest.append(float(differences.max()))
    return max(largest)


def versions(names: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of torch, numpy and what can be a peer."""
    found = {}
    for name in names:
        try:
            found[name] = version(name).split("+")[0]
        except PackageNotFoundError:
            found[name] = "not here"
    return found
