"""What rows cost: the formulas of attnlib.efficient against kernels and steps that run
under torch's counter, and literal passes that count what they move.
"""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from attnlib import patterns
from attnlib.efficient import (
    decoding,
    delta_attention,
    delta_step,
    depth,
    flops,
    gated_linear_attention,
    gated_linear_step,
    gqa_as_mla,
    gqa_error,
    linear_attention,
    linear_step,
    lsh_attention,
    lsh_buckets,
    naive_attention,
    performer_attention,
    positive_features,
    selective_scan,
    selective_step,
    tiled_attention,
    traffic,
)
from attnlib.lowrank import linformer_attention, nystrom_attention
from attnlib.patterns import Blocks, Columns, build
from attnlib.sparse import masked_attention

D = 16
double = {"dtype": torch.float64}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


# --- one pass


def fused_products(q, k, v, *_, **how):
    return sdpa_flop_count(q, k, v)


def solve_products(a, b, *_, **how):
    """A triangular system: a multiplication and an addition for each entry."""
    return math.prod(b) * a[-1]


# what torch's counter does not know
UNKNOWN = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: fused_products,
    torch.ops.aten.linalg_solve_triangular: solve_products,
}


def counted(run):
    counter = FlopCounterMode(display=False, custom_mapping=UNKNOWN)
    with counter, torch.no_grad():
        run()
    return counter.get_total_flops()


def dense(q, k, v):
    return partial(masked_attention, q, k, v)


def fused(q, k, v):
    return partial(
        F.scaled_dot_product_attention, q[None, None], k[None, None], v[None, None]
    )


def linformer(q, k, v, *, k_):
    e = q.new_ones(k_, len(q))
    return partial(linformer_attention, q, k, v, e, e, check=False)


def nystrom(q, k, v, *, k_, iterations=None):
    how = {"iterations": iterations, "check": False}
    return partial(nystrom_attention, q, k, v, k_, **how)


def strided_pattern(n, l):
    both = patterns.strided(n, l, reach=l)
    return patterns.causal(patterns.one_step(both))


def fixed_pattern(n, l, c):
    ends = tuple(j for j in range(n) if j % l >= l - c)
    return patterns.causal(build(n, [Blocks(l), Columns(ends)]))


def lsh(q, k, v, *, r, m, b, buckets=None, causal=False):
    factors = b if buckets is None else (b // 2, b // 2)
    how = {"rounds": r, "chunk": m, "causal": causal, "check": False}
    return lambda: lsh_attention(q, v, buckets=factors, generator=seeded(), **how)


def linear(q, k, v, *, m=None):
    how = {} if m is None else {"causal": True, "chunk": m}
    return partial(linear_attention, q, k, v, check=False, **how)


def performer(q, k, v, *, f, m=None):
    how = {} if m is None else {"causal": True, "chunk": m}
    return lambda: performer_attention(
        q, k, v, features=f, generator=seeded(), check=False, **how
    )


def gated(q, k, v, *, m):
    gate = torch.rand(len(q), generator=seeded())
    return partial(gated_linear_attention, q, k, v, gate, chunk=m)


def delta(q, k, v, *, m):
    gate = torch.rand(len(q), generator=seeded())
    return partial(delta_attention, q, k, v, gate, gate, chunk=m)


def scan(q, k, v, *, s, m):
    a = torch.rand(*q.shape, s, generator=seeded())
    b = torch.randn(len(q), s, generator=seeded())
    return partial(selective_scan, q, a, b, b, chunk=m)


def gru(q, k, v):
    layer = torch.nn.GRU(q.shape[-1], q.shape[-1])
    return partial(layer, q)


# Rows of the table, their kernels and sizes; those of patterns, in tiles, are counted
# by the theorems counts and newer_counts.
ROWS = [
    ("dense", dense, {}),
    ("fused", fused, {}),
    ("linformer", linformer, {"k": 32}),
    ("nystrom", nystrom, {"k": 16}),
    ("nystrom", nystrom, {"k": 32, "iterations": 6}),
    ("lsh", lsh, {"r": 2, "m": 64, "b": 8}),
    ("lsh", lsh, {"r": 3, "m": 8, "b": 4}),
    ("linear", linear, {}),
    ("linear causal", linear, {"m": 32}),
    ("linear causal", linear, {"m": 8}),
    ("performer", performer, {"f": 24}),
    ("performer", performer, {"f": 8}),
    ("performer causal", performer, {"f": 24, "m": 32}),
    ("performer causal", performer, {"f": 24, "m": 8}),
    ("gated", gated, {"m": 8}),
    ("gated", gated, {"m": 64}),
    ("delta", delta, {"m": 8}),
    ("delta", delta, {"m": 64}),
    ("scan", scan, {"s": 4, "m": 8}),
    ("scan", scan, {"s": 4, "m": 64}),
    ("gru", gru, {}),
]
NAMES = [f"{row} {sizes}" for row, _, sizes in ROWS]


def run_of(kernel, sizes, n):
    q, k, v = torch.randn(3, n, D, generator=seeded(n)).unbind()
    renamed = {"k_" if name == "k" else name: size for name, size in sizes.items()}
    return kernel(q, k, v, **renamed)


@pytest.mark.parametrize(("row", "kernel", "sizes"), ROWS, ids=NAMES)
def test_flops_of_a_pass(row, kernel, sizes):
    for n in (64, 128) if row == "gru" else (256, 512):
        assert counted(run_of(kernel, sizes, n)) == flops(row, n, D, **sizes)


def test_sizes_that_are_left_out():
    """Tiles of 32, chunks of 64, one round, one summary a block, two drawn blocks, no
    iterations.
    """
    assert flops("window", 640, 2, w=5) == 4 * 640 * (32 + 5 - 1) * 2
    assert flops("fixed", 640, 2, l=8) == 4 * 640 * (8 + 640 // 8) * 2
    assert flops("lsh", 640, 2, b=8) == 640 * 2 * 8 + 8 * 640 * 64 * 2
    assert flops("gated", 640, 2) == 4 * 640 * (64 + 2) * 2
    assert flops("nystrom", 640, 2, k=10) == 8 * 640 * 10 * 2 + 4 * 10 * 10 * 2
    bands = 40 + 2 * 5 + 37 * 6  # a first block, two at the ends, 37 between
    assert flops("bigbird", 640, 2, block=16) == 4 * 16**2 * bands * 2


@pytest.mark.parametrize("drawn", [0, 1, 3])
def test_a_few_blocks_read_what_there_is(drawn):
    """A short BigBird is dense, and never more."""
    for blocks in range(1, 9):
        found = flops("bigbird", 16 * blocks, D, block=16, drawn=drawn)
        pairs = found / (4 * 16**2 * D)
        assert 0 < pairs <= blocks**2
        if blocks <= 3 or blocks == 3 + drawn:
            assert pairs == blocks**2
        if blocks >= 4 + drawn:
            assert pairs == (5 + drawn) * blocks - 6 - drawn


def test_the_gru_without_its_input_products():
    """Inputs one wide cost 6 n d, beside the 6 n d^2 of the recurrence."""
    layer = torch.nn.GRU(1, D)
    x = torch.randn(100, 1, generator=seeded())
    seen = counted(lambda: layer(x))
    assert seen == flops("gru recurrence", 100, D) + 6 * 100 * D
    assert flops("gru", 100, D) - flops("gru recurrence", 100, D) == 6 * 100 * D * D


def test_causal_hashing_leaves_seats_empty():
    """Never more than the formula; exactly that if one chunk holds each of two buckets;
    and up to 1 + b (m - 1) / n times what the row without a mask costs.
    """
    for n, m in ((480, 60), (256, 64), (128, 128)):
        sizes = {"r": 2, "m": m, "b": 16}
        run = run_of(partial(lsh, buckets=64, causal=True), sizes, n)
        assert counted(run) <= flops("lsh causal", n, D, **sizes, buckets=64)
    n = 64
    two = {"r": 1, "m": n, "b": 2}
    run = run_of(partial(lsh, causal=True), two, n)
    assert counted(run) == flops("lsh causal", n, D, **two, buckets=2)
    assert counted(run) == 2 * n * D + 8 * (2 * n) * n * D
    at = {"m": 60, "b": 48}
    without_mask = flops("lsh", 960, D, **at)
    seats = 960 + 48 * 59
    assert seats / 960 == pytest.approx(3.95)
    most = flops("lsh causal", 960, D, **at, buckets=48)
    assert most == 960 * D * 48 + 8 * (seats // 60 * 60) * 60 * D > 3 * without_mask


@pytest.mark.parametrize("d", [16, 2])
def test_the_most_seats_that_hashing_leaves_empty(d):
    """Two opposite directions, five tokens each: their buckets fill one chunk of four
    and begin another, so that both leave three seats empty, 16 seats for ten tokens.
    """
    direction = torch.randn(d, generator=seeded())
    q = direction * torch.tensor([1.0, -1.0]).repeat(5)[:, None]
    run = lsh(q, q, q, r=1, m=4, b=2, causal=True)
    sizes = {"r": 1, "m": 4, "b": 2, "buckets": 2}
    products = 10 * d * 2 + 8 * 16 * 4 * d
    assert counted(run) == flops("lsh causal", 10, d, **sizes) == products


class Chain(TorchDispatchMode):
    """The longest chain of operations that had to wait for one another."""

    def __init__(self):
        super().__init__()
        self.place = {}
        self.held = []  # so that no address is used twice
        self.longest = 0

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        result = f(*args, **(kwargs or {}))
        before = [self.at(t) for t in self.flat([args, kwargs or {}])]
        step = 0 if f.is_view else 1
        for t in self.flat([result]):
            place = max([self.at(t), *(b + step for b in before)])
            self.place[t.untyped_storage()._cdata] = place
            self.held.append(t)
            self.longest = max(self.longest, place)
        return result

    def at(self, t):
        return self.place.get(t.untyped_storage()._cdata, 0)

    def flat(self, given):
        for item in given:
            if torch.is_tensor(item):
                yield item
            elif isinstance(item, dict):
                yield from self.flat(item.values())
            elif isinstance(item, list | tuple):
                yield from self.flat(item)


def chain(kernel, sizes, n):
    run = run_of(kernel, sizes, n)
    run()
    with Chain() as seen, torch.no_grad():
        run()
    return seen.longest


STEADY = ["dense", "fused", "linformer", "nystrom", "linear", "performer"]


@pytest.mark.parametrize(
    ("row", "kernel", "sizes"), [r for r in ROWS if r[0] in STEADY]
)
def test_depth_one_does_not_grow(row, kernel, sizes):
    assert depth(row, 256) == depth(row, 1024) == 1
    assert chain(kernel, sizes, 256) == chain(kernel, sizes, 1024)


@pytest.mark.parametrize(
    ("row", "kernel", "sizes", "each"),
    [
        ("gated", gated, {"m": 8}, 2),  # shrink, add
        ("delta", delta, {"m": 8}, 4),  # read, subtract, write, add
        ("scan", scan, {"s": 4, "m": 8}, 2),
        ("gru", gru, {}, None),
    ],
)
def test_depth_is_the_chain_of_the_loop(row, kernel, sizes, each):
    """What a chain grows by over what the depth grows by: the same at all lengths."""
    shortest, middle, longest = (chain(kernel, sizes, n) for n in (64, 128, 512))
    steps = [depth(row, n, m=8) for n in (64, 128, 512)]
    first = (middle - shortest) / (steps[1] - steps[0])
    then = (longest - middle) / (steps[2] - steps[1])
    assert first == then > 0
    assert each is None or first == each


def test_depth_of_a_scan_has_two_loops():
    """Wider chunks: the loop inside grows, the one over chunks shrinks."""
    n = 512
    for m in (8, 16, 64):
        assert depth("scan", n, m=m) == m + n // m
        found = chain(scan, {"s": 4, "m": m}, n)
        assert found - chain(scan, {"s": 4, "m": 8}, n) == 2 * (m + n // m - 8 - n // 8)


@pytest.mark.parametrize(
    ("row", "kernel", "sizes"), [r for r in ROWS if r[0] in ("gated", "delta", "scan")]
)
def test_chunks_longer_than_all(row, kernel, sizes):
    for n in (1, 5):
        run = run_of(kernel, sizes, n)
        assert counted(run) == flops(row, n, D, **sizes)


def test_depths_by_hand():
    assert depth("gated", 100, m=64) == 2
    assert depth("gru", 100) == depth("gru recurrence", 100) == 100
    assert depth("lsh", 4096) == 12 and depth("lsh", 4097) == 13
    assert depth("window", 10**6) == 1


# --- one step


def draw(*size):
    return torch.randn(*size, generator=seeded(sum(size)), **double)


def attend(q, k, v):
    """Queries of all heads, each with keys and values of its own."""
    return torch.softmax(q @ k.mT, -1) @ v


def cache_step(heads, d, keys):
    kept = [draw(heads, keys, d), draw(heads, keys, d)]
    attend(draw(heads, 1, d), *kept)
    return kept


def gqa_step(heads, d, n, groups):
    kept = [draw(groups, n, d), draw(groups, n, d)]
    q = draw(groups, heads // groups, d)
    attend(q, *kept)
    return kept


def mla_step(heads, d, n, latent):
    kept = [draw(n, latent)]
    up, out = draw(heads, latent, d), draw(heads, latent, d)
    q = draw(heads, 1, d) @ up.mT
    attend(q, *kept, *kept) @ out
    return kept


def hashed_step(heads, d, n, r, m, b):
    kept = [draw(heads, n, d), draw(heads, n, d), draw(heads, r, n)]
    q = draw(heads, 1, d)
    lsh_buckets(q, b, rounds=r, generator=seeded())
    for _ in range(r):
        attend(q, kept[0][:, -2 * m :], kept[1][:, -2 * m :])
    return kept


def carried(step, *given):
    """Twice: what a step keeps does not grow."""
    _, state = step(*given)
    with FlopCounterMode(display=False) as counter:
        _, after = step(*given, state=state)
    assert after.shape == state.shape
    return state, counter.get_total_flops()


def performer_step(heads, d, f):
    w = draw(f, d)
    kept = [draw(heads, f, d + 1)]
    q = positive_features(draw(heads, 1, d), w)
    k = positive_features(draw(heads, 1, d), w)
    kept[0] = kept[0] + k.mT @ draw(heads, 1, d + 1)
    q @ kept[0]
    return kept


@pytest.mark.parametrize("heads", [1, 6])
@pytest.mark.parametrize(
    ("row", "step", "sizes"),
    [
        ("cache", lambda h, d, n: cache_step(h, d, n), {}),
        ("mla", mla_step, {"latent": 20}),
        ("window", lambda h, d, n, w: cache_step(h, d, w), {"w": 17}),
        ("longformer", lambda h, d, n, w, g: cache_step(h, d, w + g), {"w": 9, "g": 3}),
        ("lsh", hashed_step, {"r": 3, "m": 8, "b": 4}),
        ("performer", lambda h, d, n, f: performer_step(h, d, f), {"f": 12}),
    ],
)
def test_a_step_that_reads_a_cache(row, step, sizes, heads):
    n, d = 64, 8
    kept = step(heads, d, n, **sizes)
    found = decoding(row, n, d, heads=heads, **sizes)
    assert found.state == sum(t.numel() for t in kept)
    assert found.flops == counted(lambda: step(heads, d, n, **sizes))


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_a_step_of_grouped_queries(groups):
    kept = gqa_step(6, 8, 64, groups)
    found = decoding("gqa", 64, 8, heads=6, groups=groups)
    assert found.state == sum(t.numel() for t in kept)
    assert found.flops == counted(lambda: gqa_step(6, 8, 64, groups))
    assert found.flops == decoding("cache", 64, 8, heads=6).flops


@pytest.mark.parametrize("heads", [1, 6])
def test_a_step_with_a_state_of_fixed_size(heads):
    d, s = 8, 3
    q, k, v = draw(3, heads, d).unbind()
    gate = draw(heads)
    steps = {
        "linear": carried(linear_step, q, k, v),
        "gated": carried(gated_linear_step, q, k, v, gate),
        "delta": carried(partial(delta_step, gate=gate), q, k, v, gate),
    }
    one = draw(s)
    channels = q.flatten()
    a = draw(heads * d, s)
    steps["scan"] = carried(selective_step, channels, a, one, one)
    cell = torch.nn.GRUCell(1, heads * d, **double)
    h = draw(1, heads * d)
    seen = counted(lambda: cell(draw(1, 1), h)) - 6 * heads * d  # input one wide
    steps["gru"] = (h, seen)
    for row, (state, count) in steps.items():
        sizes = {"s": s} if row == "scan" else {}
        for n in (1, 100):
            found = decoding(row, n, d, heads=heads, **sizes)
            assert (found.state, found.flops) == (state.numel(), count), row


@pytest.mark.parametrize("n", [1, 5, 8, 9, 16, 17, 40, 63])
def test_keys_of_a_step_are_a_row_of_the_pattern(n):
    d = 8
    for l, c in ((8, 1), (8, 3), (5, 2)):
        reads = int(strided_pattern(64, l).mask()[n - 1].sum())
        found = decoding("strided", n, d, l=l)
        assert (found.state, found.flops) == (2 * n * d, 4 * reads * d)
        reads = int(fixed_pattern(64, l, c).mask()[n - 1].sum())
        found = decoding("fixed", n, d, l=l, c=c)
        assert (found.state, found.flops) == (2 * reads * d, 4 * reads * d)


def test_decoding_by_hand():
    """A cache at 4096 tokens of width 64 against a state of fixed size."""
    assert decoding("cache", 4096, 64).state == 524_288
    assert decoding("linear", 4096, 64).state == 4_160
    assert decoding("window", 10, 4, w=100) == decoding("cache", 10, 4)
    assert decoding("bigbird", 100, 4, w=9, g=1, drawn=2).flops == 4 * 12 * 4
    assert decoding("bigbird", 100, 4, w=9, g=1, drawn=2).state == 2 * 100 * 4
    assert decoding("bigbird", 100, 4, w=9, g=1, drawn=0).flops == 4 * 10 * 4
    # without r and c: one round, one summary a block; 64 tokens in each of two chunks
    hashed = decoding("lsh", 1000, 4, b=8)
    assert (hashed.state, hashed.flops) == (9000, 4 * 8 + 4 * 128 * 4)
    assert decoding("fixed", 10, 4, l=4).flops == 4 * (2 + 2) * 4


# --- what is moved


@pytest.mark.parametrize(
    ("n", "rows", "columns"), [(50, 16, 7), (64, 16, 16), (5, 8, 8), (9, 1, 1)]
)
def test_literal_passes_move_what_the_formulas_say(n, rows, columns):
    d = 6
    q, k, v = draw(3, n, d).unbind()
    y, naive = naive_attention(q, k, v)
    z, tiled = tiled_attention(q, k, v, rows=rows, columns=columns)
    wanted = masked_attention(q, k, v)
    assert (y - wanted).abs().max() < 1e-12
    assert (z - wanted).abs().max() < 1e-12
    assert naive == traffic("naive", n, d, bytes_each=8)
    assert tiled == traffic("fused", n, d, rows=rows, columns=columns, bytes_each=8)
    assert naive.moved == naive.read + naive.written


def test_tiles_larger_than_all():
    q, k, v = draw(3, 5, 6).unbind()
    _, moved = tiled_attention(q, k, v, rows=10**20, columns=10**20)
    assert moved == traffic("fused", 5, 6, rows=5, columns=5, bytes_each=8)


def test_traffic_by_hand():
    """n = 2, d = 1: Q, K, V and twice 4 numbers read; twice 4 and 2 written. A tile of
    one query reads 2 queries and twice all 4 numbers of keys and values.
    """
    assert traffic("naive", 2, 1) == (2 * 14, 2 * 10)
    assert traffic("fused", 2, 1, rows=1, columns=2) == (2 * 10, 2 * 4)
    far = {"rows": 128, "columns": 64}
    ratio = traffic("naive", 2**17, 64).moved / traffic("fused", 2**17, 64, **far).moved
    assert ratio == pytest.approx(2 * 128 / 64, rel=1e-2)


def test_tiles_do_not_overflow():
    q, k, v = (1e3 * draw(3, 20, 4)).unbind()
    y, _ = tiled_attention(q, k, v, rows=4, columns=4)
    assert (y - masked_attention(q, k, v)).abs().max() < 1e-9


# --- caches that heads share


def test_every_gqa_is_an_mla():
    """The same weights to the bit, the same answers, as many numbers a token; with the
    other group's weights the answers differ.
    """
    heads, g, width, d, d_v, n = 6, 2, 12, 4, 3, 9
    x, w_q = draw(n, width), draw(heads, width, d)
    w_k, w_v = draw(g, width, d), draw(g, width, d_v)
    latent = gqa_as_mla(w_k, w_v, heads)
    assert latent.down.shape == (width, g * (d + d_v))
    cache = x @ latent.down
    for h in range(heads):
        group = h // 3
        assert torch.equal(latent.down @ latent.keys[h], w_k[group])
        assert torch.equal(latent.down @ latent.values[h], w_v[group])
        q = x @ w_q[h]
        wanted = attend(q, x @ w_k[group], x @ w_v[group])
        y = attend(q, cache @ latent.keys[h], cache @ latent.values[h])
        other = attend(q, x @ w_k[1 - group], x @ w_v[1 - group])
        assert (y - wanted).abs().max() < 1e-12 < 1e-2 < (y - other).abs().max()


def test_an_mla_is_no_gqa():
    """Forms of grouped queries are within rounding of some grouping, even if the groups
    are not neighbours. Forms of a latent cache of the same size miss by a third: an
    independent search over two groups by bits finds the same.
    """
    heads, width, d = 8, 32, 4
    w_q = draw(heads, width, d)
    shared = draw(2, width, d)
    grouped = torch.stack([w_q[h] @ shared[h % 2].T for h in range(heads)])
    assert gqa_error(grouped, 2, d) < 1e-13
    assert gqa_error(grouped, 1, d) > 0.1
    down, up = draw(width, 2 * d), draw(heads, 2 * d, d)
    forms = w_q @ (down @ up).mT
    best = 1.0
    for bits in range(2 ** (heads - 1)):
        off = 0.0
        for side in (0, 1):
            group = [h for h in range(heads) if (bits >> h) & 1 == side]
            if group:
                sigma = torch.linalg.svdvals(torch.cat([forms[h] for h in group]))
                off += float(sigma[d:].square().sum())
        best = min(best, (off / float(forms.square().sum())) ** 0.5)
    assert float(gqa_error(forms, 2, d)) == pytest.approx(best, rel=1e-12)
    assert 0.25 < best < 0.4
    assert gqa_error(forms, heads, d) < 1e-13


@pytest.mark.parametrize("size", [1e-310, 1e-200, 1e200])
def test_an_error_is_relative_at_any_size(size):
    forms = draw(3, 5, 5)
    wanted = float(gqa_error(forms, 2, 2))
    within = 1e-9 if size > 1e-300 else 1e-2  # few digits are left of 1e-310
    assert float(gqa_error(size * forms, 2, 2)) == pytest.approx(wanted, rel=within)


# --- bad input


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: flops("gated", 4, 4, m=0), "m must be an integer of at least 1"),
        (lambda: flops("nystrom", 4, 4, k=2, iterations=-1), "iterations must be an"),
        (lambda: flops("gated", 4, 4, k=2), "sizes of gated must be m"),
        (lambda: decoding("gqa", 4, 4), "sizes of gqa must be groups"),
        (
            lambda: decoding("gqa", 4, 4, heads=6, groups=4),
            "groups must divide heads = 6, got 4",
        ),
        (lambda: decoding("fixed", 10, 4, l=4, c=9), "c must be at most l = 4, got 9"),
        (lambda: flops("fixed", 10, 4, l=4, c=9), "c must be at most l = 4, got 9"),
        (lambda: decoding("cache", 4, 4, heads=0), "heads must be an integer of at"),
        (lambda: traffic("naive", 4, 4, rows=2), "naive has no tiles"),
        (lambda: naive_attention(*draw(3, 2, 4, 2)), r"q must be \(n, d\), one head"),
        (
            lambda: gqa_as_mla(draw(2, 3, 4), draw(2, 3, 4), 5),
            "heads must be a multiple of g = 2, got 5",
        ),
        (lambda: gqa_error(draw(13, 2, 2), 2, 1), "at most 12 heads"),
        (lambda: gqa_error(0 * draw(3, 2, 2), 2, 1), "must not be all zero"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
