"""The claims of notebooks/path_decomposition/paths: each check, and its control, on
which the same function fails.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnlib import certify
from attnlib.attention import Layer, attention_matrix, forward, merged, random_layers
from attnlib.certify import at_most, relative_error
from attnlib.paths import path_counts, path_norms, path_sums, path_terms, restrict

EPS = torch.finfo(torch.float64).eps


def network(seed=0, L=3, h=4, n=6, d=8, bias=True):
    g = torch.Generator().manual_seed(seed)
    layers = random_layers(L, h, d, 5, d_v=3, bias=bias, generator=g)
    return torch.randn(n, d, dtype=torch.float64, generator=g), layers


def length(path) -> int:
    return len(path) - path.count(None)


# --- the decomposition, without and with skips


def check_decomposition(seed, *, skip, order="opposite", heads=4):
    """All paths, listed, and the row (1.5), against the forward pass; tolerance 1e-12
    (4,500 eps).
    """
    x, layers = network(seed, h=heads)
    y, attention = forward(x, layers, skip=skip, return_attention=True)
    weights = [merged(layer)[0] for layer in layers]
    total = path_sums(x, layers, skip=skip).bias.expand_as(x)
    for path, term in path_terms(x, layers, skip=skip):
        if order == "same":
            ways = [
                (attention[l][h], weights[l][h])
                for l, h in enumerate(path)
                if h is not None
            ]
            left = [p for p, _ in reversed(ways)]
            term = x
            for p in left:
                term = p @ term
            for _, w in ways:
                term = term @ w
        total = total + term
    return at_most(relative_error(total, y), 1e-12)


@pytest.mark.claim("paths.decomposition", role="check")
@pytest.mark.parametrize("seed", range(3))
def test_decomposition(seed):
    assert check_decomposition(seed, skip=False).ok


@pytest.mark.claim("paths.decomposition", role="control")
def test_decomposition_needs_the_order():
    verdict = check_decomposition(0, skip=False, order="same")
    assert not verdict.ok and verdict.value > 0.1


@pytest.mark.claim("paths.decomposition", role="witness")
def test_softmax_rows_sum_to_one_with_biases_that_matter():
    x, layers = network()
    y, attention = forward(x, layers, return_attention=True)
    assert all((p.sum(-1) - 1).abs().max() <= 8 * p.shape[-1] * EPS for p in attention)
    assert path_sums(x, layers).bias.norm() > 0.1 * y.norm() / math.sqrt(len(x))


@pytest.mark.claim("paths.skip", role="check")
@pytest.mark.parametrize("seed", range(3))
def test_skip(seed):
    x, layers = network(seed)
    assert len(list(path_terms(x, layers, skip=True))) == 5**3
    assert check_decomposition(seed, skip=True).ok


@pytest.mark.claim("paths.skip", role="control")
def test_skip_needs_the_order():
    verdict = check_decomposition(0, skip=True, order="same")
    assert not verdict.ok and verdict.value > 0.1


@pytest.mark.claim("paths.skip", role="witness")
def test_identity_is_a_head():
    """A skip is the head with P = I, W = I: its rows sum to one, and the network gives
    the same.
    """
    x, layers = network(bias=False)
    exact_x = certify.exact(x)
    p, w = rational(seed=1, n=6, d=8)

    def eye(m):
        return [[Fraction(i == j) for j in range(m)] for i in range(m)]

    dummy = certify.network(
        exact_x, [[*heads, eye(6)] for heads in p], [[*maps, eye(8)] for maps in w]
    )
    assert dummy == certify.network(exact_x, p, w, skip=True)


# --- what it rests on, and the order of two layers: exact


def rational(seed, L=2, h=2, n=3, d=2, normalise=None):
    g = torch.Generator().manual_seed(seed)

    def ints(*size):
        return torch.randint(1, 5, size, generator=g)

    normalise = normalise or (lambda row: certify.row_stochastic([row])[0])
    p = [
        [[normalise(row) for row in head] for head in layer]
        for layer in ints(L, h, n, n).tolist()
    ]
    return p, [[certify.exact(w) for w in layer] for layer in ints(L, h, d, d)]


def squares(row):
    return certify.row_stochastic([[v * v for v in row]])[0]


def powers(row):
    return certify.exact([[2.0 ** (v - max(row)) for v in row]])[0]


def check_row_sums(normalise, *, skip=False):
    """network - paths - 1 b' in fractions: exactly zero, for any normaliser whose rows
    sum to one.
    """
    p, w = rational(3, normalise=normalise)
    g = torch.Generator().manual_seed(4)
    rows = [certify.exact(u) for u in torch.randint(1, 5, (2, 2, 2), generator=g)]
    x = certify.exact(torch.randint(-3, 4, (3, 2), generator=g))
    b = certify.exact(torch.randint(1, 5, (2, 2), generator=g))
    return at_most(
        certify.decomposition_gap(x, p, w, value_biases=rows, biases=b, skip=skip), 0
    )


@pytest.mark.claim("paths.row-sums", role="check")
@pytest.mark.claim("paths.decomposition", role="certificate")
@pytest.mark.parametrize("skip", [False, True])
def test_rows_that_sum_to_one_are_enough(skip):
    assert check_row_sums(squares, skip=skip).ok
    assert squares([1, 2]) != squares([2, 3])  # and squares are not shift invariant


@pytest.mark.claim("paths.row-sums", role="control")
@pytest.mark.claim("paths.row-sums", role="counterexample")
@pytest.mark.parametrize("skip", [False, True])
def test_shift_invariance_is_not_enough(skip):
    assert powers([1, 2]) == powers([2, 3]) and sum(powers([1, 2])) != 1
    assert not check_row_sums(powers, skip=skip).ok


@pytest.mark.claim("paths.row-sums", role="witness")
def test_row_stochastic_rationals_exist():
    p, _ = rational(3, normalise=squares)
    assert all(
        sum(row) == 1 and min(row) > 0 for layer in p for head in layer for row in head
    )


def check_order(order):
    """Two layers that share two heads, in fractions: the largest difference from the
    network.
    """
    p = [certify.row_stochastic([[3, 1]] * 2), certify.row_stochastic([[1, 3]] * 2)]
    w = [certify.exact([[0, 1], [0, 0]]), certify.exact([[0, 0], [1, 0]])]
    x = certify.exact([[1, 0], [0, 1]])
    whole = certify.network(x, [p, p], [w, w])
    pairs = list(itertools.product((0, 1), repeat=2))
    left = {"opposite": lambda i, j: (p[j], p[i]), "same": lambda i, j: (p[i], p[j])}[
        order
    ]
    terms = [certify.product(*left(i, j), x, w[i], w[j]) for i, j in pairs]
    return at_most(
        max(abs(whole[r][c] - sum(t[r][c] for t in terms)) for r, c in pairs), 0
    )


@pytest.mark.claim("paths.order", role="check")
def test_opposite_orders():
    assert check_order("opposite").ok


@pytest.mark.claim("paths.order", role="control")
@pytest.mark.claim("paths.order", role="counterexample")
def test_the_printed_order():
    assert check_order("same") == (0.5, 0, False)


def check_softmax_order(order):
    """The same two formulas in a random softmax network, with the merged weights;
    relative error, 1e-12.
    """
    x, layers = network(L=2, bias=False)
    y, (p1, p2) = forward(x, layers, return_attention=True)
    w1, w2 = (merged(layer)[0] for layer in layers)
    left = {"opposite": lambda i, j: p2[j] @ p1[i], "same": lambda i, j: p1[i] @ p2[j]}[
        order
    ]
    pairs = itertools.product(range(4), repeat=2)
    return at_most(
        relative_error(sum(left(i, j) @ x @ w1[i] @ w2[j] for i, j in pairs), y), 1e-12
    )


@pytest.mark.claim("paths.order", role="witness")
def test_order_shows_in_softmax_networks_too():
    assert check_softmax_order("opposite").ok
    assert check_softmax_order("same").value > 0.1


# --- sums by length


def check_sums(seed, *, skip=True, frozen=True):
    """The recursion against all listed paths, sorted by length; frozen=False lists
    subnetworks instead.
    """
    x, layers = network(seed, bias=False)
    wanted = path_sums(x, layers, skip=skip).by_length
    listed = torch.zeros_like(wanted)
    for path, term in path_terms(x, layers, skip=skip):
        kept = restrict(layers, path)
        listed[length(path)] += term if frozen or not kept else forward(x, kept)
    return at_most(relative_error(listed, wanted), 1e-12)


@pytest.mark.claim("paths.sums", role="check")
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_sums(seed, skip):
    assert check_sums(seed, skip=skip).ok


@pytest.mark.claim("paths.sums", role="control")
def test_sums_need_frozen_attention():
    assert not check_sums(0, frozen=False).ok


@pytest.mark.claim("paths.sums", role="witness")
def test_every_length_occurs():
    x, layers = network(bias=False)
    assert (
        path_sums(x, layers, skip=True).by_length.flatten(1).norm(dim=1) > 0.01
    ).all()


@pytest.mark.claim("paths.sums", role="certificate")
@pytest.mark.parametrize("skip", [False, True])
def test_sums_against_fractions(skip):
    """The float recursion against exact interpolation on the same numbers: error at
    most 64 eps of the largest sum.
    """
    x, layers = network(5, L=3, h=2, n=3, d=3, bias=False)
    _, attention = forward(x, layers, skip=skip, return_attention=True)
    # W_h is rounded once, before both evaluations, so that they see the same numbers
    eye = torch.eye(3, dtype=x.dtype).expand(2, 3, 3)
    layers = [layer._replace(w_v=merged(layer)[0], w_o=eye) for layer in layers]
    got = path_sums(x, layers, skip=skip, attention=attention).by_length
    exact = certify.path_sum(
        certify.exact(x),
        [[certify.exact(p) for p in heads] for heads in attention],
        [[certify.exact(w) for w in layer.w_v] for layer in layers],
        skip=skip,
    )
    scale = max(abs(entry) for s in exact for row in s for entry in row)
    gap = max(
        abs(Fraction(float(got[k, i, j])) - exact[k][i][j])
        for k in range(4)
        for i in range(3)
        for j in range(3)
    )
    assert at_most(gap, 64 * EPS * float(scale)).ok


# --- cost, lengths


def multiplications(run) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops() // 2


def check_cost(L, *, skip=True):
    """|multiplications / those of a forward pass - (L + 1)/2|, counted, not timed:
    exactly zero.
    """
    x, layers = network(L=L, bias=False)
    _, attention = forward(x, layers, skip=skip, return_attention=True)
    logits = multiplications(
        lambda: [attention_matrix(x, layer.w_q, layer.w_k) for layer in layers]
    )
    once = multiplications(lambda: forward(x, layers, skip=skip)) - logits
    sums = multiplications(lambda: path_sums(x, layers, skip=skip, attention=attention))
    return at_most(abs(Fraction(sums, once) - Fraction(L + 1, 2)), 0)


@pytest.mark.claim("paths.cost", role="check")
@pytest.mark.parametrize("L", [1, 2, 5, 8])
def test_cost(L):
    assert check_cost(L).ok


@pytest.mark.claim("paths.cost", role="control")
def test_without_skips_one_length_is_carried():
    verdict = check_cost(5, skip=False)
    assert not verdict.ok and verdict.value == 2  # one pass, not three


@pytest.mark.claim("paths.cost", role="witness")
def test_listing_costs_more():
    x, layers = network(bias=False)
    _, attention = forward(x, layers, skip=True, return_attention=True)
    listed = multiplications(
        lambda: list(path_terms(x, layers, skip=True, attention=attention))
    )
    assert listed > 20 * multiplications(
        lambda: path_sums(x, layers, skip=True, attention=attention)
    )


def check_lengths(heads):
    """The counts against the binomial formula for the mean number of heads, in
    integers.
    """
    L, h = len(heads), heads[0]
    counts = path_counts(heads, skip=True)
    wanted = [math.comb(L, k) * h**k for k in range(L + 1)]
    assert sum(counts) == math.prod(g + 1 for g in heads)
    return at_most(max(abs(c - w) for c, w in zip(counts, wanted)), 0)


@pytest.mark.claim("paths.lengths", role="check")
@pytest.mark.parametrize(("L", "h"), [(1, 1), (4, 3), (12, 12), (96, 96)])
def test_lengths(L, h):
    assert check_lengths([h] * L).ok
    counts = path_counts([h] * L, skip=True)
    mean = Fraction(sum(k * c for k, c in enumerate(counts)), sum(counts))
    assert mean == Fraction(L * h, h + 1)


@pytest.mark.claim("paths.lengths", role="control")
def test_unequal_heads_have_another_law():
    assert not check_lengths([2, 3, 4]).ok


@pytest.mark.claim("paths.lengths", role="witness")
def test_counts_are_of_paths():
    x, layers = network(bias=False)
    found = [0] * 4
    for path, _ in path_terms(x, layers, skip=True):
        found[length(path)] += 1
    assert found == path_counts([4] * 3, skip=True)


# --- random signs


def check_signs(*, tied=False, centred=False):
    """The mean over ALL patterns of signs: an identity, so nothing is sampled. tied:
    one sign a layer.
    """
    x, layers = network(L=2, h=2, bias=False)
    _, attention = forward(x, layers, skip=True, return_attention=True)
    centre = (lambda s: s - s.mean(-2, keepdim=True)) if centred else (lambda s: s)
    coins = list(itertools.product((1.0, -1.0), repeat=2))
    patterns = (
        [((a, a), (b, b)) for a, b in coins]
        if tied
        else itertools.product(coins, coins)
    )
    runs = []
    for pattern in patterns:
        signed = [
            layer._replace(w_o=layer.w_o * torch.tensor(s, dtype=x.dtype).view(2, 1, 1))
            for layer, s in zip(layers, pattern)
        ]
        sums = path_sums(x, signed, skip=True, attention=attention).by_length
        runs.append(centre(sums).square().sum((-2, -1)))
    wanted = torch.zeros(3, dtype=x.dtype)
    for path, term in path_terms(x, layers, skip=True):
        wanted[length(path)] += centre(term).square().sum()
    return at_most(relative_error(torch.stack(runs).mean(0), wanted), 1e-12)


@pytest.mark.claim("paths.signs", role="check")
@pytest.mark.parametrize("centred", [False, True])
def test_signs(centred):
    assert check_signs(centred=centred).ok


@pytest.mark.claim("paths.signs", role="control")
def test_signs_tied_in_a_layer_leave_cross_terms():
    verdict = check_signs(tied=True)
    assert not verdict.ok and verdict.value > 0.05


def check_drawn_signs(*, centred=False):
    """Drawn signs against the listed paths: the largest error in units of its standard
    error, at most 4.
    """
    x, layers = network(bias=False)
    wanted = torch.zeros(4, dtype=x.dtype)
    for path, term in path_terms(x, layers, skip=True):
        wanted[length(path)] += (term - centred * term.mean(0)).square().sum()
    g = torch.Generator().manual_seed(0)
    got = path_norms(x, layers, signs=2000, generator=g, skip=True, centred=centred)
    assert (got.standard_error[1:] < 0.1 * wanted[1:]).all()
    return at_most(
        (
            (got.total_square - wanted).abs() / (got.standard_error + 1e-9 * wanted)
        ).max(),
        4,
    )


@pytest.mark.claim("paths.signs", role="witness")
@pytest.mark.parametrize("centred", [False, True])
def test_drawn_signs_agree_within_their_error(centred):
    assert check_drawn_signs(centred=centred).ok


# --- a path is not a subnetwork


def check_recomputed(L):
    """The distance of terms and subnetworks, summed over all paths: at least a tenth of
    the network.
    """
    x, layers = network(L=L, bias=False)
    y = forward(x, layers, skip=True)
    alone = x + sum(
        forward(x, restrict(layers, path))
        for path, _ in path_terms(x, layers, skip=True)
        if length(path)
    )
    return at_most(0.1, relative_error(alone, y))


@pytest.mark.claim("paths.recomputed", role="check")
@pytest.mark.parametrize("L", [2, 3])
def test_subnetworks_do_not_add_up(L):
    assert check_recomputed(L).ok


@pytest.mark.claim("paths.recomputed", role="control")
def test_in_one_layer_they_do():
    assert not check_recomputed(1).ok


def check_closed_form(c, *, alone=True):
    """Example 1.4 with two heads of strengths c, 1/2 and weights 1, -1/2, four times as
    wide in queries and keys.

    The paths (skip, head 2) and (head 1, head 1) against tanh; alone: by their own
    networks, else as terms.
    """
    strength = torch.tensor([c, 0.5], dtype=torch.float64).view(2, 1, 1)
    weight = torch.tensor([1.0, -0.5], dtype=torch.float64).view(2, 1, 1)
    layer = Layer(
        strength / 2 * torch.ones(2, 1, 4),
        torch.ones(2, 1, 4).double(),
        weight,
        torch.ones_like(weight),
    )
    x = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    after = (
        1 + math.tanh(c) - 0.5 * math.tanh(0.5)
    )  # the state that the second layer sees in the full pass
    t = math.tanh(c)
    if alone:
        got = [forward(x, restrict([layer] * 2, path)) for path in ((None, 1), (0, 0))]
        wanted = [-0.5 * math.tanh(0.5), t * math.tanh(c * t**2)]
    else:
        terms = dict(path_terms(x, [layer] * 2, skip=True))
        got = [terms[None, 1], terms[0, 0]]
        wanted = [-0.5 * math.tanh(0.5 * after**2), t * math.tanh(c * after**2)]
    return at_most(max(abs(float(g[0]) - w) for g, w in zip(got, wanted)), 1e-14)


@pytest.mark.claim("paths.recomputed", role="witness")
@pytest.mark.claim("paths.recomputed", role="counterexample")
@pytest.mark.parametrize("c", [0.2, 0.7, 1.5])
def test_two_tokens_in_closed_form(c):
    assert check_closed_form(c, alone=True).ok and check_closed_form(c, alone=False).ok
    t = math.tanh(c)
    assert (
        math.tanh(c * (1 + t) ** 2) > t > t * math.tanh(c * t * t)
    )  # the two readings differ
