"""The claims of the page `Softmax tells sets apart, hardmax does not`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, pairwise

import mpmath
import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib._require import finite, is_list, is_tensor, numbers, require, sizes
from attnlib.attention import Layer, forward, random_layers
from attnlib.certify import (
    Verdict,
    at_most,
    boltzmann_gap,
    context_terms,
    hardmax_layer,
)
from attnlib.certify.boltzmann import _context, _rational, _tokens
from attnlib.memorize.averages import boltzmann, needed_gap

double = torch.float64
EPS = torch.finfo(double).eps
ENDS = (1, 2, 5, 6)
NEAR = (1, 3, 4, 6)
BETA = math.acosh(1 + 1 / math.sqrt(2))  # the float next to beta* of Proposition 16.13
Number = int | float | Fraction
FAR_OFF = 1e6  # from zero: beyond, rounding hides what a row of logits says


def largest_drop(n: int) -> float:
    """omega_n, by how much the Boltzmann operator of n entries can fall below their
    maximum: omega e^omega = (n - 1) / e.
    """
    sizes(2, n=n)
    return float(mpmath.lambertw((n - 1) / mpmath.e).real)


def typical_bound(
    n: int, sigma: float, density: float, eps: float, *, repeats: bool = False
) -> float:
    """What Theorem 16.3 allows for the chance that two averages are within eps.

        2 M n eps e^sigma / (1 - sigma),   with e^(3 sigma) if tokens repeat

    n counts the tokens of a sequence, sigma is |beta| max|z| rho, density M. With
    repeats, both may hold the same tokens, some more or less often.
    """
    sizes(1, n=n)
    numbers(sigma=sigma, density=density, eps=eps)
    require(
        0 <= sigma < 1,
        f"sigma must be at least 0 and below 1, got {sigma}: beyond 1 an average may "
        "fall while a token rises, and Theorem 16.3 says nothing",
    )
    require(
        density > 0 and eps > 0,
        f"density and eps must be positive, got {density} and {eps}",
    )
    power = 3 * sigma if repeats else sigma
    return 2 * density * n * eps * math.exp(power) / (1 - sigma)


# --- what the theorems accept


def _check_floats(name: str, tensor: Tensor, axes: int) -> None:
    """Refuse what is no float64 tensor of so many axes."""
    is_tensor(name, tensor)
    require(
        tensor.dtype == double and tensor.dim() == axes,
        f"{name} must be float64 with {axes} axes, got {tensor.dtype} "
        f"{tuple(tensor.shape)}",
    )


def _check_rows(a: Tensor) -> None:
    """Refuse other than rows of two or more float64 entries near zero."""
    is_tensor("a", a)
    require(a.dtype == double, f"a must be float64, got {a.dtype}: cast it first")
    got = tuple(a.shape)
    require(
        a.dim() >= 1 and got[-1] >= 2 and a.numel() > 0,
        f"a must be (*batch, n) with n >= 2 and at least one row, got {got}",
    )
    largest = float(a.detach().abs().max())
    require(
        largest <= FAR_OFF,
        f"a must hold entries of at most {FAR_OFF:g}, got {largest:g}: rounding would "
        "hide the rest; subtract the maximum of each row",
    )


def _check_draws(name: str, draws: Tensor) -> None:
    """Refuse other than (draws, V) in float64, 1,000 draws or more, not all alike."""
    _check_floats(name, draws, 2)
    require(
        draws.shape[0] >= 1000 and draws.shape[1] >= 2,
        f"{name} must be (draws, V), 1000 draws or more of two tokens or more, got "
        f"{tuple(draws.shape)}",
    )
    require(
        (draws != draws[0]).any(), f"{name} must be random, and all draws are the same"
    )


def _check_multisets(first, second, query: int, count: int) -> tuple[list, list]:
    """Two different lists, of one size, of token numbers below count; both hold the
    query.
    """
    is_list(first=first, second=second)
    sizes(0, query=query)
    for name, tokens in (("first", first), ("second", second)):
        for k in tokens:
            sizes(0, **{f"each token of {name}": k})
            require(k < count, f"{name} holds token {k}, of a vocabulary of {count}")
        require(query in tokens, f"query must be a token of {name}, got {query}")
    require(
        len(first) == len(second) and sorted(first) != sorted(second),
        "first and second must be different multisets of one size",
    )
    return list(first), list(second)


def _check_pair(a, b, kind: str) -> tuple[list[Fraction], list[Fraction]]:
    """Two lists of one size as Fractions that meet the hypotheses of a lemma."""
    a = _tokens("a", a)
    b = _tokens("b", b)
    require(
        len(a) == len(b) >= 2,
        f"a and b must be of one size of at least two, got {len(a)} and {len(b)}: "
        "{1, 2} and {1, 1, 2, 2} have equal averages",
    )
    require(sorted(a) != sorted(b), "a and b are the same multiset")
    require(
        max(map(abs, [*a, *b])) < 10**300,
        "a and b hold values beyond 1e300, and no float holds the bound",
    )
    if kind == "distinct":
        for name, values in (("a", a), ("b", b)):
            require(
                len(set(values)) == len(values),
                f"{name} must hold no value twice: Theorem 16.9 is the one for "
                "multisets",
            )
    need = needed_gap(len(a), kind=kind)
    delta = _delta(a, b)
    require(
        delta >= need,
        f"different values of a and b must be at least {need:.4f} apart for n = "
        f"{len(a)}, got {float(delta):.4f}",
    )
    return a, b


def _delta(a, b) -> Fraction:
    """The least distance of two different values."""
    return min(y - x for x, y in pairwise(sorted({*a, *b})))


# --- objects: what the tests run the theorems on


def drawn_rows(n=6, seed=0, size=4.0) -> dict:
    """Gaussian rows times size, and the row with the largest drop."""
    g = torch.Generator().manual_seed(seed)
    a = size * torch.randn(300, n, generator=g, dtype=double)
    a[0, 0] = 0.0
    a[0, 1:] = -1 - largest_drop(n)
    return {"a": a}


def stairs(n=8) -> dict:
    """Rows of one zero and n - 1 equal entries, which lie deeper from row to row; among
    them depths on either side of each law.
    """
    laws = torch.tensor([1 + largest_drop(n), 3 + math.log(n)], dtype=double)
    steps = torch.linspace(-0.2, 0.2, 40, dtype=double)  # zero is not among them
    depths = (laws[:, None] + steps).flatten()
    a = torch.zeros(len(depths), n, dtype=double)
    a[:, 1:] = -depths[:, None]
    return {"a": a}


def grid_step(n: int, kind: str) -> Fraction:
    """The least distance that a lemma allows, rounded up to a fraction of 1024."""
    return Fraction(math.ceil(1024 * needed_gap(n, kind=kind)), 1024)


def the_two_sequences(kind="distinct") -> dict:
    """{1, 2, 5, 6} and {1, 3, 4, 6}, as far apart as the lemma asks."""
    step = grid_step(4, kind)
    return {"a": [step * v for v in ENDS], "b": [step * v for v in NEAR]}


def lowest_differ(n=2, kind="distinct") -> dict:
    """Two vectors that differ in their lowest value only, on the finest grid."""
    step = grid_step(n, kind)
    a = [step * v for v in range(1, n + 1)]
    return {"a": a, "b": [0 * step, *a[1:]]}


def grid_pair(n=4, kind="distinct", seed=0) -> dict:
    """Two vectors drawn from the finest grid of n + 3 values."""
    g = torch.Generator().manual_seed(seed)
    step = grid_step(n, kind)
    found = []
    for _ in "ab":
        if kind == "distinct":
            picks = torch.randperm(n + 3, generator=g)[:n]
        else:
            picks = torch.randint(0, 4, (n,), generator=g)
        found.append([step * v for v in picks.tolist()])
    return {"a": found[0], "b": found[1]}


def nearly_all_equal(n=2) -> dict:
    """n equal values, and one of them a step lower: the bound for multisets is nearly
    attained here.
    """
    step = grid_step(n, "multiset")
    return {"a": [step] * n, "b": [step] * (n - 1) + [0 * step]}


def deep_pair(K=4, n=3) -> dict:
    """Tokens 1 + k / (K - 1), two sets that differ in their lowest token, and beta as
    the paper's constants choose it, times the highest token.
    """
    z = [1 + Fraction(k, K - 1) for k in range(K)]
    beta = Fraction((K + 1) ** 4 * math.pi * (2 * math.log(n) + 3) * (K - 1) / 8)
    top = z[K - n + 1 :]
    return {"a": [z[0], *top], "b": [z[1], *top], "s": beta * z[-1]}


def line_and_layer(seed=0, tied=2) -> dict:
    """A line in eight dimensions, and a layer of four heads with biases; in so many of
    them all keys are alike, and every score ties.
    """
    g = torch.Generator().manual_seed(seed)
    (layer,) = random_layers(1, 4, 8, 3, bias=True, dtype=torch.float64, generator=g)
    w_k = layer.w_k.clone()
    w_k[:tied] = 0
    layer = layer._replace(w_k=w_k)
    x0 = torch.randn(8, generator=g, dtype=double)
    step = torch.randn(8, generator=g, dtype=double)
    return {"x0": x0, "step": step, "layer": layer}


def digits(n=4, tokens=5, base=None) -> dict:
    """Multisets of n tokens, and the base of the powers that stand for them."""
    return {"n": n, "tokens": tokens, "base": n + 1 if base is None else base}


def all_pairs(sizes=(3, 3), s=Fraction(7, 5)) -> dict:
    """Every third pair of multisets of so many out of five numbers."""
    values = (-1, Fraction(1, 2), 1, 2, 3)
    left = list(combinations_with_replacement(values, sizes[0]))
    right = list(combinations_with_replacement(values, sizes[1]))
    if sizes[0] == sizes[1]:
        pairs = list(combinations(left, 2))
    else:
        pairs = [(a, b) for a in left for b in right]
    return {"pairs": pairs[::3], "s": s}


FIVE = (Fraction(1, 2), 1, 2, Fraction(7, 2), 4)


def contexts(values=FIVE, n=4, queries=(1, 2), repeats=False, weight=2) -> dict:
    """All sequences of n of these values, seen from each query that they hold."""
    pick = combinations_with_replacement if repeats else combinations
    found = []
    for bag in pick(values, n):
        found += [(c, bag) for c in queries if c in bag]
    return {"contexts": found, "weight": weight}


ONE = (1, (1, 1, 4, 4))
TWO = (2, (Fraction(1, 2), 2, 2, Fraction(7, 2)))


def weight_of_company(weight=2) -> dict:
    """The two tokens of Proposition 16.12, and a weight."""
    return {"first": ONE, "second": TWO, "weight": weight}


def two_sets(second=NEAR) -> dict:
    """{1, 2, 5, 6}, another set, and the float next to beta*."""
    return {"first": ENDS, "second": second, "beta": BETA}


def vocabularies(draws=20_000, V=20, seed=0, together=False) -> dict:
    """Vocabularies of places uniform on [-1, 1], each by itself; or together: equal
    steps that a draw moves as a whole, each place uniform on an interval of length one.
    """
    g = torch.Generator().manual_seed(seed)
    if together:
        moved = torch.rand(draws, 1, generator=g, dtype=double) - 0.5
        z = torch.linspace(-0.5, 0.5, V, dtype=double) + moved
    else:
        z = 2 * torch.rand(draws, V, generator=g, dtype=double) - 1
    return {"z": z, "density": 1.0 if together else 0.5, "interval": (-1.0, 1.0)}


def keys_and_values(draws=4_000, V=12, seed=0, together=False) -> dict:
    """Keys, and Gaussian values of the tokens in many draws, each by itself; or
    together: a draw gives one value to all tokens.
    """
    g = torch.Generator().manual_seed(seed)
    keys = torch.randn(V, generator=g, dtype=double)
    values = torch.randn(draws, V, generator=g, dtype=double)
    if together:
        values = values[:, :1].expand(draws, V)
    return {"keys": keys, "values": values}


# --- the operator

ROWS = Case(drawn_rows)


@claim(
    "boltzmann.operator",
    cases=[ROWS, ROWS.but(n=2), ROWS.but(n=40, seed=1), ROWS.but(size=1e-3)],
    broken={"weights of other logits": {"_heat": 1.5}},
)
def operator(a: Tensor, *, _heat=1.0) -> Verdict:
    """boltz(a) is the logarithm of sum e^a minus the entropy of softmax(a), and lies at
    most omega_n below the maximum of a.

    Measured: how far the identity is missed, or how far a row (*batch, n) leaves
    [max a - omega_n, max a]; relative to 1 + max|a|.

    Claim: boltzmann.operator
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    _check_rows(a)
    a = a.detach()
    size = 1 + a.abs().amax(-1)
    p = torch.softmax(a / _heat, -1)
    average = boltzmann(a) if _heat == 1 else (p * a).sum(-1)
    entropy = -torch.special.xlogy(p, p).sum(-1)
    identity = (average - (torch.logsumexp(a, -1) - entropy)).abs()
    drop = a.amax(-1) - average
    beyond = (drop - largest_drop(a.shape[-1])).clamp(min=0)
    above = (-drop).clamp(min=0)
    worst = (identity + beyond + above) / size
    return at_most(worst.max(), 64 * EPS)


def derivatives(a: Tensor) -> tuple[Tensor, Tensor]:
    """The slope and the curvature of the Boltzmann operator in each entry of a.

    d_i boltz   = p_i (1 + a_i - boltz)
    d_i^2 boltz = p_i (1 - (1 - 2 p_i) (boltz - a_i - 1))
    """
    p = torch.softmax(a, -1)
    below = boltzmann(a).unsqueeze(-1) - a - 1
    slope = -p * below
    return slope, p * (1 - (1 - 2 * p) * below)


STAIRS = Case(stairs)


@claim(
    "boltzmann.regions",
    cases=[STAIRS, STAIRS.but(n=2), STAIRS.but(n=64)],
    broken={
        "0.9 of omega": {"_share": 0.9},
        "-1 + ln n": {"_depth": -1.0},
    },
)
def regions(a: Tensor, *, _share=1.0, _depth=3.0) -> Verdict:
    """The operator falls in every entry that lies deeper below the maximum than
    1 + omega_n, and bends down in every one deeper than 3 + ln n.

    Measured: the largest slope or curvature of such an entry of a (*batch, n), divided
    by its weight; negative is good. Both come from automatic differentiation; where
    `derivatives` says otherwise by more than 1e-10 (1 + max |a|), the difference,
    against 1e-10.

    Claim: boltzmann.regions
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    _check_rows(a)
    n = a.shape[-1]
    require(
        n <= 2000 and a.numel() * n <= 10**8,
        f"a must have at most 2000 columns and 1e8 second derivatives, got "
        f"{tuple(a.shape)}",
    )
    a = a.detach().reshape(-1, n)
    depth = a.amax(-1, keepdim=True) - a
    p = torch.softmax(a, -1)
    seen = p > 1e-200  # a slope is divided by its weight
    falls_from = 1 + _share * largest_drop(n)
    bends_from = _depth + math.log(n)
    falling = (depth > falls_from) & seen
    bending = (depth > bends_from) & seen
    require(
        falling.any() and bending.any(),
        "a has no entry deep enough below its maximum: the slope asks for more than "
        f"{falls_from:.4f}, the curvature for {bends_from:.4f}",
    )
    slope, curvature = _automatic(a)
    first, second = derivatives(a)
    off = max((slope - first).abs().max(), (curvature - second).abs().max())
    if not off <= 1e-10 * (1 + a.abs().max()):
        return at_most(off, 1e-10)
    worst = max((slope / p)[falling].max(), (curvature / p)[bending].max())
    return at_most(worst, 0)


def _automatic(a: Tensor) -> tuple[Tensor, Tensor]:
    """Slope and curvature in each entry of each row, by automatic differentiation."""
    x = a.clone().requires_grad_()
    [slope] = torch.autograd.grad(boltzmann(x).sum(), x, create_graph=True)
    columns = []
    for i in range(a.shape[-1]):
        [bend] = torch.autograd.grad(slope[:, i].sum(), x, retain_graph=True)
        columns.append(bend[:, i])
    return slope.detach(), torch.stack(columns, -1)


# --- the separation lemmas


def log_separation_bound(n: int, delta: float, spread: float, *, kind: str) -> float:
    """How far apart the Boltzmann operator keeps two different inputs, at least, as a
    natural logarithm: the bound itself may lie far below the smallest float.

    distinct: 0.9 (n - 1) delta e^(delta - rho)
    multiset: 0.9 delta e^(-rho) / (n - 1)

    The vectors have n entries each, different values are at least delta apart, and
    spread is rho. "distinct" wants no value twice in a vector.
    """
    need = needed_gap(n, kind=kind)
    require(
        need <= delta <= spread,
        f"delta must be at least {need:.4f} for n = {n} and kind {kind!r}, and spread "
        f"at least delta, got {delta:g} and {spread:g}",
    )
    bound = math.log(0.9 * delta) - spread
    if kind == "distinct":
        return bound + delta + math.log(n - 1)
    return bound - math.log(n - 1)


def log_shortage(a, b, kind: str, temperature: Number = 1) -> float:
    """ln of the bound over the certified distance; at most zero if the lemma holds."""
    rho = max(*a, *b) - min(*a, *b)
    bound = log_separation_bound(len(a), float(_delta(a, b)), float(rho), kind=kind)
    gap = boltzmann_gap(a, b, scale=1 / Fraction(temperature))
    return bound - gap.log10 * math.log(10)


FAR = Case(the_two_sequences)
LOWEST = Case(lowest_differ)
GRID = Case(grid_pair)


def to_beta_star(kind: str) -> Fraction:
    """The temperature that takes the logits of FAR next to beta*."""
    return grid_step(4, kind) / Fraction(BETA)


@claim(
    "boltzmann.lemma",
    cases=[
        FAR,
        LOWEST,
        LOWEST.but(n=4),
        LOWEST.but(n=8),
        GRID,
        GRID.but(seed=1, n=6),
        GRID.but(seed=2, n=3),
    ],
    broken={"logits next to beta*": {"_temperature": to_beta_star("distinct")}},
)
def lemma(a: Sequence, b: Sequence, *, _temperature=1) -> Verdict:
    """Two vectors without repeats, their values delta >= 2 ln n + 3 apart, have
    averages at least 0.9 (n - 1) delta e^(delta - rho) apart.

    a and b hold n >= 2 rationals or finite floats each. Measured: the natural logarithm
    of bound over distance, the distance certified.

    Claim: boltzmann.lemma
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    a, b = _check_pair(a, b, "distinct")
    return at_most(log_shortage(a, b, "distinct", _temperature), 0)


REPEATED = FAR.but(kind="multiset")
EQUAL = Case(nearly_all_equal)


@claim(
    "boltzmann.multisets",
    cases=[
        REPEATED,
        EQUAL,
        EQUAL.but(n=3),
        EQUAL.but(n=4),
        EQUAL.but(n=8),
        GRID.but(kind="multiset"),
        GRID.but(kind="multiset", seed=2, n=6),
    ],
    broken={"logits next to beta*": {"_temperature": to_beta_star("multiset")}},
)
def multisets(a: Sequence, b: Sequence, *, _temperature=1) -> Verdict:
    """Two multisets of one size, their values delta >= 3 ln n + 3 apart, have averages
    at least 0.9 delta e^-rho / (n - 1) apart.

    a and b, and what is measured, are as for the lemma; values may repeat.

    Claim: boltzmann.multisets
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    a, b = _check_pair(a, b, "multiset")
    return at_most(log_shortage(a, b, "multiset", _temperature), 0)


# --- certified gaps


def plain_difference(a, b, s: Fraction, digits: int) -> mpmath.mpf:
    """f_a(s) - f_b(s) as it is written, with so many decimal digits."""
    with mpmath.workdps(digits):
        found = []
        for tokens in (a, b):
            top = max(s * z for z in tokens)
            weights = [mpmath.exp(_mp(s * z - top)) for z in tokens]
            products = [_mp(z) * e for z, e in zip(tokens, weights)]
            found.append(mpmath.fsum(products) / mpmath.fsum(weights))
        return found[0] - found[1]


def _mp(number: Fraction) -> mpmath.mpf:
    return mpmath.mpf(number.numerator) / number.denominator


DEEP = Case(deep_pair)


@claim(
    "boltzmann.gap",
    cases=[DEEP, DEEP.but(K=5, n=3), DEEP.but(s=Fraction(1, 3)), DEEP.but(s=-2)],
    broken={"38 digits": {"_digits": 38}},
)
def gap(a: Sequence, b: Sequence, s: Number, *, _digits=None) -> Verdict:
    """The difference of two averages, over a common denominator, is a sum of one term
    for each pair of tokens; 128 bits certify a tiny gap from it.

    a and b are multisets of rationals or finite floats with different averages at s,
    which is not zero. Measured: how far the difference as it is written, with digits
    enough to hold what cancels, leaves the certified interval, relative to the gap.

    Claim: boltzmann.gap
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    a = _tokens("a", a)
    b = _tokens("b", b)
    s = _rational("s", s)
    require(s != 0, "s must not be zero: averages would be plain means")
    found = boltzmann_gap(a, b, scale=s)
    require(
        found.sign != 0,
        "a and b have equal averages at s, as proportional counts do: no gap",
    )
    largest = max(map(abs, [*a, *b]))
    whole = math.floor(max(largest, abs(s) * largest, 1))
    needed = 60 + math.ceil(abs(found.log10)) + whole.bit_length() // 3
    require(
        needed < 10**5,
        f"the gap is 10^{found.log10:.0f}: to subtract takes too many digits",
    )
    wanted = plain_difference(a, b, s, _digits or needed)
    with mpmath.workdps(60):
        outside = max(found.lower - wanted, wanted - found.upper, 0)
        return at_most(float(outside / abs(found.lower)), 1e-25)


# --- hardmax


LINE = Case(line_and_layer)


@claim(
    "boltzmann.hardmax",
    cases=[LINE, LINE.but(tied=0), LINE.but(tied=4, seed=1), LINE.but(skip=False)],
    controls=[LINE.but(second=(1, 3, 4.5, 6))],
    broken={"softmax": {"_normalizer": "softmax"}},
)
def hardmax(
    x0: Tensor,
    step: Tensor,
    layer: Layer,
    *,
    first: Sequence[Number] = ENDS,
    second: Sequence[Number] = NEAR,
    skip: bool = True,
    _normalizer="hardmax",
) -> Verdict:
    """A layer of hardmax attention gives the two end tokens of {1, 2, 5, 6} and of
    {1, 3, 4, 6}, on any line, the same outputs.

    Measured: the largest difference at an end, relative to the largest output.

    Args:
        x0, step: (d,), float64; the tokens are x0 + lambda step.
        layer: any heads, with or without biases.
        first, second: the lambda of each sequence, ascending, with equal ends; equal
            means are not asked for, and without them it is false.
        skip: with or without.

    Claim: boltzmann.hardmax
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    _check_floats("x0", x0, 1)
    _check_floats("step", step, 1)
    require(
        x0.shape == step.shape and step.any(),
        "step must be as long as x0 and not zero: the tokens would all be one",
    )
    first = _check_places("first", first)
    second = _check_places("second", second)
    require(
        (first[0], first[-1], len(first)) == (second[0], second[-1], len(second)),
        "first and second must be as many and share both ends: "
        f"got {first} and {second}",
    )
    outputs = []
    for places in (first, second):
        x = x0 + torch.tensor(places, dtype=double)[:, None] * step
        reach = (x[-1] - x[0]).abs().max() / x.abs().max()
        require(
            reach >= 1e-6,
            "x0 lies so far off that rounding would hide where on the line a token is",
        )
        y = forward(x, [layer], skip=skip, normalizer=_normalizer)
        outputs.append(y[[0, -1]].detach())
    finite(**{"the output of layer": torch.stack(outputs)})
    difference = (outputs[0] - outputs[1]).abs().max()
    size = outputs[0].abs().max()
    return at_most(difference / size if difference else 0, 1e-12)


def _check_places(name: str, places) -> list[float]:
    """Two or more ascending numbers."""
    places = [float(z) for z in _tokens(name, places)]
    ascending = all(x < y for x, y in pairwise(places))
    require(
        len(places) >= 2 and ascending,
        f"{name} must be two or more ascending places, got {places}",
    )
    return places


BASE = Case(digits)


@claim(
    "boltzmann.before",
    cases=[
        BASE,
        BASE.but(n=1),
        BASE.but(n=2, tokens=4),
        BASE.but(n=3, tokens=4),
        BASE.but(skip=True),
    ],
    controls=[BASE.but(base=3)],
)
def before(n: int, tokens: int, base: int, *, skip: bool = False) -> Verdict:
    """If a network sends token k to (n + 1)^k before a hardmax layer whose keys all
    tie, the layer tells all multisets of n tokens apart.

    Measured: pairs (query, multiset) that share an output with another multiset, by the
    layer itself in fractions.

    Args:
        n: tokens of a multiset.
        tokens: size of the vocabulary.
        base: n + 1; others are not refused.
        skip: with it, outputs at one and the same query token are compared.

    Claim: boltzmann.before
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    sizes(1, n=n, tokens=tokens, base=base)
    n, tokens, base = int(n), int(tokens), int(base)
    require(
        max(n, tokens) <= 100 and math.comb(n + tokens - 1, n) <= 20_000,
        f"n = {n} of {tokens} tokens: too many multisets to list, at most 20,000",
    )
    head = ([[1]], [[0]], [[1]], [[1]])
    seen = {}
    for bag in combinations_with_replacement(range(tokens), n):
        rows = [[base**k] for k in bag]
        for k, [out] in zip(bag, hardmax_layer(rows, [head])):
            key = (k, out) if skip else out - base**k
            seen.setdefault(key, set()).add(bag)
    return at_most(sum(len(bags) - 1 for bags in seen.values()), 0)


# --- exactness

PAIRS = Case(all_pairs)


@claim(
    "boltzmann.exact",
    cases=[PAIRS, PAIRS.but(s=Fraction(-1, 50)), PAIRS.but(sizes=(2, 4), s=1)],
    controls=[PAIRS.but(s=0)],
)
def exact(pairs: Sequence, s: Number) -> Verdict:
    """At a rational s that is not zero, two softmax averages are equal if and only if
    the counts of the two multisets are proportional.

    pairs are pairs of multisets, lists of rationals or finite floats; at s = 0, which
    is not refused, it is false. Measured: pairs of which it is not true. An interval
    that excludes zero certifies each inequality; equality is decided in fractions.

    Claim: boltzmann.exact
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    is_list(pairs=pairs)
    wrong = 0
    for pair in pairs:
        require(
            isinstance(pair, list | tuple) and len(pair) == 2,
            f"each of pairs must be two multisets, got {pair!r}",
        )
        equal = boltzmann_gap(*pair, scale=s, bits=64).sign == 0
        wrong += equal != _proportional(*pair)
    return at_most(wrong, 0)


def _proportional(a, b) -> bool:
    """Whether the counts of two multisets are proportional."""
    a = Counter(_tokens("a", a))
    b = Counter(_tokens("b", b))
    return a.keys() == b.keys() and len({Fraction(a[z], b[z]) for z in a}) == 1


TOKENS = Case(contexts)


@claim(
    "boltzmann.ids",
    cases=[
        TOKENS,
        TOKENS.but(values=(-3, -1, 1, 2, 3), n=2, queries=(-1, 1, 3), weight=-1),
        TOKENS.but(n=3, queries=FIVE[:3]),
    ],
    controls=[TOKENS.but(repeats=True)],
)
def ids(contexts: Sequence, weight: Number) -> Verdict:
    """Different pairs of a token and its set have different ids z_c + w f at every
    algebraic beta that is not zero.

    Measured: pairs of contexts whose ids agree at every beta, decided in fractions.

    Args:
        contexts: different pairs (z_c, [z_1, ..., z_n]) of nonzero rationals, n >= 2;
            that no sequence repeats a token is not asked for.
        weight: w, not zero.

    Claim: boltzmann.ids
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    is_list(contexts=contexts)
    require(len(contexts) >= 2, f"contexts must be two or more, got {len(contexts)}")
    w = _rational("weight", weight)
    require(w != 0, "weight must not be zero: the id would be the token alone")
    known = set()
    for context in contexts:
        query, tokens = _context("each of contexts", context)
        require(
            query in tokens and 0 not in tokens and len(tokens) >= 2,
            "each of contexts must hold its query and two tokens or more, none of them "
            f"zero, got {context!r}",
        )
        known.add((query, tuple(sorted(tokens))))
    again = len(contexts) - len(known)
    require(again == 0, f"contexts must differ, {again} stand there twice")
    same = 0
    for one, two in combinations(contexts, 2):
        same += not context_terms(one, two, weight=w)
    return at_most(same, 0)


WEIGHT = Case(weight_of_company)


@claim(
    "boltzmann.repeated",
    cases=[WEIGHT],
    controls=[WEIGHT.but(weight=Fraction(3, 2))],
)
def repeated(first, second, weight: Number) -> Verdict:
    """For w = 2, token 1 in {1, 1, 4, 4} and token 2 in {1/2, 2, 2, 7/2} have equal ids
    at every beta.

    first and second are pairs (z_c, [z_1, ..., z_n]) of nonzero rationals. Measured:
    terms that are left in the difference of the two ids, in fractions, and the largest
    difference in floats at four beta, if that exceeds rounding.

    Claim: boltzmann.repeated
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    w = _rational("weight", weight)
    reach = 0.0
    for name, context in (("first", first), ("second", second)):
        query, tokens = _context(name, context)
        require(query != 0, f"the query of {name} must not be zero")
        reach = max(reach, (1 + abs(float(w))) * max(abs(float(z)) for z in tokens))
    left = len(context_terms(first, second, weight=w))
    apart = 0.0
    for beta in (-2.7, 0.1, 1.0, 3.0):
        t, t_2 = (_float_id(*context, w, beta) for context in (first, second))
        apart = max(apart, abs(t - t_2))
    return at_most(left + (apart if apart > 1e-13 * reach else 0), 0)


def _float_id(query, tokens, weight, beta: float) -> float:
    """z_c + w f(beta z_c), by the kernel."""
    z = torch.tensor([float(v) for v in tokens], dtype=double)
    s = beta * float(query)
    return float(query) + float(weight) * float(boltzmann(s * z)) / s


MISS = Case(two_sets)


@claim(
    "boltzmann.near-miss",
    cases=[MISS],
    controls=[MISS.but(second=(1, 3, 4, 7))],
)
def near_miss(first: Sequence, second: Sequence, beta: float) -> Verdict:
    """{1, 2, 5, 6} and {1, 3, 4, 6}, seen from 1, have equal averages at exactly one
    positive beta*, which no float equals.

    beta is the float next to beta*. Measured: the certified distance of the averages
    there: tiny, and not zero. Infinity if it is tiny and changes no sign between the
    floats on either side, as at a large beta.

    Claim: boltzmann.near-miss
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    numbers(beta=beta)
    require(beta > 1e-6, f"beta must be positive, above 1e-6, got {beta}")
    here = boltzmann_gap(first, second, scale=beta)
    require(
        here.sign != 0,
        "first and second have equal averages at beta, as the same sets do",
    )
    sides = []
    for end in (0.0, math.inf):
        s = math.nextafter(beta, end)
        sides.append(boltzmann_gap(first, second, scale=s).sign)
    value = 10.0**here.log10
    if value <= 1e-16 and sides[0] == sides[1]:
        value = math.inf
    return at_most(value, 1e-16)


# --- the gap of a typical vocabulary


def averages(z: Tensor, tokens: Sequence[int], s: Tensor) -> Tensor:
    """f(s) of the same token numbers in each vocabulary of a batch, by the kernel; a
    token at zero hears the mean, as a tiny s does.
    """
    s = s.where(s.abs() > 1e-200, 1e-200)
    return boltzmann(s[:, None] * z[:, list(tokens)]) / s


PLACES = Case(
    vocabularies,
    called_with={
        "first": (0, 1, 18, 19),
        "second": (0, 2, 17, 19),
        "beta": 1e-3,
        "eps": 1e-2,
    },
)


@claim(
    "boltzmann.typical",
    cases=[
        PLACES,
        PLACES.but(beta=0.125, seed=1),
        PLACES.but(beta=-0.24, seed=2, eps=1e-3),
        PLACES.but(first=(0, 1, 1, 2), second=(0, 1, 2, 2), beta=0.1),
        PLACES.but(first=(0, 0, 3), second=(0, 3, 3), beta=0.05),
    ],
    controls=[PLACES.but(together=True)],
)
def typical(
    z: Tensor,
    density: float,
    interval: tuple[float, float],
    first: Sequence[int],
    second: Sequence[int],
    beta: float,
    eps: float,
    *,
    query: int = 0,
) -> Verdict:
    """For random places, two different multisets of n tokens have averages within eps
    with a probability of at most 2 M n eps e^sigma / (1 - sigma), or e^(3 sigma).

    Measured: the share of the vocabularies in which they are within eps. The bound
    allows five standard deviations more, so one true statement in three million is
    refused.

    Args:
        z: (draws, V), float64, the places of each vocabulary; that they are independent
            cannot be asked for.
        density: M, which cannot be below 1 / rho.
        interval: its two ends.
        first, second: numbers of the tokens, as many in both.
        beta: inverse temperature.
        eps: the distance.
        query: number of a token that both hold.

    Claim: boltzmann.typical
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    _check_draws("z", z)
    first, second = _check_multisets(first, second, query, z.shape[1])
    is_list(interval=interval)
    require(len(interval) == 2, f"interval must be its two ends, got {interval!r}")
    low, high = interval
    numbers(beta=beta, density=density, low=low, high=high)
    require(
        low < high and (z >= low).all() and (z <= high).all(),
        f"interval must hold all of z, got {interval!r}",
    )
    require(
        density * (high - low) >= 1 - 1e-9,
        f"density must be at least 1 / rho = {1 / (high - low):g}, as every density on "
        f"an interval is somewhere, got {density}",
    )
    sigma = abs(beta) * max(abs(low), abs(high)) * (high - low)
    same = set(first) == set(second)
    bound = typical_bound(len(first), sigma, density, eps, repeats=same)
    s = beta * z[:, query]
    gaps = averages(z, first, s) - averages(z, second, s)
    share = float((gaps.abs() <= eps).double().mean())
    allowance = 5 * math.sqrt(min(bound, 1) / len(z))
    return at_most(share, bound + allowance)


def value_averages(
    keys: Tensor, values: Tensor, tokens: Sequence[int], beta: float, query: int
) -> Tensor:
    """What the query hears in each draw, from a head that reads keys along one axis and
    values along the other.
    """
    index = list(tokens)
    x = torch.stack([keys[index].expand(len(values), -1), values[:, index]], dim=-1)
    key, value = torch.eye(2, dtype=double)[:, None, :, None]
    head = Layer(beta * key, key, value, value.mT)
    return forward(x, [head])[:, index.index(query), 1]


def weight_difference(keys: Tensor, first, second, beta: float, query: int) -> Tensor:
    """p - p' over the whole vocabulary: how much more a token weighs in the first
    multiset than in the second.
    """
    total = torch.zeros_like(keys)
    for sign, tokens in ((1, first), (-1, second)):
        index = torch.tensor(tokens)
        weights = torch.softmax(beta * keys[query] * keys[index], 0)
        total.index_add_(0, index, sign * weights)
    return total


KEYS = Case(
    keys_and_values,
    called_with={"first": (0, 1, 2, 3), "second": (0, 1, 2, 4), "beta": 1.0},
)


@claim(
    "boltzmann.any-temperature",
    cases=[
        KEYS,
        KEYS.but(beta=8.0, seed=1),
        KEYS.but(beta=-3.0, seed=2),
        KEYS.but(first=(0, 1, 1), second=(0, 0, 1), beta=0.5),
    ],
    controls=[KEYS.but(together=True)],
)
def any_temperature(
    keys: Tensor,
    values: Tensor,
    first: Sequence[int],
    second: Sequence[int],
    beta: float,
    *,
    query: int = 0,
) -> Verdict:
    """Given the keys, at every beta, the difference of two averages of Gaussian values
    is normal with standard deviation |p - p'|, which is at least e^(-2 |s| rho) / n.

    Measured: the largest distance of the distribution of (f - f') / |p - p'| over the
    draws from the normal one (Kolmogorov and Smirnov), times the root of their number;
    above 2.5 once in 100,000 times. Infinity if |p - p'| is below its bound.

    Args:
        keys: (V,), float64.
        values: (draws, V), float64; that they are independent and normal cannot be
            asked for.
        first, second: numbers of the tokens, as many in both.
        beta: inverse temperature.
        query: number of a token that both hold.

    Claim: boltzmann.any-temperature
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    _check_floats("keys", keys, 1)
    _check_draws("values", values)
    require(
        values.shape[1] == len(keys),
        f"values must be (draws, {len(keys)}) to fit keys, got {tuple(values.shape)}",
    )
    first, second = _check_multisets(first, second, query, len(keys))
    numbers(beta=beta)
    keys, values = keys.detach(), values.detach()
    seen = keys[[*first, *second]]
    s = abs(float(beta * keys[query]))
    size = float(weight_difference(keys, first, second, beta, query).norm())
    require(
        size > 1e5 * EPS * (1 + s * float(seen.abs().max())),
        f"beta = {beta} is so large for these keys that no float tells the weights of "
        "first and second apart",
    )
    least = math.exp(-2 * s * float(seen.max() - seen.min())) / len(first)
    if size < least * (1 - 1e-9):
        return at_most(math.inf, 2.5)
    heard = [value_averages(keys, values, t, beta, query) for t in (first, second)]
    return at_most(_from_normal((heard[0] - heard[1]) / size), 2.5)


def _from_normal(draws: Tensor) -> float:
    """The largest distance of the distribution of draws from the standard normal one,
    times the root of their number.
    """
    count = len(draws)
    normal = torch.special.ndtr(draws.sort().values)
    ranks = torch.arange(count, dtype=double)
    above = ((ranks + 1) / count - normal).max()
    below = (normal - ranks / count).max()
    return float(max(above, below)) * math.sqrt(count)
