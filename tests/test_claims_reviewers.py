"""The claims of notebooks/one_layer_memorization/reviewers_questions: each check, and
its control, on which it fails.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from attnlib.certify import Verdict, at_most
from attnlib.data import load_result
from attnlib.memorize import memorize

F64 = torch.float64


def f(x):
    """Permutation-equivariant on pairs; entries 7-Lipschitz in the largest norm on [0,
    1].
    """
    return x * x.amax(-2, keepdim=True) ** 2 + torch.sin(3 * x) * x.amin(
        -2, keepdim=True
    )


def first(x):
    """Not equivariant: both tokens get the value of the first; 1-Lipschitz."""
    return x[..., :1, :].expand_as(x)


def centre(x, g):
    return ((x * g).floor().clamp(max=g - 1) + 0.5) / g


def approximator(f, g):
    """The memorizer of f on all pairs of cell centres, each multiset once."""
    line = (torch.arange(g, dtype=F64) + 0.5) / g
    pairs = torch.combinations(line, 2, with_replacement=True).unsqueeze(-1)
    return memorize(pairs, f(pairs), generator=torch.Generator().manual_seed(0))


def check_rate(g, f=f, lipschitz=7.0):
    """The largest error at 4000 random pairs against L / (2 g)."""
    x = torch.rand(4000, 2, 1, generator=torch.Generator().manual_seed(1), dtype=F64)
    return at_most(
        (approximator(f, g)(centre(x, g)) - f(x)).abs().max(), lipschitz / (2 * g)
    )


@pytest.mark.claim("memorize.universal", role="check")
@pytest.mark.parametrize("g", [2, 8, 32])
def test_error_is_below_the_rate(g):
    assert check_rate(g).ok


@pytest.mark.claim("memorize.universal", role="control")
def test_a_function_that_is_not_equivariant():
    verdict = check_rate(32, first, 1.0)
    assert verdict.ok is False and verdict.value > 0.5


def check_units(g, n):
    """Ids of all multisets of n cells, against g C(g + n - 2, n - 1); d = 1."""
    line = (torch.arange(g, dtype=F64) + 0.5) / g
    x = torch.combinations(line, n, with_replacement=True).unsqueeze(-1)
    net = memorize(
        x,
        torch.zeros(x.shape[:2], dtype=torch.long),
        generator=torch.Generator().manual_seed(0),
    )
    wanted = g * math.comb(g + n - 2, n - 1)
    return Verdict(net.report.ids, wanted, net.report.ids == wanted)


@pytest.mark.claim("memorize.universal", role="check")
@pytest.mark.parametrize(("g", "n"), [(5, 2), (6, 3), (3, 4)])
def test_units_are_counted(g, n):
    assert check_units(g, n).ok


@pytest.mark.claim("memorize.universal", role="witness")
def test_the_example_is_equivariant_and_lipschitz():
    x, y = torch.rand(
        2, 20000, 2, 1, generator=torch.Generator().manual_seed(2), dtype=F64
    )
    assert torch.equal(f(x.flip(1)), f(x).flip(1))
    quotient = (f(x) - f(y)).abs().amax((1, 2)) / (x - y).abs().amax((1, 2))
    assert 2 < quotient.max() <= 7


def check_order(
    models=(
        "no attention",
        "frozen construction",
        "trained, rank 1",
        "trained, 4 heads",
    ),
):
    """Least gap between the worst seed of a model and the best seed of the one before;
    positive if they never overlap.
    """
    runs = load_result("memorization")["result"]["models"]
    gap = min(min(runs[b]) - max(runs[a]) for a, b in zip(models, models[1:]))
    return Verdict(gap, 0.0, gap > 0)


@pytest.mark.claim("memorize.trained", role="check")
def test_the_models_are_in_order():
    assert check_order().ok


@pytest.mark.claim("memorize.trained", role="control")
def test_a_random_frozen_head_is_not_below_the_construction():
    assert check_order(("frozen random", "frozen construction")).ok is False


def task(seed, sets=100, n=8, tokens=32, d=16, labels=5):
    """The task of book/_experiments/memorization.py."""
    g = torch.Generator().manual_seed(seed)
    vocabulary = torch.randn(tokens, d, generator=g, dtype=F64) / 2
    chosen = {}
    while len(chosen) < sets:
        chosen[tuple(sorted(torch.randperm(tokens, generator=g)[:n].tolist()))] = True
    x = vocabulary[torch.tensor(list(chosen))]
    return x, torch.randint(labels, x.shape[:2], generator=g)


def check_built(seed, labels_of=None):
    """How many of the 800 labels the exact network on a frozen head of rank one misses;
    labels_of: of another task.
    """
    x, y = task(seed)
    net = memorize(x, y, generator=torch.Generator().manual_seed(seed))
    return at_most(
        int((net(x) != (y if labels_of is None else task(labels_of)[1])).sum()), 0
    )


@pytest.mark.claim("memorize.trained", role="check")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_built_network_has_accuracy_one(seed):
    assert check_built(seed).ok


@pytest.mark.claim("memorize.trained", role="control")
def test_it_does_not_know_the_labels_of_another_task():
    verdict = check_built(0, labels_of=1)
    assert verdict.ok is False and verdict.value > 500


def test_the_task_is_that_of_the_stored_runs(monkeypatch):
    monkeypatch.syspath_prepend(
        Path(__file__).resolve().parents[1] / "book" / "_experiments"
    )
    import memorization

    assert all(torch.equal(a, b) for a, b in zip(task(1), memorization.task(1)))


@pytest.mark.claim("memorize.trained", role="witness")
def test_width_beyond_the_ids_was_tried():
    stored = load_result("memorization")
    runs, settings = stored["result"]["width"], stored["about"]["settings"]
    assert (
        settings["n"] * 50 < 1024
        and max(runs["frozen, N 50, width 1024"]) < 0.75
        and len(settings["seeds"]) == 3
    )
