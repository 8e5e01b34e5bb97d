"""The claims of the page `Escaping collapse`, and the certificate of Theorem 4.2."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnbook.theorems.paths import error, rounding
from attnbook.theorems.rank_collapse import causal_mask, quarter_sum
from attnlib import certify, collapse
from attnlib._blocks import check_blocks, check_norm
from attnlib._require import is_a, matches, numbers, one_of, require, sizes, tokens
from attnlib.attention import (
    Encoder,
    Layer,
    Mlp,
    Norm,
    _refuse_parts,
    attention_matrix,
    check_network,
    feed_forward,
    forward,
    layer_norm,
    merged,
    random_layers,
)
from attnlib.certify import Verdict, at_most
from attnlib.collapse import log_diameter_bound, residual

double = torch.float64
HALF_LOG_3 = math.log(3) / 2  # tanh of it is a half


# --- what the theorems accept, and lengths


def one_sequence(x: Tensor) -> None:
    """Refuse a batch, no token, and a dtype with too few digits."""
    tokens(x)
    got = tuple(x.shape)
    require(x.dim() == 2, f"x must be one sequence (n, d), not a batch, got {got}")
    rounding(x)


def diameter(x: Tensor) -> float:
    """The largest distance of two tokens (rows) of one sequence."""
    one_sequence(x)
    return float(collapse.diameter(x))


def apart(x: Tensor) -> float:
    """The diameter of tokens that are not all equal."""
    delta = diameter(x)
    require(
        delta > 0,
        f"x must have two tokens that differ: the diameter of its {len(x)} is zero, "
        "and nothing is relative to it",
    )
    return delta


def longest(x: Tensor) -> float:
    """The length of the longest token."""
    return float(x.norm(dim=-1).max())


def positive(**given) -> None:
    """Refuse what is no finite number above zero."""
    numbers(**given)
    for name, value in given.items():
        require(value > 0, f"{name} must be above zero, got {value}")


def value_norms(layer: Layer) -> Tensor:
    """v_h, the spectral norms of the W_h, from triangular factors of width d_v."""
    first = torch.linalg.qr(layer.w_v).R
    second = torch.linalg.qr(layer.w_o.mT).R
    return torch.linalg.matrix_norm(first @ second.mT, 2)


def stacked_norm(layer: Layer) -> float:
    """|W_*|_2 for the matrices W_h of all heads, one below the other."""
    inner = layer.w_v.mT @ layer.w_v
    gram = (layer.w_o.mT @ inner @ layer.w_o).sum(0)  # W_*' W_*
    largest = torch.linalg.eigvalsh(gram)[-1]
    return math.sqrt(max(float(largest), 0.0))


# --- objects: what the tests run the theorems on


def draws(seed: int) -> tuple[torch.Generator, Callable[..., Tensor]]:
    """A generator, and what draws Gaussian numbers from it."""
    g = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, dtype=double, generator=g)

    return g, draw


def rows(*values) -> Tensor:
    """Tokens from their entries."""
    return torch.tensor(values, dtype=double)


def line_head(w: float, v: float) -> Layer:
    """One head on the line: logits w x_i x_j, value weight v."""
    one = torch.ones(1, 1, 1, dtype=double)
    return Layer(w * one, one, v * one, one)


def two_tokens(a=1.0, w=1.0, v=-0.3) -> dict:
    """The tokens a and -a, and a head on the line."""
    return {"x": rows([a], [-a]), "layer": line_head(w, v)}


def random_layer(seed=0, h=2, n=5, d=4, size=1.0, masked=False) -> dict:
    """Gaussian tokens times size, and a layer with all biases."""
    g, draw = draws(seed)
    (layer,) = random_layers(1, h, d, 3, gain=0.5, bias=True, dtype=double, generator=g)
    x = size * draw(n, d)
    return {"x": x, "layer": layer, "mask": causal_mask(x) if masked else None}


def silent_network(seed=0, value=0.0, L=5, masked=False) -> dict:
    """Layers with all biases whose value weights are multiplied by value."""
    g, draw = draws(seed)
    drawn = random_layers(L, 3, 5, 4, bias=True, dtype=double, generator=g)
    layers = [layer._replace(w_v=value * layer.w_v) for layer in drawn]
    x = draw(6, 5)
    return {"x": x, "layers": layers, "mask": causal_mask(x) if masked else None}


def weak_network(seed=0, s=0.5, L=200) -> dict:
    """Layers of two heads whose v_h add up to s."""
    g, draw = draws(seed)
    layers = []
    for layer in random_layers(L, 2, 4, 3, dtype=double, generator=g):
        factor = s / value_norms(layer).sum()
        layers.append(layer._replace(w_v=factor * layer.w_v))
    return {"x": draw(5, 4), "layers": layers}


def weak_pair(s=0.01, L=200) -> dict:
    """The tokens 1 and -1, and heads that work against the skip: v = -s."""
    return {"x": rows([1], [-1]), "layers": [line_head(1.0, -s)] * L}


# --- skips


SILENT = Case(silent_network)


@claim(
    "escaping.silent",
    cases=[SILENT, SILENT.but(masked=True), SILENT.but(seed=1, L=12)],
    controls=[SILENT.but(value=0.1)],
)
def silent(x, layers, *, mask=None) -> Verdict:
    """With skips and heads whose W_h are zero, no depth changes the residual.

    Measured: how far it moves, relative to its size.

    Args:
        x: (*batch, n, d), in each sequence two tokens that differ.
        layers: L Layers whose value weights are zero.
        mask: as in attention_matrix; True = may attend.

    Claim: escaping.silent
    Page: notebooks/path_decomposition/escaping_collapse
    """
    y = forward(x, layers, skip=True, mask=mask)
    differ = (x != x[..., :1, :]).flatten(-2).any(-1)
    require(differ.all(), "x must have two tokens that differ in each sequence")
    return at_most(error(residual(y), residual(x)), rounding(x))


PAIR = Case(two_tokens)
LAYER = Case(random_layer)


@claim(
    "escaping.skip",
    cases=[
        PAIR,
        LAYER,
        LAYER.but(seed=1, size=0.1),
        LAYER.but(seed=2, size=10.0, h=3),
        LAYER.but(masked=True),
        LAYER.but(seed=1, masked=True, h=3),
    ],
    broken={"no skip": {"_skip": False}, "c is halved": {"_share": 0.5}},
)
def skip_keeps(x, layer, *, mask=None, _skip=True, _share=1.0) -> Verdict:
    """A layer with skip takes the diameter delta to at least (1 - c_H) delta and at
    most (1 + c_H) delta.

    Measured: how far the new diameter leaves these bounds, in units of delta; 1e-12 is
    allowed (1e-4 in float32), and more for tokens longer than ten diameters.

    Args:
        x: (n, d), tokens that are not all equal; cut padding off first.
        layer: one Layer.
        mask: as in attention_matrix; True = may attend.

    Claim: escaping.skip
    Page: notebooks/path_decomposition/escaping_collapse
    """
    delta = apart(x)
    if mask is None:
        before, after = log_diameter_bound(x, [layer]).tolist()  # without the skip
        heads = math.exp(after - before)
    else:
        heads = float(value_norms(layer).sum())
    heads = _share * heads
    y = forward(x, [layer], skip=_skip, mask=mask)
    ratio = diameter(y) / delta
    length = max(longest(x), longest(y)) / delta
    spare = rounding(x) * max(1.0, length / 10)
    require(spare < 0.1, "x: its diameter is within the rounding of its longest token")
    return at_most(max(ratio - 1 - heads, 1 - heads - ratio), spare)


WEAK = Case(weak_network)


@claim(
    "escaping.depth",
    cases=[
        WEAK,
        WEAK.but(s=0.1),
        WEAK.but(s=0.9),
        WEAK.but(seed=1),
        Case(weak_pair),
    ],
    broken={"no skips": {"_skip": False}},
)
def depth(x, layers, *, _skip=True) -> Verdict:
    """If the v_h of each layer add up to at most s < 1, the diameter falls at most like
    one over the root of the depth.

    Measured: the largest of 1 / delta^2 over its bound (4.14), over all depths; cut at
    1e9.

    Args:
        x: (n, d), tokens that are not all equal.
        layers: L Layers; s is the largest of their sums.

    Claim: escaping.depth
    Page: notebooks/path_decomposition/escaping_collapse
    """
    bound = apart(x) ** -2
    check_network(x, layers)
    s = max(float(value_norms(layer).sum()) for layer in layers)
    require(s < 1, f"layers: the v_h of a layer add up to {s:.3g}, not below 1")
    worst = 0.0
    for layer in layers:
        bound += (2 - s) / (1 - s) ** 2 * quarter_sum(layer)
        x = forward(x, [layer], skip=_skip)
        delta = max(diameter(x), 1e-9)
        worst = max(worst, min(delta**-2 / bound, 1e9))
    return at_most(worst, 1 + 1e-9)


# --- feed-forward layers


def spike_and_fold(n=8) -> dict:
    """1, -1 and zeros, with |t| as feed-forward layer."""
    zeros = [[0.0]] * (n - 2)
    one = torch.ones(1, 1, dtype=double)
    return {
        "x": rows([1.0], [-1.0], *zeros),
        "mlp": Mlp(one, one, activation=torch.abs),
    }


def random_mlp(seed=0, activation=torch.tanh, size=1.0) -> dict:
    """Gaussian tokens times size and a feed-forward layer with biases."""
    _, draw = draws(seed)
    mlp = Mlp(draw(4, 7), draw(7, 4), draw(7), draw(4), activation)
    return {"x": size * draw(6, 4), "mlp": mlp}


def sum_norms(matrix: Tensor) -> Tensor:
    """(largest absolute column sum, largest absolute row sum)."""
    absolute = matrix.abs()
    return torch.stack([absolute.sum(-2).amax(-1), absolute.sum(-1).amax(-1)])


SPIKE = Case(spike_and_fold, called_with={"centre": "means"})
MLP = Case(random_mlp)


@claim(
    "escaping.mlp",
    cases=[
        SPIKE,
        SPIKE.but(centre="row"),
        MLP,
        MLP.but(activation=torch.relu, size=10.0),
        MLP.but(activation=torch.abs, size=0.1),
        MLP.but(activation=torch.abs, centre="means"),
    ],
    broken={"without 2 (1 - 1/n)": {"_allowance": False}},
)
def feed_forward_factor(x, mlp, *, centre="row", slope=1.0, _allowance=True) -> Verdict:
    """A feed-forward layer multiplies the residual about a row by at most lambda_p, and
    that about the means by at most 2 (1 - 1/n) lambda_p, in both sum norms.

    Measured: the larger of the two factors over its bound.

    Args:
        x: (n, d), tokens that are not all equal.
        mlp: Mlp with one hidden layer.
        centre: "row" compares with the image of the mean, "means" takes the mean of
            the tokens before and after.
        slope: Lipschitz constant of the activation; 1 for relu, tanh and abs.

    Claim: escaping.mlp
    Page: notebooks/path_decomposition/escaping_collapse
    """
    one_of(["row", "means"], centre=centre)
    numbers(slope=slope)
    apart(x)
    y = feed_forward(x, mlp)
    row = x.mean(0, keepdim=True)
    bound = slope * sum_norms(mlp.w_1) * sum_norms(mlp.w_2)
    after = y - feed_forward(row, mlp)
    if centre == "means":
        after = residual(y)
        if _allowance:
            bound = bound * 2 * (1 - 1 / len(x))
    factors = sum_norms(after) / sum_norms(x - row)
    share = torch.where(factors == 0, 0, factors / bound)  # also where 0 is allowed
    return at_most(share.max(), 1 + 64 * torch.finfo(x.dtype).eps)


def clip_layer(kappa: float) -> Mlp:
    """min(1, max(-1, kappa t)) as a feed-forward layer of two hidden units."""
    w_1 = kappa * rows([1, 1])
    return Mlp(w_1, rows([1], [-1]), rows(1, -1), rows(-1))


def slope_and_strength(kappa=2.5, w=HALF_LOG_3) -> dict:
    """The slope of a clip and the strength of attention."""
    return {"kappa": kappa, "w": w}


STEEP = Case(slope_and_strength)


@claim(
    "escaping.clip",
    cases=[STEEP, STEEP.but(kappa=2 + 1e-12), STEEP.but(kappa=100.0, w=0.1)],
    controls=[STEEP.but(kappa=1.9), STEEP.but(kappa=1.0)],
)
def clip(kappa: float, w: float, *, L: int = 12) -> Verdict:
    """A clip of slope kappa holds two tokens at 1 and -1 if kappa tanh(w) >= 1.

    Measured: how far the tokens are from 1 and -1 after L layers. That they collapse
    below the threshold is tested beside it.

    Claim: escaping.clip
    Page: notebooks/path_decomposition/escaping_collapse
    """
    positive(kappa=kappa, w=w)
    sizes(1, L=L)
    x = rows([1], [-1])
    y = forward(x, [line_head(w, 1.0)] * L, mlps=[clip_layer(kappa)] * L)
    return at_most((y - x).abs().max(), 1e-14)


# --- LayerNorm


def three_tokens() -> dict:
    """The tokens of the proof of Proposition 4.6, and a plain LayerNorm."""
    return {"x": rows([1, -1], [2, -2], [-1, 1]), "norm": Norm(eps=0.0)}


def equal_lengths(eps=0.0) -> dict:
    """Three tokens of equal length, whose entries have mean zero."""
    return {"x": rows([1, -1, 0], [0, 1, -1], [-1, 0, 1]), "norm": Norm(eps=eps)}


def random_tokens(seed=0, eps=1e-5, kind=0, gain=False) -> dict:
    """Tokens near zero, near a common row, or of unlike lengths; a LayerNorm."""
    _, draw = draws(seed)
    x = draw(6, 4)
    if kind == 1:
        x = 0.1 * x + 3 * x[:1]
    if kind == 2:
        x = x * 10 ** draw(6, 1)
    weights = draw(2, 4)
    return {"x": x, "norm": Norm(*weights, eps) if gain else Norm(eps=eps)}


def unlike_pair(short=0.1) -> dict:
    """Two opposite tokens, one of them short."""
    return {"x": rows([1, -1], [-short, short]), "norm": Norm()}


THREE = Case(three_tokens)
TOKENS = Case(random_tokens)


@claim(
    "escaping.norm-side",
    cases=[THREE, TOKENS, TOKENS.but(gain=True), TOKENS.but(eps=0.5, kind=2)],
    broken={"the best map on the right": {"_right": True}},
)
def norm_side(x, norm, *, _right=False) -> Verdict:
    """LayerNorm divides from the left: (4.9).

    Measured: the misfit of D^-1 X J_d diag(gain) + 1 bias'. The rounding of the longest
    token is allowed.

    Claim: escaping.norm-side
    Page: notebooks/path_decomposition/escaping_collapse
    """
    one_sequence(x)
    n, d = x.shape
    lengths = [norm_stretch(row, norm) * longest(row) for row in x.split(1)]
    spare = rounding(x) * max(1.0, max(lengths) / math.sqrt(d))
    require(spare < 0.1, "x: what LayerNorm leaves of a token is within its rounding")
    y = layer_norm(x, norm)
    if _right:
        affine = torch.cat([x, torch.ones(n, 1, dtype=x.dtype)], 1)
        fit = affine @ (torch.linalg.pinv(affine) @ y)
        return at_most((fit - y).norm(), spare)
    centring = torch.eye(d, dtype=x.dtype) - 1 / d
    deviations = ((x @ centring).square().mean(1) + norm.eps).sqrt()
    fit = torch.diag(1 / deviations) @ x @ centring
    fit = fit if norm.gain is None else fit * norm.gain
    fit = fit if norm.bias is None else fit + norm.bias
    return at_most((fit - y).norm(), spare)


def norm_stretch(x: Tensor, norm: Norm, *, length: Callable = torch.min) -> float:
    """The factor of (4.10): max |gain| / sqrt(m^2 / d + eps), m the least |J_d x_i|."""
    tokens(x)
    centred = x - x.mean(-1, keepdim=True)
    m = float(length(centred.norm(dim=-1)))
    require(
        m > 0 or norm.eps > 0,
        "norms: eps is 0, and a token or the mean token has equal entries: LayerNorm "
        "divides it by zero, and (4.10) needs m > 0",
    )
    largest = 1.0 if norm.gain is None else float(norm.gain.abs().max())
    return largest / math.sqrt(m**2 / x.shape[-1] + norm.eps)


UNLIKE = Case(unlike_pair)
EQUAL = Case(equal_lengths)
MIXED = [TOKENS.but(seed=s, kind=s % 3, gain=s % 2 == 1) for s in range(12)]


@claim(
    "escaping.norm",
    cases=[
        UNLIKE,
        *MIXED,
        TOKENS.but(kind=2, eps=0.0),
        TOKENS.but(kind=1, eps=0.5),
        EQUAL,
        EQUAL.but(eps=0.5),
    ],
    broken={"m the largest length": {"_length": torch.max}},
)
def norm_distances(x, norm, *, _length=torch.min) -> Verdict:
    """LayerNorm multiplies the diameter by at most max |gain| / sqrt(m^2 / d + eps).

    Measured: the diameter after it over this bound.

    Args:
        x: (n, d), tokens that are not all equal; none with equal entries if eps is
            zero.
        norm: Norm.

    Claim: escaping.norm
    Page: notebooks/path_decomposition/escaping_collapse
    """
    bound = apart(x) * norm_stretch(x, norm, length=_length)
    after = diameter(layer_norm(x, norm))
    share = after / bound if after else 0.0  # a gain of zero attains its bound zero
    return at_most(share, 1 + 64 * torch.finfo(x.dtype).eps)


def centred_pair(a=1.0, w=1.0, eps=0.0) -> dict:
    """Half distance, strength, eps."""
    return {"a": a, "w": w, "eps": eps}


AROUND_ZERO = Case(centred_pair)


@claim(
    "escaping.norm-centre",
    cases=[
        AROUND_ZERO,
        AROUND_ZERO.but(a=0.01, w=0.3),
        AROUND_ZERO.but(eps=1e-5),
        AROUND_ZERO.but(a=0.05, eps=1e-5),
        AROUND_ZERO.but(a=0.3, w=2.0, eps=0.1),
    ],
    broken={"around (1, -1)": {"_shift": 1.0}},
)
def around_zero(a: float, w: float, eps: float, *, L: int = 3, _shift=0.0) -> Verdict:
    """Under attention with W = I and LayerNorm the tokens +-a (1, -1) go by (4.11).

    Measured: the largest distance from (4.11) over L layers, in units of a; or by how
    much mu' exceeds mu^3, relatively, if that is more.

    Args:
        a: half distance.
        w: strength of the logits w/2 X X'.
        eps: that of LayerNorm, at least zero.
        L: layers.

    Claim: escaping.norm-centre
    Page: notebooks/path_decomposition/escaping_collapse
    """
    positive(a=a, w=w)
    numbers(eps=eps)
    sizes(1, L=L)
    eye = torch.eye(2, dtype=double)[None]
    head = Layer(w * math.sqrt(2) / 2 * eye, eye, eye, eye)  # logits w/2 X X', W = I
    both = rows([1, -1], [-1, 1])
    x = a * both + _shift * both[0]
    worst = 0.0
    for layer in range(1, L + 1):
        before = w * a * a
        t = math.tanh(before)
        require(
            min(before, t * a) > 1e-100,
            f"a: in layer {layer} the tokens are within 1e-100, too near for floats",
        )
        x = forward(x, [head], norms=[(Norm(eps=eps), None)])
        a = t * a / math.sqrt(t * t * a * a + eps)
        worst = max(worst, float((x - a * both).abs().max()) / a)
        cubes = eps * w * a * a / before**3  # mu' / mu^3
        worst = max(worst, cubes - 1)
    return at_most(worst, 1e-9)


# --- masks


def causal_network(seed=0, h=1, L=6) -> dict:
    """Six tokens and layers with all biases."""
    g, draw = draws(seed)
    layers = random_layers(L, h, 4, 3, bias=True, dtype=double, generator=g)
    return {"x": draw(6, 4), "layers": layers}


CAUSAL = Case(causal_network)


@claim(
    "escaping.causal",
    cases=[CAUSAL, CAUSAL.but(h=3), CAUSAL.but(seed=1), CAUSAL.but(seed=2, h=3)],
    broken={"no mask": {"_masked": False}},
)
def causal(x, layers, *, _masked=True) -> Verdict:
    """Under a causal mask the difference z of the first two tokens becomes
    sum_h sigma(q_h) W_h' z.

    Measured: the largest misfit over the layers, relative to |z|.

    Args:
        x: (n, d), float64, at least two tokens; the first two differ.
        layers: L Layers, any biases.

    Claim: escaping.causal
    Page: notebooks/path_decomposition/escaping_collapse
    """
    one_sequence(x)
    check_network(x, layers)
    require(x.dtype == double, f"x must be float64, got {x.dtype}: z gets small")
    require(len(x) > 1, "x must have at least two tokens, got one")
    require((x[1] != x[0]).any(), "x: its first two tokens must differ")
    mask = causal_mask(x) if _masked else None
    worst = 0.0
    for layer in layers:
        z = x[1] - x[0]
        if not z.any():
            break  # equal tokens stay equal
        query = x[1] @ layer.w_q
        query = query if layer.b_q is None else query + layer.b_q
        key = layer.w_k.mT @ z
        q = (query * key).sum(-1) / math.sqrt(layer.w_q.shape[-1])
        weights = torch.sigmoid(q)[:, None]
        wanted = (weights * (z @ merged(layer)[0])).sum(0)
        x = forward(x, [layer], mask=mask)
        worst = max(worst, float((x[1] - x[0] - wanted).norm() / z.norm()))
    return at_most(worst, 1e-10)


def tokens_and_depth(n=6, L=7) -> dict:
    """A number of tokens and of layers."""
    return {"n": n, "L": L}


def causal_rows(n: int, own: int) -> list[list[Fraction]]:
    """The attention of n tokens that hear all that they may alike, but themselves
    `own` times, in fractions.
    """
    x = torch.eye(n, dtype=double)
    logits = math.sqrt(n) * math.log(own) * x
    p = attention_matrix(x, logits, x, mask=causal_mask(x))
    found = []
    for row in p.tolist():
        found.append([Fraction(weight).limit_denominator(own * n) for weight in row])
    return found


def power_entry(i: int, j: int, L: int) -> Fraction:
    """(4.13): the entry (i, j) of P^L, counted from 1."""
    total = Fraction(0)
    for k in range(j, i + 1):
        ways = math.comb(i - 1, k - 1) * math.comb(k - 1, j - 1)
        total += (-1) ** (k - j) * ways * Fraction(1, k**L)
    return total


UNIFORM = Case(tokens_and_depth)


@claim(
    "escaping.uniform",
    cases=[UNIFORM, UNIFORM.but(n=1), UNIFORM.but(L=1), UNIFORM.but(n=12, L=20)],
    broken={"a token counts itself twice": {"_own": 2}},
)
def uniform(n: int, L: int, *, _own=1) -> Verdict:
    """Uniform causal attention to the power L is (4.13), a sum of binomials over k^L.

    Measured, in fractions: how many entries differ.

    Args:
        n: tokens.
        L: layers.

    Claim: escaping.uniform
    Page: notebooks/path_decomposition/escaping_collapse
    """
    sizes(1, n=n, L=L)
    power = certify.product(*[causal_rows(n, _own)] * L)
    wrong = 0
    for i in range(n):
        for j in range(n):
            wrong += power[i][j] != power_entry(i + 1, j + 1, L)
    return at_most(wrong, 0)


# --- one relative bound


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a layer under Theorem 4.2: what went in, what came out, and the
    three numbers of the bound.

    Args:
        name: "attention", "feed-forward" or "LayerNorm".
        before, after: relative diameters; after is infinite if the new mean token is
            zero.
        stretch: c, the most that the part does to a difference of two tokens.
        growth: G, what it does to the length of a token that all share.
        slip: C, how far the mean may leave its image, in diameters.
        skip: the part adds its input to its output.
        layer: its number in the network, from 1; None for a part by itself and for the
            last norm of an Encoder.
    """

    name: str
    before: float
    after: float
    stretch: float
    growth: float
    slip: float
    skip: bool
    layer: int | None = None

    def __str__(self) -> str:
        place = "" if self.layer is None else f"layer {self.layer}, "
        limits = f"floor {self.floor:.3g}, bound {self.bound:.3g}"
        return f"{place}{self.name}: {self.before:.3g} -> {self.after:.3g} ({limits})"

    @property
    def bound(self) -> float:
        """c rho / (G - C rho), or infinity where it says nothing."""
        left = self.growth - self.slip * self.before
        return self.stretch * self.before / left if left > 0 else math.inf

    @property
    def floor(self) -> float:
        """(2 - c) rho / (G + C rho) with a skip and c below 2, else 0."""
        if not self.skip or self.stretch >= 2:
            return 0.0
        most = self.growth + self.slip * self.before
        return (2 - self.stretch) * self.before / most if most > 0 else 0.0


def relative_diameter(x: Tensor) -> float:
    """The largest distance of two tokens over the length of the mean token; (n, d),
    cut padding off first.
    """
    found = _reached(x)
    require(
        found < math.inf,
        "x: the mean token is zero (up to rounding), so that nothing is shared and no "
        "diameter is relative to it",
    )
    return found


def _reached(x: Tensor) -> float:
    """The relative diameter, infinite if the mean token is zero up to rounding."""
    one_sequence(x)
    digits = torch.finfo(x.dtype)
    largest = float(x.abs().max())
    least = math.sqrt(digits.tiny) / digits.eps  # squares of its rounding are numbers
    require(
        largest == 0 or least < largest < 1 / least,
        f"x: its largest entry is {largest:.3g}, and lengths over- or underflow in "
        f"{x.dtype}: scale x",
    )
    size = float(x.mean(0).norm())
    if size <= len(x) * digits.eps * longest(x):
        return math.inf
    return diameter(x) / size


def row_distances(attention: Tensor) -> Tensor:
    """t_h: the largest total variation distance of two rows of each P_h."""
    return torch.cdist(attention, attention, p=1).amax((-2, -1)) / 2


def lean(attention: Tensor) -> Tensor:
    """How far the mean row of each P_h is from the uniform row, in total variation."""
    mean_row = attention.mean(-2)
    return (mean_row - 1 / attention.shape[-1]).abs().sum(-1) / 2


def heads_together(layer: Layer, factors: Tensor) -> float:
    """What the heads can make of differences up to factors, (4.3)."""
    stacked = stacked_norm(layer) * float(factors.norm())
    one_by_one = float((value_norms(layer) * factors).sum())
    return min(stacked, one_by_one)


def attention_part(
    x: Tensor,
    y: Tensor,
    attention: Tensor,
    layer: Layer,
    *,
    skip: bool,
    norm: Norm | None = None,
) -> Part:
    """The numbers of Theorem 4.2 for attention, behind a norm where one is given.

    Args:
        x, y: (n, d), the tokens before and after; cut padding off first.
        attention: (h, n, n), the P_h.
        layer: a Layer; only its values and outputs are read.
        skip: y has x as a summand.
        norm: the Norm in front of the attention, which the skip goes around.
    """
    before = relative_diameter(x)
    n = len(x)
    mean = x.mean(0)
    seen = mean
    stretch = 1.0
    leans = lean(attention)
    if norm is not None:
        stretch = norm_stretch(torch.cat([x, mean[None]]), norm)
        seen = layer_norm(mean[None], norm)[0]
        leans = torch.full_like(leans, 1 - 1 / n)
    shared = forward(seen[None], [layer])[0]  # a lone token hears itself
    shared = shared + mean if skip else shared
    return Part(
        "attention",
        before,
        _reached(y),
        float(skip) + stretch * heads_together(layer, row_distances(attention)),
        float(shared.norm() / mean.norm()),
        stretch * heads_together(layer, leans),
        skip,
    )


def token_part(
    name: str,
    x: Tensor,
    apply: Callable[[Tensor], Tensor],
    stretch: float,
    *,
    skip: bool,
) -> tuple[Part, Tensor]:
    """The numbers of Theorem 4.2 for a map of each token by itself, and its output.

    Args:
        name: of the part.
        x: (n, d).
        apply: the map, of tokens as rows, without its skip.
        stretch: a Lipschitz constant of it on the tokens and their mean.
        skip: the part adds its input to its output.
    """
    before = relative_diameter(x)
    mean = x.mean(0, keepdim=True)
    y = apply(x) + x if skip else apply(x)
    shared = apply(mean) + mean if skip else apply(mean)
    growth = float(shared.norm() / mean.norm())
    slip = (1 - 1 / len(x)) * stretch
    part = Part(name, before, _reached(y), float(skip) + stretch, growth, slip, skip)
    return part, y


def feed_forward_stretch(x: Tensor, mlp: Mlp, slope: float) -> float:
    """slope |W_1|_2 |W_2|_2; the slope is checked on the hidden values of x."""
    hidden = x @ mlp.w_1
    hidden = hidden if mlp.b_1 is None else hidden + mlp.b_1
    hidden = hidden.sort(0).values
    values = mlp.activation(hidden)
    rise = values.diff(dim=0).abs()
    run = hidden.diff(dim=0)
    size = 1 + values.abs().max() + slope * hidden.abs().max()
    slack = 64 * torch.finfo(x.dtype).eps * size
    require(
        bool((rise <= slope * run + slack).all()),
        f"slope is {slope:g}, but the activation of an Mlp rises faster on these "
        "tokens: slope is its Lipschitz constant (1 for relu, 1.13 for gelu)",
    )
    norms = torch.linalg.matrix_norm(mlp.w_1, 2), torch.linalg.matrix_norm(mlp.w_2, 2)
    return slope * float(norms[0] * norms[1])


def certificate(
    x: Tensor,
    layers: Sequence[Layer] | Encoder,
    *,
    skip: bool = False,
    mlps: Sequence[Mlp | None] | None = None,
    mlp_skip: bool | None = None,
    norms: Sequence[tuple[Norm | None, Norm | None]] | None = None,
    norm_first: bool = False,
    mask: Tensor | None = None,
    slope: float = 1.0,
) -> list[Part]:
    """Theorem 4.2 along a network, part by part: attention, LayerNorm, feed-forward.

    Args:
        x: (n, d), float64 or float32, with a mean token that is not zero. Cut padding
            off first: a masked token still counts in distances and in the mean.
        layers, skip, mlps, mlp_skip, norms, norm_first, mask: as in attention.forward.
        slope: a Lipschitz constant of the activations, 1 for relu and 1.13 for gelu.

    Returns:
        a Part for each part of each layer, in order; the final norm of an Encoder is
        the last. Its bound may be infinite: then nothing is promised.
    """
    numbers(slope=slope)
    is_a(bool, skip=skip, norm_first=norm_first)
    one_sequence(x)
    final_norm = None
    if isinstance(layers, Encoder):
        _refuse_parts(
            skip=skip,
            mlps=mlps,
            mlp_skip=mlp_skip,
            norms=norms,
            norm_first=norm_first,
        )
        layers, mlps, norms, norm_first, final_norm = layers
        skip = True
    check_network(x, layers)
    blocks = check_blocks(x, len(layers), mlps, norms, check=True)
    if final_norm is not None:
        with _named("final_norm"):
            check_norm(x, final_norm, check=True)
    mlp_skip = skip if mlp_skip is None else mlp_skip
    is_a(bool, mlp_skip=mlp_skip)
    parts = []
    with torch.no_grad():
        relative_diameter(x)  # refused before any layer is named
        for number, (layer, (mlp, first, second)) in enumerate(zip(layers, blocks), 1):
            with _named(f"layer {number}, attention"):
                found, x = _attend(x, layer, first, skip, norm_first, mask)
            if mlp is not None:
                with _named(f"layer {number}, feed-forward"):
                    fed, x = _feed(x, mlp, second, mlp_skip, norm_first, slope)
                found += fed
            parts += [replace(part, layer=number) for part in found]
        if final_norm is not None:
            with _named("final_norm"):
                last, _ = _normalise(x, final_norm)
            parts += last
    return parts


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Say where in the network a ValueError was raised."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _attend(x, layer, norm, skip, norm_first, mask) -> tuple[list[Part], Tensor]:
    """The attention of a layer, and the norm after it."""
    inner = norm if norm_first else None
    seen = x
    if inner is not None:
        norm_stretch(x, inner)  # refuses a token that would become NaN
        seen = layer_norm(x, inner)
    y, (attention,) = forward(seen, [layer], mask=mask, return_attention=True)
    y = x + y if skip else y
    part = attention_part(x, y, attention, layer, skip=skip, norm=inner)
    after, y = _normalise(y, None if norm_first else norm)
    return [part, *after], y


def _feed(x, mlp, norm, skip, norm_first, slope) -> tuple[list[Part], Tensor]:
    """The feed-forward part of a layer, and its norm."""
    inner = norm if norm_first else None

    def inside(tokens):
        return tokens if inner is None else layer_norm(tokens, inner)

    def apply(tokens):
        return feed_forward(inside(tokens), mlp)

    points = torch.cat([x, x.mean(0, keepdim=True)])
    stretch = 1.0 if inner is None else norm_stretch(points, inner)
    stretch *= feed_forward_stretch(inside(points), mlp, slope)
    part, y = token_part("feed-forward", x, apply, stretch, skip=skip)
    after, y = _normalise(y, None if norm_first else norm)
    return [part, *after], y


def _normalise(x: Tensor, norm: Norm | None) -> tuple[list[Part], Tensor]:
    """The LayerNorm of a layer, where it has one."""
    if norm is None:
        return [], x
    stretch = norm_stretch(torch.cat([x, x.mean(0, keepdim=True)]), norm)

    def apply(tokens):
        return layer_norm(tokens, norm)

    part, y = token_part("LayerNorm", x, apply, stretch, skip=False)
    return [part], y


def three_and_one(v=0.4, h=2, skip=False) -> dict:
    """The tokens 3 and 1, and h equal heads with P = (1/2, 1/2; 1/4, 3/4), W_h = v."""
    w = math.log(3) / 4
    one = torch.ones(h, 1, 1, dtype=double)
    layer = Layer(w * one, one, v * one, one, b_q=-3 * w * one[:, 0])
    return {"x": rows([3], [1]), "layers": [layer], "skip": skip}


def random_stack(
    seed=0, L=3, shift=3.0, skip=True, masked=False, mlp=False, norm=None
) -> dict:
    """Gaussian tokens around a common row, and layers with the parts that are asked
    for; norm is None, "first" or "last".
    """
    g, draw = draws(seed)
    layers = random_layers(L, 3, 8, 4, gain=0.6, bias=True, dtype=double, generator=g)
    x = draw(6, 8) + shift * draw(8)
    mlps = [Mlp(draw(8, 16) / 4, draw(16, 8) / 8, draw(16), draw(8)) for _ in layers]
    pair = (Norm(1 + 0.1 * draw(8), draw(8)), Norm() if mlp else None)
    return {
        "x": x,
        "layers": layers,
        "skip": skip,
        "mask": causal_mask(x) if masked else None,
        "mlps": mlps if mlp else None,
        "norms": [pair] * L if norm else None,
        "norm_first": norm == "first",
    }


THREE_AND_ONE = Case(three_and_one, called_with={"attained": True})
STACK = Case(random_stack)


@claim(
    "collapse.relative",
    cases=[
        THREE_AND_ONE,
        THREE_AND_ONE.but(skip=True),
        THREE_AND_ONE.but(skip=True, v=-0.5, h=1),
        STACK,
        STACK.but(skip=False),
        STACK.but(masked=True),
        STACK.but(mlp=True, seed=1),
        STACK.but(norm="last", seed=2),
        STACK.but(norm="first", mlp=True, masked=True, seed=3),
        STACK.but(norm="last", mlp=True, skip=False, shift=10.0),
    ],
    broken={
        "C = 0": {"_instead": {"slip": 0.0}},
        "G = 1": {"_instead": {"growth": 1.0}},
    },
)
def relative(
    x,
    layers,
    *,
    skip=False,
    mlps=None,
    mlp_skip=None,
    norms=None,
    norm_first=False,
    mask=None,
    slope=1.0,
    attained=False,
    _instead=None,
) -> Verdict:
    """Every part of a layer takes the relative diameter rho to at most
    c rho / (G - C rho), and with a skip to at least (2 - c) rho / (G + C rho).

    Measured: the largest of rho' over its bound, and of the floor over rho', over all
    parts of the network. A rho of 1e-12 (1e-4 in float32) is rounding and allowed. A
    bound that is infinite, or above 1e12 (1e4 in float32), promises nothing.

    Args:
        x: (n, d); cut padding off first.
        layers, skip, mlps, mlp_skip, norms, norm_first, mask, slope: as in certificate.
        attained: ask also that in each part one of the two is an equality.

    Claim: collapse.relative
    Page: notebooks/path_decomposition/escaping_collapse
    """
    parts = certificate(
        x,
        layers,
        skip=skip,
        mlps=mlps,
        mlp_skip=mlp_skip,
        norms=norms,
        norm_first=norm_first,
        mask=mask,
        slope=slope,
    )
    spare = rounding(x)
    require(
        any(part.bound * spare < 1 or part.floor > 0 for part in parts),
        f"x: none of {len(parts)} bounds is finite and no floor is above zero, so the "
        "theorem says nothing here: C rho >= G in every part",
    )
    worst = 0.0
    for part in parts:
        part = replace(part, **(_instead or {}))
        if part.bound * spare < 1:
            worst = max(worst, part.after / (part.bound + spare))
        worst = max(worst, part.floor / (part.after + spare))
        if attained:
            require(part.after > 0, "x: all tokens are equal, and nothing is attained")
            from_above = part.bound / part.after
            from_below = part.after / part.floor if part.floor > 0 else math.inf
            worst = max(worst, min(from_above, from_below))
    return at_most(worst, 1 + 1e-9)


# --- rest needs a sink


def heads_at_rest(kind="softmax", m=4, inputs=6, strength=8.0, seed=0) -> dict:
    """One query at rest over a start token and m contents: all contents of an input
    lie on one side, and every input comes with its negative.

    The softmax head gives the contents of the positive side a sixth, against a start
    token of value -1/10; on the negative side the start token takes nearly all.
    The ReLU head gives nothing to anyone.
    """
    one_of(["softmax", "relu"], kind=kind)
    _, draw = draws(seed)
    contents = 0.2 * draw(inputs, m, 3)
    contents[..., 0] = 1.0
    contents = torch.cat([contents, -contents])
    start = torch.zeros(2 * inputs, 1, 3, dtype=double)
    start[..., 0] = -0.1
    values = torch.cat([start, contents], 1)
    logits = strength * (values[..., 0] - 1) + math.log(0.2 / m)
    logits[:, 0] = 0.0
    softmax = torch.softmax(logits, -1)
    weights = softmax if kind == "softmax" else torch.relu(logits - 1)
    return {"weights": weights, "values": values, "direction": rows([1, 0, 0])[0]}


AT_REST = Case(heads_at_rest)


@claim(
    "escaping.sink",
    cases=[AT_REST, AT_REST.but(m=1), AT_REST.but(m=16, strength=4.0, seed=1)],
    controls=[AT_REST.but(kind="relu")],
    broken={"the other side": {"_other_side": True}},
    without_kernel="sums of weights that are given",
)
def sink(weights, values, direction, *, _other_side=False) -> Verdict:
    """A head that rests keeps its weight off the contents, and on its start token.

    Measured, on the side of the start token, eta the longest output: by how much the
    contents of an input get more than eta together, or the start token less than
    1 - eta; the largest.

    Args:
        weights: (k, n), what the query of each of k inputs gives to each token.
        values: (k, n, d), what the tokens would pass on; token 0 is the start token.
        direction: (d,), u up to its length.

    Claim: escaping.sink
    Page: notebooks/path_decomposition/escaping_collapse
    """
    tokens(values, "values")
    matches("weights", weights, tuple(values.shape[:-1]), values, "values")
    matches("direction", direction, tuple(values.shape[-1:]), values, "values")
    require((weights >= 0).all(), "weights must not be negative")
    require(
        (values[:, 0] == values[:1, 0]).all(),
        "values: the start token, token 0, must have the same in all inputs",
    )
    along = values @ (direction / direction.norm())  # (k, n)
    contents = along[:, 1:]
    above = (contents >= 1).all(1)
    below = (contents <= -1).all(1)
    require(
        bool((above | below).all() and above.any() and below.any()),
        "values: the contents of each input must have u . v >= 1, or all u . v <= -1, "
        "and both must occur: contents that cancel need no sink",
    )
    eta = float((weights[:, None] @ values).squeeze(1).norm(dim=1).max())
    side = above if float(along[0, 0]) >= 0 else below
    looked_at = weights[~side if _other_side else side]
    too_much = float(looked_at[:, 1:].sum(1).max()) - eta
    too_little = 1 - eta - float(looked_at[:, 0].min())
    return at_most(max(too_much, too_little), 1e-12)
