"""Ratios against peers, in one run, alternating: python -m attnlib.bench [--job paths
...] [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

import torch

from attnlib.bench.record import Record, compare, report  # noqa: F401 (public here)
from attnlib.bench.timing import alternate, ratio, store  # noqa: F401 (public here)

JOBS = {
    "paths": "path_sums",
    "sparse": "sparse",
    "lists": "lists",
    "ids": "ids",
    "verify": "verify",
    "lowrank": "lowrank",
    "scaling": "scaling",
}


def cases(
    job: str, device: str = "cpu", quick: bool = False
) -> dict[str, Callable[[], Record]]:
    """What a job measures."""
    return import_module(f"attnlib.bench.{JOBS[job]}").cases(device, quick)


def records(
    jobs: Sequence[str], device: str = "cpu", quick: bool = False
) -> Iterator[Record]:
    """The records of some jobs, as they are measured."""
    for job in jobs:
        yield from (measure() for measure in cases(job, device, quick).values())


def printed(record: Record) -> str:
    """A record in a few lines of Markdown, as its job has it."""
    return getattr(
        import_module(f"attnlib.bench.{JOBS[record['job']]}"), "report", report
    )(record)


def against(new: Sequence[Record], old: Sequence[Record]) -> list[str]:
    """Which ratios have moved since another run, beyond the quartiles of both."""

    def key(record):
        return (record["job"], record["case"], record["device"])

    before, lines = {key(record): record for record in old}, []
    for record in (record for record in new if key(record) in before):
        then = before[key(record)]["seconds"]
        for name in [
            name for name in record["seconds"] if name != "ours" and name in then
        ]:
            low, middle, high = ratio(
                record["seconds"][name], record["seconds"]["ours"]
            )
            low_0, middle_0, high_0 = ratio(then[name], then["ours"])
            if high < low_0 or low > high_0:
                word = "slower" if middle < middle_0 else "faster"
                lines.append(
                    f"- {record['case']}: ours is {word} beside {name}, {middle:.3g} times after {middle_0:.3g}"
                )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run jobs and print their ratios; with --json, store raw samples, versions and
    hardware as well.
    """
    parser = argparse.ArgumentParser(
        prog="python -m attnlib.bench", description=main.__doc__.splitlines()[0]
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
    old = (
        json.loads(options.against.read_text(encoding="utf-8"))["result"]
        if options.against
        else None
    )
    torch.set_num_threads(1)
    found, lines = [], []
    for record in records(options.job, options.device, options.quick):
        found.append(record)
        lines.append(printed(record))
        print(lines[-1], end="\n\n", flush=True)
    if old is not None:
        lines.append(
            "\n".join(["### Moved since", *(against(found, old) or ["- nothing"])])
        )
        print(lines[-1])
    if options.json:
        hardware = (
            torch.cuda.get_device_name()
            if options.device == "cuda"
            else platform.machine()
        )
        about = {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "threads": 1,
            "hardware": hardware,
        }
        store({"about": {**about, "jobs": options.job}, "result": found}, options.json)
    if options.markdown:
        options.markdown.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return 0
