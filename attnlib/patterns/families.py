"""The patterns that papers use, by their names, and what makes new patterns from old
ones.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Integral

import torch
from jaxtyping import Bool
from torch import Tensor

from attnlib import _require
from attnlib._require import require, sizes
from attnlib.patterns.parts import (
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
    _step_reads,
    build,
)
from attnlib.patterns.rules import recognised


def dense(n: int) -> Pattern:
    """Everybody reads everybody.

    Args:
        n: tokens, at least 2.

    Returns:
        Pattern with p = 1.

    Cost: O(1).
    Source: Vaswani et al. 2017.
    """
    sizes(2, n=n)
    return build(n, Window(n - 1, n - 1))


def window(n: int, w: int, *, dilation: int = 1) -> Pattern:
    """A sliding window of w tokens around each token, cut at both ends.

        A_k = {k - h D, ..., k - D, k, k + D, ..., k + h D},
        h = (w - 1) / 2,   D = dilation

    Args:
        n: tokens.
        w: width, odd, at most n.
        dilation: D; above 1 the tokens fall into classes mod D.

    Returns:
        Pattern with p = 1.

    Raises:
        ValueError: for an even w, or one outside 1..n.

    Cost: O(1).
    Source: Beltagy et al. 2020, recalled. Where w/2 tokens on each side are called a
        window of w, take w + 1 here.
    Claim: patterns.window
    """
    return build(n, _centred(n, w, dilation))


def dilation_cycle(n: int) -> Pattern:
    """Three tokens a step, at distances 1, 2, 4, ... in turn.

        A^l_k = {k - 2^l, k, k + 2^l},   l = 0..ceil(log2 n) - 1

    Args:
        n: tokens.

    Returns:
        Pattern with p = ceil(log2 n).

    Cost: O(log n).
    Source: not taken from a paper.
    Claim: patterns.dilation-cycle
    """
    steps = [Window(1, 1, distance) for distance in _powers_of_two(n)]
    return build(n, *steps)


def directed_cycle(n: int) -> Pattern:
    """Each token reads itself and the one before it, round a circle.

    These are the fewest connections there can be.

    Args:
        n: tokens.

    Returns:
        Pattern with p = 1 and 2 n connections.

    Cost: O(1).
    Source: not taken from a paper.
    Claim: patterns.fewest
    """
    return build(n, Window(1, 0, wrap=True))


def star(n: int, *, local: bool = True) -> Pattern:
    """A relay, the last token, reads all and is read by all.

        A_k = {k - 1, k, k + 1, n - 1},   A_{n-1} = [n]

    With local edges, as here, each token also reads its neighbours.

    Args:
        n: tokens.
        local: False for the bare star, A_k = {k, n - 1}.

    Returns:
        Pattern with p = 1.

    Cost: O(1).
    Source: Guo et al. 2019 (Star-Transformer), recalled; differs: a token stands for
        the relay.
    Claim: patterns.star
    """
    _require.is_a(bool, local=local)
    sizes(2, n=n)
    reach = int(local)
    relay = (n - 1,)
    near = Window(reach, reach)
    return build(n, [near, Columns(relay), Rows(relay)])


def strided(n: int, w: int | None = None, *, reach: int | None = None) -> Pattern:
    """Two steps: a window of w, then every w-th token.

        A^1_k = {k - ceil(w/2), ..., k + floor(w/2)},
        A^2_k = {j : w divides j - k}

    Args:
        n: tokens.
        w: stride, None for ceil(sqrt(n)).
        reach: tokens on each side of the window in place of w/2.

    Returns:
        Pattern with p = 2.

    Raises:
        ValueError: for w outside 1..n.

    Cost: O(1).
    Source: Child et al. 2019, two-sided as in Yun et al. 2020b; both recalled.
    Claim: patterns.strided
    """
    w = _stride(n, w)
    near = Window(math.ceil(w / 2), w // 2)
    if reach is not None:
        sizes(0, reach=reach)
        near = Window(reach, reach)
    return build(n, near, Strided(w))


def fixed(n: int, w: int | None = None, *, closed: bool = False) -> Pattern:
    """Two steps: the own block of w, then the last token of every block.

        A^1_k = {j : floor(j / w) = floor(k / w)},
        A^2_k = {k} and {j : w divides j + 1}

    Args:
        n: tokens.
        w: block length, None for ceil(sqrt(n)).
        closed: all also read the last token, end of the tail.

    Returns:
        Pattern with p = 2.

    Raises:
        ValueError: for w outside 1..n.

    Cost: O(n / w).
    Source: Child et al. 2019, two-sided as in Yun et al. 2020b; both recalled. closed
        is ours.
    Claim: patterns.fixed
    """
    _require.is_a(bool, closed=closed)
    w = _stride(n, w)
    ends = set(range(w - 1, n, w))
    if closed:
        ends.add(n - 1)
    summaries = Columns(tuple(sorted(ends)))
    return build(n, Blocks(w), [Window(0, 0), summaries])


def longformer(n: int, w: int = 5, g: int = 1) -> Pattern:
    """A window of w, and g tokens at the front that read all and are read by all.

    Args:
        n: tokens.
        w: total width, odd; w = 1 is a bare star, without a path.
        g: global tokens, 1..n.

    Returns:
        Pattern with p = 1.

    Raises:
        ValueError: for an even w, or w or g outside 1..n.

    Cost: O(g).
    Source: Beltagy et al. 2020, recalled.
    Claim: patterns.longformer
    """
    return build(n, _global(n, w, g))


def bigbird(
    n: int,
    w: int = 3,
    g: int = 1,
    r: int = 2,
    *,
    generator: torch.Generator,
) -> Pattern:
    """A window of w, g global tokens at the front, and r random tokens for each token.

    Args:
        n: tokens.
        w: width, odd, as for longformer.
        g: global tokens.
        r: draws a token, without replacement.
        generator: on the CPU.

    Returns:
        Pattern with p = 1.

    Raises:
        ValueError: for an even w, or w, g or r outside 1..n.

    Cost: O(n r), or O(n^2) time for the draws.
    Source: Zaheer et al. 2020, section 2, by tokens and not by blocks.
    Claim: patterns.longformer
    """
    certain = _global(n, w, g)
    drawn = _draws(n, r, generator)
    return build(n, [*certain, drawn])


def random(n: int, r: int = 8, *, generator: torch.Generator) -> Pattern:
    """Each token reads itself and r drawn tokens.

    They are drawn without replacement, and it may be one of them.

    Args:
        n: tokens.
        r: draws a token, 1..n.
        generator: on the CPU.

    Returns:
        Pattern with p = 1.

    Raises:
        ValueError: for r outside 1..n.

    Cost: O(n r) memory, O(n^2) time.
    Source: Yun et al. 2020b, experiments, recalled.
    Claim: patterns.random
    """
    itself = Window(0, 0)
    drawn = _draws(n, r, generator)
    return build(n, [itself, drawn])


def block_diagonal(n: int, b: int | None = None) -> Pattern:
    """Blocks that never see each other.

    Args:
        n: tokens.
        b: block length, None for ceil(sqrt(n)).

    Returns:
        Pattern with p = 1; it fails conditions (2) and (3) unless b = n.

    Raises:
        ValueError: for b outside 1..n.

    Cost: O(1).
    Source: the definition.
    Claim: patterns.classes
    """
    return build(n, Blocks(_stride(n, b, "b")))


def shifted_blocks(n: int, b: int | None = None) -> Pattern:
    """Two steps: blocks, then blocks moved by half of one.

    Args:
        n: tokens.
        b: block length, None for ceil(sqrt(n)).

    Returns:
        Pattern with p = 2.

    Raises:
        ValueError: for b outside 1..n.

    Cost: O(1).
    Source: not taken from a paper.
    Claim: patterns.shifted-blocks
    """
    b = _stride(n, b, "b")
    return build(n, Blocks(b), Blocks(b, b // 2))


def blockwise(n: int, b: int | None = None) -> Pattern:
    """Step q lets each block read the block q places on, and each token itself.

        A^q_k = {k} and {j : block(j) = block(k) + q mod m},
        m = ceil(n / b),   q = 0..m - 1

    Args:
        n: tokens.
        b: block length, None for ceil(sqrt(n)).

    Returns:
        Pattern with p = m.

    Raises:
        ValueError: for b outside 1..n.

    Cost: O(m).
    Source: Qiu et al. 2020 (blockwise attention with permuted blocks), recalled; the
        cyclic order is ours.
    Claim: patterns.blockwise
    """
    b = _stride(n, b, "b")
    m = Blocks(b).count(n)
    itself = Window(0, 0)
    steps = [[itself, Blocks(b, turn=q)] for q in range(m)]
    return build(n, *steps)


def logsparse(n: int, *, both: bool = False) -> Pattern:
    """Each token reads itself and those 1, 2, 4, 8, ... before it.

    Args:
        n: tokens.
        both: also those 1, 2, 4, ... after it.

    Returns:
        Pattern with p = 1; one-sided it is causal and fails condition (3).

    Cost: O(log n).
    Source: Li et al. 2019 (LogSparse), recalled.
    Claim: patterns.logsparse
    """
    _require.is_a(bool, both=both)
    after = int(both)
    parts = [Window(1, after, distance) for distance in _powers_of_two(n)]
    return build(n, parts)


def one_step(pattern: Pattern) -> Pattern:
    """All steps of a pattern at once, as one.

    Args:
        pattern: of p steps.

    Returns:
        Pattern with p = 1 whose sets are the unions over the cycle.

    Cost: O(p), or as from_rule if only some steps are causal.
    Source: Yun et al. 2020b, recalled.
    """
    _is_pattern("pattern", pattern)
    return build(pattern.n, _united(pattern.n, pattern.steps))


def union(*patterns: Pattern) -> Pattern:
    """Each token reads what it reads in any of the patterns, step by step.

        union(longformer(n), strided(n))

    Here the first, of one step, joins both steps of the second.

    Args:
        patterns: at least two, of the same n. A pattern of one step goes with every
            step of the others; all others have the same number of steps. A causal step
            stays causal beside others.

    Returns:
        Pattern with the largest p. A step that is causal in some patterns and looks
        ahead in others is taken apart anew, as by from_rule.

    Raises:
        ValueError: for fewer than two patterns, for unlike n, and for unlike p.

    Cost: O(p), or as from_rule for a step that is causal in only some patterns.
    Source: the definition.
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
    made = []
    for step in range(p):
        together = [pattern.steps[step % pattern.p] for pattern in patterns]
        made.append(_united(n, together))
    return build(n, *made)


def causal(pattern: Pattern) -> Pattern:
    """The same pattern without the future: only j <= k is read.

    Args:
        pattern: any.

    Returns:
        Pattern; it fails condition (3).

    Raises:
        ValueError: if a token then reads nothing.

    Cost: as build.
    Source: the definition.
    Claim: patterns.causal
    """
    _is_pattern("pattern", pattern)
    return build(pattern.n, *[replace(step, causal=True) for step in pattern.steps])


def from_sets(*steps: Sequence[Sequence[int] | set[int]]) -> Pattern:
    """A pattern from its index sets.

        from_sets([[0, 1], [0, 1, 2], [2]])

    Here token 0 reads 0 and 1, token 1 reads all, token 2 reads itself.

    Args:
        steps: each a list of n lists or sets; the k-th holds the tokens that token k
            reads, in any order.

    Returns:
        Pattern with p = len(steps).

    Raises:
        ValueError: for steps of unlike lengths, an empty list, an index twice or
            outside 0..n - 1.

    Cost: O(entries log entries).
    Source: the definition.
    """
    require(len(steps) > 0, "steps must hold at least one step, got none")
    made = []
    for number, sets in enumerate(steps):
        require(
            isinstance(sets, list | tuple),
            f"step {number} must be a list of sets, got {sets!r}",
        )
        require(
            len(sets) >= 2,
            f"step {number} must have a set for each of 2 tokens or more, got "
            f"{len(sets)}",
        )
        n = len(steps[0])
        require(
            len(sets) == n,
            f"step {number} has {len(sets)} sets, step 0 has {n}: "
            "one set for each token in every step",
        )
        for k, row in enumerate(sets):
            _check_set(row, f"step {number}: the set of token {k}")
        counts = [len(row) for row in sets]
        col = [j for row in sets for j in sorted(row)]
        crow = _starts(torch.tensor(counts, dtype=torch.int64, device="cpu"))
        made.append(Lists(crow, torch.tensor(col, dtype=torch.int64, device="cpu")))
    return build(n, *made)


def from_masks(*masks: Bool[Tensor, "n n"]) -> Pattern:
    """A pattern from masks, True in row k and column j if token k reads token j.

    Args:
        masks: (n, n), boolean, one a step.

    Returns:
        Pattern with p = len(masks); index sets are kept on the CPU.

    Raises:
        ValueError: for masks not boolean, not square or of unlike sizes, and for a
            hidden row.

    Cost: O(p n^2).
    Source: the definition.
    """
    require(len(masks) > 0, "masks must hold at least one mask, got none")
    made = []
    for number, mask in enumerate(masks):
        _require.is_tensor(f"mask {number} of masks", mask)
        good = (
            mask.dtype == torch.bool
            and mask.dim() == 2
            and mask.shape == masks[0].shape
            and not mask.is_meta
        )
        require(
            good and len(mask) == mask.shape[1],
            "masks must be boolean tensors (n, n) of one size, True = may read",
        )
        empty = (~mask.any(1)).nonzero().flatten().tolist()
        require(
            not empty,
            f"mask {number} of masks lets tokens {empty[:5]} read nothing, not even "
            "themselves: their softmax is empty",
        )
        made.append(Lists(*_compressed([mask])))
    return build(len(masks[0]), *made)


def _united(n: int, steps: Iterable[Step]) -> Step:
    """The union of some steps."""
    kinds = {step.causal for step in steps}
    if len(kinds) > 1:  # one flag for all parts would drop connections or add some

        def rule(k: Tensor, j: Tensor) -> Tensor:
            answers = [_step_reads(s.parts, s.causal, n, k, j) for s in steps]
            return torch.stack(answers).any(0)

        return recognised(n, rule)
    parts = [part for step in steps for part in step.parts]
    return Step(tuple(parts), kinds.pop())


def _powers_of_two(n: int) -> list[int]:
    """1, 2, 4, ..., those below n."""
    sizes(2, n=n)
    count = (int(n) - 1).bit_length()
    return [2**l for l in range(count)]


def _check_set(row, where: str) -> None:
    """A list of different integers; `where` names it in the message."""
    listed = isinstance(row, list | tuple | set | range)
    require(
        listed and all(isinstance(j, Integral) for j in row),
        f"{where} must be a list of integers, got {row!r}",
    )
    require(len(set(row)) == len(row), f"{where} holds an index twice: {row!r}")


def _centred(n: int, w: int, dilation: int = 1) -> Window:
    sizes(2, n=n)
    sizes(1, w=w)
    require(
        w % 2 == 1,
        f"w is the total width, the token itself included: it must be odd, got {w}",
    )
    require(
        w <= n,
        f"w must be in 1..n = 1..{n}, got {w}: "
        "a window holds no more tokens than there are",
    )
    h = w // 2
    return Window(h, h, dilation)


def _global(n: int, w: int, g: int) -> list[Part]:
    _at_most_n(n, g=g)
    tokens = tuple(range(g))
    return [_centred(n, w), Columns(tokens), Rows(tokens)]


def _stride(n: int, w: int | None, name: str = "w") -> int:
    sizes(2, n=n)
    if w is None:
        w = math.isqrt(n - 1) + 1  # ceil(sqrt(n))
    _at_most_n(n, **{name: w})
    return w


def _at_most_n(n: int, **given) -> None:
    """n is a number of tokens, and the sizes, given by name, are in 1..n."""
    sizes(2, n=n)
    sizes(1, **given)
    for name, size in given.items():
        require(size <= n, f"{name} must be in 1..n = 1..{n}, got {size}")


def _draws(n: int, r: int, generator: torch.Generator) -> Lists:
    _at_most_n(n, r=r)
    _require.random(generator)
    rows = []
    for _ in range(n):
        drawn = torch.randperm(n, generator=generator, device=generator.device)[:r]
        rows.append(drawn.sort().values)
    crow = torch.arange(n + 1, device="cpu") * r
    return Lists(crow, torch.cat(rows))
