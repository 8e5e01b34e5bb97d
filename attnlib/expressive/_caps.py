"""Spherical caps: how often two random directions are close, and what that costs."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def tail(t: Tensor, d: int) -> Tensor:
    """Chance that u . v > t for independent uniform unit vectors of R^d, |t| <= 1,
    float64; error below 1e-9 of it.

    The integral of sin^(d - 2) over [0, arccos t], by Simpson's rule where the
    integrand is not negligible.
    """
    t = t.double()
    if d == 1:
        return torch.where(t < -1, 1.0, torch.where(t < 1, 0.5, 0.0)).double()
    if d == 2:
        return torch.acos(t) / math.pi
    end = torch.acos(t.abs())
    start = (end - 45 / ((d - 2) / end.tan()).clamp_min(1e-9)).clamp_min(0)
    nodes = torch.linspace(0, 1, 1601, dtype=torch.float64)
    weights = torch.ones(1601, dtype=torch.float64)
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    angles = start[..., None] + (end - start)[..., None] * nodes
    scale = math.lgamma(d / 2) - math.lgamma((d - 1) / 2) - 0.5 * math.log(math.pi)
    values = ((d - 2) * angles.sin().clamp_min(1e-300).log() + scale).exp()
    upper = (values * weights).sum(-1) * (end - start) / 4800
    return torch.where(t >= 0, upper, 1 - upper)


def smallest(expected, goal: float) -> int:
    """The smallest d >= 1 with expected(d) <= goal, for a function that falls with
    d.
    """
    low, high = 0, 1
    while expected(high) > goal:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if expected(middle) > goal else (low, middle)
    return high


def mean_exponential(s: float, d: int) -> float:
    """E exp(s u) for a coordinate u of a uniform unit vector of R^d: sum of (s^2 / 4)^m
    / (m! (d / 2)_m).
    """
    term = total = 1.0
    m = 0
    while term > 1e-17 * total:
        term *= s * s / 4 / ((m + 1) * (d / 2 + m))
        total, m = total + term, m + 1
    return total
