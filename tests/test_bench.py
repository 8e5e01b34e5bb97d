"""The harness of the benchmarks: turns, ratios, memory, peers, whole files. Its jobs:
test_bench_jobs.py.
"""

from __future__ import annotations

import json
import time

import pytest
import torch

import bench
from attnlib.attention import forward, merged, random_layers
from attnlib.paths import path_sums as sums
from bench import _peers, paths
from bench.record import tried
from bench.timing import Alive, alternate, peak_bytes


def test_peers_compute_the_same():
    g = torch.Generator().manual_seed(0)
    layers = random_layers(3, 2, 6, 3, dtype=torch.float64, generator=g)
    x = torch.randn(5, 6, generator=g, dtype=torch.float64)
    y, attention = forward(x, layers, skip=True, return_attention=True)
    weights = [merged(layer)[0] for layer in layers]
    wanted = sums(x, layers, skip=True).by_length
    for peer in (paths.one_by_one, paths.prefix_tree):
        assert torch.allclose(peer(x, attention, weights), wanted, rtol=0, atol=1e-13)
    side = [p.transpose(-3, -2).flatten(-2) for p in attention]
    assert torch.allclose(paths.given_forward(x, side, weights), y, rtol=0, atol=1e-13)
    batch = torch.randn(2, 5, 6, generator=g, dtype=torch.float64)
    y, attention = forward(batch, layers, skip=True, return_attention=True)
    side = [p.transpose(-3, -2).flatten(-2) for p in attention]
    assert torch.allclose(
        paths.given_forward(batch, side, weights), y, rtol=0, atol=1e-13
    )


def test_runs_alternate_and_the_warm_up_is_not_counted():
    seen = []
    runs = {"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}
    seconds = alternate(runs, 3, time.perf_counter, least=0.0)
    assert seen == ["a", "b"] * 4 and [len(s) for s in seconds.values()] == [3, 3]


class Work:
    """A run whose clock is its own, so that no busy machine decides a test."""

    def __init__(self, seconds: float):
        self.seconds, self.now, self.calls = seconds, 0.0, 0

    def __call__(self):
        self.now, self.calls = self.now + self.seconds, self.calls + 1

    def clock(self) -> float:
        return self.now


def test_a_long_run_is_called_once_a_turn():
    work = Work(0.5)
    assert (
        alternate({"a": work}, 2, work.clock, least=0.25) == {"a": [0.5, 0.5]}
        and work.calls == 3
    )


def test_short_runs_are_averaged_over_many_calls():
    work = Work(0.125)
    assert (
        alternate({"a": work}, 1, work.clock, least=2.0) == {"a": [0.125]}
        and work.calls >= 32
    )


@pytest.mark.wide
def test_quick_run_prints_and_stores(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    file = tmp_path / "bench.json"
    assert bench.main(["--job", "paths", "--quick", "--json", str(file)]) == 0
    stored = json.loads(file.read_text())
    assert stored["about"]["torch"] == torch.__version__ and stored["about"][
        "jobs"
    ] == ["paths"]
    assert len(stored["result"]) == 2
    assert all(max(r["worst error"].values()) < 1e-5 for r in stored["result"])
    assert "| prefix tree | × " in capsys.readouterr().out


def test_memory_is_what_is_alive_at_once():
    def ones():
        for _ in range(3):
            torch.ones(1000, dtype=torch.float64)

    with Alive() as alive:
        ones()
    assert alive.peak == 8 * alive.largest == peak_bytes(ones, "cpu") == 8000


def test_what_cannot_be_made_is_not_run_and_says_why():
    def fails():
        raise RuntimeError("no compiler\nand a long story")

    ours = {"ours": lambda: None}
    made = {"theirs": lambda: fails, "theirs too": fails, "another": lambda: abs}
    good, away = tried(ours, {**made, "fine": lambda: ours["ours"]})
    assert list(good) == ["ours", "fine"]
    assert away["theirs"] == away["theirs too"] == "not run: no compiler"
    assert away["another"].startswith("not run: ")
    with pytest.raises(RuntimeError):
        tried({"ours": fails}, {})


def test_a_mask_of_blocks_is_the_pattern():
    def strided(i, j):
        return (j < 16) | ((i - j) % 8 == 0)

    for reads in (
        lambda i, j: (i - j).abs() <= 20,
        strided,
        lambda i, j: i // 16 == j // 16,
    ):
        made = _peers.block_mask(reads, 96, 16, "cpu")
        i = torch.arange(96)
        blocks = (
            reads(i[:, None], i)
            .expand(96, 96)
            .view(6, 16, 6, 16)
            .transpose(1, 2)
            .flatten(2)
        )
        assert torch.equal(made.to_dense()[0, 0].bool(), blocks.any(-1))
        full = sum(int(made.full_kv_num_blocks[0, 0, a]) for a in range(6))
        assert full == int(blocks.all(-1).sum()) and int(
            made.kv_num_blocks.sum()
        ) + full == int(blocks.any(-1).sum())
