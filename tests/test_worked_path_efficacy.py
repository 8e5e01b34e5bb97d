"""Worked examples of the page notebooks/path_decomposition/path_efficacy."""

from __future__ import annotations

import math

import pytest
import torch

from attnbook.theorems import path_efficacy
from attnlib.attention import Layer, forward
from attnlib.efficacy import length_bounds
from attnlib.paths import path_counts, restrict


def test_counts_by_hand():
    assert path_counts([1, 1], skip=True) == [1, 2, 1]
    assert path_counts([2, 2], skip=True) == [1, 4, 4]


@pytest.mark.parametrize("c", [0.3, 0.5, 1.3])
def test_second_order_of_two_tokens(c):
    """Two layers of strength c, recomputed: the coefficient of z^2 and the path of
    length two differ.
    """
    ones = torch.ones(1, 1, 1, dtype=torch.float64)
    x = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    layers = [Layer(c * ones, ones, ones, ones)] * 2

    def network(z):
        quiet = path_efficacy.turned_down(layers, z)
        return forward(x, quiet, skip=True, check=False)

    t = math.tanh(c)
    taylor = t * t + 2 * c * t * (1 - t * t)
    rerun = t * math.tanh(c * t * t)
    found = float(path_efficacy.coefficient(network, x, 2)[0])
    alone = float(forward(x, restrict(layers, (0, 0)))[0])
    assert max(abs(found - taylor), abs(alone - rerun)) <= 1e-13
    assert taylor > 1.5 * rerun


def test_weights_by_hand():
    """Layers that weigh 1 + 2 = 3 and 4: the lengths weigh 1, 7 and 12 times |X|."""
    made = path_efficacy.multiples([[1.0, 2.0], [4.0]])
    bounds = length_bounds(**made) / made["x"].norm()
    assert (bounds - torch.tensor([1, 7, 12])).abs().max() <= 1e-13
