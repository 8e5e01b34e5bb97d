"""What the figures of notebooks/synthesis/your_model draw."""

from __future__ import annotations

import pytest
import torch

from attnbook.figures import audit as draw
from attnlib import bridges

LOGITS = 3 * torch.tensor(
    [[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=torch.float64
)
P = torch.softmax(LOGITS, -1)


def words(ax) -> str:
    return " ".join(text.get_text() for text in ax.texts)


def test_what_two_rows_share_is_what_tau_leaves():
    fig = draw.two_rows(P, "a bc")
    shared = 1 - float(bridges.dobrushin(P))
    assert f"what both read: {shared:.0%}" in words(fig.axes[1])
    assert [label.get_text() for label in fig.axes[0].get_xticklabels()][1] == "␣"


def test_the_leader_grows_with_the_factor():
    fig = draw.multiplied_row(LOGITS[0], {"half": 0.5, "whole": 1.0})
    said = [ax.texts[0].get_text() for ax in fig.axes]
    assert said == ["60%", "87%"]


def test_the_floor_is_drawn_where_it_is():
    fig = draw.columns(P, "abcd", r=2)
    [line] = fig.axes[1].lines
    assert line.get_ydata()[0] == pytest.approx(float(bridges.rank_floor(P)[2]))
    heights = [bar.get_height() for bar in fig.axes[1].patches]
    assert heights == sorted(heights, reverse=True)
    frames = [patch.get_xy() for patch in fig.axes[0].patches]
    assert frames[2] == (1.5, 1.5)  # column 2 is read most by row 2


def test_the_gauges_show_the_three_numbers():
    frames, labels = draw.gauges(LOGITS, "abcd", [0.0, 1.0], r=2)
    assert labels == ["logits times 0", "logits times 1"]
    none, whole = (words(frame.axes[1]) for frame in frames)
    assert "tau = 0.00" in none and "beta* = infinite" in none
    assert f"tau = {float(bridges.dobrushin(P)):.2f}" in whole
    assert "a typical row is sharp" in whole
    _, (dull,) = draw.gauges(LOGITS, "abcd", [0.1], r=2)
    assert dull == "logits times 0.1"
