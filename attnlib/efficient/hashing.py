"""Attention among tokens that random hashing puts into one bucket: rounds, sorting,
chunks, and their literal twin.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnlib._require import require, tokens
from attnlib.sparse import _at_least_one, _check, _scale

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

        h(x) = argmax [x R; -x R],   R: d x b/2, N(0, 1);   factors (b_1, b_2, ..): h_1(x) + b_1 h_2(x) + ..

    Args:
        qk: (*batch, n, d).
        buckets: b, even, or a tuple of even factors.
        rounds: independent draws.
        generator: source of R, one R a round and factor for the whole batch.

    Returns:
        (rounds, *batch, n), int64 from 0 to b - 1.

    Raises:
        ValueError: for an odd number of buckets or more than 2^32 of them, or rounds
            below 1.

    Cost:
        rounds n d sum_f b_f FLOPs.

    Source:
        Andoni et al. 2015; Kitaev et al. 2020, section 2, recalled.

    Claim:
        efficient.hash

    Page:
        notebooks/jl_low_rank/complexity_table
    """
    factors = _factors(buckets)
    _at_least_one(rounds=rounds)
    tokens(qk)
    found, unit = 0, 1
    for b in factors:
        R = torch.randn(
            rounds,
            qk.shape[-1],
            b // 2,
            generator=generator,
            dtype=qk.dtype,
            device=qk.device,
        )
        turned = qk.unsqueeze(0) @ R.view(rounds, *[1] * (qk.dim() - 2), *R.shape[1:])
        best = turned.abs().argmax(
            -1
        )  # of x R and -x R the larger entry is the one of larger size
        negative = turned.gather(-1, best.unsqueeze(-1)).squeeze(-1) < 0
        found, unit = found + unit * (best + negative * (b // 2)), unit * b
    return found


def lsh_sets(
    ids: Int[Tensor, "rounds *batch n"],
    chunk: int,
    *,
    causal: bool = False,
    attend_self: bool = False,
    within: bool | None = None,
    padding: Bool[Tensor, "*batch n"] | None = None,
) -> Bool[Tensor, "rounds *batch n n"]:
    """Which keys each query sees in each round: the literal twin of what lsh_attention
    sorts and cuts.

        j in S_s(i)  iff  same bucket in round s, and the chunk of j is that of i or the one before

    Chunks are cut from the tokens sorted by bucket and place; within: from each bucket
    apart.

    Args:
        ids: buckets, (rounds, *batch, n).
        chunk: tokens a chunk.
        causal: j <= i only.
        attend_self: if False, i sees itself only when no round shows it another token.
        within: None for the value of causal.
        padding: True for a token; padding sees only itself, nothing sees it, and it
            takes no place.

    Returns:
        boolean (rounds, *batch, n, n).

    Raises:
        ValueError: for chunk below 1.

    Cost:
        O(rounds n^2).

    Source:
        Kitaev et al. 2020, recalled; differs: no chunk before the first one, and
        `within`.

    Claim:
        efficient.leak

    Page:
        notebooks/jl_low_rank/complexity_table
    """
    _at_least_one(chunk=chunk)
    n, within = ids.shape[-1], causal if within is None else within
    if padding is not None:
        ids = torch.where(padding, ids, ids.max() + 1)
    place = torch.arange(n, device=ids.device)
    same = ids.unsqueeze(-1) == ids.unsqueeze(-2)
    before = (ids.unsqueeze(-1) > ids.unsqueeze(-2)) & (not within) | same & (
        place < place[:, None]
    )
    piece = before.sum(-1) // chunk
    behind = piece.unsqueeze(-1) - piece.unsqueeze(-2)
    sets, diagonal = (
        same & ((behind == 0) | (behind == 1)),
        torch.eye(n, dtype=torch.bool, device=ids.device),
    )
    sets = sets & (place <= place[:, None]) if causal else sets
    sets = (
        sets
        if padding is None
        else sets & padding.unsqueeze(-2) & padding.unsqueeze(-1)
    )
    others = sets & ~diagonal
    return others | diagonal & (attend_self | ~others.any(-1, keepdim=True).any(0))


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
    padding: Bool[Tensor, "*batch n"] | None = None,
    scale: float | None = None,
    generator: torch.Generator,
    check: bool = True,
) -> Float[Tensor, "*batch n d_v"]:
    """Attention among tokens that random hashing puts into one bucket; queries are
    keys, keys have length one.

        round s: softmax over S_s(i) of  scale q_i k_j - ln N_ij,   k_j = q_j / |q_j|,   N_ij = #{s : j in S_s(i)}

    Rounds are merged by their sums of exponentials: softmax over the union of the
    S_s(i). With causal, chunks are cut within buckets, so that no later token moves a
    border.

    Args:
        qk: (*batch, n, d).
        v: (*batch, n, d_v).
        buckets: even, or a tuple of even factors.
        rounds: 1 or more.
        chunk: tokens a chunk, at most n.
        causal: j <= i only.
        attend_self: False for a token that looks at itself only if no round shows it
            another (or if all logits lie below half the range of the dtype).
        correct_duplicates: False leaves out ln N_ij.
        padding: True for a token; padding gets no weight, and its rows are zero.
        scale: None for 1/sqrt(d).
        generator: of the rotations.
        check: look for NaN and infinity.

    Returns:
        (*batch, n, d_v), for any n.

    Raises:
        ValueError: for an odd number of buckets or more than 2^32, rounds below 1,
            chunk outside 1..n, shapes that do not fit, NaN.

    Cost:
        rounds (n d sum_f b_f + 8 n chunk d) FLOPs, n rounded up to chunks; causal: up
        to n + min(b, n) (chunk - 1).

    Source:
        Kitaev et al. 2020, recalled; differs: no wrap-around, the first chunk has none
        before it; chunks within buckets if causal; only tokens of one bucket attend.

    Claim:
        efficient.union

    Page:
        notebooks/jl_low_rank/complexity_table
    """
    _check(qk, qk, v, padding, check)
    n, b = qk.shape[-2], math.prod(_factors(buckets))
    _at_least_one(chunk=chunk, rounds=rounds)
    require(chunk <= n, f"chunk must be at most n = {n}, got {chunk}")
    ids = lsh_buckets(qk.detach(), buckets, rounds=rounds, generator=generator)
    ids = (
        ids if padding is None else torch.where(padding, ids, b)
    )  # a bucket of its own, the last
    seat = _seats(ids, chunk, causal)
    who, code = _seated(seat, ids, chunk, b)
    q, k, values = (
        _take(t, who) for t in (qk * _scale(qk, scale), F.normalize(qk, dim=-1), v)
    )
    logits = _mask(
        q @ _pair(k).mT, who, code, n, causal, attend_self, correct_duplicates
    )
    lse = torch.logsumexp(logits, -1, keepdim=True)
    out, back = (logits - lse).exp() @ _pair(values), seat.unsqueeze(-1)
    lse, out = (
        t.flatten(-3, -2).gather(-2, back.expand(*seat.shape, t.shape[-1]))
        for t in (lse, out)
    )
    y = out.squeeze(0) if rounds == 1 else (torch.softmax(lse, 0) * out).sum(0)
    return y if padding is None else y * padding.unsqueeze(-1)


def _seats(ids: Tensor, chunk: int, within: bool) -> Tensor:
    """The seat of each token in the order of buckets and places; within: each bucket
    starts a new chunk.
    """
    order = ids.sort(stable=True, dim=-1).indices
    ranks = torch.arange(ids.shape[-1], device=ids.device).expand_as(ids)
    rank = torch.empty_like(ids).scatter_(-1, order, ranks)
    if not within:
        return rank
    change = F.pad(ids.gather(-1, order).diff(dim=-1) != 0, (1, 0))
    ids = torch.empty_like(ids).scatter_(
        -1, order, change.cumsum(-1)
    )  # buckets numbered anew, without the empty ones
    counts = torch.zeros_like(ids).scatter_add_(-1, ids, torch.ones_like(ids))
    whole = (counts + chunk - 1) // chunk * chunk
    return rank + ((whole - counts).cumsum(-1) - (whole - counts)).gather(-1, ids)


def _seated(seat: Tensor, ids: Tensor, chunk: int, b: int) -> tuple[Tensor, Tensor]:
    """Who sits on each seat, (.., chunks, chunk), n for an empty one; and bucket * many
    + chunk of each token.
    """
    n, chunks = ids.shape[-1], int(seat.max()) // chunk + 1
    who = torch.full((*ids.shape[:-1], chunks * chunk), n, device=ids.device)
    who = who.scatter_(
        -1, seat, torch.arange(n, device=ids.device).expand_as(seat)
    ).unflatten(-1, (-1, chunk))
    code = ids * (chunks + 2) + seat // chunk
    return who, code.int() if (b + 1) * (chunks + 2) < 2**31 else code


def _take(t: Tensor, who: Tensor) -> Tensor:
    """Rows of t in the order of who, (rounds, *batch, chunks, chunk, d); empty seats
    get a row of zeros.
    """
    t = F.pad(t, (0, 0, 0, 1)).expand(
        who.shape[0], *t.shape[:-2], t.shape[-2] + 1, t.shape[-1]
    )
    index = who.flatten(-2).unsqueeze(-1).expand(*who.shape[:-2], -1, t.shape[-1])
    return t.gather(-2, index).unflatten(-2, who.shape[-2:])


def _pair(t: Tensor, empty: int = 0) -> Tensor:
    """Each chunk with the one before it, (.., chunks, 2 chunk, d)."""
    first = torch.full_like(t[..., :1, :, :], empty)
    return torch.cat([t, torch.cat([first, t[..., :-1, :, :]], -3)], -2)


def _mask(
    logits, who, code, n: int, causal: bool, attend_self: bool, correct: bool
) -> Tensor:
    """-inf where a key is not in S_r(i), minus ln N_ij; itself, unless wanted, at a
    value that only a lone token keeps.
    """
    mine, theirs = who.unsqueeze(-1), _pair(who.unsqueeze(-1), n).mT
    if correct and len(code) > 1:
        seen = torch.zeros_like(
            logits, dtype=torch.uint8 if len(code) < 256 else torch.int32
        )
        for c in code:
            seen += _near(c.expand_as(code), who)
        logits = logits - seen.clamp_min(1).to(logits.dtype).log()
    hidden = ~_near(code, who)
    if causal:
        hidden |= theirs > mine
    if not attend_self:
        logits = logits.masked_fill(mine == theirs, torch.finfo(logits.dtype).min / 2)
    return logits.masked_fill(hidden, -math.inf)


def _near(code: Tensor, who: Tensor) -> Tensor:
    """Same bucket, same chunk or the one before: codes (bucket * many + chunk) that
    differ by 0 or 1.
    """
    c = (
        F.pad(code, (0, 1), value=-9)
        .gather(-1, who.flatten(-2))
        .view(who.shape)
        .unsqueeze(-1)
    )
    theirs = _pair(c, -9).mT
    return (c == theirs) | (c == theirs + 1)


def _factors(buckets: Buckets) -> tuple[int, ...]:
    factors = buckets if isinstance(buckets, tuple) else (buckets,)
    require(
        len(factors) >= 1,
        "buckets must be an even integer or a tuple of them, got an empty tuple",
    )
    for b in factors:
        even = isinstance(b, int) and not isinstance(b, bool) and b >= 2 and b % 2 == 0
        require(
            even,
            f"buckets must be even and at least 2, each factor too: directions come in pairs x, -x; got {buckets}",
        )
    require(
        math.prod(factors) <= 2**32,
        f"buckets must be at most 2^32 in all, got {buckets}",
    )
    return factors
