"""Between the chapters: numbers of one attention matrix that decide which theorem
speaks, and bounds that join two of them.

Page: notebooks/synthesis/five_theorems_one_matrix
"""

from __future__ import annotations

import math
from numbers import Real

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlib import _require
from attnlib._require import finite, require


def dobrushin(
    p: Float[Tensor, "*batch m n"], *, check: bool = True
) -> Float[Tensor, "*batch"]:
    """The coefficient of Dobrushin: the largest total variation between two rows.

        tau(P) = max_{i,j} 1/2 sum_k |P_ik - P_jk| = 1 - min_{i,j} sum_k min(P_ik, P_jk)

    It is the exact factor of the diameter: diam(P X) <= tau(P) diam(X) in every norm,
    and some X attains it.

    Args:
        p: (*batch, m, n), rows that sum to one.
        check: look at the rows.

    Returns:
        (*batch), from 0 (all rows equal) to 1 (two rows that never look at one token).

    Raises:
        ValueError: for integer p, no row, NaN, a negative entry, or a row that does not
            sum to one.

    Cost: O(m^2 n), in tiles; memory O(m^2).
    Source: Dobrushin 1956, recalled; the coefficient of ergodicity of a Markov chain.
    Claim: synthesis.logits, synthesis.depth
    """
    _stochastic(p, check)
    q = _wide(p)  # torch has no such distance in half precision
    distances = torch.cdist(q, q, p=1)
    return (distances.amax((-2, -1)) / 2).to(p.dtype)


def dobrushin_literal(p: Float[Tensor, "m n"]) -> Float[Tensor, ""]:
    """The same number pair by pair, by the overlaps: the literal twin of dobrushin.

        1 - min_{i,j} sum_k min(P_ik, P_jk)

    Args:
        p: (m, n), rows that sum to one.

    Returns:
        a number.

    Raises:
        ValueError: as dobrushin, and for a batch.

    Cost: O(m^2 n), in a loop.
    Source: the definition.
    """
    _stochastic(p, True)
    require(p.dim() == 2, f"p must be one matrix (m, n), got {tuple(p.shape)}")
    overlaps = []
    for one in p:
        for other in p:
            overlaps.append(torch.minimum(one, other).sum())
    return 1 - torch.stack(overlaps).min()


def rank_floor(
    p: Float[Tensor, "*batch m n"], *, check: bool = True
) -> Float[Tensor, "*batch n"]:
    """How far every matrix of rank r must stay from P in the largest absolute row sum,
    for r = 0, ..., n - 1.

        |P - B|_inf >= max(2 e_{r+1} - 1,  max_{j > r} (e_1 + ... + e_j - r) / (j + r))

    if rank B <= r, with e_1 >= ... >= e_n the largest entries of the columns of P.

    Args:
        p: (*batch, m, n), rows that sum to one.
        check: look at the rows.

    Returns:
        (*batch, n), at least 0, never rising with r.

    Raises:
        ValueError: as dobrushin.

    Cost: O(m n + n^2); half precision is computed in single and rounded down, so that a
        floor stays one.
    Source: derived on the page; diagonal dominance, and a trace as for perturbed
        identity matrices.
    Claim: synthesis.rank
    """
    _stochastic(p, check)
    n = p.shape[-1]
    e = _wide(p.amax(-2)).sort(-1, descending=True).values
    r = torch.arange(n, device=p.device)[:, None]
    j = torch.arange(1, n + 1, device=p.device)
    sums = e.cumsum(-1).unsqueeze(-2)
    traces = (sums - r) / (j + r)
    traces = torch.where(j > r, traces, 0).amax(-1)
    floor = torch.maximum(2 * e - 1, traces).clamp_min(0)
    return _rounded_down(floor, p.dtype)


def state_floor(
    p: Float[Tensor, "*batch m n"], *, bits: int = 1, check: bool = True
) -> Float[Tensor, "*batch n"]:
    """How far off some answer must be if a state has too few bits to hold the values of
    f tokens, for f = 1, ..., n.

        error >= (2 e_f - 1) / (2^b - 1)   if the state has fewer than f b bits

    with e_1 >= ... >= e_n the largest entries of the columns of P. A row of P is a
    question, its answer the mean of the values by the weights of the row; a value is
    any of 2^b equally spaced numbers from -1 to 1.

    Args:
        p: (*batch, m, n), rows that sum to one, a row for each question that may come.
        bits: b of a value, from 1 to 64.
        check: look at the rows.

    Returns:
        (*batch, n), entry f - 1 for f tokens, at least 0, never rising. So
        (state_floor(p, bits=b) > error).sum(-1) tokens must be held, b bits each.

    Raises:
        ValueError: as dobrushin, and for bits out of range.

    Cost: O(m n + n log n); half precision as in rank_floor.
    Source: derived on the page; pigeonholes, and the rest of a row against its top.
    Claim: after.cache
    Page: notebooks/what_came_after/cache
    """
    _stochastic(p, check)
    _require.sizes(1, bits=bits)
    require(bits <= 64, f"bits must be at most 64, got {bits}")
    e = _wide(p.amax(dim=-2)).sort(-1, descending=True).values
    steps = 2 ** int(bits) - 1  # from -1 to 1
    floor = (2 * e - 1).clamp_min(0) / steps
    return _rounded_down(floor, p.dtype)


def radius(
    logits: Float[Tensor, "*batch m n"], *, check: bool = True
) -> Float[Tensor, "*batch"]:
    """The logit radius: every row fits into an interval of length 2 R.

        R = max_i (max_j a_ij - min_j a_ij) / 2

    Args:
        logits: (*batch, m, n), no mask.
        check: look for NaN and infinity.

    Returns:
        (*batch).

    Raises:
        ValueError: for integers, no entry, NaN or infinity (a masked logit has no
            radius).

    Cost: O(m n).
    Source: the definition on the page.
    """
    _matrix("logits", logits)
    if check:
        finite(logits=logits)
    lengths = logits.amax(-1) - logits.amin(-1)
    return lengths.amax(-1) / 2


def critical_beta(
    logits: Float[Tensor, "*batch m n"],
    *,
    mask: Bool[Tensor, "..."] | None = None,
    check: bool = True,
) -> Float[Tensor, "*batch m"]:
    """The critical inverse temperature of each row: how strongly its logits must be
    multiplied before the largest one stands out.

        beta* = max_{j >= 2} ln(j) / g_(j)

    where g_(j) is the j-th smallest gap of the row to its largest logit, g_(1) = 0. For
    t = beta / beta* the largest weight of softmax(beta logits) is at least
    1 / (1 + 2^-t + ... + n^-t). A model's own logits have beta = 1, so that their
    sharpness is t = 1 / beta*: a large beta* is a dull row.

    Args:
        logits: (*batch, m, n); what is -inf is left out of its row.
        mask: boolean, True = may attend, broadcastable to the logits; what is False is
            left out as well.
        check: look for NaN, +inf and rows without an entry.

    Returns:
        (*batch, m), at least 0, in single precision for half: 0 for a row of one entry,
        inf where the largest logit is tied.

    Raises:
        ValueError: for integers, no entry, NaN or +inf, a mask that does not fit, or a
            row in which nothing is left.

    Cost: O(m n log n), a sort of each row.
    Source: derived on the page.
    Claim: after.sharpness
    """
    _matrix("logits", logits)
    logits = _wide(logits)
    if mask is not None:
        _require.pair_mask(mask, logits.shape, logits.device, check=check)
        logits = torch.where(mask, logits, -math.inf)
    top = logits.amax(-1, keepdim=True)
    if check:
        _rows_with_a_top(top)
    gaps = (top - logits).sort(-1).values[..., 1:]
    j = torch.arange(2, logits.shape[-1] + 1, device=logits.device)
    needed = j.to(gaps.dtype).log() / gaps
    none = torch.zeros_like(top)  # one entry stands out by itself
    return torch.cat([none, needed], -1).amax(-1)


def largest_dobrushin(n: int, r: float | int) -> float:
    """The largest coefficient that softmax can have on n tokens with logits of radius
    R, exactly.

        sinh 2R / (cosh 2R + c),   c = (k / (n - k) + (n - k) / k) / 2

    with k = floor(n / 2): for even n this is tanh R.

    Args:
        n: tokens, at least 2.
        r: the radius R, at least 0.

    Returns:
        a float in [0, 1]; never above tanh R.

    Raises:
        ValueError: for n < 2, a negative R or NaN.

    Cost: O(1).
    Source: derived on the page; tanh R alone also follows from the contraction theorem
        of Birkhoff and Hopf.
    Claim: synthesis.logits
    """
    _require.sizes(2, n=n)
    _require.is_a(Real, r=r)
    require(r >= 0, f"the radius r must be at least 0, got {r}")
    k = n // 2
    c = (k / (n - k) + (n - k) / k) / 2
    # Both sides of the fraction times 2 u: no power of e can overflow.
    u = math.exp(-2 * r)
    return (1 - u * u) / (1 + u * u + 2 * c * u)


def needed_radius(n: int, leak: float) -> float:
    """The least logit radius with which some row gives one of n tokens all but a share
    of its attention.

        R = 1/2 ln((1 - e) (n - 1) / e)

    Args:
        n: tokens, at least 2.
        leak: e in (0, 1), the share of all other tokens together.

    Returns:
        a float; 0 if equal logits already do it.

    Raises:
        ValueError: for n < 2 or a leak outside (0, 1).

    Cost: O(1).
    Source: the formula of softmax.
    Claim: synthesis.memory
    """
    _require.sizes(2, n=n)
    _require.numbers(leak=leak)
    require(0 < leak < 1, f"leak must lie in (0, 1), got {leak}")
    r = math.log((1 - leak) * (n - 1) / leak) / 2
    return max(0.0, r)


def cluster_logits(
    sets: Bool[Tensor, "m q"], c: int, r: float | int
) -> Float[Tensor, "n n"]:
    """Logits of radius R under which many tokens stay apart for long: q clusters of c
    tokens read themselves, and each of m other tokens reads the clusters of its set.

    The logits are R where a token reads and -R elsewhere. Clusters come first: token i
    belongs to cluster i // c for i < q c, and token q c + j has the j-th set.

    Args:
        sets: (m, q), True where a token reads a cluster.
        c: tokens of a cluster, at least 1.
        r: the radius R, at least 0.

    Returns:
        (n, n) in float64, n = q c + m.

    Raises:
        ValueError: for sets that are not boolean (m, q) or are empty, c < 1, or a
            negative R.

    Cost: O(n^2).
    Source: derived on the page.
    Claim: synthesis.many
    """
    _require.is_tensor("sets", sets)
    require(
        sets.dtype == torch.bool and sets.dim() == 2 and 0 not in sets.shape,
        f"sets must be boolean (m, q), not empty, got {sets.dtype} {tuple(sets.shape)}",
    )
    require(not sets.is_meta, "sets are on the device meta: it holds no values")
    _require.sizes(1, c=c)
    _require.numbers(r=r)
    require(r >= 0, f"the radius r must be at least 0, got {r}")
    m, q = sets.shape
    own = torch.eye(q, dtype=torch.bool, device=sets.device)
    rows = torch.cat(
        [own.repeat_interleave(c, 0), sets]
    )  # which clusters a token reads
    reads = torch.zeros(len(rows), len(rows), dtype=torch.bool, device=sets.device)
    reads[:, : q * c] = rows.repeat_interleave(c, 1)
    return r * (2 * reads.double() - 1)


def needed_bits(points: int, d: int = 1) -> float:
    """How many bits of resolution it takes to keep so many points apart in a box of d
    coordinates, exactly.

        log2(B / delta) >= log2(ceil(N^(1/d)) - 1)

    for N points of [0, B]^d, any two of them delta apart in some coordinate.

    Args:
        points: N, at least 2, a Python integer of any size.
        d: coordinates, at least 1.

    Returns:
        a float; a grid attains it.

    Raises:
        ValueError: for fewer than two points or no coordinate.

    Cost: one root of an integer.
    Source: pigeonholes; derived on the page.
    Claim: synthesis.counting
    """
    _require.sizes(2, points=points)
    _require.sizes(1, d=d)
    from sympy import integer_nthroot  # torch brings sympy

    root, _ = integer_nthroot(points - 1, d)  # rounded down: ceil(N^(1/d)) - 1
    return math.log2(root)


def _wide(p: Tensor) -> Tensor:
    """Half precision as single, all else as it is."""
    return p.float() if p.dtype in (torch.bfloat16, torch.float16) else p


def _rounded_down(floor: Tensor, dtype: torch.dtype) -> Tensor:
    """A floor in another type: where the nearest number of it lies above, the one
    below.
    """
    near = floor.to(dtype)
    eps = torch.finfo(dtype).eps
    below = (floor * (1 - eps)).to(dtype)
    return torch.where(near > floor, below, near)


def _matrix(name: str, p) -> None:
    """A floating tensor (*batch, m, n) with at least one entry."""
    _require.is_tensor(name, p)
    require(
        p.is_floating_point(),
        f"{name} must be floating point, got {p.dtype}: cast it first",
    )
    require(
        p.dim() >= 2 and 0 not in p.shape,
        f"{name} must be (*batch, m, n), not empty, got {tuple(p.shape)}",
    )


def _rows_with_a_top(top: Tensor) -> None:
    """The largest logit of each row is a finite number."""
    require(not top.is_meta, "logits are on the device meta: it holds no values")
    require(
        not bool((top.isnan() | (top == math.inf)).any()),
        "logits hold NaN or +inf; only -inf is allowed: an entry that is left out",
    )
    empty = int((top == -math.inf).sum())
    require(
        empty == 0,
        f"logits and mask leave {empty} rows without an entry: P 1 = 1 cannot hold",
    )


def _stochastic(p, check: bool) -> None:
    """Rows that are probabilities, up to n eps each."""
    _matrix("p", p)
    if not check:
        return
    finite(p=p)
    p = p.detach()
    least = float(p.min())
    require(
        least >= 0,
        f"p must not be negative: attention weights are probabilities, got {least:.3g}",
    )
    sums = p.double().sum(-1)
    off = float((sums - 1).abs().max())
    most = 4 * p.shape[-1] * torch.finfo(p.dtype).eps
    require(
        off <= most,
        f"rows of p must sum to one (P 1 = 1), got a row that is off by {off:.3g}",
    )
