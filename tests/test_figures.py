"""Figures: small, described, and readable without scripts."""

from __future__ import annotations

import base64
import re
from fractions import Fraction
from functools import cache

import pytest
import torch

from attnbook import figures
from attnbook.figures import collapse as collapsed
from attnbook.figures import paths as draw
from attnlib.attention import random_layers
from attnlib.paths import path_counts, path_sums

ALT = "A figure for the tests, described in one sentence that is long enough."


def sums():
    g = torch.Generator().manual_seed(0)
    layers = random_layers(3, 2, 6, 3, dtype=torch.float64, generator=g)
    return path_sums(
        torch.randn(4, 6, dtype=torch.float64, generator=g), layers, skip=True
    ).by_length


def images(html: str) -> list[bytes]:
    return [
        base64.b64decode(data)
        for data in re.findall(r'src="data:image/[a-z+]+;base64,([^"]+)"', html)
    ]


def described(fig) -> None:
    """The figure is one image of a fair size, with its text, and each axis that is
    drawn says what it is.
    """
    html = figures.show(fig, alt=ALT).data
    assert html.startswith("<figure") and f'alt="{ALT}"' in html
    (image,) = images(html)
    assert 2_000 < len(image) < 200_000
    for ax in fig.axes:
        assert not ax.axison or (ax.get_xlabel() and ax.get_ylabel())


def doubled(
    ax, least: int, way=lambda line: (line.get_marker(), str(line.get_linestyle()))
) -> None:
    """The curves of the legend, `least` or more, differ by mark or dash and not by
    colour alone.
    """
    ways = [way(line) for line in ax.lines if not line.get_label().startswith("_")]
    assert len(set(ways)) == len(ways) >= least


@cache
def every_figure():
    by_length = sums()
    norms = by_length.flatten(1).norm(dim=1)
    single = [[1.0], [1.0, 2.0], [0.5, 1.5, 2.0]]
    estimates = torch.tensor([[1.0, 3.1, 4.2], [1.0, 2.8, 3.9]])
    c = torch.linspace(0, 1, 5)
    return {
        "network": draw.network(3, 2, (0, None, 1)),
        "two_sides": draw.two_sides(),
        "tip_to_tail": draw.tip_to_tail(by_length[..., :2], 0),
        "profile": draw.profile(
            path_counts([2] * 3, skip=True), norms, [[1.0], [1.0], [2.0, 3.0], [0.5]]
        ),
        "estimators": draw.estimators(
            single, estimates, work=24, generator=torch.Generator().manual_seed(0)
        ),
        "recomputed": draw.recomputed(c, c, c / 2),
        "digits": collapsed.digits(
            torch.tensor([1.0, -5.0, -20.0]), torch.tensor([1.0, -3.0, -9.0])
        ),
        "two_on_a_line": collapsed.two_on_a_line([1.0, 0.1, 1e-4], [1.0, 0.3, 0.1]),
        "shared_weights": collapsed.shared_weights(
            torch.tensor([0.5, 0.5]), torch.tensor([0.2, 0.8])
        ),
        "contraction": collapsed.contraction(c + 0.1, c / 9 + 0.01, c + 0.2, c + 0.05),
        "floors": collapsed.floors(
            {"a": -c, "b": c, "c": torch.full((5,), -torch.inf)}, -c
        ),
        "constants": collapsed.constants([10, 100], [0.5, 1.0], [0.1, 0.5]),
    }


@pytest.mark.parametrize("name", every_figure())
def test_figures_are_small_and_described(name):
    described(every_figure()[name])


def test_the_same_figure_is_the_same_file():
    first, second = (
        figures.show(draw.network(3, 2, (0, None, 1)), alt=ALT).data for _ in range(2)
    )
    assert first == second


def test_colours_are_doubled_by_mark_or_dash():
    for fig in (
        every_figure()["profile"],
        every_figure()["estimators"],
        every_figure()["recomputed"],
    ):
        for ax in fig.axes:
            ways = [(line.get_marker(), line.get_linestyle()) for line in ax.lines]
            assert len(set(ways)) == len(ways)


def test_many_marks_become_pixels():
    fig, ax = figures.new()
    ax.plot(range(3000), range(3000), "o")
    assert "image/png" in figures.show(fig, alt=ALT).data


def test_slider_stands_without_scripts_and_needs_no_network():
    frames, labels = draw.adding_up(Fraction(1, 2), Fraction(1, 3))
    html = figures.slider(frames, labels, alt=ALT).data
    pictures = re.findall(r"<img [^>]*>", html)
    assert len(pictures) == 6 and len(images(html)) == 6
    assert [i for i, p in enumerate(pictures) if " hidden" not in p] == [3]
    assert all(f"Shown: {label}." in p for label, p in zip(labels, pictures))
    assert "<label hidden>" in html and 'type="range"' in html
    assert "http" not in re.sub(r'src="data:[^"]*"', "", html)
    words = [frame.axes[1].get_xlabel() for frame in frames]
    assert words[1].endswith("so far 3/2") and words[-1].endswith("so far 2")


@pytest.mark.bad_input
def test_bad_input():
    fig, _ = figures.new()
    with pytest.raises(ValueError, match="alt must say"):
        figures.show(fig, alt="a plot")
    with pytest.raises(ValueError, match="two or more frames"):
        figures.slider([fig], ["one"], alt=ALT)
    with pytest.raises(ValueError, match="a label for each"):
        figures.slider([fig, fig], ["one"], alt=ALT)
