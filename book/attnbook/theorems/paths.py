"""The claims of the page `Every path through self-attention`.

x is (*batch, n, d) in float64 or float32, and layers are Layers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib import certify
from attnlib._require import require
from attnlib.attention import Layer, attention_matrix, forward, merged, random_layers
from attnlib.certify import Matrix, Verdict, at_least, at_most
from attnlib.paths import (
    Path,
    path_counts,
    path_norms,
    path_sums,
    path_term,
    path_terms,
    restrict,
)

# What rounding leaves of an identity between sums of products, in relative error.
ROUNDING = {torch.float64: 1e-12, torch.float32: 1e-4}
MOST_HEADS = 16
MOST_PATHS = 10**6


def rounding(x: Tensor) -> float:
    """The tolerance of an identity: 4,500 eps in float64, 840 eps in float32."""
    require(
        x.dtype in ROUNDING,
        f"x is {x.dtype}: in so few digits an identity cannot be told from a near "
        "miss. Cast x and the layers to float64 or float32",
    )
    return ROUNDING[x.dtype]


def error(got: Tensor, wanted: Tensor) -> float:
    """|got - wanted|_F / |wanted|_F, the worst of a batch; zero where both agree."""
    distance = torch.linalg.matrix_norm((got - wanted).detach())
    size = torch.linalg.matrix_norm(wanted.detach())
    ratio = torch.where(distance == 0, 0.0, distance / size)
    return float(ratio.max())


def _relative_error(got: Tensor, wanted: Tensor) -> float:
    """That of certify; zero where both agree, though both be zero."""
    return 0.0 if torch.equal(got, wanted) else certify.relative_error(got, wanted)


def without_biases(layers: Sequence[Layer]) -> None:
    """Refuse value and output biases where the statement sets the row b apart."""
    for number, layer in enumerate(layers, 1):
        require(
            layer.b_v is None and layer.b_o is None,
            f"layer {number} has biases of values or outputs: the statement is about "
            "layers without them. Use layer._replace(b_v=None, b_o=None)",
        )


# --- objects: what the tests run the theorems on


def random_network(seed=0, L=3, h=4, n=6, d=8, bias=True) -> dict:
    """Gaussian tokens and layers, with all four kinds of bias."""
    g = torch.Generator().manual_seed(seed)
    layers = random_layers(
        L, h, d, 5, d_v=3, bias=bias, dtype=torch.float64, generator=g
    )
    x = torch.randn(n, d, dtype=torch.float64, generator=g)
    return {"x": x, "layers": layers}


def integer_network(seed=3) -> dict:
    """Two layers of two heads on three tokens of width two, all of small integers."""
    g = torch.Generator().manual_seed(seed)

    def draw(low, high, *shape):
        return torch.randint(low, high, shape, generator=g).tolist()

    return {
        "x": draw(-3, 4, 3, 2),
        "logits": draw(1, 5, 2, 2, 3, 3),
        "weights": draw(1, 5, 2, 2, 2, 2),
        "value_biases": draw(1, 5, 2, 2, 2),
        "biases": draw(1, 5, 2, 2),
    }


def head_counts(heads=(3, 3, 3)) -> dict:
    """Numbers of heads, first layer first."""
    return {"heads": heads}


def seeds(case: Case) -> list[Case]:
    """The case, drawn three times."""
    return [case, case.but(seed=1), case.but(seed=2)]


SOFTMAX = Case(random_network, {"seed": 0})
PLAIN = SOFTMAX.but(bias=False)
FEW_HEADS = PLAIN.but(L=2, h=2)
INTEGERS = Case(integer_network)
HEADS = Case(head_counts, {"heads": (3, 3, 3)})


# --- the decomposition


def constant_row(layers: Sequence[Layer], *, skip: bool = False) -> Tensor:
    """The row b of all biases, formula (1.7) as it stands, layer by layer."""
    b = torch.zeros_like(layers[0].w_o[0, 0])
    for layer in layers:
        weights, own = merged(layer)
        carried = sum(b @ w for w in weights)
        b = carried + own + b if skip else carried + own
    return b


def same_order_term(x, layers, path: Path, attention) -> Tensor:
    """A term with its attention matrices in the order of its weights: a slip."""
    taken = [(l, h) for l, h in enumerate(path) if h is not None]
    for l, h in reversed(taken):
        x = attention[l][..., h, :, :] @ x
    for l, h in taken:
        x = x @ merged(layers[l])[0][h]
    return x


def sum_of_terms(x, layers, attention, *, skip: bool, term=path_term) -> Tensor:
    """All paths, one by one: a head in each layer or, with skips, None."""
    heads = [layer.w_q.shape[0] for layer in layers]
    number = sum(path_counts(heads, skip=skip))
    require(
        number <= MOST_PATHS,
        f"there are {number:,} paths, more than {MOST_PATHS:,}: "
        "path_sums gives their sums by length without a list",
    )
    around = [None] if skip else []
    ways = [around + list(range(h)) for h in heads]
    total = torch.zeros_like(x)
    for path in itertools.product(*ways):
        total = total + term(x, layers, path, attention)
    return total


@claim(
    "paths.decomposition",
    cases=seeds(SOFTMAX),
    broken={"same order": {"_term": same_order_term}, "without b": {"_row": 0}},
)
def decomposition(
    x,
    layers,
    *,
    skip=False,
    mask=None,
    scale=None,
    normalizer="softmax",
    _term=path_term,
    _row=1,
) -> Verdict:
    """A stack of self-attention layers is the sum of its paths and one row.

    Measured: the relative error of the sum against the forward pass, the worst of a
    batch. Where terms cancel, rounding can exceed the bound: scale the weights down.

    Claim: paths.decomposition
    Page: notebooks/path_decomposition/paths
    """
    how = {"skip": skip, "mask": mask, "scale": scale, "normalizer": normalizer}
    y, attention = forward(x, layers, return_attention=True, **how)
    total = sum_of_terms(x, layers, attention, skip=skip, term=_term)
    total = total + _row * constant_row(layers, skip=skip)
    return at_most(error(total, y), rounding(x))


@claim(
    "paths.skip",
    cases=seeds(SOFTMAX),
    broken={
        "b forgets": {"_row_keeps": False},
        "no path skips": {"_may_skip": False},
    },
)
def skip_connections(x, layers, *, _may_skip=True, _row_keeps=True) -> Verdict:
    """With skips the sum runs over the (H + 1)^L paths that may leave out layers.

    Measured: the relative error of the sum against the forward pass.

    Claim: paths.skip
    Page: notebooks/path_decomposition/paths
    """
    y, attention = forward(x, layers, skip=True, return_attention=True)
    total = sum_of_terms(x, layers, attention, skip=_may_skip)
    total = total + constant_row(layers, skip=_row_keeps)
    return at_most(error(total, y), rounding(x))


# --- what it rests on, and the order of two layers


def squares(row: Sequence[Fraction]) -> list[Fraction]:
    """Squares of logits over their sum: rows sum to one, and a shift changes them."""
    total = sum(v * v for v in row)
    require(total, "logits: a row of zeros has no squares to be divided by")
    return [v * v / total for v in row]


def powers(row: Sequence[Fraction]) -> list[Fraction]:
    """2^(logit - largest logit): a shift changes nothing, rows do not sum to one."""
    top = max(row)
    return [Fraction(2) ** int(v - top) for v in row]


def normalised(logits, normaliser: Callable) -> list[Matrix]:
    """Each head's matrix of logits, normalised row by row."""
    heads = [certify.exact(matrix) for matrix in logits]
    return [[normaliser(row) for row in matrix] for matrix in heads]


@claim(
    "paths.row-sums",
    cases=[INTEGERS, INTEGERS.but(skip=True), INTEGERS.but(seed=4)],
    controls=[INTEGERS.but(normaliser=powers)],
)
def row_sums(
    x,
    logits,
    weights,
    value_biases,
    biases,
    *,
    normaliser: Callable = squares,
    skip=False,
) -> Verdict:
    """The decomposition rests on P 1 = 1, and not on invariance under shifts.

    Measured, in exact arithmetic: the largest entry of network - paths - 1 b'. It is
    zero for `squares`, which shifts change; and not for `powers`, which they do not.

    Args:
        x: n rows of d numbers.
        logits, weights: n x n and d x d numbers for each layer and head.
        value_biases: a row of d for each layer and head, b_V' W_O.
        biases: a row of d for each layer, b_O.
        normaliser: from a row of logits to a row of weights, in Fractions.

    Claim: paths.row-sums
    Page: notebooks/path_decomposition/paths
    """
    misfit = certify.decomposition_gap(
        certify.exact(x),
        [normalised(heads, normaliser) for heads in logits],
        [[certify.exact(w) for w in maps] for maps in weights],
        value_biases=[certify.exact(rows) for rows in value_biases],
        biases=certify.exact(biases),
        skip=skip,
    )
    return at_most(misfit, 0)


@claim(
    "paths.order",
    cases=[PLAIN.but(L=2), PLAIN.but(L=2, seed=1)],
    broken={"same order": {"_same_order": True}},
)
def two_layers(x, layers, *, _same_order=False) -> Verdict:
    """In the formula of two layers the two products run in opposite orders.

    Measured: the relative error of the double sum against the forward pass.

    Claim: paths.order
    Page: notebooks/path_decomposition/paths
    """
    L = len(layers)
    require(L == 2, f"layers: the formula is of two layers, got {L}")
    without_biases(layers)
    y, (p1, p2) = forward(x, layers, return_attention=True)
    w1, _ = merged(layers[0])
    w2, _ = merged(layers[1])
    total = torch.zeros_like(y)
    for i, j in itertools.product(range(len(w1)), range(len(w2))):
        p_i = p1[..., i, :, :]
        p_j = p2[..., j, :, :]
        left = p_i @ p_j if _same_order else p_j @ p_i
        total = total + left @ x @ w1[i] @ w2[j]
    return at_most(error(total, y), rounding(x))


# --- all paths by length, their cost, their number


def length(path: Path) -> int:
    """How many heads a path goes through."""
    return len(path) - path.count(None)


@claim(
    "paths.sums",
    cases=[*seeds(PLAIN), PLAIN.but(skip=False), SOFTMAX],
    broken={"recomputed": {"_recomputed": True}},
)
def sums_by_length(x, layers, *, skip=True, _recomputed=False) -> Verdict:
    """One pass over the layers gives the sum of all paths of each length.

    Measured: the relative error of `path_sums` against all paths, listed one by one; or
    that of all sums and the row b against the forward pass, if it is larger. Broken: a
    path is the network of its heads alone, which attends otherwise.

    Claim: paths.sums
    Page: notebooks/path_decomposition/paths
    """
    sums, b = path_sums(x, layers, skip=skip)
    listed = torch.zeros_like(sums)
    for path, term in path_terms(x, layers, skip=skip):
        if _recomputed and length(path) > 0:
            term = forward(x, restrict(layers, path))
        listed[length(path)] += term
    by_length = _relative_error(listed, sums)
    in_all = error(sums.sum(0) + b, forward(x, layers, skip=skip))
    return at_most(max(by_length, in_all), rounding(x))


def multiplications(run: Callable[[], object]) -> int:
    """How many multiplications torch's own counter sees; it counts additions too."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops() // 2


@claim(
    "paths.cost",
    cases=[PLAIN.but(L=5), PLAIN.but(L=1), PLAIN.but(L=2), PLAIN.but(L=8)],
    broken={"without skips": {"_skip": False}},
)
def cost(x, layers, *, _skip=True) -> Verdict:
    """All sums by length take (L + 1)/2 times the multiplications of a forward pass.

    Measured: the distance of the ratio from (L + 1)/2, counted and not timed. Without
    skips only one length is carried.

    Claim: paths.cost
    Page: notebooks/path_decomposition/paths
    """
    without_biases(layers)
    _, attention = forward(x, layers, skip=_skip, return_attention=True)

    def logits():
        return [attention_matrix(x, layer.w_q, layer.w_k) for layer in layers]

    whole = multiplications(lambda: forward(x, layers, skip=_skip))
    one_pass = whole - multiplications(logits)
    how = {"skip": _skip, "attention": attention}
    summed = multiplications(lambda: path_sums(x, layers, **how))
    ratio = Fraction(summed, one_pass)
    return at_most(abs(ratio - Fraction(len(layers) + 1, 2)), 0)


@claim(
    "paths.lengths",
    cases=[HEADS, HEADS.but(heads=(1,)), HEADS.but(heads=(96,) * 96)],
    controls=[HEADS.but(heads=(2, 3, 4))],
)
def lengths(heads: Sequence[int]) -> Verdict:
    """There are binom(L, k) H^k paths of length k; the mean length is L H / (H + 1).

    Measured, exactly: the largest difference of the counts from the formula, and that
    of their mean. If the numbers of heads differ, H is their mean.

    Claim: paths.lengths
    Page: notebooks/path_decomposition/paths
    """
    whole = all(isinstance(h, int) for h in heads)
    require(whole, f"heads must be whole numbers, one a layer, got {heads}")
    L = len(heads)
    counts = path_counts(heads, skip=True)
    H = Fraction(sum(heads), L)
    formula = [math.comb(L, k) * H**k for k in range(L + 1)]
    off = max(abs(c - f) for c, f in zip(counts, formula))
    total_length = sum(k * c for k, c in enumerate(counts))
    mean = Fraction(total_length, sum(counts))
    return at_most(max(off, abs(mean - L * H / (H + 1))), 0)


# --- random signs


def squared_norms(x, layers, *, centred: bool = False) -> Tensor:
    """The squared norms of all paths, listed one by one and added up by length."""
    found = x.new_zeros(len(layers) + 1, *x.shape[:-2])
    for path, term in path_terms(x, layers, skip=True):
        if centred:
            term = term - term.mean(-2, keepdim=True)
        found[length(path)] += term.detach().square().sum((-2, -1))
    return found


def mean_over_signs(x, layers, *, centred: bool, tied: bool) -> Tensor:
    """The squared norm of each sum by length, its mean over all patterns of signs."""
    _, attention = forward(x, layers, skip=True, return_attention=True)
    heads = [layer.w_q.shape[0] for layer in layers]
    require(
        sum(heads) <= MOST_HEADS,
        f"layers hold {sum(heads)} heads: at most {MOST_HEADS}, all signs are run; "
        "or give draws",
    )
    coins = [1] * len(heads) if tied else heads  # independent signs of each layer
    total = x.new_zeros(len(layers) + 1, *x.shape[:-2])
    for pattern in itertools.product((1.0, -1.0), repeat=sum(coins)):
        flips = x.new_tensor(pattern).split(coins)
        signed = []
        for layer, signs in zip(layers, flips):
            signed.append(layer._replace(w_o=signs[:, None, None] * layer.w_o))
        sums = path_sums(x, signed, skip=True, attention=attention).by_length
        if centred:
            sums = sums - sums.mean(-2, keepdim=True)
        total += sums.detach().square().sum((-2, -1))
    return total / 2 ** sum(coins)


@claim(
    "paths.signs",
    cases=[
        FEW_HEADS,
        FEW_HEADS.but(centred=True),
        FEW_HEADS.but(seed=1),
        PLAIN.but(draws=2000),
        PLAIN.but(draws=2000, centred=True),
    ],
    broken={"one sign a layer": {"_tied": True}},
)
def random_signs(x: Tensor, layers, *, centred=False, draws=0, _tied=False) -> Verdict:
    """With a fair random sign on every head, the expected squared norm of the sum of
    length k is the sum of the squared norms of all paths of length k.

    Measured: the relative error of the mean over ALL patterns of signs, against the
    paths listed one by one; or, of so many draws by `path_norms`, the largest error in
    units of its standard error, of which four are allowed.

    Args:
        centred: subtract the token mean of each path first.
        draws: how many patterns are drawn; 0 runs all, 2^heads of them.

    Cost: without draws 2^heads path_sums, minutes for 16 heads.
    Claim: paths.signs
    Page: notebooks/path_decomposition/paths
    """
    wanted = squared_norms(x, layers, centred=centred)
    if draws:
        g = torch.Generator(x.device).manual_seed(0)
        how = {"signs": draws, "generator": g, "skip": True, "centred": centred}
        got = path_norms(x, layers, **how)
        spare = got.standard_error.detach() + 1e-9 * wanted
        off = (got.total_square.detach() - wanted).abs()
        return at_most(torch.where(off == 0, 0, off / spare).max(), 4)
    mean = mean_over_signs(x, layers, centred=centred, tied=_tied)
    return at_most(_relative_error(mean, wanted), rounding(x))


# --- a path is not a subnetwork


@claim(
    "paths.recomputed",
    cases=[PLAIN, PLAIN.but(L=2), PLAIN.but(seed=1)],
    controls=[PLAIN.but(L=1)],
)
def subnetworks(x, layers) -> Verdict:
    """If the network of each path computes its own attention, the outputs do not add up
    to the network.

    Measured: the relative distance of the sum from the network, at least a tenth; it is
    so for networks in general and not for each. Or zero, if a path without heads above
    layer 1, which sees what the full pass sees, does not give its term.

    Claim: paths.recomputed
    Page: notebooks/path_decomposition/paths
    """
    without_biases(layers)
    y = forward(x, layers, skip=True)
    require((x != x[..., :1, :]).any(), "x: all tokens are equal, none moves attention")
    for number, layer in enumerate(layers, 1):
        silent = not all(w.any() for w in layer[:4])
        require(not silent, f"layers: layer {number} has a weight that is zero")
    total = torch.zeros_like(y)
    off = 0.0
    for path, term in path_terms(x, layers, skip=True):
        kept = restrict(layers, path)
        alone = forward(x, kept) if kept else x
        total = total + alone
        if length(path[1:]) == 0:
            off = max(off, error(alone, term))
    return at_least(error(total, y) if off <= rounding(x) else 0.0, 0.1)
