"""The claims of the page `From integers to softmax`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib import patterns
from attnlib._require import (
    finite,
    is_a,
    is_list,
    is_tensor,
    numbers,
    one_of,
    require,
    sizes,
)
from attnlib.attention import Layer, Mlp, attention_matrix, feed_forward, forward
from attnlib.certify import Verdict, at_most
from attnlib.universal import (
    ContextualMap,
    Sublayer,
    UniversalNetwork,
    approximate,
    contextual_map,
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
MOST = 1e200  # of a number: its products stay finite


# --- doors


def _check_network(network: UniversalNetwork) -> ContextualMap:
    """A network with positions, and not too many inputs; its integers."""
    is_a(UniversalNetwork, network=network)
    mapping = network.mapping
    finite(**{"network.values": network.values})
    require(
        bool(mapping.path),
        "network has no positions: the statement is about a sweep along a path",
    )
    count = len(network.ids)
    require(
        count <= MOST_INPUTS,
        f"network has {count:,} grid inputs, more than {MOST_INPUTS:,}: all are run",
    )
    return mapping


def _check_doubles(**given) -> None:
    """Tensors of float64 without NaN or infinity."""
    for name, tensor in given.items():
        is_tensor(name, tensor)
        require(
            tensor.dtype == double,
            f"{name} must be float64, got {tensor.dtype}: cast it first",
        )
    finite(**given)


def _check_numbers(**given) -> None:
    """Numbers whose products neither overflow nor vanish."""
    numbers(**given)
    for name, value in given.items():
        require(
            value == 0 or 1 / MOST <= abs(value) <= MOST,
            f"{name} must be 0 or from {1 / MOST:.0e} to {MOST:.0e} in absolute value: "
            "beyond, float64 says nothing",
        )


def _check_positive(**given) -> None:
    """Numbers above zero whose products neither overflow nor vanish."""
    _check_numbers(**given)
    for name, value in given.items():
        require(value > 0, f"{name} must be positive, got {value}")


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


def one_leader() -> Verdict:
    """Four others at a distance of 10: they get b / (1 + b) with b = 4 e^-10, which is
    0.000181567 by hand.

    Measured: the distance from that number.
    """
    objects = scores_with_a_lead(5, scale=20.0)
    leaked = _share_of_others(**objects)
    return at_most(abs(leaked - 0.00018156674658), 1e-14)


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
    controls=[LEAD.but(claimed=0.6)],
    witness=one_leader,
)
def leak(
    scores: Tensor, group: Tensor, scale: float, *, claimed: float | None = None
) -> Verdict:
    """If the scores of a group lead all others by zeta, softmax of beta times the
    scores gives all others together at most (n - 1) e^(-beta zeta).

    Hypotheses: zeta > 0, beta >= 0, a nonempty group.
    Measured: what the others get, over the bound.

    Args:
        scores: (n,) float64.
        group: (n,) boolean, True = in the group.
        scale: beta, at least 0.
        claimed: another zeta, for the bound; None for the lead that the group has.

    Returns:
        Verdict; its bound is 1, and rounding.

    Raises:
        ValueError: for an empty group, and one that does not lead.

    Claim: universal.leak
    Page: notebooks/sparse_universality/from_integers_to_softmax
    """
    _check_doubles(scores=scores)
    is_tensor("group", group)
    got = tuple(scores.shape)
    require(len(got) == 1, f"scores must be one row (n,), got {got}")
    n = len(scores)
    require(
        group.dtype == torch.bool and group.shape == scores.shape == (n,),
        f"group must be boolean and as long as scores, got {group.dtype} "
        f"{tuple(group.shape)} for scores {tuple(scores.shape)}",
    )
    require(bool(group.any()), "group must not be empty")
    _check_numbers(scale=scale)
    require(scale >= 0, f"scale must be at least 0, got {scale}")
    scale = float(scale)
    reach = float(scores.abs().max())
    require(
        reach <= MOST and scale * reach <= 1e12,
        f"scores must be at most {MOST:.0e}, and at most 1e12 times scale: beyond, "
        f"float64 says nothing; got {reach:.3g}, scale {scale:.3g}",
    )
    if claimed is not None:
        _check_positive(claimed=claimed)
    if group.all():
        return at_most(_share_of_others(scores, group, scale), 0.0)
    zeta = _lead(scores, group)
    require(zeta > 0, f"group must lead the others, its lead is {zeta:.3g}")
    if claimed is not None:
        zeta = float(claimed)
    spare = 1 + 16 * EPS * (1 + scale * reach)
    share = _share_of_others(scores, group, scale)
    if share == 0:
        return at_most(0.0, spare)
    times = math.log(share) - math.log(n - 1) + scale * zeta  # in logarithms
    return at_most(math.exp(min(times, 700.0)), spare)


def _lead(scores: Tensor, group: Tensor) -> float:
    return float(scores[group].min() - scores[~group].max())


def _share_of_others(scores: Tensor, group: Tensor, scale: float) -> float:
    """By an attention layer whose query is 1 and whose keys are the scores."""
    tokens = torch.stack([torch.ones_like(scores), scores], 1)
    query, key = torch.eye(2, dtype=double)[:, :, None]
    row = attention_matrix(tokens, query, key, scale=scale)[0]
    return float(row[~group].sum())


# --- how sharp softmax must be

LITERAL_SCALES = {  # (17.1) for pattern, n, K: 32/9 ln of an integer, by Decimal
    ("dense", 2, 2): 50.541937899933,
    ("window", 3, 4): 144.672387600711,
    ("fixed", 4, 3): 157.620308871380,
}


def scales_in_numbers() -> Verdict:
    """(17.1) is 50.54, 144.67 and 157.62 for three maps; and the smallest example moves
    to 4 tanh(beta / 2).

    The first numbers are 32/9 ln of 1,490,944, of 468,873,316,454,400,000 and of
    17,888,896,197,121,277,952.

    Measured: the largest distance from these numbers.
    """
    worst = 0.0
    for (name, n, K), wanted in LITERAL_SCALES.items():
        numbers_of = contextual_map(PATTERNS[name](n), n, 1, K)
        worst = max(worst, abs(enough_scale(numbers_of) - wanted))
    network = network_of("dense", 2, 1, 2)["network"]
    parts = [s for s in standard(network) if s.kind in ("quantise", "attention")]
    x = torch.tensor([[0.25], [0.25]], dtype=double)  # ids 2 and 0
    first = next(i for i, s in enumerate(parts) if s.kind == "attention")
    for beta, by_hand in ((math.log(9), 3.2), (math.log(99), 3.92)):
        z = run_standard(x, parts[: first + 1], network.mapping, scale=beta)
        worst = max(worst, abs(2 * float(z[1, 0]) - by_hand))
    return at_most(worst, 1e-9)


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
    witness=scales_in_numbers,
)
def temperature(
    network: UniversalNetwork, *, scale: float | None = None, part: float = 1.0
) -> Verdict:
    """At an inverse temperature of at least (17.1) the softmax network keeps every id
    of every grid input within 1/8 of its integer.

    With 32/9 ln(1/tau) more it keeps them within tau/8.

    Hypotheses: conditions 1 to 3, grid inputs; exact arithmetic, of which float64 is
    an image up to 2^-40 of the largest id.
    Measured: the largest distance of an id from its integer.

    Args:
        network: of approximate, with positions.
        scale: beta, the inverse temperature; None for (17.1) and what tau adds.
        part: tau, above 0 and at most 1.

    Returns:
        Verdict; its bound is tau/8, and rounding.

    Claim: universal.temperature
    Page: notebooks/sparse_universality/from_integers_to_softmax
    """
    mapping = _check_network(network)
    _check_positive(part=part)
    require(part <= 1, f"part must be at most 1, got {part}")
    if scale is not None:
        _check_positive(scale=scale)
    if scale is None:
        scale = enough_scale(mapping) + 32 / 9 * math.log(1 / part)
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


def a_window_by_hand() -> Verdict:
    """The window of the id 0 with ramps of 1/4, at six points, by hand.

    Measured: the largest difference.
    """
    one = torch.ones(1, dtype=double)
    x = torch.tensor([[-0.75], [-0.625], [-0.5], [0.25], [0.375], [0.5]], dtype=double)
    y = feed_forward(x, ramp_mlp(one, one, (-0.5, 0.5), 0.0, 1.0, 0.25)).flatten()
    wanted = torch.tensor([0, 0.5, 1, 1, 0.5, 0], dtype=double)
    return at_most((y - wanted).abs().max(), 0)


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
    controls=[JUMP.but(claimed=0.125)],
    witness=a_window_by_hand,
)
def ramps(
    cuts: tuple[float, float],
    slope: float,
    offset: float,
    ramp: float,
    *,
    claimed: float | None = None,
) -> Verdict:
    """Four ReLUs are a x + b on [c_1, c_2) and 0 elsewhere, except on the ramps
    [c_1 - e, c_1) and (c_2 - e, c_2).

    Hypotheses: 0 < e <= c_2 - c_1.
    Measured: the largest error off the ramps, at 4,001 points and 401 around each cut,
    over the largest number that a hidden unit contributes.

    Args:
        cuts: c_1 < c_2.
        slope, offset: a and b.
        ramp: e.
        claimed: another width, for what is left out; None for e.

    Returns:
        Verdict; its bound is 2e-14, 90 eps.

    Claim: universal.ramps
    Page: notebooks/sparse_universality/from_integers_to_softmax
    """
    _check_numbers(slope=slope, offset=offset)
    one = torch.ones(1, dtype=double)
    mlp = ramp_mlp(one, one, cuts, slope, offset, ramp)
    low, high = map(float, cuts)
    _check_numbers(**{"cuts[0]": low, "cuts[1]": high})
    require(
        ramp >= 1e-9 * max(abs(low), abs(high)),
        f"ramp must be at least a billionth of the larger cut, got {ramp}: below, "
        "float64 says nothing",
    )
    width = ramp
    if claimed is not None:
        _check_positive(claimed=claimed)
        width = claimed
    x = torch.linspace(low - 2 * ramp, high + 2 * ramp, 4001, dtype=double)
    near = ramp * torch.linspace(-2, 2, 401, dtype=double)
    x = torch.cat([x, low + near, high + near])
    inside = (x >= low) & (x < high)
    jump = torch.where(inside, slope * x + offset, 0.0)
    rising = (x >= low - width) & (x < low)
    falling = (x > high - width) & (x < high)
    off = (feed_forward(x[:, None], mlp)[:, 0] - jump).abs()
    reach = max(abs(low), abs(high)) + 2 * ramp
    size = float((reach * mlp.w_2).abs().max()) + abs(offset)
    worst = off[~(rising | falling)].max()
    return at_most(worst / size if size else worst, 2e-14)


# --- universality in the mean

Block = tuple[Layer | None, Mlp | None]


def blocks_of(
    sublayers: Sequence[Sublayer], mapping: ContextualMap, *, padded: bool = True
) -> list[Block]:
    """The sublayers as blocks of a Transformer in the units of its input: attention,
    then a feed-forward part, each with its skip; block t attends by step t mod p.

    Args:
        sublayers: of standard.
        mapping: network.mapping.
        padded: before the first attention layer, fill up to a multiple of p with blocks
            that do nothing.

    Returns:
        list of pairs (Layer or None, Mlp or None).
    """
    is_a(ContextualMap, mapping=mapping)
    is_list(sublayers=sublayers)
    for sublayer in sublayers:
        is_a(Sublayer, **{"each of sublayers": sublayer})
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
    """What a Transformer of these blocks gives; only position codes are added to x.

    Args:
        x: (*batch, n, d).
        blocks: of blocks_of.
        mapping: network.mapping.
        scale: beta, the inverse temperature.

    Returns:
        (*batch, n, d).
    """
    is_a(ContextualMap, mapping=mapping)
    _check_doubles(x=x)
    codes = torch.tensor(mapping.codes, dtype=x.dtype)
    z = x + codes[:, None]
    for t, (layer, mlp) in enumerate(blocks):
        if layer is not None:
            mask = torch.from_numpy(mapping.masks[t % mapping.period])
            z = forward(z, [layer], skip=True, mask=mask, scale=scale)
        if mlp is not None:
            z = z + feed_forward(z, mlp)
    return z


def clamps_cut_at_the_bound() -> Verdict:
    """On a ramp of its quantiser the network throws out a raw id of thousands of cells;
    clamps at 1.3 cut it to 1.3, and not to more.

    Measured: the distance from 1.3, or 1 if the raw output is below 100.
    """
    network = network_of("dense")["network"]
    mapping = network.mapping
    x = torch.tensor([[[0.2475], [0.3], [0.6]]], dtype=double)  # 0.99 of a cell
    how = {"ramp": 0.05}
    raw = run_standard(x, standard(network, **how), mapping, scale=100.0)
    cut = run_standard(x, standard(network, clamp=1.3, **how), mapping, scale=100.0)
    if float(raw.abs().max()) < 100:
        return at_most(1.0, 1e-6)
    return at_most(abs(float(cut.abs().max()) - 1.3), 1e-6)


MEAN = Case(built, called_with={"slope": STEEPEST, "largest": LARGEST, "ramp": 0.05})


@claim(
    "universal.lp",
    cases=[
        MEAN,
        MEAN.but(pattern="window", K=4),
        MEAN.but(pattern="star", n=4),
        MEAN.but(ramp=1e-3, seed=1),
    ],
    controls=[MEAN.but(clamped=False), MEAN.but(padded=False)],
    witness=clamps_cut_at_the_bound,
)
def in_the_mean(
    network: UniversalNetwork,
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    slope: float,
    largest: float,
    ramp: float = 1e-3,
    clamped: bool = True,
    padded: bool = True,
) -> Verdict:
    """Under conditions 1 to 3 a network of softmax and ReLUs with this pattern comes as
    near to a continuous f as one likes, in L^q with 1 <= q < infinity.

        |g - f| <= omega_f(1 / 2K) + 1 / 8K   off the ramps
        |g - f| <= 2 max |f|                  on them, 1 - (1 - e)^(d n) of the cube

    Hypotheses: blocks of attention and a feed-forward part in turn, block t attends by
    step t mod p; query biases are allowed; inputs in the cube, after scaling.
    Measured: the largest error over its bound, at beta of (17.1).

    Args:
        network: of approximate, for f.
        f: the target, (*batch, n, d) to itself.
        x: (*batch, n, d) float64, inputs in [0, 1).
        slope: f changes by at most slope times |x - x'|, in largest entries.
        largest: at least max |f|, where the clamps are.
        ramp: e of the quantiser.
        clamped: False leaves the clamps out.
        padded: False lets the sweep begin at whatever step comes.

    Returns:
        Verdict; its bound is 1, and rounding; the ratio is cut at 1e9.

    Raises:
        ValueError: if f(x) is larger than `largest`.

    Claim: universal.lp
    Page: notebooks/sparse_universality/from_integers_to_softmax
    """
    mapping = _check_network(network)
    is_a(Callable, f=f)
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
    wanted = f(x.clone())
    _check_doubles(**{"f(x)": wanted})
    require(wanted.shape == x.shape, f"f(x) must have the shape of x, {tuple(x.shape)}")
    top = float(wanted.abs().max())
    require(top <= largest, f"largest must be at least |f(x)|, which is {top:.3g} here")
    network(x)  # refuses inputs that do not fit
    sublayers = standard(network, ramp=ramp, clamp=largest if clamped else None)
    blocks = blocks_of(sublayers, mapping, padded=padded)
    y = run_blocks(x, blocks, mapping, scale=enough_scale(mapping))
    place = mapping.cells * x
    on_ramp = (place - place.floor() > 1 - ramp).any(-1).any(-1)
    off = (y - wanted).abs().flatten(-2).amax(-1)
    near = slope / (2 * mapping.cells) + 1 / (8 * mapping.cells)
    ratio = torch.where(on_ramp, off / (2 * largest), off / near).max()
    return at_most(ratio.clamp(max=1e9), 1 + 1e-6)


# --- the order of the value layers


def tokens_that_wait() -> Verdict:
    """Layers for the ids 5, 9, 2 in this order: at the token of id 9 the first layer
    has a hidden unit of 9 - 5 + 3/4 = 4.75.

    Measured: the distance from that number.
    """
    one = torch.ones(1, dtype=double)
    mlp = ramp_mlp(one, one, (4.5, 5.5), 0.0, 1.0, 0.25)
    hidden = torch.relu(torch.tensor([[9.0]], dtype=double) @ mlp.w_1 + mlp.b_1)
    return at_most(abs(float(hidden.max()) - 4.75), 0)


SMALLEST = Case(network_of, {"pattern": "dense", "n": 2, "d": 1, "K": 2})


@claim(
    "universal.order",
    cases=[
        SMALLEST,
        NETWORK,
        NETWORK.but(pattern="star", n=4, K=3),
        NETWORK.but(pattern="strided", n=2, d=2, K=2),
    ],
    controls=[
        SMALLEST.but(order="increasing"),
        SMALLEST.but(order="grid"),
        SMALLEST.but(value_ramp=0.5),
    ],
    witness=tokens_that_wait,
)
def order_of_layers(
    network: UniversalNetwork,
    *,
    order: str = "decreasing",
    value_ramp: float = 0.25,
) -> Verdict:
    """With value layers by decreasing id and ramps of 1/4, all hidden units of a layer
    are zero at every token but the one that it serves.

    Hypotheses: ids within 1/8 of their integers, and |u . A| + 1 at most every id, for
    each wanted row A.
    Measured: the largest hidden unit at a token that is not served, over all layers,
    all tokens of all grid inputs, and ids 1/8 too large and 1/8 too small.

    Args:
        network: of approximate.
        order: of the value layers; "increasing" and "grid" break it.
        value_ramp: their ramp.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: if a wanted row is too large for the smallest id.

    Claim: universal.order
    Page: notebooks/sparse_universality/from_integers_to_softmax
    """
    mapping = _check_network(network)
    one_of(["decreasing", "increasing", "grid"], order=order)
    sublayers = standard(network, order=order, value_ramp=value_ramp)
    rows = []
    largest = 0.0
    u = torch.tensor([mapping.cells**i for i in range(mapping.d)], dtype=double)
    for _, row, target in value_layers(network, order):
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
    """The head that reads tables: from tokens (x, x^2, v) it takes the logits
    beta (2 x x_j - x_j^2) and the value v.

    Args:
        beta: inverse temperature.

    Returns:
        Layer of one head, which knows nothing of any function.
    """
    _check_numbers(beta=beta)
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
    """What the frozen head returns to each query x, with the table as its prompt.

    Args:
        x: (m,) float64, the queries.
        places: (G,) float64, the x_j.
        values: (G,) float64, the f(x_j).
        beta: inverse temperature.
        squares: False leaves the x_j^2 out of the prompt.

    Returns:
        (m,).
    """
    _check_doubles(x=x, places=places, values=values)
    require(
        x.dim() == 1 and places.dim() == 1 and values.shape == places.shape,
        "x must be (m,), places and values (G,), got "
        f"{tuple(x.shape)}, {tuple(places.shape)} and {tuple(values.shape)}",
    )
    G = len(places)
    second = places**2 if squares else torch.zeros_like(places)
    prompt = torch.stack([places, second, values], 1)
    queries = torch.stack([x, torch.zeros_like(x), torch.zeros_like(x)], 1)
    tokens = torch.cat([prompt, queries])
    reads = torch.zeros(len(tokens), len(tokens), dtype=torch.bool)
    reads[:, :G] = True  # all read the prompt, and nothing else
    return forward(tokens, [frozen_head(beta)], mask=reads, scale=1.0)[G:, 2]


def places_of(entries: int) -> Tensor:
    """The centres of so many equal parts of [0, 1].

    Args:
        entries: G.

    Returns:
        (G,) float64.
    """
    sizes(1, entries=entries)
    return (torch.arange(entries, dtype=double) + 0.5) / entries


def nothing_does_better() -> Verdict:
    """The distance to the nearest place and its negative have the same table, all
    zeros; so whatever reads it misses one of them by h / 2.

    And at beta h^2 = 4 the cone over a midpoint is missed by 0.50033535 h, the sum of
    (k + 1/2) e^(-4k(k+1)) over that of e^(-4k(k+1)).

    Measured: the largest distance from these two numbers.
    """
    entries = 8
    h = 1 / entries
    places = places_of(entries)
    x = torch.linspace(0, 1, 8 * entries + 1, dtype=double)
    roof = (x[:, None] - places).abs().amin(1)
    blind = read_table(x, places, torch.zeros_like(places), 4 / h**2)
    miss = torch.maximum((blind - roof).abs(), (blind + roof).abs()).max()
    middle = torch.tensor([0.5], dtype=double)  # between the fourth and the fifth
    cone = read_table(middle, places, (places - 0.5).abs(), 4 / h**2)
    off = max(abs(float(miss) / h - 0.5), abs(float(cone) / h - 0.50033535))
    return at_most(off, 1e-8)


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
    controls=[TABLE.but(sharpness=0.04), TABLE.but(squares=False)],
    witness=nothing_does_better,
)
def prompt(
    f: Callable[[Tensor], Tensor],
    entries: int,
    *,
    slope: float,
    sharpness: float = 4.0,
    squares: bool = True,
) -> Verdict:
    """One frozen head serves every function of slope at most L on [0, 1], if its prompt
    is the table of the function at the centres of G parts.

        error <= L h (1/2 + e^(-2 beta h^2)),   h = 1 / G

    Hypotheses: |f(x) - f(y)| <= L |x - y|, and beta h^2 >= 1.
    Measured: the largest error at 64 points to a part and one, in units of L h.

    Args:
        f: (m,) float64 to (m,), a number for each.
        entries: G, at most 512.
        slope: L.
        sharpness: beta h^2, at most 1e6; below 1 the bound for 1 is asked for.
        squares: False leaves the -x_j^2 out of the logits.

    Returns:
        Verdict.

    Raises:
        ValueError: for an f that is steeper than `slope`, or returns other shapes, NaN
            or infinity.

    Claim: universal.prompt
    Page: notebooks/sparse_universality/from_integers_to_softmax
    """
    is_a(Callable, f=f)
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
        got = read_table(queries, places, table, beta, squares=squares)
        worst = max(worst, float((got - truth).abs().max()))
    bound = 0.5 + math.exp(-2 * max(sharpness, 1.0))
    return at_most(worst / (slope * h), bound + 1e-9)


def _values(f: Callable, x: Tensor) -> Tensor:
    """f at these points, refused if it is no number at each."""
    y = f(x.clone())
    _check_doubles(**{"f(x)": y})
    require(
        y.shape == x.shape,
        f"f must return a number for each of {len(x)} points, got {tuple(y.shape)}",
    )
    return y
