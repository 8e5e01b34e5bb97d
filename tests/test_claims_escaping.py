"""The claims of notebooks/path_decomposition/escaping_collapse: each check, and its
control, on which the same function fails.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from attnlib.attention import (
    Layer,
    Mlp,
    Norm,
    attention_matrix,
    feed_forward,
    forward,
    layer_norm,
    merged,
    random_layers,
)
from attnlib.certify import at_most
from attnlib.collapse import composite_norm, residual

double = torch.float64
EPS = torch.finfo(double).eps
ONE = torch.ones(1, 1, dtype=double)


def tokens(*rows):
    return torch.tensor(rows, dtype=double)


def gen(seed):
    return torch.Generator().manual_seed(seed)


def diameter(x):
    return (x[..., :, None, :] - x[..., None, :, :]).norm(dim=-1).amax((-2, -1))


def strengths(layer):
    """v_h and omega_h."""
    v = torch.linalg.matrix_norm(merged(layer)[0], 2)
    return v, torch.linalg.matrix_norm(layer.w_q @ layer.w_k.mT, 2) / math.sqrt(
        layer.w_q.shape[-1]
    )


def toy(w, v):
    """Logits w X X', value weight v, d = 1."""
    return Layer(w * ONE[None], ONE[None], v * ONE[None], ONE[None])


def causal(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


# --- skips


def check_silent(seed=0, *, value=0.0, mask=None, L=5):
    """How far the residual moves in L layers with skips and value weights scaled by
    value; tolerance 320 L eps.
    """
    layers = [
        l._replace(w_v=value * l.w_v)
        for l in random_layers(L, 3, 5, 4, bias=True, generator=gen(seed))
    ]
    x = torch.randn(6, 5, dtype=double, generator=gen(seed + 100))
    moved = residual(forward(x, layers, skip=True, mask=mask)) - residual(x)
    return at_most(moved.abs().max(), 320 * L * EPS)


@pytest.mark.claim("escaping.silent", role="check")
@pytest.mark.parametrize("seed", range(5))
def test_silent_heads_leave_the_residual(seed):
    assert check_silent(seed).ok and check_silent(seed, mask=causal(6)).ok


@pytest.mark.claim("escaping.silent", role="control")
def test_heads_that_speak_move_it():
    assert check_silent(value=0.1).ok is False


@pytest.mark.claim("escaping.silent", role="witness")
def test_silent_heads_still_attend_and_add_a_row():
    layer = random_layers(1, 3, 5, 4, bias=True, generator=gen(0))[0]
    layer, x = (
        layer._replace(w_v=0 * layer.w_v),
        torch.randn(6, 5, dtype=double, generator=gen(1)),
    )
    y, (p,) = forward(x, [layer], skip=True, return_attention=True)
    assert (
        (y - x).norm() > 1
        and (p - 1 / 6).abs().max() > 0.1
        and composite_norm(residual(x)) > 1
    )


def check_skip(seeds=100, *, skip=True, masked=False, factor=1.0):
    """How far the diameter leaves (1 - c) delta and (1 + c) delta, in units of delta;
    tolerance 1e-12.
    """
    worst = -math.inf
    for seed in range(seeds):
        layer = random_layers(
            1, 1 + seed % 3, 4, 3, gain=0.5, bias=True, generator=gen(seed)
        )[0]
        x = 10 ** (seed / seeds * 2 - 1) * torch.randn(
            5, 4, dtype=double, generator=gen(seed + 1000)
        )
        v, w = strengths(layer)
        c = float(
            v.sum()
            if masked
            else factor * (v * torch.tanh(w * diameter(x) ** 2 / 4)).sum()
        )
        ratio = float(
            diameter(forward(x, [layer], skip=skip, mask=causal(5) if masked else None))
            / diameter(x)
        )
        worst = max(worst, ratio - 1 - c, 1 - c - ratio)
    return at_most(worst, 1e-12)


@pytest.mark.claim("escaping.skip", role="check")
@pytest.mark.parametrize("masked", [False, True])
def test_a_skip_keeps_the_diameter(masked):
    assert check_skip(masked=masked).ok


def check_attained(a, w, v):
    """The diameter of the two tokens against (1 + c) delta for v > 0, (1 - c) delta for
    v < 0: relative, 16 eps.
    """
    after = diameter(forward(a * tokens([1], [-1]), [toy(w, v)], skip=True))
    return at_most(abs(after / (2 * a) / (1 + v * math.tanh(w * a * a)) - 1), 16 * EPS)


@pytest.mark.claim("escaping.skip", role="check")
@pytest.mark.parametrize("v", [0.7, -0.7])
def test_both_sides_are_attained(v):
    assert all(
        check_attained(a, w, v).ok for a, w in ((1.0, 1.0), (0.3, 2.0), (2.0, 0.4))
    )


@pytest.mark.claim("escaping.skip", role="control")
def test_without_the_skip_the_diameter_leaves_the_bounds():
    assert check_skip(skip=False).ok is False
    assert check_skip(skip=False, masked=True).ok is False
    assert (
        check_skip(factor=0.01).ok is False
    )  # and the constant is not loose by a hundred


@pytest.mark.claim("escaping.skip", role="witness")
def test_c_is_often_below_one():
    layer, x = (
        random_layers(1, 2, 4, 3, gain=0.5, generator=gen(0))[0],
        0.3 * torch.randn(5, 4, dtype=double, generator=gen(1)),
    )
    v, w = strengths(layer)
    assert 0 < (v * torch.tanh(w * diameter(x) ** 2 / 4)).sum() < 1


def check_depth(seed=0, *, skip=True, s=0.5, L=200):
    """The largest of (1 / delta_L^2) / its bound, over the layers of one network with
    sum v_h = s; at most 1 + 1e-9.
    """
    x = torch.randn(5, 4, dtype=double, generator=gen(seed))
    bound, worst = 1 / float(diameter(x)) ** 2, 0.0
    for layer in random_layers(L, 2, 4, 3, generator=gen(seed + 50)):
        v, w = strengths(layer)
        layer, v = layer._replace(w_v=layer.w_v * s / v.sum()), v * s / v.sum()
        bound += (2 - s) / (1 - s) ** 2 * float((v * w).sum()) / 4
        x = forward(x, [layer], skip=skip)
        worst = max(worst, 1 / float(diameter(x)) ** 2 / bound)
        if worst > 1e9:
            break
    return at_most(worst, 1 + 1e-9)


@pytest.mark.claim("escaping.depth", role="check")
@pytest.mark.parametrize("s", [0.1, 0.5, 0.9])
def test_depth_with_skips(s):
    assert all(check_depth(seed, s=s).ok for seed in range(3))


def against(v, w, L):
    """The two tokens with a skip: half distances."""
    a = [1.0]
    for _ in range(L):
        a.append(a[-1] * (1 + v * math.tanh(w * a[-1] ** 2)))
    return a


@pytest.mark.claim("escaping.depth", role="check")
def test_two_tokens_fall_like_the_root():
    x = tokens([1], [-1])
    assert float(forward(x, [toy(1.0, -0.5)] * 50, skip=True)[0]) == pytest.approx(
        against(-0.5, 1.0, 50)[-1], rel=1e-12
    )
    for s, w in ((0.1, 1.0), (0.5, 3.0), (0.9, 0.2)):
        a = against(-s, w, 20000)
        assert a[-1] * math.sqrt(2 * s * w * 20000) == pytest.approx(1, abs=0.01)
        rate = (2 - s) / (1 - s) ** 2 * s * w / 4
        assert all((2 * v) ** -2 <= 1 / 4 + rate * l + 1e-9 for l, v in enumerate(a))


@pytest.mark.claim("escaping.depth", role="control")
def test_depth_without_skips():
    verdict = check_depth(skip=False)
    assert verdict.ok is False and verdict.value > 1e9


@pytest.mark.claim("escaping.depth", role="witness")
def test_the_bound_is_within_a_small_factor_of_the_two_tokens():
    s = 0.1  # the constant (2 - s) / (1 - s)^2 tends to 2, which is exact
    bound = (1 / 4 + (2 - s) / (1 - s) ** 2 * s * 10000 / 4) ** -0.5 / 2
    assert 0.9 < bound / against(-s, 1.0, 10000)[-1] < 1


# --- feed-forward layers


def random_mlp(seed, d=4, m=7, activation=torch.tanh):
    def draw(*s):
        return torch.randn(*s, dtype=double, generator=g)

    g = gen(seed)
    return Mlp(draw(d, m), draw(m, d), draw(m), draw(d), activation)


def norms(w):
    return float(w.abs().sum(0).max()), float(w.abs().sum(1).max())


def check_mlp(x, mlp, *, centre="row", slope=1.0):
    """Composite norm of f(X) - 1 f(x)' over lambda times that of X - 1 x'; about a row,
    or about both means.
    """
    (a, b), (c, d) = norms(mlp.w_1), norms(mlp.w_2)
    lam, y = slope * math.sqrt(a * b * c * d), feed_forward(x, mlp)
    if centre == "row":
        row = x.mean(0, keepdim=True)
        before, after = x - row, y - feed_forward(row, mlp)
    else:
        before, after = residual(x), residual(y)
    return at_most(composite_norm(after) / (lam * composite_norm(before)), 1 + 64 * EPS)


def spike(n=8):
    """1, -1 and zeros, with |t| as feed-forward layer."""
    return tokens([1], [-1], *([[0]] * (n - 2))), Mlp(ONE, ONE, activation=torch.abs)


@pytest.mark.claim("escaping.mlp", role="check")
@pytest.mark.parametrize("activation", [torch.tanh, torch.relu, torch.abs])
def test_a_feed_forward_layer_moves_the_residual_by_at_most_lambda(activation):
    for seed in range(100):
        x = 10 ** (seed / 50 - 1) * torch.randn(6, 4, dtype=double, generator=gen(seed))
        mlp = random_mlp(seed, activation=activation)
        assert check_mlp(x, mlp).ok
        assert check_mlp(x, mlp, centre="mean").value <= 2 * (1 - 1 / 6)


@pytest.mark.claim("escaping.mlp", role="check")
def test_lambda_is_attained():
    x, eye = (
        torch.randn(6, 4, dtype=double, generator=gen(0)),
        torch.eye(4, dtype=double),
    )
    assert check_mlp(
        x, Mlp(3 * eye, eye, activation=lambda t: t)
    ).value == pytest.approx(1, abs=16 * EPS)
    assert check_mlp(*spike()).value == 1


@pytest.mark.claim("escaping.mlp", role="control")
def test_about_the_means_lambda_is_too_small():
    assert check_mlp(*spike(), centre="mean").ok is False
    assert (
        check_mlp(
            torch.randn(6, 1, dtype=double, generator=gen(0)),
            Mlp(ONE, ONE, activation=lambda t: 3 * t),
        ).ok
        is False
    )


@pytest.mark.claim("escaping.mlp", role="witness")
def test_the_spike_in_fractions():
    x = [Fraction(v) for v in (1, -1, 0, 0, 0, 0, 0, 0)]

    def square(v):
        return sum(map(abs, v)) * max(
            map(abs, v)
        )  # d = 1: column sum times largest entry

    def about(v):
        return [e - sum(v) / len(v) for e in v]

    assert square(about(x)) == 2 and square(about([abs(e) for e in x])) == Fraction(
        9, 4
    )


def clip(kappa):
    """min(1, max(-1, kappa t))."""
    return Mlp(kappa * tokens([1, 1]), tokens([1], [-1]), tokens(1, -1), -ONE[0])


def check_clip(kappa, *, L=12):
    """How far the two tokens are from 1 and -1 after L layers; tolerance 8 eps."""
    w = math.log(3) / 2
    y = forward(tokens([1], [-1]), [toy(w, 1.0)] * L, mlps=[clip(kappa)] * L)
    return at_most((y - tokens([1], [-1])).abs().max(), 8 * EPS)


@pytest.mark.claim("escaping.clip", role="check")
@pytest.mark.parametrize("kappa", [2.0 + 1e-12, 2.5, 100.0])
def test_a_clip_holds_tokens_apart(kappa):
    assert check_clip(kappa).ok
    t = torch.linspace(-2, 2, 41, dtype=double)[:, None]
    assert (
        feed_forward(t, clip(kappa)) - (kappa * t).clamp(-1, 1)
    ).abs().max() <= 8 * kappa * EPS


@pytest.mark.claim("escaping.clip", role="check")
def test_the_threshold_in_fractions_and_the_cube_below_it():
    """e^2w = 3: P = (3 1; 1 3) / 4, so the layer halves exactly; below the threshold a'
    <= kappa w a^3.
    """
    state = [Fraction(1), Fraction(-1)]
    for _ in range(40):
        mixed = [
            Fraction(3, 4) * state[i] + Fraction(1, 4) * state[1 - i] for i in range(2)
        ]
        state = [max(Fraction(-1), min(Fraction(1), 2 * t)) for t in mixed]
    assert state == [1, -1]
    a, w, kappa = 1.0, math.log(3) / 2, 1.9
    for _ in range(6):
        after = kappa * a * math.tanh(w * a * a)
        assert after < a and after <= kappa * w * a**3
        a = after
    assert a < 1e-6


@pytest.mark.claim("escaping.clip", role="control")
@pytest.mark.parametrize("kappa", [1.0, 1.9])
def test_a_clip_that_is_too_flat(kappa):
    assert check_clip(kappa).ok is False


@pytest.mark.claim("escaping.clip", role="witness")
def test_the_clip_is_not_steep():
    (a, b), (c, d) = norms(clip(2.0).w_1), norms(clip(2.0).w_2)
    assert math.sqrt(a * b * c * d) == pytest.approx(4)


# --- LayerNorm

THREE = tokens([1, -1], [2, -2], [-1, 1])


def check_side(x, *, gain=None, bias=None, side="left", eps=0.0):
    """Misfit of LayerNorm and its factors; on the right, of the best affine map X M + 1
    b'. At most 1e-12.
    """
    n, d = x.shape
    y = layer_norm(x, Norm(gain, bias, eps))
    if side == "left":
        c = torch.eye(d, dtype=double) - 1 / d
        left = torch.diag(1 / ((x @ c).square().mean(1) + eps).sqrt())
        right = c if gain is None else c @ torch.diag(gain)
        fit = left @ x @ right + (0 if bias is None else bias)
    else:
        fit = torch.cat([x, torch.ones(n, 1, dtype=double)], 1)
        fit = fit @ (torch.linalg.pinv(fit) @ y)
    return at_most((fit - y).norm(), 1e-12)


@pytest.mark.claim("escaping.norm-side", role="check")
@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.5])
def test_layer_norm_has_a_factor_on_the_left(eps):
    for seed in range(20):
        x, gain, bias = (
            torch.randn(*s, dtype=double, generator=gen(seed + i))
            for i, s in enumerate(((6, 4), (4,), (4,)))
        )
        assert check_side(x, gain=gain, bias=bias, eps=eps).ok
    assert check_side(THREE).ok


@pytest.mark.claim("escaping.norm-side", role="control")
def test_no_factor_on_the_right():
    verdict = check_side(THREE, side="right")
    assert verdict.ok is False and verdict.value > 0.5


@pytest.mark.claim("escaping.norm-side", role="counterexample")
def test_three_tokens_in_fractions():
    """Standard deviations 1, 2, 1; an affine map that sends x and 2 x to one image
    sends everything on their line there.
    """
    rows = [(1, -1), (2, -2), (-1, 1)]
    normed = []
    for row in rows:
        mean = Fraction(sum(row), 2)
        variance = sum((e - mean) ** 2 for e in row) / 2
        root = math.isqrt(int(variance))
        assert root**2 == variance
        normed.append(tuple((e - mean) / root for e in row))
    assert normed == [(1, -1), (1, -1), (-1, 1)]
    # 3 x_1 - 2 x_2 = x_3, an affine combination: weights sum to one, so every affine
    # map keeps it
    assert all(3 * a - 2 * b == c for a, b, c in zip(*rows))
    assert not all(3 * a - 2 * b == c for a, b, c in zip(*normed))


@pytest.mark.claim("escaping.norm-side", role="witness")
def test_equal_deviations_need_no_left_factor():
    x = tokens([1, -1, 0], [0, 1, -1], [-1, 0, 1], [2, 0, 1])
    assert check_side(x, side="right").ok  # there the factor is one number


def check_norm(x, *, gain=None, eps=1e-5, length=torch.min):
    """Diameter after LayerNorm over the bound with m = length of |C x_i|; at most 1 +
    64 eps.
    """
    m = length((x - x.mean(1, keepdim=True)).norm(dim=1))
    top = 1 if gain is None else gain.abs().max()
    after = diameter(layer_norm(x, Norm(gain, None, eps)))
    return at_most(
        after * (m**2 / x.shape[1] + eps).sqrt() / (top * diameter(x)), 1 + 64 * EPS
    )


def clouds(count):
    """Tokens near zero, near a common row, and of very different lengths."""
    for seed in range(count):
        x = torch.randn(5, 4, dtype=double, generator=gen(seed))
        yield (
            x,
            0.1 * x + 3 * x[:1],
            x * 10 ** torch.randn(5, 1, dtype=double, generator=gen(seed + 1)),
        )[seed % 3]


@pytest.mark.claim("escaping.norm", role="check")
@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.5])
def test_layer_norm_spreads_by_at_most_a_deviation(eps):
    for seed, x in enumerate(clouds(300)):
        assert check_norm(x, eps=eps).ok
        assert check_norm(
            x, eps=eps, gain=torch.randn(4, dtype=double, generator=gen(seed))
        ).ok


@pytest.mark.claim("escaping.norm", role="check")
def test_equal_lengths_attain_it():
    x = tokens([1, -1, 0], [0, 1, -1], [-1, 0, 1])
    for eps in (0.0, 0.5):
        assert check_norm(x, eps=eps).value == pytest.approx(1, abs=16 * EPS)


@pytest.mark.claim("escaping.norm", role="control")
def test_the_largest_length_is_not_enough():
    assert check_norm(tokens([1, -1], [-0.1, 0.1]), length=torch.max).ok is False


@pytest.mark.claim("escaping.norm", role="witness")
def test_tokens_near_a_common_row_stay_near():
    x = 1e-6 * torch.randn(5, 4, dtype=double, generator=gen(0)) + tokens([1, 2, 3, 5])
    assert diameter(layer_norm(x, Norm())) < 1e-5


def plane(w):
    """Logits w/2 X X' in the plane, W = I."""
    eye = torch.eye(2, dtype=double)[None]
    return Layer(w * math.sqrt(2) / 2 * eye, eye, eye, eye)


def check_centre(a, w, eps, *, shift=0.0, L=3):
    """The map of a under attention and LayerNorm, in units of a; shift moves both
    tokens. At most 1e-9.
    """
    x = a * tokens([1, -1], [-1, 1]) + shift * tokens([1, -1])
    worst = 0.0
    for _ in range(L):
        x = forward(x, [plane(w)], norms=[(Norm(eps=eps), None)])
        t = math.tanh(w * a * a)
        a = t * a / math.sqrt(t * t * a * a + eps)
        worst = max(worst, float((x - a * tokens([1, -1], [-1, 1])).abs().max()) / a)
    return at_most(worst, 1e-9)


@pytest.mark.claim("escaping.norm-centre", role="check")
@pytest.mark.parametrize(
    ("a", "w", "eps"),
    [
        (1.0, 1.0, 0.0),
        (0.01, 0.3, 0.0),
        (1.0, 1.0, 1e-5),
        (0.05, 1.0, 1e-5),
        (0.3, 2.0, 0.1),
    ],
)
def test_around_zero(a, w, eps):
    assert check_centre(a, w, eps).ok


@pytest.mark.claim("escaping.norm-centre", role="check")
def test_the_threshold_and_the_cube():
    for w, eps in ((1.0, 1e-5), (3.0, 1e-12), (0.2, 0.1)):
        a = math.sqrt(0.99 * math.sqrt(eps) / w)
        for _ in range(6):
            q, t = w * a * a / math.sqrt(eps), math.tanh(w * a * a)
            a = t * a / math.sqrt(t * t * a * a + eps)
            assert w * a * a / math.sqrt(eps) <= q**3 * (1 + 64 * EPS)
    for _ in range(3):  # without eps the tokens are back at one in a single layer
        y = forward(
            1e-3 * tokens([1, -1], [-1, 1]), [plane(1.0)], norms=[(Norm(eps=0.0), None)]
        )
        assert (y - tokens([1, -1], [-1, 1])).abs().max() < 1e-9


@pytest.mark.claim("escaping.norm-centre", role="control")
def test_around_another_centre():
    assert check_centre(0.1, 1.0, 0.0, shift=1.0).ok is False


@pytest.mark.claim("escaping.norm-centre", role="witness")
def test_without_layer_norm_the_same_tokens_collapse():
    y = forward(0.5 * tokens([1, -1], [-1, 1]), [plane(1.0)] * 3)
    assert diameter(y) < 1e-3


# --- masks


def check_causal(seed=0, *, heads=1, mask=True, L=6):
    """Misfit of z' = sum_h p_h W_h' z over L layers with all biases, relative to z; at
    most 1e-10.
    """
    n, worst = 6, 0.0
    x = torch.randn(n, 4, dtype=double, generator=gen(seed))
    for layer in random_layers(L, heads, 4, 3, bias=True, generator=gen(seed + 10)):
        y, (p,) = forward(
            x, [layer], mask=causal(n) if mask else None, return_attention=True
        )
        z, w = x[1] - x[0], merged(layer)[0]
        key = layer.w_k.mT @ z  # (h, d_qk)
        q = ((x[1] @ layer.w_q + layer.b_q) * key).sum(-1) / math.sqrt(3)
        wanted = (torch.sigmoid(q)[:, None] * (z @ w)).sum(0)
        worst = max(worst, float((y[1] - y[0] - wanted).norm() / z.norm()))
        x = y
    return at_most(worst, 1e-10)


@pytest.mark.claim("escaping.causal", role="check")
@pytest.mark.parametrize("heads", [1, 3])
def test_the_first_two_tokens_under_a_causal_mask(heads):
    assert all(check_causal(seed, heads=heads).ok for seed in range(10))


def head(seed):
    """One head with W = I, a query bias, no value and output biases."""
    eye = torch.eye(4, dtype=double)[None]
    layer = random_layers(1, 1, 4, 4, bias=True, generator=gen(seed))[0]
    return layer._replace(w_v=eye, w_o=eye, b_v=None, b_o=None)


@pytest.mark.claim("escaping.causal", role="check")
@pytest.mark.parametrize("seed", range(5))
def test_the_rate_of_one_head(seed):
    layer, x = head(seed), 0.5 * torch.randn(6, 4, dtype=double, generator=gen(seed))
    first, z = x[0], [float((x[1] - x[0]).norm())]
    omega = float(torch.linalg.matrix_norm(layer.w_q[0] @ layer.w_k[0].T, 2)) / 2
    q = (
        omega * (float(first.norm()) + z[0])
        + float((layer.w_k[0] @ layer.b_q[0]).norm()) / 2
    ) * z[0]
    for l in range(1, 30):
        x = forward(x, [layer], mask=causal(6))
        assert (x[0] - first).norm() < 1e-13
        z.append(float((x[1] - x[0]).norm()))
        assert diameter(x) >= z[-1] >= (1 / (1 + math.exp(q))) ** l * z[0] * (1 - 1e-9)
    assert z[-1] / z[-2] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.claim("escaping.causal", role="control")
def test_without_a_mask_it_is_another_map():
    assert check_causal(mask=False).ok is False


@pytest.mark.claim("escaping.causal", role="witness")
def test_without_a_mask_the_same_head_cubes():
    x = 0.3 * torch.randn(6, 4, dtype=double, generator=gen(2))
    with_mask, without = (
        diameter(forward(x, [head(2)] * 4, mask=m)) for m in (causal(6), None)
    )
    assert with_mask > 1e-3 and without < 1e-9


def check_uniform(n=6, L=7, *, own=1):
    """Entries of P^L that differ from (4.9), in fractions; own: the weight of a token
    on itself before row i is divided.
    """
    c, state = math.comb, [[Fraction(i == j) for j in range(n)] for i in range(n)]
    for _ in range(L):
        state = [
            [
                (sum(row[j] for row in state[: i - 1]) + own * state[i - 1][j])
                / (i - 1 + own)
                for j in range(n)
            ]
            for i in range(1, n + 1)
        ]

    def entry(i, j):
        return sum(
            (-1) ** (k - j) * c(i - 1, k - 1) * c(k - 1, j - 1) * Fraction(1, k**L)
            for k in range(j, i + 1)
        )

    return at_most(
        sum(
            state[i - 1][j - 1] != entry(i, j)
            for i in range(1, n + 1)
            for j in range(1, n + 1)
        ),
        0,
    )


@pytest.mark.claim("escaping.uniform", role="check")
@pytest.mark.parametrize(("n", "L"), [(1, 3), (2, 1), (6, 0), (6, 7), (12, 20)])
def test_uniform_causal_attention(n, L):
    assert check_uniform(n, L).ok


@pytest.mark.claim("escaping.uniform", role="check")
def test_tokens_line_up_behind_the_first():
    zero, eye = torch.zeros(1, 3, 3, dtype=double), torch.eye(3, dtype=double)[None]
    x = torch.randn(7, 3, dtype=double, generator=gen(0))
    (p,) = attention_matrix(x, zero, zero, mask=causal(7))
    assert (
        torch.linalg.eigvals(p).real.sort(descending=True).values
        - 1 / torch.arange(1, 8, dtype=double)
    ).abs().max() < 1e-10
    y = forward(x, [Layer(zero, zero, eye, eye)] * 30, mask=causal(7))
    line = x[:1] + 2.0**-30 * torch.arange(7, dtype=double)[:, None] * (x[1] - x[0])
    assert (y - line).abs().max() < 500 * 3.0**-30


@pytest.mark.claim("escaping.uniform", role="control")
def test_unequal_logits_do_not_fit():
    assert check_uniform(own=2).ok is False  # every token has ln 2 more for itself


@pytest.mark.claim("escaping.uniform", role="witness")
def test_three_tokens_by_hand():
    """P has the rows (1, 0, 0), (1/2, 1/2, 0), (1/3, 1/3, 1/3); P^2 has 11/18, 5/18,
    1/9 below.
    """
    rows = [[Fraction(1)], [Fraction(1, 2)] * 2, [Fraction(1, 3)] * 3]
    square = [sum(rows[2][k] * rows[k][j] for k in range(j, 3)) for j in range(3)]
    assert square == [Fraction(11, 18), Fraction(5, 18), Fraction(1, 9)]
