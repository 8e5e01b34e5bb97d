"""The claims of the page `Which sparse patterns lose nothing?`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib import patterns
from attnlib._require import (
    finite,
    is_a,
    is_floating,
    is_list,
    numbers,
    one_of,
    require,
    sizes,
)
from attnlib.attention import Layer, forward
from attnlib.certify import Verdict, at_least, at_most
from attnlib.patterns import (
    Blocks,
    Columns,
    Exact,
    Lists,
    Pattern,
    Rows,
    Step,
    Strided,
    Window,
    build,
    check,
    conditions,
    crossing,
    exact,
    hops,
    is_path,
    reach,
)
from attnlib.patterns._bits import closure
from attnlib.sparse import _tiles, masked_attention, sparse_attention
from attnlib.sparse._kernel import attend, gradients

double = torch.float64
EPS = torch.finfo(double).eps
HALF = Fraction(1, 2)
MOST = 50_000  # inputs times tokens, or draws, that a theorem lists


def _check_pattern(pattern) -> None:
    """Refuse what is no pattern."""
    is_a(Pattern, pattern=pattern)


def _check_weight(weight) -> None:
    """Refuse a weight of the head that is no fraction, or negative."""
    got = type(weight).__name__
    known = isinstance(weight, int | Fraction) and not isinstance(weight, bool)
    require(known, f"weight must be an int or a Fraction, got {got}: it is exact here")
    require(weight >= 0, f"weight must not be negative, got {weight}")


def _check_few(n: int, symbols: int) -> None:
    """Refuse more inputs than can be listed."""
    sizes(2, symbols=symbols)
    count = n * symbols**n
    require(
        count <= MOST,
        f"pattern has {n} tokens: with symbols = {symbols} that is {count:,} pairs of "
        f"a token and an input, more than {MOST:,}",
    )


def generator(seed: int) -> torch.Generator:
    """A source of random numbers on the CPU."""
    return torch.Generator().manual_seed(seed)


# --- messages: uniform attention, a skip, a digit for each token

SMALL = {
    "ring": lambda: patterns.from_sets([[4], [0], [1], [2], [3]]),
    "swap": lambda: patterns.from_sets([[1], [0]]),
    "two steps": lambda: patterns.from_sets([[1], [0], [3], [2]], [[0], [2], [1], [3]]),
    "star": lambda: patterns.star(5, local=False),
    "window": lambda: patterns.window(5, 3),
    "causal": lambda: patterns.causal(patterns.window(4, 3)),
    "weak": lambda: patterns.from_sets([[1, 2], [2], [1], [2], [3, 4]]),
}


def small_pattern(name: str = "ring", missing: tuple[int, int] | None = None) -> dict:
    """A pattern of few tokens by name; without one of its connections, (reader, read),
    whose reader then reads itself.
    """
    pattern = SMALL[name]()
    if missing is not None:
        reader, read = missing
        mask = pattern.mask()
        mask[reader, read] = False
        mask[reader, reader] = True
        pattern = patterns.from_masks(mask)
    return {"pattern": pattern}


def all_words(n: int, symbols: int) -> np.ndarray:
    """Every input: (symbols^n, n) Python integers."""
    words = list(itertools.product(range(symbols), repeat=n))
    return np.array(words, dtype=object)


def layer_in_integers(y: np.ndarray, mask: Tensor, weight: Fraction) -> np.ndarray:
    """One layer of uniform attention with skip, (..., n); all states times the same
    integer, so that they stay whole.
    """
    rows = [row.nonzero().flatten().tolist() for row in mask]
    common = weight.denominator * math.lcm(*[len(row) for row in rows])
    columns = []
    for k, row in enumerate(rows):
        total = y[..., row].sum(-1)
        share = weight * common / len(row)
        columns.append(common * y[..., k] + int(share) * total)
    return np.stack(columns, -1)


def states(
    pattern: Pattern,
    layers: int,
    symbols: int = 2,
    *,
    weight: Fraction = HALF,
    places: bool = True,
) -> np.ndarray:
    """The number of each token for each input, (symbols^n, n), with nothing but
    attention between; a digit for each token, or one for all without places.
    """
    n = pattern.n
    factors = np.array([[int(i == k) for k in range(n)] for i in range(n)], object)
    for t in range(layers):
        factors = layer_in_integers(factors, pattern.mask(t), Fraction(weight))
    base = int(factors.max()) * (symbols - 1) + 1
    powers = np.array([base**i if places else 1 for i in range(n)], dtype=object)
    y = all_words(n, symbols) * powers
    for t in range(layers):
        y = layer_in_integers(y, pattern.mask(t), Fraction(weight))
    return y


def told_apart(y: np.ndarray, *, places: bool = True) -> int:
    """How many pairs of a token and an input have states of their own."""
    if not places:
        return len(set(y.ravel().tolist()))
    return sum(len(set(column)) for column in y.T.tolist())


def factors_of_digits(pattern: Pattern, t: int, weight: Fraction) -> Tensor:
    """By what layer t multiplies digit i of token k: v a [i in S_k] and u for each
    token that k reads and that has heard of i; weight = u / v, a tokens are read.
    """
    heard = reach(pattern, t).long()
    mask = pattern.mask(t).long()
    own = weight.denominator * mask.sum(1, keepdim=True) * heard
    return own + weight.numerator * (mask @ heard)


def recoded(
    pattern: Pattern,
    words: Tensor,
    layers: int,
    symbols: int,
    *,
    weight: Fraction = HALF,
) -> tuple[Tensor, int]:
    """Softmax layers in float64, and a look-up after each that writes the digits anew:
    what each token knows of each, (m, n, n), -1 for nothing; and the bits of a number.
    """
    n = pattern.n
    one = torch.ones(1, 1, 1, dtype=double)
    layer = Layer(0 * one, 0 * one, one, float(weight) * one)  # all logits are zero
    every = [factors_of_digits(pattern, t, weight) for t in range(layers)]
    largest = max([int(f.max()) for f in every], default=1)
    base = largest * (symbols - 1) + 1
    bits = (base**n - 1).bit_length()
    require(
        bits <= 53, f"pattern: the numbers take {bits} bits, a float has 53: take fewer"
    )
    powers = base ** torch.arange(n)
    known = torch.full((len(words), n, n), -1, dtype=torch.int64)
    known[:, range(n), range(n)] = words
    for t, factors in enumerate(every):
        numbers_now = (known.clamp_min(0) * powers).sum(-1).to(double)
        mask = pattern.mask(t)
        after = forward(numbers_now[..., None], [layer], skip=True, mask=mask)[..., 0]
        whole = after * mask.sum(1) * weight.denominator
        digits = (whole.round().long()[..., None] // powers) % base
        known = torch.where(factors > 0, digits // factors.clamp_min(1), -1)
    return known, bits


def number_bits(pattern: Pattern, symbols: int, layers: int) -> int:
    """Bits of the largest number when nothing stands between the layers."""
    _check_pattern(pattern)
    _check_few(pattern.n, symbols)
    sizes(0, layers=layers)
    return int(states(pattern, layers, symbols).max()).bit_length()


def lookups_between(pattern: Pattern, symbols: int, layers: int) -> int:
    """Entries of all look-ups between the layers: one for each token and for each state
    that it can have there.
    """
    _check_pattern(pattern)
    sizes(2, symbols=symbols)
    sizes(1, layers=layers)
    total = 0
    for t in range(1, layers):
        for size in reach(pattern, t).sum(1).tolist():
            total += symbols**size
    return total


def three_tokens_by_hand() -> Verdict:
    """A ring of three: after two layers token 0 holds 1, 1/4 and 1 times the inputs of
    0, 1 and 2; one and two layers tell 12 and 24 pairs apart.

    Measured: the largest distance from these numbers.
    """
    ring = patterns.from_sets([[2], [0], [1]])
    factors = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=object)
    for t in range(2):
        factors = layer_in_integers(factors, ring.mask(t), HALF)
    off = max(abs(a - b) for a, b in zip(factors[:, 0], (4, 1, 4)))
    for layers, wanted in ((0, 6), (1, 12), (2, 24)):
        off = max(off, abs(told_apart(states(ring, layers)) - wanted))
    swap = SMALL["swap"]()
    off += not check(swap).universal
    off += check(SMALL["weak"]()).universal
    off += crossing(patterns.star(9), range(4)) != [2]
    return at_most(off, 0)


RING = Case(small_pattern)


@claim(
    "patterns.universal",
    cases=[
        RING,
        RING.but(name="swap"),
        RING.but(name="two steps"),
        RING.but(name="star"),
        RING.but(name="window", symbols=3),
        RING.but(name="window", symbols=4, arithmetic="softmax"),
        RING.but(name="two steps", symbols=3, arithmetic="softmax"),
        RING.but(name="star", weight=1),
        RING.but(name="causal", depends="reached"),
        RING.but(name="weak", depends="reached"),
    ],
    controls=[
        RING.but(missing=(2, 1)),
        RING.but(name="weak"),
        RING.but(weight=0),
        RING.but(places=False),
    ],
    witness=three_tokens_by_hand,
)
def universal(
    pattern: Pattern,
    *,
    symbols: int = 2,
    depends: Literal["all", "reached"] = "all",
    weight: Fraction | int = HALF,
    places: bool = True,
    arithmetic: Literal["exact", "softmax"] = "exact",
) -> Verdict:
    """Every function is computed if and only if the union of the steps is strongly
    connected.

    For after t layers the state of a token determines its place and exactly the inputs
    of the tokens that have reached it.

    Hypotheses: a skip; uniform attention, one head of size one and positive weight; the
    first map knows the place of a token, and the place is kept.
    Measured: over t the largest distance of the number of states from the sum of
    symbols^|S^t_k|; and, if functions depend on all, the pairs of a token and an input
    that are told apart neither by the last layer nor by the checker.

    Args:
        pattern: of few tokens.
        symbols: how many inputs a token can have.
        depends: "reached" for functions whose k-th output depends on what reaches k.
        weight: of the head; zero is no attention.
        places: False for a first map that does not know the place.
        arithmetic: "exact" for integers with nothing between the layers, "softmax" for
            floats with a look-up after each layer.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for other objects, too many inputs, and numbers that a float cannot
            hold.

    Claim: patterns.universal
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    _check_few(pattern.n, symbols)
    _check_weight(weight)
    one_of(("all", "reached"), depends=depends)
    one_of(("exact", "softmax"), arithmetic=arithmetic)
    n = pattern.n
    found = check(pattern)
    last = found.hops or pattern.p * (n - 1)
    if arithmetic == "softmax":
        return at_most(_misread(pattern, symbols, last, Fraction(weight), depends), 0)
    off = 0
    for t in range(last + 1):
        y = states(pattern, t, symbols, weight=Fraction(weight), places=places)
        apart = told_apart(y, places=places)
        possible = sum(symbols**size for size in reach(pattern, t).sum(1).tolist())
        off = max(off, abs(apart - possible))
    everything = n * symbols**n
    if depends == "all":
        off = max(off, everything - apart)
    off = max(off, (apart == everything) != found.universal and places and weight > 0)
    return at_most(int(off), 0)


def _misread(
    pattern: Pattern, symbols: int, layers: int, weight: Fraction, depends: str
) -> int:
    """How many symbols are read wrongly by softmax and look-ups, of all or of those
    that were heard.
    """
    require(weight > 0, "weight must be positive where look-ups divide by it")
    words = torch.tensor(all_words(pattern.n, symbols).tolist())
    known, _ = recoded(pattern, words, layers, symbols, weight=weight)
    wrong = known != words[:, None]
    if depends == "reached":
        wrong &= reach(pattern, layers)
    return int(wrong.sum())


def functions(name: str = "roll", pattern: str = "ring", missing=None) -> dict:
    """A function of inputs (m, n) in [0, 1], its Lipschitz constant for the largest
    entry, and random inputs.
    """
    made = small_pattern(pattern, missing)
    f = {
        "roll": lambda x: x.roll(2, dims=-1),
        "wave": lambda x: torch.sin(x + x.mean(-1, keepdim=True)),
    }
    x = torch.rand(400, made["pattern"].n, dtype=double, generator=generator(3))
    return made | {"f": f[name], "lipschitz": {"roll": 1.0, "wave": 2.0}[name], "x": x}


def ramps_are_narrow() -> Verdict:
    """A quantiser with ramps of width e h on K cells of a coordinate differs from the
    jumps on a share of (K - 1) e h of the line; counted on a fine grid.

    Measured: the distance of the share that is counted from that, for e = 1/10.
    """
    cells = 8
    x = (torch.arange(80_000, dtype=double) + 0.5) / 80_000
    jumps = (x * cells).floor()
    edges = torch.arange(1, cells, dtype=double)
    steep = (x[:, None] * cells - edges) / 0.1 + 1
    ramps = steep.clamp(0, 1).sum(1)
    share = float((ramps - jumps).abs().gt(1e-9).double().mean())
    return at_most(abs(share - 7 / 80), 1e-4)


CONTINUOUS = Case(functions, {"name": "roll"}, {"cells": 4})


@claim(
    "patterns.continuous",
    cases=[
        CONTINUOUS,
        CONTINUOUS.but(cells=8),
        CONTINUOUS.but(name="wave", cells=8),
        CONTINUOUS.but(pattern="two steps", cells=16),
        CONTINUOUS.but(numbers_a_token="n"),
    ],
    controls=[CONTINUOUS.but(missing=(2, 1)), CONTINUOUS.but(told=2)],
    witness=ramps_are_narrow,
)
def continuous(
    pattern: Pattern,
    f: Callable[[Tensor], Tensor],
    lipschitz: float,
    x: Tensor,
    *,
    cells: int,
    numbers_a_token: Literal["one", "n"] = "one",
    told: int = 1,
) -> Verdict:
    """On a strongly connected pattern, maps with jumps on a grid of step h approximate
    f up to Lip h / 2 at every input; with n numbers a token, nothing is rounded.

    Hypotheses: f has this Lipschitz constant for the largest entry; inputs in [0, 1];
    d = 1.
    Measured: the largest error over Lip h / 2, which may be 1 and some rounding; with n
    numbers a token the error itself, at most 1e-9.

    Args:
        pattern: of n tokens.
        f: (m, n) -> (m, n), float64.
        lipschitz: its constant.
        x: inputs (m, n).
        cells: 1 / h.
        numbers_a_token: "n" for a slot for each token in place of a digit.
        told: the bound is divided by it; 1 is the theorem.

    Returns:
        Verdict.

    Raises:
        ValueError: for other objects, and inputs outside of [0, 1].

    Claim: patterns.continuous
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    _check_inputs(x, pattern.n)
    is_a(Callable, f=f)
    numbers(lipschitz=lipschitz)
    require(lipschitz > 0, f"lipschitz must be positive, got {lipschitz}")
    sizes(2, cells=cells)
    sizes(1, told=told)
    one_of(("one", "n"), numbers_a_token=numbers_a_token)
    layers = hops(pattern) or pattern.p * (pattern.n - 1)
    if numbers_a_token == "n":
        known = _through_slots(pattern, x, layers)
        bound = 1e-9
        unit = 1.0
    else:
        words = (x * cells).floor().clamp_max(cells - 1).long()
        found, _ = recoded(pattern, words, layers, cells)
        centres = (found + 0.5) / cells
        known = torch.where(found < 0, 0.5, centres)
        unit = lipschitz / (2 * cells)
        bound = (1 + 1e-9) / told
    wanted = f(x)
    require(
        torch.is_tensor(wanted) and wanted.shape == x.shape,
        f"f must give a tensor of the shape of x, {tuple(x.shape)}",
    )
    worst = 0.0
    for k in range(pattern.n):
        error = f(known[:, k])[:, k] - wanted[:, k]
        finite(f=error)
        worst = max(worst, float(error.abs().max()))
    return at_most(worst / unit, bound)


def _through_slots(pattern: Pattern, x: Tensor, layers: int) -> Tensor:
    """What each token reads out of its slots after softmax layers: (m, n, n)."""
    n = pattern.n
    eye = torch.eye(n, dtype=double)
    nothing = torch.zeros(1, n, 1, dtype=double)
    layer = Layer(nothing, nothing, eye[None], eye[None] / 2)
    slots = torch.diag_embed(x)
    factors = eye
    for t in range(layers):
        slots = forward(slots, [layer], skip=True, mask=pattern.mask(t))
        factors = forward(factors, [layer], skip=True, mask=pattern.mask(t))
    return torch.where(factors > 0, slots / factors.clamp_min(1e-300), 0.5)


def _check_inputs(x, n: int) -> None:
    """Refuse inputs that are no finite (m, n) in [0, 1] of float64."""
    is_floating("x", x)
    got = f"{x.dtype} {tuple(x.shape)}"
    require(
        x.dim() == 2 and x.shape[1] == n and len(x) > 0 and x.dtype == double,
        f"x must be float64 (m, {n}), a column for each token of pattern, got {got}",
    )
    finite(x=x)
    inside = bool(((x >= 0) & (x <= 1)).all())
    require(inside, "x must lie in [0, 1], the domain of the statement")


# --- bits through a cut


def half_of(name: str = "star", n: int = 7, inside: int = 3) -> dict:
    """A pattern and its first tokens as the set B."""
    made = {
        "star": lambda: patterns.star(n),
        "window": lambda: patterns.window(n, 3),
        "ring": lambda: patterns.directed_cycle(n),
        "strided": lambda: patterns.strided(n, 3),
    }
    return {"pattern": made[name](), "inside": list(range(inside))}


def star_needs_64_layers() -> Verdict:
    """Copying a half of 16,384 tokens of 256 symbols through a star with states of 512
    bits takes at least 64 layers: 65,536 bits, 2 states a layer.

    Measured: the distance from 64, and from the counts 4 and 18 of window 9 and of
    strided on 64 tokens.
    """
    # the half without the relay reads two states, at every n
    half = range(512)
    layers = layers_through(patterns.star(1024), half, bits=8192 * 8, state=512)
    off = abs(layers - 64)
    back = range(32, 64)
    off += crossing(patterns.window(64, 9), back) != [4]
    off += sum(crossing(patterns.strided(64, 8), back)) != 2 * 18
    return at_most(off, 0)


def layers_through(
    pattern: Pattern, inside: Sequence[int], *, bits: int, state: int
) -> int | None:
    """The least number of layers with state * sum c_t >= bits; None if nothing crosses.

    Args:
        pattern: n tokens.
        inside: the tokens that are to learn of the others.
        bits: what must cross.
        state: bits of the state of a token.
    """
    sizes(1, bits=bits, state=state)
    counts = crossing(pattern, inside)
    if not any(counts):
        return None
    crossed = 0
    layers = 0
    while crossed < bits:
        crossed += state * counts[layers % len(counts)]
        layers += 1
    return layers


CUT = Case(half_of, {}, {"layers": 2, "state": 2})


@claim(
    "patterns.cut",
    cases=[
        CUT,
        CUT.but(name="window"),
        CUT.but(name="ring", layers=3),
        CUT.but(name="strided", n=6, layers=2),
        CUT.but(state=1, layers=3),
    ],
    controls=[CUT.but(told=1)],
    witness=star_needs_64_layers,
)
def cut(
    pattern: Pattern,
    inside: Sequence[int],
    *,
    layers: int,
    state: int,
    told: int | None = None,
    seed: int = 0,
) -> Verdict:
    """If a state has at most b bits, the tokens of a set learn at most
    b (c_1 + ... + c_T) bits of the others' inputs in T layers.

    Hypotheses: c_t states outside of the set are read from inside in layer t; a state
    takes at most 2^b values; the inputs inside are fixed.
    Measured: log2 of the number of outputs on the set, the most over random networks
    whose states are integers below 2^b, over all inputs outside.

    Args:
        pattern: of few tokens.
        inside: the set.
        layers: T.
        state: b.
        told: the b of the bound; None for the same.
        seed: of the networks.

    Returns:
        Verdict; its bound is b times the sum.

    Raises:
        ValueError: for other objects and too many inputs.

    Claim: patterns.cut
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    sizes(1, layers=layers, state=state)
    sizes(0, seed=seed)
    if told is None:
        told = state
    sizes(1, told=told)
    counts = crossing(pattern, inside)
    outside = sorted(set(range(pattern.n)) - set(inside))
    inputs = 2**state
    _check_few(len(outside), inputs)
    bound = told * sum(counts[t % pattern.p] for t in range(layers))
    words = torch.cartesian_prod(*[torch.arange(inputs)] * len(outside))
    start = torch.zeros(len(words), pattern.n, dtype=torch.int64)
    start[:, outside] = words.reshape(len(words), -1)
    most = 0.0
    g = generator(seed)
    for _ in range(20):
        y = start
        for t in range(layers):
            mixing = torch.randint(1, inputs, (pattern.n, pattern.n), generator=g)
            mixing = mixing * pattern.mask(t)
            y = (y + y @ mixing.T) % inputs
        different = len(y[:, list(inside)].unique(dim=0))
        most = max(most, math.log2(different))
    return at_most(most, bound + 1e-9)


# --- fewest connections, fewest hops


def one_by_one(n: int) -> Pattern:
    """The edges of the directed cycle, one a step."""
    steps = []
    for l in range(1, n + 1):
        sets = [[k] for k in range(n)]
        reader = l % n
        sets[reader] = [reader, (reader - 1) % n]
        steps.append(sets)
    return patterns.from_sets(*steps)


def digits(w: int, m: int, n: int | None = None) -> Pattern:
    """(11.3): k - i w^l in step l, for the digits i; n = w^m if not given."""
    steps = [Window(w - 1, 0, w**l, wrap=True) for l in range(m)]
    return build(n or w**m, *steps)


def thrifty(name: str = "cycle", n: int = 9, loops: bool = True) -> dict:
    """A pattern with few connections, with or without its self-loops."""
    made = {
        "cycle": lambda: patterns.directed_cycle(n),
        "one by one": lambda: one_by_one(n),
        "window": lambda: patterns.window(n, 3),
        "star": lambda: patterns.star(n, local=False),
    }
    pattern = made[name]()
    if not loops:
        masks = [pattern.mask(l) for l in range(pattern.p)]
        pattern = patterns.from_masks(*[m.fill_diagonal_(False) for m in masks])
    return {"pattern": pattern}


def all_of_one_step() -> Verdict:
    """Of all patterns of one step on 2, 3 and 4 tokens with (1) and (3), tried in the
    order of their connections, the first has 2 n.

    The cycle has s = n - 1, its edges one a step n + 1 connections and s = 2 n - 2.

    Measured: the largest distance from these numbers.
    """
    off = 0
    for n in (2, 3, 4):
        places = [(k, j) for k in range(n) for j in range(n) if j != k]
        fewest_found = next(
            n + count
            for count in range(len(places) + 1)
            for chosen in itertools.combinations(places, count)
            if closure(_with_edges(n, chosen)).all()
        )
        off = max(off, abs(fewest_found - 2 * n))
    for n in (2, 3, 10):
        cycle = check(patterns.directed_cycle(n))
        got = (cycle.hops, cycle.connections, cycle.all_met)
        off += got != (n - 1, 2 * n, True)
    apart = check(one_by_one(9))
    off += (apart.hops, apart.connections, apart.all_met) != (16, 10, True)
    return at_most(off, 0)


def _with_edges(n: int, edges) -> Tensor:
    mask = torch.eye(n, dtype=torch.bool)
    for k, j in edges:
        mask[k, j] = True
    return mask


FEW = Case(thrifty)


@claim(
    "patterns.fewest",
    cases=[FEW, *[FEW.but(name=n) for n in ("one by one", "window", "star")]],
    controls=[FEW.but(loops=False)],
    witness=all_of_one_step,
)
def fewest(pattern: Pattern) -> Verdict:
    """The union of all steps has at least 2 n connections, and some step n + 1.

    Hypotheses: every token reads itself in every step (1), and hears of all (3).
    Measured: the connections of the union over 2 n and those of the largest step over
    n + 1, the smaller of the two.

    Args:
        pattern: with (3); a pattern without it is refused.

    Returns:
        Verdict; its bound is 1, from below.

    Raises:
        ValueError: for no pattern, and one in which a token never hears of another.

    Claim: patterns.fewest
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    require(
        hops(pattern) is not None,
        "pattern must meet condition (3): a token never hears of another",
    )
    union = patterns.one_step(pattern).connections / (2 * pattern.n)
    largest = pattern.connections / (pattern.n + 1)
    return at_least(min(union, largest), 1)


def hasty(w: int = 4, m: int = 3, seed: int | None = None) -> dict:
    """The pattern of digits, or a random one of w drawn tokens."""
    if seed is None:
        return {"pattern": digits(w, m)}
    return {"pattern": patterns.random(20 + seed, w, generator=generator(seed))}


def digits_attain_it() -> Verdict:
    """(11.3) meets all conditions with m hops on w^m tokens; (w, m) = (2, 5), (3, 3),
    (5, 2) and (4, 3).

    Measured: how many do not.
    """
    off = 0
    for w, m in ((2, 5), (3, 3), (5, 2), (4, 3)):
        found = check(digits(w, m))
        got = (found.hops, found.connections, found.all_met)
        off += got != (m, w ** (m + 1), True)
    return at_most(off, 0)


HASTY = Case(hasty)


@claim(
    "patterns.hops",
    cases=[HASTY, HASTY.but(w=2, m=6), *[HASTY.but(w=5, seed=s) for s in (1, 2, 3)]],
    controls=[HASTY.but(w_at_most=3)],
    witness=digits_attain_it,
)
def fewest_hops(pattern: Pattern, *, w_at_most: int | None = None) -> Verdict:
    """If no token reads more than w tokens in a step, itself counted, then n <= w^s.

    Measured: n, against w^s; infinity if there is no s.

    Args:
        pattern: n tokens.
        w_at_most: w; None for the most tokens that one reads, itself counted.

    Returns:
        Verdict.

    Raises:
        ValueError: for no pattern.

    Claim: patterns.hops
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    if w_at_most is None:
        masks = [pattern.mask(l).fill_diagonal_(True) for l in range(pattern.p)]
        w_at_most = max(int(mask.sum(1).max()) for mask in masks)
    sizes(2, w_at_most=w_at_most)
    s = hops(pattern)
    return at_most(pattern.n, math.inf if s is None else w_at_most**s)


def one_sided(name: str = "star", causal: bool = True) -> dict:
    """A pattern of nine tokens without the future."""
    made = {
        "dense": lambda: patterns.dense(9),
        "star": lambda: patterns.star(9),
        "strided": lambda: patterns.strided(9),
        "dilations": lambda: patterns.dilation_cycle(9),
        "blockwise": lambda: patterns.blockwise(9, 3),
    }
    pattern = made[name]()
    return {"pattern": patterns.causal(pattern) if causal else pattern}


def causal_is_the_triangle() -> Verdict:
    """The dense pattern without the future is the lower triangle.

    Measured: connections that differ.
    """
    triangle = torch.ones(4, 4).tril().bool()
    return at_most(int((patterns.causal(patterns.dense(4)).mask() ^ triangle).sum()), 0)


PAST = Case(one_sided)


@claim(
    "patterns.causal",
    cases=[PAST, *[PAST.but(name=n) for n in ("dense", "strided", "blockwise")]],
    controls=[PAST.but(causal=False)],
    witness=causal_is_the_triangle,
)
def past_alone(pattern: Pattern) -> Verdict:
    """A causal pattern fails condition (3).

    Hypotheses: token k reads tokens up to k alone; n >= 2.
    Measured: 1 if it has a number of hops.

    Args:
        pattern: causal; whether it is, is not asked.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for no pattern.

    Claim: patterns.causal
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    return at_most(int(hops(pattern) is not None), 0)


# --- families


def family_faults(pattern: Pattern, wanted: Exact) -> int:
    """What of formula, self-loops and the path 0, 1, 2, ... the checker denies."""
    found = check(pattern)
    faults = pattern.p != wanted.p
    faults += found.hops != wanted.hops
    faults += found.connections != wanted.connections
    faults += not found.self_loops
    faults += not is_path(pattern, range(pattern.n))
    return faults


def window_sizes(n: int = 16, w: int = 5, dilation: int = 1) -> dict:
    """A window, and its width."""
    return {"pattern": patterns.window(n, w, dilation=dilation), "w": w}


def windows_by_hand() -> Verdict:
    """Five tokens, width 3: 13 connections, four hops. Dense: n^2 and one hop.

    Measured: how many numbers differ.
    """
    found = check(patterns.window(5, 3))
    off = (found.connections, found.hops) != (13, 4)
    for n in (2, 3, 9):
        off += family_faults(patterns.dense(n), Exact(1, 1, n * n))
    return at_most(off, 0)


WINDOW = Case(window_sizes)


@claim(
    "patterns.window",
    cases=[WINDOW, *[WINDOW.but(n=n, w=w) for n, w in ((7, 7), (8, 3), (33, 9))]],
    controls=[WINDOW.but(dilation=2)],
    witness=windows_by_hand,
)
def windows(pattern: Pattern, w: int) -> Verdict:
    """A window of width w = 2 h + 1 meets all conditions with (2 h + 1) n - h (h + 1)
    connections and s = ceil((n - 1) / h).

    Measured: what of this the checker denies.

    Args:
        pattern: a window of n tokens.
        w: its width, odd, 3..n.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for no pattern, and for other widths.

    Claim: patterns.window
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    return at_most(family_faults(pattern, exact("window", pattern.n, w)), 0)


def kept_apart(n: int = 8, w: int = 5, dilation: int = 2, b: int | None = None) -> dict:
    """A dilated window, or blocks of b."""
    if b is not None:
        return {"pattern": patterns.block_diagonal(n, b)}
    return {"pattern": patterns.window(n, w, dilation=dilation)}


def blocks_read_themselves() -> Verdict:
    """Blocks of three on eight tokens have all self-loops, 22 connections, no hops.

    Measured: how many of these are wrong.
    """
    found = check(patterns.block_diagonal(8, 3))
    got = (found.self_loops, found.connections, found.hops)
    return at_most(got != (True, 22, None), 0)


APART = Case(kept_apart)


@claim(
    "patterns.classes",
    cases=[
        APART,
        APART.but(n=13, dilation=3),
        APART.but(n=5, dilation=4),
        APART.but(n=12, b=4),
        APART.but(n=12, b=5),
    ],
    controls=[APART.but(dilation=1)],
    witness=blocks_read_themselves,
)
def classes(pattern: Pattern) -> Verdict:
    """Dilated windows and block-diagonal patterns fail (2) and (3), and keep (1).

    Measured: which of the three is otherwise, counted.

    Args:
        pattern: of tokens that read inside of a class alone.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for no pattern.

    Claim: patterns.classes
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    fails = set(check(pattern).reasons)
    return at_most(len(fails ^ {"hamiltonian_path", "hops"}), 0)


def cycle_of_dilations(n: int = 16, left_out: int = 0) -> dict:
    """The dilation cycle, without its last steps."""
    steps = patterns.dilation_cycle(n).steps
    return {"pattern": build(n, *steps[: len(steps) - left_out])}


def sixteen_tokens_in_four() -> Verdict:
    """16 tokens: 4 hops, 46 connections.

    Measured: how many numbers differ.
    """
    found = check(patterns.dilation_cycle(16))
    return at_most((found.hops, found.connections) != (4, 46), 0)


DILATIONS = Case(cycle_of_dilations)


@claim(
    "patterns.dilation-cycle",
    cases=[DILATIONS, *[DILATIONS.but(n=n) for n in (2, 3, 5, 17, 39)]],
    controls=[DILATIONS.but(left_out=1)],
    witness=sixteen_tokens_in_four,
)
def dilations(pattern: Pattern) -> Verdict:
    """Reading k and k +- 2^l in step l meets all conditions with s = p = ceil(log2 n)
    and 3 n - 2 connections.

    Measured: what of this the checker denies.

    Args:
        pattern: the dilation cycle on n tokens.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for no pattern.

    Claim: patterns.dilation-cycle
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    return at_most(family_faults(pattern, exact("dilation cycle", pattern.n)), 0)


def relay(n: int = 12, local: bool = True) -> dict:
    """A star, with its local edges or bare."""
    return {"pattern": patterns.star(n, local=local)}


def four_tokens_around_a_relay() -> Verdict:
    """Four tokens: 14 connections, two hops.

    Measured: how many numbers differ.
    """
    found = check(patterns.star(4))
    return at_most((found.hops, found.connections) != (2, 14), 0)


STAR = Case(relay)


@claim(
    "patterns.star",
    cases=[STAR, *[STAR.but(n=n) for n in (3, 4, 5, 29)]],
    controls=[STAR.but(local=False)],
    witness=four_tokens_around_a_relay,
)
def star(pattern: Pattern) -> Verdict:
    """The star with local edges has 5 n - 6 connections, meets all conditions, and has
    s = 2 from n = 4 on.

    Measured: what of this the checker denies.

    Args:
        pattern: a star on n >= 3 tokens.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for no pattern, and n = 2.

    Claim: patterns.star
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    return at_most(family_faults(pattern, exact("star", pattern.n)), 0)


def global_tokens(n: int = 13, h: int = 2, g: int = 3, r: int = 0) -> dict:
    """A window of width 2 h + 1, g global tokens, and r random ones for each token."""
    if r:
        made = patterns.bigbird(n, 2 * h + 1, g, r, generator=generator(n))
    else:
        front = tuple(range(g))
        made = build(n, [Window(h, h), Columns(front), Rows(front)])
    return {"pattern": made, "h": h, "g": g, "r": r}


def longformer_by_hand() -> Verdict:
    """20 tokens, width 5, three global ones: 94 + 102 - 6 connections.

    Measured: the distance from 190, and from what the family makes.
    """
    pattern = patterns.longformer(20, 5, 3)
    off = abs(pattern.connections - 190)
    off += abs(exact("longformer", 20, 5, 3).connections - 190)
    built = global_tokens(20, 2, 3)["pattern"]
    off += int((pattern.mask() ^ built.mask()).sum())
    return at_most(off, 0)


GLOBAL = Case(global_tokens)


@claim(
    "patterns.longformer",
    cases=[
        GLOBAL,
        GLOBAL.but(n=5, h=1, g=1),
        GLOBAL.but(n=8, h=1, g=5),
        GLOBAL.but(r=2),
        GLOBAL.but(n=30, h=1, g=1, r=2),
    ],
    controls=[GLOBAL.but(h=0), GLOBAL.but(n=6)],
    witness=longformer_by_hand,
)
def longformer(pattern: Pattern, h: int, g: int, r: int = 0) -> Verdict:
    """A window of 2 h + 1 and g global tokens meet all conditions with s = 2 and the
    connections of (11.4).

    With r random tokens more, s <= 2, and at most r n connections come in.

    Hypotheses: h >= 1, g >= 1, n >= g + h + 2.
    Measured: what of this the checker denies.

    Args:
        pattern: n tokens.
        h, g, r: as above.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for no pattern, and sizes that are no numbers.

    Claim: patterns.longformer
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    sizes(0, h=h, g=g, r=r)
    n = pattern.n
    found = check(pattern)
    window = (2 * h + 1) * n - h * (h + 1)
    least = window + 2 * g * (n - 1 - h) - g * (g - 1)
    faults = found.all_met is not True
    faults += found.hops is None or found.hops > 2
    faults += r == 0 and found.hops != 2
    faults += not least <= found.connections <= least + r * n
    return at_most(faults, 0)


def doublings(n: int = 16, base: int = 2, both: bool = False) -> dict:
    """Reading k and k - base^i, and k + base^i as well if both."""
    if base == 2:
        return {"pattern": patterns.logsparse(n, both=both), "both": both}
    count = math.ceil(math.log(n, base))
    parts = [Window(1, int(both), base**i) for i in range(count)]
    return {"pattern": build(n, parts), "both": both}


def logsparse_fails_one() -> Verdict:
    """16 tokens, one-sided: 65 connections, and (3) alone fails.

    Measured: how many of these are wrong.
    """
    found = check(patterns.logsparse(16))
    wrong = found.connections != 65
    wrong += set(found.reasons) != {"hops"}
    return at_most(wrong, 0)


DOUBLING = Case(doublings)


@claim(
    "patterns.logsparse",
    cases=[
        DOUBLING,
        *[DOUBLING.but(n=n) for n in (2, 3, 9, 33)],
        *[DOUBLING.but(n=n, both=True) for n in (2, 9, 33)],
    ],
    controls=[DOUBLING.but(base=3)],
    witness=logsparse_fails_one,
)
def logsparse(pattern: Pattern, *, both: bool = False) -> Verdict:
    """Reading k and k - 2^i has n + n L - 2^L + 1 connections, L = ceil(log2 n), and
    fails (3) alone; with both signs all conditions hold, and s <= L.

    Measured: what of this the checker denies.

    Args:
        pattern: n tokens.
        both: whether it looks both ways.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for no pattern.

    Claim: patterns.logsparse
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    if not both:
        return at_most(family_faults(pattern, exact("logsparse", pattern.n)), 0)
    found = check(pattern)
    late = found.hops is None or found.hops > (pattern.n - 1).bit_length()
    return at_most((found.all_met is not True) + late, 0)


def draws(n: int = 3, r: int = 2, replace: bool = False) -> dict:
    """Numbers of tokens and of draws."""
    return {"n": n, "r": r, "replace": replace}


def two_unread_tokens() -> Verdict:
    """A draw of eight among 2,048 tokens leaves two unread: (2) and (3) fail.

    Measured: which of the conditions is otherwise, counted.
    """
    pattern = patterns.random(2048, 8, generator=generator(1))
    fails = set(check(pattern).reasons)
    return at_most(len(fails ^ {"hamiltonian_path", "hops"}), 0)


DRAWS = Case(draws)


@claim(
    "patterns.random",
    cases=[DRAWS, DRAWS.but(n=4), DRAWS.but(r=1), DRAWS.but(n=16, r=2)],
    controls=[DRAWS.but(replace=True)],
    witness=two_unread_tokens,
)
def unread(n: int, r: int, *, replace: bool = False) -> Verdict:
    """The expected number of tokens that nobody else reads is n (1 - r/n)^(n - 1).

    Hypotheses: each token draws r of all n tokens without replacement, on its own.
    Measured: the distance of the mean over all draws, in fractions, where they can be
    listed; beyond that, of the mean of 120 patterns that the library draws, in five
    standard errors.

    Args:
        n: tokens.
        r: draws, 1..n.
        replace: True draws with replacement.

    Returns:
        Verdict; its bound is 0, or 1 where patterns are drawn.

    Raises:
        ValueError: for sizes out of range.

    Claim: patterns.random
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    sizes(2, n=n)
    sizes(1, r=r)
    require(r <= n, f"r must be at most n = {n}, got {r}")
    expected = n * (1 - Fraction(r, n)) ** (n - 1)
    rows = n**r if replace else math.comb(n, r)
    if rows**n > MOST:
        require(not replace, "replace: the library draws without replacement")
        return _unread_by_drawing(n, r, float(expected))
    if replace:
        drawn = itertools.product(range(n), repeat=r)
    else:
        drawn = itertools.combinations(range(n), r)
    total = 0
    count = 0
    for sets in itertools.product([frozenset(row) for row in drawn], repeat=n):
        for j in range(n):
            others = sets[:j] + sets[j + 1 :]
            total += not any(j in row for row in others)
        count += 1
    return at_most(abs(Fraction(total, count) - expected), 0)


def _unread_by_drawing(n: int, r: int, expected: float) -> Verdict:
    g = generator(n)
    counts = []
    for _ in range(120):
        mask = patterns.random(n, r, generator=g).mask()
        counts.append(int((mask.sum(0) == 1).sum()))
    found = torch.tensor(counts, dtype=double)
    error = max(float(found.std()) / math.sqrt(len(counts)), 1e-9)
    return at_most(abs(float(found.mean()) - expected) / (5 * error), 1)


def strides(n: int = 16, w: int = 4, h: int | None = None) -> dict:
    """A strided pattern, and its stride and reach."""
    return {"pattern": patterns.strided(n, w, reach=h), "w": w, "h": h}


def strided_by_hand() -> Verdict:
    """16 tokens, w = 4: three hops; reach 3 makes it two, reach 2 does not. Token 12
    has not heard of 15 after two layers.

    Measured: how many of these are wrong.
    """
    wrong = 0
    for reach_of, wanted in ((None, 3), (3, 2), (2, 3)):
        wrong += hops(patterns.strided(16, 4, reach=reach_of)) != wanted
    heard = reach(patterns.strided(16, 4), 2)[12]
    wrong += heard.nonzero().flatten().tolist() != list(range(15))
    return at_most(wrong, 0)


STRIDE = Case(strides)


@claim(
    "patterns.strided",
    cases=[
        STRIDE,
        *[STRIDE.but(n=n, w=w) for n, w in ((5, 3), (12, 7), (21, 20), (50, 8))],
        *[STRIDE.but(h=h) for h in (1, 2, 3, 7, 15)],
        STRIDE.but(n=13, w=5, h=4),
        STRIDE.but(n=13, w=5, h=3),
    ],
    controls=[STRIDE.but(w=2)],
    witness=strided_by_hand,
)
def strided(pattern: Pattern, w: int, h: int | None = None) -> Verdict:
    """With half a window strided meets all conditions with s = 3; with +- h two hops
    are enough if and only if h >= w - 1.

    Hypotheses: 3 <= w < n.
    Measured: what of this the checker denies.

    Args:
        pattern: strided on n tokens.
        w: its stride.
        h: tokens on each side of the window, None for half of w.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for no pattern.

    Claim: patterns.strided
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    sizes(1, w=w)
    found = check(pattern)
    if h is not None:
        sizes(0, h=h)
        in_two = found.hops is not None and found.hops <= 2
        return at_most(int(in_two != (h >= w - 1)), 0)
    return at_most((found.hops != 3) + (found.all_met is not True), 0)


def summaries(n: int = 16, w: int = 4, closed: bool = False) -> dict:
    """A fixed pattern of blocks of w."""
    return {"pattern": patterns.fixed(n, w, closed=closed)}


def without_an_end_it_fails() -> Verdict:
    """Where w does not divide n, (3) alone fails; the formula knows both.

    Measured: how many of 40 sizes are otherwise.
    """
    wrong = 0
    for n in (5, 9, 12, 16):
        for w in range(2, min(n, 12)):
            pattern = patterns.fixed(n, w)
            wrong += family_faults(pattern, exact("fixed", n, w)) > 0
            wrong += set(check(pattern).reasons) != ({"hops"} if n % w else set())
    return at_most(wrong, 0)


FIXED = Case(summaries)


@claim(
    "patterns.fixed",
    cases=[
        FIXED,
        *[FIXED.but(n=n, w=w) for n, w in ((4, 2), (21, 7), (64, 8))],
        *[FIXED.but(n=n, closed=True) for n in (5, 18, 19)],
    ],
    controls=[FIXED.but(n=18)],
    witness=without_an_end_it_fails,
)
def fixed(pattern: Pattern) -> Verdict:
    """Fixed meets all conditions with s = 2.

    Hypotheses: 1 < w < n, and every block has an end that all read: w divides n, or the
    last token counts as one.
    Measured: what of this the checker denies.

    Args:
        pattern: fixed.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for no pattern.

    Claim: patterns.fixed
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    found = check(pattern)
    return at_most((found.hops != 2) + (found.all_met is not True), 0)


def moved_blocks(b: int = 6, m: int = 3, shift: int = 3) -> dict:
    """Blocks of b on m b tokens, then the same moved."""
    return {"pattern": build(b * m, Blocks(b), Blocks(b, shift)), "b": b}


def sixteen_in_seven() -> Verdict:
    """16 tokens in blocks of four: seven hops, 64 connections.

    Measured: how many numbers differ.
    """
    found = check(patterns.shifted_blocks(16))
    return at_most((found.hops, found.connections) != (7, 64), 0)


MOVED = Case(moved_blocks)


@claim(
    "patterns.shifted-blocks",
    cases=[
        MOVED,
        MOVED.but(shift=1),
        MOVED.but(shift=5),
        MOVED.but(b=2, m=5, shift=1),
        MOVED.but(m=1),
    ],
    controls=[MOVED.but(shift=0)],
    witness=sixteen_in_seven,
)
def shifted(pattern: Pattern, b: int) -> Verdict:
    """Blocks of b, then the same moved by 1 to b - 1 places, meet all conditions with
    s = 2 n / b - 1 and n b connections.

    Measured: what of this the checker denies.

    Args:
        pattern: n tokens, two steps.
        b: at least 2, divides n.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for no pattern, and other b.

    Claim: patterns.shifted-blocks
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    return at_most(family_faults(pattern, exact("shifted blocks", pattern.n, b)), 0)


def turning_blocks(b: int = 3, m: int = 5, itself: bool = True) -> dict:
    """Step q reads the block q places on, and perhaps the token itself."""
    n = b * m
    if itself:
        pattern = patterns.blockwise(n, b)
    else:
        pattern = build(n, *[Blocks(b, turn=q) for q in range(m)])
    return {"pattern": pattern, "b": b}


def sixteen_in_three() -> Verdict:
    """16 tokens in blocks of four: three hops, 80 connections.

    Measured: how many numbers differ.
    """
    found = check(patterns.blockwise(16))
    return at_most((found.hops, found.connections) != (3, 80), 0)


TURNING = Case(turning_blocks)


@claim(
    "patterns.blockwise",
    cases=[TURNING, *[TURNING.but(b=b, m=m) for b, m in ((1, 2), (2, 8), (3, 11))]],
    controls=[TURNING.but(itself=False)],
    witness=sixteen_in_three,
)
def blockwise(pattern: Pattern, b: int) -> Verdict:
    """Reading the own token and the block q places on in step q = 0, ..., m - 1 meets
    all conditions with n (b + 1) connections.

    s is the least t with t (t - 1) / 2 >= m - 1, where m = n / b.

    Measured: what of this the checker denies.

    Args:
        pattern: n tokens, m steps.
        b: divides n.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for no pattern, and other b.

    Claim: patterns.blockwise
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    return at_most(family_faults(pattern, exact("blockwise", pattern.n, b)), 0)


def paths_among(pattern: Pattern) -> int:
    """How many orders of the tokens are paths, by walking them all."""
    reads = patterns.one_step(pattern).mask().tolist()

    def onward(last: int, left: frozenset) -> int:
        if not left:
            return 1
        return sum(onward(k, left - {k}) for k in left if reads[k][last])

    everybody = frozenset(range(pattern.n))
    return sum(onward(k, everybody - {k}) for k in everybody)


def bare_star_in_two() -> Verdict:
    """The bare star on 3 and 6 tokens has two hops, and the checker finds no path on 6.

    Measured: how many of these are wrong.
    """
    wrong = 0
    for n in (3, 6):
        found = check(patterns.star(n, local=False))
        wrong += found.hops != 2
        wrong += (found.hamiltonian_path is None) != (n == 6)
    return at_most(wrong, 0)


BARE = Case(relay, {"n": 6, "local": False})


@claim(
    "patterns.bare-star",
    cases=[BARE, BARE.but(n=4), BARE.but(n=5), BARE.but(n=7)],
    controls=[BARE.but(n=3), BARE.but(local=True)],
    witness=bare_star_in_two,
)
def bare_star(pattern: Pattern) -> Verdict:
    """From n = 4 on the star without local edges has no Hamiltonian path.

    Measured: orders of the tokens that are paths, all of them walked; 1 if the checker
    alone finds one.

    Args:
        pattern: at most 9 tokens.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for no pattern, and more tokens.

    Claim: patterns.bare-star
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_pattern(pattern)
    n = pattern.n
    require(
        n <= 9, f"pattern must have at most 9 tokens, got {n}: all orders are tried"
    )
    found = check(pattern).hamiltonian_path is not None
    return at_most(max(paths_among(pattern), int(found)), 0)


# --- the checker


def drawn_patterns(
    count: int = 30, loops: bool = True, most: int = 8, seed: int = 0
) -> dict:
    """Random patterns of one to three steps on three tokens or more."""
    made = []
    for number in range(seed, seed + count):
        g = generator(number)
        n = int(torch.randint(3, most, (), generator=g))
        masks = torch.rand(1 + number % 3, n, n, generator=g) < 1.2 / n
        masks |= torch.eye(n, dtype=torch.bool).roll(int(not loops), 1)
        made.append(patterns.from_masks(*masks))
    return {"made": made}


def ring_with_a_chord(n: int) -> Pattern:
    """k reads k + 1, round the circle, and token n - 1 also reads 1: without the skip
    the slowest of all that are primitive.
    """
    sets = [[(k + 1) % n] for k in range(n)]
    sets[n - 1].append(1)
    return patterns.from_sets(sets)


def slowest_are_attained() -> Verdict:
    """A ring has n - 1 hops; with a chord and without the skip (n - 1)^2 + 1. A search
    through all orders agrees with the search for a path on 25 patterns.

    Measured: how many of these are wrong.
    """
    wrong = 0
    for n in (3, 4, 6, 9, 17):
        chord = ring_with_a_chord(n)
        wrong += hops(chord, skip=False) != (n - 1) ** 2 + 1
        wrong += hops(patterns.directed_cycle(n)) != n - 1
    wrong += hops(patterns.window(2048, 3)) != 2047
    late = check(patterns.from_sets([[0], [1]], [[0], [0]]))
    named = "token 1 does not read itself in step 1"
    wrong += late.reasons.get("self_loops") != named
    for pattern in drawn_patterns(25, most=7)["made"]:
        found = check(pattern)
        path = found.hamiltonian_path
        wrong += (path is not None) != (paths_among(pattern) > 0)
        wrong += path is not None and not is_path(pattern, path)
        wrong += bool(found.unknown)
    return at_most(wrong, 0)


DRAWN = Case(drawn_patterns)


@claim(
    "patterns.checker",
    cases=[
        DRAWN,
        DRAWN.but(loops=False),
        DRAWN.but(loops=False, skip=False),
        DRAWN.but(most=20, seed=100),
    ],
    controls=[DRAWN.but(order=-1)],
    witness=slowest_are_attained,
)
def checker(made: Sequence[Pattern], *, skip: bool = True, order: int = 1) -> Verdict:
    """The hops by squares are those by sets, with at most 2 p + 2 log2 n + 2 boolean
    products; without the skip 2 p + 4 log2 n + 2.

    Measured: patterns whose hops differ, and those that take more products.

    Args:
        made: patterns of few tokens.
        skip: False for tokens that forget what they do not read.
        order: -1 lets the sets run through the steps backwards.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for anything but patterns.

    Claim: patterns.checker
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    is_list(made=made)
    require(order in (1, -1), f"order must be 1 or -1, got {order!r}")
    wrong = 0
    for number, pattern in enumerate(made):
        is_a(Pattern, **{f"made[{number}]": pattern})
        with patch.object(
            conditions, "bit_product", wraps=conditions.bit_product
        ) as of:
            s = hops(pattern, skip=skip)
        by_squares = 2 if skip else 4
        allowed = 2 * pattern.p + by_squares * math.log2(pattern.n) + 2
        wrong += of.call_count > allowed
        turned = build(pattern.n, *pattern.steps[::order])
        wrong += s != by_sets(turned, skip)
    return at_most(wrong, 0)


def by_sets(pattern: Pattern, skip: bool) -> int | None:
    """The hops by Python sets, layer by layer: (11.2) as it stands."""
    n = pattern.n
    steps = []
    for step in range(pattern.p):
        rows = pattern.mask(step)
        steps.append([row.nonzero().flatten().tolist() for row in rows])
    heard = [{k} for k in range(n)]
    for t in range(pattern.p * ((n - 1) ** 2 + 1)):
        before = heard
        heard = []
        for k, read in enumerate(steps[t % pattern.p]):
            kept = before[k] if skip else set()
            heard.append(kept.union(*[before[j] for j in read]))
        if all(len(s) == n for s in heard):
            return t + 1
    return None


# --- the kernel


def some_lists(n: int, seed: int = 0) -> Lists:
    """Sets of up to three tokens, empty ones among them."""
    g = generator(seed)
    rows = [torch.randperm(n, generator=g)[: k % 4].sort().values for k in range(n)]
    counts = [len(row) for row in rows]
    return Lists(torch.tensor([0, *counts]).cumsum(0), torch.cat(rows))


UNIONS = {
    "window and columns": lambda n: build(n, [Window(12, 12), Columns((0, n // 2))]),
    "thin windows": lambda n: build(n, [Window(2, 2, 3), Window(3, 1), Columns((0,))]),
    "strided": lambda n: patterns.one_step(patterns.strided(n, reach=12)),
    "global rows": lambda n: build(n, [Window(12, 12), Columns((0, 1)), Rows((0, 1))]),
    "blocks and lists": lambda n: build(n, [Blocks(8), Blocks(8, 3, 1), some_lists(n)]),
    "causal": lambda n: patterns.causal(
        build(n, [Window(3, 3, 2), Strided(7), some_lists(n)])
    ),
    "logsparse": lambda n: patterns.logsparse(n, both=True),
    "all": lambda n: build(
        n,
        [Window(20, 20), Strided(5), Blocks(9)]
        + [Columns((1,)), Rows((n - 1,)), some_lists(n)],
    ),
}


def attended(name: str = "strided", n: int = 31, seed: int = 0) -> dict:
    """A union of parts by name, queries, keys and values."""
    g = generator(seed)
    drawn = torch.randn(3, 2, n, 8, generator=g, dtype=double)
    return {"pattern": UNIONS[name](n)} | dict(zip("qkv", drawn))


def _check_attended(pattern: Pattern, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Refuse other than finite float64 (..., n, d) that fit the pattern."""
    _check_pattern(pattern)
    for name, tensor in {"q": q, "k": k, "v": v}.items():
        is_floating(name, tensor)
        finite(**{name: tensor})
        got = f"{tensor.dtype} {tuple(tensor.shape)}"
        good = tensor.dim() >= 2 and tensor.shape[-2] == pattern.n
        require(
            good and tensor.dtype == double,
            f"{name} must be float64 (..., {pattern.n}, d), got {got}",
        )


def tiles_of(pattern: Pattern, *, disjoint: bool = True) -> tuple:
    """The tiles of step 0; not disjoint: each part as if it were alone, so that what
    two parts hold comes twice.
    """
    step = pattern.steps[0]
    how = (pattern.n, pattern.n, double, torch.device("cpu"))
    if disjoint:
        return _tiles.tiles_of(step, *how)
    made = []
    for part in step.parts:
        alone, _ = _tiles.tiles_of(Step((part,), step.causal), *how)
        made += alone
    return made, None


def _truth(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp of masked dense attention."""
    logits = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf)
    return masked_attention(q, k, v, mask), logits.logsumexp(-1)


def a_row_without_a_list() -> Verdict:
    """Row 0 of a window with lists has no list: its softmax is that of the window.

    Measured: 1 if the row reads something else; and what the parts miss.
    """
    n = 31
    objects = attended("strided", n)
    pattern = build(n, [Window(0, 1), some_lists(n)])
    wrong = pattern.mask()[0].nonzero().flatten().tolist() != [0, 1]
    missed = merge(pattern, objects["q"], objects["k"], objects["v"])
    return at_most(wrong + (not missed.ok), 0)


ATTENDED = Case(attended)


@claim(
    "sparse.merge",
    cases=[ATTENDED, *[ATTENDED.but(name=name, n=37) for name in UNIONS]],
    controls=[ATTENDED.but(disjoint=False)],
    witness=a_row_without_a_list,
)
def merge(
    pattern: Pattern, q: Tensor, k: Tensor, v: Tensor, *, disjoint: bool = True
) -> Verdict:
    """Softmax over a disjoint union is the sum of the outputs over its parts, weighted
    by e^(lambda_r - lambda).

    Measured: the distance of output and lambda from one softmax over the union, at most
    64 eps times the largest value.

    Args:
        pattern: one whose step 0 is a union of parts.
        q, k, v: (..., n, d), float64.
        disjoint: False counts twice what two parts hold.

    Returns:
        Verdict.

    Raises:
        ValueError: for other objects.

    Claim: sparse.merge
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_attended(pattern, q, k, v)
    require(v.any(), "v must not be zero: what is off is measured by it")
    scale = 1 / math.sqrt(q.shape[-1])
    got = attend(q * scale, k, v, *tiles_of(pattern, disjoint=disjoint))
    wanted = _truth(q, k, v, pattern.mask())
    off = max(float((a - b).abs().max()) for a, b in zip(got, wanted))
    return at_most(off, 64 * EPS * float(v.abs().max()))


def one_part_is_its_own_union() -> Verdict:
    """For a single window lambda of the first part is that of the union.

    Measured: 1 if the gradients miss.
    """
    objects = attended() | {"pattern": patterns.window(31, 5)}
    return at_most(not gradient(**objects, lse_of="part").ok, 0)


@claim(
    "sparse.gradient",
    cases=[
        ATTENDED,
        ATTENDED.but(name="global rows", n=64),
        *[ATTENDED.but(name=name, n=37) for name in UNIONS],
    ],
    controls=[ATTENDED.but(lse_of="part")],
    witness=one_part_is_its_own_union,
)
def gradient(
    pattern: Pattern,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    lse_of: Literal["union", "part"] = "union",
) -> Verdict:
    """The gradient of a score is P_ij (g_i . v_j - g_i . o_i + mu_i), from o and lambda
    of the whole union.

    Measured: the distance of the gradients for q, k and v from those of masked dense
    attention, at most 256 eps times the largest.

    Args:
        pattern: one whose step 0 is a union of parts.
        q, k, v: (..., n, d), float64.
        lse_of: "part" hands the formula lambda of the first part alone.

    Returns:
        Verdict.

    Raises:
        ValueError: for other objects.

    Claim: sparse.gradient
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_attended(pattern, q, k, v)
    one_of(("union", "part"), lse_of=lse_of)
    g_out = torch.randn(v.shape, dtype=double, generator=generator(1))
    g_lse = g_out[..., 0].contiguous()
    leaves = [t.detach().clone().requires_grad_() for t in (q, k, v)]
    out, lse = _truth(*leaves, pattern.mask())
    wanted = torch.autograd.grad((out * g_out).sum() + (lse * g_lse).sum(), leaves)
    q, k, v = (t.detach() for t in (q, k, v))
    if lse_of == "part":
        first = build(pattern.n, pattern.steps[0].parts[0])
        lse = _truth(q, k, v, first.mask())[1]
    scale = 1 / math.sqrt(q.shape[-1])
    made = (out.detach(), lse.detach(), g_out, g_lse)
    dq, dk, dv = gradients(q * scale, k, v, *made, *tiles_of(pattern))
    got = (scale * dq, dk, dv)
    size = max(float(t.abs().max()) for t in wanted)
    off = max(float((a - b).abs().max()) for a, b in zip(got, wanted))
    return at_most(off, 256 * EPS * size)


def neither_empty_nor_full() -> Verdict:
    """The union of all kinds of parts on 131 tokens has between a fifth and seven
    tenths of all connections, and the kernel is right on it.

    Measured: how many of these are wrong.
    """
    objects = attended("all", 131)
    share = objects["pattern"].connections / 131**2
    return at_most((not 0.2 < share < 0.7) + (not tiles(**objects).ok), 0)


@claim(
    "sparse.exact",
    cases=[
        ATTENDED,
        *[ATTENDED.but(name=name, n=64) for name in UNIONS],
        ATTENDED.but(name="all", n=131),
        ATTENDED.but(name="logsparse", n=131, last=40),
        ATTENDED.but(name="causal", n=13, last=4),
    ],
    controls=[ATTENDED.but(missing=1)],
    witness=neither_empty_nor_full,
)
def tiles(
    pattern: Pattern,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    missing: int = 0,
    last: int | None = None,
) -> Verdict:
    """The kernel agrees with masked dense attention up to rounding.

    Measured: the distance, at most 64 eps times the largest value.

    Args:
        pattern: of one step.
        q, k, v: (..., n, d), float64.
        missing: connections of the fullest row that the dense mask leaves out.
        last: ask for so many of the last queries alone; None for all.

    Returns:
        Verdict.

    Raises:
        ValueError: for other objects.

    Claim: sparse.exact
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_attended(pattern, q, k, v)
    sizes(0, missing=missing)
    n = pattern.n
    last = n if last is None else last
    sizes(1, last=last)
    require(last <= n, f"last must be at most n = {n}, got {last}")
    mask = pattern.mask().clone()
    row = n - last + int(mask[n - last :].sum(1).argmax())
    mask[row, mask[row].nonzero()[:missing, 0]] = False
    asked = q[..., n - last :, :]
    y = sparse_attention(asked, k, v, pattern)
    wanted = masked_attention(asked, k, v, mask[n - last :])
    return at_most(float((y - wanted).abs().max()), 64 * EPS * float(v.abs().max()))
