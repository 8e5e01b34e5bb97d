"""Worked examples of the page notebooks/path_decomposition/paths."""

from __future__ import annotations

import math

import torch

from attnbook.theorems import paths
from attnlib import certify
from attnlib.attention import forward
from attnlib.paths import path_counts, path_norms, path_sums, path_terms


def plain() -> dict:
    return paths.random_network(bias=False)


def test_biases_matter():
    """Rows of softmax sum to one, in a network whose biases move every token."""
    x, layers = paths.random_network().values()
    y, attention = forward(x, layers, return_attention=True)
    assert (torch.stack(attention).sum(-1) - 1).abs().max() <= 1e-14
    assert path_sums(x, layers).bias.norm() > 0.1 * y.norm() / math.sqrt(len(x))


def test_a_skip_is_a_head():
    """The head with P = I and W = I gives what a skip gives, in exact arithmetic."""
    made = paths.integer_network()
    x = certify.exact(made["x"])
    attention = [paths.normalised(heads, paths.squares) for heads in made["logits"]]
    weights = [[certify.exact(w) for w in maps] for maps in made["weights"]]
    with_skip = certify.network(x, attention, weights, skip=True)
    for heads, maps in zip(attention, weights):
        heads.append(certify.exact(torch.eye(3)))
        maps.append(certify.exact(torch.eye(2)))
    assert certify.network(x, attention, weights) == with_skip


def test_shifts_move_squares():
    one, shifted = map(paths.squares, certify.exact([[1, 2], [2, 3]]))
    assert sum(one) == sum(shifted) == 1
    assert one != shifted


def test_every_length_occurs():
    sums = path_sums(**plain(), skip=True).by_length
    assert sums.flatten(1).norm(dim=1).min() >= 0.01


def test_listing_costs_more():
    """125 paths of three layers of four heads: 20 times the multiplications or more."""
    x, layers = plain().values()
    _, attention = forward(x, layers, skip=True, return_attention=True)
    how = {"skip": True, "attention": attention}
    listed = paths.multiplications(lambda: list(path_terms(x, layers, **how)))
    summed = paths.multiplications(lambda: path_sums(x, layers, **how))
    assert listed >= 20 * summed


def test_counts_are_of_paths():
    found = [0] * 4
    for path, _ in path_terms(**plain(), skip=True):
        found[paths.length(path)] += 1
    assert found == path_counts([4, 4, 4], skip=True)


def test_drawn_signs_are_precise():
    """Standard errors below a tenth: to agree within four of them says something."""
    for centred in (False, True):
        wanted = paths.squared_norms(**plain(), centred=centred)
        g = torch.Generator().manual_seed(0)
        how = {"signs": 2000, "generator": g, "skip": True, "centred": centred}
        got = path_norms(**plain(), **how)
        assert (got.standard_error[1:] < 0.1 * wanted[1:]).all()
