"""The figures of the pages on exact memorization and on the reviewers' questions:
small, described, readable without colour.
"""

from __future__ import annotations

import pytest
import torch
from test_figures import described, doubled

from attnlib.figures import memorization, reviewers


def every_figure():
    t = torch.linspace(0, 1, 5)
    points = torch.linspace(-0.1, 1, 30)
    slopes = {
        f"θ = {theta}": torch.linspace(1, 9, 12) * theta
        for theta in (0.4, 0.5, 0.6, 1.0)
    }
    sizes = (64, 256, 1024)
    widths = {
        f"{kind}, N = {n}": [[0.1 * k + 0.3, 0.1 * k + 0.4] for k in range(3)]
        for kind in ("frozen", "trained")
        for n in (50, 100)
    }
    return {
        "networks": memorization.networks(
            t, 3 * t, points, {"solid": points, "dashed": 2 * points}
        ),
        "growth": memorization.growth(slopes, {"θ = 0.6": 5.0, "θ = 1.0": 1.0}),
        "parameters": memorization.parameters(
            [10, 100], [20, 200], [90, 150], [100.0, 200.0]
        ),
        "accuracies": reviewers.accuracies(
            {
                "no attention": [0.3, 0.31],
                "frozen random": [0.5, 0.4],
                "trained, rank 1": [0.6, 0.7],
            }
        ),
        "widths": reviewers.widths(sizes, widths, {"400 ids": 400, "800 ids": 800}),
        "rate": reviewers.rate((8, 16), [0.04, 0.02], [0.2, 0.1], [0.4, 0.2]),
    }


@pytest.mark.parametrize("name", every_figure())
def test_figures_are_small_and_described(name):
    fig = every_figure()[name]
    described(fig)
    assert all(ax.axison for ax in fig.axes)


LINES = {
    "networks": 3,
    "growth": 4,
    "parameters": 3,
    "accuracies": 1,
    "widths": 6,
    "rate": 3,
}


@pytest.mark.parametrize(("name", "least"), LINES.items())
def test_colours_are_doubled_by_mark_or_dash(name, least):
    for ax in every_figure()[name].axes:
        doubled(ax, least)


def test_a_bound_is_drawn_only_where_one_is_proved():
    dashed = [
        line
        for line in every_figure()["growth"].axes[0].lines
        if line.get_linestyle() == "--"
    ]
    assert [line.get_ydata()[0] for line in dashed] == [5.0, 1.0]


def test_every_run_is_a_mark_in_the_row_of_its_model():
    ax = every_figure()["accuracies"].axes[0]
    names = [label.get_text() for label in ax.get_yticklabels()]
    marks = [line for line in ax.lines if line.get_marker() != "None"]
    rows = {names[int(line.get_ydata()[0])]: list(line.get_xdata()) for line in marks}
    assert rows == {
        "no attention": [0.3, 0.31],
        "frozen random": [0.5, 0.4],
        "trained, rank 1": [0.6, 0.7],
    }


def test_the_ids_stand_at_their_width():
    upright = [
        line
        for line in every_figure()["widths"].axes[0].lines
        if line.get_label().endswith("ids")
    ]
    assert [line.get_xdata()[0] for line in upright] == [400, 800]
