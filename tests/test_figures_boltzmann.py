"""What the figures of notebooks/one_layer_memorization/boltzmann_and_hardmax draw."""

from __future__ import annotations

import math

import pytest

from attnbook.figures import boltzmann as draw

WORDS = {
    "sequences": [("river", "bank"), ("bank", "loan")],
    "places": {"river": 1, "bank": 2, "loan": 3.5},
    "labels": [("water", "shore"), ("office", "money")],
    "heights": ("shore", "money", "water", "office"),
}


def test_the_whole_picture_is_computed():
    """The id of "bank" in the first sequence is 2 + f / 2, with weights e^.6, e^1.2."""
    frames, labels = draw.whole(**WORDS, beta=0.3, w=0.5)
    assert len(frames) == len(labels) == 6
    weight = 1 / (1 + math.exp(-0.6))
    wanted = 2 + (1 + weight) / 2
    drawn = [line.get_xdata()[0] for line in frames[-1].axes[0].lines]
    assert min(abs(x - wanted) for x in drawn) < 1e-12


def test_the_beams_balance_at_the_averages():
    """Weights 2, 4, 32, 64 at ln 2: the wedge stands at 554 / 102; hardmax at 6."""
    frames, _ = draw.balance((1, 2, 5, 6), (1, 3, 4, 6), (math.log(2), math.inf))
    for frame, wanted in zip(frames, (554 / 102, 6)):
        ax = frame.axes[0]
        wedges = [line for line in ax.lines if line.get_marker() == "^"]
        assert wedges[0].get_xdata()[0] == pytest.approx(wanted)
