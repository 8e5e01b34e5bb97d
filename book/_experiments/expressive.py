"""Smallest dimensions of interpolated and plain projections, runs at 2^16 tokens, and
ratios to the matrix product.

    python book/_experiments/expressive.py [ratios large interpolated plain]

All parts take about ten minutes on one thread. Parts that are not named are kept as
they were stored.
"""

from __future__ import annotations

import math
import statistics
import sys
import time

import store
import torch

from attnbook.data import load_result
from attnlib.expressive import Code, Exhausted, fit, verify
from attnlib.expressive.dimensions import plain_dimension, predicted_dimension

EPS1, EPS2, GAMMA = 0.1, 0.5, 4.0
T = -math.log(EPS1)


def pattern(n: int, k: int, generator: torch.Generator) -> torch.Tensor:
    """k entries in each row and column: distinct shifts of a relabelled cycle."""
    rows, names = (
        torch.randperm(n, generator=generator),
        torch.randperm(n, generator=generator),
    )
    shifts = torch.randperm(n, generator=generator)[:k]
    return names[(rows[:, None] + shifts) % n]


def smallest_dimension(
    columns: torch.Tensor,
    log_weights: torch.Tensor | None = None,
    *,
    restarts: int,
    most: int | None = None,
    precision: float = 0.01,
    **how,
) -> int:
    """The smallest dimension at which one of a few draws passes, by bisection up to
    `most`, or n; success is random and not monotone. The protocol of the papers'
    simulation in words, with bisection in place of a grid.
    """

    def passes(d: int) -> bool:
        """Whether one of a few draws in d dimensions does."""
        try:
            fit(columns, log_weights, d=d, restarts=restarts, **how)
        except Exhausted:
            return False
        return True

    low = columns.shape[1] - 1
    high = most or len(columns)
    while high - low > max(1, precision * high):
        if high > 2 * low + 2:  # far apart: halve the ratio, not the difference
            d = round(math.sqrt(max(low, 1) * high))
        else:
            d = (low + high) // 2
        if passes(d):
            high = d
        else:
            low = d
    return high


def interpolated(g: torch.Generator) -> list[dict]:
    """gamma = 1: the smallest d over n for four settings."""
    found = []
    for k, level in ((1, 2), (1, 4), (2, 4), (4, 4)):
        sizes = [2**i for i in range(6, 13)]
        measured = [
            smallest_dimension(
                pattern(n, k, g),
                eps1=EPS1,
                eps2=EPS2,
                s=level * T,
                generator=g,
                restarts=4,
            )
            for n in sizes
        ]
        predicted = [predicted_dimension(n, k, eps1=EPS1, s=level * T) for n in sizes]
        found.append(
            {
                "k": k,
                "level": level,
                "n": sizes,
                "measured": measured,
                "predicted": predicted,
            }
        )
        print(found[-1], flush=True)
    return found


def plain(g: torch.Generator) -> list[dict]:
    """gamma = 4, sign keys: the smallest d of the plain projection, and what the
    theorem asks for.
    """
    found = []
    for k in (1, 2, 4):
        sizes, measured = [64, 256, 1024], []
        for n in sizes:
            w = torch.rand(n, k, generator=g) * math.log(GAMMA)
            asked = plain_dimension(n, k, gamma=GAMMA, eps1=EPS1, eps2=EPS2)
            measured.append(
                smallest_dimension(
                    pattern(n, k, g),
                    w,
                    eps1=EPS1,
                    eps2=EPS2,
                    method="plain",
                    keys="signs",
                    generator=g,
                    restarts=4 if n < 1024 else 2,
                    most=asked,
                    precision=0.03,
                )
            )
        found.append({"k": k, "n": sizes, "measured": measured})
        print(found[-1], flush=True)
    return found


def large(g: torch.Generator) -> dict:
    """2^16 tokens: d below, at and above the predictor with two draws each, and a run
    from pattern to report.
    """
    n = 2**16
    columns, tried = pattern(n, 1, g), {}
    predicted = predicted_dimension(n, 1, eps1=EPS1, s=2 * T)
    for d in (predicted - 12, predicted - 6, predicted, predicted + 6):
        try:
            fit(
                columns,
                d=d,
                eps1=EPS1,
                eps2=EPS2,
                s=2 * T,
                generator=g,
                restarts=2,
            )
            tried[str(d)] = True
        except Exhausted:
            tried[str(d)] = False
        print(d, tried[str(d)], flush=True)
    began = time.process_time()
    code = fit(columns, eps1=EPS1, eps2=EPS2, method="integer", generator=g)
    report = verify(code, columns)
    spent = time.process_time() - began
    return {
        "n": n,
        "predicted": predicted,
        "passed": tried,
        "integer": {
            "d": code.q.shape[1],
            "margin": report.margin,
            "cpu_seconds": round(spent, 1),
            "passed": report.passed,
            "share_of_n2_floats": report.peak_bytes / (4 * n * n),
        },
    }


def ratios(g: torch.Generator, rounds: int = 5) -> dict:
    """CPU time of verify over the bare matrix product in tiles, n = 32768, d = 128, k =
    4; in turn.
    """
    n, d, k = 2**15, 128, 4
    columns = pattern(n, k, g)
    real = Code(
        torch.randn(n, d, generator=g) / 16, torch.randn(n, d, generator=g), EPS1, EPS2
    )
    signs = torch.randint(0, 2, (n, d), generator=g, dtype=torch.int8) * 2 - 1
    whole = Code(sum(signs[c] for c in columns.T), signs, EPS1, EPS2, 0.1)
    buffer = torch.empty(256, 2048)

    def gemm():
        for i in range(0, n, 256):
            for j in range(0, n, 2048):
                torch.mm(real.q[i : i + 256], real.k[j : j + 2048].T, out=buffer)

    def by_rows():
        for i in range(0, n, 256):
            torch.logsumexp(real.q[i : i + 256] @ real.k.T, 1)

    runs = {
        "gemm": gemm,
        "float": lambda: verify(real, columns),
        "rows": by_rows,
        "integer": lambda: verify(whole, columns),
    }
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.process_time()
            run()
            taken[name].append(time.process_time() - began)
    over = {
        name: statistics.median(a / b for a, b in zip(taken[name], taken["gemm"]))
        for name in runs
        if name != "gemm"
    }
    return {
        "n": n,
        "d": d,
        "k": k,
        "over_gemm": over,
        "share_of_n2_floats": runs["float"]().peak_bytes / (4 * n * n),
    }


PARTS = {"ratios": ratios, "large": large, "interpolated": interpolated, "plain": plain}


def main() -> None:
    torch.set_num_threads(1)
    began, named = time.perf_counter(), sys.argv[1:] or list(PARTS)
    kept = (
        load_result("expressive")
        if len(named) < len(PARTS)
        else {"about": {"seconds": 0}, "result": {}}
    )
    result = kept["result"]
    for name in named:
        result[name] = PARTS[name](
            torch.Generator().manual_seed(list(PARTS).index(name))
        )
        print(name, result[name], flush=True)
    settings = {
        "eps1": EPS1,
        "eps2": EPS2,
        "gamma of plain": GAMMA,
        "seed": "the number of the part, from 0",
    }
    seconds = time.perf_counter() - began + kept["about"]["seconds"]
    print(store.write("expressive", result, settings=settings, seconds=seconds))


if __name__ == "__main__":
    main()
