"""The job `paths`: sums over all paths against what visits every path, and against a
forward pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib.attention import forward, merged, random_layers
from attnlib.bench.record import Record, compare
from attnlib.paths import path_counts, path_sums, path_terms


class Workload(NamedTuple):
    """Sizes of one comparison of path sums; single: also run what visits every path.

    Args:
        L, h, n, d, d_v: layers, heads, tokens, width, width of values.
        single: bool.
        batch: sequences, 0 for no batch.
        name: in words.
        least: useful operations and least bytes.

    Page:
        notebooks/path_decomposition/paths
    """

    L: int
    h: int
    n: int
    d: int
    d_v: int
    single: bool
    batch: int = 0

    @property
    def name(self) -> str:
        """In words."""
        paths = sum(path_counts([self.h] * self.L, skip=True))
        sizes = (
            f"L = {self.L}, H = {self.h}, n = {self.n}, d = {self.d}, d_v = {self.d_v}"
        )
        return f"all {paths:.3g} paths, {sizes}" + (
            f", {self.batch} sequences" if self.batch else ""
        )

    @property
    def least(self) -> tuple[int, int]:
        """Useful operations and least bytes of all sums: by W_V, W_O if values are
        narrow, else by W_V W_O.
        """
        many, narrow = self.batch or 1, self.d_v < self.d
        each = (
            (2 * self.d + self.n) * self.d_v if narrow else (self.d + self.n) * self.d
        )
        read = (
            self.L
            * self.h
            * (many * self.n**2 + (2 * self.d * self.d_v if narrow else self.d**2))
        )
        return many * self.n * each * self.h * self.L * (self.L + 1), 4 * (
            read + many * (self.L + 2) * self.n * self.d
        )


WORKLOADS = [
    Workload(6, 4, 32, 32, 8, True),
    Workload(6, 4, 64, 64, 16, True),
    Workload(6, 4, 64, 64, 64, True),
    Workload(12, 8, 128, 64, 8, False),
    Workload(12, 8, 128, 64, 64, False),
]
ON_GPU = [Workload(12, 8, 128, 64, 64, False, 256)]
QUICK = [Workload(3, 2, 16, 16, 8, True), Workload(4, 4, 32, 32, 8, False)]


def one_by_one(
    x: Tensor, attention: Sequence[Tensor], weights: Sequence[Tensor]
) -> Tensor:
    """Peer: every path by itself, with W_h multiplied out beforehand; sums by
    length.
    """
    sums = x.new_zeros(len(weights) + 1, *x.shape)
    for path in itertools.product(range(-1, len(weights[0])), repeat=len(weights)):
        y, length = x, 0
        for p, w, h in zip(attention, weights, path):
            if h >= 0:
                y, length = p[h] @ (y @ w[h]), length + 1
        sums[length] += y
    return sums


def prefix_tree(
    x: Tensor, attention: Sequence[Tensor], weights: Sequence[Tensor]
) -> Tensor:
    """Peer: every path, but common beginnings are computed once; sums by length."""
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


def given_forward(
    x: Tensor, attention: Sequence[Tensor], stacked: Sequence[Tensor]
) -> Tensor:
    """Limit: the fastest forward pass with given attention and W_h that we know of, two
    products a layer.
    """
    for p, w in zip(attention, stacked):
        x = x + p @ (x.unsqueeze(-3) @ w).flatten(-3, -2)
    return x


def measure(name: str, work: Workload, each: bool, device: str, rounds: int) -> Record:
    """Sums over all paths beside forward passes, or beside what visits every path."""
    g = torch.Generator().manual_seed(0)
    layers = random_layers(
        work.L,
        work.h,
        work.d,
        work.d_v,
        generator=g,
        dtype=torch.float32,
        device=device,
    )
    x = torch.randn(*[work.batch] * bool(work.batch), work.n, work.d, generator=g).to(
        device
    )
    attention = forward(x, layers, skip=True, return_attention=True)[1]
    weights = [merged(layer)[0] for layer in layers]
    side = [p.transpose(-3, -2).flatten(-2).contiguous() for p in attention]
    double = [
        type(layer)(*(w if w is None else w.double() for w in layer))
        for layer in layers
    ]
    exact = path_sums(
        x.double(),
        double,
        skip=True,
        attention=[p.double() for p in attention],
        check=False,
    ).by_length
    scale = exact.flatten(-2).norm(dim=-1)[..., None, None]
    paths = sum(path_counts([work.h] * work.L, skip=True))
    multiplied, moved = (0, 0) if each else work.least

    def ours() -> Tensor:
        return path_sums(
            x, layers, skip=True, attention=attention, check=False
        ).by_length

    def terms() -> Tensor:
        sums = torch.zeros_like(exact, dtype=x.dtype)
        for path, term in path_terms(x, layers, skip=True, attention=attention):
            sums[sum(head is not None for head in path)] += term
        return sums

    runs = (
        {
            "ours": ours,
            "one by one": lambda: one_by_one(x, attention, weights),
            "prefix tree": lambda: prefix_tree(x, attention, weights),
            "path_terms": terms,
        }
        if each
        else {
            "ours": ours,
            "floor forward, attention given": lambda: given_forward(x, side, weights),
            "floor forward": lambda: forward(x, layers, skip=True, check=False),
        }
    )
    return compare(
        "paths",
        name,
        runs,
        device=device,
        rounds=rounds,
        sizes={**work._asdict(), "paths": paths},
        flop=multiplied,
        moved=moved,
        truth=(exact,),
        scale=scale,
    )


def cases(device: str, quick: bool) -> dict[str, Callable[[], Record]]:
    """What is measured, five minutes of it: each workload beside forward passes, the
    single ones beside every path too.
    """
    found: dict[str, Callable[[], Record]] = {}
    rounds = 2 if quick else 21
    for work in QUICK if quick else WORKLOADS + (ON_GPU if device == "cuda" else []):
        for each, words in (
            (False, "beside forward passes"),
            (True, "beside every path"),
        )[: 1 + work.single]:
            name = f"{work.name}: {words}"
            found[name] = partial(
                measure, name, work, each, device, min(rounds, 3) if each else rounds
            )
    return found
