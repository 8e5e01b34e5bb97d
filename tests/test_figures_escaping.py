"""The figures of notebooks/path_decomposition/escaping_collapse: small, described, and
readable without colour.
"""

from __future__ import annotations

import pytest
import torch
from test_figures import described, doubled

from attnlib.figures import escaping as draw


def every_figure():
    logs = torch.tensor([1.0, 0.5, -3.0, -20.0, -70.0])
    small = torch.tensor([0.6, 0.4, 1e-6, 1e-15])
    return {
        "speeds": draw.speeds(
            {"a": logs, "b": logs / 9, "c": logs / 8, "d": -logs / 99}
        ),
        "depth": draw.depth(
            [1 / (1 + l) for l in range(200)],
            [0.5 / (1 + l) for l in range(200)],
            [1.0, 0.1, 1e-3],
        ),
        "variants": draw.variants(
            {"a": small, "b": small / 2, "c": small + 0.1, "d": small + 0.2}, 1e-15
        ),
    }


@pytest.mark.parametrize("name", every_figure())
def test_figures_are_small_and_described(name):
    fig = every_figure()[name]
    described(fig)
    assert all(ax.axison for ax in fig.axes)


@pytest.mark.parametrize("name", every_figure())
def test_colours_are_doubled_by_mark_or_dash(name):
    for ax in every_figure()[name].axes:
        doubled(ax, 3)


def test_a_curve_ends_where_the_picture_ends():
    line = draw.speeds({"a": torch.tensor([1.0, -3.0, -20.0, -70.0])}).axes[0].lines[0]
    assert line.get_ydata().tolist() == [1.0, -3.0, -20.0]
