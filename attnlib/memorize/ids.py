"""Places and companies of tokens by one softmax head of rank one, how far apart they
are, and whether a dtype holds them.

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

TILE = 1 << 18  # weights, or ids, that are worked on at once: they stay in the cache


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
    """How far ids are from each other.

    Args:
        count: how many there are.
        distinct: how many differ.
        smallest: gap between two that differ; inf if none do.
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
    """Place and company of every token, by one head of rank one: the parts of its id.

        z_k = v.x_k,   f_k = sum_j softmax_j(beta z_k z_j) z_j

    Args:
        x: (*batch, n, d), tokens are rows.
        v: (d,).
        beta: factor of the logits; 0 is mean pooling.
        token_mask: (*batch, n), True = a token; None if all are.
        normalizer: as in attention_matrix.
        check: look for NaN, infinity, overflow, empty sequences and tokens with z = 0.

    Returns:
        Ids. Summed in the order of z, so that permuted sequences get the same ids, not
        ids that nearly agree.

    Raises:
        ValueError: for shapes or dtypes that do not fit, NaN or infinity, an empty
            sequence, a token with v.x = 0 (zero, or orthogonal to v: it would see only
            the mean), logits that overflow.

    Cost: O(n d + n^2) a sequence; memory O(n d) a sequence and one tile of weights.
    Source: Kajitsuka and Sato 2024, the head of Theorem 2, read along v.
    Claim: ids.gap
    """
    _check(x, v, beta, normalizer)
    n, d = x.shape[-2:]
    keep = None
    if token_mask is not None:
        _require.token_mask(token_mask, x.shape[:-1], x.device, check=check)
        x = x.masked_fill(~token_mask.unsqueeze(-1), 0)
        keep = token_mask.reshape(-1, n)
    step = max(1, TILE // n**2)  # sequences whose weights fill a tile
    rows = x.reshape(-1, n, d)
    projected = [(part * v).sum(-1) for part in rows.split(step)]
    z = torch.cat(projected)
    if check:
        finite(x=x, v=v)
        _check_logits(z, beta, keep)
    parts = z.split(step)
    kept = [None] * len(parts) if keep is None else keep.split(step)
    contexts = [
        _contexts(part, seen, beta, normalizer) for part, seen in zip(parts, kept)
    ]
    f = torch.cat(contexts)
    size = x.shape[:-1]
    return Ids(z.reshape(size), f.reshape(size))


def _contexts(
    z: Tensor, keep: Tensor | None, beta: float, normalizer: Normalizer
) -> Tensor:
    """f of some sequences; where even one has too many weights for a tile, some of its
    rows at a time.
    """
    others = z
    if keep is not None:  # the sort brings what is hidden to the end
        others = z.masked_fill(~keep, math.inf)
    others = others.sort(-1).values.unsqueeze(-2)
    if keep is not None:
        hidden = others.isinf()
        others = others.masked_fill(hidden, 0)

    def read(queries: Tensor) -> Tensor:
        logits = beta * queries.unsqueeze(-1) * others
        if keep is not None:
            logits = logits.masked_fill(hidden, -math.inf)
        p = NORMALIZERS[normalizer](logits)
        return (p * others).sum(-1)

    weights = z.numel() * z.shape[-1]
    parts = z.tensor_split(math.ceil(weights / TILE), -1)
    f = torch.cat([read(part) for part in parts], -1)
    return f if keep is None else f.masked_fill(~keep, 0)


def _check(x: Tensor, v: Tensor, beta: float, normalizer: str) -> None:
    ragged = isinstance(x, list | tuple)
    require(not ragged, "x must be a torch tensor: pad and give a token_mask")
    _require.tokens(x)
    _require.matches("v", v, x.shape[-1:], x)
    _require.numbers(beta=beta)
    _require.one_of(NORMALIZERS, normalizer=normalizer)


def _check_logits(z: Tensor, beta: float, keep: Tensor | None) -> None:
    """No token whose logits vanish, and no logit that overflows."""
    zero = z == 0
    if keep is not None:
        zero = zero & keep
    count = int(zero.sum())
    require(
        not count,
        f"{count} tokens have v.x = 0: they are zero or orthogonal to v, "
        "and would see only the mean",
    )
    most = max(abs(beta), _items.largest_logit(z, beta))
    require(
        most <= torch.finfo(z.dtype).max,
        f"logits reach {most:.3g}, beyond {z.dtype}: lower beta, or scale the tokens",
    )


def rank_one_layer(v: Float[Tensor, " d"], beta: float, w: float = 1.0) -> Layer:
    """The head as an attention layer of rank one, for attention.forward with skip=True.

        W_Q = sign(beta) sqrt|beta| v,   W_K = sqrt|beta| v,   W_V = v,   W_O = w v'

    Args:
        v: (d,).
        beta: factor of the logits.
        w: factor of the company.

    Returns:
        Layer with one head of width one; forward gives h_k = x_k + w f_k v.

    Raises:
        ValueError: if v is not a vector, or v, beta or w not finite.

    Cost: O(d).
    Source: Kajitsuka and Sato 2024, Theorem 2.
    Claim: ids.gap
    """
    _require.is_floating("v", v)
    require(
        v.dim() == 1 and len(v) > 0,
        f"v must be a one-dimensional floating tensor, got {tuple(v.shape)}",
    )
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
        ids: any shape.
        groups: integers of the same shape; only ids of one group are compared, on the
            CPU; None for one group.

    Returns:
        Gap; differences are those of the sorted ids in their own dtype (bfloat16 and
        float16: in float32).

    Raises:
        ValueError: for no id, integers, NaN or infinity, groups of another shape.

    Cost: one sort of a copy, which is nearly all of it; several times more with groups.
    Source: the definition; numpy sorts floats much faster than torch, which sorts
        indices too.
    """
    _require.is_floating("ids", ids)
    require(ids.numel() > 0, "ids must be a floating tensor that is not empty")
    require(not ids.is_meta, "ids are on the device meta: it holds no values")
    flat = ids.detach().flatten()
    if flat.dtype in (torch.bfloat16, torch.float16):
        flat = flat.float()
    if groups is not None:
        _require.is_tensor("groups", groups)
        whole = not (groups.is_floating_point() or groups.is_complex())
        require(
            whole and groups.shape == ids.shape,
            f"groups must be a tensor of integers of shape {tuple(ids.shape)}",
        )
        _require.same_device("groups", groups, ids.device, "ids")
        return _gap_in_groups(flat, groups.flatten())
    if flat.is_cuda:
        return _gap_on_device(flat)
    return _gap_in_blocks(flat.numpy())


def _gap_in_blocks(ids: np.ndarray) -> Gap:
    """The gap of ids in memory; after the sort, a block at a time stays in the
    cache.
    """
    ids = np.sort(ids)
    # NaN and infinity are sorted to the ends.
    ends = ids[[0, -1]]
    require(np.isfinite(ends).all(), "ids hold NaN or infinity")
    distinct = 1
    smallest = math.inf
    for start in range(0, len(ids) - 1, TILE):
        steps = np.diff(ids[start : start + TILE + 1])
        positive = int(np.count_nonzero(steps))
        distinct += positive
        if 0 < positive < len(steps):
            steps = steps[steps > 0]
        if positive:
            smallest = min(smallest, float(steps.min()))
    return Gap(len(ids), distinct, smallest)


def _gap_on_device(ids: Tensor) -> Gap:
    """The gap of ids that lie on a GPU, sorted there."""
    ids = ids.sort().values
    ends = ids[[0, -1]]
    require(torch.isfinite(ends).all(), "ids hold NaN or infinity")
    steps = ids.diff()
    apart = steps[steps > 0]
    return Gap(len(ids), 1 + len(apart), _items.least(apart))


def _gap_in_groups(ids: Tensor, groups: Tensor) -> Gap:
    """The gap of ids that are compared within their group only."""
    ids = ids.cpu().numpy()
    groups = groups.cpu().numpy()
    require(np.isfinite(ids).all(), "ids hold NaN or infinity")
    order = np.lexsort((ids, groups))
    steps = np.diff(ids[order])
    new_group = np.diff(groups[order]) != 0
    apart = steps[(steps > 0) & ~new_group]
    distinct = 1 + int(new_group.sum()) + len(apart)
    return Gap(len(ids), distinct, _items.least(apart))


def separate(
    x: Float[Tensor, "*batch n d"],
    v: Float[Tensor, " d"],
    beta: float,
    *,
    w: float | None = None,
    token_mask: Bool[Tensor, "*batch n"] | None = None,
    normalizer: Normalizer = "softmax",
) -> Gap:
    """The gap of the ids, after a check that there are as many as there are tokens in
    different company.

    Args:
        x, v, beta, token_mask, normalizer: as in context_ids; sequences may
            repeat tokens, and may repeat one another.
        w: None for pairs (token, company); a number for the ids z + w f.

    Returns:
        Gap; distinct is the number of different (token, multiset of its sequence).

    Raises:
        ValueError: as context_ids, and if ids are lost: how many, and which dtype would
            hold them.

    Cost: that of context_ids, one sort of the ids, one of the sequences.
    Source: not taken from a paper: a positive gap in floats proves nothing, the right
        number of ids does.
    """
    ids = context_ids(x, v, beta, token_mask=token_mask, normalizer=normalizer)
    if w is not None:
        _require.numbers(w=w)
    keep = token_mask
    if keep is None:
        keep = torch.ones_like(ids.token, dtype=torch.bool)
    found, _ = _items.group(x.detach()[keep] + 0.0)  # -0 and 0 are one number
    labels = _items.at_tokens(found, keep)
    wanted = _company(labels, keep)
    gap = _gap(ids, labels, keep, w)
    if gap.distinct == wanted:
        return gap

    def holds_all(dtype: torch.dtype) -> bool:
        wide_x = x.to(dtype)
        wide_v = v.to(dtype)
        ids = context_ids(
            wide_x, wide_v, beta, token_mask=token_mask, normalizer=normalizer
        )
        return _gap(ids, labels, keep, w).distinct == wanted

    held = [dtype for dtype in _items.finer(x.dtype) if holds_all(dtype)]
    cure = "no wider dtype holds all: change beta, v or w"
    if held:
        cure = f"{held[0]} would hold all"
    raise ValueError(
        f"{x.dtype} keeps {gap.distinct} of {wanted} ids at beta = {beta:g} "
        f"({normalizer}); {cure}"
    )


def _gap(ids: Ids, labels: Tensor, keep: Tensor, w: float | None) -> Gap:
    """The gap of the pairs (token, company), or of the ids z + w f."""
    if w is None:
        return smallest_gap(ids.context[keep], labels[keep])
    return smallest_gap((ids.token + w * ids.context)[keep])


def _company(labels: Tensor, keep: Tensor) -> int:
    """How many different pairs (token, multiset of its sequence) there are."""
    rows = labels.reshape(-1, labels.shape[-1])
    sets = torch.unique(rows.sort(-1).values, dim=0)
    new = torch.ones_like(sets, dtype=torch.bool)
    new[:, 1:] = sets.diff(dim=1) != 0
    return int((new & (sets >= 0)).sum())
