"""The claims of notebooks/synthesis/five_theorems_one_matrix: each check, and its
control, on which the same function fails.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import mpmath
import pytest
import torch

from attnlib import patterns
from attnlib.attention import forward, random_layers
from attnlib.bridges import (
    dobrushin,
    largest_dobrushin,
    needed_bits,
    needed_radius,
    radius,
    rank_floor,
)
from attnlib.certify import at_most
from attnlib.lowrank import svd_surrogate
from attnlib.memorize import rank_one_layer, smallest_gap

EPS = torch.finfo(torch.float64).eps
DOUBLE = torch.float64


def row_error(p, b):
    return (p - b).abs().sum(-1).amax(-1)


def stochastic(n, sharp, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.softmax(sharp * torch.randn(n, n, generator=g, dtype=DOUBLE), -1)


# --- rank against pattern


def pairs(n, e):
    """The family with equality, and its surrogate of rank ceil(n / 2)."""
    block = torch.tensor([[e, 1 - e], [1 - e, e]], dtype=DOUBLE)
    one = [torch.ones(1, 1, dtype=DOUBLE)] * (n % 2)
    return torch.block_diag(*[block] * (n // 2), *one), torch.block_diag(
        *[0 * block + 0.5] * (n // 2), *one
    )


def lopsided():
    """Two tokens, column maxima 1 and 1/2, and a nearest matrix of rank one: a third
    away.
    """
    third = 1 / 3
    return torch.tensor([[1, 0], [0.5, 0.5]], dtype=DOUBLE), torch.tensor(
        [[1, third], [0.5, third / 2]], dtype=DOUBLE
    )


def all_on_one():
    """Four rows that all look at token 0: rank one itself."""
    return torch.eye(4, dtype=DOUBLE)[:1].expand(4, 4)


def check_rank(p, b, r):
    """By how much B is nearer to P than the floor of rank r allows; tolerance 64 n eps,
    for a sum of n entries.
    """
    return at_most(rank_floor(p)[r] - row_error(p, b), 64 * len(p) * EPS)


@pytest.mark.claim("synthesis.rank", role="check")
def test_small_matrices_by_hand():
    p, b = lopsided()
    assert check_rank(p, b, 1).ok and float(row_error(p, b)) == pytest.approx(1 / 3)
    assert (
        float(rank_floor(p)[1]) == pytest.approx(1 / 6)
        and abs(float(torch.linalg.det(b))) < EPS
    )
    assert check_rank(all_on_one(), all_on_one(), 1).ok


def descended(p, r, seed, steps=200):
    """A matrix of rank r that gradient descent found near P in row sums, from the
    truncated SVD.
    """
    u, s, vh = torch.linalg.svd(p)
    factors = [(u[:, :r] * s[:r]).requires_grad_(), vh[:r].clone().requires_grad_()]
    rule = torch.optim.Adam(factors, lr=0.02)
    best, found = math.inf, None
    for _ in range(steps):
        b = factors[0] @ factors[1]
        loss = (p - b).abs().sum(-1).amax()
        if float(loss.detach()) < best:
            best, found = float(loss.detach()), b.detach()
        rule.zero_grad(), loss.backward(), rule.step()
    return found


@pytest.mark.claim("synthesis.rank", role="check")
@pytest.mark.parametrize("n, sharp", [(3, 3.0), (5, 5.0), (8, 2.0), (8, 8.0)])
def test_no_surrogate_is_nearer_than_the_floor(n, sharp):
    p = stochastic(n, sharp, n)
    for r in range(1, n):
        assert (
            check_rank(p, svd_surrogate(p, r), r).ok
            and check_rank(p, descended(p, r, n), r).ok
        )
    assert check_rank(p, torch.zeros_like(p), 0).ok
    assert rank_floor(p)[1] > 0


@pytest.mark.claim("synthesis.rank", role="check")
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("e", [0.51, 0.75, 1.0])
def test_the_floor_is_attained_by_pairs(n, e):
    p, half = pairs(n, e)
    for r in range(-(-n // 2), n):
        assert check_rank(p, half, r).ok
        assert float(row_error(p, half)) == pytest.approx(2 * e - 1, abs=8 * EPS)
        assert 2 * float(
            p.amax(0).sort(descending=True).values[r]
        ) - 1 == pytest.approx(2 * e - 1, abs=8 * EPS)


@pytest.mark.claim("synthesis.rank", role="check")
def test_many_tokens_and_rank_one():
    for n in (10, 100, 1000):
        rest = (1 - 0.6) / (n - 1)
        p = (0.6 - rest) * torch.eye(n, dtype=DOUBLE) + rest
        b = torch.full_like(p, rest)
        assert check_rank(p, b, 1).ok
        assert float(rank_floor(p)[1]) == pytest.approx(
            (0.6 * n - 1) / (n + 1), abs=n * EPS
        )
        assert 0.6 - float(row_error(p, b)) < 1 / n


@pytest.mark.claim("synthesis.rank", role="check")
def test_the_floor_is_one_sided():
    """Equal column maxima, unlike distances from rank two: a third, exactly, and
    zero.
    """
    cycle = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=DOUBLE) / 2
    twice = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 1, 1]], dtype=DOUBLE) / 2
    inverse = torch.tensor([[1, -1, 1], [1, 1, -1], [-1, 1, 1]], dtype=DOUBLE)
    assert (
        torch.equal(cycle @ inverse, torch.eye(3, dtype=DOUBLE))
        and float(inverse.abs().sum(-1).max()) == 3
    )
    assert (
        torch.equal(cycle.amax(0), twice.amax(0))
        and rank_floor(cycle)[2] == rank_floor(twice)[2] == 0
    )
    assert int(torch.linalg.matrix_rank(twice)) == 2
    near = (
        cycle - torch.tensor([[1, 0, 0], [-1, 0, 0], [1, 0, 0]], dtype=DOUBLE) / 3
    )  # |P^-1| = 3: none is nearer than 1/3
    assert (
        float(row_error(cycle, near)) == pytest.approx(1 / 3)
        and int(torch.linalg.matrix_rank(near)) == 2
    )
    assert check_rank(cycle, near, 2).ok


@pytest.mark.claim("synthesis.rank", role="control")
def test_a_matrix_of_full_rank_is_nearer():
    p, half = pairs(8, 0.75)
    assert check_rank(p, half, 4).ok
    assert check_rank(p, p, 4).ok is False


@pytest.mark.claim("synthesis.rank", role="witness")
def test_pairs_in_fractions():
    """A kernel vector of the surrogate, in fractions: P x has the size 2 e - 1 of the
    bound, exactly.
    """
    e = Fraction(3, 4)
    rows, x = [[e, 1 - e], [1 - e, e]], [1, -1]
    assert [sum(a * b for a, b in zip(row, x)) for row in rows] == [
        2 * e - 1,
        1 - 2 * e,
    ]
    assert sum(Fraction(1, 2) * b for b in x) == 0


# --- logits against collapse


def extreme(n, r, k):
    a = torch.full((2, n), -float(r), dtype=DOUBLE)
    a[0, :k], a[1, k:] = r, r
    return a


def two_of_eight():
    """Eight rows, two of them far apart, six equal: columns are much closer than
    rows.
    """
    return torch.cat([extreme(8, 3.0, 4), torch.zeros(6, 8, dtype=DOUBLE)]).softmax(-1)


def check_logits(a, r):
    """tau(softmax) against the largest that radius r allows; tolerance 16 n eps, for
    sums of n.
    """
    return at_most(
        dobrushin(a.softmax(-1)) - largest_dobrushin(a.shape[-1], r),
        16 * a.shape[-1] * EPS,
    )


def check_diameter(p, x, power=1):
    """The diameter of P X in a p-norm against tau(P) diam(X), relative; tolerance 64 n
    eps.
    """
    over = (
        torch.cdist(p @ x, p @ x, p=power).max()
        - dobrushin(p) * torch.cdist(x, x, p=power).max()
    )
    return at_most(over, 64 * len(p) * EPS * float(x.abs().max()))


@pytest.mark.claim("synthesis.logits", role="check")
@pytest.mark.parametrize("n", [2, 3, 4, 7, 8])
@pytest.mark.parametrize("r", [0.1, 1.0, 4.0])
def test_radius_bounds_the_coefficient(n, r):
    g = torch.Generator().manual_seed(n)
    for trial in range(50):
        a = r * (2 * torch.rand(n, n, generator=g, dtype=DOUBLE) - 1)
        a = a if trial % 2 else r * a.sign()
        assert check_logits(a, r).ok and float(radius(a)) <= r
        assert check_logits(
            a + 100 * torch.randn(n, 1, generator=g, dtype=DOUBLE), r + 1e-12
        ).ok  # shifts of a row do nothing
    tau = float(dobrushin(extreme(n, r, n // 2).softmax(-1)))
    assert tau == pytest.approx(largest_dobrushin(n, r), abs=8 * EPS)
    assert tau <= math.tanh(r) + 8 * EPS and (
        n % 2 or tau == pytest.approx(math.tanh(r), abs=8 * EPS)
    )


@pytest.mark.claim("synthesis.logits", role="check")
def test_the_formula_with_many_digits():
    """largest_dobrushin against the extreme rows in 50 digits, and against other
    splits; shares no code with it.
    """

    def share(n, k, r):
        raised, lowered = k * mpmath.exp(r), (n - k) * mpmath.exp(-r)
        return raised / (raised + lowered)

    with mpmath.workdps(50):
        for n, r in product((2, 5, 9), (mpmath.mpf(1) / 3, mpmath.mpf(3))):
            best = max(share(n, k, r) - share(n, k, -r) for k in range(1, n))
            assert abs(best - largest_dobrushin(n, float(r))) < 1e-15


@pytest.mark.claim("synthesis.logits", role="check")
def test_the_coefficient_is_the_factor_of_the_diameter():
    g = torch.Generator().manual_seed(5)
    p = stochastic(7, 2.0, 5)
    for power in (1.0, 2.0, math.inf):
        assert check_diameter(p, torch.randn(7, 3, generator=g, dtype=DOUBLE), power).ok
    i, j = divmod(int((p[:, None] - p[None]).abs().sum(-1).argmax()), 7)
    x = (p[i] > p[j]).double()[:, None]  # attains it
    y = p @ x
    assert float(y.max() - y.min()) == pytest.approx(float(dobrushin(p)), abs=32 * EPS)


@pytest.mark.claim("synthesis.logits", role="control")
def test_a_wider_row_leaves_the_bound():
    a = extreme(4, 1.0, 2)
    assert check_logits(a, 1.0).ok
    a[0, 0] = 3.0  # one logit outside the interval
    assert check_logits(a, 1.0).ok is False


@pytest.mark.claim("synthesis.logits", role="witness")
def test_two_tokens_by_hand():
    a = math.log(3) / 2 * torch.tensor([[1.0, -1], [-1, 1]], dtype=DOUBLE)
    assert float(radius(a)) == pytest.approx(math.log(3) / 2)
    assert float(dobrushin(a.softmax(-1))) == pytest.approx(
        0.5, abs=4 * EPS
    )  # tanh(ln 3 / 2)


# --- depth


def check_depth(seed, *, skip=False, norm=False, L=2, gain=0.5):
    """The diameter after L layers over (19.4), which it may not pass; tolerance 1e-12
    relative, far above 64 L n eps.
    """
    g = torch.Generator().manual_seed(seed)
    layers = random_layers(L, 2, 6, 3, gain=gain, bias=True, generator=g)
    x = torch.randn(7, 6, dtype=DOUBLE, generator=g)
    y, maps = forward(x, layers, skip=skip, return_attention=True)
    y = torch.nn.functional.layer_norm(y, (6,)) if norm else y

    def diam(x):
        return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").max()

    shrink = [
        (dobrushin(p) * torch.linalg.matrix_norm(l.w_v @ l.w_o, 2)).sum()
        for p, l in zip(maps, layers)
    ]
    return at_most(diam(y) / diam(x) / math.prod(shrink), 1 + 1e-12)


@pytest.mark.claim("synthesis.depth", role="check")
@pytest.mark.parametrize("seed", range(4))
def test_depth(seed):
    assert check_depth(seed).ok and check_depth(seed, L=4, gain=1.5).ok


@pytest.mark.claim("synthesis.depth", role="check")
@pytest.mark.parametrize("n, r", [(2, 0.5), (6, 1.0), (8, 2.0)])
def test_two_halves_attain_it(n, r):
    half = torch.arange(n) * 2 // n
    p = torch.softmax(r * (2.0 * (half[:, None] == half) - 1).double(), -1)
    x = (2.0 * half - 1).double()[:, None]
    for L in (1, 5, 20):
        y = torch.linalg.matrix_power(p, L) @ x
        assert float((y.max() - y.min()) / 2) == pytest.approx(
            math.tanh(r) ** L, rel=1e-12
        )


@pytest.mark.claim("synthesis.depth", role="control")
def test_a_skip_keeps_the_diameter():
    assert check_depth(0, skip=True).ok is False


@pytest.mark.claim("synthesis.depth", role="control")
def test_a_layer_norm_stretches_it():
    assert (
        check_depth(1, gain=0.1).ok and check_depth(1, gain=0.1, norm=True).ok is False
    )


@pytest.mark.claim("synthesis.depth", role="witness")
def test_the_bound_is_not_empty():
    verdict = check_depth(1)
    assert (
        verdict.ok and 1e-6 < verdict.value < 0.9
    )  # far above rounding, and below the bound


# --- memory


def sharp(n, eps, share=1.0):
    """One logit R and the others -R, with share times the radius that is needed."""
    r = share * needed_radius(n, eps)
    return r * (2 * torch.eye(n, dtype=DOUBLE) - 1)


def check_memory(n, eps, share=1.0):
    """How much a row with the given radius leaks beyond eps; tolerance 16 eps."""
    p = sharp(n, eps, share).softmax(-1)
    return at_most((1 - p.diagonal()).max() - eps, 16 * EPS)


def check_product(n, eps, L, *, leak=None, seed=0):
    """2 (1 - eps)^L - 1 minus the coefficient of a product of L noisy permutations that
    leak `leak`; tolerance 64 L n eps.
    """
    g = torch.Generator().manual_seed(seed)
    out, leak = torch.eye(n, dtype=DOUBLE), eps if leak is None else leak
    for _ in range(L):
        p = leak * torch.softmax(torch.randn(n, n, generator=g, dtype=DOUBLE), -1)
        p[torch.arange(n), torch.randperm(n, generator=g)] += 1 - leak
        out = p @ out
    return at_most(2 * (1 - eps) ** L - 1 - dobrushin(out), 64 * L * n * EPS)


@pytest.mark.claim("synthesis.memory", role="check")
@pytest.mark.parametrize("n, eps", [(2, 0.1), (32, 0.1), (32, 0.5), (1000, 1e-3)])
def test_the_needed_radius_is_needed_and_enough(n, eps):
    assert check_memory(n, eps).ok
    assert float(radius(sharp(n, eps))) == pytest.approx(
        needed_radius(n, eps), rel=1e-12
    )
    g = torch.Generator().manual_seed(n)
    r = needed_radius(n, eps)
    rows = (r * (2 * torch.rand(200, n, generator=g, dtype=DOUBLE) - 1)).softmax(-1)
    assert float(rows.max()) <= 1 - eps + 16 * EPS  # no row of this radius is sharper


@pytest.mark.claim("synthesis.memory", role="check")
@pytest.mark.parametrize("L", [1, 4, 12])
def test_products_remember(L):
    assert all(check_product(6, 0.05, L, seed=seed).ok for seed in range(5))


@pytest.mark.claim("synthesis.memory", role="control")
def test_a_smaller_radius_leaks_and_a_larger_leak_forgets():
    assert check_memory(32, 0.1, share=0.95).ok is False
    assert check_product(6, 0.05, 8, leak=0.5).ok is False


@pytest.mark.claim("synthesis.memory", role="control")
def test_one_token_remembers_nothing():
    assert check_product(2, 0.1, 1).ok and check_product(1, 0.1, 1).ok is False


@pytest.mark.claim("synthesis.memory", role="witness")
def test_two_rows_in_fractions():
    eps = Fraction(1, 10)
    p, q = (1 - eps, eps), (eps, 1 - eps)
    assert 1 - sum(map(min, p, q)) == 1 - 2 * eps


# --- hops


def symbols(n, size=2):
    """All size^n inputs, as numbers of their own for each place and symbol."""
    codes = 1 + torch.rand(
        n, size, generator=torch.Generator().manual_seed(0), dtype=DOUBLE
    )
    words = torch.tensor(list(product(range(size), repeat=n)))
    return words, codes[torch.arange(n), words][..., None]


def hop_ids(u, pattern, L, *, beta=1.0, w=-0.5):
    one = torch.ones(1, dtype=DOUBLE)
    for t in range(L):
        u = forward(u, [rank_one_layer(one, beta, w)], skip=True, mask=pattern.mask(t))
    return u[..., 0]


def check_ids(pattern, L, *, size=2, w=-0.5, codes=None):
    """How many ids are missing of those that the fields allow after s layers: n size^n
    minus the number found.
    """
    words, u = symbols(pattern.n, size)
    u = u if codes is None else (words + torch.tensor(codes)).double()[..., None]
    found = smallest_gap(hop_ids(u, pattern, L, w=w).flatten()).distinct
    return at_most(pattern.n * size**pattern.n - found, 0)


def check_blind(pattern, L, seed=0):
    """The least change of token k when row j changes, over pairs (k, j): zero, to
    1e-13, if a pair is blind; any heads.
    """
    g = torch.Generator().manual_seed(seed)
    layers = random_layers(max(L, 1), 2, 4, 3, gain=2.0, bias=True, generator=g)
    x = torch.randn(pattern.n, 4, dtype=DOUBLE, generator=g)
    batch = x.repeat(pattern.n + 1, 1, 1)
    for j in range(pattern.n):
        batch[j, j] += 1
    for t in range(L):
        batch = forward(batch, [layers[t]], skip=True, mask=pattern.mask(t)).tanh()
    return at_most((batch[:-1] - batch[-1]).abs().amax(-1).min(), 1e-13)


PATTERNS = [
    patterns.star(6),
    patterns.window(5, 3),
    patterns.dilation_cycle(6),
    patterns.strided(7, 3),
    patterns.dense(5),
]


@pytest.mark.claim("synthesis.hops", role="check")
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: f"{p.n}-{p.connections}")
def test_ids_are_those_of_the_fields(pattern):
    s = patterns.hops(pattern)
    assert check_ids(pattern, s).ok and check_blind(pattern, s - 1).ok
    _, u = symbols(pattern.n)
    for L in range(s + 2):
        fields = patterns.reach(pattern, L).sum(1)
        assert smallest_gap(hop_ids(u, pattern, L).flatten()).distinct == int(
            (2**fields).sum()
        )


@pytest.mark.claim("synthesis.hops", role="check")
def test_ids_determine_the_field_and_nothing_else():
    pattern, L = patterns.star(5), 1
    words, u = symbols(5, 3)
    ids, heard = hop_ids(u, pattern, L), patterns.reach(pattern, L)
    seen = {}
    for word, row in zip(words.tolist(), ids.tolist()):
        for k, value in enumerate(row):
            field = (k, *(word[j] for j in heard[k].nonzero().flatten().tolist()))
            assert seen.setdefault(round(value, 11), field) == field
    assert len(seen) == sum(3 ** int(f) for f in heard.sum(1))


@pytest.mark.claim("synthesis.hops", role="check")
@pytest.mark.parametrize("w", [2, 3, 5])
def test_degree_bounds_the_hops(w):
    g = torch.Generator().manual_seed(w)
    for n in (6, 12, 30):
        p = patterns.from_sets(
            [
                sorted({k, *(torch.randperm(n, generator=g)[: w - 1].tolist())})
                for k in range(n)
            ]
        )
        s = patterns.hops(p)
        assert s is None or w**s >= n
    assert (
        patterns.hops(patterns.dense(9)) == 1
        and patterns.hops(patterns.window(9, 7)) > 1
    )


@pytest.mark.claim("synthesis.hops", role="control")
@pytest.mark.parametrize(
    "pattern", PATTERNS[:3], ids=lambda p: f"{p.n}-{p.connections}"
)
def test_one_layer_less_cannot(pattern):
    s = patterns.hops(pattern)
    assert check_ids(pattern, s - 1).ok is False
    assert check_blind(pattern, s).ok is False  # with s layers no pair is blind
    assert (
        check_ids(pattern, s, w=0.0).ok is False
    )  # a head of weight zero is no attention


@pytest.mark.claim("synthesis.hops", role="control")
def test_codes_that_meet_cannot():
    """Codes 1 and 2 added to the symbols 0 and 1: the rows (0, 1) and (1, 0) both
    become 2, and stay equal.
    """
    dense = patterns.dense(2)
    assert check_ids(dense, 1, codes=[1, 3]).ok
    assert all(check_ids(dense, L, codes=[1, 2]).ok is False for L in (1, 2, 3))
    u = hop_ids(torch.tensor([[[2.0], [2.0]]], dtype=DOUBLE), dense, 3)
    assert u[0, 0] == u[0, 1]


@pytest.mark.claim("synthesis.hops", role="check")
def test_who_never_hears_never_knows():
    """Where somebody never hears of somebody, s is infinite, and no number of layers is
    enough.
    """
    apart = patterns.from_sets([[0, 1], [0, 1], [1, 2]])
    assert patterns.hops(apart) is None
    assert all(
        check_blind(apart, L).ok and check_ids(apart, L).ok is False for L in (1, 3, 6)
    )


@pytest.mark.claim("synthesis.hops", role="witness")
def test_two_tokens_one_layer():
    dense = patterns.dense(2)
    assert patterns.hops(dense) == 1 and check_ids(dense, 1, size=3).ok


# --- counting


def check_counting(points, box, delta, d):
    """The bits that are needed minus those of the box, for points that are delta apart;
    inf if they are not.
    """
    apart = all(
        max(abs(a - b) for a, b in zip(p, q)) >= delta
        for p, q in combinations(points, 2)
    )
    inside = all(0 <= c <= box for p in points for c in p)
    have = math.log2(box / delta)
    return at_most(
        needed_bits(len(points), d) - have if apart and inside else math.inf,
        4 * EPS * max(1, abs(have)),
    )


def grid(m, d, delta=Fraction(1, 3)):
    return (
        [tuple(delta * c for c in p) for p in product(range(m), repeat=d)],
        delta * (m - 1),
        delta,
    )


@pytest.mark.claim("synthesis.counting", role="check")
@pytest.mark.parametrize("m, d", [(2, 1), (5, 1), (3, 2), (2, 3), (4, 3)])
def test_grids_attain_it(m, d):
    points, box, delta = grid(m, d)
    verdict = check_counting(points, box, delta, d)
    assert verdict.ok and verdict.value == pytest.approx(0, abs=1e-14)  # equality
    assert needed_bits(m**d + 1, d) == math.log2(m)  # one point more needs a wider box


@pytest.mark.claim("synthesis.counting", role="check")
def test_random_points_stay_below():
    g = torch.Generator().manual_seed(0)
    for d in (1, 2):
        x = torch.randint(0, 64, (400, d), generator=g).tolist()
        kept = []
        for p in x:
            if all(max(abs(a - b) for a, b in zip(p, q)) >= 7 for q in kept):
                kept.append(tuple(p))
        assert len(kept) > 3 and check_counting(kept, 63, 7, d).ok


@pytest.mark.claim("synthesis.counting", role="control")
def test_points_that_are_too_near_are_more():
    points, box, delta = grid(3, 2)
    assert (
        check_counting([*points, (box / 2 + delta / 9, box / 2)], box, delta, 2).ok
        is False
    )


@pytest.mark.claim("synthesis.counting", role="witness")
def test_three_points_on_a_line():
    assert check_counting([(0,), (1,), (2,)], 2, 1, 1).ok and needed_bits(3) == 1
