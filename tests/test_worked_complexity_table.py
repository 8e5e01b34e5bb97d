"""Page jl_low_rank/complexity_table: what was worked out by hand."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.nn import functional as F

from attnbook.theorems import complexity_table as page
from attnlib.efficient import (
    decoding,
    flops,
    gqa_error,
    lsh_attention,
    lsh_buckets,
    lsh_sets,
    naive_attention,
    positive_features,
    tiled_attention,
    traffic,
)

double = torch.float64

COUNTS = {  # FLOPs, by hand
    # 9 logits and 6 outputs, of 2 and 3 products each
    "dense": (lambda: flops("dense", 3, 2), 2 * 36),
    # tiles of 1: 3 keys, 12 products a token
    "window": (lambda: flops("window", 7, 2, w=3, tile=1), 2 * 7 * 12),
    # six matrices of 25 weights
    "gru": (lambda: flops("gru", 4, 5), 2 * 4 * 150),
    "gru recurrence": (lambda: flops("gru recurrence", 4, 3), 4 * 54),
    # each token meets 2 of its chunk, 4 * 3 each; a 3 x 3 sum, written and read
    "gated": (lambda: flops("gated", 4, 3, m=2), 4 * (2 * 12 + 36)),
    "scan": (lambda: flops("scan", 4, 3, s=2, m=2), 4 * 3 * 8),
    # blocks of one token: the first reads 7, two read 4, four read 5
    "bigbird, 7": (lambda: flops("bigbird", 7, 1, block=1, drawn=1), 4 * 35),
    "bigbird, 4": (lambda: flops("bigbird", 4, 1, block=1, drawn=1), 4 * 16),
}


@pytest.mark.parametrize("row", COUNTS)
def test_counts_by_hand(row):
    count, wanted = COUNTS[row]
    assert count() == wanted


def test_global_tokens_are_read_and_read_all():
    more = flops("longformer", 64, 3, w=33, g=2) - flops("window", 64, 3, w=33)
    assert more == 64 * 2 * 2 * 4 * 3


def test_linformer_ties_with_dense_at_twice_its_keys():
    assert flops("linformer", 256, 64, k=128) == flops("dense", 256, 64)
    assert flops("linformer", 255, 64, k=128) > flops("dense", 255, 64)


def test_a_message_in_two_hops():
    """n = 256, l = 16: 200 reads 40, as 40 + 160 = 200; 40 reads 33; 200 not 33."""
    reads = page.strided(256, 16).mask()
    assert reads[200, 40] and reads[40, 33] and not reads[200, 33]


def test_six_tokens_in_two_orders():
    """n = 6, l = 3, c = 1, summaries first: 3, 4, 5 miss 0 and 1; local first: none."""
    for first, missed in (("summaries", 6), ("local", 0)):
        reached = page.joined(6, 3, 1, first=first)
        assert int((page.triangle(6) & ~reached).sum()) == missed


def test_some_are_seen_often_some_alone():
    """Tokens are seen in all four rounds; one that is alone sees itself, in all. In the
    second example 0 and 1 meet in round 1 only, 2 is alone in both.
    """
    qk = page.hashed()["qk"]
    ids = lsh_buckets(qk, 4, rounds=4, generator=page.seeded())
    assert int(lsh_sets(ids, 8).sum(0).max()) == 4
    sets = lsh_sets(torch.tensor([[0, 1, 2], [0, 0, 1]]), 3)
    assert not sets[0, :2].any() and int(sets[:, 2].sum()) == 2


def test_many_rounds_without_the_correction():
    """If every outcome is drawn once, N_ij / r is p_ij: the kernel without the
    correction returns p e^a / sum p e^a, its limit.
    """
    qk = page.heads(8, 6)[0]
    how = {"buckets": 2, "rounds": 12}
    lists = lsh_buckets(qk, generator=page.seeded(3), **how)
    p = (lists[:, :, None] == lists[:, None, :]).double().mean(0)
    keys = F.normalize(qk, dim=-1)
    share = (p * (qk @ keys.mT / math.sqrt(6)).exp()).fill_diagonal_(0)
    eye = torch.eye(8, dtype=double)
    how |= {"chunk": 8, "correct_duplicates": False, "generator": page.seeded(3)}
    off = lsh_attention(qk, eye, **how) - share / share.sum(-1, keepdim=True)
    assert off.abs().max() <= page.ROUNDING


def test_a_border_moves():
    """Four tokens in bucket 1; the fifth in bucket 0 or 2. Chunks of two, cut across
    buckets: token 3 sees 1, 2, 3 or 0, 1, 2, 3. Cut within: always the latter.
    """
    for within, last, seen in (
        (False, 0, [1, 2, 3]),
        (False, 2, [0, 1, 2, 3]),
        (True, 0, [0, 1, 2, 3]),
        (True, 2, [0, 1, 2, 3]),
    ):
        ids = torch.tensor([[1, 1, 1, 1, last]])
        sets = lsh_sets(ids, 2, causal=True, attend_self=True, within=within)
        assert sets[0, 3].nonzero().flatten().tolist() == seen


@pytest.mark.parametrize(
    ("n", "d", "factors", "wanted"),
    [
        (256, 16, (16,), 32768),  # n^2 d / m, for m = 32
        (4096, 16, (256,), 4096**2 * 16 // 32),
        (1024, 4, (8, 8), 8 * 1024 * 4),  # over 6 of signs
        (1024, 4, (16, 16), 16 * 1024 * 4),  # over 8
        (64, 8, (4, 16), 64 * 8 * 10),
        (64, 8, (4, 4, 4), 64 * 8 * 6),
        (64, 8, (2,) * 6, 64 * 8 * 6),
    ],
)
def test_rotations_by_hand(n, d, factors, wanted):
    assert page.rotations(n, d, factors) == wanted


def test_draws_divide_the_variance():
    """50 features: the relative variance over 4,000 draws is (e^{|x+y|^2} - 1)/50, to
    15 per cent; x = -y gives 0.
    """
    x, y = page.two_points(y=(0.5, 0.1)).values()
    w = torch.randn(4000 * 50, 2, generator=page.seeded(), dtype=double)
    phi = positive_features(torch.stack([x, y]), w) * math.sqrt(len(w))
    estimates = (phi[0] * phi[1]).view(4000, 50).mean(1)
    relative = float(estimates.var() / (2 * x @ y).exp())
    wanted = math.expm1(float((x + y).square().sum())) / 50
    assert relative == pytest.approx(wanted, rel=0.15)
    opposite = positive_features(torch.stack([x, -x]), w)
    assert float((opposite[0] @ opposite[1]) * (x @ x).exp()) == pytest.approx(1)


def test_edits_of_the_past_are_seen():
    """Each kernel notices an edit of token 16 in row 16."""
    for kernel in page.CAUSAL:
        objects = page.edited(kernel, at=16)
        off = kernel(*objects["first"]) - kernel(*objects["changed"])
        assert off[16].abs().max() >= 1e-3


def test_a_round_doubles_what_is_seen():
    """After t rounds the last of 100 tokens depends on min(2^t, 100) of them."""
    a, b = page.recurrence().values()
    for t in range(8):
        fresh = b.clone().requires_grad_()
        last = page.in_rounds(a, fresh, t)[-1]
        (gradient,) = torch.autograd.grad(last, fresh)
        assert int(gradient.count_nonzero()) == min(2**t, 100)


@pytest.mark.parametrize("numbers", [8, 16])
def test_not_every_mla_is_a_gqa(numbers):
    """Keys of eight heads from a latent of 8 or 16 numbers, as many as two groups keep
    for keys, or with the values.
    """
    how = {"generator": torch.Generator().manual_seed(0), "dtype": torch.float64}
    w_q = torch.randn(8, 32, 4, **how)
    down = torch.randn(32, numbers, **how)
    up = torch.randn(8, numbers, 4, **how)
    assert gqa_error(w_q @ (down @ up).mT, 2, 4) > 0.3


def test_sizes_of_a_state_by_hand():
    assert decoding("cache", 4096, 64)[:2] == (524288, 4 * 4096 * 64)
    assert decoding("linear", 4096, 64)[:2] == (4160, 4 * 64 * 65)
    assert decoding("window", 4096, 64, w=9).state == 1152


@pytest.mark.parametrize(("most", "states"), [(6, 64), (4, 16)])
def test_lists_that_a_cache_keeps_apart(most, states):
    """Of all lists of six bits a cache keeps 64 apart, a window of four 16."""
    found = set()
    for bits in itertools.product((0.0, 1.0), repeat=6):
        text = page.a_text(6, 1, 0) | {"v": torch.tensor(bits).double()[:, None]}
        kept = None
        for i in range(6):
            _, kept = page.write_cache(text, i, kept, most)
        found.add(tuple(kept.flatten().tolist()))
    assert len(found) == states


def test_four_tokens_moved_by_hand():
    """n = 4, d = 1, two queries a tile. Naive: 80 numbers. Fused: 4 queries once, 8
    keys and values twice, 4 answers and 4 sums: 28. In bytes of float64.
    """
    q, k, v = page.heads(4, 1)
    tiles = {"rows": 2, "columns": 4}
    assert naive_attention(q, k, v)[1].moved == 8 * 80
    assert tiled_attention(q, k, v, **tiles)[1].moved == 8 * 28
    assert traffic("naive", 4, 1, bytes_each=8).moved == 8 * 80
    assert traffic("fused", 4, 1, bytes_each=8, **tiles).moved == 8 * 28
