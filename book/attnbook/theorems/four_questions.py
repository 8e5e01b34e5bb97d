"""The claims of the page `Four questions to a proof`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib import certify
from attnlib._require import is_tensor, matches, one_of, require, tokens
from attnlib.attention import Layer, attention_matrix, forward, random_layers
from attnlib.certify import Matrix, Verdict, at_least, at_most
from attnlib.collapse import composite_norm, residual

ROUNDING = 1e-14  # 45 eps: entries of size one
LEMMA = 1.256  # the largest spread that Lemma A.3 allows


def not_zero(**given: Tensor) -> None:
    """Refuse matrices, given by name, that would make a quotient 0/0."""
    for name, matrix in given.items():
        if not matrix.abs().amax((-2, -1)).all():
            raise ValueError(
                f"{name} is zero, or one of a batch is: nothing to compare"
            )


def spread(rows: Tensor) -> Tensor:
    """Largest minus smallest entry of each row."""
    return rows.amax(-1) - rows.amin(-1)


def normal(g: torch.Generator, *size: int) -> Tensor:
    """Independent standard normal numbers in float64."""
    return torch.randn(*size, dtype=torch.float64, generator=g)


def two_tokens(a: float, w: float, v: float) -> tuple[Tensor, Layer]:
    """Example 3.1: tokens (a, 1) and (-a, 1), logits w times the products of their
    first coordinates, W = diag(v, 1).
    """
    x = torch.tensor([[a, 1.0], [-a, 1.0]], dtype=torch.float64)
    first = torch.tensor([[[1.0], [0.0]]], dtype=torch.float64)
    values = torch.tensor([[[v, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    eye = torch.eye(2, dtype=torch.float64)[None]
    return x, Layer(w_q=w * first, w_k=first, w_v=values, w_o=eye)


# --- question 1: the lemma and step (9)


def perturbed(largest=LEMMA, seed=0) -> dict:
    """Rows of 1,000 logits, and changes E of which every row has one spread. In the
    first row the change hits a token of weight 1/1000 alone, the hardest case.
    """
    g = torch.Generator().manual_seed(seed)
    logits = 3 * normal(g, 21, 1000)
    logits[0] = math.log(0.999 / 999)
    logits[0, 0] = math.log(1e-3)
    change = normal(g, 21, 1000)
    change[0] = 0
    change[0, 0] = 1
    change = largest * change / spread(change)[:, None]
    return {"logits": logits, "change": change}


def the_number_of_the_lemma() -> Verdict:
    """e^1.256 < 1 + 2 * 1.256, in fractions.

    Measured: the series of e^1.256 to degree 12, and a bound of its tail (each later
    term is less than half of the one before), minus the right side; at most zero.
    """
    x = Fraction(1256, 1000)
    terms = [x**k / math.factorial(k) for k in range(13)]
    return at_most(sum(terms) + 2 * terms[-1] - (1 + 2 * x), 0)


SMALL = Case(perturbed, {"largest": LEMMA})


@claim(
    "questions.lemma",
    cases=[SMALL, SMALL.but(largest=0.5), SMALL.but(largest=1e-3, seed=1)],
    controls=[SMALL.but(largest=1.3)],
    witness=the_number_of_the_lemma,
)
def softmax_ratio(logits: Tensor, change: Tensor) -> Verdict:
    """A small change E of the logits changes softmax by a factor close to one.

        (I - D) P~ <= P <= (I + 2 D) P~,    D the diagonal matrix of the spreads of E

    Hypotheses: no row of E has a spread above 1.256.
    Measured: by how much the worst entry leaves the interval.

    Args:
        logits: (m, n), whose softmax is P~.
        change: (m, n), E.

    Returns:
        Verdict.

    Claim: questions.lemma
    Page: notebooks/path_decomposition/four_questions
    """
    before = logits.softmax(-1)
    after = (logits + change).softmax(-1)
    eta = spread(change)[:, None]
    above = (after - (1 + 2 * eta) * before).max()
    below = ((1 - eta) * before - after).max()
    return at_most(max(float(above), float(below)), ROUNDING)


def scattered(seed=0, n=5, d=3, largest=LEMMA) -> dict:
    """A shared row x, a residual R and weights W_QK that give a largest spread."""
    g = torch.Generator().manual_seed(seed)
    x = normal(g, d)
    rest = residual(normal(g, n, d))
    w_qk = normal(g, d, d)
    w_qk = w_qk * largest / spread(rest @ w_qk @ rest.mT).max()
    return {"x": x, "rest": rest, "w_qk": w_qk}


def two_tokens_are_scaled() -> Verdict:
    """One layer takes a to v tanh(w a^2) a and leaves the second coordinates alone.

    Measured: the largest difference over four pairs of tokens.
    """
    off = 0.0
    for c in (0.1, 0.25, math.log(2) / 2, 0.6):
        x, layer = two_tokens(a=2.0, w=c / 4, v=1.5)
        y = forward(x, [layer])
        wanted = x * torch.tensor([1.5 * math.tanh(c), 1.0], dtype=x.dtype)
        off = max(off, float((y - wanted).abs().max()))
    return at_most(off, ROUNDING)


SCATTERED = Case(scattered, {"seed": 0})


@claim(
    "questions.chain",
    cases=[SCATTERED, SCATTERED.but(n=2, d=1), SCATTERED.but(seed=1, n=9, d=2)],
    controls=[SCATTERED.but(sizes=False)],
    witness=two_tokens_are_scaled,
)
def step_nine(x: Tensor, rest: Tensor, w_qk: Tensor, *, sizes: bool = True) -> Verdict:
    """What the first layer leaves of R is at most 2 D times an average of |R|.

        |P R - 1 s' R| <= 2 D 1 s' |R|
        |P R - 1 s' R|_{1,inf} <= 2 sqrt(sum eta_i max eta_i) |R|_{1,inf}

    with s the softmax that all tokens would share if E = R W_QK R' were zero.
    Hypotheses: the spreads eta_i of the rows of E are at most 1.256; D holds them.
    Measured: the largest amount by which the first or the second line is exceeded.

    Args:
        x: (d,), the row that the tokens share.
        rest: (n, d), R; the tokens are 1 x' + R.
        w_qk: (d, d), W_QK over the root of d_qk.
        sizes: False writes R for |R| and adds the twin from below, as printed.

    Returns:
        Verdict.

    Claim: questions.chain
    Page: notebooks/path_decomposition/four_questions
    """
    tokens(rest, "rest")
    matches("x", x, tuple(rest.shape[-1:]), rest, "rest")
    matches("w_qk", w_qk, tuple(rest.shape[-1:]) * 2, rest, "rest")
    change = rest @ w_qk @ rest.mT
    shared = rest @ w_qk.mT @ x
    P = (shared + change).softmax(-1)
    s = shared.softmax(-1)
    eta = spread(change)
    left = P @ rest - s @ rest
    if sizes:
        excess = left.abs() - 2 * eta[:, None] * (s @ rest.abs())
        size = (eta.sum() * eta.max()).sqrt()
        in_norm = composite_norm(left) - 2 * size * composite_norm(rest)
        worst = max(excess.max(), in_norm)
    else:
        upper = left - 2 * eta[:, None] * (s @ rest)
        lower = -eta[:, None] * (s @ rest) - left
        worst = max(upper.max(), lower.max())
    return at_most(worst, 10 * ROUNDING)


# --- question 2: the composite norm


def square(matrix: Matrix) -> Fraction:
    """The square of the composite norm, exactly."""
    return math.prod(certify.norms(matrix))


def worst_pair(n=2, d=2, scale=1.0) -> dict:
    """One column of ones, and one row, of equal norms if scale is one."""
    a = torch.zeros(n, d, dtype=torch.float64)
    b = torch.zeros(n, d, dtype=torch.float64)
    a[:, 0] = 1
    b[0] = scale * math.sqrt(n / d)
    return {"a": a, "b": b}


def random_pair(n=3, d=5, seed=0) -> dict:
    """500 pairs of matrices with a few large entries each."""
    g = torch.Generator().manual_seed(seed)
    return {"a": normal(g, 500, n, d) ** 3, "b": normal(g, 500, n, d) ** 3}


def the_constant_is_reached() -> Verdict:
    """The worst pair attains K exactly, for sizes whose n/d has a rational root.

    Measured, in fractions: the largest | |A + B|^2 - K^2 (|A| + |B|)^2 |.
    """
    off = Fraction()
    for n, d, root in ((1, 1, 1), (2, 2, 1), (8, 2, 2), (2, 8, Fraction(1, 2))):
        pair = worst_pair(n, d)
        a, b = certify.exact(pair["a"]), certify.exact(pair["b"])
        both = certify.exact(pair["a"] + pair["b"])
        nd = Fraction(d) * root  # the root of n d
        constant = (nd + 2 + 1 / nd) / 4
        off = max(off, abs(square(a) - n), abs(square(b) - n))
        off = max(off, abs(square(both) - constant * 4 * n))
    return at_most(off, 0)


WORST = Case(worst_pair, {"n": 2, "d": 2})


@claim(
    "questions.quasi-norm",
    cases=[
        WORST,
        WORST.but(n=12, d=768),
        Case(random_pair),
        Case(random_pair, {"n": 8}),
    ],
    controls=[WORST.but(constant=1.0)],
    witness=the_constant_is_reached,
)
def quasi_triangle(a: Tensor, b: Tensor, *, constant: float | None = None) -> Verdict:
    """The composite norm obeys a triangle inequality with a constant, and no smaller.

        |A + B| <= K (|A| + |B|),    K = ((nd)^(1/4) + (nd)^(-1/4)) / 2

    Measured: |A + B| / (K (|A| + |B|)), the largest of a batch.

    Args:
        a, b: (*batch, n, d), neither zero.
        constant: in place of K; 1 is the triangle inequality.

    Returns:
        Verdict.

    Claim: questions.quasi-norm
    Page: notebooks/path_decomposition/four_questions
    """
    not_zero(a=a, b=b)
    matches("b", b, tuple(a.shape), a, "a")
    root = math.prod(a.shape[-2:]) ** 0.25
    K = (root + 1 / root) / 2 if constant is None else constant
    ratio = composite_norm(a + b) / (composite_norm(a) + composite_norm(b))
    return at_most(ratio.max() / K, 1 + ROUNDING)


def factors(n=4, m=3, d=5, seed=None) -> dict:
    """Two matrices of ones, or 500 pairs of random ones."""
    if seed is None:
        ones = torch.ones(1, n, m, dtype=torch.float64)
        return {"a": ones, "b": torch.ones(1, m, d, dtype=torch.float64)}
    g = torch.Generator().manual_seed(seed)
    return {"a": normal(g, 500, n, m) ** 3, "b": normal(g, 500, m, d) ** 3}


def largest_entry(x: Tensor) -> Tensor:
    """|x|_max, which is no norm of maps: it is not submultiplicative."""
    return x.abs().amax((-2, -1))


def both_ends_occur() -> Verdict:
    """A single entry has |A|_2 = |A|, a Hadamard matrix (nd)^(1/4) |A|_2.

    Measured: the larger of the two distances.
    """
    unit = torch.zeros(4, 9, dtype=torch.float64)
    unit[0, 0] = 1
    hadamard = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    low = composite_norm(unit) - torch.linalg.matrix_norm(unit, 2)
    high = composite_norm(hadamard) - 4**0.25 * torch.linalg.matrix_norm(hadamard, 2)
    return at_most(max(abs(low), abs(high)), ROUNDING)


ONES = Case(factors)


@claim(
    "questions.keeps",
    cases=[ONES, ONES.but(seed=0), ONES.but(n=1, m=7, d=2, seed=1)],
    controls=[ONES.but(norm=largest_entry)],
    witness=both_ends_occur,
)
def what_it_keeps(a: Tensor, b: Tensor, *, norm: Callable = composite_norm) -> Verdict:
    """The composite norm is submultiplicative, and close to the spectral norm.

        |A B| <= |A| |B|,    |A|_2 <= |A| <= (nd)^(1/4) |A|_2

    Measured: the largest of the three quotients of left and right side.

    Args:
        a: (*batch, n, m), not zero.
        b: (*batch, m, d), not zero.
        norm: another norm of matrices, which need not obey it.

    Returns:
        Verdict.

    Claim: questions.keeps
    Page: notebooks/path_decomposition/four_questions
    """
    not_zero(a=a, b=b)
    matches("b", b, (*a.shape[:-2], a.shape[-1], b.shape[-1]), a, "a")
    spectral = torch.linalg.matrix_norm(a, 2)
    root = math.prod(a.shape[-2:]) ** 0.25
    product = norm(a @ b) / (norm(a) * norm(b))
    below = spectral / norm(a)
    above = norm(a) / (root * spectral)
    return at_most(torch.stack([product, below, above]).max(), 1 + 2 * ROUNDING)


def fan(n=20, d=1) -> dict:
    """A spike in the first column, (1, -1, ..., -1)/n in the others: zero is a good
    centre of these tokens, their mean a bad one.
    """
    y = torch.full((n, d), -1 / n, dtype=torch.float64)
    y[0] = 1 / n
    y[:, 0] = 0
    y[0, 0] = 1
    return {"y": y}


def off_centre(n=5, d=3, seed=0) -> dict:
    """200 sets of tokens, each minus a row that is not their mean."""
    g = torch.Generator().manual_seed(seed)
    return {"y": normal(g, 200, n, d) - normal(g, 200, 1, d)}


def two_is_approached() -> Verdict:
    """No factor below 2 (1 - 1/n) serves all widths: fans of growing width come close.

    Measured, in fractions: how far the square of the quotient is below its limit, in
    parts of it; at most a hundredth.
    """
    off = Fraction()
    for n in (2, 3, 4, 6):
        width = 100 * n
        y = [[Fraction(1)] + [Fraction(1, n)] * width]
        y += [[Fraction(0)] + [Fraction(-1, n)] * width for _ in range(n - 1)]
        mean = [sum(column) / n for column in zip(*y)]
        centred = [[e - m for e, m in zip(row, mean)] for row in y]
        limit = 4 * (1 - Fraction(1, n)) ** 2
        off = max(off, 1 - square(centred) / (square(y) * limit))
    return at_most(off, 0.01)


FAN = Case(fan)


@claim(
    "questions.centre",
    cases=[FAN, FAN.but(n=4, d=300), Case(off_centre), Case(off_centre, {"n": 2})],
    controls=[FAN.but(factor=1.0)],
    witness=two_is_approached,
)
def mean_as_centre(y: Tensor, *, factor: float | None = None) -> Verdict:
    """The token mean is the best centre in the 2-norm and the Frobenius norm, and
    within 2 (1 - 1/n) of the best in the composite norm.

    Measured: |J Y| / |Y| in the three norms, the third over that factor; the largest.
    J takes the mean away.

    Args:
        y: (*batch, n, d), tokens minus another centre; n at least 2, not zero.
        factor: in place of 2 (1 - 1/n); 1 says that the mean is best here too.

    Returns:
        Verdict.

    Claim: questions.centre
    Page: notebooks/path_decomposition/four_questions
    """
    n = y.shape[-2]
    if n < 2:
        raise ValueError(f"y has {n} token: a single token is its own mean")
    not_zero(y=y)
    allowed = 2 * (1 - 1 / n) if factor is None else factor
    centred = residual(y)
    quotients = [composite_norm(centred) / composite_norm(y) / allowed]
    for order in (2, "fro"):
        size = torch.linalg.matrix_norm(centred, order)
        quotients.append(size / torch.linalg.matrix_norm(y, order))
    return at_most(torch.stack(quotients).max(), 1 + 2 * ROUNDING)


# --- question 3: a residual below one


def right_side(c, r_0, L: int) -> Fraction:
    """The right side of (3.2): c^((3^L - 1)/2) r_0^(3^L), exactly."""
    return Fraction(c) ** ((3**L - 1) // 2) * Fraction(r_0) ** 3**L


def bounds(pairs=(("1/9", 2), ("1/1000", 30), (3, "1/2"), (4, "1/2"), (9, "1/2"))):
    """Constants c and residuals r_0, on both sides of c r_0^2 = 1."""
    return {"pairs": pairs}


def a_half_grows() -> Verdict:
    """c = 9 and a residual of 1/2: the right side is 9/8, then 6561/512.

    Measured: the difference from these.
    """
    first = right_side(9, "1/2", 1) - Fraction(9, 8)
    second = right_side(9, "1/2", 2) - Fraction(6561, 512)
    return at_most(max(abs(first), abs(second)), 0)


BOUNDS = Case(bounds)


@claim(
    "questions.right-side",
    cases=[BOUNDS, BOUNDS.but(pairs=[("1/2", 1), (2, "7/10")])],
    controls=[BOUNDS.but(rule="residual")],
    witness=a_half_grows,
)
def right_side_falls(
    pairs: Sequence[tuple], *, rule: Literal["product", "residual"] = "product"
) -> Verdict:
    """The right side of the bound tends to zero if and only if c r_0^2 < 1.

    Measured: on how many pairs the rule is wrong. The right side falls from four to
    five layers if and only if it tends to zero, as it is a power of c r_0^2.

    Args:
        pairs: (c, r_0), positive whole numbers or texts such as "1/9".
        rule: "residual" asks whether r_0 < 1.

    Returns:
        Verdict; its bound is 0.

    Claim: questions.right-side
    Page: notebooks/path_decomposition/four_questions
    """
    one_of(("product", "residual"), rule=rule)
    wrong = 0
    for c, r_0 in pairs:
        falls = right_side(c, r_0, 5) < right_side(c, r_0, 4)
        product = Fraction(c) * Fraction(r_0) ** 2
        says = product < 1 if rule == "product" else Fraction(r_0) < 1
        wrong += falls != says
    return at_most(wrong, 0)


def network_with_query_biases(seed=0, L=3) -> dict:
    """Gaussian tokens and layers of two heads, biases of queries and keys alone."""
    g = torch.Generator().manual_seed(seed)
    layers = []
    for layer in random_layers(L, 2, 4, 3, bias=True, dtype=torch.float64, generator=g):
        layers.append(layer._replace(b_v=None, b_o=None))
    return {"x": normal(g, 6, 4), "layers": layers}


def a_residual_of_any_size() -> Verdict:
    """1024 X has 1024 times the residual of X.

    Measured: the difference, exactly.
    """
    x = network_with_query_biases()["x"]
    size = composite_norm(residual(x))
    return at_most(abs(composite_norm(residual(1024 * x)) - 1024 * size), 0)


SCALED = Case(network_with_query_biases)


@claim(
    "questions.scale",
    cases=[SCALED, SCALED.but(alpha=1e-3), SCALED.but(seed=1, L=1)],
    controls=[SCALED.but(power=0), SCALED.but(power=-1)],
    witness=a_residual_of_any_size,
)
def only_the_product(
    x: Tensor, layers: Sequence[Layer], *, alpha: float = 100.0, power: int = -2
) -> Verdict:
    """Scaling the tokens and unscaling the logits changes no attention, and scales
    every residual.

    X becomes alpha X, W_QK becomes alpha^-2 W_QK, W_K b_Q becomes alpha^-1 W_K b_Q.
    Hypotheses: no skips, no value and output biases.
    Measured: the largest change of an entry of P, or the relative error of the last
    residual, whichever is larger.

    Args:
        x: (n, d).
        layers: L Layers without value and output biases.
        alpha: positive.
        power: of alpha in W_QK; any other than -2 changes attention.

    Returns:
        Verdict.

    Claim: questions.scale
    Page: notebooks/path_decomposition/four_questions
    """
    for number, layer in enumerate(layers, 1):
        if layer.b_v is not None or layer.b_o is not None:
            raise ValueError(
                f"layer {number} has biases of values or outputs: the statement is "
                "about layers without them. Use layer._replace(b_v=None, b_o=None)"
            )
    each = alpha ** (power / 2)  # queries and keys share the change of W_QK
    scaled = [m._replace(w_q=each * m.w_q, w_k=each * m.w_k) for m in layers]
    y, attention = forward(x, layers, return_attention=True)
    y_scaled, attention_scaled = forward(alpha * x, scaled, return_attention=True)
    moved = max((p - q).abs().max() for p, q in zip(attention, attention_scaled))
    wanted = alpha * residual(y)
    got = residual(y_scaled)
    noise = 64 * torch.finfo(x.dtype).eps * float((alpha * y).abs().max())
    same = bool(((got - wanted).abs() <= noise).all())  # also where no residual is left
    off = 0.0 if same else certify.relative_error(got, wanted)
    return at_most(max(float(moved), off), 1e-9)


def grid(
    sizes=(0.01, 0.1, 1.0, 10.0, 100.0),
    products=(0.05, 0.3, 1.0, 3.0),
    values=(0.5, 1.0, 1.3, 3.0),
) -> dict:
    """Pairs of tokens of all sizes a, products w a^2 and value weights v."""
    toys = []
    for a in sizes:
        for product in products:
            toys += [(a, product / a**2, v) for v in values]
    return {"toys": toys}


def neither_necessary_nor_sufficient() -> Verdict:
    """A residual of 14 that falls, and one of 0.14 that grows, in fractions.

    Measured: the difference of a step from 10/11 and from 3/20.
    """
    off = Fraction()
    for a, q, v, wanted in (
        (Fraction(10), Fraction(6, 5), 1, Fraction(10, 11)),
        (Fraction(1, 10), Fraction(3), 3, Fraction(3, 20)),
    ):
        P = certify.row_stochastic([[q, 1], [1, q]])
        x = certify.exact([[a, 1], [-a, 1]])
        W = certify.exact([[v, 0], [0, 1]])
        [first, _] = certify.network(x, [[P]], [[W]])
        off = max(off, abs(first[0] - wanted), abs(first[1] - 1))
    return at_most(off, 0)


GRID = Case(grid)


@claim(
    "questions.residual",
    cases=[GRID, GRID.but(sizes=[2.5], values=[1.05])],
    controls=[GRID.but(rule="residual")],
    witness=neither_necessary_nor_sufficient,
)
def fates(
    toys: Sequence[tuple[float, float, float]],
    *,
    rule: Literal["product", "residual"] = "product",
) -> Verdict:
    """The two tokens (a, 1) and (-a, 1) collapse if and only if v <= 1 or
    w a^2 < artanh(1/v).

    Hypotheses: a, w, v > 0, and the same weights in every layer.
    Measured: on how many toys the rule is wrong. A toy counts as collapsed if 40 layers
    leave less than a thousandth of its residual; so close to the threshold, 40 are not
    enough.

    Args:
        toys: (a, w, v).
        rule: "residual" asks whether the residual is below 1.

    Returns:
        Verdict; its bound is 0.

    Claim: questions.residual
    Page: notebooks/path_decomposition/four_questions
    """
    one_of(("product", "residual"), rule=rule)
    wrong = 0
    for a, w, v in toys:
        if min(a, w, v) <= 0:
            raise ValueError(f"toys: a, w and v must be positive, got {(a, w, v)}")
        x, layer = two_tokens(a, w, v)
        start = composite_norm(residual(x))
        end = composite_norm(residual(forward(x, [layer] * 40)))
        if rule == "residual":
            says = start < 1
        else:
            says = v <= 1 or w * a**2 < math.atanh(1 / v)
        wrong += bool(end < 1e-3 * start) != bool(says)
    return at_most(wrong, 0)


# --- question 3, in depth: what a small change does


def star(n=65, length=1.0) -> dict:
    """n - 1 tokens at one place, the leaves, and one at the opposite place, the hub. A
    head looks for opposites, so that each leaf gives the hub half of its attention.
    """
    w = math.log(n - 1) / (2 * length**2)
    x = torch.full((n, 1), length, dtype=torch.float64)
    x[0] = -length
    ones = torch.ones(1, 4, dtype=torch.float64)  # d_qk = 4: logits are halved
    return {
        "x": x,
        "w_q": -w / 2 * ones,
        "w_k": ones,
        "w": torch.ones_like(ones[:, :1]),
    }


def in_a_ball(n=12, d=3, seed=0, size=2.0) -> dict:
    """Random tokens of length at most one, and random weights."""
    g = torch.Generator().manual_seed(seed)
    x = normal(g, n, d)
    x = x / x.norm(dim=1, keepdim=True).clamp_min(1)
    w_q = size * normal(g, d, 4)
    return {"x": x, "w_q": w_q, "w_k": normal(g, d, 4), "w": normal(g, d, d)}


def derivative(x: Tensor, w_q: Tensor, w_k: Tensor, w: Tensor) -> Tensor:
    """The derivative of one head by its tokens, (n, d, n, d): output first."""

    def head(tokens):
        return attention_matrix(tokens, w_q, w_k) @ tokens @ w

    return torch.autograd.functional.jacobian(head, x)


def kappa(x: Tensor, w_q: Tensor, w_k: Tensor, w: Tensor) -> tuple[float, float]:
    """How much a small change can grow, per token and, for every n, all together.

        kappa = v (1 + 2 omega),    v (1 + 3 omega) e^omega

    The unit is the length of the longest token.
    """
    omega = torch.linalg.matrix_norm(w_q @ w_k.mT, 2) / math.sqrt(w_q.shape[-1])
    omega = float(omega * x.norm(dim=-1).max() ** 2)
    v = float(torch.linalg.matrix_norm(w, 2))
    return v * (1 + 2 * omega), v * (1 + 3 * omega) * math.exp(omega)


def sizes_of_change(d_out: Tensor) -> dict[str, float]:
    """How much longer a change can become: per token (an upper bound, exact for tokens
    of width one) and in the Frobenius norm.
    """
    n, d = d_out.shape[:2]
    blocks = torch.linalg.matrix_norm(d_out.permute(0, 2, 1, 3), 2)
    whole = torch.linalg.matrix_norm(d_out.reshape(n * d, n * d), 2)
    return {"tokens": float(blocks.sum(1).max()), "frobenius": float(whole)}


def a_star_attains_it() -> Verdict:
    """Moving the hub of a star moves each leaf by 1/2 + ln(n - 1)/4 times as much, and
    so the star reaches a quarter of root(n - 1) kappa.

    Measured: |change of the leaves| / (root(n - 1) kappa), the least over four stars; 0
    if one of them misses the formula.
    """
    least = math.inf
    for n in (2, 5, 17, 65):
        objects = star(n, length=1.5)
        by_hub = derivative(**objects)[1:, 0, 0, 0]
        formula = 1 / 2 + math.log(n - 1) / 4
        if (by_hub - formula).abs().max() > ROUNDING:
            return at_least(0, 0.25)
        share = by_hub.norm() / (math.sqrt(n - 1) * kappa(**objects)[0])
        least = min(least, float(share))
    return at_least(least, 0.25)


STAR = Case(star, {"n": 65}, {"norm": "frobenius"})
BALL = Case(in_a_ball)


@claim(
    "questions.lipschitz",
    cases=[
        STAR,
        STAR.but(norm="tokens"),
        STAR.but(n=5, length=3.0),
        BALL,
        BALL.but(size=20.0),
        BALL.but(n=40, size=0.1, norm="frobenius"),
    ],
    controls=[STAR.but(root_n=False)],
    witness=a_star_attains_it,
)
def small_change(
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w: Tensor,
    *,
    norm: Literal["tokens", "frobenius"] = "tokens",
    root_n: bool = True,
) -> Verdict:
    """A small change of tokens of length at most one grows at most kappa-fold if the
    longest change of a token counts, and root(n) kappa-fold in the Frobenius norm.

        kappa = v (1 + 2 omega),   v = |W|_2,   omega = |W_QK|_2 / root(d_qk)

    In the Frobenius norm v (1 + 3 omega) e^omega also will do, for every n.
    Hypotheses: one softmax head without mask and without biases of queries and keys. If
    the longest token has length r, then omega r^2 stands for omega.
    Measured: the norm of the derivative at x, over what is allowed.

    Args:
        x: (n, d); its longest token is the unit of length.
        w_q, w_k: (d, d_qk).
        w: (d, d), values and output together, not zero.
        norm: "tokens" for max_i |x_i|, "frobenius" for the root of the sum of squares.
        root_n: False allows kappa in the Frobenius norm too, which a star refutes.

    Returns:
        Verdict.

    Cost: n d backward passes and a spectral norm of an n d x n d matrix.
    Claim: questions.lipschitz
    Page: notebooks/path_decomposition/four_questions
    """
    one_of(("tokens", "frobenius"), norm=norm)
    tokens(x)
    got = tuple(x.shape)
    require(x.dim() == 2, f"x must be one sequence (n, d), not a batch, got {got}")
    is_tensor("w_q", w_q)
    require(w_q.dim() == 2, f"w_q must be one head (d, d_qk), got {tuple(w_q.shape)}")
    matches("w_q", w_q, (got[1], w_q.shape[1]), x)
    matches("w_k", w_k, tuple(w_q.shape), w_q, "w_q")
    matches("w", w, (got[1], got[1]), x)
    not_zero(w=w)
    found = sizes_of_change(derivative(x, w_q, w_k, w))[norm]
    allowed, for_every_n = kappa(x, w_q, w_k, w)
    if norm == "frobenius" and root_n:
        allowed = min(math.sqrt(len(x)) * allowed, for_every_n)
    return at_most(found / allowed, 1 + ROUNDING)


# --- question 4: rank


def corners_and_clusters(n=4, m=2, L=8) -> dict:
    """How many tokens are unit vectors, how many stand in each of two clusters, and how
    many layers they go through.
    """
    return {"n": n, "m": m, "L": L}


def odds_of(X: Matrix, strength: Fraction, base: Fraction) -> Matrix:
    """Softmax of logits strength ln(base) X X' over its smallest entry, exactly. The
    exponents must be whole: else the result would be no fraction.
    """
    gram = certify.product(X, [list(column) for column in zip(*X)])
    rows = []
    for row in gram:
        exponents = [strength * (entry - min(row)) for entry in row]
        if any(e.denominator != 1 for e in exponents):
            raise ValueError(f"the exponents {exponents} of {base} are not whole")
        rows.append([base ** int(e) for e in exponents])
    return certify.row_stochastic(rows)


def corners(n: int, L: int, base: int) -> tuple[list[Matrix], list[Matrix]]:
    """The witness of (a): tokens X_0, ..., X_L and attention P_1, ..., P_L, exactly."""
    eye = certify.exact(torch.eye(n))
    states = [eye]
    attention = []
    for l in range(L):
        P = odds_of(states[-1], Fraction(4) ** l, Fraction(base))
        attention.append(P)
        states.append(certify.product(P, states[-1]))
    return states, attention


def clusters(m: int, odds: int = 3) -> tuple[Matrix, Matrix]:
    """The witness of (b): 2 m tokens at (1, 1) and (-1, 1), and their attention."""
    X = certify.exact([[1, 1]] * m + [[-1, 1]] * m)
    own = [odds] * m + [1] * m
    other = [1] * m + [odds] * m
    return X, certify.row_stochastic([own] * m + [other] * m)


def softmax_gives_these() -> Verdict:
    """The network computes these matrices in floats: six layers on the corners, one on
    the clusters.

    Measured: the largest difference of an entry.
    """
    n, m, L = 4, 2, 6
    _, wanted = corners(n, L, base=n + 1)
    eye = torch.eye(n, dtype=torch.float64)
    layers = []
    for l in range(L):
        strength = 4**l * math.log(n + 1) * math.sqrt(n)  # the root of d_qk
        layers.append(Layer(strength * eye[None], eye[None], eye[None], eye[None]))
    _, attention = forward(eye, layers, return_attention=True)
    off = (torch.stack(attention)[:, 0] - _floats(wanted)).abs().max()
    X, P = clusters(m)
    first = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    x = _floats(X)
    found = attention_matrix(x, math.log(3) / 2 * first, first)
    return at_most(max(off, (found - _floats(P)).abs().max()), 1e-11)


def _floats(matrix) -> Tensor:
    """Fractions, in lists of any depth, as a tensor."""
    if isinstance(matrix[0], list):
        return torch.stack([_floats(row) for row in matrix])
    return torch.tensor([float(entry) for entry in matrix], dtype=torch.float64)


BOTH = Case(corners_and_clusters)


@claim(
    "questions.low-rank",
    cases=[BOTH, BOTH.but(n=2, m=1), BOTH.but(n=9, m=4, L=4)],
    controls=[BOTH.but(odds=1), BOTH.but(base=1)],
    witness=softmax_gives_these,
)
def rank_does_not_decide(
    n: int, m: int, L: int, *, base: int | None = None, odds: int = 3
) -> Verdict:
    """Attention of full rank can collapse, and attention of rank two can keep its
    input.

    (a) n tokens X = I, logits w_l X X' with e^w_0 = n + 1 and w_l fourfold from layer
    to layer: every P has rank n, and so has every X_l, but X_l - (mean) is halved in
    every layer, and the mean stays. (b) 2 m tokens in two clusters: every P has rank
    two, and the output is the input.
    Measured, exactly: the largest entry of X_L - 2^-L (I - 1 1'/n) - 1 1'/n in (a), or
    of X_L - X in (b), or what a rank lacks, whichever is largest.

    Args:
        n: tokens of (a), at least 2.
        m: tokens of each cluster of (b).
        L: layers.
        base: e^w_0, in place of n + 1; 1 is uniform attention, of rank one.
        odds: of a token of the own cluster against one of the other; 1 is rank one.

    Returns:
        Verdict; its bound is 0.

    Cost: O(L n^3) exact operations.
    Claim: questions.low-rank
    Page: notebooks/path_decomposition/four_questions
    """
    states, attention = corners(n, L, base=n + 1 if base is None else base)
    lacking = max(n - certify.rank(matrix) for matrix in states + attention)
    off = Fraction(lacking)
    half = Fraction(1, 2**L)
    for i, row in enumerate(states[-1]):
        for j, entry in enumerate(row):
            wanted = half * (i == j) + (1 - half) / n
            off = max(off, abs(entry - wanted))

    X, P = clusters(m, odds)
    off = max(off, abs(Fraction(certify.rank(P) - 2)))
    v = certify.exact([[2, 0], [0, 1]])
    Y = certify.network(X, [[P]] * L, [[v]] * L)
    for row, other in zip(Y, X):
        off = max(off, abs(row[0] - other[0]), abs(row[1] - other[1]))
    return at_most(off, 0)


# --- slips of the pen


def exponentials(rows=((1, 1), (1, 3))) -> dict:
    """Entries of exp(A / root(d_qk)) that are whole numbers."""
    return {"rows": rows}


def softmax_divides_rows() -> Verdict:
    """A = diag(0, 2 ln 3) and d_qk = 4: softmax gives the rows (1, 1)/2 and (1, 3)/4.

    Measured: the largest difference.
    """
    a = torch.tensor([[0.0, 0.0], [0.0, 2 * math.log(3)]], dtype=torch.float64)
    wanted = torch.tensor([[0.5, 0.5], [0.25, 0.75]], dtype=torch.float64)
    return at_most(((a / 2).softmax(-1) - wanted).abs().max(), ROUNDING)


EXPONENTIALS = Case(exponentials)


@claim(
    "questions.normalise",
    cases=[EXPONENTIALS, EXPONENTIALS.but(rows=[[1, 2, 5], [7, 1, 1], [2, 2, 2]])],
    controls=[EXPONENTIALS.but(side="right")],
    witness=softmax_divides_rows,
)
def divide_rows(
    rows: Sequence[Sequence], *, side: Literal["left", "right"] = "left"
) -> Verdict:
    """Softmax along rows divides from the left: rows of D^-1 exp(A / root(d_qk)) sum to
    one.

    Measured, exactly: the largest distance of a row sum from one.

    Args:
        rows: the exponentials, n x n positive numbers.
        side: "right" puts the diagonal matrix behind, as printed.

    Returns:
        Verdict; its bound is 0.

    Claim: questions.normalise
    Page: notebooks/path_decomposition/four_questions
    """
    one_of(("left", "right"), side=side)
    M = certify.exact(rows)
    sums = [sum(row) for row in M]
    off = Fraction()
    for i, row in enumerate(M):
        if side == "left":
            scaled = [entry / sums[i] for entry in row]
        else:
            scaled = [entry / total for entry, total in zip(row, sums)]
        off = max(off, abs(sum(scaled) - 1))
    return at_most(off, 0)


def tokens_and_weights(x=((1, 2), (3, 5))) -> dict:
    """Two tokens of whole numbers, and weights of queries and keys."""
    return {"x": x, "w_q": ((1, 2), (0, 1)), "w_k": ((1, 0), (1, 1))}


def the_tokens_differ() -> Verdict:
    """Exchanging the tokens (1, 2) and (3, 5) is a change.

    Measured: the rank of the two.
    """
    return at_least(certify.rank(certify.exact([[1, 2], [3, 5]])), 2)


TOKENS = Case(tokens_and_weights)


@claim(
    "questions.sides",
    cases=[TOKENS, TOKENS.but(x=((7, -1), (0, 4)))],
    controls=[TOKENS.but(side="left")],
    witness=the_tokens_differ,
)
def reordering(x, w_q, w_k, *, side: Literal["left", "right"] = "right") -> Verdict:
    """With tokens as rows and weights on their right, logits follow every reordering.

    Measured, exactly: the largest entry of logits of the exchanged tokens minus the
    exchanged logits.

    Args:
        x: two tokens, a row each.
        w_q, w_k: 2 x 2.
        side: "left" writes W X for X W, as printed.

    Returns:
        Verdict; its bound is 0.

    Claim: questions.sides
    Page: notebooks/path_decomposition/four_questions
    """
    one_of(("left", "right"), side=side)

    def logits(tokens):
        if side == "right":
            q, k = certify.product(tokens, w_q), certify.product(tokens, w_k)
        else:
            q, k = certify.product(w_q, tokens), certify.product(w_k, tokens)
        return certify.product(q, list(zip(*k)))

    swap = certify.exact([[0, 1], [1, 0]])
    moved = logits(certify.product(swap, x))
    wanted = certify.product(swap, logits(certify.exact(x)), swap)
    off = Fraction()
    for row, other in zip(moved, wanted):
        off = max(off, *(abs(a - b) for a, b in zip(row, other)))
    return at_most(off, 0)


def exponents(largest=1000) -> dict:
    """n = 2^m for m up to this number."""
    return {"largest": largest}


def logarithms_are_exponents() -> Verdict:
    """The logarithm of base 2 of 2^m is m.

    Measured: the largest difference for m up to 1000.
    """
    return at_most(max(abs((2**m).bit_length() - 1 - m) for m in range(1001)), 0)


EXPONENTS = Case(exponents)


@claim(
    "questions.rank-order",
    cases=[EXPONENTS, EXPONENTS.but(largest=10)],
    controls=[EXPONENTS.but(power=2)],
    witness=logarithms_are_exponents,
)
def logarithms(largest: int, *, power: int = 1) -> Verdict:
    """A quantity of order log n stays within a fixed multiple of log n.

    Measured: the largest log(n)^power / log(n) over n = 2^m, m up to `largest`; at most
    a hundred.

    Args:
        largest: of m.
        power: 2 is log n times log n, which no multiple of log n bounds.

    Returns:
        Verdict.

    Claim: questions.rank-order
    Page: notebooks/path_decomposition/four_questions
    """
    return at_most(max(Fraction(m) ** power / m for m in range(1, largest + 1)), 100)
