"""Who hears of whom, and the three conditions on a pattern: self-loops, a Hamiltonian
path with its certificate, and the number of hops.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from attnlib._require import is_a, place, require, sizes
from attnlib.patterns.bits import bit_product, pack, unpack
from attnlib.patterns.hamilton import search
from attnlib.patterns.parts import Pattern, _is_pattern

_Product = Callable[[Tensor, Tensor], Tensor]
_Test = Callable[[Tensor], bool]


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
        all_met: True, False if one fails, None if that is not known.
    """

    self_loops: bool
    hamiltonian_path: tuple[int, ...] | None
    hops: int | None
    connections: int
    reasons: dict[str, str]
    unknown: tuple[str, ...]

    @property
    def universal(self) -> bool:
        """Whether every token can hear every other, so that nothing is lost: the union
        of the steps is strongly connected. If not, reasons["hops"] names a pair.
        """
        return self.hops is not None

    @property
    def all_met(self) -> bool | None:
        """True if all three hold, False if one fails, None if that is not known."""
        if self.reasons:
            return False
        if self.unknown:
            return None
        return True


def check(pattern: Pattern, *, device=None, moves: int = 20_000) -> Conditions:
    """Whether every token can hear every other, and which of the three conditions hold,
    with certificates and reasons.

        (1) k in A^l_k
        (2) a path in which each token reads the one before it, in the union of steps
        (3) S^t_k = S^{t-1}_k and the S^{t-1}_j with j in A^t_k,   S^0_k = {k};
            s = min {t : S^t_k = [n] for all k}

    The skip of a layer lets a token keep what it has heard: S^t_k contains S^{t-1}_k,
    also where a token does not read itself.

    Args:
        pattern: n tokens, p steps.
        device: None for bit rows on the CPU; "cuda" for matrix products in half
            precision.
        moves: how many rotations the search for a path may try before it gives up; on
            sparse random patterns it often does.

    Returns:
        Conditions; its `universal` says whether the pattern loses nothing.

    Raises:
        ValueError: if moves is negative, for a mask in place of a pattern, and a device
            that is not there.

    Cost: O(p + log n) products, of about n^3 / 512 word operations each on the CPU; no
        n x n matrix of floats there.
    Source: Yun et al. 2020b, Assumption 1, recalled; differs: hearing goes through the
        skip. The way to check it is ours.
    Claim: patterns.universal
    """
    _is_pattern("pattern", pattern)
    sizes(0, moves=moves)
    place(device)
    reasons = {}
    unknown = ()
    missing = _missing_loop(pattern)
    if missing is not None:
        token, step = missing
        reasons["self_loops"] = f"token {token} does not read itself in step {step}"
    path, why, known = search(pattern, moves)
    if not known:
        unknown = ("hamiltonian_path",)
    elif path is None:
        reasons["hamiltonian_path"] = why
    s, pair = _hops(pattern, device, skip=True)
    if s is None:
        token, other = pair
        reasons["hops"] = (
            f"token {token} never hears of token {other}, however many layers there are"
        )
    return Conditions(
        self_loops=missing is None,
        hamiltonian_path=path,
        hops=s,
        connections=pattern.connections,
        reasons=reasons,
        unknown=unknown,
    )


def hops(pattern: Pattern, *, skip: bool = True, device=None) -> int | None:
    """The number of layers after which every token has heard of every other.

        s = min {t : S^t_k = [n] for all k},
        S^t = (I + A^t) S^{t-1}  as boolean matrices,   S^0 = I

    One period is P, the product of the I + A^t of p steps. Its powers P, P^2, P^4, ...
    are squared until one is full; then the largest power that is not full is put
    together from them, and at most p single layers follow.

    Args:
        pattern: n tokens, p steps.
        skip: False leaves out the I, so that a token forgets what it does not read.
        device: None for bit rows on the CPU; "cuda" for matrix products.

    Returns:
        s, or None if no number of layers is enough.

    Raises:
        ValueError: for a mask in place of a pattern, and a device that is not there.

    Cost: at most 2 p + 2 log2 n products, without the skip 2 p + 4 log2 n; see `check`.
    Source: not taken from a paper.
    Claim: patterns.checker
    """
    _is_pattern("pattern", pattern)
    is_a(bool, skip=skip)
    place(device)
    return _hops(pattern, device, skip)[0]


def hops_by_sets(
    pattern: Pattern, limit: int | None = None, *, skip: bool = True
) -> int | None:
    """The same number by Python sets, layer by layer: the literal twin of `hops`.

        S^t_k = S^{t-1}_k and the S^{t-1}_j with j in A_k of step (t - 1) mod p

    Args:
        pattern: n tokens, p steps.
        limit: layers after which it gives up, None for p ((n - 1)^2 + 1): if so many
            are not enough, none are.
        skip: False leaves out S^{t-1}_k.

    Returns:
        s, or None.

    Cost: O(s n^3).
    Source: Yun et al. 2020b, Assumption 1, recalled.
    Claim: patterns.checker
    """
    _is_pattern("pattern", pattern)
    is_a(bool, skip=skip)
    n = pattern.n
    p = pattern.p
    if limit is None:
        limit = p * ((n - 1) ** 2 + 1)
    sizes(0, limit=limit)
    steps = []
    for step in range(p):
        rows = pattern.mask(step)
        steps.append([row.nonzero().flatten().tolist() for row in rows])
    heard = [{k} for k in range(n)]
    seen = set()
    for t in range(limit):
        if t % p == 0:
            state = tuple(map(frozenset, heard))
            if state in seen:  # at the same place of the cycle: it repeats for ever
                return None
            seen.add(state)
        before = heard
        heard = []
        for k, read in enumerate(steps[t % p]):
            kept = before[k] if skip else set()
            heard.append(kept.union(*[before[j] for j in read]))
        if all(len(s) == n for s in heard):
            return t + 1
    return None


def reach(pattern: Pattern, layers: int, *, skip: bool = True) -> Bool[Tensor, "n n"]:
    """Who has heard of whom after some layers.

        True in row k and column j  means  j in S^t_k

    Args:
        pattern: n tokens.
        layers: t >= 0.
        skip: False for tokens that forget what they do not read.

    Returns:
        (n, n), boolean; the identity for no layer.

    Raises:
        ValueError: if layers is negative.

    Cost: O(t n^3) as matrix products.
    Source: Yun et al. 2020b, Assumption 1, recalled; differs: the skip.
    Claim: patterns.universal
    """
    _is_pattern("pattern", pattern)
    sizes(0, layers=layers)
    is_a(bool, skip=skip)
    heard = torch.eye(pattern.n, dtype=torch.bool, device="cpu")
    for t in range(layers):
        heard = _step(pattern, t, skip).float() @ heard.float() > 0
    return heard


def crossing(pattern: Pattern, inside: Sequence[int]) -> list[int]:
    """How many states cross into a set of tokens in each step.

        c_l = |{j not in B : some k in B reads j in step l}|,   B = inside

    Args:
        pattern: n tokens, p steps.
        inside: B, different tokens; some, not all.

    Returns:
        c_1, ..., c_p.

    Raises:
        ValueError: for a mask in place of a pattern, and for tokens that are none, all,
            named twice or outside 0..n - 1.

    Cost: O(p n + connections).
    Source: not taken from a paper.
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
    member = torch.zeros(n, dtype=torch.bool, device="cpu")
    member[sorted(within)] = True
    counts = []
    for step in range(pattern.p):
        crow, col = pattern.rows(step)
        reader = torch.repeat_interleave(member, crow.diff())
        read = col[reader & ~member[col]]
        counts.append(len(read.unique()))
    return counts


def _step(pattern: Pattern, t: int, skip: bool) -> Bool[Tensor, "n n"]:
    """Whom each token has at hand in layer t: what it reads, and itself by the skip."""
    mask = pattern.mask(t)
    return mask | torch.eye(pattern.n, dtype=torch.bool, device="cpu") if skip else mask


def _missing_loop(pattern: Pattern) -> tuple[int, int] | None:
    """A token that does not read itself and the step where it does not, or None."""
    i = torch.arange(pattern.n, device="cpu")
    for step in range(pattern.p):
        missing = (~pattern.reads(step, i, i)).nonzero()
        if len(missing):
            return int(missing[0]), step
    return None


def _hops(
    pattern: Pattern, device, skip: bool
) -> tuple[int | None, tuple[int, int] | None]:
    """s and None, or None and a pair (k, j) such that k does not hear of j."""
    n = pattern.n
    steps = [_step(pattern, l, skip) for l in range(pattern.p)]
    on_gpu = device is not None and torch.device(device).type == "cuda"
    if on_gpu:
        steps = [step.to(device).half() for step in steps]
        everything = steps[0].new_ones(1, n)
        product = _half_product
    else:
        steps = [pack(step) for step in steps]
        everything = pack(torch.ones(1, n, dtype=torch.bool, device="cpu"))
        product = bit_product

    def full(heard: Tensor) -> bool:
        return bool((heard == everything).all())

    period = steps[0]
    for step in steps[1:]:
        period = product(step, period)
    # if no power of the period up to this one is full, none is; without the skip that
    # is the bound of Wielandt
    most = n - 1 if skip else (n - 1) ** 2 + 1
    powers = _powers(period, most, product, full)
    if full(powers[-1]):
        return _layers(steps, powers, product, full), None
    heard = powers[-1].bool() if on_gpu else unpack(powers[-1], n)
    k, j = (~heard).nonzero()[0].tolist()
    return None, (k, j)


def _half_product(a: Tensor, b: Tensor) -> Tensor:
    """The product of two boolean matrices that are kept as halves."""
    return (a @ b > 0).half()


def _powers(period: Tensor, most: int, product: _Product, full: _Test) -> list[Tensor]:
    """P, P^2, P^4, ... up to the first that is full, or to the power `most`."""
    powers = [period]
    exponent = 1
    while not full(powers[-1]) and exponent < most:
        powers.append(product(powers[-1], powers[-1]))
        exponent *= 2
        if torch.equal(powers[-1], powers[-2]):
            break
    return powers


def _layers(
    steps: list[Tensor],
    powers: list[Tensor],
    product: _Product,
    full: _Test,
) -> int:
    """The number of layers that fill S, where the last of the powers is full."""
    heard = None

    def after(layers: Tensor) -> Tensor:
        return layers if heard is None else product(layers, heard)

    periods = 0  # the largest number of them that is not enough
    for i in reversed(range(len(powers) - 1)):
        longer = after(powers[i])
        if not full(longer):
            periods += 1 << i
            heard = longer
    for t, step in enumerate(steps, 1):
        heard = after(step)
        if full(heard):
            return periods * len(steps) + t
    raise AssertionError("a full power was found above")
