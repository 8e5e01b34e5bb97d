"""What the figures of notebooks/synthesis/five_theorems_one_matrix draw."""

from __future__ import annotations

from functools import cache

import torch

from attnbook import figures
from attnbook.figures import synthesis as draw


@cache
def every_figure():
    p = torch.softmax(torch.eye(6, dtype=torch.float64) * 3, -1)
    r = torch.linspace(0.1, 3, 5)
    frames, labels = draw.two_halves()
    assert len(frames) == len(labels)
    return {
        "five": draw.five(p, r, r, r / 2, p > 0.1, [0.2, 0.7, 1.0], r),
        "scale": draw.scale(
            r,
            (-2 * r).exp(),
            {"heads": ([1.0, 2.0], [0.5, 0.1]), "logits": ([1.5], [0.3])},
            2.0,
        ),
        "questions": draw.questions(),
        "kernel_vector": draw.kernel_vector(0.7),
        "halves": frames[2],
        "relay": draw.relay(),
        "clusters": draw.clusters([(0, 1), (2, 3)]),
    }


def words(name):
    return [text.get_text() for ax in every_figure()[name].axes for text in ax.texts]


def test_pictures_say_numbers_that_are_true():
    assert "0.7 - 0.3 = 0.4 is left;\nB leaves 0" in words("kernel_vector")
    assert words("relay")[1] == "16 connections\n2 layers"
    assert words("halves")[1] == "10% left"  # tanh(1/2)^3


def test_a_word_that_leaves_a_narrow_figure_is_seen_beside_axes_that_are_not_drawn():
    fig = draw.kernel_vector(0.8)
    assert figures._phone_width([fig]) == 4.0
    long = "a vector that B takes to zero; its largest entry is 1"
    fig.axes[0].set_title(long, loc="left")
    assert figures._phone_width([fig]) == 5.0
