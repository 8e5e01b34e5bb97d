"""Spherical caps: how often two random directions are close, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def tail(t: Tensor, d: int) -> Tensor:
    """Chance that u . v > t for independent uniform unit vectors of R^d, |t| <= 1,
    float64; error below 1e-9 of it.

    The integral of sin^(d - 2) over [0, arccos t], by Simpson's rule where the
    integrand is not negligible.
    """
    t = t.double()
    if d == 1:  # u . v is 1 or -1, each with chance 1/2
        one = (t < 1).double()
        both = (t < -1).double()
        return (one + both) / 2
    if d == 2:
        return torch.acos(t) / math.pi
    end = torch.acos(t.abs())
    # The logarithm of the integrand is concave, and this is its slope at the end: below
    # `start` the integrand is less than e^-45 of its value there.
    slope = ((d - 2) / end.tan()).clamp_min(1e-9)
    start = (end - 45 / slope).clamp_min(0)
    length = end - start
    nodes = torch.linspace(0, 1, 1601, dtype=torch.float64)
    weights = torch.ones(1601, dtype=torch.float64)
    weights[1:-1:2] = 4
    weights[2:-1:2] = 2
    angles = start[..., None] + length[..., None] * nodes
    log_sines = angles.sin().clamp_min(1e-300).log()
    log_scale = math.lgamma(d / 2) - math.lgamma((d - 1) / 2)
    log_scale -= 0.5 * math.log(math.pi)
    values = ((d - 2) * log_sines + log_scale).exp()
    upper = (values * weights).sum(-1) * length / 4800
    return torch.where(t >= 0, upper, 1 - upper)


def smallest(expected: Callable[[int], float], goal: float) -> int:
    """The smallest d >= 1 with expected(d) <= goal, if expected falls with d."""
    low = 0
    high = 1
    while expected(high) > goal:
        low = high
        high = 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if expected(middle) > goal:
            low = middle
        else:
            high = middle
    return high


def mean_exponential(s: float, d: int) -> float:
    """E exp(s u) for a coordinate u of a uniform unit vector of R^d: sum of (s^2 / 4)^m
    / (m! (d / 2)_m).
    """
    term = total = 1.0
    m = 0
    while term > 1e-17 * total:
        term *= s * s / 4 / ((m + 1) * (d / 2 + m))
        total += term
        m += 1
    return total
