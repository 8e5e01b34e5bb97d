"""Random projections: the families, their exact failure probabilities, and the
dimension they need. x @ R' sketches rows.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib._require import finite, require

Family = Literal["gaussian", "rademacher", "achlioptas", "sparse", "srht"]
BLOCK = 1 << 16  # values of k that are looked at together


def projection(
    k: int,
    n: int,
    family: Family = "gaussian",
    *,
    s: int = 1,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> Float[Tensor, "k n"]:
    """A random matrix R with E[R'R] = I, to be applied to rows as x @ R.T.

        gaussian    N(0, 1/k)
        rademacher  +-1 / sqrt(k)
        achlioptas  sqrt(3/k) times +1, 0, -1 with chances 1/6, 2/3, 1/6
        sparse      s entries +-1 / sqrt(s) in each column, in distinct rows; s = 1 is CountSketch
        srht        k rows, drawn without replacement, of H diag(signs) / sqrt(k), H Sylvester's Hadamard matrix

    Args:
        k: rows, 1 <= k <= n.
        n: columns.
        family: one of the five.
        s: only for sparse, 1 <= s <= k.
        generator: draws everything, on its own device and in float64.
        dtype, device: of the result.

    Returns:
        (k, n). For srht with n no power of two, the first n columns of the next larger
        one.

    Raises:
        ValueError: for k or s no integer or out of range, an unknown family, a dtype
            that is not floating.

    Cost:
        O(k n); O(k n log k) for sparse.

    Source:
        Johnson and Lindenstrauss 1984; Achlioptas 2003; Kane and Nelson 2014; Ailon and
        Chazelle 2009.

    Claim:
        jl.families

    Page:
        notebooks/jl_low_rank/random_projections
    """
    _sizes(k, n)
    _options(k, family, s, dtype)
    g, where = generator, generator.device
    if family == "gaussian":
        r = torch.randn(
            k, n, generator=g, device=where, dtype=torch.float64
        ) / math.sqrt(k)
    elif family == "rademacher":
        r = _signs((k, n), g) / math.sqrt(k)
    elif family == "achlioptas":
        face = torch.randint(6, (k, n), generator=g, device=where)
        r = ((face == 0).double() - (face == 1).double()) * math.sqrt(3 / k)
    elif family == "sparse":
        rows = torch.rand(k, n, generator=g, device=where, dtype=torch.float64).argsort(
            0
        )[:s]
        r = torch.zeros(k, n, device=where, dtype=torch.float64).scatter(
            0, rows, _signs((s, n), g) / math.sqrt(s)
        )
    else:
        signs, rows = _srht_draw(k, n, g)
        r = signs * _sylvester(rows, torch.arange(n, device=where)) / math.sqrt(k)
    return r.to(device=device, dtype=dtype)


def _sizes(k: int, n: int) -> None:
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in (k, n))
    require(whole, f"k and n must be integers, got {k!r} and {n!r}")
    require(k >= 1, f"k must be at least 1, got {k}")
    require(
        k <= n,
        f"k must be at most n = {n}, got {k}: a sketch longer than the row saves nothing",
    )


def _options(k: int, family: str, s: int, dtype: torch.dtype) -> None:
    require(
        family in get_args(Family),
        f"family must be one of {list(get_args(Family))}, got {family!r}",
    )
    whole = isinstance(s, int) and not isinstance(s, bool)
    fits = whole and (family != "sparse" or 1 <= s <= k)
    require(
        fits,
        f"s must be an integer from 1 to k = {k}, got {s!r}: a column has k entries",
    )
    floating = isinstance(dtype, torch.dtype) and dtype.is_floating_point
    require(floating, f"dtype must be a floating point torch.dtype, got {dtype!r}")


def _signs(size: tuple[int, ...], g: torch.Generator) -> Tensor:
    return 2.0 * torch.randint(2, size, generator=g, device=g.device).double() - 1


def _srht_draw(k: int, n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """The random part of an SRHT: a sign for each column, and which k rows of the
    Hadamard matrix are kept.
    """
    return _signs((n,), g), torch.randperm(_padded(n), generator=g, device=g.device)[:k]


def _padded(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _sylvester(rows: Tensor, columns: Tensor) -> Tensor:
    """Entries (-1)^(number of common binary digits of row and column) of Sylvester's
    matrix.
    """
    common = rows[:, None] & columns
    for shift in (32, 16, 8, 4, 2, 1):
        common = common ^ (common >> shift)
    return 1.0 - 2.0 * (common & 1).double()


def srht(
    x: Float[Tensor, "*batch n"],
    k: int,
    *,
    generator: torch.Generator,
    check: bool = True,
) -> Float[Tensor, "*batch k"]:
    """The same as x @ projection(k, n, "srht").T for the same state of the generator,
    without the matrix.

        x R',   R = rows of H diag(signs) / sqrt(k), by the fast transform

    Args:
        x: (*batch, n), padded by zeros to a power of two.
        k: 1 <= k <= n.
        generator: draws signs and rows.
        check: look for NaN and infinity.

    Returns:
        (*batch, k), dtype and device of x.

    Raises:
        ValueError: for k out of range, x not floating point, NaN or infinity.

    Cost:
        O(n log n) a row, in place of O(k n).

    Source:
        Ailon and Chazelle 2009; differs: rows are sampled, without replacement.

    Page:
        notebooks/jl_low_rank/random_projections
    """
    _rows(x, check)
    n = x.shape[-1]
    _sizes(k, n)
    signs, rows = (t.to(x.device) for t in _srht_draw(k, n, generator))
    y = torch.nn.functional.pad(x * signs.to(x.dtype), (0, _padded(n) - n))
    return hadamard(y, check=False)[..., rows] / math.sqrt(k)


def hadamard(
    x: Float[Tensor, "*batch n"], *, check: bool = True
) -> Float[Tensor, "*batch n"]:
    """The product of each row with Sylvester's Hadamard matrix, entries +-1, by the
    fast transform.

        H_1 = (1),   H_2n = [[H_n, H_n], [H_n, -H_n]];   H H = n I

    Args:
        x: (*batch, n), n a power of two.
        check: look for NaN and infinity.

    Returns:
        (*batch, n), not scaled.

    Raises:
        ValueError: if n is no power of two, for x not floating point, NaN or infinity.

    Cost:
        n log2(n) additions a row.

    Source:
        Sylvester's construction.

    Page:
        notebooks/jl_low_rank/random_projections
    """
    _rows(x, check)
    n, h = x.shape[-1], 1
    require(
        n == _padded(n),
        f"n must be a power of two, got {n}: pad with zeros, as srht does",
    )
    while h < n:
        left, right = x.unflatten(-1, (n // (2 * h), 2, h)).unbind(-2)
        x = torch.stack([left + right, left - right], -2).flatten(-3)
        h *= 2
    return x


def _rows(x: Tensor, check: bool) -> None:
    require(torch.is_tensor(x), f"x must be a torch tensor, got {type(x).__name__}")
    require(
        x.is_floating_point(), f"x must be floating point, got {x.dtype}: cast it first"
    )
    require(
        x.dim() >= 1 and x.shape[-1] >= 1,
        f"x must be (*batch, n) with n >= 1, got {tuple(x.shape)}",
    )
    if check:
        finite(x=x)


def failure_probability(k: int, eps: float, *, log: bool = False) -> float:
    """The exact chance that a Gaussian projection changes a squared norm by more than
    the share eps.

        Pr(|X/k - 1| > eps),   X chi-square with k degrees of freedom

    Args:
        k: rows of R.
        eps: positive; from 1 on only the upper tail is left.
        log: return the natural logarithm, also where the chance is below the smallest
            float.

    Returns:
        a float.

    Raises:
        ValueError: for k < 1 or eps not positive and finite.

    Cost:
        O(1); some hundred steps for a logarithm below -650.

    Source:
        the chi-square law of the squared norm; two incomplete gamma functions.

    Claim:
        jl.norm-law

    Page:
        notebooks/jl_low_rank/random_projections
    """
    _tail_arguments(k, eps)
    p = float(_failures(torch.tensor([float(k)], dtype=torch.float64), eps))
    if not log:
        return p
    if p > 1e-280:
        return math.log(p)
    up, down = (
        _log_upper(k / 2, k * (1 + eps) / 2),
        _log_lower(k / 2, k * (1 - eps) / 2),
    )
    top = max(up, down)
    return top + math.log(math.exp(up - top) + math.exp(down - top))


def _tail_arguments(k: int, eps: float, most: float = math.inf) -> None:
    require(
        isinstance(k, int) and not isinstance(k, bool) and k >= 1,
        f"k must be an integer, at least 1, got {k!r}",
    )
    require(
        isinstance(eps, (int, float)) and 0 < eps < most,
        f"eps must be positive and below {most:g}, got {eps!r}",
    )


def _failures(k: Tensor, eps: float) -> Tensor:
    a = k / 2
    upper = torch.special.gammaincc(a, a * (1 + eps))
    return upper if eps >= 1 else upper + torch.special.gammainc(a, a * (1 - eps))


def _log_upper(a: float, x: float) -> float:
    """ln Q(a, x) for x well above a, by the continued fraction of Legendre, evaluated
    with Lentz' method.
    """
    b = x + 1 - a
    c, d = 1e300, 1 / b
    f = d
    for i in range(1, 10**6):
        q = i * (a - i)
        b += 2
        d, c = 1 / (q * d + b), b + q / c
        f *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return a * math.log(x) - x - math.lgamma(a) + math.log(f)


def _log_lower(a: float, x: float) -> float:
    """ln P(a, x) for x below a, by its series of positive terms."""
    if x <= 0:
        return -math.inf
    term = total = 1.0
    m = a
    while term > 1e-17 * total:
        m += 1
        term *= x / m
        total += term
    return a * math.log(x) - x - math.lgamma(a + 1) + math.log(total)


def failure_bound(k: int, eps: float, *, sharp: bool = False) -> float:
    """An upper bound of the chance that |x'R'Ry - x'y| > eps |x| |y|, for norms and
    inner products alike.

        2 e^(-k (eps^2 - eps^3) / 4),   sharp:  2 e^(-k (eps - ln(1 + eps)) / 2)

    Args:
        k: rows of a Gaussian R.
        eps: between 0 and 1; sharp takes any positive eps.
        sharp: the rate itself.

    Returns:
        a float; above 1 it says nothing.

    Raises:
        ValueError: for k < 1 or eps out of range.

    Cost:
        O(1).

    Source:
        the usual form of the lemma; the constant 2 for inner products is derived on the
        page.

    Claim:
        jl.tail

    Page:
        notebooks/jl_low_rank/random_projections
    """
    _tail_arguments(k, eps, math.inf if sharp else 1.0)
    rate = (eps - math.log1p(eps)) / 2 if sharp else (eps**2 - eps**3) / 4
    return 2 * math.exp(-k * rate)


def required_dimension(
    eps: float, delta: float, *, union: int = 1, exact: bool = True
) -> int:
    """How many rows make the chance of a failure, summed over a union of events, at
    most delta.

        exact:      least K with  union * failure_probability(k, eps) <= delta  for all k >= K
        otherwise:  4 ln(2 union / delta) / (eps^2 - eps^3), rounded up

    Args:
        eps: between 0 and 1.
        delta: between 0 and 1.
        union: number of squared norms to keep; inner products need exact=False.
        exact: by the chi-square law, or by the bound.

    Returns:
        an int; nothing keeps it below n.

    Raises:
        ValueError: for eps or delta outside (0, 1), or union < 1.

    Cost:
        O(1) for the bound; exact looks at every k from the bound down, about 10^7 a
        second.

    Source:
        the usual form of the lemma, and the law behind it.

    Claim:
        jl.floor

    Page:
        notebooks/jl_low_rank/random_projections
    """
    _tail_arguments(1, eps, 1.0)
    require(
        isinstance(delta, (int, float)) and 0 < delta < 1,
        f"delta must be between 0 and 1, got {delta!r}",
    )
    require(
        isinstance(union, int) and union >= 1,
        f"union must be an integer, at least 1, got {union!r}",
    )
    k = math.ceil(4 * math.log(2 * union / delta) / (eps**2 - eps**3))
    while exact and k > 1:  # the bound answers for every larger k
        block = torch.arange(max(1, k - BLOCK), k, dtype=torch.float64)
        failing = block[union * _failures(block, eps) > delta]
        if len(failing):
            return int(failing[-1]) + 1
        k = int(block[0])
    return k
