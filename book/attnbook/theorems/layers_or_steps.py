"""The claims of the page `Layers or steps`. Pointers are n tokens of 0 to n - 1,
pointers[i] = f(i), n from 2 to 2048, as list, array or tensor; names (n, d), rows of
length 1 in float64, random signs unless given; beta the inverse temperature, the least
that the statement asks for unless given.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib._require import (
    finite,
    is_floating,
    is_list,
    is_tensor,
    numbers,
    require,
    sizes,
)
from attnlib.attention import Layer, forward
from attnlib.certify import Verdict, at_least, at_most

double = torch.float64
EPS = torch.finfo(double).eps
MOST_TOKENS = 2048
MOST_HOPS = 2**20
MOST_BETA = 10**6
MOST_LOOKUPS = 10**9  # pairs of a query and a key
MOST_LAYERS = 64


def _check_pointers(pointers) -> list[int]:
    """A list with a place of the list for each place of it."""
    if isinstance(pointers, Tensor):
        is_tensor("pointers", pointers)
        require(
            not pointers.is_meta, "pointers is on the device meta: it holds no values"
        )
    if isinstance(pointers, Tensor | np.ndarray):
        pointers = pointers.tolist()
    is_list(pointers=pointers)
    n = len(pointers)
    require(
        2 <= n <= MOST_TOKENS,
        f"pointers must name 2 to {MOST_TOKENS} tokens, got {n}",
    )
    for i, target in enumerate(pointers):
        whole = isinstance(target, Integral) and not isinstance(target, bool)
        require(
            whole and 0 <= target < n,
            f"pointers[{i}] must be one of the tokens 0 to {n - 1}, got {target!r}",
        )
    return [int(target) for target in pointers]


def _check_names(names, n: int) -> Tensor:
    """A row of length 1 for each token, in float64; None draws signs."""
    if names is None:
        return sign_names(n)
    is_tensor("names", names)
    require(
        names.dtype == double,
        f"names must be torch.float64, got {names.dtype}: the bound is about their "
        "last digits",
    )
    got = tuple(names.shape)
    require(
        names.dim() == 2 and got[0] == n and got[1] >= 1,
        f"names must be (n, d) with a row for each of the {n} tokens, got {got}",
    )
    names = names.detach()
    off = float((names.norm(dim=1) - 1).abs().max())
    require(off <= 1e-9, f"names must have rows of length 1, one is off by {off:.1e}")
    require(
        margin(names) > 0,
        "names must differ: two rows are equal, so that no look-up tells them apart",
    )
    return names


def _temperature(beta, enough: float) -> float:
    """The beta that was given, or else the one that is enough."""
    if beta is None:
        require(
            enough <= MOST_BETA,
            f"names must be further apart: with their margin beta = {enough:.1e} is "
            f"needed, and beyond {MOST_BETA:,} a double cannot tell logits apart",
        )
        return enough
    numbers(beta=beta)
    require(beta > 0, f"beta must be positive, got {beta}")
    require(
        beta <= MOST_BETA,
        f"beta must be at most {MOST_BETA:,}, got {beta}: beyond it a double cannot "
        "tell logits apart, and no bound says anything",
    )
    return beta


def _allowed(layers: int, n: int, beta: float, gamma: float) -> float:
    """2 L n e^(-beta gamma / 2), and at most gamma / 8, beside rounding."""
    error = 2 * layers * n * math.exp(-beta * gamma / 2)
    return min(error, gamma / 8) + 64 * (layers + 1) * beta * EPS


# --- names, and what is to be computed


def sign_names(n: int, d: int | None = None, seed: int = 0) -> Tensor:
    """Names of n tokens: random signs over sqrt(d), drawn until all inner products are
    at most a half; d is 8 + 10 log2(n) unless given.
    """
    sizes(2, n=n)
    require(n <= MOST_TOKENS, f"n must be at most {MOST_TOKENS}, got {n}")
    if d is None:
        d = 8 + 10 * math.ceil(math.log2(n))
    sizes(1, d=d)
    sizes(0, seed=seed)
    g = torch.Generator().manual_seed(seed)
    for _ in range(50):
        signs = 2 * torch.randint(0, 2, (n, d), generator=g) - 1
        names = signs.to(double) / math.sqrt(d)
        if margin(names) >= 0.5:
            return names
    raise ValueError(f"d = {d} signs are too few for {n} names at 60 degrees")


def margin(names: Tensor) -> float:
    """gamma: 1 less the largest inner product of two different names, (n, d)."""
    is_floating("names", names)
    got = tuple(names.shape)
    require(
        len(got) == 2 and got[0] >= 2 and got[1] >= 1,
        f"names must be (n, d) with two rows or more, got {got}",
    )
    finite(names=names)
    products = names @ names.mT
    products.fill_diagonal_(-math.inf)
    return float(1 - products.max())


def follow(pointers: Sequence[int], k: int) -> list[int]:
    """Where k hops lead, from each token, hop by hop."""
    target = np.array(_check_pointers(pointers))
    sizes(0, k=k)
    places = np.arange(len(target))
    for _ in range(k):
        places = target[places]
    return places.tolist()


def layers_for(k: int) -> int:
    """L: the least number with 2^L >= k."""
    sizes(1, k=k)
    return (int(k) - 1).bit_length()


def enough_for_layers(n: int, layers: int, gamma: float) -> float:
    """The inverse temperature (2 / gamma) ln(16 L n / gamma) of the ladder."""
    require(gamma > 0, f"gamma must be positive, got {gamma}")
    return 2 / gamma * math.log(16 * max(layers, 1) * n / gamma)


def enough_for_steps(n: int, gamma: float) -> float:
    """The inverse temperature (1 / gamma) ln(4 n / gamma) of a chain of thought."""
    require(gamma > 0, f"gamma must be positive, got {gamma}")
    return math.log(4 * n / gamma) / gamma


# --- networks whose heads look names up

OWN, POINTER, RESULT = 0, 1, 2


def look_up_layer(
    heads: Sequence[tuple[int, int, int, int]], slots: int, d: int, beta: float
) -> Layer:
    """A layer of heads (query, key, value, write), each the number of a slot: a token
    is `slots` names of width d, side by side.
    """
    places = torch.eye(slots * d, dtype=double).reshape(slots * d, slots, d)
    queries = []
    keys = []
    values = []
    writes = []
    for query, key, value, write in heads:
        queries.append(beta * places[:, query])
        keys.append(places[:, key])
        values.append(places[:, value])
        writes.append(places[:, write].mT)
    return Layer(*(torch.stack(parts) for parts in (queries, keys, values, writes)))


def ladder(k: int, layers: int, d: int, beta: float) -> list[Layer]:
    """Layers of three heads: keep the own name, double the pointer, and let the result
    hop wherever the binary digit of k - 1 is 1.
    """
    keep = (OWN, OWN, OWN, OWN)
    twice = (POINTER, OWN, POINTER, POINTER)
    hop = (RESULT, OWN, POINTER, RESULT)
    stay = (OWN, OWN, RESULT, RESULT)
    built = []
    for layer in range(layers):
        digit = (k - 1) >> layer & 1
        last = hop if digit else stay
        built.append(look_up_layer([keep, twice, last], 3, d, beta))
    return built


def tokens_of(pointers: Sequence[int], names: Tensor) -> Tensor:
    """The input of the ladder: own name, pointer, and the pointer as first result."""
    pointed = names[list(pointers)]
    return torch.cat([names, pointed, pointed], dim=1)


# --- objects: what the tests run the theorems on


def equal_angles(n: int, gamma: float = 0.5) -> Tensor:
    """Names whose inner products are all 1 - gamma: none is easier to find."""
    shared = torch.full((n, 1), math.sqrt(1 - gamma), dtype=double)
    return torch.cat([shared, math.sqrt(gamma) * torch.eye(n, dtype=double)], dim=1)


def random_map(n=24, seed=0, kind="any", angles="random") -> dict:
    """Pointers of n tokens: any map, a permutation, one cycle, a map to earlier tokens,
    a chain, or a cycle and a crowd; with names at equal angles, if asked for.
    """
    g = torch.Generator().manual_seed(seed)
    order = torch.randperm(n, generator=g).tolist()
    if kind == "any":
        pointers = torch.randint(0, n, (n,), generator=g).tolist()
    elif kind == "earlier":
        back = torch.rand(n, generator=g).tolist()
        pointers = [int(share * (i + 1)) for i, share in enumerate(back)]
    elif kind == "chain":
        pointers = [max(i - 1, 0) for i in range(n)]
    elif kind == "permutation":
        pointers = order
    elif kind == "crowd":
        half = n // 2
        pointers = [*range(1, half), 0, *[0] * (n - half)]
    else:
        pointers = [0] * n
        for here, there in zip(order, order[1:] + order[:1]):
            pointers[here] = there
    objects = {"pointers": pointers}
    if angles == "equal":
        objects["names"] = equal_angles(n)
    return objects


# --- layers

CYCLE = Case(random_map, {"kind": "cycle"}, {"k": 19})


@claim(
    "after.hops",
    cases=[
        CYCLE,
        CYCLE.but(k=1),
        CYCLE.but(k=16),
        CYCLE.but(k=17, kind="permutation"),
        CYCLE.but(k=1000, kind="any"),
        CYCLE.but(k=9, angles="equal"),
        CYCLE.but(n=40, kind="earlier", causal=True),
    ],
    controls=[CYCLE.but(layers=4), CYCLE.but(beta=3.0)],
)
def doubling(
    pointers, k, *, names=None, layers=None, beta=None, causal: bool = False
) -> Verdict:
    """ceil(log2 k) layers of three heads make k hops, from all tokens at once.

    Measured: the largest distance of a result from the name k hops ahead.

    Args:
        layers: None for ceil(log2 k), at most 64; with more the result stays.
        causal: a token reads only itself and earlier ones.

    Claim: after.hops
    Page: notebooks/what_came_after/layers_or_steps
    """
    pointers = _check_pointers(pointers)
    n = len(pointers)
    names = _check_names(names, n)
    for i, target in enumerate(pointers):
        require(
            target <= i or not causal,
            f"pointers[{i}] = {target} leads to a later token: with causal=True a "
            "token reads only itself and earlier ones",
        )
    sizes(1, k=k)
    require(k <= MOST_HOPS, f"k must be at most {MOST_HOPS}, got {k}")
    needed = layers_for(k)
    layers = needed if layers is None else layers
    sizes(0, layers=layers)
    require(
        layers <= MOST_LAYERS, f"layers must be at most {MOST_LAYERS}, got {layers}"
    )
    depth = max(layers, needed)
    gamma = margin(names)
    beta = _temperature(beta, enough_for_layers(n, depth, gamma))

    d = names.shape[1]
    x = tokens_of(pointers, names)
    if layers > 0:
        mask = torch.ones(n, n, dtype=torch.bool).tril() if causal else None
        x = forward(x, ladder(int(k), layers, d, beta), scale=1.0, mask=mask)
    wanted = names[follow(pointers, k)]
    off = float((x[:, RESULT * d :] - wanted).norm(dim=1).max())
    return at_most(off, _allowed(depth, n, beta, gamma))


def attention_of_the_ladder(
    pointers: list[int], layers: int, names: Tensor, beta: float
) -> list[Tensor]:
    """The attention matrix of the doubling head in each layer."""
    x = tokens_of(pointers, names)
    built = ladder(2**layers, layers, names.shape[1], beta)
    _, attention = forward(x, built, scale=1.0, return_attention=True)
    return [heads[1] for heads in attention]


RUNG = Case(random_map, {"kind": "any"}, {"layers": 4})


@claim(
    "after.powers",
    cases=[RUNG, RUNG.but(kind="cycle"), RUNG.but(seed=1), RUNG.but(layers=1)],
    controls=[RUNG.but(beta=3.0)],
    broken={"one hop a layer": {"_growth": "one"}},
)
def powers(pointers, layers, *, names=None, beta=None, _growth="double") -> Verdict:
    """In layer l the doubling head attends by F^(2^(l-1)).

    Measured: the largest sum of a row of |A - F^(2^(l-1))| over all layers.

    Claim: after.powers
    Page: notebooks/what_came_after/layers_or_steps
    """
    pointers = _check_pointers(pointers)
    sizes(1, layers=layers)
    require(layers <= 20, f"layers must be at most 20, got {layers}")
    n = len(pointers)
    names = _check_names(names, n)
    gamma = margin(names)
    beta = _temperature(beta, enough_for_layers(n, layers, gamma))
    matrix = torch.eye(n, dtype=double)[pointers]
    worst = torch.zeros((), dtype=double)
    found = attention_of_the_ladder(pointers, layers, names, beta)
    for number, attention in enumerate(found, 1):
        power = 2 ** (number - 1) if _growth == "double" else number
        gap = (attention - torch.linalg.matrix_power(matrix, power)).abs().sum(1).max()
        worst = torch.maximum(worst, gap)
    allowed = 2 * n * math.exp(-beta * gamma / 2)
    return at_most(worst, min(allowed, gamma / 8) + 64 * layers * beta * EPS)


# --- steps


def walk(
    pointers: list[int],
    k: int,
    starts: list[int],
    *,
    names: Tensor,
    beta: float,
    writes: str = "token",
) -> list[int]:
    """Where k steps of one head lead: each reads the prompt by the token written last,
    and writes the nearest name, or the state as it is.
    """
    pointed = names[pointers]
    written = names[starts]
    for _ in range(k):
        read = torch.softmax(beta * written @ names.mT, dim=-1) @ pointed
        if writes == "token":
            read = names[(read @ names.mT).argmax(dim=1)]
        written = read
    return (written @ names.mT).argmax(dim=1).tolist()


WALK = Case(random_map, {"kind": "crowd", "angles": "equal"}, {"k": 101})


@claim(
    "after.steps",
    cases=[
        WALK,
        WALK.but(k=1),
        WALK.but(kind="cycle", angles="random"),
        WALK.but(kind="any"),
        WALK.but(n=200, starts=[5]),
    ],
    controls=[WALK.but(beta=0.5)],
    broken={"a blurred state": {"_writes": "state"}},
    without_kernel="one head that reads by softmax and writes by argmax",
)
def steps(
    pointers, k, *, starts=None, names=None, beta=None, _writes="token"
) -> Verdict:
    """k steps of chain of thought make k hops with one layer of one head.

    Measured: how many of the walks from the starts, all tokens unless given, end at a
    wrong token.

    Claim: after.steps
    Page: notebooks/what_came_after/layers_or_steps
    """
    pointers = _check_pointers(pointers)
    sizes(1, k=k)
    n = len(pointers)
    names = _check_names(names, n)
    if starts is None:
        starts = list(range(n))
    is_list(starts=starts)
    for start in starts:
        sizes(0, starts=start)
        require(start < n, f"starts must be tokens 0 to {n - 1}, got {start}")
    look_ups = k * n * len(starts)
    require(
        look_ups <= MOST_LOOKUPS,
        f"k = {k} steps from {len(starts)} starts among {n} tokens are {look_ups:,} "
        f"pairs of a query and a key, more than {MOST_LOOKUPS:,}: give fewer starts",
    )
    beta = _temperature(beta, enough_for_steps(n, margin(names)))
    ends = walk(pointers, k, list(starts), names=names, beta=beta, writes=_writes)
    right = follow(pointers, k)
    wrong = [end != right[start] for start, end in zip(starts, ends)]
    return at_most(sum(wrong), 0)


# --- one layer, and the third hop


def tile_sizes(n=6, bits=4) -> dict:
    """A layer of one head, whose values are single numbers."""
    return {"n": n, "heads": 1, "width": 1, "bits": bits}


def bits_for_third_hop(n: int) -> float:
    """(n - 2) log2 n: what a layer must pass on of the n - 2 tokens that it asks."""
    sizes(3, n=n)
    require(n <= 2**53, f"n must be at most 2^53, got {n}")
    return (n - 2) * math.log2(n)


def all_contents(n: int) -> Tensor:
    """All ways for the n - 2 tokens of the tile to point, (n^(n-2), n-2)."""
    ways = itertools.product(range(n), repeat=n - 2)
    return torch.tensor(list(ways))


def messages(
    contents: Tensor, n: int, heads: int, width: int, bits: int, seed: int
) -> Tensor:
    """What each filling of the tile sends to the query: o and lambda of each head with
    random logits and values, every number rounded to so many bits.
    """
    g = torch.Generator().manual_seed(seed)
    tile = contents.shape[1]
    logits = torch.randn(heads, tile, n, generator=g, dtype=double)
    values = torch.randn(heads, tile, n, width, generator=g, dtype=double)
    where = torch.arange(tile)
    sent = []
    for head in range(heads):
        row = logits[head, where, contents]
        read = values[head, where, contents]
        output = (torch.softmax(row, dim=1)[..., None] * read).sum(1)
        sent += [torch.logsumexp(row, dim=1)[:, None], output]
    numbers_sent = torch.cat(sent, dim=1)
    low = numbers_sent.min(0).values
    span = numbers_sent.max(0).values - low
    return ((numbers_sent - low) / span * (2**bits - 1)).round()


def wrong_at_least(contents: Tensor, sent: Tensor, n: int) -> int:
    """Errors that no rest of the network can avoid: among fillings that send the same,
    it can be right for the commonest pointer of each token alone.
    """
    _, group = torch.unique(sent, dim=0, return_inverse=True)
    groups = int(group.max()) + 1
    wrong = 0
    for column in contents.T:
        counts = torch.zeros(groups, n, dtype=torch.long)
        counts.index_put_((group, column), torch.tensor(1), accumulate=True)
        wrong += len(contents) - int(counts.max(dim=1).values.sum())
    return wrong


NARROW = Case(tile_sizes)


@claim(
    "after.third-hop",
    cases=[
        NARROW,
        NARROW.but(bits=5),
        NARROW.but(heads=2, bits=2),
        NARROW.but(n=5, width=2, bits=3),
    ],
    controls=[NARROW.but(bits=50)],
    without_kernel="a count of inputs that send the same message",
)
def third_hop(n, *, heads=1, width=1, bits=4, seed=0) -> Verdict:
    """One layer that makes three hops must pass on (n - 2) log2 n bits.

    Measured: how many of the n^(n-2) (n - 2) inputs are wrong whatever comes after a
    layer with random logits and values; at least 1.

    Args:
        n: tokens, 3 to 7: all inputs are listed.
        heads, width: H, and the m numbers of a value.
        bits: p, of each number, 1 to 52.

    Claim: after.third-hop
    Page: notebooks/what_came_after/layers_or_steps
    """
    sizes(3, n=n)
    sizes(1, heads=heads, width=width, bits=bits)
    sizes(0, seed=seed)
    require(seed < 2**63, f"seed must be below 2^63, got {seed}")
    require(n <= 7, f"n must be at most 7: all n^(n-2) fillings are listed, got {n}")
    require(bits <= 52, f"bits must be at most 52, those of a double, got {bits}")
    require(
        heads * width <= 64, f"heads * width must be at most 64, got {heads, width}"
    )
    contents = all_contents(n)
    sent = messages(contents, n, heads, width, bits, seed)
    return at_least(wrong_at_least(contents, sent, n), 1)


# --- looking back

AHEAD, BACK = 0, 1


def reach_of(layers: int) -> int:
    """(3^L + 1) / 2: hops of L layers that also look back."""
    sizes(0, layers=layers)
    return (3**layers + 1) // 2


TRIPLE = Case(random_map, {"kind": "permutation", "n": 40}, {"layers": 3})


@claim(
    "after.back",
    cases=[TRIPLE, TRIPLE.but(kind="cycle"), TRIPLE.but(layers=1), TRIPLE.but(seed=1)],
    controls=[TRIPLE.but(beta=3.0)],
    broken={"by its own name": {"_back": False}},
)
def looking_back(pointers, layers, *, names=None, beta=None, _back=True) -> Verdict:
    """L layers of two heads make (3^L + 1)/2 hops at once, if f is a permutation.

    Measured: the largest distance of a result from the name so many hops ahead.

    Claim: after.back
    Page: notebooks/what_came_after/layers_or_steps
    """
    pointers = _check_pointers(pointers)
    n = len(pointers)
    require(
        len(set(pointers)) == n,
        "pointers must be a permutation: two of them lead to the same token, and a "
        "look-up from behind would read the mean of both",
    )
    sizes(1, layers=layers)
    require(layers <= 12, f"layers must be at most 12, got {layers}")
    names = _check_names(names, n)
    gamma = margin(names)
    beta = _temperature(beta, enough_for_layers(n, layers, gamma))
    d = names.shape[1]
    ahead = (AHEAD, BACK, AHEAD, AHEAD)
    behind = (BACK, AHEAD, BACK, BACK) if _back else (BACK, BACK, BACK, BACK)
    layer = look_up_layer([ahead, behind], 2, d, beta)
    x = torch.cat([names[pointers], names], dim=1)
    x = forward(x, [layer] * layers, scale=1.0)
    wanted = names[follow(pointers, reach_of(layers))]
    off = float((x[:, :d] - wanted).norm(dim=1).max())
    return at_most(off, _allowed(layers, n, beta, gamma))


def furthest(pointers: list[int], layers: int, *, causal: bool, known: int) -> int:
    """The most hops ahead that some token can know, if tokens find each other by a
    name that both hold, and then hold all that the other held.

    On a cycle only hops up to n / 2 count: more lead to a name that is nearer behind.
    """
    n = len(pointers)
    holds = torch.eye(n, dtype=torch.bool)
    place = torch.arange(n)
    target = torch.tensor(pointers)
    here = place
    for _ in range(known):
        here = target[here]
        holds[place, here] = True
    earlier = torch.ones(n, n, dtype=torch.bool).tril()
    for _ in range(layers):
        meet = (holds.float() @ holds.float().mT) > 0
        if causal:
            meet = meet & earlier
        holds = (meet.float() @ holds.float()) > 0
    near = n if causal else n // 2  # on a cycle, further ahead is nearer behind
    most = 0
    seen = torch.eye(n, dtype=torch.bool)
    here = place
    for hops in range(1, n):
        here = target[here]
        new = ~seen[place, here]
        seen[place, here] = True
        ahead = new & holds[place, here] & (hops <= near)
        if bool(ahead.any()):
            most = hops
    return most


LONG = Case(random_map, {"kind": "cycle", "n": 101}, {"layers": 3})


@claim(
    "after.names",
    cases=[LONG, LONG.but(layers=2), LONG.but(kind="chain", causal=True)],
    broken={"two hops known": {"_known": 2}},
    without_kernel="a closure of who can have met whom",
)
def by_names(pointers, layers, *, causal: bool = False, _known=1) -> Verdict:
    """Tokens that meet only by a name that both hold know no name further ahead.

    Measured: the most hops ahead that a token knows after L layers; with causal in a
    decoder, whose pointers lead to the token before, 0, 0, 1, 2, ...

    Claim: after.names
    Page: notebooks/what_came_after/layers_or_steps
    """
    pointers = _check_pointers(pointers)
    sizes(0, layers=layers)
    n = len(pointers)
    require(layers <= 10, f"layers must be at most 10, got {layers}")
    least = 2 ** (layers + 1) + 2 if causal else 2 * 3**layers + 1
    require(
        n >= least,
        f"pointers must name at least {least} tokens for layers = {layers}, got {n}: "
        "on fewer, hops ahead and hops back meet",
    )
    if causal:
        chain = [max(i - 1, 0) for i in range(n)]
        require(
            pointers == chain,
            "pointers must lead to the token before, 0, 0, 1, 2, ..., with causal=True",
        )
        bound = 2**layers
    else:
        _check_one_cycle(pointers)
        bound = reach_of(layers)
    return at_most(furthest(pointers, layers, causal=causal, known=_known), bound)


def _check_one_cycle(pointers: list[int]) -> None:
    """Refuse what is not one cycle through all tokens."""
    n = len(pointers)
    orbit = {0}
    here = pointers[0]
    while here not in orbit:
        orbit.add(here)
        here = pointers[here]
    require(
        here == 0 and len(orbit) == n,
        f"pointers must form one cycle through all {n} tokens; from token 0 only "
        f"{len(orbit)} of them are met",
    )
