"""What the figures of notebooks/what_came_after/bits_of_a_tile draw."""

from __future__ import annotations

from attnbook.figures import tile as draw


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
