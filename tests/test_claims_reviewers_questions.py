"""What attnbook.theorems.reviewers_questions cannot say: numbers, and refusals."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from attnbook.theorems import reviewers_questions as reviewers
from attnlib.memorize import memorize

F64 = torch.float64


def test_units_by_hand():
    """Two numbers on 5 cells, three on 6, four on 3; pairs of points of a square."""
    assert reviewers.units(5, 2) == 5 * 5
    assert reviewers.units(6, 3) == 6 * 21
    assert reviewers.units(3, 4) == 3 * 10
    assert reviewers.units(2, 2, d=2) == 4 * 4
    assert reviewers.units(7, 1, d=2) == 49


def test_the_task_is_that_of_the_stored_runs(monkeypatch):
    folder = Path(__file__).resolve().parents[1] / "book" / "_experiments"
    monkeypatch.syspath_prepend(folder)
    import memorization

    mine, theirs = reviewers.stored_task(1), memorization.task(1)
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs))
    v, beta = reviewers.stored_head(mine[2], 1)
    (row,) = memorization.directions(theirs[2], 1, reviewers.seeded(1001))
    assert torch.allclose(v, row / row.norm(), atol=1e-14)
    assert beta == pytest.approx(0.3 * float(row.norm()) ** 2, rel=1e-12)


def test_half_a_cell_is_lost():
    """x + mean with one token is 2 x: at the end of a cell of 1/4 it is off by 1/4, all
    that the theorem allows.
    """
    x = torch.tensor([[[0.0]], [[0.3]]], dtype=F64)
    found = reviewers.rate(reviewers.with_mean, x, lipschitz=2.0, g=4)
    assert found.ok and found.value == pytest.approx(1, abs=1e-12)


@pytest.mark.bad_input
def test_the_cube_has_both_its_ends():
    """Half a cell is lost at each; beyond them nothing is said."""

    def share(place):
        x = torch.tensor([[[place]]], dtype=F64)
        try:
            return reviewers.rate(reviewers.with_mean, x, lipschitz=2.0, g=4).value
        except ValueError as refusal:
            return str(refusal)

    assert share(0.0) == pytest.approx(1, abs=1e-12)
    assert share(1.0) == pytest.approx(1, abs=1e-12)
    for beyond in (-(2.0**-60), 1 + 2.0**-52):
        assert "x must lie in the cube [0, 1]" in str(share(beyond))


@pytest.mark.parametrize(("n", "d", "g"), [(60, 1, 2), (2, 70, 1)])
def test_many_tokens_or_features_of_few_cells(n, d, g):
    """with_mean by its slope; two cells make 61 multisets of 60 tokens."""
    x = torch.rand(3, n, d, generator=reviewers.seeded(0), dtype=F64)
    assert reviewers.rate(reviewers.with_mean, x, lipschitz=2.0, g=g).ok


def test_a_block_of_another_size_is_no_witness(monkeypatch):
    """However small its error is."""
    monkeypatch.setattr(reviewers, "units", lambda *sizes: 99)
    x = torch.full((1, 1, 1), 0.125, dtype=F64)
    found = reviewers.rate(reviewers.with_mean, x, lipschitz=2.0, g=4)
    assert (found.ok, found.value, found.bound) == (False, math.inf, 1)


def test_vectors_as_long_as_floats_allow():
    """Four times their products are still floats, five times are none."""
    u = torch.tensor([[1.0], [-1.0]], dtype=F64) * 6.4e153
    assert math.isfinite(4 * 6.4e153**2) and math.isinf(5 * 6.4e153**2)
    assert reviewers.furthest(u).ok


def test_the_furthest_of_three():
    """On a circle at 0, 120 and 170 degrees: the two ends are furthest of each other,
    and the one between goes to 0.
    """
    angle = torch.tensor([0.0, 120, 170], dtype=F64).deg2rad()
    u = torch.stack([angle.cos(), angle.sin()], 1)
    assert reviewers.furthest(u).value == 0
    # One may not see its furthest one: it gets that at 120 degrees, 50 further on.
    mask = torch.tensor([[True, True, False], [True] * 3, [True] * 3])
    found = reviewers.furthest(u, mask=mask)
    side = float(2 * torch.tensor(25.0, dtype=F64).deg2rad().sin())
    assert not found.ok and found.value == pytest.approx(side, rel=1e-12)
    # There e^(-beta gamma) is below the least float.
    assert not reviewers.furthest(u, beta=2000.0, mask=mask).ok


def test_the_head_of_the_stored_runs_needs_few_bits():
    """It is built in float32 too, in which it was trained."""
    x, labels, vocabulary = reviewers.stored_task(0)
    v, beta = reviewers.stored_head(vocabulary, 0)
    g = reviewers.seeded(0)
    net = memorize(x.float(), labels, generator=g, v=v.float(), beta=beta)
    assert torch.equal(net(x.float()), labels)
    assert net.report.bits < net.report.dtype_bits == 23


def points(**changes):
    return reviewers.of_cube(**changes)


def call_rate(**changes):
    return reviewers.rate(**{**points(), **changes})


def call_furthest(u, **changes):
    return reviewers.furthest(u, **changes)


def call_trained(**changes):
    return reviewers.trained(**{**reviewers.stored_runs(), **changes})


VECTORS = torch.eye(3, 2, dtype=F64) - 0.5 * torch.ones(3, 2, dtype=F64)
TIED = torch.tensor([[1.0, 0], [-0.6, 0.8], [-0.6, -0.8]], dtype=F64)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: call_rate(x=2 + points()["x"]), "x must lie in the cube"),
        (lambda: call_rate(g=10**4), "more than 20000 multisets of cells"),
        (
            lambda: call_rate(x=torch.rand(1, 1, 9999, dtype=F64)),
            "more than 20000 mult",
        ),
        (lambda: call_rate(lipschitz=0), "lipschitz must be positive"),
        (lambda: call_rate(lipschitz=10**400), "lipschitz must be in the range of"),
        (lambda: call_rate(f=lambda x: x.sum(-1)), r"f\(x\) must have shape"),
        (lambda: call_furthest(VECTORS[:1]), "n >= 2, got"),
        (lambda: call_furthest(VECTORS, beta=0), "beta must be positive"),
        (lambda: call_furthest(1e160 * VECTORS), "4 u @ u.T holds NaN or infinity"),
        (lambda: call_furthest(TIED), r"u\[0\] has two furthest vectors"),
        (lambda: call_trained(accuracies=[[0.5]]), "two models, got 1"),
        (lambda: call_trained(accuracies=[[0.5], [1.5]]), "between 0 and 1, got 1.5"),
        (lambda: call_trained(beta=10**300), "cannot hold the ids apart"),
        (lambda: call_trained(v=torch.ones(16, dtype=F64)), "length one, got 4"),
    ],
)
def test_what_the_theorems_refuse(call, words):
    with pytest.raises(ValueError, match=words):
        call()
