"""The claims of the page `Five theorems, one matrix`.

Tensors are float64 and finite; anything else is refused.

Page: notebooks/synthesis/five_theorems_one_matrix
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib import patterns
from attnlib._require import (
    finite,
    fractions,
    is_a,
    is_floating,
    is_list,
    matches,
    numbers,
    require,
    sizes,
)
from attnlib.attention import Layer, check_network, forward, merged, random_layers
from attnlib.bridges import (
    cluster_logits,
    dobrushin,
    largest_dobrushin,
    needed_bits,
    needed_radius,
    radius,
    rank_floor,
)
from attnlib.certify import Verdict, at_most
from attnlib.collapse import diameter
from attnlib.lowrank import svd_surrogate
from attnlib.memorize import rank_one_layer
from attnlib.patterns import Pattern

# What rounding leaves, 4,500 eps of float64; the largest cases have 1,000 tokens.
ROUNDING = 1e-12
DOUBLE = torch.float64
MOST_IDS = 10**6
SAME = 1e-9  # ids no farther apart are one: equal ones differ by roundings


def row_error(p: Tensor, b: Tensor) -> float:
    """The largest absolute row sum of P - B."""
    return float((p - b).abs().sum(-1).max())


def _check_matrix(name: str, a) -> None:
    """One matrix (n, n) of finite numbers in float64."""
    _check_double(name, a)
    got = tuple(a.shape)
    square = len(got) == 2 and got[0] == got[1] >= 1
    require(square, f"{name} must be one square matrix (n, n), got {got}")
    finite(**{name: a})


def _check_double(name: str, a) -> None:
    """A tensor in float64: the tolerances of this page are its rounding."""
    is_floating(name, a)
    require(
        a.dtype == DOUBLE,
        f"{name} is {a.dtype}, and its rounding exceeds {ROUNDING}: cast to float64",
    )


def _check_surrogate(p, b, r) -> None:
    """A square matrix P, and another of its shape, of rank at most r < n."""
    _check_matrix("p", p)
    matches("b", b, tuple(p.shape), p, "p")
    finite(b=b)
    sizes(0, r=r)
    require(r < len(p), f"r must be from 0 to n - 1 = {len(p) - 1}, got {r}")
    found = int(torch.linalg.matrix_rank(b))
    require(found <= r, f"b must have rank at most r = {r}, got {found}")


def _check_tokens(x) -> None:
    """One sequence of tokens, (n, d), that are not all equal."""
    _check_double("x", x)
    got = tuple(x.shape)
    require(len(got) == 2 and 0 not in got, f"x must be (n, d), got {got}")
    finite(x=x)
    require(bool((x != x[0]).any()), "x must have two tokens that differ: diam(X) > 0")


def _check_leak(leak) -> None:
    """A share between 0 and 1."""
    numbers(leak=leak)
    require(0 < leak < 1, f"leak must lie in (0, 1), got {leak}")


def _check_radius(R) -> None:
    """A positive number."""
    numbers(R=R)
    require(R > 0, f"R must be positive, got {R}")


# --- rank against pattern


def block_matrix(n: int, m: int, e: float) -> Tensor:
    """n / m blocks of size m: e on the diagonal, the rest of each row spread evenly."""
    rest = (1 - e) / (m - 1)
    block = torch.full((m, m), rest, dtype=DOUBLE).fill_diagonal_(e)
    return torch.block_diag(*[block] * (n // m))


def nearest_singular(p: Tensor) -> Tensor:
    """The matrix without inverse that is nearest in row sums, 1 / |P^-1| away."""
    inverse = torch.linalg.inv(p)
    i = int(inverse.abs().sum(-1).argmax())
    signs = inverse[i].sign()
    b = p.clone()
    b[:, i] -= signs / (inverse[i] * signs).sum()
    return b


def blocks_and_surrogate(
    n=8,
    m=2,
    e=0.75,
    r=4,
    surrogate: Literal["blocks", "svd", "singular"] = "blocks",
) -> dict:
    """The blocks, and a matrix near them, of rank n / m, r, or n - 1."""
    p = block_matrix(n, m, e)
    rest = torch.full((m, m), (1 - e) / (m - 1), dtype=DOUBLE)
    if surrogate == "blocks":
        b = torch.block_diag(*[rest] * (n // m))
    elif surrogate == "svd":
        b = svd_surrogate(p, r)
    else:
        b = nearest_singular(p)
    return {"p": p, "b": b, "r": r}


def random_rows(n=8, sharp=5.0, r=2, seed=0) -> dict:
    """Softmax of Gaussian logits, and its truncated SVD."""
    g = torch.Generator().manual_seed(seed)
    logits = sharp * torch.randn(n, n, generator=g, dtype=DOUBLE)
    p = torch.softmax(logits, -1)
    return {"p": p, "b": svd_surrogate(p, r), "r": r}


def by_hand(which: Literal["lopsided", "one token"]) -> dict:
    """Two matrices whose distance from rank one is known: 1/3 and zero."""
    if which == "one token":
        p = torch.eye(4, dtype=DOUBLE)[:1].expand(4, 4)
        return {"p": p, "b": p, "r": 1}
    p = torch.tensor([[1, 0], [0.5, 0.5]], dtype=DOUBLE)
    b = torch.tensor([[1, 1 / 3], [0.5, 1 / 6]], dtype=DOUBLE)
    return {"p": p, "b": b, "r": 1}


PAIRS = Case(blocks_and_surrogate, {"m": 2})
RANDOM = Case(random_rows)
HAND = Case(by_hand, {"which": "lopsided"})


@claim(
    "synthesis.rank",
    cases=[
        PAIRS,
        PAIRS.but(n=30, m=30, e=0.6, r=1),
        HAND,
        HAND.but(which="one token"),
        RANDOM,
        RANDOM.but(r=5, seed=1),
        RANDOM.but(n=3, sharp=3.0, r=1),
    ],
    broken={"rows sum to two": {"_total": 2}},
)
def rank(p: Tensor, b: Tensor, r: int, *, _total=1) -> Verdict:
    """No matrix of rank r comes nearer to P, in row sums, than two floors allow.

        |P - B|_inf >= 2 e_{r+1} - 1  and  >= (e_1 + ... + e_j - r) / (j + r), j > r

    Measured: the larger floor minus the error of B, at most 1e-12. p and b are (n, n),
    and b has rank at most r.

    Claim: synthesis.rank
    """
    _check_surrogate(p, b, r)
    p, b = _total * p, _total * b
    floor = float(rank_floor(p, check=_total == 1)[r])
    return at_most(floor - row_error(p, b), ROUNDING)


TRIPLES = Case(blocks_and_surrogate, {"n": 12, "m": 3, "e": 0.6, "r": 4})
SINGULAR = TRIPLES.but(surrogate="singular", r=11)


@claim(
    "synthesis.blocks",
    cases=[
        SINGULAR,
        TRIPLES,
        TRIPLES.but(surrogate="svd", r=5),
        TRIPLES.but(surrogate="svd", r=7),
        TRIPLES.but(m=4, r=3),
        TRIPLES.but(m=12, r=1),
        TRIPLES.but(m=2, r=6),
        TRIPLES.but(surrogate="svd", r=9),
    ],
    broken={
        "no gain from n - q on": {"_gain": False},
        "rows sum to two": {"_total": 2},
    },
)
def blocks(p: Tensor, b: Tensor, r: int, *, _gain=True, _total=1) -> Verdict:
    """Blocks of size m are exactly this far from the matrices of rank r, from their
    number q = n / m on.

        a = (em - 1) / (m - 1)  for q <= r < n - q,   a / (1 + (m - 2) c)  from n - q on

    Measured: the distance minus the error of B, or what it exceeds of the floor of
    Theorem 24.2, (m + 1) / (m - 1) times for r = q and m >= 3, once for m = 2; the
    larger, at most 1e-12. p and b are (n, n), and b has rank at most r, q <= r < n.

    Claim: synthesis.blocks
    """
    _check_surrogate(p, b, r)
    n = len(p)
    e = float(p[0, 0])
    m = int((p[0] > 0).sum())
    require(
        m >= 2 and n % m == 0,
        f"p must be equal blocks of size m >= 2; its first row of {n} has {m} positive",
    )
    near = {"rtol": ROUNDING, "atol": ROUNDING}
    equal = torch.allclose(p, block_matrix(n, m, e), **near)
    require(equal, f"p must be {n // m} equal blocks of size {m}")
    least = 1 / m - ROUNDING
    require(e >= least, f"p must have at least 1/m on the diagonal, 1/{m}, got {e}")
    q = n // m
    require(q <= r, f"r must be from n / m = {q} to {n - 1}, got {r}")
    p, b, e = _total * p, _total * b, _total * e
    distance = (e * m - 1) / (m - 1)
    if _gain and r >= n - q:
        distance = distance / (1 + (m - 2) * (1 - e) / (m - 1))
    over = distance - row_error(p, b)
    floor = float(rank_floor(p, check=_total == 1)[r])
    if m == 2:
        over = max(over, distance - floor)
    elif r == q:
        over = max(over, distance - (m + 1) / (m - 1) * floor)
    return at_most(over, ROUNDING)


# --- logits against collapse


def halves(n=6, R=1.0, outlier=None) -> dict:
    """Two halves with logits R inside and -R across, and the tokens that attain tau."""
    half = torch.arange(n) * 2 // n
    same = half[:, None] == half
    logits = R * (2.0 * same - 1).double()
    if outlier is not None:
        logits[0, 0] = outlier
    x = (half == 0).double()[:, None]
    return {"logits": logits, "x": x, "R": R}


def two_of_eight() -> dict:
    """Two rows far apart and six equal: columns are much closer than rows."""
    logits = torch.zeros(8, 8, dtype=DOUBLE)
    logits[0] = torch.tensor([3.0] * 4 + [-3.0] * 4)
    logits[1] = -logits[0]
    x = (torch.arange(8) < 4).double()[:, None]
    return {"logits": logits, "x": x, "R": 3.0}


def gaussian_logits(n=7, seed=0) -> dict:
    """Gaussian logits and tokens; the radius is that of the logits."""
    g = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, n, generator=g, dtype=DOUBLE)
    x = torch.randn(n, 3, generator=g, dtype=DOUBLE)
    return {"logits": logits, "x": x, "R": float(radius(logits))}


HALVES = Case(halves)


@claim(
    "synthesis.logits",
    cases=[
        HALVES,
        HALVES.but(n=7),
        HALVES.but(n=2, R=0.1),
        HALVES.but(n=8, R=4.0),
        Case(two_of_eight),
        Case(gaussian_logits),
        Case(gaussian_logits, {"n": 4, "seed": 1}),
    ],
    controls=[HALVES.but(outlier=3.0)],
)
def contraction(logits: Tensor, x: Tensor, R: float) -> Verdict:
    """A layer leaves at most tau(P) of the diameter, and radius R bounds tau(P).

        diam(P X) <= tau(P) diam(X),   tau(P) <= sinh 2R / (cosh 2R + c_n) <= tanh R

    Measured: the largest excess of a left side over its right side, the first relative
    to diam(X), in the norms 1, 2 and infinity; at most 1e-12.

    Args:
        logits: (n, n), before softmax, without mask; their radius R is believed.
        x: (n, d), not all tokens equal.

    Claim: synthesis.logits
    """
    _check_matrix("logits", logits)
    _check_tokens(x)
    n = len(logits)
    require(len(x) == n, f"x must have {n} tokens as logits do, got {tuple(x.shape)}")
    _check_radius(R)
    p = torch.softmax(logits, -1)
    tau = float(dobrushin(p))
    most = largest_dobrushin(n, R)
    over = max(tau - most, most - math.tanh(R))
    for power in (1.0, 2.0, math.inf):
        before = float(torch.pdist(x, power).max())
        after = float(torch.pdist(p @ x, power).max())
        over = max(over, after / before - tau)
    return at_most(over, ROUNDING)


# --- depth


def network(seed=1, L=2, gain=0.2, n=7, size=3.0, causal=False) -> dict:
    """Gaussian tokens and layers of two heads, with biases. What is left of the tokens'
    distances lies far above the roundings.
    """
    g = torch.Generator().manual_seed(seed)
    layers = random_layers(
        L, 2, 6, 3, gain=gain, bias=True, dtype=torch.float64, generator=g
    )
    x = size * torch.randn(n, 6, dtype=DOUBLE, generator=g)
    mask = torch.ones(n, n, dtype=torch.bool).tril() if causal else None
    return {"x": x, "layers": layers, "mask": mask}


def halves_in_depth(n=6, R=1.0, L=3) -> dict:
    """Tokens 1 and -1 in two halves, and layers of one head, without values of their
    own, whose logits are R inside and -R across, however near the tokens have come.
    """
    x = torch.ones(n, 1, dtype=DOUBLE)
    x[n // 2 :] = -1
    one = torch.ones(1, 1, 1, dtype=DOUBLE)
    layers = [Layer(R * one / math.tanh(R) ** (2 * l), one, one, one) for l in range(L)]
    return {"x": x, "layers": layers}


NETWORK = Case(network)


@claim(
    "synthesis.depth",
    cases=[
        NETWORK,
        NETWORK.but(gain=0.5, seed=0),
        NETWORK.but(gain=1.5, L=3),
        NETWORK.but(n=2),
        NETWORK.but(causal=True, gain=1.5, L=4),
        Case(halves_in_depth),
    ],
    broken={"skips": {"_skip": True}, "LayerNorm": {"_norm": True}},
)
def depth(
    x: Tensor,
    layers: Sequence[Layer],
    mask: Tensor | None = None,
    *,
    _skip=False,
    _norm=False,
) -> Verdict:
    """After L layers the diameter is at most the product of the layers' factors times
    the first, and a factor is the sum of tau(P_h) |W_h|_2 over the heads.

    Measured: the diameter after the layers over the bound, at most 1 + 1e-12.

    Args:
        x: (n, d), not all tokens equal.
        layers: Layers; biases move all tokens alike.
        mask: (n, n), True where a token may read, or None for no mask.

    Claim: synthesis.depth
    """
    _check_tokens(x)
    check_network(x, layers)
    y, attention = forward(x, layers, skip=_skip, mask=mask, return_attention=True)
    if _norm:
        y = torch.nn.functional.layer_norm(y, y.shape[-1:])
    allowed = float(diameter(x))
    for p, layer in zip(attention, layers):
        weights, _ = merged(layer)
        sizes = torch.linalg.matrix_norm(weights, 2)
        allowed = allowed * float((dobrushin(p) * sizes).sum())
    after = float(diameter(y))
    if allowed == 0:  # all rows are equal, up to roundings
        apart = after > ROUNDING * float(y.abs().max())
        return at_most(math.inf if apart else 0.0, 1 + ROUNDING)
    return at_most(after / allowed, 1 + ROUNDING)


# --- memory


def permutations(n=32, leak=0.1, L=1, share=1.0, seed=0) -> dict:
    """L permutations: logit R on a token and -R off it, R a share of the needed."""
    g = torch.Generator().manual_seed(seed)
    R = share * needed_radius(n, leak)
    maps = []
    for _ in range(L):
        order = torch.randperm(n, generator=g)
        maps.append(R * (2 * torch.eye(n, dtype=DOUBLE)[order] - 1))
    return {"logits": maps, "leak": leak}


SHARP = Case(permutations)


@claim(
    "synthesis.memory",
    cases=[
        SHARP,
        SHARP.but(n=6, leak=0.05, L=4),
        SHARP.but(n=6, leak=0.05, L=12, seed=1),
        SHARP.but(n=2),
        SHARP.but(leak=0.5),
        SHARP.but(share=1.5, L=3),
    ],
    controls=[SHARP.but(share=0.95)],
)
def memory(logits: Sequence[Tensor], leak: float) -> Verdict:
    """A row that gives one of n tokens all but a share eps needs a radius of
    ln((1 - eps)(n - 1)/eps) / 2; and sharp permutations remember.

        tau(P^L ... P^1) >= 2 (1 - eps)^L - 1

    Measured: the larger of what the radii lack and of what tau lacks, at most 1e-12.

    Args:
        logits: L tensors (n, n), first layer first, without mask.
        leak: eps in (0, 1); that each P gives at least 1 - eps along a permutation is
            believed.

    Claim: synthesis.memory
    """
    is_list(logits=logits)
    for t, a in enumerate(logits):
        _check_matrix(f"logits[{t}]", a)
        matches(f"logits[{t}]", a, tuple(logits[0].shape), logits[0], "logits[0]")
    _check_leak(leak)
    n = len(logits[0])
    require(n >= 2, "logits must be of two tokens or more, got one")
    L = len(logits)
    lacking = 0.0
    product = torch.eye(n, dtype=DOUBLE)
    for a in logits:
        lacking = max(lacking, needed_radius(n, leak) - float(radius(a)))
        product = torch.softmax(a, -1) @ product
    forgot = 2 * (1 - leak) ** L - 1 - float(dobrushin(product))
    return at_most(max(lacking, forgot), ROUNDING)


def sharp_rows(n=32, R=3.0, to: Literal["own", "last", "own half"] = "own") -> dict:
    """Logits R where a token looks and -R elsewhere: at a token of its own, at the
    last, or at its half. The leak is that of a row that looks at one token.
    """
    own = R * (2 * torch.eye(n, dtype=DOUBLE) - 1)
    logits = {"own": own, "last": own[-1:].expand(n, n)}
    logits["own half"] = halves(n, R)["logits"]
    return {"logits": logits[to], "leak": 1 - float(own.softmax(-1).amax(-1).min())}


ROWS = Case(sharp_rows)


@claim(
    "synthesis.sharp-forgets",
    cases=[ROWS, ROWS.but(n=2, R=0.5), ROWS.but(n=1000, R=5.0), ROWS.but(to="last")],
    controls=[ROWS.but(to="own half")],
)
def sharp_forgets(logits: Tensor, leak: float) -> Verdict:
    """Sharp rows forget: if every row gives some token all but a share eps, the layer
    loses at least n (1 - eps) e^{-2R} of the diameter.

        tau(P) <= 1 - n (1 - eps) e^{-2R}

    Measured: tau(P) minus the bound, at most 1e-12.

    Args:
        logits: (n, n), before softmax, without mask.
        leak: eps in (0, 1); that every row gives some token at least 1 - eps is
            believed.

    Claim: synthesis.sharp-forgets
    """
    _check_matrix("logits", logits)
    _check_leak(leak)
    require((logits != logits[:, :1]).any(), "logits are equal: no row is sharp")
    n = len(logits)
    p = torch.softmax(logits, -1)
    bound = 1 - n * (1 - leak) * math.exp(-2 * float(radius(logits)))
    return at_most(float(dobrushin(p)) - bound, ROUNDING)


# --- memory of many tokens


def pair_sets(N: int, k: int, *, apart: int = 1, seed: int = 0) -> Tensor:
    """N sets of clusters, (N, 2k): each takes one of every pair, by k random bits that
    differ from all others in `apart` places or more.
    """
    g = torch.Generator().manual_seed(seed)
    words = torch.zeros(0, k, dtype=torch.bool)
    for _ in range(200 * N):
        word = torch.randint(0, 2, (1, k), generator=g).bool()
        if not len(words) or int((words ^ word).sum(-1).min()) >= apart:
            words = torch.cat([words, word])
        if len(words) == N:
            return torch.cat([words, ~words], dim=-1)
    raise ValueError(f"found only {len(words)} words of {k} bits, {apart} apart")


def readers_and_clusters(n=64, k=6, R=3.0, L=20, apart=1) -> dict:
    """2k clusters of floor(n/4k) tokens, and the rest of n reads k clusters each."""
    c = n // (4 * k)
    sets = pair_sets(n - 2 * k * c, k, apart=apart)
    return {"sets": sets, "c": c, "R": R, "L": L}


def least_distance(rows: Tensor) -> float:
    """The least total variation of two rows."""
    return float(torch.pdist(rows, 1).min()) / 2


def kept_by_clusters(sets: Tensor, c: int, R: float, L: int) -> float:
    """(1 - mu)(1 - lambda)^(L - 1): what is left of two disjoint sets."""
    N, q = sets.shape
    n = q * c + N
    k = int(sets[0].sum())
    gain = math.expm1(2 * R)
    spill = 1 / (1 + c / n * gain)
    first = 1 / (1 + k * c / n * gain)
    return (1 - first) * (1 - spill) ** (L - 1)


READERS = Case(readers_and_clusters)


@claim(
    "synthesis.many",
    cases=[
        READERS,
        READERS.but(L=1),
        READERS.but(n=100, R=2.0, L=5),
        READERS.but(k=8, apart=2, R=4.0, L=60),
    ],
    broken={"tokens alone": {"_alone": True}},
)
def many(sets: Tensor, c: int, R: float, L: int, *, _alone=False) -> Verdict:
    """Tokens that read k of q clusters keep this total variation after L layers, and
    clusters that read themselves hold it.

        TV = |S - S'| / k * (1 - mu) (1 - lambda)^(L - 1)

    Measured: the largest relative distance of a pair of the N from the formula, at most
    1e-9; in the layers of `attnlib.bridges.cluster_logits`.

    Args:
        sets: (N, q), N >= 2, True where a token reads a cluster; k in each row.
        c: tokens of a cluster.

    Claim: synthesis.many
    """
    _check_radius(R)
    sizes(1, L=L)
    logits = cluster_logits(sets, c, R)
    N, q = sets.shape
    require(N >= 2, f"sets must be at least two, got {N}")
    held = sets.sum(-1)
    require(
        bool((held == held[0]).all() & (held[0] > 0)),
        "sets must hold equally many clusters, at least one: k is one number",
    )
    if _alone:  # a token of a cluster reads itself, and not its cluster
        logits[: q * c, : q * c] = R * (2 * torch.eye(q * c, dtype=DOUBLE) - 1)
    p = torch.softmax(logits, -1)
    rows = torch.linalg.matrix_power(p, L)[-N:]
    found = torch.pdist(rows, 1) / 2
    differing = torch.pdist(sets.double(), 1) / 2  # |S - S'| for sets of one size
    k = float(held[0])
    wanted = differing / k * kept_by_clusters(sets, c, R, L)
    largest = float(wanted.max()) or 1.0  # equal sets: all are zero
    off = float((found - wanted).abs().max()) / largest
    return at_most(off, 1e-9)


# --- hops


def token_codes(n: int, codes: Literal["random", "places"] = "random") -> Tensor:
    """All 2^n inputs of two symbols, coded: (2^n, n, 1). "places" adds the place to the
    symbol, so that the codes of unlike tokens meet.
    """
    words = torch.tensor(list(itertools.product(range(2), repeat=n)))
    if codes == "places":
        return (words + torch.arange(1, n + 1)).double()[..., None]
    g = torch.Generator().manual_seed(0)
    numbers = 1 + torch.rand(n, 2, generator=g, dtype=DOUBLE)
    return numbers[torch.arange(n), words][..., None]


def told_apart(ids: Tensor) -> int:
    """How many ids there are."""
    return 1 + int((ids.sort().values.diff() > SAME).sum())


def ids_after(u: Tensor, pattern: Pattern, L: int, weight: float = -0.5) -> Tensor:
    """The states after L softmax layers with skip and one head of size one."""
    one = torch.ones(1, dtype=DOUBLE)
    layer = [rank_one_layer(one, 1.0, weight)]
    for t in range(L):
        u = forward(u, layer, skip=True, mask=pattern.mask(t))
    return u[..., 0]


def a_pattern(name: str = "star") -> dict:
    """One of six small patterns by name."""
    made = {
        "star": patterns.star(6, local=False),
        "local star": patterns.star(6),
        "window": patterns.window(5, 3),
        "cycle": patterns.dilation_cycle(6),
        "dense": patterns.dense(4),
        "never": patterns.from_sets([[0, 1], [0, 1], [1, 2]]),
    }
    return {"pattern": made[name]}


STAR = Case(a_pattern)


@claim(
    "synthesis.hops",
    cases=[STAR, *(STAR.but(name=n) for n in ("window", "cycle", "dense", "never"))],
    broken={
        "no attention": {"_weight": 0.0},
        "codes meet": {"_codes": "places"},
    },
)
def hops(pattern: Pattern, *, _codes="random", _weight=-0.5) -> Verdict:
    """After L layers a token knows the symbols in its field, and nothing else; so all
    inputs are told apart from L = s hops on, and no sooner.

    Measured: over L = 0, ..., s + 1 the largest distance of the number of ids from the
    sum of 2^(size of the field); it counts all n 2^n only for L >= s. A pattern has few
    tokens, as n 2^n ids are made.

    Claim: synthesis.hops
    """
    is_a(Pattern, pattern=pattern)
    n = pattern.n
    all_ids = n * 2**n
    require(all_ids <= MOST_IDS, f"pattern has {n} tokens, {all_ids:,} ids: too many")
    s = patterns.hops(pattern)
    most = n + 1 if s is None else s + 1
    u = token_codes(n, _codes)
    off = 0
    for L in range(most + 1):
        fields = patterns.reach(pattern, L).sum(-1)
        possible = int((2**fields).sum())
        found = told_apart(ids_after(u, pattern, L, _weight).flatten())
        off = max(off, abs(found - possible))
        full = possible == all_ids
        if full != (s is not None and s <= L):
            off = max(off, 1)
    return at_most(off, 0)


# --- counting


def grid(m=3, d=2, extra: Literal["none", "middle"] = "none") -> dict:
    """m^d points, one third apart, and perhaps one more in the same box."""
    delta = Fraction(1, 3)
    points = [
        tuple(delta * i for i in p) for p in itertools.product(range(m), repeat=d)
    ]
    if extra == "middle":
        points.append(tuple(delta / 2 for _ in range(d)))
    return {"points": points, "box": delta * (m - 1), "delta": delta}


def _check_points(points) -> None:
    """Two or more points of equally many finite coordinates."""
    is_list(points=points)
    require(len(points) >= 2, f"points must be at least two, got {len(points)}")
    for i, point in enumerate(points):
        is_list(**{f"points[{i}]": point})
        d = len(points[0])
        require(
            len(point) == d >= 1,
            f"points[{i}] must have {max(d, 1)} coordinates, got {len(point)}",
        )
        for number in point:
            fractions(**{f"points[{i}]": number})


GRID = Case(grid)


@claim(
    "synthesis.counting",
    cases=[GRID, GRID.but(m=2, d=1), GRID.but(m=5, d=1), GRID.but(m=4, d=3)],
    controls=[GRID.but(extra="middle")],
)
def counting(
    points: Sequence[Sequence], box: Fraction | float, delta: Fraction | float
) -> Verdict:
    """N points of [0, B]^d, any two delta apart in some coordinate, have
    B / delta >= ceil(N^(1/d)) - 1.

    Measured: the bits that are needed minus log2(B / delta), at most 1e-12. That the
    points lie in the box, B, and so far apart is believed.

    Claim: synthesis.counting
    """
    _check_points(points)
    fractions(box=box, delta=delta)
    require(delta > 0, f"delta must be positive, got {delta}")
    require(box > 0, f"box must be positive, got {box}")
    have = math.log2(box / delta)
    return at_most(needed_bits(len(points), len(points[0])) - have, ROUNDING)
