"""What the figures of notebooks/sparse_universality/copying_task draw."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch

from attnbook.data import load_result
from attnbook.figures import copying as draw
from attnlib import copying


@cache
def every_figure():
    variants = [
        {
            "pattern": p,
            "w": i,
            "layers": 2,
            "scheme": "union",
            "runs": [
                {
                    "sparsity": 0.1 * i,
                    "accuracy": 0.1 * i - 0.02 * s,
                    "bound": 0.1 * i,
                }
                for s in range(3)
            ],
        }
        for p in ("strided", "fixed", "random")
        for i in (3, 4, 5)
    ]
    return {
        "ladder": draw.ladder(variants),
        "by_sparsity": draw.by_sparsity([("left", variants), ("right", variants)]),
        "narrow": draw.narrow(),
    }


def test_what_is_heard_grows_until_the_answer_is():
    """Frame by frame: what the words say, and how many inputs are marked as heard."""
    frames, labels = draw.hearing()
    assert labels == [
        "window, 1 layer",
        "window, 2 layers",
        "window, 3 layers",
        "strided, 1 layer",
        "strided, 2 layers",
    ]
    for frame, answered, inputs in zip(
        frames, (0, 0, 1, 0, 1), (4, 7, 10, 7, 15), strict=True
    ):
        said = " ".join(text.get_text() for text in frame.axes[0].texts)
        assert ("is heard" in said) == answered
        lit = [
            line
            for line in frame.axes[0].lines
            if line.get_marker() == "o"
            and line.get_markerfacecolor() == draw.BLUE
            and line.get_ydata()[0] == 0
        ]
        assert len(lit) == inputs


def test_states_that_carry():
    """Fixed has two carriers for seven symbols, strided seven."""
    fixed, strided = every_figure()["narrow"].axes
    for ax, mark, count in ((fixed, "^", 2), (strided, "s", 7)):
        assert sum(line.get_marker() == mark for line in ax.lines) == count


def test_labels_and_what_is_drawn():
    star = {"pattern": "star", "w": 0, "layers": 4, "scheme": "multihead"}
    assert (
        draw.label(star) == "star, L=4, M"
        and draw.label({**star, "w": 16, "scheme": "sequential"}) == "star 16, L=4, S"
    )
    figures = every_figure()
    marks = [
        line for line in figures["ladder"].axes[0].lines if line.get_marker() == "s"
    ]
    assert [list(line.get_xdata()) for line in marks] == [
        pytest.approx([0.1 * i, 0.1 * i - 0.02, 0.1 * i - 0.04]) for i in (3, 4, 5)
    ]
    lines = figures["by_sparsity"].axes[0].lines
    means = next(line for line in lines if line.get_label() == "strided")
    assert list(means.get_xdata()) == pytest.approx([0.3, 0.4, 0.5]) and list(
        means.get_ydata()
    ) == pytest.approx([0.28, 0.38, 0.48])
    dashes = [line for line in lines if line.get_linestyle() == "--"]
    assert len(dashes) == 9 and list(dashes[0].get_ydata()) == pytest.approx([0.3, 0.3])


def test_the_stored_result_is_whole():
    stored = load_result("copying")
    result, settings = stored["result"], stored["about"]["settings"]
    assert stored["about"]["threads"] == 1 and len(settings["text"]["sha256"]) == 64
    assert {
        "copying",
        "longer",
        "mixers",
        "masked",
        "language",
        "mixers_on_text",
    } <= set(result)
    assert set(settings["records"]) == set(result)
    for name, part in result.items():
        own = settings["records"][name]
        total = sum(run["cpu_seconds"] for variant in part for run in variant["runs"])
        assert own["command"].startswith("python copying.py") and own[
            "cpu_seconds"
        ] == round(total, 1)
        for variant in part:
            assert [run["seed"] for run in variant["runs"]] == settings["seeds"]
            for run in variant["runs"]:
                assert (
                    len(run["weights"]) == 64
                    and len(run["curve"]) >= 10
                    and 0 <= run["accuracy"] <= 1
                )


def test_no_stored_run_exceeds_its_ceiling():
    result = load_result("copying")["result"]
    runs = [
        run
        for part in result.values()
        for variant in part
        for run in variant["runs"]
        if "ceiling" in run
    ]
    assert len(runs) >= 60 and all(run["accuracy"] <= run["ceiling"] for run in runs)


@pytest.mark.parametrize(
    ("part", "m", "symbols"), [("copying", 15, 16), ("full", 127, 127)]
)
def test_the_stored_bounds_are_those_of_the_fields(part, m, symbols):
    for variant in load_result("copying")["result"][part]:
        for run in variant["runs"]:
            hit = torch.arange(m) < run["reached"]
            assert run["bound"] == float(copying.bound(hit, symbols))


def test_the_runs_of_full_size_are_of_one_kind():
    """The same settings for all cases, a whole curve for each run, no case twice, and
    each with the commit it ran at.
    """
    stored = load_result("copying")
    own, part = (
        stored["about"]["settings"]["records"]["full"]["settings"],
        stored["result"]["full"],
    )
    assert (own["m"], own["symbols"], own["batch"], own["width"], own["tied"]) == (
        127,
        127,
        16,
        64,
        True,
    )
    assert len({draw.label(v) for v in part}) == len(part) >= 6
    for variant in part:
        assert len(variant["commit"]) == 12
        for run in variant["runs"]:
            assert len(run["curve"]) * 20 == own["steps"] and run["cpu_seconds"] > 1
            assert run["curve"][0] == pytest.approx(math.log(127), abs=0.3)
