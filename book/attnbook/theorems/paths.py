"""The claims of the page `Every path through self-attention`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Literal

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib import certify
from attnlib._require import one_of, require
from attnlib.attention import (
    Layer,
    Normalizer,
    attention_matrix,
    forward,
    merged,
    random_layers,
)
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
MOST_SIGNS = 2**16
MOST_PATHS = 10**6


def rounding(x: Tensor) -> float:
    """The tolerance of an identity: 4,500 eps in float64, 840 eps in float32."""
    if x.dtype not in ROUNDING:
        raise ValueError(
            f"x is {x.dtype}: in so few digits an identity cannot be told from a near "
            "miss. Cast x and the layers to float64 or float32"
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
        if layer.b_v is not None or layer.b_o is not None:
            raise ValueError(
                f"layer {number} has biases of values or outputs: the statement is "
                "about layers without them. Use layer._replace(b_v=None, b_o=None)"
            )


def all_paths(layers: Sequence[Layer], *, skip: bool) -> Iterator[Path]:
    """Every way to choose a head in each layer or, with skips, None."""
    heads = [layer.w_q.shape[0] for layer in layers]
    total = sum(path_counts(heads, skip=skip))
    if total > MOST_PATHS:
        raise ValueError(
            f"there are {total:,} paths, more than {MOST_PATHS:,}: "
            "path_sums gives their sums by length without a list"
        )
    around = [None] if skip else []
    ways = [around + list(range(h)) for h in heads]
    return itertools.product(*ways)


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
    return {
        "x": torch.randint(-3, 4, (3, 2), generator=g).tolist(),
        "logits": torch.randint(1, 5, (2, 2, 3, 3), generator=g).tolist(),
        "weights": torch.randint(1, 5, (2, 2, 2, 2), generator=g).tolist(),
        "value_biases": torch.randint(1, 5, (2, 2, 2), generator=g).tolist(),
        "biases": torch.randint(1, 5, (2, 2), generator=g).tolist(),
    }


def head_counts(heads=(3, 3, 3)) -> dict:
    """Numbers of heads, first layer first."""
    return {"heads": heads}


SOFTMAX = Case(random_network, {"seed": 0})
PLAIN = SOFTMAX.but(bias=False)
SEEDS = [SOFTMAX, SOFTMAX.but(seed=1), SOFTMAX.but(seed=2)]
PLAIN_SEEDS = [PLAIN, PLAIN.but(seed=1), PLAIN.but(seed=2)]
FEW_HEADS = PLAIN.but(L=2, h=2)
INTEGERS = Case(integer_network)


# --- the decomposition


def constant_row(layers: Sequence[Layer], *, skip: bool = False) -> Tensor:
    """The row b of all biases, formula (1.5) as it stands, layer by layer."""
    b = torch.zeros_like(layers[0].w_o[0, 0])
    for layer in layers:
        weights, own = merged(layer)
        carried = sum(b @ w for w in weights)
        b = carried + own + b if skip else carried + own
    return b


def same_order_term(
    x: Tensor, layers: Sequence[Layer], path: Path, attention: Sequence[Tensor]
) -> Tensor:
    """A term with its attention matrices in the order of its weights: a slip."""
    left = []
    right = []
    for l, h in enumerate(path):
        if h is not None:
            left.append(attention[l][..., h, :, :])
            right.append(merged(layers[l])[0][h])
    for p in reversed(left):
        x = p @ x
    for w in right:
        x = x @ w
    return x


def biases_matter() -> Verdict:
    """Rows of softmax sum to one, in a network whose biases move every token.

    Measured: the largest |P 1 - 1|, or 1 if the row b is less than a tenth of a token.
    """
    x, layers = random_network().values()
    y, attention = forward(x, layers, return_attention=True)
    sums = torch.stack(attention).sum(-1)
    off = float((sums - 1).abs().max())
    b = path_sums(x, layers).bias
    token = y.norm() / math.sqrt(len(x))
    return at_most(off if b.norm() > 0.1 * token else 1.0, 1e-14)


@claim(
    "paths.decomposition",
    cases=SEEDS,
    controls=[SOFTMAX.but(order="same"), SOFTMAX.but(row=False)],
    witness=biases_matter,
)
def decomposition(
    x: Tensor,
    layers: Sequence[Layer],
    *,
    skip: bool = False,
    order: Literal["opposite", "same"] = "opposite",
    row: bool = True,
    mask: Tensor | None = None,
    scale: float | None = None,
    normalizer: Normalizer = "softmax",
) -> Verdict:
    """A stack of self-attention layers is the sum of its paths and one row.

        SAN(X) = sum over paths of P^L ... P^1 X W^1 ... W^L + 1 b'

    Hypotheses: the P are those of the full forward pass, their rows sum to one, and
    nothing stands between the layers: no feed-forward part, no LayerNorm.
    Measured: the relative error of the sum against the forward pass, the worst of a
    batch. Where terms cancel, rounding can exceed the bound: scale the weights down.

    Args:
        x: (*batch, n, d), float64 or float32.
        layers: L Layers; all paths are listed, so at most a million.
        skip: every layer adds its input to its output.
        order: "same" multiplies the P in the order of the W, which is false.
        row: False forgets the row b, which is false where there are biases.
        mask, scale, normalizer: as in attention_matrix; True = may attend.

    Returns:
        Verdict.

    Raises:
        ValueError: for more than a million paths, half precision, an unknown order, and
            as forward.

    Claim: paths.decomposition
    Page: notebooks/path_decomposition/paths
    """
    one_of(("opposite", "same"), order=order)
    how = {"mask": mask, "scale": scale, "normalizer": normalizer}
    y, attention = forward(x, layers, skip=skip, return_attention=True, **how)
    total = torch.zeros_like(y)
    if row:
        total = total + constant_row(layers, skip=skip)
    contribution = path_term if order == "opposite" else same_order_term
    for path in all_paths(layers, skip=skip):
        total = total + contribution(x, layers, path, attention)
    return at_most(error(total, y), rounding(x))


def a_skip_is_a_head() -> Verdict:
    """The head with P = I and W = I gives what a skip gives, in exact arithmetic.

    Measured: the largest difference of the two networks.
    """
    made = integer_network()
    x = certify.exact(made["x"])
    attention = [_normalised(heads, squares) for heads in made["logits"]]
    weights = [[certify.exact(w) for w in maps] for maps in made["weights"]]
    with_skip = certify.network(x, attention, weights, skip=True)
    for heads, maps in zip(attention, weights):
        heads.append(certify.exact(torch.eye(3)))
        maps.append(certify.exact(torch.eye(2)))
    with_head = certify.network(x, attention, weights)
    return at_most(_largest_difference(with_head, with_skip), 0)


@claim(
    "paths.skip",
    cases=SEEDS,
    controls=[SOFTMAX.but(row_keeps=False), SOFTMAX.but(may_skip=False)],
    witness=a_skip_is_a_head,
)
def skip_connections(
    x: Tensor,
    layers: Sequence[Layer],
    *,
    may_skip: bool = True,
    row_keeps: bool = True,
) -> Verdict:
    """With skips the sum runs over the (H + 1)^L paths that may leave out layers.

    Hypotheses: as for `decomposition`; every layer adds its input to its output.
    Measured: the relative error of the sum against the forward pass.

    Args:
        x: (*batch, n, d).
        layers: L Layers, at most a million paths.
        may_skip: False sums only the H^L paths through a head of every layer.
        row_keeps: False lets the row b forget its old value in each layer.

    Returns:
        Verdict.

    Claim: paths.skip
    Page: notebooks/path_decomposition/paths
    """
    y, attention = forward(x, layers, skip=True, return_attention=True)
    total = torch.zeros_like(y) + constant_row(layers, skip=row_keeps)
    for path in all_paths(layers, skip=may_skip):
        total = total + path_term(x, layers, path, attention)
    return at_most(error(total, y), rounding(x))


# --- what it rests on, and the order of two layers


def squares(row: Sequence[Fraction]) -> list[Fraction]:
    """Squares of logits over their sum: rows sum to one, and a shift changes them."""
    total = sum(v * v for v in row)
    if total == 0:
        raise ValueError("logits: a row of zeros has no squares to be divided by")
    return [v * v / total for v in row]


def powers(row: Sequence[Fraction]) -> list[Fraction]:
    """2^(logit - largest logit): a shift changes nothing, rows do not sum to one."""
    top = max(row)
    return [Fraction(2) ** int(v - top) for v in row]


def _normalised(logits, normaliser: Callable) -> list[Matrix]:
    """Each head's matrix of logits, normalised row by row."""
    heads = [certify.exact(matrix) for matrix in logits]
    return [[normaliser(row) for row in matrix] for matrix in heads]


def _largest_difference(a: Matrix, b: Matrix) -> Fraction:
    differences = []
    for row, other in zip(a, b):
        differences += [abs(u - v) for u, v in zip(row, other)]
    return max(differences)


def shifts_move_squares() -> Verdict:
    """Normalised squares have rows that sum to one, and are not shift invariant.

    Measured: |sum - 1| of (1, 2) and (2, 3), or 1 if the shift changed nothing.
    """
    row, shifted_row = certify.exact([[1, 2], [2, 3]])
    one = squares(row)
    shifted = squares(shifted_row)
    off = max(abs(sum(one) - 1), abs(sum(shifted) - 1))
    return at_most(off if one != shifted else 1, 0)


@claim(
    "paths.row-sums",
    cases=[INTEGERS, INTEGERS.but(skip=True), INTEGERS.but(seed=4)],
    controls=[INTEGERS.but(normaliser=powers)],
    witness=shifts_move_squares,
)
def row_sums(
    x,
    logits,
    weights,
    value_biases,
    biases,
    *,
    normaliser: Callable = squares,
    skip: bool = False,
) -> Verdict:
    """The decomposition rests on P 1 = 1, and not on invariance under shifts.

    Hypotheses: the rows of every P sum to one.
    Measured, in exact arithmetic: the largest entry of network - paths - 1 b'. It is
    zero for `squares`, which shifts change; and not for `powers`, which they do not.

    Args:
        x: n rows of d numbers.
        logits: n x n logits for each layer and head.
        weights: d x d maps W for each layer and head.
        value_biases: a row of d for each layer and head, b_V' W_O.
        biases: a row of d for each layer, b_O.
        normaliser: from a row of logits to a row of weights, in Fractions.
        skip: every layer adds its input to its output.

    Returns:
        Verdict; its bound is 0.

    Claim: paths.row-sums
    Page: notebooks/path_decomposition/paths
    """
    misfit = certify.decomposition_gap(
        certify.exact(x),
        [_normalised(heads, normaliser) for heads in logits],
        [[certify.exact(w) for w in maps] for maps in weights],
        value_biases=[certify.exact(rows) for rows in value_biases],
        biases=certify.exact(biases),
        skip=skip,
    )
    return at_most(misfit, 0)


def two_softmax_layers() -> tuple[Tensor, list[Layer]]:
    """Two tokens 1 and 0, two layers of one head, W = 1: softmax gives P^1 and P^2 of
    the counterexample to the printed order, with quarters as entries.
    """
    x = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    log3 = math.log(3)
    first = Layer(2 * log3 * one, one, one, one, b_q=-log3 * one[0])
    second = Layer(4 * log3 * one, one, one, one, b_q=-3 * log3 * one[0])
    return x, [first, second]


def the_counterexample_is_softmax() -> Verdict:
    """The matrices that refute the printed order come out of softmax.

    Measured: the largest difference of P from its quarters.
    """
    x, layers = two_softmax_layers()
    _, (first, second) = forward(x, layers, return_attention=True)
    wanted_first = torch.tensor([[3, 1], [1, 3]]) / 4
    wanted_second = torch.tensor([[2, 2], [1, 3]]) / 4
    off_first = (first[0] - wanted_first).abs().max()
    off_second = (second[0] - wanted_second).abs().max()
    return at_most(max(off_first, off_second), 1e-15)


@claim(
    "paths.order",
    cases=[PLAIN.but(L=2), PLAIN.but(L=2, seed=1)],
    controls=[PLAIN.but(L=2, order="same")],
    witness=the_counterexample_is_softmax,
)
def two_layers(
    x: Tensor,
    layers: Sequence[Layer],
    *,
    order: Literal["opposite", "same"] = "opposite",
) -> Verdict:
    """In the formula of two layers the two products run in opposite orders.

        SA^2(SA^1(X)) = sum over i, j of P^2_j P^1_i X W^1_i W^2_j

    Hypotheses: two layers without value and output biases.
    Measured: the relative error of the double sum against the forward pass.

    Args:
        x: (*batch, n, d).
        layers: two Layers without value and output biases.
        order: "same" writes P^1_i P^2_j, as printed.

    Returns:
        Verdict.

    Claim: paths.order
    Page: notebooks/path_decomposition/paths
    """
    if len(layers) != 2:
        raise ValueError(f"layers: the formula is of two layers, got {len(layers)}")
    one_of(("opposite", "same"), order=order)
    without_biases(layers)
    y, (p1, p2) = forward(x, layers, return_attention=True)
    w1, _ = merged(layers[0])
    w2, _ = merged(layers[1])
    total = torch.zeros_like(y)
    for i in range(len(w1)):
        for j in range(len(w2)):
            p_i = p1[..., i, :, :]
            p_j = p2[..., j, :, :]
            left = p_j @ p_i if order == "opposite" else p_i @ p_j
            total = total + left @ x @ w1[i] @ w2[j]
    return at_most(error(total, y), rounding(x))


# --- all paths by length, their cost, their number


def length(path: Path) -> int:
    """How many heads a path goes through."""
    return len(path) - path.count(None)


def every_length_occurs() -> Verdict:
    """No sum by length of a random network vanishes.

    Measured: the least of their norms, at least 0.01.
    """
    sums = path_sums(**random_network(bias=False), skip=True).by_length
    return at_least(sums.flatten(1).norm(dim=1).min(), 0.01)


@claim(
    "paths.sums",
    cases=[*PLAIN_SEEDS, PLAIN.but(skip=False), SOFTMAX],
    controls=[PLAIN.but(attention="recomputed")],
    witness=every_length_occurs,
)
def sums_by_length(
    x: Tensor,
    layers: Sequence[Layer],
    *,
    skip: bool = True,
    attention: Literal["frozen", "recomputed"] = "frozen",
) -> Verdict:
    """One pass over the layers gives the sum of all paths of each length.

        S_k <- S_k + sum_h P_h S_{k-1} W_h

    Hypotheses: the P are those of the full forward pass, and stay as they are.
    Measured: the relative error of `path_sums` against all paths, listed one by one; or
    that of all sums and the row b against the forward pass, if it is larger.

    Args:
        x: (*batch, n, d).
        layers: L Layers, at most a million paths.
        skip: every layer adds its input to its output.
        attention: "recomputed" lists, for each path, the network of its heads alone,
            which attends otherwise; for layers without value and output biases.

    Returns:
        Verdict.

    Claim: paths.sums
    Page: notebooks/path_decomposition/paths
    """
    one_of(("frozen", "recomputed"), attention=attention)
    if attention == "recomputed":
        without_biases(layers)
    sums, b = path_sums(x, layers, skip=skip)
    listed = torch.zeros_like(sums)
    for path, term in path_terms(x, layers, skip=skip):
        if attention == "recomputed" and length(path) > 0:
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


def listing_costs_more() -> Verdict:
    """Visiting the 125 paths of three layers of four heads costs far more.

    Measured: how many times as many multiplications, at least 20.
    """
    x, layers = random_network(bias=False).values()
    _, attention = forward(x, layers, skip=True, return_attention=True)
    how = {"skip": True, "attention": attention}
    listed = multiplications(lambda: list(path_terms(x, layers, **how)))
    summed = multiplications(lambda: path_sums(x, layers, **how))
    return at_least(listed / summed, 20)


@claim(
    "paths.cost",
    cases=[PLAIN.but(L=5), PLAIN.but(L=1), PLAIN.but(L=2), PLAIN.but(L=8)],
    controls=[PLAIN.but(L=5, skip=False)],
    witness=listing_costs_more,
)
def cost(x: Tensor, layers: Sequence[Layer], *, skip: bool = True) -> Verdict:
    """All sums by length take (L + 1)/2 times the multiplications of a forward pass.

    Hypotheses: the attention matrices are given, the layers cost the same and have no
    value and output biases, both sides multiply by W_V and then by W_O, and there are
    skips: without them only one length is carried.
    Measured: the distance of the ratio from (L + 1)/2, counted and not timed.

    Args:
        x: (*batch, n, d).
        layers: L Layers of one size.
        skip: every layer adds its input to its output.

    Returns:
        Verdict; its bound is 0.

    Claim: paths.cost
    Page: notebooks/path_decomposition/paths
    """
    without_biases(layers)
    _, attention = forward(x, layers, skip=skip, return_attention=True)

    def logits():
        return [attention_matrix(x, layer.w_q, layer.w_k) for layer in layers]

    whole = multiplications(lambda: forward(x, layers, skip=skip))
    one_pass = whole - multiplications(logits)
    summed = multiplications(
        lambda: path_sums(x, layers, skip=skip, attention=attention)
    )
    ratio = Fraction(summed, one_pass)
    return at_most(abs(ratio - Fraction(len(layers) + 1, 2)), 0)


def counts_are_of_paths() -> Verdict:
    """The counts are those of the paths that path_terms lists.

    Measured: the largest difference.
    """
    x, layers = random_network(bias=False).values()
    found = [0] * (len(layers) + 1)
    for path, _ in path_terms(x, layers, skip=True):
        found[length(path)] += 1
    counts = path_counts([4, 4, 4], skip=True)
    return at_most(max(abs(f - c) for f, c in zip(found, counts)), 0)


HEADS = Case(head_counts, {"heads": (3, 3, 3)})


@claim(
    "paths.lengths",
    cases=[HEADS, HEADS.but(heads=(1,)), HEADS.but(heads=(96,) * 96)],
    controls=[HEADS.but(heads=(2, 3, 4))],
    witness=counts_are_of_paths,
)
def lengths(heads: Sequence[int]) -> Verdict:
    """There are binom(L, k) H^k paths of length k; the mean length is L H / (H + 1).

    Hypotheses: skips, and the same number H of heads in every layer.
    Measured, exactly: the largest difference of the counts from the formula, and that
    of their mean. If the numbers of heads differ, H is their mean.

    Args:
        heads: number of heads of each layer.

    Returns:
        Verdict; its bound is 0.

    Claim: paths.lengths
    Page: notebooks/path_decomposition/paths
    """
    if not all(isinstance(h, int) for h in heads):
        raise ValueError(f"heads must be whole numbers, one a layer, got {heads}")
    L = len(heads)
    counts = path_counts(heads, skip=True)
    H = Fraction(sum(heads), L)
    formula = [math.comb(L, k) * H**k for k in range(L + 1)]
    off = max(abs(c - f) for c, f in zip(counts, formula))
    total_length = sum(k * c for k, c in enumerate(counts))
    mean = Fraction(total_length, sum(counts))
    return at_most(max(off, abs(mean - L * H / (H + 1))), 0)


# --- random signs


def squared_norms(
    x: Tensor, layers: Sequence[Layer], *, centred: bool = False
) -> Tensor:
    """The squared norms of all paths, listed one by one and added up by length."""
    found = torch.zeros(len(layers) + 1, dtype=x.dtype, device=x.device)
    for path, term in path_terms(x, layers, skip=True):
        if centred:
            term = term - term.mean(-2, keepdim=True)
        found[length(path)] += term.detach().square().sum()
    return found


def drawn_signs_agree() -> Verdict:
    """path_norms, which draws its signs, agrees with the listed paths.

    Measured: the largest error in units of its standard error, at most 4; or infinity
    if a standard error exceeds a tenth.
    """
    network = random_network(bias=False)
    worst = 0.0
    for centred in (False, True):
        wanted = squared_norms(**network, centred=centred)
        g = torch.Generator().manual_seed(0)
        got = path_norms(**network, signs=2000, generator=g, skip=True, centred=centred)
        if not (got.standard_error[1:] < 0.1 * wanted[1:]).all():
            return at_most(math.inf, 4)
        error = (got.total_square - wanted).abs()
        in_units = error / (got.standard_error + 1e-9 * wanted)
        worst = max(worst, float(in_units.max()))
    return at_most(worst, 4)


@claim(
    "paths.signs",
    cases=[FEW_HEADS, FEW_HEADS.but(centred=True), FEW_HEADS.but(seed=1)],
    controls=[FEW_HEADS.but(tied=True)],
    witness=drawn_signs_agree,
)
def random_signs(
    x: Tensor,
    layers: Sequence[Layer],
    *,
    tied: bool = False,
    centred: bool = False,
) -> Verdict:
    """With a fair random sign on every head, the expected squared norm of the sum of
    length k is the sum of the squared norms of all paths of length k.

    Hypotheses: the signs are independent over layers and heads.
    Measured: the relative error of the mean over ALL patterns of signs, against the
    paths listed one by one. Nothing is drawn.

    Args:
        x: (*batch, n, d); squared norms are summed over the batch.
        layers: L Layers with at most 16 heads in all.
        tied: all heads of a layer share a sign; then cross terms survive.
        centred: subtract the token mean of each path first.

    Returns:
        Verdict.

    Raises:
        ValueError: for more than 16 heads.

    Cost: 2^heads path_sums, minutes for 16 heads.
    Claim: paths.signs
    Page: notebooks/path_decomposition/paths
    """
    _, attention = forward(x, layers, skip=True, return_attention=True)
    heads = [layer.w_q.shape[0] for layer in layers]
    if 2 ** sum(heads) > MOST_SIGNS:
        raise ValueError(
            f"layers hold {sum(heads)} heads: at most 16, all signs are run"
        )
    coins = [1] * len(heads) if tied else heads  # independent signs of each layer
    total = torch.zeros(len(layers) + 1, dtype=x.dtype, device=x.device)
    for pattern in itertools.product((1.0, -1.0), repeat=sum(coins)):
        flips = torch.tensor(pattern, dtype=x.dtype, device=x.device).split(coins)
        signed = []
        for layer, signs in zip(layers, flips):
            signed.append(layer._replace(w_o=signs[:, None, None] * layer.w_o))
        sums = path_sums(x, signed, skip=True, attention=attention).by_length
        if centred:
            sums = sums - sums.mean(-2, keepdim=True)
        total += sums.detach().square().flatten(1).sum(1)
    mean = total / 2 ** sum(coins)
    wanted = squared_norms(x, layers, centred=centred)
    return at_most(_relative_error(mean, wanted), rounding(x))


# --- a path is not a subnetwork


def toy_head(c: float) -> Layer:
    """Two heads of strengths c and 1/2 and weights 1 and -1/2, as in Example 1.4, with
    queries and keys four times as wide.
    """
    strength = torch.tensor([[[c]], [[0.5]]], dtype=torch.float64)
    weight = torch.tensor([[[1.0]], [[-0.5]]], dtype=torch.float64)
    ones = torch.ones(2, 1, 4, dtype=torch.float64)
    w_q = strength / 2 * ones
    return Layer(w_q, ones, weight, torch.ones_like(weight))


def two_tokens_in_closed_form(c: float = 0.7) -> Verdict:
    """Example 1.4: terms and subnetworks of two paths, both against tanh.

    Measured: the largest difference over both readings of (skip, head 2) and
    (head 1, head 1); or 1 if the two readings agree.
    """
    layers = [toy_head(c)] * 2
    x = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    terms = dict(path_terms(x, layers, skip=True))
    t = math.tanh(c)
    seen = 1 + t - 0.5 * math.tanh(0.5)  # what layer 2 sees in the full pass
    in_full = {
        (None, 1): -0.5 * math.tanh(0.5 * seen**2),
        (0, 0): t * math.tanh(c * seen**2),
    }
    alone = {
        (None, 1): -0.5 * math.tanh(0.5),
        (0, 0): t * math.tanh(c * t**2),
    }
    off = 0.0
    for path in in_full:
        subnetwork = forward(x, restrict(layers, path))
        off = max(off, abs(float(terms[path][0]) - in_full[path]))
        off = max(off, abs(float(subnetwork[0]) - alone[path]))
        if abs(in_full[path] - alone[path]) < 0.01:
            off = 1.0
    return at_most(off, 1e-14)


@claim(
    "paths.recomputed",
    cases=[PLAIN, PLAIN.but(L=2), PLAIN.but(seed=1)],
    controls=[PLAIN.but(L=1)],
    witness=two_tokens_in_closed_form,
)
def subnetworks(x: Tensor, layers: Sequence[Layer]) -> Verdict:
    """If the network of each path computes its own attention, the outputs do not add up
    to the network.

    Hypotheses: at least two layers, no value and output biases; it holds for networks
    in general and not for each.
    Measured: the relative distance of the sum from the network, at least a tenth.

    Args:
        x: (*batch, n, d).
        layers: L Layers without value and output biases, at most a million paths.

    Returns:
        Verdict; ok if the distance is at least a tenth.

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
    for path, _ in path_terms(x, layers, skip=True):
        kept = restrict(layers, path)
        total = total + (forward(x, kept) if kept else x)
    return at_least(error(total, y), 0.1)
