"""Low rank: singular values of attention matrices, surrogates of a given rank,
Linformer and Nystrom attention.

Page: notebooks/jl_low_rank/spectra_and_linformer
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlib import _require
from attnlib._require import finite, is_tensor, matches, require, sizes, tokens
from attnlib.projections import Family, projection


def effective_rank(
    sigma: Float[Tensor, "*batch r"], share: float = 0.9, *, power: float | int = 2
) -> Int[Tensor, "*batch"]:
    """The least number of leading singular values that holds a share of the total.

        min { j : sum_{i <= j} sigma_i^power >= share sum_i sigma_i^power }

    Args:
        sigma: (*batch, r), not negative, in decreasing order.
        share: in (0, 1].
        power: 2 for energy (squared Frobenius norm), 1 for the cumulative curve of
            sums.

    Returns:
        (*batch), integers from 1 to r.

    Raises:
        ValueError: if sigma is not floating point, empty, not sorted, negative, all
            zero or not finite, or share leaves (0, 1].

    Cost: O(r), in float64.
    Source: energy: the error of Eckart and Young; power 1: the figure of Wang et al.
        2020, section 3.
    Claim: lowrank.metric
    """
    _require.numbers(share=share, power=power)
    require(0 < share <= 1, f"share must lie in (0, 1], got {share}")
    require(power > 0, f"power must be positive, got {power}")
    is_tensor("sigma", sigma)
    require(
        sigma.is_floating_point() and sigma.dim() >= 1 and sigma.numel() > 0,
        "sigma must be floating point with at least one singular value, "
        f"got {tuple(sigma.shape)} {sigma.dtype}",
    )
    finite(sigma=sigma)
    sigma = sigma.double()
    require(
        bool((sigma >= 0).all() and (sigma.diff() <= 0).all()),
        "sigma must be nonnegative, in decreasing order",
    )
    require(
        bool((sigma[..., :1] > 0).all()),
        "sigma must not be all zero: no share of nothing is defined",
    )
    r = sigma.shape[-1]
    rounding = 4 * r * torch.finfo(sigma.dtype).eps
    relative = sigma / sigma[..., :1]  # no power of these overflows
    sums = relative.pow(power).cumsum(-1)
    enough = share * sums[..., -1:] * (1 - rounding)
    reached = sums >= enough
    return reached.to(torch.int64).argmax(-1) + 1


def jl_surrogate(
    p: Float[Tensor, "*batch m n"],
    k: int,
    v: Float[Tensor, "*batch n d"] | None = None,
    *,
    family: Family = "gaussian",
    generator: torch.Generator,
    check: bool = True,
) -> Float[Tensor, "*batch m c"]:
    """The surrogate P R'R of a matrix, or its product with values, which never forms
    R'R.

        P R' R   or   P (R' (R V)),   R = projection(k, n)

    Args:
        p: (*batch, m, n), attention matrices; one R serves the batch.
        k: rank, 1 <= k <= n.
        v: (*batch, n, d), or batches that broadcast, or None.
        family: of R.
        generator: draws R.
        check: look for NaN and infinity.

    Returns:
        (*batch, m, n), or (*batch, m, d) with v; dtype and device of p.

    Raises:
        ValueError: for k out of range, shapes, dtypes or devices that do not fit, NaN
            or infinity.

    Cost: O(m n k); with v O((m + k) n d). Both need P itself.
    Source: Wang et al. 2020, proof of Theorem 1; Xie 2021, proof of Theorem 2.3.
    Claim: jl.mean-square
    Page: notebooks/jl_low_rank/random_projections
    """
    tokens(p, "p")
    if v is not None:
        tokens(v, "v")
        _check_product(p, v)
    if check:
        finite(p=p, v=v)
    n = p.shape[-1]
    r = projection(k, n, family, generator=generator, dtype=p.dtype, device=p.device)
    if v is None:
        return (p @ r.mT) @ r
    return p @ (r.mT @ (r @ v))


def _check_product(p: Tensor, v: Tensor) -> None:
    """The product p @ v exists, without a cast."""
    require(
        v.dtype == p.dtype and v.device == p.device,
        "p and v must share dtype and device",
    )
    *batch_p, _, n = p.shape
    *batch_v, rows, _ = v.shape
    require(
        rows == n,
        f"v needs {n} rows to fit p {tuple(p.shape)}, got {tuple(v.shape)}",
    )
    try:
        torch.broadcast_shapes(batch_p, batch_v)
    except RuntimeError:
        raise ValueError(
            "the batches of p and v must broadcast, "
            f"got {tuple(batch_p)} and {tuple(batch_v)}"
        ) from None


def svd_surrogate(
    p: Float[Tensor, "*batch m n"],
    k: int,
    *,
    oversample: int | None = None,
    power: int = 1,
    generator: torch.Generator | None = None,
    check: bool = True,
) -> Float[Tensor, "*batch m n"]:
    """A matrix of rank at most k near p: the best one, or one by a randomised range.

        exact:       P_k = sum_{i <= k} sigma_i u_i v_i'
        randomised:  the best rank-k part of Q Q' P,  Q = orth((P P')^power P G)

    with G: n x (k + oversample), N(0, 1).

    Args:
        p: (*batch, m, n).
        k: rank, 1 <= k <= min(m, n).
        oversample: None for the exact one, else 0 or more columns beyond k.
        power: passes over P P' of the randomised one, 0 or more.
        generator: source of G, needed for the randomised one.
        check: look for NaN and infinity.

    Returns:
        (*batch, m, n), dtype and device of p. Its rows need not sum to one, and may
        have negative entries.

    Raises:
        ValueError: for k below 1 or over min(m, n), a bad oversample or power, a
            missing generator, NaN.

    Cost: exact O(m n min(m, n)); randomised O(m n (k + oversample)(power + 1)).
    Source: Eckart and Young 1936; Halko, Martinsson and Tropp 2011, recalled.
        Orthonormalises between passes.
    Claim: lowrank.svd
    """
    tokens(p, "p")
    most = min(p.shape[-2:])
    sizes(1, k=k)
    require(k <= most, f"k must lie between 1 and min(m, n) = {most}, got {k}")
    if check:
        finite(p=p)
    if oversample is not None:
        sizes(0, oversample=oversample, power=power)
        _require.random(generator)
    # torch has neither decomposition in half precision.
    wide = p.float() if p.dtype in (torch.float16, torch.bfloat16) else p
    return _svd_surrogate(wide, k, oversample, power, generator).to(p.dtype)


def _svd_surrogate(
    p: Tensor,
    k: int,
    oversample: int | None,
    power: int,
    generator: torch.Generator | None,
) -> Tensor:
    """What svd_surrogate returns, for single or double precision."""
    most = min(p.shape[-2:])
    if oversample is None:
        left, right = _leading(p, k)
        return left @ right
    size = (p.shape[-1], min(k + oversample, most))
    g = torch.randn(
        size, generator=generator, dtype=torch.float64, device=generator.device
    )
    q = torch.linalg.qr(p @ g.to(p)).Q
    for _ in range(power):
        rows = torch.linalg.qr(p.mT @ q).Q
        q = torch.linalg.qr(p @ rows).Q
    left, right = _leading(q.mT @ p, k)
    return q @ left @ right


def _leading(p: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The leading part sum_{i <= k} sigma_i u_i v_i' of a matrix, as two factors: the
    columns sigma_i u_i and the rows v_i'.
    """
    u, sigma, vh = torch.linalg.svd(p, full_matrices=False)
    columns = u[..., :k] * sigma[..., None, :k]
    rows = vh[..., :k, :]
    return columns, rows


def sampled_product(
    p: Float[Tensor, "m n"],
    v: Float[Tensor, "n d"],
    k: int,
    *,
    generator: torch.Generator,
    check: bool = True,
) -> Float[Tensor, "m d"]:
    """The product P V from k columns of P and the k rows of V that belong to them,
    drawn at random.

        (1/k) sum_{t <= k} P_{:j_t} V_{j_t:} / p_{j_t}

    with p_j = c_j / sum c and c_j = |P_{:j}| |V_{j:}|.

    Args:
        p: (m, n).
        v: (n, d).
        k: draws, with replacement, at least 1.
        generator: source of randomness; the n chances go where it is, to the CPU.
        check: look for NaN and infinity.

    Returns:
        (m, d), right on average; E |error|_F^2 = ((sum c)^2 - |P V|_F^2) / k. The
        chances are constants for autograd, so that the gradient of a linear function of
        the result is right on average too.

    Raises:
        ValueError: for k below 1, p or v not a matrix, shapes that do not fit, NaN or
            infinity, all c_j zero.

    Cost: O((m + d) n) for the chances, O(m k d) for the product.
    Source: Drineas, Kannan and Mahoney 2006, recalled.
    Claim: lowrank.products
    """
    tokens(p, "p")
    tokens(v, "v")
    require(
        p.dim() == v.dim() == 2,
        "p and v must be one matrix each, (m, n) and (n, d), "
        f"got {tuple(p.shape)} and {tuple(v.shape)}: loop over a batch",
    )
    sizes(1, k=k)
    _require.random(generator)
    matches("v", v, (p.shape[-1], v.shape[-1]), p, "p")
    if check:
        finite(p=p, v=v)
    # Some rows at a time, so that no second m x n matrix is held.
    squares = sum(rows.square().sum(0) for rows in p.detach().split(256))
    c = squares.sqrt() * v.detach().norm(dim=1)
    require(
        bool(c.sum() > 0),
        "every column of p or row of v is zero: there is nothing to draw",
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
    """Attention to r mixtures of the tokens in place of the n tokens.

        softmax_row( scale Q (E K)' ) F V

    There is no mask of pairs, causal or not. A mixture can only be hidden whole, so row
    i could use those alone that hold no token hidden from it; trained, dense e and f
    have none.

    Args:
        q: (*batch, m, d), the last dimension of the batch being the heads.
        k: (*batch, n, d).
        v: (*batch, n, d_v).
        e, f: (r, w) for all heads, or (h, r, w), one a head; r <= n <= w, and a shorter
            sequence uses the first n columns.
        scale: None for 1/sqrt(d).
        token_mask: True = a token, (*batch, n) or (b, 1, n) for all heads; keys and
            values of what is none count as zero.
        check: look for NaN and infinity.

    Returns:
        (*batch, m, d_v), dtype and device of q. With e = f = I it is dense attention.

    Raises:
        ValueError: for r below 1 or over n, a sequence longer than w, shapes that do
            not fit, NaN or infinity, a sequence without a token.

    Cost: O(r n (d + d_v) + r m (d + d_v)) time, O(r (m + d + d_v)) memory.
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
    if len(shape) == 3:
        h = q.shape[-3] if q.dim() > 2 else None
        require(
            shape[0] == h,
            f"e has mixtures for {shape[0]} heads, q {tuple(q.shape)} has {h}",
        )
    *_, r, w = shape
    n = k.shape[-2]
    require(
        n <= w,
        f"the sequence has {n} tokens, e only {w} columns: "
        "Linformer has a largest length, train a wider e",
    )
    require(
        r <= n,
        f"e has r = {r} rows for n = {n} tokens: r <= n is needed; "
        "pad the sequence and say so by token_mask=",
    )
    matches("e", e, shape, q, "q")
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
    scale: float | None = None,
    check: bool = True,
) -> Float[Tensor, "*batch n d_v"]:
    """Attention through landmarks, the means of segments of queries and of keys.

        softmax(Q K_m') softmax(Q_m K_m')^+ softmax(Q_m K') V,    logits times scale

    Args:
        q, k: (*batch, n, d).
        v: (*batch, n, d_v).
        landmarks: number m of segments, a divisor of n.
        iterations: None for the exact pseudo-inverse ^+; else steps toward it, 6 as
            published. Few steps leave small singular values out, which the exact one
            divides by.
        scale: None for 1/sqrt(d).
        check: look for NaN and infinity.

    Returns:
        (*batch, n, d_v), dtype and device of q. With m = n it is dense attention. It
        takes no mask: segments hold tokens from several places.

    Raises:
        ValueError: if landmarks is below 1, over n or no divisor of n, for iterations
            below 1, shapes that do not fit, NaN or infinity.

    Cost: O(n m (d + d_v) + m^3) time, O(n m) memory; 8 m^3 FLOPs an iteration.
    Source: Xiong et al. 2021 (Nystromformer), recalled; differs: no convolution, and
        unless iterations = 6 an exact pseudo-inverse. The theory of Nystrom
        approximation is for positive semidefinite kernels; softmax of Q K' is none.
    """
    _require.heads(q, k, v, one_length=True, check=check)
    _require.scale(scale, check=check)
    sizes(1, landmarks=landmarks)
    if iterations is not None:
        sizes(1, iterations=iterations)
    n, d = q.shape[-2:]
    m = landmarks
    require(n % m == 0, f"landmarks must divide n = {n}, got {m}")
    if scale is None:
        scale = 1 / math.sqrt(d)
    q = q * scale
    segments = (m, n // m)
    q_m = q.unflatten(-2, segments).mean(-2)
    k_m = k.unflatten(-2, segments).mean(-2)
    left = torch.softmax(q @ k_m.mT, -1)
    core = torch.softmax(q_m @ k_m.mT, -1)
    right = torch.softmax(q_m @ k.mT, -1)
    if iterations is None:
        wide = torch.promote_types(core.dtype, torch.float32)
        inverse = torch.linalg.pinv(core.to(wide)).to(core.dtype)
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
