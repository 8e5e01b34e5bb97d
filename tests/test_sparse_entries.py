"""Lists without a structure, by their entries: against masked dense attention, forward
and backward.
"""

from __future__ import annotations

import math

import pytest
import torch
from test_sparse import instance

from attnlib import patterns
from attnlib.patterns import Columns, Lists, Rows, Step, Strided, Window, build
from attnlib.sparse import masked_attention, sparse_attention
from attnlib.sparse._kernel import attend_pairs
from attnlib.sparse._tiles import entries_of, tiles_of

EPS = 1e-12


def drawn(n: int, share: float, seed: int = 0, *, empty: bool = False) -> Lists:
    """Sets of very different lengths; with empty, some rows have none."""
    g = torch.Generator().manual_seed(seed)
    mask = torch.rand(n, n, generator=g) < share * 2 * torch.rand(n, 1, generator=g)
    mask[0] = torch.rand(n, generator=g) < 0.9
    mask.fill_diagonal_(not empty)
    mask[1::3] &= not empty
    if not empty:
        mask |= torch.eye(n, dtype=torch.bool)
    return Lists(
        torch.cat([torch.zeros(1, dtype=torch.int64), mask.sum(1).cumsum(0)]),
        mask.nonzero()[:, 1],
    )


PATTERNS = {
    "lists": lambda n: build(n, drawn(n, 0.2)),
    "one entry a row": lambda n: patterns.from_sets(
        [{(7 * i + 3) % n} for i in range(n)]
    ),
    "with a narrow window": lambda n: build(
        n, [Window(1, 1), drawn(n, 0.2, empty=True)]
    ),
    "with a narrow dilated window around": lambda n: build(
        n, [Window(2, 0, 5, True), drawn(n, 0.2, empty=True)]
    ),
    "with a wide window": lambda n: build(
        n, [Window(20, 20), drawn(n, 0.2, empty=True)]
    ),
    "with classes": lambda n: build(n, [Strided(6), drawn(n, 0.2, empty=True)]),
    "with global tokens": lambda n: build(
        n, [Columns((0, 5)), Rows((0, 5)), drawn(n, 0.2, empty=True)]
    ),
    "a thin window": lambda n: patterns.window(n, 5),
    "a thin dilated window": lambda n: patterns.window(n, 9, dilation=4),
    "thin windows that overlap": lambda n: build(n, [Window(2, 2, 2), Window(3, 1)]),
    "thin windows": lambda n: patterns.logsparse(n, both=True),
    "two lists": lambda n: build(n, [drawn(n, 0.1), drawn(n, 0.2, seed=1, empty=True)]),
    "causal": lambda n: patterns.Pattern(
        n, (Step((Window(0, 0), drawn(n, 0.3)), causal=True),)
    ),
}


def made_of(pattern, device="cpu"):
    n = pattern.n
    return tiles_of(pattern.steps[0], n, n, torch.float64, torch.device(device))


@pytest.mark.parametrize("name", PATTERNS)
def test_entries_are_masked_attention(name, device):
    n = 47
    pattern, inputs = PATTERNS[name](n), instance(n, (2, 3), device=device)
    mask = pattern.mask().to(device)
    assert made_of(pattern, device)[1] is not None
    out, lse = sparse_attention(*inputs, pattern, return_lse=True)
    wanted = masked_attention(*inputs, mask)
    logits = (inputs[0] @ inputs[1].mT / 2).masked_fill(~mask, -math.inf).logsumexp(-1)
    assert all(
        float((a - b).detach().abs().max()) < EPS
        for a, b in ((out, wanted), (lse, logits))
    )
    up, up_lse = (
        torch.randn(out.shape, dtype=out.dtype, device=device),
        torch.randn(lse.shape, dtype=lse.dtype, device=device),
    )
    found = torch.autograd.grad((out * up).sum() + (lse * up_lse).sum(), inputs)
    twin = torch.autograd.grad((wanted * up).sum() + (logits * up_lse).sum(), inputs)
    assert all(float((a - b).abs().max()) < EPS for a, b in zip(found, twin))


def test_the_control_reads_another_entry():
    n = 47
    inputs, pattern = instance(n, (2,)), PATTERNS["lists"](n)
    mask = pattern.mask()
    mask[3, int((~mask[3]).nonzero()[0])] = True
    assert (
        float(
            (sparse_attention(*inputs, pattern) - masked_attention(*inputs, mask))
            .detach()
            .abs()
            .max()
        )
        > 1e-3
    )


def test_every_entry_once_whoever_holds_it():
    n = 47
    for name in (
        "with a narrow window",
        "with a narrow dilated window around",
        "two lists",
        "causal",
    ):
        pattern = PATTERNS[name](n)
        _, own = made_of(pattern)
        pairs = list(zip(own.row.tolist(), own.col.tolist()))
        assert pairs == [
            tuple(pair) for pair in pattern.mask().nonzero().tolist()
        ]  # sorted, each once, none in a tile


def test_rows_without_an_entry_have_no_weight():
    pairs = torch.tensor([0, 2]), torch.tensor([1, 2])
    own = entries_of([pairs], 3, torch.device("cpu"))
    q = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        out, lse = attend_pairs(q, q, q, own)
    assert (
        lse[0, 1, 0] == -math.inf
        and bool((out[0, 1] == 0).all())
        and torch.equal(out[0, 0], q[0, 1])
    )


@pytest.mark.parametrize("n", [256, 2048])
def test_thin_windows_go_by_entries_and_wide_ones_by_tiles(n):
    """Of both, what the wide one holds is no entry."""
    thin = build(n, Window(1, 1, 8))
    wide = build(n, Window(32, 32))
    both = build(n, [Window(1, 1, 8), Window(32, 32), Window(1, 1, 64)])
    assert not made_of(thin)[0]
    assert made_of(wide)[1] is None
    assert len(made_of(both)[1].col) == 2 * (n - 64)
    assert len(made_of(patterns.causal(both))[1].col) == n - 64
