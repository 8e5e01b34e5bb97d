"""Gaps of context ids against temperature, certified; ids that floats lose; heads,
depth and rank.

Predictions: the gap has a flat top near beta var(z) = 0.3 and falls like e^(-rho)
beyond 3; float64 keeps all ids below 3; mean pooling keeps them on generic tokens and
loses most on a grid; H numbers in place of one give gaps of order N^(-2/H).
"""

from __future__ import annotations

import math
import time
from itertools import combinations

import numpy as np
import store
import torch
from flint import arb, ctx

from attnlib.memorize import choose_projection, context_ids, data_scale, smallest_gap

SEEDS = [0, 1, 2]
BETAS = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0]
DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
}
ONE = torch.ones(1, dtype=torch.float64)


def gaussian(count: int, seed: int, d: int = 16, best_of: int = 200) -> torch.Tensor:
    """Gaussian tokens along a verified direction, with unit standard deviation."""
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randn(count, d, dtype=torch.float64, generator=g)
    z = tokens @ choose_projection(tokens, generator=g, best_of=best_of).v
    return z / z.std()


def random_sets(
    count: int, n: int, wanted: int, seed: int, neighbours: bool = False
) -> np.ndarray:
    """Different sorted n-sets; with neighbours, every second one differs from the one
    before in one token.
    """
    rng, found = np.random.default_rng(seed), {}
    while len(found) < wanted:
        some = rng.random((wanted, count)).argsort(1)[:, :n]
        if neighbours:
            other = some.copy()
            for old, row in zip(some, other):
                row[0] = rng.choice(np.setdiff1d(np.arange(count), old))
            some = np.stack([some, other], 1).reshape(-1, n)
        found.update((tuple(row), None) for row in np.sort(some, 1).tolist())
    return np.array(list(found)[:wanted])


def contexts(z, sets, beta, dtype=torch.float64, normalizer="softmax"):
    x = z[torch.from_numpy(sets)].unsqueeze(-1).to(dtype)
    return context_ids(x, ONE.to(dtype), beta, normalizer=normalizer, check=False)


def kept(z, sets, beta, dtype=torch.float64, normalizer="softmax", w=None) -> int:
    """Different pairs (token, context id), or different numbers z + w f."""
    ids = contexts(z, sets, beta, dtype, normalizer)
    return (
        smallest_gap(ids.context, torch.from_numpy(sets))
        if w is None
        else smallest_gap(ids.token + w * ids.context)
    ).distinct


def certified_gap(z: list, sets: np.ndarray, beta: float) -> float:
    """log10 of a certified lower bound of the smallest gap between ids of one token; z:
    floats or balls.
    """
    z = [arb(v) for v in z]
    far = [abs(float(v)) for v in z]
    ctx.prec = int(
        300 + 2 * beta * max(far) * (max(far) + far[0] + far[-1]) / math.log(2)
    )
    least = None
    for c in range(len(z)):
        top = max((arb(beta) * z[c] * v for v in z), key=float)
        e = [(arb(beta) * z[c] * v - top).exp() for v in z]
        ez = [a * b for a, b in zip(e, z)]
        rows = sets[(sets == c).any(1)].tolist()
        f = sorted(
            (
                sum((ez[k] for k in r), arb(0)) / sum((e[k] for k in r), arb(0))
                for r in rows
            ),
            key=lambda v: v.mid(),
        )
        for a, b in zip(f, f[1:]):
            step = (b - a).lower()
            assert step > 0, "more bits are needed"
            least = step if least is None or step < least else least
    return float(least.log().mid()) / math.log(10)


def temperature() -> dict:
    """16,000 pairs (token, set) at each temperature: 32 tokens, 1000 sets of 16, half
    of them one-token neighbours.
    """
    out = {
        "log10_gap": [],
        **{name: [] for name in DTYPES},
        "sparsemax": [],
        "hardmax": [],
    }
    for seed in SEEDS:
        z, sets = gaussian(32, seed), random_sets(32, 16, 1000, seed, neighbours=True)
        out["log10_gap"].append(
            [certified_gap(z.tolist(), sets, beta) for beta in BETAS]
        )
        for name, dtype in DTYPES.items():
            out[name].append([kept(z, sets, beta, dtype) for beta in BETAS])
        out["sparsemax"].append(
            [kept(z, sets, beta, normalizer="sparsemax") for beta in BETAS]
        )
        out["hardmax"].append(kept(z, sets, 1.0, normalizer="hardmax"))
        print("temperature", seed, {k: v[-1] for k, v in out.items()}, flush=True)
    return out


def exhaustive() -> list[dict]:
    """All n-sets of tokens equispaced in [1, 2]: the guaranteed temperature against the
    one with the largest gap.
    """
    rows = []
    for count, n in ((4, 3), (6, 3), (8, 4), (16, 8)):
        z = torch.tensor(
            [1 + k / (count - 1) for k in range(count)], dtype=torch.float64
        )
        sets = np.array(list(combinations(range(count), n)))
        scale = data_scale(z, n)
        grid = torch.logspace(-3, 0.5, 36, dtype=torch.float64).tolist()
        best = max(
            grid,
            key=lambda b: (
                smallest_gap(
                    contexts(z, sets, b).context, torch.from_numpy(sets)
                ).smallest
            ),
        )
        rows.append(
            {
                "count": count,
                "n": n,
                "ids": int(sets.size),
                "beta": scale.beta,
                "log10_bound": scale.log10_gap,
                "log10_gap": certified_gap(z.tolist(), sets, scale.beta),
                "float64": kept(z, sets, scale.beta),
                "best_beta": best,
                "best_log10_gap": certified_gap(z.tolist(), sets, best),
                "best_float32": kept(z, sets, best, torch.float32),
            }
        )
        print(rows[-1], flush=True)
    return rows


def lost() -> list[dict]:
    """Ids lost of 16 N: 64 tokens, Gaussian along a verified direction or equispaced;
    pairs, and single numbers z + f.
    """
    rows = []
    for seed in SEEDS:
        for kind, z in (
            ("gauss", gaussian(64, seed)),
            ("grid", torch.linspace(-1.7, 1.7, 64, dtype=torch.float64)),
        ):
            for count in (1000, 10_000, 100_000):
                sets = random_sets(64, 16, count, seed)
                sums = np.unique(
                    np.stack(
                        [sets, np.broadcast_to(sets.sum(1, keepdims=True), sets.shape)],
                        -1,
                    ).reshape(-1, 2)
                    @ [100_000, 1]
                )
                for beta in (
                    (0.0, 0.3, 3.0, 10.0) if count < 100_000 else (0.0, 0.3, 10.0)
                ):
                    for name, dtype in DTYPES.items():
                        pairs = sets.size - kept(z, sets, beta, dtype)
                        single = (
                            sets.size - kept(z, sets, beta, dtype, w=1.0)
                            if name == "float64"
                            else None
                        )
                        rows.append(
                            {
                                "seed": seed,
                                "kind": kind,
                                "N": count,
                                "beta": beta,
                                "dtype": name,
                                "lost": pairs,
                                "lost_single": single,
                            }
                        )
                # mean pooling without rounding: tokens are numbers, means their sums
                if kind == "grid":
                    rows.append(
                        {
                            "seed": seed,
                            "kind": kind,
                            "N": count,
                            "beta": 0.0,
                            "dtype": "exact",
                            "lost": sets.size - len(sums),
                            "lost_single": None,
                        }
                    )
                print(rows[-1], flush=True)
    return rows


def smallest_distance(points: torch.Tensor) -> float:
    """The smallest distance in the largest coordinate, by a sweep along the first
    one.
    """
    points, least = points[points[:, 0].argsort()], math.inf
    for shift in range(1, len(points)):
        steps = points[shift:] - points[:-shift]
        if steps[:, 0].min() >= least:
            break
        least = min(least, float(steps.abs().amax(1).min()))
    return least


def readings(
    tokens, sets, how: str, g: torch.Generator, beta: float = 0.3
) -> torch.Tensor:
    """What one token reads of its sequence, a column a number, in units of its standard
    deviation.
    """
    directions = iter(
        lambda: (lambda v: v / v.norm())(
            torch.randn(tokens.shape[1], dtype=torch.float64, generator=g)
        ),
        None,
    )
    x = tokens[torch.from_numpy(sets)]

    def head(x):
        v = next(directions)
        v = v / (tokens @ v).std()
        return context_ids(x, v, beta, check=False).context, v

    if how.endswith("heads"):
        f = [head(x)[0][:, 0] for _ in range(int(how.split()[0]))]
    elif how == "2 layers":
        first, v = head(x)
        f = [first[:, 0], head(x + first.unsqueeze(-1) * v)[0][:, 0]]
    else:  # rank 2: one softmax, two directions of values
        v, u = next(directions), next(directions)
        z, y = x @ v / (tokens @ v).std(), x @ u
        p = torch.softmax(beta * z[:, :1] * z, -1)
        f = [(p * z).sum(-1), (p * y).sum(-1)]
    f = torch.stack(f, 1)
    return f / f.std(0)


def several(repeats: int = 9) -> dict:
    """Smallest gap among N sets that share a token, for several heads, two layers, and
    values of rank two.
    """
    out = {}
    for how in ("1 heads", "2 heads", "4 heads", "2 layers", "rank 2"):
        for count in (300, 3000, 30_000):
            found = []
            for seed in range(repeats):
                g = torch.Generator().manual_seed(1000 * seed + count)
                tokens = torch.randn(64, 16, dtype=torch.float64, generator=g)
                others = 1 + random_sets(63, 15, count, seed)
                sets = np.concatenate([np.zeros((count, 1), int), others], 1)
                found.append(smallest_distance(readings(tokens, sets, how, g)))
            out.setdefault(how, {})[str(count)] = sorted(found)
        print(how, {k: v[repeats // 2] for k, v in out[how].items()}, flush=True)
    return out


def main() -> None:
    torch.set_num_threads(1)
    began, result = time.process_time(), {"betas": BETAS}
    for part in (exhaustive, temperature, several, lost):
        result[part.__name__] = part()
        print(part.__name__, round(time.process_time() - began), flush=True)
    settings = {
        "seeds": SEEDS,
        "temperature": "32 tokens, 1000 sets of 16",
        "lost": "64 tokens, sets of 16",
        "several": "64 tokens, sets of 16, beta 0.3, 9 draws",
    }
    store.write(
        "context_ids", result, settings=settings, seconds=time.process_time() - began
    )


if __name__ == "__main__":
    main()
