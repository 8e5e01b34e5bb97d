"""One comparison, as all jobs make it: our run, its peers, floors and limits, in turn;
and how it is printed.

Names of runs: "ours"; "floor ..." does a part of the work that nothing can leave out;
"part ..." are runs that "ours" does together; "limit ..." are the rates of this
machine; whatever else there is, is a peer.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor

from attnlib.bench.timing import Quartiles, alternate, own_clock, peak_bytes, ratio

Record = dict[str, Any]
Cases = dict[str, Callable[[], Record]]  # names, and how each is measured
Runs = dict[str, Callable | str]  # names, and each run, or why it is not run
SIDE = {"cpu": 1024, "cuda": 8192}  # of the product of matrices that is the limit
MOVED = {"cpu": 2**25, "cuda": 2**28}  # numbers that are copied
# A kernel that is not torch's own shows no memory to torch's dispatcher.
UNSEEN = ("flex", "compiled", "KeOps")
PIECES = ("part", "floor")  # runs that do less than "ours" does
RATES = {
    "flop": "FLOPs at {:.0f}% of the rate of a matrix product",
    "bytes": "bytes at {:.0f}% of the rate of a copy",
}
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


def peers(record: Record) -> list[str]:
    """The names of the peers that ran."""
    beside = [name for name in record["seconds"] if name != "ours"]
    return [name for name in beside if not name.startswith(("limit", *PIECES))]


def share(record: Record, what: str) -> Quartiles:
    """Which share of the machine's rate our run reaches: operations or bytes a second
    over those of the limit.
    """
    limit = {"flop": "limit matmul", "bytes": "limit copy"}[what]
    seconds = record["seconds"]
    alike = record[what] / record["limits"][limit][what]
    return tuple(alike * q for q in ratio(seconds[limit], seconds["ours"]))


def parts(record: Record) -> list[float]:
    """The seconds of all parts together, an entry a round."""
    seconds = record["seconds"]
    each = [seconds[name] for name in seconds if name.startswith("part")]
    return [sum(turn) for turn in zip(*each)]


def report(record: Record) -> str:
    """A few lines of Markdown: how many times as long each peer takes, medians,
    quartiles in brackets.
    """
    seconds = record["seconds"]
    ours = seconds["ours"]
    lines = [_headline(record)]
    for name in peers(record):
        lines.append(_peer_line(record, name))
    for name in seconds:
        if name.startswith("floor"):
            under = name.removeprefix("floor ")
            lines.append(f"- ours / {under}: {_spread(ratio(ours, seconds[name]))}")
    if together := parts(record):
        _, middle, _ = ratio(ours, together)
        lines.append(f"- ours / sum of its parts: {middle:.3g}")
    for what, words in RATES.items():
        if record[what]:
            _, middle, _ = share(record, what)
            lines.append(f"- useful {words.format(100 * middle)}")
    for name, why in record["not run"].items():
        lines.append(f"- {name}: {why}")
    return "\n".join(lines)


def _headline(record: Record) -> str:
    """The case, with our time, memory and error."""
    middle = statistics.median(record["seconds"]["ours"])
    own = [f"{1000 * middle:.3g} ms"]
    if "ours" in record["peak bytes"]:
        own.append(f"{_mb(record, 'ours')} MB")
    if record["worst error"]:
        own.append(f"worst error {record['worst error']['ours']:.1e}")
    return f"### {record['case']}: {', '.join(own)}"


def _peer_line(record: Record, name: str) -> str:
    """How many times our time a peer takes, with its memory and error."""
    seconds = record["seconds"]
    times = ratio(seconds[name], seconds["ours"])
    said = [f"- {name} / ours: {_spread(times)}"]
    if name in record["peak bytes"]:
        said.append(f"memory {_mb(record, name)} MB")
    if name in record["worst error"]:
        said.append(f"error {record['worst error'][name]:.1e}")
    return "; ".join(said)


def _spread(quartiles: Quartiles) -> str:
    low, middle, high = quartiles
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def _mb(record: Record, name: str) -> str:
    size = record["peak bytes"][name] / 2**20
    return f"{size:.3g}"
