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
    heads,
    is_a,
    is_floating,
    is_list,
    numbers,
    one_of,
    require,
    sizes,
)
from attnlib.attention import Layer, feed_forward, forward
from attnlib.certify import Verdict, at_least, at_most
from attnlib.patterns import (
    Blocks,
    Columns,
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
from attnlib.sparse import _tiles, masked_attention, sparse_attention
from attnlib.sparse._kernel import attend, gradients
from attnlib.universal import Sublayer, ramp_mlp
from attnlib.universal.standard import _clamp_mlp

double = torch.float64
EPS = torch.finfo(double).eps
HALF = Fraction(1, 2)
MOST = 50_000  # inputs times tokens, or draws, that a theorem lists


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
    "three": lambda: patterns.from_sets([[2], [0], [1]]),
    "bare star": lambda: patterns.star(4, local=False),
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
    is_a(Pattern, pattern=pattern)
    _check_few(pattern.n, symbols)
    sizes(0, layers=layers)
    return int(states(pattern, layers, symbols).max()).bit_length()


def lookups_between(pattern: Pattern, symbols: int, layers: int) -> int:
    """Entries of all look-ups between the layers: one for each token and for each state
    that it can have there.
    """
    sizes(2, symbols=symbols)
    sizes(1, layers=layers)
    total = 0
    for t in range(1, layers):
        for size in reach(pattern, t).sum(1).tolist():
            total += symbols**size
    return total


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
    ],
    broken={"no places": {"_places": False}},
)
def universal(
    pattern: Pattern,
    *,
    symbols: int = 2,
    depends: Literal["all", "reached"] = "all",
    weight: Fraction | int = HALF,
    arithmetic: Literal["exact", "softmax"] = "exact",
    _places=True,
) -> Verdict:
    """Every function of the inputs is computed if and only if all is heard.

    Measured: over t the largest distance of the number of states from the sum of
    N^|S^t_k|, and, if functions depend on all, the states that the last layer lacks;
    1 if the checker contradicts. By softmax, the symbols that are read wrongly.

    Args:
        symbols: N.
        depends: "reached" for functions whose k-th output depends on what reaches k.
        weight: of the head; zero is no attention.
        arithmetic: "exact" for integers with nothing between the layers, "softmax" for
            floats with a look-up after each layer.

    Claim: patterns.universal
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    found = check(pattern)
    n = pattern.n
    _check_few(n, symbols)
    _check_weight(weight)
    one_of(("all", "reached"), depends=depends)
    one_of(("exact", "softmax"), arithmetic=arithmetic)
    last = found.hops or pattern.p * (n - 1)
    if arithmetic == "softmax":
        return at_most(misread(pattern, symbols, last, Fraction(weight), depends), 0)
    off = 0
    for t in range(last + 1):
        y = states(pattern, t, symbols, weight=Fraction(weight), places=_places)
        apart = told_apart(y, places=_places)
        possible = sum(symbols**size for size in reach(pattern, t).sum(1).tolist())
        off = max(off, abs(apart - possible))
    everything = n * symbols**n
    if depends == "all":
        off = max(off, everything - apart)
    contradicts = (apart == everything) != found.universal
    return at_most(max(off, int(contradicts)), 0)


def misread(
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
    controls=[CONTINUOUS.but(missing=(2, 1))],
)
def continuous(
    pattern: Pattern,
    f: Callable[[Tensor], Tensor],
    lipschitz: float,
    x: Tensor,
    *,
    cells: int,
    numbers_a_token: Literal["one", "n"] = "one",
) -> Verdict:
    """Where all is heard, f is approximated at every input: in cells of length h up to
    Lip h / 2, and with a slot for each number up to rounding.

    Measured: the largest error, over Lip h / 2 or, with slots, as it is. Here d = 1.

    Args:
        f: (m, n) -> (m, n), float64.
        lipschitz: its constant for the largest entry.
        x: inputs (m, n) in [0, 1], float64.
        cells: 1 / h.
        numbers_a_token: "n" for a slot for each token in place of a digit.

    Claim: patterns.continuous
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    layers = hops(pattern) or pattern.p * (pattern.n - 1)
    _check_inputs(x, pattern.n)
    is_a(Callable, f=f)
    numbers(lipschitz=lipschitz)
    require(lipschitz > 0, f"lipschitz must be positive, got {lipschitz}")
    sizes(2, cells=cells)
    one_of(("one", "n"), numbers_a_token=numbers_a_token)
    if numbers_a_token == "n":
        known = through_slots(pattern, x, layers)
        unit, bound = 1.0, 1e-9
    else:
        words = (x * cells).floor().clamp_max(cells - 1).long()
        found, _ = recoded(pattern, words, layers, cells)
        centres = (found + 0.5) / cells
        known = torch.where(found < 0, 0.5, centres)
        unit, bound = lipschitz / (2 * cells), 1 + 1e-9
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


def through_slots(pattern: Pattern, x: Tensor, layers: int) -> Tensor:
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


# --- the same with blocks as those of Yun et al.


def inputs_for_blocks(pattern="three", d=1, base=8, missing=None) -> dict:
    """A pattern, a function of all tokens, random inputs (200, n, d) and B."""
    made = small_pattern(pattern, missing)

    def f(x: Tensor) -> Tensor:
        return torch.sin(3 * x.roll(1, dims=-2) - x) + x.mean((-2, -1), keepdim=True)

    shape = (200, made["pattern"].n, d)
    x = torch.rand(*shape, generator=generator(7), dtype=double)
    return made | {"f": f, "x": x, "base": base}


def their_sublayers(
    pattern: Pattern, f: Callable, d: int, cells: int, base: int, ramp: float
) -> tuple[list[Sublayer], float, float]:
    """Attention with zero logits and four ReLUs at a time, on rows of d numbers; the
    largest |f| at a centre, and the size of the products that all look-ups add up.
    """
    n, size = pattern.n, cells**d
    axes = torch.eye(d, dtype=double)
    powers = _powers(cells, d)
    parts = []
    for axis in axes:
        for k in range(n * cells):
            parts.append(ramp_mlp(axis, axis, (k, k + 1), -1.0, k, ramp))
    # Row number `own` of token k becomes (B^(n + k) + own B^k, 0, ..., 0).
    rows = torch.arange(size)[:, None] // powers.long() % cells
    numbers_ = torch.empty(n, size, dtype=double)
    for k, own in itertools.product(range(n), range(size)):
        numbers_[k, own] = base ** (n + k) + own * base**k
        row = (rows[own] + k * cells).double()
        ident = float(powers @ row)
        write = numbers_[k, own] * axes[0] - row
        cuts = (ident - 0.5, ident + 0.5)
        parts.append(ramp_mlp(powers, write, cuts, 0.0, 1.0, 0.25))
    sublayers = [Sublayer("feed-forward", mlp=part) for part in parts]
    # s layers that average, and what they make of every input.
    zero, first = torch.zeros(1, d, 1, dtype=double), axes[None, :, :1]
    layer = Layer(zero, zero, first, first.mT / 2)
    words = torch.tensor(all_words(n, size).astype(np.int64))
    state = numbers_[torch.arange(n), words][..., None] * axes[0]
    for t in range(hops(pattern) or pattern.p * (n - 1)):
        mask = pattern.mask(t)
        sublayers.append(Sublayer("attention", layer, mask=mask))
        state = forward(state, [layer], skip=True, mask=mask)
    known = state[..., 0].flatten()
    targets = cells * f((rows[words] + 0.5) / cells).flatten(0, 1)
    apart = float(known.unique().diff().min())
    for number, target in zip(known.tolist(), targets):
        cuts = (number - apart / 2, number + apart / 2)
        write = target - number * axes[0]
        part = ramp_mlp(axes[0], write, cuts, 0.0, 1.0, apart / 4)
        sublayers.append(Sublayer("feed-forward", mlp=part))
    largest = float(targets.abs().max()) / cells
    for axis in axes:
        part = _clamp_mlp(axis, largest * cells)
        sublayers.append(Sublayer("feed-forward", mlp=part))
    return sublayers, largest, len(known) * float(known.max()) ** 2 / apart


def _powers(cells: int, d: int) -> Tensor:
    """1, K, ..., K^(d - 1)."""
    return torch.tensor([float(cells) ** i for i in range(d)], dtype=double)


BLOCKS = Case(inputs_for_blocks)


@claim(
    "patterns.class",
    cases=[
        BLOCKS,
        BLOCKS.but(pattern="swap", d=2),
        BLOCKS.but(pattern="two steps", base=4),
        BLOCKS.but(pattern="bare star", base=4),
    ],
    controls=[BLOCKS.but(missing=(2, 1))],
    broken={"whole weight": {"_weight": 1.0}},
)
def their_class(
    pattern: Pattern,
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    base: int,
    cells: int = 2,
    ramp: float = 0.01,
    _weight=0.5,
) -> Verdict:
    """Where all is heard, rows of d numbers, zero logits and four ReLUs a layer give f
    at the centre of the cell of x, off the ramps; elsewhere no more than max |f|.

    Measured: the largest difference, and by how much an output exceeds max |f|, as
    shares of max |f|.

    Args:
        f: (M, n, d) -> (M, n, d), float64.
        x: inputs (m, n, d) in [0, 1), float64.
        base: B, so large that no two numbers are equal.
        cells: K.
        ramp: of the quantiser, in cells.

    Claim: patterns.class
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    is_a(Pattern, pattern=pattern)
    n = pattern.n
    require(
        x.dim() == 3 and x.shape[1] == n and x.dtype == double,
        f"x must be float64 (m, {n}, d), got {x.dtype} {tuple(x.shape)}",
    )
    require(bool(((x >= 0) & (x < 1)).all()), "x must lie in [0, 1)")
    sizes(2, base=base, cells=cells)
    _check_few(n, cells ** x.shape[-1])
    numbers(ramp=ramp)
    made = their_sublayers(pattern, f, x.shape[-1], cells, base, ramp)
    sublayers, largest, products = made
    z = cells * (x + torch.arange(n)[:, None])
    for sublayer in sublayers:
        layer = sublayer.layer
        if layer is None:
            z = z + feed_forward(z, sublayer.mlp)
        else:
            layer = layer._replace(w_o=layer.w_o * (_weight / 0.5))
            z = forward(z, [layer], skip=True, mask=sublayer.mask)
    y = z / cells
    centres = ((cells * x).floor() + 0.5) / cells
    exactly = ((cells * x) % 1 < 1 - ramp).all(-1).all(-1)
    require(bool(exactly.any()), "x: all inputs lie on ramps")
    off = float((y - f(centres))[exactly].abs().max()) / largest
    above = max(0.0, float(y.abs().max()) / largest - 1)
    return at_most(max(off, above), 16 * EPS * products / largest)


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


def half_of(name="star", n=7, inside=3, values=4) -> dict:
    """A pattern, its first tokens as the set H, and how many values a state takes."""
    made = {
        "star": lambda: patterns.star(n),
        "window": lambda: patterns.window(n, 3),
        "ring": lambda: patterns.directed_cycle(n),
        "strided": lambda: patterns.strided(n, 3),
        "swap": SMALL["swap"],
    }
    return {"pattern": made[name](), "inside": list(range(inside)), "values": values}


CUT = Case(half_of, called_with={"layers": 2, "b": 2})


@claim(
    "patterns.cut",
    cases=[
        CUT,
        CUT.but(name="window"),
        CUT.but(name="ring", layers=3),
        CUT.but(name="strided", n=6),
        CUT.but(values=2, b=1, layers=3),
        CUT.but(name="swap", inside=1, layers=1),
    ],
    controls=[CUT.but(values=8)],
)
def cut(
    pattern: Pattern, inside: Sequence[int], values: int, *, layers, b, seed=0
) -> Verdict:
    """What a set of tokens learns of the others fits through the states that it reads.

    Measured: log2 of how many outputs the set has, at most b (c_1 + ... + c_T); the
    most of 20 random networks, over all inputs outside.

    Args:
        inside: H.
        values: states and inputs are integers below it. It is not compared with 2^b.
        layers: T.

    Claim: patterns.cut
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    counts = crossing(pattern, inside)
    sizes(1, layers=layers, b=b)
    sizes(2, values=values)
    sizes(0, seed=seed)
    outside = sorted(set(range(pattern.n)) - set(inside))
    _check_few(len(outside), values)
    words = torch.cartesian_prod(*[torch.arange(values)] * len(outside))
    start = torch.zeros(len(words), pattern.n, dtype=torch.int64)
    start[:, outside] = words.reshape(len(words), -1)
    most = 0.0
    g = generator(seed)
    for _ in range(20):
        y = start
        for t in range(layers):
            mixing = torch.randint(1, values, (pattern.n, pattern.n), generator=g)
            y = (y + y @ (mixing * pattern.mask(t)).T) % values
        outputs = y[:, list(inside)].unique(dim=0)
        most = max(most, math.log2(len(outputs)))
    crossed = sum(counts[t % pattern.p] for t in range(layers))
    return at_most(most, b * crossed + 1e-9)


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


def digits(w: int, m: int) -> Pattern:
    """(12.5): k - i w^l in step l, for the digits i, on w^m tokens."""
    steps = [Window(w - 1, 0, w**l, wrap=True) for l in range(m)]
    return build(w**m, *steps)


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


FEW = Case(thrifty)


@claim(
    "patterns.fewest",
    cases=[FEW, *[FEW.but(name=n) for n in ("one by one", "window", "star")]],
    controls=[FEW.but(loops=False)],
)
def fewest(pattern: Pattern) -> Verdict:
    """The union of all steps has at least 2 n connections, and some step n + 1.

    Measured: the connections of the union over 2 n and those of the largest step over
    n + 1, the smaller of the two.

    Args:
        pattern: with condition (3); others are refused.

    Claim: patterns.fewest
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    require(
        hops(pattern) is not None,
        "pattern must meet condition (3): a token never hears of another",
    )
    union = patterns.one_step(pattern).connections / (2 * pattern.n)
    largest = pattern.connections / (pattern.n + 1)
    return at_least(min(union, largest), 1)


def hasty(w: int = 4, m: int = 3, seed: int | None = None, all_at_once=False) -> dict:
    """The pattern of digits, perhaps with a step in which all read all, or a random one
    of w drawn tokens; and how many a token may read.
    """
    if seed is not None:
        pattern = patterns.random(20 + seed, w, generator=generator(seed))
        return {"pattern": pattern, "w": w + 1}
    pattern = digits(w, m)
    if all_at_once:
        pattern = build(w**m, *patterns.dense(w**m).steps, *pattern.steps[1:])
    return {"pattern": pattern, "w": w}


HASTY = Case(hasty)


@claim(
    "patterns.hops",
    cases=[HASTY, HASTY.but(w=2, m=6), *[HASTY.but(w=5, seed=s) for s in (1, 2, 3)]],
    controls=[HASTY.but(all_at_once=True)],
)
def fewest_hops(pattern: Pattern, w: int) -> Verdict:
    """With few connections a token, news takes layers: n <= w^s.

    Measured: n, against w^s; infinity if there is no s.

    Args:
        w: that no token reads more in a step, itself counted, is not asked.

    Claim: patterns.hops
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    s = hops(pattern)
    sizes(2, w=w)
    return at_most(pattern.n, math.inf if s is None else w**s)


def one_sided(name: str = "star", causal: bool = True) -> dict:
    """A pattern of nine tokens without the future."""
    made = {
        "dense": lambda: patterns.dense(9),
        "star": lambda: patterns.star(9),
        "strided": lambda: patterns.strided(9),
        "blockwise": lambda: patterns.blockwise(9, 3),
    }
    pattern = made[name]()
    return {"pattern": patterns.causal(pattern) if causal else pattern}


PAST = Case(one_sided)


@claim(
    "patterns.causal",
    cases=[PAST, *[PAST.but(name=n) for n in ("dense", "strided", "blockwise")]],
    controls=[PAST.but(causal=False)],
)
def past_alone(pattern: Pattern) -> Verdict:
    """A causal pattern has no hops.

    Measured: 1 if it has.

    Args:
        pattern: whether it is causal is not asked.

    Claim: patterns.causal
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    return at_most(int(hops(pattern) is not None), 0)


# --- families


def denied(pattern: Pattern, family: str, *widths: int) -> Verdict:
    """What the checker denies of a formula, the self-loops and the path 0, 1, 2, ..."""
    found = check(pattern)
    wanted = exact(family, pattern.n, *widths)
    count = pattern.p != wanted.p
    count += found.hops != wanted.hops
    count += found.connections != wanted.connections
    count += not found.self_loops
    count += not is_path(pattern, range(pattern.n))
    return at_most(count, 0)


def window_sizes(n: int = 16, w: int = 5, dilation: int = 1) -> dict:
    """A window, and its width."""
    return {"pattern": patterns.window(n, w, dilation=dilation), "w": w}


WINDOW = Case(window_sizes)


@claim(
    "patterns.window",
    cases=[WINDOW, *[WINDOW.but(n=n, w=w) for n, w in ((7, 7), (8, 3), (33, 9))]],
    controls=[WINDOW.but(dilation=2)],
)
def windows(pattern: Pattern, w: int) -> Verdict:
    """A window has the connections and the hops of its formula.

    Measured: what of this, of (1) and of (2) the checker denies.

    Args:
        w: the width, odd, 3..n.

    Claim: patterns.window
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    return denied(pattern, "window", w)


def kept_apart(n: int = 8, w: int = 5, dilation: int = 2, b: int | None = None) -> dict:
    """A dilated window, or blocks of b."""
    if b is not None:
        return {"pattern": patterns.block_diagonal(n, b)}
    return {"pattern": patterns.window(n, w, dilation=dilation)}


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
)
def classes(pattern: Pattern) -> Verdict:
    """Where tokens read inside of classes alone, (2) and (3) fail.

    Measured: which of these hold, and 1 if (1) fails.

    Claim: patterns.classes
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    fails = set(check(pattern).reasons)
    return at_most(len(fails ^ {"hamiltonian_path", "hops"}), 0)


def cycle_of_dilations(n: int = 16, left_out: int = 0) -> dict:
    """The dilation cycle, without its last steps."""
    steps = patterns.dilation_cycle(n).steps
    return {"pattern": build(n, *steps[: len(steps) - left_out])}


DILATIONS = Case(cycle_of_dilations)


@claim(
    "patterns.dilation-cycle",
    cases=[DILATIONS, *[DILATIONS.but(n=n) for n in (2, 3, 5, 17, 39)]],
    controls=[DILATIONS.but(left_out=1)],
)
def dilations(pattern: Pattern) -> Verdict:
    """The dilation cycle meets all conditions, with s = p = ceil(log2 n).

    Measured: what of this and of its connections the checker denies.

    Claim: patterns.dilation-cycle
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    return denied(pattern, "dilation cycle")


def relay(n: int = 12, local: bool = True) -> dict:
    """A star, with its local edges or bare."""
    return {"pattern": patterns.star(n, local=local)}


STAR = Case(relay)


@claim(
    "patterns.star",
    cases=[STAR, *[STAR.but(n=n) for n in (3, 4, 5, 29)]],
    controls=[STAR.but(local=False)],
)
def star(pattern: Pattern) -> Verdict:
    """The star with local edges meets all conditions, in two hops.

    Measured: what of this and of its 5 n - 6 connections the checker denies.

    Claim: patterns.star
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    return denied(pattern, "star")


def global_tokens(
    n: int = 13, h: int = 2, g: int = 3, r: int = 0, read_all: bool = True
) -> dict:
    """A window of width 2 h + 1, g tokens that are read by all, and perhaps read all,
    and r random ones for each token.
    """
    if r:
        made = patterns.bigbird(n, 2 * h + 1, g, r, generator=generator(n))
    elif read_all:
        made = patterns.longformer(n, 2 * h + 1, g)
    else:
        made = build(n, [Window(h, h), Columns(tuple(range(g)))])
    return {"pattern": made, "h": h, "g": g, "r": r}


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
    controls=[GLOBAL.but(read_all=False)],
)
def longformer(pattern: Pattern, h: int, g: int, r: int = 0) -> Verdict:
    """A window and global tokens meet all conditions, in two hops.

    Measured: what of this and of (12.6), or of at most r n more, the checker denies.

    Args:
        h, g, r: tokens on each side of the window, global ones, random ones a token.

    Claim: patterns.longformer
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    found = check(pattern)
    sizes(0, h=h, r=r)
    least = exact("longformer", pattern.n, 2 * h + 1, g).connections
    count = found.all_met is not True
    count += found.hops != 2 and not (r > 0 and found.hops == 1)
    count += not least <= found.connections <= least + r * pattern.n
    return at_most(count, 0)


def doublings(n: int = 16, base: int = 2, both: bool = False) -> dict:
    """Reading k and k - base^i, and k + base^i as well if both."""
    if base == 2:
        return {"pattern": patterns.logsparse(n, both=both), "both": both}
    count = math.ceil(math.log(n, base))
    parts = [Window(1, int(both), base**i) for i in range(count)]
    return {"pattern": build(n, parts), "both": both}


DOUBLING = Case(doublings)


@claim(
    "patterns.logsparse",
    cases=[
        DOUBLING,
        *[DOUBLING.but(n=n) for n in (2, 3, 9, 33)],
        *[DOUBLING.but(n=n, both=True) for n in (2, 9, 33)],
    ],
    controls=[DOUBLING.but(base=3)],
)
def logsparse(pattern: Pattern, *, both: bool = False) -> Verdict:
    """LogSparse fails (3) alone; with both signs all hold, and s <= ceil(log2 n).

    Measured: what of this, and one-sided of its connections, the checker denies.

    Claim: patterns.logsparse
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    if not both:
        return denied(pattern, "logsparse")
    found = check(pattern)
    late = found.hops is None or found.hops > (pattern.n - 1).bit_length()
    return at_most((found.all_met is not True) + late, 0)


def draws(n: int = 3, r: int = 2) -> dict:
    """Numbers of tokens and of draws."""
    return {"n": n, "r": r}


DRAWS = Case(draws)


@claim(
    "patterns.random",
    cases=[DRAWS, DRAWS.but(n=4), DRAWS.but(r=1), DRAWS.but(n=16, r=2)],
    broken={"with replacement": {"_replace": True}},
)
def unread(n: int, r: int, *, _replace=False) -> Verdict:
    """The expected number of tokens that nobody else reads is n (1 - r/n)^(n - 1).

    Measured: the distance of the mean over all draws, in fractions, where they can be
    listed; beyond that, of the mean of 120 patterns that the library draws, in five
    standard errors.

    Claim: patterns.random
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    sizes(2, n=n)
    sizes(1, r=r)
    require(r <= n, f"r must be at most n = {n}, got {r}")
    expected = n * (1 - Fraction(r, n)) ** (n - 1)
    if math.comb(n, r) ** n > MOST:
        return unread_by_drawing(n, r, float(expected))
    drawn = itertools.combinations(range(n), r)
    if _replace:
        drawn = itertools.product(range(n), repeat=r)
    total = 0
    count = 0
    for sets in itertools.product([frozenset(row) for row in drawn], repeat=n):
        for j in range(n):
            others = sets[:j] + sets[j + 1 :]
            total += not any(j in row for row in others)
        count += 1
    return at_most(abs(Fraction(total, count) - expected), 0)


def unread_by_drawing(n: int, r: int, expected: float) -> Verdict:
    """The mean of 120 patterns of the library, in standard errors."""
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
)
def strided(pattern: Pattern, w: int, h: int | None = None) -> Verdict:
    """Half a window makes three hops; with +- h there are two from h = w - 1 on.

    Measured: what of this and of the conditions the checker denies.

    Args:
        w: the stride.
        h: tokens on each side of the window, None for half of w.

    Claim: patterns.strided
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    found = check(pattern)
    sizes(1, w=w)
    if h is not None:
        sizes(0, h=h)
        in_two = found.hops is not None and found.hops <= 2
        return at_most(int(in_two != (h >= w - 1)), 0)
    return at_most((found.hops != 3) + (found.all_met is not True), 0)


def summaries(n: int = 16, w: int = 4, closed: bool = False) -> dict:
    """A fixed pattern of blocks of w."""
    return {"pattern": patterns.fixed(n, w, closed=closed)}


FIXED = Case(summaries)


@claim(
    "patterns.fixed",
    cases=[
        FIXED,
        *[FIXED.but(n=n, w=w) for n, w in ((4, 2), (21, 7), (64, 8))],
        *[FIXED.but(n=n, closed=True) for n in (5, 18, 19)],
    ],
    controls=[FIXED.but(n=18)],
)
def fixed(pattern: Pattern) -> Verdict:
    """Where every block has an end that all read, fixed has two hops.

    Measured: what of this and of the conditions the checker denies.

    Claim: patterns.fixed
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    found = check(pattern)
    return at_most((found.hops != 2) + (found.all_met is not True), 0)


def moved_blocks(b: int = 6, m: int = 3, shift: int = 3) -> dict:
    """Blocks of b on m b tokens, then the same moved."""
    return {"pattern": build(b * m, Blocks(b), Blocks(b, shift)), "b": b}


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
)
def shifted(pattern: Pattern, b: int) -> Verdict:
    """Blocks, then the same moved, meet all conditions with s = 2 n / b - 1.

    Measured: what of this and of n b connections the checker denies.

    Claim: patterns.shifted-blocks
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    sizes(1, b=b)
    return denied(pattern, "shifted blocks", b)


def turning_blocks(b: int = 3, m: int = 5, itself: bool = True) -> dict:
    """Step q reads the block q places on, and perhaps the token itself."""
    n = b * m
    if itself:
        pattern = patterns.blockwise(n, b)
    else:
        pattern = build(n, *[Blocks(b, turn=q) for q in range(m)])
    return {"pattern": pattern, "b": b}


TURNING = Case(turning_blocks)


@claim(
    "patterns.blockwise",
    cases=[TURNING, *[TURNING.but(b=b, m=m) for b, m in ((1, 2), (2, 8), (3, 11))]],
    controls=[TURNING.but(itself=False)],
)
def blockwise(pattern: Pattern, b: int) -> Verdict:
    """Turning blocks meet all conditions, and s is the least t with
    t (t - 1) / 2 >= n / b - 1.

    Measured: what of this and of n (b + 1) connections the checker denies.

    Claim: patterns.blockwise
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    sizes(1, b=b)
    return denied(pattern, "blockwise", b)


def paths_among(pattern: Pattern) -> int:
    """How many orders of the tokens are paths, by walking them all."""
    reads = patterns.one_step(pattern).mask().tolist()

    def onward(last: int, left: frozenset) -> int:
        if not left:
            return 1
        return sum(onward(k, left - {k}) for k in left if reads[k][last])

    everybody = frozenset(range(pattern.n))
    return sum(onward(k, everybody - {k}) for k in everybody)


BARE = Case(relay, {"n": 6, "local": False})


@claim(
    "patterns.bare-star",
    cases=[BARE, BARE.but(n=4), BARE.but(n=5), BARE.but(n=7)],
    controls=[BARE.but(n=3), BARE.but(local=True)],
)
def bare_star(pattern: Pattern) -> Verdict:
    """From n = 4 on the star without local edges has no path, and two hops.

    Measured: orders of the tokens that are paths, all of them walked; 1 if the checker
    alone finds one, or denies the hops or (1).

    Args:
        pattern: at most 9 tokens.

    Claim: patterns.bare-star
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    found = check(pattern)
    n = pattern.n
    require(
        n <= 9, f"pattern must have at most 9 tokens, got {n}: all orders are tried"
    )
    wrong = found.hamiltonian_path is not None
    wrong = wrong or found.hops != 2 or not found.self_loops
    return at_most(max(paths_among(pattern), int(wrong)), 0)


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


def slowest(lengths: Sequence[int] = (3, 4, 9, 17)) -> dict:
    """Rings with a chord."""
    return {"made": [ring_with_a_chord(n) for n in lengths]}


def by_sets(pattern: Pattern, skip: bool) -> int | None:
    """The hops by Python sets, layer by layer: (12.2) as it stands."""
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


def misjudged(pattern: Pattern) -> bool:
    """Whether the checker is wrong of self-loops, or its path is none."""
    found = check(pattern, moves=100)
    loops = all(bool(pattern.mask(l).diagonal().all()) for l in range(pattern.p))
    path = found.hamiltonian_path
    no_path = path is not None and not is_path(pattern, path)
    return found.self_loops != loops or no_path


DRAWN = Case(drawn_patterns)


@claim(
    "patterns.checker",
    cases=[
        DRAWN,
        DRAWN.but(loops=False),
        DRAWN.but(loops=False, skip=False),
        DRAWN.but(most=20, seed=100),
        Case(slowest, called_with={"skip": False}),
    ],
    broken={"steps backwards": {"_order": -1}},
)
def checker(made: Sequence[Pattern], *, skip: bool = True, _order=1) -> Verdict:
    """The hops by squares are those by sets, with few boolean products.

    Measured: patterns whose hops differ, those that take more products than
    2 p + 2 log2 n + 2, without the skip 2 p + 4 log2 n + 2, and those of whose
    self-loops or path the checker is wrong.

    Claim: patterns.checker
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    is_list(made=made)
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
        turned = build(pattern.n, *pattern.steps[::_order])
        wrong += s != by_sets(turned, skip)
        wrong += misjudged(pattern)
    return at_most(wrong, 0)


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
    is_a(Pattern, pattern=pattern)
    heads(q, k, v, one_length=True)
    require(
        q.shape[-2] == pattern.n and q.dtype == double,
        f"q must be float64 (..., {pattern.n}, d), got {q.dtype} {tuple(q.shape)}",
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


def truth(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp of masked dense attention."""
    logits = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf)
    return masked_attention(q, k, v, mask), logits.logsumexp(-1)


ATTENDED = Case(attended)


@claim(
    "sparse.merge",
    cases=[ATTENDED, *[ATTENDED.but(name=name, n=37) for name in UNIONS]],
    broken={"counted twice": {"_disjoint": False}},
)
def merge(pattern: Pattern, q, k, v, *, _disjoint=True) -> Verdict:
    """Softmax over a disjoint union is put together from those over its parts.

    Measured: the distance of output and lambda from one softmax over the union, at most
    64 eps times the largest value.

    Args:
        pattern: one whose step 0 is a union of parts.
        q, k, v: (b, n, d), float64.

    Claim: sparse.merge
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_attended(pattern, q, k, v)
    require(q.dim() == 3, f"q must be (b, n, d), got {tuple(q.shape)}")
    require(v.any(), "v must not be zero: what is off is measured by it")
    scale = 1 / math.sqrt(q.shape[-1])
    got = attend(q * scale, k, v, *tiles_of(pattern, disjoint=_disjoint))
    wanted = truth(q, k, v, pattern.mask())
    off = max(float((a - b).abs().max()) for a, b in zip(got, wanted))
    return at_most(off, 64 * EPS * float(v.abs().max()))


@claim(
    "sparse.gradient",
    cases=[
        ATTENDED,
        ATTENDED.but(name="global rows", n=64),
        *[ATTENDED.but(name=name, n=37) for name in UNIONS],
    ],
    broken={"lambda of one part": {"_of_union": False}},
)
def gradient(pattern: Pattern, q, k, v, *, _of_union=True) -> Verdict:
    """The gradient of a score takes o and lambda of the whole union, and no more.

    Measured: the distance of the gradients for q, k and v from those of masked dense
    attention, at most 256 eps times the largest.

    Args:
        pattern: one whose step 0 is a union of parts.
        q, k, v: (..., n, d), float64.

    Claim: sparse.gradient
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_attended(pattern, q, k, v)
    g_out = torch.randn(v.shape, dtype=double, generator=generator(1))
    g_lse = g_out[..., 0].contiguous()
    leaves = [t.detach().clone().requires_grad_() for t in (q, k, v)]
    out, lse = truth(*leaves, pattern.mask())
    wanted = torch.autograd.grad((out * g_out).sum() + (lse * g_lse).sum(), leaves)
    q, k, v = (t.detach() for t in (q, k, v))
    if not _of_union:
        first = build(pattern.n, pattern.steps[0].parts[0])
        lse = truth(q, k, v, first.mask())[1]
    scale = 1 / math.sqrt(q.shape[-1])
    made = (out.detach(), lse.detach(), g_out, g_lse)
    dq, dk, dv = gradients(q * scale, k, v, *made, *tiles_of(pattern))
    got = (scale * dq, dk, dv)
    size = max(float(t.abs().max()) for t in wanted)
    off = max(float((a - b).abs().max()) for a, b in zip(got, wanted))
    return at_most(off, 256 * EPS * size)


@claim(
    "sparse.exact",
    cases=[
        ATTENDED,
        *[ATTENDED.but(name=name, n=64) for name in UNIONS],
        ATTENDED.but(name="all", n=131),
        ATTENDED.but(name="logsparse", n=131, last=40),
        ATTENDED.but(name="causal", n=13, last=4),
    ],
    broken={"a connection less": {"_missing": 1}},
)
def tiles(pattern: Pattern, q, k, v, *, last=None, _missing=0) -> Verdict:
    """The kernel agrees with masked dense attention up to rounding.

    Measured: the distance, at most 64 eps times the largest value.

    Args:
        pattern: of one step.
        q, k, v: (..., n, d), float64.
        last: ask for so many of the last queries alone; None for all.

    Claim: sparse.exact
    Page: notebooks/sparse_universality/patterns_and_conditions
    """
    _check_attended(pattern, q, k, v)
    n = pattern.n
    last = n if last is None else last
    sizes(1, last=last)
    require(last <= n, f"last must be at most n = {n}, got {last}")
    mask = pattern.mask().clone()
    row = n - last + int(mask[n - last :].sum(1).argmax())
    mask[row, mask[row].nonzero()[:_missing, 0]] = False
    asked = q[..., n - last :, :]
    y = sparse_attention(asked, k, v, pattern)
    wanted = masked_attention(asked, k, v, mask[n - last :])
    return at_most(float((y - wanted).abs().max()), 64 * EPS * float(v.abs().max()))
