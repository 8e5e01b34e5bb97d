"""Time, memory and error of every row of the complexity table.

    python book/_experiments/complexity.py [--quick] [--device cuda]

It writes complexity.json, and with --device cuda complexity_cuda.json, which has no
accuracy: that is of no device. Rows take turns, batch 1, 4 heads of width 64, float32,
forward, on one CPU thread; a quick run is stored in _build.

Time: quartiles of that thread's time, and the mean of the system's part of it. glibc's
thresholds are raised before the run, for a kernel that gives its memory back at every
call pays for fresh pages at every call. (Before glibc 2.35 blocks above 32 MiB pay all
the same.) On a GPU: between two events, TF32 off.
Load: average over a minute, before and after the table; times of a loaded machine are
no measure.

Kernels alone: maps that make queries, keys and values are in no row, and the GRU reads
an input one wide. They are a row of their own, projections: four of 256 x 256. The
causal form of fused dense attention is the fair reference for causal rows; its FLOPs
are counted in full.

Memory: most bytes alive at once beside the inputs, counted operation by operation; on a
GPU by its allocator. Error: against dense attention on queries, keys and values of the
small model that ships with the package. Public implementation of LSH: run only where
the package reformer_pytorch can be imported.
"""

from __future__ import annotations

import math
import os
import resource
import statistics
import sys
import time
from functools import partial
from typing import NamedTuple

import store
import torch
from torch.nn import functional as F

from attnlib import patterns
from attnlib.audit.tiny import attention_heads, load_tiny_model
from attnlib.efficient import (
    delta_attention,
    flops,
    gated_linear_attention,
    linear_attention,
    lsh_attention,
    performer_attention,
    selective_scan,
)
from attnlib.lowrank import linformer_attention, nystrom_attention
from attnlib.patterns import Blocks, Columns, build
from attnlib.sparse import masked_attention, sparse_attention

sys.path.insert(0, str(store.ROOT))  # bench is not installed
from bench.sparse import big_bird  # noqa: E402
from bench.timing import peak_bytes  # noqa: E402

HEADS, D, ROUNDS = 4, 64, 7
WIDTH = HEADS * D
BLOCK = 32  # of BigBird
STATES = 16  # a channel of the scan
THRESHOLDS = {
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "MALLOC_TRIM_THRESHOLD_": str(2**33),
}


def factored(b: int) -> tuple[int, ...]:
    """b, a power of two, as two even factors near its root."""
    first = 2 ** max(1, round(math.log2(b) / 2))
    return (first, b // first) if b >= 4 else (b,)


def strided(n: int, l: int) -> patterns.Pattern:
    """The last l keys and every l-th, the past alone."""
    both = patterns.one_step(patterns.strided(n, l, reach=l))
    return patterns.causal(both)


def fixed(n: int, l: int, c: int = 1) -> patterns.Pattern:
    """The own block and the last c tokens of each block, the past alone."""
    ends = [j for j in range(n) if j % l >= l - c]
    return patterns.causal(build(n, [Blocks(l), Columns(tuple(ends))]))


def tile(w: int) -> int:
    """Queries of a tile: a window so thin goes entry by entry."""
    return 32 if w >= 32 else 1


def drawer(n: int, device: str):
    """What draws Gaussian tensors, and its generator."""
    g = torch.Generator(device).manual_seed(n)

    def draw(*size):
        return torch.randn(*size, generator=g, device=device)

    return draw, g


def rows(n: int, device: str = "cpu") -> dict:
    """name -> (call, FLOPs of all heads)."""
    draw, g = drawer(n, device)
    q, k, v = (draw(1, HEADS, n, D) for _ in range(3))
    e = draw(128, n) / math.sqrt(128)
    l = 2 ** math.ceil(math.log2(n) / 2)
    b = factored(n // 64)
    blocks = big_bird(n, BLOCK, generator=torch.Generator().manual_seed(n))

    def many(*row, **sizes):
        return HEADS * flops(*row, **sizes)

    def sparse(pattern):
        return partial(sparse_attention, q, k, v, pattern, check=False)

    def lsh(r):
        return lambda: lsh_attention(
            q, v, buckets=b, rounds=r, generator=g, check=False
        )

    def nystrom(**how):
        return partial(nystrom_attention, q, k, v, 64, check=False, **how)

    return {
        "dense (SDPA)": (
            lambda: F.scaled_dot_product_attention(q, k, v),
            many("dense", n, D),
        ),
        "dense (SDPA), causal": (
            lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            many("dense", n, D),
        ),
        "dense (naive)": (lambda: masked_attention(q, k, v), many("dense", n, D)),
        "strided": (
            sparse(strided(n, l)),
            many("strided", n, D, l=l, tile=tile(l)),
        ),
        "fixed": (
            sparse(fixed(n, l)),
            many("fixed", n, D, l=l),
        ),
        "LSH, 1 round": (lsh(1), many("lsh", n, D, b=sum(b))),
        "LSH, 4 rounds": (lsh(4), many("lsh", n, D, b=sum(b), r=4)),
        "Linformer, 128": (
            lambda: linformer_attention(q, k, v, e, e, check=False),
            many("linformer", n, D, k=128),
        ),
        "Nystrom, 64": (nystrom(), many("nystrom", n, D, k=64)),
        "Nystrom, 64, 6 steps": (
            nystrom(iterations=6),
            many("nystrom", n, D, k=64, iterations=6),
        ),
        "window, 129": (
            sparse(patterns.window(n, 129)),
            many("window", n, D, w=129),
        ),
        "Longformer, 129": (
            sparse(patterns.longformer(n, 129, 8)),
            many("longformer", n, D, w=129, g=8),
        ),
        "BigBird, 32": (sparse(blocks), many("bigbird", n, D, block=BLOCK)),
        "linear": (
            lambda: linear_attention(q, k, v, check=False),
            many("linear", n, D),
        ),
        "linear, causal": (
            lambda: linear_attention(q, k, v, causal=True, check=False),
            many("linear causal", n, D),
        ),
        "Performer, 128": (
            lambda: performer_attention(
                q, k, v, features=128, generator=g, check=False
            ),
            many("performer", n, D, f=128),
        ),
        **recurrent(n, device),
    }


def recurrent(n: int, device: str) -> dict:
    """The rows with a state of fixed size, and the maps that belong to no row; causal
    all of them.
    """
    draw, _ = drawer(n + 1, device)
    q, k, v = (draw(1, HEADS, n, D) for _ in range(3))
    gate = torch.sigmoid(draw(1, HEADS, n))
    unit = F.normalize(k, dim=-1)
    x, b, c = draw(1, n, WIDTH), draw(1, n, STATES), draw(1, n, STATES)
    a = torch.sigmoid(draw(1, n, WIDTH, STATES))
    maps = draw(4, WIDTH, WIDTH)
    gru = torch.nn.GRU(1, WIDTH, batch_first=True, device=device)

    def project():
        return [F.linear(x, w) for w in maps]

    return {
        "gated, causal": (
            lambda: gated_linear_attention(q, k, v, gate, check=False),
            HEADS * flops("gated", n, D),
        ),
        "delta, causal": (
            lambda: delta_attention(q, unit, v, gate, gate, check=False),
            HEADS * flops("delta", n, D),
        ),
        "scan, causal": (
            lambda: selective_scan(x, a, b, c, check=False),
            flops("scan", n, WIDTH, s=STATES),
        ),
        "GRU": (
            lambda: gru(x[..., :1]),
            flops("gru recurrence", n, WIDTH) + 6 * n * WIDTH,
        ),
        "projections": (project, 8 * n * WIDTH * WIDTH),
    }


class Seconds(NamedTuple):
    """Seconds of a call: of the thread in all, and what the system took of them."""

    both: float
    system: float


def cpu_seconds(call, times: int) -> Seconds:
    """Time of this thread, a call. The clock counts in nanoseconds; what the system
    takes is counted in ticks of some milliseconds, right in the mean of many calls.
    """

    def clock():
        return time.thread_time(), resource.getrusage(resource.RUSAGE_THREAD).ru_stime

    both, system = clock()
    for _ in range(times):
        call()
    then, then_system = clock()
    return Seconds((then - both) / times, (then_system - system) / times)


def cuda_seconds(call, times: int) -> Seconds:
    """Time a call between two events of the GPU, where there is no system."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(times):
        call()
    end.record()
    torch.cuda.synchronize()
    return Seconds(start.elapsed_time(end) / 1e3 / times, 0.0)


CLOCKS = {"cpu": cpu_seconds, "cuda": cuda_seconds}


def alternate(
    calls: dict, rounds: int, device: str = "cpu", *, least: float = 0.03
) -> dict[str, list[Seconds]]:
    """Seconds a call in each round, rows in turn; a turn repeats a short call for
    `least` seconds.
    """
    seconds = CLOCKS[device]
    times = {}
    for name, call in calls.items():
        once = max(seconds(call, 2).both, 1e-6)
        times[name] = max(1, math.ceil(least / once))
    taken = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            taken[name].append(seconds(call, times[name]))
    return taken


def quartiles(taken: list[Seconds]) -> list[float]:
    """Quartiles of the milliseconds of all rounds."""
    ms = [1e3 * seconds.both for seconds in taken]
    return [round(t, 3) for t in statistics.quantiles(ms, n=4)]


def slope(ns: list[int], values: list[float]) -> float:
    x, y = [math.log(n) for n in ns], [math.log(v) for v in values]
    return statistics.linear_regression(x, y).slope


def crossover(ns: list[int], row: list[float], dense: list[float]) -> int | None:
    """Where the row falls below dense for good, between measured sizes on straight
    lines in the logarithms.
    """
    gap = [math.log(a / b) for a, b in zip(row, dense)]
    if gap[-1] >= 0:
        return None
    last = max((i for i, v in enumerate(gap) if v >= 0), default=-1)
    if last < 0:
        return ns[0]
    share = gap[last] / (gap[last] - gap[last + 1])
    return round(
        math.exp(math.log(ns[last]) + share * math.log(ns[last + 1] / ns[last]))
    )


def table(ns: list[int], rounds: int, device: str = "cpu") -> dict:
    found = {}
    for n in ns:
        made = rows(n, device)
        calls = {name: call for name, (call, _) in made.items()}
        taken = alternate(calls, rounds, device)
        for name, (call, count) in made.items():
            row = found.setdefault(
                name,
                {"ms": [], "system ms": [], "flops": [], "bytes": []},
            )
            row["ms"].append(quartiles(taken[name]))
            system = statistics.mean(seconds.system for seconds in taken[name])
            row["system ms"].append(round(1e3 * system, 3))
            row["flops"].append(count)
            row["bytes"].append(peak_bytes(call, device))
    fit = ns[::2] if len(ns) > 2 else ns

    def at(values):
        return [values[ns.index(n)] for n in fit]

    middle = {name: [t[1] for t in row["ms"]] for name, row in found.items()}
    for name, row in found.items():
        row["slopes"] = {
            "ms": round(slope(fit, at(middle[name])), 2),
            "flops": round(slope(fit, at(row["flops"])), 3),
            "bytes": round(slope(fit, at(row["bytes"])), 2),
        }
        row["crossover"] = crossover(ns, middle[name], middle["dense (SDPA)"])
        row["crossover, causal"] = crossover(
            ns, middle[name], middle["dense (SDPA), causal"]
        )
    return found


def public(
    rounds: int, sizes: list[tuple[int, int]], device: str = "cpu"
) -> list | str:
    """Ratios of the public implementation to ours on the same work: tokens of one
    bucket, duplicates corrected.
    """
    try:
        from reformer_pytorch.reformer_pytorch import LSHAttention
    except ImportError:
        return "not run"
    from importlib.metadata import version

    found = []
    for n, r in sizes:
        g = torch.Generator(device).manual_seed(n)
        q, v = (torch.randn(HEADS, n, D, generator=g, device=device) for _ in range(2))
        theirs = (
            LSHAttention(
                bucket_size=64,
                n_hashes=r,
                allow_duplicate_attention=False,
                attend_across_buckets=False,
            )
            .eval()
            .to(device)
        )
        ours = partial(lsh_attention, q, v, rounds=r, generator=g, check=False)
        runs = {
            "ours": partial(ours, buckets=factored(n // 64)),
            "ours, one factor": partial(ours, buckets=n // 64),
            "public": partial(theirs, q, v),
        }
        taken = alternate(runs, rounds, device)
        ms = {name: quartiles(seconds) for name, seconds in taken.items()}
        found.append(
            {
                "n": n,
                "rounds": r,
                "ms": ms,
                "ratio": round(ms["public"][1] / ms["ours"][1], 2),
                "version": version("reformer_pytorch"),
            }
        )
    return found


def accuracy(texts: int, n: int = 256) -> dict:
    """Median and quartiles over heads of |Y - dense| / |dense|, and FLOPs over those of
    dense.
    """
    model = load_tiny_model()
    kept = [text[:n] for text in model.sample if len(text) >= n][:texts]
    q, k, v = (
        torch.cat(ts)
        for ts in zip(
            *(
                [t.flatten(0, 1).double() for t in attention_heads(model, text)]
                for text in kept
            )
        )
    )
    d, g = q.shape[-1], torch.Generator().manual_seed(0)
    dense = {
        "plain": masked_attention(q, k, v),
        "causal": masked_attention(q, k, v, torch.ones(n, n, dtype=torch.bool).tril()),
        "shared": masked_attention(
            q, F.normalize(q, dim=-1), v, ~torch.eye(n, dtype=torch.bool)
        ),
    }
    found = {}

    def note(row: str, y: torch.Tensor, against: str, count: int) -> None:
        off = (
            (y - dense[against]).flatten(1).norm(dim=1)
            / dense[against].flatten(1).norm(dim=1)
        ).tolist()
        point = [
            round(count / flops("dense", n, d), 3),
            *(round(o, 4) for o in statistics.quantiles(off, n=4)),
        ]
        found.setdefault(row, {"against": against, "points": []})["points"].append(
            point
        )

    for size in (16, 32, 64, 128):
        random = torch.randn(size, n, generator=g, dtype=q.dtype) / math.sqrt(size)
        mean = torch.eye(size, dtype=q.dtype).repeat_interleave(n // size, 1) * size / n
        note(
            "Linformer, random",
            linformer_attention(q, k, v, random, random),
            "plain",
            flops("linformer", n, d, k=size),
        )
        note(
            "Linformer, means",
            linformer_attention(q, k, v, mean, mean),
            "plain",
            flops("linformer", n, d, k=size),
        )
        note(
            "Nystrom",
            nystrom_attention(q, k, v, size),
            "plain",
            flops("nystrom", n, d, k=size),
        )
        note(
            "Nystrom, 6 steps",
            nystrom_attention(q, k, v, size, iterations=6),
            "plain",
            flops("nystrom", n, d, k=size, iterations=6),
        )
        note(
            "Performer",
            performer_attention(q, k, v, features=size, generator=g),
            "plain",
            flops("performer", n, d, f=size),
        )
    for size in (17, 33, 65, 129):
        note(
            "window",
            sparse_attention(q, k, v, patterns.window(n, size)),
            "plain",
            flops("window", n, d, w=size, tile=tile(size)),
        )
    for l in (16, 32, 64):
        note(
            "strided",
            sparse_attention(q, k, v, strided(n, l)),
            "causal",
            flops("strided", n, d, l=l, tile=tile(l)),
        )
    for l, c in ((16, 1), (16, 4), (32, 8), (64, 16)):
        note(
            "fixed",
            sparse_attention(q, k, v, fixed(n, l, c)),
            "causal",
            flops("fixed", n, d, l=l, c=c),
        )
    for r in (1, 2, 4, 8):
        y = lsh_attention(q, v, buckets=16, rounds=r, chunk=16, generator=g)
        note("LSH", y, "shared", flops("lsh", n, d, r=r, m=16, b=16))
    note("linear", linear_attention(q, k, v), "plain", flops("linear", n, d))
    return {"n": n, "d": d, "heads": len(q), "rows": found}


def on_cuda(quick: bool) -> None:
    """The table and the public implementation on the GPU."""
    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device here: leave out --device cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    began, ns, rounds = (
        time.time(),
        [256, 512] if quick else [512, 1024, 2048, 4096, 8192],
        2 if quick else ROUNDS,
    )
    sizes = [(1024, 1)] if quick else [(1024, 1), (4096, 1), (4096, 4)]
    with torch.no_grad():
        result = {
            "n": ns,
            "rows": table(ns, rounds, "cuda"),
            "public": public(rounds, sizes, "cuda"),
        }
    settings = {
        "batch": 1,
        "heads": HEADS,
        "d": D,
        "rounds": rounds,
        "dtype": "float32",
        "clock": "CUDA events",
        "tf32": False,
    }
    where = {"folder": store.ROOT / "_build"} if quick else {}
    print(
        store.write(
            "complexity_cuda",
            result,
            settings=settings,
            seconds=time.time() - began,
            device="cuda",
            **where,
        )
    )


def main(quick: bool) -> None:
    torch.set_num_threads(1)
    began, ns, rounds = (
        time.time(),
        [256, 512] if quick else [256, 512, 1024, 2048, 4096],
        2 if quick else ROUNDS,
    )
    load = round(os.getloadavg()[0], 2)
    with torch.no_grad():
        result = {
            "n": ns,
            "load before": load,
            "rows": table(ns, rounds),
            "load after": round(os.getloadavg()[0], 2),
            "public": public(
                rounds,
                [(1024, 1)] if quick else [(1024, 1), (1024, 4), (4096, 1), (4096, 4)],
            ),
            "accuracy": accuracy(1 if quick else 4),
            "cuda": "not run",
        }
    settings = {
        "batch": 1,
        "heads": HEADS,
        "d": D,
        "rounds": rounds,
        "dtype": "float32",
        "clock": "time of the thread, and the system's part of it",
        **{name: int(value) for name, value in THRESHOLDS.items()},
    }
    where = {"folder": store.ROOT / "_build"} if quick else {}
    print(
        store.write(
            "complexity",
            result,
            settings=settings,
            seconds=time.time() - began,
            **where,
        )
    )


def with_thresholds() -> None:
    """This program anew, with glibc's thresholds raised, unless they are."""
    if any(os.environ.get(name) != value for name, value in THRESHOLDS.items()):
        os.environ.update(THRESHOLDS)
        os.execv(sys.executable, [sys.executable, *sys.argv])


if __name__ == "__main__":
    with_thresholds()
    (on_cuda if sys.argv[-2:] == ["--device", "cuda"] else main)("--quick" in sys.argv)
