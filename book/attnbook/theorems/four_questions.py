"""The claims of the page `Four questions to a proof`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnbook.theorems.rank_collapse import log_printed, spread
from attnlib import certify
from attnlib._require import is_tensor, matches, numbers, one_of, require, sizes, tokens
from attnlib.attention import (
    NORMALIZERS,
    Layer,
    attention_matrix,
    check_network,
    forward,
    random_layers,
)
from attnlib.certify import Matrix, Verdict, at_most
from attnlib.collapse import composite_norm, residual
from attnlib.lowrank import required_dimension

ROUNDING = 1e-14  # 45 eps: entries of size one
LEMMA = 1.256  # the largest spread that Lemma A.3 allows


def not_zero(**given: Tensor) -> None:
    """Refuse matrices, given by name, that would make a quotient 0/0."""
    for name, matrix in given.items():
        tokens(matrix, name)
        if not matrix.abs().amax((-2, -1)).all():
            raise ValueError(
                f"{name} is zero, or one of a batch is: nothing to compare"
            )


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


SMALL = Case(perturbed, {"largest": LEMMA})


@claim(
    "questions.lemma",
    cases=[SMALL, SMALL.but(largest=0.5), SMALL.but(largest=1e-3, seed=1)],
    controls=[SMALL.but(largest=1.3)],
)
def softmax_ratio(logits: Tensor, change: Tensor) -> Verdict:
    """A small change E of the logits changes softmax by a factor close to one.

    Measured: by how much the worst entry leaves the interval (3.9).

    Args:
        logits: (m, n), whose softmax is P~.
        change: (m, n), E.

    Claim: questions.lemma
    Page: notebooks/path_decomposition/four_questions
    """
    matches("change", change, tuple(logits.shape), logits, "logits")
    softmax = NORMALIZERS["softmax"]
    before = softmax(logits)
    after = softmax(logits + change)
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


SCATTERED = Case(scattered, {"seed": 0})


@claim(
    "questions.chain",
    cases=[SCATTERED, SCATTERED.but(n=2, d=1), SCATTERED.but(seed=1, n=9, d=2)],
    broken={"as printed": {"_absolute": False}},
)
def step_nine(x, rest, w_qk, *, _absolute=True) -> Verdict:
    """What the first layer leaves of R is at most 2 D times an average of |R|.

    Measured: the largest amount by which (3.5) or (3.6) is exceeded; as printed, by
    which (3.4) or its twin is.

    Args:
        x: (d,), the row that the tokens share.
        rest: (n, d), R; the tokens are 1 x' + R.
        w_qk: (d, d), W_QK over the root of d_qk.

    Claim: questions.chain
    Page: notebooks/path_decomposition/four_questions
    """
    tokens(rest, "rest")
    require(rest.dim() == 2, f"rest must be (n, d), got {tuple(rest.shape)}")
    matches("x", x, tuple(rest.shape[-1:]), rest, "rest")
    matches("w_qk", w_qk, tuple(rest.shape[-1:]) * 2, rest, "rest")
    P = attention_matrix(x + rest, w_qk, torch.eye(len(x), dtype=x.dtype), scale=1.0)
    s = torch.softmax(rest @ w_qk.mT @ x, -1)
    eta = spread(rest @ w_qk @ rest.mT)
    left = P @ rest - s @ rest
    if _absolute:
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


def square(matrix) -> Fraction:
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


WORST = Case(worst_pair, {"n": 2, "d": 2})


@claim(
    "questions.quasi-norm",
    cases=[
        WORST,
        WORST.but(n=12, d=768),
        Case(random_pair),
        Case(random_pair, {"n": 8}),
        WORST.but(attained=True),
        WORST.but(n=12, d=768, attained=True),
    ],
    broken={"1 for K": {"_constant": 1.0}},
)
def quasi_triangle(a: Tensor, b: Tensor, *, attained=False, _constant=None) -> Verdict:
    """The composite norm obeys a triangle inequality with a constant, and no smaller.

    Measured: |A + B| / (K (|A| + |B|)), the largest of a batch; if `attained`, that in
    exact arithmetic, or its inverse, which is at most 1, too.

    Args:
        a, b: (*batch, n, d), neither zero.
        attained: a and b are two matrices for which (3.10) is an equality.

    Claim: questions.quasi-norm
    Page: notebooks/path_decomposition/four_questions
    """
    not_zero(a=a, b=b)
    matches("b", b, tuple(a.shape), a, "a")
    root = math.prod(a.shape[-2:]) ** 0.25
    K = (root + 1 / root) / 2 if _constant is None else _constant
    ratio = composite_norm(a + b) / (composite_norm(a) + composite_norm(b)) / K
    worst = float(ratio.max())
    if attained:
        require(a.dim() == 2, f"a must be one matrix, got {tuple(a.shape)}")
        both, one, other = (math.sqrt(square(m)) for m in (a + b, a, b))
        exact = both / (one + other) / K
        worst = max(worst, exact, 1 / exact)
    return at_most(worst, 1 + ROUNDING)


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


ONES = Case(factors)


@claim(
    "questions.keeps",
    cases=[ONES, ONES.but(seed=0), ONES.but(n=1, m=7, d=2, seed=1)],
    broken={"the largest entry": {"_largest_entry": True}},
)
def what_it_keeps(a: Tensor, b: Tensor, *, _largest_entry=False) -> Verdict:
    """The composite norm is submultiplicative, and close to the spectral norm.

    Measured: the largest of the three quotients of left and right side.

    Args:
        a: (*batch, n, m), not zero.
        b: (*batch, m, d), not zero.

    Claim: questions.keeps
    Page: notebooks/path_decomposition/four_questions
    """
    not_zero(a=a, b=b)
    matches("b", b, (*a.shape[:-2], a.shape[-1], b.shape[-1]), a, "a")
    norm = largest_entry if _largest_entry else composite_norm
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


FAN = Case(fan)
WIDE = FAN.but(n=4, d=401, approached=True)


@claim(
    "questions.centre",
    cases=[
        FAN,
        FAN.but(n=4, d=300),
        Case(off_centre),
        Case(off_centre, {"n": 2}),
        WIDE,
        WIDE.but(n=2, d=201),
    ],
    broken={"1 for 2 (1 - 1/n)": {"_factor": 1.0}},
)
def mean_as_centre(y: Tensor, *, approached=False, _factor=None) -> Verdict:
    """The token mean is the best centre in the 2-norm and the Frobenius norm, and
    within 2 (1 - 1/n) of the best in the composite norm.

    Measured: |J Y| / |Y| in the three norms, the third over that factor; if
    `approached`, also by how many per cent the square of the third falls short of
    1, in fractions; the largest. J takes the mean away.

    Args:
        y: (*batch, n, d), tokens minus another centre; n at least 2, not zero.
        approached: y is one wide matrix for which (3.12) is nearly an equality.

    Claim: questions.centre
    Page: notebooks/path_decomposition/four_questions
    """
    not_zero(y=y)
    n = y.shape[-2]
    require(n >= 2, f"y has {n} token: a single token is its own mean")
    allowed = 2 * (1 - 1 / n) if _factor is None else _factor
    centred = residual(y)
    shares = [composite_norm(centred) / composite_norm(y) / allowed]
    for order in (2, "fro"):
        size = torch.linalg.matrix_norm(centred, order)
        shares.append(size / torch.linalg.matrix_norm(y, order))
    worst = float(torch.stack(shares).max())
    if approached:
        require(y.dim() == 2, f"y must be one matrix, got {tuple(y.shape)}")
        exact = square(centred) / square(y) / Fraction(allowed) ** 2
        worst = max(worst, float(100 * (1 - exact)))
    return at_most(worst, 1 + 2 * ROUNDING)


# --- question 3: a residual below one


def right_side(c, r_0, L: int) -> Fraction:
    """The right side of (3.2): c^((3^L - 1)/2) r_0^(3^L), exactly."""
    return Fraction(c) ** ((3**L - 1) // 2) * Fraction(r_0) ** 3**L


def bounds(pairs=(("1/9", 2), ("1/1000", 30), (3, "1/2"), (4, "1/2"), (9, "1/2"))):
    """Constants c and residuals r_0, on both sides of c r_0^2 = 1."""
    return {"pairs": pairs}


def off_the_network(c: Fraction, r_0: Fraction, L: int) -> float:
    """How far ln of the right side is from that of two tokens with this c and r_0."""
    x, layer = two_tokens(a=float(r_0) / math.sqrt(2), w=float(c) / 4, v=1.0)
    found = float(log_printed(x, [layer] * L)[-1])
    value = right_side(c, r_0, L)
    return abs(found - math.log(value.numerator) + math.log(value.denominator))


BOUNDS = Case(bounds)


@claim(
    "questions.right-side",
    cases=[BOUNDS, BOUNDS.but(pairs=[("1/2", 1), (2, "7/10")])],
    broken={"a residual below 1": {"_by_residual": True}},
)
def right_side_falls(
    pairs: Sequence[tuple[int | str, int | str]], *, _by_residual=False
) -> Verdict:
    """The right side of the bound tends to zero if and only if c r_0^2 < 1.

    Measured: on how many pairs the rule is wrong, or (3.2) is not that of a network
    with this c and r_0. The right side falls from four to five layers if and only if it
    tends to zero, as it is a power of c r_0^2.

    Args:
        pairs: (c, r_0), positive whole numbers or texts such as "1/9".

    Claim: questions.right-side
    Page: notebooks/path_decomposition/four_questions
    """
    wrong = 0
    for pair in pairs:
        try:
            c, r_0 = map(Fraction, pair)
        except (TypeError, ValueError):
            raise ValueError(
                f"pairs must hold pairs of numbers, got {pair!r}"
            ) from None
        require(min(c, r_0) > 0, f"pairs: c and r_0 must be positive, got {pair}")
        falls = right_side(c, r_0, 5) < right_side(c, r_0, 4)
        says = r_0 < 1 if _by_residual else c * r_0**2 < 1
        wrong += falls != says or off_the_network(c, r_0, L=4) > 1e-9
    return at_most(wrong, 0)


def network_with_query_biases(seed=0, L=3) -> dict:
    """Gaussian tokens and layers of two heads, biases of queries and keys alone."""
    g = torch.Generator().manual_seed(seed)
    layers = []
    for layer in random_layers(L, 2, 4, 3, bias=True, dtype=torch.float64, generator=g):
        layers.append(layer._replace(b_v=None, b_o=None))
    return {"x": normal(g, 6, 4), "layers": layers}


SCALED = Case(network_with_query_biases)


@claim(
    "questions.scale",
    cases=[SCALED, SCALED.but(alpha=1e-3), SCALED.but(seed=1, L=1)],
    broken={"the same weights": {"_power": 0}, "one alpha": {"_power": -1}},
)
def only_the_product(x, layers, *, alpha: float = 100.0, _power=-2) -> Verdict:
    """Scaling the tokens and unscaling the logits changes no attention, and scales
    every residual.

    Measured: the largest change of an entry of P, or the relative error of the last
    residual, whichever is larger.

    Args:
        x: (n, d).
        layers: L Layers without value and output biases.
        alpha: positive.

    Claim: questions.scale
    Page: notebooks/path_decomposition/four_questions
    """
    numbers(alpha=alpha)
    require(alpha > 0, f"alpha must be positive, got {alpha}")
    check_network(x, layers)
    for number, layer in enumerate(layers, 1):
        require(
            layer.b_v is None and layer.b_o is None,
            f"layer {number} has biases of values or outputs: the statement is "
            "about layers without them. Use layer._replace(b_v=None, b_o=None)",
        )
    each = alpha ** (_power / 2)  # queries and keys share the change of W_QK
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


GRID = Case(grid)


@claim(
    "questions.residual",
    cases=[GRID, GRID.but(sizes=[2.5], values=[1.05])],
    broken={"a residual below 1": {"_by_residual": True}},
)
def fates(toys: Sequence[tuple], *, _by_residual=False) -> Verdict:
    """The two tokens (a, 1) and (-a, 1) collapse if and only if v <= 1 or
    w a^2 < artanh(1/v).

    Measured: on how many toys the rule is wrong. A toy counts as collapsed if 40 layers
    leave less than a thousandth of its residual; so close to the threshold, 40 are not
    enough.

    Args:
        toys: (a, w, v), positive.

    Claim: questions.residual
    Page: notebooks/path_decomposition/four_questions
    """
    wrong = 0
    for a, w, v in toys:
        if min(a, w, v) <= 0:
            raise ValueError(f"toys: a, w and v must be positive, got {(a, w, v)}")
        x, layer = two_tokens(a, w, v)
        start = composite_norm(residual(x))
        end = composite_norm(residual(forward(x, [layer] * 40)))
        says = v <= 1 or w * a**2 < math.atanh(1 / v)
        if _by_residual:
            says = start < 1
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
        STAR.but(grows=True),
        STAR.but(n=5, length=3.0, grows=True),
    ],
    broken={"without root n": {"_root_n": False}},
)
def small_change(
    x, w_q, w_k, w, *, norm="tokens", grows=False, _root_n=True
) -> Verdict:
    """A small change of tokens of length at most one grows at most kappa-fold if the
    longest change of a token counts, and root(n) kappa-fold in the Frobenius norm.

    Measured: the norm of the derivative at x, over what is allowed, in the Frobenius
    norm by (3.13) and by (c).

    Args:
        x: (n, d); its longest token is the unit of length.
        w_q, w_k: (d, d_qk).
        w: (d, d), values and output together, not zero.
        norm: "tokens" for max_i |x_i|, "frobenius" for the root of the sum of squares.
        grows: ask also, as of a star, for a quarter of root(n - 1) kappa: (b).

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
    each, for_every_n = kappa(x, w_q, w_k, w)
    allowed = each
    if norm == "frobenius" and _root_n:
        allowed = min(math.sqrt(len(x)) * each, for_every_n)
    worst = found / allowed
    if grows:
        require(found > 0, "x, w: no change grows here")
        worst = max(worst, math.sqrt(len(x) - 1) * each / 4 / found)
    return at_most(worst, 1 + ROUNDING)


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
    gram = certify.product(X, list(zip(*X)))
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


BOTH = Case(corners_and_clusters)


@claim(
    "questions.low-rank",
    cases=[BOTH, BOTH.but(n=2, m=1), BOTH.but(n=9, m=4, L=4)],
    broken={
        "clusters of rank one": {"_odds": 1},
        "corners of rank one": {"_base": 1},
    },
)
def rank_does_not_decide(n: int, m: int, L: int, *, _base=None, _odds=3) -> Verdict:
    """Attention of full rank can collapse, and attention of rank two can keep its
    input: Example 3.5, and two clusters.

    Measured, exactly: the largest entry of X_L minus (3.8) in (a), or of X_L - X in
    (b), or what a rank lacks, whichever is largest.

    Args:
        n: tokens of (a), at least 2.
        m: tokens of each cluster of (b).
        L: layers.

    Cost: O(L n^3) exact operations.
    Claim: questions.low-rank
    Page: notebooks/path_decomposition/four_questions
    """
    sizes(2, n=n)
    sizes(1, m=m, L=L)
    states, attention = corners(n, L, base=n + 1 if _base is None else _base)
    lacking = max(n - certify.rank(matrix) for matrix in states + attention)
    off = Fraction(lacking)
    half = Fraction(1, 2**L)
    for i, row in enumerate(states[-1]):
        for j, entry in enumerate(row):
            wanted = half * (i == j) + (1 - half) / n
            off = max(off, abs(entry - wanted))

    X, P = clusters(m, _odds)
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


EXPONENTIALS = Case(exponentials)


@claim(
    "questions.normalise",
    cases=[EXPONENTIALS, EXPONENTIALS.but(rows=[[1, 2, 5], [7, 1, 1], [2, 2, 2]])],
    broken={"from the right": {"_right": True}},
)
def divide_rows(rows: Sequence[Sequence], *, _right=False) -> Verdict:
    """Softmax along rows divides from the left: it is D^-1 exp(A / root(d_qk)), D the
    diagonal matrix of row sums.

    Measured: the largest difference of an entry, for n tokens X = I, W_Q = A, W_K = I.

    Args:
        rows: the exponentials, n x n positive numbers.

    Claim: questions.normalise
    Page: notebooks/path_decomposition/four_questions
    """
    M = torch.tensor(rows, dtype=torch.float64)
    n = len(M)
    require(M.shape == (n, n) and (M > 0).all(), "rows must be n x n positive numbers")
    eye = torch.eye(n, dtype=torch.float64)
    P = attention_matrix(eye, math.sqrt(n) * M.log(), eye)  # d_qk = n
    sums = M.sum(1)
    divided = M / sums if _right else M / sums[:, None]
    return at_most((P - divided).abs().max(), ROUNDING)


def tokens_and_weights(x=((1, 2), (3, 5))) -> dict:
    """Two tokens of whole numbers, and weights of queries and keys."""
    return {"x": x, "w_q": ((1, 2), (0, 1)), "w_k": ((1, 0), (1, 1))}


TOKENS = Case(tokens_and_weights)


@claim(
    "questions.sides",
    cases=[TOKENS, TOKENS.but(x=((7, -1), (0, 4)))],
    broken={"weights on the left": {"_left": True}},
)
def reordering(x, w_q, w_k, *, _left=False) -> Verdict:
    """With tokens as rows and weights on their right, logits follow every reordering.

    Measured, exactly: the largest entry of logits of the exchanged tokens minus the
    exchanged logits.

    Args:
        x: two tokens, a row each.
        w_q, w_k: 2 x 2.

    Claim: questions.sides
    Page: notebooks/path_decomposition/four_questions
    """

    def logits(tokens):
        q, k = certify.product(tokens, w_q), certify.product(tokens, w_k)
        if _left:
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


EXPONENTS = Case(exponents)


@claim(
    "questions.rank-order",
    cases=[EXPONENTS, EXPONENTS.but(largest=10)],
    broken={"two logarithms": {"_more": True}},
)
def logarithms(largest: int, *, _more=False) -> Verdict:
    """A rank of order log n, as that of Theorem 2.3, stays within a fixed multiple of
    log n; log n times as much does not.

    Measured: the largest quotient of the rank that the lemma of Johnson and
    Lindenstrauss asks for, at eps = delta = 1/2, and log_2 n, over n = 2^m with m up to
    `largest`; at most a hundred.

    Args:
        largest: of m, at most 1000.

    Claim: questions.rank-order
    Page: notebooks/path_decomposition/four_questions
    """
    sizes(1, largest=largest)
    require(largest <= 1000, f"largest must be at most 1000, got {largest}")
    worst = 0.0
    for m in range(1, largest + 1):
        rank = required_dimension(0.5, 0.5, union=2**m, exact=False)
        worst = max(worst, rank if _more else rank / m)
    return at_most(worst, 100)
