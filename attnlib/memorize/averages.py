"""The Boltzmann operator, a softmax average of its own logits, and the distance of
values that keeps two averages apart.

    boltz(a) = sum_i a_i p_i,   p = softmax(a)

Page: notebooks/one_layer_memorization/boltzmann_and_hardmax
"""

from __future__ import annotations

import math
from typing import Literal, SupportsIndex, get_args

from jaxtyping import Float
from torch import Tensor

from attnlib import _require
from attnlib._require import require

Kind = Literal["distinct", "multiset", "paper"]


def boltzmann(a: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """The softmax average of the logits themselves, sum_i a_i softmax(a)_i.

    Returns:
        (*batch), between the least and the largest entry; half precision is reckoned in
        float32 and rounded once.

    Source: Asadi and Littman 2017, recalled.
    Claim: boltzmann.operator
    """
    _require.is_floating("a", a)
    got = tuple(a.shape)
    require(got and got[-1] > 0, f"a must be (*batch, n) with n >= 1, got {got}")
    wide = _require.widened(a)
    mean = (wide * wide.softmax(-1)).sum(-1)
    mean = mean.to(a.dtype)
    _require.finite(**{"the average of a": mean})
    return mean


def needed_gap(n: SupportsIndex, *, kind: Kind = "distinct") -> float:
    """The least distance of values that the separation lemmas ask for.

        distinct, paper: 2 ln n + 3        multiset: 3 ln n + 3

    Args:
        n: entries of a vector, at least 2.
        kind: "distinct" wants no value twice in a vector; if values repeat, "multiset"
            is the one that is proved.

    Source: paper: Kajitsuka and Sato 2024, Lemma 1, recalled; multiset: derived on the
        page.
    Claim: boltzmann.lemma, boltzmann.multisets
    """
    _require.one_of(get_args(Kind), kind=kind)
    _require.sizes(2, n=n)
    factor = 3 if kind == "multiset" else 2
    return factor * math.log(n) + 3
