"""The figures of notebooks/sparse_universality/copying_task: small, described, readable without colour, and the stored result."""

from __future__ import annotations

import math

import pytest
import torch
from test_figures import described, doubled

from attnlib import copying, patterns
from attnlib.data import load_result
from attnlib.figures import copying as draw


def every_figure():
    field = copying.receptive_fields([patterns.causal(patterns.fixed(16, 3)).mask(1)])[-1]
    rows = [{"label": f"{p} {i}", "pattern": p, "bounds": [0.1 * i], "accuracies": [0.1 * i, 0.1 * i - 0.02],
             "sparsity": 0.1 * i, "scores": [0.1 * i, 0.1 * i - 0.02], "bound": 0.1 * i}
            for p in ("strided", "fixed", "random") for i in (3, 4, 5)]
    return {
        "fields": draw.fields([field, field], ["one", "two"], [copying.reached(field)] * 2),
        "ladder": draw.ladder(rows),
        "by_sparsity": draw.by_sparsity([("left", "accuracy", rows), ("right", "bits", rows)], bounds=True),
        "mixers": draw.mixers([("copying", "accuracy", {"AA": [1.0, 0.9], "AC": [0.5]}, {"AA": 1.0})]),
        "curves": draw.curves({"a": [[3.0, 2.0, 1.0]], "b": [[3.0, 2.5, 2.0]]}, 20, math.log(16)),
    }


@pytest.mark.parametrize("name", ["fields", "ladder", "by_sparsity", "mixers", "curves"])
def test_figures_are_small_and_described(name):
    described(every_figure()[name])


def test_colours_are_doubled_by_mark():
    doubled(every_figure()["curves"].axes[0], 2)
    assert len({mark for _, mark in draw.STYLES.values()}) == len({colour for colour, _ in draw.STYLES.values()}) == len(draw.STYLES)


def test_the_stored_result_is_whole():
    stored = load_result("copying")
    result, settings = stored["result"], stored["about"]["settings"]
    assert stored["about"]["threads"] == 1 and len(settings["text"]["sha256"]) == 64
    assert {"copying", "longer", "mixers", "masked", "language", "mixers_on_text"} <= set(result)
    assert set(settings["records"]) == set(result)
    for name, part in result.items():
        own = settings["records"][name]
        total = sum(run["cpu_seconds"] for variant in part for run in variant["runs"])
        assert own["command"].startswith("python copying.py") and own["cpu_seconds"] == round(total, 1)
        for variant in part:
            assert [run["seed"] for run in variant["runs"]] == settings["seeds"]
            for run in variant["runs"]:
                assert len(run["weights"]) == 64 and len(run["curve"]) >= 10 and 0 <= run["accuracy"] <= 1


def test_no_stored_run_exceeds_its_ceiling():
    result = load_result("copying")["result"]
    runs = [run for part in result.values() for variant in part for run in variant["runs"] if "ceiling" in run]
    assert len(runs) >= 60 and all(run["accuracy"] <= run["ceiling"] for run in runs)


def test_the_stored_bounds_are_those_of_the_fields():
    for variant in load_result("copying")["result"]["copying"]:
        for run in variant["runs"]:
            hit = torch.arange(15) < run["reached"]
            assert run["bound"] == float(copying.bound(hit, 16))
