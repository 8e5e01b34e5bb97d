"""What the figures of notebooks/path_decomposition/escaping_collapse draw."""

from __future__ import annotations

import torch

from attnbook.figures import escaping as draw


def four_ways(layers=2):
    g = torch.Generator().manual_seed(0)
    path = 1 + torch.rand(layers + 1, 5, 2, dtype=torch.float64, generator=g)
    together = torch.ones_like(path)
    return {"a": path, "b": path + 0.1, "c": 2 * path, "d": together}


def test_a_frame_a_layer_and_each_way_has_its_own_mark():
    frames, labels = draw.four_ways(four_ways())
    assert len(frames) == 3
    assert labels == ["at the start", "after layer 1", "after layer 2"]
    marks = [ax.lines[-1].get_marker() for ax in frames[0].axes]
    assert len(set(marks)) == 4


def test_tokens_that_met_are_called_one_point():
    frames, _ = draw.four_ways(four_ways())
    words = [[text.get_text() for text in ax.texts] for ax in frames[0].axes]
    assert words[3] == ["zero", "one point"]
    assert words[0][1].startswith("width ") and "width / arrow = " in words[0][2]


def test_the_hull_of_a_square_has_four_edges():
    corners = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1], [0.4, 0.5]])
    assert set(draw._hull(corners)) == {(0, 1), (1, 2), (2, 3), (3, 0)}


def test_a_head_without_a_start_token_draws_none():
    fig = draw.rest([("a", [0.5, 0.5], 0.1), ("b", [None, 1.0], 1.0)])
    with_start, without = ([t.get_text() for t in ax.texts] for ax in fig.axes)
    assert "start\nvalue 0" in with_start and "start\nvalue 0" not in without
    assert "output 1.00" in without
