"""The figures of notebooks/jl_low_rank/spectra_and_linformer: small, described, and
readable without colour.
"""

from __future__ import annotations

from functools import cache

import pytest
import torch
from test_figures import described, doubled

from attnbook.figures import lowrank as draw


@cache
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
    copies, _ = draw.copies(torch.softmax(3 * torch.eye(12), -1), [1, 4])
    return {
        "mixing": draw.mixing(4, 2),
        "copy": copies[1],
        "landing": draw.landing(16, 64, 0.5),
        "triangle": draw.triangle(),
        "circle": draw.circle(5),
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
    drawn_as_a_picture = name in ("mixing", "triangle", "circle")
    assert all(ax.axison != drawn_as_a_picture for ax in fig.axes)


@pytest.mark.parametrize("name", ["spectra", "products", "losses"])
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


def test_a_copy_says_what_it_loses():
    """Rank 1 of a matrix with singular values 3 and 4: it loses 3/5."""
    frames, labels = draw.copies(torch.diag(torch.tensor([3.0, 4.0])), [1])
    titles = [ax.get_title() for ax in frames[0].axes]
    assert titles == ["the head", "rank 1", "1 kept, error 60%"]
    assert labels == ["rank 1 of 2"]


def test_a_key_on_the_circle_is_filled_if_a_query_chose_it():
    ax = draw.circle(7).axes[0]
    won, missed = (line for line in ax.lines if line.get_label().startswith("key"))
    assert len(won.get_xdata()) + len(missed.get_xdata()) == 7
    assert won.get_markerfacecolor() != missed.get_markerfacecolor() == "white"
