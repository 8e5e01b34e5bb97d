"""What attnbook.theorems.five_theorems_one_matrix cannot say: the same numbers by other
routes, and attacks on the floors of the page
notebooks/synthesis/five_theorems_one_matrix.
"""

from __future__ import annotations

import math
from itertools import product

import mpmath
import pytest
import torch

from attnbook.theorems import five_theorems_one_matrix as page
from attnlib import patterns
from attnlib.attention import forward, random_layers
from attnlib.bridges import cluster_logits, largest_dobrushin, rank_floor

EPS = torch.finfo(torch.float64).eps
DOUBLE = torch.float64


def descended(p, r, seed, steps=200):
    """A matrix of rank r that gradient descent found near P in row sums."""
    u, s, vh = torch.linalg.svd(p)
    left = (u[:, :r] * s[:r]).requires_grad_()
    right = vh[:r].clone().requires_grad_()
    rule = torch.optim.Adam([left, right], lr=0.02)
    least = math.inf
    found = None
    for _ in range(steps):
        b = left @ right
        loss = (p - b).abs().sum(-1).amax()
        if float(loss.detach()) < least:
            least = float(loss.detach())
            found = b.detach()
        rule.zero_grad()
        loss.backward()
        rule.step()
    return found


@pytest.mark.parametrize("n, sharp", [(3, 3.0), (5, 5.0), (8, 2.0)])
def test_descent_does_not_pass_the_floor(n, sharp):
    p = page.random_rows(n, sharp, 1, seed=n)["p"]
    for r in range(1, n):
        assert page.rank(p, descended(p, r, n), r).ok
    assert page.rank(p, torch.zeros_like(p), 0).ok
    assert rank_floor(p)[1] > 0


@pytest.mark.parametrize("m, r", [(3, 4), (3, 7), (4, 5), (6, 9)])
def test_descent_does_not_come_nearer_to_blocks(m, r):
    p = page.block_matrix(12, m, 0.6)
    assert page.blocks(p, descended(p, r, m), r).ok


def test_the_floor_is_one_sided():
    """Equal column maxima, unlike distances from rank two: a third, exactly, and
    zero.
    """
    cycle = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=DOUBLE) / 2
    twice = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 1, 1]], dtype=DOUBLE) / 2
    inverse = torch.tensor([[1, -1, 1], [1, 1, -1], [-1, 1, 1]], dtype=DOUBLE)
    assert torch.equal(cycle @ inverse, torch.eye(3, dtype=DOUBLE))
    assert float(inverse.abs().sum(-1).max()) == 3
    assert torch.equal(cycle.amax(0), twice.amax(0))
    assert rank_floor(cycle)[2] == rank_floor(twice)[2] == 0
    assert int(torch.linalg.matrix_rank(twice)) == 2
    near = page.nearest_singular(cycle)
    assert page.row_error(cycle, near) == pytest.approx(1 / 3)
    assert int(torch.linalg.matrix_rank(near)) == 2


def test_the_largest_coefficient_with_many_digits():
    """Against the extreme rows in 50 digits, and against all other splits."""

    def share(n, k, r):
        raised = k * mpmath.exp(r)
        lowered = (n - k) * mpmath.exp(-r)
        return raised / (raised + lowered)

    with mpmath.workdps(50):
        for n, r in product((2, 5, 9), (mpmath.mpf(1) / 3, mpmath.mpf(3))):
            best = max(share(n, k, r) - share(n, k, -r) for k in range(1, n))
            assert abs(best - largest_dobrushin(n, float(r))) < 1e-15


def test_clusters_by_hand():
    """Two clusters of one token and two readers, e^R = 2: every row in full."""
    sets = torch.tensor([[True, False], [False, True]])
    p = cluster_logits(sets, 1, math.log(2)).softmax(-1)
    wanted = torch.tensor([[4, 1, 1, 1], [1, 4, 1, 1]] * 2, dtype=DOUBLE) / 7
    assert torch.allclose(p, wanted, atol=4 * EPS)
    apart = (p @ p)[2:].diff(dim=0).abs().sum() / 2
    assert float(apart) == pytest.approx(9 / 49)  # (1 - 4/7)(1 - 4/7)


def test_sharp_rows_by_hand():
    """Rows (9/10, 1/10) and (1/2, 1/2): tau = 2/5, and the bound is 1 - 2 (1/2) / 9."""
    logits = torch.tensor([[9, 1], [3, 3]], dtype=DOUBLE).log()
    assert page.sharp_forgets(logits, 1 / 2).value == pytest.approx(2 / 5 - 8 / 9)


def test_the_euclidean_diameter_is_measured_too():
    """Rows (1/2, 1/4, 1/4) and (1/4, 1/2, 1/4): tau = 1/4, and what is left lies along
    the first side of a triangle of equal sides. In the norms 1 and infinity another
    side is longer, and less than a quarter is left; and of the three bounds, 1/4, 5/9
    and tanh R = 3/5, each is below the next.
    """
    sixth = math.pi / 3
    turn = math.pi / 8  # half way between an axis and a diagonal
    ends = [(math.cos(a), math.sin(a)) for a in (turn, turn - sixth)]
    x = torch.tensor([(0.0, 0.0), *ends], dtype=DOUBLE)
    logits = torch.tensor([[8, 4, 4], [4, 8, 4], [6, 6, 4]], dtype=DOUBLE).log()
    verdict = page.contraction(logits, x, math.log(2))
    assert abs(verdict.value) < 1e-15


def test_strength_zero_is_uniform_attention():
    sets = torch.tensor([[True, False]])
    assert torch.equal(cluster_logits(sets, 2, 0), torch.zeros(5, 5, dtype=DOUBLE))


def test_the_norm_at_the_end_is_that_of_each_token():
    """Every token less its mean, over its standard deviation."""
    made = page.network(L=1)  # more layers leave only rounding
    y = forward(**made)
    spread = (y.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    normed = (y - y.mean(1, keepdim=True)) / spread
    wanted = float(page.diameter(normed) / page.diameter(y))
    ratio = page.depth.broken("LayerNorm", **made).value / page.depth(**made).value
    assert ratio == pytest.approx(wanted, rel=1e-9)


def test_ids_determine_the_field_and_nothing_else():
    pattern = patterns.star(5)
    u = page.token_codes(5, "random")
    ids = page.ids_after(u, pattern, 1)
    words = list(product(range(2), repeat=5))
    heard = patterns.reach(pattern, 1)
    seen = {}
    for word, row in zip(words, ids.tolist()):
        for k, value in enumerate(row):
            places = heard[k].nonzero().flatten().tolist()
            field = (k, *(word[j] for j in places))
            assert seen.setdefault(round(value, 11), field) == field
    assert len(seen) == sum(2 ** int(f) for f in heard.sum(1))


@pytest.mark.parametrize("name", ["star", "window", "cycle", "never"])
def test_heads_of_any_kind_are_blind_outside_the_field(name):
    """Before the last hop some token does not change when some row does."""
    pattern = page.a_pattern(name)["pattern"]
    s = patterns.hops(pattern)
    blind = 4 if s is None else s - 1
    g = torch.Generator().manual_seed(0)
    layers = random_layers(
        blind + 1, 2, 4, 3, gain=2.0, bias=True, dtype=torch.float64, generator=g
    )
    x = torch.randn(pattern.n, 4, dtype=DOUBLE, generator=g)
    batch = x.repeat(pattern.n + 1, 1, 1)
    for j in range(pattern.n):
        batch[j, j] += 1
    for t in range(blind):
        batch = forward(batch, [layers[t]], skip=True, mask=pattern.mask(t)).tanh()
    moved = (batch[:-1] - batch[-1]).abs().amax(-1)
    assert moved.min() == 0
    if s is not None:
        batch = forward(batch, [layers[blind]], skip=True, mask=pattern.mask(blind))
        assert (batch[:-1] - batch[-1]).abs().amax(-1).min() > 1e-9


@pytest.mark.parametrize("w", [2, 3, 5])
def test_degree_bounds_the_hops(w):
    g = torch.Generator().manual_seed(w)
    for n in (6, 12, 30):
        rows = [
            {k, *torch.randperm(n, generator=g)[: w - 1].tolist()} for k in range(n)
        ]
        s = patterns.hops(patterns.from_sets(rows))
        assert s is None or w**s >= n


def spoiled(a, value=math.nan):
    """A copy with another first number."""
    a = a.clone()
    a[0, 0] = value
    return a


# Of each kind an object that is right; each case spoils one argument of it.
RIGHT = {
    "rank": page.random_rows,
    "blocks": page.blocks_and_surrogate,
    "contraction": page.halves,
    "depth": page.network,
    "memory": page.permutations,
    "sharp_forgets": page.sharp_rows,
    "many": page.readers_and_clusters,
    "hops": page.a_pattern,
    "counting": page.grid,
}
BROKEN = [
    ("rank", "p", lambda p: None),
    ("rank", "b", lambda b: torch.tensor(2.0, dtype=DOUBLE)),
    ("rank", "b", lambda b: b[0]),
    ("rank", "b", lambda b: torch.eye(8, dtype=DOUBLE)),  # of rank 8, called 2
    ("rank", "r", lambda r: 2.5),
    ("blocks", "b", lambda b: torch.tensor(2.0, dtype=DOUBLE)),
    ("blocks", "b", lambda b: b[0]),
    ("contraction", "x", spoiled),
    ("contraction", "x", torch.zeros_like),
    ("contraction", "logits", spoiled),
    ("contraction", "logits", lambda logits: logits[:-1]),
    ("contraction", "R", lambda R: 0.0),
    ("depth", "x", lambda x: [1]),
    ("memory", "logits", lambda logits: [*logits, logits[0].float()]),
    ("memory", "logits", lambda logits: []),
    ("sharp_forgets", "leak", lambda leak: math.inf),
    ("sharp_forgets", "leak", lambda leak: 3),
    ("sharp_forgets", "leak", lambda leak: math.nan),
    ("sharp_forgets", "logits", lambda logits: logits[:-1]),
    ("many", "c", lambda c: 0),
    ("many", "R", lambda R: math.nan),
    ("many", "R", lambda R: 0.0),
    ("many", "sets", torch.zeros_like),
    ("many", "sets", lambda sets: sets[:1]),
    ("many", "sets", lambda sets: sets.float()),
    ("hops", "pattern", lambda pattern: 5),
    ("counting", "points", lambda points: [[math.nan, math.nan], [0, 0], [1, 1]]),
    ("counting", "box", lambda box: math.nan),
    ("counting", "delta", lambda delta: 0.0),
    ("counting", "delta", lambda delta: math.nan),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("name, argument, spoil", BROKEN)
def test_what_is_no_object_of_a_theorem_is_refused_by_name(name, argument, spoil):
    """The same call passes before one argument is spoiled."""
    given = RIGHT[name]()
    function = getattr(page, name)
    assert function(**given).ok
    given[argument] = spoil(given[argument])
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        function(**given)


@pytest.mark.bad_input
def test_the_first_point_says_how_many_coordinates_there_are():
    """The second is named if it has fewer."""
    given = page.grid(m=2, d=2)
    given["points"][1] = given["points"][1][:1]
    with pytest.raises(ValueError, match=r"points\[1\] must have 2 coord.*, got 1"):
        page.counting(**given)


def test_layers_without_values_leave_no_diameter():
    """0 <= 0 is true, and a skip breaks it; the bound is the one of all networks."""
    given = page.network()
    given["layers"] = [a._replace(w_v=0 * a.w_v) for a in given["layers"]]
    verdict = page.depth(**given)
    assert verdict.ok
    assert verdict.bound == 1 + 1e-12
    assert not page.depth.broken("skips", **given).ok


def test_readers_of_one_cluster_each():
    sets = torch.eye(3, dtype=torch.bool)
    assert page.many(sets, 4, 2.0, 3).ok


def test_equal_sets_stay_equal():
    """0 = 0 is true: readers of the same clusters are at distance zero."""
    sets = torch.tensor([[True, True, False]] * 3)
    assert page.many(sets, 4, 2.0, 3).ok
