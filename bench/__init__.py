"""Ratios against peers, in one run, alternating: python -m bench [--job paths
...] [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

import torch

from attnbook.data.timings import Record, ratio
from bench.record import Cases
from bench.tables import job_table

JOBS = ("paths", "sparse", "lists", "ids", "verify", "lowrank", "scaling")


def cases(job: str, device: str = "cpu", quick: bool = False) -> Cases:
    """What a job measures."""
    return import_module(f"bench.{job}").cases(device, quick)


def records(job: str, device: str = "cpu", quick: bool = False) -> Iterator[Record]:
    """The records of a job, as they are measured."""
    for case, measure in cases(job, device, quick).items():
        print(f"{job}: {case}", file=sys.stderr)
        yield measure()


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
    """Run jobs and print their tables; with --json, store raw samples, versions and
    hardware as well.
    """
    options = _options(arguments)
    old = []
    if options.against:
        old = json.loads(options.against.read_text(encoding="utf-8"))["result"]
    torch.set_num_threads(1)
    found = []
    for job in options.job:
        own = list(records(job, options.device, options.quick))
        print(f"## {job}\n\n{job_table(own)}\n", flush=True)
        found += own
    if options.against:
        print("## Moved since", *against(found, old) or ["- nothing"], sep="\n")
    if options.json:
        content = {"about": _about(options), "result": found}
        options.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Run jobs and print their tables; with --json, store raw samples, "
        "versions and hardware as well.",
    )
    parser.add_argument("--job", nargs="+", default=JOBS, choices=JOBS)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument(
        "--quick", action="store_true", help="small sizes and no compiler: two minutes"
    )
    parser.add_argument("--json", type=Path, help="store the samples here")
    parser.add_argument(
        "--against", type=Path, help="a stored run: say which ratios have moved"
    )
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("no CUDA device here: leave out --device cuda")
    return options


def _about(options: argparse.Namespace) -> dict:
    """Where the numbers come from."""
    on_gpu = options.device == "cuda"
    return {
        "jobs": list(options.job),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": 1,
        "hardware": torch.cuda.get_device_name() if on_gpu else platform.machine(),
    }
