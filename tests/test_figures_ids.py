"""The figures of notebooks/one_layer_memorization/contextual_mapping: small, described,
and readable without colour.
"""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from test_figures import described, doubled

from attnbook.figures import ids as draw


@cache
def every_figure():
    betas = [0.01, 0.1, 1.0, 10.0, 100.0]
    runs = {
        name: [[90 - k - 10 * i for i in range(5)] for _ in range(3)]
        for k, name in enumerate(("float64", "float32", "sparsemax"))
    }
    runs |= {"log10_gap": [[-7.0, -7.1, -7.5, -40.0, -400.0]] * 3, "hardmax": [3, 4, 5]}
    several = {
        how: {str(n): [n**-1.0, n**-1.1] for n in (300, 3000)}
        for how in ("1 heads", "2 heads", "4 heads", "2 layers", "rank 2")
    }
    frames, labels = draw.ids(
        torch.tensor([-1.0, 0.5, 2.0, 3.0]), 2, {0.0: -math.inf, 1.0: -2.0}
    )
    assert labels == ["beta = 0", "beta = 1"]
    three = {"A": (1.6, 0.1), "B": (0.1, 1.7), "C": (-0.9, -0.9)}
    words = ["aab", "aac", "abb", "bcd", "bdd"]
    return {
        "bank": draw.bank(),
        "directions": draw.directions(three, 0.05),
        "dictionary": draw.dictionary(words, {"a": 7, "b": 19, "c": 2}),
        "kept": draw.kept(betas, runs, 100),
        "ids at 0": frames[0],
        "ids at 1": frames[1],
        "bound": draw.bound(
            {0.1: -2.0, 10.0: -5.0, 30.0: -20.0, 100.0: -60.0},
            26.0,
            {30.0: -21.0, 100.0: -61.0},
        ),
        "heads": draw.heads(several),
    }


@pytest.mark.parametrize("name", every_figure())
def test_figures_are_small_and_described(name):
    fig = every_figure()[name]
    if name in ("bank", "directions", "dictionary"):  # without axes
        assert any(ax.texts for ax in fig.axes)
    else:
        described(fig)
        assert all(ax.axison for ax in fig.axes)


@pytest.mark.parametrize(("name", "least"), [("kept", 3), ("bound", 3), ("heads", 5)])
def test_colours_are_doubled_by_mark_or_dash(name, least):
    doubled(every_figure()[name].axes[-1], least)


def test_ids_of_a_token_stand_on_its_line():
    marks = [
        line
        for line in every_figure()["ids at 0"].axes[0].lines
        if line.get_marker() == "|"
    ]
    assert [sorted(line.get_xdata()) for line in marks][0] == [-0.25, 0.5, 1.0]


def test_sums_stand_beside_their_words():
    texts = [text.get_text() for text in every_figure()["dictionary"].axes[0].texts]
    assert "7 + 7 + 19 = 33" in texts and "19 + 0 + 0 = 19" in texts


def test_each_pair_of_tokens_and_zero_spoils_a_sector():
    circle = every_figure()["directions"].axes[1]
    named = {text.get_text() for text in circle.texts}
    assert {"A, B", "A, C", "B, C", "A, 0", "B, 0", "C, 0"} < named
    assert len(circle.patches) == 1 + 2 * 6
