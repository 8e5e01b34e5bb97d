"""Random projections: the families, their exact failure probabilities, and the
dimension they need. x @ R' sketches rows.

Page: notebooks/jl_low_rank/random_projections
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import mpmath
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from attnlib._require import (
    finite,
    floating,
    is_a,
    is_tensor,
    numbers,
    one_of,
    place,
    random,
    require,
    sizes,
)

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
        sparse      s entries +-1 / sqrt(s) in each column, in distinct rows
        srht        k rows, drawn without replacement, of H diag(signs) / sqrt(k)

    Sparse with s = 1 is CountSketch; H is Sylvester's Hadamard matrix.

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

    Cost: O(k n); O(k n log k) for sparse.
    Source: Johnson and Lindenstrauss 1984; Achlioptas 2003; Kane and Nelson 2014; Ailon
        and Chazelle 2009.
    Claim: jl.families
    """
    _sketch_sizes(k, n)
    one_of(get_args(Family), family=family)
    sizes(1, s=s)
    require(
        family != "sparse" or s <= k,
        f"s must be at most k = {k}, got {s}: a column has k entries",
    )
    floating(dtype)
    place(device)
    random(generator)
    g = generator
    where = g.device
    if family == "gaussian":
        normal = torch.randn(k, n, generator=g, device=where, dtype=torch.float64)
        r = normal / math.sqrt(k)
    elif family == "rademacher":
        r = _signs((k, n), g) / math.sqrt(k)
    elif family == "achlioptas":
        face = torch.randint(6, (k, n), generator=g, device=where)
        entries = (face == 0).double() - (face == 1).double()
        r = entries * math.sqrt(3 / k)
    elif family == "sparse":
        places = torch.rand(k, n, generator=g, device=where, dtype=torch.float64)
        rows = places.argsort(0)[:s]
        entries = _signs((s, n), g) / math.sqrt(s)
        zero = torch.zeros(k, n, device=where, dtype=torch.float64)
        r = zero.scatter(0, rows, entries)
    else:
        signs, rows = _srht_draw(k, n, g)
        columns = torch.arange(n, device=where)
        r = signs * _sylvester(rows, columns) / math.sqrt(k)
    return r.to(device=device, dtype=dtype)


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
    """The random part of an SRHT: a sign for each column, and which k rows of the
    Hadamard matrix are kept.
    """
    signs = _signs((n,), g)
    rows = torch.randperm(_padded(n), generator=g, device=g.device)[:k]
    return signs, rows


def _padded(n: int) -> int:
    """The least power of two that is n or more."""
    return 1 << (n - 1).bit_length()


def _sylvester(rows: Tensor, columns: Tensor) -> Tensor:
    """Entries (-1)^(number of common binary digits of row and column) of Sylvester's
    matrix.
    """
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

    Cost: O(n log n) a row, in place of O(k n).
    Source: Ailon and Chazelle 2009; differs: rows are sampled, without replacement.
    """
    _rows(x, check)
    n = x.shape[-1]
    _sketch_sizes(k, n)
    random(generator)
    signs, rows = _srht_draw(k, n, generator)
    signed = x * signs.to(x)
    missing = _padded(n) - n
    product = hadamard(pad(signed, (0, missing)), check=False)
    kept = product[..., rows.to(x.device)]
    return kept / math.sqrt(k)


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

    Cost: n log2(n) additions a row.
    Source: Sylvester's construction.
    """
    _rows(x, check)
    n = x.shape[-1]
    require(
        n == _padded(n),
        f"rows of x: n must be a power of two, got {n}: pad with zeros, as srht does",
    )
    h = 1
    while h < n:
        left, right = x.unflatten(-1, (-1, 2, h)).unbind(-2)
        pairs = torch.stack([left + right, left - right], -2)
        x = pairs.flatten(-3)
        h *= 2
    return x


def _rows(x: Tensor, check: bool) -> None:
    is_tensor("x", x)
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

    Cost: O(1); a millisecond for a logarithm below -640.
    Source: the chi-square law of the squared norm; two incomplete gamma functions.
    Claim: jl.norm-law
    """
    is_a(bool, log=log)
    sizes(1, k=k)
    _share(eps)
    one_k = torch.tensor([float(k)], dtype=torch.float64, device="cpu")
    p = float(_failures(one_k, eps))
    if not log:
        return p
    if p > 1e-280:
        return math.log(p)
    # mpmath's floats have any exponent, so that nothing underflows.
    a = mpmath.mpf(k) / 2
    chance = mpmath.gammainc(a, a=a * (1 + eps), regularized=True)
    if eps < 1:
        chance += mpmath.gammainc(a, b=a * (1 - eps), regularized=True)
    return float(mpmath.log(chance))


def _share(eps: float, most: float = math.inf) -> None:
    numbers(eps=eps)
    require(0 < eps < most, f"eps must be positive and below {most:g}, got {eps}")


def _failures(k: Tensor, eps: float) -> Tensor:
    """failure_probability for several k at once, where no float is too small for it."""
    a = k / 2
    upper = torch.special.gammaincc(a, a * (1 + eps))
    if eps >= 1:
        return upper
    lower = torch.special.gammainc(a, a * (1 - eps))
    return upper + lower


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

    Cost: O(1).
    Source: the usual form of the lemma; the constant 2 for inner products is derived on
        the page.
    Claim: jl.tail
    """
    is_a(bool, sharp=sharp)
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
    most delta.

        exact:      least K with  union * failure_probability(k, eps) <= delta
                    for all k >= K
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

    Cost: O(1) for the bound; exact looks at every k from the bound down, about 10^7 a
        second.
    Source: the usual form of the lemma, and the law behind it.
    Claim: jl.floor
    """
    is_a(bool, exact=exact)
    _share(eps, 1.0)
    numbers(delta=delta)
    require(0 < delta < 1, f"delta must be between 0 and 1, got {delta}")
    sizes(1, union=union)
    logarithm = math.log(2 * union / delta)
    room = eps**2 - eps**3
    require(
        room * 2**53 > 4 * logarithm,
        f"eps must not ask for 2^53 dimensions or more, got {eps}",
    )
    k = math.ceil(4 * logarithm / room)
    if not exact:
        return k
    # The bound answers for this k and all larger ones. Below it we look for the largest
    # k that fails.
    while k > 1:
        first = max(1, k - BLOCK)
        block = torch.arange(first, k, dtype=torch.float64, device="cpu")
        fails = union * _failures(block, eps) > delta
        failing = block[fails]
        if len(failing):
            return int(failing[-1]) + 1
        k = first
    return k
