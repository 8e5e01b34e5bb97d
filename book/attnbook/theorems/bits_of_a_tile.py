"""The claims of the page `What a tile must tell`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib._require import (
    is_a,
    is_list,
    is_tensor,
    matches,
    numbers,
    one_of,
    require,
    sizes,
)
from attnlib.attention import Layer, _project, check_network, forward, random_layers
from attnlib.certify import Verdict, at_least, at_most

double = torch.float64
EPS = torch.finfo(double).eps
MOST = 2**22  # pairs of a tile and what else is read, that a theorem lists


# --- what a tile tells


def messages(query: Tensor, tiles: Tensor, layer: Layer) -> tuple[Tensor, Tensor]:
    """What tiles tell a query: the mean value o of each head, and the logarithm lambda
    of the sum of its exponentials.

        lambda = ln sum_j exp(l_j),   o = sum_j exp(l_j - lambda) v_j,
        l_j = (W_Q' x + b_Q) . (W_K' y_j + b_K) / sqrt(d_qk),  v_j = W_V' y_j + b_V

    Args:
        query: x, (q, d).
        tiles: (N, n, d), rows y_j.
        layer: H heads with values of width m.

    Returns:
        o (q, N, H, m) and lambda (q, N, H).
    """
    tokens = tiles[:, None]  # one copy for all heads
    asked = _project(query[:, None, None, None], layer.w_q, layer.b_q)
    keys = _project(tokens, layer.w_k, layer.b_k)
    values = _project(tokens, layer.w_v, layer.b_v)
    logits = asked @ keys.mT / math.sqrt(layer.w_q.shape[-1])
    o = torch.softmax(logits, dim=-1) @ values
    lambda_ = logits.logsumexp(-1)
    require(
        o.isfinite().all() and lambda_.isfinite().all(),
        "what tiles tell is not finite: tokens or weights are too large for floats",
    )
    return o.squeeze(-2), lambda_.squeeze(-1)


def _merge(first: tuple, second: tuple) -> Tensor:
    """The mean value over two tiles from what each of them tells."""
    (o_a, lambda_a), (o_b, lambda_b) = first, second
    share = torch.sigmoid(lambda_a - lambda_b)[..., None]
    return share * o_a + (1 - share) * o_b


def _in_bits(x: Tensor, bits: int) -> Tensor:
    """Each number to the nearest of 2^bits, evenly from the least to the largest that
    any tile tells (dim 1).
    """
    low = x.amin(dim=1, keepdim=True)
    step = (x.amax(dim=1, keepdim=True) - low) / (2**bits - 1)
    steps = ((x - low) / step).round().nan_to_num(0.0)  # 0 / 0: all tell the same
    return low + steps * step


def _allowed(layer: Layer, bits: int) -> int:
    """H (m + 1) p."""
    heads, _, width = layer.w_v.shape
    return heads * (width + 1) * bits


# --- what the theorems accept

SHAPES = {"query": ("(1, d)", 2), "tiles": ("(N, n, d)", 3), "others": ("(M, n, d)", 3)}


def _check(layer: Layer, bits: int, **given: Tensor) -> None:
    """Refuse other than float64 tensors that fit the layer, and a grid that a double
    cannot hold.
    """
    is_a(Layer, layer=layer)
    for name, tensor in given.items():
        is_tensor(name, tensor)
        shape, axes = SHAPES[name]
        require(
            tensor.dtype == double and tensor.dim() == axes and tensor.numel() > 0,
            f"{name} must be float64 {shape}, got {tensor.dtype} {tuple(tensor.shape)}",
        )
        d = given["tiles"].shape[-1]
        require(
            tensor.shape[-1] == d,
            f"{name} must be as wide as tiles, d = {d}, got {tensor.shape[-1]}",
        )
    check_network(given["tiles"], [layer])
    sizes(1, bits=bits)
    require(bits <= 48, f"bits must be at most 48, got {bits}: a double has 52")


def _check_one(query: Tensor) -> None:
    require(len(query) == 1, f"query must be (1, d), got {tuple(query.shape)}")


def _check_strings(strings: Tensor, tiles: Tensor) -> None:
    """Refuse other than all strings, one for each tile."""
    is_tensor("strings", strings)
    require(
        strings.dtype == torch.bool and strings.dim() == 2 and strings.numel() > 0,
        f"strings must be boolean (N, n), got {strings.dtype} {tuple(strings.shape)}",
    )
    N, n = strings.shape
    different = len(strings.unique(dim=0))
    require(
        n <= 20 and N == different == 2**n,
        f"strings must be all strings of n = {n} bits, once each, got {N} rows, "
        f"{different} of them different",
    )
    require(
        len(tiles) == N, f"tiles must be one for each of {N} strings, got {len(tiles)}"
    )


# --- objects: what the tests run the theorems on


def all_strings(n: int) -> Tensor:
    """Every string of n bits, at most 20, (2^n, n), boolean."""
    sizes(1, n=n)
    require(n <= 20, f"n must be at most 20, got {n}: that is 2**{n} strings")
    return (torch.arange(2**n)[:, None] >> torch.arange(n)) % 2 == 1


def strings_and_others(n=9, heads=1, width=1, seed=0, one_query=True) -> dict:
    """All strings of n bits as tiles, four other tiles of five tokens, a query, and a
    random layer; with one_query=False, a query for each of the others.

    A token is a random word for each pair of a place and a bit.
    """
    g = torch.Generator().manual_seed(seed)
    (layer,) = random_layers(
        1, heads, 4, 3, d_v=width, bias=True, dtype=torch.float64, generator=g
    )
    words = torch.randn(n, 2, 4, generator=g, dtype=double)
    tiles = torch.where(all_strings(n)[..., None], words[:, 1], words[:, 0])
    others = torch.randn(4, 5, 4, generator=g, dtype=double)
    query = torch.randn(4, 4, generator=g, dtype=double)
    if one_query:
        query = query[:1]
    return {"tiles": tiles, "others": others, "query": query, "layer": layer}


def strings_to_look_up(n=9, heads=1, width=1, seed=0, plain=False) -> dict:
    """All strings of n bits, as bits and as tiles, a query, and a random layer; plain:
    one that attends evenly and averages the bits.
    """
    objects = strings_and_others(n, heads, width, seed)
    del objects["others"]
    strings = all_strings(n)
    if plain:
        layer = objects["layer"]
        nothing = layer._make(None if w is None else 0 * w for w in layer)
        objects["layer"] = nothing._replace(w_v=layer.w_v, w_o=layer.w_o)
        bit = torch.zeros(4, dtype=double)
        bit[0] = 1.0
        objects["tiles"] = strings[..., None] * bit
    return {"strings": strings} | objects


# --- the theorem

TILE = Case(strings_and_others, {"n": 9}, {"bits": 4})


@claim(
    "after.tile",
    cases=[
        TILE,
        TILE.but(seed=1),
        TILE.but(n=10, heads=2, bits=2),
        TILE.but(n=10, width=3, bits=2),
        TILE.but(n=5, bits=20),
    ],
    controls=[TILE.but(one_query=False)],
    broken={"not rounded": {"_rounded": False}},
)
def tile(
    tiles: Tensor,
    others: Tensor,
    query: Tensor,
    layer: Layer,
    *,
    bits: int,
    _rounded=True,
) -> Verdict:
    """One layer: H (m + 1) p is at least log2 of the number of different rows of
    f(A, .), if each number that tile A tells the query has p bits.

    Measured: log2 of the number of different rows, the merged means at the query for
    all others, compared to nine digits of the largest; infinity if the merged messages
    are not what the layer computes.

    Args:
        tiles: the tiles A, (N, n, d), float64.
        others: the rest of the sequence, (M, n', d), without the query.
        query: (1, d); M rows, one for each of the others, are not refused.
        layer: H heads with values of width m.
        bits: p. The numbers are rounded to 2^p values from the least to the largest.

    Claim: after.tile
    Page: notebooks/what_came_after/bits_of_a_tile
    """
    _check(layer, bits, tiles=tiles, query=query, others=others)
    told, heard, right = _told_and_heard(tiles, others, query, layer)
    if not right:
        return at_most(math.inf, _allowed(layer, bits))
    if _rounded:
        told = tuple(_in_bits(part, bits) for part in told)
    rows = _merge(told, heard).transpose(0, 1).flatten(1)
    rows = rows / rows.abs().amax(dim=0).clamp_min(torch.finfo(double).tiny)
    different = len(rows.round(decimals=9).unique(dim=0))
    return at_most(math.log2(different), _allowed(layer, bits))


def _told_and_heard(tiles: Tensor, others: Tensor, query: Tensor, layer: Layer):
    """What tiles tell (M, N, ...), what the rest does (M, 1, ...), and whether both
    merged are what the layer computes.
    """
    N, M = len(tiles), len(others)
    require(
        len(query) in (1, M), f"query must have 1 row (or {M}), got {len(query)} rows"
    )
    require(N * M <= MOST, f"tiles and others make {N * M:,} pairs, above {MOST:,}")
    queries = query.expand(M, -1)
    # The query reads itself, too: it stands beside the others.
    rest = torch.cat([others, queries[:, None]], dim=1)
    told = messages(queries, tiles, layer)
    each = torch.arange(M)
    heard = tuple(part[each, each, None] for part in messages(queries, rest, layer))
    return told, heard, _is_the_layer(told, heard, tiles, rest, layer)


def _is_the_layer(told, heard, tiles: Tensor, rest: Tensor, layer: Layer) -> bool:
    """Whether merged messages, at the first tiles, are what the layer computes at the
    query: a share of a mean is as exact as the largest lambda.
    """
    few = tiles[:16].expand(len(rest), -1, -1, -1)
    others = rest[:, None].expand(-1, few.shape[1], -1, -1)
    wanted = forward(torch.cat([few, others], dim=2), [layer])[:, :, -1]
    means = _merge(tuple(part[:, :16] for part in told), heard)
    got = means.flatten(-2) @ layer.w_o.flatten(0, 1)
    if layer.b_o is not None:
        got = got + layer.b_o
    largest = max(1.0, float(told[1].abs().max()), float(heard[1].abs().max()))
    off = (got - wanted).abs().max()
    return bool(off <= 1024 * EPS * largest * wanted.abs().max())


# --- exact numbers


def lists_to_divide(n=13, heads=1, digits=0, knows=False) -> dict:
    """All lists of n bits, each told as a whole number a head, with all its digits.

    For each place, one of the others has so much weight that the mean is this number
    divided by a power of two, and the wanted bit its last digit before the point.

    Args:
        n, heads: each head has n / heads of the bits.
        digits: how many of them a layer of the ReLU part takes off; 0 for a part that
            only asks whether the number is 1 or more.
        knows: let the query know the place, and look only there.
    """
    sizes(1, n=n, heads=heads)
    sizes(0, digits=digits)
    k = n // heads
    require(n == k * heads <= 13, f"n must be a multiple of heads <= 13, got {n}")
    place = torch.arange(n)
    of = place // k  # the head of a place
    # A token: its bit at its place, the place itself, weights for heads, a query's 1.
    width = 2 * n + heads + 1
    tiles = torch.zeros(2**n, n, width, dtype=double)
    tiles[:, place, place] = all_strings(n).double()
    tiles[:, place, n + place] = 1.0
    halvings = torch.full((n, heads), k)
    halvings[place, of] = place % k
    others = torch.zeros(n, 1, width, dtype=double)
    others[:, 0, 2 * n : -1] = ((n + 1) * (2.0 ** (halvings + 1).double() - 1)).log()
    query = torch.zeros(n if knows else 1, width, dtype=double)
    query[:, -1] = 1.0
    if knows:
        query[:, n : 2 * n] = -32 * torch.eye(n, dtype=double)  # no key of its own

    w_q = torch.zeros(heads, width, n + 1, dtype=double)
    w_k = torch.zeros_like(w_q)
    w_q[:, -1, 0] = math.sqrt(n + 1)
    w_q[:, n + place, 1 + place] = -math.sqrt(n + 1)
    w_k[torch.arange(heads), 2 * n + torch.arange(heads), 0] = 1.0
    w_k[:, n + place, 1 + place] = 1.0
    w_v = torch.zeros(heads, width, 1, dtype=double)
    w_v[of, place, 0] = (n + 1) * 2.0 ** (place % k + 1).double()
    w_o = torch.eye(heads, width, dtype=double)[:, None]
    return {
        "tiles": tiles,
        "others": others,
        "query": query,
        "layer": Layer(w_q, w_k, w_v, w_o),
        "readout": _last_bit(heads, k, digits),
    }


def _last_bit(heads: int, k: int, digits: int) -> list[tuple[Tensor, Tensor]]:
    """A ReLU part for numbers below 2^k, multiples of 2^-k, one a head: is one of them
    odd, rounded down? Without hidden layers: is their sum 1 or more?
    """
    each = torch.eye(heads, dtype=double)
    if digits == 0:
        return [(torch.ones(heads, 1, dtype=double), _double([2.0**-k / 2 - 1]))]

    def layer(before, into, bias):
        weight = before @ torch.kron(each, _double([into]))
        return weight, _double(bias).repeat(heads)

    def steps(starts):
        """Of two ReLUs each: 0 up to just below the start, 1 from the start on."""
        slope = 2.0 ** (k + 1)
        into = [slope for start in starts for _ in (0, 1)]
        bias = [high - slope * start for start in starts for high in (1.5, 0.5)]
        return into, bias

    layers = []
    back, above = each, k
    while above > 1:
        rest = max(above - digits, 1)
        into, bias = steps([2**rest * v for v in range(1, 2 ** (above - rest))])
        layers.append(layer(back, [1.0, *into], [0.0, *bias]))
        down = [1.0] + [-(2.0**rest), 2.0**rest] * (len(into) // 2)
        back, above = torch.kron(each, _double(down)[:, None]), rest
    layers.append(layer(back, *steps([1])))
    out = torch.kron(torch.ones(heads, 1, dtype=double), _double([[1.0], [-1.0]]))
    return [*layers, (out, _double([-0.5]))]


def _double(entries: list) -> Tensor:
    return torch.tensor(entries, dtype=double)


def strings_and_relus(n=9, heads=1, width=1, units=(8,), columns=40, seed=0) -> dict:
    """All strings of n bits as tiles, random other tokens, a random layer, and a random
    ReLU part whose answers are balanced.
    """
    objects = strings_and_others(n, heads, width, seed)
    g = torch.Generator().manual_seed(seed + 1)
    objects["others"] = 3 * torch.randn(columns, 2, 4, generator=g, dtype=double)
    sizes_ = [heads * width, *units, 1]
    readout = []
    for a, b in zip(sizes_, sizes_[1:]):
        weight = torch.randn(a, b, generator=g, dtype=double)
        readout.append((weight, torch.randn(b, generator=g, dtype=double)))
    told, heard, _ = _told_and_heard(
        objects["tiles"], objects["others"], objects["query"], objects["layer"]
    )
    weight, bias = readout[-1]
    readout[-1] = weight, bias - _answered(_merge(told, heard), readout).median()
    return objects | {"readout": readout}


def _answered(means: Tensor, readout: Sequence) -> Tensor:
    """The output of the ReLU part on what the heads hand on."""
    x = means.flatten(-2)
    for weight, bias in readout[:-1]:
        x = torch.relu(x @ weight + bias)
    weight, bias = readout[-1]
    return (x @ weight + bias).squeeze(-1)


def _check_readout(readout: Sequence, inputs: int, like: Tensor) -> None:
    is_list(readout=readout)
    for number, pair in enumerate(readout):
        name = f"readout[{number}]"
        is_list(**{name: pair})
        require(len(pair) == 2, f"{name} must be (weight, bias), got {len(pair)} parts")
        weight, bias = pair
        is_tensor(f"{name}: its bias", bias)
        outputs = 1 if number == len(readout) - 1 else bias.numel()
        matches(f"{name}: its weight", weight, (inputs, outputs), like, "layer.w_v")
        matches(f"{name}: its bias", bias, (outputs,), like, "layer.w_v")
        inputs = outputs


DIVIDED = Case(lists_to_divide)


@claim(
    "after.exact",
    cases=[
        DIVIDED,
        DIVIDED.but(n=7, digits=1),
        DIVIDED.but(n=9, digits=4),
        DIVIDED.but(n=10, heads=2, digits=2),
        DIVIDED.but(n=1, digits=1),
        Case(strings_and_relus),
        Case(strings_and_relus, {"heads": 2, "width": 2, "units": (16, 4)}),
        Case(strings_and_relus, {"n": 12, "units": ()}),
    ],
    controls=[DIVIDED.but(knows=True)],
    broken={"a wave at the end": {"_wave": True}},
)
def exact(
    tiles: Tensor,
    others: Tensor,
    query: Tensor,
    layer: Layer,
    readout: Sequence,
    *,
    _wave=False,
) -> Verdict:
    """A layer of exact numbers, and L layers of at most U ReLUs after it, compute at
    most 2^(H (m + 1) (L + 1) log2(6 c U)) different rows of c columns.

    Measured: log2 of the number of different rows of answers; infinity if the merged
    messages are not what the layer computes.

    Args:
        tiles, others, query, layer: as for `tile`; c of the others.
        readout: L + 1 pairs of a weight, (inputs, outputs), and a bias; the last one
            has one output, and the answer is yes if it is positive.

    Claim: after.exact
    Page: notebooks/what_came_after/bits_of_a_tile
    """
    _check(layer, 1, tiles=tiles, query=query, others=others)
    heads, _, width = layer.w_v.shape
    _check_readout(readout, heads * width, layer.w_v)
    told, heard, right = _told_and_heard(tiles, others, query, layer)
    widest = max([1] + [len(bias) for _, bias in readout[:-1]])
    worth = len(readout) * math.log2(6 * len(others) * widest)
    output = _answered(_merge(told, heard), readout)
    if _wave:
        output = torch.sin(math.pi * output)
    rows = (output > 0).mT.unique(dim=0)
    measured = math.log2(len(rows)) if right else math.inf
    return at_most(measured, heads * (width + 1) * worth)


# --- looking up


def _numbered(strings, tiles, query, layer, bits, rounded) -> Tensor:
    """For each string, the number of its message."""
    _check(layer, bits, tiles=tiles, query=query)
    _check_strings(strings, tiles)
    _check_one(query)
    o, lambda_ = messages(query, tiles, layer)
    if rounded:
        o, lambda_ = _in_bits(o, bits), _in_bits(lambda_, bits)
    told = torch.cat([o.flatten(2), lambda_.flatten(2)], dim=-1)[0]
    return told.unique(dim=0, return_inverse=True)[1]


def _by_majority(strings: Tensor, which: Tensor) -> Tensor:
    """What a reader of messages makes of each string who answers, for each message and
    place, with the bit that more of its strings have.
    """
    count = which.bincount()
    ones = torch.zeros(len(count), strings.shape[1], dtype=torch.long)
    ones = ones.index_add(0, which, strings.long())
    return (2 * ones > count[:, None])[which]


LOOKUP = Case(strings_to_look_up, {"n": 9}, {"bits": 4})
LOOKUPS = [
    LOOKUP,
    LOOKUP.but(plain=True),
    LOOKUP.but(n=10, heads=2, bits=2),
    LOOKUP.but(n=10, width=3, bits=2),
]


@claim("after.lookup", cases=LOOKUPS, broken={"not rounded": {"_rounded": False}})
def lookup(
    strings: Tensor,
    tiles: Tensor,
    query: Tensor,
    layer: Layer,
    *,
    bits: int,
    _rounded=True,
) -> Verdict:
    """One layer whose query does not know the place answers at most 2^(H (m + 1) p) of
    the 2^n strings rightly at every place.

    Measured: log2 of how many strings the best reader knows whole. It names one string
    for each message, so that is how many messages there are.

    Args:
        strings: all strings of n bits, (2^n, n), boolean.
        tiles: (2^n, n, d), float64, the tokens that stand for them.
        query: (1, d).
        layer: H heads with values of width m.
        bits: p.

    Claim: after.lookup
    Page: notebooks/what_came_after/bits_of_a_tile
    """
    which = _numbered(strings, tiles, query, layer, bits, _rounded)
    return at_most(math.log2(int(which.max()) + 1), _allowed(layer, bits))


def entropy(share: float) -> float:
    """h of a share, in bits: -x log2 x - (1 - x) log2 (1 - x)."""
    numbers(share=share)
    require(0 <= share <= 1, f"share must lie between 0 and 1, got {share}")
    terms = [-x * math.log2(x) for x in (share, 1 - share) if x > 0]
    return sum(terms)


@claim("after.nearly", cases=LOOKUPS, broken={"not rounded": {"_rounded": False}})
def nearly(
    strings: Tensor,
    tiles: Tensor,
    query: Tensor,
    layer: Layer,
    *,
    bits: int,
    _rounded=True,
) -> Verdict:
    """If the layer is wrong on a share delta of all strings and places, then
    H (m + 1) p >= n (1 - h(delta)).

    The arguments are those of `lookup`. Measured: n (1 - h(delta)), for the reader who
    is wrong on the fewest pairs: the majority of the strings of a message, at each
    place.

    Claim: after.nearly
    Page: notebooks/what_came_after/bits_of_a_tile
    """
    which = _numbered(strings, tiles, query, layer, bits, _rounded)
    wrong = float((_by_majority(strings, which) != strings).double().mean())
    return at_most(strings.shape[1] * (1 - entropy(wrong)), _allowed(layer, bits))


# --- what tasks ask


def bits_asked(f: Callable, tiles: Sequence, others: Sequence) -> float:
    """log2 of the number of different rows of the table f(A, B): the bits that the
    theorem asks of a tile.

    Args:
        f: of a tile and of what else is read; its values can be compared.
        tiles: all A.
        others: all B.

    Raises:
        ValueError: for what is no function, empty lists, too many pairs, or answers
            that cannot be compared (tensors, lists, NaN).

    Cost: |tiles| |others| calls of f, and two more.
    """
    require(callable(f), f"f must be a function of (A, B), got {type(f).__name__}")
    is_list(tiles=tiles, others=others)
    pairs = len(tiles) * len(others)
    require(pairs > 0, "tiles and others must not be empty")
    require(pairs <= MOST, f"tiles and others make {pairs:,} pairs, above {MOST:,}")
    _check_answer(f(tiles[0], others[0]), f(tiles[0], others[0]))
    rows = [tuple(f(a, b) for b in others) for a in tiles]
    for row in rows:
        for value in row:
            _check_answer(value, value)
    return math.log2(len(set(rows)))


def _check_answer(first, again) -> None:
    """Refuse answers that are not equal when they should be: tensors, NaN, dice."""
    try:
        same = hash(first) == hash(again) and bool(first == again)
    except (TypeError, ValueError, RuntimeError):
        same = False
    require(
        same and not torch.is_tensor(first),
        "f must give the same answer each time, one that can be compared (a number, a "
        f"string, a tuple), got {type(first).__name__} {first!r}, then {again!r}",
    )


def _lists(n: int) -> list[tuple[int, ...]]:
    return [tuple(row) for row in all_strings(n).int().tolist()]


def look_up(n: int) -> tuple:
    """The bit of A at the place that B names; n bits."""
    return (lambda a, b: a[b]), _lists(n), list(range(n)), n


def equality(n: int) -> tuple:
    """Whether A and B are the same string; n bits."""
    return (lambda a, b: a == b), _lists(n), _lists(n), n


def majority(n: int) -> tuple:
    """Whether more than half of all 2n bits are ones; log2(n + 1) bits."""
    ones = list(range(n + 1))
    return (lambda a, b: sum(a) + b > n), _lists(n), ones, math.log2(n + 1)


def parity(n: int) -> tuple:
    """Whether the number of ones is odd; one bit."""
    return (lambda a, b: (sum(a) + b) % 2), _lists(n), [0, 1], 1


def match2(n: int) -> tuple:
    """Whether some number and that of the query, 2, add up to 0 modulo n + 2; a bit."""
    pairs = [(i, j) for i in range(n + 2) for j in range(n + 2)]
    return (lambda a, b: n in a + b), pairs, pairs, 1


def match3(n: int, modulus: int | None = None) -> tuple:
    """Whether two numbers (maybe the same one twice, or the query's) and that of the
    query, n + 1, add up to 0 modulo 4 (n + 1); n bits.

    Number j of A is j or n + 1, number j of B is M - (n + 1) - j or n + 1.
    """
    inert = n + 1
    M = 4 * (n + 1) if modulus is None else modulus
    tiles = []
    others = []
    for string in _lists(n):
        picks = list(enumerate(string, 1))
        tiles.append(tuple(j if bit else inert for j, bit in picks))
        others.append(tuple((M - inert - j) if bit else inert for j, bit in picks))

    def f(a, b):
        read = (inert, *a, *b)
        return any((inert + x + y) % M == 0 for x in read for y in read)

    return f, tiles, others, n


TASKS = {
    "look up": look_up,
    "equality": equality,
    "majority": majority,
    "parity": parity,
    "Match2": match2,
    "Match3": match3,
}
Task = Literal["look up", "equality", "majority", "parity", "Match2", "Match3"]


def a_task(task: Task = "Match3", n: int = 4, modulus: int | None = None) -> dict:
    """A task by name, with its tiles, what else is read, and the bits it asks."""
    one_of(TASKS, task=task)
    sizes(1, n=n)
    require(n <= 10, f"n must be at most 10, got {n}: all strings are listed")
    found = TASKS[task](n)
    if modulus is not None:
        require(task == "Match3", f"modulus must be None for {task}, got {modulus}")
        found = match3(n, modulus)
    return dict(zip(("f", "tiles", "others", "bits"), found))


ASKED = Case(a_task)


@claim(
    "after.tasks",
    cases=[
        ASKED,
        *[ASKED.but(task=task, n=n) for task in TASKS for n in (1, 4)],
        ASKED.but(task="look up", n=8),
    ],
    controls=[ASKED.but(modulus=10), ASKED.but(bits=3)],
    without_kernel="a count of the rows of a table",
)
def tasks(f: Callable, tiles: Sequence, others: Sequence, bits: float) -> Verdict:
    """Looking up and equality ask n bits of a tile of n bits, a majority of 2n bits
    log2(n + 1), a parity and Match2 one, Match3 at least n of a tile of n numbers.

    Measured: the distance of log2 of the number of different rows from `bits`, what the
    statement says; for Match3, of the rows of the 2^n tiles that the proof names.

    Claim: after.tasks
    Page: notebooks/what_came_after/bits_of_a_tile
    """
    numbers(bits=bits)
    return at_most(abs(bits_asked(f, tiles, others) - bits), 1e-12)


# --- reached


def digits_in_values(heads=2, width=2, bits=3, room=None) -> dict:
    """All strings of H m p bits, told by even attention with p of them as the digits of
    each number; room: so many digits a number are used.
    """
    room = bits if room is None else room
    sizes(1, heads=heads, width=width, bits=bits, room=room)
    n = heads * width * bits
    place = torch.arange(n)
    number = (place // room) % (heads * width)
    w_v = torch.zeros(heads, n, width, dtype=double)
    w_v[number // width, place, number % width] = (n * 2 ** (place % room)).double()
    zero = torch.zeros(heads, n, 1, dtype=double)
    w_o = torch.zeros(heads, width, n, dtype=double)
    return {
        "tiles": torch.diag_embed(all_strings(n).double()),
        "query": torch.zeros(1, n, dtype=double),
        "layer": Layer(w_q=zero, w_k=zero, w_v=w_v, w_o=w_o),
        "bits": bits,
    }


DIGITS = Case(digits_in_values)


@claim(
    "after.reached",
    cases=[DIGITS, DIGITS.but(heads=1, width=1, bits=10), DIGITS.but(width=1, bits=1)],
    controls=[DIGITS.but(room=2)],
)
def reached(tiles: Tensor, query: Tensor, layer: Layer, bits: int) -> Verdict:
    """H heads of width m with p bits a number can tell a tile of H m p bits whole, and
    all logits may be equal.

    Measured: how many messages are missing to one a tile, plus how many numbers are not
    whole, from 0 to 2^p - 1.

    Args:
        tiles: (2^(H m p), n, d), float64, all different.
        query: (1, d).
        layer: H heads with values of width m.
        bits: p.

    Claim: after.reached
    Page: notebooks/what_came_after/bits_of_a_tile
    """
    _check(layer, bits, tiles=tiles, query=query)
    _check_one(query)
    require(layer.w_v.any(), "layer: w_v is zero, and no message tells anything")
    heads, _, width = layer.w_v.shape
    told = heads * width * bits
    different = len(tiles.flatten(1).unique(dim=0))
    require(
        told <= 20 and len(tiles) == different == 2**told,
        f"tiles must be 2^(H m p) = 2^{told} different ones (at most 2^20), got "
        f"{len(tiles)}, {different} of them different",
    )
    o = messages(query, tiles, layer)[0][0].flatten(1)
    whole = o.round()
    unequal = float((o - whole).abs().max()) > 1e-6
    shared = len(tiles) - len(whole.unique(dim=0))
    outside = (whole < 0) | (whole > 2**bits - 1)
    return at_most(shared + int(outside.any(0).sum()) + unequal, 0)


# --- two layers


def strings_with_marks(n=8, count=None, seed=0) -> dict:
    """All strings of n bits with each of the places, or so many random ones."""
    if count is None:
        strings = all_strings(n)
        places = torch.arange(n).repeat(len(strings))
        return {"strings": strings.repeat_interleave(n, 0), "places": places}
    g = torch.Generator().manual_seed(seed)
    strings = torch.rand(count, n, generator=g) < 0.5
    return {"strings": strings, "places": torch.randint(n, (count,), generator=g)}


def position_codes(count: int, signs: int | None = None) -> Tensor:
    """The binary digits of 0, ..., count - 1 as signs 1 and -1, (count, signs); by
    default as many as it takes to tell them apart.
    """
    if signs is None:
        signs = max(1, (count - 1).bit_length())
    digits = (torch.arange(count)[:, None] >> torch.arange(signs)) % 2
    return (2 * digits - 1).double()


# What a token holds, before its position and the one before it.
MARK, BIT, SIGN, NOTE, OUT = range(5)


def look_up_tokens(strings: Tensor, places: Tensor, signs: int | None = None) -> Tensor:
    """Bits at the odd positions, a question mark before the wanted bit, and one at the
    end, (N, 2n + 1, 5 + 2 D): mark, bit, its sign, note, output, two position codes.
    """
    N, n = strings.shape
    T = 2 * n + 1
    codes = position_codes(T, signs)
    x = torch.zeros(N, T, 5, dtype=double)
    x[torch.arange(N), 2 * places, MARK] = 1.0
    x[:, -1, MARK] = 1.0
    x[:, 1::2, BIT] = 1.0
    x[:, 1::2, SIGN] = 2.0 * strings.double() - 1
    positions = torch.cat([codes, codes.roll(1, dims=0)], dim=1)
    return torch.cat([x, positions.expand(N, -1, -1)], dim=2)


def look_up_layers(T: int, D: int) -> list[Layer]:
    """Layer 1: each token looks at the one before it, and notes how marked it is. Layer
    2: the query, which is marked, looks for a bit with a note. Logits have scale 1.
    """
    unit = torch.eye(5 + 2 * D, dtype=double)
    own, before = unit[:, 5 : 5 + D], unit[:, 5 + D :]
    beta_1 = math.log(8 * T) / 2
    beta_2 = 2 * math.log(8 * T)

    def layer(w_q, w_k, value, target):
        return Layer(w_q[None], w_k[None], unit[None, :, [value]], unit[None, [target]])

    first = layer(beta_1 * before, own, MARK, NOTE)
    noted = unit[:, [NOTE]] + unit[:, [BIT]]
    second = layer(beta_2 * unit[:, [MARK]], noted, SIGN, OUT)
    return [first, second]


def _by_tiles(x: Tensor, layer: Layer, accuracy: float) -> Tensor:
    """A layer of one head with a skip that merges what its two tiles tell, bits at odd
    positions and the rest at even ones; each number first becomes a multiple of the
    accuracy.
    """
    logits = _project(x, layer.w_q[0], None) @ _project(x, layer.w_k[0], None).mT
    values = _project(x, layer.w_v[0], None)
    told = []
    for start in (1, 0):
        part = logits[..., start::2]
        o = torch.softmax(part, dim=-1) @ values[..., start::2, :]
        lambda_ = part.logsumexp(-1)
        told.append(tuple((t / accuracy).round() * accuracy for t in (o, lambda_)))
    return x + _merge(*told) @ layer.w_o[0]


MARKED = Case(strings_with_marks)


@claim(
    "after.two-layers",
    cases=[
        MARKED,
        MARKED.but(accuracy=1 / 16),
        MARKED.but(n=1),
        MARKED.but(n=5, accuracy=1 / 16),
        MARKED.but(n=100, count=50),
    ],
    controls=[MARKED.but(accuracy=3.0)],
    broken={
        "layer 1 left out": {"_left_out": 1},
        "keys of 3 signs": {"_signs": 3},
    },
)
def two_layers(
    strings: Tensor,
    places: Tensor,
    *,
    accuracy: float = 0.0,
    _left_out=0,
    _signs=None,
) -> Verdict:
    """Two layers of one head look up any of n bits; keys have ceil(log2(2n + 1)) signs.

    Measured: the least output times the sign of the bit, at least 3/4; or at least
    11/16, if all that tiles tell is rounded.

    Args:
        strings: (N, n), boolean; bit j stands at position 2j + 1.
        places: (N,), integers; the mark stands at position 2 places.
        accuracy: round o and lambda of each tile to multiples of it, which the theorem
            asks to be 1/16; 0 for not at all.

    Claim: after.two-layers
    Page: notebooks/what_came_after/bits_of_a_tile
    """
    _check_marks(strings, places)
    numbers(accuracy=accuracy)
    require(
        accuracy == 0 or accuracy >= 1e-12,
        f"accuracy must be 0 or at least 1e-12, got {accuracy}: doubles are no finer",
    )
    N, n = strings.shape
    x = look_up_tokens(strings, places, _signs)
    T, width = x.shape[1:]
    layers = look_up_layers(T, (width - 5) // 2)[_left_out:]
    outputs = []
    for some in x.split(max(1, 2**22 // T**2)):
        if accuracy == 0:
            some = forward(some, layers, skip=True, scale=1.0)
        else:
            for layer in layers:
                some = _by_tiles(some, layer, accuracy)
        outputs.append(some[:, -1, OUT])
    sign = 2.0 * strings[torch.arange(N), places].double() - 1
    margin = float((torch.cat(outputs) * sign).min())
    return at_least(margin, 11 / 16 if accuracy > 0 else 3 / 4)


def _check_marks(strings: Tensor, places: Tensor) -> None:
    """Refuse other than (N, n) booleans, and (N,) places within."""
    is_tensor("strings", strings)
    is_tensor("places", places)
    require(
        strings.dim() == 2 and strings.numel() > 0 and strings.dtype == torch.bool,
        f"strings must be boolean (N, n), got {strings.dtype} {tuple(strings.shape)}",
    )
    N, n = strings.shape
    require(
        n <= 2048,
        f"strings must have at most 2,048 bits, got {n:,}: a layer has 4n^2 logits",
    )
    require(
        tuple(places.shape) == (N,) and places.dtype == torch.long,
        f"places must be int64 ({N},) to fit strings, got {places.dtype} "
        f"{tuple(places.shape)}",
    )
    require(
        ((places >= 0) & (places < n)).all(),
        f"places must lie between 0 and {n - 1}, got {int(places.min())} to "
        f"{int(places.max())}",
    )
