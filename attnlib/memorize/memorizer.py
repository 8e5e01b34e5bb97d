"""Memorize a data set: one softmax head of rank one, and a ReLU network that reads its
ids.

    z_k = v.x_k,         f_k = sum_j softmax_j(beta z_k z_j) z_j
    t_k = z_k + w f_k,   y_k = sum_i a_i relu(t_k - b_i)

The sum t is never formed: token and company are compared one after the other, so that
no digit of w f is lost. Tokens within rounding of a known one are moved to it.

Page: notebooks/one_layer_memorization/memorization
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from attnlib import _require
from attnlib._require import require
from attnlib.attention import Layer
from attnlib.memorize import _items
from attnlib.memorize._items import Items
from attnlib.memorize.ids import context_ids, rank_one_layer
from attnlib.memorize.line import _search, count_parameters

FACTORS = (0.3, 0.1, 1.0)  # beta var(z), for the values of beta that are tried
DIRECTIONS = 8  # drawn at once; the best is taken


@dataclass(frozen=True, slots=True)
class MemorizerReport:
    """What was built, and how far it is from the limits of its dtype.

    Args:
        pairs: (sequence, token) pairs given.
        ids: different (token, multiset) pairs, the units of the network.
        vocabulary: distinct tokens.
        beta: factor of the logits.
        w: weight of the context id, so small that tokens do not mix.
        gap: smallest distance of two neighbouring context ids of one token with unlike
            labels; inf if none.
        bits: that a context id needs for it.
        dtype_bits: that the dtype has.
        parameters: of the block, shared form.
    """

    pairs: int
    ids: int
    vocabulary: int
    beta: float
    w: float
    gap: float
    bits: int
    dtype_bits: int
    parameters: int

    def __str__(self) -> str:
        """Three lines for people."""
        return (
            f"{self.pairs} pairs, {self.ids} ids, {self.vocabulary} tokens, all labels "
            f"right\nbeta {self.beta:.3g}, smallest gap {self.gap:.2g}: {self.bits} of "
            f"{self.dtype_bits} bits\n{self.parameters} parameters"
        )


@dataclass(frozen=True, eq=False)
class Memorizer:
    """A function of sequences that gives every memorized token its label.

    Args:
        v: (d,), the direction.
        tokens: (K,), the vocabulary along v, sorted.
        token, context: (D,), the ids, sorted.
        labels: (D,) or (D, c), in the dtype in which they were given.
        lead: how far the first knot lies left of the first id.
        slack: how far rounding may move a projected token.
        report: MemorizerReport.
    """

    v: Tensor
    tokens: Tensor
    token: Tensor
    context: Tensor
    labels: Tensor
    lead: float
    slack: float
    report: MemorizerReport

    @property
    def layer(self) -> Layer:
        """The attention layer; attention.forward(x, [layer], skip=True) gives the ids
        x_k + w f_k v.
        """
        return rank_one_layer(self.v, self.report.beta, self.report.w)

    @property
    def values(self) -> Tensor:
        """The labels as the network holds them: (D, c), in the dtype of v."""
        return self.labels.to(self.v.dtype).view(len(self.labels), -1)

    def to(self, device: torch.device | str) -> Memorizer:
        """The same network on another device. Its dtype stays: ids that are apart in
        one dtype were not verified in another.
        """
        _require.place(device)
        parts = vars(self).items()
        moved = {name: t.to(device) for name, t in parts if torch.is_tensor(t)}
        return replace(self, **moved)

    def __call__(self, x: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """Labels of the tokens x (*batch, n, d), by sorted search; integer labels are
        rounded, hidden tokens get 0.

        Padding needs its token_mask (*batch, n), True = a token: without one every row
        counts as a token, and the labels of its whole sequence change.
        """
        _require.tokens(x)
        size = x.shape[:-1]
        _require.matches("x", x, (*size, len(self.v)), self.v, "v")
        if token_mask is None:
            token_mask = torch.ones(size, dtype=torch.bool, device=x.device)
        _require.token_mask(token_mask, size, x.device)
        y = self._read(x, token_mask)
        if not self.labels.is_floating_point():
            y = y.round().to(self.labels.dtype)
        return y.squeeze(-1) if self.labels.dim() == 1 else y

    def _read(self, x: Tensor, token_mask: Tensor) -> Tensor:
        """The labels as numbers of the network, 0 where the mask hides."""
        z = (x * self.v).sum(-1).masked_fill(~token_mask, 0)
        _require.finite(**{"x along v": z})
        seen = x[(z == 0) & token_mask].any(-1).all()
        require(seen, "x holds zero tokens: hide padding by a token_mask")
        z = _snap(z, self.tokens, self.slack)
        f = _contexts(z, self.report.beta, token_mask)
        return _evaluate(z, f, self).masked_fill(~token_mask.unsqueeze(-1), 0)


def memorize(
    sequences: Float[Tensor, "N n d"],
    labels: Shaped[Tensor, "N n *c"],
    *,
    token_mask: Bool[Tensor, "N n"] | None = None,
    generator: torch.Generator,
    v: Float[Tensor, " d"] | None = None,
    beta: float | None = None,
) -> Memorizer:
    """One attention layer of rank one and a ReLU network that give every token of every
    sequence its label.

    Args:
        sequences: no zero token; tokens may repeat, and so may sequences.
        labels: integers or floats that the dtype of sequences holds.
        token_mask: True = a token.
        generator: of the direction.
        v: a direction of length one, as choose_projection or a trained head gives it;
            None takes the best of eight draws.
        beta: factor of the logits; None tries 0.3, 0.1 and 1 over the variance of z,
            and one over its standard deviation times the largest |z|, which suits
            tokens far from zero, and takes the one whose ids are furthest apart.

    Returns:
        Memorizer, whose report says what it took. Order of the tokens and size of the
        batch change nothing.

    Raises:
        ValueError: also for labels that contradict each other, and for tokens or ids
            that the dtype cannot hold apart where labels differ, with both positions;
            and for a network that misses a label when it is run on the data.

    Cost: O(N n (n + d + log N n)) time; memory for some copies of the data, and about
        twenty numbers a token beside.
    Source: Kajitsuka and Sato 2024, Corollary 1 (recalled); differs: the temperature is
        chosen from the data and the ids are verified; token and context id are compared
        one after the other, so that their sum is never rounded.
    Claim: memorize.block
    """
    token_mask = _checked(sequences, labels, token_mask, v, beta)
    _require.random(generator)
    flat = labels.reshape(*labels.shape[:2], -1)
    items = _items.find_items(sequences, flat, token_mask)
    if v is None:
        v = _direction(items.vocabulary, generator)
    placed = _best(items, v.detach(), beta)
    if not _items.least(placed.margins) > 1:  # NaN too
        raise ValueError(_cannot(items, placed))
    net = _build(placed, items, pairs=int(token_mask.sum()))
    read = replace(net, labels=net.values)(sequences, token_mask)
    require(
        torch.equal(read[token_mask], flat[token_mask].to(read.dtype)),
        f"the network misses a label, by rounding in {net.v.dtype}: "
        "give float64 sequences, or smaller labels",
    )
    return replace(net, labels=net.labels.view(-1, *labels.shape[2:]))


def _checked(sequences, labels, token_mask, v, beta) -> Tensor:
    """The token mask; raises ValueError before anything is built."""
    _require.tokens(sequences, "sequences")
    shape = tuple(sequences.shape)
    require(len(shape) == 3, f"sequences must be (N, n, d), got {shape}")
    _require.is_tensor("labels", labels)
    got = tuple(labels.shape)
    right = got[:2] == shape[:2] and len(got) in (2, 3) and 0 not in got
    require(
        right and not labels.is_complex(),
        f"labels must be real, (N, n) or (N, n, c) with (N, n) = {shape[:2]}, "
        f"got {labels.dtype} {got}",
    )
    _require.same_device("labels", labels, sequences.device, "sequences")
    if token_mask is None:
        token_mask = torch.ones(shape[:2], dtype=torch.bool, device=sequences.device)
    _require.token_mask(token_mask, shape[:2], sequences.device)
    tokens, labels = sequences[token_mask], labels[token_mask]
    _require.finite(sequences=tokens, labels=labels)
    require(
        tokens.any(-1).all(),
        "sequences hold zero tokens, which have no logits: hide them by token_mask",
    )
    held = labels.to(sequences.dtype).to(labels.dtype)
    require(
        torch.equal(held, labels),
        f"labels must be numbers that {sequences.dtype} holds: "
        "give smaller or narrower labels, or float64 sequences",
    )
    if beta is not None:
        _require.numbers(beta=beta)
        require(beta != 0, "beta must not be 0: ids would be plain means")
    if v is not None:
        _require.matches("v", v, shape[2:], sequences, "sequences")
        _require.finite(v=v)
        length = float(v.detach().double().norm())
        require(
            abs(length - 1) <= 8 * torch.finfo(v.dtype).eps,
            f"v must have length one, got {length:.6g}: give v / v.norm()",
        )
    return token_mask


def _direction(vocabulary: Tensor, generator: torch.Generator) -> Tensor:
    """The one of DIRECTIONS random directions whose two nearest tokens are furthest
    apart.
    """
    device = generator.device
    size = (DIRECTIONS, vocabulary.shape[1])
    drawn = torch.randn(size, generator=generator, dtype=torch.float64, device=device)
    drawn = (drawn / drawn.norm(dim=1, keepdim=True)).to(vocabulary)

    def nearest(v: Tensor) -> float:
        """The smallest gap of two tokens along v."""
        z = (vocabulary * v).sum(-1)
        return _items.least(z.sort().values.diff())

    return max(drawn, key=nearest)


def _best(items: Items, v: Tensor, beta: float | None) -> _Placed:
    """The ids along v with this beta, or with the one that brings them furthest
    apart.
    """
    z = (items.vocabulary * v).sum(-1)
    betas = [float(beta)] if beta else _scales(z)
    placed = [_place(items, v, b) for b in betas]
    return max(placed, key=lambda one: one.gap)


def _scales(z: Tensor) -> list[float]:
    """Values of beta to try, as far as the dtype of z holds them."""
    largest = float(z.abs().max())
    require(largest > 0, "v must not be orthogonal to all tokens")
    unit = z.double() / largest  # squares of z may overflow or vanish
    # A single token, or equal projections, vary as much as they are long.
    spread = float(unit.var(correction=0)) or 1.0
    factors = [factor / spread for factor in FACTORS]
    factors.append(1 / math.sqrt(spread))
    found = [factor / largest / largest for factor in factors]
    limits = torch.finfo(z.dtype)
    usable = [b for b in found if limits.tiny <= b <= limits.max]
    require(
        usable,
        f"sequences along v reach {largest:.3g}, and {z.dtype} holds no beta that "
        "suits them: measure tokens in other units",
    )
    return usable


def _contexts(z: Tensor, beta: float, token_mask: Tensor) -> Tensor:
    """Context ids from projected tokens."""
    one = torch.ones_like(z.flatten()[:1])
    # Where the mask hides nothing it is faster to give none.
    mask = None if bool(token_mask.all()) else token_mask
    ids = context_ids(z.unsqueeze(-1), one, beta, token_mask=mask, check=False)
    return ids.context


def _slack(vocabulary: Tensor) -> float:
    """How far rounding may move v.x, for a unit vector v."""
    longest = float(vocabulary.double().norm(dim=1).max())
    return 4 * vocabulary.shape[1] * torch.finfo(vocabulary.dtype).eps * longest


def _snap(z: Tensor, tokens: Tensor, slack: float) -> Tensor:
    """The nearest token of the vocabulary where it is within the slack, else z
    itself.
    """
    right = torch.searchsorted(tokens, z.contiguous()).clamp(max=len(tokens) - 1)
    below = tokens[(right - 1).clamp(min=0)]
    above = tokens[right]
    is_below = (z - below).abs() < (above - z).abs()
    nearest = torch.where(is_below, below, above)
    return torch.where((nearest - z).abs() <= slack, nearest, z)


@dataclass(frozen=True, eq=False)
class _Placed:
    """Ids in order, by token, then by context.

    Args:
        v, beta: of the head.
        token, context: (D,).
        order: (D,), the item that each id belongs to.
        tokens: (K,), the vocabulary along v, sorted.
        slack: how far rounding may move a token.
        gap: the smallest between the contexts of neighbours that share their token and
            not their label; infinity if there are none.
        margins: (D - 1,), how far each id is from the next, over what rounding may do:
            two tokens move by a slack each; a context id by 16 eps of the largest
            token, and where labels agree ids may coincide.
    """

    v: Tensor
    beta: float
    token: Tensor
    context: Tensor
    order: Tensor
    tokens: Tensor
    slack: float
    gap: float
    margins: Tensor


def _place(items: Items, v: Tensor, beta: float) -> _Placed:
    """The ids of all items, sorted by token, then by context."""
    vocabulary = items.vocabulary.to(v.dtype)
    z = (vocabulary * v).sum(-1)
    limits = torch.finfo(z.dtype)
    most = _items.largest_logit(z, beta)
    require(most <= limits.max, f"logits overflow {z.dtype}: lower beta")
    tokens = items.tokens[items.sets]
    f = _contexts(z[tokens.clamp(min=0)], beta, tokens >= 0)
    sequence, k = items.place.unbind(1)
    word = items.tokens[sequence, k]
    token, context = z[word], f[items.row, k]
    order = context.argsort(stable=True)
    order = order[token[order].argsort(stable=True)]
    token, context = token[order], context[order]
    word, labels = word[order], items.labels[order]
    same = word[1:] == word[:-1]
    rivals = same & (labels[1:] != labels[:-1]).any(1)
    apart = context.diff()
    slack = _slack(vocabulary)
    noise = 16 * limits.eps * float(z.abs().max())
    steps = token.diff().double()
    margins = torch.where(rivals, apart.double() / noise, math.inf)
    margins = torch.where(same, margins, steps / (2 * slack))
    gap = _items.least(apart[rivals])
    tokens = z.sort().values
    return _Placed(v, beta, token, context, order, tokens, slack, gap, margins)


def _build(p: _Placed, items: Items, pairs: int) -> Memorizer:
    """The network for these ids, its labels (D, c)."""
    span = float(p.tokens[-1] - p.tokens[0])
    w = _items.least(p.tokens.diff()) / (2 * span) if span else 1.0
    largest = float(p.context.abs().max())
    bits = 1
    if math.isfinite(p.gap):
        bits = 1 + math.ceil(math.log2(largest / p.gap))
    width, c = items.labels.shape
    d = max(len(p.v), c)
    report = MemorizerReport(
        pairs=pairs,
        ids=width,
        vocabulary=len(p.tokens),
        beta=p.beta,
        w=w,
        gap=p.gap,
        bits=max(bits, 1),
        dtype_bits=round(-math.log2(torch.finfo(p.v.dtype).eps)),
        parameters=count_parameters(width, d, labels=c, shared=True),
    )
    steps = p.token.diff() + w * p.context.diff()
    lead = float(steps.median()) if len(steps) else 1.0
    labels = items.labels[p.order]
    return Memorizer(p.v, p.tokens, p.token, p.context, labels, lead, p.slack, report)


def _evaluate(z: Tensor, f: Tensor, net: Memorizer) -> Tensor:
    """The network on the line t = z + w f; its first knot lies left of the first id."""
    w = net.report.w
    token = torch.cat([net.token[:1], net.token])
    context = torch.cat([net.context[:1] - net.lead / w, net.context])
    return _search(z, f, token, context, w, net.values)


def _cannot(items: Items, p: _Placed) -> str:
    """What could not be held apart, where it stands, and what would help."""
    sequence, k = items.place[p.order].unbind(1)
    words = items.tokens[sequence, k]
    lost = ~(p.margins > 1)
    tokens = lost & (words[1:] != words[:-1])
    how, i = "in their company", int(lost.int().argmax())
    if tokens.any():
        how, i = "along the direction", int(tokens.int().argmax())
    pair = items.place[p.order[i : i + 2]].tolist()
    a, b = sorted(map(tuple, pair))
    said = (
        f"{p.v.dtype} cannot hold the ids apart: the tokens at (sequence, position) "
        f"{a} and {b} are no further apart {how} than rounding"
    )
    for wide in _items.finer(p.v.dtype):
        again = _place(items, p.v.to(wide), p.beta)
        if _items.least(again.margins) > 1:
            return f"{said}; {wide} would"
    return f"{said}; beta was {p.beta:.3g}, and equal shares of tokens are one company"
