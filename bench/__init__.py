"""Ratios against peers, in one run, alternating: python -m bench [--job paths
...] [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch

from attnbook.data.timings import Record, ratio, report
from bench.record import Cases, compare  # noqa: F401 (public here)
from bench.timing import alternate, store  # noqa: F401 (public here)

JOBS = {
    "paths": "path_sums",
    "sparse": "sparse",
    "lists": "lists",
    "ids": "ids",
    "verify": "verify",
    "lowrank": "lowrank",
    "scaling": "scaling",
}


def cases(job: str, device: str = "cpu", quick: bool = False) -> Cases:
    """What a job measures."""
    return _module(job).cases(device, quick)


def _module(job: str) -> ModuleType:
    return import_module(f"bench.{JOBS[job]}")


def records(
    jobs: Sequence[str], device: str = "cpu", quick: bool = False
) -> Iterator[Record]:
    """The records of some jobs, as they are measured."""
    for job in jobs:
        for measure in cases(job, device, quick).values():
            yield measure()


def printed(record: Record) -> str:
    """A record in a few lines of Markdown, as its job has it."""
    module = _module(record["job"])
    own_report = getattr(module, "report", report)
    return own_report(record)


def against(new: Sequence[Record], old: Sequence[Record]) -> list[str]:
    """Which ratios have moved since another run, beyond the quartiles of both."""
    before = {_key(record): record for record in old}
    lines = []
    for record in new:
        if _key(record) in before:
            lines += _moved(record, before[_key(record)])
    return lines


def _key(record: Record) -> tuple[str, str, str]:
    """What two records share that can be compared."""
    return record["job"], record["case"], record["device"]


def _moved(record: Record, before: Record) -> list[str]:
    """A line for each peer of a case whose ratio has moved."""
    now = record["seconds"]
    then = before["seconds"]
    lines = []
    for name in now:
        if name == "ours" or name not in then:
            continue
        low, middle, high = ratio(now[name], now["ours"])
        low_0, middle_0, high_0 = ratio(then[name], then["ours"])
        if high < low_0 or low > high_0:
            word = "slower" if middle < middle_0 else "faster"
            lines.append(
                f"- {record['case']}: ours is {word} beside {name}, "
                f"{middle:.3g} times after {middle_0:.3g}"
            )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run jobs and print their ratios; with --json, store raw samples, versions and
    hardware as well.
    """
    options = _options(arguments)
    old = None
    if options.against:
        text = options.against.read_text(encoding="utf-8")
        old = json.loads(text)["result"]
    torch.set_num_threads(1)
    found = []
    lines = []
    for record in records(options.job, options.device, options.quick):
        found.append(record)
        lines.append(printed(record))
        print(lines[-1], end="\n\n", flush=True)
    if old is not None:
        moved = against(found, old) or ["- nothing"]
        lines.append("\n".join(["### Moved since", *moved]))
        print(lines[-1])
    if options.json:
        about = {**_about(options.device), "jobs": options.job}
        store({"about": about, "result": found}, options.json)
    if options.markdown:
        options.markdown.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Run jobs and print their ratios; with --json, store raw samples, "
        "versions and hardware as well.",
    )
    parser.add_argument("--job", nargs="+", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument(
        "--quick", action="store_true", help="small sizes and no compiler: two minutes"
    )
    parser.add_argument("--json", type=Path, help="store the samples here")
    parser.add_argument("--markdown", type=Path, help="store what is printed here")
    parser.add_argument(
        "--against", type=Path, help="a stored run: say which ratios have moved"
    )
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("no CUDA device here: leave out --device cuda")
    return options


def _about(device: str) -> dict[str, str | int]:
    """Where the numbers come from."""
    on_gpu = device == "cuda"
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": 1,
        "hardware": torch.cuda.get_device_name() if on_gpu else platform.machine(),
    }
