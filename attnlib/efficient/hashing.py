"""Attention among tokens that random hashing puts into one bucket; queries are keys.

    h(x) = argmax [x R; -x R],   R: d x b/2, N(0, 1)

    j in S_s(i)  iff  i and j share a bucket in round s, and the chunk of j, among the
                      tokens sorted by bucket and place, is that of i or the one before

    y_i = softmax over the union of the S_s(i) of  q_i k_j / sqrt(d),  k_j = q_j / |q_j|

lsh_sets is the second line read literally, an n x n matrix a round; lsh_attention sorts
and cuts, and merges the rounds.

Page: notebooks/jl_low_rank/complexity_table
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnlib import _require
from attnlib._require import require, sizes, tokens
from attnlib.efficient.features import _before

Buckets = int | tuple[int, ...]


def lsh_buckets(
    qk: Float[Tensor, "*batch n d"],
    buckets: Buckets,
    *,
    rounds: int = 1,
    generator: torch.Generator,
) -> Int[Tensor, "rounds *batch n"]:
    """The bucket of each token in each round: which of b random directions and their
    negatives is nearest.

    With factors (b_1, b_2, ..) the bucket is h_1(x) + b_1 h_2(x) + b_1 b_2 h_3(x) + ..

    Args:
        buckets: b, even, or a tuple of even factors; at most 2^32 in all.
        rounds: independent draws.
        generator: source of R, one R a round and factor for the whole batch.

    Cost: rounds n d sum_f b_f FLOPs.
    Source: Andoni et al. 2015; Kitaev et al. 2020, section 2, recalled.
    Claim: efficient.hash
    """
    factors = _factors(buckets)
    sizes(1, rounds=rounds)
    _require.random(generator)
    tokens(qk, "qk")
    _require.finite(qk=qk)
    return _hashed(qk, factors, rounds, generator)


def _hashed(
    qk: Tensor, factors: tuple[int, ...], rounds: int, generator: torch.Generator
) -> Tensor:
    """lsh_buckets of checked input."""
    d = qk.shape[-1]
    one_for_all = [1] * (qk.dim() - 2)  # sequences of the batch
    x = qk.unsqueeze(0)
    bucket = 0
    unit = 1
    for b in factors:
        size = rounds, *one_for_all, d, b // 2
        source = {"generator": generator, "device": generator.device}
        R = torch.randn(size, dtype=qk.dtype, **source)
        xR = x @ R.to(qk.device)
        h = torch.cat([xR, -xR], -1).argmax(-1)
        bucket = bucket + unit * h
        unit = unit * b
    return bucket


def lsh_sets(
    ids: Int[Tensor, "rounds *batch n"],
    chunk: int,
    *,
    causal: bool = False,
    attend_self: bool = False,
    within: bool | None = None,
) -> Bool[Tensor, "rounds *batch n n"]:
    """Which keys each query sees in each round: the literal twin of lsh_attention.

    Args:
        ids: buckets, from 0 on.
        chunk: tokens a chunk.
        causal: j <= i only.
        attend_self: if False, i sees itself only when no round shows it another token.
        within: chunks are cut from each bucket apart; None does so if causal.

    Source: Kitaev et al. 2020, recalled.
    Claim: efficient.union, efficient.leak
    """
    _require.is_tensor("ids", ids)
    got = tuple(ids.shape)
    require(
        ids.dtype == torch.int64 and ids.dim() >= 2 and 0 not in got,
        f"ids must be int64 (rounds, *batch, n), not empty, got {ids.dtype} {got}",
    )
    if within is None:
        within = causal
    _require.is_a(bool, causal=causal, attend_self=attend_self, within=within)
    sizes(1, chunk=chunk)
    _require.finite(ids=ids)
    require(bool((ids >= 0).all()), "ids must be from 0 on, got a negative one")
    j = torch.arange(ids.shape[-1], device=ids.device)
    i = j.unsqueeze(-1)
    bucket_i = ids.unsqueeze(-1)
    bucket_j = ids.unsqueeze(-2)

    same = bucket_i == bucket_j
    sorts_before = same & (j < i)
    if not within:
        sorts_before = sorts_before | (bucket_j < bucket_i)
    piece = sorts_before.sum(-1) // chunk
    behind = piece.unsqueeze(-1) - piece.unsqueeze(-2)
    sets = same & ((behind == 0) | (behind == 1))
    if causal:
        sets = sets & (j <= i)
    others = sets & (i != j)
    lonely = ~others.any(-1, keepdim=True).any(0)
    itself = (i == j) & (attend_self | lonely)
    return others | itself


def lsh_attention(
    qk: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    *,
    buckets: Buckets,
    rounds: int = 1,
    chunk: int = 64,
    causal: bool = False,
    attend_self: bool = False,
    correct_duplicates: bool = True,
    token_mask: Bool[Tensor, "*sequences n"] | None = None,
    generator: torch.Generator,
    check: bool = True,
) -> Float[Tensor, "*batch n d_v"]:
    """Attention among tokens of one bucket, in rounds, chunk by chunk.

        round s: softmax over S_s(i) of  q_i k_j / sqrt(d) - ln N_ij

    with N_ij = #{s : j in S_s(i)}; merged by their sums of exponentials, the rounds are
    softmax over the union. With causal, chunks are cut within buckets, so that no later
    token moves a border.

    Args:
        buckets: even, or a tuple of even factors; at most 2^32 in all.
        chunk: tokens a chunk, at most n.
        attend_self: False for a token that looks at itself only if no round shows it
            another (or if all logits lie below half the range of the dtype).
        correct_duplicates: False leaves out ln N_ij.
        token_mask: True = a token, (*batch, n) or (b, 1, n) for all heads; what is none
            gets no weight, and its rows are zero.
        generator: of the rotations.
        check: look for NaN and infinity.

    Source: Kitaev et al. 2020, recalled; differs: no wrap-around, the first chunk has
        none before it; chunks within buckets if causal; only tokens of one bucket
        attend.
    Claim: efficient.union
    """
    _require.is_a(bool, causal=causal, attend_self=attend_self)
    _require.is_a(bool, correct_duplicates=correct_duplicates)
    tokens(qk, "qk")
    _require.is_tensor("v", v)
    *batch, n, d = qk.shape
    _require.matches("v", v, (*batch, n, *v.shape[-1:]), qk, "qk")
    if check:
        _require.finite(qk=qk, v=v)
    if token_mask is not None:
        size = (*batch, n)
        _require.token_mask(token_mask, size, qk.device, heads=True, check=check)
    sizes(1, chunk=chunk, rounds=rounds)
    require(chunk <= n, f"chunk must be at most n = {n}, got {chunk}")
    _require.random(generator)
    factors = _factors(buckets)
    ids = _hashed(qk.detach(), factors, rounds, generator)
    if token_mask is not None:
        # Padding has a bucket of its own, the last.
        ids = torch.where(token_mask, ids, math.prod(factors))
    seat = _seats(ids, chunk, causal)
    who = _seated(seat, chunk)
    code = ids * (who.shape[-2] + 1) + seat // chunk
    if code.max() < 2**31:
        code = code.int()

    q = _take(qk / math.sqrt(d), who)
    k = _take(F.normalize(qk, dim=-1), who)
    values = _take(v, who)
    logits = q @ _pair(k).mT
    if correct_duplicates and rounds > 1:
        narrow = torch.uint8 if rounds < 256 else torch.int32
        N = torch.zeros_like(logits, dtype=narrow)
        for c in code:
            N += _near(c.expand_as(code), who)
        N = N.clamp_min(1).to(logits.dtype)
        logits = logits - N.log()
    place = who.unsqueeze(-1)
    places = _pair(place, n).mT
    if not attend_self:
        # A value that only a lone token keeps.
        lowest = torch.finfo(logits.dtype).min / 2
        logits = logits.masked_fill(place == places, lowest)
    seen = _near(code, who)
    if causal:
        seen &= places <= place
    logits = logits.masked_fill(~seen, -math.inf)
    lse = torch.logsumexp(logits, -1, keepdim=True)
    out = (logits - lse).exp() @ _pair(values)

    # From seats back to tokens, then all rounds together.
    lse = _rows(lse.flatten(-3, -2), seat)
    out = _rows(out.flatten(-3, -2), seat)
    share_of_round = torch.softmax(lse, 0)
    y = (share_of_round * out).sum(0)
    return y if token_mask is None else y * token_mask.unsqueeze(-1)


def _seats(ids: Tensor, chunk: int, within: bool) -> Tensor:
    """The seat of each token in the order of buckets and places; within: each bucket
    starts a new chunk, so that seats stay empty behind its last token.
    """
    in_order, order = ids.sort(stable=True, dim=-1)
    place = torch.arange(ids.shape[-1], device=ids.device)
    rank = place.expand_as(ids)
    if within:
        changes = in_order.diff(dim=-1) != 0
        first = place * F.pad(changes, (1, 0))
        rank = place - first.cummax(-1).values
    begins = rank % chunk == 0
    seat = (begins.cumsum(-1) - 1) * chunk + rank % chunk
    return torch.empty_like(ids).scatter_(-1, order, seat)


def _seated(seat: Tensor, chunk: int) -> Tensor:
    """Who sits on each seat, (.., chunks, chunk), n for an empty one."""
    *batch, n = seat.shape
    chunks = int(seat.max()) // chunk + 1
    token = torch.arange(n, device=seat.device).expand_as(seat)
    who = seat.new_full((*batch, chunks * chunk), n)
    who.scatter_(-1, seat, token)
    return who.unflatten(-1, (chunks, chunk))


def _rows(t: Tensor, index: Tensor) -> Tensor:
    """Row index[.., i] of t in place i, (.., i, d)."""
    return t.take_along_dim(index.unsqueeze(-1), -2)


def _take(t: Tensor, who: Tensor) -> Tensor:
    """Rows of t in the order of who, (rounds, *batch, chunks, chunk, d); empty seats
    get a row of zeros.
    """
    t = F.pad(t, (0, 0, 0, 1))
    rows = _rows(t.unsqueeze(0), who.flatten(-2))
    return rows.unflatten(-2, who.shape[-2:])


def _pair(t: Tensor, empty: int = 0) -> Tensor:
    """Each chunk with the one before it, (.., chunks, 2 chunk, d)."""
    return torch.cat([t, _before(t, empty)], -2)


def _near(code: Tensor, who: Tensor) -> Tensor:
    """Same bucket, same chunk or the one before: codes (bucket * many + chunk) that
    differ by 0 or 1.
    """
    nobody = -9  # an empty seat is next to no token
    code = F.pad(code, (0, 1), value=nobody)
    seated = code.gather(-1, who.flatten(-2))
    mine = seated.view(who.shape).unsqueeze(-1)
    theirs = _pair(mine, nobody).mT
    return (mine == theirs) | (mine == theirs + 1)


def _factors(buckets: Buckets) -> tuple[int, ...]:
    """The factors of the number of buckets, each even."""
    factors = buckets if isinstance(buckets, tuple) else (buckets,)
    require(len(factors) >= 1, "buckets must name a factor, got an empty tuple")
    for b in factors:
        whole = isinstance(b, int) and not isinstance(b, bool)
        require(
            whole and b >= 2 and b % 2 == 0,
            "buckets must be even and at least 2, each factor too: "
            f"directions come in pairs x, -x; got {buckets}",
        )
    require(
        math.prod(factors) <= 2**32,
        f"buckets must be at most 2^32 in all, got {buckets}",
    )
    return factors
