"""Memorize a data set: one softmax head of rank one, and a ReLU network that reads its
ids; public under attnlib.memorize.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from attnlib._require import require
from attnlib.attention import Layer
from attnlib.memorize._ids import context_ids, rank_one_layer
from attnlib.memorize._items import Items, checked, find_items
from attnlib.memorize._network import Parameters, count_parameters
from attnlib.memorize._projection import choose_projection

FACTORS, DRAWS = (
    (0.3, 0.1, 1.0),
    3,
)  # temperatures in units of 1 / var(z), and directions, that are tried
PART = 1 << 18  # tokens of the data that are read at once for the last check
# tokens up to which all pairs are compared; beyond, neighbours along the direction
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

    Page:
        notebooks/one_layer_memorization/memorization
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
        return (
            f"{self.pairs} pairs, {self.ids} ids, {self.vocabulary} tokens\n{self.draws} directions drawn, beta {self.beta:.3g}\n"
            f"smallest gap {self.gap:.2g}: {self.bits} of {self.dtype_bits} bits\nlargest error {self.error:.2g}\n"
            f"{self.parameters.total} parameters"
        )


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
        flat: were they (N, n)? report: Report.

    Page:
        notebooks/one_layer_memorization/memorization
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
        fits = (
            torch.is_tensor(x)
            and x.dtype == self.v.dtype
            and x.device == self.v.device
            and x.shape[-1:] == self.v.shape
            and x.dim() >= 2
        )
        require(
            fits,
            f"x must be a {self.v.dtype} tensor (*batch, n, {len(self.v)}) on {self.v.device}",
        )
        fits = mask is None or (
            torch.is_tensor(mask)
            and mask.dtype == torch.bool
            and mask.shape == x.shape[:-1]
            and mask.device == x.device
        )
        require(
            fits,
            f"mask must be boolean of shape {tuple(x.shape[:-1])} on {x.device}, True where a token is",
        )
        y = (
            self._read(x, mask)
            if x.numel()
            else self.labels.new_zeros(*x.shape[:-1], self.labels.shape[1])
        )
        y = y if self.kind.is_floating_point else y.round().to(self.kind)
        return y.squeeze(-1) if self.flat else y

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        z = (x * self.v).sum(-1)
        z = z if mask is None else z.masked_fill(~mask, 0)
        require(
            torch.isfinite(z).all(),
            "x holds NaN or infinity where a token is, or its projection overflows",
        )
        zero = (z == 0) if mask is None else (z == 0) & mask
        require(
            not zero.any() or x[zero].any(-1).all(),
            "x holds zero tokens, which no data set may hold: hide padding by a mask",
        )
        z = snap(z, self.tokens, self.slack)
        y = evaluate(z, contexts(z, self.report.beta, mask), self)
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

        z = v.x,   f_k = sum_j softmax_j(beta z_k z_j) z_j,   t_k = z_k + w f_k,   y_k = sum_i a_i relu(t_k - b_i)

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
        O(N n (n + d + log N n)) for up to 4096 tokens in the vocabulary, K: O(K^2 d)
        more.

    Source:
        Kajitsuka and Sato 2024, Corollary 1 (recalled); differs: the temperature is
        chosen from the data and the ids are verified; token and context id are compared
        one after the other, so that their sum is never rounded.

    Claim:
        memorize.block

    Page:
        notebooks/one_layer_memorization/memorization
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
        f"labels reach beyond the numbers that {sequences.dtype} holds: give smaller or narrower labels, or float64 sequences",
    )
    item_mask = mask[items.sets]
    for attempt in range(DRAWS):
        v, draws = direction(items.vocabulary, generator)
        z = (items.vocabulary * v).sum(-1)
        slack = slack_of(items.vocabulary)
        spread = (
            float(z.double().var(correction=0)) or float(z[0]) ** 2
        )  # of a single token, or of equal projections
        for b in [c / spread for c in FACTORS] if beta is None else [beta]:
            found = place(items, z, b, item_mask, mask)
            if separated(found, slack):
                net = build(found, v, b, slack, draws * (attempt + 1), items, labels)
                return net._replace(
                    report=net.report._replace(error=tried(net, sequences, flat, mask))
                )
    raise ValueError(cannot(items, v, b, item_mask, mask))


def direction(vocabulary: Tensor, generator: torch.Generator) -> tuple[Tensor, int]:
    """A direction that tells the tokens apart: by all pairs while they are few, else
    the best of four by neighbours.
    """
    if len(vocabulary) <= LARGE:
        return choose_projection(vocabulary, generator=generator, best_of=8)[:2]
    drawn = torch.randn(
        4,
        vocabulary.shape[1],
        generator=generator,
        dtype=torch.float64,
        device=generator.device,
    ).to(vocabulary)
    drawn = drawn / drawn.norm(dim=1, keepdim=True)
    return max(
        drawn, key=lambda v: float((vocabulary * v).sum(-1).sort().values.diff().min())
    ), len(drawn)


def contexts(z: Tensor, beta: float, mask: Tensor | None) -> Tensor:
    """Context ids from projected tokens."""
    return context_ids(
        z.unsqueeze(-1), torch.ones_like(z.flatten()[:1]), beta, mask=mask, check=False
    ).context


def slack_of(vocabulary: Tensor) -> float:
    """How far rounding may move v.x, for a unit vector v."""
    return (
        4
        * vocabulary.shape[1]
        * torch.finfo(vocabulary.dtype).eps
        * float(vocabulary.norm(dim=1).max())
    )


def snap(z: Tensor, tokens: Tensor, slack: float) -> Tensor:
    """The nearest token of the vocabulary where it is within the slack, else z
    itself.
    """
    right = torch.searchsorted(tokens, z.contiguous()).clamp(max=len(tokens) - 1)
    left = (right - 1).clamp(min=0)
    near = torch.where(
        (z - tokens[left]).abs() < (tokens[right] - z).abs(),
        tokens[left],
        tokens[right],
    )
    return torch.where((near - z).abs() <= slack, near, z)


class Placed(NamedTuple):
    """Ids in order: token and context (D,), the order of the items, z of the vocabulary
    in order, and rivals (D - 1,).

    Rivals are neighbours of one token whose labels differ; where labels agree, ids may
    coincide.
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
    require(
        abs(beta) * float(z.abs().max()) ** 2 <= torch.finfo(z.dtype).max,
        f"logits overflow {z.dtype}: lower beta",
    )
    tokens = items.tokens[items.sets].clamp(min=0)
    f = contexts(z[tokens], beta, None if bool(set_mask.all()) else set_mask)
    where = mask.nonzero()[items.first]
    row = torch.full((len(mask),), -1, device=z.device)
    row[items.sets] = torch.arange(len(items.sets), device=z.device)
    token, context = (
        z[items.tokens[where[:, 0], where[:, 1]]],
        f[row[where[:, 0]], where[:, 1]],
    )  # rows of sets: first of their kind
    order = context.argsort(stable=True)
    order = order[token[order].argsort(stable=True)]
    token, labels = token[order], items.labels[order]
    rivals = (token[1:] == token[:-1]) & (labels[1:] != labels[:-1]).any(1)
    return Placed(token, context[order], order, z.sort().values, rivals)


def separated(p: Placed, slack: float) -> bool:
    """Tokens more than two slacks apart, rivals apart by more than rounding can move
    them.
    """
    return (
        len(p.tokens) == 1 or float(p.tokens.diff().min()) > 2 * slack
    ) and smallest(p) > noise(p)


def smallest(p: Placed) -> float:
    """The smallest gap between rivals; infinity if there are none."""
    gaps = p.context.diff()[p.rivals]
    return float(gaps.min()) if len(gaps) else math.inf


def noise(p: Placed) -> float:
    return 16 * torch.finfo(p.context.dtype).eps * float(p.tokens.abs().max())


def build(
    p: Placed,
    v: Tensor,
    beta: float,
    slack: float,
    draws: int,
    items: Items,
    labels: Tensor,
) -> Memorizer:
    span, gap = float(p.tokens[-1] - p.tokens[0]), smallest(p)
    w = float(p.tokens.diff().min()) / (2 * span) if span else 1.0
    size = float(p.context.abs().max())
    bits = 1 + math.ceil(math.log2(size / gap)) if math.isfinite(gap) else 1
    c, d, pairs = (
        items.labels.shape[1],
        max(len(v), items.labels.shape[1]),
        len(items.pair),
    )
    report = Report(
        pairs,
        len(p.token),
        len(p.tokens),
        draws,
        beta,
        w,
        gap,
        max(bits, 1),
        round(-math.log2(torch.finfo(v.dtype).eps)),
        0.0,
        count_parameters(len(p.token), d, labels=c, shared=True),
    )
    wanted = items.labels[p.order].to(v.dtype)
    steps = p.token.diff() + w * p.context.diff()
    lead = float(steps.median()) if len(steps) else 1.0
    return Memorizer(
        v,
        p.tokens,
        p.token,
        p.context,
        wanted,
        lead,
        slack,
        labels.dtype,
        labels.dim() == 2,
        report,
    )


def tried(net: Memorizer, sequences: Tensor, labels: Tensor, mask: Tensor) -> float:
    """The largest error on the data, read as a user would read them; refuses a network
    that misses a label.
    """
    raw, rows = (
        net._replace(kind=net.v.dtype, flat=False),
        max(1, PART // mask.shape[1]),
    )
    parts = zip(*(t.split(rows) for t in (sequences, labels, mask)))
    errors = [
        (raw(x, None if bool(seen.all()) else seen) - y.to(net.v.dtype))[seen]
        .abs()
        .max()
        for x, y, seen in parts
    ]
    error = float(torch.stack(errors).max())
    require(
        error == 0,
        f"the network misses a label by {error:.3g}, by rounding in {net.v.dtype}: give float64 sequences, or smaller labels",
    )
    return error


def evaluate(z: Tensor, f: Tensor, net: Memorizer) -> Tensor:
    """The network on the line t = z + w f by sorted search, from differences only: a
    straight line from the nearer id.
    """
    count, w = len(net.token), net.report.w

    def ahead(i):
        return (z - net.token[i]) + w * (
            f - net.context[i]
        )  # of id i, exact in sign where z is a token

    low, high = (
        torch.zeros_like(z, dtype=torch.long),
        torch.full_like(z, count, dtype=torch.long),
    )
    for _ in range(count.bit_length()):
        middle = ((low + high) // 2).clamp(max=count - 1)
        below = ahead(middle) >= 0
        low, high = (
            torch.where(below & (low < high), middle + 1, low),
            torch.where(below | (low >= high), high, middle),
        )
    right = low.clamp(1 if count > 1 else 0, count - 1)
    left = (right - 1).clamp(min=0)
    width = (net.token[right] - net.token[left]) + w * (
        net.context[right] - net.context[left]
    )
    near = torch.where(ahead(left) <= -ahead(right), left, right)
    share = (ahead(near) / torch.where(width > 0, width, 1)).unsqueeze(
        -1
    )  # a slope may overflow, a share does not
    y = net.labels[near] + (share * net.labels[right] - share * net.labels[left])
    start = (1 + ahead(torch.zeros_like(low)) / net.lead).clamp(0, 1).unsqueeze(
        -1
    ) * net.labels[0]
    return torch.where((low == 0).unsqueeze(-1), start, y)


def cannot(items: Items, v: Tensor, beta: float, set_mask: Tensor, mask: Tensor) -> str:
    """What could not be separated, and what would."""

    def lost(dtype: torch.dtype) -> str:
        words, u = items.vocabulary.to(dtype), v.to(dtype)
        p = place(items, (words * u).sum(-1), beta, set_mask, mask)
        close = int((p.rivals & (p.context.diff() <= noise(p))).sum())
        if close:
            return f"{count - close} of {count} are further apart than rounding"
        return (
            ""
            if separated(p, slack_of(words))
            else "two tokens are no further apart along the direction than rounding"
        )

    count, dtype = len(items.first), items.vocabulary.dtype
    wider = [
        t
        for t in (torch.float32, torch.float64)
        if torch.finfo(t).eps < torch.finfo(dtype).eps
    ]
    held = [t for t in wider if not lost(t)]
    sizes = mask[items.sets].sum(1)
    if held:
        cure = f"{held[0]} would"
    elif int(sizes.min()) < int(sizes.max()):
        cure = "sequences whose multisets are proportional, as {a, b} and {a, a, b, b}, have equal ids: add a token or positions"
    else:
        cure = f"beta was {beta:.3g}; leave it out, bring the tokens further apart, or memorize fewer sequences"
    return f"{dtype} cannot hold the ids apart: {lost(dtype)}; {cure}"
