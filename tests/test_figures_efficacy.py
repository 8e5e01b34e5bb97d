"""The figures of notebooks/path_decomposition/path_efficacy: small, described, and
readable without colour.
"""

from __future__ import annotations

import pytest
import torch
from test_figures import ALT, doubled, images

from attnlib import figures
from attnlib.figures import efficacy as draw


def every_figure():
    alone = torch.tensor([[0.1, 0.8, 0.5], [0.2, 0.7, 0.6]])
    task = {"length": alone, "whole": [0.9, 0.95], "guess": 0.3}
    way = [[0.3, 0.0, -0.3, 0.0], [0.2, 0.1, -0.2, -0.1], [0.1, 0.1, -0.1, -0.1]]
    return {
        "length_laws": draw.length_laws({"a": (3, 2), "b": (12, 12), "c": (2, 5)}),
        "by_length": draw.by_length({"one": task, "two": task}),
        "drawn": draw.drawn({"all": alone, "20 paths": alone / 2}, 0.9),
        "circle": draw.circle(
            {
                "pure": {"near": way, "opposite": way},
                "skip": {"near": way, "opposite": way},
            }
        ),
    }


@pytest.mark.parametrize("name", every_figure())
def test_figures_are_small_and_described(name):
    fig = every_figure()[name]
    (image,) = images(figures.show(fig, alt=ALT).data)
    assert 2_000 < len(image) < 200_000
    assert fig.axes[0].get_ylabel()
    assert name == "circle" or all(ax.get_xlabel() for ax in fig.axes)


@pytest.mark.parametrize("name", ["length_laws", "by_length"])
def test_colours_are_doubled_by_mark_or_dash(name):
    for ax in every_figure()[name].axes:
        doubled(ax, 2)


@pytest.mark.parametrize("name", ["circle", "drawn"])
def test_two_things_have_two_marks(name):
    ax = every_figure()[name].axes[0]
    assert {line.get_marker() for line in ax.lines} >= {"o", "s"}


def test_the_law_is_a_share():
    """All skipped layers of a small network are shown, and the shares add up to one."""
    line = draw.length_laws({"a": (3, 2)}).axes[0].lines[0]
    assert sum(line.get_ydata()) == pytest.approx(1)
    assert list(line.get_ydata()) == pytest.approx([8 / 27, 12 / 27, 6 / 27, 1 / 27])
