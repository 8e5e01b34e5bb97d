"""Labels of integers by a deep ReLU network with few, long weights: exact in integers;
public under attnlib.memorize.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from attnlib._require import require

Unit = tuple[
    int, tuple[tuple[int, int], ...]
]  # bias, and (place in the layer before, weight)


class Deep(NamedTuple):
    """A ReLU network on the integers: each layer holds units relu(bias + sum of weight
    * value), the last is linear.

    Args:
        layers: lists of units, each with its bias and pairs (place in the layer before,
            weight), no weight zero.

    Page:
        notebooks/one_layer_memorization/memorization
    """

    layers: list[list]

    @property
    def parameters(self) -> int:
        """Weights and biases that are not zero."""
        return sum(
            (bias != 0) + len(weights)
            for layer in self.layers
            for bias, weights in layer
        )

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @property
    def bits(self) -> int:
        """Bits of the longest weight or bias."""
        return max(
            abs(v).bit_length()
            for layer in self.layers
            for b, ws in layer
            for v in (b, *(w for _, w in ws))
        )

    def __call__(self, t: int) -> int:
        """The network at the integer t, every unit as written."""
        values = [t]
        for number, layer in enumerate(self.layers, 1):
            sums = [
                bias + sum(w * values[i] for i, w in weights) for bias, weights in layer
            ]
            values = sums if number == len(self.layers) else [max(s, 0) for s in sums]
        return values[0]


def fit_deep(
    ids: Sequence[int], labels: Sequence[int], *, block: int | None = None
) -> Deep:
    """A network whose parameters grow like the square root of the number of ids, for
    ids of a fixed number of bits.

    The ids, cut to the r bits that tell them apart, are packed with their labels of l
    bits into one long integer for each block of m ids. A first layer looks up the
    integer of the block of t; then one layer a bit takes it apart, compares, and keeps
    the label of the id that agrees.

        parameters <= 2 sqrt(6 D K) + K + 10,   K = 18 (r + l) + 40

    Args:
        ids: increasing integers from 0 on.
        labels: integers from 0 on, as many.
        block: m, by default the best.

    Returns:
        Deep, exact at all ids.

    Raises:
        ValueError: for ids that do not increase or are negative, negative labels,
            unlike lengths, block below 1.

    Cost:
        O(D / m + m (r + l)) units; integers of m (r + l) bits.

    Source:
        after Vardi, Yehudai and Shamir 2022 (recalled); ours compares exactly, as its
        inputs are integers.

    Claim:
        memorize.deep

    Page:
        notebooks/one_layer_memorization/memorization
    """
    require(
        len(ids) == len(labels) and ids,
        f"ids and labels must be as many and at least one, got {len(ids)} and {len(labels)}",
    )
    ids, labels = [int(t) for t in ids], [int(y) for y in labels]
    require(
        ids[0] >= 0 and all(a < b for a, b in zip(ids, ids[1:])),
        "ids must be increasing integers from 0 on",
    )
    require(min(labels) >= 0, f"labels must be integers from 0 on, got {min(labels)}")
    cut, r, b = _sizes(ids, labels)
    m = (
        math.ceil(math.sqrt(6 * len(ids) / (18 * (r + b) + 40)))
        if block is None
        else block
    )
    require(m >= 1, f"block must be at least 1, got {block}")
    blocks = [range(i, min(i + m, len(ids))) for i in range(0, len(ids), m)]
    net = _Builder()
    codes = [_pack([(ids[j] >> cut, labels[j]) for j in js], m, r, b) for js in blocks]
    t, c = net.layer(*_lookup([ids[js[0]] for js in blocks], codes, net))
    out, place = {}, m * (r + b)
    for _ in range(m):
        t, c, out, word, place = _read(net, t, c, out, [], r, place)
        u = _add(t, word, -(1 << cut))
        t, c, out, p, q, x, y = net.layer(
            t,
            c,
            out,
            _add(u, {None: 1}),
            u,
            _add(u, {None: 1 - (1 << cut)}),
            _add(u, {None: -(1 << cut)}),
        )
        same = _add(_add(p, q, -1), _add(y, x, -1))
        t, c, out, word, place, same = _read(net, t, c, out, [same], b, place)
        chosen = _add(_add(word, same, 1 << b), {None: -(1 << b)})
        t, c, out, chosen = net.layer(t, c, out, chosen)
        out = _add(out, chosen)
    net.layer(out)
    return Deep(net.layers)


Affine = dict  # place in the last layer, or None for the constant -> factor


class _Builder:
    """Layers of units; what is between two layers is an affine expression in the units
    of the last one.
    """

    def __init__(self):
        self.layers: list[list[Unit]] = []

    def layer(self, *values: Affine) -> list[Affine]:
        """A layer that takes relu of each value; zero needs no unit."""
        kept = [v for v in values if v]
        self.layers.append(
            [
                (
                    v.get(None, 0),
                    tuple((i, w) for i, w in v.items() if i is not None and w),
                )
                for v in kept
            ]
        )
        places = iter(range(len(kept)))
        return [{next(places): 1} if v else {} for v in values]


def _add(a: Affine, b: Affine, factor: int = 1) -> Affine:
    both = {i: a.get(i, 0) + factor * b.get(i, 0) for i in {**a, **b}}
    return {i: w for i, w in both.items() if w}


def _sizes(ids: list[int], labels: list[int]) -> tuple[int, int, int]:
    """(low bits that are cut off while ids stay apart, bits of an id, bits of a
    label).
    """
    gap = min((b - a for a, b in zip(ids, ids[1:])), default=1)
    cut = gap.bit_length() - 1
    return cut, max(1, (ids[-1] >> cut).bit_length()), max(1, max(labels).bit_length())


def _pack(pairs: list[tuple[int, int]], m: int, r: int, b: int) -> int:
    """The pairs one after the other; a block that is not full repeats its last id with
    label 0.
    """
    code = 0
    for i in range(m):
        word, label = pairs[i] if i < len(pairs) else (pairs[-1][0], 0)
        code = (code << (r + b)) | (word << b) | label
    return code


def _lookup(starts: list[int], codes: list[int], net: _Builder) -> list[Affine]:
    """t, and the code of the block that t lies in: a step at each start, exact on the
    integers.
    """
    t = {0: 1}
    units = net.layer(
        t, *(v for s in starts for v in (_add(t, {None: 1 - s}), _add(t, {None: -s})))
    )
    code = {}
    for i, (new, old) in enumerate(zip(codes, [0, *codes])):
        code[2 * i + 1], code[2 * i + 2] = new - old, old - new
    return [units[0], {i: w for i, w in code.items() if w}]


def _read(
    net: _Builder,
    t: Affine,
    c: Affine,
    out: Affine,
    kept: list[Affine],
    count: int,
    place: int,
) -> tuple:
    """The top `count` bits of the code as a word, a layer a bit; `place` is where they
    end.
    """
    word = {}
    for _ in range(count):
        place -= 1
        t, c, out, word, p, q, *kept = net.layer(
            t,
            c,
            out,
            word,
            _add(c, {None: 1 - (1 << place)}),
            _add(c, {None: -(1 << place)}),
            *kept,
        )
        bit = _add(p, q, -1)
        c, word = _add(c, bit, -(1 << place)), _add(_add({}, word, 2), bit)
    return (t, c, out, word, place, *kept)
