"""The figures of notebooks/what_came_after/bits_of_a_tile: small, described, and
readable without colour.
"""

from __future__ import annotations

from test_figures import described

from attnbook.figures import tile as draw


def words(fig) -> str:
    return " ".join(text.get_text() for ax in fig.axes for text in ax.texts)


def test_ideas_are_drawn_with_words():
    assert "a message" in words(draw.list_and_mark())
    assert "layer 1" in words(draw.two_steps())


def test_lists_fall_into_the_holes_of_their_messages():
    frames, labels = draw.pigeonholes()
    assert len(frames) == len(labels) == 4
    for frame in frames:
        lists = [t for t in frame.axes[0].texts if t.get_bbox_patch() is not None]
        assert len(lists) == 8
    holes = {}
    for text in frames[1].axes[0].texts:
        if text.get_bbox_patch() is not None:
            spot = round(text.get_position()[0], 6)
            holes.setdefault(spot, []).append(text.get_text())
    assert sorted(map(len, holes.values())) == [1, 1, 3, 3]
    assert all(len({x.count("1") for x in found}) == 1 for found in holes.values())


def test_counts_are_described_and_stay_below_their_bounds():
    sizes = [4, 6, 8, 10]
    found = {"4 bits": [4.0, 6.0, 7.0, 7.5], "52 bits": [4.0, 6.0, 8.0, 10.0]}
    fig = draw.counted(sizes, found)
    described(fig)
    dashed = [line for line in fig.axes[0].lines if line.get_linestyle() == "--"]
    assert [line.get_ydata()[0] for line in dashed] == [8]
