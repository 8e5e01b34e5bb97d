"""The claims of the page `Which paths do the work`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnbook.theorems.paths import error, head_counts, rounding, without_biases
from attnlib._require import one_of, require
from attnlib.attention import Layer, forward, random_layers
from attnlib.certify import Verdict, at_most
from attnlib.efficacy import (
    Reader,
    length_bounds,
    logit_parts,
    logits,
    random_reader,
)
from attnlib.paths import Path, path_counts, path_sums, path_term, restrict

MODES = ("frozen", "recomputed")


# --- where the paths are


def counted_by_hand() -> Verdict:
    """Two layers of one head have 1, 2, 1 paths; of two heads 1, 4, 4.

    Measured: how many of the six numbers differ.
    """
    found = path_counts([1, 1], skip=True) + path_counts([2, 2], skip=True)
    wanted = [1, 2, 1, 1, 4, 4]
    return at_most(sum(f != w for f, w in zip(found, wanted)), 0)


HEADS = Case(head_counts, {"heads": (3, 3, 3)})


@claim(
    "efficacy.lengths",
    cases=[
        HEADS,
        HEADS.but(heads=(1,)),
        HEADS.but(heads=(2,) * 6),
        HEADS.but(heads=(13,) * 12),
        HEADS.but(heads=(16,) * 24),
        HEADS.but(heads=(96,) * 96),
    ],
    controls=[HEADS.but(heads=(1, 5)), HEADS.but(skip=False)],
    witness=counted_by_hand,
)
def most_are_long(heads: Sequence[int], *, skip: bool = True) -> Verdict:
    """Most paths are long: three statements about L layers of H heads with skips.

        share of lengths L - 1 and L           =   H^(L-1) (H + L) / (H + 1)^L
        share that skips at least t layers     <=  binom(L, t) / (H + 1)^t
        no length has more paths than L       <=>  H >= L

    Hypotheses: skips, and the same number H of heads in every layer.
    Measured, exactly: by how much the first is missed or the second exceeded, or 1 if
    the third is false; the largest of these. If the numbers of heads differ, H is their
    mean.

    Args:
        heads: number of heads of each layer.
        skip: False counts the paths of a network without skips.

    Returns:
        Verdict; its bound is 0.

    Claim: efficacy.lengths
    Page: notebooks/path_decomposition/path_efficacy
    """
    counts = path_counts(heads, skip=skip)
    total = sum(counts)
    L = len(heads)
    H = Fraction(sum(heads), L)
    longest_two = Fraction(counts[L] + counts[L - 1], total)
    off = abs(longest_two - H ** (L - 1) * (H + L) / (H + 1) ** L)
    for t in range(L + 1):
        skipping = Fraction(sum(counts[: L - t + 1]), total)
        off = max(off, skipping - math.comb(L, t) / (H + 1) ** t)
    full_length_leads = counts[L] == max(counts)
    return at_most(max(off, full_length_leads != (H >= L)), 0)


# --- logits add, accuracies do not


def readers(seed=0, L=2, classes=2, side=3.0) -> dict:
    """A network with all biases, 400 tokens in words of four, and label 0 for each.

    The bias of the readout favours class 0 by `side`.
    """
    g = torch.Generator().manual_seed(seed)
    how = {"generator": g, "dtype": torch.float64}
    reader = random_reader(3, classes, L=L, h=2, d=6, n=4, gain=1.0, **how)
    layers = random_layers(
        L, 2, 6, 3, bias=True, gain=1.0, dtype=torch.float64, generator=g
    )
    bias = torch.randn(classes, **how)
    bias[0] = bias[1:].max() + side
    u = torch.randn(100, 4, 3, **how)
    labels = torch.zeros(100, 4, dtype=torch.int64)
    reader = reader._replace(layers=layers, bias=bias)
    return {"reader": reader, "u": u, "labels": labels}


def right(scores: Tensor, labels: Tensor) -> Tensor:
    """Which tokens score more for their label than for every other class."""
    wanted = scores.gather(-1, labels[..., None])
    others = scores.scatter(-1, labels[..., None], -math.inf)
    return wanted[..., 0] > others.amax(-1)


def three_classes(further: int = 0) -> tuple[Reader, Tensor]:
    """One token and one layer: length 0 says (2, 3, 0), length 1 says (2, 0, 3).

    Further classes score 0.
    """
    eye = torch.eye(3, 3 + further, dtype=torch.float64)
    w_q = torch.zeros(1, 3, 1, dtype=torch.float64)
    w_v = torch.zeros(1, 3, 3, dtype=torch.float64)
    w_v[0, 0, 0] = 1
    w_v[0, 1, 2] = 1
    layer = Layer(w_q=w_q, w_k=w_q, w_v=w_v, w_o=eye[None, :, :3])
    nothing = torch.zeros(1, 3, dtype=torch.float64)
    reader = Reader(
        embed=eye[:, :3],
        position=nothing,
        layers=[layer],
        readout=eye,
        bias=torch.zeros(3 + further, dtype=torch.float64),
    )
    return reader, torch.tensor([[2.0, 3.0, 0.0]], dtype=torch.float64)


def wrong_alone_right_together() -> Verdict:
    """With three classes or more, each length can be wrong where the network is right.

    Measured: the largest difference from (2, 3, 0), (2, 0, 3) and (4, 3, 3), with 0 and
    with 2 further classes; or 1 if a length is right or the network is wrong.
    """
    off = 0.0
    label = torch.zeros(1, dtype=torch.int64)
    for further in (0, 2):
        reader, token = three_classes(further)
        alone = logit_parts(reader, token).by_length[:, 0]
        together = logits(reader, token)
        wanted = torch.tensor([[2, 3, 0], [2, 0, 3], [4, 3, 3]])
        found = torch.cat([alone, together])
        off = max(off, float((found[:, :3] - wanted).abs().max()))
        off = max(off, float(found[:, 3:].abs().sum()))
        for scores in alone:
            off = max(off, float(right(scores[None], label)))
        off = max(off, float(~right(together, label)))
    return at_most(off, 0)


TWO_CLASSES = Case(readers, {"seed": 0}, {"wrong_too": True})


@claim(
    "efficacy.margins",
    cases=[
        TWO_CLASSES,
        TWO_CLASSES.but(seed=1),
        TWO_CLASSES.but(L=3),
        TWO_CLASSES.but(classes=4, wrong_too=False),
    ],
    controls=[
        TWO_CLASSES.but(left_out=1),
        TWO_CLASSES.but(constant=False),
        TWO_CLASSES.but(fair=False),
        TWO_CLASSES.but(classes=3),
    ],
    witness=wrong_alone_right_together,
)
def logits_add(
    reader: Reader,
    u: Tensor,
    labels: Tensor,
    *,
    wrong_too: bool = False,
    fair: bool = True,
    left_out: int | None = None,
    constant: bool = True,
) -> Verdict:
    """The logits of the lengths and a constant add up to those of the network.

        logits = sum_k Z_k + 1 c'

    And if c takes no side: where every length answers rightly, so does the network;
    with two classes, where every length answers wrongly, so does the network.

    Hypotheses: skips, a linear readout, no feed-forward parts and no LayerNorm; for the
    second sentence all entries of c are equal, and right means more than every other.
    Measured: the relative error of the sum; or, if it is larger, the number of tokens
    that contradict the second sentence, in the network whose bias is changed so that
    c = 0.

    Args:
        reader: a Reader.
        u: (*batch, n, f).
        labels: (*batch, n).
        wrong_too: also ask that where every length is wrong, so is the network; that
            holds for two classes.
        fair: False leaves c as it is, in the answers of the lengths and of the network.
        left_out: a length to leave out of the sum, which is false.
        constant: False forgets c in the sum, which is false where there are biases.

    Returns:
        Verdict.

    Claim: efficacy.margins
    Page: notebooks/path_decomposition/path_efficacy
    """
    got, size = tuple(labels.shape), tuple(u.shape[:-1])
    require(got == size, f"labels must be {size}, one a token of u, got {got}")
    alone, c = logit_parts(reader, u)
    together = alone.sum(0)
    added = together if left_out is None else together - alone[left_out]
    if constant:
        added = added + c
    misfit = error(added, logits(reader, u))

    shift = torch.zeros_like(c) if fair else c
    each = torch.stack([right(z + shift, labels) for z in alone])
    network = right(together + shift, labels)
    contradicting = each.all(0) & ~network
    if wrong_too:
        contradicting = contradicting | (~each.any(0) & network)
    return at_most(max(misfit, float(contradicting.sum())), rounding(u))


# --- length one is the first order


def queries_and_keys_with_biases(seed=0, L=3, h=2, n=5, d=6) -> dict:
    """Gaussian tokens and layers; biases of queries and keys, none of values."""
    g = torch.Generator().manual_seed(seed)
    layers = []
    for layer in random_layers(
        L, h, d, 3, bias=True, gain=1.0, dtype=torch.float64, generator=g
    ):
        layers.append(layer._replace(b_v=None, b_o=None))
    x = torch.randn(n, d, dtype=torch.float64, generator=g)
    return {"x": x, "layers": layers}


def turned_down(layers: Sequence[Layer], z: Tensor) -> list[Layer]:
    """The same layers with every head output multiplied by z."""
    return [layer._replace(w_o=z * layer.w_o) for layer in layers]


def coefficient(network: Callable[[Tensor], Tensor], like: Tensor, k: int) -> Tensor:
    """The k-th Taylor coefficient at z = 0, by automatic differentiation."""
    one = torch.ones((), dtype=like.dtype, device=like.device)

    def derivative(f):
        def slope(z):
            return torch.autograd.functional.jvp(f, z, one, create_graph=True)[1]

        return slope

    for _ in range(k):
        network = derivative(network)
    return network(0 * one).detach() / math.factorial(k)


def paths_of_length(layers: Sequence[Layer], k: int) -> list[Path]:
    """Every path through exactly k heads, with skips."""
    paths = [()]
    for layer in layers:
        ways = [None, *range(len(layer.w_q))]
        paths = [(*path, way) for path in paths for way in ways]
    return [path for path in paths if len(path) - path.count(None) == k]


def second_order_of_two_tokens() -> Verdict:
    """Two tokens, two layers of strength c, recomputed: the coefficient of z^2 is
    t^2 + 2 c t (1 - t^2), and the path of length two, recomputed, gives t tanh(c t^2).

    Measured: the largest error of both formulas; or 1 if they agree.
    """
    ones = torch.ones(1, 1, 1, dtype=torch.float64)
    x = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    off = 0.0
    for c in (0.3, 0.5, 1.3):
        layers = [Layer(c * ones, ones, ones, ones)] * 2

        def network(z, layers=layers):
            return forward(x, turned_down(layers, z), skip=True, check=False)

        t = math.tanh(c)
        taylor = t * t + 2 * c * t * (1 - t * t)
        rerun = t * math.tanh(c * t * t)
        found = float(coefficient(network, x, 2)[0])
        alone = float(forward(x, restrict(layers, (0, 0)))[0])
        off = max(off, abs(found - taylor), abs(alone - rerun))
        if taylor < 1.5 * rerun:
            off = 1.0
    return at_most(off, 1e-13)


RERUN = Case(
    queries_and_keys_with_biases,
    {"seed": 0},
    {"network": "recomputed", "paths": "recomputed"},
)
FROZEN = RERUN.but(network="frozen", paths="frozen")


@claim(
    "efficacy.first-order",
    cases=[
        RERUN,
        RERUN.but(seed=1),
        RERUN.but(L=1, h=3),
        FROZEN,
        FROZEN.but(order=2),
        FROZEN.but(order=3),
    ],
    controls=[
        RERUN.but(paths="frozen"),
        RERUN.but(network="frozen"),
        RERUN.but(order=2),
    ],
    witness=second_order_of_two_tokens,
)
def first_order(
    x: Tensor,
    layers: Sequence[Layer],
    *,
    network: Literal["frozen", "recomputed"] = "frozen",
    paths: Literal["frozen", "recomputed"] = "frozen",
    order: int = 1,
) -> Verdict:
    """Multiply every head output by z: the slope at z = 0 is the sum of the paths of
    length one.

    Both are frozen, with the attention of the full pass, or both are recomputed, by
    each network for itself. Frozen, the k-th Taylor coefficient is the sum of the paths
    of length k; recomputed, that is false in general for k = 2.

    Hypotheses: skips, no value and output biases.
    Measured: the relative error of the Taylor coefficient, by automatic
    differentiation, against all paths of length k, run one by one.

    Args:
        x: (*batch, n, d).
        layers: L Layers without value and output biases.
        network: keeps its attention from z = 1, or recomputes it for each z.
        paths: their attention is that of the full pass, or each is recomputed as a
            network of its own.
        order: k, from 1 to L.

    Returns:
        Verdict.

    Claim: efficacy.first-order
    Page: notebooks/path_decomposition/path_efficacy
    """
    one_of(MODES, network=network)
    one_of(MODES, paths=paths)
    orders = range(1, len(layers) + 1)
    require(order in orders, f"order must be one of {list(orders)}, got {order!r}")
    without_biases(layers)
    _, attention = forward(x, layers, skip=True, return_attention=True)

    def run(z):
        quiet = turned_down(layers, z)
        if network == "recomputed":
            return forward(x, quiet, skip=True, check=False)
        how = {"attention": attention, "check": False}
        return path_sums(x, quiet, skip=True, **how).by_length.sum(0)

    total = torch.zeros_like(x)
    for path in paths_of_length(layers, order):
        if paths == "frozen":
            total = total + path_term(x, layers, path, attention)
        else:
            total = total + forward(x, restrict(layers, path))
    return at_most(error(coefficient(run, x, order), total), rounding(x))


# --- what long paths can weigh


def multiples(
    weights: Sequence[Sequence[float | int]] = ((1.0, 2.0), (0.5, 3.0)),
) -> dict:
    """Three tokens of width two; each head looks at its own token alone, P = I, and
    multiplies by a number.
    """
    x = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    eye = torch.eye(2, dtype=torch.float64)
    layers = []
    attention = []
    for row in weights:
        numbers = torch.tensor(row, dtype=torch.float64)[:, None, None]
        nothing = 0 * numbers * eye
        copies = eye.expand_as(nothing)
        layers.append(Layer(nothing, nothing, numbers * eye, copies))
        itself = torch.eye(3, dtype=torch.float64)
        attention.append(itself.expand(len(row), 3, 3))
    return {"x": x, "layers": layers, "attention": attention}


def softmax_network(seed=0, gain=1.0) -> dict:
    """Gaussian tokens and four layers of two heads."""
    g = torch.Generator().manual_seed(seed)
    layers = random_layers(4, 2, 6, 3, gain=gain, dtype=torch.float64, generator=g)
    x = torch.randn(5, 6, dtype=torch.float64, generator=g)
    return {"x": x, "layers": layers}


def weights_by_hand() -> Verdict:
    """Layers that weigh 1 + 2 = 3 and 4: the lengths weigh 1, 7 and 12 times |X|.

    Measured: the largest difference.
    """
    made = multiples([[1.0, 2.0], [4.0]])
    bounds = length_bounds(**made) / made["x"].norm()
    wanted = torch.tensor([1, 7, 12])
    return at_most((bounds - wanted).abs().max(), 1e-13)


ATTAINED = Case(multiples, {}, {"attained": True})
BOUND = Case(softmax_network, {"seed": 0})


@claim(
    "efficacy.weight",
    cases=[
        ATTAINED,
        ATTAINED.but(weights=((1.0,), (2.0, 0.25, 1.0), (3.0, 1.0))),
        BOUND,
        BOUND.but(seed=1),
        BOUND.but(gain=0.2),
    ],
    controls=[
        ATTAINED.but(weights=((-1.0, 2.0), (-0.5, 3.0))),
        ATTAINED.but(left_out=1),
    ],
    witness=weights_by_hand,
)
def weight(
    x: Tensor,
    layers: Sequence[Layer],
    attention: Sequence[Tensor] | None = None,
    *,
    attained: bool = False,
    left_out: int = 0,
) -> Verdict:
    """The sum of all paths of length k is at most e_k(s_1, ..., s_L) |X|.

        s_l = sum_h |P^l_h|_2 |W^l_h|_2,   e_k elementary symmetric

    in the Frobenius norm; positive multiples of the identity attain it for every k.

    Hypotheses: skips; any given P. For equality: P = I and W_h = w_h I with positive
    numbers w_h.
    Measured: the largest of |S_k| / bound, at most 1; if `attained`, its largest
    distance from 1. (0 / 0 counts as 1: a bound 0 is attained.)

    Args:
        x: (n, d).
        layers: L Layers.
        attention: P of each head, (h, n, n) a layer; None for those of the full pass.
        attained: ask for equality.
        left_out: as many heads of each layer are missing from the bound.

    Returns:
        Verdict.

    Claim: efficacy.weight
    Page: notebooks/path_decomposition/path_efficacy
    """
    tolerance = rounding(x)
    if attention is None:
        _, attention = forward(x, layers, skip=True, return_attention=True)
    sums = path_sums(x, layers, skip=True, attention=attention).by_length
    fewer = [Layer(*(w[left_out:] for w in layer[:4])) for layer in layers]
    seen = [p[left_out:] for p in attention]
    bounds = length_bounds(x, fewer, attention=seen)
    sizes = torch.linalg.matrix_norm(sums)
    ratio = torch.where(sizes == bounds, 1, sizes / bounds)  # 0 / 0 attains it too
    if attained:
        return at_most((ratio - 1).abs().max(), tolerance)
    return at_most(ratio.max(), 1 + tolerance)
