"""Page sparse_patterns/what_is_enough: what was worked out by hand or by trying all."""

import math
from itertools import combinations, combinations_with_replacement, permutations, product

import pytest
import torch

from attnbook.theorems import what_is_enough as enough
from attnlib.codes import counting_dimension
from attnlib.codes.exact import line_order


@pytest.mark.parametrize(("n", "d"), [(2**8, 67), (2**12, 90), (2**20, 134)])
def test_the_dimension_in_numbers(n, d):
    assert enough.lemma_dimension(n, 1, 0.5) == d


@pytest.mark.parametrize(("k", "t"), [(1, 0.5), (2, 0.5), (2, 0.95), (4, 0.4)])
def test_a_union_bound_asks_for_twice_as_much(k, t):
    """(11.2) asks for 2 kappa / t^2 times ln n, a union bound for at least twice that;
    up to a hundredth.
    """

    def slope(dimension):
        steps = dimension(10**90, k, t) - dimension(10**60, k, t)
        return steps / (30 * math.log(10))

    lemma = 2 * (2 * k * k / (k + 1)) / t**2
    union = max(2 * lemma, 8 * k * k if k > 1 else 0)
    assert slope(enough.lemma_dimension) == pytest.approx(lemma, rel=0.01)
    assert slope(enough.union_dimension) == pytest.approx(union, rel=0.01)


@pytest.mark.parametrize(("n", "k"), [(12, 1), (12, 2), (24, 3)])
def test_the_weights_meet_the_local_lemma(n, k):
    """ln P(F) is at most what the lemma asks for, by a count of neighbours, with the
    chances that (11.2) allows.
    """
    rows = [frozenset(row) for row in enough.circulant(n, k)["columns"].tolist()]
    events = [(row, True) for row in rows]
    for row in rows:
        events += [(row | {l}, False) for l in range(n) if l not in row]
    m = (k + 1) ** 2
    weight = {True: 1 / m, False: 1 / (m * n)}
    for own, leans in events[:: len(events) // 20]:
        near = [other for keys, other in events if keys & own]
        allowed = math.log(weight[leans])
        for kind in weight:
            others = near.count(kind) - (kind == leans)
            allowed += others * math.log1p(-weight[kind])
        assert math.log(weight[leans]) - 2 <= allowed


def test_some_row_tells_two_columns_apart():
    """Row i = {i, ..., i + k - 1}, cyclically: so their keys differ."""
    for n in range(2, 9):
        for k in range(1, n):
            rows = [{(i + j) % n for j in range(k)} for i in range(n)]
            for a, b in permutations(range(n), 2):
                assert any(a in row and b not in row for row in rows)


def dimensions_of_a_grid(n, levels):
    """The least d in which n keys on a grid of so many levels let each win a query of
    the grid: by trying all.
    """
    values = torch.linspace(-1, 1, levels).tolist()
    for d in range(1, 5):
        grid = torch.tensor(list(product(values, repeat=d)), dtype=torch.float64)
        logits = grid @ grid.T
        for keys in combinations_with_replacement(range(len(grid)), n):
            best = logits[:, list(keys)].topk(2, dim=1)
            wins = best.values[:, 0] > best.values[:, 1] + 1e-9
            if len(best.indices[wins, 0].unique()) == n:
                return d
    raise AssertionError(f"no d up to 4 serves {n} keys on {levels} levels")


@pytest.mark.parametrize(
    ("n", "levels", "attained"),
    [(2, 2, True), (3, 2, False), (4, 2, True), (5, 2, False), (3, 3, False)],
)
def test_bits_times_dimensions_on_small_grids(n, levels, attained):
    bits = dimensions_of_a_grid(n, levels) * math.log2(levels)
    assert bits >= math.log2(n)
    assert (bits == math.log2(n)) == attained


def test_a_dimension_more():
    assert enough.one_more_dimension().ok


def test_a_line_by_hand():
    """{0}, {0, 1} and {2} are served by the keys 0, 1, 3; three single keys are not."""
    assert line_order([{0}, {0, 1}, {2}], 3) == [0, 1, 3]
    assert line_order([{0}, {1}, {2}], 3) is None


@pytest.mark.parametrize(("n", "k", "exact"), [(2, 1, 2), (3, 1, 6), (4, 2, 90)])
def test_permutations_in_blocks_are_regular_patterns(n, k, exact):
    """They have k ones in each row and column, and number (n/k)!^(k^2)."""
    sets = list(combinations(range(n), k))
    regular = set()
    for rows in product(sets, repeat=n):
        if all(sum(j in row for row in rows) == k for j in range(n)):
            regular.add(rows)
    m = n // k
    blocks = set()
    for chosen in product(permutations(range(m)), repeat=k * k):
        rows = []
        for i in range(n):
            of_row = chosen[i // m * k : i // m * k + k]
            rows.append(tuple(j * m + p[i % m] for j, p in enumerate(of_row)))
        blocks.add(tuple(rows))
    assert len(regular) == exact
    assert blocks <= regular
    assert len(blocks) == math.factorial(m) ** (k * k)


@pytest.mark.parametrize("k", [8, 16])
def test_what_the_closed_form_rules_out_the_count_does_too(k):
    """What (11.4) rules out, the count of permutations in blocks rules out too."""
    n = 10**6 * k
    least = counting_dimension(n, k)
    assert not enough.counting_signs(n, k, least - 1).ok
