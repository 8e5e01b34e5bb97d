"""Page one_layer_memorization/reviewers_questions: what was worked out by hand."""

import math

import pytest
import torch

from attnbook.data import load_result
from attnbook.theorems import reviewers_questions as reviewers

double = torch.float64


def test_width_beyond_the_ids_does_not_help():
    """1024 units for 400 ids, and still a frozen head stays below 3/4: the order is not
    that of networks that are too narrow.
    """
    runs = load_result("memorization")["result"]["width"]
    assert max(runs["frozen, N 50, width 1024"]) <= 0.75


def test_the_example_is_as_steep_as_it_says():
    """two_numbers commutes with a swap; its steepness is above 2, and at most 7."""
    g = reviewers.seeded(2)
    x, y = torch.rand(2, 20000, 2, 1, generator=g, dtype=double)
    f = reviewers.two_numbers
    assert torch.equal(f(x.flip(1)), f(x).flip(1))
    steep = (f(x) - f(y)).abs().amax((1, 2)) / (x - y).abs().amax((1, 2))
    assert 2 < steep.max() <= 7


def test_two_opposite_vectors():
    """u and -u, beta = ln(3)/2: three quarters of the way, so 1/2 is left; the bound is
    2/3.
    """
    u = torch.tensor([[1.0], [-1.0]], dtype=double)
    found = reviewers.furthest(u, beta=math.log(3) / 2)
    assert found.ok and found.value == pytest.approx(3 / 4, abs=1e-9)
