"""The claims of the page `Which paths do the work`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnbook.theorems.paths import error, head_counts, rounding, without_biases
from attnlib._require import require
from attnlib.attention import Layer, forward, random_layers
from attnlib.certify import Verdict, at_most
from attnlib.efficacy import length_bounds, logit_parts, logits, random_reader
from attnlib.paths import Path, path_counts, path_sums, path_term, restrict

# --- where the paths are


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
    controls=[HEADS.but(heads=(1, 5))],
    broken={"without skips": {"_skip": False}},
)
def most_are_long(heads: Sequence[int], *, _skip=True) -> Verdict:
    """Most paths are long: three statements about L layers of H heads with skips.

        share of lengths L - 1 and L           =   H^(L-1) (H + L) / (H + 1)^L
        share that skips at least t layers     <=  binom(L, t) / (H + 1)^t
        no length has more paths than L       <=>  H >= L

    Measured, exactly: by how much the first is missed or the second exceeded, or 1 if
    the third is false; the largest of these. If the numbers of heads differ, H is their
    mean.

    Claim: efficacy.lengths
    Page: notebooks/path_decomposition/path_efficacy
    """
    counts = path_counts(heads, skip=_skip)
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


TWO_CLASSES = Case(readers, {"seed": 0}, {"wrong_too": True})


@claim(
    "efficacy.margins",
    cases=[
        TWO_CLASSES,
        TWO_CLASSES.but(seed=1),
        TWO_CLASSES.but(L=3),
        TWO_CLASSES.but(classes=4, wrong_too=False),
    ],
    controls=[TWO_CLASSES.but(classes=3)],
    broken={
        "without length 2": {"_left_out": 2},
        "without c": {"_constant": 0},
        "c takes sides": {"_fair": False},
    },
)
def logits_add(
    reader,
    u: Tensor,
    labels: Tensor,
    *,
    wrong_too=False,
    _left_out=None,
    _constant=1,
    _fair=True,
) -> Verdict:
    """The logits of the lengths and a constant add up to those of the network.

    And if the constant takes no side: where every length answers rightly, so does the
    network; with two classes, where every length answers wrongly, so does the network.
    Measured: the relative error of the sum; or, if it is larger, the number of tokens
    that contradict the second sentence, in the network whose bias is changed so that
    c = 0.

    Args:
        reader: a Reader.
        u: (*batch, n, f), and labels: (*batch, n).
        wrong_too: also ask that where every length is wrong, so is the network; that
            holds for two classes.

    Claim: efficacy.margins
    Page: notebooks/path_decomposition/path_efficacy
    """
    got, size = tuple(labels.shape), tuple(u.shape[:-1])
    require(got == size, f"labels must be {size}, one a token of u, got {got}")
    require(labels.dtype == torch.int64, f"labels must be int64, got {labels.dtype}")
    alone, c = logit_parts(reader, u)
    together = alone.sum(0)
    added = together + _constant * c
    if _left_out is not None:
        added = added - alone[_left_out]
    misfit = error(added, logits(reader, u))

    shift = torch.zeros_like(c) if _fair else c
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


FROZEN = Case(queries_and_keys_with_biases, {"seed": 0})
RERUN = FROZEN.but(recomputed=True)


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
    controls=[RERUN.but(order=2)],
    broken={
        "paths frozen": {"_paths_frozen": True},
        "network frozen": {"_network_frozen": True},
    },
)
def first_order(
    x,
    layers,
    *,
    recomputed=False,
    order=1,
    _paths_frozen=False,
    _network_frozen=False,
) -> Verdict:
    """Multiply every head output by z: the slope at z = 0 is the sum of the paths of
    length one.

    Measured: the relative error of the k-th Taylor coefficient, by automatic
    differentiation, against all paths of length k, run one by one.

    Args:
        x: (*batch, n, d).
        layers: L Layers without value and output biases.
        recomputed: the network for each z, and each path, computes its own attention;
            if not, both keep that of the full pass.
        order: k, from 1 to L; recomputed, it is false in general for k = 2.

    Claim: efficacy.first-order
    Page: notebooks/path_decomposition/path_efficacy
    """
    orders = range(1, len(layers) + 1)
    require(order in orders, f"order must be one of {list(orders)}, got {order!r}")
    without_biases(layers)
    _, attention = forward(x, layers, skip=True, return_attention=True)

    def run(z):
        quiet = turned_down(layers, z)
        if recomputed and not _network_frozen:
            return forward(x, quiet, skip=True, check=False)
        how = {"attention": attention, "check": False}
        return path_sums(x, quiet, skip=True, **how).by_length.sum(0)

    total = torch.zeros_like(x)
    for path in paths_of_length(layers, order):
        if recomputed and not _paths_frozen:
            total = total + forward(x, restrict(layers, path))
        else:
            total = total + path_term(x, layers, path, attention)
    return at_most(error(coefficient(run, x, order), total), rounding(x))


# --- what long paths can weigh


def multiples(
    weights: Sequence[Sequence[float]] = ((1.0, 2.0), (0.5, 3.0)),
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
    controls=[ATTAINED.but(weights=((-1.0, 2.0), (-0.5, 3.0)))],
    broken={"a head too few": {"_left_out": 1}},
)
def weight(
    x: Tensor, layers, attention=None, *, attained=False, _left_out=0
) -> Verdict:
    """The sum of all paths of length k is at most e_k(s_1, ..., s_L) |X|.

    Measured: the largest of |S_k| / bound, at most 1; if `attained`, its largest
    distance from 1. (0 / 0 counts as 1: a bound 0 is attained.)

    Args:
        x: (n, d).
        layers: L Layers.
        attention: P of each head, (h, n, n) a layer; None for those of the full pass.
        attained: ask for equality, as where P = I and W_h = w_h I with w_h > 0.

    Claim: efficacy.weight
    Page: notebooks/path_decomposition/path_efficacy
    """
    tolerance = rounding(x)
    if attention is None:
        _, attention = forward(x, layers, skip=True, return_attention=True)
    sums = path_sums(x, layers, skip=True, attention=attention).by_length
    fewer = [Layer(*(w[_left_out:] for w in layer[:4])) for layer in layers]
    seen = [p[_left_out:] for p in attention]
    bounds = length_bounds(x, fewer, attention=seen)
    sizes = torch.linalg.matrix_norm(sums)
    ratio = torch.where(sizes == bounds, 1, sizes / bounds)  # 0 / 0 attains it too
    if attained:
        return at_most((ratio - 1).abs().max(), tolerance)
    return at_most(ratio.max(), 1 + tolerance)
