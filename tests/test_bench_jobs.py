"""The jobs of the benchmarks: quick runs, peers that agree with ours, goals with cases.
Full runs: lane `bench`.
"""

from __future__ import annotations

import pytest
import torch

import bench
from attnbook.data import timings
from attnlib import patterns
from attnlib.expressive import verify as verified
from attnlib.memorize import smallest_gap
from bench import _peers, goals, ids, lists, lowrank, sparse, verify

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
    yield request.param, list(bench.records([request.param], quick=True))
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
    assert timings.report(found[0]).startswith("### ") and len(
        {record["case"] for record in found}
    ) == len(found)


@pytest.mark.wide
def test_quick_runs_say_what_was_not_run(quick):
    job, found = quick
    away = {name: why for record in found for name, why in record["not run"].items()}
    printed = "\n".join(map(timings.report, found))
    assert all(
        why.startswith("not run: ") and f"- {name}: {why}" in printed
        for name, why in away.items()
    )
    compiled = {
        "sparse": "flex, blocks of 32",
        "lists": "compiled gather",
        "ids": "compiled",
        "verify": "KeOps",
    }
    assert job not in compiled or away[compiled[job]] == _peers.QUICK


@pytest.mark.wide
def test_missing_packages_are_not_run(monkeypatch):
    monkeypatch.setattr(
        _peers, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name))
    )
    found = list(bench.records(["lowrank"], quick=True))
    assert [set(record["not run"]) for record in found] == [
        {"linformer"},
        {"reformer-pytorch"},
        {"reformer-pytorch"},
    ]
    assert all(set(record["seconds"]) >= {"ours"} for record in found)


@pytest.mark.wide
def test_every_case_of_a_run_has_its_name(quick):
    job, found = quick
    assert [record["case"] for record in found] == list(bench.cases(job, quick=True))


@pytest.mark.parametrize(
    "goal", goals.GOALS, ids=lambda goal: f"{goal.number}, {goal.device}, {goal.words}"
)
def test_goals_name_cases_that_exist(goal):
    assert any(
        f"{name}:".startswith(goal.case) for name in bench.cases(goal.job, goal.device)
    )


def test_goals_are_told_apart():
    assert len({(goal.number, goal.words, goal.device) for goal in goals.GOALS}) == len(
        goals.GOALS
    )
    assert {goal.number for goal in goals.GOALS} == set(range(1, 12))


@pytest.mark.parametrize(
    "values", [[3.0, 1.0, 1.5, 3.0], [2.0, 2.0, 5.0], [0.0, -1.0, 4.0, -1.0]]
)
def test_sorting_peers_find_what_smallest_gap_finds(values):
    x = torch.tensor(values, dtype=torch.float64)
    wanted = smallest_gap(x)
    for found in (ids.torch_sort(x), ids.numpy_sort(x.numpy())):
        assert found.tolist() == [wanted.smallest, wanted.distinct]


def test_blocks_of_the_numpy_peer_meet(monkeypatch):
    x = torch.tensor([0.0, 10.0, 20.0, 20.5, 40.0], dtype=torch.float64)
    for block in (1, 2, 3, 4, 5):
        monkeypatch.setattr(ids, "BLOCK", block)
        assert ids.numpy_sort(x.numpy()).tolist() == [0.5, 5]


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


def test_the_keops_peer_finds_the_largest_logit_off_the_support():
    class Lazy:
        """As much of a LazyTensor as the peer asks for; KeOps itself compiles."""

        def __init__(self, t):
            self.t = t

        def __neg__(self):
            return Lazy(-self.t)

        def Kmin_argKmin(self, count, dim):
            return self.t.topk(count, dim, largest=False)

    code, columns = verify.drawn(verify.Case(512, True), "cpu")
    q, k = code.q.float(), code.k.float()
    wanted = verify.chunk_gaps(q, k, columns, code.scale, 64)
    assert torch.equal(
        verify.keops_gaps(Lazy(q @ k.T), q, k, columns, code.scale), wanted
    )


def test_tiles_cover_the_matrix_once():
    seen = torch.zeros(10, 10)
    verify.tiles(10, (4, 3), lambda i, j: seen[i, j].add_(1))
    assert bool((seen == 1).all())


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


def test_the_linformer_layer_is_that_of_the_package():
    theirs = _peers.linformer(12, lowrank.HEADS * lowrank.D, lowrank.HEADS, 5)
    if isinstance(theirs, str):
        pytest.skip(theirs)
    x = torch.randn(
        1, 12, lowrank.HEADS * lowrank.D, generator=torch.Generator().manual_seed(0)
    )
    assert torch.allclose(
        lowrank.linformer_layer(x, dict(theirs.state_dict())),
        theirs(x),
        rtol=0,
        atol=1e-5,
    )


def test_a_sample_of_rows_is_the_truth_of_these_rows():
    q, k, v = torch.randn(3, 1, 2, 32, 4, generator=torch.Generator().manual_seed(0))
    pattern, at = patterns.window(32, 5), torch.tensor([0, 7, 31])
    (some,), (every,) = (
        sparse._truth(q, k, v, v, pattern, rows, False)
        for rows in (at, torch.arange(32))
    )
    assert torch.allclose(some, every[..., at, :], rtol=0, atol=1e-14)


def test_the_long_window_knows_its_connections():
    (long,) = (
        made.args[0]
        for name, made in sparse.cases("cuda", False).items()
        if "bfloat16" in name
    )
    assert long.connections == sum(
        1 + min(i, 128) + min(2**17 - 1 - i, 128) for i in range(2**17)
    )


@pytest.mark.cuda
@pytest.mark.parametrize("job", bench.JOBS)
def test_quick_runs_on_a_gpu(job):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    for record in bench.records([job], "cuda", quick=True):
        assert all(error < 1e-4 for error in record.get("worst error", {}).values()), (
            record["case"]
        )
