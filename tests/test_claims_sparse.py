"""The claims on the kernels, on notebooks/sparse_universality/patterns_and_conditions:
each check, and its control.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from attnlib import patterns
from attnlib.certify import Verdict, at_most
from attnlib.patterns import (
    Blocks,
    Columns,
    Lists,
    Pattern,
    Rows,
    Step,
    Strided,
    Window,
    build,
)
from attnlib.sparse import masked_attention, sparse_attention
from attnlib.sparse.plans import Plan, plan_of
from attnlib.sparse.tiles import forward, gradients

EPS = torch.finfo(torch.float64).eps
CPU = torch.device("cpu")


def instance(n, d=8, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(2, n, d, generator=g, dtype=torch.float64) for _ in range(4)]


def lists(n, seed=0):
    """Sets of up to three tokens, empty ones among them."""
    g = torch.Generator().manual_seed(seed)
    rows = [torch.randperm(n, generator=g)[: k % 4].sort().values for k in range(n)]
    return Lists(torch.tensor([0, *map(len, rows)]).cumsum(0), torch.cat(rows))


UNIONS = {
    "window and columns": lambda n: build(n, [Window(12, 12), Columns((0, n // 2))]),
    "thin windows": lambda n: build(n, [Window(2, 2, 3), Window(3, 1), Columns((0,))]),
    "strided": lambda n: patterns.one_step(patterns.strided(n, reach=12)),
    "global rows": lambda n: build(n, [Window(12, 12), Columns((0, 1)), Rows((0, 1))]),
    "blocks and lists": lambda n: build(n, [Blocks(8), Blocks(8, 3, 1), lists(n)]),
    "causal": lambda n: patterns.causal(
        build(n, [Window(3, 3, 2), Strided(7), lists(n)])
    ),
    "all": lambda n: build(
        n,
        [
            Window(20, 20),
            Strided(5),
            Blocks(9),
            Columns((1,)),
            Rows((n - 1,)),
            lists(n),
        ],
    ),
}


def tiles_of(pattern: Pattern, *, disjoint: bool = True) -> Plan:
    """The tiles of step 0; not disjoint: each part as if it were alone, so that what
    two parts hold comes twice.
    """
    step = pattern.steps[0]
    n = pattern.n
    if disjoint:
        return plan_of(step, n, n, torch.float64, CPU)
    families = []
    for part in step.parts:
        plan = plan_of(Step((part,), step.causal), n, n, torch.float64, CPU)
        assert plan.entries is None
        for family in plan.families:
            families.append(replace(family, fresh=not families))
    return Plan(families, None)


def truth(q, k, v, mask) -> tuple[torch.Tensor, torch.Tensor]:
    logits = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf)
    return masked_attention(q, k, v, mask), logits.logsumexp(-1)


def check_merge(pattern: Pattern, *, disjoint: bool = True, seed: int = 0) -> Verdict:
    """Parts merged by their log-sum-exps against one softmax over the union, values and
    lse; k = 64.
    """
    q, k, v, _ = instance(pattern.n, seed=seed)
    got = forward(
        q, k, v, tiles_of(pattern, disjoint=disjoint), 1 / math.sqrt(q.shape[-1])
    )
    off = max(
        float((a - b).abs().max()) for a, b in zip(got, truth(q, k, v, pattern.mask()))
    )
    return at_most(off, 64 * EPS * float(v.abs().max()))


def check_gradient(
    pattern: Pattern, *, lse_of: str = "union", seed: int = 0
) -> Verdict:
    """The gradients from out and lse alone against those of masked dense attention,
    with a gradient for lse; k = 256.

    lse_of "part" hands the same formula the log-sum-exp of the first part alone.
    """
    n = pattern.n
    q, k, v, g = instance(n, seed=seed)
    g_lse, scale = g[..., 0].contiguous(), 1 / math.sqrt(q.shape[-1])
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    out, lse = truth(*leaves, pattern.mask())
    wanted = torch.autograd.grad((out * g).sum() + (lse * g_lse).sum(), leaves)
    first = build(n, pattern.steps[0].parts[0])
    lse = (lse if lse_of == "union" else truth(q, k, v, first.mask())[1]).detach()
    got = gradients(q, k, v, out.detach(), lse, g, g_lse, tiles_of(pattern), scale)
    size = max(float(t.abs().max()) for t in wanted)
    return at_most(
        max(float((a - b).abs().max()) for a, b in zip(got, wanted)), 256 * EPS * size
    )


def check_exact(
    pattern: Pattern, *, missing: int = 0, rows: int | None = None, seed: int = 0
) -> Verdict:
    """sparse_attention against the dense form of the pattern, less `missing` of its
    connections; rows: of the last so many queries alone; k = 64.
    """
    n = pattern.n
    q, k, v, _ = instance(n, seed=seed)
    mask = pattern.mask().clone()
    last = slice(n - (rows or n), n)
    degrees = mask.sum(1)[last]
    row = last.start + int(degrees.argmax())
    if missing:
        mask[row, mask[row].nonzero()[0, 0]] = False
    y = sparse_attention(q[:, last], k, v, pattern)
    wanted = masked_attention(q[:, last], k, v, mask[last])
    return at_most(float((y - wanted).abs().max()), 64 * EPS * float(v.abs().max()))


@pytest.mark.claim("sparse.merge", role="check")
@pytest.mark.parametrize("n", [31, 64])
@pytest.mark.parametrize("name", UNIONS)
def test_merge(name, n):
    assert check_merge(UNIONS[name](n)).ok


@pytest.mark.claim("sparse.merge", role="control")
@pytest.mark.parametrize("name", ["window and columns", "strided"])
def test_merge_wants_parts_without_common_keys(name):
    assert check_merge(UNIONS[name](31), disjoint=False).ok is False


@pytest.mark.claim("sparse.merge", role="witness")
def test_parts_can_be_empty_in_a_row():
    """Row 0 has no list, and its softmax is that of the window."""
    pattern = build(31, [Window(0, 1), lists(31)])
    assert int(lists(31).crow[1]) == 0 and pattern.mask()[
        0
    ].nonzero().flatten().tolist() == [0, 1]
    assert check_merge(pattern).ok


@pytest.mark.claim("sparse.gradient", role="check")
@pytest.mark.parametrize("n", [31, 64])
@pytest.mark.parametrize("name", UNIONS)
def test_gradient(name, n):
    assert check_gradient(UNIONS[name](n)).ok


@pytest.mark.claim("sparse.gradient", role="control")
@pytest.mark.parametrize("name", ["window and columns", "strided", "blocks and lists"])
def test_gradient_wants_the_lse_of_the_union(name):
    assert check_gradient(UNIONS[name](31), lse_of="part").ok is False


@pytest.mark.claim("sparse.gradient", role="witness")
def test_one_part_alone_is_its_own_union():
    assert check_gradient(patterns.window(31, 5), lse_of="part").ok


@pytest.mark.claim("sparse.exact", role="check")
@pytest.mark.parametrize("n", [13, 37, 64, 131])
@pytest.mark.parametrize("name", UNIONS)
def test_exact(name, n):
    assert check_exact(UNIONS[name](n)).ok
    assert check_exact(UNIONS[name](n), rows=n // 3).ok


@pytest.mark.claim("sparse.exact", role="control")
@pytest.mark.parametrize("name", UNIONS)
def test_one_connection_fewer_is_noticed(name):
    assert check_exact(UNIONS[name](37), missing=1).ok is False
    assert check_exact(UNIONS[name](37), missing=1, rows=9).ok is False


@pytest.mark.claim("sparse.exact", role="witness")
def test_a_pattern_that_is_neither_empty_nor_full():
    pattern = UNIONS["all"](131)
    assert 0.2 < pattern.connections / 131**2 < 0.7 and check_exact(pattern).ok
