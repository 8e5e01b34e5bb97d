"""Who hears of whom, and the three conditions on a pattern.

    (1) k in A^l_k
    (2) a path in which each token reads the one before it, in the union of steps
    (3) S^t_k = S^{t-1}_k and the S^{t-1}_j with j in A^t_k,   S^0_k = {k};
        s = min {t : S^t_k = [n] for all k}

As boolean matrices S^t = (I + A^t) S^{t-1}: `reach` is that product, layer by layer.
`hops` finds s by squares of one period; `check` has certificates and reasons, too.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from attnlib._require import is_a, require, sizes
from attnlib.patterns._bits import Bits, bit_product, pack, unpack
from attnlib.patterns.hamilton import _search
from attnlib.patterns.parts import CPU, Pattern, _eye, _is_pattern, _upto


def reach(pattern: Pattern, layers: int, *, skip: bool = True) -> Bool[Tensor, "n n"]:
    """Who has heard of whom after t layers: True in row k and column j if j in S^t_k;
    without skip, tokens forget what they do not read.

    Source: Yun et al. 2020b, Assumption 1, recalled; differs: the skip.
    Claim: patterns.universal
    """
    _is_pattern("pattern", pattern)
    sizes(0, layers=layers)
    is_a(bool, skip=skip)
    heard = _eye(pattern.n)
    for t in range(layers):
        at_hand = _step(pattern, t, skip)
        heard = at_hand.float() @ heard.float() > 0
    return heard


def hops(pattern: Pattern, *, skip: bool = True) -> int | None:
    """The number of layers after which every token has heard of every other.

        s = min {t : S^t_k = [n] for all k}

    One period is P, the product of the I + A^t of p steps. Its powers P, P^2, P^4, ...
    are squared until one is full; then the largest power that is not full is put
    together from them, and at most p single layers follow.

    Without skip the I is left out: a token forgets what it does not read. None if no
    number of layers is enough.

    Cost: at most 2 p + 2 log2 n products, without the skip 2 p + 4 log2 n, of about
        n^3 / 512 word operations each.
    Claim: patterns.checker
    """
    _is_pattern("pattern", pattern)
    is_a(bool, skip=skip)
    return _hops(pattern, skip)[0]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What `check` found.

    Args:
        self_loops: condition (1), every token reads itself in every step.
        hamiltonian_path: condition (2), a path as its own certificate: token path[i +
            1] reads path[i] in some step; None if there is none or none was found.
        hops: condition (3), s, the skip counted; None if there is none.
        connections: of the largest step.
        reasons: for each condition that fails, why.
        unknown: the conditions where the search gave up; only hamiltonian_path can be.
    """

    self_loops: bool
    hamiltonian_path: tuple[int, ...] | None
    hops: int | None
    connections: int
    reasons: dict[str, str]
    unknown: tuple[str, ...]

    @property
    def universal(self) -> bool:
        """Whether every token can hear every other, so that nothing is lost."""
        return self.hops is not None

    @property
    def all_met(self) -> bool | None:
        """True if all three hold, False if one fails, None if that is not known."""
        if self.reasons:
            return False
        return None if self.unknown else True


def check(pattern: Pattern, *, moves: int = 20_000) -> Conditions:
    """Whether every token can hear every other, and which of the three conditions hold,
    with certificates and reasons. Hearing goes through the skip, too.

    Args:
        moves: how many rotations the search for a path may try before it gives up; on
            sparse random patterns it often does.

    Source: Yun et al. 2020b, Assumption 1, recalled; differs: the skip.
    Claim: patterns.universal
    """
    _is_pattern("pattern", pattern)
    sizes(0, moves=moves)
    reasons = {}
    missing = _missing_loop(pattern)
    if missing:
        token, step = missing
        reasons["self_loops"] = f"token {token} does not read itself in step {step}"
    path, why, known = _search(pattern, moves)
    if known and path is None:
        reasons["hamiltonian_path"] = why
    s, heard = _hops(pattern, skip=True)
    if s is None:
        token, other = (~heard).nonzero()[0].tolist()
        reasons["hops"] = (
            f"token {token} never hears of token {other}, however many layers there are"
        )
    return Conditions(
        self_loops=missing is None,
        hamiltonian_path=path,
        hops=s,
        connections=pattern.connections,
        reasons=reasons,
        unknown=() if known else ("hamiltonian_path",),
    )


def crossing(pattern: Pattern, inside: Sequence[int]) -> list[int]:
    """How many states cross into a set B of tokens in each step.

        c_l = |{j not in B : some k in B reads j in step l}|

    Args:
        inside: B, different tokens; some, not all.

    Claim: patterns.cut
    """
    _is_pattern("pattern", pattern)
    is_a(Sequence, inside=inside)
    n = pattern.n
    for token in inside:
        sizes(0, **{"each token of inside": token})
    within = {int(token) for token in inside}
    require(
        len(within) == len(inside) and 0 < len(within) < n and max(within) < n,
        f"inside must name some of the {n} tokens, not all, none twice, "
        f"got {list(inside)[:8]}",
    )
    B = torch.zeros(n, dtype=torch.bool, device=CPU)
    B[sorted(within)] = True
    counts = []
    for step in range(pattern.p):
        read = pattern.mask(step)[B].any(0)
        counts.append(int((read & ~B).sum()))
    return counts


def _step(pattern: Pattern, t: int, skip: bool) -> Bool[Tensor, "n n"]:
    """Whom each token has at hand in layer t: what it reads, and itself by the skip."""
    mask = pattern.mask(t)
    return mask | _eye(pattern.n) if skip else mask


def _missing_loop(pattern: Pattern) -> tuple[int, int] | None:
    """A token that does not read itself and the step where it does not, or None."""
    i = _upto(pattern.n)
    for step in range(pattern.p):
        missing = (~pattern.reads(step, i, i)).nonzero()
        if len(missing):
            return int(missing[0]), step
    return None


def _hops(pattern: Pattern, skip: bool) -> tuple[int | None, Bool[Tensor, "n n"]]:
    """s, and who hears of whom through the largest power of the period."""
    n = pattern.n
    steps = [pack(_step(pattern, t, skip)) for t in range(pattern.p)]
    everything = pack(torch.ones(1, n, dtype=torch.bool, device=CPU))

    def full(heard: Bits) -> bool:
        return bool((heard == everything).all())

    period = steps[0]
    for step in steps[1:]:
        period = bit_product(step, period)
    # if no power of the period up to this one is full, none is; without the skip that
    # is the bound of Wielandt
    most = n - 1 if skip else (n - 1) ** 2 + 1
    powers = [period]
    while not full(powers[-1]) and 1 << len(powers) < 2 * most:
        powers.append(bit_product(powers[-1], powers[-1]))
        if (powers[-1] == powers[-2]).all():
            break
    heard = unpack(powers[-1], n)
    if not full(powers[-1]):
        return None, heard
    too_few = pack(_eye(n))
    periods = 0  # the largest number of them that is not enough
    for i in reversed(range(len(powers) - 1)):
        longer = bit_product(powers[i], too_few) if periods else powers[i]
        if not full(longer):
            periods += 1 << i
            too_few = longer
    s = periods * pattern.p
    while not full(too_few) and s < (periods + 1) * pattern.p:
        too_few = bit_product(steps[s % pattern.p], too_few)
        s += 1
    return s, heard
