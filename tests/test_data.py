"""Stored results: written whole with their provenance, and read by name."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from attnlib import data

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


@pytest.mark.bad_input
@pytest.mark.parametrize("name", ["nothing", "../secret", "", 3])
def test_a_name_that_is_not_stored_is_refused(name):
    with pytest.raises(ValueError, match="no stored result|must be a word"):
        data.load_result(name)
