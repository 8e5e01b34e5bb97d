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
from attnlib.attention import Layer, forward, random_layers
from attnlib.certify import (
    Verdict,
    at_most,
    boltzmann_gap,
    context_gap,
    context_terms,
    hardmax_layer,
)
from attnlib.certify.boltzmann import _context, _rational, _tokens
from attnlib.memorize.averages import boltzmann, needed_gap

double = torch.float64
EPS = torch.finfo(double).eps
ENDS = (1, 2, 5, 6)
NEAR = (1, 3, 4, 6)
BETA = math.acosh(1 + 1 / math.sqrt(2))  # the float next to beta* of Proposition 14.12
Number = int | float | Fraction
FAR_OFF = 1e6  # from zero: beyond, rounding hides what a row of logits says
COUNTED = 1_000_000  # exact operations, about half a minute


def largest_drop(n: int) -> float:
    """omega_n, by how much the Boltzmann operator of n entries can fall below their
    maximum: omega e^omega = (n - 1) / e.
    """
    sizes(2, n=n)
    n = _float("n", n)
    return float(mpmath.lambertw((n - 1) / math.e).real)


def typical_bound(
    n: int, sigma: float, density: float, eps: float, *, repeats: bool = False
) -> float:
    """What Theorem 14.13 allows for the chance that two averages are within eps.

        2 M n eps e^sigma / (1 - sigma),   with e^(3 sigma) if tokens repeat

    Args:
        n: tokens of each sequence.
        sigma: |beta| max|z| rho, below 1.
        density: M, the largest density of a place.
        eps: the distance.
        repeats: the two multisets may hold the same tokens, some more or less often.

    Returns:
        a float, which may exceed one.

    Raises:
        ValueError: for sizes out of range.

    Cost: O(1).
    Source: derived on the page.
    Claim: boltzmann.typical
    """
    sizes(1, n=n)
    is_a(bool, repeats=repeats)
    n = _float("n", n)
    sigma = _float("sigma", sigma)
    density = _float("density", density)
    eps = _float("eps", eps)
    require(
        0 <= sigma < 1,
        f"sigma must be at least 0 and below 1, got {sigma}: beyond 1 an average may "
        "fall while a token rises, and Theorem 14.13 says nothing",
    )
    require(
        density > 0 and eps > 0,
        f"density and eps must be positive, got {density} and {eps}",
    )
    power = 3 * sigma if repeats else sigma
    return 2 * density * n * eps * math.exp(power) / (1 - sigma)


# --- what is asked of the objects


def _float(name: str, number) -> float:
    """A real number of at most 1e300, as a float."""
    numbers(**{name: number})
    require(abs(number) <= 1e300, f"{name} must be a number of at most 1e300")
    return float(number)


def _check_rows(a) -> None:
    """Rows of at least two finite float64 entries near zero."""
    is_a(Tensor, a=a)
    is_tensor("a", a)
    require(a.dtype == double, f"a must be float64, got {a.dtype}: cast it first")
    got = tuple(a.shape)
    require(
        a.dim() >= 1 and got[-1] >= 2 and a.numel() > 0,
        f"a must be (*batch, n) with n >= 2 and at least one row, got {got}",
    )
    finite(a=a)
    largest = float(a.detach().abs().max())
    require(
        largest <= FAR_OFF,
        f"a must hold entries of at most {FAR_OFF:g}, got {largest:g}: rounding would "
        "hide the rest; subtract the maximum of each row",
    )


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
            repeats = len(values) - len(set(values))
            require(
                repeats == 0,
                f"{name} must hold no value twice, {repeats} repeat: Theorem 14.5 "
                "is the one for multisets",
            )
    delta = float(_delta(a, b))
    need = needed_gap(len(a), kind=kind)
    require(
        delta >= need,
        f"different values of a and b must be at least {need:.4f} apart for n = "
        f"{len(a)}, got {delta:.4f}",
    )
    return a, b


def _delta(a, b) -> Fraction:
    """The least distance of two different values."""
    return min(y - x for x, y in pairwise(sorted({*a, *b})))


def _check_multiset(name: str, indices, count: int) -> list[int]:
    """A list of token numbers below count."""
    is_list(**{name: indices})
    for k in indices:
        sizes(0, **{f"each token of {name}": k})
        require(k < count, f"{name} holds token {k}, of a vocabulary of {count}")
    return list(indices)


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
    """All pairs of multisets of so many out of five numbers."""
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
    """The two tokens of Proposition 14.11, and a weight."""
    return {"first": ONE, "second": TWO, "weight": weight}


def two_sets(second=NEAR) -> dict:
    """{1, 2, 5, 6}, another set, and the float next to beta*."""
    return {"first": ENDS, "second": second, "beta": BETA}


def vocabularies(draws=20_000, V=20, seed=0, grid=False) -> dict:
    """Vocabularies of places uniform on [-1, 1]; with grid, the same equal steps in
    every draw, which no density bounds.
    """
    g = torch.Generator().manual_seed(seed)
    z = 2 * torch.rand(draws, V, generator=g, dtype=double) - 1
    if grid:
        z = torch.linspace(-1, 1, V, dtype=double).expand(draws, V)
    return {"z": z, "density": 0.5, "interval": (-1.0, 1.0)}


def keys_and_values(draws=4_000, V=12, seed=0, still=False) -> dict:
    """Keys, and Gaussian values of the tokens in many draws; with still, one draw
    stands in all rows.
    """
    g = torch.Generator().manual_seed(seed)
    keys = torch.randn(V, generator=g, dtype=double)
    values = torch.randn(draws, V, generator=g, dtype=double)
    if still:
        values = values[:1].expand(draws, V)
    return {"keys": keys, "values": values}


# --- the operator


def the_drop_is_attained() -> Verdict:
    """The drop is W((n - 1) / e), with W the function of Lambert: 0.2785 for two
    entries, 0.9731 for eight.

    Measured: how far the row that was put there is from these numbers.
    """
    worst = 0.0
    for n, law in ((2, 0.278465), (8, 0.973139), (64, 2.307130)):
        row = drawn_rows(n)["a"][0]
        drop = float(row.max() - boltzmann(row))
        worst = max(worst, abs(drop - law))
    return at_most(worst, 1e-6)


ROWS = Case(drawn_rows)


@claim(
    "boltzmann.operator",
    cases=[ROWS, ROWS.but(n=2), ROWS.but(n=40, seed=1), ROWS.but(size=1e-3)],
    controls=[ROWS.but(heat=1.5)],
    witness=the_drop_is_attained,
)
def operator(a: Tensor, *, heat: float = 1.0) -> Verdict:
    """boltz(a) is the logarithm of sum e^a minus the entropy of softmax(a), and lies at
    most omega_n below the maximum of a.

    Hypothesis: the weights are the softmax of the same logits.
    Measured: how far the identity is missed, or how far a row leaves [max a - omega_n,
    max a]; relative to 1 + max|a|.

    Args:
        a: (*batch, n), n >= 2, float64.
        heat: the control divides the logits of the weights by this number, and so
            averages with the weights of other logits.

    Returns:
        Verdict; the tolerance is 64 eps.

    Claim: boltzmann.operator
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    _check_rows(a)
    heat = _float("heat", heat)
    require(heat > 0, f"heat must be positive, got {heat}")
    a = a.detach()
    size = 1 + a.abs().amax(-1)
    p = torch.softmax(a / heat, -1)
    average = boltzmann(a) if heat == 1 else (p * a).sum(-1)
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


def slope_on_either_side() -> Verdict:
    """Of 0, -1, -5 the second entry has a positive slope and the third a negative one:
    p = (0.7275, 0.2676, 0.0049) and boltz = -0.2921 by hand.

    Measured: how far the two slopes are from these numbers.
    """
    a = torch.tensor([0.0, -1.0, -5.0], dtype=double)
    first, _ = derivatives(a)
    found = first[1:]
    wanted = torch.tensor([0.267624 * 0.292134, 0.004902 * (-4 + 0.292134)])
    return at_most((found - wanted).abs().max(), 1e-5)


STAIRS = Case(stairs)


@claim(
    "boltzmann.regions",
    cases=[STAIRS, STAIRS.but(n=2), STAIRS.but(n=64)],
    controls=[STAIRS.but(slope_share=0.9), STAIRS.but(curvature_depth=-1.0)],
    witness=slope_on_either_side,
)
def regions(
    a: Tensor, *, slope_share: float = 1.0, curvature_depth: float = 3.0
) -> Verdict:
    """The operator falls in every entry that lies deeper below the maximum than
    1 + omega_n, and bends down in every one deeper than 3 + ln n.

    Measured: the largest slope or curvature of such an entry, divided by its weight;
    negative is good. Both come from automatic differentiation of the formula; where
    `derivatives` says otherwise by more than 1e-10 (1 + max |a|), the
    difference, against 1e-10.

    Args:
        a: (*batch, n), n >= 2, float64; some entry deep enough for each law.
        slope_share: the control takes 1 + slope_share omega_n for the slope.
        curvature_depth: the control takes this in place of 3 for the curvature.

    Returns:
        Verdict.

    Claim: boltzmann.regions
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    _check_rows(a)
    slope_share = _float("slope_share", slope_share)
    curvature_depth = _float("curvature_depth", curvature_depth)
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
    falling = (depth > 1 + slope_share * largest_drop(n)) & seen
    bending = (depth > curvature_depth + math.log(n)) & seen
    require(
        bool(falling.any() and bending.any()),
        "a has no entry deep enough below its maximum: the slope asks for more than "
        f"{1 + slope_share * largest_drop(n):.4f}, the curvature for "
        f"{curvature_depth + math.log(n):.4f}",
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
    paper:    (ln n)^2 e^(-2 r)   with r = rho / 2, its smallest value

    Args:
        n: entries of each vector, at least 2.
        delta: different values are at least so far apart; at least needed_gap.
        spread: rho, the largest value minus the smallest, over both vectors.
        kind: "distinct" wants no value twice in a vector; if values repeat, "multiset"
            is the one that is proved; "paper" is Lemma 1 of Kajitsuka and Sato 2024,
            recalled.

    Returns:
        the logarithm.
    """
    need = needed_gap(n, kind=kind)
    require(
        need <= delta <= spread,
        f"delta must be at least {need:.4f} for n = {n} and kind {kind!r}, and spread "
        f"at least delta, got {delta:g} and {spread:g}",
    )
    if kind == "paper":
        return 2 * math.log(math.log(n)) - spread
    bound = math.log(0.9 * delta) - spread
    if kind == "distinct":
        return bound + delta + math.log(n - 1)
    return bound - math.log(n - 1)


def log_shortage(a, b, kind: str, temperature: Number) -> float:
    """ln of the bound over the certified distance; at most zero if the lemma holds."""
    delta = _delta(a, b)
    rho = max(*a, *b) - min(*a, *b)
    bound = log_separation_bound(len(a), float(delta), float(rho), kind=kind)
    gap = boltzmann_gap(a, b, scale=1 / _rational("temperature", temperature))
    return bound - gap.log10 * math.log(10)


def _positive(temperature) -> None:
    _rational("temperature", temperature)
    require(temperature > 0, f"temperature must be positive, got {temperature}")


def distinct_is_nearly_attained() -> Verdict:
    """0, -delta and 0, -2 delta are 1.0698 times as far apart as the bound says.

    By hand: delta / (e^delta + 1) - 2 delta / (e^(2 delta) + 1) over 0.9 delta
    e^-delta. And the bound is more than n^2 times (ln n)^2 e^-rho, the recalled one.

    Measured: how far the ratio is from that; infinity if a recalled bound is larger.
    """
    for n in (2, 3, 8, 64):
        delta = needed_gap(n)
        ours = log_separation_bound(n, delta, n * delta, kind="distinct")
        recalled = log_separation_bound(n, delta, n * delta, kind="paper")
        if not ours - recalled > math.log(n * n):
            return at_most(math.inf, 2e-4)
    step = grid_step(2, "distinct")
    shortage = log_shortage([0, -step], [0, -2 * step], "distinct", 1)
    return at_most(abs(math.exp(-shortage) - 1.0698), 2e-4)


FAR = Case(the_two_sequences)
LOWEST = Case(lowest_differ)
GRID = Case(grid_pair)
HOT = grid_step(4, "distinct") / Fraction(BETA)


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
    controls=[FAR.but(temperature=HOT)],
    witness=distinct_is_nearly_attained,
)
def lemma(a: Sequence, b: Sequence, *, temperature: Number = 1) -> Verdict:
    """If no value repeats in a vector, and different values of both are delta >= 2 ln n
    + 3 apart, then |boltz(a) - boltz(b)| >= 0.9 (n - 1) delta e^(delta - rho).

    Hypothesis: a is no permutation of b.
    Measured: the natural logarithm of bound over distance, the distance certified.

    Args:
        a, b: n >= 2 rationals or finite floats each, none twice in one.
        temperature: the control divides all logits by this number, after they were
            found far enough apart.

    Returns:
        Verdict.

    Claim: boltzmann.lemma
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    a, b = _check_pair(a, b, "distinct")
    _positive(temperature)
    return at_most(log_shortage(a, b, "distinct", temperature), 0)


def multisets_are_nearly_attained() -> Verdict:
    """n equal values, and one of them delta lower, are nearly as near as the bound.

    By hand they are delta / (1 + (n - 1) e^delta) apart: 1.1042, 1.1101, 1.1108 and
    1.1111 times the bound for n = 2, 3, 4 and 8.

    Measured: how far a ratio is from that.
    """
    worst = 0.0
    for n, ratio in ((2, 1.1042), (3, 1.1101), (4, 1.1108), (8, 1.1111)):
        shortage = log_shortage(**nearly_all_equal(n), kind="multiset", temperature=1)
        worst = max(worst, abs(math.exp(-shortage) - ratio))
    return at_most(worst, 2e-4)


EQUAL = Case(nearly_all_equal)


@claim(
    "boltzmann.multisets",
    cases=[
        FAR.but(kind="multiset"),
        EQUAL,
        EQUAL.but(n=3),
        EQUAL.but(n=4),
        EQUAL.but(n=8),
        GRID.but(kind="multiset"),
        GRID.but(kind="multiset", seed=2, n=6),
    ],
    controls=[
        FAR.but(kind="multiset", temperature=grid_step(4, "multiset") / Fraction(BETA))
    ],
    witness=multisets_are_nearly_attained,
)
def multisets(a: Sequence, b: Sequence, *, temperature: Number = 1) -> Verdict:
    """If different values are delta >= 3 ln n + 3 apart, then |boltz(a) - boltz(b)| >=
    0.9 delta e^-rho / (n - 1) for different multisets a and b of one size.

    Measured: as for the lemma.

    Args:
        a, b: n >= 2 rationals or finite floats each; values may repeat.
        temperature: the control divides all logits by this number, after they were
            found far enough apart.

    Returns:
        Verdict.

    Claim: boltzmann.multisets
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    a, b = _check_pair(a, b, "multiset")
    _positive(temperature)
    return at_most(log_shortage(a, b, "multiset", temperature), 0)


# --- certified gaps


def plain_difference(a, b, s, digits: int):
    """f_a(s) - f_b(s) as it is written, with so many decimal digits."""
    with mpmath.workdps(digits):
        found = []
        for tokens in (a, b):
            top = max(s * z for z in tokens)
            weights = [mpmath.exp(_mp(s * z - top)) for z in tokens]
            products = [_mp(z) * e for z, e in zip(tokens, weights)]
            found.append(mpmath.fsum(products) / mpmath.fsum(weights))
        return found[0] - found[1]


def _mp(number: Fraction):
    return mpmath.mpf(number.numerator) / number.denominator


def the_averages_are_so_near() -> Verdict:
    """Eight tokens, four a sequence: 128 bits put the two averages between 10^-77512
    and 10^-77511 apart.

    Measured: how far the logarithm is from -77511.5.
    """
    gap = boltzmann_gap(**_scaled(deep_pair(K=8, n=4)))
    return at_most(abs(gap.log10 + 77511.5), 0.5)


def _scaled(pair: dict) -> dict:
    return {"a": pair["a"], "b": pair["b"], "scale": pair["s"]}


DEEP = Case(deep_pair)


@claim(
    "boltzmann.gap",
    cases=[DEEP, DEEP.but(K=5, n=3), DEEP.but(s=Fraction(1, 3)), DEEP.but(s=-2)],
    controls=[DEEP.but(digits=38)],
    witness=the_averages_are_so_near,
)
def gap(a: Sequence, b: Sequence, s: Number, *, digits: int | None = None) -> Verdict:
    """The difference of two averages, over a common denominator, is a sum of one term
    for each pair of tokens; 128 bits certify a tiny gap from it.

    Measured: how far the difference as it is written, with digits enough to hold what
    cancels, leaves the interval certified with 128 bits, relative to the gap.

    Args:
        a, b: rationals or finite floats, multisets with different averages at s.
        s: a number, not zero.
        digits: the control subtracts with so many decimal digits; 38 are 128 bits.

    Returns:
        Verdict; the tolerance is 1e-25.

    Claim: boltzmann.gap
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    a = _tokens("a", a)
    b = _tokens("b", b)
    s = _rational("s", s)
    require(s != 0, "s must not be zero: averages would be plain means")
    found = _narrow_gap(a, b, s)
    require(
        found.sign != 0,
        "a and b have equal averages at s, as proportional counts do: no gap",
    )
    if digits is None:
        size = max(map(abs, [*a, *b]))
        whole = math.floor(max(size, abs(s) * size, 1))
        digits = 60 + math.ceil(abs(found.log10)) + whole.bit_length() // 3
    sizes(1, digits=digits)
    require(
        digits < 10**5,
        f"the gap is 10^{found.log10:.0f}: to subtract takes too many digits",
    )
    wanted = plain_difference(a, b, s, digits)
    with mpmath.workdps(60):
        scale = abs(found.lower)
        error = max(abs(found.lower - wanted), abs(found.upper - wanted)) / scale
        return at_most(float(error), 1e-25)


def _narrow_gap(a, b, s):
    """The certified gap, with more than 128 bits where those say less than 26 digits of
    it, as where s is tiny.
    """
    bits = 128
    while True:
        found = boltzmann_gap(a, b, scale=s, bits=bits)
        with mpmath.workprec(bits):
            width = found.upper - found.lower
            if width <= abs(found.lower) * mpmath.mpf(10) ** -26:
                return found
        bits *= 2


# --- hardmax


def draw_heads(seed: int, d: int = 3) -> list:
    """One to three heads of small integers; in one of four all scores tie."""
    g = torch.Generator().manual_seed(seed)

    def matrix(rows, columns):
        return torch.randint(-3, 4, (rows, columns), generator=g).tolist()

    heads = []
    for _ in range(1 + seed % 3):
        keys = [[0, 0]] * d if seed % 4 == 0 else matrix(d, 2)
        heads.append((matrix(d, 2), keys, matrix(d, 2), matrix(2, d)))
    return heads


def exact_differences(first, second, nets: int) -> int:
    """Layers of integers, in Fractions, that give an end of the two sequences different
    outputs.
    """
    apart = 0
    for seed in range(nets):
        heads = draw_heads(seed)
        x = [[t, 2 - t, 3 * t] for t in first]
        y = [[t, 2 - t, 3 * t] for t in second]
        u = hardmax_layer(x, heads)
        v = hardmax_layer(y, heads)
        apart += u[0] != v[0] or u[-1] != v[-1]
    return apart


def exactly_equal_in_integers() -> Verdict:
    """In fractions: of 60 layers of integers, none tells {1, 2, 5, 6} from {1, 3, 4, 6}
    at its ends. With unequal means, {1, 2, 4} and {1, 3, 4}, some layer does.

    Measured: layers that do, or 1 if none does on the second pair.
    """
    if exact_differences((1, 2, 4), (1, 3, 4), 20) == 0:
        return at_most(1, 0)
    return at_most(exact_differences(ENDS, NEAR, 60), 0)


LINE = Case(line_and_layer)


@claim(
    "boltzmann.hardmax",
    cases=[LINE, LINE.but(tied=0), LINE.but(tied=4, seed=1), LINE.but(skip=False)],
    controls=[LINE.but(normalizer="softmax"), LINE.but(second=(1, 3, 4.5, 6))],
    witness=exactly_equal_in_integers,
)
def hardmax(
    x0: Tensor,
    step: Tensor,
    layer: Layer,
    *,
    first: Sequence[Number] = ENDS,
    second: Sequence[Number] = NEAR,
    skip: bool = True,
    normalizer: str = "hardmax",
) -> Verdict:
    """A layer of hardmax attention gives the two end tokens of {1, 2, 5, 6} and of
    {1, 3, 4, 6}, on any line, the same outputs.

    Hypotheses: equal ends and equal means, ties averaged, no mask. Only the ends are
    asked for; unequal means are a control.
    Measured: the largest difference at an end, relative to the largest output.

    Args:
        x0, step: (d,), float64; the tokens are x0 + lambda step, and step is not zero.
        layer: any heads, with or without biases.
        first, second: the lambda of each sequence, ascending.
        skip: with or without.
        normalizer: "hardmax"; the control takes "softmax".

    Returns:
        Verdict; the tolerance is 1e-12.

    Claim: boltzmann.hardmax
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    one_of(["hardmax", "softmax"], normalizer=normalizer)
    _check_line(x0, step)
    first = _check_places("first", first)
    second = _check_places("second", second)
    require(
        (first[0], first[-1], len(first)) == (second[0], second[-1], len(second)),
        "first and second must be as many and share both ends: "
        f"got {first} and {second}",
    )
    x0, step = x0.detach(), step.detach()
    _check_sizes(x0, step, first, second)
    first = list(map(float, first))
    second = list(map(float, second))
    outputs = []
    for places in (first, second):
        x = x0 + torch.tensor(places, dtype=double)[:, None] * step
        y = forward(x, [layer], skip=skip, normalizer=normalizer)
        outputs.append(y[[0, -1]])
    difference = (outputs[0] - outputs[1]).detach().abs().max()
    size = outputs[0].detach().abs().max()
    finite(**{"the output of layer": torch.stack(outputs)})
    return at_most(difference / size if difference else 0, 1e-12)


def _check_line(x0, step) -> None:
    """Two vectors of one size in float64, the second not zero."""
    for name, vector in (("x0", x0), ("step", step)):
        is_a(Tensor, **{name: vector})
        is_tensor(name, vector)
        require(
            vector.dtype == double and vector.dim() == 1,
            f"{name} must be a float64 vector (d,), got {vector.dtype} "
            f"{tuple(vector.shape)}",
        )
        finite(**{name: vector})
    require(
        x0.shape == step.shape and bool(step.any()),
        "step must be as long as x0 and not zero: the tokens would all be one",
    )


def _check_places(name: str, places) -> list[Fraction]:
    """Ascending places, two or more."""
    places = _tokens(name, places)
    require(
        max(map(abs, places)) <= 10**100, f"{name} must hold places of at most 1e100"
    )
    ascending = all(float(x) < float(y) for x, y in pairwise(places))
    require(
        len(places) >= 2 and ascending,
        f"{name} must be two or more ascending places, got {list(map(float, places))}",
    )
    return places


def _check_sizes(x0: Tensor, step: Tensor, first: list, second: list) -> None:
    """Floats see how the tokens differ, and whether the means do."""
    size = float(max(map(abs, first)))
    span = float(first[-1] - first[0])
    reach = float(step.abs().max()) * span
    largest = float(x0.abs().max()) + float(step.abs().max()) * size
    require(
        largest <= 1e100 and reach >= 1e-6 * largest,
        f"x0 and step give tokens of size {largest:.3g} that differ by {reach:.3g}: "
        "rounding would hide a difference of the outputs",
    )
    apart = abs(float(sum(first) - sum(second))) / len(first)
    require(
        apart <= 4 * EPS * size or apart >= 1e-6 * span,
        f"first and second have means {apart:.3g} apart, too little for floats to "
        "show: give equal ones",
    )


def digits_by_hand() -> Verdict:
    """126 multisets of four out of six tokens: base 5 gives 126 sums, base 3 gives 116,
    base 2 gives 76, counted by hand and by another program.

    Measured: how far a count is from that.
    """
    bags = list(combinations_with_replacement(range(6), 4))
    worst = abs(len(bags) - 126)
    for base, count in ((5, 126), (3, 116), (2, 76)):
        sums = {sum(base**k for k in bag) for bag in bags}
        worst = max(worst, abs(len(sums) - count))
    return at_most(worst, 0)


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
    witness=digits_by_hand,
)
def before(n: int, tokens: int, base: int, *, skip: bool = False) -> Verdict:
    """If a network sends token k to (n + 1)^k before a hardmax layer whose keys all
    tie, the layer tells all multisets of n tokens apart.

    With a skip, outputs at one and the same query token are compared.
    Measured: pairs (query, multiset) that share an output with another multiset, by the
    layer itself in fractions.

    Args:
        n: tokens of a multiset.
        tokens: size of the vocabulary.
        base: n + 1; the control takes a smaller one.
        skip: with or without.

    Returns:
        Verdict.

    Claim: boltzmann.before
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    sizes(1, n=n, tokens=tokens, base=base)
    n, tokens, base = int(n), int(tokens), int(base)
    require(
        n <= 1000 and tokens <= 20_000,
        f"n = {n} of {tokens} tokens: too many to list; at most 1000 and 20000",
    )
    count = math.comb(n + tokens - 1, n)
    require(
        count <= 20_000,
        f"n = {n} of {tokens} tokens are {count} multisets: too many to list",
    )
    bits = tokens * base.bit_length()
    require(
        count * n * n <= COUNTED and count * n * bits <= 10**9,
        f"n = {n} of {tokens} tokens with base = {base:.3g} are {count} multisets: too "
        "many for exact sums",
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


def sums_that_coincide() -> Verdict:
    """1 + 6 = 2 + 5 = 3 + 4: exponents meet in groups, and no group cancels as a whole.
    At beta = 1 and 3 the difference is 0.0398 and -0.0421, of opposite signs.

    Measured: how far a certified difference is from that.
    """
    worst = 0.0
    for beta, wanted in ((1, 0.0398), (3, -0.0421)):
        gap = boltzmann_gap(ENDS, NEAR, scale=beta)
        worst = max(worst, abs(float(gap.lower) - wanted))
    return at_most(worst, 1e-4)


PAIRS = Case(all_pairs)


@claim(
    "boltzmann.exact",
    cases=[PAIRS, PAIRS.but(s=Fraction(-1, 50)), PAIRS.but(sizes=(2, 4), s=1)],
    controls=[PAIRS.but(s=0)],
    witness=sums_that_coincide,
)
def exact(pairs: Sequence, s: Number) -> Verdict:
    """At a rational s that is not zero, two softmax averages are equal if and only if
    the counts of the two multisets are proportional.

    Measured: pairs of which that is not true. Each inequality is certified by an
    interval that excludes zero, each equality in fractions.

    Args:
        pairs: pairs of multisets, lists of rationals or finite floats.
        s: rational or a finite float; at zero, the control, the theorem says nothing.

    Returns:
        Verdict.

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


def eight_terms_by_hand() -> Verdict:
    """Of the difference of the ids of tokens 1 and 2 in {1, 2, 4} eight terms are left
    by hand, at w = 2; of equal contexts none.

    Measured: 1 if the counts are others.
    """
    bag = (1, 2, 4)
    left = len(context_terms((1, bag), (2, bag), weight=2))
    none = len(context_terms((1, bag), (1, bag), weight=2))
    return at_most(abs(left - 8) + none, 0)


TOKENS = Case(contexts)


@claim(
    "boltzmann.ids",
    cases=[
        TOKENS,
        TOKENS.but(values=(-3, -1, 1, 2, 3), n=2, queries=(-1, 1, 3), weight=-1),
        TOKENS.but(n=3, queries=FIVE[:3]),
    ],
    controls=[TOKENS.but(repeats=True)],
    witness=eight_terms_by_hand,
)
def ids(contexts: Sequence, weight: Number) -> Verdict:
    """Different pairs of a token and its set have different ids z_c + w f at every
    algebraic beta that is not zero.

    Hypotheses: tokens different and not zero, at least two a sequence, none repeated
    (not asked for: repeats are the control).
    Measured: pairs of contexts whose ids agree at every beta, decided in fractions.

    Args:
        contexts: pairs (z_c, [z_1, ..., z_n]), all different, of nonzero rationals.
        weight: w, not zero.

    Returns:
        Verdict.

    Claim: boltzmann.ids
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    is_list(contexts=contexts)
    require(len(contexts) >= 2, f"contexts must be two or more, got {len(contexts)}")
    w = _rational("weight", weight)
    require(w != 0, "weight must not be zero: the id would be the token alone")
    for context in contexts:
        query, tokens = _context("each of contexts", context)
        require(
            query in tokens and 0 not in tokens and len(tokens) >= 2,
            "each of contexts must hold its query and two tokens or more, none of them "
            f"zero, got {context!r}",
        )
    known = set()
    for query, tokens in (_context("each of contexts", c) for c in contexts):
        known.add((query, tuple(sorted(tokens))))
    again = len(contexts) - len(known)
    require(again == 0, f"contexts must differ, {again} stand there twice")
    work = sum(len(tokens) for _, tokens in contexts) ** 2 // 2
    require(
        work <= COUNTED // 2,
        f"contexts ask for {work} terms, too many for exact sums: give fewer",
    )
    same = 0
    for one, two in combinations(contexts, 2):
        same += not context_terms(one, two, weight=w)
    return at_most(same, 0)


def small_weights_keep_apart() -> Verdict:
    """With |w| (z_max - z_min) below every distance of two tokens all ids of multisets
    differ.

    Certified at beta = 1/3: w = 3/10 for 1, 2, 4, and 1/8 for the two contexts that
    collide at w = 2.
    Measured: pairs that are equal.
    """
    tokens = contexts((1, 2, 4), 3, (1, 2, 4), repeats=True)["contexts"]
    equal = 0
    for weight, found in ((Fraction(3, 10), tokens), (Fraction(1, 8), [ONE, TWO])):
        for one, two in combinations(found, 2):
            gap = context_gap(one, two, beta=Fraction(1, 3), weight=weight, bits=64)
            equal += gap.sign == 0
    return at_most(equal, 0)


WEIGHT = Case(weight_of_company)


@claim(
    "boltzmann.repeated",
    cases=[WEIGHT],
    controls=[WEIGHT.but(weight=Fraction(3, 2))],
    witness=small_weights_keep_apart,
)
def repeated(first, second, weight: Number) -> Verdict:
    """For w = 2, token 1 in {1, 1, 4, 4} and token 2 in {1/2, 2, 2, 7/2} have equal ids
    at every beta.

    Measured: terms that are left in the difference of the two ids, in fractions, and
    the largest difference in floats at four beta if that exceeds rounding: 1e-12, and
    more for numbers beyond 8.

    Args:
        first, second: pairs (z_c, [z_1, ..., z_n]) of nonzero rationals.
        weight: w.

    Returns:
        Verdict.

    Claim: boltzmann.repeated
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    w = _rational("weight", weight)
    largest = abs(w)
    for name, context in (("first", first), ("second", second)):
        query, tokens = _context(name, context)
        require(query != 0, f"the query of {name} must not be zero")
        size = max(map(abs, [query, *tokens]))
        require(
            max(size, abs(w)) <= 10**100 and abs(query) >= Fraction(1, 10**100),
            f"{name} and weight must be of sizes from 1e-100 to 1e100: floats look too",
        )
        largest = max(largest, size, abs(w) * size)
    terms = len(context_terms(first, second, weight=weight))
    rounding = 1e-12 * max(1.0, float(largest) / 8)
    apart = 0.0
    for beta in (-2.7, 0.1, 1.0, 3.0):
        found = [_float_id(*context, weight, beta) for context in (first, second)]
        apart = max(apart, abs(found[0] - found[1]))
    return at_most(terms + (apart if apart > rounding else 0), 0)


def _float_id(query, tokens, weight, beta: float) -> float:
    """z_c + w f(beta z_c), by the kernel."""
    z = torch.tensor([float(v) for v in tokens], dtype=double)
    s = beta * float(query)
    return float(query) + float(weight) * float(boltzmann(s * z)) / s


def times(*polynomials: Sequence[int]) -> list[int]:
    """The product of polynomials, constant terms first."""
    out = [1]
    for factor in polynomials:
        product = [0] * (len(out) + len(factor) - 1)
        for i, a in enumerate(out):
            for j, b in enumerate(factor):
                product[i + j] += a * b
        out = product
    return out


def numerator_by_hand() -> Verdict:
    """The numerator is -x^3 (x - 1) (x + 1)^3 (x^4 - 4 x^3 + 4 x^2 - 4 x + 1), and cosh
    beta* = 1 + 1 / sqrt 2 is a zero of the last factor.

    Measured: coefficients that are others, and the value of the factor there.
    """
    quartic = [1, -4, 4, -4, 1]
    wanted = times([0, 0, 0, -1], [-1, 1], [1, 1], [1, 1], [1, 1], quartic)
    terms = context_terms((1, ENDS), (1, NEAR))
    others = terms != {k: c for k, c in enumerate(wanted) if c}
    x = math.exp(BETA)
    value = sum(c * x**k for k, c in enumerate(quartic))
    return at_most(others + abs(value), 1e-12)


MISS = Case(two_sets)


@claim(
    "boltzmann.near-miss",
    cases=[MISS],
    controls=[MISS.but(second=(1, 3, 4, 7))],
    witness=numerator_by_hand,
)
def near_miss(first: Sequence, second: Sequence, beta: float) -> Verdict:
    """{1, 2, 5, 6} and {1, 3, 4, 6}, seen from 1, have equal averages at exactly one
    positive beta*, which no float equals.

    Measured: the certified distance of the averages at the float next to beta*: tiny,
    and not zero. Infinity if it is tiny and changes no sign between the floats on
    either side, as at a large beta. Equal averages are refused, since no float is
    beta*.

    Args:
        first, second: the two sets.
        beta: the float next to beta*.

    Returns:
        Verdict; the tolerance is 1e-16.

    Claim: boltzmann.near-miss
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    beta = _float("beta", beta)
    require(beta > 1e-6, f"beta must be positive, above 1e-6, got {beta}")
    here = boltzmann_gap(first, second, scale=beta)
    require(
        here.sign != 0,
        "first and second have equal averages at beta, as the same sets do",
    )
    value = 10.0**here.log10
    if value <= 1e-16:
        signs = set()
        for end in (0.0, math.inf):
            s = math.nextafter(beta, end)
            signs.add(boltzmann_gap(first, second, scale=s).sign)
        if signs != {-1, 1}:
            value = math.inf
    return at_most(value, 1e-16)


# --- the gap of a typical vocabulary


def averages(z: Tensor, tokens: Sequence[int], s: Tensor) -> Tensor:
    """f(s) of the same token numbers in each vocabulary of a batch."""
    places = z[:, list(tokens)]
    weights = torch.softmax(s[:, None] * places, -1)
    return (weights * places).sum(-1)


def neighbours_attain_it() -> Verdict:
    """As beta goes to 0, two sets of four that differ in one token are within 0.01 of
    each other with probability 0.0396.

    By hand: their means differ by a quarter of the difference of two uniform numbers,
    and that is below 0.04 with probability 1 - 0.98^2.
    Measured: how far the share of 200,000 draws is from 0.0396, in standard deviations.
    """
    z = vocabularies(200_000, V=5)["z"]
    s = 1e-9 * z[:, 0]
    gaps = averages(z, (0, 1, 2, 3), s) - averages(z, (0, 1, 2, 4), s)
    share = float((gaps.abs() <= 0.01).double().mean())
    deviation = math.sqrt(0.0396 * (1 - 0.0396) / 200_000)
    return at_most(abs(share - 0.0396) / deviation, 5)


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
    controls=[PLACES.but(grid=True)],
    witness=neighbours_attain_it,
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
    with a probability of at most 2 M n eps e^sigma / (1 - sigma).

    That is if one of them holds a token that the other lacks; with e^(3 sigma) if they
    hold the same tokens, some more or less often.
    Hypotheses: the places of the vocabulary are independent, with densities of at most
    M on an interval of length rho; sigma = |beta| max|z| rho < 1.
    Measured: the share of the vocabularies in which they are within eps. The bound
    allows five standard deviations more, so one true statement in three million is
    refused. That places are independent cannot be seen in them; the control holds them
    fixed.

    Args:
        z: (draws, V), float64, 1,000 draws or more: the places of each vocabulary.
        density: M, which cannot be below 1 / rho.
        interval: its two ends.
        first, second: numbers of the tokens, as many in both.
        beta: inverse temperature.
        eps: the distance.
        query: number of a token that both hold.

    Returns:
        Verdict.

    Claim: boltzmann.typical
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    low, high = _check_vocabularies(z, interval)
    first = _check_multiset("first", first, z.shape[1])
    second = _check_multiset("second", second, z.shape[1])
    sizes(0, query=query)
    beta = _float("beta", beta)
    eps = _float("eps", eps)
    require(
        query in first and query in second,
        f"query must be a token of both multisets, got {query}",
    )
    require(
        len(first) == len(second) and sorted(first) != sorted(second),
        "first and second must be different multisets of one size",
    )
    sigma = abs(beta) * max(abs(low), abs(high)) * (high - low)
    density = _float("density", density)
    require(
        density * (high - low) >= 1 - 1e-9,
        f"density must be at least 1 / rho = {1 / (high - low):g}, as every density on "
        f"an interval is somewhere, got {density}",
    )
    same = set(first) == set(second)
    bound = typical_bound(len(first), sigma, density, eps, repeats=same)
    s = beta * z[:, query]
    gaps = averages(z, first, s) - averages(z, second, s)
    share = float((gaps.abs() <= eps).double().mean())
    allowance = 5 * math.sqrt(min(bound, 1) / len(z))
    return at_most(share, bound + allowance)


def _check_vocabularies(z, interval) -> tuple[float, float]:
    """Many draws of places, all of them in the interval."""
    is_a(Tensor, z=z)
    is_tensor("z", z)
    require(z.dtype == double, f"z must be float64, got {z.dtype}: cast it first")
    require(
        z.dim() == 2 and z.shape[0] >= 1000 and z.shape[1] >= 2,
        f"z must be (draws, V), 1000 draws or more of two places or more, "
        f"got {tuple(z.shape)}",
    )
    finite(z=z)
    is_list(interval=interval)
    require(len(interval) == 2, f"interval must be its two ends, got {interval!r}")
    low = _float("the left end of interval", interval[0])
    high = _float("the right end of interval", interval[1])
    inside = bool((z >= low).all() and (z <= high).all())
    require(low < high and inside, f"interval must hold all of z, got {interval!r}")
    return low, high


def value_averages(
    keys: Tensor, values: Tensor, tokens: Sequence[int], s: Tensor
) -> Tensor:
    """The average of the values of the same tokens in each draw; weights by keys."""
    index = list(tokens)
    weights = torch.softmax(s * keys[index], 0)
    return values[:, index] @ weights


def one_over_root_two_by_hand() -> Verdict:
    """Two sets of two that share a token, with all keys equal: the weights differ by
    (0, 1/2, -1/2), so the standard deviation is 1 / sqrt 2.

    Measured: how far the standard deviation of 100,000 draws is from that.
    """
    values = torch.randn(
        100_000, 3, generator=torch.Generator().manual_seed(0), dtype=double
    )
    apart = weight_difference(torch.zeros(3, dtype=double), (0, 1), (0, 2), 1.0, 0)
    return at_most(abs(float((values @ apart).std()) - math.sqrt(0.5)), 0.01)


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
    controls=[KEYS.but(still=True)],
    witness=one_over_root_two_by_hand,
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

    Hypothesis: values independent and standard normal, independent of the keys.
    Measured: the largest distance of the distribution of (f - f') / |p - p'| over the
    draws from the normal one (Kolmogorov and Smirnov), times the root of their number;
    above 2.5 once in 100,000 times. Infinity if |p - p'| is below its bound.

    Args:
        keys: (V,), float64.
        values: (draws, V), float64, 1,000 draws or more.
        first, second: numbers of the tokens, as many in both.
        beta: inverse temperature.
        query: number of a token that both hold.

    Returns:
        Verdict.

    Claim: boltzmann.any-temperature
    Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
    """
    _check_keys(keys, values)
    first = _check_multiset("first", first, len(keys))
    second = _check_multiset("second", second, len(keys))
    beta = _float("beta", beta)
    sizes(0, query=query)
    keys, values = keys.detach(), values.detach()
    require(
        query in first and query in second,
        f"query must be a token of both multisets, got {query}",
    )
    require(
        len(first) == len(second) and sorted(first) != sorted(second),
        "first and second must be different multisets of one size",
    )
    s = beta * keys[query]
    size = float(weight_difference(keys, first, second, beta, query).norm())
    seen = keys[[*first, *second]]
    logits = abs(float(s)) * float(seen.abs().max())
    require(
        size > 1e5 * EPS * (1 + logits),
        f"beta = {beta} is so large for these keys that no float tells the weights of "
        "first and second apart",
    )
    reach = abs(float(s)) * float(seen.max() - seen.min())
    least = math.exp(-2 * reach) / len(first)
    if size < least * (1 - 1e-9):
        return at_most(math.inf, 2.5)
    gaps = value_averages(keys, values, first, s) - value_averages(
        keys, values, second, s
    )
    scaled = (gaps / size).sort().values
    normal = torch.special.ndtr(scaled)
    count = len(scaled)
    ranks = torch.arange(count, dtype=double)
    above = (ranks + 1) / count - normal
    below = normal - ranks / count
    distance = max(float(above.max()), float(below.max()))
    return at_most(distance * math.sqrt(count), 2.5)


def _check_keys(keys, values) -> None:
    """Keys (V,) and draws of values (draws, V) in float64."""
    for name, tensor, dim in (("keys", keys, 1), ("values", values, 2)):
        is_a(Tensor, **{name: tensor})
        is_tensor(name, tensor)
        require(
            tensor.dtype == double and tensor.dim() == dim,
            f"{name} must be float64 with {dim} dimensions, got {tensor.dtype} "
            f"{tuple(tensor.shape)}",
        )
        finite(**{name: tensor})
    require(
        values.shape[1] == len(keys) and len(values) >= 1000,
        "values must be (draws, V), 1000 draws or more for the V keys, "
        f"got {tuple(values.shape)} for {len(keys)} keys",
    )
