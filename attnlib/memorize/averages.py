"""The Boltzmann operator: a softmax average of its own logits, its derivatives, and how
far apart it keeps two vectors.

    boltz(a) = sum_i a_i p_i,   p = softmax(a)

Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
"""

from __future__ import annotations

import math
from typing import Literal, SupportsIndex, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlib import _require
from attnlib._require import require

Kind = Literal["distinct", "multiset", "paper"]


def boltzmann(
    a: Float[Tensor, "*batch n"],
    token_mask: Bool[Tensor, "*batch n"] | None = None,
    *,
    check: bool = True,
) -> Float[Tensor, "*batch"]:
    """The softmax average of the logits themselves, sum_i a_i softmax(a)_i.

    Args:
        token_mask: True = a token; the rest is padding and may hold anything.
        check: look for NaN and infinity, and for rows without a token. False under
            torch.func.vmap.

    Returns:
        (*batch), between the least and the largest entry; half precision is reckoned in
        float32 and rounded once.

    Source: Asadi and Littman 2017, recalled.
    Claim: boltzmann.operator
    """
    _require.is_a(bool, check=check)
    _require.is_floating("a", a)
    got = tuple(a.shape)
    require(
        a.dim() >= 1 and got[-1] > 0, f"a must be (*batch, n) with n >= 1, got {got}"
    )
    wide = a.to(torch.promote_types(a.dtype, torch.float32))
    if token_mask is None:
        mean = (wide * wide.softmax(-1)).sum(-1)
    else:
        _require.token_mask(token_mask, got, a.device, check=check)
        p = wide.masked_fill(~token_mask, -math.inf).softmax(-1)
        mean = (wide.masked_fill(~token_mask, 0) * p).sum(-1)
    mean = mean.to(a.dtype)
    if check:
        require(
            mean.isfinite().all(),
            "a holds NaN or infinity where it counts, or its average overflows: "
            "hide padding by token_mask",
        )
    return mean


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
        token_mask, check: as in boltzmann.

    Returns:
        (first, second), zero at hidden entries.

    Source: derived on the page.
    Claim: boltzmann.regions
    """
    mean = boltzmann(a, token_mask, check=check).unsqueeze(-1)
    logits = values = a
    if token_mask is not None:
        logits = a.masked_fill(~token_mask, -math.inf)
        values = torch.where(token_mask, a, mean)
    p = torch.softmax(logits, -1)
    below = mean - values - 1
    slope = -p * below
    return slope, p * (1 - (1 - 2 * p) * below)


def needed_gap(n: SupportsIndex, *, kind: Kind = "distinct") -> float:
    """The least distance of values that the separation lemmas ask for.

        distinct, paper: 2 ln n + 3        multiset: 3 ln n + 3

    Args:
        n: entries of a vector, at least 2; kind as in log_separation_bound.

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
    natural logarithm: the bound itself may lie far below the smallest float.

        distinct: 0.9 (n - 1) delta e^(delta - rho)
        multiset: 0.9 delta e^(-rho) / (n - 1)
        paper:    (ln n)^2 e^(-2 r)   with r = rho / 2, its smallest value

    Args:
        n: entries of each vector, at least 2.
        delta: different values are at least so far apart; at least needed_gap.
        spread: rho, the largest value minus the smallest, over both vectors.
        kind: "distinct" wants no value twice in a vector; if values repeat, "multiset"
            is the one that is proved.

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
        spread >= delta, f"spread must be at least delta = {delta:g}, got {spread:g}"
    )
    if kind == "paper":
        return 2 * math.log(math.log(n)) - spread
    bound = math.log(0.9 * delta) - spread
    if kind == "distinct":
        return bound + delta + math.log(n - 1)
    return bound - math.log(n - 1)
