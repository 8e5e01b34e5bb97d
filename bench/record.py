"""One comparison, as all jobs make it: our run, its peers, floors and limits, in turn;
and how it is printed.

Names of runs: "ours"; "floor ..." does a part of the work that nothing can leave out;
"part ..." are runs that "ours" does together; "limit ..." are the rates of this
machine; whatever else there is, is a peer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor

from attnbook.data.timings import PIECES, Record
from bench.timing import alternate, clock_of, peak_bytes

Cases = dict[str, Callable[[], Record]]  # names, and how each is measured
Runs = dict[str, Callable]
SIDE = {"cpu": 1024, "cuda": 8192}  # of the product of matrices that is the limit
MOVED = {"cpu": 2**25, "cuda": 2**28}  # numbers that are copied
# A kernel that is not torch's own shows no memory to torch's dispatcher.
UNSEEN = ("flex", "compiled")
PACKAGES = (
    "torch",
    "numpy",
    "transformers",
    "local-attention",
    "reformer-pytorch",
)


def compare(
    job: str,
    case: str,
    runs: Runs,
    made: Runs,
    *,
    device: str,
    rounds: int,
    sizes: dict,
    flop: float = 0,
    moved: float = 0,
    truth: tuple[Tensor, ...] | None = None,
    unseen: tuple[str, ...] = (),
    least: float = 0.05,
    scale: Tensor | float = 1.0,
    shown: Callable = lambda found: found,
) -> Record:
    """Everything that is stored of one comparison: samples, bytes, errors, and what was
    not run and why; `made` holds what makes a run.
    """
    good, away = tried(runs, made)
    rates = limits(device) if flop or moved else {}
    timed = dict(good)
    amounts = {}
    for name, (run, amount) in rates.items():
        timed[name] = run
        amounts[name] = amount
    seconds = alternate(timed, rounds, clock_of(device), least=least)
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
        "not run": away,
        "versions": versions(),
    }


def tried(runs: Runs, made: Runs) -> tuple[Runs, dict[str, str]]:
    """All runs that can be timed, each called once, and why the others cannot: what is
    made may fail, as its package or its compiler may be missing.
    """
    good = {}
    away = {}
    for name, run in runs.items():
        run()
        good[name] = run
    for name, make in made.items():
        try:
            run = make()
            run()
            good[name] = run
        except Exception as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            away[name] = f"not run: {reason}"
    return good, away


def limits(device: str) -> dict[str, tuple[Callable, dict[str, float]]]:
    """What this machine can do, to be measured in the same turns: a product of
    matrices, a copy of 128 MB (GPU: 1 GB).
    """
    side = SIDE[device]
    moved = MOVED[device]
    square = torch.ones(side, side, device=device)
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


def versions() -> dict[str, str]:
    """Versions of torch, numpy and what can be a peer."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name).split("+")[0]
        except PackageNotFoundError:
            found[name] = "not here"
    return found
