"""The job `paths`: sums over all paths against what visits every path, and against a
forward pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from attnbook.data.timings import Record
from attnlib.attention import Layer, forward, merged, random_layers
from attnlib.paths import path_counts, path_sums
from bench.record import Cases, Runs, compare


class Workload(NamedTuple):
    """Layers, heads, tokens, width and width of values of one comparison."""

    L: int
    h: int
    n: int
    d: int
    d_v: int

    @property
    def name(self) -> str:
        """In words."""
        sizes = (
            f"L = {self.L}, H = {self.h}, n = {self.n}, d = {self.d}, d_v = {self.d_v}"
        )
        return f"all {self.paths:.3g} paths, {sizes}"

    @property
    def paths(self) -> int:
        """How many there are."""
        return sum(path_counts([self.h] * self.L, skip=True))

    @property
    def least(self) -> tuple[int, int]:
        """Useful operations and least bytes of all sums: by W_V, W_O if values are
        narrow, else by W_V W_O.
        """
        heads = self.h * self.L
        if self.d_v < self.d:
            each = (2 * self.d + self.n) * self.d_v
            weights = 2 * self.d * self.d_v
        else:
            each = (self.d + self.n) * self.d
            weights = self.d**2
        flop = self.n * each * heads * (self.L + 1)
        read = heads * (self.n**2 + weights)
        states = (self.L + 2) * self.n * self.d
        return flop, 4 * (read + states)


FEW = [  # paths: each can be visited
    Workload(6, 4, 32, 32, 8),
    Workload(6, 4, 64, 64, 16),
    Workload(6, 4, 64, 64, 64),
]
MANY = [Workload(12, 8, 128, 64, 8), Workload(12, 8, 128, 64, 64)]


def one_by_one(
    x: Tensor, attention: Sequence[Tensor], weights: Sequence[Tensor]
) -> Tensor:
    """Peer: every path by itself, with W_h multiplied out beforehand; sums by
    length.
    """
    sums = x.new_zeros(len(weights) + 1, *x.shape)
    skip = -1
    choices = range(skip, len(weights[0]))
    for path in itertools.product(choices, repeat=len(weights)):
        y = x
        length = 0
        for p, w, h in zip(attention, weights, path):
            if h != skip:
                y = p[h] @ (y @ w[h])
                length += 1
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
        values = (x.unsqueeze(-3) @ w).flatten(-3, -2)
        x = x + p @ values
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
    x = torch.randn(work.n, work.d, generator=g).to(device)
    attention = forward(x, layers, skip=True, return_attention=True)[1]
    exact = _exact(x, layers, attention)
    if each:
        runs = _every_path(x, layers, attention)
        flop = 0
        moved = 0
    else:
        runs = _forward_passes(x, layers, attention)
        flop, moved = work.least
    return compare(
        "paths",
        name,
        runs,
        {},
        device=device,
        rounds=rounds,
        sizes={**work._asdict(), "paths": work.paths},
        flop=flop,
        moved=moved,
        truth=(exact,),
        scale=exact.norm(dim=(-2, -1), keepdim=True),
    )


def _ours(x: Tensor, layers: Sequence[Layer], attention: Sequence[Tensor]) -> Tensor:
    sums = path_sums(x, layers, skip=True, attention=attention, check=False)
    return sums.by_length


def _exact(x: Tensor, layers: Sequence[Layer], attention: Sequence[Tensor]) -> Tensor:
    """Our sums in float64."""
    double = []
    for layer in layers:
        weights = layer._asdict()
        for name, w in weights.items():
            weights[name] = None if w is None else w.double()
        double.append(Layer(**weights))
    return _ours(x.double(), double, [p.double() for p in attention])


def _every_path(
    x: Tensor, layers: Sequence[Layer], attention: Sequence[Tensor]
) -> Runs:
    """Our sums, and what visits every path."""
    weights = [merged(layer)[0] for layer in layers]
    return {
        "ours": partial(_ours, x, layers, attention),
        "one by one": partial(one_by_one, x, attention, weights),
        "prefix tree": partial(prefix_tree, x, attention, weights),
    }


def _forward_passes(
    x: Tensor, layers: Sequence[Layer], attention: Sequence[Tensor]
) -> Runs:
    """Our sums, and forward passes."""
    weights = [merged(layer)[0] for layer in layers]
    # P of all heads side by side, so that one product serves them.
    side = [p.transpose(-3, -2).flatten(-2).contiguous() for p in attention]
    return {
        "ours": partial(_ours, x, layers, attention),
        "floor forward, attention given": partial(given_forward, x, side, weights),
        "floor forward": partial(forward, x, layers, skip=True, check=False),
    }


def cases(device: str, quick: bool) -> Cases:
    """What is measured, five minutes of it: a few paths beside visits of each, many
    beside forward passes.
    """
    few = [Workload(3, 2, 16, 16, 8)] if quick else FEW
    many = [Workload(4, 4, 32, 32, 8)] if quick else MANY
    found = {}
    for work in few:
        name = f"{work.name}: beside every path"
        rounds = 2 if quick else 3
        found[name] = partial(measure, name, work, True, device, rounds)
    for work in many:
        name = f"{work.name}: beside forward passes"
        rounds = 2 if quick else 21
        found[name] = partial(measure, name, work, False, device, rounds)
    return found
