"""The room certify: exact arithmetic against other ways of computing the same."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import certify

small = st.fractions(min_value=-3, max_value=3, max_denominator=6)


def matrices(rows, columns):
    return st.lists(
        st.lists(small, min_size=columns, max_size=columns),
        min_size=rows,
        max_size=rows,
    )


def listed(x, attention, weights, skip):
    """Sums by length from a plain list of all paths: another way than interpolation."""
    sums = [[[Fraction()] * len(x[0]) for _ in x] for _ in range(len(weights) + 1)]
    for path in itertools.product(
        *[[*([None] if skip else []), *range(len(w))] for w in weights]
    ):
        term = x
        for heads, maps, h in zip(attention, weights, path):
            term = term if h is None else certify.product(heads[h], term, maps[h])
        k = len(path) - path.count(None)
        sums[k] = [[a + b for a, b in zip(old, new)] for old, new in zip(sums[k], term)]
    return sums


@pytest.mark.parametrize("skip", [False, True])
@settings(max_examples=25)  # fractions: a third of a second each
@given(
    matrices(2, 2),
    st.lists(st.lists(matrices(2, 2), min_size=2, max_size=2), min_size=6, max_size=6),
)
def test_interpolation_is_the_list_of_paths(skip, x, blocks):
    attention, weights = (
        blocks[:3],
        blocks[3:],
    )  # arbitrary matrices: without biases nothing is assumed of P
    assert certify.path_sum(x, attention, weights, skip=skip) == listed(
        x, attention, weights, skip
    )


@given(matrices(2, 3), matrices(3, 2), matrices(2, 4))
def test_products_agree_with_floats(a, b, c):
    def float64(m):
        return torch.tensor([[float(v) for v in row] for row in m], dtype=torch.float64)

    wanted = float64(a) @ float64(b) @ float64(c)
    assert torch.allclose(
        float64(certify.product(a, b, c)), wanted, rtol=1e-12, atol=1e-12
    )


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5)
)
def test_floats_are_exact(values):
    assert [[float(v) for v in row] for row in certify.exact([values])] == [values]
    assert certify.exact(torch.tensor([values], dtype=torch.float64)) == certify.exact(
        [values]
    )


@given(
    st.lists(
        st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any),
        min_size=1,
        max_size=4,
    )
)
def test_rows_sum_to_one_exactly(rows):
    assert [sum(row) for row in certify.row_stochastic(rows)] == [1] * len(rows)


@given(matrices(3, 2))
def test_norms_agree_with_floats(a):
    floats = torch.tensor([[float(v) for v in row] for row in a], dtype=torch.float64)
    wanted = [float(torch.linalg.matrix_norm(floats, p)) for p in (1, math.inf)]
    assert [float(v) for v in certify.norms(a)] == pytest.approx(wanted, rel=1e-12)
    assert certify.norms(certify.exact([[1, -2], [3, 4]])) == (6, 7)


@given(matrices(3, 2), matrices(2, 4))
def test_rank_of_a_product(a, b):
    found = certify.rank(certify.product(a, b))
    assert found <= min(certify.rank(a), certify.rank(b))
    assert certify.rank([list(row) for row in zip(*a)]) == certify.rank(a)


def test_rank_by_hand():
    small = Fraction(1, 10**30)
    ranks = {0: [[0, 0]], 1: [[0, 2], [0, 3]], 2: [[0, 1, 2], [1, 1, 1], [1, 2, 3]]}
    assert all(certify.rank(certify.exact(m)) == r for r, m in ranks.items())
    assert (
        certify.rank([[Fraction(1), Fraction(1)], [Fraction(1), 1 + small]]) == 2
    )  # a float would say 1


def test_value_biases_need_rows_that_sum_to_one():
    """One head, one token, by hand: P = p, W = 1, u = 1 gives p (x + 1), and the paths
    give p x + 1.
    """
    one = certify.exact([[1]])

    def gap(p):
        return certify.decomposition_gap(
            one, [[[[Fraction(p)]]]], [[one]], value_biases=[[[Fraction(1)]]]
        )

    assert gap(1) == 0 and gap(Fraction(1, 3)) == Fraction(2, 3)


def test_verdicts_show_no_rounding_noise():
    assert str(certify.at_most(3e-16, 1e-12)) == "holds, to 1e-12"
    assert str(certify.at_most(3e-16, 0.5)) == "holds: 0 <= 0.5"
    assert str(certify.at_most(0.4711, 0.5)) == "holds: 0.47 <= 0.5"
    assert str(certify.at_most(-1, -0.5)) == "holds: -1 <= -0.5"
    assert str(certify.at_most(0, 0)) == "holds: 0 = 0"
    assert str(certify.at_most(0.4711, 1e-12)) == "fails: 0.47 > 1e-12"
    assert str(certify.at_least(0.4711, 0.3)) == "holds: 0.47 >= 0.3"
    assert str(certify.at_least(0.4711, 1)) == "fails: 0.47 < 1"
    assert not certify.at_most(math.nan, 1).ok
    assert (
        certify.at_most(torch.tensor(1.0), 1).ok
        and not certify.at_most(Fraction(1, 10**400), 0).ok
    )


def two_by_two(**changes):
    """A network of two tokens, one layer and one head, with some arguments changed."""
    eye = certify.exact([[1, 0], [0, 1]])
    made = {"attention": [[eye]], "weights": [[eye]]} | changes
    return certify.network(eye, **made)


def test_the_two_by_two_network_by_hand():
    rows = certify.exact([[1, 2], [10, 0]])
    got = two_by_two(value_biases=[rows[:1]], biases=rows[1:], skip=True)
    assert got == [[13, 2], [11, 4]]


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: certify.row_stochastic([[0, 0]]), "not all zero"),
        (lambda: certify.row_stochastic([[2, -1]]), "nonnegative"),
        (
            lambda: certify.product(certify.exact([[1, 2]]), certify.exact([[1, 2]])),
            "cannot multiply 1 x 2 with 1 x 2",
        ),
        (lambda: certify.at_most(10**400, 1), "value must be in the range of floats"),
        (lambda: certify.at_least(1, 10**5000), "bound must be in the range of floats"),
        (lambda: two_by_two(weights=[[[[1], [0]]]], skip=True), "the output must be"),
        (lambda: certify.family_residual(2, 2), "m must be an integer of at least 3"),
        (lambda: certify.family_residual(3, Fraction(1, 2)), "must be above 1"),
        (
            lambda: certify.log_residuals([[1.0], [2.0]], [], digits=1),
            "1 digits leave nothing",
        ),
        (
            lambda: certify.hardmax_layer([[1, 2]], [[*[[[1], [0]]] * 3, [[1, 0, 5]]]]),
            "W_O of heads must have 2 columns, got 3",
        ),
        (
            lambda: certify.log_residuals([[1.0], [1 + 2.0**-50]], [], digits=5),
            "5 digits leave nothing of a residual",
        ),
    ],
)
def test_bad_input(run, message):
    with pytest.raises(ValueError, match=message):
        run()


@pytest.mark.parametrize(
    "find",
    [
        lambda **how: certify.context_gap((1, [1]), (1, [1, 2]), beta=1, **how),
        lambda **how: certify.boltzmann_gap([1], [1, 2], **how),
        lambda **how: certify.smallest_gap([(1, [1]), (1, [1, 2])], beta=1, **how)[0],
    ],
    ids=["contexts", "averages", "many"],
)
def test_enclosures_have_128_bits_unless_asked(find):
    """The difference is e / (1 + e), in size."""
    found = find()
    assert found == find(bits=128) != find(bits=129)
    with mpmath.workprec(300):
        size = mpmath.e / (1 + mpmath.e)
        low, high = sorted([abs(found.lower), abs(found.upper)])
        assert low < size < high
        assert 2**-128 < (high - low) / size < 2**-120


def test_the_family_with_a_weight_for_its_opposites():
    """The tokens +-1, .., +-4 written out, with e = 7 and tiny = 1/3."""
    x = torch.cat([torch.eye(4), -torch.eye(4)]).double()
    likes = torch.tensor([3.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    weights = torch.cat([likes, 1 / (3 * likes)])
    p = weights * 7 ** (x @ x.T)
    read = p / p.sum(1, keepdim=True) @ x
    off = (read - read.mean(0)).abs()
    wanted = float(off.sum(0).max() * off.sum(1).max())
    found = certify.family_residual(4, 7, Fraction(1, 3))
    assert float(found) == pytest.approx(wanted, rel=1e-12)


def test_a_network_of_one_token_and_a_bias():
    """3 + 3 * 5 + 7."""
    one = certify.exact([[1]])
    x = certify.exact([[3]])
    w = certify.exact([[5]])
    b = certify.exact([[7]])
    assert certify.network(x, [[one]], [[w]], biases=b, skip=True) == [[25]]
