"""What the book's theorems say of a layer's record: numbers by layer and head, over a
batch, one layer's maps in memory at a time.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnlib import bridges, collapse
from attnlib._require import finite, require
from attnlib.audit.heads import CHEAP, Numbers, guaranteed, label, of_heads
from attnlib.audit.records import LayerRecord, Passage, passages
from attnlib.patterns._bits import bit_product, closure, pack, unpack

Row = dict[str, Any]

# Claim and unit of each quantity, by how its name begins; without a claim, nothing
# follows from it by a theorem.
QUANTITIES = {
    "R": ("synthesis.logits", "logits"),
    "tau": ("synthesis.logits", "total variation"),
    "largest tau": ("synthesis.logits", "total variation"),
    "beta*": ("after.sharpness", "factor"),
    "largest weight": ("after.sharpness", "share"),
    "energy rank": ("lowrank.svd", "singular values"),
    "floor": ("synthesis.rank", "row sum"),
    "connections": (None, "share of allowed pairs"),
    "looks at": (None, "share"),
    "top key": (None, "share"),
    "value of the top key": ("escaping.sink", "times the median value"),
    "hops": ("patterns.universal", "layers"),
    "pairs heard": ("patterns.universal", "share"),
    "heard by the last token": ("patterns.universal", "share"),
    "can hear everything": ("patterns.universal", "yes or no"),
    "relative residual": (None, "share"),
    "heaviest token": (None, "share"),
    "diameter": (None, "length"),
    "growth of the diameter": (None, "factor"),
    "factor of the heads": ("synthesis.logits", "factor"),
    "factor of": ("synthesis.depth", "factor"),
    "paths": ("paths.sums", "size over that of the output"),
    "cache a token": ("efficient.state", "bits"),
}
UNIT = ", tokens at unit length"

MASKED = "a mask: Theorem 24.4 compares rows that may attend to the same tokens"
UNDERFLOW = (
    "some weights of allowed pairs are exactly zero, so the logits cannot be had back"
)
CAUSAL = "no causal pattern lets all tokens hear all others (Proposition 12.11)"
NO_SKIP = "Theorem 12.4 asks for a skip: without it a token forgets what it heard"
_CLAIMS = {CAUSAL: "patterns.causal", NO_SKIP: "patterns.universal"}


class Collector:
    """Measures each record that it is called with, and keeps numbers alone.

    Args:
        exact: also solve an eigenvalue problem a head for more than 256 tokens.
        spell: the text of a token by its number, or None.
        special: numbers of tokens that stand for no text.
    """

    def __init__(
        self,
        *,
        exact: bool = False,
        spell: Callable[[int], str] | None = None,
        special: Sequence[int] = (),
    ):
        self.exact = exact
        self.spell = spell
        self.special = set(special)
        self.rows: list[Row] = []
        self.size: tuple[int, int] | None = None  # texts, and tokens of the longest
        self._dtype: Row = {}  # of the last layer
        self._hearing: list[_Hearing] = []
        self._factors: list[float | None] = []
        self._whys: list[str] = []
        self._states: list[Tensor] = []  # that were measured last
        self._measures: tuple[list, list, list] = ([], [], [])
        self._deaf = ""  # why no number of layers lets all hear all, if so

    def __call__(self, record: LayerRecord) -> None:
        """Measure one layer.

        Args:
            record: of the layer.

        Raises:
            ValueError: if tokens attend to padding, a number is NaN or infinite, or the
                layer has other tokens than the one before.
        """
        finite(before=record.before, after=record.after)
        size = tuple(record.weights.shape[::2])
        self.size = self.size or size
        require(
            self.size == size,
            f"{record.name} attends among {size[1]} tokens of {size[0]} sequences, the "
            f"layers before it among {self.size[1]} of {self.size[0]}: these are no "
            "layers of one stack. Audit the parts of the model by themselves, or one "
            "layer at a time, layers=[0]",
        )
        batch = list(passages(record))
        deaf = _deaf(batch, record)
        self._deaf = self._deaf or deaf
        found = []
        for passage in batch:
            marks = self._marks(passage)
            found.append(of_heads(passage, record, marks, exact=self.exact))
        heads = list(zip(*found))  # of each head, its numbers on each sequence
        factor_rows, factor, why = _factors(record, heads)
        self._factors.append(factor)
        self._whys.append(why)
        self._dtype = _dtype(record)
        self._add(record.layer, self._head_rows(batch, heads))
        self._add(record.layer, self._heard_rows(batch, found))
        self._add(record.layer, self._state_rows(batch, record))
        self._add(record.layer, factor_rows)
        self._add(record.layer, [_cache_row(batch, record)])

    def finish(self, partial: str = "") -> list[Row]:
        """All rows, those of the whole network last.

        Args:
            partial: why the layers that were measured are not the whole network, if so;
                then nothing is said of it.

        Returns:
            plain dicts, one a number.

        Raises:
            ValueError: if no layer was seen.
        """
        require(self._dtype, "no layer was seen: nothing to report")
        whole = ("factor of all layers", "can hear everything, 90%")
        if partial:
            heard = ("pairs heard", "heard by")
            self.rows = [r for r in self.rows if not r["quantity"].startswith(heard)]
            names = ["pairs heard", *whole, "hops of the network, 90%"]
            self._add(None, [uncovered(name, partial) for name in names])
        else:
            self._add(None, self._network_rows(*whole))
        return self.rows

    def _add(self, layer: int | None, rows: Sequence[Row]) -> None:
        for row in rows:
            self.rows.append({"layer": layer, **row, **self._dtype})

    def _name(self, passage: Passage, token: int) -> str:
        """A token as a reader knows it: its place, and its text."""
        if passage.ids is None or self.spell is None:
            return f"{token}"
        return f"{token} {self.spell(int(passage.ids[token]))!r}"

    def _marks(self, passage: Passage) -> Tensor | None:
        """Which tokens are delimiters."""
        if passage.ids is None or self.spell is None:
            return None
        found = []
        for number in passage.ids.tolist():
            word = any(letter.isalnum() for letter in self.spell(number))
            found.append(number in self.special or not word)
        return torch.tensor(found, device=passage.p.device)

    def _head_rows(
        self, batch: list[Passage], heads: list[tuple[Numbers, ...]]
    ) -> list[Row]:
        """The rows of each head, from its numbers on each sequence."""
        rows = []
        masked = any(passage.allowed is not None for passage in batch)
        for head, numbers in enumerate(heads):
            rows += self._looks_rows(batch, numbers, head)
            rows += _contraction(batch, numbers, head, masked)
            rows += _sharp(numbers, head)
            rows += _ranks(numbers, head)
            pairs = [one.pairs for one in numbers]
            rows.append(measured("connections, 90%", pairs, head=head))
        if masked:
            rows += [uncovered(name, MASKED) for name in ("R", "largest tau")]
        if any(one.energy is None for one in heads[0]):
            n = max(passage.n for passage in batch)
            why = (
                f"not computed: {n} tokens are more than {CHEAP}, and it takes an "
                "eigenvalue problem a head; ask for exact=True"
            )
            rows.append(uncovered("energy rank", why))
        return rows

    def _looks_rows(
        self, batch: list[Passage], numbers: Sequence[Numbers], head: int
    ) -> list[Row]:
        """Where a head looks: its label, its leading token, what that token says."""
        word = label([one.looks for one in numbers])
        name = "sink" if word == "content" else word
        shares = [one.looks[name] for one in numbers]
        about = {"head": head, "worst": min, "over": "mean row, least of batch"}
        looks = measured("looks at", shares, word=word, **about)
        tops = [one.looks["sink"] for one in numbers]
        least = tops.index(min(tops))
        name = self._name(batch[least], numbers[least].key)
        rows = [looks, measured("top key", tops, word=name, **about)]
        lengths = [one.key_value for one in numbers]
        if None not in lengths:
            quantity = "value of the top key"
            rows.append(measured(quantity, lengths, head=head, word=name))
        return rows

    def _heard_rows(
        self, batch: list[Passage], found: list[list[Numbers]]
    ) -> list[Row]:
        """Whom each token has heard of by now, if all heads keep their patterns."""
        if not self._hearing:
            self._hearing = [_Hearing(passage.n) for passage in batch]
        if self._deaf == NO_SKIP:
            return [uncovered("pairs heard", NO_SKIP)]
        pairs = []
        last = []
        for hearing, heads in zip(self._hearing, found):
            pattern = functools.reduce(torch.logical_or, [one.pattern for one in heads])
            heard = hearing.listen(pattern.cpu()).double()
            pairs.append(float(heard.mean()))
            last.append(float(heard[-1].mean()))
        if self._deaf == CAUSAL:
            return [measured("heard by the last token, 90%", last, worst=min)]
        return [measured("pairs heard, 90%", pairs, worst=min)]

    def _state_rows(self, batch: list[Passage], record: LayerRecord) -> list[Row]:
        """How different the tokens are before and after, as they are and each at unit
        length, so that no long one hides the others.
        """
        rows = []
        kept = {}
        for when in ("before", "after"):
            states = [getattr(passage, when) for passage in batch]
            if states[0] is None:
                unknown = f"the states {when} the layer are not known"
                why = record.missing.get(when, unknown)
                rows.append(uncovered(f"relative residual {when}", why))
                continue
            spreads, units, heaviest = kept[when] = self._measure(states)
            for name, each in (("", spreads), (UNIT, units)):
                shares, diameters = zip(*each)
                said = f"{when}{name}"
                rows.append(measured(f"relative residual {said}", shares, worst=min))
                rows.append(measured(f"diameter {said}", diameters, worst=min))
            shares = [share for share, _ in heaviest]
            most = shares.index(max(shares))
            word = self._name(batch[most], heaviest[most][1])
            rows.append(measured(f"heaviest token {when}", shares, word=word))
        if len(kept) < 2:
            return rows
        before, after = kept["before"][0], kept["after"][0]
        rounding = 16 * torch.finfo(record.dtype or record.weights.dtype).eps
        if min(share for share, _ in before + after) <= rounding:
            why = "the tokens differ by no more than rounding"
            return rows + [uncovered("growth of the diameter", why)]
        grown = [new / old for (_, old), (_, new) in zip(before, after)]
        return rows + [measured("growth of the diameter", grown, worst=min)]

    def _measure(self, states: list[Tensor]) -> tuple[list, list, list]:
        """Spreads, spreads at unit length, and heaviest tokens; what leaves a layer
        mostly enters the next one, and is not measured twice.
        """
        known = len(self._states) == len(states)
        if known and all(map(torch.equal, self._states, states)):
            return self._measures
        scaled = [_scaled(x) for x in states]
        spreads = []
        units = []
        for x, (y, unit) in zip(states, scaled):
            lengths = y.norm(dim=-1, keepdim=True)
            units.append(
                _spread(y / lengths.masked_fill(lengths == 0, 1), 1.0, x.dtype)
            )
            spreads.append(_spread(y, unit, x.dtype))
        self._states = states
        self._measures = spreads, units, [_heaviest(y) for y, _ in scaled]
        return self._measures

    def _network_rows(self, factor: str, everything: str) -> list[Row]:
        """What all layers do together."""
        if None in self._factors:
            rows = [uncovered(factor, self._whys[self._factors.index(None)])]
        else:
            rows = [measured(factor, [math.prod(self._factors)])]
        hops = "hops of the network, 90%"
        if self._deaf:
            about = {"claim": _CLAIMS[self._deaf]}
            names = (everything, hops)
            return rows + [uncovered(name, self._deaf, **about) for name in names]
        answers = [bool(closure(each.union).all()) for each in self._hearing]
        rows.append(measured(everything, answers, worst=min))
        layers = [each.hops for each in self._hearing]
        if None not in layers:
            return rows + [measured(hops, layers)]
        row = uncovered(hops, "not within the layers of the network")
        return rows + [row | {"covered": True, "over": "worst of batch"}]


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
        "word": "",
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
    values: Sequence[float],
    *,
    head: int | None = None,
    word: str = "",
    claim: str | None = None,
    bounds: Sequence[float] | None = None,
    worst=max,
    over: str = "worst of batch",
) -> Row:
    """A number over the batch: its worst, its mean, and the bound where it is worst.

    Args:
        quantity: its name, which begins with one of QUANTITIES.
        values: one a sequence.
        head: number of the head, or None.
        word: what the number is of: a token, or the label of a head.
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
    row["word"] = word
    if bounds is not None:
        row["bound"] = float(bounds[list(values).index(value)])
    return row


# --- heads ---


def _contraction(
    batch: list[Passage], numbers: Sequence[Numbers], head: int, masked: bool
) -> list[Row]:
    """tau, R, and what R alone allows."""
    tau = [one.tau for one in numbers]
    most = [one.tau_most for one in numbers]
    about = {"head": head}
    if tau != most:  # a row pair was found, and not each was looked at
        about |= {"bounds": most, "over": "largest found; the bound is certain"}
    if masked:
        return [measured("tau", tau, **about)]
    radii = [one.radius for one in numbers]
    if None in radii:
        return [measured("tau", tau, **about), uncovered("R", UNDERFLOW, head=head)]
    allowed = []
    for passage, radius in zip(batch, radii):
        allowed.append(bridges.largest_dobrushin(max(2, passage.n), radius))
    return [
        measured("R", radii, head=head),
        measured("tau", tau, **{"bounds": allowed, **about}),
        measured("largest tau", allowed, head=head),
    ]


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


def _ranks(numbers: Sequence[Numbers], head: int) -> list[Row]:
    """The fewest singular values, and how far every matrix of rank n/4 must stay."""
    rows = []
    ranks = [one.energy for one in numbers]
    if None not in ranks:
        rows.append(measured("energy rank, 90%", ranks, head=head))
    floors = [one.floor for one in numbers if one.floor is not None]
    if floors:
        rows.append(measured("floor, rank n/4", floors, head=head))
    return rows


# --- states ---


def _scaled(x: Tensor) -> tuple[Tensor, float]:
    """Tokens over a power of two, so that squares are floats and no digit changes."""
    largest = float(x.abs().amax())
    unit = 2.0 ** (math.frexp(largest)[1] - 1) if largest else 1.0
    return x.double() / unit, unit


def _spread(scaled: Tensor, unit: float, dtype: torch.dtype) -> tuple[float, float]:
    """The relative residual of tokens, 0 where all are zero, and their diameter.

    They are those of the book's kernels, from one residual: tokens about their mean are
    no longer than their diameter, so nothing cancels in distances by products.
    """
    size = float(scaled.norm())
    if not size:
        return 0.0, 0.0
    rest = collapse.residual(scaled)
    share = float(rest.norm()) / size
    rest = rest.to(dtype)
    return share, float(torch.cdist(rest, rest).amax()) * unit


def _heaviest(scaled: Tensor) -> tuple[float, int]:
    """The largest share of the sum of squares that one token has, and which."""
    squares = scaled.square().sum(-1)
    token = int(squares.argmax())
    whole = float(squares.sum())
    return float(squares[token]) / whole if whole else 0.0, token


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
        sums.append(sum(one.tau_most * norm for one, norm in zip(numbers, norms)))
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


def _cache_row(batch: list[Passage], record: LayerRecord) -> Row:
    """The bits that the layer keeps of each token while it writes."""
    name = "cache a token"
    if not any(passage.causal for passage in batch):
        why = "without a causal mask nothing is written token by token"
        return uncovered(name, why)
    if record.kv_heads is None or record.head_width is None:
        why = record.missing.get("kv_heads", "the heads of the cache are not known")
        return uncovered(name, why)
    dtype = record.dtype or record.weights.dtype
    bits = record.kv_heads * record.head_width * torch.finfo(dtype).bits
    return measured(name, [bits])
