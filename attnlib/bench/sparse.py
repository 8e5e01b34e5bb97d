"""The job `sparse`: sparse_attention against the kernels that people use for the same
pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib import patterns
from attnlib.bench import _peers
from attnlib.bench.record import Record, compare
from attnlib.patterns import Columns, Pattern, Step, Strided, Window, build
from attnlib.sparse import bare_calls, sparse_attention

HEADS, D, ROUNDS = 2, 64, 7


class Case(NamedTuple):
    """One pattern, one direction.

    Args:
        name: in words.
        made: makes the pattern.
        peers: from the pattern to names and makers.
        backward: gradients too.
        parts: patterns whose union it is, to compare the union with their sum.
        dtype: of q, k, v.
        rows: compared with float64, 0 for all.
        connections: 0 to count them in O(n^2).

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """

    name: str
    made: Callable[[], Pattern]
    peers: Callable[[Pattern], dict[str, Callable]]
    backward: bool = False
    parts: tuple[Pattern, ...] = ()
    dtype: torch.dtype = torch.float32
    rows: int = 0
    connections: int = 0


def big_bird(n: int, b: int, *, generator: torch.Generator) -> Pattern:
    """BigBird by blocks: the own block, its neighbours, the first one and two drawn
    ones; the first block reads all.
    """
    m = n // b
    a = torch.arange(m)
    mask = (a[:, None] - a).abs() <= 1
    mask[:, 0] = mask[0] = True
    for row in mask[1:]:
        free = (~row).nonzero().flatten()
        row[free[torch.randperm(len(free), generator=generator)[:2]]] = True
    return patterns.from_masks(mask.repeat_interleave(b, 0).repeat_interleave(b, 1))


def cases(device: str, quick: bool) -> dict[str, Callable[[], Record]]:
    """What is measured, five minutes of it; quick a second."""
    n, w, b, s = (256, 17, 16, 16) if quick else (8192, 129, 64, 64)
    half = n if quick else n // 2
    parts = (Window(s // 2, s // 2), Strided(s), Columns(tuple(range(16))))
    alone = tuple(Pattern(half, (Step((part,)),)) for part in parts)

    def blocks():
        return big_bird(half, b, generator=torch.Generator().manual_seed(0))

    def near(i, j):
        return (
            i - j
        ).abs() <= w // 2  # plain arithmetic, which is what flex compiles best

    def either(i, j):
        return ((i - j).abs() <= s // 2) | ((i - j) % s == 0) | (j < 16)

    def flex(pattern: Pattern, reads: Callable, *sizes: int) -> dict[str, Callable]:
        def make(size):
            return lambda: _peers.flex(reads, pattern.n, size, device, quick)

        return {f"flex, blocks of {size}": make(size) for size in sizes}

    def by_blocks(pattern: Pattern) -> Callable:
        grid = pattern.mask()[::b, ::b].contiguous().to(device)
        return lambda i, j: grid[i // b, j // b]

    def masked(pattern):
        return {"SDPA + mask": lambda: _peers.masked(pattern.mask().to(device))}

    def usual(pattern):
        return {
            **masked(pattern),
            "Longformer": lambda: _peers.longformer(w),
            "local-attention": lambda: _peers.local(w),
        }

    def window():
        return patterns.window(n, w)

    found = [
        Case(
            f"window {w}, n = {n}, forward",
            window,
            lambda p: {**usual(p), **flex(p, near, 32, 64)},
        ),
        Case(
            f"window {w}, n = {n}, forward and backward", window, usual, backward=True
        ),
        Case(
            f"BigBird, blocks of {b}, n = {half}, forward",
            blocks,
            lambda p: {**masked(p), **flex(p, by_blocks(p), b)},
        ),
        Case(
            f"window {s + 1} + stride {s} + 16 columns, n = {half}, forward",
            lambda: build(half, list(parts)),
            lambda p: {**masked(p), **flex(p, either, 64, 128)},
            parts=alone,
        ),
    ]
    if device != "cpu" and not quick:
        found.append(_long(device))
    return {
        case.name: partial(measure, case, device, 2 if quick else ROUNDS)
        for case in found
    }


def _long(device: str) -> Case:
    """A window of 257 among 131,072 tokens in bfloat16: no mask of all pairs, the truth
    on some rows.
    """
    n, r = 2**17, 128

    def make(size):
        return lambda: _peers.flex(lambda i, j: (i - j).abs() <= r, n, size, device)

    return Case(
        f"window {2 * r + 1}, n = {n}, bfloat16, forward",
        lambda: patterns.window(n, 2 * r + 1),
        lambda pattern: {f"flex, blocks of {size}": make(size) for size in (64, 128)},
        dtype=torch.bfloat16,
        rows=512,
        connections=n * (2 * r + 1) - r * (r + 1),
    )


def measure(case: Case, device: str, rounds: int, job: str = "sparse") -> Record:
    """All figures of one case."""
    pattern, g = case.made(), torch.Generator().manual_seed(0)
    n, connections = pattern.n, case.connections or pattern.connections
    q, k, v, up = (
        torch.randn(1, HEADS, n, D, generator=g).to(device, case.dtype)
        for _ in range(4)
    )
    leaves = [t.requires_grad_(case.backward) for t in (q, k, v)]

    def ours(q, k, v, pattern=pattern):
        return sparse_attention(q, k, v, pattern, check=False)

    made = {
        "ours": ours,
        **{name: maker() for name, maker in case.peers(pattern).items()},
    }
    made |= {
        f"part {i}": lambda q, k, v, part=part: ours(q, k, v, part)
        for i, part in enumerate(case.parts, 1)
    }

    def full(kernel):
        return lambda: (
            torch.autograd.grad(kernel(*leaves), leaves, up)
            if case.backward
            else kernel(*leaves)
        )

    runs = {
        name: full(kernel) if callable(kernel) else kernel
        for name, kernel in made.items()
    }
    if job == "sparse" and case.dtype == torch.float32:
        runs["floor torch's attention on the same tiles"] = bare_calls(
            q, k, v, pattern, backward=case.backward
        )
    sizes = {
        "n": n,
        "d": D,
        "heads": HEADS,
        "connections": connections,
        "density": connections / n**2,
        "backward": case.backward,
        "dtype": str(case.dtype).removeprefix("torch."),
        "rows compared": case.rows or n,
    }
    flop = (
        4 * D * HEADS * connections * (3.5 if case.backward else 1)
    )  # two products; backward: five more
    moved = (
        q.element_size() * HEADS * n * D * (11 if case.backward else 4)
    )  # in and out, of all tensors
    at = (
        torch.arange(0, n, n // case.rows, device=device)
        if case.rows
        else torch.arange(n, device=device)
    )
    shown = (lambda found: found[..., at, :]) if case.rows else (lambda found: found)
    with torch.set_grad_enabled(case.backward):
        return compare(
            job,
            case.name,
            runs,
            device=device,
            rounds=rounds,
            sizes=sizes,
            flop=flop,
            moved=moved,
            dtype=case.dtype,
            truth=_truth(*leaves, up, pattern, at, case.backward),
            shown=shown,
        )


def _truth(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    up: Tensor,
    pattern: Pattern,
    at: Tensor,
    backward: bool,
) -> tuple[Tensor, ...]:
    """Masked dense attention in float64 for the rows `at`, 512 at a time; with backward
    its three gradients.
    """
    q, k, v = (t.detach().double().requires_grad_(backward) for t in (q, k, v))
    keys, out, total = (
        torch.arange(pattern.n, device=q.device),
        [],
        [torch.zeros_like(t) for t in (q, k, v)],
    )
    for rows in at.split(512):
        mask = pattern.reads(0, rows[:, None].cpu(), keys.cpu()).to(q.device)
        y = (
            torch.softmax(
                (q[..., rows, :] @ k.mT / D**0.5).masked_fill(~mask, -torch.inf), -1
            )
            @ v
        )
        if backward:
            total = [
                a + b
                for a, b in zip(
                    total, torch.autograd.grad(y, (q, k, v), up[..., rows, :].double())
                )
            ]
        out.append(y.detach())
    return tuple(total) if backward else (torch.cat(out, -2),)
