"""Random projections and low rank: fewer rows in place of many, and what that costs.

    X R',   E[R'R] = I;    P R'(R V);    softmax(Q (E K)') F V

The first half belongs to the page on random projections, and `projection` is its
literal form: x @ projection(k, n).T sketches the rows of x. The second half is spectra,
surrogates of attention matrices, Linformer and Nystrom attention.

Page: notebooks/jl_low_rank/spectra_and_linformer
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from attnlib import _require
from attnlib._require import finite, is_tensor, matches, require, sizes, tokens

Family = Literal["gaussian", "rademacher", "achlioptas", "sparse", "srht"]


def projection(
    k: int,
    n: int,
    family: Family = "gaussian",
    *,
    s: int = 1,
    generator: torch.Generator,
) -> Float[Tensor, "k n"]:
    """A random matrix R with E[R'R] = I, to be applied to rows as x @ R.T.

        gaussian    N(0, 1/k)
        rademacher  +-1 / sqrt(k)
        achlioptas  sqrt(3/k) times +1, 0, -1 with chances 1/6, 2/3, 1/6
        sparse      s entries +-1 / sqrt(s) in each column, in distinct rows
        srht        k rows, drawn without replacement, of H diag(signs) / sqrt(k)

    Sparse with s = 1 is CountSketch; H is Sylvester's Hadamard matrix, and where n is
    no power of two, R is the first n columns of the next larger one.

    Args:
        k: at most n.
        s: only for sparse, at most k.
        generator: draws everything, in float64 and on its own device, where R is.

    Source: Johnson and Lindenstrauss 1984; Achlioptas 2003; Kane and Nelson 2014; Ailon
        and Chazelle 2009.
    Claim: jl.families
    """
    _sketch_sizes(k, n)
    _require.one_of(get_args(Family), family=family)
    sizes(1, s=s)
    require(
        family != "sparse" or s <= k,
        f"s must be at most k = {k}, got {s}: a column has k entries",
    )
    _require.random(generator)
    g = generator
    where = g.device
    if family == "gaussian":
        normal = torch.randn(k, n, generator=g, device=where, dtype=torch.float64)
        return normal / math.sqrt(k)
    if family == "rademacher":
        return _signs((k, n), g) / math.sqrt(k)
    if family == "achlioptas":
        face = torch.randint(6, (k, n), generator=g, device=where)
        entries = (face == 0).double() - (face == 1).double()
        return entries * math.sqrt(3 / k)
    if family == "sparse":
        places = torch.rand(k, n, generator=g, device=where, dtype=torch.float64)
        rows = places.argsort(0)[:s]
        entries = _signs((s, n), g) / math.sqrt(s)
        return torch.zeros_like(places).scatter(0, rows, entries)
    signs, rows = _srht_draw(k, n, g)
    columns = torch.arange(n, device=where)
    return signs * _sylvester(rows, columns) / math.sqrt(k)


def _sketch_sizes(k: int, n: int) -> None:
    sizes(1, k=k, n=n)
    require(
        k <= n,
        f"k must be at most n = {n}, got {k}: "
        "a sketch longer than the row saves nothing",
    )


def _signs(size: tuple[int, ...], g: torch.Generator) -> Tensor:
    """Entries +1 and -1, each with chance 1/2."""
    coins = torch.randint(2, size, generator=g, device=g.device)
    return 2.0 * coins.double() - 1


def _srht_draw(k: int, n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """A sign for each column, and which k rows of the Hadamard matrix are kept."""
    signs = _signs((n,), g)
    rows = torch.randperm(_padded(n), generator=g, device=g.device)[:k]
    return signs, rows


def _padded(n: int) -> int:
    """The least power of two that is n or more."""
    return 1 << (n - 1).bit_length()


def _sylvester(rows: Tensor, columns: Tensor) -> Tensor:
    """Entries (-1)^(number of common binary digits of row and column)."""
    common = rows[:, None] & columns
    # Folding the digits onto one another leaves in the last one whether they are odd.
    for shift in (32, 16, 8, 4, 2, 1):
        common = common ^ (common >> shift)
    return 1.0 - 2.0 * (common & 1).double()


def srht(
    x: Float[Tensor, "*batch n"],
    k: int,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "*batch k"]:
    """x @ projection(k, n, "srht").T for the same state of the generator, without the
    matrix: O(n log n) a row.

    Args:
        k: at most n.
        generator: draws signs and rows.

    Source: Ailon and Chazelle 2009; differs: rows are sampled, without replacement.
    """
    _require.is_floating("x", x)
    got = tuple(x.shape)
    require(got and got[-1] >= 1, f"x must be (*batch, n) with n >= 1, got {got}")
    finite(x=x)
    n = got[-1]
    _sketch_sizes(k, n)
    _require.random(generator)
    signs, rows = _srht_draw(k, n, generator)
    signed = x * signs.to(x)
    product = _hadamard(pad(signed, (0, _padded(n) - n)))
    return product[..., rows.to(x.device)] / math.sqrt(k)


def _hadamard(x: Tensor) -> Tensor:
    """Each row times Sylvester's matrix, n a power of two, by the fast transform.

    H_1 = (1),   H_2n = [[H_n, H_n], [H_n, -H_n]]
    """
    h = 1
    while h < x.shape[-1]:
        left, right = x.unflatten(-1, (-1, 2, h)).unbind(-2)
        pairs = torch.stack([left + right, left - right], -2)
        x = pairs.flatten(-3)
        h *= 2
    return x


def failure_probability(k: int, eps: float) -> float:
    """The exact chance that a Gaussian projection to k rows changes a squared norm by
    more than the share eps.

        Pr(|X/k - 1| > eps),   X chi-square with k degrees of freedom

    Args:
        eps: positive; from 1 on only the upper tail is left.

    Source: the chi-square law of the squared norm; two incomplete gamma functions.
    Claim: jl.norm-law
    """
    sizes(1, k=k)
    _share(eps)
    k = torch.tensor(float(k), dtype=torch.float64, device="cpu")
    return float(_failures(k, eps))


def _share(eps: float, most: float = math.inf) -> None:
    _require.numbers(eps=eps)
    require(0 < eps < most, f"eps must be positive and below {most:g}, got {eps}")


def _failures(k: Tensor, eps: float) -> Tensor:
    """failure_probability for several k at once."""
    a = k / 2
    upper = torch.special.gammaincc(a, a * (1 + eps))
    if eps >= 1:
        return upper
    lower = torch.special.gammainc(a, a * (1 - eps))
    return upper + lower


def failure_bound(k: int, eps: float, *, sharp: bool = False) -> float:
    """An upper bound of the chance that |x'R'Ry - x'y| > eps |x| |y| for a Gaussian R
    of k rows, for norms and inner products alike.

        2 e^(-k (eps^2 - eps^3) / 4),   sharp:  2 e^(-k (eps - ln(1 + eps)) / 2)

    Args:
        eps: between 0 and 1; sharp takes any positive eps.

    Source: the usual form of the lemma; the constant 2 for inner products is derived on
        the page.
    Claim: jl.tail
    """
    _require.is_a(bool, sharp=sharp)
    sizes(1, k=k)
    if sharp:
        _share(eps)
        rate = (eps - math.log1p(eps)) / 2
    else:
        _share(eps, 1.0)
        rate = (eps**2 - eps**3) / 4
    return 2 * math.exp(-k * rate)


def required_dimension(
    eps: float, delta: float, *, union: int = 1, exact: bool = True
) -> int:
    """How many rows make the chance of a failure, summed over a union of events, at
    most delta. Nothing keeps it below n.

        exact:      least K with  union * failure_probability(k, eps) <= delta
                    for all k >= K
        otherwise:  4 ln(2 union / delta) / (eps^2 - eps^3), rounded up

    Args:
        eps, delta: between 0 and 1.
        union: number of squared norms to keep; inner products need exact=False.

    Cost: exact looks at every k from the bound down, about 10^7 a second.
    Source: the usual form of the lemma, and the law behind it.
    Claim: jl.floor
    """
    _require.is_a(bool, exact=exact)
    _share(eps, 1.0)
    _require.numbers(delta=delta)
    require(0 < delta < 1, f"delta must be between 0 and 1, got {delta}")
    sizes(1, union=union)
    logarithm = math.log(2 * union / delta)
    room = eps**2 - eps**3
    require(
        room * 2**53 > 4 * logarithm,
        f"eps must not ask for 2^53 dimensions or more, got {eps}",
    )
    k = math.ceil(4 * logarithm / room)
    # The bound answers for this k and all larger ones. Below it we look for the largest
    # k that fails, many at a time.
    while exact and k > 1:
        first = max(1, k - 2**16)
        block = torch.arange(first, k, dtype=torch.float64, device="cpu")
        fails = union * _failures(block, eps) > delta
        failing = block[fails]
        if len(failing):
            return int(failing[-1]) + 1
        k = first
    return k


# --- spectra, surrogates, and attention through fewer keys


def effective_rank(
    sigma: Float[Tensor, "*batch r"], share: float = 0.9, *, power: float = 2
) -> Int[Tensor, "*batch"]:
    """The least number of leading singular values that holds a share of the total.

        min { j : sum_{i <= j} sigma_i^power >= share sum_i sigma_i^power }

    Args:
        sigma: not negative, in decreasing order.
        share: in (0, 1].
        power: 2 for energy (squared Frobenius norm), 1 for the cumulative curve of
            sums.

    Source: energy: the error of Eckart and Young; power 1: the figure of Wang et al.
        2020, section 3.
    Claim: lowrank.metric
    """
    _require.numbers(share=share, power=power)
    require(0 < share <= 1, f"share must lie in (0, 1], got {share}")
    require(power > 0, f"power must be positive, got {power}")
    _require.is_floating("sigma", sigma)
    got = tuple(sigma.shape)
    require(got and 0 not in got, f"sigma needs at least one singular value, got {got}")
    finite(sigma=sigma)
    sigma = sigma.double()
    largest = sigma[..., :1]
    falls = (sigma >= 0).all() and (sigma.diff() <= 0).all()
    require(
        falls and (largest > 0).all(),
        "sigma must be nonnegative, in decreasing order, not all zero",
    )
    relative = sigma / largest  # no power of these overflows
    sums = relative.pow(power).cumsum(-1)
    rounding = 4 * got[-1] * torch.finfo(sigma.dtype).eps
    reached = sums >= share * sums[..., -1:] * (1 - rounding)
    return reached.to(torch.int64).argmax(-1) + 1


def jl_surrogate(
    p: Float[Tensor, "*batch m n"],
    k: int,
    v: Float[Tensor, "*batch n d"] | None = None,
    *,
    family: Family = "gaussian",
    generator: torch.Generator,
) -> Float[Tensor, "*batch m c"]:
    """The surrogate of rank k of a matrix, or its product with values, which never
    forms R'R. Both need P itself.

        P R' R   or   P (R' (R V)),   R = projection(k, n)

    Args:
        p: attention matrices; one R serves the batch.

    Source: Wang et al. 2020, proof of Theorem 1; Xie 2021, proof of Theorem 2.3.
    Claim: jl.mean-square
    """
    tokens(p, "p")
    *batch, _, n = p.shape
    if v is not None:
        tokens(v, "v")
        matches("v", v, (*batch, n, v.shape[-1]), p, "p")
    finite(p=p, v=v)
    r = projection(k, n, family, generator=generator).to(p)
    if v is None:
        return (p @ r.mT) @ r
    return p @ (r.mT @ (r @ v))


def svd_surrogate(
    p: Float[Tensor, "*batch m n"], k: int
) -> Float[Tensor, "*batch m n"]:
    """The nearest matrix of rank at most k, P_k = sum_{i <= k} sigma_i u_i v_i'.
    Its rows need not sum to one, and may have negative entries.

    Args:
        k: at most min(m, n).

    Source: Eckart and Young 1936.
    Claim: lowrank.svd
    """
    tokens(p, "p")
    most = min(p.shape[-2:])
    sizes(1, k=k)
    require(k <= most, f"k must lie between 1 and min(m, n) = {most}, got {k}")
    finite(p=p)
    wide = _require.widened(p)  # torch has no decomposition in half precision
    u, sigma, vh = torch.linalg.svd(wide, full_matrices=False)
    columns = u[..., :k] * sigma[..., None, :k]
    return (columns @ vh[..., :k, :]).to(p.dtype)


def sampled_product(
    p: Float[Tensor, "m n"],
    v: Float[Tensor, "n d"],
    k: int,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "m d"]:
    """The product P V from k columns of P and the rows of V that belong to them, drawn
    at random, with replacement; right on average, and so is its gradient.

        (1/k) sum_{t <= k} P_{:j_t} V_{j_t:} / p_{j_t}

    with p_j = c_j / sum c and c_j = |P_{:j}| |V_{j:}|, so that
    E |error|_F^2 = ((sum c)^2 - |P V|_F^2) / k.

    Args:
        generator: source of randomness; the n chances go where it is, to the CPU.

    Source: Drineas, Kannan and Mahoney 2006, recalled.
    Claim: lowrank.products
    """
    tokens(p, "p")
    tokens(v, "v")
    got = tuple(p.shape)
    require(len(got) == 2, f"p must be one matrix (m, n), got {got}: loop over a batch")
    sizes(1, k=k)
    _require.random(generator)
    matches("v", v, (got[1], v.shape[-1]), p, "p")
    finite(p=p, v=v)
    # Constants for autograd: so the gradient of a linear function is right on average.
    c = p.detach().norm(dim=0) * v.detach().norm(dim=1)
    require(
        c.sum() > 0, "every column of p or row of v is zero: there is nothing to draw"
    )
    chances = c.double().to(generator.device)
    drawn = torch.multinomial(chances, k, replacement=True, generator=generator)
    drawn = drawn.to(p.device)
    weights = c.sum() / (k * c[drawn])
    return (p[:, drawn] * weights) @ v[drawn]


def linformer_attention(
    q: Float[Tensor, "*batch m d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    e: Float[Tensor, "*heads r w"],
    f: Float[Tensor, "*heads r w"],
    *,
    scale: float | None = None,
    token_mask: Bool[Tensor, "*sequences n"] | None = None,
    check: bool = True,
) -> Float[Tensor, "*batch m d_v"]:
    """Attention to r mixtures of the tokens in place of the n tokens; with e = f = I it
    is dense.

        softmax_row( scale Q (E K)' ) F V

    There is no mask of pairs, causal or not: a mixture can only be hidden whole, and a
    dense one holds tokens hidden from every row.

    Args:
        q: the last dimension of its batch is the heads.
        e, f: (r, w) for all heads, or (h, r, w), one a head; r <= n <= w, and a shorter
            sequence uses the first n columns.
        scale: None for 1/sqrt(d).
        token_mask: True = a token, (*batch, n) or (b, 1, n) for all heads; keys and
            values of what is none count as zero.
        check: look for NaN and infinity.

    Source: Wang et al. 2020, eq. (7); one head, projections of queries, keys and values
        done before.
    Claim: lowrank.pairs
    """
    _require.heads(q, k, v, check=check)
    _require.scale(scale, check=check)
    _check_mixtures(q, k, e, f, check)
    if token_mask is not None:
        size = k.shape[:-1]
        _require.token_mask(token_mask, size, k.device, heads=True, check=check)
        real = token_mask.unsqueeze(-1)
        k = k * real
        v = v * real
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])
    n = k.shape[-2]
    keys = e[..., :n] @ k
    values = f[..., :n] @ v
    logits = (q * scale) @ keys.mT
    return torch.softmax(logits, -1) @ values


def _check_mixtures(q: Tensor, k: Tensor, e: Tensor, f: Tensor, check: bool) -> None:
    """E and F mix the n tokens of each sequence into r, for all heads or one a head."""
    is_tensor("e", e)
    shape = tuple(e.shape)
    require(
        len(shape) in (2, 3) and 0 not in shape,
        f"e must be (r, w), or (h, r, w) for h heads, got {shape}",
    )
    *heads, r, w = shape
    of_q = q.shape[-3:-2] if heads else ()
    matches("e", e, (*of_q, r, w), q, "q")
    n = k.shape[-2]
    require(
        r <= n <= w,
        f"e must be (r, w) with r <= n <= w for n = {n} tokens, got {shape}: train a "
        "wider e, or pad a short sequence and say so by token_mask=",
    )
    matches("f", f, shape, e, "e")
    if check:
        finite(e=e, f=f)


def nystrom_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    landmarks: int,
    *,
    iterations: int | None = None,
    check: bool = True,
) -> Float[Tensor, "*batch n d_v"]:
    """Attention through m landmarks, the means of segments of queries and of keys; with
    m = n it is dense. It takes no mask: segments hold tokens from several places.

        softmax(Q K_m') softmax(Q_m K_m')^+ softmax(Q_m K') V,  logits over sqrt(d)

    Args:
        landmarks: m, a divisor of n.
        iterations: None for the exact pseudo-inverse ^+; else steps toward it, 6 as
            published. Few steps leave small singular values out, which the exact one
            divides by.
        check: look for NaN and infinity.

    Source: Xiong et al. 2021 (Nystromformer), recalled; differs: no convolution, and
        unless iterations = 6 an exact pseudo-inverse. The theory of Nystrom
        approximation is for positive semidefinite kernels; softmax of Q K' is none.
    """
    _require.heads(q, k, v, one_length=True, check=check)
    sizes(1, landmarks=landmarks)
    if iterations is not None:
        sizes(1, iterations=iterations)
    n, d = q.shape[-2:]
    require(n % landmarks == 0, f"landmarks must divide n = {n}, got {landmarks}")
    q = q / math.sqrt(d)
    segments = (landmarks, n // landmarks)
    q_m = q.unflatten(-2, segments).mean(-2)
    k_m = k.unflatten(-2, segments).mean(-2)
    left = torch.softmax(q @ k_m.mT, -1)
    core = torch.softmax(q_m @ k_m.mT, -1)
    right = torch.softmax(q_m @ k.mT, -1)
    if iterations is None:
        inverse = torch.linalg.pinv(_require.widened(core)).to(core.dtype)
    else:
        inverse = _iterated_inverse(core, iterations)
    return left @ (inverse @ (right @ v))


def _iterated_inverse(a: Tensor, iterations: int) -> Tensor:
    """Steps of third order toward the pseudo-inverse of a matrix whose rows sum to
    one.
    """
    one = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    columns = a.sum(-2).amax(-1)
    z = a.mT / columns[..., None, None]  # its spectral norm times that of a is <= 1
    for _ in range(iterations):
        az = a @ z
        z = z @ (13 * one - az @ (15 * one - az @ (7 * one - az))) / 4
    return z
