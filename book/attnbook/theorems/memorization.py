"""The claims of the page `One layer memorizes: the exact network`."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib import _require
from attnlib._require import (
    fractions,
    is_list,
    is_tensor,
    require,
    sizes,
)
from attnlib.certify import Verdict, at_most
from attnlib.memorize import (
    context_ids,
    count_parameters,
    dense_block,
    fit_deep,
    fit_line,
    interpolate,
    memorize,
    relu_layer,
)
from attnlib.memorize.dense import (
    Grouped,
    _check_points,
    _deal,
    _errors,
    _four_units,
)

double = torch.float64
# A unit on the line: its coefficient, its direction (1 or -1), and its knot.
Unit = tuple[Fraction, int, Fraction]


def seeded(seed: int) -> torch.Generator:
    """A generator of its own."""
    return torch.Generator().manual_seed(seed)


# --- exact labels


def numbers_with_labels(count=40, seed=0, share=None) -> dict:
    """Numbers in order, labels, and knots at random places between the numbers, or all
    at this share of the way back to the number before.
    """
    rng = random.Random(seed)
    ids = [Fraction(i, 997) for i in sorted(rng.sample(range(997), count))]
    labels = [Fraction(rng.randrange(-5, 6), rng.randrange(1, 4)) for _ in ids]
    knots = []
    for before, t in pairwise([ids[0] - 1, *ids]):
        back = Fraction(rng.randrange(1, 9), 8) if share is None else share
        knots.append(t - back * (t - before))
    return {"ids": ids, "labels": labels, "knots": knots}


def solved(ids: Sequence, labels: Sequence, knots: Sequence) -> list:
    """The coefficients of (18.2), one after the other; a unit that is silent at its own
    number gets 0.
    """
    found = []
    for j, t in enumerate(ids):
        so_far = sum(a * max(t - b, 0) for a, b in zip(found, knots))
        room = t - knots[j]
        found.append((labels[j] - so_far) / room if room > 0 else Fraction(0))
    return found


EXACT = Case(numbers_with_labels)


@claim(
    "memorize.exact-labels",
    cases=[EXACT, EXACT.but(count=1), EXACT.but(count=2, seed=1), EXACT.but(seed=2)],
    controls=[EXACT.but(share=0)],
)
def exact_labels(ids: Sequence, labels: Sequence, knots: Sequence) -> Verdict:
    """A unit a number, its knot left of its own number and not left of the one before:
    one choice of coefficients gives every number its label.

    Measured: how many numbers miss their label when the equations are solved in
    fractions, from the first to the last; and how often the library's network, with
    knots of its own, does.

    Claim: memorize.exact-labels
    Page: notebooks/one_layer_memorization/memorization
    """
    t = _fractions("ids", ids)
    y = _fractions("labels", labels)
    b = _fractions("knots", knots)
    require(
        len(t) == len(y) == len(b),
        f"ids, labels and knots must be as many, got {len(t)}, {len(y)} and {len(b)}",
    )
    require(all(u < v for u, v in pairwise(t)), "ids must increase")
    between = all(u <= knot for u, knot in zip(t, b[1:]))
    between = between and all(knot <= v for knot, v in zip(b, t))
    require(between, "knots must lie between the id before and their own id")
    a = solved(t, y, b)
    missed = _missed_by_the_library(t, y)
    for v, label in zip(t, y):
        missed += sum(c * max(v - k, 0) for c, k in zip(a, b)) != label
    return at_most(missed, 0)


def _missed_by_the_library(t: list[Fraction], y: list[Fraction]) -> int:
    """At the ids, and a quarter of the way back to the one before, by units and by
    search.
    """
    ids = torch.tensor([float(v) for v in t], dtype=double)
    labels = torch.tensor([float(label) for label in y], dtype=double)[:, None]
    line = fit_line(ids, labels)
    gaps = ids - line.knots
    before = torch.cat([torch.zeros_like(labels[:1]), labels[:-1]])
    places = torch.cat([ids, ids - gaps / 4])
    wanted = torch.cat([labels, labels - (labels - before) / 4])
    # the error of a long sum, as relu_layer says it
    reach = (ids[-1] - line.knots[0]) / gaps.min()
    spare = 64 * len(ids) * torch.finfo(double).eps * reach * labels.abs().max()
    found = relu_layer(places, line), interpolate(places, ids, labels)
    return sum(int(((read - wanted).abs() > spare).sum()) for read in found)


def _fractions(name: str, values: Sequence) -> list[Fraction]:
    """Numbers as fractions; a float is one."""
    if torch.is_tensor(values):
        require(values.dim() == 1, f"{name} must be numbers, got {tuple(values.shape)}")
        values = values.tolist()
    is_list(**{name: values})
    exact = fractions(**{f"{name}[{i}]": value for i, value in enumerate(values)})
    largest = max(map(abs, exact), default=0)
    require(largest < 1e300, f"{name} must be below 1e300, which floats hold")
    return exact


# --- where the knots belong


def spaced(count=60, seed=None, theta=0.75) -> dict:
    """Zigzag labels at distance one, or random labels at random distances."""
    if seed is None:
        ids = torch.arange(1.0, count + 1, dtype=double)
        labels = torch.arange(1, count + 1) % 2
    else:
        g = seeded(seed)
        ids = torch.randint(1, 50, (count,), generator=g).cumsum(0).double()
        labels = torch.randint(10, (count,), generator=g)
    return {"ids": ids, "labels": labels.double(), "theta": theta}


def slopes_of(
    ids: Tensor, labels: Tensor, theta: float | Fraction
) -> tuple[list, Fraction]:
    """The slopes by (18.6), exact, and the largest rise."""
    t = [Fraction(value) for value in ids.tolist()]
    steps = [v - u for u, v in pairwise(t)]
    first = Fraction(float(ids.diff().median())) if steps else Fraction(1)
    share = Fraction(theta)
    slope = before = largest = Fraction(0)
    found = []
    for y, step in zip(labels.tolist(), [first, *steps]):
        rise = (Fraction(y) - before) / step
        slope = (rise - (1 - share) * slope) / share
        found.append(slope)
        largest = max(largest, abs(rise))
        before = Fraction(y)
    return found, largest


KNOTS = Case(spaced)


@claim(
    "memorize.knots",
    cases=[
        KNOTS,
        KNOTS.but(theta=0.55),
        KNOTS.but(theta=1.0),
        KNOTS.but(seed=0),
        KNOTS.but(seed=1, theta=0.6),
        KNOTS.but(count=1),
    ],
    broken={"knots at 0.45": {"_placed": 0.45}, "knots at 1/2": {"_placed": 0.5}},
)
def knots(ids: Tensor, labels: Tensor, theta: float, *, _placed=None) -> Verdict:
    """With knots b_j = t_j - theta (t_j - t_{j-1}) all slopes are at most M / (2 theta
    - 1), for theta above one half.

    Measured: the largest slope over M, the largest rise between neighbours, in
    fractions; infinity if a slope of the library's network is off by more than 1e-9 of
    the largest.

    Claim: memorize.knots
    Page: notebooks/one_layer_memorization/memorization
    """
    is_tensor("ids", ids)
    require(ids.dtype == double, f"ids must be float64, got {ids.dtype}: 1e-9 is meant")
    _require.matches("labels", labels, ids.shape, ids, "ids")
    require(0.5 < theta <= 1, f"theta must be above 1/2, at most 1, got {theta}")
    require(bool(labels.any()), "labels must not all be zero: M would be 0")
    placed = theta if _placed is None else _placed
    line = fit_line(ids, labels[:, None], theta=placed)
    found, rise = slopes_of(ids, labels, placed)
    largest = max(map(abs, found))
    exact = torch.tensor([float(slope / largest) for slope in found], dtype=double)
    got = line.slopes[:, 0] / float(largest)
    bound = 1 / (2 * theta - 1)
    if not (got - exact).abs().max() <= 1e-9:
        return at_most(math.inf, bound)
    worst = largest / rise
    allowed = 1 / (2 * Fraction(theta) - 1)
    return Verdict(float(worst), bound, worst <= allowed)


# --- a unit an id


def many_turns(units=20, layers=1, seed=None) -> dict:
    """A network on the line that crosses a level as often as its units allow, random
    units, or as many units in this number of layers: tent maps one after the other.
    """
    if layers > 1:
        tent = [(Fraction(2), 1, Fraction(0)), (Fraction(-4), 1, Fraction(1, 2))]
        return {"layers": [tent] * layers}
    if seed is not None:
        rng = random.Random(seed)
        found = []
        for knot in rng.sample(range(3 * units), units):
            a = rng.choice((-1, 1)) * rng.randint(1, 9)
            found.append((Fraction(a), rng.choice((-1, 1)), Fraction(knot)))
        return {"layers": [found]}
    # Three units cross a level four times; each further one turns the network round.
    found = [(-1, 1, 0), (Fraction(5, 2), -1, 1), (-3, -1, 2)]
    found += [(2 * (-1) ** j, 1, 5 + 3 * j) for j in range(units - 3)]
    return {"layers": [[(Fraction(a), s, Fraction(b)) for a, s, b in found]]}


def bend(layer: list[Unit], t: Fraction | int) -> Fraction:
    """sum of a relu(s (t - b)) over the units of a layer."""
    return sum((a * max(s * (t - b), 0) for a, s, b in layer), Fraction(0))


def broken_line(layers: list[list[Unit]]) -> list[Fraction]:
    """The values of a network on the line at all places where it bends, and far out, in
    the order of the places.
    """
    far = 10**6 + max(abs(b) for layer in layers for _, _, b in layer)
    points = [(-far, -far), (far, far)]  # (place, value)
    for layer in layers:
        knots = sorted(b for _, _, b in layer)
        found = [points[0]]
        for (x, y), (x_after, y_after) in pairwise(points):
            crossed = [b for b in knots if min(y, y_after) < b < max(y, y_after)]
            if y > y_after:
                crossed.reverse()
            for b in crossed:
                place = x + (b - y) * Fraction(x_after - x) / (y_after - y)
                found.append((place, b))
            found.append((x_after, y_after))
        points = [(place, bend(layer, value)) for place, value in found]
    return [value for _, value in points]


def crossings(values: list) -> int:
    """How often a broken line crosses a level, the level that it crosses most often."""
    most = 0
    for low, high in pairwise(sorted(set(values))):
        level = (low + high) / 2
        most = max(most, sum((u > level) != (v > level) for u, v in pairwise(values)))
    return most


WIDTH = Case(many_turns)


@claim(
    "memorize.width",
    cases=[
        WIDTH,
        WIDTH.but(units=3),
        WIDTH.but(units=10),
        WIDTH.but(units=4, seed=0),
        WIDTH.but(units=25, seed=1),
    ],
    controls=[WIDTH.but(layers=10)],
    without_kernel="a count of crossings, of a network in fractions",
)
def width(layers: Sequence[Sequence]) -> Verdict:
    """One hidden layer of m units on the line crosses no level more than m + 1 times;
    so zigzag labels of D ids, which need D - 1 crossings, need D - 2 units.

    A layer is a list of units (coefficient, direction, knot), each coefficient *
    relu(direction * (t - knot)) with the direction 1 or -1; more layers are read one
    after the other, and are what the statement is not about. Measured, in fractions:
    the crossings of the level that is crossed most often.

    Claim: memorize.width
    Page: notebooks/one_layer_memorization/memorization
    """
    is_list(layers=layers)
    exact = []
    for i, layer in enumerate(layers):
        is_list(**{f"layers[{i}]": layer})
        exact.append([_unit(f"layers[{i}][{j}]", u) for j, u in enumerate(layer)])
    return at_most(crossings(broken_line(exact)), sum(map(len, exact)) + 1)


def _unit(name: str, unit) -> Unit:
    """(coefficient, direction, knot) as fractions."""
    is_list(**{name: unit})
    require(
        len(unit) == 3 and unit[1] in (1, -1),
        f"{name} must be (coefficient, direction, knot), the direction 1 or -1, "
        f"got {unit!r}",
    )
    a, s, b = unit
    a, b = fractions(**{f"{name}[0]": a, f"{name}[2]": b})
    return a, int(s), b


# --- the whole block


def random_sets(N=20, n=4, tokens=12, d=6, seed=0, again=5, positions=1) -> dict:
    """Sets of n tokens out of a Gaussian vocabulary, random digits as labels, and some
    of the sequences once more, with their tokens in reverse.

    With positions each word of the vocabulary has so many, added as Gaussian codes.
    """
    g = seeded(seed)
    vocabulary = torch.randn(tokens, d, generator=g, dtype=double)
    if positions > 1:
        codes = torch.randn(positions, d, generator=g, dtype=double)
        vocabulary = (vocabulary[:, None] + codes).flatten(0, 1)
    chosen = {}
    while len(chosen) < N:
        drawn = torch.randperm(len(vocabulary), generator=g)[:n].sort().values
        chosen[tuple(drawn.tolist())] = True
    x = vocabulary[torch.tensor(list(chosen))]
    y = torch.randint(10, (N, n), generator=g)
    x = torch.cat([x, x[:again].flip(1)])
    return {"sequences": x, "labels": torch.cat([y, y[:again].flip(1)])}


BLOCK = Case(random_sets)


@claim(
    "memorize.block",
    cases=[BLOCK, BLOCK.but(seed=1), BLOCK.but(N=8, n=3, tokens=6, d=2)],
    broken={"hardmax": {"_normalizer": "hardmax"}},
)
def block(sequences: Tensor, labels: Tensor, *, _normalizer="softmax") -> Verdict:
    """One softmax head of rank one and a unit an id give every token its label, with
    parameters as (18.4) counts them.

    sequences are (N, n, d) in float64 without zero tokens, labels (N, n) integers.
    Measured: how many tokens miss their label in the library's network, in the same
    one with every weight written out, and in one on ids of a softmax; and parameters
    too many or too few. Infinity if the library refuses to build it.

    Claim: memorize.block
    Page: notebooks/one_layer_memorization/memorization
    """
    _check_sets(sequences, labels)
    try:
        return at_most(_missed(sequences, labels, _normalizer), 0)
    except ValueError:  # the library refuses to build what the theorem promises
        return at_most(math.inf, 0)


def _check_sets(sequences: Tensor, labels: Tensor) -> None:
    """Refuse shapes and dtypes that do not fit, zero tokens, contradicting labels."""
    _require.tokens(sequences, "sequences")
    got = sequences.dtype, tuple(sequences.shape)
    require(
        got[0] == double and len(got[1]) == 3,
        f"sequences must be (N, n, d) in float64, as sums are formed, got {got}",
    )
    require(sequences.any(-1).all(), "sequences must hold no zero token")
    is_tensor("labels", labels)
    require(
        labels.shape == sequences.shape[:2] and not labels.is_floating_point(),
        f"labels must be integers {got[1][:2]}, got {labels.dtype} "
        f"{tuple(labels.shape)}",
    )
    known = {}
    for rows, tags in zip(sequences.tolist(), labels.tolist()):
        company = tuple(sorted(map(tuple, rows)))
        for row, tag in zip(rows, tags):
            seen = known.setdefault((tuple(row), company), tag)
            require(
                seen == tag,
                f"labels contradict: a token has {seen} and {tag} in equal company",
            )


def _missed(sequences: Tensor, labels: Tensor, normalizer: str) -> int:
    """Tokens that miss their label in the three networks, and parameters that miss
    their count.
    """
    net = memorize(sequences, labels, generator=seeded(0))
    missed = (net(sequences) != labels).sum()
    dense = dense_block(net)
    missed += ((dense(sequences)[..., 0] - labels).abs() > 1e-6).sum()
    ids = context_ids(sequences, net.v, net.report.beta, normalizer=normalizer)
    # Equal ids of permuted sequences differ by rounding: eleven digits are kept.
    t = (ids.token + net.report.w * ids.context).mul(1e11).round().div(1e11)
    kept, where = torch.unique(t, return_inverse=True)
    first = torch.zeros(len(kept), dtype=double)
    first.scatter_(0, where.flatten(), labels.flatten().double())
    read = relu_layer(t, fit_line(kept, first[:, None]))[..., 0]
    missed += ((read - labels).abs() > 1e-6).sum()
    d, D = len(net.v), len(net.token)
    counted = 4 * (1 + d) + d * (2 * D + d) + D + d
    off = abs(dense.parameters - counted) + abs(count_parameters(D, d) - counted)
    return int(missed) + off


# --- four units a group


def ids_of_a_head(N=100, n=8, tokens=32, d=16, seed=0, positions=1) -> dict:
    """What a head of rank one adds up, h = x + f v, for random sets of tokens; labels,
    and which token each point belongs to.
    """
    x = random_sets(N, n, tokens, d, seed, 0, positions)["sequences"] / 2
    g = seeded(seed)
    v = torch.randn(d, generator=g, dtype=double)
    v = v / (x @ v).std()
    ids = context_ids(x, v, 0.3)
    points = x + ids.context[..., None] * v / v.norm()
    points = points.flatten(0, 1)
    labels = torch.randint(5, (len(points),), generator=g).double()
    of_token = x.flatten(0, 1).unique(dim=0, return_inverse=True)[1]
    return {"points": points, "labels": labels, "tokens": of_token}


GROUPED = Case(ids_of_a_head)


@claim(
    "memorize.grouped",
    cases=[
        GROUPED,
        GROUPED.but(seed=1),
        GROUPED.but(N=30, n=3, tokens=9, d=4),
        GROUPED.but(N=10, n=4, tokens=12, d=40),
        GROUPED.but(N=5, n=3, tokens=5, d=1),
    ],
    controls=[GROUPED.but(positions=12)],
    broken={"tokens ignored": {"_ignored": True}},
)
def grouped(
    points: Tensor, labels: Tensor, tokens: Tensor, *, _ignored=False
) -> Verdict:
    """Four units a group of at most d points: one hidden layer that reads d numbers
    gives all labels with 4 max(ceil(D / d), most ids of one token) units.

    points (D, d) of one token, by the integers in tokens, go to different groups.
    Measured: the points of groups whose own four units are not certified, in the reals
    or in floats, to give them their labels and all other points 0; if there are none,
    the points whose labels the whole network might miss; and units too many.

    Claim: memorize.grouped
    Page: notebooks/one_layer_memorization/memorization
    """
    is_tensor("tokens", tokens)
    _check_points(points, labels, tokens)
    require(points.dtype == double, f"points must be float64, got {points.dtype}")
    D, d = points.shape
    least = labels.unique().diff()
    half = float(least.min()) / 2 if len(least) else 1.0
    dealt = torch.arange(D) if _ignored else tokens
    most = int(dealt.unique(return_counts=True)[1].max())
    groups = max(-(-D // d), most)
    missed = D
    for seed in range(4):
        group = _deal(points, dealt, seeded(seed))
        net = _four_units(points, labels, group, seeded(seed))
        failed = [not _alone(net, g, points, labels) < half for g in range(groups)]
        lost = torch.tensor(failed)[group]
        if not lost.any():
            lost = ~(_errors(net, points, labels) < half)
        missed = min(missed, int(lost.sum()))
    too_many = len(net.b_1) - 4 * groups
    return at_most(missed + abs(too_many), 0)


def _alone(net: Grouped, g: int, points: Tensor, labels: Tensor) -> float:
    """What the four units of a group may miss: labels on it, and 0 at other points."""
    four = torch.arange(4) * (len(net.b_1) // 4) + g
    units = replace(net, w_1=net.w_1[:, four], b_1=net.b_1[four], w_2=net.w_2[four])
    wanted = torch.where(net.group == g, labels, 0.0)
    return float(_errors(units, points, wanted).max())


# --- what cannot be saved


def points_and_units(D=120, d=2, hidden=(16,), seed=0) -> dict:
    """Random points, and the sizes of hidden layers."""
    points = torch.randn(D, d, generator=seeded(seed), dtype=double)
    return {"points": points, "hidden": hidden}


def dichotomies(D: int, k: int) -> int:
    """Cover's bound: linear functions of k numbers split D points in at most so many
    ways.
    """
    return 2 * sum(math.comb(D - 1, i) for i in range(k))


def least_units(D: int, d: int) -> int:
    """The fewest units in one hidden layer on d numbers that Proposition 18.7 (b)
    allows, if D points are to get all labelings by two labels.
    """
    sizes(1, D=D, d=d)
    m = 0
    while 2**m * dichotomies(D, d + 1) ** m * dichotomies(D, m * (d + 1) + 1) < 2**D:
        m += 1
    return m


UNITS = Case(points_and_units)


@claim(
    "memorize.dimension",
    cases=[
        UNITS,
        UNITS.but(hidden=(5,), seed=1),
        UNITS.but(d=5, hidden=(9,)),
        UNITS.but(d=1, hidden=(1,)),
    ],
    controls=[UNITS.but(hidden=(8, 8))],
    without_kernel="a rank of derivatives, of networks drawn at random",
)
def dimension(points: Tensor, hidden: Sequence[int]) -> Verdict:
    """The labels that one hidden layer of m units can give points of d numbers lie on
    finitely many flats of dimension at most m (d + 1) + 1.

    points are (D, d) in float64, hidden holds one number; more of them are more layers,
    which the statement is not about. Measured: the largest rank of the derivative of
    the labels by the weights, at 8 random networks: the dimension of the flat there.

    Claim: memorize.dimension
    Page: notebooks/one_layer_memorization/memorization
    """
    is_tensor("points", points)
    require(
        points.dtype == double and points.dim() == 2 and 0 not in points.shape,
        f"points must be (D, d) in float64, got {points.dtype} {tuple(points.shape)}",
    )
    is_list(hidden=hidden)
    sizes(1, **{f"hidden[{i}]": m for i, m in enumerate(hidden)})
    d = points.shape[1]
    ranks = [_rank(points, list(hidden), seeded(seed)) for seed in range(8)]
    return at_most(max(ranks), sum(hidden) * (d + 1) + 1)


def _rank(points: Tensor, hidden: list[int], g: torch.Generator) -> int:
    """The rank of the derivative of the labels by all weights of a random network."""
    wide = [points.shape[1], *hidden, 1]
    weights = []
    for rows, columns in pairwise(wide):
        weights.append(torch.randn(rows, columns, generator=g, dtype=double))
        weights.append(torch.randn(columns, generator=g, dtype=double))

    def labels(*given: Tensor) -> Tensor:
        h = points
        *inner, w, b = given
        for i in range(0, len(inner), 2):
            h = torch.relu(h @ inner[i] + inner[i + 1])
        return (h @ w + b)[:, 0]

    parts = torch.autograd.functional.jacobian(labels, tuple(weights))
    whole = torch.cat([part.flatten(1) for part in parts], dim=1)
    return int(torch.linalg.matrix_rank(whole))


# --- what depth saves


def random_ids(count=1000, r=12, seed=0) -> dict:
    """Integers of r bits in order, and digits."""
    rng = random.Random(seed)
    ids = sorted(rng.sample(range(2**r), count))
    return {"ids": ids, "labels": [rng.randrange(10) for _ in ids], "r": r}


def depth_bound(D: int, r: int, label_bits: int) -> float:
    """2 sqrt(6 D K) + K + 10 with K = 18 (r + l) + 40."""
    K = 18 * (r + label_bits) + 40
    return 2 * math.sqrt(6 * D * K) + K + 10


DEEP = Case(random_ids)


@claim(
    "memorize.deep",
    cases=[DEEP, DEEP.but(count=3, r=4), DEEP.but(count=100, r=20), DEEP.but(count=1)],
    broken={"a bound for one bit": {"_r": 1}},
)
def deep(ids: Sequence[int], labels: Sequence[int], r: int, *, _r=None) -> Verdict:
    """A deep network with at most 2 sqrt(6 D K) + K + 10 parameters, K = 18 (r + l) +
    40, gives D integers that differ in their top r bits their labels of l bits.

    Measured: parameters over the bound; infinity if one of 40 ids misses its label.

    Claim: memorize.deep
    Page: notebooks/one_layer_memorization/memorization
    """
    sizes(1, r=r)
    net = fit_deep(ids, labels)
    cut = max(0, int(ids[-1]).bit_length() - r)
    tops = {int(t) >> cut for t in ids}
    require(
        len(tops) == len(ids),
        f"ids must differ in their top r = {r} bits, and {len(ids) - len(tops)} do not",
    )
    some = random.Random(1).sample(range(len(ids)), min(40, len(ids)))
    if any(net(int(ids[i])) != labels[i] for i in some):
        return at_most(math.inf, 1)
    label_bits = max(1, int(max(labels)).bit_length())
    bound = depth_bound(len(ids), r if _r is None else _r, label_bits)
    return at_most(net.parameters / bound, 1)


# --- bits are not saved


def small_networks(B=3, W=2, count=6) -> dict:
    """a relu(t - b) mod 2 for all integers a and b of B bits, on the first integers."""

    def network(weights: tuple[int, ...], t: int) -> int:
        a, b = weights
        return a * max(t - b, 0) % 2

    return {"network": network, "W": W, "values": 2**B, "ids": range(1, count + 1)}


def labelings(
    network: Callable[[tuple[int, ...], int], int],
    W: int,
    values: int,
    ids: Sequence[int],
) -> set[tuple]:
    """What the networks with all weights below `values` give to the ids."""
    found = set()
    for weights in product(range(values), repeat=W):
        found.add(tuple(network(weights, t) for t in ids))
    return found


BITS = Case(small_networks)


@claim(
    "memorize.bits",
    cases=[BITS, BITS.but(B=0), BITS.but(B=1), BITS.but(B=2, count=9)],
    broken={"one bit": {"_bits": 1}},
    without_kernel="a count of labelings",
)
def bits(
    network: Callable[[tuple[int, ...], int], int],
    W: int,
    values: int,
    ids: Sequence[int],
    *,
    _bits=None,
) -> Verdict:
    """Networks with W parameters of B bits reach no more than 2^(W B) labelings; so if
    they reach all C^D of D ids, W B >= D log2 C.

    network takes a tuple of W integers below `values`, which is 2^B, and an id to a
    label. Measured: log2 of the labelings that are reached, by trying all parameters.

    Claim: memorize.bits
    Page: notebooks/one_layer_memorization/memorization
    """
    require(callable(network), f"network must be a function, got {network!r}")
    sizes(1, W=W, values=values)
    B = math.log2(values)
    require(W * B <= 20, f"at most 2^20 networks are tried, got {values}^{W}")
    _require.is_a(Sequence, ids=ids)
    found = labelings(network, W, values, ids)
    return at_most(math.log2(len(found)), W * (B if _bits is None else _bits))
