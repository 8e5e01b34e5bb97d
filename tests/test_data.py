"""Stored results: written whole with their provenance, and read by name."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from attnbook import data

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "book" / "_experiments"))
import store  # noqa: E402


def test_a_result_is_stored_with_what_made_it(tmp_path):
    path = store.write(
        "trial",
        {"loss": [1.5, 0.5]},
        settings={"seed": 0},
        seconds=1.26,
        folder=tmp_path,
    )
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["result"] == {"loss": [1.5, 0.5]}
    assert (
        stored["about"]["settings"] == {"seed": 0} and stored["about"]["seconds"] == 1.3
    )
    assert {"command", "versions", "hardware", "threads", "commit", "date"} <= set(
        stored["about"]
    )
    assert (
        stored["about"]["command"].startswith("python ")
        and str(tmp_path) not in stored["about"]["command"]
    )


def test_a_result_that_is_not_whole_leaves_the_old_one(tmp_path):
    store.write("trial", [1.0], settings={}, seconds=0, folder=tmp_path)
    with pytest.raises(ValueError):
        store.write("trial", [float("nan")], settings={}, seconds=0, folder=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["trial.json"]
    assert json.loads((tmp_path / "trial.json").read_text(encoding="utf-8"))[
        "result"
    ] == [1.0]


def faults_of_heads(model: dict) -> list[str]:
    """What is wrong with the stored maps of one model, trained and as it began."""
    shape = [len(layer) for layer in model["trained"]["share"]]
    faults = []
    for state in ("trained", "as it began"):
        for name in ("share", "largest", "overlap", "overlap of chance", "entries"):
            table = model[state].get(name, [])
            if [len(layer) for layer in table] != shape:
                faults.append(f"{state}, {name}: not every head")
        for name in ("share", "largest"):
            if not all(0 < x <= 1 for layer in model[state][name] for x in layer):
                faults.append(f"{state}: a {name} outside (0, 1]")
        if not all(0 <= x <= 1 for layer in model[state]["overlap"] for x in layer):
            faults.append(f"{state}: an overlap outside [0, 1]")
    if model["trained"]["share"] == model["as it began"]["share"]:
        faults.append("training changed nothing")
    if not model["scores"]:
        faults.append("no scores")
    return faults


@pytest.mark.parametrize("name", ["characters", "words", "digits"])
def test_the_stored_heads_are_whole(name):
    model = data.load_result("premise")["result"][name]
    assert faults_of_heads(model) == []
    for head in zip(model["trained"]["share"][0], model["trained"]["entries"][0]):
        assert head[0] * model["n"] == pytest.approx(head[1], abs=0.02)


@pytest.mark.bad_input
@pytest.mark.parametrize("name", ["nothing", "../secret", "", 3])
def test_a_name_that_is_not_stored_is_refused(name):
    with pytest.raises(ValueError, match="no stored result|must be a word"):
        data.load_result(name)
