"""Slopes of time and memory: the table is whole, memory grows as promised, only the
dense kernels make n x n.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re

import pytest
import torch
from test_docstrings import KERNELS as ROOMS

import bench
from bench import scaling
from bench.scaling import KERNELS, Axis, Kernel

NAMED = {kernel.name: kernel for kernel in KERNELS}
DENSE = {  # those that make or take an n x n matrix by definition
    "attention_matrix",
    "forward",
    "path_sums",
    "path_norms",
    "log_residuals",
    "length_bounds",
    "jl_surrogate",
    "svd_surrogate, exact",
    "svd_surrogate, randomised",
    "masked_attention",
    "receptive_fields",
    "hops",
    "dobrushin",
    "rank_floor",
}
KEPT = [kernel.name for kernel in KERNELS if "n" in kernel.axes and not kernel.dense]
TAKES = re.compile(r"Tensor|ndarray|Pattern|Sequence\[Layer")


# --- the table ---


def taking() -> set[str]:
    """room.function of all public functions that take tensors, arrays, patterns or
    layers. Of sparse that is what the room offers: its modules are one engine.
    """
    found = set()
    for room in [
        room for room in ROOMS if room != "certify"
    ]:  # certify: exact fractions, no tensors
        top = importlib.import_module(f"attnlib.{room}")
        inner = [
            m.name
            for m in pkgutil.iter_modules(getattr(top, "__path__", []))
            if not m.name.startswith("_") and room != "sparse"
        ]
        for module in [
            top,
            *(importlib.import_module(f"attnlib.{room}.{name}") for name in inner),
        ]:
            found |= {
                f"{room}.{name}"
                for name, f in vars(module).items()
                if own(name, f, room) and takes(f)
            }
    return found


def own(name: str, f, room: str) -> bool:
    more = ("attnlib._blocks", "attnlib._normalizers") if room == "attention" else ()
    return (
        not name.startswith("_")
        and inspect.isfunction(f)
        and f.__module__.startswith((f"attnlib.{room}", *more))
    )


def takes(f) -> bool:
    return any(
        TAKES.search(str(p.annotation))
        for p in inspect.signature(f).parameters.values()
    )


def test_every_kernel_has_a_row_or_a_reason():
    rows, apart = (
        {kernel.public for kernel in KERNELS},
        " ".join(scaling.APART.values()).split(),
    )
    assert len(apart) == len(set(apart)) and not rows & set(apart)
    assert taking() - rows - set(apart) == set()
    assert set(apart) <= taking() and all(len(reason) > 10 for reason in scaling.APART)


def test_a_forgotten_kernel_is_found():
    known = {
        "attention.forward",
        "sparse.sparse_attention",
        "memorize.boltzmann",
        "efficacy.srht",
    }
    assert known - taking() == {"efficacy.srht"}  # srht lives in another room
    assert (
        own("forward", bench.main, "attention") is False and takes(bench.main) is False
    )


def test_rows_are_told_apart_and_explained():
    assert len(NAMED) == len(KERNELS) >= 50
    for kernel in KERNELS:
        assert set(kernel.axes) <= set("nLHNd") and kernel.axes
        for axis in kernel.axes.values():
            ratios = {b // a for a, b in zip(axis.at, axis.at[1:])}
            assert len(axis.at) >= 3 and ratios in ({2}, {4}) and axis.why
    assert {kernel.name for kernel in KERNELS if kernel.dense} == DENSE


# --- memory: counted on the CPU, so the same on every machine ---


@pytest.mark.wide  # a minute for all
@pytest.mark.parametrize("name", KEPT)
def test_no_kernel_makes_n_x_n(name):
    n = {"moment_queries": 1024, "memorize": 2048}.get(
        name, 4096
    )  # these are slow, and their tiles are small
    dense, numbers = scaling.makes_dense(NAMED[name], n)
    assert not dense, f"{name} makes a tensor of {numbers:,} numbers at n = {n}"


@pytest.mark.parametrize(
    "name",
    [
        "attention_matrix",
        "forward",
        "path_sums",
        "log_residuals",
        "masked_attention",
        "receptive_fields",
    ],
)
def test_the_dense_ones_are_caught(name):
    assert NAMED[name].dense
    dense, numbers = scaling.makes_dense(NAMED[name], 512)
    assert dense and numbers >= 512**2 / scaling.DENSE


def peaks(name: str, axis: str) -> float:
    kernel = NAMED[name]
    at, runs = (
        kernel.axes[axis].at,
        [kernel.at(axis, size, "cpu") for size in kernel.axes[axis].at],
    )
    for run in runs:
        run()
    return scaling.slope(at, [scaling.bytes_of(kernel, run, "cpu") for run in runs])


SURE = [
    ("linear_attention", "n", 1),
    ("linear_attention, causal", "n", 1),
    ("performer_attention", "n", 1),
    ("lsh_attention", "n", 1),
    ("linformer_attention", "n", 1),
    ("nystrom_attention", "n", 1),
    ("masked_attention", "n", 2),
    ("attention_matrix", "n", 2),
    ("forward", "n", 2),
    ("forward", "L", 0),
    ("path_sums", "L", 1),
    ("path_sums, P given", "n", 1),
    ("context_ids", "n", 0),
    ("margins", "n", 0),
    ("moment_queries", "n", 0),
    ("coherence", "n", 0),
    ("attention_matrix", "d", 0),
    ("linear_attention", "N", 1),
    ("relu_layer", "N", 0),
]


@pytest.mark.parametrize(("name", "axis", "wanted"), SURE)
def test_memory_grows_as_promised(name, axis, wanted):
    assert NAMED[name].axes[axis].memory == wanted
    assert abs(peaks(name, axis) - wanted) < 0.15


@pytest.mark.parametrize(
    "name", [name for name in NAMED if name.startswith("sparse_attention")]
)
def test_sparse_attention_grows_no_faster_than_promised(name):
    """Tiles are worked on a few at a time, so that small sizes show less than the
    exponent.
    """
    assert peaks(name, "d") < 1.15 and peaks(name, "N") < 1.15


def test_another_exponent_would_be_seen():
    assert (
        abs(peaks("masked_attention", "n") - 1) > 0.15
        and abs(peaks("linear_attention", "n") - 2) > 0.15
    )


# --- slopes and records ---


def test_slopes_are_those_of_powers_at_the_upper_points():
    assert (
        abs(
            scaling.slope([1, 2, 4, 8], [7.0, 3 * 2**1.5, 3 * 4**1.5, 3 * 8**1.5]) - 1.5
        )
        < 1e-12
    )
    assert scaling.slope([1, 2, 4], [0, 0, 0]) == 0
    for at, values in (([1], [1.0]), ([1, 2], [1.0])):
        with pytest.raises(ValueError, match="two points"):
            scaling.slope(at, values)


def test_made_tensors_are_counted_and_views_are_not():
    x = torch.ones(64, 64)
    assert scaling.largest(lambda: (x.T, x[:, :3], x.view(-1))) == 0
    assert scaling.largest(lambda: (torch.ones(5), x[:, :3] + 1)) == 192
    assert scaling.largest(lambda: torch.ones(10, dtype=torch.bool)) == 10


def toy(seen: list | None = None) -> Kernel:
    def make(device, *, n, d):
        return lambda: (seen.append(n) if seen is not None else None, torch.ones(n, d))

    return Kernel(
        "toy",
        "room.toy",
        make,
        {"n": 8, "d": 2},
        {"n": Axis((1024, 2048, 4096, 8192), 1, 1, "rows")},
    )


def test_sizes_take_turns():
    seen = []
    record = scaling.measure(toy(seen), "n", "cpu", quick=True)
    turns = [n for n, before in zip(seen, [0, *seen]) if n != before]
    assert turns[3:12] == [256, 512, 1024] * 3 and record["at"] == [256, 512, 1024]


def test_a_record_is_plain_and_has_its_own_report():
    record = scaling.measure(toy(), "n", "cpu", quick=True)
    assert json.loads(json.dumps(record)) == record and record["sizes"] == {"d": 2}
    assert record["peak bytes"] == [8 * n for n in record["at"]] and record[
        "largest"
    ] == [2 * n for n in record["at"]]
    record["seconds"]["ours"] = [[1.0, 4.0, 16.0], [1.0, 2.0, 4.0], [1.0, 4.0, 16.0]]
    assert [round(s, 9) for s in scaling.slopes(record)["time"]] == [1, 2, 2]
    line = scaling.report(record)
    assert (
        "time slope 2.00 (1.00 to 2.00), predicted 1 (above)" in line
        and "memory slope 1.00, predicted 1;" in line
    )
    assert scaling.rows([record, {"job": "paths"}])[2:] == [
        "| toy | n | 2.00 (1) | 1.00 (1) |"
    ]
    assert bench.against([record], [record]) == []


def test_the_job_prints_and_stores(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    monkeypatch.setattr(scaling, "KERNELS", [toy(), NAMED["smallest_gap"]])
    file = tmp_path / "bench.json"
    assert bench.main(["--job", "scaling", "--quick", "--json", str(file)]) == 0
    result = json.loads(file.read_text())["result"]
    assert [r["case"] for r in result] == ["toy: n", "smallest_gap: N"] and min(
        result[1]["peak bytes"]
    ) > 0
    assert capsys.readouterr().out.count("time slope") == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_every_row_runs(name):
    """Each axis at its smallest size; arguments that no longer fit would show here."""
    for axis, along in NAMED[name].axes.items():
        assert NAMED[name].at(axis, along.small()[0], "cpu")() is not None


@pytest.mark.cuda
@pytest.mark.parametrize(
    "name",
    [
        "forward",
        "sparse_attention, window",
        "lsh_attention",
        "verify",
    ],
)
def test_rows_run_on_a_gpu(name):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    record = scaling.measure(NAMED[name], "n", "cuda", quick=True)
    assert min(record["peak bytes"]) > 0 and record["device"] == "cuda"
