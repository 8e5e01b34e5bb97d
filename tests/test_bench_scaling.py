"""Slopes of time and memory: memory grows as promised, only the dense kernels make n x
n.
"""

from __future__ import annotations

import json

import pytest
import torch

import bench
from bench import scaling, tables
from bench.scaling import KERNELS, Axis, Kernel
from bench.timing import Alive, peak_bytes

NAMED = {kernel.name: kernel for kernel in KERNELS}
DENSE = {  # those that make an n x n matrix by definition
    "attention_matrix",
    "forward",
    "path_sums",
    "masked_attention",
}


def largest(run) -> int:
    with Alive() as alive:
        run()
    return alive.largest


def makes_dense(name: str, n: int) -> bool:
    """A tensor of n^2 / 4 numbers or more counts as n x n."""
    return 4 * largest(NAMED[name].make("cpu", n=n)) >= n * n


# --- memory: counted on the CPU, so the same on every machine ---


@pytest.mark.wide
@pytest.mark.parametrize("name", [name for name in NAMED if name not in DENSE])
def test_no_kernel_makes_n_x_n(name):
    assert not makes_dense(name, 4096)


@pytest.mark.parametrize("name", sorted(DENSE))
def test_the_dense_ones_are_caught(name):
    assert makes_dense(name, 512)


def peaks(name: str, axis: str) -> float:
    runs = scaling.runs_of(NAMED[name], axis, "cpu")
    for run in runs.values():
        run()
    return tables.slope(list(runs), [peak_bytes(run, "cpu") for run in runs.values()])


SURE = [
    ("linear_attention", "n"),
    ("linear_attention, causal", "n"),
    ("performer_attention", "n"),
    ("lsh_attention", "n"),
    ("linformer_attention", "n"),
    ("nystrom_attention", "n"),
    ("masked_attention", "n"),
    ("attention_matrix", "n"),
    ("forward", "n"),
    ("forward", "L"),
    ("path_sums", "L"),
    ("path_sums, P given", "n"),
    ("context_ids", "n"),
    ("margins", "n"),
    ("attention_matrix", "d"),
    ("linear_attention", "N"),
]


@pytest.mark.parametrize(("name", "axis"), SURE)
def test_memory_grows_as_promised(name, axis):
    assert abs(peaks(name, axis) - NAMED[name].axes[axis].memory) < 0.15


def test_another_exponent_would_be_seen():
    assert abs(peaks("masked_attention", "n") - 1) > 0.15
    assert abs(peaks("linear_attention", "n") - 2) > 0.15


# --- slopes and records ---


def test_slopes_are_those_of_powers_at_the_upper_points():
    values = [7.0, 3 * 2**1.5, 3 * 4**1.5, 3 * 8**1.5]
    assert abs(tables.slope([1, 2, 4, 8], values) - 1.5) < 1e-12
    assert tables.slope([1, 2, 4], [0, 0, 0]) == 0
    for at, values in (([1], [1.0]), ([1, 2], [1.0])):
        with pytest.raises(ValueError, match="two points"):
            tables.slope(at, values)


def test_made_tensors_are_counted_and_views_are_not():
    x = torch.ones(64, 64)
    assert largest(lambda: (x.T, x[:, :3], x.view(-1))) == 0
    assert largest(lambda: (torch.ones(5), x[:, :3] + 1)) == 192
    assert largest(lambda: torch.ones(10, dtype=torch.bool)) == 10


def toy(seen: list) -> Kernel:
    def make(device, n, d=2):
        return lambda: (seen.append(n), torch.ones(n, d))

    return Kernel("toy", make, {"n": Axis(1024, 1, 1, {"d": 3})})


def test_sizes_take_turns():
    seen = []
    record = scaling.measure(toy(seen), "n", "cpu", quick=True)
    turns = [n for n, before in zip(seen, [0, *seen]) if n != before]
    assert turns[3:12] == [256, 512, 1024] * 3 and record["at"] == [256, 512, 1024]


def test_a_record_is_plain_and_a_row_of_a_table():
    record = scaling.measure(toy([]), "n", "cpu", quick=True)
    assert json.loads(json.dumps(record)) == record and record["sizes"] == {"d": 3}
    assert record["peak bytes"] == [12 * n for n in record["at"]]
    record["seconds"]["ours"] = [[1.0, 4.0, 16.0], [1.0, 2.0, 4.0], [1.0, 4.0, 16.0]]
    (line,) = tables.job_table([record]).splitlines()[2:]
    assert line == "| toy | n | 2.00 (1) | 1.00 (1) |"
    assert bench.against([record], [record]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_every_row_runs(name):
    """Each axis at its smallest size; arguments that no longer fit would show here."""
    for axis in NAMED[name].axes:
        for run in scaling.runs_of(NAMED[name], axis, "cpu", quick=True).values():
            assert run() is not None


@pytest.mark.cuda
@pytest.mark.parametrize(
    "name", ["forward", "sparse_attention, window", "lsh_attention", "verify"]
)
def test_rows_run_on_a_gpu(name):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    record = scaling.measure(NAMED[name], "n", "cuda", quick=True)
    assert min(record["peak bytes"]) > 0 and record["device"] == "cuda"
