"""The figures of notebooks/sparse_universality/from_integers_to_softmax: small,
described, and readable without colour.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch
from test_figures import described, doubled

from attnbook.figures import softmax as draw

BETAS = [(1.0, "soft"), (math.inf, "hardmax")]


@cache
def every_figure():
    t = np.linspace(0, 1, 40)
    x = torch.linspace(0, 1, 40, dtype=torch.float64)
    places = torch.tensor([0.25, 0.75], dtype=torch.float64)
    bars, _ = draw.sharper([2, 1.5, 1], BETAS)
    bends, _ = draw.relu_by_relu(0.25)
    tables, _ = draw.reading(x, x, places, places, 0.4, [(16.0, "so sharp")])
    return {
        "line": draw.line(t, np.sin(t), np.cos(t), 9 * t, clip=1.5),
        "sharper": bars[0],
        "temperatures": draw.temperatures(
            [10, 20],
            {"a": [1, 0], "b": [1, 0.5], "c": [0, 1]},
            {"a": 50, "b": 60, "c": 70},
        ),
        "relu_by_relu": bends[1],
        "thin_set": draw.thin_set(4, 0.1),
        "turned_round": draw.turned_round(),
        "reading": tables[0],
    }


@pytest.mark.parametrize("name", every_figure())
def test_figures_are_small_and_described(name):
    described(every_figure()[name])


def test_colours_are_doubled_by_mark_or_dash():
    for ax in every_figure()["temperatures"].axes:
        doubled(ax, 6)


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
