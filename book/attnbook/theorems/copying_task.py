"""The claims of the page `A copying task and its reach bound`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product

import torch
from torch import Tensor

from attnbook.data.mixers import (
    Convolve,
    MixingNetwork,
    Project,
    last_field,
    plan,
    reads,
)
from attnbook.theorems import Case, claim
from attnlib import copying, patterns
from attnlib._require import is_a, is_list, is_tensor, require, sizes
from attnlib.certify import Verdict, at_most
from attnlib.copying import causal_pattern, copy_targets
from attnlib.patterns import Columns, Pattern, Rows, Window

# How far a token outside may move, relative to the one that moves most: rounding.
ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4}
MOST_SEQUENCES = 10**5


def fields_of(pattern: Pattern, layers: int, scheme="union", heads: int = 4) -> Tensor:
    """The receptive fields after these layers, (n, n)."""
    return last_field(plan(pattern, layers, heads, scheme))


def share(pattern: Pattern, layers: int) -> Fraction:
    """R_L: of the symbols, how many are reached."""
    hit = copying.reached(fields_of(pattern, layers))
    return Fraction(int(hit.sum()), len(hit))


def symbol_rows(m: int, symbols: int) -> list[tuple[int, ...]]:
    """All sequences s_1 ... s_m, in the order of itertools.product."""
    require(
        symbols**m <= MOST_SEQUENCES,
        f"there are {symbols}^{m} sequences, more than {MOST_SEQUENCES:,}",
    )
    return list(product(range(symbols), repeat=m))


# --- objects: what the tests run the theorems on


def mixing_network(kind="strided", ahead=False, n=10, seed=0) -> dict:
    """A random network of two layers, and what its tokens are said to read; ahead: it
    reads later tokens as well, and the masks do not say so.
    """
    network = MixingNetwork(8, mixings(kind, n, ahead), width=16, seed=seed)
    g = torch.Generator().manual_seed(seed)
    return {
        "network": network.double(),
        "masks": [reads(mixing) for mixing in mixings(kind, n)],
        "tokens": torch.randint(0, 8, (n,), generator=g),
    }


def mixings(kind: str, n: int, ahead: bool = False) -> list:
    """Two layers of one kind, causal unless ahead."""
    filtered = Convolve(n, 3, not ahead)
    if kind == "projection":
        return [Project(n, not ahead)] * 2
    if kind == "convolution":
        return [filtered] * 2
    if kind == "the token before":
        before = [[max(k - 1, 0)] for k in range(n)]
        return plan(patterns.from_sets(before), 2, 2, "union")
    if kind == "strided":
        made = patterns.strided(n, 3, reach=1)
    else:
        made = patterns.fixed(n, 4)
    if not ahead:
        made = patterns.causal(made)
    if kind == "filter, then fixed":
        return [filtered, *plan(made, 1, 2, "union")]
    return plan(made, 2, 4, "multihead" if kind == "fixed" else "union")


def small_sets(seed=None, symbols=2, causal=False, m=2) -> dict:
    """What each token of 0 s 0 s reads: without a seed the example of the page."""
    if seed is None:
        sets = [[0], [1], [2], [1, 3], [3, 4], [5]]
        return {"masks": [patterns.from_sets(sets).mask(0)], "symbols": symbols}
    n = 2 * (m + 1)
    g = torch.Generator().manual_seed(seed)
    mask = torch.rand(n, n, generator=g) < 0.25
    mask |= torch.eye(n, dtype=torch.bool)
    if causal:
        mask = mask.tril()
    return {"masks": [mask], "symbols": symbols}


def guessing(seed=0) -> dict:
    """A random network of one layer, which reaches one of three symbols of V = 3."""
    layers = plan(causal_pattern("fixed", 8, 3), 1, 4, "union")
    network = MixingNetwork(4, layers, width=16, seed=seed).double()
    masks = [reads(layer) for layer in layers]
    return {"masks": masks, "symbols": 3, "network": network}


def sizes_of_a_test(samples=60, symbols=4, failure=1e-3) -> dict:
    """How many sequences, how many symbols, and the chance of failure."""
    return {"samples": samples, "symbols": symbols, "failure": failure}


def stepped(name="fixed", n=16, layers=2, heads=4, causal=True) -> dict:
    """A pattern with steps, and how many layers and heads use it."""
    size = [n // 4] if name == "blockwise" else []
    made = getattr(patterns, name)(n, *size)
    if causal:
        made = patterns.causal(made)
    return {"pattern": made, "layers": layers, "heads": heads}


def backward(distances=(0, 1, 2), m=4, layers=2, block=None) -> dict:
    """Every token reads those at certain distances before it; with `block`, those in
    its own block of so many alone.
    """
    sets = []
    for k in range(2 * (m + 1)):
        first = k - k % block if block else 0
        sets.append([k - d for d in distances if k - d >= first])
    made = patterns.from_sets(sets)
    return {"pattern": made, "distances": distances, "layers": layers}


def strided(m=7, w=4) -> dict:
    """Strided of the page: a window of w tokens, then every w-th."""
    distances = [*range(w), *range(w, 2 * (m + 1), w)]
    made = causal_pattern("strided", 2 * (m + 1), w)
    return {"pattern": made, "distances": distances, "layers": 2}


def relays(m=9, causal=True) -> dict:
    """Fixed for each size of its blocks, and the star with its relay in front, which
    reads all tokens unless causal.
    """
    n = 2 * (m + 1)
    blocks = {w: patterns.fixed(n, w) for w in range(2, m + 1)}
    star = patterns.build(n, [Window(1, 1), Columns((0,)), Rows((0,))])
    if causal:
        blocks = {w: patterns.causal(made) for w, made in blocks.items()}
        star = patterns.causal(star)
    return {"blocks": blocks, "star": star}


def relay_code(code="odd or even", m=3) -> dict:
    """One relay, the end of the first block: fixed with w = m + 1, two layers, V = 2.

    Its symbol crosses before the first layer, its state before the second. The state
    tells what `code` names, in as many bits as that needs.
    """
    rows = symbol_rows(m, 2)
    told = [tell(code, s) for s in rows]
    return {
        "pattern": patterns.one_step(causal_pattern("fixed", 2 * m + 2, m + 1)),
        "layers": 2,
        "code": [(s[-1], state) for s, state in zip(rows, told, strict=True)],
        "symbols": 2,
        "bits": math.log2(len(set(told))),
    }


def tell(code: str, s: tuple[int, ...]):
    """What a state tells of the symbols."""
    match code:
        case "the first two":
            return s[:2]
        case "the first":
            return s[0]
        case "most of them":
            return 2 * sum(s) > len(s)
        case "odd or even":
            return sum(s) % 2
        case "nothing":
            return 0


# --- fields


STRIDED = Case(mixing_network)


@claim(
    "copying.fields",
    cases=[
        STRIDED,
        STRIDED.but(kind="fixed", seed=1),
        STRIDED.but(kind="projection"),
        STRIDED.but(kind="convolution"),
        STRIDED.but(kind="the token before"),
        STRIDED.but(kind="filter, then fixed"),
    ],
    controls=[STRIDED.but(ahead=True)],
)
def fields(
    network: Callable[[Tensor], Tensor], masks: Sequence[Tensor], tokens: Tensor
) -> Verdict:
    """The state of a token depends on the inputs in its receptive field alone.

    Measured: each input token is changed in turn; how far the outputs move that do not
    have it in their field, relative to the output that moves most.

    Args:
        network: takes tokens (batch, n) to outputs (batch, n, v), float64 or float32.
        masks: what each of its L layers reads, (n, n) or (heads, n, n), boolean.
        tokens: (n,), int64; the tokens 0 and 1 are put in their places.

    Claim: copying.fields
    Page: notebooks/sparse_universality/copying_task
    """
    inside = copying.receptive_fields(masks)[-1]
    n = len(inside)
    is_tensor("tokens", tokens)
    got = f"{tokens.dtype} {tuple(tokens.shape)}"
    require(
        tokens.dtype == torch.int64 and tuple(tokens.shape) == (n,),
        f"tokens must be ({n},) and int64, one for each row of the masks, got {got}",
    )
    is_a(Callable, network=network)
    changed = tokens.repeat(n, 1)
    changed[range(n), range(n)] = (tokens == 0).to(tokens.dtype)
    with torch.no_grad():
        before = network(tokens[None])
        after = network(changed)
    got = f"{before.dtype} {tuple(before.shape)}"
    require(
        before.dtype in ROUNDING and before.dim() == 3 and before.shape[1] == n,
        f"network must return (batch, {n}, v) in float64 or float32, got {got}",
    )
    require(bool(before.isfinite().all()), "the output of network is not finite")
    moved = (after - before).abs().amax(-1).mT  # row k, column j
    most = float(moved.max())
    require(most > 0, "network gives the same outputs for all tokens: nothing moves")
    outside = moved.masked_fill(inside, 0.0).max()
    return at_most(float(outside) / most, ROUNDING[before.dtype])


# --- the reach bound


EXAMPLE = Case(small_sets)
GUESSING = Case(guessing)


@claim(
    "copying.reach",
    cases=[
        EXAMPLE,
        EXAMPLE.but(symbols=1),
        EXAMPLE.but(symbols=3, seed=0),
        EXAMPLE.but(seed=1, m=4),
        EXAMPLE.but(symbols=3, seed=2, m=3, causal=True),
        GUESSING,
        GUESSING.but(seed=1),
        GUESSING.but(seed=2),
    ],
    broken={
        "one symbol likelier": {"_weights": (Fraction(3, 4), Fraction(1, 4))},
        "it reads ahead": {"_ahead": True},
        "all symbols the same": {"_same": True},
    },
)
def reach(
    masks, symbols, network=None, *, _weights=None, _ahead=False, _same=False
) -> Verdict:
    """Who has not heard of a symbol guesses: R + (1 - R) / V is the most, and attained.

    Measured, over all sequences and in fractions: how far the best predictor that sees
    the fields is from the bound; or, if that is more, how far a network's chance at a
    query that is not reached is from 1 / V.

    Args:
        masks: what each of the L layers reads, as for copying.receptive_fields, for
            sequences 0 s 0 s.
        symbols: V, at least 1.
        network: takes tokens (batch, n) to logits (batch, n, V + 1), and reads what the
            masks say; None for the best predictor alone.

    Claim: copying.reach
    Page: notebooks/sparse_universality/copying_task
    """
    field = copying.receptive_fields(masks)[-1]
    hit = copying.reached(field)
    sees = field.clone()
    if _ahead:
        sees.diagonal(1).fill_(True)
    if _same:  # whoever has heard of one symbol knows all
        sees[:, [0, len(hit) + 1]] = False
        sees = sees.any(1, keepdim=True).expand_as(field)
    best = copying.best_accuracy(sees, symbols, weights=_weights)
    off = abs(best - copying.bound(hit, symbols))
    if network is not None:
        for chance in chances(network, len(hit), symbols, ~hit):
            off = max(off, abs(chance - Fraction(1, symbols)))
    return at_most(float(off), 0)


def chances(network, m: int, symbols: int, queries: Tensor) -> list[Fraction]:
    """How often the symbol that a network prefers at each of these queries is right, of
    all sequences.
    """
    s = torch.tensor(symbol_rows(m, symbols)) + 1
    gap = torch.zeros(len(s), 1, dtype=torch.int64)
    x = torch.cat([gap, s, gap, s], 1)
    with torch.no_grad():
        answers = network(x)[..., 1:].argmax(-1) + 1
    right = (answers == copy_targets(x))[:, m + 1 : -1].sum(0)
    return [Fraction(count, len(s)) for count in right[queries].tolist()]


# --- finite samples


SIXTY = Case(sizes_of_a_test)


@claim(
    "copying.sample",
    cases=[
        SIXTY,
        SIXTY.but(samples=1, symbols=2, failure=0.3),
        SIXTY.but(samples=5, failure=0.3),
        SIXTY.but(samples=400, symbols=16, failure=1e-6),
    ],
    broken={
        "one symbol likelier": {"_chance": Fraction(1, 2)},
        "one sequence repeated": {"_repeated": True},
    },
)
def sample(
    samples: int, symbols: int, failure: float, *, _chance=None, _repeated=False
) -> Verdict:
    """On independent sequences the accuracy seldom exceeds its ceiling.

    Measured, for R = 0 and one query a sequence: the chance that it does, from the
    binomial distribution in fractions.

    Args:
        samples: sequences, at most 2,000.
        symbols: V, at least 2.
        failure: what the chance is at most, between 0 and 1.

    Claim: copying.sample
    Page: notebooks/sparse_universality/copying_task
    """
    sizes(2, symbols=symbols)
    sizes(1, samples=samples)
    require(samples <= 2000, f"samples must be at most 2,000 here, got {samples}")
    unreached = torch.zeros(1, dtype=torch.bool)
    u = copying.ceiling(unreached, symbols, samples=samples, failure=failure)
    p = Fraction(1, symbols) if _chance is None else _chance
    coins = 1 if _repeated else samples
    exceeded = Fraction(0)
    for right in range(coins + 1):
        if right > coins * u:
            ways = math.comb(coins, right)
            exceeded += ways * p**right * (1 - p) ** (coins - right)
    return at_most(float(exceeded), failure)


# --- schemes


FIXED = Case(stepped)


@claim(
    "copying.schemes",
    cases=[
        FIXED,
        FIXED.but(name="strided", n=9, layers=3),
        FIXED.but(name="shifted_blocks", n=30),
        FIXED.but(name="blockwise", layers=1),
        FIXED.but(causal=False),
    ],
    controls=[FIXED.but(heads=1)],
)
def schemes(pattern: Pattern, layers: int, heads: int) -> Verdict:
    """UNION and MULTIHEAD have the same receptive fields, SEQUENTIAL no larger ones.

    Measured: pairs in which the fields of UNION and MULTIHEAD differ, and pairs of
    SEQUENTIAL outside of them, after 1, 2, ... layers.

    Claim: copying.schemes
    Page: notebooks/sparse_universality/copying_task
    """
    is_a(Pattern, pattern=pattern)
    sizes(1, layers=layers, heads=heads)
    wrong = 0
    for depth in range(1, layers + 1):
        union = fields_of(pattern, depth)
        several = fields_of(pattern, depth, "multihead", heads)
        in_turn = fields_of(pattern, depth, "sequential")
        wrong += int((union ^ several).sum() + (in_turn & ~union).sum())
    return at_most(wrong, 0)


# --- all or nothing


THREE_BACK = Case(backward)


@claim(
    "copying.distances",
    cases=[
        THREE_BACK,
        THREE_BACK.but(m=5),
        THREE_BACK.but(distances=(0, 4, 7), m=11),
        THREE_BACK.but(distances=(0, 4, 7), m=10),
        THREE_BACK.but(distances=(0, 2, 5), m=9, layers=3),
        THREE_BACK.but(distances=(0,), m=1),
        Case(strided),
    ],
    controls=[THREE_BACK.but(block=4)],
)
def distances(pattern: Pattern, distances: Sequence[int], layers: int) -> Verdict:
    """If distances decide who reads whom, all symbols are reached or none.

    Measured: how far the share R_L of what is reached is from 1, if m is a sum of L
    distances, or else from 0.

    Args:
        pattern: of 2 (m + 1) tokens, m at most 500; that its tokens read those at these
            distances before them is not compared.
        distances: D, integers from 0 on, with 0 among them.
        layers: L.

    Claim: copying.distances
    Page: notebooks/sparse_universality/copying_task
    """
    is_a(Pattern, pattern=pattern)
    is_list(distances=distances)
    for number, d in enumerate(distances):
        sizes(0, **{f"distances[{number}]": d})
    require(0 in distances, f"distances must hold 0, got {distances}")
    sizes(1, layers=layers)
    m = pattern.n // 2 - 1
    require(m <= 500, f"pattern must be of at most 1,002 tokens, got {pattern.n}")
    sums = {0}
    for _ in range(layers):
        sums = {a + d for a in sums for d in distances if a + d <= m}
    return at_most(float(abs(share(pattern, layers) - (m in sums))), 0)


# --- fixed, and a relay


CAUSAL = Case(relays)


@claim(
    "copying.relay",
    cases=[CAUSAL, CAUSAL.but(m=4), CAUSAL.but(m=15)],
    controls=[CAUSAL.but(causal=False)],
)
def relay(blocks: dict[int, Pattern], star: Pattern) -> Verdict:
    """One layer of causal fixed reaches the ends of blocks, a star with its relay in
    front the tokens just before.

    Measured: blocks whose share is not floor((m + 1) / w) / m; and for L = 1, 2, 3 and
    m, pairs in which the fields of the star are not those of the statement, and symbols
    that it reaches for L < m.

    Args:
        blocks: fixed, by its w, each in 2..m, of n = 2 (m + 1) tokens.
        star: of as many tokens.

    Claim: copying.relay
    Page: notebooks/sparse_universality/copying_task
    """
    is_a(Pattern, star=star)
    is_a(dict, blocks=blocks)
    n = star.n
    m = n // 2 - 1
    wrong = 0
    for w, made in blocks.items():
        is_a(Pattern, **{f"blocks[{w}]": made})
        require(
            made.n == n, f"blocks[{w}] must be of {n} tokens as star is, got {made.n}"
        )
        require(w in range(2, m + 1), f"w must be in 2..m = {m}, got {w}")
        wrong += share(made, 1) != Fraction((m + 1) // w, m)
    place = torch.arange(n)
    back = place[:, None] - place
    for layers in (1, 2, 3, m):
        got = fields_of(star, layers)
        wanted = (back >= 0) & (back <= layers)
        wanted[:, 0] = True
        wrong += int((got ^ wanted).sum())
        if layers < m:
            wrong += int(copying.reached(got).sum())
    return at_most(wrong, 0)


# --- the cut


def accuracy_of_code(
    code: Sequence, rows: Sequence[tuple], weights: Sequence[Fraction], others=False
) -> Fraction:
    """The best accuracy of whoever knows the code and the symbols before the one that
    is asked for, or all others, by a vote.
    """
    m = len(rows[0])
    total = Fraction(0)
    for i in range(m):
        votes: dict[tuple, Counter] = {}
        for told, s in zip(code, rows, strict=True):
            known = s[:i] + s[i + 1 :] if others else s[:i]
            chance = math.prod(weights[v] for v in s)
            votes.setdefault((told, known), Counter())[s[i]] += chance
        total += sum(max(counts.values()) for counts in votes.values())
    return total / m


def crossed_in(pattern: Pattern, layers: int) -> list[int]:
    """c_1, ..., c_L: tokens of the first round that later ones read, layer by layer."""
    is_a(Pattern, pattern=pattern)
    sizes(1, layers=layers)
    n = pattern.n
    require(n >= 4 and n % 2 == 0, f"pattern must be of 0 s 0 s, even, got n = {n}")
    for step in range(pattern.p):
        require(
            not pattern.mask(step).triu(1).any(),
            f"pattern must be causal: in step {step} a token reads a later one",
        )
    counts = patterns.crossing(pattern, range(n // 2, n))
    return [counts[layer % pattern.p] for layer in range(layers)]


def lacking(e: float, symbols: int) -> float:
    """The left side of (15.5)."""
    bits = e * math.log2(symbols - 1)
    for chance in (e, 1 - e):
        if chance > 0:
            bits -= chance * math.log2(chance)
    return bits


ODD = Case(relay_code)


@claim(
    "copying.cut",
    cases=[
        ODD,
        ODD.but(code="the first two"),
        ODD.but(code="the first"),
        ODD.but(code="most of them"),
        ODD.but(code="nothing"),
        ODD.but(code="most of them", m=6),
    ],
    broken={
        "it knows all others": {"_others": True},
        "one symbol likelier": {"_weights": (Fraction(19, 20), Fraction(1, 20))},
    },
)
def cut(
    pattern: Pattern,
    layers: int,
    code: Sequence,
    symbols: int,
    bits: float,
    *,
    _others=False,
    _weights=None,
) -> Verdict:
    """What the states that cross the middle cannot hold must be guessed.

    Measured: the accuracy of the best predictor from what crosses, in fractions, at
    most the bound; or, if it is more, by how many millionths the bound misses (15.5).

    Args:
        pattern: causal, of 2 (m + 1) tokens, for sequences 0 s 0 s.
        layers: L.
        code: for each of the V^m sequences s, in the order of itertools.product, what
            crosses the middle: V^c_1 2^(b (c_2 + ... + c_L)) values at most.
        symbols: V, at least 2.
        bits: b.

    Claim: copying.cut
    Page: notebooks/sparse_universality/copying_task
    """
    crossed = crossed_in(pattern, layers)
    m = pattern.n // 2 - 1
    bound = copying.cut_bound(crossed, m=m, symbols=symbols, bits=bits)
    carried = crossed[0] * math.log2(symbols) + sum(crossed[1:]) * bits
    rows = symbol_rows(m, symbols)
    _check_code(code, len(rows), carried)
    weights = _weights or [Fraction(1, symbols)] * symbols
    best = accuracy_of_code(code, rows, weights, _others)
    left = max(0.0, math.log2(symbols) - carried / m)
    missed = abs(lacking(1 - bound, symbols) - left)
    return at_most(max(float(best), 1e6 * missed), bound)


def _check_code(code, count: int, bits: float) -> None:
    """A value for each sequence, and no more values than cross."""
    is_list(code=code)
    require(
        len(code) == count,
        f"code must hold a value for each of the {count} sequences, got {len(code)}",
    )
    values = len(set(code))
    require(
        math.log2(values) <= bits + 1e-9,
        f"code has {values} values, more than the {bits:.4g} bits that cross can tell "
        "apart",
    )
