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
from attnlib.memorize.line import Parameters, count_parameters

FACTORS = (0.3, 0.1, 1.0)  # beta var(z), for the values of beta that are tried
DRAWS = 3  # times that directions are drawn
DIRECTIONS = 8  # drawn at once; the best is taken
PART = 1 << 18  # tokens of the data that are read at once for the last check


@dataclass(frozen=True, slots=True)
class MemorizerReport:
    """What was built, and how far it is from the limits of its dtype.

    Args:
        pairs: (sequence, token) pairs given.
        ids: different (token, multiset) pairs, the units of the network.
        vocabulary: distinct tokens.
        draws: directions drawn; 0 if v was given.
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
        return (
            f"{self.pairs} pairs, {self.ids} ids, {self.vocabulary} tokens\n"
            f"{self.draws} directions drawn, beta {self.beta:.3g}\n"
            f"smallest gap {self.gap:.2g}: {self.bits} of {self.dtype_bits} bits\n"
            f"largest error {self.error:.2g}\n"
            f"{self.parameters.total} parameters"
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
        require(device is not None, "device must be given, got None")
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
        size = x.shape[:-1]
        if token_mask is None:
            token_mask = torch.ones(size, dtype=torch.bool, device=x.device)
        _require.token_mask(token_mask, size, x.device, check=x.numel() > 0)
        if x.numel():
            y = self._read(x, token_mask)
        else:
            y = v.new_zeros(*size, self.values.shape[1])
        if not self.labels.is_floating_point():
            y = y.round().to(self.labels.dtype)
        return y.squeeze(-1) if self.labels.dim() == 1 else y

    def _read(self, x: Tensor, token_mask: Tensor) -> Tensor:
        """The labels as numbers of the network, 0 where the mask hides."""
        z = (x * self.v).sum(-1).masked_fill(~token_mask, 0)
        require(
            z.isfinite().all(),
            "x holds NaN or infinity where a token is, or its projection overflows",
        )
        require(
            x[(z == 0) & token_mask].any(-1).all(),
            "x holds zero tokens, which no data set may hold: hide padding by a "
            "token_mask",
        )
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
            None takes the best of eight draws, up to three times.
        beta: factor of the logits; None tries 0.3, 0.1 and 1 over the variance of z,
            and one over its standard deviation times the largest |z|, which suits
            tokens far from zero, and takes the one whose ids are furthest apart.

    Returns:
        Memorizer, whose report says what it took. Order of the tokens and size of the
        batch change nothing.

    Raises:
        ValueError: also for labels that contradict each other, and for tokens or ids
            that the dtype cannot hold apart where labels differ, with both positions
            and with what would; and for a network that misses a label when it is run on
            the data.

    Cost: O(N n (n + d + log N n)).
    Source: Kajitsuka and Sato 2024, Corollary 1 (recalled); differs: the temperature is
        chosen from the data and the ids are verified; token and context id are compared
        one after the other, so that their sum is never rounded.
    Claim: memorize.block
    """
    token_mask, flat = _items.checked(sequences, labels, token_mask, generator)
    _check_head(v, beta, sequences)
    items = _items.find_items(sequences, flat, token_mask)
    held = items.labels.to(sequences.dtype).to(labels.dtype) == items.labels
    require(
        held.all(),
        f"labels reach beyond the numbers that {sequences.dtype} holds: "
        "give smaller or narrower labels, or float64 sequences",
    )
    slack = _slack(items.vocabulary)
    for attempt in range(1, 1 + (DRAWS if v is None else 1)):
        direction = _direction(items.vocabulary, generator) if v is None else v
        placed = _best(items, direction.detach(), beta)
        if placed.separated(slack):
            draws = DIRECTIONS * attempt if v is None else 0
            net = _build(placed, slack, draws, items)
            _check_labels(net, sequences, flat, token_mask)
            return replace(net, labels=net.labels.view(-1, *labels.shape[2:]))
    raise ValueError(_cannot(items, placed, {"beta": beta, "v": v}))


def _check_head(v, beta, sequences: Tensor) -> None:
    """The direction and the factor that the caller gave, if any."""
    if beta is not None:
        _require.numbers(beta=beta)
        require(beta != 0, "beta must not be 0: ids would be plain means")
    if v is None:
        return
    _require.matches("v", v, sequences.shape[2:], sequences, "sequences")
    _require.finite(v=v)
    length = float(v.detach().double().norm())
    require(
        abs(length - 1) <= 8 * torch.finfo(v.dtype).eps,
        f"v must have length one, got {length:.6g}: give v / v.norm(), and "
        "beta * v.norm() ** 2 where beta is given",
    )


def _best(items: Items, v: Tensor, beta: float | None) -> _Placed:
    """The ids along v with this beta, or with the one that brings them furthest
    apart.
    """
    betas = [float(beta)] if beta else _scales((items.vocabulary * v).sum(-1))
    return max([_place(items, v, b) for b in betas], key=_Placed.smallest)


def _scales(z: Tensor) -> list[float]:
    """Values of beta to try, as far as the dtype of z holds them."""
    largest = float(z.abs().max())
    require(
        largest > 0, "v must not be orthogonal to all tokens: no logit would differ"
    )
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
        f"tokens along the direction reach {largest:.3g}, and {z.dtype} holds no beta "
        "that suits them: measure tokens in other units",
    )
    return usable


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


def _contexts(z: Tensor, beta: float, token_mask: Tensor) -> Tensor:
    """Context ids from projected tokens."""
    one = torch.ones_like(z.flatten()[:1])
    # Where the mask hides nothing it is faster to give none.
    mask = None if bool(token_mask.all()) else token_mask
    ids = context_ids(z.unsqueeze(-1), one, beta, token_mask=mask, check=False)
    return ids.context


def _slack(vocabulary: Tensor) -> float:
    """How far rounding may move v.x, for a unit vector v."""
    d = vocabulary.shape[1]
    eps = torch.finfo(vocabulary.dtype).eps
    largest = float(vocabulary.abs().max())
    longest = float((vocabulary / largest).norm(dim=1).max())
    return 4 * d * eps * longest * largest


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
        rivals: (D - 1,), where neighbours share their token and their labels differ;
            where labels agree, ids may coincide.
    """

    v: Tensor
    beta: float
    token: Tensor
    context: Tensor
    order: Tensor
    tokens: Tensor
    rivals: Tensor

    def separated(self, slack: float) -> bool:
        """Tokens more than two slacks apart, rivals apart by more than rounding can
        move them.
        """
        tokens_apart = _items.least(self.tokens.diff()) > 2 * slack
        return tokens_apart and self.smallest() > self.noise()

    def smallest(self) -> float:
        """The smallest gap between rivals; infinity if there are none."""
        return _items.least(self.context.diff()[self.rivals])

    def noise(self) -> float:
        """How far rounding may move a context id."""
        eps = torch.finfo(self.context.dtype).eps
        return 16 * eps * float(self.tokens.abs().max())


def _place(items: Items, v: Tensor, beta: float) -> _Placed:
    """The ids of all items, sorted by token, then by context."""
    z = (items.vocabulary.to(v.dtype) * v).sum(-1)
    most = _items.largest_logit(z, beta)
    require(most <= torch.finfo(z.dtype).max, f"logits overflow {z.dtype}: lower beta")
    tokens = items.tokens[items.sets].clamp(min=0)
    f = _contexts(z[tokens], beta, items.mask[items.sets])
    # The first token of an item lies in the first sequence of its multiset; f has a
    # row for each of these.
    row = torch.full((len(items.mask),), -1, device=z.device)
    row[items.sets] = torch.arange(len(items.sets), device=z.device)
    sequence, k = items.place.unbind(1)
    token = z[items.tokens[sequence, k]]
    context = f[row[sequence], k]
    order = context.argsort(stable=True)
    order = order[token[order].argsort(stable=True)]
    token, labels = token[order], items.labels[order]
    same_token = token[1:] == token[:-1]
    rivals = same_token & (labels[1:] != labels[:-1]).any(1)
    return _Placed(v, beta, token, context[order], order, z.sort().values, rivals)


def _build(p: _Placed, slack: float, draws: int, items: Items) -> Memorizer:
    """The network for these ids, its labels (D, c)."""
    span = float(p.tokens[-1] - p.tokens[0])
    w = _items.least(p.tokens.diff()) / (2 * span) if span else 1.0
    gap = p.smallest()
    bits = 1
    if math.isfinite(gap):
        bits = 1 + math.ceil(math.log2(float(p.context.abs().max()) / gap))
    width, c = items.labels.shape
    d = max(len(p.v), c)
    report = MemorizerReport(
        pairs=int(items.mask.sum()),
        ids=width,
        vocabulary=len(p.tokens),
        draws=draws,
        beta=p.beta,
        w=w,
        gap=gap,
        bits=max(bits, 1),
        dtype_bits=round(-math.log2(torch.finfo(p.v.dtype).eps)),
        error=0.0,  # _check_labels refuses any other
        parameters=count_parameters(width, d, labels=c, shared=True),
    )
    steps = p.token.diff() + w * p.context.diff()
    lead = float(steps.median()) if len(steps) else 1.0
    labels = items.labels[p.order]
    return Memorizer(p.v, p.tokens, p.token, p.context, labels, lead, slack, report)


def _check_labels(
    net: Memorizer, sequences: Tensor, labels: Tensor, token_mask: Tensor
) -> None:
    """Reads the data as a user would, but not rounded; refuses a network that misses a
    label.
    """
    raw = replace(net, labels=net.values)
    rows = max(1, PART // token_mask.shape[1])
    parts = zip(sequences.split(rows), labels.split(rows), token_mask.split(rows))
    for x, y, seen in parts:
        difference = raw(x, seen) - y.to(net.v.dtype)
        error = float(difference[seen].abs().max())
        require(
            error == 0,
            f"the network misses a label by {error:.3g}, by rounding in {net.v.dtype}: "
            "give float64 sequences, or smaller labels",
        )


def _evaluate(z: Tensor, f: Tensor, net: Memorizer) -> Tensor:
    """The network on the line t = z + w f by sorted search, from differences only: a
    straight line from the nearer id.
    """
    count = len(net.token)
    w = net.report.w
    labels = net.values

    def ahead(i: Tensor) -> Tensor:
        """t minus the id i, exact in sign where z is a token."""
        return (z - net.token[i]) + w * (f - net.context[i])

    # How many ids are at most t, by bisection.
    low = torch.zeros_like(z, dtype=torch.long)
    high = torch.full_like(z, count, dtype=torch.long)
    for _ in range(count.bit_length()):
        middle = ((low + high) // 2).clamp(max=count - 1)
        right_of = ahead(middle) >= 0
        low = torch.where(right_of, middle + 1, low)
        high = torch.where(right_of, high, middle)
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
    y = labels[near] + (share * labels[right] - share * labels[left])
    # Left of the first id the network rises from 0, over a length of lead.
    risen = (1 + ahead(torch.zeros_like(low)) / net.lead).clamp(0, 1)
    start = risen.unsqueeze(-1) * labels[0]
    return torch.where((low == 0).unsqueeze(-1), start, y)


def _cannot(items: Items, p: _Placed, given: dict) -> str:
    """What could not be held apart, where it stands, and what would help."""
    places = [tuple(place) for place in items.place.tolist()]
    gaps = p.context.diff().where(p.rivals, math.inf)
    lost = (gaps <= p.noise()).nonzero().flatten().tolist()

    def ends(i: int) -> list[tuple]:
        """Where two neighbouring ids stand."""
        return sorted(places[item] for item in p.order[i : i + 2].tolist())

    if _items.least(p.tokens.diff()) <= 2 * _slack(items.vocabulary):
        a, b = _nearest_tokens(items, p, places)
        what = (
            f"the tokens at (sequence, position) {a} and {b} are no "
            "further apart along the direction than rounding"
        )
    else:
        for a, b in sorted(map(ends, lost)):
            if torch.equal(_shares(items, a[0]), _shares(items, b[0])):
                return (
                    f"contradicting labels: (sequence, position) {a} and {b} hold the "
                    "same token, and their sequences the same tokens in the same "
                    "shares, as {a, b} and {a, a, b, b}; attention without positions "
                    "gives both the same output: add a token or positions"
                )
        a, b = ends(int(gaps.argmin()))
        what = (
            f"{len(lost)} of {len(places)} are no further from the next than rounding, "
            f"{p.noise():.2g}; the closest, {p.smallest():.2g} apart, are of one "
            f"token, at (sequence, position) {a} and {b}"
        )
    dtype = p.v.dtype
    said = f"{dtype} cannot hold the ids apart: {what}"
    for wide in _items.finer(dtype):
        again = _place(items, p.v.to(wide), p.beta)
        if again.separated(_slack(items.vocabulary.to(wide))):
            return f"{said}; {wide} would"
    named = [name for name, by_caller in given.items() if by_caller is not None]
    tried = "" if "beta" in named else ", the best that was tried"
    cure = "bring the tokens further apart, or memorize fewer sequences"
    if named:
        cure = f"leave {' and '.join(named)} out"
    return f"{said}; beta was {p.beta:.3g}{tried}; {cure}"


def _shares(items: Items, sequence: int) -> Tensor:
    """The share of each token in a sequence: equal shares, equal ids at every beta."""
    tokens = items.tokens[sequence][items.mask[sequence]]
    return tokens.bincount(minlength=len(items.vocabulary)) / len(tokens)


def _nearest_tokens(items: Items, p: _Placed, places: list[tuple]) -> list[tuple]:
    """Where the two tokens that are nearest along the direction first stand."""
    order = (items.vocabulary * p.v).sum(-1).argsort()
    i = int(p.tokens.diff().argmin())
    sequence, k = items.place.unbind(1)
    words = items.tokens[sequence, k]
    first = [int((words == w).int().argmax()) for w in order[i : i + 2]]
    return sorted(places[item] for item in first)
