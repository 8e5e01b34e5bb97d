"""The job `sparse`: sparse_attention against the kernels that people use for the same
pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from attnbook.data.timings import Record
from attnlib import patterns
from attnlib.patterns import Columns, Pattern, Step, Strided, Window, build
from attnlib.sparse import sparse_attention
from bench import _peers
from bench.floor import bare_calls
from bench.record import Cases, compare

HEADS = 2
D = 64
ROUNDS = 7
Peers = dict[str, Callable[[], _peers.Peer]]


class Case(NamedTuple):
    """One pattern, one direction.

    Args:
        name: in words.
        made: makes the pattern.
        peers: from the pattern to names and makers.
        backward: gradients too.
        parts: patterns whose union it is, to compare the union with their sum.
    """

    name: str
    made: Callable[[], Pattern]
    peers: Callable[[Pattern], Peers]
    backward: bool = False
    parts: tuple[Pattern, ...] = ()


def big_bird(n: int, b: int, *, generator: torch.Generator) -> Pattern:
    """BigBird by blocks: the own block, its neighbours, the first one and two drawn
    ones; the first block reads all.
    """
    m = n // b
    a = torch.arange(m)
    mask = (a[:, None] - a).abs() <= 1
    mask[0] = True
    mask[:, 0] = True
    for row in mask[1:]:
        free = (~row).nonzero().flatten()
        shuffled = torch.randperm(len(free), generator=generator)
        row[free[shuffled[:2]]] = True
    tall = mask.repeat_interleave(b, 0)
    return patterns.from_masks(tall.repeat_interleave(b, 1))


def cases(device: str, quick: bool) -> Cases:
    """What is measured, five minutes of it; quick a second."""
    n = 256 if quick else 8192
    half = n if quick else n // 2
    block = 16 if quick else 64
    found = [
        *_windows(n, 17 if quick else 129, device, quick),
        _blocks(half, block, device, quick),
        _union(half, block, device, quick),
    ]
    rounds = 2 if quick else ROUNDS
    return {case.name: partial(measure, case, device, rounds) for case in found}


def _windows(n: int, w: int, device: str, quick: bool) -> list[Case]:
    """A window, forward alone and with gradients."""
    reach = w // 2

    # Plain arithmetic is what flex compiles best.
    def near(i, j):
        return (i - j).abs() <= reach

    usual = {
        "Longformer": partial(_peers.longformer, w),
        "local-attention": partial(_peers.local, w),
    }
    with_flex = usual | _flex(near, n, (32, 64), device, quick)
    name = f"window {w}, n = {n}, forward"
    made = partial(patterns.window, n, w)
    return [
        Case(name, made, lambda pattern: with_flex),
        Case(f"{name} and backward", made, lambda pattern: usual, backward=True),
    ]


def _blocks(n: int, b: int, device: str, quick: bool) -> Case:
    """BigBird, whose tiles are full."""

    def made() -> Pattern:
        return big_bird(n, b, generator=torch.Generator().manual_seed(0))

    def peers(pattern: Pattern) -> Peers:
        corners = pattern.mask()[::b, ::b]
        grid = corners.contiguous().to(device)

        def reads(i, j):
            return grid[i // b, j // b]

        return _flex(reads, n, (b,), device, quick)

    return Case(f"BigBird, blocks of {b}, n = {n}, forward", made, peers)


def _union(n: int, s: int, device: str, quick: bool) -> Case:
    """A union of three parts, to be compared with their sum."""
    columns = 16
    parts = [
        Window(s // 2, s // 2),
        Strided(s),
        Columns(tuple(range(columns))),
    ]
    alone = [Pattern(n, (Step((part,)),)) for part in parts]

    def reads(i, j):
        near = (i - j).abs() <= s // 2
        far = (i - j) % s == 0
        return near | far | (j < columns)

    flex = _flex(reads, n, (64, 128), device, quick)
    return Case(
        f"window {s + 1} + stride {s} + {columns} columns, n = {n}, forward",
        partial(build, n, parts),
        lambda pattern: flex,
        parts=tuple(alone),
    )


def _flex(
    reads: Callable, n: int, blocks: tuple[int, ...], device: str, quick: bool
) -> Peers:
    """Flex attention with blocks of several sizes."""
    found = {}
    for b in blocks:
        found[f"flex, blocks of {b}"] = partial(_peers.flex, reads, n, b, device, quick)
    return found


def measure(case: Case, device: str, rounds: int, job: str = "sparse") -> Record:
    """All figures of one case."""
    pattern = case.made()
    n = pattern.n
    connections = pattern.connections
    g = torch.Generator().manual_seed(0)
    shape = (1, HEADS, n, D)
    q, k, v, up = (torch.randn(shape, generator=g).to(device) for _ in range(4))
    leaves = [t.requires_grad_(case.backward) for t in (q, k, v)]

    def run(kernel):
        y = kernel(*leaves)
        return torch.autograd.grad(y, leaves, up) if case.backward else y

    def ours(pattern: Pattern) -> Callable:
        return partial(run, partial(sparse_attention, pattern=pattern, check=False))

    runs = {"ours": ours(pattern)}
    for i, part in enumerate(case.parts, 1):
        runs[f"part {i}"] = ours(part)
    mask = pattern.mask().to(device)
    runs["SDPA + mask"] = partial(run, _peers.masked(mask))
    made = {}
    for name, make in case.peers(pattern).items():
        made[name] = partial(_bound, run, make)
    if job == "sparse":
        made["floor torch's attention on the same tiles"] = partial(
            bare_calls, q, k, v, pattern, backward=case.backward
        )
    sizes = {
        "n": n,
        "d": D,
        "heads": HEADS,
        "connections": connections,
        "density": connections / n**2,
        "backward": case.backward,
    }
    # Two products forward, five more backward.
    flop = 4 * D * HEADS * connections * (3.5 if case.backward else 1)
    # In and out.
    tensors = 11 if case.backward else 4
    moved = q.element_size() * HEADS * n * D * tensors
    with torch.set_grad_enabled(case.backward):
        return compare(
            job,
            case.name,
            runs,
            made,
            device=device,
            rounds=rounds,
            sizes=sizes,
            flop=flop,
            moved=moved,
            truth=_truth(*leaves, up, pattern, case.backward),
        )


def _bound(run: Callable, make: Callable) -> Callable:
    """The run of a kernel that is made now."""
    return partial(run, make())


def _truth(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    up: Tensor,
    pattern: Pattern,
    backward: bool,
) -> tuple[Tensor, ...]:
    """Masked dense attention in float64, 512 rows at a time; with backward its three
    gradients.
    """

    def leaf(t: Tensor) -> Tensor:
        return t.detach().double().requires_grad_(backward)

    q = leaf(q)
    k = leaf(k)
    v = leaf(v)
    j = torch.arange(pattern.n)
    outputs = []
    gradients = [torch.zeros_like(t) for t in (q, k, v)]
    for rows in j.split(512):
        hidden = ~pattern.reads(0, rows[:, None], j).to(q.device)
        logits = q[..., rows, :] @ k.mT / D**0.5
        logits = logits.masked_fill(hidden, -torch.inf)
        y = torch.softmax(logits, -1) @ v
        outputs.append(y.detach())
        if backward:
            g = up[..., rows, :].double()
            more = torch.autograd.grad(y, (q, k, v), g)
            for gradient, of_these_rows in zip(gradients, more):
                gradient += of_these_rows
    return tuple(gradients) if backward else (torch.cat(outputs, -2),)
