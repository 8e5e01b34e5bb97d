"""What the figures of notebooks/sparse_universality/patterns_and_conditions draw."""

from __future__ import annotations

import pytest

from attnbook.figures import patterns as draw
from attnlib import patterns


@pytest.mark.parametrize("count", [1, 3, 5])
def test_masks_show_the_first_step_that_reads(count):
    fig = draw.masks({str(i): patterns.strided(9) for i in range(count)})
    assert sum(ax.axison for ax in fig.axes) == count
    image = fig.axes[0].images[0].get_array()
    assert (image == 1).sum() == patterns.strided(9).degrees(0).sum() and set(
        image.flatten().tolist()
    ) == {0, 1, 2}


def test_messages_fill_every_cake():
    ring = patterns.from_sets([[3], [0], [1], [2]])
    frames, labels = draw.messages(ring, 3)
    assert len(frames) == 4
    assert labels[0] == "after 0 layers: 4 of 16 slices"
    assert labels[1] == "after 1 layer: 8 of 16 slices"
    assert labels[3] == "after 3 layers: 16 of 16 slices"
    fresh = [w for w in frames[1].axes[0].patches if w.get_hatch()]
    assert len(fresh) == 4


def test_slots_hold_factors_where_something_stands():
    start = [[1.0, 0.0], [0.0, 1.0]]
    after = [[1.0, 0.5], [0.5, 1.0]]
    fig = draw.slots([start, after])
    words = [[t.get_text() for t in ax.texts if "x" in t.get_text()] for ax in fig.axes]
    assert words == [["$x_0$", "$x_1$"], ["$x_0$", "1/2 $x_1$", "1/2 $x_0$", "$x_1$"]]
