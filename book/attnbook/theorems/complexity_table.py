"""The claims of the page `What attention costs`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from attnbook.theorems import Case, claim
from attnlib import _require, patterns
from attnlib._require import one_of, require
from attnlib.certify import Verdict, at_most
from attnlib.efficient import (
    decoding,
    delta_attention,
    delta_step,
    flops,
    gated_linear_attention,
    gated_linear_step,
    gqa_as_mla,
    gqa_error,
    linear_attention,
    linear_step,
    lsh_attention,
    lsh_buckets,
    lsh_sets,
    naive_attention,
    performer_attention,
    positive_features,
    selective_scan,
    selective_step,
    table,
    tiled_attention,
    traffic,
)
from attnlib.lowrank import linformer_attention, nystrom_attention
from attnlib.patterns import Blocks, Columns, Pattern, Window, build, reach
from attnlib.sparse import sparse_attention

EPS = torch.finfo(torch.float64).eps
# Sums of a few hundred products, in float64: 4,500 eps of numbers of size one.
ROUNDING = 1e-12


def seeded(seed: int = 0) -> torch.Generator:
    """A generator of its own."""
    return torch.Generator().manual_seed(seed)


def heads(n: int, d: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Gaussian queries, keys and values of one head."""
    qkv = torch.randn(3, n, d, generator=seeded(seed), dtype=torch.float64)
    return qkv.unbind()


def _check(**given: tuple[Tensor, tuple]) -> None:
    """Float64 tensors without NaN or infinity, given as (tensor, shape); None in a
    shape stands for any size.
    """
    for name, (t, shape) in given.items():
        _require.is_floating(name, t)
        require(
            t.dtype == torch.float64,
            f"{name} must be float64, got {t.dtype}: in fewer digits rounding cannot "
            "be told from a fault",
        )
        got = tuple(t.shape)
        alike = len(got) == len(shape)
        alike = alike and all(w in (None, g) for g, w in zip(got, shape))
        wanted = str(shape).replace("None", "any")
        require(alike, f"{name} must have shape {wanted}, got {got}")
        require(0 not in got, f"{name} must not be empty, got {got}")
        _require.finite(**{name: t})


def _lists(name: str, ids: Tensor) -> None:
    """Lists of buckets, (lists, tokens)."""
    _require.is_tensor(name, ids)
    got = tuple(ids.shape)
    require(
        ids.dtype == torch.int64 and len(got) == 2 and 0 not in got,
        f"{name} must be int64 (lists, tokens), not empty, got {ids.dtype} {got}",
    )


def _sizes(row: str, n: int, d: int, sizes: dict[str, int]) -> dict[str, int]:
    """The sizes of a row, its defaults among them, that one head can run with."""
    _require.is_a(dict, sizes=sizes)
    flops(row, n, d, **sizes)
    own = table.DEFAULTS | sizes
    tile = own.pop("tile", 32)
    require(tile == 32, f"tile must be 32, as in `overlapping`, got {tile}")
    if row in ("lsh", "nystrom"):
        name = "m" if row == "lsh" else "k"
        require(own[name] <= n, f"{name} must be at most n = {n}, got {own[name]}")
    if row == "lsh":
        two = f"b must be a multiple of 4: two equal even factors, got {own['b']}"
        require(own["b"] % 4 == 0, two)
    return own


def magnitude(t: Tensor) -> float:
    """The power of ten that the largest entry reaches; zero for zeros."""
    most = float(t.abs().max())
    require(math.isfinite(most), "the numbers overflow float64: scale the inputs down")
    if most == 0:
        return 0.0
    return 10.0 ** math.floor(math.log10(most))


def agree(got: Tensor, wanted: Tensor, size: float, times: float) -> Verdict:
    """Whether answers differ by rounding alone: of numbers of this size, and so many
    times that if more than once.
    """
    off = (got - wanted).abs().max()
    return at_most(off, ROUNDING * size * max(1, times))


def triangle(n: int) -> Tensor:
    """All pairs j <= i."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def strided(n: int, l: int) -> Pattern:
    """Both parts of the strided pattern of (8.2), merged."""
    l = min(l, n)
    both = patterns.one_step(patterns.strided(n, l, reach=l))
    return patterns.causal(both)


def fixed(n: int, l: int, c: int = 1) -> Pattern:
    """Both parts of the fixed pattern of (8.2), merged."""
    parts = [Blocks(l)]
    ends = tuple(j for j in range(n) if j % l >= l - c)
    if ends:
        parts.append(Columns(ends))
    return patterns.causal(build(n, parts))


# --- what one pass costs


def run_linformer(q, k, v, sizes):
    """Attention to k mixtures."""
    mix = q.new_ones(sizes["k"], len(q))
    return linformer_attention(q, k, v, mix, mix)


def run_nystrom(q, k, v, sizes):
    """Attention through k landmarks, by an exact inverse or the published iteration."""
    how = {"iterations": sizes["iterations"] or None}  # None for the exact inverse
    return nystrom_attention(q, k, v, sizes["k"], **how)


def run_strided(q, k, v, sizes):
    """The last l keys by windows, every l-th by classes."""
    n = len(q)
    l = sizes["l"]
    classes = torch.arange(l)[:, None] + l * torch.arange(math.ceil(n / l))
    tables = [overlapping(n, l, 0), (classes, classes)]
    return in_tiles(q, k, v, tables, strided(n, l))


def run_fixed(q, k, v, sizes):
    """The own block, and the ends of all blocks for all."""
    n = len(q)
    l, c = sizes["l"], sizes["c"]
    blocks = torch.arange(math.ceil(n / l) * l).view(-1, l)
    ends = blocks[:, l - c :].flatten()
    tables = [(blocks, blocks), (torch.arange(n)[None], ends[None, ends < n])]
    return in_tiles(q, k, v, tables, fixed(n, l, c))


def run_window(q, k, v, sizes):
    """A window."""
    n = len(q)
    h = sizes["w"] // 2
    tables = [overlapping(n, h, h)]
    return in_tiles(q, k, v, tables, patterns.window(n, sizes["w"]))


def overlapping(n: int, left: int, right: int, t: int = 32) -> tuple[Tensor, Tensor]:
    """Tiles of t queries, each with the keys from `left` before to `right` after."""
    first = torch.arange(0, n, t)[:, None]
    keys = first - left + torch.arange(left + t + right)
    return first + torch.arange(t), keys


def in_tiles(q, k, v, tables, pattern: Pattern) -> None:
    """The two products of every tile, queries (tiles, c) by keys (tiles, w), which
    together hold a pattern; what lies outside the sequence is computed, too.
    """
    n = len(q)
    held = torch.zeros(n, n, dtype=torch.bool)
    for queries, keys in tables:
        i, j = (at.clamp(0, n - 1) for at in (queries, keys))
        weights = torch.softmax(q[i] @ k[j].mT, -1)
        weights @ v[j]
        held[i[:, :, None], j[:, None]] = True
    missed = int((pattern.mask() & ~held).sum())
    require(missed == 0, f"sizes: the tiles miss {missed} connections of the pattern")


def run_lsh(q, k, v, sizes):
    """Hashing with two equal factors."""
    how = {"rounds": sizes["r"], "chunk": sizes["m"], "causal": sizes["causal"]}
    buckets = (sizes["b"] // 2,) * 2
    return lsh_attention(q, v, buckets=buckets, generator=seeded(), **how)


def run_gru(q, k, v, sizes):
    """A GRU with its input products."""
    d = q.shape[-1]
    return torch.nn.GRU(d, d, dtype=q.dtype)(q)


RUNS = {
    "dense": lambda q, k, v, sizes: F.scaled_dot_product_attention(
        q[None], k[None], v[None]
    ),
    "linformer": run_linformer,
    "nystrom": run_nystrom,
    "strided": run_strided,
    "fixed": run_fixed,
    "window": run_window,
    "lsh": run_lsh,
    "linear": lambda q, k, v, sizes: linear_attention(q, k, v),
    "linear causal": lambda q, k, v, sizes: linear_attention(
        q, k, v, causal=True, chunk=sizes["m"]
    ),
    "performer": lambda q, k, v, sizes: performer_attention(
        q, k, v, features=sizes["f"], generator=seeded()
    ),
    "gru": run_gru,
}


def products_of_a_fused_kernel(q, k, v, *_, **how):
    """What torch's counter leaves out: it counts 0 for the fused kernel of the CPU."""
    from torch.utils.flop_counter import sdpa_flop_count

    return sdpa_flop_count(q, k, v)


def products_of_a_solve(triangle, sides, *_, **how):
    """Forward substitution: m/2 multiply-adds on average for each unknown."""
    return math.prod(sides) * triangle[-1]


def counted(run: Callable[[], object]) -> int:
    """FLOPs of the products of a call, by torch's own counter."""
    from torch.utils.flop_counter import FlopCounterMode

    extra = {
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: (
            products_of_a_fused_kernel
        ),
        torch.ops.aten.linalg_solve_triangular: products_of_a_solve,
    }
    counter = FlopCounterMode(display=False, custom_mapping=extra)
    with counter, torch.no_grad():
        run()
    return counter.get_total_flops()


def off_the_formula(runs, row, n, d, sizes, *, causal=False) -> Verdict:
    """FLOPs that torch's counter sees, less those of the formula."""
    one_of(list(runs), row=row)
    own = _sizes(row, n, d, sizes) | {"causal": causal}
    q, k, v = (t.float() for t in heads(n, d))
    seen = counted(lambda: runs[row](q, k, v, own))
    return at_most(abs(seen - flops(row, n, d, **sizes)), 0)


def one_head(row="lsh", n=1024, d=16, sizes=None) -> dict:
    """A row of the table and its sizes."""
    if sizes is None:
        sizes = {"r": 2, "m": 64, "b": 8}
    return {"row": row, "n": n, "d": d, "sizes": sizes}


LSH = Case(one_head, {"row": "lsh"})


@claim(
    "efficient.flops",
    cases=[
        LSH,
        LSH.but(n=2304),
        LSH.but(row="dense", sizes={}),
        LSH.but(row="linformer", sizes={"k": 32}),
        LSH.but(row="nystrom", sizes={"k": 16}),
        LSH.but(row="strided", sizes={"l": 32}),
        LSH.but(row="strided", n=2304, sizes={"l": 48}),
        LSH.but(row="fixed", sizes={"l": 32, "c": 2}),
        LSH.but(row="window", sizes={"w": 33}),
        LSH.but(row="linear", sizes={}),
        LSH.but(row="linear causal", sizes={"m": 32}),
        LSH.but(row="performer", sizes={"f": 24}),
        LSH.but(row="gru", sizes={}),
    ],
    controls=[LSH.but(n=1000)],
    broken={"a causal mask": {"_causal": True}},
)
def counts(row: str, n, d, sizes, *, _causal=False) -> Verdict:
    """The products of one head cost exactly what the table says.

    Measured: the FLOPs that torch's counter sees, less those of the formula.

    Args:
        row: a row of `efficient.flops` that is older than 2021.
        n, d: tokens and width; that block sizes divide n is not asked.
        sizes: those of the row.

    Claim: efficient.flops
    Page: notebooks/jl_low_rank/complexity_table
    """
    return off_the_formula(RUNS, row, n, d, sizes, causal=_causal)


# --- messages that need two hops


def merged(kind="strided", n=256, l=16, c=1) -> dict:
    """A merged pattern of (8.2); or a causal window of as many tokens."""
    one_of(["strided", "fixed", "window"], kind=kind)
    _require.sizes(2, n=n)
    _require.sizes(1, l=l, c=c)
    if kind == "strided":
        return {"pattern": strided(n, l)}
    if kind == "fixed":
        return {"pattern": fixed(n, l, c)}
    return {"pattern": build(n, [Window(2 * l - 1, 0)])}


STRIDED = Case(merged, {"kind": "strided"})


@claim(
    "efficient.two-hops",
    cases=[
        STRIDED,
        STRIDED.but(n=250),
        STRIDED.but(n=100, l=7),
        STRIDED.but(n=30, l=1),
        STRIDED.but(n=9, l=40),
        STRIDED.but(kind="fixed"),
        STRIDED.but(kind="fixed", n=250, c=8),
        STRIDED.but(kind="fixed", n=100, l=7, c=7),
        STRIDED.but(kind="fixed", n=30, l=1),
        STRIDED.but(kind="fixed", n=9, l=40),
    ],
    controls=[STRIDED.but(kind="window")],
    broken={"one hop": {"_hops": 1}},
)
def two_hops(pattern: Pattern, *, _hops=2) -> Verdict:
    """In the merged patterns every j <= i reaches i in at most two hops.

    Measured: how many pairs j <= i are not joined, or pairs j > i are.

    Claim: efficient.two-hops
    Page: notebooks/jl_low_rank/complexity_table
    """
    reached = reach(pattern, _hops)
    return at_most(int((triangle(pattern.n) != reached).sum()), 0)


def blocks_and_summaries(n=256, l=16, c=1) -> dict:
    """Sizes of the two parts of the fixed pattern."""
    return {"n": n, "l": l, "c": c}


def joined(n: int, l: int, c: int, *, first: str, skips: bool = True) -> Tensor:
    """Which j reach which i in two layers that take the two parts in turn; a token that
    no summary stands before reads itself.
    """
    j = torch.arange(n)
    i = j[:, None]
    local = (j <= i) & (i // l == j // l)
    summaries = (j <= i) & (j % l >= l - c)
    summaries |= (i == j) & ~summaries.any(1, keepdim=True)
    parts = [local, summaries] if first == "local" else [summaries, local]
    return reach(patterns.from_masks(*parts), 2, skip=skips)


PARTS = Case(blocks_and_summaries)


@claim(
    "efficient.order",
    cases=[
        PARTS,
        PARTS.but(n=64, l=8, c=2),
        PARTS.but(n=60, l=10, c=3),
        PARTS.but(n=12, l=4, c=4),
        PARTS.but(first="local"),
        PARTS.but(first="local", n=60, l=10, c=3),
    ],
    controls=[PARTS.but(n=250)],
    broken={"no skips": {"_skips": False}},
)
def order(n, l, c, *, first="summaries", _skips=True) -> Verdict:
    """Two layers of the fixed pattern join all pairs j <= i if the local part comes
    first, and miss l (l - c) binom(n/l, 2) otherwise.

    Measured, exactly: the number of pairs that are missed, less this one.

    Args:
        n, l, c: tokens, tokens a block, summaries a block; that l divides n is not
            asked.
        first: the part that layer 1 takes, "local" or "summaries".

    Claim: efficient.order
    Page: notebooks/jl_low_rank/complexity_table
    """
    one_of(("local", "summaries"), first=first)
    _require.sizes(1, n=n, l=l, c=c)
    require(c <= l, f"c must be at most l = {l}, got {c}: a block has l tokens")
    reached = joined(n, l, c, first=first, skips=_skips)
    missed = int((triangle(n) & ~reached).sum())
    blocks = Fraction(n, l)
    claimed = 0
    if first == "summaries":
        claimed = l * (l - c) * blocks * (blocks - 1) / 2
    return at_most(abs(missed - claimed), 0)


# --- rounds of hashing


def hashed(n=50, rounds=4, buckets=4, chunk=8, seed=0) -> dict:
    """Random tokens, and how they are hashed."""
    g = seeded(seed)
    qk, v = torch.randn(2, n, 6, generator=g, dtype=torch.float64).unbind()
    how = {"rounds": rounds, "buckets": buckets, "chunk": chunk}
    return {"qk": qk, "v": v, **how}


def hashed_weights(qk: Tensor, sets: Tensor, *, correct: bool = True) -> Tensor:
    """Weights from who sees whom in each round: softmax over the union of the rounds,
    or each key as often as it was seen.
    """
    keys = F.normalize(qk, dim=-1)
    logits = qk @ keys.mT / math.sqrt(qk.shape[-1])
    seen = sets.sum(0).to(logits.dtype)
    counts = (seen > 0).to(logits.dtype) if correct else seen
    return torch.softmax(logits + counts.log(), -1)


HASHED = Case(hashed)
FEW = HASHED.but(n=20, buckets=(2, 4), chunk=4, rounds=3)


@claim(
    "efficient.union",
    cases=[
        HASHED,
        HASHED.but(causal=True),
        HASHED.but(seed=1),
        FEW,
        FEW.but(causal=True),
        FEW.but(seed=1),
        HASHED.but(corrected=False),
        FEW.but(corrected=False, causal=True),
    ],
    broken={
        "not corrected": {"_corrects": False},
        "counted": {"_counts": True},
    },
)
def union(
    qk,
    v,
    *,
    rounds,
    buckets,
    chunk,
    causal=False,
    corrected=True,
    seed=0,
    _corrects=True,
    _counts=False,
) -> Verdict:
    """Rounds of hashed attention are one softmax over their union; not corrected, a key
    weighs as often as it was seen.

    Measured: the largest difference of `lsh_attention` from the weights written out.

    Args:
        qk: (n, d), queries that serve as keys, in float64.
        v: (n, d_v).
        rounds, buckets, chunk, causal: of `lsh_attention`.
        corrected: by ln N_ij; the second statement is for False.
        seed: of the rotations.

    Claim: efficient.union
    Page: notebooks/jl_low_rank/complexity_table
    """
    _check(qk=(qk, (None, None)))
    _check(v=(v, (len(qk), None)))
    _require.sizes(0, seed=seed)
    ids = lsh_buckets(qk, buckets, rounds=rounds, generator=seeded(seed))
    sets = lsh_sets(ids, chunk, causal=causal)
    wanted = hashed_weights(qk, sets, correct=corrected and not _counts) @ v
    got = lsh_attention(
        qk,
        v,
        buckets=buckets,
        rounds=rounds,
        chunk=chunk,
        causal=causal,
        correct_duplicates=corrected and _corrects,
        generator=seeded(seed),
    )
    # A key has length one, so no logit is larger than its query.
    return agree(got, wanted, magnitude(v), magnitude(qk))


def equally_likely_rounds(n=8, outcomes=4, buckets=2, rounds=3, seed=0) -> dict:
    """Tokens, and the bucket lists that a round draws from, all equally likely."""
    qk = torch.randn(n, 6, generator=seeded(seed), dtype=torch.float64)
    lists = lsh_buckets(qk, buckets, rounds=outcomes, generator=seeded(seed + 1))
    return {"qk": qk, "lists": lists, "rounds": rounds}


ROUNDS = Case(equally_likely_rounds)


@claim(
    "efficient.rounds",
    cases=[
        ROUNDS,
        ROUNDS.but(rounds=1),
        ROUNDS.but(rounds=4, n=12),
        ROUNDS.but(buckets=(2,) * 5),
        ROUNDS.but(seed=5),
    ],
    controls=[ROUNDS.but(chunk=2)],
    broken={"not corrected": {"_correct": False}},
)
def missed_mass(qk, lists, rounds, *, chunk=None, _correct=True) -> Verdict:
    """The distance of hashed from dense attention is the dense mass on keys that no
    round saw; its mean is sum_j P_ij (1 - p_ij)^r.

    Measured: the largest error of the two statements. The mean is over all draws of r
    outcomes: nothing is sampled.

    Args:
        qk: (n, d), queries that serve as keys, in float64.
        lists: (outcomes, n), bucket lists; a round draws one, all alike.
        rounds: r, with outcomes^r at most 4,096.
        chunk: None for n, which cuts nothing.

    Claim: efficient.rounds
    Page: notebooks/jl_low_rank/complexity_table
    """
    _check(qk=(qk, (None, None)))
    _lists("lists", lists)
    n = len(qk)
    require(n >= 2, f"qk must hold at least 2 tokens, got {n}")
    got = tuple(lists.shape)
    require(got[1] == n, f"lists must be (outcomes, n) with n = {n} of qk, got {got}")
    _require.sizes(1, rounds=rounds)
    count = len(lists) ** rounds
    require(
        count <= 4096,
        f"{len(lists)} outcomes and {rounds} rounds are {count:,} draws, more than "
        "4,096",
    )
    others = ~torch.eye(n, dtype=torch.bool)
    P = hashed_weights(qk, others[None])
    p = (lists[:, :, None] == lists[:, None, :]).double().mean(0)
    mean = torch.zeros(n, dtype=qk.dtype)
    off = []
    for draw in itertools.product(range(len(lists)), repeat=rounds):
        sets = lsh_sets(lists[list(draw)], n if chunk is None else chunk)
        found = hashed_weights(qk, sets, correct=_correct)
        distance = (P - found).abs().sum(-1) / 2
        unseen = (P * ~sets.any(0)).sum(-1)
        off.append((distance - unseen).abs())
        mean += distance / count
    law = (P * (1 - p) ** rounds).sum(-1)
    off.append((mean - law).abs())
    return at_most(torch.stack(off).max(), ROUNDING)


# --- a border that the future moves


def lists_of_buckets(t=5, buckets=3, chunk=2) -> dict:
    """All lists of t tokens in a few buckets."""
    ids = torch.tensor(list(itertools.product(range(buckets), repeat=t)))
    return {"ids": ids, "buckets": buckets, "chunk": chunk}


LISTS = Case(lists_of_buckets)


@claim(
    "efficient.leak",
    cases=[LISTS, *(LISTS.but(t=t) for t in (1, 2, 3, 4, 6))],
    broken={"across buckets": {"_within": False}},
)
def borders(ids: Tensor, buckets: int, chunk: int, *, _within=True) -> Verdict:
    """If chunks are cut within each bucket, no later token changes what an earlier one
    sees.

    Measured: how many of the lists see otherwise when one more token follows.

    Args:
        ids: (lists, t), buckets of the first t tokens.
        buckets: those that the token t + 1 may be in.
        chunk: tokens a chunk.

    Claim: efficient.leak
    Page: notebooks/jl_low_rank/complexity_table
    """
    _lists("ids", ids)
    _require.sizes(1, buckets=buckets, chunk=chunk)
    t = ids.shape[1]
    before = lsh_sets(ids[None], chunk, causal=True, within=_within)[0]
    changed = torch.zeros(len(ids), dtype=torch.bool)
    for last in range(buckets):
        longer = F.pad(ids, (0, 1), value=last)
        after = lsh_sets(longer[None], chunk, causal=True, within=_within)[0]
        differs = after[:, :t, :t] != before
        changed |= differs.flatten(1).any(1)
    return at_most(int(changed.sum()), 0)


# --- the price of a hash


def a_round(n=1024, d=16, factors=(2,) * 6) -> dict:
    """Sizes of one round of hashing, and the factors of the number of buckets."""
    return {"n": n, "d": d, "factors": factors}


def rotations(n: int, d: int, factors: Sequence[int]) -> int:
    """Multiply-adds of one round of hashing, counted."""
    x = torch.randn(n, d, generator=seeded())
    buckets = tuple(factors)
    return counted(lambda: lsh_buckets(x, buckets, generator=seeded())) // 2


SIGNS = Case(a_round)


@claim(
    "efficient.hash",
    cases=[
        SIGNS,
        SIGNS.but(n=4096, factors=(2,) * 8),
        SIGNS.but(factors=(8, 8)),
        SIGNS.but(n=256, factors=(4, 16)),
        SIGNS.but(n=4096, factors=(256,)),
    ],
    broken={"one rotation": {"_at_once": True}},
)
def price_of_a_hash(n, d, factors, *, _at_once=False) -> Verdict:
    """A round of hashing costs n d / 2 times the sum of the factors in multiply-adds,
    and no less than n d F b^(1/F) / 2.

    Measured: the multiply-adds that are counted over n d / 2, less the sum; or, if it
    is more, by how much they fall short of F b^(1/F).

    Args:
        factors: of b, each even.

    Claim: efficient.hash
    Page: notebooks/jl_low_rank/complexity_table
    """
    _require.sizes(1, n=n, d=d)
    _require.is_list(factors=factors)
    b = math.prod(factors)
    F_ = len(factors)
    seen = Fraction(2 * rotations(n, d, (b,) if _at_once else factors), n * d)
    off = abs(seen - sum(factors))
    short = (seen / F_) ** F_ < b
    return at_most(max(off, int(short)), 0)


# --- positive features


def two_points(x=(0.3, -0.5), y=(0.7, 0.2)) -> dict:
    """Two points of the plane."""
    both = torch.tensor([x, y], dtype=torch.float64)
    return {"x": both[0], "y": both[1]}


POINTS = Case(two_points)
SPREAD = [
    POINTS,
    POINTS.but(x=(1.0, 0.0), y=(1.0, 0.0)),
    POINTS.but(x=(0.0, 0.0), y=(0.4, 1.2)),
    POINTS.but(x=(1.0, -1.0), y=(-1.0, 1.0)),
]


@claim(
    "efficient.performer",
    cases=[*SPREAD, *(case.but(power=2) for case in SPREAD)],
    broken={"no half squares": {"_halves": False}},
)
def positive(x: Tensor, y: Tensor, *, power=1, _halves=True) -> Verdict:
    """The product of positive features has mean e^{x'y} and relative variance
    (e^{|x+y|^2} - 1)/f.

    Measured: the relative error of the mean of one product, or of its square, whose
    mean is e^{|x+y|^2 + 2x'y}. The mean over w in the plane is a Gauss-Hermite sum of
    60 by 60 nodes: nothing is drawn.

    Args:
        x, y: (2,), of length up to two, in float64.
        power: 1 for the mean, 2 for the square.

    Claim: efficient.performer
    Page: notebooks/jl_low_rank/complexity_table
    """
    from numpy.polynomial.hermite_e import hermegauss

    require(power in (1, 2), f"power must be one of [1, 2], got {power!r}")
    _check(x=(x, (2,)), y=(y, (2,)))
    for name, point in (("x", x), ("y", y)):
        length = float(point.norm())
        require(length <= 2, f"{name} must be of length up to 2, got {length:g}")
    nodes, mass = (torch.from_numpy(values) for values in hermegauss(60))
    w = torch.cartesian_prod(nodes, nodes)
    chances = torch.cartesian_prod(mass, mass).prod(-1) / (2 * math.pi)
    phi = positive_features(torch.stack([x, y]), w) * math.sqrt(len(w))
    product = phi[0] * phi[1]
    if not _halves:
        product = product * ((x @ x + y @ y) / 2).exp()
    mean = (product**power * chances).sum()
    wanted = x @ y
    if power == 2:
        wanted = (x + y).square().sum() + 2 * x @ y
    return at_most((mean / wanted.exp() - 1).abs(), ROUNDING)


# --- no row sees the future


def see_strided(q, k, v):
    """The strided kernel."""
    return sparse_attention(q, k, v, strided(len(q), 4))


def see_fixed(q, k, v):
    """The fixed kernel."""
    return sparse_attention(q, k, v, fixed(len(q), 4, 2))


def see_window(q, k, v):
    """A window on the past."""
    return sparse_attention(q, k, v, build(len(q), [Window(5, 0)]))


def see_both_sides(q, k, v):
    """A window on both sides: not causal."""
    return sparse_attention(q, k, v, patterns.window(len(q), 5))


def see_linear(q, k, v):
    """Linear attention of the past."""
    return linear_attention(q, k, v, causal=True, chunk=8)


def see_performer(q, k, v):
    """Positive features of the past."""
    how = {"features": 12, "causal": True, "chunk": 8}
    return performer_attention(q, k, v, generator=seeded(5), **how)


def see_lsh(q, k, v):
    """Hashing within buckets."""
    how = {"buckets": 4, "rounds": 3, "chunk": 4, "causal": True}
    return lsh_attention(q, v, generator=seeded(5), **how)


CAUSAL = (see_strided, see_fixed, see_window, see_linear, see_performer, see_lsh)


def edited(kernel=see_strided, at=17, n=30, size=1.0, seed=0) -> dict:
    """A kernel, a sequence, and the same with other tokens from `at` on."""
    first = torch.stack(heads(n, 6, seed))
    other = torch.stack(heads(n, 6, seed + 100))
    changed = first.clone()
    changed[:, at:] = size * other[:, at:]
    return {"kernel": kernel, "first": first, "changed": changed, "at": at}


EDIT = Case(edited)
EDITS = []
for see in CAUSAL:
    for place, draw, factor in ((1, 0, 1.0), (8, 1, 10.0), (17, 2, 10.0), (29, 3, 1.0)):
        EDITS.append(EDIT.but(kernel=see, at=place, seed=draw, size=factor))


@claim(
    "efficient.causal",
    cases=[EDIT, *EDITS],
    controls=[EDIT.but(kernel=see_both_sides)],
    without_kernel="it is handed the kernel",
)
def past_only(kernel: Callable, first: Tensor, changed: Tensor, at: int) -> Verdict:
    """Row i of a causal kernel is a function of the tokens j <= i and of the random
    draws.

    Measured: the largest change of the rows before `at` when tokens from `at` on
    change, at most 512 eps of the magnitude of the answers: products over other tokens
    may be summed in another order.

    Args:
        kernel: (q, k, v) -> (n, d_v), with its random draws fixed.
        first, changed: (3, n, d), queries, keys and values that agree before `at`, in
            float64.
        at: the first token that differs, from 1 to n - 1.

    Claim: efficient.causal
    Page: notebooks/jl_low_rank/complexity_table
    """
    require(callable(kernel), f"kernel must be callable, got {type(kernel).__name__}")
    _check(first=(first, (3, None, None)))
    _check(changed=(changed, tuple(first.shape)))
    n = first.shape[1]
    _require.sizes(1, at=at)
    require(at < n, f"at must be at most n - 1 = {n - 1}, got {at}")
    agree = torch.equal(first[:, :at], changed[:, :at])
    require(agree, f"first and changed must agree before at = {at}")
    differ = not torch.equal(first[:, at], changed[:, at])
    require(differ, f"first and changed must differ at = {at}")
    answers = []
    for tokens in (first, changed):
        y = kernel(*tokens)
        _check(**{"the answer of kernel": (y, (n, None))})
        answers.append(y[:at])
    off = answers[1] - answers[0]
    return at_most(off.abs().max(), 512 * EPS * magnitude(answers[0]))


# --- one ruler for depth


def recurrence(n=100, seed=0) -> dict:
    """The coefficients of h_i = a_i h_{i-1} + b_i, all of size one."""
    g = seeded(seed)
    a = 1 - 0.2 * torch.rand(n, generator=g, dtype=torch.float64)
    b = torch.randn(n, generator=g, dtype=torch.float64)
    return {"a": a, "b": b}


def token_after_token(a: Tensor, b: Tensor) -> Tensor:
    """h_1, .., h_n from h_0 = 0, one after the other."""
    h = torch.zeros_like(b[0])
    found = []
    for a_i, b_i in zip(a, b):
        h = a_i * h + b_i
        found.append(h)
    return torch.stack(found)


def in_rounds(a: Tensor, b: Tensor, rounds: int) -> Tensor:
    """Each round joins every stretch of tokens with the one before it."""
    reach = 1
    for _ in range(rounds):
        before = torch.ones_like(a)
        before[reach:] = a[:-reach]
        carried = torch.zeros_like(b)
        carried[reach:] = b[:-reach]
        b = a * carried + b
        a = a * before
        reach = 2 * reach
    return b


RECURRENCE = Case(recurrence)


@claim(
    "efficient.depth",
    cases=[RECURRENCE, *(RECURRENCE.but(n=n) for n in (1, 2, 3, 64, 65, 1000))],
    broken={"a round less": {"_fewer": 1}},
    without_kernel="a recurrence in rounds against the same, token after token",
)
def depth(a: Tensor, b: Tensor, *, _fewer=0) -> Verdict:
    """A linear recurrence h_i = a_i h_{i-1} + b_i over n tokens takes ceil(log2 n)
    rounds.

    Measured: the largest difference from the recurrence, run token after token.

    Args:
        a, b: (n,), |a_i| at most 1, in float64.

    Claim: efficient.depth
    Page: notebooks/jl_low_rank/complexity_table
    """
    _check(a=(a, (None,)))
    _check(b=(b, tuple(a.shape)))
    most = float(a.abs().max())
    require(most <= 1, f"a must have |a_i| at most 1, got {most:g}")
    n = len(a)
    rounds = (n - 1).bit_length()
    wanted = token_after_token(a, b)
    got = in_rounds(a, b, rounds - _fewer)
    return agree(got, wanted, magnitude(wanted), n / 1000)


# --- groups and latents


def grouped_heads(groups=2, heads=8, d=4, width=32, n=10, seed=0) -> dict:
    """Tokens, and heads in groups that share keys and values."""
    g = seeded(seed)

    def draw(*size):
        return torch.randn(*size, generator=g, dtype=torch.float64) / math.sqrt(width)

    return {
        "x": draw(n, width) * math.sqrt(width),
        "w_q": draw(heads, width, d),
        "w_k": draw(groups, width, d),
        "w_v": draw(groups, width, d),
    }


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal softmax attention, one matrix a head."""
    logits = q @ k.mT / math.sqrt(q.shape[-1])
    hidden = ~triangle(q.shape[-2])
    return torch.softmax(logits.masked_fill(hidden, -math.inf), -1) @ v


GROUPED = Case(grouped_heads)


@claim(
    "efficient.latent",
    cases=[
        GROUPED,
        GROUPED.but(groups=1),
        GROUPED.but(groups=8),
        GROUPED.but(groups=4, d=3, seed=1),
    ],
    broken={"a number less": {"_fewer": 1}},
)
def latent(x, w_q, w_k, w_v, *, _fewer=0) -> Verdict:
    """Every GQA is an MLA that caches as many numbers a token.

    Measured: the largest difference of the outputs; and up to 12 heads, how far
    `gqa_error` finds the GQA from its own kind.

    Args:
        x: (n, D), in float64.
        w_q: (H, D, d), H a multiple of G.
        w_k, w_v: (G, D, d).

    Claim: efficient.latent
    Page: notebooks/jl_low_rank/complexity_table
    """
    _check(x=(x, (None, None)))
    D = x.shape[1]
    _check(w_q=(w_q, (None, D, None)))
    d = w_q.shape[2]
    _check(w_k=(w_k, (None, D, d)))
    _check(w_v=(w_v, (len(w_k), D, d)))
    H = len(w_q)
    G = len(w_k)
    require(H % G == 0, f"w_q must have a multiple of G = {G} heads, got {H}")

    q = x @ w_q
    own = torch.arange(H) // (H // G)  # the group of each head
    k = (x @ w_k)[own]
    v = (x @ w_v)[own]
    grouped = attend(q, k, v)

    mla = gqa_as_mla(w_k, w_v, H)
    cache = x @ mla.down
    if _fewer:
        cache[:, -_fewer:] = 0
    latent = attend(q, cache @ mla.keys, cache @ mla.values)
    off = (latent - grouped).abs().max()
    size = magnitude(v) * max(1, magnitude(q @ k.mT / math.sqrt(d)))
    forms = w_q @ w_k[own].mT
    if H <= 12 and forms.any():
        off = torch.maximum(off, size * gqa_error(forms, G, d))
    return at_most(off, ROUNDING * size)


# --- one more token

STATES_A_CHANNEL = 4  # of a scan


def a_text(n: int, d: int, seed: int, s: int = STATES_A_CHANNEL) -> dict[str, Tensor]:
    """All that a decoder reads: queries, keys, keys of length one, values, gates,
    shares and factors.
    """
    q, k, v = heads(n, d, seed)
    g = seeded(seed + 50)
    unit = F.normalize(k, dim=-1)
    gate, beta = torch.rand(2, n, generator=g, dtype=torch.float64)
    a = torch.rand(n, d, s, generator=g, dtype=torch.float64)
    b, c = torch.randn(2, n, s, generator=g, dtype=torch.float64)
    factors = {"gate": gate, "beta": beta, "a": a, "b": b, "c": c}
    return {"q": q, "k": k, "unit": unit, "v": v, **factors}


def write_cache(text, i, kept, most):
    """Softmax over the kept tokens, their keys beside their values."""
    q, k, v = (text[name][i : i + 1] for name in "qkv")
    new = torch.cat([k, v], -1)
    kept = new if kept is None else torch.cat([kept, new])[-most:]
    keys, values = kept.chunk(2, -1)
    weights = torch.softmax(q @ keys.mT / math.sqrt(q.shape[-1]), -1)
    return (weights @ values)[0], kept


# By the row: what of a text is read, one token, and all of them.
RECURRENT = {
    "linear": ("q k v", linear_step, partial(linear_attention, causal=True)),
    "gated": ("q k v gate", gated_linear_step, gated_linear_attention),
    "delta": ("q unit v beta", delta_step, delta_attention),
    "scan": ("v a b c", selective_step, selective_scan),
}
DECODERS = ("cache", "window", *RECURRENT)


def write(row, text, i, kept, most):
    """The answer to token i, and what is kept then; of a cache most tokens."""
    if row not in RECURRENT:
        return write_cache(text, i, kept, most)
    read, step, _ = RECURRENT[row]
    return step(*(text[name][i] for name in read.split()), state=kept)


def whole(row, text, most):
    """The answers of one causal pass, a recurrence in chunks."""
    q, k, v = (text[name] for name in "qkv")
    if row == "cache":
        return attend(q, k, v)
    if row == "window":
        return sparse_attention(q, k, v, build(len(q), [Window(most - 1, 0)]))
    read, _, kernel = RECURRENT[row]
    made = kernel(*(text[name] for name in read.split()), chunk=8)
    return made if row == "linear" else made[0]


def a_decoder(row="cache", n=24, d=6, sizes=None) -> dict:
    """A row, and how much it is to read."""
    return {"row": row, "n": n, "d": d, "sizes": sizes}


DECODER = Case(a_decoder)


@claim(
    "efficient.state",
    cases=[
        DECODER,
        DECODER.but(n=1),
        DECODER.but(row="window", sizes={"w": 9}),
        DECODER.but(row="linear"),
        DECODER.but(row="linear", n=60, d=4),
        DECODER.but(row="gated"),
        DECODER.but(row="delta"),
        DECODER.but(row="scan", sizes={"s": STATES_A_CHANNEL}),
    ],
    broken={
        "a token short": {"_lost": 1},
        "not causal": {"_sees_all": True},
    },
)
def state(row: str, n, d, sizes=None, *, seed=0, _lost=0, _sees_all=False) -> Verdict:
    """Decoded token by token, a head returns the rows of its causal pass, and for the
    n-th token it keeps and computes what the table says.

    Measured: the largest of three: the relative difference of the outputs, that of the
    numbers kept from `decoding`, and that of the FLOPs of the last token, counted.

    Args:
        row: cache, window, linear, gated, scan, or delta, whose keys have length one.
        sizes: {"w": ..} of a window, {"s": ..} of a scan.
        seed: of the text.

    Claim: efficient.state
    Page: notebooks/jl_low_rank/complexity_table
    """
    one_of(DECODERS, row=row)
    sizes = {} if sizes is None else sizes
    _require.is_a(dict, sizes=sizes)
    law = decoding(row, n, d, **sizes)
    _require.sizes(0, seed=seed)
    most = min(sizes.get("w", n), n) - _lost
    text = a_text(n, d, seed, sizes.get("s", STATES_A_CHANNEL))
    outputs = []
    kept = None
    for i in range(n):
        before = kept
        y, kept = write(row, text, i, before, most)
        outputs.append(y)
    wanted = whole(row, text, most)
    if _sees_all:
        wanted = F.scaled_dot_product_attention(text["q"], text["k"], text["v"])
    off = (torch.stack(outputs) - wanted).abs().max() / wanted.abs().max()
    last = counted(lambda: write(row, text, n - 1, before, most))
    numbers = abs(kept.numel() - law.state)
    return at_most(max(float(off), numbers, abs(last - law.flops)), ROUNDING)


# --- reads and writes


def one_pass(n=96, d=8, rows=32, columns=24) -> dict:
    """Sizes of a pass and of its tiles."""
    return {"n": n, "d": d, "rows": rows, "columns": columns}


PASS = Case(one_pass)


@claim(
    "efficient.io",
    cases=[
        PASS,
        PASS.but(columns=96),
        PASS.but(rows=96, columns=1),
        PASS.but(rows=1, n=20),
        PASS.but(n=64, d=16, rows=16),
    ],
    controls=[PASS.but(rows=40)],
    broken={"keys outside": {"_keys_outside": True}},
)
def moved(n, d, rows, columns, *, _keys_outside=False) -> Verdict:
    """Naive attention moves 4 n^2 + 4 n d numbers, fused attention in tiles of R
    queries 2 n d (1 + n / R) + n, and both return the same.

    Measured: the largest difference from these of the numbers that are counted and of
    those of `traffic`, or of the outputs if it is larger.

    Args:
        rows: R, queries a tile; that it divides n is not asked.
        columns: keys a tile, any number.

    Claim: efficient.io
    Page: notebooks/jl_low_rank/complexity_table
    """
    _require.sizes(1, n=n, d=d, rows=rows, columns=columns)
    q, k, v = heads(n, d)
    y, naive = naive_attention(q, k, v)
    tiles = {"rows": rows, "columns": columns}
    tiled, fused = tiled_attention(q, k, v, **tiles)
    each = q.element_size()
    told_naive = traffic("naive", n, d, bytes_each=each)
    told_fused = traffic("fused", n, d, bytes_each=each, **tiles)
    repeats = Fraction(n, columns if _keys_outside else rows)
    off = float((y - tiled).abs().max())
    for found in (naive, told_naive):
        off = max(off, abs(Fraction(found.moved, each) - (4 * n * n + 4 * n * d)))
    for found in (fused, told_fused):
        wanted = 2 * n * d * (1 + repeats) + n
        off = max(off, abs(Fraction(found.moved, each) - wanted))
    return at_most(off, ROUNDING)


# --- the newer rows


def run_longformer(q, k, v, sizes):
    """A window; all read the global tokens, and these read all."""
    n = len(q)
    w, g = sizes["w"], sizes["g"]
    token = torch.arange(n)[None]
    tables = [
        overlapping(n, w // 2, w // 2),
        (token, token[:, :g]),
        (token[:, :g], token),
    ]
    return in_tiles(q, k, v, tables, patterns.longformer(n, w, g))


def run_bigbird(q, k, v, sizes):
    """By blocks: the own one, its neighbours, the first, and some drawn; the first
    block reads all.
    """
    n = len(q)
    size = sizes["block"]
    require(n % size == 0, f"block must divide n = {n}, got {size}")
    blocks = n // size
    a = torch.arange(blocks)
    mask = (a[:, None] - a).abs() <= 1
    mask[0] = True
    mask[:, 0] = True
    g = seeded()
    for row in mask[1:]:
        free = (~row).nonzero().flatten()
        drawn = torch.randperm(len(free), generator=g)[: sizes["drawn"]]
        row[free[drawn]] = True
    token = torch.arange(n).view(blocks, size)
    tables = [(token[i : i + 1], token[row].view(1, -1)) for i, row in enumerate(mask)]
    tall = mask.repeat_interleave(size, 0)
    wide = tall.repeat_interleave(size, 1)
    return in_tiles(q, k, v, tables, patterns.from_masks(wide))


def run_delta(q, k, v, sizes):
    """The delta rule."""
    beta = torch.sigmoid(v[:, 0])
    return delta_attention(q, F.normalize(k, dim=-1), v, beta, chunk=sizes["m"])


def run_scan(q, k, v, sizes):
    """A scan of s states a channel."""
    s = sizes["s"]
    a = torch.sigmoid(q)[..., None].expand(*q.shape, s)
    b, c, _ = heads(len(q), s)
    return selective_scan(v, a, b.float(), c.float(), chunk=sizes["m"])


NEWER = {
    "longformer": run_longformer,
    "bigbird": run_bigbird,
    "nystrom": run_nystrom,
    "performer causal": lambda q, k, v, sizes: performer_attention(
        q, k, v, features=sizes["f"], chunk=sizes["m"], causal=True, generator=seeded()
    ),
    "gated": lambda q, k, v, sizes: gated_linear_attention(
        q, k, v, torch.sigmoid(v[:, 0]), chunk=sizes["m"]
    ),
    "delta": run_delta,
    "scan": run_scan,
}


GATED = Case(one_head, {"row": "gated", "n": 512, "sizes": {"m": 64}})


@claim(
    "efficient.newer",
    cases=[
        GATED,
        GATED.but(sizes={"m": 32}),
        GATED.but(row="delta"),
        GATED.but(row="scan", sizes={"s": 4, "m": 64}),
        GATED.but(row="performer causal", sizes={"f": 24, "m": 64}),
        GATED.but(row="nystrom", sizes={"k": 16, "iterations": 6}),
        GATED.but(row="longformer", sizes={"w": 33, "g": 2}),
        GATED.but(row="bigbird", sizes={"block": 32, "drawn": 2}),
        GATED.but(row="bigbird", n=1024, sizes={"block": 64, "drawn": 1}),
        GATED.but(row="bigbird", n=128, sizes={"block": 32, "drawn": 2}),
        GATED.but(row="bigbird", n=32, sizes={"block": 32, "drawn": 2}),
    ],
    controls=[GATED.but(n=500)],
)
def newer_counts(row: str, n, d, sizes) -> Verdict:
    """The rows that are younger than the usual table cost what it says as well.

    Measured: the FLOPs that torch's counter sees, less those of the formula.

    Args:
        row: longformer, bigbird, nystrom (with iterations), performer causal, gated,
            delta or scan.
        n, d: tokens and width; that block sizes divide n is not asked.
        sizes: those of the row. The page's formula for BigBird needs 4 blocks and those
            drawn; `flops` knows the rest.

    Claim: efficient.newer
    Page: notebooks/jl_low_rank/complexity_table
    """
    return off_the_formula(NEWER, row, n, d, sizes)
