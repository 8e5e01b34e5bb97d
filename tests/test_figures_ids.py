"""What the figures of notebooks/one_layer_memorization/contextual_mapping draw."""

from __future__ import annotations

import math
from functools import cache

import torch

from attnbook.figures import ids as draw


@cache
def every_figure():
    frames, labels = draw.ids(
        torch.tensor([-1.0, 0.5, 2.0, 3.0]), 2, {0.0: -math.inf, 1.0: -2.0}
    )
    assert labels == ["beta = 0", "beta = 1"]
    three = {"A": (1.6, 0.1), "B": (0.1, 1.7), "C": (-0.9, -0.9)}
    words = ["aab", "aac", "abb", "bcd", "bdd"]
    return {
        "directions": draw.directions(three, 0.05),
        "dictionary": draw.dictionary(words, {"a": 7, "b": 19, "c": 2}),
        "ids at 0": frames[0],
    }


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
