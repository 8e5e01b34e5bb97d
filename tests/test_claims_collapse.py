"""The claims of notebooks/path_decomposition/rank_collapse: each check, and its
control, on which the same function fails.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from attnlib import certify
from attnlib.attention import Layer, attention_matrix, forward, merged, random_layers
from attnlib.certify import at_most, relative_error
from attnlib.collapse import composite_norm, log_bound, log_residuals, residual

EPS = torch.finfo(torch.float64).eps


def network(seed=0, L=3, h=2, n=6, d=5, gain=0.5, scale=1.0, bias=True):
    g = torch.Generator().manual_seed(seed)
    layers = random_layers(L, h, d, 3, gain=gain, bias=bias, generator=g)
    return scale * torch.randn(n, d, dtype=torch.float64, generator=g), layers


def naive(x, layers, **how):
    """What plain floats see: the forward pass, then the residual."""
    states = [x] + [forward(x, layers[:l], **how) for l in range(1, len(layers) + 1)]
    return torch.stack([composite_norm(residual(y)).log() for y in states])


def square(w_qk, w_v):
    """A layer of one head with d_qk = d: W_QK / sqrt(d_qk) and W as given."""
    d = len(w_qk)
    return Layer(
        math.sqrt(d) * w_qk[None],
        torch.eye(d, dtype=w_qk.dtype)[None],
        w_v[None],
        torch.eye(d, dtype=w_qk.dtype)[None],
    )


def spread(x, layer):
    """The largest spread of a row of logits minus r, over rows and heads."""
    r = residual(x)
    e = (r @ layer.w_q) @ (r @ layer.w_k).mT / math.sqrt(layer.w_q.shape[-1])
    return float((e.amax(-1) - e.amin(-1)).max())


def g(y):
    return math.expm1(y) / y


def unit(layer):
    """|W_QK|_1 |W|_{1,inf} / sqrt(d_qk) of a layer with one head."""
    w_qk = (layer.w_q[0] @ layer.w_k[0].T).abs().sum(0).max() / math.sqrt(
        layer.w_q.shape[-1]
    )
    return float(w_qk * composite_norm(merged(layer)[0][0]))


def constant(x, layer):
    """The constant that one layer of one head needs: residual out / (unit * residual in
    cubed).
    """
    before, after = log_residuals(x, [layer]).tolist()
    return math.exp(after - 3 * before) / unit(layer)


# --- the toy


def toy(w, v, L=1):
    ones = torch.ones(1, 1, 1, dtype=torch.float64)
    return [Layer(w * ones, ones, v * ones, ones)] * L


def check_toy(a, w, v, *, L=4, bias=0.0):
    """The map a -> v a tanh(w a^2) against the network in units of ln r; tolerance
    1e-12 * 3^L, for errors are tripled.
    """
    x = a * torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    layers = [
        layer._replace(b_q=bias * torch.ones(1, 1, dtype=torch.float64))
        for layer in toy(w, v, L)
    ]
    got, wanted = log_residuals(x, layers), [a]
    for _ in range(L):
        wanted.append(v * wanted[-1] * math.tanh(w * wanted[-1] ** 2))
    off = got - math.log(2) / 2 - torch.tensor(wanted, dtype=torch.float64).log()
    return at_most(off.abs().max(), 1e-12 * 3**L)


@pytest.mark.claim("collapse.toy", role="check")
@pytest.mark.parametrize(
    ("a", "w", "v"), [(1.0, 1.0, 1.0), (100.0, 1e-6, 1.0), (0.1, 1e3, 1.1)]
)
def test_toy(a, w, v):
    assert check_toy(a, w, v).ok
    x = a * torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    gap = log_residuals(x, toy(w, v)) - log_bound(x, toy(w, v), version="printed")
    assert float(gap[1]) == pytest.approx(
        math.log(math.tanh(w * a * a) / (8 * w * a * a)), abs=1e-10
    )
    assert gap[1] <= math.log(1 / 8) + 8 * EPS  # a tanh of 0.01 is its argument to 3e-5


@pytest.mark.claim("collapse.toy", role="control")
def test_toy_with_a_bias_leaves_the_map():
    assert check_toy(1.0, 1.0, 1.0, bias=0.5).ok is False


@pytest.mark.claim("collapse.toy", role="witness")
def test_toy_by_hand():
    x = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    y = forward(x, toy(math.log(3) / 2, 1.0))
    assert y.flatten().tolist() == pytest.approx([0.5, -0.5], abs=1e-15)


# --- a softmax moves little


def check_spread(delta, *, linear=False, p_1=0.5, seed=None):
    """How far p leaves its limits: total variation and two-sided ratio, or the linear
    form (1 - D) s <= p <= (1 + 2 D) s.

    Without a seed the worst case of two tokens, s = (p_1, 1 - p_1); tolerance 32 eps.
    """
    if seed is None:
        r, e = (
            torch.tensor([p_1, 1 - p_1], dtype=torch.float64).log(),
            torch.tensor([delta, 0.0], dtype=torch.float64),
        )
    else:
        gen = torch.Generator().manual_seed(seed)
        r, e = torch.randn(2, 200, 7, dtype=torch.float64, generator=gen)
        e = e * delta / (e.amax(-1) - e.amin(-1))[:, None]
    s, p = torch.softmax(r, -1), torch.softmax(r + e, -1)
    if linear:
        off = torch.maximum(p - (1 + 2 * delta) * s, (1 - delta) * s - p).max()
    else:
        tv = (p - s).abs().sum(-1) / 2 - math.tanh(delta / 4)
        off = torch.maximum(
            torch.maximum(p - math.exp(delta) * s, math.exp(-delta) * s - p).max(),
            tv.max(),
        )
    return at_most(off, 32 * EPS)


@pytest.mark.claim("collapse.spread", role="check")
@pytest.mark.parametrize("delta", [0.01, 0.5, 1.256, 5.0, 30.0])
def test_spread(delta):
    assert check_spread(delta, seed=1).ok
    assert all(check_spread(delta, p_1=p).ok for p in (1e-9, 1e-3, 0.3, 0.999))
    assert delta > 1.256 or all(
        check_spread(delta, linear=True, p_1=p).ok for p in (1e-9, 1e-3, 0.3, 0.999)
    )


@pytest.mark.claim("collapse.spread", role="control")
def test_the_linear_form_ends_at_1_256():
    verdict = check_spread(1.3, linear=True, p_1=1e-3)
    assert verdict.ok is False and verdict.value > 5e-5


@pytest.mark.claim("collapse.spread", role="witness")
def test_the_total_variation_is_attained():
    """s = (1 / (1 + u), u / (1 + u)) with u = exp(D / 2): equality, to 4 eps."""
    for delta in (0.3, 1.256, 6.0):
        u = math.exp(delta / 2)
        p = math.exp(delta) / (math.exp(delta) + u)
        assert p - 1 / (1 + u) == pytest.approx(math.tanh(delta / 4), abs=4 * EPS)


# --- one layer


def check_one_layer(x, layers, *, skip=False):
    """The constant of the first layer over sqrt(g(2 D)), at most 1 + 1e-9; the worst
    over the draws.
    """
    worst = 0.0
    for one, layer in zip(x, layers):
        after = forward(one, [layer], skip=True) if skip else None
        used = (
            constant(one, layer)
            if after is None
            else math.exp(float(naive(one, [layer], skip=True).diff()[0]))
        )
        if skip:  # the same quotient, with the residual of X + SA(X)
            used = used / float(composite_norm(residual(one))) ** 2 / unit(layer)
        worst = max(worst, used / math.sqrt(g(2 * spread(one, layer))))
    return at_most(worst, 1 + 1e-9)


def draws(count, seed=0):
    """Networks of one head with spreads from 1e-3 to about 50."""
    gen, xs, layers = torch.Generator().manual_seed(seed), [], []
    for i in range(count):
        n, d, d_qk = (int(v) for v in torch.randint(2, 9, (3,), generator=gen))
        layer = random_layers(1, 1, d, d_qk, bias=i % 2 == 0, generator=gen)[0]
        x = torch.randn(n, d, dtype=torch.float64, generator=gen) + torch.randn(
            d, dtype=torch.float64, generator=gen
        )
        goal = 10 ** float(4.7 * torch.rand((), generator=gen) - 3)
        xs.append(x)
        layers.append(layer._replace(w_q=layer.w_q * goal / spread(x, layer)))
    return xs, layers


def ascended(seed, *, n=4, d=3, steps=150, most=None, grow=0.05):
    """Tokens and weights that gradient ascent has made as bad as it can: the constant,
    divided by sqrt(g(2 D)) if most is None, else by nothing with the spread held at
    most.
    """
    gen = torch.Generator().manual_seed(seed)
    r, w_qk, w, x = (
        torch.randn(*s, dtype=torch.float64, generator=gen).requires_grad_()
        for s in ((n, d), (d, d), (d, d), (d,))
    )
    optimiser = torch.optim.Adam([r, w_qk, w, x], lr=grow)

    def scaled():
        centred = r - r.mean(0)
        e = centred @ w_qk @ centred.T
        d_now = (e.amax(-1) - e.amin(-1)).max()
        limit = 1.0 if most is None else most
        return centred, w_qk * (limit / d_now.clamp_min(limit) if most else 1.0)

    def norm(y):
        return (y.abs().sum(-2).max() * y.abs().sum(-1).max()).sqrt()

    for _ in range(steps):
        centred, qk = scaled()
        logits = centred @ qk @ centred.T + (centred @ (qk.T @ x))[None]
        y = torch.softmax(logits, -1) @ centred @ w
        value = norm(y - y.mean(0)) / (
            qk.abs().sum(0).max() * norm(w) * norm(centred) ** 3
        )
        if most is None:
            e = centred @ qk @ centred.T
            wide = 2 * (e.amax(-1) - e.amin(-1)).max()
            value = value / (torch.expm1(wide) / wide).sqrt()
        optimiser.zero_grad()
        (-value.log()).backward()
        optimiser.step()
    with torch.no_grad():
        centred, qk = scaled()
        return (centred + x).detach(), square(qk.detach(), w.detach())


@pytest.mark.claim("collapse.one-layer", role="check")
def test_one_layer():
    assert check_one_layer(*draws(1000)).ok


@pytest.mark.claim("collapse.one-layer", role="check")
@pytest.mark.parametrize("seed", range(3))
def test_one_layer_against_gradient_ascent(seed):
    x, layer = ascended(seed)
    assert constant(x, layer) > 0.1  # the ascent found something
    assert check_one_layer([x], [layer]).ok


@pytest.mark.claim("collapse.one-layer", role="check")
def test_the_two_halves_of_the_bound():
    """|F|_1 and |F|_inf apart, F = (P - 1 s') R, for 300 draws; tolerance 1e-10 of the
    bound.
    """
    for x, layer in zip(*draws(300, seed=5)):
        r, p = (
            residual(x),
            attention_matrix(x, layer.w_q, layer.w_k, b_q=layer.b_q, b_k=layer.b_k)[0],
        )
        q = (
            x.mean(0) @ layer.w_q[0] + (0 if layer.b_q is None else layer.b_q[0])
        ) / math.sqrt(layer.w_q.shape[-1])
        f = p @ r - torch.softmax(r @ layer.w_k[0] @ q, -1) @ r
        w_qk = (layer.w_q[0] @ layer.w_k[0].T).abs().sum(0).max() / math.sqrt(
            layer.w_q.shape[-1]
        )
        one, inf, top = r.abs().sum(0).max(), r.abs().sum(1).max(), r.abs().max()
        assert f.abs().sum(1).max() <= w_qk * top * inf**2 * (1 + 1e-10) + 1e-13
        assert (
            f.abs().sum(0).max()
            <= g(2 * spread(x, layer)) * w_qk * one * inf * top * (1 + 1e-10) + 1e-13
        )


@pytest.mark.claim("collapse.one-layer", role="control")
def test_a_skip_breaks_the_one_layer_bound():
    verdict = check_one_layer(*draws(20), skip=True)
    assert verdict.ok is False and verdict.value > 10


@pytest.mark.claim("collapse.one-layer", role="witness")
def test_draws_cover_all_spreads():
    spreads = [spread(x, layer) for x, layer in zip(*draws(200))]
    assert min(spreads) < 2e-3 and max(spreads) > 30


# --- many heads, many layers


def check_multi_head(seed, *, skip=False, causal=False, h=3, **size):
    """ln r_l - ln u_l, the worst of l = 0..L of one network; at most 1e-9 times the
    logarithm.
    """
    x, layers = network(seed, h=h, **size)
    how = {
        "skip": skip,
        "mask": torch.ones(len(x), len(x)).tril().bool() if causal else None,
    }
    got, bound = (
        (naive(x, layers, **how) if skip or causal else log_residuals(x, layers)),
        log_bound(x, layers),
    )
    off = torch.where(
        bound == math.inf, -math.inf, (got - bound) / bound.abs().clamp(1, 1e300)
    )
    return at_most(off.max(), 1e-9)


@pytest.mark.claim("collapse.multi-head", role="check")
@pytest.mark.parametrize("scale", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("h", [1, 2, 4])
def test_multi_head(scale, h):
    for seed in range(20):
        assert check_multi_head(seed, h=h, L=4, scale=scale).ok


@pytest.mark.claim("collapse.multi-head", role="control")
def test_a_skip_stays_above_the_bound():
    verdict = check_multi_head(0, skip=True, gain=0.3, scale=0.1)
    assert verdict.ok is False and verdict.value > 0.5


@pytest.mark.claim("collapse.multi-head", role="control")
def test_a_causal_mask_stays_above_the_bound():
    """With a mask the attention matrix of equal tokens is not 1 s': the residual of the
    tokens is not cubed.
    """
    verdict = check_multi_head(0, causal=True, gain=0.3, scale=0.1)
    assert verdict.ok is False and verdict.value > 0.1


def check_g():
    """The bound of one layer of the toy in closed form, at spreads from 1e-9 to 500:
    error in ln u, at most 1e-9.
    """
    worst = 0.0
    for delta in (1e-9, 1e-3, 1.0, 30.0, 500.0):
        x = math.sqrt(delta / 2) * torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
        u = log_bound(x, toy(1.0, 2.0))
        ln_g = (
            delta
            if delta < 1e-8
            else 2 * delta + math.log(-math.expm1(-2 * delta)) - math.log(2 * delta)
        )
        worst = max(worst, abs(float(u[1] - 3 * u[0]) - math.log(2) - ln_g / 2))
    return at_most(worst, 1e-9)


@pytest.mark.claim("collapse.multi-head", role="witness")
def test_the_bound_of_the_toy():
    assert check_g().ok


@pytest.mark.claim("collapse.multi-head", role="witness")
def test_the_bound_is_often_useful():
    for seed in range(5):
        x, layers = network(seed, h=3, L=4, gain=0.3, scale=0.3)
        bound = log_bound(x, layers)
        assert (bound.diff() < 0).all() and log_residuals(x, layers).isfinite().all()


# --- the printed bound, and the family


def family(m, e, K):
    """Tokens and layer of the family, dense."""
    w, eye = math.log(e), torch.eye(m, dtype=torch.float64)
    x = torch.full((m,), K / w, dtype=torch.float64)
    x[0] += math.log(m - 1) / w
    return x + torch.cat([eye, -eye]), square(w * eye, eye)


def family_constant(m, e, tiny=Fraction(0)):
    """Exact up to one logarithm and one square root."""
    return math.sqrt(certify.family_residual(m, e, tiny)) / (math.log(e) * 2**1.5)


def check_bound(case):
    """ln of measured over printed, at most 1e-9; the case gives both, the worst of all
    layers.
    """
    measured, printed = case
    return at_most((torch.as_tensor(measured) - torch.as_tensor(printed)).max(), 1e-9)


def drawn(seed):
    """A network at the edge of both conditions: its scale is the largest that meets
    them.
    """
    x, layers = network(seed, h=1, L=4)
    w_qk = max(
        float((l.w_q[0] @ l.w_k[0].T).abs().sum(0).max()) / math.sqrt(3) for l in layers
    )
    r, beta = float(composite_norm(residual(x))), max(unit(l) for l in layers)
    x = x * min(math.sqrt(2.11 / w_qk), math.sqrt(1 / (4 * beta))) / r
    return log_residuals(x, layers), log_bound(x, layers, version="printed")


@pytest.mark.claim("collapse.bound", role="check")
def test_bound_under_the_spread_condition():
    assert all(check_bound(drawn(seed)).ok for seed in range(60))
    assert g(2 * 2.11) < 16


def counterexample():
    """The family at m = 30000: logarithms of the residual after the layer and of the
    printed bound.
    """
    square_norm, w = (
        certify.family_residual(30000, 750000, Fraction(1, 2**60)),
        math.log(750000),
    )
    return math.log(square_norm) / 2, math.log(4 * w * 2**1.5)


@pytest.mark.claim("collapse.bound", role="control")
def test_bound_without_a_spread_condition():
    assert check_bound(counterexample()).ok is False


@pytest.mark.claim("collapse.bound", role="counterexample")
def test_the_counterexample_in_fractions():
    """4 w |R|^3 squared is 128 w^2; w = ln 750000 < 13.528, since e > 2.71828182845 and
    2.71828182845^13.528 > 750000.
    """
    assert Fraction(271828182845, 10**11) ** 13528 > Fraction(750000) ** 1000
    assert (
        certify.family_residual(30000, 750000, Fraction(1, 2**60))
        > 128 * Fraction(13528, 1000) ** 2
    )
    assert family_constant(30000, 750000) == pytest.approx(4.1915, abs=1e-4)


@pytest.mark.claim("collapse.bound", role="witness")
def test_both_conditions_can_hold_with_a_collapse():
    measured, printed = drawn(3)
    assert measured[-1] < measured[0] - 30 and printed[-1] <= printed[0] + 1e-9


def check_family(m, e=None):
    """sqrt(m - 1) / (8 ln(2 m - 1)) against the constant that the family needs, in
    fractions.
    """
    return at_most(
        math.sqrt(m - 1) / (8 * math.log(2 * m - 1)),
        family_constant(m, 2 * m - 1 if e is None else e),
    )


@pytest.mark.claim("collapse.family", role="check")
@pytest.mark.parametrize("m", [8, 20, 200, 30000, 10**6, 10**9])
def test_family(m):
    assert check_family(m).ok


@pytest.mark.claim("collapse.family", role="control")
def test_family_with_a_small_spread():
    assert check_family(10**6, e=Fraction(11, 10)).ok is False


def check_dense_family(m=200, e=2780):
    """The family as a network against the four kinds of rows: relative, at most
    1e-9.
    """
    return at_most(abs(constant(*family(m, e, K=20)) / family_constant(m, e) - 1), 1e-9)


@pytest.mark.claim("collapse.family", role="witness")
def test_family_as_a_network():
    assert check_dense_family().ok and check_dense_family(20, 30).ok
    assert constant(*family(200, 2780, K=20)) == pytest.approx(0.553, abs=1e-3)


def check_size(constant_of, draws=400):
    """The constant that a layer needs over `constant_of(n, d)`, at most 1: random
    layers of every spread, and the family.
    """
    worst = 0.0
    for seed in range(draws):
        gen = torch.Generator().manual_seed(seed)
        n, d = (int(v) for v in torch.randint(2, 12, (2,), generator=gen))
        x, layers = network(
            seed,
            L=1,
            h=1,
            n=n,
            d=d,
            gain=10 ** (3 * float(torch.rand((), generator=gen)) - 1),
        )
        worst = max(worst, constant(x, layers[0]) / constant_of(n, d))
    for m, e in ((20, 30), (200, 2780)):
        worst = max(worst, constant(*family(m, e, K=20)) / constant_of(2 * m, m))
    return at_most(worst, 1)


@pytest.mark.claim("collapse.family", role="check")
def test_the_size_is_always_enough():
    assert check_size(lambda n, d: math.sqrt(min(n / 2, d))).ok


@pytest.mark.claim("collapse.family", role="control")
def test_one_half_is_not_always_enough():
    """The constant that the theorem has in the limit of small spreads fails on the
    family.
    """
    assert check_size(lambda n, d: 0.5).ok is False


# --- the cubic law, and one half


def check_cubic(scale, *, skip=False, seed=0):
    """The residual after one head minus its leading term, over (g(2 D) - 1) unit r^3:
    at most 1 + 1e-6.
    """
    x, layers = network(seed, L=1, h=1, scale=scale)
    layer, r = layers[0], residual(x)
    after = residual(forward(x, layers, skip=skip))
    lead = leading(x, layer)
    off = composite_norm(after - lead) - 64 * EPS * x.abs().max()
    return at_most(
        off / (unit(layer) * composite_norm(r) ** 3),
        (g(2 * spread(x, layer)) - 1) * (1 + 1e-6),
    )


def leading(x, layer):
    """sum_h R W_QK C_s W / sqrt(d_qk)."""
    r, root, total = residual(x), math.sqrt(layer.w_q.shape[-1]), 0
    for h, w in enumerate(merged(layer)[0]):
        q = x.mean(0) @ layer.w_q[h] + (0 if layer.b_q is None else layer.b_q[h])
        s = torch.softmax(r @ layer.w_k[h] @ q / root, -1)
        total = (
            total
            + (r @ layer.w_q[h])
            @ (r @ layer.w_k[h]).T
            / root
            @ (s[:, None] * (r - s @ r))
            @ w
        )
    return total - total.mean(0)


@pytest.mark.claim("collapse.cubic", role="check")
@pytest.mark.parametrize("scale", [0.03, 0.3, 1.0, 3.0])
def test_cubic(scale):
    assert all(check_cubic(scale, seed=seed).ok for seed in range(20))


@pytest.mark.claim("collapse.cubic", role="control")
def test_cubic_needs_no_skip():
    assert check_cubic(0.3, skip=True).ok is False


@pytest.mark.claim("collapse.cubic", role="witness")
def test_the_leading_term_leads_for_many_heads():
    x, layers = network(1, L=1, h=3, scale=0.01, bias=False)
    after = residual(forward(x, layers))
    assert (
        spread(x, layers[0]) < 1e-3
        and relative_error(leading(x, layers[0]), after) < 1e-3
    )
    deep = log_residuals(*network(1, L=6, h=3, gain=1.0))
    steps = deep.diff()
    assert (steps[1:] / steps[:-1] - 3)[-2:].abs().max() < 0.2


def check_sharp(delta):
    """The constant of the toy with spread delta against one half: equality, to delta^2
    / 24 + 1e-12.
    """
    x = math.sqrt(delta / 2) * torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    used = constant(x, toy(1.0, 1.0)[0])
    assert used == pytest.approx(math.tanh(delta / 2) / delta, rel=1e-12)
    return at_most(abs(used - 0.5), 1e-12)


@pytest.mark.claim("collapse.sharp", role="check")
def test_one_half_is_reached_in_the_limit():
    assert check_sharp(1e-6).ok
    for x, layer in zip(*draws(500, seed=2)):
        assert constant(x, layer) <= (g(2 * spread(x, layer)) - 0.5) * (1 + 1e-9)


@pytest.mark.claim("collapse.sharp", role="control")
def test_one_half_is_not_reached_at_spread_one():
    assert check_sharp(1.0).ok is False


@pytest.mark.claim("collapse.sharp", role="witness")
def test_the_toy_has_any_spread():
    for delta in (1e-6, 0.1, 3.0):
        x = math.sqrt(delta / 2) * torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
        assert spread(x, toy(1.0, 1.0)[0]) == pytest.approx(delta, rel=1e-12)


def check_half(x, layer):
    """The constant of one layer, at most 1/2."""
    return at_most(constant(x, layer), 0.5 * (1 + 1e-9))


@pytest.mark.claim("collapse.half", role="check")
def test_half_on_draws_and_under_ascent():
    for x, layer in zip(*draws(500, seed=3)):
        assert spread(x, layer) > 1.256 or check_half(x, layer).ok
    for seed in range(4):
        x, layer = ascended(seed, n=2 + seed, d=1 + seed, most=1.256)
        assert spread(x, layer) < 1.2561 and check_half(x, layer).ok


@pytest.mark.claim("collapse.half", role="control")
def test_half_is_exceeded_at_a_large_spread():
    assert check_half(*family(200, 2780, K=20)).ok is False


@pytest.mark.claim("collapse.half", role="witness")
def test_half_is_nearly_needed():
    x, layer = ascended(0, n=2, d=1, most=1.256)
    assert spread(x, layer) < 1.2561 and constant(x, layer) > 0.44


# --- the recursion


def check_recursion(*, plain=False, seed=0, L=5):
    """ln r of the recursion against 900 digits: at most 1e-8."""
    x, layers = network(seed, L=L, n=4, d=3, gain=0.7)
    nested = [
        tuple(None if w is None else w.tolist() for w in layer) for layer in layers
    ]
    wanted = torch.tensor(
        certify.log_residuals(x.tolist(), nested, digits=900), dtype=torch.float64
    )
    return at_most(
        ((naive if plain else log_residuals)(x, layers) - wanted).abs().max(), 1e-8
    )


@pytest.mark.claim("collapse.recursion", role="check")
@pytest.mark.parametrize("seed", range(5))
def test_recursion(seed):
    assert check_recursion(seed=seed).ok


@pytest.mark.claim("collapse.recursion", role="control")
def test_plain_floats_lose_the_residual():
    assert check_recursion(plain=True).ok is False


@pytest.mark.claim("collapse.recursion", role="witness")
def test_it_goes_below_the_smallest_float():
    got = log_residuals(*network(0, L=6, n=4, d=3, gain=0.7))
    assert got.isfinite().all() and got[-1] < -300 * math.log(10)


# --- frozen attention


def frozen(r, layers, matrices):
    """Residuals under fixed attention matrices: R <- sum_h J P_h R W_h."""
    out = [r]
    for layer, p in zip(layers, matrices, strict=True):
        out.append(residual((p @ out[-1] @ merged(layer)[0]).sum(-3)))
    return out


def check_frozen(t, *, live=False, seed=0):
    """How far the logarithm of the last residual moves when that of the input moves by
    ln t, over ln t: 1 within 1e-9.
    """
    x, layers = network(seed, L=3, d=5, scale=0.5)
    matrices = [forward(x, layers, return_attention=True)[1][0]] * len(layers)
    last = []
    for factor in (1.0, t):
        r = factor * residual(x)
        logs = (
            log_residuals(x.mean(-2) + r, layers)
            if live
            else torch.stack(
                [composite_norm(y) for y in frozen(r, layers, matrices)]
            ).log()
        )
        last.append(float(logs[-1]))
    return at_most(abs((last[1] - last[0]) / math.log(t) - 1), 1e-9)


@pytest.mark.claim("collapse.frozen", role="check")
@pytest.mark.parametrize("t", [0.1, 1e-3, 7.0])
def test_frozen_attention_is_linear(t):
    assert check_frozen(t).ok


@pytest.mark.claim("collapse.frozen", role="check")
@pytest.mark.parametrize("seed", range(20))
def test_the_forward_pass_with_frozen_attention_has_these_residuals(seed):
    """X <- sum_h P_h (X W_h + 1 b_h') + 1 b_O', biases and shared row included, has the
    residuals of (2.15); 1e3 eps.
    """
    x, layers = network(seed, L=3)
    matrices = [forward(x, layers, return_attention=True)[1][0]] * len(layers)
    y, wanted = x, frozen(residual(x), layers, matrices)
    for layer, p, r in zip(layers, matrices, wanted[1:], strict=True):
        y = (p @ (y @ layer.w_v + layer.b_v.unsqueeze(-2)) @ layer.w_o).sum(
            -3
        ) + layer.b_o
        assert at_most(
            (residual(y) - r).abs().max(), 1e3 * EPS * float(y.abs().max())
        ).ok


@pytest.mark.claim("collapse.frozen", role="check")
@pytest.mark.parametrize("seed", range(20))
def test_one_frozen_head_falls_exponentially_at_most(seed):
    """|J P R W|_F >= sigma tau |R|_F, sigma by an orthonormal basis of the vectors of
    mean zero; tolerance 1e3 eps.
    """
    x, layers = network(seed, L=4, h=1, n=5, d=3)
    matrices = [forward(x, layers, return_attention=True)[1][0]] * len(layers)
    basis = torch.linalg.svd(torch.eye(5, dtype=torch.float64) - 0.2).U[:, :4]
    low = torch.linalg.svdvals(basis.T @ matrices[0][0] @ basis)[-1]
    states = frozen(residual(x), layers, matrices)
    for before, after, layer in zip(states, states[1:], layers, strict=False):
        bound = low * torch.linalg.svdvals(merged(layer)[0][0])[-1] * before.norm()
        assert after.norm() >= bound * (1 - 1e3 * EPS)


@pytest.mark.claim("collapse.frozen", role="control")
def test_live_attention_is_not_linear():
    verdict = check_frozen(0.1, live=True)
    assert verdict.ok is False and verdict.value > 20  # the slope is near 27, not 1


@pytest.mark.claim("collapse.frozen", role="witness")
def test_frozen_and_causal_stay_where_live_attention_collapses():
    x, layers = network(0, L=5, h=2, n=8, d=16, gain=1.0, bias=False)
    matrices = [forward(x, layers, return_attention=True)[1][0]] * 5
    kept = composite_norm(frozen(residual(x), layers, matrices)[-1])
    causal = composite_norm(
        residual(forward(x, layers, mask=torch.ones(8, 8).tril().bool()))
    )
    live = log_residuals(x, layers)[-1].exp()
    assert kept > 1e-4 and causal > 1e-4 and live < 1e-8, (kept, causal, live)
