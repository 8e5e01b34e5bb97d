"""Jobs of bench, kept whole: bench_<job>.json.

    python book/_experiments/bench_jobs.py [job ...] [--quick]

Without names all jobs run, one after another, minutes each. One thread; CPU times of
the process, in turn. The load of the machine before and after stands in the settings:
times of a busy machine are no measure, and no claim rests on any. Peers that are not
installed are named as not run. Goals and what they were measured at are printed at the
end.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import store
import torch

sys.path.insert(0, str(store.ROOT))
from bench import JOBS, goals, records  # noqa: E402
from bench.tables import job_table  # noqa: E402


def run(job: str, quick: bool) -> list[dict]:
    """The records of one job, printed as they come, and stored."""
    began, load = time.time(), round(os.getloadavg()[0], 2)
    code = (
        store.commit()
    )  # before the run: what is committed while it runs is not what was measured
    found = list(records(job, quick=quick))
    print(job_table(found), flush=True)
    loads = {"load before": load, "load after": round(os.getloadavg()[0], 2)}
    settings = {"device": "cpu", "quick": quick, **loads, "code": code}
    where = {"folder": store.ROOT / "_build"} if quick else {}
    seconds = time.time() - began
    file = store.write(
        f"bench_{job}", found, settings=settings, seconds=seconds, **where
    )
    print(file)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "jobs", nargs="*", metavar="job", help=f"of {', '.join(JOBS)}; none means all"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes, nothing compiled, stored in _build",
    )
    options = parser.parse_args()
    if unknown := set(options.jobs) - set(JOBS):
        parser.error(
            f"no job {', '.join(sorted(unknown))}: there are {', '.join(JOBS)}"
        )
    torch.set_num_threads(1)
    found = [
        record for job in options.jobs or JOBS for record in run(job, options.quick)
    ]
    jobs = {record["job"] for record in found}
    mine = [goal for goal in goals.GOALS if goal.job in jobs]
    for judged in goals.judge(found, mine):
        value = "" if judged.figure is None else f" {judged.figure[1]:.3g}"
        print(
            f"goal {judged.goal.number}, {judged.goal.words}: "
            f"{judged.word}{value}, target {judged.goal.target}"
        )


if __name__ == "__main__":
    main()
