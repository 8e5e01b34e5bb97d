"""The numbers of a head on one sequence, by the kernels of the book; where it looks.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlib import bridges
from attnlib._require import require
from attnlib.audit.records import Head, LayerRecord, Passage
from attnlib.lowrank import effective_rank

SHARE = 0.9  # of the mass of a row, and of the energy of a matrix
CHEAP = 256  # up to so many tokens an eigenvalue problem a head is cheap
# Each label, its rule for the mean row, and the least weight; the first that holds in
# every text is the label of a head.
LABELS = {
    "previous": ("half of the weight or more is on the token before", 0.5),
    "itself": ("half or more on the token that reads", 0.5),
    "next": ("half or more on the token behind", 0.5),
    "sink": ("30% or more on one token", 0.3),
    "delimiter": ("half or more on special tokens and those without a letter", 0.5),
    "diffuse": ("90% of the weight takes more than half of the pairs", 0.5),
    "content": ("none of these", 0.0),
}


@dataclass(frozen=True, eq=False)
class Numbers:
    """What was measured of one head on one sequence.

    Args:
        tau: the coefficient of Dobrushin; of more than 256 tokens perhaps the largest
            that was found.
        tau_most: what it is at most.
        radius: of the logits; None under a mask, or if weights have underflowed.
        floor: of the distance to every matrix of rank n/4; None below four tokens.
        energy: how many singular values hold the share of the energy, or None.
        sharpness: (n,), beta* of each row.
        largest: (n,), the largest weight of each row.
        allowed: (n,), how many tokens each row may read.
        pattern: True (n, n) at the entries that hold the share.
        pairs: share of allowed pairs that it takes to hold the share of each row.
        looks: for each label the weight of a mean row on what it names.
        key: the token with the most weight in the mean row.
        key_value: how long the value of that token is, over that of the median one.
    """

    tau: float
    tau_most: float
    radius: float | None
    floor: float | None
    energy: int | None
    sharpness: Tensor
    largest: Tensor
    allowed: Tensor
    pattern: Tensor
    pairs: float
    looks: dict[str, float]
    key: int
    key_value: float | None


def of_heads(
    passage: Passage, record: LayerRecord, marks: Tensor | None, *, exact: bool
) -> list[Numbers]:
    """The numbers of all heads; one by one, so that what is in work fits a cache.

    Args:
        passage: the sequence.
        record: of the layer.
        marks: (n,), which tokens are delimiters, or None if that is not known.
        exact: solve an eigenvalue problem a head also for many tokens.

    Returns:
        Numbers of each head.

    Raises:
        ValueError: if tokens attend to padding, or a weight is NaN or infinite.
    """
    _check_sums(passage.p, record)
    exact = exact or passage.n <= CHEAP
    return [_of_head(head, marks, exact) for head in passage.heads()]


def _of_head(head: Head, marks: Tensor | None, exact: bool) -> Numbers:
    n = len(head.p)
    scores = _scores(head)
    ranked = bridges._sorted(scores)
    weights = ranked if head.logits is None else torch.softmax(ranked, -1)
    allowed = torch.full((n,), n, device=head.p.device)
    if head.allowed is not None:
        allowed = head.allowed.sum(-1)
    pattern, connections = _pattern(scores, ranked, weights)
    tau, tau_most = _dobrushin(head.p)
    looks, key = _looks(head.p, allowed > 1, marks)
    looks["diffuse"] = connections / int(allowed.sum())
    floor = None
    if n >= 4:
        floor = float(bridges.rank_floor(head.p, rank=n // 4, check=False))
    key_value = None
    if head.values is not None and n > 1:
        lengths = head.values.norm(dim=-1)
        others = torch.cat([lengths[:key], lengths[key + 1 :]])
        typical = float(others.median())
        key_value = float(lengths[key]) / typical if typical else None
    return Numbers(
        tau=tau,
        tau_most=tau_most,
        radius=_radius(head),
        floor=floor,
        energy=_energy(head.p) if exact else None,
        sharpness=bridges._critical_beta(
            ranked.log() if head.logits is None else ranked
        ),
        largest=weights[:, -1],
        allowed=allowed,
        pattern=pattern,
        pairs=looks["diffuse"],
        looks=looks,
        key=key,
        key_value=key_value,
    )


def label(looks: list[dict[str, float]]) -> str:
    """Where a head looks, in a word.

    Args:
        looks: of Numbers, one a sequence.

    Returns:
        one of LABELS.
    """
    for name, (_, least) in LABELS.items():
        if all(one.get(name, 0) >= least for one in looks):
            return name
    raise AssertionError("the last label asks for nothing")


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


def _scores(head: Head) -> Tensor:
    """The logits, -inf at pairs that may not attend, or where there are none the
    weights.
    """
    if head.logits is None or head.allowed is None:
        return head.p if head.logits is None else head.logits
    return head.logits.masked_fill(~head.allowed, -math.inf)


def _dobrushin(p: Tensor) -> tuple[float, float]:
    """What tau is at least and at most: the same where that is cheap to know."""
    low, high = bridges.dobrushin_between(p, check=False)
    if low < high and len(p) <= CHEAP:
        low = high = float(bridges.dobrushin(p, check=False))
    return low, high


def _radius(head: Head) -> float | None:
    """The logit radius, which no theorem asks for under a mask; None if weights have
    underflowed.
    """
    if head.allowed is not None:
        return None
    logits = head.p.log() if head.logits is None else head.logits
    found = float(bridges.radius(logits, check=False))
    return found if math.isfinite(found) else None


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


def _energy(p: Tensor) -> int:
    """How many singular values hold the share of the energy, by the eigenvalues of P
    P', whose sum is the energy: a fifth of the time of a decomposition.
    """
    wide = p.double()
    eigenvalues = torch.linalg.eigvalsh(wide @ wide.mT).flip(-1).clamp_min(0)
    return int(effective_rank(eigenvalues.sqrt(), SHARE))


def _pattern(scores: Tensor, ranked: Tensor, weights: Tensor) -> tuple[Tensor, int]:
    """The fewest entries of each row that hold the share of its mass: True at them and
    at what is as large as the least of them, and how many are needed. Ranked and
    weights are the scores and the weights with each row in rising order.
    """
    n = len(scores)
    sums = weights.cumsum(-1, dtype=torch.float64)
    rounding = 4 * n * torch.finfo(sums.dtype).eps
    spare = sums[:, -1:] * (1 - SHARE * (1 - rounding))
    left_out = torch.searchsorted(sums, spare, right=True)
    least = ranked.gather(-1, left_out)
    return scores >= least, n * n - int(left_out.sum())


def _looks(
    p: Tensor, choice: Tensor, marks: Tensor | None
) -> tuple[dict[str, float], int]:
    """The weight of the mean row on what each label names, and its leading token; rows
    without a choice are left out.
    """
    n = len(p)
    if not bool(choice.any()):
        choice = torch.ones_like(choice)
    mean = p.mean(0) if bool(choice.all()) else p[choice].mean(0)
    key = int(mean.argmax())
    looks = {"sink": float(mean[key])}
    for name, offset in (("previous", -1), ("itself", 0), ("next", 1)):
        beside = p.new_zeros(n)
        beside[max(0, -offset) : n - max(0, offset)] = p.diagonal(offset)
        looks[name] = float(beside[choice].mean())
    if marks is not None:
        looks["delimiter"] = float(mean[marks].sum())
    return looks, key
