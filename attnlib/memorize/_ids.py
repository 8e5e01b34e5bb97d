"""Context ids by one rank-1 softmax head, how far apart they are, and whether a dtype
holds them; public under attnlib.memorize.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlib._require import finite, require, tokens
from attnlib.attention import NORMALIZERS, Layer, Normalizer

TILE = 1 << 18  # weights, or ids, that are worked on at once: they stay in the cache


class Ids(NamedTuple):
    """What a token is, and what it is among.

    Args:
        token: (*batch, n), z_k = v.x_k.
        context: (*batch, n), f_k = sum_j p_kj z_j. Both are 0 where the mask hides.

    Page:
        notebooks/one_layer_memorization/contextual_mapping
    """

    token: Tensor
    context: Tensor


class Gap(NamedTuple):
    """How far ids are from each other.

    Args:
        count: how many there are.
        distinct: how many differ.
        smallest: gap between two that differ; inf if none do.

    Page:
        notebooks/one_layer_memorization/contextual_mapping
    """

    count: int
    distinct: int
    smallest: float


def context_ids(
    x: Float[Tensor, "*batch n d"],
    v: Float[Tensor, " d"],
    beta: float,
    *,
    mask: Bool[Tensor, "*batch n"] | None = None,
    normalizer: Normalizer = "softmax",
    check: bool = True,
) -> Ids:
    """Token id and context id of every token, by one head of rank one.

        z_k = v.x_k,   f_k = sum_j softmax_j(beta z_k z_j) z_j

    Args:
        x: (*batch, n, d), tokens are rows.
        v: (d,).
        beta: factor of the logits; 0 is mean pooling.
        mask: (*batch, n), True where a token is; None if all are.
        normalizer: as in attention_matrix.
        check: look for NaN, infinity, overflow, empty sequences and tokens with z = 0.

    Returns:
        Ids. Summed in the order of z, so that permuted sequences get the same ids, not
        ids that nearly agree.

    Raises:
        ValueError: for shapes or dtypes that do not fit, NaN or infinity, an empty
            sequence, a token with v.x = 0 (zero, or orthogonal to v: it would see only
            the mean), logits that overflow.

    Cost:
        O(n d + n^2) a sequence; memory O(n d) a sequence and one tile of weights.

    Source:
        Kajitsuka and Sato 2024, the head of Theorem 2, read along v.

    Claim:
        ids.gap

    Page:
        notebooks/one_layer_memorization/contextual_mapping
    """
    _check(x, v, mask, normalizer)
    x = x if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0)
    rows = x.reshape(-1, *x.shape[-2:])
    keep = None if mask is None else mask.reshape(-1, x.shape[-2])
    step = max(1, TILE // x.shape[-2] ** 2)
    cuts = range(0, len(rows), step)
    z = torch.cat([(rows[a : a + step] * v).sum(-1) for a in cuts])
    if check:
        _check_values(x, v, beta, z, keep)
    f = torch.cat(
        [
            _contexts(
                z[a : a + step],
                None if keep is None else keep[a : a + step],
                beta,
                normalizer,
            )
            for a in cuts
        ]
    )
    return Ids(z.reshape(x.shape[:-1]), f.reshape(x.shape[:-1]))


def _contexts(
    z: Tensor, keep: Tensor | None, beta: float, normalizer: Normalizer
) -> Tensor:
    """f of some sequences; where even one has too many weights for a tile, some of its
    rows at a time.
    """
    others = (
        (z if keep is None else z.masked_fill(~keep, math.inf))
        .sort(-1)
        .values.unsqueeze(-2)
    )
    hidden = None if keep is None else others.isinf()
    others = others if keep is None else others.masked_fill(hidden, 0)

    def read(z: Tensor) -> Tensor:
        logits = beta * z.unsqueeze(-1) * others
        logits = logits if keep is None else logits.masked_fill(hidden, -math.inf)
        return (NORMALIZERS[normalizer](logits) * others).sum(-1)

    f = torch.cat(
        [
            read(part)
            for part in z.tensor_split(-(-z.numel() * z.shape[-1] // TILE), -1)
        ],
        -1,
    )
    return f if keep is None else f.masked_fill(~keep, 0)


def _check(x: Tensor, v: Tensor, mask: Tensor | None, normalizer: str) -> None:
    require(
        torch.is_tensor(x),
        f"x must be a torch tensor, got {type(x).__name__}; pad ragged sequences and give a mask",
    )
    tokens(x)
    require(
        torch.is_tensor(v) and v.shape == x.shape[-1:],
        f"v must be a tensor of shape {tuple(x.shape[-1:])} to fit x",
    )
    require(
        v.dtype == x.dtype and v.device == x.device,
        f"v is {v.dtype} on {v.device}, x is {x.dtype} on {x.device}",
    )
    require(
        normalizer in NORMALIZERS,
        f"normalizer must be one of {list(NORMALIZERS)}, got {normalizer!r}",
    )
    if mask is not None:
        fits = (
            torch.is_tensor(mask)
            and mask.dtype == torch.bool
            and mask.shape == x.shape[:-1]
        )
        require(
            fits,
            f"mask must be boolean of shape {tuple(x.shape[:-1])}, True where a token is",
        )


def _check_values(
    x: Tensor, v: Tensor, beta: float, z: Tensor, keep: Tensor | None
) -> None:
    finite(x=x, v=v)
    require(math.isfinite(beta), f"beta must be finite, got {beta}")
    empty = 0 if keep is None else int((~keep).all(-1).sum())
    require(not empty, f"{empty} sequences are empty: their mask hides every token")
    zero = int((z == 0).sum()) if keep is None else int(((z == 0) & keep).sum())
    require(
        not zero,
        f"{zero} tokens have v.x = 0: they are zero or orthogonal to v, and would see only the mean",
    )
    most = abs(beta) * float(z.detach().abs().max()) ** 2
    require(
        most <= torch.finfo(z.dtype).max,
        f"logits reach {most:.3g}, beyond {z.dtype}: lower beta",
    )


def rank_one_layer(v: Float[Tensor, " d"], beta: float, w: float = 1.0) -> Layer:
    """The head as an attention layer of rank one, for attention.forward with skip=True.

        W_Q = sign(beta) sqrt|beta| v,   W_K = sqrt|beta| v,   W_V = v,   W_O = w v'

    Args:
        v: (d,).
        beta: factor of the logits.
        w: factor of the context id.

    Returns:
        Layer with one head of width one; forward gives h_k = x_k + w f_k v.

    Raises:
        ValueError: if v is not a vector, or beta or w not finite.

    Cost:
        O(d).

    Source:
        Kajitsuka and Sato 2024, Theorem 2.

    Claim:
        ids.gap

    Page:
        notebooks/one_layer_memorization/contextual_mapping
    """
    require(torch.is_tensor(v) and v.dim() == 1, "v must be a one-dimensional tensor")
    require(
        math.isfinite(beta) and math.isfinite(w),
        f"beta and w must be finite, got {beta} and {w}",
    )
    column = v[None, :, None]
    return Layer(
        math.copysign(abs(beta) ** 0.5, beta) * column,
        abs(beta) ** 0.5 * column,
        column,
        w * column.mT,
    )


def smallest_gap(
    ids: Float[Tensor, "*shape"], groups: Int[Tensor, "*shape"] | None = None
) -> Gap:
    """How many ids differ, and the smallest gap between two that do, by one sort.

    Args:
        ids: any shape.
        groups: integers of the same shape; only ids of one group are compared, None for
            one group.

    Returns:
        Gap; differences are those of the sorted ids in their own dtype (bfloat16 and
        float16: in float32).

    Raises:
        ValueError: for no id, integers, NaN or infinity, groups of another shape.

    Cost:
        one sort of a copy, which is nearly all of it; several times more with groups.

    Source:
        the definition; numpy sorts floats much faster than torch, which sorts indices
        too.

    Page:
        notebooks/one_layer_memorization/contextual_mapping
    """
    require(
        torch.is_tensor(ids) and ids.is_floating_point() and ids.numel() > 0,
        "ids must be a floating tensor that is not empty",
    )
    flat = ids.detach().flatten()
    flat = flat.float() if flat.dtype in (torch.bfloat16, torch.float16) else flat
    if groups is not None:
        fits = (
            torch.is_tensor(groups)
            and groups.shape == ids.shape
            and not groups.is_floating_point()
        )
        require(
            fits, f"groups must be a tensor of integers of shape {tuple(ids.shape)}"
        )
        return _grouped(flat.cpu().numpy(), groups.flatten().cpu().numpy())
    if flat.is_cuda:
        ends = flat.sort().values
        require(bool(torch.isfinite(ends[[0, -1]]).all()), "ids hold NaN or infinity")
        steps = ends.diff()
        apart = steps[steps > 0]
        return Gap(
            len(flat), 1 + len(apart), float(apart.min()) if len(apart) else math.inf
        )
    ends = np.sort(flat.numpy())
    require(bool(np.isfinite(ends[[0, -1]]).all()), "ids hold NaN or infinity")
    distinct, least = 1, math.inf
    for a in range(0, len(ends) - 1, TILE):  # a block stays in the cache
        steps = np.diff(ends[a : a + TILE + 1])
        some = int(np.count_nonzero(steps))
        distinct += some
        if some:
            least = min(
                least,
                float(steps.min() if some == len(steps) else steps[steps > 0].min()),
            )
    return Gap(len(ends), distinct, least)


def _grouped(ids: np.ndarray, groups: np.ndarray) -> Gap:
    require(bool(np.isfinite(ids).all()), "ids hold NaN or infinity")
    order = np.lexsort((ids, groups))
    ids, groups = ids[order], groups[order]
    steps, other = np.diff(ids), np.diff(groups) != 0
    apart = steps[(steps > 0) & ~other]
    return Gap(
        len(ids),
        1 + int(other.sum()) + len(apart),
        float(apart.min()) if len(apart) else math.inf,
    )


def separate(
    x: Float[Tensor, "*batch n d"],
    v: Float[Tensor, " d"],
    beta: float,
    *,
    w: float | None = None,
    mask: Bool[Tensor, "*batch n"] | None = None,
    normalizer: Normalizer = "softmax",
) -> Gap:
    """The gap of the ids, after a check that there are as many as there are tokens in
    different company.

    Args:
        x, v, beta, mask, normalizer: as in context_ids; sequences may repeat tokens,
            and may repeat one another.
        w: None for pairs (token, context id); a number for the single numbers z + w f.

    Returns:
        Gap; distinct is the number of different (token, multiset of its sequence).

    Raises:
        ValueError: as context_ids, and if ids are lost: how many, and which dtype would
            hold them.

    Cost:
        that of context_ids, one sort of the ids, one of the sequences.

    Source:
        not taken from a paper: a positive gap in floats proves nothing, the right
        number of ids does.

    Page:
        notebooks/one_layer_memorization/contextual_mapping
    """
    ids = context_ids(x, v, beta, mask=mask, normalizer=normalizer)
    keep = torch.ones_like(ids.token, dtype=torch.bool) if mask is None else mask
    labels = _labels(x, ids.token, keep)
    wanted = _company(labels, keep)
    gap = _gap(ids, labels, keep, w)
    if gap.distinct == wanted:
        return gap
    wider = [
        t
        for t in (torch.float32, torch.float64)
        if torch.finfo(t).eps < torch.finfo(x.dtype).eps
    ]
    held = [
        t
        for t in wider
        if _gap(
            context_ids(x.to(t), v.to(t), beta, mask=mask, normalizer=normalizer),
            labels,
            keep,
            w,
        ).distinct
        == wanted
    ]
    cure = (
        f"{held[0]} would hold all"
        if held
        else "no wider dtype holds all: change beta, v or w"
    )
    raise ValueError(
        f"{x.dtype} keeps {gap.distinct} of {wanted} ids at beta = {beta:g} ({normalizer}); {cure}"
    )


def _gap(ids: Ids, labels: Tensor, keep: Tensor, w: float | None) -> Gap:
    return (
        smallest_gap(ids.context[keep], labels[keep])
        if w is None
        else smallest_gap((ids.token + w * ids.context)[keep])
    )


def _labels(x: Tensor, z: Tensor, keep: Tensor) -> Tensor:
    """(*batch, n) integers, equal where tokens are; -1 where the mask hides."""
    rows = x.detach()[keep]
    found = torch.unique(z.detach()[keep], return_inverse=True)[1]
    first = torch.empty_like(found).scatter_(
        0, found, torch.arange(len(found), device=x.device)
    )
    if not torch.equal(rows[first[found]], rows):  # two tokens share z
        found = torch.unique(rows + 0.0, dim=0, return_inverse=True)[1]
    return torch.full_like(keep, -1, dtype=torch.long).masked_scatter(keep, found)


def _company(labels: Tensor, keep: Tensor) -> int:
    """How many different pairs (token, multiset of its sequence) there are."""
    rows = labels.flatten(0, -2) if labels.dim() > 1 else labels[None]
    sets = torch.unique(rows.sort(-1).values, dim=0)
    new = torch.ones_like(sets, dtype=torch.bool)
    new[:, 1:] = sets[:, 1:] != sets[:, :-1]
    return int((new & (sets >= 0)).sum())
