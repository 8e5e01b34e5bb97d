"""The claims of the page `From integers to softmax`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib import patterns
from attnlib._require import finite, is_a, is_tensor, numbers, require, sizes
from attnlib.attention import Layer, Mlp, attention_matrix, feed_forward, forward
from attnlib.certify import Verdict, at_most
from attnlib.universal import (
    ContextualMap,
    Sublayer,
    UniversalNetwork,
    approximate,
    enough_scale,
    ramp_mlp,
    run_standard,
    standard,
    value_layers,
)

double = torch.float64
EPS = torch.finfo(double).eps
MOST_INPUTS = 10**5
MOST_ENTRIES = 512
LEAST = 1e-200  # of a positive number: its products do not vanish


# --- what the theorems accept


def _check_network(network: UniversalNetwork) -> ContextualMap:
    """A network with positions, and not too many inputs; its integers."""
    is_a(UniversalNetwork, network=network)
    mapping = network.mapping
    finite(**{"network.values": network.values})
    require(
        mapping.path,
        "network has no positions: the statement is about a sweep along a path",
    )
    count = len(network.ids)
    require(
        count <= MOST_INPUTS,
        f"network has {count:,} grid inputs, more than {MOST_INPUTS:,}: all are run",
    )
    return mapping


def _check_doubles(**given: Tensor) -> None:
    """Tensors of float64 without NaN or infinity."""
    for name, tensor in given.items():
        is_tensor(name, tensor)
        require(
            tensor.dtype == double,
            f"{name} must be float64, got {tensor.dtype}: cast it first",
        )
    finite(**given)


def _check_positive(**given: float) -> None:
    """Numbers above zero whose products do not vanish."""
    numbers(**given)
    for name, value in given.items():
        require(
            value >= LEAST, f"{name} must be positive, {LEAST:g} or more, got {value}"
        )


def _values(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """f at these points, refused if it does not keep their shape."""
    is_a(Callable, f=f)
    y = f(x.clone())
    _check_doubles(**{"f(x)": y})
    require(
        y.shape == x.shape,
        f"f(x) must have the shape of x, {tuple(x.shape)}, got {tuple(y.shape)}",
    )
    return y


# --- objects: what the tests run the theorems on


def narrow_window(n: int) -> patterns.Pattern:
    """Every token reads itself and its two neighbours."""
    return patterns.window(n, 3)


PATTERNS = {
    "dense": patterns.dense,
    "star": patterns.star,
    "strided": patterns.strided,
    "fixed": patterns.fixed,
    "window": narrow_window,
}


def mixing(x: Tensor) -> Tensor:
    """A target that mixes all tokens; its entries change by at most 7.6 |x - x'|."""
    mean = x.mean((-2, -1), keepdim=True)
    return torch.sin(2 * math.pi * x) * mean + 0.3 * x.roll(-1, -2)


STEEPEST = 2 * math.pi + 1.3  # of mixing, in the largest entry
LARGEST = 1.3


def network_of(pattern="dense", n=3, d=1, K=4) -> dict:
    """The network of a pattern, for the target that mixes."""
    return {"network": approximate(mixing, n, d, K, PATTERNS[pattern](n))}


def scores_with_a_lead(n=5, winners=1, lead=0.5, scale=20.0) -> dict:
    """Winners with equal scores, and others that all lie so far behind."""
    scores = torch.ones(n, dtype=double)
    scores[:winners] += lead
    group = torch.arange(n) < winners
    return {"scores": scores, "group": group, "scale": scale}


def corners(cuts=(-0.5, 0.5), slope=0.0, offset=1.0, ramp=0.25) -> dict:
    """A jump: two cuts, a line between them, and the width of the ramps."""
    return {"cuts": cuts, "slope": slope, "offset": offset, "ramp": ramp}


def built(pattern="strided", n=3, K=3, inputs=60, seed=0) -> dict:
    """A network, its target, and random inputs of the cube."""
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(inputs, n, 1, dtype=double, generator=g)
    network = network_of(pattern, n, 1, K)["network"]
    return {"network": network, "f": mixing, "x": x}


def first_entry(x: Tensor) -> Tensor:
    """f(x) = x."""
    return x


def tent(x: Tensor) -> Tensor:
    """The distance from 0.3."""
    return (x - 0.3).abs()


def wave(x: Tensor) -> Tensor:
    """sin(9 x) / 9."""
    return torch.sin(9 * x) / 9


def function_on_a_line(f=first_entry, entries=32) -> dict:
    """A function of slope at most 1 on [0, 1], and the entries of its table."""
    return {"f": f, "slope": 1.0, "entries": entries}


# --- the leak of softmax

LEAD = Case(scores_with_a_lead)


@claim(
    "universal.leak",
    cases=[
        LEAD,
        LEAD.but(n=2, scale=0.1),
        LEAD.but(n=100, winners=7, scale=3.0),
        LEAD.but(n=4, winners=4),
        LEAD.but(scale=0.0),
        LEAD.but(lead=3.0, scale=200.0),
    ],
    controls=[LEAD.but(zeta=0.6)],
)
def leak(
    scores: Tensor, group: Tensor, scale: float, *, zeta: float | None = None
) -> Verdict:
    """If the scores of a group lead all others by zeta, softmax of beta times the
    scores gives all others together at most (n - 1) e^(-beta zeta).

    Measured: what the others get, over the bound.

    Args:
        scores: (n,) float64.
        group: (n,) boolean, True = in the group.
        scale: beta, at least 0.
        zeta: what the lead is said to be, and not compared with the scores; None for
            the lead that the group has.

    Claim: universal.leak
    Page: notebooks/sparse_universality/from_integers_to_softmax
    """
    _check_doubles(scores=scores)
    is_tensor("group", group)
    require(scores.dim() == 1, f"scores must be (n,), got {tuple(scores.shape)}")
    n = len(scores)
    require(
        group.dtype == torch.bool and group.shape == scores.shape,
        f"group must be boolean and as long as scores, got {group.dtype} "
        f"{tuple(group.shape)} for scores {tuple(scores.shape)}",
    )
    require(group.any(), "group must not be empty")
    numbers(scale=scale)
    reach = float(scores.abs().max())
    require(
        scale >= 0 and scale * max(reach, 1.0) <= 1e12,
        "scale must be at least 0, and at most 1e12, also times the scores: beyond, "
        f"float64 says nothing; got {scale:.3g} for scores up to {reach:.3g}",
    )
    if zeta is not None:
        _check_positive(zeta=zeta)
    share = _share_of_others(scores, group, scale)
    if group.all():
        return at_most(share, 0.0)
    lead = float(scores[group].min() - scores[~group].max())
    require(lead > 0, f"group must lead the others, its lead is {lead:.3g}")
    spare = 1 + 16 * EPS * (1 + scale * reach)
    if share == 0:
        return at_most(0.0, spare)
    zeta = lead if zeta is None else zeta
    times = math.log(share) - math.log(n - 1) + scale * zeta  # in logarithms
    return at_most(math.exp(min(times, 700.0)), spare)


def _share_of_others(scores: Tensor, group: Tensor, scale: float) -> float:
    """By an attention layer whose query is 1 and whose keys are the scores."""
    tokens = torch.stack([torch.ones_like(scores), scores], 1)
    query, key = torch.eye(2, dtype=double)[:, :, None]
    row = attention_matrix(tokens, query, key, scale=scale)[0]
    return float(row[~group].sum())


# --- how sharp softmax must be

NETWORK = Case(network_of, {"pattern": "window"})


@claim(
    "universal.temperature",
    cases=[
        NETWORK,
        NETWORK.but(part=1e-3),
        NETWORK.but(pattern="dense"),
        NETWORK.but(pattern="star", n=4, K=3),
        NETWORK.but(pattern="fixed", n=4, K=3),
        NETWORK.but(pattern="strided", d=2, K=2),
    ],
    controls=[NETWORK.but(scale=20.0)],
)
def temperature(
    network: UniversalNetwork, *, scale: float | None = None, part: float = 1.0
) -> Verdict:
    """At an inverse temperature of at least (14.8) the softmax network keeps every id
    of every grid input within 1/8 of its integer.

    With 32/9 ln(1/tau) more it keeps them within tau/8. Measured: the largest distance
    of an id from its integer. Float64 is an image of exact arithmetic up to 2^-40 of
    the largest id.

    Args:
        network: of approximate, with positions.
        scale: beta, which is not compared with (14.8); None for that, and what tau
            adds.
        part: tau, above 0 and at most 1.

    Claim: universal.temperature
    Page: notebooks/sparse_universality/from_integers_to_softmax
    """
    mapping = _check_network(network)
    _check_positive(part=part)
    require(part <= 1, f"part must be at most 1, got {part}")
    if scale is None:
        scale = enough_scale(mapping) + 32 / 9 * math.log(1 / part)
    _check_positive(scale=scale)
    parts = [s for s in standard(network) if s.kind in ("quantise", "attention")]
    z = run_standard(_centres(mapping), parts, mapping, scale=scale)
    u = torch.tensor([mapping.cells**i for i in range(mapping.d)], dtype=double)
    got = (mapping.cells * z @ u).flatten()
    idents = [float(ident) for ident, _, _ in value_layers(network)]
    wanted = torch.tensor(idents, dtype=double)
    off = (got - wanted).abs().max()
    return at_most(off, part / 8 + float(wanted.max()) * 2**-40)


def _centres(mapping: ContextualMap) -> Tensor:
    """(K^(n d), n, d): the centres of all cells, in the order of value_layers."""
    n, d, K = mapping.n, mapping.d, mapping.cells
    index = torch.arange(mapping.size**n)
    powers = [mapping.size ** (n - 1 - j) for j in range(n)]
    rows = index[:, None] // torch.tensor(powers) % mapping.size
    digits = rows[..., None] // torch.tensor([K**i for i in range(d)]) % K
    return (digits.to(double) + 0.5) / K


# --- four ReLUs for a jump


JUMP = Case(corners)


@claim(
    "universal.ramps",
    cases=[
        JUMP,
        JUMP.but(ramp=2**-6),
        JUMP.but(ramp=1.0),
        JUMP.but(cuts=(1.0, 2.0), slope=-1.0),
        JUMP.but(cuts=(-1.0, 1.5), slope=2.0, offset=-3.0),
    ],
    broken={"half of the ramps": {"_share": 0.5}},
)
def ramps(
    cuts: tuple[float, float], slope: float, offset: float, ramp: float, *, _share=1.0
) -> Verdict:
    """Four ReLUs are a x + b on [c_1, c_2) and 0 elsewhere, except on the ramps
    [c_1 - e, c_1) and (c_2 - e, c_2).

    Measured: the largest error off the ramps, at 4,001 points and 401 around each cut,
    over the largest number that a hidden unit contributes; 2e-14 is 90 eps.

    Args:
        cuts: c_1 < c_2.
        slope, offset: a and b.
        ramp: e.

    Claim: universal.ramps
    Page: notebooks/sparse_universality/from_integers_to_softmax
    """
    one = torch.ones(1, dtype=double)
    mlp = ramp_mlp(one, one, cuts, slope, offset, ramp)
    low, high = map(float, cuts)
    furthest = max(abs(low), abs(high))
    require(
        max(furthest, abs(slope), abs(offset)) <= 1e100 and ramp >= 1e-9 * furthest,
        f"ramp must be at least a billionth of the larger cut, got {ramp}, and no "
        "number above 1e100: beyond, float64 says nothing",
    )
    width = _share * ramp
    x = torch.linspace(low - 2 * ramp, high + 2 * ramp, 4001, dtype=double)
    near = ramp * torch.linspace(-2, 2, 401, dtype=double)
    x = torch.cat([x, low + near, high + near])
    inside = (x >= low) & (x < high)
    jump = torch.where(inside, slope * x + offset, 0.0)
    rising = (x >= low - width) & (x < low)
    falling = (x > high - width) & (x < high)
    off = (feed_forward(x[:, None], mlp)[:, 0] - jump).abs()
    size = float(((furthest + 2 * ramp) * mlp.w_2).abs().max()) + abs(offset)
    worst = off[~(rising | falling)].max()
    return at_most(worst / size if size else worst, 2e-14)


# --- universality in the mean

Block = tuple[Layer | None, Mlp | None]


def blocks_of(
    sublayers: Sequence[Sublayer], mapping: ContextualMap, *, padded: bool = True
) -> list[Block]:
    """The sublayers as blocks of a Transformer in the units of its input: attention,
    then a feed-forward part, each with its skip; block t attends by step t mod p.

    With padded, blocks that do nothing fill up to a multiple of p before the first that
    attends.
    """
    K = mapping.cells
    blocks = []
    for sublayer in sublayers:
        layer, mlp = sublayer.layer, sublayer.mlp
        if mlp is not None:
            mlp = mlp._replace(w_1=K * mlp.w_1, w_2=mlp.w_2 / K)
        else:
            w_q, w_k, w_v = (K * w for w in (layer.w_q, layer.w_k, layer.w_v))
            layer = layer._replace(w_q=w_q, w_k=w_k, w_v=w_v, w_o=layer.w_o / K)
            if not any(attention for attention, _ in blocks):
                idle = -len(blocks) % mapping.period if padded else 0
                blocks += [(None, None)] * idle
        blocks.append((layer, mlp))
    return blocks


def run_blocks(
    x: Tensor, blocks: Sequence[Block], mapping: ContextualMap, *, scale: float
) -> Tensor:
    """What a Transformer of these blocks gives at inverse temperature `scale`; only
    position codes are added to x.
    """
    codes = torch.tensor(mapping.codes, dtype=x.dtype)
    z = x + codes[:, None]
    for t, (layer, mlp) in enumerate(blocks):
        if layer is not None:
            mask = torch.from_numpy(mapping.masks[t % mapping.period])
            z = forward(z, [layer], skip=True, mask=mask, scale=scale)
        if mlp is not None:
            z = z + feed_forward(z, mlp)
    return z


MEAN = Case(built, called_with={"slope": STEEPEST, "largest": LARGEST, "ramp": 0.05})


@claim(
    "universal.lp",
    cases=[
        MEAN,
        MEAN.but(pattern="window", K=4),
        MEAN.but(pattern="star", n=4),
        MEAN.but(ramp=1e-3, seed=1),
    ],
    broken={
        "no clamps": {"_clamped": False},
        "wrong step": {"_padded": False},
    },
)
def in_the_mean(
    network: UniversalNetwork,
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    slope: float,
    largest: float,
    ramp: float = 1e-3,
    _clamped=True,
    _padded=True,
) -> Verdict:
    """Under conditions 1 to 3 a network of softmax and ReLUs with this pattern comes as
    near to a continuous f as one likes, in L^q with 1 <= q < infinity.

        |g - f| <= omega_f(1 / 2K) + 1 / 8K   off the ramps
        |g - f| <= 2 max |f|                  on them, 1 - (1 - e)^(d n) of the cube

    Measured: the largest error over its bound, at beta of (14.8), cut at 1e9.

    Args:
        network: of approximate, for f.
        f: the target, (*batch, n, d) to itself.
        x: (*batch, n, d) float64, inputs in [0, 1).
        slope: f changes by at most slope times |x - x'|, in largest entries.
        largest: at least max |f|, where the clamps are.
        ramp: e of the quantiser.

    Claim: universal.lp
    Page: notebooks/sparse_universality/from_integers_to_softmax
    """
    mapping = _check_network(network)
    _check_doubles(x=x)
    got = tuple(x.shape)
    require(
        len(got) >= 2 and 0 not in got,
        f"x must be (*batch, n, d), and not empty, got {got}",
    )
    _check_positive(slope=slope, largest=largest, ramp=ramp)
    require(
        ramp >= 1e-9,
        f"ramp must be at least 1e-9, got {ramp}: below, float64 says nothing",
    )
    wanted = _values(f, x)
    top = float(wanted.abs().max())
    require(top <= largest, f"largest must be at least |f(x)|, which is {top:.3g} here")
    network(x)  # refuses inputs that do not fit
    sublayers = standard(network, ramp=ramp, clamp=largest if _clamped else None)
    blocks = blocks_of(sublayers, mapping, padded=_padded)
    y = run_blocks(x, blocks, mapping, scale=enough_scale(mapping))
    place = mapping.cells * x
    on_ramp = (place - place.floor() > 1 - ramp).any(-1).any(-1)
    off = (y - wanted).abs().flatten(-2).amax(-1)
    near = slope / (2 * mapping.cells) + 1 / (8 * mapping.cells)
    ratio = torch.where(on_ramp, off / (2 * largest), off / near).max()
    return at_most(ratio.clamp(max=1e9), 1 + 1e-6)


# --- the order of the value layers


SMALLEST = Case(network_of, {"pattern": "dense", "n": 2, "d": 1, "K": 2})


@claim(
    "universal.order",
    cases=[
        SMALLEST,
        NETWORK,
        NETWORK.but(pattern="star", n=4, K=3),
        NETWORK.but(pattern="strided", n=2, d=2, K=2),
    ],
    broken={
        "increasing": {"_order": "increasing"},
        "grid": {"_order": "grid"},
        "ramps of 1/2": {"_ramp": 0.5},
    },
)
def order_of_layers(
    network: UniversalNetwork, *, _order="decreasing", _ramp=0.25
) -> Verdict:
    """With value layers by decreasing id and ramps of 1/4, all hidden units of a layer
    are zero at every token but the one that it serves.

    Measured: the largest hidden unit at a token that is not served, over all layers,
    all tokens of all grid inputs, and ids 1/8 too large and 1/8 too small.

    Claim: universal.order
    Page: notebooks/sparse_universality/from_integers_to_softmax
    """
    mapping = _check_network(network)
    sublayers = standard(network, order=_order, value_ramp=_ramp)
    rows = []
    largest = 0.0
    u = torch.tensor([mapping.cells**i for i in range(mapping.d)], dtype=double)
    for _, row, target in value_layers(network, _order):
        rows.append([float(entry) for entry in row])
        largest = max(largest, mapping.cells * abs(float(target.to(double) @ u)))
    least = int(network.ids.min())
    require(
        largest + 1 <= least,
        f"network: a wanted row has |u . A| = {largest:.4g}, and the least id is "
        f"{least}: it must be larger by 1",
    )
    layers = [s.mlp for s in sublayers if s.kind == "value"]
    worst = 0.0
    for error in (-0.125, 0.125):
        z = torch.tensor(rows, dtype=double)
        z[:, 0] += error
        for served, mlp in enumerate(layers):
            hidden = torch.relu(z @ mlp.w_1 + mlp.b_1).amax(-1)
            hidden[served] = 0.0
            worst = max(worst, float(hidden.max()))
            z[served] += feed_forward(z[served][None], mlp)[0]
    return at_most(worst, 0)


# --- a prompt that is a table


def frozen_head(beta: float) -> Layer:
    """The head that reads tables, and knows nothing of any function: from tokens
    (x, x^2, v) it takes the logits beta (2 x x_j - x_j^2) and the value v.
    """
    w_q = torch.zeros(1, 3, 2, dtype=double)
    w_q[0, 0, 0] = 2 * beta
    w_k = torch.zeros(1, 3, 2, dtype=double)
    w_k[0, 0, 0] = w_k[0, 1, 1] = 1.0
    value = torch.zeros(1, 3, 1, dtype=double)
    value[0, 2, 0] = 1.0
    b_q = torch.tensor([[0.0, -beta]], dtype=double)
    return Layer(w_q, w_k, value, value.mT, b_q=b_q)


def read_table(
    x: Tensor, places: Tensor, values: Tensor, beta: float, *, squares: bool = True
) -> Tensor:
    """What the frozen head returns to each query x, (m,), with the table of places and
    values, both (G,), as its prompt; perhaps without the squares of the places.
    """
    G = len(places)
    second = places**2 if squares else torch.zeros_like(places)
    prompt = torch.stack([places, second, values], 1)
    queries = torch.stack([x, torch.zeros_like(x), torch.zeros_like(x)], 1)
    tokens = torch.cat([prompt, queries])
    reads = torch.zeros(len(tokens), len(tokens), dtype=torch.bool)
    reads[:, :G] = True  # all read the prompt, and nothing else
    return forward(tokens, [frozen_head(beta)], mask=reads, scale=1.0)[G:, 2]


def places_of(entries: int) -> Tensor:
    """The centres of so many equal parts of [0, 1]."""
    return (torch.arange(entries, dtype=double) + 0.5) / entries


TABLE = Case(function_on_a_line)


@claim(
    "universal.prompt",
    cases=[
        TABLE,
        TABLE.but(f=tent),
        TABLE.but(f=wave, entries=9),
        TABLE.but(f=tent, sharpness=1.0),
        TABLE.but(entries=1),
        TABLE.but(f=wave, sharpness=30.0),
    ],
    controls=[TABLE.but(sharpness=0.04)],
    broken={"no squares": {"_squares": False}},
)
def prompt(
    f: Callable[[Tensor], Tensor],
    entries: int,
    *,
    slope: float,
    sharpness: float = 4.0,
    _squares=True,
) -> Verdict:
    """One frozen head serves every function of slope at most L on [0, 1], if its prompt
    is the table of the function at the centres of G parts.

        error <= L h (1/2 + e^(-2 beta h^2)),   h = 1 / G

    Measured: the largest error at 64 points to a part and one, in units of L h.

    Args:
        f: (m,) float64 to (m,), a number for each.
        entries: G, at most 512.
        slope: L.
        sharpness: beta h^2, at most 1e6; below 1 the bound for 1 is asked for.

    Claim: universal.prompt
    Page: notebooks/sparse_universality/from_integers_to_softmax
    """
    sizes(1, entries=entries)
    require(entries <= MOST_ENTRIES, f"entries must be at most 512, got {entries}")
    _check_positive(slope=slope, sharpness=sharpness)
    require(sharpness <= 1e6, f"sharpness must be at most 1e6, got {sharpness}")
    h = 1 / entries
    places = places_of(entries)
    x = torch.linspace(0, 1, 64 * entries + 1, dtype=double)
    table = _values(f, places)
    wanted = _values(f, x)
    steepest = float((wanted.diff().abs() / x.diff()).max())
    require(
        steepest <= slope * (1 + 1e-6),
        f"slope must be at least that of f, which reaches {steepest:.4g}, got {slope}",
    )
    worst = 0.0
    for queries, truth in zip(x.split(1024), wanted.split(1024)):
        beta = sharpness / h**2
        got = read_table(queries, places, table, beta, squares=_squares)
        worst = max(worst, float((got - truth).abs().max()))
    bound = 0.5 + math.exp(-2 * max(sharpness, 1.0))
    return at_most(worst / (slope * h), bound + 1e-9)
