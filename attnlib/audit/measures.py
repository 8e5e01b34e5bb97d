"""What the book's theorems say of a layer's record: numbers by layer and head, over a
batch, one layer's maps in memory at a time.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attnlib import bridges, collapse
from attnlib._require import finite, require
from attnlib.audit.heads import CHEAP, SHARES, guaranteed, of_heads
from attnlib.audit.passages import Passage, passages
from attnlib.audit.records import LayerRecord
from attnlib.efficient.decoding import decoding
from attnlib.patterns.bits import bit_product, closure, pack, unpack

Row = dict[str, Any]

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
        self._hearing: list[dict[float, _Hearing]] = []
        self._factors: list[float | None] = []
        self._whys: list[str] = []
        self._last: LayerRecord | None = None
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
        self._deaf = self._deaf or _deaf(batch, record)
        hears = not _deaf(batch, record)
        found = []
        for passage in batch:
            found.append(of_heads(passage, record, exact=self.exact, hears=hears))
        tau = [numbers["tau"] for numbers in found]
        self._add(record, _head_rows(batch, found, record, self.exact))
        self._hear(record, batch, found)
        self._add(record, _state_rows(batch, record))
        self._add(record, self._factor_rows(record, tau))
        self._add(record, _id_rows(batch, record))
        self._add(record, _cache_rows(batch, record, self.vocabulary))
        self._last = _without_tensors(record)

    def finish(self) -> list[Row]:
        """All rows, those of the whole network last.

        Returns:
            plain dicts, one a number.

        Raises:
            ValueError: if no layer was seen.
        """
        require(self._last is not None, "no layer was seen: nothing to report")
        self._add(self._last, self._network_rows(), network=True)
        return self.rows

    def _add(
        self, record: LayerRecord, rows: Sequence[Row], *, network: bool = False
    ) -> None:
        for row in rows:
            layer = None if network else record.layer
            self.rows.append({"layer": layer, "head": None, **row, **_dtype(record)})

    def _factor_rows(self, record: LayerRecord, tau: list[Tensor]) -> list[Row]:
        rows, factor, why = _factors(record, tau)
        self._factors.append(factor)
        self._whys.append(why)
        return rows

    def _hear(
        self,
        record: LayerRecord,
        batch: list[Passage],
        found: list[dict[str, Any]],
    ) -> None:
        """Whom each token has heard of by now, if all heads keep their patterns."""
        if not self._hearing:
            for passage in batch:
                hearing = {share: _Hearing(passage.n) for share in SHARES}
                self._hearing.append(hearing)
        if self._deaf == NO_SKIP:
            about = {"claim": "patterns.universal", "unit": "share"}
            self._add(record, [uncovered("pairs heard", NO_SKIP, **about)])
            return
        for share in SHARES:
            pairs = []
            last = []
            for hearing, numbers in zip(self._hearing, found):
                pattern = numbers[f"pattern {share}"].any(0)
                heard = hearing[share].listen(pattern.cpu())
                pairs.append(float(heard.double().mean()))
                last.append(float(heard[-1].double().mean()))
            about = {"claim": "patterns.universal", "unit": "share", "worst": min}
            rows = [measured(f"pairs heard, {share:.0%}", pairs, **about)]
            if self._deaf == CAUSAL:
                name = f"heard by the last token, {share:.0%}"
                rows.append(measured(name, last, **about))
            self._add(record, rows)

    def _network_rows(self) -> list[Row]:
        """What the layers that were looked at do together."""
        rows = [self._product()]
        for share in SHARES:
            hearing = [each[share] for each in self._hearing]
            rows.append(_universal(hearing, share, self._deaf))
            rows.append(_network_hops(hearing, share, self._deaf))
        return rows

    def _product(self) -> Row:
        name = "factor of all layers"
        about = {"claim": "synthesis.depth", "unit": "factor"}
        if None in self._factors:
            layer = self._factors.index(None)
            return uncovered(name, self._whys[layer], **about)
        return measured(name, [math.prod(self._factors)], **about)


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


def _without_tensors(record: LayerRecord) -> LayerRecord:
    """What is still asked of a layer when its maps are gone."""
    nothing = record.weights[:0]
    return LayerRecord(
        layer=record.layer,
        layers=record.layers,
        name=record.name,
        weights=nothing.clone(),
        dtype=record.dtype,
    )


def _dtype(record: LayerRecord) -> Row:
    """In which numbers the model computed, and in which it was measured."""
    measured = str(record.weights.dtype).removeprefix("torch.")
    given = str(record.dtype or record.weights.dtype).removeprefix("torch.")
    return {"dtype": given, "measured_in": measured}


# --- rows ---


def measured(
    quantity: str,
    values: Sequence[float | int],
    *,
    claim: str | None,
    unit: str,
    head: int | None = None,
    bounds: Sequence[float | int] | None = None,
    worst=max,
    over: str = "worst of batch",
    why: str = "",
) -> Row:
    """A number over the batch: its worst, its mean, and the bound where it is worst.

    Args:
        quantity: its name.
        values: one a sequence.
        claim: id of the claim that says what follows; None for what is only measured.
        unit: of the values.
        head: number of the head, or None.
        bounds: what the claim promises, one a sequence.
        worst: max or min.
        over: what the value was taken over.
        why: a remark.

    Returns:
        a plain dict.
    """
    value = worst(values)
    bound = None if bounds is None else bounds[list(values).index(value)]
    return {
        "head": head,
        "quantity": quantity,
        "value": float(value),
        "mean": math.fsum(values) / len(values),
        "bound": None if bound is None else float(bound),
        "claim": claim,
        "covered": True,
        "why": why,
        "unit": unit,
        "over": over,
    }


def uncovered(
    quantity: str, why: str, *, claim: str | None, unit: str, head: int | None = None
) -> Row:
    """A number that no theorem gives here.

    Args:
        quantity: its name.
        why: what stands in the way.
        claim: id of the claim that would have given it.
        unit: of the number.
        head: number of the head, or None.

    Returns:
        a plain dict, whose value is None.
    """
    return {
        "head": head,
        "quantity": quantity,
        "value": None,
        "mean": None,
        "bound": None,
        "claim": claim,
        "covered": False,
        "why": why,
        "unit": unit,
        "over": "",
    }


# --- heads ---


def _head_rows(
    batch: list[Passage],
    found: list[dict[str, Any]],
    record: LayerRecord,
    exact: bool,
) -> list[Row]:
    deaf = _deaf(batch, record)
    rows = []
    for head in range(len(found[0]["tau"])):
        rows += _contraction(batch, found, head)
        rows += _sharp(found, head)
        rows += _ranks(batch, found, head)
        rows += _connections(found, deaf, head)
    masked = any(passage.allowed is not None for passage in batch)
    if masked:
        unit = "total variation"
        rows.append(uncovered("tanh R", MASKED, claim="synthesis.logits", unit=unit))
    if found[0]["energy"] is None or not (exact or _all_cheap(batch)):
        n = max(passage.n for passage in batch)
        why = (
            f"not computed: {n} tokens are more than {CHEAP}, and it takes an "
            "eigenvalue problem a head; ask for exact=True"
        )
        unit = "singular values"
        rows.append(uncovered("energy rank", why, claim="lowrank.svd", unit=unit))
    if deaf:
        rows.append(uncovered("hops", deaf, claim=_CLAIMS[deaf], unit="layers"))
    return rows


def _all_cheap(batch: list[Passage]) -> bool:
    return all(passage.n <= CHEAP for passage in batch)


def _contraction(batch: list[Passage], found, head: int) -> list[Row]:
    """tau, R, and what R alone allows."""
    tau = [float(numbers["tau"][head]) for numbers in found]
    about = {"head": head, "claim": "synthesis.logits"}
    variation = {**about, "unit": "total variation"}
    radii = [numbers["radius"] for numbers in found]
    if any(radius is None for radius in radii):
        return [
            measured("tau", tau, **variation),
            uncovered("R", UNDERFLOW, **about, unit="logits"),
        ]
    radii = [float(radius[head]) for radius in radii]
    rows = [measured("R", radii, **about, unit="logits")]
    if any(passage.allowed is not None for passage in batch):
        return [measured("tau", tau, **variation), *rows]
    allowed = []
    for passage, radius in zip(batch, radii):
        n = max(2, passage.n)
        allowed.append(bridges.largest_dobrushin(n, radius))
    rows.append(measured("tau", tau, bounds=allowed, **variation))
    rows.append(measured("largest tau", allowed, **variation))
    rows.append(
        measured("tanh R", [math.tanh(radius) for radius in radii], **variation)
    )
    return rows


def _sharp(found, head: int) -> list[Row]:
    """The sharpness of the median row, its largest weight, and what beta* promises."""
    beta = torch.cat([numbers["sharpness"][head] for numbers in found])
    weights = torch.cat([numbers["rows"][head] for numbers in found])
    counts = torch.cat([numbers["allowed"][head] for numbers in found])
    middle = int(beta.argsort()[(len(beta) - 1) // 2])
    value = float(beta[middle])
    about = {"head": head, "claim": "after.sharpness"}
    if value == math.inf:
        why = "the two largest logits of the median row are equal"
        return [uncovered("beta*", why, unit="factor", **about)]
    about["over"] = "median row of the batch"
    weight = float(weights[middle])
    promised = guaranteed(value, int(counts[middle]))
    return [
        measured("beta*", [value], unit="factor", **about),
        measured("largest weight", [weight], bounds=[promised], unit="share", **about),
    ]


def _ranks(batch: list[Passage], found, head: int) -> list[Row]:
    """The fewest singular values, and how far every matrix of a rank must stay."""
    rows = []
    if all(numbers["energy"] is not None for numbers in found):
        for share in SHARES:
            ranks = [int(numbers["energy"][share][head]) for numbers in found]
            about = {"head": head, "claim": "lowrank.svd", "unit": "singular values"}
            rows.append(measured(f"energy rank, {share:.0%}", ranks, **about))
    for name, part in RANKS.items():
        floors = []
        for passage, numbers in zip(batch, found):
            r = 1 if part is None else passage.n // part
            if 1 <= r < passage.n:
                floors.append(float(numbers["floors"][head][r]))
        if floors:
            about = {"head": head, "claim": "synthesis.rank", "unit": "row sum"}
            rows.append(measured(f"floor, rank {name}", floors, **about))
    return rows


def _connections(found, deaf: str, head: int) -> list[Row]:
    """The fewest connections that hold the mass, and how many layers of them it takes
    until everyone has heard of everyone.
    """
    rows = []
    for share in SHARES:
        parts = []
        for numbers in found:
            most = int(numbers["allowed"][head].sum())
            parts.append(int(numbers[f"connections {share}"][head]) / most)
        about = {"head": head, "claim": None}
        name = f"connections, {share:.0%}"
        rows.append(measured(name, parts, unit="share of allowed pairs", **about))
        if deaf:
            continue
        hops = [numbers[f"hops {share}"][head] for numbers in found]
        rows.append(_hops_row(f"hops, {share:.0%}", hops, **about))
    return rows


def _hops_row(quantity: str, hops: list[int | None], **about) -> Row:
    """The largest number of hops in the batch, or why there is none."""
    about = {**about, "claim": "patterns.universal", "unit": "layers"}
    if 0 in hops:
        row = measured(quantity, [math.inf], why="never", **about)
    elif None in hops:
        row = measured(
            quantity, [math.inf], why="not within the layers of the network", **about
        )
    else:
        return measured(quantity, hops, **about)
    return {**row, "value": None, "mean": None}


# --- states ---


def _state_rows(batch: list[Passage], record: LayerRecord) -> list[Row]:
    """How different the tokens are before and after."""
    rows = []
    left = {}
    diameters = {}
    for when in ("before", "after"):
        states = [getattr(passage, when) for passage in batch]
        sizes = {"claim": None, "unit": "share"}
        if states[0] is None:
            why = record.missing.get(when, f"the states {when} the layer are not known")
            rows.append(uncovered(f"relative residual {when}", why, **sizes))
            continue
        shares = [_share(x) for x in states]
        left[when] = min(shares)
        diameters[when] = [_diameter(x) for x in states]
        rows.append(measured(f"relative residual {when}", shares, worst=min, **sizes))
        sizes = {"claim": None, "unit": "length"}
        found = diameters[when]
        rows.append(measured(f"diameter {when}", found, worst=min, **sizes))
    if len(diameters) == 2:
        name = "growth of the diameter"
        about = {"claim": None, "unit": "factor"}
        rounding = 16 * torch.finfo(record.dtype or record.weights.dtype).eps
        if min(left.values()) <= rounding:
            why = "the tokens differ by no more than rounding"
            rows.append(uncovered(name, why, **about))
        else:
            pairs = zip(diameters["before"], diameters["after"])
            grown = [new / old for old, new in pairs]
            rows.append(measured(name, grown, worst=min, **about))
    return rows


def _share(x: Tensor) -> float:
    """The relative residual; 0 for tokens that are all zero."""
    if not bool(x.any()):
        return 0.0
    return float(collapse.relative_residual(x.double()))


def _diameter(x: Tensor) -> float:
    """collapse.diameter, by products: about their mean the tokens are no longer than
    their diameter, so that nothing cancels in the largest distance.
    """
    rest = collapse.residual(x.double()).to(x.dtype)
    return float(torch.cdist(rest, rest).amax())


def _factors(
    record: LayerRecord, tau: list[Tensor]
) -> tuple[list[Row], float | None, str]:
    """What the heads and the layer can at most do to the diameter; the factor of the
    layer, or None and why.
    """
    heads = {"claim": "synthesis.logits", "unit": "factor"}
    layer = {"claim": "synthesis.depth", "unit": "factor"}
    if record.w_v is None:
        why = record.missing.get("w_v", "the value maps are not known")
        rows = [
            uncovered("factor of the heads", why, **heads),
            uncovered("factor of the layer", why, **layer),
        ]
        return rows, None, f"layer {record.layer}: {why}"
    norms = _norms(record.w_v, record.w_o)
    sums = [float((t.double() * norms).sum()) for t in tau]
    rows = [measured("factor of the heads", sums, **heads)]
    why = _beyond(record)
    if why:
        rows.append(uncovered("factor of the layer", why, **layer))
        return rows, None, f"layer {record.layer}: {why}"
    claim = "collapse.relative" if record.skip else "synthesis.depth"
    factors = [total + bool(record.skip) for total in sums]
    rows.append(measured("factor of the layer", factors, claim=claim, unit="factor"))
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
    unknown = []
    for name in ("skip", "norm", "feed_forward"):
        why = record.missing.get(name)
        if why is not None and why not in unknown:
            unknown.append(why)
    if record.skip is None and not unknown:
        unknown.append("whether the layer has a skip is not known")
    parts = []
    if record.norm is not None:
        parts.append("a norm")
    if record.feed_forward:
        parts.append("a feed-forward part")
    if parts:
        both = " and ".join(parts)
        return f"the layer has {both}, whose factor depends on the input"
    return "; ".join(unknown)


# --- ids and the cache ---


def _id_rows(batch: list[Passage], record: LayerRecord) -> list[Row]:
    """Whether equal tokens in different company are told apart, and by how much."""
    names = ("equal tokens not told apart", "closest equal tokens")
    about = {"claim": None}
    if record.ids is None or record.after is None:
        lacking = "ids" if record.ids is None else "after"
        why = record.missing.get(lacking, f"{lacking} of the tokens are not known")
        return [uncovered(names[0], why, unit="pairs", **about)]
    found = _closest(batch, record.dtype or record.weights.dtype)
    if found is None:
        why = "no token occurs twice in different company"
        return [uncovered(names[0], why, unit="pairs", **about)]
    equal, floats = found
    return [
        measured(names[0], [equal], unit="pairs", over="whole batch", **about),
        measured(names[1], [floats], unit="floats", over="whole batch", **about),
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
    pairs = 0
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
        i = i[apart]
        j = j[apart]
        if len(i) == 0:
            continue
        pairs += len(i)
        gaps = _gaps(states, i, j)
        equal += int((gaps == 0).sum())
        closest = min(closest, float(gaps.min()))
    if pairs == 0:
        return None
    return equal, closest / torch.finfo(dtype).eps


def _gaps(states: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """The largest difference of two tokens over their largest entry, pair by pair; in
    parts, so that no part is large.
    """
    found = []
    size = max(1, 2**22 // states.shape[-1])
    for start in range(0, len(i), size):
        one = states[i[start : start + size]]
        other = states[j[start : start + size]]
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


def _cache_rows(
    batch: list[Passage], record: LayerRecord, vocabulary: int | None
) -> list[Row]:
    """The bits that the layer keeps of each token while it writes, and those that it
    takes to know the token again.
    """
    name = "cache a token"
    about = {"claim": "efficient.state", "unit": "bits"}
    if not any(passage.causal for passage in batch):
        why = "without a causal mask nothing is written token by token"
        return [uncovered(name, why, **about)]
    if record.kv_heads is None or record.head_width is None:
        why = record.missing.get("kv_heads", "the heads of the cache are not known")
        return [uncovered(name, why, **about)]
    h = record.weights.shape[1]
    dtype = record.dtype or record.weights.dtype
    kept = decoding("gqa", 1, record.head_width, heads=h, groups=record.kv_heads)
    bits = kept.state * torch.finfo(dtype).bits
    asked = None if vocabulary is None else [math.log2(vocabulary)]
    return [measured(name, [bits], bounds=asked, **about)]


# --- the network ---


def _universal(hearing: list[_Hearing], share: float, deaf: str) -> Row:
    """Whether the union over heads and layers is strongly connected."""
    name = f"can hear everything, {share:.0%}"
    about = {"claim": "patterns.universal", "unit": "yes or no"}
    if deaf:
        return uncovered(name, deaf, claim=_CLAIMS[deaf], unit="yes or no")
    answers = [bool(closure(each.union).all()) for each in hearing]
    return measured(name, answers, worst=min, **about)


def _network_hops(hearing: list[_Hearing], share: float, deaf: str) -> Row:
    """After how many layers of the network all tokens have heard of all others."""
    name = f"hops of the network, {share:.0%}"
    if deaf:
        return uncovered(name, deaf, claim=_CLAIMS[deaf], unit="layers")
    return _hops_row(name, [each.hops for each in hearing])
