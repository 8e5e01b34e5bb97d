"""Places and companies of tokens by one softmax head of rank one, how far apart they
are, and whether a dtype holds them.

    z_k = v.x_k,   f_k = sum_j softmax_j(beta z_k z_j) z_j

Page: notebooks/one_layer_memorization/contextual_mapping
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlib import _require
from attnlib._require import finite, require
from attnlib.attention import NORMALIZERS, Layer, Normalizer
from attnlib.memorize import _items

TILE = 1 << 18  # weights that are worked on at once: they stay in the cache


class Ids(NamedTuple):
    """What a token is, and what it is among.

    Args:
        token: (*batch, n), z_k = v.x_k, the place of a token on the line.
        context: (*batch, n), f_k = sum_j p_kj z_j, its company. Both are 0 where the
            mask hides.
    """

    token: Tensor
    context: Tensor


@dataclass(frozen=True, slots=True)
class Gap:
    """How many ids there are, how many of them differ, and the smallest gap between two
    that do; inf if none do.
    """

    count: int
    distinct: int
    smallest: float


def context_ids(
    x: Float[Tensor, "*batch n d"],
    v: Float[Tensor, " d"],
    beta: float,
    *,
    token_mask: Bool[Tensor, "*batch n"] | None = None,
    normalizer: Normalizer = "softmax",
    check: bool = True,
) -> Ids:
    """Place z and company f of every token, by one head of rank one.

    Args:
        beta: factor of the logits; 0 is mean pooling.
        token_mask: True = a token; None if all are.
        normalizer: as in attention_matrix.
        check: look for NaN, infinity, overflow, empty sequences and tokens with z = 0,
            which would see only the mean.

    Returns:
        Ids. Summed in the order of z, so that permuted sequences get the same ids, not
        ids that nearly agree.

    Cost: O(n d + n^2) a sequence; memory for a copy of x and one tile of weights.
    Source: Kajitsuka and Sato 2024, the head of Theorem 2, read along v.
    Claim: ids.gap
    """
    _require.is_a(bool, check=check)
    _require.tokens(x)
    _require.matches("v", v, x.shape[-1:], x)
    _require.numbers(beta=beta)
    _require.one_of(NORMALIZERS, normalizer=normalizer)
    if token_mask is not None:
        _require.token_mask(token_mask, x.shape[:-1], x.device, check=check)
        x = x.masked_fill(~token_mask.unsqueeze(-1), 0)
    z = (x * v).sum(-1)
    if check:
        finite(x=x, v=v)
        zero = z == 0 if token_mask is None else (z == 0) & token_mask
        require(not zero.any(), f"{int(zero.sum())} tokens have v.x = 0, and no logits")
        most = max(abs(beta), _items.largest_logit(z, beta))
        require(
            most <= torch.finfo(z.dtype).max,
            f"logits reach {most:.3g}, beyond {z.dtype}: lower beta, or scale x",
        )
    # The others in the order of z; what is hidden comes last.
    others = z if token_mask is None else z.masked_fill(~token_mask, math.inf)
    others = others.sort(-1).values
    hidden = None
    if token_mask is not None:
        hidden = others.isinf()
        others = others.masked_fill(hidden, 0)
    n = z.shape[-1]
    some = max(1, TILE // n)  # queries whose weights fill a tile
    parts = z.flatten().split(some)
    contexts = []
    for i, part in enumerate(parts):
        queries = torch.arange(len(part), device=z.device) + i * some
        rows = queries // n  # the sequences of these queries
        seen = others.view(-1, n)[rows]
        logits = beta * part[:, None] * seen
        if hidden is not None:
            logits = logits.masked_fill(hidden.view(-1, n)[rows], -math.inf)
        p = NORMALIZERS[normalizer](logits)
        contexts.append((p * seen).sum(-1))
    f = torch.cat(contexts).view(z.shape)
    return Ids(z, f if token_mask is None else f.masked_fill(~token_mask, 0))


def rank_one_layer(v: Float[Tensor, " d"], beta: float, w: float = 1.0) -> Layer:
    """The head as an attention layer: with skip=True attention.forward gives
    h_k = x_k + w f_k v.

        W_Q = sign(beta) sqrt|beta| v,   W_K = sqrt|beta| v,   W_V = v,   W_O = w v'

    Source: Kajitsuka and Sato 2024, Theorem 2.
    Claim: ids.gap
    """
    _require.is_floating("v", v)
    require(v.dim() == 1 and len(v), f"v must be (d,), got {tuple(v.shape)}")
    finite(v=v)
    _require.numbers(beta=beta, w=w)
    column = v[None, :, None]
    root = abs(beta) ** 0.5
    return Layer(
        w_q=math.copysign(root, beta) * column,
        w_k=root * column,
        w_v=column,
        w_o=w * column.mT,
    )


def smallest_gap(
    ids: Float[Tensor, "*shape"], groups: Int[Tensor, "*shape"] | None = None
) -> Gap:
    """How many ids differ, and the smallest gap between two that do, by one sort.

    Args:
        groups: integers; only ids of one group are compared, None for one group.

    Returns:
        Gap; differences are those of the sorted ids in their own dtype (bfloat16 and
        float16: in float32).

    Cost: one sort of a copy on the CPU, by NumPy, which sorts floats faster than torch.
    """
    _require.is_floating("ids", ids)
    require(ids.numel() > 0, "ids must not be empty")
    finite(ids=ids)
    flat = _require.widened(ids.detach()).flatten().cpu().numpy()
    if groups is None:
        steps = np.diff(np.sort(flat))
        new_group = np.zeros_like(steps, dtype=bool)
    else:
        _require.is_tensor("groups", groups)
        require(
            not (groups.is_floating_point() or groups.is_complex())
            and groups.shape == ids.shape,
            f"groups must be integers of shape {tuple(ids.shape)}",
        )
        _require.same_device("groups", groups, ids.device, "ids")
        group = groups.flatten().cpu().numpy()
        order = np.lexsort((flat, group))
        steps = np.diff(flat[order])
        new_group = np.diff(group[order]) != 0
    apart = steps[(steps > 0) & ~new_group]
    distinct = 1 + int(new_group.sum()) + len(apart)
    return Gap(len(flat), distinct, float(apart.min(initial=math.inf)))


def separate(
    x: Float[Tensor, "*batch n d"],
    v: Float[Tensor, " d"],
    beta: float,
    *,
    normalizer: Normalizer = "softmax",
) -> Gap:
    """The gap of the ids, after a check that there are as many as there are tokens in
    different company: a positive gap in floats proves nothing, the right number does.

    Args:
        x, v, beta, normalizer: as in context_ids; sequences may repeat tokens, and may
            repeat one another.

    Returns:
        Gap; distinct is the number of different (token, multiset of its sequence).

    Raises:
        ValueError: also if ids are lost: how many, and which dtype would hold them.

    Cost: context_ids, and one sort on the CPU.
    """
    ids = context_ids(x, v, beta, normalizer=normalizer)
    rows = x.detach().reshape(-1, *x.shape[-2:])
    no_labels = rows[..., :0]
    all_tokens = torch.ones(rows.shape[:2], dtype=torch.bool, device=x.device)
    items = _items.find_items(rows, no_labels, all_tokens)
    words = items.tokens.view(ids.token.shape)
    wanted = len(items.place)
    found = smallest_gap(ids.context, words)
    if found.distinct == wanted:
        return found
    cure = "no wider dtype holds all: change beta, v or normalizer"
    for dtype in reversed(_items.finer(x.dtype)):
        wide = context_ids(x.to(dtype), v.to(dtype), beta, normalizer=normalizer)
        if smallest_gap(wide.context, words).distinct == wanted:
            cure = f"{dtype} would hold all"
    raise ValueError(
        f"{x.dtype} keeps {found.distinct} of {wanted} ids at beta = {beta:g} "
        f"({normalizer}); {cure}"
    )
