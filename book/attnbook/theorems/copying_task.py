"""The claims of the page `A copying task and its reach bound`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Literal, get_args

import torch
from torch import Tensor

from attnbook.data.mixers import (
    Convolve,
    MixingNetwork,
    Project,
    Scheme,
    last_field,
    plan,
    reads,
    train_network,
)
from attnbook.theorems import Case, claim
from attnlib import copying, patterns
from attnlib._require import (
    fractions,
    is_a,
    is_list,
    is_tensor,
    one_of,
    require,
    sizes,
)
from attnlib.certify import Verdict, at_most
from attnlib.copying import causal_pattern, copy_targets
from attnlib.patterns import Columns, Pattern, Rows, Window

# How far a token outside may move, relative to the one that moves most: rounding.
ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4}
MOST_SEQUENCES = 10**5

Seen = Literal["before", "all others"]


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
        before = [[0]]
        for k in range(1, n):
            before.append([k - 1])
        return plan(patterns.from_sets(before), 2, 2, "union")
    made = {
        "strided": patterns.strided(n, 3, reach=1),
        "fixed": patterns.fixed(n, 4),
        "filter, then fixed": patterns.fixed(n, 4),
    }[kind]
    if not ahead:
        made = patterns.causal(made)
    if kind.startswith("filter"):
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


def test_sizes(samples=60, symbols=4, failure=1e-3) -> dict:
    """How many sequences, how many symbols, and the chance of failure."""
    return {"samples": samples, "symbols": symbols, "failure": failure}


def stepped(name="fixed", n=16, layers=2, heads=4, causal=True) -> dict:
    """A pattern with steps, and how many layers and heads use it."""
    made = {
        "fixed": lambda: patterns.fixed(n),
        "strided": lambda: patterns.strided(n),
        "shifted blocks": lambda: patterns.shifted_blocks(n),
        "blockwise": lambda: patterns.blockwise(n, -(-n // 4)),
    }[name]()
    if causal:
        made = patterns.causal(made)
    return {"pattern": made, "layers": layers, "heads": heads}


def backward(distances=(0, 1, 2), m=4, layers=2) -> dict:
    """Distances that every token reads back, and the symbols to copy."""
    return {"distances": distances, "m": m, "layers": layers}


def two_sided_star(n: int) -> Pattern:
    """Neighbours, and a relay in front that reads all and is read by all."""
    return patterns.build(n, [Window(1, 1), Columns((0,)), Rows((0,))])


def relays(m=9, causal=True) -> dict:
    """Fixed for each size of its blocks, and the star with its relay in front."""
    n = 2 * (m + 1)
    blocks = {w: patterns.fixed(n, w) for w in range(2, m + 1)}
    star = two_sided_star(n)
    if causal:
        blocks = {w: patterns.causal(made) for w, made in blocks.items()}
        star = patterns.causal(star)
    return {"blocks": blocks, "star": star}


def relay_code(code="the first two", m=3, bits=None) -> dict:
    """One relay, the end of the first block: fixed with w = m + 1, two layers, V = 2.

    Its symbol crosses before the first layer, its state before the second. The state
    tells what `code` names, in as many bits as that needs.
    """
    told = {
        "the first two": lambda s: s[:2],
        "the first": lambda s: s[:1],
        "most of them": lambda s: 2 * sum(s) > m,
        "odd or even": lambda s: sum(s) % 2,
        "nothing": lambda s: 0,
    }[code]
    values = [(s[-1], told(s)) for s in product(range(2), repeat=m)]
    own = len({value for _, value in values})
    return {
        "pattern": patterns.one_step(causal_pattern("fixed", 2 * m + 2, m + 1)),
        "layers": 2,
        "code": values,
        "symbols": 2,
        "bits": math.log2(own) if bits is None else bits,
    }


# --- fields


def fields_have_two_sides() -> Verdict:
    """After two layers of strided some pairs are heard, and some that a mask with all
    earlier tokens would hold are not.

    Measured: how far their number is from the 30 counted by hand.
    """
    inside = last_field(mixings("strided", 10))
    by_hand = torch.zeros(10, 10, dtype=torch.bool)
    for k in range(10):
        for back in (0, 1, 2, 3, 4, 6, 7, 9):  # sums of two of 0, 1, 3, 6, 9
            if back <= k:
                by_hand[k, k - back] = True
    return at_most(int((inside ^ by_hand).sum()), 0)


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
    witness=fields_have_two_sides,
)
def fields(
    network: Callable[[Tensor], Tensor], masks: Sequence[Tensor], tokens: Tensor
) -> Verdict:
    """The state of token k after L layers depends on the inputs in its receptive field
    alone.

    Hypotheses: in layer l token k reads, besides itself, only what its row of mask l
    allows; all else works token by token.
    Measured: each input token is changed in turn; how far the outputs move that do not
    have it in their field, relative to the output that moves most.

    Args:
        network: takes tokens (batch, n) to outputs (batch, n, v), float64 or float32.
        masks: what each of its L layers reads, (n, n) or (heads, n, n), boolean.
        tokens: (n,) integers from 0 on; the tokens 0 and 1 are put in their places.

    Returns:
        Verdict; its bound is 1e-9, for float32 1e-4.

    Claim: copying.fields
    Page: notebooks/sparse_universality/copying_task
    """
    inside = copying.receptive_fields(masks)[-1]
    _check_tokens(tokens, len(inside))
    is_a(Callable, network=network)
    n = len(tokens)
    changed = tokens.repeat(n, 1)
    changed[range(n), range(n)] = (tokens == 0).to(tokens.dtype)
    with torch.no_grad():
        before = network(tokens[None])
        after = network(changed)
    _check_outputs(before, n)
    moved = (after - before).abs().amax(-1).mT  # row k, column j
    most = float(moved.max())
    require(most > 0, "network gives the same outputs for all tokens: nothing moves")
    outside = moved.masked_fill(inside, 0.0).max()
    return at_most(float(outside) / most, ROUNDING[before.dtype])


def _check_tokens(tokens, n: int) -> None:
    """Integers from 0 on, one a row of the masks."""
    is_tensor("tokens", tokens)
    whole = not (tokens.is_floating_point() or tokens.dtype == torch.bool)
    got = f"{tokens.dtype} {tuple(tokens.shape)}"
    require(
        whole and tuple(tokens.shape) == (n,),
        f"tokens must be ({n},) integers, one for each row of the masks, got {got}",
    )
    require(bool((tokens >= 0).all()), "tokens must be integers from 0 on")


def _check_outputs(outputs, n: int) -> None:
    """A finite tensor (1, n, v) with digits enough."""
    is_tensor("the output of network", outputs)
    got = f"{outputs.dtype} {tuple(outputs.shape)}"
    require(
        outputs.dtype in ROUNDING and outputs.dim() == 3 and outputs.shape[1] == n,
        f"network must return (batch, {n}, v) in float64 or float32, got {got}",
    )
    require(bool(outputs.isfinite().all()), "the output of network is not finite")


# --- the reach bound


def chance_and_training() -> Verdict:
    """A random network is right by chance alone, and a trained one comes near 1.

    The first runs on all 27 sequences of three symbols; at each of the two queries that
    are not reached exactly 9 answers are right. The second has a field that holds all.
    Measured: by how many right answers the first is off, or how often the second is
    wrong; the larger.
    """
    rows = torch.tensor(symbol_rows(3, 3)) + 1
    gap = torch.zeros(len(rows), 1, dtype=torch.int64)
    every = torch.cat([gap, rows, gap, rows], 1)
    off = 0
    for seed in range(3):
        layers = plan(causal_pattern("fixed", 8, 3), 1, 4, "union")
        network = MixingNetwork(4, layers, width=16, seed=seed).double()
        with torch.no_grad():
            named = network(every)[:, 4:7, 1:].argmax(-1) + 1
        right = (named == rows).sum(0)
        unreached = ~copying.reached(last_field(layers))
        off = max(off, int((right[unreached] - 9).abs().max()))
    return at_most(max(off, misses_after_training()), 0.02)


def misses_after_training() -> float:
    """How often a trained network with a field that holds all is wrong, on 200 fresh
    sequences of three symbols.
    """
    layers = plan(causal_pattern("dense", 8), 1, 2, "union")
    network = MixingNetwork(4, layers, width=16)
    g = torch.Generator().manual_seed(0)

    def batch(size=16):
        x = copying.sequences(3, 3, size, generator=g)
        return x, copy_targets(x)

    train_network(network, batch, steps=160)
    x, _ = batch(200)
    with torch.no_grad():
        named = network(x)[:, 4:7].argmax(-1)
    return float((named != x[:, 1:4]).double().mean())


EXAMPLE = Case(small_sets)
SKEWED = (Fraction(3, 4), Fraction(1, 4))


@claim(
    "copying.reach",
    cases=[
        EXAMPLE,
        EXAMPLE.but(symbols=1),
        EXAMPLE.but(symbols=3, seed=0),
        EXAMPLE.but(seed=1, m=4),
        EXAMPLE.but(symbols=3, seed=2, m=3, causal=True),
    ],
    controls=[
        EXAMPLE.but(weights=SKEWED),
        EXAMPLE.but(ahead=True),
        EXAMPLE.but(equal=True),
    ],
    witness=chance_and_training,
)
def reach(
    masks: Sequence[Tensor],
    symbols: int,
    *,
    weights: Sequence[Fraction] | None = None,
    ahead: bool = False,
    equal: bool = False,
) -> Verdict:
    """The expected accuracy of copying is at most R + (1 - R) / V, and the best
    predictor that sees the fields attains it.

    Hypotheses: symbols independent and uniform, and independent of parameters and
    pattern; R is the share of the symbols that lie in the field of their query.
    Measured: how far the best predictor, found by listing all sequences in fractions,
    is from the bound.

    Args:
        masks: what each of the L layers reads, as for copying.receptive_fields, for
            sequences 0 s 0 s.
        symbols: V, at least 1.
        weights: the chances of the V symbols where they are not uniform.
        ahead: let the predictor also see the token after its query.
        equal: all symbols of a sequence are the same one.

    Returns:
        Verdict; its bound is 0.

    Claim: copying.reach
    Page: notebooks/sparse_universality/copying_task
    """
    require(
        weights is None or not equal,
        "weights and equal both change the symbols: give one of them",
    )
    field = copying.receptive_fields(masks)[-1]
    hit = copying.reached(field)
    bound = copying.bound(hit, symbols)
    if ahead:
        n = len(field)
        queries = torch.arange(n - 1)
        field = field.clone()
        field[queries, queries + 1] = True
    if equal:  # whoever has heard of one symbol knows all
        sees = field[len(hit) + 1 : -1].clone()
        sees[:, [0, len(hit) + 1]] = False
        knows = int(sees.any(1).sum())
        best = Fraction(knows, len(hit)) + Fraction(
            len(hit) - knows, len(hit) * symbols
        )
    else:
        best = copying.best_accuracy(field, symbols, weights=weights)
    return at_most(float(abs(best - bound)), 0)


# --- finite samples


def ceilings_solve_their_equation() -> Verdict:
    """With half of two symbols reached, 16 symbols and a failure of one in a million,
    the ceiling on 8,192 sequences is 0.5385: R + (1 - R) u with u = 0.0770.

    It is 1 for 10 sequences, and tends to the bound.
    Measured: the largest of the misses; that of the equation N kl(u | 1/16) = ln 10^6
    counts in millionths.
    """
    half = torch.tensor([True, False])
    top = copying.ceiling(half, 16, samples=8192, failure=1e-6)
    u = 2 * top - 1
    kl = u * math.log(16 * u) + (1 - u) * math.log((1 - u) * 16 / 15)
    misses = [abs(8192 * kl / math.log(1e6) - 1) * 1e6]
    few = copying.ceiling(half, 16, samples=2, failure=1e-6)
    misses.append(abs(few - 1))
    many = copying.ceiling(half, 16, samples=10**9, failure=0.5)
    misses.append(1e3 * abs(many - float(copying.bound(half, 16))))
    return at_most(max(misses), 1)


SIXTY = Case(test_sizes)


@claim(
    "copying.sample",
    cases=[
        SIXTY,
        SIXTY.but(samples=1, symbols=2, failure=0.3),
        SIXTY.but(samples=5, failure=0.3),
        SIXTY.but(samples=400, symbols=16, failure=1e-6),
    ],
    controls=[SIXTY.but(chance=Fraction(1, 2)), SIXTY.but(repeated=True)],
    witness=ceilings_solve_their_equation,
)
def sample(
    samples: int,
    symbols: int,
    failure: float,
    *,
    chance: Fraction | None = None,
    repeated: bool = False,
) -> Verdict:
    """On so many independent sequences the accuracy exceeds R + (1 - R) u with a chance
    of at most `failure`, where u >= 1/V solves  samples kl(u | 1/V) = ln(1/failure).

    Hypotheses: sequences independent of each other, of parameters and pattern; symbols
    uniform on V >= 2.
    Measured, for R = 0 and one query a sequence: the chance itself, from the binomial
    distribution in fractions.

    Args:
        samples: sequences, at most 2,000.
        symbols: V, at least 2.
        failure: between 0 and 1.
        chance: that a guess is right, where symbols are not uniform.
        repeated: all sequences are one and the same.

    Returns:
        Verdict; its bound is failure.

    Claim: copying.sample
    Page: notebooks/sparse_universality/copying_task
    """
    sizes(2, symbols=symbols)
    sizes(1, samples=samples)
    require(samples <= 2000, f"samples must be at most 2,000 here, got {samples}")
    p = Fraction(1, symbols)
    if chance is not None:
        [p] = fractions(chance=chance)
        require(0 <= p <= 1, f"chance must lie in [0, 1], got {chance}")
    unreached = torch.zeros(1, dtype=torch.bool)
    u = copying.ceiling(unreached, symbols, samples=samples, failure=failure)
    coins = 1 if repeated else samples
    exceeded = Fraction(0)
    for right in range(coins + 1):
        if right > coins * u:
            ways = math.comb(coins, right)
            exceeded += ways * p**right * (1 - p) ** (coins - right)
    return at_most(float(exceeded), failure)


# --- schemes


def in_turn_may_reach_less() -> Verdict:
    """Fixed with blocks of 4, 32 tokens, one layer: in turn it reads blocks alone, 80
    pairs; all steps at once add 84 ends of blocks that lie in earlier blocks.

    Measured: how far the counts are from these.
    """
    made = causal_pattern("fixed", 32, 4)
    turn = int(fields_of(made, 1, "sequential").sum())
    union = int(fields_of(made, 1).sum())
    ends = sum(4 * block for block in range(8))
    return at_most(abs(turn - 80) + abs(union - turn - ends), 0)


FIXED = Case(stepped)


@claim(
    "copying.schemes",
    cases=[
        FIXED,
        FIXED.but(name="strided", n=9, layers=3),
        FIXED.but(name="shifted blocks", n=30),
        FIXED.but(name="blockwise", layers=1),
        FIXED.but(causal=False),
    ],
    controls=[FIXED.but(heads=1)],
    witness=in_turn_may_reach_less,
)
def schemes(pattern: Pattern, layers: int, heads: int) -> Verdict:
    """UNION and MULTIHEAD have the same receptive fields at every depth, and those of
    SEQUENTIAL are contained in them.

    Hypotheses: at least as many heads as the pattern has steps.
    Measured: pairs in which the fields of UNION and MULTIHEAD differ, and pairs of
    SEQUENTIAL outside of them, after 1, 2, ... layers.

    Args:
        pattern: of one step or more.
        layers: how many, at least 1.
        heads: of each layer; with fewer than steps the statement may fail.

    Returns:
        Verdict; its bound is 0.

    Claim: copying.schemes
    Page: notebooks/sparse_universality/copying_task
    """
    is_a(Pattern, pattern=pattern)
    sizes(1, layers=layers, heads=heads)
    wrong = 0
    for depth in range(1, layers + 1):
        union, several, turn = (
            fields_of(pattern, depth, scheme, heads) for scheme in get_args(Scheme)
        )
        wrong += int((union ^ several).sum() + (turn & ~union).sum())
    return at_most(wrong, 0)


# --- all or nothing


def closed_forms() -> Verdict:
    """What windows and strided reach, by the closed forms of the statement.

    A window of w copies in L layers if and only if L (w - 1) >= m. Strided with a
    window that reaches back c < w, in two layers, if and only if m <= 2 c or
    m mod w <= c.
    Measured: how often R is not 1 or 0 as this says, for m = 3, 5 and 8; for the causal
    pattern strided of the page, which reaches back w - 1 and always copies; and for it
    and half strided at m = 15, w = 4.
    """
    wrong = 0
    for m in (3, 5, 8):
        n = 2 * (m + 1)
        for w in range(2, m + 2):
            for layers in (1, 2, 3):
                window = causal_pattern("window", n, w)
                wrong += share(window, layers) != (layers * (w - 1) >= m)
            for c in range(w):
                made = patterns.causal(patterns.strided(n, w, reach=c))
                wrong += share(made, 2) != (m <= 2 * c or m % w <= c)
            wrong += share(causal_pattern("strided", n, w), 2) != 1
    wrong += share(causal_pattern("strided", 32, 4), 2) != 1  # 15 mod 4 = 3
    wrong += share(causal_pattern("half strided", 32, 4), 2) != 0
    return at_most(wrong, 0)


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
    ],
    controls=[THREE_BACK.but(cut=4)],
    witness=closed_forms,
)
def distances(
    distances: Sequence[int], m: int, layers: int, *, cut: int | None = None
) -> Verdict:
    """If each token reads those at certain distances before it, all symbols are reached
    or none: all if m is a sum of L distances.

    Hypotheses: all layers alike, and causal; 0 is one of the distances.
    Measured: how far the share R of what is reached is from the 1 or 0 of the
    statement.

    Args:
        distances: D, integers from 0 on, with 0 among them.
        m: symbols to copy, at most 500.
        layers: L.
        cut: if given, no token reads beyond the beginning of its block of so many, so
            that distances alone no longer decide.

    Returns:
        Verdict; its bound is 0.

    Claim: copying.distances
    Page: notebooks/sparse_universality/copying_task
    """
    is_list(distances=distances)
    for number, d in enumerate(distances):
        sizes(0, **{f"distances[{number}]": d})
    require(0 in distances, f"distances must hold 0, got {distances}")
    sizes(1, m=m, layers=layers)
    require(m <= 500, f"m must be at most 500 here, got {m}")
    if cut is not None:
        sizes(1, cut=cut)
    sets = []
    for k in range(2 * (m + 1)):
        first = 0 if cut is None else k - k % cut
        sets.append(sorted({k - d for d in distances if k - d >= first}))
    sums = {0}
    for _ in range(layers):
        sums = {a + d for a in sums for d in distances if a + d <= m}
    got = share(patterns.from_sets(sets), layers)
    return at_most(float(abs(got - (m in sums))), 0)


# --- fixed, and a relay


def relays_by_hand() -> Verdict:
    """At 32 tokens one layer of fixed with w = 4 reaches 4 of 15 symbols, and four
    layers of the star none; with a relay that looks ahead, two layers reach all.

    Measured: how far the shares are from 4/15, 0 and 1.
    """
    misses = [
        share(causal_pattern("fixed", 32, 4), 1) - Fraction(4, 15),
        share(causal_pattern("star", 32), 4),
        share(two_sided_star(32), 2) - 1,
    ]
    return at_most(float(max(abs(miss) for miss in misses)), 0)


CAUSAL = Case(relays)


@claim(
    "copying.relay",
    cases=[CAUSAL, CAUSAL.but(m=4), CAUSAL.but(m=15)],
    controls=[CAUSAL.but(causal=False)],
    witness=relays_by_hand,
)
def relay(blocks: dict[int, Pattern], star: Pattern) -> Verdict:
    """One layer of causal fixed reaches floor((m + 1) / w) of the m symbols, and a
    causal star with its relay in front hears of token 0 and of the last L + 1 tokens.

    Measured: blocks whose share is another, and pairs in which the fields of the star
    are others, for L = 1, 2, 3 and m; and L < m for which it reaches a symbol.

    Args:
        blocks: fixed, by its w, each in 2..m, of n = 2 (m + 1) tokens.
        star: of as many tokens.

    Returns:
        Verdict; its bound is 0.

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
        sizes(2, w=w)
        require(w <= m, f"w must be in 2..m = {m}, got {w}")
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
    code: Sequence, rows: Sequence[tuple], chances: Sequence[Fraction], seen: Seen
) -> Fraction:
    """The best accuracy of whoever knows the code and other symbols, by a vote."""
    m = len(rows[0])
    total = Fraction(0)
    for i in range(m):
        votes: dict[tuple, Counter] = {}
        for told, s, chance in zip(code, rows, chances, strict=True):
            known = s[:i] if seen == "before" else s[:i] + s[i + 1 :]
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


def crossings_by_hand() -> Verdict:
    """Two layers at 32 tokens: through the middle of fixed with w = 8 pass 2 and 2
    states, of strided 16 and 16, of the star 2 and 2, of fixed in turn 0 and 2.

    One bit for two symbols of V = 2 allows 0.88997, where h is a half; the best of all
    256 codes of one bit for three symbols gets 3/4, which is allowed.
    Measured: the largest of the misses.
    """
    misses = [0.0]
    for name, w, scheme, wanted in (
        ("fixed", 8, "union", [2, 2]),
        ("fixed", 8, "sequential", [0, 2]),
        ("strided", 4, "union", [16, 16]),
        ("star", 0, "union", [2, 2]),
    ):
        made = causal_pattern(name, 32, w)
        if scheme == "union":
            made = patterns.one_step(made)
        got = crossed_in(made, 2)
        misses.append(sum(abs(a - b) for a, b in zip(got, wanted, strict=True)))
    half = copying.cut_bound([0, 1], m=2, symbols=2, bits=1)
    misses.append(abs(half - 0.8899721355))
    rows = symbol_rows(3, 2)
    alike = [Fraction(1, 8)] * 8
    codes = product((0, 1), repeat=8)
    best = max(accuracy_of_code(code, rows, alike, "before") for code in codes)
    allowed = copying.cut_bound([0, 1], m=3, symbols=2, bits=1)
    misses.append(abs(best - Fraction(3, 4)))
    misses.append(max(0.0, float(best) - allowed))
    return at_most(float(max(misses)), 1e-9)


RELAY = Case(relay_code)


@claim(
    "copying.cut",
    cases=[
        RELAY.but(code="odd or even"),
        RELAY,
        RELAY.but(code="the first"),
        RELAY.but(code="most of them"),
        RELAY.but(code="nothing"),
        RELAY.but(code="most of them", m=6),
    ],
    controls=[
        RELAY.but(code="odd or even", seen="all others"),
        RELAY.but(code="odd or even", weights=(Fraction(19, 20), Fraction(1, 20))),
    ],
    witness=crossings_by_hand,
)
def cut(
    pattern: Pattern,
    layers: int,
    code: Sequence,
    symbols: int,
    bits: float | int,
    *,
    seen: Seen = "before",
    weights: Sequence[Fraction] | None = None,
) -> Verdict:
    """If B = c_1 log2(V) + (c_2 + ... + c_L) b bits can cross the middle, the accuracy
    of copying is at most 1 - e, where h(e) + e log2(V - 1) = max(0, log2(V) - B / m).

    Hypotheses: symbols independent and uniform; causal masks, so that a query knows
    what crosses and the symbols before its own; a state holds b bits.
    Measured: the accuracy of the best predictor from what crosses, in fractions.

    Args:
        pattern: causal, of 2 (m + 1) tokens, for sequences 0 s 0 s.
        layers: L.
        code: for each of the V^m sequences s, in the order of itertools.product, what
            crosses the middle: V^c_1 2^(b (c_2 + ... + c_L)) values at most.
        symbols: V, at least 2.
        bits: b.
        seen: what else a query knows: the symbols before its own, or all others.
        weights: the chances of the V symbols where they are not uniform.

    Returns:
        Verdict.

    Claim: copying.cut
    Page: notebooks/sparse_universality/copying_task
    """
    one_of(get_args(Seen), seen=seen)
    crossed = crossed_in(pattern, layers)
    m = pattern.n // 2 - 1
    bound = copying.cut_bound(crossed, m=m, symbols=symbols, bits=bits)
    rows = symbol_rows(m, symbols)
    _check_code(
        code, len(rows), crossed[0] * math.log2(symbols) + sum(crossed[1:]) * bits
    )
    p = [Fraction(1, symbols)] * symbols
    if weights is not None:
        is_list(weights=weights)
        p = fractions(**{f"weights[{v}]": w for v, w in enumerate(weights)})
        require(
            len(p) == symbols and min(p) >= 0 and sum(p) == 1,
            f"weights must be {symbols} chances of sum one, got {weights}",
        )
    chances = [math.prod(p[v] for v in s) for s in rows]
    return at_most(float(accuracy_of_code(code, rows, chances, seen)), bound)


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
