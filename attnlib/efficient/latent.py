"""Caches that heads share: grouped queries (GQA) written as a latent cache (MLA), and
how far a latent cache is from any grouping.

    grouped   k_h = x K_g(h)                      v_h = x V_g(h)
    latent    k_h = (x down) keys[h]              v_h = (x down) values[h]

Page: notebooks/jl_low_rank/complexity_table
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib import _require
from attnlib._require import require, sizes


@dataclass(frozen=True, eq=False)
class Latent:
    """A token keeps x @ down, r numbers for all heads; head h has the keys
    x @ down @ keys[h] and the values x @ down @ values[h].
    """

    down: Float[Tensor, "D r"]
    keys: Float[Tensor, "heads r d"]
    values: Float[Tensor, "heads r d_v"]


def gqa_as_mla(
    w_k: Float[Tensor, "g D d"], w_v: Float[Tensor, "g D d_v"], heads: int
) -> Latent:
    """The latent cache that holds what grouped queries hold, r = g (d + d_v).

        down = [K_1 .. K_g  V_1 .. V_g],   keys[h], values[h] select those of a group

    so that down @ keys[h] is the key weight of the group of h, to the bit.

    Args:
        heads: a multiple of g; heads / g in a row share a group.

    Source: the inclusion is Meng et al. 2025 (TransMLA), seen as an abstract; GQA is
        Ainslie et al. 2023, MLA DeepSeek-AI 2024, both recalled, without rotation of
        keys by their place.
    Claim: efficient.latent
    """
    _weights("w_k", w_k)
    _weights("w_v", w_v)
    g, D, d = w_k.shape
    d_v = w_v.shape[-1]
    _require.matches("w_v", w_v, (g, D, d_v), w_k, "w_k")
    sizes(1, heads=heads)
    require(heads % g == 0, f"heads must be a multiple of g = {g}, got {heads}")

    down = torch.cat([*w_k, *w_v], -1)
    group = torch.arange(heads, device=down.device) * g // heads
    numbers = torch.eye(g * (d + d_v), dtype=down.dtype, device=down.device)
    keys, values = numbers.split([g * d, g * d_v])
    keys = keys.view(g, d, -1)[group]
    values = values.view(g, d_v, -1)[group]
    return Latent(down, keys.mT, values.mT)


def gqa_error(
    forms: Float[Tensor, "heads D D2"], groups: int, d: int
) -> Float[Tensor, ""]:
    """How far logits are from those of any grouped queries: the least relative error.

        min over groupings of  sqrt( sum_groups sum_{i > d} sigma_i^2 / sum_h |A_h|^2 )

    with sigma the singular values of the forms A_h of a group, stacked. The logit of x
    and y in head h is x' A_h y; heads that share keys of width d have forms whose stack
    has rank at most d.

    Args:
        forms: such as W_Q W_K' of each head; at most 12 heads.
        groups: key heads.
        d: width of a key.

    Cost: 2^heads - 1 decompositions at most, in float64.
    Source: derived; the best approximation of given rank is Eckart and Young's.
    Claim: efficient.latent
    """
    _weights("forms", forms)
    sizes(1, groups=groups, d=d)
    heads = len(forms)
    require(
        heads <= 12,
        f"forms must be of at most 12 heads: all groupings are tried, got {heads}",
    )
    most = forms.abs().amax().double()
    require(bool(most > 0), "forms must not be all zero: nothing is relative to it")
    # In units of the largest entry no square overflows, and not all underflow.
    scaled = forms.double() / most

    @cache
    def missed(group: tuple[int, ...]) -> Tensor:
        stack = scaled[list(group)].flatten(0, 1)
        sigma = torch.linalg.svdvals(stack)
        return sigma[d:].square().sum()

    errors = [sum(map(missed, own)) for own in _groupings(heads, groups)]
    least = torch.stack(errors).amin()
    share = least / scaled.square().sum()
    return share.sqrt().to(forms.dtype)


def _groupings(heads: int, groups: int) -> Iterator[list[tuple[int, ...]]]:
    """All ways to put the heads into at most so many sets."""
    if heads == 0:
        yield []
        return
    last = heads - 1
    for grouping in _groupings(last, groups):
        for i, group in enumerate(grouping):
            yield [*grouping[:i], (*group, last), *grouping[i + 1 :]]
        if len(grouping) < groups:
            yield [*grouping, (last,)]


def _weights(name: str, w: Tensor) -> None:
    """Finite, of three axes, none empty."""
    _require.is_floating(name, w)
    got = tuple(w.shape)
    require(
        len(got) == 3 and 0 not in got,
        f"{name} must have three axes, none of them empty, got {got}",
    )
    _require.finite(**{name: w})
