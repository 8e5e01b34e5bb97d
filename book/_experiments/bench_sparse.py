"""How long sparse_attention takes beside its peers on one CPU thread: the job `sparse` of attnlib.bench, kept whole.

    python book/_experiments/bench_sparse.py [--quick]

Prediction, from prototypes: a window of 129 among 8,192 tokens 2.2 times as fast as the kernels of Longformer and
local-attention, and level with compiled flex attention; forward and backward 35 times as fast as SDPA with a mask;
BigBird by blocks at 80 to 92% of 1/density; a union within 1.15 of the sum of its parts.

Peers that are not installed are named as not run. Times are CPU times of the process, in turn; no claim rests on them.
"""

from __future__ import annotations

import argparse
import os
import time

import store
import torch

from attnlib.bench import sparse


def main(quick: bool) -> None:
    torch.set_num_threads(1)
    began, load, results = time.time(), round(os.getloadavg()[0], 2), []
    code = store.commit()  # before the run: what is committed while it runs is not what was measured
    for result in sparse.run("cpu", quick):
        print(sparse.report(result), flush=True)
        results.append(result)
    settings = {"rounds": results[0]["rounds"], "heads": sparse.HEADS, "d": sparse.D, "dtype": "float32", "load": load, "code": code}
    if not quick:
        store.write("bench_sparse", rounded(results), settings=settings, seconds=time.time() - began)


def rounded(results: list[dict]) -> list[dict]:
    """Four digits are more than a time has."""
    four = lambda x: float(f"{x:.4g}")
    return [{**r, "seconds": {name: [four(t) for t in ts] for name, ts in r["seconds"].items()},
             "worst error": {name: four(e) for name, e in r["worst error"].items()}} for r in results]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    main(parser.parse_args().quick)
