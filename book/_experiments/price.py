"""Spherical codes found by descent, random codes, and logits found by gradient descent,
for 64 tokens.
"""

from __future__ import annotations

import math
import time

import store
import torch
from torch.nn.functional import normalize

from attnlib.codes import coherence, margins

N, T, RATIO = 64, math.log(10), math.log(1.5)
DIMENSIONS = [3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 31]
RANDOM = [2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64]
STEPS = {"code": 1500, "logits": 3000}


def best_code(d: int, seed: int) -> float:
    """1 / (1 - mu) of a code found by descent on a smooth maximum of the inner
    products; in float64.
    """
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(N, d, generator=g, dtype=torch.float64).requires_grad_()
    optimiser, best = torch.optim.Adam([x], lr=0.03), math.inf
    for t in range(STEPS["code"]):
        left = 1 - t / STEPS["code"]
        optimiser.param_groups[0]["lr"] = 0.03 * left + 1e-4
        k = normalize(x, dim=1)
        products = (k @ k.T).fill_diagonal_(-2)
        most = float(products.detach().max())
        best = min(best, 1 / (1 - most))
        b = min(3e4, (70 - 60 * left) / max(1e-4, 1 - most))
        optimiser.zero_grad()
        (torch.logsumexp(b * products.flatten(), 0) / b).backward()
        optimiser.step()
    return best


def random_codes(d: int, draws: int = 201) -> list[float]:
    """Quartiles of 1 / (1 - mu) over random unit keys."""
    g = torch.Generator().manual_seed(d)
    keys = (
        normalize(torch.randn(N, d, generator=g, dtype=torch.float64), dim=1)
        for _ in range(draws)
    )
    return (
        torch.tensor([1 / (1 - coherence(k)) for k in keys], dtype=torch.float64)
        .quantile(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64))
        .tolist()
    )


def patterns(k: int, count: int = 3) -> torch.Tensor:
    """Relabelled circulants, k ones in each row and column."""
    g, out = torch.Generator().manual_seed(100 + k), []
    for _ in range(count):
        label, shifts, rows = (
            torch.randperm(N, generator=g),
            torch.randperm(N, generator=g)[:k],
            torch.randperm(N, generator=g),
        )
        out.append(label[(rows[:, None] + shifts) % N])
    return torch.stack(out)


def descend(k: int, d: int, s: float) -> bool:
    """Whether descent finds unit keys and queries of norm s for one of three patterns,
    equal weights, ratios to 1.5.
    """
    columns = patterns(k)
    g = torch.Generator().manual_seed(d)
    x = torch.randn(len(columns), N, d, generator=g, dtype=torch.float64)
    start = torch.stack([a[c].sum(1) for a, c in zip(normalize(x, dim=2), columns)])
    x, y = x.requires_grad_(), start.clone().requires_grad_()
    mask = torch.zeros(len(columns), N, N, dtype=torch.bool).scatter_(2, columns, True)
    optimiser = torch.optim.Adam([x, y], lr=0.03)
    for t in range(STEPS["logits"]):
        optimiser.param_groups[0]["lr"] = 0.03 * (1 - t / STEPS["logits"]) + 1e-4
        keys, q = normalize(x, dim=2), s * normalize(y, dim=2)
        logits = q @ keys.mT
        own = logits.gather(2, columns)
        over = (
            (logits - own.amin(2, keepdim=True) + T + 0.002).relu().masked_fill(mask, 0)
        )
        spread = (own.amax(2) - own.amin(2) - RATIO + 0.002).relu()
        optimiser.zero_grad()
        (over.square().sum((1, 2)) + spread.square().sum(1)).sum().backward()
        optimiser.step()
        if t % 100 == 99:
            for q_one, k_one, c in zip(q.detach(), keys.detach(), columns):
                own = (q_one @ k_one.T).gather(1, c)
                if (
                    margins(q_one, k_one, c).min() >= T
                    and (own.amax(1) - own.amin(1)).max() <= RATIO
                ):
                    return True
    return False


def constructed(k: int, d: int, s: float, draws: int = 10) -> bool:
    """Whether one of the random draws serves: unit keys, interpolating queries scaled
    to the norm s; the same patterns.
    """
    g = torch.Generator().manual_seed(d)
    for c in patterns(k):
        for _ in range(draws):
            keys = normalize(torch.randn(N, d, generator=g, dtype=torch.float64), dim=1)
            own = keys[c]
            q = (own.mT @ torch.linalg.pinv(own @ own.mT).sum(-1, keepdim=True))[..., 0]
            if margins(s / q.norm(dim=1).max() * q, keys, c).min() >= T:
                return True
    return False


def least(works, start: int) -> int:
    d = start
    while not works(d):
        d += 1
    return d


def main() -> None:
    torch.set_num_threads(1)
    began = time.process_time()
    norms = [6.0, 12.0, 25.0, 50.0]
    result = {
        "codes": {
            str(d): min(best_code(d, seed) for seed in (0, 1)) for d in DIMENSIONS
        },
        "random": {str(d): random_codes(d) for d in RANDOM},
        "norms": norms,
        "descent": {},
        "constructed": {},
    }
    for k in (1, 2, 4):
        found = [
            least(lambda d, s=s, k=k: descend(k, d, s), 2 if k < 4 else 4)
            for s in norms
        ]
        result["descent"][str(k)] = found
        result["constructed"][str(k)] = [
            least(lambda d, s=s, k=k: constructed(k, d, s), k + 1) for s in norms
        ]
        print(
            k,
            found,
            result["constructed"][str(k)],
            round(time.process_time() - began),
            flush=True,
        )
    settings = {"n": N, "eps_1": 0.1, "eps_2": 0.5, "steps": STEPS, "patterns": 3}
    store.write("price", result, settings=settings, seconds=time.process_time() - began)


if __name__ == "__main__":
    main()
