"""What the figures of notebooks/path_decomposition/four_questions draw."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import torch

from attnbook.figures import questions as draw


@cache
def every_figure():
    t = torch.linspace(0, 6, 30)
    frames, _ = draw.ranks_and_fates(2)
    falls = torch.tensor([9.0, 1.0])
    grows = torch.tensor([0.1, 2.0])
    return {
        "two_fates": draw.two_fates(falls, grows, [(0.01, 1.0), (55.0, 3.0)]),
        "turned_round": draw.turned_round((Fraction(2, 3), Fraction(1, 3)), 1.2),
        "dented": draw.dented(t, 1 + t.sin().abs(), detour=5.66, direct=9.0),
    }


def words(fig):
    found = [text.get_text() for ax in fig.axes for text in ax.texts]
    return " ".join(found + [ax.get_title() for ax in fig.axes])


def test_the_words_of_a_picture_are_its_numbers():
    figures = every_figure()
    assert "w$ = 55, $v$ = 3" in words(figures["two_fates"])
    assert "ends at 1/3" in words(figures["turned_round"])
    assert "straight: 9.00" in words(figures["dented"])
    assert "by the detour: 5.66" in words(figures["dented"])


def test_each_frame_says_where_it_is():
    frames, labels = draw.ranks_and_fates(3)
    assert labels == ["the input", "after layer 1", "after layer 2", "after layer 3"]
    for l, size in enumerate(("1", "1/2", "1/4", "1/8")):
        assert f"distances: {size} " in words(frames[l])
