"""The numbers of a head on one sequence, by the kernels of the book.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib import bridges
from attnlib._require import require
from attnlib.audit.records import Head, LayerRecord, Passage
from attnlib.lowrank import effective_rank
from attnlib.patterns._bits import bit_product, pack, unpack

SHARES = (0.9, 0.99)  # of the mass of a row, and of the energy of a matrix
CHEAP = 256  # up to so many tokens an eigenvalue problem a head is cheap
DEEP = 12  # layers, where nobody knows how many there are


@dataclass(frozen=True, eq=False)
class Numbers:
    """What was measured of one head on one sequence.

    Args:
        tau: the coefficient of Dobrushin.
        radius: of the logits of allowed pairs; None if weights have underflowed.
        floors: (n,), of the distance to every matrix of rank 0, 1, ...
        energy: how many singular values hold each share of the energy, or None.
        sharpness: (n,), beta* of each row.
        largest: (n,), the largest weight of each row.
        allowed: (n,), how many tokens each row may read.
        patterns: for each share, True (n, n) at the entries that hold it.
        connections: for each share, how many entries are needed.
        hops: for each share, layers of its pattern until all have heard of all; 0 if no
            number is enough, None if the network has fewer.
    """

    tau: float
    radius: float | None
    floors: Tensor
    energy: dict[float, int] | None
    sharpness: Tensor
    largest: Tensor
    allowed: Tensor
    patterns: dict[float, Tensor]
    connections: dict[float, int]
    hops: dict[float, int | None]


def of_heads(
    passage: Passage, record: LayerRecord, *, exact: bool, hears: bool
) -> list[Numbers]:
    """The numbers of all heads; one by one, so that what is in work fits a cache.

    Args:
        passage: the sequence.
        record: of the layer.
        exact: solve an eigenvalue problem a head also for many tokens.
        hears: count hops.

    Returns:
        Numbers of each head.

    Raises:
        ValueError: if tokens attend to padding, or a weight is NaN or infinite.
    """
    _check_sums(passage.p, record)
    exact = exact or passage.n <= CHEAP
    most = (record.layers or DEEP) if hears else 0
    return [_of_head(head, exact, most) for head in passage.heads()]


def _of_head(head: Head, exact: bool, most: int) -> Numbers:
    """The numbers of one head; hops up to `most` layers, if any."""
    n = len(head.p)
    scores, ranked = _ranked(head)
    if head.logits is None:
        weights = ranked
        logits = ranked.log()  # up to a shift of each row, which changes no gap
    else:
        weights = torch.softmax(ranked, -1)
        logits = ranked
    sums = weights.cumsum(-1, dtype=torch.float64)
    masks = {}
    connections = {}
    hops = {}
    for share in SHARES:
        masks[share], connections[share] = _pattern(scores, ranked, sums, share)
        if most:
            hops[share] = _hops(masks[share].cpu(), most)
    allowed = torch.full((n,), n, device=head.p.device)
    if head.allowed is not None:
        allowed = head.allowed.sum(-1)
    return Numbers(
        tau=_dobrushin(head.p),
        radius=_radius(head),
        floors=bridges.rank_floor(head.p, check=False),
        energy=_energy(head.p) if exact else None,
        sharpness=_sharpness(logits),
        largest=weights[:, -1],
        allowed=allowed,
        patterns=masks,
        connections=connections,
        hops=hops,
    )


def _check_sums(p: Tensor, record: LayerRecord) -> None:
    """Rows are numbers, and still sum to one when padding is taken out."""
    off = float((p.sum(-1) - 1).abs().max())
    require(
        math.isfinite(off), f"the weights of layer {record.layer} hold NaN or infinity"
    )
    eps = torch.finfo(record.dtype or p.dtype).eps
    require(
        off <= min(0.05, 8 * record.weights.shape[-1] * eps),
        f"layer {record.layer}: the weights of a token sum to one only up to "
        f"{off:.2g} over the tokens of token_mask: give the model the mask of its "
        "padding too (attention_mask, src_key_padding_mask)",
    )


def _ranked(head: Head) -> tuple[Tensor, Tensor]:
    """The logits, or where there are none the weights, as they stand and with each row
    in rising order.
    """
    scores = head.p if head.logits is None else head.logits
    if head.logits is not None and head.allowed is not None:
        scores = scores.masked_fill(~head.allowed, -math.inf)
    if scores.device.type == "cpu":
        # numpy's sort is thirty times as fast as torch's, which also sorts the places
        return scores, torch.from_numpy(np.sort(scores.numpy(), -1))
    return scores, scores.sort(-1).values


def _dobrushin(p: Tensor) -> float:
    """bridges.dobrushin at a fraction of its time: pdist looks at each pair once, and
    at no row twice.
    """
    return float(F.pdist(p, 1).amax() / 2) if len(p) > 1 else 0.0


def _radius(head: Head) -> float | None:
    """The logit radius over allowed pairs; None if weights have underflowed."""
    logits = head.p.log() if head.logits is None else head.logits
    if head.allowed is not None:
        hidden = logits.masked_fill(~head.allowed, -math.inf)
        logits = torch.where(head.allowed, logits, hidden.amax(-1, keepdim=True))
    found = float(bridges.radius(logits, check=False))
    return found if math.isfinite(found) else None


def _sharpness(rising: Tensor) -> Tensor:
    """bridges.critical_beta of each row of logits in rising order, without its sort."""
    n = len(rising)
    if n == 1:
        return rising.new_zeros(1)
    gaps = rising[:, -1:] - rising[:, :-1]
    j = torch.arange(n, 1, -1, device=gaps.device, dtype=gaps.dtype)
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


def _energy(p: Tensor) -> dict[float, int]:
    """How many singular values hold a share of the energy, by the eigenvalues of P P',
    whose sum is the energy: a fifth of the time of a decomposition.
    """
    wide = p.double()
    eigenvalues = torch.linalg.eigvalsh(wide @ wide.mT).flip(-1).clamp_min(0)
    sigma = eigenvalues.sqrt()
    return {share: int(effective_rank(sigma, share)) for share in SHARES}


def _pattern(
    scores: Tensor, ranked: Tensor, sums: Tensor, share: float
) -> tuple[Tensor, int]:
    """The fewest entries of each row that hold this share of its mass: True at them and
    at what is as large as the least of them, and how many are needed; ranked has each
    row of scores in rising order, and sums are those of the weights in this order.
    """
    n = len(scores)
    rounding = 4 * n * torch.finfo(sums.dtype).eps
    spare = sums[:, -1:] * (1 - share * (1 - rounding))
    left_out = torch.searchsorted(sums, spare, right=True)
    least = ranked.gather(-1, left_out)
    return scores >= least, n * n - int(left_out.sum())


def _hops(pattern: Tensor, most: int) -> int | None:
    """Layers of this pattern, with skips, after which every token has heard of every
    other: at most `most`, else None; 0 if no number of layers is enough.
    """
    n = len(pattern)
    near = pattern | torch.eye(n, dtype=torch.bool)
    links = near.byte()  # whose sums are the faster ones
    reads = int(links.sum(1).min())
    read_by = int(links.sum(0).min())
    if n > 1 and 1 in (reads, read_by):
        return 0  # a token that no other reads, or that reads no other
    if reads == n:
        return 1
    if reads + read_by > n:  # what one token reads meets what reads another
        return 2 if most > 1 else None
    step = pack(near)
    heard = step
    for layers in range(2, most + 1):
        longer = bit_product(step, heard)
        if (longer == heard).all():
            return 0
        heard = longer
        if bool(unpack(heard, n).all()):
            return layers
    return None
