"""The figures of notebooks/path_decomposition/four_questions: small, described, and
readable without colour.
"""

from __future__ import annotations

import pytest
import torch
from test_figures import described, doubled

from attnlib.figures import questions as draw


def every_figure():
    t = torch.linspace(0, 1, 5)
    return {
        "two_fates": draw.two_fates([14.0, 1.0, 1e-3], [0.1, 0.2, 0.4, 0.9]),
        "chord": draw.chord(t, 1 + t * (1 - t), (1.0, 1.0), 1.06),
        "toy_map": draw.toy_map((1.0, 1.3), 1.6, (0.9, 1.12)),
        "contraction": draw.contraction(t + 0.1, t / 9 + 0.01, t + 0.2, t / 4 + 0.05),
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
