"""The claims of the page `What attention costs`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from attnbook.theorems import Case, claim
from attnlib import _require, patterns
from attnlib._require import one_of, require
from attnlib.certify import Verdict, at_least, at_most
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
from attnlib.patterns import Blocks, Columns, Pattern, Window, build
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
    """Both parts of the strided pattern of (8.1), merged."""
    l = min(l, n)
    both = patterns.one_step(patterns.strided(n, l, reach=l))
    return patterns.causal(both)


def fixed(n: int, l: int, c: int = 1) -> Pattern:
    """Both parts of the fixed pattern of (8.1), merged."""
    parts = [Blocks(l)]
    ends = tuple(j for j in range(n) if j % l >= l - c)
    if ends:
        parts.append(Columns(ends))
    return patterns.causal(build(n, parts))


# --- what one pass costs


def run_dense(q, k, v, sizes, causal):
    """Softmax over all keys, by the fused kernel."""
    return F.scaled_dot_product_attention(q[None], k[None], v[None])


def run_linformer(q, k, v, sizes, causal):
    """Attention to k mixtures."""
    mix = q.new_ones(sizes["k"], len(q))
    return linformer_attention(q, k, v, mix, mix)


def run_nystrom(q, k, v, sizes, causal):
    """Attention through k landmarks, exact inverse."""
    return nystrom_attention(q, k, v, sizes["k"])


def run_strided(q, k, v, sizes, causal):
    """The last l keys by windows, every l-th by classes."""
    n = len(q)
    l = sizes["l"]
    classes = torch.arange(l)[:, None] + l * torch.arange(math.ceil(n / l))
    tables = [overlapping(n, l, 0), (classes, classes)]
    return in_tiles(q, k, v, tables, strided(n, l))


def run_fixed(q, k, v, sizes, causal):
    """The own block, and the ends of all blocks for all."""
    n = len(q)
    l, c = sizes["l"], sizes["c"]
    blocks = torch.arange(math.ceil(n / l) * l).view(-1, l)
    ends = blocks[:, l - c :].flatten()
    tables = [(blocks, blocks), (torch.arange(n)[None], ends[None, ends < n])]
    return in_tiles(q, k, v, tables, fixed(n, l, c))


def run_window(q, k, v, sizes, causal):
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


def run_lsh(q, k, v, sizes, causal):
    """Hashing with two equal factors."""
    how = {"rounds": sizes["r"], "chunk": sizes["m"], "causal": causal}
    buckets = (sizes["b"] // 2,) * 2  # two equal factors
    return lsh_attention(q, v, buckets=buckets, generator=seeded(), **how)


def run_linear(q, k, v, sizes, causal):
    """Linear attention."""
    return linear_attention(q, k, v, causal=causal)


def run_linear_causal(q, k, v, sizes, causal):
    """Linear attention of the past, in chunks."""
    return linear_attention(q, k, v, causal=True, chunk=sizes["m"])


def run_performer(q, k, v, sizes, causal):
    """Positive features."""
    how = {"features": sizes["f"], "causal": causal}
    return performer_attention(q, k, v, generator=seeded(), **how)


def run_gru(q, k, v, sizes, causal):
    """A GRU with its input products."""
    d = q.shape[-1]
    return torch.nn.GRU(d, d, dtype=q.dtype)(q)


RUNS = {
    "dense": run_dense,
    "linformer": run_linformer,
    "nystrom": run_nystrom,
    "strided": run_strided,
    "fixed": run_fixed,
    "window": run_window,
    "lsh": run_lsh,
    "linear": run_linear,
    "linear causal": run_linear_causal,
    "performer": run_performer,
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


def one_head(row="lsh", n=1024, d=16, sizes=None) -> dict:
    """A row of the table and its sizes."""
    if sizes is None:
        sizes = {"r": 2, "m": 64, "b": 8}
    return {"row": row, "n": n, "d": d, "sizes": sizes}


def counts_by_hand() -> Verdict:
    """Small products, added up by hand; and Linformer's tie with dense at n = 2k.

    Dense, n = 3, d = 2: 9 logits and 6 outputs, of 2 and 3 products each: 36 products,
    72 FLOPs. Window of 3, tiles of 1: 3 keys, 12 products a token. A GRU of width 5:
    six matrices of 25 weights, 150 products a token.

    Measured: how many of the five counts are off.
    """
    found = [
        flops("dense", 3, 2),
        flops("window", 7, 2, w=3, tile=1),
        flops("gru", 4, 5),
        flops("linformer", 2 * 128, 64, k=128) - flops("dense", 2 * 128, 64),
        flops("linformer", 255, 64, k=128) > flops("dense", 255, 64),
    ]
    wanted = [72, 2 * 7 * 12, 2 * 4 * 150, 0, True]
    return at_most(sum(f != w for f, w in zip(found, wanted)), 0)


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
    controls=[LSH.but(n=1000), LSH.but(causal=True)],
    witness=counts_by_hand,
)
def counts(
    row: str, n: int, d: int, sizes: dict[str, int], *, causal: bool = False
) -> Verdict:
    """The products of one head cost exactly what the table says.

        dense  4 n^2 d        strided  4 n (t + l + n/l) d        linear  4 n d (d + 1)

    and so on; the page has all rows.

    Hypotheses: n is a multiple of the block sizes and of the 32 queries of a tile, and
    no causal mask for LSH, linear attention and Performer. They are not refused:
    without them a row may cost something else, and ok is then false.
    Measured: |FLOPs that torch's counter sees - FLOPs of the formula|.

    Args:
        row: a row of `efficient.flops` that is older than 2021.
        n: tokens.
        d: width of queries, keys and values.
        sizes: those of the row.
        causal: for LSH, linear and Performer, breaks the hypothesis.

    Returns:
        Verdict; its bound is 0.

    Claim: efficient.flops
    Page: notebooks/jl_low_rank/complexity_table
    """
    one_of(list(RUNS), row=row)
    own = _sizes(row, n, d, sizes)
    masked = ("lsh", "linear", "performer")
    require(not causal or row in masked, f"causal must be False for {row}: not read")
    q, k, v = (t.float() for t in heads(n, d))
    run = RUNS[row]
    seen = counted(lambda: run(q, k, v, own, causal))
    return at_most(abs(seen - flops(row, n, d, **sizes)), 0)


# --- messages that need two hops


def merged(kind="strided", n=256, l=16, c=1) -> dict:
    """A merged pattern of (8.1); or a causal window of as many tokens."""
    one_of(["strided", "fixed", "window"], kind=kind)
    _require.sizes(2, n=n)
    _require.sizes(1, l=l, c=c)
    if kind == "strided":
        return {"pattern": strided(n, l)}
    if kind == "fixed":
        return {"pattern": fixed(n, l, c)}
    return {"pattern": build(n, [Window(2 * l - 1, 0)])}


def a_path_by_hand() -> Verdict:
    """n = 256, l = 16: 200 reads 40, as 40 + 160 = 200; 40 reads 33; 200 not 33.

    Measured: how many of the three are otherwise.
    """
    reads = strided(256, 16).mask()
    wrong = [not reads[200, 40], not reads[40, 33], reads[200, 33]]
    return at_most(sum(map(int, wrong)), 0)


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
    controls=[STRIDED.but(hops=1), STRIDED.but(kind="window")],
    witness=a_path_by_hand,
)
def two_hops(pattern: Pattern, *, hops: int = 2) -> Verdict:
    """In the merged strided and the merged fixed pattern every j <= i reaches i in at
    most two hops.

    Hypotheses: stride l >= 1, and 1 <= c <= l summaries a block.
    Measured: how many pairs j <= i are not joined, or pairs j > i are.

    Args:
        pattern: of one step, every token reading itself.
        hops: how many.

    Returns:
        Verdict; its bound is 0.

    Claim: efficient.two-hops
    Page: notebooks/jl_low_rank/complexity_table
    """
    _require.is_a(Pattern, pattern=pattern)
    _require.sizes(1, hops=hops)
    reads = pattern.mask().double()
    reached = reads
    for _ in range(hops - 1):
        reached = ((reached @ reads) > 0).double()
    wrong = triangle(len(reads)) != (reached > 0)
    return at_most(int(wrong.sum()), 0)


def blocks_and_summaries(n=256, l=16, c=1) -> dict:
    """Sizes of the two parts of the fixed pattern."""
    return {"n": n, "l": l, "c": c}


def six_tokens_by_hand() -> Verdict:
    """n = 6, l = 3, c = 1, summaries first: 3, 4, 5 miss 0 and 1; local first: none.

    Measured: how many of the two counts are off.
    """
    missed = [joined(6, 3, 1, first=part) for part in ("summaries", "local")]
    found = [int((triangle(6) & ~reached).sum()) for reached in missed]
    return at_most(int(found[0] != 6) + int(found[1] != 0), 0)


def joined(n: int, l: int, c: int, *, first: str, skips: bool = True) -> Tensor:
    """Which j reach which i in two layers that take the two parts in turn."""
    j = torch.arange(n)
    i = j[:, None]
    own_block = (j <= i) & (i // l == j // l)
    ends = (j <= i) & (j % l >= l - c)
    skip = skips * torch.eye(n)
    local = own_block + skip
    summaries = ends + skip
    if first == "local":
        return (summaries @ local) > 0
    return (local @ summaries) > 0


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
    controls=[PARTS.but(skips=False), PARTS.but(n=250)],
    witness=six_tokens_by_hand,
)
def order(
    n: int,
    l: int,
    c: int,
    *,
    first: Literal["local", "summaries"] = "summaries",
    skips: bool = True,
) -> Verdict:
    """Two layers that take the two parts of the fixed pattern in turn join all pairs
    j <= i if the local part comes first, and miss l (l - c) binom(n/l, 2) otherwise.

    Hypotheses: skips, l divides n; without either ok is false.
    Measured, exactly: |pairs missed - that number|.

    Args:
        n: tokens.
        l: tokens a block.
        c: summaries, the last tokens of each block, from 1 to l.
        first: the part that layer 1 takes.
        skips: every layer adds its input to its output.

    Returns:
        Verdict; its bound is 0.

    Claim: efficient.order
    Page: notebooks/jl_low_rank/complexity_table
    """
    one_of(("local", "summaries"), first=first)
    _require.sizes(1, n=n, l=l, c=c)
    require(c <= l, f"c must be at most l = {l}, got {c}: a block has l tokens")
    reached = joined(n, l, c, first=first, skips=skips)
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


def some_are_seen_often_some_alone() -> Verdict:
    """Tokens are seen in all four rounds; one that is alone sees itself, in all.

    Measured: how many of three numbers are otherwise.
    """
    qk = hashed()["qk"]
    ids = lsh_buckets(qk, 4, rounds=4, generator=seeded())
    most = int(lsh_sets(ids, 8).sum(0).max())
    # Tokens 0 and 1 meet in round 1 only, token 2 is alone in both.
    sets = lsh_sets(torch.tensor([[0, 1, 2], [0, 0, 1]]), 3)
    together = int(sets[0, :2].sum())
    alone = int(sets[:, 2].sum())
    return at_most(sum([most != 4, together != 0, alone != 2]), 0)


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
        HASHED.but(correct=False, reading="counted"),
        FEW.but(correct=False, reading="counted", causal=True),
    ],
    controls=[HASHED.but(correct=False), HASHED.but(reading="counted")],
    witness=some_are_seen_often_some_alone,
)
def union(
    qk: Tensor,
    v: Tensor,
    *,
    rounds: int,
    buckets: int | tuple[int, ...],
    chunk: int,
    causal: bool = False,
    correct: bool = True,
    reading: Literal["union", "counted"] = "union",
    seed: int = 0,
) -> Verdict:
    """Rounds of hashed attention, duplicates corrected, merge to one softmax over the
    union of the rounds; uncorrected, a key weighs as often as it was seen.

        logits a_ij - ln N_ij in every round, merged by their sums of exponentials

    Hypotheses: N_ij counts the rounds in which i sees j; i sees itself only if no round
    shows it another token, then in all rounds.
    Measured: the largest difference of `lsh_attention` from the weights written out.

    Args:
        qk: (n, d), queries that serve as keys, in float64.
        v: (n, d_v).
        rounds, buckets, chunk, causal: of `lsh_attention`.
        correct: the kernel subtracts ln N_ij.
        reading: what it is compared with.
        seed: of the rotations.

    Returns:
        Verdict; its bound goes with the magnitude of the values and the logits.

    Claim: efficient.union
    Page: notebooks/jl_low_rank/complexity_table
    """
    one_of(("union", "counted"), reading=reading)
    _check(qk=(qk, (None, None)))
    _check(v=(v, (len(qk), None)))
    _require.sizes(0, seed=seed)
    ids = lsh_buckets(qk, buckets, rounds=rounds, generator=seeded(seed))
    sets = lsh_sets(ids, chunk, causal=causal)
    wanted = hashed_weights(qk, sets, correct=reading == "union") @ v
    got = lsh_attention(
        qk,
        v,
        buckets=buckets,
        rounds=rounds,
        chunk=chunk,
        causal=causal,
        correct_duplicates=correct,
        generator=seeded(seed),
    )
    # A key has length one, so no logit is larger than its query.
    return agree(got, wanted, magnitude(v), magnitude(qk))


def equally_likely_rounds(n=8, outcomes=4, buckets=2, rounds=3, seed=0) -> dict:
    """Tokens, and the bucket lists that a round draws from, all equally likely."""
    qk = torch.randn(n, 6, generator=seeded(seed), dtype=torch.float64)
    lists = lsh_buckets(qk, buckets, rounds=outcomes, generator=seeded(seed + 1))
    return {"qk": qk, "lists": lists, "rounds": rounds}


def many_rounds_without_the_correction() -> Verdict:
    """If every outcome is drawn once, N_ij / r is p_ij: the kernel without the
    correction must return p e^a / sum p e^a, its limit.

    Measured: the largest difference of the weights.
    """
    qk = heads(8, 6)[0]
    how = {"buckets": 2, "rounds": 12}
    lists = lsh_buckets(qk, generator=seeded(3), **how)
    p = (lists[:, :, None] == lists[:, None, :]).double().mean(0)
    keys = F.normalize(qk, dim=-1)
    e = (qk @ keys.mT / math.sqrt(6)).exp()
    share = (p * e).fill_diagonal_(0)
    wanted = share / share.sum(-1, keepdim=True)
    eye = torch.eye(8, dtype=torch.float64)
    got = lsh_attention(
        qk, eye, chunk=8, correct_duplicates=False, generator=seeded(3), **how
    )
    return at_most((got - wanted).abs().max(), ROUNDING)


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
    controls=[ROUNDS.but(correct=False), ROUNDS.but(chunk=2)],
    witness=many_rounds_without_the_correction,
)
def missed_mass(
    qk: Tensor,
    lists: Tensor,
    rounds: int,
    *,
    correct: bool = True,
    chunk: int | None = None,
) -> Verdict:
    """The distance of hashed from dense attention is the dense mass on keys that no
    round saw; its mean is sum_j P_ij (1 - p_ij)^r.

    Hypotheses: independent rounds, chunks that cut nothing, n >= 2; a token sees itself
    only if no round shows it another.
    Measured: the largest error of the two statements. The mean is over ALL draws of r
    outcomes: nothing is sampled.

    Args:
        qk: (n, d), queries that serve as keys, in float64.
        lists: (outcomes, n), bucket lists; a round draws one, all alike.
        rounds: r, with outcomes^r at most 4,096.
        correct: False leaves out ln N_ij.
        chunk: None for n, which cuts nothing.

    Returns:
        Verdict.

    Raises:
        ValueError: for more than 4,096 draws.

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
    if len(lists) ** rounds > 4096:
        raise ValueError(
            f"{len(lists)} outcomes and {rounds} rounds are {len(lists) ** rounds:,} "
            "draws, more than 4,096"
        )
    others = ~torch.eye(n, dtype=torch.bool)
    P = hashed_weights(qk, others[None])
    p = (lists[:, :, None] == lists[:, None, :]).double().mean(0)
    mean = torch.zeros(n, dtype=qk.dtype)
    off = []
    draws = list(itertools.product(range(len(lists)), repeat=rounds))
    for draw in draws:
        sets = lsh_sets(lists[list(draw)], n if chunk is None else chunk)
        found = hashed_weights(qk, sets, correct=correct)
        distance = (P - found).abs().sum(-1) / 2
        unseen = (P * ~sets.any(0)).sum(-1)
        off.append((distance - unseen).abs())
        mean += distance / len(draws)
    law = (P * (1 - p) ** rounds).sum(-1)
    off.append((mean - law).abs())
    return at_most(torch.stack(off).max(), ROUNDING)


# --- a border that the future moves


def lists_of_buckets(t=5, buckets=3, chunk=2) -> dict:
    """All lists of t tokens in a few buckets."""
    ids = torch.tensor(list(itertools.product(range(buckets), repeat=t)))
    return {"ids": ids, "buckets": buckets, "chunk": chunk}


def five_tokens_by_hand() -> Verdict:
    """Four tokens in bucket 1; the fifth in bucket 0 or 2. Chunks of two, cut across
    buckets: token 3 sees 1, 2, 3 or 0, 1, 2, 3. Cut within: always the latter.

    Measured: how many of the four sets are otherwise.
    """
    found = []
    for within in (False, True):
        for last in (0, 2):
            ids = torch.tensor([[1, 1, 1, 1, last]])
            how = {"causal": True, "attend_self": True, "within": within}
            sees = lsh_sets(ids, 2, **how)[0, 3]
            found.append(sees.nonzero().flatten().tolist())
    all_four = [0, 1, 2, 3]
    wanted = [[1, 2, 3], all_four, all_four, all_four]
    return at_most(sum(f != w for f, w in zip(found, wanted)), 0)


LISTS = Case(lists_of_buckets)


@claim(
    "efficient.leak",
    cases=[LISTS, *(LISTS.but(t=t) for t in (1, 2, 3, 4, 6))],
    controls=[LISTS.but(within=False)],
    witness=five_tokens_by_hand,
)
def borders(ids: Tensor, buckets: int, chunk: int, *, within: bool = True) -> Verdict:
    """Chunks cut within each bucket: no later token changes what an earlier one sees.
    Chunks cut from all tokens sorted by bucket: one can.

    Hypotheses: each bucket depends on its own token only; own chunk and the one before,
    j <= i.
    Measured: how many of the lists see otherwise when one more token follows.

    Args:
        ids: (lists, t), buckets of the first t tokens.
        buckets: those that the token t + 1 may be in.
        chunk: tokens a chunk.
        within: chunks are cut within each bucket.

    Returns:
        Verdict; its bound is 0.

    Claim: efficient.leak
    Page: notebooks/jl_low_rank/complexity_table
    """
    _lists("ids", ids)
    _require.sizes(1, buckets=buckets, chunk=chunk)
    t = ids.shape[1]
    before = lsh_sets(ids[None], chunk, causal=True, within=within)[0]
    changed = torch.zeros(len(ids), dtype=torch.bool)
    for last in range(buckets):
        longer = F.pad(ids, (0, 1), value=last)
        after = lsh_sets(longer[None], chunk, causal=True, within=within)[0]
        differs = after[:, :t, :t] != before
        changed |= differs.flatten(1).any(1)
    return at_most(int(changed.sum()), 0)


# --- the price of a hash


def chunks_of(n=1024, d=16, m=32) -> dict:
    """Sizes of one round of hashing, b = 2n/m buckets."""
    return {"n": n, "d": d, "m": m}


def rotations(n: int, d: int, factors: Sequence[int]) -> int:
    """Multiply-adds of one round of hashing, counted."""
    x = torch.randn(n, d, generator=seeded())
    buckets = tuple(factors)
    return counted(lambda: lsh_buckets(x, buckets, generator=seeded())) // 2


def a_round_costs_half_the_sum() -> Verdict:
    """Counted: n d (b_1 + .. + b_F) / 2 multiply-adds, never below n d F b^(1/F) / 2.
    One rotation to 2n/m buckets: n^2 d / m, by hand at n = 256, d = 16, m = 32: 32,768.

    Measured: how many of the numbers are otherwise.
    """
    wrong = int(rotations(256, 16, (16,)) != 32768)
    wrong += int(rotations(4096, 16, (256,)) != 4096**2 * 16 // 32)
    for factors in ((64,), (8, 8), (4, 16), (4, 4, 4), (2,) * 6):
        cost = rotations(64, 8, factors)
        F_ = len(factors)
        wrong += int(cost != 64 * 8 * sum(factors) // 2)
        wrong += int(2 * cost < 64 * 8 * F_ * 64 ** (1 / F_) * (1 - 1e-9))
    return at_most(wrong, 0)


WAYS = ("signs", "two factors", "one rotation")
SIZES = Case(chunks_of)


@claim(
    "efficient.hash",
    cases=[SIZES, SIZES.but(n=256), SIZES.but(n=4096)],
    controls=[SIZES.but(way="one rotation"), SIZES.but(way="two factors")],
    witness=a_round_costs_half_the_sum,
)
def price_of_a_hash(
    n: int,
    d: int,
    m: int,
    *,
    way: Literal["signs", "two factors", "one rotation"] = "signs",
) -> Verdict:
    """A round of hashing into b = 2n/m buckets costs n d log2 b multiply-adds if it
    consists of signs, and more if it consists of fewer, wider rotations.

    Hypotheses: a rotation is a product with a dense d x b/2 matrix; b a power of two.
    Measured: multiply-adds, counted, over n d log2 b.

    Args:
        n: tokens.
        d: width.
        m: tokens a chunk; 2n/m a power of two.
        way: which factors b has.

    Returns:
        Verdict; its bound is 1.

    Claim: efficient.hash
    Page: notebooks/jl_low_rank/complexity_table
    """
    one_of(WAYS, way=way)
    _require.sizes(1, n=n, d=d, m=m)
    ratio = Fraction(2 * n, m)
    b = int(ratio)
    powers = b.bit_length() - 1
    if ratio != 2**powers or powers < 1:
        raise ValueError(
            f"2n/m must be a power of two, at least 2, got {ratio} for n = {n}, m = {m}"
        )
    enough = b >= 4 or way != "two factors"
    require(enough, f"way must not be {way!r} for b = {b}: factors are even")
    half = 2 ** (powers // 2)
    factors = {
        "signs": (2,) * powers,
        "two factors": (half, b // half),
        "one rotation": (b,),
    }
    return at_most(Fraction(rotations(n, d, factors[way]), n * d * powers), 1)


# --- positive features


def two_points(x=(0.3, -0.5), y=(0.7, 0.2)) -> dict:
    """Two points of the plane."""
    both = torch.tensor([x, y], dtype=torch.float64)
    return {"x": both[0], "y": both[1]}


def draws_divide_the_variance() -> Verdict:
    """50 features: the relative variance over 4,000 draws is (e^{|x+y|^2} - 1)/50, to
    15 per cent; x = -y gives 0.

    Measured: the larger of both relative errors.
    """
    x, y = two_points(y=(0.5, 0.1)).values()
    w = torch.randn(4000 * 50, 2, generator=seeded(), dtype=torch.float64)
    phi = positive_features(torch.stack([x, y]), w) * math.sqrt(len(w))
    estimates = (phi[0] * phi[1]).view(4000, 50).mean(1)
    relative = float(estimates.var() / (2 * x @ y).exp())
    wanted = math.expm1(float((x + y).square().sum())) / 50
    opposite = positive_features(torch.stack([x, -x]), w)
    exact = float((opposite[0] @ opposite[1]) * (x @ x).exp())
    return at_most(max(abs(relative / wanted - 1), abs(exact - 1)), 0.15)


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
    controls=[POINTS.but(halves=False)],
    witness=draws_divide_the_variance,
)
def positive(
    x: Tensor, y: Tensor, *, power: Literal[1, 2] = 1, halves: bool = True
) -> Verdict:
    """The product of positive features has mean e^{x'y} and relative variance
    (e^{|x+y|^2} - 1)/f.

    Hypotheses: rows w_u from N(0, I), independent, and the half squares in the
    exponent.
    Measured: the relative error of the mean of one product, or of its square, whose
    mean is e^{|x+y|^2 + 2x'y}. The mean over w in the plane is a Gauss-Hermite sum of
    60 by 60 nodes: nothing is drawn.

    Args:
        x, y: (2,), of length up to two, in float64.
        power: 1 for the mean, 2 for the square.
        halves: False leaves out |x|^2/2 and |y|^2/2.

    Returns:
        Verdict.

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
    if not halves:
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


def edits_of_the_past_are_seen() -> Verdict:
    """Each kernel notices an edit of token 16 in some row from 16 on, and not later.

    Measured: the least change over the kernels, at least 0.001.
    """
    least = math.inf
    for kernel in CAUSAL:
        objects = edited(kernel, at=16)
        off = kernel(*objects["first"]) - kernel(*objects["changed"])
        least = min(least, float(off[16].abs().max()))
    return at_least(least, 1e-3)


EDIT = Case(edited)
EDITS = []
for see in CAUSAL:
    for place, draw, factor in ((1, 0, 1.0), (8, 1, 10.0), (17, 2, 10.0), (29, 3, 1.0)):
        EDITS.append(EDIT.but(kernel=see, at=place, seed=draw, size=factor))


@claim(
    "efficient.causal",
    cases=[EDIT, *EDITS],
    controls=[EDIT.but(kernel=see_both_sides)],
    witness=edits_of_the_past_are_seen,
)
def past_only(kernel: Callable, first: Tensor, changed: Tensor, at: int) -> Verdict:
    """Row i of a causal kernel is a function of the tokens j <= i and of the random
    draws.

    Hypotheses: the same random draws in both calls; exact arithmetic.
    Measured: the largest change of the rows before `at` when tokens from `at` on
    change, at most 512 eps of the magnitude of the answers: products over other tokens
    may be summed in another order.

    Args:
        kernel: (q, k, v) -> (n, d_v), with its random draws fixed.
        first, changed: (3, n, d), queries, keys and values that agree before `at`, in
            float64.
        at: the first token that differs, from 1 to n - 1.

    Returns:
        Verdict.

    Claim: efficient.causal
    Page: notebooks/jl_low_rank/complexity_table
    """
    require(callable(kernel), f"kernel must be callable, got {type(kernel).__name__}")
    _check(first=(first, (3, None, None)))
    _check(changed=(changed, tuple(first.shape)))
    n = first.shape[1]
    _require.sizes(1, at=at)
    require(at < n, f"at must be at most n - 1 = {n - 1}, got {at}")
    if not torch.equal(first[:, :at], changed[:, :at]):
        raise ValueError(f"first and changed must agree before at = {at}")
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


def a_round_doubles_what_is_seen() -> Verdict:
    """After t rounds the last of 100 tokens depends on min(2^t, 100) of them, no
    more: after 7 on all, after 6 on 64.

    Measured: how many of the counts are otherwise.
    """
    a, b = recurrence().values()
    wrong = 0
    for t in range(8):
        fresh = b.clone().requires_grad_()
        last = in_rounds(a, fresh, t)[-1]
        (gradient,) = torch.autograd.grad(last, fresh)
        wrong += int(gradient.count_nonzero()) != min(2**t, 100)
    return at_most(wrong, 0)


RECURRENCE = Case(recurrence)


@claim(
    "efficient.depth",
    cases=[RECURRENCE, *(RECURRENCE.but(n=n) for n in (1, 2, 3, 64, 65, 1000))],
    controls=[RECURRENCE.but(fewer=1)],
    witness=a_round_doubles_what_is_seen,
)
def depth(a: Tensor, b: Tensor, *, fewer: int = 0) -> Verdict:
    """A linear recurrence h_i = a_i h_{i-1} + b_i over n tokens takes ceil(log2 n)
    rounds, and no output that depends on all n tokens takes fewer.

    Hypotheses: a result is at most two numbers, made from at most two earlier results
    by at most three products and sums; a round makes any number of results.
    Measured: the largest difference from the recurrence, run token after token.

    Args:
        a, b: (n,), |a_i| at most 1, in float64.
        fewer: rounds left out; then the last token has not heard of the first.

    Returns:
        Verdict; its bound goes with the magnitude of h, and with n beyond 1,000.

    Claim: efficient.depth
    Page: notebooks/jl_low_rank/complexity_table
    """
    _check(a=(a, (None,)))
    _check(b=(b, tuple(a.shape)))
    most = float(a.abs().max())
    require(most <= 1, f"a must have |a_i| at most 1, got {most:g}")
    n = len(a)
    rounds = (n - 1).bit_length()
    _require.sizes(0, fewer=fewer)
    require(fewer <= rounds, f"fewer must be at most {rounds} rounds, got {fewer}")
    wanted = token_after_token(a, b)
    got = in_rounds(a, b, rounds - fewer)
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


def not_every_mla_is_a_gqa(numbers: int = 8) -> Verdict:
    """Eight heads of width 4 that read their keys from a latent of some numbers, drawn
    at random, against every GQA of two groups: its keys take 8, with the values 16.

    Measured: the least relative error of the forms, at least 0.3; or 0 if the same
    search does not find a GQA for the forms of a GQA.
    """
    g = seeded()
    sizes = {"generator": g, "dtype": torch.float64}
    w_q = torch.randn(8, 32, 4, **sizes)
    w_k = torch.randn(2, 32, 4, **sizes)
    down = torch.randn(32, numbers, **sizes)
    up = torch.randn(8, numbers, 4, **sizes)
    grouped = w_q @ w_k.repeat_interleave(4, 0).mT
    if gqa_error(grouped, 2, 4) > 1e-7:
        return at_least(0.0, 0.3)
    return at_least(gqa_error(w_q @ (down @ up).mT, 2, 4), 0.3)


GROUPED = Case(grouped_heads)


@claim(
    "efficient.latent",
    cases=[
        GROUPED,
        GROUPED.but(groups=1),
        GROUPED.but(groups=8),
        GROUPED.but(groups=4, d=3, seed=1),
    ],
    controls=[GROUPED.but(fewer=1)],
    witness=not_every_mla_is_a_gqa,
)
def latent(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, *, fewer: int = 0
) -> Verdict:
    """Every GQA is an MLA that caches as many numbers a token; not the other way round.

    Hypotheses: G groups of keys and values of width d, so 2 G d numbers a token; no
    rotary positions. For the other way: a model wider than d.
    Measured: the largest difference of the outputs.

    Args:
        x: (n, D), in float64.
        w_q: (H, D, d), H a multiple of G.
        w_k, w_v: (G, D, d).
        fewer: numbers of the latent left out.

    Returns:
        Verdict; its bound goes with the magnitude of the values and the logits.

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
    _require.sizes(0, fewer=fewer)
    kept = 2 * G * d
    require(fewer <= kept, f"fewer must be at most 2 G d = {kept}, got {fewer}")

    q = x @ w_q
    own = torch.arange(H) // (H // G)  # the group of each head
    k = (x @ w_k)[own]
    v = (x @ w_v)[own]
    grouped = attend(q, k, v)

    mla = gqa_as_mla(w_k, w_v, H)
    cache = x @ mla.down
    if fewer:
        cache[:, -fewer:] = 0
    latent = attend(q, cache @ mla.keys, cache @ mla.values)
    logits = q @ k.mT / math.sqrt(d)
    return agree(latent, grouped, magnitude(v), magnitude(logits))


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


def write_linear(text, i, kept, most):
    """One token of linear attention."""
    return linear_step(text["q"][i], text["k"][i], text["v"][i], kept)


def write_gated(text, i, kept, most):
    """One token of gated linear attention."""
    q, k, v, gate = (text[name][i] for name in ("q", "k", "v", "gate"))
    return gated_linear_step(q, k, v, gate, kept)


def write_delta(text, i, kept, most):
    """One token of the delta rule."""
    q, k, v, beta = (text[name][i] for name in ("q", "unit", "v", "beta"))
    return delta_step(q, k, v, beta, state=kept)


def write_scan(text, i, kept, most):
    """One token of a scan."""
    x, a, b, c = (text[name][i] for name in ("v", "a", "b", "c"))
    return selective_step(x, a, b, c, kept)


def pass_cache(text, most):
    """Softmax over the past."""
    q, k, v = (text[name] for name in "qkv")
    return attend(q, k, v)


def pass_window(text, most):
    """Softmax over the last tokens."""
    q, k, v = (text[name] for name in "qkv")
    return sparse_attention(q, k, v, build(len(q), [Window(most - 1, 0)]))


def pass_linear(text, most):
    """Linear attention of the past."""
    q, k, v = (text[name] for name in "qkv")
    return linear_attention(q, k, v, causal=True, chunk=8)


def pass_gated(text, most):
    """Gated linear attention, in chunks."""
    q, k, v, gate = (text[name] for name in ("q", "k", "v", "gate"))
    return gated_linear_attention(q, k, v, gate, chunk=8)[0]


def pass_delta(text, most):
    """The delta rule, in chunks."""
    q, k, v, beta = (text[name] for name in ("q", "unit", "v", "beta"))
    return delta_attention(q, k, v, beta, chunk=8)[0]


def pass_scan(text, most):
    """A scan, in chunks."""
    x, a, b, c = (text[name] for name in ("v", "a", "b", "c"))
    return selective_scan(x, a, b, c, chunk=8)[0]


DECODERS = {
    "cache": (write_cache, pass_cache),
    "window": (write_cache, pass_window),
    "linear": (write_linear, pass_linear),
    "gated": (write_gated, pass_gated),
    "delta": (write_delta, pass_delta),
    "scan": (write_scan, pass_scan),
}


def sizes_by_hand() -> Verdict:
    """With n = 4096 and d = 64 a cache holds 524,288 numbers, linear attention 4,160,
    and a window of nine tokens 1,152.

    FLOPs a token: 4 * 4096 * 64 and 4 * 64 * 65. Of all lists of six bits a cache keeps
    64 apart, a window of four 16.

    Measured: how many of the seven numbers are otherwise.
    """
    cache = decoding("cache", 4096, 64)
    linear = decoding("linear", 4096, 64)
    window = decoding("window", 4096, 64, w=9)
    found = [cache.state, linear.state, window.state, cache.flops, linear.flops]
    wanted = [524288, 4160, 1152, 1048576, 16640, 64, 16]
    for most in (6, 4):
        states = set()
        for bits in itertools.product((0.0, 1.0), repeat=6):
            text = a_text(6, 1, 0) | {"v": torch.tensor(bits).double()[:, None]}
            kept = None
            for i in range(6):
                _, kept = write_cache(text, i, kept, most)
            states.add(tuple(kept.flatten().tolist()))
        found.append(len(states))
    return at_most(sum(f != w for f, w in zip(found, wanted)), 0)


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
    controls=[DECODER.but(lost=1), DECODER.but(sees_all=True)],
    witness=sizes_by_hand,
)
def state(
    row: str,
    n: int,
    d: int,
    sizes: dict[str, int] | None = None,
    *,
    lost: int = 0,
    sees_all: bool = False,
    seed: int = 0,
) -> Verdict:
    """Decoded token by token, a head returns the rows of its causal pass, and for the
    n-th token it keeps and computes what the table says.

        cache   2 n d numbers, 4 n d FLOPs
        linear  d (d + 1) numbers, 4 d (d + 1) FLOPs

    Hypotheses: the pass is causal; projections aside; keys of length one for delta.
    Measured: the largest of three: the relative difference of the outputs, that of the
    numbers kept from `decoding`, and that of the FLOPs of the last token, counted.

    Args:
        row: cache, window, linear, gated, delta or scan.
        n: tokens.
        d: width.
        sizes: {"w": ..} of a window, {"s": ..} of a scan.
        lost: tokens of a cache that are dropped, fewer than n; then it is not what it
            should be.
        sees_all: compares a cache with a pass that is not causal.
        seed: of the text.

    Returns:
        Verdict.

    Claim: efficient.state
    Page: notebooks/jl_low_rank/complexity_table
    """
    one_of(list(DECODERS), row=row)
    write, whole = DECODERS[row]
    if sizes is None:
        sizes = {}
    _require.is_a(dict, sizes=sizes)
    law = decoding(row, n, d, **sizes)
    _require.sizes(0, lost=lost, seed=seed)
    require(lost < n, f"lost must be less than n = {n}, got {lost}")
    plain = not lost and not sees_all
    require(plain or row == "cache", f"lost and sees_all are for a cache, not {row}")

    most = min(sizes.get("w", n), n) - lost
    text = a_text(n, d, seed, sizes.get("s", STATES_A_CHANNEL))
    outputs = []
    kept = None
    for i in range(n):
        before = kept
        y, kept = write(text, i, before, most)
        outputs.append(y)
    wanted = whole(text, most)
    if sees_all:
        wanted = F.scaled_dot_product_attention(text["q"], text["k"], text["v"])
    off = (torch.stack(outputs) - wanted).abs().max() / wanted.abs().max()
    last = counted(lambda: write(text, n - 1, before, most))
    numbers = abs(kept.numel() - law.state)
    return at_most(max(float(off), numbers, abs(last - law.flops)), ROUNDING)


# --- reads and writes


def one_pass(n=96, d=8, rows=32, columns=24) -> dict:
    """Sizes of a pass and of its tiles."""
    return {"n": n, "d": d, "rows": rows, "columns": columns}


def four_tokens_by_hand() -> Verdict:
    """n = 4, d = 1, two queries a tile. Naive: 80 numbers. Fused: 4 queries once, 8
    keys and values twice, 4 answers and 4 sums: 28. In bytes of float64.

    Measured: how many of the counts, by both functions, are otherwise.
    """
    q, k, v = heads(4, 1)
    found = [
        naive_attention(q, k, v)[1].moved,
        tiled_attention(q, k, v, rows=2, columns=4)[1].moved,
        traffic("naive", 4, 1, bytes_each=8).moved,
        traffic("fused", 4, 1, rows=2, columns=4, bytes_each=8).moved,
    ]
    wanted = [8 * 80, 8 * 28, 8 * 80, 8 * 28]
    return at_most(sum(f != w for f, w in zip(found, wanted)), 0)


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
    controls=[PASS.but(rows=40), PASS.but(outside="keys")],
    witness=four_tokens_by_hand,
)
def moved(
    n: int,
    d: int,
    rows: int,
    columns: int,
    *,
    outside: Literal["queries", "keys"] = "queries",
) -> Verdict:
    """Naive attention moves 4 n^2 + 4 n d numbers, fused attention in tiles of R
    queries 2 n d (1 + n / R) + n, and both return the same.

    Hypotheses: queries in the outer loop, R divides n.
    Measured: the largest difference of the counted numbers from these, or of the
    outputs if it is larger.

    Args:
        n, d: tokens, width.
        rows: R, queries a tile.
        columns: keys a tile, any number.
        outside: "keys" expects what the loops in the other order would move.

    Returns:
        Verdict.

    Claim: efficient.io
    Page: notebooks/jl_low_rank/complexity_table
    """
    one_of(("queries", "keys"), outside=outside)
    _require.sizes(1, n=n, d=d, rows=rows, columns=columns)
    q, k, v = heads(n, d)
    y, naive = naive_attention(q, k, v)
    tiled, fused = tiled_attention(q, k, v, rows=rows, columns=columns)
    each = q.element_size()
    repeats = Fraction(n, rows) if outside == "queries" else Fraction(n, columns)
    off_naive = abs(Fraction(naive.moved, each) - (4 * n * n + 4 * n * d))
    off_fused = abs(Fraction(fused.moved, each) - (2 * n * d * (1 + repeats) + n))
    off = float((y - tiled).abs().max())
    return at_most(max(off, off_naive, off_fused), ROUNDING)


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


def run_nystrom_in_steps(q, k, v, sizes):
    """Nystrom with the published iteration."""
    how = {"iterations": sizes["iterations"] or None}  # None for the exact inverse
    return nystrom_attention(q, k, v, sizes["k"], **how)


def run_performer_causal(q, k, v, sizes):
    """Positive features of the past, in chunks."""
    how = {"features": sizes["f"], "chunk": sizes["m"], "causal": True}
    return performer_attention(q, k, v, generator=seeded(), **how)


def run_gated(q, k, v, sizes):
    """Gated linear attention."""
    gate = torch.sigmoid(v[:, 0])
    return gated_linear_attention(q, k, v, gate, chunk=sizes["m"])


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
    "nystrom": run_nystrom_in_steps,
    "performer causal": run_performer_causal,
    "gated": run_gated,
    "delta": run_delta,
    "scan": run_scan,
}


def newer_counts_by_hand() -> Verdict:
    """Four tokens of width 3, in chunks of 2, added up by hand.

    Gated: each token meets 2 of its chunk, 4 * 3 FLOPs each, and writes and reads a
    3 x 3 sum, 4 * 9: 240. A scan of 2 states: 4 * 2 FLOPs a channel. Recurrent weights
    of a GRU: 3 matrices of 9.

    BigBird, blocks of one token, one drawn, width 1: of seven tokens the first reads 7,
    two read 4, four read 5, so 35 pairs; four tokens read all, 16.

    Measured: how many of the six counts are otherwise.
    """
    found = [
        flops("gated", 4, 3, m=2),
        flops("scan", 4, 3, s=2, m=2),
        flops("gru recurrence", 4, 3),
        flops("longformer", 64, 3, w=33, g=2) - flops("window", 64, 3, w=33),
        flops("bigbird", 7, 1, block=1, drawn=1),
        flops("bigbird", 4, 1, block=1, drawn=1),
    ]
    wanted = [4 * (2 * 12 + 36), 4 * 3 * 8, 4 * 54, 64 * 2 * 2 * 4 * 3, 4 * 35, 4 * 16]
    return at_most(sum(f != w for f, w in zip(found, wanted)), 0)


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
    witness=newer_counts_by_hand,
)
def newer_counts(row: str, n: int, d: int, sizes: dict[str, int]) -> Verdict:
    """The rows that are younger than the usual table cost what it says as well.

        gated 4 n (m + d) d      delta rule 8 n m d + 6 n d^2      scan 4 n d s

    Hypotheses: n is a multiple of the block sizes; gates and factors are given. The
    page's formula for BigBird needs 4 blocks and those drawn; `flops` knows the rest.
    Measured: |FLOPs that torch's counter sees - FLOPs of the formula|.

    Args:
        row: longformer, bigbird, nystrom (with iterations), performer causal, gated,
            delta or scan.
        n: tokens.
        d: width.
        sizes: those of the row.

    Returns:
        Verdict; its bound is 0.

    Claim: efficient.newer
    Page: notebooks/jl_low_rank/complexity_table
    """
    one_of(list(NEWER), row=row)
    own = _sizes(row, n, d, sizes)
    q, k, v = (t.float() for t in heads(n, d))
    seen = counted(lambda: NEWER[row](q, k, v, own))
    return at_most(abs(seen - flops(row, n, d, **sizes)), 0)
