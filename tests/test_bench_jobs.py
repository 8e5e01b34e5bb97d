"""The jobs of the benchmarks: quick runs, peers that agree with ours, goals with cases.
Full runs: lane `bench`.
"""

from __future__ import annotations

import pytest
import torch

import bench
from attnlib import patterns
from attnlib.expressive import verify as verified
from attnlib.memorize import smallest_gap
from bench import _peers, goals, ids, lists, verify

NEW = ("sparse", "lists", "ids", "verify", "lowrank")  # paths: test_bench.py
WITH_PEERS = {
    "sparse": "SDPA + mask",
    "lists": "gather",
    "ids": "",
    "verify": "row chunks",
    "lowrank": "",
}


@pytest.fixture(scope="module", params=NEW)
def quick(request):
    """The records of a quick run of a job."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield request.param, list(bench.records(request.param, quick=True))
    torch.set_num_threads(threads)


@pytest.mark.wide
def test_quick_runs_agree_with_their_peers(quick):
    job, found = quick
    assert found and all(
        record["job"] == job and "ours" in record["seconds"] for record in found
    )
    for record in found:
        assert all(error < 1e-5 for error in record["worst error"].values()), record[
            "case"
        ]
        assert WITH_PEERS[job] in ("", *record["seconds"])
        timed = {
            name
            for name in record["seconds"]
            if not name.startswith(("limit", "floor", "part"))
        }
        assert set(record["worst error"]) == (
            set() if "time only" in record["case"] else timed
        )
    assert len({record["case"] for record in found}) == len(found)


@pytest.mark.parametrize(
    "goal", goals.GOALS, ids=lambda goal: f"{goal.number}, {goal.words}"
)
def test_goals_name_cases_that_exist(goal):
    assert any(f"{name}:".startswith(goal.case) for name in bench.cases(goal.job))


@pytest.mark.parametrize(
    "values", [[3.0, 1.0, 1.5, 3.0], [2.0, 2.0, 5.0], [0.0, -1.0, 4.0, -1.0]]
)
def test_the_sorting_peer_finds_what_smallest_gap_finds(values):
    x = torch.tensor(values, dtype=torch.float64)
    wanted = smallest_gap(x)
    assert ids.torch_sort(x).tolist() == [wanted.smallest, wanted.distinct]


def test_gaps_of_a_sign_code_are_exact():
    code, columns = verify.drawn(verify.Case(512, True), "cpu")
    ours = verified(code, columns).rows[:, 1]
    assert torch.equal(
        verify.chunk_gaps(code.q.double(), code.k.double(), columns, code.scale, 200),
        ours,
    )
    spoilt = verify.chunk_gaps(
        code.q.double(), code.k.double(), columns.flip(0), code.scale, 200
    )
    assert not torch.equal(spoilt, ours) and all(
        len(set(row)) == verify.K for row in columns.tolist()
    )


def test_gathering_is_masked_attention():
    pattern = patterns.random(24, 5, generator=torch.Generator().manual_seed(0))
    index, kept = lists.places(pattern)
    assert not bool(kept.all()) and torch.equal(kept.sum(1), pattern.degrees())
    q, k, v = torch.randn(
        3, 1, 2, 24, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    wanted = _peers.masked(pattern.mask())(q, k, v)
    assert torch.allclose(
        _peers.gather(index, kept)(q, k, v), wanted, rtol=0, atol=1e-14
    )


@pytest.mark.cuda
@pytest.mark.parametrize("job", bench.JOBS)
def test_quick_runs_on_a_gpu(job):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    for record in bench.records(job, "cuda", quick=True):
        assert all(error < 1e-4 for error in record.get("worst error", {}).values()), (
            record["case"]
        )
