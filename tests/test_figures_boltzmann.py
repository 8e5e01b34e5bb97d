"""The figures of notebooks/one_layer_memorization/boltzmann_and_hardmax: small,
described, and readable without colour.
"""

from __future__ import annotations

import pytest
import torch
from test_figures import described, doubled

from attnlib.figures import boltzmann as draw


def every_figure():
    x = torch.linspace(0, 3, 50, dtype=torch.float64)
    return {
        "near_miss": draw.near_miss(x, x.cos(), 1.57),
        "slices": draw.slices(x, {"2": x, "4": x**2, "16": x.sin()}, (0.0, 1.0, 2.0)),
        "tightness": draw.tightness(
            {"a": ([10.0, 20.0], [1.1, 3.0]), "b": ([15.0], [1e9])}
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
        doubled(ax, 2)


def test_ratios_are_drawn_by_their_logarithm():
    ax = draw.tightness({"a": ([10.0], [100.0])}).axes[0]
    assert ax.lines[0].get_ydata().tolist() == [2.0]
