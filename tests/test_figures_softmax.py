"""What the figures of notebooks/sparse_universality/from_integers_to_softmax draw."""

from __future__ import annotations

import math
from functools import cache

from attnbook.figures import softmax as draw

BETAS = [(1.0, "soft"), (math.inf, "hardmax")]


@cache
def every_figure():
    bars, _ = draw.sharper([2, 1.5, 1], BETAS)
    return {
        "sharper": bars[0],
        "thin_set": draw.thin_set(4, 0.1),
    }


def words(fig):
    found = [text.get_text() for ax in fig.axes for text in ax.texts]
    return " ".join(found + [ax.get_title() for ax in fig.axes])


def test_the_words_of_a_picture_are_its_numbers():
    figures = every_figure()
    e = math.exp
    leaked = (e(1.5) + e(1)) / (e(2) + e(1.5) + e(1))
    assert f"the others get {leaked:.2g} together" in words(figures["sharper"])
    assert "strips fill 19%" in words(figures["thin_set"])


def test_hardmax_leaks_nothing():
    bars, labels = draw.sharper([2, 1.5, 1], BETAS)
    assert labels == ["soft", "hardmax"]
    assert "get 0 together" in words(bars[1])


def test_four_relus_make_a_window():
    frames, _ = draw.relu_by_relu(0.25)
    curve = frames[-1].axes[0].lines[1]
    at = dict(zip(curve.get_xdata().round(3), curve.get_ydata().round(9)))
    assert [at[x] for x in (-1.0, -0.75, -0.5, 0.0, 0.25, 0.5, 1.0)] == [
        0,
        0,
        1,
        1,
        1,
        0,
        0,
    ]
