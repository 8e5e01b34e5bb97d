"""The claims of notebooks/jl_low_rank/complexity_table: each check, and its control, on
which it fails.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from attnlib import patterns
from attnlib.certify import Verdict, at_most
from attnlib.efficient import (
    flops,
    linear_attention,
    lsh_attention,
    lsh_buckets,
    lsh_sets,
    performer_attention,
    positive_features,
)
from attnlib.lowrank import linformer_attention, nystrom_attention
from attnlib.patterns import Blocks, Columns, build
from attnlib.sparse import sparse_attention

EPS = torch.finfo(torch.float64).eps


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def triangle(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


def strided(n, l):
    """S(i) = {max(0, i - l), ..., i} and {j <= i : l divides i - j}."""
    l = min(l, n)
    return patterns.causal(patterns.one_step(patterns.strided(n, l, reach=l)))


def fixed(n, l, c=1):
    """S(i) = {j <= i : floor(j / l) = floor(i / l)} and {j <= i : j mod l >= l - c}."""
    parts = [Blocks(l)]
    ends = tuple(j for j in range(n) if j % l >= l - c)
    if ends:
        parts.append(Columns(ends))
    return patterns.causal(build(n, parts))


# --- counts

D = 16
ROWS = {  # name -> (kernel, sizes as functions of n, exponent of n)
    "dense": (
        lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None]),
        {},
        2,
    ),
    "linformer": (
        lambda q, k, v, k_: linformer_attention(q, k, v, *2 * [q.new_ones(k_, len(q))]),
        {"k": 32},
        1,
    ),
    "nystrom": (lambda q, k, v, k_: nystrom_attention(q, k, v, k_), {"k": 16}, 1),
    "strided": (
        lambda q, k, v, l: sparse_attention(q, k, v, strided(len(q), l)),
        {"l": math.isqrt},
        1.5,
    ),
    "fixed": (
        lambda q, k, v, l, c: sparse_attention(q, k, v, fixed(len(q), l, c)),
        {"l": math.isqrt, "c": 2},
        1.5,
    ),
    "window": (
        lambda q, k, v, w: sparse_attention(q, k, v, patterns.window(len(q), w)),
        {"w": 33},
        1,
    ),
    "lsh": (
        lambda q, k, v, r, m, b: lsh_attention(
            q, v, buckets=b, rounds=r, chunk=m, generator=generator()
        ),
        {"r": 2, "m": 64, "b": lambda n: factors(n // 64)},
        1,
    ),
    "linear": (lambda q, k, v: linear_attention(q, k, v), {}, 1),
    "linear causal": (
        lambda q, k, v, m: linear_attention(q, k, v, causal=True, chunk=m),
        {"m": 32},
        1,
    ),
    "performer": (
        lambda q, k, v, f: performer_attention(
            q, k, v, features=f, generator=generator()
        ),
        {"f": 24},
        1,
    ),
    "gru": (lambda q, k, v: torch.nn.GRU(D, D, batch_first=True)(q[None]), {}, 1),
}


def products(q, k, v, *_, **how):
    """FLOPs of torch's attention on tensors of these shapes."""
    return sdpa_flop_count(q, k, v)


# the counter does not know the fused kernel of the CPU
FUSED = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: products}


def factors(b):
    """b, a power of two of at least 4, as two even factors."""
    first = 2 ** max(1, round(math.log2(b) / 2))
    return first, b // first


def sizes_at(name, n):
    """The sizes of a row beside n and d."""
    _, sizes, _ = ROWS[name]
    return {key: size(n) if callable(size) else size for key, size in sizes.items()}


def formula(name, n):
    """FLOPs by the formula."""
    at = sizes_at(name, n)
    summed = {
        key: sum(size) if isinstance(size, tuple) else size for key, size in at.items()
    }
    return flops(name, n, D, **summed)


def counted(name, n):
    """(FLOPs that the counter sees, FLOPs by the formula)."""
    kernel, _, _ = ROWS[name]
    at = sizes_at(name, n)
    q, k, v = torch.randn(3, n, D, generator=generator(n)).unbind()
    counter = FlopCounterMode(display=False, custom_mapping=FUSED)
    with counter, torch.no_grad():
        kernel(
            q, k, v, **{"k_" if key == "k" else key: size for key, size in at.items()}
        )
    return counter.get_total_flops(), formula(name, n)


# where a row has its order: beside 2 sqrt(n) keys the 32 queries of a tile must be few
LATE = {"strided": 2**20}


def check_flops(name, *, order=None):
    """The counter equals the formula exactly at n = 1024 and 4096, and the slope of the
    formula is within .02 of the order.
    """
    order = ROWS[name][2] if order is None else order
    off = max(abs(seen - claimed) for seen, claimed in at_two_sizes(name))
    n = LATE.get(name, 256)
    slope = math.log(formula(name, 4 * n) / formula(name, n)) / math.log(4)
    return at_most(max(off, abs(slope - order)), 0.02)


def at_two_sizes(name):
    return [counted(name, n) for n in (1024, 4096)]


@pytest.mark.claim("efficient.flops", role="check")
@pytest.mark.parametrize("name", ROWS)
def test_flops(name):
    assert check_flops(name).ok


@pytest.mark.claim("efficient.flops", role="control")
@pytest.mark.parametrize("name", ROWS)
def test_flops_of_another_order(name):
    assert check_flops(name, order=ROWS[name][2] + 0.5).ok is False


@pytest.mark.claim("efficient.flops", role="control")
def test_the_strided_row_is_no_power_before(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "LATE", {})
    assert check_flops("strided").ok is False


@pytest.mark.claim("efficient.flops", role="witness")
def test_ties_with_dense():
    """Linformer needs what dense needs at n = 2 k; hashing in one bucket at n = 2 r m,
    rotations aside.
    """
    for k in (32, 128):
        assert flops("linformer", 2 * k, 64, k=k) == flops("dense", 2 * k, 64)
    rotations = 4 * 512 * 64 * 2
    chunks = flops("lsh", 512, 64, r=4, m=64, b=2) - rotations
    assert chunks == flops("dense", 512, 64)


# --- two hops


def check_two_hops(mask, *, hops=2):
    """How many pairs j <= i no walk of exactly `hops` steps joins."""
    reached = mask
    for _ in range(hops - 1):
        reached = (reached.double() @ mask.double()) > 0
    return at_most(int((triangle(len(mask)) != reached).sum()), 0)


@pytest.mark.claim("efficient.two-hops", role="check")
@pytest.mark.parametrize(("n", "l"), [(256, 16), (250, 16), (100, 7), (30, 1), (9, 40)])
def test_two_hops(n, l):
    assert check_two_hops(strided(n, l).mask()).ok
    for c in {1, (l + 1) // 2, l}:
        assert check_two_hops(fixed(n, l, c).mask()).ok


@pytest.mark.claim("efficient.two-hops", role="control")
@pytest.mark.parametrize("pattern", [strided(256, 16), fixed(256, 16)])
def test_one_hop_is_not_enough(pattern):
    assert check_two_hops(pattern.mask(), hops=1).ok is False


@pytest.mark.claim("efficient.two-hops", role="control")
def test_a_window_needs_more():
    window = patterns.causal(patterns.window(256, 33))
    assert check_two_hops(window.mask()).ok is False


@pytest.mark.claim("efficient.two-hops", role="witness")
def test_a_path_by_hand():
    """n = 256, l = 16: 200 reads 40, since 40 + 160 = 200, and 40 reads 33."""
    mask = strided(256, 16).mask()
    assert mask[200, 40] and mask[40, 33] and not mask[200, 33]


# --- the order of interleaved layers


def branches(n, l, c):
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return (j <= i) & (i // l == j // l), (j <= i) & (j % l >= l - c)


def check_order(n, l, c, *, first="summary", claimed=None):
    """Pairs that two layers with skips do not join, against the formula l (l - c) m (m
    - 1) / 2; n = l m.
    """
    local, summary = (
        b.double() + torch.eye(n, dtype=torch.float64) for b in branches(n, l, c)
    )
    reached = (local @ summary if first == "summary" else summary @ local) > 0
    missed = int((triangle(n) & ~reached).sum())
    claimed = l * (l - c) * (n // l) * (n // l - 1) // 2 if claimed is None else claimed
    return Verdict(missed, claimed, missed == claimed)


@pytest.mark.claim("efficient.order", role="check")
@pytest.mark.parametrize(
    ("n", "l", "c"), [(256, 16, 1), (64, 8, 2), (60, 10, 3), (12, 4, 4)]
)
def test_summary_first_misses(n, l, c):
    assert check_order(n, l, c).ok
    assert check_order(n, l, c, first="local", claimed=0).ok


@pytest.mark.claim("efficient.order", role="control")
def test_the_other_order_misses_nothing():
    verdict = check_order(256, 16, 1, first="local")
    assert verdict.ok is False and verdict.value == 0


@pytest.mark.claim("efficient.order", role="witness")
def test_the_count_at_256():
    assert check_order(256, 16, 1).value == 28800 and int(triangle(256).sum()) == 32896


# --- rounds


def weights(qk, sets, *, correct=True):
    """Weights of hashed attention from who sees whom, by the formula: softmax over the
    union, or each key N times.
    """
    a, N = qk @ F.normalize(qk, dim=-1).mT / math.sqrt(qk.shape[-1]), sets.sum(0)
    return torch.softmax(
        a + (torch.where(N > 0, 0.0, -math.inf) if correct else N.to(a.dtype).log()), -1
    )


def check_union(
    seed=0, *, n=50, rounds=4, chunk=8, buckets=4, causal=False, correct=True
):
    """The kernel against softmax over the union of the rounds; 1e-12 = 4500 eps."""
    g = generator(seed)
    qk, v = torch.randn(2, n, 6, generator=g, dtype=torch.float64).unbind()
    ids = lsh_buckets(qk, buckets, rounds=rounds, generator=generator(seed))
    sets = lsh_sets(ids, chunk, causal=causal)
    how = {
        "buckets": buckets,
        "rounds": rounds,
        "chunk": chunk,
        "causal": causal,
        "generator": generator(seed),
    }
    y = lsh_attention(qk, v, correct_duplicates=correct, **how)
    return at_most((y - weights(qk, sets) @ v).abs().max(), 1e-12)


@pytest.mark.claim("efficient.union", role="check")
@pytest.mark.parametrize(("seed", "causal"), list(product(range(4), (False, True))))
def test_rounds_merge_to_the_union(seed, causal):
    assert check_union(seed, causal=causal).ok
    assert check_union(seed, n=20, buckets=(2, 4), chunk=4, rounds=3, causal=causal).ok


@pytest.mark.claim("efficient.union", role="control")
def test_without_the_correction_keys_count_twice():
    verdict = check_union(correct=False)
    assert verdict.ok is False and verdict.value > 1e-2


@pytest.mark.claim("efficient.union", role="witness")
def test_some_keys_are_seen_twice():
    qk = torch.randn(50, 6, generator=generator(), dtype=torch.float64)
    assert (
        lsh_sets(lsh_buckets(qk, 4, rounds=4, generator=generator()), 8).sum(0).max()
        == 4
    )


@pytest.mark.claim("efficient.union", role="witness")
def test_alone_in_one_round_but_not_in_another():
    """Tokens 0 and 1 meet in round 1 only: in round 0 they see nobody, not themselves.
    Token 2 is alone in both.
    """
    sets = lsh_sets(torch.tensor([[0, 1, 2], [0, 0, 1]]), 3)
    assert not sets[0, :2].any() and sets[1, :2].tolist() == [
        [False, True, False],
        [True, False, False],
    ]
    assert sets[:, 2].tolist() == [[False, False, True]] * 2


def check_missed(seed=0, *, rounds=4, correct=True, n=96, buckets=4):
    """|TV to dense - mass of dense on keys that no round saw|, the worst row; 64
    eps.
    """
    qk = torch.randn(n, 12, generator=generator(seed), dtype=torch.float64)
    sets = lsh_sets(
        lsh_buckets(qk, buckets, rounds=rounds, generator=generator(seed + 1)), n
    )
    P = weights(qk, ~torch.eye(n, dtype=torch.bool)[None])
    found = weights(qk, sets, correct=correct)
    gap = (P - found).abs().sum(-1) / 2 - (P * ~sets.any(0)).sum(-1)
    return at_most(gap.abs().max(), 64 * EPS)


@pytest.mark.claim("efficient.rounds", role="check")
@pytest.mark.parametrize(("seed", "rounds"), [(0, 1), (1, 4), (2, 16)])
def test_the_distance_is_the_mass_that_no_round_saw(seed, rounds):
    assert check_missed(seed, rounds=rounds).ok
    assert check_missed(
        seed, rounds=rounds, n=8, buckets=(2,) * 5
    ).ok  # most tokens meet nobody


def check_limit(*, correct=False, rounds=20000):
    """Weights of the kernel after many rounds against p e^a / sum of p e^a, d = 2, b =
    2: p = 1 - angle / pi.

    The chunk cuts nothing. A share of rounds has standard deviation at most 1 / (2
    sqrt(rounds)) = .0036; tolerance .02.
    """
    angles = torch.tensor([0.0, 0.4, 1.5, 2.8], dtype=torch.float64)
    qk = torch.stack([angles.cos(), angles.sin()], -1)
    apart = (angles[:, None] - angles).abs()
    wanted = (
        (1 - apart / math.pi) * (apart.cos() / math.sqrt(2)).exp()
    ).fill_diagonal_(0)
    wanted = wanted / wanted.sum(-1, keepdim=True)
    how = {
        "buckets": 2,
        "rounds": rounds,
        "chunk": 4,
        "generator": generator(),
        "correct_duplicates": correct,
    }
    return at_most(
        (lsh_attention(qk, torch.eye(4, dtype=torch.float64), **how) - wanted)
        .abs()
        .max(),
        0.02,
    )


@pytest.mark.claim("efficient.rounds", role="check")
def test_the_limit_without_the_correction():
    assert check_limit().ok


@pytest.mark.claim("efficient.rounds", role="control")
def test_with_the_correction_the_limit_is_another():
    verdict = check_limit(correct=True, rounds=200)
    assert verdict.ok is False and verdict.value > 0.1


@pytest.mark.claim("efficient.rounds", role="control")
def test_without_the_correction_the_distance_stays():
    verdict = check_missed(rounds=64, correct=False)
    assert verdict.ok is False and verdict.value > 0.1


@pytest.mark.claim("efficient.rounds", role="witness")
def test_many_rounds_see_nearly_everything():
    qk = torch.randn(96, 12, generator=generator(), dtype=torch.float64)
    sets = lsh_sets(lsh_buckets(qk, 4, rounds=64, generator=generator(1)), 96)
    assert sets.any(0).double().mean() > 0.98


@pytest.mark.claim("efficient.rounds", role="check")
def test_the_expected_distance_for_two_directions():
    """d = 2, b = 2: p_ij = 1 - angle / pi. Mean over 20000 draws of (missed after 3
    rounds) against (1 - p)^3, 5 sd.
    """
    qk = torch.tensor([[1.0, 0.0], [math.cos(2.0), math.sin(2.0)]], dtype=torch.float64)
    ids = lsh_buckets(qk, 2, rounds=60000, generator=generator())
    missed = (ids[:, 0] != ids[:, 1]).view(-1, 3).all(-1).double().mean()
    wanted = (2.0 / math.pi) ** 3
    assert abs(float(missed) - wanted) < 5 * math.sqrt(wanted * (1 - wanted) / 20000)


# --- causal, and a border that the future moves


def check_border(last, *, within, chunk=2):
    """Five tokens, four in bucket 1, the last in bucket `last` or 2: how many of the
    keys of token 3 differ.
    """

    def see(b):
        return lsh_sets(
            torch.tensor([[1, 1, 1, 1, b]]),
            chunk,
            causal=True,
            attend_self=True,
            within=within,
        )[0, 3]

    return at_most(int((see(last) != see(2)).sum()), 0)


@pytest.mark.claim("efficient.leak", role="check")
def test_chunks_within_buckets_do_not_see_the_future():
    assert check_border(0, within=True).ok


def check_all_borders(*, within, t=5):
    """All lists of t tokens in 3 buckets, chunks of 2: how many see otherwise when a
    token of any bucket follows.
    """
    ids = torch.tensor(list(product(range(3), repeat=t + 1)))[None]
    sets = lsh_sets(ids, 2, causal=True, within=within)[0].view(3**t, 3, t + 1, t + 1)[
        :, :, :t
    ]
    return at_most(int((sets != sets[:, :1]).flatten(1).any(1).sum()), 0)


@pytest.mark.claim("efficient.leak", role="check")
@pytest.mark.parametrize("t", range(1, 7))
def test_no_list_sees_the_future(t):
    assert check_all_borders(within=True, t=t).ok


@pytest.mark.claim("efficient.leak", role="control")
def test_across_buckets_some_lists_do():
    verdict = check_all_borders(within=False)
    assert verdict.ok is False and verdict.value == 22


@pytest.mark.claim("efficient.leak", role="control")
def test_chunks_across_buckets_do():
    verdict = check_border(0, within=False)
    assert verdict.ok is False and verdict.value == 1


@pytest.mark.claim("efficient.leak", role="witness")
def test_a_future_token_in_a_later_bucket_is_harmless():
    assert check_border(3, within=False).ok


CAUSAL = {
    "strided": lambda q, k, v: sparse_attention(q, k, v, strided(len(q), 4)),
    "fixed": lambda q, k, v: sparse_attention(q, k, v, fixed(len(q), 4, 2)),
    "window": lambda q, k, v: sparse_attention(
        q, k, v, patterns.causal(patterns.window(len(q), 11))
    ),
    "linear": lambda q, k, v: linear_attention(q, k, v, causal=True, chunk=8),
    "performer": lambda q, k, v: performer_attention(
        q, k, v, features=12, causal=True, chunk=8, generator=generator(5)
    ),
    "lsh": lambda q, k, v: lsh_attention(
        q, v, buckets=4, rounds=3, chunk=4, causal=True, generator=generator(5)
    ),
    "window, both sides": lambda q, k, v: sparse_attention(
        q, k, v, patterns.window(len(q), 5)
    ),
}


def check_causal(name, seed=0, *, n=30, at=17, size=1.0, edit_past=False):
    """The largest change of the rows before `at` when tokens from `at` on (or, the
    control, token at - 1) are edited.

    Tolerance 512 eps: products over other tokens may be summed in another order.
    """
    g = generator(seed)
    q, k, v = torch.randn(3, n, 6, generator=g, dtype=torch.float64).unbind()
    other = [t.clone() for t in (q, k, v)]
    for t in other:
        t[(at - 1 if edit_past else at) :] = size * torch.randn(
            t[(at - 1 if edit_past else at) :].shape, generator=g, dtype=torch.float64
        )
    return at_most(
        (CAUSAL[name](*other) - CAUSAL[name](q, k, v))[:at].abs().max(), 512 * EPS
    )


def check_causal_all(name):
    """check_causal over all borders and four seeds: the worst."""
    return max(
        (check_causal(name, seed, at=at) for seed in range(4) for at in range(1, 30)),
        key=lambda c: c.value,
    )


@pytest.mark.claim("efficient.causal", role="check")
@pytest.mark.parametrize(
    ("name", "at", "size"),
    list(product(list(CAUSAL)[:-1], (1, 8, 17, 29), (1.0, 10.0))),
)
def test_causal_kernels_do_not_see_the_future(name, at, size):
    assert all(check_causal(name, seed, at=at, size=size).ok for seed in range(4))


@pytest.mark.claim("efficient.causal", role="control")
def test_a_window_on_both_sides_does():
    assert check_causal("window, both sides").ok is False


@pytest.mark.claim("efficient.causal", role="witness")
@pytest.mark.parametrize("name", list(CAUSAL)[:-1])
def test_an_edit_of_the_past_is_seen(name):
    assert check_causal(name, edit_past=True).ok is False


# --- the price of a hash


def rotations(n, d, factors):
    """Multiply-adds of one round of hashing, counted."""
    with FlopCounterMode(display=False) as counter:
        lsh_buckets(
            torch.randn(n, d, generator=generator()), factors, generator=generator()
        )
    return counter.get_total_flops() // 2


def check_hash(way, *, n=1024, d=16, m=32):
    """Counted multiply-adds over n d log2(b), for b = 2 n / m buckets by F = log2 b
    signs; at most 1.
    """
    b = 2 * n // m
    cut = {
        "one rotation": (b,),
        "two factors": factors(b),
        "signs": (2,) * int(math.log2(b)),
    }[way]
    return at_most(Fraction(rotations(n, d, cut), n * d * int(math.log2(b))), 1)


@pytest.mark.claim("efficient.hash", role="check")
@pytest.mark.parametrize("n", [256, 1024, 4096])
def test_signs_cost_n_log_n(n):
    assert check_hash("signs", n=n).ok


@pytest.mark.claim("efficient.hash", role="control")
@pytest.mark.parametrize("way", ["one rotation", "two factors"])
def test_wider_factors_cost_more(way):
    assert check_hash(way).ok is False


@pytest.mark.claim("efficient.hash", role="counterexample")
def test_one_rotation_is_quadratic():
    """n^2 d / m exactly; over n log2 n it is (d / m) n / log2 n: from n = 2^8 to 2^12
    it grows by 32/3.
    """
    for n in (256, 4096):
        assert rotations(n, 16, 2 * n // 32) == n * n * 16 // 32

    def ratio(n):
        return Fraction(n * n * 16 // 32, n * int(math.log2(n)))

    assert ratio(4096) / ratio(256) == Fraction(32, 3)


@pytest.mark.claim("efficient.hash", role="witness")
def test_factors_against_their_mean():
    """sum b_f >= F b^(1/F), with equality for equal factors."""
    for cut in ((64,), (8, 8), (4, 16), (4, 4, 4), (2,) * 6):
        assert sum(cut) >= len(cut) * 64 ** (1 / len(cut)) - 1e-9


# --- positive features


def check_performer(x, y, *, power=1, minus=0.5):
    """E over w of the product of features, or of its square, against exp(x'y) and
    exp(|x + y|^2 + 2 x'y); relative.

    The mean over w in R^2 is a Gauss-Hermite sum of 60^2 nodes; `minus` is the factor
    of |x|^2 in the feature.
    """
    nodes, mass = np.polynomial.hermite_e.hermegauss(60)
    w = torch.tensor(list(product(nodes, repeat=2)), dtype=torch.float64)
    p = torch.tensor(
        [a * b for a, b in product(mass, repeat=2)], dtype=torch.float64
    ) / (2 * math.pi)
    x, y = torch.tensor([x, y], dtype=torch.float64)
    extra = ((0.5 - minus) * (x @ x + y @ y)).exp()
    f = positive_features(torch.stack([x, y]), w) * math.sqrt(
        len(w)
    )  # one feature at each node
    mean = ((f[0] * f[1] * extra) ** power * p).sum()
    wanted = (x @ y).exp() if power == 1 else ((x + y).square().sum() + 2 * x @ y).exp()
    return at_most((mean / wanted - 1).abs(), 1e-12)


PAIRS = [
    ((0.3, -0.5), (0.7, 0.2)),
    ((1.0, 0.0), (1.0, 0.0)),
    ((0.0, 0.0), (0.4, 1.2)),
    ((1.0, -1.0), (-1.0, 1.0)),
]


@pytest.mark.claim("efficient.performer", role="check")
@pytest.mark.parametrize(("pair", "power"), list(product(PAIRS, (1, 2))))
def test_the_mean_and_the_square_of_a_feature_product(pair, power):
    assert check_performer(*pair, power=power).ok


@pytest.mark.claim("efficient.performer", role="control")
@pytest.mark.parametrize("pair", PAIRS)
def test_without_the_halves_the_mean_is_off(pair):
    assert check_performer(*pair, minus=0.0).ok is False


@pytest.mark.claim("efficient.performer", role="witness")
def test_m_draws_divide_the_variance_by_m():
    """Relative variance (e^{|x + y|^2} - 1) / m at m = 50 over 4000 draws, within 15%;
    x = -y gives 0 exactly.
    """
    x, y = torch.tensor([[0.3, -0.5], [0.5, 0.1]], dtype=torch.float64)
    w = torch.randn(4000, 50, 2, generator=generator(), dtype=torch.float64)
    estimates = torch.stack(
        [
            (positive_features(x[None], u) @ positive_features(y[None], u).T).squeeze()
            for u in w
        ]
    )
    wanted = (math.exp(float((x + y).square().sum())) - 1) / 50
    assert float(estimates.var() / (x @ y).exp() ** 2) == pytest.approx(
        wanted, rel=0.15
    )
    opposite = positive_features(torch.stack([x, -x]), w[0])
    assert float(opposite[0] @ opposite[1]) == pytest.approx(
        math.exp(-float(x @ x)), rel=1e-14
    )
