"""Every exercise: nothing tried, the right answer, and each listed wrong answer, which
must be named.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from attnlib import exercises
from attnlib import patterns as library
from attnlib.exercises import (
    boltzmann,
    codes,
    collapse,
    complexity,
    copying,
    efficacy,
    escaping,
    expressive,
    ids,
    lowrank,
    memorization,
    paths,
    patterns,
    projections,
    questions,
    reviewers,
    synthesis,
    universal,
)


def slope_of_boltz(a, i, *, one=1, sign=1):
    p = torch.softmax(a, 0)
    return p[i] * (one + sign * (a[i] - (p * a).sum()))


def mix(s, P, W):
    return sum(p @ s @ w for p, w in zip(P, W))


def term(*, left=False, right=False, weights=True, none=None):
    """A term of a path with the given mistakes."""

    def answer(x, attention, maps, path):
        if none == "zero" and None in path:
            return torch.zeros_like(x)
        way = [
            (l, -1 if h is None else h)
            for l, h in enumerate(path)
            if h is not None or none == "last"
        ]
        for l, h in reversed(way) if left else way:
            x = attention[l][h] @ x
        for l, h in reversed(way) if right else way:
            x = x @ maps[l][h] if weights else x
        return x

    return answer


def step(sums, P, W):
    moved = [mix(s, P, W) for s in sums]
    return [sums[0], *(a + b for a, b in zip(sums[1:], moved)), moved[-1]]


def step_in_place(sums, P, W):
    out = [*sums, torch.zeros_like(sums[0])]
    for k in range(1, len(out)):
        out[k] = out[k] + mix(out[k - 1], P, W)
    return out


def bias(weights, rows, *, skip=False, heads=None):
    b = rows[0]
    for maps, row in zip(weights[1:], rows[1:]):
        b = skip * b + sum(b @ w for w in maps[:heads]) + row
    return b


def bias_from_the_left(weights, rows):
    b = rows[0]
    for maps, row in zip(weights[1:], rows[1:]):
        b = sum(w @ b for w in maps) + row
    return b


PATHS = {
    "count": [
        (90, "Right"),
        (9, "5 layers"),
        (10, "a head in each"),
        (180, "twice"),
        (243, "without a skip"),
        (1024, "all lengths"),
        (7, "choose the layers first"),
    ],
    "term": [
        (term(), "Right"),
        (term(left=True), "attention matrices are in the wrong order"),
        (term(right=True), "weights are in the wrong order"),
        (term(left=True, right=True), "Both products are reversed"),
        (term(none="zero"), "does not make the term zero"),
        (term(none="last"), "last head"),
        (term(weights=False), "weights W_h are missing"),
        (lambda x, *_: x, "not a mistake that is known"),
        (lambda *_: 3, "yours is int"),
    ],
    "step": [
        (step, "Right"),
        (step_in_place, "new S_"),
        (
            lambda s, P, W: [torch.zeros_like(s[0]), *(mix(t, P, W) for t in s)],
            "skip is missing",
        ),
        (
            lambda s, P, W: [*(t + mix(t, P, W) for t in s), torch.zeros_like(s[0])],
            "lengths do not shift",
        ),
        (lambda s, P, W: s, "your list has 2"),
        (lambda s, P, W: [*s, s[0]], "not a mistake that is known"),
    ],
    "bias": [
        (bias, "Right"),
        (lambda w, rows: sum(rows), "added the rows of all layers"),
        (lambda w, rows: bias(w, rows, heads=1), "one head only"),
        (bias_from_the_left, "from the left"),
        (lambda w, rows: bias(w, rows, skip=True), "formula with skips"),
        (lambda w, rows: rows[0][:2], r"shape \(3,\) was wanted, yours is \(2,\)"),
    ],
}


def extremal(n, d, *, scale=None, sign=1, column=0):
    a, b = torch.zeros(n, d), torch.zeros(n, d)
    a[:, column], b[0] = 1, math.sqrt(n / d) if scale is None else scale
    a[0] *= sign
    return a.double(), b.double()


def apart(n, d):
    """Equal norms, other shapes, but no entry in which they meet."""
    a, b = torch.zeros(n, d).double(), torch.zeros(n, d).double()
    a[:-1, 0], b[-1, 1:] = 1, 1
    return a / math.sqrt(n - 1), b / math.sqrt(d - 1)


def exact(a, w, v):
    return v <= 1 or w * a * a < math.atanh(1 / v)


def spread_of_differences(a, quarter=lambda x: math.tanh(x / 4)):
    d = a[:, None] - a[None]
    return quarter(float((d.amax(-1) - d.amin(-1)).max()))


QUESTIONS = {
    "constant": [
        (5 / 3, "Right"),
        (10 / 3, "their mean"),
        (1.5, "inverse belongs"),
        (41 / 9, "fourth root"),
        (1, "triangle inequality"),
        (7, "nd = 81"),
    ],
    "pair": [
        (extremal, "Right"),
        (lambda n, d: (torch.zeros(n, d), torch.zeros(n, d)), "zero"),
        (lambda n, d: (torch.ones(n, d), torch.ones(n, d)), "same ratio"),
        (lambda n, d: extremal(n, d, scale=1), "differ in norm"),
        (lambda n, d: extremal(n, d, sign=-1), "cancel"),
        (apart, "meet in one entry"),
        (lambda n, d: (torch.ones(d), torch.ones(n)), "were wanted"),
    ],
    "collapses": [
        (exact, "Right"),
        (lambda a, w, v: math.sqrt(2) * a < 1, "unit in which"),
        (lambda a, w, v: 8 * w * v * a * a < 1, "bound of Theorem 2.2"),
        (lambda a, w, v: v <= 1, "v alone"),
        (lambda a, w, v: not exact(a, w, v), "wrong way round"),
        (lambda a, w, v: w * a * a < math.atanh(1 / v), "stops with an error"),
        (lambda a, w, v: True, "look at a ="),
    ],
    "factor": [
        (spread_of_differences, "Right"),
        (
            lambda a: math.tanh(float((a.amax(-1) - a.amin(-1)).max()) / 4),
            "spread of the rows",
        ),
        (lambda a: math.tanh(float((a[:, None] - a[None]).max()) / 4), "largest entry"),
        (lambda a: spread_of_differences(a, float), "the spread itself"),
        (lambda a: spread_of_differences(a, math.tanh), "quarter is missing"),
        (
            lambda a: spread_of_differences(a, lambda x: x / 4),
            "upper bound of the factor",
        ),
        (lambda a: 0.0, "subtract two rows"),
    ],
}


def leading(r, s, w_qk, w):
    centred = r - s @ r
    return r @ w_qk @ centred.T @ (s[:, None] * centred) @ w


def heard_of(steps, t, *, backwards=False, keeping=False):
    sets = [{k} for k in range(len(steps[0]))]
    for layer in range(t)[:: -1 if backwards else 1]:
        kept = sets if keeping else [()] * len(sets)
        sets = [
            set(own).union(*(sets[j] for j in row))
            for own, row in zip(kept, steps[layer % len(steps)])
        ]
    return sets


COLLAPSE = {
    "norm": [
        (12**0.5, "Right"),
        (6, "mean of the tokens away"),
        (12, "forgot the square root"),
        (3.5, "geometric mean"),
        (4, "column sum alone"),
        (3, "row sum alone"),
        (17, "subtract \\(2, 2\\)"),
    ],
    "layers": [
        (5, "Right"),
        (100, "decades triples"),
        (99, "decades triples"),
        (7, "its own cube"),
        (4, "81 decades"),
        (6, "sends q to q\\^3"),
    ],
    "leading": [
        (leading, "Right"),
        (lambda r, s, w_qk, w: r @ w_qk @ r.T @ (s[:, None] * r) @ w, "second moment"),
        (lambda r, s, w_qk, w: leading(r, s, w_qk.T, w), "transposed"),
        (
            lambda r, s, w_qk, w: leading(r, torch.ones_like(s) / len(s), w_qk, w),
            "1/n instead of s",
        ),
        (
            lambda r, s, w_qk, w: leading(r, s, w_qk, torch.eye(3, dtype=r.dtype)),
            "are missing",
        ),
        (lambda r, s, w_qk, w: r, "not a mistake that is known"),
    ],
}


def keeps(values, strengths, size, *, quarter=4, power=2, squash=math.tanh, add=sum):
    return 1 - add(
        v * squash(w * size**power / quarter) for v, w in zip(values, strengths)
    )


def factors(x, *, by=None, centre=True, power=0.5, inverse=True):
    n, d = x.shape
    right = torch.eye(d, dtype=x.dtype) - 1 / d
    deviations = ((x @ right).square().sum(1) / (by or d)) ** power
    return torch.diag(
        1 / deviations if inverse else deviations
    ), right if centre else torch.eye(d, dtype=x.dtype)


ESCAPING = {
    "keeps": [
        (keeps, "Right"),
        (lambda v, w, s: 1 - keeps(v, w, s), "That is c"),
        (lambda v, w, s: 1 - sum(v), "bound with a mask"),
        (lambda v, w, s: keeps(v, w, s, quarter=1), "quarter"),
        (lambda v, w, s: keeps(v, w, s, power=1), "square the diameter"),
        (lambda v, w, s: keeps(v, w, s, squash=float), "theorem has tanh"),
        (lambda v, w, s: keeps(v, w, s, add=max), "strongest head alone"),
        (
            lambda v, w, s: math.prod(keeps([a], [b], s) for a, b in zip(v, w)),
            "factors belong to layers",
        ),
        (lambda v, w, s: 7.0, "sum over the heads"),
    ],
    "slope": [
        (3, "Right"),
        (1 / 3, "must undo it"),
        (2, "threshold for e\\^2w = 3"),
        (5 / 3, "1 / tanh\\(2w\\)"),
        (0.5, "back to 1"),
        (2 / math.log(2), "less than w"),
        (7, "write tanh"),
    ],
    "factors": [
        (factors, "Right"),
        (lambda x: factors(x, power=1), "take its root"),
        (
            lambda x: (
                factors(x)[0] @ x @ factors(x)[1] @ torch.linalg.pinv(x),
                torch.eye(3).double(),
            ),
            "the factors are not",
        ),
        (lambda x: factors(x, by=2), "divides by d"),
        (lambda x: factors(x, by=1), "mean of the squares"),
        (lambda x: factors(x, centre=False), "not centred"),
        (lambda x: factors(x, inverse=False), "their inverse"),
        (lambda x: factors(x)[::-1], "must be 5 x 5 and 3 x 3"),
        (
            lambda x: (torch.eye(5, dtype=x.dtype), torch.eye(3, dtype=x.dtype)),
            "not a mistake that is known",
        ),
    ],
    "depth": [
        (20, "Right"),
        (19, "not yet below"),
        (6, "decade a layer"),
        (13, "factor 1/2"),
        (3, "cube"),
        (21, "One layer too many"),
        (100, "half of itself"),
    ],
}


def law(x, y, k, kappa, *, square=2, fourth=1, rows=1, root=1):
    """The variance with the given mistakes."""
    value = (
        (x @ x) * (y @ y)
        + (x @ y) ** square * (square > 0)
        + fourth * (kappa - 3) * (x * x) @ (y * y)
    )
    return (value / k**rows) ** root


def rows_for(pairs, gap=0.032, factor=2):
    return math.ceil(4 * math.log(factor * pairs / 0.01) / gap)


PROJECTIONS = {
    "dimension": [
        (rows_for(64000), "Right"),
        (rows_for(1), "one inner product"),
        (rows_for(1000), "rows only"),
        (rows_for(1064), "their product"),
        (rows_for(64000, 0.04), "the cube"),
        (rows_for(64000, factor=4), "polarisation"),
        (rows_for(64000, factor=1), "factor 2"),
        (7, "Not yet: solve"),
        (rows_for(64000) - 1, "round up"),
        (rows_for(64000) + 1, "round up"),
        ("2046", "A number"),
    ],
    "variance": [
        (law, "Right"),
        (lambda *a: law(*a, fourth=0), "term with kappa"),
        (lambda *a: law(*a, square=0), "square of the inner product is missing"),
        (lambda *a: law(*a, square=1), "stands squared"),
        (lambda *a: law(*a, rows=0), "Divide by k"),
        (lambda *a: law(*a, root=0.5), "standard deviation"),
        (lambda *a: 3.0, "not a mistake that is known"),
        (lambda x, y, k, kappa: law(x, y, k, 1.0), "not a mistake that is known"),
        (lambda x, y, k, kappa: law(x, y, 4, kappa), "not a mistake that is known"),
        (
            lambda x, y, k, kappa: law(x, y, k, 3 - 2 * kappa),
            "not a mistake that is known",
        ),
        (
            lambda *a: law(*a).float() if torch.is_tensor(law(*a)) else law(*a) + 1,
            "not a mistake that is known",
        ),
        (lambda *a: None, "one number"),
        (lambda *a: "1", "one number"),
        (lambda x, y, *a: x, "one number"),
    ],
    "surrogate": [
        (lambda p, w: torch.outer(p @ w, w) / (w @ w), "Right"),
        (lambda p, w: torch.outer(p @ w, w), "Divide by w'w"),
        (lambda p, w: torch.outer(w, p @ w) / (w @ w), "transposed"),
        (lambda p, w: p, "rank is 4"),
        (lambda p, w: torch.ones_like(p), "does not map w"),
        (lambda p, w: p @ w, "was wanted"),
        (lambda p, w: None, "was wanted"),
        (lambda p, w: torch.outer(p @ w, w.zero_() + 1), "does not map w"),
        (lambda p, w: p.float(), "float64"),
        (lambda p, w: p / 0, "finite"),
    ],
    "shrink": [
        (0.2, "Right"),
        (1.0, "no shrinkage"),
        (0.8, "left of the squared error"),
        (128 / 511, "k / n"),
        (0.25, "forgot the 1"),
        (3.0, "Not yet: the mean square"),
        ("0.2", "A number"),
    ],
}


def wide(x, attention, weights, *, start=None, layers=slice(None)):
    """X, or what is given, and all heads of the given layers on X."""
    heads = sum(mix(x, P, W) for P, W in zip(attention[layers], weights[layers]))
    return (x if start is None else start) + heads


def deep(x, attention, weights):
    for P, W in zip(attention, weights):
        x = x + mix(x, P, W)
    return x


def symmetric(s, start=(1,)):
    e = list(start)
    for v in s:
        e = [a + v * b for a, b in zip([*e, 0], [0, *e])]
    return e


def symmetric_in_place(s):
    e = [1, 0, 0, 0]
    for v in s:
        for k in (1, 2, 3):
            e[k] += v * e[k - 1]
    return e


def for_three(s):
    a, b, c = s
    return [1, a + b + c, a * b + a * c + b * c, a * b * c]


EFFICACY = {
    "largest": [
        (23, "Right"),
        (24, "only if H >= L"),
        (22, "without its fraction"),
        (12, "middle of binom"),
        (20, "fall below 1"),
    ],
    "first_order": [
        (wide, "Right"),
        (lambda x, P, W: wide(x, P, W, start=0), "length 0 is missing"),
        (deep, "whole network"),
        (lambda x, P, W: wide(x, P, W, layers=slice(0, 1)), "only one layer"),
        (
            lambda x, P, W: wide(x, P, W, layers=slice(0, 3, 2)),
            "first and the last layer",
        ),
        (lambda x, P, W: wide(x, P, W, start=3 * x), "once for each layer"),
        (
            lambda x, P, W: (
                x + sum(P[h][l] @ x @ W[h][l] for l in range(3) for h in range(2))
            ),
            "names the layer first",
        ),
        (lambda x, P, W: x + P.sum((0, 1)) @ x, "are missing"),
        (lambda x, P, W: x, "not a mistake that is known"),
    ],
    "bounds": [
        (symmetric, "Right"),
        (lambda s: [math.comb(3, k) * 2**k for k in range(4)], "mean\\^k"),
        (lambda s: [6**k / math.factorial(k) for k in range(4)], "one layer twice"),
        (symmetric_in_place, "in place"),
        (lambda s: symmetric(s)[1:], "e_0 = 1 is missing"),
        (lambda s: [sum(v**k for v in s) for k in range(4)], "power sums"),
        (lambda s: [1], "multiply out"),
        (for_three, "but not for"),
        (lambda s: symmetric([v for v in s if v]), "but not for"),
    ],
    "scores": [
        (([2, 3, 0], [2, 0, 3]), "Right"),
        (([1, 1, 0], [1, 0, 1]), "level with the largest"),
        (([1, 2], [1, 2, 3]), "one score for each class"),
        (([0, 1], [0, 1]), "two classes"),
        (([3, 1, 0], [0, 1, 0]), "right by itself"),
        (([0, 3, 0], [0, 0, 3]), "not right yet"),
    ],
}

LOWRANK = {
    "ranks": [
        ((3, 5), "Right"),
        ((5, 3), "order is"),
        ((2, 5), "0.897, which"),
        ((3, 4), "0.889, which"),
        ((2, 4), "Do not round"),
        ((1, 1), "four small ones"),
        ((5, 5), "That is the rank"),
        ((7, 7), "singular values are 1"),
    ],
    "projections": [
        (
            lambda k, v, s, t: (s @ torch.linalg.pinv(k), t @ torch.linalg.pinv(v)),
            "Right",
        ),
        (lambda k, v, s, t: (s @ k.T, t @ v.T), "no inverse"),
        (
            lambda k, v, s, t: (s @ torch.linalg.pinv(k), t @ torch.linalg.pinv(k)),
            "invert V",
        ),
        (
            lambda k, v, s, t: (t @ torch.linalg.pinv(k), s @ torch.linalg.pinv(v)),
            "exchanged",
        ),
        (
            lambda k, v, s, t: (
                s @ torch.linalg.pinv(torch.cat([k, v], 1))[:2],
                t @ torch.linalg.pinv(torch.cat([k, v], 1))[2:],
            ),
            "full column rank",
        ),
        (
            lambda k, v, s, t: (k @ torch.linalg.pinv(s), t @ torch.linalg.pinv(v)),
            "E must be 2 x 3",
        ),
        (
            lambda k, v, s, t: (s @ torch.linalg.pinv(k), v @ torch.linalg.pinv(t)),
            "F must be 2 x 3",
        ),
        (
            lambda k, v, s, t: (torch.zeros(2, 3).double(), torch.zeros(2, 3).double()),
            "not a mistake that is known",
        ),
    ],
    "zero": [
        (256, "Right"),
        (128, "enters squared"),
        (16, "divides"),
        (64, "epsilon = 1"),
        (1024, "fourth power"),
        (7, "s = 1"),
    ],
    "chances": [
        (lambda p, v: share(p.norm(dim=0) * v.norm(dim=1)), "Right"),
        (lambda p, v: p.norm(dim=0) * v.norm(dim=1), "Divide by the sum"),
        (lambda p, v: torch.full((4,), 0.25).double(), "equal size"),
        (lambda p, v: share(p.norm(dim=0)), "norms of the values"),
        (lambda p, v: share(v.norm(dim=1)), "columns of P are missing"),
        (lambda p, v: share((p.norm(dim=0) * v.norm(dim=1)) ** 2), "squared norms"),
        (lambda p, v: share(p.sum(0) * v.norm(dim=1)), "not its norm"),
        (lambda p, v: share(torch.arange(4).double()), "not a mistake that is known"),
    ],
}


def share(c):
    return c / c.sum()


def union(a, N):
    return torch.softmax(a.masked_fill(N == 0, -math.inf), -1)


COMPLEXITY = {
    "tie": [
        (256, "Right"),
        (257, "no more"),
        ([256], "yours is list"),
        (128, "left out the projections"),
        (512, "projections twice"),
        (64, "other side"),
        (100, "equal to 4 n"),
    ],
    "stride": [
        (64, "Right"),
        ([64], "yours is list"),
        (8192**0.5, "root of n"),
        (128, "wrong side"),
        (10, "minimise"),
    ],
    "hop": [
        (lambda i, j, l: j + (i - j) % l, "Right"),
        (lambda i, j, l: j + (i - j) // l, "does not read your k"),
        (lambda i, j, l: i, "does not read j"),
        (lambda i, j, l: i + 1, "Nobody reads the future"),
        (lambda i, j, l: i / 1, "yours is float"),
    ],
    "merge": [
        (union, "Right"),
        (lambda a, N: torch.softmax(a + N.log(), -1), "correction is missing"),
        (lambda a, N: torch.softmax(a, -1), "mask it"),
        (lambda a, N: union(a - N.clamp_min(1).log(), N), "corrected twice"),
        (lambda a, N: a.exp() * (N > 0), "sum to one"),
        (lambda a, N: a, "not a mistake that is known"),
        (
            lambda a, N: torch.softmax(a.masked_fill(a == a.max(), -math.inf), -1),
            "not a mistake that is known",
        ),
        (
            lambda a, N: torch.softmax(a.masked_fill(N.min() == N, -math.inf), -1),
            "not a mistake that is known",
        ),
        (lambda a, N: union(a.float(), N), "yours is torch.float32"),
    ],
}


def shortest(keys, y):
    return keys.T @ torch.linalg.solve(keys @ keys.T, y)


def merged_tiles(m1, z1, m2, z2):
    m = max(m1, m2)
    return m, z1 * math.exp(m1 - m) + z2 * math.exp(m2 - m)


EXPRESSIVE = {
    "share": [
        (10 / 11, "Right"),
        (0.01, "a thousand of them"),
        (10, "Those are the odds"),
        (1 / 11, "share of the entry"),
        (0.5, "1000 zeros weight"),
        (10.01 / 11.01, "count the zeros again"),
    ],
    "query": [
        (shortest, "Right"),
        (lambda keys, y: keys.T @ y, "plain projection"),
        (lambda keys, y: keys.T @ (keys @ keys.T @ y), "solve with it"),
        (lambda keys, y: keys.T @ (y / (keys**2).sum(1)), "meet each other"),
        (
            lambda keys, y: (
                shortest(keys, y) + torch.linalg.qr(keys.T, mode="complete").Q[:, -1]
            ),
            "orthogonal to the keys",
        ),
        (lambda keys, y: y, "yours is"),
    ],
    "merge": [
        (merged_tiles, "Right"),
        (lambda m1, z1, m2, z2: (max(m1, m2), z1 + z2), "against another maximum"),
        (
            lambda m1, z1, m2, z2: (
                max(m1, m2),
                z1 * math.exp(m2 - m1) + z2 if m2 > m1 else z1,
            ),
            "sign is turned",
        ),
        (lambda m1, z1, m2, z2: (m1 + m2, z1 + z2), "larger of the two"),
        (
            lambda m1, z1, m2, z2: (math.log(math.exp(m1) + math.exp(m2)), 1.0),
            "larger of the two",
        ),
        (lambda m1, z1, m2, z2: (max(m1, m2), 7.0), "exp\\(-m\\) times"),
        (
            lambda m1, z1, m2, z2: (
                m2,
                z1 * math.exp(m1 - m2) + z2 if m1 < m2 else 0.0,
            ),
            "first tile has the maximum",
        ),
        (
            lambda m1, z1, m2, z2: (
                (m1, z1) if m1 > m2 else merged_tiles(m1, z1, m2, z2)
            ),
            "first tile has the maximum",
        ),
        (
            lambda m1, z1, m2, z2: (
                max(m1, m2),
                (z1 + z2 * math.exp(m2 - m1)) * math.exp(m1 - max(m1, m2)),
            ),
            "not positive",
        ),
        (
            lambda m1, z1, m2, z2: (
                max(m1, m2),
                (z1 + z2 * torch.tensor(m2 - m1, dtype=torch.float64).exp())
                * math.exp(m1 - max(m1, m2)),
            ),
            "not positive",
        ),
        (lambda *_: 3, "two numbers"),
    ],
    "dimension": [
        (227, "Right"),
        (117, "pairs that may go wrong"),
        (222, "1/2 is missing"),
        (99, "natural one"),
        (226, "Round up"),
        (10**6, "trivial dimension"),
        (5, "last line of the theorem"),
    ],
}


def edge_queries(n, gap, *, turn=0.5, sign=1, factor=None):
    middle = 2 * math.pi / n * (torch.arange(n, dtype=torch.float64) + turn)
    s = gap * (factor or 1 / (math.cos(math.pi / n) - math.cos(3 * math.pi / n)))
    return sign * s * torch.stack([middle.cos(), middle.sin()], 1)


def on_a_line(rows, n, *, ends=None, complements=True):
    for x in range(n) if ends is None else ends:
        chain = sorted(
            (r if x in r or not complements else set(range(n)) - r for r in rows),
            key=len,
        )
        if all(a <= b for a, b in zip(chain, chain[1:])):
            return True
    return False


def two_families(rows, n):
    """Every two rows nested or disjoint, and at most two rows in no other: not the
    condition.
    """
    nested = all(a <= b or b <= a or not a & b for a in rows for b in rows)
    return (
        nested
        and len({frozenset(a) for a in rows if not any(a < b for b in rows)}) <= 2
    )


CODES = {
    "circle": [
        (2.0, "Right"),
        (0.5, "is its inverse"),
        (5 / 6, "simplex"),
        (1, "cross-polytope"),
        (1.824, "for large n"),
        (7.464, "halved the angle"),
        (9, "regular hexagon"),
    ],
    "edges": [
        (edge_queries, "Right"),
        (lambda n, gap: edge_queries(n, gap)[:3], "One query a row"),
        (lambda n, gap: edge_queries(n, gap, turn=0), "half-way between two keys"),
        (lambda n, gap: edge_queries(n, gap, sign=-1), "points outwards"),
        (lambda n, gap: edge_queries(n, gap, factor=1), "too small"),
        (lambda n, gap: edge_queries(n, gap, factor=99), "too long"),
        (
            lambda n, gap: (
                edge_queries(n, gap) * torch.tensor([1.0] + [100.0] * (n - 1))[:, None]
            ),
            "too long",
        ),
        (lambda n, gap: edge_queries(n, 2.0), "too long"),
        (lambda n, gap: edge_queries(12, gap), "One query a row"),
        (lambda n, gap: torch.full((n, 2), math.nan), "logits of a pair differ"),
    ],
    "dimension": [
        (13, "Right"),
        (12, "round up"),
        (20, "log2 n"),
        (14, "divide by ln 3"),
        (93, "lower bound was asked"),
        (5, r"s = 2T"),
    ],
    "line": [
        (on_a_line, "Right"),
        (lambda rows, n: False, "ordered along|order the keys along"),
        (lambda rows, n: on_a_line(rows, n, complements=False), "use complements"),
        (lambda rows, n: True, "never be alone"),
        (lambda rows, n: max(map(len, rows)) > 1, "overlapping pairs"),
        (lambda rows, n: on_a_line(rows, n, ends=[0]), "every key as the end"),
        (two_families, "Not for . columns and the rows .*: they can"),
        (lambda rows, n: on_a_line(rows[:3], n), "they cannot be met on a line"),
    ],
}

PATTERNS = {
    "count": [
        (688, "Right"),
        (700, "each end have fewer"),
        (694, "there are two ends"),
        (588, "self-loops are connections"),
        (672, "an end lacks"),
        (1444, "7 is the total width"),
        (3, "Not yet"),
        ([688], "yours is list"),
    ],
    "heard": [
        (heard_of, "Right"),
        (lambda steps, t: heard_of(steps, t, backwards=True), "run backwards"),
        (lambda steps, t: heard_of(steps[:1], t), "Only the first step"),
        (lambda steps, t: heard_of(steps, t, keeping=True), "forgets"),
        (lambda steps, t: heard_of(steps, min(t, 3 * len(steps))), "goes on"),
        (lambda steps, t: heard_of(steps, t + 1), "one layer too many"),
        (lambda steps, t: heard_of(steps, t - 1), "one layer too few"),
        (
            lambda steps, t: heard_of(
                [
                    [
                        [k for k, row in enumerate(step) if j in row]
                        for j in range(len(step))
                    ]
                    for step in steps
                ],
                t,
            ),
            "turned round",
        ),
        (lambda steps, t: [set()] * len(steps[0]), "Not yet"),
        (lambda steps, t: 3, "yours is int"),
    ],
    "design": [
        (
            library.build(
                20, *(library.Window(2, 0, 3**l, wrap=True) for l in range(3))
            ),
            "Right",
        ),
        (7, "A Pattern of 20 tokens"),
        (library.star(9), "yours is 9"),
        (library.star(20), "yours has 94"),
        (library.dilation_cycle(20), "s = 5"),
        (library.causal(library.window(20, 3)), "hops fails"),
    ],
    "repair": [
        (library.fixed(10, 4, closed=True), "Right"),
        (library.fixed(10, 4), "does not hear"),
        (library.dense(10), "two steps"),
        (library.fixed(10, 5), "are gone from step 0"),
        (library.build(10, library.Window(9, 9), library.Window(9, 9)), "At most 10"),
        (
            library.build(
                10,
                library.Blocks(4),
                [
                    *library.fixed(10, 4).steps[1].parts,
                    library.from_sets([[0, 9], *([k] for k in range(1, 10))])
                    .steps[0]
                    .parts[0],
                ],
            ),
            "now s = ",
        ),
    ],
}


def read(
    y, n_ids, lows, *, in_interval=True, carry=True, backwards=False, from_low=True
):
    """The reading of an id, with the given mistakes."""
    x = []
    for low in reversed(lows):
        x.append(low + (y - low * from_low) % n_ids if in_interval else y % n_ids)
        y = x[-1] + (y - x[-1]) // n_ids if carry else y // n_ids
    return x if backwards else x[::-1]


def bump(x, ident, ramp, *, start=-1.0, scale=1.0, down=True):
    t = x - ident

    def rise(knot):
        return (torch.relu(t - knot) - torch.relu(t - knot - ramp)) / ramp

    low, high = (-0.5 - ramp, 0.5 - ramp) if start < 0 else (-0.5, 0.5)
    return scale * (rise(low) - down * rise(high))


def waiting(ids, *, knot=0.75, least=0):
    return max(
        [least, *(j - i + knot for k, i in enumerate(ids) for j in ids[k + 1 :])]
    )


UNIVERSAL = {
    "sweep": [
        (105, "Right"),
        (30, "go on to token 3"),
        (100, "keeps the old id"),
        (21, "reads the moved id"),
        (120, "subtract"),
        (7, "then the same with y_2"),
    ],
    "read": [
        (read, "Right"),
        (lambda y, n, lows: read(y, n, lows, backwards=True), "backwards"),
        (lambda y, n, lows: read(y, n, lows, in_interval=False), "interval is not"),
        (lambda y, n, lows: read(y, n, lows, carry=False), "x_n is right"),
        (lambda y, n, lows: read(y, n, lows, from_low=False), "above low lie"),
        (lambda y, n, lows: [y + 1] * len(lows), "same residue modulo N"),
        (lambda y, n, lows: y, "list of 3 integers"),
    ],
    "layers": [
        (5175, "Right"),
        (35, "attention layers alone"),
        (5120, "value layers alone"),
        (55, "by far the most"),
        (5155, "quantiser is missing"),
        (5140, "attention layers are missing"),
        (5159, "two layers on each value"),
        (5172, "all-max layers are missing"),
        (1079, "one token of one input"),
        (5183, "n - 1 tokens are"),
        (7, "Not yet: d n K"),
    ],
    "scale": [
        (2 * math.log(16e6), "Right"),
        (math.log(16e6), "Divide by the gap"),
        (math.log(16e6) / 2, "multiplied by the gap"),
        (2 * math.log(17e6), "winner is not one"),
        (2 * math.log(1e6), "leak together"),
        (2 * math.log10(16e6), "natural one"),
        (1.0, "Not yet: solve"),
    ],
    "bump": [
        (bump, "Right"),
        (lambda x, i, r: bump(x, i, r, scale=r), "Divide by the ramp"),
        (lambda x, i, r: bump(x, i, r, start=1), "other way round"),
        (lambda x, i, r: bump(x, i, r, down=False), "never comes down"),
        (lambda x, i, r: ((x >= i - 0.5) & (x < i + 0.5)).double(), "ReLUs give ramps"),
        (lambda x, i, r: 0 * x, "not a mistake that is known"),
    ],
    "share": [
        (1 - 0.99**8, "Right"),
        (0.08, "upper bound"),
        (0.99**8, "without an entry"),
        (1 - 0.99**4, "two entries"),
        (0.01, "one entry"),
        (1 - 0.98**8, "one ramp"),
        (0.5, "safe with chance"),
    ],
    "hidden": [
        (waiting, "Right"),
        (lambda ids: max(ids) - min(ids) + 0.75, "have left"),
        (lambda ids: waiting(ids, knot=0), "3/4 below"),
        (lambda ids: waiting(ids, least=-1e9), "not negative"),
        (lambda ids: 7, "it is 4.75"),
        (
            lambda ids: max([0] + [b - a + 0.75 for a, b in zip(ids, ids[1:])]),
            r"for \[5, 7, 9\] it is 4.75",
        ),
    ],
}

BOLTZMANN = {
    "slope": [
        (slope_of_boltz, "Right"),
        (lambda a, i: torch.softmax(a, 0)[i], "weights fixed"),
        (lambda a, i: slope_of_boltz(a, i, one=0), "summand 1 is missing"),
        (lambda a, i: slope_of_boltz(a, i, sign=-1), "sign is turned"),
        (lambda a, i: slope_of_boltz(a, i) / torch.softmax(a, 0)[i], "factor p_i"),
        (
            lambda a, i: slope_of_boltz(a, 1) if len(a) == 3 else a[0] ** 3,
            "Not yet: differentiate",
        ),
        (lambda a, i: a, "tensor of shape"),
    ],
    "twins": [
        (((0, 1, 4, 7, 9), (0, 2, 4, 6, 9)), "Right"),
        (((0, 1, 4), (0, 2, 4)), "five different"),
        (((0, 1, 1, 7, 9), (0, 2, 4, 6, 9)), "five different"),
        (((0, 1.5, 4, 7, 9), (0, 2.5, 4, 6, 9)), "Whole"),
        (((0, 1, 4, 7, 9), (9, 7, 4, 1, 0)), "same set"),
        (((0, 1, 4, 7, 9), (1, 2, 4, 6, 8)), "ends differ"),
        (((0, 1, 4, 7, 9), (0, 2, 4, 7, 9)), "sums differ"),
        (((0, 1, 2, 3, 1e17), (0, 1, 2, 4, 1e17)), "sums differ"),
        (((0, 1, 4, 7, 9),), "five different"),
        (((0, 1, 4, 7, math.inf), (0, 2, 4, 6, math.inf)), "plain numbers"),
        (((0, 1, 4, 7, math.nan),) * 2, "plain numbers"),
        (torch.tensor([[0, 1, 4, 7, 9], [0, 2, 4, 6, 9]]), "plain numbers"),
        (5, "plain numbers"),
    ],
    "near_miss": [
        ((1, Fraction(1, 2)), "Right"),
        ((2, 2), "take half"),
        ((1, 2), "halve the root too"),
        ((1, Fraction(1, 4)), "not of 1/4"),
        ((2, Fraction(1, 2)), "halve the 2 too"),
        ((1, 0), "plain mean"),
        ((1, -1), "at least 0"),
        ((math.cosh(1.1283839649663), 0), "digits"),
        ((1 + math.sqrt(0.5), 0), "digits"),
        (math.acosh(1 + math.sqrt(0.5)), "A pair"),
        ((1, 2, 3), "A pair"),
        ((math.nan, 1), "A pair"),
        ((10**999, 1), "A pair"),
        ((3, 3), "divide the quartic"),
    ],
    "base": [
        (5, "Right"),
        (6, "n \\+ 1"),
        (4, "b = 4"),
        (3, "b = 3"),
        (2, "b = 2"),
        (1, "the same"),
        (7, "look for two"),
    ],
}


def passes(v, vocabulary, *, zero=True, relative=True, level=1.0):
    count, d = vocabulary.shape
    points = [*vocabulary, torch.zeros(d, dtype=v.dtype)] if zero else list(vocabulary)
    least = level * math.sqrt(8 / (math.pi * d)) / (count + 1) ** 2
    gaps = [
        (v @ (x - y), (x - y).norm() if relative else 1.0)
        for i, x in enumerate(points)
        for y in points[:i]
    ]
    return all(abs(a) >= least * far for a, far in gaps)


def absolute(v, vocabulary):
    return all(
        abs(v @ (x - y)) >= 0.005
        for i, x in enumerate([*vocabulary, 0 * v])
        for y in [*vocabulary, 0 * v][:i]
    )


def context_id(z, c, beta, *, logits=lambda z, c, beta: beta * z[c] * z):
    return torch.softmax(logits(z, c, beta), 0) @ z


IDS = {
    "factor": [
        ((2 * math.log(2) + 3) / 0.5, "Right"),
        (2 * math.log(2) + 3, "Divide by g"),
        ((2 * math.log(2) + 3) / 0.25, "Twice too much"),
        ((2 * math.log(2) + 3) / 1.5, "you took others"),
        ((3 * math.log(2) + 3) / 0.5, "for multisets"),
        ((2 * math.log(3) + 3) / 0.5, "not in the vocabulary"),
        (1.0, "Not yet"),
    ],
    "passes": [
        (passes, "Right"),
        (lambda v, V: False, "along v pass"),
        (lambda v, V: True, "same v.x"),
        (lambda v, V: passes(v, V, zero=False), "zero too"),
        (lambda v, V: V[0] @ v > 0 and passes(v, V), "absolute values"),
        (absolute, "at distance 9"),
        (lambda v, V: passes(v, V, relative=False), "divide by"),
        (lambda v, V: passes(v, V, level=1.2), "yours is too high"),
        (lambda v, V: passes(v, V, level=0.8), "yours is too low"),
        (lambda v, V: passes(torch.eye(len(v)).to(v)[0], V), "no axis"),
        (
            lambda v, V: passes(
                v, V, level=(len(V) + 1) ** 2 * math.sqrt(len(v) / 2) / 9
            ),
            "too high for K = 3",
        ),
        (
            lambda v, V: passes(v, V, level=math.sqrt(len(v) / len(V))),
            "too high for K = 3",
        ),
        (
            lambda v, V: passes(
                v,
                V,
                level=math.sqrt(math.pi * len(v) / 8)
                * (len(V) + 1) ** 2
                / (len(V) * (len(V) + 1) + len(v)),
            ),
            "too high for K = 3",
        ),
        (lambda v, V: passes(v, V, level=math.sqrt(2 / len(v))), "too low for K = 3"),
    ],
    "context": [
        (context_id, "Right"),
        (
            lambda z, c, beta: context_id(z, c, beta, logits=lambda z, c, b: b * z),
            "query is missing",
        ),
        (
            lambda z, c, beta: context_id(z, c, beta, logits=lambda z, c, b: z[c] * z),
            "beta is missing",
        ),
        (
            lambda z, c, beta: context_id(
                z, c, beta, logits=lambda z, c, b: -b * z[c] * z
            ),
            "sign of the logits",
        ),
        (lambda z, c, beta: beta * z[c] * context_id(z, c, beta), "divide by beta"),
        (lambda z, c, beta: z[c] + context_id(z, c, beta), "added the token"),
        (lambda z, c, beta: z.mean(), "plain mean"),
        (lambda z, c, beta: z.max(), "hardmax"),
        (lambda z, c, beta: 0.0, "Not yet"),
        (lambda z, c, beta: context_id(z, c, beta) if c == 1 else 0.0, "Not yet"),
    ],
    "collision": [
        (({1, 4, 7}, {2, 4, 6}), "Right"),
        (({4, 1}, {4, 2, 3}), "three different"),
        (({1, 2, 6}, {1, 3, 5}), "hold the token 4"),
        (({1, 4, 7}, {7, 4, 1}), "are the same"),
        (({1, 4, 7}, {2, 4, 7}), "their means are 4 and 13/3"),
        (({0, 4, 8}, {2, 4, 6}), "from 1 to 7"),
        (([1, 4, 4, 7], [4, 5, 7]), "three different"),
        (([4, 4, 4, 1, 2, 1], [4, 5, 7]), "three different"),
    ],
}


def coefficient_list(t, y, start, *, first=True, sign=1):
    rise = torch.diff(y, prepend=y.new_zeros(1)) / torch.diff(
        t, prepend=t.new_tensor([start if first else 0.0])
    )
    return sign * torch.diff(rise, prepend=rise.new_zeros(1))


def shares(w, s):
    most = math.gcd(*Counter(s).values())
    return w, frozenset((u, c // most) for u, c in Counter(s).items())


def memorable(words, tags, *, key=shares, within=True):
    known = {}
    for s, t in zip(words, tags):
        marks = list(zip(s, t)) if within else list(dict(zip(s, t)).items())
        if any(known.setdefault(key(w, s), m) != m for w, m in marks):
            return False
    return True


def one_order(words, tags):
    """Refuses any two orders of one multiset."""
    return memorable(words, tags) and len({tuple(sorted(s)) for s in words}) == len(
        {tuple(s) for s in words}
    )


MEMORIZATION = {
    "coefficients": [
        (coefficient_list, "Right"),
        (
            lambda t, y, s: (
                torch.diff(y, prepend=y.new_zeros(1))
                / torch.diff(t, prepend=t.new_tensor([s]))
            ),
            "Those are the slopes",
        ),
        (lambda t, y, s: coefficient_list(t, y, s, sign=-1), "sign is turned"),
        (
            lambda t, y, s: y / torch.diff(t, prepend=t.new_tensor([s])),
            "labels themselves",
        ),
        (lambda t, y, s: y, "Not yet"),
        (lambda t, y, s: y[1:], "yours is"),
        (lambda t, y, s: coefficient_list(t, y, s, first=False), "beginning at"),
        (lambda t, y, s: None, "no tensor"),
        ([3.0, -5.0, 4.0], "A function"),
    ],
    "growth": [
        (91, "Right"),
        (90, "Round up"),
        (16, "by ten"),
        (41, "factor 1 / theta;"),
        (73, "factor 1 / \\(1"),
        (5, "Not yet"),
        ([91], "One number"),
    ],
    "parameters": [
        (16100, "Right"),
        (8100, "not both"),
        (16064, "left out the attention"),
        (16036, "takes the skip away"),
        (17108, "counted the biases"),
        (1700, "n N of them"),
        (3, "Not yet"),
        ((16100,), "One number"),
    ],
    "contradictions": [
        (memorable, "Right"),
        (lambda words, tags: False, "Nothing contradicts"),
        (
            lambda words, tags: memorable(words, tags, key=lambda w, s: w),
            "what context is for",
        ),
        (
            lambda words, tags: memorable(words, tags, key=lambda w, s: (w, tuple(s))),
            "in another order",
        ),
        (one_order, "keeps its tag"),
        (
            lambda words, tags: memorable(
                words, tags, key=lambda w, s: (w, frozenset(s))
            ),
            "Repeated words count",
        ),
        (
            lambda words, tags: memorable(
                words, tags, key=lambda w, s: (w, tuple(sorted(s)))
            ),
            "sees only shares",
        ),
        (
            lambda words, tags: memorable(
                words, tags, key=lambda w, s: (w, frozenset(s), s.count(w) / len(s))
            ),
            "company differs",
        ),
        (lambda words, tags: None, "returned nothing"),
        ([True, False], "A function"),
        (lambda words, tags: memorable(words, tags, within=False), "same output twice"),
    ],
}


REVIEWERS = {
    "ids": [
        ((8, 64), "Right"),
        ((5, 64), "number of multisets"),
        ((16, 64), "number of sequences"),
        ((20, 64), "equal ids"),
        ((2, 64), "Those are the tokens"),
        ((7, 64), "Not yet"),
        (8, "A pair"),
        ((8, 64, 1), "A pair"),
        ((8, 16), "not each sequence"),
        ((8, 8), "times places"),
    ],
    "cells": [
        (300, "Right"),
        (600, "half a cell"),
        (301, "Equality"),
        (299, "too few"),
        (3, "divide by the error"),
        (7, "Not yet"),
        ([300], "One number"),
    ],
    "centre": [
        (lambda x, g: ((x * g).floor().clamp(max=g - 1) + 0.5) / g, "Right"),
        (lambda x, g: ((x * g).floor() + 0.5) / g, "Only x = 1"),
        (lambda x, g: (x * g).floor() / g, "left ends"),
        (lambda x, g: (x * g).round() / g, "borders"),
        (lambda x, g: x, "Not yet"),
        (lambda x, g: x[:1, None], "yours is"),
        (lambda x, g: None, "no tensor"),
        (0.5, "A function"),
    ],
}


def through_layers(masks, *, skip=True, back=False, turned=False):
    out = torch.eye(len(masks[0]), dtype=torch.bool)
    for mask in masks[::-1] if back else masks:
        step = ((mask.mT if turned else mask).float() @ out.float()) > 0
        out = step | out if skip else step
    return out


def ratio_of(hit):
    return sum(hit) / len(hit)


COPYING = {
    "count": [
        (4, "Right"),
        (3, "counted from 0"),
        (8, "in both halves"),
        (0, "block step alone"),
        (6, "That is w"),
        (23, "takes two layers"),
        (5, "Not yet"),
    ],
    "depth": [
        (lambda m, w: -(-m // (w - 1)), "Right"),
        (lambda m, w: -(-m // w), "w - 1 tokens back"),
        (lambda m, w: m // (w - 1), "Round up"),
        (lambda m, w: m // (w - 1) + 1, "too many"),
        (lambda m, w: 2, "yours says 2"),
        (
            lambda m, w: m // (w - 1) + m % 2,
            "m = 9 and w = 4 it takes 3 layers, yours says 4",
        ),
    ],
    "field": [
        (through_layers, "Right"),
        (lambda masks: through_layers(masks, back=True), "wrong order"),
        (lambda masks: through_layers(masks, skip=False), "skip is missing"),
        (lambda masks: through_layers(masks, turned=True), "exchanged"),
        (
            lambda masks: sum(masks).bool() | torch.eye(7, dtype=torch.bool),
            "one layer reads",
        ),
        (lambda masks: ~through_layers(masks), "not a mistake that is known"),
        (lambda masks: through_layers(masks).float(), "boolean tensor"),
        (lambda masks: 3, "boolean tensor"),
    ],
    "bound": [
        (lambda hit, v: ratio_of(hit) + (1 - ratio_of(hit)) / v, "Right"),
        (lambda hit, v: ratio_of(hit), "no chance"),
        (lambda hit, v: ratio_of(hit) + (1 - ratio_of(hit)) / (v + 1), "separator"),
        (lambda hit, v: ratio_of(hit) + 1 / v, "only the share"),
        (lambda hit, v: max(ratio_of(hit), 1 / v), "add up"),
        (lambda hit, v: 1 / v, "3/5, yours is 0.3333"),
    ],
}


def half_distance(p):
    return (p[:, None] - p[None]).abs().sum(-1) / 2


SYNTHESIS = {
    "rank": [
        (0.6, "Right"),
        (0.8, "entry itself"),
        (0.2, "rest of the row"),
        (1.6, "twice"),
        (0, "has a kernel"),
        (0.5, "Not yet"),
    ],
    "layers": [
        (26, "Right"),
        (25, "Round up"),
        (7, "factor 1/e"),
        (189, "length of the interval"),
        (9, r"tanh\(1/2\)"),
        (1, "Not yet"),
    ],
    "hops": [
        (32, "Right"),
        (3, "log_5"),
        (16, "four tokens"),
        (13, "five tokens"),
        (31, "63 places away"),
        (64, "not by one"),
        (63, "not by one"),
        (1, "every token reads all"),
        (20, "Not yet"),
    ],
    "coefficient": [
        (lambda p: 1 - torch.minimum(p[:, None], p[None]).sum(-1).min(), "Right"),
        (lambda p: 2 * half_distance(p).max(), "factor 1/2"),
        (lambda p: (p[:, None] - p[None]).abs().max(), "two entries"),
        (lambda p: 1 - half_distance(p).max(), "one minus"),
        (lambda p: half_distance(p.T).max(), "columns"),
        (lambda p: half_distance(p).mean(), "mean over pairs"),
        (lambda p: half_distance(p)[0].max(), "row 0 only"),
        (lambda p: half_distance(p).diagonal(1).max(), "neighbouring rows only"),
        (lambda p: half_distance(p), r"shape \(1,\) was wanted, yours is \(3, 3\)"),
        (lambda p: None, "yours is NoneType"),
        (lambda p: 0.5, "not a mistake that is known"),
    ],
}


ANSWERS = {  # each module of a chapter has its answers here
    paths: PATHS,
    collapse: COLLAPSE,
    escaping: ESCAPING,
    questions: QUESTIONS,
    projections: PROJECTIONS,
    efficacy: EFFICACY,
    lowrank: LOWRANK,
    complexity: COMPLEXITY,
    expressive: EXPRESSIVE,
    codes: CODES,
    patterns: PATTERNS,
    universal: UNIVERSAL,
    boltzmann: BOLTZMANN,
    ids: IDS,
    memorization: MEMORIZATION,
    reviewers: REVIEWERS,
    copying: COPYING,
    synthesis: SYNTHESIS,
}
EVERY = [(module, name) for module, answers in ANSWERS.items() for name in answers]


def label(value):
    return value.__name__.rpartition(".")[2] if hasattr(value, "__name__") else None


@pytest.mark.parametrize("module", ANSWERS, ids=label)
def test_every_exercise_is_fed(module):
    assert set(exercises.__all__) == {label(m) for m in ANSWERS}
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    public = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    assert public == set(ANSWERS[module])


@pytest.mark.parametrize(("module", "name"), EVERY, ids=label)
def test_nothing_tried(module, name):
    assert getattr(module, name)(None).startswith("Not tried yet")


@pytest.mark.parametrize(
    ("module", "name", "number"),
    [(m, n, i) for m, n in EVERY for i in range(len(ANSWERS[m][n]))],
    ids=label,
)
def test_answers(module, name, number):
    answer, words = ANSWERS[module][name][number]
    said = getattr(module, name)(answer)
    assert re.search(words, said), said
    assert (said == "Right.") == (number == 0)


def test_a_coefficient_may_be_a_plain_number():
    assert synthesis.coefficient(lambda p: float(half_distance(p).max())) == "Right."


def test_single_precision_is_precise_enough():
    assert codes.edges(lambda n, gap: edge_queries(n, gap).float()) == "Right."


LEAST = {
    ids: 18,
    paths: 18,
    collapse: 10,
    questions: 15,
    escaping: 15,
    projections: 15,
    efficacy: 21,
    lowrank: 19,
    complexity: 12,
    expressive: 16,
    codes: 15,
    boltzmann: 17,
    memorization: 10,
    reviewers: 12,
    copying: 14,
    patterns: 13,
    universal: 28,
    synthesis: 22,
}


@pytest.mark.parametrize(("module", "least"), LEAST.items(), ids=label)
def test_every_named_mistake_is_fed(module, least):
    """A sentence that no wrong answer reaches would be a sentence that nobody has
    tried.
    """
    found = ANSWERS[module]
    said = {
        getattr(module, name)(answer)
        for name, answers in found.items()
        for answer, _ in answers
    }
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    bodies = [
        node.body[1:]
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name in found
    ]
    words = [
        c.value
        for body in bodies
        for part in body
        for c in ast.walk(part)
        if isinstance(c, ast.Constant)
    ]
    sentences = [
        w for w in words if isinstance(w, str) and w.endswith(".") and len(w) > 20
    ]
    assert len(sentences) >= least
    assert [s for s in sentences if s not in said] == []
