"""What the figures of notebooks/what_came_after/layers_or_steps draw."""

from __future__ import annotations

from attnbook.figures import hops as draw


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
