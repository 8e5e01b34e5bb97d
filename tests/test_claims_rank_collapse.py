"""What attnbook.theorems.rank_collapse cannot say: exact counterexamples of the page
notebooks/path_decomposition/rank_collapse, and what users of its theorems meet.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from attnbook.theorems import rank_collapse
from attnlib import certify
from attnlib.attention import Layer, forward
from attnlib.collapse import diameter, log_diameter_bound, log_residuals, residual

EPS = torch.finfo(torch.float64).eps


@pytest.mark.claim("collapse.bound", role="counterexample")
def test_the_printed_bound_fails_in_fractions():
    """4 w |R|^3 squared is 128 w^2; w = ln 1500000 < 14.221, since e > 2.71828182845
    and 2.71828182845^14.221 > 1500000. About every centre the residual is larger.
    """
    assert Fraction(271828182845, 10**11) ** 14221 > Fraction(1500000) ** 1000
    tiny = Fraction(1, 2**60)
    squared = certify.family_residual_any(60000, 1500000, tiny)
    assert squared > 128 * Fraction(14221, 1000) ** 2
    assert squared < certify.family_residual(60000, 1500000, tiny)
    least = rank_collapse.family_constant(60000, 1500000, any_centre=True)
    assert least == pytest.approx(4.1436, abs=1e-4)
    smaller = certify.family_residual_any(30000, 750000, tiny)
    assert smaller < 128 * Fraction(13527, 1000) ** 2  # the control: ln is larger


def test_the_best_centre_of_the_family_is_the_median():
    """A dense network attains the bound for every centre; the mean is worse."""
    made = rank_collapse.family_head(40, 100.0)
    y = forward(made["x"], [made["layer"]])
    least = float(certify.family_residual_any(40, 100)) ** 0.5
    size = rank_collapse.composite_norm(y - y.median(0).values)
    assert float(size) == pytest.approx(least, rel=1e-9)
    assert float(rank_collapse.composite_norm(residual(y))) > 1.1 * least


@pytest.mark.bad_input
def test_the_printed_bound_asks_for_its_conditions():
    """Tokens twice as large as they may be have a square four times as large."""
    said = r"4 beta .* is 4, and \(2.18\) needs at most 1 for two"
    with pytest.raises(ValueError, match=said):
        rank_collapse.cubic_bound(**rank_collapse.network_at_the_edge(scale=2.0))
    one = rank_collapse.network_at_the_edge(L=1)
    size = float(rank_collapse.composite_norm(residual(one["x"]))) ** 2
    strongest = float(rank_collapse.key_norms(one["layers"][0])[0]) * size
    for times, refused in ((2.2, True), (2.0, False)):
        x = (times / strongest) ** 0.5 * one["x"]
        if refused:
            said = r"is 2.2, and \(2.18\) needs at most 2.11"
            with pytest.raises(ValueError, match=said):
                rank_collapse.cubic_bound(x, one["layers"])
        else:
            assert rank_collapse.cubic_bound(x, one["layers"]).ok


@pytest.mark.parametrize("seed", range(4))
def test_one_layer_needs_the_first_condition_alone(seed):
    """The edge is that of the second condition, which 1.5 squared leaves behind."""
    made = rank_collapse.network_at_the_edge(seed, L=1, scale=1.5)
    size = float(rank_collapse.composite_norm(residual(made["x"]))) ** 2
    assert 4 * rank_collapse.unit(*made["layers"]) * size == pytest.approx(1.5**2)
    assert rank_collapse.cubic_bound(**made).ok


@pytest.mark.parametrize("seed", range(40))
def test_the_size_is_always_enough(seed):
    """Proposition 2.11 (b): the constant sqrt(min(n / 2, d)), for spreads up to 50."""
    made = rank_collapse.random_head(seed, eta_is=10 ** (seed % 8 / 1.5 - 3))
    n, d = made["x"].shape
    assert rank_collapse.constant(**made) <= math.sqrt(min(n / 2, d)) * (1 + 1e-9)


def test_the_first_bound_by_hand():
    """u_1 of the two unequal heads with the numbers written out: |R|_1 = 1/2,
    |R|_inf = 5/16, omega = (2, 7/2), |W|_1 = (3, 5), |W|_inf = (4, 3).
    """
    x, layer = rank_collapse.two_unequal_heads()
    r = residual(x)
    assert (rank_collapse.one_norm(r), rank_collapse.inf_norm(r)) == (1 / 2, 5 / 16)
    assert rank_collapse.key_norms(layer).tolist() == [2, 7 / 2]
    u_0 = math.sqrt(5 / 32)
    factor = rank_collapse.g(2 * 7 / 2 * 5 / 32)
    c_1 = math.sqrt((2 * 3 + 7 / 2 * 5) * (2 * 4 + 7 / 2 * 3))
    got = float(rank_collapse.log_bound(x, [layer])[1].exp())
    assert got == pytest.approx(math.sqrt(factor) * c_1 * u_0**3, rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_an_absolute_residual_is_no_rank(seed):
    """Halving the values halves the residual, and the relative one stays."""
    x, layers = rank_collapse.random_network(seed, L=1).values()
    plain = [layer._replace(b_v=None, b_o=None) for layer in layers]
    halved = [layer._replace(w_v=layer.w_v / 2) for layer in plain]
    y = forward(x, plain)
    z = forward(x, halved)
    assert float(residual(z).norm()) == pytest.approx(float(residual(y).norm()) / 2)
    relative = float(residual(y).norm() / y.norm())
    assert float(residual(z).norm() / z.norm()) == pytest.approx(relative, rel=1e-12)


# --- the kernels behind the claims


def test_the_diameter_by_hand():
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])
    assert float(diameter(x)) == 5.0
    assert diameter(torch.stack([x, 2 * x])).tolist() == [5.0, 10.0]
    assert float(diameter(x[:1])) == 0.0


def test_the_recursion_measures_diameters_too():
    x, layers = rank_collapse.random_network(3, L=2).values()
    got = log_residuals(x, layers, size="diameter")
    seen = [diameter(x), diameter(forward(x, layers[:1])), diameter(forward(x, layers))]
    assert got.exp().tolist() == pytest.approx([float(s) for s in seen], rel=1e-9)
    same = x[:1].expand(4, -1)
    assert log_residuals(same, layers, size="diameter").tolist() == [-math.inf] * 3
    assert log_diameter_bound(same, layers).tolist() == [-math.inf] * 3


def test_the_certificate_goes_below_the_smallest_float():
    x, layers = rank_collapse.random_network(0, L=7, scale=0.01).values()
    bound = log_diameter_bound(x, layers)
    assert bound.isfinite().all() and bound[-1] < -1000 * math.log(10)
    batch = log_diameter_bound(torch.stack([x, 2 * x]), layers)
    assert torch.allclose(batch[:, 0], bound, rtol=1e-12)
    double = log_diameter_bound(2 * x, layers)
    assert torch.allclose(batch[:, 1], double, rtol=1e-12)


# --- what users' own tokens must not do to the theorems


def cast(layer, dtype):
    return layer._replace(
        **{
            name: None if w is None else w.to(dtype)
            for name, w in layer._asdict().items()
        }
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("seed", range(3))
def test_rounding_refutes_no_contraction(dtype, seed):
    """A large shared row, or a constant feature: a skip is refuted all the same."""
    x, layer = rank_collapse.random_layer(seed).values()
    layer = cast(layer, dtype)
    row = 3 * x[0]
    constant = x.clone()
    constant[:, 0] = 0.1
    made = [row + 1e-2 * x, row + 1e-4 * x, constant]
    for x in made:
        assert rank_collapse.contraction(x.to(dtype), layer).ok
    for x in made[:2]:
        assert not rank_collapse.contraction.broken("skip", x.to(dtype), layer).ok


def test_the_cube_after_a_silent_layer():
    """All tokens equal after a layer: zero is at most zero."""
    x, layers = rank_collapse.random_network().values()
    silent = layers[0]._replace(w_v=0 * layers[0].w_v)
    assert rank_collapse.cube(x, [silent, *layers]).ok


@pytest.mark.bad_input
def test_what_the_cube_needs():
    x, layers = rank_collapse.random_network().values()
    same = x[:1].expand(4, -1)
    no_queries = [layer._replace(w_q=0 * layer.w_q) for layer in layers]
    no_values = [layer._replace(w_v=0 * layer.w_v) for layer in layers]
    for silent in (no_queries, no_values):
        with pytest.raises(ValueError, match="layers: .* needs c > 0"):
            rank_collapse.cube(x, silent)
    for equal in (same, x[:1]):
        with pytest.raises(ValueError, match="x: all tokens are equal"):
            rank_collapse.cube(equal, layers)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "name",
    ("contraction", "cubic_law", "half", "half_two", "one_layer")
    + ("rows_of_residual", "sharp", "cubic_bound", "frozen"),
)
def test_theorems_take_one_sequence_and_no_batch(name):
    x, layers = rank_collapse.random_network(h=1).values()
    given = layers if name in ("cubic_bound", "frozen") else layers[0]
    with pytest.raises(ValueError, match=r"x must be \(n, d\), got \(2, 6, 5\)"):
        getattr(rank_collapse, name)(torch.stack([x, x]), given)


@pytest.mark.bad_input
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_few_digits_are_refused(dtype):
    x, layers = rank_collapse.random_network().values()
    x = x.to(dtype)
    layers = [cast(layer, dtype) for layer in layers]
    for run, network in [
        (log_diameter_bound, layers),
        (rank_collapse.cube, layers),
        (rank_collapse.contraction, layers[0]),
    ]:
        with pytest.raises(ValueError, match="cast .* to float32 or float64"):
            run(x, network)


def test_a_constant_below_the_lower_bound_is_noticed(monkeypatch):
    """m = 10: the family needs at least 3 / (8 ln 19)."""

    def too_small(m, strength, **_):
        return 0.01

    monkeypatch.setattr(rank_collapse, "family_constant", too_small)
    verdict = rank_collapse.family(10, 19)
    assert verdict.value == pytest.approx(100 * 3 / (8 * math.log(19)))


def test_what_an_entry_may_be_off_by():
    """64 eps = 2^-46 of the largest entry, which is 2."""
    x, y = torch.tensor([[[-2.0]], [[1.0]]], dtype=torch.float64)
    assert rank_collapse.rounding(x, y) == 2.0**-45


@pytest.mark.parametrize("L", [1, 2])
@pytest.mark.parametrize("t", [0.1, 7.0])
def test_live_attention_falls_with_the_cube(L, t):
    """Near equal tokens the residual after L layers has the power 3^L of the first."""
    made = rank_collapse.random_network(L=L, h=1, scale=1e-4)
    verdict = rank_collapse.frozen.broken("live", **made, t=t)
    assert verdict.value == pytest.approx(3**L - 1, abs=1e-3)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda x, first: {"t": 1.0}, "t must be positive and not 1, got 1.0"),
        (lambda x, first: {"t": 0.0}, "t must be positive and not 1, got 0.0"),
        (lambda x, first: {"x": x[:1].expand(8, -1)}, "x leaves a residual of .* size"),
        (lambda x, first: {"x": x + 1e7}, "x leaves a residual of .* 1e-06"),
        (
            lambda x, first: {"layers": [first, first._replace(w_v=0 * first.w_v)]},
            r"layers: layer 1 leaves a residual of 0e\+00 of its size",
        ),
        (
            lambda x, first: {"layers": [first._replace(w_q=0 * first.w_q)]},
            "layers: layer 0 leaves a residual of",
        ),
    ],
)
def test_a_slope_needs_a_residual(broken, words):
    x, layers = rank_collapse.random_network(0).values()
    objects = {"x": x, "layers": layers}
    with pytest.raises(ValueError, match=words):
        rank_collapse.frozen(**objects | broken(x, layers[0]))


@pytest.mark.bad_input
def test_live_attention_needs_a_residual_too():
    x, layers = rank_collapse.random_network(0).values()
    mute = [layers[0]._replace(w_v=0 * layers[0].w_v)]
    with pytest.raises(ValueError, match="layers: they leave no residual"):
        rank_collapse.frozen.broken("live", x, mute)


def test_hard_attention_is_frozen_while_it_sees_its_input():
    """The token below zero looks at itself and the others at the largest one, also
    where all are twice as far from their mean.
    """
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    x = torch.tensor([[-10.0], [20.0], [30.0], [30.0]], dtype=torch.float64)
    assert rank_collapse.frozen.broken("live", x, [Layer(*[one] * 4)], t=2.0).ok


def test_frozen_is_attained_by_two_tokens():
    """Two tokens of one feature: (2.27) is an equality."""
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    x = torch.tensor([[0.3], [1.0]], dtype=torch.float64)
    verdict = rank_collapse.frozen(x, [Layer(one, one, 0.7 * one, one)] * 3)
    assert verdict.ok and verdict.bound == 1e-9
