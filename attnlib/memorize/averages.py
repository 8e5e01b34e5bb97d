"""The Boltzmann operator: a softmax average of its own logits, its derivatives, and how
far apart its values are.

Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, SupportsIndex, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd import forward_ad

from attnlib import _require
from attnlib._require import require

# torch has no public way to ask whether torch.func transforms a tensor.
try:
    from torch._C import _functorch as functorch
except ImportError:
    functorch = None

HALF = (torch.float16, torch.bfloat16)
# Entries of a tile: half a megabyte in double precision stays in the cache.
TILE = 1 << 16
Kind = Literal["distinct", "multiset", "paper"]


def boltzmann(
    a: Float[Tensor, "*batch n"],
    token_mask: Bool[Tensor, "*batch n"] | None = None,
    *,
    check: bool = True,
) -> Float[Tensor, "*batch"]:
    """The softmax average of the logits themselves.

        boltz(a) = sum_i a_i p_i,   p = softmax(a)

    Args:
        a: (*batch, n), n >= 1.
        token_mask: True = a token; the rest is padding and may hold anything.
        check: look for NaN and infinity, and for rows without a token. False under
            torch.func.vmap.

    Returns:
        (*batch), between the least and the largest entry. Derivatives of both modes
        pass, of any order.

    Raises:
        ValueError: for integer a, n = 0, a token_mask of another shape, a row without a
            token, NaN or infinity, check under vmap.

    Cost: O(n) a row; tiles stay in the cache, so it takes about the time of copying a.
        With derivatives or under vmap: one softmax. Half precision is reckoned in
        float32 and rounded once.
    Source: Asadi and Littman 2017, recalled; rows are tiled, and the largest entry is
        taken away before exp.
    Claim: boltzmann.operator
    """
    if check:
        require(
            not _batched(a) and not _batched(token_mask),
            "check looks at values, and torch.func.vmap hides them: "
            "pass check=False, or the whole batch without vmap",
        )
    _check_rows("a", a)
    if token_mask is not None:
        _require.token_mask(token_mask, a.shape, a.device, check=check)
    if _derived(a) or _wrapped(token_mask):
        wide = a.float() if a.dtype in HALF else a
        out = _average(wide, token_mask).to(a.dtype)
    else:
        out = _tiled(a.detach(), token_mask)
    if check:
        _check_average(out)
    return out


def _check_average(out: Tensor) -> None:
    """A finite average: NaN and infinity where a token is would show in it."""
    require(
        torch.isfinite(out).all(),
        "a holds NaN or infinity where it counts, or its average overflows: "
        "hide padding by token_mask",
    )


def _check_rows(name: str, a: Tensor) -> None:
    """Floating rows (*batch, n) with at least one entry each."""
    _require.is_tensor(name, a)
    got = tuple(a.shape)
    require(
        a.is_floating_point(),
        f"{name} must be floating point, got {a.dtype}: cast it first",
    )
    require(
        a.dim() >= 1 and got[-1] > 0,
        f"{name} must be (*batch, n) with n >= 1, got {got}",
    )


def _wrapped(a: Tensor | None) -> bool:
    """Whether a transform of torch.func stands around a: vmap, grad, jvp or another."""
    return (
        functorch is not None
        and torch.is_tensor(a)
        and functorch.is_functorch_wrapped_tensor(a)
    )


def _batched(a: Tensor | None) -> bool:
    """Whether a transform around a is vmap."""
    while _wrapped(a) and not functorch.is_batchedtensor(a):
        a = functorch.get_unwrapped(a)
    return _wrapped(a)


def _derived(a: Tensor) -> bool:
    """Whether somebody differentiates through a, backwards or forwards: then nothing
    may be written in place.
    """
    return (
        (a.requires_grad and torch.is_grad_enabled())
        or _wrapped(a)
        or forward_ad.unpack_dual(a).tangent is not None
    )


def _tiled(a: Tensor, token_mask: Tensor | None) -> Tensor:
    """The average, some rows at a time and in place; nothing is differentiated."""
    n = a.shape[-1]
    flat = a.reshape(-1, n)
    keep = None if token_mask is None else token_mask.reshape(-1, n)
    rows = max(1, len(flat))
    if a.device.type == "cpu":
        rows = max(1, TILE // n)
    # A sum of many small numbers leaves the range of a half.
    work = torch.float32 if a.dtype in HALF else a.dtype
    out = flat.new_empty(len(flat), dtype=work)
    buffer = flat.new_empty(min(rows, len(flat)), n, dtype=work)
    for i in range(0, len(flat), rows):
        y = flat[i : i + rows].to(work)
        p = buffer[: len(y)]
        if keep is None:
            torch.sub(y, y.amax(-1, keepdim=True), out=p)
        else:
            hidden = ~keep[i : i + rows]
            logits = y.masked_fill(hidden, -math.inf)
            torch.sub(logits, logits.amax(-1, keepdim=True), out=p)
            y = y.masked_fill(hidden, 0)
        p.exp_()
        mass = p.sum(-1)
        mean = out[i : i + rows]
        torch.sum(p.mul_(y), -1, out=mean)
        mean.div_(mass)
    return out.to(a.dtype).view(a.shape[:-1])


def boltzmann_literal(
    a: Float[Tensor, "*batch n"], token_mask: Bool[Tensor, "*batch n"] | None = None
) -> Float[Tensor, "*batch"]:
    """The softmax average of the logits, as the formula is written; differentiable.

        boltz(a) = sum_i a_i p_i,   p = softmax(a)

    Args:
        a: (*batch, n).
        token_mask: True = a token; no row may be empty.

    Returns:
        (*batch).

    Raises:
        ValueError: as boltzmann; under vmap without the checks of values.

    Cost: O(n) a row, with a matrix of the size of a.
    Source: the definition; twin of boltzmann.
    Claim: boltzmann.operator
    """
    check = not _batched(a) and not _batched(token_mask)
    _check_rows("a", a)
    if token_mask is not None:
        _require.token_mask(token_mask, a.shape, a.device, check=check)
    out = _average(a, token_mask)
    if check:
        _check_average(out)
    return out


def _average(a: Tensor, token_mask: Tensor | None) -> Tensor:
    """The average, as the formula is written."""
    if token_mask is None:
        return (a * torch.softmax(a, -1)).sum(-1)
    p = torch.softmax(a.masked_fill(~token_mask, -math.inf), -1)
    values = a.masked_fill(~token_mask, 0)
    return (values * p).sum(-1)


def derivatives(
    a: Float[Tensor, "*batch n"],
    token_mask: Bool[Tensor, "*batch n"] | None = None,
    *,
    check: bool = True,
) -> tuple[Float[Tensor, "*batch n"], Float[Tensor, "*batch n"]]:
    """The slope and the curvature of the Boltzmann operator in each of its arguments.

        d_i boltz   = p_i (1 + a_i - boltz)
        d_i^2 boltz = p_i (1 - (1 - 2 p_i) (boltz - a_i - 1))

    Args:
        a: (*batch, n).
        token_mask: True = a token.
        check: as in boltzmann.

    Returns:
        (first, second), each (*batch, n); zero at hidden entries.

    Raises:
        ValueError: as boltzmann.

    Cost: O(n) a row.
    Source: derived on the page.
    Claim: boltzmann.regions
    """
    mean = boltzmann(a, token_mask, check=check).unsqueeze(-1)
    logits = a
    values = a
    if token_mask is not None:
        logits = a.masked_fill(~token_mask, -math.inf)
        values = torch.where(token_mask, a, mean)
    p = torch.softmax(logits, -1)
    below = mean - values - 1
    slope = -p * below
    curvature = p * (1 - (1 - 2 * p) * below)
    return slope, curvature


def needed_gap(n: SupportsIndex, *, kind: Kind = "distinct") -> float:
    """The least distance of values that the separation lemmas ask for.

        distinct, paper: 2 ln n + 3        multiset: 3 ln n + 3

    Args:
        n: entries of a vector, at least 2.
        kind: as in log_separation_bound.

    Returns:
        a float.

    Raises:
        ValueError: for n below 2 and for an unknown kind.

    Cost: O(1).
    Source: paper: Kajitsuka and Sato 2024, Lemma 1, recalled; multiset: derived on the
        page.
    Claim: boltzmann.lemma, boltzmann.multisets
    """
    _require.one_of(get_args(Kind), kind=kind)
    _require.sizes(2, n=n)
    factor = 3 if kind == "multiset" else 2
    return factor * math.log(n) + 3


def log_separation_bound(
    n: SupportsIndex, delta: float, spread: float, *, kind: Kind = "distinct"
) -> float:
    """How far apart the Boltzmann operator keeps two different inputs, at least, as a
    natural logarithm.

        distinct: 0.9 (n - 1) delta e^(delta - rho)
        multiset: 0.9 delta e^(-rho) / (n - 1)
        paper:    (ln n)^2 e^(-2 r)   with r = rho / 2, its smallest value

    Args:
        n: entries of each vector, at least 2.
        delta: different values are at least so far apart.
        spread: rho, the largest value minus the smallest, over both vectors.
        kind: "distinct" wants no value twice in a vector; if values repeat, "multiset"
            is the one that is proved.

    Returns:
        the logarithm of the bound, which may lie far below the smallest float.

    Raises:
        ValueError: if delta is too small for the lemma, spread < delta, or either is
            not finite.

    Cost: O(1).
    Source: distinct, multiset: derived on the page; paper: Kajitsuka and Sato 2024,
        Lemma 1, recalled.
    Claim: boltzmann.lemma, boltzmann.multisets
    """
    need = needed_gap(n, kind=kind)
    _require.numbers(delta=delta, spread=spread)
    require(
        delta >= need,
        f"delta = {delta:g} is too small: for n = {n} the lemma for kind {kind!r} "
        f"needs at least {need:.4f}",
    )
    require(
        spread >= delta,
        f"spread must be at least delta = {delta:g}, got {spread:g}",
    )
    if kind == "paper":
        return 2 * math.log(math.log(n)) - spread
    bound = math.log(0.9 * delta) - spread
    if kind == "distinct":
        return bound + delta + math.log(n - 1)
    return bound - math.log(n - 1)


@dataclass(frozen=True, slots=True)
class Separation:
    """What a separation lemma says of two vectors.

    Args:
        log_bound: natural logarithm of the guaranteed distance.
        delta: the least distance of two values.
        spread: the largest value minus the smallest.
        kind: the lemma that was used.
    """

    log_bound: float
    delta: float
    spread: float
    kind: str


def separation(
    a: Float[Tensor, "n"], b: Float[Tensor, "n"], *, kind: Kind | None = None
) -> Separation:
    """How far apart two vectors stay under the Boltzmann operator, by the lemma whose
    hypotheses they meet.

        |boltz(a) - boltz(b)| >= e^log_bound

    Args:
        a, b: (n,), n >= 2.
        kind: None takes "distinct", or "multiset" if a value repeats in a or in b.

    Returns:
        Separation; kind says which lemma was used.

    Raises:
        ValueError: if a value repeats and kind is not "multiset", if a and b hold the
            same values or are of unlike sizes, if values lie too close together for the
            lemma, and for NaN or infinity.

    Cost: O(n log n).
    Source: log_separation_bound.
    Claim: boltzmann.lemma, boltzmann.multisets
    """
    for name, vector in (("a", a), ("b", b)):
        _check_rows(name, vector)
        require(
            vector.dim() == 1 and len(vector) >= 2,
            f"{name} must be (n,) with n >= 2, got {tuple(vector.shape)}",
        )
        _require.finite(**{name: vector})
    require(
        len(a) == len(b),
        f"a and b must be of one size, got {len(a)} and {len(b)}: "
        "(1, 2) and (1, 1, 2, 2) always collide",
    )
    x = a.double().sort().values
    y = b.double().sort().values
    require(
        not torch.equal(x, y),
        "a and b hold the same values, as multisets: nothing tells them apart",
    )
    steps = torch.cat([x.diff(), y.diff()])
    repeats = bool((steps == 0).any())
    if kind is None:
        kind = "multiset" if repeats else "distinct"
    require(
        not repeats or kind == "multiset",
        f"a value repeats, and kind {kind!r} forbids it: take kind='multiset'",
    )
    values = torch.cat([x, y]).detach().unique()
    delta = float(values.diff().min())
    spread = float(values[-1] - values[0])
    log_bound = log_separation_bound(len(a), delta, spread, kind=kind)
    return Separation(log_bound, delta, spread, kind)
