"""Page one_layer_memorization/boltzmann_and_hardmax: what was worked out by hand."""

import math
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

import pytest
import torch

from attnbook.theorems import boltzmann_and_hardmax as claims
from attnlib.certify import boltzmann_gap, context_gap, context_terms, hardmax_layer
from attnlib.memorize import boltzmann, needed_gap

double = torch.float64
ENDS, NEAR = claims.ENDS, claims.NEAR


@pytest.mark.parametrize(("n", "law"), [(2, 0.278465), (8, 0.973139), (64, 2.307130)])
def test_the_drop_is_attained(n, law):
    """The drop is W((n - 1) / e), with W the function of Lambert."""
    row = claims.drawn_rows(n)["a"][0]
    assert float(row.max() - boltzmann(row)) == pytest.approx(law, abs=1e-6)


def test_a_slope_on_either_side():
    """Of 0, -1, -5 the second entry has a positive slope and the third a negative one:
    p = (0.7275, 0.2676, 0.0049) and boltz = -0.2921.
    """
    slope, _ = claims.derivatives(torch.tensor([0.0, -1.0, -5.0], dtype=double))
    wanted = [0.267624 * 0.292134, 0.004902 * (-4 + 0.292134)]
    assert slope[1:].tolist() == pytest.approx(wanted, abs=1e-5)


def test_the_lemma_is_nearly_attained():
    """0, -delta and 0, -2 delta are delta / (e^delta + 1) - 2 delta / (e^(2 delta) + 1)
    apart, which is 1.0698 times 0.9 delta e^-delta.
    """
    step = claims.grid_step(2, "distinct")
    shortage = claims.log_shortage([0, -step], [0, -2 * step], "distinct")
    assert math.exp(-shortage) == pytest.approx(1.0698, abs=2e-4)


@pytest.mark.parametrize("n", [2, 3, 8, 64])
def test_the_bound_is_more_than_n_squared_times_the_recalled_one(n):
    """(ln n)^2 e^(-2 r), with r = rho / 2, its smallest value."""
    delta = needed_gap(n)
    ours = claims.log_separation_bound(n, delta, n * delta, kind="distinct")
    recalled = 2 * math.log(math.log(n)) - n * delta
    assert ours - recalled > math.log(n * n)


@pytest.mark.parametrize(
    ("n", "ratio"), [(2, 1.1042), (3, 1.1101), (4, 1.1108), (8, 1.1111)]
)
def test_the_lemma_for_multisets_is_nearly_attained(n, ratio):
    """n equal values, and one of them delta lower, are delta / (1 + (n - 1) e^delta)
    apart.
    """
    shortage = claims.log_shortage(**claims.nearly_all_equal(n), kind="multiset")
    assert math.exp(-shortage) == pytest.approx(ratio, abs=2e-4)


def test_two_averages_are_so_near():
    """Eight tokens, four a sequence: 128 bits put the two averages between 10^-77512
    and 10^-77511 apart.
    """
    a, b, s = claims.deep_pair(K=8, n=4).values()
    assert boltzmann_gap(a, b, scale=s).log10 == pytest.approx(-77511.5, abs=0.5)


def draw_heads(seed: int, d: int = 3) -> list:
    """One to three heads of small integers; in one of four all scores tie."""
    g = torch.Generator().manual_seed(seed)

    def matrix(rows, columns):
        return torch.randint(-3, 4, (rows, columns), generator=g).tolist()

    heads = []
    for _ in range(1 + seed % 3):
        keys = [[0, 0]] * d if seed % 4 == 0 else matrix(d, 2)
        heads.append((matrix(d, 2), keys, matrix(d, 2), matrix(2, d)))
    return heads


def exact_differences(first, second, nets: int) -> int:
    """Layers of integers, in Fractions, that give an end of the two sequences different
    outputs.
    """
    apart = 0
    for seed in range(nets):
        heads = draw_heads(seed)
        x = [[t, 2 - t, 3 * t] for t in first]
        y = [[t, 2 - t, 3 * t] for t in second]
        u = hardmax_layer(x, heads)
        v = hardmax_layer(y, heads)
        apart += u[0] != v[0] or u[-1] != v[-1]
    return apart


def test_hardmax_in_integers():
    """None of 60 layers tells the ends of {1, 2, 5, 6} from those of {1, 3, 4, 6}; with
    unequal means, of {1, 2, 4} and {1, 3, 4}, some do.
    """
    assert exact_differences(ENDS, NEAR, 60) == 0
    assert exact_differences((1, 2, 4), (1, 3, 4), 20) > 0


@pytest.mark.parametrize(("base", "sums"), [(5, 126), (3, 116), (2, 76)])
def test_digits_count_multisets(base, sums):
    """126 multisets of four out of six tokens, counted by another program too."""
    bags = list(combinations_with_replacement(range(6), 4))
    assert len(bags) == 126
    assert len({sum(base**k for k in bag) for bag in bags}) == sums


@pytest.mark.parametrize(("beta", "wanted"), [(1, 0.0398), (3, -0.0421)])
def test_sums_that_coincide_do_not_cancel(beta, wanted):
    """1 + 6 = 2 + 5 = 3 + 4: exponents meet in groups, and no group cancels as a
    whole; the difference has opposite signs at 1 and at 3.
    """
    gap = boltzmann_gap(ENDS, NEAR, scale=beta)
    assert float(gap.lower) == pytest.approx(wanted, abs=1e-4)


def test_eight_terms():
    """Of the ids of tokens 1 and 2 in {1, 2, 4}, at w = 2; of equal contexts none."""
    bag = (1, 2, 4)
    assert len(context_terms((1, bag), (2, bag), weight=2)) == 8
    assert context_terms((1, bag), (1, bag), weight=2) == {}


def test_small_weights_keep_ids_apart():
    """With |w| (z_max - z_min) below every distance of two tokens all ids of multisets
    differ: w = 3/10 for 1, 2, 4, and 1/8 for the two contexts that collide at w = 2.
    """
    tokens = claims.contexts((1, 2, 4), 3, (1, 2, 4), repeats=True)["contexts"]
    colliding = [claims.ONE, claims.TWO]
    for weight, found in ((Fraction(3, 10), tokens), (Fraction(1, 8), colliding)):
        for one, two in combinations(found, 2):
            gap = context_gap(one, two, beta=Fraction(1, 3), weight=weight, bits=64)
            assert gap.sign != 0


def times(*polynomials):
    """The product of polynomials, constant terms first."""
    out = [1]
    for factor in polynomials:
        product = [0] * (len(out) + len(factor) - 1)
        for i, a in enumerate(out):
            for j, b in enumerate(factor):
                product[i + j] += a * b
        out = product
    return out


def test_the_numerator_of_the_near_miss():
    """-x^3 (x - 1) (x + 1)^3 (x^4 - 4 x^3 + 4 x^2 - 4 x + 1), whose last factor has the
    zero e^beta*, cosh beta* = 1 + 1 / sqrt 2.
    """
    quartic = [1, -4, 4, -4, 1]
    wanted = times([0, 0, 0, -1], [-1, 1], [1, 1], [1, 1], [1, 1], quartic)
    terms = context_terms((1, ENDS), (1, NEAR))
    assert terms == {k: c for k, c in enumerate(wanted) if c}
    x = math.exp(claims.BETA)
    assert abs(sum(c * x**k for k, c in enumerate(quartic))) < 1e-12


def test_neighbours_near_beta_zero():
    """Two sets of four that differ in one token: their means differ by a quarter of the
    difference of two uniform numbers, and that is below 0.04 with probability
    1 - 0.98^2; the share of 200,000 draws is within five standard deviations.
    """
    z = claims.vocabularies(200_000, V=5)["z"]
    s = 1e-9 * z[:, 0]
    gaps = claims.averages(z, (0, 1, 2, 3), s) - claims.averages(z, (0, 1, 2, 4), s)
    share = float((gaps.abs() <= 0.01).double().mean())
    deviation = math.sqrt(0.0396 * (1 - 0.0396) / 200_000)
    assert abs(share - 0.0396) <= 5 * deviation


def test_a_token_at_zero_hears_the_mean():
    """At beta = 0 too: {0, 1, 2} and {0, 1, 4} have the means 1 and 5/3."""
    z = torch.tensor([[0.0, 1.0, 2.0, 4.0]], dtype=double)
    for tokens, mean in (((0, 1, 2), 1), ((0, 1, 3), 5 / 3)):
        heard = claims.averages(z, tokens, 0 * z[:, 0])
        assert float(heard) == pytest.approx(mean, rel=1e-14)


def test_one_over_root_two():
    """Two sets of two that share a token, with all keys equal: the weights differ by
    (0, 1/2, -1/2).
    """
    g = torch.Generator().manual_seed(0)
    values = torch.randn(100_000, 3, generator=g, dtype=double)
    keys = torch.zeros(3, dtype=double)
    apart = claims.weight_difference(keys, (0, 1), (0, 2), 1.0, 0)
    assert float((values @ apart).std()) == pytest.approx(math.sqrt(0.5), abs=0.01)


def test_what_the_query_hears_of_values():
    """The second of the tokens 2, 1 asks; the weights of two keys are a sigmoid."""
    keys = torch.tensor([0.3, -1.0, 0.5], dtype=double)
    values = torch.tensor([[0.0, 1.0, 5.0], [2.0, 3.0, -1.0]], dtype=double)
    heard = claims.value_averages(keys, values, (2, 1), 0.7, 1)
    share = 1 / (1 + math.exp(0.7 * -1.0 * (-1.0 - 0.5)))
    wanted = share * values[:, 2] + (1 - share) * values[:, 1]
    assert torch.allclose(heard, wanted, rtol=1e-14)
