"""The job `paths`: sums over all paths against what visits every path, and against a forward pass."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib.attention import forward, merged, random_layers
from attnlib.bench.timing import alternate, ratio
from attnlib.paths import path_counts, path_sums, path_terms


class Workload(NamedTuple):
    """Sizes of one comparison of path sums; single: also run what visits every path.

    Args:    L, h, n, d, d_v: layers, heads, tokens, width, width of values.   single: bool.
    Page:    notebooks/path_decomposition/paths
    """

    L: int
    h: int
    n: int
    d: int
    d_v: int
    single: bool


WORKLOADS = [
    Workload(6, 4, 32, 32, 8, True),
    Workload(6, 4, 64, 64, 16, True),
    Workload(6, 4, 64, 64, 64, True),
    Workload(12, 8, 128, 64, 8, False),
    Workload(12, 8, 128, 64, 64, False),
]
QUICK = [Workload(3, 2, 16, 16, 8, True), Workload(4, 4, 32, 32, 8, False)]


def one_by_one(x: Tensor, attention: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """Peer: every path by itself, with W_h multiplied out beforehand; sums by length.

    Args:    x: (n, d).   attention: (h, n, n) a layer.   weights: (h, d, d) a layer.
    Returns: (L + 1, n, d).
    Cost:    (h + 1)^L paths.
    Source:  the definition of the sum over paths.
    Page:    notebooks/path_decomposition/paths
    """
    sums = x.new_zeros(len(weights) + 1, *x.shape)
    for path in itertools.product(range(-1, len(weights[0])), repeat=len(weights)):
        y, length = x, 0
        for p, w, h in zip(attention, weights, path):
            if h >= 0:
                y, length = p[h] @ (y @ w[h]), length + 1
        sums[length] += y
    return sums


def prefix_tree(x: Tensor, attention: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """Peer: every path, but common beginnings are computed once; sums by length.

    Args:    x, attention, weights: as in one_by_one.
    Returns: (L + 1, n, d).
    Cost:    h (1 + (h + 1) + ... + (h + 1)^(L - 1)) head applications.
    Source:  depth-first walk over the tree of paths.
    Page:    notebooks/path_decomposition/paths
    """
    sums = x.new_zeros(len(weights) + 1, *x.shape)

    def walk(layer: int, y: Tensor, length: int) -> None:
        if layer == len(weights):
            sums[length] += y
            return
        walk(layer + 1, y, length)
        for p, w in zip(attention[layer], weights[layer]):
            walk(layer + 1, p @ (y @ w), length + 1)

    walk(0, x, 0)
    return sums


def given_forward(x: Tensor, attention: Sequence[Tensor], stacked: Sequence[Tensor]) -> Tensor:
    """Limit: the fastest forward pass with given attention and W_h that we know of, two products a layer.

    Args:    x: (n, d).   attention: [P_1 ... P_h] side by side, (n, h n), a layer.   stacked: (h, d, d) a layer.
    Returns: (n, d).
    Cost:    L h (n d^2 + n^2 d).
    Source:  sum_h P_h (X W_h) as one product.
    Page:    notebooks/path_decomposition/paths
    """
    for p, w in zip(attention, stacked):
        x = x + p @ (x @ w).flatten(0, 1)
    return x


def measure(work: Workload, device: str, rounds: int) -> dict:
    """All figures of one workload: samples, ratios to path_sums, worst error against float64.

    Args:    work: the sizes.   device: "cpu" or "cuda".   rounds: of the fast runs; slow ones get three.
    Returns: a dictionary of plain numbers and lists.
    Cost:    for L = 6, h = 4 about ten seconds a round of the slow peers.
    Source:  peers as named in each function.
    Page:    notebooks/path_decomposition/paths
    """
    g = torch.Generator().manual_seed(0)
    layers = random_layers(work.L, work.h, work.d, work.d_v, generator=g, dtype=torch.float32, device=device)
    x = torch.randn(work.n, work.d, generator=g).to(device)
    attention = forward(x, layers, skip=True, return_attention=True)[1]
    weights = [merged(layer)[0] for layer in layers]
    side = [p.transpose(0, 1).flatten(1).contiguous() for p in attention]

    def ours():
        return path_sums(x, layers, skip=True, attention=attention, check=False).by_length

    fast = {
        "path_sums": ours,
        "forward, attention given": lambda: given_forward(x, side, weights),
        "forward": lambda: forward(x, layers, skip=True, check=False),
    }
    groups = [alternate(fast, rounds, device)]
    if work.single:
        slow = {"path_sums": ours, "one by one": lambda: one_by_one(x, attention, weights)}
        slow["prefix tree"] = lambda: prefix_tree(x, attention, weights)
        slow["path_terms"] = lambda: sum(term for _, term in path_terms(x, layers, skip=True, attention=attention))
        groups.append(alternate(slow, min(rounds, 3), device))
    truth = path_sums(
        x.double(), [type(layer)(*(w if w is None else w.double() for w in layer)) for layer in layers],
        skip=True, attention=[p.double() for p in attention], check=False,
    ).by_length
    error = ((ours() - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).max()
    return {"work": work._asdict(), "paths": sum(path_counts([work.h] * work.L, skip=True)), "seconds": groups,
            "worst relative error": float(error)}


def report(result: dict) -> str:
    """A few lines of Markdown: medians as ratios to path_sums, quartiles in brackets.

    Args:    result: what measure returned.
    Returns: text.
    Cost:    O(samples).
    Source:  ratios are taken round by round, so that drift cancels.
    Page:    notebooks/path_decomposition/paths
    """
    work, groups = result["work"], result["seconds"]
    lines = [f"### L = {work['L']}, H = {work['h']}, n = {work['n']}, d = {work['d']}, d_v = {work['d_v']}: "
             f"{result['paths']:.3g} paths, worst error {result['worst relative error']:.1e}"]
    for seconds in groups:
        for name in [name for name in seconds if name != "path_sums"]:
            low, middle, high = ratio(seconds[name], seconds["path_sums"])
            lines.append(f"- {name} / path_sums: {middle:.4g} ({low:.4g} to {high:.4g})")
    fast = groups[0]
    passes = statistics.median(o / f for o, f in zip(fast["path_sums"], fast["forward, attention given"]))
    lines.append(f"- path_sums / forward with given attention: {passes:.2f}; by multiplications {(work['L'] + 1) / 2}")
    return "\n".join(lines)


def run(device: str, quick: bool) -> Iterator[dict]:
    """The results of all workloads, one after another.

    Args:    device: "cpu" or "cuda".   quick: tiny sizes.
    Yields:  what measure returns.
    Cost:    about a minute; quick a second.
    Source:  see each peer.
    Page:    notebooks/path_decomposition/paths
    """
    for work in QUICK if quick else WORKLOADS:
        yield measure(work, device, 2 if quick else 21)
