"""The figures of notebooks/jl_low_rank/spectra_and_linformer: small, described, and
readable without colour.
"""

from __future__ import annotations

import pytest
import torch
from test_figures import described, doubled

from attnlib.figures import lowrank as draw


def every_figure():
    sigma = 0.9 ** torch.arange(64.0)
    ranks, errors = (
        [8, 16, 32],
        {
            "projection": [3.0, 2.0, 1.0],
            "sampled": [2.5, 1.5, 0.9],
            "SVD": [0.8, 0.6, 0.4],
        },
    )
    return {
        "spectra": draw.spectra({"a": sigma, "b": sigma**2, "c": 0 * sigma}),
        "products": draw.products(ranks, errors, [3.1, 2.1, 1.1]),
        "losses": draw.losses(
            ranks, [[2.6, 2.7], [2.5, 2.4], [2.2, 2.3]], [1.8, 1.9], [2.9, 3.0]
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
        doubled(
            ax,
            2,
            lambda line: (
                line.get_marker(),
                str(line.get_linestyle()),
                line.get_label() == "law (7.6)",
            ),
        )
