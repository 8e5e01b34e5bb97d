"""Figures: described, readable without colour and without scripts."""

from __future__ import annotations

import base64
import re
from fractions import Fraction

import pytest

from attnbook import figures
from attnbook.figures import paths as draw

ALT = "A figure for the tests, described in one sentence that is long enough."


def images(html: str) -> list[bytes]:
    return [
        base64.b64decode(data)
        for data in re.findall(r' src="data:image/[a-z+]+;base64,([^"]+)"', html)
    ]


def test_the_same_figure_is_the_same_file():
    first, second = (
        figures.show(draw.network(3, 2, (0, None, 1)), alt=ALT).data for _ in range(2)
    )
    assert first == second


def test_many_marks_become_pixels():
    fig, ax = figures.new()
    ax.plot(range(3000), range(3000), "o")
    ax.set(xlabel="place", ylabel="place")
    assert "image/png" in figures.show(fig, alt=ALT).data


def words_meet(figsize: tuple[float, float], *labels: str):
    fig, ax = figures.new(size=figsize)
    ax.set(xlabel="place", ylabel="place")
    for k, label in enumerate(labels):
        ax.text(k / len(labels), 0.5, label)
    return fig


def test_a_phone_gets_a_narrow_figure_unless_words_would_meet():
    """The narrow one is another drawing, with letters of the same size."""
    short = words_meet((6.0, 3.4), "one", "two")
    html = figures.show(short, alt=ALT).data
    assert html.count("<picture>") == html.count("<img ") == 1
    narrow = base64.b64decode(re.search(r'srcset="data:.*?base64,([^"]+)"', html)[1])
    assert b'width="288pt"' in narrow and b'width="432pt"' in images(html)[0]
    assert tuple(short.get_size_inches()) == (6.0, 3.4)
    long = words_meet((6.0, 3.4), "a label of more than thirty letters", "another")
    assert "<picture>" not in figures.show(long, alt=ALT).data
    assert "<picture>" not in figures.show(words_meet((3.0, 2.0)), alt=ALT).data


def test_slider_stands_without_scripts_and_needs_no_network():
    frames, labels = draw.adding_up(Fraction(1, 2), Fraction(1, 3))
    html = figures.slider(frames, labels, alt=ALT).data
    pictures = re.findall(r"<img [^>]*>", html)
    assert len(pictures) == 6 and len(images(html)) == 6
    assert [i for i, p in enumerate(pictures) if " hidden" not in p] == [3]
    assert all(f"Shown: {label}." in p for label, p in zip(labels, pictures))
    assert "<label hidden>" in html and 'type="range"' in html
    assert "http" not in re.sub(r'(src|srcset)="data:[^"]*"', "", html)
    words = [frame.axes[1].get_xlabel() for frame in frames]
    assert words[1].endswith("so far 3/2") and words[-1].endswith("so far 2")


@pytest.mark.bad_input
def test_bad_input():
    fig, _ = figures.new()
    with pytest.raises(ValueError, match="alt must say"):
        figures.show(fig, alt="a plot")
    fig, ax = figures.new()
    ax.plot([1, 2], "o-", label="one")
    ax.set_xlabel("time")
    with pytest.raises(ValueError, match="the y axis of the figure must say"):
        figures.show(fig, alt=ALT)
    ax.set_ylabel("place")
    ax.plot([2, 1], "o-", label="two")
    with pytest.raises(ValueError, match="'one' and 'two' must differ by mark"):
        figures.show(fig, alt=ALT)
    ax.lines[1].set_linestyle("--")
    assert "<img" in figures.show(fig, alt=ALT).data
    with pytest.raises(ValueError, match="two or more frames"):
        figures.slider([fig], ["one"], alt=ALT)
    with pytest.raises(ValueError, match="a label for each"):
        figures.slider([fig, fig], ["one"], alt=ALT)
