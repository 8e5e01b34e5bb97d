"""What attnlib.theorems.complexity_table cannot say of the page
notebooks/jl_low_rank/complexity_table: numbers by hand, and objects of one's own.
"""

from __future__ import annotations

import math

import pytest
import torch

from attnlib import patterns
from attnlib.efficient import flops, lsh_buckets
from attnlib.lowrank import nystrom_attention
from attnlib.theorems import complexity_table as claims


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
    assert claims.borders(**lists, within=False).value == 22


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
    with pytest.raises(ValueError, match="2n/m must be a power of two, got 6"):
        claims.price_of_a_hash(96, 4, 32)
    with pytest.raises(ValueError, match="4 outcomes and 7 rounds are 16,384 draws"):
        claims.missed_mass(**claims.equally_likely_rounds(rounds=7))
    objects = claims.edited(at=5)
    objects["at"] = 9
    with pytest.raises(ValueError, match="must agree before at = 9"):
        claims.past_only(**objects)
    with pytest.raises(ValueError, match="outside must be one of"):
        claims.moved(8, 2, 4, 4, outside="values")
