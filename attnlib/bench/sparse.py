"""The job `sparse`: sparse_attention against the kernels that people use for the same pattern."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib import patterns
from attnlib.bench import _peers
from attnlib.bench.timing import Alive, alternate, ratio
from attnlib.patterns import Columns, Pattern, Step, Strided, Window, build
from attnlib.sparse import sparse_attention

HEADS, D, ROUNDS = 2, 64, 7


class Case(NamedTuple):
    """One pattern, one direction.

    Args:    name: in words.   pattern: what is read.   peers: names and makers.   backward: gradients too.
             parts: patterns whose union it is, to compare the union with their sum.
    Page:    notebooks/sparse_universality/patterns_and_conditions
    """

    name: str
    pattern: Pattern
    peers: dict[str, Callable]
    backward: bool = False
    parts: tuple[Pattern, ...] = ()


def big_bird(n: int, b: int, *, generator: torch.Generator) -> Pattern:
    """BigBird by blocks: the own block, its neighbours, the first one and two drawn ones; the first block reads all.

    Args:    n: tokens.   b: tokens of a block.   generator: on the CPU.
    Returns: Pattern with p = 1.
    Cost:    O(n^2).
    Source:  Zaheer et al. 2020, recalled.
    Page:    notebooks/sparse_universality/patterns_and_conditions
    """
    m = n // b
    a = torch.arange(m)
    mask = (a[:, None] - a).abs() <= 1
    mask[:, 0] = mask[0] = True
    for row in mask[1:]:
        free = (~row).nonzero().flatten()
        row[free[torch.randperm(len(free), generator=generator)[:2]]] = True
    return patterns.from_masks(mask.repeat_interleave(b, 0).repeat_interleave(b, 1))


def cases(device: str, quick: bool) -> list[Case]:
    """What is measured.

    Args:    device: "cpu" or "cuda".   quick: tiny sizes, and no compiler.
    Returns: four cases; quick: four small ones.
    Cost:    the patterns.
    Source:  performance goals: a window forward, forward and backward, blocks, a union.
    Page:    notebooks/sparse_universality/patterns_and_conditions
    """
    n, w, b, s = (256, 17, 16, 16) if quick else (8192, 129, 64, 64)
    half = n if quick else n // 2
    window = patterns.window(n, w)
    blocks = big_bird(half, b, generator=torch.Generator().manual_seed(0))
    few = Columns(tuple(range(16)))
    union = build(half, [Window(s // 2, s // 2), Strided(s), few])
    alone = (build(half, Window(s // 2, s // 2)), build(half, Strided(s)), Pattern(half, (Step((few,)),)))

    def flex(pattern: Pattern, *sizes: int) -> dict[str, Callable]:
        if quick:
            return {"flex": lambda: "not run: --quick compiles nothing"}
        grid = pattern.mask().to(device) if pattern is blocks else None
        reads = (lambda i, j: grid[i, j]) if pattern is blocks else READS[pattern is window](w // 2, s)
        return {f"flex, blocks of {size}": lambda size=size: _peers.flex(reads, pattern.n, size, device) for size in sizes}

    usual = {"Longformer": lambda: _peers.longformer(w), "local-attention": lambda: _peers.local(w)}
    masked = lambda pattern: {"SDPA + mask": lambda: _peers.masked(pattern.mask().to(device))}
    return [
        Case(f"window {w}, n = {n}, forward", window, {**masked(window), **usual, **flex(window, 32, 64)}),
        Case(f"window {w}, n = {n}, forward and backward", window, {**masked(window), **usual}, backward=True),
        Case(f"BigBird, blocks of {b}, n = {half}, forward", blocks, {**masked(blocks), **flex(blocks, b)}),
        Case(f"window {s + 1} + stride {s} + 16 columns, n = {half}, forward", union, {**masked(union), **flex(union, 64, 128)}, parts=alone),
    ]


READS = {  # as mask_mods: plain arithmetic, which is what flex compiles best
    True: lambda r, s: lambda i, j: (i - j).abs() <= r,
    False: lambda r, s: lambda i, j: ((i - j).abs() <= s // 2) | ((i - j) % s == 0) | (j < 16),
}


def measure(case: Case, device: str, rounds: int) -> dict:
    """All figures of one case: samples, peak bytes, worst errors against float64.

    Args:    case: what is measured.   device: "cpu" or "cuda".   rounds: turns of each run.
    Returns: a dictionary of plain numbers, strings and lists.
    Cost:    rounds of all peers; flex compiles for ten seconds or more a block size.
    Source:  peers as named.
    Page:    notebooks/sparse_universality/patterns_and_conditions
    """
    g, n = torch.Generator().manual_seed(0), case.pattern.n
    q, k, v, up = (torch.randn(1, HEADS, n, D, generator=g).to(device) for _ in range(4))
    leaves = [t.requires_grad_(case.backward) for t in (q, k, v)]
    ours = lambda q, k, v, pattern=case.pattern: sparse_attention(q, k, v, pattern, check=False)
    made = {"ours": ours, **{name: maker() for name, maker in case.peers.items()}}
    made |= {f"part {i}": lambda q, k, v, part=part: ours(q, k, v, part) for i, part in enumerate(case.parts, 1)}
    full = lambda kernel: lambda: torch.autograd.grad(kernel(*leaves), leaves, up) if case.backward else kernel(*leaves)
    runs = {name: full(kernel) for name, kernel in made.items() if callable(kernel)}
    runs, away = _that_run(runs, {name: kernel for name, kernel in made.items() if isinstance(kernel, str)})
    square = torch.randn(1024, 1024, generator=g).to(device)
    clock = time.perf_counter if device == "cuda" else time.process_time  # one thread: its own time is its work
    with torch.set_grad_enabled(case.backward):
        seconds = alternate({**runs, "matmul 1024": lambda: square @ square}, rounds, device, clock=clock)
        bytes_ = {name: _peak(run) for name, run in runs.items() if not name.startswith("flex")}  # compiled: not seen
        wanted = _truth(*leaves, up, case)
        errors = {name: max(float((a.double() - b).abs().max()) for a, b in zip(_tuple(run()), wanted))
                  for name, run in runs.items() if not name.startswith("part")}
    return {"case": case.name, "n": n, "d": D, "heads": HEADS, "connections": case.pattern.connections, "rounds": rounds,
            "backward": case.backward, "seconds": seconds, "peak bytes": bytes_, "worst error": errors, "not run": away,
            "versions": _peers.versions()}


def _that_run(runs: dict[str, Callable], away: dict[str, str]) -> tuple[dict[str, Callable], dict[str, str]]:
    """Each run called once: what fails is named, and is no peer."""
    good = {}
    for name, run in runs.items():
        try:
            run()
            good[name] = run
        except Exception as error:
            if name == "ours":
                raise
            away = {**away, name: f"not run: {type(error).__name__}"}
    return good, away


def _peak(run: Callable) -> int:
    with Alive() as alive:
        run()
    return alive.peak


def _tuple(y) -> tuple[Tensor, ...]:
    return y if isinstance(y, tuple) else (y,)


def _truth(q: Tensor, k: Tensor, v: Tensor, up: Tensor, case: Case) -> tuple[Tensor, ...]:
    """Masked dense attention in float64, 512 rows at a time; with backward its three gradients."""
    mask = case.pattern.mask().to(q.device)
    q, k, v = (t.detach().double().requires_grad_(case.backward) for t in (q, k, v))
    out, total = [], [torch.zeros_like(t) for t in (q, k, v)]
    for rows in torch.arange(case.pattern.n).split(512):
        logits = (q[..., rows, :] @ k.mT / D**0.5).masked_fill(~mask[rows], -torch.inf)
        y = torch.softmax(logits, -1) @ v
        if case.backward:
            total = [a + b for a, b in zip(total, torch.autograd.grad(y, (q, k, v), up[..., rows, :].double()))]
        out.append(y.detach())
    return tuple(total) if case.backward else (torch.cat(out, -2),)


def report(result: dict) -> str:
    """A few lines of Markdown: how many times as long each peer takes, medians, quartiles in brackets.

    Args:    result: what measure returned.
    Returns: text.
    Cost:    O(samples).
    Source:  ratios are taken round by round.
    Page:    notebooks/sparse_universality/patterns_and_conditions
    """
    seconds, mb = result["seconds"], {name: size / 2**20 for name, size in result["peak bytes"].items()}
    lines = [f"### {result['case']}, d = {result['d']}, {result['heads']} heads: worst error {result['worst error']['ours']:.1e}"]
    for name in (name for name in seconds if name not in ("ours", "matmul 1024") and not name.startswith("part")):
        low, middle, high = ratio(seconds[name], seconds["ours"])
        memory = f"memory {mb[name]:.0f} MB, ours {mb['ours']:.0f} MB; " if name in mb else ""
        lines.append(f"- {name} / ours: {middle:.3g} ({low:.3g} to {high:.3g}); {memory}error {result['worst error'][name]:.1e}")
    lines += [f"- {name}: {why}" for name, why in result["not run"].items()]
    lines.append(f"- useful FLOPs at {100 * share(result):.0f}% of the rate of a matrix product of 1024")
    if any(name.startswith("part") for name in seconds):
        parts = [sum(turn) for turn in zip(*(t for name, t in seconds.items() if name.startswith("part")))]
        lines.append(f"- ours / sum of its parts: {ratio(seconds['ours'], parts)[1]:.2f}")
    if "SDPA + mask" in seconds:
        density = result["connections"] / result["n"] ** 2
        lines.append(f"- of 1/density = {1 / density:.1f}: {100 * density * ratio(seconds['SDPA + mask'], seconds['ours'])[1]:.0f}%")
    return "\n".join(lines)


def share(result: dict) -> float:
    """Useful FLOPs a second over those of a matrix product in the same run.

    Args:    result: what measure returned.
    Returns: 4 d heads connections FLOPs, 3.5 times as many with gradients, over the median time; divided by the ceiling.
    Cost:    O(samples).
    Source:  counting multiplications and additions.
    Page:    notebooks/sparse_universality/patterns_and_conditions
    """
    useful = 4 * result["d"] * result["heads"] * result["connections"] * (3.5 if result["backward"] else 1)
    rate = [useful / own / (2 * 1024**3 / product) for own, product in zip(result["seconds"]["ours"], result["seconds"]["matmul 1024"])]
    return statistics.median(rate)


def run(device: str, quick: bool) -> Iterator[dict]:
    """The results of all cases, one after another.

    Args:    device: "cpu" or "cuda".   quick: tiny sizes.
    Yields:  what measure returns.
    Cost:    about five minutes; quick a second.
    Source:  see each peer.
    Page:    notebooks/sparse_universality/patterns_and_conditions
    """
    for case in cases(device, quick):
        yield measure(case, device, 2 if quick else ROUNDS)
