"""Tokens on a circle, iterated: one layer learns to push two tokens a step along a
circle, and is then run in a loop.

    python circle.py

runs the sizes below on one CPU thread, for about 2 minutes, and writes circle.json.
"""

from __future__ import annotations

import argparse
import math
import sys
import time

import store
import torch
from torch import Tensor
from tqdm import tqdm

from attnlib.attention import Layer, forward, random_layers

RADIUS, POINTS, HEADS, WIDTH, BATCH, STEPS, RATE, LOOPS, SEEDS = (
    0.3,
    100,
    2,
    32,
    64,
    2000,
    3e-3,
    300,
    5,
)
STARTS = {"near": 36, "opposite": 180}  # degrees between the two tokens
VARIANTS = ("pure", "skip", "MLP")


def pairs(count: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two points of the circle, independent of each other, and both one step further
    on.
    """
    angle = 2 * math.pi * torch.rand(count, 2, generator=g)

    def at(a):
        return RADIUS * torch.stack([a.cos(), a.sin()], -1)

    return at(angle), at(angle + 2 * math.pi / POINTS)


def weights(variant: str, g: torch.Generator) -> dict[str, Tensor]:
    """Embedding, one layer with biases, readout; for MLP also two dense maps of the
    same width.
    """

    def normal(*size):
        return torch.randn(*size, generator=g) / math.sqrt(size[0])

    zero = torch.zeros
    w = {
        "in": normal(2, WIDTH),
        "in bias": zero(WIDTH),
        "out": normal(WIDTH, 2),
        "out bias": zero(2),
    }
    layer = random_layers(
        1, HEADS, WIDTH, WIDTH // HEADS, bias=True, generator=g, dtype=torch.float32
    )[0]
    w |= {
        name: v if name[0] == "w" else torch.zeros_like(v)
        for name, v in layer._asdict().items()
    }
    if variant == "MLP":
        w |= {
            "up": normal(WIDTH, WIDTH),
            "up bias": zero(WIDTH),
            "down": normal(WIDTH, WIDTH),
            "down bias": zero(WIDTH),
        }
    return {name: v.clone().requires_grad_() for name, v in w.items()}


def network(w: dict[str, Tensor], x: Tensor, variant: str) -> Tensor:
    """The next place of both tokens."""
    layer = Layer(*(w[name] for name in Layer._fields))
    x = forward(
        x @ w["in"] + w["in bias"], [layer], skip=variant == "skip", check=False
    )
    if (
        variant == "MLP"
    ):  # in place of the skip: a map of each token, without a way around
        x = (
            torch.nn.functional.gelu(x @ w["up"] + w["up bias"]) @ w["down"]
            + w["down bias"]
        )
    return x @ w["out"] + w["out bias"]


def one(variant: str, seed: int) -> dict:
    g = torch.Generator().manual_seed(seed)
    w = weights(variant, g)
    optimizer = torch.optim.Adam(w.values(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in tqdm(range(STEPS), delay=3, leave=False):
        x, y = pairs(BATCH, g)
        loss = (network(w, x, variant) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        x, y = pairs(10000, g)
        loss = (network(w, x, variant) - y).square().mean()
        loops = {
            name: loop(w, variant, math.radians(degrees))
            for name, degrees in STARTS.items()
        }
    loops = {
        name: r if seed == 0 else {k: v for k, v in r.items() if k != "path"}
        for name, r in loops.items()
    }
    return {
        "seed": seed,
        "loss": float(loss),
        "stay": float((x - y).square().mean()),
    } | loops


def loop(w: dict[str, Tensor], variant: str, gap: float) -> dict:
    """The layer in a loop, from two points with this angle between them, until they
    have left ten radii.
    """
    path = [RADIUS * torch.tensor([[1.0, 0.0], [math.cos(gap), math.sin(gap)]])]
    while len(path) <= LOOPS and float(path[-1].norm(dim=-1).max()) < 10 * RADIUS:
        path.append(network(w, path[-1], variant))
    path = torch.stack(path)
    apart = (path[:, 0] - path[:, 1]).norm(dim=-1)
    apart = (apart / apart[0]).tolist()
    return {
        "path": [[round(float(v), 3) for v in p.flatten()] for p in path[::2]],
        "apart": [float(f"{v:.4g}") for v in apart[::10]],
        "radius": [
            round(float(v), 4) for v in path[::10].norm(dim=-1).mean(-1) / RADIUS
        ],
        "together": next((t for t, v in enumerate(apart) if v < 1e-3), None),
        "left": None if len(path) > LOOPS else len(path) - 1,
    }


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    began, results = time.time(), {}
    for variant in VARIANTS:
        results[variant] = [one(variant, seed) for seed in range(SEEDS)]
        for r in results[variant]:
            words = [
                f"{time.time() - began:5.0f} s  {variant} {r['seed']}:",
                f"loss {r['loss']:.1e} of {r['stay']:.1e},",
            ]
            for start in STARTS:
                end = r[start]
                words += [
                    f"{start}: apart {end['apart'][-1]:.3g},",
                    f"radius {end['radius'][-1]:.2f},",
                    f"together {end['together']}, left {end['left']};",
                ]
            print(*words, flush=True)
    settings = {
        "radius": RADIUS,
        "points": POINTS,
        "heads": HEADS,
        "width": WIDTH,
        "batch": BATCH,
        "steps": STEPS,
        "rate": RATE,
        "loops": LOOPS,
        "starts": STARTS,
        "seeds": SEEDS,
    }
    print(
        store.write("circle", results, settings=settings, seconds=time.time() - began)
    )


if __name__ == "__main__":
    sys.exit(main())
