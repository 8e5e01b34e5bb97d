"""The figures of notebooks/synthesis/five_theorems_one_matrix: small, described, and
readable without colour.
"""

from __future__ import annotations

import pytest
import torch
from test_figures import described, doubled

from attnlib.figures import synthesis as draw


def every_figure():
    p = torch.softmax(torch.eye(6, dtype=torch.float64) * 3, -1)
    r = torch.linspace(0.1, 3, 5)
    return {
        "five": draw.five(p, r, r, r / 2, p > 0.1, [0.2, 0.7, 1.0], r),
        "scale": draw.scale(
            r,
            (-2 * r).exp(),
            {"heads": ([1.0, 2.0], [0.5, 0.1]), "logits": ([1.5], [0.3])},
            2.0,
        ),
        "bits": draw.bits(
            {"a": (3.0, 4.0), "b": (20.0, 1e7)}, {"b": (11.0, 20.0)}, (8, 16)
        ),
    }


@pytest.mark.parametrize("name", every_figure())
def test_figures_are_small_and_described(name):
    fig = every_figure()[name]
    described(fig)
    assert all(ax.axison for ax in fig.axes)


@pytest.mark.parametrize(
    "name, panel, curves", [("five", 2, 3), ("scale", 0, 4), ("bits", 0, 3)]
)
def test_colours_are_doubled_by_mark_or_dash(name, panel, curves):
    doubled(every_figure()[name].axes[panel], curves)
