"""What the figures of notebooks/what_came_after/sharpness draw."""

from __future__ import annotations

import math

import pytest

from attnbook.figures import sharpness as draw
from attnbook.theorems.sharpness import hand_row

ROW = hand_row()[0]


def words(ax) -> str:
    return " ".join(text.get_text() for text in ax.texts)


def test_the_crowd_takes_what_the_leader_had():
    near, crowd = draw.two_rows(1.0).axes
    assert "leader\n73%" in words(near) and "crowd" not in words(near)
    assert "leader\n31%" in words(crowd) and "crowd\n58%" in words(crowd)


def test_the_line_leaves_the_tokens_that_are_too_near_below():
    frames, labels = draw.turning_line(ROW, [0.5, 1.0, 2 * math.log(2), 3.0])
    assert labels == [
        "beta = 0.50: 15 too near",
        "beta = 1.00: 9 too near",
        "beta = 1.39: all far enough",
        "beta = 3.00: all far enough",
    ]
    said = [words(frame.axes[0]) for frame in frames]
    assert ["too near" in text for text in said] == [True, True, False, False]
    assert "touches" in said[2] and "touches" not in said[3]


def test_bars_lie_between_the_curve_and_the_line():
    (ax,) = draw.squeezed(ROW, 2 * math.log(2), 1.0, 16).axes
    heights = [bar.get_height() for bar in ax.patches[::2]]
    curve, line = (drawn.get_ydata() for drawn in ax.lines)
    assert len(heights) == 16 and heights[1] == pytest.approx(1 / 4)
    assert all(h <= c + 1e-12 for h, c in zip(heights, curve, strict=True))
    assert min(heights) == pytest.approx(float(line[0])) == 1 / 16


def test_the_switch_is_between_its_two_rows():
    for ax, n in zip(draw.switch([16, 1000]).axes, (16, 1000), strict=True):
        equal, zipf = (line.get_ydata() for line in ax.lines[:2])
        assert (zipf <= equal + 1e-12).all()
        assert equal[0] == pytest.approx(1 / n) == zipf[0]
