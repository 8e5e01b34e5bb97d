"""Copying: who can reach the token to be copied, how much can cross the middle, the
most accuracy that each allows, and networks to try it on (networks).

Page: notebooks/sparse_universality/copying_task
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnlib._require import (
    finite,
    fractions,
    is_list,
    is_tensor,
    numbers,
    one_of,
    random,
    require,
    sizes,
)

STEPS = 2**40  # of the unit interval, in ceiling

Scheme = Literal["union", "multihead", "sequential"]


def head_steps(
    p: int, layers: int, heads: int, scheme: Scheme
) -> list[tuple[int, ...] | None]:
    """Which step of a pattern each head of each layer uses.

        union:       all steps at once (None)
        multihead:   head h uses step h mod p
        sequential:  layer l uses step l mod p

    Args:
        p: steps of the pattern.
        layers, heads: at least 1.
        scheme: one of the three words.

    Returns:
        for each layer None, or one step a head, counted from 0.

    Raises:
        ValueError: for a size below 1 and for an unknown scheme.

    Cost: O(layers heads).
    Source: Yun et al. 2020b, experiments, recalled.
    """
    sizes(1, p=p, layers=layers, heads=heads)
    one_of(get_args(Scheme), scheme=scheme)
    if scheme == "union":
        return [None] * layers
    if scheme == "multihead":
        steps = tuple(h % p for h in range(heads))
        return [steps] * layers
    return [(l % p,) * heads for l in range(layers)]


def receptive_fields(
    masks: Sequence[Bool[Tensor, "..."]],
) -> Bool[Tensor, "layers n n"]:
    """Which input tokens can change which token after 0, 1, ..., L layers, with skips
    or without.

        S^0_k = {k},   S^l_k = S^{l-1}_k  and all  S^{l-1}_j  with j in A^l_k

    Args:
        masks: L masks (n, n) or (heads, n, n), True in row k and column j if k reads j;
            heads are merged.

    Returns:
        (L + 1, n, n) boolean: True in row k and column j of entry l if j is in S^l_k.

    Raises:
        ValueError: for no mask, and for masks that are not boolean, not square or of
            unlike sizes.

    Cost: L products of n x n matrices.
    Source: Yun et al. 2020b, Assumption 1, recalled; differs: a token always keeps its
        own field.
    Claim: copying.fields
    """
    is_list(masks=masks)
    require(len(masks) > 0, "masks must hold at least one mask, got none")
    for number, mask in enumerate(masks):
        is_tensor(f"mask {number}", mask)
        require(not mask.is_meta, f"mask {number} is on the device meta")
        require(
            mask.dtype == torch.bool and mask.dim() in (2, 3),
            f"mask {number} must be a boolean tensor (n, n) or (heads, n, n)",
        )
        n = masks[0].shape[-1]
        require(
            tuple(mask.shape[-2:]) == (n, n),
            f"mask {number} must be {(n, n)} to fit mask 0, got {tuple(mask.shape)}",
        )
    field = torch.eye(n, dtype=torch.bool, device=masks[0].device)
    fields = [field]
    for mask in masks:
        reads = mask if mask.dim() == 2 else mask.any(0)
        # Sums of numbers that are not negative: no entry cancels another.
        relayed = (reads.float() @ field.float()) > 0
        field = field | relayed
        fields.append(field)
    return torch.stack(fields)


def sequences(
    m: int, symbols: int, batch: int, *, generator: torch.Generator
) -> Int[Tensor, "batch n"]:
    """Sequences 0 s 0 s with m uniform symbols s_i in 1..V, the same twice.

    Args:
        m: symbols to copy.
        symbols: V.
        batch: how many sequences.
        generator: of the draws.

    Returns:
        (batch, 2 (m + 1)) int64 on the generator's device; s_i stands at i and at m + 1
        + i.

    Raises:
        ValueError: for a size below 1 and for no generator.

    Cost: O(batch m).
    Source: Yun et al. 2020b, experiments, recalled.
    """
    sizes(1, m=m, symbols=symbols, batch=batch)
    random(generator)
    s = torch.randint(
        1, symbols + 1, (batch, m), generator=generator, device=generator.device
    )
    half = torch.cat([torch.zeros_like(s[:, :1]), s], 1)
    return torch.cat([half, half], 1)


def reached(field: Bool[Tensor, "n n"]) -> Bool[Tensor, "m"]:
    """For which of the m symbols the token that must name it has it in its receptive
    field.

        query q_i = m + i names s_i, its next token, i = 1..m
        reached if  i  or  m + 1 + i  lies in S_{q_i}

    Args:
        field: (n, n) with n = 2 (m + 1): the last entry of receptive_fields.

    Returns:
        (m,) boolean.

    Raises:
        ValueError: for n odd or below 4, and for a field that is not boolean and
            square.

    Cost: O(m).
    Source: not taken from a paper.
    Claim: copying.reach
    """
    queries, sources = _places(field)
    return field[queries, sources] | field[queries, queries + 1]


def bound(hit: Bool[Tensor, "m"], symbols: int) -> Fraction:
    """The most expected accuracy that receptive fields allow.

        R + (1 - R) / V,   R: share of the symbols that are reached

    Args:
        hit: (m,) boolean, as from reached.
        symbols: V.

    Returns:
        a Fraction.

    Raises:
        ValueError: for no symbol to copy, symbols below 1, or hit that is not boolean.

    Cost: O(m).
    Source: not taken from a paper.
    Claim: copying.reach
    """
    _check_hits(hit, symbols)
    share = Fraction(int(hit.sum()), len(hit))
    return share + (1 - share) / symbols


def ceiling(
    hit: Bool[Tensor, "m"], symbols: int, *, samples: int, failure: float
) -> float:
    """What the accuracy on N independent sequences exceeds with a chance of at most
    `failure`.

        R + (1 - R) u,   u >= 1/V the solution of  N kl(u | 1/V) = ln(1 / failure)
        kl(u | p) = u ln(u / p) + (1 - u) ln((1 - u) / (1 - p))

    and u = 1 where there is no solution.

    Args:
        hit: (m,) boolean, as from reached.
        symbols: V.
        samples: N, sequences drawn.
        failure: in (0, 1).

    Returns:
        a float, at least bound; rounded up by less than 1e-12.

    Raises:
        ValueError: as bound, for samples below 1 and for failure outside (0, 1).

    Cost: O(m).
    Source: Hoeffding 1963, Theorem 1 (recalled; derived on the page), for the mean of a
        sequence's unreached hits.
    Claim: copying.sample
    """
    _check_hits(hit, symbols)
    sizes(1, samples=samples)
    numbers(failure=failure)
    require(
        0 < failure < 1, f"failure must lie strictly between 0 and 1, got {failure}"
    )
    share = float(hit.double().mean())
    needed = math.log(1 / failure) / samples
    if symbols == 1 or math.log(symbols) <= needed:
        return 1.0

    def enough(step: int) -> bool:
        return divergence(step / STEPS, 1 / symbols) >= needed

    chance = math.ceil(STEPS / symbols)  # the divergence rises from 1 / V on
    guessed = bisect_left(range(STEPS), True, lo=chance, key=enough) / STEPS
    return share + (1 - share) * guessed


def divergence(u: float, p: float) -> float:
    """The relative entropy of two coins, in nats.

        kl(u | p) = u ln(u / p) + (1 - u) ln((1 - u) / (1 - p))

    Args:
        u: in [0, 1].
        p: in (0, 1).

    Returns:
        a float, 0 only for u = p.

    Raises:
        ValueError: for u or p outside their range.

    Cost: O(1).
    Source: Hoeffding 1963, Theorem 1, recalled.
    Claim: copying.sample
    """
    numbers(u=u, p=p)
    require(
        0 <= u <= 1 and 0 < p < 1,
        f"u must lie in [0, 1] and p strictly inside, got {u} and {p}",
    )

    def term(a, b):
        return a * math.log(a / b) if a > 0 else 0.0

    return term(u, p) + term(1 - u, 1 - p)


def missing_bits(error: float | int, symbols: int) -> float:
    """The most bits of a uniform symbol that may be unknown to whoever guesses it with
    this chance of error (Fano).

        h(e) + e log2(V - 1),   h(e) = -e log2(e) - (1 - e) log2(1 - e)

    Args:
        error: e, in [0, 1].
        symbols: V, at least 2.

    Returns:
        a float, log2(V) at e = 1 - 1/V and less elsewhere.

    Raises:
        ValueError: for an error outside [0, 1] and fewer than two symbols.

    Cost: O(1).
    Source: Fano's inequality (recalled; Cover and Thomas, Elements of Information
        Theory, Theorem 2.10.1).
    Claim: copying.cut
    """
    numbers(error=error)
    require(0 <= error <= 1, f"error must lie in [0, 1], got {error}")
    sizes(2, symbols=symbols)
    missing = error * math.log2(symbols - 1)
    for chance in (error, 1 - error):
        if chance > 0:
            missing -= chance * math.log2(chance)
    return missing


def cut_bound(
    crossed: Sequence[int], *, m: int, symbols: int, bits: float | int
) -> float:
    """The most expected accuracy that a number of states of so many bits allows.

        1 - e,   h(e) + e log2(V - 1) = max(0, log2(V) - B / m)
        B = c_1 log2(V) + (c_2 + ... + c_L) b

    Args:
        crossed: c_1, ..., c_L: how many of the tokens 0..m some later token reads, as
            from patterns.crossing.
        m: symbols to copy.
        symbols: V, at least 2.
        bits: b, what a state can hold after a layer; before the first it holds its
            symbol.

    Returns:
        a float, rounded up by less than 1e-7.

    Raises:
        ValueError: for no layer, for counts that are no integers in 0..m + 1, m below
            1, fewer than two symbols, and bits that are negative or not finite.

    Cost: O(L).
    Source: not taken from a paper; Fano's inequality as in missing_bits.
    Claim: copying.cut
    """
    is_list(crossed=crossed)
    sizes(1, m=m)
    sizes(2, symbols=symbols)
    numbers(bits=bits)
    require(bits >= 0, f"bits must not be negative, got {bits}")
    require(len(crossed) > 0, "crossed must hold a count for each layer, got none")
    for layer, count in enumerate(crossed):
        sizes(0, **{f"crossed[{layer}]": count})
        require(
            count <= m + 1,
            f"crossed[{layer}] must be in 0..m + 1 = {m + 1}, got {count}",
        )
    carried = crossed[0] * math.log2(symbols) + sum(crossed[1:]) * bits
    left = max(0.0, math.log2(symbols) - carried / m)

    def enough(step: int) -> bool:
        return missing_bits(step / STEPS, symbols) >= left

    guessing = STEPS * (symbols - 1) // symbols  # up to it the missing bits rise
    least = bisect_left(range(guessing), True, key=enough)
    return 1 - max(0, least - 1) / STEPS


def best_accuracy(
    field: Bool[Tensor, "n n"],
    symbols: int,
    *,
    weights: Sequence[Fraction] | None = None,
    limit: int = 10**6,
) -> Fraction:
    """The best accuracy of any predictor that sees what its receptive field holds, by
    listing all sequences.

        mean over i of  sum over what S_{q_i} shows  of
            max over v of  P(s_i = v, that is shown)

    Args:
        field: (n, n), n = 2 (m + 1).
        symbols: V.
        weights: chances of the V symbols, None for 1/V each.
        limit: refuse to list more sequences.

    Returns:
        a Fraction: the literal twin of bound.

    Raises:
        ValueError: for more than `limit` sequences, weights that are not V non-negative
            numbers of sum one.

    Cost: O(V^m m n).
    Source: the definition.
    Claim: copying.reach
    """
    queries, _ = _places(field)
    sizes(1, symbols=symbols, limit=limit)
    m = len(queries)
    p = [Fraction(1, symbols)] * symbols
    if weights is not None:
        is_list(weights=weights)
        p = fractions(**{f"weights[{v}]": w for v, w in enumerate(weights)})
    require(
        symbols**m <= limit,
        f"there are {symbols}^{m} sequences, more than limit = {limit}",
    )
    require(
        len(p) == symbols and min(p) >= 0 and sum(p) == 1,
        f"weights must be {symbols} chances of sum one, got {weights}",
    )
    seen = [row.nonzero().flatten().tolist() for row in field[queries]]
    # For each i the chance that the field shows this and that s_i is that.
    tables = [Counter() for _ in range(m)]
    for s in product(range(symbols), repeat=m):
        x = (-1, *s, -1, *s)
        chance = math.prod(p[v] for v in s)
        for i in range(m):
            shown = tuple(x[j] for j in seen[i])
            tables[i][shown, s[i]] += chance
    total = Fraction(0)
    for table in tables:
        best: dict[tuple, Fraction] = {}
        for (shown, _), chance in table.items():
            best[shown] = max(best.get(shown, Fraction(0)), chance)
        total += sum(best.values())
    return total / m


def _places(field) -> tuple[Tensor, Tensor]:
    """The queries m + 1..2m and the sources 1..m of a field (n, n), n = 2 (m + 1)."""
    is_tensor("field", field)
    boolean = field.dtype == torch.bool
    square = boolean and field.dim() == 2 and field.shape[0] == field.shape[1]
    require(square, "field must be a boolean tensor (n, n)")
    finite(field=field)
    n = len(field)
    require(
        n >= 4 and n % 2 == 0,
        f"field must be of 0 s 0 s, of an even length of at least 4, got n = {n}",
    )
    sources = torch.arange(1, n // 2, device=field.device)
    return sources + n // 2 - 1, sources


def _check_hits(hit, symbols: int) -> None:
    """At least one symbol to copy, and at least one that it may be."""
    is_tensor("hit", hit)
    boolean = hit.dtype == torch.bool
    some = boolean and hit.dim() == 1 and len(hit) > 0
    require(some, "hit must be a boolean tensor (m,) with m >= 1")
    finite(hit=hit)
    sizes(1, symbols=symbols)
