"""The figures of notebooks/jl_low_rank/complexity_table: small, described, readable
without colour, and the stored result.
"""

from __future__ import annotations

import pytest
from test_figures import described, doubled

from attnlib.data import load_result
from attnlib.figures import complexity as draw


def every_figure():
    result = load_result("complexity")["result"]
    return {
        "growth": draw.growth(result["n"], result["rows"]),
        "errors": draw.errors(result["accuracy"]["rows"]),
        "rounds": draw.rounds(
            [1, 2, 4], [0.5, 0.2, 0.1], [0.5, 0.4, 0.3], [0.5, 0.2, 0.1]
        ),
    }


@pytest.mark.parametrize("name", ["growth", "errors", "rounds"])
def test_figures_are_small_and_described(name):
    fig = every_figure()[name]
    described(fig)
    assert all(ax.axison for ax in fig.axes)


@pytest.mark.parametrize("name", ["growth", "rounds"])
def test_colours_are_doubled_by_mark_or_dash(name):
    doubled(every_figure()[name].axes[0], 2)


def test_a_ring_stands_at_each_crossover():
    result = load_result("complexity")["result"]
    rings = [
        line
        for line in every_figure()["growth"].axes[0].lines
        if line.get_markersize() == 11
    ]
    crossed = [
        row
        for row in draw.MARKS
        if (result["rows"][row]["crossover"] or 0) > result["n"][0]
    ]
    assert len(rings) == len(crossed) >= 4


def test_the_stored_result_is_whole():
    stored = load_result("complexity")
    result = stored["result"]
    assert (
        set(draw.MARKS) <= set(result["rows"])
        and stored["about"]["threads"] == 1
        and result["cuda"] == "not run"
    )
    for row in result["rows"].values():
        assert (
            len(row["ms"]) == len(row["flops"]) == len(row["bytes"]) == len(result["n"])
        )
        assert all(low <= middle <= high for low, middle, high in row["ms"])
