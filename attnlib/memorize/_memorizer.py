"""Memorize a data set: one softmax head of rank one, and a ReLU network that reads its
ids; public under attnlib.memorize.

Page:
    notebooks/one_layer_memorization/memorization
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from attnlib._require import require
from attnlib.attention import Layer
from attnlib.memorize._ids import context_ids, finer, least, rank_one_layer
from attnlib.memorize._items import Items, checked, find_items, is_mask
from attnlib.memorize._network import Parameters, count_parameters
from attnlib.memorize._projection import choose_projection

FACTORS = (0.3, 0.1, 1.0)  # values of beta that are tried, in units of 1 / var(z)
DRAWS = 3  # directions that are tried
PART = 1 << 18  # tokens of the data that are read at once for the last check
# Tokens up to which all pairs are compared; beyond, neighbours along the direction.
LARGE = 4096


class Report(NamedTuple):
    """What was built, and how far it is from the limits of its dtype.

    Args:
        pairs: (sequence, token) pairs given.
        ids: different (token, multiset) pairs, the units of the network.
        vocabulary: distinct tokens.
        draws: directions drawn.
        beta: factor of the logits.
        w: weight of the context id, so small that tokens do not mix.
        gap: smallest distance of two neighbouring context ids of one token with unlike
            labels; inf if none.
        bits: that a context id needs for it.
        dtype_bits: that the dtype has.
        error: largest error of the network on the data, 0.
        parameters: of the block, shared form.
    """

    pairs: int
    ids: int
    vocabulary: int
    draws: int
    beta: float
    w: float
    gap: float
    bits: int
    dtype_bits: int
    error: float
    parameters: Parameters

    def __str__(self) -> str:
        """Five lines for people."""
        lines = [
            f"{self.pairs} pairs, {self.ids} ids, {self.vocabulary} tokens",
            f"{self.draws} directions drawn, beta {self.beta:.3g}",
            f"smallest gap {self.gap:.2g}: {self.bits} of {self.dtype_bits} bits",
            f"largest error {self.error:.2g}",
            f"{self.parameters.total} parameters",
        ]
        return "\n".join(lines)


class Memorizer(NamedTuple):
    """A function of sequences that gives every memorized token its label.

    Args:
        v: (d,), the direction.
        tokens: (K,), the vocabulary along v, sorted.
        token, context: (D,), the ids, sorted.
        labels: (D, c).
        lead: how far the first knot lies left of the first id.
        slack: how far rounding may move a projected token.
        kind: dtype of the labels.
        flat: whether they were (N, n).
        report: Report.
        layer: the attention layer, with its weights written out.
    """

    v: Tensor
    tokens: Tensor
    token: Tensor
    context: Tensor
    labels: Tensor
    lead: float
    slack: float
    kind: torch.dtype
    flat: bool
    report: Report

    @property
    def layer(self) -> Layer:
        """The attention layer; attention.forward(x, [layer], skip=True) gives the ids
        x_k + w f_k v.
        """
        return rank_one_layer(self.v, self.report.beta, self.report.w)

    def __call__(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Labels of the tokens x (*batch, n, d), by sorted search; integer labels are
        rounded, hidden tokens get 0.

        Padding needs its mask (*batch, n), True where a token is: without one every row
        counts as a token, and the labels of its whole sequence change. Raises
        ValueError for NaN or infinity where a token is, and for zero tokens.
        """
        v = self.v
        fits = (
            torch.is_tensor(x)
            and x.dtype == v.dtype
            and x.device == v.device
            and x.shape[-1:] == v.shape
            and x.dim() >= 2
        )
        require(
            fits, f"x must be a {v.dtype} tensor (*batch, n, {len(v)}) on {v.device}"
        )
        size = tuple(x.shape[:-1])
        require(
            mask is None or is_mask(mask, size, x.device),
            f"mask must be boolean of shape {size} on {x.device}, "
            "True where a token is",
        )
        if x.numel():
            y = self._read(x, mask)
        else:
            y = self.labels.new_zeros(*size, self.labels.shape[1])
        if not self.kind.is_floating_point:
            y = y.round().to(self.kind)
        return y.squeeze(-1) if self.flat else y

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """The labels as numbers of the network, 0 where the mask hides."""
        z = (x * self.v).sum(-1)
        if mask is not None:
            z = z.masked_fill(~mask, 0)
        require(
            torch.isfinite(z).all(),
            "x holds NaN or infinity where a token is, or its projection overflows",
        )
        zero = z == 0
        if mask is not None:
            zero = zero & mask
        require(
            not zero.any() or x[zero].any(-1).all(),
            "x holds zero tokens, which no data set may hold: hide padding by a mask",
        )
        z = snap(z, self.tokens, self.slack)
        f = contexts(z, self.report.beta, mask)
        y = evaluate(z, f, self)
        return y if mask is None else y.masked_fill(~mask.unsqueeze(-1), 0)


def memorize(
    sequences: Float[Tensor, "N n d"],
    labels: Shaped[Tensor, "N n *c"],
    *,
    mask: Bool[Tensor, "N n"] | None = None,
    generator: torch.Generator,
    beta: float | None = None,
) -> Memorizer:
    """One attention layer of rank one and a ReLU network that give every token of every
    sequence its label.

        z_k = v.x_k,         f_k = sum_j softmax_j(beta z_k z_j) z_j
        t_k = z_k + w f_k,   y_k = sum_i a_i relu(t_k - b_i)

    Args:
        sequences: (N, n, d), no zero token; tokens may repeat, and so may sequences.
        labels: (N, n) or (N, n, c), integers or floats that the dtype of sequences
            holds; floats come back in it.
        mask: (N, n), True where a token is.
        generator: of the direction.
        beta: None tries 0.3, 0.1 and 1 over the variance of z.

    Returns:
        Memorizer, whose report says what it took. Order of the tokens and size of the
        batch change nothing.

    Raises:
        ValueError: for wrong shapes or dtypes, no sequence, NaN, a zero token,
            contradicting labels (both places are named), labels that the dtype would
            round, memory that would not suffice, tokens or ids that the dtype cannot
            hold apart where labels differ (with what would), and a network that misses
            a label when it is run on the data.

    Cost:
        O(N n (n + d + log N n)), and O(K^2 d) more for a vocabulary of K <= 4096
        tokens.

    Source:
        Kajitsuka and Sato 2024, Corollary 1 (recalled); differs: the temperature is
        chosen from the data and the ids are verified; token and context id are compared
        one after the other, so that their sum is never rounded.

    Claim:
        memorize.block
    """
    mask, flat = checked(sequences, labels, mask, generator)
    require(
        beta is None or (math.isfinite(beta) and beta != 0),
        f"beta must be finite and not 0, got {beta}",
    )
    items = find_items(sequences, flat, mask)
    held = items.labels.to(sequences.dtype).to(labels.dtype) == items.labels
    require(
        held.all(),
        f"labels reach beyond the numbers that {sequences.dtype} holds: "
        "give smaller or narrower labels, or float64 sequences",
    )
    set_mask = mask[items.sets]
    slack = slack_of(items.vocabulary)
    for attempt in range(1, DRAWS + 1):
        v, draws = direction(items.vocabulary, generator)
        z = (items.vocabulary * v).sum(-1)
        for b in scales(z) if beta is None else [beta]:
            found = place(items, z, b, set_mask, mask)
            if separated(found, slack):
                net = build(found, v, b, slack, draws * attempt, items, labels)
                error = tried(net, sequences, flat, mask)
                report = net.report._replace(error=error)
                return net._replace(report=report)
    raise ValueError(cannot(items, v, b, set_mask, mask))


def scales(z: Tensor) -> list[float]:
    """Values of beta to try, in units of 1 / var(z)."""
    spread = float(z.double().var(correction=0))
    if spread == 0:  # a single token, or equal projections
        spread = float(z[0]) ** 2
    return [factor / spread for factor in FACTORS]


def direction(vocabulary: Tensor, generator: torch.Generator) -> tuple[Tensor, int]:
    """A direction that tells the tokens apart: by all pairs while they are few, else
    the best of four by neighbours.
    """
    if len(vocabulary) <= LARGE:
        return choose_projection(vocabulary, generator=generator, best_of=8)[:2]
    device = generator.device
    size = (4, vocabulary.shape[1])
    drawn = torch.randn(size, generator=generator, dtype=torch.float64, device=device)
    drawn = drawn.to(vocabulary)
    drawn = drawn / drawn.norm(dim=1, keepdim=True)

    def nearest(v: Tensor) -> float:
        """The smallest gap of two tokens along v."""
        z = (vocabulary * v).sum(-1)
        return float(z.sort().values.diff().min())

    return max(drawn, key=nearest), len(drawn)


def contexts(z: Tensor, beta: float, mask: Tensor | None) -> Tensor:
    """Context ids from projected tokens."""
    one = torch.ones_like(z.flatten()[:1])
    ids = context_ids(z.unsqueeze(-1), one, beta, mask=mask, check=False)
    return ids.context


def slack_of(vocabulary: Tensor) -> float:
    """How far rounding may move v.x, for a unit vector v."""
    d = vocabulary.shape[1]
    eps = torch.finfo(vocabulary.dtype).eps
    longest = float(vocabulary.norm(dim=1).max())
    return 4 * d * eps * longest


def snap(z: Tensor, tokens: Tensor, slack: float) -> Tensor:
    """The nearest token of the vocabulary where it is within the slack, else z
    itself.
    """
    right = torch.searchsorted(tokens, z.contiguous()).clamp(max=len(tokens) - 1)
    left = (right - 1).clamp(min=0)
    below = tokens[left]
    above = tokens[right]
    is_below = (z - below).abs() < (above - z).abs()
    nearest = torch.where(is_below, below, above)
    return torch.where((nearest - z).abs() <= slack, nearest, z)


class Placed(NamedTuple):
    """Ids in order, by token, then by context.

    Args:
        token, context: (D,).
        order: (D,), the item that each id belongs to.
        tokens: (K,), the vocabulary along v, sorted.
        rivals: (D - 1,), where neighbours share their token and their labels differ;
            where labels agree, ids may coincide.
    """

    token: Tensor
    context: Tensor
    order: Tensor
    tokens: Tensor
    rivals: Tensor


def place(
    items: Items, z: Tensor, beta: float, set_mask: Tensor, mask: Tensor
) -> Placed:
    """The ids of all items, sorted by token, then by context."""
    largest = float(z.abs().max())
    most = abs(beta) * largest**2
    require(most <= torch.finfo(z.dtype).max, f"logits overflow {z.dtype}: lower beta")
    tokens = items.tokens[items.sets].clamp(min=0)
    f = contexts(z[tokens], beta, where_needed(set_mask))
    # The first token of an item lies in the first sequence of its multiset; f has a
    # row for each of these.
    row = torch.full((len(mask),), -1, device=z.device)
    row[items.sets] = torch.arange(len(items.sets), device=z.device)
    sequence, k = mask.nonzero()[items.first].unbind(1)
    token = z[items.tokens[sequence, k]]
    context = f[row[sequence], k]
    order = context.argsort(stable=True)
    order = order[token[order].argsort(stable=True)]
    token = token[order]
    labels = items.labels[order]
    same_token = token[1:] == token[:-1]
    other_label = (labels[1:] != labels[:-1]).any(1)
    rivals = same_token & other_label
    return Placed(token, context[order], order, z.sort().values, rivals)


def where_needed(mask: Tensor) -> Tensor | None:
    """The mask, or None if it hides nothing, which is faster."""
    return None if bool(mask.all()) else mask


def separated(p: Placed, slack: float) -> bool:
    """Tokens more than two slacks apart, rivals apart by more than rounding can move
    them.
    """
    tokens_apart = least(p.tokens.diff()) > 2 * slack
    return tokens_apart and smallest(p) > noise(p)


def smallest(p: Placed) -> float:
    """The smallest gap between rivals; infinity if there are none."""
    return least(p.context.diff()[p.rivals])


def noise(p: Placed) -> float:
    """How far rounding may move a context id."""
    eps = torch.finfo(p.context.dtype).eps
    return 16 * eps * float(p.tokens.abs().max())


def build(
    p: Placed,
    v: Tensor,
    beta: float,
    slack: float,
    draws: int,
    items: Items,
    labels: Tensor,
) -> Memorizer:
    """The network for these ids; the error in its report is not measured yet."""
    span = float(p.tokens[-1] - p.tokens[0])
    w = least(p.tokens.diff()) / (2 * span) if span else 1.0
    gap = smallest(p)
    bits = 1
    if math.isfinite(gap):
        largest = float(p.context.abs().max())
        bits = 1 + math.ceil(math.log2(largest / gap))
    eps = torch.finfo(v.dtype).eps
    width = len(p.token)
    c = items.labels.shape[1]
    d = max(len(v), c)
    report = Report(
        pairs=len(items.pair),
        ids=width,
        vocabulary=len(p.tokens),
        draws=draws,
        beta=beta,
        w=w,
        gap=gap,
        bits=max(bits, 1),
        dtype_bits=round(-math.log2(eps)),
        error=0.0,
        parameters=count_parameters(width, d, labels=c, shared=True),
    )
    steps = p.token.diff() + w * p.context.diff()
    return Memorizer(
        v=v,
        tokens=p.tokens,
        token=p.token,
        context=p.context,
        labels=items.labels[p.order].to(v.dtype),
        lead=float(steps.median()) if len(steps) else 1.0,
        slack=slack,
        kind=labels.dtype,
        flat=labels.dim() == 2,
        report=report,
    )


def tried(net: Memorizer, sequences: Tensor, labels: Tensor, mask: Tensor) -> float:
    """The largest error on the data, read as a user would read them; refuses a network
    that misses a label.
    """
    dtype = net.v.dtype
    raw = net._replace(kind=dtype, flat=False)
    rows = max(1, PART // mask.shape[1])
    parts = zip(sequences.split(rows), labels.split(rows), mask.split(rows))
    errors = []
    for x, y, seen in parts:
        difference = raw(x, where_needed(seen)) - y.to(dtype)
        errors.append(difference[seen].abs().max())
    error = float(torch.stack(errors).max())
    require(
        error == 0,
        f"the network misses a label by {error:.3g}, by rounding in {dtype}: "
        "give float64 sequences, or smaller labels",
    )
    return error


def evaluate(z: Tensor, f: Tensor, net: Memorizer) -> Tensor:
    """The network on the line t = z + w f by sorted search, from differences only: a
    straight line from the nearer id.
    """
    count = len(net.token)
    w = net.report.w

    def ahead(i: Tensor) -> Tensor:
        """t minus the id i, exact in sign where z is a token."""
        return (z - net.token[i]) + w * (f - net.context[i])

    # How many ids are at most t, by bisection.
    low = torch.zeros_like(z, dtype=torch.long)
    high = torch.full_like(z, count, dtype=torch.long)
    for _ in range(count.bit_length()):
        middle = ((low + high) // 2).clamp(max=count - 1)
        searching = low < high
        right_of = ahead(middle) >= 0
        low = torch.where(searching & right_of, middle + 1, low)
        high = torch.where(searching & ~right_of, middle, high)
    # The straight line through the two ids around t, from the nearer one.
    right = low.clamp(min(1, count - 1), count - 1)
    left = (right - 1).clamp(min=0)
    token_step = net.token[right] - net.token[left]
    context_step = net.context[right] - net.context[left]
    width = token_step + w * context_step
    near = torch.where(ahead(left) <= -ahead(right), left, right)
    # A slope may overflow, a share of the width does not.
    share = ahead(near) / torch.where(width > 0, width, 1)
    share = share.unsqueeze(-1)
    rise = share * net.labels[right] - share * net.labels[left]
    y = net.labels[near] + rise
    # Left of the first id the network rises from 0, over a length of lead.
    first = torch.zeros_like(low)
    risen = (1 + ahead(first) / net.lead).clamp(0, 1)
    start = risen.unsqueeze(-1) * net.labels[0]
    return torch.where((low == 0).unsqueeze(-1), start, y)


def cannot(items: Items, v: Tensor, beta: float, set_mask: Tensor, mask: Tensor) -> str:
    """What could not be separated, and what would."""
    count = len(items.first)
    dtype = items.vocabulary.dtype

    def lost(other: torch.dtype) -> str:
        """What this dtype cannot hold apart; empty if it holds all."""
        words = items.vocabulary.to(other)
        z = (words * v.to(other)).sum(-1)
        p = place(items, z, beta, set_mask, mask)
        close = p.rivals & (p.context.diff() <= noise(p))
        if close.any():
            apart = count - int(close.sum())
            return f"{apart} of {count} are further apart than rounding"
        if separated(p, slack_of(words)):
            return ""
        return "two tokens are no further apart along the direction than rounding"

    held = [wide for wide in finer(dtype) if not lost(wide)]
    sizes = set_mask.sum(1)
    if held:
        cure = f"{held[0]} would"
    elif int(sizes.min()) < int(sizes.max()):
        cure = (
            "sequences whose multisets are proportional, as {a, b} and {a, a, b, b}, "
            "have equal ids: add a token or positions"
        )
    else:
        cure = (
            f"beta was {beta:.3g}; leave it out, bring the tokens further apart, "
            "or memorize fewer sequences"
        )
    return f"{dtype} cannot hold the ids apart: {lost(dtype)}; {cure}"
