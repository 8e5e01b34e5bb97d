"""The benchmarks run, compare like with like, and store whole files. Their goals are the lane `bench`."""

from __future__ import annotations

import json
import statistics
import time

import pytest
import torch

from attnlib import bench
from attnlib.attention import forward, merged, random_layers
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
