"""Copying: who can reach the token to be copied, how much can cross the middle, and the
most accuracy that each allows.

    sequence:    0 s_1 ... s_m 0 s_1 ... s_m,   s_i one of V symbols
    query:       q_i = m + i  names s_i, its next token
    reaches:     S^0_k = {k},   S^l_k = S^{l-1}_k and the S^{l-1}_j with j in A^l_k
    reached:     i or m + 1 + i lies in S^L_{q_i};   R: share of such i
    accuracy <=  R + (1 - R) / V

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
from jaxtyping import Bool, Int, Integer
from torch import Tensor

from attnlib import patterns
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
from attnlib.patterns import Columns, Pattern, Window, build

Name = Literal["dense", "strided", "half strided", "fixed", "window", "star", "random"]
IGNORED = -100  # a target that does not count
STEPS = 2**40  # of the unit interval, in ceiling and cut_bound
MOST = 10**6  # sequences that best_accuracy lists


def receptive_fields(
    masks: Sequence[Bool[Tensor, "..."]],
) -> Bool[Tensor, "layers n n"]:
    """Which input tokens can change which token after 0, 1, ..., L layers, with skips
    or without: True in row k and column j of entry l if j is in S^l_k.

        S^0_k = {k},   S^l_k = S^{l-1}_k  and all  S^{l-1}_j  with j in A^l_k

    Args:
        masks: L masks (n, n) or (heads, n, n), True in row k and column j if k reads j;
            heads are merged.

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


def causal_pattern(
    name: Name, n: int, w: int = 0, *, generator: torch.Generator | None = None
) -> Pattern:
    """A causal pattern by its name: no token reads one behind it. It has two steps for
    strided, half strided and fixed, else one.

        dense:         all
        window:        the last w tokens, itself included
        star:          0, k - 1 and k
        strided:       a window of w, then every w-th token
        half strided:  the same with a window of w/2
        fixed:         the own block of w, then the last token of every block
        random:        k and w draws among 0..k, without replacement; k may be drawn

    Args:
        name: one of the words above.
        n: tokens.
        w: the size, of no use to dense and star.
        generator: for random, on the CPU.

    Source: Child et al. 2019 (strided, fixed) and Guo et al. 2019 (star), recalled;
        differs: the star's relay stands in front, where all may read it.
    Claim: copying.relay
    """
    one_of(get_args(Name), name=name)
    sizes(1, n=n)
    sizes(0, w=w)
    require(
        name in ("dense", "star") or 1 <= w <= n,
        f"w must be in 1..n = 1..{n} for {name}, got {w}",
    )
    match name:
        case "dense":
            pattern = patterns.dense(n)
        case "strided":
            pattern = patterns.strided(n, w, reach=w - 1)
        case "half strided":
            pattern = patterns.strided(n, w)
        case "fixed":
            pattern = patterns.fixed(n, w)
        case "window":
            pattern = build(n, Window(w - 1, 0))
        case "star":
            pattern = build(n, [Window(1, 0), Columns((0,))])
        case "random":
            random(generator)
            how = {"generator": generator, "device": generator.device}
            drawn = [torch.randperm(k + 1, **how)[:w].tolist() for k in range(n)]
            pattern = patterns.from_sets([{k, *row} for k, row in enumerate(drawn)])
    return patterns.causal(pattern)


def sequences(
    m: int, symbols: int, batch: int, *, generator: torch.Generator
) -> Int[Tensor, "batch n"]:
    """Sequences 0 s 0 s with m uniform symbols s_i in 1..V, the same twice, on the
    generator's device; s_i stands at i and at m + 1 + i.

    Source: Yun et al. 2020b, experiments, recalled.
    """
    sizes(1, m=m, symbols=symbols, batch=batch)
    random(generator)
    s = torch.randint(
        1, symbols + 1, (batch, m), generator=generator, device=generator.device
    )
    half = torch.cat([torch.zeros_like(s[:, :1]), s], 1)
    return torch.cat([half, half], 1)


def copy_targets(x: Integer[Tensor, "batch n"]) -> Int[Tensor, "batch n"]:
    """The next token where a query of the copying task stands, IGNORED elsewhere, for
    sequences 0 s 0 s.
    """
    is_tensor("x", x)
    got = tuple(x.shape)
    whole = not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)
    require(whole, f"x must hold integers, got {x.dtype}")
    require(
        len(got) == 2 and got[1] % 2 == 0,
        f"x must be (batch, 2 (m + 1)), sequences 0 s 0 s, got {got}",
    )
    finite(x=x)
    require(bool((x >= 0).all()), "x must hold integers from 0 on, got negative ones")
    targets = torch.full_like(x, IGNORED, dtype=torch.int64)
    half = x.shape[1] // 2
    targets[:, half:-1] = x[:, half + 1 :]
    return targets


def reached(field: Bool[Tensor, "n n"]) -> Bool[Tensor, "m"]:
    """For which of the m symbols the token that must name it has it in its receptive
    field, the last entry of receptive_fields.

        i  or  m + 1 + i  lies in S_{q_i},   q_i = m + i,   i = 1..m

    Claim: copying.reach
    """
    queries, sources = _places(field)
    return field[queries, sources] | field[queries, queries + 1]


def bound(hit: Bool[Tensor, "m"], symbols: int) -> Fraction:
    """The most expected accuracy that receptive fields allow, if `hit` symbols are
    reached.

        R + (1 - R) / V

    Claim: copying.reach
    """
    share = _share(hit, symbols)
    return share + (1 - share) / symbols


def ceiling(
    hit: Bool[Tensor, "m"], symbols: int, *, samples: int, failure: float
) -> float:
    """What the accuracy on N independent sequences exceeds with a chance of at most
    `failure`; rounded up by less than 1e-12.

        R + (1 - R) u,   u >= 1/V the solution of  N kl(u | 1/V) = ln(1 / failure)
        kl(u | p) = u ln(u / p) + (1 - u) ln((1 - u) / (1 - p))

    and u = 1 where there is no solution.

    Source: Hoeffding 1963, Theorem 1 (recalled; derived on the page), for the mean of a
        sequence's unreached hits.
    Claim: copying.sample
    """
    share = float(_share(hit, symbols))
    sizes(1, samples=samples)
    numbers(failure=failure)
    require(
        0 < failure < 1, f"failure must lie strictly between 0 and 1, got {failure}"
    )
    needed = math.log(1 / failure) / samples
    if symbols == 1 or math.log(symbols) <= needed:
        return 1.0

    def enough(step: int) -> bool:
        return _divergence(step / STEPS, 1 / symbols) >= needed

    chance = math.ceil(STEPS / symbols)  # the divergence rises from 1 / V on
    guessed = bisect_left(range(STEPS), True, lo=chance, key=enough) / STEPS
    return share + (1 - share) * guessed


def _divergence(u: float, p: float) -> float:
    """The relative entropy of two coins, in nats, u in [0, 1] and p in (0, 1)."""

    def term(a, b):
        return a * math.log(a / b) if a > 0 else 0.0

    return term(u, p) + term(1 - u, 1 - p)


def _missing_bits(error: float, symbols: int) -> float:
    """The most bits of a uniform symbol that may be unknown to whoever guesses it with
    this chance of error (Fano's inequality, recalled; Cover and Thomas, Elements of
    Information Theory, Theorem 2.10.1): log2(V) at e = 1 - 1/V and less elsewhere.

        h(e) + e log2(V - 1),   h(e) = -e log2(e) - (1 - e) log2(1 - e)
    """
    missing = error * math.log2(symbols - 1)
    for chance in (error, 1 - error):
        if chance > 0:
            missing -= chance * math.log2(chance)
    return missing


def cut_bound(crossed: Sequence[int], *, m: int, symbols: int, bits: float) -> float:
    """The most expected accuracy that a number of states of so many bits allows;
    rounded up by less than 1e-7.

        1 - e,   h(e) + e log2(V - 1) = max(0, log2(V) - B / m)
        B = c_1 log2(V) + (c_2 + ... + c_L) b

    Args:
        crossed: c_1, ..., c_L: how many of the tokens 0..m some later token reads, as
            from patterns.crossing.
        m: symbols to copy.
        symbols: V, at least 2.
        bits: b, what a state can hold after a layer; before the first it holds its
            symbol.

    Source: not taken from a paper; Fano's inequality, recalled.
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
        return _missing_bits(step / STEPS, symbols) >= left

    guessing = STEPS * (symbols - 1) // symbols  # up to it the missing bits rise
    least = bisect_left(range(guessing), True, key=enough)
    return 1 - max(0, least - 1) / STEPS


def best_accuracy(
    field: Bool[Tensor, "n n"],
    symbols: int,
    *,
    weights: Sequence[Fraction] | None = None,
) -> Fraction:
    """The best accuracy of any predictor that sees what its receptive field holds, by
    listing all V^m sequences: the literal twin of bound.

        mean over i of  sum over what S_{q_i} shows  of
            max over v of  P(s_i = v, that is shown)

    Args:
        field: (n, n), n = 2 (m + 1).
        symbols: V.
        weights: chances of the V symbols, None for 1/V each.

    Claim: copying.reach
    """
    queries, _ = _places(field)
    sizes(1, symbols=symbols)
    m = len(queries)
    p = [Fraction(1, symbols)] * symbols
    if weights is not None:
        is_list(weights=weights)
        p = fractions(**{f"weights[{v}]": w for v, w in enumerate(weights)})
    require(
        symbols**m <= MOST,
        f"there are {symbols}^{m} sequences, more than {MOST:,} are not listed",
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


def _share(hit, symbols: int) -> Fraction:
    """R: of the symbols to copy, how many are reached."""
    is_tensor("hit", hit)
    boolean = hit.dtype == torch.bool
    some = boolean and hit.dim() == 1 and len(hit) > 0
    require(some, "hit must be a boolean tensor (m,) with m >= 1")
    finite(hit=hit)
    sizes(1, symbols=symbols)
    return Fraction(int(hit.sum()), len(hit))
