"""The figures of the two pages on the universality proof: small, described, and
readable without colour.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_figures import described, doubled

from attnlib.figures import universal as draw


def every_figure():
    states = [
        np.array([10, 1, 5, 6]),
        np.array([10, 28, 5, 6]),
        np.array([1000, 2800, 700, 600]),
    ]
    t = np.linspace(0, 1, 40)
    return {
        "first": draw.ids_moving(states, ["a", "b", "c"], [None, 1, None], 3)[0],
        "moved": draw.ids_moving(states, ["a", "b", "c"], [None, 1, None], 3)[1],
        "errors": draw.errors([2, 4], [0.8, 0.4], [0.2, 0.1], 7.6, [24, 192]),
        "line": draw.line(t, {"a": np.sin(t), "b": np.cos(t), "c": 9 * t}, clip=1.5),
        "temperatures": draw.temperatures(
            [10, 20],
            {"a": [1, 0], "b": [1, 0.5], "c": [0, 1]},
            {"a": 50, "b": 60, "c": 70},
        ),
    }


@pytest.mark.parametrize("name", every_figure())
def test_figures_are_small_and_described(name):
    described(every_figure()[name])


@pytest.mark.parametrize(
    ("name", "least"), [("errors", 2), ("line", 3), ("temperatures", 6)]
)
def test_colours_are_doubled_by_mark_or_dash(name, least):
    for ax in every_figure()[name].axes:
        doubled(
            ax,
            min(
                least, 3 if name == "errors" and ax.get_ylabel() != "layers" else least
            ),
        )


def test_a_frame_marks_what_moved():
    frames = every_figure()
    assert (
        len(frames["moved"].axes[0].texts) == 5
        and len(frames["first"].axes[0].texts) == 4
    )
    assert [line.get_marker() for line in frames["first"].axes[0].lines] == [
        "o",
        "s",
        "^",
        "D",
    ]
