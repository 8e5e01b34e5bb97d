"""Kernels on keys, projections, ids and labels; and the public functions that have no
row, each with its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from attnlib import (
    bridges,
    codes,
    copying,
    expressive,
    lowrank,
    memorize,
    patterns,
    universal,
)
from bench.scaling._attention import TAKES_P
from bench.scaling._kernel import Axis, Kernel, doubled, drawn, source


def _keys(
    device: str, n: int, d: int, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    (k,) = drawn(device, (n, d), dtype=dtype)
    return k / k.norm(dim=1, keepdim=True)


def _columns(device: str, n: int, k: int) -> torch.Tensor:
    """k columns a row, n / 2k apart: they differ within a row, and each column is in k
    rows.
    """
    i = torch.arange(n)[:, None]
    steps = torch.arange(k) * (n // (2 * k))
    columns = (i + steps) % n
    return columns.to(device)


def _verify(device: str, *, n: int, d: int) -> Callable:
    k = _keys(device, n, d)
    columns = _columns(device, n, 4)
    q = 20 * k[columns].sum(1)
    code = expressive.Code(q, k, 0.1, 0.1)
    return partial(expressive.verify, code, columns)


def _fit(device: str, *, n: int, d: int) -> Callable:
    columns = _columns(device, n, 4)

    def run():
        return expressive.fit(
            columns,
            d=d,
            eps1=0.5,
            eps2=0.1,
            s=7.0,
            restarts=1,
            generator=source("cpu"),
        )

    return run


def _interpolated(device: str, *, n: int, d: int) -> Callable:
    (y,) = drawn(device, (n, 4))
    k = _keys(device, n, d)
    columns = _columns(device, n, 4)
    return partial(expressive.interpolate, k, columns, y)


def _coherence(device: str, *, n: int, d: int) -> Callable:
    k = _keys(device, n, d)
    return partial(codes.coherence, k)


def _margins(device: str, *, n: int, d: int) -> Callable:
    (q,) = drawn(device, (n, d))
    k = _keys(device, n, d)
    columns = _columns(device, n, 4)
    return partial(codes.margins, q, k, columns)


def _moments(device: str, *, n: int) -> Callable:
    columns = _columns(device, n, 4)
    return partial(codes.moment_queries, columns, n=n, gap=1.0)


def _code_from(device: str, *, n: int, d: int) -> Callable:
    k = _keys(device, n, d)
    return partial(codes.code_from, k, k)


def _projection(family: str) -> Callable:
    def make(device: str, *, n: int, d: int) -> Callable:
        def run() -> torch.Tensor:
            return lowrank.projection(d, n, family, generator=source(device))

        return run

    return make


def _srht(device: str, *, N: int, n: int) -> Callable:
    (x,) = drawn(device, (N, n))

    def run() -> torch.Tensor:
        return lowrank.srht(x, 64, generator=source(device), check=False)

    return run


def _grid(kernel: Callable) -> Callable:
    """N inputs of two tokens: the cells are sqrt(N)."""

    def make(device: str, *, N: int) -> Callable:
        return partial(kernel, round(N**0.5))

    return make


def _sweep(cells: int):
    return universal.context_ids(patterns.dense(2), 2, 1, cells)


def _equivariant(cells: int):
    return universal.equivariant_ids(2, 1, cells)


def _logits(kernel: Callable) -> Callable:
    def make(device: str, *, N: int, n: int) -> Callable:
        (a,) = drawn(device, (N, n), dtype=torch.float64)
        return partial(kernel, a)

    return make


def _ids(kernel: Callable) -> Callable:
    def make(device: str, *, N: int, n: int, d: int) -> Callable:
        x, v = drawn(device, (N, n, d), (d,), dtype=torch.float64)
        return partial(kernel, x, v / d**0.5, 0.3)

    return make


def _gap(device: str, *, N: int) -> Callable:
    (ids,) = drawn(device, (N,), dtype=torch.float64)
    return partial(memorize.smallest_gap, ids)


def _direction(device: str, *, N: int, d: int) -> Callable:
    (x,) = drawn(device, (N, d), dtype=torch.float64)
    return lambda: memorize.choose_projection(x, generator=source("cpu"), best_of=4)


def _memorizer(device: str, *, N: int, n: int, d: int) -> Callable:
    (vocabulary,) = drawn(device, (64, d), dtype=torch.float64)
    words = torch.randint(64, (N, n), generator=source("cpu")).to(device)
    labels = words.sum(1, keepdim=True).expand(N, n) % 7
    return lambda: memorize.memorize(vocabulary[words], labels, generator=source("cpu"))


def _line(kernel: Callable) -> Callable:
    """N ids with two labels each, read at 256 points."""

    def make(device: str, *, N: int) -> Callable:
        ids = _numbered(device, N)
        labels, points = drawn(device, (N, 2), (256,), dtype=torch.float64)
        return lambda: kernel(ids, labels, points * N)

    return make


def _numbered(device: str, n: int) -> torch.Tensor:
    """The ids 0, 1, .., n - 1."""
    return torch.arange(n, dtype=torch.float64, device=device)


def _fitted(ids, labels, points) -> memorize.Line:
    return memorize.fit_line(ids, labels)


def _read(ids, labels, points) -> torch.Tensor:
    return memorize.interpolate(points, ids, labels)


def _relu(device: str, *, N: int) -> Callable:
    labels, points = drawn(device, (N, 2), (256,), dtype=torch.float64)
    line = memorize.fit_line(_numbered(device, N), labels)
    return partial(memorize.relu_layer, points, line)


def _fields(device: str, *, n: int, L: int) -> Callable:
    mask = patterns.window(n, 5).mask().to(device)
    return partial(copying.receptive_fields, [mask] * L)


def _hops(device: str, *, n: int) -> Callable:
    pattern = patterns.star(n)
    return partial(patterns.hops, pattern)


def _rows_of(kernel: Callable) -> Callable:
    def make(device: str, *, n: int) -> Callable:
        (p,) = drawn(device, (n, n))
        return partial(kernel, p.softmax(-1), check=False)

    return make


KERNELS = [
    Kernel(
        "verify",
        "expressive.verify",
        _verify,
        {"n": 1024, "d": 32},
        {
            "n": Axis(doubled(1024, 3), 2, 0, "2 n^2 d, a tile at a time"),
            "d": Axis(doubled(256), 1, 1, "2 n^2 d", {"n": 512}),
        },
    ),
    Kernel(
        "fit",
        "expressive.fit",
        _fit,
        {"n": 1024, "d": 256},
        {
            "n": Axis(doubled(512), 2, 1, "one draw and its verification"),
            "d": Axis(doubled(192), 1, 1, "n^2 d", {"n": 512}),
        },
    ),
    Kernel(
        "interpolate (keys)",
        "expressive.interpolate",
        _interpolated,
        {"n": 1024, "d": 64},
        {
            "n": Axis(doubled(512), 1, 1, "row by row"),
            "d": Axis(doubled(64), 1, 1, "k^2 d a row"),
        },
    ),
    Kernel(
        "coherence",
        "codes.coherence",
        _coherence,
        {"n": 1024, "d": 8},
        {
            "n": Axis(doubled(1024), 2, 0, "tiles of 256 rows"),
            "d": Axis(
                doubled(256), 1, 1, "n^2 d; the check of the values looks at all keys"
            ),
        },
    ),
    Kernel(
        "margins",
        "codes.margins",
        _margins,
        {"n": 512, "d": 32},
        {
            "n": Axis(doubled(512), 2, 0, "m n d, a tile of logits"),
            "d": Axis(doubled(512), 1, 0, "m n d"),
        },
    ),
    Kernel(
        "moment_queries",
        "codes.moment_queries",
        _moments,
        {"n": 512},
        {"n": Axis(doubled(256, 3), 2, 0, "m n k, a tile")},
    ),
    Kernel(
        "code_from",
        "codes.code_from",
        _code_from,
        {"n": 512, "d": 32},
        {
            "n": Axis(
                doubled(512), 2, 1, "margins of all rows, a tile of logits; the code"
            ),
            "d": Axis(doubled(512), 1, 1, "n^2 d"),
        },
    ),
    Kernel(
        "projection, gaussian",
        "lowrank.projection",
        _projection("gaussian"),
        {"n": 1024, "d": 64},
        {
            "n": Axis(doubled(1024), 1, 1, "k n draws"),
            "d": Axis(doubled(64), 1, 1, "k n draws, k = d"),
        },
    ),
    Kernel(
        "projection, sparse",
        "lowrank.projection",
        _projection("sparse"),
        {"n": 1024, "d": 64},
        {
            "n": Axis(doubled(1024), 1, 1, "k n log k"),
            "d": Axis(doubled(64), 1, 1, "k n log k, k = d"),
        },
    ),
    Kernel(
        "srht",
        "lowrank.srht",
        _srht,
        {"N": 16, "n": 1024},
        {
            "n": Axis(doubled(2048), 1, 1, "n log n a row"),
            "N": Axis(doubled(32), 1, 1, "row by row"),
        },
    ),
    Kernel(
        "context_ids of a grid",
        "universal.context_ids",
        _grid(_sweep),
        {},
        {
            "N": Axis(
                (1024, 4096, 16384, 65536),
                1.5,
                1,
                "layers grow with the cells, sqrt(N)",
            )
        },
        numpy=True,
    ),
    Kernel(
        "equivariant_ids of a grid",
        "universal.equivariant_ids",
        _grid(_equivariant),
        {},
        {
            "N": Axis(
                (64, 256, 1024, 4096), 1.5, 1, "layers grow with the cells, sqrt(N)"
            )
        },
        numpy=True,
    ),
    Kernel(
        "boltzmann",
        "memorize.boltzmann",
        _logits(partial(memorize.boltzmann, check=False)),
        {"N": 256, "n": 64},
        {
            "N": Axis(doubled(2048), 1, 1, "row by row"),
            "n": Axis(doubled(512), 1, 1, "an entry each"),
        },
    ),
    Kernel(
        "context_ids",
        "memorize.context_ids",
        _ids(partial(memorize.context_ids, check=False)),
        {"N": 1, "n": 32, "d": 16},
        {
            "n": Axis(doubled(512), 2, 0, "every pair of tokens, a tile at a time"),
            "N": Axis(doubled(256), 1, 0, "sequences, a tile at a time"),
            "d": Axis(doubled(1024), 1, 1, "n d", {"N": 8}),
        },
    ),
    Kernel(
        "separate",
        "memorize.separate",
        _ids(memorize.separate),
        {"N": 16, "n": 16, "d": 16},
        {
            "N": Axis(doubled(64), 1, 1, "ids and two sorts"),
            "n": Axis(
                doubled(512), 2, 0, "every pair of tokens, a tile at a time", {"N": 1}
            ),
        },
    ),
    Kernel(
        "smallest_gap",
        "memorize.smallest_gap",
        _gap,
        {},
        {"N": Axis(doubled(2**15), 1, 1, "one sort of a copy")},
        numpy=True,
    ),
    Kernel(
        "choose_projection",
        "memorize.choose_projection",
        _direction,
        {"N": 256, "d": 4},
        {
            "N": Axis(
                doubled(1024, 3), 2, 0, "all pairs of tokens, a tile of 2^20 at a time"
            ),
            "d": Axis(doubled(32), 1, 0, "|V|^2 d, a tile at a time"),
        },
    ),
    Kernel(
        "memorize",
        "memorize.memorize",
        _memorizer,
        {"N": 64, "n": 8, "d": 16},
        {
            "N": Axis(doubled(1024), 1, 1, "N n (n + d + log N n)"),
            "n": Axis(
                doubled(128), 2, 0, "every pair of tokens, a tile at a time", {"N": 8}
            ),
            "d": Axis(doubled(512), 1, 1, "N n d"),
        },
    ),
    Kernel(
        "fit_line",
        "memorize.fit_line",
        _line(_fitted),
        {},
        {"N": Axis(doubled(2**14), 1, 1, "O(D c)")},
    ),
    Kernel(
        "interpolate (labels)",
        "memorize.interpolate",
        _line(_read),
        {},
        {"N": Axis(doubled(2**15), 1, 1, "reading the ids once")},
    ),
    Kernel(
        "relu_layer",
        "memorize.relu_layer",
        _relu,
        {},
        {"N": Axis(doubled(2**11), 1, 0, "256 points, D units, chunks")},
    ),
    Kernel(
        "receptive_fields",
        "copying.receptive_fields",
        _fields,
        {"n": 256, "L": 2},
        {
            "n": Axis(doubled(128), 3, 2, "products of n x n masks"),
            "L": Axis(doubled(8), 1, 1, "a field a layer", {"n": 128}),
        },
        dense=TAKES_P,
    ),
    Kernel(
        "hops",
        "patterns.hops",
        _hops,
        {},
        {"n": Axis(doubled(256), 3, 2, "n^3 / 64 word operations")},
        dense="it takes a pattern as an n x n table of bits",
    ),
    Kernel(
        "dobrushin",
        "bridges.dobrushin",
        _rows_of(bridges.dobrushin),
        {},
        {"n": Axis(doubled(64), 3, 2, "every pair of rows")},
        dense=TAKES_P,
    ),
    Kernel(
        "rank_floor",
        "bridges.rank_floor",
        _rows_of(bridges.rank_floor),
        {},
        {"n": Axis(doubled(128), 2, 2, "n^2, a sum for each rank")},
        dense=TAKES_P,
    ),
    Kernel(
        "critical_beta",
        "bridges.critical_beta",
        _logits(bridges.critical_beta),
        {"N": 256, "n": 64},
        {
            "N": Axis(doubled(1024), 1, 1, "row by row"),
            "n": Axis(doubled(512), 1, 1, "n log n, a sort"),
        },
    ),
]

# Why a public function that takes tensors, arrays, layers or patterns has no row.
APART = {
    "it checks, and computes nothing": (
        "attention.check_blocks attention.check_layers attention.check_network "
        "attention.check_norm attention.check_weights"
    ),
    "it calls the part that it is given": "attention.around",
    "one pass over its input": (
        "attention.hardmax bridges.radius bridges.state_floor "
        "collapse.composite_norm "
        "collapse.residual copying.bound copying.ceiling "
        "copying.copy_targets copying.reached efficacy.accuracy lowrank.effective_rank "
        "memorize.sum_of_integers "
        "universal.ramp_mlp memorize.rank_one_layer efficient.positive_features "
        "efficient.gated_linear_step efficient.delta_step efficient.linear_step "
        "efficient.selective_step"
    ),
    "one pass over its output": "bridges.cluster_logits",
    "torch's distances of all pairs, or its norms of the weights": (
        "collapse.diameter collapse.log_diameter_bound"
    ),
    "literal twin, slow on purpose": (
        "paths.path_term paths.path_terms "
        "efficient.lsh_sets efficient.naive_attention efficient.tiled_attention"
    ),
    "a call of kernels in the table": (
        "efficacy.logit_parts efficacy.logits "
        "universal.apply universal.approximate "
        "universal.approximate_equivariant memorize.data_scale"
    ),
    "it asks the rule that it is given, of all pairs": "patterns.from_rule",
    "a table is sorted once, to build a network": (
        "memorize.telling_tokens memorize.count_ids memorize.fit_counts"
    ),
    "a small system a group, once, checked at all points": "memorize.fit_groups",
    "the loop inside a row of the table": "expressive.settle",
    "views, no numbers are moved": (
        "attention.read_layer attention.read_mlp paths.restrict"
    ),
    "weights are put side by side once": "efficient.gqa_as_mla",
    "a row by another name, whose input is checked": "attention.feed attention.normed",
    "exact or exhaustive search on small inputs": (
        "copying.best_accuracy universal.run universal.run_standard "
        "universal.contextual_map patterns.is_path "
        "efficient.gqa_error"
    ),
    "an n x n table of bits by definition": (
        "patterns.closure patterns.from_masks "
        "patterns.pack patterns.reach patterns.check patterns.crossing"
    ),
    "it edits a few parts of a pattern": (
        "patterns.causal patterns.one_step patterns.union"
    ),
}
