"""Ratios against peers, in one run, alternating:  python -m attnlib.bench [--job paths] [--quick] [--json FILE]"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import torch

from attnlib.bench.path_sums import (  # noqa: F401 (public here)
    QUICK, WORKLOADS, Workload, given_forward, measure, one_by_one, prefix_tree, report,
)
from attnlib.bench.timing import alternate, store  # noqa: F401 (public here)

JOBS = {"paths": "path_sums", "sparse": "sparse"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one job and print its ratios; with --json, store raw samples, versions and hardware as well.

    Args:    arguments: words of the command line, None for those of the process.
    Returns: the exit status, 0.
    Raises:  ValueError if --device cuda is asked for where there is none.
    Cost:    a minute or a few; --quick seconds.
    Source:  see each peer.
    Page:    notebooks/path_decomposition/paths
    """
    parser = argparse.ArgumentParser(prog="python -m attnlib.bench", description=main.__doc__.splitlines()[0])
    parser.add_argument("--job", default="paths", choices=list(JOBS))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--json", type=Path, help="store the samples here")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("no CUDA device here: leave out --device cuda")
    torch.set_num_threads(1)
    job, results = import_module(f"attnlib.bench.{JOBS[options.job]}"), []
    for result in job.run(options.device, options.quick):
        results.append(result)
        print(job.report(result), flush=True)
    if options.json:
        hardware = torch.cuda.get_device_name() if options.device == "cuda" else platform.machine()
        about = {"torch": torch.__version__, "python": platform.python_version(), "threads": 1, "hardware": hardware}
        store({"about": {**about, "job": options.job}, "results": results}, options.json)
    return 0
