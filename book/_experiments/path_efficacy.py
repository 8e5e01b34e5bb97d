"""Path efficacy: train small networks with skips on three tasks, and let the paths of
one length answer alone.

    python path_efficacy.py
    python path_efficacy.py --full --device cuda

The first takes the sizes of SMALL, on one CPU thread, for about 20 minutes; the second
those of FULL, nearer to the public code of Dong et al. 2021.

Writes path_efficacy.json and, for the page to recompute its numbers,
path_efficacy_network.json: one sorting network, its weights rounded to float16.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import math
import sys
import time
from collections.abc import Sequence

import store
import torch
from torch import Tensor

from attnbook.data.networks import train_reader
from attnlib import _require
from attnlib._require import require
from attnlib.attention import Layer, forward
from attnlib.efficacy import (
    Reader,
    accuracy,
    logit_parts,
    logits,
    random_reader,
    sorting,
)
from attnlib.paths import Path, path_counts, path_sums, path_term, restrict

SMALL = {
    "sorting": {
        "L": 6,
        "h": 2,
        "d": 48,
        "n": 8,
        "train": 2000,
        "test": 500,
        "steps": 1500,
        "batch": 50,
    },
    "memorisation": {
        "L": 6,
        "h": 2,
        "d": 64,
        "n": 16,
        "train": 512,
        "test": 0,
        "steps": 1000,
        "batch": 50,
    },
    "hull": {
        "L": 6,
        "h": 3,
        "d": 84,
        "n": 10,
        "train": 10000,
        "test": 500,
        "steps": 1500,
        "batch": 50,
    },
}
FULL = {
    "sorting": SMALL["sorting"] | {"train": 20000, "steps": 20000},
    "memorisation": SMALL["memorisation"]
    | {"d": 250, "n": 128, "train": 500, "steps": 20000},
    "hull": SMALL["hull"] | {"steps": 50000, "test": 3000},
}
RATE, GAIN, COUNTS, REPEATS = 1e-3, 0.5, (5, 20), 5
# (name, task, start size, shuffled labels, number of seeds)
RUNS = [
    ("sorting", "sorting", GAIN, False, 5),
    ("memorisation", "memorisation", GAIN, False, 5),
    ("hull", "hull", GAIN, False, 5),
    ("sorting, small start", "sorting", GAIN / 2, False, 3),
    ("sorting, large start", "sorting", GAIN * 2, False, 3),
    ("sorting, shuffled labels", "sorting", GAIN, True, 3),
]


def hull_labels(points: Tensor) -> Tensor:
    """Which points (*batch, n, 2), in general position, are corners of the convex hull:
    1 for a corner, 0 for a point inside.

    A point is a corner if the directions to all others leave a gap wider than a half
    turn.
    """
    _require.tokens(points, "points")
    n, width = points.shape[-2:]
    require(
        n >= 2 and width == 2,
        f"points must be (*batch, n, 2) with n >= 2, got {tuple(points.shape)}",
    )
    _require.finite(points=points)
    same = torch.eye(n, dtype=torch.bool, device=points.device)
    away = points.unsqueeze(-3) - points.unsqueeze(-2)
    away = away[..., ~same, :].unflatten(-2, (n, n - 1))
    angles = torch.atan2(away[..., 1], away[..., 0]).sort(-1).values
    once_around = angles[..., :1] + 2 * math.pi
    gaps = torch.cat([angles, once_around], -1).diff(dim=-1)
    return (gaps.amax(-1) > math.pi).long()


def draw_paths(
    heads: Sequence[int], length: int, count: int, *, generator: torch.Generator
) -> list[Path]:
    """Paths of one length, drawn uniformly and independently, so that one may come
    twice: random layers, then a random head in each, as in the public code of Dong et
    al. 2021.
    """
    path_counts(heads)  # refuses what are no numbers of heads
    require(
        len(set(heads)) == 1,
        "layers must have equal numbers of heads (else the draw is not uniform), "
        f"got {list(heads)}",
    )
    L = len(heads)
    require(0 <= length <= L, f"length must be from 0 to L = {L}, got {length}")
    _require.random(generator)
    paths = []
    for _ in range(count):
        taken = torch.randperm(L, generator=generator, device=generator.device)[:length]
        head = torch.randint(
            heads[0], (L,), generator=generator, device=generator.device
        )
        path = [None] * L
        for l in taken.tolist():
            path[l] = int(head[l])
        paths.append(tuple(path))
    return paths


def restricted_forward(
    x: Tensor,
    layers: Sequence[Layer],
    path: Path,
    *,
    attention: Sequence[Tensor] | None = None,
) -> Tensor:
    """What comes out if only the heads of one path are left, without value and output
    biases: the term of the path if the P are given, else with the P of the state that
    the path itself has reached, as in the public code of Dong et al. 2021 (which has a
    LayerNorm and biases besides).
    """
    if attention is not None:
        return path_term(x, layers, path, attention)
    bare = [layer._replace(b_v=None, b_o=None) for layer in restrict(layers, path)]
    return forward(x, bare) if bare else x


def estimate_length(
    x: Tensor,
    layers: Sequence[Layer],
    paths: Sequence[Path],
    *,
    attention: Sequence[Tensor] | None = None,
) -> Tensor:
    """The sum of all N_k paths of one length, estimated from m of them: N_k / m times
    their sum. With given P and uniform paths it is right on average.
    """
    lengths = {len(restrict(layers, path)) for path in paths}
    require(
        len(lengths) == 1,
        f"paths must be at least one, and of one length, got lengths {sorted(lengths)}",
    )
    how = {"attention": attention}
    total = sum(restricted_forward(x, layers, path, **how) for path in paths)
    heads = [len(layer.w_q) for layer in layers]
    counts = path_counts(heads, skip=True)
    return total * (counts[lengths.pop()] / len(paths))


def draw(task: str, count: int, n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Features and labels of `count` sequences of n tokens."""
    if task == "sorting":
        return sorting(count, n=n, generator=g)
    if (
        task == "memorisation"
    ):  # random words over 64 letters and a coin a token, in place of a corpus
        words = torch.randint(64, (count, n), generator=g)
        return torch.nn.functional.one_hot(words, 64).float(), torch.randint(
            2, (count, n), generator=g
        )
    points = 10 * torch.rand(count, n, 2, generator=g) + 3.3 * torch.randn(
        count, 1, 2, generator=g
    )
    return (points - 5) / 5, hull_labels(points)


def rerun(x: Tensor, layers: list[Layer], paths: list[Path]) -> Tensor:
    """The mean of the networks that keep one path each, with their own attention, head
    biases and full output bias.
    """
    return sum(
        forward(x, restrict(layers, p), check=False)
        if any(h is not None for h in p)
        else x
        for p in paths
    ) / len(paths)


def sampled(net: Reader, u: Tensor, y: Tensor, g: torch.Generator) -> dict[str, list]:
    """Accuracy by length of a few random paths: mode -> [repeat][length]."""
    x, out = u @ net.embed + net.position, {}
    _, attention = forward(x, net.layers, skip=True, return_attention=True, check=False)
    constant = path_sums(x, net.layers, skip=True, attention=attention).bias

    def score(state):
        return float(accuracy(state @ net.readout + net.bias, y))

    for count in COUNTS:
        modes = {f"{mode} {count}": [] for mode in ("frozen", "recomputed", "rerun")}
        for _ in range(REPEATS):
            draws = [
                draw_paths([len(l.w_q) for l in net.layers], k, count, generator=g)
                for k in range(len(net.layers) + 1)
            ]
            modes[f"frozen {count}"].append(
                [
                    score(
                        estimate_length(x, net.layers, p, attention=attention)
                        + constant
                    )
                    for p in draws
                ]
            )
            modes[f"recomputed {count}"].append(
                [score(estimate_length(x, net.layers, p) + constant) for p in draws]
            )
            modes[f"rerun {count}"].append(
                [score(rerun(x, net.layers, p)) for p in draws]
            )
        out |= modes
    return out


def by_length(net: Reader, u: Tensor, y: Tensor) -> dict:
    parts = logit_parts(net, u)
    sums = parts.by_length.cumsum(0)
    return {
        "whole": float(accuracy(logits(net, u), y)),
        "length": accuracy(parts.by_length + parts.constant, y).tolist(),
        "up to": accuracy(sums + parts.constant, y).tolist(),
        "norm": (parts.by_length.flatten(1).norm(dim=1) / sums[-1].norm()).tolist(),
    }


def guess(y: Tensor, z: Tensor, positions: bool) -> float:
    """The accuracy on z of the most frequent label of y, for each position or for all
    together.
    """
    best = y.mode(0).values if positions else y.flatten().mode().values
    return float((z == best).double().mean())


def one(
    task: str, size: dict, gain: float, shuffled: bool, seed: int, device: str
) -> tuple[dict, Reader]:
    g = torch.Generator().manual_seed(seed)
    u, y = draw(task, size["train"], size["n"], g)
    v, z = draw(task, size["test"], size["n"], g) if size["test"] else (u, y)
    positions = size["n"] if task != "hull" else 1
    start = random_reader(
        u.shape[-1],
        10 if task == "sorting" else 2,
        L=size["L"],
        h=size["h"],
        d=size["d"],
        n=positions,
        generator=g,
        gain=gain,
    )

    def to(t):
        return t.to(device)

    start = Reader(
        embed=to(start.embed),
        position=to(start.position),
        layers=[Layer(*map(to, layer)) for layer in start.layers],
        readout=to(start.readout),
        bias=to(start.bias),
    )
    u, y, v, z = map(to, (u, y, v, z))
    labels = y[torch.randperm(len(y), generator=g).to(device)] if shuffled else y
    net, losses = train_reader(
        start,
        u,
        labels,
        steps=size["steps"],
        batch=size["batch"],
        rate=RATE,
        generator=g,
        progress=True,
    )
    every = max(1, size["steps"] // 50)
    return {
        "seed": seed,
        "loss": [
            round(sum(losses[i : i + every]) / every, 5)
            for i in range(0, len(losses) // every * every, every)
        ],
        "trained on": float(accuracy(logits(net, u[:500]), labels[:500])),
        "guess": guess(y, z, task == "sorting"),
        "untrained": by_length(start, v, z),
        "trained": by_length(net, v, z),
        "sampled": sampled(net, v[:200], z[:200], g)
        if gain == GAIN and not shuffled
        else None,
    }, net


def pack(net: Reader) -> dict:
    """The weights as float16, one string."""
    tensors = [
        net.embed,
        net.position,
        net.readout,
        net.bias,
        *(w for layer in net.layers for w in layer),
    ]
    raw = (
        torch.cat([t.detach().cpu().flatten() for t in tensors])
        .half()
        .numpy()
        .astype("<f2")
        .tobytes()
    )
    return {
        "shapes": [list(t.shape) for t in tensors],
        "float16": base64.b64encode(raw).decode(),
        "sha256": hashlib.sha256(raw).hexdigest(),
    }


def rounded(net: Reader) -> Reader:
    def r(w):
        return w.half().float()

    return Reader(
        r(net[0]), r(net[1]), [Layer(*map(r, l)) for l in net.layers], *map(r, net[3:])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", help="one of the runs")
    args = parser.parse_args()
    torch.set_num_threads(1)
    began, sizes, results = time.time(), FULL if args.full else SMALL, {}
    name = "path_efficacy" + ("_full" if args.full else "")
    for label, task, gain, shuffled, seeds in RUNS:
        if args.only not in (None, label):
            continue
        results[label] = []
        for seed in range(seeds):
            found, net = one(task, sizes[task], gain, shuffled, seed, args.device)
            results[label].append(found)
            t = found["trained"]
            print(
                f"{time.time() - began:6.0f} s  {label} {seed}: {t['whole']:.3f}",
                *(f"{a:.3f}" for a in t["length"]),
                flush=True,
            )
            if label == "sorting" and seed == 0:
                network = rounded(net)
    if args.only:
        return
    settings = {
        "sizes": sizes,
        "rate": RATE,
        "start": GAIN,
        "paths drawn": COUNTS,
        "repeats": REPEATS,
        "seeds": "0, 1, 2, ...",
    }
    seconds = time.time() - began
    if not args.full:
        u, y = sorting(500, generator=torch.Generator().manual_seed(1000))
        packed = {
            "L": 6,
            "trained": by_length(network, u, y),
            "test": "sorting(500), seed 1000",
        } | pack(network)
        store.write(
            "path_efficacy_network",
            packed,
            settings=settings,
            seconds=seconds,
            device=args.device,
        )
        results["network sha256"] = packed["sha256"]
    print(
        store.write(
            name, results, settings=settings, seconds=seconds, device=args.device
        )
    )


if __name__ == "__main__":
    sys.exit(main())
