"""Between the chapters: numbers of one attention matrix that decide which theorem
speaks, and bounds that join two of them.

    tau(P) = max_{i,j} 1/2 sum_k |P_ik - P_jk|

is `max((P[i] - P[j]).abs().sum() / 2)` over all rows i and j, and so on: a function of
matrices takes a batch of them.

Page: notebooks/synthesis/five_theorems_one_matrix
"""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad, pdist

from attnlib import _require
from attnlib._require import finite, require, widened

FEW = 256  # rows whose pairs dobrushin_between compares


def dobrushin(
    p: Float[Tensor, "*batch m n"], *, check: bool = True
) -> Float[Tensor, "*batch"]:
    """The coefficient of Dobrushin: the largest total variation between two rows.

        tau(P) = max_{i,j} 1/2 sum_k |P_ik - P_jk| = 1 - min_{i,j} sum_k min(P_ik, P_jk)

    It is the exact factor of the diameter: diam(P X) <= tau(P) diam(X) in every norm,
    and some X attains it.

    Args:
        p: rows that sum to one.
        check: look at the rows.

    Cost: each pair of rows once, O(m^2 n).
    Source: Dobrushin 1956, recalled; the coefficient of ergodicity of a Markov chain.
    Claim: synthesis.logits, synthesis.depth
    """
    _stochastic(p, check)
    if p.shape[-2] == 1:
        return p.new_zeros(p.shape[:-2])
    q = widened(p)  # torch has no such distance in half precision
    largest = [pdist(one, 1).amax() for one in q.reshape(-1, *p.shape[-2:])]
    return (torch.stack(largest) / 2).reshape(p.shape[:-2]).to(p.dtype)


def dobrushin_between(
    p: Float[Tensor, "m n"], *, check: bool = True
) -> tuple[float, float]:
    """Two numbers with the coefficient of Dobrushin between them, without a look at
    every pair of rows.

    They are equal if some row is all on one token c, as the first row under a causal
    mask is. They are equal as well if the lower one is at most 0.99 and few rows are
    far enough from the mean row m to be part of a better pair.

        tau = 1 - min_i P_ic                                 if P_rc = 1 for a row r
        TV(r, i) <= tau <= min(1 - sum_k min_i P_ik,  2 max_i TV(m, P_i))

    where r is the row farthest from the one that is farthest from m. In the first case
    sum_k min(P_ik, P_jk) >= min(P_ic, P_jc) for all rows i and j, and the pair of r and
    the row with least P_ic attains it. In the second, TV(P_i, P_j) is at most
    TV(m, P_i) + TV(m, P_j).

    Args:
        p: rows that sum to one.
        check: look at the rows.

    Cost: O(m n), and of the pairs of FEW rows at most.
    Source: derived; the second bound is Doeblin's.
    """
    _stochastic(p, check)
    require(p.dim() == 2, f"p must be one matrix (m, n), got {tuple(p.shape)}")
    p = widened(p.detach())
    tops = p.amax(-1)
    row = int(tops.argmax())
    if tops[row] == 1:
        tau = 1 - float(p[:, p[row].argmax()].min())
        return tau, tau

    def apart(row: Tensor) -> Tensor:
        return (p - row).abs().sum(-1) / 2

    from_mean = apart(p.mean(-2))
    far = apart(p[from_mean.argmax()])
    low = float(apart(p[far.argmax()]).amax().maximum(far.amax()))
    farthest = float(from_mean.amax())
    better = from_mean + farthest > low
    count = int(better.sum())
    if low <= 0.99 and 1 < count <= FEW:
        low = max(low, float(dobrushin(p[better], check=False)))
    if count < 2 or (low <= 0.99 and count <= FEW):
        return low, low
    doeblin = 1 - float(p.amin(-2).sum())
    return low, max(low, min(doeblin, 2 * farthest))


def rank_floor(
    p: Float[Tensor, "*batch m n"], *, rank: int | None = None, check: bool = True
) -> Float[Tensor, "*batch ranks"]:
    """How far every matrix of rank r must stay from P in the largest absolute row sum,
    for r = 0, ..., n - 1, or for one of them.

        |P - B|_inf >= max(2 e_{r+1} - 1,  max_{j > r} (e_1 + ... + e_j - r) / (j + r))

    if rank B <= r, with e_1 >= ... >= e_n the largest entries of the columns of P.

    Args:
        p: rows that sum to one.
        rank: r below n, None for all.
        check: look at the rows.

    Returns:
        (*batch, n), or (*batch, 1) for one rank.

    Source: derived on the page; diagonal dominance, and a trace as for perturbed
        identity matrices.
    Claim: synthesis.rank
    """
    _stochastic(p, check)
    n = p.shape[-1]
    e = _tops_of_columns(p)
    r = torch.arange(n, device=p.device)[:, None]
    if rank is not None:
        _require.sizes(0, rank=rank)
        require(rank < n, f"rank must be below n = {n}, got {rank}")
        r = r[rank : rank + 1]
    j = torch.arange(1, n + 1, device=p.device)
    sums = e.cumsum(-1).unsqueeze(-2)
    traces = (sums - r) / (j + r)
    traces = torch.where(j > r, traces, 0).amax(-1)
    floor = torch.maximum(2 * e[..., r[:, 0]] - 1, traces).clamp_min(0)
    return _rounded_down(floor, p.dtype)


def state_floor(
    p: Float[Tensor, "*batch m n"], *, bits: int = 1
) -> Float[Tensor, "*batch n"]:
    """How far off some answer must be if a state has too few bits to hold the values of
    f tokens, for f = 1, ..., n.

        error >= (2 e_f - 1) / (2^b - 1)   if the state has fewer than f b bits

    with e_1 >= ... >= e_n the largest entries of the columns of P. A row of P is a
    question that may come, its answer the mean of the values by the weights of the row;
    a value is any of 2^b equally spaced numbers from -1 to 1. So
    (state_floor(p, bits=b) > error).sum(-1) tokens must be held, b bits each.

    Args:
        p: rows that sum to one.
        bits: b, from 1 to 64.

    Source: derived on the page; pigeonholes, and the rest of a row against its top.
    Claim: after.cache
    Page: notebooks/what_came_after/cache
    """
    _stochastic(p, True)
    _require.sizes(1, bits=bits)
    require(bits <= 64, f"bits must be at most 64, got {bits}")
    e = _tops_of_columns(p)
    steps = 2 ** int(bits) - 1  # from -1 to 1
    floor = (2 * e - 1).clamp_min(0) / steps
    return _rounded_down(floor, p.dtype)


def radius(
    logits: Float[Tensor, "*batch m n"], *, check: bool = True
) -> Float[Tensor, "*batch"]:
    """The logit radius: every row fits into an interval of length 2 R.

        R = max_i (max_j a_ij - min_j a_ij) / 2

    Args:
        check: look for NaN and infinity: a masked logit has no radius.
    """
    _matrix("logits", logits)
    if check:
        finite(logits=logits)
    lengths = logits.amax(-1) - logits.amin(-1)
    return lengths.amax(-1) / 2


def critical_beta(
    logits: Float[Tensor, "*batch m n"], *, mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*batch m"]:
    """The critical inverse temperature of each row: how strongly its logits must be
    multiplied before the largest one stands out.

        beta* = max_{j >= 2} ln(j) / g_(j)

    where g_(j) is the j-th smallest gap of the row to its largest logit, g_(1) = 0. For
    t = beta / beta* the largest weight of softmax(beta logits) is at least
    1 / (1 + 2^-t + ... + n^-t). A model's own logits have beta = 1, so that their
    sharpness is t = 1 / beta*: a large beta* is a dull row.

    Args:
        logits: what is -inf is left out of its row.
        mask: True = may attend, broadcastable to the logits; what is False is left out
            as well.

    Returns:
        at least 0, in single precision for half: 0 for a row of one entry, inf where
        the largest logit is tied.

    Source: derived on the page.
    Claim: after.sharpness
    Page: notebooks/what_came_after/sharpness
    """
    _matrix("logits", logits)
    logits = widened(logits)
    if mask is not None:
        _require.pair_mask(mask, logits.shape, logits.device)
        logits = torch.where(mask, logits, -math.inf)
    top = logits.amax(-1, keepdim=True)
    require(not top.is_meta, "logits are on the device meta: it holds no values")
    require(
        torch.isfinite(top).all(),
        "logits must have a finite number at the top of each row: no NaN or +inf, and "
        "not all left out by -inf and mask (P 1 = 1 cannot hold)",
    )
    return _critical_beta(_sorted(logits))


def _critical_beta(rising: Tensor) -> Tensor:
    """critical_beta of logits whose rows rise, unchecked."""
    top = rising[..., -1:]
    gaps = top - rising[..., :-1]
    j = torch.arange(rising.shape[-1], 1, -1, device=rising.device)
    needed = j.to(gaps.dtype).log() / gaps
    none = torch.zeros_like(top)  # one entry stands out by itself
    return torch.cat([none, needed], -1).amax(-1)


def largest_dobrushin(n: int, r: float) -> float:
    """The largest coefficient that softmax can have on n tokens with logits of radius
    R, exactly.

        sinh 2R / (cosh 2R + c),   c = (k / (n - k) + (n - k) / k) / 2

    with k = floor(n / 2): for even n this is tanh R, and it is never more.

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
    e of its attention; 0 if equal logits already do it.

        R = 1/2 ln((1 - e) (n - 1) / e)

    Args:
        leak: e in (0, 1), the share of all other tokens together.

    Claim: synthesis.memory
    """
    _require.sizes(2, n=n)
    _require.numbers(leak=leak)
    require(0 < leak < 1, f"leak must lie in (0, 1), got {leak}")
    r = math.log((1 - leak) * (n - 1) / leak) / 2
    return max(0.0, r)


def cluster_logits(sets: Bool[Tensor, "m q"], c: int, r: float) -> Float[Tensor, "n n"]:
    """Logits of radius R under which many tokens stay apart for long: q clusters of c
    tokens read themselves, and each of m other tokens reads the clusters of its set.

    The logits are R where a token reads and -R elsewhere. Clusters come first: token i
    belongs to cluster i // c for i < q c, and token q c + j has the j-th set.

    Args:
        sets: True where a token reads a cluster.
        c: tokens of a cluster.

    Returns:
        in float64, n = q c + m.

    Source: derived on the page.
    Claim: synthesis.many
    """
    _require.is_tensor("sets", sets)
    require(
        sets.dtype == torch.bool and sets.dim() == 2 and 0 not in sets.shape,
        f"sets must be boolean (m, q), not empty, got {sets.dtype} {tuple(sets.shape)}",
    )
    finite(sets=sets)  # of no values otherwise
    _require.sizes(1, c=c)
    _require.numbers(r=r)
    require(r >= 0, f"the radius r must be at least 0, got {r}")
    m, q = sets.shape
    own = torch.eye(q, dtype=torch.bool, device=sets.device)
    clusters = torch.cat([own.repeat_interleave(c, 0), sets])  # that a token reads
    reads = pad(clusters.repeat_interleave(c, 1), (0, m))
    return r * (2 * reads.double() - 1)


def needed_bits(points: int, d: int = 1) -> float:
    """How many bits of resolution it takes to keep so many points apart in a box of d
    coordinates, exactly: a grid attains it.

        log2(B / delta) >= log2(ceil(N^(1/d)) - 1)

    for N points of [0, B]^d, any two of them delta apart in some coordinate.

    Args:
        points: N, at least 2, a Python integer of any size.

    Source: pigeonholes; derived on the page.
    Claim: synthesis.counting
    """
    _require.sizes(2, points=points)
    _require.sizes(1, d=d)
    from sympy import integer_nthroot  # torch brings sympy

    root, _ = integer_nthroot(points - 1, d)  # rounded down: ceil(N^(1/d)) - 1
    return math.log2(root)


def _sorted(t: Tensor) -> Tensor:
    """Each row in rising order; where nobody asks for gradients by numpy, whose sort is
    twenty times as fast as torch's, which also sorts the places.
    """
    plain = type(t) is Tensor and t.device.type == "cpu" and not t.requires_grad
    if plain and not torch.compiler.is_compiling():
        return torch.from_numpy(np.sort(t.numpy(), -1))
    return t.sort(-1).values


def _tops_of_columns(p: Tensor) -> Tensor:
    """The largest entry of each column, in falling order."""
    return widened(p.amax(-2)).sort(-1, descending=True).values


def _rounded_down(floor: Tensor, dtype: torch.dtype) -> Tensor:
    """A floor in another type is the number of it below, so that it stays a floor."""
    near = floor.to(dtype)
    below = (floor * (1 - torch.finfo(dtype).eps)).to(dtype)
    return torch.where(near > floor, below, near)


def _matrix(name: str, p) -> None:
    """A floating tensor (*batch, m, n) with at least one entry."""
    _require.is_floating(name, p)
    require(
        p.dim() >= 2 and 0 not in p.shape,
        f"{name} must be (*batch, m, n), not empty, got {tuple(p.shape)}",
    )


def _stochastic(p, check: bool) -> None:
    """Rows that are probabilities, up to 4 n eps each."""
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
    off = float((p.double().sum(-1) - 1).abs().max())
    require(
        off <= 4 * p.shape[-1] * torch.finfo(p.dtype).eps,
        f"rows of p must sum to one (P 1 = 1), got a row that is off by {off:.3g}",
    )
