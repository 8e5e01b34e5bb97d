"""The patterns that papers use, by their names, and what makes new patterns from old
ones.

    A_k: the tokens that token k reads;   A^l_k: in step l

A width w of a window is its total width, odd, the token itself included. Strides and
blocks are ceil(sqrt(n)) unless given.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral

import torch
from jaxtyping import Bool
from torch import Tensor

from attnlib import _require
from attnlib._require import is_a, require, sizes
from attnlib.patterns.parts import (
    CHUNK,
    Blocks,
    Columns,
    Lists,
    Part,
    Pattern,
    Rows,
    Step,
    Strided,
    Window,
    _compressed,
    _is_pattern,
    _starts,
    _table,
    _upto,
    build,
)


def dense(n: int) -> Pattern:
    """Everybody reads everybody."""
    sizes(2, n=n)
    return build(n, Window(n - 1, n - 1))


def window(n: int, w: int, *, dilation: int = 1) -> Pattern:
    """A sliding window of w tokens around each token, cut at both ends.

        A_k = {k - h D, ..., k - D, k, k + D, ..., k + h D},
        h = (w - 1) / 2,   D = dilation

    Source: Beltagy et al. 2020, recalled. Where w/2 tokens on each side are called a
        window of w, take w + 1 here.
    Claim: patterns.window
    """
    return build(n, _centred(n, w, dilation))


def dilation_cycle(n: int) -> Pattern:
    """Three tokens a step, at distances 1, 2, 4, ... in turn.

        A^l_k = {k - 2^l, k, k + 2^l},   l = 0..ceil(log2 n) - 1

    Claim: patterns.dilation-cycle
    """
    steps = [Window(1, 1, distance) for distance in _powers_of_two(n)]
    return build(n, *steps)


def directed_cycle(n: int) -> Pattern:
    """Each token reads itself and the one before it, round a circle: 2 n connections,
    the fewest there can be.

    Claim: patterns.fewest
    """
    return build(n, Window(1, 0, wrap=True))


def star(n: int, *, local: bool = True) -> Pattern:
    """A relay, the last token, reads all and is read by all; without local there is
    nothing else, A_k = {k, n - 1}.

        A_k = {k - 1, k, k + 1, n - 1},   A_{n-1} = [n]

    Source: Guo et al. 2019 (Star-Transformer), recalled; differs: a token stands for
        the relay.
    Claim: patterns.star
    """
    sizes(2, n=n)
    is_a(bool, local=local)
    reach = int(local)
    relay = (n - 1,)
    return build(n, [Window(reach, reach), Columns(relay), Rows(relay)])


def strided(n: int, w: int | None = None, *, reach: int | None = None) -> Pattern:
    """Two steps: a window of w, or of `reach` tokens on each side, then every w-th
    token.

        A^1_k = {k - ceil(w/2), ..., k + floor(w/2)},
        A^2_k = {j : w divides j - k}

    Source: Child et al. 2019, two-sided as in Yun et al. 2020b; both recalled.
    Claim: patterns.strided
    """
    w = _root(n, w=w)
    near = Window(math.ceil(w / 2), w // 2)
    if reach is not None:
        sizes(0, reach=reach)
        near = Window(reach, reach)
    return build(n, near, Strided(w))


def fixed(n: int, w: int | None = None, *, closed: bool = False) -> Pattern:
    """Two steps: the own block of w, then the last token of every block, and if closed
    also the last of all.

        A^1_k = {j : floor(j / w) = floor(k / w)},
        A^2_k = {k} and {j : w divides j + 1}

    Source: Child et al. 2019, two-sided as in Yun et al. 2020b; both recalled. closed
        is ours.
    Claim: patterns.fixed
    """
    w = _root(n, w=w)
    is_a(bool, closed=closed)
    ends = set(range(w - 1, n, w))
    if closed:
        ends.add(n - 1)
    summaries = Columns(tuple(sorted(ends)))
    return build(n, Blocks(w), [Window(0, 0), summaries])


def longformer(n: int, w: int = 5, g: int = 1) -> Pattern:
    """A window of w, and g tokens at the front that read all and are read by all; w = 1
    is a bare star, without a path.

    Source: Beltagy et al. 2020, recalled.
    Claim: patterns.longformer
    """
    return build(n, _global(n, w, g))


def bigbird(
    n: int, w: int = 3, g: int = 1, r: int = 2, *, generator: torch.Generator
) -> Pattern:
    """A window of w, g global tokens at the front, and r random tokens for each token,
    drawn without replacement.

    Source: Zaheer et al. 2020, section 2, by tokens and not by blocks.
    Claim: patterns.longformer
    """
    return build(n, [*_global(n, w, g), _draws(n, r, generator)])


def random(n: int, r: int = 8, *, generator: torch.Generator) -> Pattern:
    """Each token reads itself and r tokens drawn without replacement, of which it may
    be one.

    Source: Yun et al. 2020b, experiments, recalled.
    Claim: patterns.random
    """
    return build(n, [Window(0, 0), _draws(n, r, generator)])


def block_diagonal(n: int, b: int | None = None) -> Pattern:
    """Blocks of b tokens that never see each other.

    Claim: patterns.classes
    """
    return build(n, Blocks(_root(n, b=b)))


def shifted_blocks(n: int, b: int | None = None) -> Pattern:
    """Two steps: blocks of b, then blocks moved by half of one.

    Claim: patterns.shifted-blocks
    """
    b = _root(n, b=b)
    return build(n, Blocks(b), Blocks(b, b // 2))


def blockwise(n: int, b: int | None = None) -> Pattern:
    """Step q lets each block read the block q places on, and each token itself.

        A^q_k = {k} and {j : block(j) = block(k) + q mod m},
        m = ceil(n / b),   q = 0..m - 1

    Source: Qiu et al. 2020 (blockwise attention with permuted blocks), recalled; the
        cyclic order is ours.
    Claim: patterns.blockwise
    """
    b = _root(n, b=b)
    turns = range(Blocks(b).count(n))
    return build(n, *[[Window(0, 0), Blocks(b, turn=q)] for q in turns])


def logsparse(n: int, *, both: bool = False) -> Pattern:
    """Each token reads itself and those 1, 2, 4, 8, ... before it, and with both also
    those after it.

    Source: Li et al. 2019 (LogSparse), recalled.
    Claim: patterns.logsparse
    """
    is_a(bool, both=both)
    return build(n, [Window(1, int(both), far) for far in _powers_of_two(n)])


def one_step(pattern: Pattern) -> Pattern:
    """All steps of a pattern at once, as one."""
    _is_pattern("pattern", pattern)
    return build(pattern.n, _united(pattern.n, pattern.steps))


def union(*patterns: Pattern) -> Pattern:
    """Each token reads what it reads in any of the patterns, step by step.

        union(longformer(n), strided(n))

    Here the first, of one step, joins both steps of the second: all others must have
    the same number of steps. A causal step stays causal beside others.
    """
    require(
        len(patterns) > 1,
        f"union needs at least two patterns, got {len(patterns)}; "
        "one_step(pattern) merges the steps of one pattern",
    )
    for number, pattern in enumerate(patterns):
        _is_pattern(f"patterns[{number}]", pattern)
    counts = [pattern.n for pattern in patterns]
    n = counts[0]
    require(set(counts) == {n}, f"patterns must have the same n, got {counts}")
    periods = [pattern.p for pattern in patterns]
    p = max(periods)
    require(
        set(periods) <= {1, p},
        f"patterns are united step by step: each must have p = 1 or p = {p} steps, "
        f"got {periods}",
    )
    cycles = [pattern.steps * (p // pattern.p) for pattern in patterns]
    return build(n, *[_united(n, together) for together in zip(*cycles)])


def causal(pattern: Pattern) -> Pattern:
    """The same pattern without the future: only j <= k is read.

    Claim: patterns.causal
    """
    _is_pattern("pattern", pattern)
    steps = [replace(step, causal=True) for step in pattern.steps]
    return build(pattern.n, *steps)


def from_sets(*steps: Sequence[Sequence[int] | set[int]]) -> Pattern:
    """A pattern from its index sets, n of them a step, in any order.

    from_sets([[0, 1], [0, 1, 2], [2]])
    """
    require(len(steps) > 0, "steps must hold at least one step, got none")
    made = []
    for number, sets in enumerate(steps):
        require(
            isinstance(sets, list | tuple),
            f"step {number} must be a list of sets, got {sets!r}",
        )
        n = len(steps[0])
        require(n >= 2, f"step 0 must have a set for each of 2 tokens or more, got {n}")
        require(
            len(sets) == n,
            f"step {number} has {len(sets)} sets, step 0 has {n}: "
            "one set for each token in every step",
        )
        for k, row in enumerate(sets):
            where = f"step {number}: the set of token {k}"
            listed = isinstance(row, list | tuple | set | range)
            require(
                listed and all(isinstance(j, Integral) for j in row),
                f"{where} must be a list of integers, got {row!r}",
            )
            once = len(set(row)) == len(row)
            require(once, f"{where} holds an index twice: {row!r}")
        crow = _starts(_table([len(row) for row in sets]))
        col = [j for row in sets for j in sorted(row)]
        made.append(Lists(crow, _table(col)))
    return build(n, *made)


def from_masks(*masks: Bool[Tensor, "n n"]) -> Pattern:
    """A pattern from masks, one a step, True in row k and column j if token k reads
    token j. What it keeps lies on the CPU.
    """
    require(len(masks) > 0, "masks must hold at least one mask, got none")
    made = []
    for number, mask in enumerate(masks):
        _require.is_tensor(f"mask {number} of masks", mask)
        n = len(masks[0]) if masks[0].dim() else 0
        require(
            mask.dtype == torch.bool and mask.shape == (n, n) and not mask.is_meta,
            "masks must be boolean tensors (n, n) of one size, True = may read",
        )
        empty = (~mask.any(1)).nonzero().flatten().tolist()
        require(
            not empty,
            f"mask {number} of masks lets tokens {empty[:5]} read nothing, not even "
            "themselves: their softmax is empty",
        )
        made.append(Lists(*_compressed([mask])))
    return build(n, *made)


def from_rule(
    n: int, rule: Callable[[Tensor, Tensor], Tensor], *, causal: bool = False
) -> Pattern:
    """The pattern in which token k reads token j if rule(k, j), and if causal j <= k.

        def near(k, j):
            return (k - j).abs() <= 2

    Args:
        rule: of two int64 tensors that broadcast, as a mask_mod of flex attention: some
            readers (rows, 1), and all that they may read (1, n).
    """
    sizes(2, n=n)
    require(callable(rule), f"rule must be a function of k and j, got {rule!r}")
    is_a(bool, causal=causal)
    n = int(n)
    j = _upto(n)
    chunks = j.split(max(1, CHUNK // n))
    masks = [_ask(rule, k[:, None], j[None]) for k in chunks]
    lists = Lists(*_compressed(masks))
    return build(n, Step((lists,), causal))


def _ask(rule: Callable, k: Tensor, j: Tensor) -> Tensor:
    """What the rule says of the pairs of k (rows, 1) and j (1, n)."""
    try:
        answer = rule(k, j)
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        raise ValueError(
            "rule must take tensors of indices, (rows, 1) and (1, n), and answer for "
            "all pairs at once: with & | ~ in place of and, or, not and a < b < c, "
            "each comparison in brackets; it raised "
            f"{type(error).__name__}: {error}"
        ) from error
    kind = answer.dtype if torch.is_tensor(answer) else type(answer).__name__
    require(kind == torch.bool, f"rule must return a boolean tensor, got {kind}")
    size = (len(k), j.shape[1])
    try:
        return answer.cpu().expand(size)
    except RuntimeError:
        raise ValueError(
            f"rule must return a shape that broadcasts to (rows, n) = {size}, "
            f"got {tuple(answer.shape)}"
        ) from None


def _united(n: int, steps: Sequence[Step]) -> Step:
    """The union of some steps."""
    kinds = {step.causal for step in steps}
    if len(kinds) == 1:
        parts = [part for step in steps for part in step.parts]
        return Step(tuple(parts), kinds.pop())
    # one flag for all parts would drop connections or add some
    masks = [build(n, step).mask() for step in steps]
    return Step((Lists(*_compressed([torch.stack(masks).any(0)])),))


def _powers_of_two(n: int) -> list[int]:
    """1, 2, 4, ..., those below n."""
    sizes(2, n=n)
    return [2**l for l in range((int(n) - 1).bit_length())]


def _centred(n: int, w: int, dilation: int = 1) -> Window:
    _at_most_n(n, w=w)
    require(
        w % 2 == 1,
        f"w is the total width, the token itself included: it must be odd, got {w}",
    )
    return Window(w // 2, w // 2, dilation)


def _global(n: int, w: int, g: int) -> list[Part]:
    _at_most_n(n, g=g)
    tokens = tuple(range(g))
    return [_centred(n, w), Columns(tokens), Rows(tokens)]


def _root(n: int, **given: int | None) -> int:
    """The one size given by its name, or ceil(sqrt(n)) for None."""
    sizes(2, n=n)
    ((name, size),) = given.items()
    if size is None:
        return math.isqrt(n - 1) + 1
    _at_most_n(n, **{name: size})
    return size


def _at_most_n(n: int, **given: int) -> None:
    """n is a number of tokens, and the sizes, given by name, are in 1..n."""
    sizes(2, n=n)
    sizes(1, **given)
    for name, size in given.items():
        require(size <= n, f"{name} must be in 1..n = 1..{n}, got {size}")


def _draws(n: int, r: int, generator: torch.Generator) -> Lists:
    _at_most_n(n, r=r)
    _require.random(generator)
    device = generator.device
    rows = []
    for _ in range(n):
        drawn = torch.randperm(n, generator=generator, device=device)[:r]
        rows.append(drawn.sort().values.cpu())
    crow = r * _upto(n + 1)
    return Lists(crow, torch.cat(rows))
