"""One comparison, as all jobs make it: our run, its peers, floors and limits, in turn;
and how it is printed.

Names of runs: "ours"; "floor ..." does a part of the work that nothing can leave out;
"part ..." are runs that "ours" does together; "limit ..." are the rates of this
machine; whatever else there is, is a peer.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor

from attnlib.bench.timing import alternate, peak_bytes, ratio

Record = dict[str, Any]
SIDE = {"cpu": 1024, "cuda": 8192}  # of the product of matrices that is the limit
MOVED = {"cpu": 2**25, "cuda": 2**28}  # numbers that are copied
UNSEEN = (
    "flex",
    "compiled",
    "KeOps",
)  # a kernel that is not torch's own shows no memory to torch's dispatcher
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
    runs: dict[str, Callable | str],
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
    good, away = called({name: run for name, run in runs.items() if callable(run)})
    away = {**{name: run for name, run in runs.items() if isinstance(run, str)}, **away}
    rates = limits(device, dtype) if flop or moved else {}
    clock = (
        time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    )  # one thread: its own time is its work
    seconds = alternate(
        {**good, **{name: run for name, (run, _) in rates.items()}},
        rounds,
        device,
        clock=clock,
        least=least,
    )
    hidden = ("part", "floor", *((*UNSEEN, *unseen) if device == "cpu" else ()))
    seen = [name for name in good if not name.startswith(hidden)]
    judged = [
        name
        for name in good
        if truth is not None and not name.startswith(("part", "floor"))
    ]
    return {
        "job": job,
        "case": case,
        "device": device,
        "sizes": sizes,
        "rounds": rounds,
        "flop": flop,
        "bytes": moved,
        "limits": {name: amount for name, (_, amount) in rates.items()},
        "seconds": {
            name: [float(f"{t:.4g}") for t in ts] for name, ts in seconds.items()
        },  # four digits are more than a time has
        "peak bytes": {name: peak_bytes(good[name], device) for name in seen},
        "worst error": {
            name: float(f"{worst(shown(good[name]()), truth, scale):.3g}")
            for name in judged
        },
        "not run": away,
        "versions": versions(),
    }


def called(runs: dict[str, Callable]) -> tuple[dict[str, Callable], dict[str, str]]:
    """Each run called once: those that can be timed, and those that fail, by the name
    of their error.
    """
    good, away = {}, {}
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
    side, moved = SIDE[device], MOVED[device]
    square, long = (
        torch.ones(side, side, dtype=dtype, device=device),
        torch.zeros(moved, device=device),
    )
    into, product = torch.empty_like(long), torch.empty_like(square)
    return {
        "limit matmul": (
            lambda: torch.mm(square, square, out=product),
            {"flop": 2.0 * side**3},
        ),
        "limit copy": (lambda: into.copy_(long), {"bytes": 8.0 * moved}),
    }


def worst(
    found: Tensor | tuple[Tensor, ...],
    truth: tuple[Tensor, ...],
    scale: Tensor | float = 1.0,
) -> float:
    """The largest difference between what a run returned and the truth."""
    pairs = zip(found if isinstance(found, tuple) else (found,), truth, strict=True)
    return max(float(((a.detach().double() - b).abs() / scale).max()) for a, b in pairs)


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
    return [
        name
        for name in record["seconds"]
        if name != "ours" and not name.startswith(("floor", "part", "limit"))
    ]


def share(record: Record, what: str) -> tuple[float, float, float]:
    """Which share of the machine's rate our run reaches: operations or bytes a second
    over those of the limit.
    """
    limit = {"flop": "limit matmul", "bytes": "limit copy"}[what]
    alike = record[what] / record["limits"][limit][what]
    return tuple(
        alike * q for q in ratio(record["seconds"][limit], record["seconds"]["ours"])
    )


def parts(record: Record) -> list[float]:
    """The seconds of all parts together, an entry a round."""
    return [
        sum(turn)
        for turn in zip(
            *(ts for name, ts in record["seconds"].items() if name.startswith("part"))
        )
    ]


def report(record: Record) -> str:
    """A few lines of Markdown: how many times as long each peer takes, medians,
    quartiles in brackets.
    """
    seconds, ours = record["seconds"], record["seconds"]["ours"]
    mb = {name: size / 2**20 for name, size in record["peak bytes"].items()}
    own = [
        f"{1000 * statistics.median(ours):.3g} ms",
        *([f"{mb['ours']:.3g} MB"] if "ours" in mb else []),
    ]
    own += (
        [f"worst error {record['worst error']['ours']:.1e}"]
        if record["worst error"]
        else []
    )
    lines = [f"### {record['case']}: {', '.join(own)}"]
    for name in peers(record):
        low, middle, high = ratio(seconds[name], ours)
        more = [f"memory {mb[name]:.3g} MB"] if name in mb else []
        more += (
            [f"error {record['worst error'][name]:.1e}"]
            if name in record["worst error"]
            else []
        )
        lines.append(
            "; ".join(
                [f"- {name} / ours: {middle:.3g} ({low:.3g} to {high:.3g})", *more]
            )
        )
    for name in (name for name in seconds if name.startswith("floor")):
        low, middle, high = ratio(ours, seconds[name])
        lines.append(
            f"- ours / {name.removeprefix('floor ')}: {middle:.3g} ({low:.3g} to {high:.3g})"
        )
    if together := parts(record):
        lines.append(f"- ours / sum of its parts: {ratio(ours, together)[1]:.3g}")
    for what, words in (
        ("flop", "FLOPs at {:.0f}% of the rate of a matrix product"),
        ("bytes", "bytes at {:.0f}% of the rate of a copy"),
    ):
        if record[what]:
            lines.append("- useful " + words.format(100 * share(record, what)[1]))
    lines += [f"- {name}: {why}" for name, why in record["not run"].items()]
    return "\n".join(lines)
