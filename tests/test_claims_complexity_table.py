"""What attnbook.theorems.complexity_table cannot say of the page
notebooks/jl_low_rank/complexity_table: numbers by hand, and objects of one's own.
"""

from __future__ import annotations

import math

import pytest
import torch

from attnbook.theorems import complexity_table as claims
from attnlib import patterns
from attnlib.efficient import flops, lsh_buckets
from attnlib.lowrank import nystrom_attention


def slope(row, n, **sizes):
    """The exponent of a row between n and 4n."""
    small = flops(row, n, 16, **{name: of(n) for name, of in sizes.items()})
    large = flops(row, 4 * n, 16, **{name: of(4 * n) for name, of in sizes.items()})
    return math.log(large / small, 4)


def test_the_orders_of_proposition_8_2():
    assert slope("dense", 256) == 2
    assert slope("fixed", 256, l=math.isqrt) == 1.5
    assert abs(slope("strided", 2**20, l=math.isqrt) - 1.5) < 0.01
    for row, size in (("linformer", "k"), ("window", "w"), ("performer", "f")):
        assert slope(row, 256, **{size: lambda n: 33}) == 1


def test_the_strided_row_is_no_power_before():
    """At n = 256 the 32 queries of a tile weigh as much as a window."""
    assert slope("strided", 256, l=math.isqrt) < 1.4


def test_hashing_in_one_bucket_ties_at_2rm():
    """Rotations aside."""
    rotations = 4 * 512 * 64 * 2
    chunks = flops("lsh", 512, 64, r=4, m=64, b=2) - rotations
    assert chunks == flops("dense", 512, 64)


def test_one_rotation_is_quadratic_for_every_chunk():
    """2 n^2 d / m + 8 n m d >= 8 n^(3/2) d, with equality at m = sqrt(n) / 2."""
    for n in (256, 1024, 4096):
        root = math.isqrt(n)
        least = 8 * n * root
        costs = {m: flops("lsh", n, 1, m=m, b=2 * n // m) for m in (2, 4, 8, 32, 64)}
        assert min(costs.values()) >= least
        assert flops("lsh", n, 1, m=root // 2, b=4 * root) == least


def test_across_buckets_some_lists_see_the_future():
    lists = claims.lists_of_buckets(t=5)
    assert claims.borders.broken("across buckets", **lists).value == 22


def test_the_count_of_missed_pairs_at_256():
    reached = claims.joined(256, 16, 1, first="summaries")
    assert int((claims.triangle(256) & ~reached).sum()) == 28800


def test_the_expected_distance_for_two_directions():
    """d = 2, b = 2: p_ij = 1 - angle / pi. Mean over 20000 draws of (missed after 3
    rounds) against (1 - p)^3, 5 sd.
    """
    g = torch.Generator().manual_seed(0)
    qk = torch.tensor([[1.0, 0.0], [math.cos(2.0), math.sin(2.0)]], dtype=torch.float64)
    ids = lsh_buckets(qk, 2, rounds=60000, generator=g)
    missed = (ids[:, 0] != ids[:, 1]).view(-1, 3).all(-1).double().mean()
    wanted = (2.0 / math.pi) ** 3
    assert abs(float(missed) - wanted) < 5 * math.sqrt(wanted * (1 - wanted) / 20000)


@pytest.mark.again
def test_every_causal_kernel_at_every_border():
    for kernel in claims.CAUSAL:
        for at in range(1, 30):
            assert claims.past_only(**claims.edited(kernel, at=at, seed=at)).ok


def test_a_group_of_its_own_for_each_head_is_all_that_latents_of_that_size_are():
    """With as many groups as heads nothing is lost; with fewer it is, and more of it.

    Integers: two heads of width 1 whose keys differ, one group.
    """
    forms = torch.tensor([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
    assert claims.gqa_error(forms, 2, 1) == 0
    assert float(claims.gqa_error(forms, 1, 1)) == pytest.approx(math.sqrt(1 / 2))


def test_six_steps_are_not_an_exact_inverse():
    """The published iteration stays away from an ill-conditioned core's inverse."""
    q, k, v = claims.heads(64, 8)
    exact = nystrom_attention(q, k, v, 16)
    six = nystrom_attention(q, k, v, 16, iterations=6)
    many = nystrom_attention(q, k, v, 16, iterations=60)
    assert (six - exact).norm() > 1e3 * (many - exact).norm()


def test_theorems_are_for_objects_of_ones_own():
    assert claims.two_hops(patterns.star(40)).ok is False  # it looks ahead
    assert claims.depth(torch.ones(5).double(), torch.ones(5).double()).ok
    assert claims.counts("window", 128, 8, {"w": 33}).ok


@pytest.mark.bad_input
def test_hypotheses_are_asked_for():
    with pytest.raises(ValueError, match="row must be one of"):
        claims.counts("widow", 64, 8, {})
    with pytest.raises(ValueError, match="row must be one of"):
        claims.state("linformer", 8, 4)
    with pytest.raises(ValueError, match="buckets must be even and at least 2"):
        claims.price_of_a_hash(96, 4, (2, 3))
    with pytest.raises(ValueError, match="4 outcomes and 7 rounds are 16,384 draws"):
        claims.missed_mass(**claims.equally_likely_rounds(rounds=7))
    objects = claims.edited(at=5)
    objects["at"] = 9
    with pytest.raises(ValueError, match="must agree before at = 9"):
        claims.past_only(**objects)


def normal(*size):
    return torch.randn(*size, dtype=torch.float64, generator=claims.seeded(3))


def first_rows(q, k, v):
    return v[:5]


HASHED = claims.hashed()
SHARED = claims.grouped_heads()
EDITED = claims.edited()
LISTS = claims.lists_of_buckets()["ids"]
TOKENS = normal(8, 4)
A_POINT = torch.tensor([0.0, -2.0], dtype=torch.float64)
ONE = torch.zeros(2, 8, dtype=torch.int64)  # two lists, one bucket


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: claims.missed_mass(TOKENS * math.nan, ONE, 1), "qk holds NaN"),
        (lambda: claims.missed_mass(TOKENS, ONE[:0], 1), "lists must be int64"),
        (lambda: claims.missed_mass(TOKENS, ONE[:, 1:], 1), "with n = 8 of qk"),
        (lambda: claims.missed_mass(TOKENS.float(), ONE, 1), "qk must be float64"),
        (
            lambda: claims.union(**HASHED | {"qk": HASHED["qk"].float()}),
            "qk must be float64",
        ),
        (
            lambda: claims.latent(**SHARED | {"x": SHARED["x"].float()}),
            "x must be float64",
        ),
        (lambda: claims.positive(torch.ones(2), normal(2)), "x must be float64"),
        (
            lambda: claims.positive(A_POINT, 1.01 * A_POINT),
            "y must be of length up to 2, got 2.02",
        ),
        (lambda: claims.depth(torch.ones(5), torch.ones(5)), "a must be float64"),
        (
            lambda: claims.depth(-1.01 * torch.ones(5).double(), normal(5)),
            "a must have .a_i. at most 1, got 1.01",
        ),
        (
            lambda: claims.latent(**SHARED | {"w_k": normal(3, 16, 4)}),
            "w_k must have shape",
        ),
        (
            lambda: claims.latent(**SHARED | {"x": 1e300 * SHARED["x"]}),
            "overflow float64",
        ),
        (lambda: claims.order(16, 4, 0), "c must be an integer of at least 1, got 0"),
        (lambda: claims.order(16, 4, 5), "c must be at most l = 4, got 5"),
        (lambda: claims.borders(LISTS, 0, 2), "buckets must be an integer"),
        (lambda: claims.borders(LISTS, -1, 2), "buckets must be an integer"),
        (lambda: claims.price_of_a_hash(64, 4, 16), "factors must be a list"),
        (
            lambda: claims.past_only(**EDITED | {"kernel": first_rows}),
            "the answer of kernel must have shape",
        ),
        (lambda: claims.past_only(**EDITED | {"at": 0}), "at must be an integer"),
        (lambda: claims.past_only(**EDITED | {"at": 3}), "must differ at = 3"),
        (lambda: claims.counts("linformer", 17, 4, {}), "sizes of linformer must be k"),
        (
            lambda: claims.counts("lsh", 8, 4, {"m": 9, "b": 4}),
            "m must be at most n = 8, got 9",
        ),
        (
            lambda: claims.newer_counts("bigbird", 4, 4, {"block": 8}),
            "block must divide n = 4, got 8",
        ),
        (lambda: claims.merged(n=1), "n must be an integer of at least 2, got 1"),
        (lambda: claims.merged("widow"), "kind must be one of"),
        (lambda: claims.two_hops(LISTS), "pattern must be an attnlib.patterns.Pattern"),
    ],
)
def test_what_is_no_object_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: claims.state("delta", 300, 4),
        lambda: claims.state("delta", 17, 16),
        lambda: claims.state("window", 17, 4, {"w": 10}),
        lambda: claims.state("scan", 17, 4, {"s": 2}),
        lambda: claims.newer_counts("scan", 64, 2, {"s": 4, "m": 16}),
        lambda: claims.newer_counts("gated", 1, 4, {}),
        lambda: claims.positive(A_POINT, A_POINT),
        lambda: claims.positive(A_POINT, A_POINT, power=2),
        lambda: claims.depth(-torch.ones(5).double(), normal(5)),
    ],
)
def test_true_of_sizes_of_ones_own(call):
    assert call().ok


@pytest.mark.parametrize("size", [1e-9, 1e4])
def test_tolerances_go_with_the_size(size):
    """Numbers of any size; and what breaks the statement still shows."""
    x, w_q, w_k, w_v = SHARED.values()
    assert claims.latent(size * x, w_q, w_k, size * w_v).ok
    short = claims.latent.broken("a number less", size * x, w_q, w_k, size * w_v)
    assert not short.ok
    own = {"qk": size * HASHED["qk"], "v": size * HASHED["v"]}
    assert claims.union(**HASHED | own).ok
    assert not claims.union.broken("not corrected", **HASHED | own).ok
    a, b = torch.ones(3000).double(), size * (100 + normal(3000))
    assert claims.depth(a, b).ok
    assert not claims.depth.broken("a round less", a, b).ok


@pytest.mark.parametrize(("n", "bound"), [(30, 1e-11), (1000, 1e-9), (3000, 3e-9)])
def test_the_bound_of_a_recurrence_goes_with_its_length(n, bound):
    """Sums of ones reach n: 1e-12 of the power of ten in it, and three of that at 3,000
    tokens.
    """
    one = torch.ones(n).double()
    assert claims.depth(one, one).bound == pytest.approx(bound)


def test_nothing_differs_from_nothing():
    assert claims.depth(torch.ones(30).double(), torch.zeros(30).double()).ok
