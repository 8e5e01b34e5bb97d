"""What the figures of notebooks/jl_low_rank/spectra_and_linformer draw."""

from __future__ import annotations

import torch

from attnbook.figures import lowrank as draw


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
