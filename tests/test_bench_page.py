"""What the page of the benchmarks is made of: judged goals and tables; and
how two runs are compared.
"""

from __future__ import annotations

import importlib.util
import json
import re

import pages
import pytest
import torch

import bench
from attnbook.data import timings
from bench import goals, record, tables


def made(
    case="a case",
    *,
    job="sparse",
    device="cpu",
    ours=1.0,
    flop=4e9,
    moved=1e8,
    **seconds,
):
    """A record as compare makes it: ours, peers, a product at 10 GFLOP/s, a copy at 1
    GB/s, three rounds.
    """
    rates = {"limit matmul": 0.1, "limit copy": 0.1}
    times = {
        "ours": ours,
        **{name.replace("_", " "): t for name, t in seconds.items()},
        **rates,
    }
    return {
        "job": job,
        "case": case,
        "device": device,
        "sizes": {"density": 0.1},
        "rounds": 3,
        "flop": flop,
        "bytes": moved,
        "limits": {"limit matmul": {"flop": 1e9}, "limit copy": {"bytes": 1e8}},
        "seconds": {name: [t] * 3 for name, t in times.items()},
        "peak bytes": {"ours": 2**20},
        "worst error": {"ours": 5e-7},
        "not run": {"absent": "not run: absent is not installed"},
        "versions": {},
    }


GOAL = goals.Goal(1, "slow / ours", "sparse", "a case", goals.peer("slow"), 2.0)


def test_compare_tells_peers_floors_parts_and_limits_apart():
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    runs = {
        "ours": lambda: x @ x,
        "same": lambda: x @ x,
        "twice": lambda: 2 * (x @ x),
        "floor copy": x.clone,
        "part 1": x.clone,
    }
    made = {"fails": lambda: lambda: x @ x[:3]}
    truth = x.double() @ x.double()
    found = record.compare(
        "sparse",
        "a product",
        runs,
        made,
        device="cpu",
        rounds=2,
        sizes={},
        flop=2 * 64**3,
        moved=3 * 4 * 64**2,
        truth=(truth,),
        least=1e-3,
    )
    assert timings.peers(found) == ["same", "twice"]
    assert list(found["not run"]) == ["fails"]
    assert (
        set(found["worst error"]) == {"ours", "same", "twice"}
        and found["worst error"]["ours"] < 1e-4 < found["worst error"]["twice"]
    )
    assert (
        all(len(ts) == 2 for ts in found["seconds"].values())
        and found["peak bytes"]["ours"] == 4 * 64**2
    )
    assert (
        timings.share(found, "flop")[1] > 0 and json.loads(json.dumps(found)) == found
    )


def test_shares_are_rates_over_rates():
    low, middle, high = timings.share(made(), "flop")
    assert low == middle == high == pytest.approx(4e9 / 1.0 / 1e10) and timings.share(
        made(), "bytes"
    )[1] == pytest.approx(0.1)


@pytest.mark.parametrize(("slow", "word"), [(2.0, "reached"), (1.9, "missed")])
def test_a_goal_is_reached_or_missed(slow, word):
    (one,) = goals.judge([made(slow=slow)], [GOAL])
    assert one.word == word and one.figure == (slow, slow, slow)


@pytest.mark.parametrize(
    "other", [{"job": "paths"}, {"device": "cuda"}, {"case": "another"}, {}]
)
def test_without_its_case_or_its_peer_a_goal_is_not_run(other):
    peers = {"slow": 3.0} if other else {}
    (one,) = goals.judge([made(**{"case": "a case", **other}, **peers)], [GOAL])
    assert one.figure is None and one.word == "not run"


def test_of_several_cases_the_one_nearest_to_missing_counts():
    (one,) = goals.judge(
        [made("a case, small", slow=9.0), made("a case, large", slow=1.5)], [GOAL]
    )
    assert one.figure[1] == 1.5 and one.word == "missed"
    (one,) = goals.judge(
        [made("a case, small", floor_sort=0.5), made("a case, large", floor_sort=0.1)],
        [goals.Goal(1, "", "sparse", "a case", goals.floor("sort"), 5, False)],
    )
    assert one.figure[1] == 10 and one.word == "missed"  # five at most


def test_figures_of_goals():
    assert goals.peer("slow")(made(slow_1=3.0, slow_2=2.0)) == (
        2.0,
        2.0,
        2.0,
    )  # the quickest counts
    assert goals.of_density(made(**{"SDPA + mask": 5.0}))[1] == pytest.approx(0.5)
    assert (
        goals.of_parts(made(part_1=0.25, part_2=0.25))[1] == 2
        and goals.of_parts(made()) is None
    )
    assert goals.error(made())[1] == 5e-7 and goals.floor("sort")(made()) is None


def test_a_table_of_a_case_says_what_was_not_run_and_what_beside():
    text = tables.job_table([made(slow=2.5, floor_sort=0.5, part_1=0.5, part_2=0.25)])
    assert (
        "**A case**" in text
        and "| slow | × 2.5 |" in text
        and "| absent | not run: absent is not installed |" in text
    )
    assert (
        "sort 2; the sum of its parts 1.33" in text
        and "40% of the rate of a matrix product" in text
        and "10% of the rate of a copy" in text
    )
    columns = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert columns == {5}


def test_what_moved_between_two_runs():
    def steady(slow):
        return {
            **made(),
            "seconds": {"ours": [1.0] * 3, "slow": [slow, slow * 1.1, slow * 1.2]},
        }

    assert bench.against([steady(2.0)], [steady(2.1)]) == []
    (line,) = bench.against([steady(2.0)], [steady(4.0)])
    assert "slower beside slow" in line and "2.2 times after 4.4" in line
    (line,) = bench.against([steady(4.0)], [steady(2.0)])
    assert "faster beside slow" in line
    assert bench.against([{**steady(9.0), "case": "new"}], [steady(2.0)]) == []
    assert (
        bench.against([{**steady(9.0), "device": "cuda"}], [steady(2.0)]) == []
    )  # another device is no comparison


# ---------------------------------------------------------------- the page


def extension():
    spec = importlib.util.spec_from_file_location(
        "bench_ext", pages.ROOT / "book/_ext/bench_ext.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_part_has_its_place_and_every_place_its_part():
    found = set(extension().texts())
    source = (pages.ROOT / "book/benchmarks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- bench: (\w+) -->", source)) == found
