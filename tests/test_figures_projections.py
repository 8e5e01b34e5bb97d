"""What the figures of the page on random projections draw."""

from __future__ import annotations

import pytest
import torch

from attnbook import figures
from attnbook.figures import projections as draw

ALT = "A figure for the tests, described in one sentence that is long enough."


def test_the_house_keeps_its_distances_where_nothing_is_projected_away():
    """Large k: the vermillion roof lies on the grey one."""
    g = torch.Generator().manual_seed(0)
    fig = draw.house(2_000, (2_000,), generator=g)
    grey, _, vermillion, _ = fig.axes[1].lines
    assert abs(grey.get_ydata() - vermillion.get_ydata()).max() < 0.3


def test_the_sphere_has_the_radius_of_the_law():
    g = torch.Generator().manual_seed(0)
    frames, labels = draw.sphere(63, [4, 16], 0.5, draws=30, generator=g)
    assert labels == ["k = 4", "k = 16"]
    for frame, radius in zip(frames, (4.0, 2.0)):
        ax = frame.axes[0]
        circle, dots = ax.lines
        assert f"{radius:.2f}" in ax.get_title()
        assert circle.get_ydata().max() == pytest.approx(radius, rel=1e-3)
        assert dots.get_ydata().mean() == pytest.approx(radius, rel=0.2)


def test_the_slider_has_a_frame_for_each_size():
    p = torch.softmax(torch.arange(12.0), -1)
    frames, labels = draw.row(p, [2, 4], [p - 0.1, p + 0.05])
    assert labels == ["k = 2", "k = 4"] and len(frames) == 2
    assert "k = 4" in figures.slider(frames, labels, alt=ALT).data
    assert f"{float(0.1 * 12**0.5 / p.norm()):.2f}" in frames[0].axes[0].get_title()
