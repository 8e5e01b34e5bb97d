"""The claims of the page `Rank collapse`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib import certify
from attnlib._require import fractions, matches, numbers, require, told
from attnlib.attention import (
    NORMALIZERS,
    Layer,
    attention_matrix,
    check_network,
    forward,
    merged,
    random_layers,
)
from attnlib.certify import Verdict, at_most
from attnlib.collapse import (
    composite_norm,
    diameter,
    log_bound,
    log_diameter_bound,
    log_residuals,
    residual,
)

EPS = torch.finfo(torch.float64).eps
# Up to this spread e^y <= 1 + 2 y; and up to 2.11 g(2 y) < 16.
LINEAR_UP_TO = 1.256


def g(y: float) -> float:
    """(e^y - 1) / y, formula (2.10)."""
    return math.expm1(y) / y if y else 1.0


def spread(values: Tensor) -> Tensor:
    """Largest minus smallest entry of each row."""
    return values.amax(-1) - values.amin(-1)


def one_norm(a: Tensor) -> Tensor:
    """The largest absolute column sum."""
    return a.abs().sum(-2).amax(-1)


def inf_norm(a: Tensor) -> Tensor:
    """The largest absolute row sum."""
    return a.abs().sum(-1).amax(-1)


def root_of(layer: Layer) -> float:
    """sqrt(d_qk)."""
    return math.sqrt(layer.w_q.shape[-1])


def _check(x: Tensor, layers: Sequence[Layer]) -> None:
    """One sequence of tokens that the layers can run on."""
    check_network(x, layers)
    require(x.dim() == 2, f"x must be (n, d), got {tuple(x.shape)}: no batch")


def quadratic_logits(x: Tensor, layer: Layer) -> Tensor:
    """E = R W_QK R' / sqrt(d_qk) of each head, formula (2.9)."""
    r = residual(x)
    return (r @ layer.w_q) @ (r @ layer.w_k).mT / root_of(layer)


def eta(x: Tensor, layer: Layer) -> float:
    """The largest spread of a row of E, over rows and heads."""
    return float(spread(quadratic_logits(x, layer)).max())


def key_norms(layer: Layer) -> Tensor:
    """|W_QK,h|_1 / sqrt(d_qk) of each head."""
    return one_norm(layer.w_q @ layer.w_k.mT) / root_of(layer)


def unit(layer: Layer) -> float:
    """|W_QK|_1 |W|_{1,inf} / sqrt(d_qk) of a layer with one head."""
    return float(key_norms(layer)[0] * composite_norm(merged(layer)[0][0]))


def quotient(left, right) -> float:
    """left / right; zero where nothing is left, and nothing is allowed."""
    if left <= 0 and right == 0:
        return 0.0
    return float(left) / float(right) if right else math.inf


def constant(x: Tensor, layer: Layer) -> float:
    """What a layer of one head needs: residual out / (unit * residual in, cubed); zero
    where no residual comes out.
    """
    before, after = log_residuals(x, [layer]).tolist()
    needed = 0.0 if after == -math.inf else math.exp(after - 3 * before)
    return quotient(needed, unit(layer))


def plain_sizes(x: Tensor, layers: Sequence[Layer], size=composite_norm, **how):
    """What plain floats see: ln of the size of the residual after each layer."""
    found = [size(residual(x)).log()]
    for layer in layers:
        x = forward(x, [layer], **how)
        found.append(size(residual(x)).log())
    return torch.stack(found)


def causal_mask(x: Tensor) -> Tensor:
    """Token i may attend to the tokens 1, ..., i."""
    n = x.shape[-2]
    return torch.ones(n, n, device=x.device).tril().bool()


# --- objects: what the tests run the theorems on


def random_network(seed=0, L=3, h=2, n=6, d=5, gain=0.5, scale=1.0) -> dict:
    """Gaussian tokens and layers, with all four kinds of bias."""
    gen = torch.Generator().manual_seed(seed)
    layers = random_layers(
        L, h, d, 3, gain=gain, bias=True, dtype=torch.float64, generator=gen
    )
    x = scale * torch.randn(n, d, dtype=torch.float64, generator=gen)
    return {"x": x, "layers": layers}


def random_layer(seed=0, h=2, n=6, d=5, gain=1.0, scale=1.0) -> dict:
    """Gaussian tokens and one layer."""
    x, layers = random_network(seed, 1, h, n, d, gain, scale).values()
    return {"x": x, "layer": layers[0]}


def random_head(seed=0, eta_is=1.0) -> dict:
    """Tokens of two to eight features and a layer of one head, whose queries are scaled
    so that the largest spread of a row of E is as given.
    """
    gen = torch.Generator().manual_seed(seed)
    n, d, d_qk = torch.randint(2, 9, (3,), generator=gen).tolist()
    (layer,) = random_layers(
        1, 1, d, d_qk, bias=True, dtype=torch.float64, generator=gen
    )
    x = torch.randn(n, d, dtype=torch.float64, generator=gen)
    x = x + torch.randn(d, dtype=torch.float64, generator=gen)
    layer = layer._replace(w_q=layer.w_q * eta_is / eta(x, layer))
    return {"x": x, "layer": layer}


def square_layer(w_qk: Tensor, w: Tensor) -> Layer:
    """A layer of one head with W_QK / sqrt(d_qk) and W as given."""
    d = len(w_qk)
    eye = torch.eye(d, dtype=w_qk.dtype)[None]
    return Layer(w_q=math.sqrt(d) * w_qk[None], w_k=eye, w_v=w[None], w_o=eye)


def two_tokens(a: float) -> Tensor:
    """The tokens (a, 1) and (-a, 1)."""
    return torch.tensor([[a, 1.0], [-a, 1.0]], dtype=torch.float64)


def toy_layer(w: float, v: float) -> Layer:
    """Logits w times the product of the first coordinates, W = diag(v, 1), d_qk = 4."""
    key = torch.zeros(1, 2, 4, dtype=torch.float64)
    key[0, 0, 0] = 1
    values = torch.tensor([[[v, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    eye = torch.eye(2, dtype=torch.float64)[None]
    return Layer(w_q=2 * w * key, w_k=key, w_v=values, w_o=eye)


def toy_head(a=1.0, w=1.0, v=1.0) -> dict:
    """The two tokens of the toy and its layer."""
    return {"x": two_tokens(a), "layer": toy_layer(w, v)}


def toy_numbers(a=1.0, w=1.0, v=1.0) -> dict:
    """Half the distance of the tokens, strength of the logits, value weight."""
    return {"a": a, "w": w, "v": v}


def family_head(m=200, strength=2780.0, K=20.0) -> dict:
    """The tokens (I; -I) and the layer of the family, with e^w = strength."""
    w = math.log(strength)
    eye = torch.eye(m, dtype=torch.float64)
    shared = torch.full((m,), K / w, dtype=torch.float64)
    shared[0] += math.log(m - 1) / w
    x = shared + torch.cat([eye, -eye])
    return {"x": x, "layer": square_layer(w * eye, eye)}


def ascended_head(seed=0, n=4, d=3, steps=150, spread_up_to=None) -> dict:
    """Tokens and a layer of one head that gradient ascent has made as bad as it can.

    The constant is raised with the spread held below spread_up_to; without that, the
    constant over sqrt(g(2 eta)).
    """
    gen = torch.Generator().manual_seed(seed)
    shapes = [(n, d), (d, d), (d, d), (d,)]
    found = []
    for shape in shapes:
        start = torch.randn(*shape, dtype=torch.float64, generator=gen)
        found.append(start.requires_grad_())
    r, w_qk, w, x = found
    optimiser = torch.optim.Adam(found, lr=0.05)
    for _ in range(steps):
        value = _badness(*_narrowed(r, w_qk, spread_up_to), w, x, spread_up_to)
        optimiser.zero_grad()
        (-value.log()).backward()
        optimiser.step()
    with torch.no_grad():
        r, w_qk = _narrowed(r, w_qk, spread_up_to)
        layer = square_layer(w_qk.detach(), w.detach())
        return {"x": (r + x).detach(), "layer": layer}


def _narrowed(r: Tensor, w_qk: Tensor, limit: float | None):
    """The centred residual, and W_QK scaled so that no spread exceeds the limit."""
    r = r - r.mean(0)
    if limit is None:
        return r, w_qk
    widest = spread(r @ w_qk @ r.T).max()
    return r, w_qk * limit / widest.clamp_min(limit)


def _badness(r, w_qk, w, x, limit: float | None) -> Tensor:
    e = r @ w_qk @ r.T
    y = torch.softmax(e + r @ (w_qk.T @ x), -1) @ r @ w
    size = one_norm(w_qk) * composite_norm(w) * composite_norm(r) ** 3
    value = composite_norm(y - y.mean(0)) / size
    if limit is not None:
        return value
    wide = 2 * spread(e).max()
    return value / (torch.expm1(wide) / wide).sqrt()


HEAD = Case(random_head, {"seed": 0, "eta_is": 1e-3})
FLAT_HEAD = HEAD.but(eta_is=1e-5)
SPREADS = [0.3, LINEAR_UP_TO, 5.0, 30.0]
HEADS = [HEAD, HEAD.but(seed=1), *[HEAD.but(eta_is=s) for s in SPREADS]]
NETWORK = Case(random_network, {"seed": 0, "gain": 0.3, "scale": 0.1})
LAYER = Case(random_layer, {"seed": 0})
CLOSE = LAYER.but(scale=0.1)
TOY = Case(toy_head, {"a": 1.0})


# --- tokens come closer


@claim(
    "questions.contraction",
    cases=[
        CLOSE,
        LAYER,
        LAYER.but(scale=3.0),
        LAYER.but(h=1, seed=1),
        LAYER.but(h=4, n=12, seed=2),
        LAYER.but(n=1),
        TOY.but(a=0.7, v=2.0),
    ],
    broken={"causal mask": {"_causal": True}, "skip": {"_skip": True}},
)
def contraction(x, layer, *, _causal=False, _skip=False) -> Verdict:
    """A head draws the tokens together, by a factor of at most tanh(Delta / 4).

    Measured: by how much a left side exceeds its right side and the rounding of its
    entries, relative to spread(y) or delta; the largest over heads, columns and (b). A
    column whose spread is no more than rounding is left out.

    Claim: questions.contraction
    Page: notebooks/path_decomposition/rank_collapse
    """
    _check(x, [layer])
    bound = log_diameter_bound(x, [layer])[1].exp()
    mask = causal_mask(x) if _causal else None
    factors = torch.tanh(differing(x, layer) / 4).unsqueeze(-1)
    noise = rounding(x, x)
    wide = spread(x.mT)
    excess = shrinkage(x, layer, mask=mask) - factors - noise / wide
    worst = float(torch.where(wide > noise, excess, 0).max())
    size = float(diameter(x))
    if size > 0:
        y = forward(x, [layer], mask=mask, skip=_skip)
        moved = float(diameter(y)) - rounding(x, y)
        worst = max(worst, (moved - float(bound)) / size)
    return at_most(worst, 1e-12)


def differing(x: Tensor, layer: Layer) -> Tensor:
    """Delta of each head: the largest spread of a difference of two rows of logits."""
    queries = x @ layer.w_q + _row(layer.b_q)
    logits = queries @ (x @ layer.w_k).mT / root_of(layer)
    differences = logits.unsqueeze(-2) - logits.unsqueeze(-3)
    return spread(differences).amax((-2, -1))


def shrinkage(x: Tensor, layer: Layer, mask: Tensor | None = None) -> Tensor:
    """The spread of each column of P X over that of X, for each head."""
    how = {"b_q": layer.b_q, "b_k": layer.b_k, "mask": mask}
    p = attention_matrix(x, layer.w_q, layer.w_k, **how)
    return spread((p @ x).mT) / spread(x.mT)


def _row(b: Tensor | None):
    return 0 if b is None else b.unsqueeze(-2)


def quarter_sum(layer: Layer) -> float:
    """sum_h v_h omega_h / 4, the least c of (2.7)."""
    v = torch.linalg.matrix_norm(merged(layer)[0], 2)
    w_qk = torch.linalg.matrix_norm(layer.w_q @ layer.w_k.mT, 2)
    return float((v * w_qk).sum()) / root_of(layer) / 4


@claim(
    "collapse.cube",
    cases=[
        NETWORK,
        NETWORK.but(seed=1, L=6),
        NETWORK.but(scale=3.0, gain=1.0),
        NETWORK.but(h=4, L=5),
        NETWORK.but(h=1),
    ],
    broken={"skip": {"_skip": True}, "causal mask": {"_causal": True}},
)
def cube(x, layers, *, _skip=False, _causal=False) -> Verdict:
    """In each layer c delta^2 is at most cubed, so its digits at least triple.

    Measured: by how much ln delta_l exceeds (2.5) applied l times, and ln(c delta'^2)
    three times ln(c delta^2), for both; the largest over layers. Below the smallest
    float by `log_residuals`; with skip or mask by plain floats.

    Claim: collapse.cube
    Page: notebooks/path_decomposition/rank_collapse
    """
    bound = log_diameter_bound(x, layers)
    require(
        bool(bound[0].isfinite().all()),
        "x: all tokens are equal, and (2.7) needs two that differ",
    )
    c = max(quarter_sum(layer) for layer in layers)
    require(c > 0, "layers: every v_h omega_h is zero, and (2.7) needs c > 0")
    if _skip or _causal:
        mask = causal_mask(x) if _causal else None
        logs = plain_sizes(x, layers, diameter, skip=_skip, mask=mask)
    else:
        logs = log_residuals(x, layers, size="diameter")
    above = [_excess(logs[1:], bound[1:])]
    for sizes in (logs, bound):
        of_product = math.log(c) + 2 * sizes  # ln(c delta^2)
        above.append(_excess(of_product[1:], 3 * of_product[:-1]))
    return at_most(max(float(a.max()) for a in above), 1e-7)


def _excess(left: Tensor, right: Tensor) -> Tensor:
    """left - right; -inf, the logarithm of zero, exceeds nothing, not even itself."""
    return torch.where(left.isneginf(), left, left - right)


# --- the toy


NUMBERS = Case(toy_numbers, {"a": 1.0})


@claim(
    "collapse.toy",
    cases=[
        NUMBERS,
        NUMBERS.but(a=100.0, w=1e-6),
        NUMBERS.but(a=0.1, w=1e3, v=1.1),
        NUMBERS.but(a=0.5, v=-0.3),
    ],
    broken={"query bias": {"_bias": 0.5}},
)
def toy(a: float, w: float, v: float, *, L=4, _bias=0.0) -> Verdict:
    """Two tokens stay (+-a, 1), with a -> v a tanh(w a^2); and the printed bound is
    more than eight times too large.

    Measured: the largest error of ln a_l over L layers, or by how much the residual
    after a layer exceeds an eighth of the printed bound, in logarithms. Errors triple
    from layer to layer, so take few.

    Args:
        L: layers.

    Claim: collapse.toy
    Page: notebooks/path_decomposition/rank_collapse
    """
    x = two_tokens(a)
    layer = toy_layer(w, v)
    layer = layer._replace(b_q=_bias * torch.ones(1, 4, dtype=x.dtype))
    got = log_residuals(x, [layer] * L) - math.log(2) / 2
    wanted = [math.log(abs(a))]
    for _ in range(L):
        a = v * a * math.tanh(w * a * a)
        wanted.append(math.log(abs(a)))
    off = (got - torch.tensor(wanted, dtype=x.dtype)).abs().max()
    printed = log_printed(x, [layer]) - math.log(2) / 2
    over = got[1] - printed[1] + math.log(8)
    return at_most(max(float(off), float(over)), 1e-10)


# --- one layer, in composite norms


def two_logits(eta_is=1.3, first=1e-3) -> dict:
    """Logits of two tokens with weights (first, 1 - first), and what is added to them:
    the case that moves a softmax most.
    """
    weights = torch.tensor([first, 1 - first], dtype=torch.float64)
    e = torch.tensor([eta_is, 0.0], dtype=torch.float64)
    return {"r": weights.log(), "e": e}


TWO = Case(two_logits, {"eta_is": 1.3})


@claim(
    "collapse.spread",
    cases=[
        TWO,
        TWO.but(eta_is=0.01),
        TWO.but(eta_is=LINEAR_UP_TO),
        TWO.but(eta_is=LINEAR_UP_TO, first=1e-9),
        TWO.but(eta_is=5.0, first=0.3),
        TWO.but(eta_is=30.0, first=0.999),
    ],
    broken={"linear up to 2": {"_linear_up_to": 2.0}},
)
def moves_little(r: Tensor, e: Tensor, *, _linear_up_to=LINEAR_UP_TO) -> Verdict:
    """If the entries of e span eta, softmax(r + e) is close to softmax(r).

    Measured: the largest excess over the three bounds of the box.

    Args:
        r, e: (n,).

    Claim: collapse.spread
    Page: notebooks/path_decomposition/rank_collapse
    """
    matches("e", e, tuple(r.shape), r, "r")
    softmax = NORMALIZERS["softmax"]
    s = softmax(r)
    p = softmax(r + e)
    wide = float(spread(e))
    off = [p - math.exp(wide) * s, math.exp(-wide) * s - p]
    if wide <= _linear_up_to:
        off += [p - (1 + 2 * wide) * s, (1 - wide) * s - p]
    moved = (p - s).abs().sum() / 2 - math.tanh(wide / 4)
    return at_most(max(float(moved), float(torch.stack(off).max())), 1e-14)


@claim(
    "collapse.one-layer",
    cases=[*HEADS, TOY, TOY.but(a=3.0)],
    broken={"skip": {"_skip": True}},
)
def one_layer(x, layer, *, _skip=False) -> Verdict:
    """One head cubes the residual, up to a factor that grows with the spread eta.

    Measured: the residual after the layer over the right side, and its column sums and
    its row sums over theirs in (2.15); the largest.

    Claim: collapse.one-layer
    Page: notebooks/path_decomposition/rank_collapse
    """
    _check(x, [layer])
    r = residual(x)
    w = merged(layer)[0][0]
    omega = key_norms(layer)[0]
    factor = g(2 * eta(x, layer))
    y = forward(x, [layer], skip=_skip)
    after = residual(y)
    columns = factor * omega * one_norm(w) * one_norm(r) ** 2 * inf_norm(r)
    rows = omega * inf_norm(w) * one_norm(r) * inf_norm(r) ** 2
    noise = rounding(x, y)
    shares = [
        quotient(one_norm(after) - len(x) * noise, columns),
        quotient(inf_norm(after) - len(w) * noise, rows),
    ]
    if not _skip:
        shares.append(constant(x, layer) / math.sqrt(factor))
    return at_most(max(shares), 1 + 1e-9)


def row_share(x: Tensor, layer: Layer, *, skip: bool = False) -> float:
    """|res SA(X)|_inf over 2 sum_h omega_h |W_h|_inf |R|_max |R|_inf^2."""
    r = residual(x)
    weights = merged(layer)[0]
    bound = 2 * (key_norms(layer) * inf_norm(weights)).sum()
    bound = bound * r.abs().max() * inf_norm(r) ** 2
    y = forward(x, [layer], skip=skip)
    return quotient(inf_norm(residual(y)) - x.shape[-1] * rounding(x, y), bound)


def rounding(x: Tensor, y: Tensor) -> float:
    """What an entry of the residual of y may be off by: 64 eps of the largest entry."""
    largest = torch.maximum(x.abs().max(), y.abs().max())
    return 64 * torch.finfo(x.dtype).eps * float(largest)


@claim(
    "collapse.rows",
    cases=[
        CLOSE,
        LAYER,
        LAYER.but(scale=5.0),
        LAYER.but(h=4, seed=1),
        HEAD.but(eta_is=30.0),
        Case(family_head),
    ],
    broken={"skip": {"_skip": True}},
)
def rows_of_residual(x, layer, *, _skip=False) -> Verdict:
    """The row sums of the residual are cubed whatever the spread is.

    Measured: the left side over the right side.

    Claim: collapse.rows
    Page: notebooks/path_decomposition/rank_collapse
    """
    _check(x, [layer])
    return at_most(row_share(x, layer, skip=_skip), 1)


# --- many heads, many layers


def two_unequal_heads() -> tuple[Tensor, Layer]:
    """Two tokens of width two and two heads with d_qk = 4, all of small numbers; the
    norms that enter the bound differ, and columns are not rows.
    """
    w_q = torch.zeros(2, 2, 4, dtype=torch.float64)
    w_k = torch.zeros(2, 2, 4, dtype=torch.float64)
    w_q[0, :, :2] = torch.tensor([[1, 0], [0, 1]])
    w_q[1, :, :2] = torch.tensor([[2, 0], [0, 1]])
    w_k[0, :, :2] = torch.tensor([[1, 0], [2, 2]])
    w_k[1, :, :2] = torch.tensor([[3, 1], [1, 0]])
    w = torch.tensor([[[1.0, 1], [2, 2]], [[2, 1], [3, 0]]], dtype=torch.float64)
    eye = torch.eye(2, dtype=torch.float64).expand(2, 2, 2)
    x = torch.tensor([[1.0, 2.0], [3.0, 2.5]], dtype=torch.float64) / 4
    return x, Layer(w_q=w_q, w_k=w_k, w_v=w, w_o=eye)


def unequal_network() -> dict:
    """These two heads as a network."""
    x, layer = two_unequal_heads()
    return {"x": x, "layers": [layer]}


def first_bound(x: Tensor, layer: Layer) -> Tensor:
    """ln u_1 by (2.17), norm by norm."""
    omega = key_norms(layer).double()
    w = merged(layer)[0]
    columns = (omega * one_norm(w)).sum()
    rows = (omega * inf_norm(w)).sum()
    u = composite_norm(residual(x)).double()
    y = 2 * omega.max() * u**2
    log_g = torch.where(y > 0, (-torch.expm1(-y) / y).log() + y, 0)
    return (log_g + columns.log() + rows.log()) / 2 + 3 * u.log()


@claim(
    "collapse.multi-head",
    cases=[
        NETWORK,
        NETWORK.but(seed=1, L=4),
        NETWORK.but(h=4),
        NETWORK.but(h=1, scale=0.01),
        NETWORK.but(scale=1.0, gain=0.5),
        Case(unequal_network),
    ],
    broken={"skip": {"_skip": True}, "causal mask": {"_causal": True}},
)
def multi_head(x, layers, *, _skip=False, _causal=False) -> Verdict:
    """Many heads, many layers: r_l <= u_l, with column and row sums bounded apart.

    Measured: ln r_l - ln u_l over |ln u_l|, the largest over layers; or how far ln u_1
    is from that of (2.17), where it is more than 1e-6.

    Claim: collapse.multi-head
    Page: notebooks/path_decomposition/rank_collapse
    """
    if _skip or _causal:
        mask = causal_mask(x) if _causal else None
        logs = plain_sizes(x, layers, skip=_skip, mask=mask)
    else:
        logs = log_residuals(x, layers)
    bound = log_bound(x, layers)
    off = _excess(logs, bound) / bound.abs().clamp(1, 1e300)
    off = torch.where(bound == math.inf, -math.inf, off)
    first = first_bound(x, layers[0])
    misfit = torch.where(bound[1] == first, 0, (bound[1] - first).abs()).max()
    worst = off[1:].max()
    return at_most(max(worst, misfit) if misfit > 1e-6 else worst, 1e-9)


# --- the printed bound, and the family


def log_printed(x: Tensor, layers: Sequence[Layer]) -> Tensor:
    """The bound as printed, layer by layer, in logarithms: one constant for all layers.

        u_0 = |res X|_{1,inf},   u_l = c u_{l-1}^3,   c = 4 beta H / sqrt(d_qk),
        beta = max |W_QK,h|_1 |W_h|_{1,inf}

    It asks for no bound on the spread, and is false without one.

    Source: Dong et al. 2021, first version, Theorem 2.3; Xie 2021, Theorem 2.2 (H = 1).
    """
    beta = []
    for layer in layers:
        beta.append((key_norms(layer) * composite_norm(merged(layer)[0])).max())
    most = max(len(layer.w_q) for layer in layers)
    log_c = (4 * most * max(beta)).log()
    u = composite_norm(residual(x)).log()
    bounds = [u]
    for _ in layers:
        zero = log_c.isneginf() | u.isneginf()
        u = torch.where(zero, -math.inf, log_c + 3 * u)
        bounds.append(u)
    return torch.stack(bounds)


def network_at_the_edge(seed=0, L=4, scale=1.0) -> dict:
    """A network of one head whose tokens are the largest that meet both conditions of
    (2.18), times scale.
    """
    x, layers = random_network(seed, L=L, h=1).values()
    strongest = max(float(key_norms(layer)[0]) for layer in layers)
    beta = max(unit(layer) for layer in layers)
    size = min(math.sqrt(2.11 / strongest), math.sqrt(1 / (4 * beta)))
    return {
        "x": scale * x * size / float(composite_norm(residual(x))),
        "layers": layers,
    }


EDGE = Case(network_at_the_edge, {"scale": 0.1})


@claim(
    "collapse.bound",
    cases=[EDGE, EDGE.but(seed=1, scale=1.0), EDGE.but(seed=3, L=1, scale=1.0)],
    broken={"skip": {"_skip": True}},
)
def cubic_bound(x, layers, *, _skip=False) -> Verdict:
    """The printed bound with its constant 4, under the two conditions (2.18).

    Measured: ln of the residual minus ln of the printed bound, the largest over layers.
    That it fails without a condition is a counterexample in tests/.

    Claim: collapse.bound
    Page: notebooks/path_decomposition/rank_collapse
    """
    _check(x, layers)
    size = float(composite_norm(residual(x))) ** 2
    strongest = max(float(key_norms(layer)[0]) for layer in layers)
    beta = max(unit(layer) for layer in layers)
    if strongest * size > 2.11 * (1 + 1e-9):
        raise ValueError(
            f"x: |W_QK|_1 |res X|^2 / sqrt(d_qk) is {strongest * size:.3g}, and (2.18) "
            "needs at most 2.11: without a bound on the spread the printed bound fails"
        )
    if len(layers) > 1 and 4 * beta * size > 1 + 1e-9:
        raise ValueError(
            f"x: 4 beta |res X|^2 / sqrt(d_qk) is {4 * beta * size:.3g}, and (2.18) "
            "needs at most 1 for two layers or more: the residual may grow"
        )
    logs = plain_sizes(x, layers, skip=True) if _skip else log_residuals(x, layers)
    printed = log_printed(x, layers)
    return at_most(_excess(logs, printed)[1:].max(), 1e-9)


def family_size(m=60000, strength=None) -> dict:
    """How many columns the family has, and e^w; 2 m - 1 where it is None."""
    return {"m": m, "strength": 2 * m - 1 if strength is None else strength}


def family_constant(m: int, strength, tiny=Fraction(0), *, any_centre=False) -> float:
    """The constant that the family needs: exact up to one logarithm and one root. Its
    residual is taken about the mean, or bounded from below about any centre.
    """
    squared = certify.family_residual(m, strength, tiny)
    if any_centre:
        squared = certify.family_residual_any(m, strength, tiny)
    return math.sqrt(squared) / (math.log(strength) * 2**1.5)


FAMILY = Case(family_size, {"m": 60000})


@claim(
    "collapse.family",
    cases=[FAMILY, FAMILY.but(m=8), FAMILY.but(m=200), FAMILY.but(m=10**9)],
    controls=[FAMILY.but(strength=Fraction(11, 10))],
)
def family(m: int, strength: int | Fraction) -> Verdict:
    """No absolute constant: the family needs a C that grows like sqrt(m) / ln m.

    Measured, with the residual in exact arithmetic: the lower bound over the constant
    that the family needs about every centre, or what it needs about the mean over the
    upper bound, if that is larger.

    Args:
        m: columns; there are 2 m tokens.
        strength: e^w, rational.

    Claim: collapse.family
    Page: notebooks/path_decomposition/rank_collapse
    """
    [w] = fractions(strength=strength)
    require(w > 1, f"strength must be above 1, e^w for a w above 0, got {told(w)}")
    least = family_constant(m, strength, any_centre=True)
    needed = family_constant(m, strength)
    lower = math.sqrt(m - 1) / (8 * math.log(2 * m - 1))
    return at_most(max(lower / least, needed / math.sqrt(m)), 1)


# --- the cubic law


def leading(x: Tensor, layer: Layer, *, centred: bool = True) -> Tensor:
    """sum_h R W_QK,h C_s W_h / sqrt(d_qk), formula (2.20); with the second moment in
    place of the covariance C_s, if not centred.
    """
    r = residual(x)
    total = torch.zeros_like(x)
    for h, w in enumerate(merged(layer)[0]):
        q = x.mean(0) @ layer.w_q[h]
        if layer.b_q is not None:
            q = q + layer.b_q[h]
        s = torch.softmax(r @ layer.w_k[h] @ q / root_of(layer), -1)
        about = r - s @ r if centred else r
        covariance = about.T @ (s[:, None] * about)
        w_qk = layer.w_q[h] @ layer.w_k[h].T
        total = total + r @ w_qk @ covariance @ w / root_of(layer)
    return total


@claim(
    "collapse.cubic",
    cases=[FLAT_HEAD, *HEADS, HEAD.but(seed=2, eta_is=0.05)],
    broken={"skip": {"_skip": True}, "second moment": {"_centred": False}},
)
def cubic_law(x, layer, *, _skip=False, _centred=True) -> Verdict:
    """The residual after one head is R W_QK C_s W / sqrt(d_qk) and a small rest.

    Measured: the rest over the right side.

    Claim: collapse.cubic
    Page: notebooks/path_decomposition/rank_collapse
    """
    _check(x, [layer])
    y = forward(x, [layer], skip=_skip)
    lead = leading(x, layer, centred=_centred)
    rest = composite_norm(residual(y) - lead) - rounding(x, y)
    size = unit(layer) * float(composite_norm(residual(x))) ** 3
    allowed = (g(2 * eta(x, layer)) - 1) * size
    return at_most(quotient(rest, allowed), 1 + 1e-6)


SMALL_TOY = Case(toy_head, {"a": 1e-3})


@claim(
    "collapse.sharp",
    cases=[SMALL_TOY, TOY, *HEADS],
    broken={"limit 0.45": {"_limit": 0.45}},
)
def sharp(x, layer, *, _limit=0.5) -> Verdict:
    """As the spread goes to zero, the constant of one layer may be one half, not less.

    Measured: the constant that the layer needs over g(2 eta) - 1/2.

    Claim: collapse.sharp
    Page: notebooks/path_decomposition/rank_collapse
    """
    _check(x, [layer])
    allowed = g(2 * eta(x, layer)) - 1 + _limit
    return at_most(constant(x, layer) / allowed, 1 + 1e-9)


FLAT_FAMILY = Case(family_head, {"m": 200, "strength": 1.8})
ASCENDED = Case(ascended_head, {"seed": 1, "spread_up_to": LINEAR_UP_TO})


@claim(
    "collapse.half",
    cases=[
        FLAT_FAMILY,
        HEAD,
        HEAD.but(seed=3, eta_is=0.5),
        HEAD.but(seed=4, eta_is=LINEAR_UP_TO),
        ASCENDED,
        ASCENDED.but(seed=2, n=5),
        SMALL_TOY,
    ],
    controls=[FLAT_FAMILY.but(strength=2780.0)],
)
def half(x, layer) -> Verdict:
    """Up to a spread of 1.256 the constant one half is enough for one layer.

    Measured: the constant that the layer needs.

    Claim: collapse.half
    Page: notebooks/path_decomposition/rank_collapse
    """
    _check(x, [layer])
    return at_most(constant(x, layer), 0.5 * (1 + 1e-9))


def attended_pair(seed=0, n=6, d=4, scale=1.0) -> dict:
    """Tokens and a layer of one head."""
    return random_layer(seed, h=1, n=n, d=d, scale=scale)


def pair_share(x: Tensor, layer: Layer, *, skip: bool = False) -> float:
    """The constant that a layer needs in (2.15), in its columns and in its rows, if all
    tokens may only attend to the first two; the larger one.
    """
    mask = torch.zeros(len(x), len(x), device=x.device).bool()
    mask[:, :2] = True
    r = residual(x)
    w = merged(layer)[0][0]
    size = key_norms(layer)[0] * one_norm(r) * inf_norm(r)
    y = forward(x, [layer], mask=mask, skip=skip)
    after = residual(y)
    noise = rounding(x, y)
    columns = one_norm(after) - len(x) * noise
    rows = inf_norm(after) - len(w) * noise
    by_columns = quotient(columns, size * one_norm(w) * one_norm(r))
    by_rows = quotient(rows, size * inf_norm(w) * inf_norm(r))
    return max(by_columns, by_rows)


PAIR = Case(attended_pair, {"scale": 0.1})


@claim(
    "collapse.half-two",
    cases=[
        PAIR,
        PAIR.but(scale=1.0),
        PAIR.but(scale=10.0),
        PAIR.but(n=2, d=1),
        PAIR.but(n=2, d=1, scale=10.0),
        SMALL_TOY,
        TOY,
    ],
    broken={"skip": {"_skip": True}},
)
def half_two(x, layer, *, _skip=False) -> Verdict:
    """If all tokens listen to the same two, one half is enough for every spread.

    Measured: the constant that column sums and row sums need in (2.15), the larger one.

    Claim: collapse.half-two
    Page: notebooks/path_decomposition/rank_collapse
    """
    _check(x, [layer])
    return at_most(pair_share(x, layer, skip=_skip), 0.5 * (1 + 1e-9))


# --- below the smallest float, and frozen attention


DEEP = Case(random_network, {"L": 3, "n": 4, "d": 3, "gain": 0.7})


@claim(
    "collapse.recursion",
    cases=[DEEP, DEEP.but(seed=1, L=5), DEEP.but(seed=2), DEEP.but(gain=1.2)],
    broken={"plain floats": {"_plain": True}},
)
def recursion(x, layers, *, digits=900, _plain=False) -> Verdict:
    """A recursion on what tokens share and what differs does not underflow.

    Measured: the largest error of ln r_l against the forward pass with many digits.

    Args:
        digits: decimal digits of the comparison.

    Claim: collapse.recursion
    Page: notebooks/path_decomposition/rank_collapse
    """
    _check(x, layers)
    require((x != x[0]).any(), "x: all tokens are equal, and ln r_0 is no number")
    nested = []
    for layer in layers:
        nested.append(tuple(None if w is None else w.tolist() for w in layer))
    exact = certify.log_residuals(x.tolist(), nested, digits=digits)
    got = plain_sizes(x, layers) if _plain else log_residuals(x, layers)
    exact = torch.tensor(exact, dtype=x.dtype)
    off = torch.where(got == exact, 0, (got - exact).abs())  # also where both are -inf
    return at_most(off.max(), 1e-8)


def frozen_residuals(
    r: Tensor, layers: Sequence[Layer], matrices: Tensor
) -> list[Tensor]:
    """R <- sum_h J P_h R W_h with the same P_h in each layer, formula (2.26)."""
    found = [r]
    for layer in layers:
        r = residual((matrices @ r @ merged(layer)[0]).sum(-3))
        found.append(r)
    return found


FROZEN = Case(random_network, {"seed": 0, "scale": 0.5})


@claim(
    "collapse.frozen",
    cases=[FROZEN, FROZEN.but(t=7.0), FROZEN.but(seed=1), FROZEN.but(h=1, L=4)],
    broken={"live": {"_live": True}},
)
def frozen(x, layers, *, t=0.1, _live=False) -> Verdict:
    """With fixed attention matrices the residual is linear, and falls exponentially.

    Measured, the largest: how far the slope of ln r_L over ln t is from 1; the relative
    error of (2.26) against layers with these P; for one head, by how much (2.27) fails.

    Args:
        t: factor of the residual of the input, positive and not 1.

    Claim: collapse.frozen
    Page: notebooks/path_decomposition/rank_collapse
    """
    _check(x, layers)
    numbers(t=t)
    require(t > 0 and t != 1, f"t must be positive and not 1, got {told(t)}")
    matrices = forward(x, layers, return_attention=True)[1][0]
    r = residual(x)
    _check_left(x, [], [r])
    if _live:
        last = log_residuals(x, layers)[-1]
        moved = log_residuals(x.mean(-2) + t * r, layers)[-1]
        require(last > -math.inf, "layers: they leave no residual")
        return at_most(abs(float(moved - last) / math.log(t) - 1), 1e-9)
    states = frozen_residuals(r, layers, matrices)
    _check_left(x, layers, states)
    scaled = frozen_residuals(t * r, layers, matrices)[-1]
    ratio = float(composite_norm(scaled) / composite_norm(states[-1]))
    worst = [abs(math.log(ratio) / math.log(t) - 1)]
    y = x
    for layer, r in zip(layers, states[1:]):
        values = y @ layer.w_v + _row(layer.b_v)
        y = (matrices @ values @ layer.w_o).sum(-3)
        if layer.b_o is not None:
            y = y + layer.b_o
        worst.append(float((residual(y) - r).abs().max() / y.abs().max()))
    if all(len(layer.w_q) == 1 for layer in layers):
        worst.append(_shortfall(states, layers, matrices[0]))
    return at_most(max(worst), 1e-9)


def _check_left(x: Tensor, layers: Sequence[Layer], states: Sequence[Tensor]) -> None:
    """Of the residual more is left than rounding, before the layers and after each."""
    parts = [x, *(r @ merged(layer)[0] for r, layer in zip(states, layers))]
    names = ["x", *(f"layers: layer {number}" for number in range(len(layers)))]
    for name, part, r in zip(names, parts, states):
        share = float(r.norm() / part.norm()) if part.any() else 0.0
        require(
            share > 1e-6,
            f"{name} leaves a residual of {share:.0e} of its size, and a slope needs "
            "more than 1e-06",
        )


def _shortfall(states, layers: Sequence[Layer], p: Tensor) -> float:
    """By how much, relatively, a step is shorter than (2.27) lets it be."""
    n = len(p)
    centring = torch.eye(n, dtype=p.dtype) - 1 / n
    basis = torch.linalg.svd(centring).U[:, : n - 1]  # the vectors with mean zero
    sigma = torch.linalg.svdvals(basis.T @ p @ basis)[-1]
    short = []
    for before, after, layer in zip(states, states[1:], layers):
        tau = torch.linalg.svdvals(merged(layer)[0][0])[-1]
        least = sigma * tau * before.norm()
        short.append(float((least - after.norm()) / before.norm()))
    return max(short)
