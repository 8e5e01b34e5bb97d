"""What the figures of notebooks/jl_low_rank/complexity_table draw."""

from __future__ import annotations

from functools import cache

import torch

from attnbook.data import load_result
from attnbook.figures import complexity as draw


@cache
def every_figure():
    result = load_result("complexity")["result"]
    return {
        "growth": draw.growth(result["n"], result["rows"]),
    }


def every_idea():
    triangle = torch.ones(6, 6).tril().bool()
    return {
        "masks": draw.masks({"dense": triangle, "no past": torch.eye(6).bool()}),
        "when_it_matters": draw.when_it_matters([100, 24 * 64, 9000], width=64),
        "rows_of_tokens": draw.rows_of_tokens(l=4, rows=3, reader=9),
        "growing_state": draw.growing_state([1, 3], d=2),
    }


def words(fig):
    return [text.get_text() for ax in fig.axes for text in (*ax.texts, ax.title)]


def test_numbers_in_the_ideas_are_counted():
    ideas = every_idea()
    assert "dense\n21 of 21 pairs" in words(ideas["masks"])
    assert "no past\n6 of 21 pairs" in words(ideas["masks"])
    assert "attention 80%" in words(ideas["when_it_matters"])  # n = 24 D
    assert {"4 numbers", "12 numbers", "6 numbers"} < set(words(ideas["growing_state"]))


def test_a_token_reads_its_row_and_its_column():
    squares = every_idea()["rows_of_tokens"].axes[0].patches
    edges = [square.get_edgecolor() for square in squares]
    near = [i for i, edge in enumerate(edges) if edge == edges[8]]
    column = [i for i, edge in enumerate(edges) if edge == edges[1]]
    assert near == [5, 6, 7, 8] and column == [1]


def test_sort_and_chunk_shows_what_a_cut_hides():
    frames, labels = draw.sort_and_chunk("AAAAAB", chunk=2)
    assert len(frames) == len(labels) == 5
    rank = {token: token for token in range(6)}
    pairs = draw._readings("AAAAAB", rank, 2)
    assert (3, 0) in pairs and (4, 1) not in pairs and (5, 4) not in pairs
    assert len(frames[3].axes[0].patches) == 6 + len(pairs) + 3


def test_a_ring_stands_at_each_crossover():
    result = load_result("complexity")["result"]
    rings = [
        line
        for line in every_figure()["growth"].axes[0].lines
        if line.get_markersize() == 11
    ]
    crossed = []
    for row in draw.MARKS:
        crossover = result["rows"].get(row, {}).get("crossover")
        if crossover and crossover > result["n"][0]:
            crossed.append(row)
    assert len(rings) == len(crossed) >= 4


def test_the_stored_result_is_whole():
    stored = load_result("complexity")
    result = stored["result"]
    assert len(set(draw.MARKS) & set(result["rows"])) >= 11
    assert stored["about"]["threads"] == 1
    assert result["cuda"] == "not run"
    for row in result["rows"].values():
        assert (
            len(row["ms"]) == len(row["flops"]) == len(row["bytes"]) == len(result["n"])
        )
        assert all(low <= middle <= high for low, middle, high in row["ms"])
