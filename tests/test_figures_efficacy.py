"""What the figures of notebooks/path_decomposition/path_efficacy draw."""

from __future__ import annotations

import itertools
from functools import cache

import pytest

from attnbook.figures import VERMILLION
from attnbook.figures import efficacy as draw


@cache
def circle():
    way = [[0.3, 0.0, -0.3, 0.0], [0.2, 0.1, -0.2, -0.1], [0.1, 0.1, -0.1, -0.1]]
    starts = {"near": way, "opposite": way}
    return draw.circle({"pure": starts, "skip": starts})


def test_two_tokens_have_two_marks():
    ax = circle().axes[0]
    assert {line.get_marker() for line in ax.lines} >= {"o", "s"}


def lit(ax):
    """Widths of the marked roads, by where they lead."""
    roads = {}
    for line in ax.lines:
        if line.get_color() == VERMILLION:
            xs = line.get_xdata()
            ys = line.get_ydata()
            roads[(xs[0], ys[0]), (xs[1], ys[1])] = line.get_linewidth()
    return roads


def test_the_roads_of_one_length():
    """Length 0 takes the skips alone; length 1 never goes from head to head; and a road
    is as wide as the share of the paths that takes it.
    """
    frames, labels = draw.paths_by_length(3, 2, word="cab", said=["abc"] * 4)
    assert labels == [
        "length 0: 1 path",
        "length 1: 6 paths",
        "length 2: 12 paths",
        "length 3: 8 paths",
    ]
    nothing, one, _, all_heads = [lit(fig.axes[0]) for fig in frames]
    skips = [(0, 1), (1, 0), (2, 0), (3, 0), (4, 1)]
    assert set(nothing) == set(itertools.pairwise(skips))
    assert set(nothing.values()) == {12}
    head_to_head = ((1, 2), (2, 1))
    assert head_to_head not in one
    assert all_heads[head_to_head] == pytest.approx(1 + 11 / 4)
    assert one[(1, 0), (2, 0)] == pytest.approx(1 + 11 * 2 / 6)


def test_wrong_letters_are_struck_out():
    """Two of the letters a, c, b stand where a, b, c should be."""
    frames, _ = draw.paths_by_length(3, 2, word="cab", said=["acb"] * 4)
    letters = frames[0].axes[1]
    assert len(letters.lines) == 2
    assert "1 of 3 right" in [text.get_text() for text in letters.texts]


def test_each_alone_is_wrong_and_both_are_right():
    axes = draw.wrong_alone([2, 3, 0], [2, 0, 3]).axes
    said = [ax.get_xlabel() for ax in axes]
    assert said == ["says B: wrong", "says C: wrong", "says A: right"]
    heights = [bar.get_height() for bar in axes[2].patches]
    assert heights == [2, 3, 0, 2, 0, 3]


def test_the_distance_that_is_left():
    """From 0.6 to 0.2 times the root of two."""
    assert circle().axes[0].get_xlabel() == "47% left"
