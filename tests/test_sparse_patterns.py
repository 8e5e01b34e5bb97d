"""sparse_attention against masked dense attention: every part, every union, gradients,
memory, and what it refuses.
"""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sparse import instance
from test_sparse_entries import made_of
from torch.utils._python_dispatch import TorchDispatchMode

from attnlib import patterns
from attnlib.patterns import (
    Blocks,
    Columns,
    Lists,
    Pattern,
    Rows,
    Step,
    Strided,
    Window,
    build,
)
from attnlib.sparse import _kernel, _tiles, masked_attention, sparse_attention
from bench.floor import bare_calls

EPS = 1e-12  # float64; the entries of these instances are of size one


def dense(q, k, v, mask, scale=None):
    """The literal twin, with its log-sum-exp."""
    logits = (q @ k.mT) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    lse = logits.masked_fill(~mask, -math.inf).logsumexp(-1)
    return masked_attention(q, k, v, mask, scale=scale), lse


def off(got, wanted, inputs) -> float:
    """The largest difference of values and of gradients, lse included."""
    g = torch.Generator().manual_seed(1)
    weights = [
        torch.randn(t.shape, generator=g, dtype=torch.float64).to(t) for t in wanted
    ]
    grads = [
        torch.autograd.grad(sum((w * t).sum() for w, t in zip(weights, pair)), inputs)
        for pair in (got, wanted)
    ]
    pairs = [*zip(got, wanted), *zip(*grads)]
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


def agrees(pattern, *, step=0, batch=(), seed=0, d=4, d_v=3, device="cpu", within=EPS):
    inputs = instance(pattern.n, batch, d, d_v, seed, device=device)
    got = sparse_attention(*inputs, pattern, step=step, return_lse=True)
    assert off(got, dense(*inputs, pattern.mask(step, device=device)), inputs) < within


def lists(n, seed, most=4):
    g = torch.Generator().manual_seed(seed)
    rows = [
        torch.randperm(n, generator=g)[
            : int(torch.randint(0, min(n, most) + 1, (), generator=g))
        ]
        .sort()
        .values
        for _ in range(n)
    ]
    return Lists(torch.tensor([0, *map(len, rows)]).cumsum(0), torch.cat(rows))


@st.composite
def parts(draw, n):
    tokens = st.lists(st.integers(0, n - 1), min_size=1, max_size=4, unique=True).map(
        lambda t: tuple(sorted(t))
    )
    small = st.integers(0, n + 2)
    size = draw(st.integers(1, n + 1))
    kind = draw(
        st.sampled_from(["window", "strided", "blocks", "columns", "rows", "lists"])
    )
    if kind == "window":
        return Window(
            draw(small), draw(small), draw(st.integers(1, n + 1)), draw(st.booleans())
        )
    if kind == "strided":
        return Strided(size)
    if kind == "blocks":
        return Blocks(size, draw(st.integers(0, size - 1)), draw(st.integers(0, 3)))
    if kind == "lists":
        return lists(n, draw(st.integers(0, 10**6)))
    return (Columns if kind == "columns" else Rows)(draw(tokens))


@st.composite
def steps(draw):
    n = draw(st.integers(2, 60) | st.sampled_from([97, 131]))
    chosen = draw(st.lists(parts(n), min_size=1, max_size=4))
    return Pattern(n, (Step((Window(0, 0), *chosen), draw(st.booleans())),))


@pytest.mark.again
@settings(max_examples=80)
@given(
    steps(),
    st.sampled_from([(), (2,), (1, 3)]),
    st.sampled_from([3, 4]),
    st.integers(0, 10**6),
)
def test_any_union_is_masked_dense_attention(pattern, batch, d_v, seed):
    agrees(pattern, batch=batch, seed=seed, d_v=d_v)


def families(n):
    g = torch.Generator().manual_seed(0)
    made = {
        "dense": patterns.dense(n),
        "window": patterns.window(n, 7),
        "wide": patterns.window(n, 65),
        "dilated": patterns.window(n, 7, dilation=3),
        "dilation cycle": patterns.dilation_cycle(n),
        "directed cycle": patterns.directed_cycle(n),
        "star": patterns.star(n),
        "strided": patterns.one_step(patterns.strided(n)),
        "fixed": patterns.one_step(patterns.fixed(n)),
        "longformer": patterns.longformer(n, 9, 2),
        "bigbird": patterns.bigbird(n, 3, 2, 3, generator=g),
        "random": patterns.random(n, 8, generator=g),
        "shifted blocks": patterns.one_step(patterns.shifted_blocks(n)),
        "blockwise": patterns.blockwise(n),
        "logsparse": patterns.logsparse(n),
        "turning window": build(n, Window(20, 20, 6, True)),
        "looking back in a circle": build(n, Window(20, 9, 5, True)),
    }
    return {**made, "causal strided": patterns.causal(made["strided"])}


@pytest.mark.parametrize("n", [127, 192])
@pytest.mark.parametrize("name", families(127))
def test_the_families(name, n):
    pattern = families(n)[name]
    for step in range(min(pattern.p, 3)):
        agrees(pattern, step=step, batch=(2,), d_v=4)


def test_large_tiles_share_their_keys():
    agrees(build(1201, [Strided(2), Columns((0, 7)), Rows((3, 1200))]), d_v=4)
    agrees(build(1201, Blocks(600, 5)))


@pytest.mark.parametrize("n", [2, 3])
def test_the_smallest(n):
    agrees(build(n, Window(0, 0)))
    agrees(patterns.star(n))


def block_mask(n, b, seed):
    """BigBird by blocks: three round the own one, the first, two drawn ones; the first
    reads all.
    """
    g = torch.Generator().manual_seed(seed)
    m = n // b
    a = torch.arange(m)
    mask = (a[:, None] - a).abs() <= 1
    mask[:, 0] = mask[0] = True
    mask[
        a[:, None], torch.stack([torch.randperm(m, generator=g)[:2] for _ in range(m)])
    ] = True
    return mask.repeat_interleave(b, 0).repeat_interleave(b, 1)


def test_lists_of_whole_blocks_become_blocks_without_a_mask():
    pattern = patterns.from_masks(block_mask(256, 16, 0))
    agrees(pattern, d_v=4)
    tiles, entries = made_of(pattern)
    assert entries is None
    assert all(own.bias is None for own in tiles)
    pairs = [own.queries.table.numel() * own.keys.table.shape[1] for own in tiles]
    assert sum(pairs) == pattern.connections


def test_blocks_columns_and_rows_together():
    tokens = tuple(range(16))
    turned = [Blocks(16), Blocks(16, turn=1), Blocks(16, turn=15)]
    agrees(build(250, [*turned, Columns(tokens), Rows(tokens)]), d_v=4)


@pytest.mark.parametrize("size", [512, 513])
def test_large_blocks_are_cut_into_tiles_that_share_their_keys(size):
    pattern = build(2 * size, Blocks(size))
    agrees(pattern)
    shapes = {own.queries.table.shape[1] for own in made_of(pattern)[0]}
    assert shapes == ({512} if size == 512 else {128})


def test_overlaps_are_counted_once():
    """The same window three times over, once as a window, once in blocks, once as
    lists.
    """
    n = 40
    one = build(n, Window(3, 3))
    many = build(n, [Window(3, 3), Blocks(40), *one_as_lists(one)])
    inputs = [t.detach() for t in instance(n)]
    got = sparse_attention(*inputs, build(n, [Window(3, 3), *one_as_lists(one)]))
    assert float((got - sparse_attention(*inputs, one)).abs().max()) < EPS
    assert (
        float((sparse_attention(*inputs, many) - masked_attention(*inputs)).abs().max())
        < EPS
    )


def one_as_lists(pattern):
    return patterns.from_masks(pattern.mask()).steps[0].parts


def test_a_part_without_keys_in_a_row_weighs_nothing():
    """The fused kernel calls the log-sum-exp of nothing 0, which would be a weight like
    others.
    """
    inputs = instance(64, d=8, d_v=8)
    q, k, v = (t.detach().view(1, 1, 64, 8) for t in inputs)
    bias = torch.zeros(1, 64, 64, dtype=torch.float64)
    bias[0, 3] = -math.inf
    if _kernel._flash is not None:
        _, lse = _kernel._flash(q, k, v, attn_mask=bias[None], scale=1.0)
        assert float(lse[0, 0, 3]) == 0.0
    assert float(_kernel._softmax(q, k, v, bias)[1][0, 0, 3]) == -math.inf
    small = instance(64, d=8, d_v=8)
    with torch.no_grad():
        small[0] *= 0.01  # lse near log(count): a false 0 would weigh as much as a key
    pattern = build(64, [Window(2, 2), Columns((0, 5)), lists(64, 1)])
    got = sparse_attention(*small, pattern, return_lse=True)
    assert off(got, dense(*small, pattern.mask()), small) < EPS


def test_without_the_fused_kernel(monkeypatch):
    monkeypatch.setattr(_kernel, "_flash", None)
    for pattern in (
        patterns.longformer(131, 9, 3),
        patterns.one_step(patterns.strided(50)),
        patterns.random(40, 5, generator=torch.Generator()),
    ):
        agrees(pattern, d_v=4)


@pytest.mark.again
def test_gradcheck():
    inputs = instance(11, (2,), d=2, d_v=2)
    pattern = build(11, [Window(1, 1, 2), Strided(4), Columns((10,)), Rows((0,))])
    assert torch.autograd.gradcheck(
        lambda q, k, v: sparse_attention(q, k, v, pattern, return_lse=True), inputs
    )


def test_a_step_a_head():
    pattern = patterns.strided(30)
    inputs = instance(30, (2, 3))
    out, lse = sparse_attention(*inputs, pattern, step=[1, 0, 3], return_lse=True)
    mask = torch.stack([pattern.mask(s) for s in (1, 0, 3)])
    assert off((out, lse), dense(*inputs, mask), inputs) < EPS


def test_scale_and_views():
    inputs = instance(50, (2,))
    pattern = patterns.window(50, 5)
    assert (
        off(
            (sparse_attention(*inputs, pattern, scale=0.3),),
            dense(*inputs, pattern.mask(), 0.3)[:1],
            inputs,
        )
        < EPS
    )
    turned = [
        t.transpose(-3, -2) for t in instance(2, (50,))
    ]  # heads behind tokens, as projections give them
    assert (
        off(
            (sparse_attention(*turned, pattern),),
            dense(*turned, pattern.mask())[:1],
            turned,
        )
        < EPS
    )


def test_large_logits_stay_finite():
    inputs = [1e3 * t for t in instance(60, d_v=4)]
    for pattern in (
        patterns.longformer(60, 9, 2),
        patterns.one_step(patterns.strided(60)),
        patterns.random(60, 5, generator=torch.Generator()),  # by its entries
    ):
        y = sparse_attention(*inputs, pattern)
        assert (
            torch.isfinite(y).all()
            and torch.isfinite(torch.autograd.grad(y.sum(), inputs[0])[0]).all()
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_lower_precision_is_rounded_once(dtype):
    """Against float64 on the same numbers: half an ulp of the output, and 64 eps of
    float32.
    """
    pattern = patterns.one_step(patterns.strided(70))
    inputs = instance(70, (2,), d=8, d_v=8, dtype=dtype)
    y = sparse_attention(*inputs, pattern)
    wanted = masked_attention(*(t.double() for t in inputs), pattern.mask())
    bound = (
        wanted.abs() * torch.finfo(dtype).eps / 2 + 64 * torch.finfo(torch.float32).eps
    )
    assert y.dtype == dtype and bool(((y.double() - wanted).abs() <= bound).all())
    assert all(g.dtype == dtype for g in torch.autograd.grad(y.float().sum(), inputs))


AUTOCAST = {
    "window": lambda n: patterns.window(n, 17),
    "dilated": lambda n: patterns.window(n, 9, dilation=3),
    "blocks": patterns.block_diagonal,
    "union": lambda n: patterns.one_step(patterns.strided(n)),
    "longformer": lambda n: patterns.longformer(n, 17, 2),
    "random": lambda n: patterns.random(n, 8, generator=torch.Generator()),
}


@pytest.mark.parametrize("d_v", [8, 5])
@pytest.mark.parametrize("name", AUTOCAST)
def test_autocast_changes_nothing(name, d_v, device="cpu"):
    pattern = AUTOCAST[name](70)
    inputs = instance(70, (2,), d=8, d_v=d_v, dtype=torch.float32, device=device)
    runs = []
    for on in (False, True):
        with torch.autocast(device, torch.bfloat16, enabled=on):
            got = sparse_attention(*inputs, pattern, return_lse=True)
            runs.append(
                [*got, *torch.autograd.grad(sum(t.square().sum() for t in got), inputs)]
            )
    assert all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(*runs))


@pytest.mark.cuda
@pytest.mark.parametrize("d_v", [8, 5])
@pytest.mark.parametrize("name", AUTOCAST)
def test_autocast_on_a_gpu(name, d_v):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    test_autocast_changes_nothing(name, d_v, "cuda")


@pytest.mark.bad_input
def test_steps_are_any_integers_in_any_sequence():
    pattern, inputs = patterns.strided(30), instance(30, (2, 3))
    wanted = sparse_attention(*inputs, pattern, step=[0, 1, 2])
    assert torch.equal(sparse_attention(*inputs, pattern, step=range(3)), wanted)
    assert torch.equal(
        sparse_attention(*inputs, pattern, step=tuple(np.arange(3))), wanted
    )
    assert torch.equal(
        sparse_attention(*inputs, pattern, step=np.int64(3)),
        sparse_attention(*inputs, pattern, step=1),
    )


class Largest(TorchDispatchMode):
    """The most numbers that any tensor made inside holds."""

    def __init__(self):
        super().__init__()
        self.most = 0

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        y = f(*args, **(kwargs or {}))
        for t in y if isinstance(y, (tuple, list)) else [y]:
            if torch.is_tensor(t):
                t = t.values() if t.layout is torch.sparse_csr else t
                self.most = max(
                    self.most, t.untyped_storage().nbytes() // t.element_size()
                )
        return y


LONG = {
    "window": lambda n: patterns.window(n, 65),
    "star": patterns.star,
    "union": lambda n: patterns.one_step(patterns.strided(n, 181)),
    "longformer": lambda n: patterns.longformer(n, 33, 4),
}


@pytest.mark.parametrize("name", LONG)
def test_no_matrix_of_all_pairs(name):
    """n = 32,768: n x n numbers would be 10^9. Making the plan counts."""
    n, d = 32768, 4
    inputs = instance(n, d=d, d_v=d, dtype=torch.float32)
    with Largest() as seen:
        y = sparse_attention(*inputs, LONG[name](n))
        y.sum().backward()
    assert seen.most <= 2**24 == n * n / 64


def tiled(pattern):
    return lambda q, k, v: sparse_attention(q, k, v, pattern())


WIDE = {
    **{
        name: tiled(lambda name=name: families(4096)[name])
        for name in ("bigbird", "random", "shifted blocks", "dilated")
    },
    "blocks": tiled(
        lambda: build(
            4096,
            [Blocks(64), Blocks(64, turn=1), Columns(tuple(range(64))), Rows((0,))],
        )
    ),
    "strided and columns": tiled(
        lambda: build(4096, [Window(32, 32), Strided(64), Columns((0, 7))])
    ),
    "the last queries": lambda q, k, v: sparse_attention(
        q[-100:], k, v, families(4096)["strided"]
    ),
}


def most_numbers(kernel, n=4096) -> int:
    """Of any tensor that the kernel and its backward make, once the plan is there."""
    inputs = instance(n, d=4, d_v=4, dtype=torch.float32)
    kernel(*inputs)
    with Largest() as seen:
        kernel(*inputs).sum().backward()
    return seen.most


@pytest.mark.parametrize("name", WIDE)
def test_no_kernel_makes_a_matrix_of_all_pairs(name):
    assert most_numbers(WIDE[name]) <= 4096**2 / 16


def test_the_dense_form_makes_a_matrix_of_all_pairs():
    """The control: what counts the numbers sees an n x n tensor."""
    assert (
        most_numbers(
            lambda q, k, v: masked_attention(
                q, k, v, torch.ones(1, 4096, dtype=torch.bool)
            )
        )
        >= 4096**2
    )


def by_views(tiles, side):
    """The share of tokens that is not gathered."""
    sides = [getattr(own, side) for own in tiles]
    whole = sum(one.table.numel() for one in sides)
    return sum(one.table.numel() for one in sides if one.even) / whole


@pytest.mark.parametrize("n", [2048, 2039])
def test_evenly_spaced_tokens_are_views(n):
    """Windows, residue classes, neighbouring blocks, consecutive columns: but for the
    ends nothing is gathered.
    """
    for pattern in (
        build(n, Window(20, 20)),
        build(2048, Strided(64)),
        build(n, Blocks(8)),
        build(n, [Window(2, 2), Columns((3, 4, 5))]),
    ):
        tiles, _ = made_of(pattern)
        assert min(by_views(tiles, "queries"), by_views(tiles, "keys")) > 0.8
    apart, _ = made_of(build(n, [Window(2, 2), Columns((3, 4, 6))]))
    assert by_views(apart, "queries") > 0.8 and by_views(apart, "keys") == 0


@pytest.mark.parametrize(
    ("size", "hop", "step"),
    [(5, 2, 1), (4, 4, 1), (3, 1, 5), (2, 2, 2), (1, 1, 1), (3, 0, 2)],
)
def test_views_hold_the_rows_of_their_tables(size, hop, step):
    """Also where tiles overlap; a row that lies outside makes no view."""
    x = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0))
    table = 1 + hop * torch.arange(4)[:, None] + step * torch.arange(size)
    side = _tiles._side(table, 20, torch.device("cpu"))
    assert side.even == (1, hop, step)
    assert torch.equal(side.of(x, slice(1, 4)), x[:, table[1:]])
    outside = _tiles._side(table - 2, 20, torch.device("cpu"))
    assert outside.even is None and not outside.real[0, 0]


ONE_PART = [
    patterns.window(130, 33),
    patterns.window(200, 65),
    build(120, Strided(10)),
    patterns.from_masks(block_mask(128, 16, 0)),
]


@pytest.mark.parametrize("pattern", ONE_PART)
def test_bare_calls_are_the_tiles_of_the_kernel(pattern):
    """One part: its calls give the rows of sparse_attention, tile by tile."""
    inputs = [t.detach() for t in instance(pattern.n, (2,), d_v=4)]
    wanted = sparse_attention(*inputs, pattern)
    calls = bare_calls(*inputs, pattern)()
    tiles, _ = made_of(pattern)
    assert len(calls) == len(tiles)  # small enough for one piece each
    for (y,), own in zip(calls, tiles):
        rows = own.queries.table
        real = torch.ones_like(rows, dtype=torch.bool)
        real = real if own.queries.real is None else own.queries.real
        assert float((y - wanted[:, rows])[:, real].abs().max()) < EPS


def test_only_out_and_lse_are_kept():
    inputs, pattern = instance(64), patterns.window(64, 9)
    held = {}
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: (held.update({t.data_ptr(): t.numel()}), t)[1], lambda t: t
    ):
        sparse_attention(*inputs, pattern)
    assert sum(held.values()) == 64 * (4 + 4 + 3 + 3 + 1)


def test_import_leaves_the_compiler_alone():
    words = "import sys, attnlib.sparse; print('torch._dynamo' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_small_pieces_give_the_same(monkeypatch):
    monkeypatch.setitem(_kernel.ROOM_BACK, "cpu", 1)
    monkeypatch.setitem(_kernel.ROOM, "cpu", 1)
    for pattern in (
        patterns.longformer(131, 9, 3),
        patterns.one_step(patterns.strided(50)),
        patterns.random(40, 5, generator=torch.Generator()),
        # tiles of unlike masks behind tiles of one mask
        patterns.causal(build(64, [Strided(8), Columns((37,))])),
    ):
        agrees(pattern, d_v=4, batch=(2,))


@pytest.mark.cuda
@pytest.mark.parametrize("name", families(127))
def test_on_a_gpu(name):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    agrees(families(127)[name], batch=(2,), device="cuda")


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda q, k, v: sparse_attention(
                q, k, v, Pattern(6, (Step((Columns((4,)),), True),))
            ),
            "tokens .0, 1, 2, 3. read nothing",
        ),
        (
            lambda q, k, v: sparse_attention(
                *(t.expand(2, 6, -1) for t in (q, k, v)),
                patterns.window(6, 3),
                step=[0, 0, 0],
            ),
            "one for each of 2 heads, got 3",
        ),
    ],
)
def test_bad_input(call, words):
    with torch.no_grad(), pytest.raises(ValueError, match=words):
        call(*instance(6))
