"""The claims of the page `What is enough`.

Page: notebooks/sparse_patterns/what_is_enough
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, permutations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from attnbook.theorems import Case, claim
from attnbook.theorems.price_of_dimension import (
    ROUNDING,
    check_rows,
    cost,
    exact_rows,
    itself,
    moderate,
    paid_by,
    random_code,
)
from attnlib._require import numbers, require, sizes
from attnlib.certify import Verdict, at_least, at_most
from attnlib.codes import _chosen, margins, moment_keys
from attnlib.codes.exact import line_order
from attnlib.expressive import redraw

# --- redrawing: the dimension that the local lemma needs


def least_length(k: int) -> float:
    """kappa: a query of level l is at most sqrt(kappa) l long, if no two keys of its
    row lean on each other; a row of one key has |q| = l.
    """
    return 2 * k * k / (k + 1)


def chances(d: int, k: int, t: float) -> tuple[float, float]:
    """Bounds of the chance that two keys of a row lean on each other, and that a row
    and a column are in conflict though no two do.
    """
    leaning = math.comb(k, 2) * math.exp(-(d - 1) / (8 * k * k))
    conflict = math.exp(-(d - 1) * t * t / (2 * least_length(k))) / 2
    return leaning, conflict


def lemma_dimension(n: int, k: int, t: float) -> int:
    """The least d that (11.2) allows for n tokens, k columns a row, t = 1 - T / l."""
    _check_share(n, k, t)
    neighbours = math.e**2 * (k + 1) ** 2
    among_rows = 8 * k * k * math.log(max(1.0, neighbours * math.comb(k, 2)))
    conflicts = 2 * least_length(k) / t**2 * math.log(neighbours * n / 2)
    return 1 + math.ceil(max(among_rows, conflicts, k))


def union_dimension(n: int, k: int, t: float) -> int:
    """The least d at which the chances of the same events sum to less than one."""
    _check_share(n, k, t)
    low = 1
    high = 2
    while not _union(n, high, k, t):
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if _union(n, middle, k, t):
            high = middle
        else:
            low = middle
    return high


def _check_share(n: int, k: int, t: float) -> None:
    """Refuse sizes below 1 and a share outside of 0 and 1."""
    sizes(1, n=n, k=k)
    numbers(t=t)
    require(0 < t < 1, f"t must lie between 0 and 1, got {t}")


def _union(n: int, d: int, k: int, t: float) -> bool:
    leaning, conflict = chances(d, k, t)
    return n * leaning + n * n * conflict < 1


# --- objects: what the tests run the theorems on


def circulant(n=64, k=2, level=4.0, d=None, seed=0) -> dict:
    """A pattern with k entries in each row and in each column, and random keys in so
    many dimensions; those of the theorem by default.
    """
    g = torch.Generator().manual_seed(seed)
    shifts = torch.randperm(n, generator=g)[:k]
    columns = (torch.randperm(n, generator=g)[:, None] + shifts) % n
    if d is None:
        d = lemma_dimension(n, k, 1 - 1 / level)
    keys = torch.randn(n, d, dtype=torch.float64, generator=g)
    return {"columns": columns, "keys": normalize(keys, dim=1), "level": level}


def keys_with_queries(name="circle", n=256) -> dict:
    """Keys and queries that meet the identity: the circle, or random keys."""
    keys = moment_keys(n) if name == "circle" else random_code(n, 90)
    return {"q": cost(keys, keys) * keys, "k": keys}


def integer_vectors(rows=5, columns=8, d=2, seed=0) -> dict:
    """Vectors of d + 1 integers for rows and columns, and for the row of plus signs."""
    g = torch.Generator().manual_seed(seed)
    sizes = (rows, columns, 1)
    v, w, plus = (
        torch.randint(-30, 31, (m, d + 1), generator=g).tolist() for m in sizes
    )
    w = [b for b in w if dot(plus[0], b) != 0]
    v = [a for a in v if all(dot(a, b) != 0 for b in w)]
    return {"v": v, "w": w, "plus": plus[0]}


def few_rows(rows=({0, 1}, {2, 3}), n=4) -> dict:
    """A pattern of sets of columns."""
    return {"rows": [frozenset(row) for row in rows], "n": n}


def random_rows(count=3, n=5, seed=0) -> dict:
    """Random sets of columns, each one end of one of two orders."""
    g = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(n, generator=g).tolist() for _ in range(2)]
    rows = []
    for i in range(count):
        cut = int(torch.randint(1, n, (), generator=g))
        order = orders[i % 2] if seed % 2 else orders[0]
        rows.append(frozenset(order[:cut] if i % 3 else order[cut:]))
    return {"rows": rows, "n": n}


def counts(n=16 * 10**6, k=16, d=32) -> dict:
    """Numbers of tokens, of entries a row, of dimensions."""
    return {"n": n, "k": k, "d": d}


# --- redrawing


REDRAW = Case(circulant)


@claim(
    "codes.redraw",
    cases=[
        REDRAW,
        REDRAW.but(k=1, level=2.0),
        REDRAW.but(k=3, level=2.0, n=48),
        REDRAW.but(d=24, whole=False),
        REDRAW.but(n=6, d=6, level=20.0),
        REDRAW.but(n=6, d=6, level=20.0, seed=2),
    ],
    controls=[REDRAW.but(d=4)],
)
def redrawing(
    columns: Tensor, keys: Tensor, level: float, *, whole: bool = True
) -> Verdict:
    """Redraw the keys of a conflict until none is left: then the gap is T = 1, and
    queries are at most sqrt(kappa) l long.

    Measured, after at most 400 rounds: rows that are left, what is missing to the gap
    and to the logits l on the pattern, the error of the keys' lengths, and by how much
    a query is too long; a query of one key is l long, neither more nor less.

    columns are (n, k), keys (n, d) the first draw, level is l. whole draws all keys of
    a conflict anew, as the theorem does; else the worst key alone is drawn, and nothing
    is said of the lengths of queries.

    Claim: codes.redraw
    """
    _check_draw(columns, keys, level)
    k = columns.shape[1]
    found = redraw.settle(
        keys,
        columns,
        torch.full(columns.shape, float(level), dtype=keys.dtype),
        draw=_drawer(keys),
        gap=1.0,
        limit=400,
        whole=whole,
    )
    if not found.q.isfinite().all():  # fewer dimensions than keys of a row
        return at_most(found.left, 1e-9)
    own = (found.q @ found.k.T).gather(1, columns)
    faults = [
        found.left,
        1 - float(margins(found.q, found.k, columns).min()),
        float((own / level - 1).abs().max()),
        float((found.k.norm(dim=1) - 1).abs().max()),
    ]
    if whole:
        longest = float(found.q.norm(dim=1).max())
        excess = longest / level - math.sqrt(least_length(k))
        faults.append(abs(excess) if k == 1 else excess)
    return at_most(max(faults), 1e-9)


def _check_draw(columns: Tensor, keys: Tensor, level: float) -> None:
    """Refuse a pattern that is not regular, and keys and a level that do not fit."""
    check_rows(keys=keys)
    n = len(keys)
    _chosen(columns, n)
    got, k = columns.shape
    require(got == n, f"columns must have a row for each of the {n} keys, got {got}")
    uses = columns.flatten().bincount(minlength=n)
    require(
        bool((uses == k).all()),
        f"columns must name each column in k = {k} rows, got {int(uses.min())} to "
        f"{int(uses.max())}",
    )
    require(level > 1, f"level must be above the gap 1, got {level}")
    require(level < 1e100, f"level must be below 1e100, got {level}: squares overflow")


def _drawer(keys: Tensor) -> Callable[[int], Tensor]:
    """A function of m that draws m unit keys like these."""
    g = torch.Generator().manual_seed(7)

    def draw(m: int) -> Tensor:
        drawn = torch.randn(m, keys.shape[1], dtype=keys.dtype, generator=g)
        return normalize(drawn, dim=1)

    return draw


# --- bits


def rounded(x: Tensor, bits: int) -> Tensor:
    """Each entry to so many significant bits."""
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp((mantissa * 2**bits).round() / 2**bits, exponent)


BITS = Case(keys_with_queries)


@claim(
    "codes.bits",
    cases=[
        BITS,
        BITS.but(n=4),
        BITS.but(n=64),
        BITS.but(n=1024),
        BITS.but(name="random"),
    ],
    broken={"the 8 bits of bfloat16": {"_p": 8}},
)
def bits(q: Tensor, k: Tensor, *, _p: int | None = None) -> Verdict:
    """Rounding queries and keys to 3 + log2(s / T) significant bits leaves at least two
    fifths of the gap.

    Measured: the share of the gap that is left. Query j prefers key j.

    Claim: codes.bits
    """
    paid = paid_by(q, k)
    longest = float(k.norm(dim=1).max())
    require(longest <= 1 + ROUNDING, f"k must have norms at most 1, got {longest:.4g}")
    q = moderate(q)
    k = moderate(k)
    own = itself(len(k))
    gap = float(margins(q, k, own).min())
    needed = 3 + math.ceil(math.log2(paid))
    p = _p or min(53, needed)  # a float has no more bits
    left = margins(rounded(q, p), rounded(k, p), own).min()
    return at_least(float(left) / gap, 0.4)


# --- which patterns go into d dimensions


def dot(a: Sequence, b: Sequence) -> Fraction:
    """An inner product, exact."""
    return sum((Fraction(x) * y for x, y in zip(a, b)), Fraction())


def one_more_dimension() -> Verdict:
    """Part (b) in fractions: affine functions in d dimensions, the pattern with a
    column more in d + 1, and back from an affine image of that.

    Measured: signs that are lost on the way, in three random instances each of d = 1,
    2 and 4.
    """
    lost = 0
    for d in (1, 2, 4):
        for seed in range(3):
            lost += _lost_on_the_way(d, torch.Generator().manual_seed(seed))
    return at_most(lost, 0)


def _integers(g: torch.Generator, *shape: int) -> list:
    return torch.randint(-20, 21, shape, generator=g).tolist()


def _lost_on_the_way(d: int, g: torch.Generator) -> int:
    keys = _integers(g, 7, d)
    offsets = [Fraction(2 * c + 1, 2) for c in _integers(g, 5)]
    rows = list(zip(_integers(g, 5, d), offsets))
    signs = [[dot(q, k) > c for k in keys] for q, c in rows]

    # Up: keys (k_j, 1) and the column a at zero; the functions q . x - c z +- 1/4.
    raised = [[*k, 1] for k in keys] + [[0] * (d + 1)]
    quarter = Fraction(1, 4)
    functions = []
    wanted = []
    for (q, c), row in zip(rows, signs):
        for shift, on_a in ((quarter, True), (-quarter, False)):
            functions.append(([*q, -c], shift))
            wanted.append([*row, on_a])
    functions.append(([0] * d + [1], Fraction(-1, 2)))
    wanted.append([True] * 7 + [False])
    lost = 0
    for (w, c), row in zip(functions, wanted):
        lost += sum((dot(w, k) + c > 0) != sign for k, sign in zip(raised, row))

    # Back, from an image that is moved: a goes to the origin, keys are divided by the
    # function of the last row, which is positive on all of them.
    move = _integers(g, d + 1)
    moved = [[x + s for x, s in zip(k, move)] for k in raised]
    centred = [[x - s for x, s in zip(k, moved[-1])] for k in moved[:-1]]
    u = functions[-1][0]
    flat = [[Fraction(x) / dot(u, k) for x in k] for k in centred]
    for i, row in enumerate(signs):
        above, below = functions[2 * i], functions[2 * i + 1]
        # Half of each: their values at a are opposite, so the sum vanishes there.
        h = [x + y for x, y in zip(above[0], below[0])]
        lost += sum((dot(h, k) > 0) != sign for k, sign in zip(flat, row))
    return lost


SIGNS = Case(integer_vectors)


@claim(
    "codes.sign-rank",
    cases=[
        SIGNS,
        SIGNS.but(seed=1),
        SIGNS.but(d=1, seed=2),
        SIGNS.but(d=3),
        SIGNS.but(d=6),
    ],
    broken={"columns not flipped": {"_flip": False}},
    without_kernel="signs of inner products, in fractions",
)
def sign_rank(
    v: Sequence[Sequence[int]],
    w: Sequence[Sequence[int]],
    plus: Sequence[int],
    *,
    _flip: bool = True,
) -> Verdict:
    """Signs of v_i . w_j in d + 1 dimensions, with a row of plus signs, are those of
    q_i . k_j - c_i in d dimensions.

    Measured, in fractions: signs that are lost. Each v_i and w_j has d + 1 numbers;
    plus is the vector of the row of plus signs: columns whose sign in it is minus are
    turned.

    Claim: codes.sign-rank
    """
    v, w, plus = _check_signs(v, w, plus)
    if _flip:
        w = [[-x for x in b] if dot(plus, b) < 0 else b for b in w]
    # The basis is changed so that `plus` becomes the last unit vector: the coordinate
    # `at` of a column becomes plus . w, and the rows change by the inverse.
    at = next(i for i, x in enumerate(plus) if x)
    rest = [i for i in range(len(plus)) if i != at]
    keys = [[b[i] / dot(plus, b) for i in rest] for b in w]
    lost = 0
    for a in v:
        q = [a[i] - Fraction(a[at] * plus[i], plus[at]) for i in rest]
        minus_c = Fraction(a[at], plus[at])
        for b, key in zip(w, keys):
            lost += (dot(a, b) > 0) != (dot(q, key) + minus_c > 0)
    return at_most(lost, 0)


def _check_signs(v: Sequence, w: Sequence, plus: Sequence) -> tuple:
    """The vectors as fractions; those that do not fit or have no sign are refused."""
    v = exact_rows("v", v)
    w = exact_rows("w", w)
    (plus,) = exact_rows("plus", [plus])
    width = len(plus)
    require(width >= 1, "plus must have d + 1 entries, got none")
    for name, rows in (("v", v), ("w", w)):
        got = len(rows[0])
        require(
            got == width,
            f"each row of {name} must have as many entries as plus, {width}, got {got}",
        )
    for name, row in [("plus", plus), *(("v", a) for a in v)]:
        require(
            all(dot(row, b) != 0 for b in w),
            f"{name} must have no product of zero with a row of w: it has no sign",
        )
    return v, w, plus


def ends_of_orders(rows: Sequence[frozenset], n: int) -> bool:
    """Whether some order of the columns has every row at one of its ends; by trying."""
    for order in permutations(range(n)):
        ends = [frozenset(order[:i]) for i in range(n + 1)]
        ends += [frozenset(order[i:]) for i in range(n + 1)]
        if all(row in ends for row in rows):
            return True
    return False


LINE = Case(few_rows)
ENDS = Case(random_rows)


@claim(
    "codes.line",
    cases=[
        LINE,
        LINE.but(rows=({0}, {1}, {2})),
        LINE.but(rows=({1, 2}, {2, 3})),
        *[ENDS.but(seed=seed) for seed in range(12)],
        ENDS.but(n=4, count=4, seed=3),
    ],
    broken={"no complements": {"_complements": False}},
)
def on_a_line(
    rows: Sequence[frozenset[int]], n: int, *, _complements: bool = True
) -> Verdict:
    """A pattern can be met in one dimension if and only if, for some column x, the sets
    form a chain, each or its complement, whichever contains x.

    Measured: 1 if that disagrees with a search through all orders of the keys; and the
    rows that the keys of the proof do not serve.

    Claim: codes.line
    """
    sizes(1, n=n)
    require(n <= 7, f"n must be at most 7, got {n}: all orders of the keys are tried")
    keys = line_order(rows, n)
    for row in rows:
        require(
            0 < len(set(row)) < n,
            f"each of rows must have some of the {n} columns, not all, got {set(row)}",
        )
    possible = ends_of_orders(rows, n)
    if not _complements:
        by_size = sorted(rows, key=len)
        chain = all(a <= b for a, b in combinations(by_size, 2))
        return at_most(chain != possible, 0)
    wrong = (keys is not None) != possible
    for row in rows if keys is not None else ():
        inside = [keys[j] for j in row]
        outside = [keys[j] for j in range(n) if j not in row]
        apart = max(inside) < min(outside) or min(inside) > max(outside)
        wrong += not apart
    return at_most(wrong, 0)


COUNT = Case(counts)


@claim(
    "codes.counting",
    cases=[
        COUNT,
        COUNT.but(n=1000, k=1, d=2),
        COUNT.but(n=2 * 10**9, k=2, d=4),
        COUNT.but(n=20 * 10**9, k=20, d=40),
    ],
    controls=[COUNT.but(d=3)],
    without_kernel="a count of patterns against a count of signs",
)
def counting_signs(n: int, k: int, d: int) -> Verdict:
    """If all patterns with k ones in each row and column are met in d dimensions, they
    are no more than Warren's bound on patterns of signs allows.

    Measured: ln of the patterns that are permutations in blocks, over ln of Warren's
    bound for n (2 d + 1) variables. So d = 2 k, which does by the moment curve, must
    pass.

    Claim: codes.counting
    """
    sizes(1, n=n, k=k, d=d)
    require(
        n <= 10**100,
        f"n must be at most 10^100, got one of {len(str(n))} digits: floats overflow",
    )
    require(n % k == 0, f"n must be a multiple of k = {k}, got {n}")
    if 2 * d + 1 > n:
        return at_most(0, 1)
    patterns = k * k * math.lgamma(n / k + 1)
    bound = n * (2 * d + 1) * math.log(8 * math.e * n / (2 * d + 1))
    return at_most(patterns / bound, 1)
