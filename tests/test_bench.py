"""The benchmarks run, compare like with like, and store whole files. Their goals are the lane `bench`."""

from __future__ import annotations

import json
import statistics
import time

import pytest
import torch

from attnlib import bench
from attnlib.attention import forward, merged, random_layers
from attnlib.bench import _peers, sparse
from attnlib.bench.timing import Alive, ratio
from attnlib.paths import path_sums


def test_peers_compute_the_same():
    g = torch.Generator().manual_seed(0)
    layers = random_layers(3, 2, 6, 3, generator=g)
    x = torch.randn(5, 6, generator=g, dtype=torch.float64)
    y, attention = forward(x, layers, skip=True, return_attention=True)
    weights = [merged(layer)[0] for layer in layers]
    wanted = path_sums(x, layers, skip=True).by_length
    for peer in (bench.one_by_one, bench.prefix_tree):
        assert torch.allclose(peer(x, attention, weights), wanted, rtol=0, atol=1e-13)
    side = [p.transpose(0, 1).flatten(1) for p in attention]
    assert torch.allclose(bench.given_forward(x, side, weights), y, rtol=0, atol=1e-13)


def test_runs_alternate_and_the_warm_up_is_not_counted():
    seen = []
    runs = {"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}
    seconds = bench.alternate(runs, 3, "cpu", least=0.0)
    assert seen == ["a", "a", "b", "b"] + ["a", "b"] * 3 and [len(s) for s in seconds.values()] == [3, 3]


def test_short_runs_are_averaged_over_many_calls():
    calls = []
    (seconds,) = bench.alternate({"a": lambda: (calls.append(1), time.sleep(0.001))}, 1, "cpu", least=0.02).values()
    assert len(calls) > 8 and 0.0009 < seconds[0] < 0.01


def test_quick_run_prints_and_stores(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    file = tmp_path / "bench.json"
    assert bench.main(["--quick", "--json", str(file)]) == 0
    stored = json.loads(file.read_text())
    assert stored["about"]["torch"] == torch.__version__ and len(stored["results"]) == len(bench.QUICK)
    assert all(r["worst relative error"] < 1e-5 for r in stored["results"])
    assert "prefix tree / path_sums" in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["bench.json"]


def test_ratios_are_taken_round_by_round():
    assert ratio([2.0, 20.0, 400.0], [1.0, 10.0, 100.0]) == (2.0, 2.0, 4.0)


def test_memory_is_what_is_alive_at_once():
    with Alive() as alive:
        for _ in range(3):
            torch.ones(1000, dtype=torch.float64)
    assert alive.peak == 8000


def test_the_job_sparse_prints_and_stores(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    file = tmp_path / "bench.json"
    assert bench.main(["--job", "sparse", "--quick", "--json", str(file)]) == 0
    results = json.loads(file.read_text())["results"]
    assert len(results) == 4 and all(max(r["worst error"].values()) < 1e-5 for r in results)
    assert all("SDPA + mask" in r["seconds"] for r in results)
    assert "not run" in capsys.readouterr().out and [p.name for p in tmp_path.iterdir()] == ["bench.json"]


def test_a_missing_peer_is_not_run(monkeypatch):
    monkeypatch.setattr(_peers, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    assert _peers.longformer(5) == "not run: transformers is not installed"
    assert _peers.local(5) == "not run: local-attention is not installed"


def test_a_peer_that_fails_is_named_and_not_timed():
    def fails():
        raise RuntimeError

    good, away = sparse._that_run({"ours": lambda: None, "theirs": fails}, {})
    assert list(good) == ["ours"] and away == {"theirs": "not run: RuntimeError"}
    with pytest.raises(RuntimeError):
        sparse._that_run({"ours": fails}, {})


@pytest.mark.parametrize(("capability", "runs"), [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_flex_wants_a_device_that_is_made_for_it(capability, runs):
    refusal = _peers.flex_refusal("cuda", capability)
    assert (refusal == "") is runs and (runs or "7.5" in refusal)


def test_big_bird_by_blocks():
    mask = sparse.big_bird(128, 16, generator=torch.Generator().manual_seed(0)).mask()
    blocks = mask.view(8, 16, 8, 16).sum((1, 3))
    assert set(blocks.flatten().tolist()) == {0, 256} and bool(blocks[0].all()) and bool(blocks[:, 0].all())
    assert sorted((blocks[1:] > 0).sum(1).tolist()) == [5, 5, *[6] * 5]  # ends of the row have one neighbour


@pytest.mark.bad_input
def test_no_gpu():
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(ValueError, match="no CUDA device"):
        bench.main(["--device", "cuda", "--quick"])


@pytest.mark.bench
@pytest.mark.parametrize("work", [w for w in bench.WORKLOADS if not w.single], ids=str)
def test_goal_of_forward_passes(work):
    """At most .9 of (L + 1)/2 forward passes; the floor asserted is half the goal."""
    torch.set_num_threads(1)
    fast = bench.measure(work, "cpu", 9)["seconds"][0]
    ratio = statistics.median(o / f for o, f in zip(fast["path_sums"], fast["forward, attention given"]))
    assert ratio <= 2 * 0.9 * (work.L + 1) / 2


@pytest.mark.bench
def test_goals_of_sparse_attention():
    """Half of each goal: 2.2 times Longformer and local-attention, 35 times SDPA with mask, unions at most 1.15 of their parts."""
    torch.set_num_threads(1)
    half = lambda result, peer: ratio(result["seconds"][peer], result["seconds"]["ours"])[1] >= GOALS[result["backward"]][peer] / 2
    window, both, blocks, union = sparse.run("cpu", False)
    for result in (window, both):
        assert all(half(result, peer) for peer in GOALS[result["backward"]] if peer in result["seconds"])
    level = [t for name, t in window["seconds"].items() if name.startswith("flex")]
    assert all(ratio(t, window["seconds"]["ours"])[1] >= 0.95 / 2 for t in level)
    density = blocks["connections"] / blocks["n"] ** 2
    assert ratio(blocks["seconds"]["SDPA + mask"], blocks["seconds"]["ours"])[1] * density >= 0.92 / 2
    parts = [sum(turn) for turn in zip(*(t for name, t in union["seconds"].items() if name.startswith("part")))]
    assert ratio(union["seconds"]["ours"], parts)[1] <= 2 * 1.15


GOALS = {False: {"Longformer": 2.2, "local-attention": 2.2}, True: {"SDPA + mask": 35, "Longformer": 2.2}}
