"""The figures of notebooks/what_came_after/layers_or_steps: small, described, readable
without colour.
"""

from __future__ import annotations

from test_figures import described, doubled

from attnbook.figures import hops as draw


def test_the_measurement_is_described_and_doubled():
    fig = draw.sharpness([1.0, 2.0], [0.1, 0.01], [1.0, 0.1], enough=1.5, harmless=0.2)
    described(fig)
    doubled(fig.axes[0], 4)


def test_cards_say_their_pointers_and_hops():
    fig = draw.chain_of_cards("ABC", [1, 2, 0], hops=2)
    words = [text.get_text() for text in fig.axes[0].texts]
    assert words[:6] == ["A", "B", "B", "C", "C", "A"]
    assert "hop 1" in words and "hop 2" in words and "hop 3" not in words


def test_frames_double_and_the_result_arrives():
    frames, labels = draw.doubling(k=6, layers=3)
    assert len(frames) == 4
    assert labels == [
        "at the start: pointer 1, result 1 ahead",
        "after 1 layer: pointer 2, result 2 ahead",
        "after 2 layers: pointer 4, result 2 ahead",
        "after 3 layers: pointer 8, result 6 ahead",
    ]


def test_ideas_are_drawn_with_words():
    assert len(draw.ladder_or_walk(k=6).axes) == 2
    assert "layers: 3" in draw.ladder_or_walk(k=6).axes[0].get_title()
    assert draw.third_hop().axes[0].texts
    assert len(draw.from_both_sides().axes) == 2
