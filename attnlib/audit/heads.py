"""The numbers of the heads of one sequence: the kernels of the book, in the order of
their cost.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib import bridges
from attnlib._require import require
from attnlib.audit.passages import Passage
from attnlib.audit.records import LayerRecord
from attnlib.lowrank import effective_rank
from attnlib.patterns.bits import bit_product, pack

SHARES = (0.9, 0.99)  # of the mass of a row, and of the energy of a matrix
CHEAP = 256  # up to so many tokens an eigenvalue problem a head is cheap
DEEP = 12  # layers, where nobody knows how many there are


def of_heads(
    passage: Passage, record: LayerRecord, *, exact: bool, hears: bool
) -> dict[str, Any]:
    """The numbers of the heads of one sequence, each (h,) or (h, n).

    Args:
        passage: the sequence.
        record: of the layer.
        exact: solve an eigenvalue problem a head also for many tokens.
        hears: count hops.

    Returns:
        tensors by name; None where a number cannot be had.

    Raises:
        ValueError: if tokens attend to padding, or a weight is NaN or infinite.
    """
    ranked = _descending(passage.p)
    sums = ranked.cumsum(-1, dtype=torch.float64)
    _check_sums(sums[..., -1], record)
    found = {
        "tau": _dobrushin(passage.p),
        "radius": _radius(passage),
        "floors": bridges.rank_floor(passage.p, check=False),
        "energy": _energy(passage.p) if exact or passage.n <= CHEAP else None,
        "sharpness": _sharpness(passage, ranked),
        "rows": ranked[..., 0],
        "allowed": _allowed_counts(passage),
    }
    for share in SHARES:
        pattern, counts = _smallest_pattern(passage.p, ranked, sums, share)
        found[f"pattern {share}"] = pattern
        found[f"connections {share}"] = counts.sum((-2, -1))
        if hears:
            most = record.layers or DEEP
            found[f"hops {share}"] = [_hops(one.cpu(), most) for one in pattern]
    return found


def _check_sums(sums: Tensor, record: LayerRecord) -> None:
    """Rows are numbers, and still sum to one when padding is taken out."""
    off = float((sums - 1).abs().max())
    require(
        math.isfinite(off), f"the weights of layer {record.layer} hold NaN or infinity"
    )
    eps = torch.finfo(record.dtype or record.weights.dtype).eps
    require(
        off <= min(0.05, 8 * record.weights.shape[-1] * eps),
        f"layer {record.layer}: the weights of a token sum to one only up to "
        f"{off:.2g} over the tokens of token_mask: give the model the mask of its "
        "padding too (attention_mask, src_key_padding_mask)",
    )


def _descending(t: Tensor) -> Tensor:
    """Rows in decreasing order. On the CPU numpy's sort is thirty times as fast as
    torch's, which also sorts the places.
    """
    if t.device.type == "cpu":
        return torch.from_numpy(-np.sort(-t.numpy(), -1))
    return t.sort(-1, descending=True).values


def _dobrushin(p: Tensor) -> Tensor:
    """bridges.dobrushin of each head, at a tenth of its time: pdist looks at each pair
    once, and at no row twice.
    """
    if p.shape[-1] == 1:
        return p.new_zeros(len(p))
    return torch.stack([F.pdist(head, 1).amax() / 2 for head in p])


def _radius(passage: Passage) -> Tensor | None:
    """The logit radius over allowed pairs; None if weights have underflowed."""
    logits = passage.logits
    if logits is None:
        logits = passage.p.log()  # up to a shift of each row, which changes no radius
    if passage.allowed is not None:
        hidden = logits.masked_fill(~passage.allowed, -math.inf)
        logits = torch.where(passage.allowed, logits, hidden.amax(-1, keepdim=True))
    found = bridges.radius(logits, check=False)
    return found if bool(found.isfinite().all()) else None


def _sharpness(passage: Passage, ranked: Tensor) -> Tensor:
    """bridges.critical_beta of each row, (h, n), without its sort, which would take as
    long as all the rest.
    """
    if passage.logits is None:
        logits = ranked.log()
    else:
        logits = passage.logits
        if passage.allowed is not None:
            logits = logits.masked_fill(~passage.allowed, -math.inf)
        logits = _descending(logits)
    gaps = logits[..., :1] - logits[..., 1:]
    j = torch.arange(2, passage.n + 1, device=gaps.device, dtype=gaps.dtype)
    if passage.n == 1:
        return gaps.new_zeros(*gaps.shape[:-1])
    return (j.log() / gaps).amax(-1)


def guaranteed(beta: float, n: int) -> float:
    """The least that the largest of n weights can be in a row of this sharpness.

    Args:
        beta: beta* of the row, at least 0.
        n: entries of the row.

    Returns:
        a share, 1 / sum_j j^(-1 / beta*).
    """
    j = torch.arange(1, n + 1, dtype=torch.float64)
    if beta == 0:
        return 1.0
    return float(1 / j.pow(-1 / beta).sum())


def _allowed_counts(passage: Passage) -> Tensor:
    """How many tokens each row may read, (h, n)."""
    if passage.allowed is None:
        size = passage.p.shape[:-1]
        return torch.full(size, passage.n, device=passage.p.device)
    return passage.allowed.sum(-1)


def _energy(p: Tensor) -> dict[float, Tensor]:
    """How many singular values hold a share of the energy, by the eigenvalues of P P',
    whose sum is the energy: a fifth of the time of a decomposition.
    """
    wide = p.double()
    eigenvalues = torch.linalg.eigvalsh(wide @ wide.mT).flip(-1).clamp_min(0)
    sigma = eigenvalues.sqrt()
    return {share: effective_rank(sigma, share) for share in SHARES}


def _smallest_pattern(
    p: Tensor, ranked: Tensor, sums: Tensor, share: float
) -> tuple[Tensor, Tensor]:
    """The fewest entries of each row that hold this share of its mass: True at them and
    at what is as large as the least of them, and how many are needed; sums are those
    of the ranked entries, largest first.
    """
    rounding = 4 * p.shape[-1] * torch.finfo(sums.dtype).eps
    enough = share * sums[..., -1:] * (1 - rounding)
    kept = torch.searchsorted(sums, enough) + 1
    least = ranked.gather(-1, kept - 1)
    return p >= least, kept


def _hops(pattern: Tensor, most: int) -> int | None:
    """Layers of this pattern, with skips, after which every token has heard of every
    other: at most `most`, else None; 0 if no number of layers is enough.
    """
    n = len(pattern)
    loops = torch.eye(n, dtype=torch.bool)
    near = pattern | loops
    reads = int(near.sum(1).min())
    read_by = int(near.sum(0).min())
    if n > 1 and 1 in (reads, read_by):
        return 0  # a token that no other reads, or that reads no other
    if reads == n:
        return 1
    if reads + read_by > n and most > 1:
        return 2  # what one token reads meets what reads another
    everything = pack(torch.ones(1, n, dtype=torch.bool))

    def full(heard: Tensor) -> bool:
        return bool((heard == everything).all())

    powers = [pack(near)]  # 1, 2, 4, ... layers
    while not full(powers[-1]) and 2 ** (len(powers) - 1) < most:
        powers.append(bit_product(powers[-1], powers[-1]))
        if torch.equal(powers[-1], powers[-2]):
            return 0
    if not full(powers[-1]):
        return None
    heard = pack(loops)
    short = 0  # the largest number of layers that is not enough
    for i in reversed(range(len(powers) - 1)):
        longer = bit_product(powers[i], heard)
        if not full(longer):
            heard = longer
            short += 2**i
    return short + 1 if short < most else None
