"""Labels of integers by a deep ReLU network with few, long weights: exact in
integers.

The ids are packed with their labels into one long integer a block. A first layer looks
up the integer of the block of t; then a layer a bit takes it apart, highest bit first,

    bit = relu(code - 2^i + 1) - relu(code - 2^i),   code <- code - 2^i bit

compares, and keeps the label of the id that agrees with t.

Page: notebooks/one_layer_memorization/memorization
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import SupportsIndex

from attnlib import _require
from attnlib._require import require

# A unit: its bias, and pairs (place in the layer before, weight).
Unit = tuple[int, tuple[tuple[int, int], ...]]
# An affine expression in the units of the last layer: place, or None for the constant,
# to factor; no factor is zero.
Affine = dict[int | None, int]


@dataclass(frozen=True)
class Deep:
    """A ReLU network on the integers: each layer holds units relu(bias + sum of weight
    * value), the last is linear.

    Args:
        layers: lists of units, each with its bias and pairs (place in the layer before,
            weight), no weight zero.
    """

    layers: list[list]

    @property
    def parameters(self) -> int:
        """Weights and biases that are not zero."""
        units = chain.from_iterable(self.layers)
        return sum((bias != 0) + len(weights) for bias, weights in units)

    @property
    def bits(self) -> int:
        """Bits of the longest weight or bias."""
        longest = 0
        for bias, weights in chain.from_iterable(self.layers):
            numbers = [bias, *(w for _, w in weights)]
            longest = max(longest, *map(int.bit_length, numbers))
        return longest

    def __call__(self, t: int) -> int:
        """The network at the integer t, every unit as written."""
        values = [t]
        for layer in self.layers:
            sums = []
            for bias, weights in layer:
                sums.append(bias + sum(w * values[i] for i, w in weights))
            values = [max(s, 0) for s in sums]
        return sums[0]


def fit_deep(ids: Sequence[SupportsIndex], labels: Sequence[SupportsIndex]) -> Deep:
    """A network whose parameters grow like the square root of the number of ids, for
    ids of a fixed number of bits.

        parameters <= 2 sqrt(6 D K) + K + 10,   K = 18 (r + l) + 40

    where r bits tell the ids apart and labels have l bits.

    Args:
        ids: increasing integers from 0 on.
        labels: integers from 0 on, as many.

    Returns:
        Deep, exact at all ids.

    Cost: O(D / m + m (r + l)) units, and integers of m (r + l) bits, for blocks of
        m = ceil(sqrt(6 D / K)).
    Source: after Vardi, Yehudai and Shamir 2022 (recalled); ours compares exactly, as
        its inputs are integers.
    Claim: memorize.deep
    """
    ids, labels = _integers("ids", ids), _integers("labels", labels)
    require(
        len(ids) == len(labels) >= 1,
        "ids and labels must be as many and at least one, "
        f"got {len(ids)} and {len(labels)}",
    )
    require(
        ids[0] >= 0 and all(t < after for t, after in pairwise(ids)),
        "ids must be increasing integers from 0 on",
    )
    require(min(labels) >= 0, "labels must be integers from 0 on")
    # Low bits are cut off while the ids stay apart.
    gaps = [after - t for t, after in pairwise(ids)]
    cut = min(gaps, default=1).bit_length() - 1
    r = max(1, (ids[-1] >> cut).bit_length())
    l = max(1, max(labels).bit_length())
    K = 18 * (r + l) + 40
    m = math.ceil(math.sqrt(6 * len(ids) / K))
    m = min(m, len(ids))
    pairs = [(t >> cut, label) for t, label in zip(ids, labels)]
    codes = []
    for first in range(0, len(ids), m):
        codes.append(_pack(pairs[first : first + m], m, r, l))
    net = _Builder()
    t, code = _lookup(net, ids[::m], codes)
    out = {}
    for i in reversed(range(m)):  # the bits of the first pair stand highest
        low = i * (r + l)
        label_places = range(low, low + l)
        id_places = range(low + l, low + l + r)
        t, code, out, word, _ = _read(net, id_places, t, code, out, {})
        # t has the id of this pair, and same is 1, where 0 <= u < 2^cut.
        u = _add(t, word, -(1 << cut))
        over = _shift(u, -(1 << cut))
        steps = _step(u) + _step(over)
        t, code, out, a, b, c, d = net.layer(t, code, out, *steps)
        reached = _add(a, b, -1)  # u >= 0
        passed = _add(c, d, -1)  # u >= 2^cut
        same = _add(reached, passed, -1)
        t, code, out, label, same = _read(net, label_places, t, code, out, same)
        # relu(label + (same - 1) 2^l) is the label where same is 1, else 0.
        chosen = _add(label, _shift(same, -1), 1 << l)
        t, code, out, chosen = net.layer(t, code, out, chosen)
        out = _add(out, chosen)
    net.layer(out)
    return Deep(net.layers)


def _integers(name: str, numbers: Sequence[SupportsIndex]) -> list[int]:
    """Python's integers; what is none is refused by name."""
    _require.is_a(Sequence, **{name: numbers})
    whole = not any(isinstance(number, bool) for number in numbers)
    try:
        found = [operator.index(number) for number in numbers]
    except TypeError:
        whole = False
    require(whole, f"{name} must hold integers alone")
    return found


class _Builder:
    """Layers of units; what is between two layers is an affine expression in the units
    of the last one.
    """

    def __init__(self):
        self.layers: list[list[Unit]] = []

    def layer(self, *values: Affine) -> list[Affine]:
        """A layer that takes relu of each value; zero needs no unit."""
        units = []
        results = []
        for value in values:
            if not value:
                results.append({})
                continue
            results.append({len(units): 1})
            places = [i for i in value if i is not None]
            weights = tuple((i, value[i]) for i in places)
            units.append((value.get(None, 0), weights))
        self.layers.append(units)
        return results


def _add(a: Affine, b: Affine, factor: int = 1) -> Affine:
    """a + factor b."""
    total = dict(a)
    for i, w in b.items():
        total[i] = total.get(i, 0) + factor * w
    return {i: w for i, w in total.items() if w}


def _shift(a: Affine, constant: int) -> Affine:
    """a + constant."""
    return _add(a, {None: constant})


def _step(a: Affine) -> list[Affine]:
    """a + 1 and a: on integers relu(a + 1) - relu(a) is 1 where a >= 0, else 0."""
    return [_shift(a, 1), a]


def _pack(pairs: list[tuple[int, int]], m: int, r: int, l: int) -> int:
    """The pairs one after the other; a block that is not full repeats its last id with
    label 0.
    """
    last = pairs[-1][0]
    code = 0
    padding = [(last, 0)] * (m - len(pairs))
    for word, label in pairs + padding:
        code = (code << (r + l)) | (word << l) | label
    return code


def _lookup(net: _Builder, starts: list[int], codes: list[int]) -> list[Affine]:
    """t, and the code of the block that t lies in: a step at each start, exact on the
    integers.
    """
    t = {0: 1}
    values = [t]
    for start in starts:
        values += _step(_shift(t, -start))
    t, *_ = net.layer(*values)
    code = {}
    for i, (before, after) in enumerate(pairwise([0, *codes])):
        code[2 * i + 1] = after - before  # the two units of the step; t has place 0
        code[2 * i + 2] = before - after
    code = {i: w for i, w in code.items() if w}
    return net.layer(t, code)


def _read(
    net: _Builder, places: range, t: Affine, code: Affine, out: Affine, same: Affine
) -> tuple[Affine, Affine, Affine, Affine, Affine]:
    """Takes the bits at these places, the highest that are left, off the code, a layer
    a bit, and makes a word of them; (t, code, out, word, same).
    """
    word = {}
    for place in reversed(places):
        size = 1 << place
        step = _step(_shift(code, -size))
        t, code, out, word, a, b, same = net.layer(t, code, out, word, *step, same)
        bit = _add(a, b, -1)
        code = _add(code, bit, -size)
        word = _add(_add(word, word), bit)
    return t, code, out, word, same
