"""What the figures of notebooks/what_came_after/cache draw."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex

from attnbook.figures import BLUE, VERMILLION
from attnbook.figures import cache as draw


def words(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def faces(ax, color: str) -> int:
    """How many cells of a colour there are."""
    return sum(to_hex(patch.get_facecolor()) == color.lower() for patch in ax.patches)


@pytest.mark.parametrize(("bits", "shared"), [(4, 1), (3, 2), (2, 4), (1, 8)])
def test_the_drawers_hold_sixteen_lists(bits, shared):
    """Of four squares each, half of them blue; and one blue square in the legend."""
    (frame,), (label,) = draw.drawers([bits])
    assert f": {2**bits} drawers for 16 lists" in label
    assert faces(frame.axes[0], BLUE) == 16 * 4 / 2 + 1
    said = words(frame.axes[0])[0]
    wanted = f"vermillion: {shared} lists" if shared > 1 else "every list has"
    assert said.startswith(wanted)
    framed = [p for p in frame.axes[0].patches if p.get_linewidth() == 2.6]
    assert len(framed) == shared * (4 - bits)  # the places in which these lists differ


def test_what_is_left_of_a_pull():
    """0.8 less the 0.2 that all others can pull back."""
    said = " ".join(words(draw.tug(0.8).axes[0]))
    for part in ("apart: 0.80", "at most: 0.20", "any case:\n0.60"):
        assert part in said


def test_ways_keep_less_than_the_whole():
    """Of 32 cells: all, by groups eight tokens twice, the last three tokens."""
    whole, groups, latent, window, sums, text = draw.ways().axes
    assert [faces(ax, BLUE) for ax in (whole, groups, window)] == [32, 16, 12]
    assert faces(sums, VERMILLION) == 4
