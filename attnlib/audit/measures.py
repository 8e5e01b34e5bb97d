"""What the book's theorems say of a layer's record: numbers by layer and head, over a
batch, one layer's maps in memory at a time.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attnlib import bridges, collapse
from attnlib._require import finite, require
from attnlib.audit.heads import CHEAP, SHARES, Numbers, guaranteed, of_heads
from attnlib.audit.records import LayerRecord, Passage, passages
from attnlib.efficient import decoding
from attnlib.patterns._bits import bit_product, closure, pack, unpack

Row = dict[str, Any]

# Claim and unit of each quantity, by how its name begins; without a claim, nothing
# follows from it by a theorem.
QUANTITIES = {
    "R": ("synthesis.logits", "logits"),
    "tau": ("synthesis.logits", "total variation"),
    "largest tau": ("synthesis.logits", "total variation"),
    "tanh R": ("synthesis.logits", "total variation"),
    "beta*": ("after.sharpness", "factor"),
    "largest weight": ("after.sharpness", "share"),
    "energy rank": ("lowrank.svd", "singular values"),
    "floor": ("synthesis.rank", "row sum"),
    "connections": (None, "share of allowed pairs"),
    "hops": ("patterns.universal", "layers"),
    "pairs heard": ("patterns.universal", "share"),
    "heard by the last token": ("patterns.universal", "share"),
    "can hear everything": ("patterns.universal", "yes or no"),
    "relative residual": (None, "share"),
    "diameter": (None, "length"),
    "growth of the diameter": (None, "factor"),
    "factor of the heads": ("synthesis.logits", "factor"),
    "factor of": ("synthesis.depth", "factor"),
    "paths": ("paths.sums", "size over that of the output"),
    "equal tokens not told apart": (None, "pairs"),
    "closest equal tokens": (None, "floats"),
    "cache a token": ("efficient.state", "bits"),
}
RANKS = {"1": None, "n/8": 8, "n/4": 4, "n/2": 2}  # n over this

MASKED = "a mask: Theorem 19.2 compares rows that may attend to the same tokens"
UNDERFLOW = (
    "some weights of allowed pairs are exactly zero, so the logits cannot be had back"
)
CAUSAL = "no causal pattern lets all tokens hear all others (Proposition 11.5)"
NO_SKIP = "Theorem 11.24 asks for a skip: without it a token forgets what it heard"
_CLAIMS = {CAUSAL: "patterns.causal", NO_SKIP: "patterns.universal"}


class Collector:
    """Measures each record that it is called with, and keeps numbers alone.

    Args:
        exact: also solve an eigenvalue problem a head for more than 256 tokens.
        vocabulary: how many different tokens there are, if known.
    """

    def __init__(self, *, exact: bool = False, vocabulary: int | None = None):
        self.exact = exact
        self.vocabulary = vocabulary
        self.rows: list[Row] = []
        self._dtype: Row = {}  # of the last layer
        self._hearing: list[dict[float, _Hearing]] = []
        self._factors: list[float | None] = []
        self._whys: list[str] = []
        self._deaf = ""  # why no number of layers lets all hear all, if so

    def __call__(self, record: LayerRecord) -> None:
        """Measure one layer.

        Args:
            record: of the layer.

        Raises:
            ValueError: if tokens attend to padding, or a number is NaN or infinite.
        """
        finite(before=record.before, after=record.after)
        batch = list(passages(record))
        deaf = _deaf(batch, record)
        self._deaf = self._deaf or deaf
        found = []
        for passage in batch:
            found.append(of_heads(passage, record, exact=self.exact, hears=not deaf))
        heads = list(zip(*found))  # of each head, its numbers on each sequence
        factor_rows, factor, why = _factors(record, heads)
        self._factors.append(factor)
        self._whys.append(why)
        self._dtype = _dtype(record)
        self._add(record.layer, _head_rows(batch, heads, deaf))
        self._add(record.layer, self._heard_rows(batch, found))
        self._add(record.layer, _state_rows(batch, record))
        self._add(record.layer, factor_rows)
        self._add(record.layer, _id_rows(batch, record))
        self._add(record.layer, [_cache_row(batch, record, self.vocabulary)])

    def finish(self) -> list[Row]:
        """All rows, those of the whole network last.

        Returns:
            plain dicts, one a number.

        Raises:
            ValueError: if no layer was seen.
        """
        require(self._dtype, "no layer was seen: nothing to report")
        self._add(None, self._network_rows())
        return self.rows

    def _add(self, layer: int | None, rows: Sequence[Row]) -> None:
        for row in rows:
            self.rows.append({"layer": layer, **row, **self._dtype})

    def _heard_rows(
        self, batch: list[Passage], found: list[list[Numbers]]
    ) -> list[Row]:
        """Whom each token has heard of by now, if all heads keep their patterns."""
        if not self._hearing:
            for passage in batch:
                hearing = {share: _Hearing(passage.n) for share in SHARES}
                self._hearing.append(hearing)
        if self._deaf == NO_SKIP:
            return [uncovered("pairs heard", NO_SKIP)]
        rows = []
        for share in SHARES:
            pairs = []
            last = []
            for hearing, heads in zip(self._hearing, found):
                patterns = [one.patterns[share] for one in heads]
                pattern = functools.reduce(torch.logical_or, patterns)
                heard = hearing[share].listen(pattern.cpu()).double()
                pairs.append(float(heard.mean()))
                last.append(float(heard[-1].mean()))
            rows.append(measured(f"pairs heard, {share:.0%}", pairs, worst=min))
            if self._deaf == CAUSAL:
                name = f"heard by the last token, {share:.0%}"
                rows.append(measured(name, last, worst=min))
        return rows

    def _network_rows(self) -> list[Row]:
        """What the layers that were looked at do together."""
        name = "factor of all layers"
        if None in self._factors:
            layer = self._factors.index(None)
            rows = [uncovered(name, self._whys[layer])]
        else:
            rows = [measured(name, [math.prod(self._factors)])]
        for share in SHARES:
            hearing = [each[share] for each in self._hearing]
            everything = f"can hear everything, {share:.0%}"
            hops = f"hops of the network, {share:.0%}"
            if self._deaf:
                rows += _deaf_rows((everything, hops), self._deaf)
                continue
            answers = [bool(closure(each.union).all()) for each in hearing]
            rows.append(measured(everything, answers, worst=min))
            rows.append(_hops_row(hops, [each.hops for each in hearing]))
        return rows


class _Hearing:
    """Who has heard of whom, layer by layer; all layers' connections in one matrix."""

    def __init__(self, n: int):
        self.union = torch.eye(n, dtype=torch.bool)
        self.heard = pack(self.union)
        self.layers = 0
        self.hops: int | None = None

    def listen(self, pattern: Tensor) -> Tensor:
        """One more layer; returns who has heard of whom, (n, n)."""
        n = len(pattern)
        loops = torch.eye(n, dtype=torch.bool)
        self.union = self.union | pattern
        self.heard = bit_product(pack(pattern | loops), self.heard)
        self.layers += 1
        heard = unpack(self.heard, n)
        if self.hops is None and bool(heard.all()):
            self.hops = self.layers
        return heard


def _deaf(batch: list[Passage], record: LayerRecord) -> str:
    """Why no number of layers lets all tokens hear all others, if that is known."""
    if record.skip is False:
        return NO_SKIP
    return CAUSAL if any(passage.causal for passage in batch) else ""


def _deaf_rows(names: Sequence[str], deaf: str) -> list[Row]:
    return [uncovered(name, deaf, claim=_CLAIMS[deaf]) for name in names]


def _dtype(record: LayerRecord) -> Row:
    """In which numbers the model computed, and in which it was measured."""
    measured = str(record.weights.dtype).removeprefix("torch.")
    given = str(record.dtype or record.weights.dtype).removeprefix("torch.")
    return {"dtype": given, "measured_in": measured}


# --- rows ---


def uncovered(
    quantity: str, why: str, *, head: int | None = None, claim: str | None = None
) -> Row:
    """A number that no theorem gives here.

    Args:
        quantity: its name, which begins with one of QUANTITIES.
        why: what stands in the way.
        head: number of the head, or None.
        claim: id of the claim that would have given it; None for that of QUANTITIES.

    Returns:
        a plain dict, whose value is None.
    """
    usual, unit = _known(quantity)
    return {
        "head": head,
        "quantity": quantity,
        "value": None,
        "mean": None,
        "bound": None,
        "claim": claim or usual,
        "covered": False,
        "why": why,
        "unit": unit,
        "over": "",
    }


@functools.cache
def _known(quantity: str) -> tuple[str | None, str]:
    """Claim and unit of a quantity."""
    start = next(start for start in QUANTITIES if quantity.startswith(start))
    return QUANTITIES[start]


def measured(
    quantity: str,
    values: Sequence[float | int],
    *,
    head: int | None = None,
    claim: str | None = None,
    bounds: Sequence[float | int] | None = None,
    worst=max,
    over: str = "worst of batch",
) -> Row:
    """A number over the batch: its worst, its mean, and the bound where it is worst.

    Args:
        quantity: its name, which begins with one of QUANTITIES.
        values: one a sequence.
        head: number of the head, or None.
        claim: id of the claim that says what follows; None for that of QUANTITIES.
        bounds: what the claim promises, one a sequence.
        worst: max or min.
        over: what the value was taken over.

    Returns:
        a plain dict.
    """
    row = uncovered(quantity, "", head=head, claim=claim)
    value = worst(values)
    mean = math.fsum(values) / len(values)
    row |= {"value": float(value), "mean": mean, "covered": True, "over": over}
    if bounds is not None:
        row["bound"] = float(bounds[list(values).index(value)])
    return row


# --- heads ---


def _head_rows(
    batch: list[Passage], heads: list[tuple[Numbers, ...]], deaf: str
) -> list[Row]:
    """The rows of each head, from its numbers on each sequence."""
    rows = []
    for head, numbers in enumerate(heads):
        rows += _contraction(batch, numbers, head)
        rows += _sharp(numbers, head)
        rows += _ranks(batch, numbers, head)
        rows += _connections(numbers, deaf, head)
    if _masked(batch):
        rows.append(uncovered("tanh R", MASKED))
    if any(one.energy is None for one in heads[0]):
        n = max(passage.n for passage in batch)
        why = (
            f"not computed: {n} tokens are more than {CHEAP}, and it takes an "
            "eigenvalue problem a head; ask for exact=True"
        )
        rows.append(uncovered("energy rank", why))
    if deaf:
        rows += _deaf_rows(["hops"], deaf)
    return rows


def _masked(batch: list[Passage]) -> bool:
    return any(passage.allowed is not None for passage in batch)


def _contraction(batch: list[Passage], numbers: Sequence[Numbers], head: int):
    """tau, R, and what R alone allows."""
    tau = [one.tau for one in numbers]
    radii = [one.radius for one in numbers]
    if None in radii:
        rows = [measured("tau", tau, head=head)]
        return rows + [uncovered("R", UNDERFLOW, head=head)]
    rows = [measured("R", radii, head=head)]
    if _masked(batch):
        return [measured("tau", tau, head=head), *rows]
    allowed = []
    for passage, radius in zip(batch, radii):
        allowed.append(bridges.largest_dobrushin(max(2, passage.n), radius))
    rows.append(measured("tau", tau, head=head, bounds=allowed))
    rows.append(measured("largest tau", allowed, head=head))
    rows.append(measured("tanh R", [math.tanh(radius) for radius in radii], head=head))
    return rows


def _sharp(numbers: Sequence[Numbers], head: int) -> list[Row]:
    """The sharpness of the median row, its largest weight, and what beta* promises."""
    beta = torch.cat([one.sharpness for one in numbers])
    weights = torch.cat([one.largest for one in numbers])
    counts = torch.cat([one.allowed for one in numbers])
    middle = int(beta.argsort(stable=True)[(len(beta) - 1) // 2])
    value = float(beta[middle])
    if value == math.inf:
        why = "the two largest logits of the median row are equal"
        return [uncovered("beta*", why, head=head)]
    about = {"head": head, "over": "median row of the batch"}
    weight = float(weights[middle])
    promised = guaranteed(value, int(counts[middle]))
    return [
        measured("beta*", [value], **about),
        measured("largest weight", [weight], bounds=[promised], **about),
    ]


def _ranks(batch: list[Passage], numbers: Sequence[Numbers], head: int) -> list[Row]:
    """The fewest singular values, and how far every matrix of a rank must stay."""
    rows = []
    if all(one.energy is not None for one in numbers):
        for share in SHARES:
            ranks = [one.energy[share] for one in numbers]
            rows.append(measured(f"energy rank, {share:.0%}", ranks, head=head))
    for name, part in RANKS.items():
        floors = []
        for passage, one in zip(batch, numbers):
            r = 1 if part is None else passage.n // part
            if 1 <= r < passage.n:
                floors.append(float(one.floors[r]))
        if floors:
            rows.append(measured(f"floor, rank {name}", floors, head=head))
    return rows


def _connections(numbers: Sequence[Numbers], deaf: str, head: int) -> list[Row]:
    """The fewest connections that hold the mass, and how many layers of them it takes
    until everyone has heard of everyone.
    """
    rows = []
    for share in SHARES:
        parts = [one.connections[share] / int(one.allowed.sum()) for one in numbers]
        rows.append(measured(f"connections, {share:.0%}", parts, head=head))
        if not deaf:
            hops = [one.hops[share] for one in numbers]
            rows.append(_hops_row(f"hops, {share:.0%}", hops, head))
    return rows


def _hops_row(quantity: str, hops: list[int | None], head: int | None = None) -> Row:
    """The largest number of hops in the batch, or why there is none."""
    if 0 not in hops and None not in hops:
        return measured(quantity, hops, head=head)
    why = "never" if 0 in hops else "not within the layers of the network"
    row = uncovered(quantity, why, head=head)
    return row | {"covered": True, "over": "worst of batch"}


# --- states ---


def _state_rows(batch: list[Passage], record: LayerRecord) -> list[Row]:
    """How different the tokens are before and after."""
    rows = []
    shares = {}
    diameters = {}
    for when in ("before", "after"):
        states = [getattr(passage, when) for passage in batch]
        if states[0] is None:
            why = record.missing.get(when, f"the states {when} the layer are not known")
            rows.append(uncovered(f"relative residual {when}", why))
            continue
        found = [_spread(x) for x in states]
        shares[when], diameters[when] = zip(*found)
        name = f"relative residual {when}"
        rows.append(measured(name, shares[when], worst=min))
        rows.append(measured(f"diameter {when}", diameters[when], worst=min))
    if len(diameters) < 2:
        return rows
    rounding = 16 * torch.finfo(record.dtype or record.weights.dtype).eps
    if min(shares["before"] + shares["after"]) <= rounding:
        why = "the tokens differ by no more than rounding"
        return rows + [uncovered("growth of the diameter", why)]
    pairs = zip(diameters["before"], diameters["after"])
    grown = [new / old for old, new in pairs]
    return rows + [measured("growth of the diameter", grown, worst=min)]


def _spread(x: Tensor) -> tuple[float, float]:
    """The relative residual of tokens, 0 where all are zero, and their diameter.

    They are those of the book's kernels, from one residual: tokens about their mean are
    no longer than their diameter, so nothing cancels in distances by products.
    """
    largest = float(x.abs().amax())
    if not largest:
        return 0.0, 0.0
    unit = 2.0 ** (math.frexp(largest)[1] - 1)  # squares are floats; no digit changes
    scaled = x.double() / unit
    rest = collapse.residual(scaled)
    share = float(rest.norm()) / float(scaled.norm())
    rest = rest.to(x.dtype)
    return share, float(torch.cdist(rest, rest).amax()) * unit


def _factors(
    record: LayerRecord, heads: list[tuple[Numbers, ...]]
) -> tuple[list[Row], float | None, str]:
    """What the heads and the layer can at most do to the diameter; the factor of the
    layer, or None and why.
    """
    names = ("factor of the heads", "factor of the layer")
    if record.w_v is None:
        why = record.missing.get("w_v", "the value maps are not known")
        rows = [uncovered(name, why) for name in names]
        return rows, None, f"layer {record.layer}: {why}"
    norms = _norms(record.w_v, record.w_o).tolist()
    sums = []
    for numbers in zip(*heads):
        sums.append(sum(one.tau * norm for one, norm in zip(numbers, norms)))
    rows = [measured(names[0], sums)]
    why = _beyond(record)
    if why:
        rows.append(uncovered(names[1], why))
        return rows, None, f"layer {record.layer}: {why}"
    claim = "collapse.relative" if record.skip else None
    factors = [total + bool(record.skip) for total in sums]
    rows.append(measured(names[1], factors, claim=claim))
    return rows, max(factors), ""


def _norms(w_v: Tensor, w_o: Tensor) -> Tensor:
    """|W_V W_O|_2 of each head, from the triangles of W_V and W_O': they are as small
    as the head is wide.
    """
    left = torch.linalg.qr(w_v, mode="r").R
    right = torch.linalg.qr(w_o.mT, mode="r").R
    return torch.linalg.matrix_norm(left.double() @ right.double().mT, 2)


def _beyond(record: LayerRecord) -> str:
    """Which part of the layer no factor of the book covers, if there is one."""
    parts = []
    if record.norm is not None:
        parts.append("a norm")
    if record.feed_forward:
        parts.append("a feed-forward part")
    if parts:
        both = " and ".join(parts)
        return f"the layer has {both}, whose factor depends on the input"
    unknown = []
    for name in ("skip", "norm", "feed_forward"):
        why = record.missing.get(name)
        if why is not None and why not in unknown:
            unknown.append(why)
    if record.skip is None and not unknown:
        return "whether the layer has a skip is not known"
    return "; ".join(unknown)


# --- ids and the cache ---


def _id_rows(batch: list[Passage], record: LayerRecord) -> list[Row]:
    """Whether equal tokens in different company are told apart, and by how much."""
    name = "equal tokens not told apart"
    if record.ids is None or record.after is None:
        lacking = "ids" if record.ids is None else "after"
        why = record.missing.get(lacking, f"{lacking} of the tokens are not known")
        return [uncovered(name, why)]
    found = _closest(batch, record.dtype or record.weights.dtype)
    if found is None:
        return [uncovered(name, "no token occurs twice in different company")]
    equal, floats = found
    return [
        measured(name, [equal], over="whole batch"),
        measured("closest equal tokens", [floats], over="whole batch"),
    ]


def _closest(batch: list[Passage], dtype: torch.dtype) -> tuple[int, float] | None:
    """How many pairs of equal tokens in different company have equal states, and how
    many floats lie between the closest two; None if there is no such pair.
    """
    ids = torch.cat([passage.ids for passage in batch])
    states = torch.cat([passage.after for passage in batch])
    sequence = torch.cat(
        [torch.full_like(passage.ids, i) for i, passage in enumerate(batch)]
    )
    place = torch.cat([torch.arange(passage.n).to(ids) for passage in batch])
    common = _common(batch)
    causal = any(passage.causal for passage in batch)
    equal = 0
    closest = math.inf
    tokens, counts = ids.unique(return_counts=True)
    for token in tokens[counts > 1]:
        group = (ids == token).nonzero().flatten()
        i, j = torch.triu_indices(len(group), len(group), 1, device=ids.device)
        i = group[i]
        j = group[j]
        shared = common[sequence[i], sequence[j]]
        longest = common.diagonal()[sequence[i]].maximum(common.diagonal()[sequence[j]])
        same = place[i] < shared if causal else shared == longest
        apart = ~(same & (place[i] == place[j]))
        gaps = _gaps(states, i[apart], j[apart])
        if len(gaps):
            equal += int((gaps == 0).sum())
            closest = min(closest, float(gaps.min()))
    if closest == math.inf:
        return None
    return equal, closest / torch.finfo(dtype).eps


def _gaps(states: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """The largest difference of two tokens over their largest entry, pair by pair; in
    parts, so that no part is large.
    """
    found = []
    size = max(1, 2**22 // states.shape[-1])
    for some_i, some_j in zip(i.split(size), j.split(size)):
        one = states[some_i]
        other = states[some_j]
        scale = one.abs().amax(-1).maximum(other.abs().amax(-1))
        gap = (one - other).abs().amax(-1)
        found.append(gap / scale.clamp_min(torch.finfo(scale.dtype).tiny))
    return torch.cat(found)


def _common(batch: list[Passage]) -> Tensor:
    """How many first tokens two sequences share, (b, b)."""
    b = len(batch)
    common = torch.zeros(b, b, dtype=torch.int64, device=batch[0].ids.device)
    for i, one in enumerate(batch):
        for j, other in enumerate(batch):
            n = min(one.n, other.n)
            same = one.ids[:n] == other.ids[:n]
            common[i, j] = same.cumprod(0).sum()
    return common


def _cache_row(
    batch: list[Passage], record: LayerRecord, vocabulary: int | None
) -> Row:
    """The bits that the layer keeps of each token while it writes, and those that it
    takes to know the token again.
    """
    name = "cache a token"
    if not any(passage.causal for passage in batch):
        why = "without a causal mask nothing is written token by token"
        return uncovered(name, why)
    if record.kv_heads is None or record.head_width is None:
        why = record.missing.get("kv_heads", "the heads of the cache are not known")
        return uncovered(name, why)
    h = record.weights.shape[1]
    dtype = record.dtype or record.weights.dtype
    kept = decoding("gqa", 1, record.head_width, heads=h, groups=record.kv_heads)
    bits = kept.state * torch.finfo(dtype).bits
    asked = None if vocabulary is None else [math.log2(vocabulary)]
    return measured(name, [bits], bounds=asked)
